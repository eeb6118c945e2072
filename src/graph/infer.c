/* SPDX-License-Identifier: MIT
 * Type inference: operands and attributes in, result types and normalised attributes out.
 *
 * Each operator checks ranks, dims and dtypes by the rules of the graph text and writes its
 * attributes in normal form (axes >= 0 and sorted, -1 resolved, bounds of slices explicit).
 * Normalising twice changes nothing, so graph_verify can infer every node again and compare.
 * This file has the dispatch, the helpers, and the elementwise operators with where and cast.
 */
#include "graph/internal.h"

#include <string.h>

enum proem_status infer_fail(const struct infer *x, const char *format, ...) {
    struct str s;
    str_init(&s, x->g->arena->alloc);
    va_list ap;
    va_start(ap, format);
    str_vprintf(&s, format, ap);
    va_end(ap);
    enum proem_status st = s.failed
                               ? place_nomem(x->at)
                               : place_fail(x->at, "%s: %s", op_text_name(x->op), str_text(&s));
    str_free(&s);
    return st;
}

const struct value *infer_in(const struct infer *x, int i) {
    return i < x->n_in && x->in[i] != 0 ? graph_value(x->g, x->in[i]) : NULL;
}

enum proem_status infer_results(struct infer *x, int n, enum dtype d) {
    x->n_out = n;
    x->out = ARENA_NEW(x->g->arena, struct type, (size_t)n);
    if (x->out == NULL) return place_nomem(x->at);
    const struct value *v = infer_in(x, 0);
    for (int i = 0; i < n; i++) {
        x->out[i].dtype = d;
        if (v == NULL) continue;
        x->out[i].rank = v->rank;
        if (v->rank > 0) memcpy(x->out[i].dims, v->dims, (size_t)v->rank * sizeof(sx));
    }
    return PROEM_OK;
}

enum proem_status infer_axis(const struct infer *x, const char *what, int rank, int *axis) {
    if (*axis < -rank || *axis >= rank) {
        if (rank == 0)
            return infer_fail(x, "%s %d: %s is a scalar and has no axes", what, *axis,
                              x->n_in > 0 && x->in[0] != 0 ? label(x->g, x->in[0]) : "it");
        return infer_fail(x, "%s %d is out of range; it must be in [%d, %d]", what, *axis, -rank,
                          rank - 1);
    }
    if (*axis < 0) *axis += rank;
    return PROEM_OK;
}

enum proem_status infer_axes(const struct infer *x) {
    struct attrs *a = x->a;
    int rank = infer_in(x, 0)->rank;
    bool seen[MAX_RANK] = {false};
    if (a->n_axes < 0) {
        a->n_axes = rank;
        for (int i = 0; i < rank; i++)
            a->axes[i] = i;
        return PROEM_OK;
    }
    if (a->n_axes == 0 && rank > 0)
        return infer_fail(x, "axes=[] names no axis%s",
                          x->op == OP_FLIP ? "" : "; leave it out to mean all axes");
    for (int i = 0; i < a->n_axes; i++) {
        int axis = a->axes[i];
        TRY(infer_axis(x, "axis", rank, &axis));
        if (seen[axis]) return infer_fail(x, "axis %d is given twice", axis);
        seen[axis] = true;
    }
    a->n_axes = 0;
    for (int i = 0; i < rank; i++)
        if (seen[i]) a->axes[a->n_axes++] = i;
    return PROEM_OK;
}

enum proem_status infer_arith(const struct infer *x, int i, enum dtype *d) {
    const struct value *v = infer_in(x, i);
    *d = dtype_promote(v->dtype, v->dtype, true);
    if (*d == DT_NONE || !dtype_has_arith(v->dtype))
        return infer_fail(x, "%s: %s takes no arithmetic; cast it first", label(x->g, x->in[i]),
                          dtype_name(v->dtype));
    return PROEM_OK;
}

/* ---- elementwise ----------------------------------------------------------------------------- */

static enum proem_status no_broadcast(const struct infer *x, int i, int j) {
    const struct value *a = infer_in(x, i), *b = infer_in(x, j);
    int r = a->rank > b->rank ? a->rank : b->rank;
    for (int k = 1; k <= a->rank && k <= b->rank; k++) {
        sx one[1];
        int rank;
        sx da = a->dims[a->rank - k], db = b->dims[b->rank - k];
        if (dims_broadcast(x->g, 1, &da, 1, &db, &rank, one)) continue;
        return infer_fail(x,
                          "%s and %s do not broadcast: axis %d is %s in one and %s in the other; "
                          "make them equal, or 1 (unsqueeze, expand, or one symbol for both)",
                          label(x->g, x->in[i]), label(x->g, x->in[j]), r - k, label_dim(x->g, da),
                          label_dim(x->g, db));
    }
    return infer_fail(x, "%s and %s do not broadcast", label(x->g, x->in[i]),
                      label(x->g, x->in[j]));
}

