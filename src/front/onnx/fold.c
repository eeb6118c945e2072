/* SPDX-License-Identifier: MIT
 * Integer arithmetic of shapes, done while the model is read: Shape, Size and what exporters compute
 * from them. Elements are symbolic, so a model with dynamic axes keeps its symbols. An operator is
 * folded only if all its inputs are known integers (or are not looked at) and the result is small.
 */
#include "front/onnx/import.h"

#include <string.h>

/* An array of symbolic integers. */
struct ints {
    enum dtype dtype;
    int rank;
    int64_t dims[MAX_RANK];
    int64_t n;
    const sx *at;
};

static bool get(struct ox *o, const struct ox_node *n, int i, struct ints *out) {
    if (!ox_is_known(o, n, i)) return false;
    const struct ox_value *v = &o->values.at[n->in[i]];
    if (v->dtype != DT_I64 && v->dtype != DT_I32 && v->dtype != DT_BOOL) return false;
    *out = (struct ints){.dtype = v->dtype, .rank = v->rank, .n = v->n, .at = v->ints};
    memcpy(out->dims, v->dims, sizeof out->dims);
    return true;
}

static bool give(struct ox *o, const struct ox_node *n, int i, const struct ints *x, bool *done) {
    *done = true;
    return ox_out_ints(o, n, i, x->dtype, x->rank, x->dims, x->at, x->n);
}

/* Input i as numbers; -1 where it depends on sizes, which is no error here. */
static int64_t numbers(struct ox *o, const struct ox_node *n, int i, int64_t *out, int64_t max) {
    struct ints a;
    if (!get(o, n, i, &a) || a.n > max) return -1;
    for (int64_t k = 0; k < a.n; k++) {
        if (!sx_is_const(o->g->sx, a.at[k], &out[k])) return -1;
    }
    return a.n;
}

static sx *room(struct ox *o, int64_t n) {
    return n <= OX_MAX_INTS ? ARENA_NEW(o->arena, sx, n + 1) : NULL;
}

/* ---- elementwise ----------------------------------------------------------------------------- */

/* Truncating division, where it is floor division: of what is not negative. */
static bool divide(struct ox *o, sx a, sx b, bool mod, sx *out) {
    int64_t x, y;
    struct sx_pool *sp = o->g->sx;
    if (ox_sx_is(o, b, 0)) return false;
    if (sx_is_const(sp, a, &x) && sx_is_const(sp, b, &y)) {
        if (x == INT64_MIN && y == -1) return false;
        int64_t r = x % y;
        *out = ox_const(o, mod ? (r != 0 && (r < 0) != (y < 0) ? r + y : r) : x / y);
        return true;
    }
    int64_t lo, hi;
    sx_range(sp, b, &lo, &hi);
    if (!sx_is_nonneg(sp, a) || (lo < 1 && !sx_is_nonneg(sp, b))) return false;
    *out = mod ? sx_mod(sp, a, b) : sx_div(sp, a, b);
    return true;
}

static bool compare(struct ox *o, sx a, sx b, char kind, sx *out) {
    struct sx_pool *sp = o->g->sx;
    int64_t x, y;
    bool known = sx_is_const(sp, a, &x) && sx_is_const(sp, b, &y), yes = false;
    if (kind == '=' && a == b)
        known = yes = true;
    else if (kind == '=' && !known) {
        /* A size is never negative: -1 marks nothing. */
        known = (sx_is_const(sp, b, &y) && y < 0 && sx_is_nonneg(sp, a)) ||
                (sx_is_const(sp, a, &x) && x < 0 && sx_is_nonneg(sp, b)) ||
                sx_proves_lt(sp, a, b) || sx_proves_lt(sp, b, a);
    } else if (known) {
        yes = kind == '='   ? x == y
              : kind == '<' ? x < y
              : kind == '>' ? x > y
              : kind == 'l' ? x <= y
                            : x >= y;
    } else if (kind == '<' || kind == 'g') {
        known = sx_proves_lt(sp, a, b) || sx_proves_le(sp, b, a);
        yes = sx_proves_lt(sp, a, b) == (kind == '<');
    } else if (kind == '>' || kind == 'l') {
        known = sx_proves_lt(sp, b, a) || sx_proves_le(sp, a, b);
        yes = sx_proves_lt(sp, b, a) == (kind == '>');
    }
    *out = ox_const(o, yes);
    return known;
}

