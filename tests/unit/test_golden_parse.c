/* SPDX-License-Identifier: MIT
 * Golden tests of the graph text: tests/golden/parse/NAME.proem against NAME.want or NAME.err.
 *
 * A file holds cases separated by lines that start with `#---`. In a .want each case gives its
 * canonical print and then its flat one; in a .err each gives one line `LINE:COL: TEXT`. Every
 * graph that parses, those of tests/fusion too, must also verify, and both prints must be fixed
 * points. With PROEM_UPDATE_GOLDEN set the expected files are written instead of compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

static char *read_file(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (f == NULL) return NULL;
    size_t cap = 1 << 16;
    char *text = malloc(cap);
    *n = 0;
    for (size_t got; (got = fread(text + *n, 1, cap - *n - 1, f)) > 0;) {
        *n += got;
        if (cap - *n - 1 == 0) text = realloc(text, cap *= 2);
    }
    text[*n] = '\0';
    fclose(f);
    return text;
}

/* The flat prints show every value, with its name and type. */
static void check_same_values(const struct graph *g, const struct graph *h) {
    struct str x, y;
    str_init(&x, &allocator_default);
    str_init(&y, &allocator_default);
    graph_print(g, true, &x);
    graph_print(h, true, &y);
    assert_string_equal(str_text(&x), str_text(&y));
    str_free(&x);
    str_free(&y);
}

/* Print, read the print again, print that: the texts and all types must be the same. */
static void check_fixed_point(const struct graph *g, bool flat) {
    struct arena a;
    struct graph_file again = {0};
    struct err e;
    struct str first, second;
    arena_init(&a, &allocator_default);
    err_clear(&e);
    str_init(&first, &allocator_default);
    str_init(&second, &allocator_default);
    graph_print(g, flat, &first);
    assert_false(first.failed);
    if (graph_parse(&a, NULL, str_text(&first), first.n, flat, &again, &e) != PROEM_OK)
        fail_msg("%d:%d: %s in the print\n%s", e.line, e.col, e.text, str_text(&first));
    assert_int_equal(again.graphs.n, 1);
    const struct graph *h = again.graphs.at[0];
    if (graph_verify(h, &e) != PROEM_OK) fail_msg("%s in\n%s", e.text, str_text(&first));
    graph_print(h, flat, &second);
    assert_string_equal(str_text(&first), str_text(&second));
    check_same_values(g, h);
    assert_int_equal(g->outputs.n, h->outputs.n);
    for (size_t i = 0; i < g->outputs.n; i++) {
        struct str x, y;
        str_init(&x, &allocator_default);
        str_init(&y, &allocator_default);
        value_type_print(g, g->outputs.at[i].value, &x);
        value_type_print(h, h->outputs.at[i].value, &y);
        assert_string_equal(str_text(&x), str_text(&y));
        assert_string_equal(g->outputs.at[i].name, h->outputs.at[i].name);
        str_free(&x);
        str_free(&y);
    }
    str_free(&first);
    str_free(&second);
    arena_free(&a);
}

static void run_case(const char *text, size_t n, bool want_error, struct str *out) {
    struct arena a;
    struct graph_file file = {0};
    struct err e;
    arena_init(&a, &allocator_default);
    err_clear(&e);
    enum proem_status st = graph_parse(&a, "x.proem", text, n, false, &file, &e);
    if (want_error) {
        if (st == PROEM_OK) fail_msg("no error in:\n%.*s", (int)n, text);
        assert_int_equal(st, PROEM_INVALID);
        str_printf(out, "%d:%d: %s\n", e.line, e.col, e.text);
    } else {
        if (st != PROEM_OK) fail_msg("%d:%d: %s in:\n%.*s", e.line, e.col, e.text, (int)n, text);
        for (size_t i = 0; i < file.graphs.n; i++) {
            const struct graph *g = file.graphs.at[i];
            if (graph_verify(g, &e) != PROEM_OK) fail_msg("%s in:\n%.*s", e.text, (int)n, text);
            check_fixed_point(g, false);
            check_fixed_point(g, true);
            graph_print(g, false, out);
            str_add(out, "-- flat\n");
            graph_print(g, true, out);
        }
    }
    arena_free(&a);
}

/* All cases of a file; the separating lines are copied. */
static void run_cases(const char *text, bool want_error, struct str *out) {
    while (*text != '\0') {
        const char *end = strstr(text, "\n#---");
        size_t n = end != NULL ? (size_t)(end - text) + 1 : strlen(text);
        run_case(text, n, want_error, out);
        text += n;
        if (*text == '\0') return;
        const char *line = strchr(text, '\n');
        size_t m = line != NULL ? (size_t)(line - text) + 1 : strlen(text);
        if (!want_error) str_addn(out, text, m);
        text += m;
    }
}

