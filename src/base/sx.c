/* SPDX-License-Identifier: MIT
 * Symbolic integers: the pool, its nodes, sums and products, and what callers see of an expression.
 *
 * In: operations on expressions. Out: the node of the result's polynomial, found by hashing, so
 * that equal polynomials are one node. Each node has two forms (sx_pool.h): the polynomial over
 * base atoms, which identifies it, and the one with remainders, which callers walk. Nothing is ever
 * removed; the arena frees all. What cannot be expanded within 64 bits stays an opaque atom, which
 * sx_eval computes with checks, so an overflow while simplifying never changes a value.
 */
#include "base/sx.h"
#include "base/sx_pool.h"

#include <string.h>

/* ---- hashing ----------------------------------------------------------------------------------
 */

uint64_t sx_hash(uint64_t h, uint64_t v) {
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    h *= 0xff51afd7ed558ccdu;
    return h ^ (h >> 32);
}

uint32_t sx_table_next(const struct table *t, uint64_t hash, size_t *at) {
    if (t->cap == 0) return 0;
    size_t i = *at == SIZE_MAX ? (size_t)hash & (t->cap - 1) : (*at + 1) & (t->cap - 1);
    while (t->at[i].id != 0 && t->at[i].hash != hash)
        i = (i + 1) & (t->cap - 1);
    *at = i;
    return t->at[i].id;
}

static void table_insert(struct table *t, uint64_t hash, uint32_t id) {
    size_t i = (size_t)hash & (t->cap - 1);
    while (t->at[i].id != 0)
        i = (i + 1) & (t->cap - 1);
    t->at[i] = (struct table_slot){hash, id};
    t->n++;
}

bool sx_table_put(struct sx_pool *p, struct table *t, uint64_t hash, uint32_t id) {
    if ((t->n + 1) * 3 > t->cap * 2) {
        struct table grown = {.cap = t->cap == 0 ? 64 : t->cap * 2};
        grown.at = ARENA_NEW(p->arena, struct table_slot, grown.cap);
        if (grown.at == NULL) return false;
        for (size_t i = 0; i < t->cap; i++)
            if (t->at[i].id != 0) table_insert(&grown, t->at[i].hash, t->at[i].id);
        *t = grown;
    }
    table_insert(t, hash, id);
    return true;
}

struct sx_pool *sx_pool_new(struct arena *a) {
    struct sx_pool *p = ARENA_NEW(a, struct sx_pool, 1);
    if (p == NULL) return NULL;
    p->arena = a;
    if (!VEC_PUSH(a, &p->nodes, NULL)) return NULL;
    if (!VEC_PUSH(a, &p->monos, ((struct mono){NULL, 0}))) return NULL;
    if (!VEC_PUSH(a, &p->quotients, ((struct quotient){0, 0, 0}))) return NULL;
    return p;
}

/* ---- nodes ------------------------------------------------------------------------------------
 */

static uint64_t poly_hash(struct poly a) {
    uint64_t h = sx_hash(1, (uint64_t)a.n);
    for (int i = 0; i < a.n; i++)
        h = sx_hash(sx_hash(h, (uint64_t)a.at[i].c), a.at[i].m);
    return h;
}

static sx poly_find(const struct sx_pool *p, struct poly a, uint64_t hash) {
    size_t slot = SIZE_MAX;
    uint32_t id;
    while ((id = sx_table_next(&p->by_poly, hash, &slot)) != 0) {
        struct poly b = sx_node(p, id)->poly;
        if (a.n != b.n) continue;
        int i = 0;
        while (i < a.n && a.at[i].c == b.at[i].c && a.at[i].m == b.at[i].m)
            i++;
        if (i == a.n) return id;
    }
    return 0;
}

static bool poly_keep(struct sx_pool *p, struct poly a, struct poly *out) {
    struct term *at = ARENA_NEW(p->arena, struct term, (size_t)a.n);
    if (at == NULL) return false;
    if (a.n > 0) memcpy(at, a.at, (size_t)a.n * sizeof *at);
    *out = (struct poly){at, a.n};
    return true;
}

