/* SPDX-License-Identifier: MIT
 * A session: context from the environment, the graph's file read and parsed, the dumps of passes.
 *
 * Environment: PROEM_CACHE_DIR (empty: no cache), else XDG_CACHE_HOME or HOME, for compiled
 * kernels; CC for the compiler, further words in it are flags. PROEM_CUDA and PROEM_NVRTC name the
 * libraries of a GPU (driver/cuda.c).
 */
#include "cli/cli.h"
#include "driver/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- context --------------------------------------------------------------------------------- */

static void show_bar(void *user, const char *stage, int done, int total) {
    enum { WIDTH = 30 };
    (void)user;
    if (total < 1) return;
    int filled = done * WIDTH / total;
    fprintf(stderr, "\r%s [", stage);
    for (int i = 0; i < WIDTH; i++)
        fputc(i < filled ? '#' : '.', stderr);
    fprintf(stderr, "] %d/%d%s", done, total, done == total ? "\n" : "");
    fflush(stderr);
}

static void show_progress(void *user, int done, int total) {
    if (total > 1) show_bar(user, "compiling", done, total);
}

/* CC: the compiler's name, then flags. */
static enum proem_status split_compiler(struct session *s, const char *cc, const char **compiler,
                                        const char *const **flags, struct err *e) {
    VEC(const char *) words = {0};
    while (cc != NULL && *cc != '\0') {
        size_t n = strcspn(cc, " \t");
        if (n > 0 && !VEC_PUSH(&s->arena, &words, arena_strndup(&s->arena, cc, n)))
            return err_nomem(e);
        cc += n + (cc[n] != '\0');
    }
    if (!VEC_PUSH(&s->arena, &words, (const char *)NULL) || !arena_ok(&s->arena))
        return err_nomem(e);
    *compiler = words.at[0];
    *flags = words.n > 2 ? words.at + 1 : NULL;
    return PROEM_OK;
}

enum proem_status session_context(struct session *s, const struct cli *o, struct err *e) {
    s->o = o;
    s->started_us = now_us();
    arena_init(&s->arena, &allocator_default);
    str_init(&s->text, &allocator_default);
    src_files_init(&s->files, &s->arena);
    struct proem_context_options options;
    struct context_extra extra = {0};
    struct str cache;
    proem_context_options_init(&options);
    str_init(&cache, &allocator_default);
    TRY(split_compiler(s, getenv("CC"), &options.compiler, &extra.compiler_flags, e));
    const char *dir = getenv("PROEM_CACHE_DIR");
    if (dir != NULL)
        options.cache_dir = dir[0] != '\0' ? dir : NULL;
    else if (rt_cache_default_dir(getenv("XDG_CACHE_HOME"), getenv("HOME"), &cache))
        options.cache_dir = str_text(&cache);
    options.threads = o->threads;
    if (isatty(STDERR_FILENO)) extra.progress = show_progress;
    enum proem_status status = context_new(&options, &extra, &s->c, e);
    str_free(&cache);
    return status;
}

void session_close(struct session *s) {
    for (size_t i = 0; i < s->n_in; i++)
        array_free(&s->in[i].array);
    src_files_close(&s->files);
    proem_program_destroy(s->p);
    proem_context_destroy(s->c);
    str_free(&s->text);
    arena_free(&s->arena);
}

/* ---- the file -------------------------------------------------------------------------------- */

static enum proem_status read_file(const char *path, struct str *out, struct err *e) {
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "rb");
    if (f == NULL) return err_set(e, PROEM_IO, "%s: %s", path, strerror(errno));
    char buf[4096];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, f)) > 0)
        str_addn(out, buf, n);
    bool failed = ferror(f) != 0;
    int code = errno;
    if (!is_stdin) fclose(f);
    if (failed) return err_set(e, PROEM_IO, "%s: %s", path, strerror(code));
    return out->failed ? err_nomem(e) : PROEM_OK;
}

/* ---- options of the program ------------------------------------------------------------------ */

static enum proem_status choose_gpu(struct session *s, bool runs, struct device_desc *out,
                                    struct err *e) {
    struct err why = {0};
    enum proem_status status = cuda_target(s->c, s->o->arch, runs, out, &why);
    if (status == PROEM_OK) return status;
    bool hint = status == PROEM_DEVICE && !runs;
    return err_set(e, status, "%s%s%s", status == PROEM_INVALID ? "--arch: " : "", why.text,
                   hint ? "; with --arch sm_90a it plans without one" : "");
}

