/* SPDX-License-Identifier: MIT
 * An execution: the memory of one program for one caller, sized for one binding of the symbols.
 *
 * One block holds all: temporaries from their first step to their last, and each step's scratch for
 * that step alone, so scratch lies where temporaries are dead. The block only grows. In a program
 * with `poison` every item has a guard behind it (run.c fills and checks it).
 */
#include "rt/rt_internal.h"

#include <string.h>

#define LINE  64
#define GUARD 64

static int64_t round_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void make_tables(struct rt_exec *x) {
    const struct rt_program *p = x->program;
    const struct rt_program_desc *d = &p->desc;
    struct arena *a = &x->arena;
    size_t buffers = (size_t)d->n_buffers, steps = (size_t)d->n_steps;
    size_t nulls = (size_t)(p->most_args > p->most_operands ? p->most_args : p->most_operands);
    x->sym = ARENA_NEW(a, int64_t, (size_t)d->n_symbols);
    x->bytes = ARENA_NEW(a, int64_t, buffers);
    x->items = ARENA_NEW(a, struct rt_item, buffers + 2 * steps);
    x->used = ARENA_NEW(a, int64_t, buffers + 2 * steps);
    x->item_of = ARENA_NEW(a, int, buffers);
    x->local_stride = ARENA_NEW(a, size_t, steps);
    x->buf = ARENA_NEW(a, void *, buffers);
    x->lo = ARENA_NEW(a, uintptr_t, buffers);
    x->hi = ARENA_NEW(a, uintptr_t, buffers);
    x->args = ARENA_NEW(a, void *, (size_t)p->most_args);
    x->packed = ARENA_NEW(a, void *, (size_t)p->most_operands);
    x->nulls = ARENA_NEW(a, void *, nulls);
    x->staged = ARENA_NEW(a, struct rt_staged, buffers);
    x->blobs = ARENA_NEW(a, struct rt_blob *, (size_t)p->n_operands);
    x->key = ARENA_NEW(a, int64_t, p->longest_key);
    for (int i = 0; arena_ok(a) && i < d->n_buffers; i++) {
        x->item_of[i] = -1;
        if (d->buffers[i].place == RT_TEMP) {
            if (p->first[i] <= p->last[i]) x->item_of[i] = x->n_temps++;
        } else {
            x->staged[i].key = ARENA_NEW(a, int64_t, 3 + 2 * RT_VIEW_RANK);
        }
    }
    x->n_items = x->n_temps + 2 * d->n_steps;
}

enum proem_status rt_exec_new(struct rt_program *p, struct rt_pool *pool, struct rt_exec **out,
                              struct err *e) {
    struct rt_exec *x = mem_alloc(p->alloc, 1, sizeof *x);
    if (x == NULL) return err_nomem(e);
    *x = (struct rt_exec){.program = p, .pool = pool};
    arena_init(&x->arena, p->alloc);
    make_tables(x);
    if (!arena_ok(&x->arena)) {
        arena_free(&x->arena);
        mem_free(p->alloc, x, 1, sizeof *x);
        return err_nomem(e);
    }
    *out = x;
    return PROEM_OK;
}

void rt_exec_free(struct rt_exec *x) {
    if (x == NULL) return;
    struct rt_program *p = x->program;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->n_operands; i++)
        rt_blob_drop(p, x->blobs[i]);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->desc.n_buffers; i++) {
        mem_free(p->alloc, x->staged[i].data, x->staged[i].capacity, 1);
    }
    mem_free(p->alloc, x->memory, x->capacity, 1);
    arena_free(&x->arena);
    mem_free(p->alloc, x, 1, sizeof *x);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static enum proem_status too_large(const char *what, const char *name, struct err *e) {
    return err_set(e, PROEM_NOMEM, "%s '%s' needs more memory than can be addressed", what, name);
}

static enum proem_status size_temps(struct rt_exec *x, const int64_t *bytes, struct err *e) {
    const struct rt_program *p = x->program;
    int64_t guard = p->desc.poison ? GUARD : 0;
    for (int i = 0; i < p->desc.n_buffers; i++) {
        int at = x->item_of[i];
        if (bytes[i] < 0 || bytes[i] > INT64_MAX / 4) {
            return too_large("tensor", p->desc.buffers[i].name, e);
        }
        if (at < 0) continue;
        x->items[at] = (struct rt_item){bytes[i] + guard, p->first[i], p->last[i], 0};
        x->used[at] = bytes[i];
    }
    return PROEM_OK;
}

