/* SPDX-License-Identifier: MIT
 * The reference interpreter: a graph and its inputs in, its outputs out, one operator at a time.
 *
 * Sums are taken in f64, integers in two's complement, each value is rounded to its dtype. With
 * `intervals` every value carries, per element, the range of results that any legal plan of the
 * given precision mode can reach; docs/numerics.md derives the bounds. `eval_compare` holds an
 * actual result against it.
 */
#ifndef PROEM_EVAL_H
#define PROEM_EVAL_H

#include "graph/graph.h"

enum eval_mode { EVAL_BOUNDARY, EVAL_EAGER, EVAL_NATIVE };

/* One input, in the order of graph.params: compact, row-major, in its dtype. */
struct eval_input {
    int rank;
    const int64_t *shape;
    const void *data;
};

struct eval_options {
    enum eval_mode mode;
    bool intervals;
    int threads;  /* at least 1; results do not depend on it */
    int64_t rows; /* 0: whole outputs; else only this many rows of each, chosen by the seed */
    uint64_t seed;
};

/* One output. With `rows` only those rows (all dims but the last, flattened) are there, one after
 * the other; `data`, `lo` and `hi` then have n_rows * (last dim) elements. */
struct eval_result {
    const char *name;
    enum dtype dtype;
    int rank;
    int64_t shape[MAX_RANK];
    int64_t n;       /* elements in data */
    void *data;      /* the reference value, compact, in dtype */
    double *lo, *hi; /* what a legal plan may store; NULL: exactly the reference value. NaN, NaN
                        stands for "is NaN", -inf, inf for "anything, NaN included" */
    int64_t n_rows;  /* 0: all rows are there */
    int64_t *rows;   /* increasing */
};

struct eval_results {
    const struct allocator *alloc;
    int n;
    struct eval_result *at;
};

/* binding has a value for every symbol that the graph's shapes need. */
enum proem_status eval_graph(const struct graph *g, const struct dims_binding *binding,
                             const struct eval_input *inputs, const struct eval_options *options,
                             const struct allocator *alloc, struct eval_results *out,
                             struct err *e);
void eval_results_free(struct eval_results *r);

/* What --check reports about one output. */
struct eval_report {
    double max_err;     /* largest distance from the reference value (inf if NaN does not match) */
    double bound_ratio; /* largest distance from an interval's midpoint over its half-width */
    int64_t checked;    /* elements compared */
    int64_t unbounded;  /* elements whose interval is unbounded */
    int64_t worst;      /* flat index in the whole output of the largest bound_ratio; -1 if none */
    bool ok;            /* bound_ratio <= 1 */
};

/* actual: the whole output, compact, in the result's dtype. */
void eval_compare(const struct eval_result *r, const void *actual, struct eval_report *out);

#endif
