/* SPDX-License-Identifier: MIT
 * The builder from C: parameters, literals, calls by text, names, outputs, the verifier, and what
 * is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "graph/graph.h"

struct fixture {
    struct arena a;
    struct err e;
    struct place at;
    struct graph *g;
};

static int setup(void **state) {
    static struct fixture f;
    arena_init(&f.a, &allocator_default);
    err_clear(&f.e);
    f.at = (struct place){.err = &f.e};
    f.g = graph_new(&f.a, sx_pool_new(&f.a), "g");
    *state = &f;
    return f.g == NULL;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    arena_free(&f->a);
    return 0;
}

static value_id param(struct fixture *f, const char *name, const char *type) {
    enum dtype d;
    int rank;
    sx dims[MAX_RANK];
    if (graph_type_text(f->g, type, &d, &rank, dims, &f->e) != PROEM_OK) return 0;
    return graph_param(f->g, &f->at, name, d, rank, dims, false, NULL);
}

static value_id call(struct fixture *f, const char *op, value_id a, value_id b, const char *args) {
    value_id in[2] = {a, b};
    return graph_call_text(f->g, &f->at, op, b != 0 ? 2 : a != 0 ? 1 : 0, in, args);
}

static value_id int_literal(struct fixture *f, int64_t v) {
    return graph_literal(f->g, &f->at, DT_I64, (union scalar){.i = v});
}

static void assert_type(struct fixture *f, value_id v, const char *want) {
    struct str s;
    if (v == 0) fail_msg("%s", f->e.text);
    str_init(&s, &allocator_default);
    value_type_print(f->g, v, &s);
    assert_string_equal(str_text(&s), want);
    str_free(&s);
}

static void assert_text(struct fixture *f, bool flat, const char *want) {
    struct str s;
    str_init(&s, &allocator_default);
    graph_print(f->g, flat, &s);
    assert_string_equal(str_text(&s), want);
    str_free(&s);
}

/* The call must fail with this text, once. */
static void assert_fails(struct fixture *f, value_id v, const char *want) {
    assert_int_equal(v, 0);
    assert_int_equal(f->e.status, PROEM_INVALID);
    if (strstr(f->e.text, want) == NULL) fail_msg("`%s` has no `%s`", f->e.text, want);
    err_clear(&f->e);
}

static void test_calls(void **state) {
    struct fixture *f = *state;
    value_id x = param(f, "x", "bf16[M, 4096]"), w = param(f, "w", "i8[N, 4096]");
    assert_type(f, x, "bf16[M, 4096]");
    value_id c = call(f, "cast", w, 0, "bf16");
    value_id t = call(f, "permute", c, 0, "[1, 0]");
    assert_type(f, t, "bf16[4096, N]");
    value_id y = call(f, "matmul", x, t, "");
    assert_type(f, y, "bf16[M, N]");
    assert_type(f, call(f, "matmul", x, t, "out=f32"), "f32[M, N]");
    assert_type(f, call(f, "slice", x, 0, "axis=1, start=-8, step=2"), "bf16[M, 4]");
    assert_type(f, call(f, "iota", 0, 0, "i64, [M, 3], axis=1"), "i64[M, 3]");
    assert_type(f, call(f, "concat", x, x, "axis=0"), "bf16[M*2, 4096]");
    assert_type(f, call(f, "rms_norm", x, 0, "eps=1e-5"), "bf16[M, 4096]");
    assert_type(f, call(f, "gelu", x, 0, "approximate=\"tanh\""), "bf16[M, 4096]");
    value_id parts = call(f, "split", x, 0, "4, axis=1");
    assert_type(f, parts, "bf16[M, 1024]");
    assert_int_equal(graph_def(f->g, parts)->n_out, 4);
    assert_type(f, parts + 3, "bf16[M, 1024]");
    assert_int_equal(graph_output(f->g, &f->at, y, 0), PROEM_OK);
    assert_int_equal(graph_finish(f->g, &f->e), PROEM_OK);
    assert_int_equal(graph_verify(f->g, &f->e), PROEM_OK);
    assert_string_equal(graph_value(f->g, y)->name, "matmul_1");
    assert_string_equal(f->g->outputs.at[0].name, "out0");
}

