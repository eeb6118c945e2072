/* SPDX-License-Identifier: MIT
 * What the tests of compiling and of the cache share: a unit that stores a number, and scripts in
 * the compiler's place. _XOPEN_SOURCE is the includer's to define.
 */
#ifndef RT_LOAD_H
#define RT_LOAD_H

#include "rt_units.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "rt/rt_internal.h"

/* A unit with one kernel "k" that writes `value` to buf[0]. */
static inline char *store_unit(int value) {
    char body[1024];
    snprintf(body, sizeof body,
             "static pk_i64 none(const struct pk_args *a) { return 0; }\n"
             "static pk_i64 one(const struct pk_args *a, int phase) { return 1; }\n"
             "static void run(const struct pk_args *a, int phase, pk_i64 t) {\n"
             "    *(int *)a->buf[0] = %d;\n}\n"
             "static const struct pk_kernel k = {\"k\", 1, 0, none, none, one, run};\n"
             "static const struct pk_kernel *const list[] = {&k};\n"
             "const struct pk_unit proem_unit = {PK_ABI_VERSION, 1, list};\n",
             value);
    return unit_text(body);
}

static inline int call_store(struct rt_module *m) {
    int out = 0;
    void *buf[1] = {&out};
    struct pk_args a = {.buf = buf, .threads = 1};
    const struct pk_kernel *k = rt_module_kernel(m, "k");
    assert_non_null(k);
    k->run(&a, 0, 0);
    return out;
}

static inline struct device_desc generic_device(void) {
    struct device_desc d;
    assert_true(device_by_name("generic", 7, &d));
    return d;
}

static inline enum proem_status load_value(struct rt *rt, int value, struct rt_module **out,
                                           struct err *e) {
    char *text = store_unit(value);
    struct rt_source s = unit_source("store", text);
    struct device_desc d = generic_device();
    enum proem_status status = rt_load(rt, &d, 1, &s, out, e);
    free(text);
    return status;
}

/* Load in a new runtime, run, and say where the unit came from. */
static inline struct rt_counts load_once(const struct rt_options *o, int value) {
    struct rt *rt;
    struct rt_module *m;
    struct rt_counts counts;
    assert_ok(rt_new(&allocator_default, o, &rt, e));
    assert_ok(load_value(rt, value, &m, e));
    assert_int_equal(call_store(m), value);
    rt_counts(rt, &counts);
    rt_module_unref(m);
    rt_free(rt);
    return counts;
}

/* An executable shell script in a directory; the path is to be freed. */
static inline char *script(const char *dir, const char *name, const char *text) {
    char *path = malloc(256);
    assert_non_null(path);
    snprintf(path, 256, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    assert_true(fd >= 0);
    assert_true(write(fd, "#!/bin/sh\n", 10) == 10);
    assert_true(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    return path;
}

static inline long count_lines(const char *file) {
    FILE *f = fopen(file, "rb");
    long n = 0;
    if (f == NULL) return 0;
    for (int c; (c = getc(f)) != EOF;)
        n += c == '\n';
    fclose(f);
    return n;
}

#endif
