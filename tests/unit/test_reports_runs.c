/* SPDX-License-Identifier: MIT
 * Reported faults of other fusing compilers, as tests of what happens between runs: the cache on
 * disk, several processes and threads at once, arguments that change, small stacks.
 */
#include "reports_api.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "driver/exec.h"

static int64_t units_compiled(proem_context *c) {
    struct rt_counts n;
    rt_counts(c->rt, &n);
    return n.compiled;
}

/* ---- cache ----------------------------------------------------------------------------------- */

/* C1: a kernel for wide rows is not run on rows of another width, whatever is in the cache. */
static void test_cache_of_sizes(void **state) {
    (void)state;
    static const char text[] = "graph g(a: f32[512, $0], b: f32[$0, $1], c: f32[$1]) {\n"
                               "  y = relu(matmul(a, b) + c)\n"
                               "  return y }";
    static const char *const sizes[] = {"128 8", "128 7", "126 128"};
    for (int again = 0; again < 2; again++) {
        proem_context *c = context();
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            struct str t;
            str_init(&t, &allocator_default);
            substitute(text, sizes[i], &t);
            proem_program *p = compile_text(c, str_text(&t), PROEM_DEVICE_CPU);
            proem_execution *x = execution_of(p);
            run_sizes(x, str_text(&t), NULL, 0, 0, NULL);
            proem_execution_destroy(x);
            proem_program_destroy(p);
            str_free(&t);
        }
        if (again) assert_int_equal(units_compiled(c), 0); /* all from disk */
        proem_context_destroy(c);
    }
}

