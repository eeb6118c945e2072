/* SPDX-License-Identifier: MIT
 * What the tests of the front ends share: files built byte by byte, a scratch folder, and an
 * allocator that fails at a chosen call and counts what is alive.
 */
#ifndef PROEM_TEST_FRONT_UTIL_H
#define PROEM_TEST_FRONT_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "front/front.h"

struct bytes {
    unsigned char at[16384];
    size_t n;
};

static inline void put(struct bytes *b, const void *from, size_t n) {
    assert_true(n <= sizeof b->at - b->n);
    memcpy(b->at + b->n, from, n);
    b->n += n;
}

static inline void put_text(struct bytes *b, const char *text) {
    put(b, text, strlen(text));
}

/* Little-endian, n bytes. */
static inline void put_int(struct bytes *b, uint64_t v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)(v >> (8 * i));
        put(b, &c, 1);
    }
}

/* A version 1 .npy with this dict. */
static inline struct bytes npy_bytes(const char *dict, const void *data, size_t n) {
    struct bytes b = {.n = 0};
    put(&b, "\x93NUMPY\x01\x00", 8);
    put_int(&b, strlen(dict), 2);
    put_text(&b, dict);
    put(&b, data, n);
    return b;
}

static inline struct bytes safetensors_bytes(const char *header, const void *data, size_t n) {
    struct bytes b = {.n = 0};
    put_int(&b, strlen(header), 8);
    put_text(&b, header);
    put(&b, data, n);
    return b;
}

static inline void write_bytes(const char *path, const struct bytes *b) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->at, 1, b->n, f), b->n);
    assert_int_equal(fclose(f), 0);
}

/* A new folder; the tests remove what they made with remove_scratch. */
static inline void make_scratch(char *path, size_t n) {
    const char *base = getenv("TMPDIR");
    snprintf(path, n, "%s/proem-test-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(path));
}

static inline void remove_scratch(const char *path) {
    char command[512];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

/* Allocations number `fail_at` and later fail (from 0); live counts bytes not yet freed. */
struct faulty {
    long calls, fail_at, live;
};

static void *faulty_alloc(void *user, size_t size, size_t align) {
    struct faulty *f = user;
    if (f->calls++ >= f->fail_at) return NULL;
    f->live += (long)size;
    return allocator_default.alloc(NULL, size, align);
}

static void faulty_free(void *user, void *p, size_t size) {
    struct faulty *f = user;
    f->live -= (long)size;
    allocator_default.free(NULL, p, size);
}

static inline struct allocator faulty_allocator(struct faulty *f, long fail_at) {
    *f = (struct faulty){.fail_at = fail_at};
    return (struct allocator){faulty_alloc, faulty_free, f};
}

static inline void assert_contains(const char *text, const char *part) {
    if (strstr(text, part) == NULL) fail_msg("'%s' is not in '%s'", part, text);
}

#endif
