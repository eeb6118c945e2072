/* SPDX-License-Identifier: MIT
 * Reductions, softmax and norms.
 */
#include "front/onnx/import.h"

#include <string.h>

/* The axes of a Reduce*: an attribute, or from `since` on an input. No axes mean all of them, or
 * none at all with noop_with_empty_axes (*noop). */
static bool reduce_axes(struct ox *o, const struct ox_node *n, int since, int rank, int *axes,
                        int *count, bool *noop) {
    int64_t v[MAX_RANK];
    const int64_t *list = v;
    int k = -1;
    *noop = false;
    if (n->version < since)
        k = ox_attr_ints(n, "axes", &list);
    else if (ox_has(n, 1) && (k = (int)ox_in_numbers(o, n, 1, v, MAX_RANK)) < 0)
        return false;
    if (k > MAX_RANK) return ox_fail(o, n, "it has too many axes");
    if (k <= 0) {
        *noop = ox_attr_i(n, "noop_with_empty_axes", 0) != 0;
        *count = -1;
        return true;
    }
    for (int i = 0; i < k; i++) {
        if ((axes[i] = ox_axis(o, n, list[i], rank)) < 0) return false;
    }
    *count = k;
    return true;
}

struct reduction {
    value_id x;
    enum dtype dtype;
    int axes[MAX_RANK], count;
    bool noop, keep;
};

static bool start(struct ox *o, const struct ox_node *n, int since, struct reduction *r) {
    *r = (struct reduction){.x = ox_in(o, n, 0), .keep = ox_attr_i(n, "keepdims", 1) != 0};
    if (r->x == 0) return false;
    r->dtype = ox_type(o, r->x)->dtype;
    return reduce_axes(o, n, since, ox_type(o, r->x)->rank, r->axes, &r->count, &r->noop);
}

/* The result keeps the input's dtype: proem sums integers in i64. */
static value_id reduced(struct ox *o, const struct ox_node *n, const struct reduction *r,
                        enum op op, value_id x) {
    if (r->noop) return x;
    return ox_cast(o, n, ox_reduce(o, n, op, x, r->count, r->axes, r->keep), r->dtype);
}

static bool plain(struct ox *o, const struct ox_node *n, int since, enum op op) {
    struct reduction r;
    if (!start(o, n, since, &r)) return false;
    return ox_out(o, n, 0, reduced(o, n, &r, op, r.x));
}

static bool op_reduce_sum(struct ox *o, const struct ox_node *n) {
    return plain(o, n, 13, OP_SUM);
}

/* An empty maximum is the dtype's lowest value: a reduction over nothing needs an element for that. */
static bool extreme(struct ox *o, const struct ox_node *n, enum op op) {
    struct reduction r;
    if (!start(o, n, 18, &r)) return false;
    if (r.noop) return ox_out(o, n, 0, r.x);
    struct value t = *ox_type(o, r.x);
    bool empty = false;
    for (int i = 0; i < t.rank; i++) {
        bool on = r.count < 0;
        for (int k = 0; k < r.count; k++)
            on = on || r.axes[k] == i;
        empty = empty || (on && ox_sx_is(o, t.dims[i], 0));
    }
    if (!empty) return ox_out(o, n, 0, reduced(o, n, &r, op, r.x));
    sx dims[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < t.rank; i++) {
        bool on = r.count < 0;
        for (int k = 0; k < r.count; k++)
            on = on || r.axes[k] == i;
        if (!on || r.keep) dims[rank++] = on ? ox_const(o, 1) : t.dims[i];
    }
    int64_t lo = 0, hi = 1;
    if (dtype_is_int(r.dtype)) dtype_int_range(r.dtype, &lo, &hi);
    value_id none = dtype_is_float(r.dtype)
                        ? ox_num(o, n, r.dtype, op == OP_MAX ? -__builtin_inf() : __builtin_inf())
                        : ox_int(o, n, r.dtype, op == OP_MAX ? lo : hi);
    return ox_out(o, n, 0, ox_expand(o, n, none, rank, dims));
}

