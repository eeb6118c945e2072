/* SPDX-License-Identifier: MIT
 * Reductions along dims, argmax and argmin, cumsum.
 *
 * The input is viewed with the reduced dims last, so that a result is a fold over one contiguous
 * row of that view. Sums are taken in f64. Their interval is the sum of the ends, widened by the
 * bound of any order of summation in f32 unless every partial sum is exact there (a common power of
 * two divides all terms, and their absolute sum is below 2^24 times it).
 */
#include "eval/tensor.h"

struct fold {
    struct ev *ev;
    enum op op;
    struct tensor in; /* [results, row] */
    struct tensor *out;
    int64_t row;
    bool track, mag;
    enum dtype result;
};

/* Running state of one result. */
struct acc {
    double sum, lo, hi, abs, grid;
    int64_t isum;
    uint64_t iprod;
    bool nan, maybe_nan;
};

static void add_floats(struct acc *a, const double *v, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        a->sum += v[i];
    }
}

/* What a term adds to the bound on partial sums. A certain infinity makes the sum one, or NaN
 * beside the other, in any order: it is the ends' business. */
static double term_mag(struct iv x) {
    return x.lo == x.hi && isinf(x.lo) ? 0 : iv_mag(x);
}

static void add_ranges(struct acc *a, const struct cells *c, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        struct iv x = {c->lo[i], c->hi[i]};
        a->lo += x.lo;
        a->hi += x.hi;
        a->abs += term_mag(x);
        double g = x.lo == x.hi ? grid_of(x.lo) : 0;
        if (g < a->grid) a->grid = g;
    }
}

static void multiply(struct acc *a, const struct cells *c, int64_t n, bool track) {
    for (int64_t i = 0; i < n; i++) {
        a->sum *= c->f[i];
        if (!track) continue;
        struct iv r = iv_mul((struct iv){a->lo, a->hi}, (struct iv){c->lo[i], c->hi[i]});
        bool exact = r.lo == r.hi && is_f32(r.lo);
        if (!exact) a->grid++; /* counts inexact steps */
        a->lo = r.lo;
        a->hi = r.hi;
    }
}

static bool better(enum op op, double x, double than) {
    return op == OP_MAX ? x > than : x < than;
}

static void extreme(struct acc *a, enum op op, const struct cells *c, int64_t n, bool track) {
    for (int64_t i = 0; i < n; i++) {
        if (isnan(c->f[i])) a->nan = true;
        if (better(op, c->f[i], a->sum)) a->sum = c->f[i];
        if (!track) continue;
        struct iv x = {c->lo[i], c->hi[i]};
        if (iv_is_any(x)) a->maybe_nan = true;
        if (better(op, x.lo, a->lo)) a->lo = x.lo;
        if (better(op, x.hi, a->hi)) a->hi = x.hi;
    }
}

/* Widen a sum in the arithmetic of the result: n terms, absolute sum, common grid. */
static struct iv sum_range(struct iv r, enum dtype d, double n, double abs, double grid) {
    enum dtype wide = wide_of(d);
    if (isnan(abs)) return iv_fix(r.lo, r.hi);
    if (wide == DT_F32 && grid >= 0x1p-149 && abs <= 0x1p24 * grid) return iv_fix(r.lo, r.hi);
    if (n <= 1) return iv_fix(r.lo, r.hi);
    r = iv_fix(r.lo, r.hi);
    double err = gamma_bound(n, unit_of(wide)) * abs + gamma_bound(n, 0x1p-53) * abs;
    r = iv_grow(r, 0, err);
    /* Partial sums can overflow f32 in one order and not in another. */
    if (wide == DT_F32 && abs >= 0x1.fffffep127) return iv_any();
    return r;
}

