/* SPDX-License-Identifier: MIT
 * A run on a GPU: arguments bound, steps launched one after the other on the caller's stream.
 *
 * A tensor that is on the host, not compact, or not aligned to 16 bytes (kernels' wide accesses and
 * tensor maps count on it) goes through a copy in device memory; that of a constant is kept while
 * the constant stays where it is. Tensor maps are made for addresses, so they are made again only when
 * an address changed. Everything is ordered by the stream; only a run with a tensor on the host
 * waits for it.
 */
#include "rt/cuda/internal.h"

#include <string.h>

#define ALIGNMENT ((uintptr_t)16)

/* ---- arguments ------------------------------------------------------------------------------- */

static enum proem_status check_view(struct rt_cuda_exec *x, int b, const struct rt_view *v,
                                    struct err *e) {
    const struct rt_buffer *buffer = &x->program->desc.buffers[b];
    int64_t bytes, lo, hi;
    if (v->rank > RT_VIEW_RANK || !rt_view_bytes(v, &bytes) || !rt_view_extent(v, &lo, &hi))
        return err_set(e, PROEM_INVALID, "'%s': its rank, shape or strides are out of range",
                       buffer->name);
    if (v->bits != buffer->bits || bytes != x->bytes[b])
        return err_set(e, PROEM_INVALID, "'%s': %lld bytes are given where %lld are expected",
                       buffer->name, (long long)bytes, (long long)x->bytes[b]);
    if (v->data == NULL && bytes > 0)
        return err_set(e, PROEM_INVALID, "'%s': its data pointer is null", buffer->name);
    if (buffer->place == RT_OUTPUT && !rt_view_is_compact(v))
        return err_set(e, PROEM_INVALID, "output '%s' is not compact", buffer->name);
    return PROEM_OK;
}

static bool is_direct(const struct rt_cuda_view *v) {
    return v->on_device && !v->apart && (uintptr_t)v->view.data % ALIGNMENT == 0 &&
           rt_view_is_compact(&v->view);
}

/* The compact form of a tensor on the host. */
static enum proem_status host_copy(struct rt_cuda_exec *x, int b, const struct rt_view *v,
                                   const void **out, struct err *e) {
    struct cuda_staged *s = &x->staged[b];
    const struct allocator *alloc = x->program->alloc;
    size_t need = (size_t)x->bytes[b];
    if (s->host == NULL || s->host_size < need) {
        mem_free(alloc, s->host, s->host_size, 1);
        s->host = mem_alloc(alloc, need, 1);
        s->host_size = s->host != NULL ? need : 0;
        if (s->host == NULL) return err_nomem(e);
    }
    struct rt_view to = {.data = s->host, .bits = v->bits, .rank = v->rank, .shape = v->shape};
    *out = s->host;
    return rt_view_copy(&to, v, e);
}

static enum proem_status fill_staged(struct rt_cuda_exec *x, int b, const struct rt_cuda_view *v,
                                     struct err *e) {
    struct rt_cuda *c = x->program->cuda;
    cu_ptr to = x->staged[b].memory.at;
    size_t bytes = (size_t)x->bytes[b];
    const void *from = v->view.data;
    cu_result r;
    if (bytes == 0) return PROEM_OK;
    if (v->on_device && !rt_view_is_compact(&v->view)) {
        struct rt_view compact = v->view;
        compact.data = (void *)(uintptr_t)to;
        compact.strides = NULL;
        return cuda_view_copy(c, x->stream, &compact, &v->view, e);
    }
    if (v->on_device) {
        r = c->cu.copy(to, (cu_ptr)(uintptr_t)from, bytes, x->stream);
    } else {
        if (!rt_view_is_compact(&v->view)) TRY(host_copy(x, b, &v->view, &from, e));
        r = c->cu.copy_in(to, from, bytes, x->stream);
    }
    return rt_cuda_result(c, r, "copying an argument", e);
}

