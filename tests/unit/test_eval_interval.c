/* SPDX-License-Identifier: MIT
 * Intervals hold what legal plans can give. One operator at a time: values at random points of
 * random boxes lie in the operator's range over the box. Whole graphs: float programs written here,
 * which round, reorder and move factors as a plan may, stay inside; wrong ones do not.
 */
#include "eval/interval.h"
#include "eval_util.h"

static uint64_t next(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 11;
}

static double unit(uint64_t *s) { /* [0, 1) */
    return (double)next(s) * 0x1p-53;
}

static double normal(uint64_t *s) { /* near enough: a sum of uniforms */
    double v = 0;
    for (int i = 0; i < 6; i++) {
        v += unit(s) * 2 - 1;
    }
    return v * 0.7;
}

/* ---- operators ------------------------------------------------------------------------------- */

/* A box: narrow or wide, around zero or not, ends of f32. */
static struct iv box(uint64_t *s) {
    static const double scale[] = {1e-3, 1, 1, 4, 30, 1e4};
    double mid = normal(s) * scale[next(s) % COUNT_OF(scale)];
    double width =
        next(s) % 3 == 0 ? 0 : fabs(normal(s)) * (next(s) % 2 ? 1e-3 : 1) * (1 + fabs(mid));
    double a = (double)(float)(mid - width), b = (double)(float)(mid + width);
    if (next(s) % 16 == 0) a = fmin(0, b);
    return iv_fix(a, b);
}

static double point_in(struct iv a, uint64_t *s) {
    uint64_t r = next(s) % 4;
    return r == 0 ? a.lo : r == 1 ? a.hi : fmin(fmax(a.lo + unit(s) * (a.hi - a.lo), a.lo), a.hi);
}

static void float_operator(enum op op, uint64_t *s) {
    const struct op_info *info = op_info(op);
    double param[3] = {op == OP_LEAKY_RELU ? 0.01 : 1, 20, 0};
    struct iv in[3] = {box(s), box(s), box(s)};
    if (op == OP_CLAMP && in[1].lo > in[2].lo) {
        struct iv t = in[1];
        in[1] = in[2];
        in[2] = t;
    }
    union scalar v[3];
    bool points = true;
    for (int k = 0; k < info->arity; k++) {
        v[k].f = point_in(in[k], s);
        points = points && iv_is_point(in[k]);
    }
    union scalar r = op_ref(op, DT_F32, v, param);
    double value = info->rule == RULE_BOOL || info->rule == RULE_LOGIC ? (double)r.i : r.f;
    struct iv range = iv_op(op, DT_F32, EVAL_BOUNDARY, in, value, param);
    if (iv_is_any(range) || (points && isnan(value) && iv_is_nan(range))) return;
    bool inside = iv_has(range, value) || (fabs(value) > 3.4e38 && isinf(range.hi - range.lo));
    if (!inside) {
        fail_msg(
            "%s of [%.17g, %.17g] [%.17g, %.17g] at %.17g %.17g is %.17g, outside [%.17g, %.17g]",
            info->name, in[0].lo, in[0].hi, in[1].lo, in[1].hi, v[0].f, v[1].f, value, range.lo,
            range.hi);
    }
}

