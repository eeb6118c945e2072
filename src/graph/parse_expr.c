/* SPDX-License-Identifier: MIT
 * Expressions: precedence climbing (Richards; Pratt) over values, and the smaller grammar of dims.
 *
 * Loosest first: not; comparisons, which do not chain; |; ^; &; << >>; + -; * / // %; unary - ~;
 * **. Values are built on the way, operands left to right.
 */
#include "graph/parse.h"

#include <math.h>
#include <string.h>

/* ---- numbers --------------------------------------------------------------------------------- */

static bool is_number_word(const struct token *t) {
    return is_word(t, "inf") || is_word(t, "nan");
}

bool starts_number(const struct token *t) {
    return t->kind == TOK_INT || t->kind == TOK_FLOAT || is_number_word(t);
}

static enum proem_status parse_digits(const struct parser *p, const struct token *t,
                                      uint64_t *out) {
    uint64_t v = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        uint64_t digit = (uint64_t)(t->text[i] - '0');
        if (v > (UINT64_MAX - digit) / 10)
            return fail_at(p, t,
                           "%.40s is too large for any integer dtype; write a float, as in 1e20",
                           t->text);
        v = 10 * v + digit;
    }
    *out = v;
    return PROEM_OK;
}

enum proem_status parse_number(struct parser *p, enum dtype *d, union scalar *v) {
    bool negative = accept(p, '-');
    const struct token *t = peek(p);
    if (!negative && (is_word(t, "true") || is_word(t, "false"))) {
        *d = DT_BOOL;
        v->i = is_word(t, "true");
    } else if (t->kind == TOK_INT) {
        uint64_t u = 0;
        TRY(parse_digits(p, t, &u));
        *d = u > (uint64_t)INT64_MAX && !negative ? DT_U64 : DT_I64;
        if (negative && u > (uint64_t)INT64_MAX + 1)
            return fail_at(p, t, "-%s is too small for any integer dtype", t->text);
        u = negative ? 0 - u : u;
        memcpy(&v->i, &u, sizeof u);
    } else if (t->kind == TOK_FLOAT || is_number_word(t)) {
        double f = is_word(t, "inf")   ? (double)INFINITY
                   : is_word(t, "nan") ? (double)NAN
                                       : parse_double(t->text, NULL);
        *d = DT_F64;
        v->f = negative ? -f : f;
    } else {
        return unexpected(p, "a number");
    }
    p->pos++;
    return PROEM_OK;
}

/* ---- dims ------------------------------------------------------------------------------------ */

static enum proem_status dim_fail(struct parser *p, const struct token *t, char op, sx a, sx b) {
    if ((op == '/' || op == '%') && b != 0) {
        int64_t v;
        if (sx_is_const(p->g->sx, b, &v) && v <= 0)
            return fail_at(p, t, "division by %lld in a dim; the divisor must be positive",
                           (long long)v);
    }
    return fail_at(p, t, "%s %s %s is too large for a dim", label_dim(p->g, a), describe(p, t),
                   label_dim(p->g, b));
}

static enum proem_status dim_sum(struct parser *p, sx *out);

static enum proem_status dim_factor(struct parser *p, sx *out) {
    const struct token *t = peek(p);
    if (accept(p, '-')) {
        TRY(enter(p));
        TRY(dim_factor(p, out));
        p->depth--;
        sx zero = sx_const(p->g->sx, 0);
        return dim_op(p->g, '-', zero, *out, out) ? PROEM_OK : dim_fail(p, t, '-', zero, *out);
    }
    if (accept(p, '(')) {
        TRY(enter(p));
        TRY(dim_sum(p, out));
        p->depth--;
        return expect(p, ')', "in a dim");
    }
    if (t->kind == TOK_INT) {
        uint64_t u = 0;
        TRY(parse_digits(p, t, &u));
        if (u > (uint64_t)INT64_MAX) return fail_at(p, t, "%s is too large for a dim", t->text);
        *out = sx_const(p->g->sx, (int64_t)u);
        p->pos++;
        return *out != 0 ? PROEM_OK : parser_nomem(p);
    }
    if (t->kind != TOK_NAME)
        return unexpected(p, "an integer, a symbol or an expression over them");
    TRY(expect_name(p, "a symbol", &t));
    *out = sx_sym(p->g->sx, t->text);
    return *out != 0 ? PROEM_OK : parser_nomem(p);
}