static enum proem_status stage(struct rt_cuda_exec *x, int b, const struct rt_cuda_view *v,
                               struct err *e) {
    struct rt_cuda *c = x->program->cuda;
    struct cuda_staged *s = &x->staged[b];
    enum rt_place place = x->program->desc.buffers[b].place;
    s->in_use = true;
    if (x->bytes[b] > s->memory.size || s->memory.at == 0) {
        s->kept = false;
        if (s->memory.at != 0) /* an earlier run may read it yet */
            TRY(rt_cuda_result(c, c->cu.context_wait(), "waiting for earlier runs", e));
        TRY(cuda_memory_grow(c, &s->memory, x->bytes[b] > 0 ? x->bytes[b] : 1,
                             x->program->desc.buffers[b].name, e));
    }
    x->buf[b] = s->memory.at;
    if (place == RT_OUTPUT) return PROEM_OK;
    int64_t key[3 + 2 * RT_VIEW_RANK];
    size_t n = rt_view_key(&v->view, key);
    if (place == RT_CONST && s->kept && n == s->n_key && memcmp(key, s->key, n * sizeof *key) == 0)
        return PROEM_OK;
    s->kept = false;
    TRY(fill_staged(x, b, v, e));
    memcpy(s->key, key, n * sizeof *key);
    s->n_key = n;
    s->kept = place == RT_CONST;
    return PROEM_OK;
}

static enum proem_status bind(struct rt_cuda_exec *x, const struct rt_cuda_view *views,
                              bool *on_host, struct err *e) {
    const struct rt_cuda_desc *d = &x->program->desc;
    for (int b = 0; b < d->n_buffers; b++) {
        if (d->buffers[b].place == RT_TEMP) continue;
        TRY(check_view(x, b, &views[b].view, e));
        x->staged[b].in_use = false;
        if (!views[b].on_device) *on_host = true;
        if (is_direct(&views[b])) {
            /* An empty tensor may have no memory; kernels get an address anyway. */
            void *data = views[b].view.data;
            x->buf[b] = data != NULL ? (cu_ptr)(uintptr_t)data : x->memory.at;
        } else {
            TRY(stage(x, b, &views[b], e));
        }
    }
    return PROEM_OK;
}

static enum proem_status deliver(struct rt_cuda_exec *x, const struct rt_cuda_view *views,
                                 struct err *e) {
    const struct rt_cuda_desc *d = &x->program->desc;
    struct rt_cuda *c = x->program->cuda;
    for (int b = 0; b < d->n_buffers; b++) {
        if (d->buffers[b].place != RT_OUTPUT || !x->staged[b].in_use || x->bytes[b] == 0) continue;
        void *to = views[b].view.data;
        size_t n = (size_t)x->bytes[b];
        cu_result r = views[b].on_device
                          ? c->cu.copy((cu_ptr)(uintptr_t)to, x->buf[b], n, x->stream)
                          : c->cu.copy_out(to, x->buf[b], n, x->stream);
        TRY(rt_cuda_result(c, r, "copying a result", e));
    }
    return PROEM_OK;
}

/* The bits behind the last element of a sub-byte output are 0: kernels leave what was there. */
static enum proem_status clear_unused_bits(struct rt_cuda_exec *x, const struct rt_cuda_view *views,
                                           struct err *e) {
    const struct rt_cuda_desc *d = &x->program->desc;
    for (int b = 0; b < d->n_buffers; b++) {
        const struct rt_view *v = &views[b].view;
        if (d->buffers[b].place != RT_OUTPUT || v->bits >= 8 || x->bytes[b] <= 0) continue;
        int64_t n = 1; /* modulo 8: more does not matter */
        for (int i = 0; i < v->rank; i++)
            n = n * (v->shape[i] % 8) % 8;
        int used = (int)(n * v->bits % 8);
        if (used == 0) continue;
        cu_ptr last = x->buf[b] + (cu_ptr)x->bytes[b] - 1;
        TRY(cuda_keep_bits(x->program->cuda, x->stream, last, used, e));
    }
    return PROEM_OK;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Make tensor map i of a launch for the argument's address. */
static enum proem_status encode_map(struct rt_cuda_exec *x, const struct cuda_launch *l,
                                    const struct rt_cuda_map *m, int i, int b, struct err *e) {
    struct rt_cuda *c = x->program->cuda;
    const struct rt_buffer *buffer = &x->program->desc.buffers[b];
    const struct rt_cuda_extent *ext = &x->maps[i].extent;
    if (x->maps[i].at == x->buf[b]) return PROEM_OK;
    uint64_t dims[5], strides[5];
    uint32_t box[5], steps[5];
    static const int sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2}; /* by enum rt_cuda_type */
    int64_t size = sizes[m->type];
    bool empty = false; /* no kernel reads through it, but it must be one: kernels prefetch maps */
    for (int k = 0; k < m->rank; k++)
        empty = empty || ext->dims[k] == 0;
    for (int k = 0; k < m->rank; k++) {
        dims[k] = empty ? 1 : (uint64_t)ext->dims[k];
        strides[k] = empty ? ALIGNMENT : (uint64_t)(ext->strides[k] * size);
        box[k] = (uint32_t)m->box[k];
        steps[k] = 1;
    }
    static const int swizzles[] = {0, 1, 2, 0, 3}; /* by bytes / 32 */
    const void *at = (const void *)(uintptr_t)(x->buf[b] + (cu_ptr)(ext->offset * size));
    cu_result r =
        c->cu.tensor_map(&x->tensor_maps[i], m->type, (uint32_t)m->rank, (void *)(uintptr_t)at,
                         dims, strides + 1, box, steps, 0, swizzles[m->swizzle / 32], 2, 0);
    if (r == 0) {
        x->maps[i].at = x->buf[b];
        return PROEM_OK;
    }
    struct err text = {0};
    rt_cuda_result(c, r, "cuTensorMapEncodeTiled", &text);
    return err_set(e, PROEM_INTERNAL, "kernel '%s', tensor '%s': %s", l->desc.entry, buffer->name,
                   text.text);
}

