/* SPDX-License-Identifier: MIT
 * Dtypes: every 8- and 16-bit pattern is decoded by a formula of its own and must survive a round
 * trip; rounding is compared with a search for the nearest value among all values of the format, at
 * every value, every midpoint, the doubles next to each, and a few thousand random doubles.
 */
#include "ops/dtype.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define INF  HUGE_VAL
#define QNAN ((double)NAN)

static const enum dtype all[] = {
#define ID(id, name, bits, cat, sig) DT_##id,
    DTYPE_LIST(ID)
#undef ID
};

static uint64_t rng(uint64_t *s) {
    *s += 0x9E3779B97F4A7C15U;
    uint64_t z = *s;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

static bool same(double a, double b) {
    return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b));
}

#define check_same(got, want, what)                                                                \
    do {                                                                                           \
        double got_ = (got), want_ = (want);                                                       \
        if (!same(got_, want_)) fail_msg("%s: %a, wanted %a", (what), got_, want_);                \
    } while (0)

static union scalar real(double f) {
    return (union scalar){.f = f};
}

static union scalar integer(int64_t i) {
    return (union scalar){.i = i};
}

/* ---- names and sizes ------------------------------------------------------------------------- */

static void test_names(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        const char *name = dtype_name(all[i]);
        assert_int_equal(dtype_from_name(name, strlen(name)), all[i]);
    }
    assert_int_equal(dtype_from_name("f8e4m3fn", 8), DT_F8E4M3FN);
    assert_int_equal(dtype_from_name("i16", 2), DT_NONE);
    assert_int_equal(dtype_from_name("f3", 2), DT_NONE);
    assert_int_equal(dtype_from_name("none", 4), DT_NONE);
    assert_int_equal(dtype_from_name("", 0), DT_NONE);
    assert_int_equal(dtype_cat(DT_BOOL), CAT_B);
    assert_int_equal(dtype_cat(DT_E8M0), CAT_Q);
    assert_int_equal(dtype_cat(DT_NONE), CAT_NONE);
    assert_true(dtype_is_int(DT_U2) && dtype_is_int(DT_I64) && !dtype_is_int(DT_BOOL));
    assert_true(dtype_is_float(DT_F4E2M1FN) && !dtype_has_arith(DT_F4E2M1FN));
    assert_true(dtype_has_arith(DT_BOOL) && !dtype_has_arith(DT_NONE));
    assert_true(dtype_is_signed(DT_I2) && !dtype_is_signed(DT_U64) && !dtype_is_signed(DT_F32));
    assert_true(dtype_is_subbyte(DT_F4E2M1FN) && dtype_is_subbyte(DT_U2));
    assert_false(dtype_is_subbyte(DT_BOOL) || dtype_is_subbyte(DT_NONE));
    assert_int_equal(dtype_significand(DT_BF16), 8);
}

static void test_bytes(void **state) {
    (void)state;
    assert_int_equal(dtype_bytes(DT_F32, 5), 20);
    assert_int_equal(dtype_bytes(DT_BOOL, 5), 5);
    assert_int_equal(dtype_bytes(DT_I4, 5), 3);
    assert_int_equal(dtype_bytes(DT_U2, 5), 2);
    assert_int_equal(dtype_bytes(DT_U2, 8), 2);
    assert_int_equal(dtype_bytes(DT_F64, 0), 0);
    assert_int_equal(dtype_bytes(DT_F64, INT64_MAX / 8), INT64_MAX / 8 * 8);
    assert_int_equal(dtype_bytes(DT_F64, INT64_MAX / 8 + 1), -1);
    assert_int_equal(dtype_bytes(DT_I4, INT64_MAX), INT64_MAX / 2 + 1);
    assert_int_equal(dtype_bytes(DT_I8, -1), -1);
    assert_int_equal(dtype_bytes(DT_NONE, 1), -1);
}

static void check_range(enum dtype d, int64_t want_min, int64_t want_max) {
    int64_t min, max;
    dtype_int_range(d, &min, &max);
    assert_int_equal(min, want_min);
    assert_int_equal(max, want_max);
}

