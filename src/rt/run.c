/* SPDX-License-Identifier: MIT
 * One run of a prepared execution: bind the arguments, launch the steps, deliver the outputs.
 *
 * Kernels see compact tensors only. An argument that is not compact, or not aligned to its element,
 * is copied before the first step or after the last; the copy of a constant is kept while the
 * constant stays where it is. Data checks of a step run just before it, so the first failure in
 * order of steps is the one reported.
 */
#include "rt/rt_internal.h"

#include <string.h>

/* ---- arguments ------------------------------------------------------------------------------- */

static enum proem_status check_view(struct rt_exec *x, int b, const struct rt_view *v,
                                    struct err *e) {
    const struct rt_buffer *buffer = &x->program->desc.buffers[b];
    int64_t bytes, lo, hi;
    if (!rt_view_bytes(v, &bytes) || !rt_view_extent(v, &lo, &hi)) {
        return err_set(e, PROEM_INVALID, "'%s': its rank, shape or strides are out of range",
                       buffer->name);
    }
    if (v->bits != buffer->bits || bytes != x->bytes[b]) {
        return err_set(e, PROEM_INVALID, "'%s': %lld bytes are given where %lld are expected",
                       buffer->name, (long long)bytes, (long long)x->bytes[b]);
    }
    if (v->data == NULL && bytes > 0) {
        return err_set(e, PROEM_INVALID, "'%s': its data pointer is null", buffer->name);
    }
    x->lo[b] = (uintptr_t)v->data + (uintptr_t)lo;
    x->hi[b] = (uintptr_t)v->data + (uintptr_t)hi;
    return PROEM_OK;
}

static bool is_direct(const struct rt_view *v) {
    uintptr_t size = (uintptr_t)(v->bits < 8 ? 1 : v->bits / 8);
    if ((size & (size - 1)) == 0 && (uintptr_t)v->data % size != 0) return false;
    return rt_view_is_compact(v);
}

static struct rt_view compact_view(const struct rt_view *v, void *data) {
    return (struct rt_view){.data = data, .bits = v->bits, .rank = v->rank, .shape = v->shape};
}

static enum proem_status stage(struct rt_exec *x, int b, const struct rt_view *v, struct err *e) {
    struct rt_staged *s = &x->staged[b];
    const struct allocator *alloc = x->program->alloc;
    enum rt_place place = x->program->desc.buffers[b].place;
    size_t need = (size_t)x->bytes[b];
    s->in_use = true;
    if (need > s->capacity || s->data == NULL) {
        mem_free(alloc, s->data, s->capacity, 1);
        s->capacity = 0;
        s->kept = false;
        s->data = mem_alloc(alloc, need, 1);
        if (s->data == NULL) return err_nomem(e);
        s->capacity = need;
    }
    x->buf[b] = s->data;
    if (place == RT_OUTPUT) return PROEM_OK;
    int64_t key[3 + 2 * RT_VIEW_RANK];
    size_t n = rt_view_key(v, key);
    if (place == RT_CONST && s->kept && n == s->n_key &&
        memcmp(key, s->key, n * sizeof *key) == 0) {
        return PROEM_OK;
    }
    s->kept = false;
    struct rt_view to = compact_view(v, s->data);
    TRY(rt_view_copy(&to, v, e));
    memcpy(s->key, key, n * sizeof *key);
    s->n_key = n;
    s->kept = place == RT_CONST;
    return PROEM_OK;
}

static enum proem_status bind(struct rt_exec *x, const struct rt_view *views, struct err *e) {
    const struct rt_program_desc *d = &x->program->desc;
    for (int b = 0; b < d->n_buffers; b++) {
        if (d->buffers[b].place == RT_TEMP) continue;
        TRY(check_view(x, b, &views[b], e));
        x->staged[b].in_use = false;
        if (is_direct(&views[b])) {
            /* An empty tensor may have no memory; kernels get an address anyway. */
            x->buf[b] = views[b].data != NULL ? views[b].data : x->memory;
        } else {
            TRY(stage(x, b, &views[b], e));
        }
    }
    return PROEM_OK;
}

static enum proem_status check_overlap(const struct rt_exec *x, const struct rt_view *views,
                                       struct err *e) {
    const struct rt_program_desc *d = &x->program->desc;
    for (int o = 0; o < d->n_buffers; o++) {
        if (d->buffers[o].place != RT_OUTPUT) continue;
        for (int b = 0; b < d->n_buffers; b++) {
            enum rt_place place = d->buffers[b].place;
            if (b == o || place == RT_TEMP || (place == RT_OUTPUT && b < o)) continue;
            if (x->hi[o] <= x->lo[b] || x->hi[b] <= x->lo[o]) continue;
            if (!rt_views_overlap(&views[o], &views[b])) continue;
            if (b == d->buffers[o].may_alias && rt_views_equal(&views[o], &views[b])) continue;
            return err_set(e, PROEM_INVALID,
                           "output '%s' overlaps %s '%s' in memory; give it memory of its own%s",
                           d->buffers[o].name, place == RT_OUTPUT ? "output" : "input",
                           d->buffers[b].name,
                           place == RT_OUTPUT ? "" : ", or write `return .. in` in the graph");
        }
    }
    return PROEM_OK;
}

