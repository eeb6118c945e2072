/* SPDX-License-Identifier: MIT
 * Contexts: memory, compiler and cache, threads, the first error.
 *
 * Nothing is started when a context is made: the machine is looked at, threads are made and the
 * compiler is found when a program first needs them.
 */
#include "driver/driver.h"
#include "rt/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

void proem_context_options_init(struct proem_context_options *o) {
    *o = (struct proem_context_options){.size = sizeof *o};
}

const char *proem_version(void) {
    return PROEM_VERSION;
}

static enum proem_status check_options(const struct proem_context_options *o, struct err *e) {
    if (o->size != sizeof *o)
        return err_set(e, PROEM_INVALID,
                       "context options: call proem_context_options_init() before setting fields");
    if ((o->alloc == NULL) != (o->free == NULL))
        return err_set(e, PROEM_INVALID, "context options: give both alloc and free, or neither");
    if (o->threads < 0 || o->threads > 4096)
        return err_set(e, PROEM_INVALID, "context options: threads is %d, expected 0..4096",
                       o->threads);
    return PROEM_OK;
}

enum proem_status context_new(const struct proem_context_options *o,
                              const struct context_extra *extra, proem_context **out,
                              struct err *e) {
    TRY(check_options(o, e));
    struct allocator alloc = allocator_default;
    if (o->alloc != NULL) alloc = (struct allocator){o->alloc, o->free, o->user};
    proem_context *c = mem_alloc(&alloc, 1, sizeof *c);
    if (c == NULL) return err_nomem(e);
    *c = (proem_context){.alloc = alloc, .threads = o->threads, .cuda_device = o->cuda_device};
    struct rt_options r = {.compiler = o->compiler,
                           .cache_dir = o->cache_dir,
                           .path = getenv("PATH"),
                           .tmp_dir = getenv("TMPDIR")};
    if (r.tmp_dir != NULL && r.tmp_dir[0] != '/') r.tmp_dir = NULL;
    if (extra != NULL) {
        r.flags = extra->compiler_flags;
        r.progress = extra->progress;
        r.progress_user = extra->progress_user;
        r.hold_signals = true;
    }
    enum proem_status s = rt_new(&c->alloc, &r, &c->rt, e);
    if (s != PROEM_OK) {
        mem_free(&alloc, c, 1, sizeof *c);
        return s;
    }
    *out = c;
    return PROEM_OK;
}

enum proem_status proem_context_create(const struct proem_context_options *o, proem_context **out) {
    if (out == NULL) return PROEM_INVALID;
    *out = NULL;
    struct proem_context_options defaults;
    proem_context_options_init(&defaults);
    struct err e = {0};
    return context_new(o != NULL ? o : &defaults, NULL, out, &e);
}

void proem_context_destroy(proem_context *c) {
    if (c == NULL) return;
    rt_pool_free(c->pool);
    rt_cuda_free(c->cuda);
    rt_free(c->rt);
    struct allocator alloc = c->alloc;
    mem_free(&alloc, c, 1, sizeof *c);
}

enum proem_status context_report(proem_context *c, const struct err *e) {
    if (e->status != PROEM_OK && c->err.status == PROEM_OK) c->err = *e;
    return e->status;
}

enum proem_status context_outcome(const struct arena *a, enum proem_status s, struct err *e) {
    if (arena_ok(a)) return s;
    if (e != NULL) err_clear(e);
    return err_nomem(e);
}

const char *proem_error_text(const proem_context *c, int *line, int *col) {
    if (line != NULL) *line = c != NULL ? c->err.line : 0;
    if (col != NULL) *col = c != NULL ? c->err.col : 0;
    return c != NULL ? c->err.text : "";
}

void proem_error_clear(proem_context *c) {
    if (c != NULL) err_clear(&c->err);
}

const struct device_desc *context_native(proem_context *c) {
    if (!c->detected) rt_detect(&c->native);
    c->detected = true;
    return &c->native;
}

enum proem_status context_pool(proem_context *c, struct rt_pool **out, struct err *e) {
    if (c->pool == NULL) {
        int threads = c->threads > 0 ? c->threads : context_native(c)->cores;
        TRY(rt_pool_new(&c->alloc, threads > 0 ? threads : 1, &c->pool, e));
    }
    *out = c->pool;
    return PROEM_OK;
}
