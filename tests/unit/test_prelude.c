/* SPDX-License-Identifier: MIT
 * The prelude's functions against the reference functions of ops/ref.c: every function of ops.def
 * in every lane type, on special values, bit patterns at random and values of ordinary size. f32
 * must keep to the ulp column of the table; integers and comparisons must be equal. Prints the
 * largest error of each f32 function. test_prelude N tests N values each (default 100000).
 */
#include "prelude/prelude.h"

static long n_values = 100000;

typedef void (*lane_fn)(const union lanes *in, union lanes *out);

struct fn_case {
    const char *name;
    enum op op;
    enum dtype d; /* operands */
    bool mask;    /* the result is a mask */
    lane_fn f;
    double p[2];
};

/* ---- the functions, on memory -----------------------------------------------------------------
 */

#define IN(lane, i) pk_ld_##lane##_(&in[i])
#define LANE_IO(lane, member)                                                                      \
    static inline lane pk_ld_##lane##_(const union lanes *p) {                                     \
        lane v;                                                                                    \
        memcpy(&v, p->member, sizeof v);                                                           \
        return v;                                                                                  \
    }                                                                                              \
    static inline void pk_st_##lane##_(union lanes *p, lane v) {                                   \
        memcpy(p->member, &v, sizeof v);                                                           \
    }
LANE_IO(vf32, f32)
LANE_IO(vf64, f64)
LANE_IO(vi32, i32)
LANE_IO(vu32, u32)
LANE_IO(vi64, i64)
LANE_IO(vu64, u64)

/* X(op, family, lanes): R real, A all, E exact order (mask), S shift */
#define WRAP1(fam, lane)                                                                           \
    static void w_##fam##_##lane(const union lanes *in, union lanes *out) {                        \
        pk_st_##lane##_(out, pk_##fam##_##lane(IN(lane, 0)));                                      \
    }
#define WRAP2(fam, lane)                                                                           \
    static void w_##fam##_##lane(const union lanes *in, union lanes *out) {                        \
        pk_st_##lane##_(out, pk_##fam##_##lane(IN(lane, 0), IN(lane, 1)));                         \
    }
#define WRAP3(fam, lane)                                                                           \
    static void w_##fam##_##lane(const union lanes *in, union lanes *out) {                        \
        pk_st_##lane##_(out, pk_##fam##_##lane(IN(lane, 0), IN(lane, 1), IN(lane, 2)));            \
    }
#define WRAPM1(fam, lane)                                                                          \
    static void w_##fam##_##lane(const union lanes *in, union lanes *out) {                        \
        pk_st_vi32_(out, pk_##fam##_##lane(IN(lane, 0)));                                          \
    }
#define WRAPM2(fam, lane)                                                                          \
    static void w_##fam##_##lane(const union lanes *in, union lanes *out) {                        \
        pk_st_vi32_(out, pk_##fam##_##lane(IN(lane, 0), IN(lane, 1)));                             \
    }
#define REALS(W, fam) W(fam, vf32) W(fam, vf64)
#define INTS(W, fam)  W(fam, vi32) W(fam, vu32) W(fam, vi64) W(fam, vu64)
#define ALL(W, fam)   REALS(W, fam) INTS(W, fam)

/* the families of one operand that exist for floats only */
// clang-format off
#define REAL1_LIST(X)                                                                              \
    X(EXP, exp)                                                                                    \
    X(EXP2, exp2)                                                                                  \
    X(EXPM1, expm1)                                                                                \
    X(LOG, log)                                                                                    \
    X(LOG2, log2)                                                                                  \
    X(LOG10, log10)                                                                                \
    X(LOG1P, log1p)                                                                                \
    X(SQRT, sqrt) X(RSQRT, rsqrt) X(RECIPROCAL, reciprocal) X(SIN, sin) X(COS, cos) X(TAN, tan)    \
        X(ASIN, asin) X(ACOS, acos) X(ATAN, atan) X(SINH, sinh) X(COSH, cosh) X(TANH, tanh)        \
            X(ASINH, asinh) X(ACOSH, acosh) X(ATANH, atanh) X(ERF, erf) X(ERFC, erfc)              \
                X(SIGMOID, sigmoid) X(SILU, silu) X(MISH, mish) X(HARDSWISH, hardswish)            \
                    X(HARDSIGMOID, hardsigmoid) X(GELU, gelu) X(GELU_TANH, gelu_tanh)
