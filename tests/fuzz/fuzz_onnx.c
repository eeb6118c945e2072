/* SPDX-License-Identifier: MIT
 * Fuzz target: the input is the file of an ONNX model. A model that is read has its tensors read and
 * becomes a graph; the graph's text must be one that is understood.
 */
#include "front/onnx/model.h"
#include "graph/parse.h"
#include "graph/print.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_error(enum proem_status status, const struct err *e) {
    if (status != PROEM_OK && (e->text[0] == '\0' || status == PROEM_INTERNAL)) abort();
}

static void read_tensors(const struct onnx_model *m) {
    for (size_t i = 0; i < m->tensors.n; i++) {
        struct err e = {0};
        struct array a;
        enum proem_status status = onnx_model_tensor(m, i, &allocator_default, &a, &e);
        check_error(status, &e);
        if (status == PROEM_OK) array_free(&a);
    }
}

static void check_text(struct arena *arena, const struct graph *g) {
    struct str text;
    struct graph_file file;
    struct err e = {0};
    memset(&file, 0, sizeof file);
    str_init(&text, &allocator_default);
    graph_print(g, false, &text);
    if (graph_parse(arena, "model", str_text(&text), text.n, false, &file, &e) != PROEM_OK) abort();
    str_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct arena arena;
    struct onnx_model *m = NULL;
    struct graph *g = NULL;
    struct err e = {0};
    const struct onnx_options o = {.source = "model.onnx"};
    arena_init(&arena, &allocator_default);
    enum proem_status status = onnx_model_read(&arena, "model.onnx", data, n, &m, &e);
    check_error(status, &e);
    if (status == PROEM_OK) {
        read_tensors(m);
        status = onnx_import(&arena, m, &o, &g, &e);
        check_error(status, &e);
        if (status == PROEM_OK) check_text(&arena, g);
    }
    arena_free(&arena);
    return 0;
}
