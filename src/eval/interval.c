/* SPDX-License-Identifier: MIT
 * In: intervals of an elementwise operator's operands. Out: an interval that holds every result.
 *
 * Monotone functions are evaluated at the ends; those with one extremum also there; periodic ones
 * where an extremum may lie between. Functions of two operands that are monotone in each for a
 * fixed other one take their extrema at the corners. The rest gets a safe bound. Ends are computed
 * in f64; the slack in iv_widen covers that arithmetic. Interval arithmetic: Moore, Kearfott,
 * Cloud, "Introduction to Interval Analysis", chapters 2-5.
 */
#include "eval/interval.h"

#include <float.h>

double gamma_bound(double n, double u) {
    double nu = n * u;
    return nu < 0.5 ? nu / (1 - nu) : 1;
}

struct iv iv_grow(struct iv a, double relative, double absolute) {
    if (isnan(a.lo)) return a;
    double r = relative + 0x1p-52;
    if (isfinite(a.lo)) a.lo -= fabs(a.lo) * r + absolute;
    if (isfinite(a.hi)) a.hi += fabs(a.hi) * r + absolute;
    return a;
}

static struct iv overflow_f32(struct iv a) {
    /* From the midpoint of the largest finite value and the next power of two on: infinity. */
    const double edge = 0x1.ffffffp127;
    bool point = a.lo == a.hi;
    if (a.hi >= edge) a.hi = INF;
    if (a.lo <= -edge) a.lo = -INF;
    if (point && a.hi == INF) a.lo = INF;
    if (point && a.lo == -INF) a.hi = -INF;
    return a;
}

struct iv iv_widen(enum dtype wide, double ulp, struct iv a) {
    if (isnan(a.lo) || (isinf(a.lo) && isinf(a.hi))) return a;
    if (wide == DT_F64) {
        return iv_grow(a, (ulp + 1) * 0x1p-52, isfinite(ulp) ? (ulp + 1) * 0x1p-1074 : 0);
    }
    if (ulp != 0) return overflow_f32(iv_grow(a, ulp * 0x1p-23, ulp * 0x1p-149));
    struct iv w = iv_grow(a, U32, 0x1p-150);
    if (is_f32(a.lo)) w.lo = a.lo;
    if (is_f32(a.hi)) w.hi = a.hi;
    return overflow_f32(w);
}

struct iv iv_round(enum dtype d, bool saturate, struct iv a) {
    if (d == DT_F64 || iv_is_any(a)) return a;
    if (saturate || dtype_cat(d) == CAT_Q) {
        return iv_fix(float_round(d, a.lo, saturate), float_round(d, a.hi, saturate));
    }
    if (isnan(a.lo)) return a;
    return (struct iv){round_to(d, a.lo), round_to(d, a.hi)};
}

struct iv iv_maybe_round(enum dtype d, struct iv a) {
    return d == DT_F64 ? a : iv_hull(a, iv_round(d, false, a));
}

struct iv iv_result(enum dtype d, enum eval_mode mode, struct iv a) {
    if (!dtype_is_float(d) || d == DT_F64) return a;
    if (mode == EVAL_EAGER) return iv_round(d, false, a);
    return d == DT_F32 ? a : iv_maybe_round(d, a);
}

/* ---- casts ----------------------------------------------------------------------------------- */

static void int_range(enum dtype d, double *lo, double *hi) {
    if (d == DT_BOOL) {
        *lo = 0, *hi = 1;
        return;
    }
    int64_t a, b;
    dtype_int_range(d, &a, &b);
    *lo = (double)a;
    *hi = d == DT_U64 ? 0x1p64 : (double)b;
}

static struct iv int_full(enum dtype d) {
    struct iv a;
    int_range(d, &a.lo, &a.hi);
    return a;
}

/* An integer interval that may have wrapped. */
static struct iv int_wrap(enum dtype d, struct iv a) {
    struct iv full = int_full(d);
    if (isnan(a.lo) || a.lo < full.lo || a.hi > full.hi) return full;
    if (iv_mag(a) > 0x1p53 && a.lo < a.hi) {
        a.lo = nextafter(a.lo, -INF);
        a.hi = nextafter(a.hi, INF);
    }
    return a;
}

