/* SPDX-License-Identifier: MIT
 * Floor division and remainder of symbolic integers.
 *
 * In: numerator a and divisor b, not 0. Out: floor(a/b), simplified by, in this order,
 *   1. taking out what b divides:         (b*q + r)//b = q + r//b
 *   2. ranges:                            r//b = 0 if 0 <= r < b, -1 if -b <= r < 0
 *   3. a common factor and a small rest:  (g*x + r)//(g*c) = x//c if 0 <= r < g
 *   4. nesting:                           (x//d + r)//b = (x + d*r)//(d*b) if b > 0
 *   5. sign:                              -x//b = -((x + b-1)//b) if b > 0
 * and a % b = a - b*(a//b), which needs no rules of its own: with 3 that gives g*(x%c) + r, with
 * (x%d)//b it gives (x//b)%(d/b), and (x%d)%b = x%b when b divides d. All hold for floor division
 * of integers of any sign (Graham, Knuth, Patashnik, Concrete Mathematics, ch. 3). Each step works
 * on the form with remainders, because x%d has a range that x - d*(x//d) hides.
 */
#include "base/sx_pool.h"

static const struct term unit = {1, 0};

static struct poly poly_one(void) {
    return (struct poly){&unit, 1};
}

/* ---- 1: what b divides ------------------------------------------------------------------------
 */

/* One term by a divisor of one term: t = q*d + r. A constant by a constant is floored, so that
 * constants have one form; coefficients are truncated, which keeps signs and so ranges. */
static bool split_term(struct sx_pool *p, struct term t, struct term d, struct term *q,
                       struct term *r) {
    *q = (struct term){0, 0};
    *r = t;
    if (!sx_mono_div(p, t.m, d.m, &q->m)) return arena_ok(p->arena);
    if (d.c == -1 && t.c == INT64_MIN) return false;
    q->c = t.m == 0 ? sx_floor_div(t.c, d.c) : t.c / d.c;
    r->c = t.m == 0 ? sx_floor_mod(t.c, d.c) : t.c % d.c;
    return true;
}

/* By a sum: q*d is taken out if that leaves fewer terms. */
static bool split_by_sum(struct sx_pool *p, struct poly a, struct poly d, struct poly *q,
                         struct poly *r) {
    *q = (struct poly){0};
    *r = a;
    for (int i = 0; i < r->n;) {
        struct term t = {0, 0};
        struct poly less = {0};
        bool fits = r->at[i].c / d.at[0].c != 0 && r->at[i].c != INT64_MIN &&
                    sx_mono_div(p, r->at[i].m, d.at[0].m, &t.m);
        if (fits) t.c = r->at[i].c / d.at[0].c;
        if (fits && sx_poly_axpy(p, *r, (struct term){-t.c, t.m}, d, &less) && less.n < r->n) {
            if (!sx_poly_axpy(p, *q, t, poly_one(), q)) return false;
            *r = less;
            i = 0;
        } else {
            i++;
        }
    }
    return arena_ok(p->arena);
}

/* a = q*d + r */
static bool split(struct sx_pool *p, struct poly a, struct poly d, struct poly *q, struct poly *r) {
    if (d.n > 1) return split_by_sum(p, a, d, q, r);
    *q = *r = (struct poly){0};
    for (int i = 0; i < a.n; i++) {
        struct term tq, tr;
        if (!split_term(p, a.at[i], d.at[0], &tq, &tr)) return false;
        if (!sx_poly_axpy(p, *q, tq, poly_one(), q)) return false;
        if (!sx_poly_axpy(p, *r, tr, poly_one(), r)) return false;
    }
    return true;
}

