/* SPDX-License-Identifier: MIT
 * Values from a seed: known answers of the generator, the quantile function against a
 * high-precision table, moments, the rule of every kind of use, and that nothing depends on count
 * or alignment.
 */
#include "front_util.h"

#include <math.h>

static struct array make(enum dtype d, int64_t n) {
    struct array_type t = {.dtype = d, .rank = 1, .shape = {n}};
    struct array a;
    assert_int_equal(array_new(&allocator_default, &t, "t", &a, NULL), PROEM_OK);
    return a;
}

static double value(const struct array *a, int64_t i) {
    union scalar v = elem_load(a->type.dtype, a->data, i);
    return dtype_is_float(a->type.dtype) ? v.f : (double)v.i;
}

/* Quantiles to 17 digits (computed with 50-digit arithmetic). */
static void test_quantile(void **state) {
    (void)state;
    static const double table[][2] = {{0.5, 0.0},
                                      {0.6, 0.25334710313579978},
                                      {0.075, -1.4395314709384557},
                                      {0.0749, -1.4402382675279632},
                                      {1e-3, -3.0902323061678135},
                                      {1e-8, -5.6120012441747887},
                                      {1e-12, -7.0344838253011321},
                                      {0.9999, 3.7190164854557088},
                                      {0x1p-53, -8.2095361516013856}};
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        double got = normal_quantile(table[i][0]), want = table[i][1];
        if (!(fabs(got - want) <= 4e-15 * fabs(want)))
            fail_msg("quantile(%.17g) = %.17g, expected %.17g", table[i][0], got, want);
    }
    for (int i = 1; i < 1000; i++) {
        double p = i / 1024.0;
        assert_true(normal_quantile(p) == -normal_quantile(1 - p));
        assert_true(normal_quantile(p) < normal_quantile((i + 1) / 1024.0));
    }
}

/* Bits that every machine must reproduce. */
static void test_golden(void **state) {
    (void)state;
    static const uint64_t f64[4] = {0x3fe4cb706e8446ab, 0xbfed77a73faec3f8, 0x3fcf657335e6c5bf,
                                    0xbfe98fa82f91d412};
    static const uint32_t f32[4] = {0x3f265b83, 0xbf6bbd3a, 0x3e7b2b9a, 0xbf4c7d41};
    static const uint64_t i64[4] = {0x3dfa47f2f2db03a5, 0xadb64a42ce3f5c65, 0x18cd3a876ca95718,
                                    0xb65335b9e62e24f2};
    struct array a = make(DT_F64, 4), b = make(DT_F32, 4), c = make(DT_I64, 4);
    assert_int_equal(random_fill(a.data, DT_F64, 4, 7, "x", NULL, NULL), PROEM_OK);
    assert_int_equal(random_fill(b.data, DT_F32, 4, 7, "x", NULL, NULL), PROEM_OK);
    assert_int_equal(random_fill(c.data, DT_I64, 4, 7, "x", NULL, NULL), PROEM_OK);
    assert_memory_equal(a.data, f64, sizeof f64);
    assert_memory_equal(b.data, f32, sizeof f32);
    assert_memory_equal(c.data, i64, sizeof i64);
    array_free(&a);
    array_free(&b);
    array_free(&c);
}

static void test_streams_differ(void **state) {
    (void)state;
    static const struct {
        uint64_t seed;
        const char *name;
    } keys[] = {{0, "x"}, {1, "x"}, {0, "y"}, {0, ""}, {0, "xy"}, {UINT64_MAX, "x"}};
    int64_t v[COUNT_OF(keys)][64];
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        random_fill(v[i], DT_I64, 64, keys[i].seed, keys[i].name, NULL, NULL);
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        for (size_t j = 0; j < i; j++)
            for (size_t k = 0; k < 64; k++)
                for (size_t l = 0; l < 64; l++)
                    assert_true(v[i][k] != v[j][l]);
}

static void test_prefix(void **state) {
    (void)state;
    for (enum dtype d = DT_NONE + 1; d < DT_COUNT; d++) {
        struct array a = make(d, 1000), b = make(d, 17);
        random_fill(a.data, d, 1000, 3, "w", NULL, NULL);
        random_fill(b.data, d, 17, 3, "w", NULL, NULL);
        for (int64_t i = 0; i < 17; i++)
            assert_true(value(&a, i) == value(&b, i));
        array_free(&a);
        array_free(&b);
    }
}