static void float_operators(void **state) {
    (void)state;
    uint64_t s = 1;
    for (int i = OP_NONE + 1; i < OP_EW_END; i++) {
        enum op op = (enum op)i;
        enum op_rule rule = op_info(op)->rule;
        if (rule == RULE_INT || rule == RULE_SHIFT || rule == RULE_LOGIC) continue;
        for (int k = 0; k < 20000; k++) {
            float_operator(op, &s);
        }
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* A number beside a multiple of 1/2, of any magnitude, denormal ones and 0 too. */
static double beside_step(enum dtype d, uint64_t *s) {
    static const double scale[] = {0x1p-1074, 0x1p-1030, 0x1p-149, 0x1p-140, 1, 1, 1, 0x1p60};
    double x = (double)((int64_t)(next(s) % 41) - 20) * 0.5 * scale[next(s) % COUNT_OF(scale)];
    uint64_t r = next(s) % 3;
    if (d == DT_F32) {
        float y = (float)x;
        return r == 0 ? (double)y : (double)nextafterf(y, r == 1 ? -1e38f : 1e38f);
    }
    return r == 0 ? x : nextafter(x, r == 1 ? -INF : INF);
}

static struct iv step_box(enum dtype d, uint64_t *s) {
    double a = beside_step(d, s), b = next(s) % 2 == 0 ? a : beside_step(d, s);
    return next(s) % 8 == 0 ? iv_hull(iv_point(a), iv_point(next(s) % 2 == 0 ? INF : -INF))
                            : iv_fix(a, b);
}

/* At the ends, and at one value between, each of the dtype. */
static double step_point(enum dtype d, struct iv a, uint64_t *s) {
    uint64_t r = next(s) % 4;
    double x = r == 0 ? a.lo : r == 1 ? a.hi : beside_step(d, s);
    return iv_has(a, x) ? x : a.lo;
}

static void steps(void **state) {
    (void)state;
    static const enum op ops[] = {OP_FLOORDIV, OP_MOD,  OP_FMOD, OP_FLOOR, OP_CEIL,    OP_ROUND,
                                  OP_TRUNC,    OP_FRAC, OP_SIGN, OP_DIV,   OP_COPYSIGN};
    const double none[3] = {0};
    uint64_t s = 5;
    for (int k = 0; k < 400000; k++) {
        enum op op = ops[k % (int)COUNT_OF(ops)];
        enum dtype d = next(&s) % 2 == 0 ? DT_F32 : DT_F64;
        struct iv in[3] = {step_box(d, &s), step_box(d, &s), {0, 0}};
        union scalar v[2] = {{.f = step_point(d, in[0], &s)}, {.f = step_point(d, in[1], &s)}};
        double value = op_ref(op, d, v, none).f;
        struct iv r = iv_op(op, d, EVAL_BOUNDARY, in, value, none);
        if (iv_is_any(r) || iv_has(r, value) || (isnan(value) && iv_is_nan(r))) continue;
        if (d == DT_F32 && fabs(value) >= 0x1p-149 && iv_has(r, (double)(float)value)) continue;
        fail_msg("%s of %s [%a, %a] [%a, %a] at %a %a is %a, outside [%a, %a]", op_info(op)->name,
                 dtype_name(d), in[0].lo, in[0].hi, in[1].lo, in[1].hi, v[0].f, v[1].f, value, r.lo,
                 r.hi);
    }
}

static void expect_range(enum op op, enum dtype d, struct iv a, struct iv b, double lo, double hi) {
    const double none[3] = {0};
    struct iv in[3] = {a, b, {0, 0}};
    union scalar v[2] = {{.f = a.lo}, {.f = b.lo}};
    struct iv r = iv_op(op, d, EVAL_BOUNDARY, in, op_ref(op, d, v, none).f, none);
    if (r.lo != lo || r.hi != hi)
        fail_msg("%s: [%.17g, %.17g], expected [%.17g, %.17g]", op_info(op)->name, r.lo, r.hi, lo,
                 hi);
}

/* Steps are not wider than they must be: beside one, on one, across one. */
static void narrow_steps(void **state) {
    (void)state;
    struct iv seven = iv_point(7), one = iv_point(1);
    for (int i = 0; i < 2; i++) {
        enum dtype d = i == 0 ? DT_F32 : DT_F64;
        expect_range(OP_FLOORDIV, d, iv_point(1), seven, 0, 0);
        expect_range(OP_FLOORDIV, d, (struct iv){0, 6}, seven, 0, 0);
        expect_range(OP_FLOORDIV, d, (struct iv){-1e-30, 6}, seven, -1, 0);
        expect_range(OP_FLOORDIV, d, (struct iv){21, 22}, (struct iv){6.5, 7}, 3, 3);
        expect_range(OP_FMOD, d, (struct iv){-0x1p-149, 0x1p-149}, seven, -0x1p-149, 0x1p-149);
        expect_range(OP_FMOD, d, (struct iv){-9, -8}, seven, -2, -1);
        expect_range(OP_FLOOR, d, (struct iv){0.5, 1.5}, one, 0, 1);
        expect_range(OP_FRAC, d, (struct iv){1.25, 1.5}, one, 0.25, 0.5);
    }
    expect_range(OP_MOD, DT_F32, (struct iv){0, 0x1p-149}, seven, 0, 0x1p-149);
    expect_range(OP_MOD, DT_F32, (struct iv){-0x1p-149, 0x1p-149}, seven, 0, 7);
    expect_range(OP_FLOORDIV, DT_F64, (struct iv){-0x1p-1074, 0}, seven, -1, 0);
}

static void int_operator(enum op op, enum dtype d, uint64_t *s) {
    const struct op_info *info = op_info(op);
    int64_t min, max;
    double param[3] = {1, 20, 0};
    dtype_int_range(d, &min, &max);
    struct iv in[3];
    union scalar v[3];
    for (int k = 0; k < info->arity; k++) {
        double span = (double)max - (double)min;
        double a = (double)min + floor(unit(s) * span),
               b = a + (double)(next(s) % 3) * floor(unit(s) * 9);
        in[k] = (struct iv){a, fmin(b, (double)max)};
        v[k].i = (int64_t)in[k].lo + (int64_t)(next(s) % (uint64_t)(in[k].hi - in[k].lo + 1));
    }
    if (op == OP_CLAMP && (in[1].hi > in[2].lo)) return;
    if ((info->flags & OPF_ZERODIV) != 0 && v[1].i == 0) return;
    union scalar r = op_ref(op, d, v, param);
    double value = (double)r.i;
    struct iv range = iv_op(op, d, EVAL_BOUNDARY, in, value, param);
    if (!iv_has(range, value)) {
        fail_msg("%s of %s [%g, %g] [%g, %g] at %g %g is %g, outside [%g, %g]", info->name,
                 dtype_name(d), in[0].lo, in[0].hi, in[1].lo, in[1].hi, (double)v[0].i,
                 (double)v[1].i, value, range.lo, range.hi);
    }
}

static void int_operators(void **state) {
    (void)state;
    static const enum dtype dtypes[] = {DT_I8, DT_U8, DT_I32};
    uint64_t s = 2;
    for (int i = OP_NONE + 1; i < OP_EW_END; i++) {
        enum op op = (enum op)i;
        enum op_rule rule = op_info(op)->rule;
        if (rule == RULE_FLOAT || rule == RULE_SHIFT || rule == RULE_LOGIC) continue;
        if (op == OP_ISNAN || op == OP_ISINF || op == OP_COPYSIGN || op == OP_ATAN2) continue;
        for (int k = 0; k < 3000; k++) {
            int_operator(op, dtypes[k % 3], &s);
        }
    }
}

static void truth_of_intervals(void **state) {
    (void)state;
    struct iv t = iv_point(1), f = iv_point(0), u = {0, 1};
    struct iv in[3][3] = {{t, u, t}, {f, u, f}, {u, t, u}};
    const double none[3] = {0};
    assert_true(iv_op(OP_LOGICAL_AND, DT_BOOL, EVAL_BOUNDARY, in[1], 0, none).hi == 0);
    assert_true(iv_op(OP_LOGICAL_OR, DT_BOOL, EVAL_BOUNDARY, in[0], 0, none).lo == 1);
    struct iv x = iv_op(OP_BITWISE_AND, DT_BOOL, EVAL_BOUNDARY, in[2], 0, none);
    assert_true(x.lo == 0 && x.hi == 1);
    struct iv cmp[3] = {{1, 2}, {2, 3}, {0, 0}};
    x = iv_op(OP_LT, DT_F32, EVAL_BOUNDARY, cmp, 0, none);
    assert_true(x.lo == 0 && x.hi == 1);
    x = iv_op(OP_LE, DT_F32, EVAL_BOUNDARY, cmp, 0, none);
    assert_true(x.lo == 1);
}

/* What f32 arithmetic gives exactly stays exact; the rest has half an ulp. */
static void widening(void **state) {
    (void)state;
    struct iv in[3] = {iv_point(3), iv_point(5), iv_point(0)};
    struct iv r = iv_op(OP_MUL, DT_F32, EVAL_BOUNDARY, in, 15, NULL);
    assert_true(r.lo == 15 && r.hi == 15);
    r = iv_op(OP_DIV, DT_F32, EVAL_BOUNDARY, in, 0.6, NULL);
    assert_true(r.lo < 0.6 && r.hi > 0.6 && r.hi - r.lo < 0.6 * 0x1.1p-23);
    assert_true(iv_has(r, (double)(3.0f / 5.0f)));
    r = iv_op(OP_EXP, DT_F32, EVAL_BOUNDARY, in, exp(3), NULL);
    assert_true(iv_has(r, (double)nextafterf((float)exp(3), 0)));
    r = iv_result(DT_F16, EVAL_BOUNDARY, iv_point(70000));
    assert_true(r.lo == 70000 && isinf(r.hi)); /* inf if it is rounded, else 70000 */
    r = iv_result(DT_F16, EVAL_EAGER, iv_point(70000));
    assert_true(isinf(r.lo) && isinf(r.hi));
}

/* ---- elementwise chains ---------------------------------------------------------------------- */

static float bf16(float x) {
    return (float)float_round(DT_BF16, (double)x, false);
}

static float f16(float x) {
    return (float)float_round(DT_F16, (double)x, false);
}

/* A plan of `boundary` may round or not; of `eager` it must. */
static float maybe(float x, float (*round)(float), enum eval_mode mode, uint64_t *s) {
    return mode == EVAL_EAGER || next(s) % 2 ? round(x) : x;
}

static void chain(enum dtype d, enum eval_mode mode, uint64_t *s) {
    float (*round)(float) = d == DT_BF16 ? bf16 : f16;
    struct fixture f;
    fx_parse(&f, d == DT_BF16 ? "graph g(a: bf16[64], b: bf16[64], c: bf16[64]) { return silu(a * "
                                "b + c) / (abs(b) + 1) - tanh(c), where(a * b + c > b, a, c) }"
                              : "graph g(a: f16[64], b: f16[64], c: f16[64]) { return silu(a * b + "
                                "c) / (abs(b) + 1) - tanh(c), where(a * b + c > b, a, c) }");
    double in[3][64];
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 64; i++) {
            in[k][i] = (double)round((float)(normal(s) * 3));
        }
        FX_INPUT(&f, k, in[k], 64);
    }
    f.options.mode = mode;
    fx_run(&f);
    fx_expect_inside(&f);
    char out[2][128];
    for (int i = 0; i < 64; i++) {
        float a = (float)in[0][i], b = (float)in[1][i], c = (float)in[2][i];
        float t = maybe(maybe(a * b, round, mode, s) + c, round, mode, s);
        float y = maybe(t / (1 + expf(-t)), round, mode, s);
        y = maybe(y / maybe(fabsf(b) + 1, round, mode, s), round, mode, s);
        y = maybe(y - maybe(tanhf(c), round, mode, s), round, mode, s);
        elem_store(d, out[0], i, (union scalar){.f = (double)round(y)});
        elem_store(d, out[1], i, (union scalar){.f = (double)(t > b ? a : c)});
    }
    for (int o = 0; o < 2; o++) {
        struct eval_report r;
        eval_compare(&f.results.at[o], out[o], &r);
        if (!r.ok)
            fail_msg("%s mode %d output %d: ratio %g at %d", dtype_name(d), (int)mode, o,
                     r.bound_ratio, (int)r.worst);
        assert_int_equal(r.unbounded, 0);
    }
    fx_free(&f);
}

