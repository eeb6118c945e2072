/* SPDX-License-Identifier: MIT
 * Results: rows as JSON in results/NAME.json, read back at the start so that a run of one section
 * replaces its rows and leaves the others; a line for each row on stdout; the table (markdown.c).
 *
 * A ratio is a peer's time over ours. A verdict weighs its spread over rounds: `ok`, at or above
 * the bar; `near`, below it by less than the spread or 2 %; `short`, by more in nearly every round.
 */
#include "bench/bench.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* ---- the machine ----------------------------------------------------------------------------- */

void report_machine(struct report *r, const char *key, const char *text) {
    printf("%s: %s\n", key, text);
    json_object_set_new(json_object_get(r->root, "machine"), key, json_string(text));
}

static void cpu_model(char *out, size_t n) {
    char line[512];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(out, n, "unknown");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "model name", 10) != 0) continue;
        const char *text = strchr(line, ':');
        if (text != NULL) snprintf(out, n, "%.*s", (int)strcspn(text + 2, "\n"), text + 2);
        break;
    }
    if (f != NULL) fclose(f);
}

/* The compiler of the kernels and its flags, as `proem doctor` tells them. */
static void describe_compiler(struct report *r, struct session *s) {
    struct str path, text, flags;
    struct err e = {0};
    str_init(&path, &allocator_default);
    str_init(&text, &allocator_default);
    str_init(&flags, &allocator_default);
    if (rt_compiler(s->c->rt, &path, &text, &e) == PROEM_OK &&
        rt_compiler_flags(s->c->rt, context_native(s->c), &flags, &e) == PROEM_OK) {
        str_printf(&text, " %s", str_text(&flags));
        report_machine(r, "kernels compiled by", str_text(&text));
    }
    err_clear(&e);
    str_free(&path);
    str_free(&text);
    str_free(&flags);
}

static void describe_cpu(struct report *r, struct session *s) {
    char text[512], model[160];
    const struct device_desc *d = context_native(s->c);
    cpu_model(model, sizeof model);
    snprintf(text, sizeof text,
             "%s, %d cores, %d-bit vectors, l1d %lld KiB, l2 %lld KiB, l3 %lld KiB", model,
             d->cores, d->vector_bits, (long long)(d->l1d / 1024), (long long)(d->l2 / 1024),
             (long long)(d->l3 / 1024));
    report_machine(r, "CPU", text);
}

