/* SPDX-License-Identifier: MIT
 * Elementwise operators. Where ONNX means something else than the graph's operator of that name
 * (division and remainder of integers, comparisons with NaN in Max, ..), it is said in operators.
 */
#include "front/onnx/import.h"

#include <math.h>
#include <string.h>

#define UNARY(fn, op)                                                                              \
    static bool fn(struct ox *o, const struct ox_node *n) {                                        \
        return ox_out(o, n, 0, ox_un(o, n, op, ox_in(o, n, 0)));                                   \
    }
#define BINARY(fn, op)                                                                             \
    static bool fn(struct ox *o, const struct ox_node *n) {                                        \
        return ox_out(o, n, 0, ox_bin(o, n, op, left(o, n, 0, 1), left(o, n, 1, 0)));              \
    }

UNARY(op_abs, OP_ABS)
UNARY(op_neg, OP_NEG)
UNARY(op_sign, OP_SIGN)
UNARY(op_exp, OP_EXP)
UNARY(op_log, OP_LOG)
UNARY(op_sqrt, OP_SQRT)
UNARY(op_reciprocal, OP_RECIPROCAL)
UNARY(op_sin, OP_SIN)
UNARY(op_cos, OP_COS)
UNARY(op_tan, OP_TAN)
UNARY(op_asin, OP_ASIN)
UNARY(op_acos, OP_ACOS)
UNARY(op_atan, OP_ATAN)
UNARY(op_sinh, OP_SINH)
UNARY(op_cosh, OP_COSH)
UNARY(op_tanh, OP_TANH)
UNARY(op_asinh, OP_ASINH)
UNARY(op_acosh, OP_ACOSH)
UNARY(op_atanh, OP_ATANH)
UNARY(op_erf, OP_ERF)
UNARY(op_sigmoid, OP_SIGMOID)
UNARY(op_relu, OP_RELU)
UNARY(op_mish, OP_MISH)
UNARY(op_hardswish, OP_HARDSWISH)
UNARY(op_floor, OP_FLOOR)
UNARY(op_ceil, OP_CEIL)
UNARY(op_round, OP_ROUND)
UNARY(op_isnan, OP_ISNAN)
UNARY(op_not, OP_LOGICAL_NOT)
UNARY(op_bitwise_not, OP_BITWISE_NOT)

/* An operand of an old binary operator: before version 7 the second one is broadcast only if
 * `broadcast` is set, from `axis` on. */
static value_id left(struct ox *o, const struct ox_node *n, int i, int other) {
    value_id v = ox_in(o, n, i);
    if (v == 0 || n->version >= 7 || i == 0 || ox_attr_i(n, "broadcast", 0) == 0) return v;
    value_id w = ox_in(o, n, other);
    if (w == 0) return 0;
    int rank = ox_type(o, w)->rank, own = ox_type(o, v)->rank;
    int axis = ox_axis(o, n, ox_attr_i(n, "axis", rank - own), rank > 0 ? rank : 1);
    if (axis < 0) return 0;
    return ox_along(o, n, v, axis + own - 1, rank);
}

BINARY(op_add, OP_ADD)
BINARY(op_sub, OP_SUB)
BINARY(op_mul, OP_MUL)
BINARY(op_eq, OP_EQ)
BINARY(op_lt, OP_LT)
BINARY(op_le, OP_LE)
BINARY(op_gt, OP_GT)
BINARY(op_ge, OP_GE)
BINARY(op_and, OP_LOGICAL_AND)
BINARY(op_or, OP_LOGICAL_OR)
BINARY(op_xor, OP_LOGICAL_XOR)
BINARY(op_bit_and, OP_BITWISE_AND)
BINARY(op_bit_or, OP_BITWISE_OR)
BINARY(op_bit_xor, OP_BITWISE_XOR)

