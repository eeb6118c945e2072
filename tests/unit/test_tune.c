/* SPDX-License-Identifier: MIT
 * Tuning: every tile on offer gives the bits of the model's; a choice is measured once, kept, and
 * taken again for the same kernel, sizes and threads only; what cannot be measured says why, and is
 * an error with --strict.
 */
#include "api_util.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "driver/driver.h"

/* ---- programs -------------------------------------------------------------------------------- */

struct setup {
    const char *text;
    int64_t m; /* size of the symbol M; -1: not given */
    enum precision prec;
    enum tune_mode tune;
    bool strict;
    const char *compiler, *cache;
    const char *arch;
    int threads;
};

struct seen {
    int calls, total;
};

static void count_call(void *user, const char *stage, int done, int total) {
    struct seen *s = user;
    assert_string_equal(stage, "tuning");
    assert_true(done >= 0 && done <= total);
    s->calls++;
    s->total = total;
}

struct made {
    proem_context *c;
    proem_program *p;
    struct seen seen;
    struct err e;
    enum proem_status status; /* of the passes up to tuning */
};

static void make(struct made *m, const struct setup *s) {
    static const char *const clang[] = {"-O0", NULL}, *const gcc[] = {"-O1", NULL};
    bool has_clang = system("command -v clang >/dev/null 2>&1") == 0; /* twice as fast at -O0 */
    struct context_extra extra = {.compiler_flags = has_clang && !s->compiler ? clang : gcc};
    struct proem_context_options o;
    proem_context_options_init(&o);
    *m = (struct made){0};
    o.cache_dir = s->cache;
    o.compiler = s->compiler != NULL ? s->compiler : has_clang ? "clang" : NULL;
    o.threads = s->threads > 0 ? s->threads : 2;
    assert_int_equal(context_new(&o, &extra, &m->c, &m->e), PROEM_OK);
    struct program_options po = {.prec = s->prec,
                                 .tune = s->tune,
                                 .strict = s->strict,
                                 .progress = count_call,
                                 .progress_user = &m->seen};
    po.target = *context_native(m->c);
    if (s->arch != NULL) assert_true(device_by_name(s->arch, strlen(s->arch), &po.target));
    assert_int_equal(program_new(m->c, &po, &m->p, &m->e), PROEM_OK);
    program_set_text(m->p, s->text, strlen(s->text), "g.proem", NULL, false);
    assert_int_equal(program_run(m->p, PASS_PARSE, PASS_PARSE, &m->e), PROEM_OK);
    if (s->m >= 0)
        assert_int_equal(dims_bind_name(m->p->graph, &m->p->dims, "M", s->m, &m->e), PROEM_OK);
    m->status = program_run(m->p, PASS_LOWER, PASS_TUNE, &m->e);
}

static void drop(struct made *m) {
    proem_program_destroy(m->p);
    proem_context_destroy(m->c);
}

static struct kernel *product(const struct made *m) {
    for (size_t i = 0; i < m->p->plan.kernels.n; i++) {
        if (m->p->plan.kernels.at[i]->kind == KERNEL_MATMUL) return m->p->plan.kernels.at[i];
    }
    fail_msg("there is no product");
    return NULL;
}

/* ---- runs ------------------------------------------------------------------------------------ */

#define MOST_TENSORS 6
#define ROOM         (64 * 1024)

struct io {
    struct tensor in[MOST_TENSORS], out[MOST_TENSORS];
    const DLTensor *in_ptr[MOST_TENSORS];
    DLTensor *out_ptr[MOST_TENSORS];
    size_t n_in, n_out;
    unsigned char *data;
};

static void fill_tensor(unsigned char *at, enum dtype d, int64_t n, int seed) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t r = ((uint32_t)i * 2654435761u + (uint32_t)seed * 40503u) >> 8;
        union scalar v = {.i = (int64_t)(r % 5)}; /* an index of every table here */
        if (dtype_is_float(d)) v.f = float_round(d, (double)(r % 65521) / 8192 - 4, true);
        if (d == DT_I8) v.i = (int64_t)(r % 255) - 127;
        elem_store(d, at, i, v);
    }
}

