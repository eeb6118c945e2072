/* SPDX-License-Identifier: MIT
 * GGUF files: what a whole one holds, each way in which one can be wrong, a file cut short at every
 * byte.
 */
#include "front_util.h"

static void put_string(struct bytes *b, const char *text) {
    put_int(b, strlen(text), 8);
    put_text(b, text);
}

static void put_head(struct bytes *b, unsigned version, uint64_t tensors, uint64_t pairs) {
    put_text(b, "GGUF");
    put_int(b, version, 4);
    put_int(b, tensors, 8);
    put_int(b, pairs, 8);
}

static void put_tensor(struct bytes *b, const char *name, int rank, uint64_t d0, uint64_t d1,
                       unsigned type, uint64_t offset) {
    put_string(b, name);
    put_int(b, (uint64_t)rank, 4);
    if (rank > 0) put_int(b, d0, 8);
    for (int i = 1; i < rank; i++)
        put_int(b, d1, 8);
    put_int(b, type, 4);
    put_int(b, offset, 8);
}

static void pad(struct bytes *b, size_t alignment) {
    while (b->n % alignment != 0)
        put_int(b, 0, 1);
}

/* Metadata of every type, an alignment of 64, four tensors. */
static struct bytes whole_file(unsigned version) {
    static const unsigned char size[13] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    struct bytes b = {.n = 0};
    put_head(&b, version, 4, 16);
    for (unsigned t = 0; t < 13; t++) {
        if (size[t] == 0) continue;
        put_string(&b, "k");
        put_int(&b, t, 4);
        put_int(&b, 1, size[t]);
    }
    put_string(&b, "text");
    put_int(&b, 8, 4);
    put_string(&b, "word");
    put_string(&b, "words");
    put_int(&b, 9, 4);
    put_int(&b, 8, 4);
    put_int(&b, 2, 8);
    put_string(&b, "a");
    put_string(&b, "");
    put_string(&b, "numbers");
    put_int(&b, 9, 4);
    put_int(&b, 4, 4);
    put_int(&b, 3, 8);
    put(&b, "123412341234", 12);
    put_string(&b, "nested");
    put_int(&b, 9, 4);
    put_int(&b, 9, 4);
    put_int(&b, 1, 8);
    put_int(&b, 0, 4);
    put_int(&b, 2, 8);
    put(&b, "ab", 2);
    put_string(&b, "general.alignment");
    put_int(&b, 4, 4);
    put_int(&b, 64, 4);
    put_tensor(&b, "blk.0.w", 2, 32, 2, 2, 64);
    put_tensor(&b, "f", 2, 3, 2, 0, 0);
    put_tensor(&b, "scalar", 0, 0, 0, 24, 128);
    put_tensor(&b, "codes", 2, 256, 1, 16, 192);
    pad(&b, 64);
    for (int i = 0; i < 6; i++) {
        float v = (float)i;
        put(&b, &v, 4);
    }
    pad(&b, 64);
    for (int i = 0; i < 36; i++)
        put_int(&b, (uint64_t)i, 1);
    pad(&b, 64);
    put_int(&b, 0xfe, 1);
    pad(&b, 64);
    put_int(&b, 7, 1);
    return b;
}

static enum proem_status try_open(const struct bytes *b, struct arena *arena, struct archive **ar,
                                  struct err *e) {
    /* memory of its own, so that a read past the end is seen */
    void *copy = malloc(b->n > 0 ? b->n : 1);
    assert_non_null(copy);
    memcpy(copy, b->at, b->n);
    enum proem_status s = archive_open_memory(arena, "m.gguf", ".gguf", copy, b->n, ar, e);
    if (s == PROEM_OK) archive_close(*ar);
    free(copy);
    return s;
}

static void test_whole(void **state) {
    (void)state;
    for (unsigned version = 2; version <= 3; version++) {
        struct bytes b = whole_file(version);
        struct arena arena;
        struct archive *ar;
        struct err e = {0};
        struct array a;
        arena_init(&arena, &allocator_default);
        assert_int_equal(archive_open_memory(&arena, "m.gguf", ".gguf", b.at, b.n, &ar, &e), 0);
        assert_int_equal(archive_count(ar), 4);
        long i = archive_find(ar, "blk.0.w");
        assert_int_equal(archive_read(ar, (size_t)i, arena.alloc, &a, &e), PROEM_OK);
        assert_int_equal(a.type.dtype, DT_Q4_0);
        assert_int_equal(a.type.shape[0], 2);
        assert_int_equal(a.type.shape[1], 32);
        assert_int_equal(a.bytes, 36);
        for (int k = 0; k < 36; k++)
            assert_int_equal(((unsigned char *)a.data)[k], k);
        array_free(&a);
        i = archive_find(ar, "f");
        assert_int_equal(archive_read(ar, (size_t)i, arena.alloc, &a, &e), PROEM_OK);
        assert_int_equal(a.type.shape[0], 2);
        assert_int_equal(a.type.shape[1], 3);
        assert_true(elem_load(DT_F32, a.data, 5).f == 5.0);
        array_free(&a);
        i = archive_find(ar, "scalar");
        assert_int_equal(archive_read(ar, (size_t)i, arena.alloc, &a, &e), PROEM_OK);
        assert_int_equal(a.type.rank, 0);
        assert_int_equal(elem_load(DT_I8, a.data, 0).i, -2);
        array_free(&a);
        i = archive_find(ar, "codes");
        assert_int_equal(archive_read(ar, (size_t)i, arena.alloc, &a, &e), PROEM_UNSUPPORTED);
        assert_non_null(strstr(e.text, "m.gguf:codes: GGML's type 16 is not supported"));
        archive_close(ar);
        arena_free(&arena);
    }
}

