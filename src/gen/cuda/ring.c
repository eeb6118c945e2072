/* SPDX-License-Identifier: MIT
 * See ring.h. Right operands are fetched as boxes of 128 bytes by a block's rows, whatever their
 * leaf's dtype.
 */
#include "gen/cuda/ring.h"

#include "gen/c/emit_internal.h"

struct tile_ring ring_choose(const struct emit *e, const struct tile_few_problem *few) {
    const struct product *p = e->product;
    struct tile_ring_problem q = {.Z = few->Z,
                                  .M = few->M,
                                  .N = few->N,
                                  .K = few->K,
                                  .n_b = few->n_b,
                                  .bits = few->bits,
                                  .maps = true,
                                  .group = p->at[1].group,
                                  .a_leaves = p->at[0].leaves,
                                  .a_bits = p->at[0].all_bits,
                                  .a_ops = few->plain ? 0 : few->a_ops};
    for (int i = 1; i < p->n; i++) {
        const struct product_operand *o = &p->at[i];
        q.maps = q.maps && o->mapped && o->leaves == 1 && o->leaf_bits == few->bits &&
                 o->group == q.group;
    }
    const struct product_operand *a = &p->at[0];
    q.direct = a->plain && a->mapped && a->leaf_bits == 16 && dtype_bits(a->dtype) == 16;
    return tile_cuda_ring(&q, p->device);
}

static void define(struct emit *e, const char *name, int v) {
    str_printf(e->out, "#define MM_%s %d\n", name, v);
}

static void add_map(struct emit *e, const struct product_operand *o, int rows) {
    struct product *p = e->product;
    struct gen_tensor_map *m = &p->maps[p->n_maps++];
    *m = o->map;
    m->box[0] = 128 * 8 / dtype_bits(m->dtype);
    m->box[1] = rows;
    m->box[2] = 1;
    m->swizzle = 128;
    if (!o->batched) { /* a stride that is never used, but that the hardware accepts */
        m->dims[2] = sx_const(e->sp, 1);
        m->strides[2] = m->strides[1];
    }
}

struct near {
    struct emit *e;
    int n;
};

/* What results are combined with that is one line for all rows of A: a scale, a bias. */
static void fetch_near(void *user, fn_id f) {
    struct near *w = user;
    struct emit *e = w->e;
    const struct fn_node *n = fn_get(e->fns, f);
    if (n->kind != FN_LOAD || dtype_bits(n->dtype) < 8) return;
    sx at = emit_offset(e, n->tensor, n->rank, n->idx), coef, rest;
    int64_t step;
    if (sx_has_look(e, at) || sx_has(e->sp, at, e->k->m) || sx_has(e->sp, at, e->k->k)) return;
    if (!sx_has(e->sp, at, e->k->n) || !sx_linear(e->sp, at, e->k->n, &coef, &rest)) return;
    if (!sx_is_const(e->sp, coef, &step) || step != 1) return;
    str_printf(
        e->out,
        "    asm volatile(\"{\\n.reg .b16 r;\\nld.global.u8 r, [%%0];\\n}\" ::\"l\"((const char *)"
        "g->buf[%d] + (",
        e->slot[n->tensor]);
    emit_sx(e, at, false, e->out);
    str_printf(e->out, ") * %d));\n", dtype_bits(n->dtype) / 8);
    w->n++;
}

static void write_near(struct emit *e) {
    struct near w = {e, 0};
    str_printf(e->out,
               "PK_D void %s_c_near(const struct pk_args *g, pk_i64 z, pk_i64 n)\n{\n    (void)g, "
               "(void)z, (void)n;\n",
               e->prefix);
    for (size_t i = 0; i < e->k->stores.n; i++)
        fn_walk(e->fns, e->k->stores.at[i].f, fetch_near, &w);
    str_add(e->out, "}\n");
    define(e, "C_NEAR", w.n);
}

void ring_constants(struct emit *e) {
    const struct product *p = e->product;
    const struct tile_ring *t = &p->ring;
    define(e, "RUN", t->run);
    define(e, "COLS8", t->cols8);
    define(e, "TILES", t->tiles);
    define(e, "KGROUPS", t->kgroups);
    define(e, "UNITS", t->units);
    define(e, "STAGES", t->stages);
    define(e, "A_WARPS", t->a_warps);
    define(e, "A_AHEAD", t->a_ahead);
    write_near(e);
    define(e, "A_TMA", t->direct);
    if (t->direct) {
        define(e, "A_MAP_Z", p->at[0].batched);
        add_map(e, &p->at[0], 8 * t->cols8);
    }
    for (int i = 1; i < p->n; i++) {
        str_printf(e->out, "#define MM_%s_MAP_Z %d\n", p->at[i].name, p->at[i].batched);
        add_map(e, &p->at[i], 16 * t->tiles);
    }
}

sx ring_tasks(struct emit *e) {
    const struct tile_ring *t = &e->product->ring;
    const struct kernel *k = e->k;
    struct sx_pool *sp = e->sp;
    sx rows = sx_ceil_div(sp, k->N, sx_const(sp, (int64_t)16 * t->tiles));
    sx cols = sx_ceil_div(sp, k->M, sx_const(sp, 8 * t->cols8));
    sx tasks = sx_mul(sp, rows, cols);
    return k->Z != 0 ? sx_mul(sp, k->Z, tasks) : tasks;
}
