/* SPDX-License-Identifier: MIT
 * Packed arithmetic of an operand of bf16 or f16, where it gives the values that f32 does.
 */
#ifndef PROEM_CUDA_PACKED_H
#define PROEM_CUDA_PACKED_H

#include "gen/cuda/staged.h"

/* Statements (to e->body, after emit_begin with e->staged) that fill unsigned h[PK_W / 2] with pairs
 * of f's value in its dtype, in an order of the prelude's pk_widen; false, and nothing written: f32
 * has to do it, in order 1. */
bool packed_write(struct emit *e, fn_id f, const struct staged *s, int order);
/* The order that costs least; 1 if the value is not packed at all. */
int packed_order(struct emit *e, fn_id f, const struct staged *s);

#endif