static void chains(void **state) {
    (void)state;
    uint64_t s = 7;
    for (int k = 0; k < 40; k++) {
        chain(DT_BF16, EVAL_BOUNDARY, &s);
        chain(DT_F16, EVAL_BOUNDARY, &s);
        chain(DT_BF16, EVAL_EAGER, &s);
        chain(DT_F16, EVAL_NATIVE, &s);
    }
}

/* ---- dots ------------------------------------------------------------------------------------ */

#define DOT_M 6
#define DOT_N 7
#define DOT_K 96

static float dot_in_order(const float *a, const float *b, uint64_t order) {
    float part[8] = {0};
    int lanes = order % 3 == 0 ? 1 : order % 3 == 1 ? 4 : 8;
    for (int i = 0; i < DOT_K; i++) {
        int k = order % 2 ? DOT_K - 1 - i : i;
        float *to = &part[k % lanes];
        *to = order % 5 < 2 ? fmaf(a[k], b[k], *to) : *to + a[k] * b[k];
    }
    for (int l = 1; l < lanes; l++) {
        part[0] += part[l];
    }
    return part[0];
}

static void expect_inside(struct fixture *f, const char *what, const void *out) {
    struct eval_report r;
    eval_compare(&f->results.at[0], out, &r);
    if (!r.ok)
        fail_msg("%s: ratio %g at %d, error %g", what, r.bound_ratio, (int)r.worst, r.max_err);
    assert_int_equal(r.unbounded, 0);
}