static bool extreme(struct ox *o, sx a, sx b, bool max, sx *out) {
    bool ab = sx_proves_le(o->g->sx, a, b), ba = sx_proves_le(o->g->sx, b, a);
    *out = ab == max ? b : a;
    return ab || ba;
}

static bool element(struct ox *o, const char *op, sx a, sx b, sx *out) {
    struct sx_pool *sp = o->g->sx;
    int64_t x, y;
    if (strcmp(op, "Add") == 0) return *out = sx_add(sp, a, b), true;
    if (strcmp(op, "Sub") == 0) return *out = sx_sub(sp, a, b), true;
    if (strcmp(op, "Mul") == 0) return *out = sx_mul(sp, a, b), true;
    if (strcmp(op, "Div") == 0) return divide(o, a, b, false, out);
    if (strcmp(op, "Mod") == 0) return divide(o, a, b, true, out);
    if (strcmp(op, "Max") == 0) return extreme(o, a, b, true, out);
    if (strcmp(op, "Min") == 0) return extreme(o, a, b, false, out);
    if (strcmp(op, "Equal") == 0) return compare(o, a, b, '=', out);
    if (strcmp(op, "Less") == 0) return compare(o, a, b, '<', out);
    if (strcmp(op, "Greater") == 0) return compare(o, a, b, '>', out);
    if (strcmp(op, "LessOrEqual") == 0) return compare(o, a, b, 'l', out);
    if (strcmp(op, "GreaterOrEqual") == 0) return compare(o, a, b, 'g', out);
    if (!sx_is_const(sp, a, &x) || !sx_is_const(sp, b, &y)) return false;
    if (strcmp(op, "And") == 0) return *out = ox_const(o, x && y), true;
    if (strcmp(op, "Or") == 0) return *out = ox_const(o, x || y), true;
    return false;
}

static bool is_comparison(const char *op) {
    static const char *const names[] = {"Equal",          "Less", "Greater", "LessOrEqual",
                                        "GreaterOrEqual", "And",  "Or"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (strcmp(op, names[i]) == 0) return true;
    }
    return false;
}

/* NumPy's broadcast of arrays of numbers; false if they do not fit. */
static bool joint(const struct ints *a, const struct ints *b, struct ints *out) {
    out->rank = a->rank > b->rank ? a->rank : b->rank;
    out->n = 1;
    for (int i = 0; i < out->rank; i++) {
        int ia = i - (out->rank - a->rank), ib = i - (out->rank - b->rank);
        int64_t da = ia >= 0 ? a->dims[ia] : 1, db = ib >= 0 ? b->dims[ib] : 1;
        if (da != db && da != 1 && db != 1) return false;
        out->dims[i] = da == 1 ? db : da;
        out->n *= out->dims[i];
        if (out->n > OX_MAX_INTS) return false;
    }
    return out->n <= 64; /* what is larger is data, no shape */
}

/* Flat position in x of element i of the broadcast array. */
static int64_t place(const struct ints *x, const struct ints *out, int64_t i) {
    int64_t at = 0, stride = 1;
    for (int k = out->rank - 1; k >= 0; k--) {
        int64_t c = i % out->dims[k];
        i /= out->dims[k];
        int j = k - (out->rank - x->rank);
        if (j < 0) break;
        if (x->dims[j] != 1) at += c * stride;
        stride *= x->dims[j];
    }
    return at;
}

static bool fold_binary(struct ox *o, const struct ox_node *n, bool *done) {
    struct ints a, b;
    if (n->n_in != 2 || !get(o, n, 0, &a) || !get(o, n, 1, &b)) return true;
    struct ints out = {.dtype = is_comparison(n->p->op_type) ? DT_BOOL : a.dtype};
    if (!joint(&a, &b, &out)) return true;
    sx *at = room(o, out.n);
    if (at == NULL) return true;
    for (int64_t i = 0; i < out.n; i++) {
        if (!element(o, n->p->op_type, a.at[place(&a, &out, i)], b.at[place(&b, &out, i)], &at[i]))
            return true;
    }
    out.at = at;
    return give(o, n, 0, &out, done);
}

