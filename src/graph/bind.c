/* SPDX-License-Identifier: MIT
 * Sizes of one run: from names and shapes to the value of every symbol, and the checks on them.
 *
 * In: sizes by name first, then the shapes of parameters. A dim that is a symbol alone binds it,
 * then a dim that is linear in its only unbound symbol is solved for it; one size may lead to
 * another, so dims_bind_params goes over the parameters until nothing changes. Every dim whose
 * symbols are bound is compared with the shape at once, so that two inputs that disagree are found
 * by whichever comes second. What remains unbound is no error until a value is asked for: plans may
 * be symbolic.
 */
#include "graph/internal.h"

#include <string.h>

struct dims_binding dims_binding_new(struct arena *a, const struct graph *g) {
    int n = sx_symbols(g->sx);
    struct dims_binding b = {0};
    int64_t *value = ARENA_NEW(a, int64_t, n);
    value_id *from = ARENA_NEW(a, value_id, n);
    if (value == NULL || from == NULL) return b;
    for (int i = 0; i < n; i++)
        value[i] = -1;
    b.n = n;
    b.value = value;
    b.from = from;
    return b;
}

static int symbol_index(const struct graph *g, sx symbol) {
    for (int i = 0; i < sx_symbols(g->sx); i++)
        if (sx_symbol_at(g->sx, i) == symbol) return i;
    return -1;
}

static int64_t bound(const struct graph *g, const struct dims_binding *b, sx symbol) {
    int i = symbol_index(g, symbol);
    return i < 0 || i >= b->n ? -1 : b->value[i];
}

/* ---- messages ---------------------------------------------------------------------------------
 */

/* Texts of a message, freed together. */
struct texts {
    struct str a, b;
};

static struct texts texts_begin(const struct graph *g) {
    struct texts t;
    str_init(&t.a, g->arena->alloc);
    str_init(&t.b, g->arena->alloc);
    return t;
}

static enum proem_status texts_end(struct texts *t, enum proem_status s) {
    str_free(&t->a);
    str_free(&t->b);
    return s;
}

static const char *source_of(const struct graph *g, const struct dims_binding *b, int i) {
    value_id v = b->from == NULL ? 0 : b->from[i];
    return v == 0 ? "the sizes given" : graph_value(g, v)->name;
}

static enum proem_status conflict(const struct graph *g, const struct dims_binding *b, int i,
                                  value_id where, int64_t v, struct err *e) {
    const char *here = where == 0 ? "the sizes given" : graph_value(g, where)->name;
    return err_set(e, PROEM_INVALID, "symbol %s is %lld in %s but %lld in %s",
                   sx_name(g->sx, sx_symbol_at(g->sx, i)), (long long)b->value[i],
                   source_of(g, b, i), (long long)v, here);
}

static void print_shape(int rank, const int64_t *shape, struct str *out) {
    str_add(out, "[");
    for (int i = 0; i < rank; i++)
        str_printf(out, i == 0 ? "%lld" : ", %lld", (long long)shape[i]);
    str_add(out, "]");
}

static void print_dims(const struct graph *g, const struct value *v, struct str *out) {
    str_add(out, "[");
    for (int i = 0; i < v->rank; i++) {
        if (i > 0) str_add(out, ", ");
        dim_print(g, v->dims[i], out);
    }
    str_add(out, "]");
}

/* ---- values -----------------------------------------------------------------------------------
 */

struct lookup {
    const struct graph *g;
    const struct dims_binding *b;
};

static bool symbol_value(void *user, const struct sx_pool *p, sx atom, int64_t *v) {
    const struct lookup *l = user;
    if (sx_kind(p, atom) != SX_SYM) return false;
    *v = bound(l->g, l->b, atom);
    return *v >= 0;
}

