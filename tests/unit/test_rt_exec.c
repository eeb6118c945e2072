/* SPDX-License-Identifier: MIT
 * Threads, launches and programs, with hand-written kernels compiled by the runtime itself.
 */
#include "rt_units.h"

#include <math.h>
#include <pthread.h>

static const char kernels_text[] =
    "static pk_i64 none(const struct pk_args *a) { return 0; }\n"
    "static pk_i64 blocks(const struct pk_args *a, int p) { return (a->sym[0] + 15) / 16; }\n"
    "static pk_i64 one(const struct pk_args *a, int p) { return 1; }\n"
    /* inc: out[i] = in[i] + 1 */
    "static void inc(const struct pk_args *a, int p, pk_i64 t) {\n"
    "    const float *in = a->buf[0]; float *out = a->buf[1];\n"
    "    for (pk_i64 i = 16 * t; i < 16 * t + 16 && i < a->sym[0]; i++) out[i] = in[i] + 1;\n}\n"
    "static const struct pk_kernel k_inc = {\"inc\", 1, 0, none, none, blocks, inc};\n"
    /* sums: out[i] = 2 * in[i] by way of local scratch; out[N] = sum of in by way of shared */
    "static pk_i64 sums_shared(const struct pk_args *a) { return blocks(a, 0) * 4; }\n"
    "static pk_i64 sums_local(const struct pk_args *a) { return 16 * 4; }\n"
    "static pk_i64 sums_tasks(const struct pk_args *a, int p) { return p ? 1 : blocks(a, 0); }\n"
    "static void sums(const struct pk_args *a, int p, pk_i64 t) {\n"
    "    const float *in = a->buf[0]; float *out = a->buf[1], *part = a->shared, *l = a->local;\n"
    "    if (p == 0) {\n"
    "        pk_i64 n = a->sym[0] - 16 * t < 16 ? a->sym[0] - 16 * t : 16;\n"
    "        part[t] = 0;\n"
    "        for (int r = 0; r < 50; r++) for (pk_i64 i = 0; i < n; i++) l[i] = in[16 * t + i];\n"
    "        for (pk_i64 i = 0; i < n; i++) { out[16 * t + i] = 2 * l[i]; part[t] += l[i]; }\n"
    "    } else {\n"
    "        float s = 0;\n"
    "        for (pk_i64 i = 0; i < blocks(a, 0); i++) s += part[i];\n"
    "        out[a->sym[0]] = s;\n"
    "    }\n}\n"
    "static const struct pk_kernel k_sums =\n"
    "    {\"sums\", 2, 0, sums_shared, sums_local, sums_tasks, sums};\n"
    /* gemv: out[n] = sum of w[n][k] * x[k]; w may be packed (transposed) */
    "static void gemv(const struct pk_args *a, int p, pk_i64 t) {\n"
    "    pk_i64 n = a->sym[0], k = a->sym[1];\n"
    "    const float *w = a->buf[0], *x = a->buf[1], *wt = a->packed[0]; float *out = a->buf[2];\n"
    "    for (pk_i64 i = 16 * t; i < 16 * t + 16 && i < n; i++) {\n"
    "        float s = 0;\n"
    "        for (pk_i64 j = 0; j < k; j++) s += (wt ? wt[j * n + i] : w[i * k + j]) * x[j];\n"
    "        out[i] = s;\n    }\n}\n"
    "static pk_i64 w_bytes(const struct pk_args *a, int o) { return a->sym[0] * a->sym[1] * 4; }\n"
    "static pk_i64 w_tasks(const struct pk_args *a, int o) { return a->sym[0]; }\n"
    "static void w_pack(const struct pk_args *a, int o, pk_i64 i, void *dst) {\n"
    "    const float *w = a->buf[0]; float *wt = dst;\n"
    "    for (pk_i64 j = 0; j < a->sym[1]; j++) wt[j * a->sym[0] + i] = w[i * a->sym[1] + j];\n}\n"
    "static const struct pk_kernel k_gemv =\n"
    "    {\"gemv\", 1, 1, none, none, blocks, gemv, 0, w_bytes, w_tasks, w_pack};\n"
    "static void over_pack(const struct pk_args *a, int o, pk_i64 i, void *dst) {\n"
    "    ((float *)dst)[a->sym[0] * a->sym[1]] = 1;\n}\n"
    "static const struct pk_kernel k_overpack =\n"
    "    {\"overpack\", 1, 1, none, none, blocks, gemv, 0, w_bytes, w_tasks, over_pack};\n"
    /* pick: out[i] = in[i], which must be in 0..9 */
    "static int pick_check(const struct pk_args *a, struct pk_fault *f) {\n"
    "    const float *in = a->buf[0];\n"
    "    for (pk_i64 i = 0; i < a->sym[0]; i++) {\n"
    "        if (in[i] >= 0 && in[i] < 10) continue;\n"
    "        f->check = 2; f->index = i; f->value = (pk_i64)in[i]; f->bound = 10;\n"
    "        return 1;\n    }\n    return 0;\n}\n"
    "static const struct pk_kernel k_pick = {\"pick\", 1, 0, none, none, blocks, inc, "
    "pick_check};\n"
    /* over: writes behind its output, its shared or its local scratch, as sym[1] says */
    "static pk_i64 eight(const struct pk_args *a) { return 8; }\n"
    "static void over(const struct pk_args *a, int p, pk_i64 t) {\n"
    "    char *at[3] = {a->buf[1], a->shared, a->local};\n"
    "    pk_i64 n[3] = {4 * a->sym[0], 8, 8};\n"
    "    if (a->sym[1] < 3) at[a->sym[1]][n[a->sym[1]]] = 7;\n}\n"
    "static const struct pk_kernel k_over = {\"over\", 1, 0, eight, eight, one, over};\n"
    /* copy: out = in without change, so that poison shows */
    "static void copy(const struct pk_args *a, int p, pk_i64 t) {\n"
    "    const float *in = a->buf[0]; float *out = a->buf[1];\n"
    "    for (pk_i64 i = 0; i < a->sym[0]; i++) out[i] = in[i];\n}\n"
    "static const struct pk_kernel k_copy = {\"copy\", 1, 0, none, none, one, copy};\n"
    "static void nothing(const struct pk_args *a, int p, pk_i64 t) {}\n"
    "static const struct pk_kernel k_nothing = {\"nothing\", 1, 0, none, none, one, nothing};\n"
    "static pk_i64 wrong(const struct pk_args *a) { return -1; }\n"
    "static const struct pk_kernel k_wrong = {\"wrong\", 1, 0, wrong, none, one, nothing};\n"
    "static const struct pk_kernel *const list[] =\n"
    "    {&k_inc, &k_sums, &k_gemv, &k_pick, &k_over, &k_copy, &k_nothing, &k_wrong,\n"
    "     &k_overpack};\n"
    "const struct pk_unit proem_unit = {PK_ABI_VERSION, 9, list};\n";