static void expect_outside(struct fixture *f, const char *what, const void *out) {
    struct eval_report r;
    eval_compare(&f->results.at[0], out, &r);
    if (r.ok) fail_msg("%s was not noticed: ratio %g", what, r.bound_ratio);
}

/* (q - z) * s with its implied rounding to bf16, as operand: rounded, not rounded, the scale moved
 * to the result, the zero point moved to a sum of x. */
static void dequantized_dot(void **state) {
    (void)state;
    uint64_t s = 11;
    for (int round = 0; round < 60; round++) {
        struct fixture f;
        fx_parse(&f,
                 round % 2
                     ? "graph g(x: bf16[6, 96], q: u8[7, 96], s: f32[7], z: u8[7]) { return "
                       "matmul(x, transpose(dequantize(q, s, z, axis=0, dtype=bf16)), out=f32) }"
                     : "graph g(x: bf16[6, 96], q: u8[7, 96], s: bf16[7], z: u8[7]) { return "
                       "matmul(x, transpose((cast(q, bf16) - unsqueeze(cast(z, bf16), 1)) * "
                       "unsqueeze(s, 1)), out=f32) }");
        static double x[DOT_M * DOT_K], q[DOT_N * DOT_K], sc[DOT_N], z[DOT_N];
        for (int i = 0; i < DOT_M * DOT_K; i++) {
            x[i] = (double)bf16((float)normal(&s));
        }
        for (int i = 0; i < DOT_N * DOT_K; i++) {
            q[i] = (double)(next(&s) % 256);
        }
        for (int i = 0; i < DOT_N; i++) {
            sc[i] = (double)bf16((float)(0.01 + unit(&s)));
            z[i] = (double)(100 + next(&s) % 60);
        }
        FX_INPUT(&f, 0, x, DOT_M, DOT_K);
        FX_INPUT(&f, 1, q, DOT_N, DOT_K);
        FX_INPUT(&f, 2, sc, DOT_N);
        FX_INPUT(&f, 3, z, DOT_N);
        fx_run(&f);
        fx_expect_inside(&f);
        for (int way = 0; way < 5; way++) {
            float out[DOT_M * DOT_N];
            for (int i = 0; i < DOT_M * DOT_N; i++) {
                float a[DOT_K], b[DOT_K], ones[DOT_K], scale = (float)sc[i % DOT_N],
                                                       zero = (float)z[i % DOT_N];
                for (int k = 0; k < DOT_K; k++) {
                    float w = (float)q[i % DOT_N * DOT_K + k];
                    a[k] = (float)x[i / DOT_N * DOT_K + k];
                    ones[k] = 1;
                    b[k] = way == 0   ? bf16((w - zero) * scale)
                           : way == 1 ? (w - zero) * scale
                           : way == 2 ? w - zero
                                      : w;
                    if (way == 4) b[k] = (w - zero) * scale + (k == 3 ? 60 * scale : 0);
                }
                out[i] = dot_in_order(a, b, next(&s));
                if (way == 3) out[i] -= zero * dot_in_order(a, ones, next(&s));
                if (way == 2 || way == 3) out[i] *= scale;
            }
            static const char *const names[] = {"rounded", "not rounded", "scale moved",
                                                "zero moved"};
            if (way < 4) expect_inside(&f, names[way], out);
            if (way == 4) expect_outside(&f, "a wrong element", out);
        }
        fx_free(&f);
    }
}