static double trunc_saturate(enum dtype to, double x) {
    double lo, hi;
    int_range(to, &lo, &hi);
    x = trunc(x);
    return x < lo ? lo : x > hi ? hi : x;
}

struct iv iv_cast(enum dtype from, enum dtype to, bool saturate, bool implied, enum eval_mode mode,
                  struct iv a) {
    if (from == to && (implied || !dtype_is_float(to))) return a;
    if (to == DT_BOOL) {
        if (isnan(a.lo)) return iv_point(1);
        if (!iv_has(a, 0)) return iv_point(1);
        return a.lo == a.hi ? iv_point(0) : (struct iv){0, 1};
    }
    if (dtype_is_int(to)) {
        if (dtype_is_int(from) || from == DT_BOOL) {
            if (saturate && iv_is_point(a)) return iv_point(trunc_saturate(to, a.lo));
            return int_wrap(to, a);
        }
        if (isnan(a.lo)) return iv_point(0);
        return (struct iv){trunc_saturate(to, a.lo), trunc_saturate(to, a.hi)};
    }
    bool from_int = !dtype_is_float(from);
    if (implied && mode != EVAL_EAGER) {
        if (from_int && iv_mag(a) > 0x1p24) a = iv_widen(wide_of(to), 0, a);
        return iv_maybe_round(to, a);
    }
    return iv_round(to, saturate, a);
}

/* ---- one operand ----------------------------------------------------------------------------- */

static double f1(enum op op, enum dtype d, double x, const double *param) {
    union scalar in = {.f = x};
    return op_ref(op, d, &in, param).f;
}

static struct iv at_ends(enum op op, enum dtype d, struct iv a, const double *param) {
    return iv_fix(f1(op, d, a.lo, param), f1(op, d, a.hi, param));
}

/* The ends and one interior extremum at x. */
static struct iv with_extremum(enum op op, enum dtype d, struct iv a, const double *param,
                               double x) {
    struct iv r = at_ends(op, d, a, param);
    return iv_has(a, x) ? iv_hull(r, iv_point(f1(op, d, x, param))) : r;
}

/* sin or cos: is there a point where the function is 1 (phase: at phase + 2*pi*k) in a? A little
 * slack makes the answer safe. */
static bool has_phase(struct iv a, double phase) {
    const double two_pi = 6.283185307179586;
    double slack = 1e-12 * (1 + iv_mag(a));
    double k = ceil((a.lo - slack - phase) / two_pi);
    return phase + k * two_pi <= a.hi + slack;
}

static struct iv periodic(enum op op, enum dtype d, struct iv a, const double *param) {
    const double half_pi = 1.5707963267948966;
    if (iv_mag(a) > 0x1p40 || !(a.hi - a.lo < 7)) return (struct iv){-1, 1};
    double top = op == OP_SIN ? half_pi : 0;
    struct iv r = at_ends(op, d, a, param);
    if (has_phase(a, top)) r.hi = 1;
    if (has_phase(a, top + 2 * half_pi)) r.lo = -1;
    return r;
}

static struct iv tangent(enum dtype d, struct iv a, const double *param) {
    const double pi = 3.141592653589793;
    double k = ceil((a.lo - 1e-12 * (1 + iv_mag(a)) - pi / 2) / pi);
    if (iv_mag(a) > 0x1p40 || pi / 2 + k * pi <= a.hi + 1e-12 * (1 + iv_mag(a))) return iv_any();
    return at_ends(OP_TAN, d, a, param);
}

static struct iv reciprocal(struct iv a) {
    if (iv_has(a, 0)) return iv_any();
    return (struct iv){1 / a.hi, 1 / a.lo};
}

/* softplus(x) is x above threshold/beta: a small step, so take both formulas there. */
static struct iv softplus(enum dtype d, struct iv a, const double *param) {
    struct iv r = at_ends(OP_SOFTPLUS, d, a, param);
    double edge = param[0] != 0 ? param[1] / param[0] : INF;
    if (!iv_has(a, edge)) return r;
    double jump = param[0] != 0 ? log1p(exp(-fabs(param[1]))) / fabs(param[0]) : 0;
    return iv_fix(r.lo - jump, r.hi + jump);
}

