/* SPDX-License-Identifier: MIT
 * The reference value of every elementwise operator, one scalar function per row of ops.def, and
 * the table of rows. Each function is written from the operator's definition, apart from the C
 * expression in its row, so that one can be checked against the other.
 *
 * Operands are of the promoted dtype d: floats as exact doubles, integers sign- or zero-extended,
 * bool 0 or 1. Float results are not rounded to d. Forms are chosen so that the double is accurate
 * in relative terms over the whole range (erfc and not 1 + erf, exp of a negative argument only).
 * Integer results are computed modulo 2^64 in unsigned arithmetic and wrapped to the width of d.
 * A row without a function here does not compile: the table at the end names ref_<ID>.
 * The meanings, NaN and the sign of zero included, are PyTorch's; minimum and maximum order -0
 * below +0 (IEEE 754-2019, 9.6), since they are commutative.
 */
#include "ops/ref.h"

#include <math.h>
#include <string.h>

#define SQRT_2_OVER_PI 0.797884560802865355879892119869L
#define SQRT_HALF      0.707106781186547524400844362105L

typedef union scalar val;

/* One function of a row. Its parameters: d, the dtype; in, the operands; p, the constants. */
#define REF(id) static val ref_##id(enum dtype d, const val *in, const double *p)
#define UNUSED(d, p)                                                                               \
    do {                                                                                           \
        (void)(d);                                                                                 \
        (void)(p);                                                                                 \
    } while (0)

/* Rows whose promoted dtype is always a float: the value is an expression of x, or of x and y. */
#define REAL1(id, e)                                                                               \
    REF(id) {                                                                                      \
        UNUSED(d, p);                                                                              \
        const double x = in[0].f;                                                                  \
        return real(e);                                                                            \
    }
#define REAL2(id, e)                                                                               \
    REF(id) {                                                                                      \
        UNUSED(d, p);                                                                              \
        const double x = in[0].f, y = in[1].f;                                                     \
        return real(e);                                                                            \
    }
/* Rows for floats (f) and integers (i, as an unsigned expression of a, or a and b). */
#define BOTH1(id, f_, i_)                                                                          \
    REF(id) {                                                                                      \
        (void)p;                                                                                   \
        if (dtype_is_float(d)) {                                                                   \
            const double x = in[0].f;                                                              \
            return real(f_);                                                                       \
        }                                                                                          \
        const uint64_t a = (uint64_t)in[0].i;                                                      \
        return wrap(d, (i_));                                                                      \
    }
#define BOTH2(id, f_, i_)                                                                          \
    REF(id) {                                                                                      \
        (void)p;                                                                                   \
        if (dtype_is_float(d)) {                                                                   \
            const double x = in[0].f, y = in[1].f;                                                 \
            return real(f_);                                                                       \
        }                                                                                          \
        const uint64_t a = (uint64_t)in[0].i, b = (uint64_t)in[1].i;                               \
        return wrap(d, (i_));                                                                      \
    }
#define BITS2(id, e)                                                                               \
    REF(id) {                                                                                      \
        (void)p;                                                                                   \
        const uint64_t a = (uint64_t)in[0].i, b = (uint64_t)in[1].i;                               \
        return wrap(d, (e));                                                                       \
    }
#define COMPARE(id, f_, order)                                                                     \
    REF(id) {                                                                                      \
        (void)p;                                                                                   \
        const double x = in[0].f, y = in[1].f;                                                     \
        return truth(dtype_is_float(d) ? (f_) : int_order(d, in[0].i, in[1].i) order);             \
    }
#define LOGIC2(id, e)                                                                              \
    REF(id) {                                                                                      \
        (void)p;                                                                                   \
        const bool a = nonzero(d, in[0]), b = nonzero(d, in[1]);                                   \
        return truth(e);                                                                           \
    }

/* ---- helpers --------------------------------------------------------------------------------- */

static val real(double f) {
    return (val){.f = f};
}

static val truth(bool b) {
    return (val){.i = b};
}

/* The value of dtype d that is v modulo 2^width. bool: v is 0 or not. */
static val wrap(enum dtype d, uint64_t v) {
    return d == DT_BOOL ? truth(v != 0) : elem_from_bits(d, v);
}

