/* SPDX-License-Identifier: MIT
 * Executions timed on the device: for each a CUDA graph of many runs, replayed between two events.
 *
 * A graph costs the host one call, so what is timed is the device's work and its gaps. Its runs go
 * round the sets of tensors: with sets that together are larger than L2, each run reads memory.
 * Trials take turns, so that clocks and neighbours change for all alike.
 */
#include "rt/cuda/internal.h"

#define LEAST_RUNS   20 /* in a graph: the gap between two graphs is spread over them */
#define LEAST_TURNS  5
#define WARM_REPLAYS 2

struct series {
    cu_graph_exec graph;
    int runs; /* in the graph */
};

struct meter {
    struct rt_cuda *c;
    struct rt_cuda_trial *trials;
    struct series *series;
    int n;
    cu_stream stream;
    cu_event from, to;
};

static enum proem_status run_sets(struct meter *m, const struct rt_cuda_trial *t, int runs,
                                  struct err *e) {
    for (int i = 0; i < runs; i++)
        TRY(rt_cuda_exec_run(t->exec, m->stream, t->sets[i % t->n_sets], NULL, e));
    return PROEM_OK;
}

/* The first runs load code and meet all addresses; then the same again as a graph. */
static enum proem_status capture(struct meter *m, int i, struct err *e) {
    const struct cu_functions *cu = &m->c->cu;
    const struct rt_cuda_trial *t = &m->trials[i];
    struct series *s = &m->series[i];
    int least = t->runs > 0 ? t->runs : LEAST_RUNS;
    s->runs = (least + t->n_sets - 1) / t->n_sets * t->n_sets;
    TRY(run_sets(m, t, t->n_sets, e));
    TRY(rt_cuda_exec_check(t->exec, NULL, e));
    TRY(rt_cuda_result(m->c, cu->capture_begin(m->stream, CU_CAPTURE_THREAD_LOCAL), "a capture",
                       e));
    enum proem_status status = run_sets(m, t, s->runs, e);
    cu_graph graph = NULL;
    cu_result r = cu->capture_end(m->stream, &graph);
    if (status == PROEM_OK) status = rt_cuda_result(m->c, r, "ending a capture", e);
    if (status == PROEM_OK)
        status = rt_cuda_result(m->c, cu->graph_instantiate(&s->graph, graph, 0), "a graph", e);
    if (graph != NULL) cu->graph_free(graph);
    return status;
}

static enum proem_status replay(struct meter *m, int i, double *us, struct err *e) {
    const struct cu_functions *cu = &m->c->cu;
    float ms = 0;
    cu_result r = cu->event_record(m->from, m->stream);
    if (r == 0) r = cu->graph_launch(m->series[i].graph, m->stream);
    if (r == 0) r = cu->event_record(m->to, m->stream);
    if (r == 0) r = cu->event_wait(m->to);
    if (r == 0) r = cu->event_ms(&ms, m->from, m->to);
    *us = (double)ms * 1e3 / m->series[i].runs;
    return rt_cuda_result(m->c, r, "timing a graph", e);
}

static enum proem_status take_turns(struct meter *m, double budget_ms, struct err *e) {
    double us;
    for (int k = 0; k < WARM_REPLAYS; k++) {
        for (int i = 0; i < m->n; i++)
            TRY(replay(m, i, &us, e));
    }
    double start = rt_now_ms();
    for (int turn = 0; turn < m->trials[0].cap; turn++) {
        for (int k = 0; k < m->n; k++) {
            struct rt_cuda_trial *t = &m->trials[(turn + k) % m->n];
            if (t->n == t->cap) continue;
            TRY(replay(m, (turn + k) % m->n, &t->us[t->n], e));
            t->n++;
        }
        if (turn + 1 >= LEAST_TURNS && rt_now_ms() - start > budget_ms) break;
    }
    return PROEM_OK;
}

static enum proem_status measure(struct meter *m, double budget_ms, struct err *e) {
    const struct cu_functions *cu = &m->c->cu;
    cu_result r = cu->stream_create(&m->stream, CU_STREAM_NON_BLOCKING);
    if (r == 0) r = cu->event_create(&m->from, 0);
    if (r == 0) r = cu->event_create(&m->to, 0);
    TRY(rt_cuda_result(m->c, r, "a stream and events", e));
    for (int i = 0; i < m->n; i++)
        TRY(capture(m, i, e));
    return take_turns(m, budget_ms, e);
}

enum proem_status rt_cuda_measure(struct rt_cuda *c, struct rt_cuda_trial *t, int n,
                                  double budget_ms, struct err *e) {
    struct arena a;
    arena_init(&a, c->alloc);
    struct meter m = {.c = c, .trials = t, .n = n};
    m.series = ARENA_NEW(&a, struct series, n);
    enum proem_status s = m.series != NULL ? rt_cuda_enter(c, e) : err_nomem(e);
    if (s == PROEM_OK) {
        s = measure(&m, budget_ms, e);
        if (m.stream != NULL) c->cu.stream_wait(m.stream);
        for (int i = 0; i < n; i++) {
            if (m.series[i].graph != NULL) c->cu.graph_exec_free(m.series[i].graph);
        }
        if (m.from != NULL) c->cu.event_destroy(m.from);
        if (m.to != NULL) c->cu.event_destroy(m.to);
        if (m.stream != NULL) c->cu.stream_destroy(m.stream);
        rt_cuda_leave(c);
    }
    arena_free(&a);
    return s;
}
