/* SPDX-License-Identifier: MIT
 *
 * Plain hooks for the matmul templates, one scalar at a time, for tests. Included once per kernel,
 * behind its constants:
 *   sym = Z, M, N, K; buf = A, B0, B1, B2, bias[N], out, count (how often each element is stored).
 *   A[z][m][k] or, with MM_A_AXIS 0, A[z][k][m]; B likewise with n.
 *   out = acc0 + 3 * acc1 + 5 * acc2 + bias[n].
 * With MM_B0_FACTOR B0 is to be taken times 1 + (n + k / MM_B0_GROUP) % 3.
 * Lanes that were not asked for hold a NaN (or a large number): the template must not use them.
 */
#define HK2(a, b) a##_##b
#define HK1(a, b) HK2(a, b)
#define HK(x)     HK1(PK_KERNEL, x)

struct HK(shape) {
    pk_i64 Z, M, N, K;
};

static inline struct HK(shape) HK(get_shape)(const struct pk_args *g) {
    return (struct HK(shape)){g->sym[0], g->sym[1], g->sym[2], g->sym[3]};
}

/* n elements from p on, `stride` apart. */
static inline MM_ACC HK(load)(const MM_ACC_S *p, int n) {
    MM_ACC_S t[PK_W];
    __builtin_memset(t, 0xff, sizeof t);
    for (int i = 0; i < n; i++)
        t[i] = p[i];
    MM_ACC v;
    __builtin_memcpy(&v, t, sizeof v);
    return v;
}

