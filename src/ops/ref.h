/* SPDX-License-Identifier: MIT
 * The rows of ops.def with their reference functions; op_info() is the way to reach them.
 */
#ifndef PROEM_REF_H
#define PROEM_REF_H

#include "ops/op.h"

/* The row of an elementwise operator. */
const struct op_info *ref_op_info(enum op op);

#endif