/* If a term is s*(x%m), b divides s*m but not s: write x - m*(x//m), whose last part b divides. */
static bool open_mod(struct sx_pool *p, struct poly *a, struct poly b) {
    for (int i = 0; i < a->n; i++) {
        struct mono m = sx_mono(p, a->at[i].m);
        for (int j = 0; j < m.n; j++) {
            const struct node *n = sx_node(p, m.at[j]);
            struct poly s = {0}, sm = {0}, q = {0};
            struct term t = a->at[i], rest;
            uint32_t atom;
            if (n->atom || n->kind != SX_MOD) continue;
            if (!sx_mono_of(p, m.at[j], &atom) || !sx_mono_div(p, t.m, atom, &t.m)) continue;
            rest = t;
            s = (struct poly){&rest, 1};
            if (sx_poly_quotient(p, s, b, &q)) continue;
            if (!sx_poly_axpy(p, (struct poly){0}, t, sx_node(p, n->args[1])->poly, &sm)) continue;
            if (!sx_poly_quotient(p, sm, b, &q)) continue;
            struct term drop = {-1, 0}, whole = a->at[i];
            struct poly out = *a;
            if (!sx_poly_axpy(p, out, drop, (struct poly){&whole, 1}, &out)) continue;
            if (!sx_poly_axpy(p, out, t, n->poly, &out)) continue;
            *a = out;
            return true;
        }
    }
    return false;
}

/* ---- 3: common factors ------------------------------------------------------------------------
 */

#define MAX_FACTORS 24

struct factors {
    struct term at[MAX_FACTORS];
    int n;
};

static void add_factor(struct factors *f, struct term g) {
    if (g.c == 1 && g.m == 0) return;
    for (int i = 0; i < f->n; i++)
        if (f->at[i].c == g.c && f->at[i].m == g.m) return;
    if (f->n < MAX_FACTORS) f->at[f->n++] = g;
}

static bool term_gcd(struct sx_pool *p, struct term a, struct term b, struct term *out) {
    out->c = sx_gcd(a.c, b.c);
    return sx_mono_gcd(p, a.m, b.m, &out->m);
}

static bool content(struct sx_pool *p, struct poly a, struct term *out) {
    *out = (struct term){sx_gcd(a.at[0].c, 0), a.at[0].m};
    for (int i = 1; i < a.n; i++)
        if (!term_gcd(p, *out, a.at[i], out)) return false;
    return true;
}

/* Factors of b that divide some terms of a: greatest common divisors, and of those again. */
static struct factors common_factors(struct sx_pool *p, struct poly a, struct term whole) {
    struct factors f = {.n = 0};
    struct term g;
    for (int i = 0; i < a.n; i++)
        if (term_gcd(p, a.at[i], whole, &g)) add_factor(&f, g);
    for (int i = 0; i < f.n; i++)
        for (int j = 0; j < i; j++)
            if (term_gcd(p, f.at[i], f.at[j], &g)) add_factor(&f, g);
    return f;
}

/* (g*x + r)//b with g dividing b and 0 <= r < g. False: not so. */
static bool reduce_by(struct sx_pool *p, struct poly a, sx b, struct poly g, sx *out) {
    struct poly x = {0}, r = {0}, c = {0};
    if (!sx_poly_quotient(p, sx_node(p, b)->poly, g, &c)) return false;
    if (!split(p, a, g, &x, &r) || x.n == 0) return false;
    if (r.n > 0) {
        sx rest = sx_intern_ext(p, r), factor = sx_intern(p, g);
        if (rest == 0 || factor == 0 || !sx_proves_within(p, rest, factor)) return false;
    }
    sx num = sx_intern_ext(p, x), den = sx_intern(p, c);
    if (num == 0 || den == 0) return false;
    *out = sx_div(p, num, den);
    return true;
}

