/* SPDX-License-Identifier: MIT
 * The cost of a product with prologues on a GPU.
 *
 * In: sizes, dtypes, and for each operand its work an element and how its leaves lie. Out: seconds,
 * from the time that `tile` models for the product of operands that lie in memory, and from how
 * often the tiling evaluates the others: A for each column of tiles, B for each row of tiles, once
 * where the template for few rows stages them. How much of that hides depends on who evaluates:
 *   - in registers, between products (leaves that are fetched ahead): the loop takes the longer of
 *     products and work, and a fifth of the work besides, which are issue slots that products lack;
 *   - a value at a time by the warps that fill shared memory: a quarter of the SM's issue slots, and
 *     a constant for loads that nobody hides;
 *   - without tensor cores: work adds up with the products.
 * The constants are measured on an H200: relu 1.02 to 1.09, int8 and fp8 weights 1.02 and 4 bits 1.10
 * of the plain product by registers, silu 4.5; a factor for each row 3.4 and silu(g) * u 12.7 by values.
 */
#include "fuse/cost.h"

#include "tile/tile_cuda_rows.h"

/* Issue slots, in lanes, and results of the special unit a clock. */
enum { LANES = 128, SPECIAL_LANES = 16 };

/* Slots that a fn takes when it is evaluated in dependent steps by few warps, of one that fills the
 * SM; of them what products cannot hide; loads and stores of a value; part of the warps that make
 * values. */
#define CHAIN       4.0
#define TAKEN       0.2
#define VALUE_SLOTS 12.0
#define MAKERS      4.0
/* A launch of the template for few rows that stages A. */
#define STAGE_SECONDS 2e-6

struct cost_work cost_op(enum op op) {
    if (!op_is_elementwise(op)) return (struct cost_work){1, 0};
    return (struct cost_work){op_info(op)->slots, op_info(op)->special};
}

struct cost_work cost_cast(enum dtype from, enum dtype to) {
    double slots = dtype_bits(from) < 8 || dtype_bits(to) < 8     ? 3
                   : dtype_bits(from) < 16 || dtype_bits(to) < 16 ? 2
                                                                  : 1;
    return (struct cost_work){from == to ? 0 : slots, 0};
}

