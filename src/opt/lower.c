/* SPDX-License-Identifier: MIT
 * Lowering, the pass: every node of the source graph in order, copied when it is a primitive and
 * rebuilt by its rule when it is a composite. Inner values of a composite are f32 (f64 for f64)
 * and unrounded; the result is an implied cast, the composite's only rounding.
 *
 * needs: verified graph; keeps: names of source values, parameters, outputs; breaks: nothing.
 */
#include "opt/lower_internal.h"
#include "ops/block.h"

#include <string.h>

bool op_is_primitive(enum op op) {
    switch ((int)op) {
    case OP_DEQUANTIZE:
    case OP_QUANTIZE:
    case OP_MEAN:
    case OP_SOFTMAX:
    case OP_LOG_SOFTMAX:
    case OP_RMS_NORM:
    case OP_LAYER_NORM:
    case OP_LINEAR:
    case OP_GROUPED_MATMUL:
    case OP_ATTENTION: return false;
    default: return true;
    }
}

/* ---- building blocks ------------------------------------------------------------------------- */

const struct value *lw_val(const struct lower *l, value_id v) {
    return graph_value(l->dst, v);
}

value_id lw_apply(struct lower *l, enum op op, int n, const value_id *in, const struct attrs *a) {
    struct attrs defaults;
    if (a == NULL) {
        defaults = attrs_default(op);
        a = &defaults;
    }
    return graph_apply(l->dst, &l->at, op, n, in, a);
}

value_id lw_1(struct lower *l, enum op op, value_id x) {
    return lw_apply(l, op, 1, &x, NULL);
}

value_id lw_2(struct lower *l, enum op op, value_id a, value_id b) {
    return lw_apply(l, op, 2, (value_id[]){a, b}, NULL);
}

value_id lw_to(struct lower *l, value_id v, enum dtype d) {
    if (v == 0 || lw_val(l, v)->dtype == d) return v;
    struct attrs a = attrs_default(OP_CAST);
    a.dtype = d;
    a.implied = true;
    return lw_apply(l, OP_CAST, 1, &v, &a);
}

value_id lw_const(struct lower *l, enum dtype d, double v) {
    union scalar s = dtype_is_float(d) ? (union scalar){.f = float_round(d, v, false)}
                                       : (union scalar){.i = (int64_t)v};
    return graph_const(l->dst, &l->at, d, s);
}

value_id lw_dim(struct lower *l, sx e, enum dtype d) {
    int64_t v;
    if (sx_is_const(l->dst->sx, e, &v)) {
        union scalar s = {.i = v};
        return graph_const(l->dst, &l->at, d, elem_cast(DT_I64, s, d, false));
    }
    struct attrs a = attrs_default(OP_DIM);
    a.start = e;
    return lw_to(l, lw_apply(l, OP_DIM, 0, NULL, &a), d);
}

value_id lw_reduce(struct lower *l, enum op op, value_id x, int axis) {
    struct attrs a = attrs_default(op);
    a.n_axes = 1;
    a.axes[0] = axis;
    a.flag = true; /* keepdims */
    return lw_apply(l, op, 1, &x, &a);
}

value_id lw_where(struct lower *l, value_id c, value_id a, value_id b) {
    return lw_apply(l, OP_WHERE, 3, (value_id[]){c, a, b}, NULL);
}

static value_id with_dims(struct lower *l, enum op op, value_id x, int rank, const sx *dims) {
    struct attrs a = attrs_default(op);
    a.n_list = rank;
    memcpy(a.list, dims, (size_t)rank * sizeof *dims);
    return lw_apply(l, op, 1, &x, &a);
}

value_id lw_reshape(struct lower *l, value_id x, int rank, const sx *dims) {
    return with_dims(l, OP_RESHAPE, x, rank, dims);
}

value_id lw_expand(struct lower *l, value_id x, int rank, const sx *dims) {
    return with_dims(l, OP_EXPAND, x, rank, dims);
}

value_id lw_unsqueeze(struct lower *l, value_id x, int axis) {
    struct attrs a = attrs_default(OP_UNSQUEEZE);
    a.axis = axis;
    a.has_axis = true;
    return lw_apply(l, OP_UNSQUEEZE, 1, &x, &a);
}