struct fixture {
    struct rt *rt;
    struct rt_module *module;
};

static int set_up(void **state) {
    static struct fixture f;
    char *text = unit_text(kernels_text);
    struct rt_source s = unit_source("kernels", text);
    struct device_desc d;
    assert_true(device_by_name("generic", 7, &d));
    assert_ok(rt_new(&allocator_default, &(struct rt_options){0}, &f.rt, e));
    assert_ok(rt_load(f.rt, &d, 1, &s, &f.module, e));
    free(text);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    rt_module_unref(f->module);
    rt_free(f->rt);
    return 0;
}

static const struct pk_kernel *kernel(void **state, const char *name) {
    const struct fixture *f = *state;
    const struct pk_kernel *k = rt_module_kernel(f->module, name);
    assert_non_null(k);
    return k;
}

static struct rt_pool *new_pool(int threads) {
    struct rt_pool *p;
    assert_ok(rt_pool_new(&allocator_default, threads, &p, e));
    return p;
}

static struct rt_view vector(float *data, const int64_t *n) {
    return (struct rt_view){.data = data, .bits = 32, .rank = 1, .shape = n};
}

/* ---- threads --------------------------------------------------------------------------------- */

struct visits {
    int64_t seen[1000];
    int busy[8];
    int clashes;
};

static void visit(void *user, int worker, int64_t i) {
    struct visits *v = user;
    if (__atomic_exchange_n(&v->busy[worker], 1, __ATOMIC_ACQ_REL) != 0) {
        __atomic_fetch_add(&v->clashes, 1, __ATOMIC_RELAXED);
    }
    v->seen[i]++; /* one call has this place, so no atomic is needed */
    __atomic_store_n(&v->busy[worker], 0, __ATOMIC_RELEASE);
}

static void every_task_runs_once(void **state) {
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        struct rt_pool *p = new_pool(threads);
        assert_int_equal(rt_pool_threads(p), threads);
        for (int64_t n = 0; n <= 1000; n = n < 10 ? n + 1 : n * 10) {
            struct visits v = {0};
            rt_parallel(p, n, visit, &v, n % 2 == 0);
            for (int64_t i = 0; i < 1000; i++)
                assert_int_equal(v.seen[i], i < n);
            assert_int_equal(v.clashes, 0);
        }
        rt_pool_free(p);
    }
    struct rt_pool *p;
    assert_fails(rt_pool_new(&allocator_default, 0, &p, e), PROEM_INVALID, "0 threads");
    assert_fails(rt_pool_new(&allocator_default, 1 << 20, &p, e), PROEM_INVALID, "4096");
    rt_pool_free(NULL);
}