static void test_ranges(void **state) {
    (void)state;
    check_range(DT_I64, INT64_MIN, INT64_MAX);
    check_range(DT_I32, INT32_MIN, INT32_MAX);
    check_range(DT_I16, -32768, 32767);
    check_range(DT_I8, -128, 127);
    check_range(DT_I4, -8, 7);
    check_range(DT_I2, -2, 1);
    check_range(DT_U64, 0, INT64_MAX);
    check_range(DT_U32, 0, UINT32_MAX);
    check_range(DT_U16, 0, 65535);
    check_range(DT_U8, 0, 255);
    check_range(DT_U4, 0, 15);
    check_range(DT_U2, 0, 3);
    check_range(DT_BOOL, 0, 1);
    assert_true(dtype_max_finite(DT_F64) == DBL_MAX);
    assert_true(dtype_max_finite(DT_F32) == (double)FLT_MAX);
    assert_true(dtype_max_finite(DT_F16) == 65504);
    assert_true(dtype_max_finite(DT_BF16) == ldexp(255, 120));
    assert_true(dtype_max_finite(DT_F8E4M3FN) == 448);
    assert_true(dtype_max_finite(DT_F8E5M2) == 57344);
    assert_true(dtype_max_finite(DT_F4E2M1FN) == 6);
    assert_true(dtype_max_finite(DT_E8M0) == ldexp(1, 127));
}

static void test_lanes(void **state) {
    (void)state;
    static const enum dtype lanes[][2] = {
        {DT_F64, DT_F64},    {DT_F32, DT_F32},      {DT_F16, DT_F32},  {DT_BF16, DT_F32},
        {DT_F8E5M2, DT_F32}, {DT_F4E2M1FN, DT_F32}, {DT_E8M0, DT_F32}, {DT_I64, DT_I64},
        {DT_I32, DT_I32},    {DT_I16, DT_I32},      {DT_I2, DT_I32},   {DT_U64, DT_U64},
        {DT_U32, DT_U32},    {DT_U16, DT_U32},      {DT_U4, DT_U32},   {DT_BOOL, DT_I32},
        {DT_NONE, DT_NONE},
    };
    for (size_t i = 0; i < COUNT_OF(lanes); i++)
        assert_int_equal(dtype_lane(lanes[i][0]), lanes[i][1]);
}

/* ---- formats --------------------------------------------------------------------------------- */

/* A format by its fields, as its specification gives them. */
struct spec {
    enum dtype d;
    int exp_bits, frac_bits, bias;
    bool has_inf, has_nan;
    double max;
    double overflow;       /* the least magnitude that does not round to max */
    bool overflow_is_open; /* that magnitude itself still rounds to max */
};

static const struct spec specs[] = {
    {DT_F16, 5, 10, 15, true, true, 65504, 65520, false},
    {DT_BF16, 8, 7, 127, true, true, 0x1.fep127, 0x1.ffp127, false},
    {DT_F8E4M3FN, 4, 3, 7, false, true, 448, 464, true},
    {DT_F8E5M2, 5, 2, 15, true, true, 57344, 61440, false},
    {DT_F4E2M1FN, 2, 1, 1, false, false, 6, INF, false},
};

static double decode(const struct spec *f, unsigned bits) {
    unsigned frac = bits & ((1U << f->frac_bits) - 1);
    unsigned exp_max = (1U << f->exp_bits) - 1, exp = bits >> f->frac_bits & exp_max;
    double sign = bits >> (f->exp_bits + f->frac_bits) != 0 ? -1.0 : 1.0;
    if (f->has_inf && exp == exp_max) return frac == 0 ? sign * INF : QNAN;
    if (f->has_nan && !f->has_inf && exp == exp_max && frac == (1U << f->frac_bits) - 1)
        return QNAN;
    if (exp == 0) return sign * ldexp(frac, 1 - f->bias - f->frac_bits);
    return sign * ldexp(frac + (1U << f->frac_bits), (int)exp - f->bias - f->frac_bits);
}

static void test_patterns(void **state) {
    (void)state;
    for (size_t s = 0; s < COUNT_OF(specs); s++) {
        const struct spec *f = &specs[s];
        unsigned n = 2U << (f->exp_bits + f->frac_bits);
        assert_int_equal(n, 1U << dtype_bits(f->d));
        for (unsigned bits = 0; bits < n; bits++) {
            union scalar v = elem_from_bits(f->d, bits);
            check_same(v.f, decode(f, bits), dtype_name(f->d));
            assert_int_equal(elem_bits(f->d, v), bits);
            check_same(float_round(f->d, v.f, false), isnan(v.f) ? QNAN : v.f, "round");
        }
    }
}

