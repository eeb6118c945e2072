/* SPDX-License-Identifier: MIT
 * Operators that look elements up or put them somewhere by index: gathers, scatters, TopK, OneHot,
 * and what follows positions (Trilu, CumSum). An index of several dims becomes one index into the
 * tensor with these dims flattened.
 */
#include "front/onnx/import.h"

#include <string.h>

static struct sx_pool *pool(const struct ox *o) {
    return o->g->sx;
}

/* ---- gathers --------------------------------------------------------------------------------- */

static value_id index_in(struct ox *o, const struct ox_node *n, int i) {
    value_id v = ox_in(o, n, i);
    if (v == 0) return 0;
    enum dtype d = ox_type(o, v)->dtype;
    return d == DT_I32 ? v : ox_cast(o, n, v, DT_I64);
}

static bool op_gather(struct ox *o, const struct ox_node *n) {
    value_id v = ox_in(o, n, 0);
    if (v == 0) return false;
    int axis = ox_axis(o, n, ox_attr_i(n, "axis", 0), ox_type(o, v)->rank);
    return axis >= 0 && ox_out(o, n, 0, ox_take(o, n, v, index_in(o, n, 1), axis));
}

static bool op_gather_elements(struct ox *o, const struct ox_node *n) {
    value_id in[] = {ox_in(o, n, 0), index_in(o, n, 1)};
    if (in[0] == 0 || in[1] == 0) return false;
    struct attrs a = attrs_default(OP_TAKE_ALONG);
    a.axis = ox_axis(o, n, ox_attr_i(n, "axis", 0), ox_type(o, in[0])->rank);
    a.has_axis = true;
    if (a.axis < 0) return false;
    /* the index may be shorter than the data along the other axes: those are cut to it */
    struct value x = *ox_type(o, in[0]), t = *ox_type(o, in[1]);
    if (!ox_has_rank(o, n, in[1], x.rank, x.rank)) return false;
    for (int i = 0; i < x.rank; i++) {
        if (i != a.axis && x.dims[i] != t.dims[i])
            in[0] = ox_slice(o, n, in[0], i, ox_const(o, 0), t.dims[i], 1);
    }
    return ox_out(o, n, 0, ox_apply(o, n, OP_TAKE_ALONG, 2, in, &a));
}

/* A tuple of indices in the last dim of `index` as one position in the first `depth` dims of shape,
 * flattened; negative ones count from the end. Result: index's dims but the last. */
static value_id flat_index(struct ox *o, const struct ox_node *n, value_id index, int depth,
                           const sx *shape) {
    int last = ox_type(o, index)->rank - 1;
    value_id at = 0;
    for (int i = 0; i < depth; i++) {
        value_id x = ox_squeeze(
            o, n, ox_slice(o, n, index, last, ox_const(o, i), ox_const(o, i + 1), 1), last);
        value_id size = ox_sx_value(o, n, DT_I64, shape[i]);
        x = ox_tri(o, n, OP_WHERE, ox_bin(o, n, OP_LT, x, ox_int(o, n, DT_I64, 0)),
                   ox_bin(o, n, OP_ADD, x, size), x);
        at = i == 0 ? x : ox_bin(o, n, OP_ADD, ox_bin(o, n, OP_MUL, at, size), x);
    }
    return at;
}

/* The depth of an ND index: its last dim. */
static int index_depth(struct ox *o, const struct ox_node *n, value_id index, int most) {
    int64_t depth;
    if (index == 0) return -1;
    const struct value *t = ox_type(o, index);
    if (t->rank == 0 || !sx_is_const(pool(o), t->dims[t->rank - 1], &depth) || depth < 1 ||
        depth > most) {
        ox_fail(o, n, "the last dim of its indices is not in 1..%d", most);
        return -1;
    }
    return (int)depth;
}

