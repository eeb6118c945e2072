/* SPDX-License-Identifier: MIT
 * Data to measure a kernel on: a kernel of the plan in, memory for its arguments out.
 *
 * Values are random, as those of an input that nobody named: the time of a product does not depend
 * on them, except where they are indices. What the plan's data checks and the kernel's own look-ups
 * demand of a tensor (an index lies in bounds, offsets are sorted, a divisor is not 0) the values
 * obey, so a kernel never reads outside of a tensor here either. A kernel whose checked value or
 * index is computed from tensors, not loaded, is left alone, since nothing says which tensors would
 * give a good one.
 * Large tensors repeat one block of values: making them would take longer than measuring.
 */
#include <string.h>

#include "driver/tune.h"
#include "front/front.h"

#define BLOCK ((int64_t)1 << 16) /* elements; whole bytes for every dtype */
#define SEED  0x70726f656d       /* any: the choice is kept, not the data */

enum demand { DEMAND_NONE, DEMAND_RULE, DEMAND_UNKNOWN };

struct demands {
    struct proem_program *p;
    struct random_rule *rule; /* by lowered value */
    enum demand *kind;
};

/* ---- what checks demand ---------------------------------------------------------------------- */

/* The tensor that a checked value is loaded from as it is, 0 if it is computed. */
static value_id loaded_tensor(struct plan *p, fn_id f) {
    const struct fn_node *n = fn_get(p->fns, f);
    while (n->kind == FN_CONVERT && dtype_is_int(n->dtype)) {
        const struct fn_node *from = fn_get(p->fns, n->arg[0]);
        if (!dtype_is_int(from->dtype)) return 0;
        n = from;
    }
    return n->kind == FN_LOAD && dtype_is_int(n->dtype) ? n->tensor : 0;
}

static void mark_unknown(void *user, fn_id f) {
    struct demands *d = user;
    const struct fn_node *n = fn_get(d->p->plan.fns, f);
    if (n->kind == FN_LOAD) d->kind[n->tensor] = DEMAND_UNKNOWN;
}

static void restrict_to(struct random_rule *r, int64_t lo, int64_t hi) {
    r->lo = r->bounded && r->lo > lo ? r->lo : lo;
    r->hi = r->bounded && r->hi < hi ? r->hi : hi;
    r->bounded = true;
}

/* ---- what look-ups demand -------------------------------------------------------------------- */

/* x of `x < 0 ? x + n : x`, in which a negative index counts from the end. */
static fn_id unwrapped(struct plan *p, fn_id f) {
    const struct fn_node *n = fn_get(p->fns, f);
    if (n->kind != FN_WHERE) return f;
    const struct fn_node *less = fn_get(p->fns, n->arg[0]), *more = fn_get(p->fns, n->arg[1]);
    bool wraps = less->kind == FN_OP && less->op == OP_LT && less->arg[0] == n->arg[2] &&
                 more->kind == FN_OP && more->op == OP_ADD &&
                 (more->arg[0] == n->arg[2] || more->arg[1] == n->arg[2]);
    return wraps ? n->arg[2] : f;
}

static void take_look(struct demands *d, sx look) {
    struct proem_program *p = d->p;
    struct sx_pool *sp = fn_sx(p->plan.fns);
    fn_id f = sx_key(sp, look);
    value_id v = loaded_tensor(&p->plan, unwrapped(&p->plan, f));
    int64_t extent;
    if (v == 0 || d->kind[v] == DEMAND_UNKNOWN ||
        !dims_value(p->graph, &p->dims, sx_extent(sp, look), &extent)) {
        fn_walk(p->plan.fns, f, mark_unknown, d);
        return;
    }
    d->kind[v] = DEMAND_RULE;
    restrict_to(&d->rule[v], 0, extent - 1);
}

static void take_looks(struct demands *d, sx e) {
    const struct sx_pool *sp = fn_sx(d->p->plan.fns);
    if (sx_kind(sp, e) == SX_LOOK) take_look(d, e);
    for (int i = 0; i < sx_args(sp, e); i++)
        take_looks(d, sx_arg(sp, e, i));
}

static void take_load(void *user, fn_id f) {
    struct demands *d = user;
    const struct fn_node *n = fn_get(d->p->plan.fns, f);
    for (int i = 0; n->kind == FN_LOAD && i < n->rank; i++)
        take_looks(d, n->idx[i]);
}

static void take_kernel(struct demands *d, const struct kernel *k) {
    struct fn_pool *fns = d->p->plan.fns;
    if (k->a != 0) fn_walk(fns, k->a, take_load, d);
    for (int i = 0; i < k->n_b; i++)
        fn_walk(fns, k->b[i], take_load, d);
    for (size_t i = 0; i < k->stores.n; i++) {
        const struct kernel_store *st = &k->stores.at[i];
        fn_walk(fns, st->f, take_load, d);
        for (int j = 0; j < st->rank; j++)
            take_looks(d, st->idx[j]);
    }
}

static void take_check(struct demands *d, const struct plan_check *c) {
    struct proem_program *p = d->p;
    value_id v = loaded_tensor(&p->plan, c->f);
    int64_t bound = 0;
    bool known = c->kind == CHECK_NONZERO || dims_value(p->graph, &p->dims, c->bound, &bound);
    if (v == 0 || !known || d->kind[v] == DEMAND_UNKNOWN) {
        fn_walk(p->plan.fns, c->f, mark_unknown, d);
        return;
    }
    struct random_rule *r = &d->rule[v];
    d->kind[v] = DEMAND_RULE;
    if (c->kind == CHECK_NONZERO) r->nonzero = true;
    if (c->kind == CHECK_INDEX) restrict_to(r, 0, bound - 1);
    if (c->kind == CHECK_OFFSETS) restrict_to(r, 0, bound);
    if (c->kind == CHECK_OFFSETS) r->sorted = true;
}