static void test_known_patterns(void **state) {
    (void)state;
    static const struct {
        enum dtype d;
        uint64_t bits;
        double v;
    } known[] = {
        {DT_F64, 0x3FF0000000000000, 1},
        {DT_F64, 1, 0x1p-1074},
        {DT_F32, 0x3F800000, 1},
        {DT_F32, 1, 0x1p-149},
        {DT_F32, 0x80000000, -0.0},
        {DT_F32, 0x7F7FFFFF, (double)FLT_MAX},
        {DT_F32, 0xFF800000, -INF},
        {DT_F16, 0x3555, 0.333251953125},
        {DT_F16, 0x0001, 0x1p-24},
        {DT_F16, 0x7BFF, 65504},
        {DT_F16, 0xFC00, -INF},
        {DT_BF16, 0x4049, 3.140625},
        {DT_F8E4M3FN, 0x01, 0x1p-9},
        {DT_F8E4M3FN, 0x38, 1},
        {DT_F8E4M3FN, 0xFE, -448},
        {DT_F8E5M2, 0x01, 0x1p-16},
        {DT_F8E5M2, 0x3C, 1},
        {DT_F8E5M2, 0x7B, 57344},
        {DT_F8E5M2, 0x7C, INF},
        {DT_F4E2M1FN, 0x1, 0.5},
        {DT_F4E2M1FN, 0x7, 6},
        {DT_F4E2M1FN, 0x8, -0.0},
        {DT_E8M0, 0, 0x1p-127},
        {DT_E8M0, 127, 1},
        {DT_E8M0, 254, 0x1p127},
    };
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        check_same(elem_from_bits(known[i].d, known[i].bits).f, known[i].v, dtype_name(known[i].d));
        assert_int_equal(elem_bits(known[i].d, real(known[i].v)), known[i].bits);
    }
    assert_true(isnan(elem_from_bits(DT_E8M0, 255).f));
    assert_true(isnan(elem_from_bits(DT_F8E4M3FN, 0x7F).f));
    for (unsigned bits = 0; bits < 256; bits++)
        assert_int_equal(elem_bits(DT_E8M0, elem_from_bits(DT_E8M0, bits)), bits);
}

/* ---- rounding -------------------------------------------------------------------------------- */

/* The finite values 0 <= v of a format, ascending; the pattern of value i is i. */
static int magnitudes(const struct spec *f, double *out) {
    int n = 0;
    for (unsigned bits = 0; bits < 1U << (f->exp_bits + f->frac_bits); bits++) {
        double v = decode(f, bits);
        if (isfinite(v)) out[n++] = v;
    }
    return n;
}

static double overflowed(const struct spec *f, bool saturate) {
    if (saturate && dtype_bits(f->d) == 8) return f->max;
    return f->has_inf ? INF : f->has_nan ? QNAN : f->max;
}

/* The value nearest to v, found by comparing the distances to both neighbours. */
static double nearest(const struct spec *f, const double *values, int n, double v, bool saturate) {
    double a = fabs(v), r;
    if (isnan(v)) return f->has_nan ? v : 6.0;
    if (a > f->overflow || (a == f->overflow && !f->overflow_is_open)) {
        r = overflowed(f, saturate);
    } else if (a >= f->max) {
        r = f->max;
    } else {
        int lo = 0, hi = n - 1;
        while (hi - lo > 1) {
            int mid = (lo + hi) / 2;
            *(values[mid] <= a ? &lo : &hi) = mid;
        }
        double below = a - values[lo], above = values[hi] - a;
        r = below < above || (below == above && lo % 2 == 0) ? values[lo] : values[hi];
    }
    return copysign(r, v);
}

static void check_round(const struct spec *f, const double *values, int n, double v) {
    for (int neg = 0; neg < 2; neg++) {
        for (int sat = 0; sat < 2; sat++) {
            double x = neg != 0 ? -v : v, want = nearest(f, values, n, x, sat != 0);
            double got = float_round(f->d, x, sat != 0);
            if (!same(got, want) || (isnan(got) && !signbit(got) != !signbit(x)))
                fail_msg("%s: %a rounds to %a, wanted %a", dtype_name(f->d), x, got, want);
        }
    }
}

static void check_around(const struct spec *f, const double *values, int n, double v) {
    check_round(f, values, n, v);
    check_round(f, values, n, nextafter(v, 0));
    check_round(f, values, n, nextafter(v, INF));
}