/* Cut short anywhere it is refused, but where only the last, unread tensor is lost. */
static void test_truncated(void **state) {
    (void)state;
    struct bytes b = whole_file(3);
    size_t n = b.n;
    for (b.n = 0; b.n < n; b.n++) {
        struct arena arena;
        struct archive *ar;
        struct err e = {0};
        arena_init(&arena, &allocator_default);
        enum proem_status s = try_open(&b, &arena, &ar, &e);
        if (b.n < n - 1) assert_int_equal(s, PROEM_DATA);
        if (s != PROEM_OK) assert_non_null(strstr(e.text, "m.gguf"));
        arena_free(&arena);
    }
}

static void expect(const struct bytes *b, enum proem_status want, const char *message) {
    struct arena arena;
    struct archive *ar;
    struct err e = {0};
    arena_init(&arena, &allocator_default);
    assert_int_equal(try_open(b, &arena, &ar, &e), want);
    if (strstr(e.text, message) == NULL) fail_msg("'%s' is not in '%s'", message, e.text);
    arena_free(&arena);
}

static void expect_tensor(int rank, uint64_t d0, uint64_t d1, unsigned type, uint64_t offset,
                          const char *message) {
    struct bytes b = {.n = 0};
    put_head(&b, 3, 2, 0);
    put_tensor(&b, "a", 1, 8, 0, 0, 0);
    put_tensor(&b, "w", rank, d0, d1, type, offset);
    pad(&b, 32);
    for (int i = 0; i < 64; i++)
        put_int(&b, 0, 1);
    expect(&b, PROEM_DATA, message);
}

static void test_tensors(void **state) {
    (void)state;
    expect_tensor(5, 1, 1, 0, 0, "tensor 'w': it has more than 4 dims");
    expect_tensor(1, UINT64_MAX, 0, 0, 32, "a dim is too large");
    expect_tensor(2, INT64_MAX, 4, 0, 32, "its size overflows");
    expect_tensor(2, 16, 2, 2, 32, "no whole number of blocks");
    expect_tensor(1, 4, 0, 0, 33, "not aligned");
    expect_tensor(1, 4, 0, 0, 64, "past the file's end");
    expect_tensor(1, 16, 0, 0, UINT64_MAX - 31, "its place overflows");
    expect_tensor(1, 4, 0, 0, 0, "overlaps");
    struct bytes b = {.n = 0};
    put_head(&b, 3, 2, 0);
    put_tensor(&b, "w", 1, 0, 0, 0, 0);
    put_tensor(&b, "w", 1, 0, 0, 0, 0);
    pad(&b, 32);
    expect(&b, PROEM_DATA, "key 'w' is there twice");
}

static void expect_pair(const char *key, unsigned type, const void *value, size_t n,
                        const char *message) {
    struct bytes b = {.n = 0};
    put_head(&b, 3, 0, 1);
    put_string(&b, key);
    put_int(&b, type, 4);
    put(&b, value, n);
    expect(&b, PROEM_DATA, message);
}

static void test_metadata(void **state) {
    (void)state;
    static const unsigned char huge[12] = {8,    0,    0,    0,    0xff, 0xff,
                                           0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    expect_pair("", 0, "1", 1, "a name is empty");
    expect_pair("k", 13, "1", 1, "does not define");
    expect_pair("k", 9, "\15\0\0\0\1\0\0\0\0\0\0\0", 12, "does not define");
    expect_pair("k", 9, huge, 12, "truncated: an array");
    expect_pair("k", 8, huge + 4, 8, "truncated: a value");
    expect_pair("general.alignment", 4, "\0\0\0\0", 4, "a multiple of 8");
    expect_pair("general.alignment", 4, "\4\0\0\0", 4, "a multiple of 8");
    expect_pair("general.alignment", 0, "\40", 1, "is no u32");
    struct bytes b = {.n = 0};
    put_head(&b, 3, 0, 2);
    for (int i = 0; i < 2; i++) {
        put_string(&b, "general.alignment");
        put_int(&b, 4, 4);
        put_int(&b, 32, 4);
    }
    expect(&b, PROEM_DATA, "twice");
    b.n = 0;
    put_head(&b, 3, 0, 1);
    put_string(&b, "k");
    put_int(&b, 9, 4);
    for (int i = 0; i < 20; i++) {
        put_int(&b, 9, 4);
        put_int(&b, 1, 8);
    }
    expect(&b, PROEM_DATA, "nested too deep");
}

static void test_head(void **state) {
    (void)state;
    struct bytes b = {.n = 0};
    put_head(&b, 1, 0, 0);
    expect(&b, PROEM_UNSUPPORTED, "GGUF version 1");
    b.n = 0;
    put_head(&b, 0x03000000, 0, 0);
    expect(&b, PROEM_UNSUPPORTED, "big-endian");
    b.n = 0;
    put_head(&b, 3, UINT64_MAX, 0);
    expect(&b, PROEM_DATA, "too short for its number of tensors");
    b.n = 0;
    put_head(&b, 3, 0, UINT64_MAX);
    expect(&b, PROEM_DATA, "truncated");
    b.n = 0;
    put_text(&b, "GGML00000000000000000000");
    expect(&b, PROEM_DATA, "no GGUF file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),   cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_tensors), cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
