/* SPDX-License-Identifier: MIT
 * Attention of the domain com.microsoft: the operators of ONNX Runtime's documentation in terms of
 * the parts that ONNX's own Attention and RotaryEmbedding are made of.
 *
 * A cache of keys and values is a tensor in and a longer one out. New rows are put where each
 * batch's valid ones end (scatter_along); what lies behind is never seen.
 */
#include "front/onnx/parts.h"

static struct sx_pool *pool(const struct ox *o) {
    return o->g->sx;
}

/* ---- RotaryEmbedding ------------------------------------------------------------------------- */

/* Rows of a table [positions, half] at position [B, S], as [B, S, 1, half]. */
static value_id angles(struct ox *o, const struct ox_node *n, int table, value_id at) {
    value_id t = ox_in(o, n, table);
    if (!ox_has_rank(o, n, t, 2, 2) || !ox_has_rank(o, n, at, 2, 2)) return 0;
    return ox_unsqueeze(o, n, ox_take(o, n, t, at, 0), 2);
}

/* x [B, S, H, D] by the tables at inputs `tables` and `tables` + 1. */
static value_id rotated(struct ox *o, const struct ox_node *n, value_id x, int tables, value_id at,
                        bool pairs) {
    value_id cosine = angles(o, n, tables, at), sine = angles(o, n, tables + 1, at);
    if (x == 0 || cosine == 0 || sine == 0) return 0;
    enum dtype d = ox_type(o, x)->dtype, wide = dtype_bits(d) < 32 ? DT_F32 : d;
    sx rot = sx_mul(pool(o), ox_type(o, cosine)->dims[3], ox_const(o, 2));
    value_id y = ox_rotate(o, n, ox_cast(o, n, x, wide), ox_cast(o, n, cosine, wide),
                           ox_cast(o, n, sine, wide), rot, pairs);
    return ox_cast(o, n, y, d);
}

/* 0 .. S - 1 as [1, S]. */
static value_id steps(struct ox *o, const struct ox_node *n, sx S) {
    sx dims[] = {ox_const(o, 1), S};
    return ox_iota(o, n, DT_I64, 2, dims, 1);
}

/* [B, S, hidden] as [B, S, heads, D], D of a number or a symbol. */
static value_id with_heads(struct ox *o, const struct ox_node *n, value_id x, sx heads) {
    if (x == 0) return 0;
    struct value t = *ox_type(o, x);
    if (t.rank != 3) return ox_fail(o, n, "operands must have 3 dims"), 0;
    sx dims[] = {t.dims[0], t.dims[1], heads, ox_div(o, n, t.dims[2], heads)};
    return ox_reshape(o, n, x, 4, dims);
}

/* is_packed_batching says nothing about the values, and `scale` is not used by ONNX Runtime. */
static bool op_rotary(struct ox *o, const struct ox_node *n) {
    static const int perm[] = {0, 2, 1, 3};
    value_id x = ox_in(o, n, 0), at = ox_cast(o, n, ox_in(o, n, 1), DT_I64),
             cosine = ox_in(o, n, 2);
    if (x == 0 || at == 0 || !ox_has_rank(o, n, cosine, 2, 2)) return false;
    struct value t = *ox_type(o, x), table = *ox_type(o, cosine);
    int64_t number = ox_attr_i(n, "num_heads", 0);
    if (t.rank != 3 && t.rank != 4) return ox_fail(o, n, "its input must have 3 or 4 dims");
    if (t.rank == 3 && number < 1 && ox_attr_i(n, "rotary_embedding_dim", 0) > 0)
        return ox_fail(o, n, "num_heads is missing");
    sx size = sx_mul(pool(o), table.dims[table.rank - 1], ox_const(o, 2));
    if (t.rank == 3 && ox_sx_is(o, size, 0)) return ox_fail(o, n, "its tables are empty");
    sx heads = t.rank == 3 && number < 1 ? ox_div(o, n, t.dims[2], size)
                                         : ox_const(o, number > 0 ? number : 1);
    sx S = t.rank == 4 ? t.dims[2] : t.dims[1];
    x = t.rank == 4 ? ox_permute(o, n, x, COUNT_OF(perm), perm) : with_heads(o, n, x, heads);
    if (ox_type(o, at)->rank == 1) at = ox_bin(o, n, OP_ADD, steps(o, n, S), at);
    value_id y = rotated(o, n, x, 2, at, ox_attr_i(n, "interleaved", 0) != 0);
    if (t.rank == 4) return ox_out(o, n, 0, ox_permute(o, n, y, COUNT_OF(perm), perm));
    return ox_out(o, n, 0, ox_reshape(o, n, y, 3, t.dims));
}

