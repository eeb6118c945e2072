/* SPDX-License-Identifier: MIT
 * The cost model on GPUs: what a product with a prologue costs beside the plain one, and which
 * prologues the scheduler therefore stores, size by size.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fuse/cost.h"
#include "fuse/plan.h"
#include "tile/tile_cuda_rows.h"

static struct device_desc device(const char *name) {
    struct device_desc d;
    assert_true(device_by_name(name, strlen(name), &d));
    return d;
}

/* ---- products -------------------------------------------------------------------------------- */

static struct cost_product bf16_product(int64_t m, int64_t n, int64_t k) {
    struct cost_operand plain = {
        .plain = true, .along = true, .lines = true, .map = true, .leaves = 1, .leaf_bits = 16};
    struct cost_product p = {.tile = {.acc = DT_F32,
                                      .n_b = 1,
                                      .Z = 1,
                                      .M = m,
                                      .N = n,
                                      .K = k,
                                      .likely_M = m,
                                      .likely_N = n,
                                      .operand = {DT_BF16, DT_BF16}},
                             .a = plain,
                             .b = plain};
    p.a.leaf_bytes = 2 * (double)m * (double)k;
    p.b.leaf_bytes = 2 * (double)n * (double)k;
    return p;
}

/* Times of the plain product that were measured on an H200, 4096 rows, with what the prologue's work
 * is taken for; the model has to be within a third of them. */
static void test_measured(void **state) {
    (void)state;
    static const struct {
        const char *what;
        int64_t n, k;
        int leaves;
        enum op op[2];
        double factor;
    } cases[] = {
        {"relu", 4096, 4096, 1, {OP_RELU, OP_NONE}, 1.09},
        {"sigmoid", 4096, 4096, 1, {OP_SIGMOID, OP_NONE}, 4.5},
        {"x * g, by values", 14336, 4096, 0, {OP_MUL, OP_NONE}, 3.0},
        {"silu(g) * u, by values", 4096, 14336, 0, {OP_SILU, OP_MUL}, 10.0},
    };
    struct device_desc d = device("sm_90a");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cost_product p = bf16_product(4096, cases[i].n, cases[i].k);
        double plain = cost_product(&p, &d);
        p.a.plain = false;
        p.a.leaves = cases[i].leaves;
        for (int j = 0; j < 2 && cases[i].op[j] != OP_NONE; j++) {
            p.a.work.plain += cost_op(cases[i].op[j]).plain;
            p.a.work.special += cost_op(cases[i].op[j]).special;
        }
        double factor = cost_product(&p, &d) / plain;
        if (factor < cases[i].factor * 0.66 || factor > cases[i].factor * 1.34)
            fail_msg("%s: %.2f of the plain product; measured %.2f", cases[i].what, factor,
                     cases[i].factor);
    }
}

/* More work never costs less, on no template; an unknown size and a CPU have no model. */
static void test_monotone(void **state) {
    (void)state;
    static const char *const names[] = {"sm_80", "sm_90a", "sm_100a"};
    static const int64_t rows[] = {1, 16, 64, 65, 256, 1000, 4096};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct device_desc d = device(names[i]);
        for (size_t j = 0; j < COUNT_OF(rows); j++) {
            struct cost_product p = bf16_product(rows[j], 1024, 1024);
            double last = cost_product(&p, &d);
            assert_true(last > 0);
            p.a.plain = false;
            for (int work = 1; work < 100; work *= 2) {
                p.a.work = (struct cost_work){work, work / 8};
                double t = cost_product(&p, &d);
                assert_true(t >= last);
                last = t;
            }
        }
        struct cost_product p = bf16_product(-1, 1024, 1024);
        assert_true(cost_product(&p, &d) < 0);
    }
    struct device_desc cpu = device("avx512");
    struct cost_product p = bf16_product(64, 64, 64);
    assert_true(cost_product(&p, &cpu) < 0);
}

/* What is unpacked from few bytes is read sooner than what lies in memory, few rows. */
static void test_few_rows(void **state) {
    (void)state;
    struct device_desc d = device("sm_90a");
    struct cost_product p = bf16_product(16, 14336, 4096);
    double plain = cost_product(&p, &d);
    p.b.plain = false;
    p.b.leaf_bits = 8;
    p.b.leaf_bytes /= 2;
    p.b.work = cost_cast(DT_I8, DT_BF16);
    assert_true(cost_product(&p, &d) < 0.7 * plain);
}

