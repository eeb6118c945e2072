/* SPDX-License-Identifier: MIT
 * Dims: arithmetic with checks, proofs of equality, broadcasting, printing, labels for messages.
 *
 * A dim written with `/` is a floor division plus a DIM_DIVIDES check that is tested when the graph
 * runs. Proofs may use it: where b divides a, the atom a//b is the rational a/b, so a difference
 * `c*(a//b) + r` is 0 exactly when `c*a + r*b` is. Eliminating each such atom leaves a polynomial
 * that is 0 if and only if the two sides are equal for all sizes that pass the checks.
 */
#include "graph/internal.h"

/* Expressions of fuzzed texts must not explode when they are multiplied out. */
#define MAX_TERMS   128
#define MAX_FACTORS 32
#define MAX_NODES   512

static int terms_of(const struct sx_pool *p, sx e) {
    return sx_kind(p, e) == SX_ADD ? sx_args(p, e) : 1;
}

static int factors_of(const struct sx_pool *p, sx e) {
    if (sx_kind(p, e) == SX_MUL) return sx_args(p, e);
    if (sx_kind(p, e) != SX_ADD) return 1;
    int most = 1;
    for (int i = 0; i < sx_args(p, e); i++) {
        sx t = sx_arg(p, e, i);
        int n = sx_kind(p, t) == SX_MUL ? sx_args(p, t) : 1;
        if (n > most) most = n;
    }
    return most;
}

/* Is e a sum of products of atoms, all the way down, and small? The pool keeps a product as one
 * atom where it could not expand it: such sizes are refused. */
static bool is_plain(const struct sx_pool *p, sx e, int *budget) {
    enum sx_kind k = sx_kind(p, e);
    if (--*budget < 0) return false;
    if (k == SX_CONST || k == SX_SYM || k == SX_VAR || k == SX_LOOK) return true;
    for (int i = 0; i < sx_args(p, e); i++) {
        sx x = sx_arg(p, e, i);
        enum sx_kind inner = sx_kind(p, x);
        if (inner == SX_ADD && (k == SX_ADD || k == SX_MUL)) return false;
        if (inner == SX_MUL && k == SX_MUL) return false;
        if (inner == SX_CONST && k == SX_MUL && i + 1 < sx_args(p, e)) return false;
        if (!is_plain(p, x, budget)) return false;
    }
    return true;
}

static bool add_fits(int64_t a, int64_t b) {
    return b >= 0 ? a <= INT64_MAX - b : a >= INT64_MIN - b;
}

static bool mul_fits(int64_t a, int64_t b) {
    if (a == 0 || b == 0) return true;
    if (a == INT64_MIN || b == INT64_MIN) return a == 1 || b == 1;
    int64_t x = a < 0 ? -a : a, y = b < 0 ? -b : b;
    return x <= INT64_MAX / y;
}

static bool const_op_fits(char op, int64_t x, int64_t y) {
    switch (op) {
    case '+': return add_fits(x, y);
    case '-': return y != INT64_MIN && add_fits(x, -y);
    case '*': return mul_fits(x, y);
    default: return true;
    }
}

bool dim_op(struct graph *g, char op, sx a, sx b, sx *out) {
    struct sx_pool *p = g->sx;
    int64_t x = 0, y = 0;
    bool ca = sx_is_const(p, a, &x), cb = sx_is_const(p, b, &y);
    if ((op == '/' || op == '%') && cb && y <= 0) return false;
    if (ca && cb && !const_op_fits(op, x, y)) return false;
    int ta = terms_of(p, a), tb = terms_of(p, b);
    if (op == '*' && (ta * tb > MAX_TERMS || factors_of(p, a) + factors_of(p, b) > MAX_FACTORS))
        return false;
    if (op != '*' && ta + tb > MAX_TERMS) return false;
    switch (op) {
    case '+': *out = sx_add(p, a, b); break;
    case '-': *out = sx_sub(p, a, b); break;
    case '*': *out = sx_mul(p, a, b); break;
    case '/': *out = sx_div(p, a, b); break;
    default: *out = sx_mod(p, a, b); break;
    }
    return dim_is_plain(p, *out);
}