static void finish_floats(const struct fold *f, struct acc *a, int64_t at) {
    enum dtype d = f->result;
    double n = (double)f->row;
    double v = a->sum;
    if (f->op == OP_MEAN) v = a->sum / n;
    if (a->nan) v = QNAN;
    double rounded = round_to(d, v);
    write_doubles(f->out, at, 1, &rounded);
    if (!f->track) return;
    struct iv r = {a->lo, a->hi};
    if (f->op == OP_SUM || f->op == OP_MEAN) {
        r = sum_range(r, d, n, a->abs, a->grid);
        if (f->op == OP_MEAN) {
            r = iv_widen(wide_of(d), 0, iv_div(r, iv_point(n)));
            /* or a product with 1/n, rounded: one more error */
            if (r.lo != r.hi || r.lo * n != a->sum) r = iv_grow(r, 2 * unit_of(wide_of(d)), 0);
            a->abs /= n;
        }
    } else if (f->op == OP_PROD) {
        double steps = a->grid;
        if (steps > 0)
            r = iv_grow(iv_fix(r.lo, r.hi), gamma_bound(n, unit_of(wide_of(d))), n * 0x1p-149);
        if (iv_mag(r) > 0x1p127 && wide_of(d) == DT_F32) r = iv_any();
    } else if (a->nan) {
        r = a->maybe_nan ? iv_any() : (struct iv){QNAN, QNAN};
    } else if (a->maybe_nan) {
        r = iv_any();
    }
    bool moves = f->op == OP_MAX || f->op == OP_MIN;
    if (!moves) r = iv_result(d, f->ev->mode, r);
    f->out->store->ch[CH_LO][at] = r.lo;
    f->out->store->ch[CH_HI][at] = r.hi;
    if (f->mag) f->out->store->ch[CH_MAG][at] = moves ? iv_mag(r) : fmax(a->abs, iv_mag(r));
}

static void fold_float(const struct fold *f, int64_t at, struct cells *c) {
    struct acc a = {.grid = INF};
    if (f->op == OP_PROD) a.sum = a.lo = a.hi = 1, a.grid = 0;
    if (f->op == OP_MAX) a.sum = a.lo = a.hi = -INF;
    if (f->op == OP_MIN) a.sum = a.lo = a.hi = INF;
    for (int64_t k = 0; k < f->row; k += BLOCK) {
        int64_t n = f->row - k < BLOCK ? f->row - k : BLOCK;
        cells_read(&f->in, at * f->row + k, n, f->track, false, c);
        if (!dtype_is_float(f->in.dtype)) {
            cells_cast(c, n, f->in.dtype, DT_F64, false, true, f->ev->mode, f->track);
        }
        if (f->op == OP_SUM || f->op == OP_MEAN) {
            add_floats(&a, c->f, n);
            if (f->track) add_ranges(&a, c, n);
        } else if (f->op == OP_PROD) {
            multiply(&a, c, n, f->track);
        } else {
            extreme(&a, f->op, c, n, f->track);
        }
    }
    finish_floats(f, &a, at);
}

static bool int_better(enum op op, enum dtype d, int64_t x, int64_t than) {
    if (d == DT_U64) {
        return op == OP_MAX ? (uint64_t)x > (uint64_t)than : (uint64_t)x < (uint64_t)than;
    }
    return op == OP_MAX ? x > than : x < than;
}

/* Integers wrap. Intervals: ends are summed as doubles; what may have wrapped can be anything. */
static void int_range_of(const struct fold *f, struct acc *a, int64_t at, int64_t value) {
    struct iv r = iv_fix(a->lo, a->hi);
    if (f->op == OP_PROD && r.lo != r.hi) r = (struct iv){-0x1p63, 0x1p63};
    if (r.lo != r.hi && iv_mag(r) > 0x1p53) r = iv_grow(r, 0x1p-50, 0);
    if (r.lo == r.hi) r = iv_point((double)value);
    f->out->store->ch[CH_LO][at] = r.lo;
    f->out->store->ch[CH_HI][at] = r.hi;
    if (f->mag) f->out->store->ch[CH_MAG][at] = iv_mag(r);
}

