/* SPDX-License-Identifier: MIT
 * What an ONNX model may cost is bounded by its size: messages of two bytes, functions that call each
 * other twice, sizes that are squared again and again.
 */
#include "onnx_util.h"

static void expect(enum proem_status got, enum proem_status want, const struct err *e,
                   const char *text) {
    if (got != want || strstr(e->text, text) == NULL)
        fail_msg("status %d, '%s'; expected %d, '%s'", got, e->text, want, text);
}

/* A graph of `count` empty messages in `field`. */
static void check_messages(unsigned field, size_t count, const char *text) {
    struct wire head = {.n = 0};
    struct onnx_model *m;
    struct err e = {0};
    wire_int(&head, 1, 8);
    wire_varint(&head, 7 << 3 | 2);
    wire_varint(&head, 2 * count);
    unsigned char *bytes = malloc(head.n + 2 * count);
    assert_non_null(bytes);
    memcpy(bytes, head.at, head.n);
    for (size_t i = 0; i < count; i++) {
        bytes[head.n + 2 * i] = (unsigned char)(field << 3 | 2);
        bytes[head.n + 2 * i + 1] = 0;
    }
    struct arena arena;
    arena_init(&arena, &allocator_default);
    enum proem_status s = onnx_model_read(&arena, "m.onnx", bytes, head.n + 2 * count, &m, &e);
    expect(s, PROEM_INVALID, &e, text);
    arena_free(&arena);
    free(bytes);
}

static void test_messages(void **state) {
    (void)state;
    static const unsigned fields[] = {1, 5, 11, 12}; /* nodes, initializers, values */
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        check_messages(fields[i], 1 << 20, "in GraphProto: the file has far more messages");
    check_messages(5, 100, "initializer 0"); /* a small file may */
}

/* f0 is Relu twice, each of the others the one before it twice. */
static void put_functions(struct wire *model, int count) {
    for (int i = 0; i < count; i++) {
        struct wire f = {.n = 0}, opset = {.n = 0};
        char name[16], inner[16];
        snprintf(name, sizeof name, "f%d", i);
        snprintf(inner, sizeof inner, "f%d", i - 1);
        wire_text(&f, 1, name);
        wire_text(&f, 4, "x");
        wire_text(&f, 5, "y");
        for (int k = 0; k < 2; k++) {
            struct wire n = {.n = 0};
            wire_text(&n, 1, k == 0 ? "x" : "a");
            wire_text(&n, 2, k == 0 ? "a" : "y");
            wire_text(&n, 4, i == 0 ? "Relu" : inner);
            if (i > 0) wire_text(&n, 7, "d");
            wire_put(&f, 7, &n);
        }
        wire_text(&opset, 1, "");
        wire_int(&opset, 2, 21);
        wire_put(&f, 9, &opset);
        wire_text(&f, 10, "d");
        wire_put(model, 25, &f);
    }
}

static void check_functions(int count, enum proem_status want, const char *text) {
    const char *const dims[4] = {"2"};
    struct wire g = {.n = 0}, n = {.n = 0};
    struct imported x;
    char name[16];
    snprintf(name, sizeof name, "f%d", count - 1);
    wire_text(&n, 1, "x");
    wire_text(&n, 2, "y");
    wire_text(&n, 4, name);
    wire_text(&n, 7, "d");
    wire_put(&g, 1, &n);
    put_value(&g, 11, "x", F_FLOAT, dims);
    put_value(&g, 12, "y", F_FLOAT, dims);
    struct wire m = model_of(&g, 21);
    put_functions(&m, count);
    import_bytes(&x, &allocator_default, m.at, m.n);
    expect(x.status, want, &x.e, text);
    imported_free(&x);
}

static void test_functions(void **state) {
    (void)state;
    check_functions(8, PROEM_OK, "");
    check_functions(20, PROEM_UNSUPPORTED, "its functions make too many nodes");
}

/* n, n^2, n^4 .. as the shape of the result. */
static void test_sizes(void **state) {
    (void)state;
    const char *const dims[4] = {"n"};
    struct wire g = {.n = 0};
    struct imported x;
    char from[16], to[16];
    put_node(&g, "Shape", (const char *const[3]){"x"}, "s0", NULL);
    for (int i = 0; i < 64; i++) {
        snprintf(from, sizeof from, "s%d", i);
        snprintf(to, sizeof to, "s%d", i + 1);
        put_node(&g, "Mul", (const char *const[3]){from, from}, to, NULL);
    }
    put_node(&g, "ConstantOfShape", (const char *const[3]){"s64"}, "y", NULL);
    put_value(&g, 11, "x", F_FLOAT, dims);
    put_value(&g, 12, "y", F_FLOAT, dims);
    import_graph(&x, &g);
    expect(x.status, PROEM_INVALID, &x.e, "too long an expression");
    imported_free(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
