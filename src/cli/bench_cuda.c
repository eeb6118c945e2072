/* SPDX-License-Identifier: MIT
 * `proem bench --device cuda`: times of runs on the device, with tensors in its memory.
 *
 * The tensors exist several times, together well beyond the device's L2, and runs go round them, so
 * that each run finds its inputs in memory as a program's first use of them would.
 */
#include "cli/cli.h"

#include "driver/cuda.h"
#include "driver/exec.h"

#define BUDGET_MS  1000.0
#define L2_TIMES   4
#define MOST_SETS  128
#define MOST_BYTES ((int64_t)16 << 30)

struct sets {
    int n;
    struct rt_cuda_view **views;
    void ***memory; /* of each set, each tensor */
    size_t n_tensors;
};

static int64_t bytes_of(const struct proem_execution *x) {
    int64_t sum = 1; /* a graph without tensors is divided by as well */
    for (size_t i = 0; i < x->n_in + x->n_out; i++)
        sum += x->bytes[i] > 0 ? x->bytes[i] : 1;
    return sum;
}

static enum proem_status make_tensor(struct rt_cuda *cuda, const struct bound_run *r, size_t i,
                                     struct rt_cuda_view *view, void **memory, struct err *e) {
    const struct proem_execution *x = r->x;
    bool is_input = i < x->n_in;
    const DLTensor *t = is_input ? r->in_ptr[i] : r->out_ptr[i - x->n_in];
    TRY(rt_cuda_alloc(cuda, x->bytes[i], memory, e));
    if (is_input) TRY(rt_cuda_upload(cuda, *memory, t->data, x->bytes[i], e));
    *view = (struct rt_cuda_view){.on_device = true,
                                  .view = {.data = *memory,
                                           .bits = dtype_bits(dtype_from_dl(t->dtype)),
                                           .rank = t->ndim,
                                           .shape = t->shape}};
    return PROEM_OK;
}

static enum proem_status make_sets(struct session *s, struct rt_cuda *cuda,
                                   const struct bound_run *r, struct sets *out, struct err *e) {
    const struct proem_execution *x = r->x;
    int64_t bytes = bytes_of(x), want = s->p->opt.target.gpu.l2 * L2_TIMES / bytes + 1;
    if (want > MOST_SETS) want = MOST_SETS;
    if (want > MOST_BYTES / bytes) want = MOST_BYTES / bytes;
    if (want < 1) want = 1;
    out->n_tensors = x->n_in + x->n_out;
    out->views = ARENA_NEW(&s->arena, struct rt_cuda_view *, want);
    out->memory = ARENA_NEW(&s->arena, void **, want);
    if (out->views == NULL || out->memory == NULL) return err_nomem(e);
    for (; out->n < (int)want; out->n++) {
        int k = out->n;
        out->views[k] = ARENA_NEW(&s->arena, struct rt_cuda_view, r->p->n_buffers);
        out->memory[k] = ARENA_NEW(&s->arena, void *, out->n_tensors);
        if (out->views[k] == NULL || out->memory[k] == NULL) return err_nomem(e);
        for (size_t i = 0; i < out->n_tensors; i++) {
            enum proem_status status =
                make_tensor(cuda, r, i, &out->views[k][i], &out->memory[k][i], e);
            if (status == PROEM_OK) continue;
            out->n++; /* what it has is freed as well */
            return status;
        }
    }
    return PROEM_OK;
}

static void free_sets(struct rt_cuda *cuda, struct sets *s) {
    for (int k = 0; k < s->n; k++) {
        for (size_t i = 0; s->memory[k] != NULL && i < s->n_tensors; i++)
            rt_cuda_release(cuda, s->memory[k][i]);
    }
}

enum proem_status bench_cuda(struct session *s, struct bound_run *r, struct bench_series *out,
                             int n, struct err *e) {
    struct rt_cuda *cuda = NULL;
    struct rt_cuda_trial trials[2] = {{0}, {0}};
    struct sets sets[2] = {{0}, {0}};
    if (n > (int)COUNT_OF(sets)) n = COUNT_OF(sets);
    enum proem_status status = context_cuda(s->c, &cuda, e);
    for (int k = 0; k < n && status == PROEM_OK; k++) {
        status = bound_run_once(&r[k], e); /* with checks of the data */
        if (status == PROEM_OK) status = make_sets(s, cuda, &r[k], &sets[k], e);
        trials[k] = (struct rt_cuda_trial){
            .exec = r[k].x->cuda,
            .n_sets = sets[k].n,
            .sets = (const struct rt_cuda_view *const *)sets[k].views,
            .us = out[k].us,
            .cap = out[k].cap,
        };
    }
    if (status == PROEM_OK) status = rt_cuda_measure(cuda, trials, n, BUDGET_MS * n, e);
    for (int k = 0; k < n; k++) {
        out[k].n = trials[k].n;
        free_sets(cuda, &sets[k]);
    }
    return status;
}
