/* SPDX-License-Identifier: MIT
 * Arrays: sizes checked for overflow, allocation, reading and mapping, and the step from a file's
 * dtypes to the graph's.
 *
 * A dtype that a file lacks travels as the bits of an unsigned integer of its width, so adopting it
 * only renames; sub-byte elements stored one a byte are packed into a new buffer.
 */
#include "front/front.h"
#include "ops/block.h"

#include <string.h>

bool array_type_size(const struct array_type *t, int64_t *count, size_t *bytes) {
    int64_t n = 1;
    bool empty = false;
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] < 0) return false;
        if (t->shape[i] == 0) empty = true;
    }
    for (int i = 0; i < t->rank && !empty; i++) {
        if (n > INT64_MAX / t->shape[i]) return false;
        n *= t->shape[i];
    }
    if (empty) n = 0;
    int64_t b = dtype_bytes(t->dtype, n);
    if (b < 0 || (uint64_t)b > SIZE_MAX / 2) return false;
    *count = n;
    *bytes = (size_t)b;
    return true;
}

void array_type_print(const struct array_type *t, struct str *out) {
    str_add(out, dtype_name(t->dtype));
    str_add(out, "[");
    for (int i = 0; i < t->rank; i++)
        str_printf(out, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    str_add(out, "]");
}

enum proem_status array_new(const struct allocator *alloc, const struct array_type *t,
                            const char *what, struct array *out, struct err *e) {
    struct array a = {.type = *t, .alloc = alloc};
    if (!array_type_size(t, &a.count, &a.bytes))
        return err_set(e, PROEM_INVALID, "%s: the tensor's size overflows; use smaller dims", what);
    a.data = mem_alloc(alloc, 1, a.bytes);
    if (a.data == NULL)
        return err_set(e, PROEM_NOMEM, "%s: no room for %zu bytes; use smaller dims", what,
                       a.bytes);
    memset(a.data, 0, a.bytes);
    *out = a;
    return PROEM_OK;
}

void array_free(struct array *a) {
    if (a->map != NULL)
        file_unmap(a->map, a->map_bytes);
    else if (a->data != NULL)
        mem_free(a->alloc, a->data, 1, a->bytes);
    *a = (struct array){0};
}

/* Elements that kernels load have to be aligned; bools have to be 0 or 1, so they are looked at. */
static bool may_map(const struct array_type *t, size_t bytes, uint64_t offset) {
    enum { LEAST = 1 << 16 }; /* below, a copy costs less than the pages */
    const uint16_t one = 1;
    if (bytes < LEAST || t->dtype == DT_BOOL) return false;
    if (dtype_is_block(t->dtype) || dtype_bits(t->dtype) <= 8) return true;
    return *(const unsigned char *)&one == 1 && offset % ((uint64_t)dtype_bits(t->dtype) / 8) == 0;
}

enum proem_status array_from_file(const struct file *f, uint64_t offset, const struct array_type *t,
                                  const char *what, const struct allocator *alloc,
                                  struct array *out, struct err *e) {
    struct array a = {.type = *t, .alloc = alloc};
    if (!array_type_size(t, &a.count, &a.bytes))
        return err_set(e, PROEM_INVALID, "%s: the tensor's size overflows", what);
    if (may_map(t, a.bytes, offset)) {
        a.data = file_map(f, offset, a.bytes, &a.map, &a.map_bytes);
        if (a.data != NULL) {
            *out = a;
            return PROEM_OK;
        }
    }
    if (offset > f->size || a.bytes > f->size - offset) /* the file bounds what is allocated */
        return err_set(e, PROEM_DATA, "%s: %s ends before its data does", what, f->name);
    TRY(array_new(alloc, t, what, &a, e));
    enum proem_status s = file_read(f, offset, a.data, a.bytes, e);
    if (s != PROEM_OK) {
        array_free(&a);
        return s;
    }
    if (!dtype_is_block(t->dtype) && dtype_bits(t->dtype) > 8)
        bytes_to_native(a.data, (size_t)dtype_bits(t->dtype) / 8, (size_t)a.count, false);
    unsigned char *b = a.data;
    for (int64_t i = 0; t->dtype == DT_BOOL && i < a.count; i++)
        b[i] = b[i] != 0;
    *out = a;
    return PROEM_OK;
}

static bool same_shape(const struct array_type *a, const struct array_type *b) {
    return a->rank == b->rank &&
           memcmp(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]) == 0;
}

/* The dtype that stands for d in a file that lacks it. */
static enum dtype carrier_of(enum dtype d) {
    switch (d) {
    case DT_BF16: return DT_U16;
    case DT_F8E4M3FN:
    case DT_F8E5M2:
    case DT_E8M0: return DT_U8;
    default: return d;
    }
}

/* The shape in elements of blocks whose bytes are `stored`. */
static bool shape_of_blocks(const struct array_type *stored, enum dtype d, int64_t *shape) {
    if (!dtype_is_block(d) || stored->dtype != DT_U8 || stored->rank < 1) return false;
    const struct block_format *f = block_format(d);
    memcpy(shape, stored->shape, (size_t)stored->rank * sizeof *shape);
    int64_t *last = &shape[stored->rank - 1];
    if (*last % f->bytes != 0 || *last / f->bytes > INT64_MAX / f->elements) return false;
    *last = *last / f->bytes * f->elements;
    return true;
}

