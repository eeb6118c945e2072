/* SPDX-License-Identifier: MIT
 * What the files of the parser share: parse.c (files, graphs, statements), parse_expr.c
 * (expressions), parse_call.c (arguments), parse_hook.c (attention's hooks).
 *
 * One pass: tokens in, graph out. Every function leaves the position behind what it read, and
 * returns a status; the message is in p->e. Recursion is bounded by the lexer's limit on brackets
 * and by p->depth.
 */
#ifndef PROEM_GRAPH_PARSE_H
#define PROEM_GRAPH_PARSE_H

#include "graph/internal.h"

#define MAX_DEPTH 512

/* The hook that is being read. */
struct hook_scope {
    enum hook_kind kind;
    struct graph *outer;
    struct names names; /* arguments and what the body binds */
    VEC(value_id) captured;
    VEC(value_id) inner; /* the parameter of the body for each captured value */
};

struct parser {
    struct arena *a;
    const char *file;
    struct lexed lx;
    uint32_t pos;
    bool internal;
    struct err *e;
    const struct place *fixed; /* where errors are when the text is only a part; else NULL */
    struct graph *g;           /* the graph, or the body of the hook */
    struct names names;
    struct hook_scope *hook;
    int depth;
    size_t comment; /* the next comment that has no place yet */
};

/* parse.c */
const struct token *peek(const struct parser *p);
const struct token *peek_at(const struct parser *p, uint32_t ahead);
bool is_punct(const struct token *t, unsigned punct);
bool is_word(const struct token *t, const char *word);
bool accept(struct parser *p, unsigned punct);
enum proem_status expect(struct parser *p, char punct, const char *after);
struct place place_of(const struct parser *p, const struct token *t);
enum proem_status fail_at(const struct parser *p, const struct token *t, const char *format, ...)
    PRINTF_LIKE(3, 4);
const char *describe(const struct parser *p, const struct token *t);
enum proem_status unexpected(const struct parser *p, const char *wanted);
enum proem_status parser_nomem(const struct parser *p);
/* The status of the error that made a builder return 0. */
enum proem_status failed(const struct parser *p);
enum proem_status enter(struct parser *p);
/* A name that the text may bind here; quoted or no reserved word. */
enum proem_status expect_name(struct parser *p, const char *what, const struct token **out);
enum proem_status bind_name(struct parser *p, const struct token *t, value_id v);
/* Statements up to `return`, and what it returns. */
enum proem_status parse_statements(struct parser *p);
void skip_breaks(struct parser *p);
/* Place the comments that stand before token `before`. */
void take_comments(struct parser *p, uint32_t before, enum comment_place place, node_id anchor,
                   int hook);
/* Place the comment behind the last token read, if it is on that line. */
void take_behind(struct parser *p, enum comment_place place, node_id anchor, int hook);

/* parse_expr.c */
enum proem_status parse_expr(struct parser *p, value_id *out);
enum proem_status parse_dim(struct parser *p, sx *out);
enum proem_status parse_dtype(struct parser *p, enum dtype *out);
enum proem_status parse_dims(struct parser *p, int *n, sx *list);
enum proem_status parse_type(struct parser *p, enum dtype *d, int *rank, sx *dims);
/* A number with its sign: i64, u64 (above the i64 range), f64 or bool. */
enum proem_status parse_number(struct parser *p, enum dtype *d, union scalar *v);
bool starts_number(const struct token *t);

/* parse_call.c: the call at the current position; `want` results are bound by a statement (1 in an
 * expression), which may carry hooks. */
enum proem_status parse_call(struct parser *p, int want, bool statement, value_id *out);

/* parse_hook.c */
enum proem_status parse_hooks(struct parser *p, struct hook hooks[HOOK_COUNT]);
enum proem_status parse_hook_take(struct parser *p, value_id *out);
/* A name in a hook's expression that is none of its arguments. */
enum proem_status hook_name(struct parser *p, const struct token *t, bool tensor, value_id *out);

#endif
