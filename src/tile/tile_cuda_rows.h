/* SPDX-License-Identifier: MIT
 * Up to which number of rows a GPU's product takes the template for few of them, where the one for
 * many could multiply it as well.
 */
#ifndef PROEM_TILE_CUDA_ROWS_H
#define PROEM_TILE_CUDA_ROWS_H

#include "tile/tile_cuda_few.h"
#include "tile/tile_cuda_wgmma.h"

/* Most rows that the template for few takes. */
#define TILE_FEW_ROWS 64

/* Modelled seconds of the template for few rows, its left operand in memory; every size known. */
double tile_few_seconds(const struct tile_few_problem *p, const struct device_desc *d);

/* Few, M of it known, rather than many? True where the latter cannot take the product. */
bool tile_takes_few(const struct tile_few_problem *few, const struct tile_wgmma_problem *many,
                    const struct device_desc *d);

#endif
