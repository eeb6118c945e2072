/* SPDX-License-Identifier: MIT
 * Fuzz target: any bytes as a GGUF file. If it opens, its tensors lie apart in the data, and each
 * can be found and read or is named as unsupported.
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct arena arena;
    arena_init(&arena, &allocator_default);
    struct err e = {0};
    struct archive *ar;
    if (archive_open_memory(&arena, "fuzz", ".gguf", data, n, &ar, &e) == PROEM_OK) {
        read_all(ar, arena.alloc, n);
        archive_close(ar);
    } else if (e.text[0] == '\0' || strchr(e.text, '\n') != NULL) {
        abort();
    }
    arena_free(&arena);
    return 0;
}
