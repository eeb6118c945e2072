/* SPDX-License-Identifier: MIT
 * Graphs of the oneDNN Graph API (DIR, any depth, *.json as benchdnn reads them) on the CPU, held
 * against the reference interpreter. Each becomes graph text (onednn_graph.c); what the contract has
 * no operator for is skipped with the reason. The report says in how many kernels a graph is.
 *
 * onednn DIR=.. [ONLY=text] [N=20 SEED=1: that many, chosen by the seed] [FULL=1: batches as they
 * are, not 2] [ROWS=16: of each result that are checked, 0: all] [MODES=1: all precisions and
 * policies] [JOBS=2] [CC=..] [OPT=-O1] [PRINT=1]
 */
#include "onednn.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "front/front.h"
#include "suite.h"

enum { MOST_FILES = 1024 };

struct run {
    const char *dir, *only, *cc, *opt;
    int n_chosen, full, rows, modes, jobs, batch, print;
    int64_t seed;
    char *file[MOST_FILES];
    struct onednn_graph graph[MOST_FILES];
    struct suite_item item[MOST_FILES];
    int number[MOST_FILES]; /* of items, in file[] */
    int n, items, passed, failed, skipped, kernels, operations;
};

/* Filled before children are made, read by them: an item's inputs are prepared by its seed. */
static struct run run;

/* ---- files ----------------------------------------------------------------------------------- */

static void list_files(const char *folder, int depth) {
    DIR *d = opendir(folder);
    struct stat st;
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL && run.n < MOST_FILES;) {
        size_t n = strlen(folder) + strlen(e->d_name) + 2, len = strlen(e->d_name);
        char *path = malloc(n);
        if (e->d_name[0] == '.' || path == NULL) {
            free(path);
            continue;
        }
        snprintf(path, n, "%s/%s", folder, e->d_name);
        bool json = len > 5 && strcmp(e->d_name + len - 5, ".json") == 0;
        bool wanted = json && (run.only == NULL || strstr(path, run.only) != NULL);
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode) && depth > 0)
            list_files(path, depth - 1);
        else if (wanted) {
            run.file[run.n++] = path;
            continue;
        }
        free(path);
    }
    if (d != NULL) closedir(d);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sample(void) {
    int64_t *at = calloc((size_t)run.n + 1, sizeof *at);
    if (at != NULL && run.n_chosen > 0 && run.n_chosen < run.n) {
        random_choose(run.n, run.n_chosen, (uint64_t)run.seed, "graphs of oneDNN", at);
        for (int i = 0; i < run.n_chosen; i++) {
            char *kept = run.file[at[i]];
            run.file[at[i]] = run.file[i];
            run.file[i] = kept;
        }
        while (run.n > run.n_chosen)
            free(run.file[--run.n]);
    }
    free(at);
}

static const char *short_name(int i) {
    return run.file[i] + strlen(run.dir) + 1;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static void prepare(struct subject *s) {
    const struct onednn_graph *g = &run.graph[s->seed - 1];
    for (size_t p = 0; p < s->g->params.n; p++) {
        const char *name = graph_value(s->g, s->g->params.at[p].value)->name;
        for (int k = 0; k < g->n_values; k++) {
            const struct onednn_values *v = &g->values[k];
            if (strcmp(v->name, name) != 0 || v->n != s->in[p].count) continue;
            for (int64_t i = 0; i < v->n; i++) {
                union scalar x =
                    elem_cast(DT_F64, (union scalar){.f = v->at[i]}, s->in[p].dtype, false);
                elem_store(s->in[p].dtype, s->in[p].data, i, x);
            }
        }
    }
}

static void import(int i) {
    char *text = text_of_file(run.file[i]);
    struct onednn_graph *g = &run.graph[i];
    bool ok = text != NULL && onednn_graph(text, run.full == 0, g);
    free(text);
    if (!ok) {
        run.skipped++;
        printf("skip %s: %s\n", short_name(i), g->left_out);
        return;
    }
    if (run.print > 0) printf("# %s\n%s", short_name(i), g->text);
    run.number[run.items] = i;
    run.item[run.items++] = (struct suite_item){.text = g->text,
                                                .seed = (uint64_t)i + 1,
                                                .fill = FILL_TENTH,
                                                .rows = run.rows,
                                                .min_kernels = 1,
                                                .brief = run.modes == 0,
                                                .prepare = prepare};
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void body(void *user, int first, int count, volatile int *at, struct outcome *out) {
    struct rig r;
    struct err e;
    struct rig_options o = {.threads = 1, .compiler = run.cc, .optimize = run.opt};
    (void)user;
    err_clear(&e);
    if (rig_open(&r, &o, &e) != PROEM_OK) {
        fprintf(stderr, "%s\n", e.text);
        exit(3);
    }
    suite_run(&r, run.item, first, count, at, out);
    rig_close(&r);
}

static void report(void *user, int item, const struct outcome *o) {
    int i = run.number[item];
    (void)user;
    if (o->state == OUTCOME_PASSED) {
        run.passed++;
        run.kernels += o->kernels;
        run.operations += run.graph[i].operations;
        printf("%3d kernels of %2d operations  %s\n", o->kernels, run.graph[i].operations,
               short_name(i));
    } else {
        bool skipped = o->state == OUTCOME_SKIPPED;
        run.skipped += skipped;
        run.failed += !skipped;
        printf("%s %s: %s\n", skipped ? "skip" : "FAIL", short_name(i), o->text);
    }
    fflush(stdout);
}

int main(int argc, char **argv) {
    run = (struct run){.jobs = 2, .batch = 8, .seed = 1, .rows = 16};
    const struct setting list[] = {
        {"DIR", SETTING_TEXT, &run.dir},    {"ONLY", SETTING_TEXT, &run.only},
        {"CC", SETTING_TEXT, &run.cc},      {"OPT", SETTING_TEXT, &run.opt},
        {"N", SETTING_INT, &run.n_chosen},  {"FULL", SETTING_INT, &run.full},
        {"ROWS", SETTING_INT, &run.rows},   {"MODES", SETTING_INT, &run.modes},
        {"JOBS", SETTING_INT, &run.jobs},   {"BATCH", SETTING_INT, &run.batch},
        {"PRINT", SETTING_INT, &run.print}, {"SEED", SETTING_LONG, &run.seed}};
    if (!settings_read("onednn", list, COUNT_OF(list), argc, argv)) return 2;
    if (run.dir == NULL) {
        fprintf(stderr, "onednn: DIR=FOLDER of graphs is needed\n");
        return 2;
    }
    list_files(run.dir, 8);
    qsort(run.file, (size_t)run.n, sizeof run.file[0], by_name);
    sample();
    for (int i = 0; i < run.n; i++)
        import(i);
    struct outcome *o = run_isolated(run.items, run.batch, run.jobs, 300, body, NULL, report);
    if (o == NULL) return 3;
    outcomes_free(o, run.items);
    printf("%d kernels of %d operations\n", run.kernels, run.operations);
    printf("%d passed, %d failed, %d skipped\n", run.passed, run.failed, run.skipped);
    for (int i = 0; i < run.n; i++) {
        onednn_graph_free(&run.graph[i]);
        free(run.file[i]);
    }
    return run.failed > 0 || run.passed == 0;
}
