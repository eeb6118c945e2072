/* SPDX-License-Identifier: MIT
 * Offsets beyond 2^31: a view that starts there, rows that are gathered and scattered there. Each
 * buffer takes gigabytes of addresses (pages that nobody writes take no memory) with a page that
 * must not be touched at its end. Not among the tests that run by default: ctest -C large -L large.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "reports_api.h"

#include <sys/mman.h>

/* bytes of zeros that end where a guard begins; *base and *length are for munmap. */
static int8_t *large_new(int64_t bytes, void **base, size_t *length) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t whole = ((size_t)bytes + page - 1) / page * page;
    *length = whole + page;
    *base = mmap(NULL, *length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
    if (*base == MAP_FAILED) fail_msg("no room for %lld bytes", (long long)bytes);
    assert_int_equal(mprotect((char *)*base + whole, page, PROT_NONE), 0);
    return (int8_t *)*base + (whole - (size_t)bytes);
}

static proem_program *compile_as(proem_context *c, const char *text, enum proem_fuse fuse) {
    proem_graph *g = NULL;
    proem_program *p = NULL;
    struct proem_compile_options o;
    proem_compile_options_init(&o);
    o.fuse = fuse;
    if (proem_graph_parse(c, text, strlen(text), NULL, NULL, &g) != PROEM_OK ||
        proem_compile(g, &o, &p) != PROEM_OK)
        fail_msg("%s", proem_error_text(c, NULL, NULL));
    proem_graph_destroy(g);
    return p;
}

static void run_program(proem_program *p, const DLTensor *const *in, size_t n_in, DLTensor *out) {
    proem_execution *x = execution_of(p);
    run_ok(x, in, n_in, &out, 1);
    proem_execution_destroy(x);
    proem_program_destroy(p);
}

static void test_far_view(void **state) { /* I1 */
    (void)state;
    static const char text[] =
        "graph g(t: i8[2148532224], b: f32[128, 32]) {\n"
        "  a = reshape(slice(t, axis=0, start=2147484160, stop=2147492352),\n"
        "              [64, 128])\n"
        "  y = matmul(cast(a, f32), b)\n"
        "  return y }";
    static const int64_t size[] = {(1LL << 31) + (1 << 20)};
    static float b[128 * 32], y[64 * 32];
    void *base = NULL;
    size_t length = 0;
    int8_t *t = large_new(size[0], &base, &length), *a = t + (1LL << 31) + 512;
    for (int i = 0; i < 64 * 128; i++)
        a[i] = (int8_t)(i % 7 - 3);
    fill(b, 128 * 32, 3);
    struct tensor x[3];
    tensor_set(&x[0], t, kDLInt, 8, 1, size);
    f32(&x[1], b, 2, 128, 32);
    f32(&x[2], y, 2, 64, 32);
    const DLTensor *in[] = {&x[0].t, &x[1].t};
    proem_context *c = context();
    for (int unfused = 0; unfused < 2; unfused++) {
        memset(y, 0xFF, sizeof y);
        run_program(compile_as(c, text, unfused ? PROEM_FUSE_NEVER : PROEM_FUSE_MODEL), in, 2,
                    &x[2].t);
        for (int i = 0; i < 64 * 32; i++) {
            float sum = 0; /* exact: multiples of 1/4 */
            for (int k = 0; k < 128; k++)
                sum += (float)a[i / 32 * 128 + k] * b[k * 32 + i % 32];
            assert_true(y[i] == sum);
        }
    }
    proem_context_destroy(c);
    munmap(base, length);
}

#define ROWS  600000
#define WIDTH 4096
static const int64_t table_shape[] = {ROWS, WIDTH};

