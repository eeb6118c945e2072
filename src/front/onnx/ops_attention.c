/* SPDX-License-Identifier: MIT
 * Attention, rotary embedding, and attention with subgraphs for scores and probabilities. All become
 * two products with a softmax between; heads that share keys are a dim of their own, so keys and
 * values are never repeated in memory.
 */
#include "front/onnx/parts.h"

#include <math.h>
#include <string.h>

static struct sx_pool *pool(const struct ox *o) {
    return o->g->sx;
}

value_id ox_split_heads(struct ox *o, const struct ox_node *n, value_id x, sx heads) {
    static const int perm[] = {0, 2, 1, 3};
    if (x == 0) return 0;
    struct value t = *ox_type(o, x);
    if (t.rank == 4) return x;
    if (t.rank != 3) return ox_fail(o, n, "operands must have 3 or 4 dims"), 0;
    sx dims[] = {t.dims[0], t.dims[1], heads, ox_div(o, n, t.dims[2], heads)};
    return ox_permute(o, n, ox_reshape(o, n, x, 4, dims), COUNT_OF(perm), perm);
}

static value_id with_past(struct ox *o, const struct ox_node *n, value_id x, int past) {
    if (!ox_has(n, past)) return x;
    const value_id in[] = {ox_in(o, n, past), x};
    return ox_concat(o, n, 2, in, 2);
}

bool ox_group_heads(struct ox *o, const struct ox_node *n, struct ox_heads *h) {
    struct value q = *ox_type(o, h->q), k = *ox_type(o, h->k);
    if (q.rank != 4 || k.rank != 4) return ox_fail(o, n, "operands must have 3 or 4 dims");
    h->B = q.dims[0], h->H = q.dims[1], h->G = k.dims[1], h->S = q.dims[2], h->L = k.dims[2];
    h->R = ox_div(o, n, h->H, h->G);
    h->dtype = q.dtype;
    sx dims[] = {h->B, h->G, h->R, h->S, q.dims[3]};
    h->q = ox_reshape(o, n, h->q, 5, dims);
    h->k = ox_unsqueeze(o, n, h->k, 2);
    h->v = ox_unsqueeze(o, n, h->v, 2);
    return h->q != 0 && h->k != 0 && h->v != 0;
}

static value_id scaled(struct ox *o, const struct ox_node *n, value_id x, double scale) {
    return x == 0 ? 0 : ox_bin(o, n, OP_MUL, x, ox_num(o, n, ox_type(o, x)->dtype, scale));
}

double ox_root_scale(struct ox *o, const struct ox_node *n, value_id q) {
    double scale = ox_attr_f(n, "scale", 0);
    int64_t size;
    const struct value *t = ox_type(o, q);
    if (scale == 0) {
        if (!sx_is_const(pool(o), t->dims[t->rank - 1], &size) || size < 1) {
            ox_fail(o, n, "the size of a head must be a number");
            return 0;
        }
        scale = 1 / sqrt((double)size);
    }
    return sqrt(scale);
}

/* q k^T [B, G, R, S, L] */
static value_id scores(struct ox *o, const struct ox_node *n, const struct ox_heads *h,
                       double root) {
    static const int perm[] = {0, 1, 2, 4, 3};
    value_id k = ox_permute(o, n, scaled(o, n, h->k, root), COUNT_OF(perm), perm);
    return ox_cast(o, n, ox_bin(o, n, OP_MATMUL, scaled(o, n, h->q, root), k), h->dtype);
}

value_id ox_join_heads(struct ox *o, const struct ox_node *n, const struct ox_heads *h,
                       value_id x) {
    if (!ox_has_rank(o, n, x, 5, 5)) return 0;
    sx dims[] = {h->B, h->H, h->S, ox_type(o, x)->dims[4]};
    return ox_reshape(o, n, x, 4, dims);
}

static value_id grouped(struct ox *o, const struct ox_node *n, const struct ox_heads *h,
                        value_id x) {
    if (!ox_has_rank(o, n, x, 4, 4)) return 0;
    sx dims[] = {h->B, h->G, h->R, h->S, ox_type(o, x)->dims[3]};
    return ox_reshape(o, n, x, 5, dims);
}

