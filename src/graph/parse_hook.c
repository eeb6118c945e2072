/* SPDX-License-Identifier: MIT
 * Attention's hooks: `score(s, b, h, i, j) = expression`, read into graphs of their own.
 *
 * A name is looked up among the hook's arguments, then among the graph's values, then it is a
 * symbol. A value of the graph becomes a parameter of the body, once; `take(t, i, ..)` is a look-up
 * in it. The body may also be a block of statements with a return, which dumps use when values are
 * shared.
 */
#include "graph/parse.h"

#include <string.h>

/* The body's parameter that stands for a value of the graph. */
static enum proem_status capture(struct parser *p, const struct token *t, value_id outer,
                                 value_id *out) {
    struct hook_scope *s = p->hook;
    const struct value *v = graph_value(s->outer, outer);
    uint32_t hidden;
    for (size_t i = 0; i < s->captured.n; i++) {
        if (s->captured.at[i] != outer) continue;
        *out = s->inner.at[i];
        return PROEM_OK;
    }
    if (names_get(&s->names, v->name, strlen(v->name), &hidden))
        return fail_at(p, t,
                       "`%s` is another name of `%s`, which the hook's names hide; rename one",
                       t->text, v->name);
    struct place at = place_of(p, t);
    *out = graph_param(p->g, &at, v->name, v->dtype, v->rank, v->dims, false, NULL);
    if (*out == 0) return failed(p);
    if (!VEC_PUSH(p->a, &s->captured, outer) || !VEC_PUSH(p->a, &s->inner, *out))
        return parser_nomem(p);
    return PROEM_OK;
}

/* A named literal of the graph: a copy of that name, which is no statement of the body. */
static enum proem_status hook_literal(struct parser *p, const struct token *t, value_id outer,
                                      value_id *out) {
    const struct graph *g = p->hook->outer;
    struct place at = place_of(p, t);
    *out = graph_literal(p->g, &at, graph_value(g, outer)->dtype, graph_def(g, outer)->constant);
    if (*out == 0) return failed(p);
    p->g->nodes.at[graph_value(p->g, *out)->node].literal = outer;
    TRY(graph_name_value(p->g, &at, *out, t->text));
    return names_add(&p->hook->names, t->text, t->n, *out) ? PROEM_OK : parser_nomem(p);
}

enum proem_status hook_name(struct parser *p, const struct token *t, bool tensor, value_id *out) {
    struct hook_scope *s = p->hook;
    value_id outer;
    if (names_get(&p->names, t->text, t->n, &outer)) {
        if (is_literal(s->outer, outer)) return hook_literal(p, t, outer, out);
        int rank = graph_value(s->outer, outer)->rank;
        if (rank > 0 && !tensor)
            return fail_at(p, t, "%s is no scalar; read it by take(%s, ..) with one index a dim",
                           label(s->outer, outer), t->text);
        return capture(p, t, outer, out);
    }
    if (tensor) return fail_at(p, t, "no value of the graph is called `%s`", t->text);
    struct attrs a = attrs_default(OP_DIM);
    a.start = sx_sym(p->g->sx, t->text);
    if (a.start == 0) return parser_nomem(p);
    struct place at = place_of(p, t);
    *out = graph_apply(p->g, &at, OP_DIM, 0, NULL, &a);
    return *out != 0 ? PROEM_OK : failed(p);
}

enum proem_status parse_hook_take(struct parser *p, value_id *out) {
    const struct token *t = peek(p), *tensor;
    VEC(value_id) in = {0};
    value_id v;
    p->pos += 2;
    if (peek(p)->kind != TOK_NAME || names_get(&p->hook->names, peek(p)->text, peek(p)->n, &v))
        return fail_at(p, peek(p), "take in a hook reads a value of the graph, by its name");
    TRY(expect_name(p, "a value of the graph", &tensor));
    TRY(hook_name(p, tensor, true, &v));
    do {
        if (!VEC_PUSH(p->a, &in, v)) return parser_nomem(p);
        if (!accept(p, ',') || is_punct(peek(p), ')')) break;
        if (peek(p)->kind == TOK_NAME && is_punct(peek_at(p, 1), '='))
            return fail_at(p, peek(p), "take in a hook has one index a dim and no `%s=`",
                           peek(p)->text);
        TRY(parse_expr(p, &v));
    } while (true);
    TRY(expect(p, ')', "after the indices"));
    struct place at = place_of(p, t);
    *out = graph_apply(p->g, &at, OP_LOOKUP, (int)in.n, in.at, NULL);
    return *out != 0 ? PROEM_OK : failed(p);
}

