/* SPDX-License-Identifier: MIT
 * Every graph file of tests/fusion and bench/graphs, its plan against the unfused one: a fused plan
 * that measures slower, beyond the spread, is a fault of the cost model.
 *
 * Symbols take the sizes below. A graph with very large inputs is left out (--full:
 * measured as well).
 */
#include "bench/bench.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static const struct dim sizes[] = {{"M", 16}, {"T", 16}, {"B", 1}, {"S", 512}, {NULL, 0}};

static bool measure(struct report *r, const char *path, const char *name, int threads) {
    struct row row = {.section = "graphs", .name = name, .threads = threads, .error = -1, .bar = 1};
    struct product fused, unfused = {0};
    bool ok = product_open(&fused, r->o, path, NULL, threads, sizes);
    if (fused.too_large) {
        report_skip(r, name, "more than 1 GiB of inputs (--full measures it)");
        product_close(&fused);
        return true;
    }
    ok = ok && product_unfused(&unfused, &fused);
    row_add(&row, "fused", true, product_run, &fused);
    row_add(&row, "unfused", false, product_run, &unfused);
    ok = ok && row_measure(&row, r->o);
    if (ok) report_row(r, &row);
    product_close(&unfused);
    product_close(&fused);
    return ok;
}

static int is_graph(const struct dirent *d) {
    size_t n = strlen(d->d_name);
    return n > 6 && strcmp(d->d_name + n - 6, ".proem") == 0;
}

static bool folder(struct report *r, const char *name, int threads) {
    struct dirent **files = NULL;
    struct arena a;
    arena_init(&a, &allocator_default);
    const char *path = source_path(&a, r->o, name);
    int n = path != NULL ? scandir(path, &files, is_graph, alphasort) : -1;
    bool ok = n > 0;
    if (!ok) fprintf(stderr, "%s: no graphs\n", path != NULL ? path : name);
    for (int i = 0; i < n; i++) {
        const char *file = arena_printf(&a, "%s/%s", name, files[i]->d_name);
        char label[64];
        snprintf(label, sizeof label, "%.*s", (int)strlen(files[i]->d_name) - 6, files[i]->d_name);
        if (file != NULL && wanted(r->o, label)) ok = measure(r, file, label, threads) && ok;
        free(files[i]);
    }
    free(files);
    arena_free(&a);
    return ok;
}

bool section_graphs(struct report *r, const struct peers *p) {
    int threads[2], n_threads = thread_counts(r->o, threads);
    bool ok = true;
    (void)p;
    for (int t = 0; t < n_threads; t++) {
        ok = folder(r, "tests/fusion", threads[t]) && ok;
        ok = folder(r, "bench/graphs", threads[t]) && ok;
    }
    return ok;
}