static struct node *node_new(struct sx_pool *p, sx *id) {
    struct node *n = ARENA_NEW(p->arena, struct node, 1);
    *id = (sx)p->nodes.n;
    if (n == NULL || !VEC_PUSH(p->arena, &p->nodes, n)) return NULL;
    return n;
}

static void inherit(const struct sx_pool *p, struct node *n, int n_args, const sx *args) {
    for (int i = 0; i < n_args; i++) {
        const struct node *a = sx_node(p, args[i]);
        n->mask |= a->mask;
        if (a->depth >= n->depth) n->depth = a->depth + 1;
    }
}

static bool set_args(struct sx_pool *p, sx e, enum sx_kind kind, int n_args, const sx *args) {
    struct node *n = sx_node(p, e);
    sx *copy = ARENA_NEW(p->arena, sx, (size_t)n_args);
    if (copy == NULL) return false;
    memcpy(copy, args, (size_t)n_args * sizeof *args);
    n->kind = kind;
    n->n_args = n_args;
    n->args = copy;
    n->depth = 0;
    inherit(p, n, n_args, args);
    return true;
}

/* Make node `id` a base atom: its polynomial is itself. */
static sx finish_atom(struct sx_pool *p, struct node *n, sx id) {
    uint32_t m;
    n->atom = true;
    n->mask |= (uint64_t)1 << (id & 63);
    if (!sx_mono_of(p, id, &m)) return 0;
    struct term t = {1, m};
    if (!poly_keep(p, (struct poly){&t, 1}, &n->poly)) return 0;
    n->ext = n->poly;
    return sx_table_put(p, &p->by_poly, poly_hash(n->poly), id) ? id : 0;
}

sx sx_binary_atom(struct sx_pool *p, enum sx_kind kind, sx a, sx b) {
    uint64_t h = sx_hash(sx_hash(sx_hash(3, (uint64_t)kind), a), b);
    size_t slot = SIZE_MAX;
    uint32_t id;
    while ((id = sx_table_next(&p->by_atom, h, &slot)) != 0) {
        const struct node *n = sx_node(p, id);
        if (n->kind == kind && n->n_args == 2 && n->args[0] == a && n->args[1] == b) return id;
    }
    if (sx_node(p, a)->depth >= SX_MAX_NEST || sx_node(p, b)->depth >= SX_MAX_NEST) return 0;
    struct node *n = node_new(p, &id);
    if (n == NULL || !set_args(p, id, kind, 2, (const sx[]){a, b})) return 0;
    if (!sx_table_put(p, &p->by_atom, h, id)) return 0;
    return finish_atom(p, n, id);
}

/* The node of one term of an ext form. */
static sx term_node(struct sx_pool *p, struct term t) {
    struct mono m = sx_mono(p, t.m);
    if (m.n == 1 && t.c == 1) return m.at[0];
    struct sx_mark mark = sx_scratch(p);
    struct poly full = {0}, one = {&t, 1};
    bool base = true;
    for (int i = 0; i < m.n; i++)
        base = base && sx_node(p, m.at[i])->atom;
    if (base) return sx_intern(p, one);
    sx c = sx_const(p, t.c), args[64 + 1], e = 0;
    memcpy(args, m.at, (size_t)m.n * sizeof *args);
    if (t.c != 1) args[m.n] = c;
    if (c != 0 && sx_poly_expand(p, one, &full))
        e = sx_intern_as(p, full, SX_MUL, m.n + (t.c != 1), args, one);
    sx_scratch_back(p, mark);
    return e;
}

bool sx_show_ext(struct sx_pool *p, sx e, struct poly ext) {
    struct poly kept = {0};
    sx args[SX_MAX_TERMS];
    if (ext.n > SX_MAX_TERMS || !poly_keep(p, ext, &kept)) return false;
    if (ext.n == 0 || (ext.n == 1 && ext.at[0].m == 0)) {
        sx_node(p, e)->kind = SX_CONST;
        sx_node(p, e)->v = ext.n == 0 ? 0 : ext.at[0].c;
    } else if (ext.n == 1) {
        struct mono m = sx_mono(p, ext.at[0].m);
        int n = m.n;
        memcpy(args, m.at, (size_t)n * sizeof *args);
        if (ext.at[0].c != 1) args[n++] = sx_const(p, ext.at[0].c);
        if (args[n - 1] == 0 || n < 2 || !set_args(p, e, SX_MUL, n, args)) return false;
    } else {
        for (int i = 0; i < ext.n; i++) {
            args[i] = term_node(p, ext.at[i]);
            if (args[i] == 0 || args[i] == e) return false;
        }
        if (!set_args(p, e, SX_ADD, ext.n, args)) return false;
    }
    sx_node(p, e)->ext = kept;
    return true;
}

