/* SPDX-License-Identifier: MIT
 * Walks over symbolic integers: substitution, occurrence, linear form, value and text.
 *
 * All go over the form that callers see, in which sums and products nest in // and %. Substitution
 * builds the result with the ordinary operations, so it is simplified anew at each level. sx_eval
 * does not touch the pool: threads may evaluate at the same time.
 */
#include "base/sx_pool.h"

#include <string.h>

/* ---- substitution -----------------------------------------------------------------------------
 */

struct subst {
    const sx *from, *to;
    int n;
    uint64_t mask;
    uint32_t epoch; /* simplifying may call sx_subst again, with another one */
};

static sx subst(struct sx_pool *p, const struct subst *s, sx e);

static sx subst_args(struct sx_pool *p, const struct subst *s, sx e) {
    const struct node *n = sx_node(p, e);
    sx r = subst(p, s, n->args[0]);
    for (int i = 1; i < n->n_args; i++) {
        sx a = subst(p, s, n->args[i]);
        switch (n->kind) {
        case SX_ADD: r = sx_add(p, r, a); break;
        case SX_MUL: r = sx_mul(p, r, a); break;
        case SX_DIV: r = sx_div(p, r, a); break;
        case SX_MOD: r = sx_mod(p, r, a); break;
        case SX_CONST:
        case SX_SYM:
        case SX_VAR:
        case SX_LOOK: break;
        }
    }
    return r;
}

static sx subst(struct sx_pool *p, const struct subst *s, sx e) {
    const struct node *n = sx_node(p, e);
    if ((n->mask & s->mask) == 0) return e;
    for (int i = 0; i < s->n; i++)
        if (s->from[i] == e) return s->to[i];
    if (n->n_args == 0) return e;
    if (p->memo.at[e].epoch == s->epoch) return p->memo.at[e].to;
    sx r = subst_args(p, s, e);
    p->memo.at[e] = (struct sx_memo){s->epoch, r};
    return r;
}

sx sx_subst(struct sx_pool *p, sx e, const sx *from, const sx *to, int n) {
    if (e == 0) return 0;
    struct subst s = {from, to, n, 0, ++p->epoch};
    for (int i = 0; i < n; i++) {
        if (from[i] == 0 || to[i] == 0) return 0;
        s.mask |= sx_node(p, from[i])->mask;
    }
    while (p->memo.n < p->nodes.n)
        if (!VEC_PUSH(p->arena, &p->memo, ((struct sx_memo){0, 0}))) return 0;
    return subst(p, &s, e);
}

/* ---- occurrence -------------------------------------------------------------------------------
 */

static bool has(const struct sx_pool *p, sx e, sx atom, int *visits) {
    const struct node *n = sx_node(p, e);
    uint64_t bit = (uint64_t)1 << (atom & 63);
    if (e == atom) return true;
    if ((n->mask & bit) == 0) return false;
    if (--*visits < 0) return true; /* too large to say no */
    for (int i = 0; i < n->n_args; i++)
        if (has(p, n->args[i], atom, visits)) return true;
    return false;
}

bool sx_has(const struct sx_pool *p, sx e, sx atom) {
    int visits = 1000000;
    return e != 0 && atom != 0 && has(p, e, atom, &visits);
}

bool sx_linear(struct sx_pool *p, sx e, sx atom, sx *coef, sx *rest) {
    if (e == 0 || atom == 0) return false;
    struct sx_mark mark = sx_scratch(p);
    struct poly with = {0}, without = {0};
    sx c = 0, r = 0;
    if (sx_poly_by_atom(p, sx_node(p, e)->ext, atom, &with, &without)) {
        c = sx_intern_ext(p, with);
        r = sx_intern_ext(p, without);
    }
    sx_scratch_back(p, mark);
    if (c == 0 || r == 0 || sx_has(p, c, atom) || sx_has(p, r, atom)) return false;
    *coef = c;
    *rest = r;
    return true;
}

/* ---- value ------------------------------------------------------------------------------------
 */

struct eval {
    const struct sx_pool *p;
    sx_value_fn value;
    void *user;
    int visits;
};

static bool eval(struct eval *v, sx e, int64_t *out);

static bool apply(enum sx_kind kind, int64_t a, int64_t b, int64_t *out) {
    switch (kind) {
    case SX_ADD: return add_ok(a, b, out);
    case SX_MUL: return sx_mul_ok(a, b, out);
    case SX_DIV:
        if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
        *out = sx_floor_div(a, b);
        return true;
    case SX_MOD:
        if (b == 0) return false;
        *out = b == -1 ? 0 : sx_floor_mod(a, b);
        return true;
    case SX_CONST:
    case SX_SYM:
    case SX_VAR:
    case SX_LOOK: break;
    }
    return false;
}

static bool eval(struct eval *v, sx e, int64_t *out) {
    const struct node *n = sx_node(v->p, e);
    int64_t r, a;
    if (--v->visits < 0) return false;
    if (n->kind == SX_CONST) {
        *out = n->v;
        return true;
    }
    if (n->n_args == 0) return v->value(v->user, v->p, e, out);
    if (!eval(v, n->args[0], &r)) return false;
    for (int i = 1; i < n->n_args; i++)
        if (!eval(v, n->args[i], &a) || !apply(n->kind, r, a, &r)) return false;
    *out = r;
    return true;
}