/* Few rows or many: by rows, by columns, by what the template for many can take. */
static void test_few_or_many(void **state) {
    (void)state;
    static const struct {
        int64_t m, n;
        int bits;
        bool along, few;
    } cases[] = {
        {1, 14336, 8, true, true},   {16, 14336, 8, true, true},   {32, 14336, 8, true, true},
        {64, 14336, 8, true, false}, {64, 14336, 16, true, false}, {64, 14336, 4, true, false},
        {64, 1024, 8, true, true},   {64, 1024, 16, true, true},   {64, 14336, 8, false, true},
        {65, 1024, 16, true, false},
    };
    struct device_desc d = device("sm_90a"), old = device("sm_80");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct tile_few_problem few = {.Z = 1,
                                       .M = cases[i].m,
                                       .N = cases[i].n,
                                       .K = 4096,
                                       .n_b = 1,
                                       .bits = cases[i].bits,
                                       .operand_bits = 16};
        struct tile_wgmma_operand a = {.bits = 16,
                                       .along = true,
                                       .plain = true,
                                       .leaves = 1,
                                       .leaf_bits = 16,
                                       .map = true,
                                       .lines = true};
        struct tile_wgmma_problem many = {
            .Z = 1, .M = cases[i].m, .N = cases[i].n, .K = 4096, .n_b = 1, .a = a, .b = a};
        many.b.leaf_bits = cases[i].bits;
        many.b.plain = cases[i].bits == 16;
        many.b.along = cases[i].along;
        many.b.ops = cases[i].bits == 16 ? 0 : 8;
        if (tile_takes_few(&few, &many, &d) != cases[i].few)
            fail_msg("%d x %d, %d bits: not %s rows", (int)cases[i].m, (int)cases[i].n,
                     cases[i].bits, cases[i].few ? "few" : "many");
        /* Where there is nothing else, up to what the template takes. */
        assert_int_equal(tile_takes_few(&few, &many, &old), cases[i].m <= TILE_FEW_ROWS);
    }
}

/* ---- plans ----------------------------------------------------------------------------------- */

#define INT8                                                                                       \
    "graph g(x: bf16[M, 4096], const w: i8[14336, 4096], const s: bf16[14336]) {\n"                \
    "  h = dequantize(w, s, axis=0)\n  return linear(x, h)\n}\n"
#define INT4                                                                                       \
    "graph g(x: bf16[M, 4096], const w: u4[14336, 4096], const s: bf16[14336, 32], "               \
    "const z: u4[14336, 32]) {\n"                                                                  \
    "  h = dequantize(w, s, z, axis=1, block=128)\n  return linear(x, h)\n}\n"
#define CAST_KN                                                                                    \
    "graph g(x: bf16[M, 4096], const w: i8[4096, 14336]) {\n"                                      \
    "  h = cast(w, bf16)\n  return matmul(x, h)\n}\n"
#define ACTIVATION(f)                                                                              \
    "graph g(x: bf16[M, 4096], const w: bf16[4096, 4096]) {\n"                                     \
    "  h = " f "(x)\n  return linear(h, w)\n}\n"
#define SWIGLU                                                                                     \
    "graph g(a: bf16[M, 14336], u: bf16[M, 14336], const w: bf16[4096, 14336]) {\n"                \
    "  h = silu(a) * u\n  return linear(h, w)\n}\n"
#define NORM                                                                                       \
    "graph g(x: bf16[M, 4096], const g: bf16[4096], const w: bf16[14336, 4096]) {\n"               \
    "  h = rms_norm(x, g)\n  return linear(h, w)\n}\n"
#define SUM                                                                                        \
    "graph g(x: bf16[M, 4096], y: bf16[M, 4096], const w: bf16[4096, 4096]) {\n"                   \
    "  h = x + y\n  return linear(h, w)\n}\n"
#define GATHER                                                                                     \
    "graph g(x: bf16[16384, 4096], index: i64[M], const w: bf16[14336, 4096]) {\n"                 \
    "  h = take(x, index)\n  return linear(h, w)\n}\n"
#define TWO(f)                                                                                     \
    "graph g(x: f32[M, 1024], w: f32[1024, 1024], v: f32[1024, 1024]) {\n"                         \
    "  h = " f "(x)\n  return matmul(h, w), matmul(h, v)\n}\n"
