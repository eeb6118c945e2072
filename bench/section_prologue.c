/* SPDX-License-Identifier: MIT
 * An operator in front of one operand, or behind the product, against proem's own plain product of
 * the same size and layout.
 */
#include "bench/bench.h"

static const struct {
    const char *graph;
    bool nt;
} cases[] = {
    {"relu_a", false},   {"affine_a", false}, {"gather_a", false}, {"concat_a", false},
    {"int8_a", false},   {"int4_a", false},   {"fp8_a", false},    {"f16_a", false},
    {"relu_b", false},   {"affine_b", false}, {"gather_b", false}, {"concat_b", false},
    {"int8_b", true},    {"int4_b", true},    {"fp8_b", true},     {"f16_b", true},
    {"epilogue", false},
};

enum { CASES = sizeof cases / sizeof *cases };

static bool measure(struct report *r, int i, int64_t n, int threads) {
    char name[48];
    snprintf(name, sizeof name, "%s %lld", cases[i].graph, (long long)n);
    if (!wanted(r->o, name)) return true;
    struct row row = {.section = "prologue",
                      .name = name,
                      .threads = threads,
                      .error = -1,
                      .flop = 2.0 * (double)(n * n * n),
                      .bar = 1 / 1.03};
    const struct dim dims[] = {{"M", n},     {"N", n},      {"K", n},
                               {"H", n / 2}, {"G", n / 32}, {NULL, 0}};
    struct product fused, plain = {0};
    bool ok = product_open(&fused, r->o, "bench/graphs/cpu/prologue.proem", cases[i].graph, threads,
                           dims) &&
              product_open(&plain, r->o, "bench/graphs/cpu/squares.proem",
                           cases[i].nt ? "nt" : "nn", threads, dims);
    row_add(&row, "fused", true, product_run, &fused);
    row_add(&row, cases[i].nt ? "plain nt" : "plain nn", false, product_run, &plain);
    ok = ok && row_measure(&row, r->o);
    if (ok) report_row(r, &row);
    product_close(&fused);
    product_close(&plain);
    return ok;
}

bool section_prologue(struct report *r, const struct peers *p) {
    int threads[2], n_threads = thread_counts(r->o, threads);
    bool ok = true;
    (void)p;
    for (int t = 0; t < n_threads; t++) {
        for (int64_t n = 1024; n <= (r->o->large ? 2048 : 1024); n *= 2) {
            for (int i = 0; i < CASES; i++)
                ok = measure(r, i, n, threads[t]) && ok;
        }
    }
    return ok;
}
