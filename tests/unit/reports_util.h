/* SPDX-License-Identifier: MIT
 * What the tests of reported faults share: a table of graphs with the values of their inputs and,
 * where one answer alone is right, of their outputs; and the run of such a table.
 *
 * A row is compiled fused (boundary), unfused (eager) and fused wherever that is legal (native),
 * many rows in one unit. Each run has poisoned surroundings and outputs full of NaN; its results
 * must lie in the reference interpreter's intervals of the mode and equal what the row states.
 *
 * Values are text: "list 1 2 nan" (repeated), "eye", "iota MOD ADD", "rows ADD" and "cols ADD"
 * (index of the row or column plus ADD), "uniform LO HI", "random LO HI" (integers), "keep" (what
 * the harness filled in), then any number of "; FROM COUNT VALUE" that overwrite.
 */
#ifndef REPORTS_UTIL_H
#define REPORTS_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/harness.h"

#define N_TENSORS 8

struct named {
    const char *name, *value; /* value NULL: not stated (for its shape alone) */
    const char *shape;        /* "4 6", or NULL */
};

struct report {
    const char *id;
    const char *text; /* $0 .. $9 stand for the words of sub */
    const char *sub;
    struct named in[N_TENSORS], want[N_TENSORS];
    int max_kernels; /* of the fused plan; 0: any */
    int64_t rows;    /* that are checked; 0: all */
    bool data_error; /* the run must end in one, on the reference too */
    bool (*also)(const struct variant *v, struct err *e); /* one more check of the results */
};

#define N_VARIANTS 3

/* ---- values ---------------------------------------------------------------------------------- */

static inline double value_at(enum dtype d, const void *data, int64_t i) {
    union scalar v = elem_load(d, data, i);
    return dtype_is_float(d) ? v.f : d == DT_U64 ? (double)(uint64_t)v.i : (double)v.i;
}

static inline void value_put(enum dtype d, void *data, int64_t i, double x) {
    elem_store(d, data, i, elem_cast(DT_F64, (union scalar){.f = x}, d, false));
}