static bool fold_where(struct ox *o, const struct ox_node *n, bool *done) {
    struct ints c, a, b, ab, out;
    if (n->n_in != 3 || !get(o, n, 0, &c) || !get(o, n, 1, &a) || !get(o, n, 2, &b)) return true;
    if (!joint(&a, &b, &ab) || !joint(&c, &ab, &out)) return true;
    sx *at = room(o, out.n);
    if (at == NULL) return true;
    out.dtype = a.dtype;
    for (int64_t i = 0; i < out.n; i++) {
        int64_t yes;
        if (!sx_is_const(o->g->sx, c.at[place(&c, &out, i)], &yes)) return true;
        at[i] = yes ? a.at[place(&a, &out, i)] : b.at[place(&b, &out, i)];
    }
    out.at = at;
    return give(o, n, 0, &out, done);
}

static bool fold_unary(struct ox *o, const struct ox_node *n, bool *done) {
    struct ints a;
    if (!get(o, n, 0, &a)) return true;
    sx *at = room(o, a.n);
    if (at == NULL) return true;
    bool negate = strcmp(n->p->op_type, "Neg") == 0, not = strcmp(n->p->op_type, "Not") == 0;
    for (int64_t i = 0; i < a.n; i++) {
        int64_t v;
        bool known = sx_is_const(o->g->sx, a.at[i], &v);
        if (not &&!known) return true;
        at[i] = negate ? sx_sub(o->g->sx, ox_const(o, 0), a.at[i])
                : not  ? ox_const(o, !v)
                       : a.at[i];
        if (strcmp(n->p->op_type, "Abs") == 0 && !sx_is_nonneg(o->g->sx, a.at[i])) {
            if (!known) return true;
            at[i] = ox_const(o, v < 0 ? -v : v);
        }
    }
    a.at = at;
    return give(o, n, 0, &a, done);
}

/* Between integer types that hold all sizes; single numbers to floats as well. */
static bool fold_cast(struct ox *o, const struct ox_node *n, bool *done) {
    struct ints a;
    bool like = strcmp(n->p->op_type, "CastLike") == 0;
    enum dtype to = like ? ox_in_dtype(o, n, 1) : onnx_dtype((int32_t)ox_attr_i(n, "to", 0));
    if (!get(o, n, 0, &a)) return true;
    bool to_float = (to == DT_F32 || to == DT_F64) && a.n == 1 && a.rank == 0;
    if (to != DT_I64 && to != DT_I32 && to != DT_BOOL && to != a.dtype && !to_float) return true;
    sx *at = room(o, a.n);
    if (at == NULL) return true;
    for (int64_t i = 0; i < a.n; i++) {
        int64_t v;
        bool known = sx_is_const(o->g->sx, a.at[i], &v);
        if ((to == DT_BOOL || to_float) && !known) return true;
        if (to_float && (v > 1 << 24 || v < -(1 << 24))) return true;
        if (to == DT_I32 && known && (v < INT32_MIN || v > INT32_MAX)) return true;
        at[i] = to == DT_BOOL ? ox_const(o, v != 0) : a.at[i];
    }
    a.at = at;
    a.dtype = to;
    return give(o, n, 0, &a, done);
}

/* ---- layout ---------------------------------------------------------------------------------- */

static bool fold_shape(struct ox *o, const struct ox_node *n, bool *done) {
    int rank;
    sx dims[MAX_RANK];
    if (!ox_in_shape(o, n, 0, &rank, dims)) return false;
    int64_t start = ox_attr_i(n, "start", 0), stop = ox_attr_i(n, "end", rank);
    if (start < 0) start += rank;
    if (stop < 0) stop += rank;
    start = start < 0 ? 0 : start > rank ? rank : start;
    stop = stop < start ? start : stop > rank ? rank : stop;
    struct ints out = {
        .dtype = DT_I64, .rank = 1, .dims = {stop - start}, .n = stop - start, .at = dims + start};
    return give(o, n, 0, &out, done);
}

static bool fold_size(struct ox *o, const struct ox_node *n, bool *done) {
    int rank;
    sx dims[MAX_RANK], size = ox_const(o, 1);
    if (!ox_in_shape(o, n, 0, &rank, dims)) return false;
    for (int i = 0; i < rank; i++)
        size = sx_mul(o->g->sx, size, dims[i]);
    struct ints out = {.dtype = DT_I64, .n = 1, .at = &size};
    return give(o, n, 0, &out, done);
}

static bool fold_concat(struct ox *o, const struct ox_node *n, bool *done) {
    sx all[OX_MAX_INTS];
    struct ints a, out = {.rank = 1};
    if (n->n_in == 0) return true;
    for (int i = 0; i < n->n_in; i++) {
        if (!get(o, n, i, &a) || a.rank != 1 || out.n + a.n > OX_MAX_INTS) return true;
        if (a.n > 0) memcpy(all + out.n, a.at, (size_t)a.n * sizeof *all);
        out.n += a.n;
        out.dtype = a.dtype;
    }
    out.dims[0] = out.n;
    out.at = all;
    return give(o, n, 0, &out, done);
}

