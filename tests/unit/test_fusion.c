/* SPDX-License-Identifier: MIT
 * The graphs of tests/fusion: how many kernels each becomes, the plan's text, and the results in
 * every mode, at the sizes of the text, at odd sizes and with one row.
 *
 * `test_fusion --update` writes the plans' texts (tests/golden/plan) anew.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "drivers/suite.h"

#define PLANS PROEM_SOURCE_DIR "/tests/golden/plan/"

/* Numbers of the text to replace, "old:new ..": for odd sizes and for one row. NULL: the default. A
 * replacement of text is written old=>new, alone. */
static const struct {
    const char *file;
    int min, max; /* kernels at the text's sizes */
    const char *odd, *one;
} cases[] = {
    {"01", 1, 1, "64:63 128:127 384:65", "64:1"},
    {"02", 1, 1, "512:511 128:127 64:63 384:65", "64:1"},
    {"02b", 1, 1, "512:511 128:127 64:63 384:65", "64:1"},
    {"03", 1, 1, NULL, NULL},
    {"04", 1, 1, NULL, NULL},
    {"05", 1, 1, NULL, NULL},
    {"06", 1, 1, NULL, NULL},
    {"07", 1, 1, "256:127", NULL},
    {"08", 1, 1, NULL, NULL},
    {"09", 1, 1, "128:126 64:63", "128:2 64:1"},
    {"10", 1, 1, NULL, NULL},
    {"11", 1, 1, NULL, NULL},
    {"12a", 1, 1, NULL, NULL},
    {"12b", 1, 1, NULL, NULL},
    {"12c", 1, 1, NULL, NULL},
    {"12d", 1, 1, NULL, NULL},
    {"12e", 1, 1, NULL, NULL},
    {"12f", 1, 1, NULL, NULL},
    {"13", 1, 1, NULL, NULL},
    {"14", 1, 1, NULL, NULL},
    {"15", 1, 1, NULL, NULL},
    {"16", 1, 1, NULL, NULL},
    {"16b", 1, 1, NULL, NULL},
    {"16c", 1, 1, NULL, NULL},
    {"17", 1, 1, "x: bf16[256=>x: bf16[63", "x: bf16[256=>x: bf16[1"},
    {"17b", 1, 1, "256:63", "256:1"},
    {"18", 1, 1, "256:63 512:127 384:65 4:1", NULL},
    {"18b", 1, 1, "256:63 512:127 384:65 16:4", NULL},
    {"18c", 1, 1, "256:63 500:127 384:65 4:1", NULL},
    {"19", 1, 1, "256:63 504:119 512:127 384:65", NULL},
    {"20", 1, 1, "256:63 200:50 312:77 512:127 384:65", NULL},
    {"20b", 1, 1, "100:20 156:43 512:127 384:65", "100:1 156:1"},
    {"21", 1, 2, NULL, NULL},
    {"22", 1, 7, "1024:65", "x: f32[1024=>x: f32[1"},
    {"23", 1, 2, NULL, NULL},
    {"24", 1, 2, NULL, NULL},
    {"25", 1, 2, NULL, NULL},
    {"26", 1, 2, NULL, NULL},
    {"27", 1, 1, NULL, NULL},
    {"28", 1, 1, NULL, NULL},
    {"29", 1, 1, NULL, NULL},
    {"29b", 1, 1, "256:62 128:31 512:127 384:66 64:11", "256:2 128:1"},
    {"30", 1, 1, NULL, NULL},
    {"30b", 1, 1, NULL, NULL},
    {"31", 1, 1, NULL, NULL},
    {"32", 2, 2, NULL, NULL},
    {"33", 1, 1, NULL, NULL},
    {"34", 1, 3, NULL, NULL},
    {"35", 1, 2, NULL, NULL},
    {"35b", 1, 2, NULL, NULL},
    {"36", 1, 1, NULL, NULL},
    {"37", 1, 2, NULL, NULL},
    {"38", 1, 2, NULL, NULL},
    {"39", 1, 1, NULL, NULL},
    {"39b", 1, 1, NULL, NULL},
    {"39c", 1, 1, NULL, NULL},
    {"39d", 1, 1, NULL, NULL},
    {"39e", 1, 1, NULL, NULL},
    {"39f", 1, 1, NULL, NULL},
    {"40", 1, 1, NULL, NULL},
    {"40b", 1, 1, NULL, NULL},
};

