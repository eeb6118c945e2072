/* SPDX-License-Identifier: MIT
 * .npy: versions, byte orders, Fortran order, dtypes, every kind of broken file, the writer, and
 * the step from a file's dtype to a tensor's.
 */
#include "front_util.h"

struct cursor {
    const unsigned char *at;
    size_t left;
};

static bool read_cursor(void *user, void *dst, size_t n) {
    struct cursor *c = user;
    if (n > c->left) return false;
    memcpy(dst, c->at, n);
    c->at += n;
    c->left -= n;
    return true;
}

static enum proem_status read_with(const struct allocator *alloc, const void *bytes, size_t n,
                                   struct array *out, struct err *e) {
    struct arena a;
    arena_init(&a, alloc);
    /* A copy of the exact size, so that the sanitizer sees a read past the end. */
    unsigned char *copy = malloc(n != 0 ? n : 1);
    assert_non_null(copy);
    if (n > 0) memcpy(copy, bytes, n);
    struct cursor c = {copy, n};
    struct npy_stream s = {read_cursor, &c, n, "t.npy"};
    struct npy_header h;
    enum proem_status status = npy_read_header(&s, &a, &h, e);
    if (status == PROEM_OK) status = npy_read_data(&s, &h, alloc, out, e);
    free(copy);
    arena_free(&a);
    return status;
}

static enum proem_status read_bytes(const struct bytes *b, struct array *out, struct err *e) {
    err_clear(e);
    return read_with(&allocator_default, b->at, b->n, out, e);
}

static void expect_error(const char *dict, size_t data, enum proem_status want, const char *part) {
    unsigned char zeros[256] = {0};
    struct bytes b = npy_bytes(dict, zeros, data);
    struct array a = {0};
    struct err e;
    enum proem_status got = read_bytes(&b, &a, &e);
    if (got != want) fail_msg("%s: status %d: %s", dict, got, e.text);
    assert_contains(e.text, part);
    assert_contains(e.text, "t.npy");
    assert_null(a.data);
}

static void test_versions(void **state) {
    (void)state;
    const char *dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }    \n";
    const float data[6] = {1, 2, 3, 4, 5, 6};
    for (int version = 1; version <= 3; version++) {
        struct bytes b = {.n = 0};
        put(&b, "\x93NUMPY", 6);
        put_int(&b, (uint64_t)version, 2);
        put_int(&b, strlen(dict), version == 1 ? 2 : 4);
        put_text(&b, dict);
        put(&b, data, sizeof data);
        put_text(&b, "what follows the array is not its business");
        struct array a = {0};
        struct err e;
        assert_int_equal(read_bytes(&b, &a, &e), PROEM_OK);
        assert_int_equal(a.type.dtype, DT_F32);
        assert_int_equal(a.type.rank, 2);
        assert_int_equal(a.type.shape[0], 2);
        assert_int_equal(a.type.shape[1], 3);
        assert_memory_equal(a.data, data, sizeof data);
        array_free(&a);
    }
}

static void test_spelling(void **state) {
    (void)state;
    const char *const dicts[] = {
        "{\"shape\": (2,), \"descr\": \"|u1\", \"fortran_order\": True}",
        "{'fortran_order':False,'shape':(2L,),'descr':'u1'}",
        " { 'descr' : '=u1' , 'shape' : ( 2 , ) , 'fortran_order' : False , } ",
    };
    for (size_t i = 0; i < COUNT_OF(dicts); i++) {
        struct bytes b = npy_bytes(dicts[i], "\x07\xff", 2);
        struct array a = {0};
        struct err e;
        assert_int_equal(read_bytes(&b, &a, &e), PROEM_OK);
        assert_int_equal(a.type.dtype, DT_U8);
        assert_int_equal(a.count, 2);
        assert_int_equal(((unsigned char *)a.data)[1], 255);
        array_free(&a);
    }
}

static void test_big_endian_fortran(void **state) {
    (void)state;
    /* a[i][j][k] = 100 i + 10 j + k for shape (2, 3, 2), first index fastest, big-endian. */
    struct bytes data = {.n = 0};
    for (int k = 0; k < 2; k++) {
        for (int j = 0; j < 3; j++) {
            for (int i = 0; i < 2; i++) {
                int v = 100 * i + 10 * j + k;
                unsigned char be[4] = {0, 0, (unsigned char)(v >> 8), (unsigned char)v};
                put(&data, be, 4);
            }
        }
    }
    struct bytes b =
        npy_bytes("{'descr': '>i4', 'fortran_order': True, 'shape': (2, 3, 2), }", data.at, data.n);
    struct array a = {0};
    struct err e;
    assert_int_equal(read_bytes(&b, &a, &e), PROEM_OK);
    const int32_t *v = a.data;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 2; k++)
                assert_int_equal(v[(i * 3 + j) * 2 + k], 100 * i + 10 * j + k);
    array_free(&a);
}

