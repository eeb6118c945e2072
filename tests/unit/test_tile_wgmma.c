/* SPDX-License-Identifier: MIT
 * tile_cuda_wgmma: how operands are fed follows from their leaf tables; what it chooses fits into the
 * SM; other devices have no such template.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tile/tile_cuda_wgmma.h"

static struct device_desc device(const char *name) {
    struct device_desc d;
    assert_true(device_by_name(name, strlen(name), &d));
    return d;
}

static const struct tile_wgmma_operand plain = {.bits = 16,
                                                .along = true,
                                                .plain = true,
                                                .leaves = 1,
                                                .leaf_bits = 16,
                                                .map = true,
                                                .lines = true};

static struct tile_wgmma_problem problem(int64_t m, int64_t n, int64_t k) {
    return (struct tile_wgmma_problem){
        .Z = 1, .M = m, .N = n, .K = k, .n_b = 1, .a = plain, .b = plain};
}

static void check_fits(const struct tile_wgmma *t, const struct device_desc *d) {
    assert_true(t->fits);
    assert_in_range(t->shared, 1024, d->gpu.shared_block);
    assert_in_range(t->stages, 3, 8);
    assert_true(128 * (t->producer_regs + t->consumers * t->consumer_regs) <= 64512);
    assert_int_equal(t->producer_regs % 8, 0);
    assert_int_equal(t->consumer_regs % 8, 0);
    assert_int_equal(t->rows % (t->turns ? 64 : 64 * t->consumers), 0);
}

static void test_plain(void **state) {
    (void)state;
    struct device_desc d = device("sm_90a");
    struct tile_wgmma_problem p = problem(4096, 4096, 4096);
    struct tile_wgmma t = tile_cuda_wgmma(&p, &d);
    check_fits(&t, &d);
    assert_false(t.swap);
    assert_int_equal(t.a_feed, TILE_FEED_TMA);
    assert_int_equal(t.b_feed, TILE_FEED_TMA);
    assert_true(t.seconds > 100e-6 && t.seconds < 400e-6);
    p.M = -1;
    t = tile_cuda_wgmma(&p, &d);
    check_fits(&t, &d);
    assert_true(t.seconds < 0);
}

static void test_weights(void **state) {
    (void)state;
    struct device_desc d = device("sm_90a");
    struct tile_wgmma_problem p = problem(4096, 14336, 4096);
    p.b.plain = false, p.b.ops = 5;
    static const int bits[] = {4, 8, 16};
    for (int i = 0; i < 3; i++) {
        p.b.leaf_bits = bits[i];
        p.b.group = bits[i] == 4 ? 128 : 0;
        struct tile_wgmma t = tile_cuda_wgmma(&p, &d);
        check_fits(&t, &d);
        assert_true(t.swap && t.regs);
        assert_int_equal(t.b_feed, TILE_FEED_TMA);
    }
    /* A group that is neither in a step nor made of blocks; a leaf wider than the operand. */
    p.b.group = 24;
    assert_int_equal(tile_cuda_wgmma(&p, &d).b_feed, TILE_FEED_VALUE);
    p.b.group = 0, p.b.leaf_bits = 32;
    struct tile_wgmma t = tile_cuda_wgmma(&p, &d);
    check_fits(&t, &d);
    assert_false(t.regs);
}

static void test_feeds(void **state) {
    (void)state;
    struct device_desc d = device("sm_90a");
    struct tile_wgmma_problem p = problem(1000, 2000, 512);
    p.a.map = false; /* gathered rows */
    struct tile_wgmma t = tile_cuda_wgmma(&p, &d);
    check_fits(&t, &d);
    assert_int_equal(t.a_feed, TILE_FEED_COPY);
    p.a.lines = false; /* that start anywhere */
    t = tile_cuda_wgmma(&p, &d);
    check_fits(&t, &d);
    assert_int_equal(t.a_feed, TILE_FEED_VALUE);
    assert_false(t.regs);
    p = problem(1000, 2000, 512);
    p.a.plain = p.b.plain = false, p.a.ops = 1, p.b.ops = 5;
    t = tile_cuda_wgmma(&p, &d); /* both computed: the dearer one in registers */
    check_fits(&t, &d);
    assert_true(t.swap && t.regs);
    assert_int_equal(t.a_feed, TILE_FEED_VALUE);
    p.a.ops = 50;
    t = tile_cuda_wgmma(&p, &d);
    assert_true(!t.swap && t.regs);
    assert_int_equal(t.b_feed, TILE_FEED_VALUE);
    p.n_b = 2;
    p.a = p.b = plain;
    t = tile_cuda_wgmma(&p, &d);
    check_fits(&t, &d);
}

/* Tiles that are passed over: the next best, all of them fit, the last one stays. */
static void test_passed(void **state) {
    (void)state;
    struct device_desc d = device("sm_90a");
    struct tile_wgmma_problem p = problem(4096, 4096, 4096);
    struct tile_wgmma best = tile_cuda_wgmma(&p, &d), before = best;
    assert_in_range(best.choices, 2, 16);
    for (p.passed = 1; p.passed < best.choices; p.passed++) {
        struct tile_wgmma t = tile_cuda_wgmma(&p, &d);
        check_fits(&t, &d);
        assert_int_equal(t.choices, best.choices);
        assert_true(t.seconds >= before.seconds);
        assert_false(t.rows == before.rows && t.cols == before.cols && t.turns == before.turns);
        before = t;
    }
    struct tile_wgmma last = tile_cuda_wgmma(&p, &d);
    assert_true(last.rows == before.rows && last.cols == before.cols);
    p.passed = -1;
    struct tile_wgmma first = tile_cuda_wgmma(&p, &d);
    assert_true(first.rows == best.rows && first.cols == best.cols && first.turns == best.turns);
}

static void test_none(void **state) {
    (void)state;
    struct device_desc old = device("sm_80"), next = device("sm_100a"), d = device("sm_90a");
    struct tile_wgmma_problem p = problem(4096, 4096, 4096);
    assert_false(tile_cuda_wgmma(&p, &old).fits);
    assert_false(tile_cuda_wgmma(&p, &next).fits);
    p.a.bits = p.b.bits = 8;
    p.b.along = false; /* 8-bit elements across k: the tensor cores cannot */
    assert_false(tile_cuda_wgmma(&p, &d).fits);
    p.b.along = true;
    p.a.leaf_bits = p.b.leaf_bits = 8;
    struct tile_wgmma t = tile_cuda_wgmma(&p, &d);
    check_fits(&t, &d);
    p.n_b = 3;
    assert_false(tile_cuda_wgmma(&p, &d).fits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),  cmocka_unit_test(test_weights), cmocka_unit_test(test_feeds),
        cmocka_unit_test(test_passed), cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