/* ---- MultiHeadAttention ---------------------------------------------------------------------- */

/* Part i of a packed tensor [B, S, N, parts, D] as [B, N, S, D]. */
static value_id packed_part(struct ox *o, const struct ox_node *n, value_id x, int i) {
    static const int perm[] = {0, 2, 1, 3};
    value_id v = ox_slice(o, n, x, 3, ox_const(o, i), ox_const(o, i + 1), 1);
    return ox_permute(o, n, ox_squeeze(o, n, v, 3), COUNT_OF(perm), perm);
}

/* x [B, N, S, D] plus its part of the bias, from `*at` on, which moves on. */
static value_id with_bias(struct ox *o, const struct ox_node *n, value_id x, sx *at) {
    if (x == 0 || !ox_has(n, 3)) return x;
    struct value t = *ox_type(o, x);
    sx end = sx_add(pool(o), *at, sx_mul(pool(o), t.dims[1], t.dims[3]));
    sx dims[] = {t.dims[1], ox_const(o, 1), t.dims[3]};
    value_id b = ox_reshape(o, n, ox_slice(o, n, ox_in(o, n, 3), 0, *at, end, 1), 3, dims);
    *at = end;
    return ox_bin(o, n, OP_ADD, x, b);
}

/* Operands with heads, [B, N, S, D] each, biases added. */
static bool multi_operands(struct ox *o, const struct ox_node *n, sx N, struct ox_heads *h) {
    value_id q = ox_in(o, n, 0), k = ox_has(n, 1) ? ox_in(o, n, 1) : 0;
    if (q == 0 || (ox_has(n, 1) && k == 0)) return false;
    sx at = ox_const(o, 0);
    if (ox_type(o, q)->rank == 5) {
        h->q = packed_part(o, n, q, 0);
        h->k = packed_part(o, n, q, 1);
        h->v = packed_part(o, n, q, 2);
    } else if (k == 0) {
        return ox_fail(o, n, "key is missing");
    } else if (ox_type(o, k)->rank == 5) {
        h->q = ox_split_heads(o, n, q, N);
        h->k = packed_part(o, n, k, 0);
        h->v = packed_part(o, n, k, 1);
    } else {
        h->q = ox_split_heads(o, n, q, N);
        h->k = ox_split_heads(o, n, k, N);
        h->v = ox_split_heads(o, n, ox_in(o, n, 2), N);
    }
    h->q = with_bias(o, n, h->q, &at);
    h->k = with_bias(o, n, h->k, &at);
    h->v = with_bias(o, n, h->v, &at);
    return h->q != 0 && h->k != 0 && h->v != 0;
}

/* New rows x behind those of the cache at input `past`: all of them, or with past_sequence_length so
 * many, in a cache that has room. */