static void test_far_rows(void **state) { /* I2, gather */
    (void)state;
    static const char text[] = "graph g(t: i8[600000, 4096], ids: i32[16], b: f16[4096, 32]) {\n"
                               "  y = matmul(cast(take(t, ids, axis=0), f16), b)\n"
                               "  return y }";
    static const int64_t n[] = {16}, b_shape[] = {WIDTH, 32}, y_shape[] = {16, 32};
    static uint16_t b[WIDTH * 32], y[16 * 32];
    int32_t ids[16];
    void *base = NULL;
    size_t length = 0;
    int8_t *t = large_new((int64_t)ROWS * WIDTH, &base, &length);
    const int8_t *rows = t + (int64_t)(ROWS - 16) * WIDTH;
    for (int64_t i = (int64_t)(ROWS - 16) * WIDTH; i < (int64_t)ROWS * WIDTH; i++)
        t[i] = (int8_t)(i % 11 - 5);
    for (int i = 0; i < 16; i++)
        ids[i] = ROWS - 16 + i;
    for (int64_t i = 0; i < WIDTH * 32; i++)
        value_put(DT_F16, b, i, (double)(i * 7 % 5 - 2));
    struct tensor x[4];
    tensor_set(&x[0], t, kDLInt, 8, 2, table_shape);
    tensor_set(&x[1], ids, kDLInt, 32, 1, n);
    tensor_set(&x[2], b, kDLFloat, 16, 2, b_shape);
    tensor_set(&x[3], y, kDLFloat, 16, 2, y_shape);
    const DLTensor *in[] = {&x[0].t, &x[1].t, &x[2].t};
    proem_context *c = context();
    for (int unfused = 0; unfused < 2; unfused++) {
        memset(y, 0xFF, sizeof y);
        run_program(compile_as(c, text, unfused ? PROEM_FUSE_NEVER : PROEM_FUSE_MODEL), in, 3,
                    &x[3].t);
        for (int i = 0; i < 16 * 32; i++) {
            double sum = 0; /* an integer that f32 holds; one rounding to f16 */
            for (int64_t k = 0; k < WIDTH; k++)
                sum += rows[i / 32 * WIDTH + k] * value_at(DT_F16, b, k * 32 + i % 32);
            uint16_t want = 0;
            value_put(DT_F16, &want, 0, sum);
            assert_int_equal(y[i], want);
        }
    }
    proem_context_destroy(c);
    munmap(base, length);
}

static void test_far_targets(void **state) { /* I2, scatter: in place */
    (void)state;
    static const char text[] =
        "graph g(t: i8[600000, 4096], ids: i32[16], a: i8[16, 8], b: i8[8, 4096]) {\n"
        "  y = scatter(t, ids, cast(matmul(a, b), i8), axis=0)\n"
        "  return y in t }";
    static const int64_t n[] = {16}, a_shape[] = {16, 8}, b_shape[] = {8, WIDTH};
    static int8_t a[16 * 8], b[8 * WIDTH];
    int32_t ids[16];
    void *base = NULL;
    size_t length = 0;
    int8_t *t = large_new((int64_t)ROWS * WIDTH, &base, &length);
    for (int i = 0; i < 16; i++)
        ids[i] = ROWS - 1 - i;
    for (int i = 0; i < 16 * 8; i++)
        a[i] = (int8_t)(i % 5 - 2);
    for (int i = 0; i < 8 * WIDTH; i++)
        b[i] = (int8_t)(i % 7 - 3);
    struct tensor x[4];
    tensor_set(&x[0], t, kDLInt, 8, 2, table_shape);
    tensor_set(&x[1], ids, kDLInt, 32, 1, n);
    tensor_set(&x[2], a, kDLInt, 8, 2, a_shape);
    tensor_set(&x[3], b, kDLInt, 8, 2, b_shape);
    const DLTensor *in[] = {&x[0].t, &x[1].t, &x[2].t, &x[3].t};
    proem_context *c = context();
    run_program(compile_as(c, text, PROEM_FUSE_MODEL), in, 4, &x[0].t);
    proem_context_destroy(c);
    for (int i = 0; i < 16; i++) {
        for (int j = 0; j < WIDTH; j++) {
            int sum = 0;
            for (int k = 0; k < 8; k++)
                sum += a[i * 8 + k] * b[k * WIDTH + j];
            assert_int_equal(t[(int64_t)ids[i] * WIDTH + j], (int8_t)sum);
        }
    }
    for (int64_t i = (int64_t)(ROWS - 20) * WIDTH; i < (int64_t)(ROWS - 16) * WIDTH; i++)
        assert_int_equal(t[i], 0);
    munmap(base, length);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_far_view),
        cmocka_unit_test(test_far_rows),
        cmocka_unit_test(test_far_targets),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
