/* SPDX-License-Identifier: MIT
 * Monomials and polynomials under the symbolic integers: the arithmetic of sorted term lists.
 *
 * A monomial is interned as a sorted list of atoms, so comparing two for equality compares numbers.
 * The order of atoms, and by it that of terms and factors, depends only on what they are (names of
 * symbols, order of creation of variables), never on when an expression was first seen: a graph
 * that is read from its own print has the same expressions. Working polynomials live on a scratch
 * stack of the pool.
 */
#include "base/sx_pool.h"

#include <string.h>

bool sx_mul_ok(int64_t a, int64_t b, int64_t *out) {
    if (a == 0 || b == 0) {
        *out = 0;
        return true;
    }
    bool bad;
    if (a > 0)
        bad = b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a;
    else
        bad = b > 0 ? a < INT64_MIN / b : b < INT64_MAX / a;
    if (bad) return false;
    *out = a * b;
    return true;
}

int64_t sx_floor_div(int64_t a, int64_t b) {
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t sx_floor_mod(int64_t a, int64_t b) {
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int64_t sx_gcd(int64_t a, int64_t b) {
    /* the least integer has no absolute value: 1 is a common divisor as well */
    if (a == INT64_MIN || b == INT64_MIN) return 1;
    if (a < 0) a = -a;
    if (b < 0) b = -b;
    while (b != 0) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* ---- scratch ----------------------------------------------------------------------------------
 */

#define CHUNK_TERMS 2048u

struct sx_mark sx_scratch(const struct sx_pool *p) {
    return p->top;
}

void sx_scratch_back(struct sx_pool *p, struct sx_mark mark) {
    p->top = mark;
}

static struct term *take(struct sx_pool *p, size_t n) {
    while (p->top.chunk < p->chunks.n && p->chunks.at[p->top.chunk].cap - p->top.used < n) {
        p->top.chunk++;
        p->top.used = 0;
    }
    if (p->top.chunk == p->chunks.n) {
        size_t cap = n > CHUNK_TERMS ? n : CHUNK_TERMS;
        struct term *at = ARENA_NEW(p->arena, struct term, cap);
        if (at == NULL) return NULL;
        if (!VEC_PUSH(p->arena, &p->chunks, ((struct sx_chunk){at, cap}))) return NULL;
    }
    struct term *t = p->chunks.at[p->top.chunk].at + p->top.used;
    p->top.used += n;
    return t;
}

/* ---- order ------------------------------------------------------------------------------------
 */

static int rank_of(const struct node *n) {
    switch (n->kind) {
    case SX_VAR: return 0;
    case SX_LOOK: return 1;
    case SX_SYM: return 2;
    case SX_DIV:
    case SX_MOD:
    case SX_CONST:
    case SX_ADD:
    case SX_MUL: break;
    }
    return 3;
}

static int int_cmp(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static int poly_cmp(const struct sx_pool *p, struct poly a, struct poly b) {
    for (int i = 0; i < a.n && i < b.n; i++) {
        int c = sx_mono_cmp(p, a.at[i].m, b.at[i].m);
        if (c == 0) c = int_cmp(a.at[i].c, b.at[i].c);
        if (c != 0) return c;
    }
    return int_cmp(a.n, b.n);
}

/* Distinct atoms differ in structure, so this goes down one path only: the first difference. */
int sx_atom_cmp(const struct sx_pool *p, sx a, sx b) {
    if (a == b) return 0;
    const struct node *x = sx_node(p, a), *y = sx_node(p, b);
    int c = int_cmp(rank_of(x), rank_of(y));
    if (c != 0) return c;
    if (x->kind == SX_SYM) return strcmp(x->name, y->name);
    if (x->kind == SX_VAR || x->kind == SX_LOOK) return int_cmp(x->v, y->v);
    int n = x->n_args < y->n_args ? x->n_args : y->n_args;
    for (int i = 0; i < n; i++) {
        if (x->args[i] == y->args[i]) continue;
        return poly_cmp(p, sx_node(p, x->args[i])->poly, sx_node(p, y->args[i])->poly);
    }
    c = int_cmp(x->n_args, y->n_args);
    return c != 0 ? c : int_cmp((int)x->kind, (int)y->kind);
}

/* Lexicographic; a monomial comes before its prefixes, so that constants come last. */
int sx_mono_cmp(const struct sx_pool *p, uint32_t a, uint32_t b) {
    if (a == b) return 0;
    struct mono x = sx_mono(p, a), y = sx_mono(p, b);
    for (int i = 0; i < x.n && i < y.n; i++) {
        int c = sx_atom_cmp(p, x.at[i], y.at[i]);
        if (c != 0) return c;
    }
    return int_cmp(y.n, x.n);
}

/* ---- monomials --------------------------------------------------------------------------------
 */

#define MAX_DEGREE 64

static bool mono_intern(struct sx_pool *p, const sx *at, int n, uint32_t *out) {
    if (n == 0) {
        *out = 0;
        return true;
    }
    uint64_t h = sx_hash(7, (uint64_t)n);
    for (int i = 0; i < n; i++)
        h = sx_hash(h, at[i]);
    size_t slot = SIZE_MAX;
    uint32_t id;
    while ((id = sx_table_next(&p->by_mono, h, &slot)) != 0) {
        struct mono m = sx_mono(p, id);
        if (m.n == n && memcmp(m.at, at, (size_t)n * sizeof *at) == 0) {
            *out = id;
            return true;
        }
    }
    sx *copy = ARENA_NEW(p->arena, sx, (size_t)n);
    if (copy == NULL) return false;
    memcpy(copy, at, (size_t)n * sizeof *at);
    id = (uint32_t)p->monos.n;
    if (!VEC_PUSH(p->arena, &p->monos, ((struct mono){copy, n}))) return false;
    if (!sx_table_put(p, &p->by_mono, h, id)) return false;
    *out = id;
    return true;
}

bool sx_mono_of(struct sx_pool *p, sx atom, uint32_t *out) {
    return mono_intern(p, &atom, 1, out);
}

bool sx_mono_mul(struct sx_pool *p, uint32_t a, uint32_t b, uint32_t *out) {
    struct mono x = sx_mono(p, a), y = sx_mono(p, b);
    if (x.n == 0 || y.n == 0) {
        *out = x.n == 0 ? b : a;
        return true;
    }
    sx at[MAX_DEGREE];
    if (x.n + y.n > MAX_DEGREE) return false;
    int n = 0, i = 0, j = 0;
    while (i < x.n || j < y.n) {
        bool first = j == y.n || (i < x.n && sx_atom_cmp(p, x.at[i], y.at[j]) <= 0);
        at[n++] = first ? x.at[i++] : y.at[j++];
    }
    return mono_intern(p, at, n, out);
}

bool sx_mono_div(struct sx_pool *p, uint32_t a, uint32_t b, uint32_t *out) {
    struct mono x = sx_mono(p, a), y = sx_mono(p, b);
    sx at[MAX_DEGREE];
    int n = 0, j = 0;
    for (int i = 0; i < x.n; i++) {
        if (j < y.n && x.at[i] == y.at[j])
            j++;
        else
            at[n++] = x.at[i];
    }
    return j == y.n && mono_intern(p, at, n, out);
}

bool sx_mono_gcd(struct sx_pool *p, uint32_t a, uint32_t b, uint32_t *out) {
    struct mono x = sx_mono(p, a), y = sx_mono(p, b);
    sx at[MAX_DEGREE];
    int n = 0, i = 0, j = 0;
    while (i < x.n && j < y.n) {
        int c = sx_atom_cmp(p, x.at[i], y.at[j]);
        if (c == 0) at[n++] = x.at[i];
        if (c <= 0) i++;
        if (c >= 0) j++;
    }
    return mono_intern(p, at, n, out);
}

bool sx_mono_has(const struct sx_pool *p, uint32_t m, sx atom) {
    struct mono x = sx_mono(p, m);
    for (int i = 0; i < x.n; i++)
        if (x.at[i] == atom) return true;
    return false;
}

/* ---- polynomials ------------------------------------------------------------------------------
 */

/* t*b, sorted. */
static bool scale(struct sx_pool *p, struct term t, struct poly b, struct poly *out) {
    struct term *at = take(p, (size_t)b.n + 1);
    if (at == NULL) return false;
    for (int i = 0; i < b.n; i++) {
        struct term u;
        if (!sx_mul_ok(t.c, b.at[i].c, &u.c)) return false;
        if (!sx_mono_mul(p, t.m, b.at[i].m, &u.m)) return false;
        int j = i;
        for (; j > 0 && sx_mono_cmp(p, at[j - 1].m, u.m) > 0; j--)
            at[j] = at[j - 1];
        at[j] = u;
    }
    *out = (struct poly){at, b.n};
    return true;
}

bool sx_poly_axpy(struct sx_pool *p, struct poly a, struct term t, struct poly b,
                  struct poly *out) {
    if (t.c == 0) {
        *out = a;
        return true;
    }
    struct poly s = {0};
    p->work += a.n + b.n;
    if (!scale(p, t, b, &s)) return false;
    struct term *at = take(p, (size_t)(a.n + s.n) + 1);
    if (at == NULL) return false;
    int n = 0, i = 0, j = 0;
    while (i < a.n || j < s.n) {
        int c = i == a.n ? 1 : j == s.n ? -1 : sx_mono_cmp(p, a.at[i].m, s.at[j].m);
        struct term u = c <= 0 ? a.at[i++] : s.at[j++];
        if (c == 0 && !add_ok(u.c, s.at[j++].c, &u.c)) return false;
        if (u.c != 0) at[n++] = u;
    }
    *out = (struct poly){at, n};
    return n <= SX_MAX_TERMS;
}

bool sx_poly_mul(struct sx_pool *p, struct poly a, struct poly b, struct poly *out) {
    struct poly sum = {0};
    for (int i = 0; i < a.n; i++)
        if (!sx_poly_axpy(p, sum, a.at[i], b, &sum)) return false;
    *out = sum;
    return true;
}

bool sx_poly_quotient(struct sx_pool *p, struct poly a, struct poly b, struct poly *out) {
    struct poly one = {&(struct term){1, 0}, 1}, q = {0};
    if (b.n == 0) return false;
    /* Long division by the first term of b. The order of monomials need not agree with
     * multiplication, so look for any term that the first of b divides, and give up when that goes
     * on too long. */
    for (int step = 0; a.n > 0; step++) {
        struct term t = {0, 0};
        int i = 0;
        for (; i < a.n; i++) {
            if (b.at[0].c == -1 && a.at[i].c == INT64_MIN) return false;
            if (a.at[i].c % b.at[0].c == 0 && sx_mono_div(p, a.at[i].m, b.at[0].m, &t.m)) break;
        }
        if (i == a.n || step > SX_MAX_TERMS) return false;
        t.c = a.at[i].c / b.at[0].c;
        if (t.c == INT64_MIN || !sx_poly_axpy(p, q, t, one, &q)) return false;
        if (!sx_poly_axpy(p, a, (struct term){-t.c, t.m}, b, &a)) return false;
        if (b.n == 1 && i > 0) return false; /* each step removes the first term, or it stays */
    }
    *out = q;
    return true;
}

static bool is_base(const struct sx_pool *p, uint32_t m) {
    struct mono x = sx_mono(p, m);
    for (int i = 0; i < x.n; i++)
        if (!sx_node(p, x.at[i])->atom) return false;
    return true;
}

static bool expand_term(struct sx_pool *p, struct term t, struct poly *out) {
    struct poly one = {&(struct term){1, 0}, 1}, sum = {0};
    if (!sx_poly_axpy(p, sum, (struct term){t.c, 0}, one, &sum)) return false;
    struct mono x = sx_mono(p, t.m);
    for (int i = 0; i < x.n; i++)
        if (!sx_poly_mul(p, sum, sx_node(p, x.at[i])->poly, &sum)) return false;
    *out = sum;
    return true;
}

bool sx_poly_expand(struct sx_pool *p, struct poly ext, struct poly *out) {
    struct poly one = {&(struct term){1, 0}, 1}, sum = {0};
    for (int i = 0; i < ext.n; i++) {
        struct poly part = {0};
        if (is_base(p, ext.at[i].m)) {
            if (!sx_poly_axpy(p, sum, ext.at[i], one, &sum)) return false;
        } else {
            if (!expand_term(p, ext.at[i], &part)) return false;
            if (!sx_poly_axpy(p, sum, (struct term){1, 0}, part, &sum)) return false;
        }
    }
    *out = sum;
    return true;
}

bool sx_poly_by_atom(struct sx_pool *p, struct poly a, sx atom, struct poly *with,
                     struct poly *without) {
    struct poly one = {&(struct term){1, 0}, 1}, w = {0}, r = {0};
    uint32_t m;
    if (!sx_mono_of(p, atom, &m)) return false;
    for (int i = 0; i < a.n; i++) {
        struct term t = a.at[i];
        if (!sx_mono_has(p, t.m, atom)) {
            if (!sx_poly_axpy(p, r, t, one, &r)) return false;
        } else {
            if (!sx_mono_div(p, t.m, m, &t.m)) return false;
            if (!sx_poly_axpy(p, w, t, one, &w)) return false;
        }
    }
    *with = w;
    *without = r;
    return true;
}

int64_t sx_poly_coef(struct poly a, uint32_t m) {
    for (int i = 0; i < a.n; i++)
        if (a.at[i].m == m) return a.at[i].c;
    return 0;
}
