/* SPDX-License-Identifier: MIT
 * Cases on which fusing compilers are known to go wrong; the reference must have them right.
 */
#include "eval_util.h"

/* Repeated targets: every read sees the old rows. */
static void repeated_targets(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(&f, "graph g(x: f32[1, 2], i: i64[2], e: f32[2, 2]) {\n"
                 "  g = take(x, i)\n  u = matmul(g, e) + g\n"
                 "  return scatter(x, i, u), scatter_add(x, i, u)\n}");
    FX_INPUT(&f, 0, ((double[]){-1.5, 0.25}), 1, 2);
    FX_INPUT(&f, 1, ((double[]){0, 0}), 2);
    FX_INPUT(&f, 2, ((double[]){1, 0, 0, 1}), 2, 2);
    fx_run(&f);
    fx_expect(&f, 0, WANT(-3, 0.5), 0);
    fx_expect(&f, 1, WANT(-7.5, 1.25), 0);
    fx_expect_exact(&f, 0);
    fx_expect_exact(&f, 1);
    fx_free(&f);
}

/* A sum into one row, read back by a take. */
static void scatter_then_take(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(&f, "graph g(a: f32[4, 2], b: f32[2, 2], z: f32[1, 2], i: i64[4]) { return "
                 "take(scatter_add(z, i, matmul(a, b)), i) }");
    FX_INPUT(&f, 0, ((double[]){1, 2, 3, 4, 5, 6, 7, 8}), 4, 2);
    FX_INPUT(&f, 1, ((double[]){1, 0, 0, 10}), 2, 2);
    FX_INPUT(&f, 2, ((double[]){0, 0}), 1, 2);
    FX_INPUT(&f, 3, ((double[]){0, 0, 0, 0}), 4);
    fx_run(&f);
    fx_expect(&f, 0, WANT(16, 200, 16, 200, 16, 200, 16, 200), 0);
    fx_expect_exact(&f, 0);
    fx_free(&f);
}

/* A row of attention that sees nothing is zero, whether a mask or scores of -inf say so. */
static void blind_rows(void **state) {
    (void)state;
    static const char *const hooks[] = {
        "graph g(q: f32[1, 1, 3, 2], m: bool[3, 3]) { o = attention(q, q, q) { mask(b, h, i, j) = "
        "take(m, i, j) }\n return o }",
        "graph g(q: f32[1, 1, 3, 2], m: bool[3, 3]) { o = attention(q, q, q) { score(s, b, h, i, "
        "j) = where(take(m, i, j), s, -inf) }\n return o }"};
    double want[6] = {0};
    for (int k = 0; k < 2; k++) {
        struct fixture f;
        fx_parse(&f, hooks[k]);
        FX_INPUT(&f, 0, ((double[]){1, 2, 0.5, -1, 3, 1}), 1, 1, 3, 2);
        FX_INPUT(&f, 1, ((double[]){1, 1, 0, 0, 0, 0, 0, 0, 1}), 3, 3);
        fx_run(&f);
        if (k == 0) {
            for (int i = 0; i < 6; i++) {
                want[i] = fx_value(&f, 0, i);
            }
        }
        fx_expect(&f, 0, 6, want, 0);
        assert_true(fx_value(&f, 0, 2) == 0 && fx_value(&f, 0, 3) == 0);
        assert_true(fx_value(&f, 0, 4) == 3 && fx_value(&f, 0, 5) == 1);
        fx_expect_inside(&f);
        fx_free(&f);
    }
}