bool sx_show_mod(struct sx_pool *p, sx e, sx a, sx b) {
    struct node *n = sx_node(p, e);
    struct poly self = {0};
    struct term t = {1, 0};
    if (!sx_mono_of(p, e, &t.m) || !poly_keep(p, (struct poly){&t, 1}, &self)) return false;
    if (!set_args(p, e, SX_MOD, 2, (const sx[]){a, b})) return false;
    n->mask |= (uint64_t)1 << (e & 63);
    n->ext = self;
    return true;
}

/* A node for a polynomial that has none; no form to show yet. */
static sx poly_node(struct sx_pool *p, struct poly a, uint64_t hash) {
    sx id;
    struct node *n = node_new(p, &id);
    if (n == NULL || !poly_keep(p, a, &n->poly)) return 0;
    n->ext = n->poly;
    return sx_table_put(p, &p->by_poly, hash, id) ? id : 0;
}

sx sx_intern(struct sx_pool *p, struct poly a) {
    uint64_t hash = poly_hash(a);
    sx e = poly_find(p, a, hash);
    if (e != 0) return e;
    e = poly_node(p, a, hash);
    if (e == 0 || !sx_show_ext(p, e, sx_node(p, e)->poly)) return 0;
    struct sx_mark mark = sx_scratch(p);
    sx_find_mods(p, e);
    sx_scratch_back(p, mark);
    return arena_ok(p->arena) ? e : 0;
}

sx sx_intern_as(struct sx_pool *p, struct poly a, enum sx_kind kind, int n_args, const sx *args,
                struct poly ext) {
    uint64_t hash = poly_hash(a);
    sx e = poly_find(p, a, hash);
    if (e != 0) return e;
    e = poly_node(p, a, hash);
    if (e == 0) return 0;
    if (kind == SX_MOD) return sx_show_mod(p, e, args[0], args[1]) ? e : 0;
    if (!set_args(p, e, kind, n_args, args)) return 0;
    return poly_keep(p, ext, &sx_node(p, e)->ext) ? e : 0;
}

sx sx_intern_ext(struct sx_pool *p, struct poly ext) {
    struct sx_mark mark = sx_scratch(p);
    struct poly full = {0};
    sx e = sx_poly_expand(p, ext, &full) ? sx_intern(p, full) : 0;
    sx_scratch_back(p, mark);
    return e;
}

/* ---- constructors -----------------------------------------------------------------------------
 */

sx sx_const(struct sx_pool *p, int64_t v) {
    struct term t = {v, 0};
    return sx_intern(p, (struct poly){&t, v != 0});
}

sx sx_sym(struct sx_pool *p, const char *name) {
    for (size_t i = 0; i < p->symbols.n; i++)
        if (strcmp(sx_node(p, p->symbols.at[i])->name, name) == 0) return p->symbols.at[i];
    sx id;
    struct node *n = node_new(p, &id);
    if (n == NULL) return 0;
    n->kind = SX_SYM;
    n->name = arena_strdup(p->arena, name);
    if (n->name == NULL || finish_atom(p, n, id) == 0) return 0;
    return VEC_PUSH(p->arena, &p->symbols, id) ? id : 0;
}

sx sx_var(struct sx_pool *p, const char *name, sx extent) {
    sx id;
    struct node *n = node_new(p, &id);
    if (n == NULL) return 0;
    n->kind = SX_VAR;
    n->v = p->n_vars++;
    n->extent = extent;
    n->name = arena_strdup(p->arena, name);
    return n->name != NULL ? finish_atom(p, n, id) : 0;
}

