/* SPDX-License-Identifier: MIT
 * External data of ONNX models: mapped, and confined to the folder of the model, wherever links
 * lead.
 */
#include "mapped_util.h"
#include "onnx_util.h"

#include <sys/stat.h>

enum { FLOATS = 64 * MB };

/* A model whose one initializer of n floats lies in `location`, at byte 64. */
static void write_model(const char *name, const char *location, int64_t n) {
    struct wire t = {.n = 0}, g = {.n = 0};
    const char *const entry[][2] = {{"location", location}, {"offset", "64"}};
    wire_int(&t, 1, n);
    wire_int(&t, 2, F_FLOAT);
    wire_text(&t, 8, "w");
    for (int i = 0; i < 2; i++) {
        struct wire pair = {.n = 0};
        wire_text(&pair, 1, entry[i][0]);
        wire_text(&pair, 2, entry[i][1]);
        wire_put(&t, 13, &pair);
    }
    wire_int(&t, 14, 1);
    wire_put(&g, 5, &t);
    struct wire m = model_of(&g, 21);
    struct bytes b = {.n = 0};
    char path[512];
    put(&b, m.at, m.n);
    write_bytes(path_of(path, name), &b);
}

static void write_data(const char *name, int64_t n, int last) {
    char path[512];
    struct bytes none = {.n = 0};
    write_sparse(path_of(path, name), &none, 64 + 4 * (long)n, last);
}

/* The status of reading the tensor; its last element if that is OK. */
static enum proem_status read_last(const char *name, double *last, struct err *e) {
    char path[512];
    struct arena arena;
    struct archive *ar;
    struct array a;
    arena_init(&arena, &allocator_default);
    err_clear(e);
    if (archive_open(&arena, path_of(path, name), &ar, e) != PROEM_OK) fail_msg("%s", e->text);
    enum proem_status s = archive_read(ar, 0, &allocator_default, &a, e);
    if (s == PROEM_OK) {
        *last = elem_load(DT_F32, a.data, a.count - 1).f;
        array_free(&a);
    }
    archive_close(ar);
    arena_free(&arena);
    return s;
}

static void expect_read(const char *name) {
    struct err e;
    double last = 0;
    if (read_last(name, &last, &e) != PROEM_OK) fail_msg("%s", e.text);
    assert_true(last == 2.0); /* the byte 64 in front */
}

static void expect_outside(const char *name) {
    struct err e;
    double last;
    assert_int_equal(read_last(name, &last, &e), PROEM_INVALID);
    if (strstr(e.text, "not inside the model's folder") == NULL) fail_msg("%s", e.text);
}

/* 256 MB of data cost next to no memory. */
static void test_mapped(void **state) {
    (void)state;
    char path[512];
    struct arena arena;
    struct archive *ar;
    struct array a;
    struct err e = {0};
    write_data("large.bin", FLOATS, 64);
    write_model("large.onnx", "large.bin", FLOATS);
    long before = resident_kb();
    arena_init(&arena, &allocator_default);
    assert_int_equal(archive_open(&arena, path_of(path, "large.onnx"), &ar, &e), PROEM_OK);
    assert_int_equal(archive_read(ar, 0, &allocator_default, &a, &e), PROEM_OK);
    assert_true(elem_load(DT_F32, a.data, 0).f == 0.0);
    assert_true(elem_load(DT_F32, a.data, FLOATS - 1).f == 2.0);
    assert_true(resident_kb() - before < GROWTH_KB);
    array_free(&a);
    archive_close(ar);
    arena_free(&arena);
}

/* What stands before the raw_data of the last of a model's initializers: `first` floats that are
 * small enough to be copied, and so many in a tensor that stays in the file. */
static struct bytes inline_head(int64_t first, int64_t count) {
    struct wire t[2] = {{.n = 0}, {.n = 0}}, g = {.n = 0}, m = {.n = 0}, opset = {.n = 0};
    const int64_t n[] = {first, count};
    float values[16] = {1, 2, 3, 4};
    for (int i = 0; i < 2; i++) {
        wire_int(&t[i], 1, n[i]);
        wire_int(&t[i], 2, F_FLOAT);
        wire_text(&t[i], 8, i == 0 ? "a" : "b");
    }
    wire_bytes(&t[0], 9, values, (size_t)first * 4);
    wire_varint(&t[1], 9 << 3 | 2);
    wire_varint(&t[1], (uint64_t)count * 4);
    wire_put(&g, 5, &t[0]);
    wire_varint(&g, 5 << 3 | 2);
    wire_varint(&g, t[1].n + (uint64_t)count * 4);
    wire_text(&opset, 1, "");
    wire_int(&opset, 2, 21);
    wire_int(&m, 1, 8);
    wire_put(&m, 8, &opset);
    wire_varint(&m, 7 << 3 | 2);
    wire_varint(&m, g.n + t[1].n + (uint64_t)count * 4);
    struct bytes b = {.n = 0};
    put(&b, m.at, m.n);
    put(&b, g.at, g.n);
    put(&b, t[1].at, t[1].n);
    return b;
}

/* Large tensors of a model's own file stay there until they are read. */
static void test_inline(void **state) {
    (void)state;
    char path[512];
    for (int64_t first = 1; first < 9; first++) {
        struct bytes b = inline_head(first, FLOATS);
        struct arena arena;
        struct archive *ar;
        struct array a;
        struct err e = {0};
        write_sparse(path_of(path, "inline.onnx"), &b, (long)b.n + 4L * FLOATS, 64);
        long before = resident_kb();
        arena_init(&arena, &allocator_default);
        if (archive_open(&arena, path, &ar, &e) != PROEM_OK) fail_msg("%s", e.text);
        assert_true(resident_kb() - before < GROWTH_KB);
        assert_int_equal(archive_read(ar, 0, &allocator_default, &a, &e), PROEM_OK);
        assert_int_equal(a.count, first);
        assert_true(elem_load(DT_F32, a.data, 0).f == 1.0);
        array_free(&a);
        if (first == 1 || b.n % 4 == 0) { /* it is copied where it cannot be mapped */
            assert_int_equal(archive_read(ar, 1, &allocator_default, &a, &e), PROEM_OK);
            assert_int_equal(a.count, FLOATS);
            assert_true(elem_load(DT_F32, a.data, FLOATS - 1).f == 2.0);
            array_free(&a);
        }
        archive_close(ar);
        arena_free(&arena);
    }
}

