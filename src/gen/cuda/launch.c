/* SPDX-License-Identifier: MIT
 * Launches by kind of kernel. Numbers of blocks are expressions in the graph's symbols, evaluated
 * when sizes are bound.
 */
#include "gen/cuda/launch.h"

#include "gen/c/hooks.h"
#include "gen/cuda/hooks.h"
#include "gen/cuda/product.h"
#include "gen/cuda/ring.h"

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

static void add_few(struct list *l, struct gen_cuda *out) {
    struct emit *e = l->e;
    const struct kernel *k = e->k;
    const struct tile_few *t = &e->product->few;
    struct sx_pool *sp = e->sp;
    sx lines = sx_mul(sp, extent(e, k->Z), k->M), parts = tasks(e, k->K, 16);
    sx staged = sx_mul(sp, sx_mul(sp, lines, parts), sx_const(sp, 16)); /* elements of A */
    sx tiles = sx_mul(sp, sx_mul(sp, extent(e, k->Z), tasks(e, k->M, (int64_t)8 * t->cols8)),
                      tasks(e, k->N, 16));
    if (t->stage)
        add(l, "stage", 256, tasks(e, sx_mul(sp, sx_mul(sp, lines, parts), sx_const(sp, 2)), 256));
    struct gen_launch *r = add(l, "main", t->threads, sx_mul(sp, tiles, sx_const(sp, t->split)));
    r->shared = t->shared;
    r->per_sm = t->per_sm;
    sx bytes = 0;
    if (t->split > 1) {
        int64_t sums = (int64_t)t->split * k->n_b * t->cols8 * 128 * 4;
        bytes = sx_add(
            sp, sx_mul(sp, tasks(e, sx_mul(sp, tiles, sx_const(sp, 4)), 256), sx_const(sp, 256)),
            sx_mul(sp, tiles, sx_const(sp, sums)));
        out->zeroed = true;
    }
    if (t->stage) {
        sx more = sx_mul(sp, staged, sx_const(sp, 2));
        bytes = bytes != 0 ? sx_add(sp, bytes, more) : more;
    }
    out->scratch = bytes;
    out->choices = t->choices;
    out->tile = arena_printf(e->arena, "%d rows, %d units of %d ahead, %d x %d tiles of %d%s",
                             8 * t->cols8, t->ahead, 4 * t->run, t->rgroups, t->step, t->tiles,
                             t->stage ? ", staged" : "");
}

static void add_ring(struct list *l, struct gen_cuda *out) {
    struct emit *e = l->e;
    const struct product *p = e->product;
    const struct tile_ring *t = &p->ring;
    struct gen_launch *r = add(l, "main", t->threads, ring_tasks(e));
    r->shared = t->shared;
    r->per_sm = 1;
    r->n_maps = p->n_maps;
    r->maps = p->maps;
    out->choices = 1;
    out->tile = arena_printf(e->arena, "%d rows, %d x %d tiles, %d stages", 8 * t->cols8,
                             t->kgroups, t->tiles, t->stages);
}

static void add_across(struct list *l, struct gen_cuda *out) {
    struct emit *e = l->e;
    const struct kernel *k = e->k;
    const struct tile_across *t = &e->product->across;
    struct sx_pool *sp = e->sp;
    sx tiles = sx_mul(sp, sx_mul(sp, extent(e, k->Z), tasks(e, k->M, (int64_t)8 * t->cols8)),
                      tasks(e, k->N, (int64_t)8 * t->run));
    sx steps = sx_add(sp, tasks(e, k->K, 256), sx_const(sp, 1)); /* none of k: still a task */
    add(l, "main", 256, sx_mul(sp, tiles, steps))->per_sm = 1;
    sx counters = sx_mul(sp, tasks(e, sx_mul(sp, tiles, sx_const(sp, 4)), 256), sx_const(sp, 256));
    out->scratch = sx_add(sp, counters,
                          sx_const(sp, (int64_t)t->parts * 2 * (8 * t->run) * (8 * t->cols8) * 4));
    out->zeroed = true;
    out->choices = t->choices;
    out->tile = arena_printf(e->arena, "%d rows, %d columns, %d stages, %d parts", 8 * t->cols8,
                             8 * t->run, t->stages, t->parts);
}

