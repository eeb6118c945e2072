/* SPDX-License-Identifier: MIT
 * Strided tensors: are they compact, what memory do they touch, and copies between them.
 *
 * Offsets are counted in elements; a copy first checks that every offset fits 64 bits (in bits of
 * memory), so its loops need no checks. Dims of size 1 are dropped and dims that follow each other
 * without a gap in both tensors are merged, so most copies are one or two loops over long runs.
 * Where the destination's fastest dim is not the source's (a transpose), both go in blocks that fit
 * L1.
 */
#include "rt/rt_internal.h"

#include <string.h>

#define BLOCK 32 /* elements a side of a transposing copy */

static bool bits_are_valid(int bits) {
    return bits == 2 || bits == 4 || (bits > 0 && bits <= 64 && bits % 8 == 0);
}

static bool mul(int64_t a, int64_t b, int64_t *out) {
    if (a != 0 && b != 0) {
        int64_t limit = INT64_MAX;
        if (a > 0 ? (b > 0 ? a > limit / b : b < -limit / a)
                  : (b > 0 ? a < -limit / b : a < limit / b)) {
            return false;
        }
    }
    *out = a * b;
    return true;
}

/* Elements; false if a dim is negative or the number of bits passes int64. */
static bool count(const struct rt_view *v, int64_t *n) {
    int64_t product = 1;
    bool empty = false;
    if (!bits_are_valid(v->bits) || v->rank < 0 || v->rank > RT_VIEW_RANK) return false;
    for (int i = 0; i < v->rank; i++) {
        if (v->shape[i] < 0) return false;
        if (v->shape[i] == 0) empty = true;
    }
    for (int i = 0; !empty && i < v->rank; i++) {
        if (!mul(product, v->shape[i], &product)) return false;
    }
    int64_t bits;
    if (!empty && !mul(product, v->bits, &bits)) return false;
    *n = empty ? 0 : product;
    return true;
}

bool rt_view_bytes(const struct rt_view *v, int64_t *bytes) {
    int64_t n;
    if (!count(v, &n)) return false;
    *bytes = v->bits % 8 == 0 ? n * (v->bits / 8) : (n * v->bits + 7) / 8;
    return true;
}

bool rt_view_is_compact(const struct rt_view *v) {
    int64_t n, expect = 1;
    if (v->strides == NULL) return true;
    if (count(v, &n) && n == 0) return true;
    for (int i = v->rank - 1; i >= 0; i--) {
        if (v->shape[i] != 1 && v->strides[i] != expect) return false;
        if (!mul(expect, v->shape[i], &expect)) return false;
    }
    return true;
}

static int64_t stride_of(const struct rt_view *v, int dim) {
    if (v->strides != NULL) return v->strides[dim];
    int64_t s = 1;
    for (int i = v->rank - 1; i > dim; i--)
        s *= v->shape[i];
    return s;
}

static int64_t floor_byte(int64_t bit) {
    return bit >= 0 ? bit / 8 : -((-bit + 7) / 8);
}

bool rt_view_extent(const struct rt_view *v, int64_t *lo, int64_t *hi) {
    int64_t n, low = 0, high = 0;
    if (!count(v, &n)) return false;
    *lo = *hi = 0;
    if (n == 0) return true;
    if (v->strides == NULL) return rt_view_bytes(v, hi);
    for (int i = 0; i < v->rank; i++) {
        int64_t reach;
        if (!mul(v->shape[i] - 1, v->strides[i], &reach)) return false;
        int64_t *end = reach < 0 ? &low : &high;
        if (reach < 0 ? *end < -INT64_MAX - reach : *end > INT64_MAX - reach) return false;
        *end += reach;
    }
    int64_t low_bit, high_bit;
    if (!mul(low, v->bits, &low_bit) || high == INT64_MAX || !mul(high + 1, v->bits, &high_bit) ||
        low_bit < -INT64_MAX + 8 || high_bit > INT64_MAX - 8) {
        return false;
    }
    *lo = floor_byte(low_bit);
    *hi = (high_bit + 7) / 8;
    return true;
}

/* ---- overlap --------------------------------------------------------------------------------- */

bool rt_views_equal(const struct rt_view *a, const struct rt_view *b) {
    if (a->data != b->data || a->bits != b->bits || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->shape[i] != b->shape[i]) return false;
        if (a->shape[i] != 1 && stride_of(a, i) != stride_of(b, i)) return false;
    }
    return true;
}

