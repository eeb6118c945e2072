/* SPDX-License-Identifier: MIT
 * How the few-rows template of the copy engine is cut: every choice is one that the template takes and
 * the device has room for, and its K order does not change with the rows of A.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tile/tile_cuda_ring.h"

static struct device_desc device(const char *name) {
    struct device_desc d;
    assert_true(device_by_name(name, strlen(name), &d));
    return d;
}

static const int64_t sizes[] = {-1, 0, 1, 8, 16, 17, 64, 65, 333, 1056, 4096, 14336, 131072};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* What the template's static assertions and its launch ask for. */
static void check(const struct tile_ring_problem *p, const struct device_desc *d) {
    struct tile_ring t = tile_cuda_ring(p, d), again = tile_cuda_ring(p, d);
    assert_int_equal(t.fits, again.fits);
    assert_int_equal(t.tiles, again.tiles);
    assert_int_equal(t.stages, again.stages);
    assert_int_equal(t.shared, again.shared);
    if (!t.fits) return;
    int parts = t.kgroups * t.units;
    assert_int_equal(t.run * p->bits, 128);
    assert_int_equal(parts % 2, 0);
    assert_true(t.tiles >= 1 && 16 * t.tiles <= 256); /* rows of a box */
    assert_true(t.stages >= 3 && (t.direct || (t.a_ahead >= 1 && t.a_warps >= 1)));
    assert_int_equal(t.threads, 32 * (t.tiles * t.kgroups + (t.direct ? 1 : t.a_warps + 2)));
    assert_true(t.threads <= 640);
    assert_true(t.shared > 0 && t.shared <= d->gpu.shared_block);
    assert_true(d->gpu.cc >= 90 && p->maps);
    assert_true(t.units == 1 || t.units % 2 == 0);
    assert_true(8 * t.cols8 >= p->M);
}

static void every_choice_fits(void **state) {
    (void)state;
    static const char *const names[] = {"sm_80", "sm_90a", "sm_100a"};
    static const int bits[] = {4, 8, 16, 32}, groups[] = {0, 8, 24, 32, 128};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        struct device_desc d = device(names[n]);
        for (int i = 0; i < SIZES * SIZES * 4 * 5; i++) {
            struct tile_ring_problem p = {.Z = 1 + i % 3,
                                          .M = sizes[i % SIZES],
                                          .N = sizes[i / SIZES % SIZES],
                                          .K = sizes[(i + i / SIZES) % SIZES],
                                          .n_b = 1 + i / 7 % 3,
                                          .bits = bits[i / (SIZES * SIZES) % 4],
                                          .direct = i % 2 != 0,
                                          .maps = i % 11 != 0,
                                          .group = groups[i / (SIZES * SIZES * 4)],
                                          .a_leaves = i % 5,
                                          .a_bits = 16 * (i % 5),
                                          .a_ops = i % 4 * 20};
            check(&p, &d);
        }
    }
}

static struct tile_ring_problem weights(int64_t m, int bits) {
    return (struct tile_ring_problem){.Z = 1,
                                      .M = m,
                                      .N = 14336,
                                      .K = 4096,
                                      .n_b = 1,
                                      .bits = bits,
                                      .maps = true,
                                      .a_leaves = 1,
                                      .a_bits = 16};
}

/* One block an SM, none with two tasks. */
static void rows_are_dealt_evenly(void **state) {
    (void)state;
    struct device_desc d = device("sm_90a");
    struct tile_ring_problem p = weights(16, 8);
    struct tile_ring t = tile_cuda_ring(&p, &d);
    assert_true(t.fits);
    int64_t blocks = (p.N + 16 * t.tiles - 1) / (16 * t.tiles);
    assert_true(blocks <= d.gpu.sms && blocks > d.gpu.sms * 9 / 10);
}

static void order_does_not_follow_rows(void **state) {
    (void)state;
    struct device_desc d = device("sm_90a");
    for (int bits = 4; bits <= 16; bits *= 2) {
        struct tile_ring_problem one = weights(1, bits), more = weights(16, bits);
        struct tile_ring a = tile_cuda_ring(&one, &d), b = tile_cuda_ring(&more, &d);
        assert_true(a.fits && b.fits);
        assert_int_equal(a.kgroups, b.kgroups);
        assert_int_equal(a.units, b.units);
    }
}

/* Few columns leave SMs without work: K has to be split. */
static void few_columns_are_for_another(void **state) {
    (void)state;
    struct device_desc d = device("sm_90a");
    struct tile_ring_problem p = weights(16, 8);
    p.N = 512;
    assert_false(tile_cuda_ring(&p, &d).fits);
    p.N = 14336;
    p.maps = false;
    assert_false(tile_cuda_ring(&p, &d).fits);
}

/* An expensive A is evaluated once, which another template does; as it lies, A costs nothing. */
static void dear_rows_are_for_another(void **state) {
    (void)state;
    struct device_desc d = device("sm_90a");
    struct tile_ring_problem p = weights(16, 16);
    assert_true(tile_cuda_ring(&p, &d).fits);
    p.a_ops = 4000;
    assert_false(tile_cuda_ring(&p, &d).fits);
    p.direct = true;
    assert_true(tile_cuda_ring(&p, &d).fits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_choice_fits),          cmocka_unit_test(rows_are_dealt_evenly),
        cmocka_unit_test(order_does_not_follow_rows), cmocka_unit_test(few_columns_are_for_another),
        cmocka_unit_test(dear_rows_are_for_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
