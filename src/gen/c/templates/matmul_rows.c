/* SPDX-License-Identifier: MIT
 *
 * out_j[z,m,n] = store_j(sum_k A[z,m,k] * B0[z,n,k], sum_k A[z,m,k] * B1[z,n,k], ..), few rows
 *
 * B is read once, where it lies, and evaluated (its prologue) in registers; nothing of it is
 * packed. A is evaluated once into shared scratch. Rows are taken MM_MR at a time; B is read again
 * for each such chunk, so this is meant for M <= MM_MR.
 *
 * K order. Vectors of B along k (axis 1): lanes. Lane l of PK_W is one chain acc = fma(a, b, acc)
 * from 0 over k = l, l + PK_W, ..; then lanes are added in a tree, l and l + PK_W / 2 first.
 * Vectors of B along n (axis 0): sequential, one chain over k = 0 .. K-1, as in matmul.c; with
 * MM_B0_FACTOR a chain from 0 over each group, and over the groups acc = fma(chain, factor, acc).
 * None depends on threads, on M or on blocks.
 *
 * Phase 0 evaluates A; phase 1 has a task for each block of columns.
 *
 * Interface: that of matmul.c (the comment at its head), with these constants:
 *   PK_KERNEL, MM_NAME, MM_ACC, MM_ACC_S, MM_SUFFIX, MM_NB, MM_A_AXIS, MM_B0_AXIS ..
 *   #define MM_MR 8                rows at a time: 1, 2, 4, 6, 8, 12 or 16
 *   optional:
 *   #define MM_M 1                 M, if it is known: only code for it is made
 *   #define MM_KB 16               axis 0: elements along k between which sums rest in memory. For B as
 *                                  [k][n]: the rows that the processor can stream at once
 *   #define MM_PANELS 1            axis 0: B lies as [n / PK_W][k][PK_W], or in words of several k
 *   #define MM_B0_FACTOR 1         with MM_PANELS and MM_B0_GROUP: B is b0_value times what these give,
 *                                  the same all over a group. One operand only
 *   struct MM(f0_row); MM(f0_row_init)(..); MM(f0_value)(..);   like b0_row, b0_row_init, b0_value
 *   #define MM_B0_AHEAD 512        fetch B0 into the cache so many elements along k ahead, about 2 KiB
 *                                  of its largest leaf, with one more function:
 *   void MM(b0_fetch)(const struct pk_args *g, const struct MM(b0_row) *r, pk_i64 z, pk_i64 n,
 *                     pk_i64 k, int count);
 *                                  prefetches k .. k+count-1 of row n (axis 1) or of columns n ..
 *                                  n+PK_W-1; k may be past K; count is MM_B0_GROUP, or 64 without.
 *                                  MM_B1_AHEAD ..
 *   #define MM_PACKS 1             operands packed once by functions of the generator: see matmul.c
 */

#include "matmul_operands.h"

#ifndef MM_M
#define MM_M 0
#endif
#if MM_PANELS
#undef MM_KB
#define MM_KB MM_ENDLESS
#endif
#ifndef MM_KB
#define MM_KB 16
#endif
#ifndef MM_B0_FACTOR
#define MM_B0_FACTOR 0
#endif

/* Fetches ahead; nothing where the generator wants none. */
#define MM_NO_FETCH(x)                                                                             \
    MM_INLINE void MM(x##_ahead)(const struct pk_args *g, const struct MM(x##_row) * r, pk_i64 z,  \
                                 pk_i64 n, pk_i64 k) {                                             \
        (void)g, (void)r, (void)z, (void)n, (void)k;                                               \
    }
