/* SPDX-License-Identifier: MIT
 *
 * out_j[z,m,n] = store_j(sum_k A[z,m,k] * B0[z,n,k], sum_k A[z,m,k] * B1[z,n,k])      sm_90a
 *
 * Many rows, on the tensor cores of Hopper: a persistent kernel, one block an SM. A warpgroup of
 * producers fills a ring of MM_STAGES stages in shared memory, each one block of K (128 bytes of the
 * operands' dtype) of a tile of MM_ROWS x MM_COLS; MM_CONSUMERS warpgroups multiply it with wgmma,
 * each MM_ROWS / MM_CONSUMERS rows, and run the epilogue on their registers while the producers are
 * already in the next tile. Barriers in shared memory (mbarrier), one full and one empty a stage. With
 * MM_CLUSTER blocks in a cluster, which lie below each other, each copies a part of the columns' tile
 * and the copy engine writes it into all of them.
 *
 * Rows and columns are wgmma's: A's rows and B's columns, or, with MM_SWAP, B's columns are the rows
 * (weights have to be there when they are converted in registers) and the sums are turned around in
 * shared memory before c_store sees them. How an operand's tile comes to shared memory:
 *
 *   PK_FEED_TMA    the copy engine; the operand is its leaf 0 (MM_X_PLAIN), which has a tensor map
 *   PK_FEED_COPY   cp.async from the row addresses of leaf 0 (gather); MM_X_PLAIN; rows start at
 *                  multiples of 16 bytes
 *   PK_FEED_VALUE  the producers evaluate x_value: any operand at all
 *
 * PK_FEED_COPY asks for a row's address once and goes on from there; with MM_X_LEAF0_EACH 1 it asks for
 * the address of each 16 bytes, so that the operand may be put together from several tensors (concat).
 *
 * With MM_REGS 1 the rows' operand is computed in registers: the raw bytes of its leaf 0 (by
 * PK_FEED_TMA or PK_FEED_COPY) and its leaf 1 of the same width (by PK_FEED_TMA), at most as wide as
 * the operand's dtype, and x_pack makes the next block's wgmma fragments while the tensor cores work
 * on this one's. A plain operand may take this way too: it spares the tensor cores reads.
 *
 * With MM_TURNS 1 each of the two consumers has tiles of its own, of MM_ROWS rows, and they take turns:
 * one multiplies, the other is in its epilogue. Otherwise they have the same tile, half its rows each.
 *
 * K order: blocks of K and steps of 32 bytes in it, ascending; inside a step as the tensor core adds.
 * fp8: the sums of 128 products are added to f32 sums (the tensor core keeps few bits of theirs).
 * Past the end of K both operands are zero: boxes and copies are filled with zeros, x_value and x_pack
 * are not asked for it. K = 0 stores the epilogue of 0. Nothing is read outside a tensor: rows past
 * the end are zeros or, in registers, the last row again, and never stored.
 *
 * The generator writes this file behind the prelude and, for each kernel:
 *
 *   #define PK_KERNEL k0            prefix: MM(x) is k0_x
 *   #define MM_ACC_S float          accumulators: float; int for i8, u8
 *   #define MM_NB 1                 B operands that share A: 1, 2
 *   #define MM_A_DTYPE PK_BF16      PK_BF16 PK_F16 PK_E4M3 PK_E5M2 PK_F32 (then products of tf32) PK_I8
 *                                   PK_U8; MM_B0_DTYPE .. of the same size
 *   #define MM_A_AXIS 1             lanes of A run along k (1) or along m (0, 16-bit dtypes only)
 *   #define MM_A_FEED PK_FEED_TMA   as above
 *   #define MM_A_PLAIN, MM_A_GROUP, MM_A_LEAVES, MM_A_LEAF0_BITS, MM_A_LEAF0_MAP    the leaf table
 *   #define MM_A_MAP_Z 1            the third coordinate of A's tensor map is z (1) or 0
 *                                   MM_B0_AXIS ..: the same for B0, B1
 *   #define MM_SWAP 0
 *   #define MM_REGS 0
 *   #define MM_TURNS 0
 *   #define MM_SPREAD 0             1: the columns' boxes come in another order, see below; not with
 *                                   MM_SWAP, and only by PK_FEED_TMA
 *   #define MM_ROWS 128             64 for each consumer of a tile, or 128 with few columns
 *   #define MM_COLS 256             64, 128, 192, 256
 *   #define MM_INTERLEAVE 1         0, to be measured: fragments are made behind all products of a block
 *                                   instead of between them
 *   #define MM_STAGES 4
 *   #define MM_CONSUMERS 2          warpgroups
 *   #define MM_CLUSTER 1            1, 2, 4; more than 1: the columns' operand is fed by the copy engine
 *   #define MM_RASTER 8             rows of cluster tiles that are walked down before the next column
 *   #define MM_C_LEAVES 1, MM_C_LEAF0_BITS 16    what c_store reads with its results' coordinates, at
 *                                   most 2: c_load(g, &row, z, m, n, cnt, raw0..) loads it ahead as
 *                                   registers, which c_store gets behind the sums
 *   #define MM_PRODUCER_REGS 40
 *   #define MM_CONSUMER_REGS 232    registers of a thread; multiples of 8
 *
 * and the hooks (x in a, b0, b1): x_row, x_row_init, x_group, x_group_init, x_value, x_leaf0, x_pack,
 * c_row, c_row_init, c_store, get_shape. Widths: x_value 16 bytes of the operand's dtype, x_pack 4
 * bytes of it, c_store MM_C_W = 8 lanes, n a multiple of 8.
 *
 * Arguments: struct pk_args, then the tensor maps of the operands with PK_FEED_TMA: A, B0, B1. A map
 * has three dimensions: axis 1: k, row, z, with a box of a block of K (in bytes for a leaf below 8
 * bits) times MM_ROWS or MM_COLS / MM_CLUSTER rows; axis 0: row, k, z, with a box of 128 bytes of rows
 * times a block of K. Swizzle: as wide as the box's line, 128, 64 or 32 bytes.
 * With MM_SPREAD the columns' maps have five: k, and the column n as n % 2, n / 8 % 4, n / 2 % 4,
 * n / 32, with a box of all of these and MM_COLS / MM_CLUSTER / 32. Column 8 q + 2 j + e of 32 is then
 * wgmma's column 8 j + 2 q + e, and the sums that a thread holds lie side by side.
 *
 * Launch: MM(main), 128 * (1 + MM_CONSUMERS) threads, clusters of MM_CLUSTER, as many blocks
 * as SMs at most (a multiple of MM_CLUSTER), MM_SHARED bytes of dynamic shared memory.
 */
