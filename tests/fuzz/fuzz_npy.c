/* SPDX-License-Identifier: MIT
 * Fuzz target: any bytes as a .npy, or as a .npz if they begin like a zip. An array that is read
 * fits into the bytes it came from; an error has one line of text.
 */
#include "front/front.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct cursor {
    const uint8_t *at;
    size_t left;
};

static bool read_cursor(void *user, void *dst, size_t n) {
    struct cursor *c = user;
    if (n > c->left) abort();
    memcpy(dst, c->at, n);
    c->at += n;
    c->left -= n;
    return true;
}

static void as_npy(struct arena *arena, const uint8_t *data, size_t n) {
    struct cursor c = {data, n};
    struct npy_stream s = {read_cursor, &c, n, "fuzz"};
    struct npy_header h;
    struct array a;
    struct err e = {0};
    enum proem_status status = npy_read_header(&s, arena, &h, &e);
    if (status == PROEM_OK) status = npy_read_data(&s, &h, arena->alloc, &a, &e);
    if (status != PROEM_OK) {
        if (e.text[0] == '\0' || strchr(e.text, '\n') != NULL) abort();
        return;
    }
    if (a.bytes > n) abort();
    struct array_type want = a.type;
    if (want.dtype == DT_U8) want.dtype = DT_U4;
    if (want.dtype == DT_I8) want.dtype = DT_I2;
    if (want.dtype == DT_U16) want.dtype = DT_BF16;
    if (array_adopt(&a, &want, "fuzz", &e) == PROEM_OK && a.type.dtype != want.dtype) abort();
    array_free(&a);
}

static void as_npz(struct arena *arena, const uint8_t *data, size_t n) {
    struct archive *ar;
    struct err e = {0};
    if (archive_open_memory(arena, "fuzz", ".npz", data, n, &ar, &e) != PROEM_OK) return;
    for (size_t i = 0; i < archive_count(ar); i++) {
        struct array a;
        struct err fault = {0};
        /* A member may claim to unpack to anything; stay within a fuzzer's memory. */
        struct array_type t;
        int64_t count;
        size_t bytes;
        if (archive_find(ar, archive_key(ar, i)) != (long)i) abort();
        if (archive_type(ar, i, &t, &fault) != PROEM_OK) continue;
        if (!array_type_size(&t, &count, &bytes) || bytes > (1u << 24)) continue;
        if (archive_read(ar, i, arena->alloc, &a, &fault) == PROEM_OK) array_free(&a);
    }
    archive_close(ar);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct arena arena;
    arena_init(&arena, &allocator_default);
    if (n >= 2 && data[0] == 'P' && data[1] == 'K')
        as_npz(&arena, data, n);
    else
        as_npy(&arena, data, n);
    arena_free(&arena);
    return 0;
}
