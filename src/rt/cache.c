/* SPDX-License-Identifier: MIT
 * The disk cache: a flat directory of files <key>.so (units), <key>.cubin (units of a GPU) and
 * <key>.txt (compilers' versions, choices).
 *
 * An entry is its content and a trailer of 32 bytes (magic, length, XXH3-128 of the content); a
 * loader of shared objects ignores what follows them. Entries are written under a temporary name,
 * synced and renamed, so a reader sees all or nothing, and whoever comes second replaces equal by
 * equal. What is still not whole (a full disk, a bad block, an editor) fails its trailer, is
 * removed and made anew. The code found here is executed, so a directory or file that somebody else
 * could have written is not used. Age is the time of the last use (mtime); the oldest go first when
 * the limit is passed.
 */
#define _XOPEN_SOURCE 700 /* realpath, S_ISVTX */
#include "rt/rt_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TRAILER       32u
#define ENTRY_MAX     ((int64_t)1 << 30)
#define STALE_SECONDS 3600
#define TEMP_PREFIX   "proem-"

static const char magic[8] = {'p', 'r', 'o', 'e', 'm', 'c', '0', '1'};
static const char *const suffix[] = {".so", ".txt", ".cubin"};

void rt_key_text(XXH128_hash_t h, char out[RT_KEY_TEXT]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        out[i] = digits[h.high64 >> (60 - 4 * i) & 15u];
        out[16 + i] = digits[h.low64 >> (60 - 4 * i) & 15u];
    }
    out[32] = '\0';
}

bool rt_cache_default_dir(const char *xdg_cache_home, const char *home, struct str *out) {
    /* The base directory specification: a relative path counts as not set. */
    if (xdg_cache_home != NULL && xdg_cache_home[0] == '/') {
        str_printf(out, "%s/proem", xdg_cache_home);
    } else if (home != NULL && home[0] == '/') {
        str_printf(out, "%s/.cache/proem", home);
    } else {
        return false;
    }
    return !out->failed;
}

void rt_cache_init(struct rt_cache *c, const struct allocator *alloc, const char *dir,
                   int64_t limit) {
    *c = (struct rt_cache){.alloc = alloc, .limit = limit, .wanted = dir != NULL};
    str_init(&c->dir, alloc);
    if (dir != NULL) str_add(&c->dir, dir);
}

void rt_cache_free(struct rt_cache *c) {
    str_free(&c->dir);
}

/* ---- trust ----------------------------------------------------------------------------------- */

static bool make_dirs(const char *dir) {
    char path[PATH_MAX];
    size_t n = strlen(dir);
    if (n >= sizeof path) return false;
    memcpy(path, dir, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0') continue;
        char old = path[i];
        path[i] = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST) {
            /* It may exist above a directory that cannot be written; the check after this tells. */
            struct stat st;
            if (stat(path, &st) != 0) return false;
        }
        path[i] = old;
    }
    return true;
}

/* Somebody who may write a directory above could put another one in its place. */
static bool parents_are_safe(const char *dir) {
    char path[PATH_MAX];
    if (realpath(dir, path) == NULL) return false;
    for (char *slash; (slash = strrchr(path, '/')) != NULL && path[1] != '\0';) {
        slash[slash == path ? 1 : 0] = '\0';
        struct stat st;
        if (stat(path, &st) != 0) return false;
        if ((st.st_mode & S_IWOTH) != 0 && (st.st_mode & S_ISVTX) == 0) return false;
    }
    return true;
}

/* NULL if the directory may be used, else why not. */
static const char *distrust(const char *dir) {
    struct stat st;
    if (stat(dir, &st) != 0) return "it does not exist and cannot be made";
    if (!S_ISDIR(st.st_mode)) return "it is not a directory";
    if (st.st_uid != geteuid()) return "it belongs to another user";
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "other users may write to it (chmod 700)";
    if (!parents_are_safe(dir)) return "a directory above it may be written by everybody";
    return NULL;
}

