/* SPDX-License-Identifier: MIT
 * --check: an actual output against the reference value and the interval of each element.
 *
 * An element counts its distance from the interval's midpoint over the half-width, at most 1 if it
 * is inside (the quotient may round up), infinite if it is outside an interval of width 0. An
 * unbounded interval counts 0. NaN matches NaN.
 */
#include "eval/eval.h"

#include "eval/interval.h"

/* The element as a double; integers beyond 2^53 are compared as integers elsewhere. */
static double as_double(enum dtype d, union scalar v) {
    if (dtype_is_float(d)) return v.f;
    return d == DT_U64 ? (double)(uint64_t)v.i : (double)v.i;
}

static double distance(enum dtype d, union scalar a, union scalar b) {
    if (!dtype_is_float(d)) {
        if (a.i == b.i) return 0;
        double x = fabs(as_double(d, a) - as_double(d, b));
        return x > 0 ? x : 1; /* equal as doubles only */
    }
    if (isnan(a.f) || isnan(b.f)) return isnan(a.f) && isnan(b.f) ? 0 : INF;
    return a.f == b.f ? 0 : fabs(a.f - b.f);
}

/* One element's ratio. */
static double ratio_of(enum dtype d, union scalar actual, union scalar ref, struct iv r,
                       bool *unbounded) {
    *unbounded = false;
    bool nan_actual = dtype_is_float(d) && isnan(actual.f);
    if (iv_is_nan(r)) return nan_actual ? 0 : INF;
    if (r.lo == r.hi) return distance(d, actual, ref) == 0 ? 0 : INF;
    if (isinf(r.lo) || isinf(r.hi)) {
        *unbounded = true;
        if (iv_is_any(r)) return 0;
    }
    if (nan_actual) return dtype_is_float(d) && isnan(ref.f) ? 0 : INF;
    double x = as_double(d, actual);
    if (iv_has(r, x)) {
        if (*unbounded) return 0;
    } else if (*unbounded || isinf(x)) {
        return INF;
    }
    double half = (r.hi - r.lo) * 0.5, mid = r.lo + half;
    double q = fabs(x - mid) / half;
    return iv_has(r, x) ? fmin(q, 1) : fmax(q, nextafter(1, 2));
}

void eval_compare(const struct eval_result *r, const void *actual, struct eval_report *out) {
    *out = (struct eval_report){.worst = -1, .ok = true};
    int64_t last = r->rank > 0 ? r->shape[r->rank - 1] : 1;
    for (int64_t i = 0; i < r->n; i++) {
        int64_t at = r->n_rows > 0 ? r->rows[i / last] * last + i % last : i;
        union scalar x = elem_load(r->dtype, actual, at), ref = elem_load(r->dtype, r->data, i);
        struct iv range = iv_point(as_double(r->dtype, ref));
        if (r->lo != NULL) range = (struct iv){r->lo[i], r->hi[i]};
        bool unbounded;
        double q = ratio_of(r->dtype, x, ref, range, &unbounded);
        double d = distance(r->dtype, x, ref);
        if (d > out->max_err) out->max_err = d;
        out->unbounded += unbounded;
        out->checked++;
        if (q > out->bound_ratio || out->worst < 0) {
            out->bound_ratio = q;
            out->worst = at;
        }
    }
    out->ok = out->bound_ratio <= 1;
}