static bool nonzero(enum dtype d, val v) {
    return dtype_is_float(d) ? v.f != 0 : v.i != 0;
}

static bool is_negative(enum dtype d, uint64_t a) {
    return dtype_is_signed(d) && a >> 63 != 0;
}

/* -1, 0 or 1 as a is below, equal to or above b. */
static int int_order(enum dtype d, int64_t a, int64_t b) {
    if (d == DT_U64) return ((uint64_t)a > (uint64_t)b) - ((uint64_t)a < (uint64_t)b);
    return (a > b) - (a < b);
}

static uint64_t int_pick(enum dtype d, uint64_t a, uint64_t b, bool larger) {
    bool a_is_larger = int_order(d, (int64_t)a, (int64_t)b) > 0;
    return a_is_larger == larger ? a : b;
}

static uint64_t int_abs(enum dtype d, uint64_t a) {
    return is_negative(d, a) ? 0 - a : a;
}

static double real_min(double x, double y) {
    if (isnan(x) || isnan(y)) return (double)NAN;
    if (x == y) return signbit(x) ? x : y;
    return x < y ? x : y;
}

static double real_max(double x, double y) {
    if (isnan(x) || isnan(y)) return (double)NAN;
    if (x == y) return signbit(x) ? y : x;
    return x > y ? x : y;
}

/* To the nearest integer, halves to the even one, whatever the rounding mode. */
static double half_even(double x) {
    double r = trunc(x), rest = fabs(x - r);
    if (rest > 0.5 || (rest == 0.5 && fmod(r, 2.0) != 0)) r += copysign(1.0, x);
    return copysign(r, x);
}

/* ---- one operand, float or integer ----------------------------------------------------------- */

BOTH1(NEG, -x, 0 - a)
BOTH1(ABS, fabs(x), int_abs(d, a))
/* NaN has the sign 0, as in PyTorch */
BOTH1(SIGN, (double)((x > 0) - (x < 0)), is_negative(d, a) ? ~(uint64_t)0 : a != 0)
BOTH1(SQUARE, (x * x), (a * a))
BOTH1(RELU, x < 0 ? 0.0 : x, is_negative(d, a) ? 0 : a)
BOTH1(FLOOR, floor(x), a)
BOTH1(CEIL, ceil(x), a)
BOTH1(ROUND, half_even(x), a)
BOTH1(TRUNC, trunc(x), a)
BOTH1(FRAC, x - trunc(x), a - a)

/* ---- one operand, always a float ------------------------------------------------------------- */

/* The composites amplify the error of an inner value (erfc of a large argument, exp of a product),
 * so their inner values are long doubles: wider than a double wherever the machine has that. */

static double narrow(long double v) {
    return (double)v;
}

/* e / (1 + e) for negative x: exp(-x) would overflow where the result is still representable */
static long double sigmoid(long double x) {
    long double e = expl(-fabsl(x));
    return (x < 0 ? e : 1.0L) / (1.0L + e);
}

static long double silu(long double x) {
    return x * sigmoid(x);
}

static long double mish(long double x) {
    return x * tanhl(log1pl(expl(x)));
}

static long double gelu(long double x) {
    return 0.5L * x * erfcl(-x * SQRT_HALF);
}

/* (1 + tanh(u)) / 2 = sigmoid(2u), which does not cancel for negative u */
static long double gelu_tanh(long double x) {
    long double u = SQRT_2_OVER_PI * (x + 0.044715L * x * x * x);
    return x * sigmoid(2.0L * u);
}

static long double softplus(long double x, long double beta, long double threshold) {
    return x * beta > threshold ? x : log1pl(expl(x * beta)) / beta;
}

static double relu6(double x) {
    return real_min(real_max(x, 0.0), 6.0);
}

