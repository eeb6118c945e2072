/* SPDX-License-Identifier: MIT
 * The public interface: graphs built and parsed, compiled, run with several sizes and threads, and
 * every kind of misuse as an error with a text. Programs are compiled for real, once each: a cache
 * in a folder of this run is shared by the tests.
 */
#include "api_util.h"

#include "driver/driver.h"

/* ---- contexts -------------------------------------------------------------------------------- */

static void test_context(void **state) {
    (void)state;
    struct proem_context_options o;
    proem_context *c = NULL;
    assert_string_equal(proem_version(), PROEM_VERSION);
    assert_int_equal(proem_context_create(NULL, &c), PROEM_OK);
    int line = 7, col = 7;
    assert_string_equal(proem_error_text(c, &line, &col), "");
    assert_int_equal(line, 0);
    assert_int_equal(col, 0);
    proem_context_destroy(c);
    proem_context_destroy(NULL);
    proem_context_options_init(&o);
    o.size = 1;
    c = NULL;
    assert_int_equal(proem_context_create(&o, &c), PROEM_INVALID);
    assert_null(c);
    proem_context_options_init(&o);
    o.threads = -1;
    assert_int_equal(proem_context_create(&o, &c), PROEM_INVALID);
    assert_int_equal(proem_context_create(&o, NULL), PROEM_INVALID);
}