/* C2: the first run of a kernel that adds to its output adds once. */
static void test_added_once(void **state) {
    (void)state;
    static const char text[] = "graph g(c: f32[64, 64], a: f32[64, 64], b: f32[64, 64]) {\n"
                               "  y = c + matmul(a, b)\n"
                               "  return y in c }";
    static const struct named values[] = {
        {"c", "iota 64 1", NULL}, {"a", "eye", NULL}, {"b", "list 3", NULL}, {NULL, NULL, NULL}};
    proem_context *c = context();
    proem_program *p = compile_text(c, text, PROEM_DEVICE_CPU);
    proem_execution *x = execution_of(p);
    struct call a;
    call_open(&a, text, NULL, 0, values);
    a.out[0].t.data = a.in[0].t.data;
    for (int run = 1; run <= 2; run++) {
        run_ok(x, a.in_at, 3, a.out_at, 1);
        for (int64_t i = 0; i < 4096; i++)
            assert_true(value_at(DT_F32, a.s.in[0].data, i) == (double)(i % 64 + 1 + 3 * run));
    }
    call_close(&a);
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

/* C4: new data in a captured tensor and scalar, without new code and without old data. */
static void test_captured_bias(void **state) {
    (void)state;
    static const char text[] =
        "graph g(q: f32[2, 4, 64, 16], k: f32[2, 4, 64, 16], v: f32[2, 4, 64, 16],\n"
        "        bias: f32[$0, 4, 64, 64], factor: f32[]) {\n"
        "  y = attention(q, k, v) {\n"
        "    score(s, b, h, i, j) = s * factor + take(bias, $1, h, i, j)\n"
        "  }\n"
        "  return y }";
    static const char *const forms[] = {"2 b", "1 0*b"};
    static const char *const bias[] = {"uniform 0 1", "uniform -2 0", "list 0 3", "keep"};
    proem_context *c = context();
    for (size_t f = 0; f < COUNT_OF(forms); f++) {
        struct str t;
        str_init(&t, &allocator_default);
        substitute(text, forms[f], &t);
        proem_program *p = compile_text(c, str_text(&t), PROEM_DEVICE_CPU);
        proem_execution *x = execution_of(p);
        int64_t compiled = units_compiled(c);
        for (size_t i = 0; i < COUNT_OF(bias); i++) {
            struct named values[] = {{"bias", bias[i], NULL},
                                     {"factor", i < 2 ? "list 0.5" : "list 0.25", NULL},
                                     {NULL, NULL, NULL}};
            run_sizes(x, str_text(&t), NULL, 0, 0, values);
        }
        assert_int_equal(units_compiled(c), compiled);
        proem_execution_destroy(x);
        proem_program_destroy(p);
        str_free(&t);
    }
    proem_context_destroy(c);
}

/* ---- processes ------------------------------------------------------------------------------- */

static const char layer[] = "graph g(a: f32[100, 100], b: f32[100, 100], c: f32[100]) {\n"
                            "  y = relu(matmul(a, b) + c)\n"
                            "  return y }";

static const struct named small_ints[] = {{"a", "random -8 8", NULL},
                                          {"b", "random -8 8", NULL},
                                          {"c", "random -8 8", NULL},
                                          {NULL, NULL, NULL}};

/* 0 if the layer compiles and gives the exact answer. Runs in a child: nothing here ends a test. */
static int run_layer(const char *dir, struct call *a) {
    struct proem_context_options o;
    proem_context_options_init(&o);
    o.cache_dir = dir;
    o.threads = 1;
    proem_context *c = NULL;
    proem_graph *g = NULL;
    proem_program *p = NULL;
    proem_execution *x = NULL;
    if (proem_context_create(&o, &c) != PROEM_OK) return 2;
    if (proem_graph_parse(c, layer, strlen(layer), NULL, NULL, &g) != PROEM_OK) return 3;
    if (proem_compile(g, NULL, &p) != PROEM_OK) return 4;
    if (proem_execution_create(p, &x) != PROEM_OK) return 5;
    int result = proem_run(x, a->in_at, a->n_in, a->out_at, 1) == PROEM_OK ? 0 : 6;
    for (int64_t i = 0; i < 10000 && result == 0; i++) {
        double sum = value_at(DT_F32, a->s.in[2].data, i % 100);
        for (int64_t k = 0; k < 100; k++)
            sum += value_at(DT_F32, a->s.in[0].data, i / 100 * 100 + k) *
                   value_at(DT_F32, a->s.in[1].data, k * 100 + i % 100);
        if (value_at(DT_F32, a->result[0].data, i) != (sum > 0 ? sum : 0)) result = 7;
    }
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_graph_destroy(g);
    proem_context_destroy(c);
    return result;
}

#define N_PROCESSES 6

/* All at once; the one numbered `victim` is killed on its way. */
static void run_processes(const char *dir, int victim) {
    pid_t pid[N_PROCESSES];
    struct call a;
    call_open(&a, layer, NULL, 0, small_ints);
    for (int i = 0; i < N_PROCESSES; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0) _exit(run_layer(dir, &a));
    }
    if (victim >= 0) {
        struct timespec t = {.tv_nsec = 150000000};
        nanosleep(&t, NULL);
        kill(pid[victim], SIGKILL);
    }
    for (int i = 0; i < N_PROCESSES; i++) {
        int status = 0;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        if (i == victim) continue;
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    call_close(&a);
}

/* Cut every file in half. */
static int truncate_files(const char *dir) {
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        char path[512];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) continue;
        if (st.st_size > 1 && truncate(path, st.st_size / 2) == 0) n++;
    }
    closedir(d);
    return n;
}

static void test_processes(void **state) { /* T1 */
    (void)state;
    char dir[128];
    snprintf(dir, sizeof dir, "%s/shared", cache_dir);
    run_processes(dir, 2);
    run_processes(dir, -1); /* warm */
    assert_true(truncate_files(dir) > 0);
    run_processes(dir, -1); /* rebuilt, not loaded */
}

/* ---- threads --------------------------------------------------------------------------------- */

static const char dequantized[] =
    "graph g(a: f16[64, 4096], const w: i4[4096, 32], const s: f16[128, 32], c: f32[32]) {\n"
    "  y = relu(matmul(a, dequantize(w, s, axis=0, block=32))) + c\n"
    "  return y }";

struct runner {
    pthread_t thread;
    proem_program *p;
    struct call call;
    unsigned char want[64 * 32 * 4];
    int wrong;
};

