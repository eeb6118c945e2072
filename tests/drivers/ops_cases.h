/* SPDX-License-Identifier: MIT
 * The cases of the operators' driver: groups of expressions over the same operands with the values
 * that these take, and the places in a kernel where a group is evaluated.
 */
#ifndef OPS_CASES_H
#define OPS_CASES_H

#include "harness.h"

enum expr_kind { EXPR_ROW, EXPR_CAST, EXPR_BITCAST, EXPR_WHERE };

struct op_expr {
    char text[72]; /* over x, y, z */
    enum expr_kind kind;
    enum op op;
    enum op_rule rule;
    int n_args;
    enum dtype result, compute;
    bool saturate;
    double param[2];
};

#define MAX_EXPRS 96
#define MAX_CASE  48 /* expressions of a case */

struct op_tuple {
    union scalar v[3];
};

struct op_group {
    int n_in, n; /* operand x is the accumulator in epilogues */
    enum dtype in[3];
    struct op_expr expr[MAX_EXPRS];
    struct op_tuple *tuple; /* those of products first: n_small of them, x fastest */
    int n_tuples, n_small, n_fast;
};

enum op_place {
    PLACE_ALONE,
    PLACE_EPILOGUE,
    PLACE_A,
    PLACE_B,
    PLACE_BT,
    PLACE_FLOAT_A,
    PLACE_FLOAT_B,
    PLACE_COUNT
};

struct op_case {
    const struct op_group *group;
    enum op_place place;
    int first, n; /* expressions */
    int n_tuples;
    int lines; /* rows of A or columns of B; rows of an epilogue */
};

struct case_list {
    struct op_group **group;
    struct op_case *at;
    int n, cap, n_groups, cap_groups;
};

const char *place_name(enum op_place p);
/* row: of this operator alone; NULL: all, and casts and choices. */
bool cases_make(struct case_list *l, const char *row);
void cases_free(struct case_list *l);

#endif
