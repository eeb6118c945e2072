/* SPDX-License-Identifier: MIT
 * Type inference of contractions (matmul, linear, grouped_matmul, attention) and of quantization.
 */
#include "graph/internal.h"

#include <string.h>

/* ---- contractions ---------------------------------------------------------------------------- */

static bool is_f8_or_f4(enum dtype d) {
    return d == DT_F8E4M3FN || d == DT_F8E5M2 || d == DT_F4E2M1FN;
}

static bool is_small_int(enum dtype d) {
    return dtype_is_int(d) && dtype_bits(d) <= 8;
}

enum proem_status infer_product_dtype(const struct infer *x, int i, int j, enum dtype *d) {
    enum dtype a = infer_in(x, i)->dtype, b = infer_in(x, j)->dtype;
    if (a == DT_E8M0 || b == DT_E8M0)
        return infer_fail(x, "%s: e8m0 takes no arithmetic; cast it first",
                          label(x->g, x->in[a == DT_E8M0 ? i : j]));
    if (a == DT_BOOL && b == DT_BOOL)
        return infer_fail(x, "%s and %s are bool; cast one of them to a number",
                          label(x->g, x->in[i]), label(x->g, x->in[j]));
    if (is_f8_or_f4(a) || is_f8_or_f4(b))
        *d = a == DT_F64 || b == DT_F64 ? DT_F64 : DT_F32;
    else if ((is_small_int(a) || a == DT_BOOL) && (is_small_int(b) || b == DT_BOOL))
        *d = DT_I32;
    else
        *d = dtype_promote(a, b, true);
    if (*d == DT_NONE)
        return infer_fail(x, "%s and %s have no common dtype; cast one of them",
                          label(x->g, x->in[i]), label(x->g, x->in[j]));
    return PROEM_OK;
}

static enum proem_status inner_dims(const struct infer *x, sx a, sx b) {
    if (dims_same(x->g, a, b)) return PROEM_OK;
    return infer_fail(x,
                      "%s and %s: the inner dims are %s and %s; they must be equal (permute or "
                      "slice one of them)",
                      label(x->g, x->in[0]), label(x->g, x->in[1]), label_dim(x->g, a),
                      label_dim(x->g, b));
}

/* NumPy's matmul: a 1-dim operand is a row or column that vanishes from the result; the leading
 * dims broadcast. */
static enum proem_status matmul(struct infer *x) {
    const struct value *a = infer_in(x, 0), *b = infer_in(x, 1);
    enum dtype d;
    for (int i = 0; i < 2; i++) {
        if (infer_in(x, i)->rank == 0)
            return infer_fail(x, "%s is a scalar; use `*`", label(x->g, x->in[i]));
    }
    TRY(infer_product_dtype(x, 0, 1, &d));
    if (x->a->dtype != DT_NONE) d = x->a->dtype;
    sx ka = a->dims[a->rank - 1], kb = b->dims[b->rank > 1 ? b->rank - 2 : 0];
    TRY(inner_dims(x, ka, kb));
    TRY(infer_results(x, 1, d));
    struct type *t = &x->out[0];
    int za = a->rank > 2 ? a->rank - 2 : 0, zb = b->rank > 2 ? b->rank - 2 : 0;
    if (!dims_broadcast(x->g, za, a->dims, zb, b->dims, &t->rank, t->dims))
        return infer_fail(x, "the batch dims of %s and %s do not broadcast; make them equal or 1",
                          label(x->g, x->in[0]), label(x->g, x->in[1]));
    if (a->rank > 1) t->dims[t->rank++] = a->dims[a->rank - 2];
    if (b->rank > 1) t->dims[t->rank++] = b->dims[b->rank - 1];
    return PROEM_OK;
}

