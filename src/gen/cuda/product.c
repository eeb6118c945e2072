/* SPDX-License-Identifier: MIT
 * See product.h. What tile knows of a template is asked with the operands' leaf tables; its answer
 * becomes the template's constants, and tensor maps for the operands that the copy engine fetches.
 */
#include "gen/cuda/product.h"

#include "gen/cuda/hooks.h"
#include "gen/cuda/packed.h"
#include "gen/cuda/ring.h"
#include "tile/tile_cuda_mma.h"
#include "tile/tile_cuda_rows.h"

static bool by_batch(const struct emit *e, const struct gen_tensor_map *m) {
    int64_t stride;
    return !(sx_is_const(e->sp, m->strides[2], &stride) && stride == 0);
}

void product_add(struct emit *e, fn_id f, sx outer, const struct staged *s) {
    struct product *p = e->product;
    if (p == NULL || p->n == 1 + MAX_B) return;
    const struct kernel *k = e->k;
    sx extent = outer == k->m ? k->M : k->N;
    struct product_operand *o = &p->at[p->n++];
    *o = (struct product_operand){.name = cuda_operand_name(e->hook),
                                  .dtype = fn_get(e->fns, staged_source(e, f))->dtype,
                                  .along_k = e->vec == k->k,
                                  .plain = s->plain,
                                  .leaves = s->n,
                                  .group = e->group,
                                  .ops = fn_cost(e->fns, staged_source(e, f))};
    if (s->n == 0) return;
    o->leaf_bits = dtype_bits(fn_get(e->fns, s->leaf[0])->dtype);
    for (int i = 0; i < s->n; i++)
        o->all_bits += dtype_bits(fn_get(e->fns, s->leaf[i])->dtype);
    o->lines = s->pieces != 0 || staged_lines(e, s->leaf[0], e->vec);
    if (s->pieces != 0) return;
    o->mapped = staged_map(e, s->leaf[0], e->vec, outer, extent, &o->map);
    o->batched = o->mapped && by_batch(e, &o->map);
    o->by_32 = sx_divides(e->sp, sx_const(e->sp, 32), extent);
    o->same = s->n == 2 && dtype_bits(fn_get(e->fns, s->leaf[1])->dtype) == o->leaf_bits &&
              staged_map(e, s->leaf[1], e->vec, outer, extent, &o->map1) && o->mapped &&
              by_batch(e, &o->map1) == o->batched;
}

static void define(struct emit *e, const char *name, const char *what, int v) {
    str_printf(e->out, "#define MM_%s%s %d\n", name, what, v);
}

/* Rows n as n % 2, n / 8 % 4, n / 2 % 4, n / 32: what MM_SPREAD wants. */
static void spread_map(struct emit *e, struct gen_tensor_map *m) {
    static const int counts[] = {2, 4, 4}, steps[] = {1, 8, 2};
    sx rows = m->dims[1], line = m->strides[1];
    int box = m->box[1];
    m->rank = 5;
    for (int i = 0; i < 3; i++) {
        m->dims[1 + i] = sx_const(e->sp, counts[i]);
        m->strides[1 + i] = sx_mul(e->sp, line, sx_const(e->sp, steps[i]));
        m->box[1 + i] = counts[i];
    }
    m->dims[4] = sx_div(e->sp, rows, sx_const(e->sp, 32));
    m->strides[4] = sx_mul(e->sp, line, sx_const(e->sp, 32));
    m->box[4] = box / 32;
}

static void add_map(struct emit *e, const struct product_operand *o,
                    const struct gen_tensor_map *leaf, int rows, bool spread) {
    struct product *p = e->product;
    struct gen_tensor_map *m = &p->maps[p->n_maps++];
    /* a block of K takes 128 bytes of the operand's dtype, of a narrower leaf fewer */
    int block = 128 * 8 / dtype_bits(o->dtype);
    int bytes = o->along_k ? block * o->leaf_bits / 8 : 128;
    *m = *leaf;
    m->box[0] = bytes * 8 / dtype_bits(m->dtype);
    m->box[1] = o->along_k ? rows : block;
    m->box[2] = 1;
    m->swizzle = bytes;
    if (!o->batched) { /* a stride that is never used, but that the hardware accepts */
        m->dims[2] = sx_const(e->sp, 1);
        m->strides[2] = m->strides[1];
    }
    if (spread) spread_map(e, m);
}