static enum proem_status deliver(struct rt_exec *x, const struct rt_view *views, struct err *e) {
    const struct rt_program_desc *d = &x->program->desc;
    for (int b = 0; b < d->n_buffers; b++) {
        if (d->buffers[b].place != RT_OUTPUT || !x->staged[b].in_use) continue;
        struct rt_view from = compact_view(&views[b], x->staged[b].data);
        TRY(rt_view_copy(&views[b], &from, e));
    }
    return PROEM_OK;
}

/* ---- poison ---------------------------------------------------------------------------------- */

static void poison_new(struct rt_exec *x, int step) {
    for (int i = 0; i < x->n_items; i++) {
        const struct rt_item *item = &x->items[i];
        if (item->first == step) memset(x->memory + item->offset, 0xFF, (size_t)item->bytes);
    }
}

static bool all_ones(const char *p, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++) {
        if ((unsigned char)p[i] != 0xFF) return false;
    }
    return true;
}

/* The name of what was written past its end, NULL if nothing was. */
static const char *broken_guard(const struct rt_exec *x, int step) {
    const struct rt_program_desc *d = &x->program->desc;
    for (int b = 0; b < d->n_buffers; b++) {
        int i = x->item_of[b];
        if (i < 0 || x->items[i].first > step || x->items[i].last < step) continue;
        const char *p = x->memory + x->items[i].offset;
        if (!all_ones(p, x->used[i], x->items[i].bytes)) return d->buffers[b].name;
    }
    int at = x->n_temps + 2 * step;
    const char *shared = x->memory + x->items[at].offset;
    if (!all_ones(shared, x->used[at], x->items[at].bytes)) return "shared scratch";
    const char *local = x->memory + x->items[at + 1].offset;
    int64_t stride = (int64_t)x->local_stride[step];
    for (int64_t t = 0; stride > 0 && t < x->items[at + 1].bytes; t += stride) {
        if (!all_ones(local, t + x->used[at + 1], t + stride)) return "local scratch";
    }
    return NULL;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static enum proem_status pack_operands(struct rt_exec *x, int step, struct pk_args *args,
                                       const struct rt_view *views, struct err *e) {
    struct rt_program *p = x->program;
    const struct rt_step *s = &p->desc.steps[step];
    for (int o = 0; o < s->kernel->operands; o++) {
        x->packed[o] = NULL;
        if (!rt_step_packs(s, o)) continue;
        struct rt_blob **held = &x->blobs[p->first_operand[step] + o];
        TRY(rt_pack_operand(p, x->pool, step, o, views, args, x->local_stride[step], x->key, held,
                            e));
        x->packed[o] = (*held)->data;
    }
    args->packed = x->packed;
    return PROEM_OK;
}

static enum proem_status check_data(const struct pk_kernel *k, const struct pk_args *args, int step,
                                    struct rt_fault *fault, struct err *e) {
    struct rt_fault f = {.step = step};
    if (k->check == NULL || k->check(args, &f.fault) == 0) return PROEM_OK;
    if (fault != NULL) *fault = f;
    return err_set(e, PROEM_DATA,
                   "kernel '%s': check %d fails at position %lld: value %lld, "
                   "bound %lld",
                   k->name, f.fault.check, (long long)f.fault.index, (long long)f.fault.value,
                   (long long)f.fault.bound);
}

static enum proem_status run_step(struct rt_exec *x, int step, const struct rt_view *views,
                                  struct rt_fault *fault, struct err *e) {
    const struct rt_program_desc *d = &x->program->desc;
    const struct rt_step *s = &d->steps[step];
    for (int i = 0; i < s->n_args; i++)
        x->args[i] = x->buf[s->args[i]];
    struct pk_args args = rt_exec_args(x, step);
    if (d->poison) poison_new(x, step);
    TRY(check_data(s->kernel, &args, step, fault, e));
    TRY(pack_operands(x, step, &args, views, e));
    rt_launch(x->pool, s->kernel, &args, x->local_stride[step], step == d->n_steps - 1);
    const char *broken = d->poison ? broken_guard(x, step) : NULL;
    if (broken == NULL) return PROEM_OK;
    return err_set(e, PROEM_INTERNAL, "kernel '%s' wrote past the end of '%s'", s->kernel->name,
                   broken);
}

/* The bits behind the last element of a sub-byte output are 0: kernels leave what was there. */
static void clear_unused_bits(struct rt_exec *x, const struct rt_view *views) {
    const struct rt_program_desc *d = &x->program->desc;
    for (int b = 0; b < d->n_buffers; b++) {
        const struct rt_view *v = &views[b];
        if (d->buffers[b].place != RT_OUTPUT || v->bits >= 8 || x->bytes[b] <= 0) continue;
        int64_t n = 1; /* modulo 8: more does not matter */
        for (int i = 0; i < v->rank; i++)
            n = n * (v->shape[i] % 8) % 8;
        int used = (int)(n * v->bits % 8);
        unsigned char *last = (unsigned char *)x->buf[b] + x->bytes[b] - 1;
        if (used != 0) *last = (unsigned char)(*last & ((1u << used) - 1u));
    }
}

enum proem_status rt_exec_run(struct rt_exec *x, const struct rt_view *views,
                              struct rt_fault *fault, struct err *e) {
    if (!x->prepared) return err_set(e, PROEM_INTERNAL, "a run before its sizes are known");
    TRY(bind(x, views, e));
    TRY(check_overlap(x, views, e));
    for (int i = 0; i < x->program->desc.n_steps; i++)
        TRY(run_step(x, i, views, fault, e));
    clear_unused_bits(x, views);
    return deliver(x, views, e);
}
