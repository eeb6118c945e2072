/* SPDX-License-Identifier: MIT
 * Literals: weakly typed constants, as Python numbers beside tensors.
 *
 * A literal is an OP_CONST of dtype i64, u64 (above the i64 range), f64 or bool that is marked
 * weak. Arithmetic on literals alone gives a literal, by Python's rules. Beside other operands a
 * literal takes their promoted dtype when that is of its category or a higher one, else the
 * default of its own category (i64, f32); the constant of that dtype is a new node, and the literal
 * itself stays behind unused.
 */
#include "graph/internal.h"

bool is_literal(const struct graph *g, value_id v) {
    return v != 0 && graph_def(g, v)->op == OP_CONST && graph_def(g, v)->weak;
}

/* ---- folding --------------------------------------------------------------------------------- */

static bool has_fold(enum op op) {
    switch (op) {
    case OP_NEG:
    case OP_BITWISE_NOT:
    case OP_LOGICAL_NOT:
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_FLOORDIV:
    case OP_MOD:
    case OP_POW:
    case OP_MINIMUM:
    case OP_MAXIMUM:
    case OP_BITWISE_AND:
    case OP_BITWISE_OR:
    case OP_BITWISE_XOR:
    case OP_SHIFT_LEFT:
    case OP_SHIFT_RIGHT:
    case OP_LOGICAL_AND:
    case OP_LOGICAL_OR:
    case OP_LOGICAL_XOR:
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE: return true;
    default: return false;
    }
}

bool literal_folds(const struct graph *g, enum op op, int n, const value_id *in) {
    if (!has_fold(op)) return false;
    for (int i = 0; i < n; i++)
        if (!is_literal(g, in[i])) return false;
    return true;
}

static bool checked_mul(int64_t a, int64_t b, int64_t *out) {
    if (a != 0 && b != 0) {
        if (a == -1 ? b == INT64_MIN : b == -1 ? a == INT64_MIN : false) return false;
        if (a != -1 && b != -1) {
            if ((a > 0) == (b > 0) ? (a > 0 ? a > INT64_MAX / b : a < INT64_MAX / b)
                                   : (a > 0 ? b < INT64_MIN / a : a < INT64_MIN / b))
                return false;
        }
    }
    *out = a * b;
    return true;
}

static bool checked_pow(int64_t base, int64_t exponent, int64_t *out) {
    int64_t v = 1;
    if (base == 0 || base == 1 || base == -1) { /* other bases overflow before the 64th step */
        v = exponent == 0 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : base;
    } else {
        for (int64_t i = 0; i < exponent; i++)
            if (!checked_mul(v, base, &v)) return false;
    }
    *out = v;
    return true;
}

