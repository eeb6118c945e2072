/* SPDX-License-Identifier: MIT
 * ONNX node tests: DIR/CASE/model.onnx with DIR/CASE/test_data_set_0/{input,output}_I.pb, a tensor a
 * file. Each model is imported, with the values of its inputs where shapes depend on them, and its
 * graph is run by the reference interpreter and on the CPU, many models in one call of the compiler.
 * Both are held against the outputs that the test gives, with the tolerances of ONNX's own runner
 * (relative 1e-3, absolute 1e-7); elements of 16 bits and less may be two units in the last place
 * off. With NEAR=n floats may be n millionths of the output's largest element off: sums that cancel. A
 * case may say otherwise, by a number in its file `near`.
 *
 * onnx DIR=.. [ONLY=text] [DEVICE=both|ref|cpu] [N=200 SEED=1: that many on the CPU, chosen by the
 * seed] [JOBS=2] [BATCH=32] [CC=..] [OPT=-O0] [CACHE=..] [PRINT=1]
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/onnx/model.h"
#include "graph/print.h"
#include "harness.h"

enum { MAX_TENSORS = 64, MAX_CASES = 8192 };

struct options {
    const char *dir, *only, *device, *cc, *opt, *cache;
    int n, jobs, batch, print, near;
    int64_t seed;
};

struct run {
    struct options o;
    char *name[MAX_CASES];
    bool on_cpu[MAX_CASES];
    int n, passed, failed, skipped, cpu;
};

struct test {
    struct arena arena;
    struct err err;
    const char *folder;
    struct onnx_model *m;
    struct array in[MAX_TENSORS], want[MAX_TENSORS];
    int n_in, n_want, near;
    struct subject s;
    bool open;
    struct variant v;
};

/* ---- reading a case -------------------------------------------------------------------------- */

static int read_list(struct test *t, const char *kind, struct array *out) {
    int n = 0;
    for (; n < MAX_TENSORS; n++) {
        const char *path =
            arena_printf(&t->arena, "%s/test_data_set_0/%s_%d.pb", t->folder, kind, n);
        FILE *f = path != NULL ? fopen(path, "rb") : NULL;
        if (f == NULL) break;
        fclose(f);
        if (onnx_tensor_file(&t->arena, path, &allocator_default, &out[n], &t->err) != PROEM_OK)
            return -1;
    }
    return n;
}

static const struct array *given(void *user, const char *name, enum dtype d, int rank) {
    const struct test *t = user;
    const Onnx__GraphProto *g = t->m->proto->graph;
    (void)d, (void)rank;
    for (size_t i = 0; i < g->n_input && i < (size_t)t->n_in; i++) {
        if (strcmp(g->input[i]->name, name) == 0) return &t->in[i];
    }
    return NULL;
}

static enum proem_status import(struct test *t, struct graph **g) {
    struct onnx_options o = {given, t, "model.onnx"};
    const char *path = arena_printf(&t->arena, "%s/model.onnx", t->folder);
    if (path == NULL) return err_nomem(&t->err);
    TRY(onnx_model_open(&t->arena, path, &t->m, &t->err));
    if ((t->n_in = read_list(t, "input", t->in)) < 0) return t->err.status;
    if ((t->n_want = read_list(t, "output", t->want)) < 0) return t->err.status;
    return onnx_import(&t->arena, t->m, &o, g, &t->err);
}

/* The graph again, from its text, as anybody else would get it. */
static enum proem_status parse(struct test *t, const struct graph *g, bool print) {
    struct subject *s = &t->s;
    struct graph_file file;
    struct str text;
    str_init(&text, &allocator_default);
    graph_print(g, false, &text);
    if (print) fputs(str_text(&text), stdout);
    memset(&file, 0, sizeof file);
    enum proem_status status =
        graph_parse(&s->arena, "model.onnx", str_text(&text), text.n, false, &file, &t->err);
    str_free(&text);
    TRY(status);
    s->g = file.graphs.at[0];
    return graph_verify(s->g, &t->err);
}

