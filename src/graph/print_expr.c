/* SPDX-License-Identifier: MIT
 * Printing of expressions: infix operators with as few parentheses as the grammar allows, calls by
 * their signatures with defaults left out, constants as the literals that they were made from.
 * In flat prints every operator is a call and a constant has its dtype.
 */
#include "graph/print.h"

#include <math.h>

enum { LEVEL_NOT, LEVEL_COMPARE, LEVEL_SUM = 6, LEVEL_UNARY = 8, LEVEL_POWER, LEVEL_ATOM };

struct infix {
    enum op op;
    int level;
    const char *text;
};

static const struct infix *infix_of(enum op op) {
    static const struct infix table[] = {
        {OP_EQ, 1, "=="},
        {OP_NE, 1, "!="},
        {OP_LT, 1, "<"},
        {OP_LE, 1, "<="},
        {OP_GT, 1, ">"},
        {OP_GE, 1, ">="},
        {OP_BITWISE_OR, 2, "|"},
        {OP_BITWISE_XOR, 3, "^"},
        {OP_BITWISE_AND, 4, "&"},
        {OP_SHIFT_LEFT, 5, "<<"},
        {OP_SHIFT_RIGHT, 5, ">>"},
        {OP_ADD, 6, "+"},
        {OP_SUB, 6, "-"},
        {OP_MUL, 7, "*"},
        {OP_DIV, 7, "/"},
        {OP_FLOORDIV, 7, "//"},
        {OP_MOD, 7, "%"},
        {OP_POW, LEVEL_POWER, "**"},
        {OP_NEG, LEVEL_UNARY, "-"},
        {OP_BITWISE_NOT, LEVEL_UNARY, "~"},
        {OP_LOGICAL_NOT, LEVEL_NOT, "not "},
    };
    for (size_t i = 0; i < COUNT_OF(table); i++)
        if (table[i].op == op) return &table[i];
    return NULL;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static const char *number_text(char *buf, size_t size, enum dtype d, union scalar v) {
    struct str s;
    if (dtype_is_float(d)) return fmt_double(buf, v.f);
    if (d == DT_BOOL) return v.i != 0 ? "true" : "false";
    str_init(&s, &allocator_default);
    str_printf(&s, d == DT_U64 ? "%llu" : "%lld", (unsigned long long)v.i);
    size_t n = s.n < size - 1 ? s.n : size - 1;
    for (size_t i = 0; i < n; i++)
        buf[i] = s.at[i];
    buf[n] = '\0';
    str_free(&s);
    return buf;
}

/* A double of the attributes; whole numbers without a point. */
static void param_print(double v, struct str *out) {
    char buf[32];
    bool whole = v >= -1e15 && v <= 1e15 && v == (double)(int64_t)v && !(v == 0 && signbit(v) != 0);
    if (whole)
        str_printf(out, "%lld", (long long)v);
    else
        str_add(out, fmt_double(buf, v));
}

static bool is_named_literal(const struct printer *p, value_id literal) {
    return literal != 0 && graph_value(p->g, literal)->named && !p->flat;
}

/* A constant in place: as the literal that was written, or with its dtype. */
static void const_print(const struct printer *p, const struct node *n, int level) {
    char buf[40];
    enum dtype d = graph_value(p->g, n->out)->dtype;
    union scalar v = n->constant;
    if (p->flat && !n->weak) {
        str_printf(p->out, "const(%s, %s)", dtype_name(d), number_text(buf, sizeof buf, d, v));
        return;
    }
    if (!n->weak && is_named_literal(p, n->literal)) {
        name_print(graph_value(p->g, n->literal)->name, p->out);
        return;
    }
    if (n->literal == 0 && !n->weak) {
        str_printf(p->out, "cast(%s, %s)", number_text(buf, sizeof buf, d, v), dtype_name(d));
        return;
    }
    if (n->literal != 0 && !n->weak) {
        d = graph_value(p->g, n->literal)->dtype;
        v = graph_def(p->g, n->literal)->constant;
    }
    const char *text = number_text(buf, sizeof buf, d, v);
    bool parens = text[0] == '-' && level > LEVEL_UNARY;
    str_printf(p->out, parens ? "(%s)" : "%s", text);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void axes_print(const struct printer *p, int n, const int *axes) {
    str_add(p->out, "[");
    for (int i = 0; i < n; i++)
        str_printf(p->out, i > 0 ? ", %d" : "%d", axes[i]);
    str_add(p->out, "]");
}

static bool is_zero(const struct printer *p, sx e) {
    int64_t v;
    return e == 0 || (sx_is_const(p->g->sx, e, &v) && v == 0);
}

static bool all_zero(const struct printer *p, int n, const sx *list) {
    for (int i = 0; i < n; i++)
        if (!is_zero(p, list[i])) return false;
    return true;
}

static bool default_dtype(const struct printer *p, const struct node *n) {
    enum dtype d = n->attrs.dtype, s;
    if (d == DT_NONE) return true;
    if (n->op == OP_DEQUANTIZE) {
        s = n->in[1] != 0 ? graph_value(p->g, n->in[1])->dtype : DT_F32;
        return d == (s == DT_E8M0 ? DT_F32 : s);
    }
    if (n->op != OP_QUANTIZE) return false;
    s = n->in[2] != 0 ? graph_value(p->g, n->in[2])->dtype : DT_NONE;
    return d == (dtype_is_int(s) ? s : DT_U8);
}

/* Is a parameter that may be left out at its default? */
static bool at_default(const struct printer *p, const struct node *n, const struct par *par) {
    const struct attrs *a = &n->attrs;
    int rank = n->n_in > 0 ? graph_value(p->g, n->in[0])->rank : 0;
    switch (par->kind) {
    case PAR_DTYPE: return default_dtype(p, n);
    case PAR_AXIS:
        if ((par->flags & PARF_OPT) != 0) return !a->has_axis;
        return a->axis == (par->value < 0 ? rank - 1 : (int)par->value);
    case PAR_AXES: return a->n_axes == rank;
    case PAR_LOW: return all_zero(p, a->n_list, a->list);
    case PAR_HIGH: return all_zero(p, a->n_list2, a->list2);
    case PAR_START: return is_zero(p, a->start);
    case PAR_STOP: return a->stop == 0 || a->stop == graph_value(p->g, n->in[0])->dims[a->axis];
    case PAR_STEP: return a->step == 1;
    case PAR_BLOCK: return a->block == 0;
    case PAR_P0:
        if ((par->flags & PARF_OPT) != 0) return !a->has_param;
        return !(a->param[0] < par->value || a->param[0] > par->value) && !isnan(a->param[0]);
    case PAR_P1:
        return !(a->param[1] < par->value || a->param[1] > par->value) && !isnan(a->param[1]);
    case PAR_FLAG: return !a->flag;
    case PAR_IMPLIED: return !a->implied;
    case PAR_APPROX: return n->op != OP_GELU_TANH;
    default: return false;
    }
}

static void attr_print(const struct printer *p, const struct node *n, const struct par *par) {
    const struct attrs *a = &n->attrs;
    switch (par->kind) {
    case PAR_DTYPE: str_add(p->out, dtype_name(a->dtype)); break;
    case PAR_AXIS: str_printf(p->out, "%d", a->axis); break;
    case PAR_AXES: axes_print(p, a->n_axes, a->axes); break;
    case PAR_PERM: axes_print(p, a->n_list, a->perm); break;
    case PAR_DIMS:
    case PAR_LOW: dims_print(p->g, a->n_list, a->list, p->out); break;
    case PAR_HIGH: dims_print(p->g, a->n_list2, a->list2, p->out); break;
    case PAR_PARTS:
        if (a->n_parts > 0)
            str_printf(p->out, "%d", a->n_parts);
        else
            dims_print(p->g, a->n_list, a->list, p->out);
        break;
    case PAR_START:
    case PAR_SIZE: dim_print(p->g, a->start, p->out); break;
    case PAR_STOP: dim_print(p->g, a->stop, p->out); break;
    case PAR_STEP: str_printf(p->out, "%lld", (long long)a->step); break;
    case PAR_K: dim_print(p->g, a->k, p->out); break;
    case PAR_BLOCK: str_printf(p->out, "%lld", (long long)a->block); break;
    case PAR_P0: param_print(a->param[0], p->out); break;
    case PAR_P1: param_print(a->param[1], p->out); break;
    case PAR_FLAG: str_add(p->out, a->flag ? "true" : "false"); break;
    case PAR_IMPLIED: str_add(p->out, a->implied ? "true" : "false"); break;
    case PAR_APPROX: str_add(p->out, n->op == OP_GELU_TANH ? "\"tanh\"" : "\"none\""); break;
    default: break;
    }
}

static void separate(const struct printer *p, bool *first) {
    if (!*first) str_add(p->out, ", ");
    *first = false;
}

static void call_print(const struct printer *p, const struct node *n) {
    int n_pars, input = 0;
    const struct par *pars = signature(n->op, &n_pars);
    bool first = true, take = n->op == OP_LOOKUP && p->in_hook;
    str_printf(p->out, "%s(", take ? "take" : op_text_name(n->op));
    for (int i = 0; i < n_pars; i++) {
        const struct par *par = &pars[i];
        if (par->kind == PAR_VALUE || par->kind == PAR_VALUES) {
            int end = par->kind == PAR_VALUES ? n->n_in : input + 1;
            for (; input < end; input++) {
                if (input >= n->n_in || n->in[input] == 0) continue;
                separate(p, &first);
                operand_print(p, n->in[input], LEVEL_NOT);
            }
            continue;
        }
        bool named = (par->flags & PARF_NAMED) != 0;
        bool optional = (par->flags & (PARF_OPT | PARF_DEFAULT)) != 0;
        if (optional && at_default(p, n, par)) continue;
        separate(p, &first);
        if (named) str_printf(p->out, "%s=", par->name);
        attr_print(p, n, par);
    }
    str_add(p->out, ")");
}

/* ---- expressions ----------------------------------------------------------------------------- */

static int level_of(const struct printer *p, const struct node *n) {
    const struct infix *f = p->flat ? NULL : infix_of(n->op);
    return f != NULL ? f->level : LEVEL_ATOM;
}

static void expr_print(const struct printer *p, const struct node *n) {
    const struct infix *f = p->flat ? NULL : infix_of(n->op);
    if (n->op == OP_CONST) {
        const_print(p, n, LEVEL_NOT);
    } else if (n->op == OP_DIM && !p->flat) {
        dim_print(p->g, n->attrs.start, p->out);
    } else if (f == NULL) {
        call_print(p, n);
    } else if (n->n_in == 1) {
        str_add(p->out, f->text);
        operand_print(p, n->in[0], f->level);
    } else {
        int left = f->level, right = f->level + 1;
        if (f->level == LEVEL_COMPARE) left++;
        if (n->op == OP_POW) {
            left = LEVEL_ATOM;
            right = LEVEL_UNARY;
        }
        operand_print(p, n->in[0], left);
        str_printf(p->out, " %s ", f->text);
        operand_print(p, n->in[1], right);
    }
}

void operand_print(const struct printer *p, value_id v, int level) {
    const struct node *n = graph_def(p->g, v);
    if (!p->values[v].in_place) {
        name_print(p->values[v].name, p->out);
    } else if (n->op == OP_CONST) {
        const_print(p, n, level);
    } else {
        bool parens = level_of(p, n) < level;
        if (parens) str_add(p->out, "(");
        expr_print(p, n);
        if (parens) str_add(p->out, ")");
    }
}

void node_print(const struct printer *p, const struct node *n) {
    expr_print(p, n);
}