#define GATE                                                                                       \
    "graph g(x: bf16[M, 4096], const w: bf16[4096, 4096], const b: bf16[4096]) {\n"                \
    "  h = linear(x, w, b)\n  return gelu(h) + x\n}\n"

static const struct {
    const char *what, *text;
    int64_t m;
    bool stored; /* h, by the model */
    int kernels;
} plans[] = {
    {"int8 weights", INT8, 1, false, 1},
    {"int8 weights", INT8, 64, false, 1},
    {"int8 weights", INT8, 256, false, 1},
    {"int8 weights", INT8, 4096, false, 1},
    {"int4 weights", INT4, 16, false, 1},
    {"int4 weights", INT4, 256, false, 1},
    {"int4 weights", INT4, 4096, true, 2},
    {"int8 across k", CAST_KN, 16, false, 1},
    {"int8 across k", CAST_KN, 4096, true, 2},
    {"relu", ACTIVATION("relu"), 16, false, 1},
    {"relu", ACTIVATION("relu"), 4096, false, 1},
    {"sigmoid", ACTIVATION("sigmoid"), 16, false, 1},
    {"sigmoid", ACTIVATION("sigmoid"), 4096, true, 2},
    {"swiglu", SWIGLU, 16, false, 1},
    {"swiglu", SWIGLU, 4096, true, 2},
    {"norm", NORM, 4096, true, 2},
    {"gather", GATHER, 16, false, 1},
    {"gather", GATHER, 4096, false, 1},
    {"sum of two", SUM, 4096, false, 1},
    {"relu, two products", TWO("relu"), 32, false, 2},
    {"gelu, two products", TWO("gelu"), 4096, true, 3},
    {"epilogue", GATE, 16, false, 1},
    {"epilogue", GATE, 4096, false, 1},
};

struct planned {
    struct arena arena;
    struct device_desc d;
    struct plan plan;
};

static void plan_for(struct planned *p, const char *text, int64_t m, const char *gpu) {
    struct err e = {0};
    struct graph_file file;
    p->d = device(gpu);
    arena_init(&p->arena, &allocator_default);
    if (graph_parse(&p->arena, "g", text, strlen(text), false, &file, &e) != PROEM_OK)
        fail_msg("%s", e.text);
    struct graph *g = file.graphs.at[0];
    struct dims_binding dims = dims_binding_new(&p->arena, g);
    assert_int_equal(dims_bind_name(g, &dims, "M", m, &e), PROEM_OK);
    struct plan_options o = {
        .prec = PREC_BOUNDARY, .policy = FUSE_MODEL, .dims = &dims, .device = &p->d};
    if (plan_make(g, &o, &p->plan, &e) != PROEM_OK) fail_msg("%s", e.text);
}

static bool stored_by_model(const struct planned *p) {
    for (size_t i = 0; i < p->plan.edges.n; i++) {
        if (strcmp(p->plan.edges.at[i].rule, "recompute-cost") == 0) return true;
    }
    return false;
}

static void test_plans(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < COUNT_OF(plans); i++) {
        struct planned p;
        plan_for(&p, plans[i].text, plans[i].m, "sm_90a");
        bool stored = stored_by_model(&p);
        int n = (int)p.plan.kernels.n;
        if (stored != plans[i].stored || n != plans[i].kernels) {
            print_message("%s, %d rows: %s, %d kernels\n", plans[i].what, (int)plans[i].m,
                          stored ? "stored" : "not stored", n);
            wrong++;
        }
        arena_free(&p.arena);
    }
    assert_int_equal(wrong, 0);
}

/* A plan follows from the description alone: twice the same, word for word. */
static void test_same_twice(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(plans); i++) {
        struct planned p, q;
        plan_for(&p, plans[i].text, plans[i].m, "sm_90a");
        plan_for(&q, plans[i].text, plans[i].m, "sm_90a");
        assert_int_equal(p.plan.edges.n, q.plan.edges.n);
        for (size_t j = 0; j < p.plan.edges.n; j++) {
            assert_string_equal(p.plan.edges.at[j].rule, q.plan.edges.at[j].rule);
            assert_string_equal(p.plan.edges.at[j].why, q.plan.edges.at[j].why);
        }
        arena_free(&p.arena);
        arena_free(&q.arena);
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measured), cmocka_unit_test(test_monotone),
        cmocka_unit_test(test_few_rows), cmocka_unit_test(test_few_or_many),
        cmocka_unit_test(test_plans),    cmocka_unit_test(test_same_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
