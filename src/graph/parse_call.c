/* SPDX-License-Identifier: MIT
 * Calls: the arguments of an operator, read by its signature.
 *
 * Parameters that a signature marks as named are given by name, the others by position, before the
 * named ones. The same code reads the text of the C builder's calls, whose operands are there.
 */
#include "graph/parse.h"

#include <string.h>

struct call {
    enum op op;
    const struct par *pars;
    int n_pars;
    bool seen[16];
    VEC(value_id) in;
    struct attrs a;
    enum dtype number_dtype; /* of const's value */
    union scalar number;
};

static enum proem_status parse_int(struct parser *p, const char *what, int64_t *out) {
    const struct token *t = peek(p);
    sx e;
    TRY(parse_dim(p, &e));
    if (sx_is_const(p->g->sx, e, out)) return PROEM_OK;
    return fail_at(p, t, "%s must be a number, not %s", what, label_dim(p->g, e));
}

static enum proem_status parse_small_int(struct parser *p, const char *what, int *out) {
    const struct token *t = peek(p);
    int64_t v;
    TRY(parse_int(p, what, &v));
    if (v < -1000000 || v > 1000000)
        return fail_at(p, t, "%s is %lld, far out of range", what, (long long)v);
    *out = (int)v;
    return PROEM_OK;
}

/* [i, j, ..] or one number. */
static enum proem_status parse_axes(struct parser *p, const char *what, int *n, int *axes) {
    if (!is_punct(peek(p), '[')) {
        *n = 1;
        return parse_small_int(p, what, &axes[0]);
    }
    const struct token *t = peek(p);
    p->pos++;
    *n = 0;
    while (!is_punct(peek(p), ']')) {
        if (*n == MAX_RANK) return fail_at(p, t, "the list has more than %d entries", MAX_RANK);
        TRY(parse_small_int(p, what, &axes[*n]));
        ++*n;
        if (!accept(p, ',')) break;
    }
    return expect(p, ']', "after the list");
}

/* A number: anything that folds to a literal. */
static enum proem_status parse_double_arg(struct parser *p, const char *what, double *out) {
    const struct token *t = peek(p);
    value_id v;
    TRY(parse_expr(p, &v));
    if (!is_literal(p->g, v)) return fail_at(p, t, "%s must be a number, not a value", what);
    const union scalar c = graph_def(p->g, v)->constant;
    enum dtype d = graph_value(p->g, v)->dtype;
    *out = d == DT_F64 ? c.f : d == DT_U64 ? (double)(uint64_t)c.i : (double)c.i;
    bool exact = d != DT_I64 || (c.i <= (1LL << 53) && c.i >= -(1LL << 53));
    if (d == DT_U64 || !exact) return fail_at(p, t, "%s is beyond 2**53; write a float", what);
    return PROEM_OK;
}

static enum proem_status parse_flag(struct parser *p, bool *out) {
    if (!is_word(peek(p), "true") && !is_word(peek(p), "false"))
        return unexpected(p, "true or false");
    *out = is_word(peek(p), "true");
    p->pos++;
    return PROEM_OK;
}

static enum proem_status parse_approximate(struct parser *p, enum op *op) {
    const struct token *t = peek(p);
    bool tanh = t->kind == TOK_STRING && strcmp(t->text, "tanh") == 0;
    if (!tanh && (t->kind != TOK_STRING || strcmp(t->text, "none") != 0))
        return fail_at(p, t, "approximate is \"none\" or \"tanh\", not %s", describe(p, t));
    if (tanh) *op = OP_GELU_TANH;
    p->pos++;
    return PROEM_OK;
}

/* Sizes of a split, or their number. */
static enum proem_status parse_parts(struct parser *p, struct attrs *a) {
    const struct token *t = peek(p);
    if (is_punct(t, '[')) {
        TRY(parse_dims(p, &a->n_list, a->list));
        return a->n_list > 0 ? PROEM_OK : fail_at(p, t, "a split has at least one part");
    }
    TRY(parse_small_int(p, "the number of parts", &a->n_parts));
    if (a->n_parts < 1 || a->n_parts > 4096)
        return fail_at(p, t, "a split has 1 to 4096 parts, not %d", a->n_parts);
    return PROEM_OK;
}