static void fold_int(const struct fold *f, int64_t at, struct cells *c) {
    struct acc a = {.iprod = 1};
    bool ends = f->op == OP_MAX || f->op == OP_MIN;
    if (f->op == OP_MAX) a.lo = a.hi = -INF;
    if (f->op == OP_MIN) a.lo = a.hi = INF;
    int64_t best = 0;
    for (int64_t k = 0; k < f->row; k += BLOCK) {
        int64_t n = f->row - k < BLOCK ? f->row - k : BLOCK;
        cells_read(&f->in, at * f->row + k, n, f->track, false, c);
        for (int64_t i = 0; i < n; i++) {
            a.isum = (int64_t)((uint64_t)a.isum + (uint64_t)c->i[i]);
            a.iprod *= (uint64_t)c->i[i];
            if (k + i == 0 || int_better(f->op, f->in.dtype, c->i[i], best)) best = c->i[i];
            if (!f->track) continue;
            if (!ends) {
                a.lo += c->lo[i];
                a.hi += c->hi[i];
                continue;
            }
            if (better(f->op, c->lo[i], a.lo)) a.lo = c->lo[i];
            if (better(f->op, c->hi[i], a.hi)) a.hi = c->hi[i];
        }
    }
    int64_t v = ends ? best : f->op == OP_PROD ? (int64_t)a.iprod : a.isum;
    v = elem_cast(ends ? f->in.dtype : DT_I64, (union scalar){.i = v}, f->result, false).i;
    write_ints(f->out, at, 1, &v);
    if (f->track) int_range_of(f, &a, at, v);
}

struct fold_slots {
    const struct fold *f;
    struct cells *cells;
};

static void fold_range(void *user, int64_t begin, int64_t end, int slot) {
    const struct fold_slots *s = user;
    for (int64_t at = begin; at < end; at++) {
        if (dtype_is_float(s->f->result)) {
            fold_float(s->f, at, &s->cells[slot]);
        } else {
            fold_int(s->f, at, &s->cells[slot]);
        }
    }
}

/* Move the marked dims to the end: [kept.., marked..]. Sets how many elements are marked. */
static struct tensor dims_last(const struct tensor *t, const bool *marked, int64_t *row) {
    struct tensor v = *t;
    int k = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int d = 0; d < t->rank; d++) {
            if (marked[d] != (pass == 1)) continue;
            v.shape[k] = t->shape[d];
            v.stride[k++] = t->stride[d];
        }
    }
    *row = 1;
    for (int d = 0; d < t->rank; d++) {
        if (marked[d]) *row *= t->shape[d];
    }
    return v;
}

/* A row without elements: max and min have no value. */
static enum proem_status check_row(struct ev *ev, enum op op, int64_t row, int64_t results) {
    if (row > 0 || results == 0) return PROEM_OK;
    return err_set(ev->err, PROEM_DATA, "%s(%s): no elements along the reduced axes",
                   op_info(op)->name, ev->in_name[0]);
}

enum proem_status eval_reduce(struct ev *ev, const struct node *n, const struct tensor *in,
                              struct tensor *out) {
    struct fold f = {.ev = ev, .op = n->op, .out = out, .result = out->dtype};
    bool marked[MAX_RANK] = {false};
    for (int d = 0; d < in->rank && n->attrs.n_axes < 0; d++) {
        marked[d] = true;
    }
    for (int k = 0; k < n->attrs.n_axes; k++) {
        marked[n->attrs.axes[k]] = true;
    }
    f.in = dims_last(in, marked, &f.row);
    if (n->op == OP_MAX || n->op == OP_MIN) TRY(check_row(ev, n->op, f.row, out->n));
    bool is_float = dtype_is_float(out->dtype);
    bool moves = n->op == OP_MAX || n->op == OP_MIN;
    bool inexact = !tensor_exact(in) || (is_float && !moves);
    f.track = ev->track && (inexact || ev->out_mag);
    TRY(tensor_new(ev, out));
    TRY(tensor_intervals(ev, out, f.track));
    f.mag = out->store->ch[CH_MAG] != NULL;
    struct fold_slots s = {&f, ARENA_NEW(&ev->scratch, struct cells, (size_t)ev->threads)};
    if (s.cells == NULL) return err_nomem(ev->err);
    /* Whole bytes per range: sub-byte results share bytes otherwise. */
    parallel_ranges(ev, out->n, 8, fold_range, &s);
    if (f.track) tensor_drop_exact(ev, out);
    return PROEM_OK;
}