#include "matmul_wgmma_ptx.h"

#include "matmul_wgmma_kind.h"
#include "matmul_wgmma_operand.h"

#if MM_SWAP
typedef struct MM(b0_op) MM(rows_op);
typedef struct MM(a_op) MM(cols_op);
#define MM_ROWS_NB MM_NB
#define MM_COLS_NB 1
#if MM_NB > 1
typedef struct MM(b1_op) MM(rows1_op);
#else
typedef struct MM(b0_op) MM(rows1_op);
#endif
typedef struct MM(a_op) MM(cols1_op);
#else
typedef struct MM(a_op) MM(rows_op);
typedef struct MM(b0_op) MM(cols_op);
#define MM_ROWS_NB 1
#define MM_COLS_NB MM_NB
typedef struct MM(a_op) MM(rows1_op);
#if MM_NB > 1
typedef struct MM(b1_op) MM(cols1_op);
#else
typedef struct MM(b0_op) MM(cols1_op);
#endif
#endif

#include "matmul_wgmma_mma.h"

enum {
    MM(row_bytes) = MM_REGS ? MM(rows_op)::leaf_bits * MM_BK / 8 : 128, /* of a row in a stage */
    MM(leaf1_at) = MM_ROWS * MM(row_bytes), /* the bytes of leaf 1 behind those of leaf 0 */
    MM(row1_bytes) = MM_REGS ? MM(rows_op)::leaf1_bits * MM_BK / 8 : 0,
    MM(rows_tile) = MM_ROWS * (MM(row_bytes) + MM(row1_bytes)),
    MM(cols_tile) = MM_COLS * 128,
    MM(stage) = MM_ROWS_NB * MM(rows_tile) + MM_COLS_NB * MM(cols_tile),
    MM(tma_bytes) = (MM(rows_op)::feed == PK_FEED_TMA ? MM(rows_tile) : 0) +
                    (MM_ROWS_NB > 1 && MM(rows1_op)::feed == PK_FEED_TMA ? MM(rows_tile) : 0) +
                    (MM(cols_op)::feed == PK_FEED_TMA ? MM(cols_tile) : 0) +
                    (MM_COLS_NB > 1 && MM(cols1_op)::feed == PK_FEED_TMA ? MM(cols_tile) : 0),
    MM(copies) = MM(rows_op)::feed == PK_FEED_COPY || MM(cols_op)::feed == PK_FEED_COPY ||
                 MM(rows1_op)::feed == PK_FEED_COPY || MM(cols1_op)::feed == PK_FEED_COPY,
    MM(values) = MM(rows_op)::feed == PK_FEED_VALUE || MM(cols_op)::feed == PK_FEED_VALUE ||
                 MM(rows1_op)::feed == PK_FEED_VALUE || MM(cols1_op)::feed == PK_FEED_VALUE,
    MM(mi) = MM_ROWS / 64 / (MM_TURNS ? 1 : MM_CONSUMERS), /* wgmma rows of a consumer */
    MM(turn_pitch) = 68,                                   /* floats of a line of 64 rows */
    MM(turn_bytes) = MM_SWAP ? MM_CONSUMERS * 32 * MM(turn_pitch) * 4 : 0,
    MM(shared_bytes) = MM_STAGES * MM(stage) + MM(turn_bytes) + 16 * MM_STAGES + 1024,
    MM(steps) = 4, /* wgmma along a block of K */
    MM(sums) = MM(mi) * MM_NB
};
static_assert(MM_ROWS == 64 * (MM_TURNS ? 1 : MM_CONSUMERS) * MM(mi), "rows");
static_assert(!MM_TURNS || MM_CONSUMERS == 2, "two take turns");
static_assert(!MM_SPREAD || (!MM_SWAP && MM(cols_op)::feed == PK_FEED_TMA &&
                             MM(cols1_op)::feed == PK_FEED_TMA && MM(cols_op)::along),
              "boxes put columns in order");
