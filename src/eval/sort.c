/* SPDX-License-Identifier: MIT
 * topk and argsort: stable merge sort of one row at a time. NaN counts as the largest value.
 *
 * Intervals: the r-th value of a sorted row is monotone in every element, so sorting the lower and
 * the upper ends bounds it. An element's rank lies between the number of elements certainly before
 * it and the number possibly before it; a position's index can be any element whose ranks include
 * it.
 */
#include "eval/tensor.h"

struct sorter {
    struct ev *ev;
    bool descending, is_float, is_u64;
    const double *f;
    const int64_t *i;
    int64_t *order, *tmp;
};

static bool float_before(double a, double b, bool descending) {
    if (isnan(a) || isnan(b)) return descending ? isnan(a) && !isnan(b) : !isnan(a) && isnan(b);
    return descending ? a > b : a < b;
}

static bool before(const struct sorter *s, int64_t x, int64_t y) {
    if (s->is_float) return float_before(s->f[x], s->f[y], s->descending);
    if (s->is_u64) {
        uint64_t a = (uint64_t)s->i[x], b = (uint64_t)s->i[y];
        return s->descending ? a > b : a < b;
    }
    return s->descending ? s->i[x] > s->i[y] : s->i[x] < s->i[y];
}

static void merge(const struct sorter *s, int64_t lo, int64_t mid, int64_t hi) {
    int64_t i = lo, j = mid, k = lo;
    while (i < mid && j < hi) {
        s->tmp[k++] = before(s, s->order[j], s->order[i]) ? s->order[j++] : s->order[i++];
    }
    while (i < mid) {
        s->tmp[k++] = s->order[i++];
    }
    while (j < hi) {
        s->tmp[k++] = s->order[j++];
    }
    memcpy(s->order + lo, s->tmp + lo, (size_t)(hi - lo) * sizeof *s->order);
}

static void sort(const struct sorter *s, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        s->order[i] = i;
    }
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t lo = 0; lo + width < n; lo += 2 * width) {
            merge(s, lo, lo + width, lo + 2 * width < n ? lo + 2 * width : n);
        }
    }
}

/* What can stand at one position. */
struct place_range {
    struct iv index, value;
    bool nan, number;
};

struct sort_rows {
    struct ev *ev;
    struct tensor in;
    struct tensor values, index; /* [rows, k] views of the results; values.store may be NULL */
    int64_t row, k;
    struct sorter s;
    double *f, *lo, *hi, *first, *last;
    struct place_range *at;
    int64_t *i, *rank_lo, *rank_hi;
    bool track;
};

/* The earliest and the latest place in the order that x may claim, as values to sort by. */
static void claims(const struct sort_rows *r, int64_t x, double *first, double *last) {
    struct iv a = {r->lo[x], r->hi[x]};
    bool down = r->s.descending;
    if (iv_is_any(a)) { /* may be NaN, the largest */
        *first = down ? QNAN : -INF;
        *last = down ? -INF : QNAN;
        return;
    }
    *first = down ? a.hi : a.lo;
    *last = down ? a.lo : a.hi;
}

