/* SPDX-License-Identifier: MIT
 * Contractions and attention of the interpreter: values, shapes, degenerate sizes, data errors,
 * rows.
 */
#include "eval_util.h"

static void matmul_shapes(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(&f, "graph g(a: f32[2, 3], b: f32[3, 2]) { return matmul(a, b), matmul(b, a), "
                 "matmul(transpose(b), transpose(a)) }");
    FX_INPUT(&f, 0, ((double[]){1, 2, 3, 4, 5, 6}), 2, 3);
    FX_INPUT(&f, 1, ((double[]){1, 0, 2, 1, 0, 3}), 3, 2);
    fx_run(&f);
    fx_expect(&f, 0, WANT(5, 11, 14, 23), 0);
    fx_expect(&f, 1, WANT(1, 2, 3, 6, 9, 12, 12, 15, 18), 0);
    fx_expect(&f, 2, WANT(5, 14, 11, 23), 0);
    for (int o = 0; o < 3; o++) {
        fx_expect_exact(&f, o);
    }
    fx_free(&f);

    fx_parse(&f, "graph g(v: f32[2], m: f32[2, 2, 3]) { return matmul(v, m), matmul(m, "
                 "slice(concat(v, v, axis=0), axis=0, stop=3)), matmul(v, v) }");
    FX_INPUT(&f, 0, ((double[]){1, 10}), 2);
    FX_INPUT(&f, 1, ((double[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), 2, 2, 3);
    fx_run(&f);
    fx_expect(&f, 0, WANT(41, 52, 63, 107, 118, 129), 0);
    fx_expect(&f, 1, WANT(24, 60, 96, 132), 0);
    fx_expect(&f, 2, WANT(101), 0);
    fx_free(&f);
}

static void integers(void **state) {
    (void)state;
    static double a[32 * 64], want[32 * 32];
    for (int i = 0; i < 32 * 64; i++) {
        a[i] = -128;
    }
    for (int i = 0; i < 32 * 32; i++) {
        want[i] = 1048576;
    }
    struct fixture f;
    fx_parse(
        &f,
        "graph g(a: i8[32, 64], b: i8[64, 32]) { y = matmul(a, b); return y, cast(y, f32) * 0.5 }");
    FX_INPUT(&f, 0, a, 32, 64);
    FX_INPUT(&f, 1, a, 64, 32);
    fx_run(&f);
    assert_int_equal(f.results.at[0].dtype, DT_I32);
    fx_expect(&f, 0, 32 * 32, want, 0);
    fx_expect_exact(&f, 0);
    fx_expect_exact(&f, 1);
    fx_free(&f);

    fx_parse(&f, "graph g(a: i32[1, 2], b: i32[2, 1]) { return matmul(a, b) }");
    FX_INPUT(&f, 0, ((double[]){2147483647, 3}), 1, 2);
    FX_INPUT(&f, 1, ((double[]){2, 1}), 2, 1);
    fx_check(&f, WANT(1), 0); /* 2^32 - 2 + 3 wraps to 1 */
}

static void wide_result(void **state) {
    (void)state;
    static double x[8 * 64], w[64 * 16], want[8 * 16];
    for (int i = 0; i < 64 * 16; i++) {
        w[i] = 16;
        if (i < 8 * 64) x[i] = 100;
        if (i < 8 * 16) want[i] = 204800;
    }
    struct fixture f;
    fx_parse(&f, "graph g(x: f16[8, 64], w1: f16[64, 16], w2: f16[64, 16]) { return matmul(x, w1 + "
                 "w2, out=f32) }");
    FX_INPUT(&f, 0, x, 8, 64);
    FX_INPUT(&f, 1, w, 64, 16);
    FX_INPUT(&f, 2, w, 64, 16);
    fx_run(&f);
    assert_int_equal(f.results.at[0].dtype, DT_F32);
    fx_expect(&f, 0, 8 * 16, want, 0);
    fx_expect_exact(&f, 0);
    fx_free(&f);
}

static void empty_sizes(void **state) {
    (void)state;
    double c[24], half[24];
    for (int i = 0; i < 24; i++) {
        c[i] = i - 3;
        half[i] = c[i] / 2;
    }
    struct fixture f;
    fx_parse(&f, "graph g(c: f32[4, 6], a: f32[4, 0], b: f32[0, 6]) { return c * 0.5 + matmul(a, "
                 "b), matmul(b, transpose(c)), exp(matmul(a, b)) }");
    FX_INPUT(&f, 0, c, 4, 6);
    FX_INPUT(&f, 1, c, 4, 0);
    FX_INPUT(&f, 2, c, 0, 6);
    fx_run(&f);
    fx_expect(&f, 0, 24, half, 0);
    fx_expect_exact(&f, 0);
    assert_int_equal(f.results.at[1].n, 0);
    for (int i = 0; i < 24; i++) {
        assert_true(fx_value(&f, 2, i) == 1);
    }
    fx_free(&f);
}

static void linear_bias(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(&f, "graph g(x: bf16[1, 2], w: bf16[2, 2], b: bf16[2]) { return linear(x, w, b) }");
    FX_INPUT(&f, 0, ((double[]){256, 1}), 1, 2);
    FX_INPUT(&f, 1, ((double[]){1, 1, 1, 0}), 2, 2);
    FX_INPUT(&f, 2, ((double[]){1, 1}), 2);
    /* 256 + 1 + 1 with one rounding at the end: 258; the sum rounded first would stay at 256 */
    fx_check(&f, WANT(258, 256), 0);
}

static void grouped(void **state) {
    (void)state;
    double nan = (double)NAN;
    struct fixture f;
    fx_parse(
        &f, "graph g(a: f32[4, 1], b: f32[3, 1, 2], o: i32[3]) { return grouped_matmul(a, b, o) }");
    FX_INPUT(&f, 0, ((double[]){1, 2, 3, 4}), 4, 1);
    FX_INPUT(&f, 1, ((double[]){1, 10, nan, nan, 2, 20}), 3, 1, 2);
    FX_INPUT(&f, 2, ((double[]){2, 2, 3}), 3);
    fx_run(&f);
    fx_expect(&f, 0, WANT(1, 10, 2, 20, 6, 60, 0, 0), 0);
    fx_expect_exact(&f, 0);
    fx_expect_inside(&f);
    FX_INPUT(&f, 2, ((double[]){2, 1, 3}), 3);
    assert_int_equal(fx_try(&f), PROEM_DATA);
    assert_non_null(strstr(f.err.text, "o[1] is 1; offsets must not decrease"));
    fx_free(&f);
}

static void data_errors(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(&f, "graph g(t: f32[8, 2], ids: i64[2, 2]) { return take(t, ids) }");
    static const double t[16] = {0};
    FX_INPUT(&f, 0, t, 8, 2);
    FX_INPUT(&f, 1, ((double[]){0, 7, -9, 8}), 2, 2);
    assert_int_equal(fx_try(&f), PROEM_DATA);
    assert_non_null(
        strstr(f.err.text, "take(t, ids): ids[1, 0] is -9, but t has 8 rows along axis 0"));
    assert_non_null(strstr(f.err.text, "(allowed: -8..7)"));
    fx_free(&f);

    fx_parse(&f, "graph g(a: i32[4], b: i32[4]) { return a % b }");
    FX_INPUT(&f, 0, t, 4);
    FX_INPUT(&f, 1, ((double[]){1, 2, 0, 0}), 4);
    assert_int_equal(fx_try(&f), PROEM_DATA);
    assert_non_null(strstr(f.err.text, "b[2] is 0"));
    fx_free(&f);

    fx_parse(&f, "graph g(a: f32[2, 2], i: i32[1], s: f32[1, 2]) { return scatter_add(a, i, s) }");
    FX_INPUT(&f, 0, t, 2, 2);
    FX_INPUT(&f, 1, ((double[]){2}), 1);
    FX_INPUT(&f, 2, t, 1, 2);
    assert_int_equal(fx_try(&f), PROEM_DATA);
    assert_non_null(strstr(f.err.text, "scatter_add(a, i, s): i[0] is 2"));
    fx_free(&f);
}

/* Two keys, scores 0 and log 3 (through k), so weights 1/4 and 3/4. */
static void attention_plain(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(&f, "graph g(q: f32[1, 2, 1, 1], k: f32[1, 1, 2, 1], v: f32[1, 1, 2, 2]) { o, lse = "
                 "attention(q, k, v); return o, lse }");
    FX_INPUT(&f, 0, ((double[]){1, 0}), 1, 2, 1, 1);
    FX_INPUT(&f, 1, ((double[]){0, log(3)}), 1, 1, 2, 1);
    FX_INPUT(&f, 2, ((double[]){4, 0, 8, 1}), 1, 1, 2, 2);
    fx_run(&f);
    fx_expect(&f, 0, WANT(7, 0.75, 6, 0.5), 1e-6);
    fx_expect(&f, 1, WANT(log(4), log(2)), 1e-6);
    fx_expect_inside(&f);
    fx_free(&f);
}

static void attention_hooks(void **state) {
    (void)state;
    double nan = (double)NAN;
    struct fixture f;
    fx_parse(&f, "graph g(q: f32[1, 1, 3, 1], k: f32[1, 1, 3, 1], v: f32[1, 1, 3, 1], bias: "
                 "f32[2], gate: f32[1]) {\n"
                 "  o = attention(q, k, v, scale=1.0) {\n"
                 "    score(s, b, h, i, j) = s + take(bias, i)\n"
                 "    mask(b, h, i, j) = (j < i) & (i < 2)\n"
                 "    prob(p, b, h, i, j) = p * take(gate, h)\n"
                 "  }\n  return o\n}");
    FX_INPUT(&f, 0, ((double[]){1, 1, 1}), 1, 1, 3, 1);
    FX_INPUT(&f, 1, ((double[]){0, nan, nan}), 1, 1, 3, 1);
    FX_INPUT(&f, 2, ((double[]){5, nan, nan}), 1, 1, 3, 1);
    FX_INPUT(&f, 3, ((double[]){0, 1}), 2);
    FX_INPUT(&f, 4, ((double[]){0.5}), 1);
    fx_run(&f); /* row 2 would look up bias[2]; the mask hides it, and every NaN */
    fx_expect(&f, 0, WANT(0, 2.5, 0), 0);
    fx_expect_inside(&f);
    fx_free(&f);

    fx_parse(&f,
             "graph g(q: f32[1, 1, 2, 1], k: f32[1, 1, 1, 1], t: f32[1]) {\n"
             "  o = attention(q, k, k) { score(s, b, h, i, j) = s + take(t, i) }\n  return o\n}");
    FX_INPUT(&f, 0, ((double[]){1, 1}), 1, 1, 2, 1);
    FX_INPUT(&f, 1, ((double[]){1}), 1, 1, 1, 1);
    FX_INPUT(&f, 2, ((double[]){1}), 1);
    assert_int_equal(fx_try(&f), PROEM_DATA);
    assert_non_null(strstr(f.err.text, "at b, h, i, j = 0, 0, 1, 0 is 1, but t has 1 rows"));
    fx_free(&f);
}

static double noise(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(*s >> 11) * 0x1p-52 - 1;
}

/* Any number of threads, and any choice of rows, gives the same elements. */
static void threads_and_rows(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(&f,
             "graph g(x: bf16[M, 200], w: bf16[130, 200], s: f32[M, 1], r: f32[130]) {\n"
             "  h = silu(rms_norm(x) * s)\n"
             "  y = linear(cast(h, bf16), w) + r\n"
             "  return y, softmax(y), sum(y, axes=[1], keepdims=true), reshape(y, [M, 1, 130])\n}");
    static double x[70 * 200], w[130 * 200];
    uint64_t seed = 3;
    for (int i = 0; i < 130 * 200; i++) {
        w[i] = noise(&seed);
        if (i < 70 * 200) x[i] = noise(&seed);
    }
    FX_INPUT(&f, 0, x, 70, 200);
    FX_INPUT(&f, 1, w, 130, 200);
    FX_INPUT(&f, 2, w + 7, 70, 1);
    FX_INPUT(&f, 3, w + 99, 130);
    fx_run(&f);
    struct eval_results one = f.results;
    f.results = (struct eval_results){.alloc = f.alloc};
    for (int round = 0; round < 2; round++) {
        f.options.threads = round == 0 ? 3 : 2;
        f.options.rows = round == 0 ? 0 : 9;
        f.options.seed = 5;
        fx_run(&f);
        for (int o = 0; o < one.n; o++) {
            const struct eval_result *a = &one.at[o], *b = &f.results.at[o];
            struct eval_report report;
            eval_compare(b, a->data, &report);
            assert_true(report.ok && report.max_err == 0);
            assert_int_equal(b->n_rows, round == 0 ? 0 : 9);
            int64_t last = a->shape[a->rank - 1];
            assert_int_equal(b->n, round == 0 ? a->n : 9 * last);
            for (int64_t i = 0; i < b->n; i++) {
                int64_t at = round == 0 ? i : b->rows[i / last] * last + i % last;
                assert_true(a->lo[at] == b->lo[i] && a->hi[at] == b->hi[i]);
            }
        }
    }
    eval_results_free(&one);
    fx_free(&f);
}

static void attention_rows(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(&f,
             "graph g(q: f16[2, 4, 33, 8], k: f16[2, 2, 40, 8], v: f16[2, 2, 40, 5], t: f32[4]) {\n"
             "  o = attention(q * 2, k, v) {\n"
             "    score(s, b, h, i, j) = tanh(s) * take(t, h) + (j - i) * 0.125\n"
             "    mask(b, h, i, j) = j <= i + 3\n  }\n  return o\n}");
    static double q[2 * 4 * 33 * 8];
    uint64_t seed = 8;
    for (size_t i = 0; i < COUNT_OF(q); i++) {
        q[i] = noise(&seed);
    }
    FX_INPUT(&f, 0, q, 2, 4, 33, 8);
    FX_INPUT(&f, 1, q + 100, 2, 2, 40, 8);
    FX_INPUT(&f, 2, q + 50, 2, 2, 40, 5);
    FX_INPUT(&f, 3, q + 9, 4);
    fx_run(&f);
    fx_expect_inside(&f);
    struct eval_results whole = f.results;
    f.results = (struct eval_results){.alloc = f.alloc};
    f.options.rows = 20;
    f.options.threads = 2;
    fx_run(&f);
    struct eval_report report;
    eval_compare(&f.results.at[0], whole.at[0].data, &report);
    assert_int_equal(report.checked, 100);
    assert_true(report.ok && report.max_err == 0);
    eval_results_free(&whole);
    fx_free(&f);
}

enum what { BOUNDED, UP, DOWN, ISNAN, OPEN };

static void expect_kinds(const struct fixture *f, int output, const enum what *want, int n) {
    const struct eval_result *r = &f->results.at[output];
    for (int i = 0; i < n; i++) {
        double v = fx_value(f, output, i);
        double lo = r->lo != NULL ? r->lo[i] : v, hi = r->hi != NULL ? r->hi[i] : v;
        enum what is = isnan(lo) && isnan(hi) ? ISNAN
                       : isinf(lo) && lo < hi ? OPEN
                       : isinf(lo)            ? (lo > 0 ? UP : DOWN)
                                              : BOUNDED;
        if (is != want[i]) fail_msg("output %d[%d]: [%g, %g], value %g", output, i, lo, hi, v);
        bool same = is == ISNAN ? isnan(v) : is != UP && is != DOWN ? true : isinf(v) && lo == v;
        assert_true(same);
    }
}

/* What is not finite is as certain as IEEE 754 makes it in any order of summation; magnitudes near
 * the largest value alone leave a sum open, and smaller ones where a plan may take out a factor. */
static void special_dots(void **state) {
    (void)state;
    const double inf = (double)INFINITY, nan = (double)NAN;
    struct fixture f;
    fx_parse(&f, "graph g(x: f32[5, 3], y: f32[3, 4], z: f32[5, 3], s: f32[5, 1]) {\n"
                 "  return matmul(x, y), matmul(x * z, y), matmul(x * s, y), sum(x, axes=[1]) }");
    FX_INPUT(&f, 0, ((double[]){1, 2, 3, inf, 1, 1, nan, 1, 1, 1e30, 1e30, -1e30, 3e38, 3e38, -1}),
             5, 3);
    FX_INPUT(&f, 1, ((double[]){1, inf, 0, 1, 1, -inf, 1, inf, 1, 1, 1, 2}), 3, 4);
    double tenth[15];
    for (int i = 0; i < 15; i++)
        tenth[i] = 0.7;
    FX_INPUT(&f, 2, tenth, 5, 3);
    FX_INPUT(&f, 3, tenth, 5, 1);
    static const enum what exact[] = {BOUNDED, ISNAN, BOUNDED, UP,    UP,      ISNAN,   ISNAN,
                                      UP,      ISNAN, ISNAN,   ISNAN, ISNAN,   BOUNDED, ISNAN,
                                      BOUNDED, UP,    OPEN,    ISNAN, BOUNDED, UP};
    static const enum what sums[] = {BOUNDED, UP, ISNAN, BOUNDED, OPEN};
    for (int mode = 0; mode < 3; mode++) {
        f.options.mode = (enum eval_mode)mode;
        fx_run(&f);
        expect_kinds(&f, 0, exact, 20);
        expect_kinds(&f, 1, exact, 20);
        expect_kinds(&f, 3, sums, 5);
        if (mode == EVAL_EAGER) expect_kinds(&f, 2, exact, 20);
        /* 2e30, and 0 times infinity, which a scale moved out of the sum need not meet */
        if (mode != EVAL_EAGER) assert_true(isinf(f.results.at[2].lo[12]));
        if (mode != EVAL_EAGER) assert_true(isinf(f.results.at[2].lo[6]));
        fx_expect_inside(&f);
    }
    fx_free(&f);
}

/* Without its scale a sum may overflow, and 0 times infinity is NaN. */
static void moved_scales(void **state) {
    (void)state;
    static const char *const text[] = {
        "graph g(x: f32[1, 2], s: f32[1, 1], y: f32[2, 1]) { return matmul(x * s, y) }",
        "graph g(x: f32[1, 2], s: f32[1, 1], y: f32[2, 1]) { return matmul(x / (1 / s), y) }",
        ("graph g(x: f32[1, 2], s: f32[1, 1], y: f32[2, 1]) {\n"
         "  return matmul(reshape(-(s * x), [1, 2]), y) }")};
    for (size_t i = 0; i < COUNT_OF(text); i++) {
        for (int k = 0; k < 4; k++) {
            struct fixture f;
            double x = k < 2 ? 3e38 : 3e30;
            fx_parse(&f, text[i]);
            FX_INPUT(&f, 0, ((double[]){x, x}), 1, 2);
            FX_INPUT(&f, 1, ((double[]){i == 1 ? 1e-9 : 0}), 1, 1);
            FX_INPUT(&f, 2, ((double[]){1, 2}), 2, 1);
            f.options.mode = k % 2 == 0 ? EVAL_BOUNDARY : EVAL_EAGER;
            fx_run(&f);
            const struct eval_result *r = &f.results.at[0];
            bool open = r->lo != NULL && isinf(r->lo[0]);
            assert_true(open == (k == 0));
            fx_free(&f);
        }
    }
}

/* Weights of 1/2 (not certain to the last bit) and values that are not finite. */
static void special_attention(void **state) {
    (void)state;
    const double inf = (double)INFINITY, nan = (double)NAN;
    struct fixture f;
    fx_parse(&f, "graph g(q: f32[1, 1, 1, 2], k: f32[1, 1, 3, 2], v: f32[1, 1, 3, 5]) {\n"
                 "  a = attention(q, k, v)\n"
                 "  b = attention(q, k, v) { mask(b, h, i, j) = j != 1 }\n  return a, b }");
    FX_INPUT(&f, 0, ((double[]){1, 1}), 1, 1, 1, 2);
    FX_INPUT(&f, 1, ((double[]){0, 0.1, 0, 0.2, 0.3, 0}), 1, 1, 3, 2);
    FX_INPUT(&f, 2, ((double[]){1, inf, 1, inf, 3e38, 2, 5, nan, -inf, 3e38, 3, 1, 1, 1, 3e38}), 1,
             1, 3, 5);
    static const enum what all[] = {BOUNDED, UP, ISNAN, ISNAN, OPEN};
    static const enum what some[] = {BOUNDED, UP, BOUNDED, UP, OPEN};
    fx_run(&f);
    expect_kinds(&f, 0, all, 5);
    expect_kinds(&f, 1, some, 5);
    fx_expect_inside(&f);
    fx_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_shapes),     cmocka_unit_test(integers),
        cmocka_unit_test(wide_result),       cmocka_unit_test(empty_sizes),
        cmocka_unit_test(linear_bias),       cmocka_unit_test(grouped),
        cmocka_unit_test(data_errors),       cmocka_unit_test(attention_plain),
        cmocka_unit_test(attention_hooks),   cmocka_unit_test(threads_and_rows),
        cmocka_unit_test(attention_rows),    cmocka_unit_test(special_dots),
        cmocka_unit_test(special_attention), cmocka_unit_test(moved_scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
