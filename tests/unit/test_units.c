/* SPDX-License-Identifier: MIT
 * How gen_c spreads kernels over units: equal kernels are one text, long texts lie apart, and every
 * kernel of the plan is in exactly one unit's table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "driver/driver.h"

/* Two equal products, another one, and a sum. */
static const char text[] =
    "graph g(x: f32[64, 32], const a: f32[32, 48], const b: f32[32, 48], const c: f32[48, 16]) {\n"
    "  p = matmul(x, a)\n"
    "  q = matmul(x, b)\n"
    "  r = matmul(p, c)\n"
    "  s = sum(q, axes=[1])\n"
    "  return p, q, r, s\n"
    "}\n";

/* Kernels of which a compiler takes longer to start than to compile one. */
static const char small[] = "graph g(x: f32[64, 32], y: f32[64, 32]) {\n"
                            "  return relu(x), x + y, sum(y, axes=[1]), max(x, axes=[0])\n"
                            "}\n";

struct made {
    proem_context *c;
    proem_program *p;
};

static struct made make_of(const char *graph, int units) {
    struct made m = {0};
    struct err e = {0};
    struct proem_context_options o;
    proem_context_options_init(&o);
    assert_int_equal(proem_context_create(&o, &m.c), PROEM_OK);
    struct program_options po = {.policy = FUSE_NEVER, .units = units};
    po.target = *context_native(m.c);
    assert_int_equal(program_new(m.c, &po, &m.p, &e), PROEM_OK);
    program_set_text(m.p, graph, strlen(graph), "g.proem", NULL, false);
    assert_int_equal(program_run(m.p, PASS_PARSE, PASS_GEN, &e), PROEM_OK);
    assert_int_equal(m.p->plan.kernels.n, 4);
    return m;
}

static struct made make(int units) {
    return make_of(text, units);
}

static void drop(struct made *m) {
    proem_program_destroy(m->p);
    proem_context_destroy(m->c);
}

static int count(const char *in, const char *what) {
    int n = 0;
    for (const char *p = in; (p = strstr(p, what)) != NULL; p++)
        n++;
    return n;
}

/* Kernel ids in all tables: each once. */
static void check_tables(const struct made *m) {
    int seen[4] = {0};
    for (int u = 0; u < m->p->n_units; u++) {
        const struct gen_unit *unit = &m->p->units[u];
        assert_true(unit->n_kernels > 0);
        assert_int_equal(count(str_text(&unit->text), "PKTAG"), 0);
        assert_int_equal(count(str_text(&unit->text), "PKNAME"), 0);
        for (int i = 0; i < unit->n_kernels; i++)
            seen[unit->kernels[i].kernel->id]++;
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(seen[i], 1);
}

static void test_one_unit(void **state) {
    (void)state;
    struct made m = make(1);
    assert_int_equal(m.p->n_units, 1);
    const char *t = str_text(&m.p->units[0].text);
    check_tables(&m);
    /* p and q: the same definition, twice in the table */
    assert_int_equal(count(t, "#define k0_entry"), 1);
    assert_int_equal(count(t, "#define k1_entry"), 0);
    assert_int_equal(count(t, "    k0_entry\n"), 2);
    assert_int_equal(count(t, "    k2_entry\n"), 1);
    drop(&m);
}

static void test_two_units(void **state) {
    (void)state;
    struct made m = make(2);
    assert_int_equal(m.p->n_units, 2);
    check_tables(&m);
    /* the two long texts, both of products, are not in one file */
    const char *first = str_text(&m.p->units[0].text), *second = str_text(&m.p->units[1].text);
    assert_int_equal(count(first, "_entry &") + count(second, "_entry &"), 3);
    assert_int_not_equal(count(first, "#define k0_entry"), count(first, "#define k2_entry"));
    drop(&m);
}

static void test_a_unit_each(void **state) {
    (void)state;
    struct made m = make(4);
    assert_int_equal(m.p->n_units, 4);
    check_tables(&m);
    for (int u = 0; u < 4; u++)
        assert_int_equal(m.p->units[u].n_kernels, 1);
    drop(&m);
}

static void test_distinct_units(void **state) {
    (void)state;
    struct made m = make(3);
    assert_int_equal(m.p->n_units, 3);
    check_tables(&m);
    drop(&m);
}

static void test_small_kernels_share(void **state) {
    (void)state;
    struct made m = make_of(small, 0); /* as many as are worth it */
    assert_int_equal(m.p->n_units, 1);
    check_tables(&m);
    drop(&m);
    m = make_of(small, 4); /* as many as asked for */
    assert_int_equal(m.p->n_units, 4);
    check_tables(&m);
    drop(&m);
    m = make_of(text, 0);
    assert_int_equal(m.p->n_units, 3); /* two products, and a sum */
    check_tables(&m);
    drop(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_unit),
        cmocka_unit_test(test_two_units),
        cmocka_unit_test(test_a_unit_each),
        cmocka_unit_test(test_distinct_units),
        cmocka_unit_test(test_small_kernels_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
