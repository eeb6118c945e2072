/* SPDX-License-Identifier: MIT
 * libcuda and libnvrtc: opened by name when first needed, and the device's primary context, which
 * frameworks in the same process share.
 *
 * What fails once fails with the same words again. A library that was opened stays: drivers start
 * threads that must not lose their code.
 */
#include "rt/cuda/internal.h"

#include <dlfcn.h>
#include <string.h>

#define OLDEST_DRIVER 12000 /* launches with attributes, tensor maps */
#define OLDEST_NVRTC  12000

static const char *const driver_names[] = {"libcuda.so.1", "libcuda.so"};
static const char *const nvrtc_names[] = {
    "libnvrtc.so.13",
    "libnvrtc.so.12",
    "libnvrtc.so",
    "/usr/local/cuda/lib64/libnvrtc.so.13",
    "/usr/local/cuda/lib64/libnvrtc.so.12",
    "/opt/cuda/lib64/libnvrtc.so.13",
    "/opt/cuda/lib64/libnvrtc.so.12",
};

/* ---- life ------------------------------------------------------------------------------------ */

enum proem_status rt_cuda_new(struct rt *rt, const struct rt_cuda_options *o, struct rt_cuda **out,
                              struct err *e) {
    struct rt_cuda *c = mem_alloc(rt->alloc, 1, sizeof *c);
    if (c == NULL) return err_nomem(e);
    *c = (struct rt_cuda){.rt = rt, .alloc = rt->alloc, .ordinal = o->ordinal};
    str_init(&c->driver_option, c->alloc);
    str_init(&c->nvrtc_option, c->alloc);
    str_init(&c->driver_name, c->alloc);
    str_init(&c->nvrtc_name, c->alloc);
    if (o->driver != NULL) str_add(&c->driver_option, o->driver);
    if (o->nvrtc != NULL) str_add(&c->nvrtc_option, o->nvrtc);
    bool ok = !c->driver_option.failed && !c->nvrtc_option.failed;
    if (ok && pthread_mutex_init(&c->lock, NULL) == 0) {
        *out = c;
        return PROEM_OK;
    }
    str_free(&c->driver_option);
    str_free(&c->nvrtc_option);
    mem_free(c->alloc, c, 1, sizeof *c);
    return err_nomem(e);
}

