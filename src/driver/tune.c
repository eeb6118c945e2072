/* SPDX-License-Identifier: MIT
 * The pass `tune`: a plan in, the same plan with the fastest register tiles and blocks out.
 *
 * For each product tile offers other ways to cut it that take every sum in the same order, so the
 * results keep their bits (with --tune=order it may offer another order, and that is recorded). All
 * of them are generated and compiled at once, each kernel alone in a unit, then run in turns on data
 * of the sizes given (rt_measure; on a GPU tune_cuda.c). Another tile is taken if it beats the
 * model's beyond the spread. The choice is kept in the cache under the text of the model's kernel,
 * sizes, device, compiler, threads and version; a later compile with --tune takes it from there
 * without measuring.
 *
 * A candidate that cannot be compiled is left out, a kernel that cannot be measured keeps the
 * model's tile; both are recorded, and with --strict an error.
 */
#include <math.h>
#include <string.h>

#include "driver/tune.h"
#include "rt/cuda/cuda.h"

#define MEMORY     ((int64_t)1 << 31) /* for the operands of all candidates, packed */
#define LEAST_GAIN 0.02               /* below that it is noise, whatever the spread */

struct tuner {
    struct proem_program *p;
    struct tune_job *jobs;
    int n;
    struct err *err;
};

static bool is_cuda(const struct proem_program *p) {
    return p->opt.target.kind == DEVICE_CUDA;
}

/* ---- which kernels --------------------------------------------------------------------------- */

/* There is nothing to choose. */
static enum proem_status leave(struct kernel *k, const char *note) {
    k->tuned = (struct kernel_tuned){.note = note};
    return PROEM_OK;
}

/* The kernel keeps the model's tile though others exist, because.. */
static enum proem_status give_up(struct tuner *t, struct kernel *k, const char *note) {
    leave(k, note);
    if (!t->p->opt.strict) return PROEM_OK;
    return err_set(t->err, PROEM_UNSUPPORTED, "kernel %s cannot be tuned: %s (--strict)", k->name,
                   note);
}

/* Why no kernel of the program can be measured; NULL if some may. */
static const char *obstacle(struct tuner *t) {
    struct proem_program *p = t->p;
    const char *missing = NULL;
    if (is_cuda(p)) {
        missing = tune_cuda_obstacle(p);
        if (missing != NULL) return missing;
    } else if (!device_can_run(context_native(p->c), &p->opt.target, &missing)) {
        return arena_printf(&p->arena, "this machine cannot run code for %s: it lacks %s",
                            p->opt.target.name, missing);
    }
    for (int i = 0; i < p->dims.n; i++) {
        if (p->dims.value[i] < 0)
            return arena_printf(&p->arena, "the size %s is not known; give it with --dim",
                                sx_name(p->graph->sx, sx_symbol_at(p->graph->sx, i)));
    }
    return NULL;
}

static bool set_sizes(const struct proem_program *p, const struct kernel *k,
                      struct tile_problem *out) {
    *out = k->problem;
    return dims_value(p->graph, &p->dims, k->Z, &out->Z) &&
           dims_value(p->graph, &p->dims, k->M, &out->M) &&
           dims_value(p->graph, &p->dims, k->N, &out->N) &&
           dims_value(p->graph, &p->dims, k->K, &out->K);
}

/* All that shapes a measurement beside the unit itself. */
static const char *circumstances(struct tuner *t) {
    struct proem_program *p = t->p;
    const struct device_desc *d = &p->opt.target;
    struct str s;
    str_init(&s, &p->c->alloc);
    str_printf(&s, "tune %s %s ", PROEM_VERSION, p->opt.tune == TUNE_ORDER ? "order" : "tile");
    if (is_cuda(p))
        str_printf(&s, "%d SMs %lld %lld", d->gpu.sms, (long long)d->gpu.l2,
                   (long long)d->gpu.bandwidth);
    else
        str_printf(&s, "%d threads %d cores %lld %lld %lld", rt_pool_threads(p->pool), d->cores,
                   (long long)d->l1d, (long long)d->l2, (long long)d->l3);
    for (int i = 0; i < p->dims.n; i++)
        str_printf(&s, " %s=%lld", sx_name(p->graph->sx, sx_symbol_at(p->graph->sx, i)),
                   (long long)p->dims.value[i]);
    const char *text = s.failed ? NULL : arena_strdup(&p->arena, str_text(&s));
    str_free(&s);
    return text;
}

