/* SPDX-License-Identifier: MIT
 * Sources: how they are spelled, what each makes of a type, and how errors read.
 */
#include "front_util.h"

#include <math.h>
#include <sys/stat.h>

struct fixture {
    struct arena arena;
    struct src_files files;
    char folder[256];
};

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    arena_init(&f->arena, &allocator_default);
    src_files_init(&f->files, &f->arena);
    make_scratch(f->folder, sizeof f->folder);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    src_files_close(&f->files);
    remove_scratch(f->folder);
    arena_free(&f->arena);
    free(f);
    return 0;
}

static struct src parse_ok(struct fixture *f, const char *text) {
    struct src s = {0};
    struct err e = {0};
    if (src_parse(&f->arena, text, NULL, &s, &e) != PROEM_OK) fail_msg("%s", e.text);
    return s;
}

static void test_files(void **state) {
    struct fixture *f = *state;
    struct src s = parse_ok(f, "a/b.npy");
    assert_int_equal(s.kind, SRC_NPY);
    assert_string_equal(s.path, "a/b.npy");
    s = parse_ok(f, "m.npz:layer/w:0");
    assert_int_equal(s.kind, SRC_ARCHIVE);
    assert_string_equal(s.path, "m.npz");
    assert_string_equal(s.key, "layer/w:0");
    s = parse_ok(f, "m.safetensors:x.npz:y");
    assert_string_equal(s.path, "m.safetensors");
    assert_string_equal(s.key, "x.npz:y");
    s = parse_ok(f, "m.npz.safetensors:a.npy");
    assert_string_equal(s.path, "m.npz.safetensors");
    assert_string_equal(s.key, "a.npy");
    s = parse_ok(f, "m.gguf:blk.0.weight");
    assert_int_equal(s.kind, SRC_ARCHIVE);
    struct err e = {0};
    assert_int_equal(src_parse(&f->arena, "w.npy", "graphs", &s, &e), PROEM_OK);
    assert_string_equal(s.path, "graphs/w.npy");
    assert_int_equal(src_parse(&f->arena, "/w.npy", "graphs", &s, &e), PROEM_OK);
    assert_string_equal(s.path, "/w.npy");
}

static void test_words(void **state) {
    struct fixture *f = *state;
    static const struct {
        const char *text;
        enum src_kind kind;
    } words[] = {{"zeros", SRC_ZEROS},    {"ones", SRC_ONES},  {"arange", SRC_ARANGE},
                 {"randn", SRC_RANDN},    {"rand", SRC_RAND},  {"1", SRC_NUMBER},
                 {"-2.5e-3", SRC_NUMBER}, {"+7", SRC_NUMBER},  {".5", SRC_NUMBER},
                 {"-inf", SRC_NUMBER},    {"nan", SRC_NUMBER}, {"true", SRC_NUMBER}};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        assert_int_equal(parse_ok(f, words[i].text).kind, words[i].kind);
    struct src s = parse_ok(f, "randint:-5:9223372036854775807");
    assert_int_equal(s.kind, SRC_RANDINT);
    assert_int_equal(s.lo, -5);
    assert_true(s.hi == INT64_MAX);
}

