/* SPDX-License-Identifier: MIT
 * The many-rows template's constants from the sizes, the operands and the device.
 *
 * How operands are fed follows from their leaf tables alone. An operand that is computed goes through
 * registers, which only wgmma's rows can; of two, the one that costs more, and the other is written to
 * shared memory by the producers, where anything can go. Then the tiles that fit in registers and
 * shared memory are compared by a model of the time of one: the slowest of tensor cores, bytes from
 * L2 and conversion, and the part of the epilogue that nothing hides; times the waves of tiles.
 */
#include "tile/tile_cuda_wgmma.h"

enum { LINE = 128, MOST_STAGES = 8, ALL_REGISTERS = 64512 };

struct shape {
    int rows, cols;
    bool turns;
};

/* Sums take rows / 64 * cols / 2 registers of a consumer's thread. */
static const struct shape shapes[] = {{128, 256, false}, {64, 256, true},   {256, 128, false},
                                      {128, 128, true},  {128, 192, false}, {128, 128, false},
                                      {128, 64, false}};

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* The way to shared memory of an operand that is not computed in registers. */
static enum tile_feed straight(const struct tile_wgmma_operand *x) {
    if (x->plain && x->map) return TILE_FEED_TMA;
    if (x->plain && x->lines && x->along) return TILE_FEED_COPY;
    return TILE_FEED_VALUE;
}

/* May its leaves be turned into fragments? */
static bool by_registers(const struct tile_wgmma_operand *x) {
    if (!x->along || x->leaves < 1 || x->leaves > 2 || !(x->map || x->lines)) return false;
    if (x->leaves == 2 && !(x->map && x->leaf1_same)) return false;
    int step = 256 / x->bits, block = 8 * LINE / x->bits;
    if (x->group > 0 && (x->group % step || (x->group % block && block % x->group))) return false;
    return x->leaf_bits <= x->bits && x->leaf_bits * block / 8 >= 32;
}

static bool computed(const struct tile_wgmma_operand *x) {
    return straight(x) == TILE_FEED_VALUE;
}

/* Which operand is wgmma's rows, and how both are fed. */
static void choose_feeds(const struct tile_wgmma_problem *p, struct tile_wgmma *t) {
    const struct tile_wgmma_operand *a = &p->a, *b = &p->b;
    bool ra = computed(a) && by_registers(a), rb = computed(b) && by_registers(b);
    if (ra && rb) {
        double wa = a->ops * (double)(p->M > 0 ? p->M : 4096);
        double wb = b->ops * (double)(p->N > 0 ? p->N : 4096);
        ra = wa > wb;
        rb = !ra;
    }
    t->a_feed = ra ? (a->map ? TILE_FEED_TMA : TILE_FEED_COPY) : straight(a);
    t->b_feed = rb ? (b->map ? TILE_FEED_TMA : TILE_FEED_COPY) : straight(b);
    t->regs = ra || rb;
    /* The operand that takes more of the producers' time is better the narrower side. */
    t->swap = rb || (!ra && t->b_feed != TILE_FEED_TMA && t->a_feed == TILE_FEED_TMA);
}

/* Bytes of shared memory as the template lays it out; 0: fewer than three stages. */
static int choose_stages(const struct tile_wgmma_problem *p, const struct device_desc *d,
                         struct tile_wgmma *t) {
    const struct tile_wgmma_operand *rows = t->swap ? &p->b : &p->a;
    int block = 8 * LINE / rows->bits;
    int line = t->regs ? rows->leaves * rows->leaf_bits * block / 8 : LINE;
    int stage = (t->swap ? p->n_b : 1) * t->rows * line + (t->swap ? 1 : p->n_b) * t->cols * LINE;
    int other = (t->swap ? t->consumers * 32 * 68 * 4 : 0) + 1024;
    int64_t room = d->gpu.shared_block - other;
    t->stages = (int)(room / (stage + 16));
    if (t->stages > MOST_STAGES) t->stages = MOST_STAGES;
    return t->stages < 3 ? 0 : t->stages * (stage + 16) + other;
}

