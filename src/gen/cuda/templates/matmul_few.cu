/* SPDX-License-Identifier: MIT
 *
 * out_j(z, m, n) = f_j(acc_0 .. acc_i), acc_i(z, m, n) = sum over k of a(z, m, k) b_i(z, n, k), for
 * few rows m: the time is that of reading B once. Any M is right (blocks of MM_COLS rows of A).
 *
 * B's rows stand on the M side of mma.sync m16n8k16, A's rows are its columns. A warp takes 16 rows
 * of B (a tile) and a part of K: it reads runs of MM_RUN elements, 16 bytes a lane, four lanes to a
 * row, straight from where B lies, MM_AHEAD units (of 4 runs, 16 rows) in flight. Lane c of a row
 * has elements c * MM_RUN .. of a unit, where the instruction wants elements 2c, 2c+1, 2c+8, 2c+9 of
 * 16: which k stands where does not matter as long as A has the same, so a chunk of A lies in shared
 * memory in the order in which lanes read it (matmul_few_x.h) and nothing is shuffled. A persistent
 * block has MM_RGROUPS * MM_KGROUPS warps; each of the first takes other tiles, each of the latter
 * another part of K. Dtypes that tensor cores do not multiply exactly go one by one (FMA), same
 * layout.
 *
 * A is evaluated once per block and chunk, or once at all by MM(stage), a launch before.
 *
 * K order: chunks of MM_CHUNK elements; in one, a warp of each K group sums its units in turn (the
 * order inside an instruction is the machine's), then what is not whole units; groups are added in
 * turn, then splits. It depends on the constants below, on K and on whether rows are aligned.
 *
 * The generator writes this file behind the CUDA prelude and, for each kernel:
 *
 *   #define PK_KERNEL k0           prefix: MM(x) is k0_x; undefined at the end, as every MM_*
 *   #define MM_ACC_S float         what accumulates; MM_ACC_BITS 32 its size
 *   #define MM_NB 1                right operands, 1..4; all of one MM_KIND and order
 *   #define MM_KIND 0              0: bf16 operands; 1: f16, e4m3, e5m2 in any mixture; 2: 8-bit
 *                                  integers (MM_S8_TYPES "s8.s8": B's type, then A's), all by
 *                                  tensor cores; 3: one by one in MM_ACC_S
 *   #define MM_A_AXIS 1, MM_B0_AXIS 1 ..   lanes along k, and only so
 *   hooks with W = 8 (and 1): MM(a_row)<W>, MM(a_row_init)<W>, MM(a_value)<W>, the same for b0 ..;
 *     MM_X_GROUP, MM(x_group)<W>, MM(x_group_init)<W>; a group hook should return what it loads as
 *     it is and leave its conversion to pack: then it is in flight with the run;
 *   MM_X_LEAVES 0..4, MM_X_LEAF0_BITS (4, 8, 16, 32), MM_X_LEAF0_MAP, MM(x_leaf0)(g, row, z, o, k) ..,
 *     MM(x_pack)<8>(g, row, [group,] z, o, k, cnt, raw0, ..) for kinds 0..2, MM(x_raw)<8> for 3;
 *     MM_A_PLAIN 1: A's bytes are copied. MM_X_LEAVES 0: by x_value alone
 *   #define MM_B_ORDER 1           elements in pack's registers: in each 2 * MM_B_ORDER elements,
 *                                  register i has elements i (low half) and i + MM_B_ORDER. Natural
 *                                  for a 4-bit leaf: 4, a mask without a shuffle; for 8 bits: 2.
 *                                  Kinds 1 with 8-bit dtypes, 2 and 3: 1
 *   MM(c_row)<W>, MM(c_row_init)<W>(g, z, m), MM(c_store)<W>(g, &row, z, m, n, cnt, acc0, ..),
 *     W = MM_C_W = 4; n is a multiple of it
 *   struct MM(shape) { pk_i64 Z, M, N, K; }; MM(get_shape)(g)
 *
 *   #define MM_RUN 16              elements in 16 bytes of the narrowest leaf of B: 32, 16 or 8 (8
 *                                  for wider ones)
 *   #define MM_COLS8 1             rows of A in a block, by 8: 1, 2, 4, 8
 *   #define MM_KGROUPS 8, MM_RGROUPS 2, MM_UNITS 8 (of a K group in a chunk), MM_AHEAD 4,
 *   #define MM_STEP 1              tiles that a warp multiplies with what it reads of A once
 *   #define MM_TILES 7             tiles of a block between two stores; up to MM_RGROUPS * MM_STEP:
 *                                  sums stay in registers from chunk to chunk
 *   #define MM_X_BUFS 1            chunks of A in shared memory; 2: the next one is on its way
 *   #define MM_SPLIT 1             K is split over so many blocks; the last one to finish a tile
 *                                  adds the sums in their order
 *   #define MM_A_STAGE 0           1: A is evaluated by MM(stage)
 *   #define MM_PER_SM 1            blocks of an SM
 *
 * Launches: [MM(stage): 256 threads, ceil(Z * M * ceil(K / 16) * 2 / 256) blocks;] MM(main):
 * MM_THREADS threads, Z * ceil(M / MM_COLS) * min(MM_SPLIT, chunks) * ceil(N / 16) tasks (below
 * 2^31), at most MM_PER_SM blocks an SM, MM_BYTES of shared memory. Scratch: with T = Z *
 * ceil(M / MM_COLS) * ceil(N / 16) and MM_SPLIT > 1, counters, ceil(4 * T / 256) * 256 bytes, 0
 * before and after each launch, then T * MM_SPLIT * MM_NB * MM_COLS8 * 128 * sizeof(MM_ACC_S); with
 * MM_A_STAGE, Z * M * ceil(K / 16) * 16 elements more.
 *
 * What was measured (H200, N = 14336, K = 4096, graph replays over weights beyond the L2; reading
 * alone in this pattern takes 15.7 us for 8 bits, 17.3 without the hint of 128 bytes):
 *   - At one row, from A's arrival to the last sum: 24,700 cycles for 8 bits (13.4 us at 13.1 for the
 *     bytes), 17,300 for 4 bits (9.4 at 6.6). Before it, 10,000 to 12,000 cycles pass.
 *     A's staging by computed places, 1300 instructions a thread, took 7 us for 16 rows; asynchronous
 *     copies of 16 bytes to places that are not contiguous take 2.7 cycles each, one after the other
 *     (22,000 cycles for 16 rows), hence whole rows, contiguous at both ends.
 *   - A asked for after B's ring arrives 10,000 cycles later, behind it: A goes first.
 *   - Asking the L2 for all of a block's B at the start (bulk prefetch) made it slower, by 3 us at 4
 *     bits and 10 at 16, where a gain of 3 was expected: left out.
 *   - Medians: 8 bits 18.8 (1 row), 24.4 (16), 48 (64); 4 bits 14.8, 22.3, 54; bf16 with gathered
 *     rows 34.6 (16); fp8 by fp8 21.7 (16).
 *   - Masks with an or of a constant should be one lop3 with the constant in a register: written as
 *     & and |, the compiler makes two of them, a third of the conversion.
 *   - Tensor cores from one row on: counted, not measured, an element costs fewer instructions so than
 *     by its conversion to f32 and a multiply-add.
 */
