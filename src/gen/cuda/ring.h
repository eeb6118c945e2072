/* SPDX-License-Identifier: MIT
 * The few-rows template that the copy engine feeds, for a product that can take it.
 */
#ifndef PROEM_CUDA_RING_H
#define PROEM_CUDA_RING_H

#include "gen/cuda/product.h"
#include "tile/tile_cuda_ring.h"

/* How it would be cut, from the operands at hand; it need not fit. */
struct tile_ring ring_choose(const struct emit *e, const struct tile_few_problem *few);
/* The template's constants and tensor maps. */
void ring_constants(struct emit *e);
/* Tasks of MM(main). */
sx ring_tasks(struct emit *e);

#endif
