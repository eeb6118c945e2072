/* SPDX-License-Identifier: MIT
 *
 * out_j[z,m,n] = store_j(sum_k A[z,m,k] * B0[z,n,k], sum_k A[z,m,k] * B1[z,n,k], ..)
 *
 * Packed panels: both operands are evaluated (the prologue) while they are copied into panels
 * from which a register tile of MM_MR rows by MM_NV vectors is fed, as in Goto and van de Geijn,
 * "Anatomy of High-Performance Matrix Multiplication" (2008). A panel holds h rows of A, [k][h];
 * a panel of B holds NR = MM_NV * PK_W columns, [k][NR].
 *
 * K order: sequential. Each element is one chain acc = fma(a, b, acc) over k = 0 .. K-1 from 0;
 * blocks of K continue the chain through a stored accumulator. So no result depends on block
 * sizes, vector width, tasks or threads. K = 0 stores the epilogue of 0.
 *
 * Phase 0 evaluates into shared panels whatever several tasks of phase 1 would evaluate again
 * (if MM_SHARE bytes suffice); phase 1 has a task for each block of rows and columns, which
 * packs what is not shared for one block of K at a time. Scratch is bounded by MM_SHARE and the
 * block sizes, apart from M * MM_NC accumulators at most.
 *
 * The generator writes this file behind kernel_abi.h, the vector prelude, and, for each kernel:
 *
 *   #define PK_KERNEL k0           prefix: MM(x) is k0_x. A unit may hold several kernels: at its
 *                                  end this file undefines PK_KERNEL and every macro MM_*.
 *   #define MM_NAME "..."          the kernel's name in its pk_kernel
 *   #define MM_ACC vf32            vector of accumulators: vf32, vf64, vi32, vi64
 *   #define MM_ACC_S float         its scalar
 *   #define MM_SUFFIX vf32         its suffix in pk_fma_<suffix> ..
 *   #define MM_NB 1                B operands (1..4) that share A
 *   #define MM_A_AXIS 1            vectors of A run along k (1) or along m (0)
 *   #define MM_B0_AXIS 1           vectors of B0 run along k (1) or along n (0); MM_B1_AXIS ..
 *   #define MM_MR 6                rows of the register tile, at most PK_W
 *   #define MM_NV 2                vectors in a row of it, 1..4
 *   #define MM_MC 1024             rows in a task, at most
 *   #define MM_KC 512              length of a block of K; a multiple of PK_W
 *   #define MM_NC 64               columns packed at once; a multiple of MM_NV * PK_W
 *   #define MM_SHARE 67108864      bytes of shared panels at most, for A and for B
 *   optional:
 *   #define MM_A_GROUP 32          A has a part that is the same for 32 elements along k (a block's
 *                                  scale), MM_B0_GROUP ..; a multiple of PK_W if the axis is 1
 *   #define MM_HIDES 1             where A is 0, B0 may be infinite or NaN and the product is 0
 *                                  nevertheless; 2: where B0 is 0, A. Floats and MM_NB 1 only
 *   #define MM_B_CONST 1           all B operands are constant: they are operand 0 of pack()
 *   #define MM_A_CONST 1           A is constant: operand MM_B_CONST of pack()
 *   #define MM_DOTS 2              accumulators are vi32, and panels hold words of so many elements
 *                                  along k: 2 of 16 signed bits, or 4, unsigned bytes of A and
 *                                  signed ones of B. Sums wrap, so their order is no matter
 *   #define MM_TERM 1              with MM_DOTS 4: A's elements are a_value's minus t0_value's, a
 *                                  number for each row. A panel of A ends with these, negated, one
 *                                  of B with the sums of its columns, for each block of K
 *   #define MM_PANELS 1            B lies as [n / PK_W][k][PK_W], or in words of several k
 *   #define MM_PACKS 1             instead of these two: so many operands are packed once by
 * functions of the generator, MM(packed_bytes), MM(pack_tasks), MM(pack) as in struct pk_kernel;
 * the value hooks read g->packed. So weights keep their small type and lie in the order in which
 * they are used (say [n / 16][k][16], axis 0), and the prologue runs on them #define PK_CHECK
 * k0_check      the kernel's check function
 *
 * and these functions, all static inline:
 *
 *   struct MM(shape) { pk_i64 Z, M, N, K; };
 *   struct MM(shape) MM(get_shape)(const struct pk_args *g);
 *
 *   struct MM(a_row) { .. };       what does not depend on k for row m (axis 1) or for rows
 *                                  m .. m+n-1 (axis 0); never empty
 *   struct MM(a_row) MM(a_row_init)(const struct pk_args *g, pk_i64 z, pk_i64 m, int n);
 *                                  axis 1: n is 1
 *   MM_ACC MM(a_value)(const struct pk_args *g, const struct MM(a_row) *r, pk_i64 z, pk_i64 m,
 *                      pk_i64 k, int n);
 *                                  axis 1: elements (m, k .. k+n-1), k a multiple of PK_W;
 *                                  axis 0: elements (m .. m+n-1, k). Lanes from n on may hold
 *                                  anything. It must not read outside of these elements. The
 *                                  fast call passes n = PK_W as a literal. (axis 0: m need not
 *                                  be a multiple of PK_W.)
 *   with MM_A_GROUP it gets one more argument, what is the same for the group that k is in:
 *   struct MM(a_group) { .. };
 *   struct MM(a_group) MM(a_group_init)(const struct pk_args *g, const struct MM(a_row) *r,
 *                                       pk_i64 z, pk_i64 m, pk_i64 k, int n);
 *                                  k need not be the first of its group; n as for a_row_init
 *   MM_ACC MM(a_value)(const struct pk_args *g, const struct MM(a_row) *r,
 *                      const struct MM(a_group) *q, pk_i64 z, pk_i64 m, pk_i64 k, int n);
 *   struct MM(b0_row), MM(b0_row_init), MM(b0_value), and MM(b0_group), MM(b0_group_init) with
 *                                  MM_B0_GROUP: the same for B0, with n and cnt for m and n;
 *                                  b1_row .. for the others. axis 0: n is a multiple of PK_W
 *
 *   struct MM(c_row) { .. };       what does not depend on n for row m of the results
 *   struct MM(c_row) MM(c_row_init)(const struct pk_args *g, pk_i64 z, pk_i64 m);
 *   void MM(c_store)(const struct pk_args *g, const struct MM(c_row) *r, pk_i64 z, pk_i64 m,
 *                    pk_i64 n, int cnt, MM_ACC acc0, .. one for each B);
 *                                  elements (m, n .. n+cnt-1), n a multiple of PK_W: once per
 *                                  element, on the finished sum
 *   only with #define MM_C_FETCH 2, the number of tensors of which this gives lines:
 *   const void **MM(c_fetch)(const struct pk_args *g, const struct MM(c_row) *r, pk_i64 z,
 *                            pk_i64 m, pk_i64 n, int cnt, const void **to);
 *                                  an address in each 64 bytes of what c_store will read and write
 *                                  for (m, n .. n+cnt-1), cnt up to MM_NV * PK_W, from to[0] on;
 *                                  returns the end
 *
 * What comes out: static const struct pk_kernel MM(kernel).
 */