static void describe(struct tensor *t, const struct proem_program *p, value_id v, int64_t m,
                     unsigned char *data, int64_t *count) {
    const struct value *val = graph_value(p->graph, v);
    struct dims_binding b = p->dims;
    struct err e = {0};
    int64_t shape[MAX_RANK], size = m;
    if (b.n > 0) b.value = &size;
    assert_int_equal(dims_shape(p->graph, &b, v, shape, &e), PROEM_OK);
    DLDataType dl = dtype_to_dl(val->dtype);
    tensor_set(t, data, dl.code, dl.bits, val->rank, shape);
    *count = 1;
    for (int i = 0; i < val->rank; i++)
        *count *= shape[i];
    assert_true(dtype_bytes(val->dtype, *count) <= ROOM);
}

static void io_make(struct io *io, const struct proem_program *p, int64_t m) {
    *io = (struct io){.n_in = p->graph->params.n, .n_out = p->graph->outputs.n};
    assert_true(io->n_in <= MOST_TENSORS && io->n_out <= MOST_TENSORS);
    io->data = calloc(2 * MOST_TENSORS, ROOM);
    assert_non_null(io->data);
    int64_t n;
    for (size_t i = 0; i < io->n_in; i++) {
        value_id v = p->graph->params.at[i].value;
        unsigned char *at = io->data + i * ROOM;
        describe(&io->in[i], p, v, m, at, &n);
        fill_tensor(at, graph_value(p->graph, v)->dtype, n, (int)i);
        io->in_ptr[i] = &io->in[i].t;
    }
    for (size_t i = 0; i < io->n_out; i++) {
        unsigned char *at = io->data + (MOST_TENSORS + i) * ROOM;
        describe(&io->out[i], p, p->graph->outputs.at[i].value, m, at, &n);
        io->out_ptr[i] = &io->out[i].t;
    }
}

/* Generate, compile and run what the plan says now; the outputs' memory in *out. */
static void run_plan(struct made *m, int64_t size, unsigned char *out) {
    struct io io;
    proem_execution *x = NULL;
    if (program_run(m->p, PASS_GEN, PASS_LINK, &m->e) != PROEM_OK) fail_msg("%s", m->e.text);
    assert_int_equal(proem_execution_create(m->p, &x), PROEM_OK);
    io_make(&io, m->p, size);
    run_ok(x, io.in_ptr, io.n_in, io.out_ptr, io.n_out);
    memcpy(out, io.data + MOST_TENSORS * ROOM, (size_t)MOST_TENSORS * ROOM);
    free(io.data);
    proem_execution_destroy(x);
}

/* ---- candidates ------------------------------------------------------------------------------ */

static const char dense[] = "graph g(x: f32[M, 70], const w: f32[70, 90], b: f32[90]) {\n"
                            "  h = matmul(x, w) + b\n  return h, relu(h)\n}\n";
static const char dequant[] = "graph g(x: bf16[M, 96], const w: i8[70, 96], const s: f32[70]) {\n"
                              "  return silu(linear(x, dequantize(w, s, axis=0, dtype=bf16)))\n}\n";
static const char two[] = "graph g(x: f32[M, 40], const u: f32[40, 66], const v: f32[40, 66]) {\n"
                          "  return silu(matmul(x, u)) * matmul(x, v)\n}\n";
static const char wide[] = "graph g(x: f64[M, 37], w: f64[37, 35]) { return matmul(x, w) }\n";
static const char bytes[] = "graph g(x: i8[M, 80], w: i8[80, 50]) { return matmul(x, w) }\n";
static const char thin[] = "graph g(x: f32[M, 70], w: f32[70, 5]) { return matmul(x, w) * 2 }\n";
static const char gather[] = "graph g(t: f32[9, 50], i: i32[M], w: f32[50, 40]) {\n"
                             "  return matmul(take(t, i), w)\n}\n";
/* What grouped_matmul becomes, with two rows a group's row. */
static const char grouped[] =
    "graph g(a: f32[M, 2, 24], b: f32[3, 24, 20], o: i32[3]) {\n"
    "  group = sum(unsqueeze(o, 0) <= iota(i64, [M, 1], axis=0), axes=[1])\n"
    "  return matmul(a, take(b, where(group < 3, group, 0)))\n}\n";

