/* SPDX-License-Identifier: MIT
 * One node as a C expression over lane vectors: operators from the table's C column, conversions
 * from the dtypes at both ends, constants.
 */
#include "gen/c/emit_internal.h"

#include <math.h>
#include <string.h>

static void emit_constant(enum dtype d, union scalar c, struct str *out) {
    char buf[32];
    str_printf(out, "pk_set_%s(", lane_name(d));
    if (dtype_is_float(d)) {
        const char *suffix = dtype_lane(d) == DT_F32 ? "(float)" : "";
        if (isnan(c.f))
            str_printf(out, "%s__builtin_nan(\"\")", suffix);
        else if (isinf(c.f))
            str_printf(out, "%s%s__builtin_inf()", suffix, c.f < 0 ? "-" : "");
        else
            str_printf(out, "%s%s", suffix, fmt_double(buf, c.f));
    } else if (d == DT_BOOL) {
        str_add(out, c.i != 0 ? "-1" : "0");
    } else if (d == DT_U64) {
        str_printf(out, "%lluULL", (unsigned long long)c.i);
    } else if (c.i == INT64_MIN) {
        str_add(out, "-9223372036854775807LL - 1");
    } else if (d == DT_I32 && c.i == INT32_MIN) {
        str_add(out, "-2147483647 - 1");
    } else if (dtype_lane(d) == DT_U32) {
        str_printf(out, "%lluU", (unsigned long long)c.i);
    } else {
        str_printf(out, "%lld%s", (long long)c.i, d == DT_I64 ? "LL" : "");
    }
    str_add(out, ")");
}

/* ---- conversions -------------------------------------------------------------------------------
 */

/* Text of v, whose lanes hold dtype `from`, as lanes of dtype `to`, by value. */
static void convert_lanes(enum dtype from, enum dtype to, const char *v, struct str *out) {
    const char *a = lane_name(from), *b = lane_name(to);
    if (from == DT_BOOL && to == DT_BOOL)
        str_add(out, v);
    else if (from == DT_BOOL)
        str_printf(out, "pk_frommask_%s(%s)", b, v);
    else if (to == DT_BOOL)
        str_printf(out, "pk_tomask_%s(%s)", a, v);
    else if (strcmp(a, b) == 0)
        str_add(out, v);
    else if (dtype_lane(from) == DT_U32 && dtype_lane(to) == DT_F32 && dtype_bits(from) < 32)
        str_printf(out, "pk_cvtn_vu32_vf32(%s)", v); /* no sign to look at: one instruction */
    else
        str_printf(out, "pk_cvt_%s_%s(%s)", a, b, v);
}

static bool narrow_float(enum dtype d) {
    return dtype_is_float(d) && d != DT_F32 && d != DT_F64;
}

/* Can lanes of dtype `from` hold more bits than an f32 has? */
static bool wide_lanes(enum dtype from) {
    return from == DT_F64 || from == DT_I64 || from == DT_U64 || from == DT_I32 || from == DT_U32;
}

/* To a narrow float with one rounding: wide sources go to f32 rounded to odd first. */
static void round_from(enum dtype from, enum dtype to, bool saturate, const char *v,
                       struct str *out) {
    bool is_exact = !dtype_is_float(from) && from != DT_BOOL && dtype_bits(from) <= 8 &&
                    dtype_significand(to) >= 8 && dtype_bits(to) == 16;
    bool clamps = saturate && dtype_cat(to) == CAT_Q; /* wider floats overflow to infinity */
    if (!is_exact) str_printf(out, "pk_round%s_%s(", clamps ? "s" : "", dtype_name(to));
    if (wide_lanes(from))
        str_printf(out, "pk_odd_%s_vf32(%s)", lane_name(from), v);
    else
        convert_lanes(from, DT_F32, v, out);
    if (!is_exact) str_add(out, ")");
}

static void wrap_lanes(enum dtype from, enum dtype to, const char *v, struct str *out) {
    bool narrow = dtype_bits(to) < 32;
    if (narrow) str_printf(out, "pk_wrap_%s(", dtype_name(to));
    convert_lanes(from, to, v, out);
    if (narrow) str_add(out, ")");
}

/* Would every value of `from` be a value of `to`? */
static bool int_fits(enum dtype from, enum dtype to) {
    if (from == DT_BOOL) return true;
    bool fs = dtype_is_signed(from), ts = dtype_is_signed(to);
    if (fs && !ts) return false;
    return dtype_significand(from) <= dtype_significand(to);
}

/* cast by value: what elem_cast does, in lanes. */
static void emit_cast(enum dtype from, enum dtype to, bool saturate, const char *v,
                      struct str *out) {
    if (narrow_float(to)) {
        round_from(from, to, saturate, v, out);
    } else if (dtype_is_float(to) || to == DT_BOOL) {
        convert_lanes(from, to, v, out);
    } else if (dtype_is_float(from)) {
        if (dtype_bits(to) >= 32)
            convert_lanes(from, to, v, out);
        else
            str_printf(out, "pk_sat_%s_%s(%s)", dtype_name(to), lane_name(from), v);
    } else if (int_fits(from, to)) {
        convert_lanes(from, to, v, out);
    } else {
        wrap_lanes(from, to, v, out);
    }
}