#include "matmul_operands.h"

#define MM_NR (MM_NV * PK_W)
#if MM_MR > PK_W || (MM_MR > 4 && MM_MR % 2)
#error "MM_MR is 1..4 or even, at most PK_W"
#endif
#if MM_KC % PK_W || MM_NC % (MM_NV * PK_W)
#error "MM_KC or MM_NC is no multiple"
#endif
#ifndef MM_B_CONST
#define MM_B_CONST 0
#endif
#ifndef MM_A_CONST
#define MM_A_CONST 0
#endif

#ifndef MM_C_FETCH
#define MM_C_FETCH 0
#endif

#ifndef MM_DOTS
#define MM_DOTS 1
#endif
#ifndef MM_TERM
#define MM_TERM 0
#endif
#if MM_DOTS > 1
#define MM_DOT MM_PASTE(MM_PASTE(pk_dot, MM_DOTS), MM_PASTE(_, MM_SUFFIX))
#else
#define MM_DOT MM_FMA
#endif

/* How the work is cut; a function of the shape and the number of threads. */
struct MM(plan) {
    pk_i64 Z, M, N, K;
    pk_i64 kblocks;          /* blocks of K, at least 1 */
    pk_i64 h, hs, ht;        /* rows of a panel of A; of the last but one; of the last */
    pk_i64 mp, np;           /* panels of A and of one B */
    pk_i64 mrows;            /* rows in all panels of A */
    pk_i64 tp, tn;           /* panels of A, and of one B, in a task, at most */
    pk_i64 mtasks, ntasks;   /* tasks along m and along n */
    int share_a, share_b;    /* packed in phase 0 */
    const MM_ACC_S *pa, *pb; /* panels of a constant, packed once; or NULL */
};

MM_INLINE pk_i64 MM(min)(pk_i64 a, pk_i64 b) {
    return a < b ? a : b;
}

MM_INLINE pk_i64 MM(max)(pk_i64 a, pk_i64 b) {
    return a > b ? a : b;
}

MM_INLINE pk_i64 MM(ceil)(pk_i64 a, pk_i64 b) {
    return (a + b - 1) / b;
}