bool dim_is_plain(const struct sx_pool *p, sx e) {
    int budget = MAX_NODES;
    return e != 0 && is_plain(p, e, &budget) && terms_of(p, e) <= MAX_TERMS &&
           factors_of(p, e) <= MAX_FACTORS;
}

bool dims_count(struct graph *g, int rank, const sx *dims, sx *out) {
    int64_t c = 1, v;
    sx symbolic = sx_const(g->sx, 1);
    for (int i = 0; i < rank; i++) {
        if (sx_is_const(g->sx, dims[i], &v) && v == 0) {
            *out = sx_const(g->sx, 0);
            return *out != 0;
        }
    }
    for (int i = 0; i < rank; i++) {
        if (sx_is_const(g->sx, dims[i], &v)) {
            if (!mul_fits(c, v)) return false;
            c *= v;
        } else if (!dim_op(g, '*', symbolic, dims[i], &symbolic)) {
            return false;
        }
    }
    return dim_op(g, '*', symbolic, sx_const(g->sx, c), out);
}

enum proem_status graph_check_dims(struct graph *g, const struct place *at,
                                   enum dim_check_kind kind, sx a, sx b) {
    for (size_t i = 0; i < g->checks.n; i++) {
        const struct dim_check *c = &g->checks.at[i];
        if (c->kind == kind && c->a == a && c->b == b) return PROEM_OK;
    }
    struct dim_check c = {.kind = kind, .a = a, .b = b};
    if (at != NULL) {
        c.line = at->line;
        c.col = at->col;
    }
    return VEC_PUSH(g->arena, &g->checks, c) ? PROEM_OK : place_nomem(at);
}

/* Is the quotient a // b less `rest` the atom t, x // y, because (a - b * rest) / b is x / y? */
static bool reduces_to(struct sx_pool *p, sx t, sx rest, sx a, sx b) {
    if (sx_kind(p, t) != SX_DIV) return false;
    sx left = sx_mul(p, sx_arg(p, t, 0), b);
    sx right = sx_mul(p, sx_arg(p, t, 1), sx_sub(p, a, sx_mul(p, b, rest)));
    return left != 0 && left == right;
}

/* q is a // b: where it is x // y of the same ratio, or a sum of that and whole sizes, its exactness
 * is that of x / y, which the quotient's own form says and is printed as. */
static void reduce_ratio(struct sx_pool *p, sx q, sx *a, sx *b) {
    int n = sx_kind(p, q) == SX_ADD ? sx_args(p, q) : 1;
    for (int i = 0; i < n; i++) {
        sx t = n > 1 ? sx_arg(p, q, i) : q;
        if (!reduces_to(p, t, sx_sub(p, q, t), *a, *b)) continue;
        *a = sx_arg(p, t, 0);
        *b = sx_arg(p, t, 1);
        return;
    }
}

sx dims_divide(struct graph *g, const struct place *at, sx a, sx b) {
    int64_t x, y;
    if (sx_is_const(g->sx, b, &y)) {
        if (y <= 0) return 0;
        if (sx_is_const(g->sx, a, &x)) return x % y == 0 ? sx_const(g->sx, x / y) : 0;
        sx exact = sx_exact_div(g->sx, a, b);
        if (exact != 0) return exact;
    }
    if (a == b) return sx_const(g->sx, 1);
    sx q;
    if (!dim_op(g, '/', a, b, &q)) return 0;
    reduce_ratio(g->sx, q, &a, &b);
    return graph_check_dims(g, at, DIM_DIVIDES, a, b) == PROEM_OK ? q : 0;
}

/* A positive multiple of e in which the exact quotients are eliminated; 0 if that got too large. */
static sx eliminate(struct graph *g, sx e) {
    sx coef, rest, x, y, zero = sx_const(g->sx, 0);
    for (size_t i = g->checks.n; i-- > 0 && e != 0;) {
        const struct dim_check c = g->checks.at[i];
        if (c.kind != DIM_DIVIDES) continue;
        sx q = sx_div(g->sx, c.a, c.b), r = sx_mod(g->sx, c.a, c.b);
        if (r != 0 && sx_kind(g->sx, r) == SX_MOD && sx_has(g->sx, e, r))
            e = sx_subst(g->sx, e, &r, &zero, 1);
        if (q == 0 || e == 0 || sx_kind(g->sx, q) != SX_DIV || !sx_has(g->sx, e, q)) continue;
        if (!sx_linear(g->sx, e, q, &coef, &rest)) continue;
        if (!dim_op(g, '*', coef, c.a, &x) || !dim_op(g, '*', rest, c.b, &y)) return 0;
        if (!dim_op(g, '+', x, y, &e)) return 0;
    }
    return e;
}

