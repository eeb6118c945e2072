/* SPDX-License-Identifier: MIT
 * How the few-rows template (gen/cuda/templates/matmul_few.cu) is cut: its constants, by name.
 */
#ifndef PROEM_TILE_CUDA_FEW_H
#define PROEM_TILE_CUDA_FEW_H

#include "base/device.h"

struct tile_few_problem {
    int64_t Z, M, N, K; /* -1: not known; M then stands for the rows that are likely */
    int n_b;            /* right operands */
    int bits;           /* of the narrowest leaf of the right operands; 0: they have none */
    int operand_bits;   /* of what is multiplied: 16, 8 (integers), 32 or 64 (one by one) */
    bool one_by_one;    /* no tensor core multiplies the dtype exactly */
    bool plain;         /* A lies in memory as it is multiplied */
    double a_ops;       /* arithmetic that evaluates an element of A, special functions as 8 */
};

struct tile_few {
    bool fits;   /* false: the template cannot take the problem */
    int choices; /* of tile_cuda_few_at: ways to cut it that take every sum in one order */
    int run, cols8, kgroups, rgroups, units, ahead, step, tiles, bufs, split, per_sm;
    bool stage;
    int threads, shared; /* of a block */
};

struct tile_few tile_cuda_few(const struct tile_few_problem *p, const struct device_desc *d);

/* The same with so many of the ways to cut it passed over, the likelier first (tile_cuda_few is the
 * first); < 0: none. All have one K order: for whoever measures, or meets one that is compiled to
 * slow code. */
struct tile_few tile_cuda_few_at(const struct tile_few_problem *p, const struct device_desc *d,
                                 int passed);

/* Bytes of shared memory of a block. */
int64_t tile_few_shared(const struct tile_few_problem *p, const struct tile_few *t);

#endif
