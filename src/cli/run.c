/* SPDX-License-Identifier: MIT
 * `proem run`: inputs in, outputs out, and the check against the reference interpreter.
 */
#include "cli/cli.h"

#include <math.h>
#include <string.h>

/* ---- --out ----------------------------------------------------------------------------------- */

static enum proem_status find_output(const struct graph *g, const char *name, size_t *out,
                                     struct err *e) {
    for (size_t i = 0; i < g->outputs.n; i++) {
        if (strcmp(g->outputs.at[i].name, name) != 0) continue;
        *out = i;
        return PROEM_OK;
    }
    struct str names;
    str_init(&names, &allocator_default);
    for (size_t i = 0; i < g->outputs.n; i++)
        str_printf(&names, "%s%s", i > 0 ? ", " : "", g->outputs.at[i].name);
    enum proem_status status =
        err_set(e, PROEM_INVALID, "--out: graph %s has no output '%s'; its outputs are %s", g->name,
                name, str_text(&names));
    str_free(&names);
    return status;
}

static enum proem_status check_out_names(const struct session *s, struct err *e) {
    size_t unused;
    for (size_t i = 0; i < s->o->out.n; i++)
        TRY(find_output(s->p->graph, s->o->out.at[i].name, &unused, e));
    return PROEM_OK;
}

static enum proem_status write_outputs(const struct session *s, const struct bound_run *r,
                                       struct err *e) {
    for (size_t i = 0; i < s->o->out.n; i++) {
        size_t at = 0;
        TRY(find_output(s->p->graph, s->o->out.at[i].name, &at, e));
        TRY(npy_write(s->o->out.at[i].text, &r->out[at], e));
    }
    return PROEM_OK;
}

/* ---- --check --------------------------------------------------------------------------------- */

static enum proem_status check(struct session *s, const struct bound_run *r,
                               struct eval_report *reports, struct err *e) {
    static const enum eval_mode modes[] = {EVAL_BOUNDARY, EVAL_EAGER, EVAL_NATIVE};
    struct eval_options o = {.mode = modes[s->o->precision],
                             .intervals = true,
                             .threads = s->o->threads,
                             .rows = s->o->rows,
                             .seed = s->o->seed};
    if (o.threads < 1) o.threads = context_native(s->c)->cores;
    struct eval_input *in = ARENA_NEW(&s->arena, struct eval_input, s->n_in);
    if (in == NULL) return err_nomem(e);
    for (size_t i = 0; i < s->n_in; i++) {
        const struct array *a = &s->in[i].array;
        in[i] = (struct eval_input){a->type.rank, a->type.shape, a->data};
    }
    struct eval_results results = {0};
    TRY(eval_graph(s->p->graph, &s->p->dims, in, &o, &allocator_default, &results, e));
    for (size_t i = 0; i < r->n_out; i++)
        eval_compare(&results.at[i], r->out[i].data, &reports[i]);
    eval_results_free(&results);
    return PROEM_OK;
}

/* ---- reports --------------------------------------------------------------------------------- */

static json_t *output_json(const struct array *a, const char *name,
                           const struct eval_report *report) {
    json_t *o = json_object(), *shape = json_array();
    for (int i = 0; i < a->type.rank; i++)
        json_array_append_new(shape, json_integer(a->type.shape[i]));
    json_object_set_new(o, "name", json_string(name));
    json_object_set_new(o, "dtype", json_string(dtype_name(a->type.dtype)));
    json_object_set_new(o, "shape", shape);
    json_object_set_new(o, "max_err", report ? json_real_or_null(report->max_err) : json_null());
    json_object_set_new(o, "bound_ratio",
                        report ? json_real_or_null(report->bound_ratio) : json_null());
    json_object_set_new(o, "ok", report ? json_boolean(report->ok) : json_null());
    if (report != NULL) {
        json_object_set_new(o, "checked", json_integer(report->checked));
        json_object_set_new(o, "unbounded", json_integer(report->unbounded));
    }
    return o;
}

