/* SPDX-License-Identifier: MIT
 * How the few-rows template is cut: every choice fits the device, covers K, and depends on nothing
 * but its arguments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tile/tile_cuda_few.h"

static struct device_desc device(const char *name) {
    struct device_desc d;
    assert_true(device_by_name(name, strlen(name), &d));
    return d;
}

static const char *const names[] = {"sm_80", "sm_90a", "sm_100a"};
static const int64_t sizes[] = {-1, 0, 1, 7, 16, 17, 64, 333, 4096, 14336, 131072};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void check(const struct tile_few_problem *p, const struct device_desc *d) {
    struct tile_few t = tile_cuda_few(p, d), again = tile_cuda_few(p, d);
    assert_int_equal(t.fits, again.fits);
    assert_int_equal(t.units, again.units);
    assert_int_equal(t.split, again.split);
    if (!t.fits) return;
    assert_true(t.run == 8 || t.run == 16 || t.run == 32);
    assert_true(t.cols8 == 1 || t.cols8 == 2 || t.cols8 == 4 || t.cols8 == 8);
    assert_true(t.units >= 1 && t.ahead >= 1 && t.ahead <= t.units);
    assert_true(t.tiles >= 1 && t.step >= 1 && t.split >= 1);
    assert_true(t.bufs == 1 || t.bufs == 2);
    assert_int_equal(t.threads, 32 * t.kgroups * t.rgroups);
    assert_true(t.threads <= 1024);
    assert_true(t.shared > 0 && t.shared <= d->gpu.shared_block);
    if (p->K > 0 && p->Z >= 0 && p->N >= 0) {
        /* No split is without a chunk. */
        int64_t chunk = (int64_t)t.kgroups * t.units * 4 * t.run;
        assert_true((p->K + chunk - 1) / chunk >= t.split || t.split == 1);
    }
}

static void every_choice_fits(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        struct device_desc d = device(names[n]);
        for (int m = 0; m < SIZES; m++)
            for (int k = 0; k < SIZES; k++)
                for (int b = 0; b < 4; b++)
                    for (int form = 0; form < 6; form++) {
                        static const int bits[] = {4, 8, 16, 8, 32, 32},
                                         operand[] = {16, 16, 16, 8, 32, 64};
                        struct tile_few_problem p = {.Z = 1,
                                                     .M = sizes[m],
                                                     .N = sizes[(m + k) % SIZES],
                                                     .K = sizes[k],
                                                     .n_b = b + 1,
                                                     .bits = bits[form],
                                                     .operand_bits = operand[form],
                                                     .one_by_one = operand[form] > 16,
                                                     .plain = form % 2 == 0,
                                                     .a_ops = 20};
                        check(&p, &d);
                    }
    }
}

/* Few columns and a long K: all SMs have work because K is split. */
static void a_long_sum_is_split(void **state) {
    (void)state;
    struct device_desc d = device("sm_90a");
    struct tile_few_problem p = {.Z = 1,
                                 .M = 1,
                                 .N = 512,
                                 .K = 16384,
                                 .n_b = 1,
                                 .bits = 16,
                                 .operand_bits = 16,
                                 .plain = true};
    assert_true(tile_cuda_few(&p, &d).split > 1);
    p.N = 14336;
    p.K = 4096;
    assert_int_equal(tile_cuda_few(&p, &d).split, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_choice_fits),
        cmocka_unit_test(a_long_sum_is_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