/* How many y have key[y] before (value, x)? Equal keys: by position, as the sort is stable. */
static int64_t count_before(const struct sort_rows *r, const int64_t *order, const double *key,
                            double value, int64_t x) {
    int64_t lo = 0, hi = r->row;
    while (lo < hi) {
        int64_t mid = (lo + hi) / 2, y = order[mid];
        bool tie = key[y] == value || (isnan(key[y]) && isnan(value));
        if (float_before(key[y], value, r->s.descending) || (tie && y < x)) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

/* Ranks from the number of elements surely before (their latest place is before the earliest of x)
 * and possibly before (all but those whose earliest place is behind the latest of x). */
static void rank_ranges(struct sort_rows *r) {
    double *first = r->first, *last = r->last;
    for (int64_t x = 0; x < r->row; x++) {
        claims(r, x, &first[x], &last[x]);
    }
    struct sorter s = r->s;
    s.is_float = true;
    s.f = last;
    sort(&s, r->row);
    for (int64_t x = 0; x < r->row; x++) {
        r->rank_lo[x] = count_before(r, s.order, last, first[x], x);
    }
    s.f = first;
    sort(&s, r->row);
    for (int64_t x = 0; x < r->row; x++) {
        /* x itself is counted when its earliest place is before its latest */
        int64_t n = count_before(r, s.order, first, last[x], x);
        bool self = float_before(first[x], last[x], r->s.descending);
        r->rank_hi[x] = self ? n - 1 : n;
    }
}

static void claim_positions(struct sort_rows *r) {
    for (int64_t p = 0; p < r->k; p++) {
        r->at[p] = (struct place_range){{INF, -INF}, {INF, -INF}, false, false};
    }
    for (int64_t x = 0; x < r->row; x++) {
        for (int64_t p = r->rank_lo[x]; p <= r->rank_hi[x] && p < r->k; p++) {
            struct place_range *at = &r->at[p];
            at->index.lo = fmin(at->index.lo, (double)x);
            at->index.hi = fmax(at->index.hi, (double)x);
            if (isnan(r->lo[x])) {
                at->nan = true;
                continue;
            }
            at->number = true;
            at->value.lo = fmin(at->value.lo, r->lo[x]);
            at->value.hi = fmax(at->value.hi, r->hi[x]);
        }
    }
}

static void row_ranges(struct sort_rows *r, int64_t at) {
    read_doubles(&r->in, at, r->row, CH_LO, r->lo);
    read_doubles(&r->in, at, r->row, CH_HI, r->hi);
    rank_ranges(r);
    claim_positions(r);
    for (int64_t p = 0; p < r->k; p++) {
        const struct place_range *from = &r->at[p];
        int64_t to = tensor_index(&r->index, at / r->row * r->k + p);
        r->index.store->ch[CH_LO][to] = from->index.lo;
        r->index.store->ch[CH_HI][to] = from->index.hi;
        if (r->values.store == NULL) continue;
        struct iv value = from->value;
        if (from->nan) value = from->number ? iv_any() : (struct iv){QNAN, QNAN};
        to = tensor_index(&r->values, at / r->row * r->k + p);
        r->values.store->ch[CH_LO][to] = value.lo;
        r->values.store->ch[CH_HI][to] = value.hi;
    }
}

static void one_row(struct sort_rows *r, int64_t at) {
    if (r->s.is_float) {
        read_doubles(&r->in, at, r->row, -1, r->f);
    } else {
        read_ints(&r->in, at, r->row, r->i);
    }
    sort(&r->s, r->row);
    for (int64_t p = 0; p < r->k; p++) {
        int64_t i = r->s.order[p], out = at / r->row * r->k + p;
        elem_store(r->index.dtype, r->index.store->data, tensor_index(&r->index, out),
                   (union scalar){.i = i});
        if (r->values.store == NULL) continue;
        union scalar v = elem_load(r->in.dtype, r->in.store->data, tensor_index(&r->in, at + i));
        elem_store(r->values.dtype, r->values.store->data, tensor_index(&r->values, out), v);
    }
    if (r->track) row_ranges(r, at);
}

enum proem_status eval_sort(struct ev *ev, const struct node *n, const struct tensor *in,
                            struct tensor *out) {
    struct sort_rows r = {.ev = ev, .track = ev->track && !tensor_exact(in)};
    bool topk = n->op == OP_TOPK;
    int axis = in->rank > 0 ? n->attrs.axis : 0;
    for (int k = 0; k < n->n_out; k++) {
        TRY(tensor_new(ev, &out[k]));
        if (r.track) {
            TRY(tensor_channel(ev, &out[k], CH_LO));
            TRY(tensor_channel(ev, &out[k], CH_HI));
        }
    }
    r.in = tensor_axis_last(in, axis);
    r.row = in->rank > 0 ? in->shape[axis] : 1;
    r.index = tensor_axis_last(&out[topk ? 1 : 0], axis);
    if (topk) r.values = tensor_axis_last(&out[0], axis);
    r.k = topk && in->rank > 0 ? out[0].shape[axis] : r.row;
    if (r.k > r.row) {
        return err_set(ev->err, PROEM_INVALID,
                       "topk: k is %lld, but '%s' has %lld elements along the axis", (long long)r.k,
                       ev->in_name[0], (long long)r.row);
    }
    r.f = ARENA_NEW(&ev->scratch, double, (size_t)r.row * 5);
    r.i = ARENA_NEW(&ev->scratch, int64_t, (size_t)r.row * 5);
    r.at = ARENA_NEW(&ev->scratch, struct place_range, (size_t)r.k);
    if (r.f == NULL || r.i == NULL || r.at == NULL) return err_nomem(ev->err);
    r.lo = r.f + r.row;
    r.hi = r.lo + r.row;
    r.first = r.hi + r.row;
    r.last = r.first + r.row;
    r.rank_lo = r.i + r.row;
    r.rank_hi = r.rank_lo + r.row;
    r.s = (struct sorter){.ev = ev,
                          .descending = topk || n->attrs.flag,
                          .is_float = dtype_is_float(in->dtype),
                          .is_u64 = in->dtype == DT_U64,
                          .f = r.f,
                          .i = r.i,
                          .order = r.rank_hi + r.row};
    r.s.tmp = r.s.order + r.row;
    for (int64_t at = 0; at < in->n && r.row > 0; at += r.row) {
        one_row(&r, at);
    }
    for (int k = 0; k < n->n_out && r.track; k++) {
        tensor_drop_exact(ev, &out[k]);
    }
    return PROEM_OK;
}
