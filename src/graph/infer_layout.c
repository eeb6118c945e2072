/* SPDX-License-Identifier: MIT
 * Type inference of layout operators: reshape .. iota, slice, split, concat, pad.
 *
 * Sizes may be symbolic. What cannot be proved is an error here, except exact divisions (a -1 of
 * reshape, the equal parts of split), which become conditions that are tested when the graph runs.
 */
#include "graph/internal.h"

#include <string.h>

static bool is_int(const struct infer *x, sx e, int64_t v) {
    int64_t c;
    return e != 0 && sx_is_const(x->g->sx, e, &c) && c == v;
}

static enum proem_status check_rank(const struct infer *x, int rank) {
    if (rank <= MAX_RANK) return PROEM_OK;
    return infer_fail(x, "the result would have %d dimensions; at most %d are supported", rank,
                      MAX_RANK);
}

/* Find the one -1 of a list; other negative sizes are errors. */
static enum proem_status find_hole(const struct infer *x, int *hole) {
    const struct attrs *a = x->a;
    *hole = -1;
    for (int i = 0; i < a->n_list; i++) {
        int64_t c;
        if (a->list[i] == 0) return place_nomem(x->at);
        if (!sx_is_const(x->g->sx, a->list[i], &c) || c >= 0) continue;
        if (c != -1)
            return infer_fail(x,
                              "size %d of the list is %lld; a size is never negative (one may "
                              "be -1)",
                              i, (long long)c);
        if (*hole >= 0) return infer_fail(x, "the list has two -1; at most one size may be -1");
        *hole = i;
    }
    return PROEM_OK;
}

static enum proem_status fill_hole(struct infer *x, int hole, sx count) {
    struct attrs *a = x->a;
    sx others, size;
    a->list[hole] = sx_const(x->g->sx, 1);
    bool ok = dims_count(x->g, a->n_list, a->list, &others);
    if (ok && is_int(x, others, 0))
        return infer_fail(x, "-1 is ambiguous beside a size of 0; write the size");
    if (ok) size = dims_divide(x->g, x->at, count, others);
    if (!ok || size == 0)
        return infer_fail(x,
                          "the elements of %s cannot be divided by %s, the product of the other "
                          "sizes; change the sizes",
                          label(x->g, x->in[0]), ok ? label_dim(x->g, others) : "?");
    a->list[hole] = size;
    return PROEM_OK;
}

/* Leading dims that the source and the list share drop out of a division: [B, M, K] to [B, -1, 32]
 * then needs 32 to divide M*K, and not B*32 to divide B*M*K. */
static enum proem_status reshape(struct infer *x) {
    const struct value *v = infer_in(x, 0);
    struct attrs *a = x->a;
    int hole;
    sx from, to;
    TRY(find_hole(x, &hole));
    bool ok = dims_count(x->g, v->rank, v->dims, &from);
    if (!ok) return infer_fail(x, "%s has too many elements", label(x->g, x->in[0]));
    if (hole >= 0) {
        int lead = 0;
        while (lead < hole && lead < v->rank && v->dims[lead] == a->list[lead] &&
               !is_int(x, a->list[lead], 0))
            lead++;
        struct attrs whole = *a;
        a->n_list -= lead;
        memmove(a->list, a->list + lead, (size_t)a->n_list * sizeof *a->list);
        sx rest;
        if (!dims_count(x->g, v->rank - lead, v->dims + lead, &rest))
            return infer_fail(x, "%s has too many elements", label(x->g, x->in[0]));
        TRY(fill_hole(x, hole - lead, rest));
        whole.list[hole] = a->list[hole - lead];
        *a = whole;
        /* the quotient in its simplest form may have lost that it is exact */
        if (!dims_count(x->g, a->n_list, a->list, &to) || !dims_same(x->g, from, to))
            return infer_fail(x, "nothing proves that %s fits in place of -1; write the size",
                              label_dim(x->g, a->list[hole]));
    } else {
        ok = dims_count(x->g, a->n_list, a->list, &to);
        if (!ok || !dims_same(x->g, from, to))
            return infer_fail(x,
                              "%s has %s elements and %s has %s; the numbers must be equal "
                              "(one size may be -1; write K/2 for an exact half)",
                              label(x->g, x->in[0]), label_dim(x->g, from),
                              label_dims(x->g, a->n_list, a->list),
                              ok ? label_dim(x->g, to) : "too many");
    }
    TRY(infer_results(x, 1, v->dtype));
    x->out[0].rank = a->n_list;
    memcpy(x->out[0].dims, a->list, sizeof a->list);
    return PROEM_OK;
}