#define N_CASES (int)COUNT_OF(cases)

static char *read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    if (f == NULL) return NULL;
    char *text = test_calloc(1, 1 << 18);
    size_t n = fread(text, 1, (1 << 18) - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

static char *case_text(int i) {
    char path[256];
    snprintf(path, sizeof path, PROEM_SOURCE_DIR "/tests/fusion/%s.proem", cases[i].file);
    char *text = read_text(path);
    if (text == NULL) fail_msg("cannot read %s", path);
    return text;
}

/* ---- replacing ------------------------------------------------------------------------------- */

static void replace_text(const char *text, const char *old, size_t n, const char *new_text,
                         struct str *out) {
    const char *p;
    while ((p = strstr(text, old)) != NULL && strncmp(p, old, n) == 0) {
        str_addn(out, text, (size_t)(p - text));
        str_add(out, new_text);
        text = p + n;
    }
    str_add(out, text);
}

/* The new number for the digits at p, or NULL. */
static const char *new_number(const char *rules, const char *p, size_t n, size_t *length) {
    while (*rules != '\0') {
        size_t old = strcspn(rules, ":"), fresh = strcspn(rules + old + 1, " ");
        if (old == n && strncmp(rules, p, n) == 0) {
            *length = fresh;
            return rules + old + 1;
        }
        rules += old + 1 + fresh;
        rules += *rules == ' ';
    }
    return NULL;
}

static bool in_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
}

static void replace_numbers(const char *text, const char *rules, struct str *out) {
    for (const char *p = text; *p != '\0';) {
        size_t n = strspn(p, "0123456789"), length = 0;
        bool alone = n > 0 && (p == text || !in_word(p[-1])) && !in_word(p[n]);
        const char *to = alone ? new_number(rules, p, n, &length) : NULL;
        if (to != NULL) {
            str_addn(out, to, length);
            p += n;
        } else if (n > 0) {
            str_addn(out, p, n);
            p += n;
        } else {
            str_addn(out, p++, 1);
        }
    }
}

static void resized(int i, int kind, struct str *out) {
    char *text = case_text(i);
    const char *rules = kind == 1 ? cases[i].odd : cases[i].one;
    if (rules == NULL) rules = kind == 1 ? "256:63 512:127 384:65" : "256:1";
    const char *arrow = strstr(rules, "=>");
    char old[64] = "";
    if (kind == 0) {
        str_add(out, text);
    } else if (arrow != NULL) {
        memcpy(old, rules, (size_t)(arrow - rules));
        replace_text(text, old, strlen(old), arrow + 2, out);
    } else {
        replace_numbers(text, rules, out);
    }
    test_free(text);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static bool update;

static void plan_on(const char *device, const char *text, struct subject *s, struct variant *v) {
    struct err e;
    err_clear(&e);
    struct rig r = {.threads = 1};
    assert_true(device_by_name(device, strlen(device), &r.device));
    if (subject_open(s, text, NULL, 0, 1, FILL_RANDOM, &e) != PROEM_OK) fail_msg("%s", e.text);
    if (variant_plan(v, s, PREC_BOUNDARY, FUSE_MODEL, &r) != PROEM_OK) fail_msg("%s", v->err.text);
}

/* For a fixed machine, so that the text is the same everywhere. */
static void plan_for(const char *text, struct subject *s, struct variant *v) {
    plan_on("avx2", text, s, v);
}

static void test_counts(void **state) {
    (void)state;
    int wrong = 0;
    for (int i = 0; i < N_CASES; i++) {
        for (int kind = 0; kind < 3; kind++) {
            if (kind > 0 && cases[i].max != 1) continue;
            struct str text;
            struct subject s;
            struct variant v;
            str_init(&text, &allocator_default);
            resized(i, kind, &text);
            plan_for(str_text(&text), &s, &v);
            int n = (int)v.plan.kernels.n;
            if (n < cases[i].min || n > cases[i].max) {
                print_message("%s%s: %d kernels; expected %d to %d\n", cases[i].file,
                              kind == 1   ? ", odd sizes"
                              : kind == 2 ? ", one row"
                                          : "",
                              n, cases[i].min, cases[i].max);
                wrong++;
            }
            variant_close(&v);
            subject_close(&s);
            str_free(&text);
        }
    }
    assert_int_equal(wrong, 0);
}

/* On GPUs the same counts, but where the model may store what columns of tiles would read again. */
static void test_counts_gpu(void **state) {
    (void)state;
    static const char *const devices[] = {"sm_80", "sm_90a", "sm_100a"};
    int wrong = 0;
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        for (int i = 0; i < N_CASES; i++) {
            struct subject s;
            struct variant v;
            char *text = case_text(i);
            plan_on(devices[d], text, &s, &v);
            int n = (int)v.plan.kernels.n;
            int max = strcmp(cases[i].file, "05") == 0 ? 2 : cases[i].max;
            if (n < cases[i].min || n > max) {
                print_message("%s, %s: %d kernels; expected %d to %d\n", cases[i].file, devices[d],
                              n, cases[i].min, max);
                for (size_t j = 0; j < v.plan.edges.n; j++) {
                    const struct plan_edge *edge = &v.plan.edges.at[j];
                    if (edge->verdict == VERDICT_STORED)
                        print_message("  %s: %s\n", edge->rule, edge->why);
                }
                wrong++;
            }
            variant_close(&v);
            subject_close(&s);
            test_free(text);
        }
    }
    assert_int_equal(wrong, 0);
}