/* Broadcast operands first.. into out. */
static enum proem_status broadcast(const struct infer *x, int first, struct type *out) {
    const struct value *v = infer_in(x, first);
    out->rank = v->rank;
    if (v->rank > 0) memcpy(out->dims, v->dims, (size_t)v->rank * sizeof(sx));
    for (int i = first + 1; i < x->n_in; i++) {
        v = infer_in(x, i);
        if (!dims_broadcast(x->g, out->rank, out->dims, v->rank, v->dims, &out->rank, out->dims)) {
            for (int j = first; j < i; j++) {
                const struct value *w = infer_in(x, j);
                struct type t;
                if (!dims_broadcast(x->g, w->rank, w->dims, v->rank, v->dims, &t.rank, t.dims))
                    return no_broadcast(x, j, i);
            }
            return no_broadcast(x, first, i);
        }
    }
    return PROEM_OK;
}

/* Why op_result_dtype said no, in words that say what to change. */
static enum proem_status no_dtype(const struct infer *x) {
    const struct op_info *info = op_info(x->op);
    for (int i = 0; i < x->n_in; i++) {
        enum dtype d = infer_in(x, i)->dtype;
        if (!dtype_has_arith(d) && (info->flags & OPF_QOK) == 0)
            return infer_fail(x, "%s: %s takes no arithmetic; cast it first", label(x->g, x->in[i]),
                              dtype_name(d));
    }
    for (int i = 0; i < x->n_in; i++) {
        enum dtype d = infer_in(x, i)->dtype;
        if ((info->rule == RULE_INT || info->rule == RULE_SHIFT) && dtype_is_float(d))
            return infer_fail(x, "%s: it takes integers; cast the operand first",
                              label(x->g, x->in[i]));
    }
    if (x->n_in == 1 || infer_in(x, 0)->dtype == infer_in(x, 1)->dtype)
        return infer_fail(x, "%s: it does not take %s; cast it first", label(x->g, x->in[0]),
                          dtype_name(infer_in(x, 0)->dtype));
    return infer_fail(x, "%s and %s have no common dtype; cast one of them", label(x->g, x->in[0]),
                      label(x->g, x->in[1]));
}

static enum proem_status elementwise(struct infer *x) {
    enum dtype types[3], d;
    bool scalar[3];
    for (int i = 0; i < x->n_in; i++) {
        types[i] = infer_in(x, i)->dtype;
        scalar[i] = infer_in(x, i)->rank == 0;
    }
    d = op_result_dtype(x->op, types, scalar, x->n_in, NULL);
    if (d == DT_NONE) return no_dtype(x);
    TRY(infer_results(x, 1, d));
    return broadcast(x, 0, &x->out[0]);
}

static enum proem_status where(struct infer *x) {
    const struct value *c = infer_in(x, 0), *a = infer_in(x, 1), *b = infer_in(x, 2);
    if (c->dtype != DT_BOOL)
        return infer_fail(x, "the condition %s must be bool; compare it, as in %s != 0",
                          label(x->g, x->in[0]), label_name(x->g, x->in[0]));
    enum dtype d = dtype_promote_ranked(a->dtype, a->rank == 0, b->dtype, b->rank == 0, false);
    if (d == DT_NONE)
        return infer_fail(x, "%s and %s have no common dtype; cast one of them",
                          label(x->g, x->in[1]), label(x->g, x->in[2]));
    TRY(infer_results(x, 1, d));
    return broadcast(x, 0, &x->out[0]);
}

static enum proem_status check_dtype(const struct infer *x, const char *what) {
    if (dtype_is_block(x->a->dtype))
        return infer_fail(x, "%s is a block format; only parameters have one",
                          dtype_name(x->a->dtype));
    if (x->a->dtype <= DT_NONE || x->a->dtype >= DT_COUNT)
        return infer_fail(x, "%s is missing", what);
    return PROEM_OK;
}