static void test_rounding(void **state) {
    (void)state;
    static double values[32768];
    uint64_t seed = 1;
    for (size_t s = 0; s < COUNT_OF(specs); s++) {
        const struct spec *f = &specs[s];
        int n = magnitudes(f, values);
        assert_true(values[n - 1] == f->max);
        for (int i = 0; i < n; i++) {
            check_around(f, values, n, values[i]);
            if (i > 0) check_around(f, values, n, values[i - 1] / 2 + values[i] / 2);
        }
        if (isfinite(f->overflow)) check_around(f, values, n, f->overflow);
        for (int i = 0; i < 4000; i++) {
            /* exponents from far below the least value to far above the largest */
            int span = 2 * f->bias + 2 * f->frac_bits + 12;
            int e = (int)(rng(&seed) % (uint64_t)span) - span / 2 - f->frac_bits;
            double m = 1.0 + (double)(rng(&seed) >> 12) * 0x1p-52;
            check_round(f, values, n, ldexp(m, e));
        }
        check_round(f, values, n, INF);
        check_round(f, values, n, QNAN);
        check_round(f, values, n, DBL_MAX);
        check_round(f, values, n, 0x1p-1074);
        check_round(f, values, n, 0x1p-1022);
    }
}

/* A value just above a midpoint of f16 that rounds down if it passes through f32 first. */
static void test_no_double_rounding(void **state) {
    (void)state;
    check_same(float_round(DT_F16, 1 + 0x1p-11 + 0x1p-40, false), 1 + 0x1p-10, "f16");
    check_same(float_round(DT_BF16, 1 + 0x1p-8 + 0x1p-40, false), 1 + 0x1p-7, "bf16");
    check_same(float_round(DT_F8E4M3FN, 1 + 0x1p-4 + 0x1p-50, false), 1.125, "f8e4m3fn");
    uint64_t u = ((uint64_t)1 << 60) + ((uint64_t)1 << 52);
    union scalar tie = integer((int64_t)u), above = integer((int64_t)(u + 1));
    check_same(elem_cast(DT_U64, tie, DT_BF16, false).f, 0x1p60, "u64 tie");
    check_same(elem_cast(DT_U64, above, DT_BF16, false).f, 0x1p60 + 0x1p53, "u64 above a tie");
    check_same(elem_cast(DT_I64, above, DT_BF16, false).f, 0x1p60 + 0x1p53, "i64 above a tie");
    above.i = -above.i;
    check_same(elem_cast(DT_I64, above, DT_BF16, false).f, -0x1p60 - 0x1p53, "-i64 above a tie");
}

static void test_f32(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (int i = 0; i < 20000; i++) {
        uint64_t u = rng(&seed);
        if (i % 2 != 0) { /* close to a midpoint, within the exponents of f32 */
            uint64_t e = 1023 - 155 + u % 290;
            u = (u & ~((uint64_t)0x7FF << 52)) | e << 52;
            u = (u & ~(uint64_t)0x1FFFFFFF) | (uint64_t)(0x10000000 + i % 8 - 4);
        }
        double v;
        memcpy(&v, &u, sizeof v);
        if (isnan(v)) continue;
        check_same(float_round(DT_F32, v, false), (double)(float)v, "f32");
        int64_t k = (int64_t)(rng(&seed) >> (i % 60));
        check_same(elem_cast(DT_I64, integer(k), DT_F32, false).f, (double)(float)k, "i64");
        check_same(elem_cast(DT_I64, integer(-k), DT_F32, false).f, (double)(float)-k, "-i64");
        check_same(elem_cast(DT_U64, integer(k), DT_F32, false).f, (double)(float)(uint64_t)k,
                   "u64");
        check_same(elem_cast(DT_U64, integer(k), DT_F64, false).f, (double)(uint64_t)k, "u64");
        uint32_t bits = (uint32_t)rng(&seed);
        float f;
        memcpy(&f, &bits, sizeof f);
        check_same(elem_from_bits(DT_F32, bits).f, (double)f, "f32 bits");
        assert_int_equal(elem_bits(DT_F32, elem_from_bits(DT_F32, bits)), bits);
        assert_int_equal(elem_bits(DT_F64, elem_from_bits(DT_F64, u)), u);
    }
    check_same(elem_cast(DT_F64, real(1e300), DT_F32, true).f, INF, "f32 overflow");
    assert_int_equal(elem_bits(DT_F32, elem_from_bits(DT_F32, 0xFFA00001)), 0xFFA00001);
}

