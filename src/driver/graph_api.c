/* SPDX-License-Identifier: MIT
 * Graphs through the public interface: the builder over graph/graph.h, and parsing.
 *
 * The builder is sticky: the first error is kept in the graph, every later call gives the null
 * value, and proem_graph_finish() reports it. A graph that was parsed keeps its text, so that
 * compiling reads it again with the same places for messages; one that was built is printed for
 * that.
 */
#include "driver/driver.h"

#include <string.h>

static enum proem_status graph_box_new(proem_context *c, proem_graph **out, struct err *e) {
    proem_graph *g = mem_alloc(&c->alloc, 1, sizeof *g);
    if (g == NULL) return err_nomem(e);
    *g = (proem_graph){.c = c};
    arena_init(&g->arena, &c->alloc);
    str_init(&g->text, &c->alloc);
    *out = g;
    return PROEM_OK;
}

void proem_graph_destroy(proem_graph *g) {
    if (g == NULL) return;
    struct allocator alloc = g->c->alloc;
    str_free(&g->text);
    arena_free(&g->arena);
    mem_free(&alloc, g, 1, sizeof *g);
}

static enum proem_status create(proem_context *c, const char *name, proem_graph **out,
                                struct err *e) {
    if (name == NULL || name[0] == '\0') return err_set(e, PROEM_INVALID, "a graph needs a name");
    if (!name_is_writable(name))
        return err_set(e, PROEM_INVALID,
                       "a graph's name must be UTF-8 text without control characters");
    proem_graph *g = NULL;
    TRY(graph_box_new(c, &g, e));
    struct sx_pool *pool = sx_pool_new(&g->arena);
    const char *copy = arena_strdup(&g->arena, name);
    if (pool != NULL && copy != NULL) g->g = graph_new(&g->arena, pool, copy);
    if (g->g == NULL) {
        proem_graph_destroy(g);
        return err_nomem(e);
    }
    *out = g;
    return PROEM_OK;
}

enum proem_status proem_graph_create(proem_context *c, const char *name, proem_graph **out) {
    if (c == NULL || out == NULL) return PROEM_INVALID;
    *out = NULL;
    struct err e = {0};
    create(c, name, out, &e);
    return context_report(c, &e);
}

/* The graph of that name, the first if NULL. */
static enum proem_status choose(const struct graph_file *file, const char *name, struct graph **out,
                                struct err *e) {
    if (file->graphs.n == 0) return err_set(e, PROEM_INVALID, "the text has no graph");
    for (size_t i = 0; i < file->graphs.n; i++) {
        if (name != NULL && strcmp(file->graphs.at[i]->name, name) != 0) continue;
        *out = file->graphs.at[i];
        return PROEM_OK;
    }
    return err_set(e, PROEM_INVALID, "there is no graph '%s'; the first is '%s'", name,
                   file->graphs.at[0]->name);
}

static enum proem_status parse(proem_graph *g, const char *text, size_t n, const char *file_name,
                               const char *graph_name, struct err *e) {
    struct graph_file file = {0};
    char *copy = arena_strndup(&g->arena, text, n);
    g->file_name = file_name != NULL ? arena_strdup(&g->arena, file_name) : NULL;
    g->source_name = graph_name != NULL ? arena_strdup(&g->arena, graph_name) : NULL;
    if (!arena_ok(&g->arena)) return err_nomem(e);
    g->source = copy;
    g->n_source = n;
    TRY(graph_parse(&g->arena, g->file_name, copy, n, false, &file, e));
    TRY(choose(&file, graph_name, &g->g, e));
    TRY(graph_verify(g->g, e));
    g->finished = true;
    return PROEM_OK;
}

enum proem_status proem_graph_parse(proem_context *c, const char *text, size_t n,
                                    const char *file_name, const char *graph_name,
                                    proem_graph **out) {
    if (c == NULL || out == NULL || (text == NULL && n > 0)) return PROEM_INVALID;
    *out = NULL;
    struct err e = {0};
    proem_graph *g = NULL;
    if (graph_box_new(c, &g, &e) != PROEM_OK) return context_report(c, &e);
    enum proem_status s = parse(g, n > 0 ? text : "", n, file_name, graph_name, &e);
    if (context_outcome(&g->arena, s, &e) == PROEM_OK)
        *out = g;
    else
        proem_graph_destroy(g);
    return context_report(c, &e);
}

/* ---- the builder ----------------------------------------------------------------------------- */

/* May the builder go on? A finished graph takes no more. */
static bool open_for(proem_graph *g) {
    if (g == NULL) return false;
    if (g->finished && g->err.status == PROEM_OK)
        err_set(&g->err, PROEM_INVALID, "graph '%s' is finished; nothing can be added", g->g->name);
    return g->err.status == PROEM_OK;
}

