/* SPDX-License-Identifier: MIT
 * What the plan moves and why: modelled bytes of every kernel and of the unfused plan, the values
 * that each kernel evaluates, and a record of every producer and consumer for `explain`.
 */
#include "fuse/sched.h"

#include <string.h>

/* ---- bytes -------------------------------------------------------------------------------------
 */

static bool size_of(const struct sched *s, sx e, int64_t *out) {
    if (e == 0) {
        *out = 1;
        return true;
    }
    return sx_is_const(s->sp, e, out) ||
           (s->opt->dims != NULL && dims_value(s->g, s->opt->dims, e, out));
}

struct touched {
    struct sched *s;
    const struct kernel *k;
    int64_t *bytes; /* by value: what the kernel reads of it, -1 unknown */
    bool *seen;
};

/* Elements that a load can reach: the extents of the coordinates that its index depends on, and no
 * more than the tensor has. */
static void touch(void *user, fn_id f) {
    struct touched *t = user;
    struct sched *s = t->s;
    const struct fn_node *n = fn_get(s->plan->fns, f);
    if (n->kind != FN_LOAD) return;
    const struct kernel *k = t->k;
    const sx coord[] = {k->z, k->m, k->n, k->k}, extent[] = {k->Z, k->M, k->N, k->K};
    double reach = 1;
    bool known = true;
    for (size_t i = 0; i < COUNT_OF(coord); i++) {
        bool depends = false;
        for (int j = 0; j < n->rank && coord[i] != 0; j++) {
            depends = depends || sx_depends(s->plan->fns, n->idx[j], coord[i]);
        }
        int64_t size;
        if (!depends) continue;
        if (size_of(s, extent[i], &size))
            reach *= (double)size;
        else
            known = false;
    }
    int64_t all = value_bytes(s, n->tensor);
    int64_t bytes = all;
    if (known && all >= 0 && reach < (double)value_count(s, n->tensor))
        bytes = dtype_bytes(n->dtype, (int64_t)reach);
    if (t->seen[n->tensor] && t->bytes[n->tensor] > bytes) bytes = t->bytes[n->tensor];
    t->seen[n->tensor] = true;
    t->bytes[n->tensor] = bytes;
}

static void walk_kernel(struct sched *s, const struct kernel *k, fn_visit visit, void *user) {
    struct fn_pool *p = s->plan->fns;
    const fn_id own[] = {k->a, k->b[0], k->b[1], k->b[2], k->b[3], k->base, k->index, k->src};
    for (size_t i = 0; i < COUNT_OF(own); i++)
        fn_walk(p, own[i], visit, user);
    for (int i = 0; i < k->n_pass; i++)
        fn_walk(p, k->pass[i].f, visit, user);
    for (size_t i = 0; i < k->stores.n; i++)
        fn_walk(p, k->stores.at[i].f, visit, user);
}

/* t: scratch, nothing seen. */
static enum proem_status kernel_bytes(struct sched *s, struct kernel *k, struct touched *t) {
    size_t n = s->g->values.n;
    t->k = k;
    walk_kernel(s, k, touch, t);
    k->bytes_read = k->bytes_written = 0;
    for (value_id v = 1; v < n; v++) {
        if (!t->seen[v]) continue;
        t->seen[v] = false;
        if (!VEC_PUSH(s->arena, &k->reads, v)) return err_nomem(s->err);
        if (t->bytes[v] < 0 || k->bytes_read < 0)
            k->bytes_read = -1;
        else
            k->bytes_read += t->bytes[v];
    }
    for (size_t i = 0; i < k->stores.n; i++) {
        int64_t b = value_bytes(s, k->stores.at[i].value);
        if (b < 0 || k->bytes_written < 0)
            k->bytes_written = -1;
        else
            k->bytes_written += b;
    }
    return PROEM_OK;
}

/* The value behind views. */
static value_id behind_views(const struct graph *g, value_id v) {
    while (op_is_view(graph_def(g, v)->op))
        v = graph_def(g, v)->in[0];
    return v;
}

static int64_t source_bytes(const struct sched *s, value_id v) {
    const struct value *val = graph_value(s->plan->source, v);
    int64_t n = 1, d;
    for (int i = 0; i < val->rank; i++) {
        if (!size_of(s, val->dims[i], &d)) return -1;
        if (d != 0 && n > INT64_MAX / 64 / d) return -1;
        n *= d;
    }
    return dtype_bytes(val->dtype, n);
}

