/* SPDX-License-Identifier: MIT
 * Executions: sizes from the inputs' shapes, then runs.
 *
 * Sizes are bound when shapes change; the graph's pool of expressions is shared by all executions
 * of a program and changes while they are bound, so that is done under the program's lock. A run
 * with the same shapes takes no lock here and allocates nothing.
 *
 * `return y in c`: kernels may still read c after y's first element is written, so a run whose y is
 * c's memory computes into memory of its own and copies at the end.
 */
#include "driver/exec.h"

#include "driver/cuda.h"
#include "ops/block.h"

#include <string.h>

/* ---- dtypes ---------------------------------------------------------------------------------- */

static const struct {
    enum dtype dtype;
    uint8_t code, bits;
} dl_types[] = {
    {DT_F64, kDLFloat, 64},
    {DT_F32, kDLFloat, 32},
    {DT_F16, kDLFloat, 16},
    {DT_BF16, kDLBfloat, 16},
    {DT_F8E4M3FN, PROEM_DL_F8E4M3FN, 8},
    {DT_F8E5M2, PROEM_DL_F8E5M2, 8},
    {DT_F4E2M1FN, PROEM_DL_F4E2M1FN, 4},
    {DT_E8M0, PROEM_DL_E8M0, 8},
    {DT_I64, kDLInt, 64},
    {DT_I32, kDLInt, 32},
    {DT_I16, kDLInt, 16},
    {DT_I8, kDLInt, 8},
    {DT_I4, kDLInt, 4},
    {DT_I2, kDLInt, 2},
    {DT_U64, kDLUInt, 64},
    {DT_U32, kDLUInt, 32},
    {DT_U16, kDLUInt, 16},
    {DT_U8, kDLUInt, 8},
    {DT_U4, kDLUInt, 4},
    {DT_U2, kDLUInt, 2},
    {DT_BOOL, PROEM_DL_BOOL, 8},
};

DLDataType dtype_to_dl(enum dtype d) {
    for (size_t i = 0; i < COUNT_OF(dl_types); i++) {
        if (dl_types[i].dtype == d) return (DLDataType){dl_types[i].code, dl_types[i].bits, 1};
    }
    return (DLDataType){0, 0, 0};
}

enum dtype dtype_from_dl(DLDataType t) {
    for (size_t i = 0; i < COUNT_OF(dl_types) && t.lanes == 1; i++) {
        if (dl_types[i].code == t.code && dl_types[i].bits == t.bits) return dl_types[i].dtype;
    }
    return DT_NONE;
}

enum dtype dtype_stored(enum dtype d) {
    return dtype_is_block(d) ? DT_U8 : d;
}

int64_t stored_dim(enum dtype d, int64_t n) {
    return dtype_is_block(d) ? dtype_bytes(d, n) : n;
}

/* ---- life ------------------------------------------------------------------------------------ */

static enum proem_status make_tables(struct proem_execution *x, struct err *e) {
    struct proem_program *p = x->p;
    size_t in = p->graph->params.n, out = p->graph->outputs.n;
    size_t buffers = (size_t)p->n_buffers;
    if (buffers < in + out) buffers = in + out;
    x->n_in = in;
    x->n_out = out;
    x->set = dims_binding_new(&x->arena, p->graph);
    x->sizes = dims_binding_new(&x->arena, p->graph);
    x->in_rank = ARENA_NEW(&x->arena, int, in);
    x->in_shape = (void *)arena_alloc(&x->arena, in, sizeof *x->in_shape);
    x->in_shapes = ARENA_NEW(&x->arena, const int64_t *, in);
    x->out_shape = (void *)arena_alloc(&x->arena, out, sizeof *x->out_shape);
    x->bytes = ARENA_NEW(&x->arena, int64_t, buffers);
    x->views = ARENA_NEW(&x->arena, struct rt_view, buffers);
    x->stages = ARENA_NEW(&x->arena, struct exec_stage, out);
    x->copies = ARENA_NEW(&x->arena, struct exec_stage, in);
    x->on_device = ARENA_NEW(&x->arena, bool, in + out);
    if (!arena_ok(&x->arena)) return err_nomem(e);
    for (size_t i = 0; i < in; i++)
        x->in_shapes[i] = x->in_shape[i];
    if (p->opt.device == PROEM_DEVICE_REF) return PROEM_OK;
    if (p->opt.device == PROEM_DEVICE_CUDA) return cuda_exec_new(x, e);
    return rt_exec_new(p->rt, p->pool, &x->rt, e);
}

