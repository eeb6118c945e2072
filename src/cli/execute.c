/* SPDX-License-Identifier: MIT
 * A program with its inputs and room for its outputs, ready to run: what run and bench share.
 */
#include "cli/cli.h"

#include <string.h>
#include <time.h>

double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void describe(const struct array *a, const struct value *v, DLTensor *out) {
    *out = (DLTensor){.data = a->data,
                      .device = {kDLCPU, 0},
                      .ndim = v->rank,
                      .dtype = dtype_to_dl(dtype_stored(v->dtype))};
}

static enum proem_status run_error(const struct bound_run *r, enum proem_status status,
                                   struct err *e) {
    if (status == PROEM_OK) return status;
    return err_set(e, status, "%s", proem_execution_error(r->x));
}

static enum proem_status make_outputs(struct bound_run *r, struct session *s, struct err *e) {
    const struct graph *g = r->p->graph;
    for (size_t i = 0; i < r->n_out; i++) {
        const struct value *v = graph_value(g, g->outputs.at[i].value);
        struct array_type type = {.dtype = v->dtype, .rank = v->rank};
        const int64_t *dims = NULL;
        enum proem_status status = proem_execution_output_shape(r->x, i, NULL, &dims, NULL);
        TRY(run_error(r, status, e));
        memcpy(type.shape, dims, (size_t)v->rank * sizeof *dims);
        TRY(array_new(&allocator_default, &type, g->outputs.at[i].name, &r->out[i], e));
        describe(&r->out[i], v, &r->out_tensor[i]);
        int64_t *shape = ARENA_NEW(&s->arena, int64_t, MAX_RANK);
        if (shape == NULL) return err_nomem(e);
        memcpy(shape, type.shape, sizeof type.shape);
        r->out_tensor[i].shape = shape;
        r->out_ptr[i] = &r->out_tensor[i];
    }
    return PROEM_OK;
}

enum proem_status bound_run_open(struct session *s, proem_program *p, struct bound_run *r,
                                 struct err *e) {
    const struct graph *g = p->graph;
    *r = (struct bound_run){.p = p, .n_in = g->params.n, .n_out = g->outputs.n};
    r->in_tensor = ARENA_NEW(&s->arena, DLTensor, r->n_in);
    r->in_ptr = ARENA_NEW(&s->arena, const DLTensor *, r->n_in);
    r->out_tensor = ARENA_NEW(&s->arena, DLTensor, r->n_out);
    r->out_ptr = ARENA_NEW(&s->arena, DLTensor *, r->n_out);
    r->out = ARENA_NEW(&s->arena, struct array, r->n_out);
    if (!arena_ok(&s->arena)) return err_nomem(e);
    if (proem_execution_create(p, &r->x) != PROEM_OK)
        return err_set(e, PROEM_NOMEM, "%s", proem_error_text(p->c, NULL, NULL));
    for (int i = 0; i < p->dims.n; i++) {
        if (p->dims.value[i] < 0) continue;
        const char *name = sx_name(g->sx, sx_symbol_at(g->sx, i));
        TRY(run_error(r, proem_execution_set_dim(r->x, name, p->dims.value[i]), e));
    }
    for (size_t i = 0; i < r->n_in; i++) {
        const struct value *v = graph_value(g, g->params.at[i].value);
        describe(&s->in[i].array, v, &r->in_tensor[i]);
        int64_t *shape = ARENA_NEW(&s->arena, int64_t, MAX_RANK);
        if (shape == NULL) return err_nomem(e);
        memcpy(shape, s->in[i].array.type.shape, MAX_RANK * sizeof *shape);
        if (v->rank > 0) shape[v->rank - 1] = stored_dim(v->dtype, shape[v->rank - 1]);
        r->in_tensor[i].shape = shape;
        r->in_ptr[i] = &r->in_tensor[i];
    }
    TRY(run_error(r, proem_execution_prepare(r->x, r->in_ptr, r->n_in), e));
    return make_outputs(r, s, e);
}

enum proem_status bound_run_once(struct bound_run *r, struct err *e) {
    return run_error(r, proem_run(r->x, r->in_ptr, r->n_in, r->out_ptr, r->n_out), e);
}

void bound_run_close(struct bound_run *r) {
    for (size_t i = 0; r->out != NULL && i < r->n_out; i++)
        array_free(&r->out[i]);
    proem_execution_destroy(r->x);
    *r = (struct bound_run){0};
}