static struct rt_source source_of(const struct kernel *k, const struct gen_unit *u) {
    return (struct rt_source){.name = k->name, .text = str_text(&u->text), .n = u->text.n};
}

/* ---- choices that are kept ------------------------------------------------------------------- */

static void write_choice(const struct kernel *k, struct str *out) {
    const struct tile *c = &k->tile;
    const struct kernel_tuned *r = &k->tuned;
    str_printf(out, "%d %d %d %d %d %d %d %d %d %d %d %d %lld %lld\n", c->packed, c->rows, c->mr,
               c->nv, c->mc, c->kc, c->nc, c->rows_mr, c->rows_max, c->cuda.passed, c->cuda.few + 1,
               r->tried, (long long)(r->model_us * 1e3), (long long)(r->taken_us * 1e3));
}

/* The kernel is cut as form i, whose K order may be another one. */
static void take(struct tune_job *j, int i) {
    struct kernel *k = j->kernel;
    k->tuned.reordered = strcmp(j->tile[i].order, j->tile[0].order) != 0;
    k->model_tile = j->tile[0];
    k->tile = j->tile[i];
}

static bool read_numbers(const char *text, int n, double *out) {
    for (int i = 0; i < n; i++) {
        const char *end = text;
        out[i] = parse_double(text, &end);
        if (end == text || !(out[i] >= 0 && out[i] < 1e15)) return false;
        text = end + (*end == ' ');
    }
    return text[0] == '\n' && text[1] == '\0';
}

/* Is the text one of the forms on offer? Whatever else is in the file, nothing else is taken. */
static bool read_choice(struct tune_job *j, const char *text) {
    double x[14];
    if (!read_numbers(text, 14, x)) return false;
    for (int i = 0; i < j->n; i++) {
        const struct tile *c = &j->tile[i];
        const int is[] = {c->packed, c->rows,    c->mr,       c->nv,          c->mc,          c->kc,
                          c->nc,     c->rows_mr, c->rows_max, c->cuda.passed, c->cuda.few + 1};
        bool same = true;
        for (size_t f = 0; f < COUNT_OF(is); f++)
            same = same && fabs(x[f] - is[f]) < 0.5;
        if (!same) continue;
        struct kernel *k = j->kernel;
        k->tuned = (struct kernel_tuned){.done = true,
                                         .cached = true,
                                         .tried = (int)x[11],
                                         .model_us = x[12] * 1e-3,
                                         .taken_us = x[13] * 1e-3};
        take(j, i);
        return true;
    }
    return false;
}

static bool find_choice(struct tuner *t, struct tune_job *j) {
    struct str text;
    str_init(&text, &t->p->c->alloc);
    bool found = rt_choice_find(t->p->c->rt, j->key, &text) && read_choice(j, str_text(&text));
    str_free(&text);
    return found;
}

static void keep_choice(struct tuner *t, const struct tune_job *j) {
    struct str text;
    str_init(&text, &t->p->c->alloc);
    write_choice(j->kernel, &text);
    if (!text.failed) rt_choice_keep(t->p->c->rt, j->key, str_text(&text), text.n);
    str_free(&text);
}

/* ---- candidates ------------------------------------------------------------------------------ */

enum proem_status tune_generate(struct proem_program *p, struct tune_job *j, int form,
                                struct err *e) {
    struct kernel *k = j->kernel;
    struct tile model = k->tile;
    k->tile = j->tile[form];
    enum proem_status s = is_cuda(p)
                              ? gen_cuda_kernel(&p->plan, k, &p->opt.target, &j->unit[form], e)
                              : gen_c_kernel(&p->plan, k, &p->opt.target, &j->unit[form], e);
    j->tile[form] = k->tile;
    k->tile = model;
    return s;
}

