/* SPDX-License-Identifier: MIT
 * Executions timed against each other: prepared executions and one set of views in, medians out.
 *
 * The trials take turns, so that what else happens on the machine meets all of them, and each turn
 * starts with another one, so that none always follows the same. Trials are compared by the ratios
 * of their times within a turn, which a busy machine spreads less than the times themselves. A sample is as many runs as take
 * about SAMPLE_US, because a clock cannot be read between runs of a microsecond for nothing. After a
 * few turns whoever is far behind the fastest so far is dropped, and the rest of the time goes to
 * those between which it is close (successive halving: Jamieson and Talwalkar, "Non-stochastic Best
 * Arm Identification and Hyperparameter Optimization", 2016, with a bound in place of the half).
 */
#include "rt/rt_internal.h"

#include <stdlib.h>

#define SAMPLE_US   30.0
#define LEAST_TURNS 5
#define MOST_TURNS  200
#define PROBE_TURNS 3   /* after so many a trial may be dropped */
#define TOO_SLOW    1.2 /* .. if its best sample is so many times the best of all */

struct series {
    double *us; /* of one run, a number for each sample */
    int n;
    double best;
    bool in; /* still timed */
};

static double now_us(void) {
    return rt_now_ms() * 1e3;
}

static enum proem_status run_some(struct rt_trial *t, const struct rt_view *views, int times,
                                  double *us, struct err *e) {
    double start = now_us();
    for (int i = 0; i < times; i++)
        TRY(rt_exec_run(t->exec, views, NULL, e));
    *us = (now_us() - start) / times;
    return PROEM_OK;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, by_value);
    return 0.5 * (x[(n - 1) / 2] + x[n / 2]);
}

/* Series 0 last: the others are compared with it, turn by turn. */
static void summarize(struct series *s, int n, double *ratio, struct rt_trial *t) {
    for (int i = n; i-- > 0;) {
        t[i].runs = s[i].in && s[i].n >= LEAST_TURNS ? s[i].n : 0;
        if (t[i].runs == 0) continue;
        for (int k = 0; k < s[i].n; k++)
            ratio[k] = s[i].us[k] / s[0].us[k];
        t[i].ratio = median(ratio, s[i].n);
        t[i].ratio_high = ratio[s[i].n - 1 - s[i].n / 4];
        t[i].median_us = median(s[i].us, s[i].n);
    }
}

/* Drop who is far behind; trial 0 stays. */
static void drop_slow(struct series *s, int n) {
    double best = s[0].best;
    for (int i = 1; i < n; i++) {
        if (s[i].in && s[i].best < best) best = s[i].best;
    }
    for (int i = 1; i < n; i++)
        s[i].in = s[i].in && s[i].best <= TOO_SLOW * best;
}

static enum proem_status take_turns(struct rt_trial *t, struct series *s, int n,
                                    const struct rt_view *views, double per_run, double end,
                                    struct err *e) {
    int times = per_run < SAMPLE_US ? (int)(SAMPLE_US / (per_run + 0.05)) : 1;
    for (int turn = 0; turn < MOST_TURNS; turn++) {
        for (int k = 0; k < n; k++) {
            int i = (turn + k) % n;
            if (!s[i].in) continue;
            double *us = &s[i].us[s[i].n++];
            TRY(run_some(&t[i], views, times, us, e));
            if (s[i].n == 1 || *us < s[i].best) s[i].best = *us;
        }
        if (turn + 1 == PROBE_TURNS) drop_slow(s, n);
        if (turn + 1 >= LEAST_TURNS && now_us() > end) break;
    }
    return PROEM_OK;
}

/* First runs, which pack constants and touch memory; how many trials there is time for. */
static enum proem_status warm_up(struct rt_trial *t, struct series *s, int n,
                                 const struct rt_view *views, double budget_us, double *per_run,
                                 int *fit, struct err *e) {
    double start = now_us(), first;
    TRY(run_some(&t[0], views, 1, &first, e));
    TRY(run_some(&t[0], views, 1, per_run, e));
    s[0].in = true;
    *fit = 1;
    for (int i = 1; i < n; i++) {
        double turns = LEAST_TURNS * *per_run * (*fit + 1);
        if (now_us() - start + first + turns > budget_us) break;
        TRY(run_some(&t[i], views, 1, &first, e));
        s[i].in = true;
        ++*fit;
    }
    return PROEM_OK;
}

static enum proem_status measure(struct rt_trial *t, struct series *s, double *ratio, int n,
                                 const struct rt_view *views, double budget_ms, struct err *e) {
    double start = now_us(), budget = budget_ms * 1e3, per_run;
    int fit;
    TRY(warm_up(t, s, n, views, budget, &per_run, &fit, e));
    if (fit > 1) TRY(take_turns(t, s, fit, views, per_run, start + budget, e));
    summarize(s, n, ratio, t);
    return PROEM_OK;
}

enum proem_status rt_measure(struct rt_trial *trials, int n, const struct rt_view *views,
                             double budget_ms, struct err *e) {
    if (n < 1) return PROEM_OK;
    struct arena a;
    arena_init(&a, trials[0].exec->program->alloc);
    struct series *s = ARENA_NEW(&a, struct series, n);
    double *ratio = ARENA_NEW(&a, double, MOST_TURNS);
    for (int i = 0; s != NULL && i < n; i++)
        s[i].us = ARENA_NEW(&a, double, MOST_TURNS);
    enum proem_status status = PROEM_NOMEM;
    if (s != NULL && ratio != NULL && arena_ok(&a))
        status = measure(trials, s, ratio, n, views, budget_ms, e);
    else
        err_nomem(e);
    arena_free(&a);
    return status;
}