static value_id after(struct ox *o, const struct ox_node *n, int past, value_id x) {
    if (!ox_has(n, past) || x == 0) return x;
    value_id cache = ox_in(o, n, past);
    if (!ox_has(n, 8)) {
        const value_id in[] = {cache, x};
        return ox_concat(o, n, 2, in, 2);
    }
    if (!ox_has_rank(o, n, cache, 4, 4) || !ox_has_rank(o, n, x, 4, 4)) return 0;
    struct value t = *ox_type(o, x);
    sx four[] = {ox_const(o, 1), ox_const(o, 1), t.dims[2], ox_const(o, 1)}, one = ox_const(o, 1);
    value_id first = ox_reshape(o, n, ox_cast(o, n, ox_in(o, n, 8), DT_I64), 1, &one);
    value_id at = ox_bin(o, n, OP_ADD, ox_iota(o, n, DT_I64, 1, &t.dims[2], 0), first);
    struct attrs a = attrs_default(OP_SCATTER_ALONG);
    a.axis = 2;
    a.has_axis = true;
    const value_id in[] = {cache, ox_expand(o, n, ox_reshape(o, n, at, 4, four), 4, t.dims), x};
    return ox_apply(o, n, OP_SCATTER_ALONG, 3, in, &a);
}

/* How many keys are there for all queries, in a cache that has room for more: [1]. */
static value_id valid_keys(struct ox *o, const struct ox_node *n, const struct ox_heads *h) {
    sx one = ox_const(o, 1);
    value_id past = ox_reshape(o, n, ox_cast(o, n, ox_in(o, n, 8), DT_I64), 1, &one);
    return ox_bin(o, n, OP_ADD, past, ox_sx_value(o, n, DT_I64, h->S));
}

/* The padding mask, lengths [B] or flags [B, L] or [B, S, L], as what is added to the scores. */
static value_id padding_bias(struct ox *o, const struct ox_node *n, const struct ox_heads *h) {
    value_id m = ox_in(o, n, 4), see;
    if (m == 0) return 0;
    struct value t = *ox_type(o, m);
    if (t.rank == 1) {
        sx dims[] = {ox_const(o, 1), h->L};
        value_id j = ox_iota(o, n, DT_I64, 2, dims, 1);
        if (t.dims[0] != h->B) return ox_fail(o, n, "cumulated lengths are not supported"), 0;
        see = ox_bin(o, n, OP_LT, j, ox_unsqueeze(o, n, ox_cast(o, n, m, DT_I64), 1));
        t.rank = 2;
    } else {
        see = ox_bin(o, n, OP_NE, m, ox_int(o, n, t.dtype, 0));
    }
    for (; t.rank < 5; t.rank++) /* the batch stays first, the keys last */
        see = ox_unsqueeze(o, n, see, 1);
    value_id hidden = ox_num(o, n, h->dtype, ox_attr_f(n, "mask_filter_value", -10000));
    return ox_tri(o, n, OP_WHERE, see, ox_num(o, n, h->dtype, 0), hidden);
}

/* Key j may be seen at position `at` [.., 1] if j <= at, and j > at - window (0: all). */
static value_id seen_by(struct ox *o, const struct ox_node *n, sx L, value_id at, int64_t window) {
    value_id j = ox_iota(o, n, DT_I64, 1, &L, 0);
    value_id see = ox_bin(o, n, OP_LE, j, at);
    if (window <= 0) return see;
    value_id first = ox_bin(o, n, OP_SUB, at, ox_int(o, n, DT_I64, window));
    return ox_bin(o, n, OP_LOGICAL_AND, see, ox_bin(o, n, OP_GT, j, first));
}

static value_id plus_both(struct ox *o, const struct ox_node *n, value_id a, value_id b) {
    return a == 0 ? b : b == 0 ? a : ox_bin(o, n, OP_ADD, a, b);
}

