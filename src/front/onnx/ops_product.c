/* SPDX-License-Identifier: MIT
 * Products, and what quantizes their operands.
 */
#include "front/onnx/parts.h"

#include <string.h>

static bool op_matmul(struct ox *o, const struct ox_node *n) {
    return ox_out(o, n, 0, ox_bin(o, n, OP_MATMUL, ox_in(o, n, 0), ox_in(o, n, 1)));
}

static value_id product(struct ox *o, const struct ox_node *n, value_id a, value_id b,
                        enum dtype out) {
    struct attrs at = attrs_default(OP_MATMUL);
    const value_id in[] = {a, b};
    at.dtype = out;
    return ox_apply(o, n, OP_MATMUL, 2, in, &at);
}

static value_id flipped(struct ox *o, const struct ox_node *n, value_id v, const char *attr) {
    static const int perm[] = {1, 0};
    if (!ox_has_rank(o, n, v, 2, 2)) return 0;
    return ox_attr_i(n, attr, 0) != 0 ? ox_permute(o, n, v, 2, perm) : v;
}

static bool op_gemm(struct ox *o, const struct ox_node *n) {
    value_id a = ox_in(o, n, 0), b = ox_in(o, n, 1);
    if (a == 0 || b == 0) return false;
    double alpha = ox_attr_f(n, "alpha", 1), beta = ox_attr_f(n, "beta", 1);
    enum dtype d = ox_type(o, a)->dtype;
    value_id y = ox_cast(
        o, n, ox_bin(o, n, OP_MATMUL, flipped(o, n, a, "transA"), flipped(o, n, b, "transB")), d);
    if (alpha != 1) y = ox_bin(o, n, OP_MUL, y, ox_num(o, n, d, alpha));
    if (!ox_has(n, 2) || beta == 0) return ox_out(o, n, 0, y);
    value_id c = ox_in(o, n, 2);
    if (beta != 1) c = ox_bin(o, n, OP_MUL, c, ox_num(o, n, d, beta));
    return ox_out(o, n, 0, ox_bin(o, n, OP_ADD, y, c));
}

value_id ox_beside(struct ox *o, const struct ox_node *n, value_id v, int rank, bool is_left) {
    if (v == 0) return 0;
    struct value t = *ox_type(o, v);
    if (t.rank == 1 && rank > 1 && ox_sx_is(o, t.dims[0], 1)) return ox_squeeze(o, n, v, 0);
    if (t.rank == 1 && is_left && rank > 1) return ox_unsqueeze(o, n, v, 1);
    return v;
}

value_id ox_less_zero(struct ox *o, const struct ox_node *n, int q, int zero, bool is_left) {
    value_id v = ox_in(o, n, q);
    if (v == 0) return 0;
    int rank = ox_type(o, v)->rank;
    if (!ox_has(n, zero)) return v;
    value_id z = ox_beside(o, n, ox_in(o, n, zero), rank, is_left);
    return ox_bin(o, n, OP_SUB, ox_cast(o, n, v, DT_I32), ox_cast(o, n, z, DT_I32));
}

value_id ox_integer_product(struct ox *o, const struct ox_node *n, value_id a, value_id b) {
    if (a == 0 || b == 0) return 0;
    return ox_cast(o, n, product(o, n, a, b, DT_I32), DT_I32);
}

static bool op_matmul_integer(struct ox *o, const struct ox_node *n) {
    value_id a = ox_less_zero(o, n, 0, 2, true), b = ox_less_zero(o, n, 1, 3, false);
    return ox_out(o, n, 0, ox_integer_product(o, n, a, b));
}

static value_id to_float(struct ox *o, const struct ox_node *n, value_id v) {
    if (v == 0) return 0;
    enum dtype d = ox_type(o, v)->dtype;
    return d == DT_F64 || d == DT_F32 ? v : ox_cast(o, n, v, DT_F32);
}