/* Integers: truncated, as C does. floordiv is one too low where signs differ and it is not exact. */
static bool op_div(struct ox *o, const struct ox_node *n) {
    value_id a = left(o, n, 0, 1), b = left(o, n, 1, 0);
    if (a == 0 || b == 0) return false;
    enum dtype d = ox_type(o, a)->dtype;
    if (dtype_is_float(d)) return ox_out(o, n, 0, ox_bin(o, n, OP_DIV, a, b));
    value_id q = ox_bin(o, n, OP_FLOORDIV, a, b);
    if (!dtype_is_signed(d)) return ox_out(o, n, 0, q);
    value_id r = ox_bin(o, n, OP_SUB, a, ox_bin(o, n, OP_MUL, q, b)), zero = ox_int(o, n, d, 0);
    value_id differ = ox_bin(o, n, OP_LT, ox_bin(o, n, OP_BITWISE_XOR, a, b), zero);
    value_id low = ox_bin(o, n, OP_LOGICAL_AND, ox_bin(o, n, OP_NE, r, zero), differ);
    return ox_out(o, n, 0, ox_bin(o, n, OP_ADD, q, ox_cast(o, n, low, d)));
}

/* fmod: C's remainder; else the sign is the divisor's. */
static bool op_mod(struct ox *o, const struct ox_node *n) {
    value_id a = ox_in(o, n, 0), b = ox_in(o, n, 1);
    if (a == 0 || b == 0) return false;
    enum dtype d = ox_type(o, a)->dtype;
    bool fmod_ = ox_attr_i(n, "fmod", 0) != 0;
    value_id m = ox_bin(o, n, fmod_ && dtype_is_float(d) ? OP_FMOD : OP_MOD, a, b);
    if (!fmod_ || !dtype_is_signed(d)) return ox_out(o, n, 0, m);
    value_id zero = ox_int(o, n, d, 0);
    value_id differ = ox_bin(o, n, OP_LT, ox_bin(o, n, OP_BITWISE_XOR, a, b), zero);
    value_id off = ox_bin(o, n, OP_LOGICAL_AND, ox_bin(o, n, OP_NE, m, zero), differ);
    return ox_out(o, n, 0, ox_tri(o, n, OP_WHERE, off, ox_bin(o, n, OP_SUB, m, b), m));
}

/* The result has the base's type; integer bases are raised to float powers in f64. */
static bool op_pow(struct ox *o, const struct ox_node *n) {
    value_id a = left(o, n, 0, 1), b = left(o, n, 1, 0);
    if (a == 0 || b == 0) return false;
    enum dtype da = ox_type(o, a)->dtype, db = ox_type(o, b)->dtype;
    if (da == db) return ox_out(o, n, 0, ox_bin(o, n, OP_POW, a, b));
    enum dtype c =
        dtype_is_float(da) && !dtype_is_float(db) && da != DT_F16 && da != DT_BF16 ? da : DT_F64;
    if (!dtype_is_float(da) && !dtype_is_float(db)) c = DT_I64;
    return ox_out(
        o, n, 0, ox_cast(o, n, ox_bin(o, n, OP_POW, ox_cast(o, n, a, c), ox_cast(o, n, b, c)), da));
}

static bool op_bitshift(struct ox *o, const struct ox_node *n) {
    bool right = ox_attr_is(n, "direction", "RIGHT", "");
    return ox_out(
        o, n, 0,
        ox_bin(o, n, right ? OP_SHIFT_RIGHT : OP_SHIFT_LEFT, ox_in(o, n, 0), ox_in(o, n, 1)));
}

/* Any number of operands. */
static value_id chain(struct ox *o, const struct ox_node *n, enum op op) {
    value_id v = ox_in(o, n, 0);
    for (int i = 1; i < n->n_in; i++)
        v = ox_bin(o, n, op, v, ox_in(o, n, i));
    return v;
}

static bool op_max(struct ox *o, const struct ox_node *n) {
    return ox_out(o, n, 0, chain(o, n, OP_MAXIMUM));
}

static bool op_min(struct ox *o, const struct ox_node *n) {
    return ox_out(o, n, 0, chain(o, n, OP_MINIMUM));
}

static bool op_sum(struct ox *o, const struct ox_node *n) {
    return ox_out(o, n, 0, chain(o, n, OP_ADD));
}