/* Words along k, and rows of a panel: these, and one of terms for each block. */
MM_INLINE pk_i64 MM(dots)(pk_i64 k) {
    return (k + MM_DOTS - 1) / MM_DOTS;
}

MM_INLINE pk_i64 MM(words)(pk_i64 k) {
    return MM(dots)(k) + (MM_TERM ? MM(ceil)(k, MM_KC) : 0);
}

/* The end of the group of `length` that k is in, at most `end`. */
MM_INLINE pk_i64 MM(group_end)(pk_i64 k, pk_i64 length, pk_i64 end) {
    return length < MM_ENDLESS ? MM(min)((k / length + 1) * length, end) : end;
}

/* Heights for which a micro-kernel exists: 1..4 and then every even one. */
MM_INLINE pk_i64 MM(height)(pk_i64 rows) {
    pk_i64 h = rows <= 4 ? rows : (rows + 1) / 2 * 2;
    return MM(min)(h, MM_MR);
}

static struct MM(plan) MM(make_plan)(const struct pk_args *g) {
    struct MM(shape) s = MM(get_shape)(g);
    struct MM(plan) p = {.Z = s.Z, .M = s.M, .N = s.N, .K = s.K, .kblocks = 1};
    if (s.Z <= 0 || s.M <= 0 || s.N <= 0) {
        p.Z = 0;
        return p;
    }
    if (s.K > MM_KC) p.kblocks = MM(ceil)(s.K, MM_KC);
    /* The last two panels share their rows: a low tile leaves multipliers idle. */
    p.mp = MM(ceil)(s.M, MM_MR);
    pk_i64 rest = s.M;
    if (p.mp > 1) {
        rest -= (p.mp - 2) * MM_MR;
        p.hs = MM(height)(MM(ceil)(rest, 2));
        rest -= p.hs;
    }
    p.ht = MM(height)(rest);
    p.h = p.mp > 2 ? MM_MR : p.mp > 1 ? p.hs : p.ht;
    p.mrows = p.mp > 1 ? (p.mp - 2) * p.h + p.hs + p.ht : p.ht;
    p.np = MM(ceil)(s.N, MM_NR);

    if (MM_B_CONST && g->packed) p.pb = (const MM_ACC_S *)g->packed[0];
    if (MM_A_CONST && g->packed) p.pa = (const MM_ACC_S *)g->packed[MM_B_CONST];

    /* Tasks: whole columns first; rows are split where columns give too few tasks. */
    pk_i64 threads = g->threads > 1 ? g->threads : 1, want = threads > 1 ? 4 * threads : 1;
    pk_i64 step = MM_NC / MM_NR;
    p.ntasks = MM(ceil)(p.np, step);
    pk_i64 a_bytes = s.Z * p.mrows * MM(words)(s.K) * (pk_i64)sizeof(MM_ACC_S);
    p.share_a = !p.pa && p.ntasks > 1 && a_bytes <= MM_SHARE;
    if (!p.share_a && !p.pa) {
        /* Each task evaluates its rows of A: let it own many columns. */
        pk_i64 few = MM(ceil)(p.np, step * MM(ceil)(1024, MM_NC));
        few = MM(max)(few, MM(ceil)(want, s.Z * MM(ceil)(s.M, MM_MC)));
        p.ntasks = MM(min)(p.ntasks, few);
    }
    /* As much for each thread, if that changes the blocks little. */
    if (p.ntasks > 1 && p.ntasks < 8 * threads)
        p.ntasks = MM(min)(MM(ceil)(p.ntasks, threads) * threads, p.np);
    p.tn = MM(ceil)(p.np, p.ntasks);
    p.mtasks = MM(max)(MM(ceil)(s.M, MM_MC), MM(ceil)(want, s.Z * p.ntasks));
    p.mtasks = MM(min)(p.mtasks, MM(ceil)(p.mp, 4));
    p.tp = MM(ceil)(p.mp, p.mtasks);
    pk_i64 b_bytes = s.Z * MM_NB * p.np * MM_NR * MM(words)(s.K) * (pk_i64)sizeof(MM_ACC_S);
    p.share_b = !p.pb && p.mtasks > 1 && b_bytes <= MM_SHARE;
    return p;
}

/* Panels of A packed together: vectors along m are full, and memory is read along its rows. */
#include "matmul_panels.h"

/* ---- the register tile ------------------------------------------------------------------ */

/* c[h][NR] (+)= sum over kc words of a[k][h] * b[k][NR]. Accumulators are named scalars: gcc keeps an
 * array of them partly in memory. MM_ROWS_h(X) is X(0) .. X(h-1), MM_COLS(X, i) is X(i, 0) .. */
