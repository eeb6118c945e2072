/* SPDX-License-Identifier: MIT
 * The benchmarks: sections of rows; a row is a piece of work that several sides do in turns.
 *
 * Every side of proem is a graph file, opened as the command opens it (random inputs from the seed
 * and the inputs' names), so each row can be repeated by hand with `proem bench`. Peers are loaded
 * at run time, each with its symbols to itself.
 */
#ifndef PROEM_BENCH_H
#define PROEM_BENCH_H

#include <jansson.h>

#include "cli/cli.h"

enum { MOST_SIDES = 6, MOST_ROUNDS = 25, MOST_TRIES = 1000 };

/* ---- options (main.c) ------------------------------------------------------------------------ */

struct options {
    bool quick, large, full;
    int rounds;
    double budget; /* seconds of one side in one round */
    int threads;   /* 0: one, then two */
    const char *name, *source, *only, *results, *commit;
    VEC(const char *) sections;
    const char *program; /* argv[0], beside which peers lie */
};

/* ---- measuring (measure.c) ------------------------------------------------------------------- */

/* Over rounds: p10, median and p90 of the rounds' medians; best: the least time of all. */
struct spread {
    double p10, median, p90, best;
};

struct side {
    const char *name;
    bool ours; /* proem's, to be compared with the peers */
    bool (*run)(void *self);
    void *self;
    double round[MOST_ROUNDS]; /* seconds: median of each round */
    double best;
    int tries; /* of all rounds */
};

struct row {
    const char *section, *name, *note;
    int threads;
    double flop;   /* 0: not stated */
    double bar;    /* the least that peer's time / our time should be; 0: none */
    double error;  /* largest difference of the results over the largest result; < 0: none */
    double peak;   /* FMA, FLOP/s, median over the rounds */
    int n, rounds; /* sides */
    struct side side[MOST_SIDES];
};

struct side *row_add(struct row *r, const char *name, bool ours, bool (*run)(void *), void *self);
/* Rounds in which all sides take turns. false: a side failed (it has said why). */
bool row_measure(struct row *r, const struct options *o);
struct spread spread_of(const double *v, int n);
/* Of side `peer` over side `ours`, round by round. */
struct spread row_ratio(const struct row *r, int ours, int peer);

/* FLOP/s of fused multiply-adds on registers, on each of `threads` threads (peak.c). */
double peak_flops(int threads, double seconds);
double now_cpu(void); /* of this thread */
double now_wall(void);

/* ---- results (report.c) ---------------------------------------------------------------------- */

struct report {
    const struct options *o;
    json_t *root;
    int failed;
};

bool report_open(struct report *r, const struct options *o);
/* Print the row, keep it in the results' files; a row of the same name is replaced. */
void report_row(struct report *r, const struct row *row);
void report_machine(struct report *r, const char *key, const char *text);
/* The table of all rows, NAME.md. false: it cannot be written. */
bool report_close(struct report *r);
bool report_markdown(const struct report *r, FILE *f); /* markdown.c */
/* A row or a peer that is left out, and why. */
void report_skip(struct report *r, const char *what, const char *why);

/* ---- sides ----------------------------------------------------------------------------------- */

struct dim {
    const char *name;
    int64_t value;
};

/* A program of a graph file with its inputs (product.c). Zero it before; close it in any case. */
struct product {
    struct arena arena;
    struct cli cli;
    struct session s;
    struct bound_run r;
    proem_program *unfused; /* not NULL: r runs this one */
    struct err e;
    bool open;
    bool too_large; /* its inputs; nothing is compiled then */
};

/* Sizes that the graph has are taken from dims (name NULL ends them). false: it failed and has said
 * why, or its inputs are too large. */
bool product_open(struct product *p, const struct options *o, const char *file, const char *graph,
                  int threads, const struct dim *dims);
/* The unfused plan of `of`, on its inputs. */
bool product_unfused(struct product *p, struct product *of);
void product_close(struct product *p);
bool product_run(void *product); /* for a side */
const void *product_in(const struct product *p, const char *name);
const float *product_out(const struct product *p, int64_t *count);
/* As struct row's error: of two f32 results of the same size. */
double difference(const float *got, const float *want, int64_t n);
/* A file of the source's folder; from arena. */
const char *source_path(struct arena *a, const struct options *o, const char *file);

/* BLAS libraries, loaded once (blas.c). */
typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void sgemv_fn(int order, int ta, int m, int n, float alpha, const float *a, int lda,
                      const float *x, int incx, float beta, float *y, int incy);
struct blas {
    const char *name; /* NULL: not found */
    char what[160];   /* version and kernels */
    sgemm_fn *sgemm;
    sgemv_fn *sgemv;
    void (*set_threads)(int);
    void (*set_threads64)(int64_t);
};
struct peers {
    struct blas openblas, blis;
};
void peers_open(struct peers *p, struct report *r);
void blas_threads(const struct blas *b, int threads);

/* One product of row-major matrices by a BLAS library; b_is_nk: b has the rows of B transposed.
 * Where w is given it is first dequantized into b. One row goes to sgemv if b_is_nk. */
struct blas_product {
    const struct blas *blas;
    int64_t m, n, k;
    bool b_is_nk;
    const float *a;
    float *b;
    float *c;
    enum dtype w_type; /* DT_NONE, DT_F16, DT_I8 or DT_I4 */
    const void *w;
    const float *scale; /* by row, DT_I4: by 32 of a row */
    int threads;
};
bool blas_product_run(void *self);
/* Rows of w[n][k] to f32 on `threads` threads (dequantize.c). */
void dequantize_rows(const struct blas_product *p);

/* ---- sections -------------------------------------------------------------------------------- */

bool section_squares(struct report *r, const struct peers *p);
bool section_prologue(struct report *r, const struct peers *p);
bool section_weights(struct report *r, const struct peers *p);
bool section_graphs(struct report *r, const struct peers *p);
bool section_ggml(struct report *r, const struct peers *p);
/* Whether --only leaves the row in. */
bool wanted(const struct options *o, const char *row);
/* The numbers of threads to measure: fills two at most, returns how many. */
int thread_counts(const struct options *o, int out[2]);

#endif