static void test_e8m0(void **state) {
    (void)state;
    static const double pairs[][2] = {
        {1, 1},
        {1.0000001, 2},
        {2, 2},
        {3, 4},
        {4.5, 8},
        {0.75, 1},
        {0.5, 0.5},
        {0x1p-127, 0x1p-127},
        {0x1.8p-127, 0x1p-126},
        {0x1p-128, 0x1p-127},
        {0, 0x1p-127},
        {-0.0, 0x1p-127},
        {-5, 0x1p-127},
        {0x1p-1074, 0x1p-127},
        {0x1p127, 0x1p127},
        {0x1.8p126, 0x1p127},
        {0x1.0000000000001p127, 0x1p127},
        {0x1p200, 0x1p127},
        {INF, 0x1p127},
        {-INF, 0x1p-127},
        {QNAN, QNAN},
        {0x1.0000000000001p126, 0x1p127},
    };
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        check_same(elem_cast(DT_F64, real(pairs[i][0]), DT_E8M0, false).f, pairs[i][1], "e8m0");
        check_same(elem_cast(DT_F64, real(pairs[i][0]), DT_E8M0, true).f, pairs[i][1], "e8m0");
    }
    for (unsigned bits = 1; bits < 0x7F80; bits++) { /* every positive bf16 */
        double v = elem_from_bits(DT_BF16, bits).f, want = 0x1p-127;
        while (want < v && want < 0x1p127)
            want *= 2;
        check_same(elem_cast(DT_BF16, real(v), DT_E8M0, false).f, want, "bf16 to e8m0");
    }
    check_same(elem_cast(DT_U64, integer(-1), DT_E8M0, false).f, 0x1p64, "u64 to e8m0");
    check_same(elem_cast(DT_I64, integer((1LL << 62) + 1), DT_E8M0, false).f, 0x1p63, "i64");
    check_same(elem_cast(DT_I8, integer(-3), DT_E8M0, false).f, 0x1p-127, "i8 to e8m0");
    check_same(elem_cast(DT_E8M0, real(0x1p-127), DT_F32, false).f, 0x1p-127, "e8m0 to f32");
    check_same(elem_cast(DT_E8M0, real(0x1p100), DT_F16, false).f, INF, "to f16");
}

/* ---- casts ----------------------------------------------------------------------------------- */

