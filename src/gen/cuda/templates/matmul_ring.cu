/* SPDX-License-Identifier: MIT
 *
 * out_j(z, m, n) = f_j(acc_0 .. acc_i), acc_i(z, m, n) = sum over k of a(z, m, k) b_i(z, n, k), for
 * few rows m on GPUs with a copy engine (sm_90 and up): the time is that of reading B once. Any M is
 * right (blocks of MM_COLS rows of A). The sister of matmul_few.cu, which needs no tensor maps.
 *
 * A block takes MM_TILES tiles of 16 rows of B and goes along K once: a ring of MM_STAGES stages in
 * shared memory, each MM_KGROUPS * MM_UNITS units along k (a unit: 4 runs of 16 bytes), is filled by
 * the copy engine with boxes of 16 * MM_TILES rows of B, 128 bytes wide, and with the same part of A:
 *   MM_A_TMA 1: as it lies, boxes of 64 elements by the block's rows of A;
 *   MM_A_TMA 0: warps evaluate it into fragments, in the order in which lanes read them
 *               (matmul_ring_x.h).
 * MM_TILES * MM_KGROUPS warps consume it: each has one tile and the units of its K group, sums stay in
 * registers to the end of K. So A is never waited for as a whole, what is in flight does not depend
 * on how many registers there are, and shared memory holds bytes on their way.
 *
 * B's rows stand on the M side of mma.sync m16n8k16, A's rows are its columns. Lane c of four has
 * elements c * MM_RUN .. of a unit where the instruction wants elements 2c, 2c+1, 2c+8, 2c+9: which k
 * stands where does not matter as long as A has the same. Boxes are swizzled over 128 bytes; lanes
 * take rows i and i + 4 of 8 as neighbours, which makes their reads of 16 bytes fall into all banks.
 *
 * K order: a K group sums its units of one stage after the other (the order inside an instruction is
 * the machine's), groups are added in turn. It depends on MM_KGROUPS, MM_UNITS and K alone.
 *
 * The generator writes what matmul_few.cu asks for, kinds 0 and 1, one leaf of each of one or two
 * right operands with a tensor map, MM_RUN elements in 16 bytes of it, and instead of its sizes:
 *   #define MM_TILES 7, MM_KGROUPS 2, MM_UNITS 2 (of a K group in a stage: 1 or even; times
 *                                  MM_KGROUPS even), MM_COLS8 2 (rows of A in a block, by 8)
 *   #define MM_STAGES 4
 *   #define MM_A_TMA 0, MM_A_MAP_Z 1, MM_B0_MAP_Z 1 ..   the third coordinate of the operand's map is
 *                                  z (1) or 0; A's if MM_A_TMA
 *   #define MM_A_WARPS 4, MM_A_AHEAD 4   without MM_A_TMA: warps that evaluate A; stages that its rows
 *                                  are asked for ahead
 *   MM(c_near)(g, z, n), if MM_C_NEAR is not 0: asks for what results of column n are combined with
 *
 * Launch: MM(main), arguments, then the maps of A (MM_A_TMA), B0, B1: boxes of 64 elements by MM_COLS
 * rows of A, of 128 bytes by 16 * MM_TILES rows of B, swizzled over 128 bytes; MM_THREADS threads, one
 * block an SM, Z * ceil(M / MM_COLS) * ceil(N / (16 * MM_TILES)) tasks (below 2^31), shared memory as
 * MM(main) lays it out, after at most 1023 bytes to a multiple of 1024.
 *
 * What was measured (H200, N = 14336, K = 4096, graph replays over weights beyond the L2):
 *   - The pipeline without arithmetic: 16.6 us for 8 bits, 9.7 for 4, 31.0 for 16. With it: 18.2 and
 *     18.5 (1 and 16 rows of 8 bits): the last stage and the end cost one microsecond, the slowest SM is
 *     two behind the average.
 *   - Feeding A by warps through registers, by bulk copies of rows (100 cycles each), or from another
 *     block of a cluster (st.async) took 20 to 24 us: A as it lies is free.
 *   - More stages are slower (18.2, 18.8, 19.2 with 4, 5, 6 of 28 KB); evicting B first gains 0.5 to 1.
 */