static enum proem_status hook_params(struct parser *p, const struct token *t) {
    static const enum dtype types[] = {DT_F32, DT_I64, DT_I64, DT_I64, DT_I64};
    struct hook_scope *s = p->hook;
    int n = 0, want = hook_args(s->kind), first = 5 - want;
    TRY(expect(p, '(', "after the hook's name"));
    while (!is_punct(peek(p), ')') && n < want) {
        const struct token *arg;
        uint32_t old;
        TRY(expect_name(p, "an argument's name", &arg));
        if (names_get(&s->names, arg->text, arg->n, &old))
            return fail_at(p, arg, "two arguments are called `%s`", arg->text);
        struct place at = place_of(p, arg);
        value_id v = graph_param(p->g, &at, arg->text, types[first + n], 0, NULL, false, NULL);
        if (v == 0) return failed(p);
        if (!names_add(&s->names, arg->text, arg->n, v)) return parser_nomem(p);
        n++;
        if (!accept(p, ',')) break;
    }
    if (n != want || !is_punct(peek(p), ')'))
        return fail_at(p, t, "%s has %d arguments: (%s)", hook_names[s->kind], want,
                       s->kind == HOOK_MASK    ? "b, h, i, j"
                       : s->kind == HOOK_SCORE ? "s, b, h, i, j"
                                               : "p, b, h, i, j");
    return expect(p, ')', "after the hook's arguments");
}

/* The result: bool of a mask, f32 of the others, with an implied conversion. */
static enum proem_status hook_result(struct parser *p, const struct token *t, value_id v) {
    struct place at = place_of(p, t);
    bool mask = p->hook->kind == HOOK_MASK;
    if (is_literal(p->g, v)) {
        enum dtype d = mask ? DT_BOOL : DT_F32;
        if (mask && graph_value(p->g, v)->dtype != DT_BOOL)
            return fail_at(p, t, "mask must be bool; write true or false, or compare");
        v = literal_const(p->g, &at, v, d);
        if (v == 0) return failed(p);
    }
    enum dtype d = graph_value(p->g, v)->dtype;
    if (mask && d != DT_BOOL)
        return fail_at(p, t, "mask must be bool, and this is %s; compare it", dtype_name(d));
    if (!mask && !dtype_has_arith(d))
        return fail_at(p, t, "%s must be a number, and this is %s; cast it",
                       hook_names[p->hook->kind], dtype_name(d));
    if (!mask && d != DT_F32) {
        struct attrs a = attrs_default(OP_CAST);
        a.dtype = DT_F32;
        a.implied = true;
        v = graph_apply(p->g, &at, OP_CAST, 1, &v, &a);
        if (v == 0) return failed(p);
    }
    return graph_output(p->g, &at, v, 0);
}

static enum proem_status hook_body(struct parser *p) {
    const struct token *t;
    value_id v;
    if (accept(p, '=')) {
        t = peek(p);
        TRY(parse_expr(p, &v));
        TRY(hook_result(p, t, v));
        return graph_finish(p->g, p->e);
    }
    if (!accept(p, '{')) return unexpected(p, "`=` after the hook's arguments");
    t = peek(p);
    TRY(parse_statements(p));
    p->pos++;
    if (p->g->outputs.n != 1)
        return fail_at(p, t, "a hook returns one value, not %zu", p->g->outputs.n);
    v = p->g->outputs.at[0].value;
    p->g->outputs.n = 0;
    TRY(hook_result(p, t, v));
    return graph_finish(p->g, p->e);
}

static enum proem_status parse_hook(struct parser *p, struct hook hooks[HOOK_COUNT],
                                    enum hook_kind *kind) {
    const struct token *t = peek(p);
    struct hook_scope scope = {.outer = p->g, .names = {.arena = p->a}};
    int k = 0;
    while (k < HOOK_COUNT && !is_word(t, hook_names[k]))
        k++;
    if (k == HOOK_COUNT) return unexpected(p, "a hook: score, mask or prob");
    if (hooks[k].body != NULL) return fail_at(p, t, "the hook %s is given twice", t->text);
    p->pos++;
    *kind = scope.kind = (enum hook_kind)k;
    struct graph *body = graph_new(p->a, p->g->sx, hook_names[k]);
    if (body == NULL) return parser_nomem(p);
    body->file = p->file;
    p->g = body;
    p->hook = &scope;
    enum proem_status st = hook_params(p, t);
    if (st == PROEM_OK) st = hook_body(p);
    p->g = scope.outer;
    p->hook = NULL;
    TRY(st);
    hooks[k] = (struct hook){body, hook_args(scope.kind), (int)scope.captured.n, scope.captured.at};
    return PROEM_OK;
}

/* The attention call will be the graph's next node: the comments go to it, each to its hook. */
enum proem_status parse_hooks(struct parser *p, struct hook hooks[HOOK_COUNT]) {
    node_id node = (node_id)p->g->nodes.n;
    take_comments(p, p->pos, COMMENT_BEFORE, node, 0);
    TRY(expect(p, '{', "before the hooks"));
    for (skip_breaks(p); !is_punct(peek(p), '}'); skip_breaks(p)) {
        uint32_t start = p->pos;
        enum hook_kind kind = HOOK_SCORE;
        TRY(parse_hook(p, hooks, &kind));
        const struct token *t = peek(p);
        if (t->kind != TOK_NEWLINE && !is_punct(t, ';') && !is_punct(t, '}'))
            return unexpected(p, "the end of the hook");
        take_comments(p, start + 1, COMMENT_BEFORE, node, (int)kind + 1);
        take_comments(p, p->pos, COMMENT_BEFORE, node, (int)kind + 1);
        take_behind(p, COMMENT_BEHIND, node, (int)kind + 1);
    }
    take_comments(p, p->pos + 1, COMMENT_BEFORE, node, HOOK_COUNT + 1);
    p->pos++;
    return PROEM_OK;
}
