/* SPDX-License-Identifier: MIT
 * .safetensors and .npz: what is read, every rule of the header, damaged archives, the writer.
 */
#include "front_util.h"

#include <zip.h>

struct opened {
    struct arena arena;
    struct archive *ar;
    unsigned char *copy;
    struct err e;
};

/* Over a copy of the exact size, so that the sanitizer sees a read past the end. */
static enum proem_status open_bytes(struct opened *o, const struct allocator *alloc,
                                    const char *suffix, const struct bytes *b) {
    *o = (struct opened){0};
    arena_init(&o->arena, alloc);
    o->copy = malloc(b->n != 0 ? b->n : 1);
    assert_non_null(o->copy);
    if (b->n > 0) memcpy(o->copy, b->at, b->n);
    return archive_open_memory(&o->arena, "m", suffix, o->copy, b->n, &o->ar, &o->e);
}

static void close_all(struct opened *o) {
    archive_close(o->ar);
    arena_free(&o->arena);
    free(o->copy);
}

static enum proem_status open_tensors(struct opened *o, const char *header, const void *data,
                                      size_t n) {
    struct bytes b = safetensors_bytes(header, data, n);
    return open_bytes(o, &allocator_default, ".safetensors", &b);
}

static void expect_error(const char *header, size_t data, const char *part) {
    unsigned char zeros[256] = {0};
    struct opened o;
    enum proem_status s = open_tensors(&o, header, zeros, data);
    if (s != PROEM_DATA) fail_msg("%s: status %d %s", header, s, o.e.text);
    assert_contains(o.e.text, part);
    close_all(&o);
}

#define T(key, dtype, shape, begin, end)                                                           \
    "\"" key "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end  \
    "]}"

static void test_read(void **state) {
    (void)state;
    struct opened o;
    const unsigned char data[] = {0x80, 0x3f, 0, 0x40, 7, 0x21};
    assert_int_equal(
        open_tensors(
            &o,
            "{\"__metadata__\":{\"by\":\"a test\"}," T("b", "I8", "", "4", "5") "," T(
                "a", "BF16", "2,1", "0", "4") "," T("f", "F4", "1,2", "5",
                                                    "6") "," T("e", "F32", "0,7", "6", "6") "}   ",
            data, sizeof data),
        PROEM_OK);
    assert_int_equal(archive_count(o.ar), 4);
    assert_string_equal(archive_key(o.ar, 0), "a");
    assert_int_equal(archive_find(o.ar, "b"), 1);
    assert_int_equal(archive_find(o.ar, "c"), -1);
    struct array a;
    assert_int_equal(archive_read(o.ar, 0, &allocator_default, &a, &o.e), PROEM_OK);
    assert_int_equal(a.type.dtype, DT_BF16);
    assert_int_equal(a.type.rank, 2);
    assert_memory_equal(a.data, data, 4);
    array_free(&a);
    assert_int_equal(archive_read(o.ar, 1, &allocator_default, &a, &o.e), PROEM_OK);
    assert_int_equal(a.type.rank, 0);
    assert_memory_equal(a.data, "\x07", 1);
    array_free(&a);
    assert_int_equal(archive_read(o.ar, 2, &allocator_default, &a, &o.e), PROEM_OK);
    assert_int_equal(a.count, 0);
    array_free(&a);
    assert_int_equal(archive_read(o.ar, 3, &allocator_default, &a, &o.e), PROEM_OK);
    assert_int_equal(a.type.dtype, DT_F4E2M1FN);
    assert_int_equal(a.count, 2);
    array_free(&a);
    close_all(&o);
}

