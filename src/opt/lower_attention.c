/* SPDX-License-Identifier: MIT
 * attention and grouped_matmul as primitives: two products and a softmax between them, with the
 * hooks' scalar functions spread over the score tensor [B, H, S, L]; and a batched product whose
 * right operand is gathered by each row's group.
 *
 * Grouped heads (H a multiple of G) are a reshape of q to [B, G, H/G, S, D] beside k and v with a
 * dim of 1: no head is copied. A hook's body works on 0-dim values, whose promotion differs from
 * that of the tensors that stand for them here; so every operand is converted explicitly to the
 * dtype that the body's own types give.
 */
#include "opt/lower_internal.h"

#include <string.h>

/* The coordinates b h i j as tensors that broadcast over [B, H, S, L]. */
struct hook_scope {
    const struct hook *hook;
    const value_id *args; /* n_args lowered values */
    value_id mask;        /* where it is false, indices are not read; 0 if there is none */
    value_id *of;         /* lowered value by body value */
};

static value_id hook_lookup(struct lower *l, const struct hook_scope *s, const struct node *n,
                            const value_id *in) {
    value_id src = in[0];
    int rank = src == 0 ? 0 : lw_val(l, src)->rank;
    value_id args[MAX_RANK + 1] = {src};
    value_id zero = lw_const(l, DT_I64, 0.0);
    for (int i = 0; i < rank; i++) {
        value_id index = lw_to(l, in[1 + i], DT_I64);
        args[1 + i] = s->mask != 0 ? lw_where(l, s->mask, index, zero) : index;
    }
    (void)n;
    return lw_apply(l, OP_LOOKUP, 1 + rank, args, NULL);
}

static value_id hook_node(struct lower *l, const struct hook_scope *s, const struct node *n) {
    const struct graph *body = s->hook->body;
    value_id in[MAX_RANK + 1];
    for (int i = 0; i < n->n_in; i++)
        in[i] = s->of[n->in[i]];
    enum dtype result = graph_value(body, n->out)->dtype;
    if (n->op == OP_CONST) return graph_const(l->dst, &l->at, result, n->constant);
    if (n->op == OP_DIM) return lw_dim(l, n->attrs.start, result);
    if (n->op == OP_LOOKUP) return hook_lookup(l, s, n, in);
    if (op_is_elementwise(n->op)) {
        enum dtype types[3], compute = DT_NONE;
        bool scalar[3] = {true, true, true};
        for (int i = 0; i < n->n_in; i++)
            types[i] = graph_value(body, n->in[i])->dtype;
        op_result_dtype(n->op, types, scalar, n->n_in, &compute);
        if (compute != DT_NONE && op_info(n->op)->rule != RULE_LOGIC &&
            op_info(n->op)->rule != RULE_SHIFT) {
            for (int i = 0; i < n->n_in; i++)
                in[i] = lw_to(l, in[i], compute);
        }
    }
    if (n->op == OP_WHERE) {
        in[1] = lw_to(l, in[1], result);
        in[2] = lw_to(l, in[2], result);
    }
    return lw_to(l, lw_apply(l, n->op, n->n_in, in, &n->attrs), result);
}

/* The hook's result for lowered arguments; 0 on failure. */
static value_id hook_apply(struct lower *l, const struct hook *h, const value_id *args,
                           value_id mask) {
    const struct graph *body = h->body;
    struct hook_scope s = {.hook = h, .args = args, .mask = mask};
    s.of = ARENA_NEW(l->dst->arena, value_id, body->values.n);
    if (s.of == NULL) return 0;
    for (size_t i = 0; i < body->params.n; i++) {
        bool own = (int)i < h->n_args;
        s.of[body->params.at[i].value] =
            own ? args[i] : l->out->value_of[h->captured[(int)i - h->n_args]];
    }
    for (node_id i = 1; i < body->nodes.n; i++) {
        const struct node *n = graph_node(body, i);
        if (n->op == OP_PARAM) continue;
        s.of[n->out] = hook_node(l, &s, n);
        if (s.of[n->out] == 0) return 0;
    }
    return s.of[body->outputs.at[0].value];
}

struct heads {
    sx B, H, S, D, G, L, E, R; /* R = H / G */
};

static struct heads attention_dims(const struct lower *l, const value_id *in) {
    const struct value *q = lw_val(l, in[0]), *k = lw_val(l, in[1]), *v = lw_val(l, in[2]);
    struct heads h = {.B = q->dims[0], .H = q->dims[1], .S = q->dims[2], .D = q->dims[3]};
    h.G = k->dims[1];
    h.L = k->dims[2];
    h.E = v->dims[3];
    h.R = sx_exact_div(l->dst->sx, h.H, h.G);
    if (h.R == 0) h.R = sx_div(l->dst->sx, h.H, h.G);
    return h;
}