static void choose_registers(struct tile_wgmma *t) {
    bool makes = t->a_feed == TILE_FEED_VALUE || t->b_feed == TILE_FEED_VALUE;
    bool copies = t->a_feed == TILE_FEED_COPY || t->b_feed == TILE_FEED_COPY;
    /* One thread that asks for boxes needs few. */
    t->producer_regs = makes && !t->regs ? 136 : makes || copies ? 88 : 24;
    t->consumer_regs = (ALL_REGISTERS / 128 - t->producer_regs) / t->consumers / 8 * 8;
}

/* Registers of a consumer's thread: sums, fragments of two blocks, addresses. */
static bool registers_fit(const struct tile_wgmma_problem *p, const struct tile_wgmma *t) {
    int mi = t->rows / 64 / (t->turns ? 1 : t->consumers), sums = mi * p->n_b * t->cols / 2;
    int parts = p->a.bits == 8 && !p->whole_numbers ? t->cols / 2 : 0; /* fp8: sums of 128 */
    int fragments = t->regs ? 32 * mi * (t->swap ? p->n_b : 1) : 0;
    return sums + parts + fragments + 40 <= t->consumer_regs;
}

/* Seconds of one tile on one SM, all others busy. */
static double tile_seconds(const struct tile_wgmma_problem *p, const struct tile_wgmma *t,
                           const struct device_desc *d) {
    const struct device_gpu *u = &d->gpu;
    const struct tile_wgmma_operand *rows = t->swap ? &p->b : &p->a;
    double k = (double)p->K, sms = u->sms, n_b = p->n_b;
    double rate = p->a.bits == 8    ? (p->whole_numbers ? u->tensor_i8 : u->tensor_f8)
                  : p->a.bits == 32 ? u->tensor_tf32
                                    : u->tensor_f16;
    double results = (double)t->rows * t->cols * n_b;
    double math = 2 * results * k / (0.76 * rate);
    double bytes = ((t->swap ? n_b : 1) * t->rows * (t->regs ? rows->leaf_bits : rows->bits) +
                    (t->swap ? 1 : n_b) * t->cols * (double)p->a.bits / t->cluster) *
                   k / 8;
    /* Boxes of tiles that run side by side come at more than what single loads reach. */
    double traffic = bytes / (1.6 * u->l2_bandwidth / sms);
    /* Arithmetic of one operation a clock and lane, 128 lanes. */
    double clock = u->hz * 128;
    double make = 0; /* a narrow leaf is more loads and permutations */
    if (t->regs)
        make = (t->swap ? n_b : 1) * t->rows * k *
               (rows->ops + (rows->leaf_bits < rows->bits ? 2 : 0)) / clock;
    double write = 0; /* by 4 warps, which wait for what they load */
    if (t->a_feed == TILE_FEED_VALUE)
        write += (t->swap ? t->cols : t->rows) * k * (p->a.ops + 12) / (clock / 4);
    if (t->b_feed == TILE_FEED_VALUE)
        write += (t->swap ? t->rows : t->cols) * n_b * k * (p->b.ops + 12) / (clock / 4);
    double end = results * (p->c_ops + (t->swap ? 14 : 10)) / clock + 1e-6;
    double loop = math > traffic ? math : traffic;
    loop = loop > write ? loop : write;
    /* Conversion is issued between products and takes a part of its own time from them. */
    loop += 0.25 * make;
    /* Two tiles in turns read more; an H200 is as fast with them as without at K = 4096 and a short
     * end, and 4 % slower at twice that. */
    if (t->turns) loop *= 1.04;
    return t->turns ? (loop > end ? loop : end) : loop + end;
}