static void add_bytes(int64_t *sum, int64_t b) {
    *sum = b < 0 || *sum < 0 ? -1 : *sum + b;
}

/* A kernel an operator: each distinct operand read once, results written once, views free. */
static int64_t unfused_bytes(const struct sched *s) {
    const struct graph *g = s->plan->source;
    int64_t sum = 0;
    for (node_id id = 1; id < g->nodes.n; id++) {
        const struct node *n = graph_node(g, id);
        value_id lowered = s->plan->low.value_of[n->out];
        if (n->op == OP_PARAM || n->op == OP_CONST || n->op == OP_DIM || op_is_view(n->op))
            continue;
        if (lowered == 0 || !s->v[lowered].live) continue;
        for (int i = 0; i < n->n_in; i++) {
            if (n->in[i] == 0) continue;
            value_id base = behind_views(g, n->in[i]);
            if (graph_def(g, base)->op == OP_CONST || graph_def(g, base)->op == OP_DIM) continue;
            bool again = false;
            for (int j = 0; j < i; j++) {
                again = again || (n->in[j] != 0 && behind_views(g, n->in[j]) == base);
            }
            if (again) continue;
            int64_t whole = source_bytes(s, base), part = source_bytes(s, n->in[i]);
            add_bytes(&sum, part < whole ? part : whole);
        }
        for (int i = 0; i < n->n_out; i++)
            add_bytes(&sum, source_bytes(s, n->out + (value_id)i));
    }
    return sum;
}

/* ---- what a kernel evaluates
 * --------------------------------------------------------------------- */

/* Values computed inside the loads of kernel c, from v back to what is in memory or held. */
static void collect_inlined(struct sched *s, int c, value_id v, bool *in) {
    const struct value_state *st = &s->v[v];
    const struct node *n = graph_def(s->g, v);
    if (in[v] || n->op == OP_PARAM || !op_is_map(n->op)) return;
    if ((st->stored && st->owner != c) || (st->region == c && st->f != 0)) return;
    in[v] = true;
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] != 0) collect_inlined(s, c, n->in[i], in);
    }
}

static bool push_values(struct sched *s, const bool *in, node_id anchor_origin, void *list) {
    VEC(value_id) *out = list;
    for (value_id v = 1; v < s->g->values.n; v++) {
        value_id src = in[v] ? s->plan->low.source_of[v] : 0;
        if (src == 0 || graph_value(s->plan->source, src)->node == anchor_origin) continue;
        enum op op = graph_def(s->plan->source, src)->op;
        if (op == OP_CONST || op == OP_DIM) continue;
        if (!VEC_PUSH(s->arena, out, src)) return false;
    }
    return true;
}

static enum proem_status kernel_values(struct sched *s, struct cluster *c) {
    struct kernel *k = c->kernel;
    size_t n = s->g->values.n;
    bool *a = ARENA_NEW(s->arena, bool, n), *b = ARENA_NEW(s->arena, bool, n);
    bool *ep = ARENA_NEW(s->arena, bool, n);
    if (a == NULL || b == NULL || ep == NULL) return err_nomem(s->err);
    node_id origin = 0;
    if (c->anchor != 0) {
        const struct node *an = graph_node(s->g, c->anchor);
        origin = an->origin;
        for (int i = 0; i < an->n_in; i++) {
            if (an->in[i] != 0) collect_inlined(s, c->id, an->in[i], i == 0 ? a : b);
        }
        for (int i = 1; i < k->n_b; i++) {
            collect_inlined(s, c->id, graph_node(s->g, c->also[i - 1])->in[1], b);
        }
    }
    for (value_id v = 1; v < n; v++) {
        const struct value_state *st = &s->v[v];
        bool stored_here = st->stored && st->owner == c->id;
        bool held = st->live && st->region == c->id && bits_get(st->users, c->id);
        if (!stored_here && !held) continue;
        const struct node *def = graph_def(s->g, v);
        if (!op_is_map(def->op)) continue;
        ep[v] = true;
        for (int i = 0; i < def->n_in; i++) {
            if (def->in[i] != 0) collect_inlined(s, c->id, def->in[i], ep);
        }
    }
    bool ok = push_values(s, a, origin, &k->prologue_a) &&
              push_values(s, b, origin, &k->prologue_b) && push_values(s, ep, origin, &k->epilogue);
    return ok ? PROEM_OK : err_nomem(s->err);
}

/* ---- edges -------------------------------------------------------------------------------------
 */

