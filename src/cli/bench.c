/* SPDX-License-Identifier: MIT
 * `proem bench`: wall time of whole runs with inputs in memory; the first runs, which compile, pack
 * and fill caches, are left out. With --vs unfused the two programs take turns, so that both see
 * the same machine. On a GPU its own clock counts (bench_cuda.c).
 */
#include "cli/cli.h"

#include <stdlib.h>

enum { WARM_UP = 3, LEAST_RUNS = 10, MOST_RUNS = 2000 };

#define BUDGET_US 1.0e6

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of a sorted series; between two runs, the point on the line. */
static double quantile(const struct bench_series *s, double q) {
    double at = q * (s->n - 1);
    int i = (int)at;
    double next = i + 1 < s->n ? s->us[i + 1] : s->us[i];
    return s->us[i] + (at - i) * (next - s->us[i]);
}

static enum proem_status time_once(struct bound_run *r, struct bench_series *s, struct err *e) {
    double start = now_us();
    TRY(bound_run_once(r, e));
    s->us[s->n++] = now_us() - start;
    return PROEM_OK;
}

static enum proem_status measure(struct bound_run *r, struct bench_series *out, int n,
                                 struct err *e) {
    for (int i = 0; i < WARM_UP; i++) {
        for (int k = 0; k < n; k++)
            TRY(bound_run_once(&r[k], e));
    }
    double start = now_us();
    for (int i = 0; i < MOST_RUNS; i++) {
        for (int k = 0; k < n; k++)
            TRY(time_once(&r[k], &out[k], e));
        if (i + 1 >= LEAST_RUNS && now_us() - start > BUDGET_US * n) break;
    }
    return PROEM_OK;
}

/* ---- reports --------------------------------------------------------------------------------- */

static enum proem_status report_json(const struct bound_run *r, const struct bench_series *s, int n,
                                     int threads, struct err *e) {
    json_t *o = json_object();
    json_object_set_new(o, "version", json_integer(1));
    json_object_set_new(o, "median_us", json_real(quantile(&s[0], 0.5)));
    json_object_set_new(o, "p10_us", json_real(quantile(&s[0], 0.1)));
    json_object_set_new(o, "p90_us", json_real(quantile(&s[0], 0.9)));
    json_object_set_new(o, "runs", json_integer(s[0].n));
    json_object_set_new(o, "threads", threads > 0 ? json_integer(threads) : json_null());
    json_object_set_new(o, "unfused_us", n > 1 ? json_real(quantile(&s[1], 0.5)) : json_null());
    json_object_set_new(o, "kernels", json_integer((json_int_t)r[0].p->plan.kernels.n));
    if (n > 1) {
        json_object_set_new(o, "unfused_p10_us", json_real(quantile(&s[1], 0.1)));
        json_object_set_new(o, "unfused_p90_us", json_real(quantile(&s[1], 0.9)));
        json_object_set_new(o, "unfused_kernels", json_integer((json_int_t)r[1].p->plan.kernels.n));
    }
    return print_json(o, e);
}

static void report_text(const struct bound_run *r, const struct bench_series *s, int n,
                        int threads) {
    static const char *const names[] = {"fused", "unfused"};
    for (int k = 0; k < n; k++) {
        size_t kernels = r[k].p->plan.kernels.n;
        printf("%s%smedian %.1f us (p10 %.1f, p90 %.1f), %d runs, ", n > 1 ? names[k] : "",
               n > 1 ? ": " : "", quantile(&s[k], 0.5), quantile(&s[k], 0.1), quantile(&s[k], 0.9),
               s[k].n);
        if (threads > 0) printf("%d thread%s, ", threads, threads == 1 ? "" : "s");
        printf("%zu kernel%s\n", kernels, kernels == 1 ? "" : "s");
    }
    if (n > 1) printf("unfused / fused: %.2f\n", quantile(&s[1], 0.5) / quantile(&s[0], 0.5));
}

/* ---- the command ----------------------------------------------------------------------------- */

static enum proem_status bench(struct session *s, proem_program *unfused, struct bound_run *r,
                               struct err *e) {
    int n = unfused != NULL ? 2 : 1;
    struct bench_series series[2] = {{0}, {0}};
    TRY(bound_run_open(s, s->p, &r[0], e));
    if (unfused != NULL) TRY(bound_run_open(s, unfused, &r[1], e));
    for (int k = 0; k < n; k++) {
        series[k].us = ARENA_NEW(&s->arena, double, MOST_RUNS);
        series[k].cap = MOST_RUNS;
        if (series[k].us == NULL) return err_nomem(e);
    }
    bool cuda = s->o->device == CLI_CUDA;
    TRY(cuda ? bench_cuda(s, r, series, n, e) : measure(r, series, n, e));
    for (int k = 0; k < n; k++)
        qsort(series[k].us, (size_t)series[k].n, sizeof(double), by_value);
    int threads = cuda ? 0 : rt_pool_threads(s->p->pool);
    if (s->o->json) return report_json(r, series, n, threads, e);
    report_text(r, series, n, threads);
    return PROEM_OK;
}

enum proem_status cmd_bench(struct session *s, struct err *e) {
    TRY(inputs_bind(s, e));
    TRY(program_run(s->p, PASS_LOWER, PASS_LOWER, e));
    TRY(inputs_load(s, e));
    TRY(program_run(s->p, PASS_FUSE, PASS_LINK, e));
    proem_program *unfused = NULL;
    struct bound_run r[2] = {{0}, {0}};
    enum proem_status status = PROEM_OK;
    if (s->o->vs_unfused) status = session_program(s, FUSE_NEVER, &unfused, e);
    if (status == PROEM_OK) status = bench(s, unfused, r, e);
    bound_run_close(&r[0]);
    bound_run_close(&r[1]);
    proem_program_destroy(unfused);
    return status;
}
