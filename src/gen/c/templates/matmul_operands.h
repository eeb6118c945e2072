/* SPDX-License-Identifier: MIT
 * What both matmul templates share: names under the kernel's prefix, defaults, and operands with and
 * without groups under one interface (x_group_of, x_at). Included by them; they undefine it all.
 */

#define MM_CAT2(a, b)   a##_##b
#define MM_CAT1(a, b)   MM_CAT2(a, b)
#define MM(x)           MM_CAT1(PK_KERNEL, x)
#define MM_PASTE2(a, b) a##b
#define MM_PASTE(a, b)  MM_PASTE2(a, b)
#define MM_FMA          MM_PASTE(pk_fma_, MM_SUFFIX)
#define MM_SET          MM_PASTE(pk_set_, MM_SUFFIX)
#define MM_SELECT       MM_PASTE(pk_select_, MM_SUFFIX)
#define MM_TRANSPOSE    MM_PASTE(pk_transpose_, MM_SUFFIX)
#define MM_INLINE       static inline __attribute__((always_inline, unused))
#ifndef MM_A_GROUP
#define MM_A_GROUP 0
#endif
#ifndef MM_B0_GROUP
#define MM_B0_GROUP 0
#endif
#ifndef MM_B1_GROUP
#define MM_B1_GROUP 0
#endif
#ifndef MM_B2_GROUP
#define MM_B2_GROUP 0
#endif
#ifndef MM_B3_GROUP
#define MM_B3_GROUP 0
#endif
#ifndef MM_B0_AHEAD
#define MM_B0_AHEAD 0
#endif
#ifndef MM_B1_AHEAD
#define MM_B1_AHEAD 0
#endif
#ifndef MM_B2_AHEAD
#define MM_B2_AHEAD 0
#endif
#ifndef MM_B3_AHEAD
#define MM_B3_AHEAD 0
#endif
#ifndef MM_HIDES
#define MM_HIDES 0
#endif
#ifndef MM_PACKS
#define MM_PACKS 0
#endif
#ifndef MM_PANELS
#define MM_PANELS 0
#endif
/* Elements along k that are written out: those of a word of 4-bit elements. */
#define MM_DEPTH (MM_PANELS ? 8 : 1)
#ifndef PK_CHECK
#define PK_CHECK 0
#endif

