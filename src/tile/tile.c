/* SPDX-License-Identifier: MIT
 * Register tiles per instruction set and blocks per cache size, as measured with
 * bench/templates/bench_matmul.c; and the choice between the packed template and the one for few
 * rows, which reads its right operand once and packs nothing. Where the number of rows is not known
 * a kernel has both, unless it is planned for many rows: then few rows take the packed one too, and
 * half as much is compiled.
 *
 * Candidates for measuring vary what does not show in a result: how many rows and vectors a register
 * tile has, as far as they fit in the registers, and the blocks. The model's tables hold for f32 in
 * f32 out; a prologue or an epilogue shifts the balance, which is what there is to measure.
 */
#include "tile/tile.h"

#define FEW_ROWS 8
/* The same where the right operand lies in panels of a small dtype: taking it apart in registers for
 * so many rows costs less than writing it to memory as f32 and reading that. */
#define FEW_ROWS_NARROW 16

int tile_lanes(const struct device_desc *d) {
    return d->vector_bits >= 512 ? 16 : d->vector_bits >= 256 ? 8 : 4;
}

/* Register tile and blocks by size class; measured medians, ties to the smaller panel. */
struct shape_tile {
    int bits;     /* of a vector, at least */
    int64_t size; /* of the larger of M and N, at most */
    int mr, nv, kc, nc;
};

static const struct shape_tile TILES[] = {
    {512, 256, 14, 2, 512, 64},    {512, 768, 12, 2, 512, 64}, {512, INT64_MAX, 6, 4, 512, 128},
    {256, 256, 6, 2, 512, 64},     {256, 768, 6, 2, 512, 256}, {256, INT64_MAX, 4, 3, 256, 192},
    {0, INT64_MAX, 4, 2, 256, 64},
};

