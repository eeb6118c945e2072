/* SPDX-License-Identifier: MIT
 * What tests of the CUDA runtime share: the fake driver's controls, a small program of four buffers.
 */
#ifndef CUDA_UNITS_H
#define CUDA_UNITS_H

#include "rt_units.h"

#include <dlfcn.h>

#include "fake_cuda.h"
#include "rt/cuda/internal.h"

/* The functions behind names that the fakes export. */
static inline void *fake_symbol(const char *file, const char *name) {
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) fail_msg("%s", dlerror());
    return dlsym(handle, name);
}

static inline struct fake_cuda *fake_driver(void) {
    void *p = fake_symbol(FAKE_CUDA, "fake_cuda_control");
    struct fake_cuda *(*f)(void);
    memcpy(&f, &p, sizeof f);
    return f();
}

static inline struct fake_nvrtc *fake_compiler(void) {
    void *p = fake_symbol(FAKE_NVRTC, "fake_nvrtc_control");
    struct fake_nvrtc *(*f)(void);
    memcpy(&f, &p, sizeof f);
    return f();
}

/* A runtime on the fakes. */
struct bed {
    struct counted counted;
    struct allocator alloc;
    struct rt *rt;
    struct rt_cuda *cuda;
    struct fake_cuda *fake;
    struct fake_nvrtc *nvrtc;
    char *dir; /* of its cache */
};

static inline enum proem_status bed_open(struct bed *b, struct err *e) {
    struct rt_options o = {.cache_dir = b->dir, .jobs = 2};
    struct rt_cuda_options c = {.driver = FAKE_CUDA, .nvrtc = FAKE_NVRTC};
    b->rt = NULL;
    b->cuda = NULL;
    TRY(rt_new(&b->alloc, &o, &b->rt, e));
    return rt_cuda_new(b->rt, &c, &b->cuda, e);
}

static inline void bed_close(struct bed *b) {
    rt_cuda_free(b->cuda);
    rt_free(b->rt);
}

static inline void bed_new(struct bed *b) {
    *b = (struct bed){.counted = {.fail_at = -1}, .dir = new_dir()};
    b->alloc = counted_allocator(&b->counted);
    b->fake = fake_driver();
    b->nvrtc = fake_compiler();
    *b->fake = (struct fake_cuda){.fail_at = -1, .devices = 1, .version = 12080, .cc = 90};
    *b->nvrtc = (struct fake_nvrtc){.fail_at = -1};
    assert_ok(bed_open(b, e));
}

/* Nothing may be left. */
static inline void bed_free(struct bed *b) {
    bed_close(b);
    assert_int_equal(b->counted.live, 0);
    assert_int_equal(b->fake->live, 0);
    assert_int_equal(b->fake->depth, 0);
    assert_int_equal(b->fake->strays, 0);
    assert_int_equal(b->nvrtc->live, 0);
    remove_tree(b->dir);
}

/* in -> copy -> t -> copy -> u -> copy -> out, and t, u in memory of the program's own. Symbol 0 is
 * the number of bytes. The second step has a check on `in` (as i32), the third scratch. */
struct chain {
    struct rt_cubin *cubin;
    struct rt_cuda_program *program;
    struct rt_cuda_exec *exec;
    struct rt_cuda_launch launches[4];
    int64_t sym, bytes[5], scratch[4], blocks[4];
    struct rt_cuda_extent extent[1];
};

enum { CHAIN_IN, CHAIN_OUT, CHAIN_T, CHAIN_U, CHAIN_N };

static const char chain_text[] = "copy_a copy_b copy_c check_in count_runs";

static inline enum proem_status chain_open(struct bed *b, struct chain *c, bool check,
                                           struct err *e) {
    static const int args[3][2] = {{CHAIN_IN, CHAIN_T}, {CHAIN_T, CHAIN_U}, {CHAIN_U, CHAIN_OUT}};
    static const int check_args[1] = {CHAIN_IN};
    static const struct rt_buffer buffers[CHAIN_N] = {{"in", RT_INPUT, 32, -1},
                                                      {"out", RT_OUTPUT, 32, -1},
                                                      {"t", RT_TEMP, 32, -1},
                                                      {"u", RT_TEMP, 32, -1}};
    struct device_desc d;
    *c = (struct chain){.blocks = {7, 7, 7, 7}};
    TRY(rt_cuda_device(b->cuda, &d, e));
    struct rt_source source = unit_source("chain", chain_text);
    TRY(rt_cuda_compile(b->cuda, &d, 1, &source, &c->cubin, e));
    static const char *const names[] = {"copy_a", "copy_b", "copy_c", "check_in"};
    for (int i = 0; i < 4; i++)
        c->launches[i] = (struct rt_cuda_launch){.entry = names[i], .threads = 64, .cluster = 1};
    c->launches[1].cluster = 2;
    c->launches[1].per_sm = 1;
    c->launches[2].shared = 100 * 1024;
    struct rt_cuda_step steps[4];
    for (int i = 0; i < 3; i++)
        steps[i + check] = (struct rt_cuda_step){.name = names[i],
                                                 .cubin = c->cubin,
                                                 .n_args = 2,
                                                 .args = args[i],
                                                 .n_launches = 1,
                                                 .launches = &c->launches[i]};
    if (check)
        steps[0] = (struct rt_cuda_step){.name = "check_in",
                                         .cubin = c->cubin,
                                         .n_args = 1,
                                         .args = check_args,
                                         .n_checks = 1,
                                         .n_launches = 1,
                                         .launches = &c->launches[3]};
    struct rt_cuda_desc desc = {.n_buffers = CHAIN_N,
                                .n_steps = 3 + check,
                                .n_symbols = 1,
                                .n_cubins = 1,
                                .buffers = buffers,
                                .steps = steps,
                                .cubins = &c->cubin,
                                .poison = true};
    TRY(rt_cuda_program_new(b->cuda, &desc, &c->program, e));
    return rt_cuda_exec_new(c->program, &c->exec, e);
}

static inline enum proem_status chain_prepare(struct chain *c, int64_t bytes, struct err *e) {
    c->sym = bytes;
    for (int i = 0; i < CHAIN_N; i++)
        c->bytes[i] = bytes;
    struct rt_cuda_sizes s = {&c->sym, c->bytes, c->scratch, c->blocks, c->extent};
    return rt_cuda_exec_prepare(c->exec, &s, e);
}

static inline void chain_close(struct chain *c) {
    rt_cuda_exec_free(c->exec);
    rt_cuda_program_free(c->program);
    rt_cubin_unref(c->cubin);
}

static inline struct rt_cuda_view view_1d(void *data, const int64_t *n, bool on_device) {
    return (struct rt_cuda_view){.view = {.data = data, .bits = 32, .rank = 1, .shape = n},
                                 .on_device = on_device};
}

#endif
