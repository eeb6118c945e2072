/* SPDX-License-Identifier: MIT
 * Operators: look-up by number and by name, and the dtype of an elementwise result.
 *
 * The rows of elementwise operators come from ops.def by way of ops/ref.c, where each row's
 * reference function is visible; the structural ones have a name only.
 * The dtype of a result follows torch.result_type: operands with dims are promoted together, 0-dim
 * ones together, and the second result counts only when its category is higher. The row's rule and
 * flags then say whether the promoted dtype is allowed and what comes out.
 */
#include "ops/op.h"
#include "ops/ref.h"

#include <string.h>

static const struct op_info structural[OP_COUNT - OP_EW_END] = {[0] = {.name = "none"},
#define OP_ROW(id, text) [OP_##id - OP_EW_END] = {.name = (text)},
                                                                OP_STRUCT_LIST(OP_ROW)
#undef OP_ROW
};

const struct op_info *op_info(enum op op) {
    if (op_is_elementwise(op)) return ref_op_info(op);
    return op > OP_EW_END && op < OP_COUNT ? &structural[op - OP_EW_END] : &structural[0];
}

enum op op_from_name(const char *s, size_t n) {
    for (int i = OP_NONE + 1; i < OP_COUNT; i++) {
        enum op op = (enum op)i;
        bool internal = op == OP_GELU_TANH || op == OP_EW_END || op == OP_PARAM || op == OP_CONST ||
                        op == OP_LOOKUP;
        if (internal) continue;
        const char *name = op_info(op)->name;
        if (strlen(name) == n && memcmp(name, s, n) == 0) return op;
    }
    return OP_NONE;
}

/* The operands' common dtype; DT_NONE if there is none. */
static enum dtype promote_all(const enum dtype *in, const bool *scalar, int n, bool arith) {
    enum dtype with_dims = DT_NONE, without = DT_NONE;
    for (int i = 0; i < n; i++) {
        enum dtype *group = scalar != NULL && scalar[i] ? &without : &with_dims;
        bool first = *group == DT_NONE;
        *group = first ? in[i] : dtype_promote(*group, in[i], arith);
        if (*group == DT_NONE) return DT_NONE;
    }
    /* a single sub-byte operand is widened here, a pair of them as a pair (i4 with u4: i8) */
    if (with_dims != DT_NONE) with_dims = dtype_promote(with_dims, with_dims, arith);
    if (without != DT_NONE) without = dtype_promote(without, without, arith);
    if (with_dims == DT_NONE) return without;
    if (without == DT_NONE) return with_dims;
    return dtype_promote_ranked(with_dims, false, without, true, arith);
}

static bool all_have_arith(const enum dtype *in, int n) {
    for (int i = 0; i < n; i++)
        if (!dtype_has_arith(in[i])) return false;
    return true;
}

enum dtype op_result_dtype(enum op op, const enum dtype *in, const bool *scalar, int n,
                           enum dtype *compute) {
    const struct op_info *info = op_info(op);
    if (compute != NULL) *compute = DT_NONE;
    if (info->rule == RULE_NONE || n != info->arity) return DT_NONE;
    if ((info->flags & OPF_QOK) == 0 && !all_have_arith(in, n)) return DT_NONE;
    /* the operands of LOGIC are tested one by one: they need no common dtype */
    enum dtype common =
        info->rule == RULE_LOGIC ? DT_BOOL : promote_all(in, scalar, n, info->rule != RULE_BOOL);
    enum dtype result = common;
    switch (info->rule) {
    case RULE_SAME:
        if (common == DT_BOOL && (info->flags & OPF_BOOLOK) == 0) result = DT_NONE;
        break;
    case RULE_FLOAT:
        if (common != DT_NONE && !dtype_is_float(common)) result = common = DT_F32;
        break;
    case RULE_BOOL:
    case RULE_LOGIC:
        if (common != DT_NONE) result = DT_BOOL;
        break;
    case RULE_INT:
        if (dtype_is_float(common)) result = DT_NONE;
        break;
    case RULE_SHIFT:
        if (!dtype_is_int(common)) result = DT_NONE;
        break;
    case RULE_NONE: result = DT_NONE; break;
    }
    if (compute != NULL && result != DT_NONE) *compute = common;
    return result;
}

union scalar op_ref(enum op op, enum dtype compute, const union scalar *in, const double *param) {
    if (!op_is_elementwise(op)) return (union scalar){.i = 0};
    return op_info(op)->ref(compute, in, param);
}
