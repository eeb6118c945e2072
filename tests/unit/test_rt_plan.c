/* SPDX-License-Identifier: MIT
 * Device descriptions, the memory plan's properties, strided copies and overlaps.
 */
#include "rt_units.h"

#include "ops/dtype.h"
#include "rt/rt_internal.h"

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* ---- devices --------------------------------------------------------------------------------- */

static void named_devices(void **state) {
    (void)state;
    for (int i = 0; device_name_at(i) != NULL; i++) {
        struct device_desc a, b;
        const char *name = device_name_at(i), *missing = NULL;
        memset(&a, 0xAA, sizeof a);
        memset(&b, 0x55, sizeof b);
        assert_true(device_by_name(name, strlen(name), &a));
        assert_true(device_by_name(name, strlen(name), &b));
        struct str ta, tb;
        str_init(&ta, &allocator_default);
        str_init(&tb, &allocator_default);
        device_print(&a, &ta);
        device_print(&b, &tb);
        assert_string_equal(str_text(&ta), str_text(&tb));
        str_free(&ta);
        str_free(&tb);
        assert_true(device_can_run(&a, &b, &missing));
        assert_true(a.flops_per_core > 0 && a.bandwidth >= a.bandwidth_per_core);
    }
    struct device_desc d;
    assert_false(device_by_name("avx", 3, &d));
    assert_false(device_by_name("avx5123", 7, &d));
}

static void can_run_names_what_lacks(void **state) {
    (void)state;
    struct device_desc have, want;
    const char *missing = NULL;
    assert_true(device_by_name("avx2", 4, &have));
    assert_true(device_by_name("avx512", 6, &want));
    assert_int_equal(have.vector_bits, 256);
    assert_int_equal(want.vector_bits, 512);
    assert_false(device_can_run(&have, &want, &missing));
    assert_string_equal(missing, "avx512f");
    assert_true(device_can_run(&want, &have, &missing));
    assert_true(device_by_name("neon", 4, &want));
    assert_false(device_can_run(&have, &want, &missing));
    assert_string_equal(missing, "aarch64");
    assert_true(device_by_name("generic", 7, &want));
    assert_true(device_can_run(&have, &want, &missing));
}

static void detects_this_machine(void **state) {
    (void)state;
    struct device_desc d;
    double t = rt_now_ms();
    rt_detect(&d);
    t = rt_now_ms() - t;
    struct str s;
    str_init(&s, &allocator_default);
    device_print(&d, &s);
    print_message("%s (%.2f ms)\n", str_text(&s), t);
    str_free(&s);
    assert_true(d.cores >= 1 && d.cores <= sysconf(_SC_NPROCESSORS_ONLN));
    assert_true(d.l1d >= 4096 && d.l1d <= d.l2 && d.line >= 16);
    assert_string_equal(d.name, "native");
}

/* ---- memory plan ----------------------------------------------------------------------------- */

static void check_plan(const struct rt_item *items, int n, int64_t total) {
    for (int i = 0; i < n; i++) {
        assert_int_equal(items[i].offset % 64, 0);
        assert_true(items[i].offset >= 0 && items[i].offset + items[i].bytes <= total);
        for (int j = 0; j < i; j++) {
            bool together = items[i].first <= items[j].last && items[j].first <= items[i].last;
            bool apart = items[i].offset + items[i].bytes <= items[j].offset ||
                         items[j].offset + items[j].bytes <= items[i].offset;
            assert_true(!together || apart || items[i].bytes == 0 || items[j].bytes == 0);
        }
    }
}

/* No plan is smaller than what lives at one step. */
static int64_t least_total(const struct rt_item *items, int n, int steps) {
    int64_t most = 0;
    for (int s = 0; s < steps; s++) {
        int64_t sum = 0;
        for (int i = 0; i < n; i++) {
            if (items[i].first <= s && s <= items[i].last) sum += (items[i].bytes + 63) / 64 * 64;
        }
        if (sum > most) most = sum;
    }
    return most;
}

