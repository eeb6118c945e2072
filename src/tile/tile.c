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

static void register_tile(struct tile *t, const struct device_desc *d, bool wide) {
    if (d->vector_bits >= 512) {
        t->mr = 12;
        t->nv = 2;
    } else if (d->vector_bits >= 256) {
        t->mr = 6;
        t->nv = 2;
    } else {
        t->mr = 4;
        t->nv = 2;
    }
    if (wide) { /* a vector of 64-bit lanes takes two registers */
        t->nv = 1;
        t->mr = t->mr == 12 ? 6 : t->mr == 6 ? 4 : 2;
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
    bool wide = dtype_bits(p->acc) == 64;
    int lanes = tile_lanes(d);
    struct tile t = {.packed = true, .order = "sequential"};
    register_tile(&t, d, wide);
    if (p->n_b > 1) { /* accumulators of all right operands share the registers */
        t.nv = 1;
        t.mr = t.mr * 2 / (wide ? 2 : 1) / p->n_b;
        t.mr = t.mr < 1 ? 1 : t.mr > 4 ? t.mr / 2 * 2 : t.mr;
    }
    t.mc = 1024;
    t.kc = 512;
    t.nc = d->l2 >= (1 << 20) ? 128 : 64;
    int nr = t.nv * lanes;
    if (t.nc < nr) t.nc = nr;
    t.nc = t.nc / nr * nr;
    bool few_n = p->N >= 0 && p->N <= FEW_ROWS && (p->M < 0 || p->M > p->N);
    int64_t few = few_n ? p->N : p->M;
    t.swap = few_n;
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
