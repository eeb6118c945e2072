/* SPDX-License-Identifier: MIT
 * Indexed operators: take, take_along, look-ups of hooks, and the scatters.
 *
 * Indices are checked first, in row-major order, so that a bad one is an exact data error. An index
 * that intervals leave open gives elements of which nothing is known. scatter_add sums in f64 (f32
 * in a plan: the bound of a sum of its terms in any order) and rounds once.
 */
#include "eval/tensor.h"

/* The indices of t as positions in [0, bound); open[i] says that intervals leave index i open (NULL
 * if none is). */
static enum proem_status indices(struct ev *ev, enum op op, int axis, const struct tensor *t,
                                 int64_t bound, int64_t **out_at, bool **out_open) {
    int64_t *at = ARENA_NEW(&ev->scratch, int64_t, (size_t)t->n);
    if (at == NULL) return err_nomem(ev->err);
    read_ints(t, 0, t->n, at);
    for (int64_t i = 0; i < t->n; i++) {
        if (at[i] >= bound || at[i] < -bound) {
            return index_error(ev, op, 1, t, i, at[i], bound, axis);
        }
        if (at[i] < 0) at[i] += bound;
    }
    *out_at = at;
    *out_open = NULL;
    if (tensor_exact(t)) return PROEM_OK;
    bool *open = ARENA_NEW(&ev->scratch, bool, (size_t)t->n);
    if (open == NULL) return err_nomem(ev->err);
    for (int64_t i = 0; i < t->n; i++) {
        double lo, hi;
        read_doubles(t, i, 1, CH_LO, &lo);
        read_doubles(t, i, 1, CH_HI, &hi);
        open[i] = lo != hi;
    }
    *out_open = open;
    return PROEM_OK;
}

/* Channels of the result of moving elements of `from`. */
static enum proem_status move_channels(struct ev *ev, struct tensor *out, const struct tensor *from,
                                       bool open) {
    for (int c = 0; c < CH_COUNT; c++) {
        bool ends = c != CH_MAG && open && ev->track;
        if (from->store->ch[c] != NULL || ends) TRY(tensor_channel(ev, out, c));
    }
    return PROEM_OK;
}

static void set_unknown(const struct tensor *out, int64_t at, int64_t n) {
    for (int64_t i = at; i < at + n; i++) {
        out->store->ch[CH_LO][i] = -INF;
        out->store->ch[CH_HI][i] = INF;
        if (out->store->ch[CH_MAG] != NULL) out->store->ch[CH_MAG][i] = INF;
    }
}

static int64_t dims_product(const struct tensor *t, int from, int to) {
    int64_t n = 1;
    for (int d = from; d < to; d++) {
        n *= t->shape[d];
    }
    return n;
}

enum proem_status eval_take(struct ev *ev, const struct node *n, const struct tensor *in,
                            struct tensor *out) {
    int axis = n->attrs.axis;
    int64_t *at;
    bool *open;
    TRY(indices(ev, n->op, axis, &in[1], in->shape[axis], &at, &open));
    TRY(tensor_new(ev, out));
    TRY(move_channels(ev, out, in, open != NULL));
    int64_t outer = dims_product(in, 0, axis), inner = dims_product(in, axis + 1, in->rank);
    int64_t to = 0;
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < in[1].n; i++, to += inner) {
            if (inner == 0) continue;
            copy_range(in, (o * in->shape[axis] + at[i]) * inner, inner, out, to);
            if (open != NULL && open[i]) set_unknown(out, to, inner);
        }
    }
    return PROEM_OK;
}

/* The leading part of each dim that is larger than asked; a dim of 1 broadcasts. */
static struct tensor restricted(const struct tensor *t, const int64_t *shape) {
    struct tensor v = *t;
    v.n = 1;
    for (int d = 0; d < t->rank; d++) {
        if (t->shape[d] == 1 && shape[d] != 1) v.stride[d] = 0;
        v.shape[d] = shape[d];
        v.n *= shape[d];
    }
    return v;
}