static enum proem_status find_key(struct tuner *t, struct tune_job *j, const char *what) {
    struct proem_program *p = t->p;
    if (is_cuda(p)) return tune_cuda_key(p, j, what, t->err);
    struct rt_source source = source_of(j->kernel, &j->unit[0]);
    return rt_choice_key(p->c->rt, &p->opt.target, &source, what, j->key, t->err);
}

static enum proem_status generate_all(struct tuner *t, struct tune_job *j) {
    for (int i = 1; i < j->n; i++) {
        if (j->unit[i].n_kernels == 0) TRY(tune_generate(t->p, j, i, t->err));
    }
    return PROEM_OK;
}

/* Fills the job's key and forms; true in *todo if there is something to measure. */
static enum proem_status open_job(struct tuner *t, struct tune_job *j, const char *what,
                                  bool *todo) {
    struct proem_program *p = t->p;
    *todo = false;
    j->tile[0] = j->kernel->tile;
    j->n = 1;
    if (!is_cuda(p))
        j->n += tile_candidates(&j->problem, &j->tile[0], &p->opt.target, p->opt.tune == TUNE_ORDER,
                                &j->tile[1]);
    TRY(tune_generate(p, j, 0, t->err));
    TRY(find_key(t, j, what));
    for (struct tune_job *o = t->jobs; o < j && j->twin == NULL; o++) {
        if (o->twin == NULL && strcmp(o->key, j->key) == 0) j->twin = o;
    }
    if (j->twin != NULL) return PROEM_OK;
    if (is_cuda(p)) TRY(tune_cuda_forms(p, j, t->err));
    if (find_choice(t, j)) return PROEM_OK;
    TRY(generate_all(t, j));
    *todo = true;
    return PROEM_OK;
}

/* Load all forms of all jobs at once; if one of them cannot be, each alone. */
static enum proem_status load(struct tuner *t, struct tune_job *const *todo, int n) {
    struct proem_program *p = t->p;
    int total = 0, at = 0;
    for (int i = 0; i < n; i++)
        total += todo[i]->n;
    struct rt_source *s = ARENA_NEW(&p->arena, struct rt_source, total);
    struct rt_module **m = ARENA_NEW(&p->arena, struct rt_module *, total);
    if (s == NULL || m == NULL) return err_nomem(t->err);
    for (int i = 0; i < n; i++) {
        for (int f = 0; f < todo[i]->n; f++)
            s[at++] = source_of(todo[i]->kernel, &todo[i]->unit[f]);
    }
    struct err all = {0};
    enum proem_status status = rt_load(p->c->rt, &p->opt.target, total, s, m, &all);
    if (status == PROEM_NOMEM) return err_nomem(t->err);
    for (int i = 0, k = 0; i < n; i++) {
        for (int f = 0; f < todo[i]->n; f++, k++) {
            struct err one = {0};
            if (status != PROEM_OK &&
                rt_load(p->c->rt, &p->opt.target, 1, &s[k], &m[k], &one) != PROEM_OK) {
                m[k] = NULL;
                if (f == 0 || one.status == PROEM_NOMEM)
                    return err_set(t->err, one.status, "%s", one.text);
                if (p->opt.strict)
                    return err_set(t->err, PROEM_UNSUPPORTED,
                                   "kernel %s: a candidate of --tune is left out (--strict): %s",
                                   todo[i]->kernel->name, one.text);
            }
            todo[i]->module[f] = m[k];
        }
    }
    return PROEM_OK;
}

/* ---- one kernel ------------------------------------------------------------------------------ */

struct trials {
    struct rt_trial at[TUNE_FORMS];
    struct rt_program *program[TUNE_FORMS];
    int form[TUNE_FORMS]; /* of each trial */
    int n;
};