static enum proem_status choose_target(struct session *s, struct device_desc *out, struct err *e) {
    const struct cli *o = s->o;
    bool runs = o->command == CMD_RUN || o->command == CMD_BENCH;
    if (o->device == CLI_CUDA) return choose_gpu(s, runs, out, e);
    if (o->arch == NULL) {
        *out = *context_native(s->c);
        return PROEM_OK;
    }
    const char *missing = NULL;
    if (strncmp(o->arch, "sm_", 3) == 0)
        return err_set(e, PROEM_INVALID, "--arch: '%s' is a GPU, but the device is cpu", o->arch);
    if (!device_by_name(o->arch, strlen(o->arch), out))
        return err_set(e, PROEM_INVALID,
                       "--arch: '%s' is wrong; expected generic, avx2, avx512, avx512fp16 or neon",
                       o->arch);
    if (runs && !device_can_run(context_native(s->c), out, &missing))
        return err_set(e, PROEM_DEVICE, "--arch: this machine cannot run code for %s: it lacks %s",
                       o->arch, missing);
    return PROEM_OK;
}

static bool is_value_name(const struct graph *g, const char *name, size_t n) {
    for (size_t v = 1; v < g->values.n; v++) {
        const char *is = g->values.at[v].name;
        if (is != NULL && strlen(is) == n && memcmp(is, name, n) == 0) return true;
    }
    return false;
}

/* FROM:TO, split where both sides are names of values; a name may hold a colon. */
static enum proem_status resolve_force(struct session *s, const struct pair *pair,
                                       struct fuse_force *out, struct err *e) {
    const struct graph *g = s->p->graph;
    for (const char *c = strchr(pair->name, ':'); c != NULL; c = strchr(c + 1, ':')) {
        size_t n = (size_t)(c - pair->name);
        if (!is_value_name(g, pair->name, n) || !is_value_name(g, c + 1, strlen(c + 1))) continue;
        *out = (struct fuse_force){.from = arena_strndup(&s->arena, pair->name, n),
                                   .to = arena_strdup(&s->arena, c + 1),
                                   .fuse = strcmp(pair->text, "always") == 0};
        return arena_ok(&s->arena) ? PROEM_OK : err_nomem(e);
    }
    return err_set(e, PROEM_INVALID,
                   "--fuse: '%s' names no edge; expected FROM:TO with two values of graph %s",
                   pair->name, g->name);
}

static enum proem_status resolve_forces(struct session *s, struct err *e) {
    size_t n = s->o->force.n;
    struct fuse_force *f = ARENA_NEW(&s->arena, struct fuse_force, n);
    if (f == NULL) return err_nomem(e);
    for (size_t i = 0; i < n; i++)
        TRY(resolve_force(s, &s->o->force.at[i], &f[i], e));
    s->p->opt.force = f;
    s->p->opt.n_force = n;
    return PROEM_OK;
}

/* ---- dumps ----------------------------------------------------------------------------------- */

static void part_text(const struct proem_program *p, enum pass_id pass, int part, struct str *out) {
    str_init(out, &allocator_default);
    pass_table()[pass].print(p, part, out);
}

static bool is_asked(const struct cli *o, const char *pass) {
    for (size_t i = 0; i < o->dump.n; i++) {
        if (strcmp(o->dump.at[i], pass) == 0) return true;
    }
    return false;
}

static enum proem_status dump_part(struct session *s, const struct proem_program *p,
                                   enum pass_id pass, int part, struct err *e) {
    const struct cli *o = s->o;
    const struct pass *def = &pass_table()[pass];
    bool cuda = pass == PASS_GEN && p->opt.target.kind == DEVICE_CUDA;
    struct str text;
    part_text(p, pass, part, &text);
    enum proem_status status = text.failed ? err_nomem(e) : PROEM_OK;
    if (status == PROEM_OK && is_asked(o, def->name))
        fwrite(str_text(&text), 1, text.n, o->json ? stderr : stdout);
    if (status == PROEM_OK && o->dump_dir != NULL) {
        const char *path = arena_printf(&s->arena, "%s/%02d-%s.%s", o->dump_dir, (int)pass,
                                        pass_part_name(p, pass, part), cuda ? "cu" : def->suffix);
        status = path == NULL ? err_nomem(e) : write_text(path, str_text(&text), text.n, e);
    }
    str_free(&text);
    return status;
}

/* --tune=order has changed results; whoever asked for it hears where. */
static void warn_reordered(const struct proem_program *p) {
    for (size_t i = 0; i < p->plan.kernels.n; i++) {
        const struct kernel *k = p->plan.kernels.at[i];
        if (k->tuned.reordered)
            fprintf(
                stderr,
                "proem: --tune=order: the order of k of kernel %s is now %s, not %s; results may "
                "differ in the last bits\n",
                k->name, k->tile.order, k->model_tile.order);
    }
}