#define MM_ROWS_1(X)    X(0)
#define MM_ROWS_2(X)    MM_ROWS_1(X) X(1)
#define MM_ROWS_3(X)    MM_ROWS_2(X) X(2)
#define MM_ROWS_4(X)    MM_ROWS_3(X) X(3)
#define MM_ROWS_6(X)    MM_ROWS_4(X) X(4) X(5)
#define MM_ROWS_8(X)    MM_ROWS_6(X) X(6) X(7)
#define MM_ROWS_10(X)   MM_ROWS_8(X) X(8) X(9)
#define MM_ROWS_12(X)   MM_ROWS_10(X) X(10) X(11)
#define MM_ROWS_14(X)   MM_ROWS_12(X) X(12) X(13)
#define MM_ROWS_16(X)   MM_ROWS_14(X) X(14) X(15)
#define MM_COLS_1(X, i) X(i, 0)
#define MM_COLS_2(X, i) MM_COLS_1(X, i) X(i, 1)
#define MM_COLS_3(X, i) MM_COLS_2(X, i) X(i, 2)
#define MM_COLS_4(X, i) MM_COLS_3(X, i) X(i, 3)
#define MM_COLS(X, i)   MM_PASTE(MM_COLS_, MM_NV)(X, i)

#define MM_DECLARE_1(i, v) MM_ACC c##i##_##v;
#define MM_DECLARE(i)      MM_COLS(MM_DECLARE_1, i)
#define MM_ZERO_1(i, v)    c##i##_##v = MM_SET(0);
#define MM_ZERO(i)         MM_COLS(MM_ZERO_1, i)
#define MM_LOAD_1(i, v)    c##i##_##v = MM(get)(c + i * MM_NR + v * PK_W);
#define MM_LOAD(i)         MM_COLS(MM_LOAD_1, i)
#define MM_STORE_1(i, v)   MM(put)(c + i * MM_NR + v * PK_W, c##i##_##v);
#define MM_STORE(i)        MM_COLS(MM_STORE_1, i)
#define MM_LOAD_B(i, v)    MM_ACC b##v = MM(get)(b + v * PK_W);
#define MM_STEP_1(i, v)    c##i##_##v = MM_DOT(a##i, b##v, c##i##_##v);
#define MM_LAST_1(i, v)    c##i##_##v = MM_FMA(a##i, b##v, c##i##_##v);
#define MM_LAST(i)                                                                                 \
    MM_ACC a##i = MM_SET(a[i]);                                                                    \
    MM_COLS(MM_LAST_1, i)
#define MM_STEP(i)                                                                                 \
    MM_ACC a##i = MM_SET(a[i]);                                                                    \
    MM_COLS(MM_STEP_1, i)

/* Panels of A come from the third-level cache: fetched this many k ahead, into the next panel. */
#define MM_AHEAD 128

/* Results, and what they are made of, come from memory while the products of a tile's last block are
 * computed, evenly over k: all at once they would hold up the panels. Step by step a tile fetches the
 * line at[i / 2^32], the same one several times: a branch would cost more. */
struct MM(coming) {
    pk_u64 step;
#if MM_C_FETCH
    const void *at[MM_MR * MM_C_FETCH * ((MM_NR * 8 + 63) / 64)];
#endif
};

/* What (m .. m+rows-1, n ..) takes, to be fetched in kc steps. */
MM_INLINE void MM(announce)(struct MM(coming) * f, const struct pk_args *g,
                            const struct MM(plan) * p, pk_i64 z, pk_i64 m, pk_i64 rows, pk_i64 n,
                            pk_i64 kc) {
#if MM_C_FETCH
    const void **end = f->at;
    for (pk_i64 i = 0; i < MM(min)(rows, p->M - m); i++) {
        struct MM(c_row) r = MM(c_row_init)(g, z, m + i);
        end = MM(c_fetch)(g, &r, z, m + i, n, (int)MM(min)(MM_NR, p->N - n), end);
    }
    if (kc > 0) f->step = ((pk_u64)(end - f->at) << 32) / (pk_u64)kc;
#else
    (void)f, (void)g, (void)p, (void)z, (void)m, (void)rows, (void)n, (void)kc;
#endif
}

#if MM_C_FETCH
#define MM_FETCH_NEXT                                                                              \
    __builtin_prefetch(f->at[next >> 32]);                                                         \
    next += f->step;
#else
#define MM_FETCH_NEXT
#endif

