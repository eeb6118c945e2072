/* SPDX-License-Identifier: MIT
 * Two products of one left operand whose results meet element by element (a gate and what it gates)
 * become one kernel with two accumulators: the left operand is read and evaluated once, and neither
 * result goes through memory.
 */
#include "fuse/sched.h"

/* May the products of clusters a and b run in one kernel? */
static bool joinable(const struct sched *s, const struct cluster *a, const struct cluster *b) {
    const struct kernel *x = a->kernel, *y = b->kernel;
    if (a == b || a->kind != KERNEL_MATMUL || b->kind != KERNEL_MATMUL) return false;
    if (x->n_b + y->n_b > MAX_B || x->acc != y->acc) return false;
    if (x->Z != y->Z || x->M != y->M || x->N != y->N || x->K != y->K) return false;
    const struct node *m = graph_node(s->g, a->anchor), *n = graph_node(s->g, b->anchor);
    if (m->in[0] != n->in[0] || m->attrs.flag || n->attrs.flag) return false;
    const struct value *p = graph_value(s->g, m->in[1]), *q = graph_value(s->g, n->in[1]);
    if (p->rank != q->rank) return false;
    for (int i = 0; i < p->rank; i++) {
        if (p->dims[i] != q->dims[i]) return false;
    }
    return !bits_get(a->reach, b->id) && !bits_get(b->reach, a->id);
}

static void rename_bit(bits set, int from, int to) {
    if (!bits_get(set, from)) return;
    bits_set(set, to);
    set[from / 64] &= ~((uint64_t)1 << (from % 64));
}

/* What b holds is held by a from now on: places over a's coordinates, a's next accumulators. */
static void take_values(struct sched *s, struct cluster *a, struct cluster *b) {
    const struct kernel *x = a->kernel, *y = b->kernel;
    const sx from[] = {y->z, y->m, y->n, y->k}, to[] = {x->z, x->m, x->n, x->k};
    for (value_id v = 1; v < s->g->values.n; v++) {
        struct value_state *st = &s->v[v];
        if (st->prov != NULL) rename_bit(st->prov, b->id, a->id);
        if (st->region != b->id) continue;
        st->region = a->id;
        for (int i = 0; i < graph_value(s->g, v)->rank; i++)
            st->pos[i] = sx_subst(s->sp, st->pos[i], from, to, 4);
        for (int i = 0; i < st->bounds.n; i++) {
            struct fn_bound *bound = &st->bounds.at[i];
            bound->e = sx_subst(s->sp, bound->e, from, to, 4);
            bound->lo = sx_subst(s->sp, bound->lo, from, to, 4);
            bound->hi = sx_subst(s->sp, bound->hi, from, to, 4);
        }
    }
    for (size_t i = 0; i < s->clusters.n; i++)
        rename_bit(s->clusters.at[i]->reach, b->id, a->id);
}

static void add_product(struct sched *s, struct cluster *a, node_id product) {
    struct kernel *k = a->kernel;
    a->also[k->n_b - 1] = product;
    value_id out = graph_node(s->g, product)->out;
    s->v[out].f = sched_finished(s, k->n_b, k->acc, graph_value(s->g, out)->dtype);
    k->n_b++;
}

static void join(struct sched *s, struct cluster *a, struct cluster *b) {
    bits prov = bits_new(s);
    if (prov == NULL) return;
    bits_or(prov, b->reach, s->words);
    take_values(s, a, b);
    add_product(s, a, b->anchor);
    for (int i = 0; i + 1 < b->kernel->n_b; i++)
        add_product(s, a, b->also[i]);
    cluster_depend(s, a->id, prov);
    b->kind = KERNEL_POINTWISE; /* empty: never active, matches nothing */
    b->rank = -1;
}

void sched_join_products(struct sched *s, const struct node *n) {
    bool elementwise = op_is_elementwise(n->op) || n->op == OP_WHERE;
    if (!elementwise || s->opt->policy == FUSE_NEVER) return;
    for (int i = 0; i < n->n_in; i++) {
        for (int j = i + 1; j < n->n_in; j++) {
            int a = s->v[n->in[i]].region, b = s->v[n->in[j]].region;
            if (a < 0 || b < 0 || a == b) continue;
            if (!edge_allowed(s, n->in[i], n) || !edge_allowed(s, n->in[j], n)) continue;
            struct cluster *x = s->clusters.at[a < b ? a : b], *y = s->clusters.at[a < b ? b : a];
            const struct value *u = graph_value(s->g, n->in[i]), *w = graph_value(s->g, n->in[j]);
            if (u->rank != w->rank || !joinable(s, x, y)) continue;
            /* Only results that stand at the same place in both kernels. */
            const struct kernel *kx = x->kernel, *ky = y->kernel;
            const sx from[] = {ky->z, ky->m, ky->n, ky->k}, to[] = {kx->z, kx->m, kx->n, kx->k};
            const sx *px = s->v[a < b ? n->in[i] : n->in[j]].pos;
            const sx *py = s->v[a < b ? n->in[j] : n->in[i]].pos;
            bool same = true;
            for (int d = 0; d < u->rank; d++)
                same = same && px[d] == sx_subst(s->sp, py[d], from, to, 4);
            if (same) join(s, x, y);
        }
    }
}