#if MM_HIDES
#error "a product that hides infinities needs another template"
#endif
#include "matmul_hooks.h"
#include "matmul_wgmma_ptx.h"
#include "matmul_ring_ptx.h"

#define MM_UNIT      (4 * MM_RUN) /* elements along k that a warp takes at once */
#define MM_J         (MM_RUN / 8)
#define MM_COLS      (8 * MM_COLS8)
#define MM_ROWS      (16 * MM_TILES)
#define MM_PARTS     (MM_KGROUPS * MM_UNITS) /* units of a stage */
#define MM_STAGE_K   (MM_PARTS * MM_UNIT)
#define MM_BOX       (MM_ROWS * 128)
#define MM_BOXES     (MM_PARTS / 2)
/* A as it lies is boxes of 64 elements; where a lane's run is half of one, every other box starts two
 * rows on, and lanes that read at once find other banks. */
#ifndef MM_X_SKEW
#define MM_X_SKEW (MM_A_TMA && MM_RUN == 32 ? 256 : 0)
#endif
#define MM_X_BYTES   (MM_PARTS * MM_J * MM_COLS8 * 512 + (MM_X_SKEW ? MM_PARTS * 1024 : 0))
#define MM_B_BYTES   (MM_BOXES * MM_BOX)
#define MM_SLOT      (MM_NB * MM_B_BYTES + MM_X_BYTES)
#define MM_CONSUMERS (MM_TILES * MM_KGROUPS)
#define MM_THREADS   (32 * (MM_CONSUMERS + (MM_A_TMA ? 1 : MM_A_WARPS + 2)))
#define MM_X_BOX     (MM_COLS * 128)
#define MM_X_BOXES   (MM_PARTS * MM_UNIT / 64)
#define MM_X_AT(box)                                                                               \
    (MM_X_SKEW ? (box) / 2 * (2 * MM_X_BOX + 1024) + (box) % 2 * (MM_X_BOX + MM_X_SKEW)            \
               : (box) * MM_X_BOX)
#if MM_A_LEAVES > 1
#define MM_LEAF_BITS1 MM_A_LEAF1_BITS
#else
#define MM_LEAF_BITS1 0
#endif
#if MM_A_LEAVES > 2
#define MM_LEAF_BITS2 MM_A_LEAF2_BITS
#else
#define MM_LEAF_BITS2 0
#endif
#if MM_A_LEAVES > 3
#define MM_LEAF_BITS3 MM_A_LEAF3_BITS
#else
#define MM_LEAF_BITS3 0
#endif
/* Bytes of a row of A as it lies that has so many registers of each 8 elements, of all. */
#define MM_RAW_PITCH(words) (MM_STAGE_K / 8 * 4 * (words) + 16)
#if MM_A_TMA
#define MM_RAW_BYTES 0
#elif MM_A_LEAVES > 0
#define MM_RAW_BYTES                                                                               \
    (MM_COLS * (MM_STAGE_K / 8 * (MM_A_LEAF0_BITS + MM_LEAF_BITS1 + MM_LEAF_BITS2 +            \
                                      MM_LEAF_BITS3) +                                             \
                    16 * MM_A_LEAVES))
#else
#define MM_RAW_BYTES 0
#endif
#define MM_SUMS_BYTES (MM_TILES * (MM_KGROUPS - 1) * MM_NB * MM_COLS8 * 512)
/* Rows of finished sums lie apart by this many elements. */
#define MM_PITCH     (MM_ROWS + 4)
#define MM_OUT_BYTES (MM_NB * MM_COLS * MM_PITCH * 4)

PK_D pk_i64 MM(ceil)(pk_i64 a, pk_i64 b) {
    return (a + b - 1) / b;
}