REAL1(EXP, exp(x))
REAL1(EXP2, exp2(x))
REAL1(EXPM1, expm1(x))
REAL1(LOG, log(x))
REAL1(LOG2, log2(x))
REAL1(LOG10, log10(x))
REAL1(LOG1P, log1p(x))
REAL1(SQRT, sqrt(x))
REAL1(RSQRT, 1.0 / sqrt(x))
REAL1(RECIPROCAL, 1.0 / x)
REAL1(SIN, sin(x))
REAL1(COS, cos(x))
REAL1(TAN, tan(x))
REAL1(ASIN, asin(x))
REAL1(ACOS, acos(x))
REAL1(ATAN, atan(x))
REAL1(SINH, sinh(x))
REAL1(COSH, cosh(x))
REAL1(TANH, tanh(x))
REAL1(ASINH, asinh(x))
REAL1(ACOSH, acosh(x))
REAL1(ATANH, atanh(x))
REAL1(ERF, erf(x))
REAL1(ERFC, erfc(x))
REAL1(SIGMOID, narrow(sigmoid((long double)x)))
REAL1(SILU, narrow(silu((long double)x)))
REAL1(MISH, narrow(mish((long double)x)))
REAL1(HARDSWISH, (x * relu6(x + 3.0) / 6.0))
REAL1(HARDSIGMOID, relu6(x + 3.0) / 6.0)
REAL1(GELU, narrow(gelu((long double)x)))
REAL1(GELU_TANH, narrow(gelu_tanh((long double)x)))

/* p: beta, threshold; linear where beta x is above the threshold */
REF(SOFTPLUS) {
    (void)d;
    return real(narrow(softplus((long double)in[0].f, (long double)p[0], (long double)p[1])));
}

/* p: alpha */
REF(ELU) {
    (void)d;
    double x = in[0].f;
    return real(x > 0 ? x : p[0] * expm1(x));
}

/* p: the slope */
REF(LEAKY_RELU) {
    (void)d;
    double x = in[0].f;
    return real(x > 0 ? x : p[0] * x);
}

/* ---- tests and bits of one operand ----------------------------------------------------------- */

REF(ISNAN) {
    (void)p;
    return truth(dtype_is_float(d) && isnan(in[0].f));
}

REF(ISINF) {
    (void)p;
    return truth(dtype_is_float(d) && isinf(in[0].f));
}

REF(LOGICAL_NOT) {
    (void)p;
    return truth(!nonzero(d, in[0]));
}

REF(BITWISE_NOT) {
    (void)p;
    return d == DT_BOOL ? truth(in[0].i == 0) : wrap(d, ~(uint64_t)in[0].i);
}

/* ---- two operands: arithmetic ---------------------------------------------------------------- */

/* Sums of bools are 0, 1 or 2, which wrap() takes as `or`; products are `and`. */
BOTH2(ADD, x + y, a + b)
BOTH2(SUB, x - y, a - b)
BOTH2(MUL, (x * y), (a * b))
BOTH2(MINIMUM, real_min(x, y), int_pick(d, a, b, false))
BOTH2(MAXIMUM, real_max(x, y), int_pick(d, a, b, true))
REAL2(DIV, x / y)
REAL2(ATAN2, atan2(x, y))
REAL2(COPYSIGN, copysign(x, y))
REAL2(HYPOT, hypot(x, y))

/* The remainder with the divisor's sign. */
static double real_mod(double x, double y) {
    double r = fmod(x, y);
    return r != 0 && (y < 0) != (r < 0) ? r + y : r;
}

/* Floor division as Python defines it: from the exact remainder, so that x = q y + mod(x, y) holds
 * and a quotient that rounds up to an integer does not become too large. */
static double real_floordiv(double x, double y) {
    if (y == 0) return x / y;
    double r = fmod(x, y), q = (x - r) / y;
    if (r != 0 && (y < 0) != (r < 0)) q -= 1.0;
    if (q == 0) return copysign(0.0, x / y);
    double whole = floor(q);
    return q - whole > 0.5 ? whole + 1.0 : whole;
}

/* Quotient and remainder truncated to zero, on magnitudes: the least value divided by -1 wraps.
 * A divisor of 0 is a data error, which whoever holds the tensor reports; here it gives 0. */
static uint64_t int_div_trunc(enum dtype d, uint64_t a, uint64_t b) {
    if (b == 0) return 0;
    uint64_t q = int_abs(d, a) / int_abs(d, b);
    return is_negative(d, a) != is_negative(d, b) ? 0 - q : q;
}

static uint64_t int_fmod(enum dtype d, uint64_t a, uint64_t b) {
    return b == 0 ? 0 : a - int_div_trunc(d, a, b) * b;
}