/* The highest tile does nearly all of the work: only its loop is worth unrolling. */
#define MM_PRAGMA_1(text) _Pragma(#text)
#define MM_PRAGMA(text)   MM_PRAGMA_1(text)
#define MM_TILE(h)                                                                                 \
    static __attribute__((noinline)) void MM(tile_##h)(pk_i64 kc, const MM_ACC_S *a,               \
                                                       const MM_ACC_S *b, MM_ACC_S *c, int first,  \
                                                       const struct MM(coming) * f) {              \
        pk_u64 next = 0;                                                                           \
        MM_ROWS_##h(MM_DECLARE) if (first) {                                                       \
            MM_ROWS_##h(MM_ZERO)                                                                   \
        }                                                                                          \
        else {MM_ROWS_##h(MM_LOAD)} MM_PRAGMA(                                                     \
            GCC unroll(h == MM_MR ? 4 : 1)) for (pk_i64 k = 0; k < kc - MM_TERM; k++) {            \
            __builtin_prefetch(a + MM_AHEAD * h);                                                  \
            MM_FETCH_NEXT                                                                          \
            MM_COLS(MM_LOAD_B, 0)                                                                  \
            MM_ROWS_##h(MM_STEP) a += h;                                                           \
            b += MM_NR;                                                                            \
        }                                                                                          \
        if (MM_TERM && kc > 0) {                                                                   \
            MM_COLS(MM_LOAD_B, 0)                                                                  \
            MM_ROWS_##h(MM_LAST)                                                                   \
        }                                                                                          \
        MM_ROWS_##h(MM_STORE)(void) next, (void)f;                                                 \
    }

MM_TILE(1)
#if MM_MR >= 2
MM_TILE(2)
#endif
#if MM_MR >= 3
MM_TILE(3)
#endif
#if MM_MR >= 4
MM_TILE(4)
#endif
#if MM_MR >= 6
MM_TILE(6)
#endif
#if MM_MR >= 8
MM_TILE(8)
#endif
#if MM_MR >= 10
MM_TILE(10)
#endif
#if MM_MR >= 12
MM_TILE(12)
#endif
#if MM_MR >= 14
MM_TILE(14)
#endif
#if MM_MR >= 16
MM_TILE(16)
#endif

MM_INLINE void MM(tile)(pk_i64 h, pk_i64 kc, const MM_ACC_S *a, const MM_ACC_S *b, MM_ACC_S *c,
                        int first, const struct MM(coming) * f) {
    switch (h) {
#if MM_MR >= 2
    case 2: MM(tile_2)(kc, a, b, c, first, f); break;
#endif
#if MM_MR >= 3
    case 3: MM(tile_3)(kc, a, b, c, first, f); break;
#endif
#if MM_MR >= 4
    case 4: MM(tile_4)(kc, a, b, c, first, f); break;
#endif
#if MM_MR >= 6
    case 6: MM(tile_6)(kc, a, b, c, first, f); break;
#endif
#if MM_MR >= 8
    case 8: MM(tile_8)(kc, a, b, c, first, f); break;
#endif
#if MM_MR >= 10
    case 10: MM(tile_10)(kc, a, b, c, first, f); break;
#endif
#if MM_MR >= 12
    case 12: MM(tile_12)(kc, a, b, c, first, f); break;
#endif
#if MM_MR >= 14
    case 14: MM(tile_14)(kc, a, b, c, first, f); break;
#endif
#if MM_MR >= 16
    case 16: MM(tile_16)(kc, a, b, c, first, f); break;
#endif
    default: MM(tile_1)(kc, a, b, c, first, f); break;
    }
}

/* ---- results ---------------------------------------------------------------------------- */

#if MM_NB == 1
#define MM_SUMS(i) MM(get)(c + (i))
#elif MM_NB == 2
#define MM_SUMS(i) MM(get)(c + (i)), MM(get)(c + op + (i))
#elif MM_NB == 3
#define MM_SUMS(i) MM(get)(c + (i)), MM(get)(c + op + (i)), MM(get)(c + 2 * op + (i))
#else
#define MM_SUMS(i)                                                                                 \
    MM(get)(c + (i)), MM(get)(c + op + (i)), MM(get)(c + 2 * op + (i)), MM(get)(c + 3 * op + (i))
#endif