/* Right operands are described together: what one of them cannot do, none does. */
static struct tile_wgmma_operand describe(const struct product_operand *o, int n) {
    struct tile_wgmma_operand r = {.bits = dtype_bits(o->dtype),
                                   .along = o->along_k,
                                   .plain = o->plain,
                                   .leaves = o->leaves,
                                   .leaf_bits = o->leaf_bits,
                                   .leaf1_same = o->same,
                                   .map = o->mapped && (o->along_k || r.bits == 16),
                                   .spread = o->mapped && o->along_k && !o->batched && o->by_32,
                                   .lines = o->lines,
                                   .group = o->group,
                                   .ops = o->ops};
    for (int i = 1; i < n; i++) {
        bool same = o[i].along_k == r.along && o[i].plain == r.plain && o[i].leaves == r.leaves &&
                    o[i].leaf_bits == r.leaf_bits && o[i].mapped == o->mapped &&
                    o[i].group == r.group && o[i].same == o->same && o[i].lines == o->lines;
        r.spread = r.spread && o[i].by_32 && o[i].batched == o->batched;
        if (same) continue;
        r.plain = r.map = r.lines = r.spread = false;
        r.leaves = 0;
    }
    return r;
}

static int64_t size_of(const struct emit *e, sx x, int64_t likely) {
    int64_t v;
    return x == 0 ? 1 : sx_is_const(e->sp, x, &v) ? v : likely;
}

static struct tile_wgmma_problem wgmma_problem(struct emit *e) {
    const struct product *p = e->product;
    const struct kernel *k = e->k;
    struct tile_wgmma_problem q = {.Z = size_of(e, k->Z, -1),
                                   .M = size_of(e, k->M, k->problem.likely_M),
                                   .N = size_of(e, k->N, -1),
                                   .K = size_of(e, k->K, -1),
                                   .n_b = k->n_b,
                                   .whole_numbers = k->acc == DT_I32,
                                   .a = describe(&p->at[0], 1),
                                   .b = describe(&p->at[1], p->n - 1),
                                   .passed = k->tile.cuda.passed};
    for (size_t i = 0; i < k->stores.n; i++)
        q.c_ops += fn_cost(e->fns, k->stores.at[i].f);
    return q;
}

static void wgmma_choose(struct emit *e) {
    struct tile_wgmma_problem q = wgmma_problem(e);
    e->product->wgmma = tile_cuda_wgmma(&q, e->product->device);
}

static void wgmma_constants(struct emit *e) {
    static const char *const feeds[] = {"", "PK_FEED_TMA", "PK_FEED_COPY", "PK_FEED_VALUE"};
    struct product *p = e->product;
    wgmma_choose(e);
    const struct tile_wgmma *t = &p->wgmma;
    if (!t->fits) str_add(e->out, "#error no tile of this template takes the product\n");
    for (int i = 0; i < p->n; i++) {
        const struct product_operand *o = &p->at[i];
        enum tile_feed feed = i == 0 ? t->a_feed : t->b_feed;
        bool rows = (i == 0) != t->swap;
        str_printf(e->out, "#define MM_%s_FEED %s\n", o->name, feeds[feed]);
        define(e, o->name, "_MAP_Z", o->batched);
        if (feed != TILE_FEED_TMA) continue;
        add_map(e, o, &o->map, rows ? t->rows : t->cols / t->cluster, t->spread && !rows);
        if (rows && t->regs && o->leaves > 1) add_map(e, o, &o->map1, t->rows, false);
    }
    define(e, "SWAP", "", t->swap);
    define(e, "REGS", "", t->regs);
    define(e, "TURNS", "", t->turns);
    define(e, "SPREAD", "", t->spread);
    define(e, "ROWS", "", t->rows);
    define(e, "COLS", "", t->cols);
    define(e, "STAGES", "", t->stages);
    define(e, "CONSUMERS", "", t->consumers);
    define(e, "CLUSTER", "", t->cluster);
    define(e, "RASTER", "", t->raster);
    define(e, "PRODUCER_REGS", "", t->producer_regs);
    define(e, "CONSUMER_REGS", "", t->consumer_regs);
}

/* ---- few rows -------------------------------------------------------------------------------- */