static const struct {
    const char *text;
    int64_t m;
    enum precision prec;
} problems[] = {
    {dense, 33, PREC_BOUNDARY}, {dense, 3, PREC_EAGER},    {dequant, 40, PREC_BOUNDARY},
    {two, 2, PREC_BOUNDARY},    {wide, 19, PREC_BOUNDARY}, {thin, 60, PREC_BOUNDARY},
    {bytes, 30, PREC_NATIVE},
};

static struct tile_problem sizes_of(const struct made *m, const struct kernel *k) {
    struct tile_problem tp = k->problem;
    const struct proem_program *p = m->p;
    assert_true(dims_value(p->graph, &p->dims, k->Z, &tp.Z));
    assert_true(dims_value(p->graph, &p->dims, k->M, &tp.M));
    assert_true(dims_value(p->graph, &p->dims, k->N, &tp.N));
    assert_true(dims_value(p->graph, &p->dims, k->K, &tp.K));
    return tp;
}

/* How many candidates problem i has, and the one asked for. */
static int candidate(size_t i, int number, struct tile *out, struct tile *model) {
    struct setup s = {.text = problems[i].text, .m = problems[i].m, .prec = problems[i].prec};
    struct tile list[TILE_CANDIDATES];
    struct made m;
    make(&m, &s);
    struct kernel *k = product(&m);
    struct tile_problem tp = sizes_of(&m, k);
    *model = k->tile;
    int n = tile_candidates(&tp, model, &m.p->opt.target, false, list);
    if (number < n) *out = list[number];
    drop(&m);
    return n;
}

static void run_with(size_t i, const struct tile *t, unsigned char *out) {
    struct setup s = {
        .text = problems[i].text, .m = problems[i].m, .prec = problems[i].prec, .cache = cache_dir};
    struct made m;
    make(&m, &s);
    product(&m)->tile = *t;
    run_plan(&m, problems[i].m, out);
    drop(&m);
}

/* All bits of all outputs, with each tile that may be chosen. */
static void test_candidates_keep_bits(void **state) {
    (void)state;
    size_t all = (size_t)MOST_TENSORS * ROOM;
    unsigned char *want = malloc(all), *got = malloc(all);
    assert_non_null(want);
    assert_non_null(got);
    for (size_t i = 0; i < COUNT_OF(problems); i++) {
        struct tile model, t = {0};
        int n = candidate(i, 0, &t, &model);
        assert_true(n >= 1 && n <= TILE_CANDIDATES);
        run_with(i, &model, want);
        for (int c = (int)i % 2; c < n; c += 2) { /* compiling is what takes time */
            candidate(i, c, &t, &model);
            assert_false(tile_equal(&t, &model));
            assert_string_equal(t.order, model.order);
            run_with(i, &t, got);
            if (memcmp(want, got, all) != 0)
                fail_msg("problem %d: tile %d (%d x %d, %d %d %d, rows %d) changes bits", (int)i, c,
                         t.mr, t.nv, t.mc, t.kc, t.nc, t.rows_mr);
        }
    }
    free(want);
    free(got);
}

