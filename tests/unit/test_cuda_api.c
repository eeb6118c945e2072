/* SPDX-License-Identifier: MIT
 * Programs for GPUs through the public interface, on the fake driver: where tensors may be, streams,
 * sizes, data errors in the words of the CPU, threads, and every call that can fail. Kernels do
 * nothing here; what is looked at is how they are launched.
 */
#include "api_util.h"

#include <dlfcn.h>
#include <pthread.h>

#include "fake_cuda.h"

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

/* Nothing is left on the device. */
static int nothing_left(void **state) {
    (void)state;
    if (fake->live == 0 && fake->depth == 0 && fake->strays == 0 && nvrtc->live == 0) return 0;
    print_message("left: %ld device objects, depth %ld, %ld strays, %ld programs\n", fake->live,
                  fake->depth, fake->strays, nvrtc->live);
    return 1;
}

/* Memory on the fake device is the host's: an allocation of the driver's. */
static void *device_memory(size_t n) {
    void *handle = dlopen(FAKE_CUDA, RTLD_NOW), *f = dlsym(handle, "cuMemAlloc_v2");
    int (*alloc)(uint64_t *, size_t), (*push)(void *), (*pop)(void **);
    memcpy(&alloc, &f, sizeof f);
    f = dlsym(handle, "cuCtxPushCurrent_v2");
    memcpy(&push, &f, sizeof f);
    f = dlsym(handle, "cuCtxPopCurrent_v2");
    memcpy(&pop, &f, sizeof f);
    uint64_t at = 0;
    void *old;
    assert_int_equal(push(NULL), 0);
    assert_int_equal(alloc(&at, n), 0);
    assert_int_equal(pop(&old), 0);
    return (void *)(uintptr_t)at;
}

static void device_free(void *p) {
    void *f = dlsym(dlopen(FAKE_CUDA, RTLD_NOW), "cuMemFree_v2");
    int (*release)(uint64_t);
    memcpy(&release, &f, sizeof f);
    assert_int_equal(release((uint64_t)(uintptr_t)p), 0);
}

static const char layer[] = "graph layer(x: f32[M, 64], w: f32[64, 32]) {\n"
                            "  h = softmax(matmul(x, w))\n"
                            "  return h\n"
                            "}\n";

/* The tensors of `layer` for m rows. */
struct layer {
    struct tensor x, w, h;
    float x_data[512 * 64], w_data[64 * 32], h_data[512 * 32];
    const DLTensor *in[2];
    DLTensor *out[1];
};

static struct layer tensors;

static struct layer *layer_of(int64_t m) {
    struct layer *l = &tensors;
    f32(&l->x, l->x_data, 2, m, 64);
    f32(&l->w, l->w_data, 2, 64, 32);
    f32(&l->h, l->h_data, 2, m, 32);
    l->in[0] = &l->x.t;
    l->in[1] = &l->w.t;
    l->out[0] = &l->h.t;
    return l;
}

