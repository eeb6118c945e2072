/* SPDX-License-Identifier: MIT
 * Programs: what the passes fill, from options to something that can be executed.
 *
 * A program owns a copy of its graph, read again from text, because running binds sizes in the
 * graph's own pool of expressions while the caller may go on building and compiling elsewhere.
 */
#include "driver/cuda.h"

#include <string.h>

void proem_compile_options_init(struct proem_compile_options *o) {
    *o = (struct proem_compile_options){.size = sizeof *o};
}

enum proem_status program_new(proem_context *c, const struct program_options *o,
                              proem_program **out, struct err *e) {
    proem_program *p = mem_alloc(&c->alloc, 1, sizeof *p);
    if (p == NULL) return err_nomem(e);
    *p = (proem_program){.c = c, .opt = *o};
    arena_init(&p->arena, &c->alloc);
    if (pthread_mutex_init(&p->lock, NULL) != 0) {
        mem_free(&c->alloc, p, 1, sizeof *p);
        return err_nomem(e);
    }
    *out = p;
    return PROEM_OK;
}

void proem_program_destroy(proem_program *p) {
    if (p == NULL) return;
    rt_program_free(p->rt);
    cuda_program_free(p);
    for (int i = 0; p->modules != NULL && i < p->n_units; i++)
        rt_module_unref(p->modules[i]);
    for (int i = 0; p->units != NULL && i < p->n_units; i++)
        str_free(&p->units[i].text);
    pthread_mutex_destroy(&p->lock);
    arena_free(&p->arena);
    struct allocator alloc = p->c->alloc;
    mem_free(&alloc, p, 1, sizeof *p);
}

void program_set_text(proem_program *p, const char *text, size_t n, const char *file_name,
                      const char *graph_name, bool internal) {
    p->text = text;
    p->n_text = n;
    p->file_name = file_name;
    p->graph_name = graph_name;
    p->internal = internal;
}

/* ---- from the public options ----------------------------------------------------------------- */

static enum proem_status choose_target(proem_context *c, const char *arch, struct device_desc *out,
                                       struct err *e) {
    if (arch == NULL) {
        *out = *context_native(c);
        return PROEM_OK;
    }
    const char *missing = NULL;
    if (!device_by_name(arch, strlen(arch), out) || out->kind != DEVICE_CPU)
        return err_set(e, PROEM_INVALID,
                       "arch '%s' is not known; expected generic, avx2, avx512, avx512fp16 or neon",
                       arch);
    if (!device_can_run(context_native(c), out, &missing))
        return err_set(e, PROEM_DEVICE, "this machine cannot run code for %s: it lacks %s", arch,
                       missing);
    return PROEM_OK;
}

static enum proem_status translate(proem_context *c, const struct proem_compile_options *o,
                                   struct arena *a, struct program_options *out, struct err *e) {
    if (o->size != sizeof *o)
        return err_set(e, PROEM_INVALID,
                       "compile options: call proem_compile_options_init() before setting fields");
    if ((unsigned)o->device > PROEM_DEVICE_CUDA || (unsigned)o->precision > PROEM_NATIVE ||
        (unsigned)o->fuse > PROEM_FUSE_NEVER || (unsigned)o->tune > PROEM_TUNE_ORDER)
        return err_set(e, PROEM_INVALID,
                       "compile options: device, precision, fuse or tune is out of range");
    if ((o->n_force > 0 && o->force == NULL) ||
        (o->n_dims > 0 && (o->dim_names == NULL || o->dim_values == NULL)))
        return err_set(e, PROEM_INVALID, "compile options: a list is missing");
    struct fuse_force *force = ARENA_NEW(a, struct fuse_force, o->n_force);
    if (force == NULL) return err_nomem(e);
    for (size_t i = 0; i < o->n_force; i++) {
        if (o->force[i].from == NULL || o->force[i].to == NULL)
            return err_set(e, PROEM_INVALID, "compile options: an edge needs two names");
        force[i] = (struct fuse_force){.from = arena_strdup(a, o->force[i].from),
                                       .to = arena_strdup(a, o->force[i].to),
                                       .fuse = o->force[i].fuse};
    }
    static const enum precision prec[] = {PREC_BOUNDARY, PREC_EAGER, PREC_NATIVE};
    static const enum fuse_policy fuse[] = {FUSE_MODEL, FUSE_ALWAYS, FUSE_NEVER};
    static const enum tune_mode tune[] = {TUNE_OFF, TUNE_TILES, TUNE_ORDER};
    *out = (struct program_options){.device = o->device,
                                    .prec = prec[o->precision],
                                    .policy = fuse[o->fuse],
                                    .force = force,
                                    .n_force = o->n_force,
                                    .assume_bandwidth = o->assume_bandwidth,
                                    .strict = o->strict,
                                    .tune = tune[o->tune],
                                    .progress = o->progress,
                                    .progress_user = o->progress_user};
    if (o->device == PROEM_DEVICE_CUDA)
        TRY(cuda_target(c, o->arch, true, &out->target, e));
    else
        TRY(choose_target(c, o->arch, &out->target, e));
    return arena_ok(a) ? PROEM_OK : err_nomem(e);
}

