/* SPDX-License-Identifier: MIT
 * Products of few rows (matmul_rows.c), vectors along n.
 */

#if MM_B0_FACTOR
#define MM_FACTOR_ROW(c) struct MM(f0_row) u##c = MM(f0_row_init)(g, z, n + c * PK_W, cnt);
#define MM_FACTOR(c)     MM(f0_value)(g, &u##c, z, n + c * PK_W, start, cnt)
#else
#define MM_FACTOR_ROW(c)
#define MM_FACTOR(c) MM_SET(0)
#endif

/* s[row][n ..] continues with k0 .. k1-1 for WIDTH vectors of columns; cnt columns in a tail. Where
 * groups have factors t is the sum of those before, and s the chain of the one at hand. */
#define MM_N_ROW(j, c)                                                                             \
    struct MM(b##j##_row) r##c = MM(b##j##_row_init)(g, z, n + c * PK_W, cnt);                     \
    MM_FACTOR_ROW(c)
#define MM_N_GROUP(j, c)                                                                           \
    struct MM(b##j##_group) q##c = MM(b##j##_group_of)(g, &r##c, z, n + c * PK_W, k, cnt);         \
    MM(b##j##_ahead)(g, &r##c, z, n + c * PK_W, k);
#define MM_N_VALUE(j, c) MM_ACC b##c = MM(b##j##_at)(g, &r##c, &q##c, z, n + c * PK_W, k, cnt);
#define MM_N_LOAD_1(i, c)                                                                          \
    MM_ACC s##i##_##c = k0 ? MM(get)(s + i * ld + c * PK_W) : MM_SET(0), t##i##_##c = MM_SET(0);
#define MM_N_LOAD(i, VECS) VECS(MM_N_LOAD_1, i)
#define MM_N_STEP_1(i, c)  s##i##_##c = MM_FMA(a##i, b##c, s##i##_##c);
#define MM_N_STEP(i, VECS)                                                                         \
    MM_ACC a##i = MM_SET(x[k * height + i]);                                                       \
    VECS(MM_N_STEP_1, i)
#define MM_N_FACTOR(j, c) const MM_ACC w##c = MM_FACTOR(c);
#define MM_N_CLOSE_1(i, c)                                                                         \
    t##i##_##c = MM_FMA(s##i##_##c, w##c, t##i##_##c);                                             \
    s##i##_##c = MM_SET(0);
#define MM_N_CLOSE(i, VECS) VECS(MM_N_CLOSE_1, i)
#define MM_N_STORE_1(i, c)  MM(put)(s + i * ld + c * PK_W, MM_B0_FACTOR ? t##i##_##c : s##i##_##c);
#define MM_N_STORE(i, VECS) VECS(MM_N_STORE_1, i)

/* The end of a group. */
#define MM_N_END(j, h, VECS)                                                                       \
    if (MM_B0_FACTOR) {                                                                            \
        VECS(MM_N_FACTOR, j) MM_ROWS_##h(MM_N_CLOSE, VECS)                                         \
    }

/* From k to end in whole steps, which start at multiples of MM_DEPTH: what depends on k % MM_DEPTH
 * alone is decided when this is compiled. */
#define MM_N_STEPS(j, h, VECS)                                                                     \
    for (pk_i64 step = k / MM_DEPTH; (step + 1) * MM_DEPTH <= end; step++) {                       \
        _Pragma("GCC unroll 8") for (pk_i64 i = 0; i < MM_DEPTH; i++) {                            \
            k = step * MM_DEPTH + i;                                                               \
            VECS(MM_N_VALUE, j) MM_ROWS_##h(MM_N_STEP, VECS)                                       \
        }                                                                                          \
        k++;                                                                                       \
    }

/* Whole groups of whole steps first; then whatever is left. */
#define MM_N_LOOP(j, h, VECS)                                                                      \
    const pk_i64 whole =                                                                           \
        MM_DEPTH > 1 && MM_B##j##_GROUP % MM_DEPTH == 0 ? MM_B##j##_GROUP : MM_ENDLESS;            \
    pk_i64 start = k0, k, end;                                                                     \
    VECS(MM_N_ROW, j)                                                                              \
    MM_ROWS_##h(MM_N_LOAD, VECS) for (; whole < MM_ENDLESS && start + whole <= k1;                 \
                                      start += whole) {                                            \
        k = start, end = start + whole;                                                            \
        VECS(MM_N_GROUP, j)                                                                        \
        MM_N_STEPS(j, h, VECS)                                                                     \
        MM_N_END(j, h, VECS)                                                                       \
    }                                                                                              \
    for (; start < k1; start = end) {                                                              \
        k = start, end = MM(group_end)(k, MM_B##j##_GROUP, k1);                                    \
        VECS(MM_N_GROUP, j)                                                                        \
        if (MM_DEPTH > 1 && MM_B##j##_GROUP >= MM_ENDLESS) {                                       \
            MM_N_STEPS(j, h, VECS)                                                                 \
        }                                                                                          \
        for (; k < end; k++) {                                                                     \
            VECS(MM_N_VALUE, j) MM_ROWS_##h(MM_N_STEP, VECS)                                       \
        }                                                                                          \
        MM_N_END(j, h, VECS)                                                                       \
    }                                                                                              \
    MM_ROWS_##h(MM_N_STORE, VECS)

#define MM_DOT_N(j, h)                                                                             \
    static __attribute__((noinline)) void MM(dot##j##_##h)(                                        \
        const struct pk_args *g, pk_i64 z, pk_i64 n, pk_i64 k0, pk_i64 k1, const MM_ACC_S *x,      \
        MM_ACC_S *s, pk_i64 ld) {                                                                  \
        enum { height = h, cnt = PK_W };                                                           \
        MM_N_LOOP(j, h, MM_VECS_##h)                                                               \
    }                                                                                              \
    static __attribute__((noinline)) void MM(tail##j##_##h)(                                       \
        const struct pk_args *g, pk_i64 z, pk_i64 n, int cnt, pk_i64 k0, pk_i64 k1,                \
        const MM_ACC_S *x, MM_ACC_S *s, pk_i64 ld) {                                               \
        enum { height = h };                                                                       \
        MM_N_LOOP(j, h, MM_ONE)                                                                    \
    }

#define MM_CASE_N(j, h)                                                                            \
    for (; n + MM_NVECS_##h * PK_W <= n1; n += MM_NVECS_##h * PK_W)                                \
        MM(dot##j##_##h)(g, z, n, k0, k1, x, sums + n - n0, p->ld);                                \
    for (; n < n1; n += PK_W)                                                                      \
        MM(tail##j##_##h)                                                                          \
    (g, z, n, (int)MM(min)(n1 - n, PK_W), k0, k1, x, sums + n - n0, p->ld);

#define MM_COLUMNS_N(j)                                                                            \
    static void MM(columns##j)(const struct pk_args *g, const struct MM(plan) * p, pk_i64 z,       \
                               pk_i64 chunk, pk_i64 n0, pk_i64 n1, MM_ACC_S * sums) {              \
        pk_i64 rows = MM(min)(MM_MR, p->M - chunk * MM_MR), k0 = 0;                                \
        const MM_ACC_S *x = MM(x_n)(g, p, z, chunk);                                               \
        do {                                                                                       \
            pk_i64 n = n0, k1 = MM(min)(k0 + MM_KB, p->K);                                         \
            MM_SWITCH(MM_CASE_N, j)                                                                \
            k0 += MM_KB;                                                                           \
        } while (k0 < p->K);                                                                       \
    }