/* ---- programs -------------------------------------------------------------------------------- */

/* in -> inc -> t0 -> inc -> t1 .. -> out, `steps` times */
struct chain {
    struct rt_buffer buffers[12];
    struct rt_step steps[11];
    int args[11][2];
    struct rt_program_desc desc;
};

static void make_chain(void **state, struct chain *c, int steps) {
    struct fixture *f = *state;
    for (int i = 0; i <= steps; i++) {
        enum rt_place place = i == 0 ? RT_INPUT : i == steps ? RT_OUTPUT : RT_TEMP;
        c->buffers[i] = (struct rt_buffer){i == 0 ? "x" : i == steps ? "y" : "t", place, 32, -1};
    }
    for (int i = 0; i < steps; i++) {
        c->args[i][0] = i;
        c->args[i][1] = i + 1;
        c->steps[i] = (struct rt_step){kernel(state, "inc"), 2, c->args[i], NULL};
    }
    c->desc = (struct rt_program_desc){.n_buffers = steps + 1,
                                       .n_steps = steps,
                                       .n_symbols = 1,
                                       .n_modules = 1,
                                       .buffers = c->buffers,
                                       .steps = c->steps,
                                       .modules = &f->module};
}

static void fill_sizes(int64_t *bytes, int n, int64_t each) {
    for (int i = 0; i < n; i++)
        bytes[i] = each;
}

static void chain_reuses_memory_and_allocates_once(void **state) {
    struct chain c;
    make_chain(state, &c, 6);
    for (int threads = 1; threads <= 4; threads++) {
        struct counted counted = {.fail_at = -1};
        struct allocator a = counted_allocator(&counted);
        struct rt_pool *pool = new_pool(threads);
        struct rt_program *p;
        struct rt_exec *x;
        assert_ok(rt_program_new(&a, &c.desc, &p, e));
        assert_ok(rt_exec_new(p, pool, &x, e));
        static const int64_t sizes[] = {1000, 1000, 10, 0, 999, 1000};
        long calls = 0;
        for (size_t s = 0; s < COUNT_OF(sizes); s++) {
            float in[1000], out[1001];
            int64_t n = sizes[s], bytes[7];
            fill_sizes(bytes, 7, 4 * n);
            for (int i = 0; i < 1000; i++)
                in[i] = (float)i;
            for (int i = 0; i <= 1000; i++)
                out[i] = -1;
            assert_ok(rt_exec_prepare(x, &n, bytes, e));
            struct rt_view views[7] = {[0] = vector(in, &n), [6] = vector(out, &n)};
            if (s == 1) calls = counted.calls;
            assert_ok(rt_exec_run(x, views, NULL, e));
            for (int i = 0; i < n; i++)
                assert_true(out[i] == (float)(i + 6));
            assert_true(out[n] == -1);
            struct rt_memory m;
            rt_exec_memory(x, &m);
            if (n == 1000) assert_int_equal(m.arena, 2 * 4032);
            if (n == 1000) assert_int_equal(m.sum, 5 * 4032);
            assert_int_equal(m.staging, 0);
        }
        /* Only the plan's own working memory: two pieces for each change of sizes. */
        assert_true(counted.calls - calls <= 2 * 4);
        calls = counted.calls;
        int64_t n = 1000, bytes[7];
        float in[1000] = {0}, out[1000];
        fill_sizes(bytes, 7, 4000);
        struct rt_view views[7] = {[0] = vector(in, &n), [6] = vector(out, &n)};
        for (int i = 0; i < 10; i++) {
            assert_ok(rt_exec_prepare(x, &n, bytes, e));
            assert_ok(rt_exec_run(x, views, NULL, e));
        }
        assert_int_equal(counted.calls, calls);
        rt_exec_free(x);
        rt_program_free(p);
        rt_pool_free(pool);
        assert_int_equal(counted.live, 0);
    }
}

/* A two-step program in -> kernel -> out with sizes n and m floats. */
struct small {
    struct rt_buffer buffers[3];
    struct rt_step steps[2];
    int args[2][3];
    struct rt_program_desc desc;
};

static void make_small(void **state, struct small *s, const char *name, bool poison) {
    struct fixture *f = *state;
    s->buffers[0] = (struct rt_buffer){"x", RT_INPUT, 32, -1};
    s->buffers[1] = (struct rt_buffer){"y", RT_OUTPUT, 32, -1};
    s->args[0][0] = 0;
    s->args[0][1] = 1;
    s->steps[0] = (struct rt_step){kernel(state, name), 2, s->args[0], NULL};
    s->desc = (struct rt_program_desc){.n_buffers = 2,
                                       .n_steps = 1,
                                       .n_symbols = 2,
                                       .n_modules = 1,
                                       .buffers = s->buffers,
                                       .steps = s->steps,
                                       .modules = &f->module,
                                       .poison = poison};
}

