/* SPDX-License-Identifier: MIT
 * fn_of_value: composition of a value's producers into one fn.
 *
 * In: a lowered graph and a value with coordinates. Out: a fn whose leaves are loads of stored
 * values, constants, coordinates, and values that the kernel holds. Views only rewrite coordinates,
 * so a transposed, sliced, concatenated or gathered operand is no case of its own. Results are
 * remembered by (value, coordinates): a diamond is built once.
 */
#include "fn/compose.h"

#include <string.h>

bool op_is_view(enum op op) {
    switch ((int)op) {
    case OP_RESHAPE:
    case OP_PERMUTE:
    case OP_TRANSPOSE:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_UNSQUEEZE:
    case OP_SLICE:
    case OP_SPLIT:
    case OP_FLIP: return true;
    default: return false;
    }
}

bool op_is_map(enum op op) {
    if (op_is_elementwise(op) || op_is_view(op)) return true;
    switch ((int)op) {
    case OP_WHERE:
    case OP_CAST:
    case OP_BITCAST:
    case OP_CONCAT:
    case OP_PAD:
    case OP_IOTA:
    case OP_TAKE:
    case OP_TAKE_ALONG:
    case OP_LOOKUP:
    case OP_CONST:
    case OP_DIM: return true;
    default: return false;
    }
}

/* ---- memo ------------------------------------------------------------------------------------ */

struct memo_entry {
    value_id v;
    sx *coord;
    fn_id f;
};

struct fn_memo {
    size_t n, size;
    struct memo_entry *at;
};

static size_t memo_slot(const struct fn_memo *m, value_id v, int rank, const sx *coord) {
    uint64_t h = v;
    for (int i = 0; i < rank; i++)
        h = (h ^ coord[i]) * 0x9e3779b97f4a7c15u + (h >> 29);
    size_t at = (size_t)(h ^ (h >> 32)) & (m->size - 1);
    while (m->at[at].v != 0) {
        if (m->at[at].v == v &&
            (rank == 0 || memcmp(m->at[at].coord, coord, (size_t)rank * sizeof *coord) == 0))
            break;
        at = (at + 1) & (m->size - 1);
    }
    return at;
}

static bool memo_reserve(struct fn_env *env) {
    struct fn_memo *m = env->memo;
    if (m != NULL && m->n * 2 < m->size) return true;
    struct fn_memo *grown = ARENA_NEW(env->arena, struct fn_memo, 1);
    if (grown == NULL) return false;
    grown->size = m != NULL ? m->size * 2 : 64;
    grown->at = ARENA_NEW(env->arena, struct memo_entry, grown->size);
    if (grown->at == NULL) return false;
    for (size_t i = 0; m != NULL && i < m->size; i++) {
        const struct memo_entry *e = &m->at[i];
        if (e->v == 0) continue;
        int rank = graph_value(env->g, e->v)->rank;
        grown->at[memo_slot(grown, e->v, rank, e->coord)] = *e;
        grown->n++;
    }
    env->memo = grown;
    return true;
}

static void memo_put(struct fn_env *env, value_id v, int rank, const sx *coord, fn_id f) {
    if (f == 0 || !memo_reserve(env)) return;
    sx *copy = ARENA_NEW(env->arena, sx, rank + 1);
    if (copy == NULL) return;
    if (rank > 0) memcpy(copy, coord, (size_t)rank * sizeof *coord);
    size_t at = memo_slot(env->memo, v, rank, coord);
    if (env->memo->at[at].v == 0) env->memo->n++;
    env->memo->at[at] = (struct memo_entry){v, copy, f};
}

/* ---- coordinates ----------------------------------------------------------------------------- */

static bool dim_is(const struct fn_env *env, sx d, int64_t want) {
    int64_t v;
    return sx_is_const(fn_sx(env->pool), d, &v) && v == want;
}

void broadcast_back(struct fn_env *env, value_id operand, int r_out, const sx *oc, sx *ic) {
    const struct value *v = graph_value(env->g, operand);
    for (int i = 0; i < v->rank; i++) {
        ic[i] =
            dim_is(env, v->dims[i], 1) ? sx_const(fn_sx(env->pool), 0) : oc[r_out - v->rank + i];
    }
}

/* Element fc[] of a tensor of dims fd[] as coordinates tc[] of the same elements under dims td[].
 * Dims are matched in the shortest groups of equal product, so an index is only flattened and
 * divided inside a group that the reshape really merges or splits. */
