/* SPDX-License-Identifier: MIT
 * Operators that give one element from one element of each operand: those of ops.def, where, cast.
 *
 * A block of each operand (a broadcast view of it) is decoded to doubles or int64, converted to the
 * promoted dtype, put through op_ref, rounded to the result's dtype and packed. Intervals go the
 * same way beside it.
 */
#include "eval/tensor.h"

struct ew_slot {
    struct cells in[3];
    struct cells out;
};

struct ew_job {
    struct ev *ev;
    enum op op;
    int n_in;
    enum dtype compute, result;
    const double *param;
    struct tensor in[3];
    enum dtype to[3]; /* what operand k is converted to */
    struct tensor *out;
    struct ew_slot *slots;
    bool track; /* the result has intervals */
    bool mag;
};

/* ---- values ---------------------------------------------------------------------------------- */

/* The commonest operators in a loop of their own; false for the others. */
static bool apply_fast(enum op op, int64_t n, const double *a, const double *b, double *out) {
    switch (op) {
    case OP_ADD:
        for (int64_t i = 0; i < n; i++) {
            out[i] = a[i] + b[i];
        }
        return true;
    case OP_SUB:
        for (int64_t i = 0; i < n; i++) {
            out[i] = a[i] - b[i];
        }
        return true;
    case OP_MUL:
        for (int64_t i = 0; i < n; i++) {
            out[i] = a[i] * b[i];
        }
        return true;
    case OP_DIV:
        for (int64_t i = 0; i < n; i++) {
            out[i] = a[i] / b[i];
        }
        return true;
    default: return false;
    }
}

static void apply(const struct ew_job *j, struct ew_slot *s, int64_t n) {
    bool in_float = dtype_is_float(j->compute);
    if (in_float && apply_fast(j->op, n, s->in[0].f, s->in[1].f, s->out.f)) return;
    bool out_float = dtype_is_float(j->result);
    for (int64_t i = 0; i < n; i++) {
        union scalar v[3];
        for (int k = 0; k < j->n_in; k++) {
            if (dtype_is_float(j->to[k])) {
                v[k].f = s->in[k].f[i];
            } else {
                v[k].i = s->in[k].i[i];
            }
        }
        union scalar r = op_ref(j->op, j->compute, v, j->param);
        if (out_float) {
            s->out.f[i] = r.f;
        } else {
            s->out.i[i] = r.i;
        }
    }
}

/* ---- intervals ------------------------------------------------------------------------------- */

static double mag_of(enum op op, const struct ew_slot *s, int64_t i, struct iv r) {
    double a = s->in[0].mag[i], b = s->in[1].mag[i];
    switch (op) {
    case OP_ADD:
    case OP_SUB: a += b; break;
    case OP_MUL: a *= b; break;
    case OP_NEG: break;
    case OP_DIV: {
        double least = fmin(fabs(s->in[1].lo[i]), fabs(s->in[1].hi[i]));
        if (!(s->in[1].lo[i] > 0 || s->in[1].hi[i] < 0)) return INF;
        a /= least;
        break;
    }
    default: a = 0;
    }
    double m = iv_mag(r);
    return a > m ? a : m;
}

/* Fills lo, hi, mag of the result; out.f or out.i has the exact result on the reference values, not
 * yet rounded. */
static void ranges(const struct ew_job *j, struct ew_slot *s, int64_t n) {
    bool out_float = dtype_is_float(j->result);
    for (int64_t i = 0; i < n; i++) {
        struct iv in[3];
        for (int k = 0; k < j->n_in; k++) {
            in[k] = (struct iv){s->in[k].lo[i], s->in[k].hi[i]};
        }
        double value = out_float ? s->out.f[i] : (double)s->out.i[i];
        if (j->result == DT_U64) value = (double)(uint64_t)s->out.i[i];
        struct iv r = iv_op(j->op, j->compute, j->ev->mode, in, value, j->param);
        r = iv_result(j->result, j->ev->mode, r);
        s->out.lo[i] = r.lo;
        s->out.hi[i] = r.hi;
        if (j->mag) s->out.mag[i] = mag_of(j->op, s, i, r);
    }
}