static bool compare(const char *path, const struct str *got) {
    if (getenv("PROEM_UPDATE_GOLDEN") != NULL) {
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        fwrite(str_text(got), 1, got->n, f);
        fclose(f);
        return true;
    }
    size_t n;
    char *want = read_file(path, &n);
    assert_non_null(want);
    const char *g = str_text(got), *w = want;
    int line = 1;
    while (*g != '\0' && *g == *w) {
        line += *g == '\n';
        g++;
        w++;
    }
    bool same = *g == *w;
    if (!same) {
        while (g > str_text(got) && g[-1] != '\n')
            g--;
        while (w > want && w[-1] != '\n')
            w--;
        print_error("%s:%d:\n- %.*s\n+ %.*s\n", path, line, (int)strcspn(w, "\n"), w,
                    (int)strcspn(g, "\n"), g);
    }
    free(want);
    return same;
}

static char *join(const char *dir, const char *name, size_t n, const char *suffix) {
    size_t size = strlen(dir) + n + strlen(suffix) + 2;
    char *path = malloc(size);
    snprintf(path, size, "%s/%.*s%s", dir, (int)n, name, suffix);
    return path;
}

static bool exists(const char *path) {
    FILE *f = fopen(path, "rb");
    if (f != NULL) fclose(f);
    return f != NULL;
}

static int for_each(const char *dir, bool golden) {
    DIR *d = opendir(dir);
    assert_non_null(d);
    int files = 0, wrong = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        size_t n = strlen(e->d_name), k = strlen(".proem");
        if (n <= k || strcmp(e->d_name + n - k, ".proem") != 0) continue;
        char *in = join(dir, e->d_name, n, ""), *err = join(dir, e->d_name, n - k, ".err");
        char *want = join(dir, e->d_name, n - k, ".want");
        struct str got;
        str_init(&got, &allocator_default);
        size_t size;
        char *text = read_file(in, &size);
        bool is_error = golden && (exists(err) || strncmp(e->d_name, "error", 5) == 0);
        run_cases(text, is_error, &got);
        if (golden && !compare(is_error ? err : want, &got)) wrong++;
        files++;
        str_free(&got);
        free(text);
        free(in);
        free(err);
        free(want);
    }
    closedir(d);
    assert_int_equal(wrong, 0);
    return files;
}

static void test_golden(void **state) {
    (void)state;
    assert_true(for_each(PROEM_SOURCE_DIR "/tests/golden/parse", true) > 10);
}

static void test_fusion_graphs(void **state) {
    (void)state;
    assert_true(for_each(PROEM_SOURCE_DIR "/tests/fusion", false) >= 40);
}

/* What only lowered graphs have is read back from their dumps. */
static void test_dumps(void **state) {
    (void)state;
    static const char text[] = "graph g(x: f32[4, M], i: i64[3], s: bf16[]) {\n"
                               "  cast_1 = cast(x, bf16, implied=true)  # bf16[4, M]\n"
                               "  lookup_1 = lookup(cast_1, i, const(i64, 2))  # bf16[3]\n"
                               "  dim_1 = dim(M*2)  # i64[]\n"
                               "  mul_1 = mul(lookup_1, const(bf16, 0.5))  # bf16[3]\n"
                               "  y = add(mul_1, dim_1)  # bf16[3]\n"
                               "  return y, mul_1 as out1, y as `z 1`\n"
                               "}\n";
    struct arena a;
    struct graph_file file = {0};
    struct err e;
    struct str s;
    arena_init(&a, &allocator_default);
    err_clear(&e);
    str_init(&s, &allocator_default);
    assert_int_equal(graph_parse(&a, NULL, text, sizeof text - 1, false, &file, &e), PROEM_INVALID);
    err_clear(&e);
    if (graph_parse(&a, NULL, text, sizeof text - 1, true, &file, &e) != PROEM_OK)
        fail_msg("%d:%d: %s", e.line, e.col, e.text);
    assert_int_equal(graph_verify(file.graphs.at[0], &e), PROEM_OK);
    assert_true(graph_node(file.graphs.at[0], 4)->attrs.implied);
    assert_false(graph_value(file.graphs.at[0], 4)->named);
    graph_print(file.graphs.at[0], true, &s);
    assert_string_equal(str_text(&s), text);
    str_free(&s);
    arena_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_fusion_graphs),
        cmocka_unit_test(test_dumps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
