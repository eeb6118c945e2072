/* SPDX-License-Identifier: MIT
 * What the runtime's tests share: small hand-written units, directories, an allocator that counts.
 */
#ifndef RT_UNITS_H
#define RT_UNITS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "rt/rt.h"

/* An allocator that fails at the n-th call (counted from 0; negative: never) and counts what lives.
 */
struct counted {
    long calls, fail_at, live;
};

static inline void *counted_alloc(void *user, size_t size, size_t align) {
    struct counted *c = user;
    long n = __atomic_fetch_add(&c->calls, 1, __ATOMIC_RELAXED);
    if (n == c->fail_at) return NULL;
    void *p = allocator_default.alloc(NULL, size, align);
    if (p != NULL) __atomic_fetch_add(&c->live, 1, __ATOMIC_RELAXED);
    return p;
}

static inline void counted_free(void *user, void *p, size_t size) {
    struct counted *c = user;
    __atomic_fetch_sub(&c->live, 1, __ATOMIC_RELAXED);
    allocator_default.free(NULL, p, size);
}

static inline struct allocator counted_allocator(struct counted *c) {
    return (struct allocator){counted_alloc, counted_free, c};
}

/* The text of a unit: the ABI's header and the given C. Freed with free(). */
static inline char *unit_text(const char *body) {
    FILE *f = fopen(PROEM_SOURCE_DIR "/src/base/kernel_abi.h", "rb");
    assert_non_null(f);
    char *text = malloc(65536);
    assert_non_null(text);
    size_t n = fread(text, 1, 32768, f);
    fclose(f);
    assert_true(n > 0 && n < 32768 && strlen(body) < 32768);
    memcpy(text + n, body, strlen(body) + 1);
    return text;
}

static inline struct rt_source unit_source(const char *name, const char *text) {
    return (struct rt_source){.name = name, .text = text, .n = strlen(text)};
}

/* A new directory; removed by remove_tree. */
static inline char *new_dir(void) {
    char *dir = malloc(64);
    if (dir == NULL) abort();
    strcpy(dir, "/tmp/proem-test-XXXXXX");
    if (mkdtemp(dir) == NULL) abort();
    return dir;
}

static inline void remove_tree(char *dir) {
    char command[256];
    snprintf(command, sizeof command, "chmod -R u+rwx '%s'; rm -rf '%s'", dir, dir);
    assert_int_equal(system(command), 0);
    free(dir);
}

/* The call uses `e` as its struct err *. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        struct err err_, *e = &err_;                                                               \
        err_clear(e);                                                                              \
        if ((call) != PROEM_OK) fail_msg("%s: %s", #call, e->text);                                \
    } while (0)

/* The call must fail with this status and a message that has `part` in it. */
#define assert_fails(call, status, part)                                                           \
    do {                                                                                           \
        struct err err_, *e = &err_;                                                               \
        err_clear(e);                                                                              \
        assert_int_equal((call), (status));                                                        \
        if (strstr(e->text, (part)) == NULL) fail_msg("'%s' is not in: %s", (part), e->text);      \
    } while (0)

#endif