/* Integer arithmetic; false if it overflows or is not defined. */
static bool fold_int(enum op op, int64_t a, int64_t b, int64_t *out) {
    switch (op) {
    case OP_NEG: *out = a == INT64_MIN ? 0 : -a; return a != INT64_MIN;
    case OP_BITWISE_NOT: *out = ~a; return true;
    case OP_ADD:
        if (b >= 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return false;
        *out = a + b;
        return true;
    case OP_SUB:
        if (b >= 0 ? a < INT64_MIN + b : a > INT64_MAX + b) return false;
        *out = a - b;
        return true;
    case OP_MUL: return checked_mul(a, b, out);
    case OP_FLOORDIV:
        if (b == 0 || (a == INT64_MIN && b == -1)) return false;
        *out = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
        return true;
    case OP_MOD:
        if (b == 0) return false;
        *out = b == -1 ? 0 : a % b;
        if (*out != 0 && (a < 0) != (b < 0)) *out += b;
        return true;
    case OP_POW: return checked_pow(a, b, out);
    case OP_MINIMUM: *out = a < b ? a : b; return true;
    case OP_MAXIMUM: *out = a > b ? a : b; return true;
    case OP_BITWISE_AND: *out = a & b; return true;
    case OP_BITWISE_OR: *out = a | b; return true;
    case OP_BITWISE_XOR: *out = a ^ b; return true;
    case OP_SHIFT_LEFT:
        if (b < 0 || b > 62) return false;
        return checked_mul(a, (int64_t)1 << b, out);
    case OP_SHIFT_RIGHT:
        if (b < 0) return false;
        *out = b > 63 ? (a < 0 ? -1 : 0) : a < 0 ? -1 - ((-1 - a) >> b) : a >> b;
        return true;
    case OP_EQ: *out = a == b; return true;
    case OP_NE: *out = a != b; return true;
    case OP_LT: *out = a < b; return true;
    case OP_LE: *out = a <= b; return true;
    case OP_GT: *out = a > b; return true;
    case OP_GE: *out = a >= b; return true;
    default: return false;
    }
}

static double as_double(enum dtype d, union scalar v) {
    if (d == DT_F64) return v.f;
    return d == DT_U64 ? (double)(uint64_t)v.i : (double)v.i;
}

static bool gives_bool(enum op op) {
    enum op_rule rule = op_info(op)->rule;
    return rule == RULE_BOOL || rule == RULE_LOGIC;
}

static bool is_bitwise(enum op op) {
    return op_info(op)->rule == RULE_INT;
}

static bool truth(enum dtype d, union scalar v) {
    return d == DT_F64 ? v.f != 0 : v.i != 0;
}

static int64_t fold_logic(enum op op, bool a, bool b) {
    switch (op) {
    case OP_LOGICAL_NOT: return !a;
    case OP_LOGICAL_AND: return a && b;
    case OP_LOGICAL_OR: return a || b;
    default: return a != b;
    }
}

static value_id fold_fail(struct graph *g, const struct place *at, enum op op, int n,
                          const value_id *in) {
    if (n == 1)
        place_fail(at, "%s(%s) is not defined or overflows i64; write the number", op_text_name(op),
                   label_name(g, in[0]));
    else
        place_fail(at, "%s(%s, %s) is not defined or overflows i64; write the number",
                   op_text_name(op), label_name(g, in[0]), label_name(g, in[1]));
    return 0;
}

value_id literal_fold(struct graph *g, const struct place *at, enum op op, int n,
                      const value_id *in) {
    enum dtype d[2] = {graph_value(g, in[0])->dtype, DT_BOOL};
    union scalar v[2] = {graph_def(g, in[0])->constant, {.i = 0}};
    if (n > 1) {
        d[1] = graph_value(g, in[1])->dtype;
        v[1] = graph_def(g, in[1])->constant;
    }
    union scalar r = {.i = 0};
    if (op_info(op)->rule == RULE_LOGIC) {
        r.i = fold_logic(op, truth(d[0], v[0]), truth(d[1], v[1]));
        return graph_literal(g, at, DT_BOOL, r);
    }
    bool floats = d[0] == DT_F64 || d[1] == DT_F64;
    bool bools = d[0] == DT_BOOL && (n == 1 || d[1] == DT_BOOL);
    if (op == OP_DIV || (op == OP_POW && d[1] != DT_F64 && v[1].i < 0)) floats = true;
    if (bools && op == OP_BITWISE_NOT) {
        r.i = !v[0].i;
        return graph_literal(g, at, DT_BOOL, r);
    }
    if (bools && op == OP_NEG) return fold_fail(g, at, op, n, in);
    if (!floats) {
        if (d[0] == DT_U64 || d[1] == DT_U64) return fold_fail(g, at, op, n, in);
        if (!fold_int(op, v[0].i, v[1].i, &r.i)) return fold_fail(g, at, op, n, in);
        bool is_bool = gives_bool(op) || (bools && is_bitwise(op));
        return graph_literal(g, at, is_bool ? DT_BOOL : DT_I64, r);
    }
    if (is_bitwise(op) || op_info(op)->rule == RULE_SHIFT) return fold_fail(g, at, op, n, in);
    union scalar f[2] = {{.f = as_double(d[0], v[0])}, {.f = as_double(d[1], v[1])}};
    static const double no_param[2] = {0, 0};
    r = op_ref(op, DT_F64, f, no_param);
    return graph_literal(g, at, gives_bool(op) ? DT_BOOL : DT_F64, r);
}

/* ---- conversion ------------------------------------------------------------------------------ */

static bool int_in_range(enum dtype from, union scalar v, enum dtype d) {
    if (d == DT_BOOL) return v.i == 0 || v.i == 1;
    if (from == DT_U64) return d == DT_U64; /* such literals are above the range of i64 */
    if (d == DT_U64) return v.i >= 0;
    int64_t lo, hi;
    dtype_int_range(d, &lo, &hi);
    return v.i >= lo && v.i <= hi;
}

value_id literal_const(struct graph *g, const struct place *at, value_id literal, enum dtype d) {
    const struct node *n = graph_def(g, literal);
    enum dtype from = graph_value(g, literal)->dtype;
    if (d == DT_NONE) d = from == DT_F64 ? DT_F32 : from == DT_BOOL ? DT_BOOL : DT_I64;
    struct node c = {.op = OP_CONST, .n_out = 1, .literal = literal};
    struct place here = at != NULL ? *at : (struct place){0};
    if (n->line > 0) { /* a wrong number is shown where it stands */
        here.line = n->line;
        here.col = n->col;
    }
    if (dtype_is_float(d)) {
        c.constant.f = float_round(d, as_double(from, n->constant), false);
    } else if (from == DT_F64) {
        place_fail(&here, "%s is a float, and an integer of dtype %s is needed; write an integer",
                   label_name(g, literal), dtype_name(d));
        return 0;
    } else if (!int_in_range(from, n->constant, d)) {
        place_fail(&here,
                   "%s is out of the range of %s; write a number in range or cast the other "
                   "operand",
                   label_name(g, literal), dtype_name(d));
        return 0;
    } else {
        c.constant = n->constant;
    }
    struct type t = {.dtype = d};
    return graph_append(g, at, &c, &t);
}

/* Category of a literal or dtype: bool 1, integers 2, floats 3. */
static int category(enum dtype d) {
    if (d == DT_NONE) return 0;
    return d == DT_BOOL ? 1 : dtype_is_float(d) ? 3 : 2;
}

/* The dtype that literals take among operands: that of the others, or their own default. DT_NONE
 * when the others have no common dtype (inference then says so). */
static enum dtype beside(const struct graph *g, int n, const value_id *in, bool arith) {
    enum dtype common = DT_NONE;
    bool common_scalar = true;
    int most = 0;
    for (int i = 0; i < n; i++) {
        if (in[i] == 0) continue;
        const struct value *v = graph_value(g, in[i]);
        if (is_literal(g, in[i])) {
            if (category(v->dtype) > most) most = category(v->dtype);
            continue;
        }
        bool scalar = v->rank == 0;
        common = common == DT_NONE
                     ? dtype_promote(v->dtype, v->dtype, arith)
                     : dtype_promote_ranked(common, common_scalar, v->dtype, scalar, arith);
        common_scalar = common_scalar && scalar;
        if (common == DT_NONE) return DT_NONE;
    }
    if (category(common) >= most) return common;
    return most == 3 ? DT_F32 : most == 2 ? DT_I64 : DT_BOOL;
}

static enum proem_status convert(struct graph *g, const struct place *at, value_id *v,
                                 enum dtype d) {
    if (!is_literal(g, *v)) return PROEM_OK;
    *v = literal_const(g, at, *v, d);
    if (*v != 0) return PROEM_OK;
    return at != NULL && at->err != NULL ? at->err->status : PROEM_INVALID;
}

/* Elementwise operators: the dtype in which the operands are computed. */
static enum proem_status resolve_elementwise(struct graph *g, const struct place *at, enum op op,
                                             int n, value_id *in) {
    enum dtype d = beside(g, n, in, op_info(op)->rule != RULE_BOOL);
    enum dtype types[3] = {DT_NONE}, compute = DT_NONE;
    bool scalar[3] = {false};
    for (int i = 0; i < n && i < 3; i++) {
        bool weak = is_literal(g, in[i]);
        types[i] = weak ? d : graph_value(g, in[i])->dtype;
        scalar[i] = weak || graph_value(g, in[i])->rank == 0;
    }
    /* exponents of integers, as in PyTorch */
    if (op == OP_POW && is_literal(g, in[1]) && dtype_is_int(d) &&
        graph_def(g, in[1])->constant.i < 0)
        return place_fail(at,
                          "%s ** %s: integers have no negative powers; cast %s to a float first",
                          label_name(g, in[0]), label_name(g, in[1]), label_name(g, in[0]));
    if (d != DT_NONE && op_info(op)->rule != RULE_LOGIC &&
        op_result_dtype(op, types, scalar, n, &compute) != DT_NONE)
        d = compute;
    for (int i = 0; i < n; i++)
        TRY(convert(g, at, &in[i], d));
    return PROEM_OK;
}

static enum proem_status resolve_quant(struct graph *g, const struct place *at, enum op op, int n,
                                       value_id *in, const struct attrs *a) {
    enum dtype x = in[0] != 0 && !is_literal(g, in[0]) ? graph_value(g, in[0])->dtype : DT_NONE;
    if (n > 1 && is_literal(g, in[1])) {
        bool keep = op == OP_QUANTIZE && x != DT_NONE && dtype_is_float(x) && dtype_has_arith(x);
        TRY(convert(g, at, &in[1], keep ? x : DT_F32));
    }
    if (n > 2 && is_literal(g, in[2])) {
        enum dtype z = op == OP_DEQUANTIZE ? x : a->dtype != DT_NONE ? a->dtype : DT_U8;
        bool whole = graph_value(g, in[2])->dtype != DT_F64 && dtype_is_int(z);
        TRY(convert(g, at, &in[2], whole ? z : DT_F32));
    }
    return PROEM_OK;
}

enum proem_status literals_resolve(struct graph *g, const struct place *at, enum op op, int n,
                                   value_id *in, const struct attrs *attrs) {
    bool any = false;
    for (int i = 0; i < n; i++)
        any = any || is_literal(g, in[i]);
    if (!any) return PROEM_OK;
    if (op_is_elementwise(op)) return resolve_elementwise(g, at, op, n, in);
    if (op == OP_WHERE) {
        enum dtype d = beside(g, 2, in + 1, false);
        TRY(convert(g, at, &in[1], d));
        TRY(convert(g, at, &in[2], d));
    } else if (op == OP_SCATTER || op == OP_SCATTER_ADD || op == OP_SCATTER_ALONG) {
        enum dtype d = beside(g, 1, in, false);
        TRY(convert(g, at, &in[2], d));
    } else if (op == OP_QUANTIZE || op == OP_DEQUANTIZE) {
        TRY(resolve_quant(g, at, op, n, in, attrs));
    }
    for (int i = 0; i < n; i++)
        TRY(convert(g, at, &in[i], DT_NONE));
    return PROEM_OK;
}
