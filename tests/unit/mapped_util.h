/* SPDX-License-Identifier: MIT
 * For tests of mapped tensors: sparse files, and how much memory of its own a process has.
 */
#ifndef MAPPED_UTIL_H
#define MAPPED_UTIL_H

#include "front_util.h"

enum { MB = 1 << 20, GROWTH_KB = 16 << 10 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Resident kilobytes, pages of files among them; 0: the system does not say, or a sanitizer's own
 * memory would be counted. */
static inline long resident_kb(void) {
    char line[128];
    long kb = 0;
    FILE *f = SANITIZED ? NULL : fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        sscanf(line, "VmRSS: %ld", &kb);
    if (f != NULL) fclose(f);
    return kb;
}

/* Bytes at the begin, then holes up to `size`, the last byte of which is `last`. */
static inline void write_sparse(const char *path, const struct bytes *b, long size, int last) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->at, 1, b->n, f), b->n);
    assert_int_equal(fseek(f, size - 1, SEEK_SET), 0);
    assert_int_equal(fputc(last, f), last);
    assert_int_equal(fclose(f), 0);
}

static char folder[256]; /* scratch of a group of tests */

static int set_up(void **state) {
    (void)state;
    make_scratch(folder, sizeof folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    remove_scratch(folder);
    return 0;
}

static const char *path_of(char path[512], const char *name) {
    snprintf(path, 512, "%s/%s", folder, name);
    return path;
}

#endif