#define ANY1_LIST(X)                                                                               \
    X(ABS, abs)                                                                                    \
    X(SIGN, sign)                                                                                  \
    X(SQUARE, square)                                                                              \
    X(RELU, relu) X(FLOOR, floor) X(CEIL, ceil) X(ROUND, round) X(TRUNC, trunc) X(FRAC, frac)
#define REAL2_LIST(X) X(ATAN2, atan2) X(COPYSIGN, copysign) X(HYPOT, hypot)
#define ANY2_LIST(X)                                                                               \
    X(FLOORDIV, floordiv) X(MOD, mod) X(FMOD, fmod) X(POW, pow) X(MINIMUM, min) X(MAXIMUM, max)
#define INT2_LIST(X)  X(SHIFT_LEFT, shl) X(SHIFT_RIGHT, shr)
#define TEST1_LIST(X) X(ISNAN, isnan) X(ISINF, isinf)
#define ORDER_LIST(X) X(EQ, eq) X(NE, ne) X(LT, lt) X(LE, le) X(GT, gt) X(GE, ge)
#define PARAM_LIST(X)                                                                              \
    X(SOFTPLUS, softplus, a, 1.0, 20.0)                                                            \
    X(SOFTPLUS, softplus, b, 0.1, 20.0)                                                            \
    X(SOFTPLUS, softplus, c, 3.7, 5.0)                                                             \
    X(SOFTPLUS, softplus, d, 1.0, 500.0)                                                           \
    X(ELU, elu, a, 1.0, 0.0)                                                                       \
    X(ELU, elu, b, 1.6732632423543772, 0.0)                                                        \
    X(LEAKY_RELU, leaky_relu, a, 0.01, 0.0)                                                        \
    X(LEAKY_RELU, leaky_relu, b, 0.25, 0.0) X(LEAKY_RELU, leaky_relu, c, -1.7, 0.0)
// clang-format on

// clang-format off
#define X(op, fam) REALS(WRAP1, fam)
REAL1_LIST(X)
#undef X
#define X(op, fam) ALL(WRAP1, fam)
ANY1_LIST(X)
#undef X
#define X(op, fam) REALS(WRAP2, fam)
REAL2_LIST(X)
#undef X
#define X(op, fam) ALL(WRAP2, fam)
ANY2_LIST(X)
#undef X
#define X(op, fam) INTS(WRAP2, fam)
INT2_LIST(X)
#undef X
#define X(op, fam) ALL(WRAPM1, fam)
TEST1_LIST(X)
#undef X
#define X(op, fam) ALL(WRAPM2, fam)
ORDER_LIST(X)
#undef X
ALL(WRAP3, clamp)
#define X(op, fam, tag, p0, p1)                                                                    \
    static void w_##fam##_##tag##_vf32(const union lanes *in, union lanes *out) {                  \
        pk_st_vf32_(out, pk_##fam##_vf32(IN(vf32, 0), p0, p1));                                    \
    }                                                                                              \
    static void w_##fam##_##tag##_vf64(const union lanes *in, union lanes *out) {                  \
        pk_st_vf64_(out, pk_##fam##_vf64(IN(vf64, 0), p0, p1));                                    \
    }
PARAM_LIST(X)
#undef X

