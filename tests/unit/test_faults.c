/* SPDX-License-Identifier: MIT
 * Memory that runs out at every point of a life: building, parsing, compiling, running. Each time
 * the one failing call says so, nothing leaks, and the same objects then do their work.
 *
 * Arenas take a block from the allocator for each allocation here, because base.c is compiled into
 * this test with a small BLOCK_MIN (the library's own copy is then not linked): so every allocation
 * of a pass can fail, and a sanitizer sees each one's bounds. `test_faults all [TEST]` lets every
 * allocation fail; otherwise a sample of each stage's does. Compiled kernels come from a cache of
 * this run, filled by a first round.
 */
#define BLOCK_MIN 1u
#include "base/base.c"

#include "api_util.h"

#include <limits.h>

static bool every_point;

/* ---- an allocator that fails ----------------------------------------------------------------- */

struct faulty {
    long made, live;
    long first, last; /* allocations from `first` to `last` fail */
    bool failed;
};

static void *faulty_alloc(void *user, size_t size, size_t align) {
    struct faulty *f = user;
    long n = f->made++;
    if (n >= f->first && n <= f->last) {
        f->failed = true;
        return NULL;
    }
    f->live++;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void faulty_free(void *user, void *p, size_t size) {
    struct faulty *f = user;
    (void)size;
    f->live--;
    free(p);
}

static void no_failure(struct faulty *f) {
    f->first = LONG_MAX;
    f->last = LONG_MAX;
}

/* ---- cases ----------------------------------------------------------------------------------- */

#define MAX_TENSORS 5

struct shaped {
    uint8_t code, bits;
    int rank;
    int64_t shape[4];
};

struct life_case {
    const char *text;
    int n_in, n_out;
    struct shaped in[MAX_TENSORS], out[3];
};

#define F32(...)                                                                                   \
    {                                                                                              \
        kDLFloat, 32, COUNT_OF(((int64_t[]){__VA_ARGS__})), {                                      \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define I32(...)                                                                                   \
    {                                                                                              \
        kDLInt, 32, COUNT_OF(((int64_t[]){__VA_ARGS__})), {                                        \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define I64(...)                                                                                   \
    {                                                                                              \
        kDLInt, 64, COUNT_OF(((int64_t[]){__VA_ARGS__})), {                                        \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define I8(...)                                                                                    \
    {                                                                                              \
        kDLInt, 8, COUNT_OF(((int64_t[]){__VA_ARGS__})), {                                         \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define BF16(...)                                                                                  \
    {                                                                                              \
        kDLBfloat, 16, COUNT_OF(((int64_t[]){__VA_ARGS__})), {                                     \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

static const struct life_case cases[] = {
    {"graph g(x: f32[M, K], const w: i8[N, K], s: f32[N], b: f32[N]) {\n"
     "  wd = dequantize(w, s, axis=0)\n"
     "  h = linear(x, wd, b)\n"
     "  return gelu(h), max(h, axes=[1])\n}\n",
     4,
     2,
     {F32(3, 8), I8(5, 8), F32(5), F32(5)},
     {F32(3, 5), F32(3)}},
    {"graph g(q: bf16[1, 2, S, 4], k: bf16[1, 1, L, 4], v: bf16[1, 1, L, 4], slopes: f32[2]) {\n"
     "  o = attention(q, k, v) {\n"
     "    score(s, b, h, i, j) = s + take(slopes, h) * (j - i)\n"
     "    mask(b, h, i, j) = j <= i\n"
     "  }\n"
     "  return o\n}\n",
     4,
     1,
     {BF16(1, 2, 3, 4), BF16(1, 1, 3, 4), BF16(1, 1, 3, 4), F32(2)},
     {BF16(1, 2, 3, 4)}},
    {"graph g(x: f32[M, N], i: i32[T], d: i32[M, N], w: f32[N]) {\n"
     "  y = rms_norm(take(x, i), w)\n"
     "  z = concat(y, softmax(x) * 2, axis=0)\n"
     "  p = pad(slice(transpose(z), axis=0, start=1), low=[1, 0], high=[0, 2])\n"
     "  values, at = topk(cumsum(x, axis=1), 2)\n"
     "  return p, at, scatter_add(x, i, y) + cast(7 // d, f32)\n}\n",
     4,
     3,
     {F32(4, 6), I32(3), I32(4, 6), F32(6)},
     {F32(6, 9), I64(4, 2), F32(4, 6)}},
    {"graph g(a: f32[T, K], b: f32[E, K, N], offsets: i32[E], c: f32[T, N]) {\n"
     "  y = grouped_matmul(a, b, offsets) + c\n"
     "  s = where(y > 0, argsort(y), cast(mean(y, axes=[1], keepdims=true), i64))\n"
     "  n = layer_norm(reshape(y, [N, T]))\n"
     "  return y in c, s, quantize(n, 0.5, dtype=i8)\n}\n",
     4,
     3,
     {F32(4, 6), F32(2, 6, 4), I32(2), F32(4, 4)},
     {F32(4, 4), I64(4, 4), I8(4, 4)}},
};

struct buffers {
    struct tensor t[MAX_TENSORS + 3];
    _Alignas(64) unsigned char data[MAX_TENSORS + 3][512];
    const DLTensor *in[MAX_TENSORS];
    DLTensor *out[3];
};

static void fill_any(unsigned char *data, const struct shaped *s) {
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->shape[i];
    assert_true(n * s->bits / 8 <= 512);
    for (int64_t i = 0; i < n; i++) {
        float f = (float)(i * 5 % 11 - 5) * 0.25f;
        int32_t small = s->rank == 1 ? (int32_t)(i / 2 + 1) : (int32_t)(i % 3 + 1);
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        if (s->code == kDLFloat) memcpy(data + i * 4, &f, 4);
        if (s->code == kDLBfloat) memcpy(data + i * 2, (uint16_t[]){(uint16_t)(bits >> 16)}, 2);
        if (s->code == kDLInt && s->bits == 32) memcpy(data + i * 4, &small, 4);
        if (s->code == kDLInt && s->bits == 8) data[i] = (unsigned char)(i * 7);
    }
}

static void buffers_set(struct buffers *b, const struct life_case *c) {
    memset(b, 0, sizeof *b);
    for (int i = 0; i < c->n_in; i++) {
        const struct shaped *s = &c->in[i];
        tensor_set(&b->t[i], b->data[i], s->code, s->bits, s->rank, s->shape);
        fill_any(b->data[i], s);
        b->in[i] = &b->t[i].t;
    }
    for (int i = 0; i < c->n_out; i++) {
        const struct shaped *s = &c->out[i];
        tensor_set(&b->t[MAX_TENSORS + i], b->data[MAX_TENSORS + i], s->code, s->bits, s->rank,
                   s->shape);
        b->out[i] = &b->t[MAX_TENSORS + i].t;
    }
}

/* ---- one stage with each allocation failing -------------------------------------------------- */

struct life {
    struct faulty f;
    const struct life_case *c;
    proem_context *context;
    proem_graph *g;
    proem_program *p;
    proem_execution *x;
    struct proem_compile_options options;
    struct buffers b, expected;
};

static enum proem_status stage_build(struct life *l) {
    proem_graph *g = NULL;
    enum proem_status s = proem_graph_create(l->context, "linear", &g);
    if (s != PROEM_OK) return s;
    proem_value x = proem_graph_param(g, "x", "f32[M, 2 * K]");
    proem_value w = proem_graph_const_param(g, "w", "f32[2 * K, 3]");
    proem_value h = proem_graph_name(g, proem_matmul(g, x, w), "h");
    proem_value top = proem_call1(g, "topk", proem_mul(g, h, proem_graph_float(g, 0.5)), "2");
    proem_value y = proem_call1(g, "softmax", top, "axis=-1");
    proem_graph_output(g, y, 0);
    proem_graph_output(g, proem_graph_result(g, top, 1), 0);
    s = proem_graph_finish(g);
    const char *text = NULL;
    if (s == PROEM_OK) s = proem_graph_text(g, &text);
    if (s == PROEM_OK) has(text, "topk(h * 0.5, 2)");
    proem_graph_destroy(g);
    return s;
}

static enum proem_status stage_parse(struct life *l) {
    proem_graph *g = NULL;
    enum proem_status s =
        proem_graph_parse(l->context, l->c->text, strlen(l->c->text), "faults.proem", NULL, &g);
    assert_true((g != NULL) == (s == PROEM_OK));
    proem_graph_destroy(g);
    return s;
}

static enum proem_status stage_compile(struct life *l) {
    proem_program *p = NULL;
    enum proem_status s = proem_compile(l->g, &l->options, &p);
    assert_true((p != NULL) == (s == PROEM_OK));
    proem_program_destroy(p);
    return s;
}

static enum proem_status run_once(struct life *l, proem_execution *x) {
    return proem_run(x, l->b.in, (size_t)l->c->n_in, l->b.out, (size_t)l->c->n_out);
}

static void same_results(struct life *l) {
    for (int i = 0; i < l->c->n_out; i++)
        assert_memory_equal(l->b.data[MAX_TENSORS + i], l->expected.data[MAX_TENSORS + i], 512);
}

/* A run that failed for memory is repeated on the same execution. */
static enum proem_status stage_run(struct life *l) {
    proem_execution *x = NULL;
    enum proem_status s = proem_execution_create(l->p, &x);
    assert_true((x != NULL) == (s == PROEM_OK));
    if (s != PROEM_OK) return s;
    s = proem_execution_prepare(x, l->b.in, (size_t)l->c->n_in);
    if (s == PROEM_OK) s = run_once(l, x);
    if (s != PROEM_OK) assert_string_not_equal(proem_execution_error(x), "");
    no_failure(&l->f);
    buffers_set(&l->b, l->c);
    if (run_once(l, x) != PROEM_OK) fail_msg("%s", proem_execution_error(x));
    same_results(l);
    proem_execution_destroy(x);
    return s;
}

typedef enum proem_status (*stage_fn)(struct life *l);

/* Once with the allocations from n on failing (only the n-th if `one`). False: none did. */
static bool fail_once(struct life *l, stage_fn stage, const char *name, long n, bool one) {
    long live = l->f.live;
    l->f.failed = false;
    l->f.first = l->f.made + n;
    l->f.last = one ? l->f.first : LONG_MAX;
    enum proem_status s = stage(l);
    no_failure(&l->f);
    if (l->f.live != live)
        fail_msg("%s: %ld allocations leak after failure %ld", name, l->f.live - live, n);
    if (s != PROEM_OK && s != PROEM_NOMEM)
        fail_msg("%s: failure %ld gives status %d (%s)", name, n, (int)s,
                 proem_error_text(l->context, NULL, NULL));
    if (s != PROEM_OK && !l->f.failed) fail_msg("%s: fails by itself", name);
    if (s != PROEM_OK && stage != stage_run) {
        if (strstr(proem_error_text(l->context, NULL, NULL), "memory") == NULL)
            fail_msg("%s: failure %ld says '%s'", name, n,
                     proem_error_text(l->context, NULL, NULL));
        proem_error_clear(l->context);
    }
    return l->f.failed;
}

static void fail_everywhere(struct life *l, stage_fn stage, const char *name, long sample) {
    long before = l->f.made;
    no_failure(&l->f);
    if (stage(l) != PROEM_OK) fail_msg("%s: %s", name, proem_error_text(l->context, NULL, NULL));
    long all = l->f.made - before, step = every_point || all <= sample ? 1 : all / sample;
    for (long n = 0; n < all; n += step) {
        fail_once(l, stage, name, n, false);
        fail_once(l, stage, name, n + step / 2, true);
    }
    if (stage(l) != PROEM_OK) fail_msg("%s: %s", name, proem_error_text(l->context, NULL, NULL));
}

static void life_of(struct life *l, enum proem_device device) {
    struct proem_context_options o;
    proem_context_options_init(&o);
    o.alloc = faulty_alloc;
    o.free = faulty_free;
    o.user = &l->f;
    o.cache_dir = cache_dir;
    o.threads = 1;
    no_failure(&l->f);
    assert_int_equal(proem_context_create(&o, &l->context), PROEM_OK);
    proem_compile_options_init(&l->options);
    l->options.device = device;
    buffers_set(&l->b, l->c);
    fail_everywhere(l, stage_parse, "parse", 300);
    if (l->c == cases) fail_everywhere(l, stage_build, "build", 300);
    assert_int_equal(
        proem_graph_parse(l->context, l->c->text, strlen(l->c->text), "faults.proem", NULL, &l->g),
        PROEM_OK);
    if (proem_compile(l->g, &l->options, &l->p) != PROEM_OK)
        fail_msg("%s", proem_error_text(l->context, NULL, NULL));
    assert_int_equal(proem_execution_create(l->p, &l->x), PROEM_OK);
    if (run_once(l, l->x) != PROEM_OK) fail_msg("%s", proem_execution_error(l->x));
    l->expected = l->b;
    proem_execution_destroy(l->x);
    fail_everywhere(l, stage_run, "run", 200);
    proem_program_destroy(l->p);
    fail_everywhere(l, stage_compile, "compile", 250);
    proem_graph_destroy(l->g);
    proem_context_destroy(l->context);
    assert_int_equal(l->f.live, 0);
}

static void lives(const struct life_case *c) {
    struct life *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->c = c;
    life_of(l, PROEM_DEVICE_CPU);
    *l = (struct life){.c = c};
    life_of(l, PROEM_DEVICE_REF);
    free(l);
}

static void test_linear(void **state) {
    (void)state;
    lives(&cases[0]);
}

static void test_attention(void **state) {
    (void)state;
    lives(&cases[1]);
}

static void test_layout_and_order(void **state) {
    (void)state;
    lives(&cases[2]);
}

static void test_groups(void **state) {
    (void)state;
    lives(&cases[3]);
}

/* ---- tuning ---------------------------------------------------------------------------------- */

static const char *const tune_names[] = {"M", "N", "K"};
static int64_t tune_sizes[] = {40, 24, 16};

/* Sizes that nothing was measured for yet; the kernels' text, and so the cache, stays. */
static enum proem_status stage_measure(struct life *l) {
    tune_sizes[0]++;
    return stage_compile(l);
}

static void test_tuning(void **state) {
    (void)state;
    struct life *l = calloc(1, sizeof *l);
    struct proem_context_options o;
    assert_non_null(l);
    l->c = &cases[0];
    proem_context_options_init(&o);
    o.alloc = faulty_alloc;
    o.free = faulty_free;
    o.user = &l->f;
    o.cache_dir = cache_dir;
    o.threads = 1;
    no_failure(&l->f);
    assert_int_equal(proem_context_create(&o, &l->context), PROEM_OK);
    proem_compile_options_init(&l->options);
    l->options.tune = PROEM_TUNE_TILES;
    l->options.dim_names = tune_names;
    l->options.dim_values = tune_sizes;
    l->options.n_dims = 3;
    assert_int_equal(
        proem_graph_parse(l->context, l->c->text, strlen(l->c->text), "faults.proem", NULL, &l->g),
        PROEM_OK);
    fail_everywhere(l, stage_measure, "measure", 15);
    fail_everywhere(l, stage_compile, "compile, tuned before", 60);
    proem_graph_destroy(l->g);
    proem_context_destroy(l->context);
    assert_int_equal(l->f.live, 0);
    free(l);
}

static void test_context(void **state) {
    (void)state;
    struct faulty f = {0};
    struct proem_context_options o;
    proem_context_options_init(&o);
    o.alloc = faulty_alloc;
    o.free = faulty_free;
    o.user = &f;
    o.cache_dir = cache_dir;
    for (long n = 0;; n++) {
        f = (struct faulty){.first = n, .last = LONG_MAX};
        proem_context *c = NULL;
        enum proem_status s = proem_context_create(&o, &c);
        assert_true((c != NULL) == (s == PROEM_OK));
        assert_true(s == PROEM_OK || s == PROEM_NOMEM);
        proem_context_destroy(c);
        assert_int_equal(f.live, 0);
        if (!f.failed) break;
        assert_true(n < 1000);
    }
}

/* ---- no room on disk ------------------------------------------------------------------------- */

static proem_context *context_with(const char *cache) {
    struct proem_context_options o;
    proem_context_options_init(&o);
    o.cache_dir = cache;
    o.threads = 1;
    proem_context *c = NULL;
    assert_int_equal(proem_context_create(&o, &c), PROEM_OK);
    return c;
}

static enum proem_status compile_linear(proem_context *c) {
    proem_graph *g = linear_graph(c);
    proem_program *p = NULL;
    enum proem_status s = proem_compile(g, NULL, &p);
    if (s == PROEM_OK) {
        proem_execution *x = NULL;
        assert_int_equal(proem_execution_create(p, &x), PROEM_OK);
        run_linear(x, 7);
        proem_execution_destroy(x);
    }
    proem_program_destroy(p);
    proem_graph_destroy(g);
    return s;
}

/* A file system of a few pages; false if this user cannot mount one. */
static bool mount_small(char *dir, const char *options) {
    char command[200];
    if (mkdtemp(dir) == NULL) return false;
    snprintf(command, sizeof command, "mount -t tmpfs -o %s proem-test '%s' 2>/dev/null", options,
             dir);
    if (system(command) == 0) return true;
    rmdir(dir);
    return false;
}

static void unmount(const char *dir) {
    char command[200];
    snprintf(command, sizeof command, "umount '%s' && rmdir '%s'", dir, dir);
    assert_int_equal(system(command), 0);
}

static void test_full_cache(void **state) {
    (void)state;
    static const char *const options[] = {"size=16k,mode=700", "size=1m,mode=700,ro"};
    for (size_t i = 0; i < 2; i++) {
        char dir[] = "/tmp/proem-test-full-XXXXXX";
        if (!mount_small(dir, options[i])) skip();
        for (int round = 0; round < 2; round++) {
            proem_context *c = context_with(dir);
            if (compile_linear(c) != PROEM_OK) fail_msg("%s", proem_error_text(c, NULL, NULL));
            proem_context_destroy(c);
        }
        unmount(dir);
    }
}

static void test_full_temporary(void **state) {
    (void)state;
    char dir[] = "/tmp/proem-test-full-XXXXXX";
    if (!mount_small(dir, "size=16k,mode=700")) skip();
    assert_int_equal(setenv("TMPDIR", dir, 1), 0);
    proem_context *c = context_with(NULL);
    assert_int_equal(unsetenv("TMPDIR"), 0);
    enum proem_status s = compile_linear(c);
    assert_int_equal(s,
                     PROEM_COMPILE); /* the machine lacks room: nothing is wrong with the graph */
    has(proem_error_text(c, NULL, NULL), dir);
    proem_error_clear(c);
    s = compile_linear(c);
    assert_int_equal(s, PROEM_COMPILE);
    proem_context_destroy(c);
    unmount(dir);
}

int main(int argc, char **argv) {
    every_point = argc > 1 && strcmp(argv[1], "all") == 0;
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_context),        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_attention),      cmocka_unit_test(test_layout_and_order),
        cmocka_unit_test(test_groups),         cmocka_unit_test(test_full_cache),
        cmocka_unit_test(test_full_temporary), cmocka_unit_test(test_tuning),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