/* For every device and many sizes: distinct tiles, legal for the templates, of the same order. */
static void test_candidate_lists(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 5, 8, 9, 40, 300, 5000};
    static const enum dtype accs[] = {DT_F32, DT_F64, DT_I32};
    struct tile list[TILE_CANDIDATES];
    int reordered = 0;
    for (int d = 0; device_name_at(d) != NULL; d++) {
        struct device_desc dev;
        assert_true(device_by_name(device_name_at(d), strlen(device_name_at(d)), &dev));
        for (size_t i = 0; i < COUNT_OF(sizes) * COUNT_OF(sizes) * COUNT_OF(accs) * 2; i++) {
            struct tile_problem p = {.acc = accs[i % 3], .n_b = 1 + (int)(i & 1), .Z = 1};
            p.M = sizes[i / 3 % 8];
            p.N = sizes[i / 24 % 8];
            p.K = 512;
            p.one_order = i >= 192;
            struct tile t = tile_matmul(&p, &dev);
            int n = tile_candidates(&p, &t, &dev, true, list), same = 0;
            for (int c = 0; c < n; c++) {
                const struct tile *x = &list[c];
                int lanes = tile_lanes(&dev);
                assert_false(tile_equal(x, &t));
                for (int o = 0; o < c; o++)
                    assert_false(tile_equal(x, &list[o]));
                assert_true(x->mr <= lanes && (x->mr <= 4 || x->mr % 2 == 0) && x->mr >= 1);
                assert_true(x->nv >= 1 && x->nv <= 4 && x->nc % (x->nv * lanes) == 0);
                assert_true(x->nc > 0 && x->kc > 0 && x->kc % lanes == 0 && x->mc > 0);
                assert_true(x->rows_mr >= 1 && x->rows_mr <= (p.n_b > 1 ? 4 : 8));
                assert_true(x->packed || x->rows);
                assert_true(x->swap == t.swap);
                same += strcmp(x->order, t.order) == 0;
            }
            reordered += n - same;
            if (p.one_order) assert_int_equal(n, same);
            int without = tile_candidates(&p, &t, &dev, false, list);
            if (n < TILE_CANDIDATES) assert_int_equal(without, same); /* else the last gave way */
            assert_true(without >= same);
        }
    }
    assert_true(reordered > 0);
}

/* ---- choices --------------------------------------------------------------------------------- */

/* Measured once; then from the cache, by another context; other sizes and threads are measured. */
static void test_choice_is_kept(void **state) {
    (void)state;
    struct setup s = {.text = dense, .m = 33, .tune = TUNE_TILES, .cache = cache_dir};
    struct made first, again;
    make(&first, &s);
    if (first.status != PROEM_OK) fail_msg("%s", first.e.text);
    assert_int_equal(first.seen.calls, 2); /* 0 of 1, 1 of 1 */
    assert_int_equal(first.seen.total, 1);
    const struct kernel_tuned *t = &product(&first)->tuned;
    assert_true(t->done && !t->cached && !t->reordered && t->note == NULL);
    assert_true(t->tried > 2 && t->model_us > 0 && t->taken_us > 0);
    bool moved = !tile_equal(&product(&first)->tile, &product(&first)->model_tile);
    if (moved) assert_true(t->taken_us < t->model_us);
    make(&again, &s);
    assert_int_equal(again.status, PROEM_OK);
    assert_int_equal(again.seen.calls, 0);
    assert_true(product(&again)->tuned.cached);
    assert_int_equal(product(&again)->tuned.tried, t->tried);
    assert_true(tile_equal(&product(&again)->tile, &product(&first)->tile));
    drop(&again);
    s.m = 34;
    make(&again, &s);
    assert_int_equal(again.seen.calls, 2);
    drop(&again);
    s.m = 33;
    s.threads = 1;
    make(&again, &s);
    assert_int_equal(again.seen.calls, 2);
    drop(&again);
    s.threads = 0;
    s.tune = TUNE_OFF;
    make(&again, &s);
    assert_false(product(&again)->tuned.done); /* without the option the model decides */
    assert_true(tile_equal(&product(&again)->tile, &product(&again)->model_tile));
    drop(&again);
    drop(&first);
}

/* Two products of equal text and sizes are measured once, and both get the choice. */
static void test_equal_kernels(void **state) {
    (void)state;
    static const char text[] =
        "graph g(x: f32[M, 48], const u: f32[48, 48], const v: f32[48, 48]) {\n"
        "  return matmul(x, u), matmul(x, v)\n}\n";
    struct setup s = {.text = text, .m = 50, .tune = TUNE_TILES};
    struct made m;
    make(&m, &s);
    assert_int_equal(m.status, PROEM_OK);
    assert_int_equal(m.p->plan.kernels.n, 2);
    assert_int_equal(m.seen.total, 1);
    const struct kernel *a = m.p->plan.kernels.at[0], *b = m.p->plan.kernels.at[1];
    assert_true(a->tuned.done && b->tuned.done);
    assert_true(tile_equal(&a->tile, &b->tile));
    drop(&m);
}