/* The data of a parameter: an input of the test, or a tensor of the model. */
static enum proem_status param_data(struct test *t, size_t i, struct array *out, bool *own) {
    const struct param *p = &t->s.g->params.at[i];
    const char *name = graph_value(t->s.g, p->value)->name;
    *own = p->source != NULL;
    for (size_t k = 0; *own && k < t->m->tensors.n; k++) {
        if (strcmp(t->m->tensors.at[k].key, p->source + strlen("model.onnx:")) == 0)
            return onnx_model_tensor(t->m, k, &allocator_default, out, &t->err);
    }
    const struct array *a = *own ? NULL : given(t, name, DT_NONE, 0);
    if (a == NULL) return err_set(&t->err, PROEM_INVALID, "there is no data for '%s'", name);
    *out = *a;
    return PROEM_OK;
}

static enum proem_status fill(struct test *t) {
    struct subject *s = &t->s;
    int *rank = ARENA_NEW(&s->arena, int, s->g->params.n + 1);
    const int64_t **shape = ARENA_NEW(&s->arena, const int64_t *, s->g->params.n + 1);
    s->in = ARENA_NEW(&s->arena, struct guarded, s->g->params.n + 1);
    if (rank == NULL || shape == NULL || s->in == NULL) return err_nomem(&t->err);
    for (size_t i = 0; i < s->g->params.n; i++) {
        struct array a;
        bool own;
        TRY(param_data(t, i, &a, &own));
        struct guarded *in = &s->in[i];
        in->dtype = a.type.dtype;
        in->rank = rank[i] = a.type.rank;
        memcpy(in->shape, a.type.shape, sizeof in->shape);
        shape[i] = in->shape;
        bool ok = guarded_new(in, (int)(i % 3));
        if (ok && a.bytes > 0) memcpy(in->data, a.data, a.bytes);
        if (own) array_free(&a);
        if (!ok) return err_nomem(&t->err);
    }
    s->dims = dims_binding_new(&s->arena, s->g);
    TRY(dims_bind_params(s->g, &s->dims, rank, shape, &t->err));
    TRY(dims_check(s->g, &s->dims, &t->err));
    return opt_lower(s->g, &s->low, &t->err);
}

static int near_of(struct test *t, int near) {
    const char *path = arena_printf(&t->arena, "%s/near", t->folder);
    char *text = path != NULL ? text_of_file(path) : NULL;
    if (text != NULL) near = atoi(text);
    free(text);
    return near;
}

static enum proem_status open_test(struct test *t, const struct options *o, const char *name) {
    struct graph *g = NULL;
    arena_init(&t->arena, &allocator_default);
    t->s = (struct subject){.seed = 0};
    arena_init(&t->s.arena, &allocator_default);
    t->open = true;
    t->folder = arena_printf(&t->arena, "%s/%s", o->dir, name);
    if (t->folder == NULL) return err_nomem(&t->err);
    t->near = near_of(t, o->near);
    TRY(import(t, &g));
    TRY(parse(t, g, o->print != 0));
    return fill(t);
}

static void close_test(struct test *t) {
    if (!t->open) return;
    variant_close(&t->v);
    if (t->s.g != NULL) subject_close(&t->s);
    for (int i = 0; i < MAX_TENSORS; i++) {
        if (t->in[i].data != NULL) array_free(&t->in[i]);
        if (t->want[i].data != NULL) array_free(&t->want[i]);
    }
    arena_free(&t->arena);
}

/* ---- results --------------------------------------------------------------------------------- */

static bool close_enough(enum dtype d, union scalar got, union scalar want, double near) {
    if (!dtype_is_float(d)) return got.i == want.i;
    if (isnan(want.f) || isnan(got.f)) return isnan(want.f) && isnan(got.f);
    if (isinf(want.f) || isinf(got.f)) return want.f == got.f;
    double relative = 1e-3;
    const double absolute = 1e-7;
    if (dtype_bits(d) <= 16) relative = 4 * ldexp(1, -dtype_significand(d));
    return fabs(got.f - want.f) <= absolute + near + relative * fabs(want.f);
}

static double largest(const struct array *a) {
    double most = 0;
    for (int64_t i = 0; i < a->count && dtype_is_float(a->type.dtype); i++) {
        double v = fabs(elem_load(a->type.dtype, a->data, i).f);
        if (isfinite(v) && v > most) most = v;
    }
    return most;
}

static void print_type(enum dtype d, int rank, const int64_t *shape, struct str *out) {
    struct array_type type = {.dtype = d, .rank = rank};
    if (rank > 0) memcpy(type.shape, shape, (size_t)rank * sizeof *shape);
    array_type_print(&type, out);
}