/* The graph as text again: as it was written, or as it prints. Lives in p. */
static enum proem_status set_graph(proem_program *p, proem_graph *g, struct err *e) {
    if (g->source != NULL) {
        const char *text = arena_strndup(&p->arena, g->source, g->n_source);
        const char *file = g->file_name ? arena_strdup(&p->arena, g->file_name) : NULL;
        const char *name = g->source_name ? arena_strdup(&p->arena, g->source_name) : NULL;
        program_set_text(p, text, g->n_source, file, name, false);
        return arena_ok(&p->arena) ? PROEM_OK : err_nomem(e);
    }
    struct str s;
    str_init(&s, &p->c->alloc);
    graph_print(g->g, true, &s);
    const char *text = s.failed ? NULL : arena_strndup(&p->arena, str_text(&s), s.n);
    program_set_text(p, text, s.n, NULL, NULL, true);
    str_free(&s);
    return text != NULL ? PROEM_OK : err_nomem(e);
}

static enum proem_status compile(proem_program *p, proem_graph *g,
                                 const struct proem_compile_options *o, struct err *e) {
    TRY(translate(p->c, o, &p->arena, &p->opt, e));
    TRY(set_graph(p, g, e));
    TRY(program_run(p, PASS_PARSE, PASS_PARSE, e));
    for (size_t i = 0; i < o->n_dims; i++)
        TRY(dims_bind_name(p->graph, &p->dims, o->dim_names[i], o->dim_values[i], e));
    if (o->device == PROEM_DEVICE_REF) return PROEM_OK;
    TRY(program_run(p, PASS_LOWER, PASS_LINK, e));
    return PROEM_OK;
}

enum proem_status proem_compile(proem_graph *g, const struct proem_compile_options *o,
                                proem_program **out) {
    if (g == NULL || out == NULL) return PROEM_INVALID;
    *out = NULL;
    TRY(proem_graph_finish(g));
    struct proem_compile_options defaults;
    proem_compile_options_init(&defaults);
    struct program_options none = {0};
    struct err e = {0};
    proem_program *p = NULL;
    if (program_new(g->c, &none, &p, &e) != PROEM_OK) return context_report(g->c, &e);
    if (compile(p, g, o != NULL ? o : &defaults, &e) == PROEM_OK)
        *out = p;
    else
        proem_program_destroy(p);
    return context_report(g->c, &e);
}

/* ---- what it takes and gives ----------------------------------------------------------------- */

size_t proem_program_inputs(const proem_program *p) {
    return p->graph->params.n;
}

size_t proem_program_outputs(const proem_program *p) {
    return p->graph->outputs.n;
}

const char *proem_program_input_name(const proem_program *p, size_t i) {
    if (i >= p->graph->params.n) return NULL;
    return graph_value(p->graph, p->graph->params.at[i].value)->name;
}

const char *proem_program_output_name(const proem_program *p, size_t i) {
    return i < p->graph->outputs.n ? p->graph->outputs.at[i].name : NULL;
}

size_t proem_program_kernels(const proem_program *p) {
    return p->plan.kernels.n;
}
