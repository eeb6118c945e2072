/* SPDX-License-Identifier: MIT
 * dequantize and quantize: elementwise but for the scale, whose index along one axis is divided by
 * the block size; a view with a divided axis gives every element its scale.
 *
 * dequantize: (q - zero) * scale in f64, rounded once. quantize: x/scale half to even, plus zero,
 * saturated; the division is f32's (f64's), so a quotient next to a tie may go either way unless it
 * is exact.
 */
#include "eval/tensor.h"

struct quant_slot {
    struct cells x, scale, zero, out;
};

struct quant_job {
    struct ev *ev;
    struct tensor x, scale, zero;
    struct tensor *out;
    struct quant_slot *slots;
    bool track, mag;
    enum dtype wide;
};

/* scale or zero as a view of x's shape. */
static struct tensor spread(const struct tensor *s, const struct tensor *x, int axis,
                            int64_t block) {
    struct tensor v = *s;
    if (s->rank == 1 && x->rank != 1 && s->n != 0 && block == 0) { /* [D] along axis */
        v = *x;
        v.dtype = s->dtype;
        v.store = s->store;
        v.offset = s->offset;
        v.div_axis = -1;
        for (int d = 0; d < x->rank; d++) {
            v.stride[d] = d == axis && s->shape[0] != 1 ? s->stride[0] : 0;
        }
        return v;
    }
    if (block > 0 && s->rank == x->rank) {
        v.shape[axis] = x->shape[axis];
        v.div_axis = axis;
        v.div = block;
        int64_t stride = s->stride[axis];
        struct tensor r = tensor_expand(&v, x->rank, x->shape);
        r.div_axis = axis;
        r.div = block;
        r.stride[axis] = stride;
        return r;
    }
    return tensor_expand(s, x->rank, x->shape);
}

/* A cell's value as a double, whatever its dtype. */
static double cell(enum dtype d, const struct cells *c, int64_t i) {
    if (dtype_is_float(d)) return c->f[i];
    return d == DT_U64 ? (double)(uint64_t)c->i[i] : (double)c->i[i];
}

static struct iv cell_iv(const struct cells *c, int64_t i) {
    return (struct iv){c->lo[i], c->hi[i]};
}

static void read_all(const struct quant_job *j, struct quant_slot *s, int64_t at, int64_t n) {
    cells_read(&j->x, at, n, j->track, false, &s->x);
    cells_read(&j->scale, at, n, j->track, false, &s->scale);
    if (j->zero.store != NULL) cells_read(&j->zero, at, n, j->track, false, &s->zero);
}

/* ---- dequantize ------------------------------------------------------------------------------ */

static struct iv dequantized(const struct quant_job *j, struct quant_slot *s, int64_t i) {
    struct iv q = cell_iv(&s->x, i), scale = cell_iv(&s->scale, i);
    q = iv_widen(j->wide, 0, q); /* an integer of more than 24 bits rounds */
    bool points = iv_is_point(q) && iv_is_point(scale);
    if (j->zero.store != NULL) {
        struct iv zero = iv_widen(j->wide, 0, cell_iv(&s->zero, i));
        points = points && iv_is_point(zero);
        q = iv_widen(j->wide, 0, iv_sub(q, zero));
    }
    struct iv r = iv_mul(q, scale);
    bool exact = points && iv_is_point(q) && j->wide == DT_F32;
    if (!exact) r = iv_grow(r, unit_of(j->wide), 0x1p-150);
    r = iv_widen(j->wide, 0, r);
    return iv_result(j->out->dtype, j->ev->mode, r);
}

static void dequantize_range(void *user, int64_t begin, int64_t end, int slot) {
    const struct quant_job *j = user;
    struct quant_slot *s = &j->slots[slot];
    bool has_zero = j->zero.store != NULL;
    for (int64_t at = begin; at < end; at += BLOCK) {
        int64_t n = end - at < BLOCK ? end - at : BLOCK;
        read_all(j, s, at, n);
        for (int64_t i = 0; i < n; i++) {
            double q = cell(j->x.dtype, &s->x, i), scale = cell(j->scale.dtype, &s->scale, i);
            double zero = has_zero ? cell(j->zero.dtype, &s->zero, i) : 0;
            s->out.f[i] = has_zero ? (q - zero) * scale : q * scale;
            if (!j->track) continue;
            struct iv r = dequantized(j, s, i);
            s->out.lo[i] = r.lo;
            s->out.hi[i] = r.hi;
            s->out.mag[i] = fmax((fabs(q) + fabs(zero)) * fabs(scale), iv_mag(r));
        }
        round_doubles(j->out->dtype, s->out.f, n);
        cells_write(j->out, at, n, &s->out);
    }
}

