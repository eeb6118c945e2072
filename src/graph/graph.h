/* SPDX-License-Identifier: MIT
 * The tensor graph: what the text says, what the builder builds, what every pass reads and writes.
 *
 *   graph  = params, nodes, outputs
 *   node   = operator, input values, attributes -> one or more values
 *   value  = dtype, dims (sx), name
 *
 * Values and nodes are numbered densely from 1 in order of creation; a node's inputs have smaller
 * numbers than its outputs (the graph is in SSA form and topologically ordered by construction).
 * Everything lives in the graph's arena and is freed with it. No pointer decides an order.
 */
#ifndef PROEM_GRAPH_H
#define PROEM_GRAPH_H

#include "base/base.h"
#include "base/sx.h"
#include "ops/op.h"

#define MAX_RANK 16

typedef uint32_t value_id; /* 0: none */
typedef uint32_t node_id;  /* 0: none */

struct value {
    node_id node; /* what produces it */
    int out;      /* which of the node's results */
    enum dtype dtype;
    int rank;
    const sx *dims;   /* rank entries */
    const char *name; /* never NULL in a finished graph; auto-named values by the contract's rule */
    bool named;       /* the text gave the name */
};

/* Attributes; each operator uses the fields that its signature lists (graph/signature.c). */
struct attrs {
    enum dtype dtype; /* cast, bitcast, dequantize, quantize, iota; `out` of matmul */
    int axis;         /* normalised to >= 0 once verified */
    bool has_axis;
    int n_axes; /* sum.. flip; normalised, sorted. -1: not given (all) */
    int axes[MAX_RANK];
    int n_list;        /* reshape, expand, iota dims; pad low; split sizes */
    sx list[MAX_RANK]; /* (reshape's and expand's -1 are resolved by verification) */
    int n_list2;       /* pad high */
    sx list2[MAX_RANK];
    int perm[MAX_RANK]; /* permute */
    sx start, stop;     /* slice; normalised to 0 <= start <= stop <= dim */
    int64_t step;       /* slice; not 0 */
    sx k;               /* topk */
    int64_t block;      /* dequantize, quantize */
    double param[3];    /* p0, p1: softplus beta threshold, elu alpha, leaky_relu slope, eps,
                           pad value, clamp has its bounds as inputs; attention scale */
    bool has_param;
    bool flag;    /* keepdims, saturate, add, descending */
    bool implied; /* a cast that no text wrote: its rounding may be left out in `boundary` */
    int n_parts;  /* split: number of equal parts; 0 when list has the sizes */
};

enum hook_kind { HOOK_SCORE, HOOK_MASK, HOOK_PROB, HOOK_COUNT };

/* A scalar function of an attention call. Its body is a graph of 0-dim values. Parameters
 * 0..n_args-1 are the hook's own arguments (s|p f32, then b h i j as i64; mask has b h i j); the
 * parameters after them stand for captured values of the outer graph (of any rank, read by
 * OP_LOOKUP or by name). */
struct hook {
    struct graph *body; /* NULL when the hook is missing; shares the outer graph's sx pool */
    int n_args;
    int n_captured;
    const value_id *captured; /* outer values for body params n_args.. */
};

struct node {
    enum op op;
    int n_in, n_out;
    const value_id *in; /* 0 for an optional operand left out */
    value_id out;       /* first result; the others follow */
    struct attrs attrs;
    struct hook *hooks;    /* HOOK_COUNT entries for attention with hooks, else NULL */
    union scalar constant; /* OP_CONST: its value (dtype of the result) */
    bool weak;             /* OP_CONST: a literal whose dtype follows the other operand */
    value_id literal;      /* OP_CONST: the literal that it was made from, for printing; else 0 */
    node_id origin;        /* in a lowered graph: the node of the source graph that it came from */
    int line, col;         /* in the text, 0 if built in C */
};

struct param {
    value_id value;
    bool is_const;      /* written `const` */
    const char *source; /* "m.safetensors:KEY" or NULL */
};