static void plans_are_sound(void **state) {
    (void)state;
    enum { MOST = 40, STEPS = 20 };
    uint64_t seed = 1;
    int64_t planned = 0, least = 0;
    for (int round = 0; round < 500; round++) {
        struct rt_item items[MOST];
        int n = (int)(next_random(&seed) % MOST);
        for (int i = 0; i < n; i++) {
            int a = (int)(next_random(&seed) % STEPS), b = (int)(next_random(&seed) % 4);
            items[i] = (struct rt_item){.bytes = (int64_t)(next_random(&seed) % 5000),
                                        .first = a,
                                        .last = a + b < STEPS ? a + b : STEPS - 1};
        }
        int64_t total = -1, again = -1;
        assert_ok(rt_arena_plan(&allocator_default, items, n, &total, e));
        check_plan(items, n, total);
        struct rt_item copy[MOST];
        memcpy(copy, items, sizeof copy);
        assert_ok(rt_arena_plan(&allocator_default, copy, n, &again, e));
        assert_int_equal(again, total);
        for (int i = 0; i < n; i++)
            assert_int_equal(copy[i].offset, items[i].offset);
        assert_true(total >= least_total(items, n, STEPS));
        planned += total;
        least += least_total(items, n, STEPS);
    }
    assert_true((double)planned < 1.15 * (double)least);
}

static void chain_needs_two_buffers(void **state) {
    (void)state;
    struct rt_item items[10];
    for (int i = 0; i < 10; i++)
        items[i] = (struct rt_item){1000, i, i + 1, 0};
    int64_t total;
    assert_ok(rt_arena_plan(&allocator_default, items, 10, &total, e));
    assert_int_equal(total, 2 * 1024);
}

static void plan_rejects_overflow(void **state) {
    (void)state;
    struct rt_item items[2] = {{INT64_MAX / 2, 0, 0, 0}, {INT64_MAX / 2, 0, 0, 0}};
    int64_t total = 7;
    struct err err;
    err_clear(&err);
    assert_int_equal(rt_arena_plan(&allocator_default, items, 2, &total, &err), PROEM_NOMEM);
    items[0].bytes = INT64_MAX;
    err_clear(&err);
    assert_int_equal(rt_arena_plan(&allocator_default, items, 1, &total, &err), PROEM_NOMEM);
    items[0].bytes = -1;
    err_clear(&err);
    assert_int_equal(rt_arena_plan(&allocator_default, items, 1, &total, &err), PROEM_NOMEM);
    assert_ok(rt_arena_plan(&allocator_default, items, 0, &total, e));
    assert_int_equal(total, 0);
}

static void plan_survives_lack_of_memory(void **state) {
    (void)state;
    for (long fail = 0; fail < 2; fail++) {
        struct counted c = {.fail_at = fail};
        struct allocator a = counted_allocator(&c);
        struct rt_item item = {64, 0, 0, 0};
        int64_t total;
        struct err err;
        err_clear(&err);
        assert_int_equal(rt_arena_plan(&a, &item, 1, &total, &err), PROEM_NOMEM);
        assert_int_equal(c.live, 0);
    }
}

/* ---- views ----------------------------------------------------------------------------------- */

/* Element i of a bit string, on its own terms: one bit at a time. */
static uint64_t get_bits(const unsigned char *base, int bits, int64_t i) {
    uint64_t v = 0;
    for (int b = 0; b < bits; b++) {
        int64_t at = i * bits + b;
        v |= (uint64_t)(base[at / 8] >> (at % 8) & 1) << b;
    }
    return v;
}