static void test_call_errors(void **state) {
    struct fixture *f = *state;
    value_id x = param(f, "x", "f32[4, 6]"), y = param(f, "y", "f32[5]");
    assert_fails(f, call(f, "nothing", x, 0, ""), "there is no operator `nothing`");
    assert_fails(f, call(f, "matmul", x, 0, ""), "matmul needs b");
    assert_fails(f, call(f, "relu", x, x, ""), "relu takes 1 operand, not 2");
    assert_fails(f, call(f, "cast", x, 0, ""), "cast needs dtype");
    assert_fails(f, call(f, "cast", x, 0, "f32 x"), "expected the end of the arguments");
    assert_fails(f, call(f, "cast", x, 0, "f32)"), "`)` without its `(`");
    assert_fails(f, call(f, "softmax", x, 0, "axis="), "expected an integer");
    assert_fails(f, call(f, "add", x, y, ""), "x f32[4, 6] and y f32[5] do not broadcast");
    assert_fails(f, param(f, "z", "f32"), "expected `[`");
    assert_fails(f, param(f, "z", "f32[2] f"), "expected the end of the type");
    assert_fails(f, param(f, "z", "f32[-2]"), "never negative");
    assert_fails(f, param(f, "", "f32[2]"), "a name must be");
    assert_fails(f, param(f, "a\nb", "f32[2]"), "a name must be");
    assert_fails(f, param(f, "\xff", "f32[2]"), "a name must be");
    assert_fails(f, graph_apply(f->g, &f->at, OP_PARAM, 0, NULL, NULL), "can be applied");
    assert_fails(f, graph_apply(f->g, &f->at, OP_EW_END, 0, NULL, NULL), "can be applied");
    /* an operand that failed is silent: its own error was the first */
    assert_int_equal(call(f, "add", call(f, "exp", 0, 0, ""), x, ""), 0);
    assert_int_equal(f->e.status, PROEM_INVALID);
    err_clear(&f->e);
    value_id in[2] = {x, 0};
    assert_int_equal(graph_apply(f->g, &f->at, OP_ADD, 2, in, NULL), 0);
    assert_int_equal(f->e.status, PROEM_OK);
    assert_int_equal(graph_finish(f->g, &f->e), PROEM_INVALID); /* no output */
}

static void test_messages_have_places(void **state) {
    struct fixture *f = *state;
    value_id x = param(f, "x", "f32[4, 6]");
    f->at.line = 7;
    f->at.col = 3;
    value_id in[2] = {x, x};
    assert_int_equal(graph_apply(f->g, &f->at, OP_MATMUL, 2, in, NULL), 0);
    assert_int_equal(f->e.line, 7);
    assert_int_equal(f->e.col, 3);
    err_clear(&f->e);
    assert_int_equal(graph_call_text(f->g, &f->at, "cast", 1, in, "f33"), 0);
    assert_int_equal(f->e.line, 7);
    err_clear(&f->e);
    assert_int_equal(graph_apply(f->g, NULL, OP_MATMUL, 2, in, NULL), 0); /* no place is fine */
    f->at.line = 0;
}

static void test_literals(void **state) {
    struct fixture *f = *state;
    value_id x = param(f, "x", "f16[4]"), n = param(f, "n", "i32[4]"), two = int_literal(f, 2);
    value_id in[2] = {x, two};
    value_id y = graph_apply(f->g, &f->at, OP_MUL, 2, in, NULL);
    assert_type(f, y, "f16[4]");
    in[0] = n;
    value_id z = graph_apply(f->g, &f->at, OP_MUL, 2, in, NULL); /* the same literal again */
    assert_type(f, z, "i32[4]");
    const struct node *c = graph_def(f->g, graph_def(f->g, y)->in[1]);
    assert_int_equal(c->op, OP_CONST);
    assert_false(c->weak);
    assert_int_equal(c->literal, two);
    assert_true(c->constant.f == 2);
    value_id pair[2] = {two, int_literal(f, 3)};
    value_id five = graph_apply(f->g, &f->at, OP_ADD, 2, pair, NULL);
    assert_true(graph_def(f->g, five)->weak);
    assert_int_equal(graph_def(f->g, five)->constant.i, 5);
    value_id half = graph_apply(f->g, &f->at, OP_DIV, 2, pair, NULL);
    assert_type(f, half, "f64[]");
    value_id sum[2] = {y, graph_const(f->g, &f->at, DT_F32, (union scalar){.f = 0.5})};
    value_id out = graph_apply(f->g, &f->at, OP_ADD, 2, sum, NULL);
    graph_output(f->g, &f->at, out, 0);
    graph_output(f->g, &f->at, z, 0);
    assert_int_equal(graph_finish(f->g, &f->e), PROEM_OK);
    assert_int_equal(graph_verify(f->g, &f->e), PROEM_OK);
    assert_text(f, false,
                "graph g(x: f16[4], n: i32[4]) {\n"
                "  return x * 2 + cast(0.5, f32), n * 2\n"
                "}\n");
    assert_text(f, true,
                "graph g(x: f16[4], n: i32[4]) {\n"
                "  mul_1 = mul(x, const(f16, 2.0))  # f16[4]\n"
                "  mul_2 = mul(n, const(i32, 2))  # i32[4]\n"
                "  add_1 = add(mul_1, const(f32, 0.5))  # f16[4]\n"
                "  return add_1 as out0, mul_2 as out1\n"
                "}\n");
}