bool dims_same(struct graph *g, sx a, sx b) {
    int64_t v;
    if (a == b) return true;
    if (sx_is_const(g->sx, a, &v) && sx_is_const(g->sx, b, &v)) return false;
    sx d;
    if (g->checks.n == 0 || !dim_op(g, '-', a, b, &d)) return false;
    d = eliminate(g, d);
    return d != 0 && sx_is_const(g->sx, d, &v) && v == 0;
}

bool dims_le(struct graph *g, sx a, sx b) {
    sx d;
    if (a == b || sx_proves_le(g->sx, a, b)) return true;
    if (g->checks.n == 0 || !dim_op(g, '-', b, a, &d)) return false;
    d = eliminate(g, d);
    return d != 0 && sx_is_nonneg(g->sx, d);
}

bool dims_broadcast(struct graph *g, int ra, const sx *a, int rb, const sx *b, int *rank, sx *out) {
    int r = ra > rb ? ra : rb;
    int64_t x, y;
    sx dims[MAX_RANK];
    for (int i = 0; i < r; i++) {
        int ia = i - (r - ra), ib = i - (r - rb);
        if (ia < 0 || ib < 0) {
            dims[i] = ia < 0 ? b[ib] : a[ia];
            continue;
        }
        bool one_a = sx_is_const(g->sx, a[ia], &x) && x == 1;
        bool one_b = sx_is_const(g->sx, b[ib], &y) && y == 1;
        if (one_a || (!one_b && !dims_same(g, a[ia], b[ib]))) {
            if (!one_a) return false;
            dims[i] = b[ib];
        } else {
            dims[i] = a[ia];
        }
    }
    for (int i = 0; i < r; i++)
        out[i] = dims[i];
    *rank = r;
    return true;
}

/* ---- printing -------------------------------------------------------------------------------- */

bool dim_divides(const struct graph *g, sx a, sx b) {
    for (size_t i = 0; i < g->checks.n; i++) {
        const struct dim_check *c = &g->checks.at[i];
        if (c->kind == DIM_DIVIDES && c->a == a && c->b == b) return true;
    }
    return false;
}

static void parenthesise(const struct graph *g, sx e, bool parens, struct str *out) {
    if (parens) str_add(out, "(");
    dim_print(g, e, out);
    if (parens) str_add(out, ")");
}

static bool is_atom(enum sx_kind k) {
    return k == SX_CONST || k == SX_SYM || k == SX_VAR || k == SX_LOOK;
}

/* A term; `positive` leaves out the sign of a negative coefficient. */
static void term_print(const struct graph *g, sx e, bool positive, struct str *out) {
    int64_t c;
    if (sx_is_const(g->sx, e, &c)) {
        if (positive && c < 0)
            str_printf(out, "%llu", 0ULL - (unsigned long long)c);
        else
            str_printf(out, "%lld", (long long)c);
        return;
    }
    if (sx_kind(g->sx, e) != SX_MUL) {
        dim_print(g, e, out);
        return;
    }
    int n = sx_args(g->sx, e);
    bool has_coef = sx_is_const(g->sx, sx_arg(g->sx, e, n - 1), &c);
    if (!has_coef) c = 1;
    if (c < 0 && !positive) str_add(out, "-");
    for (int i = 0; i < n - (has_coef ? 1 : 0); i++) {
        sx f = sx_arg(g->sx, e, i);
        if (i > 0) str_add(out, "*");
        parenthesise(g, f, !is_atom(sx_kind(g->sx, f)), out);
    }
    unsigned long long size = c < 0 ? 0ULL - (unsigned long long)c : (unsigned long long)c;
    if (size != 1) str_printf(out, "*%llu", size);
}

static bool term_is_negative(const struct graph *g, sx e) {
    int64_t c;
    if (sx_is_const(g->sx, e, &c)) return c < 0;
    if (sx_kind(g->sx, e) != SX_MUL) return false;
    return sx_is_const(g->sx, sx_arg(g->sx, e, sx_args(g->sx, e) - 1), &c) && c < 0;
}