bool dims_value(const struct graph *g, const struct dims_binding *b, sx e, int64_t *out) {
    struct lookup l = {g, b};
    int64_t v;
    if (!sx_eval(g->sx, e, symbol_value, &l, &v)) return false;
    *out = v;
    return true;
}

/* The unbound symbols of e: how many, and the last. */
static int count_unbound(const struct graph *g, const struct dims_binding *b, sx e, sx *last) {
    int n = 0;
    for (int i = 0; i < sx_symbols(g->sx); i++) {
        sx s = sx_symbol_at(g->sx, i);
        if ((i < b->n && b->value[i] >= 0) || !sx_has(g->sx, e, s)) continue;
        *last = s;
        n++;
    }
    return n;
}

/* Why e has no value. */
static enum proem_status no_value(const struct graph *g, const struct dims_binding *b, sx e,
                                  const char *what, int index, struct err *err) {
    sx s = 0;
    if (count_unbound(g, b, e, &s) > 0)
        return err_set(err, PROEM_INVALID,
                       "symbol %s is not bound (%s needs it): give its size, --dim %s=..",
                       sx_name(g->sx, s), what, sx_name(g->sx, s));
    struct texts t = texts_begin(g);
    dim_print(g, e, &t.a);
    return texts_end(&t, err_set(err, PROEM_INVALID,
                                 "%s: dim %d, %s, has no value: division by 0, or too large", what,
                                 index, str_text(&t.a)));
}

enum proem_status dims_shape(const struct graph *g, const struct dims_binding *b, value_id v,
                             int64_t *shape, struct err *e) {
    const struct value *val = graph_value(g, v);
    int64_t dims[MAX_RANK], count = 1;
    bool empty = false, fits = true;
    for (int i = 0; i < val->rank; i++) {
        if (!dims_value(g, b, val->dims[i], &dims[i]))
            return no_value(g, b, val->dims[i], val->name, i, e);
        if (dims[i] < 0) {
            struct texts t = texts_begin(g);
            dim_print(g, val->dims[i], &t.a);
            return texts_end(&t, err_set(e, PROEM_INVALID, "%s: dim %d, %s, is negative: %lld",
                                         val->name, i, str_text(&t.a), (long long)dims[i]));
        }
        empty = empty || dims[i] == 0;
        fits = fits && (dims[i] == 0 || count <= INT64_MAX / 16 / dims[i]);
        if (fits && dims[i] != 0) count *= dims[i];
    }
    if (!fits && !empty) {
        struct texts t = texts_begin(g);
        print_shape(val->rank, dims, &t.a);
        return texts_end(&t, err_set(e, PROEM_INVALID, "%s: %s has too many elements", val->name,
                                     str_text(&t.a)));
    }
    if (val->rank > 0) memcpy(shape, dims, (size_t)val->rank * sizeof *shape);
    return PROEM_OK;
}

/* ---- binding ----------------------------------------------------------------------------------
 */

static enum proem_status bind_symbol(const struct graph *g, struct dims_binding *b, int i,
                                     int64_t v, value_id where, struct err *e) {
    if (b->value[i] >= 0 && b->value[i] != v) return conflict(g, b, i, where, v, e);
    if (b->value[i] < 0 && b->from != NULL) b->from[i] = where;
    b->value[i] = v;
    return PROEM_OK;
}

enum proem_status dims_bind_name(const struct graph *g, struct dims_binding *b, const char *name,
                                 int64_t v, struct err *e) {
    if (b->value == NULL && sx_symbols(g->sx) > 0) return err_nomem(e);
    if (v < 0)
        return err_set(e, PROEM_INVALID, "symbol %s is given as %lld: a size is not negative", name,
                       (long long)v);
    for (int i = 0; i < b->n; i++)
        if (strcmp(sx_name(g->sx, sx_symbol_at(g->sx, i)), name) == 0)
            return bind_symbol(g, b, i, v, 0, e);
    struct texts t = texts_begin(g);
    for (int i = 0; i < b->n; i++)
        str_printf(&t.a, i == 0 ? "; its symbols are %s" : ", %s",
                   sx_name(g->sx, sx_symbol_at(g->sx, i)));
    return texts_end(&t, err_set(e, PROEM_INVALID, "graph %s has no symbol %s%s", g->name, name,
                                 str_text(&t.a)));
}