static void *run_often(void *user) {
    struct runner *r = user;
    proem_execution *x = NULL;
    size_t n = (size_t)r->call.result[0].bytes;
    if (proem_execution_create(r->p, &x) != PROEM_OK) r->wrong = -1;
    for (int i = 0; i < 40 && r->wrong == 0; i++) {
        memset(r->call.result[0].data, 0xFF, n);
        if (proem_run(x, r->call.in_at, r->call.n_in, r->call.out_at, 1) != PROEM_OK ||
            memcmp(r->call.result[0].data, r->want, n) != 0)
            r->wrong = i + 1;
    }
    proem_execution_destroy(x);
    return NULL;
}

static void test_threads(void **state) { /* T3 */
    (void)state;
    static const char *const inputs[] = {"uniform -1 1", "uniform 0 2", "list 1 -2 3 0.5 7",
                                         "iota 13 -6"};
    enum { n = 8 };
    proem_context *c = context();
    proem_program *p = compile_text(c, dequantized, PROEM_DEVICE_CPU);
    struct runner *r = test_calloc(n, sizeof *r);
    proem_execution *x = execution_of(p);
    for (int i = 0; i < n; i++) {
        struct named values[] = {{"a", inputs[i % 4], NULL}, {NULL, NULL, NULL}};
        char rule[40];
        if (i >= 4) { /* each has inputs of its own */
            snprintf(rule, sizeof rule, "uniform %d 1", -i);
            values[0].value = rule;
        }
        r[i].p = p;
        call_open(&r[i].call, dequantized, NULL, 0, values);
        call_run(&r[i].call, x);
        if (i == 0) call_check(&r[i].call, 2);
        assert_true((size_t)r[i].call.result[0].bytes <= sizeof r[i].want);
        memcpy(r[i].want, r[i].call.result[0].data, (size_t)r[i].call.result[0].bytes);
    }
    proem_execution_destroy(x);
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&r[i].thread, NULL, run_often, &r[i]), 0);
    for (int i = 0; i < n; i++) {
        assert_int_equal(pthread_join(r[i].thread, NULL), 0);
        assert_int_equal(r[i].wrong, 0);
        call_close(&r[i].call);
    }
    test_free(r);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *run_once(void *user) {
    struct runner *r = user;
    proem_execution *x = NULL;
    struct rt_memory m = {0};
    r->wrong = proem_execution_create(r->p, &x) == PROEM_OK ? 0 : 1;
    if (r->wrong == 0 && proem_run(x, r->call.in_at, r->call.n_in, r->call.out_at, 1) != PROEM_OK)
        r->wrong = 2;
    if (r->wrong == 0) rt_exec_memory(x->rt, &m);
    if (m.arena + m.staging > 8 << 20) r->wrong = 3; /* tiles, not 64 MiB of floats */
    proem_execution_destroy(x);
    return NULL;
}

static void test_small_stack(void **state) { /* L3: a size that the compiler does not know */
    (void)state;
    static const char text[] = "graph g(x: f32[2, K], w: u8[K, N], s: f32[N]) {\n"
                               "  y = matmul(x, cast(w, f32) * s)\n"
                               "  return y }";
    struct proem_context_options o;
    proem_context_options_init(&o);
    o.cache_dir = cache_dir;
    o.threads = 1; /* all work on the thread that calls */
    proem_context *c = NULL;
    assert_int_equal(proem_context_create(&o, &c), PROEM_OK);
    struct runner *r = test_calloc(1, sizeof *r);
    r->p = compile_text(c, text, PROEM_DEVICE_CPU);
    struct dim_value d[] = {{"K", 4096}, {"N", 4096}};
    call_open(&r->call, text, d, 2, NULL);
    pthread_attr_t attr;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, 256 << 10), 0);
    assert_int_equal(pthread_create(&r->thread, &attr, run_once, r), 0);
    assert_int_equal(pthread_join(r->thread, NULL), 0);
    pthread_attr_destroy(&attr);
    assert_int_equal(r->wrong, 0);
    call_check(&r->call, 1);
    call_close(&r->call);
    proem_program_destroy(r->p);
    test_free(r);
    proem_context_destroy(c);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes),  cmocka_unit_test(test_cache_of_sizes),
        cmocka_unit_test(test_added_once), cmocka_unit_test(test_captured_bias),
        cmocka_unit_test(test_threads),    cmocka_unit_test(test_small_stack),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