static bool op_mean(struct ox *o, const struct ox_node *n) {
    value_id v = chain(o, n, OP_ADD);
    if (v == 0) return false;
    return ox_out(o, n, 0, ox_bin(o, n, OP_DIV, v, ox_int(o, n, ox_type(o, v)->dtype, n->n_in)));
}

static bool op_where(struct ox *o, const struct ox_node *n) {
    return ox_out(o, n, 0, ox_tri(o, n, OP_WHERE, ox_in(o, n, 0), ox_in(o, n, 1), ox_in(o, n, 2)));
}

/* The lower bound first, so the upper one wins where they cross; a NaN stays. */
static bool op_clip(struct ox *o, const struct ox_node *n) {
    value_id v = ox_in(o, n, 0);
    if (v == 0) return false;
    enum dtype d = ox_type(o, v)->dtype;
    if (n->version < 11) {
        const Onnx__AttributeProto *lo = ox_attr(n, "min"), *hi = ox_attr(n, "max");
        if (lo != NULL) v = ox_bin(o, n, OP_MAXIMUM, v, ox_num(o, n, d, (double)lo->f));
        if (hi != NULL) v = ox_bin(o, n, OP_MINIMUM, v, ox_num(o, n, d, (double)hi->f));
        return lo == NULL && hi == NULL ? ox_out_same(o, n, 0, n->in[0]) : ox_out(o, n, 0, v);
    }
    if (ox_has(n, 1)) v = ox_bin(o, n, OP_MAXIMUM, v, ox_in(o, n, 1));
    if (ox_has(n, 2)) v = ox_bin(o, n, OP_MINIMUM, v, ox_in(o, n, 2));
    return ox_has(n, 1) || ox_has(n, 2) ? ox_out(o, n, 0, v) : ox_out_same(o, n, 0, n->in[0]);
}

static bool op_isinf(struct ox *o, const struct ox_node *n) {
    value_id x = ox_in(o, n, 0);
    if (x == 0) return false;
    enum dtype d = ox_type(o, x)->dtype;
    bool neg = ox_attr_i(n, "detect_negative", 1) != 0,
         pos = ox_attr_i(n, "detect_positive", 1) != 0;
    value_id inf = ox_un(o, n, OP_ISINF, x), zero = ox_num(o, n, d, 0);
    if (neg && pos) return ox_out(o, n, 0, inf);
    value_id sign = ox_bin(o, n, pos ? OP_GT : OP_LT, x, zero);
    if (!neg && !pos) sign = ox_bin(o, n, OP_NE, zero, zero);
    return ox_out(o, n, 0, ox_bin(o, n, OP_LOGICAL_AND, inf, sign));
}

/* ---- activations ----------------------------------------------------------------------------- */

static value_id with_param(struct ox *o, const struct ox_node *n, enum op op, value_id x,
                           double p0) {
    struct attrs a = attrs_default(op);
    a.param[0] = p0;
    return ox_apply(o, n, op, 1, &x, &a);
}

static bool op_elu(struct ox *o, const struct ox_node *n) {
    return ox_out(o, n, 0, with_param(o, n, OP_ELU, ox_in(o, n, 0), ox_attr_f(n, "alpha", 1)));
}

static bool op_leaky_relu(struct ox *o, const struct ox_node *n) {
    return ox_out(
        o, n, 0,
        with_param(o, n, OP_LEAKY_RELU, ox_in(o, n, 0), ox_attr_f(n, "alpha", (double)0.01f)));
}

static value_id times(struct ox *o, const struct ox_node *n, value_id a, double v) {
    return a == 0 ? 0 : ox_bin(o, n, OP_MUL, a, ox_num(o, n, ox_type(o, a)->dtype, v));
}

static value_id plus(struct ox *o, const struct ox_node *n, value_id a, double v) {
    return a == 0 ? 0 : ox_bin(o, n, OP_ADD, a, ox_num(o, n, ox_type(o, a)->dtype, v));
}

static value_id zero_like(struct ox *o, const struct ox_node *n, value_id a) {
    return a == 0 ? 0 : ox_num(o, n, ox_type(o, a)->dtype, 0);
}