struct output {
    value_id value;
    const char *name;  /* its plain name, else "out<i>" */
    value_id in_param; /* `return y in c`: the parameter whose memory it may use, else 0 */
};

/* A comment kept for fmt: text without '#', where it stood. */
enum comment_place {
    COMMENT_HEAD,          /* before the graph */
    COMMENT_OPEN,          /* behind the opening brace */
    COMMENT_BEFORE,        /* before the parameter or statement `anchor` */
    COMMENT_BEHIND,        /* behind it */
    COMMENT_RETURN,        /* before `return` */
    COMMENT_RETURN_BEHIND, /* behind it */
    COMMENT_CLOSE,         /* before the closing brace */
    COMMENT_TAIL           /* behind the closing brace, and at the file's end */
};
struct comment {
    int line;
    bool own_line; /* not behind a statement */
    const char *text;
    enum comment_place place;
    node_id anchor; /* of BEFORE and BEHIND: the statement's node, or the parameter's */
    int hook; /* of BEFORE and BEHIND inside a hook block: 1 + enum hook_kind (1 + HOOK_COUNT before
               * the closing brace), else 0 */
};

/* What has to hold between sizes when the graph runs and could not be proved while it was built:
 * `b` divides `a` (a dim written with `/`), or a <= b. */
enum dim_check_kind { DIM_DIVIDES, DIM_LE };
struct dim_check {
    enum dim_check_kind kind;
    sx a, b;
    int line, col;
};

struct graph {
    struct arena *arena; /* owned by whoever created the graph */
    struct sx_pool *sx;
    const char *name;
    const char *file;         /* for messages and for paths relative to it; may be NULL */
    VEC(struct value) values; /* values.at[0] unused */
    VEC(struct node) nodes;   /* nodes.at[0] unused */
    VEC(struct param) params;
    VEC(struct output) outputs;
    VEC(struct comment) comments;
    VEC(struct dim_check) checks; /* no two alike */
};

/* Can a name be written at all (UTF-8, no newline, no control character, not empty)? */
bool name_is_writable(const char *s);
struct graph *graph_new(struct arena *a, struct sx_pool *pool, const char *name);

static inline const struct value *graph_value(const struct graph *g, value_id v) {
    return &g->values.at[v];
}
static inline const struct node *graph_node(const struct graph *g, node_id n) {
    return &g->nodes.at[n];
}
static inline const struct node *graph_def(const struct graph *g, value_id v) {
    return &g->nodes.at[g->values.at[v].node];
}

/* ---- building (graph/build.c) ---------------------------------------------------------------- */
/* Each infers and checks the result type; an error goes to *e and gives 0. Null operands give 0, so
 * calls can be nested and the error looked at once. `at` may be NULL; it carries line, col, origin.
 */
struct place {
    int line, col;
    node_id origin;
    struct err *err;
};

value_id graph_param(struct graph *g, const struct place *at, const char *name, enum dtype d,
                     int rank, const sx *dims, bool is_const, const char *source);
/* A typed constant, 0-dim. */
value_id graph_const(struct graph *g, const struct place *at, enum dtype d, union scalar v);
/* A literal: weakly typed, d is i64, f64 or bool for the three kinds of literal. */
value_id graph_literal(struct graph *g, const struct place *at, enum dtype d, union scalar v);
/* Any operator of the contract (or an internal one). attrs may be NULL. Returns the first result.
 * Literals among the inputs are given their dtype here (a new constant of the right dtype). */
value_id graph_apply(struct graph *g, const struct place *at, enum op op, int n_in,
                     const value_id *in, const struct attrs *attrs);
value_id graph_attention(struct graph *g, const struct place *at, const value_id in[3],
                         const struct attrs *attrs, const struct hook hooks[HOOK_COUNT],
                         bool with_lse);
enum proem_status graph_name_value(struct graph *g, const struct place *at, value_id v,
                                   const char *name);
enum proem_status graph_output(struct graph *g, const struct place *at, value_id v,
                               value_id in_param);