/* ---- argmax, argmin -------------------------------------------------------------------------- */

/* The first largest (smallest); a NaN wins over numbers. */
static int64_t best_index(enum op op, const double *v, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(v[i])) return i;
        if (op == OP_ARGMAX ? v[i] > v[best] : v[i] < v[best]) best = i;
    }
    return best;
}

/* The same on integers; u64 as its bits. */
static int64_t best_int_index(enum op op, enum dtype d, const int64_t *v, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        if (int_better(op == OP_ARGMAX ? OP_MAX : OP_MIN, d, v[i], v[best])) best = i;
    }
    return best;
}

/* Every element whose interval reaches the best guaranteed value may be chosen. */
static struct iv candidates(enum op op, const double *lo, const double *hi, int64_t n,
                            int64_t chosen) {
    double floor_value = -INF;
    double sign = op == OP_ARGMAX ? 1 : -1;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(lo[i])) return iv_point((double)i);
        double least = sign > 0 ? lo[i] : -hi[i];
        if (least > floor_value) floor_value = least;
    }
    struct iv r = iv_point((double)chosen);
    bool certain = lo[chosen] == hi[chosen];
    for (int64_t i = 0; i < n; i++) {
        double most = sign > 0 ? hi[i] : -lo[i];
        /* a later tie of certain values never wins */
        bool tie = certain && lo[i] == hi[i] && most <= floor_value && i > chosen;
        if (most >= floor_value && !tie) r = iv_hull(r, iv_point((double)i));
    }
    return r;
}

enum proem_status eval_arg(struct ev *ev, const struct node *n, const struct tensor *in,
                           struct tensor *out) {
    bool marked[MAX_RANK] = {false};
    for (int d = 0; d < in->rank; d++) {
        marked[d] = !n->attrs.has_axis || d == n->attrs.axis;
    }
    int64_t row;
    struct tensor v = dims_last(in, marked, &row);
    TRY(check_row(ev, n->op, row, out->n));
    TRY(tensor_new(ev, out));
    bool track = ev->track && !tensor_exact(in);
    TRY(tensor_intervals(ev, out, track));
    bool is_float = dtype_is_float(in->dtype);
    double *value = ARENA_NEW(&ev->scratch, double, (size_t)row);
    double *hi = ARENA_NEW(&ev->scratch, double, (size_t)row);
    int64_t *ints = ARENA_NEW(&ev->scratch, int64_t, (size_t)row);
    if (value == NULL || hi == NULL || ints == NULL) return err_nomem(ev->err);
    for (int64_t at = 0; at < out->n; at++) {
        int64_t best;
        if (is_float) {
            read_doubles(&v, at * row, row, -1, value);
            best = best_index(n->op, value, row);
        } else {
            read_ints(&v, at * row, row, ints);
            best = best_int_index(n->op, in->dtype, ints, row);
        }
        write_ints(out, at, 1, &best);
        if (!track) continue;
        read_doubles(&v, at * row, row, CH_LO, value);
        read_doubles(&v, at * row, row, CH_HI, hi);
        struct iv r = candidates(n->op, value, hi, row, best);
        out->store->ch[CH_LO][at] = r.lo;
        out->store->ch[CH_HI][at] = r.hi;
    }
    if (track) tensor_drop_exact(ev, out);
    return PROEM_OK;
}

/* ---- cumsum ---------------------------------------------------------------------------------- */

/* A row of x: values, and intervals when they are carried. */
struct row_of {
    double *v, *lo, *hi;
    int64_t *i;
};