static void test_rules(void **state) {
    (void)state;
    expect_error("", 0, "begins with '{'");
    expect_error(" {}", 0, "begins with '{'");
    expect_error("{", 0, "not valid JSON");
    expect_error("{} x", 0, "not valid JSON");
    expect_error("{" T("a", "I8", "1", "0", "1") "," T("a", "I8", "1", "1", "2") "}", 2, "\"a\"");
    expect_error("{\"a\":1}", 0, "key 'a': it must be an object");
    expect_error("{\"a\":{}}", 0, "key 'a': 'dtype' is missing");
    expect_error("{" T("a", "I7", "1", "0", "1") "}", 1, "key 'a': dtype 'I7' is unknown");
    expect_error("{\"a\":{\"dtype\":\"I8\",\"shape\":3,\"data_offsets\":[0,1]}}", 1,
                 "key 'a': 'shape'");
    expect_error("{" T("a", "I8", "-1", "0", "1") "}", 1, "a dim in 'shape'");
    expect_error("{" T("a", "I8", "1.0", "0", "1") "}", 1, "a dim in 'shape'");
    expect_error("{" T("a", "I8", "99999999999999999999", "0", "1") "}", 1, "not valid JSON");
    expect_error("{" T("a", "F64", "4294967296,4294967296", "0", "1") "}", 1, "overflows");
    expect_error("{" T("a", "F64", "1152921504606846976", "0", "8") "}", 8, "overflows");
    expect_error("{\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0]}}", 1,
                 "'data_offsets' must be");
    expect_error("{" T("a", "I8", "1", "1", "0") "}", 1, "'data_offsets' must be");
    expect_error("{" T("a", "I8", "1", "-1", "0") "}", 1, "'data_offsets' must be");
    expect_error("{" T("a", "I8", "2", "0", "1") "}", 1, "span 1 bytes, dtype and shape need 2");
    expect_error("{" T("a", "F4", "3", "0", "2") "}", 2, "whole bytes");
    expect_error("{" T("a", "I8", "2", "0", "2") "}", 1, "the file has 1 bytes of data");
    expect_error("{" T("a", "I8", "1", "0", "1") "," T("b", "I8", "1", "2", "3") "}", 3,
                 "key 'b': data begins at 2, 1 is expected (a hole)");
    expect_error("{" T("a", "I8", "2", "0", "2") "," T("b", "I8", "2", "1", "3") "}", 3,
                 "key 'b': data begins at 1, 2 is expected (an overlap)");
    expect_error("{" T("a", "I8", "1", "0", "1") "}", 2, "has 2 bytes of data, its header says 1");
    expect_error("{\"__metadata__\":{\"a\":1}}", 0, "its values must be strings");
    expect_error("{\"__metadata__\":[]}", 0, "it must be an object");
}

static void test_unsupported_only_when_read(void **state) {
    (void)state;
    struct opened o;
    assert_int_equal(open_tensors(&o,
                                  "{" T("c", "C64", "1", "0", "8") "," T(
                                      "r", "I8", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "8", "9") "}",
                                  "123456789", 9),
                     PROEM_OK);
    struct array a = {0};
    struct array_type t;
    assert_int_equal(archive_read(o.ar, 0, &allocator_default, &a, &o.e), PROEM_UNSUPPORTED);
    assert_contains(o.e.text, "m:c: dtype C64 is not supported");
    err_clear(&o.e);
    assert_int_equal(archive_type(o.ar, 1, &t, &o.e), PROEM_UNSUPPORTED);
    assert_contains(o.e.text, "rank 17");
    assert_null(a.data);
    close_all(&o);
}

static void test_lengths(void **state) {
    (void)state;
    struct opened o;
    struct bytes whole = safetensors_bytes("{" T("a", "I8", "3", "0", "3") "}", "abc", 3);
    for (size_t n = 0; n < whole.n; n++) {
        struct bytes part = whole;
        part.n = n;
        assert_int_equal(open_bytes(&o, &allocator_default, ".safetensors", &part), PROEM_DATA);
        close_all(&o);
    }
    struct bytes huge = whole;
    memset(huge.at, 0xff, 8);
    assert_int_equal(open_bytes(&o, &allocator_default, ".safetensors", &huge), PROEM_DATA);
    assert_contains(o.e.text, "18446744073709551615 bytes long; the most is 100000000");
    close_all(&o);
    memcpy(huge.at, "\x00\xe1\xf5\x05\0\0\0\0", 8);
    assert_int_equal(open_bytes(&o, &allocator_default, ".safetensors", &huge), PROEM_DATA);
    assert_contains(o.e.text, "truncated: a header of 100000000 bytes");
    close_all(&o);
}

static void test_no_memory(void **state) {
    (void)state;
    struct bytes b = safetensors_bytes("{" T("a", "I8", "3", "0", "3") "}", "abc", 3);
    bool done = false;
    for (long n = 0; !done; n++) {
        struct faulty f;
        struct allocator alloc = faulty_allocator(&f, n);
        struct opened o;
        struct array a = {0};
        enum proem_status s = open_bytes(&o, &alloc, ".safetensors", &b);
        if (s == PROEM_OK) s = archive_read(o.ar, 0, &alloc, &a, &o.e);
        done = s == PROEM_OK;
        if (done)
            array_free(&a);
        else
            assert_int_equal(s, PROEM_NOMEM);
        close_all(&o);
        assert_int_equal(f.live, 0);
        assert_true(n < 50);
    }
}