static value_id softmax_in(struct ox *o, const struct ox_node *n, value_id x, enum dtype d) {
    if (x == 0) return 0;
    struct attrs a = attrs_default(OP_SOFTMAX);
    enum dtype own = ox_type(o, x)->dtype;
    a.has_axis = true;
    a.axis = ox_type(o, x)->rank - 1;
    x = ox_cast(o, n, x, d);
    return ox_cast(o, n, ox_apply(o, n, OP_SOFTMAX, 1, &x, &a), own);
}

/* Softmax with one more score a head, whose weight nobody uses (StreamingLLM, arXiv:2309.17453). */
static value_id sink_softmax(struct ox *o, const struct ox_node *n, const struct ox_heads *h,
                             value_id s, value_id sink) {
    if (s == 0) return 0;
    int last = ox_type(o, s)->rank - 1;
    value_id x = ox_cast(o, n, s, DT_F32), k = ox_cast(o, n, sink, DT_F32);
    value_id top = ox_bin(o, n, OP_MAXIMUM, ox_reduce(o, n, OP_MAX, x, 1, &last, true), k);
    value_id e = ox_un(o, n, OP_EXP, ox_bin(o, n, OP_SUB, x, top));
    value_id rest = ox_un(o, n, OP_EXP, ox_bin(o, n, OP_SUB, k, top));
    value_id sum = ox_bin(o, n, OP_ADD, ox_reduce(o, n, OP_SUM, e, 1, &last, true), rest);
    return ox_cast(o, n, ox_bin(o, n, OP_DIV, e, sum), h->dtype);
}

/* ---- masks ----------------------------------------------------------------------------------- */

static value_id and_also(struct ox *o, const struct ox_node *n, value_id a, value_id b) {
    return a == 0 ? b : ox_bin(o, n, OP_LOGICAL_AND, a, b);
}

value_id ox_mask_heads(struct ox *o, const struct ox_node *n, const struct ox_heads *h,
                       value_id m) {
    if (!ox_has_rank(o, n, m, 0, 4)) return 0;
    struct value t = *ox_type(o, m);
    if (t.rank < 3) return m;
    if (ox_sx_is(o, t.dims[t.rank - 3], 1)) return ox_unsqueeze(o, n, m, t.rank - 3);
    sx dims[5];
    int rank = 0;
    for (int i = 0; i < t.rank - 3; i++)
        dims[rank++] = t.dims[i];
    dims[rank++] = h->G;
    dims[rank++] = h->R;
    dims[rank++] = t.dims[t.rank - 2];
    dims[rank++] = t.dims[t.rank - 1];
    return ox_reshape(o, n, m, rank, dims);
}

/* A mask shorter than the keys hides the rest. */
static value_id mask_to_length(struct ox *o, const struct ox_node *n, const struct ox_heads *h,
                               value_id m) {
    if (!ox_has_rank(o, n, m, 1, MAX_RANK)) return 0;
    struct value t = *ox_type(o, m);
    sx last = t.dims[t.rank - 1];
    if (last == h->L || ox_sx_is(o, last, 1)) return m;
    struct attrs a = attrs_default(OP_PAD);
    a.n_list = a.n_list2 = t.rank;
    for (int i = 0; i < t.rank; i++)
        a.list[i] = a.list2[i] = ox_const(o, 0);
    a.list2[t.rank - 1] = sx_sub(pool(o), h->L, last);
    if (t.dtype != DT_BOOL) a.param[0] = -(double)INFINITY;
    return ox_apply(o, n, OP_PAD, 1, &m, &a);
}

/* What may be seen by order and length: key j by query i if j <= i + offset, j < length. */
static value_id visible(struct ox *o, const struct ox_node *n, const struct ox_heads *h) {
    sx dims[] = {h->S, h->L};
    value_id i = ox_iota(o, n, DT_I64, 2, dims, 0), j = ox_iota(o, n, DT_I64, 2, dims, 1),
             length = 0, see = 0;
    if (ox_has(n, 6))
        length = ox_along(o, n, ox_cast(o, n, ox_in(o, n, 6), DT_I64), 0, 5); /* [B, 1, 1, 1, 1] */
    if (ox_attr_i(n, "is_causal", 0) != 0) {
        value_id offset = length == 0
                              ? ox_sx_value(o, n, DT_I64, h->past)
                              : ox_bin(o, n, OP_SUB, length, ox_sx_value(o, n, DT_I64, h->S));
        see = ox_bin(o, n, OP_LE, j, ox_bin(o, n, OP_ADD, i, offset));
    }
    return length == 0 ? see : and_also(o, n, see, ox_bin(o, n, OP_LT, j, length));
}

