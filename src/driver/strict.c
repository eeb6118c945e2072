/* SPDX-License-Identifier: MIT
 * Fallbacks of a plan: where it does what the graph says, but not in the way that was asked for or
 * that the operator has a name for. `explain` lists them; with --strict the first one is an error.
 *
 *   - an edge that --fuse FROM:TO=always names and that the plan stores all the same;
 *   - a contraction that is more than one product (attention whose scores are stored).
 *
 * Choices of the cost model are no fallbacks: that is what it is for. Tuning has its own
 * (driver/tune.c).
 */
#include <string.h>

#include "driver/driver.h"

static enum proem_status add(struct proem_program *p, const char *what, const char *why,
                             struct err *e) {
    struct fallback f = {what, why};
    if (what == NULL || why == NULL || !VEC_PUSH(&p->arena, &p->fallbacks, f)) return err_nomem(e);
    return PROEM_OK;
}

static const char *name_of(const struct proem_program *p, node_id n) {
    return graph_value(p->graph, graph_node(p->graph, n)->out)->name;
}

static const char *from_of(const struct proem_program *p, const struct plan_edge *edge) {
    return graph_value(p->graph, plan_edge_source(p->graph, edge))->name;
}

static enum proem_status stored_edges(struct proem_program *p, const struct fuse_force *f,
                                      struct err *e) {
    for (size_t i = 0; i < p->plan.edges.n; i++) {
        const struct plan_edge *edge = &p->plan.edges.at[i];
        if (edge->verdict != VERDICT_STORED || strcmp(from_of(p, edge), f->from) != 0 ||
            strcmp(name_of(p, edge->to), f->to) != 0)
            continue;
        TRY(add(p, arena_printf(&p->arena, "edge %s -> %s", f->from, f->to),
                arena_printf(&p->arena, "it is to be fused, but it is stored (%s): %s", edge->rule,
                             edge->why),
                e));
    }
    return PROEM_OK;
}

static bool is_contraction(enum op op) {
    return op == OP_MATMUL || op == OP_LINEAR || op == OP_GROUPED_MATMUL || op == OP_ATTENTION;
}

static int products_of(const struct proem_program *p, node_id n) {
    int products = 0;
    for (size_t i = 0; i < p->plan.kernels.n; i++) {
        const struct kernel *k = p->plan.kernels.at[i];
        if (k->kind == KERNEL_MATMUL && graph_node(p->low.graph, k->anchor)->origin == n)
            products++;
    }
    return products;
}

enum proem_status program_fallbacks(struct proem_program *p, struct err *e) {
    for (size_t i = 0; i < p->opt.n_force; i++) {
        if (p->opt.force[i].fuse) TRY(stored_edges(p, &p->opt.force[i], e));
    }
    for (node_id n = 1; n < p->graph->nodes.n; n++) {
        enum op op = graph_node(p->graph, n)->op;
        int products = is_contraction(op) ? products_of(p, n) : 0;
        if (products < 2) continue;
        TRY(add(p, name_of(p, n),
                arena_printf(&p->arena,
                             "%s runs as %d products, and what is between them is stored; no "
                             "template does it in one kernel here",
                             op_info(op)->name, products),
                e));
    }
    if (!p->opt.strict || p->fallbacks.n == 0) return PROEM_OK;
    return err_set(e, PROEM_UNSUPPORTED, "%s: %s (--strict)", p->fallbacks.at[0].what,
                   p->fallbacks.at[0].why);
}