static void test_spelling_errors(void **state) {
    struct fixture *f = *state;
    static const char *const cases[][2] = {
        {"", "is no source; expected x.npy"},
        {"zero", "'zero' is no source"},
        {"x.bin", "is no source"},
        {"1e", "is no source"},
        {"0x10", "is no source"},
        {"1 2", "is no source"},
        {"infinity", "is no source"},
        {"m.npz", "which tensor? expected m.npz:KEY"},
        {"m.safetensors:", "the key after ':' is empty"},
        {"randint:", "expected randint:LO:HI"},
        {"randint:1", "expected randint:LO:HI"},
        {"randint:1:", "expected randint:LO:HI"},
        {"randint: 1:2", "expected randint:LO:HI"},
        {"randint:1:2:3", "expected randint:LO:HI"},
        {"randint:1:9223372036854775808", "expected randint:LO:HI"},
        {"randint:2:2", "LO must be below HI"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct src s;
        struct err e = {0};
        assert_int_equal(src_parse(&f->arena, cases[i][0], NULL, &s, &e), PROEM_INVALID);
        assert_contains(e.text, cases[i][1]);
    }
}

static enum proem_status load(struct fixture *f, const char *text, enum dtype d, int rank,
                              int64_t n, struct array *out, struct err *e) {
    struct src s;
    err_clear(e);
    TRY(src_parse(&f->arena, text, f->folder, &s, e));
    struct array_type t = {.dtype = d, .rank = rank, .shape = {n}};
    return src_load(&f->files, &s, "x", &t, 1, &allocator_default, out, e);
}

static void expect_values(struct fixture *f, const char *text, enum dtype d, int rank, int64_t n,
                          const double *want) {
    struct array a;
    struct err e;
    if (load(f, text, d, rank, n, &a, &e) != PROEM_OK) fail_msg("%s: %s", text, e.text);
    assert_int_equal(a.count, n);
    for (int64_t i = 0; i < n; i++) {
        union scalar v = elem_load(d, a.data, i);
        double got = dtype_is_float(d) ? v.f : (double)v.i;
        if (!(got == want[i] || (isnan(got) && isnan(want[i]))))
            fail_msg("%s as %s: element %d is %g", text, dtype_name(d), (int)i, got);
    }
    array_free(&a);
}

static void test_fills(void **state) {
    struct fixture *f = *state;
    const double zeros[3] = {0}, ones[3] = {1, 1, 1}, up[3] = {0, 1, 2};
    for (enum dtype d = DT_NONE + 1; d < DT_COUNT; d++) {
        if (d == DT_E8M0 || d == DT_I2 || d == DT_BOOL) continue;
        expect_values(f, "zeros", d, 1, 3, zeros);
        expect_values(f, "ones", d, 1, 3, ones);
        expect_values(f, "arange", d, 1, 3, up);
    }
    expect_values(f, "arange", DT_I2, 1, 3, (const double[]){0, 1, -2});
    expect_values(f, "arange", DT_BOOL, 1, 3, (const double[]){0, 1, 1});
    expect_values(f, "zeros", DT_E8M0, 1, 1, (const double[]){0x1p-127});
    expect_values(f, "ones", DT_E8M0, 1, 1, ones);
    expect_values(f, "zeros", DT_F32, 1, 0, zeros);
}

static void test_numbers(void **state) {
    struct fixture *f = *state;
    static const struct {
        const char *text;
        enum dtype d;
        double want;
    } good[] = {{"-2.5", DT_F32, -2.5},
                {"1e39", DT_F32, HUGE_VAL},
                {"-inf", DT_BF16, -HUGE_VAL},
                {"255", DT_U8, 255},
                {"-128", DT_I8, -128},
                {"7", DT_I4, 7},
                {"true", DT_BOOL, 1},
                {"true", DT_I32, 1},
                {"3", DT_F16, 3},
                {"-0", DT_U8, 0},
                {"18446744073709551615", DT_U64, -1},
                {"-9223372036854775808", DT_I64, -0x1p63}};
    for (size_t i = 0; i < COUNT_OF(good); i++)
        expect_values(f, good[i].text, good[i].d, 0, 1, &good[i].want);
    static const struct {
        const char *text;
        enum dtype d;
    } bad[] = {{"256", DT_U8},
               {"-1", DT_U8},
               {"-129", DT_I8},
               {"8", DT_I4},
               {"1.5", DT_I32},
               {"nan", DT_I32},
               {"2", DT_BOOL},
               {"9223372036854775808", DT_I64},
               {"99999999999999999999", DT_U64}};
    struct array a;
    struct err e;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(load(f, bad[i].text, bad[i].d, 0, 1, &a, &e), PROEM_INVALID);
        assert_contains(e.text, bad[i].text);
        assert_contains(e.text, dtype_name(bad[i].d));
    }
    assert_int_equal(load(f, "1", DT_F32, 1, 1, &a, &e), PROEM_INVALID);
    assert_contains(e.text, "a number is for a scalar");
}

static void test_random(void **state) {
    struct fixture *f = *state;
    struct array a, b;
    struct err e;
    assert_int_equal(load(f, "randn", DT_F32, 1, 8, &a, &e), PROEM_OK);
    assert_int_equal(load(f, "randn", DT_F64, 1, 8, &b, &e), PROEM_OK);
    for (int i = 0; i < 8; i++)
        assert_true(((float *)a.data)[i] == (float)((double *)b.data)[i]);
    array_free(&a);
    array_free(&b);
    assert_int_equal(load(f, "randint:3:4", DT_F16, 1, 2, &a, &e), PROEM_OK);
    assert_true(elem_load(DT_F16, a.data, 1).f == 3.0);
    array_free(&a);
    assert_int_equal(load(f, "randn", DT_I8, 1, 8, &a, &e), PROEM_INVALID);
    assert_int_equal(load(f, "rand", DT_I8, 1, 8, &a, &e), PROEM_INVALID);
    assert_int_equal(load(f, "m.gguf:k", DT_I8, 1, 8, &a, &e), PROEM_IO);
    assert_int_equal(load(f, "rand", DT_Q4_0, 1, 32, &a, &e), PROEM_INVALID);
    assert_contains(e.text, "x: 'rand' makes no blocks of q4_0");
    assert_int_equal(load(f, "zeros", DT_Q4_0, 1, 64, &a, &e), PROEM_OK);
    assert_int_equal(a.bytes, 36);
    array_free(&a);
}