static void ew_range(void *user, int64_t begin, int64_t end, int slot) {
    const struct ew_job *j = user;
    struct ew_slot *s = &j->slots[slot];
    for (int64_t at = begin; at < end; at += BLOCK) {
        int64_t n = end - at < BLOCK ? end - at : BLOCK;
        for (int k = 0; k < j->n_in; k++) {
            cells_read(&j->in[k], at, n, j->track, j->mag, &s->in[k]);
            cells_cast(&s->in[k], n, j->in[k].dtype, j->to[k], false, true, j->ev->mode, j->track);
        }
        apply(j, s, n);
        if (j->track) ranges(j, s, n);
        if (dtype_is_float(j->result)) round_doubles(j->result, s->out.f, n);
        cells_write(j->out, at, n, &s->out);
    }
}

/* ---- data errors ----------------------------------------------------------------------------- */

static enum proem_status check_divisor(struct ev *ev, enum op op, const struct tensor *t) {
    int64_t buf[BLOCK];
    for (int64_t at = 0; at < t->n; at += BLOCK) {
        int64_t n = t->n - at < BLOCK ? t->n - at : BLOCK;
        read_ints(t, at, n, buf);
        for (int64_t i = 0; i < n; i++) {
            if (buf[i] == 0) {
                return data_error(ev, op, 1, t, at + i, 0, "; an integer divisor must not be 0");
            }
        }
    }
    return PROEM_OK;
}

/* Does converting an operand keep its value? Else the rounding may be left out. */
static bool conversion_exact(enum dtype from, enum dtype to) {
    if (from == to || !dtype_is_float(to)) return true;
    return dtype_significand(from) <= dtype_significand(to) && from != DT_E8M0;
}

/* ---- drivers --------------------------------------------------------------------------------- */

static enum proem_status run(struct ev *ev, struct ew_job *j, bool inexact) {
    j->track = ev->track && (inexact || ev->out_mag);
    j->mag = ev->out_mag;
    TRY(tensor_new(ev, j->out));
    TRY(tensor_intervals(ev, j->out, inexact));
    j->slots = ARENA_NEW(&ev->scratch, struct ew_slot, (size_t)ev->threads);
    if (j->slots == NULL) return err_nomem(ev->err);
    parallel_ranges(ev, j->out->n, BLOCK, ew_range, j);
    if (j->track) tensor_drop_exact(ev, j->out);
    return PROEM_OK;
}

enum proem_status eval_elementwise(struct ev *ev, const struct node *n, const struct tensor *in,
                                   struct tensor *out) {
    struct ew_job j = {.ev = ev, .op = n->op, .n_in = n->n_in, .param = n->attrs.param, .out = out};
    enum dtype dtypes[3] = {DT_NONE, DT_NONE, DT_NONE};
    bool scalar[3];
    bool exact = true;
    if (n->n_in > 3)
        return err_set(ev->err, PROEM_INTERNAL, "elementwise node with %d operands", n->n_in);
    for (int k = 0; k < n->n_in; k++) {
        dtypes[k] = in[k].dtype;
        scalar[k] = graph_value(ev->g, n->in[k])->rank == 0;
        exact = exact && tensor_exact(&in[k]);
        j.in[k] = tensor_expand(&in[k], out->rank, out->shape);
    }
    j.result = op_result_dtype(n->op, dtypes, scalar, n->n_in, &j.compute);
    if (j.result != out->dtype) {
        return err_set(ev->err, PROEM_INTERNAL, "%s: result is %s, not %s", op_info(n->op)->name,
                       dtype_name(j.result), dtype_name(out->dtype));
    }
    for (int k = 0; k < n->n_in; k++) {
        bool count = op_info(n->op)->rule == RULE_SHIFT && k == 1;
        j.to[k] = count ? DT_I64 : j.compute;
    }
    for (int k = 0; k < n->n_in; k++) {
        exact = exact && conversion_exact(dtypes[k], j.to[k]);
    }
    if ((op_info(n->op)->flags & OPF_ZERODIV) != 0 && !dtype_is_float(j.compute)) {
        if (out->n > 0) TRY(check_divisor(ev, n->op, &in[1]));
    }
    bool whole = exact && (!dtype_is_float(j.compute) || !dtype_is_float(j.result));
    return run(ev, &j, !whole);
}

