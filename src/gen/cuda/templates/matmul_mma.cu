/* SPDX-License-Identifier: MIT
 *
 * out_j(z, m, n) = f_j(acc_0 .. acc_i), acc_i(z, m, n) = sum over k of a(z, m, k) b_i(z, n, k) on the
 * tensor cores of sm_80 and later: bf16, f16 and, widened to f16 (which holds them exactly), fp8 with
 * sums in f32; i8 and u8 with sums in i32.
 *
 * A block of threads makes a tile of MM_ROWS x MM_COLS, a warp MM_ROWS / 2 x 32 of it. 64 bytes of
 * each row along k lie in shared memory, twice: while one block of K is multiplied, the leaves of the
 * next are on their way to registers, and become the other (matmul_mma_operand.h). Results are turned
 * between the four threads that share a row of fragments, so that each has 8 neighbours along n.
 *
 * With MM_SPLIT blocks for a tile each has a part of K; the last one to finish adds up the sums of all,
 * in the order of the parts, and runs the epilogue.
 *
 * K order: 16 at a time (8-bit integers: 32, exact), ascending, whatever the tile; within 16, the
 * hardware's; then parts. Past K both operands are 0.
 *
 * The generator writes this file behind the CUDA prelude and, for each kernel, what matmul_simt.cu
 * lists, with W = MM_A_W = MM_B0_W = .. = MM_C_W = 8, the leaf tables, and
 *
 *   #define MM_ROWS 128            or 64; MM_COLS is the same
 *   #define MM_COLS 128
 *   #define MM_SPLIT 1
 *
 * Launch: 2 * MM_COLS threads, T = Z * ceil(M / MM_ROWS) * ceil(N / MM_COLS) times MM_SPLIT blocks.
 * Scratch with MM_SPLIT > 1: counters, ceil(4 * T / 256) * 256 bytes, 0 before and after each launch,
 * then T * MM_SPLIT * MM_NB * MM_ROWS * MM_COLS * 4 bytes.
 */
#include "matmul_hooks.h"
#include "matmul_mma_ptx.h"

#define MM_OB      (MM_A_DTYPE == PK_I8 || MM_A_DTYPE == PK_U8 ? 1 : 2)
#define MM_BK      (64 / MM_OB)   /* steps of k in a block */
#define MM_MI      (MM_ROWS / 32) /* fragments of 16 rows of a warp */
#define MM_WN      (MM_COLS / 32) /* warps side by side */
#define MM_THREADS (64 * MM_WN)
#define MM_RASTER  8 /* rows of tiles that share their columns in L2 */

/* By which a row's 16-byte pieces are displaced: 8 rows then lie in different banks, 8 apart too. */
PK_D unsigned MM(turn)(unsigned row) {
    return (row >> 1 ^ row >> 3) & 3;
}

