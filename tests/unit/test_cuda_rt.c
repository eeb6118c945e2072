/* SPDX-License-Identifier: MIT
 * The CUDA runtime on a fake driver: compiling and its cache, the memory plan, argument blocks,
 * launches, tensors on the host, strided, unaligned, faults of data, and every call that can fail.
 */
#include "cuda_units.h"

#include <pthread.h>

/* ---- libraries and device -------------------------------------------------------------------- */

static void test_device(void **state) {
    (void)state;
    struct bed b;
    struct device_desc d, named;
    bed_new(&b);
    assert_ok(rt_cuda_device(b.cuda, &d, e));
    assert_true(device_by_name("sm_90a", 6, &named));
    assert_string_equal(d.name, "sm_90a");
    assert_int_equal(d.gpu.sms, 132);
    assert_true(d.gpu.tensor_f16 == named.gpu.tensor_f16);
    assert_true(d.gpu.shared_block == named.gpu.shared_block);
    struct str text;
    str_init(&text, &b.alloc);
    assert_ok(rt_cuda_driver_text(b.cuda, &text, e));
    assert_non_null(strstr(str_text(&text), "CUDA 12.8; device 0: Fake GPU, 131072 MiB"));
    assert_ok(rt_cuda_nvrtc_text(b.cuda, &text, e));
    assert_non_null(strstr(str_text(&text), "version 12.8"));
    str_free(&text);
    bed_free(&b);
}

static void open_with(const char *driver, const char *nvrtc, int ordinal, const char *part) {
    struct bed b;
    struct device_desc d;
    bed_new(&b);
    rt_cuda_free(b.cuda);
    struct rt_cuda_options o = {.driver = driver, .nvrtc = nvrtc, .ordinal = ordinal};
    assert_ok(rt_cuda_new(b.rt, &o, &b.cuda, e));
    for (int i = 0; i < 2; i++) /* the same words each time */
        assert_fails(rt_cuda_device(b.cuda, &d, e), PROEM_DEVICE, part);
    bed_free(&b);
}

static void test_missing(void **state) {
    (void)state;
    struct bed b;
    struct device_desc d;
    open_with("/nonexistent/libcuda.so.1", NULL, 0, "looked for /nonexistent/libcuda.so.1");
    open_with(FAKE_NVRTC, NULL, 0, "is too old: it has no cuGetErrorName");
    open_with(FAKE_CUDA, NULL, 3, "no CUDA device 3");
    bed_new(&b);
    b.fake->devices = 0;
    assert_fails(rt_cuda_device(b.cuda, &d, e), PROEM_DEVICE, "no CUDA device: cuInit");
    bed_free(&b);
    bed_new(&b);
    b.fake->version = 11080;
    assert_fails(rt_cuda_device(b.cuda, &d, e), PROEM_DEVICE, "is for CUDA 11.8; 12.0 is needed");
    bed_free(&b);
    bed_new(&b);
    b.fake->cc = 75;
    assert_fails(rt_cuda_device(b.cuda, &d, e), PROEM_DEVICE, "capability 7.5; 8.0 is needed");
    bed_free(&b);
    bed_new(&b);
    rt_cuda_free(b.cuda);
    struct rt_cuda_options o = {.nvrtc = "/nonexistent/libnvrtc.so"};
    assert_ok(rt_cuda_new(b.rt, &o, &b.cuda, e));
    assert_true(device_by_name("sm_80", 5, &d));
    struct rt_source source = unit_source("u", "f");
    struct rt_cubin *cubin = NULL;
    assert_fails(rt_cuda_compile(b.cuda, &d, 1, &source, &cubin, e), PROEM_DEVICE,
                 "no CUDA compiler: libnvrtc cannot be opened; looked for /nonexistent");
    bed_free(&b);
}

/* ---- machine code ---------------------------------------------------------------------------- */