#if MM_HIDES
#error "a product that hides infinities needs another template"
#endif
#include "matmul_hooks.h"

#define MM_WARPS   (MM_KGROUPS * MM_RGROUPS)
#define MM_THREADS (32 * MM_WARPS)
#define MM_UNIT    (4 * MM_RUN) /* elements along k that a warp takes at once */
#define MM_CHUNK   (MM_KGROUPS * MM_UNITS * MM_UNIT)
#define MM_BODIES  ((MM_UNITS + MM_AHEAD - 1) / MM_AHEAD)
#define MM_COLS    (8 * MM_COLS8)

PK_D pk_i64 MM(ceil)(pk_i64 a, pk_i64 b) {
    return (a + b - 1) / b;
}

PK_D pk_i64 MM(min)(pk_i64 a, pk_i64 b) {
    return a < b ? a : b;
}

#ifndef MM_PROBE
#define MM_PROBE(i)
#endif
/* All leaves of B are affine maps of rows: no look-up says where a row is. */
#define MM_EVEN1(b)                                                                                \
    ((MM_##b##_LEAVES < 1 || MM_##b##_LEAF0_MAP) && (MM_##b##_LEAVES < 2 || MM_##b##_LEAF1_MAP) && \
     (MM_##b##_LEAVES < 3 || MM_##b##_LEAF2_MAP) && (MM_##b##_LEAVES < 4 || MM_##b##_LEAF3_MAP))
#define MM_B_EVEN                                                                                  \
    (MM_EVEN1(B0) && (MM_NB < 2 || MM_EVEN1(B1)) && (MM_NB < 3 || MM_EVEN1(B2)) &&                 \
     (MM_NB < 4 || MM_EVEN1(B3)))
/* All tiles of a part are in registers at once: their sums stay there from chunk to chunk. */
#define MM_HOLD (MM_TILES <= MM_RGROUPS * MM_STEP)
#include "matmul_few_feed.h"

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
#define MM_X_LEAVES     MM_B0_LEAVES
#define MM_X_LEAF0_BITS MM_B0_LEAF0_BITS
#define MM_X_LEAF1_BITS MM_B0_LEAF1_BITS
#define MM_X_LEAF2_BITS MM_B0_LEAF2_BITS
#define MM_X_LEAF3_BITS MM_B0_LEAF3_BITS
#include "matmul_few_operand.h"
#if MM_NB > 1
#define MM_X            b1
#define MM_X_RUN        MM_RUN
#define MM_X_DTYPE      MM_B1_DTYPE
#define MM_X_GROUP      MM_B1_GROUP
#define MM_X_LEAVES     MM_B1_LEAVES
#define MM_X_LEAF0_BITS MM_B1_LEAF0_BITS
#define MM_X_LEAF1_BITS MM_B1_LEAF1_BITS
#define MM_X_LEAF2_BITS MM_B1_LEAF2_BITS
#define MM_X_LEAF3_BITS MM_B1_LEAF3_BITS
#include "matmul_few_operand.h"
#endif
#if MM_NB > 2
#define MM_X            b2
#define MM_X_RUN        MM_RUN
#define MM_X_DTYPE      MM_B2_DTYPE
#define MM_X_GROUP      MM_B2_GROUP
#define MM_X_LEAVES     MM_B2_LEAVES
#define MM_X_LEAF0_BITS MM_B2_LEAF0_BITS
#define MM_X_LEAF1_BITS MM_B2_LEAF1_BITS
#define MM_X_LEAF2_BITS MM_B2_LEAF2_BITS
#define MM_X_LEAF3_BITS MM_B2_LEAF3_BITS
#include "matmul_few_operand.h"
#endif
#if MM_NB > 3
#define MM_X            b3
#define MM_X_RUN        MM_RUN
#define MM_X_DTYPE      MM_B3_DTYPE
#define MM_X_GROUP      MM_B3_GROUP
#define MM_X_LEAVES     MM_B3_LEAVES
#define MM_X_LEAF0_BITS MM_B3_LEAF0_BITS
#define MM_X_LEAF1_BITS MM_B3_LEAF1_BITS
#define MM_X_LEAF2_BITS MM_B3_LEAF2_BITS
#define MM_X_LEAF3_BITS MM_B3_LEAF3_BITS
#include "matmul_few_operand.h"
#endif

/* The b-th right operand by a number known when compiling. */
template <int B> struct MM(op_of) {};
template <> struct MM(op_of)<0> { typedef struct MM(b0_op) type; };
#if MM_NB > 1
template <> struct MM(op_of)<1> { typedef struct MM(b1_op) type; };
#endif
#if MM_NB > 2
template <> struct MM(op_of)<2> { typedef struct MM(b2_op) type; };
#endif
#if MM_NB > 3
template <> struct MM(op_of)<3> { typedef struct MM(b3_op) type; };
#endif

#include "matmul_few_x.h"
#include "matmul_few_stream.h"
#include "matmul_few_results.h"

/* ---- the kernel ------------------------------------------------------------------------- */

#define MM_X_BYTES    (MM_X_BUFS * MM_FRAGS * 4 * MM_REGS)
#define MM_SUMS_BYTES (MM_TILES * MM_NB * MM_KGROUPS * MM_COLS8 * 32 * (int)sizeof(struct MM(acc)))
#define MM_OUT_BYTES  (MM_NB * MM_COLS * MM_PITCH * (int)sizeof(MM_ACC_S))

/* Can all runs of a part be read 16 bytes at a time? The same answer for the whole block. Rows that
 * lie evenly are judged by two of them. */
PK_D bool MM(staged)(const struct pk_args *g, const struct MM(part) & p) {
    unsigned bad = 0;
#define MM_TEST(i)                                                                                 \
    {                                                                                              \
        auto row = MM(b##i##_op)::row_of(g, p.z, n);                                               \
        bad |= !MM(b##i##_op)::STAGED || MM(b##i##_op)::misaligned(g, &row, p.z, n, 0);            \
    }
#if MM_B_EVEN
#pragma unroll
    for (int j = 0; j < 2; j++) {
        pk_i64 n = MM(row_at)(p, j);
        MM_EACH_B(MM_TEST)
    }
    return !bad;
#else
    for (int j = (int)threadIdx.x; j < p.tiles * 16; j += MM_THREADS) {
        pk_i64 n = MM(row_at)(p, j);
        MM_EACH_B(MM_TEST)
    }
    return !__syncthreads_or((int)bad);
#endif
}

extern "C" __global__ void __launch_bounds__(MM_THREADS, MM_PER_SM)
    MM(main)(const __grid_constant__ struct pk_args args) {
    extern __shared__ uint4 MM(shared)[];
    const struct pk_args *g = &args;
    struct MM(frag) *x = (struct MM(frag) *)MM(shared);
    struct MM(acc) *sums = (struct MM(acc) *)((char *)MM(shared) + MM_X_BYTES);
    MM_ACC_S *out = (MM_ACC_S *)((char *)sums + MM_SUMS_BYTES);
    unsigned char *done = (unsigned char *)out + MM_OUT_BYTES;

    struct MM(shape) s = MM(get_shape)(g);
    unsigned chunks = (unsigned)MM(ceil)(s.K, MM_CHUNK), tiles = (unsigned)MM(ceil)(s.N, 16),
             blocks = (unsigned)MM(ceil)(s.M, MM_COLS);
    if (chunks < 1) chunks = 1;
    struct MM(part) p;
    p.Z = s.Z, p.M = s.M, p.N = s.N, p.K = s.K;
    p.splits = chunks < MM_SPLIT ? (int)chunks : MM_SPLIT;
    /* Each block has as many tiles as any other, or one more. */
    unsigned total = (unsigned)s.Z * blocks * p.splits * tiles, each = total / gridDim.x,
             more = total % gridDim.x, at = each * blockIdx.x + min(blockIdx.x, more),
             end = at + each + (blockIdx.x < more);
#pragma unroll 1
    while (at < end) {
        unsigned task = at / tiles, first = at % tiles, left = min(end - at, tiles - first);
        p.split = (int)(task % p.splits);
        p.z = task / p.splits / blocks, p.m0 = (pk_i64)(task / p.splits % blocks) * MM_COLS;
        p.c0 = (int)(chunks * p.split / p.splits), p.c1 = (int)(chunks * (p.split + 1) / p.splits);
        p.tile0 = first, p.index = (pk_i64)(task / p.splits) * tiles + first;
        /* Passes of one size, as large as the shared memory allows. */
        unsigned passes = (left + MM_TILES - 1) / MM_TILES;
        p.tiles = (int)((left + passes - 1) / passes);
        MM_PROBE(0);
        p.staged = MM(staged)(g, p);
        MM_PROBE(1);
        MM(sum_part)(g, p, x, sums);
        __syncthreads();
        MM_PROBE(4);
        MM(finish)(g, p, sums, out, done);
        MM_PROBE(5);
        MM(store_part)(g, p, out, done);
        MM_PROBE(6);
        at += p.tiles;
    }
}

#undef MM_BEGIN
#undef MM_BODIES
#undef MM_BODY
#undef MM_B_EVEN
#undef MM_CHUNK
#undef MM_COLS
#undef MM_EACH_B
#undef MM_END
#undef MM_EVEN1
#undef MM_FILL
#undef MM_FORM
#undef MM_FRAGS
#undef MM_HOLD
#undef MM_J
#undef MM_KIND_BF16
#undef MM_KIND_F16
#undef MM_KIND_FMA
#undef MM_KIND_S8
#undef MM_LAST
#undef MM_OUT_BYTES
#undef MM_PASTE
#undef MM_PASTE2
#undef MM_PITCH
#undef MM_PITCHX
#undef MM_PROBE
#undef MM_READ
#undef MM_REGS
#undef MM_REST
#undef MM_RING
#undef MM_ROWS
#undef MM_SUMS
#undef MM_SUMS_BYTES
#undef MM_TEST
#undef MM_THREADS
#undef MM_UNIT
#undef MM_WARPS
#undef MM_XK
#undef MM_XN
#undef MM_XR
#undef MM_X_BYTES
#undef MM_X_COPY
#undef MM_X_NATURAL
#undef MM_ACC_BITS
#undef MM_KIND
#undef MM_S8_TYPES
#undef MM_A_STAGE
#undef MM_B_ORDER
#undef MM_RUN
#undef MM_UNITS
#undef MM_TILES
#undef MM_STEP
#undef MM_AHEAD
#undef MM_KGROUPS
#undef MM_RGROUPS
#undef MM_COLS8
#undef MM_SPLIT
#undef MM_PER_SM
#undef MM_X_BUFS
#undef MM_A_LEAF0_BITS
#undef MM_A_LEAF1_BITS
#undef MM_A_LEAF2_BITS
#undef MM_A_LEAF3_BITS
#undef MM_A_LEAF0_MAP
#undef MM_A_LEAF1_MAP
#undef MM_A_LEAF2_MAP
#undef MM_A_LEAF3_MAP
#undef MM_B0_LEAF0_BITS
#undef MM_B0_LEAF1_BITS
#undef MM_B0_LEAF2_BITS
#undef MM_B0_LEAF3_BITS
#undef MM_B0_LEAF0_MAP
#undef MM_B0_LEAF1_MAP
#undef MM_B0_LEAF2_MAP
#undef MM_B0_LEAF3_MAP
#undef MM_B1_LEAF0_BITS
#undef MM_B1_LEAF1_BITS
#undef MM_B1_LEAF2_BITS
#undef MM_B1_LEAF3_BITS
#undef MM_B1_LEAF0_MAP
#undef MM_B1_LEAF1_MAP
#undef MM_B1_LEAF2_MAP
#undef MM_B1_LEAF3_MAP
#undef MM_B2_LEAF0_BITS
#undef MM_B2_LEAF1_BITS
#undef MM_B2_LEAF2_BITS
#undef MM_B2_LEAF3_BITS
#undef MM_B2_LEAF0_MAP
#undef MM_B2_LEAF1_MAP
#undef MM_B2_LEAF2_MAP
#undef MM_B2_LEAF3_MAP
#undef MM_B3_LEAF0_BITS
#undef MM_B3_LEAF1_BITS
#undef MM_B3_LEAF2_BITS
#undef MM_B3_LEAF3_BITS
#undef MM_B3_LEAF0_MAP
#undef MM_B3_LEAF1_MAP
#undef MM_B3_LEAF2_MAP
#undef MM_B3_LEAF3_MAP
#include "matmul_end.h"
