/* SPDX-License-Identifier: MIT
 * Casts. Where ONNX's rules are not those of the graph's cast, they are said in operators: f8
 * saturates unless told otherwise, a NaN becomes -0 in f4.
 *
 * The graph lacks the two FNUZ types (P. Micikevicius et al., "FP8 Formats for Deep Learning", with
 * the exponent's bias one higher, no infinities, no -0, and 0x80 for NaN; arXiv:2206.02915). A value
 * of such a type is its bits, as u8. With the bias one higher a code stands for half of what it
 * means in the type that the graph has, and for the same as that type's code with an exponent one
 * lower: the first is used where the exponent is small, the second where it is large.
 */
#include "front/onnx/import.h"

#include <math.h>
#include <string.h>

enum { E4M3FNUZ = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT8E4M3FNUZ, CODE_NAN = 0x80, CODE_MAX = 0x7f };

/* The type that the graph has, one step of its exponent in codes, and where rounding to nearest
 * leaves the range. */
struct fnuz {
    enum dtype near;
    int step;
    double max, over;
};

static struct fnuz fnuz_of(int32_t type) {
    return type == E4M3FNUZ ? (struct fnuz){DT_F8E4M3FN, 8, 240, 248}
                            : (struct fnuz){DT_F8E5M2, 4, 57344, 61440};
}

static value_id code(struct ox *o, const struct ox_node *n, int64_t v) {
    return ox_int(o, n, DT_U8, v);
}

/* Codes to f32. */
static value_id decode(struct ox *o, const struct ox_node *n, value_id bits, int32_t type) {
    struct fnuz f = fnuz_of(type);
    value_id size = ox_bin(o, n, OP_BITWISE_AND, bits, code(o, n, CODE_MAX));
    value_id large = ox_bin(o, n, OP_GE, size, code(o, n, 2 * f.step));
    value_id lower = ox_bin(o, n, OP_SUB, bits, code(o, n, f.step));
    value_id near = ox_tri(o, n, OP_WHERE, large, lower, bits);
    value_id v = ox_cast(o, n, ox_bitcast(o, n, near, f.near), DT_F32);
    value_id half = ox_bin(o, n, OP_MUL, v, ox_num(o, n, DT_F32, 0.5));
    v = ox_tri(o, n, OP_WHERE, large, v, half);
    value_id none = ox_bin(o, n, OP_EQ, bits, code(o, n, CODE_NAN));
    return ox_tri(o, n, OP_WHERE, none, ox_num(o, n, DT_F32, (double)NAN), v);
}

static value_id code_of(struct ox *o, const struct ox_node *n, value_id v, enum dtype d) {
    return ox_bitcast(o, n, ox_cast(o, n, v, d), DT_U8);
}

static value_id encode(struct ox *o, const struct ox_node *n, value_id x, int32_t type, bool sat) {
    struct fnuz f = fnuz_of(type);
    if (x == 0) return 0;
    enum dtype d = ox_type(o, x)->dtype == DT_F64 ? DT_F64 : DT_F32;
    x = ox_cast(o, n, x, d);
    value_id size = ox_un(o, n, OP_ABS, x), one = ox_num(o, n, d, 1);
    value_id most = ox_bin(o, n, OP_MINIMUM, size, ox_num(o, n, d, f.max));
    value_id higher = ox_bin(o, n, OP_ADD, code_of(o, n, most, f.near), code(o, n, f.step));
    value_id small = ox_bin(o, n, OP_MINIMUM, size, one);
    small = code_of(o, n, ox_bin(o, n, OP_ADD, small, small), f.near);
    value_id c = ox_tri(o, n, OP_WHERE, ox_bin(o, n, OP_LT, size, one), small, higher);
    value_id minus = ox_bin(o, n, OP_LT, x, ox_num(o, n, d, 0));
    value_id some = ox_bin(o, n, OP_NE, c, code(o, n, 0)); /* there is no -0 */
    value_id negative = ox_bin(o, n, OP_BITWISE_OR, c, code(o, n, CODE_NAN));
    c = ox_tri(o, n, OP_WHERE, ox_bin(o, n, OP_LOGICAL_AND, minus, some), negative, c);
    value_id none = ox_un(o, n, OP_ISNAN, x);
    value_id over = ox_bin(o, n, OP_GE, size, ox_num(o, n, d, f.over));
    if (!sat) none = ox_bin(o, n, OP_LOGICAL_OR, none, over);
    return ox_tri(o, n, OP_WHERE, none, code(o, n, CODE_NAN), c);
}

static value_id cast_to(struct ox *o, const struct ox_node *n, value_id v, enum dtype d) {
    if (v == 0) return 0;
    enum dtype from = ox_type(o, v)->dtype;
    /* floats wrap to integers below a byte: through a wider one */
    if (dtype_is_subbyte(d) && dtype_is_int(d) && dtype_is_float(from))
        v = ox_cast(o, n, v, DT_I32);
    if (d == DT_F4E2M1FN && dtype_is_float(from) && from != d) {
        value_id none = ox_un(o, n, OP_ISNAN, v);
        v = ox_tri(o, n, OP_WHERE, none, ox_num(o, n, from, -0.0), v);
    }
    struct attrs a = attrs_default(OP_CAST);
    a.dtype = d;
    a.flag = (d == DT_F8E4M3FN || d == DT_F8E5M2) && ox_attr_i(n, "saturate", 1) != 0;
    return ox_apply(o, n, OP_CAST, 1, &v, &a);
}

static bool cast(struct ox *o, const struct ox_node *n, int32_t to) {
    enum dtype d = onnx_dtype(to);
    int32_t from = ox_in_type(o, n, 0);
    if (d == DT_NONE) return ox_fail(o, n, "type %s is not supported", onnx_dtype_name(to));
    if (from != 0 && from == to) return ox_out_same(o, n, 0, n->in[0]);
    value_id v = ox_in(o, n, 0);
    if (from != 0) v = decode(o, n, v, from);
    if (!onnx_is_bits(to)) return ox_out(o, n, 0, cast_to(o, n, v, d));
    v = encode(o, n, v, to, ox_attr_i(n, "saturate", 1) != 0);
    return ox_out_typed(o, n, 0, v, to);
}

static bool op_cast(struct ox *o, const struct ox_node *n) {
    return cast(o, n, (int32_t)ox_attr_i(n, "to", 0));
}

static bool op_cast_like(struct ox *o, const struct ox_node *n) {
    int32_t type = ox_in_type(o, n, 1);
    if (type != 0) return cast(o, n, type);
    value_id v = ox_in(o, n, 0);
    if (ox_in_type(o, n, 0) != 0) v = decode(o, n, v, ox_in_type(o, n, 0));
    return ox_out(o, n, 0, cast_to(o, n, v, ox_in_dtype(o, n, 1)));
}

static bool op_bitcast(struct ox *o, const struct ox_node *n) {
    int32_t to = (int32_t)ox_attr_i(n, "to", 0);
    if (onnx_dtype(to) == DT_NONE)
        return ox_fail(o, n, "type %s is not supported", onnx_dtype_name(to));
    return ox_out_typed(o, n, 0, ox_bitcast(o, n, ox_in(o, n, 0), onnx_dtype(to)), to);
}

const struct ox_op ox_casts[] = {
    {"", "Cast", 1, op_cast},
    {"", "CastLike", 15, op_cast_like},
    {"", "BitCast", 26, op_bitcast},
    {0},
};