/* data's first `depth` dims as one. */
static value_id flatten_front(struct ox *o, const struct ox_node *n, value_id data, int depth) {
    struct value x = *ox_type(o, data);
    sx dims[MAX_RANK], front = ox_const(o, 1);
    for (int i = 0; i < depth; i++)
        front = sx_mul(pool(o), front, x.dims[i]);
    dims[0] = front;
    for (int i = depth; i < x.rank; i++)
        dims[i - depth + 1] = x.dims[i];
    return ox_reshape(o, n, data, x.rank - depth + 1, dims);
}

/* With batch dims, these are part of the index: position b of each comes first. */
static value_id with_batch(struct ox *o, const struct ox_node *n, value_id index, int batch) {
    struct value t = *ox_type(o, index);
    value_id part[MAX_RANK + 1];
    sx dims[MAX_RANK];
    memcpy(dims, t.dims, (size_t)t.rank * sizeof *dims);
    dims[t.rank - 1] = ox_const(o, 1);
    for (int b = 0; b < batch; b++)
        part[b] = ox_iota(o, n, DT_I64, t.rank, dims, b);
    part[batch] = index;
    return ox_concat(o, n, batch + 1, part, t.rank - 1);
}

static bool op_gather_nd(struct ox *o, const struct ox_node *n) {
    value_id data = ox_in(o, n, 0), index = ox_cast(o, n, ox_in(o, n, 1), DT_I64);
    if (data == 0 || index == 0) return false;
    struct value x = *ox_type(o, data);
    int batch = (int)ox_attr_i(n, "batch_dims", 0);
    if (batch < 0 || batch >= x.rank) return ox_fail(o, n, "batch_dims is %d", batch);
    if (index_depth(o, n, index, x.rank - batch) < 0) return false;
    if (batch > 0) index = with_batch(o, n, index, batch);
    int depth = index_depth(o, n, index, x.rank);
    if (depth < 0) return false;
    value_id at = flat_index(o, n, index, depth, x.dims);
    return ox_out(o, n, 0, ox_take(o, n, flatten_front(o, n, data, depth), at, 0));
}

/* ---- scatters -------------------------------------------------------------------------------- */

/* How a scatter combines: with what is there first. NULL: it replaces. */
static bool reduction_of(struct ox *o, const struct ox_node *n, bool *add) {
    *add = ox_attr_is(n, "reduction", "add", "none");
    if (*add || ox_attr_is(n, "reduction", "none", "none")) return true;
    return ox_fail(o, n, "this reduction is not supported; none and add are");
}

/* max, min and mul of scattered elements: sorted by nothing, so by comparing every pair: the result
 * at p is op(base[p], reduce over e of (index[e] == p ? update[e] : identity)). */
static value_id combine_all(struct ox *o, const struct ox_node *n, value_id base, value_id at,
                            value_id update, enum op op, enum op reduce, double identity) {
    /* base [P, R..], at [E], update [E, R..] */
    struct value b = *ox_type(o, base), u = *ox_type(o, update);
    sx count = b.dims[0];
    value_id p = ox_unsqueeze(o, n, ox_iota(o, n, DT_I64, 1, &count, 0), 1); /* [P, 1] */
    value_id hit = ox_bin(o, n, OP_EQ, p, ox_unsqueeze(o, n, at, 0));        /* [P, E] */
    for (int i = 1; i < u.rank; i++)
        hit = ox_unsqueeze(o, n, hit, i + 1);
    value_id none = dtype_is_float(u.dtype) ? ox_num(o, n, u.dtype, identity) : 0;
    int64_t lo, hi;
    dtype_int_range(u.dtype, &lo, &hi);
    if (none == 0) none = ox_int(o, n, u.dtype, op == OP_MUL ? 1 : op == OP_MAXIMUM ? lo : hi);
    value_id all = ox_tri(o, n, OP_WHERE, hit, ox_unsqueeze(o, n, update, 0), none);
    int axis = 1;
    value_id r = ox_cast(o, n, ox_reduce(o, n, reduce, all, 1, &axis, false), u.dtype);
    return ox_bin(o, n, op, base, r);
}

