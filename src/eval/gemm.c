/* SPDX-License-Identifier: MIT
 * In: two matrices as views with intervals. Out: their product in f64, rounded, with intervals.
 *
 * A tile of the result is several products of matrices of doubles decoded on the fly: the values;
 * the magnitudes (for the bound of summation in f32); and, if an operand is not exact, midpoints
 * and radii (midpoint-radius arithmetic: S. M. Rump, "Fast and parallel interval arithmetic", BIT
 * 39, 1999). B is packed in blocks of KB x NB; the innermost loop has a constant length. An
 * element's sum runs over k in one order, whatever the tiling or the number of threads.
 */
#include "eval/gemm.h"

#define NB 128
#define KB 256
#define MB 128

enum part { PART_VALUE, PART_MID, PART_ABS_MID, PART_RAD, PART_MAG, PART_SUP, PART_COUNT };
enum { SUM_VALUE, SUM_MAG, SUM_MID, SUM_RAD, SUM_COUNT };

struct pass {
    enum part a, b;
    int sum;
};

struct gemm_slot {
    double b[PART_COUNT][KB * NB]; /* a block of b, a part each */
    double a[PART_COUNT][KB];      /* of one row of a */
    double lo[KB], hi[KB];
    double sum[SUM_COUNT][MB * NB];
    double grid_a[MB], grid_b[NB];     /* common grid of a row, of a column; 0: not exact */
    bool nan_a[MB], nan_b[NB];         /* has a row, a column an element that is certainly NaN? */
    int64_t int_a[MB], int_b[MB * NB]; /* for integers beyond 8 bits */
    uint64_t int_sum[MB * NB];
};

struct gemm_engine {
    struct ev *ev;
    bool is_int;   /* integer operands: no rounding, wrapping */
    bool wide_int; /* products do not fit a double: int64 arithmetic */
    bool track, mag;
    bool loose; /* an operand is not exact: midpoints and radii are needed */
    enum dtype wide;
    int n_passes;
    struct pass pass[5];
    struct gemm_slot *slots;
    const struct gemm *g; /* the running problem */
    int64_t m, n, k;
    bool need_a[PART_COUNT], need_b[PART_COUNT];
};

/* ---- decoding -------------------------------------------------------------------------------- */

/* One element's midpoint and radius; what is unbounded has an infinite radius. */
static void mid_rad(double lo, double hi, double *mid, double *rad) {
    if (lo == hi || isnan(lo)) {
        *mid = lo;
        *rad = 0;
    } else if (isinf(lo) || isinf(hi)) {
        *mid = 0;
        *rad = INF;
    } else {
        *mid = lo + (hi - lo) * 0.5;
        *rad = fmax(hi - *mid, *mid - lo);
    }
}

/* Decode n elements into the parts that are needed; lower `grid[i * step]` to what element i needs,
 * and set `nan[i * step]` if it is NaN. */
static void read_parts(const struct gemm_engine *e, const struct tensor *t, int64_t start,
                       int64_t n, const bool *need, struct gemm_slot *s, double *const *part,
                       double *grid, bool *nan, int step) {
    read_doubles(t, start, n, -1, part[PART_VALUE]);
    if (!e->track) return;
    if (need[PART_MAG]) {
        read_doubles(t, start, n, CH_MAG, part[PART_MAG]);
        for (int64_t i = 0; i < n; i++) /* infinities are the midpoint's business */
            part[PART_MAG][i] = isinf(part[PART_MAG][i]) ? 0 : part[PART_MAG][i];
    }
    const double *lo = part[PART_VALUE], *hi = lo;
    if (!tensor_exact(t)) {
        read_doubles(t, start, n, CH_LO, s->lo);
        read_doubles(t, start, n, CH_HI, s->hi);
        lo = s->lo;
        hi = s->hi;
    }
    for (int64_t i = 0; i < n; i++) {
        double g = lo[i] == hi[i] ? grid_of(lo[i]) : 0;
        if (g < grid[i * step]) grid[i * step] = g;
        if (isnan(lo[i])) nan[i * step] = true;
    }
    if (!e->loose) return;
    for (int64_t i = 0; i < n; i++) {
        double mid, rad;
        mid_rad(lo[i], hi[i], &mid, &rad);
        part[PART_MID][i] = mid;
        part[PART_ABS_MID][i] = fabs(mid);
        part[PART_RAD][i] = rad;
        part[PART_SUP][i] = fabs(mid) + rad;
    }
}

