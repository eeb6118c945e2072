/* SPDX-License-Identifier: MIT
 * The portable tensor-core product: which dtypes it takes, and that sizes decide the tile alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tile/tile_cuda_mma.h"

static const char *const names[] = {"sm_80", "sm_90", "sm_90a", "sm_100a"};
static const int64_t sizes[] = {-1, 0, 1, 17, 64, 65, 333, 4096, 1 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static struct device_desc device(const char *name) {
    struct device_desc d;
    assert_true(device_by_name(name, strlen(name), &d));
    return d;
}

static void check(const struct tile_problem *p, const struct device_desc *d, bool expected) {
    struct tile_cuda t = {.form = TILE_SIMT};
    assert_int_equal(tile_cuda_mma(p, d, &t), expected);
    if (!expected) return;
    assert_int_equal(t.form, TILE_MMA);
    assert_true(t.rows == 64 || t.rows == 128);
    assert_int_equal(t.rows, t.cols);
    assert_int_equal(t.threads, 2 * t.cols);
    assert_true(t.split >= 1 && t.split <= 16 && (t.split == 1 || p->K / t.split >= 256));
    /* Sums of a thread leave room in its 255 registers; shared memory is static. */
    assert_true(t.rows * t.cols / t.threads * p->n_b <= 128);
    assert_true(2 * 64 * (t.rows + p->n_b * t.cols) <= 48 * 1024);
}

static void test_sizes(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct device_desc d = device(names[i]);
        for (int m = 0; m < SIZES; m++) {
            for (int n = 0; n < SIZES; n++) {
                struct tile_problem p = {.acc = DT_F32,
                                         .Z = sizes[(m + n) % SIZES],
                                         .M = sizes[m],
                                         .N = sizes[n],
                                         .K = 512,
                                         .likely_M = sizes[n],
                                         .likely_N = -1,
                                         .operand = {DT_BF16, DT_BF16}};
                for (p.n_b = 1; p.n_b <= 4; p.n_b++)
                    check(&p, &d, true);
            }
        }
    }
}

/* K is cut where tiles leave SMs idle, and there alone; never where one order is asked for. */
static void test_parts_of_k(void **state) {
    (void)state;
    struct device_desc d = device("sm_90");
    struct tile_problem p = {.acc = DT_F32,
                             .n_b = 1,
                             .Z = 1,
                             .M = 128,
                             .N = 256,
                             .K = 8192,
                             .operand = {DT_BF16, DT_BF16}};
    struct tile_cuda t;
    assert_true(tile_cuda_mma(&p, &d, &t));
    assert_int_equal(t.split, 16);
    p.one_order = true;
    assert_true(tile_cuda_mma(&p, &d, &t));
    assert_int_equal(t.split, 1);
    p.one_order = false;
    p.K = 500;
    assert_true(tile_cuda_mma(&p, &d, &t));
    assert_int_equal(t.split, 1);
    p.K = 8192, p.M = 4096;
    assert_true(tile_cuda_mma(&p, &d, &t));
    assert_int_equal(t.split, 1);
    p.M = -1, p.likely_M = 128;
    assert_true(tile_cuda_mma(&p, &d, &t));
    assert_int_equal(t.split, 16);
}

static void test_dtypes(void **state) {
    (void)state;
    struct device_desc d = device("sm_90");
    const struct {
        enum dtype acc, a, b;
        bool takes;
    } row[] = {{DT_F32, DT_BF16, DT_BF16, true},      {DT_F32, DT_F16, DT_F16, true},
               {DT_F32, DT_BF16, DT_F16, false},      {DT_F32, DT_F32, DT_F32, false},
               {DT_F64, DT_F64, DT_F64, false},       {DT_F32, DT_F8E4M3FN, DT_F8E5M2, true},
               {DT_F32, DT_F8E4M3FN, DT_BF16, false}, {DT_I32, DT_I8, DT_U8, true},
               {DT_I32, DT_U8, DT_U8, true},          {DT_I32, DT_I4, DT_I8, false},
               {DT_I64, DT_I8, DT_I8, false},         {DT_F32, DT_I8, DT_I8, false},
               {DT_F32, DT_F8E5M2, DT_F8E5M2, true}};
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        struct tile_problem p = {.acc = row[i].acc,
                                 .n_b = 1,
                                 .Z = 1,
                                 .M = 128,
                                 .N = 128,
                                 .K = 128,
                                 .operand = {row[i].a, row[i].b}};
        check(&p, &d, row[i].takes);
        p.hides = true;
        check(&p, &d, false);
        p.hides = false;
        p.one_order = true; /* the same template in every mode */
        check(&p, &d, row[i].takes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes),
                                       cmocka_unit_test(test_parts_of_k),
                                       cmocka_unit_test(test_dtypes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
