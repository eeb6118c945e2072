/* SPDX-License-Identifier: MIT
 * From a plan and its loaded modules to a program: buffers and launches as plain data.
 *
 * Every value that the plan stores has a buffer: parameters come from the caller, outputs go to the
 * caller's memory, the rest lies in the program's own (rt plans it by the launches that use it).
 * Buffers are numbered parameters first, then outputs, then the rest, each in the graph's order.
 */
#include "driver/cuda.h"

#include <string.h>

struct linker {
    struct proem_program *p;
    const struct graph *g; /* lowered */
    struct arena *a;
    struct rt_buffer *buffers;
    struct rt_step *steps;
    struct err *err;
};

/* ---- buffers --------------------------------------------------------------------------------- */

static void add_buffer(struct linker *l, value_id v, enum rt_place place, const char *name) {
    int i = l->p->n_buffers++;
    l->buffers[i] = (struct rt_buffer){.name = name,
                                       .place = place,
                                       .bits = dtype_bits(graph_value(l->g, v)->dtype),
                                       .may_alias = -1};
    l->p->value_of[i] = v;
    l->p->buffer_of[v] = i;
}

static enum proem_status make_buffers(struct linker *l) {
    struct proem_program *p = l->p;
    size_t n = l->g->values.n;
    l->buffers = ARENA_NEW(l->a, struct rt_buffer, n);
    p->value_of = ARENA_NEW(l->a, value_id, n);
    p->buffer_of = ARENA_NEW(l->a, int, n);
    if (l->buffers == NULL || p->value_of == NULL || p->buffer_of == NULL) return err_nomem(l->err);
    for (size_t v = 0; v < n; v++)
        p->buffer_of[v] = -1;
    for (size_t i = 0; i < l->g->params.n; i++) {
        const struct param *param = &l->g->params.at[i];
        add_buffer(l, param->value, param->is_const ? RT_CONST : RT_INPUT,
                   graph_value(l->g, param->value)->name);
    }
    for (size_t i = 0; i < l->g->outputs.n; i++) {
        const struct output *o = &l->g->outputs.at[i];
        if (p->buffer_of[o->value] >= 0 || !p->plan.stored[o->value])
            return err_set(l->err, PROEM_INTERNAL, "output '%s' is stored by no kernel", o->name);
        add_buffer(l, o->value, RT_OUTPUT, o->name);
    }
    for (value_id v = 1; v < n; v++) {
        if (p->plan.stored[v] && p->buffer_of[v] < 0)
            add_buffer(l, v, RT_TEMP, graph_value(l->g, v)->name);
    }
    return PROEM_OK;
}

/* ---- operands that are packed once ----------------------------------------------------------- */

static enum proem_status make_operands(struct linker *l, const struct gen_kernel *gk,
                                       struct rt_step *step) {
    int n = step->kernel->operands;
    if (n == 0 || n != gk->n_operands) return PROEM_OK;
    struct rt_operand *o = ARENA_NEW(l->a, struct rt_operand, n);
    if (o == NULL) return err_nomem(l->err);
    for (int i = 0; i < n; i++) {
        const struct gen_operand *from = &gk->operands[i];
        int *at = ARENA_NEW(l->a, int, from->n);
        if (at == NULL) return err_nomem(l->err);
        for (int j = 0; j < from->n; j++)
            at[j] = l->p->buffer_of[from->constants[j]];
        o[i] = (struct rt_operand){from->n, at};
    }
    step->operands = o;
    return PROEM_OK;
}

/* ---- launches -------------------------------------------------------------------------------- */

static enum proem_status make_step(struct linker *l, const struct gen_kernel *gk,
                                   const struct pk_kernel *kernel) {
    struct proem_program *p = l->p;
    int id = gk->kernel->id;
    int *args = ARENA_NEW(l->a, int, gk->n_args);
    if (args == NULL) return err_nomem(l->err);
    for (int i = 0; i < gk->n_args; i++) {
        args[i] = p->buffer_of[gk->args[i]];
        if (args[i] < 0)
            return err_set(l->err, PROEM_INTERNAL, "kernel '%s' reads '%s', which nobody stores",
                           gk->name, graph_value(l->g, gk->args[i])->name);
    }
    p->steps[id] = (struct program_step){.gen = gk, .kernel = kernel};
    l->steps[id] = (struct rt_step){.kernel = kernel, .n_args = gk->n_args, .args = args};
    return make_operands(l, gk, &l->steps[id]);
}

static enum proem_status make_steps(struct linker *l) {
    struct proem_program *p = l->p;
    size_t n = p->plan.kernels.n, made = 0;
    p->steps = ARENA_NEW(l->a, struct program_step, n);
    l->steps = ARENA_NEW(l->a, struct rt_step, n);
    if (p->steps == NULL || l->steps == NULL) return err_nomem(l->err);
    for (int u = 0; u < p->n_units; u++) {
        const struct pk_unit *unit = rt_module_unit(p->modules[u]);
        if (unit->n_kernels != p->units[u].n_kernels)
            return err_set(l->err, PROEM_INTERNAL, "a unit has %d kernels where %d are expected",
                           unit->n_kernels, p->units[u].n_kernels);
        for (int i = 0; i < unit->n_kernels; i++, made++)
            TRY(make_step(l, &p->units[u].kernels[i], unit->kernels[i]));
    }
    if (made == n) return PROEM_OK;
    return err_set(l->err, PROEM_INTERNAL, "%zu of %zu kernels were generated", made, n);
}

/* Outputs that may be written where their parameter lies. */
static enum proem_status make_aliases(struct linker *l) {
    struct proem_program *p = l->p;
    p->in_place = ARENA_NEW(l->a, bool, l->g->outputs.n);
    if (p->in_place == NULL) return err_nomem(l->err);
    for (size_t i = 0; i < l->g->outputs.n; i++) {
        const struct output *o = &l->g->outputs.at[i];
        p->in_place[i] = o->in_param != 0 && program_in_place(p, o->value, o->in_param);
        if (p->in_place[i])
            l->buffers[p->buffer_of[o->value]].may_alias = p->buffer_of[o->in_param];
    }
    return PROEM_OK;
}

enum proem_status program_link(struct proem_program *p, struct err *e) {
    struct linker l = {.p = p, .g = p->low.graph, .a = &p->arena, .err = e};
    TRY(make_buffers(&l));
    if (p->opt.target.kind == DEVICE_CUDA) {
        TRY(cuda_link(p, l.buffers, e));
        return make_aliases(&l);
    }
    TRY(context_pool(p->c, &p->pool, e));
    TRY(make_steps(&l));
    TRY(make_aliases(&l));
    struct rt_program_desc d = {.n_buffers = p->n_buffers,
                                .n_steps = (int)p->plan.kernels.n,
                                .n_symbols = sx_symbols(l.g->sx),
                                .n_modules = p->n_units,
                                .buffers = l.buffers,
                                .steps = l.steps,
                                .modules = p->modules};
    TRY(rt_program_new(&p->c->alloc, &d, &p->rt, e));
    return arena_ok(&p->arena) ? PROEM_OK : err_nomem(e);
}
