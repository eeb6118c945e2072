/* SPDX-License-Identifier: MIT
 * Operators that only move elements: views share the store, concat and pad copy, iota and constants
 * make. Exactness of moved elements is what it was.
 */
#include "eval/tensor.h"

static enum proem_status dim_value(struct ev *ev, sx e, int64_t *v) {
    if (dims_value(ev->g, ev->binding, e, v)) return PROEM_OK;
    return err_set(ev->err, PROEM_INVALID, "a dim of the graph has no value under this binding");
}

/* ---- views ----------------------------------------------------------------------------------- */

static void view(struct tensor *out, const struct tensor *in) {
    out->store = in->store;
    out->offset = in->offset;
    out->div_axis = -1;
    out->div = 1;
}

static void permuted(struct tensor *out, const struct tensor *in, const int *perm) {
    view(out, in);
    for (int d = 0; d < out->rank; d++) {
        out->stride[d] = in->stride[perm[d]];
    }
}

static enum proem_status sliced(struct ev *ev, const struct attrs *a, const struct tensor *in,
                                struct tensor *out) {
    int64_t start = 0;
    if (a->start != 0) TRY(dim_value(ev, a->start, &start));
    view(out, in);
    for (int d = 0; d < out->rank; d++) {
        out->stride[d] = in->stride[d] * (d == a->axis ? a->step : 1);
    }
    out->offset += start * in->stride[a->axis];
    return PROEM_OK;
}

static void split_parts(const struct node *n, const struct tensor *in, struct tensor *out) {
    int64_t at = 0;
    for (int k = 0; k < n->n_out; k++) {
        view(&out[k], in);
        memcpy(out[k].stride, in->stride, sizeof in->stride);
        out[k].offset += at * in->stride[n->attrs.axis];
        at += out[k].shape[n->attrs.axis];
    }
}

static void flipped(const struct attrs *a, const struct tensor *in, struct tensor *out) {
    view(out, in);
    memcpy(out->stride, in->stride, sizeof in->stride);
    for (int k = 0; k < a->n_axes; k++) {
        int d = a->axes[k];
        if (in->shape[d] == 0) continue;
        out->offset += (in->shape[d] - 1) * in->stride[d];
        out->stride[d] = -in->stride[d];
    }
}

/* Same elements, other dims: strides exist when the input is compact, else copy. */
static enum proem_status reshaped(struct ev *ev, const struct tensor *in, struct tensor *out) {
    struct tensor c = *in;
    if (!tensor_is_compact(in)) TRY(tensor_compact(ev, in, &c));
    view(out, &c);
    int64_t stride = 1;
    for (int d = out->rank - 1; d >= 0; d--) {
        out->stride[d] = stride;
        stride *= out->shape[d];
    }
    return PROEM_OK;
}

