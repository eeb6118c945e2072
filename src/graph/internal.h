/* SPDX-License-Identifier: MIT
 * What the files of the graph module share and nobody else sees: signatures, type inference, name
 * tables, labels for messages, the lexer's tokens.
 */
#ifndef PROEM_GRAPH_INTERNAL_H
#define PROEM_GRAPH_INTERNAL_H

#include "graph/graph.h"

/* ---- signatures (signature.c) ---------------------------------------------------------------- */

/* What a parameter of an operator is, and where its value goes. */
enum par_kind {
    PAR_VALUE,   /* an operand */
    PAR_VALUES,  /* any number of operands, at least one */
    PAR_DTYPE,   /* attrs.dtype */
    PAR_AXIS,    /* attrs.axis */
    PAR_AXES,    /* attrs.axes */
    PAR_PERM,    /* attrs.perm */
    PAR_DIMS,    /* attrs.list */
    PAR_LOW,     /* attrs.list, pad */
    PAR_HIGH,    /* attrs.list2, pad */
    PAR_PARTS,   /* attrs.n_parts or attrs.list */
    PAR_START,   /* attrs.start */
    PAR_STOP,    /* attrs.stop */
    PAR_STEP,    /* attrs.step */
    PAR_K,       /* attrs.k */
    PAR_SIZE,    /* attrs.start: the expression of `dim` */
    PAR_BLOCK,   /* attrs.block */
    PAR_P0,      /* attrs.param[0] */
    PAR_P1,      /* attrs.param[1] */
    PAR_FLAG,    /* attrs.flag */
    PAR_IMPLIED, /* attrs.implied, internal */
    PAR_APPROX,  /* "none" or "tanh": GELU or GELU_TANH */
    PAR_NUMBER   /* the constant of `const` */
};

enum par_flag {
    PARF_NAMED = 1,   /* given by name */
    PARF_OPT = 2,     /* may be left out and has no default: `?`, out, dtype, stop .. */
    PARF_DEFAULT = 4, /* has a default */
    PARF_INTERNAL = 8 /* only in the dumps of passes */
};

struct par {
    const char *name;
    enum par_kind kind;
    unsigned flags;
    double value; /* the default: a number, an axis, 0 or 1 */
};

/* The parameters of an operator, in the order of the tables; n is 0 for param. */
const struct par *signature(enum op op, int *n);
/* Largest number of operands, -1 if any number; and the least. */
int signature_max_inputs(enum op op);
int signature_min_inputs(enum op op);
/* The operator's name in the text: gelu for GELU_TANH. */
const char *op_text_name(enum op op);
/* The operator for a name of the text; internal: those of lowered graphs too. */
enum op op_from_text(const char *s, size_t n, bool internal);
/* The operator's name that a mistyped one is likely to mean, or NULL. */
const char *op_near_text(const char *s, size_t n);

/* ---- name tables (names.c) ------------------------------------------------------------------- */

/* A hash table from names to numbers, in an arena. */
struct names {
    struct arena *arena;
    struct name_slot *slots;
    size_t n, cap;
};
bool names_add(struct names *t, const char *key, size_t n, uint32_t value); /* false: no memory */
bool names_get(const struct names *t, const char *key, size_t n, uint32_t *value);

/* ---- types and inference (infer*.c) -----------------------------------------------------------
 */

struct type {
    enum dtype dtype;
    int rank;
    sx dims[MAX_RANK];
};

/* One application: operands in, normalised attributes and result types out. */
struct infer {
    struct graph *g;
    const struct place *at;
    enum op op;
    int n_in;
    const value_id *in;
    struct attrs *a;
    int n_out;
    struct type *out; /* n_out entries, in the graph's arena */
};

enum proem_status infer_types(struct infer *x);
/* The families that infer_types chooses from. */
enum proem_status infer_layout(struct infer *x);
enum proem_status infer_slices(struct infer *x);
enum proem_status infer_indexed(struct infer *x);
enum proem_status infer_reduction(struct infer *x);
enum proem_status infer_contraction(struct infer *x);
enum proem_status infer_quant(struct infer *x);

