/* SPDX-License-Identifier: MIT
 * Register tiles per instruction set and blocks per cache size, as measured with
 * bench/templates/bench_matmul.c; and the choice between the packed template and the one for few
 * rows, which reads its right operand once and packs nothing. Where the number of rows is not known
 * a kernel has both, unless it is planned for many rows: then few rows take the packed one too, and
 * half as much is compiled.
 */
#include "tile/tile.h"

#define FEW_ROWS 8

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
    {512, 256, 14, 2, 512, 64},    {512, 768, 8, 2, 512, 128}, {512, INT64_MAX, 6, 4, 512, 128},
    {256, 256, 6, 2, 512, 64},     {256, 768, 6, 2, 512, 256}, {256, INT64_MAX, 4, 3, 256, 192},
    {0, INT64_MAX, 4, 2, 256, 64},
};

static int64_t padded(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

static void register_tile(struct tile *t, const struct tile_problem *p, const struct device_desc *d,
                          bool wide) {
    int64_t size = p->M > p->N ? p->M : p->N;
    if (p->M < 0 || p->N < 0) size = INT64_MAX;
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
    int64_t n = t->swap ? p->M : p->N;
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

struct tile tile_matmul(const struct tile_problem *p, const struct device_desc *d) {
    if (d->kind == DEVICE_CUDA) return tile_matmul_cuda(p, d);
    bool wide = dtype_bits(p->acc) == 64;
    int lanes = tile_lanes(d);
    struct tile t = {.packed = true, .order = "sequential"};
    bool few_n = p->N >= 0 && p->N <= FEW_ROWS && (p->M < 0 || p->M > p->N);
    t.swap = few_n;
    register_tile(&t, p, d, wide);
    t.mc = 2048;
    int nr = t.nv * lanes;
    if (t.nc < nr) t.nc = nr;
    t.nc = t.nc / nr * nr;
    int64_t few = few_n ? p->N : p->M;
    int64_t likely = few < 0 ? p->likely_M : few;
    t.rows = !p->one_order && likely <= FEW_ROWS;
    t.packed = few < 0 || few > FEW_ROWS || p->one_order;
    t.rows_max = FEW_ROWS;
    t.rows_mr = few >= 0 && few <= 1 ? 1 : few >= 0 && few <= 4 ? 4 : 8;
    if ((wide || p->n_b > 1) && t.rows_mr > 4) t.rows_mr = 4;
    if (t.rows) t.order = t.packed ? "sequential, lanes for few rows" : "lanes";
    t.seconds = model(p, &t, d);
    return t;
}
