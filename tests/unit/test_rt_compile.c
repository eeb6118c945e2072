/* SPDX-License-Identifier: MIT
 * Units of C text to loaded modules: compiler, its failures, the disk cache, several processes.
 */
#define _XOPEN_SOURCE 700 /* SIGXFSZ, S_ISVTX */
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
static char *store_unit(int value) {
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

static int call_store(struct rt_module *m) {
    int out = 0;
    void *buf[1] = {&out};
    struct pk_args a = {.buf = buf, .threads = 1};
    const struct pk_kernel *k = rt_module_kernel(m, "k");
    assert_non_null(k);
    k->run(&a, 0, 0);
    return out;
}

static struct device_desc generic_device(void) {
    struct device_desc d;
    assert_true(device_by_name("generic", 7, &d));
    return d;
}

static enum proem_status load_value(struct rt *rt, int value, struct rt_module **out,
                                    struct err *e) {
    char *text = store_unit(value);
    struct rt_source s = unit_source("store", text);
    struct device_desc d = generic_device();
    enum proem_status status = rt_load(rt, &d, 1, &s, out, e);
    free(text);
    return status;
}

/* Load in a new runtime, run, and say where the unit came from. */
static struct rt_counts load_once(const struct rt_options *o, int value) {
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
static char *script(const char *dir, const char *name, const char *text) {
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

static long count_lines(const char *file) {
    FILE *f = fopen(file, "rb");
    long n = 0;
    if (f == NULL) return 0;
    for (int c; (c = getc(f)) != EOF;)
        n += c == '\n';
    fclose(f);
    return n;
}

/* ---- plain loading --------------------------------------------------------------------------- */

static void compiles_without_a_cache(void **state) {
    (void)state;
    struct rt_options o = {0};
    struct rt_counts c = load_once(&o, 17);
    assert_int_equal(c.compiled, 1);
    assert_int_equal(c.from_cache, 0);
    print_message("compile %.1f ms, load %.1f ms\n", c.compile_ms, c.load_ms);
}

static void second_start_is_warm(void **state) {
    (void)state;
    char *dir = new_dir();
    struct rt_options o = {.cache_dir = dir};
    assert_int_equal(load_once(&o, 3).compiled, 1);
    struct rt_counts c = load_once(&o, 3);
    assert_int_equal(c.compiled, 0);
    assert_int_equal(c.from_cache, 1);
    print_message("warm load %.2f ms\n", c.load_ms);
    assert_int_equal(load_once(&o, 4).compiled, 1);
    remove_tree(dir);
}

static void shares_what_is_loaded(void **state) {
    (void)state;
    struct rt_options o = {0};
    struct rt *rt;
    struct rt_module *a, *b;
    struct rt_counts c;
    assert_ok(rt_new(&allocator_default, &o, &rt, e));
    assert_ok(load_value(rt, 5, &a, e));
    assert_ok(load_value(rt, 5, &b, e));
    assert_ptr_equal(a, b);
    rt_counts(rt, &c);
    assert_int_equal(c.in_memory, 1);
    assert_int_equal(c.compiled, 1);
    rt_module_unref(a);
    assert_int_equal(call_store(b), 5);
    assert_null(rt_module_kernel(b, "other"));
    assert_int_equal(rt_module_unit(b)->n_kernels, 1);
    rt_module_unref(b);
    assert_ok(load_value(rt, 5, &a, e));
    rt_counts(rt, &c);
    assert_int_equal(c.compiled, 2);
    rt_module_unref(a);
    rt_module_unref(NULL);
    rt_free(rt);
}

static void note_progress(void *user, int done, int total) {
    int *seen = user;
    seen[0]++;
    seen[1] = done;
    seen[2] = total;
}

static void loads_many_at_once(void **state) {
    (void)state;
    enum { N = 6 };
    int seen[3] = {0};
    char *text[N];
    struct rt_source s[N];
    struct rt_module *m[N];
    struct rt_options o = {.jobs = 3, .progress = note_progress, .progress_user = seen};
    struct rt *rt;
    struct device_desc d = generic_device();
    for (int i = 0; i < N; i++) {
        text[i] = store_unit(100 + i % 4); /* the last two are twins of the first two */
        s[i] = unit_source("many", text[i]);
    }
    assert_ok(rt_new(&allocator_default, &o, &rt, e));
    assert_ok(rt_load(rt, &d, N, s, m, e));
    for (int i = 0; i < N; i++)
        assert_int_equal(call_store(m[i]), 100 + i % 4);
    assert_ptr_equal(m[0], m[4]);
    assert_int_equal(seen[0], 4);
    assert_int_equal(seen[1], 4);
    assert_int_equal(seen[2], 4);
    for (int i = 0; i < N; i++)
        rt_module_unref(m[i]);
    assert_ok(rt_load(rt, &d, 0, NULL, NULL, e));
    for (int i = 0; i < N; i++)
        free(text[i]);
    rt_free(rt);
}

struct racer {
    struct rt *rt;
    int value;
};

static void *load_in_thread(void *user) {
    struct racer *r = user;
    for (int i = 0; i < 3; i++) {
        struct rt_module *m;
        struct err e;
        err_clear(&e);
        if (load_value(r->rt, r->value + i, &m, &e) != PROEM_OK) return NULL;
        int got = call_store(m);
        rt_module_unref(m);
        if (got != r->value + i) return NULL;
    }
    return r;
}

static void loads_from_several_threads(void **state) {
    (void)state;
    char *dir = new_dir();
    struct rt_options o = {.cache_dir = dir};
    struct rt *rt;
    pthread_t t[4];
    struct racer r[4];
    assert_ok(rt_new(&allocator_default, &o, &rt, e));
    for (int i = 0; i < 4; i++) {
        r[i] = (struct racer){rt, 40 + i / 2};
        assert_int_equal(pthread_create(&t[i], NULL, load_in_thread, &r[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(t[i], &result);
        assert_ptr_equal(result, &r[i]);
    }
    rt_free(rt);
    remove_tree(dir);
}

static void flags_follow_the_device(void **state) {
    (void)state;
    struct rt_options o = {.flags = (const char *const[]){"-DX=1", NULL}};
    struct rt *rt;
    struct device_desc d;
    struct str s;
    str_init(&s, &allocator_default);
    assert_ok(rt_new(&allocator_default, &o, &rt, e));
    assert_true(device_by_name("avx2", 4, &d));
    assert_ok(rt_compiler_flags(rt, &d, &s, e));
    assert_non_null(strstr(str_text(&s), "-ffp-contract=off"));
    assert_non_null(strstr(str_text(&s), "-mavx2 -mfma -mf16c"));
    assert_non_null(strstr(str_text(&s), "-DX=1"));
    assert_null(strstr(str_text(&s), "native"));
    str_free(&s);
    d = generic_device();
    assert_ok(rt_compiler_flags(rt, &d, &s, e));
    assert_null(strstr(str_text(&s), " -m"));
    str_free(&s);
    d.kind = DEVICE_CUDA;
    struct rt_module *m;
    struct rt_source src = unit_source("x", "");
    assert_fails(rt_load(rt, &d, 1, &src, &m, e), PROEM_DEVICE, "generic");
    rt_free(rt);
}

static void every_named_device_compiles(void **state) {
    (void)state;
    struct rt_options o = {0};
    struct rt *rt;
    char *text = store_unit(1);
    struct rt_source s = unit_source("store", text);
    assert_ok(rt_new(&allocator_default, &o, &rt, e));
    for (int i = 0; device_name_at(i) != NULL; i++) {
        struct device_desc d, here;
        struct rt_module *m;
        rt_detect(&here);
        assert_true(device_by_name(device_name_at(i), strlen(device_name_at(i)), &d));
        if (d.arch != ARCH_ANY && d.arch != here.arch) continue;
        assert_ok(rt_load(rt, &d, 1, &s, &m, e)); /* nothing of it runs when it is loaded */
        rt_module_unref(m);
    }
    free(text);
    rt_free(rt);
}

/* ---- compilers that fail --------------------------------------------------------------------- */

static void expect_failure(const struct rt_options *o, enum proem_status status, const char *part) {
    struct rt *rt;
    struct rt_module *m = NULL;
    assert_ok(rt_new(&allocator_default, o, &rt, e));
    assert_fails(load_value(rt, 1, &m, e), status, part);
    assert_null(m);
    rt_free(rt);
}

static void missing_compiler(void **state) {
    (void)state;
    expect_failure(&(struct rt_options){.compiler = "no-such-cc"}, PROEM_COMPILE, "no-such-cc");
    expect_failure(&(struct rt_options){.compiler = "/no/such/cc"}, PROEM_COMPILE, "/no/such/cc");
    expect_failure(&(struct rt_options){.path = "/no:/such"}, PROEM_COMPILE, "'cc'");
    expect_failure(&(struct rt_options){.compiler = "/tmp"}, PROEM_COMPILE, "/tmp");
}

static void wrong_text(void **state) {
    (void)state;
    struct rt_options o = {0};
    struct rt *rt;
    struct rt_module *m[2] = {NULL, NULL};
    char *good = store_unit(1);
    struct rt_source s[2] = {unit_source("good", good),
                             unit_source("bad", "int f(void) { return undeclared_name; }\n")};
    struct device_desc d = generic_device();
    assert_ok(rt_new(&allocator_default, &o, &rt, e));
    assert_fails(rt_load(rt, &d, 2, s, m, e), PROEM_COMPILE, "undeclared_name");
    assert_fails(rt_load(rt, &d, 2, s, m, e), PROEM_COMPILE, "unit 'bad'");
    assert_null(m[0]);
    s[1] = unit_source("empty", "int x;\n");
    assert_fails(rt_load(rt, &d, 2, s, m, e), PROEM_COMPILE, "proem_unit");
    s[1] = unit_source("old", "const struct { int abi, n; void *k; } proem_unit = {999, 0, 0};\n");
    assert_fails(rt_load(rt, &d, 2, s, m, e), PROEM_COMPILE, "ABI");
    s[1] = unit_source("unknown", "int missing(void); int f(void) { return missing(); }\n");
    assert_fails(rt_load(rt, &d, 2, s, m, e), PROEM_COMPILE, "missing");
    free(good);
    rt_free(rt);
}

static void broken_compilers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum proem_status status;
        const char *part;
    } cases[] = {
        {"exit 3\n", PROEM_COMPILE, "exit 3"},
        {"echo; echo the disk is on fire; exit 1\n", PROEM_COMPILE, "the disk is on fire"},
        {"echo warning; echo k.c:3: error: this one; exit 1\n", PROEM_COMPILE, "k.c:3: error"},
        {"exit 0\n", PROEM_COMPILE, "no output"},
        {"kill -SEGV $$\n", PROEM_COMPILE, "signal 11"},
        {"echo 'ld: error: No space left on device'; exit 1\n", PROEM_IO, "No space left"},
        {"yes error | head -c 3000000; exit 1\n", PROEM_COMPILE, "exit 1"},
        {"while [ $# -gt 1 ]; do [ \"$1\" = -o ] && echo junk > \"$2\"; shift; done\n",
         PROEM_COMPILE, "cannot load"},
    };
    char *dir = new_dir();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char *cc = script(dir, "cc", cases[i].text);
        expect_failure(&(struct rt_options){.compiler = cc}, cases[i].status, cases[i].part);
        free(cc);
    }
    char *not_a_program = script(dir, "text", "exit 0\n");
    chmod(not_a_program, 0600);
    expect_failure(&(struct rt_options){.compiler = not_a_program}, PROEM_COMPILE, "not found");
    free(not_a_program);
    remove_tree(dir);
}

static bool is_alive(const char *pid_file) {
    char path[64], state = 'X';
    int pid = 0;
    FILE *f = fopen(pid_file, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &pid), 1);
    fclose(f);
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    f = fopen(path, "r");
    if (f == NULL) return false;
    if (fscanf(f, "%*d %*s %c", &state) != 1) state = 'X';
    fclose(f);
    return state != 'Z' && state != 'X';
}

static void hanging_compiler_is_killed(void **state) {
    (void)state;
    char *dir = new_dir();
    char text[512], pid[128];
    snprintf(pid, sizeof pid, "%s/pid", dir);
    snprintf(text, sizeof text,
             "trap '' TERM INT\n[ \"$1\" = --version ] && exit 0\n"
             "sleep 1000 &\necho $! > %s\necho waiting\nwait\n",
             pid);
    char *cc = script(dir, "cc", text);
    double t = rt_now_ms();
    expect_failure(&(struct rt_options){.compiler = cc, .timeout_ms = 300}, PROEM_COMPILE,
                   "300 ms");
    t = rt_now_ms() - t;
    assert_true(t >= 300 && t < 5000);
    for (int i = 0; i < 100 && is_alive(pid); i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    assert_false(is_alive(pid)); /* its child as well */
    free(cc);
    remove_tree(dir);
}

/* A compiler that ends while a child of it holds its output open does not make us wait. */
static void left_behind_children_do_not_matter(void **state) {
    (void)state;
    char *dir = new_dir();
    char *cc = script(dir, "cc", "sleep 1000 &\nexec cc \"$@\"\n");
    double t = rt_now_ms();
    assert_int_equal(load_once(&(struct rt_options){.compiler = cc}, 8).compiled, 1);
    assert_true(rt_now_ms() - t < 5000);
    free(cc);
    remove_tree(dir);
}

static void survives_ignored_sigchld(void **state) {
    (void)state;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
    sigaction(SIGCHLD, &ignore, &old);
    assert_int_equal(load_once(&(struct rt_options){0}, 9).compiled, 1);
    sigaction(SIGCHLD, &old, NULL);
}

static void no_place_for_temporary_files(void **state) {
    (void)state;
    expect_failure(&(struct rt_options){.tmp_dir = "/no/such/dir"}, PROEM_IO, "/no/such/dir");
    char *dir = new_dir(); /* the cache's directory serves */
    struct rt_options o = {.tmp_dir = "/no/such/dir", .cache_dir = dir};
    assert_int_equal(load_once(&o, 2).compiled, 1);
    assert_int_equal(load_once(&o, 2).from_cache, 1);
    remove_tree(dir);
}

static void leaves_no_temporary_files(void **state) {
    (void)state;
    char *dir = new_dir();
    struct rt_options o = {.tmp_dir = dir};
    assert_int_equal(load_once(&o, 2).compiled, 1);
    char *cc = script(dir, "cc", "[ \"$1\" = --version ] || echo > $TMPDIR/scrap; exit 1\n");
    o.compiler = cc;
    expect_failure(&o, PROEM_COMPILE, "exit 1");
    assert_int_equal(unlink(cc), 0);
    assert_int_equal(rmdir(dir), 0); /* empty */
    free(cc);
    free(dir);
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* The path of the only entry that ends in .so; asserts that there is one. */
static void find_entry(const char *dir, char *path, size_t n) {
    char command[256];
    snprintf(command, sizeof command, "ls '%s'/*.so", dir);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_non_null(fgets(path, (int)n, f));
    path[strcspn(path, "\n")] = '\0';
    pclose(f);
}

static void damaged_entries_are_replaced(void **state) {
    (void)state;
    static const char *const damage[] = {
        "truncate -s -1 '%s'",  "truncate -s 0 '%s'",
        "truncate -s 100 '%s'", "printf x | dd of='%s' bs=1 seek=500 conv=notrunc status=none",
        "echo more >> '%s'",    "cp /bin/true '%s'",
        "chmod 0666 '%s'",      "rm '%s' && ln -s /bin/true '%s'",
    };
    char *dir = new_dir();
    struct rt_options o = {.cache_dir = dir};
    assert_int_equal(load_once(&o, 6).compiled, 1);
    for (size_t i = 0; i < COUNT_OF(damage); i++) {
        char path[256], command[700];
        find_entry(dir, path, sizeof path);
        snprintf(command, sizeof command, "f='%s'; ", path);
        size_t n = strlen(command);
        for (const char *p = damage[i]; *p != '\0'; p++) { /* '%s' means "$f" */
            if (strncmp(p, "'%s'", 4) == 0) {
                memcpy(command + n, "\"$f\"", 4);
                n += 4;
                p += 3;
            } else {
                command[n++] = *p;
            }
        }
        command[n] = '\0';
        assert_int_equal(system(command), 0);
        assert_int_equal(load_once(&o, 6).compiled, 1);
        assert_int_equal(load_once(&o, 6).from_cache, 1);
    }
    remove_tree(dir);
}

/* Whole by its trailer, and no shared object. */
static void entry_that_does_not_load(void **state) {
    (void)state;
    char *dir = new_dir();
    char path[256], key[RT_KEY_TEXT];
    struct rt_options o = {.cache_dir = dir};
    assert_int_equal(load_once(&o, 6).compiled, 1);
    find_entry(dir, path, sizeof path);
    memcpy(key, strrchr(path, '/') + 1, RT_KEY_TEXT - 1);
    key[RT_KEY_TEXT - 1] = '\0';
    struct rt_cache c;
    struct str file;
    str_init(&file, &allocator_default);
    rt_cache_init(&c, &allocator_default, dir, 1 << 30);
    assert_true(rt_cache_open(&c));
    assert_true(rt_cache_store(&c, key, RT_CACHE_UNIT, "not ELF", 7, &file));
    assert_string_equal(str_text(&file), path);
    str_free(&file);
    rt_cache_free(&c);
    assert_int_equal(load_once(&o, 6).compiled, 1);
    assert_int_equal(load_once(&o, 6).from_cache, 1);
    remove_tree(dir);
}

static void unusable_caches_do_no_harm(void **state) {
    (void)state;
    char *dir = new_dir();
    char file[128], below[160];
    snprintf(file, sizeof file, "%s/file", dir);
    snprintf(below, sizeof below, "%s/file/cache", dir);
    fclose(fopen(file, "w"));
    static const struct {
        const char *note;
    } notes[] = {{"not a directory"}, {"cannot be made"}, {"chmod 700"}};
    const char *dirs[] = {file, below, dir};
    chmod(dir, 0777);
    for (size_t i = 0; i < COUNT_OF(dirs); i++) {
        struct rt_options o = {.cache_dir = dirs[i]};
        struct rt *rt;
        struct rt_module *m;
        struct rt_cache_stat stat;
        assert_ok(rt_new(&allocator_default, &o, &rt, e));
        assert_ok(load_value(rt, 1, &m, e));
        rt_module_unref(m);
        rt_cache_stat(rt, &stat);
        assert_non_null(stat.note);
        assert_non_null(strstr(stat.note, notes[i].note));
        assert_int_equal(stat.entries, 0);
        rt_free(rt);
    }
    /* Read-only even for root, and the caller's own. */
    struct rt_options o = {.cache_dir = "/proc/self/task"};
    assert_int_equal(load_once(&o, 1).compiled, 1);
    if (geteuid() == 0) {
        chmod(dir, 0700);
        assert_int_equal(chown(dir, 1, 1), 0);
        o.cache_dir = dir;
        assert_int_equal(load_once(&o, 1).compiled, 1);
        assert_int_equal(load_once(&o, 1).compiled, 1);
    }
    remove_tree(dir);
}

/* As on a full disk: the write stops half-way. */
static void half_written_entries_vanish(void **state) {
    (void)state;
    static char data[5000];
    char *dir = new_dir();
    char key[RT_KEY_TEXT] = "0123456789abcdef0123456789abcdef";
    struct rlimit old, low;
    struct rt_cache c;
    struct str file;
    int64_t entries, bytes;
    str_init(&file, &allocator_default);
    rt_cache_init(&c, &allocator_default, dir, 1 << 30);
    assert_true(rt_cache_open(&c));
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    low = old;
    low.rlim_cur = 1000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    bool stored = rt_cache_store(&c, key, RT_CACHE_UNIT, data, sizeof data, &file);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    assert_false(stored);
    assert_false(rt_cache_find(&c, key, RT_CACHE_UNIT, &file, NULL));
    assert_true(rt_cache_store(&c, key, RT_CACHE_UNIT, data, sizeof data, &file));
    assert_true(rt_cache_find(&c, key, RT_CACHE_UNIT, &file, NULL));
    rt_cache_measure(&c, &entries, &bytes);
    assert_int_equal(entries, 1);
    assert_int_equal(unlink(str_text(&file)), 0);
    assert_int_equal(rmdir(dir), 0); /* no temporary file is left */
    str_free(&file);
    rt_cache_free(&c);
    free(dir);
}

static void cache_below_an_open_directory_is_not_used(void **state) {
    (void)state;
    char *dir = new_dir();
    char below[128];
    snprintf(below, sizeof below, "%s/cache", dir);
    struct rt_options o = {.cache_dir = below};
    chmod(dir, 0777);
    load_once(&o, 1);
    assert_int_equal(load_once(&o, 1).compiled, 1);
    chmod(dir, 01777); /* as /tmp */
    load_once(&o, 1);
    assert_int_equal(load_once(&o, 1).from_cache, 1);
    remove_tree(dir);
}

static void makes_its_directory(void **state) {
    (void)state;
    char *dir = new_dir();
    char below[128];
    struct stat st;
    snprintf(below, sizeof below, "%s/a/b/proem", dir);
    struct rt_options o = {.cache_dir = below};
    load_once(&o, 1);
    assert_int_equal(stat(below, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(load_once(&o, 1).from_cache, 1);
    remove_tree(dir);
}

static void default_directories(void **state) {
    (void)state;
    struct str s;
    str_init(&s, &allocator_default);
    assert_true(rt_cache_default_dir("/x/y", "/home/u", &s));
    assert_string_equal(str_text(&s), "/x/y/proem");
    str_free(&s);
    assert_true(rt_cache_default_dir("relative", "/home/u", &s));
    assert_string_equal(str_text(&s), "/home/u/.cache/proem");
    str_free(&s);
    assert_false(rt_cache_default_dir("", NULL, &s));
}

static void stat_and_clear(void **state) {
    (void)state;
    char *dir = new_dir();
    char below[128], other[160];
    snprintf(below, sizeof below, "%s/cache", dir);
    struct rt_options o = {.cache_dir = below};
    struct rt *rt;
    struct rt_cache_stat s;
    int64_t removed = -1;
    assert_ok(rt_new(&allocator_default, &o, &rt, e));
    rt_cache_stat(rt, &s);
    assert_int_equal(s.entries, 0);
    assert_string_equal(s.dir, below);
    assert_ok(rt_cache_clear(rt, &removed, e));
    assert_int_equal(removed, 0);
    assert_int_not_equal(access(below, F_OK), 0); /* looking makes nothing */
    load_once(&o, 1);
    load_once(&o, 2);
    snprintf(other, sizeof other, "%s/keep.txt", below);
    fclose(fopen(other, "w"));
    rt_cache_stat(rt, &s);
    assert_int_equal(s.entries, 3); /* two units and the compiler's version */
    assert_true(s.bytes > 1000);
    assert_ok(rt_cache_clear(rt, &removed, e));
    assert_int_equal(removed, 3);
    rt_cache_stat(rt, &s);
    assert_int_equal(s.entries, 0);
    assert_int_equal(access(other, F_OK), 0); /* not ours */
    rt_free(rt);
    o.cache_dir = NULL;
    assert_ok(rt_new(&allocator_default, &o, &rt, e));
    rt_cache_stat(rt, &s);
    assert_null(s.dir);
    assert_ok(rt_cache_clear(rt, NULL, e));
    rt_free(rt);
    remove_tree(dir);
}

static void set_age(const char *path, time_t seconds) {
    struct timespec t[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static void oldest_entries_go_first(void **state) {
    (void)state;
    char *dir = new_dir();
    char path[256];
    struct stat st;
    struct rt_options o = {.cache_dir = dir};
    load_once(&o, 1);
    find_entry(dir, path, sizeof path);
    assert_int_equal(stat(path, &st), 0);
    set_age(path, 1000);
    o.cache_limit = 2 * st.st_size + 500; /* two units and the version */
    load_once(&o, 2);
    assert_int_equal(load_once(&o, 1).from_cache, 1); /* its use makes 1 the newest */
    set_age(path, 1);
    char command[256];
    snprintf(command, sizeof command,
             "cd '%s' && for f in *.so; do [ \"$f\" = '%s' ] || "
             "touch -d '1 hour ago' $f; done",
             dir, strrchr(path, '/') + 1);
    assert_int_equal(system(command), 0);
    load_once(&o, 3); /* 2 has to go */
    assert_int_equal(load_once(&o, 1).from_cache, 1);
    assert_int_equal(load_once(&o, 3).from_cache, 1);
    assert_int_equal(load_once(&o, 2).compiled, 1);
    o.cache_limit = 1; /* nothing fits, everything works */
    assert_int_equal(load_once(&o, 7).compiled, 1);
    assert_int_equal(load_once(&o, 7).compiled, 1);
    remove_tree(dir);
}

static void stale_temporary_files_go(void **state) {
    (void)state;
    char *dir = new_dir();
    char old[128], young[128];
    snprintf(old, sizeof old, "%s/proem-old", dir);
    snprintf(young, sizeof young, "%s/proem-young", dir);
    fclose(fopen(old, "w"));
    fclose(fopen(young, "w"));
    set_age(old, 100000);
    load_once(&(struct rt_options){.cache_dir = dir}, 1);
    assert_int_not_equal(access(old, F_OK), 0);
    assert_int_equal(access(young, F_OK), 0);
    remove_tree(dir);
}

static void warm_start_runs_no_program(void **state) {
    (void)state;
    char *dir = new_dir(), *cache = new_dir();
    char text[256], log[128];
    snprintf(log, sizeof log, "%s/log", dir);
    snprintf(text, sizeof text, "echo run >> %s\nexec cc \"$@\"\n", log);
    char *cc = script(dir, "cc", text);
    struct rt_options o = {.compiler = cc, .cache_dir = cache};
    load_once(&o, 1);
    long runs = count_lines(log);
    assert_int_equal(runs, 2); /* --version and the unit */
    load_once(&o, 1);
    assert_int_equal(count_lines(log), runs);
    set_age(cc, 5000); /* another compiler */
    assert_int_equal(load_once(&o, 1).compiled, 1);
    assert_int_equal(count_lines(log), runs + 2);
    o.flags = (const char *const[]){"-g", NULL}; /* other flags */
    assert_int_equal(load_once(&o, 1).compiled, 1);
    free(cc);
    remove_tree(dir);
    remove_tree(cache);
}

static void tells_about_the_compiler(void **state) {
    (void)state;
    struct rt *rt;
    struct str path, version;
    str_init(&path, &allocator_default);
    str_init(&version, &allocator_default);
    assert_ok(rt_new(&allocator_default, &(struct rt_options){0}, &rt, e));
    assert_ok(rt_compiler(rt, &path, &version, e));
    assert_true(str_text(&path)[0] == '/');
    assert_true(version.n > 3);
    assert_null(strchr(str_text(&version), '\n'));
    rt_free(rt);
    str_free(&path);
    str_free(&version);
}

static void several_processes_fill_one_cache(void **state) {
    (void)state;
    enum { PROCESSES = 3, UNITS = 3 };
    char *dir = new_dir();
    struct rt_options o = {.cache_dir = dir, .jobs = 1};
    pid_t pid[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] > 0) continue;
        int bad = 0;
        for (int u = 0; u < UNITS; u++) {
            struct rt *rt;
            struct rt_module *m;
            if (rt_new(&allocator_default, &o, &rt, NULL) != PROEM_OK) _exit(2);
            if (load_value(rt, u, &m, NULL) != PROEM_OK) _exit(3);
            bad += call_store(m) != u;
            rt_module_unref(m);
            rt_free(rt);
        }
        _exit(bad);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    for (int u = 0; u < UNITS; u++)
        assert_int_equal(load_once(&o, u).from_cache, 1);
    remove_tree(dir);
}

/* ---- lack of memory -------------------------------------------------------------------------- */

/* Every allocation of a cold and of a warm load fails once: an error or a success, never a leak. */
static void survives_lack_of_memory(void **state) {
    (void)state;
    char *dir = new_dir(), *cache = NULL;
    char text[512], so[128], command[1024];
    char *unit = store_unit(5);
    snprintf(so, sizeof so, "%s/ready", dir);
    snprintf(text, sizeof text, "%s/u.c", dir);
    FILE *f = fopen(text, "w");
    assert_non_null(f);
    fputs(unit, f);
    fclose(f);
    free(unit);
    snprintf(command, sizeof command, "cc -w -shared -fPIC -o %s %s", so, text);
    assert_int_equal(system(command), 0);
    snprintf(text, sizeof text,
             "while [ $# -gt 1 ]; do [ \"$1\" = -o ] && exec cp %s \"$2\"; shift; done\n", so);
    char *cc = script(dir, "cc", text); /* quick: it copies */
    for (int warm = 0; warm < 2; warm++) {
        bool done = false;
        for (long fail = 0; !done; fail++) {
            if (cache == NULL) cache = new_dir();
            struct counted c = {.fail_at = fail};
            struct allocator a = counted_allocator(&c);
            struct rt_options o = {.compiler = cc, .cache_dir = cache};
            struct rt *rt = NULL;
            struct rt_module *m = NULL;
            struct err e;
            err_clear(&e);
            enum proem_status s = rt_new(&a, &o, &rt, &e);
            if (s == PROEM_OK) s = load_value(rt, 5, &m, &e);
            if (s == PROEM_OK) {
                assert_int_equal(call_store(m), 5);
                done = c.calls <= fail;
            } else {
                assert_int_equal(s, PROEM_NOMEM);
                assert_int_equal(e.status, PROEM_NOMEM);
                assert_null(m);
            }
            rt_module_unref(m);
            rt_free(rt);
            assert_int_equal(c.live, 0);
            assert_true(fail < 500);
            if (warm == 0 && !done) {
                remove_tree(cache);
                cache = NULL;
            }
        }
    }
    free(cc);
    remove_tree(cache);
    remove_tree(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiles_without_a_cache),
        cmocka_unit_test(second_start_is_warm),
        cmocka_unit_test(shares_what_is_loaded),
        cmocka_unit_test(loads_many_at_once),
        cmocka_unit_test(loads_from_several_threads),
        cmocka_unit_test(flags_follow_the_device),
        cmocka_unit_test(every_named_device_compiles),
        cmocka_unit_test(missing_compiler),
        cmocka_unit_test(wrong_text),
        cmocka_unit_test(broken_compilers),
        cmocka_unit_test(hanging_compiler_is_killed),
        cmocka_unit_test(left_behind_children_do_not_matter),
        cmocka_unit_test(survives_ignored_sigchld),
        cmocka_unit_test(no_place_for_temporary_files),
        cmocka_unit_test(leaves_no_temporary_files),
        cmocka_unit_test(damaged_entries_are_replaced),
        cmocka_unit_test(entry_that_does_not_load),
        cmocka_unit_test(unusable_caches_do_no_harm),
        cmocka_unit_test(half_written_entries_vanish),
        cmocka_unit_test(cache_below_an_open_directory_is_not_used),
        cmocka_unit_test(makes_its_directory),
        cmocka_unit_test(default_directories),
        cmocka_unit_test(stat_and_clear),
        cmocka_unit_test(oldest_entries_go_first),
        cmocka_unit_test(stale_temporary_files_go),
        cmocka_unit_test(warm_start_runs_no_program),
        cmocka_unit_test(tells_about_the_compiler),
        cmocka_unit_test(several_processes_fill_one_cache),
        cmocka_unit_test(survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