static enum proem_status dim_product(struct parser *p, sx *out) {
    TRY(dim_factor(p, out));
    for (;;) {
        const struct token *t = peek(p);
        sx right;
        char op = is_punct(t, '*') ? '*' : is_punct(t, '%') ? '%' : '/';
        bool exact = is_punct(t, '/');
        if (op == '/' && !exact && !is_punct(t, PUNCT2('/', '/'))) return PROEM_OK;
        p->pos++;
        TRY(dim_factor(p, &right));
        if (!exact) {
            sx left = *out;
            if (!dim_op(p->g, op, left, right, out)) return dim_fail(p, t, op, left, right);
            continue;
        }
        struct place at = place_of(p, t);
        sx q = dims_divide(p->g, &at, *out, right);
        if (q == 0 && p->e->status != PROEM_OK) return p->e->status;
        if (q == 0)
            return fail_at(p, t, "%s does not divide %s; `/` must divide exactly, `//` rounds down",
                           label_dim(p->g, right), label_dim(p->g, *out));
        *out = q;
    }
}

static enum proem_status dim_sum(struct parser *p, sx *out) {
    TRY(dim_product(p, out));
    for (;;) {
        const struct token *t = peek(p);
        char op = is_punct(t, '+') ? '+' : '-';
        if (op == '-' && !is_punct(t, '-')) return PROEM_OK;
        p->pos++;
        sx left = *out, right;
        TRY(dim_product(p, &right));
        if (!dim_op(p->g, op, left, right, out)) return dim_fail(p, t, op, left, right);
    }
}

enum proem_status parse_dim(struct parser *p, sx *out) {
    return dim_sum(p, out);
}

enum proem_status parse_dims(struct parser *p, int *n, sx *list) {
    const struct token *t = peek(p);
    TRY(expect(p, '[', "before a list"));
    *n = 0;
    while (!is_punct(peek(p), ']')) {
        if (*n == MAX_RANK) return fail_at(p, t, "the list has more than %d entries", MAX_RANK);
        TRY(parse_dim(p, &list[*n]));
        ++*n;
        if (!accept(p, ',')) break;
    }
    return expect(p, ']', "after the list");
}

enum proem_status parse_dtype(struct parser *p, enum dtype *out) {
    const struct token *t = peek(p);
    if (t->kind != TOK_NAME || t->quoted) return unexpected(p, "a dtype");
    *out = dtype_from_name(t->text, t->n);
    if (*out == DT_NONE)
        return fail_at(p, t,
                       "`%s` is no dtype; there are f64 f32 f16 bf16 f8e4m3fn f8e5m2 f4e2m1fn "
                       "e8m0, i64 .. i2, u64 .. u2, bool",
                       t->text);
    p->pos++;
    return PROEM_OK;
}

enum proem_status parse_type(struct parser *p, enum dtype *d, int *rank, sx *dims) {
    TRY(parse_dtype(p, d));
    if (!is_punct(peek(p), '['))
        return fail_at(p, peek(p), "expected `[` after the dtype, found %s; a scalar is %s[]",
                       describe(p, peek(p)), dtype_name(*d));
    return parse_dims(p, rank, dims);
}

/* ---- values ---------------------------------------------------------------------------------- */

static enum proem_status apply(struct parser *p, const struct token *t, enum op op, value_id a,
                               value_id b, value_id *out) {
    struct place at = place_of(p, t);
    value_id in[2] = {a, b};
    *out = graph_apply(p->g, &at, op, b != 0 ? 2 : 1, in, NULL);
    return *out != 0 ? PROEM_OK : failed(p);
}

static enum proem_status literal(struct parser *p, value_id *out) {
    const struct token *t = peek(p);
    enum dtype d;
    union scalar v;
    TRY(parse_number(p, &d, &v));
    struct place at = place_of(p, t);
    *out = graph_literal(p->g, &at, d, v);
    return *out != 0 ? PROEM_OK : failed(p);
}

static bool is_symbol(const struct parser *p, const char *name) {
    for (int i = 0; i < sx_symbols(p->g->sx); i++)
        if (strcmp(sx_name(p->g->sx, sx_symbol_at(p->g->sx, i)), name) == 0) return true;
    return false;
}

static enum proem_status name(struct parser *p, value_id *out) {
    const struct token *t;
    TRY(expect_name(p, "a value", &t));
    struct names *names = p->hook != NULL ? &p->hook->names : &p->names;
    if (names_get(names, t->text, t->n, out)) return PROEM_OK;
    if (p->hook != NULL) return hook_name(p, t, false, out);
    if (is_symbol(p, t->text))
        return fail_at(p, t, "`%s` is a symbol, not a value; only dims, lists and hooks can use it",
                       t->text);
    return fail_at(p, t, "no value is called `%s`; bind it or make it a parameter first", t->text);
}

