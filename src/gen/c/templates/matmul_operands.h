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
#ifndef MM_PACKS
#define MM_PACKS 0
#endif
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
