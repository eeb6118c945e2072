/* SPDX-License-Identifier: MIT
 * Composites to primitives: softmax, norms, linear, (de)quantize, mean, attention and
 * grouped_matmul become graph operators of a smaller set, so that the scheduler sees one kind of
 * producer and consumer.
 */
#ifndef PROEM_LOWER_H
#define PROEM_LOWER_H

#include "base/device.h"
#include "graph/graph.h"

enum check_kind {
    CHECK_INDEX,   /* -bound <= value < bound */
    CHECK_NONZERO, /* value is not 0 */
    CHECK_OFFSETS  /* non-decreasing, 0 <= value <= bound */
};

/* A condition on data that the run must test before a kernel relies on it. */
struct data_check {
    enum check_kind kind;
    value_id value; /* of the lowered graph: the index, divisor or offsets */
    sx bound;
    node_id user; /* the lowered node that needs it */
};

struct lowered {
    struct graph *graph; /* node.origin is the node of the source graph */
    value_id *value_of;  /* lowered value by source value */
    value_id *source_of; /* source value by lowered value, 0 for inner values */
    VEC(struct data_check) checks;
};

/* needs: a verified graph. gives: a graph of primitives with the same parameters and outputs.
 * Everything is allocated in g's arena. */
enum proem_status opt_lower(const struct graph *g, struct lowered *out, struct err *e);
/* The same for a device and sizes that are likely: products of two operands of 8-bit floats get them
 * as f16, which holds them exactly, where its tensor cores sum 16-bit operands better than those and
 * there are rows enough to store them. */
enum proem_status opt_lower_for(const struct graph *g, const struct device_desc *d,
                                const struct dims_binding *dims, struct lowered *out,
                                struct err *e);

/* Is the operator one that lowering leaves alone? */
bool op_is_primitive(enum op op);

#endif