/* Promotion: exact where it can be; an integer that becomes a narrow float is rounded to it; a
 * float that becomes a narrower one keeps its lanes (its rounding, if any, is a node of its own).
 */
static void emit_convert(enum dtype from, enum dtype to, const char *v, struct str *out) {
    if (dtype_is_float(from) && narrow_float(to))
        convert_lanes(from, DT_F32, v, out);
    else
        emit_cast(from, to, false, v, out);
}

/* ---- operators ---------------------------------------------------------------------------------
 */

static bool is_mask(enum dtype compute) {
    return compute == DT_BOOL;
}

/* bool arithmetic on masks, where the table's expression is about numbers. */
static const char *mask_expression(enum op op) {
    switch ((int)op) {
    case OP_ADD:
    case OP_MAXIMUM: return "$0 | $1";
    case OP_MUL:
    case OP_MINIMUM: return "$0 & $1";
    case OP_EQ: return "~($0 ^ $1)";
    case OP_NE: return "$0 ^ $1";
    case OP_LT: return "~$0 & $1";
    case OP_LE: return "~$0 | $1";
    case OP_GT: return "$0 & ~$1";
    case OP_GE: return "$0 | ~$1";
    case OP_ISNAN:
    case OP_ISINF: return "$0 & 0";
    default: return NULL;
    }
}

static void emit_call(struct emit *e, const struct fn_node *n, const char *family,
                      struct str *out) {
    char buf[32];
    str_printf(out, "pk_%s_%s(", family, lane_name(n->compute));
    for (int i = 0; i < n->n_arg; i++) {
        if (i > 0) str_add(out, ", ");
        str_add(out, emit_ref(e, n->arg[i]));
    }
    if ((op_info(n->op)->flags & OPF_HASPARAM) != 0) {
        for (int i = 0; i < 2; i++) {
            double p = n->param[i];
            str_add(out, ", ");
            if (isinf(p))
                str_add(out, p < 0 ? "-__builtin_inf()" : "__builtin_inf()");
            else if (isnan(p))
                str_add(out, "__builtin_nan(\"\")");
            else
                str_add(out, fmt_double(buf, p));
        }
    }
    str_add(out, ")");
}

static void emit_text(struct emit *e, const struct fn_node *n, const char *text, struct str *out) {
    str_add(out, "(");
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '$') {
            p++;
            str_add(out, emit_ref(e, n->arg[*p - '0']));
        } else {
            str_addn(out, p, 1);
        }
    }
    str_add(out, ")");
}

static void emit_op(struct emit *e, const struct fn_node *n, struct str *out) {
    const struct op_info *info = op_info(n->op);
    const char *text = is_mask(n->compute) ? mask_expression(n->op) : NULL;
    if (text == NULL) text = info->c;
    /* Integers narrower than their lanes are put back into range; results of comparisons are not
     * numbers. */
    bool wrap = dtype_is_int(n->dtype) && dtype_bits(n->dtype) < 32;
    if (wrap) str_printf(out, "pk_wrap_%s(", dtype_name(n->dtype));
    if (text[0] == '@')
        emit_call(e, n, text + 1, out);
    else
        emit_text(e, n, text, out);
    if (wrap) str_add(out, ")");
}

static void emit_bitcast(struct emit *e, const struct fn_node *n, struct str *out) {
    enum dtype from = fn_get(e->fns, n->arg[0])->dtype;
    str_printf(out, "pk_frombits_%s(pk_bits_%s(%s))", dtype_name(n->dtype), dtype_name(from),
               emit_ref(e, n->arg[0]));
}

void emit_expr(struct emit *e, fn_id f, struct str *out) {
    const struct fn_node *n = fn_get(e->fns, f);
    enum dtype from = n->n_arg > 0 ? fn_get(e->fns, n->arg[0])->dtype : DT_NONE;
    switch (n->kind) {
    case FN_CONST: emit_constant(n->dtype, n->c, out); break;
    case FN_ACC: str_add(out, emit_ref(e, f)); break;
    case FN_OP: emit_op(e, n, out); break;
    case FN_CONVERT: emit_convert(from, n->dtype, emit_ref(e, n->arg[0]), out); break;
    case FN_CAST: emit_cast(from, n->dtype, n->saturate, emit_ref(e, n->arg[0]), out); break;
    case FN_ROUND:
        str_printf(out, "pk_round_%s(%s)", dtype_name(n->dtype), emit_ref(e, n->arg[0]));
        break;
    case FN_BITCAST: emit_bitcast(e, n, out); break;
    case FN_WHERE:
        str_printf(out, "pk_select_%s(%s, %s, %s)", lane_name(n->dtype), emit_ref(e, n->arg[0]),
                   emit_ref(e, n->arg[1]), emit_ref(e, n->arg[2]));
        break;
    case FN_INDEX:
    case FN_LOAD:
    case FN_SELECT:
    case FN_NONE: break; /* defined by statements (emit.c) */
    }
}
