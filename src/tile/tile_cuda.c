/* SPDX-License-Identifier: MIT
 * Products on a GPU: which template, which tile. The template without tensor cores takes every
 * dtype and shape; its tile is fixed.
 */
#include "tile/tile.h"

/* min(peak time, traffic time), coarse but monotone. */
static double model(const struct tile_problem *p, const struct tile *t,
                    const struct device_desc *d) {
    if (p->Z < 0 || p->M < 0 || p->N < 0 || p->K < 0) return -1;
    double z = (double)p->Z, m = (double)p->M, n = (double)p->N, k = (double)p->K;
    double size = dtype_bits(p->acc) / 8.0;
    double rate = (size > 4 ? d->gpu.f64 : d->gpu.f32) * d->gpu.sms;
    double math = 2 * z * m * n * k * p->n_b / (0.5 * rate);
    double rows = (m + t->cuda.rows - 1) / t->cuda.rows,
           cols = (n + t->cuda.cols - 1) / t->cuda.cols;
    double traffic = z * (m * k * cols + n * k * rows * p->n_b) * size / d->gpu.l2_bandwidth +
                     z * (m * k + n * k * p->n_b + m * n) * size / (0.9 * d->gpu.bandwidth);
    return math > traffic ? math : traffic;
}

struct tile tile_matmul_cuda(const struct tile_problem *p, const struct device_desc *d) {
    struct tile t = {.order = "sequential"};
    t.cuda = (struct tile_cuda){.form = TILE_SIMT,
                                .rows = 64,
                                .cols = 64,
                                .threads = 256,
                                .a_lanes = 4,
                                .b_lanes = 4,
                                .c_lanes = 4,
                                .pack_lanes = 4};
    t.seconds = model(p, &t, d);
    return t;
}