#define HK_OPERAND(x, buffer, rows, axis, value)                                                   \
    struct HK(x##_row) {                                                                           \
        const MM_ACC_S *p;                                                                         \
    };                                                                                             \
    static inline struct HK(x##_row)                                                               \
        HK(x##_row_init)(const struct pk_args *g, pk_i64 z, pk_i64 row, int n) {                   \
        const MM_ACC_S *p = (const MM_ACC_S *)g->buf[buffer];                                      \
        pk_i64 R = g->sym[rows], K = g->sym[3];                                                    \
        if (n < 1 || n > ((axis) ? 1 : PK_W) || row + n > R) __builtin_trap();                     \
        return (struct HK(x##_row)){p + z * R * K + row * ((axis) ? K : 1)};                       \
    }                                                                                              \
    static inline MM_ACC HK(x##_##value)(const struct pk_args *g, const struct HK(x##_row) * r,    \
                                         pk_i64 z, pk_i64 row, pk_i64 k, int n) {                  \
        (void)z;                                                                                   \
        if (n < 1 || n > PK_W) __builtin_trap();                                                   \
        if ((axis) && (k % PK_W || k + n > g->sym[3])) __builtin_trap();                           \
        if (!(axis) && (k >= g->sym[3] || row + n > g->sym[rows])) __builtin_trap();               \
        return HK(load)(r->p + ((axis) ? k : k * g->sym[rows]), n);                                \
    }

/* The same with groups of `length` along k: a wrong group stops the test. */
#define HK_GROUPED(x, rows, axis, length)                                                          \
    struct HK(x##_group) {                                                                         \
        pk_i64 number, row;                                                                        \
    };                                                                                             \
    static inline struct HK(x##_group)                                                             \
        HK(x##_group_init)(const struct pk_args *g, const struct HK(x##_row) * r, pk_i64 z,        \
                           pk_i64 row, pk_i64 k, int n) {                                          \
        (void)z, (void)r;                                                                          \
        if (n < 1 || n > ((axis) ? 1 : PK_W) || row + n > g->sym[rows] || k < 0 || k >= g->sym[3]) \
            __builtin_trap();                                                                      \
        return (struct HK(x##_group)){k / (length), row};                                          \
    }                                                                                              \
    static inline MM_ACC HK(x##_value)(const struct pk_args *g, const struct HK(x##_row) * r,      \
                                       const struct HK(x##_group) * q, pk_i64 z, pk_i64 row,       \
                                       pk_i64 k, int n) {                                          \
        if (q->number != k / (length) || q->row != row) __builtin_trap();                          \
        return HK(x##_plain)(g, r, z, row, k, n);                                                  \
    }

#ifdef MM_A_GROUP
HK_OPERAND(a, 0, 1, MM_A_AXIS, plain)
HK_GROUPED(a, 1, MM_A_AXIS, MM_A_GROUP)
#else
HK_OPERAND(a, 0, 1, MM_A_AXIS, value)
#endif
#ifdef MM_B0_GROUP
HK_OPERAND(b0, 1, 2, MM_B0_AXIS, plain)
HK_GROUPED(b0, 2, MM_B0_AXIS, MM_B0_GROUP)
#else
HK_OPERAND(b0, 1, 2, MM_B0_AXIS, value)
#endif
#ifdef MM_B0_FACTOR
struct HK(f0_row) {
    pk_i64 n;
};
static inline struct HK(f0_row)
    HK(f0_row_init)(const struct pk_args *g, pk_i64 z, pk_i64 row, int n) {
    (void)z;
    if (n < 1 || n > PK_W || row + n > g->sym[2]) __builtin_trap();
    return (struct HK(f0_row)){row};
}
static inline MM_ACC HK(f0_value)(const struct pk_args *g, const struct HK(f0_row) * r, pk_i64 z,
                                  pk_i64 row, pk_i64 k, int n) {
    MM_ACC_S t[PK_W];
    (void)z;
    if (row != r->n || n < 1 || k < 0 || k >= g->sym[3]) __builtin_trap();
    for (int i = 0; i < PK_W; i++)
        t[i] = 1 + (MM_ACC_S)((row + i + k / MM_B0_GROUP) % 3);
    return HK(load)(t, n);
}
#endif
#if MM_NB > 1 && defined MM_B1_GROUP
HK_OPERAND(b1, 2, 2, MM_B1_AXIS, plain)
HK_GROUPED(b1, 2, MM_B1_AXIS, MM_B1_GROUP)
#elif MM_NB > 1
HK_OPERAND(b1, 2, 2, MM_B1_AXIS, value)
#endif
#if MM_NB > 2
HK_OPERAND(b2, 3, 2, MM_B2_AXIS, value)
#endif

struct HK(c_row) {
    pk_i64 at;
};

static inline struct HK(c_row) HK(c_row_init)(const struct pk_args *g, pk_i64 z, pk_i64 m) {
    return (struct HK(c_row)){(z * g->sym[1] + m) * g->sym[2]};
}

#ifdef MM_C_FETCH
/* As many lines as there may be, all of what the tile stores. */
static inline const void **HK(c_fetch)(const struct pk_args *g, const struct HK(c_row) * r,
                                       pk_i64 z, pk_i64 m, pk_i64 n, int cnt, const void **to) {
    (void)z;
    if (m >= g->sym[1] || cnt < 1 || cnt > MM_NV * PK_W || n + cnt > g->sym[2]) __builtin_trap();
    for (int leaf = 0; leaf < MM_C_FETCH; leaf++)
        for (int i = 0; i < cnt * 8; i += 64)
            *to++ = (const MM_ACC_S *)g->buf[5] + r->at + n + i / 8;
    return to;
}
#endif

static inline void HK(c_store)(const struct pk_args *g, const struct HK(c_row) * r, pk_i64 z,
                               pk_i64 m, pk_i64 n, int cnt, MM_ACC acc0
#if MM_NB > 1
                               ,
                               MM_ACC acc1
#endif
#if MM_NB > 2
                               ,
                               MM_ACC acc2
#endif
) {
    (void)z;
    if (m >= g->sym[1] || n % PK_W || cnt < 1 || cnt > PK_W || n + cnt > g->sym[2])
        __builtin_trap();
#if MM_NB > 1
    acc0 += acc1 * 3;
#endif
#if MM_NB > 2
    acc0 += acc2 * 5;
#endif
    acc0 += HK(load)((const MM_ACC_S *)g->buf[4] + n, cnt);
    MM_ACC_S t[PK_W];
    __builtin_memcpy(t, &acc0, sizeof t);
    for (int i = 0; i < cnt; i++) {
        ((MM_ACC_S *)g->buf[5])[r->at + n + i] = t[i];
        ((unsigned char *)g->buf[6])[r->at + n + i]++;
    }
}

#undef HK
#undef HK1
#undef HK2
#undef HK_OPERAND
#undef HK_GROUPED
