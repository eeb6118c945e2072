/* SPDX-License-Identifier: MIT
 * Bounds and proofs about symbolic integers.
 *
 * Numeric bounds are interval arithmetic on the form with remainders. A proof of e >= 0 starts from
 * these and otherwise replaces one atom after the other by a bound that makes e smaller, until the
 * interval is good enough:
 *     variable v, extent N   0 or N-1, by the sign of its coefficient; both if that is unknown
 *     remainder x % d        0, or d-1, or x if x >= 0
 *     quotient x // d        e = C*(x//d) + R >= 0 follows from d*e > -d, and d*(x//d) lies between
 *                            x-d+1 and x
 * which is variable elimination for linear inequalities (Fourier, Motzkin) with symbolic
 * coefficients. Replacing a variable where it stands alone and not inside a // only forgets that
 * the two are equal, so each step is sound. A variable that exists proves its extent to be at least
 * 1, and a division its divisor not to be 0: symbols known so are the `facts`.
 */
#include "base/sx_pool.h"

/* ---- intervals; INT64_MIN as lo and INT64_MAX as hi are infinite -------------------------------
 */

struct interval {
    int64_t lo, hi;
};

static const struct interval unknown = {INT64_MIN, INT64_MAX};

static bool infinite(int64_t a) {
    return a == INT64_MIN || a == INT64_MAX;
}

static int64_t bound_mul(int64_t a, int64_t b) {
    int64_t c;
    if (a == 0 || b == 0) return 0;
    if (!infinite(a) && !infinite(b) && sx_mul_ok(a, b, &c)) return c;
    return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
}

static int64_t lo_add(int64_t a, int64_t b) {
    int64_t c;
    if (a == INT64_MIN || b == INT64_MIN) return INT64_MIN;
    return add_ok(a, b, &c) ? c : a < 0 ? INT64_MIN : INT64_MAX - 1;
}

static int64_t hi_add(int64_t a, int64_t b) {
    int64_t c;
    if (a == INT64_MAX || b == INT64_MAX) return INT64_MAX;
    return add_ok(a, b, &c) ? c : a > 0 ? INT64_MAX : INT64_MIN + 1;
}

static struct interval interval_mul(struct interval a, struct interval b) {
    int64_t c[4] = {bound_mul(a.lo, b.lo), bound_mul(a.lo, b.hi), bound_mul(a.hi, b.lo),
                    bound_mul(a.hi, b.hi)};
    struct interval r = {c[0], c[0]};
    for (int i = 1; i < 4; i++) {
        if (c[i] < r.lo) r.lo = c[i];
        if (c[i] > r.hi) r.hi = c[i];
    }
    if (r.lo == INT64_MAX) r.lo--;
    if (r.hi == INT64_MIN) r.hi++;
    return r;
}

static struct interval numeric(struct sx_pool *p, sx e);

static struct interval best_range(struct sx_pool *p, sx e) {
    struct interval r;
    sx_range(p, e, &r.lo, &r.hi);
    return r;
}

static int64_t floor_bound(int64_t a, int64_t d) {
    if (infinite(a)) return a;
    return d == INT64_MAX ? (a < 0 ? -1 : 0) : sx_floor_div(a, d);
}

static struct interval quotient_range(struct sx_pool *p, const struct node *n) {
    struct interval a = best_range(p, n->args[0]), b = best_range(p, n->args[1]);
    if (b.lo < 0 || b.hi < 1) return unknown;
    if (b.lo == 0) b.lo = 1; /* a divisor is not 0 */
    return (struct interval){floor_bound(a.lo, a.lo < 0 ? b.lo : b.hi),
                             floor_bound(a.hi, a.hi < 0 ? b.hi : b.lo)};
}

static struct interval remainder_range(struct sx_pool *p, const struct node *n) {
    struct interval a = best_range(p, n->args[0]), b = best_range(p, n->args[1]);
    if (b.lo < 0 || b.hi < 1) return unknown;
    struct interval r = {0, b.hi == INT64_MAX ? INT64_MAX : b.hi - 1};
    if (a.lo >= 0 && a.hi < r.hi) r.hi = a.hi;
    return r;
}

