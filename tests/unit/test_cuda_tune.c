/* SPDX-License-Identifier: MIT
 * Tuning on the fake driver: all ways to cut a product have its model's K order; the one that the
 * device says is faster is taken, kept and found again; slow code is not measured; what cannot be
 * measured says why; every call and allocation can fail.
 */
#include "api_util.h"

#include <dlfcn.h>

#include "driver/cuda.h"
#include "fake_cuda.h"
#include "tile/tile_cuda_few.h"
#include "tile/tile_cuda_wgmma.h"

static struct fake_cuda *fake;
static struct fake_nvrtc *nvrtc;

static int use_fakes(void **state) {
    void *p = dlsym(dlopen(FAKE_CUDA, RTLD_NOW), "fake_cuda_control");
    struct fake_cuda *(*cuda_control)(void);
    memcpy(&cuda_control, &p, sizeof p);
    fake = cuda_control();
    p = dlsym(dlopen(FAKE_NVRTC, RTLD_NOW), "fake_nvrtc_control");
    struct fake_nvrtc *(*nvrtc_control)(void);
    memcpy(&nvrtc_control, &p, sizeof p);
    nvrtc = nvrtc_control();
    if (setenv("PROEM_CUDA", FAKE_CUDA, 1) != 0 || setenv("PROEM_NVRTC", FAKE_NVRTC, 1) != 0)
        return 1;
    return make_cache(state);
}

static int reset(void **state) {
    (void)state;
    *fake = (struct fake_cuda){.fail_at = -1, .devices = 1, .version = 12080, .cc = 90};
    *nvrtc = (struct fake_nvrtc){.fail_at = -1};
    return 0;
}

static int nothing_left(void **state) {
    (void)state;
    if (fake->live == 0 && fake->depth == 0 && fake->strays == 0 && nvrtc->live == 0) return 0;
    print_message("left: %ld device objects, depth %ld, %ld strays, %ld programs\n", fake->live,
                  fake->depth, fake->strays, nvrtc->live);
    return 1;
}

/* ---- programs -------------------------------------------------------------------------------- */

static const char many[] = "graph g(x: bf16[M, 64], w: bf16[320, 64]) {\n"
                           "  return relu(linear(x, w))\n}\n";
static const char few[] = "graph g(x: bf16[M, 2048], w: i8[512, 2048], s: bf16[512, 1]) {\n"
                          "  return linear(x, dequantize(w, s))\n}\n";
static const char ints[] = "graph g(t: bf16[9, 64], i: i32[M], w: bf16[64, 64]) {\n"
                           "  return linear(take(t, i), w)\n}\n";
static const char computed[] = "graph g(t: bf16[9, 64], i: i32[M], w: bf16[64, 64]) {\n"
                               "  return linear(take(t, i * i), w)\n}\n";
static const char plain[] = "graph g(x: f32[M, 64], w: f32[64, 32]) { return matmul(x, w) }\n";

struct setup {
    const char *text;
    int64_t m; /* of the symbol M; -1: not given */
    enum tune_mode tune;
    bool strict;
    const char *cache, *arch;
};

struct made {
    proem_context *c;
    proem_program *p;
    int calls;
    struct err e;
    enum proem_status status;
};

static void count_call(void *user, const char *stage, int done, int total) {
    struct made *m = user;
    assert_string_equal(stage, "tuning");
    assert_true(done >= 0 && done <= total);
    m->calls++;
}

/* Through tuning; the context is there even if something failed. */
static void make_with(struct made *m, const struct setup *s, struct proem_context_options *o) {
    *m = (struct made){0};
    o->cache_dir = s->cache;
    o->threads = 2;
    m->status = context_new(o, NULL, &m->c, &m->e);
    if (m->status != PROEM_OK) return;
    struct program_options po = {.device = PROEM_DEVICE_CUDA,
                                 .tune = s->tune,
                                 .strict = s->strict,
                                 .progress = count_call,
                                 .progress_user = m};
    m->status = cuda_target(m->c, s->arch, false, &po.target, &m->e);
    if (m->status == PROEM_OK) m->status = program_new(m->c, &po, &m->p, &m->e);
    if (m->status != PROEM_OK) return;
    program_set_text(m->p, s->text, strlen(s->text), "g.proem", NULL, false);
    m->status = program_run(m->p, PASS_PARSE, PASS_PARSE, &m->e);
    if (m->status == PROEM_OK && s->m >= 0)
        m->status = dims_bind_name(m->p->graph, &m->p->dims, "M", s->m, &m->e);
    if (m->status == PROEM_OK) m->status = program_run(m->p, PASS_LOWER, PASS_TUNE, &m->e);
}

