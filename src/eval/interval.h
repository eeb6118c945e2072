/* SPDX-License-Identifier: MIT
 * Intervals of values that legal plans can reach, for one element: rounding, widening, and the
 * range of every elementwise operator. docs/numerics.md has the derivations.
 *
 * [lo, hi] holds finite values and infinities. (NaN, NaN): certainly NaN. (-inf, inf): anything,
 * NaN included. Integers and bools are held as doubles; beyond 2^53 the ends are rounded outwards.
 */
#ifndef PROEM_EVAL_INTERVAL_H
#define PROEM_EVAL_INTERVAL_H

#include <math.h>
#include <string.h>

#include "eval/eval.h"

/* As doubles: the macros of math.h are floats. */
#define INF  ((double)INFINITY)
#define QNAN ((double)NAN)

struct iv {
    double lo, hi;
};

#define U32 0x1p-24 /* half an ulp of f32, relative */

static inline struct iv iv_point(double x) {
    return (struct iv){x, x};
}
static inline struct iv iv_any(void) {
    return (struct iv){-INF, INF};
}
static inline bool iv_is_nan(struct iv a) {
    return isnan(a.lo) && isnan(a.hi);
}
static inline bool iv_is_any(struct iv a) {
    return isinf(a.lo) && isinf(a.hi) && a.lo < a.hi;
}
/* One value, or certainly NaN. */
static inline bool iv_is_point(struct iv a) {
    return a.lo == a.hi || iv_is_nan(a);
}
/* lo <= hi, or NaN turned into one of the two marks. */
static inline struct iv iv_fix(double lo, double hi) {
    if (isnan(lo) || isnan(hi)) {
        return isnan(lo) && isnan(hi) ? (struct iv){QNAN, QNAN} : iv_any();
    }
    return lo <= hi ? (struct iv){lo, hi} : (struct iv){hi, lo};
}
static inline struct iv iv_hull(struct iv a, struct iv b) {
    if (isnan(a.lo) || isnan(b.lo)) return iv_is_nan(a) && iv_is_nan(b) ? a : iv_any();
    return (struct iv){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}
static inline double iv_mag(struct iv a) {
    double x = fabs(a.lo), y = fabs(a.hi);
    return x > y ? x : y;
}
static inline bool iv_has(struct iv a, double x) {
    return a.lo <= x && x <= a.hi;
}

/* Half to even to a float dtype; the common cases without a call. */
static inline double round_to(enum dtype d, double x) {
    if (d == DT_F64) return x;
    if (d == DT_F32) return (double)(float)x;
    if (d == DT_BF16 || d == DT_F16) {
        int sig = d == DT_BF16 ? 8 : 11;
        double low = d == DT_BF16 ? 0x1p-126 : 0x1p-14, high = d == DT_BF16 ? 0x1p127 : 0x1p15;
        double m = fabs(x);
        if (m >= low && m < high) { /* normal and below the last binade: add half on the bits */
            uint64_t b;
            memcpy(&b, &x, sizeof b);
            int s = 53 - sig;
            b += (((uint64_t)1 << (s - 1)) - 1) + ((b >> s) & 1);
            b &= ~(((uint64_t)1 << s) - 1);
            memcpy(&x, &b, sizeof b);
            return x;
        }
        if (x == 0) return x;
    }
    return float_round(d, x, false);
}

/* Is x a value of f32? */
static inline bool is_f32(double x) {
    return (double)(float)x == x;
}

/* The largest power of two of which x is a multiple: inf for 0, 0 for what is not finite. Terms
 * with a common grid g add without error in f32 while the sum of their magnitudes is at most 2^24 *
 * g. */
static inline double grid_of(double x) {
    if (x == 0) return INF;
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    uint64_t e = (b >> 52) & 2047, m = b & (((uint64_t)1 << 52) - 1);
    if (e == 2047 || e <= 52) return 0; /* below 2^-970 nothing is claimed */
    m |= (uint64_t)1 << 52;
    uint64_t unit = (e - 52) << 52; /* the bits of 2^(e - 1075), one unit of m */
    double u;
    memcpy(&u, &unit, sizeof u);
    return (double)(int64_t)(m & (0 - m)) * u;
}

/* Add the error of computing in `wide` (f32 or f64) with `ulp` ulp at most; 0: correctly rounded,
 * where an end that the dtype holds stays. */
struct iv iv_widen(enum dtype wide, double ulp, struct iv a);
/* Widen by relative and absolute amounts, then for the arithmetic of this file. */
struct iv iv_grow(struct iv a, double relative, double absolute);
/* A rounding that happens. */
struct iv iv_round(enum dtype d, bool saturate, struct iv a);
/* A rounding that may happen. */
struct iv iv_maybe_round(enum dtype d, struct iv a);
/* The rounding of an operator's result to its dtype, under a mode. */
struct iv iv_result(enum dtype d, enum eval_mode mode, struct iv a);
struct iv iv_cast(enum dtype from, enum dtype to, bool saturate, bool implied, enum eval_mode mode,
                  struct iv a);
/* The range of an elementwise operator whose operands were converted to `compute`, with the error
 * of its arithmetic but before the rounding to its dtype. value: its exact result on the reference
 * operands (a bool's or integer's as a double). */
struct iv iv_op(enum op op, enum dtype compute, enum eval_mode mode, const struct iv *in,
                double value, const double *param);
/* x/scale as quantize computes it, rounded, plus zero: the steps before saturation. */
struct iv iv_mul(struct iv a, struct iv b);
struct iv iv_div(struct iv a, struct iv b);
static inline struct iv iv_add(struct iv a, struct iv b) {
    return iv_fix(a.lo + b.lo, a.hi + b.hi);
}
static inline struct iv iv_sub(struct iv a, struct iv b) {
    return iv_fix(a.lo - b.hi, a.hi - b.lo);
}
/* gamma_n = n*u / (1 - n*u): the relative error of a sum of n terms in any order; 1 at most. */
double gamma_bound(double n, double u);
/* The arithmetic in which an operator of this dtype computes: f64 for f64, else f32. */
static inline enum dtype wide_of(enum dtype d) {
    return d == DT_F64 ? DT_F64 : DT_F32;
}
static inline double unit_of(enum dtype wide) {
    return wide == DT_F64 ? 0x1p-53 : U32;
}

#endif
