/* SPDX-License-Identifier: MIT
 * Few to many rows against K-major weights of four dtypes, N = K = 4096: proem with weights that
 * may change between runs and with constant ones, against dequantizing them to f32 and a product of
 * OpenBLAS (f32: OpenBLAS and BLIS).
 */
#include "bench/bench.h"

#include <stdlib.h>

enum { SIZE = 4096 };

static const char file[] = "bench/graphs/cpu/weights.proem";

static const struct format {
    const char *name, *constant;
    enum dtype dtype;
} formats[] = {
    {"int8", "int8_const", DT_I8},
    {"int4", "int4_const", DT_I4},
    {"f16", "f16_const", DT_F16},
    {"f32", "f32_const", DT_NONE},
};

/* What the fused product must gain over dequantizing first; few rows leave most to gain. */
static double bar_of(const struct format *f, int64_t m) {
    if (f->dtype == DT_NONE) return 1;
    return m <= 4 ? 2.5 : m <= 16 ? 1.8 : m <= 64 ? 1.5 : m <= 128 ? 1.25 : 1;
}

struct work {
    struct product plain, constant;
    struct blas_product then[2];
    float *wide, *out; /* dequantized weights, the peer's result */
};

static void add_peer(struct row *row, struct work *w, int i, const struct blas *b,
                     const struct format *f, const char *name, int64_t m) {
    if (b->name == NULL) return;
    const void *weights = product_in(&w->plain, "w");
    w->then[i] = (struct blas_product){.blas = b,
                                       .m = m,
                                       .n = SIZE,
                                       .k = SIZE,
                                       .b_is_nk = true,
                                       .a = product_in(&w->plain, "x"),
                                       .b = w->wide,
                                       .c = w->out,
                                       .w_type = f->dtype,
                                       .w = weights,
                                       .scale = product_in(&w->plain, "s"),
                                       .threads = row->threads};
    if (f->dtype == DT_NONE) w->then[i].b = w->plain.s.in[1].array.data;
    blas_threads(b, row->threads);
    blas_product_run(&w->then[i]);
    double error = difference(product_out(&w->plain, NULL), w->out, m * SIZE);
    if (error > row->error) row->error = error;
    row_add(row, name, false, blas_product_run, &w->then[i]);
}

static bool sides(struct report *r, const struct peers *p, struct row *row, struct work *w,
                  const struct format *f, int64_t m) {
    if (w->wide == NULL || w->out == NULL || !product_run(&w->plain) || !product_run(&w->constant))
        return false;
    row_add(row, "proem", true, product_run, &w->plain);
    row_add(row, "proem, const", true, product_run, &w->constant);
    row->error =
        difference(product_out(&w->constant, NULL), product_out(&w->plain, NULL), m * SIZE);
    bool plain = f->dtype == DT_NONE;
    add_peer(row, w, 0, &p->openblas, f, plain ? "OpenBLAS" : "dequantize, OpenBLAS", m);
    if (plain) add_peer(row, w, 1, &p->blis, f, "BLIS", m);
    if (!row_measure(row, r->o)) return false;
    report_row(r, row);
    return true;
}

static bool measure(struct report *r, const struct peers *p, const struct format *f, int64_t m,
                    int threads) {
    char name[48];
    snprintf(name, sizeof name, "%s M=%lld", f->name, (long long)m);
    if (!wanted(r->o, name)) return true;
    struct row row = {.section = "weights",
                      .name = name,
                      .threads = threads,
                      .flop = 2.0 * (double)(m * SIZE * SIZE),
                      .bar = bar_of(f, m)};
    const struct dim dims[] = {{"M", m}, {NULL, 0}};
    struct work w = {.wide = malloc((size_t)SIZE * SIZE * sizeof(float)),
                     .out = malloc((size_t)(m * SIZE) * sizeof(float))};
    bool ok = product_open(&w.plain, r->o, file, f->name, threads, dims) &&
              product_open(&w.constant, r->o, file, f->constant, threads, dims) &&
              sides(r, p, &row, &w, f, m);
    product_close(&w.plain);
    product_close(&w.constant);
    free(w.wide);
    free(w.out);
    return ok;
}

bool section_weights(struct report *r, const struct peers *p) {
    static const int64_t rows[] = {1, 4, 16, 64, 128, 512};
    int threads[2], n_threads = thread_counts(r->o, threads);
    bool ok = true;
    for (int t = 0; t < n_threads; t++) {
        for (int f = 0; f < 4; f++) {
            for (int m = 0; m < 6; m++)
                ok = measure(r, p, &formats[f], rows[m], threads[t]) && ok;
        }
    }
    return ok;
}