/* Run a small program once with these views on a pool of its own. */
static enum proem_status run_small(const struct small *s, int threads, const int64_t *sym,
                                   const struct rt_view *views, struct rt_fault *fault,
                                   struct err *e) {
    struct rt_pool *pool = new_pool(threads);
    struct rt_program *p;
    struct rt_exec *x;
    int64_t bytes[3] = {0};
    for (int i = 0; i < s->desc.n_buffers; i++) {
        if (views[i].bits == 0) {
            bytes[i] = 4 * sym[0];
        } else {
            assert_true(rt_view_bytes(&views[i], &bytes[i]));
        }
    }
    assert_int_equal(rt_program_new(&allocator_default, &s->desc, &p, e), PROEM_OK);
    assert_int_equal(rt_exec_new(p, pool, &x, e), PROEM_OK);
    enum proem_status status = rt_exec_prepare(x, sym, bytes, e);
    for (int i = 0; i < 3 && status == PROEM_OK; i++)
        status = rt_exec_run(x, views, fault, e);
    rt_exec_free(x);
    rt_program_free(p);
    rt_pool_free(pool);
    return status;
}

static void phases_and_scratch_do_not_depend_on_threads(void **state) {
    enum { N = 5003 };
    static float in[N], first[N + 1], out[N + 1];
    int64_t n = N, m = N + 1, sym[2] = {N, 0};
    for (int i = 0; i < N; i++)
        in[i] = 1.0f / (float)(i + 3);
    for (int poison = 0; poison < 2; poison++) {
        struct small s;
        make_small(state, &s, "sums", poison != 0);
        for (int threads = 1; threads <= 4; threads++) {
            struct rt_view views[2] = {vector(in, &n), vector(out, &m)};
            memset(out, 0, sizeof out);
            assert_ok(run_small(&s, threads, sym, views, NULL, e));
            if (poison == 0 && threads == 1) memcpy(first, out, sizeof out);
            assert_memory_equal(out, first, sizeof out);
        }
    }
    for (int i = 0; i < N; i++)
        assert_true(first[i] == 2 * in[i]);
    assert_true(fabsf(first[N] - 7.44f) < 0.5f);
}

static void strided_arguments(void **state) {
    float in[64], out[64];
    int64_t shape[2] = {4, 5}, in_strides[2] = {1, 8}, out_strides[2] = {10, -2}, sym[2] = {20, 0};
    for (int i = 0; i < 64; i++) {
        in[i] = (float)i;
        out[i] = -5;
    }
    struct small s;
    make_small(state, &s, "inc", false);
    struct rt_view views[2] = {{in, 32, 2, shape, in_strides},
                               {out + 8, 32, 2, shape, out_strides}};
    assert_ok(run_small(&s, 2, sym, views, NULL, e));
    int written = 0;
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 5; j++) {
            assert_true(out[8 + 10 * i - 2 * j] == in[i + 8 * j] + 1);
            written++;
        }
    }
    for (int i = 0; i < 64; i++)
        written -= out[i] != -5;
    assert_int_equal(written, 0);
}

static void unaligned_arguments(void **state) {
    char in[4 * 20 + 1], out[4 * 20 + 2];
    int64_t n = 20, sym[2] = {20, 0};
    for (int i = 0; i < 20; i++)
        memcpy(in + 1 + 4 * i, &(float){(float)i}, 4);
    struct small s;
    make_small(state, &s, "inc", false);
    struct rt_view views[2] = {{in + 1, 32, 1, &n, NULL}, {out + 2, 32, 1, &n, NULL}};
    assert_ok(run_small(&s, 1, sym, views, NULL, e));
    for (int i = 0; i < 20; i++) {
        float v;
        memcpy(&v, out + 2 + 4 * i, 4);
        assert_true(v == (float)(i + 1));
    }
}

static void data_faults_are_reported(void **state) {
    float in[20] = {0}, out[20];
    int64_t n = 20, sym[2] = {20, 0};
    struct rt_fault fault = {.step = -1};
    struct small s;
    make_small(state, &s, "pick", false);
    struct rt_view views[2] = {vector(in, &n), vector(out, &n)};
    assert_ok(run_small(&s, 2, sym, views, &fault, e));
    assert_int_equal(fault.step, -1);
    in[13] = 12;
    in[17] = -1;
    assert_fails(run_small(&s, 2, sym, views, &fault, e), PROEM_DATA, "position 13");
    assert_int_equal(fault.step, 0);
    assert_int_equal(fault.fault.check, 2);
    assert_int_equal(fault.fault.index, 13);
    assert_int_equal(fault.fault.value, 12);
    assert_int_equal(fault.fault.bound, 10);
    assert_fails(run_small(&s, 2, sym, views, NULL, e), PROEM_DATA, "pick");
}