static void reshape_coords(struct sx_pool *sp, int fr, const sx *fd, const sx *fc, int tr,
                           const sx *td, sx *tc) {
    int i = 0, j = 0;
    sx zero = sx_const(sp, 0), one = sx_const(sp, 1);
    while (i < fr || j < tr) {
        int i0 = i, j0 = j;
        sx pf = one, pt = one;
        if (i < fr) pf = fd[i++];
        if (j < tr) pt = td[j++];
        while (pf != pt && (i < fr || j < tr)) {
            int64_t a, b;
            bool grow_from;
            if (i == fr)
                grow_from = false;
            else if (j == tr)
                grow_from = true;
            else if (sx_is_const(sp, pf, &a) && sx_is_const(sp, pt, &b))
                grow_from = a < b;
            else if (sx_exact_div(sp, pt, pf) != 0)
                grow_from = true;
            else if (sx_exact_div(sp, pf, pt) != 0)
                grow_from = false;
            else
                grow_from = fr - i >= tr - j;
            if (grow_from)
                pf = sx_mul(sp, pf, fd[i++]);
            else
                pt = sx_mul(sp, pt, td[j++]);
        }
        sx lin = zero;
        for (int a = i0; a < i; a++)
            lin = sx_add(sp, sx_mul(sp, lin, fd[a]), fc[a]);
        for (int b = j - 1; b >= j0; b--) {
            int64_t d;
            if (sx_is_const(sp, td[b], &d) && d <= 1) {
                tc[b] = zero;
                continue;
            }
            bool first = true; /* no dim of the group before b has more than one element */
            for (int c = j0; c < b; c++) {
                first = first && sx_is_const(sp, td[c], &d) && d == 1;
            }
            tc[b] = first ? lin : sx_mod(sp, lin, td[b]);
            if (!first) lin = sx_div(sp, lin, td[b]);
        }
    }
}

/* Start of part `out` of a split along its axis. */
static sx split_start(struct fn_env *env, const struct node *n, int out) {
    struct sx_pool *sp = fn_sx(env->pool);
    const struct attrs *a = &n->attrs;
    sx start = sx_const(sp, 0);
    for (int i = 0; i < out; i++) {
        start = sx_add(sp, start, graph_value(env->g, n->out + (value_id)i)->dims[a->axis]);
    }
    return start;
}

void view_back(struct fn_env *env, const struct node *n, int out, const sx *oc, sx *ic) {
    struct sx_pool *sp = fn_sx(env->pool);
    const struct value *in = graph_value(env->g, n->in[0]);
    const struct value *ov = graph_value(env->g, n->out + (value_id)out);
    const struct attrs *a = &n->attrs;
    if (n->op == OP_RESHAPE || n->op == OP_SQUEEZE || n->op == OP_UNSQUEEZE) {
        reshape_coords(sp, ov->rank, ov->dims, oc, in->rank, in->dims, ic);
        return;
    }
    if (n->op == OP_EXPAND) {
        broadcast_back(env, n->in[0], ov->rank, oc, ic);
        return;
    }
    for (int i = 0; i < in->rank; i++)
        ic[i] = oc[i];
    switch ((int)n->op) {
    case OP_PERMUTE:
        for (int i = 0; i < in->rank; i++)
            ic[a->perm[i]] = oc[i];
        break;
    case OP_TRANSPOSE:
        ic[in->rank - 1] = oc[in->rank - 2];
        ic[in->rank - 2] = oc[in->rank - 1];
        break;
    case OP_SLICE:
        ic[a->axis] = sx_add(sp, a->start, sx_mul(sp, oc[a->axis], sx_const(sp, a->step)));
        break;
    case OP_SPLIT: ic[a->axis] = sx_add(sp, split_start(env, n, out), oc[a->axis]); break;
    case OP_FLIP:
        for (int i = 0; i < in->rank; i++) {
            bool flipped = a->n_axes < 0;
            for (int j = 0; j < a->n_axes; j++)
                flipped = flipped || a->axes[j] == i;
            if (!flipped) continue;
            ic[i] = sx_sub(sp, sx_sub(sp, in->dims[i], sx_const(sp, 1)), oc[i]);
        }
        break;
    default: break;
    }
}