/* Does cluster c evaluate lowered value v (rather than load it)? */
static bool evaluates(const struct sched *s, int c, value_id v) {
    const struct value_state *st = &s->v[v];
    if (st->stored && st->owner != c && st->region != c) return false;
    if (st->stored && st->owner == c) return true;
    if (st->region == c) return bits_get(st->users, c) || !op_is_map(graph_def(s->g, v)->op);
    return bits_get(st->users, c);
}

static const char *bytes_text(struct sched *s, int64_t bytes) {
    int64_t unit = bytes >= 100000 ? 1000000 : 1000; /* one decimal, cut off */
    const char *t = arena_printf(s->arena, "%lld.%lld %s", (long long)(bytes / unit),
                                 (long long)(bytes % unit * 10 / unit), unit > 1000 ? "MB" : "kB");
    return t != NULL ? t : "";
}

/* The values in memory that a value computed in a load is made from, each once, in order. */
struct leaves {
    int n; /* LEAVES_MANY: more than are kept */
    const value_id *at;
};

enum { LEAVES_KEPT = 64, LEAVES_MANY = -1 };

/* *l and what else v reads. One list serves all values that read the same. */
static bool leaves_join(struct sched *s, struct leaves *l, const struct leaves *more) {
    value_id all[2 * LEAVES_KEPT];
    int n = 0, i = 0, j = 0;
    if (l->n == LEAVES_MANY || more->n == LEAVES_MANY) {
        l->n = LEAVES_MANY;
        return true;
    }
    while (i < l->n || j < more->n) {
        value_id a = i < l->n ? l->at[i] : UINT32_MAX, b = j < more->n ? more->at[j] : UINT32_MAX;
        all[n++] = a < b ? a : b;
        i += a <= b;
        j += b <= a;
    }
    if (n == l->n) return true;
    if (n == more->n || n > LEAVES_KEPT) {
        *l = n == more->n ? *more : (struct leaves){.n = LEAVES_MANY};
        return true;
    }
    value_id *at = ARENA_NEW(s->arena, value_id, n);
    if (at == NULL) return false;
    memcpy(at, all, (size_t)n * sizeof *at);
    *l = (struct leaves){n, at};
    return true;
}

/* By value; operands stand before what is made of them, so one pass does. */
static struct leaves *find_leaves(struct sched *s) {
    size_t n = s->g->values.n;
    struct leaves *of = ARENA_NEW(s->arena, struct leaves, n);
    for (value_id v = 1; of != NULL && v < n; v++) {
        const struct node *def = graph_def(s->g, v);
        if (def->op == OP_PARAM || s->v[v].stored || !op_is_map(def->op)) {
            value_id *self = ARENA_NEW(s->arena, value_id, 1);
            if (self == NULL) return NULL;
            *self = v;
            of[v] = (struct leaves){1, self};
            continue;
        }
        for (int i = 0; i < def->n_in; i++) {
            if (def->in[i] != 0 && !leaves_join(s, &of[v], &of[def->in[i]])) return NULL;
        }
    }
    return of;
}

static int64_t leaf_bytes(const struct sched *s, const struct leaves *l) {
    int64_t sum = l->n == LEAVES_MANY ? -1 : 0;
    for (int i = 0; i < l->n; i++)
        add_bytes(&sum, value_bytes(s, l->at[i]));
    return sum;
}

static void explain_edge(struct sched *s, struct plan_edge *e, value_id producer, bool in_region,
                         bool allowed, const struct leaves *of) {
    const struct value_state *st = &s->v[producer];
    if (e->verdict == VERDICT_STORED) {
        bool result = st->rule == NULL || strcmp(st->rule, "result") == 0;
        e->rule = result ? "result" : st->rule;
        e->why = st->why != NULL ? st->why : "another kernel reads the finished result";
        if (result && !allowed) {
            e->rule = s->opt->policy == FUSE_NEVER ? "never" : "forced";
            e->why = "fusing was ruled out by option";
        }
        return;
    }
    if (in_region) {
        e->rule = "epilogue";
        e->why = s->clusters.at[st->region]->kind == KERNEL_MATMUL
                     ? "follows the product element by element, in registers"
                     : "follows the reduction element by element, in registers";
        return;
    }
    int64_t stored = value_bytes(s, producer), inlined = leaf_bytes(s, &of[producer]);
    if (st->rule != NULL && strcmp(st->rule, "recompute") == 0) {
        e->rule = st->rule;
        e->why = st->why;
        return;
    }
    e->rule = "bytes";
    const char *text = NULL;
    if (stored >= 0 && inlined >= 0)
        text = arena_printf(s->arena,
                            inlined <= stored ? "reads %s instead of %s"
                                              : "reads %s, where %s would be written and read",
                            bytes_text(s, inlined), bytes_text(s, stored));
    e->why = text != NULL ? text : "computed inside the loads of its consumer";
}