#define MM_X            a
#define MM_X_AXIS       MM_A_AXIS
#define MM_X_DTYPE      MM_A_DTYPE
#define MM_X_GROUP      MM_A_GROUP
#define MM_X_PLAIN      MM_A_PLAIN
#define MM_X_LEAVES     MM_A_LEAVES
#define MM_X_LEAF0_BITS MM_A_LEAF0_BITS
#define MM_X_LEAF1_BITS MM_A_LEAF1_BITS
#define MM_X_LEAF2_BITS MM_A_LEAF2_BITS
#define MM_X_LEAF3_BITS MM_A_LEAF3_BITS
#include "matmul_mma_operand.h"
#define MM_X            b0
#define MM_X_AXIS       MM_B0_AXIS
#define MM_X_DTYPE      MM_B0_DTYPE
#define MM_X_GROUP      MM_B0_GROUP
#define MM_X_PLAIN      MM_B0_PLAIN
#define MM_X_LEAVES     MM_B0_LEAVES
#define MM_X_LEAF0_BITS MM_B0_LEAF0_BITS
#define MM_X_LEAF1_BITS MM_B0_LEAF1_BITS
#define MM_X_LEAF2_BITS MM_B0_LEAF2_BITS
#define MM_X_LEAF3_BITS MM_B0_LEAF3_BITS
#include "matmul_mma_operand.h"
#if MM_NB > 1
#define MM_X            b1
#define MM_X_AXIS       MM_B1_AXIS
#define MM_X_DTYPE      MM_B1_DTYPE
#define MM_X_GROUP      MM_B1_GROUP
#define MM_X_PLAIN      MM_B1_PLAIN
#define MM_X_LEAVES     MM_B1_LEAVES
#define MM_X_LEAF0_BITS MM_B1_LEAF0_BITS
#define MM_X_LEAF1_BITS MM_B1_LEAF1_BITS
#define MM_X_LEAF2_BITS MM_B1_LEAF2_BITS
#define MM_X_LEAF3_BITS MM_B1_LEAF3_BITS
#include "matmul_mma_operand.h"
#endif
#if MM_NB > 2
#define MM_X            b2
#define MM_X_AXIS       MM_B2_AXIS
#define MM_X_DTYPE      MM_B2_DTYPE
#define MM_X_GROUP      MM_B2_GROUP
#define MM_X_PLAIN      MM_B2_PLAIN
#define MM_X_LEAVES     MM_B2_LEAVES
#define MM_X_LEAF0_BITS MM_B2_LEAF0_BITS
#define MM_X_LEAF1_BITS MM_B2_LEAF1_BITS
#define MM_X_LEAF2_BITS MM_B2_LEAF2_BITS
#define MM_X_LEAF3_BITS MM_B2_LEAF3_BITS
#include "matmul_mma_operand.h"
#endif
#if MM_NB > 3
#define MM_X            b3
#define MM_X_AXIS       MM_B3_AXIS
#define MM_X_DTYPE      MM_B3_DTYPE
#define MM_X_GROUP      MM_B3_GROUP
#define MM_X_PLAIN      MM_B3_PLAIN
#define MM_X_LEAVES     MM_B3_LEAVES
#define MM_X_LEAF0_BITS MM_B3_LEAF0_BITS
#define MM_X_LEAF1_BITS MM_B3_LEAF1_BITS
#define MM_X_LEAF2_BITS MM_B3_LEAF2_BITS
#define MM_X_LEAF3_BITS MM_B3_LEAF3_BITS
#include "matmul_mma_operand.h"
#endif

/* Four matrices of 8 rows x 16 bytes of k, of the 16 rows from `first + 16 i` on: lane l points at row
 * l % 8 of matrix l / 8, which is the upper half of the rows if `high_o`, of k if `high_k`. The part
 * of the address that a lane has; MM(fragment) adds i and the step of k. */
template <bool TRANS, int R>
PK_D unsigned MM(lane_at)(unsigned first, unsigned high_o, unsigned high_k) {
    const unsigned line = threadIdx.x % 8;
    if constexpr (TRANS)
        return (line + 8 * high_k) * (2 * R) + (((first / 8 + high_o) ^ line) << 4);
    const unsigned row = first + line + 8 * high_o;
    return row * 64 + ((high_k ^ MM(turn)(row)) << 4);
}
template <bool TRANS, int R>
PK_D void MM(fragment)(unsigned *r, unsigned tile, unsigned lane, int i, int step) {
    if constexpr (TRANS)
        pk_mma_load<true>(r, tile + (lane ^ (unsigned)(i << 5)) + (unsigned)(step * 32 * R));
    else
        pk_mma_load<false>(r,
                           tile + (lane ^ (unsigned)((i ^ step) & 1) << 5) + (unsigned)(i * 1024));
}

typedef MM_ACC_S MM(sums)[MM_MI][4][4]; /* 16 rows, 8 columns, as the instruction has them */

/* One block of K of b_j. */
template <class B>
PK_D void MM(multiply)(MM(sums) & acc, unsigned a, unsigned b, unsigned lane_a, unsigned lane_b) {
    typedef MM(a_feed)<MM_ROWS> A;
    _Pragma("unroll") for (int step = 0; step < 2; step++) {
        unsigned y[2][4];
        _Pragma("unroll") for (int j = 0; j < 2; j++)
            MM(fragment)<B::TRANS, MM_COLS>(y[j], b, lane_b, j, step);
        _Pragma("unroll") for (int i = 0; i < MM_MI; i++) {
            unsigned x[4];
            MM(fragment)<A::TRANS, MM_ROWS>(x, a, lane_a, i, step);
            PK_EACH(4)
            pk_mma<typename A::type, typename B::type>::add(acc[i][l], x, y[l / 2] + l % 2 * 2);
        }
    }
}

