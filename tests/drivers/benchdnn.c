/* SPDX-License-Identifier: MIT
 * benchdnn FILE=problems.txt [N=all] [SEED=1] [ROWS=8] [SHRINK=0] [JOBS=2] [BATCH=8] [FROM=line]
 *          [ONLY=line] [CC=gcc] [OPT=] [PLAN=0]
 *
 * Matmul problems of oneDNN's benchdnn, each as a graph, run fused and held against the reference.
 * N lines are drawn by SEED, or are those from line FROM on, or ONLY one, whose graph is printed;
 * ROWS rows of each result are checked (0: all). SHRINK bounds sizes (1: by a default). Problems
 * without a dynamic scale must become one kernel. PLAN=1 plans only. Lines that are left out are
 * counted by reason. The last line is `N passed, N failed, N skipped`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchdnn.h"
#include "suite.h"

#define SMALL 160 /* SHRINK=1 */

struct settings {
    const char *file, *cc, *opt;
    int n, jobs, batch, from, only, plan;
    int64_t rows, shrink, seed;
};

struct bench {
    struct settings o;
    char **line; /* of the sample */
    int *number; /* in the file, from 1 */
    char **text; /* its graph */
    struct suite_item *item;
    int n, passed, failed, skipped;
};

static bool read_settings(struct settings *o, int argc, char **argv) {
    *o = (struct settings){.n = 1 << 30, .jobs = 2, .batch = 8, .rows = 8, .seed = 1};
    const struct setting list[] = {
        {"FILE", SETTING_TEXT, &o->file},     {"N", SETTING_INT, &o->n},
        {"SEED", SETTING_LONG, &o->seed},     {"ROWS", SETTING_LONG, &o->rows},
        {"SHRINK", SETTING_LONG, &o->shrink}, {"JOBS", SETTING_INT, &o->jobs},
        {"BATCH", SETTING_INT, &o->batch},    {"ONLY", SETTING_INT, &o->only},
        {"FROM", SETTING_INT, &o->from},      {"PLAN", SETTING_INT, &o->plan},
        {"CC", SETTING_TEXT, &o->cc},         {"OPT", SETTING_TEXT, &o->opt}};
    if (!settings_read("benchdnn", list, COUNT_OF(list), argc, argv)) return false;
    if (o->file == NULL) fprintf(stderr, "benchdnn: FILE=problems.txt is missing\n");
    return o->file != NULL;
}

/* Cut the text into lines and keep a sample of N, in the file's order. */
static void sample(struct bench *b, char *text) {
    int total = 0, seen = 0;
    for (char *c = text; *c != '\0'; c++)
        total += *c == '\n';
    total++;
    b->line = calloc((size_t)total, sizeof *b->line);
    b->number = calloc((size_t)total, sizeof *b->number);
    uint64_t x = (uint64_t)b->o.seed * 0x9E3779B97F4A7C15u + 1;
    int left = total, want = b->o.n < total ? b->o.n : total;
    for (char *l = strtok(text, "\n"); l != NULL; l = strtok(NULL, "\n")) {
        seen++;
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        bool take = (int64_t)(x % (uint64_t)left) < want;
        left = left > 1 ? left - 1 : 1;
        if (b->o.from > 0) take = seen >= b->o.from && want > 0;
        if (b->o.only > 0) take = seen == b->o.only;
        if (!take || l[0] == '#' || l[strspn(l, " \t\r")] == '\0') continue;
        if (b->o.only == 0) want--;
        b->line[b->n] = l;
        b->number[b->n++] = seen;
    }
}

/* ---- reasons --------------------------------------------------------------------------------- */

struct reason {
    char text[64];
    int count;
};

static void count_reason(struct reason *list, int *n, const char *why) {
    for (int i = 0; i < *n; i++) {
        if (strcmp(list[i].text, why) == 0) {
            list[i].count++;
            return;
        }
    }
    if (*n == 32) return;
    snprintf(list[*n].text, sizeof list[*n].text, "%s", why);
    list[(*n)++].count = 1;
}

