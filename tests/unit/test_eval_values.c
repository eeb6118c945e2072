/* SPDX-License-Identifier: MIT
 * Values of the interpreter against numbers worked out by hand, an operator family a test.
 */
#include "eval_util.h"

static void elementwise(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(&f, "graph g(a: f32[2, 2], b: f32[2]) { return (a + b) * 2 - a / b }");
    FX_INPUT(&f, 0, ((double[]){1, 2, 3, 4}), 2, 2);
    FX_INPUT(&f, 1, ((double[]){4, 8}), 2);
    fx_check(&f, WANT(9.75, 19.75, 13.25, 23.5), 0);

    fx_parse(&f, "graph g(a: i8[4], b: i8[4]) { return a + b, a // b, a % b, -a }");
    FX_INPUT(&f, 0, ((double[]){100, -7, 7, -128}), 4);
    FX_INPUT(&f, 1, ((double[]){100, 2, -2, -1}), 4);
    fx_run(&f);
    fx_expect(&f, 0, WANT(-56, -5, 5, 127), 0); /* wraps */
    fx_expect(&f, 1, WANT(1, -4, -4, -128), 0); /* MIN // -1 wraps */
    fx_expect(&f, 2, WANT(0, 1, -1, 0), 0);
    fx_expect(&f, 3, WANT(-100, 7, -7, -128), 0);
    for (int o = 0; o < 4; o++) {
        fx_expect_exact(&f, o);
    }
    fx_free(&f);

    fx_parse(&f, "graph g(a: i32[3], s: i32[3]) { return a << s, a >> s }");
    FX_INPUT(&f, 0, ((double[]){1, -8, 3}), 3);
    FX_INPUT(&f, 1, ((double[]){4, 1, 40}), 3);
    fx_run(&f);
    fx_expect(&f, 0, WANT(16, -16, 0), 0);
    fx_expect(&f, 1, WANT(0, -4, 0), 0);
    fx_free(&f);

    fx_parse(&f, "graph g(a: f32[3]) { return exp(a), sigmoid(a), gelu(a), silu(a), softplus(a) }");
    FX_INPUT(&f, 0, ((double[]){-1, 0, 2}), 3);
    fx_run(&f);
    fx_expect(&f, 0, WANT(0.36787944117144233, 1, 7.38905609893065), 1e-7);
    fx_expect(&f, 1, WANT(0.2689414213699951, 0.5, 0.8807970779778823), 1e-7);
    fx_expect(&f, 2, WANT(-0.15865525393145707, 0, 1.9544997361036416), 1e-7);
    fx_expect(&f, 3, WANT(-0.2689414213699951, 0, 1.7615941559557646), 1e-7);
    fx_expect(&f, 4, WANT(0.31326168751822286, 0.6931471805599453, 2.1269280110429727), 1e-7);
    fx_expect_inside(&f);
    fx_free(&f);
}

static void nan_rules(void **state) {
    (void)state;
    double nan = (double)NAN;
    struct fixture f;
    fx_parse(&f, "graph g(v: f32[4], c: f32[4]) {\n"
                 "  return maximum(v, c), maximum(c, v), clamp(v, 0.5, 2), relu(v), max(v), v == "
                 "v, isnan(v)\n}");
    FX_INPUT(&f, 0, ((double[]){1, nan, 3, -1}), 4);
    FX_INPUT(&f, 1, ((double[]){2, 1, nan, 0}), 4);
    fx_run(&f);
    fx_expect(&f, 0, WANT(2, nan, nan, 0), 0);
    fx_expect(&f, 1, WANT(2, nan, nan, 0), 0);
    fx_expect(&f, 2, WANT(1, nan, 2, 0.5), 0);
    fx_expect(&f, 3, WANT(1, nan, 3, 0), 0);
    fx_expect(&f, 4, WANT(nan), 0);
    fx_expect(&f, 5, WANT(1, 0, 1, 1), 0);
    fx_expect(&f, 6, WANT(0, 1, 0, 0), 0);
    fx_expect_inside(&f);
    fx_free(&f);
}

