/* SPDX-License-Identifier: MIT
 * Stores, strided views, and moving elements between packed storage and blocks of doubles.
 *
 * Reading walks a view in row-major order as runs along its last dim; `tensor_flat` first merges
 * dims that are contiguous to each other, so that a compact tensor is one run. Nothing here depends
 * on which elements are read together, so blocks can be cut anywhere (writes: at multiples of
 * BLOCK).
 */
#include "eval/tensor.h"

/* ---- stores ---------------------------------------------------------------------------------- */

enum proem_status tensor_new(struct ev *ev, struct tensor *t) {
    int64_t bytes = dtype_bytes(t->dtype, t->n);
    if (bytes < 0 || (uint64_t)t->n > SIZE_MAX / 64) return err_nomem(ev->err);
    struct store *s = mem_alloc(ev->alloc, 1, sizeof *s);
    if (s == NULL) return err_nomem(ev->err);
    *s = (struct store){.next = ev->made, .refs = 1, .n = (size_t)t->n};
    s->bytes = (size_t)bytes + 8; /* never 0, so that it is owned */
    s->data = mem_alloc(ev->alloc, s->bytes, 1);
    if (s->data == NULL) {
        mem_free(ev->alloc, s, 1, sizeof *s);
        return err_nomem(ev->err);
    }
    if (dtype_is_subbyte(t->dtype)) memset(s->data, 0, s->bytes);
    ev->made = s;
    t->store = s;
    t->offset = 0;
    t->div_axis = -1;
    t->div = 1;
    int64_t stride = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        t->stride[d] = stride;
        stride *= t->shape[d];
    }
    return PROEM_OK;
}

enum proem_status tensor_channel(struct ev *ev, struct tensor *t, int ch) {
    struct store *s = t->store;
    if (s->ch[ch] != NULL) return PROEM_OK;
    s->ch[ch] = mem_alloc(ev->alloc, s->n, sizeof(double));
    return s->ch[ch] != NULL ? PROEM_OK : err_nomem(ev->err);
}

enum proem_status tensor_intervals(struct ev *ev, struct tensor *t, bool inexact) {
    if (!ev->track) return PROEM_OK;
    if (inexact) {
        TRY(tensor_channel(ev, t, CH_LO));
        TRY(tensor_channel(ev, t, CH_HI));
    }
    return ev->out_mag ? tensor_channel(ev, t, CH_MAG) : PROEM_OK;
}

void store_release(struct ev *ev, struct store *s) {
    if (s == NULL || --s->refs > 0) return;
    for (int c = 0; c < CH_COUNT; c++) {
        mem_free(ev->alloc, s->ch[c], s->n, sizeof(double));
    }
    if (s->bytes != 0) mem_free(ev->alloc, s->data, s->bytes, 1);
    mem_free(ev->alloc, s, 1, sizeof *s);
}

void tensor_drop_exact(struct ev *ev, struct tensor *t) {
    struct store *s = t->store;
    if (s->ch[CH_LO] == NULL) return;
    for (size_t i = 0; i < s->n; i++) {
        struct iv a = {s->ch[CH_LO][i], s->ch[CH_HI][i]};
        if (!iv_is_point(a)) return;
    }
    for (int c = CH_LO; c <= CH_HI; c++) {
        mem_free(ev->alloc, s->ch[c], s->n, sizeof(double));
        s->ch[c] = NULL;
    }
}

/* ---- views ----------------------------------------------------------------------------------- */

void tensor_set_shape(struct tensor *t, enum dtype d, int rank, const int64_t *shape) {
    *t = (struct tensor){.dtype = d, .rank = rank, .n = 1, .div_axis = -1, .div = 1};
    for (int i = 0; i < rank; i++) {
        t->shape[i] = shape[i];
        t->n *= shape[i];
    }
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        t->stride[i] = stride;
        stride *= shape[i];
    }
}

bool tensor_is_compact(const struct tensor *t) {
    if (t->div_axis >= 0) return false;
    int64_t stride = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (t->shape[d] != 1 && t->stride[d] != stride) return false;
        stride *= t->shape[d];
    }
    return true;
}

struct tensor tensor_flat(const struct tensor *t) {
    struct tensor f = *t;
    f.rank = 0;
    f.div_axis = -1;
    for (int d = 0; d < t->rank; d++) {
        bool divided = d == t->div_axis;
        if (t->shape[d] == 1 && !divided) continue;
        int last = f.rank - 1;
        if (f.rank > 0 && !divided && last != f.div_axis &&
            f.stride[last] == t->stride[d] * t->shape[d]) {
            f.shape[last] *= t->shape[d];
            f.stride[last] = t->stride[d];
            continue;
        }
        if (divided) f.div_axis = f.rank;
        f.shape[f.rank] = t->shape[d];
        f.stride[f.rank++] = t->stride[d];
    }
    return f;
}