static bool op_multi_head(struct ox *o, const struct ox_node *n) {
    struct ox_heads h = {.flat = true, .past = ox_const(o, 0)};
    struct ox_attend a = {.softcap = 0};
    int64_t number = ox_attr_i(n, "num_heads", 0);
    if (number < 1) return ox_fail(o, n, "num_heads is %lld", (long long)number);
    if (ox_has(n, 9)) return ox_fail(o, n, "beams (cache_indirection) are not supported");
    if (ox_has(n, 8) && (!ox_has(n, 6) || !ox_has(n, 7)))
        return ox_fail(o, n, "past_sequence_length is there without a cache");
    if (!multi_operands(o, n, ox_const(o, number), &h)) return false;
    h.k = after(o, n, 6, h.k);
    h.v = after(o, n, 7, h.v);
    if (h.k == 0 || h.v == 0) return false;
    if (ox_has(n, 6) && !ox_has_rank(o, n, ox_in(o, n, 6), 4, 4)) return false;
    if (ox_has(n, 6)) h.past = ox_type(o, ox_in(o, n, 6))->dims[2];
    if (!ox_out(o, n, 1, h.k) || !ox_out(o, n, 2, h.v)) return false;
    if (!ox_group_heads(o, n, &h)) return false;
    if (ox_attr_i(n, "unidirectional", 0) != 0) {
        value_id past = ox_has(n, 8) ? ox_cast(o, n, ox_in(o, n, 8), DT_I64)
                                     : ox_sx_value(o, n, DT_I64, h.past);
        value_id at = ox_bin(o, n, OP_ADD, ox_iota(o, n, DT_I64, 1, &h.S, 0), past);
        a.see = seen_by(o, n, h.L, ox_unsqueeze(o, n, at, 1), 0);
        if (a.see == 0) return false;
    } else if (ox_has(n, 8)) {
        value_id j = ox_iota(o, n, DT_I64, 1, &h.L, 0);
        a.see = ox_bin(o, n, OP_LT, j, valid_keys(o, n, &h));
        if (a.see == 0) return false;
    }
    value_id padding = ox_has(n, 4) ? padding_bias(o, n, &h) : 0;
    value_id bias = ox_has(n, 5) ? ox_mask_heads(o, n, &h, ox_in(o, n, 5)) : 0;
    if ((ox_has(n, 4) && padding == 0) || (ox_has(n, 5) && bias == 0)) return false;
    a.bias = plus_both(o, n, padding, bias);
    a.root = ox_root_scale(o, n, h.q);
    a.soft = h.dtype == DT_F64 ? DT_F64 : DT_F32;
    if (a.root == 0) return false;
    value_id y = ox_attend(o, n, &h, &a);
    if (ox_wants(n, 3) && !ox_out(o, n, 3, ox_join_heads(o, n, &h, a.steps[2]))) return false;
    return ox_give_heads(o, n, &h, y);
}

/* ---- GroupQueryAttention --------------------------------------------------------------------- */

struct cached {
    sx B, S, P, T;   /* T: length of the cache that comes out */
    value_id before; /* valid rows of each batch's cache [B, 1] */
    value_id at;     /* positions of the new rows [B, S] */
    int64_t window;
};

/* The longer of two lengths. */
static bool longest(struct ox *o, const struct ox_node *n, sx a, sx b, sx *out) {
    if (!sx_proves_le(pool(o), a, b) && !sx_proves_le(pool(o), b, a))
        return ox_fail(o, n, "which of the cache and total_sequence_length is longer is unknown");
    *out = sx_proves_le(pool(o), a, b) ? b : a;
    return true;
}

