/* SPDX-License-Identifier: MIT
 * Runs by the reference interpreter: inputs as compact tensors, operator by operator, results
 * copied out. Needs no compiler. The interpreter reads the graph's pool of expressions, so runs of
 * one program take turns.
 */
#include "driver/exec.h"

#include <string.h>

static enum proem_status compact(struct proem_execution *x, size_t i, struct eval_input *out) {
    const struct rt_view *v = &x->views[i];
    *out = (struct eval_input){.rank = v->rank, .shape = x->in_shape[i], .data = v->data};
    if (v->data == NULL && x->bytes[i] > 0)
        return err_set(&x->err, PROEM_INVALID, "input '%s': its data pointer is null",
                       graph_value(x->p->graph, x->p->graph->params.at[i].value)->name);
    if (rt_view_is_compact(v) && v->data != NULL) return PROEM_OK;
    struct rt_view to = *v;
    to.strides = NULL;
    to.data = exec_stage_memory(x, &x->copies[i], x->bytes[i]);
    if (to.data == NULL) return x->err.status;
    out->data = to.data;
    return x->bytes[i] > 0 ? rt_view_copy(&to, v, &x->err) : PROEM_OK;
}

static enum proem_status input_bytes(struct proem_execution *x) {
    for (size_t i = 0; i < x->n_in; i++) {
        if (!rt_view_bytes(&x->views[i], &x->bytes[i]))
            return err_set(&x->err, PROEM_INVALID,
                           "input '%s': its shape or strides are out of range",
                           graph_value(x->p->graph, x->p->graph->params.at[i].value)->name);
    }
    return PROEM_OK;
}

enum proem_status exec_run_reference(struct proem_execution *x) {
    struct proem_program *p = x->p;
    static const enum eval_mode modes[] = {EVAL_BOUNDARY, EVAL_EAGER, EVAL_NATIVE};
    struct eval_options o = {.mode = modes[p->opt.prec],
                             .threads = p->c->threads > 0 ? p->c->threads : p->opt.target.cores};
    if (o.threads < 1) o.threads = 1;
    struct arena a;
    arena_init(&a, &p->c->alloc);
    struct eval_input *in = ARENA_NEW(&a, struct eval_input, x->n_in);
    enum proem_status s = in != NULL ? input_bytes(x) : err_nomem(&x->err);
    for (size_t i = 0; i < x->n_out && s == PROEM_OK; i++) {
        s = exec_check_overlap(x, i);
        if (s == PROEM_OK && x->views[x->n_in + i].data == NULL && x->bytes[x->n_in + i] > 0)
            s = err_set(&x->err, PROEM_INVALID, "output '%s': its data pointer is null",
                        p->graph->outputs.at[i].name);
    }
    for (size_t i = 0; i < x->n_in && s == PROEM_OK; i++)
        s = compact(x, i, &in[i]);
    struct eval_results r = {0};
    if (s == PROEM_OK) {
        pthread_mutex_lock(&p->lock);
        s = eval_graph(p->graph, &x->sizes, in, &o, &p->c->alloc, &r, &x->err);
        pthread_mutex_unlock(&p->lock);
        for (size_t i = 0; i < x->n_out && s == PROEM_OK; i++) {
            if (x->bytes[x->n_in + i] > 0)
                memcpy(x->views[x->n_in + i].data, r.at[i].data, (size_t)x->bytes[x->n_in + i]);
        }
        if (s == PROEM_OK) eval_results_free(&r);
    }
    arena_free(&a);
    return s;
}
