/* SPDX-License-Identifier: MIT
 * A program for a GPU: the checked copy of its description, and its functions on the device.
 *
 * Lives of buffers follow from the steps' arguments, as for CPUs. Each function is told how much
 * dynamic shared memory it may get; where the driver can tell how long a function's argument block
 * is, it must be the one that is passed.
 */
#include "rt/cuda/internal.h"

#define SHARED_UNASKED   (48 * 1024) /* what a block gets without asking */
#define CLUSTER_PORTABLE 8

/* ---- checks ---------------------------------------------------------------------------------- */

static bool map_ok(const struct rt_cuda_map *m, int n_args) {
    bool ok = m->arg >= 0 && m->arg < n_args && m->rank >= 1 && m->rank <= 5;
    ok = ok && m->type >= 0 && m->type <= RT_CUDA_BF16;
    ok = ok && (m->swizzle == 0 || m->swizzle == 32 || m->swizzle == 64 || m->swizzle == 128);
    for (int i = 0; ok && i < m->rank; i++)
        ok = m->box[i] >= 1 && m->box[i] <= 256;
    return ok;
}

static bool launch_ok(const struct rt_cuda_launch *l, int n_args) {
    bool ok = l->entry != NULL && l->threads >= 1 && l->threads <= 1024;
    ok = ok && l->cluster >= 1 && l->cluster <= 16 && l->shared >= 0 && l->n_maps >= 0;
    for (int i = 0; ok && i < l->n_maps; i++)
        ok = map_ok(&l->maps[i], n_args);
    return ok;
}

static bool step_ok(const struct rt_cuda_desc *d, const struct rt_cuda_step *s) {
    bool ok = s->cubin != NULL && s->name != NULL && s->n_args >= 0 && s->n_checks >= 0;
    for (int i = 0; ok && i < s->n_args; i++)
        ok = s->args[i] >= 0 && s->args[i] < d->n_buffers;
    for (int i = 0; ok && i < s->n_launches; i++)
        ok = launch_ok(&s->launches[i], s->n_args);
    return ok;
}

static enum proem_status check(const struct rt_cuda_desc *d, struct err *e) {
    for (int i = 0; i < d->n_buffers; i++) {
        const struct rt_buffer *b = &d->buffers[i];
        if (b->name == NULL || b->bits <= 0 || b->bits > 64)
            return err_set(e, PROEM_INTERNAL, "program: buffer %d is wrong", i);
    }
    for (int i = 0; i < d->n_steps; i++) {
        if (!step_ok(d, &d->steps[i]))
            return err_set(e, PROEM_INTERNAL, "program: step %d is wrong", i);
    }
    return PROEM_OK;
}

/* ---- the copy -------------------------------------------------------------------------------- */

static void copy_launch(struct arena *a, const struct rt_cuda_launch *from,
                        struct cuda_launch *to) {
    struct rt_cuda_map *maps = ARENA_NEW(a, struct rt_cuda_map, from->n_maps);
    for (int i = 0; maps != NULL && i < from->n_maps; i++)
        maps[i] = from->maps[i];
    to->desc = *from;
    to->desc.maps = maps;
    to->desc.entry = arena_strdup(a, from->entry);
}

static void copy_steps(struct rt_cuda_program *p, const struct rt_cuda_desc *d) {
    struct arena *a = &p->arena;
    struct rt_cuda_step *steps = ARENA_NEW(a, struct rt_cuda_step, d->n_steps);
    for (int i = 0; i < d->n_steps; i++)
        p->n_launches += d->steps[i].n_launches;
    p->launches = ARENA_NEW(a, struct cuda_launch, p->n_launches);
    p->first_launch = ARENA_NEW(a, int, d->n_steps);
    p->first_map = ARENA_NEW(a, int, p->n_launches);
    if (!arena_ok(a)) return;
    int at = 0;
    for (int i = 0; i < d->n_steps; i++) {
        const struct rt_cuda_step *from = &d->steps[i];
        int *args = ARENA_NEW(a, int, from->n_args);
        for (int j = 0; args != NULL && j < from->n_args; j++)
            args[j] = from->args[j];
        steps[i] = *from;
        steps[i].name = arena_strdup(a, from->name);
        steps[i].args = args;
        steps[i].launches = NULL;
        p->first_launch[i] = at;
        for (int j = 0; j < from->n_launches; j++, at++) {
            copy_launch(a, &from->launches[j], &p->launches[at]);
            p->first_map[at] = p->n_maps;
            p->n_maps += from->launches[j].n_maps;
            if (from->launches[j].n_maps > p->most_maps) p->most_maps = from->launches[j].n_maps;
        }
    }
    p->desc.steps = steps;
}

static size_t block_bytes(const struct rt_cuda_desc *d, const struct rt_cuda_step *s) {
    size_t args = s->n_args > 0 ? (size_t)s->n_args : 1;
    size_t symbols = d->n_symbols > 0 ? (size_t)d->n_symbols : 1;
    return 8 * (args + symbols + 2);
}