/* What lies in the cache is taken only if it is on offer. */
static void test_damaged_choice(void **state) {
    (void)state;
    char dir[] = "/tmp/proem-test-tune-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct setup s = {.text = wide, .m = 19, .tune = TUNE_TILES, .cache = dir};
    static const char *const texts[] = {"", "x", "1 0 9 9 9 9 9 9 9 9 9 9 9 9\n",
                                        "1 0 4 1 2048 512 128 8 8 0 1 13 5 4", "1e300 0 0"};
    struct made m;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        make(&m, &s);
        assert_int_equal(m.status, PROEM_OK);
        assert_int_equal(m.seen.calls, 2); /* measured each time */
        /* Every choice gets the text, under a trailer that is whole. */
        DIR *d = opendir(dir);
        assert_non_null(d);
        for (struct dirent *f; (f = readdir(d)) != NULL;) {
            char key[64];
            size_t n = strlen(f->d_name);
            if (n < 5 || n > 60 || strcmp(f->d_name + n - 4, ".txt") != 0) continue;
            memcpy(key, f->d_name, n - 4);
            key[n - 4] = '\0';
            struct str old;
            str_init(&old, &allocator_default);
            assert_true(rt_choice_find(m.c->rt, key, &old));
            bool is_choice = strncmp(str_text(&old), "1 0 ", 4) == 0 || i > 0;
            bool is_version = strstr(str_text(&old), "(") != NULL;
            if (is_choice && !is_version) rt_choice_keep(m.c->rt, key, texts[i], strlen(texts[i]));
            str_free(&old);
        }
        closedir(d);
        drop(&m);
    }
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

/* Another order of k is taken only if asked for, and is reported. */
static void test_order(void **state) {
    (void)state;
    struct setup s = {.text = dense, .m = 8, .tune = TUNE_ORDER};
    struct made m;
    make(&m, &s);
    assert_int_equal(m.status, PROEM_OK);
    const struct kernel *k = product(&m);
    assert_true(k->tuned.done);
    assert_int_equal(k->tuned.reordered, strcmp(k->tile.order, k->model_tile.order) != 0);
    struct str text;
    str_init(&text, &allocator_default);
    tuned_print(k, &text);
    assert_int_equal(strstr(str_text(&text), "results may differ") != NULL, k->tuned.reordered);
    str_free(&text);
    drop(&m);
}

/* ---- data and obstacles ---------------------------------------------------------------------- */

/* Indices and offsets are made such that the kernel may be run. */
static void test_data_obeys_checks(void **state) {
    (void)state;
    static const char by_argmax[] =
        "graph g(x: f32[4, M, 24], b: f32[3, 24, 20], s: f32[4, 3]) {\n"
        "  i = argmax(s, axis=1)\n  return matmul(x, take(b, i)), i\n}\n";
    static const char *const texts[] = {gather, grouped, by_argmax};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct setup s = {.text = texts[i], .m = 20, .tune = TUNE_TILES, .strict = true};
        struct made m;
        make(&m, &s);
        if (m.status != PROEM_OK) fail_msg("%s", m.e.text);
        if (!product(&m)->tuned.done) fail_msg("%s", product(&m)->tuned.note);
        drop(&m);
    }
}

static void expect_note(const struct setup *s, const char *part) {
    struct setup strict = *s;
    struct made m;
    make(&m, s);
    if (m.status != PROEM_OK) fail_msg("%s", m.e.text);
    const struct kernel *k = product(&m);
    assert_false(k->tuned.done);
    assert_non_null(k->tuned.note);
    has(k->tuned.note, part);
    assert_true(tile_equal(&k->tile, &k->model_tile));
    drop(&m);
    strict.strict = true;
    make(&m, &strict);
    assert_int_equal(m.status, PROEM_UNSUPPORTED);
    has(m.e.text, part);
    has(m.e.text, "kernel k0_matmul");
    drop(&m);
}