static bool reduce(struct sx_pool *p, struct poly a, sx b, sx *out) {
    struct poly whole = sx_node(p, b)->poly, prime = {0};
    struct term c;
    if (!content(p, whole, &c)) return false;
    struct factors f = common_factors(p, a, c);
    for (int i = 0; i < f.n; i++)
        if (reduce_by(p, a, b, (struct poly){&f.at[i], 1}, out)) return true;
    if (whole.n == 1) return false;
    /* a sum: its part without the common factor, alone and with each of the factors */
    if (!sx_poly_quotient(p, whole, (struct poly){&c, 1}, &prime)) return false;
    add_factor(&f, c);
    for (int i = 0; i < f.n; i++) {
        struct poly g = {0};
        if (!sx_poly_axpy(p, g, f.at[i], prime, &g)) return false;
        if (reduce_by(p, a, b, g, out)) return true;
    }
    return reduce_by(p, a, b, prime, out);
}

/* ---- 4: nesting -------------------------------------------------------------------------------
 */

static bool unnest(struct sx_pool *p, struct poly a, sx b, sx *out) {
    for (int i = 0; i < a.n; i++) {
        struct mono m = sx_mono(p, a.at[i].m);
        if (a.at[i].c != 1 || m.n != 1) continue;
        const struct node *q = sx_node(p, m.at[0]);
        int64_t d0;
        if (!q->atom || q->kind != SX_DIV || (sx_is_const(p, q->args[1], &d0) && d0 == 0)) continue;
        if (!sx_is_nonneg(p, b)) return false;
        struct poly rest = {0}, num = {0}, den = {0}, d = sx_node(p, q->args[1])->poly;
        struct term self = a.at[i];
        if (!sx_poly_axpy(p, a, (struct term){-1, 0}, (struct poly){&self, 1}, &rest)) continue;
        if (!sx_poly_expand(p, rest, &rest) || !sx_poly_mul(p, rest, d, &num)) continue;
        if (!sx_poly_axpy(p, num, unit, sx_node(p, q->args[0])->poly, &num)) continue;
        if (!sx_poly_mul(p, d, sx_node(p, b)->poly, &den)) continue;
        sx n = sx_intern(p, num), e = sx_intern(p, den);
        if (n == 0 || e == 0) return false;
        *out = sx_div(p, n, e);
        return true;
    }
    return false;
}

/* ---- 5: sign ----------------------------------------------------------------------------------
 */

/* Of e//b and the quotient of -e, one is the form to keep: the one with more positive terms, else
 * the one whose last term is positive. So a reversed axis, (63 - k)//4, becomes 15 - k//4. */
static bool mostly_negative(struct poly a) {
    int balance = 0;
    int64_t last = 0;
    for (int i = 0; i < a.n; i++) {
        if (a.at[i].m == 0) continue;
        balance += a.at[i].c > 0 ? 1 : -1;
        last = a.at[i].c;
    }
    return balance < 0 || (balance == 0 && last < 0);
}

static bool negate(struct sx_pool *p, sx a, sx b, sx *out) {
    if (!mostly_negative(sx_node(p, a)->ext) || !sx_is_nonneg(p, b)) return false;
    sx x = sx_sub(p, sx_sub(p, b, sx_const(p, 1)), a), zero = sx_const(p, 0);
    if (x == 0 || mostly_negative(sx_node(p, x)->ext)) return false;
    *out = sx_sub(p, zero, sx_div(p, x, b));
    return true;
}

/* ---- division ---------------------------------------------------------------------------------
 */

/* Constant results: both constants, or the range of a lies between two multiples of b. */
static bool by_range(struct sx_pool *p, sx a, sx b, sx *out) {
    int64_t lo, hi, d;
    if (sx_is_const(p, b, &d)) {
        sx_range(p, a, &lo, &hi);
        bool known = lo != INT64_MIN && hi != INT64_MAX;
        if ((known || sx_is_const(p, a, &lo)) && sx_floor_div(lo, d) == sx_floor_div(hi, d)) {
            *out = sx_const(p, sx_floor_div(lo, d));
            return true;
        }
    }
    if (sx_proves_within(p, a, b)) {
        *out = sx_const(p, 0);
        return true;
    }
    sx minus = sx_sub(p, sx_const(p, -1), a); /* -b <= a < 0 as 0 <= -1 - a < b */
    if (minus != 0 && sx_proves_within(p, minus, b)) {
        *out = sx_const(p, -1);
        return true;
    }
    return false;
}