enum proem_status proem_execution_create(proem_program *p, proem_execution **out) {
    if (p == NULL || out == NULL) return PROEM_INVALID;
    *out = NULL;
    proem_execution *x = mem_alloc(&p->c->alloc, 1, sizeof *x);
    struct err e = {0};
    if (x != NULL) {
        *x = (proem_execution){.p = p};
        arena_init(&x->arena, &p->c->alloc);
    }
    pthread_mutex_lock(&p->lock);
    if (x == NULL) {
        err_nomem(&e);
    } else if (make_tables(x, &e) != PROEM_OK) {
        proem_execution_destroy(x);
    } else {
        *out = x;
    }
    context_report(p->c, &e);
    pthread_mutex_unlock(&p->lock);
    return e.status;
}

void proem_execution_destroy(proem_execution *x) {
    if (x == NULL) return;
    struct allocator alloc = x->p->c->alloc;
    rt_exec_free(x->rt);
    rt_cuda_exec_free(x->cuda);
    for (size_t i = 0; x->stages != NULL && i < x->n_out; i++)
        mem_free(&alloc, x->stages[i].data, x->stages[i].size, 1);
    for (size_t i = 0; x->copies != NULL && i < x->n_in; i++)
        mem_free(&alloc, x->copies[i].data, x->copies[i].size, 1);
    arena_free(&x->arena);
    mem_free(&alloc, x, 1, sizeof *x);
}

const char *proem_execution_error(const proem_execution *x) {
    return x != NULL ? x->err.text : "";
}