static_assert(MM_CLUSTER == 1 || (MM(cols_op)::feed == PK_FEED_TMA && MM_COLS_NB == 1) ||
                  (MM(cols_op)::feed == PK_FEED_TMA && MM(cols1_op)::feed == PK_FEED_TMA),
              "a cluster shares boxes");
static_assert(!MM_REGS || MM(rows_op)::leaf1_bits == 0 ||
                  (MM(rows_op)::leaf1_bits == MM(rows_op)::leaf_bits &&
                   MM(rows_op)::feed == PK_FEED_TMA && MM_ROWS_NB == 1),
              "a second leaf is like the first");
static_assert(!MM_REGS || MM(rows_op)::feed != PK_FEED_VALUE, "raw bytes come by copies");
static_assert(!MM_REGS || (MM(rows_op)::leaf_bits <= 8 * MM_OB && MM(rows_op)::along), "raw bytes");

/* ---- which tile ---------------------------------------------------------------------------- */

struct MM(tiles) {
    unsigned down, across, n; /* cluster tiles */
    pk_i64 rows, cols, K;
};
struct MM(tile) {
    pk_i64 z, row, col;
};

PK_D struct MM(tiles) MM(get_tiles)(const struct pk_args *g) {
    struct MM(shape) s = MM(get_shape)(g);
    struct MM(tiles) t;
    t.rows = MM_SWAP ? s.N : s.M;
    t.cols = MM_SWAP ? s.M : s.N;
    t.K = s.K;
    t.down = (unsigned)((t.rows + MM_ROWS * MM_CLUSTER - 1) / (MM_ROWS * MM_CLUSTER));
    t.across = (unsigned)((t.cols + MM_COLS - 1) / MM_COLS);
    t.n = t.down * t.across * (unsigned)s.Z;
    return t;
}