static bool op_reduce_max(struct ox *o, const struct ox_node *n) {
    return extreme(o, n, OP_MAX);
}

static bool op_reduce_min(struct ox *o, const struct ox_node *n) {
    return extreme(o, n, OP_MIN);
}

static bool op_reduce_mean(struct ox *o, const struct ox_node *n) {
    return plain(o, n, 18, OP_MEAN);
}

static bool op_reduce_prod(struct ox *o, const struct ox_node *n) {
    return plain(o, n, 18, OP_PROD);
}

static bool op_reduce_l1(struct ox *o, const struct ox_node *n) {
    struct reduction r;
    return start(o, n, 18, &r) &&
           ox_out(o, n, 0, reduced(o, n, &r, OP_SUM, ox_un(o, n, OP_ABS, r.x)));
}

static value_id sum_of_squares(struct ox *o, const struct ox_node *n, const struct reduction *r) {
    return reduced(o, n, r, OP_SUM, ox_bin(o, n, OP_MUL, r->x, r->x));
}

static bool op_reduce_l2(struct ox *o, const struct ox_node *n) {
    struct reduction r;
    return start(o, n, 18, &r) &&
           ox_out(o, n, 0, ox_cast(o, n, ox_un(o, n, OP_SQRT, sum_of_squares(o, n, &r)), r.dtype));
}

static bool op_reduce_sum_square(struct ox *o, const struct ox_node *n) {
    struct reduction r;
    return start(o, n, 18, &r) && ox_out(o, n, 0, sum_of_squares(o, n, &r));
}

static bool op_reduce_log_sum(struct ox *o, const struct ox_node *n) {
    struct reduction r;
    return start(o, n, 18, &r) &&
           ox_out(o, n, 0,
                  ox_cast(o, n, ox_un(o, n, OP_LOG, reduced(o, n, &r, OP_SUM, r.x)), r.dtype));
}

/* log sum e^(x - m) + m with m the maximum, 0 where that is not finite: no overflow. */
static bool op_reduce_log_sum_exp(struct ox *o, const struct ox_node *n) {
    struct reduction r;
    if (!start(o, n, 18, &r)) return false;
    if (r.noop) return ox_out(o, n, 0, r.x);
    bool keep = r.keep;
    value_id s = ox_cast(
        o, n, ox_un(o, n, OP_LOG, reduced(o, n, &r, OP_SUM, ox_un(o, n, OP_EXP, r.x))), r.dtype);
    struct value t = *ox_type(o, r.x);
    for (int i = 0; i < t.rank; i++) {
        if (ox_sx_is(o, t.dims[i], 0)) return ox_out(o, n, 0, s);
    }
    r.keep = true;
    value_id m = reduced(o, n, &r, OP_MAX, r.x), zero = ox_num(o, n, r.dtype, 0);
    value_id finite =
        ox_bin(o, n, OP_LT, ox_un(o, n, OP_ABS, m), ox_num(o, n, r.dtype, __builtin_inf()));
    m = ox_tri(o, n, OP_WHERE, finite, m, zero);
    value_id e = ox_un(o, n, OP_EXP, ox_bin(o, n, OP_SUB, r.x, m));
    r.keep = keep;
    value_id y = ox_un(o, n, OP_LOG, reduced(o, n, &r, OP_SUM, e));
    if (!keep) m = reduced(o, n, &r, OP_MAX, m);
    return ox_out(o, n, 0, ox_bin(o, n, OP_ADD, y, m));
}