static enum proem_status parse_operand(struct parser *p, struct call *c) {
    value_id v;
    TRY(parse_expr(p, &v));
    return VEC_PUSH(p->a, &c->in, v) ? PROEM_OK : parser_nomem(p);
}

static enum proem_status parse_par(struct parser *p, struct call *c, const struct par *par) {
    struct attrs *a = &c->a;
    switch (par->kind) {
    case PAR_VALUE:
    case PAR_VALUES: return parse_operand(p, c);
    case PAR_DTYPE: return parse_dtype(p, &a->dtype);
    case PAR_AXIS: a->has_axis = true; return parse_small_int(p, par->name, &a->axis);
    case PAR_AXES: return parse_axes(p, par->name, &a->n_axes, a->axes);
    case PAR_PERM:
        if (!is_punct(peek(p), '[')) return unexpected(p, "a list of axes");
        return parse_axes(p, "an axis", &a->n_list, a->perm);
    case PAR_DIMS:
    case PAR_LOW: return parse_dims(p, &a->n_list, a->list);
    case PAR_HIGH: return parse_dims(p, &a->n_list2, a->list2);
    case PAR_PARTS: return parse_parts(p, a);
    case PAR_START:
    case PAR_SIZE: return parse_dim(p, &a->start);
    case PAR_STOP: return parse_dim(p, &a->stop);
    case PAR_STEP: return parse_int(p, par->name, &a->step);
    case PAR_K: return parse_dim(p, &a->k);
    case PAR_BLOCK: return parse_int(p, par->name, &a->block);
    case PAR_P0: a->has_param = true; return parse_double_arg(p, par->name, &a->param[0]);
    case PAR_P1: return parse_double_arg(p, par->name, &a->param[1]);
    case PAR_FLAG: return parse_flag(p, &a->flag);
    case PAR_IMPLIED: return parse_flag(p, &a->implied);
    case PAR_APPROX: return parse_approximate(p, &c->op);
    case PAR_NUMBER: return parse_number(p, &c->number_dtype, &c->number);
    }
    return PROEM_INTERNAL;
}

static enum proem_status no_parameter(struct parser *p, const struct call *c,
                                      const struct token *t) {
    const char *names = "";
    for (int i = 0; i < c->n_pars; i++) {
        const struct par *par = &c->pars[i];
        if ((par->flags & PARF_INTERNAL) != 0 && !p->internal) continue;
        names = arena_printf(p->a, "%s%s%s", names, names[0] != '\0' ? ", " : "", par->name);
        if (names == NULL) return parser_nomem(p);
    }
    return fail_at(p, t, "%s has no parameter `%s`; it has %s", op_text_name(c->op), t->text,
                   names);
}

static enum proem_status named_argument(struct parser *p, struct call *c) {
    const struct token *t = peek(p);
    p->pos += 2;
    for (int i = 0; i < c->n_pars; i++) {
        const struct par *par = &c->pars[i];
        if (strcmp(par->name, t->text) != 0) continue;
        if ((par->flags & PARF_INTERNAL) != 0 && !p->internal) continue;
        if ((par->flags & PARF_NAMED) == 0)
            return fail_at(p, t, "%s of %s is given by position, without `%s=`", par->name,
                           op_text_name(c->op), par->name);
        if (c->seen[i])
            return fail_at(p, t, "%s of %s is given twice", par->name, op_text_name(c->op));
        c->seen[i] = true;
        return parse_par(p, c, par);
    }
    return no_parameter(p, c, t);
}

static enum proem_status too_many(struct parser *p, const struct call *c) {
    for (int i = 0; i < c->n_pars; i++) {
        const struct par *par = &c->pars[i];
        if (!c->seen[i] && (par->flags & PARF_NAMED) != 0 && (par->flags & PARF_INTERNAL) == 0)
            return fail_at(p, peek(p), "%s takes no more arguments by position; write %s=..",
                           op_text_name(c->op), par->name);
    }
    return fail_at(p, peek(p), "%s takes no more arguments", op_text_name(c->op));
}