static enum proem_status make_operands(struct tuner *t, const struct gen_kernel *gk,
                                       struct rt_operand **out) {
    struct arena *a = &t->p->arena;
    struct rt_operand *o = ARENA_NEW(a, struct rt_operand, gk->n_operands);
    if (o == NULL) return err_nomem(t->err);
    for (int i = 0; i < gk->n_operands; i++) {
        int n = gk->operands[i].n, *at = ARENA_NEW(a, int, n);
        if (at == NULL) return err_nomem(t->err);
        for (int j = 0; j < n; j++) {
            while (gk->args[at[j]] != gk->operands[i].constants[j])
                at[j]++;
        }
        o[i] = (struct rt_operand){n, at};
    }
    *out = o;
    return PROEM_OK;
}

/* A form as a program of one launch, ready to run on the data. */
static enum proem_status add_trial(struct tuner *t, struct tune_job *j, int form,
                                   const struct tune_data *d, struct trials *out) {
    struct proem_program *p = t->p;
    const struct gen_kernel *gk = &j->unit[form].kernels[0];
    const struct pk_kernel *kernel = rt_module_unit(j->module[form])->kernels[0];
    struct rt_operand *operands = NULL;
    int *args = ARENA_NEW(&p->arena, int, d->n);
    if (args == NULL) return err_nomem(t->err);
    for (int i = 0; i < d->n; i++)
        args[i] = i;
    if (kernel->operands > 0 && kernel->operands == gk->n_operands)
        TRY(make_operands(t, gk, &operands));
    struct rt_step step = {.kernel = kernel, .n_args = d->n, .args = args, .operands = operands};
    struct rt_program_desc desc = {.n_buffers = d->n,
                                   .n_steps = 1,
                                   .n_symbols = sx_symbols(p->low.graph->sx),
                                   .n_modules = 1,
                                   .buffers = d->buffers,
                                   .steps = &step,
                                   .modules = &j->module[form]};
    int i = out->n;
    TRY(rt_program_new(&p->c->alloc, &desc, &out->program[i], t->err));
    out->form[i] = form;
    out->n++;
    TRY(rt_exec_new(out->program[i], p->pool, &out->at[i].exec, t->err));
    return rt_exec_prepare(out->at[i].exec, p->dims.value, d->bytes, t->err);
}

static void free_trials(struct trials *r) {
    for (int i = 0; i < r->n; i++) {
        rt_exec_free(r->at[i].exec);
        rt_program_free(r->program[i]);
    }
}

/* The form to take: the fastest, if it beats the model's by LEAST_GAIN in three turns of four. */
static int best_trial(const struct trials *r) {
    int best = 0;
    for (int i = 1; i < r->n; i++) {
        bool clear = r->at[i].runs > 0 && r->at[i].ratio_high < 1 - LEAST_GAIN;
        if (clear && (best == 0 || r->at[i].ratio < r->at[best].ratio)) best = i;
    }
    return best;
}

static enum proem_status conclude(struct tuner *t, struct tune_job *j, const struct trials *r) {
    struct kernel *k = j->kernel;
    if (r->at[0].runs == 0) return give_up(t, k, "one run takes too long to be compared");
    int best = best_trial(r);
    int tried = 0;
    for (int i = 0; i < r->n; i++)
        tried += r->at[i].exec != NULL || r->at[i].runs > 0;
    k->tuned = (struct kernel_tuned){.done = true,
                                     .tried = tried,
                                     .model_us = r->at[0].median_us,
                                     .taken_us = r->at[best].median_us};
    take(j, r->form[best]);
    keep_choice(t, j);
    return PROEM_OK;
}

static enum proem_status measure(struct tuner *t, struct tune_job *j, const struct tune_data *d,
                                 struct trials *r) {
    struct err e = {0};
    enum proem_status s;
    if (is_cuda(t->p)) {
        s = tune_cuda_measure(t->p, j, d, r->at, r->form, &r->n, &e);
    } else {
        int64_t room = MEMORY / (4 * d->total + 1);
        for (int f = 0; f < j->n && (r->n < 2 || r->n < room); f++) {
            if (j->module[f] != NULL) TRY(add_trial(t, j, f, d, r));
        }
        s = rt_measure(r->at, r->n, d->views, TUNE_BUDGET_MS, &e);
    }
    if (s == PROEM_DATA) return give_up(t, j->kernel, "random data does not pass its checks");
    if (s != PROEM_OK) return err_set(t->err, s, "%s", e.text);
    return conclude(t, j, r);
}