static enum proem_status primary(struct parser *p, value_id *out) {
    const struct token *t = peek(p);
    if (starts_number(t) || is_word(t, "true") || is_word(t, "false")) return literal(p, out);
    if (accept(p, '(')) {
        TRY(enter(p));
        TRY(parse_expr(p, out));
        p->depth--;
        return expect(p, ')', "after the expression");
    }
    if (is_word(t, "not"))
        return fail_at(p, t, "`not` binds loosest; put `(not ..)` in parentheses here");
    if (t->kind == TOK_STRING)
        return fail_at(p, t, "text is no value; only approximate=\"tanh\" and sources take it");
    if (t->kind != TOK_NAME) return unexpected(p, "an expression");
    if (!t->quoted && is_punct(peek_at(p, 1), '(')) {
        TRY(enter(p));
        TRY(parse_call(p, 1, false, out));
        p->depth--;
        return PROEM_OK;
    }
    return name(p, out);
}

static enum proem_status unary(struct parser *p, value_id *out);

static enum proem_status power(struct parser *p, value_id *out) {
    value_id right;
    TRY(primary(p, out));
    const struct token *t = peek(p);
    if (!accept(p, PUNCT2('*', '*'))) return PROEM_OK;
    TRY(enter(p));
    TRY(unary(p, &right));
    p->depth--;
    return apply(p, t, OP_POW, *out, right, out);
}

static enum proem_status unary(struct parser *p, value_id *out) {
    const struct token *t = peek(p);
    bool minus = is_punct(t, '-');
    if (!minus && !is_punct(t, '~')) return power(p, out);
    if (minus && starts_number(peek_at(p, 1)) && !is_punct(peek_at(p, 2), PUNCT2('*', '*')))
        return literal(p, out);
    p->pos++;
    TRY(enter(p));
    TRY(unary(p, out));
    p->depth--;
    return apply(p, t, minus ? OP_NEG : OP_BITWISE_NOT, *out, 0, out);
}

/* Level of an infix operator, 0 if it is none: 1 comparison .. 7 product. */
static int infix(const struct token *t, enum op *op) {
    static const struct {
        unsigned punct;
        int level;
        enum op op;
    } table[] = {
        {PUNCT2('=', '='), 1, OP_EQ},
        {PUNCT2('!', '='), 1, OP_NE},
        {'<', 1, OP_LT},
        {PUNCT2('<', '='), 1, OP_LE},
        {'>', 1, OP_GT},
        {PUNCT2('>', '='), 1, OP_GE},
        {'|', 2, OP_BITWISE_OR},
        {'^', 3, OP_BITWISE_XOR},
        {'&', 4, OP_BITWISE_AND},
        {PUNCT2('<', '<'), 5, OP_SHIFT_LEFT},
        {PUNCT2('>', '>'), 5, OP_SHIFT_RIGHT},
        {'+', 6, OP_ADD},
        {'-', 6, OP_SUB},
        {'*', 7, OP_MUL},
        {'/', 7, OP_DIV},
        {PUNCT2('/', '/'), 7, OP_FLOORDIV},
        {'%', 7, OP_MOD},
    };
    for (size_t i = 0; t->kind == TOK_PUNCT && i < COUNT_OF(table); i++) {
        if (table[i].punct != t->punct) continue;
        *op = table[i].op;
        return table[i].level;
    }
    return 0;
}

/* Operators of at least `level`, left to right. */
static enum proem_status binary(struct parser *p, int level, value_id *out) {
    bool compared = false;
    TRY(unary(p, out));
    for (;;) {
        enum op op;
        value_id right;
        const struct token *t = peek(p);
        int l = infix(t, &op);
        if (l == 0 || l < level) return PROEM_OK;
        if (l == 1 && compared)
            return fail_at(p, t, "comparisons do not chain; write (a < b) & (b < c)");
        compared = l == 1;
        p->pos++;
        TRY(binary(p, l + 1, &right));
        TRY(apply(p, t, op, *out, right, out));
    }
}

enum proem_status parse_expr(struct parser *p, value_id *out) {
    const struct token *t = peek(p);
    if (!is_word(t, "not")) return binary(p, 1, out);
    p->pos++;
    TRY(enter(p));
    TRY(parse_expr(p, out));
    p->depth--;
    return apply(p, t, OP_LOGICAL_NOT, *out, 0, out);
}