static void test_scalar_and_empty(void **state) {
    (void)state;
    const double pi = 3.140625;
    struct bytes b =
        npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': ()}", &pi, sizeof pi);
    struct array a = {0};
    struct err e;
    assert_int_equal(read_bytes(&b, &a, &e), PROEM_OK);
    assert_int_equal(a.type.rank, 0);
    assert_memory_equal(a.data, &pi, sizeof pi);
    array_free(&a);
    b = npy_bytes("{'descr': '<f8', 'fortran_order': True, 'shape': (9223372036854775807, 0, 8)}",
                  "", 0);
    assert_int_equal(read_bytes(&b, &a, &e), PROEM_OK);
    assert_int_equal(a.count, 0);
    array_free(&a);
    b = npy_bytes("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", "\x00\x02", 2);
    assert_int_equal(read_bytes(&b, &a, &e), PROEM_OK);
    assert_int_equal(((unsigned char *)a.data)[1], 1); /* any byte but 0 is true */
    array_free(&a);
}

static void test_broken_headers(void **state) {
    (void)state;
    expect_error("{'descr': '<f4', 'fortran_order': False}", 0, PROEM_DATA, "must all be given");
    expect_error("{'descr': '<f4', 'descr': '<f4'}", 0, PROEM_DATA, "'descr' is repeated");
    expect_error("{'colour': 1}", 0, PROEM_DATA, "'colour' is unknown");
    expect_error("[1]", 0, PROEM_DATA, "must be a dict");
    expect_error("", 0, PROEM_DATA, "must be a dict");
    expect_error("{", 0, PROEM_DATA, "quoted key");
    expect_error("{'descr", 0, PROEM_DATA, "quoted key");
    expect_error("{'descr': '<f4' 'shape': ()}", 0, PROEM_DATA, "is missing");
    expect_error("{'descr': 4}", 0, PROEM_DATA, "'descr' must be a string");
    expect_error("{'descr': '<c8', 'fortran_order': False, 'shape': ()}", 8, PROEM_UNSUPPORTED,
                 "'<c8'");
    expect_error("{'descr': '|O', 'fortran_order': False, 'shape': ()}", 8, PROEM_UNSUPPORTED,
                 "'|O'");
    expect_error("{'descr': '', 'fortran_order': False, 'shape': ()}", 8, PROEM_UNSUPPORTED, "''");
    expect_error("{'descr': [('a', '<f4')]}", 8, PROEM_UNSUPPORTED, "structured");
    expect_error("{'descr': '<f4', 'fortran_order': 0}", 0, PROEM_DATA, "True or False");
    expect_error("{'shape': (4)}", 0, PROEM_DATA, "must be a tuple: (N,)");
    expect_error("{'shape': (-1,)}", 0, PROEM_DATA, "negative");
    expect_error("{'shape': (99999999999999999999,)}", 0, PROEM_DATA, "overflows");
    expect_error("{'shape': (1,2", 0, PROEM_DATA, "is missing in 'shape'");
    expect_error("{'shape': (,)}", 0, PROEM_DATA, "tuple of integers");
    expect_error("{'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}", 0, PROEM_UNSUPPORTED, "16 dims");
    expect_error("{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", 4, PROEM_DATA,
                 "text follows");
    expect_error("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 4,
                 PROEM_DATA, "overflows");
    expect_error("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", 4,
                 PROEM_DATA, "overflows");
    expect_error("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}", 4,
                 PROEM_DATA, "4000000000000 bytes, 4 are left");
}

static void test_truncated_everywhere(void **state) {
    (void)state;
    struct bytes whole = npy_bytes("{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }",
                                   "\x01\x00\x02\x00\x03\x00", 6);
    struct array a = {0};
    struct err e;
    for (size_t n = 0; n < whole.n; n++) {
        err_clear(&e);
        enum proem_status s = read_with(&allocator_default, whole.at, n, &a, &e);
        assert_int_equal(s, PROEM_DATA);
        assert_contains(e.text, "truncated");
    }
    assert_int_equal(read_bytes(&whole, &a, &e), PROEM_OK);
    array_free(&a);
}

static void test_magic_version_length(void **state) {
    (void)state;
    struct bytes b = npy_bytes("{}", "", 0);
    struct array a = {0};
    struct err e;
    b.at[0] = 'x';
    assert_int_equal(read_bytes(&b, &a, &e), PROEM_DATA);
    assert_contains(e.text, "not a .npy file");
    b.at[0] = 0x93;
    b.at[6] = 4;
    assert_int_equal(read_bytes(&b, &a, &e), PROEM_UNSUPPORTED);
    assert_contains(e.text, "version 4.0");
    memcpy(b.at + 6, "\x02\x00\xff\xff\xff\xff", 6);
    b.n = 12;
    assert_int_equal(read_bytes(&b, &a, &e), PROEM_DATA);
    assert_contains(e.text, "4294967295 bytes");
}

