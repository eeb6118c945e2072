/* SPDX-License-Identifier: MIT
 * The canonical print of a graph, and the flat one of dumps.
 *
 * Canonical: a value that the text did not name and that is used once is written in place of its
 * use; every other value is a statement. So the print keeps the structure that was read, and
 * reading it gives the same print. Flat: each value is a statement of its own under its full name,
 * internal operators and attributes are shown, and each line ends with a comment that says the
 * types.
 */
#include "graph/print.h"

#include <string.h>

#define MAX_LINE 100

/* ---- what is written in place ---------------------------------------------------------------- */

static void count_uses(const struct graph *g, struct shown *values) {
    for (size_t i = 1; i < g->nodes.n; i++) {
        const struct node *n = &g->nodes.at[i];
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] != 0) values[n->in[k]].uses++;
        for (int h = 0; n->hooks != NULL && h < HOOK_COUNT; h++)
            for (int k = 0; n->hooks[h].body != NULL && k < n->hooks[h].n_captured; k++)
                values[n->hooks[h].captured[k]].uses += 2; /* hooks read by name */
    }
    for (size_t i = 0; i < g->outputs.n; i++)
        values[g->outputs.at[i].value].uses++;
}

static void place_value(const struct printer *p, value_id v) {
    const struct graph *g = p->g;
    const struct value *x = graph_value(g, v);
    const struct node *n = graph_def(g, v);
    struct shown *s = &p->values[v];
    s->name = x->name;
    if (n->op == OP_CONST) {
        s->in_place = !x->named;
        return;
    }
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] == 0) continue;
        const struct shown *in = &p->values[n->in[i]];
        if (in->in_place && in->depth > s->depth) s->depth = in->depth;
    }
    s->depth++;
    s->in_place = !p->flat && !x->named && s->uses == 1 && n->n_out == 1 && n->op != OP_PARAM &&
                  n->hooks == NULL && s->depth < MAX_PRINT_DEPTH;
}

/* Decide for all values. False: no memory. */
static bool place_values(struct printer *p) {
    const struct graph *g = p->g;
    p->values = mem_alloc(p->out->alloc, g->values.n, sizeof *p->values);
    if (p->values == NULL) return false;
    memset(p->values, 0, g->values.n * sizeof *p->values);
    count_uses(g, p->values);
    for (size_t v = 1; v < g->values.n; v++)
        place_value(p, (value_id)v);
    for (size_t i = 0; i < g->outputs.n && !p->flat; i++) {
        const struct output *o = &g->outputs.at[i];
        struct shown *s = &p->values[o->value];
        /* a shared value that is an output must keep the output's name */
        if (!s->in_place && !graph_value(g, o->value)->named && o->name != NULL) s->name = o->name;
    }
    return true;
}

static void indent(const struct printer *p) {
    for (int i = 0; i < p->indent; i++)
        str_add(p->out, "  ");
}

/* ---- comments -------------------------------------------------------------------------------- */

static bool own_lines(enum comment_place place) {
    return place != COMMENT_BEHIND && place != COMMENT_OPEN && place != COMMENT_RETURN_BEHIND;
}

static void comment_print(const struct printer *p, const struct comment *c, enum comment_place as) {
    if (own_lines(as)) {
        indent(p);
        str_printf(p->out, "#%s\n", c->text);
    } else {
        str_printf(p->out, "  #%s", c->text);
    }
}

/* Comments come in the order of the text, those of hooks aside, which are written by hook. */
static void comments_print(struct printer *p, enum comment_place place, node_id anchor) {
    const struct graph *g = p->g;
    if (p->flat) return;
    for (; p->comment < g->comments.n; p->comment++) {
        const struct comment *c = &g->comments.at[p->comment];
        if (c->hook != 0) continue;
        if (c->place != place || c->anchor != anchor) return;
        comment_print(p, c, place);
    }
}

static void hook_comments(const struct printer *p, enum comment_place place, node_id anchor,
                          int hook) {
    for (size_t i = 0; i < p->g->comments.n && !p->flat; i++) {
        const struct comment *c = &p->g->comments.at[i];
        if (c->hook == hook && c->place == place && c->anchor == anchor) comment_print(p, c, place);
    }
}

/* ---- statements ------------------------------------------------------------------------------ */

static bool is_statement(const struct printer *p, const struct node *n) {
    if (n->op == OP_PARAM || (n->weak && (p->flat || n->literal != 0))) return false;
    for (int i = 0; i < n->n_out; i++)
        if (!p->values[n->out + (value_id)i].in_place) return true;
    return false;
}