static bool same_type(enum dtype d, int rank, const int64_t *shape, const struct array_type *want) {
    if (d != want->dtype || rank != want->rank) return false;
    return rank == 0 || memcmp(shape, want->shape, (size_t)rank * sizeof *shape) == 0;
}

/* One output of a device; false with the reason in why. */
static bool compare(const char *device, int i, enum dtype d, int rank, const int64_t *shape,
                    const void *data, const struct array *want, int near, char *why, size_t n) {
    if (!same_type(d, rank, shape, &want->type)) {
        struct str s;
        str_init(&s, &allocator_default);
        print_type(d, rank, shape, &s);
        str_add(&s, ", expected ");
        print_type(want->type.dtype, want->type.rank, want->type.shape, &s);
        snprintf(why, n, "%s: output %d is %s", device, i, str_text(&s));
        str_free(&s);
        return false;
    }
    double off = near > 0 ? near * 1e-6 * largest(want) : 0;
    for (int64_t k = 0; k < want->count; k++) {
        union scalar a = elem_load(d, data, k), b = elem_load(d, want->data, k);
        if (close_enough(d, a, b, off)) continue;
        bool is_float = dtype_is_float(d);
        snprintf(why, n, "%s: output %d element %lld is %.9g, expected %.9g", device, i,
                 (long long)k, is_float ? a.f : (double)a.i, is_float ? b.f : (double)b.i);
        return false;
    }
    return true;
}

static void fail(struct outcome *o, const char *device, const struct err *e) {
    o->state = OUTCOME_FAILED;
    snprintf(o->text, sizeof o->text, "%s: %.500s", device, e->text);
}

static bool check_reference(struct test *t, int near, struct outcome *o) {
    struct eval_results r;
    struct err e;
    err_clear(&e);
    if (subject_reference(&t->s, PREC_BOUNDARY, 0, 1, &r, &e) != PROEM_OK) {
        fail(o, "ref", &e);
        return false;
    }
    bool ok = true;
    for (int i = 0; i < r.n && i < t->n_want && ok; i++)
        ok = compare("ref", i, r.at[i].dtype, r.at[i].rank, r.at[i].shape, r.at[i].data,
                     &t->want[i], near, o->text, sizeof o->text);
    eval_results_free(&r);
    if (!ok) o->state = OUTCOME_FAILED;
    return ok;
}

static bool check_cpu(struct rig *r, struct test *t, int near, struct outcome *o) {
    if (variant_run(r, &t->v) != PROEM_OK) {
        fail(o, "cpu", &t->v.err);
        return false;
    }
    bool ok = true;
    for (int i = 0; i < (int)t->s.g->outputs.n && i < t->n_want && ok; i++) {
        const struct guarded *g = &t->v.out[i];
        ok = compare("cpu", i, g->dtype, g->rank, g->shape, g->data, &t->want[i], near, o->text,
                     sizeof o->text);
    }
    if (!ok) o->state = OUTCOME_FAILED;
    return ok;
}

/* ---- batches --------------------------------------------------------------------------------- */

static bool uses(const struct options *o, const char *device) {
    return strcmp(o->device, "both") == 0 || strcmp(o->device, device) == 0;
}

static void prepare(struct run *run, int i, struct rig *r, struct test *t, struct outcome *o) {
    if (open_test(t, &run->o, run->name[i]) != PROEM_OK) {
        bool lacking = t->err.status == PROEM_UNSUPPORTED &&
                       strstr(t->err.text, "operators that are not supported") != NULL;
        fail(o, "import", &t->err);
        if (lacking) o->state = OUTCOME_SKIPPED;
        return;
    }
    if (uses(&run->o, "ref") && !check_reference(t, t->near, o)) return;
    if (!run->on_cpu[i]) {
        o->state = OUTCOME_PASSED;
        return;
    }
    if (variant_plan(&t->v, &t->s, PREC_BOUNDARY, FUSE_MODEL, r) != PROEM_OK)
        fail(o, "plan", &t->v.err);
}