/* A factor behind a bias scales both; relu is of the whole sum. */
static void factors_and_bias(void **state) {
    (void)state;
    static double a[8 * 64], w[64 * 8], zero[8 * 64];
    double bias[8], want[64], seven[64];
    for (int i = 0; i < 8 * 64; i++) {
        a[i] = 1;
        w[i] = i / 8 < 32 ? 2 : -3;
    }
    for (int i = 0; i < 64; i++) {
        bias[i % 8] = 1 + i % 8;
        want[i] = 0.25 * bias[i % 8];
        seven[i] = -32 + 7;
    }
    struct fixture f;
    fx_parse(&f, "graph g(z: f32[8, 64], a: f32[8, 64], w: f32[64, 8], b: f32[8]) {\n"
                 "  return 0.25 * (matmul(z, w) + b), relu(matmul(a, w) + 7), matmul(a, w) + 7, z "
                 "* nan + 1\n}");
    FX_INPUT(&f, 0, zero, 8, 64);
    FX_INPUT(&f, 1, a, 8, 64);
    FX_INPUT(&f, 2, w, 64, 8);
    FX_INPUT(&f, 3, bias, 8);
    fx_run(&f);
    fx_expect(&f, 0, 64, want, 0);
    fx_expect(&f, 1, 64, zero, 0);
    fx_expect(&f, 2, 64, seven, 0);
    for (int o = 0; o < 3; o++) {
        fx_expect_exact(&f, o);
    }
    assert_true(isnan(fx_value(&f, 3, 0)));
    fx_expect_inside(&f);
    fx_free(&f);
}

/* Block sizes of every kind, with a zero point. */
static void block_sizes(void **state) {
    (void)state;
    static double x[3 * 2048], q[2048 * 4], s[128 * 4], z[128 * 4], want[12];
    static const char *const text[] = {
        "graph g(x: f32[3, 2048], q: u4[2048, 4], s: f32[128, 4], z: u4[128, 4]) { return "
        "matmul(x, dequantize(q, s, z, axis=0, block=16)) }",
        "graph g(x: f32[3, 2048], q: u4[2048, 4], s: f32[4, 4], z: u4[4, 4]) { return matmul(x, "
        "dequantize(q, s, z, axis=0, block=512)) }",
        "graph g(x: f32[3, 2048], q: u4[2048, 4], s: f32[1, 4], z: u4[1, 4]) { return matmul(x, "
        "dequantize(q, s, z, axis=0, block=2048)) }",
        "graph g(x: f32[3, 2048], q: u4[2048, 4], s: f32[3, 1], z: u4[3, 1]) { return matmul(x, "
        "dequantize(q, s, z, axis=0, block=700)) }"};
    static const int64_t shapes[][2] = {{128, 4}, {4, 4}, {1, 4}, {3, 1}};
    for (int i = 0; i < 2048 * 4; i++) {
        q[i] = 5;
        if (i < 3 * 2048) x[i] = 1;
        if (i < 128 * 4) s[i] = 0.25;
        if (i < 128 * 4) z[i] = 3;
        if (i < 12) want[i] = 1024;
    }
    for (size_t k = 0; k < COUNT_OF(text); k++) {
        struct fixture f;
        fx_parse(&f, text[k]);
        FX_INPUT(&f, 0, x, 3, 2048);
        FX_INPUT(&f, 1, q, 2048, 4);
        fx_input(&f, 2, 2, shapes[k], s);
        fx_input(&f, 3, 2, shapes[k], z);
        fx_run(&f);
        fx_expect(&f, 0, 12, want, 0);
        fx_expect_exact(&f, 0);
        fx_free(&f);
    }
}

/* Overflow of a narrow value: infinite when rounded, finite in a plan that keeps f32. */
static void narrow_overflow(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(
        &f,
        "graph g(x: f16[2]) { return cast(x * x, f32) * 0.5, cast(cast(x * x, f16), f32) * 0.5 }");
    FX_INPUT(&f, 0, ((double[]){300, 2}), 2);
    fx_run(&f);
    fx_expect(&f, 0, WANT((double)INFINITY, 2), 0);
    struct eval_report r;
    eval_compare(&f.results.at[0], ((float[]){45000, 2}), &r);
    assert_true(r.ok && r.unbounded == 1);
    eval_compare(&f.results.at[0], ((float[]){INFINITY, 2}), &r);
    assert_true(r.ok);
    eval_compare(&f.results.at[0], ((float[]){30000, 2}), &r);
    assert_false(r.ok);
    eval_compare(&f.results.at[1], ((float[]){45000, 2}), &r);
    assert_false(r.ok); /* the text wrote that cast */
    f.options.mode = EVAL_EAGER;
    fx_run(&f);
    eval_compare(&f.results.at[0], ((float[]){45000, 2}), &r);
    assert_false(r.ok);
    fx_free(&f);
}