static void sum_print(const struct graph *g, sx e, struct str *out) {
    for (int i = 0; i < sx_args(g->sx, e); i++) {
        sx t = sx_arg(g->sx, e, i);
        bool negative = i > 0 && term_is_negative(g, t);
        if (i > 0) str_add(out, negative ? " - " : " + ");
        term_print(g, t, negative, out);
    }
}

void dim_print(const struct graph *g, sx e, struct str *out) {
    if (e == 0) { /* memory ran out */
        str_add(out, "?");
        return;
    }
    switch (sx_kind(g->sx, e)) {
    case SX_SYM: name_print(sx_name(g->sx, e), out); return;
    case SX_ADD: sum_print(g, e, out); return;
    case SX_DIV:
    case SX_MOD: {
        sx a = sx_arg(g->sx, e, 0), b = sx_arg(g->sx, e, 1);
        bool mod = sx_kind(g->sx, e) == SX_MOD;
        int64_t v;
        bool negative = term_is_negative(g, a);
        parenthesise(g, a, sx_kind(g->sx, a) == SX_ADD || negative, out);
        str_add(out, mod ? "%" : dim_divides(g, a, b) ? "/" : "//");
        parenthesise(g, b, sx_kind(g->sx, b) != SX_SYM && !sx_is_const(g->sx, b, &v), out);
        return;
    }
    case SX_VAR: str_add(out, sx_name(g->sx, e)); return;
    case SX_LOOK: str_printf(out, "@%u", sx_key(g->sx, e)); return;
    case SX_CONST:
    case SX_MUL: term_print(g, e, false, out); return;
    }
}

void dims_print(const struct graph *g, int rank, const sx *dims, struct str *out) {
    str_add(out, "[");
    for (int i = 0; i < rank; i++) {
        if (i > 0) str_add(out, ", ");
        dim_print(g, dims[i], out);
    }
    str_add(out, "]");
}

void type_print(const struct graph *g, enum dtype d, int rank, const sx *dims, struct str *out) {
    str_add(out, dtype_name(d));
    dims_print(g, rank, dims, out);
}

void value_type_print(const struct graph *g, value_id v, struct str *out) {
    const struct value *x = graph_value(g, v);
    type_print(g, x->dtype, x->rank, x->dims, out);
}

/* ---- labels ---------------------------------------------------------------------------------- */

static const char *kept(struct graph *g, struct str *s) {
    const char *text = s->failed ? NULL : arena_strdup(g->arena, str_text(s));
    str_free(s);
    return text != NULL ? text : "?";
}

static void name_of(const struct graph *g, value_id v, struct str *out) {
    const struct value *x = graph_value(g, v);
    const struct node *n = graph_def(g, v);
    char buf[32];
    if (x->named) {
        name_print(x->name, out);
    } else if (n->op != OP_CONST) {
        str_printf(out, "%s(..)", op_text_name(n->op));
    } else if (x->dtype == DT_BOOL) {
        str_add(out, n->constant.i != 0 ? "true" : "false");
    } else if (dtype_is_float(x->dtype)) {
        str_add(out, fmt_double(buf, n->constant.f));
    } else {
        str_printf(out, x->dtype == DT_U64 ? "%llu" : "%lld", (unsigned long long)n->constant.i);
    }
}

const char *label_name(struct graph *g, value_id v) {
    struct str s;
    str_init(&s, g->arena->alloc);
    name_of(g, v, &s);
    return kept(g, &s);
}

const char *label(struct graph *g, value_id v) {
    struct str s;
    str_init(&s, g->arena->alloc);
    name_of(g, v, &s);
    str_add(&s, " ");
    value_type_print(g, v, &s);
    return kept(g, &s);
}

const char *label_dims(struct graph *g, int rank, const sx *dims) {
    struct str s;
    str_init(&s, g->arena->alloc);
    dims_print(g, rank, dims, &s);
    return kept(g, &s);
}

const char *label_dim(struct graph *g, sx e) {
    struct str s;
    str_init(&s, g->arena->alloc);
    dim_print(g, e, &s);
    return kept(g, &s);
}