/* Where a function of one operand has its interior extremum, if it is of that shape. */
static bool extremum_of(enum op op, double *x) {
    switch (op) {
    case OP_ABS:
    case OP_SQUARE:
    case OP_COSH: *x = 0; return true;
    case OP_GELU: *x = -0.7517915247; return true;
    case OP_GELU_TANH: *x = -0.7524614220; return true;
    case OP_SILU: *x = -1.2784645428; return true;
    case OP_MISH: *x = -1.1924312141; return true;
    case OP_HARDSWISH: *x = -1.5; return true;
    case OP_ELU:
    case OP_LEAKY_RELU: *x = 0; return true;
    default: return false;
    }
}

/* Below its domain a function gives NaN: then anything. */
static bool outside_domain(enum op op, struct iv a) {
    switch (op) {
    case OP_SQRT:
    case OP_RSQRT:
    case OP_LOG:
    case OP_LOG2:
    case OP_LOG10: return a.lo < 0;
    case OP_LOG1P: return a.lo < -1;
    case OP_ASIN:
    case OP_ACOS:
    case OP_ATANH: return a.lo < -1 || a.hi > 1;
    case OP_ACOSH: return a.lo < 1;
    default: return false;
    }
}

static struct iv unary(enum op op, enum dtype d, struct iv a, const double *param) {
    double x;
    if (iv_is_any(a)) {
        /* NaN may come in; what a bounded function gives is still anything. */
        return iv_any();
    }
    if (outside_domain(op, a)) return iv_any();
    if (extremum_of(op, &x)) {
        /* Near the extremum the function is flat: the error of x is of second order. */
        return with_extremum(op, d, a, param, x);
    }
    switch (op) {
    case OP_SIN:
    case OP_COS:
        if (isinf(a.lo) || isinf(a.hi)) return iv_any();
        return periodic(op, d, a, param);
    case OP_TAN: return tangent(d, a, param);
    case OP_RECIPROCAL: return reciprocal(a);
    case OP_RSQRT: /* of -0: -inf */ return a.lo == 0 ? iv_any() : at_ends(op, d, a, param);
    case OP_FRAC:
        if (isinf(a.lo) || isinf(a.hi)) return iv_any();
        if (trunc(a.lo) == trunc(a.hi)) return at_ends(op, d, a, param);
        return (struct iv){a.lo < 0 ? -1 : 0, a.hi > 0 ? 1 : 0};
    case OP_SOFTPLUS: return softplus(d, a, param);
    default: return at_ends(op, d, a, param);
    }
}

/* ---- two operands ---------------------------------------------------------------------------- */

struct iv iv_mul(struct iv a, struct iv b) {
    if (a.lo == a.hi && b.lo == b.hi) return iv_point(a.lo * b.lo);
    double p = a.lo * b.lo, q = a.lo * b.hi, r = a.hi * b.lo, s = a.hi * b.hi;
    if (isnan(p) || isnan(q) || isnan(r) || isnan(s)) {
        return iv_is_nan(a) || iv_is_nan(b) ? (struct iv){QNAN, QNAN} : iv_any();
    }
    return (struct iv){fmin(fmin(p, q), fmin(r, s)), fmax(fmax(p, q), fmax(r, s))};
}

struct iv iv_div(struct iv a, struct iv b) {
    if (a.lo == a.hi && b.lo == b.hi) return iv_point(a.lo / b.lo);
    if (iv_is_nan(a) || iv_is_nan(b)) return (struct iv){QNAN, QNAN};
    if (iv_has(b, 0)) return iv_any();
    double p = a.lo / b.lo, q = a.lo / b.hi, r = a.hi / b.lo, s = a.hi / b.hi;
    if (isnan(p) || isnan(q) || isnan(r) || isnan(s)) return iv_any();
    return (struct iv){fmin(fmin(p, q), fmin(r, s)), fmax(fmax(p, q), fmax(r, s))};
}

static double f2(enum op op, enum dtype d, double x, double y) {
    union scalar in[2] = {{.f = x}, {.f = y}};
    return op_ref(op, d, in, NULL).f;
}