static void test_write(void **state) {
    (void)state;
    char folder[256], path[300];
    make_scratch(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/m.safetensors", folder);
    struct array arrays[DT_COUNT];
    struct named_array named[DT_COUNT];
    char keys[DT_COUNT][32];
    size_t n = 0;
    for (enum dtype d = DT_NONE + 1; d < DT_COUNT; d++, n++) {
        struct array_type t = {.dtype = d, .rank = (int)(n % 3), .shape = {3, 5}};
        assert_int_equal(array_new(&allocator_default, &t, "t", &arrays[n], NULL), PROEM_OK);
        if (d != DT_BOOL)
            for (size_t i = 0; i < arrays[n].bytes; i++)
                ((unsigned char *)arrays[n].data)[i] = (unsigned char)(d * 3u + i);
        snprintf(keys[n], sizeof keys[n], "k\"\\\t%d", (int)d);
        named[n] = (struct named_array){keys[n], &arrays[n]};
        /* Unused bits are 0 in what proem holds. */
        assert_int_equal(array_adopt(&arrays[n], &t, "t", NULL), PROEM_OK);
    }
    struct err e = {0};
    assert_int_equal(safetensors_write(&allocator_default, path, named, n, &e), PROEM_OK);
    struct arena arena;
    arena_init(&arena, &allocator_default);
    struct archive *ar;
    if (archive_open(&arena, path, &ar, &e) != PROEM_OK) fail_msg("%s", e.text);
    for (size_t i = 0; i < n; i++) {
        long at = archive_find(ar, keys[i]);
        assert_true(at >= 0);
        struct array a;
        assert_int_equal(archive_read(ar, (size_t)at, &allocator_default, &a, &e), PROEM_OK);
        if (array_adopt(&a, &arrays[i].type, keys[i], &e) != PROEM_OK) fail_msg("%s", e.text);
        assert_int_equal(a.bytes, arrays[i].bytes);
        assert_memory_equal(a.data, arrays[i].data, a.bytes);
        array_free(&a);
    }
    archive_close(ar);
    named[1].key = named[0].key;
    assert_int_equal(safetensors_write(&allocator_default, path, named, n, &e), PROEM_INVALID);
    assert_contains(e.text, "given twice");
    for (size_t i = 0; i < n; i++)
        array_free(&arrays[i]);
    arena_free(&arena);
    remove_scratch(folder);
}

/* ---- .npz ------------------------------------------------------------------------------------ */

static void add_member(zip_t *z, const char *name, const struct bytes *b, int method) {
    zip_source_t *s = zip_source_buffer(z, b->at, b->n, 0);
    assert_non_null(s);
    zip_int64_t i = zip_file_add(z, name, s, 0);
    assert_true(i >= 0);
    assert_int_equal(zip_set_file_compression(z, (zip_uint64_t)i, method, 0), 0);
}

static struct bytes make_npz(const char *folder) {
    char path[300];
    snprintf(path, sizeof path, "%s/m.npz", folder);
    int code = 0;
    zip_t *z = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &code);
    assert_non_null(z);
    struct bytes w = npy_bytes("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 2)}",
                               "\x01\0\x02\0\x03\0\x04\0", 8);
    struct bytes b = npy_bytes("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", "abc", 3);
    struct bytes o = npy_bytes("{'descr': '|O', 'fortran_order': False, 'shape': ()}", "x", 1);
    add_member(z, "layer/w.npy", &w, ZIP_CM_DEFLATE);
    add_member(z, "b.npy", &b, ZIP_CM_STORE);
    add_member(z, "o.npy", &o, ZIP_CM_STORE);
    add_member(z, "readme.txt", &b, ZIP_CM_STORE);
    assert_int_equal(zip_close(z), 0);
    struct bytes out = {.n = 0};
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    out.n = fread(out.at, 1, sizeof out.at, f);
    fclose(f);
    return out;
}

