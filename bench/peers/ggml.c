/* SPDX-License-Identifier: MIT
 * ggml as a peer: one matrix product on its CPU backend, by its public interface (ggml.h,
 * ggml-cpu.h, ggml-backend.h). Built as a module of its own where a ggml is found; the benchmarks
 * open it if it is there. Activations are f32; ggml converts them to what the format's dot
 * products take (q8_0 blocks for quantized weights, f16 for f16), in every run.
 */
#include "bench/peers/ggml.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <stdlib.h>
#include <string.h>

struct ggml_product {
    struct ggml_context *weights, *rest; /* tensors of each buffer */
    ggml_backend_buffer_t weight_buffer, rest_buffer;
    struct ggml_tensor *w, *x, *out;
    struct ggml_cgraph *graph;
    struct ggml_cplan plan;
    struct ggml_threadpool *pool;
    void *work;
};

ggml_product_open_fn ggml_product_open;
ggml_product_run_fn ggml_product_run;
ggml_product_out_fn ggml_product_out;
ggml_product_close_fn ggml_product_close;
ggml_peer_version_fn ggml_peer_version;

const char *ggml_peer_version(void) {
    return ggml_version();
}

/* The buffer type whose tensors are stored in a layout for this machine. */
static ggml_backend_buffer_type_t repacked(void) {
    ggml_backend_reg_t reg = ggml_backend_cpu_reg();
    void *p = ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts");
    ggml_backend_dev_get_extra_bufts_t get;
    memcpy(&get, &p, sizeof p);
    if (p == NULL) return NULL;
    ggml_backend_buffer_type_t *list = get(ggml_backend_reg_dev_get(reg, 0));
    for (; list != NULL && *list != NULL; list++) {
        if (strcmp(ggml_backend_buft_name(*list), "CPU_REPACK") == 0) return *list;
    }
    return NULL;
}

static struct ggml_context *context(void) {
    struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * 8 + ggml_graph_overhead(), .no_alloc = true};
    return ggml_init(params);
}

static enum ggml_type type_of(enum ggml_format format) {
    switch (format) {
    case GGML_FORMAT_Q8_0: return GGML_TYPE_Q8_0;
    case GGML_FORMAT_Q4_0: return GGML_TYPE_Q4_0;
    case GGML_FORMAT_F16: return GGML_TYPE_F16;
    default: return GGML_TYPE_F32;
    }
}

static bool build(struct ggml_product *p, enum ggml_type type, ggml_backend_buffer_type_t where,
                  int64_t m, int64_t n, int64_t k, int threads) {
    p->weights = context();
    p->rest = context();
    if (p->weights == NULL || p->rest == NULL) return false;
    p->w = ggml_new_tensor_2d(p->weights, type, k, n);
    p->x = ggml_new_tensor_2d(p->rest, GGML_TYPE_F32, k, m);
    p->weight_buffer = ggml_backend_alloc_ctx_tensors_from_buft(p->weights, where);
    p->out = ggml_mul_mat(p->rest, p->w, p->x);
    p->graph = ggml_new_graph(p->rest);
    p->rest_buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(p->rest, ggml_backend_cpu_buffer_type());
    if (p->weight_buffer == NULL || p->rest_buffer == NULL) return false;
    ggml_build_forward_expand(p->graph, p->out);
    struct ggml_threadpool_params params = ggml_threadpool_params_default(threads);
    p->pool = threads > 1 ? ggml_threadpool_new(&params) : NULL;
    p->plan = ggml_graph_plan(p->graph, threads, p->pool);
    p->work = malloc(p->plan.work_size + 64);
    p->plan.work_data = p->work;
    return p->work != NULL;
}

struct ggml_product *ggml_product_open(enum ggml_format format, bool repack, int64_t m, int64_t n,
                                       int64_t k, const float *x, const void *w, int threads) {
    ggml_cpu_init();
    ggml_backend_buffer_type_t where = repack ? repacked() : ggml_backend_cpu_buffer_type();
    struct ggml_product *p = where != NULL ? calloc(1, sizeof *p) : NULL;
    if (p == NULL) return NULL;
    if (!build(p, type_of(format), where, m, n, k, threads)) {
        ggml_product_close(p);
        return NULL;
    }
    /* A repacking buffer gives the tensors that it has a layout for a method of their own. */
    if (repack && p->w->extra == NULL) {
        ggml_product_close(p);
        return NULL;
    }
    ggml_backend_tensor_set(p->w, w, 0, ggml_nbytes(p->w));
    ggml_backend_tensor_set(p->x, x, 0, ggml_nbytes(p->x));
    return p;
}

bool ggml_product_run(void *product) {
    struct ggml_product *p = product;
    return ggml_graph_compute(p->graph, &p->plan) == GGML_STATUS_SUCCESS;
}

const float *ggml_product_out(const struct ggml_product *p) {
    return p->out->data;
}

void ggml_product_close(struct ggml_product *p) {
    if (p == NULL) return;
    if (p->pool != NULL) ggml_threadpool_free(p->pool);
    ggml_backend_buffer_free(p->weight_buffer);
    ggml_backend_buffer_free(p->rest_buffer);
    ggml_free(p->weights);
    ggml_free(p->rest);
    free(p->work);
    free(p);
}