/* ---- where ----------------------------------------------------------------------------------- */

struct where_job {
    struct ev *ev;
    struct tensor in[3];
    struct tensor *out;
    struct ew_slot *slots;
    bool track;
};

static void where_block(const struct where_job *j, struct ew_slot *s, int64_t n) {
    bool is_float = dtype_is_float(j->out->dtype);
    for (int64_t i = 0; i < n; i++) {
        const struct cells *from = &s->in[s->in[0].i[i] != 0 ? 1 : 2];
        if (is_float) {
            s->out.f[i] = from->f[i];
        } else {
            s->out.i[i] = from->i[i];
        }
        if (j->out->store->ch[CH_MAG] != NULL) {
            s->out.mag[i] = fmax(s->in[1].mag[i], s->in[2].mag[i]);
        }
        if (!j->track) continue;
        struct iv r = {from->lo[i], from->hi[i]};
        if (s->in[0].lo[i] < s->in[0].hi[i]) {
            r = iv_hull((struct iv){s->in[1].lo[i], s->in[1].hi[i]},
                        (struct iv){s->in[2].lo[i], s->in[2].hi[i]});
        }
        s->out.lo[i] = r.lo;
        s->out.hi[i] = r.hi;
    }
}

static void where_range(void *user, int64_t begin, int64_t end, int slot) {
    const struct where_job *j = user;
    struct ew_slot *s = &j->slots[slot];
    bool mag = j->out->store->ch[CH_MAG] != NULL;
    for (int64_t at = begin; at < end; at += BLOCK) {
        int64_t n = end - at < BLOCK ? end - at : BLOCK;
        for (int k = 0; k < 3; k++) {
            enum dtype to = k == 0 ? DT_BOOL : j->out->dtype;
            cells_read(&j->in[k], at, n, j->track, mag && k > 0, &s->in[k]);
            cells_cast(&s->in[k], n, j->in[k].dtype, to, false, true, j->ev->mode, j->track);
        }
        where_block(j, s, n);
        cells_write(j->out, at, n, &s->out);
    }
}

enum proem_status eval_where(struct ev *ev, const struct node *n, const struct tensor *in,
                             struct tensor *out) {
    (void)n;
    struct where_job j = {.ev = ev, .out = out};
    bool exact = true;
    for (int k = 0; k < 3; k++) {
        j.in[k] = tensor_expand(&in[k], out->rank, out->shape);
        exact = exact && tensor_exact(&in[k]);
        if (k > 0) exact = exact && conversion_exact(in[k].dtype, out->dtype);
    }
    j.track = ev->track && !exact;
    TRY(tensor_new(ev, out));
    TRY(tensor_intervals(ev, out, !exact));
    j.slots = ARENA_NEW(&ev->scratch, struct ew_slot, (size_t)ev->threads);
    if (j.slots == NULL) return err_nomem(ev->err);
    parallel_ranges(ev, out->n, BLOCK, where_range, &j);
    if (j.track) tensor_drop_exact(ev, out);
    return PROEM_OK;
}

/* ---- cast ------------------------------------------------------------------------------------ */

struct cast_job {
    struct ev *ev;
    const struct tensor *in;
    struct tensor *out;
    const struct attrs *attrs;
    struct cells *cells;
    bool track, mag;
};