static void statement_print(struct printer *p, const struct node *n, node_id id) {
    comments_print(p, COMMENT_BEFORE, id);
    indent(p);
    for (int i = 0; i < n->n_out; i++) {
        if (i > 0) str_add(p->out, ", ");
        name_print(p->values[n->out + (value_id)i].name, p->out);
    }
    str_add(p->out, " = ");
    node_print(p, n);
    if (n->hooks != NULL) hooks_print(p, n);
    for (int i = 0; p->flat && i < n->n_out; i++) {
        str_add(p->out, i > 0 ? ", " : "  # ");
        value_type_print(p->g, n->out + (value_id)i, p->out);
    }
    comments_print(p, COMMENT_BEHIND, id);
    str_add(p->out, "\n");
}

static bool shown_as(const struct printer *p, const struct output *o) {
    const struct shown *s = &p->values[o->value];
    const struct node *n = graph_def(p->g, o->value);
    if (!s->in_place) return strcmp(s->name, o->name) == 0;
    if (n->op != OP_CONST || n->literal == 0 || p->flat) return false;
    const struct value *literal = graph_value(p->g, n->literal);
    return literal->named && strcmp(literal->name, o->name) == 0;
}

static bool is_numbered(const char *name, size_t i) {
    size_t v = 0;
    if (strncmp(name, "out", 3) != 0 || name[3] == '\0' || (name[3] == '0' && name[4] != '\0'))
        return false;
    for (const char *s = name + 3; *s != '\0'; s++) {
        if (*s < '0' || *s > '9' || v > 1000000) return false;
        v = 10 * v + (size_t)(*s - '0');
    }
    return v == i;
}

/* An output under another name than its value's needs a statement for that name. */
static bool needs_alias(const struct printer *p, size_t i) {
    const struct output *o = &p->g->outputs.at[i];
    if (p->flat || shown_as(p, o)) return false;
    const struct node *n = graph_def(p->g, o->value);
    bool plain = !p->values[o->value].in_place ||
                 (n->op == OP_CONST && n->literal != 0 && graph_value(p->g, n->literal)->named);
    return plain || !is_numbered(o->name, i);
}

static void output_print(const struct printer *p, size_t i) {
    const struct output *o = &p->g->outputs.at[i];
    if (needs_alias(p, i))
        name_print(o->name, p->out);
    else
        operand_print(p, o->value, 0);
    if (p->flat && !shown_as(p, o)) {
        str_add(p->out, " as ");
        name_print(o->name, p->out);
    }
    if (o->in_param != 0) {
        str_add(p->out, " in ");
        name_print(p->values[o->in_param].name, p->out);
    }
}

static void return_print(struct printer *p) {
    comments_print(p, COMMENT_RETURN, 0);
    for (size_t i = 0; i < p->g->outputs.n; i++) {
        if (!needs_alias(p, i)) continue;
        indent(p);
        name_print(p->g->outputs.at[i].name, p->out);
        str_add(p->out, " = ");
        operand_print(p, p->g->outputs.at[i].value, 0);
        str_add(p->out, "\n");
    }
    indent(p);
    str_add(p->out, "return ");
    for (size_t i = 0; i < p->g->outputs.n; i++) {
        if (i > 0) str_add(p->out, ", ");
        output_print(p, i);
    }
    comments_print(p, COMMENT_RETURN_BEHIND, 0);
    str_add(p->out, "\n");
}

static void statements_print(struct printer *p) {
    for (size_t i = 1; i < p->g->nodes.n; i++)
        if (is_statement(p, &p->g->nodes.at[i])) statement_print(p, &p->g->nodes.at[i], (node_id)i);
}

/* ---- hooks ----------------------------------------------------------------------------------- */

/* The value that a hook's text gives: before an implied conversion. */
static value_id hook_value(const struct printer *p) {
    value_id v = p->g->outputs.at[0].value;
    const struct node *n = graph_def(p->g, v);
    return n->op == OP_CAST && n->attrs.implied && !p->flat ? n->in[0] : v;
}

static void hook_print(const struct printer *outer, const struct hook *h, enum hook_kind kind) {
    struct printer p = {.g = h->body,
                        .out = outer->out,
                        .flat = outer->flat,
                        .in_hook = true,
                        .indent = outer->indent + 1};
    const struct graph *g = h->body;
    if (!place_values(&p)) {
        outer->out->failed = true;
        return;
    }
    for (int i = 0; i < h->n_captured; i++)
        p.values[g->params.at[h->n_args + i].value].name = outer->values[h->captured[i]].name;
    str_printf(p.out, "%s(", hook_names[kind]);
    for (int i = 0; i < h->n_args; i++) {
        if (i > 0) str_add(p.out, ", ");
        name_print(graph_value(g, g->params.at[i].value)->name, p.out);
    }
    bool block = p.flat;
    value_id result = hook_value(&p);
    if (result != g->outputs.at[0].value) { /* the conversion is not written */
        p.values[g->outputs.at[0].value].in_place = true;
        const struct node *n = graph_def(g, result);
        p.values[result].in_place =
            p.values[result].in_place ||
            (!graph_value(g, result)->named && n->op != OP_PARAM && p.values[result].uses == 1);
    }
    for (size_t i = 1; i < g->nodes.n && !block; i++)
        block = is_statement(&p, &g->nodes.at[i]);
    if (block) {
        str_add(p.out, ") {\n");
        statements_print(&p);
        indent(&p);
        str_add(p.out, "return ");
        operand_print(&p, result, 0);
        str_add(p.out, "\n");
        p.indent--;
        indent(&p);
        str_add(p.out, "}");
    } else {
        str_add(p.out, ") = ");
        operand_print(&p, result, 0);
    }
    mem_free(p.out->alloc, p.values, g->values.n, sizeof *p.values);
}