static void test_special_casts(void **state) {
    (void)state;
    static const struct {
        double from;
        enum dtype to;
        bool saturate;
        double want;
    } cases[] = {
        {1e9, DT_F8E4M3FN, false, QNAN},
        {1e9, DT_F8E4M3FN, true, 448},
        {-1e9, DT_F8E4M3FN, true, -448},
        {INF, DT_F8E4M3FN, false, QNAN},
        {INF, DT_F8E4M3FN, true, 448},
        {QNAN, DT_F8E4M3FN, true, QNAN},
        {464, DT_F8E4M3FN, false, 448},
        {464.5, DT_F8E4M3FN, false, QNAN},
        {1e9, DT_F8E5M2, false, INF},
        {-1e9, DT_F8E5M2, false, -INF},
        {1e9, DT_F8E5M2, true, 57344},
        {-INF, DT_F8E5M2, true, -57344},
        {QNAN, DT_F8E5M2, true, QNAN},
        {61440, DT_F8E5M2, false, INF},
        {61439, DT_F8E5M2, false, 57344},
        {7, DT_F4E2M1FN, false, 6},
        {-7, DT_F4E2M1FN, false, -6},
        {QNAN, DT_F4E2M1FN, false, 6},
        {-INF, DT_F4E2M1FN, false, -6},
        {5, DT_F4E2M1FN, false, 4},
        {0.25, DT_F4E2M1FN, false, 0},
        {0.75, DT_F4E2M1FN, false, 1},
        {-0.1, DT_F4E2M1FN, false, -0.0},
        {2.5, DT_F4E2M1FN, false, 2},
        {65520, DT_F16, false, INF},
        {65519.9, DT_F16, false, 65504},
        {1e9, DT_F16, true, INF},
        {0x1p-25, DT_F16, false, 0},
        {0x1.8p-25, DT_F16, false, 0x1p-24},
        {-0.0, DT_BF16, false, -0.0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        union scalar v = elem_cast(DT_F64, real(cases[i].from), cases[i].to, cases[i].saturate);
        check_same(v.f, cases[i].want, dtype_name(cases[i].to));
    }
    assert_false(signbit(elem_cast(DT_F64, real(-QNAN), DT_F4E2M1FN, false).f));
}

/* Every f16 value, scaled so that it reaches over each type's range, to every integer dtype. */
static void test_float_to_int(void **state) {
    (void)state;
    for (size_t t = 0; t < COUNT_OF(all); t++) {
        enum dtype to = all[t];
        if (!dtype_is_int(to)) continue;
        double top = ldexp(1, dtype_significand(to)), low = dtype_is_signed(to) ? -top : 0;
        for (unsigned bits = 0; bits < 65536; bits++) {
            double v = elem_from_bits(DT_F16, bits).f * top / 1024;
            int64_t got = elem_cast(DT_F64, real(v), to, false).i;
            double value = to == DT_U64 ? (double)(uint64_t)got : (double)got;
            double want = isnan(v) ? 0 : trunc(v);
            if (want >= top) {
                int64_t min, max;
                dtype_int_range(to, &min, &max);
                assert_int_equal(got, to == DT_U64 ? -1 : max);
            } else {
                assert_true(value == (want < low ? low : want));
            }
        }
    }
    assert_int_equal(elem_cast(DT_F64, real(9223372036854774784.0), DT_I64, false).i,
                     9223372036854774784);
    assert_int_equal(elem_cast(DT_F64, real(0x1p63), DT_U64, false).i, INT64_MIN);
    assert_int_equal(elem_cast(DT_F64, real(-0x1p63), DT_I64, false).i, INT64_MIN);
    assert_int_equal(elem_cast(DT_F32, real(-1.9), DT_I8, false).i, -1);
    assert_int_equal(elem_cast(DT_F8E5M2, real(INF), DT_I4, false).i, 7);
    assert_int_equal(elem_cast(DT_F32, real(-INF), DT_U8, false).i, 0);
}

static void test_int_to_int(void **state) {
    (void)state;
    for (int v = -32768; v < 65536; v++) {
        enum dtype from = v < 0 ? DT_I16 : DT_U16;
        assert_int_equal(elem_cast(from, integer(v), DT_I8, false).i, (v + 65664) % 256 - 128);
        assert_int_equal(elem_cast(from, integer(v), DT_U8, false).i, (v + 65536) % 256);
        assert_int_equal(elem_cast(from, integer(v), DT_I4, false).i, (v + 65544) % 16 - 8);
        assert_int_equal(elem_cast(from, integer(v), DT_U4, false).i, (v + 65536) % 16);
        assert_int_equal(elem_cast(from, integer(v), DT_I2, true).i, (v + 65538) % 4 - 2);
        assert_int_equal(elem_cast(from, integer(v), DT_U2, false).i, (v + 65536) % 4);
        assert_int_equal(elem_cast(from, integer(v), DT_I64, false).i, v);
        assert_int_equal(elem_cast(from, integer(v), DT_U32, false).i, (uint32_t)v);
        assert_int_equal(elem_cast(from, integer(v), DT_F64, false).f == v, 1);
    }
    assert_int_equal(elem_cast(DT_I8, integer(-1), DT_U64, false).i, -1);
    assert_int_equal(elem_cast(DT_U64, integer(-1), DT_I64, false).i, -1);
    assert_int_equal(elem_cast(DT_U64, integer(-1), DT_I32, false).i, -1);
    assert_int_equal(elem_cast(DT_I64, integer(0x180000000), DT_I32, false).i, INT32_MIN);
}

static void test_bool(void **state) {
    (void)state;
    assert_int_equal(elem_cast(DT_F32, real(QNAN), DT_BOOL, false).i, 1);
    assert_int_equal(elem_cast(DT_F32, real(-0.0), DT_BOOL, false).i, 0);
    assert_int_equal(elem_cast(DT_F32, real(0.25), DT_BOOL, false).i, 1);
    assert_int_equal(elem_cast(DT_E8M0, real(0x1p-127), DT_BOOL, false).i, 1);
    assert_int_equal(elem_cast(DT_I32, integer(256), DT_BOOL, false).i, 1);
    assert_int_equal(elem_cast(DT_U64, integer(INT64_MIN), DT_BOOL, false).i, 1);
    assert_int_equal(elem_cast(DT_I8, integer(0), DT_BOOL, false).i, 0);
    check_same(elem_cast(DT_BOOL, integer(1), DT_BF16, false).f, 1, "bool to bf16");
    assert_int_equal(elem_cast(DT_BOOL, integer(1), DT_I2, false).i, 1);
    assert_int_equal(elem_from_bits(DT_BOOL, 2).i, 1);
    assert_int_equal(elem_bits(DT_BOOL, integer(7)), 1);
}

/* Every pair of dtypes: the result is a value of the target, and casting it again changes nothing;
 * a wider float holds every value of a narrower one. */
static void test_all_pairs(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (size_t a = 0; a < COUNT_OF(all); a++) {
        for (size_t b = 0; b < COUNT_OF(all); b++) {
            for (int i = 0; i < 300; i++) {
                union scalar v = elem_from_bits(all[a], rng(&seed));
                union scalar r = elem_cast(all[a], v, all[b], false);
                union scalar again = elem_from_bits(all[b], elem_bits(all[b], r));
                if (dtype_is_float(all[b])) {
                    check_same(again.f, r.f, dtype_name(all[b]));
                } else {
                    assert_int_equal(again.i, r.i);
                }
                union scalar back =
                    elem_cast(DT_F64, elem_cast(all[a], v, DT_F64, false), all[b], false);
                bool wide_int = dtype_is_int(all[a]) && dtype_bits(all[a]) == 64;
                if (dtype_is_float(all[b]) && !wide_int) check_same(back.f, r.f, "through f64");
            }
        }
    }
}

/* ---- packed elements ------------------------------------------------------------------------- */

static void check_packed(enum dtype d) {
    int n = 19;
    size_t bytes = (size_t)dtype_bytes(d, n);
    unsigned char *buf = malloc(bytes);
    union scalar want[19];
    uint64_t seed = (uint64_t)d;
    assert_non_null(buf);
    memset(buf, 0xA5, bytes);
    for (int i = 0; i < n; i++)
        want[i] = elem_load(d, buf, i);
    for (int step = 0; step < 200; step++) {
        int at = (int)(rng(&seed) % (uint64_t)n);
        want[at] = elem_from_bits(d, rng(&seed));
        elem_store(d, buf, at, want[at]);
        for (int i = 0; i < n; i++)
            assert_int_equal(elem_bits(d, elem_load(d, buf, i)), elem_bits(d, want[i]));
    }
    free(buf);
}

static void test_packed(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++)
        check_packed(all[i]);
    unsigned char b[2] = {0x21, 0xF3};
    assert_int_equal(elem_load(DT_U4, b, 0).i, 1);
    assert_int_equal(elem_load(DT_U4, b, 1).i, 2);
    assert_int_equal(elem_load(DT_I4, b, 3).i, -1);
    assert_int_equal(elem_load(DT_U2, b, 2).i, 2);
    assert_int_equal(elem_load(DT_I2, b, 4).i, -1);
    check_same(elem_load(DT_F4E2M1FN, b, 2).f, 1.5, "f4");
    elem_store(DT_I2, b, 5, integer(-2));
    assert_int_equal(b[1], 0xFB);
    elem_store(DT_I4, b, 0, integer(-8));
    assert_int_equal(b[0], 0x28);
    unsigned char odd[5] = {0, 0, 0, 0x80, 0x3F}; /* unaligned */
    check_same(elem_load(DT_F32, odd + 1, 0).f, 1, "unaligned f32");
}