static struct iv corners(enum op op, enum dtype d, struct iv a, struct iv b) {
    struct iv r = iv_point(f2(op, d, a.lo, b.lo));
    r = iv_hull(r, iv_point(f2(op, d, a.lo, b.hi)));
    r = iv_hull(r, iv_point(f2(op, d, a.hi, b.lo)));
    return iv_hull(r, iv_point(f2(op, d, a.hi, b.hi)));
}

static struct iv absolute(struct iv a) {
    if (a.lo >= 0) return a;
    if (a.hi <= 0) return (struct iv){-a.hi, -a.lo};
    return (struct iv){0, iv_mag(a)};
}

static struct iv power(enum dtype d, struct iv a, struct iv b) {
    if (a.lo > 0 || (a.lo >= 0 && b.lo > 0)) return corners(OP_POW, d, a, b);
    if (b.lo != b.hi || b.lo != trunc(b.lo)) return iv_any();
    if (b.lo < 0 && iv_has(a, 0)) return iv_any();
    struct iv r = iv_fix(f2(OP_POW, d, a.lo, b.lo), f2(OP_POW, d, a.hi, b.lo));
    return iv_has(a, 0) ? iv_hull(r, iv_point(f2(OP_POW, d, 0, b.lo))) : r;
}

static struct iv arc2(enum dtype d, struct iv y, struct iv x) {
    const double pi = 3.1415926535897936;
    if (x.lo <= 0 && iv_has(y, 0)) return (struct iv){-pi, pi};
    return corners(OP_ATAN2, d, y, x);
}

static struct iv copy_sign(struct iv a, struct iv b) {
    struct iv m = absolute(a);
    if (b.lo > 0) return m;
    if (b.hi < 0) return (struct iv){-m.hi, -m.lo};
    return (struct iv){-m.hi, m.hi};
}

/* Quotients up to this are whole numbers in any plan: those of f32 are rounded from f64, those of
 * f64 have an error below 1/2 before they are rounded to a whole number. */
static double whole_limit(enum dtype d) {
    return wide_of(d) == DT_F64 ? 0x1p50 : 0x1p24;
}

/* Does a / b, rounded towards minus infinity (floordiv of magnitudes: towards 0), have one value
 * over the box? Monotone in each operand, b without 0: its extrema are at corners. */
static bool one_quotient(enum op op, enum dtype d, struct iv a, struct iv b) {
    if (op == OP_FMOD) {
        b = absolute(b);
        if (a.lo < 0 && a.hi > 0) return iv_mag(a) < b.lo;
        a = absolute(a);
    }
    struct iv q = corners(OP_FLOORDIV, d, a, b);
    return q.lo == q.hi && iv_mag(q) <= whole_limit(d);
}

/* a // b, a % b, fmod: where the quotient's whole part q is the same over the box, the remainder is
 * a - q b, which has its extrema at corners; else anything up to the divisor. The steps come from
 * exact remainders: a quotient of ends that f64 rounds, to 0 or up to a whole number, may lie on
 * the other side of one. */
static struct iv quotient(enum op op, enum dtype d, struct iv a, struct iv b) {
    if (iv_has(b, 0)) return iv_any();
    if (op == OP_FLOORDIV) return corners(op, d, a, b);
    if (isinf(a.lo) || isinf(a.hi)) return iv_any();
    if (one_quotient(op, d, a, b)) return corners(op, d, a, b);
    double m = iv_mag(b);
    if (op == OP_MOD) return (struct iv){b.lo < 0 ? b.lo : 0, b.hi > 0 ? b.hi : 0};
    struct iv r = {a.lo < 0 ? -m : 0, a.hi > 0 ? m : 0};
    return (struct iv){fmax(r.lo, fmin(a.lo, 0)), fmin(r.hi, fmax(a.hi, 0))};
}