static bool other_reduction(const struct ox_node *n, enum op *op, enum op *reduce,
                            double *identity) {
    if (ox_attr_is(n, "reduction", "max", "none"))
        return *op = OP_MAXIMUM, *reduce = OP_MAX, *identity = -__builtin_inf(), true;
    if (ox_attr_is(n, "reduction", "min", "none"))
        return *op = OP_MINIMUM, *reduce = OP_MIN, *identity = __builtin_inf(), true;
    if (ox_attr_is(n, "reduction", "mul", "none"))
        return *op = OP_MUL, *reduce = OP_PROD, *identity = 1, true;
    return false;
}

static value_id flat(struct ox *o, const struct ox_node *n, value_id v) {
    if (v == 0) return 0;
    sx minus = ox_const(o, -1);
    return ox_type(o, v)->rank == 1 ? v : ox_reshape(o, n, v, 1, &minus);
}

/* The flat position of each element of an index along an axis. */
static value_id along_positions(struct ox *o, const struct ox_node *n, value_id index, int axis,
                                const struct value *x) {
    struct value t = *ox_type(o, index);
    value_id at = 0;
    for (int i = 0; i < t.rank; i++) {
        value_id size = ox_sx_value(o, n, DT_I64, x->dims[i]);
        value_id c =
            i == axis ? ox_cast(o, n, index, DT_I64) : ox_iota(o, n, DT_I64, t.rank, t.dims, i);
        if (i == axis)
            c = ox_tri(o, n, OP_WHERE, ox_bin(o, n, OP_LT, c, ox_int(o, n, DT_I64, 0)),
                       ox_bin(o, n, OP_ADD, c, size), c);
        at = i == 0 ? c : ox_bin(o, n, OP_ADD, ox_bin(o, n, OP_MUL, at, size), c);
    }
    return at;
}

static bool op_scatter_elements(struct ox *o, const struct ox_node *n) {
    value_id in[] = {ox_in(o, n, 0), index_in(o, n, 1), ox_in(o, n, 2)};
    if (in[0] == 0 || in[1] == 0 || in[2] == 0) return false;
    struct value x = *ox_type(o, in[0]);
    if (!ox_has_rank(o, n, in[1], x.rank, x.rank)) return false;
    struct attrs a = attrs_default(OP_SCATTER_ALONG);
    enum op op, reduce;
    double identity;
    a.axis = ox_axis(o, n, ox_attr_i(n, "axis", 0), x.rank);
    a.has_axis = true;
    if (a.axis < 0) return false;
    if (other_reduction(n, &op, &reduce, &identity)) {
        value_id at = flat(o, n, along_positions(o, n, in[1], a.axis, &x));
        value_id y =
            combine_all(o, n, flat(o, n, in[0]), at, flat(o, n, in[2]), op, reduce, identity);
        return ox_out(o, n, 0, ox_reshape(o, n, y, x.rank, x.dims));
    }
    if (!reduction_of(o, n, &a.flag)) return false;
    struct value t = *ox_type(o, in[1]);
    bool fits = true;
    for (int i = 0; i < x.rank; i++)
        fits = fits && (i == a.axis || t.dims[i] == x.dims[i]);
    if (fits) return ox_out(o, n, 0, ox_apply(o, n, OP_SCATTER_ALONG, 3, in, &a));
    /* an index that covers a part of the other axes: by flat positions */
    struct attrs f = attrs_default(OP_SCATTER_ALONG);
    f.has_axis = true;
    f.flag = a.flag;
    const value_id flats[] = {
        flat(o, n, in[0]), flat(o, n, along_positions(o, n, in[1], a.axis, &x)), flat(o, n, in[2])};
    return ox_out(o, n, 0,
                  ox_reshape(o, n, ox_apply(o, n, OP_SCATTER_ALONG, 3, flats, &f), x.rank, x.dims));
}