/* The arguments up to `)`, or to the end of a text. The first `next` parameters are there. */
static enum proem_status parse_arguments(struct parser *p, struct call *c, int next) {
    bool named = false;
    while (!is_punct(peek(p), ')') && peek(p)->kind != TOK_END) {
        const struct token *t = peek(p);
        if (t->kind == TOK_NAME && !t->quoted && is_punct(peek_at(p, 1), '=')) {
            named = true;
            TRY(named_argument(p, c));
        } else {
            while (next < c->n_pars && (c->pars[next].flags & PARF_NAMED) != 0)
                next++;
            if (next == c->n_pars) return too_many(p, c);
            if (named) return fail_at(p, t, "arguments by position stand before those by name");
            c->seen[next] = true;
            TRY(parse_par(p, c, &c->pars[next]));
            if (c->pars[next].kind != PAR_VALUES) next++;
        }
        if (!accept(p, ',')) break;
    }
    return PROEM_OK;
}

static enum proem_status check_required(const struct parser *p, const struct token *t,
                                        const struct call *c) {
    for (int i = 0; i < c->n_pars; i++) {
        const struct par *par = &c->pars[i];
        if (c->seen[i] || (par->flags & (PARF_OPT | PARF_DEFAULT)) != 0) continue;
        return fail_at(p, t, "%s needs %s%s", op_text_name(c->op), par->name,
                       (par->flags & PARF_NAMED) != 0 ? "=.." : "");
    }
    return PROEM_OK;
}

static enum proem_status start_call(struct parser *p, struct call *c, enum op op) {
    *c = (struct call){.op = op, .a = attrs_default(op)};
    c->pars = signature(op, &c->n_pars);
    return arena_ok(p->a) ? PROEM_OK : parser_nomem(p);
}

/* const(dtype, number) of the dumps. */
static enum proem_status build_const(struct parser *p, const struct token *t, const struct call *c,
                                     value_id *out) {
    enum dtype d = c->a.dtype;
    union scalar v = c->number;
    bool ok = true;
    if (dtype_is_float(d)) {
        double f = c->number_dtype == DT_F64   ? v.f
                   : c->number_dtype == DT_U64 ? (double)(uint64_t)v.i
                                               : (double)v.i;
        v.f = float_round(d, f, false);
    } else if (d == DT_BOOL) {
        ok = c->number_dtype == DT_BOOL;
    } else {
        int64_t lo, hi;
        dtype_int_range(d, &lo, &hi);
        ok = c->number_dtype == DT_I64 ? (v.i >= lo && v.i <= hi)
                                       : c->number_dtype == DT_U64 && d == DT_U64;
    }
    if (!ok) return fail_at(p, t, "the number is no value of %s", dtype_name(d));
    struct place at = place_of(p, t);
    *out = graph_const(p->g, &at, d, v);
    return *out != 0 ? PROEM_OK : failed(p);
}

static enum proem_status build(struct parser *p, const struct token *t, struct call *c, int want,
                               bool statement, value_id *out) {
    struct place at = place_of(p, t);
    struct hook hooks[HOOK_COUNT] = {{NULL, 0, 0, NULL}};
    bool has_hooks = c->op == OP_ATTENTION && statement && is_punct(peek(p), '{');
    if (c->op == OP_CONST) return build_const(p, t, c, out);
    if (has_hooks) TRY(parse_hooks(p, hooks));
    if (c->op == OP_ATTENTION && want <= 2) {
        *out = graph_attention(p->g, &at, c->in.at, &c->a, has_hooks ? hooks : NULL, want == 2);
    } else {
        *out = graph_apply(p->g, &at, c->op, (int)c->in.n, c->in.at, &c->a);
    }
    return *out != 0 ? PROEM_OK : failed(p);
}

static bool allowed_in_hook(enum op op) {
    return op_is_elementwise(op) || op == OP_WHERE || op == OP_CAST || op == OP_BITCAST ||
           op == OP_LOOKUP || op == OP_DIM || op == OP_CONST;
}

