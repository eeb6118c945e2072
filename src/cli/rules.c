/* SPDX-License-Identifier: MIT
 * What the uses of an integer parameter demand of random values for it: indices in bounds, sorted
 * offsets, shift counts below the width, divisors that are not 0.
 *
 * From each use back to the parameters whose elements reach it unchanged: through views, casts
 * between integers, gathers, concat, pad and where. A parameter with several uses gets the
 * intersection. An index that is computed is beyond this; its inputs must be given.
 */
#include "cli/cli.h"

struct rules {
    struct session *s;
    const struct graph *g; /* lowered */
    bool *seen;
    struct random_rule rule; /* of the use at hand */
};

static void narrow(struct random_rule *to, const struct random_rule *by) {
    if (by->bounded) {
        if (!to->bounded || by->lo > to->lo) to->lo = by->lo;
        if (!to->bounded || by->hi < to->hi) to->hi = by->hi;
        to->bounded = true;
    }
    to->nonzero = to->nonzero || by->nonzero;
    to->sorted = to->sorted || by->sorted;
}

static void apply(struct rules *r, value_id v) {
    for (size_t i = 0; i < r->s->n_in; i++) {
        if (r->g->params.at[i].value == v) narrow(&r->s->in[i].rule, &r->rule);
    }
}

/* Which operands' elements does an operator pass on unchanged: [*first, *end). */
static void passes_on(const struct rules *r, const struct node *n, int *first, int *end) {
    *first = 0;
    *end = 0;
    if (op_is_view(n->op)) {
        *end = 1;
        return;
    }
    switch ((int)n->op) {
    case OP_CAST:
        if (dtype_is_int(graph_value(r->g, n->in[0])->dtype) && dtype_is_int(n->attrs.dtype))
            *end = 1;
        break;
    case OP_PAD:
    case OP_FLIP:
    case OP_TAKE:
    case OP_TAKE_ALONG: *end = 1; break;
    case OP_CONCAT: *end = n->n_in; break;
    case OP_WHERE:
        *first = 1;
        *end = 3;
        break;
    default: break;
    }
}

static void trace(struct rules *r, value_id v) {
    if (v == 0 || r->seen[v]) return;
    r->seen[v] = true;
    const struct node *n = graph_def(r->g, v);
    if (n->op == OP_PARAM) {
        apply(r, v);
        return;
    }
    int first, end;
    passes_on(r, n, &first, &end);
    for (int i = first; i < end; i++)
        trace(r, n->in[i]);
}

static void demand(struct rules *r, value_id v, struct random_rule rule) {
    for (size_t i = 0; i < r->g->values.n; i++)
        r->seen[i] = false;
    r->rule = rule;
    trace(r, v);
}

enum proem_status inputs_rules(struct session *s, struct err *e) {
    struct rules r = {.s = s, .g = s->p->low.graph};
    r.seen = ARENA_NEW(&s->arena, bool, r.g->values.n);
    if (r.seen == NULL) return err_nomem(e);
    for (size_t i = 0; i < s->p->low.checks.n; i++) {
        const struct data_check *c = &s->p->low.checks.at[i];
        int64_t bound = 0;
        if (c->kind == CHECK_NONZERO) {
            demand(&r, c->value, (struct random_rule){.nonzero = true});
        } else if (dims_value(s->p->graph, &s->p->dims, c->bound, &bound)) {
            bool offsets = c->kind == CHECK_OFFSETS;
            demand(&r, c->value,
                   (struct random_rule){.bounded = true,
                                        .lo = 0,
                                        .hi = offsets ? bound : bound - 1,
                                        .sorted = offsets});
        }
    }
    for (node_id id = 1; id < r.g->nodes.n; id++) {
        const struct node *n = graph_node(r.g, id);
        if (n->op != OP_SHIFT_LEFT && n->op != OP_SHIFT_RIGHT) continue;
        int width = dtype_bits(graph_value(r.g, n->out)->dtype);
        demand(&r, n->in[1], (struct random_rule){.bounded = true, .lo = 0, .hi = width - 1});
    }
    return PROEM_OK;
}