static void describe_machine(struct report *r) {
    char text[512], load[64] = "?";
    struct utsname u;
    struct cli o = {.threads = 1};
    struct session s = {0};
    struct err e = {0};
    if (uname(&u) == 0) {
        snprintf(text, sizeof text, "%s %s", u.sysname, u.release);
        report_machine(r, "system", text);
    }
    FILE *f = fopen("/proc/loadavg", "r");
    if (f != NULL && fgets(load, sizeof load, f) != NULL) load[strcspn(load, "\n")] = '\0';
    if (f != NULL) fclose(f);
    report_machine(r, "load at the start (1, 5, 15 minutes; running; last process)", load);
    report_machine(r, "benchmarks and peers' loops compiled by", BENCH_COMPILER);
    if (session_context(&s, &o, &e) == PROEM_OK) {
        describe_cpu(r, &s);
        describe_compiler(r, &s);
    }
    err_clear(&e);
    session_close(&s);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void path_of(const struct report *r, const char *suffix, char *out, size_t n) {
    snprintf(out, n, "%s/%s.%s", r->o->results, r->o->name, suffix);
}

static void set_default(json_t *object, const char *key, json_t *value) {
    if (json_object_get(object, key) == NULL)
        json_object_set_new(object, key, value);
    else
        json_decref(value);
}

bool report_open(struct report *r, const struct options *o) {
    char path[1024];
    json_error_t error;
    *r = (struct report){.o = o};
    path_of(r, "json", path, sizeof path);
    r->root = json_load_file(path, 0, &error);
    if (r->root == NULL && access(path, F_OK) == 0) {
        fprintf(stderr, "%s:%d: %s; move it away or mend it\n", path, error.line, error.text);
        return false;
    }
    if (r->root == NULL) r->root = json_object();
    set_default(r->root, "version", json_integer(1));
    set_default(r->root, "machine", json_object());
    set_default(r->root, "rows", json_array());
    json_object_set_new(r->root, "left_out", json_object());
    describe_machine(r);
    return true;
}

static bool save(struct report *r) {
    char path[1024];
    path_of(r, "json", path, sizeof path);
    if (json_dump_file(r->root, path, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) == 0) return true;
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return false;
}

bool report_close(struct report *r) {
    char path[1024];
    bool ok = save(r);
    path_of(r, "md", path, sizeof path);
    FILE *f = fopen(path, "w");
    ok = f != NULL && report_markdown(r, f) && ok;
    if (f != NULL && fclose(f) != 0) ok = false;
    if (!ok) fprintf(stderr, "%s: not written\n", path);
    if (ok) printf("results: %s\n", path);
    json_decref(r->root);
    return ok;
}

void report_skip(struct report *r, const char *what, const char *why) {
    printf("left out: %s: %s\n", what, why);
    json_object_set_new(json_object_get(r->root, "left_out"), what, json_string(why));
}

/* ---- rows ------------------------------------------------------------------------------------ */

static json_t *spread_json(struct spread s, double unit) {
    json_t *o = json_object();
    json_object_set_new(o, "median", json_real(s.median * unit));
    json_object_set_new(o, "p10", json_real(s.p10 * unit));
    json_object_set_new(o, "p90", json_real(s.p90 * unit));
    return o;
}

static json_t *side_json(const struct row *row, const struct side *s) {
    struct spread time = spread_of(s->round, row->rounds);
    json_t *o = json_object();
    json_object_set_new(o, "name", json_string(s->name));
    json_object_set_new(o, "ours", json_boolean(s->ours));
    json_object_set_new(o, "us", spread_json(time, 1e6));
    json_object_set_new(o, "best_us", json_real(s->best * 1e6));
    json_object_set_new(o, "runs", json_integer(s->tries));
    if (row->flop > 0) {
        json_object_set_new(o, "gflops", json_real(row->flop / time.median * 1e-9));
        json_object_set_new(o, "of_peak", json_real(row->flop / time.median / row->peak));
    }
    return o;
}

/* Equal programs differ by that much from one place in memory to another. */
#define NOISE 0.02

static const char *verdict_of(struct spread ratio, double bar) {
    if (ratio.median >= bar) return "ok";
    return ratio.p90 >= bar * (1 - NOISE) ? "near" : "short";
}

static json_t *ratios_json(const struct row *row) {
    json_t *list = json_array();
    for (int i = 0; i < row->n; i++) {
        for (int k = 0; row->side[i].ours && k < row->n; k++) {
            if (row->side[k].ours) continue;
            struct spread ratio = row_ratio(row, i, k);
            json_t *o = spread_json(ratio, 1);
            json_object_set_new(o, "ours", json_string(row->side[i].name));
            json_object_set_new(o, "peer", json_string(row->side[k].name));
            if (row->bar > 0) {
                json_object_set_new(o, "bar", json_real(row->bar));
                json_object_set_new(o, "verdict", json_string(verdict_of(ratio, row->bar)));
            }
            json_array_append_new(list, o);
        }
    }
    return list;
}

static json_t *row_json(const struct row *row) {
    json_t *o = json_object(), *sides = json_array();
    json_object_set_new(o, "section", json_string(row->section));
    json_object_set_new(o, "row", json_string(row->name));
    json_object_set_new(o, "threads", json_integer(row->threads));
    json_object_set_new(o, "clock", json_string(row->threads > 1 ? "wall" : "thread CPU"));
    json_object_set_new(o, "rounds", json_integer(row->rounds));
    if (row->note != NULL) json_object_set_new(o, "note", json_string(row->note));
    json_object_set_new(o, "peak_gflops", json_real(row->peak * 1e-9));
    if (row->error >= 0) json_object_set_new(o, "difference", json_real(row->error));
    for (int i = 0; i < row->n; i++)
        json_array_append_new(sides, side_json(row, &row->side[i]));
    json_object_set_new(o, "sides", sides);
    json_object_set_new(o, "ratios", ratios_json(row));
    return o;
}

static bool same(const json_t *a, const json_t *b) {
    static const char *const keys[] = {"section", "row", "threads"};
    for (int i = 0; i < 3; i++) {
        if (!json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i]))) return false;
    }
    return true;
}

static void keep(json_t *rows, json_t *row) {
    for (size_t i = 0; i < json_array_size(rows); i++) {
        if (same(json_array_get(rows, i), row)) {
            json_array_set_new(rows, i, row);
            return;
        }
    }
    json_array_append_new(rows, row);
}

static void print_row(const struct row *row) {
    printf("%-9s %-26s %d thread%s", row->section, row->name, row->threads,
           row->threads > 1 ? "s" : " ");
    for (int i = 0; i < row->n; i++) {
        struct spread t = spread_of(row->side[i].round, row->rounds);
        printf("  %s %.4g ms (%.4g..%.4g)", row->side[i].name, t.median * 1e3, t.p10 * 1e3,
               t.p90 * 1e3);
        if (row->flop > 0) printf(" %.1f GF", row->flop / t.median * 1e-9);
    }
    printf("  peak %.1f GF", row->peak * 1e-9);
    for (int i = 0; i < row->n; i++) {
        for (int k = 0; row->side[i].ours && k < row->n; k++) {
            if (row->side[k].ours) continue;
            struct spread q = row_ratio(row, i, k);
            printf("  %s x%.2f (%.2f..%.2f) of %s%s%s", row->side[i].name, q.median, q.p10, q.p90,
                   row->side[k].name, row->bar > 0 ? " " : "",
                   row->bar > 0 ? verdict_of(q, row->bar) : "");
        }
    }
    if (row->error >= 0) printf("  difference %.1e", row->error);
    printf("\n");
    fflush(stdout);
}

void report_row(struct report *r, const struct row *row) {
    print_row(row);
    keep(json_object_get(r->root, "rows"), row_json(row));
    save(r);
}