/* In [0, 1), from the seed and the index. */
static inline double fraction(uint64_t seed, int64_t i) {
    uint64_t z = (seed + (uint64_t)i) * 0x9E3779B97F4A7C15u; /* SplitMix64 (Steele et al. 2014) */
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static inline int parse_list(const char *text, double *out, int max) {
    int n = 0;
    char *end = NULL;
    for (; n < max; n++) {
        out[n] = strtod(text, &end);
        if (end == text) break;
        text = end;
    }
    return n;
}

/* The value that `text` gives element i; false if it leaves it as it is. */
static inline bool value_of(const char *text, int64_t i, int64_t cols, double *out) {
    double a[64] = {0};
    const char *args = text + strcspn(text, " ;");
    int n = parse_list(args, a, 64);
    double row = (double)(cols > 0 ? i / cols : 0), col = (double)(cols > 0 ? i % cols : 0);
    bool set = true;
    if (strncmp(text, "list", 4) == 0)
        *out = a[n > 0 ? i % n : 0];
    else if (strncmp(text, "eye", 3) == 0)
        *out = row == col ? 1 : 0;
    else if (strncmp(text, "iota", 4) == 0)
        *out = (double)(i % (int64_t)a[0]) + a[1];
    else if (strncmp(text, "rows", 4) == 0)
        *out = row + a[0];
    else if (strncmp(text, "cols", 4) == 0)
        *out = col + a[0];
    else if (strncmp(text, "uniform", 7) == 0)
        *out = a[0] + (a[1] - a[0]) * fraction((uint64_t)cols * 977, i);
    else if (strncmp(text, "random", 6) == 0)
        *out = a[0] + (double)(int64_t)((a[1] - a[0]) * fraction((uint64_t)cols * 31, i));
    else if (strncmp(text, "keep", 4) == 0)
        set = false;
    else
        fail_msg("'%s' is no rule for values", text);
    while ((text = strchr(text, ';')) != NULL) {
        text++;
        if (parse_list(text, a, 3) == 3 && i >= (int64_t)a[0] && (double)i < a[0] + a[1]) {
            *out = a[2];
            set = true;
        }
    }
    return set;
}

static inline int64_t columns(int rank, const int64_t *shape) {
    return rank > 0 ? shape[rank - 1] : 1;
}

static inline void fill_by_rule(struct guarded *t, const char *rule) {
    double x = 0;
    for (int64_t i = 0; i < t->count; i++)
        if (value_of(rule, i, columns(t->rank, t->shape), &x)) value_put(t->dtype, t->data, i, x);
}

static inline bool shape_is(const struct guarded *t, const char *text) {
    double d[MAX_RANK + 1];
    int n = parse_list(text, d, MAX_RANK + 1);
    bool same = n == t->rank;
    for (int i = 0; i < n && same; i++)
        same = (double)t->shape[i] == d[i];
    return same;
}

static inline bool wanted(const struct guarded *t, const struct named *w, struct err *e) {
    if (w->shape != NULL && !shape_is(t, w->shape)) {
        err_set(e, PROEM_INTERNAL, "%s has not the shape %s", w->name, w->shape);
        return false;
    }
    for (int64_t i = 0; w->value != NULL && i < t->count; i++) {
        double want = 0, got = value_at(t->dtype, t->data, i);
        if (!value_of(w->value, i, columns(t->rank, t->shape), &want)) continue;
        if (dtype_is_float(t->dtype)) /* a stated value need not have all digits */
            want = elem_cast(DT_F64, (union scalar){.f = want}, t->dtype, false).f;
        if (got == want || (got != got && want != want)) continue;
        err_set(e, PROEM_INTERNAL, "%s[%lld] is %.9g and not %.9g", w->name, (long long)i, got,
                want);
        return false;
    }
    return true;
}

/* ---- one row --------------------------------------------------------------------------------- */

static inline void substitute(const char *text, const char *sub, struct str *out) {
    for (; *text != '\0'; text++) {
        if (*text != '$') {
            str_addn(out, text, 1);
            continue;
        }
        const char *word = sub;
        for (int skip = *++text - '0'; skip > 0; skip--)
            word += strcspn(word, " ") + 1;
        str_addn(out, word, strcspn(word, " "));
    }
}

static inline int param_index(const struct subject *s, const char *name) {
    for (size_t i = 0; i < s->g->params.n; i++)
        if (strcmp(graph_value(s->g, s->g->params.at[i].value)->name, name) == 0) return (int)i;
    fail_msg("no parameter '%s'", name);
    return 0;
}

static inline int output_index(const struct subject *s, const char *name) {
    for (size_t i = 0; i < s->g->outputs.n; i++)
        if (strcmp(graph_value(s->g, s->g->outputs.at[i].value)->name, name) == 0) return (int)i;
    fail_msg("no output '%s'", name);
    return 0;
}

struct row {
    const struct report *r;
    struct str text;
    struct subject s;
    struct variant v[N_VARIANTS];
    bool open;
};

static inline void say_row(struct outcome *o, const char *where, const struct err *e) {
    o->state = OUTCOME_FAILED;
    snprintf(o->text, sizeof o->text, "%.60s: %.440s", where, e->text);
}

static inline bool open_row(struct rig *rig, const struct report *r, struct row *w,
                            struct outcome *o) {
    static const enum precision prec[] = {PREC_BOUNDARY, PREC_EAGER, PREC_NATIVE};
    static const enum fuse_policy policy[] = {FUSE_MODEL, FUSE_NEVER, FUSE_ALWAYS};
    struct err e;
    err_clear(&e);
    w->r = r;
    str_init(&w->text, &allocator_default);
    substitute(r->text, r->sub != NULL ? r->sub : "", &w->text);
    if (subject_open(&w->s, str_text(&w->text), NULL, 0, 7, FILL_RANDOM, &e) != PROEM_OK) {
        say_row(o, "open", &e);
        return false;
    }
    w->open = true;
    for (int i = 0; i < N_TENSORS && r->in[i].name != NULL; i++)
        fill_by_rule(&w->s.in[param_index(&w->s, r->in[i].name)], r->in[i].value);
    for (int i = 0; i < N_VARIANTS; i++) {
        if (variant_plan(&w->v[i], &w->s, prec[i], policy[i], rig) == PROEM_OK) continue;
        say_row(o, "plan", &w->v[i].err);
        return false;
    }
    int n = (int)w->v[0].plan.kernels.n;
    if (r->max_kernels > 0 && n > r->max_kernels) {
        o->state = OUTCOME_FAILED;
        snprintf(o->text, sizeof o->text, "%d kernels and not %d", n, r->max_kernels);
        return false;
    }
    return true;
}

static inline bool check_row(struct rig *rig, struct row *w, struct variant *v, struct outcome *o) {
    struct err e;
    err_clear(&e);
    char where[48];
    snprintf(where, sizeof where, "%s, %s", mode_name(v->prec),
             v->policy == FUSE_NEVER ? "unfused" : "fused");
    struct eval_results ref = {.alloc = &allocator_default};
    enum proem_status want = subject_reference(&w->s, v->prec, w->r->rows, rig->threads, &ref, &e);
    variant_run(rig, v);
    double ratio = 0;
    bool ok = want == v->status && (want == PROEM_DATA) == w->r->data_error;
    if (!ok) {
        snprintf(o->text, sizeof o->text, "%s: the reference says '%.160s', the run '%.160s'",
                 where, want == PROEM_OK ? "ok" : e.text,
                 v->status == PROEM_OK ? "ok" : v->err.text);
        o->state = OUTCOME_FAILED;
    } else if (want != PROEM_DATA) {
        ok = want == PROEM_OK && variant_check(v, &ref, &ratio, &e) == PROEM_OK;
        for (int i = 0; ok && i < N_TENSORS && w->r->want[i].name != NULL; i++)
            ok = wanted(&v->out[output_index(&w->s, w->r->want[i].name)], &w->r->want[i], &e);
        if (ok && w->r->also != NULL) ok = w->r->also(v, &e);
        if (!ok) say_row(o, where, &e);
    }
    eval_results_free(&ref);
    return ok;
}

/* ---- a table --------------------------------------------------------------------------------- */

struct table {
    const struct report *rows;
    const char *arch; /* NULL: this machine */
    int failed;
};

static inline void table_body(void *user, int first, int count, volatile int *at,
                              struct outcome *out) {
    const struct table *t = user;
    struct rig rig;
    struct rig_options options = {.threads = 2, .optimize = "-O0", .arch = t->arch};
    struct err e;
    err_clear(&e);
    struct row *w = calloc((size_t)count, sizeof *w);
    struct variant **v = calloc((size_t)count * N_VARIANTS, sizeof(struct variant *));
    if (w == NULL || v == NULL || rig_open(&rig, &options, &e) != PROEM_OK) exit(3);
    int n = 0;
    for (int i = 0; i < count; i++) {
        if (out[first + i].state != OUTCOME_NONE) continue;
        *at = first + i;
        if (!open_row(&rig, &t->rows[first + i], &w[i], &out[first + i])) continue;
        for (int k = 0; k < N_VARIANTS; k++)
            v[n++] = &w[i].v[k];
    }
    *at = -1;
    variants_compile(&rig, v, n);
    for (int i = 0; i < count; i++) {
        *at = first + i;
        struct outcome *o = &out[first + i];
        bool ok = o->state == OUTCOME_NONE;
        for (int k = 0; k < N_VARIANTS && ok; k++)
            ok = check_row(&rig, &w[i], &w[i].v[k], o);
        if (ok) o->state = OUTCOME_PASSED;
        for (int k = 0; w[i].open && k < N_VARIANTS; k++)
            variant_close(&w[i].v[k]);
        if (w[i].open) subject_close(&w[i].s);
        str_free(&w[i].text);
    }
    rig_close(&rig);
    free(v);
    free(w);
}

static inline void table_report(void *user, int i, const struct outcome *o) {
    struct table *t = user;
    if (o->state == OUTCOME_PASSED) return;
    t->failed++;
    print_message("%s (%s): %s\n", t->rows[i].id, t->rows[i].sub != NULL ? t->rows[i].sub : "-",
                  o->text);
}

static inline void run_table(const struct report *rows, int n, const char *arch) {
    struct table t = {.rows = rows, .arch = arch};
    struct outcome *o = run_isolated(n, 24, 2, 120, table_body, &t, table_report);
    assert_non_null(o);
    outcomes_free(o, n);
    assert_int_equal(t.failed, 0);
}

#endif
