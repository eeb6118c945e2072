/* SPDX-License-Identifier: MIT
 * Files out. A regular file, or one that is not there yet, is written beside its place under another
 * name and takes the place when it is whole. So a file that is read, or mapped, while the same name
 * is written keeps its bytes, and what fails on the way leaves the old file as it was. Devices and
 * pipes are written where they are. A link stays one: the file that it leads to is replaced.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include "front/front.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* rename */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Its place, wherever links lead; false: what is there is no regular file. old: a file's status,
 * st_nlink 0 if there is none. */
static bool find_place(const char *path, char place[PATH_MAX], struct stat *old) {
    struct stat link;
    size_t n = strlen(path);
    *old = (struct stat){0};
    if (stat(path, old) == 0) return S_ISREG(old->st_mode) && realpath(path, place) != NULL;
    *old = (struct stat){0};
    if (errno != ENOENT || lstat(path, &link) == 0 || n == 0 || n >= PATH_MAX) return false;
    memcpy(place, path, n + 1);
    return true;
}

/* A new file in the folder of `place`; -1: errno says why. */
static int open_beside(const char *place, char temp[PATH_MAX]) {
    enum { TRIES = 1000 };
    const char *slash = strrchr(place, '/');
    int folder = slash != NULL ? (int)(slash - place) + 1 : 0, fd = -1;
    struct str name;
    str_init(&name, &allocator_default);
    errno = EEXIST;
    for (int i = 0; i < TRIES && fd < 0 && errno == EEXIST; i++) {
        name.n = 0;
        str_printf(&name, "%.*s.proem-%ld-%d.tmp", folder, place, (long)getpid(), i);
        if (name.failed || name.n >= PATH_MAX) {
            errno = name.failed ? ENOMEM : ENAMETOOLONG;
            break;
        }
        memcpy(temp, str_text(&name), name.n + 1);
        fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    int code = errno;
    str_free(&name);
    errno = code;
    return fd;
}

enum proem_status file_create(const char *path, struct file_out *f, struct err *e) {
    struct stat old;
    *f = (struct file_out){.path = path};
    f->beside = find_place(path, f->place, &old);
    if (!f->beside)
        f->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    else if (old.st_nlink > 0 && access(f->place, W_OK) != 0)
        f->fd = -1;
    else
        f->fd = open_beside(f->place, f->temp);
    if (f->fd < 0) return errno == ENOMEM ? err_nomem(e) : file_error(path, "create", e);
    /* who could read the old one can read the new one; a file system without modes has none */
    if (f->beside && old.st_nlink > 0 && fchmod(f->fd, old.st_mode & 0777) != 0) errno = 0;
    return PROEM_OK;
}

static bool write_block(int fd, const void *bytes, size_t n) {
    const unsigned char *from = bytes;
    while (n > 0) {
        size_t step = n < ((size_t)1 << 30) ? n : (size_t)1 << 30;
        ssize_t put = write(fd, from, step);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return false;
        from += put;
        n -= (size_t)put;
    }
    return true;
}

enum proem_status file_append(struct file_out *f, const void *bytes, size_t n, struct err *e) {
    return write_block(f->fd, bytes, n) ? PROEM_OK : file_error(f->path, "write", e);
}

/* Data in blocks that are put in little-endian order on the way. */
enum proem_status file_append_array(struct file_out *f, const struct array *a, struct err *e) {
    unsigned char block[4096];
    size_t elem = dtype_bits(a->type.dtype) < 8 ? 1 : (size_t)dtype_bits(a->type.dtype) / 8;
    const uint16_t one = 1;
    if (*(const unsigned char *)&one == 1 || elem == 1) return file_append(f, a->data, a->bytes, e);
    for (size_t at = 0; at < a->bytes; at += sizeof block) {
        size_t n = a->bytes - at < sizeof block ? a->bytes - at : sizeof block;
        memcpy(block, (const unsigned char *)a->data + at, n);
        bytes_to_native(block, elem, n / elem, false);
        TRY(file_append(f, block, n, e));
    }
    return PROEM_OK;
}

enum proem_status file_finish(struct file_out *f, enum proem_status s, struct err *e) {
    if (close(f->fd) != 0 && s == PROEM_OK) s = file_error(f->path, "write", e);
    f->fd = -1;
    if (!f->beside) return s;
    if (s == PROEM_OK && rename(f->temp, f->place) != 0) s = file_error(f->path, "create", e);
    if (s != PROEM_OK) unlink(f->temp);
    return s;
}
