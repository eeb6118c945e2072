/* SPDX-License-Identifier: MIT
 * Reported faults of other fusing compilers, as tests of the C API: one program for many sizes,
 * strided arguments, overlapping arguments, messages, caches. As test_reports_sums.c otherwise.
 */
#include "reports_api.h"

/* ---- one program, many sizes ----------------------------------------------------------------- */

static void test_product_sizes(void **state) { /* M1, L1 */
    (void)state;
    static const char text[] = "graph g(a: f16[M, K], b: f16[K, N]) { y = matmul(a, b); return y }";
    static const int64_t sizes[][3] = {
        {1000, 999, 1001}, {64, 64, 31}, {64, 64, 33},    {17, 33, 100}, {1, 128, 1},
        {17, 33, 1},       {3, 3, 3},    {512, 512, 512}, {0, 5, 3},     {5, 3, 0}};
    proem_context *c = context();
    proem_program *p = compile_text(c, text, PROEM_DEVICE_CPU);
    proem_execution *x = execution_of(p);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct dim_value d[] = {{"M", sizes[i][0]}, {"N", sizes[i][1]}, {"K", sizes[i][2]}};
        run_sizes(x, text, d, 3, sizes[i][0] > 100 ? 8 : 0, NULL);
    }
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

static void test_weight_sizes(void **state) { /* M4 */
    (void)state;
    static const char text[] = "graph g(x: bf16[32, K], w: i8[N, K], s: bf16[N]) {\n"
                               "  y = matmul(x, transpose(cast(w, bf16))) * s\n"
                               "  return y }";
    static const int64_t columns_of[] = {15, 17, 31, 33, 47, 49, 63, 64, 65};
    static const struct named values[] = {
        {"w", "random -127 128", NULL}, {"s", "uniform 0.5 2", NULL}, {NULL, NULL, NULL}};
    proem_context *c = context();
    proem_program *p = compile_text(c, text, PROEM_DEVICE_CPU);
    proem_execution *x = execution_of(p);
    for (size_t i = 0; i < COUNT_OF(columns_of); i++) {
        for (int64_t k = 128; k <= 144; k += 16) {
            struct dim_value d[] = {{"N", columns_of[i]}, {"K", k}};
            run_sizes(x, text, d, 2, 0, values);
        }
    }
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

static void test_int8_sizes(void **state) { /* X2 */
    (void)state;
    static const char text[] =
        "graph g(a: i8[M, K], b: i8[K, N], sa: bf16[M, 1], sb: bf16[1, N]) {\n"
        "  y = matmul(a, b)\n"
        "  z = cast(y, bf16) * sa * sb\n"
        "  return y, z }";
    static const int64_t rows[] = {1, 8, 16, 17}, kn[][2] = {{64, 64}, {16, 17}, {1024, 1024}};
    proem_context *c = context();
    proem_program *p = compile_text(c, text, PROEM_DEVICE_CPU);
    proem_execution *x = execution_of(p);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t j = 0; j < COUNT_OF(kn); j++) {
            struct dim_value d[] = {{"M", rows[i]}, {"K", kn[j][0]}, {"N", kn[j][1]}};
            run_sizes(x, text, d, 3, kn[j][0] > 100 ? 2 : 0, NULL);
        }
    }
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

/* The same elements as [1, S, 16, 64], viewed as [1, 16, S, 64]. */
static void permuted(const struct guarded *from, struct guarded *to, struct tensor *view) {
    int64_t s = from->shape[2];
    *to = (struct guarded){.dtype = DT_F16, .rank = 4, .shape = {1, s, 16, 64}};
    assert_true(guarded_new(to, 0));
    for (int64_t h = 0; h < 16; h++)
        for (int64_t i = 0; i < s; i++)
            memcpy(to->data + ((i * 16 + h) * 64) * 2, from->data + ((h * s + i) * 64) * 2, 128);
    view->t.data = to->data;
    set_strides(view, s * 1024, 64, 1024, 1);
}