/* Tile i: bands of MM_RASTER cluster tiles, in a band down first, so that the tiles that run at one
 * time share rows and columns in the L2 cache. */
PK_D struct MM(tile) MM(get_tile)(const struct MM(tiles) & t, unsigned i, unsigned rank) {
    unsigned per_z = t.down * t.across, z = i / per_z, r = i - z * per_z;
    unsigned band = r / (MM_RASTER * t.across), first = band * MM_RASTER;
    unsigned high = t.down - first < MM_RASTER ? t.down - first : MM_RASTER;
    r -= band * (MM_RASTER * t.across);
    unsigned col = r / high, row = first + (r - col * high);
    struct MM(tile) at;
    at.z = z;
    at.row = (pk_i64)(row * MM_CLUSTER + rank) * MM_ROWS;
    at.col = (pk_i64)col * MM_COLS;
    return at;
}

/* A place in the ring. */
struct MM(ring) {
    unsigned stage, phase;
    __device__ __forceinline__ void next(void) {
        if (++stage == MM_STAGES) stage = 0, phase ^= 1;
    }
    __device__ __forceinline__ void skip(unsigned n) {
        stage += n;
        phase ^= stage / MM_STAGES & 1;
        stage %= MM_STAGES;
    }
};

/* ---- producers ----------------------------------------------------------------------------- */

/* One operand's way into a stage; the ways that it does not take are empty. */
template <class OP, int ROWS, int BYTES, int FEED = OP::feed> struct MM(means) {
    struct copier {};
    struct maker {
        enum { n = 1 };
    };
};
template <class OP, int ROWS, int BYTES> struct MM(means)<OP, ROWS, BYTES, PK_FEED_COPY> {
    typedef struct MM(copier)<OP, ROWS, BYTES> copier;
    struct maker {
        enum { n = 1 };
    };
};
template <class OP, int ROWS, int BYTES> struct MM(means)<OP, ROWS, BYTES, PK_FEED_VALUE> {
    struct copier {};
    typedef struct MM(maker)<OP, ROWS> maker;
};

/* AHEAD blocks of K are loaded and computed before the first of them is written: their loads are
 * under way together. 0: none before its stage is free. */
template <class OP, int ROWS, int BYTES, bool SHARED, int AHEAD, bool SPREAD = false>
struct MM(way) {
    enum { copy = OP::feed == PK_FEED_COPY, value = OP::feed == PK_FEED_VALUE };
    typedef struct MM(means)<OP, ROWS, BYTES> means;
    typename means::copier copier;
    typename means::maker maker;
    enum { n = means::maker::n, few = n < 4 ? n : 4 };
    unsigned w[AHEAD ? AHEAD : 1][AHEAD ? n : few][4];
    bool made;