static struct iv binary(enum op op, enum dtype d, struct iv a, struct iv b) {
    if (iv_is_nan(a) || iv_is_nan(b)) {
        /* These pass over NaN for some partner: pow(1, NaN) = pow(NaN, 0) = 1, hypot(inf, NaN). */
        bool skips = op == OP_POW || op == OP_HYPOT || op == OP_COPYSIGN;
        return skips ? iv_any() : (struct iv){QNAN, QNAN};
    }
    switch (op) {
    case OP_ADD: return iv_add(a, b);
    case OP_SUB: return iv_sub(a, b);
    case OP_MUL: return iv_mul(a, b);
    case OP_DIV: return iv_div(a, b);
    case OP_MINIMUM:
    case OP_MAXIMUM:
        if (iv_is_any(a) || iv_is_any(b)) return iv_any();
        return op == OP_MINIMUM ? (struct iv){fmin(a.lo, b.lo), fmin(a.hi, b.hi)}
                                : (struct iv){fmax(a.lo, b.lo), fmax(a.hi, b.hi)};
    case OP_FLOORDIV:
    case OP_MOD:
    case OP_FMOD: return iv_is_any(a) || iv_is_any(b) ? iv_any() : quotient(op, d, a, b);
    default: break;
    }
    if (iv_is_any(a) || iv_is_any(b)) return iv_any();
    switch (op) {
    case OP_POW: return power(d, a, b);
    case OP_ATAN2: return arc2(d, a, b);
    case OP_COPYSIGN: return copy_sign(a, b);
    case OP_HYPOT: return corners(op, d, absolute(a), absolute(b));
    default: return iv_any();
    }
}

/* ---- truth ----------------------------------------------------------------------------------- */

static const struct iv undecided = {0, 1};

static struct iv compare(enum op op, struct iv a, struct iv b) {
    if (iv_is_nan(a) || iv_is_nan(b)) return iv_point(op == OP_NE);
    if (iv_is_any(a) || iv_is_any(b)) return undecided;
    bool lt = a.hi<b.lo, gt = a.lo> b.hi, le = a.hi <= b.lo, ge = a.lo >= b.hi;
    bool eq = a.lo == a.hi && b.lo == b.hi && a.lo == b.lo;
    switch (op) {
    case OP_EQ: return eq ? iv_point(1) : lt || gt ? iv_point(0) : undecided;
    case OP_NE: return eq ? iv_point(0) : lt || gt ? iv_point(1) : undecided;
    case OP_LT: return lt ? iv_point(1) : ge ? iv_point(0) : undecided;
    case OP_LE: return le ? iv_point(1) : gt ? iv_point(0) : undecided;
    case OP_GT: return gt ? iv_point(1) : le ? iv_point(0) : undecided;
    default: return ge ? iv_point(1) : lt ? iv_point(0) : undecided;
    }
}

static struct iv truth(enum dtype d, struct iv a) {
    return d == DT_BOOL ? a : iv_cast(d, DT_BOOL, false, false, EVAL_EAGER, a);
}

static struct iv logic(enum op op, enum dtype d, const struct iv *in) {
    struct iv a = truth(d, in[0]);
    if (op == OP_LOGICAL_NOT) return (struct iv){1 - a.hi, 1 - a.lo};
    struct iv b = truth(d, in[1]);
    if (op == OP_LOGICAL_AND) return (struct iv){fmin(a.lo, b.lo), fmin(a.hi, b.hi)};
    if (op == OP_LOGICAL_OR) return (struct iv){fmax(a.lo, b.lo), fmax(a.hi, b.hi)};
    if (a.lo < a.hi || b.lo < b.hi) return undecided;
    return iv_point(a.lo != b.lo);
}