bool view_forward(struct fn_env *env, const struct node *n, int out, const sx *ic, sx *oc,
                  struct fn_bounds *bounds) {
    struct sx_pool *sp = fn_sx(env->pool);
    const struct value *in = graph_value(env->g, n->in[0]);
    const struct value *ov = graph_value(env->g, n->out + (value_id)out);
    const struct attrs *a = &n->attrs;
    switch ((int)n->op) {
    case OP_RESHAPE:
    case OP_SQUEEZE:
    case OP_UNSQUEEZE:
        reshape_coords(sp, in->rank, in->dims, ic, ov->rank, ov->dims, oc);
        return true;
    case OP_EXPAND: {
        int pad = ov->rank - in->rank;
        for (int i = 0; i < ov->rank; i++) {
            if (i < pad && !dim_is(env, ov->dims[i], 1)) return false;
            if (i >= pad && ov->dims[i] != in->dims[i - pad]) return false;
            oc[i] = i < pad ? sx_const(sp, 0) : ic[i - pad];
        }
        return true;
    }
    case OP_PERMUTE:
        for (int i = 0; i < in->rank; i++)
            oc[i] = ic[a->perm[i]];
        return true;
    case OP_TRANSPOSE:
        for (int i = 0; i < in->rank; i++)
            oc[i] = ic[i];
        oc[in->rank - 1] = ic[in->rank - 2];
        oc[in->rank - 2] = ic[in->rank - 1];
        return true;
    case OP_FLIP: view_back(env, n, out, ic, oc); return true; /* its own inverse */
    case OP_SLICE:
    case OP_SPLIT: break;
    default: return false;
    }
    if ((n->op == OP_SLICE && a->step != 1) || bounds->n == MAX_BOUNDS) return false;
    sx start = n->op == OP_SLICE ? a->start : split_start(env, n, out);
    sx stop = sx_add(sp, start, ov->dims[a->axis]);
    for (int i = 0; i < in->rank; i++)
        oc[i] = ic[i];
    oc[a->axis] = sx_sub(sp, ic[a->axis], start);
    bool whole = sx_proves_le(sp, start, ic[a->axis]) && sx_proves_lt(sp, ic[a->axis], stop);
    if (!whole) bounds->at[bounds->n++] = (struct fn_bound){ic[a->axis], start, stop};
    return true;
}

/* ---- operators ------------------------------------------------------------------------------- */

/* A narrow float result rounds after every operator, except in boundary mode. */
static fn_id result(struct fn_env *env, fn_id f) {
    return env->prec == PREC_BOUNDARY ? f : fn_round(env->pool, f);
}

static fn_id apply_cast(struct fn_env *env, const struct node *n, fn_id arg) {
    enum dtype to = graph_value(env->g, n->out)->dtype;
    enum dtype from = fn_get(env->pool, arg)->dtype;
    bool free_rounding = n->attrs.implied && env->prec == PREC_BOUNDARY && dtype_is_float(to) &&
                         dtype_is_float(from);
    if (free_rounding) return fn_convert(env->pool, arg, to);
    return fn_cast(env->pool, arg, to, n->attrs.flag);
}

fn_id fn_apply(struct fn_env *env, const struct node *n, const fn_id *arg) {
    const struct value *ov = graph_value(env->g, n->out);
    for (int i = 0; i < n->n_in; i++) {
        if (arg[i] == 0) return 0;
    }
    if (n->op == OP_CAST) return apply_cast(env, n, arg[0]);
    if (n->op == OP_WHERE) {
        fn_id c = fn_convert(env->pool, arg[0], DT_BOOL);
        fn_id f = fn_where(env->pool, c, fn_convert(env->pool, arg[1], ov->dtype),
                           fn_convert(env->pool, arg[2], ov->dtype));
        return result(env, f);
    }
    enum dtype in[3], compute = DT_NONE;
    bool scalar[3];
    for (int i = 0; i < n->n_in; i++) {
        in[i] = graph_value(env->g, n->in[i])->dtype;
        scalar[i] = graph_value(env->g, n->in[i])->rank == 0;
    }
    if (op_result_dtype(n->op, in, scalar, n->n_in, &compute) == DT_NONE) {
        err_set(env->err, PROEM_INTERNAL, "operator %s has no rule for its operands",
                op_info(n->op)->name);
        return 0;
    }
    /* A 0-dim operand may have a wider dtype than the result: it is rounded where values are. */
    fn_id in_compute[3] = {0, 0, 0};
    for (int i = 0; i < n->n_in; i++)
        in_compute[i] = result(env, fn_convert(env->pool, arg[i], compute));
    fn_id f = fn_op(env->pool, n->op, compute, ov->dtype, n->n_in, in_compute, n->attrs.param);
    return result(env, f);
}