static void casts(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(&f, "graph g(x: f32[6]) { return cast(x, i8), cast(x, bf16), cast(x, bool), "
                 "cast(cast(x, f16), f32) }");
    FX_INPUT(&f, 0, ((double[]){1.9, -1.9, 300, 1.00390625, 70000, (double)NAN}), 6);
    fx_run(&f);
    fx_expect(&f, 0, WANT(1, -1, 127, 1, 127, 0), 0);
    fx_expect(&f, 1, WANT(1.8984375, -1.8984375, 300, 1, 70144, (double)NAN), 0);
    fx_expect(&f, 2, WANT(1, 1, 1, 1, 1, 1), 0);
    fx_expect(&f, 3,
              WANT(1.900390625, -1.900390625, 300, 1.00390625, (double)INFINITY, (double)NAN), 0);
    for (int o = 0; o < 4; o++) {
        fx_expect_exact(&f, o); /* a written cast leaves nothing open */
    }
    fx_free(&f);

    /* the bits of what is not certain: anything, above 2^63 too */
    fx_parse(&f, "graph g(x: f64[2]) { return bitcast(-exp(x), u64), bitcast(-exp(x), i64) }");
    FX_INPUT(&f, 0, ((double[]){0.5, 2}), 2);
    fx_run(&f);
    fx_expect_inside(&f);
    fx_free(&f);

    /* the bits of a NaN, which differ between processors */
    fx_parse(&f, "graph g(x: f64[2]) { return bitcast(acos(x), u64), bitcast(x / x, f32) }");
    FX_INPUT(&f, 0, ((double[]){2, 0}), 2);
    fx_run(&f);
    fx_expect_inside(&f);
    assert_true(f.results.at[0].lo[0] == 0 && f.results.at[0].hi[0] == 0x1p64);
    fx_free(&f);

    fx_parse(&f, "graph g(x: i32[2]) { return bitcast(x, f32), bitcast(x, u8) }");
    FX_INPUT(&f, 0, ((double[]){1065353216, 256}), 2);
    fx_run(&f);
    fx_expect(&f, 0, WANT(1, 256 * 0x1p-149), 0);
    fx_expect(&f, 1, WANT(0, 0, 128, 63, 0, 1, 0, 0), 0);
    fx_free(&f);
}

static void layout(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(&f, "graph g(x: f32[2, 3]) {\n"
                 "  a, b = split(x, [1, 2], axis=1)\n"
                 "  return permute(x, [1, 0]), slice(x, axis=1, start=0, stop=3, step=2), flip(x, "
                 "axes=[1]), "
                 "concat(x, x, axis=0), pad(x, low=[0, 1], high=[1, 0], value=9), "
                 "reshape(transpose(x), [6]), "
                 "expand(unsqueeze(b, 0), [2, 2, 2]), a, iota(i32, [2, 2], axis=1)\n}");
    FX_INPUT(&f, 0, ((double[]){1, 2, 3, 4, 5, 6}), 2, 3);
    fx_run(&f);
    fx_expect(&f, 0, WANT(1, 4, 2, 5, 3, 6), 0);
    fx_expect(&f, 1, WANT(1, 3, 4, 6), 0);
    fx_expect(&f, 2, WANT(3, 2, 1, 6, 5, 4), 0);
    fx_expect(&f, 3, WANT(1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6), 0);
    fx_expect(&f, 4, WANT(9, 1, 2, 3, 9, 4, 5, 6, 9, 9, 9, 9), 0);
    fx_expect(&f, 5, WANT(1, 4, 2, 5, 3, 6), 0);
    fx_expect(&f, 6, WANT(2, 3, 5, 6, 2, 3, 5, 6), 0);
    fx_expect(&f, 7, WANT(1, 4), 0);
    fx_expect(&f, 8, WANT(0, 1, 0, 1), 0);
    for (int o = 0; o < 9; o++) {
        fx_expect_exact(&f, o);
    }
    fx_free(&f);

    fx_parse(&f, "graph g(w: i4[16]) { return cast(w, f32), flip(w, axes=[0]) }");
    double i4[16], back[16];
    for (int i = 0; i < 16; i++) {
        i4[i] = i - 8;
        back[i] = 7 - i;
    }
    FX_INPUT(&f, 0, i4, 16);
    fx_run(&f);
    fx_expect(&f, 0, 16, i4, 0);
    fx_expect(&f, 1, 16, back, 0);
    fx_free(&f);
}