static void test_no_memory(void **state) {
    (void)state;
    struct bytes b = npy_bytes("{'descr': '<i2', 'fortran_order': True, 'shape': (3, 1), }",
                               "\x01\x00\x02\x00\x03\x00", 6);
    enum proem_status s = PROEM_NOMEM;
    long n = 0;
    for (; s != PROEM_OK; n++) {
        struct faulty f;
        struct allocator alloc = faulty_allocator(&f, n);
        struct array a = {0};
        struct err e = {0};
        s = read_with(&alloc, b.at, b.n, &a, &e);
        if (s == PROEM_OK)
            array_free(&a);
        else
            assert_int_equal(s, PROEM_NOMEM);
        assert_int_equal(f.live, 0);
        assert_true(n < 20);
    }
    assert_true(n >= 3); /* the header's text, the data, the transposed data */
}

static struct array make(enum dtype d, int rank, const int64_t *shape, const void *data) {
    struct array_type t = {.dtype = d, .rank = rank};
    for (int i = 0; i < rank; i++)
        t.shape[i] = shape[i];
    struct array a;
    assert_int_equal(array_new(&allocator_default, &t, "t", &a, NULL), PROEM_OK);
    memcpy(a.data, data, a.bytes);
    return a;
}

static enum proem_status read_path(const char *path, struct array *out, struct err *e) {
    struct arena a;
    arena_init(&a, &allocator_default);
    struct file f;
    err_clear(e);
    assert_int_equal(file_open(&a, path, &f, e), PROEM_OK);
    struct bytes b = {.n = (size_t)f.size};
    assert_true(b.n <= sizeof b.at);
    assert_int_equal(file_read(&f, 0, b.at, b.n, e), PROEM_OK);
    file_close(&f);
    arena_free(&a);
    return read_bytes(&b, out, e);
}

static void test_write_round_trip(void **state) {
    (void)state;
    char folder[256], path[300];
    make_scratch(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/x.npy", folder);
    unsigned char data[64];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 37 % 2);
    for (enum dtype d = DT_NONE + 1; d < DT_COUNT; d++) {
        for (int rank = 0; rank < 4; rank++) {
            struct array a = make(d, rank, (const int64_t[]){2, 1, 3}, data), back = {0};
            struct err e = {0};
            assert_int_equal(npy_write(path, &a, &e), PROEM_OK);
            assert_int_equal(read_path(path, &back, &e), PROEM_OK);
            assert_int_equal(back.bytes, a.bytes);
            if (array_adopt(&back, &a.type, "x.npy", &e) != PROEM_OK) fail_msg("%s", e.text);
            assert_memory_equal(back.data, a.data, a.bytes);
            assert_int_equal(back.count, a.count);
            array_free(&back);
            array_free(&a);
        }
    }
    struct array a = make(DT_F32, 0, NULL, data);
    struct err e = {0};
    snprintf(path, sizeof path, "%s/none/x.npy", folder);
    assert_int_equal(npy_write(path, &a, &e), PROEM_IO);
    assert_contains(e.text, "cannot create");
    array_free(&a);
    remove_scratch(folder);
}

static struct array_type type_of(enum dtype d, int rank, int64_t s0, int64_t s1) {
    return (struct array_type){.dtype = d, .rank = rank, .shape = {s0, s1}};
}

static void test_adopt_subbyte(void **state) {
    (void)state;
    struct err e = {0};
    /* Unpacked, signed: values. */
    struct array a = make(DT_I8, 2, (const int64_t[]){1, 3}, "\xf8\x07\xff");
    struct array_type t = type_of(DT_I4, 2, 1, 3);
    assert_int_equal(array_adopt(&a, &t, "w", &e), PROEM_OK);
    assert_int_equal(a.bytes, 2);
    assert_memory_equal(a.data, "\x78\x0f", 2);
    array_free(&a);
    /* Packed and flat: the unused bits of the last byte are ignored. */
    a = make(DT_U8, 1, (const int64_t[]){2}, "\x78\xff");
    assert_int_equal(array_adopt(&a, &t, "w", &e), PROEM_OK);
    assert_memory_equal(a.data, "\x78\x0f", 2);
    array_free(&a);
    /* Out of range: nothing changes. */
    a = make(DT_U8, 2, (const int64_t[]){1, 3}, "\x01\x04\x00");
    t.dtype = DT_U2;
    assert_int_equal(array_adopt(&a, &t, "w", &e), PROEM_DATA);
    assert_contains(e.text, "element 1 is 4, but u2 holds 0 to 3");
    assert_int_equal(a.type.dtype, DT_U8);
    t.dtype = DT_F4E2M1FN;
    assert_int_equal(array_adopt(&a, &t, "w", &e), PROEM_OK);
    assert_memory_equal(a.data, "\x41\x00", 2);
    array_free(&a);
}