/* What the template's tensor cores multiply: bf16; f16 and fp8, which is made f16; -1: no dtype of
 * theirs. */
static int few_kind(enum dtype d) {
    return d == DT_BF16 ? 0 : d == DT_F16 || d == DT_F8E4M3FN || d == DT_F8E5M2 ? 1 : -1;
}

/* Every operand of one kind, with lanes along k and the bytes of its leaves. */
static bool few_takes(struct emit *e, const struct product *p) {
    int kind = few_kind(p->at[0].dtype);
    for (int i = 0; i < p->n; i++) {
        const struct product_operand *o = &p->at[i];
        if (few_kind(o->dtype) != kind || !o->along_k || (i > 0 && o->leaves == 0)) return false;
    }
    return kind >= 0 && e->k->acc == DT_F32;
}

static void few_choose(struct emit *e) {
    struct product *p = e->product;
    const struct kernel *k = e->k;
    struct tile_few_problem q = {.Z = size_of(e, k->Z, -1),
                                 .M = size_of(e, k->M, k->problem.likely_M),
                                 .N = size_of(e, k->N, -1),
                                 .K = size_of(e, k->K, -1),
                                 .n_b = k->n_b,
                                 .operand_bits = 16,
                                 .plain = p->at[0].plain,
                                 .a_ops = p->at[0].ops};
    for (int i = 1; i < p->n; i++) {
        if (q.bits == 0 || p->at[i].leaf_bits < q.bits) q.bits = p->at[i].leaf_bits;
    }
    struct tile_wgmma_problem many = wgmma_problem(e);
    struct tile_ring ring = ring_choose(e, &q);
    bool both = k->tile.cuda.form == TILE_WGMMA && q.M >= 0;
    if (both && k->tile.cuda.few == 0 && !ring.fits && !tile_takes_few(&q, &many, p->device))
        return;
    p->few = tile_cuda_few_at(&q, p->device, k->tile.cuda.passed);
    if (!p->few.fits || !ring.fits) return;
    p->ring = ring;
    /* A as it lies is brought into the pairs' order by whoever multiplies: for bytes that costs as much
     * as it saves. */
    if (ring.direct && (p->order < 4 || ring.cols8 > 2)) p->order = 1;
}

static void few_constants(struct emit *e) {
    const struct product *p = e->product;
    const struct tile_few *t = &p->few;
    define(e, "ACC_BITS", "", 32);
    define(e, "KIND", "", few_kind(p->at[0].dtype));
    define(e, "B_ORDER", "", p->order > 0 ? p->order : 1);
    if (p->ring.fits) {
        ring_constants(e);
        return;
    }
    define(e, "RUN", "", t->run);
    define(e, "COLS8", "", t->cols8);
    define(e, "KGROUPS", "", t->kgroups);
    define(e, "RGROUPS", "", t->rgroups);
    define(e, "UNITS", "", t->units);
    define(e, "AHEAD", "", t->ahead);
    define(e, "STEP", "", t->step);
    define(e, "TILES", "", t->tiles);
    define(e, "X_BUFS", "", t->bufs);
    define(e, "SPLIT", "", t->split);
    define(e, "A_STAGE", "", t->stage);
    define(e, "PER_SM", "", t->per_sm);
}

/* ---- few rows, B along its columns ------------------------------------------------------------ */

static bool across_takes(struct emit *e, const struct product *p) {
    const struct product_operand *a = &p->at[0], *b = &p->at[1];
    int kind = few_kind(a->dtype);
    if (p->n != 2 || kind < 0 || e->k->acc != DT_F32 || dtype_bits(a->dtype) != 16) return false;
    return few_kind(b->dtype) == kind && dtype_bits(b->dtype) == 16 && a->along_k && !b->along_k &&
           b->leaves == 1 && b->mapped && b->leaf_bits >= 4 && b->leaf_bits <= 16 &&
           b->group % 8 == 0;
}

static void across_choose(struct emit *e) {
    struct product *p = e->product;
    const struct kernel *k = e->k;
    struct tile_across_problem q = {.Z = size_of(e, k->Z, -1),
                                    .M = size_of(e, k->M, k->problem.likely_M),
                                    .N = size_of(e, k->N, -1),
                                    .K = size_of(e, k->K, -1),
                                    .bits = p->at[1].leaf_bits,
                                    .passed = k->tile.cuda.passed};
    struct tile_across t = tile_cuda_across(&q, p->device);
    if (k->tile.cuda.form == TILE_WGMMA && k->tile.cuda.few == 0 && p->at[1].plain) {
        struct tile_wgmma_problem many = wgmma_problem(e);
        struct tile_wgmma w = tile_cuda_wgmma(&many, p->device);
        if (w.fits && w.seconds >= 0 && w.seconds <= t.seconds) return;
    }
    p->across = t;
}