static enum proem_status launch_one(struct rt_cuda_exec *x, int step, int index, struct err *e) {
    struct rt_cuda *c = x->program->cuda;
    const struct rt_cuda_step *s = &x->program->desc.steps[step];
    const struct cuda_launch *l = &x->program->launches[index];
    int64_t blocks = x->blocks[index], cluster = l->desc.cluster;
    if (blocks <= 0) return PROEM_OK;
    blocks = (blocks + cluster - 1) / cluster * cluster;
    int64_t most = (int64_t)l->desc.per_sm * c->desc.gpu.sms / cluster * cluster;
    if (l->desc.per_sm > 0 && blocks > most) blocks = most > 0 ? most : cluster;
    if (blocks > INT32_MAX)
        return err_set(e, PROEM_UNSUPPORTED, "kernel '%s' needs %lld blocks; a grid has fewer",
                       l->desc.entry, (long long)blocks);
    x->parameters[0] = x->block;
    for (int i = 0; i < l->desc.n_maps; i++) {
        const struct rt_cuda_map *m = &l->desc.maps[i];
        int at = x->program->first_map[index] + i;
        TRY(encode_map(x, l, m, at, s->args[m->arg], e));
        x->parameters[1 + i] = &x->tensor_maps[at];
    }
    cu_launch_attribute clusters = {.id = CU_LAUNCH_CLUSTER};
    clusters.value.cluster.x = (unsigned)cluster;
    clusters.value.cluster.y = clusters.value.cluster.z = 1;
    cu_launch_config config = {.grid_x = (unsigned)blocks,
                               .grid_y = 1,
                               .grid_z = 1,
                               .block_x = (unsigned)l->desc.threads,
                               .block_y = 1,
                               .block_z = 1,
                               .shared_bytes = (unsigned)l->desc.shared,
                               .stream = x->stream,
                               .attributes = &clusters,
                               .n_attributes = cluster > 1};
    return rt_cuda_result(c, c->cu.launch(&config, l->function, x->parameters, NULL), l->desc.entry,
                          e);
}

/* buf[], sym[], scratch, fault: eight bytes each. */
static void fill_block(struct rt_cuda_exec *x, int step) {
    const struct rt_cuda_desc *d = &x->program->desc;
    const struct rt_cuda_step *s = &d->steps[step];
    int64_t *to = x->block;
    for (int i = 0; i < s->n_args; i++)
        *to++ = (int64_t)x->buf[s->args[i]];
    if (s->n_args == 0) *to++ = 0;
    for (int i = 0; i < d->n_symbols; i++)
        *to++ = x->sym[i];
    if (d->n_symbols == 0) *to++ = 0;
    int64_t scratch = x->items[x->n_temps + step].offset;
    *to++ =
        s->zeroed ? (int64_t)x->lasting.at + x->lasting_at[step] : (int64_t)x->memory.at + scratch;
    *to = (int64_t)x->lasting.at + x->fault_at[step];
}