/* Unused experts do not matter, empty groups neither. */
static void experts(void **state) {
    (void)state;
    double nan = (double)NAN, w[8 * 2];
    for (int i = 0; i < 16; i++) {
        w[i] = i / 2 == 3 ? 1 + i % 2 : nan;
    }
    struct fixture f;
    fx_parse(
        &f, "graph g(x: f16[T, 1], w: f16[8, 1, 2], o: i32[8]) { return grouped_matmul(x, w, o) }");
    FX_INPUT(&f, 0, ((double[]){1, 2, 3}), 3, 1);
    FX_INPUT(&f, 1, w, 8, 1, 2);
    FX_INPUT(&f, 2, ((double[]){0, 0, 0, 3, 3, 3, 3, 3}), 8);
    fx_run(&f);
    fx_expect(&f, 0, WANT(1, 2, 2, 4, 3, 6), 0);
    fx_free(&f);
    fx_parse(
        &f, "graph g(x: f16[T, 1], w: f16[8, 1, 2], o: i32[8]) { return grouped_matmul(x, w, o) }");
    FX_INPUT(&f, 0, w, 0, 1);
    FX_INPUT(&f, 1, w, 8, 1, 2);
    FX_INPUT(&f, 2, ((double[]){0, 0, 0, 0, 0, 0, 0, 0}), 8);
    fx_run(&f);
    assert_int_equal(f.results.at[0].n, 0);
    fx_free(&f);
}

/* No rows at all: every operator gives what is left, on any number of threads, rows or not. */
static void nothing_to_do(void **state) {
    (void)state;
    static const char *const text[] = {
        "graph g(x: f32[M, 4], i: i64[M], w: f32[4, 3]) { return softmax(x), rms_norm(x), "
        "layer_norm(x), cumsum(x, axis=0), sum(x, axes=[0]), prod(x), take(w, i), argsort(x), "
        "matmul(x, w), linear(x, transpose(w)), flip(x, axes=[0]), concat(x, x, axis=0), x // 2 }",
        "graph g(x: f32[M, 4], i: i64[M], w: f32[4, 4]) { return scatter(w, i, x), scatter_add(w, "
        "i, x), where(x > 0, x, -x), cast(x, i8), bitcast(x, u8), quantize(x, 0.5), pad(x, low=[1, "
        "0], high=[1, 1]), reshape(x, [4, M]), softmax(transpose(x)), matmul(transpose(x), x), "
        "iota(i32, [M], axis=0), expand(unsqueeze(x, 0), [2, M, 4]), max(x, axes=[1]) }",
        "graph g(q: f32[1, 2, M, 4], k: f32[1, 1, 3, 4]) { return attention(q, k, k), "
        "attention(reshape(expand(k, [2, 1, 3, 4]), [1, 2, 3, 4]), slice(k, axis=2, stop=0), "
        "slice(k, axis=2, stop=0)) }"};
    static const double zero[64] = {0};
    for (size_t k = 0; k < COUNT_OF(text); k++) {
        struct fixture f;
        fx_parse(&f, text[k]);
        assert_int_equal(dims_bind_name(f.g, &f.binding, "M", 0, &f.err), PROEM_OK);
        for (size_t i = 0; i < f.g->params.n; i++) {
            int64_t shape[MAX_RANK];
            value_id v = f.g->params.at[i].value;
            assert_int_equal(dims_shape(f.g, &f.binding, v, shape, &f.err), PROEM_OK);
            fx_input(&f, (int)i, graph_value(f.g, v)->rank, shape, zero);
        }
        for (int way = 0; way < 4; way++) {
            f.options.threads = 1 + way % 2;
            f.options.rows = way / 2 * 2;
            fx_run(&f);
            fx_expect_inside(&f);
            assert_int_equal(f.results.at[0].n, k == 1 ? 16 / (way / 2 + 1) : 0);
        }
        fx_free(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeated_targets), cmocka_unit_test(scatter_then_take),
        cmocka_unit_test(blind_rows),       cmocka_unit_test(factors_and_bias),
        cmocka_unit_test(block_sizes),      cmocka_unit_test(narrow_overflow),
        cmocka_unit_test(experts),          cmocka_unit_test(nothing_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
