/* SPDX-License-Identifier: MIT
 * Binding sizes: names, dims that are a symbol, linear dims, conflicts, conditions, shapes, and
 * what the messages name.
 */
#include "graph/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct arena arena;
    struct graph *g;
    struct dims_binding b;
    struct err err;
};

static void begin(struct fixture *f) {
    arena_init(&f->arena, &allocator_default);
    struct sx_pool *p = sx_pool_new(&f->arena);
    f->g = graph_new(&f->arena, p, "test");
    assert_non_null(f->g);
    err_clear(&f->err);
}

static void bind(struct fixture *f) {
    f->b = dims_binding_new(&f->arena, f->g);
    assert_int_equal(f->b.n, sx_symbols(f->g->sx));
}

static void end(struct fixture *f) {
    arena_free(&f->arena);
}

static sx sym(struct fixture *f, const char *name) {
    return sx_sym(f->g->sx, name);
}

static sx num(struct fixture *f, int64_t v) {
    return sx_const(f->g->sx, v);
}

static sx add(struct fixture *f, sx a, sx b) {
    return sx_add(f->g->sx, a, b);
}

static sx mul(struct fixture *f, sx a, sx b) {
    return sx_mul(f->g->sx, a, b);
}

static value_id param(struct fixture *f, const char *name, int rank, const sx *dims) {
    value_id v = graph_param(f->g, NULL, name, DT_F32, rank, dims, false, NULL);
    assert_int_not_equal(v, 0);
    return v;
}

static void refused(struct fixture *f, enum proem_status s, const char *text) {
    assert_int_equal(s, PROEM_INVALID);
    if (strstr(f->err.text, text) == NULL) {
        print_error("`%s` is not in `%s`\n", text, f->err.text);
        fail();
    }
    err_clear(&f->err);
}

#define OK(s)      assert_int_equal((s), PROEM_OK)
#define DIMS(...)  ((const sx[]){__VA_ARGS__})
#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

static int64_t value(struct fixture *f, sx e) {
    int64_t v = -100;
    assert_true(dims_value(f->g, &f->b, e, &v));
    return v;
}

static void by_name(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    sx m = sym(&f, "M"), k = sym(&f, "K"), dims[] = {m, add(&f, mul(&f, k, num(&f, 2)), m)};
    value_id x = param(&f, "x", 2, dims);
    int64_t shape[2] = {-7, -7}, v = -7;
    bind(&f);
    refused(&f, dims_shape(f.g, &f.b, x, shape, &f.err), "symbol M is not bound");
    OK(dims_bind_name(f.g, &f.b, "M", 3, &f.err));
    assert_false(dims_value(f.g, &f.b, dims[1], &v));
    assert_int_equal(v, -7);
    refused(&f, dims_shape(f.g, &f.b, x, shape, &f.err), "symbol K is not bound (x needs it)");
    assert_int_equal(shape[0], -7);
    OK(dims_bind_name(f.g, &f.b, "K", 0, &f.err));
    OK(dims_shape(f.g, &f.b, x, shape, &f.err));
    assert_int_equal(shape[0], 3);
    assert_int_equal(shape[1], 3);
    OK(dims_bind_name(f.g, &f.b, "M", 3, &f.err));
    refused(&f, dims_bind_name(f.g, &f.b, "M", 4, &f.err),
            "symbol M is 3 in the sizes given but 4");
    refused(&f, dims_bind_name(f.g, &f.b, "Q", 4, &f.err), "no symbol Q; its symbols are M, K");
    refused(&f, dims_bind_name(f.g, &f.b, "K", -1, &f.err), "symbol K is given as -1");
    end(&f);
}

