/* SPDX-License-Identifier: MIT
 * Whole files in and out, and directories for temporary files. Every message names the file and
 * what the system said.
 */
#include "rt/rt_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *rt_errno_text(int number, char *buf) {
    char text[128] = "";
    bool known = strerror_r(number, text, sizeof text) == 0;
    return strcpy(buf, known ? text : "unknown error");
}

bool rt_write_all(int fd, const void *data, size_t n) {
    const char *p = data;
    while (n > 0) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) return false;
        p += w;
        n -= (size_t)w;
    }
    return true;
}

bool rt_read_all(int fd, struct str *out) {
    char chunk[16384];
    while (true) {
        ssize_t r = read(fd, chunk, sizeof chunk);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return false;
        if (r == 0) return true;
        str_addn(out, chunk, (size_t)r);
        if (out->failed) {
            errno = ENOMEM;
            return false;
        }
    }
}

/* What the machine lacks is not the user's mistake. */
static enum proem_status status_of(int number) {
    return number == ENOSPC || number == EDQUOT ? PROEM_COMPILE : PROEM_IO;
}

static enum proem_status failed(struct err *e, const char *what, const char *file, int number) {
    char text[128];
    if (number == ENOMEM) return err_nomem(e);
    return err_set(e, status_of(number), "cannot %s '%s': %s", what, file,
                   rt_errno_text(number, text));
}

enum proem_status rt_read_file(const char *file, struct str *out, struct err *e) {
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return failed(e, "open", file, errno);
    bool ok = rt_read_all(fd, out);
    int why = errno;
    close(fd);
    return ok ? PROEM_OK : failed(e, "read", file, why);
}

enum proem_status rt_write_file(const char *file, const void *data, size_t n, struct err *e) {
    int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return failed(e, "create", file, errno);
    bool ok = rt_write_all(fd, data, n);
    int why = errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        why = errno;
    }
    return ok ? PROEM_OK : failed(e, "write", file, why);
}

enum proem_status rt_make_work_dir(const char *parent, struct str *dir, struct err *e) {
    str_free(dir);
    str_printf(dir, "%s/proem-XXXXXX", parent);
    if (dir->failed) return err_nomem(e);
    if (mkdtemp(dir->at) != NULL) return PROEM_OK; /* mode 0700 */
    char text[128];
    int why = errno;
    return err_set(e, status_of(why), "cannot make a directory for temporary files in '%s': %s",
                   parent, rt_errno_text(why, text));
}

/* Empty a folder, as far as can be, and close it. Links are removed, not followed. The folders above
 * stay open, so `depth` bounds them. */
static void empty_dir(int fd, int depth) {
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (d == NULL) {
        if (fd >= 0) close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        if (unlinkat(fd, name, 0) == 0 || unlinkat(fd, name, AT_REMOVEDIR) == 0) continue;
        if (depth > 0)
            empty_dir(openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), depth - 1);
        unlinkat(fd, name, AT_REMOVEDIR);
    }
    closedir(d);
}

void rt_remove_work_dir(const char *dir) {
    enum { DEEPEST = 32 };
    empty_dir(open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), DEEPEST);
    rmdir(dir);
}