static void copy_description(struct rt_cuda_program *p, const struct rt_cuda_desc *d) {
    struct arena *a = &p->arena;
    p->desc = *d;
    struct rt_buffer *buffers = ARENA_NEW(a, struct rt_buffer, d->n_buffers);
    struct rt_cubin **cubins = ARENA_NEW(a, struct rt_cubin *, d->n_cubins);
    p->first = ARENA_NEW(a, int, d->n_buffers);
    p->last = ARENA_NEW(a, int, d->n_buffers);
    copy_steps(p, d);
    if (!arena_ok(a)) return;
    for (int i = 0; i < d->n_buffers; i++) {
        buffers[i] = d->buffers[i];
        buffers[i].name = arena_strdup(a, d->buffers[i].name);
        p->first[i] = d->n_steps;
        p->last[i] = -1;
    }
    for (int i = 0; i < d->n_cubins; i++)
        cubins[i] = d->cubins[i];
    p->desc.buffers = buffers;
    p->desc.cubins = cubins;
    for (int i = 0; i < d->n_steps; i++) {
        const struct rt_cuda_step *s = &d->steps[i];
        for (int j = 0; j < s->n_args; j++) {
            if (p->first[s->args[j]] > i) p->first[s->args[j]] = i;
            p->last[s->args[j]] = i;
        }
        if (block_bytes(d, s) > p->block_bytes) p->block_bytes = block_bytes(d, s);
    }
}

/* ---- functions ------------------------------------------------------------------------------- */

static enum proem_status check_block(struct rt_cuda_program *p, const struct rt_cuda_step *s,
                                     const struct cuda_launch *l, struct err *e) {
    size_t offset = 0, size = 0, want = block_bytes(&p->desc, s);
    const struct cu_functions *cu = &p->cuda->cu;
    if (cu->parameter == NULL || cu->parameter(l->function, 0, &offset, &size) != 0)
        return PROEM_OK;
    if (size == want) return PROEM_OK;
    return err_set(e, PROEM_INTERNAL, "kernel '%s': its argument block has %zu bytes, not %zu",
                   l->desc.entry, size, want);
}

static enum proem_status get_functions(struct rt_cuda_program *p, struct err *e) {
    struct rt_cuda *c = p->cuda;
    for (int i = 0; i < p->desc.n_steps; i++) {
        const struct rt_cuda_step *s = &p->desc.steps[i];
        for (int j = 0; j < s->n_launches; j++) {
            struct cuda_launch *l = &p->launches[p->first_launch[i] + j];
            if (l->desc.shared > c->desc.gpu.shared_block)
                return err_set(e, PROEM_DEVICE,
                               "kernel '%s' needs %d bytes of shared memory; %s has %lld",
                               l->desc.entry, l->desc.shared, c->device_name,
                               (long long)c->desc.gpu.shared_block);
            TRY(rt_cubin_function(s->cubin, l->desc.entry, &l->function, e));
            TRY(check_block(p, s, l, e));
            cu_result r = 0;
            if (l->desc.shared > SHARED_UNASKED)
                r = c->cu.function_set(l->function, CU_FUNCTION_DYNAMIC_SHARED, l->desc.shared);
            if (r == 0 && l->desc.cluster > CLUSTER_PORTABLE)
                r = c->cu.function_set(l->function, CU_FUNCTION_LARGE_CLUSTER, 1);
            TRY(rt_cuda_result(c, r, l->desc.entry, e));
        }
    }
    return PROEM_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

enum proem_status rt_cuda_program_new(struct rt_cuda *c, const struct rt_cuda_desc *d,
                                      struct rt_cuda_program **out, struct err *e) {
    TRY(check(d, e));
    TRY(rt_cuda_open(c, e));
    struct rt_cuda_program *p = mem_alloc(c->alloc, 1, sizeof *p);
    if (p == NULL) return err_nomem(e);
    *p = (struct rt_cuda_program){.cuda = c, .alloc = c->alloc};
    arena_init(&p->arena, c->alloc);
    copy_description(p, d);
    enum proem_status s = arena_ok(&p->arena) ? rt_cuda_enter(c, e) : err_nomem(e);
    if (s == PROEM_OK) {
        s = get_functions(p, e);
        rt_cuda_leave(c);
    }
    if (s != PROEM_OK) {
        arena_free(&p->arena);
        mem_free(c->alloc, p, 1, sizeof *p);
        return s;
    }
    for (int i = 0; i < d->n_cubins; i++)
        rt_cubin_ref(d->cubins[i]);
    *out = p;
    return PROEM_OK;
}

void rt_cuda_program_free(struct rt_cuda_program *p) {
    if (p == NULL) return;
    for (int i = 0; i < p->desc.n_cubins; i++)
        rt_cubin_unref(p->desc.cubins[i]);
    arena_free(&p->arena);
    mem_free(p->alloc, p, 1, sizeof *p);
}

int rt_cuda_program_launches(const struct rt_cuda_program *p) {
    return p->n_launches;
}

int rt_cuda_program_maps(const struct rt_cuda_program *p) {
    return p->n_maps;
}