static void model(const struct tile_wgmma_problem *p, const struct device_desc *d,
                  struct tile_wgmma *t) {
    t->tiles = -1;
    t->seconds = -1;
    if (p->Z < 0 || p->M < 0 || p->N < 0 || p->K < 0) return;
    int64_t down = ceil_div(t->swap ? p->N : p->M, (int64_t)t->rows * t->cluster);
    int64_t across = ceil_div(t->swap ? p->M : p->N, t->cols);
    int64_t clusters = d->gpu.sms / t->cluster, at_once = t->turns ? 2 * clusters : clusters;
    int64_t all = down * across * p->Z;
    t->tiles = all * t->cluster;
    /* Two tiles that take turns share the tensor cores; one alone has them to itself. */
    double each = tile_seconds(p, t, d);
    double rounds = (double)ceil_div(all, at_once);
    if (t->turns) rounds = rounds * 2 - (all % at_once != 0 && all % at_once <= clusters ? 1 : 0);
    t->seconds = rounds * each + 4e-6;
    double z = (double)p->Z, m = (double)p->M, n = (double)p->N, k = (double)p->K;
    double bytes =
        z * (m * k * p->a.leaf_bits + n * k * p->n_b * p->b.leaf_bits) / 8 + z * m * n * 2;
    double memory = bytes / (0.9 * d->gpu.bandwidth);
    if (t->seconds < memory) t->seconds = memory;
}

/* Into a list of n that is sorted by time; of equals the earlier stays ahead. */
static void insert(struct tile_wgmma *list, int n, const struct tile_wgmma *t) {
    int at = n;
    for (; at > 0 && t->seconds < list[at - 1].seconds; at--)
        list[at] = list[at - 1];
    list[at] = *t;
}

struct tile_wgmma tile_cuda_wgmma(const struct tile_wgmma_problem *p, const struct device_desc *d) {
    struct tile_wgmma best = {.fits = false, .seconds = -1}, base = {.consumers = 2};
    struct tile_wgmma list[sizeof shapes / sizeof *shapes];
    int n = 0;
    if (d->gpu.cc / 10 != 9 || !d->gpu.specific) return best;
    if (p->n_b < 1 || p->n_b > 2 || p->a.bits != p->b.bits) return best;
    /* Only 16-bit elements may lie across k. */
    if (p->a.bits != 16 && !(p->a.along && p->b.along)) return best;
    choose_feeds(p, &base);
    struct tile_wgmma_problem q = *p; /* sizes that are not known: large ones */
    if (q.Z < 0) q.Z = 1;
    if (q.M < 0) q.M = 4096;
    if (q.N < 0) q.N = 4096;
    if (q.K < 0) q.K = 4096;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct tile_wgmma t = base;
        t.rows = shapes[i].rows, t.cols = shapes[i].cols, t.turns = shapes[i].turns;
        /* Two sets of sums, for fp8, leave no room for more; others have better. */
        if (t.cols == 192 && (p->a.bits != 8 || p->whole_numbers)) continue;
        /* Alone, a consumer does not keep the tensor cores busy while it converts. */
        bool copies = t.a_feed == TILE_FEED_COPY || t.b_feed == TILE_FEED_COPY;
        if (t.turns && (t.regs || copies)) continue;
        /* Tiles of fp8 are bound by what they read: small ones are not worth a hidden end. */
        if (t.turns && p->a.bits == 8) continue;
        /* The copy engine takes longer over boxes in another order: only where the tensor cores wait
         * for more than it. */
        t.spread = t.regs && !t.swap && t.b_feed == TILE_FEED_TMA && p->b.spread;
        t.cluster = 1; /* boxes that blocks share gain nothing: the L2 cache keeps up */
        t.raster = t.rows > 128 ? 8 : 16; /* tiles side by side are about a square */
        t.threads = 128 * (1 + t.consumers);
        t.shared = choose_stages(p, d, &t);
        choose_registers(&t);
        if (t.shared == 0 || !registers_fit(p, &t)) continue;
        model(&q, d, &t);
        t.fits = true;
        insert(list, n++, &t);
    }
    if (n > 0) best = list[p->passed < 0 ? 0 : p->passed < n ? p->passed : n - 1];
    best.choices = n;
    best.a_lanes = best.b_lanes = LINE / p->a.bits;
    best.pack_lanes = 32 / p->a.bits;
    if (p->Z < 0 || p->M < 0 || p->N < 0 || p->K < 0) best.seconds = -1, best.tiles = -1;
    return best;
}