static void across_constants(struct emit *e) {
    const struct tile_across *t = &e->product->across;
    define(e, "RUN", "", t->run);
    define(e, "COLS8", "", t->cols8);
    define(e, "STAGES", "", t->stages);
    define(e, "PARTS", "", t->parts);
}

/* ---- choice ---------------------------------------------------------------------------------- */

/* An operand as it would be with so many lanes. */
static void look_at(struct emit *e, const char *hook, fn_id f, sx outer) {
    struct staged s;
    bool along = emit_axis_cost(e, f, e->k->k) <= emit_axis_cost(e, f, outer);
    e->group = emit_group_size(e, f, e->k->k, along ? e->W : 1);
    emit_hook(e, hook, along ? e->k->k : outer, e->k->k, true, &f, 1, true);
    staged_find(e, f, e->vec, &s);
    staged_keep_simple(e, &s);
    product_add(e, f, outer, &s);
    if (hook[0] == 'b') {
        int order = packed_order(e, staged_source(e, f), &s);
        bool first = e->product->order == 0;
        e->product->order = first || e->product->order == order ? order : 1;
    }
    e->group = 0;
}

static void few_plan(struct emit *e, struct kernel *k) {
    static const char *const hooks[] = {"b0", "b1", "b2", "b3"};
    struct product *p = e->product;
    int64_t rows = size_of(e, k->M, k->problem.likely_M);
    if (k->problem.one_order || k->problem.hides) return;
    if (rows < 0 || rows > TILE_FEW_ROWS || k->tile.cuda.few < 0) return;
    e->W = 8;
    look_at(e, "a", k->a, k->m);
    for (int i = 0; i < k->n_b; i++)
        look_at(e, hooks[i], k->b[i], k->n);
    if (few_takes(e, p))
        few_choose(e);
    else if (across_takes(e, p))
        across_choose(e);
    if (p->few.fits) {
        struct tile_cuda *t = &k->tile.cuda;
        *t = (struct tile_cuda){.form = TILE_FEW,
                                .a_lanes = 8,
                                .b_lanes = 8,
                                .c_lanes = 4,
                                .pack_lanes = 8,
                                .passed = t->passed,
                                .ring = p->ring.fits,
                                .few = t->few};
        k->tile.order = "tensor cores, parts of k";
    } else if (p->across.fits) {
        struct tile_cuda *t = &k->tile.cuda;
        *t = (struct tile_cuda){.form = TILE_ACROSS,
                                .a_lanes = 8,
                                .b_lanes = 8,
                                .c_lanes = 4,
                                .pack_lanes = 8,
                                .passed = t->passed,
                                .few = t->few};
        k->tile.order = "tensor cores, parts of k";
    }
    if (!p->few.fits) p->order = 0;
    p->n = 0;
    e->W = 1;
}

void product_plan(struct emit *e, struct kernel *k) {
    if (k->kind != KERNEL_MATMUL) return;
    few_plan(e, k);
    if (k->tile.cuda.form != TILE_MMA) return;
    struct tile_cuda *t = &k->tile.cuda, model = k->model_tile.cuda;
    t->rows = model.rows, t->cols = model.cols, t->threads = model.threads, t->split = model.split;
    e->product->mma_choices = tile_cuda_mma_at(k->n_b, t->passed, t);
}

void product_constants(struct emit *e) {
    if (e->product == NULL) return;
    switch (e->k->tile.cuda.form) {
    case TILE_SIMT: break;
    case TILE_WGMMA: wgmma_constants(e); break;
    case TILE_FEW: few_constants(e); break;
    case TILE_ACROSS: across_constants(e); break;
    case TILE_MMA:
        define(e, "ROWS", "", e->k->tile.cuda.rows);
        define(e, "COLS", "", e->k->tile.cuda.cols);
        define(e, "SPLIT", "", e->k->tile.cuda.split);
        break;
    }
}
