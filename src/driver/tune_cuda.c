/* SPDX-License-Identifier: MIT
 * Tuning on a GPU: the ways to cut a product that the generator names, as programs of one kernel,
 * timed on the device as CUDA graphs over tensors that together lie beyond its L2.
 *
 * A first pass gives every form a few replays; those within a fifth of the fastest share the rest of
 * the time. Forms that the compiler calls slow are not run: a program would pass them over.
 */
#include <stdlib.h>
#include <string.h>

#include "driver/cuda.h"
#include "driver/tune.h"

#define L2_TIMES     4
#define MOST_SETS    128
#define MOST_BYTES   ((int64_t)4 << 30)
#define PROBES       5 /* replays before a form may be dropped: the least that are taken */
#define MOST_REPLAYS 200
#define TOO_SLOW     1.2

/* ---- forms ----------------------------------------------------------------------------------- */

const char *tune_cuda_obstacle(struct proem_program *p) {
    struct rt_cuda *cuda;
    struct device_desc have;
    struct err e = {0};
    const char *missing = NULL;
    enum proem_status s = context_cuda(p->c, &cuda, &e);
    if (s == PROEM_OK) s = rt_cuda_device(cuda, &have, &e);
    if (s != PROEM_OK) return arena_printf(&p->arena, "there is no GPU to measure on: %s", e.text);
    if (device_can_run(&have, &p->opt.target, &missing)) return NULL;
    return arena_printf(&p->arena, "the GPU is %s: it cannot run code for %s", have.name,
                        p->opt.target.name);
}

static struct rt_source source_of(const struct tune_job *j, int form) {
    return (struct rt_source){
        .name = j->kernel->name, .text = str_text(&j->unit[form].text), .n = j->unit[form].text.n};
}

enum proem_status tune_cuda_key(struct proem_program *p, struct tune_job *j, const char *what,
                                struct err *e) {
    struct rt_cuda *cuda;
    TRY(context_cuda(p->c, &cuda, e));
    struct rt_source s = source_of(j, 0);
    return rt_cuda_choice_key(cuda, &p->opt.target, &s, what, j->key, e);
}

/* Adds a form, unless it is one of those that are there by another number. */
static enum proem_status add_form(struct proem_program *p, struct tune_job *j,
                                  const struct tile *tile, struct err *e) {
    int at = j->n;
    if (at == TUNE_FORMS) return PROEM_OK;
    j->tile[at] = *tile;
    j->n++;
    TRY(tune_generate(p, j, at, e));
    const struct str *text = &j->unit[at].text;
    for (int i = 0; i < at; i++) {
        const struct str *other = &j->unit[i].text;
        if (text->n != other->n || memcmp(text->at, other->at, text->n) != 0) continue;
        str_free(&j->unit[at].text);
        j->unit[at] = (struct gen_unit){0};
        j->n--;
        break;
    }
    return PROEM_OK;
}

/* Form `first` and those that follow from it. */
static enum proem_status add_choices(struct proem_program *p, struct tune_job *j, int first,
                                     int most, struct err *e) {
    int choices = j->unit[first].cuda[0].choices;
    for (int i = 1; i < choices && i <= most; i++) {
        struct tile t = j->tile[first];
        t.cuda.passed = i;
        TRY(add_form(p, j, &t, e));
    }
    return PROEM_OK;
}

enum proem_status tune_cuda_forms(struct proem_program *p, struct tune_job *j, struct err *e) {
    TRY(add_choices(p, j, 0, TILE_CANDIDATES - (p->opt.tune == TUNE_ORDER ? 4 : 0), e));
    if (p->opt.tune != TUNE_ORDER || j->problem.one_order) return PROEM_OK;
    int first = j->n;
    struct tile t = j->kernel->model_tile;
    t.cuda.few = j->tile[0].cuda.form == TILE_FEW ? -1 : 1;
    TRY(add_form(p, j, &t, e));
    return j->n > first ? add_choices(p, j, first, 3, e) : PROEM_OK;
}

/* ---- machine code ---------------------------------------------------------------------------- */