void hooks_print(const struct printer *p, const struct node *n) {
    struct printer inner = *p;
    node_id id = graph_value(p->g, n->out)->node;
    inner.indent++;
    str_add(p->out, " {\n");
    for (int k = 0; k < HOOK_COUNT; k++) {
        if (n->hooks[k].body == NULL) continue;
        hook_comments(&inner, COMMENT_BEFORE, id, k + 1);
        indent(&inner);
        hook_print(&inner, &n->hooks[k], (enum hook_kind)k);
        hook_comments(&inner, COMMENT_BEHIND, id, k + 1);
        str_add(p->out, "\n");
    }
    hook_comments(&inner, COMMENT_BEFORE, id, HOOK_COUNT + 1);
    indent(p);
    str_add(p->out, "}");
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void param_print(const struct graph *g, const struct param *x, struct str *out) {
    if (x->is_const) str_add(out, "const ");
    name_print(graph_value(g, x->value)->name, out);
    str_add(out, ": ");
    value_type_print(g, x->value, out);
    if (x->source == NULL) return;
    str_add(out, " = \"");
    for (const char *s = x->source; *s != '\0'; s++) {
        if (*s == '"') str_add(out, "\"");
        str_addn(out, s, 1);
    }
    str_add(out, "\"");
}

static bool params_have_comments(const struct graph *g) {
    for (size_t i = 0; i < g->comments.n; i++) {
        const struct comment *c = &g->comments.at[i];
        if ((c->place == COMMENT_BEFORE || c->place == COMMENT_BEHIND) &&
            graph_node(g, c->anchor)->op == OP_PARAM)
            return true;
    }
    return false;
}

static void params_print(struct printer *p) {
    const struct graph *g = p->g;
    struct str line;
    str_init(&line, p->out->alloc);
    for (size_t i = 0; i < g->params.n; i++) {
        if (i > 0) str_add(&line, ", ");
        param_print(g, &g->params.at[i], &line);
    }
    bool one = strlen(g->name) + line.n + 11 <= MAX_LINE && (p->flat || !params_have_comments(g));
    if (one || g->params.n == 0) str_add(p->out, str_text(&line));
    p->out->failed = p->out->failed || line.failed;
    str_free(&line);
    if (one || g->params.n == 0) return;
    str_add(p->out, "\n");
    for (size_t i = 0; i < g->params.n; i++) {
        node_id id = graph_value(g, g->params.at[i].value)->node;
        comments_print(p, COMMENT_BEFORE, id);
        indent(p);
        param_print(g, &g->params.at[i], p->out);
        if (i + 1 < g->params.n) str_add(p->out, ",");
        comments_print(p, COMMENT_BEHIND, id);
        str_add(p->out, "\n");
    }
}

/* Comments that found no place, as after a pass that removed their statement. */
static void rest_print(struct printer *p) {
    for (; p->comment < p->g->comments.n && !p->flat; p->comment++) {
        const struct comment *c = &p->g->comments.at[p->comment];
        if (c->hook == 0) comment_print(p, c, COMMENT_TAIL);
    }
}

void graph_print(const struct graph *g, bool flat, struct str *out) {
    struct printer p = {.g = g, .out = out, .flat = flat};
    if (!place_values(&p)) {
        out->failed = true;
        return;
    }
    comments_print(&p, COMMENT_HEAD, 0);
    str_add(out, "graph ");
    name_print(g->name, out);
    str_add(out, "(");
    p.indent = 1;
    params_print(&p);
    str_add(out, ") {");
    comments_print(&p, COMMENT_OPEN, 0);
    str_add(out, "\n");
    statements_print(&p);
    return_print(&p);
    comments_print(&p, COMMENT_CLOSE, 0);
    p.indent = 0;
    str_add(out, "}");
    if (p.comment < g->comments.n && !flat && !g->comments.at[p.comment].own_line &&
        g->comments.at[p.comment].place == COMMENT_TAIL)
        comment_print(&p, &g->comments.at[p.comment++], COMMENT_BEHIND);
    str_add(out, "\n");
    rest_print(&p);
    mem_free(out->alloc, p.values, g->values.n, sizeof *p.values);
}