static enum proem_status expand(struct infer *x) {
    const struct value *v = infer_in(x, 0);
    struct attrs *a = x->a;
    int hole, shift = a->n_list - v->rank;
    TRY(find_hole(x, &hole));
    if (shift < 0)
        return infer_fail(x, "the list has %d sizes and %s has %d; it must have at least as many",
                          a->n_list, label(x->g, x->in[0]), v->rank);
    if (hole >= 0 && hole < shift)
        return infer_fail(x, "size %d is -1 but %s has no such dimension; write the size", hole,
                          label(x->g, x->in[0]));
    if (hole >= 0) a->list[hole] = v->dims[hole - shift];
    for (int i = shift; i < a->n_list; i++) {
        sx d = v->dims[i - shift];
        if (is_int(x, d, 1) || dims_same(x->g, d, a->list[i])) continue;
        return infer_fail(x, "dimension %d of %s is %s and cannot be expanded to %s; only 1 can",
                          i - shift, label(x->g, x->in[0]), label_dim(x->g, d),
                          label_dim(x->g, a->list[i]));
    }
    TRY(infer_results(x, 1, v->dtype));
    x->out[0].rank = a->n_list;
    memcpy(x->out[0].dims, a->list, sizeof a->list);
    return PROEM_OK;
}

static enum proem_status permute(struct infer *x) {
    const struct value *v = infer_in(x, 0);
    struct attrs *a = x->a;
    bool seen[MAX_RANK] = {false};
    if (a->n_list != v->rank)
        return infer_fail(x, "the list has %d axes and %s has %d", a->n_list, label(x->g, x->in[0]),
                          v->rank);
    TRY(infer_results(x, 1, v->dtype));
    for (int i = 0; i < v->rank; i++) {
        TRY(infer_axis(x, "axis", v->rank, &a->perm[i]));
        if (seen[a->perm[i]]) return infer_fail(x, "axis %d is given twice", a->perm[i]);
        seen[a->perm[i]] = true;
        x->out[0].dims[i] = v->dims[a->perm[i]];
    }
    return PROEM_OK;
}

static enum proem_status transpose(struct infer *x) {
    const struct value *v = infer_in(x, 0);
    if (v->rank < 2)
        return infer_fail(x, "%s has fewer than two dims to swap", label(x->g, x->in[0]));
    TRY(infer_results(x, 1, v->dtype));
    x->out[0].dims[v->rank - 2] = v->dims[v->rank - 1];
    x->out[0].dims[v->rank - 1] = v->dims[v->rank - 2];
    return PROEM_OK;
}

static enum proem_status squeeze(struct infer *x) {
    const struct value *v = infer_in(x, 0);
    TRY(infer_axis(x, "axis", v->rank, &x->a->axis));
    int axis = x->a->axis;
    if (!is_int(x, v->dims[axis], 1))
        return infer_fail(x, "dimension %d of %s is %s; only a dimension of 1 can be squeezed",
                          axis, label(x->g, x->in[0]), label_dim(x->g, v->dims[axis]));
    TRY(infer_results(x, 1, v->dtype));
    struct type *t = &x->out[0];
    t->rank--;
    memmove(t->dims + axis, t->dims + axis + 1, (size_t)(t->rank - axis) * sizeof *t->dims);
    return PROEM_OK;
}

static enum proem_status unsqueeze(struct infer *x) {
    const struct value *v = infer_in(x, 0);
    TRY(check_rank(x, v->rank + 1));
    TRY(infer_axis(x, "axis", v->rank + 1, &x->a->axis));
    int axis = x->a->axis;
    TRY(infer_results(x, 1, v->dtype));
    struct type *t = &x->out[0];
    memmove(t->dims + axis + 1, t->dims + axis, (size_t)(t->rank - axis) * sizeof *t->dims);
    t->dims[axis] = sx_const(x->g->sx, 1);
    t->rank++;
    return PROEM_OK;
}

static enum proem_status iota(struct infer *x) {
    struct attrs *a = x->a;
    if (a->dtype <= DT_NONE || a->dtype >= DT_COUNT) return infer_fail(x, "the dtype is missing");
    if (a->dtype == DT_BOOL || !dtype_has_arith(a->dtype))
        return infer_fail(x, "it cannot count in %s; use an integer or float dtype and cast",
                          dtype_name(a->dtype));
    TRY(infer_axis(x, "axis", a->n_list, &a->axis));
    TRY(infer_results(x, 1, a->dtype));
    x->out[0].rank = a->n_list;
    memcpy(x->out[0].dims, a->list, sizeof a->list);
    return PROEM_OK;
}