static void make(struct made *m, const struct setup *s) {
    struct proem_context_options o;
    proem_context_options_init(&o);
    make_with(m, s, &o);
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

/* The launches that the program would make. */
static const struct gen_cuda *generated(struct made *m) {
    if (program_run(m->p, PASS_GEN, PASS_LINK, &m->e) != PROEM_OK) fail_msg("%s", m->e.text);
    return &m->p->units[0].cuda[0];
}

static const struct gen_launch *main_launch(const struct gen_cuda *c) {
    return &c->launches[c->n_launches - 1];
}

/* ---- forms ----------------------------------------------------------------------------------- */

/* Each way to cut it, as the generator has it: the first of a list, and no two alike. */
static void check_forms(const char *text, int64_t m, int least) {
    struct setup s = {.text = text, .m = m};
    struct made made;
    make(&made, &s);
    assert_int_equal(made.status, PROEM_OK);
    struct kernel *k = product(&made);
    struct gen_unit first, other;
    struct tile model = k->tile;
    const struct plan *plan = &made.p->plan;
    struct plan *p = &made.p->plan;
    assert_int_equal(gen_cuda_kernel(p, k, &made.p->opt.target, &first, &made.e), PROEM_OK);
    int n = first.cuda->choices;
    if (n < least) fail_msg("%d forms, not %d", n, least);
    const char *order = k->tile.order;
    for (int i = 1; i < n; i++) {
        k->tile = model;
        k->tile.cuda.passed = i;
        assert_int_equal(gen_cuda_kernel(p, k, &made.p->opt.target, &other, &made.e), PROEM_OK);
        assert_int_equal(other.cuda->choices, n);
        assert_string_equal(k->tile.order, order);
        assert_string_not_equal(str_text(&other.text), str_text(&first.text));
        assert_string_not_equal(other.cuda->tile, first.cuda->tile);
        str_free(&other.text);
    }
    /* None will do: the first after all. */
    k->tile = model;
    k->tile.cuda.passed = -1;
    assert_int_equal(gen_cuda_kernel(p, k, &made.p->opt.target, &other, &made.e), PROEM_OK);
    assert_string_equal(str_text(&other.text), str_text(&first.text));
    str_free(&other.text);
    str_free(&first.text);
    (void)plan;
    drop(&made);
}

static void test_forms(void **state) {
    (void)state;
    check_forms(many, 4096, 3);
    check_forms(few, 16, 3);
    check_forms(few, 60, 3);
    fake->cc = 80;
    check_forms(many, 4096, 2);
    check_forms(few, 16, 3);
}

/* What decides the K order of the template for few rows is the same in all its forms. */
static void test_few_order(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 8, 16, 17, 33, 64}, columns[] = {40, 1000, 14336},
                         depths[] = {64, 1000, 4096, 20000};
    struct device_desc d;
    assert_true(device_by_name("sm_90a", 6, &d));
    for (size_t i = 0; i < COUNT_OF(rows) * COUNT_OF(columns) * COUNT_OF(depths) * 3; i++) {
        struct tile_few_problem p = {.Z = 1,
                                     .M = rows[i % 6],
                                     .N = columns[i / 6 % 3],
                                     .K = depths[i / 18 % 4],
                                     .n_b = 1 + (int)(i & 1),
                                     .operand_bits = 16,
                                     .bits = 4 << (i / 72),
                                     .plain = i % 5 != 0,
                                     .a_ops = 3};
        struct tile_few first = tile_cuda_few_at(&p, &d, 0), model = tile_cuda_few(&p, &d);
        assert_true(first.fits && first.choices >= 2);
        assert_int_equal(first.ahead, model.ahead);
        assert_int_equal(first.tiles, model.tiles);
        for (int f = 1; f < first.choices; f++) {
            struct tile_few t = tile_cuda_few_at(&p, &d, f);
            assert_int_equal(t.run, first.run);
            assert_int_equal(t.kgroups, first.kgroups);
            assert_int_equal(t.units, first.units);
            assert_int_equal(t.split, first.split);
            assert_int_equal(t.bufs, first.bufs);
            assert_int_equal(t.tiles <= t.rgroups * t.step,
                             first.tiles <= first.rgroups * first.step);
            assert_true(t.ahead >= 1 && t.ahead <= t.units && t.cols8 >= 1 && t.tiles >= 1);
            assert_int_equal(t.threads, 32 * t.kgroups * t.rgroups);
            assert_int_equal(t.shared, (int)tile_few_shared(&p, &t));
            assert_true(t.per_sm * (t.shared + 1024) <= d.gpu.shared_sm || t.per_sm == 1);
            assert_true(t.shared <= d.gpu.shared_block);
        }
    }
}

