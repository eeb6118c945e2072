/* SPDX-License-Identifier: MIT
 * The reader of ONNX models: damaged files, tensors in every encoding, functions, shapes that are
 * computed while a model is read, memory that runs out.
 */
#include "onnx_util.h"

#define IN(...)   ((const char *const[3]){__VA_ARGS__})
#define DIMS(...) ((const char *const[4]){__VA_ARGS__})

/* ---- the wire -------------------------------------------------------------------------------- */

/* y = relu(x) with a Constant beside it. */
static struct wire small_model(void) {
    struct wire g = {.n = 0}, a = {.n = 0}, t = {.n = 0};
    wire_text(&g, 2, "small");
    wire_int(&t, 2, F_FLOAT);
    wire_bytes(&t, 9, (const float[]){3}, 4);
    wire_text(&a, 1, "value");
    wire_put(&a, 5, &t);
    put_node(&g, "Constant", IN(NULL), "three", &a);
    put_node(&g, "Mul", IN("x", "three"), "product", NULL);
    put_node(&g, "Relu", IN("product"), "y", NULL);
    put_value(&g, 11, "x", F_FLOAT, DIMS("N", "2"));
    put_value(&g, 12, "y", F_FLOAT, DIMS("N", "2"));
    return model_of(&g, 21);
}

static void test_small(void **state) {
    (void)state;
    struct imported x;
    struct wire m = small_model();
    import_bytes(&x, &allocator_default, m.at, m.n);
    expect_text(&x,
                "graph small(x: f32[N, 2]) {\n  product = x * cast(3.0, f32)\n  y = relu(product)\n"
                "  return y\n}\n");
}

/* Where a field of the outermost message ends, what is there may be a message. */
static bool is_boundary(const struct wire *m, size_t at) {
    size_t p = 0;
    while (p < at) {
        uint64_t key = m->at[p++], n = 0;
        int shift = 0;
        do {
            n |= (uint64_t)(m->at[p] & 127) << shift;
            shift += 7;
        } while (m->at[p++] > 127);
        if ((key & 7) == 2) p += n;
    }
    return p == at;
}

static void test_truncated(void **state) {
    (void)state;
    struct wire m = small_model();
    for (size_t n = 0; n < m.n; n++) {
        struct imported x;
        import_bytes(&x, &allocator_default, m.at, n);
        if (is_boundary(&m, n)) {
            assert_int_not_equal(x.status, PROEM_INTERNAL);
        } else {
            assert_int_equal(x.status, PROEM_INVALID);
            assert_contains(x.e.text, "byte ");
        }
        imported_free(&x);
    }
}

/* Every bit of every byte turned over: an error or another model, never a crash. */
static void test_flipped(void **state) {
    (void)state;
    struct wire m = small_model();
    for (size_t i = 0; i < m.n * 8; i++) {
        struct imported x;
        m.at[i / 8] ^= (unsigned char)(1 << i % 8);
        import_bytes(&x, &allocator_default, m.at, m.n);
        if (x.status != PROEM_OK) assert_true(x.e.text[0] != '\0');
        imported_free(&x);
        m.at[i / 8] ^= (unsigned char)(1 << i % 8);
    }
}

/* sequence of sequence of .., in the type of an input */
static struct wire nested(int depth) {
    struct wire type = {.n = 0}, info = {.n = 0}, g = {.n = 0};
    for (int i = 0; i < depth; i++) {
        struct wire sequence = {.n = 0}, outer = {.n = 0};
        wire_put(&sequence, 1, &type);
        wire_put(&outer, 4, &sequence);
        type = outer;
    }
    wire_text(&info, 1, "x");
    wire_put(&info, 2, &type);
    wire_put(&g, 11, &info);
    return model_of(&g, 21);
}

static void test_depth(void **state) {
    (void)state;
    struct imported x;
    struct wire m = nested(20);
    import_bytes(&x, &allocator_default, m.at, m.n);
    expect_failure(&x, PROEM_UNSUPPORTED, "only tensors are supported");
    m = nested(200);
    import_bytes(&x, &allocator_default, m.at, m.n);
    expect_failure(&x, PROEM_INVALID, "messages nest too deep");
}

static void expect_broken(const char *bytes, size_t n, const char *part) {
    struct imported x;
    import_bytes(&x, &allocator_default, bytes, n);
    expect_failure(&x, PROEM_INVALID, part);
}

#define BROKEN(bytes, part) expect_broken(bytes, sizeof bytes - 1, part)