#define ROW(op, fam, D, lane, mask) {#fam "_" #lane, OP_##op, DT_##D, mask, w_##fam##_##lane, {0, 0}},
#define ROWS_REAL(op, fam, m) ROW(op, fam, F32, vf32, m) ROW(op, fam, F64, vf64, m)
#define ROWS_INT(op, fam, m)                                                                       \
    ROW(op, fam, I32, vi32, m) ROW(op, fam, U32, vu32, m) ROW(op, fam, I64, vi64, m)               \
    ROW(op, fam, U64, vu64, m)
static const struct fn_case cases[] = {
#define X(op, fam) ROWS_REAL(op, fam, false)
    REAL1_LIST(X) ANY1_LIST(X) REAL2_LIST(X) ANY2_LIST(X)
    ROWS_REAL(CLAMP, clamp, false)
#undef X
#define X(op, fam) ROWS_INT(op, fam, false)
    ANY1_LIST(X) ANY2_LIST(X) INT2_LIST(X)
    ROWS_INT(CLAMP, clamp, false)
#undef X
#define X(op, fam) ROWS_REAL(op, fam, true) ROWS_INT(op, fam, true)
    TEST1_LIST(X) ORDER_LIST(X)
#undef X
#define X(op, fam, tag, p0, p1)                                                                    \
    {#fam "_vf32(" #p0 ", " #p1 ")", OP_##op, DT_F32, false, w_##fam##_##tag##_vf32, {p0, p1}},    \
    {#fam "_vf64(" #p0 ", " #p1 ")", OP_##op, DT_F64, false, w_##fam##_##tag##_vf64, {p0, p1}},
    PARAM_LIST(X)
#undef X
};
// clang-format on

/* ---- values ------------------------------------------------------------------------------------
 */

/* Where functions of floats change their form, overflow or underflow. */
static const double special_reals[] = {0.0,
                                       1.0,
                                       2.0,
                                       3.0,
                                       0.5,
                                       0.25,
                                       1.5,
                                       2.5,
                                       1e-45,
                                       1e-40,
                                       1.17549435e-38,
                                       1.17549421e-38,
                                       1e-30,
                                       1e-20,
                                       1e-10,
                                       5.9604645e-8,
                                       1.1920929e-7,
                                       1e-4,
                                       0.01,
                                       0.1,
                                       0.34657359,
                                       0.35,
                                       0.625,
                                       0.70710678,
                                       0.78539819,
                                       0.99999994,
                                       1.0000001,
                                       1.4142135,
                                       1.5707964,
                                       3.1415927,
                                       4.712389,
                                       6.2831855,
                                       3.92,
                                       5.0,
                                       6.0,
                                       7.0,
                                       8.5,
                                       10.0,
                                       10.2,
                                       12.0,
                                       14.6,
                                       16.0,
                                       17.0,
                                       20.0,
                                       24.0,
                                       31.0,
                                       32.0,
                                       64.0,
                                       87.0,
                                       87.33654,
                                       88.0,
                                       88.72283,
                                       88.72284,
                                       89.0,
                                       90.0,
                                       100.0,
                                       103.0,
                                       103.97208,
                                       104.0,
                                       112.0,
                                       126.0,
                                       127.0,
                                       128.0,
                                       129.0,
                                       149.0,
                                       150.0,
                                       151.0,
                                       192.0,
                                       1000.0,
                                       29999.0,
                                       30001.0,
                                       65504.0,
                                       8388607.5,
                                       8388608.0,
                                       16777215.0,
                                       16777216.0,
                                       2147483647.0,
                                       2147483648.0,
                                       4294967295.0,
                                       4294967296.0,
                                       9.2233720368547758e18,
                                       1.8446744073709552e19,
                                       1e10,
                                       1e20,
                                       1e30,
                                       3.40282347e38,
                                       (double)INFINITY,
                                       (double)NAN};
enum { N_SPECIAL_REALS = sizeof special_reals / sizeof special_reals[0] };

static double some_real(uint64_t *s, bool wide) {
    uint64_t r = next_random(s);
    double sign = (r & 1) ? -1.0 : 1.0;
    switch ((r >> 1) & 7) {
    case 0: return sign * special_reals[(r >> 8) % N_SPECIAL_REALS];
    case 1:
    case 2:
        return wide ? double_from_bits(next_random(s)) : (double)float_of_bits((uint32_t)(r >> 32));
    case 3: return sign * (double)(r >> 40) * 0x1p-24;           /* below 1 */
    case 4: return sign * (double)(r >> 40) * 0x1p-20;           /* below 16 */
    case 5: return sign * (double)(r >> 40) * (110.0 * 0x1p-24); /* exp */
    case 6: return sign * ldexp(1.0 + (double)(r >> 44) * 0x1p-20, (int)((r >> 8) % 24) - 12);
    default: /* integers, or next to a multiple of pi/2 */
        return sign * (double)((r >> 40) % 300 + (r >> 52 & 1) * ((r >> 36) & 0x7fff)) *
               ((r & 128) ? 1.5707963267948966 : 1.0);
    }
}

static uint64_t some_bits(uint64_t *s) {
    static const uint64_t special[] = {0,
                                       1,
                                       2,
                                       3,
                                       5,
                                       7,
                                       31,
                                       32,
                                       33,
                                       63,
                                       64,
                                       65,
                                       127,
                                       128,
                                       255,
                                       256,
                                       0x7fff,
                                       0x8000,
                                       0xffff,
                                       0x7fffffff,
                                       0x80000000,
                                       0x80000001,
                                       0xffffffff,
                                       0xfffffffe,
                                       0x100000000,
                                       0x7fffffffffffffff,
                                       0x8000000000000000,
                                       0xffffffffffffffff};
    uint64_t r = next_random(s);
    switch ((r >> 8) & 3) {
    case 0: return special[(r >> 16) % (sizeof special / sizeof special[0])];
    case 1: return (uint64_t)(int64_t)((int)((r >> 16) % 101) - 50);
    case 2: return next_random(s);
    default: return next_random(s) >> ((r >> 16) & 63);
    }
}

static union scalar some_value(enum dtype d, uint64_t *s) {
    if (d == DT_F64) return (union scalar){.f = some_real(s, true)};
    if (d == DT_F32) return (union scalar){.f = (double)(float)some_real(s, false)};
    return elem_from_bits(d, some_bits(s));
}

static void put_lane(enum dtype d, union lanes *v, int i, union scalar x) {
    switch (d) {
    case DT_F64: v->f64[i] = x.f; break;
    case DT_F32: v->f32[i] = (float)x.f; break;
    case DT_I32: v->i32[i] = (int)x.i; break;
    case DT_U32: v->u32[i] = (unsigned)x.i; break;
    default: v->i64[i] = x.i; break;
    }
}

/* ---- the comparison ----------------------------------------------------------------------------
 */

/* Distance in units of the last place of a float format with p bits at the exact value. Overflow
 * counts as the power of two behind the largest finite value. */
static double ulps(double got, double want, int p, int emin, int emax) {
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want) ? 0 : (double)INFINITY;
    if (got == want) return 0;
    double top = ldexp(1.0, emax);
    if (p == 24) {
        want = want > top ? top : want < -top ? -top : want;
        got = got > top ? top : got < -top ? -top : got;
    }
    if (isinf(got) || isinf(want)) return (double)INFINITY;
    int e = want == 0 ? emin : ilogb(want);
    e = e < emin ? emin : e > emax ? emax : e;
    return fabs(got - want) / ldexp(1.0, e - (p - 1));
}

static double error_of(const struct fn_case *c, union scalar got, union scalar want) {
    if (c->d == DT_F32) return ulps(got.f, want.f, 24, -126, 128);
    return ulps(got.f, want.f, 53, -1022, 1023);
}

/* The bound for f64: libm against libm, or compositions of a few of its functions. Where the result
 * is the difference of exponentials beyond their range, accuracy is libm's. */
static const double F64_ULP = 8;

struct worst {
    double err;
    union scalar in[3], got, want;
};

static void fail_case(const struct fn_case *c, const struct worst *w) {
    fail_msg("%s(%a, %a, %a | %lld, %lld): got %a want %a (%lld, %lld), error %g", c->name,
             w->in[0].f, w->in[1].f, w->in[2].f, (long long)w->in[0].i, (long long)w->in[1].i,
             w->got.f, w->want.f, (long long)w->got.i, (long long)w->want.i, w->err);
}

static void check_vector(const struct fn_case *c, const union scalar (*x)[PK_W], struct worst *w) {
    union lanes in[3], out;
    int arity = op_info(c->op)->arity;
    memset(in, 0, sizeof in);
    for (int a = 0; a < arity; a++)
        for (int i = 0; i < PK_W; i++)
            put_lane(c->d, &in[a], i, x[a][i]);
    memset(&out, 0xa5, sizeof out);
    c->f(in, &out);
    for (int i = 0; i < PK_W; i++) {
        union scalar arg[3] = {x[0][i], x[1][i], x[2][i]};
        union scalar want = op_ref(c->op, c->d, arg, c->p);
        union scalar got = lane_value(c->mask ? DT_BOOL : c->d, &out, i);
        double err;
        if (c->mask || !dtype_is_float(c->d)) {
            err = got.i == want.i ? 0 : (double)INFINITY;
        } else {
            if (op_info(c->op)->ulp == 0 && c->d == DT_F32) want.f = (double)(float)want.f;
            err = error_of(c, got, want);
            bool zeros = want.f == 0 && got.f == 0;
            if (zeros && c->op != OP_RELU && !signbit(want.f) != !signbit(got.f))
                err = (double)INFINITY;
        }
        if (err > w->err) *w = (struct worst){err, {arg[0], arg[1], arg[2]}, got, want};
    }
}

static void check_case(const struct fn_case *c) {
    int arity = op_info(c->op)->arity;
    double bound = !dtype_is_float(c->d) || c->mask ? 0
                   : c->d == DT_F64                 ? F64_ULP
                                                    : op_info(c->op)->ulp;
    struct worst w = {0};
    uint64_t seed = 88172645463325252u;
    union scalar x[3][PK_W];
    memset(x, 0, sizeof x);
    long n = c->d == DT_F64 ? n_values / 4 : n_values;
    for (long v = 0; v < n; v += PK_W) {
        for (int a = 0; a < arity; a++)
            for (int i = 0; i < PK_W; i++)
                x[a][i] = some_value(c->d, &seed);
        check_vector(c, (const union scalar(*)[PK_W])x, &w);
    }
    /* one operand: an even walk over all patterns as well */
    if (arity == 1 && c->d == DT_F32) {
        uint32_t step = (uint32_t)(0x100000000u / (uint64_t)n_values) | 1, u = 0;
        for (long v = 0; v < n; v += PK_W) {
            for (int i = 0; i < PK_W; i++, u += step)
                x[0][i].f = (double)float_of_bits(u);
            check_vector(c, (const union scalar(*)[PK_W])x, &w);
        }
    }
    if (c->d == DT_F32 && !c->mask) printf("    %-32s %8.3f of %g ulp\n", c->name, w.err, bound);
    if (!(w.err <= bound)) fail_case(c, &w);
}

static void test_functions(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_case(&cases[i]);
}

/* ---- operators that need no function, and those with a bool operand
 * ------------------------------ */

/* Narrow integers are computed in 32-bit lanes and wrapped afterwards. */
static void test_narrow_integers(void **state) {
    (void)state;
    static const enum dtype narrow[] = {DT_I16, DT_U16, DT_I8, DT_U8};
    uint64_t seed = 12345;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const struct fn_case *k = &cases[c];
        if (k->d != DT_I32 && k->d != DT_U32) continue;
        for (size_t t = 0; t < 4; t++) {
            enum dtype d = narrow[t];
            if (dtype_lane(d) != k->d) continue;
            for (int round = 0; round < 500; round++) {
                union lanes in[3] = {0}, out;
                union scalar x[3][PK_W];
                for (int a = 0; a < 3; a++)
                    for (int i = 0; i < PK_W; i++) {
                        x[a][i] = elem_from_bits(d, some_bits(&seed));
                        put_lane(k->d, &in[a], i, x[a][i]);
                    }
                k->f(in, &out);
                for (int i = 0; i < PK_W; i++) {
                    union scalar arg[3] = {x[0][i], x[1][i], x[2][i]};
                    union scalar want = op_ref(k->op, d, arg, k->p);
                    union scalar got = lane_value(k->mask ? DT_BOOL : k->d, &out, i);
                    if (!k->mask) got = elem_cast(k->d, got, d, false);
                    if (got.i != want.i)
                        fail_msg("%s on %s (%lld, %lld): got %lld, want %lld", k->name,
                                 dtype_name(d), (long long)arg[0].i, (long long)arg[1].i,
                                 (long long)got.i, (long long)want.i);
                }
            }
        }
    }
}