static bool op_scatter_nd(struct ox *o, const struct ox_node *n) {
    value_id data = ox_in(o, n, 0), index = ox_cast(o, n, ox_in(o, n, 1), DT_I64),
             update = ox_in(o, n, 2);
    if (data == 0 || index == 0 || update == 0) return false;
    struct value x = *ox_type(o, data);
    int depth = index_depth(o, n, index, x.rank);
    bool add = false;
    enum op op, reduce;
    double identity;
    if (depth < 0) return false;
    value_id base = flatten_front(o, n, data, depth);
    value_id at = flat(o, n, flat_index(o, n, index, depth, x.dims));
    if (at == 0 || base == 0) return false;
    sx dims[MAX_RANK] = {ox_type(o, at)->dims[0]};
    struct value b = *ox_type(o, base);
    for (int i = 1; i < b.rank; i++)
        dims[i] = b.dims[i];
    update = ox_reshape(o, n, update, b.rank, dims);
    if (other_reduction(n, &op, &reduce, &identity)) {
        value_id y = combine_all(o, n, base, at, update, op, reduce, identity);
        return ox_out(o, n, 0, ox_reshape(o, n, y, x.rank, x.dims));
    }
    if (!reduction_of(o, n, &add)) return false;
    struct attrs a = attrs_default(add ? OP_SCATTER_ADD : OP_SCATTER);
    a.has_axis = true;
    const value_id in[] = {base, at, update};
    value_id y = ox_apply(o, n, add ? OP_SCATTER_ADD : OP_SCATTER, 3, in, &a);
    return ox_out(o, n, 0, ox_reshape(o, n, y, x.rank, x.dims));
}

/* present[b, .., write[b] + s, ..] = update[b, .., s, ..], linear or modulo the size */
static bool op_tensor_scatter(struct ox *o, const struct ox_node *n) {
    value_id past = ox_in(o, n, 0), update = ox_in(o, n, 1);
    if (past == 0 || update == 0) return false;
    struct value x = *ox_type(o, past), u = *ox_type(o, update);
    int axis = ox_axis(o, n, ox_attr_i(n, "axis", -2), x.rank);
    if (axis < 0 || !ox_has_rank(o, n, update, x.rank, x.rank)) return false;
    if (axis == 0) return ox_fail(o, n, "axis 0 is the batch");
    value_id at = ox_iota(o, n, DT_I64, u.rank, u.dims, axis);
    if (ox_has(n, 2))
        at = ox_bin(o, n, OP_ADD, at,
                    ox_along(o, n, ox_cast(o, n, ox_in(o, n, 2), DT_I64), 0, u.rank));
    if (ox_attr_is(n, "mode", "circular", "linear"))
        at = ox_bin(o, n, OP_MOD, at, ox_sx_value(o, n, DT_I64, x.dims[axis]));
    struct attrs a = attrs_default(OP_SCATTER_ALONG);
    a.axis = axis;
    a.has_axis = true;
    const value_id in[] = {past, at, update};
    return ox_out(o, n, 0, ox_apply(o, n, OP_SCATTER_ALONG, 3, in, &a));
}

/* ---- others ---------------------------------------------------------------------------------- */

static bool op_trilu(struct ox *o, const struct ox_node *n) {
    value_id v = ox_in(o, n, 0);
    int64_t k = 0;
    if (v == 0 || (ox_has(n, 1) && ox_in_numbers(o, n, 1, &k, 1) != 1)) return false;
    struct value x = *ox_type(o, v);
    if (x.rank < 2) return ox_fail(o, n, "its input has less than 2 dims");
    bool upper = ox_attr_i(n, "upper", 1) != 0;
    const sx *two = x.dims + x.rank - 2;
    value_id row = ox_iota(o, n, DT_I64, 2, two, 0), col = ox_iota(o, n, DT_I64, 2, two, 1);
    value_id edge = ox_bin(o, n, OP_ADD, row, ox_int(o, n, DT_I64, k));
    value_id keep = ox_bin(o, n, upper ? OP_GE : OP_LE, col, edge);
    return ox_out(o, n, 0, ox_tri(o, n, OP_WHERE, keep, v, ox_num(o, n, x.dtype, 0)));
}