/* max(x, 0) + min(0, alpha (e^(x / alpha) - 1)) */
static bool op_celu(struct ox *o, const struct ox_node *n) {
    double alpha = ox_attr_f(n, "alpha", 1);
    value_id x = ox_in(o, n, 0), zero = zero_like(o, n, x);
    value_id e = times(o, n, ox_un(o, n, OP_EXPM1, times(o, n, x, 1 / alpha)), alpha);
    return ox_out(
        o, n, 0,
        ox_bin(o, n, OP_ADD, ox_bin(o, n, OP_MAXIMUM, x, zero), ox_bin(o, n, OP_MINIMUM, zero, e)));
}

static bool op_selu(struct ox *o, const struct ox_node *n) {
    double alpha = ox_attr_f(n, "alpha", 1.67326319217681884765625);
    double gamma = ox_attr_f(n, "gamma", 1.05070102214813232421875);
    return ox_out(o, n, 0, times(o, n, with_param(o, n, OP_ELU, ox_in(o, n, 0), alpha), gamma));
}

static bool op_hard_sigmoid(struct ox *o, const struct ox_node *n) {
    value_id x = ox_in(o, n, 0), zero = zero_like(o, n, x);
    value_id y =
        plus(o, n, times(o, n, x, ox_attr_f(n, "alpha", (double)0.2f)), ox_attr_f(n, "beta", 0.5));
    if (y == 0) return false;
    return ox_out(o, n, 0, ox_tri(o, n, OP_CLAMP, y, zero, ox_num(o, n, ox_type(o, x)->dtype, 1)));
}

static bool op_softplus(struct ox *o, const struct ox_node *n) {
    struct attrs a = attrs_default(OP_SOFTPLUS);
    value_id x = ox_in(o, n, 0);
    a.param[0] = 1;
    a.param[1] = HUGE_VAL; /* no switch to x: log(1 + e^x) everywhere */
    return ox_out(o, n, 0, ox_apply(o, n, OP_SOFTPLUS, 1, &x, &a));
}

static bool op_softsign(struct ox *o, const struct ox_node *n) {
    value_id x = ox_in(o, n, 0);
    return ox_out(o, n, 0, ox_bin(o, n, OP_DIV, x, plus(o, n, ox_un(o, n, OP_ABS, x), 1)));
}

static bool op_thresholded_relu(struct ox *o, const struct ox_node *n) {
    value_id x = ox_in(o, n, 0);
    if (x == 0) return false;
    value_id c =
        ox_bin(o, n, OP_GT, x, ox_num(o, n, ox_type(o, x)->dtype, ox_attr_f(n, "alpha", 1)));
    return ox_out(o, n, 0, ox_tri(o, n, OP_WHERE, c, x, zero_like(o, n, x)));
}

static bool op_shrink(struct ox *o, const struct ox_node *n) {
    double bias = ox_attr_f(n, "bias", 0), lambd = ox_attr_f(n, "lambd", 0.5);
    value_id x = ox_in(o, n, 0);
    if (x == 0) return false;
    enum dtype d = ox_type(o, x)->dtype;
    value_id low = ox_bin(o, n, OP_LT, x, ox_num(o, n, d, -lambd)),
             high = ox_bin(o, n, OP_GT, x, ox_num(o, n, d, lambd));
    value_id rest = ox_tri(o, n, OP_WHERE, high, plus(o, n, x, -bias), zero_like(o, n, x));
    return ox_out(o, n, 0, ox_tri(o, n, OP_WHERE, low, plus(o, n, x, bias), rest));
}

static bool op_prelu(struct ox *o, const struct ox_node *n) {
    value_id x = ox_in(o, n, 0), slope = ox_in(o, n, 1);
    value_id c = ox_bin(o, n, OP_LT, x, zero_like(o, n, x));
    return ox_out(o, n, 0, ox_tri(o, n, OP_WHERE, c, ox_bin(o, n, OP_MUL, slope, x), x));
}

static value_id gelu(struct ox *o, const struct ox_node *n, value_id x, bool by_tanh) {
    return ox_un(o, n, by_tanh ? OP_GELU_TANH : OP_GELU, x);
}