/* ---- the inner loops ------------------------------------------------------------------------- */

static void add_rows4(double *restrict c, const double *restrict b, const double *restrict a) {
    double a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
    for (int j = 0; j < NB; j++) {
        c[j] += (a0 * b[j] + a1 * b[NB + j]) + (a2 * b[2 * NB + j] + a3 * b[3 * NB + j]);
    }
}

static void pack_b(const struct gemm_engine *e, struct gemm_slot *s, int64_t k0, int64_t kn,
                   int64_t n0, int64_t nn) {
    double *part[PART_COUNT];
    for (int64_t k = 0; k < kn; k++) {
        for (int p = 0; p < PART_COUNT; p++) {
            part[p] = s->b[p] + k * NB;
        }
        read_parts(e, &e->g->b, (k0 + k) * e->n + n0, nn, e->need_b, s, part, s->grid_b, s->nan_b,
                   1);
        for (int p = 0; p < PART_COUNT; p++) {
            for (int64_t j = nn; j < NB && e->need_b[p]; j++) {
                part[p][j] = 0;
            }
        }
    }
    int64_t padded = (kn + 3) / 4 * 4;
    for (int p = 0; p < PART_COUNT; p++) {
        memset(s->b[p] + kn * NB, 0, (size_t)((padded - kn) * NB) * sizeof(double));
    }
}

static void add_row(const struct gemm_engine *e, struct gemm_slot *s, int64_t row, int64_t i,
                    int64_t k0, int64_t kn) {
    double *part[PART_COUNT];
    for (int p = 0; p < PART_COUNT; p++) {
        part[p] = s->a[p];
        for (int64_t k = kn; k % 4 != 0; k++) {
            part[p][k] = 0;
        }
    }
    read_parts(e, &e->g->a, row * e->k + k0, kn, e->need_a, s, part, &s->grid_a[i], &s->nan_a[i],
               0);
    for (int p = 0; p < e->n_passes; p++) {
        const double *a = s->a[e->pass[p].a], *b = s->b[e->pass[p].b];
        double *sum = s->sum[e->pass[p].sum] + i * NB;
        for (int64_t k = 0; k < kn; k += 4) {
            add_rows4(sum, b + k * NB, a + k);
        }
    }
}

static void float_tile(const struct gemm_engine *e, struct gemm_slot *s, int64_t m0, int64_t mn,
                       int64_t n0, int64_t nn) {
    for (int i = 0; i < MB; i++) {
        s->grid_a[i] = INF;
        s->nan_a[i] = false;
    }
    for (int j = 0; j < NB; j++) {
        s->grid_b[j] = INF;
        s->nan_b[j] = false;
    }
    for (int64_t k0 = 0; k0 < e->k; k0 += KB) {
        int64_t kn = e->k - k0 < KB ? e->k - k0 : KB;
        pack_b(e, s, k0, kn, n0, nn);
        for (int64_t i = 0; i < mn; i++) {
            add_row(e, s, m0 + i, i, k0, kn);
        }
    }
}

static void int_tile(const struct gemm_engine *e, struct gemm_slot *s, int64_t m0, int64_t mn,
                     int64_t n0, int64_t nn) {
    int64_t *a = s->int_a, *b = s->int_b;
    uint64_t *c = s->int_sum;
    memset(c, 0, sizeof s->int_sum);
    for (int64_t k0 = 0; k0 < e->k; k0 += MB) {
        int64_t kn = e->k - k0 < MB ? e->k - k0 : MB;
        for (int64_t k = 0; k < kn; k++) {
            read_ints(&e->g->b, (k0 + k) * e->n + n0, nn, b + k * NB);
        }
        for (int64_t i = 0; i < mn; i++) {
            read_ints(&e->g->a, (m0 + i) * e->k + k0, kn, a);
            for (int64_t k = 0; k < kn; k++) {
                for (int64_t j = 0; j < nn; j++) {
                    c[i * NB + j] += (uint64_t)a[k] * (uint64_t)b[k * NB + j];
                }
            }
        }
    }
}

/* ---- results --------------------------------------------------------------------------------- */

static double most_of(enum dtype wide) {
    return wide == DT_F32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
}

void special_add(struct special *s, struct iv term) {
    if (iv_is_nan(term))
        s->nan = true;
    else if (term.lo == term.hi && term.lo > 0)
        s->up = true;
    else if (term.lo == term.hi)
        s->down = true;
    else
        s->open = true;
}