enum proem_status eval_take_along(struct ev *ev, const struct node *n, const struct tensor *in,
                                  struct tensor *out) {
    int axis = n->attrs.axis;
    int64_t *at;
    bool *open;
    TRY(indices(ev, n->op, axis, &in[1], in->shape[axis], &at, &open));
    /* x restricted or broadcast to the result's other dims; the axis stays whole. */
    int64_t shape[MAX_RANK];
    memcpy(shape, out->shape, sizeof shape);
    shape[axis] = in->shape[axis];
    struct tensor x = restricted(in, shape);
    struct tensor index = tensor_expand(&in[1], out->rank, out->shape);
    TRY(tensor_new(ev, out));
    TRY(move_channels(ev, out, in, open != NULL));
    int64_t inner = dims_product(out, axis + 1, out->rank);
    struct tensor order; /* which element of `at` each element of the broadcast index is */
    order = in[1];
    int64_t stride = 1;
    for (int d = order.rank - 1; d >= 0; d--) {
        order.stride[d] = stride;
        stride *= order.shape[d];
    }
    order.offset = 0;
    order = tensor_expand(&order, index.rank, index.shape);
    for (int64_t i = 0; i < out->n; i++) {
        int64_t k = tensor_index(&order, i);
        int64_t o = i / inner / out->shape[axis], rest = i % inner;
        copy_elem(&x, (o * shape[axis] + at[k]) * inner + rest, out, i);
        if (open != NULL && open[k]) set_unknown(out, i, 1);
    }
    return PROEM_OK;
}

/* lookup(t, i0, i1, ..): t at one index a dim; the indices broadcast to the result's shape. */
enum proem_status eval_lookup(struct ev *ev, const struct node *n, const struct tensor *in,
                              struct tensor *out) {
    TRY(tensor_new(ev, out));
    int64_t *flat = ARENA_NEW(&ev->scratch, int64_t, (size_t)out->n);
    bool *open = ARENA_NEW(&ev->scratch, bool, (size_t)out->n);
    int64_t *part = ARENA_NEW(&ev->scratch, int64_t, (size_t)out->n);
    if (flat == NULL || open == NULL || part == NULL) return err_nomem(ev->err);
    bool any = false;
    for (int k = 1; k < n->n_in; k++) {
        struct tensor index = tensor_expand(&in[k], out->rank, out->shape);
        int64_t bound = in->shape[k - 1];
        read_ints(&index, 0, index.n, part);
        for (int64_t i = 0; i < out->n; i++) {
            if (part[i] >= bound || part[i] < -bound) {
                return index_error(ev, n->op, k, &index, i, part[i], bound, k - 1);
            }
            flat[i] = flat[i] * bound + (part[i] < 0 ? part[i] + bound : part[i]);
            if (tensor_exact(&in[k])) continue;
            double lo, hi;
            read_doubles(&index, i, 1, CH_LO, &lo);
            read_doubles(&index, i, 1, CH_HI, &hi);
            open[i] = open[i] || lo != hi;
            any = any || open[i];
        }
    }
    TRY(move_channels(ev, out, in, any));
    for (int64_t i = 0; i < out->n; i++) {
        copy_elem(in, flat[i], out, i);
        if (any && open[i]) set_unknown(out, i, 1);
    }
    return PROEM_OK;
}

/* ---- scatter --------------------------------------------------------------------------------- */

struct scatter {
    struct ev *ev;
    struct tensor base, src; /* of the result's dtype */
    struct tensor *out;
    const int64_t *at;
    const bool *open;
    int64_t n_index, inner, extent;
    bool along; /* index has one entry per element of src */
    int axis;
};

