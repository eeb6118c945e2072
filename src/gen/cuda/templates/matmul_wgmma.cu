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
 * With MM_REGS 1 the rows' operand is computed in registers: the raw bytes of its leaf 0, at most as
 * wide as the operand's dtype, come by PK_FEED_TMA or PK_FEED_COPY, and x_pack makes the next block's
 * wgmma fragments while the tensor cores work on this one's.
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
 *   #define MM_ROWS 128             64 * MM_CONSUMERS, or 128 * MM_CONSUMERS with few columns
 *   #define MM_COLS 256             64, 128, 192, 256
 *   #define MM_STAGES 4
 *   #define MM_CONSUMERS 2          warpgroups
 *   #define MM_CLUSTER 1            1, 2, 4; more than 1: the columns' operand is fed by the copy engine
 *   #define MM_RASTER 8             rows of cluster tiles that are walked down before the next column
 *   #define MM_C_FETCH 1            optional: there is a hook c_fetch<8>(g, &row, z, m, n, cnt) that
 *                                   prefetches what c_store will read for n .. n + cnt - 1, cnt <= 64
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
    MM(rows_tile) = MM_ROWS * MM(row_bytes),
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
    MM(mi) = MM_ROWS / 64 / MM_CONSUMERS, /* wgmma rows of a consumer */
    MM(turn_pitch) = 68,                  /* floats of a line of 64 rows */
    MM(turn_bytes) = MM_SWAP ? MM_CONSUMERS * 32 * MM(turn_pitch) * 4 : 0,
    MM(shared_bytes) = MM_STAGES * MM(stage) + MM(turn_bytes) + 16 * MM_STAGES + 1024,
    MM(steps) = 4, /* wgmma along a block of K */
    MM(sums) = MM(mi) * MM_NB
};
static_assert(MM_ROWS == 64 * MM_CONSUMERS * MM(mi), "rows");
static_assert(MM_CLUSTER == 1 || (MM(cols_op)::feed == PK_FEED_TMA && MM_COLS_NB == 1) ||
                  (MM(cols_op)::feed == PK_FEED_TMA && MM(cols1_op)::feed == PK_FEED_TMA),
              "a cluster shares boxes");
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
template <class OP, int ROWS, int BYTES, bool SHARED, int AHEAD> struct MM(way) {
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
            MM(load_box)<OP, ROWS, BYTES, SHARED>(dst, map, bar, z, o, k, rank);
    }
    /* Block a of those ahead. */
    __device__ __forceinline__ void fill(unsigned dst, const struct pk_args *g, pk_i64 k, pk_i64 K,
                                         unsigned t, int a) {
        if constexpr (copy) copier.fill(dst, k, (K * OP::leaf_bits + 7) / 8, t);
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
    MM(cols_ahead) = MM(rows_op)::feed == PK_FEED_VALUE ? 0 : MM(ahead)
};