struct iv special_range(const struct special *s, enum dtype wide, double abs) {
    if (s->nan || (s->up && s->down)) return (struct iv){QNAN, QNAN};
    if (s->open || !(abs < most_of(wide))) return iv_any();
    return iv_point(s->up ? INF : -INF);
}

struct iv dot_range(enum dtype wide, double mid, double rad, double abs, double n, double grid) {
    if (isnan(mid) || isnan(abs))
        return isnan(mid) && rad == 0 ? (struct iv){QNAN, QNAN} : iv_any();
    /* finite terms that overflow may meet an infinity of the other sign */
    bool overflows = abs >= most_of(wide);
    if (isinf(mid) && rad == 0) return overflows ? iv_any() : iv_point(mid);
    if (!isfinite(mid) || !isfinite(rad) || !isfinite(abs)) return iv_any();
    if (wide == DT_F32 && grid >= 0x1p-149 && abs <= 0x1p24 * grid && rad == 0)
        return iv_point(mid);
    if (n == 0) return iv_point(mid);
    double u = unit_of(wide);
    double err = gamma_bound(n + 6, u) * abs + gamma_bound(2 * n + 8, 0x1p-53) * (abs + rad);
    err += n * (wide == DT_F64 ? 0x1p-1074 : 0x1p-149) + rad;
    if (overflows) return iv_any();
    return (struct iv){mid - err, mid + err};
}

static void store_int(const struct gemm_engine *e, int64_t at, int64_t value, double mid,
                      double rad) {
    struct tensor *out = e->g->out;
    bool small = !e->wide_int;
    if (small) value = elem_cast(DT_I64, (union scalar){.i = value}, DT_I32, false).i;
    union scalar v =
        elem_cast(small ? DT_I32 : DT_I64, (union scalar){.i = value}, out->dtype, false);
    elem_store(out->dtype, out->store->data, at, v);
    if (!e->track) return;
    struct iv r = iv_point(dtype_is_float(out->dtype) ? v.f : (double)v.i);
    if (rad > 0 || isnan(rad)) {
        r = iv_grow((struct iv){mid - rad, mid + rad}, 0x1p-40, 0);
        r = iv_cast(DT_I64, small ? DT_I32 : DT_I64, false, false, e->ev->mode, r);
        r = iv_cast(small ? DT_I32 : DT_I64, out->dtype, false, false, e->ev->mode, r);
    }
    out->store->ch[CH_LO][at] = r.lo;
    out->store->ch[CH_HI][at] = r.hi;
    if (e->mag) out->store->ch[CH_MAG][at] = iv_mag(r);
}

/* Value, interval and magnitude of element i of an operand's row or column. */
static struct iv read_one(const struct tensor *t, int64_t i, double *value, double *mag) {
    struct iv r;
    read_doubles(t, i, 1, -1, value);
    read_doubles(t, i, 1, CH_LO, &r.lo);
    read_doubles(t, i, 1, CH_HI, &r.hi);
    read_doubles(t, i, 1, CH_MAG, mag);
    if (isinf(*mag)) *mag = 0;
    return r;
}

/* An element whose sums are not finite, term by term: which of them are certainly infinite or NaN,
 * and may the others overflow? */
static struct iv special_sum(const struct gemm_engine *e, int64_t row, int64_t col) {
    struct special found = {0};
    double value, abs = 0;
    bool any = false;
    for (int64_t k = 0; k < e->k; k++) {
        double a_mag, b_mag;
        struct iv x = read_one(&e->g->a, row * e->k + k, &value, &a_mag);
        struct iv y = read_one(&e->g->b, k * e->n + col, &value, &b_mag);
        if (e->g->hides && x.lo == 0 && x.hi == 0) continue;
        struct iv p = iv_mul(x, y);
        if (isfinite(p.lo) && isfinite(p.hi)) {
            abs += a_mag * b_mag;
            continue;
        }
        any = true;
        special_add(&found, e->g->hides && iv_has(x, 0) ? iv_any() : p);
    }
    return any ? special_range(&found, e->wide, abs) : iv_any();
}

