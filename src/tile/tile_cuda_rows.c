/* SPDX-License-Identifier: MIT
 * The choice between the template for few rows and the one for many, by modelled time.
 *
 * The one for few reads weights once, as fast as memory gives them, as long as its warps keep up:
 * each weight is unpacked and handed to tensor cores by instructions whose number grows with the
 * rows. Measured on an H200 (14336 x 4096 weights of 8 and 4 bits, 16 to 64 rows, 28 to 57 us):
 * 0.08 clocks a weight and 0.0027 more a row, on every SM. The one for many converts a weight once for
 * a tile of up to 256 rows, but has one tile of 128 weights' rows on an SM and does not cut K, so it
 * needs many columns. Which is faster is therefore a question of rows and columns, not of rows alone.
 */
#include "tile/tile_cuda_rows.h"

double tile_few_seconds(const struct tile_few_problem *p, const struct device_desc *d) {
    double weights = (double)p->Z * (double)p->N * (double)p->K * p->n_b, m = (double)p->M;
    double rows = (double)p->Z * m * (double)p->K;
    int bits = p->bits > 0 ? p->bits : p->operand_bits;
    double bytes = (weights * bits + rows * p->operand_bits) / 8;
    double memory = bytes / (0.8 * d->gpu.bandwidth);
    double work = weights / d->gpu.sms * (0.08 + 0.0027 * m) / d->gpu.hz;
    return (memory > work ? memory : work) + 3e-6;
}

/* Rows up to which few is what measurements say wherever it can be. */
enum { SURELY_FEW = 32 };

bool tile_takes_few(const struct tile_few_problem *few, const struct tile_wgmma_problem *many,
                    const struct device_desc *d) {
    if (few->M > TILE_FEW_ROWS) return false;
    if (few->M <= SURELY_FEW) return true;
    struct tile_wgmma t = tile_cuda_wgmma(many, d);
    if (!t.fits || t.seconds < 0 || t.b_feed == TILE_FEED_VALUE || t.a_feed == TILE_FEED_VALUE)
        return true;
    /* Little else is there to hide the conversion of weights: a chain of steps in few warps. */
    double weights = t.swap && t.regs ? (double)(t.tiles + d->gpu.sms - 1) / d->gpu.sms : 0;
    double convert =
        (double)(int64_t)weights * t.rows * (double)many->K * 2 * many->b.ops / (128 * d->gpu.hz);
    double seconds = t.seconds > convert + 3e-6 ? t.seconds : convert + 3e-6;
    return tile_few_seconds(few, d) <= seconds;
}