/* Where element k of src goes: its flat position in the result, and its number in the index. */
static int64_t target(const struct scatter *s, int64_t k, int64_t *index) {
    if (!s->along) {
        int64_t i = k / s->inner % s->n_index, o = k / s->inner / s->n_index;
        *index = i;
        return (o * s->extent + s->at[i]) * s->inner + k % s->inner;
    }
    *index = k;
    int64_t rest = k, to = 0, stride = 1;
    for (int d = s->out->rank - 1; d >= 0; d--) {
        int64_t c = rest % s->src.shape[d];
        rest /= s->src.shape[d];
        to += (d == s->axis ? s->at[k] : c) * stride;
        stride *= s->out->shape[d];
    }
    return to;
}

static enum proem_status scatter_set(struct scatter *s) {
    struct ev *ev = s->ev;
    bool any_open = s->open != NULL;
    TRY(move_channels(ev, s->out, &s->base, any_open));
    TRY(move_channels(ev, s->out, &s->src, any_open));
    copy_range(&s->base, 0, s->base.n, s->out, 0);
    for (int64_t k = 0; k < s->src.n; k++) {
        int64_t index, to = target(s, k, &index);
        copy_elem(&s->src, k, s->out, to);
    }
    /* An open index may write, or fail to write, anywhere along the axis. */
    for (int64_t i = 0; any_open && i < s->n_index; i++) {
        if (!s->open[i]) continue;
        set_unknown(s->out, 0, s->out->n);
        break;
    }
    return PROEM_OK;
}

static enum proem_status scatter_add_ints(struct scatter *s) {
    int64_t *acc = ARENA_NEW(&s->ev->scratch, int64_t, (size_t)s->out->n);
    int64_t *add = ARENA_NEW(&s->ev->scratch, int64_t, (size_t)s->src.n);
    if (acc == NULL || add == NULL) return err_nomem(s->ev->err);
    read_ints(&s->base, 0, s->base.n, acc);
    read_ints(&s->src, 0, s->src.n, add);
    for (int64_t k = 0; k < s->src.n; k++) {
        int64_t index, to = target(s, k, &index);
        acc[to] = (int64_t)((uint64_t)acc[to] + (uint64_t)add[k]);
    }
    for (int64_t i = 0; i < s->out->n; i++) {
        acc[i] = elem_cast(DT_I64, (union scalar){.i = acc[i]}, s->out->dtype, false).i;
    }
    write_ints(s->out, 0, s->out->n, acc);
    bool exact = tensor_exact(&s->base) && tensor_exact(&s->src) && s->open == NULL;
    TRY(tensor_intervals(s->ev, s->out, !exact));
    if (s->ev->track && !exact) set_unknown(s->out, 0, s->out->n);
    return PROEM_OK;
}

/* Per target the running sums that the value and its interval need. */
struct adding {
    double *sum, *lo, *hi, *mag, *count, *grid;
};

static void add_ranges(struct scatter *s, struct adding *a) {
    bool eager = s->ev->mode == EVAL_EAGER;
    enum dtype d = s->out->dtype;
    for (int64_t i = 0; i < s->out->n; i++) {
        struct iv r = iv_fix(a->lo[i], a->hi[i]);
        double terms = a->count[i] + 1;
        double u = unit_of(wide_of(d));
        bool exact = d != DT_F64 && a->mag[i] <= 0x1p24 * a->grid[i] && a->grid[i] >= 0x1p-149;
        if (terms > 1 && !exact) {
            r = iv_grow(r, 0, gamma_bound(terms, u) * a->mag[i] + 0x1p-1000);
            r = iv_fix(r.lo, r.hi);
        }
        if (terms == 1) {
            read_doubles(&s->base, i, 1, CH_LO, &r.lo);
            read_doubles(&s->base, i, 1, CH_HI, &r.hi);
        } else {
            r = eager ? iv_round(d, false, r) : iv_result(d, s->ev->mode, r);
        }
        s->out->store->ch[CH_LO][i] = r.lo;
        s->out->store->ch[CH_HI][i] = r.hi;
        if (s->out->store->ch[CH_MAG] != NULL)
            s->out->store->ch[CH_MAG][i] = fmax(a->mag[i], iv_mag(r));
    }
}