/* attrs with every field at its operator's default. */
struct attrs attrs_default(enum op op);
/* Give names to unnamed values (contract: counted per operator from 1, inner first) and check what
 * can only be checked at the end (outputs exist, `in` types). */
enum proem_status graph_finish(struct graph *g, struct err *e);

/* Shape of broadcasting a with b; false if they do not match. out has max(rank) entries. */
bool dims_broadcast(struct graph *g, int ra, const sx *a, int rb, const sx *b, int *rank, sx *out);
/* Proved equal, taking the graph's DIM_DIVIDES checks as true (K is 2*(K/2)). */
bool dims_same(struct graph *g, sx a, sx b);
/* Record a run-time condition, unless it is there already. */
enum proem_status graph_check_dims(struct graph *g, const struct place *at,
                                   enum dim_check_kind kind, sx a, sx b);
/* The name in the tables of an operator's i-th operand ("a", "scale", ..); NULL for a variadic one.
 */
const char *graph_input_name(enum op op, int i);

/* ---- text (graph/lex.c, parse.c, print.c, verify.c) -------------------------------------------
 */

/* Parse a file's text, all graphs in it. internal: accept internal operators and attributes, as in
 * the dumps of passes. On success *out has n graphs. */
struct graph_file {
    VEC(struct graph *) graphs;
};
enum proem_status graph_parse(struct arena *a, const char *file, const char *text, size_t n,
                              bool internal, struct graph_file *out, struct err *e);
/* The rest of a call's arguments as text, e.g. "axis=1, start=0", applied to operands already
 * built: what the C builder uses. types: a parameter's type, e.g. "bf16[M, 4096]". */
value_id graph_call_text(struct graph *g, const struct place *at, const char *op, int n_in,
                         const value_id *in, const char *args);
enum proem_status graph_type_text(struct graph *g, const char *type, enum dtype *d, int *rank,
                                  sx *dims, struct err *e);
/* Canonical text: parse(print(g)) prints the same. flat: every value is a statement of its own and
 * internal attributes are shown (dumps of passes). */
void graph_print(const struct graph *g, bool flat, struct str *out);
void value_type_print(const struct graph *g, value_id v, struct str *out);
/* Check every invariant of the structure; the passes' safety net. */
enum proem_status graph_verify(const struct graph *g, struct err *e);

/* ---- sizes (graph/bind.c) ---------------------------------------------------------------------
 */

/* Values of the symbols for one run, in the order of sx_symbol_at(). */
struct dims_binding {
    int n;
    int64_t *value; /* -1: not bound */
    value_id *from; /* the parameter that bound it, for messages; 0: by name. May be NULL */
};
struct dims_binding dims_binding_new(struct arena *a, const struct graph *g);
enum proem_status dims_bind_name(const struct graph *g, struct dims_binding *b, const char *name,
                                 int64_t v, struct err *e);
/* Bind what a parameter of this shape determines: a dim that is a symbol alone, else one that is
 * linear in a single unbound symbol. Call for all parameters, then dims_check. */
enum proem_status dims_bind_param(const struct graph *g, struct dims_binding *b, value_id param,
                                  int rank, const int64_t *shape, struct err *e);
/* The value of an expression over bound symbols; false if a symbol is unbound or on overflow. */
bool dims_value(const struct graph *g, const struct dims_binding *b, sx e, int64_t *out);
/* Shape of a value under a binding. Errors name the unbound symbol, or a negative dim. */
enum proem_status dims_shape(const struct graph *g, const struct dims_binding *b, value_id v,
                             int64_t *shape, struct err *e);

/* Bind by the shapes of g->params, in their order, as long as one size leads to another; NULL for a
 * shape that is not known. */
enum proem_status dims_bind_params(const struct graph *g, struct dims_binding *b, const int *rank,
                                   const int64_t *const *shape, struct err *e);
/* Everything bound? Then: the graph's conditions hold, and each value has a shape. */
enum proem_status dims_check(const struct graph *g, const struct dims_binding *b, struct err *e);

#endif