static bool fold_gather(struct ox *o, const struct ox_node *n, bool *done) {
    struct ints a, index;
    if (!get(o, n, 0, &a) || !get(o, n, 1, &index) || a.rank != 1) return true;
    sx *at = room(o, index.n);
    if (at == NULL) return true;
    for (int64_t i = 0; i < index.n; i++) {
        int64_t k;
        if (!sx_is_const(o->g->sx, index.at[i], &k)) return true;
        if (k < 0) k += a.n;
        if (k < 0 || k >= a.n)
            return ox_fail(o, n, "index %lld is outside of a shape of %lld sizes", (long long)k,
                           (long long)a.n);
        at[i] = a.at[k];
    }
    index.at = at;
    index.dtype = a.dtype;
    return give(o, n, 0, &index, done);
}

/* Slices of lists. */
static bool fold_slice(struct ox *o, const struct ox_node *n, bool *done) {
    struct ints a;
    int64_t start[1], stop[1], step = 1, axis = 0;
    if (!get(o, n, 0, &a) || a.rank != 1) return true;
    if (n->version < 10) {
        const int64_t *s, *t;
        if (ox_attr_ints(n, "starts", &s) != 1 || ox_attr_ints(n, "ends", &t) != 1) return true;
        start[0] = s[0], stop[0] = t[0];
    } else {
        if (numbers(o, n, 1, start, 1) != 1 || numbers(o, n, 2, stop, 1) != 1) return true;
        if (ox_has(n, 3) && numbers(o, n, 3, &axis, 1) != 1) return true;
        if (ox_has(n, 4) && numbers(o, n, 4, &step, 1) != 1) return true;
    }
    if (step == 0 || (axis != 0 && axis != -1)) return true;
    int64_t lo = step > 0 ? 0 : -1, hi = step > 0 ? a.n : a.n - 1;
    int64_t b = start[0] < 0 ? start[0] + a.n : start[0], e = stop[0] < 0 ? stop[0] + a.n : stop[0];
    if (stop[0] < 0 && e < -1) e = -1;
    b = b < (step > 0 ? 0 : 0) ? (step > 0 ? 0 : lo) : b > hi ? hi : b;
    e = e < lo ? lo : e > hi ? hi : e;
    sx *at = room(o, a.n);
    int64_t count = 0;
    if (at == NULL) return true;
    for (int64_t i = b; step > 0 ? i < e : i > e; i += step)
        at[count++] = a.at[i];
    struct ints out = {.dtype = a.dtype, .rank = 1, .dims = {count}, .n = count, .at = at};
    return give(o, n, 0, &out, done);
}

static bool axes_of(struct ox *o, const struct ox_node *n, int since, int64_t *axes, int *count) {
    const int64_t *list;
    *count = -1;
    if (n->version < since) {
        int k = ox_attr_ints(n, "axes", &list);
        if (k > MAX_RANK) return false;
        if (k > 0) memcpy(axes, list, (size_t)k * sizeof *axes);
        *count = k;
        return true;
    }
    if (!ox_has(n, 1)) return true;
    *count = (int)numbers(o, n, 1, axes, MAX_RANK);
    return *count >= 0;
}

static bool fold_unsqueeze(struct ox *o, const struct ox_node *n, bool *done) {
    struct ints a;
    int64_t axes[MAX_RANK];
    int k;
    bool on[MAX_RANK] = {false};
    if (!get(o, n, 0, &a) || !axes_of(o, n, 13, axes, &k) || k < 0) return true;
    struct ints out = a;
    out.rank = a.rank + k;
    if (out.rank > MAX_RANK) return true;
    for (int i = 0; i < k; i++) {
        int64_t x = axes[i] < 0 ? axes[i] + out.rank : axes[i];
        if (x < 0 || x >= out.rank || on[x]) return true;
        on[x] = true;
    }
    for (int i = 0, j = 0; i < out.rank; i++)
        out.dims[i] = on[i] ? 1 : a.dims[j++];
    return give(o, n, 0, &out, done);
}

