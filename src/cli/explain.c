/* SPDX-License-Identifier: MIT
 * `proem explain`: the plan, for people and as JSON.
 */
#include "cli/cli.h"

#include <string.h>

/* What a kernel evaluates, by operand of the operator that it is built around. */
struct role {
    const char *name;
    const value_id *at;
    size_t n;
};

static int roles_of(const struct plan *p, const struct kernel *k, struct role out[2]) {
    if (k->anchor == 0) return 0;
    const struct node *n = graph_node(p->low.graph, k->anchor);
    const char *first = graph_input_name(n->op, 0), *second = graph_input_name(n->op, 1);
    out[0] = (struct role){first != NULL ? first : "0", k->prologue_a.at, k->prologue_a.n};
    if (n->n_in < 2) return 1;
    out[1] = (struct role){second != NULL ? second : "1", k->prologue_b.at, k->prologue_b.n};
    return 2;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *names_of(const struct graph *g, const value_id *at, size_t n) {
    json_t *a = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(a, json_string(graph_value(g, at[i])->name));
    return a;
}

static json_t *bytes_or_null(int64_t bytes) {
    return bytes >= 0 ? json_integer(bytes) : json_null();
}

static json_t *tuned_json(const struct kernel_tuned *t) {
    json_t *o = json_object();
    json_object_set_new(o, "measured", json_boolean(t->done));
    json_object_set_new(o, "before_us", t->done ? json_real(t->model_us) : json_null());
    json_object_set_new(o, "after_us", t->done ? json_real(t->taken_us) : json_null());
    json_object_set_new(o, "tried", json_integer(t->tried));
    json_object_set_new(o, "cached", json_boolean(t->cached));
    json_object_set_new(o, "reordered", json_boolean(t->reordered));
    json_object_set_new(o, "why", t->note != NULL ? json_string(t->note) : json_null());
    return o;
}

static const char *form_name(enum tile_form f) {
    switch (f) {
    case TILE_SIMT: return "simt";
    case TILE_WGMMA: return "wgmma";
    case TILE_FEW: return "few";
    }
    return "?";
}

static json_t *gpu_config_of(const struct tile *t) {
    json_t *o = json_object();
    json_object_set_new(o, "form", json_string(form_name(t->cuda.form)));
    json_object_set_new(o, "rows", json_integer(t->cuda.rows));
    json_object_set_new(o, "cols", json_integer(t->cuda.cols));
    json_object_set_new(o, "threads", json_integer(t->cuda.threads));
    json_object_set_new(o, "order", json_string(t->order != NULL ? t->order : ""));
    return o;
}

/* How a product is cut. */
static json_t *config_of(const struct kernel *k) {
    const struct tile *t = &k->tile;
    if (k->kind == KERNEL_MATMUL && t->cuda.threads > 0) return gpu_config_of(t);
    json_t *o = json_object();
    if (k->kind != KERNEL_MATMUL) return o;
    json_object_set_new(o, "packed", json_boolean(t->packed));
    json_object_set_new(o, "rows", json_integer(t->rows ? t->rows_max : 0));
    json_object_set_new(o, "swap", json_boolean(t->swap));
    json_object_set_new(o, "mr", json_integer(t->mr));
    json_object_set_new(o, "nv", json_integer(t->nv));
    json_object_set_new(o, "mc", json_integer(t->mc));
    json_object_set_new(o, "kc", json_integer(t->kc));
    json_object_set_new(o, "nc", json_integer(t->nc));
    json_object_set_new(o, "order", json_string(t->order != NULL ? t->order : ""));
    if (k->tuned.done || k->tuned.note != NULL)
        json_object_set_new(o, "tuned", tuned_json(&k->tuned));
    return o;
}

static json_t *kernel_json(const struct plan *p, const struct kernel *k) {
    struct role roles[2];
    int n = roles_of(p, k, roles);
    json_t *o = json_object(), *prologue = json_object();
    for (int i = 0; i < n; i++)
        json_object_set_new(prologue, roles[i].name, names_of(p->source, roles[i].at, roles[i].n));
    json_object_set_new(o, "id", json_integer(k->id));
    json_object_set_new(o, "template", json_string(kernel_kind_name(k->kind)));
    json_object_set_new(o, "name", json_string(k->name != NULL ? k->name : ""));
    json_object_set_new(o, "prologue", prologue);
    json_object_set_new(o, "epilogue", names_of(p->source, k->epilogue.at, k->epilogue.n));
    json_object_set_new(o, "reads", bytes_or_null(k->bytes_read));
    json_object_set_new(o, "writes", bytes_or_null(k->bytes_written));
    json_object_set_new(o, "config", config_of(k));
    return o;
}

static json_t *edge_json(struct session *s, const struct plan_edge *edge) {
    const struct graph *g = s->p->graph;
    json_t *o = json_object();
    json_object_set_new(o, "from", json_string(graph_value(g, plan_edge_source(g, edge))->name));
    json_object_set_new(o, "to", json_string(graph_value(g, graph_node(g, edge->to)->out)->name));
    json_object_set_new(o, "input", json_string(edge_input(&s->arena, g, edge)));
    json_object_set_new(o, "verdict", json_string(verdict_name(edge->verdict)));
    json_object_set_new(o, "rule", json_string(edge->rule));
    json_object_set_new(o, "why", json_string(edge->why));
    return o;
}

static json_t *fallbacks_json(const struct session *s) {
    json_t *a = json_array();
    for (size_t i = 0; i < s->p->fallbacks.n; i++) {
        json_t *o = json_object();
        json_object_set_new(o, "what", json_string(s->p->fallbacks.at[i].what));
        json_object_set_new(o, "why", json_string(s->p->fallbacks.at[i].why));
        json_array_append_new(a, o);
    }
    return a;
}

static json_t *dims_json(const struct session *s) {
    json_t *o = json_object();
    const struct graph *g = s->p->graph;
    for (int i = 0; i < s->p->dims.n; i++) {
        if (s->p->dims.value[i] < 0) continue;
        json_object_set_new(o, sx_name(g->sx, sx_symbol_at(g->sx, i)),
                            json_integer(s->p->dims.value[i]));
    }
    return o;
}

enum proem_status explain_json(struct session *s, struct err *e) {
    const struct plan *p = &s->p->plan;
    json_t *root = json_object(), *kernels = json_array(), *edges = json_array();
    json_t *bytes = json_object();
    for (size_t i = 0; i < p->kernels.n; i++)
        json_array_append_new(kernels, kernel_json(p, p->kernels.at[i]));
    for (size_t i = 0; i < p->edges.n; i++)
        json_array_append_new(edges, edge_json(s, &p->edges.at[i]));
    json_object_set_new(bytes, "unfused", bytes_or_null(p->bytes_unfused));
    json_object_set_new(bytes, "fused", bytes_or_null(p->bytes_fused));
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "graph", json_string(s->p->graph->name));
    json_object_set_new(root, "device", json_string(device_name(s->o->device)));
    json_object_set_new(root, "dims", dims_json(s));
    json_object_set_new(root, "kernels", kernels);
    json_object_set_new(root, "edges", edges);
    json_object_set_new(root, "bytes", bytes);
    if (s->p->fallbacks.n > 0) json_object_set_new(root, "fallbacks", fallbacks_json(s));
    return print_json(root, e);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_bytes(int64_t b) {
    if (b < 0)
        printf("? bytes");
    else if (b >= 100000)
        printf("%.1f MB", (double)b * 1e-6);
    else if (b >= 1000)
        printf("%.1f kB", (double)b * 1e-3);
    else
        printf("%lld bytes", (long long)b);
}

static void print_names(const char *what, const char *of, const struct graph *g, const value_id *at,
                        size_t n) {
    if (n == 0) return;
    printf("  %s%s%s:", what, of[0] != '\0' ? " " : "", of);
    for (size_t i = 0; i < n; i++)
        printf("%s %s", i > 0 ? "," : "", graph_value(g, at[i])->name);
    printf("\n");
}

static void print_tile(const struct tile *t) {
    if (t->cuda.threads > 0)
        printf("  %s: tiles of %d by %d, %d threads a block\n", form_name(t->cuda.form),
               t->cuda.rows, t->cuda.cols, t->cuda.threads);
    if (t->packed)
        printf(
            "  packed: tiles of %d rows by %d vectors, blocks of %d rows, %d columns, %d along k\n",
            t->mr, t->nv, t->mc, t->nc, t->kc);
    if (t->rows)
        printf("  few rows: %d at a time, where there are at most %d\n", t->rows_mr, t->rows_max);
    if (t->swap) printf("  operands exchanged\n");
    if (t->order != NULL) printf("  order of k: %s\n", t->order);
}

static void print_tuned(const struct kernel *k) {
    struct str text;
    str_init(&text, &allocator_default);
    tuned_print(k, &text);
    printf("  %s\n", str_text(&text));
    str_free(&text);
}

static void print_kernel(const struct plan *p, const struct kernel *k) {
    struct role roles[2];
    int n = roles_of(p, k, roles);
    printf("\nkernel %d, %s: %s\n", k->id, kernel_kind_name(k->kind),
           k->name != NULL ? k->name : "");
    for (int i = 0; i < n; i++)
        print_names("computed in the loads of", roles[i].name, p->source, roles[i].at, roles[i].n);
    print_names(k->anchor != 0 ? "computed on the result" : "computes", "", p->source,
                k->epilogue.at, k->epilogue.n);
    printf("  reads ");
    print_bytes(k->bytes_read);
    printf(":");
    for (size_t i = 0; i < k->reads.n; i++)
        printf("%s %s", i > 0 ? "," : "", graph_value(p->low.graph, k->reads.at[i])->name);
    printf("\n  writes ");
    print_bytes(k->bytes_written);
    printf(":");
    for (size_t i = 0; i < k->stores.n; i++)
        printf("%s %s", i > 0 ? "," : "", graph_value(p->low.graph, k->stores.at[i].value)->name);
    printf("\n");
    if (k->kind == KERNEL_MATMUL) print_tile(&k->tile);
    if (k->tuned.done || k->tuned.note != NULL) print_tuned(k);
}

static void print_fallbacks(const struct session *s) {
    for (size_t i = 0; i < s->p->fallbacks.n; i++)
        printf("fallback: %s: %s\n", s->p->fallbacks.at[i].what, s->p->fallbacks.at[i].why);
}

static void print_edges(struct session *s) {
    const struct graph *g = s->p->graph;
    const struct plan *p = &s->p->plan;
    if (p->edges.n > 0) printf("\nedges\n");
    for (size_t i = 0; i < p->edges.n; i++) {
        const struct plan_edge *e = &p->edges.at[i];
        printf("  %s -> %s (%s): %s, %s: %s\n", graph_value(g, plan_edge_source(g, e))->name,
               graph_value(g, graph_node(g, e->to)->out)->name, edge_input(&s->arena, g, e),
               verdict_name(e->verdict), e->rule, e->why);
    }
}

enum proem_status explain_text(struct session *s, struct err *e) {
    (void)e;
    const struct plan *p = &s->p->plan;
    const struct graph *g = s->p->graph;
    printf("%s on %s (%s), precision %s", g->name, device_name(s->o->device), s->p->opt.target.name,
           precision_name(s->p->opt.prec));
    for (int i = 0; i < s->p->dims.n; i++) {
        const char *name = sx_name(g->sx, sx_symbol_at(g->sx, i));
        if (s->p->dims.value[i] < 0)
            printf(", %s not bound", name);
        else
            printf(", %s = %lld", name, (long long)s->p->dims.value[i]);
    }
    printf("\n%zu kernel%s; moves ", p->kernels.n, p->kernels.n == 1 ? "" : "s");
    print_bytes(p->bytes_fused);
    printf(", a kernel an operator ");
    print_bytes(p->bytes_unfused);
    printf("\n");
    print_fallbacks(s);
    for (size_t i = 0; i < p->kernels.n; i++)
        print_kernel(p, p->kernels.at[i]);
    print_edges(s);
    return PROEM_OK;
}

enum proem_status cmd_explain(struct session *s, struct err *e) {
    TRY(inputs_bind(s, e));
    TRY(program_run(s->p, PASS_LOWER, session_last(s, PASS_TUNE), e));
    return s->o->json ? explain_json(s, e) : explain_text(s, e);
}