double cost_bandwidth(double bytes, const struct device_desc *d) {
    return bytes * 2 <= (double)d->gpu.l2 ? d->gpu.l2_bandwidth : 0.9 * d->gpu.bandwidth;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

double cost_map(double count, struct cost_work w, double bytes_read, double bytes_written,
                const struct device_desc *d) {
    double clocks = d->gpu.hz * d->gpu.sms;
    double work = count * larger(2 * w.plain / LANES, w.special / SPECIAL_LANES) / clocks;
    double traffic =
        bytes_read / (0.9 * d->gpu.bandwidth) + bytes_written / cost_bandwidth(bytes_written, d);
    return larger(work, traffic);
}

/* ---- many rows, tensor cores ----------------------------------------------------------------- */

static struct tile_wgmma_operand fed(const struct cost_operand *o, enum dtype d) {
    return (struct tile_wgmma_operand){.bits = dtype_bits(d),
                                       .along = o->along,
                                       .plain = o->plain,
                                       .leaves = o->leaves,
                                       .leaf_bits = o->leaf_bits,
                                       .leaf1_same = o->leaves == 2 && o->same && o->map,
                                       .map = o->map && o->leaves > 0 &&
                                              (o->along || dtype_bits(d) == 16),
                                       .lines = o->lines,
                                       .ops = o->work.plain + 8 * o->work.special};
}

/* The same operand if it lay in memory. */
static struct tile_wgmma_operand stored(struct tile_wgmma_operand o) {
    if (o.plain) return o;
    o.plain = o.map = true;
    o.leaves = 1;
    o.leaf_bits = o.bits;
    o.ops = 0;
    return o;
}

/* Seconds that evaluating takes of one SM: *loop must pass beside the products, *more adds up. */
static void feed_cost(const struct cost_operand *o, double elements, bool by_value,
                      const struct device_desc *d, double *loop, double *more) {
    if (o->plain) return;
    double slots = elements / (d->gpu.hz * LANES);
    double special = o->work.special * elements / (d->gpu.hz * SPECIAL_LANES);
    if (by_value) {
        *loop += slots * MAKERS * (o->work.plain + VALUE_SLOTS) + special;
    } else {
        *loop += slots * CHAIN * o->work.plain + special;
        *more += slots * TAKEN * o->work.plain;
    }
}

static struct tile_wgmma_problem many_rows(const struct cost_product *p) {
    const struct tile_problem *q = &p->tile;
    return (struct tile_wgmma_problem){.Z = q->Z,
                                       .M = q->M,
                                       .N = q->N,
                                       .K = q->K,
                                       .n_b = q->n_b,
                                       .whole_numbers = q->acc == DT_I32,
                                       .a = fed(&p->a, q->operand[0]),
                                       .b = fed(&p->b, q->operand[1]),
                                       .c_ops = p->c_ops};
}

static double wgmma_seconds(const struct cost_product *p, const struct device_desc *d) {
    const struct tile_problem *q = &p->tile;
    struct tile_wgmma_problem w = many_rows(p);
    struct tile_wgmma t = tile_cuda_wgmma(&w, d);
    if (!t.fits) return -1;
    w.a = stored(w.a);
    w.b = stored(w.b);
    struct tile_wgmma plain = tile_cuda_wgmma(&w, d);
    if (!plain.fits) return -1;
    int64_t turns = (t.tiles + d->gpu.sms - 1) / d->gpu.sms;
    double each = (double)turns * (double)q->K;
    double loop = 0, more = 0;
    feed_cost(&p->a, each * (t.swap ? t.cols : t.rows), t.a_feed == TILE_FEED_VALUE, d, &loop,
              &more);
    feed_cost(&p->b, each * (t.swap ? t.rows : t.cols) * q->n_b, t.b_feed == TILE_FEED_VALUE, d,
              &loop, &more);
    /* Only consumers that take turns, each with a tile of its own, hide their ends. */
    if (plain.turns && !t.turns)
        more += (double)turns * t.rows * t.cols * q->n_b * p->c_ops / (d->gpu.hz * LANES);
    return larger(plain.seconds, loop) + more;
}

/* ---- few rows -------------------------------------------------------------------------------- */

/* bf16; f16 and what is made f16; -1: none of the template's. */
static int few_kind(enum dtype d) {
    return d == DT_BF16 ? 0 : d == DT_F16 || d == DT_F8E4M3FN || d == DT_F8E5M2 ? 1 : -1;
}

static bool takes_few(const struct cost_product *p, const struct device_desc *d) {
    const struct tile_problem *q = &p->tile;
    int kind = few_kind(q->operand[0]);
    bool can = !q->one_order && !q->hides && q->acc == DT_F32 && kind >= 0 &&
               kind == few_kind(q->operand[1]) && p->a.along && p->b.leaves > 0;
    struct tile_few_problem few = {.Z = q->Z,
                                   .M = q->M,
                                   .N = q->N,
                                   .K = q->K,
                                   .n_b = q->n_b,
                                   .bits = p->b.leaf_bits,
                                   .operand_bits = dtype_bits(q->operand[0])};
    struct tile_wgmma_problem many = many_rows(p);
    return can && tile_takes_few(&few, &many, d);
}

/* B is read and unpacked once for up to 64 rows; A once in all, or by every SM. */
static double few_seconds(const struct cost_product *p, const struct device_desc *d) {
    const struct tile_problem *q = &p->tile;
    double z = (double)q->Z, k = (double)q->K, clocks = d->gpu.hz * d->gpu.sms;
    double rows = z * (double)q->M * k, weights = z * (double)q->N * k * q->n_b;
    double unpack =
        weights * larger(2 * p->b.work.plain / LANES, p->b.work.special / SPECIAL_LANES) / clocks;
    double bytes = p->a.leaf_bytes + p->b.leaf_bytes;
    double seconds = larger(bytes / (0.9 * d->gpu.bandwidth), unpack) + 4e-6;
    if (p->a.plain) return seconds;
    double once = rows * (p->a.work.plain / LANES + p->a.work.special / SPECIAL_LANES) / clocks;
    double everywhere = once * d->gpu.sms;
    return seconds + (everywhere < once + STAGE_SECONDS ? everywhere : once + STAGE_SECONDS);
}

/* ---- others ---------------------------------------------------------------------------------- */

/* Every thread evaluates what it multiplies; nothing overlaps. */
static double even_seconds(const struct cost_product *p, const struct tile *t,
                           const struct device_desc *d) {
    const struct tile_problem *q = &p->tile;
    int64_t down = (q->M + t->cuda.rows - 1) / t->cuda.rows;
    int64_t across = (q->N + t->cuda.cols - 1) / t->cuda.cols;
    double tiles = (double)q->Z * (double)down * (double)across, sms = d->gpu.sms;
    double each = tiles < sms ? 1 : tiles / sms;
    double a = each * t->cuda.rows * (double)q->K, b = each * t->cuda.cols * (double)q->K * q->n_b;
    double plain = (p->a.plain ? 0 : a * p->a.work.plain) + (p->b.plain ? 0 : b * p->b.work.plain);
    double special = a * p->a.work.special + b * p->b.work.special;
    return t->seconds + (plain / LANES + special / SPECIAL_LANES) / d->gpu.hz;
}

double cost_product(const struct cost_product *p, const struct device_desc *d) {
    const struct tile_problem *q = &p->tile;
    if (d->kind != DEVICE_CUDA || q->Z < 0 || q->M < 0 || q->N < 0 || q->K < 0) return -1;
    struct tile t = tile_matmul(q, d);
    double seconds = -1;
    if (t.cuda.form == TILE_WGMMA || t.cuda.form == TILE_FEW) {
        if (takes_few(p, d)) return few_seconds(p, d);
        seconds = wgmma_seconds(p, d);
    }
    return seconds >= 0 ? seconds : even_seconds(p, &t, d);
}