static void test_wire(void **state) {
    (void)state;
    BROKEN("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "a number runs past the end");
    BROKEN("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x01", "a key runs past the end");
    BROKEN("\x00\x01", "a key is no field");
    BROKEN("\x0b\x01", "a key has a kind");
    BROKEN("\x3a\x7f", "a length runs past the end");
    BROKEN("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a length runs past the end");
    BROKEN("\x12\x03"
           "a\0b",
           "a string holds a NUL byte");
    BROKEN("\x09\x01\x02\x03", "a number runs past the end");
    BROKEN("\x0a\x01\x01", "not a ModelProto");
    BROKEN("", "the model has no graph");
    struct imported x;
    import_bytes(&x, &allocator_default, "\x08\x02\x3a\x00", 4);
    expect_failure(&x, PROEM_UNSUPPORTED, "IR version 2 is not supported");
}

/* ---- tensors --------------------------------------------------------------------------------- */

struct encoding {
    int type;       /* ONNX's number */
    unsigned field; /* 4 float, 5 int32, 7 int64, 10 double, 11 uint64 */
    int count;
    double value[4];
    enum dtype dtype;
    bool by_bits; /* the list has the elements' bits */
};

static const struct encoding encodings[] = {
    {1, 4, 3, {1.5, -2, 0}, DT_F32, false},       {11, 10, 3, {1.5, -2, 1e100}, DT_F64, false},
    {7, 7, 3, {5, -6, 7}, DT_I64, false},         {6, 5, 3, {5, -6, 7}, DT_I32, false},
    {5, 5, 2, {-300, 300}, DT_I16, false},        {3, 5, 2, {-3, 100}, DT_I8, false},
    {4, 5, 2, {60000, 1}, DT_U16, false},         {2, 5, 2, {200, 1}, DT_U8, false},
    {9, 5, 3, {1, 0, 1}, DT_BOOL, false},         {12, 11, 2, {4e9, 1}, DT_U32, false},
    {13, 11, 2, {4e9, 1}, DT_U64, false},         {10, 5, 3, {1.5, -2, 0.25}, DT_F16, true},
    {16, 5, 3, {1.5, -2, 0.25}, DT_BF16, true},   {17, 5, 3, {1.5, -2, 0.25}, DT_F8E4M3FN, true},
    {19, 5, 3, {1.5, -2, 0.25}, DT_F8E5M2, true}, {24, 5, 3, {2, 4, 0.25}, DT_E8M0, true},
    {21, 5, 3, {1, 15, 7}, DT_U4, true},          {22, 5, 3, {1, -8, 7}, DT_I4, true},
    {23, 5, 3, {1.5, -2, 6}, DT_F4E2M1FN, true},  {25, 5, 4, {1, 3, 0, 2}, DT_U2, true},
    {26, 5, 3, {1, -2, 0}, DT_I2, true},
};

static void store(const struct encoding *c, int i, unsigned char bytes[64]) {
    union scalar v = {.f = c->value[i]};
    if (!dtype_is_float(c->dtype)) v.i = (int64_t)c->value[i];
    elem_store(c->dtype, bytes, i, v);
}

static void put_list(struct wire *t, const struct encoding *c) {
    unsigned char bytes[64] = {0};
    int n = c->count;
    for (int i = 0; i < c->count; i++)
        store(c, i, bytes);
    struct wire list = {.n = 0};
    if (dtype_is_subbyte(c->dtype)) n = (int)dtype_bytes(c->dtype, c->count);
    for (int i = 0; i < n; i++) {
        float f = (float)c->value[i];
        if (c->field == 4)
            memcpy(list.at + list.n, &f, 4), list.n += 4;
        else if (c->field == 10)
            memcpy(list.at + list.n, &c->value[i], 8), list.n += 8;
        else if (dtype_is_subbyte(c->dtype))
            wire_varint(&list, bytes[i]);
        else if (c->by_bits)
            wire_varint(&list, elem_bits(c->dtype, elem_load(c->dtype, bytes, i)));
        else
            wire_varint(&list, (uint64_t)(int64_t)c->value[i]);
    }
    wire_put(t, c->field, &list);
}

static void put_raw(struct wire *t, const struct encoding *c) {
    unsigned char bytes[64] = {0};
    for (int i = 0; i < c->count; i++)
        store(c, i, bytes);
    wire_bytes(t, 9, bytes, (size_t)dtype_bytes(c->dtype, c->count));
}

/* A model with one initializer "t", and no more: it is read, but no graph. */
static void open_tensor(struct imported *x, const struct encoding *c, bool raw, int dims) {
    struct wire t = {.n = 0}, g = {.n = 0};
    wire_int(&t, 1, dims);
    wire_int(&t, 2, c->type);
    wire_text(&t, 8, "t");
    if (raw)
        put_raw(&t, c);
    else
        put_list(&t, c);
    wire_put(&g, 5, &t);
    read_graph(x, &g);
}

static void check_encoding(const struct encoding *c, bool raw) {
    struct imported x;
    struct array a;
    open_tensor(&x, c, raw, c->count);
    assert_int_equal(onnx_model_tensor(x.m, 0, &allocator_default, &a, &x.e), PROEM_OK);
    assert_int_equal(a.type.dtype, c->dtype);
    assert_int_equal(a.count, c->count);
    for (int i = 0; i < c->count; i++) {
        union scalar v = elem_load(c->dtype, a.data, i);
        double got = dtype_is_float(c->dtype) ? v.f : (double)v.i;
        if (got != c->value[i])
            fail_msg("type %d raw %d element %d: %g, not %g", c->type, raw, i, got, c->value[i]);
    }
    array_free(&a);
    imported_free(&x);
    open_tensor(&x, c, raw, c->count + 5);
    assert_int_equal(onnx_model_tensor(x.m, 0, &allocator_default, &a, &x.e), PROEM_INVALID);
    assert_contains(x.e.text, "tensor 't'");
    imported_free(&x);
}

static void test_encodings(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(encodings); i++) {
        check_encoding(&encodings[i], false);
        check_encoding(&encodings[i], true);
    }
}