static enum proem_status left_out(struct proem_program *p, const struct tune_job *j,
                                  const char *why, struct err *e) {
    if (!p->opt.strict) return PROEM_OK;
    return err_set(e, PROEM_UNSUPPORTED,
                   "kernel %s: a candidate of --tune is left out (--strict): %s", j->kernel->name,
                   why);
}

/* One form after the other: which of them is it that cannot be compiled? */
static enum proem_status load_alone(struct proem_program *p, struct rt_cuda *cuda,
                                    struct tune_job *j, struct err *e) {
    for (int f = 0; f < j->n; f++) {
        struct rt_source s = source_of(j, f);
        struct err one = {0};
        if (rt_cuda_compile(cuda, &p->opt.target, 1, &s, &j->cubin[f], &one) == PROEM_OK) continue;
        j->cubin[f] = NULL;
        if (f == 0 || one.status == PROEM_NOMEM) return err_set(e, one.status, "%s", one.text);
        TRY(left_out(p, j, one.text, e));
    }
    return PROEM_OK;
}

static enum proem_status drop_slow_code(struct proem_program *p, struct tune_job *j,
                                        struct err *e) {
    for (int f = 1; f < j->n; f++) {
        if (j->cubin[f] == NULL || !cuda_is_slow(j->cubin[f])) continue;
        TRY(left_out(p, j, rt_cubin_report(j->cubin[f])->first, e));
        rt_cubin_unref(j->cubin[f]);
        j->cubin[f] = NULL;
    }
    return PROEM_OK;
}

enum proem_status tune_cuda_load(struct proem_program *p, struct tune_job *const *todo, int n,
                                 struct err *e) {
    struct rt_cuda *cuda;
    int total = 0, k = 0;
    TRY(context_cuda(p->c, &cuda, e));
    for (int i = 0; i < n; i++)
        total += todo[i]->n;
    struct rt_source *s = ARENA_NEW(&p->arena, struct rt_source, total);
    struct rt_cubin **b = ARENA_NEW(&p->arena, struct rt_cubin *, total);
    if (s == NULL || b == NULL) return err_nomem(e);
    for (int i = 0; i < n; i++) {
        for (int f = 0; f < todo[i]->n; f++)
            s[k++] = source_of(todo[i], f);
    }
    struct err all = {0};
    enum proem_status status = rt_cuda_compile(cuda, &p->opt.target, total, s, b, &all);
    if (status == PROEM_NOMEM) return err_nomem(e);
    k = 0;
    for (int i = 0; i < n && status == PROEM_OK; i++) {
        for (int f = 0; f < todo[i]->n; f++)
            todo[i]->cubin[f] = b[k++];
    }
    for (int i = 0; i < n; i++) {
        if (status != PROEM_OK) TRY(load_alone(p, cuda, todo[i], e));
        TRY(drop_slow_code(p, todo[i], e));
    }
    return PROEM_OK;
}

/* ---- data on the device ---------------------------------------------------------------------- */

struct sets {
    int n, n_tensors;
    struct rt_cuda_view **views;
    void ***memory; /* of each set, each tensor */
};

static enum proem_status fill_set(struct rt_cuda *cuda, const struct tune_data *d, void **memory,
                                  struct rt_cuda_view *views, struct err *e) {
    for (int i = 0; i < d->n; i++) {
        TRY(rt_cuda_alloc(cuda, d->bytes[i] > 0 ? d->bytes[i] : 1, &memory[i], e));
        TRY(rt_cuda_upload(cuda, memory[i], d->views[i].data, d->bytes[i], e));
        views[i] = (struct rt_cuda_view){.view = d->views[i], .on_device = true};
        views[i].view.data = memory[i];
    }
    return PROEM_OK;
}