PK_D void MM(produce)(const struct pk_args *g, const struct MM(tiles) & tiles, unsigned stages,
                      unsigned full, unsigned empty, unsigned t, unsigned rank,
                      const pk_tensor_map *rows_map, const pk_tensor_map *rows1_map,
                      const pk_tensor_map *cols_map, const pk_tensor_map *cols1_map) {
    struct MM(way)<MM(rows_op), MM_ROWS, MM(row_bytes), false, MM(ahead)> rows;
    struct MM(way)<MM(cols_op), MM_COLS, 128, (MM_CLUSTER > 1), MM(cols_ahead)> cols;
#if MM_ROWS_NB > 1
    struct MM(way)<MM(rows1_op), MM_ROWS, MM(row_bytes), false, 0> rows1;
#endif
#if MM_COLS_NB > 1
    struct MM(way)<MM(cols1_op), MM_COLS, 128, (MM_CLUSTER > 1), 0> cols1;
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

/* A stage is free for every block that writes into it. */
PK_D void MM(release)(unsigned empty, unsigned stage, unsigned t) {
    unsigned one = MM_REGS ? t % 32 : t;
    if (MM_CLUSTER == 1) {
        if (one == 0) pk_bar_arrive(empty + 8 * stage);
    } else if (one < MM_CLUSTER) {
        pk_bar_arrive_at(empty + 8 * stage, one);
    }
}

/* Step s of a block of K. The columns' tile is all of a consumer's, its rows start at `first`. */
PK_D pk_u64 MM(cols_at)(unsigned stage, int b, int s) {
    unsigned a = stage + MM_ROWS_NB * MM(rows_tile) + b * MM(cols_tile) +
                 (MM(cols_op)::along ? 32 * s : MM_STEP * 128 * s);
    return pk_descriptor_at(pk_descriptor(MM(cols_op)::along ? 16 : MM_BK * 128), a);
}
PK_D pk_u64 MM(rows_at)(unsigned stage, int b, unsigned first, int s) {
    unsigned a = stage + b * MM(rows_tile) +
                 (MM(rows_op)::along ? 128 * first + 32 * s
                                     : first / MM_BK * (MM_BK * 128) + MM_STEP * 128 * s);
    return pk_descriptor_at(pk_descriptor(MM(rows_op)::along ? 16 : MM_BK * 128), a);
}

#if MM_REGS
/* Fragments of one block of K of 16 rows a warp: register 4 s + 2 h + u of a thread holds elements k0
 * + MM_STEP s + MM_STEP / 2 h + MM_PAIR (t % 4) of row t / 4 % 8 + 8 u. */
template <class OP> struct MM(fragment) {
    typename OP::template row<MM_PAIR> row[2];
    typename OP::template part<MM_PAIR> part[2];
    pk_i64 o[2];

    __device__ __forceinline__ void start(const struct pk_args *g, const struct MM(tile) & tile,
                                          pk_i64 end, unsigned first, unsigned t) {
        _Pragma("unroll") for (int u = 0; u < 2; u++) {
            pk_i64 at = tile.row + first + t / 32 * 16 + t % 32 / 4 + 8 * u;
            o[u] = at < end ? at : end - 1;
            row[u] = OP::template row_init<MM_PAIR>(g, tile.z, o[u], MM_PAIR);
        }
    }
    template <bool TAIL>
    __device__ __forceinline__ void make(unsigned (*w)[4], const struct pk_args *g, pk_i64 z,
                                         pk_i64 k0, pk_i64 K, unsigned raw, unsigned first,
                                         unsigned t) {
        constexpr int B = MM(row_bytes), some = MM_PAIR * OP::leaf_bits / 8;
        constexpr int G = OP::group ? OP::group : 1;
        unsigned lane = t % 32, q = lane % 4, r = first + t / 32 * 16 + lane / 4;
        _Pragma("unroll") for (int s = 0; s < MM(steps); s++) {
            unsigned x[4];
            if constexpr (some == 4) {
                pk_ldmatrix(x, raw + MM(place) < B >
                                   (first + t / 32 * 16 + lane % 16, 2 * s + lane / 16));
            } else {
                _Pragma("unroll") for (int i = 0; i < 4; i++) {
                    constexpr int step = MM_STEP * OP::leaf_bits / 8;
                    int byte = step * s + step / 2 * (i / 2);
                    pk_shared_load<some>(x + i, raw + MM(place) < B > (r, byte / 16) +
                                                                          i % 2 * (8 * B) +
                                                                          byte % 16 + some * q);
                }
            }
            pk_i64 k = k0 + MM_STEP * s;
            if (OP::group && (G % MM_BK == 0 ? s == 0 && k0 % G == 0 : MM_STEP * s % G == 0) &&
                (!TAIL || k < K)) {
                _Pragma("unroll") for (int u = 0; u < 2; u++) part[u] =
                    OP::template part_init<MM_PAIR>(g, row[u], z, o[u], k, MM_PAIR);
            }
            _Pragma("unroll") for (int i = 0; i < 4; i++) {
                pk_i64 at = k + MM_STEP / 2 * (i / 2) + MM_PAIR * q;
                int u = i % 2;
                if constexpr (TAIL) {
                    int cnt = K - at >= MM_PAIR ? MM_PAIR : K > at ? (int)(K - at) : 0;
                    w[s][i] = 0;
                    if (cnt)
                        w[s][i] =
                            OP::template pack<MM_PAIR>(g, row[u], part[u], z, o[u], at, cnt, x + i)
                                .x[0] &
                            (0xffffffffu >> (32 - 8 * MM_OB * cnt));
                } else {
                    w[s][i] =
                        OP::template pack<MM_PAIR>(g, row[u], part[u], z, o[u], at, MM_PAIR, x + i)
                            .x[0];
                }
            }
        }
    }
};

/* A consumer in a tile: fragments of two blocks of K, one being multiplied, one being made. */
struct MM(worker) {
    const struct pk_args *g;
    unsigned stages, full, empty, first, t;
    struct MM(ring) at;
    unsigned last; /* the stage before */
    struct MM(tiles) tiles;
    struct MM(tile) tile;
    pk_i64 fetch_at;
    struct MM(fragment)<MM(rows_op)> rows[MM(mi)];
#if MM_ROWS_NB > 1
    struct MM(fragment)<MM(rows1_op)> rows1[MM(mi)];
#endif
    unsigned w[2][MM_ROWS_NB * MM(mi)][MM(steps)][4];

    __device__ __forceinline__ void start(void) {
        fetch_at = tiles.K > 8 * MM_BK ? (tiles.K - 1) / MM_BK * MM_BK - 7 * MM_BK : 0;
        _Pragma("unroll") for (int j = 0; j < MM(mi); j++) {
            rows[j].start(g, tile, tiles.rows, first + 64 * j, t);
#if MM_ROWS_NB > 1
            rows1[j].start(g, tile, tiles.rows, first + 64 * j, t);
#endif
        }
    }
    template <int P, bool TAIL> __device__ __forceinline__ void make(pk_i64 k) {
        unsigned raw = stages + at.stage * MM(stage);
        _Pragma("unroll") for (int j = 0; j < MM(mi); j++) {
            rows[j].template make<TAIL>(w[P][j], g, tile.z, k, tiles.K, raw, first + 64 * j, t);
#if MM_ROWS_NB > 1
            rows1[j].template make<TAIL>(w[P][MM(mi) + j], g, tile.z, k, tiles.K,
                                         raw + MM(rows_tile), first + 64 * j, t);
#endif
        }
    }
    /* Fragments P of the block at k, when its stage is full. */
    template <int P> __device__ __forceinline__ void convert(pk_i64 k) {
        pk_bar_wait(full + 8 * at.stage, at.phase);
        if (k + MM_BK <= tiles.K)
            make<P, false>(k);
        else
            make<P, true>(k);
    }
    /* Multiplies fragments P with the columns of the stage; then the block before is done. */
    template <int P>
    __device__ __forceinline__ void multiply(MM_ACC_S (*acc)[MM_COLS / 2], pk_i64 k) {
        unsigned stage = stages + at.stage * MM(stage);
        if (MM(copies)) pk_fence_async();
        pk_wgmma_fence();
        _Pragma("unroll") for (int s = 0; s < MM(steps); s++) {
            _Pragma("unroll") for (int j = 0; j < MM(mi); j++) {
                _Pragma("unroll") for (int b = 0; b < MM_NB; b++)
                    MM(mma_rs)(acc[b * MM(mi) + j], w[P][MM_ROWS_NB > 1 ? b * MM(mi) + j : j][s],
                               MM(cols_at)(stage, MM_COLS_NB > 1 ? b : 0, s), k != 0 || s != 0);
            }
        }
        pk_wgmma_commit();
        if (k != 0) {
            pk_wgmma_wait<1>();
            MM(release)(empty, last, t);
        }
        last = at.stage;
        at.next();
#if MM_C_FETCH
        if (k == fetch_at) MM(fetch_tile)(g, tiles, tile);
#endif
    }
};

PK_D void MM(consume)(const struct pk_args *g, const struct MM(tiles) & tiles, unsigned stages,
                      unsigned full, unsigned empty, unsigned first, unsigned turn, unsigned t,
                      unsigned rank) {
    struct MM(worker) w;
    w.g = g, w.tiles = tiles, w.stages = stages, w.full = full, w.empty = empty;
    w.first = first, w.t = t;
    w.at.stage = w.at.phase = 0, w.last = 0;
    for (unsigned i = blockIdx.x / MM_CLUSTER; i < tiles.n; i += gridDim.x / MM_CLUSTER) {
        MM_ACC_S acc[MM(sums)][MM_COLS / 2];
        w.tile = MM(get_tile)(tiles, i, rank);
        w.start();
        for (pk_i64 k = 0;;) {
            w.convert<0>(k);
            w.multiply<0>(acc, k);
            k += MM_BK;
            if (k >= tiles.K) break;
            w.convert<1>(k);
            w.multiply<1>(acc, k);
            k += MM_BK;
            if (k >= tiles.K) break;
        }
        MM(finished)<MM(sums)>(acc);
        MM(release)(empty, w.last, t);
        MM(store_tile)(g, tiles, w.tile, acc, first, turn, t);
    }
}
#else
PK_D void MM(consume)(const struct pk_args *g, const struct MM(tiles) & tiles, unsigned stages,
                      unsigned full, unsigned empty, unsigned first, unsigned turn, unsigned t,
                      unsigned rank) {
    struct MM(ring) at = {0, 0};
    for (unsigned i = blockIdx.x / MM_CLUSTER; i < tiles.n; i += gridDim.x / MM_CLUSTER) {
        struct MM(tile) tile = MM(get_tile)(tiles, i, rank);
        MM_ACC_S acc[MM(sums)][MM_COLS / 2];
#if MM_PROMOTE
        _Pragma("unroll") for (int j = 0; j < MM(sums); j++)
            _Pragma("unroll") for (int e = 0; e < MM_COLS / 2; e++) acc[j][e] = 0;
#endif
        unsigned last = 0; /* the stage before */
#if MM_C_FETCH
        pk_i64 fetch_at = tiles.K > 8 * MM_BK ? (tiles.K - 1) / MM_BK * MM_BK - 7 * MM_BK : 0;
#endif
        for (pk_i64 k = 0; k < tiles.K; k += MM_BK) {
            unsigned stage = stages + at.stage * MM(stage);
            pk_bar_wait(full + 8 * at.stage, at.phase);
            if (MM(copies)) pk_fence_async();
#if MM_PROMOTE
            _Pragma("unroll") for (int j = 0; j < MM(sums); j++) {
                MM_ACC_S part[MM_COLS / 2];
                int b = j / MM(mi);
                pk_wgmma_fence();
                _Pragma("unroll") for (int s = 0; s < MM(steps); s++) MM(mma_ss)(
                    part, MM(rows_at)(stage, MM_ROWS_NB > 1 ? b : 0, first + 64 * (j % MM(mi)), s),
                    MM(cols_at)(stage, MM_COLS_NB > 1 ? b : 0, s), s != 0);
                pk_wgmma_commit();
                MM(finished)<1>(&part);
                if (j == MM(sums) - 1) MM(release)(empty, at.stage, t);
                _Pragma("unroll") for (int e = 0; e < MM_COLS / 2; e++) acc[j][e] += part[e];
            }
#else
            pk_wgmma_fence();
            _Pragma("unroll") for (int s = 0; s < MM(steps); s++) {
                _Pragma("unroll") for (int j = 0; j < MM(mi); j++) {
                    _Pragma("unroll") for (int b = 0; b < MM_NB; b++)
                        MM(mma_ss)(acc[b * MM(mi) + j],
                                   MM(rows_at)(stage, MM_ROWS_NB > 1 ? b : 0, first + 64 * j, s),
                                   MM(cols_at)(stage, MM_COLS_NB > 1 ? b : 0, s), k != 0 || s != 0);
                }
            }
            pk_wgmma_commit();
            if (!MM_INFLIGHT) {
                MM(finished)<MM(sums)>(acc);
                MM(release)(empty, at.stage, t);
            } else if (k != 0) {
                pk_wgmma_wait<1>();
                MM(release)(empty, last, t);
            }
#endif
            last = at.stage;
            at.next();
#if MM_C_FETCH
            if (k == fetch_at) MM(fetch_tile)(g, tiles, tile);
#endif
        }
        if (!MM_PROMOTE && MM_INFLIGHT) {
            MM(finished)<MM(sums)>(acc);
            MM(release)(empty, last, t);
        }
        MM(store_tile)(g, tiles, tile, acc, first, turn, t);
    }
}
#endif

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
#if MM_NB > 1
        MM(c_store)<8>(g, &row, z, m, n, cnt, zero, zero);
#else
        MM(c_store)<8>(g, &row, z, m, n, cnt, zero);
#endif
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
#if MM_B0_FEED == PK_FEED_TMA
                 ,
                 const __grid_constant__ pk_tensor_map map_b0
#endif
#if MM_NB > 1 && MM_B1_FEED == PK_FEED_TMA
                 ,
                 const __grid_constant__ pk_tensor_map map_b1
#endif
        ) {
    extern __shared__ __align__(1024) unsigned char pk_shared[];
    const struct pk_args *g = &args;
    const pk_tensor_map *a = 0, *b0 = 0, *b1 = 0;
#if MM_A_FEED == PK_FEED_TMA
    a = &map_a;
#endif
#if MM_B0_FEED == PK_FEED_TMA
    b0 = &map_b0;
#endif
#if MM_NB > 1 && MM_B1_FEED == PK_FEED_TMA
    b1 = &map_b1;
#endif
    struct MM(tiles) tiles = MM(get_tiles)(g);
    if (tiles.K == 0) {
        MM(store_zeros)(g);
        return;
    }
    unsigned stages = (pk_shared_address(pk_shared) + 1023) & ~1023u;
    unsigned turn = stages + MM_STAGES * MM(stage), full = turn + MM(turn_bytes);
    unsigned empty = full + 8 * MM_STAGES;
    unsigned group = threadIdx.x / 128, t = threadIdx.x % 128;
    unsigned rank = MM_CLUSTER > 1 ? pk_cluster_rank() : 0;
    if (threadIdx.x == 0) {
        for (int s = 0; s < MM_STAGES; s++) {
            pk_bar_init(full + 8 * s,
                        (MM(tma_bytes) ? 1 : 0) + (MM(copies) ? 128 : 0) + (MM(values) ? 128 : 0));
            pk_bar_init(empty + 8 * s, MM_CONSUMERS * MM_CLUSTER * (MM_REGS ? 4 : 1));
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
        (g, tiles, stages, full, empty, t, rank, MM_SWAP ? b0 : a, b1, MM_SWAP ? a : b0, b1);
    } else {
        pk_registers_more<MM_CONSUMER_REGS>();
        unsigned w = group - 1;
        MM(consume)
        (g, tiles, stages, full, empty, w * 64 * MM(mi), turn + w * (32 * MM(turn_pitch) * 4), t,
         rank);
    }
    /* Nobody leaves while a neighbour may write into its shared memory or arrive at its barriers. */
    if (MM_CLUSTER > 1) pk_cluster_leave();
}

#include "matmul_wgmma_end.h"