static enum proem_status linear(struct infer *x) {
    const struct value *v = infer_in(x, 0), *w = infer_in(x, 1), *b = infer_in(x, 2);
    enum dtype d, bd;
    if (v->rank == 0 || w->rank != 2)
        return infer_fail(x, "x=%s needs at least one dimension and w=%s exactly two, [N, K]",
                          label(x->g, x->in[0]), label(x->g, x->in[1]));
    TRY(infer_product_dtype(x, 0, 1, &d));
    TRY(inner_dims(x, v->dims[v->rank - 1], w->dims[1]));
    if (b != NULL) {
        TRY(infer_arith(x, 2, &bd));
        if (b->rank > 1 || (b->rank == 1 && !dims_same(x->g, b->dims[0], w->dims[0])))
            return infer_fail(x, "b=%s must have the shape [%s], the rows of w=%s",
                              label(x->g, x->in[2]), label_dim(x->g, w->dims[0]),
                              label(x->g, x->in[1]));
        enum dtype sum = dtype_promote_ranked(d, false, bd, b->rank == 0, true);
        if (sum == DT_NONE)
            return infer_fail(x, "b=%s does not go with a product in %s; cast it",
                              label(x->g, x->in[2]), dtype_name(d));
        d = sum;
    }
    TRY(infer_results(x, 1, d));
    x->out[0].dims[v->rank - 1] = w->dims[0];
    return PROEM_OK;
}

static enum proem_status grouped_matmul(struct infer *x) {
    const struct value *a = infer_in(x, 0), *b = infer_in(x, 1), *o = infer_in(x, 2);
    enum dtype d;
    if (a->rank != 2 || b->rank != 3)
        return infer_fail(x, "a=%s must be [T, K] and b=%s must be [E, K, N]",
                          label(x->g, x->in[0]), label(x->g, x->in[1]));
    TRY(infer_product_dtype(x, 0, 1, &d));
    TRY(inner_dims(x, a->dims[1], b->dims[1]));
    if (o->dtype != DT_I32 || o->rank != 1 || !dims_same(x->g, o->dims[0], b->dims[0]))
        return infer_fail(x, "offsets %s must be i32[%s], one for each group of b=%s",
                          label(x->g, x->in[2]), label_dim(x->g, b->dims[0]),
                          label(x->g, x->in[1]));
    TRY(infer_results(x, 1, d));
    x->out[0].dims[1] = b->dims[2];
    return PROEM_OK;
}

static enum proem_status attention_dim(const struct infer *x, int i, int di, int j, int dj) {
    const struct value *a = infer_in(x, i), *b = infer_in(x, j);
    if (dims_same(x->g, a->dims[di], b->dims[dj])) return PROEM_OK;
    return infer_fail(x, "dimension %d of %s and dimension %d of %s must be equal", di,
                      label(x->g, x->in[i]), dj, label(x->g, x->in[j]));
}

static enum proem_status attention(struct infer *x) {
    int results = x->n_out == 2 ? 2 : 1;
    const struct value *q = infer_in(x, 0), *k = infer_in(x, 1), *v = infer_in(x, 2);
    for (int i = 0; i < 3; i++) {
        const struct value *t = infer_in(x, i);
        if (t->rank != 4)
            return infer_fail(x,
                              "%s must have four dims: q [B, H, S, D], k [B, G, L, D], v "
                              "[B, G, L, E]",
                              label(x->g, x->in[i]));
        if (!dtype_is_float(t->dtype) || t->dtype == DT_E8M0)
            return infer_fail(x, "%s must be a float tensor; cast it", label(x->g, x->in[i]));
    }
    TRY(attention_dim(x, 0, 0, 1, 0));
    TRY(attention_dim(x, 0, 0, 2, 0));
    TRY(attention_dim(x, 1, 1, 2, 1));
    TRY(attention_dim(x, 1, 2, 2, 2));
    TRY(attention_dim(x, 0, 3, 1, 3));
    int64_t g;
    bool zero = sx_is_const(x->g->sx, k->dims[1], &g) && g == 0;
    if (zero || dims_divide(x->g, x->at, q->dims[1], k->dims[1]) == 0)
        return infer_fail(x, "the heads of %s must be a multiple of the heads of %s",
                          label(x->g, x->in[0]), label(x->g, x->in[1]));
    enum dtype d = q->dtype;
    TRY(infer_results(x, 2, d));
    x->n_out = results;
    x->out[0].dims[3] = v->dims[3];
    x->out[1].dtype = d == DT_F64 ? DT_F64 : DT_F32;
    x->out[1].rank = 3;
    return PROEM_OK;
}

