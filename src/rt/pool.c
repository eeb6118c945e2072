/* SPDX-License-Identifier: MIT
 * Threads, and the launch of one kernel on them. pthreadpool keeps the threads and wakes them.
 *
 * Work is handed out by a counter: each worker takes the next number until none is left. So the
 * pool's items are the workers, not the tasks; a worker's number is a place for scratch memory,
 * whatever thread runs it, and nothing depends on which worker gets which task.
 * pthreadpool runs one call at a time; the lock here does that as well, since the job's description
 * stands in the pool. The two counters order the caller's memory with the workers' on their own,
 * so that tools which do not see inside pthreadpool can follow it.
 * Idle workers spin for a while, which makes the next launch start in about a microsecond. After
 * the last launch of a run they sleep, unless this run came soon after the one before: then another
 * is likely to come soon, and waking a thread takes as long as a small product.
 * But every worker has to answer each call, and where other programs want the same cores one that
 * spins loses its turn for milliseconds. So the pool watches how long a call waits after its last
 * task: when that is too long, the workers sleep between calls for a number of calls, twice as many
 * each time.
 */
#include "rt/rt_internal.h"

#include <pthreadpool.h>
#include <stdatomic.h>

struct rt_pool {
    const struct allocator *alloc;
    int threads;
    pthread_mutex_t lock; /* guards what follows */
    bool started;
    pthreadpool_t pool; /* NULL before the start, or if threads cannot be made */
    int sleepy;         /* so many calls from now on let the workers sleep */
    int penalty;        /* what `sleepy` becomes at the next long wait */
    bool resting;       /* the call before this one was the last of its run */
    bool again;         /* this run came soon after the one before */
    int64_t end_us;     /* when the run before ended */
    atomic_int_fast64_t begun, ended;
    /* The job that runs now. */
    rt_task_fn fn;
    void *user;
    int64_t n;
    atomic_int_fast64_t next;
    atomic_int_fast64_t last_us; /* when its last task ended */
};

#define LONG_WAIT_US 300
#define SOON_US      1000
#define PENALTY_MIN  256
#define PENALTY_MAX  16384

enum proem_status rt_pool_new(const struct allocator *alloc, int threads, struct rt_pool **out,
                              struct err *e) {
    if (threads < 1 || threads > 4096) {
        return err_set(e, PROEM_INVALID, "%d threads: the number must be 1 to 4096", threads);
    }
    struct rt_pool *p = mem_alloc(alloc, 1, sizeof *p);
    if (p == NULL) return err_nomem(e);
    p->alloc = alloc;
    p->threads = threads;
    p->started = false;
    p->pool = NULL;
    p->sleepy = 0;
    p->penalty = PENALTY_MIN;
    p->resting = true;
    p->again = false;
    p->end_us = INT64_MIN / 2;
    atomic_init(&p->last_us, 0);
    atomic_init(&p->begun, 0);
    atomic_init(&p->ended, 0);
    atomic_init(&p->next, 0);
    if (pthread_mutex_init(&p->lock, NULL) != 0) {
        mem_free(alloc, p, 1, sizeof *p);
        return err_nomem(e);
    }
    *out = p;
    return PROEM_OK;
}

void rt_pool_free(struct rt_pool *p) {
    if (p == NULL) return;
    if (p->pool != NULL) pthreadpool_destroy(p->pool);
    pthread_mutex_destroy(&p->lock);
    mem_free(p->alloc, p, 1, sizeof *p);
}

int rt_pool_threads(const struct rt_pool *p) {
    return p->threads;
}

static int64_t now_us(void) {
    return (int64_t)(rt_now_ms() * 1e3);
}

static void work(void *context, size_t worker) {
    struct rt_pool *p = context;
    atomic_load_explicit(&p->begun, memory_order_acquire);
    bool worked = false;
    while (true) {
        int64_t i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (i >= p->n) break;
        p->fn(p->user, (int)worker, i);
        worked = true;
    }
    if (worked) {
        int64_t now = now_us(), last = atomic_load(&p->last_us);
        while (now > last && !atomic_compare_exchange_weak(&p->last_us, &last, now)) {
        }
    }
    atomic_fetch_add_explicit(&p->ended, 1, memory_order_release);
}

/* After a call: was it held up by workers that had nothing to do? */
static void learn(struct rt_pool *p, bool slept, bool last) {
    int64_t now = now_us();
    bool late = now - atomic_load(&p->last_us) > LONG_WAIT_US;
    p->resting = last;
    if (last) p->end_us = now;
    if (slept) {
        if (p->sleepy > 0) p->sleepy--;
    } else if (late) {
        p->sleepy = p->penalty;
        if (p->penalty < PENALTY_MAX) p->penalty *= 2;
    } else if (p->penalty > PENALTY_MIN) {
        p->penalty--;
    }
}

void rt_parallel(struct rt_pool *p, int64_t n, rt_task_fn fn, void *user, bool last) {
    if (p->threads == 1 || n <= 1) {
        for (int64_t i = 0; i < n; i++)
            fn(user, 0, i);
        return;
    }
    pthread_mutex_lock(&p->lock);
    if (!p->started) {
        struct rt_held held; /* threads inherit what is blocked: signals are the host's threads' */
        rt_signals_hold(&held, true);
        p->started = true;
        p->pool = pthreadpool_create((size_t)p->threads);
        rt_signals_release(&held);
    }
    p->fn = fn;
    p->user = user;
    p->n = n;
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&p->begun, 1, memory_order_release);
    size_t workers = n < p->threads ? (size_t)n : (size_t)p->threads;
    if (p->resting) p->again = now_us() - p->end_us < SOON_US;
    bool sleep = (last && !p->again) || p->sleepy > 0;
    atomic_store(&p->last_us, 0);
    pthreadpool_parallelize_1d(p->pool, work, p, workers,
                               sleep ? PTHREADPOOL_FLAG_YIELD_WORKERS : 0);
    atomic_load_explicit(&p->ended, memory_order_acquire);
    learn(p, sleep, last);
    pthread_mutex_unlock(&p->lock);
}

struct launch {
    const struct pk_kernel *kernel;
    const struct pk_args *args;
    size_t local_stride;
    int phase;
};

static void run_task(void *user, int worker, int64_t i) {
    const struct launch *l = user;
    struct pk_args a = *l->args;
    if (l->local_stride > 0) a.local = (char *)a.local + (size_t)worker * l->local_stride;
    l->kernel->run(&a, l->phase, i);
}

void rt_launch(struct rt_pool *p, const struct pk_kernel *k, const struct pk_args *args,
               size_t local_stride, bool last) {
    struct launch l = {.kernel = k, .args = args, .local_stride = local_stride};
    for (l.phase = 0; l.phase < k->phases; l.phase++) {
        int64_t n = k->tasks(args, l.phase);
        rt_parallel(p, n, run_task, &l, last && l.phase == k->phases - 1);
    }
}
