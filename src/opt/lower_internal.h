/* SPDX-License-Identifier: MIT
 * Shared by the files of the lowering pass.
 */
#ifndef PROEM_LOWER_INTERNAL_H
#define PROEM_LOWER_INTERNAL_H

#include "opt/lower.h"

/* The state of lowering one node: short names for building primitives. Every function gives 0 once
 * something failed; the error is in err. */
struct lower {
    const struct graph *src;
    struct graph *dst;
    struct lowered *out;
    struct place at;
    const struct device_desc *device; /* NULL: any */
    const struct dims_binding *dims;
};

const struct value *lw_val(const struct lower *l, value_id v);
value_id lw_apply(struct lower *l, enum op op, int n, const value_id *in, const struct attrs *a);
value_id lw_1(struct lower *l, enum op op, value_id x);
value_id lw_2(struct lower *l, enum op op, value_id a, value_id b);
/* A cast that no text wrote; v itself if it has the dtype. */
value_id lw_to(struct lower *l, value_id v, enum dtype d);
value_id lw_const(struct lower *l, enum dtype d, double v);
/* A dim expression as a value of dtype d. */
value_id lw_dim(struct lower *l, sx e, enum dtype d);
value_id lw_reduce(struct lower *l, enum op op, value_id x, int axis);
value_id lw_where(struct lower *l, value_id c, value_id a, value_id b);
value_id lw_reshape(struct lower *l, value_id x, int rank, const sx *dims);
value_id lw_expand(struct lower *l, value_id x, int rank, const sx *dims);
value_id lw_unsqueeze(struct lower *l, value_id x, int axis);
value_id lw_iota(struct lower *l, int rank, int axis, sx extent);
value_id lw_take(struct lower *l, value_id x, value_id index, int axis);
value_id lw_matmul(struct lower *l, value_id a, value_id b, enum dtype out);
/* hides: where a is 0, b is as good as not read: it may be infinite or NaN. */
value_id lw_matmul_hides(struct lower *l, value_id a, value_id b, enum dtype out, bool hides);
value_id lw_transpose(struct lower *l, value_id x);
enum dtype lw_inner(const struct lower *l, value_id x);

/* The type that a parameter has in a lowered graph: blocks are bytes, u8[.., K/elements, bytes]. */
struct stored_type {
    enum dtype dtype;
    int rank;
    sx dims[MAX_RANK];
};
struct stored_type lower_stored(struct lower *l, const struct value *v);

/* The rules; each gives the lowered value of the node's first result. */
value_id lower_attention(struct lower *l, const struct node *n, const value_id *in, value_id *lse);
/* Blocks (u8[.., K/elements, bytes]) to f32[.., K] (lower_block.c). */
value_id lower_blocks(struct lower *l, enum dtype format, value_id blocks);
value_id lower_grouped(struct lower *l, const struct node *n, const value_id *in);
value_id lower_softmax_of(struct lower *l, value_id x, int axis, value_id *lse);

#endif