PK_D pk_i64 MM(min)(pk_i64 a, pk_i64 b) {
    return a < b ? a : b;
}

#ifndef MM_PROBE
#define MM_PROBE(i)
#endif
#include "matmul_few_feed.h"

static_assert(MM_KIND <= MM_KIND_F16 && MM_PARTS % 2 == 0, "what this template takes");

/* ---- operands ------------------------------------------------------------------------------- */

#define MM_X            a
#define MM_X_RUN        8
#define MM_X_DTYPE      MM_A_DTYPE
#define MM_X_GROUP      MM_A_GROUP
#define MM_X_LEAVES     MM_A_LEAVES
#define MM_X_LEAF0_BITS MM_A_LEAF0_BITS
#define MM_X_LEAF1_BITS MM_A_LEAF1_BITS
#define MM_X_LEAF2_BITS MM_A_LEAF2_BITS
#define MM_X_LEAF3_BITS MM_A_LEAF3_BITS
#include "matmul_few_operand.h"
#define MM_X            b0
#define MM_X_RUN        MM_RUN
#define MM_X_DTYPE      MM_B0_DTYPE
#define MM_X_GROUP      MM_B0_GROUP
#define MM_X_LEAVES     1
#define MM_X_LEAF0_BITS MM_B0_LEAF0_BITS
#include "matmul_few_operand.h"
#if MM_NB > 1
#define MM_X            b1
#define MM_X_RUN        MM_RUN
#define MM_X_DTYPE      MM_B1_DTYPE
#define MM_X_GROUP      MM_B1_GROUP
#define MM_X_LEAVES     1
#define MM_X_LEAF0_BITS MM_B1_LEAF0_BITS
#include "matmul_few_operand.h"
#endif

/* The b-th right operand by a number known when compiling. */
template <int B> struct MM(op_of) {};
template <> struct MM(op_of)<0> { typedef struct MM(b0_op) type; };
#if MM_NB > 1
template <> struct MM(op_of)<1> { typedef struct MM(b1_op) type; };
#endif

/* ---- the work ------------------------------------------------------------------------------- */

struct MM(work) {
    pk_i64 M, N, K;
    unsigned stages, row_blocks, col_blocks, tasks;
};

/* One task: rows n0 .. of B, rows m0 .. of A. */
struct MM(task) {
    pk_i64 z, m0, n0;
};

PK_D struct MM(work) MM(work_of)(const struct pk_args *g) {
    struct MM(shape) s = MM(get_shape)(g);
    struct MM(work) w;
    w.M = s.M, w.N = s.N, w.K = s.K;
    w.stages = (unsigned)MM(ceil)(s.K, MM_STAGE_K);
    w.row_blocks = (unsigned)MM(ceil)(s.N, MM_ROWS);
    w.col_blocks = (unsigned)MM(ceil)(s.M, MM_COLS);
    w.tasks = (unsigned)s.Z * w.row_blocks * w.col_blocks;
    return w;
}

PK_D struct MM(task) MM(task_at)(const struct MM(work) & w, unsigned task) {
    unsigned rest = task / w.row_blocks;
    struct MM(task) t;
    t.n0 = (pk_i64)(task % w.row_blocks) * MM_ROWS;
    t.m0 = (pk_i64)(rest % w.col_blocks) * MM_COLS;
    t.z = rest / w.col_blocks;
    return t;
}

/* Where in the ring: a stage's slot, and how often it went round. */
struct MM(turn) {
    unsigned slot, parity;
};

PK_D void MM(advance)(struct MM(turn) & t) {
    if (++t.slot == MM_STAGES) t.slot = 0, t.parity ^= 1;
}

struct MM(ring) {
    char *base;    /* of the slots: boxes of B0, B1, then fragments of A */
    char *raw;     /* of rows of A as they lie, MM_A_AHEAD stages */
    unsigned full; /* barriers: a slot's bytes are there; 8 bytes each, then those of empty slots */
};