/* ---- choices --------------------------------------------------------------------------------- */

/* Bytes of shared memory and threads of form i. */
static struct gen_launch launch_of(const char *text, int64_t m, int i) {
    struct setup s = {.text = text, .m = m};
    struct made made;
    make(&made, &s);
    assert_int_equal(made.status, PROEM_OK);
    product(&made)->tile.cuda.passed = i;
    struct gen_launch l = *main_launch(generated(&made));
    drop(&made);
    return l;
}

static void check_choice(const char *text, int64_t m, int wanted, unsigned shared, unsigned block) {
    struct setup s = {.text = text, .m = m, .tune = TUNE_TILES, .cache = cache_dir};
    struct made first, again;
    fake->fast_shared = shared;
    fake->fast_block = block;
    make(&first, &s);
    if (first.status != PROEM_OK) fail_msg("%s", first.e.text);
    assert_int_equal(first.calls, 2);
    const struct kernel *k = product(&first);
    assert_true(k->tuned.done && !k->tuned.cached && !k->tuned.reordered);
    assert_true(k->tuned.tried >= 2);
    assert_int_equal(k->tile.cuda.passed, wanted);
    assert_true(tile_equal(&k->tile, &k->model_tile) == (wanted == 0));
    /* 20 us a launch, 10 of the fast one */
    assert_true(k->tuned.model_us > 19 && k->tuned.taken_us > 9 && k->tuned.taken_us < 41);
    if (wanted != 0) assert_true(k->tuned.taken_us < 0.8 * k->tuned.model_us);
    const struct gen_launch *l = main_launch(generated(&first));
    if (shared > 1) assert_int_equal(l->shared, shared);
    if (block > 0) assert_int_equal(l->threads, block);
    make(&again, &s);
    assert_int_equal(again.calls, 0);
    assert_true(product(&again)->tuned.cached);
    assert_int_equal(product(&again)->tile.cuda.passed, wanted);
    drop(&again);
    s.m = m + 1; /* other sizes are measured */
    make(&again, &s);
    assert_int_equal(again.calls, 2);
    drop(&again);
    drop(&first);
}

static void test_choice(void **state) {
    (void)state;
    struct gen_launch a = launch_of(many, 4096, 0), b = a;
    int form = 0;
    while (b.shared == a.shared)
        b = launch_of(many, 4096, ++form);
    check_choice(many, 4096, form, (unsigned)b.shared, 0);
    check_choice(many, 3000, 0, 1, 0); /* nothing is faster */
    a = b = launch_of(few, 16, 0), form = 0;
    while (b.threads == a.threads)
        b = launch_of(few, 16, ++form);
    check_choice(few, 16, form, 0, (unsigned)b.threads);
    fake->cc = 80;
    a = launch_of(many, 4096, 0), b = launch_of(many, 4096, 1);
    assert_int_not_equal(a.threads, b.threads);
    check_choice(many, 4096, 1, 0, (unsigned)b.threads);
}

