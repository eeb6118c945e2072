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

#endif
