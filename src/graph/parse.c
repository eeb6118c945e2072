/* SPDX-License-Identifier: MIT
 * Parser of the graph text: files, graphs, parameters, statements, and the place of each comment.
 *
 * A comment belongs to what follows it when it has a line of its own, and to what stands before it
 * on its line otherwise; one inside a statement goes in front of the statement.
 */
#include "graph/parse.h"

#include <string.h>

/* ---- tokens ---------------------------------------------------------------------------------- */

const struct token *peek_at(const struct parser *p, uint32_t ahead) {
    size_t i = (size_t)p->pos + ahead, last = p->lx.tokens.n - 1;
    return &p->lx.tokens.at[i < last ? i : last];
}

const struct token *peek(const struct parser *p) {
    return peek_at(p, 0);
}

bool is_punct(const struct token *t, unsigned punct) {
    return t->kind == TOK_PUNCT && t->punct == punct;
}

bool is_word(const struct token *t, const char *word) {
    return t->kind == TOK_NAME && !t->quoted && strcmp(t->text, word) == 0;
}

bool accept(struct parser *p, unsigned punct) {
    if (!is_punct(peek(p), punct)) return false;
    p->pos++;
    return true;
}

struct place place_of(const struct parser *p, const struct token *t) {
    if (p->fixed != NULL) {
        struct place at = *p->fixed;
        at.err = p->e;
        return at;
    }
    return (struct place){.line = t->line, .col = t->col, .err = p->e};
}

enum proem_status fail_at(const struct parser *p, const struct token *t, const char *format, ...) {
    struct str s;
    str_init(&s, p->a->alloc);
    va_list ap;
    va_start(ap, format);
    str_vprintf(&s, format, ap);
    va_end(ap);
    struct place at = place_of(p, t);
    bool full = s.failed || !arena_ok(p->a); /* then what looks wrong may only be missing */
    enum proem_status st = full ? place_nomem(&at) : place_fail(&at, "%s", str_text(&s));
    str_free(&s);
    return st;
}

const char *describe(const struct parser *p, const struct token *t) {
    const char *text = NULL;
    switch (t->kind) {
    case TOK_END: return "the end of the text";
    case TOK_NEWLINE: return "the end of the line";
    case TOK_NAME:
    case TOK_INT:
    case TOK_FLOAT: text = arena_printf(p->a, "`%.60s`", t->text); break;
    case TOK_STRING: text = arena_printf(p->a, "\"%.60s\"", t->text); break;
    case TOK_PUNCT:
        text = t->punct > 0xff
                   ? arena_printf(p->a, "`%c%c`", (char)(t->punct >> 8), (char)(t->punct & 0xff))
                   : arena_printf(p->a, "`%c`", (char)t->punct);
        break;
    }
    return text != NULL ? text : "?";
}

enum proem_status unexpected(const struct parser *p, const char *wanted) {
    return fail_at(p, peek(p), "expected %s, found %s", wanted, describe(p, peek(p)));
}

enum proem_status parser_nomem(const struct parser *p) {
    return err_nomem(p->e);
}

enum proem_status failed(const struct parser *p) {
    return p->e->status != PROEM_OK ? p->e->status : err_nomem(p->e);
}

enum proem_status expect(struct parser *p, char punct, const char *after) {
    if (accept(p, (unsigned char)punct)) return PROEM_OK;
    return fail_at(p, peek(p), "expected `%c` %s, found %s", punct, after, describe(p, peek(p)));
}

enum proem_status enter(struct parser *p) {
    if (++p->depth <= MAX_DEPTH) return PROEM_OK;
    return fail_at(p, peek(p), "the expression is nested too deeply; bind parts of it to names");
}

static bool ends_statement(const struct token *t) {
    return t->kind == TOK_NEWLINE || t->kind == TOK_END || is_punct(t, ';') || is_punct(t, '}');
}

void skip_breaks(struct parser *p) {
    while (peek(p)->kind == TOK_NEWLINE || is_punct(peek(p), ';'))
        p->pos++;
}

enum proem_status expect_name(struct parser *p, const char *what, const struct token **out) {
    const struct token *t = peek(p);
    if (t->kind != TOK_NAME) return unexpected(p, what);
    if (!t->quoted && name_needs_quotes(t->text))
        return fail_at(p, t, "`%s` is a reserved word; write it in backquotes to use it as a name",
                       t->text);
    *out = t;
    p->pos++;
    return PROEM_OK;
}