static enum proem_status poison_new(struct rt_cuda_exec *x, int step, struct err *e) {
    struct rt_cuda *c = x->program->cuda;
    for (int i = 0; i < x->n_items; i++) {
        const struct rt_item *item = &x->items[i];
        if (item->first != step || item->bytes == 0) continue;
        cu_result r =
            c->cu.fill(x->memory.at + (cu_ptr)item->offset, 0xFF, (size_t)item->bytes, x->stream);
        TRY(rt_cuda_result(c, r, "filling memory", e));
    }
    return PROEM_OK;
}

static enum proem_status launch_all(struct rt_cuda_exec *x, struct err *e) {
    const struct rt_cuda_program *p = x->program;
    for (int i = 0; i < p->desc.n_steps; i++) {
        fill_block(x, i);
        if (p->desc.poison) TRY(poison_new(x, i, e));
        for (int j = 0; j < p->desc.steps[i].n_launches; j++)
            TRY(launch_one(x, i, p->first_launch[i] + j, e));
    }
    return PROEM_OK;
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* Read the fault words, and make them ready for the next run if one is set. */
static enum proem_status check_faults(struct rt_cuda_exec *x, struct rt_fault *fault,
                                      struct err *e) {
    const struct rt_cuda_desc *d = &x->program->desc;
    struct rt_cuda *c = x->program->cuda;
    size_t n = (size_t)(x->lasting_total - x->faults_from);
    cu_ptr from = x->lasting.at + (cu_ptr)x->faults_from;
    if (n == 0) return PROEM_OK;
    cu_result r = c->cu.copy_out(x->faults, from, n, x->stream);
    if (r == 0) r = c->cu.stream_wait(x->stream);
    TRY(rt_cuda_result(c, r, "reading what the checks found", e));
    for (int i = 0; i < d->n_steps; i++) {
        for (int j = 0; j < d->steps[i].n_checks; j++) {
            struct pk_cuda_fault f;
            int64_t at = x->fault_at[i] - x->faults_from + j * (int64_t)sizeof f;
            memcpy(&f, x->faults + at, sizeof f);
            if (f.index < 0) continue;
            r = c->cu.fill(from, 0xFF, n, x->stream);
            TRY(rt_cuda_result(c, r, "filling memory", e));
            struct rt_fault found = {i, {j, f.index, f.value, f.bound}};
            if (fault != NULL) *fault = found;
            return err_set(e, PROEM_DATA,
                           "kernel '%s': check %d fails at position %lld: value %lld, bound %lld",
                           d->steps[i].name, j, f.index, f.value, f.bound);
        }
    }
    return PROEM_OK;
}

static enum proem_status wait_and_check(struct rt_cuda_exec *x, struct rt_fault *fault,
                                        struct err *e) {
    struct rt_cuda *c = x->program->cuda;
    TRY(rt_cuda_result(c, c->cu.stream_wait(x->stream), "running the kernels", e));
    x->launched = false;
    return check_faults(x, fault, e);
}

enum proem_status rt_cuda_exec_check(struct rt_cuda_exec *x, struct rt_fault *fault,
                                     struct err *e) {
    if (!x->launched) return PROEM_OK;
    TRY(rt_cuda_enter(x->program->cuda, e));
    enum proem_status s = wait_and_check(x, fault, e);
    rt_cuda_leave(x->program->cuda);
    return s;
}

/* ---- the run --------------------------------------------------------------------------------- */

static enum proem_status run(struct rt_cuda_exec *x, const struct rt_cuda_view *views,
                             struct rt_fault *fault, struct err *e) {
    bool on_host = false;
    x->launched = true;
    TRY(bind(x, views, &on_host, e));
    TRY(launch_all(x, e));
    TRY(clear_unused_bits(x, views, e));
    TRY(deliver(x, views, e));
    return on_host ? wait_and_check(x, fault, e) : PROEM_OK;
}

enum proem_status rt_cuda_exec_run(struct rt_cuda_exec *x, void *stream,
                                   const struct rt_cuda_view *views, struct rt_fault *fault,
                                   struct err *e) {
    if (!x->prepared) return err_set(e, PROEM_INTERNAL, "a run before its sizes are known");
    TRY(rt_cuda_enter(x->program->cuda, e));
    x->stream = stream;
    enum proem_status s = run(x, views, fault, e);
    rt_cuda_leave(x->program->cuda);
    return s;
}