static struct iv nature(enum op op, struct iv a) {
    if (op == OP_ISNAN) return iv_is_nan(a) ? iv_point(1) : iv_is_any(a) ? undecided : iv_point(0);
    if (iv_is_nan(a)) return iv_point(0);
    if (a.lo == a.hi) return iv_point(isinf(a.lo) != 0);
    return isinf(a.lo) || isinf(a.hi) ? undecided : iv_point(0);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static struct iv clamp(const struct iv *in) {
    for (int k = 0; k < 3; k++) {
        if (iv_is_nan(in[k])) return in[k];
    }
    for (int k = 0; k < 3; k++) {
        if (iv_is_any(in[k])) return iv_any();
    }
    return (struct iv){fmin(fmax(in[0].lo, in[1].lo), in[2].lo),
                       fmin(fmax(in[0].hi, in[1].hi), in[2].hi)};
}

/* The result is an operand, up to its sign, its whole part or exactly what is left without a whole
 * part: no arithmetic rounds it. */
static bool never_rounds(enum op op) {
    switch (op) {
    case OP_NEG:
    case OP_ABS:
    case OP_SIGN:
    case OP_RELU:
    case OP_FLOOR:
    case OP_CEIL:
    case OP_ROUND:
    case OP_TRUNC:
    case OP_FRAC:
    case OP_FMOD:
    case OP_MINIMUM:
    case OP_MAXIMUM:
    case OP_COPYSIGN:
    case OP_CLAMP: return true;
    default: return false;
    }
}

/* Operators on integers whose operands are not all certain. */
static struct iv integers(enum op op, enum dtype d, const struct iv *in) {
    if (d == DT_BOOL) {
        switch (op) {
        case OP_BITWISE_AND:
        case OP_BITWISE_OR:
        case OP_BITWISE_XOR: {
            enum op same = op == OP_BITWISE_AND  ? OP_LOGICAL_AND
                           : op == OP_BITWISE_OR ? OP_LOGICAL_OR
                                                 : OP_LOGICAL_XOR;
            return logic(same, d, in);
        }
        case OP_ADD:
        case OP_MAXIMUM: return logic(OP_LOGICAL_OR, d, in);
        case OP_MUL:
        case OP_MINIMUM: return logic(OP_LOGICAL_AND, d, in);
        case OP_BITWISE_NOT: return logic(OP_LOGICAL_NOT, d, in);
        default: return int_full(d);
        }
    }
    switch (op) {
    case OP_NEG: return int_wrap(d, (struct iv){-in[0].hi, -in[0].lo});
    case OP_ABS: return int_wrap(d, absolute(in[0]));
    case OP_SQUARE: return int_wrap(d, iv_mul(absolute(in[0]), absolute(in[0])));
    case OP_RELU: return (struct iv){fmax(in[0].lo, 0), fmax(in[0].hi, 0)};
    case OP_SIGN:
        return (struct iv){(in[0].lo > 0) - (in[0].lo < 0), (in[0].hi > 0) - (in[0].hi < 0)};
    case OP_FLOOR:
    case OP_CEIL:
    case OP_ROUND:
    case OP_TRUNC: return in[0];
    case OP_ADD: return int_wrap(d, iv_add(in[0], in[1]));
    case OP_SUB: return int_wrap(d, iv_sub(in[0], in[1]));
    case OP_MUL: return int_wrap(d, iv_mul(in[0], in[1]));
    case OP_MINIMUM: return (struct iv){fmin(in[0].lo, in[1].lo), fmin(in[0].hi, in[1].hi)};
    case OP_MAXIMUM: return (struct iv){fmax(in[0].lo, in[1].lo), fmax(in[0].hi, in[1].hi)};
    case OP_CLAMP: return clamp(in);
    default: return int_full(d);
    }
}

struct iv iv_op(enum op op, enum dtype compute, enum eval_mode mode, const struct iv *in,
                double value, const double *param) {
    const struct op_info *info = op_info(op);
    bool points = true;
    for (int k = 0; k < info->arity; k++) {
        points = points && iv_is_point(in[k]);
    }
    bool is_float = dtype_is_float(compute);
    struct iv r;
    if (points) {
        r = iv_point(value);
    } else if (info->rule == RULE_LOGIC) {
        r = logic(op, compute, in);
    } else if (op == OP_ISNAN || op == OP_ISINF) {
        r = nature(op, in[0]);
    } else if (info->rule == RULE_BOOL) {
        r = compare(op, in[0], in[1]);
    } else if (!is_float) {
        r = integers(op, compute, in);
    } else if (info->arity == 3) {
        r = clamp(in);
    } else {
        r = info->arity == 1 ? unary(op, compute, in[0], param) : binary(op, compute, in[0], in[1]);
    }
    if (!is_float || info->rule == RULE_BOOL || info->rule == RULE_LOGIC) return r;
    if (info->ulp == 0 && (mode == EVAL_EAGER || compute == DT_F64) && points) return r;
    if (never_rounds(op) || (op == OP_FLOORDIV && iv_mag(r) <= whole_limit(compute))) return r;
    return iv_widen(wide_of(compute), info->ulp, r);
}
