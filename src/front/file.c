/* SPDX-License-Identifier: MIT
 * Bytes in: regular files by descriptor, or a block of memory. Reads are by offset and
 * complete. What describes a file's contents is read, so that a file that another process cuts short
 * is an error; only large tensors and large ONNX models are mapped, where that would be a signal.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include "front/front.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum proem_status file_status(int code) {
    return code == ENOSPC || code == EDQUOT ? PROEM_NOMEM : PROEM_IO;
}

enum proem_status file_error(const char *name, const char *verb, struct err *e) {
    char text[128];
    int code = errno;
    if (strerror_r(code, text, sizeof text) != 0) text[0] = '\0';
    return err_set(e, file_status(code), "%s: cannot %s: %s", name, verb, text);
}

enum proem_status file_open(struct arena *a, const char *path, struct file *out, struct err *e) {
    char *name = arena_strdup(a, path);
    if (name == NULL) return err_nomem(e);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold us up */
    if (fd < 0) return file_error(path, "open", e);
    struct stat st;
    enum proem_status s = PROEM_OK;
    if (fstat(fd, &st) != 0)
        s = file_error(path, "look at the file", e);
    else if (!S_ISREG(st.st_mode))
        s = err_set(e, PROEM_IO, "%s: not a regular file", path);
    if (s != PROEM_OK) {
        close(fd);
        return s;
    }
    *out = (struct file){.name = name, .fd = fd, .size = (uint64_t)st.st_size};
    return PROEM_OK;
}

bool file_lies_below(const struct file *f, const char *path, const char *folder, bool file) {
    char where[PATH_MAX], top[PATH_MAX];
    struct stat opened, named;
    if (realpath(path, where) == NULL || realpath(folder, top) == NULL) return false;
    if (file) *strrchr(top, '/') = '\0'; /* an absolute path has one */
    size_t n = strlen(top);
    if (n > 0 && top[n - 1] == '/') n--;
    if (strncmp(where, top, n) != 0 || where[n] != '/') return false;
    /* the path may have become another file's since it was opened */
    return fstat(f->fd, &opened) == 0 && stat(where, &named) == 0 &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

bool file_is_same(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

struct file file_memory(const char *name, const void *bytes, size_t n) {
    return (struct file){.name = name, .fd = -1, .memory = bytes, .size = n};
}

void file_close(struct file *f) {
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
    f->memory = NULL;
    f->size = 0;
}

enum proem_status file_read(const struct file *f, uint64_t offset, void *dst, size_t n,
                            struct err *e) {
    if (offset > f->size || n > f->size - offset)
        return err_set(e, PROEM_DATA,
                       "%s: truncated: %zu bytes from offset %llu are needed, the file has %llu",
                       f->name, n, (unsigned long long)offset, (unsigned long long)f->size);
    if (f->fd < 0) {
        if (n > 0) memcpy(dst, f->memory + offset, n);
        return PROEM_OK;
    }
    unsigned char *to = dst;
    while (n > 0) {
        size_t step = n < ((size_t)1 << 30) ? n : (size_t)1 << 30;
        ssize_t got = pread(f->fd, to, step, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return file_error(f->name, "read", e);
        if (got == 0) return err_set(e, PROEM_IO, "%s: became shorter while it was read", f->name);
        to += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    return PROEM_OK;
}

/* Writable, because a graph's output may take a parameter's memory; what is written is the process's
 * own. */
void *file_map(const struct file *f, uint64_t offset, size_t n, void **map, size_t *map_bytes) {
    long page = sysconf(_SC_PAGESIZE);
    if (f->fd < 0 || n == 0 || page <= 0 || offset > f->size || n > f->size - offset) return NULL;
    size_t before = (size_t)(offset % (uint64_t)page);
    if (n > SIZE_MAX - before) return NULL;
    void *p = mmap(NULL, before + n, PROT_READ | PROT_WRITE, MAP_PRIVATE, f->fd,
                   (off_t)(offset - before));
    if (p == MAP_FAILED) return NULL;
    *map = p;
    *map_bytes = before + n;
    return (char *)p + before;
}

void file_unmap(void *map, size_t map_bytes) {
    munmap(map, map_bytes);
}

void bytes_to_native(void *data, size_t elem, size_t count, bool big_endian) {
    const uint16_t probe = 1;
    unsigned char low;
    memcpy(&low, &probe, 1);
    bool machine_is_big = low == 0;
    if (elem < 2 || machine_is_big == big_endian) return;
    unsigned char *p = data;
    for (size_t i = 0; i < count; i++, p += elem) {
        for (size_t j = 0; j < elem / 2; j++) {
            unsigned char t = p[j];
            p[j] = p[elem - 1 - j];
            p[elem - 1 - j] = t;
        }
    }
}