static fn_id of_concat(struct fn_env *env, const struct node *n, const sx *coord) {
    struct sx_pool *sp = fn_sx(env->pool);
    const struct value *ov = graph_value(env->g, n->out);
    int axis = n->attrs.axis;
    sx end = ov->dims[axis];
    fn_id f = 0;
    for (int i = n->n_in - 1; i >= 0; i--) {
        sx ic[MAX_RANK];
        memcpy(ic, coord, (size_t)ov->rank * sizeof *ic);
        sx start = sx_sub(sp, end, graph_value(env->g, n->in[i])->dims[axis]);
        ic[axis] = sx_sub(sp, coord[axis], start);
        fn_id part = fn_convert(env->pool, fn_of_value(env, n->in[i], ic), ov->dtype);
        if (part == 0) return 0;
        /* The parts behind this one lie at `end` and beyond; those before it are asked first. */
        f = f == 0 ? part : fn_select(env->pool, coord[axis], sx_const(sp, 0), end, part, f);
        end = start;
    }
    return f;
}

static fn_id of_pad(struct fn_env *env, const struct node *n, const sx *coord) {
    struct sx_pool *sp = fn_sx(env->pool);
    const struct value *in = graph_value(env->g, n->in[0]);
    const struct attrs *a = &n->attrs;
    sx ic[MAX_RANK];
    for (int i = 0; i < in->rank; i++) {
        ic[i] = i < a->n_list ? sx_sub(sp, coord[i], a->list[i]) : coord[i];
    }
    union scalar pad = dtype_is_float(in->dtype)
                           ? (union scalar){.f = float_round(in->dtype, a->param[0], false)}
                           : elem_cast(DT_F64, (union scalar){.f = a->param[0]}, in->dtype, false);
    fn_id fill = fn_const(env->pool, in->dtype, pad);
    fn_id f = fn_of_value(env, n->in[0], ic);
    for (int i = in->rank - 1; i >= 0; i--) {
        f = fn_select(env->pool, ic[i], sx_const(sp, 0), in->dims[i], f, fill);
    }
    return f;
}

/* take, take_along, lookup: coordinates of the source through index values. */
static fn_id of_gather(struct fn_env *env, const struct node *n, const sx *coord) {
    const struct value *src = graph_value(env->g, n->in[0]);
    int rank = graph_value(env->g, n->out)->rank;
    sx ic[MAX_RANK];
    if (n->op == OP_LOOKUP) {
        for (int i = 0; i < src->rank; i++) {
            sx at[MAX_RANK];
            broadcast_back(env, n->in[1 + i], rank, coord, at);
            ic[i] = fn_look(env->pool, fn_of_value(env, n->in[1 + i], at), src->dims[i]);
        }
        return fn_of_value(env, n->in[0], ic);
    }
    int axis = n->attrs.axis;
    const struct value *index = graph_value(env->g, n->in[1]);
    sx at[MAX_RANK];
    if (n->op == OP_TAKE)
        memcpy(at, coord + axis, (size_t)index->rank * sizeof *at);
    else
        broadcast_back(env, n->in[1], rank, coord, at); /* the other dims broadcast */
    sx look = fn_look(env->pool, fn_of_value(env, n->in[1], at), src->dims[axis]);
    if (look == 0) return 0;
    if (n->op == OP_TAKE_ALONG) {
        broadcast_back(env, n->in[0], rank, coord, ic);
    } else {
        for (int i = 0; i < axis; i++)
            ic[i] = coord[i];
        for (int i = axis + 1; i < src->rank; i++)
            ic[i] = coord[i + index->rank - 1];
    }
    ic[axis] = look;
    return fn_of_value(env, n->in[0], ic);
}

static fn_id bits_constant(struct fn_env *env, int64_t v) {
    return fn_const(env->pool, DT_U64, (union scalar){.i = v});
}

static fn_id bits_op(struct fn_env *env, enum op op, fn_id a, fn_id b) {
    return fn_op(env->pool, op, DT_U64, DT_U64, 2, (fn_id[]){a, b}, NULL);
}

static enum dtype unsigned_of(int bits) {
    static const enum dtype of[] = {DT_U64, DT_U32, DT_U16, DT_U8, DT_U4, DT_U2};
    for (size_t i = 0; i < COUNT_OF(of); i++) {
        if (dtype_bits(of[i]) == bits) return of[i];
    }
    return DT_U64;
}