/* a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero */
static bool op_qlinear_matmul(struct ox *o, const struct ox_node *n) {
    value_id x = ox_in(o, n, 0), w = ox_in(o, n, 3);
    if (x == 0 || w == 0) return false;
    int ra = ox_type(o, x)->rank, rb = ox_type(o, w)->rank;
    value_id acc =
        ox_integer_product(o, n, ox_less_zero(o, n, 0, 2, true), ox_less_zero(o, n, 3, 5, false));
    value_id sa = to_float(o, n, ox_beside(o, n, ox_in(o, n, 1), ra, true));
    value_id sb = to_float(o, n, ox_beside(o, n, ox_in(o, n, 4), rb, false));
    value_id sy = to_float(o, n, ox_beside(o, n, ox_in(o, n, 6), ra, true));
    value_id zy = ox_beside(o, n, ox_in(o, n, 7), ra, true);
    if (zy == 0 || sy == 0 || acc == 0) return false;
    enum dtype d = ox_type(o, zy)->dtype;
    value_id y = ox_bin(o, n, OP_MUL, ox_cast(o, n, acc, DT_F32),
                        ox_bin(o, n, OP_DIV, ox_bin(o, n, OP_MUL, sa, sb), sy));
    y = ox_bin(o, n, OP_ADD, ox_un(o, n, OP_ROUND, y), ox_cast(o, n, zy, DT_F32));
    return ox_out(o, n, 0, ox_cast(o, n, y, d)); /* a cast of floats to integers saturates */
}

/* ---- quantization ---------------------------------------------------------------------------- */

/* A scale or zero point of an operand: 0-dim as it is, [1] as a scalar, [D] along axis, or blocks. */
static value_id scale_of(struct ox *o, const struct ox_node *n, value_id v) {
    if (v == 0) return 0;
    const struct value *t = ox_type(o, v);
    return t->rank == 1 && ox_sx_is(o, t->dims[0], 1) ? ox_squeeze(o, n, v, 0) : v;
}

/* The attributes that both directions share; false after an error. */
static bool quant_attrs(struct ox *o, const struct ox_node *n, value_id x, value_id scale,
                        struct attrs *a) {
    struct value t = *ox_type(o, x), s = *ox_type(o, scale);
    a->block = ox_attr_i(n, "block_size", 0);
    a->has_axis = true;
    a->axis = 0;
    if (s.rank == 0) return true;
    int64_t axis = ox_attr_i(n, "axis", 1);
    a->axis = ox_axis(o, n, axis, t.rank);
    return a->axis >= 0;
}

static bool op_dequantize(struct ox *o, const struct ox_node *n) {
    value_id q = ox_in(o, n, 0), raw = ox_in(o, n, 1);
    if (q == 0 || raw == 0) return false;
    struct attrs a = attrs_default(OP_DEQUANTIZE);
    bool one =
        ox_type(o, q)->rank == 1 && ox_type(o, raw)->rank == 1 && ox_attr_i(n, "block_size", 0) > 0;
    value_id scale = one ? raw : scale_of(o, n, raw);
    value_id zero = ox_has(n, 2) ? (one ? ox_in(o, n, 2) : scale_of(o, n, ox_in(o, n, 2))) : 0;
    if (scale == 0 || (ox_has(n, 2) && zero == 0) || !quant_attrs(o, n, q, scale, &a)) return false;
    enum dtype to = onnx_dtype((int32_t)ox_attr_i(n, "output_dtype", 0)),
               sd = ox_type(o, scale)->dtype;
    a.dtype = to != DT_NONE ? to : sd == DT_E8M0 ? DT_F32 : sd;
    enum dtype qd = ox_type(o, q)->dtype;
    if (dtype_is_float(qd)) zero = 0; /* is 0 by the standard */
    const value_id in[] = {q, scale, zero};
    return ox_out(o, n, 0, ox_apply(o, n, OP_DEQUANTIZE, zero != 0 ? 3 : 2, in, &a));
}