/* Stores `rows` rows from m on, np panels of columns from n on. Sums lie in c[b][panel][h][NR]. */
static void MM(finish)(const struct pk_args *g, const struct MM(plan) * p, pk_i64 z, pk_i64 m,
                       pk_i64 rows, pk_i64 h, pk_i64 n, pk_i64 np, pk_i64 op, MM_ACC_S *sums) {
    (void)op;
    for (pk_i64 i = 0; i < rows; i++) {
        struct MM(c_row) r = MM(c_row_init)(g, z, m + i);
        for (pk_i64 j = 0; j < np; j++) {
            MM_ACC_S *c = sums + (j * h + i) * MM_NR;
            pk_i64 nj = n + j * MM_NR;
            pk_i64 left = p->N - nj;
            MM(show)(g, z, m + i, nj, MM(min)(left, MM_NR), p->K, 0, c);
            if (left >= MM_NR) {
                for (int v = 0; v < MM_NV; v++)
                    MM(c_store)(g, &r, z, m + i, nj + v * PK_W, PK_W, MM_SUMS(v * PK_W));
                continue;
            }
            for (int v = 0; v < MM_NV && left > 0; v++, left -= PK_W) {
                int cnt = (int)MM(min)(left, PK_W);
                MM(c_store)(g, &r, z, m + i, nj + v * PK_W, cnt, MM_SUMS(v * PK_W));
            }
        }
    }
}

/* ---- phases ----------------------------------------------------------------------------- */

/* Where the panels lie: [z][block of K][panel][k][h] for A, [z][block of K][b][panel][k][NR]. */
MM_INLINE pk_i64 MM(a_panel)(const struct MM(plan) * p, pk_i64 z, pk_i64 k0, pk_i64 kc,
                             pk_i64 panel) {
    return z * p->mrows * MM(words)(p->K) + MM(words)(k0) * p->mrows +
           MM(panel_start)(p, panel) * MM(words)(kc);
}

MM_INLINE pk_i64 MM(b_panel)(const struct MM(plan) * p, pk_i64 z, pk_i64 k0, pk_i64 kc, int j,
                             pk_i64 panel) {
    pk_i64 columns = p->np * MM_NR;
    return z * MM_NB * columns * MM(words)(p->K) + MM(words)(k0) * MM_NB * columns +
           (j * p->np + panel) * MM_NR * MM(words)(kc);
}

MM_INLINE pk_i64 MM(align)(pk_i64 elements) {
    pk_i64 unit = 64 / (pk_i64)sizeof(MM_ACC_S);
    return MM(ceil)(elements, unit) * unit;
}

MM_INLINE pk_i64 MM(a_elements)(const struct MM(plan) * p) {
    return MM(align)(p->Z * p->mrows * MM(words)(p->K));
}

MM_INLINE pk_i64 MM(b_elements)(const struct MM(plan) * p) {
    return MM(align)(p->Z * MM_NB * p->np * MM_NR * MM(words)(p->K));
}

/* A task of phase 0: all of K for MM_GROUP panels of A, or for MM_NC columns of each B. */

MM_INLINE pk_i64 MM(b_groups)(const struct MM(plan) * p) {
    return MM(ceil)(p->np, MM_NC / MM_NR);
}

static void MM(pack_a_task)(const struct pk_args *g, const struct MM(plan) * p, pk_i64 task,
                            MM_ACC_S *dst) {
    pk_i64 groups = MM(ceil)(p->mp, MM_GROUP), z = task / groups, first = task % groups * MM_GROUP;
    pk_i64 last = MM(min)(first + MM_GROUP, p->mp);
    for (pk_i64 k0 = 0; k0 < p->K; k0 += MM_KC) {
        pk_i64 kc = MM(min)(MM_KC, p->K - k0);
        MM(pack_a)(g, p, z, first, last, k0, kc, dst + MM(a_panel)(p, z, k0, kc, first));
    }
}

static void MM(pack_b_task)(const struct pk_args *g, const struct MM(plan) * p, pk_i64 task,
                            MM_ACC_S *dst) {
    const pk_i64 step = MM_NC / MM_NR, groups = MM(ceil)(p->np, step);
    pk_i64 z = task / groups, panel = task % groups * step, panels = MM(min)(step, p->np - panel);
    for (pk_i64 k0 = 0; k0 < p->K; k0 += MM_KC) {
        pk_i64 kc = MM(min)(MM_KC, p->K - k0);
        for (int j = 0; j < MM_NB; j++)
            MM(pack_b)
        (g, j, z, panel * MM_NR, p->N, panels, k0, kc, dst + MM(b_panel)(p, z, k0, kc, j, panel));
    }
}

/* Scratch of a task, in elements: panels of A, panels of B, sums. */
MM_INLINE pk_i64 MM(local_a)(const struct MM(plan) * p) {
    if (p->share_a || p->pa) return 0;
    return MM(align)(p->tp * p->h * MM(words)(MM(min)(MM_KC, p->K)));
}

MM_INLINE pk_i64 MM(local_b)(const struct MM(plan) * p) {
    if (p->share_b || p->pb) return 0;
    return MM(align)(MM_NB * MM_NC * MM(words)(MM(min)(MM_KC, p->K)));
}

