/* SPDX-License-Identifier: MIT
 * A side of proem: a graph file opened by the command's own code, its sizes bound, its inputs
 * random, its program compiled.
 */
#include "bench/bench.h"

#include <math.h>
#include <string.h>

const char *source_path(struct arena *a, const struct options *o, const char *file) {
    return arena_printf(a, "%s/%s", o->source, file);
}

static enum proem_status bind_dims(struct product *p, const struct dim *dims, struct err *e) {
    const struct graph *g = p->s.p->graph;
    for (int i = 0; i < p->s.p->dims.n; i++) {
        const char *name = sx_name(g->sx, sx_symbol_at(g->sx, i));
        for (const struct dim *d = dims; d != NULL && d->name != NULL; d++) {
            if (strcmp(d->name, name) == 0)
                TRY(dims_bind_name(g, &p->s.p->dims, name, d->value, e));
        }
    }
    return PROEM_OK;
}

static enum proem_status parse(struct product *p, const char *file, const char *graph,
                               const char *threads, struct err *e) {
    char *argv[8];
    int argc = 0;
    const char *const words[] = {"proem", "bench", file, "--threads", threads, "--graph", graph};
    for (size_t i = 0; i < sizeof words / sizeof *words - (graph == NULL ? 2 : 0); i++) {
        argv[argc] = arena_strndup(&p->arena, words[i], strlen(words[i]));
        if (argv[argc++] == NULL) return err_nomem(e);
    }
    p->cli.arena = &p->arena;
    return cli_parse(&p->cli, argc, argv, e);
}

/* More than 1 GiB of inputs: filling them takes longer than all the rest. */
static enum proem_status check_size(struct product *p, struct err *e) {
    const struct graph *g = p->s.p->graph;
    int64_t sum = 0;
    for (size_t i = 0; i < p->s.n_in; i++) {
        const struct value *v = graph_value(g, g->params.at[i].value);
        int64_t shape[MAX_RANK], n = 1;
        TRY(dims_shape(g, &p->s.p->dims, g->params.at[i].value, shape, e));
        for (int k = 0; k < v->rank; k++)
            n *= shape[k];
        sum += dtype_bytes(v->dtype, n);
    }
    p->too_large = sum > (int64_t)1 << 30;
    return PROEM_OK;
}

static enum proem_status start(struct product *p, const struct dim *dims, bool any_size,
                               struct err *e) {
    TRY(session_open(&p->s, &p->cli, e));
    TRY(inputs_bind(&p->s, e));
    TRY(bind_dims(p, dims, e));
    if (!any_size) TRY(check_size(p, e));
    if (p->too_large) return PROEM_OK;
    TRY(program_run(p->s.p, PASS_LOWER, PASS_LOWER, e));
    TRY(inputs_load(&p->s, e));
    TRY(program_run(p->s.p, PASS_FUSE, PASS_LINK, e));
    return bound_run_open(&p->s, p->s.p, &p->r, e);
}

static bool check(struct product *p, enum proem_status status) {
    if (status != PROEM_OK) print_error(p->cli.file, &p->e);
    return status == PROEM_OK;
}

bool product_open(struct product *p, const struct options *o, const char *file, const char *graph,
                  int threads, const struct dim *dims) {
    char count[16];
    snprintf(count, sizeof count, "%d", threads);
    *p = (struct product){.open = true};
    arena_init(&p->arena, &allocator_default);
    const char *path = source_path(&p->arena, o, file);
    enum proem_status status = path == NULL ? err_nomem(&p->e) : PROEM_OK;
    if (status == PROEM_OK) status = parse(p, path, graph, count, &p->e);
    if (status == PROEM_OK) status = start(p, dims, o->full, &p->e);
    return check(p, status) && !p->too_large;
}

bool product_unfused(struct product *p, struct product *of) {
    *p = (struct product){.open = false};
    p->cli.file = of->cli.file;
    enum proem_status status = session_program(&of->s, FUSE_NEVER, &p->unfused, &p->e);
    if (status == PROEM_OK) status = bound_run_open(&of->s, p->unfused, &p->r, &p->e);
    return check(p, status);
}

void product_close(struct product *p) {
    bound_run_close(&p->r);
    proem_program_destroy(p->unfused);
    if (!p->open) return;
    session_close(&p->s);
    arena_free(&p->arena);
    p->open = false;
}

bool product_run(void *product) {
    struct product *p = product;
    return check(p, bound_run_once(&p->r, &p->e));
}

const void *product_in(const struct product *p, const char *name) {
    const struct graph *g = p->s.p->graph;
    for (size_t i = 0; i < p->s.n_in; i++) {
        if (strcmp(graph_value(g, g->params.at[i].value)->name, name) == 0)
            return p->s.in[i].array.data;
    }
    return NULL;
}

const float *product_out(const struct product *p, int64_t *count) {
    if (count != NULL) *count = p->r.out[0].count;
    return p->r.out[0].data;
}

double difference(const float *got, const float *want, int64_t n) {
    double most = 0, scale = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)want[i]), w = fabs((double)want[i]);
        if (!(d <= most)) most = d; /* a NaN counts */
        if (w > scale) scale = w;
    }
    return scale > 0 ? most / scale : most;
}