static void indexed(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(&f, "graph g(t: f32[4, 2], ids: i64[3]) { return take(t, ids) }");
    FX_INPUT(&f, 0, ((double[]){0, 1, 10, 11, 20, 21, 30, 31}), 4, 2);
    FX_INPUT(&f, 1, ((double[]){0, -1, 2}), 3);
    fx_check(&f, WANT(0, 1, 30, 31, 20, 21), 0);

    fx_parse(&f, "graph g(t: f32[2, 3], i: i32[2, 2]) { return take_along(t, i, axis=1), take(t, "
                 "i, axis=1) }");
    FX_INPUT(&f, 0, ((double[]){1, 2, 3, 4, 5, 6}), 2, 3);
    FX_INPUT(&f, 1, ((double[]){2, 0, -1, 1}), 2, 2);
    fx_run(&f);
    fx_expect(&f, 0, WANT(3, 1, 6, 5), 0);
    fx_expect(&f, 1, WANT(3, 1, 3, 2, 6, 4, 6, 5), 0);
    fx_free(&f);

    fx_parse(&f, "graph g(b: bf16[2, 2], i: i64[3], s: bf16[3, 2]) {\n"
                 "  return scatter(b, i, s), scatter_add(b, i, s), scatter_along(b, "
                 "unsqueeze(slice(i, axis=0, stop=2), 1), "
                 "slice(slice(s, axis=1, stop=1), axis=0, stop=2), axis=1, add=true)\n}");
    FX_INPUT(&f, 0, ((double[]){1, 2, 3, 4}), 2, 2);
    FX_INPUT(&f, 1, ((double[]){1, 1, -1}), 3);
    FX_INPUT(&f, 2, ((double[]){10, 20, 30, 40, 50, 60}), 3, 2);
    fx_run(&f);
    fx_expect(&f, 0, WANT(1, 2, 50, 60), 0);
    fx_expect(&f, 1, WANT(1, 2, 93, 124), 0);
    fx_expect(&f, 2, WANT(1, 12, 3, 34), 0);
    fx_free(&f);
}

/* Adding accumulates in f32 and rounds once: in bf16 alone a thousand ones would stop at 256. */
static void scatter_add_in_f32(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(
        &f,
        "graph g(b: bf16[1, 1], i: i64[1000], s: bf16[1000, 1]) { return scatter_add(b, i, s) }");
    double zero[1000] = {0}, one[1000];
    for (int i = 0; i < 1000; i++) {
        one[i] = 1;
    }
    FX_INPUT(&f, 0, zero, 1, 1);
    FX_INPUT(&f, 1, zero, 1000);
    FX_INPUT(&f, 2, one, 1000, 1);
    fx_run(&f);
    fx_expect(&f, 0, WANT(1000), 0);
    fx_expect_exact(&f, 0);
    fx_free(&f);
}