PK_D unsigned MM(full)(const struct MM(ring) & r, unsigned slot) {
    return r.full + 8 * slot;
}

PK_D unsigned MM(empty)(const struct MM(ring) & r, unsigned slot) {
    return r.full + 8 * (MM_STAGES + slot);
}

#if MM_A_TMA
static_assert(MM_A_PLAIN, "A as it lies");
#else
/* Who fetches B has a start of a stage; then A's first rows come before more of B. */
PK_D void MM(go)(void) {
    asm volatile("bar.arrive 3, 64;" ::: "memory");
}
#include "matmul_ring_x.h"
#endif

/* ---- B on its way ----------------------------------------------------------------------------- */

PK_D void MM(fetch)(const struct MM(work) & w, const struct MM(ring) & r,
                    const pk_tensor_map *const *maps) {
    struct MM(turn) t = {0, 0};
#if !MM_A_TMA
    bool first = true;
#endif
#pragma unroll 1
    for (unsigned task = blockIdx.x; task < w.tasks; task += gridDim.x) {
        const struct MM(task) at = MM(task_at)(w, task);
        /* a map counts elements, below a byte bytes */
        constexpr int step = MM_B0_LEAF0_BITS < 8 ? 128 : 128 * 8 / MM_B0_LEAF0_BITS;
        int k = 0;
        const unsigned bytes = MM_NB * MM_B_BYTES + (MM_A_TMA ? MM_X_BOXES * MM_X_BOX : 0);
#pragma unroll 1
        for (unsigned s = 0; s < w.stages; s++) {
            const unsigned full = MM(full)(r, t.slot),
                           to = pk_shared_address(r.base + t.slot * MM_SLOT);
            pk_bar_wait(MM(empty)(r, t.slot), t.parity ^ 1);
            if (threadIdx.x % 32 == 0) {
                pk_bar_expect(full, bytes);
#if MM_A_TMA
#pragma unroll
                for (int i = 0; i < MM_X_BOXES; i++)
                    pk_tma_load(to + MM_NB * MM_B_BYTES + MM_X_AT(i), maps[MM_NB], full,
                                (int)s * MM_STAGE_K + 64 * i, (int)at.m0, MM_A_MAP_Z * (int)at.z);
#endif
#pragma unroll
                for (int i = 0; i < MM_BOXES; i++) {
                    pk_tma_stream(to + i * MM_BOX, maps[0], full, k + i * step, (int)at.n0,
                                  MM_B0_MAP_Z * (int)at.z);
#if MM_NB > 1
                    pk_tma_stream(to + MM_B_BYTES + i * MM_BOX, maps[1], full, k + i * step,
                                  (int)at.n0, MM_B1_MAP_Z * (int)at.z);
#endif
                }
            }
            k += MM_BOXES * step;
            __syncwarp();
#if !MM_A_TMA
            if (first) asm volatile("bar.sync 3, 64;" ::: "memory");
            first = false;
#endif
            MM(advance)(t);
        }
    }
}

/* ---- products --------------------------------------------------------------------------------- */

/* Which of 8 rows of a tile a lane has. */
PK_D int MM(row_of_lane)(void) {
    int r = ((int)threadIdx.x & 31) / 4;
    return r / 2 + r % 2 * 4;
}

/* Which of 8 rows of A a lane, or a column of sums, has: A as it lies is read like B where its runs
 * are as long. */
PK_D int MM(x_row)(int n) {
    return MM_A_TMA && MM_J == 1 ? n / 2 + n % 2 * 4 : n;
}

/* Elements from `left` on of 8 in the order of pack() are none of the operand's. */
PK_D void MM(cut)(unsigned v[MM_REGS], int left) {
#pragma unroll
    for (int i = 0; i < MM_REGS; i++) {
        const int e = i / MM_B_ORDER * 2 * MM_B_ORDER + i % MM_B_ORDER;
        if (e >= left) v[i] &= 0xffff0000u;
        if (e + MM_B_ORDER >= left) v[i] &= 0xffffu;
    }
}