static struct interval atom_range(struct sx_pool *p, sx e) {
    const struct node *n = sx_node(p, e);
    struct interval r = {0, INT64_MAX};
    switch (n->kind) {
    case SX_SYM: return r;
    case SX_LOOK:
        if (n->extent == 0) return unknown;
        /* fallthrough */
    case SX_VAR:
        if (n->extent != 0) r.hi = best_range(p, n->extent).hi;
        if (r.hi != INT64_MAX) r.hi--;
        return r;
    case SX_DIV: return quotient_range(p, n);
    case SX_MOD: return remainder_range(p, n);
    case SX_ADD: {
        struct interval a = numeric(p, n->args[0]), b = numeric(p, n->args[1]);
        return (struct interval){lo_add(a.lo, b.lo), hi_add(a.hi, b.hi)};
    }
    case SX_MUL: return interval_mul(numeric(p, n->args[0]), numeric(p, n->args[1]));
    case SX_CONST: break;
    }
    return (struct interval){n->v, n->v};
}

static struct interval term_range(struct sx_pool *p, struct term t) {
    struct interval r = {t.c, t.c};
    struct mono m = sx_mono(p, t.m);
    for (int i = 0; i < m.n; i++)
        r = interval_mul(r, numeric(p, m.at[i]));
    return r;
}

static bool self_ext(const struct sx_pool *p, sx e) {
    struct poly x = sx_node(p, e)->ext;
    if (x.n != 1 || x.at[0].c != 1) return false;
    struct mono m = sx_mono(p, x.at[0].m);
    return m.n == 1 && m.at[0] == e;
}

static struct interval sum_range(struct sx_pool *p, struct poly a) {
    struct interval r = {0, 0};
    for (int i = 0; i < a.n; i++) {
        struct interval t = term_range(p, a.at[i]);
        r = (struct interval){lo_add(r.lo, t.lo), hi_add(r.hi, t.hi)};
    }
    return r;
}

/* Both forms of a sum are looked at: x%d has the better range alone, x + x//d beside its quotient.
 */
static struct interval numeric(struct sx_pool *p, sx e) {
    struct node *n = sx_node(p, e);
    if (n->range_state == 2) return (struct interval){n->lo, n->hi};
    if (n->range_state == 1) return unknown;
    n->range_state = 1;
    struct interval r = self_ext(p, e) ? atom_range(p, e) : sum_range(p, n->ext);
    if (!n->atom && n->poly.n > 1) {
        struct interval s = sum_range(p, n->poly);
        if (s.lo > r.lo) r.lo = s.lo;
        if (s.hi < r.hi) r.hi = s.hi;
    }
    n->lo = r.lo;
    n->hi = r.hi;
    n->range_state = 2;
    return r;
}

/* ---- facts ------------------------------------------------------------------------------------
 */

#define MAX_FACTS 32
#define MAX_SUMS  8
#define MAX_STEPS 48

struct proof {
    struct sx_pool *p;
    sx fact[MAX_FACTS];  /* symbols that are at least 1 */
    sx sum[MAX_SUMS];    /* sums that are at least 1 */
    sx tried[MAX_STEPS]; /* expressions that were not proved, or not yet */
    int n, n_sums, n_tried, visits;
};

/* A product that is not 0: its symbols are not. A sum that is not negative is at least 1. */
static void add_nonzero(struct proof *f, sx e) {
    struct poly a = e == 0 ? (struct poly){0} : sx_node(f->p, e)->poly;
    if (a.n > 1 && f->n_sums < MAX_SUMS && numeric(f->p, e).lo >= 0) f->sum[f->n_sums++] = e;
    if (a.n != 1) return;
    struct mono m = sx_mono(f->p, a.at[0].m);
    for (int i = 0; i < m.n; i++) {
        bool is_new = sx_node(f->p, m.at[i])->kind == SX_SYM && f->n < MAX_FACTS;
        for (int j = 0; j < f->n; j++)
            is_new = is_new && f->fact[j] != m.at[i];
        if (is_new) f->fact[f->n++] = m.at[i];
    }
}

static void add_facts(struct proof *f, sx e) {
    if (e == 0 || f->visits++ > 300) return;
    const struct node *n = sx_node(f->p, e);
    if (n->extent != 0) {
        add_nonzero(f, n->extent);
        add_facts(f, n->extent);
    }
    if (n->kind == SX_DIV || n->kind == SX_MOD) add_nonzero(f, n->args[1]);
    for (int i = 0; i < n->n_args; i++)
        add_facts(f, n->args[i]);
}

/* ---- proofs -----------------------------------------------------------------------------------
 */

static bool nonneg(struct proof *f, sx e);