enum proem_status infer_contraction(struct infer *x) {
    switch (x->op) {
    case OP_MATMUL: return matmul(x);
    case OP_LINEAR: return linear(x);
    case OP_GROUPED_MATMUL: return grouped_matmul(x);
    default: return attention(x);
    }
}

/* ---- quantization ---------------------------------------------------------------------------- */

/* A dimension of scale that is written D/block: exact, and so ceil(D/block) as well. */
static bool exact_blocks(const struct infer *x, int i) {
    const struct value *v = infer_in(x, 0), *s = infer_in(x, 1);
    sx whole;
    if (x->a->block <= 0 || i != x->a->axis) return false;
    return dim_op(x->g, '*', s->dims[i], sx_const(x->g->sx, x->a->block), &whole) &&
           dims_same(x->g, whole, v->dims[i]);
}

/* scale is a scalar; [D] along the axis (block 0); or of x's rank, each dim x's or 1, with
 * ceil(D/block) at the axis (block > 0). */
static bool scale_fits(const struct infer *x, const struct value *v, const struct value *s) {
    struct graph *g = x->g;
    const struct attrs *a = x->a;
    int64_t c;
    if (s->rank == 0) return true;
    if (a->block == 0 && s->rank == 1 && v->rank > 1)
        return dims_same(g, s->dims[0], v->dims[a->axis]);
    if (s->rank != v->rank) return false;
    for (int i = 0; i < v->rank; i++) {
        sx want = v->dims[i];
        if (a->block > 0 && i == a->axis)
            want = sx_ceil_div(g->sx, want, sx_const(g->sx, a->block));
        bool one = sx_is_const(g->sx, s->dims[i], &c) && c == 1;
        if (one && !(a->block > 0 && i == a->axis)) continue;
        if (!dims_same(g, s->dims[i], want) && !exact_blocks(x, i)) return false;
    }
    return true;
}

/* The axis with its blocks: how many scales belong there. */
static enum proem_status wrong_blocks(const struct infer *x) {
    const struct attrs *a = x->a;
    sx have = infer_in(x, 1)->dims[a->axis], dim = infer_in(x, 0)->dims[a->axis];
    const char *want = label_dim(x->g, sx_ceil_div(x->g->sx, dim, sx_const(x->g->sx, a->block)));
    return infer_fail(x,
                      "scale %s has %s along axis %d, but %s in blocks of %lld needs %s (the last "
                      "may be short); give it %s, or change `block`",
                      label(x->g, x->in[1]), label_dim(x->g, have), a->axis, label(x->g, x->in[0]),
                      (long long)a->block, want, want);
}

static bool blocks_fit(const struct infer *x) {
    const struct value *v = infer_in(x, 0), *s = infer_in(x, 1);
    int axis = x->a->axis;
    if (x->a->block <= 0 || s->rank != v->rank || v->rank == 0) return true;
    sx want = sx_ceil_div(x->g->sx, v->dims[axis], sx_const(x->g->sx, x->a->block));
    return dims_same(x->g, s->dims[axis], want) || exact_blocks(x, axis);
}

static enum proem_status check_scale(const struct infer *x) {
    const struct value *v = infer_in(x, 0), *s = infer_in(x, 1), *z = infer_in(x, 2);
    struct attrs *a = x->a;
    if (a->block < 0)
        return infer_fail(x, "block is %lld; it is never negative", (long long)a->block);
    bool uses_axis = a->block > 0 || (s->rank == 1 && v->rank > 1);
    if (!uses_axis && (a->axis < -v->rank || a->axis >= v->rank)) a->axis = 0;
    if (v->rank > 0) TRY(infer_axis(x, "axis", v->rank, &a->axis));
    if (!dtype_is_float(s->dtype))
        return infer_fail(x, "scale %s must be a float or e8m0 tensor; cast it",
                          label(x->g, x->in[1]));
    if (!blocks_fit(x)) return wrong_blocks(x);
    if (!scale_fits(x, v, s))
        return infer_fail(x,
                          "scale %s does not fit %s: it is a scalar%s, or has the rank of %s "
                          "with each dimension equal or 1%s",
                          label(x->g, x->in[1]), label(x->g, x->in[0]),
                          a->block == 0 ? ", or has the dimension at `axis`" : "",
                          label_name(x->g, x->in[0]),
                          a->block > 0 ? ", and one scale a block at `axis`" : "");
    if (z == NULL) return PROEM_OK;
    bool same = z->rank == s->rank;
    for (int i = 0; same && i < z->rank; i++)
        same = dims_same(x->g, z->dims[i], s->dims[i]);
    if (same) return PROEM_OK;
    return infer_fail(x, "zero %s must have the shape of scale %s", label(x->g, x->in[2]),
                      label(x->g, x->in[1]));
}