/* The same of every length around the bounds, beside what is read without that. */
static void test_lean(void **state) {
    (void)state;
    static const int64_t counts[] = {16383, 16384, 16385, 65530, 70000};
    char path[512];
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        struct bytes b = inline_head(4, counts[i]);
        struct arena arena;
        struct onnx_model *m[2];
        struct err e = {0};
        write_sparse(path_of(path, "lean.onnx"), &b, (long)b.n + 4 * (long)counts[i], 64);
        arena_init(&arena, &allocator_default);
        assert_int_equal(onnx_model_open(&arena, path, &m[0], &e), PROEM_OK);
        assert_int_equal(onnx_model_open_lean(&arena, path, &m[1], &e), PROEM_OK);
        for (size_t k = 0; k < 2; k++) {
            struct array a, c;
            assert_int_equal(onnx_model_tensor(m[0], k, &allocator_default, &a, &e), PROEM_OK);
            assert_int_equal(onnx_model_tensor(m[1], k, &allocator_default, &c, &e), PROEM_OK);
            assert_int_equal(a.bytes, c.bytes);
            assert_memory_equal(a.data, c.data, a.bytes);
            array_free(&a);
            array_free(&c);
        }
        arena_free(&arena);
    }
}

/* Every allocation may fail; nothing leaks. */
static void test_no_memory(void **state) {
    (void)state;
    enum { N = 70000 };
    char path[512];
    struct bytes b = inline_head(4, N);
    write_sparse(path_of(path, "memory.onnx"), &b, (long)b.n + 4 * N, 64);
    for (long tries = 0; tries < 1000; tries++) {
        struct faulty f;
        struct allocator alloc = faulty_allocator(&f, tries);
        struct arena arena;
        struct archive *ar;
        struct array a;
        struct err e = {0};
        arena_init(&arena, &alloc);
        enum proem_status s = archive_open(&arena, path, &ar, &e);
        if (s == PROEM_OK) {
            s = archive_read(ar, 1, &alloc, &a, &e);
            if (s == PROEM_OK) array_free(&a);
            archive_close(ar);
        }
        arena_free(&arena);
        assert_int_equal(f.live, 0);
        assert_int_equal(s, f.calls > tries ? PROEM_NOMEM : PROEM_OK);
        if (s == PROEM_OK) return;
    }
    fail_msg("it never had enough memory");
}

static void make_folder(const char *name) {
    char path[512];
    assert_int_equal(mkdir(path_of(path, name), 0777), 0);
}

static void make_link(const char *to, const char *name) {
    char path[512];
    assert_int_equal(symlink(to, path_of(path, name)), 0);
}

static void test_links(void **state) {
    (void)state;
    enum { N = 1 << 15 };
    make_folder("model");
    make_folder("model/data");
    make_folder("other");
    write_data("model/data/inside", N, 64);
    write_data("other/outside", N, 64);
    write_data("other/model", 4, 64);
    make_link("data/inside", "model/to_inside");
    make_link("../other/outside", "model/to_outside");
    make_link("../other", "model/other");
    make_link("../model/to_inside", "model/there_and_back");
    const char *const good[] = {"data/inside", "to_inside", "there_and_back", "./data/inside"};
    const char *const bad[] = {"to_outside", "other/outside"};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        write_model("model/m.onnx", good[i], N);
        expect_read("model/m.onnx");
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        write_model("model/m.onnx", bad[i], N);
        expect_outside("model/m.onnx");
    }
}

/* A folder of links into a store in which model and data lie side by side. */
static void test_store(void **state) {
    (void)state;
    enum { N = 1 << 15 };
    make_folder("blobs");
    make_folder("snapshot");
    write_model("blobs/1234", "m.onnx_data", N);
    write_data("blobs/5678", N, 64);
    make_link("../blobs/1234", "snapshot/m.onnx");
    make_link("../blobs/5678", "snapshot/m.onnx_data");
    expect_read("snapshot/m.onnx");
    make_folder("elsewhere");
    write_data("elsewhere/5678", N, 64);
    char path[512];
    assert_int_equal(remove(path_of(path, "snapshot/m.onnx_data")), 0);
    make_link("../elsewhere/5678", "snapshot/m.onnx_data");
    expect_outside("snapshot/m.onnx");
}

static void test_bounds(void **state) {
    (void)state;
    struct err e;
    double last;
    write_data("short.bin", 1 << 15, 64);
    write_model("short.onnx", "short.bin", (1 << 15) + 1);
    assert_int_equal(read_last("short.onnx", &last, &e), PROEM_INVALID);
    assert_non_null(strstr(e.text, "ends before its bytes"));
    write_model("short.onnx", "short.bin", INT64_C(1) << 60);
    assert_int_equal(read_last("short.onnx", &last, &e), PROEM_INVALID);
    write_model("short.onnx", "nowhere.bin", 4);
    assert_int_equal(read_last("short.onnx", &last, &e), PROEM_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mapped), cmocka_unit_test(test_inline),
        cmocka_unit_test(test_lean),   cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_links),  cmocka_unit_test(test_store),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