enum proem_status proem_execution_set_dim(proem_execution *x, const char *name, int64_t v) {
    if (x == NULL) return PROEM_INVALID;
    err_clear(&x->err);
    if (name == NULL) return err_set(&x->err, PROEM_INVALID, "a symbol needs a name");
    x->prepared = false;
    pthread_mutex_lock(&x->p->lock);
    int i = 0;
    while (i < x->set.n &&
           strcmp(sx_name(x->p->graph->sx, sx_symbol_at(x->p->graph->sx, i)), name) != 0)
        i++;
    if (i < x->set.n) x->set.value[i] = -1; /* a new value replaces the old one */
    enum proem_status s = dims_bind_name(x->p->graph, &x->set, name, v, &x->err);
    pthread_mutex_unlock(&x->p->lock);
    return s;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static const struct value *param(const struct proem_execution *x, size_t i) {
    return graph_value(x->p->graph, x->p->graph->params.at[i].value);
}

/* Where is the tensor's memory, and can the program use it? */
static enum proem_status check_place(const struct proem_execution *x, const char *what,
                                     const char *name, const DLTensor *t, bool *on_device,
                                     struct err *e) {
    bool cuda = x->p->opt.device == PROEM_DEVICE_CUDA;
    *on_device = false;
    switch (t->device.device_type) {
    case kDLCPU: return PROEM_OK;
    case kDLCUDAHost:
        if (cuda) return PROEM_OK;
        break;
    case kDLCUDA:
    case kDLCUDAManaged:
        *on_device = true;
        if (cuda && (t->device.device_id == x->p->c->cuda_device ||
                     t->device.device_type == kDLCUDAManaged))
            return PROEM_OK;
        break;
    default: break;
    }
    if (cuda)
        return err_set(e, PROEM_INVALID, "%s '%s' is neither on CUDA device %d nor on the CPU",
                       what, name, x->p->c->cuda_device);
    return err_set(e, PROEM_INVALID, "%s '%s' is not on the CPU", what, name);
}

/* A tensor of the right dtype and rank, where it may be; its shape is looked at elsewhere. */
static enum proem_status check_tensor(const struct proem_execution *x, const char *what,
                                      const char *name, const struct value *v, const DLTensor *t,
                                      bool *on_device, struct err *e) {
    if (t == NULL) return err_set(e, PROEM_INVALID, "%s '%s' is missing", what, name);
    TRY(check_place(x, what, name, t, on_device, e));
    if (dtype_from_dl(t->dtype) != dtype_stored(v->dtype))
        return err_set(e, PROEM_INVALID,
                       "%s '%s' has DLPack's type (%d, %d bits, %d lanes); "
                       "expected %s",
                       what, name, t->dtype.code, t->dtype.bits, t->dtype.lanes,
                       dtype_name(dtype_stored(v->dtype)));
    if (t->ndim != v->rank)
        return err_set(e, PROEM_INVALID, "%s '%s' has %d dims; expected %d", what, name,
                       (int)t->ndim, v->rank);
    if (t->ndim > 0 && t->shape == NULL)
        return err_set(e, PROEM_INVALID, "%s '%s' has no shape", what, name);
    if (t->data != NULL && t->byte_offset > UINTPTR_MAX - (uintptr_t)t->data)
        return err_set(e, PROEM_INVALID, "%s '%s' has a byte_offset beyond all memory", what, name);
    return PROEM_OK;
}

static enum proem_status check_inputs(struct proem_execution *x, const DLTensor *const *in,
                                      size_t n_in) {
    if (n_in != x->n_in || (n_in > 0 && in == NULL))
        return err_set(&x->err, PROEM_INVALID, "%zu inputs are given; graph %s has %zu", n_in,
                       x->p->graph->name, x->n_in);
    for (size_t i = 0; i < n_in; i++)
        TRY(check_tensor(x, "input", param(x, i)->name, param(x, i), in[i], &x->on_device[i],
                         &x->err));
    return PROEM_OK;
}

/* The dims in elements of what is stored in blocks: a row is its bytes. */
static enum proem_status count_elements(struct proem_execution *x, size_t i) {
    const struct value *v = param(x, i);
    if (!dtype_is_block(v->dtype)) return PROEM_OK;
    const struct block_format *f = block_format(v->dtype);
    int64_t *last = &x->in_shape[i][v->rank - 1];
    if (*last < 0 || *last % f->bytes != 0 || *last / f->bytes > INT64_MAX / f->elements)
        return err_set(&x->err, PROEM_INVALID,
                       "input '%s': its rows have %lld bytes; expected a multiple of %d, blocks of "
                       "%s",
                       v->name, (long long)*last, f->bytes, f->name);
    *last = *last / f->bytes * f->elements;
    return PROEM_OK;
}

static bool same_shapes(const struct proem_execution *x, const DLTensor *const *in) {
    for (size_t i = 0; i < x->n_in; i++) {
        int last = x->in_rank[i] - 1;
        if (last < 0) continue; /* whose shape may be NULL */
        if (memcmp(x->in_shape[i], in[i]->shape, (size_t)last * sizeof(int64_t)) != 0) return false;
        if (stored_dim(param(x, i)->dtype, x->in_shape[i][last]) != in[i]->shape[last])
            return false;
    }
    return true;
}

static enum proem_status value_bytes(struct proem_execution *x, const struct graph *g, value_id v,
                                     int64_t *shape, int64_t *bytes) {
    const struct value *val = graph_value(g, v);
    int64_t count = 1;
    TRY(dims_shape(g, &x->sizes, v, shape, &x->err));
    for (int i = 0; i < val->rank; i++)
        count *= shape[i]; /* dims_shape has seen to it that this fits */
    *bytes = dtype_bytes(val->dtype, count);
    if (*bytes >= 0) return PROEM_OK;
    return err_set(&x->err, PROEM_INVALID, "%s: it has too many elements", val->name);
}

static enum proem_status bind(struct proem_execution *x) {
    struct proem_program *p = x->p;
    const struct graph *g = p->graph;
    int64_t shape[MAX_RANK];
    for (int i = 0; i < x->sizes.n; i++) {
        x->sizes.value[i] = x->set.value[i];
        x->sizes.from[i] = 0;
    }
    TRY(dims_bind_params(g, &x->sizes, x->in_rank, x->in_shapes, &x->err));
    TRY(dims_check(g, &x->sizes, &x->err));
    for (size_t i = 0; i < x->n_out; i++) {
        int64_t *bytes = &x->bytes[x->n_in + i];
        TRY(value_bytes(x, g, g->outputs.at[i].value, x->out_shape[i], bytes));
    }
    for (int i = 0; i < p->n_buffers; i++)
        TRY(value_bytes(x, p->low.graph, p->value_of[i], shape, &x->bytes[i]));
    return x->cuda != NULL ? cuda_exec_bind(x) : PROEM_OK;
}

static enum proem_status prepare(struct proem_execution *x, const DLTensor *const *in,
                                 size_t n_in) {
    TRY(check_inputs(x, in, n_in));
    if (x->prepared && same_shapes(x, in)) return PROEM_OK;
    x->prepared = false;
    for (size_t i = 0; i < n_in; i++) {
        x->in_rank[i] = in[i]->ndim;
        if (in[i]->ndim > 0)
            memcpy(x->in_shape[i], in[i]->shape, (size_t)in[i]->ndim * sizeof(int64_t));
        TRY(count_elements(x, i));
    }
    pthread_mutex_lock(&x->p->lock);
    enum proem_status s = bind(x);
    pthread_mutex_unlock(&x->p->lock);
    if (s == PROEM_OK && x->rt != NULL)
        s = rt_exec_prepare(x->rt, x->sizes.value, x->bytes, &x->err);
    if (s == PROEM_OK && x->cuda != NULL) s = cuda_exec_prepare(x);
    x->prepared = s == PROEM_OK;
    return s;
}

enum proem_status proem_execution_prepare(proem_execution *x, const DLTensor *const *in,
                                          size_t n_in) {
    if (x == NULL) return PROEM_INVALID;
    err_clear(&x->err);
    return prepare(x, in, n_in);
}

enum proem_status proem_execution_output_shape(proem_execution *x, size_t i, int *rank,
                                               const int64_t **dims, DLDataType *dtype) {
    if (x == NULL) return PROEM_INVALID;
    err_clear(&x->err);
    if (!x->prepared)
        return err_set(&x->err, PROEM_INVALID,
                       "shapes of outputs are known after "
                       "proem_execution_prepare()");
    if (i >= x->n_out)
        return err_set(&x->err, PROEM_INVALID, "output %zu: graph %s has %zu outputs", i,
                       x->p->graph->name, x->n_out);
    const struct value *v = graph_value(x->p->graph, x->p->graph->outputs.at[i].value);
    if (rank != NULL) *rank = v->rank;
    if (dims != NULL) *dims = x->out_shape[i];
    if (dtype != NULL) *dtype = dtype_to_dl(v->dtype);
    return PROEM_OK;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static struct rt_view view_of(const DLTensor *t, enum dtype d) {
    char *data = t->data;
    if (data != NULL) data += t->byte_offset;
    return (struct rt_view){.data = data,
                            .bits = dtype_bits(d),
                            .rank = t->ndim,
                            .shape = t->shape,
                            .strides = t->strides};
}

static enum proem_status check_output(struct proem_execution *x, size_t i, const DLTensor *t) {
    const struct output *o = &x->p->graph->outputs.at[i];
    const struct value *v = graph_value(x->p->graph, o->value);
    TRY(check_tensor(x, "output", o->name, v, t, &x->on_device[x->n_in + i], &x->err));
    for (int k = 0; k < v->rank; k++) {
        if (t->shape[k] != x->out_shape[i][k])
            return err_set(&x->err, PROEM_INVALID, "output '%s': dim %d is %lld; expected %lld",
                           o->name, k, (long long)t->shape[k], (long long)x->out_shape[i][k]);
    }
    struct rt_view view = view_of(t, v->dtype);
    if (!rt_view_is_compact(&view))
        return err_set(&x->err, PROEM_INVALID, "output '%s' is not compact", o->name);
    return PROEM_OK;
}

static enum proem_status bind_views(struct proem_execution *x, const DLTensor *const *in,
                                    DLTensor *const *out, size_t n_out) {
    if (n_out != x->n_out || (n_out > 0 && out == NULL))
        return err_set(&x->err, PROEM_INVALID, "%zu outputs are given; graph %s has %zu", n_out,
                       x->p->graph->name, x->n_out);
    for (size_t i = 0; i < x->n_in; i++)
        x->views[i] = view_of(in[i], param(x, i)->dtype);
    for (size_t i = 0; i < n_out; i++) {
        TRY(check_output(x, i, out[i]));
        const struct value *v = graph_value(x->p->graph, x->p->graph->outputs.at[i].value);
        x->views[x->n_in + i] = view_of(out[i], v->dtype);
    }
    return PROEM_OK;
}

/* Do the bytes that two views touch meet? Those between a strided view's elements count. */
static bool meet(const struct rt_view *a, const struct rt_view *b) {
    int64_t alo, ahi, blo, bhi;
    if (!rt_view_extent(a, &alo, &ahi) || !rt_view_extent(b, &blo, &bhi)) return true;
    if (alo == ahi || blo == bhi) return false;
    uintptr_t pa = (uintptr_t)a->data, pb = (uintptr_t)b->data;
    return pa + (uintptr_t)alo < pb + (uintptr_t)bhi && pb + (uintptr_t)blo < pa + (uintptr_t)ahi;
}

/* Which input's memory may output i be? x->n_in: none. */
static size_t alias_of(const struct proem_execution *x, size_t i) {
    value_id v = x->p->graph->outputs.at[i].in_param;
    size_t k = 0;
    while (k < x->n_in && x->p->graph->params.at[k].value != v)
        k++;
    return k;
}

bool exec_is_aliased(const struct proem_execution *x, size_t i) {
    size_t k = alias_of(x, i);
    if (k == x->n_in) return false;
    const struct rt_view *out = &x->views[x->n_in + i], *in = &x->views[k];
    return out->data == in->data && rt_view_is_compact(in);
}

enum proem_status exec_check_overlap(struct proem_execution *x, size_t i) {
    size_t alias = alias_of(x, i), self = x->n_in + i;
    for (size_t k = 0; k < x->n_in + x->n_out; k++) {
        bool allowed = k == self || (k == alias && exec_is_aliased(x, i));
        if (allowed || !meet(&x->views[self], &x->views[k])) continue;
        bool input = k < x->n_in;
        return err_set(&x->err, PROEM_INVALID,
                       "output '%s' overlaps %s '%s' in memory; give it memory of its own%s",
                       x->p->graph->outputs.at[i].name, input ? "input" : "output",
                       input ? param(x, k)->name : x->p->graph->outputs.at[k - x->n_in].name,
                       input ? ", or write `return .. in` in the graph" : "");
    }
    return PROEM_OK;
}

void *exec_stage_memory(struct proem_execution *x, struct exec_stage *s, int64_t bytes) {
    const struct allocator *alloc = &x->p->c->alloc;
    if (s->data == NULL || s->size < (size_t)bytes) {
        mem_free(alloc, s->data, s->size, 1);
        s->data = mem_alloc(alloc, (size_t)bytes, 1);
        s->size = s->data != NULL ? (size_t)bytes : 0;
    }
    if (s->data == NULL) err_nomem(&x->err);
    return s->data;
}

/* Outputs that are an input's memory get memory of their own for the run, unless their kernel reads
 * each element before it replaces it. */
static enum proem_status stage_aliased(struct proem_execution *x) {
    for (size_t i = 0; i < x->n_out; i++) {
        x->stages[i].target = NULL;
        if (!exec_is_aliased(x, i) || x->bytes[x->n_in + i] == 0 || x->p->in_place[i]) continue;
        TRY(exec_check_overlap(x, i));
        struct rt_view *v = &x->views[x->n_in + i];
        void *memory = exec_stage_memory(x, &x->stages[i], x->bytes[x->n_in + i]);
        if (memory == NULL) return x->err.status;
        x->stages[i].target = v->data;
        v->data = memory;
    }
    return PROEM_OK;
}

static enum proem_status run_kernels(struct proem_execution *x) {
    TRY(stage_aliased(x));
    struct rt_fault fault;
    struct err e = {0};
    enum proem_status s = rt_exec_run(x->rt, x->views, &fault, &e);
    if (s == PROEM_DATA) {
        pthread_mutex_lock(&x->p->lock);
        s = fault_message(x->p, &x->sizes, &fault, &x->err);
        pthread_mutex_unlock(&x->p->lock);
    } else if (s != PROEM_OK) {
        x->err = e;
    }
    for (size_t i = 0; i < x->n_out && s == PROEM_OK; i++) {
        if (x->stages[i].target != NULL)
            memcpy(x->stages[i].target, x->stages[i].data, (size_t)x->bytes[x->n_in + i]);
    }
    return s;
}

enum proem_status proem_run(proem_execution *x, const DLTensor *const *in, size_t n_in,
                            DLTensor *const *out, size_t n_out) {
    if (x == NULL) return PROEM_INVALID;
    err_clear(&x->err);
    TRY(prepare(x, in, n_in));
    TRY(bind_views(x, in, out, n_out));
    if (x->cuda != NULL) return cuda_exec_run(x);
    return x->rt != NULL ? run_kernels(x) : exec_run_reference(x);
}

enum proem_status proem_execution_set_stream(proem_execution *x, void *stream) {
    if (x == NULL) return PROEM_INVALID;
    err_clear(&x->err);
    if (x->cuda == NULL && stream != NULL)
        return err_set(&x->err, PROEM_INVALID, "only programs for CUDA devices run on streams");
    x->stream = stream;
    return PROEM_OK;
}

enum proem_status proem_program_check(proem_execution *x) {
    if (x == NULL) return PROEM_INVALID;
    err_clear(&x->err);
    return x->cuda != NULL ? cuda_exec_check(x) : PROEM_OK;
}