static void test_compile(void **state) {
    (void)state;
    struct bed b;
    struct device_desc d;
    bed_new(&b);
    assert_true(device_by_name("sm_90a", 6, &d));
    struct rt_source s[5] = {unit_source("a", "one"), unit_source("b", "two @spill"),
                             unit_source("c", "one"), unit_source("d", "three @wait"),
                             unit_source("e", "two @spill")};
    struct rt_cubin *out[5];
    for (int round = 0; round < 2; round++) { /* the second from the disk cache */
        assert_ok(rt_cuda_compile(b.cuda, &d, 5, s, out, e));
        assert_int_equal(b.nvrtc->compiled, 3);
        assert_ptr_equal(out[0], out[2]);
        assert_ptr_equal(out[1], out[4]);
        assert_int_equal(rt_cubin_report(out[0])->registers, 40);
        assert_int_equal(rt_cubin_report(out[0])->spilled, 0);
        assert_string_equal(rt_cubin_report(out[0])->first, "");
        assert_int_equal(rt_cubin_report(out[1])->registers, 255);
        assert_int_equal(rt_cubin_report(out[1])->spilled, 40);
        assert_non_null(strstr(rt_cubin_report(out[1])->first, "24 bytes spill stores"));
        assert_int_equal(rt_cubin_report(out[3])->serialized, 1);
        assert_int_equal(rt_cubin_report(out[3])->spilled, 0);
        assert_non_null(strstr(rt_cubin_report(out[3])->first, "C7510"));
        assert_true((rt_cubin_report(out[0])->ms > 0) == (round == 0));
        size_t n;
        assert_memory_equal(rt_cubin_data(out[0], &n), "FAKEone", 7);
        for (int i = 0; i < 5; i++)
            rt_cubin_unref(out[i]);
        bed_close(&b);
        assert_ok(bed_open(&b, e));
    }
    /* another device is another key */
    assert_true(device_by_name("sm_80", 5, &d));
    assert_ok(rt_cuda_compile(b.cuda, &d, 1, s, out, e));
    assert_int_equal(b.nvrtc->compiled, 4);
    rt_cubin_unref(out[0]);
    struct rt_source wrong[2] = {unit_source("good", "four"), unit_source("bad", "@error")};
    assert_fails(rt_cuda_compile(b.cuda, &d, 2, wrong, out, e), PROEM_COMPILE,
                 "unit 'bad': f.cu(7): error: expected a \";\"");
    assert_true(device_by_name("avx2", 4, &d));
    assert_fails(rt_cuda_compile(b.cuda, &d, 1, s, out, e), PROEM_DEVICE, "'avx2' is not a GPU");
    bed_free(&b);
}