static void test_error_is_the_first(void **state) {
    (void)state;
    proem_context *c = context();
    proem_graph *g = NULL;
    int line, col;
    const char *bad = "graph g(x: f32[2]) {\n  y = nothing(x)\n  return y\n}\n";
    assert_int_equal(proem_graph_parse(c, bad, strlen(bad), "f", NULL, &g), PROEM_INVALID);
    assert_null(g);
    has(proem_error_text(c, &line, &col), "nothing");
    assert_int_equal(line, 2);
    assert_int_equal(col, 7);
    assert_int_equal(proem_graph_parse(c, "", 0, "f", NULL, &g), PROEM_INVALID);
    has(proem_error_text(c, NULL, NULL), "nothing");
    proem_error_clear(c);
    assert_string_equal(proem_error_text(c, NULL, NULL), "");
    const char *one = "graph g(x: f32[2]) { return x }";
    assert_int_equal(proem_graph_parse(c, one, strlen(one), "f", "h", &g), PROEM_INVALID);
    has(proem_error_text(c, NULL, NULL), "'h'");
    proem_context_destroy(c);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void test_builder(void **state) {
    (void)state;
    proem_context *c = context();
    proem_graph *g = linear_graph(c);
    const char *text = NULL;
    assert_int_equal(proem_graph_finish(g), PROEM_OK);
    assert_int_equal(proem_graph_text(g, &text), PROEM_OK);
    assert_string_equal(text, "graph linear(x: f32[M, 5], const w: f32[5, 3], b: f32[3]) {\n"
                              "  y = relu(matmul(x, w) + b)\n"
                              "  return y, y * 2\n"
                              "}\n");
    /* nothing can be added to a finished graph */
    assert_int_equal(proem_graph_param(g, "z", "f32[]"), 0);
    assert_int_equal(proem_graph_finish(g), PROEM_INVALID);
    has(proem_error_text(c, NULL, NULL), "finished");
    proem_graph_destroy(g);
    proem_graph_destroy(NULL);
    proem_context_destroy(c);
}

static void test_builder_is_sticky(void **state) {
    (void)state;
    proem_context *c = context();
    proem_graph *g = NULL;
    assert_int_equal(proem_graph_create(c, "g", &g), PROEM_OK);
    proem_value x = proem_graph_param(g, "x", "f32[4, 5]");
    proem_value w = proem_graph_param(g, "w", "f32[6, 7]");
    proem_value y = proem_add(g, proem_matmul(g, x, w), x);
    assert_int_equal(y, 0);
    assert_int_equal(proem_call1(g, "relu", y, NULL), 0);
    assert_int_equal(proem_graph_result(g, y, 0), 0);
    assert_int_equal(proem_graph_name(g, y, "y"), 0);
    assert_int_equal(proem_graph_output(g, y, 0), PROEM_INVALID);
    assert_int_equal(proem_graph_finish(g), PROEM_INVALID);
    has(proem_error_text(c, NULL, NULL), "matmul");
    proem_program *p = NULL;
    assert_int_equal(proem_compile(g, NULL, &p), PROEM_INVALID);
    assert_null(p);
    proem_graph_destroy(g);
    proem_context_destroy(c);
}

static void test_builder_refuses(void **state) {
    (void)state;
    proem_context *c = context();
    for (int i = 0; i < 9; i++) {
        proem_graph *g = NULL;
        assert_int_equal(proem_graph_create(c, "g", &g), PROEM_OK);
        proem_value x = proem_graph_param(g, "x", "f32[4]"), v = x;
        switch (i) {
        case 0: v = proem_graph_param(g, "y", "f33[4]"); break;
        case 1: v = proem_graph_param(g, NULL, "f32[4]"); break;
        case 2: v = proem_call1(g, "no_such", x, NULL); break;
        case 3: v = proem_call1(g, "relu", 99, NULL); break;
        case 4: v = proem_graph_result(g, x, 1); break;
        case 5: v = proem_call1(g, "sum", x, "axes=[3]"); break;
        case 6: v = proem_cast(g, x, "f31"); break;
        case 7: v = proem_graph_name(g, x, NULL); break;
        case 8: v = proem_graph_call(g, NULL, 0, NULL, NULL); break;
        default: break;
        }
        assert_int_equal(v, 0);
        proem_graph_output(g, x, 0);
        assert_int_equal(proem_graph_finish(g), PROEM_INVALID);
        assert_string_not_equal(proem_error_text(c, NULL, NULL), "");
        proem_error_clear(c);
        proem_graph_destroy(g);
    }
    proem_graph *g = NULL;
    static const char *const names[] = {"", "a\nb", "a\x01", "\xff", "\xed\xa0\x80"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(proem_graph_create(c, names[i], &g), PROEM_INVALID);
        assert_null(g);
        proem_error_clear(c);
    }
    proem_context_destroy(c);
}

static void test_results(void **state) {
    (void)state;
    proem_context *c = context();
    proem_graph *g = NULL;
    assert_int_equal(proem_graph_create(c, "g", &g), PROEM_OK);
    proem_value x = proem_graph_param(g, "x", "f32[4, 8]");
    proem_value top = proem_call1(g, "topk", x, "3");
    proem_value indices = proem_graph_result(g, top, 1);
    assert_int_not_equal(indices, 0);
    assert_int_equal(proem_graph_output(g, proem_graph_name(g, indices, "at"), 0), PROEM_OK);
    assert_int_equal(proem_graph_finish(g), PROEM_OK);
    proem_program *p = NULL;
    struct proem_compile_options o;
    proem_compile_options_init(&o);
    o.device = PROEM_DEVICE_REF;
    assert_int_equal(proem_compile(g, &o, &p), PROEM_OK);
    proem_graph_destroy(g);
    assert_string_equal(proem_program_output_name(p, 0), "at");
    float data[32];
    int64_t at[12], shape[] = {4, 3};
    fill(data, 32, 3);
    struct tensor in, out;
    f32(&in, data, 2, 4, 8);
    tensor_set(&out, at, kDLInt, 64, 2, shape);
    proem_execution *e = NULL;
    assert_int_equal(proem_execution_create(p, &e), PROEM_OK);
    const DLTensor *ins[] = {&in.t};
    DLTensor *outs[] = {&out.t};
    run_ok(e, ins, 1, outs, 1);
    for (int r = 0; r < 4; r++) {
        for (int k = 0; k + 1 < 3; k++)
            assert_true(data[r * 8 + at[r * 3 + k]] >= data[r * 8 + at[r * 3 + k + 1]]);
    }
    proem_execution_destroy(e);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

/* ---- compiling ------------------------------------------------------------------------------- */

static void test_compile_refuses(void **state) {
    (void)state;
    proem_context *c = context();
    struct proem_compile_options o;
    struct proem_fuse_force force = {"x", "y", true};
    const char *dim = "N";
    int64_t four = 4;
    for (int i = 0; i < 6; i++) {
        proem_graph *g = linear_graph(c);
        proem_program *p = NULL;
        proem_compile_options_init(&o);
        enum proem_status want = PROEM_INVALID;
        switch (i) {
        case 0: o.size = 0; break;
        case 1: o.arch = "sm_90a"; break;
        case 2:
            o.force = &force;
            o.n_force = 1;
            break;
        case 3:
            o.dim_names = &dim;
            o.dim_values = &four;
            o.n_dims = 1;
            break;
        case 4: o.precision = (enum proem_precision)17; break;
        case 5: o.n_dims = 1; break;
        default: break;
        }
        assert_int_equal(proem_compile(g, &o, &p), want);
        assert_null(p);
        assert_string_not_equal(proem_error_text(c, NULL, NULL), "");
        proem_error_clear(c);
        proem_graph_destroy(g);
    }
    proem_context_destroy(c);
}

static void test_no_compiler(void **state) {
    (void)state;
    struct proem_context_options o;
    proem_context_options_init(&o);
    o.compiler = "/nonexistent/cc";
    proem_context *c = NULL;
    assert_int_equal(proem_context_create(&o, &c), PROEM_OK);
    proem_graph *g = linear_graph(c);
    proem_program *p = NULL;
    assert_int_equal(proem_compile(g, NULL, &p), PROEM_COMPILE);
    has(proem_error_text(c, NULL, NULL), "/nonexistent/cc");
    /* the reference needs none */
    struct proem_compile_options ref;
    proem_compile_options_init(&ref);
    ref.device = PROEM_DEVICE_REF;
    assert_int_equal(proem_compile(g, &ref, &p), PROEM_OK);
    assert_int_equal(proem_program_kernels(p), 0);
    proem_program_destroy(p);
    proem_graph_destroy(g);
    proem_context_destroy(c);
}

/* ---- running --------------------------------------------------------------------------------- */

static void run_on(enum proem_device device, enum proem_fuse fuse, enum proem_precision prec) {
    proem_context *c = context();
    proem_graph *g = linear_graph(c);
    struct proem_compile_options o;
    proem_compile_options_init(&o);
    o.device = device;
    o.fuse = fuse;
    o.precision = prec;
    proem_program *p = NULL;
    if (proem_compile(g, &o, &p) != PROEM_OK) fail_msg("%s", proem_error_text(c, NULL, NULL));
    proem_graph_destroy(g);
    assert_int_equal(proem_program_inputs(p), 3);
    assert_int_equal(proem_program_outputs(p), 2);
    assert_string_equal(proem_program_input_name(p, 1), "w");
    assert_string_equal(proem_program_output_name(p, 0), "y");
    assert_string_equal(proem_program_output_name(p, 1), "out1");
    assert_null(proem_program_input_name(p, 3));
    assert_null(proem_program_output_name(p, 2));
    if (device == PROEM_DEVICE_CPU && fuse == PROEM_FUSE_MODEL)
        assert_int_equal(proem_program_kernels(p), 1);
    if (device == PROEM_DEVICE_CPU && fuse == PROEM_FUSE_NEVER)
        assert_int_equal(proem_program_kernels(p), 4);
    proem_execution *x = NULL;
    assert_int_equal(proem_execution_create(p, &x), PROEM_OK);
    const int rows[] = {4, 1, 64, 0, 33, 4};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        run_linear(x, rows[i]);
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

static void test_run(void **state) {
    (void)state;
    run_on(PROEM_DEVICE_CPU, PROEM_FUSE_MODEL, PROEM_BOUNDARY);
    run_on(PROEM_DEVICE_CPU, PROEM_FUSE_ALWAYS, PROEM_NATIVE);
    run_on(PROEM_DEVICE_CPU, PROEM_FUSE_NEVER, PROEM_EAGER);
    run_on(PROEM_DEVICE_REF, PROEM_FUSE_MODEL, PROEM_BOUNDARY);
}

static const char two_inputs[] = "graph g(a: f32[M, N], b: f32[M, N]) {\n"
                                 "  y = a - b * 2\n"
                                 "  return y\n"
                                 "}\n";

/* Transposed, reversed, broadcast and offset views. */
static void strided_on(enum proem_device device) {
    proem_context *c = context();
    proem_program *p = compile_text(c, two_inputs, device);
    proem_execution *x = NULL;
    assert_int_equal(proem_execution_create(p, &x), PROEM_OK);
    float a[6], b[8], y[6];
    fill(a, 6, 1);
    fill(b, 8, 5);
    struct tensor t[3];
    f32(&t[0], a, 2, 3, 2); /* a is [2, 3]; its transpose */
    t[0].strides[0] = 1;
    t[0].strides[1] = 3;
    t[0].t.strides = t[0].strides;
    f32(&t[1], b, 2, 3, 2); /* one column of b from its end, for both columns */
    t[1].strides[0] = -2;
    t[1].strides[1] = 0;
    t[1].t.strides = t[1].strides;
    t[1].t.byte_offset = 6 * sizeof(float);
    f32(&t[2], y, 2, 3, 2);
    const DLTensor *in[] = {&t[0].t, &t[1].t};
    DLTensor *out[] = {&t[2].t};
    for (int again = 0; again < 2; again++) {
        memset(y, 0xFF, sizeof y);
        run_ok(x, in, 2, out, 1);
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 2; j++)
                assert_true(y[i * 2 + j] == a[j * 3 + i] - 2 * b[6 - 2 * i]);
        }
    }
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

static void test_strided(void **state) {
    (void)state;
    strided_on(PROEM_DEVICE_CPU);
    strided_on(PROEM_DEVICE_REF);
}

/* Arguments that do not fit, one at a time; each is named. */
static void misuse_on(enum proem_device device) {
    proem_context *c = context();
    proem_program *p = compile_text(c, two_inputs, device);
    proem_execution *x = NULL;
    assert_int_equal(proem_execution_create(p, &x), PROEM_OK);
    static const char *const says[] = {
        "'b' is missing",
        "'b' has",
        "'a' has 1 dims",
        "N is",
        "1 inputs",
        "0 outputs",
        "'y': dim 0",
        "'y' is missing",
        "not compact",
        "not on the CPU",
        "'y'",
        "'a': its data",
        "a has the shape",
        "'y' overlaps",
        "'b' has no shape",
        "'a' has a byte_offset beyond all memory",
    };
    for (size_t i = 0; i < sizeof says / sizeof says[0]; i++) {
        float a[32] = {0}, b[32] = {0}, y[32] = {0};
        struct tensor t[3];
        f32(&t[0], a, 2, 3, 4);
        f32(&t[1], b, 2, 3, 4);
        f32(&t[2], y, 2, 3, 4);
        const DLTensor *in[] = {&t[0].t, &t[1].t};
        DLTensor *out[] = {&t[2].t};
        size_t n_in = 2, n_out = 1;
        switch (i) {
        case 0: in[1] = NULL; break;
        case 1: t[1].t.dtype.bits = 64; break;
        case 2: t[0].t.ndim = 1; break;
        case 3: t[1].shape[1] = 5; break;
        case 4: n_in = 1; break;
        case 5: n_out = 0; break;
        case 6: t[2].shape[0] = 4; break;
        case 7: out[0] = NULL; break;
        case 8:
            t[2].strides[0] = 1;
            t[2].strides[1] = 3;
            t[2].t.strides = t[2].strides;
            break;
        case 9: t[0].t.device.device_type = kDLCUDA; break;
        case 10: t[2].t.data = NULL; break;
        case 11: t[0].t.data = NULL; break;
        case 12: t[0].shape[0] = -1; break;
        case 13: t[2].t.data = a + 2; break;
        case 14: t[1].t.shape = NULL; break;
        case 15: t[0].t.byte_offset = UINT64_MAX; break;
        default: break;
        }
        assert_int_equal(proem_run(x, in, n_in, out, n_out), PROEM_INVALID);
        has(proem_execution_error(x), says[i]);
    }
    assert_int_equal(proem_run(NULL, NULL, 0, NULL, 0), PROEM_INVALID);
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

static void test_misuse(void **state) {
    (void)state;
    misuse_on(PROEM_DEVICE_CPU);
    misuse_on(PROEM_DEVICE_REF);
}

/* Every row of c is read after a row of y is written. */
static void in_place_on(enum proem_device device) {
    static const char text[] = "graph g(c: f32[4, 4], k: f32[4, 4]) {\n"
                               "  y = matmul(c, k) + transpose(c)\n"
                               "  z = c + 1\n"
                               "  return y in c, z\n"
                               "}\n";
    proem_context *c = context();
    proem_program *p = compile_text(c, text, device);
    proem_execution *x = NULL;
    assert_int_equal(proem_execution_create(p, &x), PROEM_OK);
    float m[32], k[16], apart[16], z[16], z2[16];
    fill(m, 16, 4);
    fill(k, 16, 9);
    struct tensor t[5];
    f32(&t[0], m, 2, 4, 4);
    f32(&t[1], k, 2, 4, 4);
    f32(&t[2], apart, 2, 4, 4);
    f32(&t[3], z, 2, 4, 4);
    const DLTensor *in[] = {&t[0].t, &t[1].t};
    DLTensor *out[] = {&t[2].t, &t[3].t};
    run_ok(x, in, 2, out, 2);
    memcpy(z2, z, sizeof z);
    out[0] = &t[0].t; /* the parameter's own memory */
    run_ok(x, in, 2, out, 2);
    assert_memory_equal(m, apart, sizeof apart);
    assert_memory_equal(z, z2, sizeof z);
    f32(&t[4], m + 4, 2, 4, 4); /* half of it */
    out[0] = &t[4].t;
    assert_int_equal(proem_run(x, in, 2, out, 2), PROEM_INVALID);
    has(proem_execution_error(x), "'y' overlaps");
    out[0] = &t[1].t; /* another input's */
    assert_int_equal(proem_run(x, in, 2, out, 2), PROEM_INVALID);
    out[0] = &t[0].t; /* both outputs the same */
    out[1] = &t[0].t;
    assert_int_equal(proem_run(x, in, 2, out, 2), PROEM_INVALID);
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

static void test_in_place(void **state) {
    (void)state;
    in_place_on(PROEM_DEVICE_CPU);
    in_place_on(PROEM_DEVICE_REF);
}

/* Kernels that need no copy, and those that look as if: an output in its parameter's memory equals
 * one in memory of its own. */
static void test_in_place_kernels(void **state) {
    (void)state;
    static const struct {
        const char *body;
        bool direct;
    } cases[] = {
        {"y = scatter(c, i, u)", true},
        {"y = scatter_add(c, i, u)", true},
        {"y = scatter(c, i, take(c, i))", false},
        {"y = scatter(flip(c, axes=[0]), i, u)", false},
        {"y = c * 2 - 1", true},
        {"y = c + flip(c, axes=[0])", false},
        {"y = c + sum(c, axes=[0], keepdims=true)", false},
        {"y = c + matmul(k, k)", true},
        {"y = c + matmul(k, c)", false},
        {"y = transpose(c) + matmul(k, k)", false},
        {"y = softmax(c)", false},
        {"y = cumsum(c, axis=0)", false},
        {"y = relu(c)\n z = c + 1", false},
        {"y = take(c, j)", false},
    };
    proem_context *c = context();
    for (size_t b = 0; b < sizeof cases / sizeof cases[0]; b++) {
        const char *body = cases[b].body;
        char text[512];
        snprintf(text, sizeof text,
                 "graph g(c: f32[40, 40], k: f32[40, 40], u: f32[3, 40], i: i64[3], j: i64[40]) {\n"
                 " %s\n return y in c%s\n}\n",
                 body, strstr(body, "z =") != NULL ? ", z" : ", u + 0");
        proem_program *p = compile_text(c, text, PROEM_DEVICE_CPU);
        if (p->in_place[0] != cases[b].direct) fail_msg("%s: direct is %d", body, p->in_place[0]);
        proem_execution *x = NULL;
        assert_int_equal(proem_execution_create(p, &x), PROEM_OK);
        float m[1600], k[1600], u[120], y[1600], z[1600];
        int64_t i[3] = {7, -40, 7}, j[40], n3 = 3, n40 = 40;
        fill(m, 1600, 4);
        fill(k, 1600, 9);
        fill(u, 120, 5);
        for (int q = 0; q < 40; q++)
            j[q] = (q * 7 + 3) % 40;
        struct tensor t[7];
        f32(&t[0], m, 2, 40, 40);
        f32(&t[1], k, 2, 40, 40);
        f32(&t[2], u, 2, 3, 40);
        tensor_set(&t[3], i, kDLInt, 64, 1, &n3);
        tensor_set(&t[4], j, kDLInt, 64, 1, &n40);
        f32(&t[5], y, 2, 40, 40);
        f32(&t[6], z, 2, strstr(body, "z =") != NULL ? 40 : 3, 40);
        const DLTensor *in[] = {&t[0].t, &t[1].t, &t[2].t, &t[3].t, &t[4].t};
        DLTensor *out[] = {&t[5].t, &t[6].t};
        run_ok(x, in, 5, out, 2);
        out[0] = &t[0].t;
        run_ok(x, in, 5, out, 2);
        if (memcmp(m, y, sizeof y) != 0) fail_msg("in place: %s", body);
        proem_execution_destroy(x);
        proem_program_destroy(p);
    }
    proem_context_destroy(c);
}

static void test_data_errors(void **state) {
    (void)state;
    static const char text[] = "graph g(x: f32[8, 3], index: i64[2, N], d: i32[N]) {\n"
                               "  y = take(x, index)\n"
                               "  q = 7 // d\n"
                               "  return y, q\n"
                               "}\n";
    proem_context *c = context();
    proem_program *p = compile_text(c, text, PROEM_DEVICE_CPU);
    proem_execution *x = NULL;
    assert_int_equal(proem_execution_create(p, &x), PROEM_OK);
    float data[24], y[36];
    int64_t index[12] = {0, 1, 2, 3, -8, 7, 12, 0, 99, 0, 0, 0}, shape[] = {2, 6, 3};
    int32_t d[6] = {1, 2, 3, 4, 5, 6}, q[6];
    struct tensor t[5];
    fill(data, 24, 1);
    f32(&t[0], data, 2, 8, 3);
    tensor_set(&t[1], index, kDLInt, 64, 2, shape);
    tensor_set(&t[2], d, kDLInt, 32, 1, shape + 1);
    tensor_set(&t[3], y, kDLFloat, 32, 3, shape);
    tensor_set(&t[4], q, kDLInt, 32, 1, shape + 1);
    const DLTensor *in[] = {&t[0].t, &t[1].t, &t[2].t};
    DLTensor *out[] = {&t[3].t, &t[4].t};
    assert_int_equal(proem_run(x, in, 3, out, 2), PROEM_DATA);
    assert_string_equal(proem_execution_error(x),
                        "take(x, index): index[1, 0] is 12, but x has 8 rows along axis 0 "
                        "(allowed: -8..7)");
    index[6] = index[8] = -1;
    d[4] = 0;
    assert_int_equal(proem_run(x, in, 3, out, 2), PROEM_DATA);
    assert_string_equal(proem_execution_error(x),
                        "floordiv(7, d): d[4] is 0; an integer divisor must not be 0");
    d[4] = -5;
    run_ok(x, in, 3, out, 2);
    assert_int_equal(q[4], -2);
    assert_true(y[4 * 3 + 1] == data[1]);
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

static void test_sizes(void **state) {
    (void)state;
    static const char text[] = "graph g(x: f32[2*M]) {\n"
                               "  y = reshape(x, [M, 2])\n"
                               "  n = iota(i64, [N], axis=0)\n"
                               "  return y, n\n"
                               "}\n";
    proem_context *c = context();
    proem_program *p = compile_text(c, text, PROEM_DEVICE_CPU);
    proem_execution *x = NULL;
    assert_int_equal(proem_execution_create(p, &x), PROEM_OK);
    float data[6];
    fill(data, 6, 2);
    struct tensor t;
    f32(&t, data, 1, 6, 0);
    const DLTensor *in[] = {&t.t};
    int rank = 0;
    const int64_t *dims = NULL;
    DLDataType type;
    assert_int_equal(proem_execution_output_shape(x, 0, &rank, &dims, &type), PROEM_INVALID);
    assert_int_equal(proem_execution_prepare(x, in, 1), PROEM_INVALID);
    has(proem_execution_error(x), "symbol N is not bound");
    assert_int_equal(proem_execution_set_dim(x, "K", 3), PROEM_INVALID);
    assert_int_equal(proem_execution_set_dim(x, "N", -3), PROEM_INVALID);
    assert_int_equal(proem_execution_set_dim(x, "N", 3), PROEM_OK);
    assert_int_equal(proem_execution_set_dim(x, "N", 5), PROEM_OK);
    assert_int_equal(proem_execution_prepare(x, in, 1), PROEM_OK);
    assert_int_equal(proem_execution_output_shape(x, 0, &rank, &dims, &type), PROEM_OK);
    assert_int_equal(rank, 2);
    assert_int_equal(dims[0], 3);
    assert_int_equal(dims[1], 2);
    assert_int_equal(type.code, kDLFloat);
    assert_int_equal(proem_execution_output_shape(x, 1, &rank, &dims, &type), PROEM_OK);
    assert_int_equal(rank, 1);
    assert_int_equal(dims[0], 5);
    assert_int_equal(type.bits, 64);
    assert_int_equal(proem_execution_output_shape(x, 2, &rank, &dims, &type), PROEM_INVALID);
    assert_int_equal(proem_execution_set_dim(x, "M", 2), PROEM_OK);
    assert_int_equal(proem_execution_prepare(x, in, 1), PROEM_INVALID);
    has(proem_execution_error(x), "x: dim 0 is 6");
    t.shape[0] = 5;
    proem_execution_destroy(x);
    assert_int_equal(proem_execution_create(p, &x), PROEM_OK);
    assert_int_equal(proem_execution_set_dim(x, "N", 0), PROEM_OK);
    assert_int_equal(proem_execution_prepare(x, in, 1), PROEM_INVALID); /* 5 is odd */
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

static void test_sub_byte(void **state) {
    (void)state;
    static const char text[] = "graph g(x: f32[1, 4], w: i4[4, 3]) {\n"
                               "  y = matmul(x, cast(w, f32))\n"
                               "  return y, w + w\n"
                               "}\n";
    proem_context *c = context();
    proem_program *p = compile_text(c, text, PROEM_DEVICE_CPU);
    proem_execution *e = NULL;
    assert_int_equal(proem_execution_create(p, &e), PROEM_OK);
    const int values[12] = {1, -8, 7, 0, 3, -1, 2, 2, -4, 5, -6, 6};
    unsigned char packed[6] = {0};
    for (int i = 0; i < 12; i++)
        packed[i / 2] = (unsigned char)(packed[i / 2] | ((unsigned)values[i] & 15u) << (i % 2 * 4));
    float x[4] = {1, 2, -1, 0.5f}, y[3];
    int8_t twice[12];
    int64_t shape[] = {4, 3};
    struct tensor t[4];
    f32(&t[0], x, 2, 1, 4);
    tensor_set(&t[1], packed, kDLInt, 4, 2, shape);
    f32(&t[2], y, 2, 1, 3);
    tensor_set(&t[3], twice, kDLInt, 8, 2, shape);
    const DLTensor *in[] = {&t[0].t, &t[1].t};
    DLTensor *out[] = {&t[2].t, &t[3].t};
    run_ok(e, in, 2, out, 2);
    for (int j = 0; j < 3; j++) {
        float want = 0;
        for (int k = 0; k < 4; k++)
            want += x[k] * (float)values[k * 3 + j];
        assert_true(y[j] == want);
    }
    for (int i = 0; i < 12; i++)
        assert_int_equal(twice[i], 2 * values[i]);
    proem_execution_destroy(e);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

/* A constant that moves, or is replaced, is packed again. */
static void test_constants(void **state) {
    (void)state;
    proem_context *c = context();
    proem_graph *g = linear_graph(c);
    proem_program *p = NULL;
    assert_int_equal(proem_compile(g, NULL, &p), PROEM_OK);
    proem_graph_destroy(g);
    proem_execution *x = NULL;
    assert_int_equal(proem_execution_create(p, &x), PROEM_OK);
    float a[10], w[2][15], b[3] = {0}, y[6], z[6];
    fill(a, 10, 2);
    struct tensor t[5];
    f32(&t[0], a, 2, 2, 5);
    f32(&t[2], b, 1, 3, 0);
    f32(&t[3], y, 2, 2, 3);
    f32(&t[4], z, 2, 2, 3);
    for (int i = 0; i < 4; i++) {
        fill(w[i % 2], 15, i % 2 + 3);
        f32(&t[1], w[i % 2], 2, 5, 3);
        const DLTensor *in[] = {&t[0].t, &t[1].t, &t[2].t};
        DLTensor *out[] = {&t[3].t, &t[4].t};
        run_ok(x, in, 3, out, 2);
        float sum = 0;
        for (int k = 0; k < 5; k++)
            sum += a[k] * w[i % 2][k * 3];
        assert_true(y[0] == (sum > 0 ? sum : 0));
    }
    proem_execution_destroy(x);
    proem_program_destroy(p);
    proem_context_destroy(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_context),
        cmocka_unit_test(test_error_is_the_first),
        cmocka_unit_test(test_builder),
        cmocka_unit_test(test_builder_is_sticky),
        cmocka_unit_test(test_builder_refuses),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_compile_refuses),
        cmocka_unit_test(test_no_compiler),
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_strided),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_in_place_kernels),
        cmocka_unit_test(test_data_errors),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_sub_byte),
        cmocka_unit_test(test_constants),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