static void test_growing_keys(void **state) { /* M6 */
    (void)state;
    static const char text[] =
        "graph g(q: f16[1, 16, 1, 64], k: f16[1, 16, S, 64], v: f16[1, 16, S, 64]) {\n"
        "  y = attention(q, k, v, scale=0.125) { mask(b, h, i, j) = j <= S - 1 }\n"
        "  return y }";
    proem_context *c = context();
    proem_program *p = compile_text(c, text, PROEM_DEVICE_CPU);
    proem_execution *x = execution_of(p);
    for (int64_t s = 128; s <= 228; s++) {
        struct dim_value d = {"S", s};
        struct call a;
        call_open(&a, text, &d, 1, NULL);
        call_run(&a, x);
        call_check(&a, 0);
        struct guarded k, v, first = a.result[0];
        permuted(&a.s.in[1], &k, &a.in[1]);
        permuted(&a.s.in[2], &v, &a.in[2]);
        assert_true(guarded_new(&a.result[0], 0));
        a.out[0].t.data = a.result[0].data;
        call_run(&a, x);
        assert_memory_equal(a.result[0].data, first.data, (size_t)first.bytes);
        assert_true(guarded_intact(&k) && guarded_intact(&v));
        guarded_free(&k);
        guarded_free(&v);
        guarded_free(&first);
        call_close(&a);
    }
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

/* ---- strided arguments ----------------------------------------------------------------------- */

/* Input i of c in a larger buffer with these strides and offset (elements); what lies between is
 * NaN or -1. */
static void scatter_input(struct call *c, int i, int64_t extent, int64_t offset, int64_t row,
                          int64_t col, struct guarded *buffer) {
    const struct guarded *t = &c->s.in[i];
    size_t size = (size_t)dtype_bits(t->dtype) / 8;
    *buffer = (struct guarded){.dtype = t->dtype, .rank = 1, .shape = {extent}};
    assert_true(guarded_new(buffer, 0));
    for (int64_t r = 0; r < t->shape[0]; r++) {
        for (int64_t k = 0; k < t->shape[1]; k++)
            memcpy(buffer->data + (size_t)(offset + r * row + k * col) * size,
                   t->data + (size_t)(r * t->shape[1] + k) * size, size);
    }
    c->in[i].t.data = buffer->data;
    c->in[i].t.byte_offset = (uint64_t)offset * size;
    set_strides(&c->in[i], row, col, 0, 0);
}

static void test_strided_operands(void **state) { /* B1, B2: as contiguous copies */
    (void)state;
    static const char text[] = "graph g(x: f16[16, 64], w: i8[64, 96], bias: f16[16, 96]) {\n"
                               "  y = matmul(x, cast(w, f16)) + bias\n"
                               "  return y }";
    static const struct {
        int i;
        int64_t extent, offset, row, col;
    } cases[] = {
        {1, 64 * 192, 0, 192, 2},          /* every second column */
        {1, 64 * 96, 0, 1, 64},            /* transposed */
        {1, 3 * 64 * 96, 2 * 6144, 96, 1}, /* the last of three */
        {1, 64 * 120, 8, 120, 1},          /* columns 8..103 of 120 */
        {1, 64 * 96, 63 * 96, -96, 1},     /* rows from last to first */
        {0, 5000, 100, 70, 1},             /* x with an offset */
        {0, 16 * 64, 0, 1, 16},
        {2, 16 * 96 + 40, 40, 96, 1},
        {2, 16 * 300, 7, 300, 3},
    };
    proem_context *c = context();
    proem_program *p = compile_text(c, text, PROEM_DEVICE_CPU);
    proem_execution *x = execution_of(p);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct call a;
        struct guarded buffer;
        call_open(&a, text, NULL, 0, NULL);
        scatter_input(&a, cases[i].i, cases[i].extent, cases[i].offset, cases[i].row, cases[i].col,
                      &buffer);
        call_run(&a, x);
        call_check(&a, 0);
        assert_true(guarded_intact(&buffer));
        guarded_free(&buffer);
        call_close(&a);
    }
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

static void test_stride_classes(void **state) { /* C2: nothing is kept from the runs before */
    (void)state;
    static const char half[] =
        "graph g(a: f16[64, 64], b: f16[64, 64]) { y = matmul(a, b); return y }";
    static const char brain[] =
        "graph g(a: bf16[64, 64], b: bf16[64, 64]) { y = matmul(a, b); return y }";
    static const int64_t strides[][2] = {{64, 1}, {1, 64}, {64, 1}};
    proem_context *c = context();
    proem_program *p = compile_text(c, half, PROEM_DEVICE_CPU);
    proem_program *q = compile_text(c, brain, PROEM_DEVICE_CPU);
    proem_execution *x = execution_of(p), *y = execution_of(q);
    struct call a;
    struct guarded buffer;
    for (size_t i = 0; i < COUNT_OF(strides); i++) {
        call_open(&a, half, NULL, 0, NULL);
        scatter_input(&a, 0, 4096, 0, strides[i][0], strides[i][1], &buffer);
        call_run(&a, x);
        call_check(&a, 0);
        guarded_free(&buffer);
        call_close(&a);
    }
    static const struct named same_rows[] = {{"a", "cols -30", NULL}, {NULL, NULL, NULL}};
    call_open(&a, half, NULL, 0, same_rows); /* expanded: one row for all */
    set_strides(&a.in[0], 0, 1, 0, 0);
    call_run(&a, x);
    call_check(&a, 0);
    call_close(&a);
    run_sizes(y, brain, NULL, 0, 0, NULL);
    proem_execution_destroy(x);
    proem_execution_destroy(y);
    proem_program_destroy(p);
    proem_program_destroy(q);
    proem_context_destroy(c);
}

/* ---- overlapping arguments ------------------------------------------------------------------- */

static void refuse_overlap(proem_execution *x, struct call *a, void *data) {
    DLTensor *out = &a->out[0].t;
    void *own = out->data;
    out->data = data;
    assert_int_equal(proem_run(x, a->in_at, a->n_in, a->out_at, 1), PROEM_INVALID);
    has(proem_execution_error(x), "'y' overlaps");
    out->data = own;
}

static void test_overlap(void **state) { /* A4 */
    (void)state;
    static const char text[] = "graph g(a: f32[N, N], b: f32[N, N], c: f32[N, N]) {\n"
                               "  y = matmul(a, b) + c\n"
                               "  return y in c }";
    proem_context *c = context();
    proem_program *p = compile_text(c, text, PROEM_DEVICE_CPU);
    proem_execution *x = execution_of(p);
    for (int64_t n = 50; n >= 4; n -= 46) {
        struct dim_value d = {"N", n};
        struct call a;
        call_open(&a, text, &d, 1, NULL);
        unsigned char *half = a.s.in[0].data + (size_t)n / 2 * (size_t)n * 4;
        refuse_overlap(x, &a, a.s.in[0].data);
        refuse_overlap(x, &a, a.s.in[1].data);
        refuse_overlap(x, &a, half);
        has(proem_execution_error(x), "'a'");
        refuse_overlap(x, &a, a.s.in[2].data + (size_t)n * 4); /* c, but not exactly */
        call_run(&a, x);
        call_check(&a, 0);
        a.out[0].t.data = a.in[2].t.data; /* the residual's own memory, twice added exactly once */
        run_ok(x, a.in_at, 3, a.out_at, 1);
        assert_memory_equal(a.in[2].t.data, a.result[0].data, (size_t)a.result[0].bytes);
        call_close(&a);
    }
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void bad_index(proem_execution *x, const char *text, const char *rule, const char *says) {
    struct dim_value d = {"N", 3};
    struct named values[] = {{"ids", rule, NULL}, {NULL, NULL, NULL}};
    struct call a;
    call_open(&a, text, &d, 1, values);
    assert_int_equal(proem_run(x, a.in_at, a.n_in, a.out_at, 1), PROEM_DATA);
    has(proem_execution_error(x), says);
    has(proem_execution_error(x), "take(");
    call_close(&a);
}

static void test_bad_index(void **state) { /* I3, on kernels and on the interpreter */
    (void)state;
    static const char text[] = "graph g(t: f32[8, 16], ids: i64[N], e: f32[16, 16]) {\n"
                               "  y = matmul(take(t, ids, axis=0), e)\n"
                               "  return y }";
    static const enum proem_device device[] = {PROEM_DEVICE_CPU, PROEM_DEVICE_REF};
    for (int i = 0; i < 2; i++) {
        proem_context *c = context();
        proem_program *p = compile_text(c, text, device[i]);
        proem_execution *x = execution_of(p);
        bad_index(x, text, "list 0 -9 8", "ids[1] is -9");
        bad_index(x, text, "list 8 0 0", "ids[0] is 8");
        proem_execution_destroy(x);
        proem_program_destroy(p);
        proem_context_destroy(c);
    }
}

static void refuse_text(const char *text, const char *one, const char *two, const char *three) {
    proem_context *c = context();
    proem_graph *g = NULL;
    assert_int_equal(proem_graph_parse(c, text, strlen(text), "x.proem", NULL, &g), PROEM_INVALID);
    has(proem_error_text(c, NULL, NULL), one);
    has(proem_error_text(c, NULL, NULL), two);
    has(proem_error_text(c, NULL, NULL), three);
    proem_context_destroy(c);
}

static void test_bad_sizes(void **state) { /* X1: the operator and both sizes */
    (void)state;
    refuse_text("graph g(x: f16[4, 100], w: u4[100, 8], s: f16[3, 8]) {\n"
                "  return matmul(x, dequantize(w, s, axis=0, block=32)) }",
                "dequantize", "u4[100, 8]", "f16[3, 8]");
    refuse_text("graph g(x: f16[4, 100], w: f16[99, 8]) { return matmul(x, w) }", "matmul",
                "f16[4, 100]", "f16[99, 8]");
}

static void test_broken_compiler(void **state) { /* X4: never passed over */
    (void)state;
    char path[160];
    snprintf(path, sizeof path, "%s/broken-cc", cache_dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("#!/bin/sh\ncase \"$*\" in *--version*) exec cc \"$@\";; esac\n"
          "echo 'broken template' >&2\nexit 1\n",
          f);
    fclose(f);
    char command[200];
    snprintf(command, sizeof command, "chmod 700 '%s'", path);
    assert_int_equal(system(command), 0);
    struct proem_context_options o;
    proem_context_options_init(&o);
    o.compiler = path;
    proem_context *c = NULL;
    assert_int_equal(proem_context_create(&o, &c), PROEM_OK);
    static const char text[] = "graph g(x: f32[4, 64], w: i8[64, 32]) {\n"
                               "  y = relu(matmul(x, cast(w, f32)))\n"
                               "  return y }";
    for (int strict = 0; strict < 2; strict++) {
        proem_graph *g = NULL;
        proem_program *p = NULL;
        struct proem_compile_options co;
        proem_compile_options_init(&co);
        co.strict = strict == 1;
        proem_error_clear(c);
        assert_int_equal(proem_graph_parse(c, text, strlen(text), NULL, NULL, &g), PROEM_OK);
        assert_int_equal(proem_compile(g, &co, &p), PROEM_COMPILE);
        assert_null(p);
        has(proem_error_text(c, NULL, NULL), "broken template"); /* the reason */
        has(proem_error_text(c, NULL, NULL), "matmul");          /* the kernel */
        proem_graph_destroy(g);
    }
    proem_context_destroy(c);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product_sizes),    cmocka_unit_test(test_weight_sizes),
        cmocka_unit_test(test_int8_sizes),       cmocka_unit_test(test_growing_keys),
        cmocka_unit_test(test_strided_operands), cmocka_unit_test(test_stride_classes),
        cmocka_unit_test(test_overlap),          cmocka_unit_test(test_bad_index),
        cmocka_unit_test(test_bad_sizes),        cmocka_unit_test(test_broken_compiler),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