/* The interval of an element of the product, before a bias. */
static struct iv element_range(const struct gemm_engine *e, const struct gemm_slot *s, int64_t i,
                               int64_t row, int64_t col) {
    double value = s->sum[SUM_VALUE][i], mag = s->sum[SUM_MAG][i];
    double mid = e->loose ? s->sum[SUM_MID][i] : value, rad = e->loose ? s->sum[SUM_RAD][i] : 0;
    /* A plan that applies a scale to the finished sum adds up unscaled terms: they may overflow,
     * and an infinite scale meets no 0. */
    bool moved = e->ev->mode != EVAL_EAGER && e->g->moves;
    bool finite = isfinite(value) && isfinite(mid) && isfinite(rad);
    if (moved && (e->g->opens || !finite)) return iv_any();
    if (!e->g->hides && (s->nan_a[i / NB] || s->nan_b[i % NB])) return (struct iv){QNAN, QNAN};
    if (e->loose && !(isfinite(mid) && isfinite(rad))) return special_sum(e, row, col);
    double grid = s->grid_a[i / NB] * s->grid_b[i % NB];
    if (isnan(grid)) grid = 0; /* 0 * inf: one side is not exact, the other all zeros */
    return dot_range(e->wide, mid, rad, mag, (double)e->k, grid);
}

static void store_float(const struct gemm_engine *e, const struct gemm_slot *s, int64_t i,
                        int64_t row, int64_t col) {
    struct tensor *out = e->g->out;
    int64_t at = e->g->at + row * e->n + col;
    bool has_bias = e->g->bias.store != NULL;
    double bias = 0, value = s->sum[SUM_VALUE][i];
    if (has_bias) read_doubles(&e->g->bias, col, 1, -1, &bias);
    bool is_float = dtype_is_float(out->dtype);
    union scalar v = {.f = value + bias};
    v.f = round_to(is_float ? out->dtype : e->wide, v.f);
    if (!is_float) v = elem_cast(e->wide, v, out->dtype, false);
    elem_store(out->dtype, out->store->data, at, v);
    if (!e->track) return;
    struct iv r = element_range(e, s, i, row, col);
    if (has_bias) {
        struct iv b;
        read_doubles(&e->g->bias, col, 1, CH_LO, &b.lo);
        read_doubles(&e->g->bias, col, 1, CH_HI, &b.hi);
        r = iv_widen(e->wide, 0, iv_add(r, b));
    }
    r = is_float ? iv_result(out->dtype, e->ev->mode, r)
                 : iv_cast(e->wide, out->dtype, false, false, e->ev->mode, r);
    out->store->ch[CH_LO][at] = r.lo;
    out->store->ch[CH_HI][at] = r.hi;
    if (e->mag) out->store->ch[CH_MAG][at] = fmax(s->sum[SUM_MAG][i] + fabs(bias), iv_mag(r));
}

/* The sums of one element again, if one is not finite, without the terms that a 0 of a hides. What
 * may be 0 and need not be has a radius, and that times what is not finite leaves the sum open. */
static void show(const struct gemm_engine *e, struct gemm_slot *s, int64_t c, int64_t row,
                 int64_t col) {
    double sum[SUM_COUNT] = {0};
    bool finite = true;
    for (int p = 0; p < e->n_passes; p++)
        finite = finite && isfinite(s->sum[e->pass[p].sum][c]);
    if (finite) return;
    for (int64_t k = 0; k < e->k; k++) {
        double a, b, a_mag, b_mag, ma, ra, mb, rb;
        struct iv x = read_one(&e->g->a, row * e->k + k, &a, &a_mag);
        struct iv y = read_one(&e->g->b, k * e->n + col, &b, &b_mag);
        if (a != 0) sum[SUM_VALUE] += a * b;
        if (x.lo == 0 && x.hi == 0) continue;
        mid_rad(x.lo, x.hi, &ma, &ra);
        mid_rad(y.lo, y.hi, &mb, &rb);
        sum[SUM_MAG] += a_mag * b_mag;
        sum[SUM_MID] += ma * mb;
        sum[SUM_RAD] += fabs(ma) * rb + ra * (fabs(mb) + rb);
    }
    for (int i = 0; i < SUM_COUNT; i++)
        s->sum[i][c] = sum[i];
}

