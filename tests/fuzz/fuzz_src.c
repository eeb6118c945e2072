/* SPDX-License-Identifier: MIT
 * Fuzz target: the first byte chooses a dtype, the rest is a source as the command line spells it.
 * Sources that are files are only parsed; others are made for a scalar and for a vector.
 */
#include "front/front.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_error(enum proem_status status, const struct err *e) {
    if (status != PROEM_OK && (e->text[0] == '\0' || strchr(e->text, '\n') != NULL)) abort();
}

static void make(struct arena *arena, const struct src *s, enum dtype d, int rank) {
    struct src_files files;
    src_files_init(&files, arena);
    struct array_type t = {.dtype = d, .rank = rank, .shape = {5}};
    struct err e = {0};
    struct array a;
    enum proem_status status = src_load(&files, s, "x", &t, 1, arena->alloc, &a, &e);
    check_error(status, &e);
    if (status == PROEM_OK) array_free(&a);
    src_files_close(&files);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n == 0) return 0;
    struct arena arena;
    arena_init(&arena, &allocator_default);
    enum dtype d = (enum dtype)(1 + data[0] % (DT_COUNT - 1));
    const char *text = arena_strndup(&arena, (const char *)data + 1, n - 1);
    struct src s;
    struct err e = {0};
    enum proem_status status = src_parse(&arena, text, "folder", &s, &e);
    check_error(status, &e);
    if (status == PROEM_OK && s.kind > SRC_ARCHIVE) {
        make(&arena, &s, d, 0);
        make(&arena, &s, d, 1);
    }
    arena_free(&arena);
    return 0;
}
