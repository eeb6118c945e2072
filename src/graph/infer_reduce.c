/* SPDX-License-Identifier: MIT
 * Type inference of reductions, scans, norms, sorting, and of indexed reads and writes.
 */
#include "graph/internal.h"

#include <string.h>

/* ---- reductions ------------------------------------------------------------------------------ */

static enum dtype float_rule(enum dtype d) {
    return dtype_is_float(d) ? d : DT_F32;
}

/* Drop the axes of the attributes, or make them 1. */
static void drop_axes(const struct infer *x, struct type *t) {
    const struct attrs *a = x->a;
    int rank = 0, k = 0;
    for (int i = 0; i < t->rank; i++) {
        bool reduced = k < a->n_axes && a->axes[k] == i;
        if (reduced) k++;
        if (reduced && a->flag) t->dims[rank++] = sx_const(x->g->sx, 1);
        if (!reduced) t->dims[rank++] = t->dims[i];
    }
    t->rank = rank;
}

/* No element, no extreme: PyTorch's amax, argmax and topk refuse too. A symbolic dim is looked at when
 * the graph runs. What lowering makes of a softmax may be empty: nothing reads its maximum. */
static enum proem_status not_empty(const struct infer *x, int axis) {
    int64_t d;
    const struct value *v = infer_in(x, 0);
    if (x->at != NULL && x->at->origin != 0) return PROEM_OK;
    if (!sx_is_const(x->g->sx, v->dims[axis], &d)) {
        sx one = sx_const(x->g->sx, 1);
        if (dims_le(x->g, one, v->dims[axis])) return PROEM_OK;
        return graph_check_dims(x->g, x->at, DIM_LE, one, v->dims[axis]);
    }
    if (d > 0) return PROEM_OK;
    return infer_fail(x, "dimension %d of %s is 0: there is no element to choose", axis,
                      label(x->g, x->in[0]));
}

static enum proem_status reduce(struct infer *x) {
    enum dtype d;
    TRY(infer_arith(x, 0, &d));
    TRY(infer_axes(x));
    switch (x->op) {
    case OP_SUM:
    case OP_PROD:
        if (!dtype_is_float(d)) d = DT_I64;
        break;
    case OP_MEAN: d = float_rule(d); break;
    default:
        for (int i = 0; i < x->a->n_axes; i++)
            TRY(not_empty(x, x->a->axes[i]));
        break;
    }
    TRY(infer_results(x, 1, d));
    drop_axes(x, &x->out[0]);
    return PROEM_OK;
}

/* argmax and argmin: without an axis over the flattened tensor. */
static enum proem_status arg_extreme(struct infer *x) {
    enum dtype d;
    struct attrs *a = x->a, all;
    int rank = infer_in(x, 0)->rank;
    TRY(infer_arith(x, 0, &d));
    if (a->has_axis) TRY(infer_axis(x, "axis", rank, &a->axis));
    all = *a;
    all.n_axes = a->has_axis ? 1 : -1;
    all.axes[0] = a->axis;
    struct infer y = *x;
    y.a = &all;
    TRY(infer_axes(&y));
    for (int i = 0; i < all.n_axes; i++)
        TRY(not_empty(x, all.axes[i]));
    TRY(infer_results(x, 1, DT_I64));
    drop_axes(&y, &x->out[0]);
    return PROEM_OK;
}

static enum proem_status softmax(struct infer *x) {
    enum dtype d;
    TRY(infer_arith(x, 0, &d));
    TRY(infer_axis(x, "axis", infer_in(x, 0)->rank, &x->a->axis));
    return infer_results(x, 1, float_rule(d));
}

/* rms_norm and layer_norm run over the last axis; weight and bias have its size. */
static enum proem_status norm(struct infer *x) {
    const struct value *v = infer_in(x, 0);
    enum dtype d;
    TRY(infer_arith(x, 0, &d));
    d = float_rule(d);
    if (v->rank == 0)
        return infer_fail(x, "%s is a scalar and has no last axis", label(x->g, x->in[0]));
    for (int i = 1; i < x->n_in; i++) {
        const struct value *w = infer_in(x, i);
        enum dtype wd;
        if (w == NULL) {
            if (infer_in(x, i + 1) != NULL)
                return infer_fail(x, "%s needs %s before it", graph_input_name(x->op, i + 1),
                                  graph_input_name(x->op, i));
            continue;
        }
        TRY(infer_arith(x, i, &wd));
        if (w->rank != 1 || !dims_same(x->g, w->dims[0], v->dims[v->rank - 1]))
            return infer_fail(x, "%s %s must have the shape [%s], the last dimension of %s",
                              graph_input_name(x->op, i), label(x->g, x->in[i]),
                              label_dim(x->g, v->dims[v->rank - 1]), label(x->g, x->in[0]));
        d = dtype_promote(d, wd, true);
        if (d == DT_NONE)
            return infer_fail(x, "%s and %s have no common dtype; cast one of them",
                              label(x->g, x->in[0]), label(x->g, x->in[i]));
    }
    return infer_results(x, 1, d);
}