/* Where an operand has no groups, one group reaches over everything. */
#define MM_NO_GROUP(x)                                                                             \
    struct MM(x##_group) {                                                                         \
        char none;                                                                                 \
    };                                                                                             \
    MM_INLINE struct MM(x##_group)                                                                 \
        MM(x##_group_of)(const struct pk_args *g, const struct MM(x##_row) * r, pk_i64 z,          \
                         pk_i64 row, pk_i64 k, int n) {                                            \
        (void)g, (void)r, (void)z, (void)row, (void)k, (void)n;                                    \
        return (struct MM(x##_group)){0};                                                          \
    }                                                                                              \
    MM_INLINE MM_ACC MM(x##_at)(const struct pk_args *g, const struct MM(x##_row) * r,             \
                                const struct MM(x##_group) * q, pk_i64 z, pk_i64 row, pk_i64 k,    \
                                int n) {                                                           \
        (void)q;                                                                                   \
        return MM(x##_value)(g, r, z, row, k, n);                                                  \
    }
#define MM_WITH_GROUP(x)                                                                           \
    MM_INLINE struct MM(x##_group)                                                                 \
        MM(x##_group_of)(const struct pk_args *g, const struct MM(x##_row) * r, pk_i64 z,          \
                         pk_i64 row, pk_i64 k, int n) {                                            \
        return MM(x##_group_init)(g, r, z, row, k, n);                                             \
    }                                                                                              \
    MM_INLINE MM_ACC MM(x##_at)(const struct pk_args *g, const struct MM(x##_row) * r,             \
                                const struct MM(x##_group) * q, pk_i64 z, pk_i64 row, pk_i64 k,    \
                                int n) {                                                           \
        return MM(x##_value)(g, r, q, z, row, k, n);                                               \
    }
#define MM_ENDLESS ((pk_i64)1 << 40)
#if MM_A_GROUP
MM_WITH_GROUP(a)
#else
MM_NO_GROUP(a)
#undef MM_A_GROUP
#define MM_A_GROUP MM_ENDLESS
#endif
#if MM_B0_GROUP
MM_WITH_GROUP(b0)
#else
MM_NO_GROUP(b0)
#undef MM_B0_GROUP
#if MM_B0_AHEAD
#define MM_B0_GROUP 64
#else
#define MM_B0_GROUP MM_ENDLESS
#endif
#endif
#if MM_NB > 1
#if MM_B1_GROUP
MM_WITH_GROUP(b1)
#else
MM_NO_GROUP(b1)
#undef MM_B1_GROUP
#if MM_B1_AHEAD
#define MM_B1_GROUP 64
#else
#define MM_B1_GROUP MM_ENDLESS
#endif
#endif
#endif
#if MM_NB > 2
#if MM_B2_GROUP
MM_WITH_GROUP(b2)
#else
MM_NO_GROUP(b2)
#undef MM_B2_GROUP
#if MM_B2_AHEAD
#define MM_B2_GROUP 64
#else
#define MM_B2_GROUP MM_ENDLESS
#endif
#endif
#endif
#if MM_NB > 3
#if MM_B3_GROUP
MM_WITH_GROUP(b3)
#else
MM_NO_GROUP(b3)
#undef MM_B3_GROUP
#if MM_B3_AHEAD
#define MM_B3_GROUP 64
#else
#define MM_B3_GROUP MM_ENDLESS
#endif
#endif
#endif

/* ---- terms that do not count -------------------------------------------------------------- */

/* With MM_HIDES a 0 of one operand hides the other's element. Products are computed without a look
 * at that: a hidden NaN or infinity leaves a NaN in the sum, so sums that are finite stand, and the
 * others are taken again, term by term. Same order: one chain, or one for each lane. */
#if MM_HIDES
static __attribute__((noinline)) MM_ACC_S MM(shown)(const struct pk_args *g, pk_i64 z, pk_i64 m,
                                                    pk_i64 n, pk_i64 K, int lanes) {
    /* Columns that start at a multiple of PK_W: n is the last lane. */
    const pk_i64 first = MM_B0_AXIS ? n : n - n % PK_W;
    const int columns = (int)(n - first) + 1;
    struct MM(a_row) ra = MM(a_row_init)(g, z, m, 1);
    struct MM(b0_row) rb = MM(b0_row_init)(g, z, first, columns);
    MM_ACC_S x[PK_W], y[PK_W], t[PK_W] = {0};
    for (pk_i64 k = 0; k < K; k++) {
        const int lane = (int)(k % PK_W), left = K - k < PK_W ? (int)(K - k) : PK_W;
        if (!MM_A_AXIS || !lane) {
            struct MM(a_group) q = MM(a_group_of)(g, &ra, z, m, k, 1);
            MM_ACC v = MM(a_at)(g, &ra, &q, z, m, k, MM_A_AXIS ? left : 1);
            __builtin_memcpy(x, &v, sizeof v);
        }
        if (!MM_B0_AXIS || !lane) {
            struct MM(b0_group) q = MM(b0_group_of)(g, &rb, z, first, k, columns);
            MM_ACC v = MM(b0_at)(g, &rb, &q, z, first, k, MM_B0_AXIS ? left : columns);
            __builtin_memcpy(y, &v, sizeof v);
        }
        const MM_ACC_S a = x[MM_A_AXIS ? lane : 0], b = y[MM_B0_AXIS ? lane : columns - 1];
        if ((MM_HIDES == 1 ? a : b) == 0) continue;
        MM_ACC v = MM_FMA(MM_SET(a), MM_SET(b), MM_SET(t[lanes ? lane : 0]));
        __builtin_memcpy(&t[lanes ? lane : 0], &v, sizeof t[0]);
    }
    for (int half = PK_W / 2; half && lanes; half /= 2)
        for (int i = 0; i < half; i++)
            t[i] += t[i + half];
    return t[0];
}
#endif

/* Sums c[0 .. cnt-1] of row m, columns n .. n+cnt-1. */
MM_INLINE void MM(show)(const struct pk_args *g, pk_i64 z, pk_i64 m, pk_i64 n, pk_i64 cnt, pk_i64 K,
                        int lanes, MM_ACC_S *c) {
#if MM_HIDES
    for (pk_i64 i = 0; i < cnt; i++)
        if (c[i] - c[i] != 0) c[i] = MM(shown)(g, z, m, n + i, K, lanes);
#else
    (void)g, (void)z, (void)m, (void)n, (void)cnt, (void)K, (void)lanes, (void)c;
#endif
}