    __device__ __forceinline__ void start(const struct pk_args *g, pk_i64 z, pk_i64 o, pk_i64 end,
                                          unsigned t) {
        if constexpr (copy) copier.start(g, z, o, end, t);
        if constexpr (value) maker.start(g, z, o, end, t);
    }
    __device__ __forceinline__ void before(const struct pk_args *g, pk_i64 k, pk_i64 K) {
        if constexpr (value && AHEAD > 0) {
            made = maker.whole && k + AHEAD * MM_BK <= K;
            if (made) {
                _Pragma("unroll") for (int a = 0; a < AHEAD; a++)
                    maker.template make<n>(w[a], g, k + a * MM_BK, 0);
            }
        }
    }
    __device__ __forceinline__ void box(unsigned dst, const pk_tensor_map *map, unsigned bar,
                                        pk_i64 z, pk_i64 o, pk_i64 k, unsigned rank) {
        if constexpr (OP::feed == PK_FEED_TMA)
            MM(load_box)<OP, ROWS, BYTES, SHARED, SPREAD>(dst, map, bar, z, o, k, rank);
    }
    __device__ __forceinline__ void box1(unsigned dst, const pk_tensor_map *map, unsigned bar,
                                         pk_i64 z, pk_i64 o, pk_i64 k, unsigned rank) {
        if constexpr (OP::feed == PK_FEED_TMA && OP::leaf1_bits != 0)
            MM(load_box)<OP, ROWS, BYTES, SHARED, SPREAD>(dst + MM(leaf1_at), map, bar, z, o, k,
                                                          rank);
    }
    /* Block a of those ahead. */
    __device__ __forceinline__ void fill(unsigned dst, const struct pk_args *g, pk_i64 k, pk_i64 K,
                                         unsigned t, int a) {
        if constexpr (copy) copier.fill(dst, g, k, (K * OP::leaf_bits + 7) / 8, t);
        if constexpr (value) {
            if (AHEAD > 0 && made) {
                maker.template store<n>(dst, w[a], 0);
            } else if (maker.whole && k + MM_BK <= K) {
                _Pragma("unroll") for (int i = 0; i < n; i += few) {
                    maker.template make<few>(w[0], g, k, i);
                    maker.template store<few>(dst, w[0], i);
                }
            } else {
                maker.edge(dst, g, k, K);
            }
        }
    }
};

enum {
    MM(value_rows) = (MM(rows_op)::feed == PK_FEED_VALUE ? MM_ROWS : 0) +
                     (MM(cols_op)::feed == PK_FEED_VALUE ? MM_COLS : 0),
    MM(ahead) = MM(value_rows) && MM(value_rows) <= 128 ? 2 : 1,
    MM(made_ahead) = MM(value_rows) <= 128 ? 2 : 0
};