#define MM_FETCH(x, ahead, count)                                                                  \
    MM_INLINE void MM(x##_ahead)(const struct pk_args *g, const struct MM(x##_row) * r, pk_i64 z,  \
                                 pk_i64 n, pk_i64 k) {                                             \
        MM(x##_fetch)(g, r, z, n, k + ahead, count);                                               \
    }
#if MM_B0_AHEAD
MM_FETCH(b0, MM_B0_AHEAD, MM_B0_GROUP)
#else
MM_NO_FETCH(b0)
#endif
#if MM_NB > 1
#if MM_B1_AHEAD
MM_FETCH(b1, MM_B1_AHEAD, MM_B1_GROUP)
#else
MM_NO_FETCH(b1)
#endif
#endif
#if MM_NB > 2
#if MM_B2_AHEAD
MM_FETCH(b2, MM_B2_AHEAD, MM_B2_GROUP)
#else
MM_NO_FETCH(b2)
#endif
#endif
#if MM_NB > 3
#if MM_B3_AHEAD
MM_FETCH(b3, MM_B3_AHEAD, MM_B3_GROUP)
#else
MM_NO_FETCH(b3)
#endif
#endif

/* Which axes of B occur: A is kept as [m][k] for axis 1, as [k][rows of a chunk] for axis 0. */
#if MM_B0_AXIS == 1 || (MM_NB > 1 && MM_B1_AXIS == 1) || (MM_NB > 2 && MM_B2_AXIS == 1) ||         \
    (MM_NB > 3 && MM_B3_AXIS == 1)
#define MM_ANY_K 1
#else
#define MM_ANY_K 0
#endif
#if MM_B0_AXIS == 0 || (MM_NB > 1 && MM_B1_AXIS == 0) || (MM_NB > 2 && MM_B2_AXIS == 0) ||         \
    (MM_NB > 3 && MM_B3_AXIS == 0)
#define MM_ANY_N 1
#else
#define MM_ANY_N 0
#endif

/* Heights for which there is code. */
#if MM_M == 0 || MM_M > MM_MR
#define MM_HAS_1  1
#define MM_HAS_2  (MM_MR >= 2)
#define MM_HAS_4  (MM_MR >= 4)
#define MM_HAS_6  (MM_MR >= 6)
#define MM_HAS_8  (MM_MR >= 8)
#define MM_HAS_12 (MM_MR >= 12)
#define MM_HAS_16 (MM_MR >= 16)
#else
#define MM_HAS_1  (MM_M == 1)
#define MM_HAS_2  (MM_M == 2)
#define MM_HAS_4  (MM_M == 3 || MM_M == 4)
#define MM_HAS_6  (MM_M == 5 || MM_M == 6)
#define MM_HAS_8  (MM_M == 7 || MM_M == 8)
#define MM_HAS_12 (MM_M > 8 && MM_M <= 12)
#define MM_HAS_16 (MM_M > 12)
#endif

/* Columns (axis 1) or vectors of columns (axis 0) at once for a height, by register count. All
 * divide PK_W. */
#if PK_W == 16
#define MM_WIDE_1(X, a) MM_EIGHT(X, a)
#define MM_WIDE_2(X, a) MM_EIGHT(X, a)
#define MM_WIDE_4(X, a) MM_FOUR(X, a)
#define MM_WIDE_6(X, a) MM_FOUR(X, a)
#define MM_WIDE_8(X, a) MM_TWO(X, a)
#define MM_WIDTH_1      8
#define MM_WIDTH_2      8
#define MM_WIDTH_4      4
#define MM_WIDTH_6      4
#define MM_WIDTH_8      2
#else
#if PK_W == 8
#define MM_WIDE_1(X, a) MM_EIGHT(X, a)
#define MM_WIDTH_1      8
#else
#define MM_WIDE_1(X, a) MM_FOUR(X, a)
#define MM_WIDTH_1      4
#endif
#define MM_WIDE_2(X, a) MM_FOUR(X, a)
#define MM_WIDE_4(X, a) MM_TWO(X, a)
#define MM_WIDE_6(X, a) MM_TWO(X, a)
#define MM_WIDE_8(X, a) MM_ONE(X, a)
#define MM_WIDTH_2      4
#define MM_WIDTH_4      2
#define MM_WIDTH_6      2
#define MM_WIDTH_8      1
#endif
#define MM_WIDE_12(X, a) MM_ONE(X, a)
#define MM_WIDE_16(X, a) MM_ONE(X, a)
#define MM_WIDTH_12      1
#define MM_WIDTH_16      1
/* Of axis 0 in panels: fewer streams to read from. */
#if MM_PANELS && PK_W >= 8
#define MM_VECS_1(X, a) MM_FOUR(X, a)
#define MM_VECS_2(X, a) MM_FOUR(X, a)
#define MM_NVECS_1      4
#define MM_NVECS_2      4
#else
#define MM_VECS_1(X, a) MM_WIDE_1(X, a)
#define MM_VECS_2(X, a) MM_WIDE_2(X, a)
#define MM_NVECS_1      MM_WIDTH_1
#define MM_NVECS_2      MM_WIDTH_2
#endif
#define MM_VECS_4(X, a)  MM_WIDE_4(X, a)
#define MM_VECS_6(X, a)  MM_WIDE_6(X, a)
#define MM_VECS_8(X, a)  MM_WIDE_8(X, a)
#define MM_VECS_12(X, a) MM_WIDE_12(X, a)
#define MM_VECS_16(X, a) MM_WIDE_16(X, a)
#define MM_NVECS_4       MM_WIDTH_4
#define MM_NVECS_6       MM_WIDTH_6
#define MM_NVECS_8       MM_WIDTH_8
#define MM_NVECS_12      MM_WIDTH_12
#define MM_NVECS_16      MM_WIDTH_16
#define MM_ONE(X, a)     X(a, 0)
#define MM_TWO(X, a)     MM_ONE(X, a) X(a, 1)
#define MM_FOUR(X, a)    MM_TWO(X, a) X(a, 2) X(a, 3)
#define MM_EIGHT(X, a)   MM_FOUR(X, a) X(a, 4) X(a, 5) X(a, 6) X(a, 7)
#define MM_ROWS_1(X, f)  X(0, f)
#define MM_ROWS_2(X, f)  MM_ROWS_1(X, f) X(1, f)
#define MM_ROWS_4(X, f)  MM_ROWS_2(X, f) X(2, f) X(3, f)
#define MM_ROWS_6(X, f)  MM_ROWS_4(X, f) X(4, f) X(5, f)
#define MM_ROWS_8(X, f)  MM_ROWS_6(X, f) X(6, f) X(7, f)
#define MM_ROWS_12(X, f) MM_ROWS_8(X, f) X(8, f) X(9, f) X(10, f) X(11, f)
#define MM_ROWS_16(X, f) MM_ROWS_12(X, f) X(12, f) X(13, f) X(14, f) X(15, f)

/* Columns of a task are a multiple of this. */
#define MM_UNIT 64
/* Elements of a row of A in a task of phase 0. */
#define MM_AK 2048

struct MM(plan) {
    pk_i64 Z, M, N, K;
    pk_i64 chunks;  /* of rows */
    pk_i64 stride;  /* of a row of A, [m][k] */
    pk_i64 kparts;  /* tasks of phase 0 along k */
    pk_i64 columns; /* of a task */
    pk_i64 ld;      /* of its sums: not a power of two apart either */
    pk_i64 ntasks;  /* of phase 1 for each z */
};

MM_INLINE pk_i64 MM(min)(pk_i64 a, pk_i64 b) {
    return a < b ? a : b;
}

MM_INLINE pk_i64 MM(ceil)(pk_i64 a, pk_i64 b) {
    return (a + b - 1) / b;
}

/* The end of the group of `length` that k is in, at most `end`. */
MM_INLINE pk_i64 MM(group_end)(pk_i64 k, pk_i64 length, pk_i64 end) {
    return length < MM_ENDLESS ? MM(min)((k / length + 1) * length, end) : end;
}

MM_INLINE void MM(put)(MM_ACC_S *dst, MM_ACC v) {
    __builtin_memcpy(dst, &v, sizeof v);
}

MM_INLINE MM_ACC MM(get)(const MM_ACC_S *src) {
    MM_ACC v;
    __builtin_memcpy(&v, src, sizeof v);
    return v;
}

MM_INLINE pk_i64 MM(height)(pk_i64 rows) {
    return rows <= 2 ? rows : rows <= 8 ? (rows + 1) / 2 * 2 : (rows + 3) / 4 * 4;
}

static struct MM(plan) MM(make_plan)(const struct pk_args *g) {
    struct MM(shape) s = MM(get_shape)(g);
    struct MM(plan) p = {.Z = s.Z, .M = s.M, .N = s.N, .K = s.K};
    if (s.Z <= 0 || s.M <= 0 || s.N <= 0) {
        p.Z = 0;
        return p;
    }
    p.chunks = MM(ceil)(s.M, MM_MR);
    /* Not a power of two apart, or rows would share the same few lines of the cache. */
    p.stride = MM(ceil)(s.K, PK_W) * PK_W + PK_W;
    p.kparts = MM(ceil)(s.K, MM_AK);
    pk_i64 parts = MM(ceil)(4 * (g->threads > 1 ? g->threads : 1), s.Z);
    p.columns = MM(ceil)(MM(ceil)(s.N, parts), MM_UNIT) * MM_UNIT;
    p.ntasks = MM(ceil)(s.N, p.columns);
    p.ld = p.columns + PK_W;
    return p;
}

/* ---- A ---------------------------------------------------------------------------------- */

MM_INLINE pk_i64 MM(along_k)(const struct MM(plan) * p) {
    return MM_ANY_K ? p->Z * p->M * p->stride : 0;
}

MM_INLINE MM_ACC_S *MM(x_k)(const struct pk_args *g, const struct MM(plan) * p, pk_i64 z,
                            pk_i64 m) {
    return (MM_ACC_S *)g->shared + (z * p->M + m) * p->stride;
}

/* The height of a chunk of rows. */
MM_INLINE pk_i64 MM(chunk_height)(const struct MM(plan) * p, pk_i64 chunk) {
    return MM(height)(MM(min)(MM_MR, p->M - chunk * MM_MR));
}

/* [z][chunk][k][height], with room for MM_MR rows. */
MM_INLINE MM_ACC_S *MM(x_n)(const struct pk_args *g, const struct MM(plan) * p, pk_i64 z,
                            pk_i64 chunk) {
    pk_i64 before = MM(ceil)(MM(along_k)(p), PK_W) * PK_W;
    return (MM_ACC_S *)g->shared + before + (z * p->chunks + chunk) * p->K * MM_MR;
}

/* Keeps elements (m, k .. k+n-1), n <= PK_W. */
MM_INLINE void MM(keep_k)(const struct pk_args *g, const struct MM(plan) * p, pk_i64 z, pk_i64 m,
                          pk_i64 k, int n, MM_ACC v) {
    if (n < PK_W) v = MM_SELECT(pk_mask_n(n), v, MM_SET(0));
    if (MM_ANY_K) MM(put)(MM(x_k)(g, p, z, m) + k, v);
    if (MM_ANY_N) {
        pk_i64 h = MM(chunk_height)(p, m / MM_MR);
        MM_ACC_S t[PK_W], *x = MM(x_n)(g, p, z, m / MM_MR) + k * h + m % MM_MR;
        MM(put)(t, v);
        for (int i = 0; i < n; i++)
            x[i * h] = t[i];
    }
}

#if MM_A_AXIS == 1
/* As many rows as a vector has lanes are turned round in registers; the number of rows done. */
MM_INLINE pk_i64 MM(turn_rows)(const struct pk_args *g, const struct MM(plan) * p, pk_i64 z,
                               pk_i64 k0, pk_i64 k1) {
    struct MM(a_row) r[PK_W];
    struct MM(a_group) q[PK_W];
    MM_ACC v[PK_W];
    pk_i64 m = 0;
    for (; m + PK_W <= p->M; m += PK_W) {
        MM_ACC_S *x = MM(x_n)(g, p, z, m / PK_W);
        for (int i = 0; i < PK_W; i++)
            r[i] = MM(a_row_init)(g, z, m + i, 1);
        for (pk_i64 k = k0, end; k < k1; k = end) {
            end = MM(group_end)(k, MM_A_GROUP, k1);
            for (int i = 0; i < PK_W; i++)
                q[i] = MM(a_group_of)(g, &r[i], z, m + i, k, 1);
            for (; k < end; k += PK_W) {
                int n = (int)MM(min)(end - k, PK_W);
                for (int i = 0; i < PK_W; i++)
                    v[i] = n == PK_W ? MM(a_at)(g, &r[i], &q[i], z, m + i, k, PK_W)
                                     : MM(a_at)(g, &r[i], &q[i], z, m + i, k, n);
                MM_TRANSPOSE(v);
                for (int i = 0; i < n; i++)
                    MM(put)(x + (k + i) * PK_W, v[i]);
            }
        }
    }
    return m;
}

static void MM(rows_task)(const struct pk_args *g, const struct MM(plan) * p, pk_i64 z, pk_i64 k0,
                          pk_i64 k1) {
    pk_i64 m = MM_MR == PK_W && !MM_ANY_K ? MM(turn_rows)(g, p, z, k0, k1) : 0;
    for (; m < p->M; m++) {
        struct MM(a_row) r = MM(a_row_init)(g, z, m, 1);
        for (pk_i64 k = k0, end; k < k1; k = end) {
            end = MM(group_end)(k, MM_A_GROUP, k1);
            struct MM(a_group) q = MM(a_group_of)(g, &r, z, m, k, 1);
            for (; k + PK_W <= end; k += PK_W)
                MM(keep_k)(g, p, z, m, k, PK_W, MM(a_at)(g, &r, &q, z, m, k, PK_W));
            if (k < end) {
                int n = (int)(end - k);
                MM(keep_k)(g, p, z, m, k, n, MM(a_at)(g, &r, &q, z, m, k, n));
            }
        }
    }
}
#else
static void MM(rows_task)(const struct pk_args *g, const struct MM(plan) * p, pk_i64 z, pk_i64 k0,
                          pk_i64 k1) {
    for (pk_i64 m = 0; m < p->M; m += PK_W) {
        int n = (int)MM(min)(p->M - m, PK_W);
        struct MM(a_row) r = MM(a_row_init)(g, z, m, n);
        struct MM(a_group) q = MM(a_group_of)(g, &r, z, m, k0, n);
        for (pk_i64 k = k0; k < k1; k++) {
            MM_ACC_S t[PK_W];
            if (k % MM_A_GROUP == 0) q = MM(a_group_of)(g, &r, z, m, k, n);
            MM(put)
            (t, n == PK_W ? MM(a_at)(g, &r, &q, z, m, k, PK_W) : MM(a_at)(g, &r, &q, z, m, k, n));
            for (int i = 0; i < n; i++) {
                if (MM_ANY_K) MM(x_k)(g, p, z, m + i)[k] = t[i];
                if (MM_ANY_N) {
                    pk_i64 chunk = (m + i) / MM_MR;
                    MM(x_n)
                    (g, p, z, chunk)[k * MM(chunk_height)(p, chunk) + (m + i) % MM_MR] = t[i];
                }
            }
        }
        for (pk_i64 k = k1; MM_ANY_K && k1 == p->K && k < p->stride; k++)
            for (int i = 0; i < n; i++)
                MM(x_k)(g, p, z, m + i)[k] = 0;
    }
}
#endif

/* Rows of the last chunk that do not exist are zero. */
static void MM(pad_rows)(const struct pk_args *g, const struct MM(plan) * p, pk_i64 z, pk_i64 k0,
                         pk_i64 k1) {
    pk_i64 last = p->chunks - 1, h = MM(chunk_height)(p, last);
    MM_ACC_S *x = MM(x_n)(g, p, z, last);
    for (pk_i64 k = k0; k < k1; k++)
        for (pk_i64 i = p->M - last * MM_MR; i < h; i++)
            x[k * h + i] = 0;
}

/* ---- products, vectors along k ------------------------------------------------------------ */

/* t[row][column of WIDTH][lane] = products of h rows of A with columns n .. n+WIDTH-1 of B. Columns
 * from N on are the last one again. */
#define MM_K_ROW(j, c)                                                                             \
    pk_i64 n##c = MM(min)(n + c, N - 1);                                                           \
    struct MM(b##j##_row) r##c = MM(b##j##_row_init)(g, z, n##c, 1);
#define MM_K_GROUP(j, c)                                                                           \
    struct MM(b##j##_group) q##c = MM(b##j##_group_of)(g, &r##c, z, n##c, k, 1);                   \
    MM(b##j##_ahead)(g, &r##c, z, n##c, k);
#define MM_K_VALUE(j, c) MM_ACC b##c = MM(b##j##_at)(g, &r##c, &q##c, z, n##c, k, PK_W);
#define MM_K_REST(j, c)                                                                            \
    MM_ACC b##c = MM(b##j##_at)(g, &r##c, &q##c, z, n##c, k, left);                                \
    b##c = MM_SELECT(mask, b##c, MM_SET(0));
#define MM_K_ZERO_1(i, c) MM_ACC s##i##_##c = MM_SET(0);
#define MM_K_ZERO(i, WIDE)                                                                         \
    const MM_ACC_S *x##i = x + (i < rows ? i : 0) * stride;                                        \
    WIDE(MM_K_ZERO_1, i)
#define MM_K_STEP_1(i, c) s##i##_##c = MM_FMA(a##i, b##c, s##i##_##c);
#define MM_K_STEP(i, WIDE)                                                                         \
    MM_ACC a##i = MM(get)(x##i + k);                                                               \
    WIDE(MM_K_STEP_1, i)
#define MM_K_STORE_1(i, c)  MM(put)(t + (i * PK_W + c) * PK_W, s##i##_##c);
#define MM_K_STORE(i, WIDE) WIDE(MM_K_STORE_1, i)

/* Whole groups first: what is left of a vector's length cannot occur in them, and the code for it
 * would take registers from the loop that matters. */
#define MM_DOT_K(j, h)                                                                             \
    static __attribute__((noinline)) void MM(dot##j##_##h)(                                        \
        const struct pk_args *g, pk_i64 z, pk_i64 n, pk_i64 N, pk_i64 K, const MM_ACC_S *x,        \
        pk_i64 stride, pk_i64 rows, MM_ACC_S *t) {                                                 \
        const pk_i64 whole = MM_B##j##_GROUP % PK_W == 0 ? MM_B##j##_GROUP : MM_ENDLESS;           \
        pk_i64 k = 0, end;                                                                         \
        MM_WIDE_##h(MM_K_ROW, j) MM_ROWS_##h(MM_K_ZERO, MM_WIDE_##h);                              \
        for (; whole < MM_ENDLESS && k + whole <= K;) {                                            \
            end = k + whole;                                                                       \
            MM_WIDE_##h(MM_K_GROUP, j) _Pragma("GCC unroll 2") for (; k < end; k += PK_W) {        \
                MM_WIDE_##h(MM_K_VALUE, j) MM_ROWS_##h(MM_K_STEP, MM_WIDE_##h)                     \
            }                                                                                      \
        }                                                                                          \
        for (; k < K; k = end) {                                                                   \
            end = MM(group_end)(k, MM_B##j##_GROUP, K);                                            \
            MM_WIDE_##h(MM_K_GROUP, j) for (; k + PK_W <= end; k += PK_W) {                        \
                MM_WIDE_##h(MM_K_VALUE, j) MM_ROWS_##h(MM_K_STEP, MM_WIDE_##h)                     \
            }                                                                                      \
            if (k < end) {                                                                         \
                int left = (int)(end - k);                                                         \
                vi32 mask = pk_mask_n(left);                                                       \
                MM_WIDE_##h(MM_K_REST, j) MM_ROWS_##h(MM_K_STEP, MM_WIDE_##h)                      \
            }                                                                                      \
        }                                                                                          \
        MM_ROWS_##h(MM_K_STORE, MM_WIDE_##h)                                                       \
    }

/* Adds the lanes of PK_W accumulators: lane c of the result is the sum of t[c][..]. */
MM_INLINE MM_ACC MM(add_lanes)(const MM_ACC_S *t) {
    MM_ACC v[PK_W];
#pragma GCC unroll 16
    for (int i = 0; i < PK_W; i++)
        v[i] = MM(get)(t + i * PK_W);
    MM_TRANSPOSE(v);
#pragma GCC unroll 4
    for (int half = PK_W / 2; half; half /= 2)
#pragma GCC unroll 8
        for (int i = 0; i < half; i++)
            v[i] += v[i + half];
    return v[0];
}

#define MM_CASE_K(j, h)                                                                            \
    for (int c = 0; c < PK_W; c += MM_WIDTH_##h)                                                   \
        MM(dot##j##_##h)(g, z, n + c, p->N, p->K, x, p->stride, rows, t + c * PK_W);

/* sums[row][column] for all columns of a task. */
#define MM_COLUMNS_K(j)                                                                            \
    static void MM(columns##j)(const struct pk_args *g, const struct MM(plan) * p, pk_i64 z,       \
                               pk_i64 chunk, pk_i64 n0, pk_i64 n1, MM_ACC_S * sums) {              \
        MM_ACC_S t[MM_MR * PK_W * PK_W];                                                           \
        pk_i64 rows = MM(min)(MM_MR, p->M - chunk * MM_MR);                                        \
        const MM_ACC_S *x = MM(x_k)(g, p, z, chunk * MM_MR);                                       \
        for (pk_i64 n = n0; n < n1; n += PK_W) {                                                   \
            MM_SWITCH(MM_CASE_K, j)                                                                \
            for (pk_i64 i = 0; i < rows; i++)                                                      \
                MM(put)(sums + i * p->ld + n - n0, MM(add_lanes)(t + i * PK_W * PK_W));            \
        }                                                                                          \
    }

#include "matmul_rows_n.h"

/* ---- one function for each operand -------------------------------------------------------- */

#if MM_HAS_1
#define MM_IF_1(X, j) X(j, 1)
#else
#define MM_IF_1(X, j)
#endif
#if MM_HAS_2
#define MM_IF_2(X, j) X(j, 2)
#else
#define MM_IF_2(X, j)
#endif
#if MM_HAS_4
#define MM_IF_4(X, j) X(j, 4)
#else
#define MM_IF_4(X, j)
#endif
#if MM_HAS_6
#define MM_IF_6(X, j) X(j, 6)
#else
#define MM_IF_6(X, j)
#endif
#if MM_HAS_8
#define MM_IF_8(X, j) X(j, 8)
#else
#define MM_IF_8(X, j)
#endif
#if MM_HAS_12
#define MM_IF_12(X, j) X(j, 12)
#else
#define MM_IF_12(X, j)
#endif
#if MM_HAS_16
#define MM_IF_16(X, j) X(j, 16)
#else
#define MM_IF_16(X, j)
#endif
#define MM_HEIGHTS(X, j)                                                                           \
    MM_IF_1(X, j)                                                                                  \
    MM_IF_2(X, j)                                                                                  \
    MM_IF_4(X, j) MM_IF_6(X, j) MM_IF_8(X, j) MM_IF_12(X, j) MM_IF_16(X, j)
#define MM_SWITCH(X, j)                                                                            \
    switch (MM(height)(rows)) {                                                                    \
    case 1: MM_IF_1(X, j) break;                                                                   \
    case 2: MM_IF_2(X, j) break;                                                                   \
    case 4: MM_IF_4(X, j) break;                                                                   \
    case 6: MM_IF_6(X, j) break;                                                                   \
    case 8: MM_IF_8(X, j) break;                                                                   \
    case 12: MM_IF_12(X, j) break;                                                                 \
    default: MM_IF_16(X, j) break;                                                                 \
    }

#if MM_B0_AXIS
MM_HEIGHTS(MM_DOT_K, 0)
MM_COLUMNS_K(0)
#else
MM_HEIGHTS(MM_DOT_N, 0)
MM_COLUMNS_N(0)
#endif
#if MM_NB > 1 && MM_B1_AXIS
MM_HEIGHTS(MM_DOT_K, 1)
MM_COLUMNS_K(1)
#elif MM_NB > 1
MM_HEIGHTS(MM_DOT_N, 1)
MM_COLUMNS_N(1)
#endif
#if MM_NB > 2 && MM_B2_AXIS
MM_HEIGHTS(MM_DOT_K, 2)
MM_COLUMNS_K(2)
#elif MM_NB > 2
MM_HEIGHTS(MM_DOT_N, 2)
MM_COLUMNS_N(2)
#endif
#if MM_NB > 3 && MM_B3_AXIS
MM_HEIGHTS(MM_DOT_K, 3)
MM_COLUMNS_K(3)
#elif MM_NB > 3
MM_HEIGHTS(MM_DOT_N, 3)
MM_COLUMNS_N(3)
#endif

/* ---- phases ----------------------------------------------------------------------------- */

#if MM_NB == 1
#define MM_SUMS MM(get)(c)
#elif MM_NB == 2
#define MM_SUMS MM(get)(c), MM(get)(c + op)
#elif MM_NB == 3
#define MM_SUMS MM(get)(c), MM(get)(c + op), MM(get)(c + 2 * op)
#else
#define MM_SUMS MM(get)(c), MM(get)(c + op), MM(get)(c + 2 * op), MM(get)(c + 3 * op)
#endif

static void MM(product_task)(const struct pk_args *g, const struct MM(plan) * p, pk_i64 task) {
    pk_i64 z = task / p->ntasks, n0 = task % p->ntasks * p->columns;
    pk_i64 n1 = MM(min)(n0 + p->columns, p->N), op = MM_MR * p->ld;
    MM_ACC_S *sums = (MM_ACC_S *)g->local;
    for (pk_i64 chunk = 0; chunk < p->chunks; chunk++) {
        MM(columns0)(g, p, z, chunk, n0, n1, sums);
#if MM_NB > 1
        MM(columns1)(g, p, z, chunk, n0, n1, sums + op);
#endif
#if MM_NB > 2
        MM(columns2)(g, p, z, chunk, n0, n1, sums + 2 * op);
#endif
#if MM_NB > 3
        MM(columns3)(g, p, z, chunk, n0, n1, sums + 3 * op);
#endif
        for (pk_i64 m = chunk * MM_MR; m < MM(min)((chunk + 1) * MM_MR, p->M); m++) {
            struct MM(c_row) r = MM(c_row_init)(g, z, m);
            MM_ACC_S *c = sums + (m - chunk * MM_MR) * p->ld;
            MM(show)(g, z, m, n0, n1 - n0, p->K, MM_B0_AXIS, c);
            pk_i64 n = n0;
            for (; n + PK_W <= n1; n += PK_W, c += PK_W)
                MM(c_store)(g, &r, z, m, n, PK_W, MM_SUMS);
            if (n < n1) MM(c_store)(g, &r, z, m, n, (int)(n1 - n), MM_SUMS);
        }
    }
    (void)op;
}

static pk_i64 MM(shared_bytes)(const struct pk_args *g) {
    struct MM(plan) p = MM(make_plan)(g);
    pk_i64 n = MM(ceil)(MM(along_k)(&p), PK_W) * PK_W;
    if (MM_ANY_N) n += p.Z * p.chunks * p.K * MM_MR;
    return MM(ceil)(n * (pk_i64)sizeof(MM_ACC_S), 64) * 64;
}

static pk_i64 MM(local_bytes)(const struct pk_args *g) {
    struct MM(plan) p = MM(make_plan)(g);
    return MM(ceil)(MM_NB * MM_MR * p.ld * (pk_i64)sizeof(MM_ACC_S), 64) * 64;
}

static pk_i64 MM(tasks)(const struct pk_args *g, int phase) {
    struct MM(plan) p = MM(make_plan)(g);
    return p.Z * (phase ? p.ntasks : p.kparts);
}

static void MM(run)(const struct pk_args *g, int phase, pk_i64 task) {
    struct MM(plan) p = MM(make_plan)(g);
    if (phase) {
        MM(product_task)(g, &p, task);
        return;
    }
    pk_i64 z = task / p.kparts, k0 = task % p.kparts * MM_AK, k1 = MM(min)(k0 + MM_AK, p.K);
    MM(rows_task)(g, &p, z, k0, k1);
    if (MM_ANY_N) MM(pad_rows)(g, &p, z, k0, k1);
}

static const struct pk_kernel MM(kernel) = {
    .name = MM_NAME,
    .phases = 2,
    .operands = MM_PACKS,
    .shared_bytes = MM(shared_bytes),
    .local_bytes = MM(local_bytes),
    .tasks = MM(tasks),
    .run = MM(run),
    .check = PK_CHECK,
#if MM_PACKS
    .packed_bytes = MM(packed_bytes),
    .pack_tasks = MM(pack_tasks),
    .pack = MM(pack),
#endif
};

#undef MM
#undef MM_AK
#undef MM_ANY_K
#undef MM_ANY_N
#undef MM_A_GROUP
#undef MM_B0_AHEAD
#undef MM_B0_FACTOR
#undef MM_B0_GROUP
#undef MM_B1_AHEAD
#undef MM_B1_GROUP
#undef MM_B2_AHEAD
#undef MM_B2_GROUP
#undef MM_B3_AHEAD
#undef MM_B3_GROUP
#undef MM_CASE_K
#undef MM_CASE_N
#undef MM_CAT1
#undef MM_CAT2
#undef MM_COLUMNS_K
#undef MM_COLUMNS_N
#undef MM_DOT_K
#undef MM_DOT_N
#undef MM_EIGHT
#undef MM_ENDLESS
#undef MM_FACTOR
#undef MM_FACTOR_ROW
#undef MM_FETCH
#undef MM_FMA
#undef MM_FOUR
#undef MM_HAS_1
#undef MM_HAS_12
#undef MM_HAS_16
#undef MM_HAS_2
#undef MM_HAS_4
#undef MM_HAS_6
#undef MM_HAS_8
#undef MM_HEIGHTS
#undef MM_IF_1
#undef MM_IF_12
#undef MM_IF_16
#undef MM_IF_2
#undef MM_IF_4
#undef MM_IF_6
#undef MM_IF_8
#undef MM_HIDES
#undef MM_INLINE
#undef MM_KB
#undef MM_K_GROUP
#undef MM_K_REST
#undef MM_K_ROW
#undef MM_K_STEP
#undef MM_K_STEP_1
#undef MM_K_STORE
#undef MM_K_STORE_1
#undef MM_K_VALUE
#undef MM_K_ZERO
#undef MM_K_ZERO_1
#undef MM_M
#undef MM_NO_FETCH
#undef MM_NO_GROUP
#undef MM_NVECS_1
#undef MM_NVECS_12
#undef MM_NVECS_16
#undef MM_NVECS_2
#undef MM_NVECS_4
#undef MM_NVECS_6
#undef MM_NVECS_8
#undef MM_N_CLOSE
#undef MM_N_CLOSE_1
#undef MM_N_FACTOR
#undef MM_N_STEPS
#undef MM_N_END
#undef MM_N_GROUP
#undef MM_N_LOAD
#undef MM_N_LOAD_1
#undef MM_N_LOOP
#undef MM_N_ROW
#undef MM_N_STEP
#undef MM_N_STEP_1
#undef MM_N_STORE
#undef MM_N_STORE_1
#undef MM_N_VALUE
#undef MM_ONE
#undef MM_PACKS
#undef MM_PANELS
#undef MM_PASTE
#undef MM_PASTE2
#undef MM_ROWS_1
#undef MM_ROWS_12
#undef MM_ROWS_16
#undef MM_ROWS_2
#undef MM_ROWS_4
#undef MM_ROWS_6
#undef MM_ROWS_8
#undef MM_SELECT
#undef MM_SET
#undef MM_DEPTH
#undef MM_SUMS
#undef MM_SWITCH
#undef MM_TRANSPOSE
#undef MM_TWO
#undef MM_UNIT
#undef MM_VECS_1
#undef MM_VECS_12
#undef MM_VECS_16
#undef MM_VECS_2
#undef MM_VECS_4
#undef MM_VECS_6
#undef MM_VECS_8
#undef MM_WIDE_1
#undef MM_WIDE_12
#undef MM_WIDE_16
#undef MM_WIDE_2
#undef MM_WIDE_4
#undef MM_WIDE_6
#undef MM_WIDE_8
#undef MM_WIDTH_1
#undef MM_WIDTH_12
#undef MM_WIDTH_16
#undef MM_WIDTH_2
#undef MM_WIDTH_4
#undef MM_WIDTH_6
#undef MM_WIDTH_8
#undef MM_WITH_GROUP
#undef MM_NAME
#undef MM_ACC
#undef MM_ACC_S
#undef MM_SUFFIX
#undef MM_NB
#undef MM_A_AXIS
#undef MM_B0_AXIS
#undef MM_B1_AXIS
#undef MM_B2_AXIS
#undef MM_B3_AXIS
#undef MM_MR
#undef PK_CHECK
#undef PK_KERNEL