static sx divide(struct sx_pool *p, sx a, sx b) {
    struct poly x = sx_node(p, a)->ext, den = sx_node(p, b)->poly, q = {0}, r = {0};
    for (int i = 0; i < 16 && open_mod(p, &x, den); i++)
        continue;
    if (split(p, x, den, &q, &r) && q.n > 0) {
        sx quotient = sx_intern_ext(p, q), rest = sx_intern_ext(p, r);
        if (quotient != 0 && rest != 0) return sx_add(p, quotient, sx_div(p, rest, b));
    }
    sx out = 0;
    x = sx_node(p, a)->ext;
    if (by_range(p, a, b, &out) || reduce(p, x, b, &out) || unnest(p, x, b, &out) ||
        negate(p, a, b, &out))
        return out;
    return sx_binary_atom(p, SX_DIV, a, b);
}

static sx quotient_known(const struct sx_pool *p, sx a, sx b, uint64_t hash) {
    size_t slot = SIZE_MAX;
    uint32_t id;
    while ((id = sx_table_next(&p->by_quotient, hash, &slot)) != 0) {
        struct quotient q = p->quotients.at[id];
        if (q.a == a && q.b == b) return q.q;
    }
    return 0;
}

sx sx_div(struct sx_pool *p, sx a, sx b) {
    if (a == 0 || b == 0) return 0;
    int64_t num, den = 1;
    bool fixed = sx_is_const(p, b, &den);
    if (fixed && den == 1) return a;
    if (sx_is_const(p, a, &num) && num == 0 && den != 0) return a;
    if (fixed && den == 0) return sx_binary_atom(p, SX_DIV, a, b);
    if (fixed && sx_is_const(p, a, &num)) {
        if (den == -1 && num == INT64_MIN) return sx_binary_atom(p, SX_DIV, a, b);
        return sx_const(p, sx_floor_div(num, den));
    }
    if (fixed && den < 0) {
        if (den == INT64_MIN) return sx_binary_atom(p, SX_DIV, a, b);
        return sx_div(p, sx_sub(p, sx_const(p, 0), a), sx_const(p, -den));
    }
    uint64_t hash = sx_hash(sx_hash(11, a), b);
    sx q = quotient_known(p, a, b, hash);
    if (q != 0) return q;
    if (!sx_enter(p)) return sx_binary_atom(p, SX_DIV, a, b);
    struct sx_mark mark = sx_scratch(p);
    q = divide(p, a, b);
    sx_leave(p);
    sx_scratch_back(p, mark);
    if (!arena_ok(p->arena) || q == 0) return 0;
    uint32_t id = (uint32_t)p->quotients.n;
    if (!VEC_PUSH(p->arena, &p->quotients, ((struct quotient){a, b, q}))) return 0;
    return sx_table_put(p, &p->by_quotient, hash, id) ? q : 0;
}

sx sx_mod(struct sx_pool *p, sx a, sx b) {
    if (a == 0 || b == 0) return 0;
    int64_t den = 1;
    sx_is_const(p, b, &den);
    if (den == 0) return sx_binary_atom(p, SX_MOD, a, b);
    if (sx_is_const(p, b, &den) && (den == 1 || den == -1)) return sx_const(p, 0);
    sx q = sx_div(p, a, b), e = 0;
    if (q == 0) return 0;
    struct sx_mark mark = sx_scratch(p);
    struct poly bq = {0}, r = {0};
    if (sx_poly_mul(p, sx_node(p, b)->poly, sx_node(p, q)->poly, &bq) &&
        sx_poly_axpy(p, sx_node(p, a)->poly, (struct term){-1, 0}, bq, &r))
        e = sx_intern(p, r);
    else if (arena_ok(p->arena))
        e = sx_binary_atom(p, SX_MOD, a, b);
    sx_scratch_back(p, mark);
    return e;
}
