/* SPDX-License-Identifier: MIT
 * proem-bench: measures proem against its peers on this machine (bench/README.md).
 */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

static const struct section {
    const char *name;
    bool (*run)(struct report *r, const struct peers *p);
} sections[] = {
    {"squares", section_squares}, {"prologue", section_prologue}, {"weights", section_weights},
    {"graphs", section_graphs},   {"ggml", section_ggml},
};

static const char usage[] =
    "usage: bench/run [--section squares|prologue|weights|graphs|ggml].. [--only TEXT] [--quick]\n"
    "                 [--threads 1|2] [--rounds N] [--large] [--full] [--name NAME]\n"
    "  --only TEXT   rows whose name has TEXT\n"
    "  --quick       three short rounds: to see that all works, not to quote\n"
    "  --large       the prologues at 2048 as well\n"
    "  --full        graphs with more than 1 GiB of inputs as well\n"
    "  --name NAME   write bench/results/NAME.json and NAME.md (local); rows of a file that is\n"
    "                there stay, save those measured again\n";

bool wanted(const struct options *o, const char *row) {
    return o->only == NULL || strstr(row, o->only) != NULL;
}

int thread_counts(const struct options *o, int out[2]) {
    out[0] = o->threads > 0 ? o->threads : 1;
    out[1] = 2;
    return o->threads > 0 ? 1 : 2;
}

static bool known_section(const char *name) {
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        if (strcmp(sections[i].name, name) == 0) return true;
    }
    return false;
}

/* The options that take a value. */
static bool set_value(struct options *o, struct arena *a, const char *key, const char *value) {
    char *end = NULL;
    long number = strtol(value, &end, 10);
    bool is_number = *end == '\0' && number > 0;
    if (strcmp(key, "--section") == 0)
        return known_section(value) && VEC_PUSH(a, &o->sections, value);
    if (strcmp(key, "--only") == 0)
        o->only = value;
    else if (strcmp(key, "--commit") == 0)
        o->commit = value;
    else if (strcmp(key, "--name") == 0)
        o->name = value;
    else if (strcmp(key, "--source") == 0)
        o->source = value;
    else if (strcmp(key, "--results") == 0)
        o->results = value;
    else if (strcmp(key, "--threads") == 0 && is_number && number <= 2)
        o->threads = (int)number;
    else if (strcmp(key, "--rounds") == 0 && is_number && number <= MOST_ROUNDS)
        o->rounds = (int)number;
    else
        return false;
    return true;
}

static bool parse(struct options *o, struct arena *a, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            o->quick = true;
        else if (strcmp(argv[i], "--large") == 0)
            o->large = true;
        else if (strcmp(argv[i], "--full") == 0)
            o->full = true;
        else if (i + 1 < argc && set_value(o, a, argv[i], argv[i + 1]))
            i++;
        else
            return false;
    }
    o->budget = o->quick ? 0.03 : 0.2;
    if (o->rounds == 0) o->rounds = o->quick ? 3 : 7;
    if (o->results == NULL) o->results = arena_printf(a, "%s/bench/results", o->source);
    return arena_ok(a);
}

static bool chosen(const struct options *o, const char *name) {
    for (size_t i = 0; i < o->sections.n; i++) {
        if (strcmp(o->sections.at[i], name) == 0) return true;
    }
    return o->sections.n == 0;
}

static void report_command(struct report *r, int argc, char **argv) {
    struct str s;
    str_init(&s, &allocator_default);
    str_printf(&s, "bench/run");
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--source") == 0 || strcmp(argv[i], "--commit") == 0)
            i++;
        else
            str_printf(&s, " %s", argv[i]);
    }
    report_machine(r, "command", str_text(&s));
    str_free(&s);
}

static int measure(const struct options *o, int argc, char **argv) {
    struct report r;
    struct peers p;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!report_open(&r, o)) return 1;
    report_command(&r, argc, argv);
    char text[128];
    snprintf(text, sizeof text, "%s, commit %s", BENCH_PROEM, o->commit);
    report_machine(&r, "proem", text);
    peers_open(&p, &r);
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        if (chosen(o, sections[i].name) && !sections[i].run(&r, &p)) r.failed++;
    }
    return !report_close(&r) || r.failed > 0;
}

int main(int argc, char **argv) {
    struct arena a;
    arena_init(&a, &allocator_default);
    struct options o = {.name = "local", .source = ".", .program = argv[0], .commit = "unknown"};
    bool ok = parse(&o, &a, argc, argv);
    if (!ok) fputs(usage, stderr);
    int status = ok ? measure(&o, argc, argv) : 2;
    arena_free(&a);
    return status;
}
