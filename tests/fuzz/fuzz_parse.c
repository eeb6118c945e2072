/* SPDX-License-Identifier: MIT
 * Fuzz target: any bytes as graph text. What parses must verify, and its print must parse again and
 * print the same; what does not parse has an error of one line with a place.
 */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void print_all(const struct graph_file *file, struct str *out) {
    for (size_t i = 0; i < file->graphs.n; i++) {
        struct err e = {0};
        if (graph_verify(file->graphs.at[i], &e) != PROEM_OK) abort();
        graph_print(file->graphs.at[i], false, out);
    }
}

static void check_fixpoint(const struct graph_file *file) {
    struct arena arena;
    arena_init(&arena, &allocator_default);
    struct str once, twice;
    str_init(&once, &allocator_default);
    str_init(&twice, &allocator_default);
    print_all(file, &once);
    struct graph_file again = {0};
    struct err e = {0};
    if (graph_parse(&arena, "print", str_text(&once), once.n, false, &again, &e) != PROEM_OK)
        abort();
    print_all(&again, &twice);
    if (strcmp(str_text(&once), str_text(&twice)) != 0) abort();
    str_free(&once);
    str_free(&twice);
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct arena arena;
    arena_init(&arena, &allocator_default);
    struct graph_file file = {0};
    struct err e = {0};
    if (graph_parse(&arena, "fuzz", (const char *)data, n, false, &file, &e) == PROEM_OK)
        check_fixpoint(&file);
    else if (e.text[0] == '\0' || strchr(e.text, '\n') != NULL || e.line <= 0)
        abort();
    arena_free(&arena);
    return 0;
}
