/* SPDX-License-Identifier: MIT
 * `proem doctor`: what the machine has that proem uses, and from where. `proem cache`.
 */
#include "cli/cli.h"

#include <string.h>

#include "driver/cuda.h"

/* ---- libraries ------------------------------------------------------------------------------- */

/* The path that a loaded library was mapped from, by the process's own map of memory. */
static bool mapped_path(const char *name, char *out, size_t size) {
    FILE *f = fopen("/proc/self/maps", "r");
    char line[4096];
    bool found = false;
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
        char *path = strchr(line, '/');
        if (path == NULL || strstr(path, name) == NULL) continue;
        path[strcspn(path, "\n")] = '\0';
        found = strlen(path) < size;
        if (found) memcpy(out, path, strlen(path) + 1);
    }
    if (f != NULL) fclose(f);
    return found;
}

/* One line: the library's file and what it is, or what is missing and where it was looked for. */
static void print_library(const char *what, const char *stem, enum proem_status status,
                          const struct str *text, const struct err *e) {
    char path[4096];
    if (status != PROEM_OK)
        printf("%s: not found (%s)\n", what, e->text);
    else if (mapped_path(stem, path, sizeof path))
        printf("%s: %s (%s)\n", what, path, str_text(text));
    else
        printf("%s: %s\n", what, str_text(text));
}

static void print_cuda(struct session *s) {
    struct rt_cuda *cuda = NULL;
    struct device_desc d;
    struct str text;
    struct err e = {0};
    str_init(&text, &allocator_default);
    enum proem_status status = context_cuda(s->c, &cuda, &e);
    if (status == PROEM_OK) status = rt_cuda_driver_text(cuda, &text, &e);
    print_library("cuda", "libcuda", status, &text, &e);
    str_free(&text);
    if (status == PROEM_OK && rt_cuda_device(cuda, &d, &e) == PROEM_OK) {
        device_print(&d, &text);
        printf("gpu: %s\n", str_text(&text));
        str_free(&text);
    }
    err_clear(&e);
    if (cuda == NULL) return;
    status = rt_cuda_nvrtc_text(cuda, &text, &e);
    print_library("nvrtc", "libnvrtc", status, &text, &e);
    str_free(&text);
}

/* ---- doctor ---------------------------------------------------------------------------------- */

static bool print_compiler(struct session *s) {
    struct str path, version, flags;
    struct err e = {0};
    str_init(&path, &allocator_default);
    str_init(&version, &allocator_default);
    str_init(&flags, &allocator_default);
    bool found = rt_compiler(s->c->rt, &path, &version, &e) == PROEM_OK;
    if (found)
        printf("compiler: %s (%s)\n", str_text(&path), str_text(&version));
    else
        printf("compiler: not found (%s)\n", e.text);
    err_clear(&e);
    if (found && rt_compiler_flags(s->c->rt, context_native(s->c), &flags, &e) == PROEM_OK)
        printf("flags: %s\n", str_text(&flags));
    str_free(&path);
    str_free(&version);
    str_free(&flags);
    return found;
}

static void print_machine(struct session *s) {
    const struct device_desc *d = context_native(s->c);
    printf("cpu: %s, %d-bit vectors, features", device_arch_name(d->arch), d->vector_bits);
    for (int i = 0; i < ISA_COUNT; i++) {
        if ((d->isa >> i & 1u) != 0) printf(" %s", isa_name(i));
    }
    printf("%s\n", d->isa == 0 ? " none" : "");
    printf("threads: %d (of %d cores)\n", s->o->threads > 0 ? s->o->threads : d->cores, d->cores);
    printf("caches: l1d %lld KiB, l2 %lld KiB, l3 %lld KiB\n", (long long)(d->l1d / 1024),
           (long long)(d->l2 / 1024), (long long)(d->l3 / 1024));
}

static void print_cache(struct session *s) {
    struct rt_cache_stat st;
    rt_cache_stat(s->c->rt, &st);
    if (st.dir == NULL) {
        printf("cache: none (PROEM_CACHE_DIR is empty, or XDG_CACHE_HOME and HOME are not set)\n");
        return;
    }
    printf("cache: %s, %lld entries, %lld bytes of at most %lld\n", st.dir, (long long)st.entries,
           (long long)st.bytes, (long long)st.limit);
    if (st.note != NULL) printf("cache is not used: %s\n", st.note);
}

enum proem_status cmd_doctor(struct session *s, struct err *e) {
    (void)e;
    printf("proem: %s\n", proem_version());
    bool found = print_compiler(s);
    print_machine(s);
    print_cache(s);
    print_cuda(s);
    return found ? PROEM_OK : PROEM_COMPILE;
}

/* ---- cache ----------------------------------------------------------------------------------- */

enum proem_status cmd_cache(struct session *s, struct err *e) {
    if (strcmp(s->o->file, "stat") == 0) {
        print_cache(s);
        return PROEM_OK;
    }
    int64_t removed = 0;
    TRY(rt_cache_clear(s->c->rt, &removed, e));
    printf("%lld entries removed\n", (long long)removed);
    return PROEM_OK;
}