/* Another width rescales the last dim: total bits stay the same. */
static enum proem_status bitcast(struct infer *x) {
    TRY(check_dtype(x, "the dtype"));
    const struct value *v = infer_in(x, 0);
    int from = dtype_bits(v->dtype), to = dtype_bits(x->a->dtype);
    TRY(infer_results(x, 1, x->a->dtype));
    if (from == to) return PROEM_OK;
    if (v->rank == 0)
        return infer_fail(x, "%s has no last dim to rescale from %d to %d bits; unsqueeze it first",
                          label(x->g, x->in[0]), from, to);
    sx *last = &x->out[0].dims[v->rank - 1], scaled;
    bool ok = true;
    if (from > to) {
        ok = dim_op(x->g, '*', *last, sx_const(x->g->sx, from / to), &scaled);
    } else {
        scaled = dims_divide(x->g, x->at, *last, sx_const(x->g->sx, to / from));
        ok = scaled != 0;
    }
    if (!ok)
        return infer_fail(x,
                          "the last dim of %s cannot be rescaled from %d to %d bits; it must be "
                          "a multiple of %d",
                          label(x->g, x->in[0]), from, to, to > from ? to / from : 1);
    *last = scaled;
    return PROEM_OK;
}

/* take in a hook: one index a dim. The indices are scalars there; in a lowered graph they are the
 * tensors that stand for them, broadcast against each other. */
static enum proem_status lookup(struct infer *x) {
    const struct value *t = infer_in(x, 0);
    if (x->n_in - 1 != t->rank)
        return place_fail(x->at, "take: %s needs %d ind%s, one a dim, not %d",
                          label(x->g, x->in[0]), t->rank, t->rank == 1 ? "ex" : "ices",
                          x->n_in - 1);
    for (int i = 1; i < x->n_in; i++) {
        const struct value *v = infer_in(x, i);
        if (!dtype_is_int(v->dtype))
            return place_fail(x->at, "take: the index %s must be an integer",
                              label(x->g, x->in[i]));
    }
    TRY(infer_results(x, 1, t->dtype));
    struct type *out = &x->out[0];
    out->rank = 0;
    for (int i = 1; i < x->n_in; i++) {
        const struct value *v = infer_in(x, i);
        if (!dims_broadcast(x->g, out->rank, out->dims, v->rank, v->dims, &out->rank, out->dims))
            return place_fail(x->at, "take: the shape of index %s does not fit the others",
                              label(x->g, x->in[i]));
    }
    return PROEM_OK;
}

static enum proem_status dim(struct infer *x) {
    if (x->a->start == 0) return infer_fail(x, "the size is missing");
    TRY(infer_results(x, 1, DT_I64));
    x->out[0].rank = 0;
    return PROEM_OK;
}

/* What is stored in blocks has no elements before it is dequantized. */
static enum proem_status check_blocks(const struct infer *x) {
    for (int i = 0; i < x->n_in; i++) {
        const struct value *v = infer_in(x, i);
        if (v == NULL || !dtype_is_block(v->dtype) || (x->op == OP_DEQUANTIZE && i == 0)) continue;
        return infer_fail(x, "%s is stored in blocks; write dequantize(%s)", label(x->g, x->in[i]),
                          label_name(x->g, x->in[i]));
    }
    return PROEM_OK;
}

enum proem_status infer_types(struct infer *x) {
    TRY(check_blocks(x));
    if (op_is_elementwise(x->op)) return elementwise(x);
    switch (x->op) {
    case OP_WHERE: return where(x);
    case OP_CAST: TRY(check_dtype(x, "the dtype")); return infer_results(x, 1, x->a->dtype);
    case OP_BITCAST: return bitcast(x);
    case OP_LOOKUP: return lookup(x);
    case OP_DIM: return dim(x);
    case OP_DEQUANTIZE:
    case OP_QUANTIZE: return infer_quant(x);
    case OP_RESHAPE:
    case OP_PERMUTE:
    case OP_TRANSPOSE:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_UNSQUEEZE:
    case OP_FLIP:
    case OP_IOTA: return infer_layout(x);
    case OP_SLICE:
    case OP_SPLIT:
    case OP_CONCAT:
    case OP_PAD: return infer_slices(x);
    case OP_TAKE:
    case OP_TAKE_ALONG:
    case OP_SCATTER:
    case OP_SCATTER_ADD:
    case OP_SCATTER_ALONG: return infer_indexed(x);
    case OP_MATMUL:
    case OP_LINEAR:
    case OP_GROUPED_MATMUL:
    case OP_ATTENTION: return infer_contraction(x);
    default: return infer_reduction(x);
    }
}
