/* SPDX-License-Identifier: MIT
 * For tests of the interpreter: a graph from text, inputs from doubles, outputs as doubles.
 */
#ifndef TEST_EVAL_UTIL_H
#define TEST_EVAL_UTIL_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "eval/eval.h"

#define MAX_INPUTS 8

struct fixture {
    struct arena arena;
    const struct allocator *alloc;
    struct graph *g;
    struct dims_binding binding;
    struct eval_input input[MAX_INPUTS];
    struct eval_options options;
    struct eval_results results;
    struct err err;
};

static inline void fx_parse(struct fixture *f, const char *text) {
    *f = (struct fixture){.alloc = &allocator_default};
    f->results.alloc = f->alloc;
    f->options = (struct eval_options){.threads = 1, .intervals = true};
    arena_init(&f->arena, &allocator_default);
    struct graph_file file;
    memset(&file, 0, sizeof file);
    enum proem_status s = graph_parse(&f->arena, "test", text, strlen(text), false, &file, &f->err);
    if (s != PROEM_OK) fail_msg("%d:%d: %s", f->err.line, f->err.col, f->err.text);
    f->g = file.graphs.at[0];
    f->binding = dims_binding_new(&f->arena, f->g);
}

/* The value of parameter i: its shape and elements as doubles. */
static inline void fx_input(struct fixture *f, int i, int rank, const int64_t *shape,
                            const double *v) {
    const struct value *p = graph_value(f->g, f->g->params.at[i].value);
    int64_t n = 1;
    int64_t *copy = ARENA_NEW(&f->arena, int64_t, MAX_RANK);
    for (int d = 0; d < rank; d++) {
        copy[d] = shape[d];
        n *= shape[d];
    }
    char *data = ARENA_NEW(&f->arena, char, (size_t)(dtype_bytes(p->dtype, n) + 8));
    for (int64_t k = 0; k < n; k++) {
        elem_store(p->dtype, data, k,
                   elem_cast(DT_F64, (union scalar){.f = v[k]}, p->dtype, false));
    }
    f->input[i] = (struct eval_input){rank, copy, data};
    enum proem_status s =
        dims_bind_param(f->g, &f->binding, f->g->params.at[i].value, rank, shape, &f->err);
    if (s != PROEM_OK) fail_msg("%s", f->err.text);
}

/* Shapes as a list: FX_INPUT(&f, 0, values, 2, 3) is a [2, 3]. */
#define FX_INPUT(f, i, values, ...)                                                                \
    fx_input(f, i, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                      \
             (const int64_t[]){__VA_ARGS__}, values)

static inline enum proem_status fx_try(struct fixture *f) {
    eval_results_free(&f->results);
    return eval_graph(f->g, &f->binding, f->input, &f->options, f->alloc, &f->results, &f->err);
}

static inline void fx_run(struct fixture *f) {
    if (fx_try(f) != PROEM_OK) fail_msg("%s", f->err.text);
}

static inline void fx_free(struct fixture *f) {
    eval_results_free(&f->results);
    arena_free(&f->arena);
}

static inline double fx_value(const struct fixture *f, int output, int64_t i) {
    const struct eval_result *r = &f->results.at[output];
    union scalar v = elem_load(r->dtype, r->data, i);
    return dtype_is_float(r->dtype) ? v.f : (double)v.i;
}

/* Exactly these values; with tol > 0 within tol*(1 + |value|). */
static inline void fx_expect(const struct fixture *f, int output, int64_t n, const double *want,
                             double tol) {
    assert_int_equal(f->results.at[output].n, n);
    for (int64_t i = 0; i < n; i++) {
        double got = fx_value(f, output, i);
        bool same = got == want[i] || (isnan(got) && isnan(want[i]));
        if (!same && !(tol > 0 && fabs(got - want[i]) <= tol * (1 + fabs(want[i])))) {
            fail_msg("output %d element %d: got %.17g, want %.17g", output, (int)i, got, want[i]);
        }
    }
}

static inline void fx_expect_exact(const struct fixture *f, int output) {
    const struct eval_result *r = &f->results.at[output];
    for (int64_t i = 0; r->lo != NULL && i < r->n; i++) {
        if (r->lo[i] != r->hi[i]) {
            fail_msg("output %d element %d: [%.17g, %.17g]", output, (int)i, r->lo[i], r->hi[i]);
        }
    }
}

/* Every reference value lies in its interval. */
static inline void fx_expect_inside(const struct fixture *f) {
    for (int o = 0; o < f->results.n; o++) {
        const struct eval_result *r = &f->results.at[o];
        struct eval_report report;
        eval_compare(r, r->data, &report);
        if (r->n_rows == 0 && (!report.ok || report.max_err != 0)) {
            fail_msg("output %d: the reference value is outside at %d (%.17g)", o,
                     (int)report.worst, report.bound_ratio);
        }
    }
}

/* One graph, one output: run and compare. */
static inline void fx_check(struct fixture *f, int64_t n, const double *want, double tol) {
    fx_run(f);
    fx_expect(f, 0, n, want, tol);
    fx_expect_inside(f);
    fx_free(f);
}

#define WANT(...)                                                                                  \
    (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (const double[]) {                \
        __VA_ARGS__                                                                                \
    }

#endif
