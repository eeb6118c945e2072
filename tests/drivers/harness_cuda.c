/* SPDX-License-Identifier: MIT
 * Variants on a GPU: generated, compiled and linked by the driver's own passes, from the plan that
 * the harness made, and run with tensors in device memory that have the same guards around them as
 * on the host.
 */
#include "harness_cuda.h"

#include <stdlib.h>
#include <string.h>

#include "driver/cuda.h"

enum proem_status rig_open_cuda(struct rig *r, const struct rig_options *o, struct err *e) {
    struct proem_context_options options;
    proem_context_options_init(&options);
    options.cache_dir = o->cache_dir != NULL ? o->cache_dir : getenv("PROEM_TEST_CACHE");
    options.threads = r->threads;
    TRY(context_new(&options, NULL, &r->cuda, e));
    enum proem_status s = cuda_target(r->cuda, o->arch, true, &r->device, e);
    if (s == PROEM_OK) return s;
    proem_context_destroy(r->cuda);
    r->cuda = NULL;
    return s;
}

/* ---- compiling ------------------------------------------------------------------------------- */

static enum proem_status generate(struct rig *r, struct variant *v, struct err *e) {
    struct program_options o = {.device = PROEM_DEVICE_CUDA,
                                .prec = v->prec,
                                .policy = v->policy,
                                .target = r->device,
                                .units = 1,
                                .poison = true};
    TRY(program_new(r->cuda, &o, &v->cuda, e));
    v->cuda->graph = v->s->g;
    v->cuda->dims = v->s->dims;
    v->cuda->low = v->s->low;
    v->cuda->plan = v->plan;
    return program_run(v->cuda, PASS_GEN, PASS_GEN, e);
}

/* All units at once: what is in memory then need not be compiled by the passes. A unit that does not
 * compile is some variant's own failure, found there. */
static int compile_ahead(struct rig *r, struct variant **v, int n, struct rt_cubin ***out) {
    int units = 0;
    for (int i = 0; i < n; i++)
        units += v[i]->status == PROEM_OK ? v[i]->cuda->n_units : 0;
    struct rt_source *s = calloc((size_t)units + 1, sizeof *s);
    *out = calloc((size_t)units + 1, sizeof **out);
    int k = 0;
    for (int i = 0; i < n && s != NULL; i++) {
        for (int u = 0; v[i]->status == PROEM_OK && u < v[i]->cuda->n_units; u++) {
            const struct str *text = &v[i]->cuda->units[u].text;
            s[k++] = (struct rt_source){.name = pass_part_name(v[i]->cuda, PASS_GEN, u),
                                        .text = str_text(text),
                                        .n = text->n};
        }
    }
    struct rt_cuda *cuda;
    struct err ignored = {0};
    bool ok = s != NULL && *out != NULL && context_cuda(r->cuda, &cuda, &ignored) == PROEM_OK &&
              rt_cuda_compile(cuda, &r->device, k, s, *out, &ignored) == PROEM_OK;
    free(s);
    return ok ? k : 0;
}

void variants_compile_cuda(struct rig *r, struct variant **v, int n) {
    for (int i = 0; i < n; i++) {
        if (v[i]->status == PROEM_OK) v[i]->status = generate(r, v[i], &v[i]->err);
    }
    struct rt_cubin **ahead = NULL;
    int units = compile_ahead(r, v, n, &ahead);
    for (int i = 0; i < n; i++) {
        if (v[i]->status == PROEM_OK)
            v[i]->status = program_run(v[i]->cuda, PASS_COMPILE, PASS_LINK, &v[i]->err);
    }
    for (int i = 0; i < units; i++)
        rt_cubin_unref(ahead[i]);
    free(ahead);
}

/* ---- runs ------------------------------------------------------------------------------------ */

struct device_tensor {
    DLTensor tensor;
    void *block;
};