enum proem_status eval_layout(struct ev *ev, const struct node *n, const struct tensor *in,
                              struct tensor *out) {
    int perm[MAX_RANK];
    switch (n->op) {
    case OP_PERMUTE: permuted(out, in, n->attrs.perm); return PROEM_OK;
    case OP_TRANSPOSE:
        for (int d = 0; d < in->rank; d++) {
            perm[d] = d;
        }
        if (in->rank >= 2) {
            perm[in->rank - 1] = in->rank - 2;
            perm[in->rank - 2] = in->rank - 1;
        }
        permuted(out, in, perm);
        return PROEM_OK;
    case OP_EXPAND: {
        struct tensor v = tensor_expand(in, out->rank, out->shape);
        v.dtype = out->dtype;
        *out = v;
        return PROEM_OK;
    }
    case OP_UNSQUEEZE: {
        int axis = n->attrs.axis;
        view(out, in);
        for (int d = 0; d < out->rank; d++) {
            out->stride[d] = d == axis ? 0 : in->stride[d < axis ? d : d - 1];
        }
        return PROEM_OK;
    }
    case OP_SQUEEZE: {
        int axis = n->attrs.axis;
        view(out, in);
        for (int d = 0; d < out->rank; d++) {
            out->stride[d] = in->stride[d < axis ? d : d + 1];
        }
        return PROEM_OK;
    }
    case OP_SLICE: return sliced(ev, &n->attrs, in, out);
    case OP_SPLIT: split_parts(n, in, out); return PROEM_OK;
    case OP_FLIP: flipped(&n->attrs, in, out); return PROEM_OK;
    default: return reshaped(ev, in, out);
    }
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* A compact tensor's part: `out` restricted to [at, at + len) along axis, row by row from src. */
static void place_part(const struct tensor *src, struct tensor *out, int axis, int64_t at) {
    int64_t outer = 1, inner = 1;
    for (int d = 0; d < axis; d++) {
        outer *= out->shape[d];
    }
    for (int d = axis + 1; d < out->rank; d++) {
        inner *= out->shape[d];
    }
    int64_t row = src->shape[axis] * inner;
    for (int64_t o = 0; o < outer && row > 0; o++) {
        copy_range(src, o * row, row, out, (o * out->shape[axis] + at) * inner);
    }
}

static enum proem_status channels_like(struct ev *ev, struct tensor *out, const struct tensor *in,
                                       int n) {
    for (int k = 0; k < n; k++) {
        for (int c = 0; c < CH_COUNT; c++) {
            if (in[k].store->ch[c] != NULL) TRY(tensor_channel(ev, out, c));
        }
    }
    return PROEM_OK;
}

enum proem_status eval_concat(struct ev *ev, const struct node *n, const struct tensor *in,
                              struct tensor *out) {
    struct tensor *part = ARENA_NEW(&ev->scratch, struct tensor, (size_t)n->n_in);
    if (part == NULL) return err_nomem(ev->err);
    for (int k = 0; k < n->n_in; k++) {
        part[k] = in[k];
        if (in[k].dtype != out->dtype) TRY(tensor_cast(ev, &in[k], out->dtype, &part[k]));
    }
    TRY(tensor_new(ev, out));
    TRY(channels_like(ev, out, part, n->n_in));
    int64_t at = 0;
    for (int k = 0; k < n->n_in; k++) {
        place_part(&part[k], out, n->attrs.axis, at);
        at += part[k].shape[n->attrs.axis];
    }
    return PROEM_OK;
}

static union scalar number(enum dtype d, double v) {
    return elem_cast(DT_F64, (union scalar){.f = v}, d, false);
}

static void fill(struct tensor *out, union scalar v) {
    double x = dtype_is_float(out->dtype) ? v.f : (double)v.i;
    for (int64_t i = 0; i < out->n; i++) {
        elem_store(out->dtype, out->store->data, i, v);
        for (int c = 0; c < CH_COUNT; c++) {
            if (out->store->ch[c] != NULL) out->store->ch[c][i] = c == CH_MAG ? fabs(x) : x;
        }
    }
}

enum proem_status eval_pad(struct ev *ev, const struct node *n, const struct tensor *in,
                           struct tensor *out) {
    TRY(tensor_new(ev, out));
    TRY(channels_like(ev, out, in, 1));
    fill(out, number(out->dtype, n->attrs.param[0]));
    int64_t low[MAX_RANK] = {0};
    for (int d = 0; d < out->rank && d < n->attrs.n_list; d++) {
        TRY(dim_value(ev, n->attrs.list[d], &low[d]));
    }
    int last = in->rank - 1;
    if (in->n == 0) return PROEM_OK;
    if (in->rank == 0) {
        copy_range(in, 0, 1, out, 0);
        return PROEM_OK;
    }
    for (int64_t row = 0; row < in->n / in->shape[last]; row++) {
        int64_t rest = row, at = low[last], stride = out->shape[last];
        for (int d = last - 1; d >= 0; d--) {
            at += (rest % in->shape[d] + low[d]) * stride;
            rest /= in->shape[d];
            stride *= out->shape[d];
        }
        copy_range(in, row * in->shape[last], in->shape[last], out, at);
    }
    return PROEM_OK;
}

enum proem_status eval_iota(struct ev *ev, const struct node *n, const struct tensor *in,
                            struct tensor *out) {
    (void)in;
    TRY(tensor_new(ev, out));
    int axis = n->attrs.axis;
    int64_t inner = 1;
    for (int d = axis + 1; d < out->rank; d++) {
        inner *= out->shape[d];
    }
    bool is_float = dtype_is_float(out->dtype);
    bool loose = is_float && ev->mode != EVAL_EAGER;
    TRY(tensor_intervals(ev, out, loose));
    for (int64_t i = 0; i < out->n; i++) {
        int64_t c = i / inner % out->shape[axis];
        union scalar v = elem_cast(DT_I64, (union scalar){.i = c}, out->dtype, false);
        elem_store(out->dtype, out->store->data, i, v);
        if (!ev->track) continue;
        struct iv r = iv_point(is_float ? v.f : (double)v.i);
        if (loose) r = iv_cast(DT_I64, out->dtype, false, true, ev->mode, iv_point((double)c));
        if (out->store->ch[CH_LO] != NULL) {
            out->store->ch[CH_LO][i] = r.lo;
            out->store->ch[CH_HI][i] = r.hi;
        }
        if (out->store->ch[CH_MAG] != NULL) out->store->ch[CH_MAG][i] = iv_mag(r);
    }
    tensor_drop_exact(ev, out);
    return PROEM_OK;
}

/* A constant, or the value of a symbolic size. */
enum proem_status eval_const(struct ev *ev, const struct node *n, const struct tensor *in,
                             struct tensor *out) {
    (void)in;
    TRY(tensor_new(ev, out));
    union scalar v = n->constant;
    if (n->op == OP_DIM) TRY(dim_value(ev, n->attrs.start, &v.i));
    if (dtype_is_float(out->dtype)) v.f = float_round(out->dtype, v.f, false);
    elem_store(out->dtype, out->store->data, 0, v);
    return PROEM_OK;
}