bool rt_cache_open(struct rt_cache *c) {
    if (c->ready) return true;
    if (!c->wanted || c->note != NULL || c->dir.failed) return false;
    make_dirs(str_text(&c->dir));
    c->note = distrust(str_text(&c->dir));
    c->ready = c->note == NULL;
    return c->ready;
}

/* ---- entries --------------------------------------------------------------------------------- */

static bool entry_file(const struct rt_cache *c, const char *key, enum rt_cache_kind kind,
                       struct str *file) {
    str_free(file);
    str_printf(file, "%s/%s%s", str_text(&c->dir), key, suffix[kind]);
    return !file->failed;
}

static void trailer_make(const void *data, size_t n, unsigned char out[TRAILER]) {
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(data, n));
    memcpy(out, magic, 8);
    for (int i = 0; i < 8; i++)
        out[8 + i] = (unsigned char)((uint64_t)n >> (8 * i));
    memcpy(out + 16, hash.digest, 16);
}

static bool read_entry(int fd, struct str *content) {
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) return false;
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0 || st.st_size > ENTRY_MAX) return false;
    if (!rt_read_all(fd, content) || content->n < TRAILER) return false;
    size_t n = content->n - TRAILER;
    unsigned char want[TRAILER];
    trailer_make(content->at, n, want);
    return memcmp(content->at + n, want, TRAILER) == 0;
}

