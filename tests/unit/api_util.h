/* SPDX-License-Identifier: MIT
 * What the tests of the public interface share: contexts with a cache of this run, tensors, a layer
 * and its expected values.
 */
#ifndef API_UTIL_H
#define API_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proem/proem.h"

static char cache_dir[] = "/tmp/proem-test-api-XXXXXX";

/* ---- helpers --------------------------------------------------------------------------------- */

static inline proem_context *context(void) {
    struct proem_context_options o;
    proem_context_options_init(&o);
    o.cache_dir = cache_dir;
    o.threads = 2;
    proem_context *c = NULL;
    assert_int_equal(proem_context_create(&o, &c), PROEM_OK);
    return c;
}

/* A tensor with room for its shape. */
struct tensor {
    DLTensor t;
    int64_t shape[4], strides[4];
};

static inline void tensor_set(struct tensor *x, void *data, uint8_t code, uint8_t bits, int rank,
                              const int64_t *shape) {
    memset(x, 0, sizeof *x);
    for (int i = 0; i < rank; i++)
        x->shape[i] = shape[i];
    x->t.data = data;
    x->t.device.device_type = kDLCPU;
    x->t.ndim = rank;
    x->t.dtype = (DLDataType){code, bits, 1};
    x->t.shape = x->shape;
}

static inline void f32(struct tensor *x, float *data, int rank, int64_t a, int64_t b) {
    int64_t shape[2];
    shape[0] = a;
    shape[1] = b;
    tensor_set(x, data, kDLFloat, 32, rank, shape);
}

static inline void fill(float *data, int n, int seed) {
    for (int i = 0; i < n; i++)
        data[i] = (float)((i * 37 + seed * 11) % 17 - 8) * 0.25f;
}

static inline proem_program *compile_text(proem_context *c, const char *text,
                                          enum proem_device device) {
    proem_graph *g = NULL;
    proem_program *p = NULL;
    struct proem_compile_options o;
    proem_compile_options_init(&o);
    o.device = device;
    enum proem_status s = proem_graph_parse(c, text, strlen(text), "test.proem", NULL, &g);
    if (s != PROEM_OK) fail_msg("%s", proem_error_text(c, NULL, NULL));
    s = proem_compile(g, &o, &p);
    if (s != PROEM_OK) fail_msg("%s", proem_error_text(c, NULL, NULL));
    proem_graph_destroy(g); /* the program does not need it */
    return p;
}

static inline void run_ok(proem_execution *x, const DLTensor *const *in, size_t n_in,
                          DLTensor *const *out, size_t n_out) {
    if (proem_run(x, in, n_in, out, n_out) != PROEM_OK) fail_msg("%s", proem_execution_error(x));
}

static inline void has(const char *text, const char *part) {
    if (strstr(text, part) == NULL) fail_msg("'%s' does not say '%s'", text, part);
}

static inline proem_graph *linear_graph(proem_context *c) {
    proem_graph *g = NULL;
    assert_int_equal(proem_graph_create(c, "linear", &g), PROEM_OK);
    proem_value x = proem_graph_param(g, "x", "f32[M, 5]");
    proem_value w = proem_graph_const_param(g, "w", "f32[5, 3]");
    proem_value b = proem_graph_param(g, "b", "f32[3]");
    proem_value h = proem_add(g, proem_matmul(g, x, w), b);
    proem_value y = proem_call1(g, "relu", h, NULL);
    proem_graph_name(g, y, "y");
    assert_int_equal(proem_graph_output(g, y, 0), PROEM_OK);
    proem_value twice = proem_mul(g, y, proem_graph_int(g, 2));
    assert_int_equal(proem_graph_output(g, twice, 0), PROEM_OK);
    return g;
}

/* One execution of linear_graph's program with m rows, against plain loops. */
static inline void run_linear(proem_execution *x, int m) {
    float a[64 * 5], w[15], b[3], y[64 * 3], z[64 * 3];
    struct tensor t[5];
    fill(a, m * 5, m);
    fill(w, 15, 2);
    fill(b, 3, 1);
    f32(&t[0], a, 2, m, 5);
    f32(&t[1], w, 2, 5, 3);
    f32(&t[2], b, 1, 3, 0);
    f32(&t[3], y, 2, m, 3);
    f32(&t[4], z, 2, m, 3);
    const DLTensor *in[] = {&t[0].t, &t[1].t, &t[2].t};
    DLTensor *out[] = {&t[3].t, &t[4].t};
    run_ok(x, in, 3, out, 2);
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < 3; j++) {
            float sum = b[j]; /* exact: small multiples of 1/16 */
            for (int k = 0; k < 5; k++)
                sum += a[i * 5 + k] * w[k * 3 + j];
            float want = sum > 0 ? sum : 0;
            assert_true(y[i * 3 + j] == want);
            assert_true(z[i * 3 + j] == 2 * want);
        }
    }
}

/* ---- the run --------------------------------------------------------------------------------- */

static inline int make_cache(void **state) {
    (void)state;
    return mkdtemp(cache_dir) == NULL;
}

static inline int remove_cache(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", cache_dir);
    return system(command);
}

#endif