static enum proem_status mismatch(const struct array *a, const struct array_type *want,
                                  const char *what, struct err *e) {
    struct str has, need;
    str_init(&has, a->alloc);
    str_init(&need, a->alloc);
    array_type_print(&a->type, &has);
    array_type_print(want, &need);
    const char *as = "";
    enum dtype c = carrier_of(want->dtype);
    if (dtype_is_block(want->dtype))
        as = " (u8 may hold its blocks, the last dim counting bytes)";
    else if (dtype_is_subbyte(want->dtype))
        as = " (as u8, packed and flat, or one element a byte in that shape)";
    else if (c == DT_U16)
        as = " (u16 may hold its bits)";
    else if (c != want->dtype)
        as = " (u8 may hold its bits)";
    enum proem_status s = err_set(e, PROEM_INVALID, "%s: holds %s, but %s is expected%s", what,
                                  str_text(&has), str_text(&need), as);
    str_free(&has);
    str_free(&need);
    return s;
}

static int64_t byte_value(const struct array *a, int64_t i) {
    unsigned char b = ((const unsigned char *)a->data)[i];
    return a->type.dtype == DT_I8 && b >= 128 ? (int64_t)b - 256 : (int64_t)b;
}

/* Clear the bits after the last element: they are ignored when read and 0 in what proem holds. */
static void clear_tail(struct array *a) {
    int bits = dtype_bits(a->type.dtype);
    int used = (int)((uint64_t)a->count * (uint64_t)bits % 8);
    if (bits < 8 && used != 0) {
        unsigned char *last = (unsigned char *)a->data + a->bytes - 1;
        *last = (unsigned char)(*last & ((1u << used) - 1u));
    }
}

/* The buffer shrinks, so it is replaced: an array frees as many bytes as it says it has. */
static enum proem_status adopt_unpacked(struct array *a, const struct array_type *want,
                                        const char *what, struct err *e) {
    int64_t lo = 0, hi = 15;
    if (dtype_is_int(want->dtype)) dtype_int_range(want->dtype, &lo, &hi);
    for (int64_t i = 0; i < a->count; i++) {
        int64_t v = byte_value(a, i);
        if (v < lo || v > hi)
            return err_set(e, PROEM_DATA, "%s: element %lld is %lld, but %s holds %lld to %lld",
                           what, (long long)i, (long long)v, dtype_name(want->dtype), (long long)lo,
                           (long long)hi);
    }
    struct array packed = {0};
    TRY(array_new(a->alloc, want, what, &packed, e));
    uint64_t mask = (UINT64_C(1) << dtype_bits(want->dtype)) - 1;
    for (int64_t i = 0; i < a->count; i++) {
        uint64_t bits = (uint64_t)byte_value(a, i) & mask;
        elem_store(want->dtype, packed.data, i, elem_from_bits(want->dtype, bits));
    }
    array_free(a);
    *a = packed;
    return PROEM_OK;
}

enum proem_status array_adopt(struct array *a, const struct array_type *want, const char *what,
                              struct err *e) {
    int64_t count;
    size_t bytes;
    if (!array_type_size(want, &count, &bytes))
        return err_set(e, PROEM_INVALID, "%s: the tensor's size overflows; use smaller dims", what);
    enum dtype has = a->type.dtype;
    if (same_shape(&a->type, want) && (has == want->dtype || has == carrier_of(want->dtype))) {
        a->type.dtype = want->dtype;
        if (want->dtype == DT_BOOL) {
            unsigned char *b = a->data;
            for (int64_t i = 0; i < count; i++)
                b[i] = b[i] != 0;
        }
        clear_tail(a);
        return PROEM_OK;
    }
    struct array_type blocks = *want;
    if (shape_of_blocks(&a->type, want->dtype, blocks.shape) && a->type.rank == want->rank &&
        same_shape(&blocks, want)) {
        a->type = *want;
        a->count = count;
        return PROEM_OK;
    }
    if (!dtype_is_subbyte(want->dtype)) return mismatch(a, want, what, e);
    /* A rank-1 tensor may be meant either way; the lengths differ unless both are 0 or 1. One byte
     * for one element is then read as packed, which ignores the unused bits. */
    if (has == DT_U8 && a->type.rank == 1 && (uint64_t)a->count == bytes) {
        a->type = *want;
        a->count = count;
        clear_tail(a);
        return PROEM_OK;
    }
    if ((has == DT_U8 || has == DT_I8) && same_shape(&a->type, want))
        return adopt_unpacked(a, want, what, e);
    return mismatch(a, want, what, e);
}

bool array_shape_as(const struct array_type *stored, enum dtype d, int rank, int64_t *shape) {
    bool carried = stored->dtype == d || stored->dtype == carrier_of(d);
    bool unpacked = dtype_is_subbyte(d) && (stored->dtype == DT_U8 || stored->dtype == DT_I8);
    if (stored->rank == rank && shape_of_blocks(stored, d, shape)) return true;
    if (stored->rank != rank || !(carried || unpacked)) return false;
    if (rank == 1 && unpacked && stored->dtype == DT_U8) return false; /* it may be packed */
    memcpy(shape, stored->shape, (size_t)rank * sizeof shape[0]);
    return true;
}