static void add_wgmma(struct list *l, struct gen_cuda *out) {
    struct emit *e = l->e;
    const struct kernel *k = e->k;
    const struct product *p = e->product;
    const struct tile_wgmma *w = &p->wgmma;
    if (!w->fits) return;
    sx rows = tasks(e, w->swap ? k->N : k->M, w->rows),
       cols = tasks(e, w->swap ? k->M : k->N, w->cols);
    sx blocks = sx_mul(e->sp, extent(e, k->Z), sx_mul(e->sp, rows, cols));
    struct gen_launch *r = add(l, "main", w->threads, blocks);
    r->shared = w->shared;
    r->cluster = w->cluster;
    r->per_sm = 1;
    r->n_maps = p->n_maps;
    r->maps = p->maps;
    out->choices = w->choices;
    out->tile = arena_printf(e->arena, "%d x %d, %d stages%s", w->rows, w->cols, w->stages,
                             w->turns ? ", in turns" : "");
}

static void add_mma(struct list *l, struct gen_cuda *out) {
    struct emit *e = l->e;
    const struct kernel *k = e->k;
    const struct tile_cuda *t = &k->tile.cuda;
    struct sx_pool *sp = e->sp;
    sx tiles =
        sx_mul(sp, extent(e, k->Z), sx_mul(sp, tasks(e, k->M, t->rows), tasks(e, k->N, t->cols)));
    add(l, "main", t->threads, sx_mul(sp, tiles, sx_const(sp, t->split)));
    out->choices = e->product->mma_choices;
    out->tile = arena_printf(e->arena, "%d x %d", t->rows, t->cols);
    if (t->split < 2) return;
    out->tile = arena_printf(e->arena, "%d x %d, k in %d parts", t->rows, t->cols, t->split);
    int64_t sums = (int64_t)t->split * k->n_b * t->rows * t->cols * 4;
    sx counters = sx_mul(sp, tasks(e, sx_mul(sp, tiles, sx_const(sp, 4)), 256), sx_const(sp, 256));
    out->scratch = sx_add(sp, counters, sx_mul(sp, tiles, sx_const(sp, sums)));
    out->zeroed = true;
}

static void add_matmul(struct list *l, struct gen_cuda *out) {
    struct emit *e = l->e;
    const struct kernel *k = e->k;
    const struct tile_cuda *t = &k->tile.cuda;
    switch (t->form) {
    case TILE_WGMMA: add_wgmma(l, out); return;
    case TILE_FEW:
        if (t->ring)
            add_ring(l, out);
        else
            add_few(l, out);
        return;
    case TILE_ACROSS: add_across(l, out); return;
    case TILE_MMA: add_mma(l, out); return;
    case TILE_SIMT: break;
    }
    sx blocks = sx_mul(e->sp, tasks(e, k->M, t->rows), tasks(e, k->N, t->cols));
    add(l, "main", t->threads, sx_mul(e->sp, extent(e, k->Z), blocks));
}

static void add_pointwise(struct list *l, struct gen_cuda *out) {
    struct emit *e = l->e;
    int lanes = cuda_pointwise_lanes(e);
    sx vectors = tasks(e, extent(e, e->k->N), lanes);
    int passed = e->k->tile.cuda.passed;
    out->choices = passed > 0 ? passed + 1 : 1;
    for (int i = lanes; i > 1; i /= 2)
        out->choices++;
    out->tile = arena_printf(e->arena, "%d elements a thread", lanes);
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
    case KERNEL_MATMUL: add_matmul(&l, out); break;
    case KERNEL_POINTWISE: add_pointwise(&l, out); break;
    case KERNEL_REDUCTION: add_reduction(&l); break;
    case KERNEL_SCATTER: add_scatter(&l, out); break;
    case KERNEL_SCAN: add(&l, "main", 64, tasks(e, extent(e, e->k->Z), 64)); break;
    case KERNEL_SORT: add_sort(&l, out); break;
    }
    out->launches = l.at;
    out->n_launches = l.n;
    return arena_ok(e->arena) ? PROEM_OK : err_nomem(err);
}
