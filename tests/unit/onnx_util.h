/* SPDX-License-Identifier: MIT
 * For the tests of the ONNX reader: bytes of protobuf messages, written field by field.
 */
#ifndef ONNX_UTIL_H
#define ONNX_UTIL_H

#include "front/onnx/model.h"
#include "front_util.h"
#include "graph/print.h"

struct wire {
    unsigned char at[4096];
    size_t n;
};

static inline void wire_varint(struct wire *w, uint64_t v) {
    for (; v > 127; v >>= 7)
        w->at[w->n++] = (unsigned char)(v | 128);
    w->at[w->n++] = (unsigned char)v;
}

static inline void wire_int(struct wire *w, unsigned field, int64_t v) {
    wire_varint(w, field << 3);
    wire_varint(w, (uint64_t)v);
}

static inline void wire_bytes(struct wire *w, unsigned field, const void *p, size_t n) {
    wire_varint(w, field << 3 | 2);
    wire_varint(w, n);
    assert_true(w->n + n <= sizeof w->at);
    if (n > 0) memcpy(w->at + w->n, p, n);
    w->n += n;
}

static inline void wire_text(struct wire *w, unsigned field, const char *s) {
    wire_bytes(w, field, s, strlen(s));
}

static inline void wire_put(struct wire *w, unsigned field, const struct wire *inner) {
    wire_bytes(w, field, inner->at, inner->n);
}

/* The numbers of ONNX's schema. */
enum { F_FLOAT = 1, F_INT64 = 7 };

/* A node with up to 3 inputs (NULL: no more) and one output; *extra: attributes, or NULL. */
static inline void put_node(struct wire *graph, const char *op, const char *const in[3],
                            const char *out, const struct wire *extra) {
    struct wire n = {.n = 0};
    for (int i = 0; i < 3 && in[i] != NULL; i++)
        wire_text(&n, 1, in[i]);
    wire_text(&n, 2, out);
    wire_text(&n, 4, op);
    if (extra != NULL) wire_put(&n, 5, extra);
    wire_put(graph, 1, &n);
}

/* field: 11 an input, 12 an output. dims: a name, or digits; NULL ends. */
static inline void put_value(struct wire *graph, unsigned field, const char *name, int type,
                             const char *const dims[4]) {
    struct wire shape = {.n = 0}, tensor = {.n = 0}, kind = {.n = 0}, info = {.n = 0};
    for (int i = 0; i < 4 && dims[i] != NULL; i++) {
        struct wire d = {.n = 0};
        if (dims[i][0] >= '0' && dims[i][0] <= '9')
            wire_int(&d, 1, atoi(dims[i]));
        else
            wire_text(&d, 2, dims[i]);
        wire_put(&shape, 1, &d);
    }
    wire_int(&tensor, 1, type);
    wire_put(&tensor, 2, &shape);
    wire_put(&kind, 1, &tensor);
    wire_text(&info, 1, name);
    wire_put(&info, 2, &kind);
    wire_put(graph, field, &info);
}

static inline void put_numbers(struct wire *graph, const char *name, int n, const int64_t *v) {
    struct wire t = {.n = 0};
    wire_int(&t, 1, n);
    wire_int(&t, 2, F_INT64);
    wire_text(&t, 8, name);
    wire_bytes(&t, 9, v, (size_t)n * 8);
    wire_put(graph, 5, &t);
}

static inline struct wire model_of(const struct wire *graph, int64_t version) {
    struct wire m = {.n = 0}, opset = {.n = 0};
    wire_text(&opset, 1, "");
    wire_int(&opset, 2, version);
    wire_int(&m, 1, 8);
    wire_put(&m, 7, graph);
    wire_put(&m, 8, &opset);
    return m;
}

struct imported {
    struct arena arena;
    struct onnx_model *m;
    struct graph *g;
    struct err e;
    enum proem_status status;
};

/* Over a copy of the exact size, so that the sanitizer sees a read past the end. */
static inline void import_bytes(struct imported *x, const struct allocator *alloc, const void *p,
                                size_t n) {
    const struct onnx_options o = {.source = "m.onnx"};
    *x = (struct imported){.m = NULL};
    arena_init(&x->arena, alloc);
    unsigned char *copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    if (n > 0) memcpy(copy, p, n);
    x->status = onnx_model_read(&x->arena, "m.onnx", copy, n, &x->m, &x->e);
    free(copy);
    if (x->status == PROEM_OK) x->status = onnx_import(&x->arena, x->m, &o, &x->g, &x->e);
}

static inline void import_graph(struct imported *x, const struct wire *graph) {
    struct wire m = model_of(graph, 21);
    import_bytes(x, &allocator_default, m.at, m.n);
}

/* Read alone. */
static inline void read_graph(struct imported *x, const struct wire *graph) {
    struct wire m = model_of(graph, 21);
    *x = (struct imported){.m = NULL};
    arena_init(&x->arena, &allocator_default);
    x->status = onnx_model_read(&x->arena, "m.onnx", m.at, m.n, &x->m, &x->e);
    assert_int_equal(x->status, PROEM_OK);
}

static inline void imported_free(struct imported *x) {
    arena_free(&x->arena);
}

/* The imported graph's text, compared; frees. */
static inline void expect_text(struct imported *x, const char *want) {
    if (x->status != PROEM_OK) fail_msg("status %d: %s", x->status, x->e.text);
    struct str s;
    str_init(&s, &allocator_default);
    graph_print(x->g, false, &s);
    assert_string_equal(str_text(&s), want);
    str_free(&s);
    imported_free(x);
}

static inline void expect_failure(struct imported *x, enum proem_status status, const char *part) {
    assert_int_equal(x->status, status);
    assert_contains(x->e.text, part);
    imported_free(x);
}

#endif