/* ---- comments -------------------------------------------------------------------------------- */

void take_comments(struct parser *p, uint32_t before, enum comment_place place, node_id anchor,
                   int hook) {
    while (p->comment < p->lx.comments.n && p->lx.comment_at.at[p->comment] < before) {
        struct comment *c = &p->lx.comments.at[p->comment++];
        c->place = place;
        c->anchor = anchor;
        c->hook = hook;
    }
}

void take_behind(struct parser *p, enum comment_place place, node_id anchor, int hook) {
    if (p->comment >= p->lx.comments.n) return;
    struct comment *c = &p->lx.comments.at[p->comment];
    if (c->own_line || p->lx.comment_at.at[p->comment] != p->pos) return;
    c->place = place;
    c->anchor = anchor;
    c->hook = hook;
    p->comment++;
}

static enum proem_status keep_comments(struct parser *p, size_t first) {
    if (p->internal) return PROEM_OK;
    for (size_t i = first; i < p->comment; i++)
        if (!VEC_PUSH(p->a, &p->g->comments, p->lx.comments.at[i])) return parser_nomem(p);
    return PROEM_OK;
}

/* ---- statements ------------------------------------------------------------------------------ */

/* Is this the name that the value would get by itself? Dumps of passes print such names. */
static bool is_auto_name(const struct parser *p, value_id v, const char *name) {
    const struct node *n = graph_def(p->g, v);
    const char *base = op_text_name(n->op);
    size_t k = strlen(base);
    if (!p->internal || strncmp(name, base, k) != 0 || name[k] != '_' || name[k + 1] == '\0')
        return false;
    return strspn(name + k + 1, "0123456789") == strlen(name + k + 1);
}

enum proem_status bind_name(struct parser *p, const struct token *t, value_id v) {
    struct names *names = p->hook != NULL ? &p->hook->names : &p->names;
    uint32_t old;
    if (names_get(names, t->text, t->n, &old))
        return fail_at(p, t, "%s is bound twice; a name is bound once, choose another", t->text);
    struct place at = place_of(p, t);
    const struct value *x = graph_value(p->g, v);
    if (x->name[0] == '\0') { /* else it is another name of a named value */
        TRY(graph_name_value(p->g, &at, v, t->text));
        if (is_auto_name(p, v, t->text)) p->g->values.at[v].named = false;
    }
    return names_add(names, t->text, t->n, v) ? PROEM_OK : parser_nomem(p);
}

/* Does the statement consist of one call, with hooks or not? */
static bool is_single_call(const struct parser *p) {
    if (peek(p)->kind != TOK_NAME || peek(p)->quoted || !is_punct(peek_at(p, 1), '(')) return false;
    int depth = 0;
    for (uint32_t i = 1;; i++) {
        const struct token *t = peek_at(p, i);
        if (t->kind == TOK_END) return false;
        if (is_punct(t, '(')) depth++;
        if (is_punct(t, ')') && --depth == 0) {
            const struct token *next = peek_at(p, i + 1);
            return ends_statement(next) || is_punct(next, '{');
        }
    }
}

static enum proem_status end_statement(struct parser *p) {
    const struct token *t = peek(p);
    if (ends_statement(t)) return PROEM_OK;
    return fail_at(p, t, "expected the end of the statement, found %s", describe(p, t));
}

static enum proem_status parse_binding(struct parser *p, uint32_t *names, int *n) {
    const struct token *t;
    uint32_t first = p->pos;
    *n = 0;
    do {
        TRY(expect_name(p, *n == 0 ? "a statement `name = ..` or `return`" : "a name", &t));
        ++*n;
    } while (accept(p, ','));
    *names = first;
    return expect(p, '=', "after the name");
}