/* softmax into a dot: the weights rounded after or before the division, or with another maximum. */
static void softmax_dot(void **state) {
    (void)state;
    uint64_t s = 13;
    for (int round = 0; round < 60; round++) {
        struct fixture f;
        fx_parse(
            &f,
            "graph g(x: bf16[6, 96], v: bf16[96, 7]) { return matmul(softmax(x), v, out=f32) }");
        static double x[DOT_M * DOT_K], v[DOT_K * DOT_N];
        for (int i = 0; i < DOT_M * DOT_K; i++) {
            x[i] = (double)bf16((float)normal(&s) * 4);
        }
        for (int i = 0; i < DOT_N * DOT_K; i++) {
            v[i] = (double)bf16((float)normal(&s));
        }
        FX_INPUT(&f, 0, x, DOT_M, DOT_K);
        FX_INPUT(&f, 1, v, DOT_K, DOT_N);
        fx_run(&f);
        fx_expect_inside(&f);
        for (int way = 0; way < 4; way++) {
            float out[DOT_M * DOT_N];
            for (int i = 0; i < DOT_M * DOT_N; i++) {
                float e[DOT_K], b[DOT_K], m = -INFINITY, sum = 0;
                for (int k = 0; k < DOT_K; k++) {
                    m = fmaxf(m, (float)x[i / DOT_N * DOT_K + k]);
                    b[k] = (float)v[k * DOT_N + i % DOT_N];
                }
                for (int k = 0; k < DOT_K; k++) {
                    e[k] = way == 3 ? exp2f(((float)x[i / DOT_N * DOT_K + k] - m) * 1.44269504f)
                                    : expf((float)x[i / DOT_N * DOT_K + k] - m);
                    sum += e[k];
                }
                for (int k = 0; k < DOT_K; k++) {
                    e[k] = way == 0 ? bf16(e[k] / sum) : way == 1 ? e[k] / sum : bf16(e[k]);
                }
                out[i] = dot_in_order(e, b, next(&s));
                if (way >= 2) out[i] /= sum;
            }
            expect_inside(&f, "softmax", out);
        }
        fx_free(&f);
    }
}