static void check_copy(int bits, int rank, const int64_t *shape, const int64_t *src_strides,
                       int64_t src_base, const int64_t *dst_strides, int64_t dst_base,
                       uint64_t *seed) {
    enum { BYTES = 1 << 16 };
    unsigned char *src = malloc(BYTES), *dst = malloc(BYTES), *want = malloc(BYTES);
    assert_true(src != NULL && dst != NULL && want != NULL);
    for (int i = 0; i < BYTES; i++) {
        src[i] = (unsigned char)next_random(seed);
        dst[i] = want[i] = (unsigned char)next_random(seed);
    }
    struct rt_view from = {src + src_base * bits / 8, bits, rank, shape, src_strides};
    struct rt_view to = {dst + dst_base * bits / 8, bits, rank, shape, dst_strides};
    int64_t n = 1, lo, hi;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    assert_ok(rt_view_copy(&to, &from, e));
    assert_true(rt_view_extent(&to, &lo, &hi));
    int64_t at[8] = {0};
    for (int64_t k = 0; k < n; k++) {
        int64_t s = src_base, d = dst_base, compact = 1;
        for (int i = rank - 1; i >= 0; i--) {
            s += at[i] * (src_strides != NULL ? src_strides[i] : compact);
            d += at[i] * (dst_strides != NULL ? dst_strides[i] : compact);
            compact *= shape[i];
        }
        assert_int_equal(get_bits(dst, bits, d), get_bits(src, bits, s));
        for (int b = 0; b < bits; b++) { /* what is left must be untouched */
            int64_t bit = d * bits + b;
            want[bit / 8] &= (unsigned char)~(1u << (bit % 8));
            want[bit / 8] |= (unsigned char)(dst[bit / 8] & 1u << (bit % 8));
        }
        for (int i = rank - 1; i >= 0 && ++at[i] == shape[i]; i--)
            at[i] = 0;
    }
    if (bits < 8 && n > 0 && rt_view_is_compact(&to)) {
        int64_t end = dst_base * bits / 8 + (n * bits + 7) / 8;
        for (int64_t bit = (dst_base + n) * bits; bit < end * 8; bit++) {
            want[bit / 8] &= (unsigned char)~(1u << (bit % 8));
        }
    }
    assert_memory_equal(dst, want, BYTES);
    free(src);
    free(dst);
    free(want);
}

/* Strides for a random order of dims with random gaps; some 0 or negative if `any`. */
static int64_t random_strides(uint64_t *seed, int rank, const int64_t *shape, bool any,
                              int64_t *strides) {
    int order[4] = {0, 1, 2, 3};
    int64_t reach = 1;
    for (int i = rank - 1; i > 0; i--) {
        int j = (int)(next_random(seed) % (uint64_t)(i + 1)), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (int i = 0; i < rank; i++) {
        int k = order[i];
        strides[k] = any && next_random(seed) % 4 == 0 ? -reach : reach;
        if (any && next_random(seed) % 8 == 0) strides[k] = 0;
        reach = reach * (shape[k] > 0 ? shape[k] : 1) + (int64_t)(next_random(seed) % 2);
    }
    return reach;
}

static void copies_any_strides(void **state) {
    (void)state;
    enum { MIDDLE = 4096 };
    static const int widths[] = {2, 4, 8, 16, 24, 32, 64};
    uint64_t seed = 42;
    int compared = 0;
    for (size_t w = 0; w < COUNT_OF(widths); w++) {
        for (int round = 0; round < 60; round++) {
            int64_t shape[4], ss[4], ds[4];
            int rank = (int)(next_random(&seed) % 5);
            for (int i = 0; i < rank; i++) {
                shape[i] = (int64_t)(next_random(&seed) % 6) + (round % 7 != 0);
            }
            int64_t s = random_strides(&seed, rank, shape, true, ss);
            int64_t d = random_strides(&seed, rank, shape, false, ds);
            if (s >= MIDDLE || d >= MIDDLE) continue;
            check_copy(widths[w], rank, shape, ss, MIDDLE, ds, 8, &seed);
            check_copy(widths[w], rank, shape, ss, MIDDLE, NULL, 8, &seed);
            check_copy(widths[w], rank, shape, NULL, 8, ds, MIDDLE, &seed);
            compared++;
        }
    }
    assert_true(compared > 300);
}

static void copies_a_large_transpose(void **state) {
    (void)state;
    enum { M = 70, N = 45 };
    static float src[M * N], dst[N * M];
    int64_t shape[2] = {N, M}, strides[2] = {1, N};
    for (int i = 0; i < M * N; i++)
        src[i] = (float)i;
    struct rt_view from = {src, 32, 2, shape, strides}, to = {dst, 32, 2, shape, NULL};
    assert_ok(rt_view_copy(&to, &from, e));
    for (int n = 0; n < N; n++) {
        for (int m = 0; m < M; m++)
            assert_true(dst[n * M + m] == src[m * N + n]);
    }
}

static void agrees_with_dtype_elements(void **state) {
    (void)state;
    unsigned char packed[8] = {0x21, 0x43, 0x65, 0x87, 0xA9, 0xCB, 0xED, 0x0F}, out[4] = {0};
    int64_t shape[1] = {5}, strides[1] = {3};
    struct rt_view from = {packed, 4, 1, shape, strides}, to = {out, 4, 1, shape, NULL};
    assert_ok(rt_view_copy(&to, &from, e));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(elem_load(DT_U4, out, i).i, elem_load(DT_U4, packed, 3 * i).i);
    }
    assert_int_equal(out[2] >> 4, 0);
}