enum proem_status infer_layout(struct infer *x) {
    switch (x->op) {
    case OP_RESHAPE: return reshape(x);
    case OP_PERMUTE: return permute(x);
    case OP_TRANSPOSE: return transpose(x);
    case OP_EXPAND: return expand(x);
    case OP_SQUEEZE: return squeeze(x);
    case OP_UNSQUEEZE: return unsqueeze(x);
    case OP_FLIP: TRY(infer_axes(x)); return infer_results(x, 1, infer_in(x, 0)->dtype);
    default: return iota(x);
    }
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* One bound of a slice, as Python takes it: negative from the end, clamped to [0, dim]. A bound
 * that no proof places is not clamped: it has to lie in [0, dim] when the graph runs. */
static enum proem_status slice_bound(struct infer *x, const char *what, sx dim, sx *bound) {
    int64_t b, d;
    sx zero = sx_const(x->g->sx, 0);
    bool const_bound = sx_is_const(x->g->sx, *bound, &b);
    if (const_bound && b < 0 && !dim_op(x->g, '+', dim, *bound, bound))
        return infer_fail(x, "%s %lld is too small", what, (long long)b);
    if (sx_is_const(x->g->sx, *bound, &b) && sx_is_const(x->g->sx, dim, &d)) {
        *bound = sx_const(x->g->sx, b < 0 ? 0 : b > d ? d : b);
        return PROEM_OK;
    }
    if (dims_le(x->g, *bound, zero)) {
        *bound = zero;
    } else if (dims_le(x->g, dim, *bound)) {
        *bound = dim;
    } else {
        if (!dims_le(x->g, zero, *bound)) TRY(graph_check_dims(x->g, x->at, DIM_LE, zero, *bound));
        if (!dims_le(x->g, *bound, dim)) TRY(graph_check_dims(x->g, x->at, DIM_LE, *bound, dim));
    }
    return PROEM_OK;
}

static enum proem_status slice(struct infer *x) {
    const struct value *v = infer_in(x, 0);
    struct attrs *a = x->a;
    struct sx_pool *p = x->g->sx;
    TRY(infer_axis(x, "axis", v->rank, &a->axis));
    sx dim = v->dims[a->axis], length;
    if (a->start == 0) a->start = sx_const(p, 0);
    if (a->stop == 0) a->stop = dim;
    if (a->step <= 0)
        return infer_fail(x, "step is %lld; it must be positive (flip reverses an axis)",
                          (long long)a->step);
    TRY(slice_bound(x, "start", dim, &a->start));
    TRY(slice_bound(x, "stop", dim, &a->stop));
    if (dims_le(x->g, a->stop, a->start)) a->stop = a->start;
    if (!dims_le(x->g, a->start, a->stop))
        TRY(graph_check_dims(x->g, x->at, DIM_LE, a->start, a->stop));
    if (!dim_op(x->g, '-', a->stop, a->start, &length))
        return infer_fail(x, "start and stop are too large");
    if (a->step > 1) length = sx_ceil_div(p, length, sx_const(p, a->step));
    TRY(infer_results(x, 1, v->dtype));
    x->out[0].dims[a->axis] = length;
    return PROEM_OK;
}

static enum proem_status split_sizes(struct infer *x, sx dim) {
    struct attrs *a = x->a;
    sx sum = sx_const(x->g->sx, 0);
    for (int i = 0; i < a->n_list; i++) {
        int64_t c;
        if (sx_is_const(x->g->sx, a->list[i], &c) && c < 0)
            return infer_fail(x, "size %d is %lld; a size is never negative", i, (long long)c);
        if (!dim_op(x->g, '+', sum, a->list[i], &sum)) return infer_fail(x, "sizes are too large");
    }
    if (!dims_same(x->g, sum, dim))
        return infer_fail(x, "the sizes add up to %s and dimension %d of %s is %s",
                          label_dim(x->g, sum), a->axis, label(x->g, x->in[0]),
                          label_dim(x->g, dim));
    TRY(infer_results(x, a->n_list, infer_in(x, 0)->dtype));
    for (int i = 0; i < a->n_list; i++)
        x->out[i].dims[a->axis] = a->list[i];
    return PROEM_OK;
}

static enum proem_status split(struct infer *x) {
    const struct value *v = infer_in(x, 0);
    struct attrs *a = x->a;
    TRY(infer_axis(x, "axis", v->rank, &a->axis));
    sx dim = v->dims[a->axis];
    if (a->n_parts == 0 && a->n_list > 0) return split_sizes(x, dim);
    if (a->n_parts < 1) return infer_fail(x, "it needs at least one part");
    sx part = dims_divide(x->g, x->at, dim, sx_const(x->g->sx, a->n_parts));
    if (part == 0)
        return infer_fail(x,
                          "dimension %d of %s is %s and has no %d equal parts; give the sizes as "
                          "a list",
                          a->axis, label(x->g, x->in[0]), label_dim(x->g, dim), a->n_parts);
    TRY(infer_results(x, a->n_parts, v->dtype));
    for (int i = 0; i < a->n_parts; i++)
        x->out[i].dims[a->axis] = part;
    return PROEM_OK;
}

static enum proem_status concat(struct infer *x) {
    const struct value *v = infer_in(x, 0);
    struct attrs *a = x->a;
    enum dtype d = v->dtype;
    TRY(infer_axis(x, "axis", v->rank, &a->axis));
    sx sum = v->dims[a->axis];
    for (int i = 1; i < x->n_in; i++) {
        const struct value *w = infer_in(x, i);
        enum dtype both = dtype_promote(d, w->dtype, false);
        if (both == DT_NONE)
            return infer_fail(x, "%s does not go with %s; cast one of them", label(x->g, x->in[i]),
                              dtype_name(d));
        d = both;
        bool ok = w->rank == v->rank;
        for (int k = 0; ok && k < v->rank; k++)
            ok = k == a->axis || dims_same(x->g, w->dims[k], v->dims[k]);
        if (!ok)
            return infer_fail(x,
                              "%s and %s differ in more than axis %d; all other dims must be "
                              "equal",
                              label(x->g, x->in[0]), label(x->g, x->in[i]), a->axis);
        if (!dim_op(x->g, '+', sum, w->dims[a->axis], &sum))
            return infer_fail(x, "the result is too large");
    }
    TRY(infer_results(x, 1, d));
    x->out[0].dims[a->axis] = sum;
    return PROEM_OK;
}

/* A list of pad is as long as the rank; a missing one is all zeros. */
static enum proem_status pad_list(const struct infer *x, const char *what, int rank, int *n,
                                  sx *list) {
    if (*n == 0) {
        for (int i = 0; i < rank; i++)
            list[i] = sx_const(x->g->sx, 0);
        *n = rank;
    }
    if (*n == rank) return PROEM_OK;
    return infer_fail(x, "%s has %d sizes and %s has %d dimensions; give one a dimension", what, *n,
                      label(x->g, x->in[0]), rank);
}

/* The fill must be a value of the dtype; to floats it rounds. */
static enum proem_status pad_value(const struct infer *x, enum dtype d) {
    double v = x->a->param[0];
    int64_t lo = 0, hi = 1;
    char buf[32];
    if (dtype_is_float(d)) return PROEM_OK;
    if (d != DT_BOOL) dtype_int_range(d, &lo, &hi);
    double most = d == DT_U64 ? 18446744073709551615.0 : (double)hi;
    bool whole = v >= -9223372036854775808.0 && v < 18446744073709551616.0 &&
                 (v >= 9007199254740992.0 || v <= -9007199254740992.0 || v == (double)(int64_t)v);
    if (whole && v >= (double)lo && v <= most) return PROEM_OK;
    return infer_fail(x, "value %s is no value of %s", fmt_double(buf, v), dtype_name(d));
}

static enum proem_status pad(struct infer *x) {
    const struct value *v = infer_in(x, 0);
    struct attrs *a = x->a;
    TRY(pad_list(x, "low", v->rank, &a->n_list, a->list));
    TRY(pad_list(x, "high", v->rank, &a->n_list2, a->list2));
    TRY(pad_value(x, v->dtype));
    TRY(infer_results(x, 1, v->dtype));
    for (int i = 0; i < v->rank; i++) {
        sx *d = &x->out[0].dims[i];
        int64_t c;
        if (!dim_op(x->g, '+', *d, a->list[i], d) || !dim_op(x->g, '+', *d, a->list2[i], d))
            return infer_fail(x, "dimension %d becomes too large", i);
        if (sx_is_const(x->g->sx, *d, &c) && c < 0)
            return infer_fail(x, "dimension %d of %s would become %lld; pad by less", i,
                              label(x->g, x->in[0]), (long long)c);
    }
    return PROEM_OK;
}

enum proem_status infer_slices(struct infer *x) {
    switch (x->op) {
    case OP_SLICE: return slice(x);
    case OP_SPLIT: return split(x);
    case OP_CONCAT: return concat(x);
    default: return pad(x);
    }
}
