/* SPDX-License-Identifier: MIT
 * The disk cache: warm starts, damage, directories that cannot be used, its limit, several
 * processes.
 */
#define _XOPEN_SOURCE 700 /* SIGXFSZ, S_ISVTX */
#include "rt_load.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