static void alone(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    sx m = sym(&f, "M"), k = sym(&f, "K");
    value_id x = param(&f, "x", 2, DIMS(m, k)), y = param(&f, "y", 2, DIMS(k, num(&f, 8)));
    bind(&f);
    OK(dims_bind_param(f.g, &f.b, x, 2, SHAPE(3, 5), &f.err));
    assert_int_equal(value(&f, m), 3);
    assert_int_equal(value(&f, k), 5);
    OK(dims_bind_param(f.g, &f.b, y, 2, SHAPE(5, 8), &f.err));
    refused(&f, dims_bind_param(f.g, &f.b, y, 2, SHAPE(6, 8), &f.err),
            "symbol K is 5 in x but 6 in y");
    refused(&f, dims_bind_param(f.g, &f.b, y, 2, SHAPE(5, 9), &f.err),
            "y: dim 1 is 9 instead of 8");
    refused(&f, dims_bind_param(f.g, &f.b, y, 1, SHAPE(5), &f.err),
            "y has the shape [5], but its type says [K, 8]");
    refused(&f, dims_bind_param(f.g, &f.b, y, 2, SHAPE(-5, 8), &f.err), "y has the shape [-5, 8]");
    end(&f);
    begin(&f);
    x = param(&f, "x", 2, DIMS(sym(&f, "M"), sym(&f, "M")));
    bind(&f);
    refused(&f, dims_bind_param(f.g, &f.b, x, 2, SHAPE(2, 3), &f.err),
            "symbol M is 2 in x but 3 in x");
    end(&f);
}

static void linear(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    sx m = sym(&f, "M"), k = sym(&f, "K"), n = sym(&f, "N");
    sx odd = add(&f, mul(&f, m, num(&f, 2)), num(&f, 1));
    value_id x = param(&f, "x", 1, DIMS(odd)), y = param(&f, "y", 1, DIMS(mul(&f, m, k)));
    value_id z = param(&f, "z", 1, DIMS(sx_sub(f.g->sx, num(&f, 10), n)));
    value_id w = param(&f, "w", 2, DIMS(add(&f, m, k), sx_div(f.g->sx, m, num(&f, 3))));
    bind(&f);
    refused(&f, dims_bind_param(f.g, &f.b, x, 1, SHAPE(8), &f.err),
            "x: dim 0 is 8, but M*2 + 1 is that for no M");
    refused(&f, dims_bind_param(f.g, &f.b, x, 1, SHAPE(0), &f.err), "for no M");
    OK(dims_bind_param(f.g, &f.b, w, 2, SHAPE(9, 1), &f.err)); /* two unknowns: left for later */
    assert_int_equal(f.b.value[0], -1);
    OK(dims_bind_param(f.g, &f.b, x, 1, SHAPE(9), &f.err));
    assert_int_equal(value(&f, m), 4);
    refused(&f, dims_bind_param(f.g, &f.b, y, 1, SHAPE(22), &f.err), "for no K");
    OK(dims_bind_param(f.g, &f.b, y, 1, SHAPE(20), &f.err));
    assert_int_equal(value(&f, k), 5);
    OK(dims_bind_param(f.g, &f.b, w, 2, SHAPE(9, 1), &f.err));
    refused(&f, dims_bind_param(f.g, &f.b, w, 2, SHAPE(8, 1), &f.err), "symbol M is 4 in x");
    refused(&f, dims_bind_param(f.g, &f.b, w, 2, SHAPE(9, 2), &f.err), "w: dim 1 is 2");
    refused(&f, dims_bind_param(f.g, &f.b, z, 1, SHAPE(11), &f.err), "for no N");
    OK(dims_bind_param(f.g, &f.b, z, 1, SHAPE(4), &f.err));
    assert_int_equal(value(&f, n), 6);
    end(&f);
    /* a size that is 0 leaves the others open; a floored quotient is not linear */
    begin(&f);
    m = sym(&f, "M");
    k = sym(&f, "K");
    y = param(&f, "y", 2, DIMS(m, mul(&f, m, k)));
    x = param(&f, "x", 1, DIMS(sx_div(f.g->sx, k, num(&f, 3))));
    bind(&f);
    OK(dims_bind_param(f.g, &f.b, y, 2, SHAPE(0, 0), &f.err));
    OK(dims_bind_param(f.g, &f.b, x, 1, SHAPE(2), &f.err));
    assert_int_equal(f.b.value[1], -1);
    refused(&f, dims_check(f.g, &f.b, &f.err), "symbol K is not bound");
    end(&f);
}