static void knows_compact(void **state) {
    (void)state;
    int64_t shape[3] = {2, 1, 3}, good[3] = {3, 99, 1}, bad[3] = {1, 2, 2}, empty[2] = {0, 5};
    struct rt_view v = {NULL, 32, 3, shape, good};
    assert_true(rt_view_is_compact(&v));
    v.strides = bad;
    assert_false(rt_view_is_compact(&v));
    v = (struct rt_view){NULL, 32, 2, empty, bad};
    assert_true(rt_view_is_compact(&v));
    int64_t bytes, lo, hi;
    assert_true(rt_view_bytes(&v, &bytes) && bytes == 0);
    assert_true(rt_view_extent(&v, &lo, &hi) && lo == 0 && hi == 0);
    v = (struct rt_view){NULL, 2, 0, NULL, NULL};
    assert_true(rt_view_bytes(&v, &bytes) && bytes == 1);
}

static void rejects_sizes_beyond_64_bits(void **state) {
    (void)state;
    int64_t huge[2] = {INT64_MAX / 4, 8}, shape[2] = {3, 3}, far[2] = {INT64_MAX / 2, INT64_MIN};
    int64_t negative[1] = {-1}, bytes, lo, hi;
    struct rt_view v = {NULL, 8, 2, huge, NULL};
    assert_false(rt_view_bytes(&v, &bytes));
    assert_false(rt_view_extent(&v, &lo, &hi));
    v = (struct rt_view){NULL, 8, 2, shape, far};
    assert_true(rt_view_bytes(&v, &bytes) && bytes == 9);
    assert_false(rt_view_extent(&v, &lo, &hi));
    struct rt_view to = {NULL, 8, 2, shape, NULL};
    struct err err;
    err_clear(&err);
    assert_int_equal(rt_view_copy(&to, &v, &err), PROEM_INVALID);
    v = (struct rt_view){NULL, 8, 1, negative, NULL};
    assert_false(rt_view_bytes(&v, &bytes));
    v = (struct rt_view){NULL, 8, 99, negative, NULL};
    assert_false(rt_view_bytes(&v, &bytes));
}

static void overlaps(void **state) {
    (void)state;
    static float m[8 * 16];
    int64_t left[2] = {8, 6}, right[2] = {8, 10}, rows[2] = {4, 16}, wide[2] = {16, 1};
    struct rt_view a = {m, 32, 2, left, wide}, b = {m + 6, 32, 2, right, wide};
    assert_false(rt_views_overlap(&a, &b)); /* columns 0..5 and 6..15 */
    assert_false(rt_views_overlap(&b, &a));
    b.data = m + 5;
    b.shape = left;
    assert_true(rt_views_overlap(&a, &b)); /* 0..5 and 5..10 */
    assert_true(rt_views_overlap(&b, &a));
    b = (struct rt_view){m + 16 + 6, 32, 2, left, wide};
    assert_false(rt_views_overlap(&a, &b)); /* other columns of other rows */
    b = (struct rt_view){m + 12, 32, 2, left, wide};
    assert_true(rt_views_overlap(&b, &a)); /* columns 12..15 and, a row on, 0..1 */
    b = (struct rt_view){m + 64, 32, 2, rows, NULL};
    struct rt_view c = {m, 32, 2, rows, NULL};
    assert_false(rt_views_overlap(&b, &c));
    assert_true(rt_views_overlap(&a, &c));
    assert_true(rt_views_equal(&c, &c));
    assert_false(rt_views_equal(&b, &c));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_devices),
        cmocka_unit_test(can_run_names_what_lacks),
        cmocka_unit_test(detects_this_machine),
        cmocka_unit_test(plans_are_sound),
        cmocka_unit_test(chain_needs_two_buffers),
        cmocka_unit_test(plan_rejects_overflow),
        cmocka_unit_test(plan_survives_lack_of_memory),
        cmocka_unit_test(copies_any_strides),
        cmocka_unit_test(copies_a_large_transpose),
        cmocka_unit_test(agrees_with_dtype_elements),
        cmocka_unit_test(knows_compact),
        cmocka_unit_test(rejects_sizes_beyond_64_bits),
        cmocka_unit_test(overlaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