/* Moments of 2^17 normals: 5 standard deviations of each estimate. */
static void test_normal_moments(void **state) {
    (void)state;
    enum { N = 1 << 17 };
    struct array a = make(DT_F32, N);
    random_fill(a.data, DT_F32, N, 0, "x", NULL, NULL);
    double m[5] = {0};
    int64_t inside = 0;
    for (int64_t i = 0; i < N; i++) {
        double v = value(&a, i), p = 1;
        for (int k = 1; k <= 4; k++)
            m[k] += (p *= v);
        inside += fabs(v) < 1;
    }
    double s = 5 / sqrt((double)N);
    assert_true(fabs(m[1] / N) < s);
    assert_true(fabs(m[2] / N - 1) < s * sqrt(2.0));
    assert_true(fabs(m[3] / N) < s * sqrt(15.0));
    assert_true(fabs(m[4] / N - 3) < s * sqrt(96.0));
    assert_true(fabs((double)inside / N - 0.682689492137) < s * 0.4655);
    array_free(&a);
}

/* Normals of a narrow dtype are the rounded normals of f64. */
static void test_narrow(void **state) {
    (void)state;
    enum { N = 1 << 16 };
    struct array wide = make(DT_F64, N);
    random_fill(wide.data, DT_F64, N, 0, "x", NULL, NULL);
    for (enum dtype d = DT_NONE + 1; d < DT_COUNT; d++) {
        if (!dtype_is_float(d) || d == DT_E8M0) continue;
        struct array a = make(d, N);
        random_fill(a.data, d, N, 0, "x", NULL, NULL);
        for (int64_t i = 0; i < N; i++)
            assert_true(value(&a, i) == float_round(d, value(&wide, i), false));
        array_free(&a);
    }
    array_free(&wide);
}

static void test_full_range(void **state) {
    (void)state;
    for (enum dtype d = DT_NONE + 1; d < DT_COUNT; d++) {
        if (dtype_is_float(d)) continue;
        struct array a = make(d, 4096);
        random_fill(a.data, d, 4096, 1, "q", NULL, NULL);
        int bits = d == DT_BOOL ? 1 : dtype_bits(d);
        for (int bit = 0; bit < bits; bit++) {
            int64_t ones = 0;
            for (int64_t i = 0; i < 4096; i++)
                ones += (int64_t)(elem_bits(d, elem_load(d, a.data, i)) >> bit & 1);
            assert_in_range(ones, 2048 - 5 * 32, 2048 + 5 * 32);
        }
        array_free(&a);
    }
}

static void test_e8m0(void **state) {
    (void)state;
    struct array a = make(DT_E8M0, 2000);
    random_fill(a.data, DT_E8M0, 2000, 1, "s", NULL, NULL);
    int seen[9] = {0};
    for (int64_t i = 0; i < 2000; i++) {
        double v = value(&a, i);
        assert_true(v >= 0x1p-4 && v <= 0x1p4);
        seen[ilogb(v) + 4]++;
    }
    for (int i = 0; i < 9; i++)
        assert_in_range(seen[i], 222 - 75, 222 + 75);
    array_free(&a);
}

static void test_rules(void **state) {
    (void)state;
    static const struct {
        enum dtype d;
        struct random_rule rule;
        double lo, hi; /* both must be met */
    } cases[] = {
        {DT_I32, {.bounded = true, .lo = 0, .hi = 9}, 0, 9},
        {DT_I64, {.bounded = true, .lo = -3, .hi = 3}, -3, 3},
        {DT_I64, {.bounded = true, .lo = -1, .hi = 1, .nonzero = true}, -1, 1},
        {DT_U8, {.nonzero = true}, 1, 255},
        {DT_I4, {.nonzero = true}, -8, 7},
        {DT_U2, {.nonzero = true}, 1, 3},
        {DT_I2, {.bounded = true, .lo = 0, .hi = 100}, 0, 1},
        {DT_BOOL, {.nonzero = true}, 1, 1},
        {DT_I32, {.bounded = true, .lo = 0, .hi = 40, .sorted = true}, 0, 40},
    };
    for (size_t c = 0; c < COUNT_OF(cases); c++) {
        struct array a = make(cases[c].d, 5000);
        assert_int_equal(random_fill(a.data, cases[c].d, 5000, 1, "i", &cases[c].rule, NULL),
                         PROEM_OK);
        double lo = HUGE_VAL, hi = -HUGE_VAL;
        for (int64_t i = 0; i < 5000; i++) {
            double v = value(&a, i);
            lo = fmin(lo, v);
            hi = fmax(hi, v);
            if (cases[c].rule.nonzero) assert_true(v != 0);
            if (cases[c].rule.sorted && i > 0) assert_true(value(&a, i - 1) <= v);
        }
        assert_true(lo == cases[c].lo && hi == cases[c].hi);
        array_free(&a);
    }
}

