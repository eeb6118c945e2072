/* SPDX-License-Identifier: MIT
 * How the template for few rows and a right operand that lies along its columns
 * (gen/cuda/templates/matmul_across.cu) is cut: its constants, by name.
 */
#ifndef PROEM_TILE_CUDA_ACROSS_H
#define PROEM_TILE_CUDA_ACROSS_H

#include "base/device.h"

struct tile_across_problem {
    int64_t Z, M, N, K; /* -1: not known; M then stands for the rows that are likely */
    int bits;           /* of an element of the right operand as it lies in memory: 4, 8, 16 */
    int passed;         /* of the ways to cut it, so many are passed over; < 0: none */
};

struct tile_across {
    bool fits;   /* false: the template cannot take the problem */
    int choices; /* ways to cut it, of one K order */
    int run, cols8, stages, parts;
    double seconds; /* modelled; < 0: sizes not known */
};

struct tile_across tile_cuda_across(const struct tile_across_problem *p,
                                    const struct device_desc *d);

#endif