static enum proem_status check_rank(const struct graph *g, value_id param, int rank,
                                    const int64_t *shape, struct err *e) {
    const struct value *v = graph_value(g, param);
    bool negative = false;
    for (int i = 0; i < rank && i < v->rank; i++)
        negative = negative || shape[i] < 0;
    if (rank == v->rank && !negative) return PROEM_OK;
    struct texts t = texts_begin(g);
    print_shape(rank, shape, &t.a);
    print_dims(g, v, &t.b);
    return texts_end(&t, err_set(e, PROEM_INVALID, "%s has the shape %s, but its type says %s",
                                 v->name, str_text(&t.a), str_text(&t.b)));
}

/* The dim e of the parameter, all its symbols bound, against the shape. */
static enum proem_status check_dim(const struct graph *g, const struct dims_binding *b,
                                   value_id param, int index, int64_t want, struct err *e) {
    const struct value *v = graph_value(g, param);
    sx dim = v->dims[index];
    int64_t is;
    if (!dims_value(g, b, dim, &is)) return no_value(g, b, dim, v->name, index, e);
    if (is == want) return PROEM_OK;
    if (sx_is_const(g->sx, dim, NULL))
        return err_set(e, PROEM_INVALID, "%s: dim %d is %lld instead of %lld", v->name, index,
                       (long long)want, (long long)is);
    struct texts t = texts_begin(g);
    dim_print(g, dim, &t.a);
    const char *comma = ": ";
    for (int i = 0; i < b->n; i++) {
        sx s = sx_symbol_at(g->sx, i);
        if (b->value[i] < 0 || s == dim || !sx_has(g->sx, dim, s)) continue;
        str_printf(&t.b, "%ssymbol %s is %lld in %s", comma, sx_name(g->sx, s),
                   (long long)b->value[i], source_of(g, b, i));
        comma = ", ";
    }
    return texts_end(&t, err_set(e, PROEM_INVALID, "%s: dim %d is %lld, but %s is %lld%s", v->name,
                                 index, (long long)want, str_text(&t.a), (long long)is,
                                 str_text(&t.b)));
}

/* (c*s + r) / d in the unbound symbol s, d > 0. */
struct line {
    int64_t c, r, d;
};

static bool mul_to(int64_t *a, int64_t b) {
    if (*a == 0 || b == 0) {
        *a = 0;
        return true;
    }
    int64_t x = *a, most = INT64_MAX;
    if (x == INT64_MIN || b == INT64_MIN || (x < 0 ? -x : x) > most / (b < 0 ? -b : b))
        return false;
    *a = x * b;
    return true;
}

static bool add_to(int64_t *a, int64_t b) {
    if (b >= 0 ? *a > INT64_MAX - b : *a < INT64_MIN - b) return false;
    *a += b;
    return true;
}

static bool combine(const struct graph *g, sx e, struct line a, struct line b, struct line *out) {
    switch (sx_kind(g->sx, e)) {
    case SX_ADD:
        if (!mul_to(&a.c, b.d) || !mul_to(&a.r, b.d) || !mul_to(&b.c, a.d) || !mul_to(&b.r, a.d))
            return false;
        if (!add_to(&a.c, b.c) || !add_to(&a.r, b.r) || !mul_to(&a.d, b.d)) return false;
        break;
    case SX_MUL:
        if (a.c != 0 && b.c != 0) return false;
        if (a.c == 0) {
            struct line t = a;
            a = b;
            b = t;
        }
        if (!mul_to(&a.c, b.r) || !mul_to(&a.r, b.r) || !mul_to(&a.d, b.d)) return false;
        break;
    case SX_DIV: /* written with `/`, so it leaves no rest */
        if (!dim_divides(g, sx_arg(g->sx, e, 0), sx_arg(g->sx, e, 1))) return false;
        if (b.c != 0 || b.d != 1 || b.r <= 0 || !mul_to(&a.d, b.r)) return false;
        break;
    case SX_MOD:
    case SX_CONST:
    case SX_SYM:
    case SX_VAR:
    case SX_LOOK: return false;
    }
    *out = a;
    return true;
}