bool rt_cache_find(struct rt_cache *c, const char *key, enum rt_cache_kind kind, struct str *file,
                   struct str *text) {
    if (!c->ready || !entry_file(c, key, kind, file)) return false;
    int fd = open(str_text(file), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return false;
    struct str content;
    str_init(&content, c->alloc);
    bool whole = read_entry(fd, &content);
    bool no_memory = content.failed;
    if (whole) {
        futimens(fd, NULL); /* now; may fail where the cache is read-only */
        if (text != NULL) str_addn(text, content.at, content.n - TRAILER);
    }
    close(fd);
    str_free(&content);
    if (!whole && !no_memory) unlink(str_text(file));
    return whole && (text == NULL || !text->failed);
}

static bool write_entry(int fd, const void *data, size_t n) {
    unsigned char trailer[TRAILER];
    trailer_make(data, n, trailer);
    return rt_write_all(fd, data, n) && rt_write_all(fd, trailer, TRAILER) && fsync(fd) == 0;
}

bool rt_cache_store(struct rt_cache *c, const char *key, enum rt_cache_kind kind, const void *data,
                    size_t n, struct str *file) {
    if (!c->ready || !entry_file(c, key, kind, file)) return false;
    struct str temp;
    str_init(&temp, c->alloc);
    str_printf(&temp, "%s/" TEMP_PREFIX "XXXXXX", str_text(&c->dir));
    bool ok = false;
    int fd = temp.failed ? -1 : mkstemp(temp.at); /* mode 0600 */
    if (fd >= 0) {
        ok = write_entry(fd, data, n);
        if (close(fd) != 0) ok = false;
        if (ok) ok = rename(temp.at, str_text(file)) == 0;
        if (!ok) unlink(temp.at);
    }
    str_free(&temp);
    return ok;
}

void rt_cache_drop(struct rt_cache *c, const char *key, enum rt_cache_kind kind) {
    struct str file;
    str_init(&file, c->alloc);
    if (c->ready && entry_file(c, key, kind, &file)) unlink(str_text(&file));
    str_free(&file);
}

/* ---- the whole directory --------------------------------------------------------------------- */

struct entry {
    char name[RT_KEY_TEXT + 6];
    int64_t bytes;
    struct timespec used;
};

typedef VEC(struct entry) entry_vec;

static bool is_entry_name(const char *name) {
    if (strspn(name, "0123456789abcdef") != RT_KEY_TEXT - 1) return false;
    const char *end = name + RT_KEY_TEXT - 1;
    for (size_t i = 0; i < COUNT_OF(suffix); i++) {
        if (strcmp(end, suffix[i]) == 0) return true;
    }
    return false;
}

/* Left behind by a process that was killed. */
static void remove_stale(const char *dir, const char *name, const struct stat *st,
                         struct arena *a) {
    if (time(NULL) - st->st_mtime < STALE_SECONDS) return;
    const char *path = arena_printf(a, "%s/%s", dir, name);
    if (path == NULL) return;
    if (S_ISDIR(st->st_mode)) {
        rt_remove_work_dir(path);
    } else {
        unlink(path);
    }
}

/* Entries of the directory; also removes stale temporary files when asked to. */
static bool list(const struct rt_cache *c, struct arena *a, entry_vec *out, bool clean) {
    DIR *d = opendir(str_text(&c->dir));
    if (d == NULL) return false;
    for (struct dirent *item; (item = readdir(d)) != NULL;) {
        struct stat st;
        bool temp = strncmp(item->d_name, TEMP_PREFIX, strlen(TEMP_PREFIX)) == 0;
        if (!temp && !is_entry_name(item->d_name)) continue;
        if (fstatat(dirfd(d), item->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (temp) {
            if (clean) remove_stale(str_text(&c->dir), item->d_name, &st, a);
            continue;
        }
        struct entry e = {.bytes = st.st_size, .used = st.st_mtim};
        memcpy(e.name, item->d_name, strlen(item->d_name) + 1);
        if (!VEC_PUSH(a, out, e)) break;
    }
    closedir(d);
    return true;
}

static int older_first(const void *pa, const void *pb) {
    const struct entry *a = pa, *b = pb;
    if (a->used.tv_sec != b->used.tv_sec) return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
    if (a->used.tv_nsec != b->used.tv_nsec) return a->used.tv_nsec < b->used.tv_nsec ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Remove the oldest entries until no more than `limit` bytes are left. */
static int64_t shrink(struct rt_cache *c, int64_t limit) {
    struct arena a;
    arena_init(&a, c->alloc);
    entry_vec entries = {0};
    int64_t removed = 0, bytes = 0;
    list(c, &a, &entries, true);
    for (size_t i = 0; i < entries.n; i++)
        bytes += entries.at[i].bytes;
    if (bytes > limit || limit == 0) {
        qsort(entries.at, entries.n, sizeof *entries.at, older_first);
        for (size_t i = 0; i < entries.n && (bytes > limit || limit == 0); i++) {
            const char *path = arena_printf(&a, "%s/%s", str_text(&c->dir), entries.at[i].name);
            if (path == NULL) break;
            if (unlink(path) == 0) removed++;
            bytes -= entries.at[i].bytes;
        }
    }
    arena_free(&a);
    return removed;
}

void rt_cache_evict(struct rt_cache *c) {
    if (c->ready) shrink(c, c->limit);
}

void rt_cache_measure(struct rt_cache *c, int64_t *entries, int64_t *bytes) {
    struct arena a;
    arena_init(&a, c->alloc);
    entry_vec found = {0};
    *entries = *bytes = 0;
    if (c->wanted && list(c, &a, &found, false)) {
        *entries = (int64_t)found.n;
        for (size_t i = 0; i < found.n; i++)
            *bytes += found.at[i].bytes;
    }
    arena_free(&a);
}

enum proem_status rt_cache_remove_all(struct rt_cache *c, int64_t *removed, struct err *e) {
    struct stat st;
    if (removed != NULL) *removed = 0;
    const char *dir = str_text(&c->dir);
    if (!c->wanted || stat(dir, &st) != 0) return PROEM_OK;
    const char *why = distrust(dir);
    if (why != NULL) return err_set(e, PROEM_IO, "the cache '%s' is not cleared: %s", dir, why);
    int64_t n = shrink(c, 0), left, bytes;
    if (removed != NULL) *removed = n;
    rt_cache_measure(c, &left, &bytes);
    if (left == 0) return PROEM_OK;
    return err_set(e, PROEM_IO, "%lld files of the cache '%s' cannot be removed", (long long)left,
                   dir);
}