static bool fold_squeeze(struct ox *o, const struct ox_node *n, bool *done) {
    struct ints a;
    int64_t axes[MAX_RANK];
    int k;
    bool off[MAX_RANK] = {false};
    if (!get(o, n, 0, &a) || !axes_of(o, n, 13, axes, &k)) return true;
    for (int i = 0; i < k; i++) {
        int64_t x = axes[i] < 0 ? axes[i] + a.rank : axes[i];
        if (x < 0 || x >= a.rank || a.dims[x] != 1) return true;
        off[x] = true;
    }
    struct ints out = a;
    out.rank = 0;
    for (int i = 0; i < a.rank; i++) {
        if (k < 0 ? a.dims[i] != 1 : !off[i]) out.dims[out.rank++] = a.dims[i];
    }
    return give(o, n, 0, &out, done);
}

/* To any shape of numbers; one -1 is computed, 0 keeps a dim. */
static bool fold_reshape(struct ox *o, const struct ox_node *n, bool *done) {
    struct ints a;
    int64_t shape[MAX_RANK], known = 1;
    const int64_t *list;
    int rank, hole = -1;
    if (!get(o, n, 0, &a)) return true;
    if (n->version < 5) {
        rank = ox_attr_ints(n, "shape", &list);
        if (rank < 0 || rank > MAX_RANK) return true;
        memcpy(shape, list, (size_t)rank * sizeof *shape);
    } else {
        rank = (int)numbers(o, n, 1, shape, MAX_RANK);
        if (rank < 0) return true;
    }
    struct ints out = a;
    out.rank = rank;
    for (int i = 0; i < rank; i++) {
        if (shape[i] == 0 && ox_attr_i(n, "allowzero", 0) == 0 && i < a.rank) shape[i] = a.dims[i];
        if (shape[i] < -1 || shape[i] > OX_MAX_INTS || known > OX_MAX_INTS) return true;
        if (shape[i] == -1)
            hole = i;
        else
            known *= shape[i];
    }
    if (hole >= 0 && known > 0) shape[hole] = a.n / known, known *= shape[hole];
    if (known != a.n) return true;
    memcpy(out.dims, shape, sizeof shape);
    return give(o, n, 0, &out, done);
}

static bool fold_expand(struct ox *o, const struct ox_node *n, bool *done) {
    struct ints a, shape = {0}, out;
    if (!get(o, n, 0, &a) || !ox_is_known(o, n, 1)) return true;
    int64_t count = ox_is_known(o, n, 1) ? o->values.at[n->in[1]].n : -1;
    if (count < 0 || count > MAX_RANK) return true;
    for (int64_t i = 0; i < count; i++) {
        if (!sx_is_const(o->g->sx, o->values.at[n->in[1]].ints[i], &shape.dims[i])) return true;
        if (shape.dims[i] < 0 || shape.dims[i] > OX_MAX_INTS) return true;
    }
    shape.rank = (int)count;
    if (!joint(&a, &shape, &out)) return true;
    sx *at = room(o, out.n);
    if (at == NULL) return true;
    for (int64_t i = 0; i < out.n; i++)
        at[i] = a.at[place(&a, &out, i)];
    out.dtype = a.dtype;
    out.at = at;
    return give(o, n, 0, &out, done);
}

/* Of short lists only: a long one is better computed where it is used. */
static bool fold_constant_of_shape(struct ox *o, const struct ox_node *n, bool *done) {
    const Onnx__AttributeProto *a = ox_attr(n, "value");
    int64_t dims[MAX_RANK], count = 1;
    if (a == NULL || a->t == NULL || !ox_is_known(o, n, 0)) return true;
    enum dtype d = onnx_dtype(a->t->data_type);
    if (d != DT_I64 && d != DT_I32 && d != DT_BOOL) return true;
    const struct ox_value *shape = &o->values.at[n->in[0]];
    if (shape->n > 1) return true;
    for (int64_t i = 0; i < shape->n; i++) {
        if (!sx_is_const(o->g->sx, shape->ints[i], &dims[i]) || dims[i] < 0 || dims[i] > 64)
            return true;
        count *= dims[i];
        if (count > OX_MAX_INTS) return true;
    }
    struct array x;
    if (onnx_tensor_read(o->m, a->t, "value", o->arena->alloc, &x, o->err) != PROEM_OK)
        return false;
    sx *at = room(o, count), v = ox_const(o, x.count > 0 ? elem_load(d, x.data, 0).i : 0);
    array_free(&x);
    if (at == NULL) return true;
    for (int64_t i = 0; i < count; i++)
        at[i] = v;
    struct ints out = {.dtype = d, .rank = (int)shape->n, .n = count, .at = at};
    memcpy(out.dims, dims, sizeof dims);
    return give(o, n, 0, &out, done);
}

