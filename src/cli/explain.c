/* SPDX-License-Identifier: MIT
 * `proem explain`: the plan, for people and as JSON.
 */
#include "cli/cli.h"

#include <string.h>

#include "rt/cuda/cuda.h"

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

/* How a kernel is launched on a GPU; NULL on a CPU. */
static const struct gen_cuda *launches_of(const struct session *s, const struct kernel *k) {
    const struct proem_program *p = s->p;
    for (int u = 0; p->opt.target.kind == DEVICE_CUDA && u < p->n_units; u++) {
        for (int i = 0; i < p->units[u].n_kernels; i++) {
            if (p->units[u].kernels[i].kernel == k) return &p->units[u].cuda[i];
        }
    }
    return NULL;
}

/* Blocks of a launch that fit on an SM at once, by threads and dynamic shared memory. */
static int blocks_per_sm(const struct session *s, const struct gen_launch *l) {
    const struct device_gpu *g = &s->p->opt.target.gpu;
    int n = g->threads_sm / l->threads;
    if (l->shared > 0 && g->shared_sm / l->shared < n) n = (int)(g->shared_sm / l->shared);
    return n < g->blocks_sm ? n : g->blocks_sm;
}

static bool blocks_of(const struct session *s, const struct gen_launch *l, int64_t *out) {
    return dims_value(s->p->low.graph, &s->p->dims, l->blocks, out);
}

static json_t *gpu_config_of(const struct session *s, const struct kernel *k,
                             const struct gen_cuda *c) {
    json_t *o = json_object(), *launches = json_array();
    if (k->kind == KERNEL_MATMUL)
        json_object_set_new(o, "order", json_string(k->tile.order != NULL ? k->tile.order : ""));
    for (int i = 0; i < c->n_launches; i++) {
        const struct gen_launch *l = &c->launches[i];
        int64_t blocks = -1;
        json_t *j = json_object();
        json_object_set_new(j, "entry", json_string(l->entry));
        json_object_set_new(j, "blocks",
                            blocks_of(s, l, &blocks) ? json_integer(blocks) : json_null());
        json_object_set_new(j, "threads", json_integer(l->threads));
        json_object_set_new(j, "shared", json_integer(l->shared));
        json_object_set_new(j, "cluster", json_integer(l->cluster));
        json_object_set_new(j, "per_sm", json_integer(blocks_per_sm(s, l)));
        json_object_set_new(j, "persistent", json_boolean(l->per_sm > 0));
        json_array_append_new(launches, j);
    }
    json_object_set_new(o, "launches", launches);
    return o;
}

/* How a product is cut. */
static json_t *config_of(const struct kernel *k) {
    const struct tile *t = &k->tile;
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

static json_t *kernel_json(const struct session *s, const struct kernel *k) {
    const struct plan *p = &s->p->plan;
    const struct gen_cuda *gpu = launches_of(s, k);
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
    json_object_set_new(o, "config", gpu != NULL ? gpu_config_of(s, k, gpu) : config_of(k));
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
        json_array_append_new(kernels, kernel_json(s, p->kernels.at[i]));
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
    if (s->not_compiled.status != PROEM_OK)
        json_object_set_new(root, "not_compiled", json_string(s->not_compiled.text));
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
    if (t->packed)
        printf(
            "  packed: tiles of %d rows by %d vectors, blocks of %d rows, %d columns, %d along k\n",
            t->mr, t->nv, t->mc, t->nc, t->kc);
    if (t->packed && t->dots == 2) printf("  dots of two 16-bit integers\n");
    if (t->packed && t->dots == 4) printf("  dots of four 8-bit integers\n");
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

/* What the compiler said of a kernel's unit. */
static void print_report(const struct session *s, const struct kernel *k) {
    const struct proem_program *p = s->p;
    for (int u = 0; p->cubins != NULL && u < p->n_units; u++) {
        const struct rt_cubin_report *r = rt_cubin_report(p->cubins[u]);
        for (int i = 0; i < p->units[u].n_kernels; i++) {
            if (p->units[u].kernels[i].kernel != k) continue;
            printf("  compiled: %d registers", r->registers);
            if (r->spilled > 0) printf(", SPILLS %lld bytes", (long long)r->spilled);
            if (r->serialized > 0) printf(", SERIALIZED products");
            printf("\n");
        }
    }
}

static void print_launches(const struct session *s, const struct kernel *k,
                           const struct gen_cuda *c) {
    for (int i = 0; i < c->n_launches; i++) {
        const struct gen_launch *l = &c->launches[i];
        int64_t blocks;
        printf("  launch %s: ", l->entry);
        if (blocks_of(s, l, &blocks))
            printf("%lld block%s of ", (long long)blocks, blocks == 1 ? "" : "s");
        printf("%d threads", l->threads);
        if (l->cluster > 1) printf(", clusters of %d", l->cluster);
        if (l->shared > 0) printf(", %d bytes of shared memory", l->shared);
        printf("; %d fit on an SM", blocks_per_sm(s, l));
        printf("%s\n", l->per_sm > 0 ? ", and stay" : "");
    }
    if (c->tile != NULL) printf("  tile: %s\n", c->tile);
    print_report(s, k);
    if (k->kind == KERNEL_MATMUL && k->tile.order != NULL)
        printf("  order of k: %s\n", k->tile.order);
}

static void print_kernel(const struct session *s, const struct kernel *k) {
    const struct plan *p = &s->p->plan;
    const struct gen_cuda *gpu = launches_of(s, k);
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
    if (gpu != NULL)
        print_launches(s, k, gpu);
    else if (k->kind == KERNEL_MATMUL)
        print_tile(&k->tile);
    if (k->tuned.done || k->tuned.note != NULL) print_tuned(k);
}

static void print_fallbacks(const struct session *s) {
    if (s->not_compiled.status != PROEM_OK) printf("not compiled: %s\n", s->not_compiled.text);
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
        print_kernel(s, p->kernels.at[i]);
    print_edges(s);
    return PROEM_OK;
}

/* How a kernel is launched on a GPU follows from its operands, and from what the compiler makes of
 * it: one that spills is cut another way. Without a compiler the plan stands as the model has it. */
static enum proem_status explain_gpu(struct session *s, struct err *e) {
    TRY(program_run(s->p, PASS_LOWER, PASS_GEN, e));
    enum proem_status status = program_run(s->p, PASS_COMPILE, PASS_COMPILE, &s->not_compiled);
    if (status == PROEM_OK || status == PROEM_DEVICE) return PROEM_OK;
    return err_set(e, status, "%s", s->not_compiled.text);
}

enum proem_status cmd_explain(struct session *s, struct err *e) {
    TRY(inputs_bind(s, e));
    enum pass_id last = session_last(s, PASS_TUNE);
    if (s->p->opt.target.kind == DEVICE_CUDA && last < PASS_COMPILE)
        TRY(explain_gpu(s, e));
    else
        TRY(program_run(s->p, PASS_LOWER, last, e));
    if (s->o->onnx != NULL) TRY(session_export(s, e));
    return s->o->json ? explain_json(s, e) : explain_text(s, e);
}
