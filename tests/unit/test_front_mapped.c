/* SPDX-License-Identifier: MIT
 * Large tensors of .safetensors and .gguf files are mapped: little memory, the values that a copy
 * has, and nothing that is written reaches the file. Files of a split GGUF model are one archive.
 */
#include "mapped_util.h"

static void put_string(struct bytes *b, const char *text) {
    put_int(b, strlen(text), 8);
    put_text(b, text);
}

static void pad(struct bytes *b) {
    while (b->n % 32 != 0)
        put_int(b, 0, 1);
}

/* One tensor `key` of Q8_0, [rows, 4096], whose data stand at *at. */
static struct bytes gguf_head(uint64_t rows, const char *key, int no, int count, long *at) {
    struct bytes b = {.n = 0};
    put_text(&b, "GGUF");
    put_int(&b, 3, 4);
    put_int(&b, 1, 8);
    put_int(&b, count > 0 ? 2 : 0, 8);
    const char *const name[] = {"split.no", "split.count"};
    for (int i = 0; i < 2 && count > 0; i++) {
        put_string(&b, name[i]);
        put_int(&b, 2, 4);
        put_int(&b, (uint64_t)(i == 0 ? no : count), 2);
    }
    put_string(&b, key);
    put_int(&b, 2, 4);
    put_int(&b, 4096, 8);
    put_int(&b, rows, 8);
    put_int(&b, 8, 4);
    put_int(&b, 0, 8);
    pad(&b);
    *at = (long)b.n;
    return b;
}

static void open_file(struct arena *arena, const char *path, struct archive **ar) {
    struct err e = {0};
    arena_init(arena, &allocator_default);
    if (archive_open(arena, path, ar, &e) != PROEM_OK) fail_msg("%s", e.text);
}

/* A tensor of 256 MB is there without its bytes, and its last one is the file's. */
static void read_large(const char *path, const char *key, int last) {
    struct arena arena;
    struct archive *ar;
    struct array a;
    struct err e = {0};
    long before = resident_kb();
    open_file(&arena, path, &ar);
    long i = archive_find(ar, key);
    assert_true(i >= 0);
    if (archive_read(ar, (size_t)i, arena.alloc, &a, &e) != PROEM_OK) fail_msg("%s", e.text);
    assert_true(a.bytes >= 256u * MB);
    unsigned char *p = a.data;
    assert_int_equal(p[a.bytes - 1], last);
    assert_int_equal(p[a.bytes - 2], 0);
    assert_true(resident_kb() - before < GROWTH_KB);
    p[a.bytes - 1] = (unsigned char)(last + 1); /* ours alone */
    array_free(&a);
    assert_int_equal(archive_read(ar, (size_t)i, arena.alloc, &a, &e), PROEM_OK);
    assert_int_equal(((unsigned char *)a.data)[a.bytes - 1], last);
    array_free(&a);
    archive_close(ar);
    arena_free(&arena);
}

/* An f32 tensor `w`, whose data begin so many bytes past a multiple of 4. */
static struct bytes safetensors_head(int64_t n, size_t past) {
    char header[256];
    snprintf(header, sizeof header,
             "{\"w\":{\"dtype\":\"F32\",\"shape\":[%lld],\"data_offsets\":[0,%lld]}}", (long long)n,
             (long long)n * 4);
    while ((8 + strlen(header)) % 4 != past)
        strcat(header, " ");
    return safetensors_bytes(header, "", 0);
}

static void test_safetensors(void **state) {
    (void)state;
    char path[512];
    struct bytes b = safetensors_head(64 * MB, 0);
    path_of(path, "m.safetensors");
    write_sparse(path, &b, (long)b.n + 256 * MB, 77);
    read_large(path, "w", 77);
}

static void test_gguf(void **state) {
    (void)state;
    char path[512];
    long at;
    struct bytes b = gguf_head(65536, "w", 0, 0, &at);
    path_of(path, "m.gguf");
    write_sparse(path, &b, at + 65536L * (4096 / 32 * 34), 99);
    read_large(path, "w", 99);
}

/* f32 that do not stand at multiples of 4: kernels need them to, so they are copied. */
static void test_unaligned(void **state) {
    (void)state;
    enum { N = 32768 };
    char path[512];
    struct arena arena;
    struct archive *ar;
    struct array a;
    struct err e = {0};
    struct bytes b = safetensors_head(N, 1);
    path_of(path, "u.safetensors");
    write_sparse(path, &b, (long)b.n + 4 * N, 64);
    open_file(&arena, path, &ar);
    assert_int_equal(archive_read(ar, 0, arena.alloc, &a, &e), PROEM_OK);
    assert_int_equal((uintptr_t)a.data % 4, 0);
    assert_true(elem_load(DT_F32, a.data, N - 1).f == 2.0);
    array_free(&a);
    archive_close(ar);
    arena_free(&arena);
}