/* Another template may be taken where another order is allowed, and it is said. */
static void test_order(void **state) {
    (void)state;
    struct setup s = {.text = few, .m = 16};
    struct made m;
    make(&m, &s);
    product(&m)->tile.cuda.few = -1;
    struct gen_launch other = *main_launch(generated(&m));
    drop(&m);
    fake->fast_shared = (unsigned)other.shared;
    s.tune = TUNE_TILES;
    make(&m, &s);
    assert_int_equal(m.status, PROEM_OK);
    assert_false(product(&m)->tuned.reordered);
    drop(&m);
    s.tune = TUNE_ORDER;
    make(&m, &s);
    assert_int_equal(m.status, PROEM_OK);
    assert_true(product(&m)->tuned.reordered);
    assert_int_equal(product(&m)->tile.cuda.few, -1);
    assert_string_not_equal(product(&m)->tile.order, product(&m)->model_tile.order);
    assert_int_equal(main_launch(generated(&m))->shared, other.shared);
    drop(&m);
}

/* Forms that are compiled to slow code are not measured. */
static void test_slow_code(void **state) {
    (void)state;
    struct setup s = {.text = many, .m = 4096, .tune = TUNE_TILES};
    struct made m;
    nvrtc->spills = 1;
    make(&m, &s);
    assert_int_equal(m.status, PROEM_OK);
    assert_true(product(&m)->tuned.done);
    assert_int_equal(product(&m)->tuned.tried, 1);
    assert_int_equal(product(&m)->tile.cuda.passed, 0);
    drop(&m);
    s.strict = true;
    make(&m, &s);
    assert_int_equal(m.status, PROEM_UNSUPPORTED);
    assert_non_null(strstr(m.e.text, "a candidate of --tune is left out"));
    drop(&m);
}

/* A spilling kernel for few rows is cut another way, like any other. */
static void test_few_passes_over(void **state) {
    (void)state;
    struct setup s = {.text = few, .m = 16};
    struct made m;
    nvrtc->spills = 1;
    make(&m, &s);
    const struct gen_cuda *c = generated(&m);
    assert_int_equal(product(&m)->tile.cuda.form, TILE_FEW);
    assert_true(c->choices > 2);
    assert_true(m.p->fallbacks.n >= (size_t)c->choices);
    for (int i = 0; i < c->choices; i++)
        assert_non_null(strstr(m.p->fallbacks.at[i].why, "compiles to slow code: "));
    assert_int_equal(product(&m)->tile.cuda.passed, -1);
    drop(&m);
}

/* One that computes element by element takes fewer elements a thread. */
static void test_pointwise_passes_over(void **state) {
    (void)state;
    struct setup s = {.text = "graph g(x: i8[M, 64]) { return x + x }\n", .m = 16};
    struct made m;
    make(&m, &s);
    assert_string_equal(generated(&m)->tile, "8 elements a thread");
    drop(&m);
    nvrtc->spills = 1;
    make(&m, &s);
    const struct gen_cuda *c = generated(&m);
    assert_int_equal(m.p->plan.kernels.at[0]->tile.cuda.passed, -1);
    assert_string_equal(c->tile, "8 elements a thread"); /* the first after all */
    static const char *const tiles[] = {"tile 8", "tile 4", "tile 2", "tile 1"};
    assert_true(m.p->fallbacks.n >= COUNT_OF(tiles));
    for (size_t i = 0; i < COUNT_OF(tiles); i++)
        assert_non_null(strstr(m.p->fallbacks.at[i].why, tiles[i]));
    drop(&m);
}

/* ---- what is not measured -------------------------------------------------------------------- */

static void check_note(const struct setup *s, const char *note) {
    struct setup strict = *s;
    struct made m;
    make(&m, s);
    assert_int_equal(m.status, PROEM_OK);
    const struct kernel_tuned *t = &product(&m)->tuned;
    assert_true(!t->done && t->note != NULL);
    if (strstr(t->note, note) == NULL) fail_msg("%s", t->note);
    assert_int_equal(product(&m)->tile.cuda.passed, 0);
    drop(&m);
    strict.strict = true;
    make(&m, &strict);
    assert_int_equal(m.status, PROEM_UNSUPPORTED);
    assert_non_null(strstr(m.e.text, note));
    drop(&m);
}

