/* SPDX-License-Identifier: MIT
 * The verifier: every invariant of the structure, checked between passes.
 *
 * Numbers are in range and operands come before their results; parameters, outputs and names agree
 * with the values; and every node's types are inferred once more from its operands and attributes,
 * which must give the same types and change no attribute.
 */
#include "graph/internal.h"

#include <string.h>

static enum proem_status bad(struct err *e, const struct graph *g, const struct node *n,
                             const char *what) {
    return err_set_at(e, PROEM_INTERNAL, n->line, n->col, "graph %s: %s (node %zu): %s", g->name,
                      op_text_name(n->op), (size_t)(n - g->nodes.at), what);
}

static enum proem_status verify_links(const struct graph *g, const struct node *n, struct err *e) {
    node_id id = (node_id)(n - g->nodes.at);
    if (n->op <= OP_NONE || n->op >= OP_COUNT || n->op == OP_EW_END)
        return err_set(e, PROEM_INTERNAL, "graph %s: node %u has no operator", g->name, id);
    if (n->n_out < 1 || n->out == 0 || n->out >= g->values.n ||
        (size_t)n->n_out > g->values.n - n->out)
        return bad(e, g, n, "its results do not exist");
    for (int i = 0; i < n->n_out; i++) {
        const struct value *v = graph_value(g, n->out + (value_id)i);
        if (v->node != id || v->out != i) return bad(e, g, n, "its results belong to another node");
        bool block = n->op == OP_PARAM && dtype_is_block(v->dtype);
        if (!block && (v->dtype <= DT_NONE || v->dtype >= DT_COUNT))
            return bad(e, g, n, "no dtype");
        if (v->rank < 0 || v->rank > MAX_RANK) return bad(e, g, n, "its rank is out of range");
        if (v->name == NULL) return bad(e, g, n, "its name is missing");
        for (int k = 0; k < v->rank; k++)
            if (v->dims[k] == 0) return bad(e, g, n, "a dim is missing");
    }
    int least = n->op == OP_PARAM || n->op == OP_CONST ? 0 : signature_min_inputs(n->op);
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] >= n->out) return bad(e, g, n, "an operand does not come before it");
        if (n->in[i] == 0 && i < least) return bad(e, g, n, "an operand is missing");
        if (n->in[i] != 0 && is_literal(g, n->in[i]))
            return bad(e, g, n, "an operand is a literal without a dtype");
    }
    return PROEM_OK;
}

static bool same_type(const struct value *v, const struct type *t) {
    if (v->dtype != t->dtype || v->rank != t->rank) return false;
    return v->rank == 0 || memcmp(v->dims, t->dims, (size_t)v->rank * sizeof *v->dims) == 0;
}

static bool same_attrs(const struct attrs *a, const struct attrs *b) {
    bool same = a->dtype == b->dtype && a->axis == b->axis && a->n_axes == b->n_axes &&
                a->n_list == b->n_list && a->n_list2 == b->n_list2 && a->start == b->start &&
                a->stop == b->stop && a->n_parts == b->n_parts;
    if (!same) return false;
    for (int i = 0; i < a->n_axes; i++)
        if (a->axes[i] != b->axes[i]) return false;
    for (int i = 0; i < a->n_list; i++)
        if (a->list[i] != b->list[i] || a->perm[i] != b->perm[i]) return false;
    for (int i = 0; i < a->n_list2; i++)
        if (a->list2[i] != b->list2[i]) return false;
    return true;
}

/* Inference appends to the arena and to the checks only; the graph's meaning stays. */
static enum proem_status verify_types(struct graph *g, const struct node *n, struct err *e) {
    struct err inner;
    err_clear(&inner);
    struct place at = {.line = n->line, .col = n->col, .origin = n->origin, .err = &inner};
    struct attrs a = n->attrs;
    int most = signature_max_inputs(n->op), least = signature_min_inputs(n->op);
    if (n->n_in < least || (most >= 0 && n->n_in != most))
        return bad(e, g, n, "it has the wrong number of operands");
    struct infer x = {.g = g,
                      .at = &at,
                      .op = n->op,
                      .n_in = n->n_in,
                      .in = n->in,
                      .a = &a,
                      .n_out = n->op == OP_ATTENTION ? n->n_out : 0};
    if (infer_types(&x) != PROEM_OK)
        return inner.status == PROEM_NOMEM ? err_nomem(e) : bad(e, g, n, inner.text);
    if (x.n_out != n->n_out) return bad(e, g, n, "it has the wrong number of results");
    for (int i = 0; i < n->n_out; i++)
        if (!same_type(graph_value(g, n->out + (value_id)i), &x.out[i]))
            return bad(e, g, n, "a result has the wrong type");
    return same_attrs(&a, &n->attrs) ? PROEM_OK
                                     : bad(e, g, n, "its attributes are not in normal form");
}