/* e = c*atom + r, by the form with remainders. */
static bool by_atom(struct sx_pool *p, sx e, sx atom, sx *c, sx *r) {
    struct sx_mark mark = sx_scratch(p);
    struct poly with = {0}, without = {0};
    *c = *r = 0;
    if (sx_poly_by_atom(p, sx_node(p, e)->ext, atom, &with, &without)) {
        *c = sx_intern_ext(p, with);
        *r = sx_intern_ext(p, without);
        for (int i = 0; i < with.n; i++)
            if (sx_mono_has(p, with.at[i].m, atom)) *c = 0;
    }
    sx_scratch_back(p, mark);
    return *c != 0 && *r != 0;
}

/* 1: e >= 0; -1: e <= 0; 0: unknown */
static int sign_of(struct proof *f, sx e) {
    struct interval r = numeric(f->p, e);
    if (r.lo >= 0) return 1;
    if (r.hi <= 0) return -1;
    if (nonneg(f, e)) return 1;
    return nonneg(f, sx_sub(f->p, sx_const(f->p, 0), e)) ? -1 : 0;
}

static sx mul_add(struct sx_pool *p, sx a, sx b, sx c) {
    return sx_add(p, sx_mul(p, a, b), c);
}

static bool by_quotient(struct proof *f, sx e, sx atom) {
    struct sx_pool *p = f->p;
    sx x = sx_node(p, atom)->args[0], d = sx_node(p, atom)->args[1], c, r;
    if (!sx_is_nonneg(p, d) || !by_atom(p, e, atom, &c, &r)) return false;
    int s = sign_of(f, c);
    if (s == 0) return false;
    struct interval q = numeric(p, atom);
    int64_t bound = s > 0 ? q.lo : q.hi;
    if (!infinite(bound) && nonneg(f, mul_add(p, c, sx_const(p, bound), r))) return true;
    sx d1 = sx_sub(p, d, sx_const(p, 1));
    sx least = s > 0 ? sx_sub(p, x, d1) : x;
    return nonneg(f, sx_add(p, mul_add(p, c, least, sx_mul(p, d, r)), d1));
}

static bool by_remainder(struct proof *f, sx e, sx atom) {
    struct sx_pool *p = f->p;
    sx x = sx_node(p, atom)->args[0], d = sx_node(p, atom)->args[1], c, r;
    if (!sx_is_nonneg(p, d) || !by_atom(p, e, atom, &c, &r)) return false;
    int s = sign_of(f, c);
    if (s > 0) return nonneg(f, r);
    if (s == 0) return false;
    if (nonneg(f, mul_add(p, c, sx_sub(p, d, sx_const(p, 1)), r))) return true;
    return sx_is_nonneg(p, x) && nonneg(f, mul_add(p, c, x, r));
}

static bool by_variable(struct proof *f, sx e, sx atom) {
    struct sx_pool *p = f->p;
    sx extent = sx_node(p, atom)->extent, c, r;
    if (sx_node(p, atom)->kind == SX_LOOK && extent == 0) return false;
    if (!by_atom(p, e, atom, &c, &r)) return false;
    int s = sign_of(f, c);
    if (s >= 0 && !nonneg(f, r)) return false;
    if (s > 0) return true;
    return extent != 0 && nonneg(f, mul_add(p, c, sx_sub(p, extent, sx_const(p, 1)), r));
}

/* With symbols s known to be at least 1 written as s+1. A symbol that also stands inside a // or %
 * is left alone: there it would mean something else. */
static bool by_facts(struct proof *f, sx e) {
    struct sx_pool *p = f->p;
    sx one = sx_const(p, 1);
    bool any = false;
    for (int i = 0; i < f->n && e != 0; i++) {
        struct poly x = sx_node(p, e)->ext;
        bool direct = false, inside = false;
        for (int j = 0; j < x.n; j++) {
            struct mono m = sx_mono(p, x.at[j].m);
            for (int k = 0; k < m.n; k++) {
                if (m.at[k] == f->fact[i])
                    direct = true;
                else if (sx_has(p, m.at[k], f->fact[i]))
                    inside = true;
            }
        }
        if (!direct || inside) continue;
        e = sx_subst(p, e, &f->fact[i], &(sx){sx_add(p, f->fact[i], one)}, 1);
        any = true;
    }
    return any && e != 0 && numeric(p, e).lo >= 0;
}