static unsigned first_grid(proem_execution *x, int64_t m) {
    struct layer *l = layer_of(m);
    fake->n_launches = 0;
    run_ok(x, l->in, 2, l->out, 1);
    assert_true(fake->n_launches >= 2);
    return fake->launches[0].grid;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void test_host(void **state) {
    (void)state;
    proem_context *c = context();
    proem_program *p = compile_text(c, layer, PROEM_DEVICE_CUDA);
    proem_execution *x = NULL;
    assert_int_equal(proem_execution_create(p, &x), PROEM_OK);
    assert_int_equal(proem_program_kernels(p), 2);
    assert_true(nvrtc->compiled >= 1);
    unsigned few = first_grid(x, 16), many = first_grid(x, 512);
    assert_true(many > few); /* blocks follow the sizes */
    assert_int_equal(first_grid(x, 16), few);
    long syncs = fake->syncs;
    first_grid(x, 16);
    assert_true(fake->syncs > syncs); /* results on the host are waited for */
    assert_int_equal(proem_program_check(x), PROEM_OK);
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

static void test_device(void **state) {
    (void)state;
    proem_context *c = context();
    proem_program *p = compile_text(c, layer, PROEM_DEVICE_CUDA);
    proem_execution *x = NULL;
    assert_int_equal(proem_execution_create(p, &x), PROEM_OK);
    struct layer *l = layer_of(8);
    DLTensor *all[] = {&l->x.t, &l->w.t, &l->h.t};
    size_t bytes[] = {8 * 64 * 4, 64 * 32 * 4, 8 * 32 * 4};
    for (int i = 0; i < 3; i++) {
        all[i]->data = device_memory(bytes[i]);
        all[i]->device = (DLDevice){kDLCUDA, 0};
    }
    run_ok(x, l->in, 2, l->out, 1); /* sizes, memory */
    long syncs = fake->syncs, live = fake->live;
    fake->n_launches = 0;
    run_ok(x, l->in, 2, l->out, 1);
    assert_int_equal(fake->syncs, syncs);
    assert_int_equal(fake->live, live);
    int n = fake->n_launches;
    assert_true(n >= 2);
    for (int i = 0; i < n; i++)
        assert_null(fake->launches[i].stream);
    assert_int_equal(proem_program_check(x), PROEM_OK);
    assert_true(fake->syncs > syncs);
    l->h.t.device.device_id = 2;
    assert_int_equal(proem_run(x, l->in, 2, l->out, 1), PROEM_INVALID);
    has(proem_execution_error(x), "output 'h' is neither on CUDA device 0 nor on the CPU");
    l->h.t.device = (DLDevice){kDLCUDA, 0};
    l->h.t.data = l->x.t.data;
    assert_int_equal(proem_run(x, l->in, 2, l->out, 1), PROEM_INVALID);
    has(proem_execution_error(x), "output 'h' overlaps input 'x'");
    l->h.t.device = (DLDevice){kDLVulkan, 0};
    assert_int_equal(proem_run(x, l->in, 2, l->out, 1), PROEM_INVALID);
    proem_execution_destroy(x);
    proem_program_destroy(p);
    device_free(l->x.t.data);
    device_free(l->w.t.data);
    proem_context_destroy(c);
    /* the output's memory was replaced above: find it as what is left */
    assert_int_equal(fake->live, 1);
    fake->live = 0;
}

static void test_stream(void **state) {
    (void)state;
    proem_context *c = context();
    proem_program *p = compile_text(c, layer, PROEM_DEVICE_CUDA);
    proem_program *cpu = compile_text(c, layer, PROEM_DEVICE_REF);
    proem_execution *x = NULL, *y = NULL;
    assert_int_equal(proem_execution_create(p, &x), PROEM_OK);
    assert_int_equal(proem_execution_create(cpu, &y), PROEM_OK);
    void *stream[2] = {NULL, NULL}; /* what the fake takes for a stream that captures nothing */
    assert_int_equal(proem_execution_set_stream(x, stream), PROEM_OK);
    first_grid(x, 4);
    for (int i = 0; i < fake->n_launches; i++)
        assert_ptr_equal(fake->launches[i].stream, stream);
    assert_int_equal(proem_execution_set_stream(y, stream), PROEM_INVALID);
    has(proem_execution_error(y), "only programs for CUDA devices");
    assert_int_equal(proem_execution_set_stream(y, NULL), PROEM_OK);
    assert_int_equal(proem_program_check(y), PROEM_OK);
    struct layer *l = layer_of(4);
    l->x.t.device = (DLDevice){kDLCUDA, 0};
    assert_int_equal(proem_run(y, l->in, 2, l->out, 1), PROEM_INVALID);
    has(proem_execution_error(y), "input 'x' is not on the CPU");
    assert_int_equal(proem_execution_set_stream(NULL, NULL), PROEM_INVALID);
    assert_int_equal(proem_program_check(NULL), PROEM_INVALID);
    proem_execution_destroy(x);
    proem_execution_destroy(y);
    proem_program_destroy(p);
    proem_program_destroy(cpu);
    proem_context_destroy(c);
}

/* ---- data errors ----------------------------------------------------------------------------- */

static const char look_up[] = "graph look_up(t: f32[8, 4], i: i32[6]) {\n"
                              "  y = take(t, i)\n"
                              "  return y\n"
                              "}\n";

static void run_look_up(proem_execution *x, enum proem_status want, char *text) {
    float t[32] = {0}, y[24];
    int32_t i[6] = {0, 1, 7, 12, 3, -9};
    struct tensor in[2], out;
    int64_t six = 6;
    f32(&in[0], t, 2, 8, 4);
    tensor_set(&in[1], i, kDLInt, 32, 1, &six);
    f32(&out, y, 2, 6, 4);
    const DLTensor *inputs[] = {&in[0].t, &in[1].t};
    DLTensor *outputs[] = {&out.t};
    assert_int_equal(proem_run(x, inputs, 2, outputs, 1), want);
    strcpy(text, proem_execution_error(x));
}

static void test_fault(void **state) {
    (void)state;
    proem_context *c = context();
    char on_cpu[512], on_gpu[512];
    static const enum proem_device devices[] = {PROEM_DEVICE_CPU, PROEM_DEVICE_CUDA};
    /* t, i, y; no symbol; scratch */
    *fake = (struct fake_cuda){.fail_at = -1,
                               .devices = 1,
                               .version = 12080,
                               .cc = 90,
                               .fault_word = 3 + 1 + 1,
                               .fault_index = 3,
                               .fault_value = 12,
                               .fault_bound = 8};
    for (int k = 0; k < 2; k++) {
        proem_program *p = compile_text(c, look_up, devices[k]);
        proem_execution *x = NULL;
        assert_int_equal(proem_execution_create(p, &x), PROEM_OK);
        run_look_up(x, PROEM_DATA, k == 0 ? on_cpu : on_gpu);
        if (k == 1) {
            assert_non_null(strstr(fake->launches[0].name, "check")); /* before the others */
            fake->fault_word = 0;
            run_look_up(x, PROEM_OK, on_gpu + 256); /* once is enough */
        }
        proem_execution_destroy(x);
        proem_program_destroy(p);
    }
    assert_string_equal(on_cpu, on_gpu);
    has(on_gpu, "i[3] is 12, but t has 8 rows");
    proem_context_destroy(c);
}

/* ---- what cannot be -------------------------------------------------------------------------- */

static enum proem_status try_compile(proem_context *c, const char *arch, bool strict) {
    proem_graph *g = NULL;
    proem_program *p = NULL;
    struct proem_compile_options o;
    proem_compile_options_init(&o);
    o.device = PROEM_DEVICE_CUDA;
    o.arch = arch;
    o.strict = strict;
    assert_int_equal(proem_graph_parse(c, layer, strlen(layer), NULL, NULL, &g), PROEM_OK);
    proem_error_clear(c);
    enum proem_status s = proem_compile(g, &o, &p);
    proem_graph_destroy(g);
    proem_program_destroy(p);
    return s;
}

static void test_refused(void **state) {
    (void)state;
    proem_context *c = context();
    assert_int_equal(try_compile(c, "sm_90a", false), PROEM_OK);
    assert_int_equal(try_compile(c, "sm_80", false), PROEM_DEVICE);
    has(proem_error_text(c, NULL, NULL), "the device is sm_90a: it cannot run code for sm_80");
    assert_int_equal(try_compile(c, "avx2", false), PROEM_INVALID);
    has(proem_error_text(c, NULL, NULL), "expected sm_80, sm_90, sm_90a or sm_100a");
    assert_int_equal(try_compile(c, NULL, true), PROEM_OK);
    proem_context_destroy(c);
    setenv("PROEM_CUDA", "/nonexistent/libcuda.so.1", 1);
    c = context();
    assert_int_equal(try_compile(c, NULL, false), PROEM_DEVICE);
    has(proem_error_text(c, NULL, NULL), "looked for /nonexistent/libcuda.so.1");
    proem_context_destroy(c);
    setenv("PROEM_CUDA", FAKE_CUDA, 1);
}

/* What is slow by the compiler's own account runs, unless --strict forbids it. */
static void test_strict(void **state) {
    (void)state;
    struct proem_context_options o;
    proem_context_options_init(&o); /* no disk cache */
    proem_context *c = NULL;
    assert_int_equal(proem_context_create(&o, &c), PROEM_OK);
    nvrtc->spills = 1;
    assert_int_equal(try_compile(c, NULL, false), PROEM_OK);
    assert_int_equal(try_compile(c, NULL, true), PROEM_UNSUPPORTED);
    has(proem_error_text(c, NULL, NULL), "compiles to slow code:");
    has(proem_error_text(c, NULL, NULL), "24 bytes spill stores");
    proem_context_destroy(c);
}

/* An allocator that fails at the n-th call from now. */
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

/* Calls of the driver, of NVRTC, allocations. */
static void test_failures(void **state) {
    (void)state;
    for (int what = 0; what < 3; what++) {
        enum proem_status s = PROEM_INTERNAL;
        long at = 0;
        for (; s != PROEM_OK && at < 3000; at++) {
            struct proem_context_options o;
            proem_context_options_init(&o);
            o.threads = 2;
            o.alloc = counted_alloc;
            o.free = counted_free;
            fail_at = -1;
            proem_context *c = NULL;
            assert_int_equal(proem_context_create(&o, &c), PROEM_OK);
            fake->calls = nvrtc->calls = allocations = 0;
            fake->fail_at = what == 0 ? at : -1;
            fake->fail_with = 719;
            nvrtc->fail_at = what == 1 ? at : -1;
            proem_graph *g = NULL;
            proem_program *p = NULL;
            proem_execution *x = NULL;
            struct proem_compile_options co;
            proem_compile_options_init(&co);
            co.device = PROEM_DEVICE_CUDA;
            assert_int_equal(proem_graph_parse(c, layer, strlen(layer), NULL, NULL, &g), PROEM_OK);
            allocations = 0;
            fail_at = what == 2 ? at : -1;
            s = proem_compile(g, &co, &p);
            if (s == PROEM_OK) s = proem_execution_create(p, &x);
            struct layer *l = layer_of(8);
            if (s == PROEM_OK) s = proem_run(x, l->in, 2, l->out, 1);
            if (s != PROEM_OK) {
                const char *text =
                    x != NULL ? proem_execution_error(x) : proem_error_text(c, NULL, NULL);
                assert_true(text[0] != '\0');
                assert_true(what == 2
                                ? s == PROEM_NOMEM
                                : s == PROEM_DEVICE || s == PROEM_INTERNAL || s == PROEM_COMPILE);
            }
            proem_execution_destroy(x);
            proem_program_destroy(p);
            proem_graph_destroy(g);
            proem_context_destroy(c);
            if (nothing_left(NULL) != 0 || held != 0) fail_msg("at call %ld", at);
        }
        assert_int_equal(s, PROEM_OK);
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *work(void *user) {
    proem_program *p = user;
    proem_execution *x = NULL;
    if (proem_execution_create(p, &x) != PROEM_OK) return user;
    struct layer *l = calloc(1, sizeof *l);
    void *result = NULL;
    for (int i = 1; i <= 20 && result == NULL; i++) {
        f32(&l->x, l->x_data, 2, i, 64);
        f32(&l->w, l->w_data, 2, 64, 32);
        f32(&l->h, l->h_data, 2, i, 32);
        const DLTensor *in[] = {&l->x.t, &l->w.t};
        DLTensor *out[] = {&l->h.t};
        if (proem_run(x, in, 2, out, 1) != PROEM_OK) result = user;
    }
    free(l);
    proem_execution_destroy(x);
    return result;
}

static void test_threads(void **state) {
    (void)state;
    proem_context *c = context();
    proem_program *p = compile_text(c, layer, PROEM_DEVICE_CUDA);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, p), 0);
    for (int i = 0; i < 4; i++) {
        void *result = p;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    proem_program_destroy(p);
    proem_context_destroy(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_host, reset, nothing_left),
        cmocka_unit_test_setup_teardown(test_device, reset, nothing_left),
        cmocka_unit_test_setup_teardown(test_stream, reset, nothing_left),
        cmocka_unit_test_setup_teardown(test_fault, reset, nothing_left),
        cmocka_unit_test_setup_teardown(test_refused, reset, nothing_left),
        cmocka_unit_test_setup_teardown(test_strict, reset, nothing_left),
        cmocka_unit_test_setup_teardown(test_failures, reset, nothing_left),
        cmocka_unit_test_setup_teardown(test_threads, reset, nothing_left),
    };
    return cmocka_run_group_tests(tests, use_fakes, remove_cache);
}