/* A tensor in a block format has its scales in it. */
static enum proem_status dequantize_blocks(struct infer *x) {
    if (infer_in(x, 1) != NULL || infer_in(x, 2) != NULL)
        return infer_fail(x, "%s has its scales in its blocks; leave out scale and zero",
                          label(x->g, x->in[0]));
    if (x->a->block != 0 || x->a->axis != attrs_default(OP_DEQUANTIZE).axis)
        return infer_fail(x,
                          "%s has blocks of its own along the last dim; leave out axis and block",
                          label(x->g, x->in[0]));
    if (x->a->dtype == DT_NONE) x->a->dtype = DT_F32;
    if (!dtype_is_float(x->a->dtype))
        return infer_fail(x, "dtype=%s is no float dtype; cast the result",
                          dtype_name(x->a->dtype));
    return infer_results(x, 1, x->a->dtype);
}

static enum proem_status dequantize(struct infer *x) {
    const struct value *q = infer_in(x, 0), *z = infer_in(x, 2);
    enum dtype d = x->a->dtype;
    if (dtype_is_block(q->dtype)) return dequantize_blocks(x);
    if (infer_in(x, 1) == NULL)
        return infer_fail(x, "the scale of %s is missing", label(x->g, x->in[0]));
    if (!dtype_is_int(q->dtype) && !is_f8_or_f4(q->dtype))
        return infer_fail(x, "%s must be of an integer, f8 or f4 dtype", label(x->g, x->in[0]));
    TRY(check_scale(x));
    if (z != NULL && z->dtype != q->dtype &&
        (!dtype_is_float(z->dtype) || !dtype_has_arith(z->dtype)))
        return infer_fail(x, "zero %s must have the dtype of %s or a float dtype; cast it",
                          label(x->g, x->in[2]), label(x->g, x->in[0]));
    if (d == DT_NONE) d = infer_in(x, 1)->dtype;
    if (d == DT_E8M0 && x->a->dtype == DT_NONE) d = DT_F32;
    if (!dtype_is_float(d))
        return infer_fail(x, "dtype=%s is no float dtype; cast the result", dtype_name(d));
    x->a->dtype = d;
    return infer_results(x, 1, d);
}

static enum proem_status quantize(struct infer *x) {
    const struct value *v = infer_in(x, 0), *z = infer_in(x, 2);
    enum dtype d = x->a->dtype;
    if (!dtype_is_float(v->dtype) || !dtype_has_arith(v->dtype))
        return infer_fail(x, "%s must be f64, f32, f16 or bf16; cast it", label(x->g, x->in[0]));
    TRY(check_scale(x));
    if (d == DT_NONE) d = z != NULL && dtype_is_int(z->dtype) ? z->dtype : DT_U8;
    if (!dtype_is_int(d) && !is_f8_or_f4(d))
        return infer_fail(x, "dtype=%s; it must be an integer, f8 or f4 dtype", dtype_name(d));
    if (z != NULL && !dtype_is_int(d))
        return infer_fail(x, "zero %s is not allowed with dtype=%s; leave it out",
                          label(x->g, x->in[2]), dtype_name(d));
    if (z != NULL && z->dtype != d && (!dtype_is_float(z->dtype) || !dtype_has_arith(z->dtype)))
        return infer_fail(x, "zero %s must have the result's dtype %s or a float dtype; cast it",
                          label(x->g, x->in[2]), dtype_name(d));
    x->a->dtype = d;
    return infer_results(x, 1, d);
}

enum proem_status infer_quant(struct infer *x) {
    return x->op == OP_QUANTIZE ? quantize(x) : dequantize(x);
}
