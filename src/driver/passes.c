/* SPDX-License-Identifier: MIT
 * The list of passes, and running a part of it: each pass is timed, and its result can be printed
 * and read again (`-d PASS`, `--run-pass PASS`).
 *
 * `fuse` prints a graph with its kernels as comments, so its print reads back as the graph that it
 * planned; planning is deterministic, so `gen` starts from there by planning again.
 */
#include "driver/cuda.h"

#include <string.h>
#include <time.h>

/* ---- the passes ------------------------------------------------------------------------------ */

/* needs: text. gives: a verified graph. */
static enum proem_status pass_parse(struct proem_program *p, struct err *e) {
    TRY(graph_parse(&p->arena, p->file_name, p->text, p->n_text, p->internal, &p->file, e));
    const struct graph_file *f = &p->file;
    if (f->graphs.n == 0) return err_set(e, PROEM_INVALID, "the text has no graph");
    for (size_t i = 0; i < f->graphs.n && p->graph == NULL; i++) {
        if (p->graph_name == NULL || strcmp(f->graphs.at[i]->name, p->graph_name) == 0)
            p->graph = f->graphs.at[i];
    }
    if (p->graph == NULL)
        return err_set(e, PROEM_INVALID, "there is no graph '%s'; the first is '%s'", p->graph_name,
                       f->graphs.at[0]->name);
    TRY(graph_verify(p->graph, e));
    p->dims = dims_binding_new(&p->arena, p->graph);
    return arena_ok(&p->arena) ? PROEM_OK : err_nomem(e);
}

/* needs: a verified graph. gives: primitives and data checks. */
static enum proem_status pass_lower(struct proem_program *p, struct err *e) {
    TRY(opt_lower_for(p->graph, &p->opt.target, &p->dims, &p->low, e));
    return graph_verify(p->low.graph, e);
}

value_id plan_edge_source(const struct graph *g, const struct plan_edge *edge) {
    value_id v = graph_node(g, edge->to)->in[edge->input];
    while (op_is_view(graph_def(g, v)->op))
        v = graph_def(g, v)->in[0];
    return v;
}

/* A forced edge must be one of the plan's. */
static enum proem_status find_edge(const struct proem_program *p, const struct fuse_force *f,
                                   struct err *e) {
    const struct graph *g = p->graph;
    for (size_t i = 0; i < p->plan.edges.n; i++) {
        const struct plan_edge *edge = &p->plan.edges.at[i];
        const char *from = graph_value(g, plan_edge_source(g, edge))->name;
        const char *to = graph_value(g, graph_node(g, edge->to)->out)->name;
        if (strcmp(from, f->from) == 0 && strcmp(to, f->to) == 0) return PROEM_OK;
    }
    return err_set(e, PROEM_INVALID,
                   "there is no edge from '%s' to '%s' to force; `proem explain` lists the edges",
                   f->from, f->to);
}

/* needs: primitives. gives: kernels and edges. */
static enum proem_status pass_fuse(struct proem_program *p, struct err *e) {
    struct plan_options o = {.prec = p->opt.prec,
                             .policy = p->opt.policy,
                             .force = p->opt.force,
                             .n_force = p->opt.n_force,
                             .assume_bandwidth = p->opt.assume_bandwidth,
                             .dims = &p->dims,
                             .device = &p->opt.target};
    TRY(plan_lowered(p->graph, &p->low, &o, &p->plan, e));
    for (size_t i = 0; i < p->opt.n_force; i++)
        TRY(find_edge(p, &p->opt.force[i], e));
    return program_fallbacks(p, e);
}

/* needs: a plan, and sizes to measure with. gives: the plan with the fastest tiles. */
static enum proem_status pass_tune(struct proem_program *p, struct err *e) {
    return program_tune(p, e);
}

/* How many files at most: one for each distinct kernel, so that compilers work side by side and the
 * cache holds kernels. With one file fewer than kernels, equal kernels become one, and small ones
 * share files. */
static int unit_count(const struct proem_program *p) {
    int kernels = (int)p->plan.kernels.n;
    if (p->opt.units > 0) return p->opt.units;
    return kernels > 2 ? kernels - 1 : kernels;
}

static bool is_cuda(const struct proem_program *p) {
    return p->opt.target.kind == DEVICE_CUDA;
}

/* needs: a plan. gives: C or CUDA C. */
static enum proem_status pass_gen(struct proem_program *p, struct err *e) {
    if (is_cuda(p))
        return gen_cuda(&p->plan, &p->opt.target, unit_count(p), &p->units, &p->n_units, e);
    return gen_c(&p->plan, &p->opt.target, unit_count(p), &p->units, &p->n_units, e);
}