value_id lw_iota(struct lower *l, int rank, int axis, sx extent) {
    struct attrs a = attrs_default(OP_IOTA);
    a.dtype = DT_I64;
    a.axis = axis;
    a.has_axis = true;
    a.n_list = rank;
    for (int i = 0; i < rank; i++)
        a.list[i] = i == axis ? extent : sx_const(l->dst->sx, 1);
    return lw_apply(l, OP_IOTA, 0, NULL, &a);
}

/* An index that lowering itself built, known to be in bounds: not checked again. */
value_id lw_take(struct lower *l, value_id x, value_id index, int axis) {
    struct attrs a = attrs_default(OP_TAKE);
    a.axis = axis;
    a.has_axis = true;
    a.implied = true;
    return lw_apply(l, OP_TAKE, 2, (value_id[]){x, index}, &a);
}

static bool is_f8(const struct lower *l, value_id v) {
    enum dtype d = v != 0 ? lw_val(l, v)->dtype : DT_F32;
    return d == DT_F8E4M3FN || d == DT_F8E5M2;
}

/* More rows than what is evaluated in a product that waits for its weights. */
#define MANY_ROWS 64

/* Hopper's sums of fp8 products are shorter than f32: see tile_cuda.c. */
static bool as_f16(const struct lower *l, value_id a, value_id b, enum dtype out) {
    const struct device_desc *d = l->device;
    if (d == NULL || d->kind != DEVICE_CUDA || d->gpu.cc != 90 || !d->gpu.specific) return false;
    if (!is_f8(l, a) || !is_f8(l, b) || out == DT_F64) return false;
    const struct value *v = lw_val(l, a);
    int64_t rows = 1, n;
    for (int i = 0; i + 1 < v->rank && rows <= MANY_ROWS; i++) {
        if (!dims_value(l->dst, l->dims, v->dims[i], &n)) return false;
        rows = n < 1 ? 0 : rows * (n > MANY_ROWS ? MANY_ROWS + 1 : n);
    }
    return rows > MANY_ROWS;
}

/* v as f16, before what only looks at all of it in another order: it is stored as it lies. */
static value_id widened(struct lower *l, value_id v) {
    const struct node *n = v != 0 ? graph_def(l->dst, v) : NULL;
    enum op op = n != NULL ? n->op : OP_NONE;
    bool same = op == OP_RESHAPE || op == OP_PERMUTE || op == OP_TRANSPOSE || op == OP_SQUEEZE ||
                op == OP_UNSQUEEZE || op == OP_EXPAND;
    if (!same) return lw_to(l, v, DT_F16);
    struct attrs at = n->attrs;
    value_id x = widened(l, n->in[0]);
    return lw_apply(l, op, 1, &x, &at);
}

static value_id apply_matmul(struct lower *l, value_id a, value_id b, enum dtype out,
                             struct attrs at) {
    if (!at.flag && as_f16(l, a, b, out)) {
        at.dtype = out;
        a = widened(l, a);
        b = widened(l, b);
    }
    return lw_apply(l, OP_MATMUL, 2, (value_id[]){a, b}, &at);
}

value_id lw_matmul_hides(struct lower *l, value_id a, value_id b, enum dtype out, bool hides) {
    struct attrs at = attrs_default(OP_MATMUL);
    at.dtype = out;
    at.flag = hides;
    return apply_matmul(l, a, b, out, at);
}

value_id lw_matmul(struct lower *l, value_id a, value_id b, enum dtype out) {
    return lw_matmul_hides(l, a, b, out, false);
}

value_id lw_transpose(struct lower *l, value_id x) {
    return lw_1(l, OP_TRANSPOSE, x);
}

