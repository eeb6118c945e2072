/* SPDX-License-Identifier: MIT
 * Splitting a range over threads, which are started for each call: an operator of the reference
 * takes much longer than starting them. Ranges are contiguous and depend on the number of threads,
 * so work is written such that no element's value depends on its range. Where a thread cannot be
 * started, the caller runs its range.
 */
#include <pthread.h>

#include "eval/tensor.h"

#define MAX_THREADS 256

int threads_clamp(int threads) {
    return threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
}

struct range {
    range_fn fn;
    void *user;
    int64_t begin, end;
    int slot;
};

static void *run_range(void *context) {
    const struct range *r = context;
    r->fn(r->user, r->begin, r->end, r->slot);
    return NULL;
}

void parallel_ranges(struct ev *ev, int64_t n, int64_t grain, range_fn fn, void *user) {
    if (n <= 0) return;
    int64_t pieces = (n - 1) / grain + 1;
    int64_t per = (pieces - 1) / ev->threads + 1;
    int64_t step = per * grain;
    int count = (int)((pieces - 1) / per + 1);
    struct range range[MAX_THREADS];
    pthread_t thread[MAX_THREADS];
    bool started[MAX_THREADS];
    for (int i = 0; i < count; i++) {
        int64_t begin = i * step, end = begin + step < n ? begin + step : n;
        range[i] = (struct range){fn, user, begin, end, i};
        bool last = i == count - 1; /* the caller's own */
        started[i] = !last && pthread_create(&thread[i], NULL, run_range, &range[i]) == 0;
    }
    for (int i = 0; i < count; i++) {
        if (!started[i]) (void)run_range(&range[i]);
    }
    for (int i = 0; i < count; i++) {
        if (started[i]) (void)pthread_join(thread[i], NULL);
    }
}
