/* SPDX-License-Identifier: MIT
 * Timing: the sides of a row take turns in rounds, so that all see the same machine. A side's
 * result of a round is the median of its tries; of a row, the median over rounds, with the spread
 * beside it. Ratios are taken round by round, between sides measured next to each other.
 *
 * One thread is timed by the CPU time of the calling thread, which other processes disturb less;
 * two by the clock on the wall. Libraries' threads go on spinning for a while after a product:
 * with two threads each side waits until those of the side before have gone to sleep.
 */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double now_cpu(void) {
    return now(CLOCK_THREAD_CPUTIME_ID);
}

double now_wall(void) {
    return now(CLOCK_MONOTONIC);
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Between two values, the point on the line. */
static double quantile(const double *sorted, int n, double q) {
    double at = q * (n - 1);
    int i = (int)at;
    double next = i + 1 < n ? sorted[i + 1] : sorted[i];
    return sorted[i] + (at - i) * (next - sorted[i]);
}

struct spread spread_of(const double *v, int n) {
    double sorted[MOST_TRIES];
    for (int i = 0; i < n; i++)
        sorted[i] = v[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    return (struct spread){.p10 = quantile(sorted, n, 0.1),
                           .median = quantile(sorted, n, 0.5),
                           .p90 = quantile(sorted, n, 0.9),
                           .best = sorted[0]};
}

struct spread row_ratio(const struct row *r, int ours, int peer) {
    double ratio[MOST_ROUNDS];
    for (int i = 0; i < r->rounds; i++)
        ratio[i] = r->side[peer].round[i] / r->side[ours].round[i];
    return spread_of(ratio, r->rounds);
}

struct side *row_add(struct row *r, const char *name, bool ours, bool (*run)(void *), void *self) {
    struct side *s = &r->side[r->n++];
    *s = (struct side){.name = name, .ours = ours, .run = run, .self = self, .best = INFINITY};
    return s;
}

static void settle(int threads) {
    if (threads > 1) nanosleep(&(struct timespec){.tv_nsec = 60 * 1000 * 1000}, NULL);
}

/* One side's turn: a run to warm up, then runs until the time is over. */
static bool turn(const struct row *r, struct side *s, int round, double budget) {
    double tries[MOST_TRIES], spent = 0;
    int n = 0;
    settle(r->threads);
    if (!s->run(s->self)) return false;
    do {
        double start = r->threads > 1 ? now_wall() : now_cpu();
        if (!s->run(s->self)) return false;
        tries[n] = (r->threads > 1 ? now_wall() : now_cpu()) - start;
        if (tries[n] < s->best) s->best = tries[n];
        spent += tries[n++];
    } while (n < MOST_TRIES && (spent < budget || n < 3) && spent < 8 * budget);
    s->round[round] = spread_of(tries, n).median;
    s->tries += n;
    return true;
}

bool row_measure(struct row *r, const struct options *o) {
    double peak[MOST_ROUNDS];
    r->rounds = o->rounds;
    for (int i = 0; i < o->rounds; i++) {
        settle(r->threads);
        peak[i] = peak_flops(r->threads, o->budget / 8);
        for (int k = 0; k < r->n; k++) {
            /* Whose turn is first changes from round to round. */
            if (!turn(r, &r->side[(k + i) % r->n], i, o->budget)) return false;
        }
    }
    r->peak = spread_of(peak, o->rounds).median;
    return true;
}