static bool op_gelu(struct ox *o, const struct ox_node *n) {
    return ox_out(o, n, 0,
                  gelu(o, n, ox_in(o, n, 0), ox_attr_is(n, "approximate", "tanh", "none")));
}

static bool op_swish(struct ox *o, const struct ox_node *n) {
    double alpha = ox_attr_f(n, "alpha", 1);
    value_id x = ox_in(o, n, 0);
    if (alpha == 1) return ox_out(o, n, 0, ox_un(o, n, OP_SILU, x));
    return ox_out(o, n, 0, ox_bin(o, n, OP_MUL, x, ox_un(o, n, OP_SIGMOID, times(o, n, x, alpha))));
}

static bool op_dropout(struct ox *o, const struct ox_node *n) {
    return ox_out_same(o, n, 0, n->in[0]);
}

const struct ox_op ox_elementwise[] = {
    {"", "Abs", 1, op_abs},
    {"", "Neg", 1, op_neg},
    {"", "Sign", 9, op_sign},
    {"", "Exp", 1, op_exp},
    {"", "Log", 1, op_log},
    {"", "Sqrt", 1, op_sqrt},
    {"", "Reciprocal", 1, op_reciprocal},
    {"", "Sin", 7, op_sin},
    {"", "Cos", 7, op_cos},
    {"", "Tan", 7, op_tan},
    {"", "Asin", 7, op_asin},
    {"", "Acos", 7, op_acos},
    {"", "Atan", 7, op_atan},
    {"", "Sinh", 9, op_sinh},
    {"", "Cosh", 9, op_cosh},
    {"", "Tanh", 1, op_tanh},
    {"", "Asinh", 9, op_asinh},
    {"", "Acosh", 9, op_acosh},
    {"", "Atanh", 9, op_atanh},
    {"", "Erf", 9, op_erf},
    {"", "Sigmoid", 1, op_sigmoid},
    {"", "Relu", 1, op_relu},
    {"", "Mish", 18, op_mish},
    {"", "HardSwish", 14, op_hardswish},
    {"", "Floor", 1, op_floor},
    {"", "Ceil", 1, op_ceil},
    {"", "Round", 11, op_round},
    {"", "IsNaN", 9, op_isnan},
    {"", "IsInf", 10, op_isinf},
    {"", "Not", 1, op_not},
    {"", "BitwiseNot", 18, op_bitwise_not},
    {"", "Add", 1, op_add},
    {"", "Sub", 1, op_sub},
    {"", "Mul", 1, op_mul},
    {"", "Div", 1, op_div},
    {"", "Mod", 10, op_mod},
    {"", "Pow", 1, op_pow},
    {"", "Equal", 1, op_eq},
    {"", "Less", 1, op_lt},
    {"", "LessOrEqual", 12, op_le},
    {"", "Greater", 1, op_gt},
    {"", "GreaterOrEqual", 12, op_ge},
    {"", "And", 1, op_and},
    {"", "Or", 1, op_or},
    {"", "Xor", 1, op_xor},
    {"", "BitwiseAnd", 18, op_bit_and},
    {"", "BitwiseOr", 18, op_bit_or},
    {"", "BitwiseXor", 18, op_bit_xor},
    {"", "BitShift", 11, op_bitshift},
    {"", "Max", 1, op_max},
    {"", "Min", 1, op_min},
    {"", "Sum", 1, op_sum},
    {"", "Mean", 1, op_mean},
    {"", "Where", 9, op_where},
    {"", "Clip", 1, op_clip},
    {"", "Elu", 1, op_elu},
    {"", "LeakyRelu", 1, op_leaky_relu},
    {"", "Celu", 12, op_celu},
    {"", "Selu", 1, op_selu},
    {"", "HardSigmoid", 1, op_hard_sigmoid},
    {"", "Softplus", 1, op_softplus},
    {"", "Softsign", 1, op_softsign},
    {"", "ThresholdedRelu", 10, op_thresholded_relu},
    {"", "Shrink", 9, op_shrink},
    {"", "PRelu", 1, op_prelu},
    {"", "Gelu", 20, op_gelu},
    {"", "Swish", 24, op_swish},
    {"", "Dropout", 1, op_dropout},
    {0},
};