struct tensor tensor_expand(const struct tensor *t, int rank, const int64_t *shape) {
    struct tensor v = *t;
    v.rank = rank;
    v.n = 1;
    int lead = rank - t->rank;
    v.div_axis = t->div_axis >= 0 ? t->div_axis + lead : -1;
    for (int d = 0; d < rank; d++) {
        v.shape[d] = shape[d];
        v.n *= shape[d];
        bool own = d >= lead && (t->shape[d - lead] == shape[d] && shape[d] != 1);
        v.stride[d] = own ? t->stride[d - lead] : 0;
    }
    if (v.div_axis >= 0 && v.stride[v.div_axis] == 0) v.div_axis = -1;
    return v;
}

int64_t tensor_index(const struct tensor *t, int64_t i) {
    int64_t at = t->offset;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (t->shape[d] == 0) continue; /* a view without elements has a place as well */
        int64_t c = i % t->shape[d];
        i /= t->shape[d];
        at += (d == t->div_axis ? c / t->div : c) * t->stride[d];
    }
    return at;
}

struct tensor tensor_axis_last(const struct tensor *t, int axis) {
    struct tensor v = *t;
    for (int d = axis; d + 1 < t->rank; d++) {
        v.shape[d] = t->shape[d + 1];
        v.stride[d] = t->stride[d + 1];
    }
    if (t->rank > 0) {
        v.shape[t->rank - 1] = t->shape[axis];
        v.stride[t->rank - 1] = t->stride[axis];
    }
    return v;
}