MM_INLINE pk_i64 MM(local_c)(const struct MM(plan) * p) {
    pk_i64 one = MM_NB * p->h * MM_NR;
    return MM(align)(p->kblocks > 1 ? one * p->tp * p->tn : one * (MM_NC / MM_NR));
}

static void MM(product_task)(const struct pk_args *g, const struct MM(plan) * p, pk_i64 task) {
    pk_i64 ntask = task % p->ntasks, mtask = task / p->ntasks % p->mtasks;
    pk_i64 z = task / (p->ntasks * p->mtasks);
    pk_i64 i0 = mtask * p->mp / p->mtasks, i1 = (mtask + 1) * p->mp / p->mtasks;
    pk_i64 j0 = ntask * p->np / p->ntasks, j1 = (ntask + 1) * p->np / p->ntasks;
    pk_i64 m0 = MM(panel_start)(p, i0);
    const pk_i64 step = MM_NC / MM_NR;
    struct MM(coming) f = {0};
    MM_ACC_S *la = (MM_ACC_S *)g->local, *lb = la + MM(local_a)(p), *lc = lb + MM(local_b)(p);
    const MM_ACC_S *sa = p->pa, *sb = p->pb;
    if (p->share_a) sa = (const MM_ACC_S *)g->shared;
    if (p->share_b) sb = (const MM_ACC_S *)g->shared + (p->share_a ? MM(a_elements)(p) : 0);

    for (pk_i64 kb = 0, k0 = 0; kb < p->kblocks; kb++, k0 += MM_KC) {
        pk_i64 kc = MM(min)(MM_KC, p->K - k0), kw = MM(words)(kc);
        int first = kb == 0, last = kb == p->kblocks - 1;
        if (!sa)
            for (pk_i64 i = i0; i < i1; i += MM_GROUP)
                MM(pack_a)
        (g, p, z, i, MM(min)(i + MM_GROUP, i1), k0, kc, la + (MM(panel_start)(p, i) - m0) * kw);
        for (pk_i64 jc = j0; jc < j1; jc += step) {
            pk_i64 jn = MM(min)(step, j1 - jc);
            if (!sb)
                for (int b = 0; b < MM_NB; b++)
                    MM(pack_b)(g, b, z, jc * MM_NR, p->N, jn, k0, kc, lb + b * jn * MM_NR * kw);
            for (pk_i64 i = i0; i < i1; i++) {
                pk_i64 m = MM(panel_start)(p, i), h = MM(panel_rows)(p, i), op = jn * h * MM_NR;
                const MM_ACC_S *a = sa ? sa + MM(a_panel)(p, z, k0, kc, i) : la + (m - m0) * kw;
                MM_ACC_S *c = lc;
                if (p->kblocks > 1)
                    c += MM_NB * MM_NR * p->h * ((jc - j0) * (i1 - i0) + (i - i0) * jn);
                for (int b = 0; b < MM_NB; b++)
                    for (pk_i64 j = 0; j < jn; j++) {
                        const MM_ACC_S *pb = sb ? sb + MM(b_panel)(p, z, k0, kc, b, jc + j)
                                                : lb + (b * jn + j) * MM_NR * kw;
                        f.step = 0;
                        if (last && b == 0) MM(announce)(&f, g, p, z, m, h, (jc + j) * MM_NR, kw);
                        MM(tile)(h, kw, a, pb, c + b * op + j * h * MM_NR, first, &f);
                    }
                if (last) MM(finish)(g, p, z, m, MM(min)(h, p->M - m), h, jc * MM_NR, jn, op, c);
            }
        }
    }
}

/* ---- the kernel ------------------------------------------------------------------------- */

static pk_i64 MM(shared_bytes)(const struct pk_args *g) {
    struct MM(plan) p = MM(make_plan)(g);
    if (!p.Z) return 0;
    return ((p.share_a ? MM(a_elements)(&p) : 0) + (p.share_b ? MM(b_elements)(&p) : 0)) *
           (pk_i64)sizeof(MM_ACC_S);
}

static pk_i64 MM(local_bytes)(const struct pk_args *g) {
    struct MM(plan) p = MM(make_plan)(g);
    if (!p.Z) return 0;
    return (MM(local_a)(&p) + MM(local_b)(&p) + MM(local_c)(&p)) * (pk_i64)sizeof(MM_ACC_S);
}

static pk_i64 MM(tasks)(const struct pk_args *g, int phase) {
    struct MM(plan) p = MM(make_plan)(g);
    if (!p.Z) return 0;
    if (phase == 1) return p.Z * p.mtasks * p.ntasks;
    return (p.share_a ? p.Z * MM(ceil)(p.mp, MM_GROUP) : 0) +
           (p.share_b ? p.Z * MM(b_groups)(&p) : 0);
}