/* e >= s-1 for a sum s that is known to be at least 1. */
static bool by_sums(struct proof *f, sx e) {
    struct sx_pool *p = f->p;
    for (int i = 0; i < f->n_sums; i++) {
        sx d = sx_sub(p, sx_add(p, e, sx_const(p, 1)), f->sum[i]);
        if (d != 0 && numeric(p, d).lo >= 0) return true;
    }
    return false;
}

/* Prove by eliminating an atom of one of the kinds; each is tried while steps are left, except that
 * the choice among variables does not matter. */
static bool eliminate(struct proof *f, sx e, enum sx_kind kind) {
    struct poly x = sx_node(f->p, e)->ext;
    sx last = 0;
    for (int i = 0; i < x.n; i++) {
        struct mono m = sx_mono(f->p, x.at[i].m);
        for (int j = 0; j < m.n; j++) {
            const struct node *n = sx_node(f->p, m.at[j]);
            sx atom = m.at[j];
            if (atom == last || n->kind != kind) continue;
            last = atom;
            if (kind == SX_DIV && by_quotient(f, e, atom)) return true;
            if (kind == SX_MOD && !n->atom && by_remainder(f, e, atom)) return true;
            if ((kind == SX_VAR || kind == SX_LOOK) && by_variable(f, e, atom)) return true;
            if (f->n_tried >= MAX_STEPS) return false;
        }
    }
    return false;
}

static bool nonneg(struct proof *f, sx e) {
    if (e == 0 || !arena_ok(f->p->arena)) return false;
    struct interval r = numeric(f->p, e);
    if (r.lo >= 0) return true;
    if (r.hi < 0 || f->n_tried >= MAX_STEPS) return false;
    for (int i = 0; i < f->n_tried; i++)
        if (f->tried[i] == e) return false;
    if (!sx_enter(f->p)) return false;
    f->tried[f->n_tried++] = e;
    bool ok = by_facts(f, e) || by_sums(f, e) || eliminate(f, e, SX_DIV) ||
              eliminate(f, e, SX_MOD) || eliminate(f, e, SX_VAR) || eliminate(f, e, SX_LOOK);
    sx_leave(f->p);
    return ok;
}

static struct proof proof_of(struct sx_pool *p, sx a, sx b) {
    struct proof f = {.p = p};
    add_facts(&f, a);
    add_facts(&f, b);
    return f;
}

bool sx_is_nonneg(struct sx_pool *p, sx e) {
    if (e == 0) return false;
    struct node *n = sx_node(p, e);
    if (n->sign_state == 0) {
        n->sign_state = 1; /* while it is looked for, it is not known */
        struct proof f = proof_of(p, e, 0);
        n->sign_state = nonneg(&f, e) ? 2 : p->work > SX_MAX_WORK && p->calls > 0 ? 0 : 1;
    }
    return n->sign_state == 2;
}

bool sx_proves_le(struct sx_pool *p, sx a, sx b) {
    sx d = sx_sub(p, b, a);
    if (d == 0) return false;
    struct proof f = proof_of(p, a, b);
    return sx_is_nonneg(p, d) || nonneg(&f, d);
}

bool sx_proves_lt(struct sx_pool *p, sx a, sx b) {
    return sx_proves_le(p, sx_add(p, a, sx_const(p, 1)), b);
}

bool sx_proves_within(struct sx_pool *p, sx a, sx b) {
    if (a == 0 || b == 0 || !sx_is_nonneg(p, a)) return false;
    sx d = sx_sub(p, sx_sub(p, b, sx_const(p, 1)), a);
    if (d == 0) return false;
    struct proof f = proof_of(p, a, b);
    add_nonzero(&f, b);
    return nonneg(&f, d);
}

void sx_range(struct sx_pool *p, sx e, int64_t *lo, int64_t *hi) {
    *lo = INT64_MIN;
    *hi = INT64_MAX;
    if (e == 0) return;
    struct interval r = numeric(p, e);
    *lo = r.lo;
    *hi = r.hi;
    if (r.lo < 0 && r.hi >= 0 && sx_is_nonneg(p, e)) *lo = 0;
}

bool sx_divides(struct sx_pool *p, sx d, sx e) {
    int64_t v = 1;
    if (d == 0 || e == 0 || (sx_is_const(p, d, &v) && v == 0)) return false;
    return sx_is_const(p, sx_mod(p, e, d), &v) && v == 0;
}

sx sx_exact_div(struct sx_pool *p, sx e, sx d) {
    return sx_divides(p, d, e) ? sx_div(p, e, d) : 0;
}