static bool read_cache(struct ox *o, const struct ox_node *n, const struct value *q,
                       struct cached *c) {
    sx total;
    *c = (struct cached){.B = q->dims[0], .S = q->dims[1], .P = ox_const(o, 0)};
    c->window = ox_attr_i(n, "local_window_size", -1);
    if (ox_in_ints(o, n, 6, &total, 1) != 1) return false;
    if (ox_has(n, 3)) {
        value_id past = ox_in(o, n, 3);
        if (past == 0) return false;
        if (ox_type(o, past)->rank != 4) return ox_fail(o, n, "past_key must have 4 dims");
        c->P = ox_type(o, past)->dims[2];
    }
    if (!longest(o, n, c->P, total, &c->T)) return false;
    value_id last = ox_cast(o, n, ox_in(o, n, 5), DT_I64), one = ox_int(o, n, DT_I64, 1);
    sx dims[] = {c->B, ox_const(o, 1)};
    value_id S = ox_sx_value(o, n, DT_I64, c->S), zero = ox_int(o, n, DT_I64, 0);
    value_id before = ox_bin(o, n, OP_SUB, ox_bin(o, n, OP_ADD, last, one), S);
    c->before = ox_reshape(o, n, ox_bin(o, n, OP_MAXIMUM, before, zero), 2, dims);
    c->at = ox_bin(o, n, OP_ADD, steps(o, n, c->S), c->before);
    return c->at != 0;
}

/* The cache at input `past` with rows x [B, G, S, D] put behind its valid ones. */
static value_id extended(struct ox *o, const struct ox_node *n, const struct cached *c, int past,
                         value_id x) {
    if (x == 0 || (ox_sx_is(o, c->P, 0) && c->T == c->S)) return x;
    struct value t = *ox_type(o, x);
    sx zero = ox_const(o, 0), whole[] = {t.dims[0], t.dims[1], c->T, t.dims[3]};
    value_id base;
    if (ox_sx_is(o, c->P, 0)) {
        base = ox_expand(o, n, ox_int(o, n, t.dtype, 0), 4, whole);
    } else {
        struct attrs pad = attrs_default(OP_PAD);
        value_id old = ox_in(o, n, past);
        pad.n_list = pad.n_list2 = 4;
        for (int i = 0; i < 4; i++)
            pad.list[i] = pad.list2[i] = zero;
        pad.list2[2] = sx_sub(pool(o), c->T, c->P);
        base = c->T == c->P ? old : ox_apply(o, n, OP_PAD, 1, &old, &pad);
    }
    sx four[] = {c->B, ox_const(o, 1), c->S, ox_const(o, 1)};
    value_id index = ox_expand(o, n, ox_reshape(o, n, c->at, 4, four), 4, t.dims);
    struct attrs a = attrs_default(OP_SCATTER_ALONG);
    a.axis = 2;
    a.has_axis = true;
    const value_id in[] = {base, index, x};
    return ox_apply(o, n, OP_SCATTER_ALONG, 3, in, &a);
}

/* q, k and v as [B, S, heads, D]: three tensors, or one with all heads side by side. */
static bool grouped_operands(struct ox *o, const struct ox_node *n, int64_t H, int64_t G,
                             value_id out[3]) {
    value_id q = ox_in(o, n, 0);
    if (q == 0) return false;
    if (ox_has(n, 1)) {
        out[0] = with_heads(o, n, q, ox_const(o, H));
        out[1] = with_heads(o, n, ox_in(o, n, 1), ox_const(o, G));
        out[2] = with_heads(o, n, ox_in(o, n, 2), ox_const(o, G));
        return out[0] != 0 && out[1] != 0 && out[2] != 0;
    }
    value_id all = with_heads(o, n, q, ox_const(o, H + 2 * G));
    const int64_t edge[] = {0, H, H + G, H + 2 * G};
    for (int i = 0; i < 3; i++) {
        out[i] = ox_slice(o, n, all, 2, ox_const(o, edge[i]), ox_const(o, edge[i + 1]), 1);
        if (out[i] == 0) return false;
    }
    return true;
}

/* A cache of integers has scales: one in all, or one for each element of a row of all heads. */
struct cache_kind {
    value_id scale; /* of four dims; 0: the cache holds floats */
    value_id zero;  /* bytes of two elements each: 8 of them, 0: none */
};

