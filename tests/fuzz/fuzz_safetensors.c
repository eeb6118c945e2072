/* SPDX-License-Identifier: MIT
 * Fuzz target: any bytes as a .safetensors file. If it opens, its tensors cover the data exactly,
 * and each can be found and read or is named as unsupported.
 */
#include "front/front.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void read_all(struct archive *ar, const struct allocator *alloc, size_t n) {
    size_t total = 0;
    for (size_t i = 0; i < archive_count(ar); i++) {
        struct err e = {0};
        struct array a;
        struct array_type t;
        if (archive_find(ar, archive_key(ar, i)) != (long)i) abort();
        enum proem_status known = archive_type(ar, i, &t, &e);
        enum proem_status status = archive_read(ar, i, alloc, &a, &e);
        if (status != known || (status != PROEM_OK && status != PROEM_UNSUPPORTED)) abort();
        if (status != PROEM_OK) continue;
        total += a.bytes;
        array_free(&a);
    }
    if (total > n) abort();
}

/* HEADER NUL DATA as a file. */
static const uint8_t *with_length(struct arena *arena, const uint8_t *data, size_t *n) {
    const uint8_t *nul = memchr(data, 0, *n);
    size_t header = nul != NULL ? (size_t)(nul - data) : *n;
    size_t rest = nul != NULL ? *n - header - 1 : 0;
    uint8_t *file = ARENA_NEW(arena, uint8_t, 8 + header + rest);
    for (size_t i = 0; i < 8; i++)
        file[i] = (uint8_t)((uint64_t)header >> (8 * i));
    memcpy(file + 8, data, header);
    if (rest > 0) memcpy(file + 8 + header, nul + 1, rest);
    *n = 8 + header + rest;
    return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct arena arena;
    arena_init(&arena, &allocator_default);
    if (n > 0 && data[0] == '{') data = with_length(&arena, data, &n);
    struct err e = {0};
    struct archive *ar;
    if (archive_open_memory(&arena, "fuzz", ".safetensors", data, n, &ar, &e) == PROEM_OK) {
        read_all(ar, arena.alloc, n);
        archive_close(ar);
    } else if (e.text[0] == '\0' || strchr(e.text, '\n') != NULL) {
        abort();
    }
    arena_free(&arena);
    return 0;
}