void rt_cuda_free(struct rt_cuda *c) {
    if (c == NULL) return;
    rt_cubin_unref(c->helpers);
    struct err ignored = {0};
    if (c->stream != NULL && rt_cuda_enter(c, &ignored) == PROEM_OK) {
        c->cu.stream_destroy(c->stream);
        rt_cuda_leave(c);
    }
    if (c->context != NULL) c->cu.context_release(c->device);
    str_free(&c->driver_option);
    str_free(&c->nvrtc_option);
    str_free(&c->driver_name);
    str_free(&c->nvrtc_name);
    pthread_mutex_destroy(&c->lock);
    mem_free(c->alloc, c, 1, sizeof *c);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The library of the option, or the first of the names that can be opened. */
static void *open_library(const struct str *option, const char *const *names, size_t n,
                          const char *what, struct str *name, struct err *e) {
    struct str tried;
    str_init(&tried, name->alloc);
    const char *one[1] = {str_text(option)};
    if (option->n > 0) {
        names = one;
        n = 1;
    }
    void *handle = NULL;
    for (size_t i = 0; i < n && handle == NULL; i++) {
        handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (handle != NULL)
            str_add(name, names[i]);
        else
            str_printf(&tried, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    if (handle == NULL)
        err_set(e, PROEM_DEVICE, "%s cannot be opened; looked for %s", what, str_text(&tried));
    str_free(&tried);
    return handle;
}

static enum proem_status lacks(const char *library, const char *function, struct err *e) {
    return err_set(e, PROEM_DEVICE, "%s is too old: it has no %s (CUDA 12.0 is needed)", library,
                   function);
}

static enum proem_status load_driver(struct rt_cuda *c, void *handle, struct err *e) {
    void *f;
#define LOAD_OPTIONAL(member, name, parameters)                                                    \
    f = dlsym(handle, name);                                                                       \
    memcpy(&c->cu.member, &f, sizeof f);
#define LOAD_REQUIRED(member, name, parameters)                                                    \
    LOAD_OPTIONAL(member, name, parameters)                                                        \
    if (f == NULL) return lacks(str_text(&c->driver_name), name, e);
    CU_REQUIRED(LOAD_REQUIRED)
    CU_OPTIONAL(LOAD_OPTIONAL)
    return PROEM_OK;
}

static enum proem_status load_nvrtc(struct rt_cuda *c, void *handle, struct err *e) {
    void *f;
#define LOAD_NVRTC(member, name, parameters)                                                       \
    f = dlsym(handle, name);                                                                       \
    memcpy(&c->nvrtc.member, &f, sizeof f);                                                        \
    if (f == NULL) return lacks(str_text(&c->nvrtc_name), name, e);
    NVRTC_REQUIRED(LOAD_NVRTC)
    f = dlsym(handle, "nvrtcGetErrorString");
    memcpy(&c->nvrtc.error_string, &f, sizeof f);
    return f != NULL ? PROEM_OK : lacks(str_text(&c->nvrtc_name), "nvrtcGetErrorString", e);
}

enum proem_status rt_cuda_result(struct rt_cuda *c, cu_result r, const char *what, struct err *e) {
    if (r == 0) return PROEM_OK;
    const char *name = NULL, *text = NULL;
    if (c->cu.get_error_name(r, &name) != 0 || name == NULL) name = "an unknown error";
    if (c->cu.get_error_string(r, &text) != 0 || text == NULL) text = "no text";
    return err_set(e, r == CU_OUT_OF_MEMORY ? PROEM_NOMEM : PROEM_DEVICE, "CUDA: %s: %s (%s)", what,
                   text, name);
}

static enum proem_status open_device(struct rt_cuda *c, struct err *e) {
    void *handle = open_library(&c->driver_option, driver_names, COUNT_OF(driver_names),
                                "no CUDA device: the driver's library", &c->driver_name, e);
    if (handle == NULL) return e->status;
    if (c->driver_name.failed) return err_nomem(e);
    TRY(load_driver(c, handle, e));
    int count = 0;
    TRY(rt_cuda_result(c, c->cu.init(0), "no CUDA device: cuInit", e));
    TRY(rt_cuda_result(c, c->cu.driver_version(&c->driver_version), "the driver's version", e));
    if (c->driver_version < OLDEST_DRIVER)
        return err_set(e, PROEM_DEVICE, "the driver %s is for CUDA %d.%d; 12.0 is needed",
                       str_text(&c->driver_name), c->driver_version / 1000,
                       c->driver_version % 1000 / 10);
    TRY(rt_cuda_result(c, c->cu.device_count(&count), "no CUDA device: counting them", e));
    if (c->ordinal < 0 || c->ordinal >= count)
        return err_set(e, PROEM_DEVICE, "no CUDA device %d: %s sees %d", c->ordinal,
                       str_text(&c->driver_name), count);
    TRY(rt_cuda_result(c, c->cu.device_get(&c->device, c->ordinal), "opening the device", e));
    TRY(rt_cuda_describe(c, e));
    cu_context context = NULL;
    TRY(rt_cuda_result(c, c->cu.context_retain(&context, c->device), "the device's context", e));
    c->context = context;
    TRY(rt_cuda_enter(c, e));
    cu_result r = c->cu.stream_create(&c->stream, CU_STREAM_NON_BLOCKING);
    rt_cuda_leave(c);
    return rt_cuda_result(c, r, "a stream", e);
}

enum proem_status rt_cuda_open(struct rt_cuda *c, struct err *e) {
    pthread_mutex_lock(&c->lock);
    if (!c->driver_tried) {
        struct err first = {0};
        open_device(c, &first);
        /* Memory may come back; a driver does not appear in a process that looked for it. */
        c->driver_tried = first.status != PROEM_NOMEM;
        c->driver_err = first;
        if (first.status == PROEM_NOMEM) str_free(&c->driver_name);
    }
    struct err found = c->driver_err;
    pthread_mutex_unlock(&c->lock);
    return found.status == PROEM_OK ? PROEM_OK : err_set(e, found.status, "%s", found.text);
}

static enum proem_status open_nvrtc(struct rt_cuda *c, struct err *e) {
    void *handle = open_library(&c->nvrtc_option, nvrtc_names, COUNT_OF(nvrtc_names),
                                "no CUDA compiler: libnvrtc", &c->nvrtc_name, e);
    if (handle == NULL) return e->status;
    if (c->nvrtc_name.failed) return err_nomem(e);
    TRY(load_nvrtc(c, handle, e));
    int major = 0, minor = 0;
    if (c->nvrtc.version(&major, &minor) != 0)
        return err_set(e, PROEM_DEVICE, "%s does not tell its version", str_text(&c->nvrtc_name));
    c->nvrtc_version = major * 1000 + minor * 10;
    if (c->nvrtc_version >= OLDEST_NVRTC) return PROEM_OK;
    return err_set(e, PROEM_DEVICE, "%s is NVRTC %d.%d; 12.0 is needed", str_text(&c->nvrtc_name),
                   major, minor);
}

enum proem_status rt_nvrtc_open(struct rt_cuda *c, struct err *e) {
    pthread_mutex_lock(&c->lock);
    if (!c->nvrtc_tried) {
        struct err first = {0};
        open_nvrtc(c, &first);
        c->nvrtc_tried = first.status != PROEM_NOMEM;
        c->nvrtc_err = first;
        if (first.status == PROEM_NOMEM) str_free(&c->nvrtc_name);
    }
    struct err found = c->nvrtc_err;
    pthread_mutex_unlock(&c->lock);
    return found.status == PROEM_OK ? PROEM_OK : err_set(e, found.status, "%s", found.text);
}

/* ---- the context ----------------------------------------------------------------------------- */

enum proem_status rt_cuda_enter(struct rt_cuda *c, struct err *e) {
    return rt_cuda_result(c, c->cu.context_push(c->context), "entering the device's context", e);
}

void rt_cuda_leave(struct rt_cuda *c) {
    cu_context mine;
    c->cu.context_pop(&mine);
}

/* ---- reports --------------------------------------------------------------------------------- */

enum proem_status rt_cuda_driver_text(struct rt_cuda *c, struct str *out, struct err *e) {
    TRY(rt_cuda_open(c, e));
    str_printf(out, "%s, CUDA %d.%d; device %d: %s, %lld MiB", str_text(&c->driver_name),
               c->driver_version / 1000, c->driver_version % 1000 / 10, c->ordinal, c->device_name,
               (long long)(c->device_memory >> 20));
    return out->failed ? err_nomem(e) : PROEM_OK;
}

enum proem_status rt_cuda_nvrtc_text(struct rt_cuda *c, struct str *out, struct err *e) {
    TRY(rt_nvrtc_open(c, e));
    str_printf(out, "%s, version %d.%d", str_text(&c->nvrtc_name), c->nvrtc_version / 1000,
               c->nvrtc_version % 1000 / 10);
    return out->failed ? err_nomem(e) : PROEM_OK;
}

enum proem_status rt_cuda_flags(struct rt_cuda *c, const struct device_desc *d, struct str *out,
                                struct err *e) {
    struct arena a;
    arena_init(&a, c->alloc);
    int n = 0;
    const char *const *options = nvrtc_options(&a, d, &n);
    for (int i = 0; options != NULL && i < n; i++)
        str_printf(out, "%s%s", i > 0 ? " " : "", options[i]);
    enum proem_status s = options != NULL && !out->failed ? PROEM_OK : err_nomem(e);
    arena_free(&a);
    return s;
}

/* ---- device memory --------------------------------------------------------------------------- */

enum proem_status cuda_memory_grow(struct rt_cuda *c, struct cuda_memory *m, int64_t bytes,
                                   const char *what, struct err *e) {
    if (bytes <= m->size) return PROEM_OK;
    cuda_memory_free(c, m);
    cu_result r = c->cu.alloc(&m->at, (size_t)bytes);
    if (r == 0) {
        m->size = bytes;
        return PROEM_OK;
    }
    m->at = 0;
    if (r == CU_OUT_OF_MEMORY)
        return err_set(e, PROEM_NOMEM, "CUDA: the device has no room for %lld bytes of %s",
                       (long long)bytes, what);
    return rt_cuda_result(c, r, what, e);
}

void cuda_memory_free(struct rt_cuda *c, struct cuda_memory *m) {
    if (m->at != 0) c->cu.free(m->at);
    *m = (struct cuda_memory){0};
}

enum proem_status rt_cuda_alloc(struct rt_cuda *c, int64_t bytes, void **out, struct err *e) {
    struct cuda_memory m = {0};
    TRY(rt_cuda_open(c, e));
    TRY(rt_cuda_enter(c, e));
    enum proem_status s = cuda_memory_grow(c, &m, bytes > 0 ? bytes : 1, "tensors", e);
    rt_cuda_leave(c);
    if (s == PROEM_OK) *out = (void *)(uintptr_t)m.at;
    return s;
}

void rt_cuda_release(struct rt_cuda *c, void *p) {
    struct err ignored = {0};
    if (p == NULL || rt_cuda_enter(c, &ignored) != PROEM_OK) return;
    c->cu.free((cu_ptr)(uintptr_t)p);
    rt_cuda_leave(c);
}

enum proem_status rt_cuda_upload(struct rt_cuda *c, void *to, const void *from, int64_t bytes,
                                 struct err *e) {
    if (bytes <= 0) return PROEM_OK;
    TRY(rt_cuda_enter(c, e));
    cu_result r = c->cu.copy_in((cu_ptr)(uintptr_t)to, from, (size_t)bytes, c->stream);
    if (r == 0) r = c->cu.stream_wait(c->stream);
    rt_cuda_leave(c);
    return rt_cuda_result(c, r, "copying to the device", e);
}

enum proem_status rt_cuda_download(struct rt_cuda *c, void *to, const void *from, int64_t bytes,
                                   struct err *e) {
    if (bytes <= 0) return PROEM_OK;
    TRY(rt_cuda_enter(c, e));
    cu_result r = c->cu.copy_out(to, (cu_ptr)(uintptr_t)from, (size_t)bytes, c->stream);
    if (r == 0) r = c->cu.stream_wait(c->stream);
    rt_cuda_leave(c);
    return rt_cuda_result(c, r, "copying from the device", e);
}
