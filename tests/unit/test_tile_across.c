/* SPDX-License-Identifier: MIT
 * How the template for few rows and weights along their columns is cut: every choice fits the device
 * and has the K order of the first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tile/tile_cuda_across.h"

static const char *const names[] = {"sm_80", "sm_90", "sm_90a", "sm_100a"};
static const int64_t sizes[] = {-1, 0, 1, 8, 9, 16, 17, 33, 64, 1000, 131072};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void check(const struct tile_across_problem *p, const struct device_desc *d,
                  const struct tile_across *first) {
    struct tile_across t = tile_cuda_across(p, d);
    assert_true(t.fits);
    assert_true(t.stages >= 1 && t.stages <= 3);
    assert_true(t.run == 8 || t.run == 16);
    assert_true(t.cols8 == 1 || t.cols8 == 2 || t.cols8 == 4);
    /* Sums of a lane leave room in its 255 registers. */
    assert_true(t.run / 2 * t.cols8 * 4 + t.stages * (t.run * p->bits / 4) <= 192);
    /* Sums of the warps are in static shared memory. */
    assert_true(8 * (t.run / 2) * 32 * 16 + 8 * (8 * t.run + 4) * 4 + 8 <= 48 * 1024);
    assert_true(t.parts >= 1 && t.parts <= d->gpu.sms);
    assert_true(t.run * p->bits / 8 >= 4);
    assert_int_equal(t.choices, first->choices);
    assert_int_equal(t.run, first->run);
    assert_int_equal(t.cols8, first->cols8);
    assert_int_equal(t.parts, first->parts);
    bool known = p->Z >= 0 && p->M >= 0 && p->N >= 0 && p->K >= 0;
    assert_true(known ? t.seconds > 0 : t.seconds < 0);
}

static void test_every_choice_fits(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        struct device_desc d;
        assert_true(device_by_name(names[n], strlen(names[n]), &d));
        for (int i = 0; i < SIZES * SIZES * 3; i++) {
            struct tile_across_problem p = {.Z = 1,
                                            .M = sizes[i % SIZES],
                                            .N = sizes[i / SIZES % SIZES],
                                            .K = sizes[(i + i / SIZES) % SIZES],
                                            .bits = 4 << i / (SIZES * SIZES)};
            struct tile_across first = tile_cuda_across(&p, &d);
            assert_true(first.choices >= 1);
            for (p.passed = -1; p.passed < first.choices; p.passed++)
                check(&p, &d, &first);
        }
    }
}

/* Passing one over gives another; passing over all, the first. */
static void test_choices(void **state) {
    (void)state;
    struct device_desc d;
    assert_true(device_by_name("sm_90a", 6, &d));
    struct tile_across_problem p = {.Z = 1, .M = 16, .N = 14336, .K = 4096, .bits = 8};
    struct tile_across first = tile_cuda_across(&p, &d), last = first;
    assert_true(first.choices >= 2);
    for (p.passed = 1; p.passed < first.choices; p.passed++) {
        struct tile_across t = tile_cuda_across(&p, &d);
        assert_true(t.stages < last.stages);
        last = t;
    }
    p.passed = first.choices;
    assert_int_equal(tile_cuda_across(&p, &d).stages, first.stages);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_choice_fits),
        cmocka_unit_test(test_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
