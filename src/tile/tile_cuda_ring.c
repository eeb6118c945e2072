/* SPDX-License-Identifier: MIT
 * The ring template's constants from the sizes, the formats and the device.
 *
 * A block has one SM, so the tiles of a block follow from how evenly rows of B fall to SMs; the warps
 * that this leaves are groups along K. Measured on an H200: some 110 KB on their way on each SM are
 * enough, and with more the memory gets slower (18.2, 18.8, 19.2 us with 4, 5, 6 stages of 28 KB).
 * Too few tiles for half of the SMs need K split over blocks, and an expensive A should be evaluated
 * once by a launch before: the other template for few rows does that.
 */
#include "tile/tile_cuda_ring.h"

enum {
    FED_ROWS = 16,  /* most of A where warps evaluate it */
    MOST_ROWS = 64, /* where it is fetched as it lies */
    MOST_TILES = 8,
    IN_FLIGHT = 120 << 10, /* bytes of B on their way to an SM */
    LEAST_STAGES = 3,
    MOST_WARPS = 20, /* five on each of an SM's four schedulers leave 96 registers a thread */
    AHEAD = 4        /* stages that rows of A are ahead */
};

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* Tiles of 16 rows that SMs do one after the other, with so many in a block. */
static int64_t longest(const struct tile_ring_problem *p, const struct tile_ring *t, int tiles,
                       int sms) {
    int64_t blocks = p->Z * ceil_div(p->M, (int64_t)8 * t->cols8) * ceil_div(p->N, 16 * tiles);
    return ceil_div(blocks, sms) * tiles;
}

static void choose_tiles(const struct tile_ring_problem *p, const struct device_desc *d,
                         struct tile_ring *t) {
    /* 16 consumers, or two groups along K */
    static const int groups[MOST_TILES + 1] = {0, 8, 8, 4, 4, 2, 2, 2, 2};
    int most = p->n_b > 1 ? MOST_TILES / 2 : MOST_TILES;
    t->tiles = most;
    for (int n = most - 1; n >= 1; n--) {
        if (longest(p, t, n, d->gpu.sms) < longest(p, t, t->tiles, d->gpu.sms)) t->tiles = n;
    }
    t->kgroups = groups[t->tiles];
    t->units = t->kgroups == 2 && t->cols8 <= 4 ? 2 : 1;
}

/* Warps that evaluate A; two more ask for what is to come. */
static void choose_feeders(struct tile_ring *t) {
    int items = t->kgroups * t->units * (t->run / 8) * t->cols8;
    int most = MOST_WARPS - 2 - t->tiles * t->kgroups;
    if (t->direct) return;
    t->a_warps = (int)ceil_div(items, 2);
    if (t->a_warps > 4) t->a_warps = 4;
    if (t->a_warps > most) t->a_warps = most;
    t->a_ahead = AHEAD;
}

static void choose_stages(const struct tile_ring_problem *p, const struct device_desc *d,
                          struct tile_ring *t) {
    int parts = t->kgroups * t->units, rows = 16 * t->tiles, k = parts * 4 * t->run;
    int boxes = p->n_b * parts / 2 * rows * 128;
    int slot = boxes + parts * (t->run / 8) * t->cols8 * 512;
    if (t->direct && t->run == 32) slot += parts * 1024;
    int sums = t->tiles * (t->kgroups - 1) * p->n_b * t->cols8 * 512;
    int out = p->n_b * 8 * t->cols8 * (rows + 4) * 4;
    int end = sums > out ? sums : out; /* one takes the place of the other */
    int line = k * p->a_bits / 8 + 16 * p->a_leaves;
    int raw = t->direct ? 0 : t->a_ahead * (8 * t->cols8 * line + 16);
    int room = (int)d->gpu.shared_block - 1024 - end - raw, enough = IN_FLIGHT / boxes;
    t->stages = room / (slot + 16);
    if (enough < LEAST_STAGES) enough = LEAST_STAGES;
    if (t->stages > enough) t->stages = enough;
    t->shared = 1024 + t->stages * (slot + 16) + end + raw;
}

/* Coordinates of boxes are ints. */
static bool is_size(int64_t n) {
    return n >= 1 && n < (int64_t)1 << 30;
}

static bool takes(const struct tile_ring_problem *p, const struct device_desc *d, int run) {
    if (d->gpu.cc < 90 || !p->maps || p->n_b < 1 || p->n_b > 2) return false;
    if (!is_size(p->Z) || !is_size(p->M) || !is_size(p->N) || !is_size(p->K)) return false;
    if (p->M > (p->direct ? MOST_ROWS : FED_ROWS) || (p->M > FED_ROWS && p->n_b > 1)) return false;
    return p->group == 0 || p->group % run == 0 || (run % p->group == 0 && p->group % 8 == 0);
}

/* Does it take the warps that evaluate A longer than memory takes to read B? */
static bool dear(const struct tile_ring_problem *p, const struct tile_ring *t,
                 const struct device_desc *d) {
    if (t->direct) return false;
    double lanes = 32.0 * t->a_warps, once = (double)p->M * (double)p->K * (p->a_ops + 4);
    double bytes = (double)p->N * (double)p->K * p->bits / 8 * p->n_b * (double)p->Z;
    return once / lanes / (0.5 * d->gpu.hz) > bytes / d->gpu.bandwidth;
}

struct tile_ring tile_cuda_ring(const struct tile_ring_problem *p, const struct device_desc *d) {
    struct tile_ring t = {.run = p->bits == 4 ? 32 : p->bits == 8 ? 16 : 8};
    if (p->bits != 4 && p->bits != 8 && p->bits != 16) return t;
    if (!takes(p, d, t.run)) return t;
    t.direct = p->direct;
    t.cols8 = p->M <= 8 ? 1 : p->M <= 16 ? 2 : p->M <= 32 ? 4 : 8;
    if (p->Z * ceil_div(p->N, 16) < d->gpu.sms / 2) return t;
    choose_tiles(p, d, &t);
    choose_feeders(&t);
    choose_stages(p, d, &t);
    t.threads = 32 * (t.tiles * t.kgroups + (t.direct ? 1 : t.a_warps + 2));
    t.fits = t.stages >= LEAST_STAGES && !dear(p, &t, d);
    return t;
}