/* Checks stand at the first kernel that relies on them; later ones rely on them as well. */
static enum proem_status find_demands(struct demands *d, const struct kernel *k, struct err *e) {
    size_t n = d->p->low.graph->values.n;
    d->rule = ARENA_NEW(&d->p->arena, struct random_rule, n);
    d->kind = ARENA_NEW(&d->p->arena, enum demand, n);
    if (d->rule == NULL || d->kind == NULL) return err_nomem(e);
    for (size_t i = 0; i < d->p->plan.checks.n; i++)
        take_check(d, &d->p->plan.checks.at[i]);
    take_kernel(d, k);
    return PROEM_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static bool is_stored(const struct kernel *k, value_id v) {
    for (size_t i = 0; i < k->stores.n; i++) {
        if (k->stores.at[i].value == v) return true;
    }
    return false;
}

static enum rt_place place_of(const struct graph *g, const struct kernel *k, value_id v) {
    if (is_stored(k, v)) return RT_OUTPUT;
    for (size_t i = 0; i < g->params.n; i++) {
        if (g->params.at[i].value == v && g->params.at[i].is_const) return RT_CONST;
    }
    return RT_INPUT;
}

static enum proem_status fill(char *data, enum dtype d, int64_t bytes, int64_t count,
                              const char *name, const struct random_rule *rule, struct err *e) {
    int64_t n = rule->sorted || count < BLOCK ? count : BLOCK;
    int64_t block = dtype_bytes(d, n);
    TRY(random_fill(data, d, n, SEED, name, rule, e));
    for (int64_t at = block; at < bytes; at += block)
        memcpy(data + at, data, (size_t)(bytes - at < block ? bytes - at : block));
    return PROEM_OK;
}

static enum proem_status make_tensor(struct demands *d, const struct gen_kernel *k, int i,
                                     struct tune_data *out, struct err *e) {
    struct proem_program *p = d->p;
    const struct graph *g = p->low.graph;
    value_id v = k->args[i];
    const struct value *val = graph_value(g, v);
    int64_t *shape = ARENA_NEW(&p->arena, int64_t, MAX_RANK), count = 1;
    if (shape == NULL) return err_nomem(e);
    TRY(dims_shape(g, &p->dims, v, shape, e));
    for (int j = 0; j < val->rank; j++)
        count *= shape[j];
    int64_t bytes = dtype_bytes(val->dtype, count);
    if (bytes < 0) return err_set(e, PROEM_INVALID, "%s: it has too many elements", val->name);
    enum rt_place place = place_of(g, k->kernel, v);
    out->buffers[i] = (struct rt_buffer){
        .name = val->name, .place = place, .bits = dtype_bits(val->dtype), .may_alias = -1};
    out->bytes[i] = bytes;
    char *data = bytes > 0 ? mem_alloc(&p->c->alloc, (size_t)bytes, 1) : NULL;
    if (bytes > 0 && data == NULL) return err_nomem(e);
    out->views[i] = (struct rt_view){
        .data = data, .bits = dtype_bits(val->dtype), .rank = val->rank, .shape = shape};
    out->n = i + 1;
    out->total += bytes;
    if (bytes == 0) return PROEM_OK;
    if (place != RT_OUTPUT) return fill(data, val->dtype, bytes, count, val->name, &d->rule[v], e);
    memset(data, 0, (size_t)bytes); /* so that its pages are there */
    return PROEM_OK;
}

/* Why the kernel cannot be given data, NULL if it can. */
static const char *refuse(const struct demands *d, const struct gen_kernel *k) {
    for (int i = 0; i < k->n_args; i++) {
        const struct random_rule *r = &d->rule[k->args[i]];
        if (d->kind[k->args[i]] == DEMAND_UNKNOWN)
            return "its indices, offsets or divisors are computed; random data would not obey "
                   "their checks";
        if (r->bounded && r->lo > r->hi) return "an index has an empty range";
    }
    return NULL;
}

enum proem_status tune_data_make(struct proem_program *p, const struct gen_kernel *k,
                                 struct tune_data *out, const char **note, struct err *e) {
    struct demands d = {.p = p};
    *out = (struct tune_data){0};
    TRY(find_demands(&d, k->kernel, e));
    *note = refuse(&d, k);
    if (*note != NULL) return PROEM_OK;
    out->buffers = ARENA_NEW(&p->arena, struct rt_buffer, k->n_args);
    out->views = ARENA_NEW(&p->arena, struct rt_view, k->n_args);
    out->bytes = ARENA_NEW(&p->arena, int64_t, k->n_args);
    if (!arena_ok(&p->arena)) return err_nomem(e);
    for (int i = 0; i < k->n_args; i++)
        TRY(make_tensor(&d, k, i, out, e));
    return PROEM_OK;
}

void tune_data_free(const struct allocator *a, struct tune_data *d) {
    for (int i = 0; i < d->n; i++)
        mem_free(a, d->views[i].data, (size_t)d->bytes[i], 1);
    d->n = 0;
}