static enum proem_status verify_hooks(struct graph *g, const struct node *n, struct err *e) {
    struct err inner;
    err_clear(&inner);
    struct place at = {.line = n->line, .col = n->col, .origin = n->origin, .err = &inner};
    if (n->hooks == NULL) return PROEM_OK;
    if (n->op != OP_ATTENTION) return bad(e, g, n, "it has hooks and is no attention");
    if (hooks_check(g, &at, n->hooks) != PROEM_OK) return bad(e, g, n, inner.text);
    for (int k = 0; k < HOOK_COUNT; k++) {
        const struct hook *h = &n->hooks[k];
        if (h->body == NULL) continue;
        for (int i = 0; i < h->n_captured; i++)
            if (h->captured[i] >= n->out) return bad(e, g, n, "a hook reads what comes later");
        TRY(graph_verify(h->body, e));
    }
    return PROEM_OK;
}

static enum proem_status verify_node(struct graph *g, const struct node *n, struct err *e) {
    TRY(verify_links(g, n, e));
    if (n->op == OP_PARAM || n->op == OP_CONST) {
        if (n->n_in != 0 || n->n_out != 1) return bad(e, g, n, "it has operands or many results");
        if (n->op == OP_CONST && graph_value(g, n->out)->rank != 0)
            return bad(e, g, n, "a constant is a scalar");
        return PROEM_OK;
    }
    TRY(verify_types(g, n, e));
    return verify_hooks(g, n, e);
}

static enum proem_status verify_ends(const struct graph *g, struct err *e) {
    size_t params = 0;
    for (size_t i = 1; i < g->nodes.n; i++)
        params += g->nodes.at[i].op == OP_PARAM;
    if (params != g->params.n)
        return err_set(e, PROEM_INTERNAL, "graph %s: parameters are not all listed", g->name);
    for (size_t i = 0; i < g->params.n; i++) {
        value_id v = g->params.at[i].value;
        if (v == 0 || v >= g->values.n || graph_def(g, v)->op != OP_PARAM)
            return err_set(e, PROEM_INTERNAL, "graph %s: parameter %zu is none", g->name, i);
    }
    if (g->outputs.n == 0) return err_set(e, PROEM_INTERNAL, "graph %s: no outputs", g->name);
    for (size_t i = 0; i < g->outputs.n; i++) {
        const struct output *o = &g->outputs.at[i];
        if (o->value == 0 || o->value >= g->values.n || o->in_param >= g->values.n)
            return err_set(e, PROEM_INTERNAL, "graph %s: output %zu does not exist", g->name, i);
        if (o->in_param != 0 && graph_def(g, o->in_param)->op != OP_PARAM)
            return err_set(e, PROEM_INTERNAL, "graph %s: output %zu is in no parameter", g->name,
                           i);
    }
    return PROEM_OK;
}

static enum proem_status verify_names(const struct graph *g, struct err *e) {
    struct names seen = {.arena = g->arena};
    for (size_t i = 1; i < g->values.n; i++) {
        const char *name = graph_value(g, (value_id)i)->name;
        uint32_t other;
        if (name[0] == '\0') continue; /* not finished yet */
        if (names_get(&seen, name, strlen(name), &other))
            return err_set(e, PROEM_INTERNAL, "graph %s: values %u and %zu are both called %s",
                           g->name, other, i, name);
        if (!names_add(&seen, name, strlen(name), (uint32_t)i)) return err_nomem(e);
    }
    return PROEM_OK;
}

enum proem_status graph_verify(const struct graph *g, struct err *e) {
    if (!arena_ok(g->arena)) return err_nomem(e);
    /* A copy of the head: what inference adds to the checks stays out of the graph. */
    struct graph scratch = *g;
    for (size_t i = 1; i < g->nodes.n; i++)
        TRY(verify_node(&scratch, &scratch.nodes.at[i], e));
    TRY(verify_ends(g, e));
    return verify_names(g, e);
}