static void wrong_arguments(void **state) {
    float in[20] = {0}, out[20];
    int64_t n = 20, few = 19, none = 0, negative = -1, sym[2] = {20, 0}, bytes[2] = {80, 80};
    struct small s;
    struct rt_pool *pool = new_pool(1);
    struct rt_program *p;
    struct rt_exec *x;
    make_small(state, &s, "inc", false);
    assert_ok(rt_program_new(&allocator_default, &s.desc, &p, e));
    assert_ok(rt_exec_new(p, pool, &x, e));
    struct rt_view views[2] = {vector(in, &n), vector(out, &n)};
    assert_fails(rt_exec_run(x, views, NULL, e), PROEM_INTERNAL, "sizes");
    assert_ok(rt_exec_prepare(x, sym, bytes, e));
    views[0] = vector(in, &few);
    assert_fails(rt_exec_run(x, views, NULL, e), PROEM_INVALID, "'x'");
    views[0] = vector(NULL, &n);
    assert_fails(rt_exec_run(x, views, NULL, e), PROEM_INVALID, "null");
    views[0] = vector(in, &negative);
    assert_fails(rt_exec_run(x, views, NULL, e), PROEM_INVALID, "out of range");
    views[0] = vector(in, &n);
    views[1] = vector(in + 5, &n);
    assert_fails(rt_exec_run(x, views, NULL, e), PROEM_INVALID, "'y' overlaps input 'x'");
    views[1] = vector(in, &n);
    assert_fails(rt_exec_run(x, views, NULL, e), PROEM_INVALID, "overlaps");
    bytes[0] = -4;
    assert_fails(rt_exec_prepare(x, sym, bytes, e), PROEM_NOMEM, "'x'");
    assert_fails(rt_exec_run(x, views, NULL, e), PROEM_INTERNAL, "sizes");
    bytes[0] = bytes[1] = 0; /* empty tensors need no memory */
    sym[0] = 0;
    views[0] = vector(NULL, &none);
    views[1] = vector(NULL, &none);
    assert_ok(rt_exec_prepare(x, sym, bytes, e));
    assert_ok(rt_exec_run(x, views, NULL, e));
    rt_exec_free(x);
    rt_program_free(p);
    rt_pool_free(pool);
}

static void output_in_its_input(void **state) {
    float data[20], other[20];
    int64_t n = 20, sym[2] = {20, 0};
    for (int i = 0; i < 20; i++)
        data[i] = (float)i;
    struct small s;
    make_small(state, &s, "inc", false);
    s.buffers[1].may_alias = 0;
    struct rt_view views[2] = {vector(data, &n), vector(data, &n)};
    assert_ok(run_small(&s, 2, sym, views, NULL, e)); /* runs three times */
    for (int i = 0; i < 20; i++)
        assert_true(data[i] == (float)(i + 3));
    views[1] = vector(other, &n);
    assert_ok(run_small(&s, 2, sym, views, NULL, e));
    assert_true(other[19] == 23);
    n = 10;
    sym[0] = 10;
    views[1] = vector(data + 1, &n);
    assert_fails(run_small(&s, 2, sym, views, NULL, e), PROEM_INVALID, "overlaps");
}

static void wrong_programs(void **state) {
    struct small s;
    struct rt_program *p;
    make_small(state, &s, "inc", false);
    s.args[0][1] = 2;
    assert_fails(rt_program_new(&allocator_default, &s.desc, &p, e), PROEM_INTERNAL, "step 0");
    s.args[0][1] = 1;
    s.buffers[1].may_alias = 1;
    assert_fails(rt_program_new(&allocator_default, &s.desc, &p, e), PROEM_INTERNAL, "buffer 1");
    s.buffers[1].may_alias = -1;
    s.buffers[0].bits = 0;
    assert_fails(rt_program_new(&allocator_default, &s.desc, &p, e), PROEM_INTERNAL, "buffer 0");
    s.buffers[0].bits = 32;
    s.steps[0].kernel = kernel(state, "wrong");
    float x[1] = {0}, y[1];
    int64_t n = 1, sym[2] = {1, 0};
    struct rt_view views[2] = {vector(x, &n), vector(y, &n)};
    assert_fails(run_small(&s, 1, sym, views, NULL, e), PROEM_NOMEM, "'wrong'");
}

/* ---- poison ---------------------------------------------------------------------------------- */

/* in -> kernel -> temporary -> copy -> out */
static void make_through_temp(void **state, struct small *s, const char *name) {
    make_small(state, s, name, true);
    s->buffers[2] = s->buffers[1];
    s->buffers[1] = (struct rt_buffer){"t", RT_TEMP, 32, -1};
    s->args[1][0] = 1;
    s->args[1][1] = 2;
    s->steps[1] = (struct rt_step){kernel(state, "copy"), 2, s->args[1], NULL};
    s->desc.n_buffers = 3;
    s->desc.n_steps = 2;
}

