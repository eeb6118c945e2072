/* SPDX-License-Identifier: MIT
 * How the few-rows template for GPUs with a copy engine (gen/cuda/templates/matmul_ring.cu) is cut: its
 * constants, by name.
 */
#ifndef PROEM_TILE_CUDA_RING_H
#define PROEM_TILE_CUDA_RING_H

#include "base/device.h"

struct tile_ring_problem {
    int64_t Z, M, N, K;   /* -1: not known, and nothing fits */
    int n_b;              /* right operands */
    int bits;             /* of the one leaf that each of them has */
    bool maps;            /* they have tensor maps, and no more leaves */
    int group;            /* elements along k that share something, 0: none */
    bool direct;          /* A lies as it is multiplied, 16 bits an element, and has a map */
    int a_leaves, a_bits; /* of A: bits of all leaves together */
    double a_ops;         /* arithmetic that evaluates an element of A, special functions as 8 */
};

struct tile_ring {
    bool fits; /* false: the template cannot take the problem, or should not */
    int run, cols8, tiles, kgroups, units, stages;
    int a_warps, a_ahead; /* warps that evaluate A; stages that its rows are ahead */
    bool direct;          /* the copy engine fetches A as well */
    int threads, shared;  /* of a block */
};

struct tile_ring tile_cuda_ring(const struct tile_ring_problem *p, const struct device_desc *d);

#endif