static enum proem_status make_sets(struct proem_program *p, struct rt_cuda *cuda,
                                   const struct tune_data *d, struct sets *out, struct err *e) {
    int64_t bytes = d->total + 1, want = p->opt.target.gpu.l2 * L2_TIMES / bytes + 1;
    if (want > MOST_SETS) want = MOST_SETS;
    if (want > MOST_BYTES / bytes) want = MOST_BYTES / bytes;
    if (want < 1) want = 1;
    out->n_tensors = d->n;
    out->views = ARENA_NEW(&p->arena, struct rt_cuda_view *, want);
    out->memory = ARENA_NEW(&p->arena, void **, want);
    if (out->views == NULL || out->memory == NULL) return err_nomem(e);
    for (; out->n < (int)want; out->n++) {
        int k = out->n;
        struct err full = {0};
        out->views[k] = ARENA_NEW(&p->arena, struct rt_cuda_view, d->n);
        out->memory[k] = ARENA_NEW(&p->arena, void *, d->n);
        if (out->views[k] == NULL || out->memory[k] == NULL) return err_nomem(e);
        enum proem_status s = fill_set(cuda, d, out->memory[k], out->views[k], &full);
        if (s == PROEM_OK) continue;
        for (int i = 0; i < d->n; i++)
            rt_cuda_release(cuda, out->memory[k][i]);
        if (k == 0) return err_set(e, s, "%s", full.text);
        break; /* the sets that there are will do */
    }
    return PROEM_OK;
}

static void free_sets(struct rt_cuda *cuda, struct sets *s) {
    for (int k = 0; k < s->n; k++) {
        for (int i = 0; i < s->n_tensors; i++)
            rt_cuda_release(cuda, s->memory[k][i]);
    }
}

/* ---- forms as programs ----------------------------------------------------------------------- */

struct form {
    struct rt_cuda_program *program;
    struct rt_cuda_exec *exec;
    int number;
    double best;
    double *us;
};

static enum proem_status open_form(struct proem_program *p, struct tune_job *j, int number,
                                   const struct tune_data *d, struct form *out, struct err *e) {
    const struct gen_kernel *gk = &j->unit[number].kernels[0];
    const struct gen_cuda *gc = &j->unit[number].cuda[0];
    struct arena *a = &p->arena;
    struct rt_cuda *cuda;
    struct rt_cuda_step step;
    TRY(context_cuda(p->c, &cuda, e));
    int *args = ARENA_NEW(a, int, d->n), maps = 0;
    if (args == NULL) return err_nomem(e);
    for (int i = 0; i < d->n; i++)
        args[i] = i;
    TRY(cuda_make_step(a, gk, gc, j->cubin[number], args, &step, e));
    struct rt_cuda_desc desc = {.n_buffers = d->n,
                                .n_steps = 1,
                                .n_symbols = sx_symbols(p->low.graph->sx),
                                .n_cubins = 1,
                                .buffers = d->buffers,
                                .steps = &step,
                                .cubins = &j->cubin[number]};
    out->number = number;
    TRY(rt_cuda_program_new(cuda, &desc, &out->program, e));
    TRY(rt_cuda_exec_new(out->program, &out->exec, e));
    for (int i = 0; i < gc->n_launches; i++)
        maps += gc->launches[i].n_maps;
    int64_t scratch, *blocks = ARENA_NEW(a, int64_t, gc->n_launches);
    struct rt_cuda_extent *extents = ARENA_NEW(a, struct rt_cuda_extent, maps);
    if (blocks == NULL || extents == NULL) return err_nomem(e);
    TRY(cuda_bind_step(p->low.graph, &p->dims, gk->name, gc, &scratch, blocks, extents, e));
    struct rt_cuda_sizes sizes = {.sym = p->dims.value,
                                  .bytes = d->bytes,
                                  .scratch = &scratch,
                                  .blocks = blocks,
                                  .extent = extents};
    return rt_cuda_exec_prepare(out->exec, &sizes, e);
}

static void close_form(struct form *f) {
    rt_cuda_exec_free(f->exec);
    rt_cuda_program_free(f->program);
    f->exec = NULL;
    f->program = NULL;
}

/* Forms that run. That the first does not is an error. */
static enum proem_status open_forms(struct proem_program *p, struct tune_job *j,
                                    const struct tune_data *d, const struct sets *sets,
                                    struct form *out, int *n, struct err *e) {
    for (int f = 0; f < j->n; f++) {
        struct err one = {0};
        struct form *to = &out[*n];
        if (j->cubin[f] == NULL) continue;
        to->us = ARENA_NEW(&p->arena, double, MOST_REPLAYS);
        if (to->us == NULL) return err_nomem(e);
        ++*n;
        enum proem_status s = open_form(p, j, f, d, to, &one);
        if (s == PROEM_OK) s = rt_cuda_exec_run(to->exec, NULL, sets->views[0], NULL, &one);
        if (s == PROEM_OK) s = rt_cuda_exec_check(to->exec, NULL, &one);
        if (s == PROEM_OK) continue;
        if (f == 0 || s == PROEM_NOMEM) return err_set(e, s, "%s", one.text);
        close_form(to);
        --*n;
        TRY(left_out(p, j, one.text, e));
    }
    return PROEM_OK;
}