/* For one right operand: this lane's rows and what groups of elements share, a stage ahead. */
template <int B> struct MM(lane_rows) {
    typedef typename MM(op_of)<B>::type op;
    typename op::row row[2];
    unsigned n[2];
    typename op::run ahead[MM_UNITS][2]; /* .q alone */
};

template <int B>
PK_D void MM(groups)(const struct pk_args *g, pk_i64 z, int K, int k0, MM(lane_rows) < B > &r) {
    typedef typename MM(op_of)<B>::type op;
    if constexpr (op::GROUP > 0) {
#pragma unroll
        for (int u = 0; u < MM_UNITS; u++) {
            int k = k0 + u * MM_UNIT;
            /* The four runs of a unit are often in one group: then k is the same for all lanes. */
            if (op::GROUP % MM_UNIT != 0) k += ((int)threadIdx.x & 3) * MM_RUN;
#pragma unroll
            for (int i = 0; i < op::GROUPS; i++) {
                const unsigned at = (unsigned)min(k + i * (MM_RUN / op::GROUPS), K - 1);
#pragma unroll
                for (int h = 0; h < 2; h++)
                    r.ahead[u][h].q[i] = op::group_of(g, &r.row[h], z, r.n[h], at);
            }
        }
    }
}

#if MM_NB == 1
#define MM_EACH_B(X) X(0)
#else
#define MM_EACH_B(X) X(0) X(1)
#endif

struct MM(all_rows) {
#define MM_RING(b) MM(lane_rows)<b> r##b;
    MM_EACH_B(MM_RING)
};

/* Where a lane's first unit of a stage lies in a slot, of B and of A. Further units and eights of it
 * are at constant distances, or differ in bits of the swizzled column that the lane's do not have. */
struct MM(lane) {
    unsigned w, x;
};
static_assert(MM_UNITS == 1 || MM_UNITS % 2 == 0, "a box is two units");

PK_D struct MM(lane) MM(lane_of)(int tile, int kgroup) {
    const int lane = (int)threadIdx.x & 31, c = lane & 3, part = kgroup * MM_UNITS,
              row = MM(row_of_lane)();
    struct MM(lane) l;
    l.w = (unsigned)(part / 2 * MM_BOX + (tile * 16 + row) * 128 + ((part % 2 * 4 + c) ^ row) * 16);
#if MM_A_TMA
    const int e = part * MM_UNIT + c * MM_RUN, m = MM(x_row)(lane / 4);
    /* Rows are swizzled by their address. */
    const int from = MM_X_AT(e / 64) + m * 128;
    l.x = (unsigned)(MM_NB * MM_B_BYTES + from + (e % 64 / 8 ^ from / 128 % 8) * 16);
#else
    l.x = (unsigned)(MM_NB * MM_B_BYTES + part * (MM_J * MM_COLS8 * 512) + lane * 16);
#endif
    return l;
}

/* The lane's 16 bytes of unit u, row h * 8 below its first. */
PK_D uint4 MM(run_of_lane)(unsigned slot, const struct MM(lane) & l, int b, int u, int h) {
    uint4 v;
    const unsigned at = ((slot + l.w) ^ u % 2 * 64u) + b * MM_B_BYTES + u / 2 * MM_BOX + h * (8 * 128);
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at));
    return v;
}

/* The slot may be filled again, as far as this warp is concerned. */
PK_D void MM(release)(const struct MM(ring) & r, unsigned slot) {
    __syncwarp();
    if ((threadIdx.x & 31) == 0) pk_bar_arrive(MM(empty)(r, slot));
}

#include "matmul_ring_warp.h"

/* ---- results ---------------------------------------------------------------------------------- */

PK_D void MM(together)(void) {
    asm volatile("bar.sync 1, %0;" ::"n"(32 * MM_CONSUMERS) : "memory");
}

