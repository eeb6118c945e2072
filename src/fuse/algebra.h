/* SPDX-License-Identifier: MIT
 * Factors of an operand that the generator asks for, once it knows by which groups a template adds
 * up. See algebra.c.
 */
#ifndef PROEM_ALGEBRA_H
#define PROEM_ALGEBRA_H

#include "fuse/plan.h"

/* operand = rest * factor, where factor is the same for all k of a group of `length`; own is the dtype
 * in which the operand enters the product. False where there is nothing to take out, or the
 * precision mode does not allow it. */
bool algebra_group_factor(struct plan *p, const struct kernel *k, fn_id operand, enum dtype own,
                          int64_t length, fn_id *rest, fn_id *factor);

/* operand = rest - term, where rest is from 0 to 255 and term the same for all k; term is 0 (none)
 * where the operand is that itself. False for others. Sums of integers wrap, so this is exact in
 * every mode. */
bool algebra_bytes(struct plan *p, const struct kernel *k, fn_id operand, fn_id *rest, fn_id *term);

#endif