/* A kernel that the GPU's compiler calls slow. `explain` lists it with the other fallbacks. */
static void warn_slow(const struct session *s, const struct proem_program *p) {
    if (s->o->command == CMD_EXPLAIN) return;
    for (size_t i = 0; i < p->fallbacks.n; i++) {
        const struct fallback *f = &p->fallbacks.at[i];
        if (strncmp(f->what, "kernel ", 7) == 0)
            fprintf(stderr, "proem: %s: %s\n", f->what, f->why);
    }
}

static enum proem_status dump(void *user, struct proem_program *p, enum pass_id pass,
                              struct err *e) {
    struct session *s = user;
    if (pass == PASS_TUNE) warn_reordered(p);
    if (pass == PASS_COMPILE) warn_slow(s, p);
    if (s->o->dump_dir == NULL && !is_asked(s->o, pass_table()[pass].name)) return PROEM_OK;
    if (s->o->dump_dir != NULL) TRY(make_dir(&s->arena, s->o->dump_dir, e));
    for (int i = 0; i < pass_parts(p, pass); i++)
        TRY(dump_part(s, p, pass, i, e));
    return PROEM_OK;
}

enum pass_id session_last(const struct session *s, enum pass_id last) {
    for (size_t i = 0; i < s->o->dump.n; i++) {
        enum pass_id asked = pass_by_name(s->o->dump.at[i]);
        if (asked > last) last = asked;
    }
    return last;
}

/* ---- programs -------------------------------------------------------------------------------- */

static enum proem_status parse(struct session *s, proem_program *p, struct err *e) {
    const struct cli *o = s->o;
    program_set_text(p, str_text(&s->text), s->text.n, o->file, o->graph, o->run_pass != NULL);
    return program_run(p, PASS_PARSE, PASS_PARSE, e);
}

enum proem_status session_open(struct session *s, const struct cli *o, struct err *e) {
    TRY(session_context(s, o, e));
    TRY(is_onnx(o->file) ? session_import(s, e) : read_file(o->file, &s->text, e));
    static const enum proem_device devices[] = {PROEM_DEVICE_CPU, PROEM_DEVICE_CUDA,
                                                PROEM_DEVICE_REF};
    struct program_options options = {.device = devices[o->device],
                                      .prec = o->precision,
                                      .policy = o->fuse,
                                      .assume_bandwidth = o->assume_bandwidth,
                                      .strict = o->strict,
                                      .tune = o->tune_order ? TUNE_ORDER
                                              : o->tune     ? TUNE_TILES
                                                            : TUNE_OFF};
    if (isatty(STDERR_FILENO)) options.progress = show_bar;
    TRY(program_new(s->c, &options, &s->p, e));
    s->p->observe = dump;
    s->p->observe_user = s;
    TRY(parse(s, s->p, e));
    bool only_text = o->command == CMD_FMT && o->run_pass == NULL;
    if (only_text && session_last(s, PASS_PARSE) == PASS_PARSE) return PROEM_OK;
    TRY(resolve_forces(s, e));
    return choose_target(s, &s->p->opt.target, e);
}

enum proem_status session_program(struct session *s, enum fuse_policy fuse, proem_program **out,
                                  struct err *e) {
    struct program_options options = s->p->opt;
    options.policy = fuse;
    options.n_force = 0;
    TRY(program_new(s->c, &options, out, e));
    TRY(parse(s, *out, e));
    for (int i = 0; i < s->p->dims.n; i++)
        (*out)->dims.value[i] = s->p->dims.value[i];
    return program_run(*out, PASS_LOWER, PASS_LINK, e);
}

enum proem_status session_run_pass(struct session *s, struct err *e) {
    enum pass_id pass = pass_by_name(s->o->run_pass);
    for (size_t i = 0; i < s->o->dims.n; i++) {
        const struct pair *d = &s->o->dims.at[i];
        TRY(dims_bind_name(s->p->graph, &s->p->dims, d->name, strtoll(d->text, NULL, 10), e));
    }
    TRY(program_run(s->p, PASS_LOWER, pass, e));
    for (int i = 0; i < pass_parts(s->p, pass); i++) {
        struct str text;
        part_text(s->p, pass, i, &text);
        enum proem_status status = text.failed ? err_nomem(e) : PROEM_OK;
        if (status == PROEM_OK && fwrite(str_text(&text), 1, text.n, stdout) != text.n)
            status = stdout_failed(e);
        str_free(&text);
        TRY(status);
    }
    return PROEM_OK;
}
