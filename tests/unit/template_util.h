/* SPDX-License-Identifier: MIT
 * What the tests of templates share: compilers and instruction sets, a unit compiled with plain
 * hooks from tests/templates, and memory that ends at a page that cannot be touched.
 */
#ifndef TEMPLATE_UTIL_H
#define TEMPLATE_UTIL_H

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/kernel_abi.h"

#ifndef TEMPLATE_FLAGS
#define TEMPLATE_FLAGS ""
#endif

struct build {
    const char *cc, *flags, *feature;
};

static const struct build builds[] = {
    {"gcc", "-O1 -msse2", "sse2"},
    {"gcc", "-O2 -mavx2 -mfma -mf16c", "avx2"},
    {"gcc", "-O2 -march=x86-64-v4", "avx512"},
    {"clang", "-O1 -msse2", "sse2"},
    {"clang", "-O1 -mavx2 -mfma -mf16c", "avx2"},
    {"clang", "-O1 -march=x86-64-v4", "avx512"},
};

static inline int processor_has(const char *feature) {
    if (!strcmp(feature, "avx2"))
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (!strcmp(feature, "avx512"))
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    return 1;
}

/* Memory whose end is the start of a page without access; before its start zeros that must stay. */
struct area {
    void *map, *at;
    size_t bytes, size;
};

static inline struct area area_new(pk_i64 size, pk_i64 align) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (size_t)(size > 0 ? size : 0);
    assert_int_equal(n % (size_t)align, 0);
    struct area a = {NULL, NULL, (n + page - 1) / page * page + 2 * page, n};
    a.map = mmap(NULL, a.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(a.map != MAP_FAILED);
    if (a.bytes > 2 * page)
        assert_int_equal(mprotect((char *)a.map + page, a.bytes - 2 * page, PROT_READ | PROT_WRITE),
                         0);
    a.at = (char *)a.map + a.bytes - page - n;
    memset(a.at, 0xff, n);
    return a;
}

static inline void area_free(struct area *a) {
    const char *p = (char *)a->map + sysconf(_SC_PAGESIZE);
    for (; a->size > 0 && p < (char *)a->at; p++) {
        if (*p != 0) fail_msg("something was written before an area's start");
    }
    munmap(a->map, a->bytes);
}

static inline uint32_t next(uint32_t *s) {
    *s = *s * 1664525u + 1013904223u;
    return *s >> 8;
}

/* tests/templates/FILE as a loaded unit; NULL if the compiler is not there. */
static inline const struct pk_unit *unit_open(const struct build *b, const char *file,
                                              void **handle) {
    char dir[] = "/tmp/proem-template-XXXXXX", object[64], command[2048];
    assert_non_null(mkdtemp(dir));
    snprintf(object, sizeof object, "%s/unit.so", dir);
    snprintf(command, sizeof command,
             "command -v %s >/dev/null 2>&1 || exit 77; %s -std=gnu11 -Wall -Wextra -Werror "
             "-Wno-psabi -Wno-unknown-pragmas -ffp-contract=off -fPIC -shared %s " TEMPLATE_FLAGS
             " -I" PROEM_SOURCE_DIR "/src -I" PROEM_SOURCE_DIR "/tests/templates " PROEM_SOURCE_DIR
             "/tests/templates/%s -o %s",
             b->cc, b->cc, b->flags, file, object);
    int rc = system(command);
    const struct pk_unit *unit = NULL;
    if (rc == 0) {
        *handle = dlopen(object, RTLD_NOW | RTLD_LOCAL);
        if (!*handle) fail_msg("%s", dlerror());
        unit = (const struct pk_unit *)dlsym(*handle, "proem_unit");
    }
    unlink(object);
    rmdir(dir);
    if (rc != 0 && !(WIFEXITED(rc) && WEXITSTATUS(rc) == 77))
        fail_msg("%s %s cannot compile %s", b->cc, b->flags, file);
    return unit;
}

/* One test for each build; the test gets the build as its state. */
static inline int run_builds(const char *what, CMUnitTestFunction test) {
    struct CMUnitTest tests[sizeof builds / sizeof *builds];
    static char names[sizeof builds / sizeof *builds][64];
    for (size_t i = 0; i < sizeof builds / sizeof *builds; i++) {
        snprintf(names[i], sizeof names[i], "%s, %s %s", what, builds[i].cc, builds[i].flags);
        tests[i] = (struct CMUnitTest){names[i], test, NULL, NULL, (void *)(uintptr_t)&builds[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