static void test_notes(void **state) {
    (void)state;
    struct setup s = {.text = many, .m = -1, .tune = TUNE_TILES};
    check_note(&s, "the size M is not known");
    s.m = 40;
    s.arch = "sm_100a";
    check_note(&s, "the GPU is sm_90a: it cannot run code for sm_100a");
    s.arch = NULL;
    s.text = computed;
    check_note(&s, "its indices, offsets or divisors are computed");
    s.text = ints;
    s.m = 200;
    fake->fault_word = 6; /* whatever the data */
    fake->fault_value = 9, fake->fault_bound = 9;
    struct made m;
    make(&m, &s);
    assert_int_equal(m.status, PROEM_OK);
    assert_true(product(&m)->tuned.done || product(&m)->tuned.note != NULL);
    drop(&m);
    fake->fault_word = 0;
    s.text = plain;
    make(&m, &s);
    assert_int_equal(m.status, PROEM_OK);
    assert_string_equal(product(&m)->tuned.note, "there is no other way to cut it");
    drop(&m);
    fake->devices = 0;
    s.text = many;
    s.arch = "sm_90a";
    check_note(&s, "there is no GPU to measure on");
}

/* ---- failures -------------------------------------------------------------------------------- */

static long allocations, fail_at, held;

static void *counted_alloc(void *user, size_t size, size_t align) {
    (void)user;
    if (__atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED) == fail_at) return NULL;
    void *p = aligned_alloc(align, (size + align - 1) / align * align);
    if (p != NULL) __atomic_fetch_add(&held, 1, __ATOMIC_RELAXED);
    return p;
}

static void counted_free(void *user, void *p, size_t size) {
    (void)user, (void)size;
    if (p != NULL) __atomic_fetch_sub(&held, 1, __ATOMIC_RELAXED);
    free(p);
}

/* Calls of the driver, of NVRTC, allocations: it ends with an error, or without the form. */
static void test_failures(void **state) {
    (void)state;
    static const long steps[] = {37, 1, 7};
    int most = 0;
    struct setup s = {.text = many, .m = 4096, .tune = TUNE_TILES};
    struct made first;
    make(&first, &s);
    most = product(&first)->tuned.tried;
    drop(&first);
    for (int what = 0; what < 3; what++) {
        bool past = false;
        for (long at = 0; !past; at += at < 200 ? 1 : steps[what]) {
            struct proem_context_options o;
            struct made m;
            proem_context_options_init(&o);
            o.alloc = counted_alloc;
            o.free = counted_free;
            fake->calls = nvrtc->calls = allocations = 0;
            fake->fail_at = what == 0 ? at : -1;
            fake->fail_with = 719;
            nvrtc->fail_at = what == 1 ? at : -1;
            fail_at = what == 2 ? at : -1;
            make_with(&m, &s, &o);
            if (m.status != PROEM_OK) assert_true(m.e.text[0] != '\0');
            if (what == 2 && m.status != PROEM_OK) assert_int_equal(m.status, PROEM_NOMEM);
            past = (what == 0 ? fake->calls : what == 1 ? nvrtc->calls : allocations) <= at;
            if (past) {
                assert_int_equal(m.status, PROEM_OK);
                assert_true(product(&m)->tuned.done);
            }
            /* All was measured: what failed was a release. */
            bool whole = m.status == PROEM_OK && product(&m)->tuned.tried == most;
            drop(&m);
            if (whole && what == 0) fake->live = 0;
            fail_at = -1;
            if (nothing_left(NULL) != 0 || held != 0) fail_msg("at call %ld of %d", at, what);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_forms, reset, nothing_left),
        cmocka_unit_test_setup_teardown(test_few_order, reset, nothing_left),
        cmocka_unit_test_setup_teardown(test_choice, reset, nothing_left),
        cmocka_unit_test_setup_teardown(test_order, reset, nothing_left),
        cmocka_unit_test_setup_teardown(test_slow_code, reset, nothing_left),
        cmocka_unit_test_setup_teardown(test_few_passes_over, reset, nothing_left),
        cmocka_unit_test_setup_teardown(test_pointwise_passes_over, reset, nothing_left),
        cmocka_unit_test_setup_teardown(test_notes, reset, nothing_left),
        cmocka_unit_test_setup_teardown(test_failures, reset, nothing_left),
    };
    return cmocka_run_group_tests(tests, use_fakes, remove_cache);
}