/* Far from where differences overflow. */
static bool is_moderate(int64_t v) {
    const int64_t most = INT64_C(1) << 40;
    return v >= -most && v <= most;
}

static bool fold_range(struct ox *o, const struct ox_node *n, bool *done) {
    struct ints a, b, c;
    int64_t start, stop, step;
    if (!get(o, n, 0, &a) || !get(o, n, 1, &b) || !get(o, n, 2, &c)) return true;
    if (a.n != 1 || b.n != 1 || c.n != 1) return true;
    if (!sx_is_const(o->g->sx, a.at[0], &start) || !sx_is_const(o->g->sx, b.at[0], &stop) ||
        !sx_is_const(o->g->sx, c.at[0], &step) || step == 0 || !is_moderate(start) ||
        !is_moderate(stop) || !is_moderate(step))
        return true;
    int64_t count = step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
    if (count < 0) count = 0;
    if (count > 64) return true;
    sx *at = room(o, count);
    if (at == NULL) return true;
    for (int64_t i = 0; i < count; i++)
        at[i] = ox_const(o, start + i * step);
    struct ints out = {.dtype = a.dtype, .rank = 1, .dims = {count}, .n = count, .at = at};
    return give(o, n, 0, &out, done);
}

/* Sums and products of a whole list. */
static bool fold_reduce(struct ox *o, const struct ox_node *n, bool *done) {
    struct ints a;
    int64_t axes[MAX_RANK];
    int k;
    bool prod = strcmp(n->p->op_type, "ReduceProd") == 0;
    if (!get(o, n, 0, &a) || a.rank > 1) return true;
    if (!axes_of(o, n, prod ? 18 : 13, axes, &k)) return true;
    if (k == 0 && ox_attr_i(n, "noop_with_empty_axes", 0) != 0) return true;
    sx v = ox_const(o, prod);
    for (int64_t i = 0; i < a.n; i++)
        v = prod ? sx_mul(o->g->sx, v, a.at[i]) : sx_add(o->g->sx, v, a.at[i]);
    struct ints out = {.dtype = a.dtype, .n = 1, .at = &v};
    out.rank = ox_attr_i(n, "keepdims", 1) != 0 ? a.rank : 0;
    out.dims[0] = 1;
    return give(o, n, 0, &out, done);
}

static bool fold_identity(struct ox *o, const struct ox_node *n, bool *done) {
    *done = n->n_in == 1 && ox_has(n, 0);
    return !*done || ox_out_same(o, n, 0, n->in[0]);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool (*fold)(struct ox *o, const struct ox_node *n, bool *done);
} folds[] = {
    {"Shape", fold_shape},        {"Size", fold_size},
    {"Concat", fold_concat},      {"Gather", fold_gather},
    {"Slice", fold_slice},        {"Unsqueeze", fold_unsqueeze},
    {"Squeeze", fold_squeeze},    {"Reshape", fold_reshape},
    {"Expand", fold_expand},      {"ConstantOfShape", fold_constant_of_shape},
    {"Range", fold_range},        {"ReduceProd", fold_reduce},
    {"ReduceSum", fold_reduce},   {"Identity", fold_identity},
    {"Cast", fold_cast},          {"CastLike", fold_cast},
    {"Where", fold_where},        {"Neg", fold_unary},
    {"Not", fold_unary},          {"Abs", fold_unary},
    {"Add", fold_binary},         {"Sub", fold_binary},
    {"Mul", fold_binary},         {"Div", fold_binary},
    {"Mod", fold_binary},         {"Max", fold_binary},
    {"Min", fold_binary},         {"Equal", fold_binary},
    {"Less", fold_binary},        {"Greater", fold_binary},
    {"LessOrEqual", fold_binary}, {"GreaterOrEqual", fold_binary},
    {"And", fold_binary},         {"Or", fold_binary},
};

bool ox_fold(struct ox *o, const struct ox_node *n, bool *done) {
    *done = false;
    if (n->p->op_type == NULL || !onnx_same_domain(n->p->domain, "")) return true;
    for (size_t i = 0; i < COUNT_OF(folds); i++) {
        if (strcmp(folds[i].name, n->p->op_type) == 0) return folds[i].fold(o, n, done);
    }
    return true;
}