static enum proem_status no_operator(struct parser *p, const struct token *t) {
    const char *near = op_near_text(t->text, t->n);
    if (near == NULL) return fail_at(p, t, "there is no operator `%s`", t->text);
    return fail_at(p, t, "there is no operator `%s`; did you mean `%s`?", t->text, near);
}

enum proem_status parse_call(struct parser *p, int want, bool statement, value_id *out) {
    const struct token *t = peek(p);
    struct call c;
    enum op op = op_from_text(t->text, t->n, p->internal);
    if (op == OP_NONE) return no_operator(p, t);
    if (p->hook != NULL && op == OP_TAKE) return parse_hook_take(p, out);
    if (p->hook != NULL && !allowed_in_hook(op))
        return fail_at(p, t, "a hook is a function of scalars: `%s` is not allowed in it", t->text);
    TRY(start_call(p, &c, op));
    p->pos += 2;
    TRY(parse_arguments(p, &c, 0));
    TRY(expect(p, ')', "after the arguments"));
    TRY(check_required(p, t, &c));
    TRY(build(p, t, &c, want, statement, out));
    int n_out = graph_def(p->g, *out)->n_out;
    if (n_out == want) return PROEM_OK;
    if (want == 1)
        return fail_at(p, t, "%s gives %d results; bind them by a statement `a, b, .. = %s(..)`",
                       t->text, n_out, t->text);
    return fail_at(p, t, "%s gives %d result%s and %d names are bound", t->text, n_out,
                   n_out == 1 ? "" : "s", want);
}

/* ---- the C builder's calls ------------------------------------------------------------------- */

static enum proem_status call_text(struct parser *p, struct call *c, const char *args, int n_in,
                                   const value_id *in, value_id *out) {
    static const struct token nowhere = {.kind = TOK_END, .text = ""};
    int next = 0, inputs = 0;
    for (int i = 0; i < n_in; i++)
        if (!VEC_PUSH(p->a, &c->in, in[i])) return parser_nomem(p);
    for (; next < c->n_pars; next++) { /* the operands come first in every signature */
        enum par_kind kind = c->pars[next].kind;
        if (kind != PAR_VALUE && kind != PAR_VALUES) break;
        if (inputs++ < n_in || (c->pars[next].flags & PARF_OPT) != 0) c->seen[next] = true;
    }
    TRY(lex(p->a, args, strlen(args), &p->lx, p->e));
    TRY(parse_arguments(p, c, next));
    if (peek(p)->kind != TOK_END) return unexpected(p, "the end of the arguments");
    TRY(check_required(p, &nowhere, c));
    struct place at = place_of(p, &nowhere);
    *out = graph_apply(p->g, &at, c->op, (int)c->in.n, c->in.at, &c->a);
    return *out != 0 ? PROEM_OK : failed(p);
}

value_id graph_call_text(struct graph *g, const struct place *at, const char *op, int n_in,
                         const value_id *in, const char *args) {
    struct err local;
    err_clear(&local);
    struct place where = at != NULL ? *at : (struct place){0};
    if (where.err == NULL) where.err = &local;
    for (int i = 0; i < n_in; i++)
        if (in[i] == 0) return 0;
    struct parser *p = ARENA_NEW(g->arena, struct parser, 1);
    struct call *c = ARENA_NEW(g->arena, struct call, 1);
    value_id out = 0;
    if (p == NULL || c == NULL) {
        place_nomem(&where);
        return 0;
    }
    p->a = g->arena;
    p->g = g;
    p->e = where.err;
    p->fixed = &where;
    enum op which = op_from_text(op, strlen(op), false);
    if (which == OP_NONE) {
        const char *near = op_near_text(op, strlen(op));
        place_fail(&where, "there is no operator `%s`%s%s%s", op,
                   near != NULL ? "; did you mean `" : "", near != NULL ? near : "",
                   near != NULL ? "`?" : "");
        return 0;
    }
    if (start_call(p, c, which) != PROEM_OK) return 0;
    return call_text(p, c, args != NULL ? args : "", n_in, in, &out) == PROEM_OK ? out : 0;
}