/* ---- split files ----------------------------------------------------------------------------- */

static void write_part(int no, int says, int count, const char *key, int value) {
    char path[512], name[64];
    long at;
    struct bytes b = gguf_head(1, key, says, count, &at);
    snprintf(name, sizeof name, "big-%05d-of-%05d.gguf", no + 1, 3);
    path_of(path, name);
    write_sparse(path, &b, at + 4096 / 32 * 34, value);
}

static void test_split(void **state) {
    (void)state;
    char path[512];
    struct arena arena;
    struct archive *ar;
    struct array a;
    struct err e = {0};
    const char *const key[] = {"b", "a", "c"};
    for (int i = 0; i < 3; i++)
        write_part(i, i, 3, key[i], 10 + i);
    for (int first = 0; first < 3; first++) { /* whichever is opened */
        char name[64];
        snprintf(name, sizeof name, "big-%05d-of-00003.gguf", first + 1);
        path_of(path, name);
        open_file(&arena, path, &ar);
        assert_int_equal(archive_count(ar), 3);
        for (int i = 0; i < 3; i++) {
            long at = archive_find(ar, key[i]);
            assert_int_equal(archive_read(ar, (size_t)at, arena.alloc, &a, &e), PROEM_OK);
            assert_int_equal(((unsigned char *)a.data)[a.bytes - 1], 10 + i);
            array_free(&a);
        }
        archive_close(ar);
        arena_free(&arena);
    }
}

/* Every allocation may fail; nothing leaks, no file stays open. */
static void test_no_memory(void **state) {
    (void)state;
    char path[512];
    for (int i = 0; i < 3; i++)
        write_part(i, i, 3, i == 0 ? "a" : i == 1 ? "b" : "c", 1);
    path_of(path, "big-00002-of-00003.gguf");
    int lowest = dup(0);
    close(lowest);
    for (long tries = 0; tries < 1000; tries++) {
        struct faulty f;
        struct allocator alloc = faulty_allocator(&f, tries);
        struct arena arena;
        struct archive *ar;
        struct err e = {0};
        arena_init(&arena, &alloc);
        enum proem_status s = archive_open(&arena, path, &ar, &e);
        if (s == PROEM_OK) archive_close(ar);
        arena_free(&arena);
        int free_now = dup(0);
        close(free_now);
        assert_int_equal(free_now, lowest);
        assert_int_equal(f.live, 0);
        assert_int_equal(s, f.calls > tries ? PROEM_NOMEM : PROEM_OK);
        if (s == PROEM_OK) return;
    }
    fail_msg("it never had enough memory");
}

static void expect_error(const char *name, const char *text) {
    char path[512];
    struct arena arena;
    struct archive *ar;
    struct err e = {0};
    path_of(path, name);
    arena_init(&arena, &allocator_default);
    assert_int_not_equal(archive_open(&arena, path, &ar, &e), PROEM_OK);
    if (strstr(e.text, text) == NULL) fail_msg("'%s' is not in '%s'", text, e.text);
    arena_free(&arena);
}

static void test_split_errors(void **state) {
    (void)state;
    char from[512], to[512];
    write_part(0, 0, 3, "a", 1);
    write_part(1, 1, 3, "b", 1);
    write_part(2, 1, 3, "c", 1);
    expect_error("big-00001-of-00003.gguf", "it says that it is file 2 of 3");
    write_part(2, 2, 3, "b", 1);
    expect_error("big-00001-of-00003.gguf", "key 'b' is there twice");
    write_part(2, 3, 3, "c", 1);
    expect_error("big-00003-of-00003.gguf", "split.no is 3");
    path_of(from, "big-00003-of-00003.gguf");
    assert_int_equal(remove(from), 0);
    expect_error("big-00002-of-00003.gguf", "big-00003-of-00003.gguf: cannot open");
    path_of(from, "big-00001-of-00003.gguf");
    path_of(to, "first.gguf");
    assert_int_equal(rename(from, to), 0);
    expect_error("first.gguf", "its name must end in -00001-of-00003.gguf");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors),  cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_unaligned),    cmocka_unit_test(test_split),
        cmocka_unit_test(test_split_errors), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
