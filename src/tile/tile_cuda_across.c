/* SPDX-License-Identifier: MIT
 * The constants of matmul_across.cu from the sizes, the format and the device.
 *
 * A lane's run is 16 elements, 16 bytes of the usual format; 8 where their sums would not fit in
 * registers, or where 8 are 16 bytes. Two units in registers are 64 KB in flight on an SM, as much as
 * hides the memory's latency; more where a unit is smaller. One part for each SM; but if there are
 * nearly as many tiles as SMs, a part is a tile: then no sums go through memory.
 */
#include "tile/tile_cuda_across.h"

enum { WARPS = 8, DEPTH = 256, SUM_UNITS = 4 };

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* SUM_UNITS: what adding up shares takes, in units of work. */
static int parts_of(const struct tile_across_problem *p, const struct tile_across *t, int sms) {
    if (p->Z < 1 || p->M < 1 || p->N < 1 || p->K < 1) return sms;
    int64_t tiles =
        p->Z * ceil_div(p->M, 8 * (int64_t)t->cols8) * ceil_div(p->N, 8 * (int64_t)t->run);
    int64_t steps = ceil_div(p->K, DEPTH);
    bool whole = tiles <= sms && steps <= ceil_div(tiles * steps, sms) + SUM_UNITS;
    return whole ? (int)tiles : sms;
}

struct tile_across tile_cuda_across(const struct tile_across_problem *p,
                                    const struct device_desc *d) {
    struct tile_across t = {.seconds = -1};
    int64_t m = p->M < 0 ? 16 : p->M;
    t.cols8 = m <= 8 ? 1 : m <= 16 ? 2 : 4;
    t.run = t.cols8 == 4 || p->bits == 16 ? 8 : 16;
    t.parts = parts_of(p, &t, d->gpu.sms);
    /* Registers: sums, and in each stage B's runs and A's elements. */
    int sums = t.run / 2 * t.cols8 * 4,
        stage = t.run * p->bits / 4 + (t.cols8 <= 2 ? 4 * t.cols8 : 0);
    int most = 2;
    while (most > 1 && sums + most * stage > 152)
        most--;
    t.choices = most;
    t.stages = p->passed < 0 || p->passed >= t.choices ? most : most - p->passed;
    t.fits = d->gpu.cc >= 80;
    if (p->Z < 0 || p->M < 0 || p->N < 0 || p->K < 0) return t;
    double rows = (double)ceil_div(p->M, 8 * (int64_t)t.cols8);
    double bytes = (double)p->Z * (double)p->N * (double)p->K * rows * p->bits / 8;
    t.seconds = bytes / (0.8 * d->gpu.bandwidth) + 5e-6;
    return t;
}