static void reductions(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(&f, "graph g(x: f32[2, 3]) {\n"
                 "  return sum(x, axes=[1]), mean(x), max(x, axes=[0], keepdims=true), min(x, "
                 "axes=[-1]), prod(x, axes=[1]), "
                 "argmax(x, axis=1), argmin(x), cumsum(x, axis=1), cumsum(x, axis=0)\n}");
    FX_INPUT(&f, 0, ((double[]){1, 5, 3, 4, 2, 4}), 2, 3);
    fx_run(&f);
    fx_expect(&f, 0, WANT(9, 10), 0);
    fx_expect(&f, 1, WANT(19.0 / 6), 1e-7);
    fx_expect(&f, 2, WANT(4, 5, 4), 0);
    fx_expect(&f, 3, WANT(1, 2), 0);
    fx_expect(&f, 4, WANT(15, 32), 0);
    fx_expect(&f, 5, WANT(1, 0), 0);
    fx_expect(&f, 6, WANT(0), 0);
    fx_expect(&f, 7, WANT(1, 6, 9, 4, 6, 10), 0);
    fx_expect(&f, 8, WANT(1, 5, 3, 5, 7, 7), 0);
    for (int o = 0; o < 9; o++) {
        if (o != 1) fx_expect_exact(&f, o);
    }
    fx_expect_inside(&f);
    fx_free(&f);

    fx_parse(&f, "graph g(x: i8[2, 2]) { return sum(x), prod(x), max(x), cumsum(x, axis=1) }");
    FX_INPUT(&f, 0, ((double[]){100, 100, -3, 2}), 2, 2);
    fx_run(&f);
    fx_expect(&f, 0, WANT(199), 0);
    fx_expect(&f, 1, WANT(-60000), 0);
    fx_expect(&f, 2, WANT(100), 0);
    fx_expect(&f, 3, WANT(100, 200, -3, -1), 0);
    fx_free(&f);
}

static void rows(void **state) {
    (void)state;
    double inf = (double)INFINITY;
    struct fixture f;
    fx_parse(&f, "graph g(x: f32[2, 2], w: f32[2], b: f32[2]) {\n"
                 "  return softmax(x), log_softmax(x), rms_norm(x, w, eps=0), layer_norm(x, w, b, "
                 "eps=0), softmax(x, axis=0)\n}");
    FX_INPUT(&f, 0, ((double[]){0, 0, 1, 3}), 2, 2);
    FX_INPUT(&f, 1, ((double[]){1, 2}), 2);
    FX_INPUT(&f, 2, ((double[]){0, 10}), 2);
    fx_run(&f);
    double e = 1 / (1 + exp(2)), r = 1 / sqrt(5);
    fx_expect(&f, 0, WANT(0.5, 0.5, e, 1 - e), 1e-7);
    fx_expect(&f, 1, WANT(log(0.5), log(0.5), log(e), log(1 - e)), 1e-7);
    fx_expect(&f, 2, WANT((double)NAN, (double)NAN, r, 6 * r), 1e-7);
    fx_expect(&f, 3, WANT((double)NAN, (double)NAN, -1, 12), 1e-7);
    fx_expect(&f, 4, WANT(1 / (1 + exp(1)), 1 / (1 + exp(3)), 1 / (1 + exp(-1)), 1 / (1 + exp(-3))),
              1e-7);
    fx_free(&f);

    fx_parse(&f, "graph g(x: f32[1, 3]) { return softmax(x) }");
    FX_INPUT(&f, 0, ((double[]){-inf, 1, 1}), 1, 3);
    fx_check(&f, WANT(0, 0.5, 0.5), 0);
}

static void sorting(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(&f, "graph g(x: f32[2, 4]) { v, i = topk(x, 2); return v, i, argsort(x), argsort(x, "
                 "descending=true) }");
    FX_INPUT(&f, 0, ((double[]){1, 3, 3, 2, 5, (double)NAN, 5, 1}), 2, 4);
    fx_run(&f);
    fx_expect(&f, 0, WANT(3, 3, (double)NAN, 5), 0);
    fx_expect(&f, 1, WANT(1, 2, 1, 0), 0);
    fx_expect(&f, 2, WANT(0, 3, 1, 2, 3, 0, 2, 1), 0);
    fx_expect(&f, 3, WANT(1, 2, 3, 0, 1, 0, 2, 3), 0);
    fx_expect_inside(&f);
    fx_free(&f);
}