static value_id attention_scores(struct lower *l, const struct node *n, const value_id *in,
                                 const struct heads *h) {
    struct sx_pool *sp = l->dst->sx;
    enum dtype d = lw_val(l, in[0])->dtype == DT_F64 ? DT_F64 : DT_F32;
    value_id q = lw_reshape(l, in[0], 5, (sx[]){h->B, h->G, h->R, h->S, h->D});
    value_id k = lw_transpose(l, lw_unsqueeze(l, in[1], 2));
    value_id s = lw_reshape(l, lw_matmul(l, q, k, d), 4, (sx[]){h->B, h->H, h->S, h->L});
    value_id scale;
    if (n->attrs.has_param) {
        scale = lw_const(l, d, n->attrs.param[0]);
    } else {
        scale = lw_1(l, OP_RSQRT, lw_dim(l, h->D, d));
        int64_t depth;
        if (sx_is_const(sp, h->D, &depth) && depth > 0)
            scale = lw_const(l, d, 1.0 / __builtin_sqrt((double)depth));
    }
    return lw_2(l, OP_MUL, s, scale);
}

value_id lower_attention(struct lower *l, const struct node *n, const value_id *in, value_id *lse) {
    struct heads h = attention_dims(l, in);
    value_id s = attention_scores(l, n, in, &h);
    if (s == 0) return 0;
    enum dtype d = lw_val(l, s)->dtype;
    value_id coords[5] = {s, lw_iota(l, 4, 0, h.B), lw_iota(l, 4, 1, h.H), lw_iota(l, 4, 2, h.S),
                          lw_iota(l, 4, 3, h.L)};
    const struct hook *hooks = n->hooks;
    value_id mask = 0;
    if (hooks != NULL && hooks[HOOK_MASK].body != NULL) {
        mask = hook_apply(l, &hooks[HOOK_MASK], coords + 1, 0);
        if (mask == 0) return 0;
    }
    if (hooks != NULL && hooks[HOOK_SCORE].body != NULL) {
        s = lw_to(l, hook_apply(l, &hooks[HOOK_SCORE], coords, mask), d);
    }
    if (mask != 0) s = lw_where(l, mask, s, lw_const(l, d, -__builtin_inf()));
    value_id log_sum = 0;
    value_id p = lower_softmax_of(l, s, 3, &log_sum);
    if (hooks != NULL && hooks[HOOK_PROB].body != NULL) {
        coords[0] = p;
        p = lw_to(l, hook_apply(l, &hooks[HOOK_PROB], coords, mask), d);
        if (mask != 0) p = lw_where(l, mask, p, lw_const(l, d, 0.0));
    }
    p = lw_to(l, p, lw_val(l, in[2])->dtype);
    value_id p5 = lw_reshape(l, p, 5, (sx[]){h.B, h.G, h.R, h.S, h.L});
    value_id o = lw_matmul_hides(l, p5, lw_unsqueeze(l, in[2], 2), d, true);
    if (n->n_out > 1) {
        enum dtype to = graph_value(l->src, n->out + 1)->dtype;
        *lse = lw_to(l, lw_reshape(l, log_sum, 3, (sx[]){h.B, h.H, h.S}), to);
    }
    return lw_reshape(l, o, 4, (sx[]){h.B, h.H, h.S, h.E});
}

/* Row t belongs to group e(t) = the number of offsets that are <= t; past the last group e = E. */
value_id lower_grouped(struct lower *l, const struct node *n, const value_id *in) {
    struct sx_pool *sp = l->dst->sx;
    (void)n;
    const struct value a = *lw_val(l, in[0]);
    const struct value b = *lw_val(l, in[1]);
    sx one = sx_const(sp, 1);
    value_id rows = lw_iota(l, 2, 0, a.dims[0]);
    value_id ends = lw_to(l, lw_reshape(l, in[2], 2, (sx[]){one, b.dims[0]}), DT_I64);
    value_id before = lw_to(l, lw_2(l, OP_LE, ends, rows), DT_I64);
    value_id group = lw_reshape(l, lw_reduce(l, OP_SUM, before, 1), 1, a.dims);
    value_id valid = lw_2(l, OP_LT, group, lw_dim(l, b.dims[0], DT_I64));
    value_id index = lw_where(l, valid, group, lw_const(l, DT_I64, 0.0));
    value_id y = lw_matmul(l, lw_unsqueeze(l, in[0], 1), lw_take(l, in[1], index, 0), DT_NONE);
    if (y == 0) return 0;
    enum dtype d = lw_val(l, y)->dtype;
    y = lw_reshape(l, y, 2, (sx[]){a.dims[0], b.dims[2]});
    return lw_where(l, lw_unsqueeze(l, valid, 1), y, lw_const(l, d, 0.0));
}
