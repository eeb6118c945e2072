/* SPDX-License-Identifier: MIT
 * Packed arithmetic of an operand of bf16 or f16, where it gives the values that f32 does.
 */
#ifndef PROEM_CUDA_PACKED_H
#define PROEM_CUDA_PACKED_H

#include "gen/cuda/staged.h"

/* Statements (to e->body, after emit_begin with e->staged) that fill unsigned h[PK_W / 2] with pairs
 * of f's value in its dtype; false, and nothing written: f32 has to do it. */
bool packed_write(struct emit *e, fn_id f, const struct staged *s);

#endif