/* Scratch of one step: shared by its tasks, and one area for each thread. */
static enum proem_status size_scratch(struct rt_exec *x, int step, const int64_t *sym,
                                      struct err *e) {
    const struct rt_program_desc *d = &x->program->desc;
    const struct pk_kernel *k = d->steps[step].kernel;
    int threads = rt_pool_threads(x->pool);
    struct pk_args a = {.buf = x->nulls, .sym = sym, .packed = x->nulls, .threads = threads};
    int64_t shared = k->shared_bytes(&a), local = k->local_bytes(&a);
    int64_t limit = INT64_MAX / 4;
    if (shared < 0 || shared > limit || local < 0 || local > limit / threads - 4 * LINE) {
        return too_large("scratch of kernel", k->name, e);
    }
    int64_t guard = d->poison ? GUARD : 0;
    /* Two lines apart: processors fetch lines in pairs, and threads write here. */
    int64_t stride = local > 0 ? round_up(local + guard, 2 * LINE) : 0;
    int at = x->n_temps + 2 * step;
    x->items[at] = (struct rt_item){shared > 0 ? shared + guard : 0, step, step, 0};
    x->items[at + 1] = (struct rt_item){stride * threads, step, step, 0};
    x->used[at] = shared;
    x->used[at + 1] = local;
    x->local_stride[step] = (size_t)stride;
    return PROEM_OK;
}

static enum proem_status grow_memory(struct rt_exec *x, struct err *e) {
    size_t need = x->total > LINE ? (size_t)x->total : LINE;
    if (need <= x->capacity) return PROEM_OK;
    const struct allocator *alloc = x->program->alloc;
    mem_free(alloc, x->memory, x->capacity, 1);
    x->capacity = 0;
    x->memory = mem_alloc(alloc, need, 1);
    if (x->memory == NULL) return err_nomem(e);
    x->capacity = need;
    return PROEM_OK;
}

static bool is_prepared_for(const struct rt_exec *x, const int64_t *sym, const int64_t *bytes) {
    const struct rt_program_desc *d = &x->program->desc;
    if (!x->prepared) return false;
    for (int i = 0; i < d->n_symbols; i++) {
        if (x->sym[i] != sym[i]) return false;
    }
    for (int i = 0; i < d->n_buffers; i++) {
        if (x->bytes[i] != bytes[i]) return false;
    }
    return true;
}

enum proem_status rt_exec_prepare(struct rt_exec *x, const int64_t *sym, const int64_t *bytes,
                                  struct err *e) {
    const struct rt_program_desc *d = &x->program->desc;
    if (is_prepared_for(x, sym, bytes)) return PROEM_OK;
    x->prepared = false;
    TRY(size_temps(x, bytes, e));
    for (int i = 0; i < d->n_steps; i++)
        TRY(size_scratch(x, i, sym, e));
    TRY(rt_arena_plan(x->program->alloc, x->items, x->n_items, &x->total, e));
    x->sum = 0;
    for (int i = 0; i < x->n_items; i++)
        x->sum += round_up(x->items[i].bytes, LINE);
    TRY(grow_memory(x, e));
    for (int i = 0; i < d->n_buffers; i++) {
        if (x->item_of[i] >= 0) x->buf[i] = x->memory + x->items[x->item_of[i]].offset;
        x->bytes[i] = bytes[i];
    }
    for (int i = 0; i < d->n_symbols; i++)
        x->sym[i] = sym[i];
    x->prepared = true;
    return PROEM_OK;
}

struct pk_args rt_exec_args(struct rt_exec *x, int step) {
    const struct rt_item *scratch = &x->items[x->n_temps + 2 * step];
    return (struct pk_args){.buf = x->args,
                            .sym = x->sym,
                            .shared = x->memory + scratch[0].offset,
                            .local = x->memory + scratch[1].offset,
                            .packed = x->nulls,
                            .threads = rt_pool_threads(x->pool)};
}

void rt_exec_memory(const struct rt_exec *x, struct rt_memory *out) {
    *out = (struct rt_memory){.arena = x->total, .sum = x->sum};
    for (int i = 0; i < x->program->desc.n_buffers; i++) {
        out->staging += (int64_t)x->staged[i].capacity;
    }
}