/* ---- promotion ------------------------------------------------------------------------------- */

struct promotion {
    enum dtype a, b, want;
};

static const struct promotion promotions[] = {
    {DT_F16, DT_BF16, DT_F32},   {DT_F16, DT_F32, DT_F32},      {DT_BF16, DT_F64, DT_F64},
    {DT_F16, DT_I64, DT_F16},    {DT_BF16, DT_U64, DT_BF16},    {DT_F32, DT_BOOL, DT_F32},
    {DT_F16, DT_I4, DT_F16},     {DT_BOOL, DT_BOOL, DT_BOOL},   {DT_BOOL, DT_I8, DT_I8},
    {DT_BOOL, DT_U64, DT_U64},   {DT_BOOL, DT_U2, DT_U8},       {DT_I8, DT_I16, DT_I16},
    {DT_I64, DT_I32, DT_I64},    {DT_U8, DT_U16, DT_U16},       {DT_U32, DT_U64, DT_U64},
    {DT_U8, DT_I8, DT_I16},      {DT_U8, DT_I16, DT_I16},       {DT_U8, DT_I32, DT_I32},
    {DT_U8, DT_I64, DT_I64},     {DT_U16, DT_I8, DT_I32},       {DT_U16, DT_I16, DT_I32},
    {DT_U16, DT_I32, DT_I32},    {DT_U16, DT_I64, DT_I64},      {DT_U32, DT_I8, DT_I64},
    {DT_U32, DT_I32, DT_I64},    {DT_U32, DT_I64, DT_I64},      {DT_U64, DT_I8, DT_NONE},
    {DT_U64, DT_I64, DT_NONE},   {DT_U64, DT_I4, DT_NONE},      {DT_I4, DT_U4, DT_I8},
    {DT_U2, DT_I4, DT_I8},       {DT_I4, DT_U8, DT_I16},        {DT_I4, DT_I2, DT_I8},
    {DT_U4, DT_U2, DT_U8},       {DT_U4, DT_I8, DT_I16},        {DT_U4, DT_U16, DT_U16},
    {DT_I4, DT_I32, DT_I32},     {DT_F8E5M2, DT_F32, DT_NONE},  {DT_F8E5M2, DT_F8E4M3FN, DT_NONE},
    {DT_E8M0, DT_BOOL, DT_NONE}, {DT_F4E2M1FN, DT_I8, DT_NONE}, {DT_NONE, DT_F32, DT_NONE},
};

