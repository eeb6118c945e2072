/* SPDX-License-Identifier: MIT
 * The public interface under stress: one program run by several threads at once, and every
 * allocation of a whole life failing in turn, without a leak.
 */
#include "api_util.h"

#include <pthread.h>

/* ---- threads --------------------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    proem_program *p;
    int id;
};

static void *work(void *user) {
    const struct worker *w = user;
    proem_execution *x = NULL;
    if (proem_execution_create(w->p, &x) != PROEM_OK) return user;
    for (int i = 0; i < 40; i++)
        run_linear(x, (w->id * 7 + i) % 30 + 1);
    proem_execution_destroy(x);
    return NULL;
}

static void threads_on(enum proem_device device) {
    proem_context *c = context();
    proem_graph *g = linear_graph(c);
    struct proem_compile_options o;
    proem_compile_options_init(&o);
    o.device = device;
    proem_program *p = NULL;
    assert_int_equal(proem_compile(g, &o, &p), PROEM_OK);
    struct worker w[4];
    for (int i = 0; i < 4; i++) {
        w[i] = (struct worker){.p = p, .id = i};
        assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    }
    /* meanwhile the owner compiles the same graph again */
    proem_program *other = NULL;
    assert_int_equal(proem_compile(g, &o, &other), PROEM_OK);
    for (int i = 0; i < 4; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(w[i].thread, &failed), 0);
        assert_null(failed);
    }
    proem_program_destroy(other);
    proem_program_destroy(p);
    proem_graph_destroy(g);
    proem_context_destroy(c);
}

static void test_threads(void **state) {
    (void)state;
    threads_on(PROEM_DEVICE_CPU);
    threads_on(PROEM_DEVICE_REF);
}

/* ---- allocation failure ---------------------------------------------------------------------- */

struct faulty {
    pthread_mutex_t lock;
    long left, live, made; /* allocations until the failure; alive; in all */
};

static void *faulty_alloc(void *user, size_t size, size_t align) {
    struct faulty *f = user;
    pthread_mutex_lock(&f->lock);
    bool ok = f->left > 0;
    if (ok) {
        f->left--;
        f->live++;
        f->made++;
    }
    pthread_mutex_unlock(&f->lock);
    return ok ? aligned_alloc(align, (size + align - 1) / align * align) : NULL;
}

static void faulty_free(void *user, void *p, size_t size) {
    struct faulty *f = user;
    (void)size;
    pthread_mutex_lock(&f->lock);
    f->live--;
    pthread_mutex_unlock(&f->lock);
    free(p);
}

/* All of it once; the first status that is not OK. */
static enum proem_status whole_life(struct faulty *f, enum proem_device device, const char *text) {
    struct proem_context_options o;
    proem_context_options_init(&o);
    o.alloc = faulty_alloc;
    o.free = faulty_free;
    o.user = f;
    o.cache_dir = cache_dir;
    o.threads = 1;
    proem_context *c = NULL;
    proem_graph *g = NULL;
    proem_program *p = NULL;
    proem_execution *x = NULL;
    struct proem_compile_options co;
    proem_compile_options_init(&co);
    co.device = device;
    float a[32] = {0}, b[32] = {0}, y[32];
    struct tensor t[3];
    f32(&t[0], a, 2, 4, 8);
    f32(&t[1], b, 2, 8, 4);
    f32(&t[2], y, 2, 4, 4);
    const DLTensor *in[] = {&t[0].t, &t[1].t};
    DLTensor *out[] = {&t[2].t};
    enum proem_status s = proem_context_create(&o, &c);
    if (s == PROEM_OK) s = proem_graph_parse(c, text, strlen(text), "t", NULL, &g);
    if (s == PROEM_OK) s = proem_compile(g, &co, &p);
    if (s == PROEM_OK) s = proem_execution_create(p, &x);
    if (s == PROEM_OK) s = proem_run(x, in, 2, out, 1);
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_graph_destroy(g);
    proem_context_destroy(c);
    return s;
}

static void test_no_memory(void **state) {
    (void)state;
    static const char text[] = "graph g(a: f32[M, K], const b: f32[K, N]) {\n"
                               "  return softmax(matmul(a, b) * 2) + 1\n"
                               "}\n";
    static const enum proem_device devices[] = {PROEM_DEVICE_REF, PROEM_DEVICE_CPU};
    for (size_t d = 0; d < 2; d++) {
        struct faulty f = {.left = 1000000};
        pthread_mutex_init(&f.lock, NULL);
        assert_int_equal(whole_life(&f, devices[d], text), PROEM_OK);
        assert_int_equal(f.live, 0);
        long needed = f.made;
        for (long n = 0; n < needed; n++) {
            f.left = n;
            enum proem_status s = whole_life(&f, devices[d], text);
            if (f.live != 0) fail_msg("%ld allocations leak after failure %ld", f.live, n);
            /* What cannot be kept in the cache is no failure. */
            if (s != PROEM_OK && s != PROEM_NOMEM) fail_msg("failure %ld gives status %d", n, s);
        }
        pthread_mutex_destroy(&f.lock);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
