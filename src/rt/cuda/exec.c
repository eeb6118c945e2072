/* SPDX-License-Identifier: MIT
 * An execution on a GPU: the device memory of one program for one caller, sized for one binding of
 * the symbols.
 *
 * One block holds temporaries from their first step to their last, and each step's scratch for that
 * step alone. A second one holds what must last between runs: scratch that kernels expect to be 0
 * and leave 0, and the fault words. Blocks only grow; when a block or the layout of the second one
 * changes, earlier runs are waited for, since they may still use it.
 */
#include "rt/cuda/internal.h"

#include <string.h>

#define LINE ((int64_t)64)

static int64_t round_up(int64_t n) {
    return (n + LINE - 1) / LINE * LINE;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void make_tables(struct rt_cuda_exec *x) {
    const struct rt_cuda_program *p = x->program;
    const struct rt_cuda_desc *d = &p->desc;
    struct arena *a = &x->arena;
    int64_t checks = 0;
    for (int i = 0; i < d->n_steps; i++)
        checks += d->steps[i].n_checks;
    x->sym = ARENA_NEW(a, int64_t, d->n_symbols);
    x->bytes = ARENA_NEW(a, int64_t, d->n_buffers);
    x->blocks = ARENA_NEW(a, int64_t, p->n_launches);
    x->items = ARENA_NEW(a, struct rt_item, d->n_buffers + d->n_steps);
    x->item_of = ARENA_NEW(a, int, d->n_buffers);
    x->lasting_at = ARENA_NEW(a, int64_t, d->n_steps);
    x->fault_at = ARENA_NEW(a, int64_t, d->n_steps);
    x->staged = ARENA_NEW(a, struct cuda_staged, d->n_buffers);
    x->buf = ARENA_NEW(a, cu_ptr, d->n_buffers);
    x->maps = ARENA_NEW(a, struct cuda_map, p->n_maps);
    x->block = (int64_t *)arena_alloc(a, 1, p->block_bytes);
    x->parameters = ARENA_NEW(a, void *, 1 + p->most_maps);
    x->faults = ARENA_NEW(a, char, checks *(int64_t)sizeof(struct pk_cuda_fault));
    for (int i = 0; arena_ok(a) && i < d->n_buffers; i++) {
        x->item_of[i] = -1;
        if (d->buffers[i].place != RT_TEMP)
            x->staged[i].key = ARENA_NEW(a, int64_t, 3 + 2 * RT_VIEW_RANK);
        else if (p->first[i] <= p->last[i])
            x->item_of[i] = x->n_temps++;
    }
    x->n_items = x->n_temps + d->n_steps;
}

enum proem_status rt_cuda_exec_new(struct rt_cuda_program *p, struct rt_cuda_exec **out,
                                   struct err *e) {
    struct rt_cuda_exec *x = mem_alloc(p->alloc, 1, sizeof *x);
    if (x == NULL) return err_nomem(e);
    *x = (struct rt_cuda_exec){.program = p};
    arena_init(&x->arena, p->alloc);
    make_tables(x);
    if (arena_ok(&x->arena))
        x->tensor_maps = mem_alloc(p->alloc, (size_t)p->n_maps + 1, sizeof *x->tensor_maps);
    if (x->tensor_maps == NULL) {
        arena_free(&x->arena);
        mem_free(p->alloc, x, 1, sizeof *x);
        return err_nomem(e);
    }
    *out = x;
    return PROEM_OK;
}

void rt_cuda_exec_free(struct rt_cuda_exec *x) {
    if (x == NULL) return;
    struct rt_cuda_program *p = x->program;
    struct err ignored = {0};
    if (rt_cuda_enter(p->cuda, &ignored) == PROEM_OK) {
        if (x->launched) p->cuda->cu.context_wait();
        cuda_memory_free(p->cuda, &x->memory);
        cuda_memory_free(p->cuda, &x->lasting);
        for (int i = 0; i < p->desc.n_buffers; i++)
            cuda_memory_free(p->cuda, &x->staged[i].memory);
        rt_cuda_leave(p->cuda);
    }
    for (int i = 0; i < p->desc.n_buffers; i++)
        mem_free(p->alloc, x->staged[i].host, x->staged[i].host_size, 1);
    mem_free(p->alloc, x->tensor_maps, (size_t)p->n_maps + 1, sizeof *x->tensor_maps);
    arena_free(&x->arena);
    mem_free(p->alloc, x, 1, sizeof *x);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static enum proem_status too_large(const char *what, const char *name, struct err *e) {
    return err_set(e, PROEM_NOMEM, "%s '%s' needs more memory than can be addressed", what, name);
}

static enum proem_status size_temps(struct rt_cuda_exec *x, const struct rt_cuda_sizes *s,
                                    struct err *e) {
    const struct rt_cuda_program *p = x->program;
    for (int i = 0; i < p->desc.n_buffers; i++) {
        if (s->bytes[i] < 0 || s->bytes[i] > INT64_MAX / 4)
            return too_large("tensor", p->desc.buffers[i].name, e);
        int at = x->item_of[i];
        if (at >= 0) x->items[at] = (struct rt_item){s->bytes[i], p->first[i], p->last[i], 0};
    }
    return PROEM_OK;
}

/* Scratch of steps, in the arena or lasting, and the fault words behind that. */
static enum proem_status size_steps(struct rt_cuda_exec *x, const struct rt_cuda_sizes *s,
                                    bool *moved, struct err *e) {
    const struct rt_cuda_desc *d = &x->program->desc;
    int64_t at = 0;
    for (int i = 0; i < d->n_steps; i++) {
        const struct rt_cuda_step *step = &d->steps[i];
        if (s->scratch[i] < 0 || s->scratch[i] > INT64_MAX / 4 || at > INT64_MAX / 4)
            return too_large("scratch of kernel", step->name, e);
        int64_t mine = step->zeroed ? at : -1;
        x->items[x->n_temps + i] = (struct rt_item){step->zeroed ? 0 : s->scratch[i], i, i, 0};
        if (x->lasting_at[i] != mine) *moved = true;
        x->lasting_at[i] = mine;
        if (step->zeroed) at += round_up(s->scratch[i]);
    }
    if (x->faults_from != at) *moved = true;
    x->faults_from = at;
    for (int i = 0; i < d->n_steps; i++) {
        x->fault_at[i] = at;
        at += d->steps[i].n_checks * (int64_t)sizeof(struct pk_cuda_fault);
    }
    if (x->lasting_total != at) *moved = true;
    x->lasting_total = at;
    return PROEM_OK;
}

static enum proem_status fill_lasting(struct rt_cuda_exec *x, struct err *e) {
    struct rt_cuda *c = x->program->cuda;
    int64_t faults = x->lasting_total - x->faults_from;
    cu_result r = 0;
    if (x->faults_from > 0) r = c->cu.fill(x->lasting.at, 0, (size_t)x->faults_from, c->stream);
    if (r == 0 && faults > 0)
        r = c->cu.fill(x->lasting.at + (cu_ptr)x->faults_from, 0xFF, (size_t)faults, c->stream);
    if (r == 0) r = c->cu.stream_wait(c->stream);
    return rt_cuda_result(c, r, "filling memory", e);
}

/* Memory for what was planned. Nothing that runs may lose what it uses. */
static enum proem_status take_memory(struct rt_cuda_exec *x, bool moved, struct err *e) {
    struct rt_cuda *c = x->program->cuda;
    int64_t need = x->total > LINE ? x->total : LINE;
    bool grow = need > x->memory.size;
    if (x->launched && (grow || moved)) {
        TRY(rt_cuda_result(c, c->cu.context_wait(), "waiting for earlier runs", e));
        x->launched = false;
    }
    TRY(cuda_memory_grow(c, &x->memory, need, "intermediate results", e));
    if (!moved) return PROEM_OK;
    TRY(cuda_memory_grow(c, &x->lasting, x->lasting_total, "scratch", e));
    return fill_lasting(x, e);
}

static bool is_prepared_for(const struct rt_cuda_exec *x, const struct rt_cuda_sizes *s) {
    const struct rt_cuda_desc *d = &x->program->desc;
    return x->prepared && memcmp(x->sym, s->sym, (size_t)d->n_symbols * sizeof *s->sym) == 0 &&
           memcmp(x->bytes, s->bytes, (size_t)d->n_buffers * sizeof *s->bytes) == 0;
}

enum proem_status rt_cuda_exec_prepare(struct rt_cuda_exec *x, const struct rt_cuda_sizes *s,
                                       struct err *e) {
    struct rt_cuda_program *p = x->program;
    const struct rt_cuda_desc *d = &p->desc;
    if (is_prepared_for(x, s)) return PROEM_OK;
    bool moved = !x->prepared;
    x->prepared = false;
    TRY(size_temps(x, s, e));
    TRY(size_steps(x, s, &moved, e));
    TRY(rt_arena_plan(p->alloc, x->items, x->n_items, &x->total, e));
    x->sum = 0;
    for (int i = 0; i < x->n_items; i++)
        x->sum += round_up(x->items[i].bytes);
    TRY(rt_cuda_enter(p->cuda, e));
    enum proem_status status = take_memory(x, moved, e);
    rt_cuda_leave(p->cuda);
    if (status != PROEM_OK) return status;
    for (int i = 0; i < d->n_buffers; i++) {
        if (x->item_of[i] >= 0) x->buf[i] = x->memory.at + (cu_ptr)x->items[x->item_of[i]].offset;
        x->bytes[i] = s->bytes[i];
    }
    for (int i = 0; i < d->n_symbols; i++)
        x->sym[i] = s->sym[i];
    for (int i = 0; i < p->n_launches; i++)
        x->blocks[i] = s->blocks[i];
    for (int i = 0; i < p->n_maps; i++)
        x->maps[i] = (struct cuda_map){.extent = s->extent[i]};
    x->prepared = true;
    return PROEM_OK;
}

void rt_cuda_exec_memory(const struct rt_cuda_exec *x, struct rt_memory *out) {
    *out = (struct rt_memory){.arena = x->total + x->lasting_total, .sum = x->sum};
    for (int i = 0; i < x->program->desc.n_buffers; i++)
        out->staging += x->staged[i].memory.size;
}