/* Where sums of a K group but the first lie. */
PK_D struct MM(acc) * MM(sum_at)(struct MM(acc) * sums, int t, int b, int kgroup, int c) {
    return sums + (((t * MM_NB + b) * (MM_KGROUPS - 1) + kgroup - 1) * MM_COLS8 + c) * 32 +
           ((int)threadIdx.x & 31);
}

/* Adds the groups' sums in their order; the first group's warps have theirs in registers, and results
 * take the place of the others'. */
PK_D void MM(finish)(struct MM(acc) * sums, MM_ACC_S *out, int tile, int kgroup,
                     struct MM(acc) (&acc)[MM_NB][MM_COLS8]) {
    if (kgroup > 0)
#pragma unroll
        for (int b = 0; b < MM_NB; b++)
#pragma unroll
            for (int c = 0; c < MM_COLS8; c++)
                *MM(sum_at)(sums, tile, b, kgroup, c) = acc[b][c];
    MM(together)();
    if (kgroup == 0)
#pragma unroll
        for (int b = 0; b < MM_NB; b++)
#pragma unroll
            for (int c = 0; c < MM_COLS8; c++)
#pragma unroll
                for (int w = 1; w < MM_KGROUPS; w++) {
                    const struct MM(acc) more = *MM(sum_at)(sums, tile, b, w, c);
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        acc[b][c].x[j] += more.x[j];
                }
    MM(together)();
    if (kgroup == 0)
#pragma unroll
        for (int b = 0; b < MM_NB; b++)
#pragma unroll
            for (int c = 0; c < MM_COLS8; c++) {
                const int m = 2 * ((int)threadIdx.x & 3);
                MM_ACC_S *at = out + (b * MM_COLS + 8 * c) * MM_PITCH + 16 * tile +
                               MM(row_of_lane)(),
                         *at0 = at + MM(x_row)(m) * MM_PITCH, *at1 = at + MM(x_row)(m + 1) * MM_PITCH;
                at0[0] = acc[b][c].x[0], at1[0] = acc[b][c].x[1];
                at0[8] = acc[b][c].x[2], at1[8] = acc[b][c].x[3];
            }
    MM(together)();
}

template <int W> PK_D pk_lanes<MM_ACC_S, W> MM(result)(const MM_ACC_S *out, int b, int m, int n) {
    pk_lanes<MM_ACC_S, W> v;
    const MM_ACC_S *at = out + (b * MM_COLS + m) * MM_PITCH + n;
#pragma unroll
    for (int i = 0; i < W; i++)
        v.x[i] = at[i];
    return v;
}

#if MM_NB == 1
#define MM_SUMS(m, n) MM(result)<MM_C_W>(out, 0, m, n)
#else
#define MM_SUMS(m, n) MM(result)<MM_C_W>(out, 0, m, n), MM(result)<MM_C_W>(out, 1, m, n)
#endif

PK_D void MM(store_task)(const struct pk_args *g, const struct MM(work) & w,
                         const struct MM(task) & t, const MM_ACC_S *out) {
    const int per = MM_ROWS / MM_C_W, rows = (int)MM(min)(w.M - t.m0, MM_COLS);
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < rows * per; i += 32 * MM_CONSUMERS) {
        const int m = i / per, n = i % per * MM_C_W;
        const pk_i64 at = t.n0 + n, left = w.N - at;
        if (left <= 0) continue;
        auto row = MM(c_row_init)<MM_C_W>(g, t.z, t.m0 + m);
        MM(c_store)<MM_C_W>(g, &row, t.z, t.m0 + m, at, left < MM_C_W ? (int)left : MM_C_W,
                            MM_SUMS(m, n));
    }
}