static void test_select_and_fma(void **state) {
    (void)state;
    uint64_t seed = 99;
    for (int round = 0; round < 2000; round++) {
        union lanes a, b, c, o;
        union lanes da, db, dc, dout;
        vi32 m = pk_mask_n(round % (PK_W + 1));
        for (int i = 0; i < PK_W; i++) {
            a.f32[i] = (float)some_real(&seed, false), b.f32[i] = (float)some_real(&seed, false);
            c.f32[i] = (float)some_real(&seed, false);
            da.f64[i] = some_real(&seed, true), db.f64[i] = some_real(&seed, true);
            dc.f64[i] = some_real(&seed, true);
        }
        pk_st_vf32_(&o, pk_fma_vf32(pk_ld_vf32_(&a), pk_ld_vf32_(&b), pk_ld_vf32_(&c)));
        pk_st_vf64_(&dout, pk_fma_vf64(pk_ld_vf64_(&da), pk_ld_vf64_(&db), pk_ld_vf64_(&dc)));
        for (int i = 0; i < PK_W; i++) {
            float want = fmaf(a.f32[i], b.f32[i], c.f32[i]);
            double dwant = fma(da.f64[i], db.f64[i], dc.f64[i]);
            assert_true(same_value(DT_F32, (union scalar){.f = (double)o.f32[i]},
                                   (union scalar){.f = (double)want}));
            assert_true(
                same_value(DT_F64, (union scalar){.f = dout.f64[i]}, (union scalar){.f = dwant}));
        }
        pk_st_vf32_(&o, pk_select_vf32(m, pk_ld_vf32_(&a), pk_ld_vf32_(&b)));
        pk_st_vf64_(&dout, pk_select_vf64(m, pk_ld_vf64_(&da), pk_ld_vf64_(&db)));
        for (int i = 0; i < PK_W; i++) {
            int first = i < round % (PK_W + 1);
            assert_memory_equal(&o.f32[i], first ? &a.f32[i] : &b.f32[i], 4);
            assert_memory_equal(&dout.f64[i], first ? &da.f64[i] : &db.f64[i], 8);
        }
    }
    assert_int_equal(pk_fma_vi32(pk_set_vi32(0x7fffffff), pk_set_vi32(2), pk_set_vi32(5))[1], 3);
    assert_int_equal(pk_fma_vi64(pk_set_vi64(1) << 62, pk_set_vi64(4), pk_set_vi64(9))[PK_W - 1],
                     9);
    for (int i = 0; i < PK_W; i++) {
        assert_int_equal(pk_iota_vi32()[i], i);
        assert_int_equal(pk_iota_vi64()[i], i);
    }
}

