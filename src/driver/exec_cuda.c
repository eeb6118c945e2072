/* SPDX-License-Identifier: MIT
 * Executions on a GPU: launch sizes, scratch and tensor maps evaluated for a binding, and runs with
 * tensors on the device or on the host.
 */
#include "driver/cuda.h"
#include "driver/exec.h"

/* ---- life ------------------------------------------------------------------------------------ */

enum proem_status cuda_exec_new(struct proem_execution *x, struct err *e) {
    const struct rt_cuda_program *rt = x->p->cuda;
    struct arena *a = &x->arena;
    x->cuda_views = ARENA_NEW(a, struct rt_cuda_view, x->p->n_buffers);
    x->scratch = ARENA_NEW(a, int64_t, x->p->plan.kernels.n);
    x->blocks = ARENA_NEW(a, int64_t, rt_cuda_program_launches(rt));
    x->extents = ARENA_NEW(a, struct rt_cuda_extent, rt_cuda_program_maps(rt));
    if (!arena_ok(a)) return err_nomem(e);
    return rt_cuda_exec_new(x->p->cuda, &x->cuda, e);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

struct binding {
    const struct graph *g;
    const struct dims_binding *sizes;
    const char *kernel;
    struct err *err;
};

static enum proem_status value_of(const struct binding *b, const char *what, sx expression,
                                  int64_t *out) {
    if (expression == 0) {
        *out = 0;
        return PROEM_OK;
    }
    if (dims_value(b->g, b->sizes, expression, out) && *out >= 0) return PROEM_OK;
    return err_set(b->err, PROEM_INTERNAL, "kernel '%s': the %s cannot be computed", b->kernel,
                   what);
}

/* Elements narrower than a byte count as the bytes that hold them. */
static int64_t in_bytes(int64_t elements, int bits) {
    return bits < 8 ? elements / (8 / bits) : elements;
}

static enum proem_status bind_map(const struct binding *b, const struct gen_tensor_map *m,
                                  struct rt_cuda_extent *out) {
    int bits = dtype_bits(m->dtype);
    TRY(value_of(b, "offset of a tensor map", m->offset, &out->offset));
    out->offset = in_bytes(out->offset, bits);
    for (int i = 0; i < m->rank; i++) {
        TRY(value_of(b, "extent of a tensor map", m->dims[i], &out->dims[i]));
        TRY(value_of(b, "stride of a tensor map", m->strides[i], &out->strides[i]));
        if (i > 0) out->strides[i] = in_bytes(out->strides[i], bits);
    }
    out->dims[0] = in_bytes(out->dims[0] + (bits < 8 ? 8 / bits - 1 : 0), bits);
    return PROEM_OK;
}

enum proem_status cuda_bind_step(const struct graph *g, const struct dims_binding *sizes,
                                 const char *kernel, const struct gen_cuda *c, int64_t *scratch,
                                 int64_t *blocks, struct rt_cuda_extent *extents, struct err *e) {
    struct binding b = {g, sizes, kernel, e};
    int map = 0;
    TRY(value_of(&b, "size of its scratch", c->scratch, scratch));
    for (int j = 0; j < c->n_launches; j++) {
        const struct gen_launch *l = &c->launches[j];
        TRY(value_of(&b, "number of its blocks", l->blocks, &blocks[j]));
        for (int k = 0; k < l->n_maps; k++, map++)
            TRY(bind_map(&b, &l->maps[k], &extents[map]));
    }
    return PROEM_OK;
}

enum proem_status cuda_exec_bind(struct proem_execution *x) {
    struct proem_program *p = x->p;
    int launch = 0, map = 0;
    for (size_t i = 0; i < p->plan.kernels.n; i++) {
        const struct gen_cuda *c = p->steps[i].cuda;
        TRY(cuda_bind_step(p->low.graph, &x->sizes, p->steps[i].gen->name, c, &x->scratch[i],
                           &x->blocks[launch], &x->extents[map], &x->err));
        for (int j = 0; j < c->n_launches; j++)
            map += c->launches[j].n_maps;
        launch += c->n_launches;
    }
    return PROEM_OK;
}

enum proem_status cuda_exec_prepare(struct proem_execution *x) {
    struct rt_cuda_sizes s = {.sym = x->sizes.value,
                              .bytes = x->bytes,
                              .scratch = x->scratch,
                              .blocks = x->blocks,
                              .extent = x->extents};
    return rt_cuda_exec_prepare(x->cuda, &s, &x->err);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* A failed check in words. */
static enum proem_status explain_fault(struct proem_execution *x, const struct rt_fault *f) {
    pthread_mutex_lock(&x->p->lock);
    enum proem_status s = fault_message(x->p, &x->sizes, f, &x->err);
    pthread_mutex_unlock(&x->p->lock);
    return s;
}

enum proem_status cuda_exec_run(struct proem_execution *x) {
    for (size_t i = 0; i < x->n_out; i++)
        TRY(exec_check_overlap(x, i));
    for (size_t i = 0; i < x->n_in + x->n_out; i++) {
        bool is_output = i >= x->n_in;
        x->cuda_views[i] = (struct rt_cuda_view){
            .view = x->views[i],
            .on_device = x->on_device[i],
            .apart = is_output && !x->p->in_place[i - x->n_in] && exec_is_aliased(x, i - x->n_in)};
    }
    struct rt_fault fault;
    struct err e = {0};
    enum proem_status s = rt_cuda_exec_run(x->cuda, x->stream, x->cuda_views, &fault, &e);
    if (s == PROEM_DATA) return explain_fault(x, &fault);
    if (s != PROEM_OK) x->err = e;
    return s;
}

enum proem_status cuda_exec_check(struct proem_execution *x) {
    struct rt_fault fault;
    struct err e = {0};
    enum proem_status s = rt_cuda_exec_check(x->cuda, &fault, &e);
    if (s == PROEM_DATA) return explain_fault(x, &fault);
    if (s != PROEM_OK) x->err = e;
    return s;
}