PK_D void MM(consume)(const struct pk_args *g, const struct MM(work) & w, const struct MM(ring) & r,
                      struct MM(acc) * sums, MM_ACC_S *out, int warp) {
    const int tile = warp % MM_TILES, kgroup = warp / MM_TILES, K = (int)w.K;
    const struct MM(lane) lane = MM(lane_of)(tile, kgroup);
    const unsigned base = pk_shared_address(r.base);
    struct MM(turn) at = {0, 0};
#pragma unroll 1
    for (unsigned task = blockIdx.x; task < w.tasks; task += gridDim.x) {
        const struct MM(task) t = MM(task_at)(w, task);
        struct MM(all_rows) rows;
        struct MM(acc) acc[MM_NB][MM_COLS8];
#define MM_BEGIN(b)                                                                                \
    _Pragma("unroll") for (int h = 0; h < 2; h++) {                                                \
        rows.r##b.n[h] =                                                                           \
            (unsigned)MM(min)(t.n0 + tile * 16 + h * 8 + MM(row_of_lane)(), w.N - 1);              \
        rows.r##b.row[h] = MM(op_of)<b>::type::row_of(g, t.z, rows.r##b.n[h]);                     \
    }                                                                                              \
    if (K > 0) MM(groups)<b>(g, t.z, K, kgroup * (MM_UNITS * MM_UNIT), rows.r##b);                 \
    _Pragma("unroll") for (int c = 0; c < MM_COLS8; c++)                                           \
        _Pragma("unroll") for (int i = 0; i < 4; i++) acc[b][c].x[i] = 0;
        MM_EACH_B(MM_BEGIN)
#if MM_C_NEAR
        const int near = tile * 16 + (int)(threadIdx.x & 15);
        if (kgroup == 0 && t.n0 + near < w.N) MM(c_near)(g, t.z, t.n0 + near);
#endif
#pragma unroll 1
        for (int k0 = 0; k0 < K; k0 += MM_STAGE_K) {
            const unsigned slot = base + at.slot * MM_SLOT;
            pk_bar_wait(MM(full)(r, at.slot), at.parity);
            if (k0 == 0) {
                MM_PROBE(2);
            }
            if (k0 + MM_STAGE_K <= K)
                MM(stage_sums)<false>(g, t, K, k0, slot, lane, kgroup, rows, acc);
            else
                MM(stage_sums)<true>(g, t, K, k0, slot, lane, kgroup, rows, acc);
            MM(release)(r, at.slot);
            MM(advance)(at);
        }
        MM_PROBE(4);
        MM(finish)(sums, out, tile, kgroup, acc);
        MM_PROBE(5);
        MM(store_task)(g, w, t, out);
        MM(together)();
        MM_PROBE(6);
    }
}

PK_D void MM(init)(const struct MM(ring) & r) {
#pragma unroll 1
    for (unsigned i = 0; i < MM_STAGES; i++) {
        pk_bar_init(MM(full)(r, i), MM_A_TMA ? 1 : 1 + MM_A_WARPS);
        pk_bar_init(MM(empty)(r, i), MM_CONSUMERS);
    }
#if !MM_A_TMA
#pragma unroll 1
    for (unsigned i = 0; i < MM_A_AHEAD; i++) {
        pk_bar_init(MM(raw_full)(r, i), 32);
        pk_bar_init(MM(raw_empty)(r, i), MM_A_WARPS);
    }
#endif
    pk_fence_barriers();
}

extern "C" __global__ void __launch_bounds__(MM_THREADS, 1)
    MM(main)(const __grid_constant__ struct pk_args args,
#if MM_A_TMA
             const __grid_constant__ pk_tensor_map map_a,
#endif
             const __grid_constant__ pk_tensor_map map_b0
#if MM_NB > 1
             ,
             const __grid_constant__ pk_tensor_map map_b1
#endif
    ) {
    extern __shared__ uint4 MM(shared)[];
    const struct pk_args *g = &args;
    const struct MM(work) w = MM(work_of)(g);
    struct MM(ring) r;
    const unsigned start = pk_shared_address(MM(shared));
    r.base = (char *)MM(shared) + ((start + 1023) / 1024 * 1024 - start);
    struct MM(acc) *sums = (struct MM(acc) *)(r.base + MM_STAGES * MM_SLOT);
    MM_ACC_S *out = (MM_ACC_S *)sums;
    r.raw = (char *)sums + (MM_SUMS_BYTES > MM_OUT_BYTES ? MM_SUMS_BYTES : MM_OUT_BYTES);
    r.full = pk_shared_address(r.raw + MM_A_AHEAD * MM_RAW_BYTES);
    const int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0);
    const bool fetches = warp == MM_THREADS / 32 - 1;
    MM_PROBE(0);
    if (fetches && threadIdx.x % 32 == 0) MM(init)(r);
    /* Who fetches B waits for nobody. */
    __syncwarp();
    if (fetches)
        asm volatile("bar.arrive 2, %0;" ::"n"(MM_THREADS) : "memory");
    else
        asm volatile("bar.sync 2, %0;" ::"n"(MM_THREADS) : "memory");
    MM_PROBE(1);
    if (warp < MM_CONSUMERS) {
        MM(consume)(g, w, r, sums, out, warp);
    } else if (fetches) {
        const pk_tensor_map *maps[] = {&map_b0,
#if MM_NB > 1
                                       &map_b1,
#endif
#if MM_A_TMA
                                       &map_a
#endif
        };
        MM(fetch)(w, r, maps);
    } else {
#if !MM_A_TMA
        if (warp < MM_CONSUMERS + MM_A_WARPS)
            MM(feed_x)(g, w, r, warp - MM_CONSUMERS);
        else
            MM(fetch_x)(g, w, r);
#endif
    }
}

