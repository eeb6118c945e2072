/* SPDX-License-Identifier: MIT
 * Descriptions of GPUs by name: whole, equal each time, and what code runs where.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/device.h"

static struct device_desc named(const char *name) {
    struct device_desc d;
    assert_true(device_by_name(name, strlen(name), &d));
    return d;
}

static void test_names(void **state) {
    (void)state;
    int n = 0;
    for (; device_gpu_name_at(n) != NULL; n++) {
        const char *name = device_gpu_name_at(n);
        struct device_desc a = named(name), b = named(name);
        struct str ta, tb;
        str_init(&ta, &allocator_default);
        str_init(&tb, &allocator_default);
        device_print(&a, &ta);
        device_print(&b, &tb);
        assert_string_equal(str_text(&ta), str_text(&tb));
        assert_string_equal(a.name, name);
        assert_int_equal(a.kind, DEVICE_CUDA);
        assert_int_equal(a.cores, a.gpu.sms);
        assert_true(a.gpu.shared_block < a.gpu.shared_sm);
        assert_true(a.gpu.f32 * a.cores > 1e13 && a.gpu.tensor_f16 > a.gpu.f32);
        str_free(&ta);
        str_free(&tb);
    }
    assert_int_equal(n, 4);
    struct device_desc d;
    assert_false(device_by_name("sm_9", 4, &d));
    assert_false(device_by_name("sm_100", 6, &d));
}

/* The peaks that NVIDIA states, in units of 1e12 operations a second. */
static void test_peaks(void **state) {
    (void)state;
    struct device_desc a100 = named("sm_80"), h200 = named("sm_90a"), b200 = named("sm_100a");
    assert_true(a100.gpu.tensor_f16 * 108 > 300e12 && a100.gpu.tensor_f16 * 108 < 320e12);
    assert_true(h200.gpu.tensor_f16 * 132 > 980e12 && h200.gpu.tensor_f16 * 132 < 1100e12);
    assert_true(h200.gpu.tensor_f8 == 2 * h200.gpu.tensor_f16);
    assert_true(b200.gpu.tensor_f16 * 148 > 2200e12 && b200.gpu.tensor_f16 * 148 < 2500e12);
    assert_true(a100.gpu.tensor_f8 == 0);
}

static void test_can_run(void **state) {
    (void)state;
    struct device_desc a100 = named("sm_80"), h200 = named("sm_90a"), cpu = named("avx2");
    const char *missing = NULL;
    assert_true(device_can_run(&h200, &h200, &missing));
    assert_false(device_can_run(&h200, &a100, &missing));
    assert_string_equal(missing, "sm_80");
    assert_false(device_can_run(&cpu, &h200, &missing));
    assert_string_equal(missing, "cuda");
    struct device_desc portable = named("sm_90");
    assert_true(device_can_run(&h200, &portable, &missing));
    assert_false(device_can_run(&portable, &a100, &missing));
    assert_true(h200.gpu.specific && !portable.gpu.specific);
    struct device_desc newer = a100;
    newer.gpu.cc = 86;
    assert_true(device_derive_gpu(&newer));
    assert_string_equal(newer.name, "sm_86");
    assert_true(device_can_run(&newer, &a100, &missing));
    assert_false(device_can_run(&a100, &newer, &missing));
    newer.gpu.cc = 75;
    assert_false(device_derive_gpu(&newer));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_peaks),
        cmocka_unit_test(test_can_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