static void finish_tile(const struct gemm_engine *e, struct gemm_slot *s, int64_t m0, int64_t mn,
                        int64_t n0, int64_t nn) {
    for (int64_t i = 0; i < mn; i++) {
        for (int64_t j = 0; j < nn; j++) {
            int64_t c = i * NB + j;
            if (e->g->hides && !e->is_int) show(e, s, c, m0 + i, n0 + j);
            if (!e->is_int) {
                store_float(e, s, c, m0 + i, n0 + j);
                continue;
            }
            int64_t value = e->wide_int ? (int64_t)s->int_sum[c] : (int64_t)s->sum[SUM_VALUE][c];
            double mid = e->loose ? s->sum[SUM_MID][c] : 0, rad = e->loose ? s->sum[SUM_RAD][c] : 0;
            store_int(e, e->g->at + (m0 + i) * e->n + n0 + j, value, mid, rad);
        }
    }
}

static void tiles(void *user, int64_t begin, int64_t end, int slot) {
    const struct gemm_engine *e = user;
    struct gemm_slot *s = &e->slots[slot];
    int64_t across = (e->n - 1) / NB + 1;
    for (int64_t t = begin; t < end; t++) {
        int64_t m0 = t / across * MB, n0 = t % across * NB;
        int64_t mn = e->m - m0 < MB ? e->m - m0 : MB, nn = e->n - n0 < NB ? e->n - n0 : NB;
        for (int c = 0; c < SUM_COUNT; c++) {
            memset(s->sum[c], 0, (size_t)(mn * NB) * sizeof(double));
        }
        if (e->n_passes > 0) float_tile(e, s, m0, mn, n0, nn);
        if (e->wide_int) int_tile(e, s, m0, mn, n0, nn);
        finish_tile(e, s, m0, mn, n0, nn);
    }
}

/* ---- the engine ------------------------------------------------------------------------------ */

static void add_pass(struct gemm_engine *e, enum part a, enum part b, int sum) {
    e->pass[e->n_passes++] = (struct pass){a, b, sum};
    e->need_a[a] = true;
    e->need_b[b] = true;
}

enum proem_status gemm_prepare(struct ev *ev, const struct tensor *a, const struct tensor *b,
                               const struct tensor *bias, struct tensor *out,
                               struct gemm_engine **engine) {
    struct gemm_engine *e = ARENA_NEW(&ev->scratch, struct gemm_engine, 1);
    if (e == NULL) return err_nomem(ev->err);
    e->ev = ev;
    bool a_exact = tensor_exact(a), b_exact = tensor_exact(b);
    bool inexact = !a_exact || !b_exact || (bias != NULL && !tensor_exact(bias));
    e->is_int = !dtype_is_float(a->dtype) && !dtype_is_float(b->dtype);
    e->wide_int = e->is_int && (dtype_bits(a->dtype) > 8 || dtype_bits(b->dtype) > 8);
    e->wide = a->dtype == DT_F64 || b->dtype == DT_F64 || out->dtype == DT_F64 ? DT_F64 : DT_F32;
    if (a->dtype != DT_F64 && b->dtype != DT_F64) e->wide = DT_F32;
    e->loose = ev->track && (!a_exact || !b_exact);
    TRY(tensor_intervals(ev, out, ev->track && (inexact || !e->is_int || ev->out_mag)));
    e->track = out->store->ch[CH_LO] != NULL;
    e->mag = out->store->ch[CH_MAG] != NULL;
    if (!e->wide_int) add_pass(e, PART_VALUE, PART_VALUE, SUM_VALUE);
    if (e->track && !e->is_int) add_pass(e, PART_MAG, PART_MAG, SUM_MAG);
    if (e->track && e->loose) {
        add_pass(e, PART_MID, PART_MID, SUM_MID);
        if (!b_exact) add_pass(e, PART_ABS_MID, PART_RAD, SUM_RAD);
        if (!a_exact) add_pass(e, PART_RAD, PART_SUP, SUM_RAD);
    }
    e->slots = ARENA_NEW(&ev->scratch, struct gemm_slot, (size_t)ev->threads);
    if (e->slots == NULL) return err_nomem(ev->err);
    *engine = e;
    return PROEM_OK;
}

enum proem_status gemm_run(struct gemm_engine *e, const struct gemm *g) {
    e->g = g;
    e->m = g->a.shape[0];
    e->k = g->a.shape[1];
    e->n = g->b.shape[1];
    if (e->m == 0 || e->n == 0) return PROEM_OK;
    int64_t count = ((e->m - 1) / MB + 1) * ((e->n - 1) / NB + 1);
    /* results below a byte share bytes: one thread */
    parallel_ranges(e->ev, count, dtype_is_subbyte(g->out->dtype) ? count : 1, tiles, e);
    return PROEM_OK;
}
