/* SPDX-License-Identifier: MIT
 * C text to shared objects by the system's compiler.
 *
 * The instruction set is given flag by flag from the device description, never as -march=native:
 * the same command line means the same code on every machine, and the text of the flags can be part
 * of the cache's key. The compiler is identified by path, size and time of its file and the first
 * line of its --version; the latter is kept in the cache, so that a warm start runs no program.
 */
#define _XOPEN_SOURCE 700 /* realpath, S_ISVTX */
#include "rt/rt_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUTPUT_CAP      ((size_t)64 * 1024)
#define VERSION_TIMEOUT 20000

/* What GCC's -O2 does beyond -O1 takes a third of its time and none of a kernel's: the loops that
 * matter are written as they shall run. Those over lanes that are left want the vectorizer. The -O1
 * of others (Clang) leaves out more, and they do not know these flags. */
static const char *const gcc_flags[] = {"-O1", "-ftree-vectorize", "-fvect-cost-model=very-cheap"};
static const char *const other_flags[] = {"-O2"};

/* -Wno-psabi: notes on passing wide vectors, which -w leaves. */
static const char *const base_flags[] = {"-std=gnu11",
                                         "-ffp-contract=off",
                                         "-fno-math-errno",
                                         "-fno-trapping-math",
                                         "-fwrapv",
                                         "-fPIC",
                                         "-w",
                                         "-Wno-psabi",
                                         "-pipe",
                                         "-shared",
                                         "-nostartfiles"};

/* ---- finding it ------------------------------------------------------------------------------ */

static bool is_program(const char *file, struct stat *st) {
    return stat(file, st) == 0 && S_ISREG(st->st_mode) && access(file, X_OK) == 0;
}

/* Search like a shell: a name with a slash is a path, else try each directory. */
static bool look_up(struct rt *rt, struct str *found, struct stat *st) {
    const char *name = str_text(&rt->compiler_option);
    if (strchr(name, '/') != NULL) {
        str_add(found, name);
        return is_program(name, st);
    }
    const char *p = str_text(&rt->search_path);
    while (true) {
        const char *end = strchr(p, ':');
        size_t n = end != NULL ? (size_t)(end - p) : strlen(p);
        str_free(found);
        if (n == 0) {
            str_add(found, ".");
        } else {
            str_addn(found, p, n);
        }
        str_add(found, "/");
        str_add(found, name);
        if (found->failed) return false;
        if (is_program(str_text(found), st)) return true;
        if (end == NULL) return false;
        p = end + 1;
    }
}

/* NULL-terminated environment: what the caller gave, over PATH and a fixed locale. */
static const char **environment(struct rt *rt, struct arena *a, const char *tmp_dir) {
    const char **env = ARENA_NEW(a, const char *, (size_t)rt->n_env + 4);
    if (env == NULL) return NULL;
    int n = 0;
    for (int i = 0; i < rt->n_env; i++)
        env[n++] = rt->env[i];
    env[n++] = arena_printf(a, "PATH=%s", str_text(&rt->search_path));
    env[n++] = arena_printf(a, "TMPDIR=%s", tmp_dir);
    env[n++] = "LC_ALL=C";
    return arena_ok(a) ? env : NULL;
}

/* posix_spawn wants char *const *, and writes to none of it. */
static char *const *as_argv(const char **v) {
    char *const *out;
    memcpy(&out, &v, sizeof out);
    return out;
}

static enum proem_status missing(struct rt *rt, struct err *e) {
    return err_set(e, PROEM_COMPILE,
                   "the C compiler '%s' is not found; install gcc or clang, or name another one",
                   str_text(&rt->compiler_option));
}

static enum proem_status ask_version(struct rt *rt, struct arena *a, struct err *e) {
    const char **argv = ARENA_NEW(a, const char *, 3);
    const char **env = environment(rt, a, str_text(&rt->tmp_dir));
    char *output = ARENA_NEW(a, char, OUTPUT_CAP);
    if (argv == NULL || env == NULL || output == NULL) return err_nomem(e);
    const char *path = str_text(&rt->compiler.path);
    argv[0] = path;
    argv[1] = "--version";
    struct rt_command c = {.path = path,
                           .argv = as_argv(argv),
                           .envp = as_argv(env),
                           .output = output,
                           .output_cap = OUTPUT_CAP};
    int timeout = rt->timeout_ms < VERSION_TIMEOUT ? rt->timeout_ms : VERSION_TIMEOUT;
    TRY(rt_commands_run(rt->alloc, &c, 1, 1, timeout, rt->hold_signals, NULL, NULL, e));
    if (c.ended == RT_TIMED_OUT) {
        return err_set(e, PROEM_COMPILE, "the C compiler '%s' hangs on --version", path);
    }
    if (c.ended == RT_NOT_STARTED) {
        char text[128];
        return err_set(e, PROEM_COMPILE, "cannot run the C compiler '%s': %s", path,
                       rt_errno_text(c.code, text));
    }
    /* One that does not know --version may compile well; its file identifies it. */
    size_t n = strcspn(c.output, "\r\n");
    str_addn(&rt->compiler.version, c.output, c.ended == RT_EXITED && c.code == 0 ? n : 0);
    return rt->compiler.version.failed ? err_nomem(e) : PROEM_OK;
}