/* Do the clusters that evaluate consumer c also evaluate producer p? */
static bool together(const struct sched *s, value_id p, value_id c, node_id consumer_origin,
                     bool *in_region) {
    bool found = false;
    for (size_t i = 0; i < s->clusters.n; i++) {
        struct cluster *cl = s->clusters.at[i];
        bool anchor = cl->anchor != 0 && graph_node(s->g, cl->anchor)->origin == consumer_origin &&
                      cl->active;
        if (!cl->active || (!anchor && !evaluates(s, (int)i, c))) continue;
        if (!evaluates(s, (int)i, p)) continue;
        found = true;
        if (s->v[p].region == (int)i) *in_region = true;
    }
    return found;
}

/* Did the product that `to` became take a factor out of this operand? */
static bool moved_factor(struct sched *s, node_id to, int input, value_id producer) {
    for (size_t i = 0; i < s->clusters.n; i++) {
        struct cluster *c = s->clusters.at[i];
        if (c->kind != KERNEL_MATMUL || !c->active || input > 1) continue;
        if (graph_node(s->g, c->anchor)->origin != to || !c->kernel->moved[input]) continue;
        if (evaluates(s, c->id, producer)) return true;
    }
    return false;
}

static enum proem_status edge(struct sched *s, node_id to, int input, const struct leaves *of) {
    const struct graph *g = s->plan->source;
    const struct node *n = graph_node(g, to);
    value_id base = behind_views(g, n->in[input]);
    const struct node *p = graph_def(g, base);
    if (p->op == OP_PARAM || p->op == OP_CONST || p->op == OP_DIM) return PROEM_OK;
    value_id lp = s->plan->low.value_of[base], lc = s->plan->low.value_of[n->out];
    if (!s->v[lp].live || !s->v[lc].live) return PROEM_OK;
    struct plan_edge e = {.from = graph_value(g, base)->node, .to = to, .input = input};
    bool in_region = false;
    bool fused = together(s, lp, lc, to, &in_region);
    e.verdict = fused || !s->v[lp].stored ? VERDICT_FUSED : VERDICT_STORED;
    explain_edge(s, &e, lp, in_region, edge_allowed(s, lp, graph_def(s->g, lc)), of);
    if (e.verdict == VERDICT_FUSED && !in_region && moved_factor(s, to, input, lp)) {
        e.verdict = VERDICT_MOVED;
        e.rule = "algebra";
        e.why = "a factor that does not depend on k is applied to the finished sum";
    }
    return VEC_PUSH(s->arena, &s->plan->edges, e) ? PROEM_OK : err_nomem(s->err);
}

enum proem_status sched_edges(struct sched *s) {
    const struct graph *g = s->plan->source;
    for (size_t i = 0; i < s->clusters.n; i++) {
        if (s->clusters.at[i]->active) TRY(kernel_values(s, s->clusters.at[i]));
    }
    s->plan->bytes_fused = 0;
    struct touched t = {.s = s};
    t.bytes = ARENA_NEW(s->arena, int64_t, s->g->values.n);
    t.seen = ARENA_NEW(s->arena, bool, s->g->values.n);
    if (t.bytes == NULL || t.seen == NULL) return err_nomem(s->err);
    for (size_t i = 0; i < s->plan->kernels.n; i++) {
        struct kernel *k = s->plan->kernels.at[i];
        TRY(kernel_bytes(s, k, &t));
        add_bytes(&s->plan->bytes_fused, k->bytes_read);
        add_bytes(&s->plan->bytes_fused, k->bytes_written);
    }
    s->plan->bytes_unfused = unfused_bytes(s);
    const struct leaves *of = find_leaves(s);
    if (of == NULL) return err_nomem(s->err);
    for (node_id id = 1; id < g->nodes.n; id++) {
        const struct node *n = graph_node(g, id);
        if (n->op == OP_PARAM || n->op == OP_CONST || op_is_view(n->op)) continue;
        for (int i = 0; i < n->n_in; i++) {
            if (n->in[i] != 0) TRY(edge(s, id, i, of));
        }
    }
    return PROEM_OK;
}