static void poison_shows_what_nobody_wrote(void **state) {
    float in[5] = {0}, out[5] = {0};
    int64_t n = 5, sym[2] = {5, 0};
    struct small s;
    make_through_temp(state, &s, "nothing");
    struct rt_view views[3] = {vector(in, &n), {0}, vector(out, &n)};
    assert_ok(run_small(&s, 1, sym, views, NULL, e));
    for (int i = 0; i < 5; i++)
        assert_true(isnan(out[i]));
}

static void guards_show_writes_past_an_end(void **state) {
    static const char *const name[] = {"'t'", "'shared scratch'", "'local scratch'"};
    float in[5] = {0}, out[5] = {0};
    int64_t n = 5;
    struct small s;
    make_through_temp(state, &s, "over");
    for (int64_t where = 0; where < 3; where++) {
        int64_t sym[2] = {5, where};
        struct rt_view views[3] = {vector(in, &n), {0}, vector(out, &n)};
        assert_fails(run_small(&s, 1, sym, views, NULL, e), PROEM_INTERNAL, name[where]);
    }
    int64_t sym[2] = {5, 3};
    struct rt_view views[3] = {vector(in, &n), {0}, vector(out, &n)};
    assert_ok(run_small(&s, 2, sym, views, NULL, e));
}

/* ---- packed constants ------------------------------------------------------------------------ */

enum { ROWS = 37, COLS = 11 };

struct gemv {
    struct rt_buffer buffers[3];
    struct rt_step step;
    int args[3], packs[1];
    struct rt_operand operand;
    struct rt_program_desc desc;
};

static void make_gemv(void **state, struct gemv *g) {
    struct fixture *f = *state;
    g->buffers[0] = (struct rt_buffer){"w", RT_CONST, 32, -1};
    g->buffers[1] = (struct rt_buffer){"x", RT_INPUT, 32, -1};
    g->buffers[2] = (struct rt_buffer){"y", RT_OUTPUT, 32, -1};
    for (int i = 0; i < 3; i++)
        g->args[i] = i;
    g->packs[0] = 0;
    g->operand = (struct rt_operand){1, g->packs};
    g->step = (struct rt_step){kernel(state, "gemv"), 3, g->args, &g->operand};
    g->desc = (struct rt_program_desc){.n_buffers = 3,
                                       .n_steps = 1,
                                       .n_symbols = 2,
                                       .n_modules = 1,
                                       .buffers = g->buffers,
                                       .steps = &g->step,
                                       .modules = &f->module};
}

static const int64_t gemv_sym[2] = {ROWS, COLS};
static const int64_t gemv_bytes[3] = {4 * ROWS * COLS, 4 * COLS, 4 * ROWS};

static void fill_gemv(float *w, float *x, float offset) {
    for (int i = 0; i < ROWS * COLS; i++)
        w[i] = (float)(i % 7) + offset;
    for (int i = 0; i < COLS; i++)
        x[i] = (float)(i + 1);
}

static enum proem_status run_gemv(struct rt_exec *x, float *w, const int64_t *w_strides, float *in,
                                  float *out, struct err *e) {
    static const int64_t w_shape[2] = {ROWS, COLS}, in_shape[1] = {COLS}, out_shape[1] = {ROWS};
    struct rt_view views[3] = {
        {w, 32, 2, w_shape, w_strides}, {in, 32, 1, in_shape, NULL}, {out, 32, 1, out_shape, NULL}};
    TRY(rt_exec_prepare(x, gemv_sym, gemv_bytes, e));
    return rt_exec_run(x, views, NULL, e);
}

static bool gemv_is(const float *out, const float *w, const float *x) {
    for (int i = 0; i < ROWS; i++) {
        float s = 0;
        for (int j = 0; j < COLS; j++)
            s += w[i * COLS + j] * x[j];
        if (out[i] != s) return false;
    }
    return true;
}