/* rms_norm and layer_norm into a dot: rounded, not rounded, the row's factor moved to the result.
 */
static void norm_dot(void **state) {
    (void)state;
    uint64_t s = 17;
    for (int round = 0; round < 60; round++) {
        bool layer = round % 2;
        struct fixture f;
        fx_parse(&f, layer ? "graph g(x: bf16[6, 96], w: bf16[96], v: bf16[96, 7]) { return "
                             "matmul(layer_norm(x, w), v, out=f32) }"
                           : "graph g(x: bf16[6, 96], w: bf16[96], v: bf16[96, 7]) { return "
                             "matmul(rms_norm(x, w), v, out=f32) }");
        static double x[DOT_M * DOT_K], w[DOT_K], v[DOT_K * DOT_N];
        for (int i = 0; i < DOT_M * DOT_K; i++) {
            x[i] = (double)bf16((float)normal(&s) + 2);
        }
        for (int i = 0; i < DOT_N * DOT_K; i++) {
            v[i] = (double)bf16((float)normal(&s));
            if (i < DOT_K) w[i] = (double)bf16((float)(1 + 0.3 * normal(&s)));
        }
        FX_INPUT(&f, 0, x, DOT_M, DOT_K);
        FX_INPUT(&f, 1, w, DOT_K);
        FX_INPUT(&f, 2, v, DOT_K, DOT_N);
        fx_run(&f);
        fx_expect_inside(&f);
        for (int way = 0; way < 4; way++) {
            float out[DOT_M * DOT_N];
            for (int i = 0; i < DOT_M * DOT_N; i++) {
                float a[DOT_K], b[DOT_K], mean = 0, squares = 0;
                for (int k = 0; k < DOT_K; k++) {
                    a[k] = (float)x[i / DOT_N * DOT_K + k];
                    b[k] = (float)v[k * DOT_N + i % DOT_N];
                    mean += a[k];
                }
                mean = layer ? mean / DOT_K : 0;
                for (int k = 0; k < DOT_K; k++) {
                    squares += (a[k] - mean) * (a[k] - mean);
                }
                float r = 1 / sqrtf(squares / DOT_K + (layer ? 1e-5f : 1e-6f));
                for (int k = 0; k < DOT_K; k++) {
                    float t = (a[k] - mean) * (float)w[k];
                    a[k] = way == 0   ? bf16(t * r)
                           : way == 1 ? t * r
                           : way == 2 ? bf16(t)
                                      : t * r * 1.1f;
                }
                out[i] = dot_in_order(a, b, next(&s));
                if (way == 2) out[i] *= r;
            }
            if (way < 3) expect_inside(&f, layer ? "layer_norm" : "rms_norm", out);
            if (way == 3) expect_outside(&f, "a row that is a tenth too large", out);
        }
        fx_free(&f);
    }
}