static void add_term(struct adding *a, int64_t to, const struct cells *c, int64_t i) {
    double lo = c->lo[i], hi = c->hi[i];
    a->lo[to] += lo;
    a->hi[to] += hi;
    a->mag[to] += fmax(c->mag[i], iv_mag((struct iv){lo, hi}));
    double g = lo == hi ? grid_of(lo) : 0;
    if (g < a->grid[to]) a->grid[to] = g;
}

static enum proem_status adding_memory(struct ev *ev, struct adding *a, size_t n) {
    double **part[] = {&a->lo, &a->hi, &a->mag, &a->count, &a->grid};
    for (size_t k = 0; k < COUNT_OF(part); k++) {
        *part[k] = ARENA_NEW(&ev->scratch, double, n);
        if (*part[k] == NULL) return err_nomem(ev->err);
    }
    return PROEM_OK;
}

static enum proem_status scatter_add_floats(struct scatter *s) {
    struct ev *ev = s->ev;
    int64_t n = s->out->n;
    struct adding a = {.sum = ARENA_NEW(&ev->scratch, double, (size_t)n)};
    struct cells *c = ARENA_NEW(&ev->scratch, struct cells, 1);
    if (a.sum == NULL || c == NULL) return err_nomem(ev->err);
    TRY(tensor_intervals(ev, s->out, true));
    if (ev->track) TRY(adding_memory(ev, &a, (size_t)n));
    for (int64_t k = 0; k < n; k += BLOCK) {
        int64_t m = n - k < BLOCK ? n - k : BLOCK;
        cells_read(&s->base, k, m, ev->track, ev->track, c);
        memcpy(a.sum + k, c->f, (size_t)m * sizeof(double));
        for (int64_t i = 0; i < m && ev->track; i++) {
            a.grid[k + i] = INF;
            add_term(&a, k + i, c, i);
        }
    }
    bool open = false;
    for (int64_t k = 0; k < s->src.n; k += BLOCK) {
        int64_t m = s->src.n - k < BLOCK ? s->src.n - k : BLOCK;
        cells_read(&s->src, k, m, ev->track, ev->track, c);
        for (int64_t i = 0; i < m; i++) {
            int64_t index, to = target(s, k + i, &index);
            a.sum[to] += c->f[i];
            if (!ev->track) continue;
            add_term(&a, to, c, i);
            a.count[to]++;
            open = open || (s->open != NULL && s->open[index]);
        }
    }
    round_doubles(s->out->dtype, a.sum, n);
    write_doubles(s->out, 0, n, a.sum);
    if (!ev->track) return PROEM_OK;
    add_ranges(s, &a);
    if (open) set_unknown(s->out, 0, n);
    tensor_drop_exact(ev, s->out);
    return PROEM_OK;
}

enum proem_status eval_scatter(struct ev *ev, const struct node *n, const struct tensor *in,
                               struct tensor *out) {
    struct scatter s = {.ev = ev, .out = out, .along = n->op == OP_SCATTER_ALONG};
    int axis = n->attrs.axis;
    int64_t *at;
    bool *open;
    TRY(indices(ev, n->op, axis, &in[1], out->shape[axis], &at, &open));
    s.at = at;
    s.open = open;
    s.n_index = in[1].n;
    s.extent = out->shape[axis];
    s.base = in[0];
    s.src = in[2];
    if (in[0].dtype != out->dtype) TRY(tensor_cast(ev, &in[0], out->dtype, &s.base));
    if (in[2].dtype != out->dtype) TRY(tensor_cast(ev, &in[2], out->dtype, &s.src));
    s.inner = dims_product(out, axis + 1, out->rank);
    s.axis = axis;
    if (s.along) s.src = restricted(&s.src, in[1].shape);
    TRY(tensor_new(ev, out));
    bool add = n->op == OP_SCATTER_ADD || (n->op == OP_SCATTER_ALONG && n->attrs.flag);
    if (!add) return scatter_set(&s);
    return dtype_is_float(out->dtype) ? scatter_add_floats(&s) : scatter_add_ints(&s);
}