/* The dim of the largest stride: the rows of something wider, say. -1 if there is none. */
static int widest_dim(const struct rt_view *v) {
    int widest = -1;
    for (int i = 0; i < v->rank; i++) {
        if (v->shape[i] <= 1) continue;
        if (widest < 0 || stride_of(v, i) > stride_of(v, widest)) widest = i;
    }
    return widest;
}

/* Extent with one dim fixed at its first position. */
static bool extent_without(const struct rt_view *v, int dim, int64_t *lo, int64_t *hi) {
    int64_t shape[RT_VIEW_RANK], strides[RT_VIEW_RANK];
    for (int i = 0; i < v->rank; i++) {
        shape[i] = i == dim ? 1 : v->shape[i];
        strides[i] = stride_of(v, i);
    }
    struct rt_view part = {v->data, v->bits, v->rank, shape, strides};
    return rt_view_extent(&part, lo, hi);
}

/* Column ranges of one wider matrix: equal row strides, and columns apart modulo that stride. */
static bool columns_are_apart(const struct rt_view *a, const struct rt_view *b) {
    int da = widest_dim(a), db = widest_dim(b);
    if (da < 0 || db < 0 || a->bits != b->bits) return false;
    int64_t stride = stride_of(a, da);
    if (stride <= 0 || stride != stride_of(b, db) || stride * a->bits % 8 != 0) return false;
    stride = stride * a->bits / 8;
    int64_t a_lo, a_hi, b_lo, b_hi;
    if (!extent_without(a, da, &a_lo, &a_hi) || !extent_without(b, db, &b_lo, &b_hi)) return false;
    if (a_hi - a_lo > stride || b_hi - b_lo > stride) return false;
    uintptr_t from = (uintptr_t)a->data + (uintptr_t)a_lo;
    uintptr_t to = (uintptr_t)b->data + (uintptr_t)b_lo;
    int64_t apart = to >= from ? (int64_t)((to - from) % (uintptr_t)stride)
                               : (int64_t)((from - to) % (uintptr_t)stride);
    if (to < from && apart != 0) apart = stride - apart;
    return apart >= a_hi - a_lo && apart + (b_hi - b_lo) <= stride;
}

bool rt_views_overlap(const struct rt_view *a, const struct rt_view *b) {
    int64_t a_lo, a_hi, b_lo, b_hi;
    if (!rt_view_extent(a, &a_lo, &a_hi) || !rt_view_extent(b, &b_lo, &b_hi)) return true;
    if (a_lo == a_hi || b_lo == b_hi) return false;
    uintptr_t a0 = (uintptr_t)a->data + (uintptr_t)a_lo, a1 = (uintptr_t)a->data + (uintptr_t)a_hi;
    uintptr_t b0 = (uintptr_t)b->data + (uintptr_t)b_lo, b1 = (uintptr_t)b->data + (uintptr_t)b_hi;
    if (a1 <= b0 || b1 <= a0) return false;
    return !columns_are_apart(a, b);
}

/* ---- copies ---------------------------------------------------------------------------------- */

struct loop {
    int64_t n, dst, src; /* iterations, and strides in elements */
};

struct copy {
    char *dst;
    const char *src;
    int bits;
    int rank;
    struct loop dim[RT_VIEW_RANK]; /* outermost first */
};

static void make_loops(struct copy *c, const struct rt_view *dst, const struct rt_view *src) {
    c->rank = 0;
    for (int i = 0; i < dst->rank; i++) {
        struct loop l = {dst->shape[i], stride_of(dst, i), stride_of(src, i)};
        if (l.n == 1) continue;
        struct loop *outer = c->rank > 0 ? &c->dim[c->rank - 1] : NULL;
        if (outer != NULL && outer->dst == l.dst * l.n && outer->src == l.src * l.n) {
            *outer = (struct loop){outer->n * l.n, l.dst, l.src};
        } else {
            c->dim[c->rank++] = l;
        }
    }
}