static enum proem_status cumsum(struct infer *x) {
    enum dtype d;
    TRY(infer_arith(x, 0, &d));
    TRY(infer_axis(x, "axis", infer_in(x, 0)->rank, &x->a->axis));
    return infer_results(x, 1, dtype_is_float(d) ? d : DT_I64);
}

static enum proem_status topk(struct infer *x) {
    const struct value *v = infer_in(x, 0);
    struct attrs *a = x->a;
    enum dtype d;
    int64_t k;
    TRY(infer_arith(x, 0, &d));
    TRY(infer_axis(x, "axis", v->rank, &a->axis));
    sx dim = v->dims[a->axis];
    if (a->k == 0) return infer_fail(x, "k is missing");
    if (sx_is_const(x->g->sx, a->k, &k) && k < 0)
        return infer_fail(x, "k is %lld; it is never negative", (long long)k);
    int64_t n;
    if (sx_is_const(x->g->sx, a->k, &k) && sx_is_const(x->g->sx, dim, &n) && k > n)
        return infer_fail(x, "k is %lld and dimension %d of %s only %lld; lower k", (long long)k,
                          a->axis, label(x->g, x->in[0]), (long long)n);
    if (!dims_le(x->g, a->k, dim)) TRY(graph_check_dims(x->g, x->at, DIM_LE, a->k, dim));
    TRY(infer_results(x, 2, d));
    x->out[1].dtype = DT_I64;
    x->out[0].dims[a->axis] = x->out[1].dims[a->axis] = a->k;
    return PROEM_OK;
}

static enum proem_status argsort(struct infer *x) {
    enum dtype d;
    TRY(infer_arith(x, 0, &d));
    TRY(infer_axis(x, "axis", infer_in(x, 0)->rank, &x->a->axis));
    return infer_results(x, 1, DT_I64);
}

enum proem_status infer_reduction(struct infer *x) {
    switch (x->op) {
    case OP_SUM:
    case OP_MEAN:
    case OP_MAX:
    case OP_MIN:
    case OP_PROD: return reduce(x);
    case OP_ARGMAX:
    case OP_ARGMIN: return arg_extreme(x);
    case OP_SOFTMAX:
    case OP_LOG_SOFTMAX: return softmax(x);
    case OP_RMS_NORM:
    case OP_LAYER_NORM: return norm(x);
    case OP_CUMSUM: return cumsum(x);
    case OP_TOPK: return topk(x);
    case OP_ARGSORT: return argsort(x);
    default: return place_fail(x->at, "this is no operator that can be applied");
    }
}

/* ---- indexed --------------------------------------------------------------------------------- */

static enum proem_status check_index(const struct infer *x) {
    const struct value *v = infer_in(x, 1);
    if (v->dtype == DT_I32 || v->dtype == DT_I64) return PROEM_OK;
    return infer_fail(x, "the index %s must be i32 or i64; cast it", label(x->g, x->in[1]));
}

/* dims of v with `axis` replaced by the dims of the index. */
static enum proem_status replace_axis(const struct infer *x, struct type *t) {
    const struct value *v = infer_in(x, 0), *index = infer_in(x, 1);
    int axis = x->a->axis, rank = v->rank - 1 + index->rank;
    if (rank > MAX_RANK)
        return infer_fail(x, "the result would have %d dimensions; at most %d are supported", rank,
                          MAX_RANK);
    t->rank = 0;
    for (int i = 0; i < v->rank; i++) {
        if (i != axis) t->dims[t->rank++] = v->dims[i];
        for (int k = 0; i == axis && k < index->rank; k++)
            t->dims[t->rank++] = index->dims[k];
    }
    return PROEM_OK;
}