static void compare_plan(const char *file, const struct str *got, int *wrong) {
    char path[256];
    snprintf(path, sizeof path, PLANS "%s.want", file);
    if (update) {
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(str_text(got), 1, got->n, f), got->n);
        fclose(f);
        return;
    }
    char *want = read_text(path);
    if (want == NULL || strcmp(want, str_text(got)) != 0) {
        print_message("%s: the plan is not the one in %s; if that is right, run test_fusion "
                      "--update. It is now:\n%s\n",
                      file, path, str_text(got));
        (*wrong)++;
    }
    if (want != NULL) test_free(want);
}

static void test_plans(void **state) {
    (void)state;
    int wrong = 0;
    for (int i = 0; i < N_CASES; i++) {
        struct subject s;
        struct variant v;
        struct str got;
        char *text = case_text(i);
        str_init(&got, &allocator_default);
        plan_for(text, &s, &v);
        plan_print(&v.plan, &got);
        compare_plan(cases[i].file, &got, &wrong);
        str_free(&got);
        variant_close(&v);
        subject_close(&s);
        test_free(text);
    }
    assert_int_equal(wrong, 0);
}

/* ---- results --------------------------------------------------------------------------------- */

struct results {
    struct suite_item item[3 * N_CASES];
    struct str text[3 * N_CASES];
    int failed;
};

static void results_body(void *user, int first, int count, volatile int *at, struct outcome *out) {
    struct results *r = user;
    struct rig rig;
    struct rig_options o = {.threads = 3, .optimize = "-O1"};
    struct err e;
    err_clear(&e);
    if (rig_open(&rig, &o, &e) != PROEM_OK) exit(3);
    suite_run(&rig, r->item, first, count, at, out);
    rig_close(&rig);
}

static void results_report(void *user, int i, const struct outcome *o) {
    struct results *r = user;
    if (o->state == OUTCOME_PASSED) return;
    r->failed++;
    print_message("%s (%s): %s\n", cases[i / 3].file,
                  i % 3 == 0   ? "as written"
                  : i % 3 == 1 ? "odd sizes"
                               : "one row",
                  o->text);
}

static void test_results(void **state) {
    (void)state;
    struct results *r = test_calloc(1, sizeof *r);
    for (int i = 0; i < 3 * N_CASES; i++) {
        str_init(&r->text[i], &allocator_default);
        resized(i / 3, i % 3, &r->text[i]);
        bool large = strstr(str_text(&r->text[i]), "1024") != NULL;
        r->item[i] = (struct suite_item){.text = str_text(&r->text[i]),
                                         .seed = (uint64_t)i,
                                         .fill = i % 2 == 0 ? FILL_RANDOM : FILL_SMALL,
                                         .rows = large ? 16 : 0};
    }
    struct outcome *o = run_isolated(3 * N_CASES, 24, 2, 120, results_body, r, results_report);
    assert_non_null(o);
    outcomes_free(o, 3 * N_CASES);
    int failed = r->failed;
    for (int i = 0; i < 3 * N_CASES; i++)
        str_free(&r->text[i]);
    test_free(r);
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv) {
    update = argc > 1 && strcmp(argv[1], "--update") == 0;
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_counts_gpu),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