static void quantization(void **state) {
    (void)state;
    struct fixture f;
    fx_parse(&f, "graph g(q: u4[2, 5], s: f32[2, 3], z: u4[2, 3]) { return dequantize(q, s, z, "
                 "axis=1, block=2) }");
    FX_INPUT(&f, 0, ((double[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), 2, 5);
    FX_INPUT(&f, 1, ((double[]){1, 2, 4, 0.5, 0.25, 8}), 2, 3);
    FX_INPUT(&f, 2, ((double[]){1, 0, 3, 8, 8, 9}), 2, 3);
    fx_check(&f, WANT(0, 1, 6, 8, 8, -1, -0.5, 0, 0.25, 8), 0);

    fx_parse(&f, "graph g(q: i4[4, 3], s: f32[2, 3]) { return dequantize(q, s, axis=0, block=2) }");
    FX_INPUT(&f, 0, ((double[]){-8, 1, 2, 3, 4, 5, 6, 7, -1, -2, -3, -4}), 4, 3);
    FX_INPUT(&f, 1, ((double[]){1, 2, 3, 10, 20, 30}), 2, 3);
    fx_check(&f, WANT(-8, 2, 6, 3, 8, 15, 60, 140, -30, -20, -60, -120), 0);

    fx_parse(&f, "graph g(x: f32[6], z: i8[]) {\n"
                 "  return quantize(x, 1.0, dtype=i8), quantize(x, 1.0, z), quantize(x, 2.0), "
                 "quantize(x, 1.0, dtype=f8e4m3fn)\n}");
    FX_INPUT(&f, 0, ((double[]){0.5, 1.5, 2.5, -0.5, -1.5, 200}), 6);
    fx_input(&f, 1, 0, NULL, (double[]){3});
    fx_run(&f);
    fx_expect(&f, 0, WANT(0, 2, 2, 0, -2, 127), 0);
    fx_expect(&f, 1, WANT(3, 5, 5, 3, 1, 127), 0);
    fx_expect(&f, 2, WANT(0, 1, 1, 0, 0, 100), 0);
    fx_expect(&f, 3, WANT(0.5, 1.5, 2.5, -0.5, -1.5, 192), 0);
    for (int o = 0; o < 4; o++) {
        fx_expect_exact(&f, o);
    }
    fx_free(&f);
}

/* The element of i axis is scaled with i+1 of its group; sums of groups of known length. */
static void group_scales(void **state) {
    (void)state;
    static const double want[4] = {4352, 2304, 1280, 768};
    for (int g = 0; g < 4; g++) {
        int group = 32 << g, groups = 512 / group;
        char text[300];
        strcpy(text, g == 0   ? "graph g(x: f16[1, 512], q: u4[512, 8], s: f16[16, 8]) { return "
                                "matmul(x, dequantize(q, s, axis=0, block=32)) }"
                     : g == 1 ? "graph g(x: f16[1, 512], q: u4[512, 8], s: f16[8, 8]) { return "
                                "matmul(x, dequantize(q, s, axis=0, block=64)) }"
                     : g == 2 ? "graph g(x: f16[1, 512], q: u4[512, 8], s: f16[4, 8]) { return "
                                "matmul(x, dequantize(q, s, axis=0, block=128)) }"
                              : "graph g(x: f16[1, 512], q: u4[512, 8], s: f16[2, 8]) { return "
                                "matmul(x, dequantize(q, s, axis=0, block=256)) }");
        struct fixture f;
        fx_parse(&f, text);
        static double x[512], q[512 * 8], s[16 * 8], y[8];
        for (int i = 0; i < 512 * 8; i++) {
            q[i] = 1;
            if (i < 512) x[i] = 1;
            if (i < groups * 8) s[i] = i / 8 + 1;
            if (i < 8) y[i] = want[g];
        }
        FX_INPUT(&f, 0, x, 1, 512);
        FX_INPUT(&f, 1, q, 512, 8);
        FX_INPUT(&f, 2, s, groups, 8);
        fx_run(&f);
        fx_expect(&f, 0, 8, y, 0);
        fx_expect_exact(&f, 0);
        fx_free(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise),  cmocka_unit_test(nan_rules),
        cmocka_unit_test(casts),        cmocka_unit_test(layout),
        cmocka_unit_test(indexed),      cmocka_unit_test(scatter_add_in_f32),
        cmocka_unit_test(reductions),   cmocka_unit_test(rows),
        cmocka_unit_test(sorting),      cmocka_unit_test(quantization),
        cmocka_unit_test(group_scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