static enum proem_status parse_statement(struct parser *p) {
    uint32_t start = p->pos, names;
    int n;
    value_id v;
    node_id before = (node_id)p->g->nodes.n;
    TRY(parse_binding(p, &names, &n));
    const struct token *t = peek(p);
    if (is_single_call(p)) {
        TRY(parse_call(p, n, true, &v));
    } else if (n > 1) {
        return fail_at(p, t, "%d names are bound here; only a call with %d results can follow", n,
                       n);
    } else {
        TRY(parse_expr(p, &v));
    }
    TRY(end_statement(p));
    for (int i = 0; i < n; i++)
        TRY(bind_name(p, &p->lx.tokens.at[names + 2 * (uint32_t)i], v + (value_id)i));
    if (p->hook != NULL) return PROEM_OK;
    /* a second name of a value has no node: its comments go to the next statement */
    node_id node = graph_value(p->g, v)->node;
    if (node < before) return PROEM_OK;
    take_comments(p, start + 1, COMMENT_BEFORE, node, 0);
    take_comments(p, p->pos, COMMENT_BEFORE, node, 0);
    take_behind(p, COMMENT_BEHIND, node, 0);
    return PROEM_OK;
}

static enum proem_status parse_output(struct parser *p) {
    const struct token *t = peek(p), *next = peek_at(p, 1);
    bool plain =
        t->kind == TOK_NAME && (t->quoted || !name_needs_quotes(t->text)) &&
        (ends_statement(next) || is_punct(next, ',') || is_word(next, "in") || is_word(next, "as"));
    value_id v, in_param = 0;
    TRY(parse_expr(p, &v));
    const char *name = plain ? t->text : NULL;
    if (p->internal && is_word(peek(p), "as")) {
        p->pos++;
        TRY(expect_name(p, "the output's name", &next));
        name = next->text;
    }
    if (is_word(peek(p), "in")) {
        p->pos++;
        TRY(expect_name(p, "the parameter whose memory the output may use", &next));
        if (!names_get(&p->names, next->text, next->n, &in_param))
            return fail_at(p, next, "`%s` is not bound; `in` names a parameter", next->text);
    }
    struct place at = place_of(p, t);
    TRY(graph_output(p->g, &at, v, in_param));
    p->g->outputs.at[p->g->outputs.n - 1].name = name;
    return PROEM_OK;
}