/* Helpers of the families. */
enum proem_status infer_fail(const struct infer *x, const char *format, ...) PRINTF_LIKE(2, 3);
const struct value *infer_in(const struct infer *x, int i); /* NULL if it is left out */
/* Make n results of the given dtype and of operand 0's shape (rank 0 without operands). */
enum proem_status infer_results(struct infer *x, int n, enum dtype d);
/* Normalise one axis against a rank; `what` names it in the message. */
enum proem_status infer_axis(const struct infer *x, const char *what, int rank, int *axis);
/* Sort, normalise and check attrs.axes against operand 0. */
enum proem_status infer_axes(const struct infer *x);
/* The dtype of an operand in arithmetic, an error for f8, f4, e8m0. */
enum proem_status infer_arith(const struct infer *x, int i, enum dtype *d);
/* dtype of a product (contract: promoted, i32 for small integers, f32 for f8 and f4, or `out`). */
enum proem_status infer_product_dtype(const struct infer *x, int i, int j, enum dtype *d);

/* Literals: folding (0 when op does not fold them) and the dtype beside other operands. */
bool literal_folds(const struct graph *g, enum op op, int n, const value_id *in);
value_id literal_fold(struct graph *g, const struct place *at, enum op op, int n,
                      const value_id *in);
enum proem_status literals_resolve(struct graph *g, const struct place *at, enum op op, int n,
                                   value_id *in, const struct attrs *attrs);
/* The constant that a literal becomes; d may be DT_NONE (standing alone). */
value_id literal_const(struct graph *g, const struct place *at, value_id literal, enum dtype d);
bool is_literal(const struct graph *g, value_id v);

/* ---- building (build.c) ------------------------------------------------------------------------
 */

enum proem_status place_fail(const struct place *at, const char *format, ...) PRINTF_LIKE(2, 3);
enum proem_status place_nomem(const struct place *at);
value_id graph_append(struct graph *g, const struct place *at, const struct node *n,
                      const struct type *types);
enum proem_status hooks_check(struct graph *g, const struct place *at,
                              const struct hook hooks[HOOK_COUNT]);
extern const char *const hook_names[HOOK_COUNT];
int hook_args(enum hook_kind k); /* s b h i j: 5, mask 4 */

/* ---- dims and labels (dims.c) ------------------------------------------------------------------
 */

/* Arithmetic with a check of overflow and of division by 0; false if not defined. */
bool dim_op(struct graph *g, char op, sx a, sx b, sx *out);
/* Is e what dim_op makes: a sum of products that is small enough to be worked with and printed? */
bool dim_is_plain(const struct sx_pool *p, sx e);
/* Number of elements; false if it does not fit 63 bits. */
bool dims_count(struct graph *g, int rank, const sx *dims, sx *out);
/* a / b when b is proved to divide a, or when a run-time check can say so; 0 if it does not. */
sx dims_divide(struct graph *g, const struct place *at, sx a, sx b);
/* Proofs that use the DIM_DIVIDES checks. */
bool dims_le(struct graph *g, sx a, sx b);
/* Whether a check says that b divides a: a / b is exact then. */
bool dim_divides(const struct graph *g, sx a, sx b);
void dim_print(const struct graph *g, sx e, struct str *out);
void dims_print(const struct graph *g, int rank, const sx *dims, struct str *out);
void type_print(const struct graph *g, enum dtype d, int rank, const sx *dims, struct str *out);
/* For messages, in the arena ("?" when memory is out): `x bf16[M, 4096]`, `bf16[..]`, `x`. */
const char *label(struct graph *g, value_id v);
const char *label_name(struct graph *g, value_id v);
const char *label_dims(struct graph *g, int rank, const sx *dims);
const char *label_dim(struct graph *g, sx e);

/* ---- text (lex.c, parse*.c, print*.c) ----------------------------------------------------------
 */

enum token_kind {
    TOK_END,
    TOK_NEWLINE, /* outside brackets */
    TOK_NAME,
    TOK_INT,
    TOK_FLOAT,
    TOK_STRING,
    TOK_PUNCT
};

/* Two-character punctuation is coded as both characters: '=' << 8 | '='. */
#define PUNCT2(a, b) ((unsigned)(a) << 8 | (unsigned)(b))

struct token {
    enum token_kind kind;
    bool quoted; /* a name in backquotes */
    unsigned punct;
    int line, col;
    const char *text; /* names and strings: NUL-terminated; numbers: in the source */
    uint32_t n;
};

struct lexed {
    VEC(struct token) tokens; /* ends with TOK_END */
    VEC(struct comment) comments;
    VEC(uint32_t) comment_at; /* for each comment the index of the token that follows it */
};

enum proem_status lex(struct arena *a, const char *text, size_t n, struct lexed *out,
                      struct err *e);
/* Must this name be in backquotes? */
bool name_needs_quotes(const char *s);
void name_print(const char *s, struct str *out);

#endif