/* e as a line in s. Reads the pool only, so that programs can bind their sizes in several threads.
 */
static bool line_of(const struct graph *g, const struct dims_binding *b, sx e, sx s,
                    struct line *out) {
    struct line sum, next;
    if (e == s) {
        *out = (struct line){1, 0, 1};
        return true;
    }
    if (!sx_has(g->sx, e, s)) {
        *out = (struct line){0, 0, 1};
        return dims_value(g, b, e, &out->r);
    }
    if (!line_of(g, b, sx_arg(g->sx, e, 0), s, &sum)) return false;
    for (int i = 1; i < sx_args(g->sx, e); i++)
        if (!line_of(g, b, sx_arg(g->sx, e, i), s, &next) || !combine(g, e, sum, next, &sum))
            return false;
    *out = sum;
    return true;
}

/* A dim linear in its one unbound symbol: (c*s + r)/d = want. */
static enum proem_status solve(const struct graph *g, struct dims_binding *b, value_id param,
                               int index, sx symbol, int64_t want, struct err *e) {
    const struct value *v = graph_value(g, param);
    sx dim = v->dims[index];
    struct line l;
    int64_t rhs = want;
    int i = symbol_index(g, symbol);
    if (i >= b->n || !line_of(g, b, dim, symbol, &l)) return PROEM_OK;
    if (l.c == 0) return PROEM_OK; /* any size fits here, if another dim gives it */
    bool fits = mul_to(&rhs, l.d) && l.r != INT64_MIN && add_to(&rhs, -l.r) && l.c != INT64_MIN;
    if (fits && l.c < 0) {
        l.c = -l.c;
        fits = mul_to(&rhs, -1);
    }
    fits = fits && rhs >= 0 && rhs % l.c == 0;
    if (fits) return bind_symbol(g, b, i, rhs / l.c, param, e);
    struct texts t = texts_begin(g);
    dim_print(g, dim, &t.a);
    return texts_end(&t, err_set(e, PROEM_INVALID, "%s: dim %d is %lld, but %s is that for no %s",
                                 v->name, index, (long long)want, str_text(&t.a),
                                 sx_name(g->sx, symbol)));
}

enum proem_status dims_bind_param(const struct graph *g, struct dims_binding *b, value_id param,
                                  int rank, const int64_t *shape, struct err *e) {
    const struct value *v = graph_value(g, param);
    if (b->value == NULL && sx_symbols(g->sx) > 0) return err_nomem(e);
    TRY(check_rank(g, param, rank, shape, e));
    for (int i = 0; i < rank; i++) {
        int s = sx_kind(g->sx, v->dims[i]) == SX_SYM ? symbol_index(g, v->dims[i]) : -1;
        if (s >= 0 && s < b->n) TRY(bind_symbol(g, b, s, shape[i], param, e));
    }
    /* a symbol that one dim gives may be what another needs: as many rounds as there are dims */
    for (int round = 0; round < rank; round++) {
        for (int i = 0; i < rank; i++) {
            sx symbol = 0;
            int n = count_unbound(g, b, v->dims[i], &symbol);
            if (n == 0) TRY(check_dim(g, b, param, i, shape[i], e));
            if (n == 1) TRY(solve(g, b, param, i, symbol, shape[i], e));
        }
    }
    return PROEM_OK;
}