static int64_t padded(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

static void register_tile(struct tile *t, const struct tile_problem *p, const struct device_desc *d,
                          bool wide) {
    int64_t m = p->M < 0 ? p->likely_M : p->M, n = p->N < 0 ? p->likely_N : p->N;
    int64_t size = m < 0 || n < 0 ? INT64_MAX : m > n ? m : n;
    const struct shape_tile *best = &TILES[COUNT_OF(TILES) - 1];
    for (size_t i = COUNT_OF(TILES); i-- > 0;) {
        bool ok = d->vector_bits >= TILES[i].bits && size <= TILES[i].size;
        if (ok && (TILES[i].bits > best->bits || TILES[i].size <= best->size)) best = &TILES[i];
    }
    t->mr = best->mr;
    t->nv = best->nv;
    t->kc = best->kc;
    t->nc = best->nc;
    /* Columns are padded to whole tiles: a narrower tile where that would waste an eighth. */
    int lanes = tile_lanes(d);
    n = t->swap ? p->M : p->N;
    while (n > 0 && t->nv > 1 && padded(n, (int64_t)t->nv * lanes) - padded(n, lanes) > n / 8) {
        t->nv--;
        t->mr = d->vector_bits >= 512 ? (t->nv > 2 ? 8 : 12) : 6;
        if (t->mr > lanes) t->mr = lanes; /* the template transposes a vector's rows at a time */
    }
    if (wide) { /* a vector of 64-bit lanes takes two registers */
        t->nv = 1;
        t->mr = t->mr >= 12 ? 6 : 4;
    }
}

/* min(peak time, traffic time) of the two templates, coarse but monotone. */
static double model(const struct tile_problem *p, const struct tile *t,
                    const struct device_desc *d) {
    if (p->Z < 0 || p->M < 0 || p->N < 0 || p->K < 0) return -1;
    double z = (double)p->Z, m = (double)p->M, n = (double)p->N, k = (double)p->K;
    double size = dtype_bits(p->acc) / 8.0;
    double flops = d->flops_per_core * (size > 4 ? 0.5 : 1.0);
    double math = 2 * z * m * n * k / (0.85 * flops);
    double traffic = z * (m * k + n * k + m * n) * size / d->bandwidth_per_core;
    double pack = t->packed ? z * (m * k + n * k) * 2 / flops * 4 : 0;
    return (math > traffic ? math : traffic) + pack;
}

/* Does the few-rows template read its right operand from panels of a small dtype? */
static bool from_panels(const struct tile_problem *p, bool swap) {
    return p->narrow_const[swap ? 0 : 1] && p->n_b == 1;
}

static const char *order_of(const struct tile_problem *p, const struct tile *t) {
    if (!t->rows) return "sequential";
    if (from_panels(p, t->swap))
        return t->packed ? "sequential, by blocks of scales for few rows"
                         : "sequential, by blocks of scales";
    return t->packed ? "sequential, lanes for few rows" : "lanes";
}

struct tile tile_matmul(const struct tile_problem *p, const struct device_desc *d) {
    if (d->kind == DEVICE_CUDA) return tile_matmul_cuda(p, d);
    bool wide = dtype_bits(p->acc) == 64;
    int lanes = tile_lanes(d);
    struct tile t = {.packed = true};
    bool few_n = p->N >= 0 && p->N <= FEW_ROWS && (p->M < 0 || p->M > p->N);
    t.swap = few_n;
    register_tile(&t, p, d, wide);
    if (p->dots > 0 && d->arch == ARCH_X86_64 && d->vector_bits >= 256)
        t.dots = p->dots == 4 && !t.swap && (d->isa & ISA_AVX512VNNI) != 0 ? 4 : 2;
    t.mc = 2048;
    int nr = t.nv * lanes;
    if (t.nc < nr) t.nc = nr;
    t.nc = t.nc / nr * nr;
    int64_t few = few_n ? p->N : p->M;
    int64_t likely = few < 0 ? p->likely_M : few;
    bool panels = from_panels(p, few_n) && !wide && d->vector_bits >= 512;
    int most = panels ? FEW_ROWS_NARROW : FEW_ROWS;
    t.rows = !p->one_order && likely <= most;
    t.packed = few < 0 || few > most || p->one_order;
    t.rows_max = most;
    t.rows_mr = few < 0 || few > 8 ? most : few > 4 ? 8 : few > 1 ? 4 : 1;
    if ((wide || p->n_b > 1) && t.rows_mr > 4) t.rows_mr = 4;
    t.order = order_of(p, &t);
    t.seconds = model(p, &t, d);
    return t;
}

/* ---- candidates --------------------------------------------------------------------------------
 */

bool tile_equal(const struct tile *a, const struct tile *b) {
    return a->packed == b->packed && a->rows == b->rows && a->swap == b->swap && a->mr == b->mr &&
           a->nv == b->nv && a->mc == b->mc && a->kc == b->kc && a->nc == b->nc &&
           a->rows_mr == b->rows_mr && a->rows_max == b->rows_max &&
           a->cuda.passed == b->cuda.passed && a->cuda.few == b->cuda.few;
}

struct list {
    const struct tile *t;
    struct tile *at;
    int n;
};

static void offer(struct list *l, const struct tile *c) {
    if (l->n == TILE_CANDIDATES || tile_equal(c, l->t)) return;
    for (int i = 0; i < l->n; i++) {
        if (tile_equal(c, &l->at[i])) return;
    }
    l->at[l->n++] = *c;
}

/* Blocks of whole register tiles, of nc columns about. */
static void set_columns(struct tile *c, int nc, int lanes) {
    int nr = c->nv * lanes;
    c->nc = nc < nr ? nr : nc / nr * nr;
}

static void offer_blocks(struct list *l, int mc, int kc, int nc, int lanes) {
    struct tile c = *l->t;
    c.mc = mc;
    c.kc = kc;
    set_columns(&c, nc, lanes);
    offer(l, &c);
}

static void offer_packed(struct list *l, const struct device_desc *d, bool wide) {
    /* Tiles whose accumulators, one row of B and one element of A fit in the registers. */
    static const signed char shapes[][2] = {{8, 2}, {6, 4}, {12, 2}, {14, 2}, {8, 3}, {6, 2},
                                            {4, 3}, {4, 2}, {4, 4},  {2, 4},  {6, 1}, {4, 1}};
    int lanes = tile_lanes(d),
        registers = d->vector_bits >= 512 || d->arch == ARCH_AARCH64 ? 32 : 16;
    const struct tile *t = l->t;
    offer_blocks(l, t->mc, t->kc, t->nc * 2, lanes);
    offer_blocks(l, t->mc, t->kc * 2, t->nc, lanes);
    offer_blocks(l, t->mc, t->kc / 2, t->nc, lanes);
    offer_blocks(l, 256, t->kc, t->nc, lanes);
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        int mr = shapes[i][0], nv = shapes[i][1], width = wide ? 2 : 1;
        if ((mr * nv + nv + 1) * width > registers || mr > lanes) continue;
        if (wide && nv > 1) continue;
        if (mr * nv * 2 < t->mr * t->nv) continue; /* too few sums at once to hide their latency */
        struct tile c = *t;
        c.mr = mr;
        c.nv = nv;
        set_columns(&c, t->nc, lanes);
        offer(l, &c);
    }
    offer_blocks(l, t->mc, t->kc, t->nc / 2, lanes);
}

static void offer_rows(struct list *l, int64_t few, int most) {
    static const int heights[] = {16, 8, 12, 4, 6, 2, 1};
    for (size_t i = 0; i < COUNT_OF(heights); i++) {
        struct tile c = *l->t;
        c.rows_mr = heights[i];
        bool useless = c.rows_mr > few && c.rows_mr / 2 >= few;
        if (c.rows_mr > most) continue;
        if (!useless) offer(l, &c);
    }
}

int tile_candidates(const struct tile_problem *p, const struct tile *t, const struct device_desc *d,
                    bool order, struct tile out[TILE_CANDIDATES]) {
    bool wide = dtype_bits(p->acc) == 64, narrow = wide || p->n_b > 1;
    struct list l = {.t = t, .at = out};
    int64_t few = t->swap ? p->N : p->M;
    bool rows = t->rows && (!t->packed || few <= t->rows_max);
    if (order && !p->one_order && few <= 4 * FEW_ROWS) {
        struct tile c = *t;
        c.rows = !rows;
        c.packed = rows || t->packed;
        if (!rows) {
            c.rows_max = few > FEW_ROWS ? (int)few : FEW_ROWS;
            c.rows_mr = narrow ? 4 : 8;
        }
        c.order = order_of(p, &c);
        offer(&l, &c);
    }
    if (rows)
        offer_rows(&l, few, narrow ? 4 : from_panels(p, t->swap) && tile_lanes(d) == 16 ? 16 : 8);
    else
        offer_packed(&l, d, wide);
    return l.n;
}