static enum proem_status prepare(struct ev *ev, const struct node *n, const struct tensor *in,
                                 struct tensor *out, struct quant_job *j) {
    int axis = n->attrs.axis;
    int64_t block = n->attrs.block;
    *j = (struct quant_job){.ev = ev, .out = out};
    j->x = in[0];
    j->scale = spread(&in[1], &in[0], axis, block);
    if (n->n_in > 2 && in[2].store != NULL) j->zero = spread(&in[2], &in[0], axis, block);
    j->slots = ARENA_NEW(&ev->scratch, struct quant_slot, (size_t)ev->threads);
    return j->slots != NULL ? PROEM_OK : err_nomem(ev->err);
}

enum proem_status eval_dequantize(struct ev *ev, const struct node *n, const struct tensor *in,
                                  struct tensor *out) {
    if (dtype_is_block(in[0].dtype)) return eval_blocks(ev, in, out);
    struct quant_job j;
    TRY(prepare(ev, n, in, out, &j));
    j.wide = out->dtype == DT_F64 || in[1].dtype == DT_F64 ? DT_F64 : DT_F32;
    j.track = ev->track;
    TRY(tensor_new(ev, out));
    TRY(tensor_intervals(ev, out, true));
    j.mag = out->store->ch[CH_MAG] != NULL;
    parallel_ranges(ev, out->n, BLOCK, dequantize_range, &j);
    tensor_drop_exact(ev, out);
    return PROEM_OK;
}

/* ---- quantize -------------------------------------------------------------------------------- */

/* One end of the interval: the quotient rounded, shifted, saturated. */
static double quantized(enum dtype d, double ratio, double zero) {
    if (dtype_is_float(d)) return float_round(d, ratio, true);
    if (isnan(ratio)) return 0;
    double v = nearbyint(ratio) + zero;
    int64_t min, max;
    dtype_int_range(d, &min, &max);
    double low = (double)min, high = d == DT_U64 ? 0x1p64 : (double)max;
    return v < low ? low : v > high ? high : v;
}

static union scalar quantized_value(enum dtype d, double v) {
    if (dtype_is_float(d)) return (union scalar){.f = v};
    return elem_cast(DT_F64, (union scalar){.f = v}, d, false);
}

static void quantize_range(void *user, int64_t begin, int64_t end, int slot) {
    const struct quant_job *j = user;
    struct quant_slot *s = &j->slots[slot];
    enum dtype d = j->out->dtype;
    bool has_zero = j->zero.store != NULL;
    for (int64_t at = begin; at < end; at += BLOCK) {
        int64_t n = end - at < BLOCK ? end - at : BLOCK;
        read_all(j, s, at, n);
        for (int64_t i = 0; i < n; i++) {
            double x = cell(j->x.dtype, &s->x, i), scale = cell(j->scale.dtype, &s->scale, i);
            double zero = has_zero ? cell(j->zero.dtype, &s->zero, i) : 0;
            double ratio = j->wide == DT_F64 ? x / scale : (double)(float)(x / scale);
            union scalar v = quantized_value(d, quantized(d, ratio, zero));
            if (dtype_is_float(d)) {
                s->out.f[i] = v.f;
            } else {
                s->out.i[i] = v.i;
            }
            if (!j->track) continue;
            struct iv r = iv_widen(j->wide, 0, iv_div(cell_iv(&s->x, i), cell_iv(&s->scale, i)));
            struct iv z = has_zero ? cell_iv(&s->zero, i) : iv_point(0);
            s->out.lo[i] = quantized(d, r.lo, z.lo);
            s->out.hi[i] = quantized(d, r.hi, z.hi);
            if (isnan(r.lo) || iv_is_any(r)) { /* NaN becomes 0, plus nothing */
                struct iv whole = {quantized(d, -INF, 0), quantized(d, INF, 0)};
                if (iv_is_nan(r)) whole = iv_point(dtype_is_float(d) ? v.f : (double)v.i);
                s->out.lo[i] = whole.lo;
                s->out.hi[i] = whole.hi;
            }
        }
        cells_write(j->out, at, n, &s->out);
    }
}

enum proem_status eval_quantize(struct ev *ev, const struct node *n, const struct tensor *in,
                                struct tensor *out) {
    struct quant_job j;
    TRY(prepare(ev, n, in, out, &j));
    j.wide = in[0].dtype == DT_F64 || in[1].dtype == DT_F64 ? DT_F64 : DT_F32;
    j.track = ev->track;
    TRY(tensor_new(ev, out));
    TRY(tensor_intervals(ev, out, true));
    parallel_ranges(ev, out->n, BLOCK, quantize_range, &j);
    tensor_drop_exact(ev, out);
    return PROEM_OK;
}