static bool arg(struct ox *o, const struct ox_node *n, enum op op) {
    value_id x = ox_in(o, n, 0);
    struct attrs a = attrs_default(op), f = attrs_default(OP_FLIP);
    if (x == 0) return false;
    a.axis = ox_axis(o, n, ox_attr_i(n, "axis", 0), ox_type(o, x)->rank);
    if (a.axis < 0) return false;
    a.has_axis = true;
    a.flag = ox_attr_i(n, "keepdims", 1) != 0;
    if (ox_attr_i(n, "select_last_index", 0) == 0)
        return ox_out(o, n, 0, ox_apply(o, n, op, 1, &x, &a));
    sx size = ox_type(o, x)->dims[a.axis];
    f.n_axes = 1;
    f.axes[0] = a.axis;
    x = ox_apply(o, n, OP_FLIP, 1, &x, &f);
    value_id at = ox_apply(o, n, op, 1, &x, &a);
    value_id last = ox_sx_value(o, n, DT_I64, sx_sub(o->g->sx, size, ox_const(o, 1)));
    return ox_out(o, n, 0, ox_bin(o, n, OP_SUB, last, at));
}

static bool op_argmax(struct ox *o, const struct ox_node *n) {
    return arg(o, n, OP_ARGMAX);
}

static bool op_argmin(struct ox *o, const struct ox_node *n) {
    return arg(o, n, OP_ARGMIN);
}

/* Before version 13 all dims from `axis` on are one. */
static bool softmax(struct ox *o, const struct ox_node *n, enum op op) {
    value_id x = ox_in(o, n, 0);
    struct attrs a = attrs_default(op);
    if (x == 0) return false;
    struct value t = *ox_type(o, x);
    a.has_axis = true;
    a.axis = ox_axis(o, n, ox_attr_i(n, "axis", n->version < 13 ? 1 : -1), t.rank);
    if (a.axis < 0) return false;
    if (n->version >= 13 || a.axis == t.rank - 1)
        return ox_out(o, n, 0, ox_apply(o, n, op, 1, &x, &a));
    sx two[2] = {ox_const(o, 1), ox_const(o, 1)};
    for (int i = 0; i < t.rank; i++)
        two[i >= a.axis] = sx_mul(o->g->sx, two[i >= a.axis], t.dims[i]);
    x = ox_reshape(o, n, x, 2, two);
    a.axis = 1;
    return ox_out(o, n, 0, ox_reshape(o, n, ox_apply(o, n, op, 1, &x, &a), t.rank, t.dims));
}

static bool op_softmax(struct ox *o, const struct ox_node *n) {
    return softmax(o, n, OP_SOFTMAX);
}