static void MM(run)(const struct pk_args *g, int phase, pk_i64 task) {
    struct MM(plan) p = MM(make_plan)(g);
    if (phase == 1) {
        MM(product_task)(g, &p, task);
        return;
    }
    pk_i64 na = p.share_a ? p.Z * MM(ceil)(p.mp, MM_GROUP) : 0;
    MM_ACC_S *dst = (MM_ACC_S *)g->shared;
    if (task < na)
        MM(pack_a_task)(g, &p, task, dst);
    else
        MM(pack_b_task)(g, &p, task - na, dst + (p.share_a ? MM(a_elements)(&p) : 0));
}

#if MM_A_CONST || MM_B_CONST
static pk_i64 MM(packed_bytes)(const struct pk_args *g, int operand) {
    struct MM(plan) p = MM(make_plan)(g);
    if (!p.Z) return 0;
    return (operand < MM_B_CONST ? MM(b_elements)(&p) : MM(a_elements)(&p)) *
           (pk_i64)sizeof(MM_ACC_S);
}

static pk_i64 MM(pack_tasks)(const struct pk_args *g, int operand) {
    struct MM(plan) p = MM(make_plan)(g);
    if (!p.Z) return 0;
    return p.Z * (operand < MM_B_CONST ? MM(b_groups)(&p) : MM(ceil)(p.mp, MM_GROUP));
}

static void MM(pack)(const struct pk_args *g, int operand, pk_i64 task, void *dst) {
    struct MM(plan) p = MM(make_plan)(g);
    if (operand < MM_B_CONST)
        MM(pack_b_task)(g, &p, task, (MM_ACC_S *)dst);
    else
        MM(pack_a_task)(g, &p, task, (MM_ACC_S *)dst);
}
#endif

static const struct pk_kernel MM(kernel) = {
    .name = MM_NAME,
    .phases = 2,
    .operands = MM_A_CONST + MM_B_CONST + MM_PACKS,
    .shared_bytes = MM(shared_bytes),
    .local_bytes = MM(local_bytes),
    .tasks = MM(tasks),
    .run = MM(run),
    .check = PK_CHECK,
#if MM_A_CONST || MM_B_CONST || MM_PACKS
    .packed_bytes = MM(packed_bytes),
    .pack_tasks = MM(pack_tasks),
    .pack = MM(pack),
#endif
};

#undef MM
#undef MM_AHEAD
#undef MM_B0_AHEAD
#undef MM_B1_AHEAD
#undef MM_B2_AHEAD
#undef MM_B3_AHEAD
#undef MM_A_CONST
#undef MM_A_GROUP
#undef MM_B0_GROUP
#undef MM_B1_GROUP
#undef MM_B2_GROUP
#undef MM_B3_GROUP
#undef MM_B_CONST
#undef MM_BAND
#undef MM_STRIP
#undef MM_C_FETCH
#undef MM_CAT1
#undef MM_CAT2
#undef MM_COLS
#undef MM_COLS_1
#undef MM_COLS_2
#undef MM_COLS_3
#undef MM_COLS_4
#undef MM_DECLARE
#undef MM_DOT
#undef MM_DOTS
#undef MM_DECLARE_1
#undef MM_ENDLESS
#undef MM_FETCH_NEXT
#undef MM_FMA
#undef MM_GROUP
#undef MM_HIDES
#undef MM_INLINE
#undef MM_LAST
#undef MM_LAST_1
#undef MM_LOAD
#undef MM_LOAD_1
#undef MM_LOAD_B
#undef MM_NO_GROUP
#undef MM_NR
#undef MM_PACKS
#undef MM_PANELS
#undef MM_DEPTH
#undef MM_PASTE
#undef MM_PRAGMA
#undef MM_PRAGMA_1
#undef MM_ROWS_1
#undef MM_ROWS_10
#undef MM_ROWS_12
#undef MM_ROWS_14
#undef MM_ROWS_16
#undef MM_ROWS_2
#undef MM_ROWS_3
#undef MM_ROWS_4
#undef MM_ROWS_6
#undef MM_ROWS_8
#undef MM_SELECT
#undef MM_SET
#undef MM_STEP
#undef MM_STEP_1
#undef MM_STORE
#undef MM_STORE_1
#undef MM_SUMS
#undef MM_TERM
#undef MM_TILE
#undef MM_TRANSPOSE
#undef MM_WITH_GROUP
#undef MM_ZERO
#undef MM_ZERO_1
#undef MM_PASTE2
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
#undef MM_NV
#undef MM_MC
#undef MM_KC
#undef MM_NC
#undef MM_SHARE
#undef PK_CHECK
#undef PK_KERNEL