struct tensor tensor_tail(const struct tensor *t, int keep, int64_t index) {
    struct tensor lead = *t, v = *t;
    int drop = t->rank - keep;
    lead.rank = drop;
    v.offset = tensor_index(&lead, index);
    v.rank = keep;
    v.div_axis = t->div_axis >= drop ? t->div_axis - drop : -1;
    v.n = 1;
    for (int d = 0; d < keep; d++) {
        v.shape[d] = t->shape[d + drop];
        v.stride[d] = t->stride[d + drop];
        v.n *= v.shape[d];
    }
    return v;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Walks elements [start, start + n) of a view: each step is `count` elements `stride` apart. */
struct walk {
    const struct tensor *t;
    int64_t coord[MAX_RANK];
    int64_t left;
    int64_t at, stride, count; /* the current run */
};

static void walk_start(struct walk *w, const struct tensor *t, int64_t start, int64_t n) {
    w->t = t;
    w->left = n;
    w->count = 0;
    for (int d = t->rank - 1; d >= 0 && n > 0; d--) {
        w->coord[d] = start % t->shape[d];
        start /= t->shape[d];
    }
}

static bool walk_next(struct walk *w) {
    const struct tensor *t = w->t;
    if (w->left <= 0) return false;
    int64_t at = t->offset;
    for (int d = 0; d < t->rank; d++) {
        at += (d == t->div_axis ? w->coord[d] / t->div : w->coord[d]) * t->stride[d];
    }
    int last = t->rank - 1;
    int64_t count = last < 0 ? 1 : t->shape[last] - w->coord[last];
    w->stride = last < 0 ? 0 : t->stride[last];
    if (last >= 0 && last == t->div_axis) {
        int64_t in_group = t->div - w->coord[last] % t->div;
        count = count < in_group ? count : in_group;
        w->stride = 0;
    }
    w->count = count < w->left ? count : w->left;
    w->at = at;
    w->left -= w->count;
    if (last >= 0) {
        w->coord[last] += w->count;
        for (int d = last; d > 0 && w->coord[d] == t->shape[d]; d--) {
            w->coord[d] = 0;
            w->coord[d - 1]++;
        }
    }
    return true;
}

static void take_doubles(const double *from, const struct walk *w, double *out) {
    for (int64_t i = 0; i < w->count; i++) {
        out[i] = from[w->at + i * w->stride];
    }
}

static double bf16_value(uint16_t h) {
    uint32_t b = (uint32_t)h << 16;
    float f;
    memcpy(&f, &b, sizeof f);
    return (double)f;
}

/* Normal numbers by their bits; the rest by elem_load. */
static double f16_value(const uint16_t *p) {
    unsigned e = (*p >> 10) & 31u;
    if (e == 0 || e == 31) return elem_load(DT_F16, p, 0).f;
    uint64_t b =
        (uint64_t)(*p >> 15) << 63 | (uint64_t)(e + 1008) << 52 | (uint64_t)(*p & 1023u) << 42;
    double v;
    memcpy(&v, &b, sizeof v);
    return v;
}

static void decode_floats(enum dtype d, const void *base, const struct walk *w, double *out) {
    int64_t at = w->at, stride = w->stride, n = w->count;
    switch (d) {
    case DT_F64: take_doubles(base, w, out); return;
    case DT_F32:
        for (int64_t i = 0; i < n; i++) {
            out[i] = (double)((const float *)base)[at + i * stride];
        }
        return;
    case DT_BF16:
        for (int64_t i = 0; i < n; i++) {
            out[i] = bf16_value(((const uint16_t *)base)[at + i * stride]);
        }
        return;
    case DT_F16:
        for (int64_t i = 0; i < n; i++) {
            out[i] = f16_value((const uint16_t *)base + at + i * stride);
        }
        return;
    default:
        for (int64_t i = 0; i < n; i++) {
            out[i] = elem_load(d, base, at + i * stride).f;
        }
    }
}

static void decode_ints(enum dtype d, const void *base, const struct walk *w, int64_t *out) {
    int64_t at = w->at, stride = w->stride, n = w->count;
    switch (d) {
    case DT_I64:
        for (int64_t i = 0; i < n; i++) {
            out[i] = ((const int64_t *)base)[at + i * stride];
        }
        return;
    case DT_I32:
        for (int64_t i = 0; i < n; i++) {
            out[i] = ((const int32_t *)base)[at + i * stride];
        }
        return;
    case DT_I8:
        for (int64_t i = 0; i < n; i++) {
            out[i] = ((const int8_t *)base)[at + i * stride];
        }
        return;
    case DT_U8:
        for (int64_t i = 0; i < n; i++) {
            out[i] = ((const uint8_t *)base)[at + i * stride];
        }
        return;
    default:
        for (int64_t i = 0; i < n; i++) {
            out[i] = elem_load(d, base, at + i * stride).i;
        }
    }
}

/* An integer element as a double; u64 is held as its bits. */
static double int_double(enum dtype d, int64_t v) {
    return d == DT_U64 ? (double)(uint64_t)v : (double)v;
}

void read_ints(const struct tensor *t, int64_t start, int64_t n, int64_t *out) {
    struct tensor flat = tensor_flat(t);
    struct walk w;
    walk_start(&w, &flat, start, n);
    while (walk_next(&w)) {
        decode_ints(t->dtype, t->store->data, &w, out);
        out += w.count;
    }
}

static void read_values(const struct tensor *t, int64_t start, int64_t n, double *out) {
    bool is_float = dtype_is_float(t->dtype);
    struct walk w;
    walk_start(&w, t, start, n);
    while (walk_next(&w)) {
        if (is_float) {
            decode_floats(t->dtype, t->store->data, &w, out);
        } else {
            for (int64_t i = 0; i < w.count; i++) {
                out[i] = int_double(t->dtype,
                                    elem_load(t->dtype, t->store->data, w.at + i * w.stride).i);
            }
        }
        out += w.count;
    }
}

void read_doubles(const struct tensor *t, int64_t start, int64_t n, int ch, double *out) {
    struct tensor flat = tensor_flat(t);
    if (ch < 0 || tensor_exact(t)) {
        if (ch != CH_MAG || t->store->ch[CH_MAG] == NULL) {
            read_values(&flat, start, n, out);
            if (ch != CH_MAG) return;
            for (int64_t i = 0; i < n; i++) {
                out[i] = fabs(out[i]);
            }
            return;
        }
    }
    const double *from = t->store->ch[ch];
    const double *lo = t->store->ch[CH_LO], *hi = t->store->ch[CH_HI];
    struct walk w;
    walk_start(&w, &flat, start, n);
    while (walk_next(&w)) {
        if (from != NULL) {
            take_doubles(from, &w, out);
        } else {
            for (int64_t i = 0; i < w.count; i++) {
                int64_t at = w.at + i * w.stride;
                out[i] = iv_mag((struct iv){lo[at], hi[at]});
            }
        }
        out += w.count;
    }
}

void cells_read(const struct tensor *t, int64_t start, int64_t n, bool track, bool mag,
                struct cells *c) {
    if (dtype_is_float(t->dtype)) {
        read_doubles(t, start, n, -1, c->f);
    } else {
        read_ints(t, start, n, c->i);
    }
    if (mag) read_doubles(t, start, n, CH_MAG, c->mag);
    if (!track) return;
    if (!tensor_exact(t)) {
        read_doubles(t, start, n, CH_LO, c->lo);
        read_doubles(t, start, n, CH_HI, c->hi);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        c->lo[i] = dtype_is_float(t->dtype) ? c->f[i] : int_double(t->dtype, c->i[i]);
    }
    memcpy(c->hi, c->lo, (size_t)n * sizeof(double));
}

/* ---- writing --------------------------------------------------------------------------------- */

void round_doubles(enum dtype d, double *v, int64_t n) {
    if (d == DT_F64) return;
    for (int64_t i = 0; i < n; i++) {
        v[i] = round_to(d, v[i]);
    }
}

void write_doubles(const struct tensor *t, int64_t start, int64_t n, const double *v) {
    void *base = t->store->data;
    if (t->dtype == DT_F64) {
        memcpy((double *)base + start, v, (size_t)n * sizeof *v);
    } else if (t->dtype == DT_F32) {
        for (int64_t i = 0; i < n; i++) {
            ((float *)base)[start + i] = (float)v[i];
        }
    } else if (t->dtype == DT_BF16) {
        for (int64_t i = 0; i < n; i++) { /* a value of bf16 is a float with 16 zero bits below */
            float f = (float)v[i];
            uint32_t b;
            memcpy(&b, &f, sizeof b);
            if (isnan(f)) b = 0x7fc00000u;
            ((uint16_t *)base)[start + i] = (uint16_t)(b >> 16);
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            elem_store(t->dtype, base, start + i, (union scalar){.f = v[i]});
        }
    }
}

void write_ints(const struct tensor *t, int64_t start, int64_t n, const int64_t *v) {
    void *base = t->store->data;
    if (t->dtype == DT_I64) {
        memcpy((int64_t *)base + start, v, (size_t)n * sizeof *v);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        elem_store(t->dtype, base, start + i, (union scalar){.i = v[i]});
    }
}

void cells_write(const struct tensor *t, int64_t start, int64_t n, const struct cells *c) {
    if (dtype_is_float(t->dtype)) {
        write_doubles(t, start, n, c->f);
    } else {
        write_ints(t, start, n, c->i);
    }
    double *const *ch = t->store->ch;
    size_t bytes = (size_t)n * sizeof(double);
    if (ch[CH_LO] != NULL) {
        memcpy(ch[CH_LO] + start, c->lo, bytes);
        memcpy(ch[CH_HI] + start, c->hi, bytes);
    }
    if (ch[CH_MAG] != NULL) memcpy(ch[CH_MAG] + start, c->mag, bytes);
}

void copy_elem(const struct tensor *src, int64_t from, const struct tensor *dst, int64_t to) {
    int64_t at = tensor_index(src, from);
    elem_store(dst->dtype, dst->store->data, to, elem_load(src->dtype, src->store->data, at));
    for (int c = 0; c < CH_COUNT; c++) {
        if (dst->store->ch[c] == NULL) continue;
        double v;
        read_doubles(src, from, 1, c, &v);
        dst->store->ch[c][to] = v;
    }
}

void copy_range(const struct tensor *src, int64_t start, int64_t n, const struct tensor *dst,
                int64_t to) {
    struct tensor flat = tensor_flat(src);
    bool bytes = dtype_bits(src->dtype) >= 8;
    size_t size = (size_t)dtype_bits(src->dtype) / 8;
    struct walk w;
    walk_start(&w, &flat, start, n);
    for (int64_t k = to; walk_next(&w); k += w.count) {
        const char *from = src->store->data;
        char *base = dst->store->data;
        if (bytes && w.stride == 1) {
            memcpy(base + (size_t)k * size, from + (size_t)w.at * size, (size_t)w.count * size);
            continue;
        }
        for (int64_t i = 0; i < w.count; i++) {
            int64_t at = w.at + i * w.stride;
            if (bytes) {
                memcpy(base + (size_t)(k + i) * size, from + (size_t)at * size, size);
            } else {
                elem_store(dst->dtype, base, k + i, elem_load(src->dtype, from, at));
            }
        }
    }
    for (int c = 0; c < CH_COUNT; c++) {
        if (dst->store->ch[c] != NULL) read_doubles(&flat, start, n, c, dst->store->ch[c] + to);
    }
}

/* ---- conversion ------------------------------------------------------------------------------ */

static void convert_values(struct cells *c, int64_t n, enum dtype from, enum dtype to,
                           bool saturate) {
    bool from_float = dtype_is_float(from), to_float = dtype_is_float(to);
    if (from_float && to_float && !saturate && dtype_cat(to) == CAT_F) {
        round_doubles(to, c->f, n);
        return;
    }
    bool small = dtype_is_int(from) && from != DT_U64 && dtype_significand(from) <= 53;
    if (small && dtype_cat(to) == CAT_F) {
        for (int64_t i = 0; i < n; i++) {
            c->f[i] = (double)c->i[i];
        }
        if (dtype_significand(to) < dtype_significand(from)) round_doubles(to, c->f, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        union scalar v;
        if (from_float) {
            v.f = c->f[i];
        } else {
            v.i = c->i[i];
        }
        v = elem_cast(from, v, to, saturate);
        if (to_float) {
            c->f[i] = v.f;
        } else {
            c->i[i] = v.i;
        }
    }
}

void cells_cast(struct cells *c, int64_t n, enum dtype from, enum dtype to, bool saturate,
                bool implied, enum eval_mode mode, bool track) {
    if (from == to && (implied || !track)) return;
    if (from != to) convert_values(c, n, from, to, saturate);
    if (!track) return;
    for (int64_t i = 0; i < n; i++) {
        struct iv a = {c->lo[i], c->hi[i]};
        bool real = !implied || mode == EVAL_EAGER;
        if (iv_is_point(a) && real) { /* the value itself, exactly */
            double v = dtype_is_float(to) ? c->f[i] : int_double(to, c->i[i]);
            a = iv_point(v);
        } else {
            a = iv_cast(from, to, saturate, implied, mode, a);
        }
        c->lo[i] = a.lo;
        c->hi[i] = a.hi;
    }
}

struct cast_job {
    struct ev *ev;
    const struct tensor *in;
    struct tensor *out;
    struct cells *cells; /* one a slot */
    bool track;
};

static void cast_range(void *user, int64_t begin, int64_t end, int slot) {
    const struct cast_job *j = user;
    struct cells *c = &j->cells[slot];
    for (int64_t s = begin; s < end; s += BLOCK) {
        int64_t n = end - s < BLOCK ? end - s : BLOCK;
        cells_read(j->in, s, n, j->track, j->out->store->ch[CH_MAG] != NULL, c);
        cells_cast(c, n, j->in->dtype, j->out->dtype, false, true, j->ev->mode, j->track);
        cells_write(j->out, s, n, c);
    }
}

enum proem_status tensor_cast(struct ev *ev, const struct tensor *t, enum dtype d,
                              struct tensor *out) {
    if (t->dtype == d) return tensor_compact(ev, t, out);
    struct tensor r;
    tensor_set_shape(&r, d, t->rank, t->shape);
    TRY(tensor_new(ev, &r));
    bool exact = tensor_exact(t) &&
                 (!dtype_is_float(d) || dtype_significand(t->dtype) <= dtype_significand(d));
    bool track = ev->track && !exact;
    if (track) {
        TRY(tensor_channel(ev, &r, CH_LO));
        TRY(tensor_channel(ev, &r, CH_HI));
    }
    if (t->store->ch[CH_MAG] != NULL) TRY(tensor_channel(ev, &r, CH_MAG));
    struct cells *cells = ARENA_NEW(&ev->scratch, struct cells, (size_t)ev->threads);
    if (cells == NULL) return err_nomem(ev->err);
    struct cast_job job = {ev, t, &r, cells, track};
    parallel_ranges(ev, r.n, BLOCK, cast_range, &job);
    if (track) tensor_drop_exact(ev, &r);
    *out = r;
    return PROEM_OK;
}

static void compact_range(void *user, int64_t begin, int64_t end, int slot) {
    const struct cast_job *j = user;
    (void)slot;
    copy_range(j->in, begin, end - begin, j->out, begin);
}

enum proem_status tensor_compact(struct ev *ev, const struct tensor *t, struct tensor *out) {
    if (tensor_is_compact(t) && t->offset == 0) {
        *out = *t;
        return PROEM_OK;
    }
    struct tensor r;
    tensor_set_shape(&r, t->dtype, t->rank, t->shape);
    TRY(tensor_new(ev, &r));
    for (int c = 0; c < CH_COUNT; c++) {
        if (t->store->ch[c] != NULL) TRY(tensor_channel(ev, &r, c));
    }
    struct cast_job job = {ev, t, &r, NULL, false};
    parallel_ranges(ev, r.n, BLOCK, compact_range, &job);
    *out = r;
    return PROEM_OK;
}