static void cumsum_floats(const struct fold *f, int64_t first, const struct row_of *x,
                          const struct tensor *to) {
    struct iv r = {0, 0};
    double sum = 0, abs = 0, grid = INF;
    for (int64_t i = 0; i < f->row; i++) {
        sum += x->v[i];
        double rounded = round_to(f->result, sum);
        int64_t at = tensor_index(to, first + i);
        write_doubles(f->out, at, 1, &rounded);
        if (!f->track) continue;
        struct iv term = {x->lo[i], x->hi[i]};
        r = (struct iv){r.lo + term.lo, r.hi + term.hi};
        abs += term_mag(term);
        double g = term.lo == term.hi ? grid_of(term.lo) : 0;
        grid = g < grid ? g : grid;
        struct iv y = sum_range(r, f->result, (double)(i + 1), abs, grid);
        y = iv_result(f->result, f->ev->mode, y);
        f->out->store->ch[CH_LO][at] = y.lo;
        f->out->store->ch[CH_HI][at] = y.hi;
        if (f->mag) f->out->store->ch[CH_MAG][at] = fmax(abs, iv_mag(y));
    }
}

static void cumsum_ints(const struct fold *f, int64_t first, const struct row_of *x,
                        const struct tensor *to) {
    int64_t sum = 0;
    struct iv r = {0, 0};
    for (int64_t i = 0; i < f->row; i++) {
        sum = (int64_t)((uint64_t)sum + (uint64_t)x->i[i]);
        int64_t at = tensor_index(to, first + i);
        union scalar v = elem_cast(DT_I64, (union scalar){.i = sum}, f->result, false);
        elem_store(f->result, f->out->store->data, at, v);
        if (!f->track) continue;
        r = (struct iv){r.lo + x->lo[i], r.hi + x->hi[i]};
        struct iv y = r.lo == r.hi ? iv_point((double)v.i) : r;
        f->out->store->ch[CH_LO][at] = y.lo;
        f->out->store->ch[CH_HI][at] = y.hi;
        if (f->mag) f->out->store->ch[CH_MAG][at] = iv_mag(y);
    }
}

enum proem_status eval_cumsum(struct ev *ev, const struct node *n, const struct tensor *in,
                              struct tensor *out) {
    struct fold f = {.ev = ev, .op = n->op, .out = out, .result = out->dtype};
    bool marked[MAX_RANK] = {false};
    marked[n->attrs.axis] = true;
    bool inexact = !tensor_exact(in) || dtype_is_float(out->dtype);
    f.track = ev->track && (inexact || ev->out_mag);
    TRY(tensor_new(ev, out));
    TRY(tensor_intervals(ev, out, f.track));
    f.mag = out->store->ch[CH_MAG] != NULL;
    struct tensor x = *in;
    if (dtype_is_float(out->dtype) && in->dtype != out->dtype) {
        TRY(tensor_cast(ev, in, out->dtype, &x));
    }
    f.in = dims_last(&x, marked, &f.row);
    struct tensor to = dims_last(out, marked, &f.row);
    struct row_of r = {ARENA_NEW(&ev->scratch, double, (size_t)f.row),
                       ARENA_NEW(&ev->scratch, double, (size_t)f.row),
                       ARENA_NEW(&ev->scratch, double, (size_t)f.row),
                       ARENA_NEW(&ev->scratch, int64_t, (size_t)f.row)};
    if (!arena_ok(&ev->scratch)) return err_nomem(ev->err);
    for (int64_t first = 0; f.row > 0 && first < out->n; first += f.row) {
        if (f.track) read_doubles(&f.in, first, f.row, CH_LO, r.lo);
        if (f.track) read_doubles(&f.in, first, f.row, CH_HI, r.hi);
        if (dtype_is_float(out->dtype)) {
            read_doubles(&f.in, first, f.row, -1, r.v);
            cumsum_floats(&f, first, &r, &to);
        } else {
            read_ints(&f.in, first, f.row, r.i);
            cumsum_ints(&f, first, &r, &to);
        }
    }
    if (f.track) tensor_drop_exact(ev, out);
    return PROEM_OK;
}