static bool op_cumsum(struct ox *o, const struct ox_node *n) {
    value_id v = ox_in(o, n, 0);
    int64_t at;
    if (v == 0 || ox_in_numbers(o, n, 1, &at, 1) != 1) return false;
    struct value x = *ox_type(o, v);
    int axis = ox_axis(o, n, at, x.rank);
    bool back = ox_attr_i(n, "reverse", 0) != 0, exclusive = ox_attr_i(n, "exclusive", 0) != 0;
    if (axis < 0) return false;
    struct attrs flip = attrs_default(OP_FLIP), a = attrs_default(OP_CUMSUM);
    flip.n_axes = 1;
    flip.axes[0] = a.axis = axis;
    a.has_axis = true;
    if (back) v = ox_apply(o, n, OP_FLIP, 1, &v, &flip);
    value_id s = ox_cast(o, n, ox_apply(o, n, OP_CUMSUM, 1, &v, &a), x.dtype);
    if (exclusive) s = ox_bin(o, n, OP_SUB, s, v);
    if (back) s = ox_apply(o, n, OP_FLIP, 1, &s, &flip);
    return ox_out(o, n, 0, s);
}

static bool op_topk(struct ox *o, const struct ox_node *n) {
    value_id v = ox_in(o, n, 0);
    struct attrs a = attrs_default(OP_TOPK);
    if (v == 0) return false;
    a.axis = ox_axis(o, n, ox_attr_i(n, "axis", -1), ox_type(o, v)->rank);
    a.has_axis = true;
    if (a.axis < 0) return false;
    if (n->version < 10)
        a.k = ox_const(o, ox_attr_i(n, "k", 1));
    else if (ox_in_ints(o, n, 1, &a.k, 1) != 1)
        return false;
    bool least = ox_attr_i(n, "largest", 1) == 0;
    if (least) v = ox_un(o, n, OP_NEG, v);
    value_id top = ox_apply(o, n, OP_TOPK, 1, &v, &a);
    if (top == 0) return false;
    return ox_out(o, n, 0, least ? ox_un(o, n, OP_NEG, top) : top) && ox_out(o, n, 1, top + 1);
}

static bool op_one_hot(struct ox *o, const struct ox_node *n) {
    value_id index = ox_in(o, n, 0), values = ox_in(o, n, 2);
    sx depth;
    if (index == 0 || values == 0 || ox_in_ints(o, n, 1, &depth, 1) != 1) return false;
    struct value t = *ox_type(o, index);
    int axis = ox_axis(o, n, ox_attr_i(n, "axis", -1), t.rank + 1);
    if (axis < 0) return false;
    value_id i = ox_cast(o, n, index, DT_I64), size = ox_sx_value(o, n, DT_I64, depth);
    i = ox_tri(o, n, OP_WHERE, ox_bin(o, n, OP_LT, i, ox_int(o, n, DT_I64, 0)),
               ox_bin(o, n, OP_ADD, i, size), i);
    value_id p = ox_along(o, n, ox_iota(o, n, DT_I64, 1, &depth, 0), axis, t.rank + 1);
    value_id hit = ox_bin(o, n, OP_EQ, ox_unsqueeze(o, n, i, axis), p);
    value_id off =
        ox_squeeze(o, n, ox_slice(o, n, values, 0, ox_const(o, 0), ox_const(o, 1), 1), 0);
    value_id on = ox_squeeze(o, n, ox_slice(o, n, values, 0, ox_const(o, 1), ox_const(o, 2), 1), 0);
    return ox_out(o, n, 0, ox_tri(o, n, OP_WHERE, hit, on, off));
}

const struct ox_op ox_index[] = {
    {"", "Gather", 1, op_gather},
    {"", "GatherElements", 11, op_gather_elements},
    {"", "GatherND", 11, op_gather_nd},
    {"", "Scatter", 9, op_scatter_elements},
    {"", "ScatterElements", 11, op_scatter_elements},
    {"", "ScatterND", 11, op_scatter_nd},
    {"", "TensorScatter", 24, op_tensor_scatter},
    {"", "Trilu", 14, op_trilu},
    {"", "CumSum", 11, op_cumsum},
    {"", "TopK", 1, op_topk},
    {"", "OneHot", 9, op_one_hot},
    {0},
};