static bool is_value(proem_graph *g, proem_value v, const char *what) {
    if (v > 0 && v < g->g->values.n) return true;
    err_set(&g->err, PROEM_INVALID, "%s: %u is no value of graph '%s'", what, (unsigned)v,
            g->g->name);
    return false;
}

static struct place here(proem_graph *g) {
    return (struct place){.err = &g->err};
}

static proem_value add_param(proem_graph *g, const char *name, const char *type, bool is_const) {
    if (!open_for(g)) return 0;
    if (name == NULL || type == NULL) {
        err_set(&g->err, PROEM_INVALID, "a parameter needs a name and a type");
        return 0;
    }
    struct place at = here(g);
    enum dtype d = DT_NONE;
    int rank = 0;
    sx dims[MAX_RANK];
    if (graph_type_text(g->g, type, &d, &rank, dims, &g->err) != PROEM_OK) return 0;
    const char *copy = arena_strdup(&g->arena, name);
    if (copy == NULL) {
        err_nomem(&g->err);
        return 0;
    }
    return graph_param(g->g, &at, copy, d, rank, dims, is_const, NULL);
}

proem_value proem_graph_param(proem_graph *g, const char *name, const char *type) {
    return add_param(g, name, type, false);
}

proem_value proem_graph_const_param(proem_graph *g, const char *name, const char *type) {
    return add_param(g, name, type, true);
}

proem_value proem_graph_float(proem_graph *g, double v) {
    if (!open_for(g)) return 0;
    struct place at = here(g);
    return graph_literal(g->g, &at, DT_F64, (union scalar){.f = v});
}

proem_value proem_graph_int(proem_graph *g, int64_t v) {
    if (!open_for(g)) return 0;
    struct place at = here(g);
    return graph_literal(g->g, &at, DT_I64, (union scalar){.i = v});
}

proem_value proem_graph_call(proem_graph *g, const char *op, size_t n, const proem_value *in,
                             const char *args) {
    if (!open_for(g)) return 0;
    if (op == NULL || (n > 0 && in == NULL) || n > INT32_MAX) {
        err_set(&g->err, PROEM_INVALID, "a call needs an operator and its operands");
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (in[i] != 0 && !is_value(g, in[i], op)) return 0;
    }
    struct place at = here(g);
    return graph_call_text(g->g, &at, op, (int)n, in, args != NULL ? args : "");
}

proem_value proem_graph_result(proem_graph *g, proem_value v, int i) {
    if (!open_for(g) || !is_value(g, v, "proem_graph_result")) return 0;
    const struct node *n = graph_def(g->g, v);
    if (i >= 0 && i < n->n_out) return n->out + (value_id)i;
    err_set(&g->err, PROEM_INVALID, "%s has %d results; there is no result %d",
            op_info(n->op)->name, n->n_out, i);
    return 0;
}

proem_value proem_graph_name(proem_graph *g, proem_value v, const char *name) {
    if (!open_for(g) || !is_value(g, v, "proem_graph_name")) return 0;
    struct place at = here(g);
    const char *copy = name != NULL ? arena_strdup(&g->arena, name) : NULL;
    if (name == NULL) err_set(&g->err, PROEM_INVALID, "a value needs a name");
    if (name != NULL && copy == NULL) err_nomem(&g->err);
    if (copy == NULL) return 0;
    return graph_name_value(g->g, &at, v, copy) == PROEM_OK ? v : 0;
}

enum proem_status proem_graph_output(proem_graph *g, proem_value v, proem_value in_param) {
    if (g == NULL) return PROEM_INVALID;
    if (!open_for(g) || !is_value(g, v, "proem_graph_output")) return g->err.status;
    if (in_param != 0 && !is_value(g, in_param, "proem_graph_output")) return g->err.status;
    struct place at = here(g);
    return graph_output(g->g, &at, v, in_param);
}

enum proem_status proem_graph_finish(proem_graph *g) {
    if (g == NULL) return PROEM_INVALID;
    if (!g->finished && g->err.status == PROEM_OK) {
        if (graph_finish(g->g, &g->err) == PROEM_OK) graph_verify(g->g, &g->err);
    }
    if (!g->finished) context_outcome(&g->arena, g->err.status, &g->err);
    g->finished = g->finished || g->err.status == PROEM_OK;
    return context_report(g->c, &g->err);
}

enum proem_status proem_graph_text(proem_graph *g, const char **out) {
    if (g == NULL || out == NULL) return PROEM_INVALID;
    TRY(proem_graph_finish(g));
    str_free(&g->text);
    str_init(&g->text, &g->c->alloc);
    graph_print(g->g, false, &g->text);
    struct err e = {0};
    if (g->text.failed) {
        err_nomem(&e);
        return context_report(g->c, &e);
    }
    *out = str_text(&g->text);
    return PROEM_OK;
}