/* ---- times ----------------------------------------------------------------------------------- */

/* Up to cap replays of each of these forms in turns. */
static enum proem_status time_forms(struct rt_cuda *cuda, struct form *const *f, int n,
                                    const struct sets *sets, int cap, double budget_ms, int *turns,
                                    struct err *e) {
    struct rt_cuda_trial t[TUNE_FORMS];
    for (int i = 0; i < n; i++)
        t[i] = (struct rt_cuda_trial){.exec = f[i]->exec,
                                      .n_sets = sets->n,
                                      .runs = 1,
                                      .sets = (const struct rt_cuda_view *const *)sets->views,
                                      .us = f[i]->us,
                                      .cap = cap};
    TRY(rt_cuda_measure(cuda, t, n, budget_ms, e));
    *turns = t[0].n;
    return PROEM_OK;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, by_value);
    return 0.5 * (x[(n - 1) / 2] + x[n / 2]);
}

/* Form 0 last: the others are compared with it, turn by turn. */
static void summarize(struct form *const *f, int n, int turns, struct rt_trial *const *out) {
    double ratio[MOST_REPLAYS];
    for (int i = n; i-- > 0;) {
        for (int k = 0; k < turns; k++)
            ratio[k] = f[i]->us[k] / f[0]->us[k];
        out[i]->runs = turns;
        out[i]->ratio = median(ratio, turns);
        out[i]->ratio_high = ratio[turns - 1 - turns / 4];
        out[i]->median_us = median(f[i]->us, turns);
    }
}

static enum proem_status compare(struct rt_cuda *cuda, struct form *forms, int n,
                                 const struct sets *sets, struct rt_trial *out, struct err *e) {
    struct form *in[TUNE_FORMS] = {NULL};
    struct rt_trial *to[TUNE_FORMS];
    int turns, kept = 0;
    double best = 0;
    for (int i = 0; i < n; i++)
        in[i] = &forms[i];
    TRY(time_forms(cuda, in, n, sets, PROBES, 0, &turns, e));
    for (int i = 0; i < n; i++) {
        forms[i].best = forms[i].us[0];
        for (int k = 1; k < turns; k++) {
            if (forms[i].us[k] < forms[i].best) forms[i].best = forms[i].us[k];
        }
        if (i == 0 || forms[i].best < best) best = forms[i].best;
    }
    for (int i = 0; i < n; i++) {
        if (i > 0 && forms[i].best > TOO_SLOW * best) continue;
        in[kept] = &forms[i];
        to[kept++] = &out[i];
    }
    if (kept > 1) TRY(time_forms(cuda, in, kept, sets, MOST_REPLAYS, TUNE_BUDGET_MS, &turns, e));
    summarize(in, kept, turns, to);
    return PROEM_OK;
}

enum proem_status tune_cuda_measure(struct proem_program *p, struct tune_job *j,
                                    const struct tune_data *d, struct rt_trial *out, int *form,
                                    int *n, struct err *e) {
    struct rt_cuda *cuda;
    struct form forms[TUNE_FORMS] = {{0}};
    struct sets sets = {0};
    int count = 0;
    TRY(context_cuda(p->c, &cuda, e));
    enum proem_status s = make_sets(p, cuda, d, &sets, e);
    if (s == PROEM_OK) s = open_forms(p, j, d, &sets, forms, &count, e);
    for (int i = 0; i < count; i++) {
        out[i] = (struct rt_trial){0};
        form[i] = forms[i].number;
    }
    if (s == PROEM_OK) s = compare(cuda, forms, count, &sets, out, e);
    for (int i = 0; i < count; i++)
        close_form(&forms[i]);
    free_sets(cuda, &sets);
    *n = count;
    return s;
}