static void cast_range(void *user, int64_t begin, int64_t end, int slot) {
    const struct cast_job *j = user;
    struct cells *c = &j->cells[slot];
    for (int64_t at = begin; at < end; at += BLOCK) {
        int64_t n = end - at < BLOCK ? end - at : BLOCK;
        cells_read(j->in, at, n, j->track, j->mag, c);
        cells_cast(c, n, j->in->dtype, j->out->dtype, j->attrs->flag, j->attrs->implied,
                   j->ev->mode, j->track);
        cells_write(j->out, at, n, c);
    }
}

enum proem_status eval_cast(struct ev *ev, const struct node *n, const struct tensor *in,
                            struct tensor *out) {
    struct cast_job j = {ev, in, out, &n->attrs, NULL, false, false};
    bool free_rounding = n->attrs.implied && ev->mode != EVAL_EAGER && dtype_is_float(out->dtype) &&
                         !conversion_exact(in->dtype, out->dtype);
    bool inexact = !tensor_exact(in) || free_rounding;
    j.track = ev->track && inexact;
    TRY(tensor_new(ev, out));
    TRY(tensor_intervals(ev, out, inexact));
    j.mag = out->store->ch[CH_MAG] != NULL;
    j.cells = ARENA_NEW(&ev->scratch, struct cells, (size_t)ev->threads);
    if (j.cells == NULL) return err_nomem(ev->err);
    parallel_ranges(ev, out->n, BLOCK, cast_range, &j);
    if (j.track) tensor_drop_exact(ev, out);
    return PROEM_OK;
}

/* ---- bitcast --------------------------------------------------------------------------------- */

/* Elements are one bit string: of equal width one becomes one, else the last dim rescales. Where an
 * element is not certain, nothing is known of its bits. */
/* Whether the bits of element i are open: its value is, or it is a NaN, whose sign and payload differ
 * between processors. */
static bool open_bits(const struct tensor *t, int64_t i) {
    if (!tensor_exact(t) &&
        !iv_is_point((struct iv){t->store->ch[CH_LO][i], t->store->ch[CH_HI][i]}))
        return true;
    double v = 0;
    if (dtype_is_float(t->dtype)) read_doubles(t, i, 1, -1, &v);
    return isnan(v);
}

enum proem_status eval_bitcast(struct ev *ev, const struct node *n, const struct tensor *in,
                               struct tensor *out) {
    (void)n;
    struct tensor c;
    TRY(tensor_compact(ev, in, &c));
    TRY(tensor_new(ev, out));
    int64_t bytes = dtype_bytes(out->dtype, out->n);
    memcpy(out->store->data, c.store->data, (size_t)bytes);
    bool any = false;
    for (int64_t i = 0; ev->track && i < c.n && !any; i++)
        any = open_bits(&c, i);
    if (!any) return PROEM_OK;
    TRY(tensor_intervals(ev, out, true));
    int64_t from = dtype_bits(in->dtype), to = dtype_bits(out->dtype);
    bool is_float = dtype_is_float(out->dtype);
    int64_t min = 0, max = 1;
    if (!is_float && out->dtype != DT_BOOL) dtype_int_range(out->dtype, &min, &max);
    double most = out->dtype == DT_U64 ? 0x1p64 : (double)max;
    for (int64_t i = 0; i < out->n; i++) {
        int64_t first = i * to / from, last = ((i + 1) * to - 1) / from;
        double v;
        read_doubles(out, i, 1, -1, &v);
        struct iv r = iv_point(v);
        for (int64_t k = first; k <= last; k++) {
            if (open_bits(&c, k)) r = is_float ? iv_any() : (struct iv){(double)min, most};
        }
        out->store->ch[CH_LO][i] = r.lo;
        out->store->ch[CH_HI][i] = r.hi;
    }
    return PROEM_OK;
}