/* Whether the truncated quotient of a by b is one above the floored one. */
static bool int_floor_is_less(enum dtype d, uint64_t a, uint64_t b) {
    return int_fmod(d, a, b) != 0 && is_negative(d, a) != is_negative(d, b);
}

static uint64_t int_floordiv(enum dtype d, uint64_t a, uint64_t b) {
    return int_div_trunc(d, a, b) - int_floor_is_less(d, a, b);
}

static uint64_t int_mod(enum dtype d, uint64_t a, uint64_t b) {
    return int_fmod(d, a, b) + (int_floor_is_less(d, a, b) ? b : 0);
}

/* By squaring, modulo 2^64. A negative exponent gives the integer part of the exact power: 0 but
 * for the bases 1 and -1; PyTorch gives 0 for the base 0 as well. */
static uint64_t int_pow(enum dtype d, uint64_t a, uint64_t b) {
    if (is_negative(d, b)) {
        if (a == 1) return 1;
        return is_negative(d, a) && int_abs(d, a) == 1 ? ((b & 1) != 0 ? a : 1) : 0;
    }
    uint64_t r = 1;
    for (; b != 0; b >>= 1, a *= a)
        if ((b & 1) != 0) r *= a;
    return r;
}

BOTH2(FLOORDIV, real_floordiv(x, y), int_floordiv(d, a, b))
BOTH2(MOD, real_mod(x, y), int_mod(d, a, b))
BOTH2(FMOD, fmod(x, y), int_fmod(d, a, b))
BOTH2(POW, pow(x, y), int_pow(d, a, b))

/* ---- two operands: bits, logic, order -------------------------------------------------------- */

/* A count below 0 shifts everything out, like a count of the width or more. */
static uint64_t int_shl(enum dtype d, uint64_t a, uint64_t b) {
    return b >= (uint64_t)dtype_bits(d) ? 0 : a << b;
}

static uint64_t int_shr(enum dtype d, uint64_t a, uint64_t b) {
    uint64_t sign = is_negative(d, a) ? ~(uint64_t)0 : 0;
    if (b >= (uint64_t)dtype_bits(d)) return sign;
    return sign ^ ((sign ^ a) >> b); /* shifts in copies of the sign */
}

BITS2(BITWISE_AND, (a & b))
BITS2(BITWISE_OR, a | b)
BITS2(BITWISE_XOR, a ^ b)
BITS2(SHIFT_LEFT, int_shl(d, a, b))
BITS2(SHIFT_RIGHT, int_shr(d, a, b))
LOGIC2(LOGICAL_AND, (a && b))
LOGIC2(LOGICAL_OR, a || b)
LOGIC2(LOGICAL_XOR, a != b)
COMPARE(EQ, x == y, == 0)
COMPARE(NE, x != y, != 0)
COMPARE(LT, x < y, < 0)
COMPARE(LE, x <= y, <= 0)
COMPARE(GT, x > y, > 0)
COMPARE(GE, x >= y, >= 0)

/* min(max(x, lo), hi): hi wins where the bounds cross */
REF(CLAMP) {
    const val low[2] = {ref_MAXIMUM(d, in, p), in[2]};
    return ref_MINIMUM(d, low, p);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The names that ops.def uses for flags. */
enum {
    COMM = OPF_COMM,
    BOOLOK = OPF_BOOLOK,
    QOK = OPF_QOK,
    DISC = OPF_DISC,
    INTID = OPF_INTID,
    ZERODIV = OPF_ZERODIV,
    HASPARAM = OPF_HASPARAM,
    COMPOSITE = OPF_COMPOSITE
};

const struct op_info *ref_op_info(enum op op) {
    static const struct op_info table[OP_EW_END] = {
#define EW(id, text, count, kind, flag, err, cpu, issue, unit, expr)                               \
    [OP_##id] = {.name = (text),                                                                   \
                 .arity = (count),                                                                 \
                 .rule = RULE_##kind,                                                              \
                 .flags = (flag),                                                                  \
                 .ulp = (err),                                                                     \
                 .work = (cpu),                                                                    \
                 .slots = (issue),                                                                 \
                 .special = (unit),                                                                \
                 .c = (expr),                                                                      \
                 .ref = ref_##id},
#include "ops/ops.def"
#undef EW
    };
    return &table[op];
}