/* x / scale in the wider of the two types (or `precision`), rounded half to even, plus zero. */
static bool op_quantize(struct ox *o, const struct ox_node *n) {
    value_id x = ox_in(o, n, 0), raw = ox_in(o, n, 1);
    if (x == 0 || raw == 0) return false;
    struct attrs a = attrs_default(OP_QUANTIZE);
    value_id scale = scale_of(o, n, raw), zero = ox_has(n, 2) ? scale_of(o, n, ox_in(o, n, 2)) : 0;
    if (scale == 0 || (ox_has(n, 2) && zero == 0) || !quant_attrs(o, n, x, scale, &a)) return false;
    enum dtype to = onnx_dtype((int32_t)ox_attr_i(n, "output_dtype", 0));
    a.dtype = zero != 0 ? ox_type(o, zero)->dtype : to != DT_NONE ? to : DT_U8;
    if (dtype_is_float(a.dtype)) zero = 0;
    if (ox_type(o, x)->dtype == DT_I32) x = ox_cast(o, n, x, DT_F32);
    if (ox_type(o, scale)->dtype != ox_type(o, x)->dtype && ox_type(o, scale)->dtype != DT_E8M0)
        scale = ox_cast(o, n, scale, ox_type(o, x)->dtype);
    const value_id in[] = {x, scale, zero};
    return ox_out(o, n, 0, ox_apply(o, n, OP_QUANTIZE, zero != 0 ? 3 : 2, in, &a));
}

bool ox_quantize_whole(struct ox *o, const struct ox_node *n, value_id x, value_id *y,
                       value_id *scale, value_id *z) {
    value_id zero = ox_num(o, n, DT_F32, 0), top = ox_num(o, n, DT_F32, 255);
    value_id hi = ox_bin(o, n, OP_MAXIMUM, ox_reduce(o, n, OP_MAX, x, -1, NULL, false), zero);
    value_id lo = ox_bin(o, n, OP_MINIMUM, ox_reduce(o, n, OP_MIN, x, -1, NULL, false), zero);
    *scale = ox_bin(o, n, OP_DIV, ox_bin(o, n, OP_SUB, hi, lo), top);
    value_id at = ox_bin(o, n, OP_DIV, ox_un(o, n, OP_NEG, lo), *scale);
    value_id middle = ox_un(o, n, OP_ROUND, ox_tri(o, n, OP_CLAMP, at, zero, top));
    value_id steps = ox_un(o, n, OP_ROUND, ox_bin(o, n, OP_DIV, x, *scale));
    *y = ox_cast(o, n, ox_bin(o, n, OP_ADD, steps, middle), DT_U8);
    *z = ox_cast(o, n, middle, DT_U8);
    return *y != 0 && *z != 0;
}

static bool op_dynamic_quantize(struct ox *o, const struct ox_node *n) {
    value_id y, scale, zero;
    if (!ox_quantize_whole(o, n, ox_in(o, n, 0), &y, &scale, &zero)) return false;
    return ox_out(o, n, 0, y) && ox_out(o, n, 1, scale) && ox_out(o, n, 2, zero);
}

/* silu(alpha) gate times up: the two halves of the last dim, or of `axis` */
static bool op_swiglu(struct ox *o, const struct ox_node *n) {
    value_id x = ox_in(o, n, 0), up = ox_has(n, 1) ? ox_in(o, n, 1) : 0;
    double alpha = ox_attr_f(n, "alpha", 1);
    if (x == 0) return false;
    enum dtype d = ox_type(o, x)->dtype;
    if (up == 0) {
        struct value t = *ox_type(o, x);
        int axis = ox_axis(o, n, ox_attr_i(n, "axis", -1), t.rank);
        if (axis < 0) return false;
        sx half = ox_div(o, n, t.dims[axis], ox_const(o, 2));
        up = ox_slice(o, n, x, axis, half, t.dims[axis], 1);
        x = ox_slice(o, n, x, axis, ox_const(o, 0), half, 1);
    }
    value_id gate =
        alpha == 1
            ? ox_un(o, n, OP_SILU, x)
            : ox_bin(o, n, OP_MUL, x,
                     ox_un(o, n, OP_SIGMOID, ox_bin(o, n, OP_MUL, x, ox_num(o, n, d, alpha))));
    return ox_out(o, n, 0, ox_bin(o, n, OP_MUL, gate, up));
}

const struct ox_op ox_product[] = {
    {"", "MatMul", 1, op_matmul},
    {"", "Gemm", 1, op_gemm},
    {"", "MatMulInteger", 10, op_matmul_integer},
    {"", "QLinearMatMul", 10, op_qlinear_matmul},
    {"", "DequantizeLinear", 10, op_dequantize},
    {"", "QuantizeLinear", 10, op_quantize},
    {"", "DynamicQuantizeLinear", 11, op_dynamic_quantize},
    {"", "SwiGLU", 28, op_swiglu},
    {0},
};