static void batch_body(void *user, int first, int count, volatile int *at, struct outcome *out) {
    struct run *run = user;
    const struct options *o = &run->o;
    struct rig r;
    struct err e;
    err_clear(&e);
    struct rig_options ro = {
        .threads = 1, .cache_dir = o->cache, .compiler = o->cc, .optimize = o->opt};
    struct test *t = calloc((size_t)count, sizeof *t);
    struct variant **v = calloc((size_t)count, sizeof(struct variant *));
    if (t == NULL || v == NULL || rig_open(&r, &ro, &e) != PROEM_OK) exit(3);
    int n = 0;
    for (int i = 0; i < count; i++) {
        *at = first + i;
        if (out[first + i].state != OUTCOME_NONE) continue;
        prepare(run, first + i, &r, &t[i], &out[first + i]);
        if (out[first + i].state == OUTCOME_NONE) v[n++] = &t[i].v;
    }
    *at = -1;
    variants_compile(&r, v, n);
    for (int i = 0; i < count; i++) {
        *at = first + i;
        struct outcome *one = &out[first + i];
        if (one->state == OUTCOME_NONE && check_cpu(&r, &t[i], t[i].near, one))
            one->state = OUTCOME_PASSED;
        close_test(&t[i]);
    }
    rig_close(&r);
    free(t);
    free(v);
}

static void report(void *user, int i, const struct outcome *o) {
    struct run *run = user;
    if (o->state == OUTCOME_PASSED) {
        run->passed++;
        return;
    }
    bool skipped = o->state == OUTCOME_SKIPPED;
    run->skipped += skipped;
    run->failed += !skipped;
    printf("%s %s: %s\n", skipped ? "SKIPPED" : "FAILED", run->name[i], o->text);
    fflush(stdout);
}

/* ---- the run --------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool list_cases(struct run *run) {
    DIR *d = run->o.dir != NULL ? opendir(run->o.dir) : NULL;
    if (d == NULL) {
        fprintf(stderr, "onnx: DIR=FOLDER of node tests is needed\n");
        return false;
    }
    for (struct dirent *e; (e = readdir(d)) != NULL && run->n < MAX_CASES;) {
        if (e->d_name[0] == '.' || (run->o.only != NULL && strstr(e->d_name, run->o.only) == NULL))
            continue;
        if ((run->name[run->n] = strdup(e->d_name)) != NULL) run->n++;
    }
    closedir(d);
    qsort(run->name, (size_t)run->n, sizeof run->name[0], by_name);
    return true;
}

/* Which cases run on the CPU: all, or N of them by the seed. */
static void choose(struct run *run) {
    bool all = run->o.n == 0 || run->o.n >= run->n;
    int64_t *at = calloc((size_t)run->n + 1, sizeof *at);
    if (at == NULL || !uses(&run->o, "cpu")) {
        free(at);
        return;
    }
    if (!all) random_choose(run->n, run->o.n, (uint64_t)run->o.seed, "node tests", at);
    run->cpu = all ? run->n : run->o.n;
    for (int i = 0; i < run->cpu; i++)
        run->on_cpu[all ? i : at[i]] = true;
    free(at);
}

int main(int argc, char **argv) {
    static struct run run = {
        .o = {.device = "both", .jobs = 2, .batch = 32, .seed = 1, .cc = "clang", .opt = "-O0"}};
    struct options *o = &run.o;
    const struct setting list[] = {{"DIR", SETTING_TEXT, &o->dir},
                                   {"ONLY", SETTING_TEXT, &o->only},
                                   {"DEVICE", SETTING_TEXT, &o->device},
                                   {"CC", SETTING_TEXT, &o->cc},
                                   {"OPT", SETTING_TEXT, &o->opt},
                                   {"CACHE", SETTING_TEXT, &o->cache},
                                   {"N", SETTING_INT, &o->n},
                                   {"JOBS", SETTING_INT, &o->jobs},
                                   {"BATCH", SETTING_INT, &o->batch},
                                   {"NEAR", SETTING_INT, &o->near},
                                   {"PRINT", SETTING_INT, &o->print},
                                   {"SEED", SETTING_LONG, &o->seed}};
    if (!settings_read("onnx", list, COUNT_OF(list), argc, argv)) return 2;
    if (!list_cases(&run)) return 2;
    choose(&run);
    struct outcome *out = run_isolated(run.n, o->batch, o->jobs, 300, batch_body, &run, report);
    if (out == NULL) return 3;
    outcomes_free(out, run.n);
    printf("%d cases, %d of them on the CPU\n", run.n, run.cpu);
    printf("%d passed, %d failed, %d skipped\n", run.passed, run.failed, run.skipped);
    return run.failed > 0 || run.passed == 0;
}