/* Unnamed values that are used twice become statements; outputs keep their names. */
static void test_shared_values_print_as_statements(void **state) {
    struct fixture *f = *state;
    value_id x = param(f, "x", "f32[4]");
    value_id a = call(f, "exp", x, 0, ""), b = call(f, "mul", a, a, "");
    value_id c = call(f, "add", b, x, "");
    graph_output(f->g, &f->at, b, 0);
    graph_output(f->g, &f->at, c, 0);
    graph_output(f->g, &f->at, b, 0);
    assert_int_equal(graph_finish(f->g, &f->e), PROEM_OK);
    assert_text(f, false,
                "graph g(x: f32[4]) {\n"
                "  exp_1 = exp(x)\n"
                "  out2 = exp_1 * exp_1\n"
                "  out0 = out2\n"
                "  return out0, out2 + x, out2\n"
                "}\n");
}

static void test_names(void **state) {
    struct fixture *f = *state;
    value_id x = param(f, "x", "f32[4]");
    value_id a = call(f, "exp", x, 0, ""), b = call(f, "exp", a, 0, "");
    assert_int_equal(graph_name_value(f->g, &f->at, a, "exp_1"), PROEM_OK);
    graph_output(f->g, &f->at, b, 0);
    assert_int_equal(graph_finish(f->g, &f->e), PROEM_OK);
    assert_string_equal(graph_value(f->g, b)->name, "exp_2");
    assert_int_equal(graph_name_value(f->g, &f->at, b, "x"), PROEM_OK);
    assert_int_equal(graph_finish(f->g, &f->e), PROEM_INVALID);
    assert_non_null(strstr(f->e.text, "bound twice"));
}

static void test_output_in(void **state) {
    struct fixture *f = *state;
    value_id x = param(f, "x", "f32[4]"), c = param(f, "c", "f32[5]");
    value_id y = call(f, "exp", x, 0, "");
    assert_int_equal(graph_output(f->g, &f->at, y, c), PROEM_INVALID);
    err_clear(&f->e);
    assert_int_equal(graph_output(f->g, &f->at, y, y), PROEM_INVALID);
    err_clear(&f->e);
    assert_int_equal(graph_output(f->g, &f->at, 0, 0), PROEM_INVALID);
    assert_int_equal(graph_output(f->g, &f->at, y, x), PROEM_OK);
    assert_int_equal(graph_output(f->g, &f->at, y, x), PROEM_INVALID);
}

static void test_attrs_are_normal(void **state) {
    struct fixture *f = *state;
    value_id x = param(f, "x", "f32[4, 6, 8]");
    const struct attrs *a = &graph_def(f->g, call(f, "sum", x, 0, "axes=[-1, 0]"))->attrs;
    assert_int_equal(a->n_axes, 2);
    assert_int_equal(a->axes[0], 0);
    assert_int_equal(a->axes[1], 2);
    a = &graph_def(f->g, call(f, "sum", x, 0, ""))->attrs;
    assert_int_equal(a->n_axes, 3);
    a = &graph_def(f->g, call(f, "softmax", x, 0, ""))->attrs;
    assert_int_equal(a->axis, 2);
    a = &graph_def(f->g, call(f, "slice", x, 0, "axis=-1, start=-3"))->attrs;
    assert_true(a->start == sx_const(f->g->sx, 5) && a->stop == sx_const(f->g->sx, 8));
    a = &graph_def(f->g, call(f, "reshape", x, 0, "[-1, 8]"))->attrs;
    assert_true(a->list[0] == sx_const(f->g->sx, 24));
    a = &graph_def(f->g, call(f, "pad", x, 0, "low=[1, 0, 0]"))->attrs;
    assert_int_equal(a->n_list2, 3);
    const struct node *n = graph_def(f->g, call(f, "layer_norm", x, 0, ""));
    assert_int_equal(n->n_in, 3);
    assert_true(n->in[1] == 0 && n->in[2] == 0 && n->attrs.param[0] == 1e-5);
    struct attrs d = attrs_default(OP_SOFTPLUS);
    assert_true(d.param[0] == 1 && d.param[1] == 20);
}