PK_D void MM(produce)(const struct pk_args *g, const struct MM(tiles) & tiles, unsigned stages,
                      unsigned full, unsigned empty, unsigned t, unsigned rank,
                      const pk_tensor_map *rows_map, const pk_tensor_map *rows1_map,
                      const pk_tensor_map *cols_map, const pk_tensor_map *cols1_map,
                      const pk_tensor_map *leaf1_map) {
    struct MM(way)<MM(rows_op), MM_ROWS, MM(row_bytes), false, MM(made_ahead)> rows;
    struct MM(way)<MM(cols_op), MM_COLS, 128, (MM_CLUSTER > 1), MM(made_ahead), MM_SPREAD> cols;
#if MM_ROWS_NB > 1
    struct MM(way)<MM(rows1_op), MM_ROWS, MM(row_bytes), false, 0> rows1;
#endif
#if MM_COLS_NB > 1
    struct MM(way)<MM(cols1_op), MM_COLS, 128, (MM_CLUSTER > 1), 0, MM_SPREAD> cols1;
#endif
    struct MM(ring) at = {0, 0};
    for (unsigned i = blockIdx.x / MM_CLUSTER; i < tiles.n; i += gridDim.x / MM_CLUSTER) {
        struct MM(tile) tile = MM(get_tile)(tiles, i, rank);
        rows.start(g, tile.z, tile.row, tiles.rows, t);
        cols.start(g, tile.z, tile.col, tiles.cols, t);
#if MM_ROWS_NB > 1
        rows1.start(g, tile.z, tile.row, tiles.rows, t);
#endif
#if MM_COLS_NB > 1
        cols1.start(g, tile.z, tile.col, tiles.cols, t);
#endif
        for (pk_i64 k0 = 0; k0 < tiles.K; k0 += MM(ahead) * MM_BK) {
            rows.before(g, k0, tiles.K);
            cols.before(g, k0, tiles.K);
            _Pragma("unroll") for (int a = 0; a < MM(ahead); a++) {
                pk_i64 k = k0 + a * MM_BK;
                if (k >= tiles.K) break;
                unsigned f = full + 8 * at.stage, to = stages + at.stage * MM(stage);
                unsigned to_cols = to + MM_ROWS_NB * MM(rows_tile);
                pk_bar_wait(empty + 8 * at.stage, at.phase ^ 1);
                if (MM(tma_bytes) && t == 0) {
                    pk_bar_expect(f, MM(tma_bytes));
                    rows.box(to, rows_map, f, tile.z, tile.row, k, rank);
                    rows.box1(to, leaf1_map, f, tile.z, tile.row, k, rank);
                    cols.box(to_cols, cols_map, f, tile.z, tile.col, k, rank);
#if MM_ROWS_NB > 1
                    rows1.box(to + MM(rows_tile), rows1_map, f, tile.z, tile.row, k, rank);
#endif
#if MM_COLS_NB > 1
                    cols1.box(to_cols + MM(cols_tile), cols1_map, f, tile.z, tile.col, k, rank);
#endif
                }
                rows.fill(to, g, k, tiles.K, t, a);
                cols.fill(to_cols, g, k, tiles.K, t, a);
#if MM_ROWS_NB > 1
                rows1.fill(to + MM(rows_tile), g, k, tiles.K, t, 0);
#endif
#if MM_COLS_NB > 1
                cols1.fill(to_cols + MM(cols_tile), g, k, tiles.K, t, 0);
#endif
                if (MM(copies)) pk_bar_arrive_copies(f);
                if (MM(values)) {
                    pk_fence_async();
                    pk_bar_arrive(f);
                }
                at.next();
            }
        }
    }
}

/* ---- consumers ----------------------------------------------------------------------------- */

#include "matmul_wgmma_store.h"

#include "matmul_wgmma_consume.h"

/* No products: the epilogue of 0. */
PK_D void MM(store_zeros)(const struct pk_args *g) {
    struct MM(shape) s = MM(get_shape)(g);
    pk_i64 pieces = (s.N + 7) / 8, all = s.Z * s.M * pieces;
    for (pk_i64 i = (pk_i64)blockIdx.x * blockDim.x + threadIdx.x; i < all;
         i += (pk_i64)gridDim.x * blockDim.x) {
        pk_i64 n = i % pieces * 8, m = i / pieces % s.M, z = i / pieces / s.M;
        MM(c_row)<8> row = MM(c_row_init)<8>(g, z, m);
        pk_lanes<MM_ACC_S, 8> zero((MM_ACC_S)0);
        int cnt = s.N - n >= 8 ? 8 : (int)(s.N - n);
        pk_lanes<MM_ACC_S, 8> v[MM_NB];
        _Pragma("unroll") for (int b = 0; b < MM_NB; b++) v[b] = zero;
        struct MM(raw) raw;
        MM(load_8)<false>(g, &row, z, m, n, cnt, &raw);
        MM(store_8)<false>(g, &row, z, m, n, cnt, v, raw);
    }
}

extern "C" __global__ void __launch_bounds__(128 * (1 + MM_CONSUMERS), 1)
#if MM_CLUSTER > 1
    __cluster_dims__(MM_CLUSTER, 1, 1)
