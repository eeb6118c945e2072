/* SPDX-License-Identifier: MIT
 * softmax, log_softmax, rms_norm, layer_norm: each result depends on one row.
 *
 * A row is decoded to doubles with its interval; everything inside is f64 without rounding, the
 * result is rounded once. The intervals bound the f32 evaluation: sums in any order, each function
 * by its error, the shift of softmax by any running maximum. docs/numerics.md derives the
 * constants.
 */
#include "eval/tensor.h"

struct row_slot {
    double *v, *lo, *hi, *out, *out_lo, *out_hi, *tmp;
};

struct row_job {
    struct ev *ev;
    enum op op;
    struct tensor in, to;       /* [rows.., row]: views with the axis last */
    struct tensor weight, bias; /* as [row] */
    struct tensor *out;
    int64_t row;
    double eps, u;
    enum dtype wide;
    bool track, mag;
    struct row_slot *slots;
};

/* ---- softmax --------------------------------------------------------------------------------- */

static double row_max(const double *v, int64_t n) {
    double m = -INF;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(v[i])) return v[i];
        if (v[i] > m) m = v[i];
    }
    return m;
}

void softmax_row(enum op op, int64_t n, const double *v, double *out) {
    double m = row_max(v, n), sum = 0;
    for (int64_t i = 0; i < n; i++) {
        out[i] = exp(v[i] - m);
        sum += out[i];
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = op == OP_SOFTMAX ? out[i] / sum : (v[i] - m) - log(sum);
    }
}

/* Relative error of one exponential of f32 arguments d away from the maximum. */
static double exp_error(double d, double u) {
    return isfinite(d) ? (3 * d + 6) * u : 0;
}

/* What a row's interval looks like as a whole. */
struct row_sums {
    double m;          /* the largest upper end */
    double lo, hi;     /* sums of exp(end - m) */
    double rel;        /* relative error of the sum in f32 */
    bool is_nan, open; /* some element is NaN; nothing can be said */
};

static struct row_sums sums_of_row(double u, int64_t n, const double *lo, const double *hi) {
    struct row_sums r = {.m = -INF};
    for (int64_t i = 0; i < n; i++) {
        struct iv a = {lo[i], hi[i]};
        r.is_nan = r.is_nan || iv_is_nan(a);
        r.open = r.open || iv_is_any(a) || a.hi == INF;
        if (hi[i] > r.m) r.m = hi[i];
    }
    if (r.is_nan || r.open || r.m == -INF) return r;
    double weighted = 0;
    for (int64_t i = 0; i < n; i++) {
        double e = exp(hi[i] - r.m);
        r.lo += exp(lo[i] - r.m);
        r.hi += e;
        weighted += e * exp_error(r.m - hi[i], u);
    }
    r.rel = weighted / r.hi + gamma_bound(2 * (double)n + 16, u);
    return r;
}

static struct iv softmax_one(const struct row_sums *s, enum dtype wide, double lo, double hi) {
    double u = unit_of(wide), tiny = wide == DT_F64 ? 0x1p-1022 : 0x1p-126;
    double e_lo = exp(lo - s->m), e_hi = exp(hi - s->m);
    if (hi == -INF) return iv_point(0);
    /* the others at their upper (lower) ends; the own term cancels up to f64's error */
    double least = e_lo + fmax(s->hi - e_hi, 0), most = e_hi + fmax(s->lo - e_lo, 0);
    struct iv p = {e_lo / least, most > 0 ? fmin(e_hi / most, 1) : 1};
    double rel = exp_error(s->m - lo, u) + s->rel + 4 * u;
    if (!(least > 0) || !(rel < 0.25)) {
        /* so far from the maximum that the argument's own error matters */
        double far = exp_error(s->m - hi, u) + s->rel + 4 * u;
        p.hi = far < 0.25 ? p.hi * (1 + 2 * far) : 1;
        return (struct iv){0, fmin(p.hi + tiny, 1 + s->rel)};
    }
    p = iv_grow(p, rel / (1 - rel), tiny);
    if (p.lo < 0) p.lo = 0;
    return p;
}