sx sx_look(struct sx_pool *p, uint32_t key, sx extent) {
    uint64_t h = sx_hash(5, key);
    size_t slot = SIZE_MAX;
    uint32_t id;
    while ((id = sx_table_next(&p->by_atom, h, &slot)) != 0) {
        struct node *n = sx_node(p, id);
        if (n->kind != SX_LOOK || n->v != (int64_t)key) continue;
        if (n->extent == 0) n->extent = extent;
        return id;
    }
    struct node *n = node_new(p, &id);
    if (n == NULL) return 0;
    n->kind = SX_LOOK;
    n->v = key;
    n->extent = extent;
    return sx_table_put(p, &p->by_atom, h, id) ? finish_atom(p, n, id) : 0;
}

static sx opaque(struct sx_pool *p, enum sx_kind kind, sx a, sx b) {
    return arena_ok(p->arena) ? sx_binary_atom(p, kind, a, b) : 0;
}

/* a + k*b */
static sx add_scaled(struct sx_pool *p, sx a, int64_t k, sx b) {
    struct sx_mark mark = sx_scratch(p);
    struct poly sum = {0};
    sx e = 0;
    if (sx_poly_axpy(p, sx_node(p, a)->poly, (struct term){k, 0}, sx_node(p, b)->poly, &sum)) {
        e = sx_intern(p, sum);
    } else {
        sx kb = k == 1 ? b : sx_mul(p, b, sx_const(p, k));
        if (kb != 0) e = opaque(p, SX_ADD, a, kb);
    }
    sx_scratch_back(p, mark);
    return e;
}

sx sx_add(struct sx_pool *p, sx a, sx b) {
    return a == 0 || b == 0 ? 0 : add_scaled(p, a, 1, b);
}

sx sx_sub(struct sx_pool *p, sx a, sx b) {
    return a == 0 || b == 0 ? 0 : add_scaled(p, a, -1, b);
}

sx sx_mul(struct sx_pool *p, sx a, sx b) {
    if (a == 0 || b == 0) return 0;
    struct sx_mark mark = sx_scratch(p);
    struct poly product = {0};
    sx e = 0;
    if (sx_poly_mul(p, sx_node(p, a)->poly, sx_node(p, b)->poly, &product))
        e = sx_intern(p, product);
    else
        e = opaque(p, SX_MUL, a, b);
    sx_scratch_back(p, mark);
    return e;
}

sx sx_ceil_div(struct sx_pool *p, sx a, sx b) {
    return sx_div(p, sx_sub(p, sx_add(p, a, b), sx_const(p, 1)), b);
}

/* ---- what callers see -------------------------------------------------------------------------
 */

enum sx_kind sx_kind(const struct sx_pool *p, sx e) {
    return e == 0 ? SX_CONST : sx_node(p, e)->kind;
}

int sx_args(const struct sx_pool *p, sx e) {
    return e == 0 ? 0 : sx_node(p, e)->n_args;
}

sx sx_arg(const struct sx_pool *p, sx e, int i) {
    return e == 0 || i < 0 || i >= sx_node(p, e)->n_args ? 0 : sx_node(p, e)->args[i];
}

bool sx_is_const(const struct sx_pool *p, sx e, int64_t *v) {
    if (e == 0 || sx_node(p, e)->kind != SX_CONST) return false;
    if (v != NULL) *v = sx_node(p, e)->v;
    return true;
}

const char *sx_name(const struct sx_pool *p, sx e) {
    return e == 0 || sx_node(p, e)->name == NULL ? "" : sx_node(p, e)->name;
}

uint32_t sx_key(const struct sx_pool *p, sx e) {
    return e != 0 && sx_node(p, e)->kind == SX_LOOK ? (uint32_t)sx_node(p, e)->v : 0;
}

sx sx_extent(const struct sx_pool *p, sx e) {
    return e == 0 ? 0 : sx_node(p, e)->extent;
}

int sx_symbols(const struct sx_pool *p) {
    return (int)p->symbols.n;
}

sx sx_symbol_at(const struct sx_pool *p, int i) {
    return i < 0 || i >= (int)p->symbols.n ? 0 : p->symbols.at[i];
}
