/* SPDX-License-Identifier: MIT
 * The table of results, from their JSON: for each section a table with a column for each side and
 * one of ratios; then the rows that miss their bars, all of them.
 */
#include "bench/bench.h"

#include <string.h>

static const struct {
    const char *name, *title, *text;
} sections[] = {
    {"squares", "f32 products", "M = N = K, row-major. Bar: as fast as the faster library."},
    {"prologue", "One operator in front of, or behind, an f32 product",
     "Against proem's own plain product of the same size and layout (nn: B as [K, N]; nt: B as "
     "[N, K], the quantized B). Bar: within 3 %."},
    {"weights", "Few to many rows, N = K = 4096, weights [N, K]",
     "Against the weights dequantized to f32 each time, then OpenBLAS (sgemv for one row, else "
     "sgemm); for f32 weights the libraries alone. `const`: weights promised constant, packed "
     "once, before the clock starts. The weights stay in the last-level cache where they fit."},
    {"graphs", "Fused against unfused",
     "The plan against a kernel an operator (`--fuse never`), for every graph of tests/fusion and "
     "bench/graphs. Bar: no slower."},
    {"ggml", "ggml's formats, N = K = 4096",
     "The same numbers in proem as two tensors, and (`blocks`) as ggml's bytes. ggml rounds the "
     "activations to 8 bits, proem does not."},
};

static const char *text_of(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s != NULL ? s : "";
}

static double number(const json_t *o, const char *key) {
    return json_number_value(json_object_get(o, key));
}

/* ---- one section ----------------------------------------------------------------------------- */

/* Names of sides, in the order of their first row. */
static size_t side_names(const json_t *rows, const char *section, const char **out, size_t most) {
    size_t n = 0, i, k;
    json_t *row, *side;
    json_array_foreach(rows, i, row) {
        if (strcmp(text_of(row, "section"), section) != 0) continue;
        json_array_foreach(json_object_get(row, "sides"), k, side) {
            size_t at = 0;
            while (at < n && strcmp(out[at], text_of(side, "name")) != 0)
                at++;
            if (at == n && n < most) out[n++] = text_of(side, "name");
        }
    }
    return n;
}

static void time_cell(FILE *f, const json_t *side) {
    const json_t *us = json_object_get(side, "us");
    double median = number(us, "median"), unit = median < 1000 ? 1 : 1e-3;
    fprintf(f, " %.3g %s [%.3g..%.3g]", median * unit, median < 1000 ? "us" : "ms",
            number(us, "p10") * unit, number(us, "p90") * unit);
    if (json_object_get(side, "gflops") != NULL)
        fprintf(f, " %.1f GF, %.0f %%", number(side, "gflops"), 100 * number(side, "of_peak"));
}

static void side_cells(FILE *f, const json_t *row, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t k;
        json_t *side;
        json_array_foreach(json_object_get(row, "sides"), k, side) {
            if (strcmp(text_of(side, "name"), names[i]) == 0) time_cell(f, side);
        }
        fprintf(f, " |");
    }
}

static void ratio_text(FILE *f, const json_t *q) {
    const char *verdict = text_of(q, "verdict");
    bool low = strcmp(verdict, "short") == 0;
    fprintf(f, "%s%s / %s %.2f [%.2f..%.2f]%s", low ? "**" : "", text_of(q, "peer"),
            text_of(q, "ours"), number(q, "median"), number(q, "p10"), number(q, "p90"),
            low ? "**" : "");
    if (verdict[0] != '\0' && strcmp(verdict, "ok") != 0)
        fprintf(f, " %s of %.2f", verdict, number(q, "bar"));
}

static void ratio_cell(FILE *f, const json_t *row) {
    size_t i;
    json_t *q;
    json_array_foreach(json_object_get(row, "ratios"), i, q) {
        fprintf(f, "%s", i > 0 ? "<br>" : " ");
        ratio_text(f, q);
    }
    fprintf(f, " |");
}

static void section_table(FILE *f, const json_t *rows, size_t s) {
    const char *names[16];
    size_t n = side_names(rows, sections[s].name, names, 16), i;
    json_t *row;
    if (n == 0) return;
    fprintf(f, "\n## %s\n\n%s\n\n| row | threads |", sections[s].title, sections[s].text);
    for (i = 0; i < n; i++)
        fprintf(f, " %s |", names[i]);
    fprintf(f, " peer's time / ours | FMA peak | difference |\n|---|---|");
    for (i = 0; i < n + 3; i++)
        fprintf(f, "---|");
    fprintf(f, "\n");
    json_array_foreach(rows, i, row) {
        if (strcmp(text_of(row, "section"), sections[s].name) != 0) continue;
        fprintf(f, "| %s | %d |", text_of(row, "row"), (int)number(row, "threads"));
        side_cells(f, row, names, n);
        ratio_cell(f, row);
        fprintf(f, " %.1f GF |", number(row, "peak_gflops"));
        if (json_object_get(row, "difference") != NULL)
            fprintf(f, " %.0e", number(row, "difference"));
        fprintf(f, " |\n");
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void misses(FILE *f, const json_t *rows, const char *verdict, const char *title) {
    size_t i, k, n = 0;
    json_t *row, *q;
    json_array_foreach(rows, i, row) {
        json_array_foreach(json_object_get(row, "ratios"), k, q) {
            if (strcmp(text_of(q, "verdict"), verdict) != 0) continue;
            if (n++ == 0) fprintf(f, "\n## %s\n\n", title);
            fprintf(f, "- %s, %s, %d thread%s: ", text_of(row, "section"), text_of(row, "row"),
                    (int)number(row, "threads"), number(row, "threads") > 1 ? "s" : "");
            ratio_text(f, q);
            fprintf(f, "\n");
        }
    }
}

bool report_markdown(const struct report *r, FILE *f) {
    const char *key;
    json_t *value, *rows = json_object_get(r->root, "rows");
    fprintf(f,
            "# Measurements: %s\n\nWritten by `bench/run` (bench/README.md says how to read "
            "and repeat them).\n\n",
            r->o->name);
    json_object_foreach(json_object_get(r->root, "machine"), key, value)
        fprintf(f, "- %s: %s\n", key, json_string_value(value));
    json_object_foreach(json_object_get(r->root, "left_out"), key, value)
        fprintf(f, "- left out: %s: %s\n", key, json_string_value(value));
    fprintf(f, "\nTimes are medians over interleaved rounds [p10..p90]; %% is of the measured FMA "
               "peak. One thread: CPU time of the thread. Two: wall.\nA ratio below its bar by "
               "more than 2 %% "
               "in nearly every round is bold, `short`; by less, `near`.\n");
    for (size_t s = 0; s < sizeof sections / sizeof *sections; s++)
        section_table(f, rows, s);
    misses(f, rows, "short", "Below the bar");
    misses(f, rows, "near", "Below the bar by less than the spread or 2 %");
    return ferror(f) == 0;
}
