/* SPDX-License-Identifier: MIT
 * Plans of graphs with thousands of operators: the memory that planning takes grows with the number of
 * operators, not with its square, kernels are of a bounded size, and edges still say what they read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fuse/sched.h"
#include "graph/parse.h"

static void *counted_alloc(void *user, size_t size, size_t align) {
    void *p = NULL;
    *(size_t *)user += size;
    return posix_memalign(&p, align, size) == 0 ? p : NULL;
}

static void counted_free(void *user, void *p, size_t size) {
    (void)user, (void)size;
    free(p);
}

/* v0 = x * y; v1 = v0 + y; v2 = v1 * y; .. */
static void chain(int n, struct str *text) {
    str_add(text, "graph g(x: f32[64], y: f32[64]) {\n  v0 = x * y\n");
    for (int i = 1; i < n; i++)
        str_printf(text, "  v%d = v%d %c y\n", i, i - 1, i % 2 == 0 ? '*' : '+');
    str_printf(text, "  return v%d\n}\n", n - 1);
}

/* The sum of `n` parameters, each scaled. */
static void many(int n, struct str *text) {
    str_add(text, "graph g(");
    for (int i = 0; i < n; i++)
        str_printf(text, "x%d: f32[16]%s", i, i < n - 1 ? ", " : ") {\n  v0 = x0\n");
    for (int i = 1; i < n; i++)
        str_printf(text, "  v%d = v%d + x%d * 2.0\n", i, i - 1, i);
    str_printf(text, "  return v%d\n}\n", n - 1);
}

/* `n` results that have nothing in common. */
static void results(int n, struct str *text) {
    str_add(text, "graph g(x: f32[16]) {\n");
    for (int i = 0; i < n; i++)
        str_printf(text, "  v%d = sin(x + %d.0)\n", i, i);
    str_add(text, "  return v0");
    for (int i = 1; i < n; i++)
        str_printf(text, ", v%d", i);
    str_add(text, "\n}\n");
}

/* A chain on a product's result. */
static void behind_product(int n, struct str *text) {
    str_add(text, "graph g(x: f32[16, 16]) {\n  v0 = matmul(x, x)\n");
    for (int i = 1; i < n; i++)
        str_printf(text, "  v%d = sin(v%d)\n", i, i - 1);
    str_printf(text, "  return v%d\n}\n", n - 1);
}

struct planned {
    struct allocator alloc;
    size_t bytes; /* taken so far */
    struct arena arena;
    struct device_desc d;
    struct plan plan;
};

static size_t plan_bytes(struct planned *p, int n, void (*write)(int n, struct str *text)) {
    struct err e = {0};
    struct graph_file file;
    struct str text;
    str_init(&text, &allocator_default);
    write(n, &text);
    *p = (struct planned){.alloc = {counted_alloc, counted_free, &p->bytes}};
    arena_init(&p->arena, &p->alloc);
    if (graph_parse(&p->arena, "g", str_text(&text), text.n, false, &file, &e) != PROEM_OK)
        fail_msg("%s", e.text);
    size_t parsed = p->bytes;
    assert_true(device_by_name("avx512", strlen("avx512"), &p->d));
    struct plan_options o = {.prec = PREC_BOUNDARY, .policy = FUSE_MODEL, .device = &p->d};
    if (plan_make(file.graphs.at[0], &o, &p->plan, &e) != PROEM_OK) fail_msg("%s", e.text);
    str_free(&text);
    return p->bytes - parsed;
}

static void memory_grows_with_operators(void **state) {
    (void)state;
    void (*const writers[])(int n, struct str *text) = {chain, many};
    for (int i = 0; i < 2; i++) {
        struct planned p;
        size_t small = plan_bytes(&p, 1000, writers[i]);
        arena_free(&p.arena);
        size_t large = plan_bytes(&p, 4000, writers[i]);
        arena_free(&p.arena);
        if (large > 7 * small) /* 4 times, and bit sets of kernels */
            fail_msg("graph %d: %zu bytes for 1000 operators, %zu for 4000", i, small, large);
    }
}

static void edges_know_what_they_read(void **state) {
    (void)state;
    struct planned p;
    plan_bytes(&p, 3000, chain);
    size_t kernels = p.plan.kernels.n, cut = 0;
    assert_in_range(kernels, 3000 / MOST_VALUES + 1, 3000 / MOST_VALUES + 2);
    for (size_t i = 0; i < p.plan.edges.n; i++)
        cut += strcmp(p.plan.edges.at[i].rule, "size") == 0;
    assert_int_equal(cut, kernels - 1);
    const struct plan_edge *last = &p.plan.edges.at[p.plan.edges.n - 1];
    assert_string_equal(last->rule, "bytes");
    assert_string_equal(last->why, "reads 0.5 kB, where 0.2 kB would be written and read");
    arena_free(&p.arena);
    plan_bytes(&p, 300, many);
    size_t known = 0;
    for (size_t i = 0; i < p.plan.edges.n; i++)
        known += strstr(p.plan.edges.at[i].why, "reads ") != NULL;
    assert_in_range(known, 60, p.plan.edges.n - 60);
    arena_free(&p.arena);
}

struct nodes {
    int n;
};

static void count_node(void *user, fn_id f) {
    (void)f;
    ((struct nodes *)user)->n++;
}

static void kernels_are_bounded(void **state) {
    (void)state;
    void (*const writers[])(int n, struct str *text) = {chain, results, behind_product};
    for (int i = 0; i < 3; i++) {
        struct planned p;
        plan_bytes(&p, 2000, writers[i]);
        assert_in_range(p.plan.kernels.n, 2000 / MOST_VALUES + 1, 4 * 2000 / MOST_VALUES + 1);
        for (size_t j = 0; j < p.plan.kernels.n; j++) {
            const struct kernel *k = p.plan.kernels.at[j];
            struct nodes nodes = {0};
            for (size_t o = 0; o < k->stores.n; o++)
                fn_walk(p.plan.fns, k->stores.at[o].f, count_node, &nodes);
            assert_in_range(nodes.n, 1, 4 * MOST_VALUES);
        }
        arena_free(&p.arena);
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_grows_with_operators),
        cmocka_unit_test(kernels_are_bounded),
        cmocka_unit_test(edges_know_what_they_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
