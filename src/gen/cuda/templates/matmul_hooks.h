/* SPDX-License-Identifier: MIT
 * What the templates of products share: names under the kernel's prefix, and operands with and
 * without groups under one name, MM(x_at). Included by them; matmul_end.h undefines it all.
 */

#define MM_CAT2(a, b) a##_##b
#define MM_CAT1(a, b) MM_CAT2(a, b)
#define MM(x)         MM_CAT1(PK_KERNEL, x)
#ifndef MM_HIDES
#define MM_HIDES 0
#endif

#define MM_WITHOUT_GROUP(x)                                                                        \
    template <int W>                                                                               \
    PK_D pk_lanes<MM_ACC_S, W> MM(x##_at)(const struct pk_args *g, const MM(x##_row) < W > *r,     \
                                          pk_i64 z, pk_i64 o, pk_i64 k, int cnt) {                 \
        return MM(x##_value)<W>(g, r, z, o, k, cnt);                                               \
    }
#define MM_WITH_GROUP(x)                                                                           \
    template <int W>                                                                               \
    PK_D pk_lanes<MM_ACC_S, W> MM(x##_at)(const struct pk_args *g, const MM(x##_row) < W > *r,     \
                                          pk_i64 z, pk_i64 o, pk_i64 k, int cnt) {                 \
        const MM(x##_group)<W> q = MM(x##_group_init)<W>(g, r, z, o, k, cnt);                      \
        return MM(x##_value)<W>(g, r, &q, z, o, k, cnt);                                           \
    }
#if MM_A_GROUP
MM_WITH_GROUP(a)
#else
MM_WITHOUT_GROUP(a)
#endif
#if MM_B0_GROUP
MM_WITH_GROUP(b0)
#else
MM_WITHOUT_GROUP(b0)
#endif
#if MM_NB > 1
#if MM_B1_GROUP
MM_WITH_GROUP(b1)
#else
MM_WITHOUT_GROUP(b1)
#endif
#endif
#if MM_NB > 2
#if MM_B2_GROUP
MM_WITH_GROUP(b2)
#else
MM_WITHOUT_GROUP(b2)
#endif
#endif
#if MM_NB > 3
#if MM_B3_GROUP
MM_WITH_GROUP(b3)
#else
MM_WITHOUT_GROUP(b3)
#endif
#endif