static void together(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    sx a = sym(&f, "A"), b = sym(&f, "B"), c = sym(&f, "C"), d = sym(&f, "D");
    param(&f, "x", 1, DIMS(add(&f, a, b)));
    param(&f, "y", 1, DIMS(add(&f, b, c)));
    param(&f, "z", 1, DIMS(c));
    param(&f, "w", 1, DIMS(d));
    bind(&f);
    const int rank[] = {1, 1, 1, 1};
    const int64_t *shape[] = {SHAPE(10), SHAPE(5), SHAPE(2), NULL};
    OK(dims_bind_params(f.g, &f.b, rank, shape, &f.err));
    assert_int_equal(value(&f, a), 7);
    assert_int_equal(value(&f, b), 3);
    assert_int_equal(f.b.value[3], -1);
    refused(&f, dims_check(f.g, &f.b, &f.err), "symbol D is not bound (w needs it)");
    shape[3] = SHAPE(1);
    OK(dims_bind_params(f.g, &f.b, rank, shape, &f.err));
    OK(dims_check(f.g, &f.b, &f.err));
    shape[1] = SHAPE(6);
    refused(&f, dims_bind_params(f.g, &f.b, rank, shape, &f.err), "y: dim 0 is 6");
    end(&f);
}

static void conditions(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    sx k = sym(&f, "K"), m = sym(&f, "M"), two = num(&f, 2);
    struct place at = {7, 9, 0, &f.err};
    OK(graph_check_dims(f.g, &at, DIM_DIVIDES, k, two));
    OK(graph_check_dims(f.g, &at, DIM_LE, m, k));
    value_id x = param(&f, "x", 2, DIMS(sx_div(f.g->sx, k, two), m));
    bind(&f);
    OK(dims_bind_param(f.g, &f.b, x, 2, SHAPE(5, 10), &f.err)); /* K/2 is exact: K is 10 */
    assert_int_equal(value(&f, k), 10);
    OK(dims_check(f.g, &f.b, &f.err));
    bind(&f);
    OK(dims_bind_name(f.g, &f.b, "K", 11, &f.err));
    OK(dims_bind_name(f.g, &f.b, "M", 0, &f.err));
    assert_int_equal(dims_check(f.g, &f.b, &f.err), PROEM_INVALID);
    assert_int_equal(f.err.line, 7);
    refused(&f, PROEM_INVALID, "K, 11, is not divisible by 2");
    bind(&f);
    OK(dims_bind_name(f.g, &f.b, "K", 10, &f.err));
    OK(dims_bind_name(f.g, &f.b, "M", 11, &f.err));
    refused(&f, dims_check(f.g, &f.b, &f.err), "M, 11, may not be larger than K, 10");
    end(&f);
}

static void bad_shapes(void **state) {
    (void)state;
    struct fixture f;
    begin(&f);
    sx m = sym(&f, "M"), n = sym(&f, "N");
    value_id x = param(&f, "x", 1, DIMS(sx_sub(f.g->sx, m, num(&f, 5))));
    value_id y = param(&f, "y", 2, DIMS(sx_div(f.g->sx, m, n), num(&f, 2)));
    value_id z = param(&f, "z", 3, DIMS(m, m, m)), w = param(&f, "w", 2, DIMS(mul(&f, m, m), n));
    int64_t shape[3];
    bind(&f);
    OK(dims_bind_name(f.g, &f.b, "M", 3, &f.err));
    OK(dims_bind_name(f.g, &f.b, "N", 0, &f.err));
    refused(&f, dims_shape(f.g, &f.b, x, shape, &f.err), "x: dim 0, M - 5, is negative: -2");
    refused(&f, dims_shape(f.g, &f.b, y, shape, &f.err), "y: dim 0, M//N, has no value");
    bind(&f);
    OK(dims_bind_name(f.g, &f.b, "M", INT64_C(1) << 31, &f.err));
    OK(dims_bind_name(f.g, &f.b, "N", 0, &f.err));
    refused(&f, dims_shape(f.g, &f.b, z, shape, &f.err), "z: [2147483648, ");
    OK(dims_shape(f.g, &f.b, w, shape, &f.err)); /* empty */
    bind(&f);
    OK(dims_bind_name(f.g, &f.b, "M", INT64_C(1) << 32, &f.err));
    OK(dims_bind_name(f.g, &f.b, "N", 1, &f.err));
    refused(&f, dims_shape(f.g, &f.b, w, shape, &f.err), "w: dim 0, M*M, has no value");
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_name),  cmocka_unit_test(alone),      cmocka_unit_test(linear),
        cmocka_unit_test(together), cmocka_unit_test(conditions), cmocka_unit_test(bad_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
