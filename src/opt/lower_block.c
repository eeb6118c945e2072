/* SPDX-License-Identifier: MIT
 * Lowering of block formats: the graph text of a format's row is parsed and its operators are
 * applied to the tensor of blocks. After this nothing knows a format.
 *
 * The text's graph maps `b: u8[B, bytes]` to `f32[B, elements]`; here the one dim B stands for all
 * dims of the tensor before its last: every value of the text's graph whose first dim is B gets
 * them in its place, and the operators' axes and dims move accordingly. A value without B (a table
 * of shifts) stays as it is.
 */
#include "opt/lower_internal.h"
#include "ops/block.h"

#include <string.h>

struct inliner {
    struct lower *l;
    const struct graph *g; /* of the format */
    value_id *to;          /* by its values */
    int lead;              /* dims that stand for B */
    const sx *dims;
};

struct stored_type lower_stored(struct lower *l, const struct value *v) {
    struct stored_type t = {.dtype = v->dtype, .rank = v->rank};
    if (v->rank > 0) memcpy(t.dims, v->dims, (size_t)v->rank * sizeof *v->dims);
    if (!dtype_is_block(v->dtype)) return t;
    const struct block_format *f = block_format(v->dtype);
    struct sx_pool *sp = l->dst->sx;
    t.dtype = DT_U8;
    t.dims[t.rank - 1] = sx_div(sp, t.dims[t.rank - 1], sx_const(sp, f->elements));
    t.dims[t.rank++] = sx_const(sp, f->bytes);
    return t;
}

static bool has_lead(const struct inliner *x, value_id v) {
    const struct value *b = graph_value(x->g, x->g->params.at[0].value);
    const struct value *val = graph_value(x->g, v);
    return val->rank > 0 && val->dims[0] == b->dims[0];
}

/* A dim of the text's graph other than B, which is a number. */
static sx dim_of(struct inliner *x, sx d) {
    int64_t n;
    return sx_is_const(x->g->sx, d, &n) ? sx_const(x->l->dst->sx, n) : 0;
}

static void move_list(struct inliner *x, const struct node *n, struct attrs *a) {
    bool lead = has_lead(x, n->out);
    int at = 0;
    a->n_list = 0;
    if (lead) {
        memcpy(a->list, x->dims, (size_t)x->lead * sizeof *x->dims);
        a->n_list = x->lead;
        at = 1;
    }
    for (; at < n->attrs.n_list; at++)
        a->list[a->n_list++] = dim_of(x, n->attrs.list[at]);
}

static value_id inline_node(struct inliner *x, const struct node *n) {
    struct attrs a = n->attrs;
    value_id in[MAX_RANK];
    if (n->n_in > MAX_RANK || n->n_out != 1) return 0;
    for (int i = 0; i < n->n_in; i++)
        in[i] = n->in[i] == 0 ? 0 : x->to[n->in[i]];
    if (n->op == OP_CONST)
        return graph_const(x->l->dst, &x->l->at, graph_value(x->g, n->out)->dtype, n->constant);
    if (a.has_axis && has_lead(x, n->out)) a.axis += x->lead - 1;
    if (n->attrs.n_list > 0) move_list(x, n, &a);
    if (n->op == OP_SLICE) {
        a.start = dim_of(x, a.start);
        a.stop = dim_of(x, a.stop);
    }
    return lw_apply(x->l, n->op, n->n_in, in, &a);
}

static value_id inline_graph(struct inliner *x, value_id blocks) {
    const struct graph *g = x->g;
    x->to = ARENA_NEW(x->l->dst->arena, value_id, g->values.n);
    if (x->to == NULL) {
        err_nomem(x->l->at.err);
        return 0;
    }
    x->to[g->params.at[0].value] = blocks;
    for (node_id i = 1; i < g->nodes.n; i++) {
        const struct node *n = graph_node(g, i);
        if (n->op == OP_PARAM || (n->op == OP_CONST && n->weak)) continue;
        if ((x->to[n->out] = inline_node(x, n)) == 0) return 0;
    }
    return x->to[g->outputs.at[0].value];
}

value_id lower_blocks(struct lower *l, enum dtype format, value_id blocks) {
    const struct block_format *f = block_format(format);
    struct graph_file file = {0};
    if (graph_parse(l->dst->arena, f->name, f->text, strlen(f->text), false, &file, l->at.err) !=
        PROEM_OK)
        return 0;
    const struct value v = *lw_val(l, blocks);
    struct inliner x = {.l = l, .g = file.graphs.at[0], .lead = v.rank - 1, .dims = v.dims};
    value_id y = inline_graph(&x, blocks);
    if (y == 0) return 0;
    sx dims[MAX_RANK];
    memcpy(dims, v.dims, (size_t)v.rank * sizeof *dims);
    struct sx_pool *sp = l->dst->sx;
    dims[v.rank - 2] = sx_mul(sp, dims[v.rank - 2], sx_const(sp, f->elements));
    return lw_reshape(l, y, v.rank - 1, dims);
}