/* ---- horizontal --------------------------------------------------------------------------------
 */

#define CHECK_TREE(fn, lane, T, member, op)                                                        \
    do {                                                                                           \
        T t[PK_W];                                                                                 \
        memcpy(t, v.member, sizeof t);                                                             \
        for (int h = PK_W / 2; h > 0; h /= 2)                                                      \
            for (int i = 0; i < h; i++) {                                                          \
                T x = t[i], y = t[i + h];                                                          \
                t[i] = op;                                                                         \
            }                                                                                      \
        T got = pk_##fn##_##lane(pk_ld_##lane##_(&v));                                             \
        if (memcmp(&got, &t[0], sizeof got) != 0 && !(got != got && t[0] != t[0]))                 \
            fail_msg(#fn " of " #lane);                                                            \
    } while (0)
#define CHECK_TREES(lane, T, member, plus, times)                                                  \
    CHECK_TREE(hsum, lane, T, member, plus);                                                       \
    CHECK_TREE(hprod, lane, T, member, times);                                                     \
    CHECK_TREE(hmax, lane, T, member, x != x ? x : y != y ? y : x > y ? x : y);                    \
    CHECK_TREE(hmin, lane, T, member, x != x ? x : y != y ? y : x < y ? x : y)

static void test_horizontal(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 3000; round++) {
        union lanes v;
        for (int i = 0; i < PK_W; i++)
            v.f32[i] = (float)(some_real(&seed, false) + 0.125);
        CHECK_TREES(vf32, float, f32, x + y, x * y);
        for (int i = 0; i < PK_W; i++)
            v.f64[i] = some_real(&seed, true) + 0.125;
        CHECK_TREES(vf64, double, f64, x + y, x * y);
        for (int i = 0; i < PK_W; i++)
            v.u64[i] = some_bits(&seed);
        CHECK_TREES(vu32, unsigned, u32, x + y, x * y);
        CHECK_TREES(vu64, uint64_t, u64, x + y, x * y);
        CHECK_TREES(vi32, int, i32, (int)((unsigned)x + (unsigned)y),
                    (int)((unsigned)x * (unsigned)y));
        CHECK_TREES(vi64, int64_t, i64, (int64_t)((uint64_t)x + (uint64_t)y),
                    (int64_t)((uint64_t)x * (uint64_t)y));
    }
}