static void test_rule_edges(void **state) {
    (void)state;
    struct random_rule nonzero = {.nonzero = true};
    for (int pass = 0; pass < 2; pass++) {
        enum dtype d = pass ? DT_U64 : DT_I64;
        int64_t v[256];
        int high = 0;
        assert_int_equal(random_fill(v, d, 256, 5, "d", &nonzero, NULL), PROEM_OK);
        for (int i = 0; i < 256; i++) {
            assert_true(v[i] != 0);
            high += v[i] < 0;
        }
        assert_in_range(high, 128 - 40, 128 + 40);
    }
    struct err e = {0};
    int32_t v[4] = {0};
    struct random_rule none = {.bounded = true, .lo = 0, .hi = -1};
    assert_int_equal(random_fill(v, DT_I32, 0, 0, "ids", &none, &e), PROEM_OK);
    assert_int_equal(random_fill(v, DT_I32, 4, 0, "ids", &none, &e), PROEM_INVALID);
    assert_contains(e.text, "ids: no random i32");
    err_clear(&e);
    struct random_rule only_zero = {.bounded = true, .lo = 0, .hi = 0, .nonzero = true};
    assert_int_equal(random_fill(v, DT_I32, 4, 0, "ids", &only_zero, &e), PROEM_INVALID);
    assert_contains(e.text, "not 0");
}

static void test_uniform(void **state) {
    (void)state;
    struct err e = {0};
    for (enum dtype d = DT_NONE + 1; d < DT_COUNT; d++) {
        struct array a = make(d, 3000);
        enum proem_status s = random_fill_uniform(a.data, d, 3000, 2, "u", &e);
        if (!dtype_is_float(d)) {
            assert_int_equal(s, PROEM_INVALID);
            assert_contains(e.text, "use randint");
            err_clear(&e);
        } else {
            double sum = 0;
            for (int64_t i = 0; i < 3000; i++) {
                double v = value(&a, i);
                assert_true(v >= 0 && v < 1);
                sum += v;
            }
            if (d != DT_E8M0 && d != DT_F4E2M1FN) {
                double half_step = ldexp(0.5, -dtype_significand(d));
                assert_true(fabs(sum / 3000 - (0.5 - half_step)) < 5 * 0.2887 / sqrt(3000.0));
            }
        }
        array_free(&a);
    }
}

static void test_range(void **state) {
    (void)state;
    struct err e = {0};
    struct array a = make(DT_BF16, 500);
    assert_int_equal(random_fill_range(a.data, DT_BF16, 500, 1, "r", -2, 3, &e), PROEM_OK);
    int seen[5] = {0};
    for (int64_t i = 0; i < 500; i++) {
        double v = value(&a, i);
        assert_true(v == floor(v) && v >= -2 && v <= 2);
        seen[(int)v + 2]++;
    }
    for (int i = 0; i < 5; i++)
        assert_in_range(seen[i], 50, 150);
    array_free(&a);
    int64_t v[64];
    assert_int_equal(random_fill_range(v, DT_I64, 64, 1, "r", INT64_MIN, INT64_MAX, &e), PROEM_OK);
    assert_int_equal(random_fill_range(v, DT_I8, 64, 1, "r", -128, 128, &e), PROEM_OK);
    assert_int_equal(random_fill_range(v, DT_I8, 64, 1, "r", -128, 129, &e), PROEM_INVALID);
    assert_contains(e.text, "out of the range of i8");
    err_clear(&e);
    assert_int_equal(random_fill_range(v, DT_E8M0, 64, 1, "r", 0, 4, &e), PROEM_INVALID);
    assert_int_equal(random_fill_range(v, DT_F4E2M1FN, 64, 1, "r", 0, 8, NULL), PROEM_INVALID);
    assert_int_equal(random_fill_range(v, DT_F4E2M1FN, 64, 1, "r", -6, 7, NULL), PROEM_OK);
    assert_int_equal(random_fill_range(v, DT_BOOL, 64, 1, "r", 0, 2, NULL), PROEM_OK);
    assert_int_equal(random_fill_range(v, DT_U64, 64, 1, "r", -1, 2, NULL), PROEM_INVALID);
}

static void test_choose(void **state) {
    (void)state;
    int64_t rows[100];
    for (int64_t n = 1; n <= 100; n += 9) {
        for (int64_t k = 0; k <= n; k++) {
            random_choose(n, k, (uint64_t)n, "y", rows);
            for (int64_t i = 0; i < k; i++) {
                assert_true(rows[i] >= 0 && rows[i] < n);
                if (i > 0) assert_true(rows[i] > rows[i - 1]);
            }
        }
    }
    random_choose(INT64_MAX, 3, 0, "y", rows);
    assert_true(rows[0] < rows[1] && rows[1] < rows[2]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantile),       cmocka_unit_test(test_golden),
        cmocka_unit_test(test_streams_differ), cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_normal_moments), cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_full_range),     cmocka_unit_test(test_e8m0),
        cmocka_unit_test(test_rules),          cmocka_unit_test(test_rule_edges),
        cmocka_unit_test(test_uniform),        cmocka_unit_test(test_range),
        cmocka_unit_test(test_choose),
    };
    return cmocka_run_group_tests_name("front_random", tests, NULL, NULL);
}
