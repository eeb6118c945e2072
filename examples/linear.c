/* SPDX-License-Identifier: MIT
 * A linear layer with int8 weights through the C interface: build the graph, compile it into one
 * kernel, run it for two batch sizes, and check the numbers.
 *
 *   cc linear.c $(pkg-config --cflags --libs proem) -o linear && ./linear
 */
#include <proem/proem.h>
#include <stdio.h>
#include <stdlib.h>

enum { K = 64, N = 32, MOST_ROWS = 5 };

/* y = relu(x wT s + b): weights [N, K] in int8, one scale for each output. */
static proem_graph *layer(proem_context *c) {
    proem_graph *g = NULL;
    if (proem_graph_create(c, "layer", &g) != PROEM_OK) return NULL;
    proem_value x = proem_graph_param(g, "x", "f32[M, 64]");
    proem_value w = proem_graph_const_param(g, "w", "i8[32, 64]");
    proem_value s = proem_graph_const_param(g, "s", "f32[32]");
    proem_value b = proem_graph_const_param(g, "b", "f32[32]");
    proem_value wide = proem_mul(g, proem_cast(g, w, "f32"), proem_call1(g, "unsqueeze", s, "1"));
    proem_value h = proem_add(g, proem_matmul(g, x, proem_call1(g, "transpose", wide, NULL)), b);
    proem_graph_output(g, proem_graph_name(g, proem_call1(g, "relu", h, NULL), "y"), 0);
    /* Nothing was checked on the way: the first error is kept until here. */
    if (proem_graph_finish(g) == PROEM_OK) return g;
    proem_graph_destroy(g);
    return NULL;
}

static DLTensor tensor(void *data, uint8_t code, uint8_t bits, int rank, int64_t *shape) {
    DLTensor t = {0};
    t.data = data;
    t.device.device_type = kDLCPU;
    t.ndim = rank;
    t.dtype.code = code;
    t.dtype.bits = bits;
    t.dtype.lanes = 1;
    t.shape = shape;
    return t;
}

static float x[MOST_ROWS * K], s[N], b[N], y[MOST_ROWS * N];
static signed char w[N * K];

static int check(int rows) {
    for (int m = 0; m < rows; m++) {
        for (int n = 0; n < N; n++) {
            float want = b[n]; /* exact: all terms are small multiples of 1/8 */
            for (int k = 0; k < K; k++)
                want += x[m * K + k] * (float)w[n * K + k] * s[n];
            if (want < 0) want = 0;
            if (y[m * N + n] != want) return 0;
        }
    }
    return 1;
}

static enum proem_status run(proem_execution *e, int64_t rows) {
    int64_t x_shape[] = {rows, K}, w_shape[] = {N, K}, n_shape[] = {N}, y_shape[] = {rows, N};
    DLTensor tx = tensor(x, kDLFloat, 32, 2, x_shape), tw = tensor(w, kDLInt, 8, 2, w_shape);
    DLTensor ts = tensor(s, kDLFloat, 32, 1, n_shape), tb = tensor(b, kDLFloat, 32, 1, n_shape);
    DLTensor ty = tensor(y, kDLFloat, 32, 2, y_shape);
    const DLTensor *in[] = {&tx, &tw, &ts, &tb};
    DLTensor *out[] = {&ty};
    return proem_run(e, in, 4, out, 1);
}

int main(void) {
    for (int i = 0; i < MOST_ROWS * K; i++)
        x[i] = (float)(i % 7 - 3) * 0.5f;
    for (int i = 0; i < N * K; i++)
        w[i] = (signed char)(i % 11 - 5);
    for (int i = 0; i < N; i++) {
        s[i] = i % 2 == 0 ? 0.25f : 0.5f;
        b[i] = (float)(i - N / 2);
    }
    proem_context *c = NULL;
    proem_program *p = NULL;
    proem_execution *e = NULL;
    int ok = 0;
    if (proem_context_create(NULL, &c) != PROEM_OK) return EXIT_FAILURE;
    proem_graph *g = layer(c);
    if (g == NULL || proem_compile(g, NULL, &p) != PROEM_OK ||
        proem_execution_create(p, &e) != PROEM_OK) {
        fprintf(stderr, "%s\n", proem_error_text(c, NULL, NULL));
    } else if (run(e, MOST_ROWS) != PROEM_OK || !check(MOST_ROWS) || run(e, 1) != PROEM_OK ||
               !check(1)) {
        fprintf(stderr, "wrong: %s\n", proem_execution_error(e));
    } else {
        printf("%zu kernel, right\n", proem_program_kernels(p));
        ok = 1;
    }
    proem_execution_destroy(e);
    proem_program_destroy(p);
    proem_graph_destroy(g);
    proem_context_destroy(c);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