static void test_load_files(void **state) {
    struct fixture *f = *state;
    char path[300];
    struct bytes b =
        npy_bytes("{'descr': '<u2', 'fortran_order': False, 'shape': (2,)}", "\x80\x3f\x00\x40", 4);
    snprintf(path, sizeof path, "%s/x.npy", f->folder);
    write_bytes(path, &b);
    expect_values(f, "x.npy", DT_BF16, 1, 2, (const double[]){1, 2});
    b = safetensors_bytes("{\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
                          "\x21\x03", 2);
    snprintf(path, sizeof path, "%s/m.safetensors", f->folder);
    write_bytes(path, &b);
    expect_values(f, "m.safetensors:w", DT_U4, 1, 3, (const double[]){1, 2, 3});
    expect_values(f, "m.safetensors:w", DT_U8, 1, 2, (const double[]){0x21, 3});
    assert_int_equal(f->files.archives.n, 1); /* opened once */
    struct array a;
    struct err e;
    assert_int_equal(load(f, "m.safetensors:v", DT_U8, 1, 2, &a, &e), PROEM_INVALID);
    assert_contains(e.text, "there is no key 'v' (it has 1: w)");
    assert_int_equal(load(f, "m.safetensors:w", DT_F32, 1, 2, &a, &e), PROEM_INVALID);
    assert_contains(e.text, "x: 'm.safetensors:w': holds u8[2], but f32[2] is expected");
    assert_int_equal(load(f, "none.npy", DT_F32, 1, 2, &a, &e), PROEM_IO);
    assert_contains(e.text, "none.npy: cannot open");
    snprintf(path, sizeof path, "%s/d.npy", f->folder);
    assert_int_equal(symlink(f->folder, path), 0);
    assert_int_equal(load(f, "d.npy", DT_F32, 1, 2, &a, &e), PROEM_IO);
    assert_contains(e.text, "not a regular file");
    const char *const fifos[] = {"f.npy", "f.npz:k", "f.safetensors:k"};
    for (size_t i = 0; i < COUNT_OF(fifos); i++) { /* opening one would wait for a writer */
        snprintf(path, sizeof path, "%s/%.*s", f->folder, (int)strcspn(fifos[i], ":"), fifos[i]);
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_int_equal(load(f, fifos[i], DT_F32, 1, 2, &a, &e), PROEM_IO);
        assert_contains(e.text, "not a regular file");
    }
}

static void test_shapes(void **state) {
    struct fixture *f = *state;
    char path[300];
    struct bytes b =
        npy_bytes("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3)}", "\0\1\2\3\1\2", 6);
    snprintf(path, sizeof path, "%s/q.npy", f->folder);
    write_bytes(path, &b);
    struct src s;
    struct err e = {0};
    assert_int_equal(src_parse(&f->arena, "q.npy", f->folder, &s, &e), PROEM_OK);
    int64_t shape[MAX_RANK];
    bool known;
    assert_int_equal(src_shape(&f->files, &s, "q", DT_U2, 2, &known, shape, &e), PROEM_OK);
    assert_true(known && shape[0] == 2 && shape[1] == 3);
    assert_int_equal(src_shape(&f->files, &s, "q", DT_F32, 2, &known, shape, &e), PROEM_OK);
    assert_false(known);
    s = parse_ok(f, "randn");
    assert_int_equal(src_shape(&f->files, &s, "q", DT_F32, 2, &known, shape, &e), PROEM_OK);
    assert_false(known);
}

static void test_no_memory(void **state) {
    struct fixture *f = *state;
    char path[300];
    struct bytes b =
        npy_bytes("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", "\0\1\2", 3);
    snprintf(path, sizeof path, "%s/q.npy", f->folder);
    write_bytes(path, &b);
    bool done = false;
    for (long n = 0; !done; n++) {
        struct faulty counter;
        struct allocator alloc = faulty_allocator(&counter, n);
        struct arena arena;
        arena_init(&arena, &alloc);
        struct src_files files;
        src_files_init(&files, &arena);
        struct src s;
        struct err e = {0};
        struct array a;
        struct array_type t = {.dtype = DT_U2, .rank = 1, .shape = {3}};
        enum proem_status r = src_parse(&arena, "q.npy", f->folder, &s, &e);
        if (r == PROEM_OK) r = src_load(&files, &s, "q", &t, 0, &alloc, &a, &e);
        done = r == PROEM_OK;
        if (done)
            array_free(&a);
        else
            assert_int_equal(r, PROEM_NOMEM);
        src_files_close(&files);
        arena_free(&arena);
        assert_int_equal(counter.live, 0);
        assert_true(n < 50);
    }
    struct array_type t = {.dtype = DT_F64, .rank = 2, .shape = {INT64_MAX / 8, 4}};
    struct src s = parse_ok(f, "zeros");
    struct array a;
    struct err e = {0};
    assert_int_equal(src_load(&f->files, &s, "big", &t, 0, &allocator_default, &a, &e),
                     PROEM_INVALID);
    assert_contains(e.text, "big: the tensor's size overflows");
}

int main(void) {
#define TEST(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_files),      TEST(test_words),   TEST(test_spelling_errors),
        TEST(test_fills),      TEST(test_numbers), TEST(test_random),
        TEST(test_load_files), TEST(test_shapes),  TEST(test_no_memory),
    };
    return cmocka_run_group_tests_name("front_src", tests, NULL, NULL);
}
