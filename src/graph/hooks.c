/* SPDX-License-Identifier: MIT
 * Checks of attention's hooks when they are attached: a hook is a graph of scalars that uses only
 * elementwise operators and look-ups, with the parameters and the result that its kind has.
 */
#include "graph/internal.h"

#include <string.h>

static bool is_scalar_op(const struct node *n) {
    switch (n->op) {
    case OP_WHERE:
    case OP_CAST:
    case OP_BITCAST:
    case OP_LOOKUP:
    case OP_DIM:
    case OP_CONST:
    case OP_PARAM: return true;
    default: return op_is_elementwise(n->op);
    }
}

static enum proem_status check_captured(struct graph *g, const struct place *at,
                                        const struct hook *h, const char *name) {
    for (int i = 0; i < h->n_captured; i++) {
        value_id outer = h->captured[i];
        value_id inner = h->body->params.at[h->n_args + i].value;
        if (outer == 0 || outer >= g->values.n)
            return place_fail(at, "hook %s: captured value %d does not exist", name, i);
        const struct value *a = graph_value(g, outer), *b = graph_value(h->body, inner);
        bool same = a->dtype == b->dtype && a->rank == b->rank;
        for (int k = 0; same && k < a->rank; k++)
            same = a->dims[k] == b->dims[k];
        if (!same)
            return place_fail(at, "hook %s: parameter %s is not of the type of %s", name, b->name,
                              label(g, outer));
        for (int k = 0; k < h->n_args; k++) {
            const struct value *arg = graph_value(h->body, h->body->params.at[k].value);
            if (strcmp(arg->name, a->name) == 0)
                return place_fail(at,
                                  "hook %s: the argument %s hides a value that it reads; rename "
                                  "it",
                                  name, arg->name);
        }
    }
    return PROEM_OK;
}

static enum proem_status check_hook(struct graph *g, const struct place *at, const struct hook *h,
                                    enum hook_kind kind) {
    const char *name = hook_names[kind];
    const struct graph *b = h->body;
    int args = hook_args(kind);
    if (b->sx != g->sx) return place_fail(at, "hook %s has symbols of its own", name);
    if (h->n_args != args || h->n_captured < 0 ||
        b->params.n != (size_t)args + (size_t)h->n_captured)
        return place_fail(at, "hook %s has %d arguments", name, args);
    for (int i = 0; i < args; i++) {
        const struct value *v = graph_value(b, b->params.at[i].value);
        enum dtype want = i == 0 && kind != HOOK_MASK ? DT_F32 : DT_I64;
        if (v->rank != 0 || v->dtype != want)
            return place_fail(at, "hook %s: argument %d must be %s[]", name, i, dtype_name(want));
    }
    TRY(check_captured(g, at, h, name));
    for (size_t i = 1; i < b->nodes.n; i++)
        if (!is_scalar_op(&b->nodes.at[i]))
            return place_fail(at, "hook %s is a function of scalars: %s is not allowed in it", name,
                              op_text_name(b->nodes.at[i].op));
    if (b->outputs.n != 1) return place_fail(at, "hook %s returns one value", name);
    const struct value *y = graph_value(b, b->outputs.at[0].value);
    enum dtype want = kind == HOOK_MASK ? DT_BOOL : DT_F32;
    if (y->rank != 0 || y->dtype != want)
        return place_fail(at, "hook %s must return %s[]", name, dtype_name(want));
    return PROEM_OK;
}

enum proem_status hooks_check(struct graph *g, const struct place *at,
                              const struct hook hooks[HOOK_COUNT]) {
    for (int k = 0; k < HOOK_COUNT; k++)
        if (hooks[k].body != NULL) TRY(check_hook(g, at, &hooks[k], (enum hook_kind)k));
    return PROEM_OK;
}