enum dtype lw_inner(const struct lower *l, value_id x) {
    return x != 0 && lw_val(l, x)->dtype == DT_F64 ? DT_F64 : DT_F32;
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* The largest along an axis, -inf if there is nothing. */
static value_id max_of(struct lower *l, value_id x, int axis) {
    int64_t n = 1;
    if (x == 0) return 0;
    enum dtype d = lw_val(l, x)->dtype;
    if (!sx_is_const(l->dst->sx, lw_val(l, x)->dims[axis], &n) || n != 0)
        return lw_reduce(l, OP_MAX, x, axis);
    return lw_2(l, OP_ADD, lw_reduce(l, OP_SUM, x, axis), lw_const(l, d, -__builtin_inf()));
}

/* softmax in the inner dtype, not yet rounded. A row of -inf alone has a maximum of -inf and gives
 * NaN, as in PyTorch, when empty is false; with lse != NULL it gives zeros, as attention wants. */
value_id lower_softmax_of(struct lower *l, value_id x, int axis, value_id *lse) {
    enum dtype d = lw_inner(l, x);
    value_id m = max_of(l, x, axis);
    if (lse != NULL) {
        value_id low = lw_const(l, d, -__builtin_inf());
        m = lw_where(l, lw_2(l, OP_EQ, m, low), lw_const(l, d, 0.0), m);
    }
    value_id e = lw_1(l, OP_EXP, lw_2(l, OP_SUB, x, m));
    value_id s = lw_reduce(l, OP_SUM, e, axis);
    if (lse == NULL) return lw_2(l, OP_DIV, e, s);
    *lse = lw_2(l, OP_ADD, m, lw_1(l, OP_LOG, s));
    /* An empty row has e = 0 everywhere: any divisor but 0 will do. */
    value_id empty = lw_2(l, OP_EQ, s, lw_const(l, d, 0.0));
    return lw_2(l, OP_DIV, e, lw_where(l, empty, lw_const(l, d, 1.0), s));
}

static value_id lower_log_softmax(struct lower *l, value_id x, int axis) {
    value_id shifted = lw_2(l, OP_SUB, x, max_of(l, x, axis));
    value_id s = lw_reduce(l, OP_SUM, lw_1(l, OP_EXP, shifted), axis);
    return lw_2(l, OP_SUB, shifted, lw_1(l, OP_LOG, s));
}

static value_id mean_of(struct lower *l, value_id x, int axis) {
    value_id sum = lw_reduce(l, OP_SUM, x, axis);
    if (sum == 0) return 0;
    const struct value *v = lw_val(l, x);
    return lw_2(l, OP_DIV, sum, lw_dim(l, v->dims[axis], v->dtype));
}

static value_id lower_norm(struct lower *l, const struct node *n, const value_id *in) {
    enum dtype d = lw_inner(l, in[0]);
    value_id x = lw_to(l, in[0], d);
    if (x == 0) return 0;
    int axis = lw_val(l, x)->rank - 1;
    if (n->op == OP_LAYER_NORM) x = lw_2(l, OP_SUB, x, mean_of(l, x, axis));
    value_id var = mean_of(l, lw_1(l, OP_SQUARE, x), axis);
    value_id r = lw_1(l, OP_RSQRT, lw_2(l, OP_ADD, var, lw_const(l, d, n->attrs.param[0])));
    value_id y = lw_2(l, OP_MUL, x, r);
    if (n->n_in > 1 && in[1] != 0) y = lw_2(l, OP_MUL, y, lw_to(l, in[1], d));
    if (n->n_in > 2 && in[2] != 0) y = lw_2(l, OP_ADD, y, lw_to(l, in[2], d));
    return y;
}

static value_id lower_mean(struct lower *l, const struct node *n, value_id x) {
    struct graph *g = l->dst;
    value_id xf = lw_to(l, x, lw_inner(l, x));
    if (xf == 0) return 0;
    struct attrs a = n->attrs;
    sx count = sx_const(g->sx, 1);
    const struct value *v = lw_val(l, xf);
    for (int i = 0; i < v->rank; i++) {
        bool reduced = a.n_axes < 0;
        for (int j = 0; j < a.n_axes; j++)
            reduced = reduced || a.axes[j] == i;
        if (reduced) count = sx_mul(g->sx, count, v->dims[i]);
    }
    enum dtype d = v->dtype;
    value_id sum = lw_apply(l, OP_SUM, 1, &xf, &a);
    return lw_2(l, OP_DIV, sum, lw_dim(l, count, d));
}

static value_id lower_linear(struct lower *l, const struct node *n, const value_id *in) {
    const struct value *result = graph_value(l->src, n->out);
    bool is_float = dtype_is_float(result->dtype);
    enum dtype d = !is_float ? DT_NONE : result->dtype == DT_F64 ? DT_F64 : DT_F32;
    value_id wt = lw_val(l, in[1])->rank == 1 ? in[1] : lw_transpose(l, in[1]);
    value_id y = lw_matmul(l, in[0], wt, d);
    if (n->n_in < 3 || in[2] == 0) return y;
    return lw_2(l, OP_ADD, y, is_float ? lw_to(l, in[2], d) : in[2]);
}

/* scale or zero of a (de)quantize, shaped to broadcast against q: one value per element of the axis
 * ([D], block 0) or per block of it (repeated block times, cut to the axis). */
static value_id spread(struct lower *l, const struct node *n, value_id q, value_id s) {
    if (s == 0 || lw_val(l, s)->rank == 0) return s;
    struct sx_pool *sp = l->dst->sx;
    const struct value qv = *lw_val(l, q);
    const struct value sv = *lw_val(l, s);
    int axis = n->attrs.axis;
    sx dims[MAX_RANK + 1];
    if (sv.rank == 1 && n->attrs.block == 0 && qv.rank > 1) {
        for (int i = 0; i < qv.rank; i++)
            dims[i] = i == axis ? sv.dims[0] : sx_const(sp, 1);
        return lw_reshape(l, s, qv.rank, dims);
    }
    if (n->attrs.block <= 0 || sv.dims[axis] == qv.dims[axis]) return s;
    if (qv.rank + 1 > MAX_RANK) {
        err_set_at(l->at.err, PROEM_UNSUPPORTED, n->line, n->col,
                   "%s: blocks along an axis of a tensor of rank %d are not supported",
                   op_info(n->op)->name, qv.rank);
        return 0;
    }
    value_id wide = lw_unsqueeze(l, s, axis + 1);
    for (int i = 0; i <= qv.rank; i++) {
        dims[i] = i <= axis       ? sv.dims[i]
                  : i == axis + 1 ? sx_const(sp, n->attrs.block)
                                  : sv.dims[i - 1];
    }
    wide = lw_expand(l, wide, qv.rank + 1, dims);
    for (int i = 0; i < qv.rank; i++)
        dims[i] = sv.dims[i];
    dims[axis] = sx_mul(sp, sv.dims[axis], sx_const(sp, n->attrs.block));
    value_id flat = lw_reshape(l, wide, qv.rank, dims);
    if (flat == 0 || dims[axis] == qv.dims[axis]) return flat;
    struct attrs a = attrs_default(OP_SLICE);
    a.axis = axis;
    a.has_axis = true;
    a.start = sx_const(sp, 0);
    a.stop = qv.dims[axis];
    return lw_apply(l, OP_SLICE, 1, &flat, &a);
}

static value_id lower_dequantize(struct lower *l, const struct node *n, const value_id *in) {
    enum dtype stored = graph_value(l->src, n->in[0])->dtype;
    if (dtype_is_block(stored)) return lower_blocks(l, stored, in[0]);
    enum dtype d = graph_value(l->src, n->out)->dtype == DT_F64 || lw_val(l, in[1])->dtype == DT_F64
                       ? DT_F64
                       : DT_F32;
    value_id q = lw_to(l, in[0], d);
    value_id zero = n->n_in > 2 ? spread(l, n, in[0], in[2]) : 0;
    if (n->n_in > 2 && in[2] != 0) q = lw_2(l, OP_SUB, q, lw_to(l, zero, d));
    return lw_2(l, OP_MUL, q, lw_to(l, spread(l, n, in[0], in[1]), d));
}

static value_id lower_quantize(struct lower *l, const struct node *n, const value_id *in) {
    enum dtype to = graph_value(l->src, n->out)->dtype;
    enum dtype d = lw_inner(l, in[0]);
    value_id x = lw_2(l, OP_DIV, lw_to(l, in[0], d), lw_to(l, spread(l, n, in[0], in[1]), d));
    struct attrs a = attrs_default(OP_CAST);
    a.dtype = to;
    a.flag = true; /* saturate */
    if (dtype_is_int(to)) {
        x = lw_1(l, OP_ROUND, x);
        if (n->n_in > 2 && in[2] != 0)
            x = lw_2(l, OP_ADD, x, lw_to(l, spread(l, n, in[0], in[2]), d));
    }
    return lw_apply(l, OP_CAST, 1, &x, &a);
}

static value_id lower_composite(struct lower *l, const struct node *n, const value_id *in,
                                value_id *second) {
    switch ((int)n->op) {
    case OP_DEQUANTIZE: return lower_dequantize(l, n, in);
    case OP_QUANTIZE: return lower_quantize(l, n, in);
    case OP_MEAN: return lower_mean(l, n, in[0]);
    case OP_SOFTMAX:
        return lower_softmax_of(l, lw_to(l, in[0], lw_inner(l, in[0])), n->attrs.axis, NULL);
    case OP_LOG_SOFTMAX:
        return lower_log_softmax(l, lw_to(l, in[0], lw_inner(l, in[0])), n->attrs.axis);
    case OP_RMS_NORM:
    case OP_LAYER_NORM: return lower_norm(l, n, in);
    case OP_LINEAR: return lower_linear(l, n, in);
    case OP_GROUPED_MATMUL: return lower_grouped(l, n, in);
    case OP_ATTENTION: return lower_attention(l, n, in, second);
    default: return 0;
    }
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool add_check(struct lower *l, enum check_kind kind, value_id v, sx bound, node_id user) {
    struct data_check c = {kind, v, bound, user};
    for (size_t i = 0; i < l->out->checks.n; i++) {
        const struct data_check *o = &l->out->checks.at[i];
        if (o->kind == kind && o->value == v && o->bound == bound) return true;
    }
    return VEC_PUSH(l->dst->arena, &l->out->checks, c);
}

/* Data that operators of the finished lowered graph rely on. */
static enum proem_status collect_checks(struct lower *l) {
    const struct graph *g = l->dst;
    for (node_id i = 1; i < g->nodes.n; i++) {
        const struct node *n = graph_node(g, i);
        bool ok = true;
        bool gather = n->op == OP_TAKE || n->op == OP_TAKE_ALONG || n->op == OP_SCATTER ||
                      n->op == OP_SCATTER_ADD || n->op == OP_SCATTER_ALONG;
        if (gather && !n->attrs.implied) {
            ok = add_check(l, CHECK_INDEX, n->in[1], graph_value(g, n->in[0])->dims[n->attrs.axis],
                           i);
        }
        if (op_is_elementwise(n->op) && (op_info(n->op)->flags & OPF_ZERODIV) != 0 &&
            dtype_is_int(graph_value(g, n->out)->dtype)) {
            ok = add_check(l, CHECK_NONZERO, n->in[1], sx_const(g->sx, 0), i);
        }
        if (!ok) return err_nomem(l->at.err);
    }
    return PROEM_OK;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static enum proem_status copy_params(struct lower *l) {
    for (size_t i = 0; i < l->src->params.n; i++) {
        const struct param *p = &l->src->params.at[i];
        const struct value *v = graph_value(l->src, p->value);
        struct stored_type t = lower_stored(l, v);
        value_id r =
            graph_param(l->dst, &l->at, v->name, t.dtype, t.rank, t.dims, p->is_const, p->source);
        if (r == 0) return l->at.err->status;
        l->out->value_of[p->value] = r;
    }
    return PROEM_OK;
}

static enum proem_status lower_node(struct lower *l, node_id id) {
    const struct node *n = graph_node(l->src, id);
    value_id in[MAX_RANK], *wide = in;
    if (n->n_in > MAX_RANK) wide = ARENA_NEW(l->dst->arena, value_id, n->n_in);
    if (wide == NULL) return err_nomem(l->at.err);
    for (int i = 0; i < n->n_in; i++)
        wide[i] = n->in[i] == 0 ? 0 : l->out->value_of[n->in[i]];
    l->at.line = n->line;
    l->at.col = n->col;
    l->at.origin = id;
    value_id r = 0, second = 0;
    if (n->op == OP_CONST) {
        r = graph_const(l->dst, &l->at, graph_value(l->src, n->out)->dtype, n->constant);
    } else if (n->op == OP_MATMUL) {
        r = apply_matmul(l, wide[0], wide[1], graph_value(l->src, n->out)->dtype, n->attrs);
    } else if (op_is_primitive(n->op)) {
        r = lw_apply(l, n->op, n->n_in, wide, &n->attrs);
    } else {
        r = lower_composite(l, n, wide, &second);
        r = lw_to(l, r, graph_value(l->src, n->out)->dtype);
    }
    if (n->op == OP_GROUPED_MATMUL && r != 0 &&
        !add_check(l, CHECK_OFFSETS, wide[2], lw_val(l, wide[0])->dims[0],
                   graph_value(l->dst, r)->node))
        return err_nomem(l->at.err);
    if (r == 0) return l->at.err->status != PROEM_OK ? l->at.err->status : err_nomem(l->at.err);
    for (int i = 0; i < n->n_out; i++) {
        value_id to = second != 0 && i == 1 ? second : r + (value_id)i;
        l->out->value_of[n->out + (value_id)i] = to;
        /* A rule may give a value that already has a name (x itself): it keeps its own. */
        if (graph_value(l->dst, to)->name[0] == '\0')
            TRY(graph_name_value(l->dst, &l->at, to,
                                 graph_value(l->src, n->out + (value_id)i)->name));
    }
    return PROEM_OK;
}

/* An output that is a parameter, or a value returned before, becomes a value of its own. */
static enum proem_status copy_outputs(struct lower *l) {
    const struct graph *g = l->src;
    for (size_t i = 0; i < g->outputs.n; i++) {
        const struct output *o = &g->outputs.at[i];
        value_id v = l->out->value_of[o->value];
        bool again = graph_def(l->dst, v)->op == OP_PARAM;
        for (size_t j = 0; j < i; j++)
            again = again || l->dst->outputs.at[j].value == v;
        if (again) {
            const struct value val = *lw_val(l, v);
            l->at.origin = graph_value(g, o->value)->node;
            v = lw_reshape(l, v, val.rank, val.dims);
            if (v == 0) return l->at.err->status;
        }
        value_id in_param = o->in_param == 0 ? 0 : l->out->value_of[o->in_param];
        TRY(graph_output(l->dst, &l->at, v, in_param));
        l->dst->outputs.at[i].name = o->name;
    }
    return PROEM_OK;
}

enum proem_status opt_lower(const struct graph *g, struct lowered *out, struct err *e) {
    return opt_lower_for(g, NULL, NULL, out, e);
}

enum proem_status opt_lower_for(const struct graph *g, const struct device_desc *d,
                                const struct dims_binding *dims, struct lowered *out,
                                struct err *e) {
    *out = (struct lowered){0};
    struct lower l = {.src = g, .out = out, .at = {.err = e}, .device = d, .dims = dims};
    l.dst = out->graph = graph_new(g->arena, g->sx, g->name);
    out->value_of = ARENA_NEW(g->arena, value_id, g->values.n);
    if (l.dst == NULL || out->value_of == NULL) return err_nomem(e);
    l.dst->file = g->file;
    for (size_t i = 0; i < g->checks.n; i++) { /* what the text promises of sizes holds here too */
        if (!VEC_PUSH(g->arena, &l.dst->checks, g->checks.at[i])) return err_nomem(e);
    }
    TRY(copy_params(&l));
    for (node_id i = 1; i < g->nodes.n; i++) {
        if (graph_node(g, i)->op != OP_PARAM) TRY(lower_node(&l, i));
    }
    TRY(copy_outputs(&l));
    TRY(collect_checks(&l));
    TRY(graph_finish(l.dst, e));
    out->source_of = ARENA_NEW(g->arena, value_id, l.dst->values.n);
    if (out->source_of == NULL) return err_nomem(e);
    for (value_id v = 1; v < g->values.n; v++) {
        value_id lv = out->value_of[v];
        if (lv != 0 && out->source_of[lv] == 0) out->source_of[lv] = v;
    }
    return arena_ok(g->arena) ? PROEM_OK : err_nomem(e);
}