static bool read_kind(struct ox *o, const struct ox_node *n, const char *attr, int scale, int64_t G,
                      sx D, struct cache_kind *kind) {
    sx one = ox_const(o, 1), each[] = {one, ox_const(o, G), one, D}, all[] = {one, one, one, one};
    int64_t bits = ox_attr_i(n, "kv_cache_bit_width", 8);
    *kind = (struct cache_kind){0};
    if (ox_attr_is(n, attr, "NONE", "NONE")) return true;
    bool tensor = ox_attr_is(n, attr, "PER_TENSOR", "NONE");
    if (!tensor && !ox_attr_is(n, attr, "PER_CHANNEL", "NONE"))
        return ox_fail(o, n, "this %s is not supported", attr);
    if (bits != 8 && bits != 4) return ox_fail(o, n, "kv_cache_bit_width is %lld", (long long)bits);
    if (!ox_has(n, scale)) return ox_fail(o, n, "a scale of the cache is missing");
    kind->scale = ox_reshape(o, n, ox_in(o, n, scale), 4, tensor ? all : each);
    if (kind->scale == 0 || bits == 8) return kind->scale != 0;
    kind->zero = ox_expand(o, n, ox_int(o, n, DT_U4, 8), 4, tensor ? all : each);
    return kind->zero != 0;
}

/* Rows as the cache has them, and back in dtype d. */
static value_id to_cache(struct ox *o, const struct ox_node *n, const struct cache_kind *kind,
                         value_id x) {
    if (x == 0 || kind->scale == 0) return x;
    struct attrs a = attrs_default(OP_QUANTIZE);
    const value_id in[] = {ox_cast(o, n, x, DT_F32), kind->scale, kind->zero};
    a.has_axis = true;
    a.axis = 3;
    a.dtype = kind->zero != 0 ? DT_U4 : DT_I8;
    value_id q = ox_apply(o, n, OP_QUANTIZE, kind->zero != 0 ? 3 : 2, in, &a);
    return kind->zero != 0 ? ox_bitcast(o, n, q, DT_U8) : q;
}

static value_id from_cache(struct ox *o, const struct ox_node *n, const struct cache_kind *kind,
                           enum dtype d, value_id x) {
    if (x == 0 || kind->scale == 0) return x;
    struct attrs a = attrs_default(OP_DEQUANTIZE);
    const value_id in[] = {kind->zero != 0 ? ox_bitcast(o, n, x, DT_U4) : x, kind->scale,
                           kind->zero};
    a.has_axis = true;
    a.axis = 3;
    return ox_cast(o, n, ox_apply(o, n, OP_DEQUANTIZE, kind->zero != 0 ? 3 : 2, in, &a), d);
}

static bool grouped_heads(struct ox *o, const struct ox_node *n, int64_t H, int64_t G,
                          struct cached *c, struct ox_heads *h) {
    static const int perm[] = {0, 2, 1, 3};
    value_id v[3];
    if (!grouped_operands(o, n, H, G, v) || !read_cache(o, n, ox_type(o, v[0]), c)) return false;
    if (ox_attr_i(n, "do_rotary", 0) != 0) {
        bool pairs = ox_attr_i(n, "rotary_interleaved", 0) != 0;
        value_id at = ox_has(n, 9) ? ox_cast(o, n, ox_in(o, n, 9), DT_I64) : c->at;
        for (int i = 0; i < 2; i++)
            v[i] = rotated(o, n, v[i], 7, at, pairs);
    }
    for (int i = 0; i < 3; i++)
        v[i] = ox_permute(o, n, v[i], COUNT_OF(perm), perm);
    if (v[0] == 0 || v[1] == 0 || v[2] == 0) return false;
    struct cache_kind kind[2];
    if (!read_kind(o, n, "k_quant_type", 12, G, ox_type(o, v[1])->dims[3], &kind[0]) ||
        !read_kind(o, n, "v_quant_type", 13, G, ox_type(o, v[2])->dims[3], &kind[1]))
        return false;
    enum dtype d = ox_type(o, v[0])->dtype;
    for (int i = 0; i < 2; i++) {
        v[1 + i] = extended(o, n, c, 3 + i, to_cache(o, n, &kind[i], v[1 + i]));
        if (v[1 + i] == 0 || !ox_out(o, n, 1 + i, v[1 + i])) return false;
        v[1 + i] = from_cache(o, n, &kind[i], d, v[1 + i]);
    }
    h->q = v[0], h->k = v[1], h->v = v[2];
    return h->k != 0 && h->v != 0 && ox_group_heads(o, n, h);
}