static void constants_are_packed_once(void **state) {
    static float w[ROWS * COLS], w2[ROWS * COLS], old[ROWS * COLS], x[COLS], out[ROWS];
    struct gemv g;
    struct rt_pool *pool = new_pool(2);
    struct rt_program *p;
    struct rt_exec *a, *b;
    make_gemv(state, &g);
    assert_ok(rt_program_new(&allocator_default, &g.desc, &p, e));
    assert_ok(rt_exec_new(p, pool, &a, e));
    assert_ok(rt_exec_new(p, pool, &b, e));
    assert_int_equal(rt_program_packed_bytes(p), 0);
    fill_gemv(w, x, 1);
    memcpy(old, w, sizeof w);
    assert_ok(run_gemv(a, w, NULL, x, out, e));
    assert_true(gemv_is(out, w, x));
    assert_int_equal(rt_program_packed_bytes(p), sizeof w);
    for (int i = 0; i < ROWS * COLS; i++)
        w[i] = 100; /* which breaks the promise: shows reuse */
    assert_ok(run_gemv(a, w, NULL, x, out, e));
    assert_true(gemv_is(out, old, x));
    assert_ok(run_gemv(b, w, NULL, x, out, e));
    assert_true(gemv_is(out, old, x));
    fill_gemv(w2, x, 3);
    assert_ok(run_gemv(b, w2, NULL, x, out, e)); /* another address: packed anew */
    assert_true(gemv_is(out, w2, x));
    assert_ok(run_gemv(a, w, NULL, x, out, e)); /* a still has its own */
    assert_true(gemv_is(out, old, x));
    assert_int_equal(rt_program_packed_bytes(p), sizeof w);
    rt_exec_free(a);
    rt_exec_free(b);
    rt_program_free(p);
    /* Without constant buffers in the list nothing is packed. */
    g.buffers[0].place = RT_INPUT;
    assert_ok(rt_program_new(&allocator_default, &g.desc, &p, e));
    assert_ok(rt_exec_new(p, pool, &a, e));
    assert_ok(run_gemv(a, w, NULL, x, out, e));
    assert_true(gemv_is(out, w, x));
    assert_int_equal(rt_program_packed_bytes(p), 0);
    rt_exec_free(a);
    rt_program_free(p);
    rt_pool_free(pool);
}

/* Layers that share weights: two steps of one kernel with the same constant pack it once. */
static void steps_share_what_is_packed(void **state) {
    static float w[ROWS * COLS], x[COLS], out[2][ROWS];
    static const int64_t s[] = {ROWS, COLS}, bytes[] = {sizeof w, 4 * COLS, 4 * ROWS, 4 * ROWS};
    static const int args[3] = {0, 1, 3};
    const struct rt_view of[2] = {{w, 32, 2, s, NULL}, {x, 32, 1, s + 1, NULL}};
    const struct rt_view views[4] = {
        of[0], of[1], {out[0], 32, 1, s, NULL}, {out[1], 32, 1, s, NULL}};
    struct gemv g;
    struct rt_pool *pool = new_pool(2);
    struct rt_program *p;
    struct rt_exec *a;
    make_gemv(state, &g);
    struct rt_buffer buffers[4] = {g.buffers[0], g.buffers[1], g.buffers[2], g.buffers[2]};
    struct rt_step steps[2] = {g.step, {g.step.kernel, 3, args, &g.operand}};
    g.desc.n_buffers = 4, g.desc.buffers = buffers, g.desc.n_steps = 2, g.desc.steps = steps;
    fill_gemv(w, x, 1);
    assert_ok(rt_program_new(&allocator_default, &g.desc, &p, e));
    assert_ok(rt_exec_new(p, pool, &a, e));
    assert_ok(rt_exec_prepare(a, gemv_sym, bytes, e));
    assert_ok(rt_exec_run(a, views, NULL, e));
    assert_true(gemv_is(out[0], w, x) && gemv_is(out[1], w, x));
    assert_int_equal(rt_program_packed_bytes(p), sizeof w);
    rt_exec_free(a);
    rt_program_free(p);
    rt_pool_free(pool);
}

static void packing_past_the_end_is_seen(void **state) {
    static float w[ROWS * COLS], x[COLS], out[ROWS];
    struct gemv g;
    struct rt_pool *pool = new_pool(2);
    make_gemv(state, &g);
    g.desc.poison = true;
    fill_gemv(w, x, 1);
    for (int bad = 0; bad < 2; bad++) {
        struct rt_program *p;
        struct rt_exec *a;
        struct pk_kernel k = *kernel(state, "gemv");
        if (bad != 0) k.pack = kernel(state, "overpack")->pack;
        g.step.kernel = &k;
        assert_ok(rt_program_new(&allocator_default, &g.desc, &p, e));
        assert_ok(rt_exec_new(p, pool, &a, e));
        if (bad != 0) {
            assert_fails(run_gemv(a, w, NULL, x, out, e), PROEM_INTERNAL, "packed operand 0");
        } else {
            assert_ok(run_gemv(a, w, NULL, x, out, e));
            assert_true(gemv_is(out, w, x));
        }
        rt_exec_free(a);
        rt_program_free(p);
    }
    rt_pool_free(pool);
}

