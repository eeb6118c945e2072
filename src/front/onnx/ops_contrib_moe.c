/* SPDX-License-Identifier: MIT
 * Mixtures of experts of the domain com.microsoft: MoE, and QMoE with packed weights.
 *
 * Every token is taken once for each expert that it goes to; these rows are sorted by expert, so
 * that an expert's rows lie together, and each layer is one grouped product. The rows go back to
 * where they came from by the inverse of the sort, and are summed with the router's weights.
 */
#include "front/onnx/parts.h"

#include <math.h>
#include <string.h>

static struct sx_pool *pool(const struct ox *o) {
    return o->g->sx;
}

struct experts {
    int64_t E, k;
    sx T, H; /* tokens, their size */
    enum dtype dtype;
    value_id rows;    /* of tokens, sorted by expert [T * k, H] */
    value_id expert;  /* of each row, sorted [T * k], i64 */
    value_id offsets; /* one past each expert's last row [E], i32 */
    value_id back;    /* which row a token's j-th one is [T * k] */
    value_id weights; /* [T, k] */
    int per;          /* inputs of a layer: weights, (scales,) bias */
};

static value_id with_axis(struct ox *o, const struct ox_node *n, enum op op, value_id x, int axis) {
    struct attrs a = attrs_default(op);
    a.has_axis = true;
    a.axis = axis;
    return ox_apply(o, n, op, 1, &x, &a);
}

static value_id taken_along(struct ox *o, const struct ox_node *n, value_id x, value_id index,
                            int axis) {
    struct attrs a = attrs_default(OP_TAKE_ALONG);
    const value_id in[] = {x, index};
    a.has_axis = true;
    a.axis = axis;
    return ox_apply(o, n, OP_TAKE_ALONG, 2, in, &a);
}

static sx rows_of(struct ox *o, const struct experts *x) {
    return sx_mul(pool(o), x->T, ox_const(o, x->k));
}

/* ---- routing --------------------------------------------------------------------------------- */