/* head_sink [H], or 0 for all heads with smooth_softmax. */
static value_id sink_of(struct ox *o, const struct ox_node *n, const struct ox_heads *h) {
    sx one = ox_const(o, 1), dims[] = {h->G, h->R, one, one};
    if (ox_has(n, 11)) return ox_reshape(o, n, ox_in(o, n, 11), 4, dims);
    return ox_attr_i(n, "smooth_softmax", 0) > 0
               ? ox_expand(o, n, ox_num(o, n, h->dtype, 0), 4, dims)
               : 0;
}

static bool op_group_query(struct ox *o, const struct ox_node *n) {
    struct ox_heads h = {.flat = true};
    struct cached c;
    struct ox_attend a = {.softcap = ox_attr_f(n, "softcap", 0)};
    int64_t H = ox_attr_i(n, "num_heads", 0), G = ox_attr_i(n, "kv_num_heads", 0);
    if (H < 1 || G < 1 || H > 1 << 20 || H % G != 0)
        return ox_fail(o, n, "num_heads is %lld, kv_num_heads %lld", (long long)H, (long long)G);
    if (ox_has(n, 14) || ox_has(n, 15) || ox_has(n, 16) ||
        ox_attr_i(n, "sliding_window_cache", 0) != 0)
        return ox_fail(o, n,
                       "norms of heads, lengths of queries and a cache that slides are not "
                       "supported");
    if (!grouped_heads(o, n, H, G, &c, &h)) return false;
    sx one = ox_const(o, 1), dims[] = {c.B, one, one, c.S, one};
    sx last = sx_sub(pool(o), c.S, one);
    value_id at = c.at;
    if (ox_attr_i(n, "causal", 1) == 0) /* what is valid, whatever its order */
        at = ox_expand(o, n, ox_bin(o, n, OP_ADD, c.before, ox_sx_value(o, n, DT_I64, last)), 2,
                       (const sx[]){c.B, c.S});
    a.see = seen_by(o, n, h.L, ox_reshape(o, n, at, 5, dims), c.window);
    a.bias = ox_has(n, 10) ? ox_mask_heads(o, n, &h, ox_in(o, n, 10)) : 0;
    a.sink = sink_of(o, n, &h);
    a.root = ox_root_scale(o, n, h.q);
    a.soft = h.dtype == DT_F64 ? DT_F64 : DT_F32;
    if (a.see == 0 || a.root == 0 || (ox_has(n, 10) && a.bias == 0)) return false;
    value_id y = ox_attend(o, n, &h, &a);
    int64_t kind = ox_attr_i(n, "qk_output", 0);
    if (ox_wants(n, 3) && (kind < 1 || kind > 2))
        return ox_fail(o, n, "qk_output is %lld", (long long)kind);
    if (y != 0 && ox_wants(n, 3)) {
        value_id zero = ox_num(o, n, h.dtype, 0);
        value_id qk = kind == 1 ? ox_tri(o, n, OP_WHERE, a.see, a.steps[2], zero) : a.steps[3];
        if (!ox_out(o, n, 3, ox_join_heads(o, n, &h, qk))) return false;
    }
    return ox_give_heads(o, n, &h, y);
}

const struct ox_op ox_contrib_attention[] = {
    {"com.microsoft", "RotaryEmbedding", 1, op_rotary},
    {"com.microsoft", "MultiHeadAttention", 1, op_multi_head},
    {"com.microsoft", "GroupQueryAttention", 1, op_group_query},
    {0},
};
