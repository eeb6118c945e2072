/* SPDX-License-Identifier: MIT
 * When a product takes the portable template for tensor cores
 * (gen/cuda/templates/matmul_mma.cu), and how it is cut.
 */
#ifndef PROEM_TILE_CUDA_MMA_H
#define PROEM_TILE_CUDA_MMA_H

#include "tile/tile.h"

/* False: the template cannot take the product, by dtypes and device alone. Sizes decide the tile, which
 * does not change the K order, and, unless there must be one order, into how many parts K is cut. */
bool tile_cuda_mma(const struct tile_problem *p, const struct device_desc *d,
                   struct tile_cuda *out);

/* How many ways there are to cut it, and the one with so many passed over, from the model's: a
 * larger or a smaller tile, with the same results. */
int tile_cuda_mma_at(int n_b, int passed, struct tile_cuda *t);

#endif