/* bitcast to another width: the last dim is rescaled, the first part in the low bits. */
static fn_id of_bitcast(struct fn_env *env, const struct node *n, const sx *coord) {
    struct sx_pool *sp = fn_sx(env->pool);
    const struct value *in = graph_value(env->g, n->in[0]);
    const struct value *ov = graph_value(env->g, n->out);
    int from = dtype_bits(in->dtype), to = dtype_bits(ov->dtype);
    if (from == to) return fn_bitcast(env->pool, fn_of_value(env, n->in[0], coord), ov->dtype);
    enum dtype uin = unsigned_of(from), uout = unsigned_of(to);
    sx ic[MAX_RANK];
    memcpy(ic, coord, (size_t)ov->rank * sizeof *ic);
    int last = ov->rank - 1;
    fn_id bits = 0;
    if (from > to) {
        sx ratio = sx_const(sp, from / to);
        ic[last] = sx_div(sp, coord[last], ratio);
        fn_id whole = fn_bitcast(env->pool, fn_of_value(env, n->in[0], ic), uin);
        fn_id part =
            fn_convert(env->pool, fn_index(env->pool, sx_mod(sp, coord[last], ratio)), DT_U64);
        fn_id shift = bits_op(env, OP_MUL, part, bits_constant(env, to));
        bits = bits_op(env, OP_SHIFT_RIGHT, fn_convert(env->pool, whole, DT_U64), shift);
    } else {
        for (int i = 0; i < to / from; i++) {
            ic[last] =
                sx_add(sp, sx_mul(sp, coord[last], sx_const(sp, to / from)), sx_const(sp, i));
            fn_id part = fn_bitcast(env->pool, fn_of_value(env, n->in[0], ic), uin);
            part = fn_convert(env->pool, part, DT_U64);
            part = bits_op(env, OP_SHIFT_LEFT, part, bits_constant(env, i * from));
            bits = bits == 0 ? part : bits_op(env, OP_BITWISE_OR, bits, part);
        }
    }
    return fn_bitcast(env->pool, fn_convert(env->pool, bits, uout), ov->dtype);
}

static fn_id compose(struct fn_env *env, value_id v, const struct node *n, const sx *coord) {
    const struct value *ov = graph_value(env->g, v);
    sx ic[MAX_RANK];
    if (op_is_view(n->op)) {
        view_back(env, n, ov->out, coord, ic);
        return fn_of_value(env, n->in[0], ic);
    }
    switch ((int)n->op) {
    case OP_CONST: return fn_const(env->pool, ov->dtype, n->constant);
    case OP_DIM: return fn_convert(env->pool, fn_index(env->pool, n->attrs.start), ov->dtype);
    case OP_IOTA:
        return fn_cast(env->pool, fn_index(env->pool, coord[n->attrs.axis]), ov->dtype, false);
    case OP_CONCAT: return of_concat(env, n, coord);
    case OP_PAD: return of_pad(env, n, coord);
    case OP_BITCAST: return of_bitcast(env, n, coord);
    case OP_TAKE:
    case OP_TAKE_ALONG:
    case OP_LOOKUP: return of_gather(env, n, coord);
    default: break;
    }
    fn_id arg[3] = {0, 0, 0};
    for (int i = 0; i < n->n_in; i++) {
        broadcast_back(env, n->in[i], ov->rank, coord, ic);
        arg[i] = fn_of_value(env, n->in[i], ic);
    }
    return fn_apply(env, n, arg);
}

fn_id fn_of_value(struct fn_env *env, value_id v, const sx *coord) {
    const struct value *ov = graph_value(env->g, v);
    const struct node *n = graph_def(env->g, v);
    fn_id f = 0;
    enum fn_held held = env->held != NULL ? env->held(env->user, v, coord, &f) : HELD_NO;
    if (held == HELD_HERE) return f;
    if (held == HELD_ELSEWHERE) {
        env->blocked = true;
        return 0;
    }
    if (n->op == OP_PARAM || env->is_stored(env->user, v))
        return fn_load(env->pool, v, ov->dtype, ov->rank, coord);
    if (!op_is_map(n->op)) {
        err_set(env->err, PROEM_INTERNAL, "value %s is not in memory", ov->name);
        return 0;
    }
    if (env->memo != NULL) {
        const struct memo_entry *e = &env->memo->at[memo_slot(env->memo, v, ov->rank, coord)];
        if (e->v != 0) return e->f;
    }
    f = compose(env, v, n, coord);
    if (f == 0 && !env->blocked && env->err->status == PROEM_OK) err_nomem(env->err);
    memo_put(env, v, ov->rank, coord, f);
    return f;
}
