/* SPDX-License-Identifier: MIT
 * graphs [N=1000] [SEED=1] [JOBS=2] [BATCH=24] [STEPS=12] [FILE=graph.proem] [ARCH=avx2] [SHOW=10]
 *        [CC=clang] [OPT=-O1] [FROM=0: number of the first graph]
 *
 * Random graphs against the reference interpreter: N graphs from SEED, each in every precision
 * mode, fused and not (suite.h). A graph that fails is printed with its seed, reduced to few
 * operators. FILE checks one graph text instead. The last line is `N passed, N failed, N skipped`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_graph.h"
#include "suite.h"

struct settings {
    int n, jobs, batch, steps, show, from;
    int64_t seed;
    const char *file, *arch, *cc, *opt;
};

struct graphs {
    struct settings o;
    struct rig rig;
    int passed, failed, skipped, shown;
};

static bool read_settings(struct settings *o, int argc, char **argv) {
    *o = (struct settings){.n = 1000,
                           .jobs = 2,
                           .batch = 24,
                           .steps = 12,
                           .show = 10,
                           .seed = 1,
                           .cc = "gcc",
                           .opt = "-Og"};
    const struct setting list[] = {
        {"N", SETTING_INT, &o->n},         {"SEED", SETTING_LONG, &o->seed},
        {"JOBS", SETTING_INT, &o->jobs},   {"BATCH", SETTING_INT, &o->batch},
        {"STEPS", SETTING_INT, &o->steps}, {"SHOW", SETTING_INT, &o->show},
        {"FROM", SETTING_INT, &o->from},   {"FILE", SETTING_TEXT, &o->file},
        {"ARCH", SETTING_TEXT, &o->arch},  {"CC", SETTING_TEXT, &o->cc},
        {"OPT", SETTING_TEXT, &o->opt}};
    return settings_read("graphs", list, COUNT_OF(list), argc, argv);
}

static struct rig_options rig_options(const struct settings *o) {
    return (struct rig_options){
        .threads = 3, .arch = o->arch, .compiler = o->cc, .optimize = o->opt};
}

/* Graph number i as text and as the item to check; the graph stays open for its names. */
static bool make_item(const struct graphs *t, int i, struct random_graph *g, struct str *text,
                      struct suite_item *item) {
    struct choices c = {.state = ((uint64_t)t->o.seed << 20) + (uint64_t)(i + t->o.from)};
    if (!random_graph_make(g, &c, t->o.steps)) return false;
    random_graph_print(g, NULL, text);
    static const enum fill fill[] = {FILL_RANDOM, FILL_SMALL, FILL_TENTH, FILL_SMALL,
                                     FILL_RANDOM, FILL_SMALL, FILL_TENTH, FILL_SPECIAL};
    *item = (struct suite_item){.text = str_text(text),
                                .dims = g->symbol,
                                .n_dims = g->n_symbols,
                                .seed = c.state,
                                .fill = fill[(i + t->o.from) % 8]};
    return !text->failed;
}

static void batch_body(void *user, int first, int count, volatile int *at, struct outcome *out) {
    struct graphs *t = user;
    struct random_graph *g = malloc((size_t)count * sizeof *g);
    struct str *text = malloc((size_t)count * sizeof *text);
    struct suite_item *items = calloc((size_t)(first + count), sizeof *items);
    struct dim_value(*dims)[3] = calloc((size_t)count, sizeof *dims);
    struct err e;
    err_clear(&e);
    if (g == NULL || text == NULL || items == NULL || dims == NULL) exit(3);
    for (int i = 0; i < count; i++) {
        *at = first + i;
        str_init(&text[i], &allocator_default);
        if (!make_item(t, first + i, &g[i], &text[i], &items[first + i])) exit(3);
        items[first + i].dims = dims[i];
        items[first + i].n_dims = random_graph_symbols(&g[i], str_text(&text[i]), dims[i]);
    }
    struct rig_options ro = rig_options(&t->o);
    if (rig_open(&t->rig, &ro, &e) != PROEM_OK) {
        fprintf(stderr, "%s\n", e.text);
        exit(3);
    }
    suite_run(&t->rig, items, first, count, at, out);
    rig_close(&t->rig);
    for (int i = 0; i < count; i++) {
        str_free(&text[i]);
        random_graph_free(&g[i]);
    }
    free(g);
    free(text);
    free(items);
    free(dims);
}

