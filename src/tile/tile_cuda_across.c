/* SPDX-License-Identifier: MIT
 * The constants of matmul_across.cu from the sizes, the format and the device.
 *
 * A lane's run is 16 elements, 16 bytes of the usual format; 8 where their sums would not fit in
 * registers, or where 8 are 16 bytes. As many stages as shared memory holds, of which each has 32 KB
 * of B at 8 bits: four are what hides the memory's latency. One part for each SM.
 */
#include "tile/tile_cuda_across.h"

enum { WARPS = 8, MOST_STAGES = 5 };

static int shared_bytes(int bits, const struct tile_across *t, int stages) {
    int lane = t->run * bits + 16 * t->cols8;
    int sums = WARPS * (t->run / 2) * 32 * 16, out = 8 * (8 * t->run + 4) * 4 + 16;
    return stages * WARPS * 32 * lane + sums + out;
}

struct tile_across tile_cuda_across(const struct tile_across_problem *p,
                                    const struct device_desc *d) {
    struct tile_across t = {.seconds = -1, .parts = d->gpu.sms};
    int64_t m = p->M < 0 ? 16 : p->M;
    t.cols8 = m <= 8 ? 1 : m <= 16 ? 2 : m <= 32 ? 4 : 8;
    t.run = t.cols8 == 8 || p->bits == 16 ? 8 : 16;
    int most = MOST_STAGES;
    while (most > 1 && shared_bytes(p->bits, &t, most) > d->gpu.shared_block)
        most--;
    if (d->gpu.cc < 80 || most < 2) return t;
    t.choices = most - 1;
    t.stages = p->passed < 0 || p->passed >= t.choices ? most : most - p->passed;
    t.shared = shared_bytes(p->bits, &t, t.stages);
    t.fits = true;
    if (p->Z < 0 || p->M < 0 || p->N < 0 || p->K < 0) return t;
    double rows = (double)((p->M + 8 * t.cols8 - 1) / (8 * t.cols8));
    double bytes = (double)p->Z * (double)p->N * (double)p->K * rows * p->bits / 8;
    t.seconds = bytes / (0.8 * d->gpu.bandwidth) + 5e-6;
    return t;
}