static enum proem_status tune_kernel(struct tuner *t, struct tune_job *j) {
    struct tune_data data = {0};
    struct trials trials = {0};
    const char *note = NULL;
    if (j->n < 2) return leave(j->kernel, "there is no other way to cut it");
    enum proem_status s = tune_data_make(t->p, &j->unit[0].kernels[0], &data, &note, t->err);
    if (s == PROEM_OK && note != NULL)
        s = give_up(t, j->kernel, note);
    else if (s == PROEM_OK)
        s = measure(t, j, &data, &trials);
    free_trials(&trials);
    tune_data_free(&t->p->c->alloc, &data);
    return s;
}

/* ---- all kernels ----------------------------------------------------------------------------- */

static void report(const struct proem_program *p, int done, int total) {
    if (p->opt.progress != NULL) p->opt.progress(p->opt.progress_user, "tuning", done, total);
}

static enum proem_status tune_jobs(struct tuner *t) {
    struct tune_job **todo = ARENA_NEW(&t->p->arena, struct tune_job *, t->n);
    const char *what = circumstances(t);
    int n = 0;
    if (todo == NULL || what == NULL) return err_nomem(t->err);
    for (int i = 0; i < t->n; i++) {
        bool wanted;
        TRY(open_job(t, &t->jobs[i], what, &wanted));
        if (wanted) todo[n++] = &t->jobs[i];
    }
    if (n > 0) TRY(is_cuda(t->p) ? tune_cuda_load(t->p, todo, n, t->err) : load(t, todo, n));
    for (int i = 0; i < n; i++) {
        report(t->p, i, n);
        TRY(tune_kernel(t, todo[i]));
    }
    if (n > 0) report(t->p, n, n);
    for (int i = 0; i < t->n; i++) {
        const struct tune_job *j = &t->jobs[i];
        if (j->twin == NULL) continue;
        j->kernel->tile = j->twin->kernel->tile;
        j->kernel->model_tile = j->twin->kernel->model_tile;
        j->kernel->tuned = j->twin->kernel->tuned;
    }
    return PROEM_OK;
}

static void close_jobs(struct tuner *t) {
    for (int i = 0; i < t->n; i++) {
        for (int f = 0; f < t->jobs[i].n; f++) {
            rt_module_unref(t->jobs[i].module[f]);
            rt_cubin_unref(t->jobs[i].cubin[f]);
            if (t->jobs[i].unit[f].text.alloc != NULL) str_free(&t->jobs[i].unit[f].text);
        }
    }
}

enum proem_status program_tune(struct proem_program *p, struct err *e) {
    if (p->opt.tune == TUNE_OFF) return PROEM_OK;
    struct tuner t = {.p = p, .err = e};
    t.jobs = ARENA_NEW(&p->arena, struct tune_job, p->plan.kernels.n);
    if (t.jobs == NULL) return err_nomem(e);
    const char *why = obstacle(&t);
    for (size_t i = 0; i < p->plan.kernels.n; i++) {
        struct kernel *k = p->plan.kernels.at[i];
        if (k->kind != KERNEL_MATMUL) continue;
        struct tune_job *j = &t.jobs[t.n];
        *j = (struct tune_job){.kernel = k};
        if (why != NULL)
            TRY(give_up(&t, k, why));
        else if (!set_sizes(p, k, &j->problem))
            TRY(give_up(&t, k, "its sizes are not known"));
        else if (j->problem.Z == 0 || j->problem.M == 0 || j->problem.N == 0)
            TRY(leave(k, "its result is empty"));
        else
            t.n++;
    }
    if (t.n == 0) return PROEM_OK;
    if (!is_cuda(p)) TRY(context_pool(p->c, &p->pool, e));
    enum proem_status s = tune_jobs(&t);
    close_jobs(&t);
    return s;
}