static bool route(struct ox *o, const struct ox_node *n, struct experts *x) {
    value_id logits = ox_in(o, n, 1);
    struct attrs a = attrs_default(OP_TOPK);
    if (logits == 0) return false;
    sx two[] = {x->T, ox_const(o, x->E)}, all = rows_of(o, x);
    logits = ox_cast(o, n, ox_reshape(o, n, logits, 2, two), DT_F32);
    a.has_axis = true;
    a.axis = 1;
    a.k = ox_const(o, x->k);
    value_id p = with_axis(o, n, OP_SOFTMAX, logits, 1), top = ox_apply(o, n, OP_TOPK, 1, &p, &a);
    if (top == 0) return false;
    value_id chosen = ox_reshape(o, n, top + 1, 1, &all);
    int last = 1;
    x->weights = top;
    bool own_weights = x->per == 3 && ox_has(n, 14);
    if (own_weights) { /* the logits choose, these weigh */
        value_id own = ox_cast(o, n, ox_reshape(o, n, ox_in(o, n, 14), 2, two), DT_F32);
        x->weights = top = taken_along(o, n, own, top + 1, 1);
    }
    if (top == 0) return false;
    /* QMoE of the CPU provider normalizes its softmax whatever the attribute says. */
    if ((x->per == 3 && !own_weights) || ox_attr_i(n, "normalize_routing_weights", 0) != 0)
        x->weights = ox_bin(o, n, OP_DIV, top, ox_reduce(o, n, OP_SUM, top, 1, &last, true));
    value_id order = with_axis(o, n, OP_ARGSORT, chosen, 0);
    x->expert = ox_take(o, n, chosen, order, 0);
    x->back = with_axis(o, n, OP_ARGSORT, order, 0);
    value_id token = ox_bin(o, n, OP_FLOORDIV, order, ox_int(o, n, DT_I64, x->k));
    sx E = ox_const(o, x->E);
    value_id number = ox_unsqueeze(o, n, ox_iota(o, n, DT_I64, 1, &E, 0), 1);
    value_id upto = ox_bin(o, n, OP_LE, chosen, number);
    x->offsets = ox_cast(o, n, ox_reduce(o, n, OP_SUM, upto, 1, &last, false), DT_I32);
    sx flat[] = {x->T, x->H};
    x->rows = ox_take(o, n, ox_reshape(o, n, ox_in(o, n, 0), 2, flat), token, 0);
    return x->rows != 0 && x->expert != 0 && x->back != 0 && x->offsets != 0 && x->weights != 0;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static enum dtype packed_dtype(int64_t bits) {
    return bits == 2 ? DT_U2 : bits == 4 ? DT_U4 : bits == 8 ? DT_U8 : DT_NONE;
}

/* Packed weights [E, N, bytes] as floats [E, N, K]; scales [E, N] or [E, N, blocks]. */
static value_id unpacked(struct ox *o, const struct ox_node *n, int first, int number) {
    static const char *const own[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits",
                                      "fc3_expert_weight_bits"};
    int64_t bits = ox_attr_i(n, own[number - 1], ox_attr_i(n, "expert_weight_bits", 4));
    enum dtype d = packed_dtype(bits);
    int zeros = 10 + number;
    value_id w = ox_in(o, n, first), scale = ox_in(o, n, first + 1), zero;
    if (w == 0 || scale == 0) return 0;
    if (d == DT_NONE) return ox_fail(o, n, "expert_weight_bits must be 2, 4 or 8"), 0;
    if (d != DT_U8) w = ox_bitcast(o, n, w, d);
    if (ox_type(o, scale)->rank == 2) scale = ox_unsqueeze(o, n, scale, 2);
    if (!ox_has_rank(o, n, w, 3, 3) || !ox_has_rank(o, n, scale, 3, 3)) return 0;
    struct value t = *ox_type(o, w), s = *ox_type(o, scale);
    struct attrs a = attrs_default(OP_DEQUANTIZE);
    a.has_axis = true;
    a.axis = 2;
    a.block = ox_attr_i(n, "block_size", 0);
    if (a.block <= 0 && !sx_is_const(pool(o), t.dims[t.rank - 1], &a.block))
        return ox_fail(o, n, "the size of its weights must be a number"), 0;
    if (ox_has(n, zeros)) {
        zero = ox_in(o, n, zeros);
        if (d != DT_U8) zero = ox_bitcast(o, n, zero, d);
        if (zero != 0 && ox_type(o, zero)->rank == 2) zero = ox_unsqueeze(o, n, zero, 2);
        zero = ox_slice(o, n, zero, 2, ox_const(o, 0), s.dims[2], 1);
    } else {
        zero = ox_expand(o, n, ox_int(o, n, d, INT64_C(1) << (dtype_bits(d) - 1)), s.rank, s.dims);
    }
    const value_id in[] = {w, scale, zero};
    return ox_apply(o, n, OP_DEQUANTIZE, 3, in, &a);
}

/* Layer `number` (1 to 3) of each row's expert. */
static value_id layer(struct ox *o, const struct ox_node *n, const struct experts *x, int number,
                      value_id rows) {
    static const int perm[] = {0, 2, 1};
    int first = 2 + (number - 1) * x->per, bias = first + x->per - 1;
    value_id w = x->per == 2 ? ox_in(o, n, first) : unpacked(o, n, first, number);
    if (!ox_has_rank(o, n, w, 3, 3)) return 0;
    const value_id in[] = {rows, ox_permute(o, n, w, COUNT_OF(perm), perm), x->offsets};
    value_id y = ox_cast(o, n, ox_apply(o, n, OP_GROUPED_MATMUL, 3, in, NULL), x->dtype);
    if (!ox_has(n, bias)) return y;
    return ox_bin(o, n, OP_ADD, y, ox_take(o, n, ox_in(o, n, bias), x->expert, 0));
}

/* gate * sigmoid(alpha * gate) * (up + beta), of interleaved columns or of halves. */
static value_id swiglu(struct ox *o, const struct ox_node *n, value_id y) {
    if (y == 0) return 0;
    struct value t = *ox_type(o, y);
    double limit = ox_attr_f(n, "swiglu_limit", 0);
    bool halves = ox_attr_i(n, "swiglu_fusion", 0) == 2;
    sx zero = ox_const(o, 0), end = t.dims[1], half = ox_div(o, n, end, ox_const(o, 2));
    value_id gate =
        halves ? ox_slice(o, n, y, 1, zero, half, 1) : ox_slice(o, n, y, 1, zero, end, 2);
    value_id up =
        halves ? ox_slice(o, n, y, 1, half, end, 1) : ox_slice(o, n, y, 1, ox_const(o, 1), end, 2);
    bool limited = limit > 0 && isfinite(limit);
    bool late = ox_attr_i(n, "swiglu_limit_after_activation", 0) != 0;
    value_id most = ox_num(o, n, t.dtype, limited ? limit : 0);
    if (limited) {
        if (!late) gate = ox_bin(o, n, OP_MINIMUM, gate, most);
        up = ox_tri(o, n, OP_CLAMP, up, ox_num(o, n, t.dtype, -limit), most);
    }
    value_id alpha = ox_num(o, n, t.dtype, ox_attr_f(n, "activation_alpha", 1));
    value_id open = ox_un(o, n, OP_SIGMOID, ox_bin(o, n, OP_MUL, gate, alpha));
    value_id beta = ox_num(o, n, t.dtype, ox_attr_f(n, "activation_beta", 0));
    gate = ox_bin(o, n, OP_MUL, gate, open);
    if (limited && late) gate = ox_bin(o, n, OP_MINIMUM, gate, most);
    return ox_bin(o, n, OP_MUL, gate, ox_bin(o, n, OP_ADD, up, beta));
}

static value_id activated(struct ox *o, const struct ox_node *n, value_id y) {
    if (ox_attr_is(n, "activation_type", "swiglu", "relu")) return swiglu(o, n, y);
    if (ox_attr_is(n, "activation_type", "relu", "relu")) return ox_un(o, n, OP_RELU, y);
    if (ox_attr_is(n, "activation_type", "gelu", "relu")) return ox_un(o, n, OP_GELU_TANH, y);
    if (ox_attr_is(n, "activation_type", "silu", "relu")) return ox_un(o, n, OP_SILU, y);
    if (ox_attr_is(n, "activation_type", "identity", "relu")) return y;
    return ox_fail(o, n, "this activation_type is not supported"), 0;
}

static bool start(struct ox *o, const struct ox_node *n, struct experts *x) {
    value_id in = ox_in(o, n, 0), router = ox_in(o, n, 1);
    if (in == 0 || router == 0) return false;
    struct value t = *ox_type(o, in), r = *ox_type(o, router);
    if (t.rank < 2 || r.rank < 1 || !sx_is_const(pool(o), r.dims[r.rank - 1], &x->E))
        return ox_fail(o, n, "the number of experts must be a number");
    x->k = ox_attr_i(n, "k", 1);
    if (x->k < 1 || x->k > x->E) return ox_fail(o, n, "k is %lld", (long long)x->k);
    if (ox_attr_i(n, "use_sparse_mixer", 0) != 0)
        return ox_fail(o, n, "use_sparse_mixer is not supported");
    x->T = ox_const(o, 1);
    for (int i = 0; i < t.rank - 1; i++)
        x->T = sx_mul(pool(o), x->T, t.dims[i]);
    x->H = t.dims[t.rank - 1];
    x->dtype = t.dtype;
    return true;
}

static bool mixture(struct ox *o, const struct ox_node *n, int per) {
    struct experts x = {.per = per};
    if (!start(o, n, &x) || !route(o, n, &x)) return false;
    value_id y = activated(o, n, layer(o, n, &x, 1, x.rows));
    int third = 2 + 2 * per, middle = 1;
    if (ox_has(n, third)) y = ox_bin(o, n, OP_MUL, y, layer(o, n, &x, 3, x.rows));
    y = ox_take(o, n, layer(o, n, &x, 2, y), x.back, 0);
    if (y == 0) return false;
    sx parts[] = {x.T, ox_const(o, x.k), x.H};
    value_id w = ox_cast(o, n, ox_unsqueeze(o, n, x.weights, 2), x.dtype);
    y = ox_bin(o, n, OP_MUL, ox_reshape(o, n, y, 3, parts), w);
    y = ox_reduce(o, n, OP_SUM, y, 1, &middle, false);
    struct value t = *ox_type(o, ox_in(o, n, 0));
    return ox_out(o, n, 0, ox_reshape(o, n, y, t.rank, t.dims));
}

static bool op_moe(struct ox *o, const struct ox_node *n) {
    return mixture(o, n, 2);
}

static bool op_qmoe(struct ox *o, const struct ox_node *n) {
    if (!ox_attr_is(n, "quant_type", "int", "int")) return ox_fail(o, n, "quant_type must be int");
    return mixture(o, n, 3);
}

const struct ox_op ox_contrib_moe[] = {
    {"com.microsoft", "MoE", 1, op_moe},
    {"com.microsoft", "QMoE", 1, op_qmoe},
    {0},
};