/* Four pieces of a thread, one of each of four neighbours: piece l of thread t to piece t of l. */
PK_D void MM(turn_over)(MM_ACC_S (*v)[2]) {
    _Pragma("unroll") for (int bit = 1; bit < 4; bit *= 2) {
        const bool upper = threadIdx.x & bit;
        PK_EACH(4) {
            if (l & bit) continue;
            _Pragma("unroll") for (int c = 0; c < 2; c++) {
                const MM_ACC_S give = upper ? v[l][c] : v[l + bit][c];
                const MM_ACC_S take = __shfl_xor_sync(0xffffffffu, give, bit);
                if (upper)
                    v[l][c] = take;
                else
                    v[l + bit][c] = take;
            }
        }
    }
}
PK_D pk_lanes<MM_ACC_S, 8> MM(lanes)(const MM_ACC_S (*v)[2]) {
    pk_lanes<MM_ACC_S, 8> r;
    PK_EACH(8) r.x[l] = v[l / 2][l % 2];
    return r;
}
#if MM_NB == 1
#define MM_SUMS MM(lanes)(v[0])
#elif MM_NB == 2
#define MM_SUMS MM(lanes)(v[0]), MM(lanes)(v[1])
#elif MM_NB == 3
#define MM_SUMS MM(lanes)(v[0]), MM(lanes)(v[1]), MM(lanes)(v[2])
#else
#define MM_SUMS MM(lanes)(v[0]), MM(lanes)(v[1]), MM(lanes)(v[2]), MM(lanes)(v[3])
#endif

/* A warp's results, 8 rows x 32 columns at a time. */
PK_D void MM(finish)(const struct pk_args *g, const struct MM(shape) & s, pk_i64 z, pk_i64 m0,
                     pk_i64 n0, const MM(sums) * acc) {
    const int lane = threadIdx.x % 32;
    const pk_i64 n = n0 + lane % 4 * 8;
    const int cnt = s.N - n >= 8 ? 8 : s.N > n ? (int)(s.N - n) : 0;
    _Pragma("unroll 1") for (int part = 0; part < 2 * MM_MI; part++) {
        MM_ACC_S v[MM_NB][4][2];
        _Pragma("unroll") for (int j = 0; j < MM_NB; j++) {
            PK_EACH(8) v[j][l / 2][l % 2] = acc[j][0][l / 2][l % 2];
            _Pragma("unroll") for (int i = 1; i < 2 * MM_MI; i++) {
                if (i == part) {
                    PK_EACH(8) v[j][l / 2][l % 2] = acc[j][i / 2][l / 2][i % 2 * 2 + l % 2];
                }
            }
            MM(turn_over)(v[j]);
        }
        const pk_i64 m = m0 + part * 8 + lane / 4;
        if (m >= s.M || cnt == 0) continue;
        const MM(c_row)<8> r = MM(c_row_init)<8>(g, z, m);
        MM(c_store)<8>(g, &r, z, m, n, cnt, MM_SUMS);
    }
}

#if MM_SPLIT > 1
/* This block's sums to memory; true in the block that is last, with the sums of all. */
PK_D bool MM(gather)(const struct pk_args *g, const struct MM(shape) & s, pk_i64 tile, int split,
                     MM(sums) * acc) {
    enum { COUNT = MM_NB * MM_MI * 16 };
    __shared__ int last;
    const pk_i64 tiles =
        s.Z * ((s.M + MM_ROWS - 1) / MM_ROWS) * ((s.N + MM_COLS - 1) / MM_COLS);
    MM_ACC_S *const all = (MM_ACC_S *)((char *)g->scratch + (tiles * 4 + 255) / 256 * 256) +
                          tile * MM_SPLIT * (COUNT * MM_THREADS) + threadIdx.x;
    MM_ACC_S *const own = all + split * (COUNT * MM_THREADS);
    MM_ACC_S *const v = &acc[0][0][0][0];
    PK_EACH(COUNT) own[l * MM_THREADS] = v[l];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        int *const counter = (int *)g->scratch + tile;
        last = atomicAdd(counter, 1) == MM_SPLIT - 1;
        if (last) *counter = 0;
    }
    __threadfence();
    __syncthreads();
    if (!last) return false;
    PK_EACH(COUNT) v[l] = __ldcg(all + l * MM_THREADS);
    _Pragma("unroll 1") for (int i = 1; i < MM_SPLIT; i++) {
        PK_EACH(COUNT) v[l] += __ldcg(all + i * (COUNT * MM_THREADS) + l * MM_THREADS);
    }
    return true;
}
#endif