/* *see: what may be seen (0: everything); *bias: what is added to the scores (0: nothing). */
static bool masks(struct ox *o, const struct ox_node *n, const struct ox_heads *h, value_id *see,
                  value_id *bias) {
    *bias = 0;
    *see = visible(o, n, h);
    if (!ox_has(n, 3)) return o->err->status == PROEM_OK;
    value_id m = ox_in(o, n, 3);
    if (m == 0) return false;
    m = ox_mask_heads(o, n, h, mask_to_length(o, n, h, m));
    if (m == 0) return false;
    if (ox_type(o, m)->dtype == DT_BOOL)
        *see = and_also(o, n, *see, m);
    else
        *bias = m;
    return o->err->status == PROEM_OK;
}

/* A row that sees nothing has weights 0. */
static value_id safe_rows(struct ox *o, const struct ox_node *n, value_id weights, value_id see,
                          value_id bias) {
    enum dtype d = ox_type(o, weights)->dtype;
    value_id zero = ox_num(o, n, d, 0), seen = see;
    if (bias != 0)
        seen = and_also(
            o, n, see,
            ox_bin(o, n, OP_NE, bias, ox_num(o, n, ox_type(o, bias)->dtype, -(double)INFINITY)));
    if (seen == 0) return weights;
    int axis = ox_type(o, seen)->rank - 1;
    value_id any = ox_reduce(o, n, OP_MAX, seen, 1, &axis, true);
    return ox_tri(o, n, OP_WHERE, any, weights, zero);
}

/* ---- Attention ------------------------------------------------------------------------------- */

static bool read_heads(struct ox *o, const struct ox_node *n, struct ox_heads *h) {
    sx H = ox_const(o, ox_attr_i(n, "q_num_heads", 1)),
       G = ox_const(o, ox_attr_i(n, "kv_num_heads", 1));
    value_id q = ox_in(o, n, 0);
    if (q == 0) return false;
    h->flat = ox_type(o, q)->rank == 3;
    h->q = ox_split_heads(o, n, q, H);
    h->past = ox_const(o, 0);
    if (ox_has(n, 4)) {
        value_id p = ox_in(o, n, 4);
        if (!ox_has_rank(o, n, p, 4, 4)) return false;
        h->past = ox_type(o, p)->dims[2];
    }
    h->k = with_past(o, n, ox_split_heads(o, n, ox_in(o, n, 1), G), 4);
    h->v = with_past(o, n, ox_split_heads(o, n, ox_in(o, n, 2), G), 5);
    if (h->q == 0 || h->k == 0 || h->v == 0) return false;
    return ox_out(o, n, 1, h->k) && ox_out(o, n, 2, h->v) && ox_group_heads(o, n, h);
}

static value_id softcap(struct ox *o, const struct ox_node *n, value_id s, double cap) {
    return cap <= 0
               ? s
               : scaled(o, n,
                        ox_un(o, n, OP_TANH,
                              ox_bin(o, n, OP_DIV, s, ox_num(o, n, ox_type(o, s)->dtype, cap))),
                        cap);
}

bool ox_give_heads(struct ox *o, const struct ox_node *n, const struct ox_heads *h, value_id y) {
    static const int perm[] = {0, 2, 1, 3};
    y = ox_join_heads(o, n, h, y);
    if (y == 0 || !h->flat) return ox_out(o, n, 0, y);
    sx dims[] = {h->B, h->S, sx_mul(pool(o), h->H, ox_type(o, y)->dims[3])};
    return ox_out(o, n, 0, ox_reshape(o, n, ox_permute(o, n, y, COUNT_OF(perm), perm), 3, dims));
}

value_id ox_attend(struct ox *o, const struct ox_node *n, const struct ox_heads *h,
                   struct ox_attend *a) {
    value_id *step = a->steps;
    step[0] = scores(o, n, h, a->root);
    if (step[0] == 0) return 0;
    step[1] = step[2] = softcap(o, n, step[0], a->softcap);
    if (a->bias != 0) step[2] = ox_bin(o, n, OP_ADD, step[2], ox_cast(o, n, a->bias, h->dtype));
    if (a->see != 0) {
        value_id hidden = ox_num(o, n, h->dtype, -(double)INFINITY);
        step[2] = ox_tri(o, n, OP_WHERE, a->see, step[2], hidden);
    }
    step[3] =
        a->sink != 0 ? sink_softmax(o, n, h, step[2], a->sink) : softmax_in(o, n, step[2], a->soft);
    if (step[3] == 0) return 0;
    if (a->sink == 0) step[3] = safe_rows(o, n, step[3], a->see, a->bias);
    return ox_cast(o, n, ox_bin(o, n, OP_MATMUL, step[3], h->v), h->dtype);
}