enum proem_status parse_statements(struct parser *p) {
    for (skip_breaks(p); !is_word(peek(p), "return"); skip_breaks(p)) {
        if (is_punct(peek(p), '}') || peek(p)->kind == TOK_END)
            return fail_at(p, peek(p), "expected `return` before %s", describe(p, peek(p)));
        TRY(parse_statement(p));
    }
    uint32_t start = p->pos++;
    do
        TRY(parse_output(p));
    while (accept(p, ','));
    TRY(end_statement(p));
    if (p->hook == NULL) {
        take_comments(p, start + 1, COMMENT_RETURN, 0, 0);
        take_comments(p, p->pos, COMMENT_RETURN, 0, 0);
        take_behind(p, COMMENT_RETURN_BEHIND, 0, 0);
    }
    skip_breaks(p);
    if (!is_punct(peek(p), '}'))
        return fail_at(p, peek(p),
                       "expected `}` after `return`, found %s; `return` is the last "
                       "statement",
                       describe(p, peek(p)));
    return PROEM_OK;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static enum proem_status parse_param(struct parser *p) {
    enum dtype d;
    int rank;
    sx dims[MAX_RANK];
    const char *source = NULL;
    bool is_const = is_word(peek(p), "const");
    uint32_t old;
    const struct token *t = NULL;
    if (is_const) p->pos++;
    TRY(expect_name(p, "a parameter `name: dtype[dims]`", &t));
    if (names_get(&p->names, t->text, t->n, &old))
        return fail_at(p, t, "%s is bound twice; a name is bound once, choose another", t->text);
    TRY(expect(p, ':', "after the parameter's name"));
    TRY(parse_type(p, &d, &rank, dims));
    if (accept(p, '=')) {
        const struct token *s = peek(p);
        if (s->kind != TOK_STRING) return unexpected(p, "a source \"file:KEY\"");
        if (!is_const)
            return fail_at(p, s, "%s has a source; write `const %s`, only such a parameter has one",
                           t->text, t->text);
        if (s->n == 0) return fail_at(p, s, "the source of %s is empty", t->text);
        source = s->text;
        p->pos++;
    }
    struct place at = place_of(p, t);
    value_id v = graph_param(p->g, &at, t->text, d, rank, dims, is_const, source);
    if (v == 0) return failed(p);
    return names_add(&p->names, t->text, t->n, v) ? PROEM_OK : parser_nomem(p);
}

static enum proem_status parse_params(struct parser *p) {
    TRY(expect(p, '(', "after the graph's name"));
    node_id last = 0;
    while (!is_punct(peek(p), ')')) {
        uint32_t start = p->pos;
        if (last != 0) take_behind(p, COMMENT_BEHIND, last, 0);
        TRY(parse_param(p));
        node_id node = (node_id)(p->g->nodes.n - 1);
        take_comments(p, start + 1, COMMENT_BEFORE, node, 0);
        take_comments(p, p->pos, COMMENT_BEFORE, node, 0);
        last = node;
        if (!accept(p, ',')) break;
    }
    if (last != 0) take_behind(p, COMMENT_BEHIND, last, 0);
    return expect(p, ')', "after the parameters");
}

static enum proem_status parse_graph(struct parser *p, struct graph_file *out) {
    const struct token *t;
    size_t first = p->comment;
    if (!is_word(peek(p), "graph"))
        return unexpected(p, out->graphs.n == 0 ? "`graph NAME(..) {`" : "`graph` or the end");
    uint32_t start = p->pos++;
    TRY(expect_name(p, "the graph's name", &t));
    for (size_t i = 0; i < out->graphs.n; i++)
        if (strcmp(out->graphs.at[i]->name, t->text) == 0)
            return fail_at(p, t, "two graphs are called %s; rename one", t->text);
    struct sx_pool *pool = sx_pool_new(p->a);
    p->g = pool != NULL ? graph_new(p->a, pool, t->text) : NULL;
    if (p->g == NULL) return parser_nomem(p);
    p->g->file = p->file;
    p->names = (struct names){.arena = p->a};
    take_comments(p, start + 1, COMMENT_HEAD, 0, 0);
    TRY(parse_params(p));
    while (peek(p)->kind == TOK_NEWLINE)
        p->pos++;
    TRY(expect(p, '{', "before the graph's statements"));
    take_behind(p, COMMENT_OPEN, 0, 0);
    TRY(parse_statements(p));
    take_comments(p, p->pos + 1, COMMENT_CLOSE, 0, 0);
    p->pos++;
    take_behind(p, COMMENT_TAIL, 0, 0);
    skip_breaks(p);
    if (peek(p)->kind == TOK_END) take_comments(p, p->pos + 1, COMMENT_TAIL, 0, 0);
    TRY(keep_comments(p, first));
    TRY(graph_finish(p->g, p->e));
    return VEC_PUSH(p->a, &out->graphs, p->g) ? PROEM_OK : parser_nomem(p);
}

static enum proem_status parse_graphs(struct parser *p, const char *text, size_t n,
                                      struct graph_file *out) {
    TRY(lex(p->a, text, n, &p->lx, p->e));
    skip_breaks(p);
    do
        TRY(parse_graph(p, out));
    while (peek(p)->kind != TOK_END);
    return PROEM_OK;
}

enum proem_status graph_parse(struct arena *a, const char *file, const char *text, size_t n,
                              bool internal, struct graph_file *out, struct err *e) {
    struct err local;
    err_clear(&local);
    struct parser *p = ARENA_NEW(a, struct parser, 1);
    struct graph_file found = {0};
    if (p == NULL) return err_nomem(e);
    p->a = a;
    p->internal = internal;
    p->e = e != NULL ? e : &local;
    if (file != NULL && (p->file = arena_strdup(a, file)) == NULL) return err_nomem(e);
    enum proem_status st = parse_graphs(p, text, n, &found);
    if (!arena_ok(a)) { /* whatever was found wrong */
        err_clear(p->e);
        return err_nomem(p->e);
    }
    if (st == PROEM_OK) *out = found;
    return st;
}

enum proem_status graph_type_text(struct graph *g, const char *type, enum dtype *d, int *rank,
                                  sx *dims, struct err *e) {
    struct err local;
    err_clear(&local);
    struct place at = {.err = e != NULL ? e : &local};
    struct parser *p = ARENA_NEW(g->arena, struct parser, 1);
    if (p == NULL) return err_nomem(e);
    p->a = g->arena;
    p->g = g;
    p->e = at.err;
    p->fixed = &at;
    TRY(lex(p->a, type, strlen(type), &p->lx, p->e));
    TRY(parse_type(p, d, rank, dims));
    return peek(p)->kind == TOK_END ? PROEM_OK : unexpected(p, "the end of the type");
}