static enum proem_status upload(struct rt_cuda *cuda, const struct guarded *t,
                                struct device_tensor *out, struct err *e) {
    TRY(rt_cuda_alloc(cuda, (int64_t)t->block_bytes, &out->block, e));
    out->tensor = (DLTensor){.data = (char *)out->block + (t->data - t->block),
                             .device = {kDLCUDA, 0},
                             .ndim = t->rank,
                             .dtype = dtype_to_dl(t->dtype),
                             .shape = (int64_t *)(uintptr_t)t->shape};
    return rt_cuda_upload(cuda, out->block, t->block, (int64_t)t->block_bytes, e);
}

/* An input is as it was, its guards included. */
static enum proem_status unchanged(struct rt_cuda *cuda, const struct guarded *t,
                                   const struct device_tensor *d, int i, struct err *e) {
    unsigned char *now = malloc(t->block_bytes);
    enum proem_status s = now == NULL
                              ? err_nomem(e)
                              : rt_cuda_download(cuda, now, d->block, (int64_t)t->block_bytes, e);
    if (s == PROEM_OK && memcmp(now, t->block, t->block_bytes) != 0)
        s = err_set(e, PROEM_INTERNAL, "input %d was written to", i);
    free(now);
    return s;
}

static enum proem_status run(struct rt_cuda *cuda, struct variant *v, proem_execution *x,
                             struct device_tensor *t, struct err *e) {
    const struct graph *g = v->s->g;
    size_t n_in = g->params.n, n_out = g->outputs.n;
    const DLTensor **in = calloc(n_in + 1, sizeof *in);
    DLTensor **out = calloc(n_out + 1, sizeof *out);
    enum proem_status s = in != NULL && out != NULL ? PROEM_OK : err_nomem(e);
    for (size_t i = 0; i < n_in && s == PROEM_OK; i++) {
        s = upload(cuda, &v->s->in[i], &t[i], e);
        in[i] = &t[i].tensor;
    }
    for (size_t i = 0; i < n_out && s == PROEM_OK; i++) {
        s = upload(cuda, &v->out[i], &t[n_in + i], e);
        out[i] = &t[n_in + i].tensor;
    }
    for (int i = 0; i < v->s->dims.n && s == PROEM_OK; i++) {
        if (v->s->dims.value[i] >= 0)
            s = proem_execution_set_dim(x, sx_name(g->sx, sx_symbol_at(g->sx, i)),
                                        v->s->dims.value[i]);
    }
    if (s == PROEM_OK) s = proem_run(x, in, n_in, out, n_out);
    if (s == PROEM_OK) s = proem_program_check(x);
    if (s != PROEM_OK && e->status == PROEM_OK) err_set(e, s, "%s", proem_execution_error(x));
    for (size_t i = 0; i < n_out && s == PROEM_OK; i++)
        s = rt_cuda_download(cuda, v->out[i].block, t[n_in + i].block,
                             (int64_t)v->out[i].block_bytes, e);
    for (size_t i = 0; i < n_in && s == PROEM_OK; i++)
        s = unchanged(cuda, &v->s->in[i], &t[i], (int)i, e);
    free(in);
    free(out);
    return s;
}

enum proem_status variant_run_cuda(struct rig *r, struct variant *v, struct err *e) {
    size_t n = v->s->g->params.n + v->s->g->outputs.n;
    struct rt_cuda *cuda;
    proem_execution *x = NULL;
    TRY(context_cuda(r->cuda, &cuda, e));
    struct device_tensor *t = calloc(n + 1, sizeof *t);
    enum proem_status s = t != NULL ? proem_execution_create(v->cuda, &x) : err_nomem(e);
    if (t != NULL && s != PROEM_OK) err_set(e, s, "%s", proem_error_text(r->cuda, NULL, NULL));
    if (s == PROEM_OK) s = run(cuda, v, x, t, e);
    proem_execution_destroy(x);
    for (size_t i = 0; t != NULL && i < n; i++)
        rt_cuda_release(cuda, t[i].block);
    free(t);
    return s;
}