static void test_promotion(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(promotions); i++) {
        const struct promotion *p = &promotions[i];
        for (int arith = 0; arith < 2; arith++) {
            enum dtype ab = dtype_promote(p->a, p->b, arith != 0);
            if (ab != p->want)
                fail_msg("%s with %s: %s", dtype_name(p->a), dtype_name(p->b), dtype_name(ab));
            assert_int_equal(dtype_promote(p->b, p->a, arith != 0), p->want);
        }
    }
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        enum dtype d = all[i];
        bool small_int = dtype_is_subbyte(d) && dtype_is_int(d);
        enum dtype wide = !small_int ? d : dtype_is_signed(d) ? DT_I8 : DT_U8;
        assert_int_equal(dtype_promote(d, d, false), d);
        assert_int_equal(dtype_promote(d, d, true), wide);
        for (size_t j = 0; j < COUNT_OF(all); j++)
            for (int k = 0; k < 4; k++)
                assert_int_equal(dtype_promote_ranked(d, k & 1, all[j], k & 2, true),
                                 dtype_promote_ranked(all[j], k & 2, d, k & 1, true));
    }
}

static void test_promotion_ranked(void **state) {
    (void)state;
    /* the first has dims, the second is 0-dim */
    static const struct promotion weak[] = {
        {DT_F16, DT_F32, DT_F16},     {DT_F16, DT_F64, DT_F16},     {DT_F32, DT_BF16, DT_F32},
        {DT_F16, DT_I64, DT_F16},     {DT_I8, DT_I64, DT_I8},       {DT_U8, DT_I32, DT_U8},
        {DT_I64, DT_I8, DT_I64},      {DT_I8, DT_F32, DT_F32},      {DT_I64, DT_F16, DT_F16},
        {DT_BOOL, DT_I8, DT_I8},      {DT_BOOL, DT_F64, DT_F64},    {DT_BOOL, DT_BOOL, DT_BOOL},
        {DT_I8, DT_BOOL, DT_I8},      {DT_U64, DT_I8, DT_U64},      {DT_I8, DT_U64, DT_I8},
        {DT_I4, DT_I32, DT_I8},       {DT_BOOL, DT_U4, DT_U8},      {DT_I4, DT_U4, DT_I8},
        {DT_F32, DT_F8E5M2, DT_NONE}, {DT_F8E5M2, DT_F32, DT_NONE}, {DT_F32, DT_NONE, DT_NONE},
    };
    for (size_t i = 0; i < COUNT_OF(weak); i++) {
        const struct promotion *p = &weak[i];
        assert_int_equal(dtype_promote_ranked(p->a, false, p->b, true, true), p->want);
        assert_int_equal(dtype_promote_ranked(p->b, true, p->a, false, true), p->want);
    }
    assert_int_equal(dtype_promote_ranked(DT_F16, true, DT_F32, true, true), DT_F32);
    assert_int_equal(dtype_promote_ranked(DT_F16, false, DT_F32, false, true), DT_F32);
    assert_int_equal(dtype_promote_ranked(DT_I4, false, DT_I4, true, false), DT_I4);
    assert_int_equal(dtype_promote_ranked(DT_I4, false, DT_I4, true, true), DT_I8);
    assert_int_equal(dtype_promote_ranked(DT_F8E5M2, false, DT_F8E5M2, true, false), DT_F8E5M2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),         cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_ranges),        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_patterns),      cmocka_unit_test(test_known_patterns),
        cmocka_unit_test(test_rounding),      cmocka_unit_test(test_no_double_rounding),
        cmocka_unit_test(test_f32),           cmocka_unit_test(test_e8m0),
        cmocka_unit_test(test_special_casts), cmocka_unit_test(test_float_to_int),
        cmocka_unit_test(test_int_to_int),    cmocka_unit_test(test_bool),
        cmocka_unit_test(test_all_pairs),     cmocka_unit_test(test_packed),
        cmocka_unit_test(test_promotion),     cmocka_unit_test(test_promotion_ranked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