static void strided_constants_are_copied_once(void **state) {
    static float wt[ROWS * COLS], w[ROWS * COLS], x[COLS], out[ROWS];
    static const int64_t strides[2] = {1, ROWS};
    struct gemv g;
    struct rt_pool *pool = new_pool(1);
    struct rt_program *p;
    struct rt_exec *a;
    make_gemv(state, &g);
    g.step.operands = NULL;
    assert_ok(rt_program_new(&allocator_default, &g.desc, &p, e));
    assert_ok(rt_exec_new(p, pool, &a, e));
    fill_gemv(w, x, 2);
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < COLS; j++)
            wt[j * ROWS + i] = w[i * COLS + j];
    }
    assert_ok(run_gemv(a, wt, strides, x, out, e));
    assert_true(gemv_is(out, w, x));
    for (int i = 0; i < ROWS * COLS; i++)
        wt[i] = 0;
    assert_ok(run_gemv(a, wt, strides, x, out, e));
    assert_true(gemv_is(out, w, x));
    struct rt_memory m;
    rt_exec_memory(a, &m);
    assert_int_equal(m.staging, sizeof w);
    rt_exec_free(a);
    rt_program_free(p);
    rt_pool_free(pool);
}

struct user_thread {
    struct rt_program *program;
    struct rt_pool *pool;
    float *w, *x;
    bool ok;
};

static void *use_program(void *user) {
    struct user_thread *u = user;
    struct rt_exec *x;
    float out[ROWS];
    if (rt_exec_new(u->program, u->pool, &x, NULL) != PROEM_OK) return NULL;
    u->ok = true;
    for (int i = 0; i < 50; i++) {
        memset(out, 0, sizeof out);
        if (run_gemv(x, u->w, NULL, u->x, out, NULL) != PROEM_OK) u->ok = false;
        if (!gemv_is(out, u->w, u->x)) u->ok = false;
    }
    rt_exec_free(x);
    return NULL;
}

static void runs_from_several_threads(void **state) {
    static float w[2][ROWS * COLS], x[COLS];
    struct gemv g;
    struct rt_program *p;
    make_gemv(state, &g);
    for (int threads = 1; threads <= 3; threads++) {
        struct rt_pool *pool = new_pool(threads);
        struct user_thread u[4];
        pthread_t t[4];
        assert_ok(rt_program_new(&allocator_default, &g.desc, &p, e));
        fill_gemv(w[0], x, 1);
        fill_gemv(w[1], x, 5);
        for (int i = 0; i < 4; i++) {
            u[i] = (struct user_thread){p, pool, w[i % 2], x, false};
            assert_int_equal(pthread_create(&t[i], NULL, use_program, &u[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(t[i], NULL);
            assert_true(u[i].ok);
        }
        rt_program_free(p);
        rt_pool_free(pool);
    }
}

/* ---- lack of memory -------------------------------------------------------------------------- */

static void survives_lack_of_memory(void **state) {
    static float w[ROWS * COLS], x[COLS], out[ROWS];
    static const int64_t strides[2] = {1, ROWS};
    struct gemv g;
    make_gemv(state, &g);
    fill_gemv(w, x, 1);
    bool done = false;
    for (long fail = 0; !done; fail++) {
        struct counted c = {.fail_at = fail};
        struct allocator a = counted_allocator(&c);
        struct rt_pool *pool = NULL;
        struct rt_program *p = NULL;
        struct rt_exec *exec = NULL;
        struct err e;
        err_clear(&e);
        enum proem_status s = rt_pool_new(&a, 2, &pool, &e);
        if (s == PROEM_OK) s = rt_program_new(&a, &g.desc, &p, &e);
        if (s == PROEM_OK) s = rt_exec_new(p, pool, &exec, &e);
        if (s == PROEM_OK) s = run_gemv(exec, w, strides, x, out, &e);
        done = s == PROEM_OK;
        if (!done) {
            assert_int_equal(s, PROEM_NOMEM);
            assert_true(c.calls > fail);
            /* The same objects work once there is memory again. */
            if (exec != NULL) {
                err_clear(&e);
                assert_int_equal(run_gemv(exec, w, strides, x, out, &e), PROEM_OK);
            }
        }
        rt_exec_free(exec);
        rt_program_free(p);
        rt_pool_free(pool);
        assert_int_equal(c.live, 0);
        assert_true(fail < 100);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once),
        cmocka_unit_test(chain_reuses_memory_and_allocates_once),
        cmocka_unit_test(phases_and_scratch_do_not_depend_on_threads),
        cmocka_unit_test(strided_arguments),
        cmocka_unit_test(unaligned_arguments),
        cmocka_unit_test(data_faults_are_reported),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(output_in_its_input),
        cmocka_unit_test(wrong_programs),
        cmocka_unit_test(poison_shows_what_nobody_wrote),
        cmocka_unit_test(guards_show_writes_past_an_end),
        cmocka_unit_test(constants_are_packed_once),
        cmocka_unit_test(steps_share_what_is_packed),
        cmocka_unit_test(packing_past_the_end_is_seen),
        cmocka_unit_test(strided_constants_are_copied_once),
        cmocka_unit_test(runs_from_several_threads),
        cmocka_unit_test(survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
