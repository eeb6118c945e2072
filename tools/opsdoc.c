/* SPDX-License-Identifier: MIT
 * Writes docs/ops.md to standard output: every operator with its parameters and defaults, and what
 * the table of elementwise operators (ops/ops.def) says of it. A test compares the file with this.
 */
#include <stdio.h>
#include <string.h>

#include "graph/internal.h"

static const char *const rules[] = {
    [RULE_NONE] = "",       [RULE_SAME] = "promoted", [RULE_FLOAT] = "float", [RULE_BOOL] = "bool",
    [RULE_LOGIC] = "logic", [RULE_INT] = "integer",   [RULE_SHIFT] = "shift"};

static const struct {
    unsigned flag;
    const char *text;
} flags[] = {{OPF_COMM, "commutative"},     {OPF_BOOLOK, "bool"},
             {OPF_QOK, "f8 f4 e8m0"},       {OPF_DISC, "discontinuous"},
             {OPF_INTID, "integers as is"}, {OPF_ZERODIV, "checks the divisor"},
             {OPF_COMPOSITE, "composite"}};

static void print_default(enum op op, const struct par *p) {
    if (p->kind == PAR_FLAG)
        printf("=%s", p->value != 0 ? "true" : "false");
    else if (p->kind == PAR_APPROX)
        printf("=\"%s\"", op == OP_GELU_TANH ? "tanh" : "none");
    else
        printf("=%.15g", p->value);
}

static void print_call(enum op op) {
    int n;
    const struct par *p = signature(op, &n);
    printf("`%s(", op_text_name(op));
    for (int i = 0, shown = 0; i < n; i++) {
        if ((p[i].flags & PARF_INTERNAL) != 0) continue;
        printf("%s%s", shown++ > 0 ? ", " : "", p[i].name);
        if (p[i].kind == PAR_VALUES) printf(", ..");
        if ((p[i].flags & PARF_DEFAULT) != 0)
            print_default(op, &p[i]);
        else if ((p[i].flags & PARF_NAMED) != 0)
            printf("=");
        if ((p[i].flags & PARF_OPT) != 0) printf("?");
    }
    printf(")`");
}

static void print_flags(unsigned set) {
    int shown = 0;
    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        if ((set & flags[i].flag) != 0) printf("%s%s", shown++ > 0 ? ", " : " ", flags[i].text);
    }
}

static void print_elementwise(void) {
    printf(
        "## Elementwise operators\n\n"
        "The rows of `src/ops/ops.def`, in its order.\n\n"
        "- *Result*: **promoted** is the promoted dtype of the operands; **float** is the same, "
        "and f32 for\n  integers and bool; **bool** compares operands in their promoted dtype; "
        "**logic** takes operands of\n  any dtype as `x != 0` and gives bool; **integer** and "
        "**shift** take integers only (integer: bool too)\n  and give the promoted dtype.\n"
        "- *Error* is the largest error of the f32 implementation in units in the last place of "
        "the exact\n  result; 0 is correctly rounded. `--check` and the tests rely on it.\n"
        "- *Work* is what the scheduler takes one evaluation for: vector operations on a CPU; on a "
        "GPU\n  issue slots, and results of its special unit.\n"
        "- *Remarks*: **bool**, **f8 f4 e8m0**: operands of these dtypes are allowed beside the "
        "usual ones.\n  **composite**: inner values are f32 in every mode. **discontinuous**: "
        "the checker takes the union\n  over an operand's interval. **integers as is**: on "
        "integers it is the identity. **checks the\n  divisor**: an integer divisor of 0 is a "
        "data error.\n\n"
        "| call | result | error | work | remarks |\n|---|---|---|---|---|\n");
    for (int i = OP_NONE + 1; i < OP_EW_END; i++) {
        const struct op_info *info = op_info((enum op)i);
        printf("| ");
        print_call((enum op)i);
        printf(" | %s | %g | %g; %g, %g |", rules[info->rule], info->ulp, info->work, info->slots,
               info->special);
        print_flags(info->flags);
        printf(" |\n");
    }
}

static bool is_internal(enum op op) {
    return op == OP_PARAM || op == OP_CONST || op == OP_LOOKUP || op == OP_DIM;
}

static void print_structural(void) {
    printf("\n## Other operators\n\n"
           "`=` marks a parameter that is given by name, with its default behind it; `?` one that "
           "may be left out;\n`x, ..` takes any number of operands.\n\n");
    for (int i = OP_EW_END + 1; i < OP_COUNT; i++) {
        if (is_internal((enum op)i)) continue;
        printf("- ");
        print_call((enum op)i);
        printf("\n");
    }
}

static void print_dtypes(void) {
    printf("\n## Dtypes\n\n"
           "*Significand* counts the hidden bit; for integers it is the bits of the magnitude.\n\n"
           "| dtype | bits | significand | arithmetic |\n|---|---|---|---|\n");
    for (int d = DT_NONE + 1; d < DT_COUNT; d++) {
        const char *arith = !dtype_has_arith((enum dtype)d)   ? "after a cast"
                            : dtype_is_subbyte((enum dtype)d) ? "widened to 8 bits first"
                                                              : "yes";
        printf("| %s | %d | %d | %s |\n", dtype_name((enum dtype)d), dtype_bits((enum dtype)d),
               dtype_significand((enum dtype)d), arith);
    }
}

int main(void) {
    printf(
        "# Operators and dtypes\n\n"
        "Generated from the tables by `tools/opsdoc.c`; do not edit. `docs/language.md` says what\n"
        "the operators mean.\n\n");
    print_elementwise();
    print_structural();
    print_dtypes();
    return 0;
}