static bool op_attention(struct ox *o, const struct ox_node *n) {
    struct ox_heads h;
    struct ox_attend a = {.softcap = ox_attr_f(n, "softcap", 0)};
    if (!read_heads(o, n, &h) || !masks(o, n, &h, &a.see, &a.bias)) return false;
    a.root = ox_root_scale(o, n, h.q);
    a.soft = onnx_dtype((int32_t)ox_attr_i(n, "softmax_precision", 0));
    if (a.root == 0) return false;
    if (a.soft == DT_NONE) a.soft = h.dtype;
    value_id y = ox_attend(o, n, &h, &a);
    int64_t mode = ox_attr_i(n, "qk_matmul_output_mode", 0);
    if (y == 0) return false;
    if (mode < 0 || mode > 3)
        return ox_fail(o, n, "qk_matmul_output_mode is %lld", (long long)mode);
    if (ox_wants(n, 3) && !ox_out(o, n, 3, ox_join_heads(o, n, &h, a.steps[mode]))) return false;
    return ox_give_heads(o, n, &h, y);
}

/* ---- FlexAttention --------------------------------------------------------------------------- */

/* A subgraph with one input and one output, applied to x. */
static value_id subgraph(struct ox *o, const struct ox_node *n, const char *attr, value_id x) {
    const Onnx__AttributeProto *a = ox_attr(n, attr);
    if (a == NULL || a->g == NULL || x == 0) return x;
    const Onnx__GraphProto *g = a->g;
    if (g->n_input != 1 || g->n_output != 1)
        return ox_fail(o, n, "%s must have one input and one output", attr), 0;
    if (n->scope->depth >= OX_MAX_DEPTH) return ox_fail(o, n, "graphs nest too deep"), 0;
    struct ox_scope *s = ARENA_NEW(o->arena, struct ox_scope, 1);
    if (s == NULL) return 0;
    *s = (struct ox_scope){.caller = n->scope,
                           .call = n->p,
                           .n_opsets = n->scope->n_opsets,
                           .opsets = n->scope->opsets,
                           .depth = n->scope->depth + 1};
    /* what it sees of the graph around it */
    for (size_t i = 0; i < n->scope->names.n; i++) {
        if (!ox_bind(o, s, n->scope->names.at[i], n->scope->values.at[i])) return 0;
    }
    if (!ox_add_tensors(o, s, g)) return 0;
    if (!ox_bind(o, s, g->input[0]->name, ox_new_value(o, (struct ox_value){.v = x}))) return 0;
    if (!ox_run_nodes(o, s, g->n_node, g->node)) return 0;
    int out = ox_find(s, g->output[0]->name);
    if (out <= 0) return ox_fail(o, n, "%s does not compute its output", attr), 0;
    struct ox_node inner = {
        .p = n->p, .scope = s, .name = n->name, .n_in = 1, .in = &out, .version = n->version};
    return ox_in(o, &inner, 0);
}

static bool op_flex_attention(struct ox *o, const struct ox_node *n) {
    struct ox_heads h = {.q = ox_in(o, n, 0), .k = ox_in(o, n, 1), .v = ox_in(o, n, 2)};
    if (h.q == 0 || h.k == 0 || h.v == 0 || !ox_group_heads(o, n, &h)) return false;
    double root = ox_root_scale(o, n, h.q);
    if (root == 0) return false;
    enum dtype soft = h.dtype == DT_F64 ? DT_F64 : DT_F32;
    value_id s = ox_cast(o, n, scores(o, n, &h, root), soft);
    s = grouped(o, n, &h, subgraph(o, n, "score_mod", ox_join_heads(o, n, &h, s)));
    value_id p = softmax_in(o, n, s, soft);
    p = grouped(o, n, &h, subgraph(o, n, "prob_mod", ox_join_heads(o, n, &h, p)));
    value_id y = ox_bin(o, n, OP_MATMUL, ox_cast(o, n, p, h.dtype), h.v);
    return ox_give_heads(o, n, &h, ox_cast(o, n, y, h.dtype));
}

