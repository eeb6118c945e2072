/* SPDX-License-Identifier: MIT
 * Splitting a range over a thread pool (pthreadpool). Ranges are contiguous and depend on the
 * number of threads, so work is written such that no element's value depends on its range.
 */
#include <pthreadpool.h>

#include "eval/tensor.h"

enum proem_status threads_start(struct ev *ev, int threads) {
    ev->threads = threads < 1 ? 1 : threads > 256 ? 256 : threads;
    ev->pool = NULL;
    if (ev->threads > 1) {
        ev->pool = pthreadpool_create((size_t)ev->threads);
        if (ev->pool == NULL) ev->threads = 1; /* slower, same results */
    }
    return PROEM_OK;
}

void threads_stop(struct ev *ev) {
    if (ev->pool != NULL) pthreadpool_destroy(ev->pool);
    ev->pool = NULL;
}

struct ranges {
    range_fn fn;
    void *user;
    int64_t n, step;
};

static void run_range(void *context, size_t i) {
    const struct ranges *r = context;
    int64_t begin = (int64_t)i * r->step;
    int64_t end = begin + r->step < r->n ? begin + r->step : r->n;
    r->fn(r->user, begin, end, (int)i);
}

void parallel_ranges(struct ev *ev, int64_t n, int64_t grain, range_fn fn, void *user) {
    if (n <= 0) return;
    int64_t pieces = (n - 1) / grain + 1;
    int64_t per = (pieces - 1) / ev->threads + 1;
    struct ranges r = {fn, user, n, per * grain};
    int64_t count = (pieces - 1) / per + 1;
    if (ev->pool == NULL || count == 1) {
        for (int64_t i = 0; i < count; i++) {
            run_range(&r, (size_t)i);
        }
        return;
    }
    pthreadpool_parallelize_1d(ev->pool, run_range, &r, (size_t)count, 0);
}