/* Entries that are damaged, cut or not ours are made anew. */
static void test_damaged_cache(void **state) {
    (void)state;
    static const char *const damage[] = {
        "printf X | dd of=$f bs=1 seek=300 conv=notrunc 2>/dev/null",
        "head -c 100 $f > $f.t; mv $f.t $f", ": > $f", "chmod 666 $f"};
    struct bed b;
    struct device_desc d;
    bed_new(&b);
    assert_true(device_by_name("sm_90a", 6, &d));
    struct rt_source s = unit_source("a", "some text that is long enough to have a byte at 300, or "
                                          "so one hopes, since the head takes 256 of them");
    for (size_t i = 0; i <= COUNT_OF(damage); i++) {
        struct rt_cubin *out;
        assert_ok(rt_cuda_compile(b.cuda, &d, 1, &s, &out, e));
        assert_int_equal(b.nvrtc->compiled, (long)i + 1);
        rt_cubin_unref(out);
        if (i == COUNT_OF(damage)) break;
        char command[512];
        snprintf(command, sizeof command, "for f in %s/*.cubin; do %s; done", b.dir, damage[i]);
        assert_int_equal(system(command), 0);
    }
    bed_free(&b);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void fill(int *at, int n, int from) {
    for (int i = 0; i < n; i++)
        at[i] = from + i;
}

static void test_host_run(void **state) {
    (void)state;
    struct bed b;
    struct chain c;
    bed_new(&b);
    assert_ok(chain_open(&b, &c, false, e));
    for (int64_t n = 40; n <= 4000; n *= 10) {
        int in[4000], out[4000] = {0};
        fill(in, (int)n, 7);
        assert_ok(chain_prepare(&c, n * 4, e));
        struct rt_cuda_view views[CHAIN_N] = {view_1d(in, &n, false), view_1d(out, &n, false)};
        b.fake->n_launches = 0;
        assert_ok(rt_cuda_exec_run(c.exec, NULL, views, NULL, e));
        assert_memory_equal(in, out, (size_t)n * 4);
        assert_int_equal(b.fake->n_launches, 3);
        const struct fake_launch *l = b.fake->launches;
        assert_string_equal(l[0].name, "copy_a");
        assert_string_equal(l[1].name, "copy_b");
        assert_string_equal(l[2].name, "copy_c");
        assert_int_equal(l[0].grid, 7);
        assert_int_equal(l[1].grid, 8); /* whole clusters */
        assert_int_equal(l[1].cluster, 2);
        assert_int_equal(l[2].shared, 100 * 1024);
        assert_int_equal(l[0].block, 64);
        for (int i = 0; i < 3; i++)
            assert_int_equal(l[i].args[2], n * 4); /* the symbol */
        assert_int_equal(l[0].args[1], l[1].args[0]);
        assert_int_equal(l[1].args[1], l[2].args[0]);
        /* t is dead when u's next user runs, so the plan is smaller than its parts */
        struct rt_memory m;
        rt_cuda_exec_memory(c.exec, &m);
        assert_true(m.arena >= 8 * n && m.arena <= m.sum);
    }
    chain_close(&c);
    bed_free(&b);
}

static void test_grid(void **state) {
    (void)state;
    struct bed b;
    struct chain c;
    int64_t n = 4;
    int in[8] = {1, 2, 3, 4}, out[8];
    bed_new(&b);
    assert_ok(chain_open(&b, &c, false, e));
    c.blocks[0] = 0; /* nothing to do: no launch */
    c.blocks[1] = 1000000;
    assert_ok(chain_prepare(&c, 16, e));
    struct rt_cuda_view views[CHAIN_N] = {view_1d(in, &n, false), view_1d(out, &n, false)};
    assert_ok(rt_cuda_exec_run(c.exec, NULL, views, NULL, e));
    assert_int_equal(b.fake->n_launches, 2);
    assert_int_equal(b.fake->launches[0].grid, 132);
    c.blocks[2] = (int64_t)1 << 31;
    assert_ok(chain_prepare(&c, 32, e));
    n = 8;
    assert_fails(rt_cuda_exec_run(c.exec, NULL, views, NULL, e), PROEM_UNSUPPORTED,
                 "'copy_c' needs 2147483648 blocks");
    chain_close(&c);
    bed_free(&b);
}

/* Tensors on the device: nothing is waited for, the stream is the caller's. */
static void test_device_run(void **state) {
    (void)state;
    struct bed b;
    struct chain c;
    int64_t n = 100;
    int in[100], out[100];
    void *din = NULL, *dout = NULL;
    cu_stream stream = NULL;
    bed_new(&b);
    assert_ok(chain_open(&b, &c, true, e));
    assert_ok(chain_prepare(&c, 400, e));
    assert_ok(rt_cuda_alloc(b.cuda, 400, &din, e));
    assert_ok(rt_cuda_alloc(b.cuda, 400, &dout, e));
    fill(in, 100, 0);
    assert_ok(rt_cuda_upload(b.cuda, din, in, 400, e));
    assert_ok(rt_cuda_enter(b.cuda, e));
    assert_int_equal(b.cuda->cu.stream_create(&stream, 0), 0);
    rt_cuda_leave(b.cuda);
    struct rt_cuda_view views[CHAIN_N] = {view_1d(din, &n, true), view_1d(dout, &n, true)};
    long syncs = b.fake->syncs, live = b.fake->live;
    assert_ok(rt_cuda_exec_run(c.exec, stream, views, NULL, e));
    long calls = b.counted.calls;
    assert_ok(rt_cuda_exec_run(c.exec, stream, views, NULL, e));
    assert_int_equal(b.fake->syncs, syncs);
    assert_int_equal(b.fake->live, live);
    assert_int_equal(b.counted.calls, calls); /* and nothing is allocated */
    for (int i = 0; i < b.fake->n_launches; i++)
        assert_ptr_equal(b.fake->launches[i].stream, stream);
    assert_ok(rt_cuda_exec_check(c.exec, NULL, e));
    assert_ok(rt_cuda_download(b.cuda, out, dout, 400, e));
    assert_memory_equal(in, out, 400);
    /* a fault shows when somebody waits, once, and is the lowest */
    in[20] = 107;
    in[70] = 300;
    struct rt_fault fault;
    assert_ok(rt_cuda_upload(b.cuda, din, in, 400, e));
    assert_ok(rt_cuda_exec_run(c.exec, stream, views, NULL, e));
    assert_fails(rt_cuda_exec_check(c.exec, &fault, e), PROEM_DATA, "position 20: value 107");
    assert_int_equal(fault.step, 0);
    assert_int_equal(fault.fault.index, 20);
    assert_int_equal(fault.fault.bound, 100);
    assert_ok(rt_cuda_exec_check(c.exec, &fault, e));
    rt_cuda_release(b.cuda, din);
    rt_cuda_release(b.cuda, dout);
    chain_close(&c);
    assert_ok(rt_cuda_enter(b.cuda, e));
    b.cuda->cu.stream_destroy(stream);
    rt_cuda_leave(b.cuda);
    bed_free(&b);
}

static void test_fault_of_host_run(void **state) {
    (void)state;
    struct bed b;
    struct chain c;
    int64_t n = 4;
    int in[4] = {1, 500, 3, 400}, out[4];
    struct rt_fault fault;
    bed_new(&b);
    assert_ok(chain_open(&b, &c, true, e));
    assert_ok(chain_prepare(&c, 16, e));
    struct rt_cuda_view views[CHAIN_N] = {view_1d(in, &n, false), view_1d(out, &n, false)};
    assert_fails(rt_cuda_exec_run(c.exec, NULL, views, &fault, e), PROEM_DATA, "position 1");
    assert_int_equal(fault.fault.value, 500);
    in[1] = 2;
    in[3] = 4;
    assert_ok(rt_cuda_exec_run(c.exec, NULL, views, &fault, e));
    chain_close(&c);
    bed_free(&b);
}

/* ---- arguments that need a copy -------------------------------------------------------------- */

static void test_strided(void **state) {
    (void)state;
    struct bed b;
    struct chain c;
    int64_t shape[2] = {3, 4}, strides[2] = {1, 3};
    int in[12], want[12], out[12];
    void *din = NULL;
    bed_new(&b);
    assert_ok(chain_open(&b, &c, false, e));
    assert_ok(chain_prepare(&c, 48, e));
    assert_ok(rt_cuda_alloc(b.cuda, 64, &din, e));
    fill(in, 12, 100);
    for (int i = 0; i < 12; i++)
        want[i] = in[i / 4 + i % 4 * 3];
    for (int where = 0; where < 3; where++) { /* on the host, the device, and there unaligned */
        char *at = where == 0 ? (char *)in : (char *)din + (where == 2 ? 1 : 0);
        if (where > 0) assert_ok(rt_cuda_upload(b.cuda, at, in, 48, e));
        struct rt_cuda_view views[CHAIN_N] = {
            {.view = {.data = at, .bits = 32, .rank = 2, .shape = shape, .strides = strides},
             .on_device = where > 0},
            {.view = {.data = out, .bits = 32, .rank = 2, .shape = shape}}};
        memset(out, 0, sizeof out);
        assert_ok(rt_cuda_exec_run(c.exec, NULL, views, NULL, e));
        assert_memory_equal(out, want, 48);
    }
    /* an output must be compact */
    struct rt_cuda_view views[CHAIN_N] = {
        {.view = {.data = in, .bits = 32, .rank = 2, .shape = shape}},
        {.view = {.data = out, .bits = 32, .rank = 2, .shape = shape, .strides = strides}}};
    assert_fails(rt_cuda_exec_run(c.exec, NULL, views, NULL, e), PROEM_INVALID, "not compact");
    views[1].view.strides = NULL;
    views[1].view.bits = 16;
    assert_fails(rt_cuda_exec_run(c.exec, NULL, views, NULL, e), PROEM_INVALID,
                 "'out': 24 bytes are given where 48 are expected");
    views[1].view.bits = 32;
    views[1].view.data = NULL;
    assert_fails(rt_cuda_exec_run(c.exec, NULL, views, NULL, e), PROEM_INVALID, "is null");
    rt_cuda_release(b.cuda, din);
    chain_close(&c);
    bed_free(&b);
}

/* Narrow elements, and the bits behind the last one. */
static void test_narrow(void **state) {
    (void)state;
    struct bed b;
    struct device_desc d;
    struct rt_cubin *cubin;
    bed_new(&b);
    assert_ok(rt_cuda_device(b.cuda, &d, e));
    struct rt_source source = unit_source("u", "copy_a");
    assert_ok(rt_cuda_compile(b.cuda, &d, 1, &source, &cubin, e));
    struct rt_buffer buffers[2] = {{"in", RT_INPUT, 4, -1}, {"out", RT_OUTPUT, 4, -1}};
    int args[2] = {0, 1};
    struct rt_cuda_launch launch = {.entry = "copy_a", .threads = 32, .cluster = 1};
    struct rt_cuda_step step = {.name = "copy_a",
                                .cubin = cubin,
                                .n_args = 2,
                                .args = args,
                                .n_launches = 1,
                                .launches = &launch};
    struct rt_cuda_desc desc = {.n_buffers = 2,
                                .n_steps = 1,
                                .n_symbols = 1,
                                .n_cubins = 1,
                                .buffers = buffers,
                                .steps = &step,
                                .cubins = &cubin};
    struct rt_cuda_program *p;
    struct rt_cuda_exec *x;
    assert_ok(rt_cuda_program_new(b.cuda, &desc, &p, e));
    assert_ok(rt_cuda_exec_new(p, &x, e));
    int64_t sym = 3, bytes[2] = {3, 3}, scratch = 0, blocks = 1;
    struct rt_cuda_sizes s = {&sym, bytes, &scratch, &blocks, NULL};
    assert_ok(rt_cuda_exec_prepare(x, &s, e));
    int64_t n = 5, back = -1;
    unsigned char in[3] = {0x21, 0x43, 0xF5}, out[3];
    void *din, *dout;
    assert_ok(rt_cuda_alloc(b.cuda, 3, &din, e));
    assert_ok(rt_cuda_alloc(b.cuda, 3, &dout, e));
    assert_ok(rt_cuda_upload(b.cuda, din, in, 3, e));
    struct rt_cuda_view views[2] = {
        {.view = {.data = din, .bits = 4, .rank = 1, .shape = &n}, .on_device = true},
        {.view = {.data = dout, .bits = 4, .rank = 1, .shape = &n}, .on_device = true}};
    assert_ok(rt_cuda_exec_run(x, NULL, views, NULL, e));
    assert_ok(rt_cuda_download(b.cuda, out, dout, 3, e));
    assert_int_equal(out[2], 0x05);
    views[0].view.data = (char *)din + 2; /* from the last element back to the first */
    views[0].view.strides = &back;
    assert_ok(rt_cuda_exec_run(x, NULL, views, NULL, e));
    assert_ok(rt_cuda_download(b.cuda, out, dout, 3, e));
    assert_int_equal(out[0], 0x45);
    assert_int_equal(out[1], 0x23);
    assert_int_equal(out[2], 0x01);
    rt_cuda_release(b.cuda, din);
    rt_cuda_release(b.cuda, dout);
    rt_cuda_exec_free(x);
    rt_cuda_program_free(p);
    rt_cubin_unref(cubin);
    bed_free(&b);
}

/* ---- what lasts: zeroed scratch, constants, tensor maps --------------------------------------- */

static void test_lasting(void **state) {
    (void)state;
    struct bed b;
    struct device_desc d;
    struct rt_cubin *cubin;
    bed_new(&b);
    assert_ok(rt_cuda_device(b.cuda, &d, e));
    struct rt_source source = unit_source("u", "count_runs other_map");
    assert_ok(rt_cuda_compile(b.cuda, &d, 1, &source, &cubin, e));
    struct rt_buffer buffers[2] = {{"w", RT_CONST, 32, -1}, {"out", RT_OUTPUT, 32, -1}};
    int args[2] = {1, 0};
    struct rt_cuda_map map = {
        .arg = 1, .type = RT_CUDA_F32, .rank = 2, .box = {4, 2}, .swizzle = 128};
    struct rt_cuda_launch launches[2] = {
        {.entry = "count_runs", .threads = 32, .cluster = 1},
        {.entry = "other_map", .threads = 32, .cluster = 1, .n_maps = 1, .maps = &map}};
    struct rt_cuda_step steps[2] = {{.name = "count",
                                     .cubin = cubin,
                                     .n_args = 1,
                                     .args = args,
                                     .zeroed = true,
                                     .n_launches = 1,
                                     .launches = &launches[0]},
                                    {.name = "other",
                                     .cubin = cubin,
                                     .n_args = 2,
                                     .args = args,
                                     .n_launches = 1,
                                     .launches = &launches[1]}};
    struct rt_cuda_desc desc = {.n_buffers = 2,
                                .n_steps = 2,
                                .n_symbols = 1,
                                .n_cubins = 1,
                                .buffers = buffers,
                                .steps = steps,
                                .cubins = &cubin,
                                .poison = true};
    struct rt_cuda_program *p;
    struct rt_cuda_exec *x;
    assert_ok(rt_cuda_program_new(b.cuda, &desc, &p, e));
    assert_int_equal(rt_cuda_program_maps(p), 1);
    assert_ok(rt_cuda_exec_new(p, &x, e));
    int64_t sym = 4, bytes[2] = {64, 4}, scratch[2] = {4, 100}, blocks[2] = {1, 1};
    struct rt_cuda_extent extent = {.offset = 4, .dims = {4, 4}, .strides = {1, 4}};
    struct rt_cuda_sizes s = {&sym, bytes, scratch, blocks, &extent};
    assert_ok(rt_cuda_exec_prepare(x, &s, e));
    float w[16] = {0};
    int out = 0;
    int64_t nw = 16, n = 1;
    struct rt_cuda_view views[2] = {view_1d(w, &nw, false), view_1d(&out, &n, false)};
    for (int i = 1; i <= 3; i++) {
        assert_ok(rt_cuda_exec_run(x, NULL, views, NULL, e));
        assert_int_equal(out, i);          /* the scratch was 0 and lasts */
        assert_int_equal(b.fake->maps, 1); /* one address, one map */
    }
    sym = 5;
    scratch[0] = 200; /* another layout: it begins with 0 again */
    assert_ok(rt_cuda_exec_prepare(x, &s, e));
    assert_ok(rt_cuda_exec_run(x, NULL, views, NULL, e));
    assert_int_equal(out, 1);
    extent = (struct rt_cuda_extent){.offset = 4, .dims = {0, 4}, .strides = {1, 0}};
    sym = 7; /* nothing to see: a map all the same */
    assert_ok(rt_cuda_exec_prepare(x, &s, e));
    long maps = b.fake->maps;
    assert_ok(rt_cuda_exec_run(x, NULL, views, NULL, e));
    assert_int_equal(b.fake->maps, maps + 1);
    extent = (struct rt_cuda_extent){.offset = 4, .dims = {4, 4}, .strides = {1, 3}};
    sym = 6; /* 12 bytes: no tensor map has that */
    assert_ok(rt_cuda_exec_prepare(x, &s, e));
    assert_fails(rt_cuda_exec_run(x, NULL, views, NULL, e), PROEM_INTERNAL,
                 "kernel 'other_map', tensor 'w': CUDA: cuTensorMapEncodeTiled");
    rt_cuda_exec_free(x);
    rt_cuda_program_free(p);
    rt_cubin_unref(cubin);
    bed_free(&b);
}

static void test_wrong_programs(void **state) {
    (void)state;
    struct bed b;
    struct chain c;
    bed_new(&b);
    assert_ok(chain_open(&b, &c, false, e));
    struct rt_cuda_program *p;
    int arg = 9;
    struct rt_buffer buffer = {"in", RT_INPUT, 32, -1};
    struct rt_cuda_launch launch = {.entry = "copy_a", .threads = 64, .cluster = 1};
    struct rt_cuda_step step = {.name = "s",
                                .cubin = c.cubin,
                                .n_args = 1,
                                .args = &arg,
                                .n_launches = 1,
                                .launches = &launch};
    struct rt_cuda_desc d = {.n_buffers = 1, .n_steps = 1, .buffers = &buffer, .steps = &step};
    assert_fails(rt_cuda_program_new(b.cuda, &d, &p, e), PROEM_INTERNAL, "step 0 is wrong");
    arg = 0;
    assert_fails(rt_cuda_program_new(b.cuda, &d, &p, e), PROEM_INTERNAL,
                 "'copy_a': its argument block has 40 bytes, not 32");
    launch.entry = "no_such";
    assert_fails(rt_cuda_program_new(b.cuda, &d, &p, e), PROEM_INTERNAL, "no_such");
    launch = (struct rt_cuda_launch){
        .entry = "count_runs", .threads = 64, .cluster = 1, .shared = 300 * 1024};
    assert_fails(rt_cuda_program_new(b.cuda, &d, &p, e), PROEM_DEVICE,
                 "needs 307200 bytes of shared memory");
    buffer.name = NULL;
    assert_fails(rt_cuda_program_new(b.cuda, &d, &p, e), PROEM_INTERNAL, "buffer 0 is wrong");
    struct err run = {0};
    struct rt_cuda_view views[CHAIN_N] = {0};
    assert_int_equal(rt_cuda_exec_run(c.exec, NULL, views, NULL, &run), PROEM_INTERNAL);
    chain_close(&c);
    bed_free(&b);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static enum proem_status measure(struct bed *b, struct chain *c, double *us, int *n,
                                 struct err *e) {
    int64_t shape = 16;
    void *tensor[4] = {NULL};
    enum proem_status s = chain_prepare(c, 64, e);
    for (int i = 0; i < 4 && s == PROEM_OK; i++)
        s = rt_cuda_alloc(b->cuda, 64, &tensor[i], e);
    if (s == PROEM_OK) {
        struct rt_cuda_view views[2][CHAIN_N];
        const struct rt_cuda_view *sets[2] = {views[0], views[1]};
        for (int i = 0; i < 2; i++) {
            views[i][0] = view_1d(tensor[2 * i], &shape, true);
            views[i][1] = view_1d(tensor[2 * i + 1], &shape, true);
        }
        struct rt_cuda_trial t = {.exec = c->exec, .n_sets = 2, .sets = sets, .us = us, .cap = 8};
        s = rt_cuda_measure(b->cuda, &t, 1, 0.0, e);
        *n = t.n;
    }
    for (int i = 0; i < 4; i++)
        rt_cuda_release(b->cuda, tensor[i]);
    return s;
}

static void test_measure(void **state) {
    (void)state;
    struct bed b;
    struct chain c;
    double us[8];
    int n = 0;
    bed_new(&b);
    assert_ok(chain_open(&b, &c, false, e));
    assert_ok(measure(&b, &c, us, &n, e));
    assert_int_equal(n, 5);
    assert_true(us[0] > 12.4 && us[0] < 12.6); /* 0.25 ms, 20 runs */
    /* 2 runs first, then 2 + 5 replays of 20 */
    assert_int_equal(b.fake->n_launches, 3 * (2 + 7 * 20));
    chain_close(&c);
    bed_free(&b);
}

/* ---- what fails ------------------------------------------------------------------------------ */

static enum proem_status whole_story(struct bed *b, struct err *e) {
    struct chain c = {0};
    int64_t n = 25, strides = 2;
    int in[50], out[25];
    double us[8];
    int samples;
    fill(in, 50, 0);
    void *din = NULL;
    enum proem_status s = bed_open(b, e);
    if (s == PROEM_OK) s = chain_open(b, &c, true, e);
    if (s == PROEM_OK) s = chain_prepare(&c, 100, e);
    struct rt_cuda_view views[CHAIN_N] = {view_1d(in, &n, false), view_1d(out, &n, false)};
    views[0].view.strides = &strides;
    if (s == PROEM_OK) s = rt_cuda_exec_run(c.exec, NULL, views, NULL, e);
    if (s == PROEM_OK) s = rt_cuda_alloc(b->cuda, 200, &din, e);
    if (s == PROEM_OK) s = rt_cuda_upload(b->cuda, din, in, 200, e);
    views[0].view.data = din;
    views[0].on_device = true;
    if (s == PROEM_OK) s = rt_cuda_exec_run(c.exec, NULL, views, NULL, e);
    if (s == PROEM_OK) {
        for (int i = 0; i < 25; i++)
            assert_int_equal(out[i], 2 * i);
        s = measure(b, &c, us, &samples, e);
    }
    rt_cuda_release(b->cuda, din);
    chain_close(&c);
    bed_close(b);
    return s;
}

static void assert_clean(const struct bed *b, const struct err *e, long at) {
    if (b->counted.live != 0 || b->fake->live != 0 || b->fake->depth != 0 || b->nvrtc->live != 0 ||
        b->fake->strays != 0)
        fail_msg("after failure %ld (%s): %ld blocks, %ld device objects, depth %ld, %ld programs",
                 at, e->text, b->counted.live, b->fake->live, b->fake->depth, b->nvrtc->live);
}

/* Every allocation, every call of the driver, every call of the compiler. */
static void test_failures(void **state) {
    (void)state;
    struct bed b;
    bed_new(&b);
    bed_close(&b);
    for (int what = 0; what < 4; what++) {
        enum proem_status s = PROEM_INTERNAL;
        long at = 0;
        for (; s != PROEM_OK && at < 5000; at++) {
            struct err e = {0};
            char command[256];
            snprintf(command, sizeof command, "rm -f %s/*", b.dir);
            assert_int_equal(system(command), 0);
            b.counted.calls = b.fake->calls = b.nvrtc->calls = 0;
            b.counted.fail_at = what == 0 ? at : -1;
            b.fake->fail_at = what == 1 || what == 2 ? at : -1;
            b.fake->fail_with = what == 1 ? 999 : CU_OUT_OF_MEMORY;
            b.nvrtc->fail_at = what == 3 ? at : -1;
            s = whole_story(&b, &e);
            assert_clean(&b, &e, at);
            if (s == PROEM_OK) continue;
            assert_int_equal(s, e.status);
            assert_true(e.text[0] != '\0');
            if (what == 0) assert_int_equal(s, PROEM_NOMEM);
            if (what == 3) assert_true(s == PROEM_COMPILE || s == PROEM_DEVICE);
        }
        assert_int_equal(s, PROEM_OK);
        assert_true(at > 5);
    }
    b.counted.fail_at = b.fake->fail_at = b.nvrtc->fail_at = -1;
    assert_ok(bed_open(&b, e));
    bed_free(&b);
}

/* ---- threads --------------------------------------------------------------------------------- */

struct worker {
    struct bed *b;
    struct chain *c; /* the program is shared */
    int from;
    enum proem_status status;
};

static void *work(void *user) {
    struct worker *w = user;
    struct chain mine = *w->c;
    struct err e = {0};
    int64_t n = 64;
    int in[64], out[64];
    w->status = rt_cuda_exec_new(w->c->program, &mine.exec, &e);
    for (int i = 0; i < 20 && w->status == PROEM_OK; i++) {
        n = 32 + i;
        fill(in, (int)n, w->from + i);
        w->status = chain_prepare(&mine, n * 4, &e);
        struct rt_cuda_view views[CHAIN_N] = {view_1d(in, &n, false), view_1d(out, &n, false)};
        if (w->status == PROEM_OK) w->status = rt_cuda_exec_run(mine.exec, NULL, views, NULL, &e);
        if (w->status == PROEM_OK && memcmp(in, out, (size_t)n * 4) != 0) w->status = PROEM_CHECK;
    }
    if (w->status == PROEM_OK) rt_cuda_exec_free(mine.exec);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    struct bed b;
    struct chain c;
    bed_new(&b);
    assert_ok(chain_open(&b, &c, false, e));
    struct worker w[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        w[i] = (struct worker){.b = &b, .c = &c, .from = i * 1000};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(w[i].status, PROEM_OK);
    }
    chain_close(&c);
    bed_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device),     cmocka_unit_test(test_missing),
        cmocka_unit_test(test_compile),    cmocka_unit_test(test_damaged_cache),
        cmocka_unit_test(test_host_run),   cmocka_unit_test(test_grid),
        cmocka_unit_test(test_device_run), cmocka_unit_test(test_fault_of_host_run),
        cmocka_unit_test(test_strided),    cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_lasting),    cmocka_unit_test(test_wrong_programs),
        cmocka_unit_test(test_measure),    cmocka_unit_test(test_failures),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
