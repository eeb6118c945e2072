/* SPDX-License-Identifier: MIT
 * Units of C text to loaded modules: the compiler, its failures, lack of memory.
 */
#define _XOPEN_SOURCE 700 /* SIGXFSZ, S_ISVTX */
#include "rt_load.h"

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

/* GCC's -O1 is enough for kernels, that of others is not. */
static void flags_follow_the_compiler(void **state) {
    (void)state;
    char *dir = new_dir();
    struct device_desc d = generic_device();
    static const struct {
        const char *version, *flag, *other;
    } cases[] = {{"gcc (GCC) 13.1", "-O1 -ftree-vectorize", "-O2"},
                 {"cc (Some 12.2.0-14+deb12u1) 12.2.0", "-O1 -ftree-vectorize", "-O2"},
                 {"Some clang version 17", "-O2 ", "-O1"},
                 {"Other(R) C++ Compiler 2024.0.0 (2024.0.0.1)", "-O2 ", "-O1"},
                 {"", "-O2 ", "-O1"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[100];
        snprintf(text, sizeof text, "echo '%s'\n", cases[i].version);
        char *cc = script(dir, "cc", text);
        struct rt_options o = {.compiler = cc};
        struct rt *rt;
        struct str s;
        str_init(&s, &allocator_default);
        assert_ok(rt_new(&allocator_default, &o, &rt, e));
        assert_ok(rt_compiler_flags(rt, &d, &s, e));
        assert_non_null(strstr(str_text(&s), cases[i].flag));
        assert_null(strstr(str_text(&s), cases[i].other));
        str_free(&s);
        rt_free(rt);
        free(cc);
    }
    remove_tree(dir);
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
        {"exit 3\n", PROEM_COMPILE, "(exit 3) on unit 'store' and says nothing"},
        {"echo; echo the disk is on fire; exit 1\n", PROEM_COMPILE, "the disk is on fire"},
        {"echo warning; echo k.c:3: error: this one; exit 1\n", PROEM_COMPILE, "k.c:3: error"},
        {"exit 0\n", PROEM_COMPILE, "no output"},
        {"kill -SEGV $$\n", PROEM_COMPILE, "signal 11"},
        {"echo 'ld: error: No space left on device'; exit 1\n", PROEM_COMPILE, "No space left"},
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
    char *cc = script(dir, "cc",
                      "[ \"$1\" = --version ] || { mkdir -p $TMPDIR/a/b/c; echo > "
                      "$TMPDIR/a/b/scrap; ln -s / $TMPDIR/a/root; }; exit 1\n");
    o.compiler = cc;
    expect_failure(&o, PROEM_COMPILE, "exit 1");
    assert_int_equal(unlink(cc), 0);
    assert_int_equal(rmdir(dir), 0); /* empty */
    free(cc);
    free(dir);
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
        cmocka_unit_test(flags_follow_the_compiler),
        cmocka_unit_test(every_named_device_compiles),
        cmocka_unit_test(missing_compiler),
        cmocka_unit_test(wrong_text),
        cmocka_unit_test(broken_compilers),
        cmocka_unit_test(hanging_compiler_is_killed),
        cmocka_unit_test(left_behind_children_do_not_matter),
        cmocka_unit_test(survives_ignored_sigchld),
        cmocka_unit_test(no_place_for_temporary_files),
        cmocka_unit_test(leaves_no_temporary_files),
        cmocka_unit_test(survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
