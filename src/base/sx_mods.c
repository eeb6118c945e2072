/* SPDX-License-Identifier: MIT
 * Finding remainders again: from e - b*(e//b) back to e % b.
 *
 * In: a new node, a polynomial over base atoms. Out: its form with remainders. A step looks at a
 * term c*..*X with X = e//B, and for each way B = d*b that other terms suggest at (e//d) % b = e//d
 * - b*X, rewrites q*(e//d) - q*b*X as q*((e//d) % b), and the best step is taken: the one that
 * leaves the fewest terms. A step that leaves as many terms is taken only if all it removes was
 * there, and the coefficients of quotients shrink; so the search ends. The form says the same value
 * whatever is found here; but ranges and proofs are as good as this is.
 */
#include "base/sx_pool.h"

#define MAX_LOOK_AT 48 /* terms; a longer sum is left as it is */

struct step {
    int n;         /* terms after it */
    double weight; /* coefficients of quotients after it */
    struct poly rest;
    struct term q;
    sx x, num, den; /* q*(num % den), and x = num//den */
    bool found;
};

static const struct term unit = {1, 0};

static double magnitude(int64_t c) {
    return c < 0 ? -(double)c : (double)c;
}

static bool is_quotient(const struct sx_pool *p, sx atom) {
    const struct node *n = sx_node(p, atom);
    return n->atom && n->kind == SX_DIV;
}

static double weight(const struct sx_pool *p, struct poly a) {
    double sum = 0;
    for (int i = 0; i < a.n; i++) {
        struct mono m = sx_mono(p, a.at[i].m);
        for (int j = 0; j < m.n; j++) {
            if (!is_quotient(p, m.at[j])) continue;
            sum += magnitude(a.at[i].c);
            break;
        }
    }
    return sum;
}

/* Are all terms of q*e, but for the constant, in a with the same sign and no smaller? */
static bool contains(struct sx_pool *p, struct poly a, struct term q, struct poly e) {
    struct poly qe = {0};
    if (!sx_poly_axpy(p, qe, q, e, &qe)) return false;
    for (int i = 0; i < qe.n; i++) {
        int64_t have = sx_poly_coef(a, qe.at[i].m), want = qe.at[i].c;
        if (qe.at[i].m == 0) continue;
        if ((have < 0) != (want < 0) || magnitude(have) < magnitude(want)) return false;
    }
    return true;
}

static void try_form(struct sx_pool *p, struct poly a, const struct step *s, struct poly num,
                     struct step *best) {
    struct step t = *s;
    struct poly bx = {0};
    uint32_t mx;
    if (!sx_mono_of(p, t.x, &mx)) return;
    if (!sx_poly_axpy(p, bx, (struct term){1, mx}, sx_node(p, t.den)->poly, &bx)) return;
    if (!sx_poly_axpy(p, a, t.q, bx, &t.rest)) return;
    if (!sx_poly_axpy(p, t.rest, (struct term){-t.q.c, t.q.m}, num, &t.rest)) return;
    t.n = t.rest.n + 1;
    t.weight = weight(p, t.rest);
    if (t.n > best->n || (t.n == best->n && t.weight >= best->weight)) return;
    if (t.n == a.n && !contains(p, a, t.q, num)) return;
    t.found = true;
    *best = t;
}

/* X in term t, with divisor d*b: how often does q*((e//d)%b) fit? By the coefficient of X, and by
 * the coefficient of the first term of e//d. */
static void try_divisor(struct sx_pool *p, struct poly a, struct term t, sx x, sx d,
                        struct step *best) {
    const struct node *n = sx_node(p, x);
    struct poly den = {0};
    struct step s = {.x = x, .num = n->args[0], .den = n->args[1]};
    int64_t one;
    if (d == 0) return;
    if (!sx_is_const(p, d, &one) || one != 1) {
        if (!sx_poly_quotient(p, sx_node(p, s.den)->poly, sx_node(p, d)->poly, &den)) return;
        s.den = sx_intern(p, den);
        s.num = sx_div(p, s.num, d);
        if (s.den == 0 || s.num == 0 || !sx_is_nonneg(p, s.den)) return;
        if (sx_is_const(p, s.den, &one) && one == 1) return;
    }
    struct term lead = sx_node(p, s.den)->poly.at[0];
    struct poly num = sx_node(p, s.num)->poly, ext = sx_node(p, s.num)->ext;
    if (num.n == 0 || !sx_mono_div(p, t.m, lead.m, &s.q.m)) return;
    if (t.c == INT64_MIN || lead.c == INT64_MIN) return;
    int64_t full = -t.c / lead.c;
    uint32_t m;
    int64_t fit = 0;
    if (num.at[0].c != INT64_MIN && sx_mono_mul(p, s.q.m, num.at[0].m, &m)) {
        int64_t have = sx_poly_coef(a, m);
        if (have != INT64_MIN) fit = have / num.at[0].c;
    }
    int64_t choice[2] = {full, fit};
    for (int i = 0; i < 2; i++) {
        s.q.c = choice[i];
        if (s.q.c == 0 || s.q.c == INT64_MIN ||
            (i == 1 && (fit == full || (fit < 0) != (full < 0))))
            continue;
        try_form(p, a, &s, num, best);
        try_form(p, a, &s, ext, best);
    }
}