static void external(struct imported *x, const char *location, const char *length) {
    struct wire t = {.n = 0}, g = {.n = 0};
    const char *const entry[][2] = {{"location", location}, {"length", length}};
    wire_int(&t, 1, 2);
    wire_int(&t, 2, F_FLOAT);
    wire_text(&t, 8, "t");
    for (int i = 0; i < 2; i++) {
        struct wire pair = {.n = 0};
        wire_text(&pair, 1, entry[i][0]);
        wire_text(&pair, 2, entry[i][1]);
        wire_put(&t, 13, &pair);
    }
    wire_int(&t, 14, 1);
    wire_put(&g, 5, &t);
    read_graph(x, &g);
    x->m->folder = "."; /* as of a file in this folder */
}

static void test_external(void **state) {
    (void)state;
    static const char *const outside[] = {"/etc/passwd", "..", "../x", "a/../../x", "a/..", ""};
    struct imported x;
    struct array a;
    for (size_t i = 0; i < COUNT_OF(outside); i++) {
        external(&x, outside[i], "8");
        assert_int_equal(onnx_model_tensor(x.m, 0, &allocator_default, &a, &x.e), PROEM_INVALID);
        assert_contains(x.e.text, "not inside the model's folder");
        imported_free(&x);
    }
    external(&x, "weights", "eight");
    assert_int_equal(onnx_model_tensor(x.m, 0, &allocator_default, &a, &x.e), PROEM_INVALID);
    assert_contains(x.e.text, "no number");
    imported_free(&x);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static struct wire axis_attribute(int64_t axis) {
    struct wire a = {.n = 0};
    wire_text(&a, 1, "axis");
    wire_int(&a, 3, axis);
    return a;
}

/* Reshape of [batch, seq, 8] to [batch, seq * 2, 4], its sizes taken from Shape. */
static void test_shapes(void **state) {
    (void)state;
    struct wire g = {.n = 0}, axis = axis_attribute(0);
    struct imported x;
    wire_text(&g, 2, "sizes");
    put_node(&g, "Shape", IN("x"), "shape", NULL);
    put_node(&g, "Gather", IN("shape", "zero"), "batch", NULL);
    put_node(&g, "Gather", IN("shape", "one"), "seq", NULL);
    put_node(&g, "Mul", IN("seq", "two"), "twice", NULL);
    put_node(&g, "Concat", IN("batch", "twice", "four"), "target", &axis);
    put_node(&g, "Reshape", IN("x", "target"), "y", NULL);
    put_value(&g, 11, "x", F_FLOAT, DIMS("B", "S", "8"));
    put_value(&g, 12, "y", F_FLOAT, DIMS("B", "T", "4"));
    put_numbers(&g, "zero", 1, (const int64_t[]){0});
    put_numbers(&g, "one", 1, (const int64_t[]){1});
    put_numbers(&g, "two", 1, (const int64_t[]){2});
    put_numbers(&g, "four", 1, (const int64_t[]){4});
    import_graph(&x, &g);
    expect_text(&x, "graph sizes(x: f32[B, S, 8]) {\n  y = reshape(x, [B, S*2, 4])\n"
                    "  return y\n}\n");
}

/* A shape that depends on data names the node and what it depends on. */
static void test_data_shape(void **state) {
    (void)state;
    struct wire g = {.n = 0};
    struct imported x;
    put_node(&g, "Reshape", IN("x", "s"), "y", NULL);
    put_value(&g, 11, "x", F_FLOAT, DIMS("B", "8"));
    put_value(&g, 11, "s", F_INT64, DIMS("2"));
    put_value(&g, 12, "y", F_FLOAT, DIMS("a", "b"));
    import_graph(&x, &g);
    expect_failure(&x, PROEM_UNSUPPORTED, "shapes depend on its input 's'");
}

/* An input that is an output, an initializer under an output's name, and names that meet. */
static void test_names(void **state) {
    (void)state;
    struct wire g = {.n = 0};
    struct imported x;
    wire_text(&g, 2, "names");
    put_value(&g, 11, "x", F_FLOAT, DIMS("2"));
    put_value(&g, 12, "x", F_FLOAT, DIMS("2"));
    put_value(&g, 12, "w", F_INT64, DIMS("2"));
    put_numbers(&g, "w", 2, (const int64_t[]){1, 2});
    import_graph(&x, &g);
    expect_text(&x, "graph names(x: f32[2], const `w.1`: i64[2] = \"m.onnx:w\") {\n"
                    "  `x.1` = cast(x, f32)\n  w = cast(`w.1`, i64)\n  return `x.1`, w\n}\n");
}

static void test_missing(void **state) {
    (void)state;
    struct wire g = {.n = 0};
    struct imported x;
    put_node(&g, "Gizmo", IN("x"), "a", NULL);
    put_node(&g, "Relu", IN("a"), "b", NULL);
    put_node(&g, "Widget", IN("b"), "y", NULL);
    put_value(&g, 11, "x", F_FLOAT, DIMS("2"));
    put_value(&g, 12, "y", F_FLOAT, DIMS("2"));
    import_graph(&x, &g);
    expect_failure(&x, PROEM_UNSUPPORTED,
                   "Gizmo-21 (node '#0 Gizmo'), Widget-21 (node '#2 Widget')");
}

/* ---- memory ---------------------------------------------------------------------------------- */

struct failing {
    long left; /* allocations until one fails; all after it work again */
};

static void *failing_alloc(void *user, size_t size, size_t align) {
    struct failing *f = user;
    return f->left-- == 0 ? NULL : allocator_default.alloc(NULL, size, align);
}

static void failing_free(void *user, void *p, size_t size) {
    (void)user;
    allocator_default.free(NULL, p, size);
}

/* A chain that is long enough to need many of the arena's blocks. */
static void test_no_memory(void **state) {
    (void)state;
    static struct wire g, m;
    static char name[32][12];
    g.n = 0;
    put_value(&g, 11, "x", F_FLOAT, DIMS("B", "S", "8"));
    for (int i = 0; i < 30; i++) {
        snprintf(name[i], sizeof name[i], "v%d", i);
        put_node(&g, i % 2 == 0 ? "Celu" : "Softplus", IN(i > 0 ? name[i - 1] : "x"), name[i],
                 NULL);
    }
    put_value(&g, 12, "v29", F_FLOAT, DIMS("B", "S", "8"));
    m = model_of(&g, 21);
    long tries = 0;
    for (bool hit = true; hit; tries++) {
        struct failing f = {tries};
        struct allocator alloc = {failing_alloc, failing_free, &f};
        struct imported x;
        import_bytes(&x, &alloc, m.at, m.n);
        hit = f.left < 0;
        if (x.status != (hit ? PROEM_NOMEM : PROEM_OK))
            fail_msg("allocation %ld: status %d: %s", tries, x.status, x.e.text);
        imported_free(&x);
    }
    assert_true(tries > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),      cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_flipped),    cmocka_unit_test(test_depth),
        cmocka_unit_test(test_wire),       cmocka_unit_test(test_encodings),
        cmocka_unit_test(test_external),   cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_data_shape), cmocka_unit_test(test_names),
        cmocka_unit_test(test_missing),    cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