static void test_obstacles(void **state) {
    (void)state;
    static const char computed[] = "graph g(t: f32[9, 50], i: i32[M], w: f32[50, 40]) {\n"
                                   "  return matmul(take(t, i // 2 + 1), w)\n}\n";
    struct setup s = {.text = computed, .m = 20, .tune = TUNE_TILES};
    expect_note(&s, "indices");
    s = (struct setup){.text = dense, .m = -1, .tune = TUNE_TILES};
    expect_note(&s, "size M is not known");
    s = (struct setup){.text = dense, .m = 20, .tune = TUNE_TILES, .arch = "neon"};
    expect_note(&s, "cannot run code for neon");
    s = (struct setup){.text = dense, .m = 0, .tune = TUNE_TILES, .strict = true};
    struct made m;
    make(&m, &s);
    assert_int_equal(m.status, PROEM_OK); /* there is nothing to choose */
    assert_string_equal(product(&m)->tuned.note, "its result is empty");
    drop(&m);
}

/* A candidate that the compiler fails on is left out; with --strict that is an error. */
static void test_candidate_fails(void **state) {
    (void)state;
    char dir[] = "/tmp/proem-test-tune-XXXXXX", path[64], command[64];
    static const char script[] =
        "#!/bin/sh\nfor f; do\n  case $f in\n"
        "  *.c) if grep -q '^#define MM_KC 1024' \"$f\"; then exit 1; fi ;;\n"
        "  esac\ndone\nexec cc \"$@\"\n";
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/cc", dir);
    int fd = open(path, O_WRONLY | O_CREAT, 0700);
    assert_true(fd >= 0 && write(fd, script, strlen(script)) == (ssize_t)strlen(script));
    close(fd);
    struct setup s = {.text = dense, .m = 33, .tune = TUNE_TILES};
    struct made all, less;
    make(&all, &s);
    s.compiler = path;
    make(&less, &s);
    if (less.status != PROEM_OK) fail_msg("%s", less.e.text);
    assert_true(product(&less)->tuned.done);
    assert_true(product(&less)->tuned.tried < product(&all)->tuned.tried);
    assert_int_not_equal(product(&less)->tile.kc, 1024);
    drop(&less);
    s.strict = true;
    make(&less, &s);
    assert_int_equal(less.status, PROEM_UNSUPPORTED);
    has(less.e.text, "candidate");
    drop(&less);
    drop(&all);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

/* ---- the public interface -------------------------------------------------------------------- */

static void test_api(void **state) {
    (void)state;
    proem_context *c = context();
    proem_graph *g = linear_graph(c);
    struct proem_compile_options o;
    struct seen seen = {0};
    proem_compile_options_init(&o);
    static const char *const names[] = {"M"};
    static const int64_t values[] = {64};
    o.tune = PROEM_TUNE_TILES;
    o.progress = count_call;
    o.progress_user = &seen;
    o.dim_names = names;
    o.dim_values = values;
    o.n_dims = 1;
    for (int i = 0; i < 2; i++) {
        proem_program *p = NULL;
        proem_execution *x = NULL;
        if (proem_compile(g, &o, &p) != PROEM_OK) fail_msg("%s", proem_error_text(c, NULL, NULL));
        assert_int_equal(seen.calls, 2); /* the second time it is known */
        assert_int_equal(proem_execution_create(p, &x), PROEM_OK);
        run_linear(x, 64);
        run_linear(x, 3); /* sizes that it was not tuned for */
        proem_execution_destroy(x);
        proem_program_destroy(p);
    }
    o.tune = (enum proem_tune)7;
    proem_program *p = NULL;
    assert_int_equal(proem_compile(g, &o, &p), PROEM_INVALID);
    has(proem_error_text(c, NULL, NULL), "tune");
    proem_graph_destroy(g);
    proem_context_destroy(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_candidate_lists),   cmocka_unit_test(test_candidates_keep_bits),
        cmocka_unit_test(test_choice_is_kept),    cmocka_unit_test(test_equal_kernels),
        cmocka_unit_test(test_damaged_choice),    cmocka_unit_test(test_order),
        cmocka_unit_test(test_data_obeys_checks), cmocka_unit_test(test_obstacles),
        cmocka_unit_test(test_candidate_fails),   cmocka_unit_test(test_api),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