/* Milliseconds in each pass that was run. */
static json_t *passes_json(const proem_program *p) {
    json_t *o = json_object();
    for (int i = 0; i < PASS_COUNT; i++) {
        if (p->ms[i] > 0) json_object_set_new(o, pass_table()[i].name, json_real(p->ms[i]));
    }
    return o;
}

static enum proem_status report_json(const struct session *s, const struct bound_run *r,
                                     const struct eval_report *reports, struct err *e) {
    const struct graph *g = s->p->graph;
    json_t *root = json_object(), *outputs = json_array();
    for (size_t i = 0; i < r->n_out; i++)
        json_array_append_new(outputs, output_json(&r->out[i], g->outputs.at[i].name,
                                                   reports != NULL ? &reports[i] : NULL));
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "outputs", outputs);
    json_object_set_new(root, "graph", json_string(g->name));
    json_object_set_new(root, "device", json_string(device_name(s->o->device)));
    json_object_set_new(root, "precision", json_string(precision_name(s->o->precision)));
    json_object_set_new(root, "kernels", json_integer((json_int_t)s->p->plan.kernels.n));
    json_object_set_new(root, "ready_ms", json_real(r->ready_ms));
    json_object_set_new(root, "first_run_ms", json_real(r->first_run_ms));
    json_object_set_new(root, "passes_ms", passes_json(s->p));
    return print_json(root, e);
}

static void print_worst(const struct array *a, int64_t flat) {
    int64_t at[MAX_RANK];
    for (int i = a->type.rank; i-- > 0;) {
        at[i] = flat % a->type.shape[i];
        flat /= a->type.shape[i];
    }
    printf(", worst at [");
    for (int i = 0; i < a->type.rank; i++)
        printf("%s%lld", i > 0 ? ", " : "", (long long)at[i]);
    printf("]");
}

static void report_text(const struct session *s, const struct bound_run *r,
                        const struct eval_report *reports) {
    struct str type;
    for (size_t i = 0; i < r->n_out; i++) {
        str_init(&type, &allocator_default);
        array_type_print(&r->out[i].type, &type);
        printf("%s: %s", s->p->graph->outputs.at[i].name, str_text(&type));
        str_free(&type);
        if (reports != NULL) {
            const struct eval_report *c = &reports[i];
            printf("  max_err %.6g  bound_ratio %.6g  %s (%lld checked, %lld unbounded)",
                   c->max_err, c->bound_ratio, c->ok ? "ok" : "FAILED", (long long)c->checked,
                   (long long)c->unbounded);
            if (!c->ok && c->worst >= 0) print_worst(&r->out[i], c->worst);
        }
        printf("\n");
    }
}

/* ---- the command ----------------------------------------------------------------------------- */

static enum proem_status run(struct session *s, struct bound_run *r, struct err *e) {
    TRY(bound_run_open(s, s->p, r, e));
    r->ready_ms = (now_us() - s->started_us) * 1e-3;
    TRY(bound_run_once(r, e));
    r->first_run_ms = (now_us() - s->started_us) * 1e-3 - r->ready_ms;
    TRY(write_outputs(s, r, e));
    struct eval_report *reports = NULL;
    if (s->o->check) {
        reports = ARENA_NEW(&s->arena, struct eval_report, r->n_out);
        if (reports == NULL) return err_nomem(e);
        TRY(check(s, r, reports, e));
    }
    if (s->o->json)
        TRY(report_json(s, r, reports, e));
    else
        report_text(s, r, reports);
    for (size_t i = 0; reports != NULL && i < r->n_out; i++) {
        if (!reports[i].ok) return PROEM_CHECK;
    }
    return PROEM_OK;
}

enum proem_status cmd_run(struct session *s, struct err *e) {
    TRY(check_out_names(s, e));
    TRY(inputs_bind(s, e));
    TRY(program_run(s->p, PASS_LOWER, PASS_LOWER, e));
    TRY(inputs_load(s, e));
    enum pass_id last = s->o->device == CLI_REF ? PASS_LOWER : PASS_LINK;
    TRY(program_run(s->p, PASS_FUSE, session_last(s, last), e));
    struct bound_run r = {0};
    enum proem_status status = run(s, &r, e);
    bound_run_close(&r);
    return status;
}
