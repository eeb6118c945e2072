/* SPDX-License-Identifier: MIT
 * A failed data check in words: the operator as it is written, the tensor, the first position in
 * row-major order, the value, and what is allowed.
 *
 *   take(x, index): index[3] is 12, but x has 8 rows along axis 0 (allowed: -8..7)
 */
#include "driver/driver.h"

/* The name of a lowered value in the source graph, if it has one. */
static const char *name_of(const struct proem_program *p, value_id lowered) {
    value_id v = p->low.source_of[lowered];
    return v != 0 ? graph_value(p->graph, v)->name : graph_value(p->low.graph, lowered)->name;
}

static void print_operand(const struct graph *g, value_id v, struct str *out) {
    const struct node *n = graph_def(g, v);
    char buf[32];
    if (n->op != OP_CONST || graph_value(g, v)->named)
        str_add(out, graph_value(g, v)->name);
    else if (dtype_is_float(graph_value(g, v)->dtype))
        str_add(out, fmt_double(buf, n->constant.f));
    else
        str_printf(out, "%lld", (long long)n->constant.i);
}

static void print_call(const struct proem_program *p, node_id lowered_user, struct str *out) {
    node_id origin = graph_node(p->low.graph, lowered_user)->origin;
    const struct node *n = graph_node(p->graph, origin);
    const char *separator = "";
    str_printf(out, "%s(", op_info(n->op)->name);
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] == 0) continue;
        str_add(out, separator);
        print_operand(p->graph, n->in[i], out);
        separator = ", ";
    }
    str_add(out, ")");
}

static enum proem_status print_position(struct proem_program *p, const struct dims_binding *sizes,
                                        value_id v, int64_t flat, struct str *out, struct err *e) {
    int64_t shape[MAX_RANK], at[MAX_RANK];
    int rank = graph_value(p->low.graph, v)->rank;
    TRY(dims_shape(p->low.graph, sizes, v, shape, e));
    for (int i = rank; i-- > 0;) {
        at[i] = shape[i] > 0 ? flat % shape[i] : 0;
        flat = shape[i] > 0 ? flat / shape[i] : 0;
    }
    str_add(out, name_of(p, v));
    for (int i = 0; i < rank; i++)
        str_printf(out, "%s%lld", i == 0 ? "[" : ", ", (long long)at[i]);
    if (rank > 0) str_add(out, "]");
    return PROEM_OK;
}

static void print_reason(struct proem_program *p, const struct plan_check *c,
                         const struct pk_fault *f, struct str *out) {
    const struct node *user = graph_node(p->low.graph, c->user);
    long long bound = (long long)f->bound;
    switch (c->kind) {
    case CHECK_INDEX:
        str_printf(out, ", but %s has %lld rows along axis %d", name_of(p, user->in[0]), bound,
                   user->attrs.axis);
        if (bound > 0) str_printf(out, " (allowed: %lld..%lld)", -bound, bound - 1);
        break;
    case CHECK_NONZERO: str_add(out, "; an integer divisor must not be 0"); break;
    case CHECK_OFFSETS: {
        const struct node *n = graph_node(p->graph, user->origin);
        str_printf(out, "; offsets must not decrease and are at most the %lld rows of %s", bound,
                   graph_value(p->graph, n->in[0])->name);
        break;
    }
    }
}

enum proem_status fault_message(struct proem_program *p, const struct dims_binding *sizes,
                                const struct rt_fault *f, struct err *e) {
    const struct gen_kernel *k = p->steps[f->step].gen;
    if (f->fault.check < 0 || f->fault.check >= k->n_checks)
        return err_set(e, PROEM_INTERNAL, "kernel '%s' reports check %d of %d", k->name,
                       f->fault.check, k->n_checks);
    const struct plan_check *c = &p->plan.checks.at[k->checks[f->fault.check]];
    struct str text;
    str_init(&text, &p->c->alloc);
    print_call(p, c->user, &text);
    str_add(&text, ": ");
    enum proem_status s = print_position(p, sizes, c->value, f->fault.index, &text, e);
    if (s == PROEM_OK) {
        str_printf(&text, " is %lld", (long long)f->fault.value);
        print_reason(p, c, &f->fault, &text);
        s = err_set(e, PROEM_DATA, "%s", str_text(&text));
    }
    str_free(&text);
    return s;
}
