/* SPDX-License-Identifier: MIT
 *
 * Plain hooks for the templates that work on rows, for tests: what all of them use. Lanes that were
 * not asked for hold ones in all bits (a NaN, or -1): a template must not use them. A call that the
 * template's comment does not allow stops the test.
 */
#ifndef ROW_HOOKS_H
#define ROW_HOOKS_H

#define RH_TYPE(V, S)                                                                              \
    static inline V rh_load_##V(const S *p, int n, pk_i64 stride) {                                \
        S t[PK_W];                                                                                 \
        if (n < 1 || n > PK_W) __builtin_trap();                                                   \
        __builtin_memset(t, 0xff, sizeof t);                                                       \
        for (int i = 0; i < n; i++)                                                                \
            t[i] = p[i * stride];                                                                  \
        V v;                                                                                       \
        __builtin_memcpy(&v, t, sizeof v);                                                         \
        return v;                                                                                  \
    }                                                                                              \
    /* Elements at `at`, `stride` apart, of buffer `out`; the buffer after it counts them. */      \
    static inline void rh_store_##V(const struct pk_args *g, int out, pk_i64 at, pk_i64 stride,    \
                                    int n, V v) {                                                  \
        S t[PK_W];                                                                                 \
        if (n < 1 || n > PK_W) __builtin_trap();                                                   \
        __builtin_memcpy(t, &v, sizeof t);                                                         \
        for (int i = 0; i < n; i++) {                                                              \
            ((S *)g->buf[out])[at + i * stride] = t[i];                                            \
            ((unsigned char *)g->buf[out + 1])[at + i * stride]++;                                 \
        }                                                                                          \
    }

RH_TYPE(vf32, float)
RH_TYPE(vf64, double)
RH_TYPE(vi32, int)
RH_TYPE(vi64, pk_i64)

static inline void rh_check(int ok) {
    if (!ok) __builtin_trap();
}

/* base + 0, base + 1, .. */
static inline vf32 rh_iota(pk_i64 base) {
    float t[PK_W];
    vf32 v;
    for (int i = 0; i < PK_W; i++)
        t[i] = (float)(base + i);
    __builtin_memcpy(&v, t, sizeof v);
    return v;
}

#endif