#endif
        MM(main)(const __grid_constant__ struct pk_args args
#if MM_A_FEED == PK_FEED_TMA
                 ,
                 const __grid_constant__ pk_tensor_map map_a
#endif
#if MM_REGS && !MM_SWAP && MM_A_FEED == PK_FEED_TMA && MM_A_LEAVES > 1
                 ,
                 const __grid_constant__ pk_tensor_map map_leaf1
#endif
#if MM_B0_FEED == PK_FEED_TMA
                 ,
                 const __grid_constant__ pk_tensor_map map_b0
#endif
#if MM_REGS && MM_SWAP && MM_B0_FEED == PK_FEED_TMA && MM_B0_LEAVES > 1
                 ,
                 const __grid_constant__ pk_tensor_map map_leaf1
#endif
#if MM_NB > 1 && MM_B1_FEED == PK_FEED_TMA
                 ,
                 const __grid_constant__ pk_tensor_map map_b1
#endif
        ) {
    extern __shared__ __align__(1024) unsigned char pk_shared[];
    const struct pk_args *g = &args;
    const pk_tensor_map *a = 0, *b0 = 0, *b1 = 0, *leaf1 = 0;
#if MM_A_FEED == PK_FEED_TMA
    a = &map_a;
#endif
#if MM_B0_FEED == PK_FEED_TMA
    b0 = &map_b0;
#endif
#if MM_NB > 1 && MM_B1_FEED == PK_FEED_TMA
    b1 = &map_b1;
#endif
#if MM_REGS && !MM_SWAP && MM_A_FEED == PK_FEED_TMA && MM_A_LEAVES > 1 ||                          \
    MM_REGS && MM_SWAP && MM_B0_FEED == PK_FEED_TMA && MM_B0_LEAVES > 1
    leaf1 = &map_leaf1;
#endif
    struct MM(tiles) tiles = MM(get_tiles)(g);
    if (tiles.K == 0) {
        MM(store_zeros)(g);
        return;
    }
    unsigned stages = (pk_shared_address(pk_shared) + 1023) & ~1023u;
    unsigned turn = stages + MM_STAGES * MM(stage), full = turn + MM(turn_bytes);
    unsigned empty = full + 8 * MM_STAGES;
    /* the compiler has to know that whole warps do the same */
    unsigned group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0), t = threadIdx.x % 128;
    unsigned rank = MM_CLUSTER > 1 ? pk_cluster_rank() : 0;
    if (threadIdx.x == 0) {
        for (int s = 0; s < MM_STAGES; s++) {
            pk_bar_init(full + 8 * s,
                        (MM(tma_bytes) ? 1 : 0) + (MM(copies) ? 128 : 0) + (MM(values) ? 128 : 0));
            pk_bar_init(empty + 8 * s,
                        (MM_TURNS ? 1 : MM_CONSUMERS) * MM_CLUSTER * (MM_REGS ? 4 : 1));
        }
        pk_fence_barriers();
        if (a) pk_tma_prefetch(a);
        if (b0) pk_tma_prefetch(b0);
        if (b1) pk_tma_prefetch(b1);
    }
    __syncthreads();
    if (MM_CLUSTER > 1) pk_cluster_sync();
    if (group == 0) {
        pk_registers_less<MM_PRODUCER_REGS>();
        if (MM(copies) || MM(values) || threadIdx.x == 0) MM(produce)
        (g, tiles, stages, full, empty, t, rank, MM_SWAP ? b0 : a, b1, MM_SWAP ? a : b0, b1, leaf1);
    } else {
        pk_registers_more<MM_CONSUMER_REGS>();
        unsigned w = group - 1;
        MM(consume)
        (g, tiles, stages, full, empty, w, turn + w * (32 * MM(turn_pitch) * 4), t, rank);
    }
    /* Nobody leaves while a neighbour may write into its shared memory or arrive at its barriers. */
    if (MM_CLUSTER > 1) pk_cluster_leave();
}

#include "matmul_wgmma_end.h"