static int count_bound(const struct dims_binding *b) {
    int n = 0;
    for (int i = 0; i < b->n; i++)
        n += b->value[i] >= 0;
    return n;
}

enum proem_status dims_bind_params(const struct graph *g, struct dims_binding *b, const int *rank,
                                   const int64_t *const *shape, struct err *e) {
    for (int before = -1; before != count_bound(b);) {
        before = count_bound(b);
        for (size_t i = 0; i < g->params.n; i++)
            if (shape[i] != NULL)
                TRY(dims_bind_param(g, b, g->params.at[i].value, rank[i], shape[i], e));
    }
    return PROEM_OK;
}

/* ---- checks -----------------------------------------------------------------------------------
 */

/* "M - 1, 4"; a number stands for itself. */
static void size_with_value(const struct graph *g, sx size, int64_t value, struct str *out) {
    dim_print(g, size, out);
    if (sx_kind(g->sx, size) != SX_CONST) str_printf(out, ", %lld", (long long)value);
}

static enum proem_status check_condition(const struct graph *g, const struct dims_binding *b,
                                         const struct dim_check *c, struct err *e) {
    int64_t x, y;
    if (!dims_value(g, b, c->a, &x)) return no_value(g, b, c->a, "a condition on sizes", 0, e);
    if (!dims_value(g, b, c->b, &y)) return no_value(g, b, c->b, "a condition on sizes", 0, e);
    if (c->kind == DIM_DIVIDES ? y > 0 && x % y == 0 : x <= y) return PROEM_OK;
    struct texts t = texts_begin(g);
    size_with_value(g, c->a, x, &t.a);
    size_with_value(g, c->b, y, &t.b);
    const char *what = c->kind == DIM_DIVIDES ? "is not divisible by" : "may not be larger than";
    bool comma = sx_kind(g->sx, c->a) != SX_CONST;
    return texts_end(&t, err_set_at(e, PROEM_INVALID, c->line, c->col, "%s%s %s %s", str_text(&t.a),
                                    comma ? "," : "", what, str_text(&t.b)));
}

/* Every size that an operator uses has a value. */
static enum proem_status check_attrs(const struct graph *g, const struct dims_binding *b,
                                     const struct node *n, struct err *e) {
    const struct attrs *a = &n->attrs;
    const char *name = n->n_out > 0 ? graph_value(g, n->out)->name : "an operator";
    int64_t v;
    for (int i = 0; i < a->n_list; i++)
        if (a->list[i] != 0 && !dims_value(g, b, a->list[i], &v))
            return no_value(g, b, a->list[i], name, i, e);
    for (int i = 0; i < a->n_list2; i++)
        if (a->list2[i] != 0 && !dims_value(g, b, a->list2[i], &v))
            return no_value(g, b, a->list2[i], name, i, e);
    sx one[] = {a->start, a->stop, a->k};
    for (size_t i = 0; i < COUNT_OF(one); i++)
        if (one[i] != 0 && !dims_value(g, b, one[i], &v)) return no_value(g, b, one[i], name, 0, e);
    return PROEM_OK;
}

enum proem_status dims_check(const struct graph *g, const struct dims_binding *b, struct err *e) {
    int64_t shape[MAX_RANK];
    for (size_t i = 0; i < g->checks.n; i++)
        TRY(check_condition(g, b, &g->checks.at[i], e));
    for (size_t v = 1; v < g->values.n; v++)
        TRY(dims_shape(g, b, (value_id)v, shape, e));
    for (size_t i = 1; i < g->nodes.n; i++) {
        const struct node *n = &g->nodes.at[i];
        TRY(check_attrs(g, b, n, e));
        for (int h = 0; n->hooks != NULL && h < HOOK_COUNT; h++)
            if (n->hooks[h].body != NULL) TRY(dims_check(n->hooks[h].body, b, e));
    }
    return PROEM_OK;
}
