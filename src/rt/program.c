/* SPDX-License-Identifier: MIT
 * A program: the checked copy of its description, and the life of each buffer.
 *
 * What executions share is here: the description, which nobody changes, and the packed constants,
 * which have a lock (pack.c). Lives follow from the steps' arguments, so they cannot be wrong: a
 * temporary lives from the first step that names it to the last.
 */
#include "rt/rt_internal.h"

static enum proem_status check_buffers(const struct rt_program_desc *d, struct err *e) {
    for (int i = 0; i < d->n_buffers; i++) {
        const struct rt_buffer *b = &d->buffers[i];
        int in = b->may_alias;
        bool alias_ok =
            in < 0 || (in < d->n_buffers && b->place == RT_OUTPUT &&
                       (d->buffers[in].place == RT_INPUT || d->buffers[in].place == RT_CONST));
        if (b->name == NULL || b->bits <= 0 || b->bits > 64 || !alias_ok) {
            return err_set(e, PROEM_INTERNAL, "program: buffer %d is wrong", i);
        }
    }
    return PROEM_OK;
}

static bool indices_ok(const int *index, int n, int limit) {
    if (n < 0 || (n > 0 && index == NULL)) return false;
    for (int i = 0; i < n; i++) {
        if (index[i] < 0 || index[i] >= limit) return false;
    }
    return true;
}

static enum proem_status check_steps(const struct rt_program_desc *d, struct err *e) {
    for (int i = 0; i < d->n_steps; i++) {
        const struct rt_step *s = &d->steps[i];
        bool ok = s->kernel != NULL && indices_ok(s->args, s->n_args, d->n_buffers);
        for (int o = 0; ok && s->operands != NULL && o < s->kernel->operands; o++) {
            ok = indices_ok(s->operands[o].buffers, s->operands[o].n, d->n_buffers);
        }
        if (!ok) return err_set(e, PROEM_INTERNAL, "program: step %d is wrong", i);
    }
    return PROEM_OK;
}

static const int *copy_ints(struct arena *a, const int *from, int n) {
    int *to = ARENA_NEW(a, int, (size_t)n);
    for (int i = 0; to != NULL && i < n; i++)
        to[i] = from[i];
    return to;
}

/* An operand counts as packed only if all that it reads is constant. */
static void copy_operands(struct arena *a, const struct rt_program_desc *d, struct rt_step *s) {
    int n = s->kernel->operands;
    const struct rt_operand *from = s->operands;
    struct rt_operand *to = ARENA_NEW(a, struct rt_operand, (size_t)n);
    s->operands = to;
    for (int o = 0; to != NULL && from != NULL && o < n; o++) {
        bool constant = from[o].n > 0;
        for (int j = 0; j < from[o].n; j++) {
            if (d->buffers[from[o].buffers[j]].place != RT_CONST) constant = false;
        }
        if (!constant) continue;
        to[o] = (struct rt_operand){from[o].n, copy_ints(a, from[o].buffers, from[o].n)};
    }
}

static void copy_description(struct rt_program *p, const struct rt_program_desc *d) {
    struct arena *a = &p->arena;
    struct rt_buffer *buffers = ARENA_NEW(a, struct rt_buffer, (size_t)d->n_buffers);
    struct rt_step *steps = ARENA_NEW(a, struct rt_step, (size_t)d->n_steps);
    struct rt_module **modules = ARENA_NEW(a, struct rt_module *, (size_t)d->n_modules);
    if (buffers == NULL || steps == NULL || modules == NULL) return;
    for (int i = 0; i < d->n_buffers; i++) {
        buffers[i] = d->buffers[i];
        buffers[i].name = arena_strdup(a, d->buffers[i].name);
    }
    for (int i = 0; i < d->n_steps; i++) {
        steps[i] = d->steps[i];
        steps[i].args = copy_ints(a, d->steps[i].args, d->steps[i].n_args);
        copy_operands(a, d, &steps[i]);
    }
    for (int i = 0; i < d->n_modules; i++)
        modules[i] = d->modules[i];
    p->desc = *d;
    p->desc.buffers = buffers;
    p->desc.steps = steps;
    p->desc.modules = modules;
}

bool rt_step_packs(const struct rt_step *s, int o) {
    return s->operands[o].n > 0;
}

/* Lives, and the sizes of what an execution needs for any step. */
static void derive(struct rt_program *p) {
    const struct rt_program_desc *d = &p->desc;
    p->first = ARENA_NEW(&p->arena, int, (size_t)d->n_buffers);
    p->last = ARENA_NEW(&p->arena, int, (size_t)d->n_buffers);
    p->first_operand = ARENA_NEW(&p->arena, int, (size_t)d->n_steps);
    if (!arena_ok(&p->arena)) return;
    for (int i = 0; i < d->n_buffers; i++) {
        p->first[i] = d->n_steps;
        p->last[i] = -1;
    }
    for (int i = 0; i < d->n_steps; i++) {
        const struct rt_step *s = &d->steps[i];
        for (int j = 0; j < s->n_args; j++) {
            if (p->first[s->args[j]] > i) p->first[s->args[j]] = i;
            p->last[s->args[j]] = i;
        }
        p->first_operand[i] = p->n_operands;
        p->n_operands += s->kernel->operands;
        if (s->n_args > p->most_args) p->most_args = s->n_args;
        if (s->kernel->operands > p->most_operands) p->most_operands = s->kernel->operands;
        for (int o = 0; o < s->kernel->operands; o++) {
            size_t n = (size_t)s->operands[o].n * (3 + 2 * RT_VIEW_RANK);
            if (n > p->longest_key) p->longest_key = n;
        }
    }
    p->blobs = ARENA_NEW(&p->arena, struct rt_blob *, (size_t)p->n_operands);
}

enum proem_status rt_program_new(const struct allocator *alloc, const struct rt_program_desc *desc,
                                 struct rt_program **out, struct err *e) {
    TRY(check_buffers(desc, e));
    TRY(check_steps(desc, e));
    struct rt_program *p = mem_alloc(alloc, 1, sizeof *p);
    if (p == NULL) return err_nomem(e);
    *p = (struct rt_program){.alloc = alloc};
    arena_init(&p->arena, alloc);
    copy_description(p, desc);
    if (arena_ok(&p->arena)) derive(p);
    if (!arena_ok(&p->arena) || pthread_mutex_init(&p->lock, NULL) != 0) {
        arena_free(&p->arena);
        mem_free(alloc, p, 1, sizeof *p);
        return err_nomem(e);
    }
    for (int i = 0; i < desc->n_modules; i++)
        rt_module_ref(desc->modules[i]);
    *out = p;
    return PROEM_OK;
}

void rt_program_free(struct rt_program *p) {
    if (p == NULL) return;
    for (int i = 0; i < p->n_operands; i++)
        rt_blob_drop(p, p->blobs[i]);
    for (int i = 0; i < p->desc.n_modules; i++)
        rt_module_unref(p->desc.modules[i]);
    pthread_mutex_destroy(&p->lock);
    arena_free(&p->arena);
    mem_free(p->alloc, p, 1, sizeof *p);
}