static void test_verifier(void **state) {
    struct fixture *f = *state;
    value_id x = param(f, "x", "f32[4, 6]");
    value_id y = call(f, "softmax", x, 0, "axis=1"), z = call(f, "exp", y, 0, "");
    graph_output(f->g, &f->at, z, 0);
    assert_int_equal(graph_finish(f->g, &f->e), PROEM_OK);
    assert_int_equal(graph_verify(f->g, &f->e), PROEM_OK);
    struct node *n = &f->g->nodes.at[graph_value(f->g, y)->node];
    n->attrs.axis = -1; /* right, but not in normal form */
    assert_int_equal(graph_verify(f->g, &f->e), PROEM_INTERNAL);
    err_clear(&f->e);
    n->attrs.axis = 2;
    assert_int_equal(graph_verify(f->g, &f->e), PROEM_INTERNAL);
    err_clear(&f->e);
    n->attrs.axis = 1;
    f->g->values.at[z].dtype = DT_F64;
    assert_int_equal(graph_verify(f->g, &f->e), PROEM_INTERNAL);
    err_clear(&f->e);
    f->g->values.at[z].dtype = DT_F32;
    value_id forward[1] = {z};
    const value_id *in = n->in;
    n->in = forward;
    assert_int_equal(graph_verify(f->g, &f->e), PROEM_INTERNAL);
    err_clear(&f->e);
    n->in = in;
    f->g->outputs.at[0].value = 99;
    assert_int_equal(graph_verify(f->g, &f->e), PROEM_INTERNAL);
    err_clear(&f->e);
    f->g->outputs.at[0].value = z;
    assert_int_equal(graph_verify(f->g, &f->e), PROEM_OK);
}

static void test_dims(void **state) {
    struct fixture *f = *state;
    struct sx_pool *p = f->g->sx;
    sx m = sx_sym(p, "M"), k = sx_sym(p, "K"), one = sx_const(p, 1), out[MAX_RANK];
    sx a[3] = {m, one, k}, b[2] = {sx_const(p, 5), one};
    int rank;
    assert_true(dims_broadcast(f->g, 3, a, 2, b, &rank, out));
    assert_int_equal(rank, 3);
    assert_true(out[0] == m && out[1] == b[0] && out[2] == k);
    b[1] = m;
    assert_false(dims_broadcast(f->g, 3, a, 2, b, &rank, out));
    sx half = sx_div(p, k, sx_const(p, 2));
    assert_false(dims_same(f->g, sx_mul(p, half, sx_const(p, 2)), k));
    graph_check_dims(f->g, &f->at, DIM_DIVIDES, k, sx_const(p, 2));
    graph_check_dims(f->g, &f->at, DIM_DIVIDES, k, sx_const(p, 2));
    assert_int_equal(f->g->checks.n, 1);
    assert_true(dims_same(f->g, sx_mul(p, half, sx_const(p, 2)), k));
    assert_false(dims_same(f->g, half, k));
}

static void test_input_names(void **state) {
    (void)state;
    assert_string_equal(graph_input_name(OP_MATMUL, 1), "b");
    assert_string_equal(graph_input_name(OP_RELU, 0), "x");
    assert_string_equal(graph_input_name(OP_POW, 1), "b");
    assert_string_equal(graph_input_name(OP_DEQUANTIZE, 2), "zero");
    assert_string_equal(graph_input_name(OP_SCATTER_ADD, 2), "src");
    assert_null(graph_input_name(OP_CONCAT, 1));
    assert_null(graph_input_name(OP_RELU, 1));
}

/* Every operator's name leads back to it, and its signature has as many operands as its row. */
static void test_signatures(void **state) {
    (void)state;
    for (int i = 1; i < OP_EW_END; i++) {
        enum op op = (enum op)i;
        int n = 0;
        while (graph_input_name(op, n) != NULL)
            n++;
        assert_int_equal(n, op_info(op)->arity);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(test_call_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_messages_have_places, setup, teardown),
        cmocka_unit_test_setup_teardown(test_literals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shared_values_print_as_statements, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_output_in, setup, teardown),
        cmocka_unit_test_setup_teardown(test_attrs_are_normal, setup, teardown),
        cmocka_unit_test_setup_teardown(test_verifier, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dims, setup, teardown),
        cmocka_unit_test(test_input_names),
        cmocka_unit_test(test_signatures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