static void check_npz(struct archive *ar, struct err *e) {
    struct array a;
    struct array_type t;
    assert_int_equal(archive_count(ar), 3);
    long w = archive_find(ar, "layer/w");
    assert_true(w >= 0);
    assert_int_equal(archive_type(ar, (size_t)w, &t, e), PROEM_OK);
    assert_int_equal(t.dtype, DT_I16);
    assert_int_equal(t.rank, 2);
    assert_int_equal(archive_read(ar, (size_t)w, &allocator_default, &a, e), PROEM_OK);
    assert_memory_equal(a.data, "\x01\0\x03\0\x02\0\x04\0", 8);
    array_free(&a);
    assert_int_equal(archive_read(ar, 0, &allocator_default, &a, e), PROEM_OK);
    assert_memory_equal(a.data, "abc", 3);
    array_free(&a);
    assert_int_equal(archive_read(ar, 2, &allocator_default, &a, e), PROEM_UNSUPPORTED);
    assert_contains(e->text, ":o: NumPy dtype '|O'");
}

static void test_npz(void **state) {
    (void)state;
    char folder[256], path[300];
    make_scratch(folder, sizeof folder);
    struct bytes b = make_npz(folder);
    struct opened o;
    assert_int_equal(open_bytes(&o, &allocator_default, ".npz", &b), PROEM_OK);
    check_npz(o.ar, &o.e);
    close_all(&o);
    struct arena arena;
    arena_init(&arena, &allocator_default);
    struct archive *ar;
    struct err e = {0};
    snprintf(path, sizeof path, "%s/m.npz", folder);
    assert_int_equal(archive_open(&arena, path, &ar, &e), PROEM_OK);
    check_npz(ar, &e);
    archive_close(ar);
    err_clear(&e);
    snprintf(path, sizeof path, "%s/none.npz", folder);
    assert_int_equal(archive_open(&arena, path, &ar, &e), PROEM_IO);
    assert_contains(e.text, "none.npz");
    err_clear(&e);
    assert_int_equal(archive_open(&arena, "x.gguf", &ar, &e), PROEM_IO);
    err_clear(&e);
    assert_int_equal(archive_open(&arena, "x.txt", &ar, &e), PROEM_INVALID);
    arena_free(&arena);
    remove_scratch(folder);
}

/* Whatever byte is damaged: an error or the right type, never a crash; and a changed data byte of a
 * stored member is noticed by its checksum. */
static void test_npz_damage(void **state) {
    (void)state;
    char folder[256];
    make_scratch(folder, sizeof folder);
    struct bytes whole = make_npz(folder);
    remove_scratch(folder);
    int errors = 0;
    for (size_t i = 0; i < whole.n; i++) {
        struct bytes b = whole;
        b.at[i] ^= 0x55;
        struct opened o;
        enum proem_status s = open_bytes(&o, &allocator_default, ".npz", &b);
        for (size_t j = 0; s == PROEM_OK && j < archive_count(o.ar); j++) {
            struct array a;
            struct err e = {0};
            enum proem_status r = archive_read(o.ar, j, &allocator_default, &a, &e);
            if (r == PROEM_OK) array_free(&a);
            errors += r != PROEM_OK;
        }
        errors += s != PROEM_OK;
        close_all(&o);
    }
    assert_true(errors > 100);
    size_t abc = 0;
    while (abc + 3 < whole.n && memcmp(whole.at + abc, "}abc", 4) != 0)
        abc++;
    whole.at[abc + 2] = 'x';
    struct opened o;
    struct array a;
    assert_int_equal(open_bytes(&o, &allocator_default, ".npz", &whole), PROEM_OK);
    assert_int_equal(archive_read(o.ar, 0, &allocator_default, &a, &o.e), PROEM_DATA);
    assert_contains(o.e.text, "checksum");
    close_all(&o);
}

static void test_npz_truncated(void **state) {
    (void)state;
    char folder[256];
    make_scratch(folder, sizeof folder);
    struct bytes whole = make_npz(folder);
    remove_scratch(folder);
    for (size_t n = 0; n < whole.n; n += 7) {
        struct bytes b = whole;
        b.n = n;
        struct opened o;
        enum proem_status s = open_bytes(&o, &allocator_default, ".npz", &b);
        assert_true(s != PROEM_OK || archive_count(o.ar) == 0);
        close_all(&o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_unsupported_only_when_read),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_write),
        cmocka_unit_test(test_npz),
        cmocka_unit_test(test_npz_damage),
        cmocka_unit_test(test_npz_truncated),
    };
    return cmocka_run_group_tests_name("front_archive", tests, NULL, NULL);
}