#undef MM_BEGIN
#undef MM_BOX
#undef MM_BOXES
#undef MM_B_BYTES
#undef MM_COLS
#undef MM_CONSUMERS
#undef MM_EACH_B
#undef MM_FORM
#undef MM_J
#undef MM_KIND_BF16
#undef MM_KIND_F16
#undef MM_KIND_FMA
#undef MM_KIND_S8
#undef MM_NOW
#undef MM_PARTS
#undef MM_PASTE
#undef MM_PASTE2
#undef MM_OUT_BYTES
#undef MM_PITCH
#undef MM_PROBE
#undef MM_READ
#undef MM_REGS
#undef MM_RING
#undef MM_ROWS
#undef MM_SLOT
#undef MM_STAGE_K
#undef MM_SUMS
#undef MM_SUMS_BYTES
#undef MM_TAKE
#undef MM_THREADS
#undef MM_UNIT
#undef MM_X_BYTES
#undef MM_ACC_BITS
#undef MM_KIND
#undef MM_A_WARPS
#undef MM_A_TMA
#undef MM_A_MAP_Z
#undef MM_X_BOX
#undef MM_X_BOXES
#undef MM_X_AT
#undef MM_X_SKEW
#undef MM_A_AHEAD
#undef MM_RAW_BYTES
#undef MM_RAW_PITCH
#undef MM_LEAF_BITS1
#undef MM_LEAF_BITS2
#undef MM_LEAF_BITS3
#undef MM_B_ORDER
#undef MM_C_NEAR
#undef MM_RUN
#undef MM_UNITS
#undef MM_TILES
#undef MM_KGROUPS
#undef MM_COLS8
#undef MM_STAGES
#undef MM_B0_MAP_Z
#undef MM_B1_MAP_Z
#undef MM_A_LEAF0_BITS
#undef MM_A_LEAF1_BITS
#undef MM_A_LEAF2_BITS
#undef MM_A_LEAF3_BITS
#undef MM_A_LEAF0_MAP
#undef MM_A_LEAF1_MAP
#undef MM_A_LEAF2_MAP
#undef MM_A_LEAF3_MAP
#undef MM_B0_LEAF0_BITS
#undef MM_B0_LEAF0_MAP
#undef MM_B1_LEAF0_BITS
#undef MM_B1_LEAF0_MAP
#include "matmul_end.h"
