/* SPDX-License-Identifier: MIT
 * Launches by kind of kernel. Numbers of blocks are expressions in the graph's symbols, evaluated
 * when sizes are bound.
 */
#include "gen/cuda/launch.h"

#include "gen/c/hooks.h"
#include "gen/cuda/hooks.h"

#define MAX_LAUNCHES 3 /* beside checks */

struct list {
    struct emit *e;
    struct gen_launch *at;
    int n;
};

static sx tasks(struct emit *e, sx count, int64_t of_block) {
    return sx_ceil_div(e->sp, count, sx_const(e->sp, of_block));
}

static struct gen_launch *add(struct list *l, const char *entry, int threads, sx blocks) {
    struct gen_launch *r = &l->at[l->n++];
    *r = (struct gen_launch){.entry = entry, .threads = threads, .cluster = 1, .blocks = blocks};
    return r;
}

static sx extent(struct emit *e, sx x) {
    return x != 0 ? x : sx_const(e->sp, 1);
}

static void add_checks(struct list *l) {
    struct emit *e = l->e;
    for (size_t i = 0; i < e->k->checks.n; i++) {
        const struct plan_check *c = &e->plan->checks.at[e->k->checks.at[i]];
        const char *name = arena_printf(e->arena, "check%zu", i);
        struct gen_launch *r = add(l, name, 256, tasks(e, c->N, 256));
        r->per_sm = 8;
        r->check = true;
    }
}

static void add_matmul(struct list *l) {
    struct emit *e = l->e;
    const struct kernel *k = e->k;
    const struct tile_cuda *t = &k->tile.cuda;
    sx blocks = sx_mul(e->sp, extent(e, k->Z),
                       sx_mul(e->sp, tasks(e, k->M, t->rows), tasks(e, k->N, t->cols)));
    add(l, "main", t->threads, blocks)->shared = t->shared;
}

static void add_pointwise(struct list *l) {
    struct emit *e = l->e;
    sx vectors = tasks(e, extent(e, e->k->N), cuda_pointwise_lanes(e));
    add(l, "main", 256, tasks(e, sx_mul(e->sp, extent(e, e->k->Z), vectors), 256));
}

static void add_reduction(struct list *l) {
    struct emit *e = l->e;
    bool along = hooks_reduction_along(e);
    struct cuda_rows r = cuda_reduction_rows(e, along);
    add(l, "main", 32 * r.warps * (along ? r.rows : 1), tasks(e, extent(e, e->k->Z), r.rows));
}

static int element_bytes(enum dtype d) {
    return dtype_bits(dtype_lane(d)) > 32 ? 8 : 4;
}

static void add_scatter(struct list *l, struct gen_cuda *out) {
    struct emit *e = l->e;
    sx Z = extent(e, e->k->Z), all = sx_mul(e->sp, Z, extent(e, e->k->K));
    int size = element_bytes(graph_value(e->g, e->k->stores.at[0].value)->dtype);
    out->scratch = sx_mul(e->sp, all, sx_const(e->sp, size));
    add(l, "base_all", 256, tasks(e, all, 256));
    add(l, "take", 64, tasks(e, Z, 64));
    add(l, "store_all", 256, tasks(e, all, 256));
}

static void add_sort(struct list *l, struct gen_cuda *out) {
    struct emit *e = l->e;
    sx Z = extent(e, e->k->Z);
    out->scratch = sx_mul(e->sp, sx_mul(e->sp, Z, extent(e, e->k->K)),
                          sx_const(e->sp, 16 + element_bytes(e->k->acc)));
    add(l, "main", 256, Z);
}

enum proem_status cuda_launches(struct emit *e, struct gen_cuda *out, struct err *err) {
    struct list l = {e, ARENA_NEW(e->arena, struct gen_launch, e->k->checks.n + MAX_LAUNCHES), 0};
    *out = (struct gen_cuda){0};
    if (l.at == NULL) return err_nomem(err);
    add_checks(&l);
    switch (e->k->kind) {
    case KERNEL_MATMUL: add_matmul(&l); break;
    case KERNEL_POINTWISE: add_pointwise(&l); break;
    case KERNEL_REDUCTION: add_reduction(&l); break;
    case KERNEL_SCATTER: add_scatter(&l, out); break;
    case KERNEL_SCAN: add(&l, "main", 64, tasks(e, extent(e, e->k->Z), 64)); break;
    case KERNEL_SORT: add_sort(&l, out); break;
    }
    out->launches = l.at;
    out->n_launches = l.n;
    return arena_ok(e->arena) ? PROEM_OK : err_nomem(err);
}