static bool op_log_softmax(struct ox *o, const struct ox_node *n) {
    return softmax(o, n, OP_LOG_SOFTMAX);
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* The axes that a norm covers: from `axis` to the last. */
static bool norm_axes(struct ox *o, const struct ox_node *n, value_id x, int *axes, int *count) {
    int rank = ox_type(o, x)->rank, first = ox_axis(o, n, ox_attr_i(n, "axis", -1), rank);
    if (first < 0) return false;
    *count = rank - first;
    for (int i = 0; i < *count; i++)
        axes[i] = first + i;
    return true;
}

/* The dtype in which a norm is computed (stash_type, f32 by default). */
static enum dtype stash(const struct ox_node *n, enum dtype d) {
    enum dtype s = onnx_dtype((int32_t)ox_attr_i(n, "stash_type", 1));
    return d == DT_F64 ? DT_F64 : s == DT_NONE ? DT_F32 : s;
}

static bool op_layer_norm(struct ox *o, const struct ox_node *n) {
    value_id x = ox_in(o, n, 0), scale = ox_in(o, n, 1);
    int axes[MAX_RANK], count;
    if (x == 0 || scale == 0 || !norm_axes(o, n, x, axes, &count)) return false;
    enum dtype d = ox_type(o, x)->dtype, s = stash(n, d);
    double eps = ox_attr_f(n, "epsilon", (double)1e-5f);
    bool stats = ox_wants(n, 1) || ox_wants(n, 2);
    if (count == 1 && !stats && s == DT_F32 && ox_type(o, scale)->rank == 1) {
        struct attrs a = attrs_default(OP_LAYER_NORM);
        const value_id in[] = {x, scale, ox_has(n, 2) ? ox_in(o, n, 2) : 0};
        a.param[0] = eps;
        return ox_out(o, n, 0, ox_apply(o, n, OP_LAYER_NORM, ox_has(n, 2) ? 3 : 2, in, &a));
    }
    value_id w = ox_cast(o, n, x, s), mean = ox_reduce(o, n, OP_MEAN, w, count, axes, true);
    value_id c = ox_bin(o, n, OP_SUB, w, mean);
    value_id var = ox_reduce(o, n, OP_MEAN, ox_bin(o, n, OP_MUL, c, c), count, axes, true);
    value_id inv = ox_un(o, n, OP_RSQRT, ox_bin(o, n, OP_ADD, var, ox_num(o, n, s, eps)));
    value_id y = ox_bin(o, n, OP_MUL, ox_cast(o, n, ox_bin(o, n, OP_MUL, c, inv), d), scale);
    if (ox_has(n, 2)) y = ox_bin(o, n, OP_ADD, y, ox_in(o, n, 2));
    return ox_out(o, n, 0, y) && ox_out(o, n, 1, mean) && ox_out(o, n, 2, inv);
}

/* Also SimplifiedLayerNormalization, which has 1 / the root as its second result. */
static bool op_rms_norm(struct ox *o, const struct ox_node *n) {
    value_id x = ox_in(o, n, 0), scale = ox_in(o, n, 1);
    int axes[MAX_RANK], count;
    if (x == 0 || scale == 0 || !norm_axes(o, n, x, axes, &count)) return false;
    enum dtype d = ox_type(o, x)->dtype, s = stash(n, d);
    double eps = ox_attr_f(n, "epsilon", (double)1e-5f);
    if (count == 1 && s == DT_F32 && ox_type(o, scale)->rank == 1 &&
        ox_type(o, scale)->dtype == d && !ox_wants(n, 1)) {
        struct attrs a = attrs_default(OP_RMS_NORM);
        const value_id in[] = {x, scale};
        a.param[0] = eps;
        return ox_out(o, n, 0, ox_apply(o, n, OP_RMS_NORM, 2, in, &a));
    }
    value_id w = ox_cast(o, n, x, s);
    value_id ms = ox_reduce(o, n, OP_MEAN, ox_bin(o, n, OP_MUL, w, w), count, axes, true);
    value_id inv = ox_un(o, n, OP_RSQRT, ox_bin(o, n, OP_ADD, ms, ox_num(o, n, s, eps)));
    value_id y = ox_cast(o, n, ox_bin(o, n, OP_MUL, w, inv), ox_type(o, scale)->dtype);
    return ox_out(o, n, 0, ox_bin(o, n, OP_MUL, y, scale)) && ox_out(o, n, 1, inv);
}

/* (x - mean) / sqrt(var + eps) over the spatial dims, then scale and bias a channel. */
static value_id normalise(struct ox *o, const struct ox_node *n, value_id x, int count,
                          const int *axes, double eps) {
    if (x == 0) return 0;
    enum dtype s = ox_type(o, x)->dtype;
    value_id c = ox_bin(o, n, OP_SUB, x, ox_reduce(o, n, OP_MEAN, x, count, axes, true));
    value_id var = ox_reduce(o, n, OP_MEAN, ox_bin(o, n, OP_MUL, c, c), count, axes, true);
    return ox_bin(o, n, OP_DIV, c,
                  ox_un(o, n, OP_SQRT, ox_bin(o, n, OP_ADD, var, ox_num(o, n, s, eps))));
}

static bool op_group_norm(struct ox *o, const struct ox_node *n) {
    value_id x = ox_in(o, n, 0), scale = ox_in(o, n, 1), bias = ox_in(o, n, 2);
    if (x == 0 || scale == 0 || bias == 0) return false;
    struct value t = *ox_type(o, x);
    int64_t groups = ox_attr_i(n, "num_groups", 0);
    if (t.rank < 2 || t.rank + 1 > MAX_RANK || groups < 1)
        return ox_fail(o, n, "num_groups is %lld", (long long)groups);
    enum dtype s = stash(n, t.dtype);
    sx dims[MAX_RANK] = {t.dims[0], ox_const(o, groups),
                         ox_div(o, n, t.dims[1], ox_const(o, groups))};
    int axes[MAX_RANK];
    for (int i = 2; i < t.rank; i++)
        dims[i + 1] = t.dims[i];
    for (int i = 0; i < t.rank - 1; i++)
        axes[i] = i + 2;
    value_id y = ox_reshape(o, n, ox_cast(o, n, x, s), t.rank + 1, dims);
    y = normalise(o, n, y, t.rank - 1, axes, ox_attr_f(n, "epsilon", (double)1e-5f));
    bool by_group = n->version < 21; /* scale and bias have an entry a group, later one a channel */
    if (by_group) {
        y = ox_bin(o, n, OP_ADD, ox_bin(o, n, OP_MUL, y, ox_along(o, n, scale, 1, t.rank + 1)),
                   ox_along(o, n, bias, 1, t.rank + 1));
        return ox_out(o, n, 0, ox_cast(o, n, ox_reshape(o, n, y, t.rank, t.dims), t.dtype));
    }
    y = ox_reshape(o, n, y, t.rank, t.dims);
    y = ox_bin(o, n, OP_ADD,
               ox_bin(o, n, OP_MUL, ox_cast(o, n, y, t.dtype), ox_along(o, n, scale, 1, t.rank)),
               ox_along(o, n, bias, 1, t.rank));
    return ox_out(o, n, 0, y);
}

static bool op_mvn(struct ox *o, const struct ox_node *n) {
    value_id x = ox_in(o, n, 0);
    const int64_t *list;
    int axes[MAX_RANK] = {0, 2, 3}, count = ox_attr_ints(n, "axes", &list);
    if (x == 0) return false;
    int rank = ox_type(o, x)->rank;
    for (int i = 0; i < count && i < MAX_RANK; i++) {
        if ((axes[i] = ox_axis(o, n, list[i], rank)) < 0) return false;
    }
    return ox_out(o, n, 0, normalise(o, n, x, count < 0 ? 3 : count, axes, (double)1e-9f));
}

const struct ox_op ox_reduce_ops[] = {
    {"", "ReduceSum", 1, op_reduce_sum},
    {"", "ReduceMax", 1, op_reduce_max},
    {"", "ReduceMin", 1, op_reduce_min},
    {"", "ReduceMean", 1, op_reduce_mean},
    {"", "ReduceProd", 1, op_reduce_prod},
    {"", "ReduceL1", 1, op_reduce_l1},
    {"", "ReduceL2", 1, op_reduce_l2},
    {"", "ReduceSumSquare", 1, op_reduce_sum_square},
    {"", "ReduceLogSum", 1, op_reduce_log_sum},
    {"", "ReduceLogSumExp", 1, op_reduce_log_sum_exp},
    {"", "ArgMax", 1, op_argmax},
    {"", "ArgMin", 1, op_argmin},
    {"", "Softmax", 1, op_softmax},
    {"", "LogSoftmax", 1, op_log_softmax},
    {"", "LayerNormalization", 17, op_layer_norm},
    {"", "RMSNormalization", 23, op_rms_norm},
    {"", "SimplifiedLayerNormalization", 1, op_rms_norm}, /* where ONNX Runtime writes it */
    {"", "GroupNormalization", 18, op_group_norm},
    {"", "MeanVarianceNormalization", 9, op_mvn},
    {0},
};