/* d = B/C, where C is the coefficient of X up to sign. */
static sx divisor_by_coef(struct sx_pool *p, struct poly a, sx x) {
    struct poly c = {0}, rest = {0}, d = {0};
    if (!sx_poly_by_atom(p, a, x, &c, &rest) || c.n == 0) return 0;
    if (c.at[0].c < 0 && !sx_poly_axpy(p, (struct poly){0}, (struct term){-1, 0}, c, &c)) return 0;
    if (!sx_poly_quotient(p, sx_node(p, sx_node(p, x)->args[1])->poly, c, &d)) return 0;
    return sx_intern(p, d);
}

/* Divisors of other quotients in a whose numerators have something in common with X's. */
static void try_others(struct sx_pool *p, struct poly a, struct term t, sx x, struct step *best) {
    for (int i = 0; i < a.n; i++) {
        struct mono m = sx_mono(p, a.at[i].m);
        for (int j = 0; j < m.n; j++) {
            const struct node *y = sx_node(p, m.at[j]);
            int64_t d;
            if (m.at[j] == x || y->kind != SX_DIV || !y->atom) continue;
            if (sx_is_const(p, y->args[1], &d) && d == 0) continue;
            if ((sx_node(p, y->args[0])->mask & sx_node(p, sx_node(p, x)->args[0])->mask) == 0)
                continue;
            try_divisor(p, a, t, x, y->args[1], best);
        }
    }
}

static struct step best_step(struct sx_pool *p, struct poly a) {
    struct step best = {.n = a.n, .weight = weight(p, a)};
    for (int i = 0; i < a.n; i++) {
        struct mono m = sx_mono(p, a.at[i].m);
        for (int j = 0; j < m.n; j++) {
            struct term t = a.at[i];
            uint32_t mx;
            int64_t d;
            sx x = m.at[j];
            if (!is_quotient(p, x) || (j > 0 && m.at[j - 1] == x)) continue;
            if (sx_is_const(p, sx_node(p, x)->args[1], &d) && d == 0) continue;
            if (!sx_mono_of(p, x, &mx) || !sx_mono_div(p, t.m, mx, &t.m)) continue;
            try_divisor(p, a, t, x, sx_const(p, 1), &best);
            sx by = divisor_by_coef(p, a, x);
            if (by != 0 && !(sx_is_const(p, by, &d) && d <= 1)) try_divisor(p, a, t, x, by, &best);
            try_others(p, a, t, x, &best);
        }
    }
    return best;
}

/* The node of num % den, where x = num//den. */
static sx mod_node(struct sx_pool *p, const struct step *s) {
    struct poly r = sx_node(p, s->num)->poly;
    uint32_t mx;
    if (!sx_mono_of(p, s->x, &mx)) return 0;
    if (!sx_poly_axpy(p, r, (struct term){-1, mx}, sx_node(p, s->den)->poly, &r)) return 0;
    return sx_intern_as(p, r, SX_MOD, 2, (const sx[]){s->num, s->den}, (struct poly){0});
}

static bool has_quotient(const struct sx_pool *p, struct poly a) {
    for (int i = 0; i < a.n; i++) {
        struct mono m = sx_mono(p, a.at[i].m);
        for (int j = 0; j < m.n; j++)
            if (is_quotient(p, m.at[j])) return true;
    }
    return false;
}

static void search(struct sx_pool *p, sx e) {
    struct poly a = sx_node(p, e)->poly;
    for (bool any = false;; any = true) {
        struct step s = best_step(p, a);
        if (!arena_ok(p->arena)) return;
        if (!s.found) {
            if (any) sx_show_ext(p, e, a);
            return;
        }
        if (s.rest.n == 0 && s.q.c == 1 && s.q.m == 0) {
            sx_show_mod(p, e, s.num, s.den);
            return;
        }
        sx mod = mod_node(p, &s);
        struct term q = s.q;
        uint32_t m;
        if (mod == 0 || mod == e || !sx_mono_of(p, mod, &m) || !sx_mono_mul(p, q.m, m, &q.m))
            return;
        if (!sx_poly_axpy(p, s.rest, q, (struct poly){&unit, 1}, &a)) return;
    }
}

void sx_find_mods(struct sx_pool *p, sx e) {
    struct poly a = sx_node(p, e)->poly;
    if (a.n < 2 || a.n > MAX_LOOK_AT || !has_quotient(p, a) || !sx_enter(p)) return;
    search(p, e);
    sx_leave(p);
}