static void test_adopt_mismatch(void **state) {
    (void)state;
    struct array a = make(DT_U16, 1, (const int64_t[]){2}, "\x80\x3f\x00\x40");
    struct err e = {0};
    struct array_type t = type_of(DT_F16, 1, 2, 0);
    assert_int_equal(array_adopt(&a, &t, "x", &e), PROEM_INVALID);
    assert_contains(e.text, "x: holds u16[2], but f16[2] is expected");
    err_clear(&e);
    t = type_of(DT_BF16, 1, 3, 0);
    assert_int_equal(array_adopt(&a, &t, "x", &e), PROEM_INVALID);
    assert_contains(e.text, "bf16[3] is expected (u16 may hold its bits)");
    t = type_of(DT_BF16, 1, 2, 0);
    assert_int_equal(array_adopt(&a, &t, "x", &e), PROEM_OK);
    int64_t shape[1];
    assert_true(array_shape_as(&a.type, DT_BF16, 1, shape));
    assert_int_equal(shape[0], 2);
    assert_false(array_shape_as(&a.type, DT_F32, 1, shape));
    assert_false(array_shape_as(&a.type, DT_BF16, 2, shape));
    /* u8[2] may be two elements or a packed tensor of more; i8[2] is two elements. */
    t = type_of(DT_U8, 1, 2, 0);
    assert_false(array_shape_as(&t, DT_I4, 1, shape));
    t.dtype = DT_I8;
    assert_true(array_shape_as(&t, DT_I4, 1, shape));
    array_free(&a);
}

/* Files made by NumPy itself, where it is installed. */
static const char numpy_script[] =
    "import sys\n"
    "try:\n"
    "    import numpy as np\n"
    "except ImportError:\n"
    "    sys.exit(77)\n"
    "d = sys.argv[1]\n"
    "x = np.arange(24).reshape(2, 3, 4)\n"
    "for i, t in enumerate(['|b1', '|i1', '<i2', '>i4', '>i8', '|u1', '>u2', '<u4', '<u8', '<f2',\n"
    "                       '>f4', '<f8']):\n"
    "    y = x.astype(t)\n"
    "    np.save(f'{d}/c{i}.npy', y)\n"
    "    np.save(f'{d}/f{i}.npy', np.asfortranarray(y))\n"
    "    with open(f'{d}/v{i}.npy', 'wb') as f:\n"
    "        np.lib.format.write_array(f, y, version=(2 + i % 2, 0))\n";

static void test_numpy(void **state) {
    (void)state;
    char folder[256], path[600], command[1024];
    make_scratch(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/make.py", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(numpy_script, f);
    fclose(f);
    snprintf(command, sizeof command, "python3 '%s' '%s' 2>/dev/null", path, folder);
    if (system(command) != 0) {
        remove_scratch(folder);
        print_message("NumPy is not installed: its 36 files are not checked\n");
        skip();
    }
    static const enum dtype dtypes[] = {DT_BOOL, DT_I8,  DT_I16, DT_I32, DT_I64, DT_U8,
                                        DT_U16,  DT_U32, DT_U64, DT_F16, DT_F32, DT_F64};
    for (size_t i = 0; i < 3 * COUNT_OF(dtypes); i++) {
        enum dtype d = dtypes[i / 3];
        snprintf(path, sizeof path, "%s/%c%zu.npy", folder, "cfv"[i % 3], i / 3);
        struct array a = {0};
        struct err e;
        if (read_path(path, &a, &e) != PROEM_OK) fail_msg("%s", e.text);
        assert_int_equal(a.type.dtype, d);
        assert_int_equal(a.count, 24);
        for (int64_t j = 0; j < 24; j++) {
            union scalar v = elem_load(d, a.data, j);
            double got = dtype_is_float(d) ? v.f : (double)v.i;
            assert_true(got == (d == DT_BOOL ? (double)(j != 0) : (double)j));
        }
        array_free(&a);
    }
    remove_scratch(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_spelling),
        cmocka_unit_test(test_big_endian_fortran),
        cmocka_unit_test(test_scalar_and_empty),
        cmocka_unit_test(test_broken_headers),
        cmocka_unit_test(test_truncated_everywhere),
        cmocka_unit_test(test_magic_version_length),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_write_round_trip),
        cmocka_unit_test(test_adopt_subbyte),
        cmocka_unit_test(test_adopt_mismatch),
        cmocka_unit_test(test_numpy),
    };
    return cmocka_run_group_tests_name("front_npy", tests, NULL, NULL);
}
