/* SPDX-License-Identifier: MIT
 * f32 products M = N = K against OpenBLAS and BLIS, all on the same inputs.
 */
#include "bench/bench.h"

#include <stdlib.h>

static const char file[] = "bench/graphs/cpu/squares.proem";

static bool sides(struct report *r, struct row *row, struct product *p, const struct blas *const *b,
                  int64_t n, bool nt) {
    struct blas_product g[2];
    float *c = calloc((size_t)(n * n), sizeof *c);
    bool ok = c != NULL && product_run(p);
    row_add(row, "proem", true, product_run, p);
    for (int i = 0; i < 2 && ok; i++) {
        if (b[i]->name == NULL) continue;
        g[i] = (struct blas_product){
            .blas = b[i], .m = n, .n = n, .k = n, .b_is_nk = nt, .a = product_in(p, "a"), .c = c};
        /* The library's interface is not const-correct for a weight that is never dequantized. */
        g[i].b = p->s.in[1].array.data;
        blas_threads(b[i], row->threads);
        double error = blas_product_run(&g[i]) ? difference(product_out(p, NULL), c, n * n) : 1;
        if (error > row->error) row->error = error;
        row_add(row, b[i]->name, false, blas_product_run, &g[i]);
    }
    ok = ok && row_measure(row, r->o);
    if (ok) report_row(r, row);
    free(c);
    return ok;
}

bool section_squares(struct report *r, const struct peers *p) {
    static const int64_t sizes[] = {256, 512, 1024, 2048};
    const struct blas *const b[] = {&p->openblas, &p->blis};
    int threads[2], n_threads = thread_counts(r->o, threads);
    bool ok = true;
    for (int i = 0; i < 8 * n_threads; i++) {
        int64_t n = sizes[i / 2 % 4];
        char name[32];
        bool nt = i % 2 == 1;
        snprintf(name, sizeof name, "%s %lld", nt ? "nt" : "nn", (long long)n);
        if (!wanted(r->o, name)) continue;
        struct row row = {.section = "squares",
                          .name = name,
                          .threads = threads[i / 8],
                          .error = -1,
                          .flop = 2.0 * (double)(n * n * n),
                          .bar = 1};
        const struct dim dims[] = {{"M", n}, {"N", n}, {"K", n}, {NULL, 0}};
        struct product prod;
        ok = product_open(&prod, r->o, file, nt ? "nt" : "nn", row.threads, dims) &&
             sides(r, &row, &prod, b, n, nt) && ok;
        product_close(&prod);
    }
    return ok;
}
