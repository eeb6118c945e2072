/* SPDX-License-Identifier: MIT
 * plan_make: lowering, then the scheduler's steps in order (fuse/sched.h); plan_lowered: the
 * latter.
 */
#include "fuse/sched.h"

const char *kernel_kind_name(enum kernel_kind k) {
    switch (k) {
    case KERNEL_POINTWISE: return "pointwise";
    case KERNEL_MATMUL: return "matmul";
    case KERNEL_REDUCTION: return "reduction";
    case KERNEL_SCATTER: return "scatter";
    case KERNEL_SCAN: return "scan";
    case KERNEL_SORT: return "sort";
    }
    return "?";
}

/* Values that some output depends on. */
static void mark_live(struct sched *s) {
    for (size_t i = 0; i < s->g->outputs.n; i++) {
        s->v[s->g->outputs.at[i].value].live = true;
        s->v[s->g->outputs.at[i].value].is_output = true;
    }
    for (node_id id = (node_id)s->g->nodes.n; id-- > 1;) {
        const struct node *n = graph_node(s->g, id);
        bool live = false;
        for (int i = 0; i < n->n_out; i++)
            live = live || s->v[n->out + (value_id)i].live;
        for (int i = 0; i < n->n_out && live; i++)
            s->v[n->out + (value_id)i].live = true;
        for (int i = 0; i < n->n_in && live; i++)
            s->v[n->in[i]].live = true;
    }
}

/* An identifier in C that says what the kernel is and what it makes. */
static const char *kernel_name(struct arena *a, const struct kernel *k, const char *value) {
    char buf[48];
    size_t n = 0;
    for (const char *p = value; *p != '\0' && n + 1 < sizeof buf; p++) {
        bool ok = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                  (*p >= '0' && *p <= '9') || *p == '_';
        buf[n++] = ok ? *p : '_';
    }
    buf[n] = '\0';
    return arena_printf(a, "k%d_%s_%s", k->id, kernel_kind_name(k->kind), buf);
}

/* The final tables by lowered value, with kernels' numbers in launch order. */
static enum proem_status publish(struct sched *s) {
    size_t n = s->g->values.n;
    s->plan->stored = ARENA_NEW(s->arena, bool, n);
    s->plan->owner = ARENA_NEW(s->arena, int, n);
    if (s->plan->stored == NULL || s->plan->owner == NULL) return err_nomem(s->err);
    for (value_id v = 1; v < n; v++) {
        s->plan->stored[v] = s->v[v].stored;
        s->plan->owner[v] = s->v[v].stored ? s->clusters.at[s->v[v].owner]->kernel->id : -1;
    }
    for (size_t i = 0; i < s->plan->kernels.n; i++) {
        struct kernel *k = s->plan->kernels.at[i];
        k->name = kernel_name(s->arena, k, graph_value(s->g, k->stores.at[0].value)->name);
        if (k->name == NULL) return err_nomem(s->err);
    }
    return PROEM_OK;
}

enum proem_status plan_make(const struct graph *g, const struct plan_options *o, struct plan *out,
                            struct err *e) {
    struct lowered low;
    TRY(opt_lower(g, &low, e));
    return plan_lowered(g, &low, o, out, e);
}

/* A cluster is made for an operator that does not map elements, or for a value that is stored. */
static size_t most_clusters(const struct sched *s) {
    size_t n = 0;
    for (value_id v = 1; v < s->g->values.n; v++) {
        enum op op = graph_def(s->g, v)->op;
        bool never = op == OP_PARAM || op == OP_CONST || op == OP_DIM;
        bool made = s->v[v].live && (!never || s->v[v].is_output);
        n += !made ? 0 : op_is_map(op) ? 1 : 2;
    }
    return n;
}

enum proem_status plan_lowered(const struct graph *g, const struct lowered *low,
                               const struct plan_options *o, struct plan *out, struct err *e) {
    *out = (struct plan){.source = g, .low = *low, .prec = o->prec};
    struct sched s = {
        .plan = out, .g = out->low.graph, .opt = o, .arena = g->arena, .sp = g->sx, .err = e};
    s.v = ARENA_NEW(g->arena, struct value_state, s.g->values.n);
    out->fns = fn_pool_new(g->arena, g->sx);
    if (s.v == NULL || out->fns == NULL) return err_nomem(e);
    for (value_id v = 0; v < s.g->values.n; v++)
        s.v[v].region = s.v[v].owner = -1;
    mark_live(&s);
    s.words = most_clusters(&s) / 64 + 1;
    TRY(sched_clusters(&s));
    TRY(sched_decide(&s));
    TRY(sched_build(&s));
    TRY(sched_edges(&s));
    TRY(publish(&s));
    return arena_ok(g->arena) ? PROEM_OK : err_nomem(e);
}