/* A cast that the text wrote is a rounding that stays. */
static void written_cast(void **state) {
    (void)state;
    uint64_t s = 19;
    struct fixture f;
    fx_parse(&f, "graph g(a: f32[6, 96], b: f32[96, 7]) { return cast(cast(matmul(cast(cast(a, "
                 "f16), f32), b), bf16), f32) }");
    static double a[DOT_M * DOT_K], b[DOT_K * DOT_N];
    for (int i = 0; i < DOT_K * DOT_N; i++) {
        b[i] = (double)(float)normal(&s);
        if (i < DOT_M * DOT_K) a[i] = (double)(float)normal(&s);
    }
    FX_INPUT(&f, 0, a, DOT_M, DOT_K);
    FX_INPUT(&f, 1, b, DOT_K, DOT_N);
    fx_run(&f);
    for (int way = 0; way < 2; way++) {
        float out[DOT_M * DOT_N];
        for (int i = 0; i < DOT_M * DOT_N; i++) {
            float p[DOT_K], q[DOT_K];
            for (int k = 0; k < DOT_K; k++) {
                p[k] = f16((float)a[i / DOT_N * DOT_K + k]);
                q[k] = (float)b[k * DOT_N + i % DOT_N];
            }
            out[i] = dot_in_order(p, q, next(&s));
            if (way == 0) out[i] = bf16(out[i]);
        }
        if (way == 0) expect_inside(&f, "rounded", out);
        if (way == 1) expect_outside(&f, "a missing rounding to bf16", out);
    }
    fx_free(&f);
}

/* Whole numbers leave no room: the sums are exact in every order. */
static void whole_numbers(void **state) {
    (void)state;
    uint64_t s = 23;
    struct fixture f;
    fx_parse(&f, "graph g(x: bf16[6, 96], q: i8[7, 96], s: f32[7], b: f32[7]) {\n"
                 "  w = cast(cast(q, f32) * unsqueeze(s, 1), bf16)\n"
                 "  y = relu(matmul(x, transpose(w), out=f32) + b) * 0.5\n"
                 "  return y, sum(y, axes=[1]), max(y), cumsum(y, axis=0), floor(y / 4)\n}");
    static double x[DOT_M * DOT_K], q[DOT_N * DOT_K], sc[DOT_N], b[DOT_N];
    for (int i = 0; i < DOT_N * DOT_K; i++) {
        q[i] = (double)(next(&s) % 31) - 15;
        if (i < DOT_M * DOT_K) x[i] = (double)(next(&s) % 9) - 4;
        if (i < DOT_N) sc[i] = ldexp(1, (int)(next(&s) % 5) - 2);
        if (i < DOT_N) b[i] = (double)(next(&s) % 100);
    }
    FX_INPUT(&f, 0, x, DOT_M, DOT_K);
    FX_INPUT(&f, 1, q, DOT_N, DOT_K);
    FX_INPUT(&f, 2, sc, DOT_N);
    FX_INPUT(&f, 3, b, DOT_N);
    for (int mode = 0; mode < 3; mode++) {
        f.options.mode = (enum eval_mode)mode;
        fx_run(&f);
        for (int o = 0; o < 5; o++) {
            fx_expect_exact(&f, o);
        }
    }
    fx_free(&f);
}

static void reports(void **state) {
    (void)state;
    double lo[4] = {0, 1, -(double)INFINITY, 2}, hi[4] = {2, 1, (double)INFINITY, 2};
    float ref[4] = {1, 1, 0, 2};
    struct eval_result r = {
        .dtype = DT_F32, .rank = 1, .shape = {4}, .n = 4, .data = ref, .lo = lo, .hi = hi};
    struct eval_report rep;
    eval_compare(&r, ((float[]){1.5f, 1, NAN, 2}), &rep);
    assert_true(rep.ok && rep.bound_ratio == 0.5 && rep.unbounded == 1 && isinf(rep.max_err));
    eval_compare(&r, ((float[]){3, 1, 7, 2}), &rep);
    assert_true(!rep.ok && rep.bound_ratio == 2 && rep.worst == 0 && rep.max_err == 7);
    eval_compare(&r, ((float[]){1, 1, 0, 2.5f}), &rep);
    assert_true(!rep.ok && isinf(rep.bound_ratio) && rep.worst == 3);
    eval_compare(&r, ((float[]){1, NAN, 0, 2}), &rep);
    assert_true(!rep.ok && isinf(rep.bound_ratio) && rep.worst == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float_operators),
        cmocka_unit_test(steps),
        cmocka_unit_test(narrow_steps),
        cmocka_unit_test(int_operators),
        cmocka_unit_test(truth_of_intervals),
        cmocka_unit_test(widening),
        cmocka_unit_test(chains),
        cmocka_unit_test(dequantized_dot),
        cmocka_unit_test(softmax_dot),
        cmocka_unit_test(norm_dot),
        cmocka_unit_test(written_cast),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(reports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