static enum proem_status find_version(struct rt *rt, struct err *e) {
    char key[RT_KEY_TEXT];
    struct rt_compiler_id *id = &rt->compiler;
    rt_key_text(XXH3_128bits(str_text(&id->identity), id->identity.n), key);
    struct str file;
    str_init(&file, rt->alloc);
    bool cached = rt_cache_find(&rt->cache, key, RT_CACHE_TEXT, &file, &id->version);
    enum proem_status s = PROEM_OK;
    if (!cached) {
        struct arena a;
        arena_init(&a, rt->alloc);
        s = ask_version(rt, &a, e);
        arena_free(&a);
        if (s == PROEM_OK) {
            str_free(&file);
            rt_cache_store(&rt->cache, key, RT_CACHE_TEXT, str_text(&id->version), id->version.n,
                           &file);
        }
    }
    str_free(&file);
    return s;
}

enum proem_status rt_compiler_find(struct rt *rt, struct err *e) {
    struct rt_compiler_id *id = &rt->compiler;
    if (id->known) return PROEM_OK;
    struct stat st;
    str_free(&id->path);
    str_free(&id->identity);
    str_free(&id->version);
    bool found = look_up(rt, &id->path, &st);
    if (id->path.failed) return err_nomem(e);
    if (!found) return missing(rt, e);
    char real[PATH_MAX];
    if (realpath(str_text(&id->path), real) == NULL) return missing(rt, e);
    str_printf(&id->identity, "%s %s %lld %lld.%09ld", str_text(&id->path), real,
               (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    if (id->identity.failed) return err_nomem(e);
    TRY(find_version(rt, e));
    id->known = true;
    return PROEM_OK;
}

/* ---- the command line ------------------------------------------------------------------------ */

static bool contains(const char *line, size_t n, const char *word) {
    size_t w = strlen(word);
    for (size_t i = 0; i + w <= n; i++) {
        if (memcmp(line + i, word, w) == 0) return true;
    }
    return false;
}

/* GCC says "NAME (PACKAGE) 12.2.0", whatever it is called. */
static bool is_gcc(const char *version) {
    for (const char *p = version; (p = strstr(p, ") ")) != NULL; p += 2) {
        if (p[2] >= '0' && p[2] <= '9') return !contains(version, strlen(version), "clang");
    }
    return false;
}

/* Flags, and what stands behind them if there are files; the result ends with NULL. */
static const char **make_argv(struct rt *rt, const struct device_desc *d, struct arena *a,
                              const char *out_file, const char *in_file) {
    size_t most = COUNT_OF(gcc_flags) + COUNT_OF(base_flags) + (size_t)rt->n_flags + ISA_COUNT + 8;
    const char **v = ARENA_NEW(a, const char *, most);
    if (v == NULL) return NULL;
    bool gcc = is_gcc(str_text(&rt->compiler.version));
    size_t n = 0;
    v[n++] = str_text(&rt->compiler.path);
    for (size_t i = 0; i < (gcc ? COUNT_OF(gcc_flags) : COUNT_OF(other_flags)); i++)
        v[n++] = gcc ? gcc_flags[i] : other_flags[i];
    for (size_t i = 0; i < COUNT_OF(base_flags); i++)
        v[n++] = base_flags[i];
    if (d->arch == ARCH_X86_64) {
        for (int i = 0; i < ISA_COUNT; i++) {
            if ((d->isa >> i & 1u) != 0) v[n++] = arena_printf(a, "-m%s", isa_name(i));
        }
        if (d->vector_bits == 512) v[n++] = "-mprefer-vector-width=512";
    }
    for (int i = 0; i < rt->n_flags; i++)
        v[n++] = rt->flags[i];
    if (in_file != NULL) {
        v[n++] = "-o";
        v[n++] = out_file;
        v[n++] = in_file;
        v[n++] = "-lm";
    }
    return arena_ok(a) ? v : NULL;
}

enum proem_status rt_flags_text(struct rt *rt, const struct device_desc *device, struct str *out,
                                struct err *e) {
    struct arena a;
    arena_init(&a, rt->alloc);
    const char **v = make_argv(rt, device, &a, NULL, NULL);
    for (size_t i = 1; v != NULL && v[i] != NULL; i++) {
        if (i > 1) str_add(out, " ");
        str_add(out, v[i]);
    }
    bool ok = v != NULL && !out->failed;
    arena_free(&a);
    return ok ? PROEM_OK : err_nomem(e);
}

/* ---- compiling ------------------------------------------------------------------------------- */

struct batch {
    struct rt *rt;
    int done, total;
};

static void unit_ended(void *user, int i) {
    struct batch *b = user;
    (void)i;
    b->done++;
    if (b->rt->progress != NULL) b->rt->progress(b->rt->progress_user, b->done, b->total);
}

/* The line that says what is wrong: the first with "error", else the first that is not empty. */
static const char *error_line(const char *text, size_t *n) {
    const char *first = NULL;
    size_t first_n = 0;
    for (const char *p = text; *p != '\0';) {
        size_t len = strcspn(p, "\r\n");
        if (contains(p, len, "error")) {
            *n = len;
            return p;
        }
        if (first == NULL && len > 0) {
            first = p;
            first_n = len;
        }
        p += len + (p[len] != '\0');
    }
    *n = first_n;
    return first != NULL ? first : "";
}

static bool disk_is_full(const char *output) {
    return contains(output, strlen(output), "No space left") ||
           contains(output, strlen(output), "Disk quota exceeded");
}

static enum proem_status judge(struct rt *rt, const struct rt_job *job, const struct rt_command *c,
                               const char *so, struct err *e) {
    const char *name = job->source->name;
    const char *cc = str_text(&rt->compiler.path);
    char text[128];
    size_t n;
    struct stat st;
    const char *line = error_line(c->output, &n);
    int len = n > 300 ? 300 : (int)n;
    switch (c->ended) {
    case RT_NOT_STARTED:
        return err_set(e, PROEM_COMPILE, "cannot run the C compiler '%s': %s", cc,
                       rt_errno_text(c->code, text));
    case RT_TIMED_OUT:
        return err_set(e, PROEM_COMPILE, "the C compiler '%s' was stopped on unit '%s' after %d ms",
                       cc, name, rt->timeout_ms);
    case RT_KILLED:
        return err_set(e, PROEM_COMPILE, "the C compiler '%s' died of signal %d on unit '%s'%s%.*s",
                       cc, c->code, name, len > 0 ? ": " : "", len, line);
    case RT_EXITED: break;
    }
    if (c->code != 0 && disk_is_full(c->output)) {
        return err_set(e, PROEM_COMPILE, "no room in '%s' to compile unit '%s': %.*s", job->dir,
                       name, len, line);
    }
    if (c->code != 0) {
        return err_set(e, PROEM_COMPILE, "the C compiler '%s' failed (exit %d) on unit '%s'%s%.*s",
                       cc, c->code, name, len > 0 ? ": " : " and says nothing", len, line);
    }
    if (stat(so, &st) != 0 || st.st_size == 0) {
        return err_set(e, PROEM_COMPILE, "the C compiler '%s' wrote no output for unit '%s'", cc,
                       name);
    }
    return PROEM_OK;
}

/* Write the source and prepare the command. */
static enum proem_status prepare(struct rt *rt, const struct device_desc *device, struct arena *a,
                                 const struct rt_job *job, struct rt_command *c, const char **so,
                                 struct err *e) {
    const char *in = arena_printf(a, "%s/%s.c", job->dir, job->base);
    *so = arena_printf(a, "%s/%s.so", job->dir, job->base);
    const char **argv = make_argv(rt, device, a, *so, in);
    const char **env = environment(rt, a, job->dir);
    char *output = ARENA_NEW(a, char, OUTPUT_CAP);
    if (!arena_ok(a) || in == NULL || *so == NULL || argv == NULL || env == NULL ||
        output == NULL) {
        return err_nomem(e);
    }
    *c = (struct rt_command){.path = argv[0],
                             .argv = as_argv(argv),
                             .envp = as_argv(env),
                             .output = output,
                             .output_cap = OUTPUT_CAP};
    return rt_write_file(in, job->source->text, job->source->n, e);
}

enum proem_status rt_compile(struct rt *rt, const struct device_desc *device, struct rt_job *jobs,
                             int n, struct err *e) {
    struct arena a;
    arena_init(&a, rt->alloc);
    struct rt_command *c = ARENA_NEW(&a, struct rt_command, (size_t)n);
    const char **so = ARENA_NEW(&a, const char *, (size_t)n);
    enum proem_status s = c != NULL && so != NULL ? PROEM_OK : err_nomem(e);
    for (int i = 0; s == PROEM_OK && i < n; i++) {
        s = prepare(rt, device, &a, &jobs[i], &c[i], &so[i], e);
    }
    struct batch batch = {.rt = rt, .total = n};
    if (s == PROEM_OK) {
        s = rt_commands_run(rt->alloc, c, n, rt->jobs, rt->timeout_ms, rt->hold_signals, unit_ended,
                            &batch, e);
    }
    for (int i = 0; s == PROEM_OK && i < n; i++)
        s = judge(rt, &jobs[i], &c[i], so[i], e);
    arena_free(&a);
    return s;
}
