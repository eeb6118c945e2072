/* SPDX-License-Identifier: MIT
 * How the many-rows template of sm_90a (gen/cuda/templates/matmul_wgmma.cu) is cut: its constants,
 * by name.
 */
#ifndef PROEM_TILE_CUDA_WGMMA_H
#define PROEM_TILE_CUDA_WGMMA_H

#include "base/device.h"

/* An operand as its fn and its leaf table have it. */
struct tile_wgmma_operand {
    int bits;        /* of the dtype that is multiplied: 8, 16, 32 */
    bool along;      /* lanes run along k */
    bool plain;      /* it is its leaf 0 */
    int leaves;      /* 0: only x_value */
    int leaf_bits;   /* of leaf 0 */
    bool leaf1_same; /* a second leaf is as wide as the first and has a map as well */
    bool map;        /* leaf 0 has a tensor map */
    bool spread;     /* one of its rows' blocks of 32 in another order (MM_SPREAD) */
    bool lines; /* rows of leaf 0 (or each 16 bytes that an address is asked for) are aligned to
                        16 bytes */
    int group;  /* elements along k that share a part; 0: none */
    double ops; /* arithmetic for an element, special functions as 8 */
};

struct tile_wgmma_problem {
    int64_t Z, M, N, K; /* -1: not known; M then stands for the rows that are likely */
    int n_b;            /* right operands, of one kind */
    bool whole_numbers; /* i8, u8: sums in i32 */
    struct tile_wgmma_operand a, b;
    double c_ops; /* its arithmetic for a result */
    int passed;   /* of the tiles that fit, so many are passed over, best first; < 0: none */
};

/* The numbers of PK_FEED_.. in the template. */
enum tile_feed { TILE_FEED_TMA = 1, TILE_FEED_COPY, TILE_FEED_VALUE };

struct tile_wgmma {
    bool fits;   /* false: the template cannot take the problem */
    int choices; /* tiles that fit: all of one K order */
    bool swap, regs, turns, spread;
    enum tile_feed a_feed, b_feed;
    int rows, cols, stages, consumers, cluster, raster;
    int producer_regs, consumer_regs;
    int a_lanes, b_lanes, pack_lanes; /* of x_value, of x_pack */
    int threads, shared;              /* of a block */
    int64_t tiles;                    /* blocks that have work, -1: not known */
    double seconds;                   /* modelled; < 0: sizes not known */
};

struct tile_wgmma tile_cuda_wgmma(const struct tile_wgmma_problem *p, const struct device_desc *d);

#endif
