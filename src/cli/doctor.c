/* SPDX-License-Identifier: MIT
 * `proem doctor`: what the machine has that proem uses, and from where. `proem cache`.
 */
#include "cli/cli.h"

#include <dlfcn.h>
#include <string.h>

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

static void find_library(const char *what, const char *const *names, size_t n, const char *stem) {
    for (size_t i = 0; i < n; i++) {
        if (dlopen(names[i], RTLD_LAZY | RTLD_LOCAL) == NULL) continue;
        char path[4096];
        printf("%s: %s\n", what, mapped_path(stem, path, sizeof path) ? path : names[i]);
        return; /* it stays loaded: drivers start threads that must not lose their code */
    }
    printf("%s: not found (%s)\n", what, names[0]);
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
    static const char *const cuda[] = {"libcuda.so.1", "libcuda.so"};
    static const char *const nvrtc[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                        "libnvrtc.so"};
    printf("proem: %s\n", proem_version());
    bool found = print_compiler(s);
    print_machine(s);
    print_cache(s);
    find_library("cuda", cuda, COUNT_OF(cuda), "libcuda");
    find_library("nvrtc", nvrtc, COUNT_OF(nvrtc), "libnvrtc");
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