extern "C" __global__ void __launch_bounds__(MM_THREADS)
    MM(main)(const __grid_constant__ struct pk_args args) {
    __shared__ __align__(128) unsigned char tiles[2][(MM_ROWS + MM_NB * MM_COLS) * 64];
    const struct pk_args *const g = &args;
    const struct MM(shape) s = MM(get_shape)(g);
    const pk_i64 mt = (s.M + MM_ROWS - 1) / MM_ROWS, nt = (s.N + MM_COLS - 1) / MM_COLS;
    const pk_i64 index = blockIdx.x / MM_SPLIT, z = index / (mt * nt), tile = index % (mt * nt);
    const pk_i64 part = (s.K + MM_SPLIT * MM_BK - 1) / (MM_SPLIT * MM_BK) * MM_BK;
    const pk_i64 from = blockIdx.x % MM_SPLIT * part, end = from + part < s.K ? from + part : s.K;
    const pk_i64 top = tile / (MM_RASTER * nt) * MM_RASTER, inside = tile % (MM_RASTER * nt);
    const pk_i64 high = mt - top < MM_RASTER ? mt - top : MM_RASTER;
    const pk_i64 m0 = (top + inside % high) * MM_ROWS, n0 = inside / high * MM_COLS;

    MM(a_feed)<MM_ROWS> a;
    a.start(g, z, m0, s.M, s.K);
    MM(b0_feed)<MM_COLS> b0;
    b0.start(g, z, n0, s.N, s.K);
#if MM_NB > 1
    MM(b1_feed)<MM_COLS> b1;
    b1.start(g, z, n0, s.N, s.K);
#endif
#if MM_NB > 2
    MM(b2_feed)<MM_COLS> b2;
    b2.start(g, z, n0, s.N, s.K);
#endif
#if MM_NB > 3
    MM(b3_feed)<MM_COLS> b3;
    b3.start(g, z, n0, s.N, s.K);
#endif

    const unsigned warp = threadIdx.x / 32, upper = threadIdx.x / 8 % 2,
                   last = threadIdx.x / 16 % 2;
    const unsigned wm = warp / MM_WN * (MM_ROWS / 2), wn = warp % MM_WN * 32;
    const unsigned lane_a = MM(lane_at)<MM(a_feed)<MM_ROWS>::TRANS, MM_ROWS>(wm, upper, last);
    const unsigned base = pk_mma_address(tiles[0]);
    MM(sums) acc[MM_NB] = {};

    _Pragma("unroll 1") for (pk_i64 k0 = from - MM_BK;; k0 += MM_BK) {
        const pk_i64 next = k0 + MM_BK;
        const bool more = next < end;
        const unsigned now = k0 / MM_BK % 2 ? base + (unsigned)sizeof tiles[0] : base;
        const unsigned then = next / MM_BK % 2 ? base + (unsigned)sizeof tiles[0] : base;
        if (more) {
            a.load(g, next);
            b0.load(g, next);
#if MM_NB > 1
            b1.load(g, next);
#endif
#if MM_NB > 2
            b2.load(g, next);
#endif
#if MM_NB > 3
            b3.load(g, next);
#endif
        }
        if (k0 >= from) {
#define MM_ONE(j)                                                                                  \
    MM(multiply)<MM(b##j##_feed)<MM_COLS>>(                                                        \
        acc[j], now, now + (MM_ROWS + j * MM_COLS) * 64, lane_a,                                   \
        MM(lane_at)<MM(b##j##_feed)<MM_COLS>::TRANS, MM_COLS>(wn, last, upper))
            MM_ONE(0);
#if MM_NB > 1
            MM_ONE(1);
#endif
#if MM_NB > 2
            MM_ONE(2);
#endif
#if MM_NB > 3
            MM_ONE(3);
#endif
        }
        if (!more) break;
        a.store(g, next, then);
        b0.store(g, next, then + MM_ROWS * 64);
#if MM_NB > 1
        b1.store(g, next, then + (MM_ROWS + MM_COLS) * 64);
#endif
#if MM_NB > 2
        b2.store(g, next, then + (MM_ROWS + 2 * MM_COLS) * 64);
#endif
#if MM_NB > 3
        b3.store(g, next, then + (MM_ROWS + 3 * MM_COLS) * 64);
#endif
        __syncthreads();
    }
#if MM_SPLIT > 1
    if (!MM(gather)(g, s, index, (int)(blockIdx.x % MM_SPLIT), acc)) return;
#endif
    MM(finish)(g, s, z, m0 + wm, n0 + wn, acc);
}

#undef MM_OB
#undef MM_BK
#undef MM_MI
#undef MM_WN
#undef MM_THREADS
#undef MM_RASTER
#undef MM_SPLIT
#undef MM_ROWS
#undef MM_COLS
#undef MM_SUMS
#undef MM_ONE
#include "matmul_end.h"
