/* SPDX-License-Identifier: MIT
 * The few-rows template's constants from the sizes, the formats and the device.
 *
 * Up to 16 rows: 16 warps of a persistent block share a chunk of A that is all of K if shared memory
 * holds it, 4 groups of warps along K times 4 along rows of B; each warp has 4 units in flight, 64 KB
 * an SM. More rows: tensor cores are the narrower place, a warp multiplies 32 rows of B with what it
 * reads of A, sums stay in registers, and A streams through two chunks. K is split over blocks while
 * there are fewer tiles than SMs can share evenly.
 */
#include "tile/tile_cuda_few.h"

enum { TILE = 16, MOST_SPLIT = 8 };

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int least(int64_t a, int64_t b) {
    return (int)(a < b ? a : b);
}

/* Bytes of shared memory, as the template lays it out. */
int64_t tile_few_shared(const struct tile_few_problem *p, const struct tile_few *t) {
    int64_t acc = p->one_by_one ? p->operand_bits / 8 : 4, cols = 8 * t->cols8;
    int64_t chunk = (int64_t)t->kgroups * t->units * 4 * t->run;
    /* Rows of A, 8 elements a fragment, a few fragments apart. */
    int64_t x = t->bufs * cols * (chunk / 8 + (t->run == 8 ? 4 : 1)) * p->operand_bits;
    int64_t sums = (int64_t)t->tiles * p->n_b * t->kgroups * t->cols8 * 128 * acc;
    int64_t out = p->n_b * cols * (TILE * t->tiles + 4) * acc;
    return x + sums + out + 256;
}

/* Units of a K group in a chunk: all of K, or what shared memory holds, a multiple of `ahead`. */
static void choose_units(const struct tile_few_problem *p, const struct device_desc *d,
                         int64_t part, struct tile_few *t) {
    int64_t all = ceil_div(part, (int64_t)t->kgroups * 4 * t->run);
    if (part < 0) all = 8;
    t->units = least(all > 0 ? all : 1, 64);
    while (t->units > 1 && tile_few_shared(p, t) > d->gpu.shared_block)
        t->units--;
    /* Chunks of one size, of whole bodies where there are several. */
    int64_t chunks = ceil_div(all > 0 ? all : 1, t->units);
    int64_t even = ceil_div(all > 0 ? all : 1, chunks);
    if (even > t->ahead && ceil_div(even, t->ahead) * t->ahead <= t->units)
        even = ceil_div(even, t->ahead) * t->ahead;
    t->units = (int)even;
    t->ahead = least(t->ahead, t->units);
}

struct tile_few tile_cuda_few(const struct tile_few_problem *p, const struct device_desc *d) {
    struct tile_few t = {.step = 1, .bufs = 1, .split = 1, .per_sm = 1};
    t.run = p->bits == 4 ? 32 : p->bits == 8 ? 16 : 8;
    int64_t m = p->M < 0 ? 16 : p->M;
    t.cols8 = m <= 8 ? 1 : m <= 16 || p->one_by_one ? 2 : m <= 32 ? 4 : 8;
    int64_t tiles =
        p->N < 0 || p->Z < 0 ? -1 : p->Z * ceil_div(m, 8 * t.cols8) * ceil_div(p->N, TILE);
    int64_t each = tiles < 0 ? 8 : ceil_div(tiles, d->gpu.sms);
    if (t.cols8 <= 2) {
        t.kgroups = 4;
        t.rgroups = 4;
        t.ahead = p->n_b > 1 || p->one_by_one ? 2 : 4;
        t.tiles = least(each > 0 ? each : 1, 8);
        if (t.tiles < 3) t.tiles = 3;
    } else {
        t.kgroups = 2;
        t.rgroups = 4;
        t.step = p->n_b > 1 ? 1 : 2;
        t.ahead = 2;
        t.bufs = 2;
        t.tiles = t.rgroups * t.step;
        /* A tile less makes room for the chunks. */
        if (each < t.tiles)
            t.tiles = least(each > 0 ? each : 1, t.tiles);
        else if (t.cols8 == 8)
            t.tiles--;
    }
    /* Too few tiles for every SM, or all SMs but with half of them idle in the last round. */
    if (tiles > 0 && p->K > 0) {
        int64_t per = (int64_t)t.kgroups * 4 * t.run;
        while (t.split < MOST_SPLIT && tiles * t.split < 2 * d->gpu.sms &&
               p->K >= 2 * t.split * per)
            t.split *= 2;
        each = ceil_div(tiles * t.split, d->gpu.sms);
        if (t.cols8 <= 2) t.tiles = each < 3 ? 3 : least(each, 8);
    }
    int64_t part = p->K < 0 ? -1 : ceil_div(p->K, t.split);
    if (t.bufs == 2 && (part < 0 || part > 512)) part = 512;
    choose_units(p, d, part, &t);
    if (p->K > 0)
        t.split = least(t.split, ceil_div(p->K, (int64_t)t.kgroups * t.units * 4 * t.run));
    while (t.tiles > 1 && tile_few_shared(p, &t) > d->gpu.shared_block)
        t.tiles--;
    /* Evaluated by every block, or once by a launch of 2 us. */
    double blocks = d->gpu.sms, rate = d->gpu.f32 * 0.25;
    if (!p->plain && p->K > 0) {
        double once = (double)m * (double)p->K / t.split * p->a_ops;
        t.stage = once / rate > 2e-6 && blocks > 1;
    }
    t.threads = 32 * t.kgroups * t.rgroups;
    t.shared = (int)tile_few_shared(p, &t);
    t.fits = p->n_b >= 1 && t.shared <= d->gpu.shared_block && d->gpu.cc >= 80;
    return t;
}