/* ---- one text -------------------------------------------------------------------------------- */

struct single {
    struct suite_item item;
    const struct settings *o;
};

static void single_body(void *user, int first, int count, volatile int *at, struct outcome *out) {
    struct single *s = user;
    struct rig r;
    struct err e;
    err_clear(&e);
    (void)first, (void)count;
    struct rig_options ro = rig_options(s->o);
    if (rig_open(&r, &ro, &e) != PROEM_OK) exit(3);
    suite_run(&r, &s->item, 0, 1, at, out);
    rig_close(&r);
}

static struct outcome check_single(struct single *s) {
    struct outcome *o = run_isolated(1, 1, 1, 60, single_body, s, NULL), result = {0};
    if (o != NULL) result = o[0];
    outcomes_free(o, 1);
    return result;
}

/* ---- reduction ------------------------------------------------------------------------------- */

struct reducer {
    const struct random_graph *g;
    struct single s;
    struct outcome last;
    int tries;
};

static bool reduced_fails(void *user, const char *text) {
    struct reducer *r = user;
    if (r->tries-- <= 0) return false;
    struct dim_value dims[3];
    r->s.item.text = text;
    r->s.item.dims = dims;
    r->s.item.n_dims = random_graph_symbols(r->g, text, dims);
    struct outcome o = check_single(&r->s);
    if (o.state != OUTCOME_FAILED || strncmp(o.text, "open", 4) == 0) return false;
    r->last = o;
    return true;
}

static void show_failure(struct graphs *t, int i, const struct outcome *o) {
    struct random_graph *g = malloc(sizeof *g);
    struct str text;
    struct reducer r = {.tries = 60, .last = *o};
    struct reduction d;
    memset(&d, 0, sizeof d);
    str_init(&text, &allocator_default);
    if (g == NULL || !make_item(t, i, g, &text, &r.s.item)) exit(3);
    r.g = g;
    r.s.o = &t->o;
    printf("FAIL graph %d (SEED=%lld)\n  %s\n", i + t->o.from, (long long)t->o.seed, o->text);
    random_graph_reduce(g, &d, reduced_fails, &r);
    str_free(&text);
    random_graph_print(g, &d, &text);
    printf("  reduced (input seed %llu, fill %d", (unsigned long long)r.s.item.seed,
           (int)r.s.item.fill);
    for (int k = 0; k < g->n_symbols; k++)
        printf(", %s=%lld", g->symbol[k].name, (long long)g->symbol[k].value);
    printf("): %s\n%s\n", r.last.text, str_text(&text));
    fflush(stdout);
    str_free(&text);
    random_graph_free(g);
    free(g);
}

static void report(void *user, int i, const struct outcome *o) {
    struct graphs *t = user;
    if (o->state == OUTCOME_PASSED) t->passed++;
    if (o->state == OUTCOME_SKIPPED) {
        t->skipped++;
        printf("skip graph %d: %s\n", i + t->o.from, o->text);
    }
    if (o->state == OUTCOME_FAILED) {
        t->failed++;
        if (t->o.file == NULL && t->shown++ < t->o.show)
            show_failure(t, i, o);
        else
            printf("FAIL graph %d: %s\n", i + t->o.from, o->text);
    }
    int done = t->passed + t->failed + t->skipped;
    if (done % 500 == 0) fprintf(stderr, "%d graphs, %d failed\n", done, t->failed);
}

int main(int argc, char **argv) {
    struct graphs t = {.passed = 0};
    if (!read_settings(&t.o, argc, argv)) return 2;
    if (t.o.file != NULL) {
        char *text = text_of_file(t.o.file);
        if (text == NULL) {
            fprintf(stderr, "graphs: cannot read %s\n", t.o.file);
            return 2;
        }
        struct single s = {.item = {.text = text, .seed = (uint64_t)t.o.seed}, .o = &t.o};
        s.item.fill = (enum fill)t.o.steps % 4;
        struct outcome o = check_single(&s);
        report(&t, 0, &o);
        free(text);
    } else {
        struct outcome *o = run_isolated(t.o.n, t.o.batch, t.o.jobs, 60, batch_body, &t, report);
        outcomes_free(o, t.o.n);
    }
    printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped);
    return t.failed > 0;
}