/* Graphs of all lines; those that cannot be expressed are dropped and counted. */
static void make_graphs(struct bench *b) {
    struct reason reasons[32];
    int n_reasons = 0, kept = 0;
    b->text = calloc((size_t)b->n + 1, sizeof *b->text);
    b->item = calloc((size_t)b->n + 1, sizeof *b->item);
    for (int i = 0; i < b->n; i++) {
        struct problem p;
        struct str s;
        str_init(&s, &allocator_default);
        bool ok = problem_parse(b->line[i], &p);
        if (ok && b->o.shrink > 0) problem_shrink(&p, b->o.shrink > 1 ? b->o.shrink : SMALL);
        if (ok)
            ok = problem_graph(&p, &s);
        else
            snprintf(p.left_out, sizeof p.left_out, "not a matmul problem");
        if (!ok) {
            b->skipped++;
            count_reason(reasons, &n_reasons, p.left_out);
        } else {
            bool dynamic = strstr(str_text(&s), "dst_scale") != NULL;
            b->text[kept] = calloc(1, s.n + 1);
            memcpy(b->text[kept], str_text(&s), s.n);
            b->line[kept] = b->line[i];
            b->number[kept] = b->number[i];
            b->item[kept] = (struct suite_item){.text = b->text[kept],
                                                .seed = (uint64_t)b->number[i],
                                                .fill = FILL_RANDOM,
                                                .prepare = problem_inputs,
                                                .rows = b->o.rows,
                                                .min_kernels = 1,
                                                .max_kernels = dynamic ? 0 : 1,
                                                .brief = true};
            kept++;
        }
        str_free(&s);
    }
    b->n = kept;
    for (int i = 0; i < n_reasons; i++)
        printf("left out: %d: %s\n", reasons[i].count, reasons[i].text);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void plan_only(struct rig *r, const struct suite_item *item, struct outcome *o) {
    struct subject s;
    struct variant v;
    struct err e;
    err_clear(&e);
    o->state = OUTCOME_FAILED;
    if (subject_open(&s, item->text, NULL, 0, item->seed, item->fill, &e) != PROEM_OK) {
        snprintf(o->text, sizeof o->text, "open: %.500s", e.text);
        return;
    }
    if (variant_plan(&v, &s, PREC_BOUNDARY, FUSE_MODEL, r) != PROEM_OK)
        snprintf(o->text, sizeof o->text, "plan: %.500s", v.err.text);
    else if (item->max_kernels > 0 && (int)v.plan.kernels.n > item->max_kernels)
        snprintf(o->text, sizeof o->text, "%d kernels", (int)v.plan.kernels.n);
    else
        o->state = OUTCOME_PASSED;
    variant_close(&v);
    subject_close(&s);
}

static void body(void *user, int first, int count, volatile int *at, struct outcome *out) {
    struct bench *b = user;
    struct rig r;
    struct err e;
    err_clear(&e);
    struct rig_options o = {.threads = 2, .compiler = b->o.cc, .optimize = b->o.opt};
    if (rig_open(&r, &o, &e) != PROEM_OK) {
        fprintf(stderr, "%s\n", e.text);
        exit(3);
    }
    if (b->o.plan == 0) suite_run(&r, b->item, first, count, at, out);
    for (int i = first; i < first + count && b->o.plan != 0; i++) {
        *at = i;
        plan_only(&r, &b->item[i], &out[i]);
    }
    rig_close(&r);
}

static void report(void *user, int i, const struct outcome *o) {
    struct bench *b = user;
    if (o->state == OUTCOME_PASSED) b->passed++;
    if (o->state == OUTCOME_SKIPPED) b->skipped++;
    if (o->state == OUTCOME_FAILED) b->failed++;
    if (o->state == OUTCOME_FAILED || o->state == OUTCOME_SKIPPED)
        printf("%s line %d: %s\n  %s\n", o->state == OUTCOME_FAILED ? "FAIL" : "skip", b->number[i],
               o->text, b->line[i]);
    if (b->o.only > 0) printf("%s", b->text[i]);
    fflush(stdout);
}

int main(int argc, char **argv) {
    struct bench b = {.n = 0};
    if (!read_settings(&b.o, argc, argv)) return 2;
    char *text = text_of_file(b.o.file);
    if (text == NULL) {
        printf("%s is not there: all its problems are skipped\n0 passed, 0 failed, 1 skipped\n",
               b.o.file);
        return 0;
    }
    sample(&b, text);
    make_graphs(&b);
    struct outcome *o = run_isolated(b.n, b.o.batch, b.o.jobs, 120, body, &b, report);
    outcomes_free(o, b.n);
    printf("%d passed, %d failed, %d skipped\n", b.passed, b.failed, b.skipped);
    return b.failed > 0;
}