static struct iv log_softmax_one(const struct row_sums *s, enum dtype wide, double lo, double hi) {
    double u = unit_of(wide);
    if (hi == -INF) return iv_point(-INF);
    double e_lo = exp(lo - s->m), e_hi = exp(hi - s->m);
    double least = e_lo + fmax(s->hi - e_hi, 0), most = e_hi + fmax(s->lo - e_lo, 0);
    struct iv r = {(lo - s->m) - log(least), (hi - s->m) - log(most)};
    double d = isfinite(lo) ? s->m - lo : 0;
    double err = u * (2 * d + 8 * fabs(log(s->hi)) + 2 * fabs(s->m) + 2) + 2 * s->rel;
    return iv_grow(iv_fix(r.lo, r.hi), 4 * u, err);
}

void softmax_row_ranges(enum op op, enum dtype wide, int64_t n, const double *lo, const double *hi,
                        double *out_lo, double *out_hi) {
    struct row_sums s = sums_of_row(unit_of(wide), n, lo, hi);
    for (int64_t i = 0; i < n; i++) {
        struct iv r;
        if (s.is_nan || (!s.open && s.m == -INF)) {
            r = (struct iv){QNAN, QNAN};
        } else if (s.open) {
            r = iv_any();
        } else {
            r = op == OP_SOFTMAX ? softmax_one(&s, wide, lo[i], hi[i])
                                 : log_softmax_one(&s, wide, lo[i], hi[i]);
        }
        out_lo[i] = r.lo;
        out_hi[i] = r.hi;
    }
}

struct iv log_sum_exp_range(enum dtype wide, int64_t n, const double *lo, const double *hi) {
    double u = unit_of(wide);
    struct row_sums s = sums_of_row(u, n, lo, hi);
    if (s.is_nan) return (struct iv){QNAN, QNAN};
    if (s.open) return iv_any();
    if (s.m == -INF) return iv_point(-INF);
    struct iv r = {s.m + log(s.lo), s.m + log(s.hi)};
    double err = u * (8 * fabs(log(s.hi)) + 2 * fabs(s.m) + 2) + 2 * s.rel;
    return iv_grow(r, 4 * u, err);
}

/* ---- norms ----------------------------------------------------------------------------------- */

static void norm_values(const struct row_job *j, const struct row_slot *s) {
    double n = (double)j->row, mean = 0, squares = 0;
    bool layer = j->op == OP_LAYER_NORM;
    for (int64_t i = 0; i < j->row && layer; i++) {
        mean += s->v[i];
    }
    mean = layer ? mean / n : 0;
    for (int64_t i = 0; i < j->row; i++) {
        squares += (s->v[i] - mean) * (s->v[i] - mean);
    }
    double r = 1 / sqrt(squares / n + j->eps);
    for (int64_t i = 0; i < j->row; i++) {
        s->out[i] = (s->v[i] - mean) * r;
    }
    if (j->weight.store != NULL) {
        read_doubles(&j->weight, 0, j->row, -1, s->tmp);
        for (int64_t i = 0; i < j->row; i++) {
            s->out[i] *= s->tmp[i];
        }
    }
    if (j->bias.store != NULL) {
        read_doubles(&j->bias, 0, j->row, -1, s->tmp);
        for (int64_t i = 0; i < j->row; i++) {
            s->out[i] += s->tmp[i];
        }
    }
}

static struct iv row_mean(const struct row_job *j, const struct row_slot *s, double *abs_mean) {
    struct iv mean = {0, 0};
    double abs = 0, n = (double)j->row;
    for (int64_t i = 0; i < j->row; i++) {
        struct iv x = {s->lo[i], s->hi[i]};
        mean = iv_add(mean, x);
        abs += iv_mag(x);
    }
    *abs_mean = abs / n;
    mean = (struct iv){mean.lo / n, mean.hi / n};
    return iv_grow(mean, 2 * j->u, gamma_bound(n + 1, j->u) * *abs_mean);
}