static void copy_bits(const struct copy *c, int64_t to, int64_t from) {
    int64_t to_bit = to * c->bits, from_bit = from * c->bits;
    int64_t to_byte = floor_byte(to_bit), from_byte = floor_byte(from_bit);
    int to_shift = (int)(to_bit - to_byte * 8), from_shift = (int)(from_bit - from_byte * 8);
    unsigned mask = (1u << c->bits) - 1u;
    unsigned value = (unsigned char)c->src[from_byte] >> from_shift & mask;
    unsigned old = (unsigned char)c->dst[to_byte] & ~(mask << to_shift);
    c->dst[to_byte] = (char)(unsigned char)(old | value << to_shift);
}

#define COPY_RUN(bytes)                                                                            \
    for (int64_t i = 0; i < l->n; i++) {                                                           \
        memcpy(d + i * l->dst * (bytes), s + i * l->src * (bytes), (bytes));                       \
    }                                                                                              \
    break

/* One loop, from the given element offsets. */
static void copy_run(const struct copy *c, const struct loop *l, int64_t to, int64_t from) {
    if (c->bits < 8) {
        for (int64_t i = 0; i < l->n; i++)
            copy_bits(c, to + i * l->dst, from + i * l->src);
        return;
    }
    int64_t size = c->bits / 8;
    char *d = c->dst + to * size;
    const char *s = c->src + from * size;
    if (l->dst == 1 && l->src == 1) {
        memcpy(d, s, (size_t)(l->n * size));
        return;
    }
    switch (size) { /* constant sizes, so that each memcpy is one instruction */
    case 1: COPY_RUN(1);
    case 2: COPY_RUN(2);
    case 4: COPY_RUN(4);
    case 8: COPY_RUN(8);
    default:
        for (int64_t i = 0; i < l->n; i++) {
            memcpy(d + i * l->dst * size, s + i * l->src * size, (size_t)size);
        }
    }
}

/* The two innermost loops in blocks. */
static void copy_blocks(const struct copy *c, const struct loop *a, const struct loop *b,
                        int64_t to, int64_t from) {
    for (int64_t i = 0; i < a->n; i += BLOCK) {
        int64_t i_end = a->n - i < BLOCK ? a->n : i + BLOCK;
        for (int64_t j = 0; j < b->n; j += BLOCK) {
            struct loop run = {b->n - j < BLOCK ? b->n - j : BLOCK, b->dst, b->src};
            for (int64_t k = i; k < i_end; k++) {
                copy_run(c, &run, to + k * a->dst + j * b->dst, from + k * a->src + j * b->src);
            }
        }
    }
}

static void copy_all(const struct copy *c) {
    int64_t at[RT_VIEW_RANK] = {0}, to = 0, from = 0;
    if (c->rank == 0) {
        copy_run(c, &(struct loop){1, 1, 1}, 0, 0);
        return;
    }
    const struct loop *inner = &c->dim[c->rank - 1];
    bool blocks = c->rank > 1 && inner->src != 1 && inner->src != 0;
    int outer = c->rank - (blocks ? 2 : 1);
    while (true) {
        if (blocks) {
            copy_blocks(c, inner - 1, inner, to, from);
        } else {
            copy_run(c, inner, to, from);
        }
        int i = outer - 1;
        for (; i >= 0; i--) {
            const struct loop *l = &c->dim[i];
            to += l->dst;
            from += l->src;
            if (++at[i] < l->n) break;
            at[i] = 0;
            to -= l->n * l->dst;
            from -= l->n * l->src;
        }
        if (i < 0) return;
    }
}

enum proem_status rt_view_copy(const struct rt_view *dst, const struct rt_view *src,
                               struct err *e) {
    int64_t n, lo, hi;
    bool same = dst->rank == src->rank && dst->bits == src->bits;
    for (int i = 0; same && i < dst->rank; i++)
        same = dst->shape[i] == src->shape[i];
    if (!same) return err_set(e, PROEM_INTERNAL, "a copy between tensors of different types");
    if (!count(dst, &n) || !rt_view_extent(src, &lo, &hi) || !rt_view_extent(dst, &lo, &hi)) {
        return err_set(e, PROEM_INVALID, "a tensor's shape or strides are beyond 64 bits");
    }
    if (n == 0) return PROEM_OK;
    struct copy c = {.dst = dst->data, .src = src->data, .bits = dst->bits};
    if (dst->bits < 8 && rt_view_is_compact(dst)) memset(c.dst + hi - 1, 0, 1);
    make_loops(&c, dst, src);
    copy_all(&c);
    return PROEM_OK;
}