/* needs: C text. gives: modules. */
static enum proem_status pass_compile(struct proem_program *p, struct err *e) {
    if (is_cuda(p)) return cuda_compile(p, e);
    struct rt_source *s = ARENA_NEW(&p->arena, struct rt_source, p->n_units);
    struct rt_module **m = ARENA_NEW(&p->arena, struct rt_module *, p->n_units);
    if (s == NULL || m == NULL) return err_nomem(e);
    for (int i = 0; i < p->n_units; i++) {
        s[i] = (struct rt_source){.name = pass_part_name(p, PASS_GEN, i),
                                  .text = str_text(&p->units[i].text),
                                  .n = p->units[i].text.n};
    }
    TRY(rt_load(p->c->rt, &p->opt.target, p->n_units, s, m, e));
    p->modules = m;
    return PROEM_OK;
}

/* ---- prints ---------------------------------------------------------------------------------- */

static void print_parse(const struct proem_program *p, int part, struct str *out) {
    (void)part;
    graph_print(p->graph, false, out);
}

static void print_lower(const struct proem_program *p, int part, struct str *out) {
    (void)part;
    graph_print(p->low.graph, true, out);
}

static void print_fuse(const struct proem_program *p, int part, struct str *out) {
    (void)part;
    plan_print(&p->plan, out);
}

static void print_tune(const struct proem_program *p, int part, struct str *out) {
    (void)part;
    for (size_t i = 0; i < p->plan.kernels.n; i++) {
        const struct kernel *k = p->plan.kernels.at[i];
        if (k->kind != KERNEL_MATMUL) continue;
        str_printf(out, "%s: ", k->name);
        tuned_print(k, out);
        str_add(out, "\n");
    }
}

static void print_gen(const struct proem_program *p, int part, struct str *out) {
    str_addn(out, str_text(&p->units[part].text), p->units[part].text.n);
}

static void print_compile(const struct proem_program *p, int part, struct str *out) {
    (void)part;
    if (is_cuda(p)) {
        cuda_print_compile(p, out);
        return;
    }
    struct str path, version;
    str_init(&path, &p->c->alloc);
    str_init(&version, &p->c->alloc);
    if (rt_compiler(p->c->rt, &path, &version, NULL) == PROEM_OK)
        str_printf(out, "# %s\n%s ", str_text(&version), str_text(&path));
    rt_compiler_flags(p->c->rt, &p->opt.target, out, NULL);
    str_add(out, " -lm\n");
    str_free(&path);
    str_free(&version);
}

/* Launches in order, with the buffers of each. */
static void print_link(const struct proem_program *p, int part, struct str *out) {
    (void)part;
    for (size_t i = 0; i < p->plan.kernels.n; i++) {
        const struct gen_kernel *k = p->steps[i].gen;
        str_printf(out, "%zu %s(", i, k->name);
        for (int j = 0; j < k->n_args; j++)
            str_printf(out, "%s%s", j > 0 ? ", " : "", graph_value(p->low.graph, k->args[j])->name);
        str_add(out, ")\n");
    }
}

/* ---- the list -------------------------------------------------------------------------------- */

static const struct pass passes[PASS_COUNT + 1] = {
    [PASS_PARSE] = {"parse", pass_parse, print_parse, "proem"},
    [PASS_LOWER] = {"lower", pass_lower, print_lower, "proem"},
    [PASS_FUSE] = {"fuse", pass_fuse, print_fuse, "proem"},
    [PASS_TUNE] = {"tune", pass_tune, print_tune, "txt"},
    [PASS_GEN] = {"gen", pass_gen, print_gen, "c"},
    [PASS_COMPILE] = {"compile", pass_compile, print_compile, "txt"},
    [PASS_LINK] = {"link", program_link, print_link, "txt"},
};

const struct pass *pass_table(void) {
    return passes;
}

enum pass_id pass_by_name(const char *name) {
    int i = 0;
    while (i < PASS_COUNT && strcmp(passes[i].name, name) != 0)
        i++;
    return (enum pass_id)i;
}

int pass_parts(const struct proem_program *p, enum pass_id pass) {
    if (pass == PASS_TUNE) return p->opt.tune != TUNE_OFF;
    return pass == PASS_GEN ? p->n_units : 1;
}

const char *pass_part_name(const struct proem_program *p, enum pass_id pass, int part) {
    if (pass != PASS_GEN || p->units[part].n_kernels == 0) return passes[pass].name;
    return p->units[part].kernels[0].name;
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

enum proem_status program_run(proem_program *p, enum pass_id first, enum pass_id last,
                              struct err *e) {
    for (int i = (int)first; i <= (int)last; i++) {
        double start = now_ms();
        TRY(context_outcome(&p->arena, passes[i].run(p, e), e));
        p->ms[i] = now_ms() - start;
        if (p->observe != NULL) TRY(p->observe(p->observe_user, p, (enum pass_id)i, e));
    }
    return PROEM_OK;
}