/* ---- RotaryEmbedding ------------------------------------------------------------------------- */

value_id ox_rotate(struct ox *o, const struct ox_node *n, value_id x, value_id cosine,
                   value_id sine, sx rot, bool pairs) {
    if (!ox_has_rank(o, n, x, 4, 4) || cosine == 0 || sine == 0) return 0;
    struct value t = *ox_type(o, x);
    sx zero = ox_const(o, 0), half = ox_div(o, n, rot, ox_const(o, 2));
    value_id a = pairs ? ox_slice(o, n, x, 3, zero, rot, 2) : ox_slice(o, n, x, 3, zero, half, 1);
    value_id b =
        pairs ? ox_slice(o, n, x, 3, ox_const(o, 1), rot, 2) : ox_slice(o, n, x, 3, half, rot, 1);
    value_id re =
        ox_bin(o, n, OP_SUB, ox_bin(o, n, OP_MUL, cosine, a), ox_bin(o, n, OP_MUL, sine, b));
    value_id im =
        ox_bin(o, n, OP_ADD, ox_bin(o, n, OP_MUL, sine, a), ox_bin(o, n, OP_MUL, cosine, b));
    value_id both[] = {re, im}, y;
    if (pairs) {
        for (int i = 0; i < 2; i++)
            both[i] = ox_unsqueeze(o, n, both[i], 4);
        sx dims[] = {t.dims[0], t.dims[1], t.dims[2], rot};
        y = ox_reshape(o, n, ox_concat(o, n, 2, both, 4), 4, dims);
    } else {
        y = ox_concat(o, n, 2, both, 3);
    }
    if (rot == t.dims[3]) return y;
    const value_id parts[] = {y, ox_slice(o, n, x, 3, rot, t.dims[3], 1)};
    return ox_concat(o, n, 2, parts, 3);
}

static bool op_rotary(struct ox *o, const struct ox_node *n) {
    static const int perm[] = {0, 2, 1, 3};
    value_id x = ox_in(o, n, 0), angle[] = {ox_in(o, n, 1), ox_in(o, n, 2)};
    if (x == 0 || angle[0] == 0 || angle[1] == 0) return false;
    struct value whole = *ox_type(o, x);
    if (whole.rank == 3) {
        sx heads = ox_const(o, ox_attr_i(n, "num_heads", 1));
        if (ox_sx_is(o, heads, 0)) return ox_fail(o, n, "num_heads is 0");
        sx dims[] = {whole.dims[0], whole.dims[1], heads, ox_div(o, n, whole.dims[2], heads)};
        x = ox_reshape(o, n, x, 4, dims); /* [B, S, H, D] */
    } else if (whole.rank == 4) {
        x = ox_permute(o, n, x, COUNT_OF(perm), perm);
    } else {
        return ox_fail(o, n, "its input must have 3 or 4 dims");
    }
    if (x == 0) return false;
    int64_t dim = ox_attr_i(n, "rotary_embedding_dim", 0);
    sx rot = dim > 0 ? ox_const(o, dim) : ox_type(o, x)->dims[3];
    sx zero = ox_const(o, 0), half = ox_div(o, n, rot, ox_const(o, 2));
    for (int i = 0; i < 2; i++) {
        if (ox_has(n, 3))
            angle[i] = ox_take(o, n, angle[i], ox_cast(o, n, ox_in(o, n, 3), DT_I64), 0);
        angle[i] = ox_unsqueeze(o, n, ox_slice(o, n, angle[i], 2, zero, half, 1), 2);
    }
    bool pairs = ox_attr_i(n, "interleaved", 0) != 0;
    value_id y = ox_rotate(o, n, x, angle[0], angle[1], rot, pairs);
    if (whole.rank == 4) return ox_out(o, n, 0, ox_permute(o, n, y, COUNT_OF(perm), perm));
    return ox_out(o, n, 0, ox_reshape(o, n, y, 3, whole.dims));
}

const struct ox_op ox_attention[] = {
    {"", "Attention", 23, op_attention},
    {"", "RotaryEmbedding", 23, op_rotary},
    {"ai.onnx.preview", "FlexAttention", 1, op_flex_attention},
    {0},
};