static enum proem_status take(struct infer *x) {
    TRY(check_index(x));
    TRY(infer_axis(x, "axis", infer_in(x, 0)->rank, &x->a->axis));
    TRY(infer_results(x, 1, infer_in(x, 0)->dtype));
    return replace_axis(x, &x->out[0]);
}

/* As numpy.take_along_axis: the other dims broadcast. */
static enum proem_status take_along(struct infer *x) {
    const struct value *v = infer_in(x, 0), *index = infer_in(x, 1);
    TRY(check_index(x));
    TRY(infer_axis(x, "axis", v->rank, &x->a->axis));
    if (index->rank != v->rank)
        return infer_fail(x, "the index %s must have the rank of %s", label(x->g, x->in[1]),
                          label(x->g, x->in[0]));
    TRY(infer_results(x, 1, v->dtype));
    struct type *t = &x->out[0];
    for (int i = 0; i < v->rank; i++) {
        int rank;
        if (i == x->a->axis)
            t->dims[i] = index->dims[i];
        else if (!dims_broadcast(x->g, 1, &v->dims[i], 1, &index->dims[i], &rank, &t->dims[i]))
            return infer_fail(x,
                              "%s and the index %s do not broadcast in dimension %d; make them "
                              "equal or 1",
                              label(x->g, x->in[0]), label(x->g, x->in[1]), i);
    }
    return PROEM_OK;
}

static enum proem_status check_source(const struct infer *x, bool adds) {
    const struct value *base = infer_in(x, 0), *src = infer_in(x, 2);
    if (src->dtype != base->dtype)
        return infer_fail(x, "src %s must have the dtype of base, %s; cast it",
                          label(x->g, x->in[2]), dtype_name(base->dtype));
    if (!adds) return PROEM_OK;
    if (!dtype_has_arith(base->dtype) || dtype_is_subbyte(base->dtype) || base->dtype == DT_BOOL)
        return infer_fail(x, "%s cannot be added to; cast it first", label(x->g, x->in[0]));
    return PROEM_OK;
}

static enum proem_status scatter(struct infer *x) {
    const struct value *base = infer_in(x, 0), *src = infer_in(x, 2);
    struct type want;
    TRY(check_index(x));
    TRY(check_source(x, x->op == OP_SCATTER_ADD));
    TRY(infer_axis(x, "axis", base->rank, &x->a->axis));
    TRY(replace_axis(x, &want));
    bool same = want.rank == src->rank;
    for (int i = 0; same && i < want.rank; i++)
        same = dims_same(x->g, want.dims[i], src->dims[i]);
    if (!same)
        return infer_fail(x,
                          "src %s must have the shape %s: base with axis %d replaced by the "
                          "dims of the index",
                          label(x->g, x->in[2]), label_dims(x->g, want.rank, want.dims),
                          x->a->axis);
    return infer_results(x, 1, base->dtype);
}

static enum proem_status scatter_along(struct infer *x) {
    const struct value *base = infer_in(x, 0), *index = infer_in(x, 1), *src = infer_in(x, 2);
    TRY(check_index(x));
    TRY(check_source(x, x->a->flag));
    TRY(infer_axis(x, "axis", base->rank, &x->a->axis));
    bool same = index->rank == src->rank && index->rank == base->rank;
    for (int i = 0; same && i < index->rank; i++)
        same = dims_same(x->g, index->dims[i], src->dims[i]);
    if (!same)
        return infer_fail(x, "src %s must have the shape of the index %s, and the rank of base %s",
                          label(x->g, x->in[2]), label(x->g, x->in[1]), label(x->g, x->in[0]));
    for (int i = 0; i < base->rank; i++) {
        int64_t n, m;
        if (i == x->a->axis || dims_le(x->g, index->dims[i], base->dims[i])) continue;
        if (sx_is_const(x->g->sx, index->dims[i], &n) && sx_is_const(x->g->sx, base->dims[i], &m))
            return infer_fail(x, "dimension %d of the index %s is larger than that of base %s", i,
                              label(x->g, x->in[1]), label(x->g, x->in[0]));
        TRY(graph_check_dims(x->g, x->at, DIM_LE, index->dims[i], base->dims[i]));
    }
    return infer_results(x, 1, base->dtype);
}

enum proem_status infer_indexed(struct infer *x) {
    switch (x->op) {
    case OP_TAKE: return take(x);
    case OP_TAKE_ALONG: return take_along(x);
    case OP_SCATTER_ALONG: return scatter_along(x);
    default: return scatter(x);
    }
}
