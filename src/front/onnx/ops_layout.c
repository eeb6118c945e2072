/* SPDX-License-Identifier: MIT
 * Operators that move elements: shapes, slices, padding, and values made of nothing (Constant,
 * Range, ..).
 */
#include "front/onnx/import.h"

#include <string.h>

static struct sx_pool *pool(const struct ox *o) {
    return o->g->sx;
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Numbers given as attributes: value_float(s), value_int(s). Those that a call gives its function
 * are no tensor of the model, and stay data. */
static bool constant_numbers(struct ox *o, const struct ox_node *n) {
    const Onnx__AttributeProto *f = ox_attr(n, "value_float"), *fs = ox_attr(n, "value_floats");
    const Onnx__AttributeProto *i = ox_attr(n, "value_int"), *is = ox_attr(n, "value_ints");
    const Onnx__AttributeProto *which = f != NULL ? f : fs != NULL ? fs : i != NULL ? i : is;
    struct array *a = ARENA_NEW(o->arena, struct array, 1);
    if (a == NULL) return false;
    if (which == NULL) return ox_fail(o, n, "only tensors and numbers are supported as values");
    long number = onnx_model_find(o->m, which, &o->near);
    a->count = fs != NULL ? (int64_t)fs->n_floats : is != NULL ? (int64_t)is->n_ints : 1;
    a->type.dtype = f != NULL || fs != NULL ? DT_F32 : DT_I64;
    a->type.rank = fs != NULL || is != NULL;
    a->type.shape[0] = a->count;
    a->bytes = (size_t)a->count * (a->type.dtype == DT_F32 ? 4 : 8);
    a->data = arena_alloc(o->arena, a->bytes + 8, 1);
    if (a->data == NULL) return false;
    if (f != NULL) memcpy(a->data, &f->f, 4);
    if (i != NULL) memcpy(a->data, &i->i, 8);
    if (fs != NULL && a->count > 0) memcpy(a->data, fs->floats, a->bytes);
    if (is != NULL && a->count > 0) memcpy(a->data, is->ints, a->bytes);
    n->out[0] = ox_new_value(o, (struct ox_value){.tensor = (int)number + 1, .data = a});
    return n->out[0] >= 0;
}

static bool op_constant(struct ox *o, const struct ox_node *n) {
    const Onnx__AttributeProto *a = ox_attr(n, "value");
    if (a == NULL || a->t == NULL) return constant_numbers(o, n);
    n->out[0] = ox_tensor_value(o, a->t, a->t->data_type);
    return n->out[0] >= 0 || ox_fail(o, n, "its value is not among the model's tensors");
}

static bool op_constant_of_shape(struct ox *o, const struct ox_node *n) {
    const Onnx__AttributeProto *a = ox_attr(n, "value");
    enum dtype d = DT_F32;
    union scalar c = {.f = 0};
    sx dims[MAX_RANK];
    int64_t rank = ox_in_ints(o, n, 0, dims, MAX_RANK);
    if (rank < 0) return false;
    if (a != NULL && a->t != NULL) {
        struct array x;
        if (onnx_tensor_read(o->m, a->t, "value", o->arena->alloc, &x, o->err) != PROEM_OK)
            return false;
        d = x.type.dtype;
        if (x.count > 0) c = elem_load(d, x.data, 0);
        array_free(&x);
    }
    struct place at = {.err = o->err};
    return ox_out(o, n, 0, ox_expand(o, n, graph_const(o->g, &at, d, c), (int)rank, dims));
}

/* A float that is known now. */
static bool float_in(struct ox *o, const struct ox_node *n, int i, double *out) {
    const struct array *a = ox_in_data(o, n, i);
    int64_t v;
    if (a != NULL && a->count == 1 && dtype_is_float(a->type.dtype)) {
        *out = elem_load(a->type.dtype, a->data, 0).f;
        return true;
    }
    if (!ox_is_known(o, n, i) || ox_in_numbers(o, n, i, &v, 1) != 1) return false;
    *out = (double)v;
    return true;
}

/* start + i * step for i < ceil((limit - start) / step) */
static bool op_range(struct ox *o, const struct ox_node *n) {
    enum dtype d = ox_in_dtype(o, n, 0);
    sx e[3];
    if (dtype_is_float(d)) {
        double v[3];
        for (int i = 0; i < 3; i++) {
            if (!float_in(o, n, i, &v[i]))
                return ox_fail(o, n, "its input %d is computed from data", i);
        }
        double count = (v[1] - v[0]) / v[2];
        int64_t whole = count > 0 && count < 1e15 ? (int64_t)count : 0;
        if (count > 0 && (double)whole < count) whole++;
        sx N = ox_const(o, whole);
        /* the index in f32 at least: a narrow type would lose it */
        enum dtype c = d == DT_F64 ? DT_F64 : DT_F32;
        value_id i = ox_cast(o, n, ox_iota(o, n, DT_I64, 1, &N, 0), c);
        value_id y = ox_bin(o, n, OP_ADD, ox_num(o, n, c, v[0]),
                            ox_bin(o, n, OP_MUL, i, ox_num(o, n, c, v[2])));
        return ox_out(o, n, 0, ox_cast(o, n, y, d));
    }
    for (int i = 0; i < 3; i++) {
        if (ox_in_ints(o, n, i, &e[i], 1) != 1) return false;
    }
    int64_t step;
    if (!sx_is_const(pool(o), e[2], &step) || step == 0)
        return ox_fail(o, n, "its step must be a number that is not 0");
    sx span = step > 0 ? sx_sub(pool(o), e[1], e[0]) : sx_sub(pool(o), e[0], e[1]);
    sx N = sx_ceil_div(pool(o), span, ox_const(o, step > 0 ? step : -step));
    int64_t number;
    if (sx_is_const(pool(o), N, &number) && number < 0) N = ox_const(o, 0);
    value_id i = ox_iota(o, n, DT_I64, 1, &N, 0);
    if (step != 1) i = ox_bin(o, n, OP_MUL, i, ox_int(o, n, DT_I64, step));
    if (!ox_sx_is(o, e[0], 0)) i = ox_bin(o, n, OP_ADD, i, ox_sx_value(o, n, DT_I64, e[0]));
    return ox_out(o, n, 0, ox_cast(o, n, i, d));
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static bool op_reshape(struct ox *o, const struct ox_node *n) {
    sx shape[MAX_RANK], in[MAX_RANK];
    const int64_t *list;
    int rank_in, rank;
    if (!ox_in_shape(o, n, 0, &rank_in, in)) return false;
    if (n->version < 5) {
        rank = ox_attr_ints(n, "shape", &list);
        if (rank < 0 || rank > MAX_RANK) return ox_fail(o, n, "its shape is missing or too long");
        for (int i = 0; i < rank; i++)
            shape[i] = ox_const(o, list[i]);
    } else {
        rank = (int)ox_in_ints(o, n, 1, shape, MAX_RANK);
        if (rank < 0) return false;
    }
    bool zero_is_zero = ox_attr_i(n, "allowzero", 0) != 0;
    for (int i = 0; i < rank; i++) {
        if (!zero_is_zero && ox_sx_is(o, shape[i], 0)) {
            if (i >= rank_in)
                return ox_fail(o, n, "dim %d of its shape copies one that its input lacks", i);
            shape[i] = in[i];
        }
    }
    return ox_out(o, n, 0, ox_reshape(o, n, ox_in(o, n, 0), rank, shape));
}

static bool op_flatten(struct ox *o, const struct ox_node *n) {
    int rank;
    sx in[MAX_RANK], out[2] = {ox_const(o, 1), ox_const(o, 1)};
    if (!ox_in_shape(o, n, 0, &rank, in)) return false;
    int64_t axis = ox_attr_i(n, "axis", 1);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis > rank) return ox_fail(o, n, "axis %lld is out of range", (long long)axis);
    for (int i = 0; i < rank; i++)
        out[i >= axis] = sx_mul(pool(o), out[i >= axis], in[i]);
    return ox_out(o, n, 0, ox_reshape(o, n, ox_in(o, n, 0), 2, out));
}

/* Axes as an attribute, or from `since` on as input `at`. *count is -1 when there are none. */
static bool axes(struct ox *o, const struct ox_node *n, int since, int at, int rank, int *out,
                 int *count) {
    int64_t v[MAX_RANK];
    const int64_t *list = v;
    *count = -1;
    if (n->version < since)
        *count = ox_attr_ints(n, "axes", &list);
    else if (ox_has(n, at) && (*count = (int)ox_in_numbers(o, n, at, v, MAX_RANK)) < 0)
        return false;
    if (*count > MAX_RANK) return ox_fail(o, n, "it has too many axes");
    for (int i = 0; i < *count; i++) {
        if ((out[i] = ox_axis(o, n, list[i], rank)) < 0) return false;
    }
    return true;
}

static bool op_squeeze(struct ox *o, const struct ox_node *n) {
    int rank, at[MAX_RANK], count;
    sx dims[MAX_RANK];
    bool off[MAX_RANK] = {false};
    if (!ox_in_shape(o, n, 0, &rank, dims) || !axes(o, n, 13, 1, rank, at, &count)) return false;
    value_id v = ox_in(o, n, 0);
    for (int i = 0; i < rank; i++)
        off[i] = count < 0 && ox_sx_is(o, dims[i], 1);
    for (int i = 0; i < count; i++)
        off[at[i]] = true;
    for (int i = rank - 1; i >= 0; i--) {
        if (off[i]) v = ox_squeeze(o, n, v, i);
    }
    return ox_out(o, n, 0, v);
}

static bool op_unsqueeze(struct ox *o, const struct ox_node *n) {
    int rank, count, at[MAX_RANK];
    int64_t v[MAX_RANK];
    const int64_t *list = v;
    sx dims[MAX_RANK];
    bool on[MAX_RANK] = {false};
    if (!ox_in_shape(o, n, 0, &rank, dims)) return false;
    if (n->version < 13)
        count = ox_attr_ints(n, "axes", &list);
    else
        count = (int)ox_in_numbers(o, n, 1, v, MAX_RANK);
    if (count < 0 || rank + count > MAX_RANK)
        return ox_fail(o, n, "its axes are missing or too many");
    for (int i = 0; i < count; i++) {
        if ((at[i] = ox_axis(o, n, list[i], rank + count)) < 0) return false;
        on[at[i]] = true;
    }
    value_id x = ox_in(o, n, 0);
    for (int i = 0; i < rank + count; i++) {
        if (on[i]) x = ox_unsqueeze(o, n, x, i);
    }
    return ox_out(o, n, 0, x);
}

static bool op_transpose(struct ox *o, const struct ox_node *n) {
    value_id v = ox_in(o, n, 0);
    const int64_t *list;
    int perm[MAX_RANK], count = ox_attr_ints(n, "perm", &list);
    if (v == 0) return false;
    int rank = ox_type(o, v)->rank;
    if (count >= 0 && count != rank)
        return ox_fail(o, n, "perm has %d entries for %d dims", count, rank);
    for (int i = 0; i < rank; i++) {
        perm[i] = count >= 0 ? ox_axis(o, n, list[i], rank) : rank - 1 - i;
        if (perm[i] < 0) return false;
    }
    if (rank < 2) return ox_out_same(o, n, 0, n->in[0]);
    return ox_out(o, n, 0, ox_permute(o, n, v, rank, perm));
}

/* Both ways: dims of 1 in the shape keep the input's. */
static bool op_expand(struct ox *o, const struct ox_node *n) {
    int rank;
    sx dims[MAX_RANK], shape[MAX_RANK], out[MAX_RANK];
    if (!ox_in_shape(o, n, 0, &rank, dims)) return false;
    int64_t want = ox_in_ints(o, n, 1, shape, MAX_RANK);
    if (want < 0) return false;
    int joint;
    if (!dims_broadcast(o->g, rank, dims, (int)want, shape, &joint, out))
        return ox_fail(o, n, "its shape does not fit its input");
    return ox_out(o, n, 0, ox_expand(o, n, ox_in(o, n, 0), joint, out));
}

static bool op_tile(struct ox *o, const struct ox_node *n) {
    value_id v = ox_in(o, n, 0);
    sx times[MAX_RANK], wide[MAX_RANK * 2], out[MAX_RANK];
    if (v == 0) return false;
    struct value t = *ox_type(o, v);
    int64_t count = ox_in_ints(o, n, 1, times, MAX_RANK);
    if (count < 0) return false;
    if (count != t.rank || t.rank * 2 > MAX_RANK)
        return ox_fail(o, n, "repeats must have an entry for each of at most 8 dims");
    for (int i = 0; i < t.rank; i++) {
        wide[2 * i] = times[i];
        wide[2 * i + 1] = t.dims[i];
        out[i] = sx_mul(pool(o), times[i], t.dims[i]);
    }
    for (int i = 0; i < t.rank; i++)
        v = ox_unsqueeze(o, n, v, 2 * i);
    return ox_out(o, n, 0, ox_reshape(o, n, ox_expand(o, n, v, 2 * t.rank, wide), t.rank, out));
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* A position in 0..size for a start or stop, as NumPy clamps it; needs no proof for common forms. */
static bool clamp_position(struct ox *o, const struct ox_node *n, sx at, sx size, sx *out) {
    int64_t v, s;
    struct sx_pool *sp = pool(o);
    bool number = sx_is_const(sp, at, &v);
    if (number && sx_is_const(sp, size, &s)) {
        if (v < 0) v = v < -s ? 0 : v + s;
        *out = ox_const(o, v > s ? s : v);
        return true;
    }
    if (number && v >= INT32_MAX) { /* the end, as exporters write it */
        *out = size;
        return true;
    }
    if (number && v < 0) {
        *out = v <= INT32_MIN ? ox_const(o, 0) : sx_add(sp, size, at);
        return true;
    }
    (void)n;
    *out = sx_proves_le(sp, size, at) ? size : at;
    return true;
}

static value_id slice_axis(struct ox *o, const struct ox_node *n, value_id v, int axis, sx start,
                           sx stop, int64_t step) {
    if (v == 0) return 0;
    sx size = ox_type(o, v)->dims[axis], b, e;
    int64_t s, x, y;
    if (step > 0) {
        if (!clamp_position(o, n, start, size, &b) || !clamp_position(o, n, stop, size, &e))
            return 0;
        if (sx_is_const(pool(o), b, &x) && sx_is_const(pool(o), e, &y) && y < x) e = b;
        return ox_slice(o, n, v, axis, b, e, step);
    }
    /* Backwards: flip, then forwards. Positions p become size - 1 - p. */
    if (!sx_is_const(pool(o), size, &s) || !sx_is_const(pool(o), start, &x) ||
        !sx_is_const(pool(o), stop, &y)) {
        ox_fail(o, n, "a slice backwards needs numbers");
        return 0;
    }
    if (x < 0) x += s;
    if (y < 0) y = y < -s ? -1 : y + s;
    x = x < -1 ? -1 : x > s - 1 ? s - 1 : x;
    y = y < -1 ? -1 : y > s - 1 ? s - 1 : y;
    struct attrs a = attrs_default(OP_FLIP);
    a.n_axes = 1;
    a.axes[0] = axis;
    v = ox_apply(o, n, OP_FLIP, 1, &v, &a);
    int64_t from = s - 1 - x, to = s - 1 - y;
    return ox_slice(o, n, v, axis, ox_const(o, from), ox_const(o, to < from ? from : to), -step);
}

static bool op_slice(struct ox *o, const struct ox_node *n) {
    value_id v = ox_in(o, n, 0);
    sx start[MAX_RANK], stop[MAX_RANK];
    int64_t at[MAX_RANK], step[MAX_RANK], count;
    const int64_t *s, *e, *a;
    if (v == 0) return false;
    int rank = ox_type(o, v)->rank;
    for (int i = 0; i < MAX_RANK; i++)
        at[i] = i, step[i] = 1;
    if (n->version < 10) {
        count = ox_attr_ints(n, "starts", &s);
        if (count < 0 || count > MAX_RANK || ox_attr_ints(n, "ends", &e) != count)
            return ox_fail(o, n, "starts and ends differ");
        if (ox_attr_ints(n, "axes", &a) == count) memcpy(at, a, (size_t)count * sizeof *at);
        for (int64_t i = 0; i < count; i++)
            start[i] = ox_const(o, s[i]), stop[i] = ox_const(o, e[i]);
    } else {
        count = ox_in_ints(o, n, 1, start, MAX_RANK);
        if (count < 0 || ox_in_ints(o, n, 2, stop, MAX_RANK) != count)
            return ox_fail(o, n, "starts and ends differ");
        if (ox_has(n, 3) && ox_in_numbers(o, n, 3, at, MAX_RANK) != count)
            return ox_fail(o, n, "axes and starts differ");
        if (ox_has(n, 4) && ox_in_numbers(o, n, 4, step, MAX_RANK) != count)
            return ox_fail(o, n, "steps and starts differ");
    }
    for (int64_t i = 0; i < count; i++) {
        int axis = ox_axis(o, n, at[i], rank);
        if (axis < 0) return false;
        if (step[i] == 0) return ox_fail(o, n, "a step is 0");
        v = slice_axis(o, n, v, axis, start[i], stop[i], step[i]);
    }
    return ox_out(o, n, 0, v);
}

static bool op_split(struct ox *o, const struct ox_node *n) {
    value_id v = ox_in(o, n, 0);
    if (v == 0) return false;
    struct value t = *ox_type(o, v);
    int axis = ox_axis(o, n, ox_attr_i(n, "axis", 0), t.rank);
    sx sizes[64], at = ox_const(o, 0);
    const int64_t *list;
    if (axis < 0) return false;
    if (n->n_out > 64) return ox_fail(o, n, "it has more than 64 outputs");
    int count = n->version < 13 ? ox_attr_ints(n, "split", &list) : -1;
    for (int i = 0; i < count && i < 64; i++)
        sizes[i] = ox_const(o, list[i]);
    if (n->version >= 13 && ox_has(n, 1) && (count = (int)ox_in_ints(o, n, 1, sizes, 64)) < 0)
        return false;
    if (count < 0) { /* equal parts, the last one smaller */
        int parts = (int)ox_attr_i(n, "num_outputs", n->n_out);
        if (parts < 1 || parts > 64) return ox_fail(o, n, "num_outputs is %d", parts);
        sx part = sx_ceil_div(pool(o), t.dims[axis], ox_const(o, parts));
        for (int i = 0; i < parts; i++)
            sizes[i] = i + 1 < parts ? part
                                     : sx_sub(pool(o), t.dims[axis],
                                              sx_mul(pool(o), part, ox_const(o, parts - 1)));
        count = parts;
    }
    if (count < n->n_out) return ox_fail(o, n, "%d sizes for %d outputs", count, n->n_out);
    for (int i = 0; i < n->n_out; i++) {
        sx end = sx_add(pool(o), at, sizes[i]);
        if (!ox_out(o, n, i, ox_slice(o, n, v, axis, at, end, 1))) return false;
        at = end;
    }
    return true;
}

static bool op_concat(struct ox *o, const struct ox_node *n) {
    value_id *in = ARENA_NEW(o->arena, value_id, n->n_in + 1);
    if (in == NULL || n->n_in == 0) return ox_fail(o, n, "it has no inputs");
    for (int i = 0; i < n->n_in; i++) {
        if ((in[i] = ox_in(o, n, i)) == 0) return false;
    }
    if (n->n_in == 1) return ox_out_same(o, n, 0, n->in[0]);
    int axis = ox_axis(o, n, ox_attr_i(n, "axis", 1), ox_type(o, in[0])->rank);
    return axis >= 0 && ox_out(o, n, 0, ox_concat(o, n, n->n_in, in, axis));
}

/* ---- padding --------------------------------------------------------------------------------- */

/* The positions that element i of a padded axis is read from, for the modes that read elements. */
static value_id pad_index(struct ox *o, const struct ox_node *n, sx size, sx low, sx total,
                          const char *mode) {
    value_id i = ox_iota(o, n, DT_I64, 1, &total, 0);
    value_id s = ox_sx_value(o, n, DT_I64, size), one = ox_int(o, n, DT_I64, 1),
             zero = ox_int(o, n, DT_I64, 0);
    value_id at = ox_bin(o, n, OP_SUB, i, ox_sx_value(o, n, DT_I64, low));
    value_id last = ox_bin(o, n, OP_SUB, s, one);
    if (strcmp(mode, "edge") == 0) return ox_tri(o, n, OP_CLAMP, at, zero, last);
    if (strcmp(mode, "wrap") == 0) return ox_bin(o, n, OP_MOD, at, s);
    /* reflect: a triangle wave of period 2 (size - 1) */
    value_id period =
        ox_bin(o, n, OP_MAXIMUM, ox_bin(o, n, OP_MUL, last, ox_int(o, n, DT_I64, 2)), one);
    value_id m = ox_bin(o, n, OP_MOD, at, period);
    return ox_bin(o, n, OP_MINIMUM, m, ox_bin(o, n, OP_SUB, period, m));
}

static value_id pad_axis(struct ox *o, const struct ox_node *n, value_id v, int axis, sx low,
                         sx high, const char *mode) {
    if (v == 0 || (ox_sx_is(o, low, 0) && ox_sx_is(o, high, 0))) return v;
    sx size = ox_type(o, v)->dims[axis];
    sx total = sx_add(pool(o), size, sx_add(pool(o), low, high));
    return ox_take(o, n, v, pad_index(o, n, size, low, total, mode), axis);
}

/* Negative pads cut. */
static value_id cut(struct ox *o, const struct ox_node *n, value_id v, int axis, sx *low,
                    sx *high) {
    int64_t a = 0, b = 0;
    bool cuts_low = sx_is_const(pool(o), *low, &a) && a < 0,
         cuts_high = sx_is_const(pool(o), *high, &b) && b < 0;
    if (v == 0 || (!cuts_low && !cuts_high)) return v;
    sx size = ox_type(o, v)->dims[axis];
    v = ox_slice(o, n, v, axis, ox_const(o, cuts_low ? -a : 0),
                 cuts_high ? sx_add(pool(o), size, *high) : size, 1);
    if (cuts_low) *low = ox_const(o, 0);
    if (cuts_high) *high = ox_const(o, 0);
    return v;
}

/* Padding with a value: that of an operand, so by a select around a padded tensor of its own. */
static value_id pad_value(struct ox *o, const struct ox_node *n, value_id v, const sx *low,
                          const sx *high, value_id fill) {
    if (v == 0) return 0;
    struct attrs a = attrs_default(OP_PAD);
    int rank = ox_type(o, v)->rank;
    a.n_list = a.n_list2 = rank;
    memcpy(a.list, low, (size_t)rank * sizeof *low);
    memcpy(a.list2, high, (size_t)rank * sizeof *high);
    value_id padded = ox_apply(o, n, OP_PAD, 1, &v, &a);
    if (fill == 0 || padded == 0) return padded;
    value_id yes = ox_expand(o, n, ox_int(o, n, DT_BOOL, 1), rank, ox_type(o, v)->dims);
    value_id inside = ox_apply(o, n, OP_PAD, 1, &yes, &a);
    return ox_tri(o, n, OP_WHERE, inside, padded, fill);
}

static bool op_pad(struct ox *o, const struct ox_node *n) {
    value_id v = ox_in(o, n, 0), fill = 0;
    sx pads[2 * MAX_RANK], low[MAX_RANK], high[MAX_RANK];
    const int64_t *list;
    int at[MAX_RANK], count = -1;
    if (v == 0) return false;
    int rank = ox_type(o, v)->rank;
    int64_t n_pads;
    if (n->version < 11) {
        n_pads = ox_attr_ints(n, n->version < 2 ? "paddings" : "pads", &list);
        for (int64_t i = 0; i < n_pads && i < 2 * MAX_RANK; i++)
            pads[i] = ox_const(o, list[i]);
        double c = ox_attr_f(n, "value", 0);
        if (c != 0) fill = ox_num(o, n, ox_type(o, v)->dtype, c);
    } else {
        n_pads = ox_in_ints(o, n, 1, pads, 2 * MAX_RANK);
        if (ox_has(n, 2)) fill = ox_in(o, n, 2);
        if (!axes(o, n, 18, 3, rank, at, &count)) return false;
    }
    if (n_pads < 0) return false;
    int m = count >= 0 ? count : rank;
    if (n_pads != 2 * m) return ox_fail(o, n, "%lld pads for %d axes", (long long)n_pads, m);
    for (int i = 0; i < rank; i++)
        low[i] = high[i] = ox_const(o, 0);
    for (int i = 0; i < m; i++) {
        low[count >= 0 ? at[i] : i] = pads[i];
        high[count >= 0 ? at[i] : i] = pads[m + i];
    }
    for (int i = 0; i < rank; i++)
        v = cut(o, n, v, i, &low[i], &high[i]);
    static const char *const modes[] = {"reflect", "edge", "wrap"};
    for (size_t k = 0; k < COUNT_OF(modes); k++) {
        if (!ox_attr_is(n, "mode", modes[k], "constant")) continue;
        for (int i = 0; i < rank; i++)
            v = pad_axis(o, n, v, i, low[i], high[i], modes[k]);
        return ox_out(o, n, 0, v);
    }
    if (fill != 0 && ox_type(o, fill)->rank > 0) fill = ox_reshape(o, n, fill, 0, NULL);
    return ox_out(o, n, 0, pad_value(o, n, v, low, high, fill));
}

static bool op_identity(struct ox *o, const struct ox_node *n) {
    return ox_out_same(o, n, 0, n->in[0]);
}

const struct ox_op ox_layout[] = {
    {"", "Identity", 1, op_identity},
    {"", "Constant", 1, op_constant},
    {"", "ConstantOfShape", 9, op_constant_of_shape},
    {"", "Range", 11, op_range},
    {"", "Reshape", 1, op_reshape},
    {"", "Flatten", 1, op_flatten},
    {"", "Squeeze", 1, op_squeeze},
    {"", "Unsqueeze", 1, op_unsqueeze},
    {"", "Transpose", 1, op_transpose},
    {"", "Expand", 8, op_expand},
    {"", "Tile", 6, op_tile},
    {"", "Slice", 1, op_slice},
    {"", "Split", 2, op_split},
    {"", "Concat", 1, op_concat},
    {"", "Pad", 1, op_pad},
    {"", "Shape", 1, NULL}, /* always folded */
    {"", "Size", 1, NULL},
    {0},
};