/* 1/sqrt(mean of squares + eps): a sum of positive terms has only relative errors. */
static struct iv row_scale(const struct row_job *j, const struct row_slot *s, struct iv mean) {
    double lo = 0, hi = 0, n = (double)j->row;
    for (int64_t i = 0; i < j->row; i++) {
        struct iv d = iv_sub((struct iv){s->lo[i], s->hi[i]}, mean);
        double most = iv_mag(d), least = iv_has(d, 0) ? 0 : fmin(fabs(d.lo), fabs(d.hi));
        lo += least * least;
        hi += most * most;
    }
    if (!(hi < (j->wide == DT_F64 ? 0x1p1020 : 0x1p126))) return iv_any();
    double rel = gamma_bound(n + 8, j->u);
    lo = fmax(lo / n * (1 - rel), 0) + j->eps;
    hi = hi / n * (1 + rel) + n * (j->wide == DT_F64 ? 0x1p-1070 : 0x1p-148) + j->eps;
    struct iv r = {1 / sqrt(hi), lo > 0 ? 1 / sqrt(lo) : INF};
    return iv_grow(r, 6 * j->u, 0);
}

static void norm_ranges(const struct row_job *j, const struct row_slot *s, int64_t at) {
    bool layer = j->op == OP_LAYER_NORM;
    double abs_mean = 0;
    struct iv mean = layer ? row_mean(j, s, &abs_mean) : iv_point(0);
    struct iv scale = row_scale(j, s, mean);
    bool is_nan = false, has_any = iv_is_any(scale);
    for (int64_t i = 0; i < j->row; i++) {
        is_nan = is_nan || isnan(s->lo[i]);
    }
    for (int64_t i = 0; i < j->row; i++) {
        struct iv x = iv_sub((struct iv){s->lo[i], s->hi[i]}, mean);
        if (layer) x = iv_widen(j->wide, 0, x);
        struct iv w = iv_point(1), b = iv_point(0);
        if (j->weight.store != NULL) {
            read_doubles(&j->weight, i, 1, CH_LO, &w.lo);
            read_doubles(&j->weight, i, 1, CH_HI, &w.hi);
        }
        if (j->bias.store != NULL) {
            read_doubles(&j->bias, i, 1, CH_LO, &b.lo);
            read_doubles(&j->bias, i, 1, CH_HI, &b.hi);
        }
        struct iv r = has_any ? iv_any() : iv_mul(iv_mul(x, scale), w);
        r = iv_grow(r, 3 * j->u, j->wide == DT_F64 ? 0x1p-1070 : 0x1p-148);
        if (x.lo == 0 && x.hi == 0 && !has_any && isfinite(scale.hi)) r = iv_point(0);
        if (j->bias.store != NULL) r = iv_widen(j->wide, 0, iv_add(r, b));
        if (is_nan) r = (struct iv){QNAN, QNAN};
        s->out_lo[i] = r.lo;
        s->out_hi[i] = r.hi;
        if (!j->mag) continue;
        double size = fmax(fabs(s->lo[i]), fabs(s->hi[i])) + iv_mag(mean);
        double mag = size * scale.hi * iv_mag(w) + iv_mag(b);
        double *to = j->out->store->ch[CH_MAG];
        to[tensor_index(&j->to, at + i)] = has_any || isnan(mag) ? INF : fmax(mag, iv_mag(r));
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void one_row(const struct row_job *j, const struct row_slot *s, int64_t at) {
    bool softmax = j->op == OP_SOFTMAX || j->op == OP_LOG_SOFTMAX;
    read_doubles(&j->in, at, j->row, -1, s->v);
    if (softmax) {
        softmax_row(j->op, j->row, s->v, s->out);
    } else {
        norm_values(j, s);
    }
    enum dtype d = j->out->dtype;
    for (int64_t i = 0; i < j->row; i++) {
        double rounded = round_to(d, s->out[i]);
        elem_store(d, j->out->store->data, tensor_index(&j->to, at + i),
                   (union scalar){.f = rounded});
    }
    if (!j->track) return;
    read_doubles(&j->in, at, j->row, CH_LO, s->lo);
    read_doubles(&j->in, at, j->row, CH_HI, s->hi);
    if (softmax) {
        softmax_row_ranges(j->op, j->wide, j->row, s->lo, s->hi, s->out_lo, s->out_hi);
    } else {
        norm_ranges(j, s, at);
    }
    for (int64_t i = 0; i < j->row; i++) {
        int64_t to = tensor_index(&j->to, at + i);
        struct iv r = iv_result(d, j->ev->mode, (struct iv){s->out_lo[i], s->out_hi[i]});
        j->out->store->ch[CH_LO][to] = r.lo;
        j->out->store->ch[CH_HI][to] = r.hi;
        if (j->mag && softmax) j->out->store->ch[CH_MAG][to] = iv_mag(r);
    }
}

static void row_range(void *user, int64_t begin, int64_t end, int slot) {
    const struct row_job *j = user;
    for (int64_t r = begin; r < end; r++) {
        one_row(j, &j->slots[slot], r * j->row);
    }
}

static enum proem_status row_slots(struct ev *ev, struct row_job *j) {
    j->slots = ARENA_NEW(&ev->scratch, struct row_slot, (size_t)ev->threads);
    for (int t = 0; j->slots != NULL && t < ev->threads; t++) {
        struct row_slot *s = &j->slots[t];
        double **part[] = {&s->v, &s->lo, &s->hi, &s->out, &s->out_lo, &s->out_hi, &s->tmp};
        for (size_t p = 0; p < COUNT_OF(part); p++) {
            *part[p] = ARENA_NEW(&ev->scratch, double, (size_t)j->row);
        }
    }
    return arena_ok(&ev->scratch) ? PROEM_OK : err_nomem(ev->err);
}

static enum proem_status run_rows(struct ev *ev, struct row_job *j, const struct tensor *in,
                                  struct tensor *out, int axis) {
    j->ev = ev;
    j->out = out;
    j->wide = wide_of(out->dtype);
    j->u = unit_of(j->wide);
    j->row = in->rank > 0 ? in->shape[axis] : 1;
    struct tensor x = *in;
    if (in->dtype != out->dtype && !dtype_is_float(in->dtype)) {
        TRY(tensor_cast(ev, in, out->dtype, &x));
    }
    j->in = tensor_axis_last(&x, axis);
    TRY(tensor_new(ev, out));
    TRY(tensor_intervals(ev, out, true));
    j->to = tensor_axis_last(out, axis);
    j->track = ev->track;
    j->mag = out->store->ch[CH_MAG] != NULL;
    TRY(row_slots(ev, j));
    if (j->row > 0) parallel_ranges(ev, out->n / j->row, 1, row_range, j);
    tensor_drop_exact(ev, out);
    return PROEM_OK;
}

enum proem_status eval_softmax(struct ev *ev, const struct node *n, const struct tensor *in,
                               struct tensor *out) {
    struct row_job j = {.op = n->op};
    return run_rows(ev, &j, in, out, in->rank > 0 ? n->attrs.axis : 0);
}

enum proem_status eval_norm(struct ev *ev, const struct node *n, const struct tensor *in,
                            struct tensor *out) {
    struct row_job j = {.op = n->op, .eps = n->attrs.param[0]};
    int axis = in->rank > 0 ? in->rank - 1 : 0;
    int64_t row = in->rank > 0 ? in->shape[axis] : 1;
    if (n->n_in > 1 && in[1].store != NULL) j.weight = tensor_expand(&in[1], 1, &row);
    if (n->n_in > 2 && in[2].store != NULL) j.bias = tensor_expand(&in[2], 1, &row);
    return run_rows(ev, &j, in, out, axis);
}