static void test_transpose(void **state) {
    (void)state;
    vf32 f[PK_W];
    vi32 n[PK_W];
    vu32 u[PK_W];
    vf64 d[PK_W];
    vi64 l[PK_W];
    for (int i = 0; i < PK_W; i++)
        for (int j = 0; j < PK_W; j++) {
            f[i][j] = (float)(100 * i + j);
            n[i][j] = 100 * i + j;
            u[i][j] = (unsigned)(100 * i + j);
            d[i][j] = 100 * i + j;
            l[i][j] = 100 * i + j;
        }
    pk_transpose_vf32(f);
    pk_transpose_vi32(n);
    pk_transpose_vu32(u);
    pk_transpose_vf64(d);
    pk_transpose_vi64(l);
    for (int i = 0; i < PK_W; i++)
        for (int j = 0; j < PK_W; j++) {
            assert_true(f[i][j] == (float)(100 * j + i) && n[i][j] == 100 * j + i);
            assert_true(u[i][j] == (unsigned)(100 * j + i) && l[i][j] == 100 * j + i);
            assert_true(d[i][j] == 100 * j + i);
        }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions),      cmocka_unit_test(test_narrow_integers),
        cmocka_unit_test(test_select_and_fma), cmocka_unit_test(test_horizontal),
        cmocka_unit_test(test_transpose),
    };
    if (!machine_can()) return 77;
    if (argc > 1) n_values = atol(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
