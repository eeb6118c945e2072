/* SPDX-License-Identifier: MIT
 * Products on a GPU: which template, which tile. Hopper's tensor cores have a template of their own,
 * those of every GPU a portable one. The one without takes every dtype and shape; its tile is fixed.
 * The choice follows from dtypes and the device alone, so that a product has one K order.
 */
#include "tile/tile.h"
#include "tile/tile_cuda_mma.h"

/* min(peak time, traffic time), coarse but monotone. */
static double model(const struct tile_problem *p, const struct tile *t,
                    const struct device_desc *d) {
    if (p->Z < 0 || p->M < 0 || p->N < 0 || p->K < 0) return -1;
    double z = (double)p->Z, m = (double)p->M, n = (double)p->N, k = (double)p->K;
    double size = dtype_bits(p->acc) / 8.0;
    double rate = (t->cuda.form != TILE_SIMT ? d->gpu.tensor_f16
                   : size > 4                ? d->gpu.f64
                                             : d->gpu.f32) *
                  d->gpu.sms;
    double math = 2 * z * m * n * k * p->n_b / (0.5 * rate);
    double rows = (m + t->cuda.rows - 1) / t->cuda.rows,
           cols = (n + t->cuda.cols - 1) / t->cuda.cols;
    double traffic = z * (m * k * cols + n * k * rows * p->n_b) * size / d->gpu.l2_bandwidth +
                     z * (m * k + n * k * p->n_b + m * n) * size / (0.9 * d->gpu.bandwidth);
    return math > traffic ? math : traffic;
}

/* Hopper's own tensor-core instructions take operands of 16 bits, of one dtype, and any two of 8
 * bits. Those of fp8 keep too few bits of a sum for the bound of an f32 sum, even over 128 products:
 * fp8 goes to the portable template, which multiplies it as f16, exactly. */
static bool takes_wgmma(const struct tile_problem *p, const struct device_desc *d) {
    enum dtype a = p->operand[0], b = p->operand[1];
    if (d->gpu.cc != 90 || !d->gpu.specific || p->n_b > 2 || p->hides) return false;
    if (p->acc == DT_I32) return (a == DT_I8 || a == DT_U8) && (b == DT_I8 || b == DT_U8);
    if (p->acc != DT_F32) return false;
    return a == b && (a == DT_BF16 || a == DT_F16);
}

struct tile tile_matmul_cuda(const struct tile_problem *p, const struct device_desc *d) {
    struct tile t = {.order = "sequential"};
    if (takes_wgmma(p, d)) { /* how it is cut follows from the operands' leaves (gen) */
        int bits = dtype_bits(p->operand[0]);
        t.cuda = (struct tile_cuda){.form = TILE_WGMMA,
                                    .rows = 128,
                                    .cols = 256,
                                    .a_lanes = 128 / bits,
                                    .b_lanes = 128 / bits,
                                    .c_lanes = 8,
                                    .pack_lanes = 32 / bits};
        t.order = p->acc == DT_I32 ? "exact" : "tensor cores, 16 at a time";
        t.seconds = model(p, &t, d);
        return t;
    }
    if (tile_cuda_mma(p, d, &t.cuda)) {
        t.order = p->acc == DT_I32   ? "exact"
                  : t.cuda.split > 1 ? "tensor cores, parts of k"
                                     : "tensor cores, 16 at a time";
        t.seconds = model(p, &t, d);
        return t;
    }
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