bool sx_eval(const struct sx_pool *p, sx e, sx_value_fn value, void *user, int64_t *out) {
    struct eval v = {p, value, user, 1000000};
    return e != 0 && eval(&v, e, out);
}

/* ---- text -------------------------------------------------------------------------------------
 */

static bool letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool plain_name(const char *s) {
    static const char *const reserved[] = {"graph", "const", "return", "in", "not",
                                           "true",  "false", "inf",    "nan"};
    for (size_t i = 0; i < COUNT_OF(reserved); i++)
        if (strcmp(s, reserved[i]) == 0) return false;
    if (!letter(*s)) return false;
    for (; *s != '\0'; s++)
        if (!letter(*s) && !(*s >= '0' && *s <= '9')) return false;
    return true;
}

/* What stands around an expression: a sum needs brackets as a factor, a product as an operand of //
 * and
 * %, and so does a quotient anywhere but in a sum. */
enum level { IN_SUM, IN_PRODUCT };

static void print(const struct sx_pool *p, sx e, enum level level, struct str *out);

static void print_factors(const struct sx_pool *p, const struct node *n, int n_factors,
                          struct str *out) {
    for (int i = 0; i < n_factors; i++) {
        if (i > 0) str_add(out, "*");
        print(p, n->args[i], IN_PRODUCT, out);
    }
}

/* The coefficient of a term of a sum. */
static int64_t coefficient(const struct sx_pool *p, sx e) {
    const struct node *n = sx_node(p, e);
    int64_t c = 1;
    if (n->kind == SX_CONST) return n->v;
    if (n->kind == SX_MUL) sx_is_const(p, n->args[n->n_args - 1], &c);
    return c;
}

/* A term with coefficient c < 0, without its sign. */
static void print_negated(const struct sx_pool *p, sx e, int64_t c, struct str *out) {
    const struct node *n = sx_node(p, e);
    if (n->kind == SX_CONST) {
        str_printf(out, "%lld", (long long)-c);
    } else if (c == -1 && n->n_args == 2) {
        print(p, n->args[0],
              n->args[0] != 0 && sx_kind(p, n->args[0]) == SX_ADD ? IN_PRODUCT : IN_SUM, out);
    } else {
        print_factors(p, n, n->n_args - 1, out);
        if (c != -1) str_printf(out, "*%lld", (long long)-c);
    }
}

static void print_sum(const struct sx_pool *p, const struct node *n, struct str *out) {
    int first = 0;
    while (first < n->n_args && coefficient(p, n->args[first]) < 0)
        first++;
    if (first == n->n_args) first = 0;
    print(p, n->args[first], IN_SUM, out);
    for (int i = 0; i < n->n_args; i++) {
        int64_t c = coefficient(p, n->args[i]);
        if (i == first) continue;
        if (c < 0 && c != INT64_MIN) {
            str_add(out, " - ");
            print_negated(p, n->args[i], c, out);
        } else {
            str_add(out, " + ");
            print(p, n->args[i], IN_SUM, out);
        }
    }
}

static void print_product(const struct sx_pool *p, const struct node *n, struct str *out) {
    int64_t c = 1;
    bool negative = sx_is_const(p, n->args[n->n_args - 1], &c) && c < 0;
    if (negative) str_printf(out, "%lld*", (long long)c);
    print_factors(p, n, negative ? n->n_args - 1 : n->n_args, out);
}

static void print_leaf(const struct node *n, struct str *out) {
    if (n->kind == SX_CONST)
        str_printf(out, "%lld", (long long)n->v);
    else if (n->kind == SX_LOOK)
        str_printf(out, "@%lld", (long long)n->v);
    else
        str_printf(out, plain_name(n->name) ? "%s" : "`%s`", n->name);
}

static void print(const struct sx_pool *p, sx e, enum level level, struct str *out) {
    const struct node *n = sx_node(p, e);
    bool brackets = level == IN_PRODUCT && n->n_args > 0;
    if (brackets) str_add(out, "(");
    switch (n->kind) {
    case SX_ADD: print_sum(p, n, out); break;
    case SX_MUL: print_product(p, n, out); break;
    case SX_DIV:
    case SX_MOD:
        print(p, n->args[0], IN_PRODUCT, out);
        str_add(out, n->kind == SX_DIV ? "//" : "%");
        print(p, n->args[1], IN_PRODUCT, out);
        break;
    case SX_CONST:
    case SX_SYM:
    case SX_VAR:
    case SX_LOOK: print_leaf(n, out); break;
    }
    if (brackets) str_add(out, ")");
}

static bool within(const struct sx_pool *p, sx e, int *left) {
    const struct node *n = sx_node(p, e);
    if (--*left < 0) return false;
    for (int i = 0; i < n->n_args; i++) {
        if (!within(p, n->args[i], left)) return false;
    }
    return true;
}

bool sx_is_short(const struct sx_pool *p, sx e, int most) {
    return e == 0 || within(p, e, &most);
}

void sx_print(const struct sx_pool *p, sx e, struct str *out) {
    if (!sx_is_short(p, e, SX_MOST_PRINTED))
        str_add(out, "(..)");
    else if (e != 0)
        print(p, e, IN_SUM, out);
}
