/* SPDX-License-Identifier: MIT
 * Writing .safetensors: tensors in order of falling element size, then of key, so that every
 * tensor is aligned to its elements; the header is padded with spaces to a multiple of 8 bytes.
 */
#include "front/front.h"

#include <stdlib.h>
#include <string.h>

static const char *dtype_code(enum dtype d) {
    switch (d) {
    case DT_F64: return "F64";
    case DT_F32: return "F32";
    case DT_F16: return "F16";
    case DT_BF16: return "BF16";
    case DT_F8E4M3FN: return "F8_E4M3";
    case DT_F8E5M2: return "F8_E5M2";
    case DT_E8M0: return "F8_E8M0";
    case DT_I64: return "I64";
    case DT_I32: return "I32";
    case DT_I16: return "I16";
    case DT_I8: return "I8";
    case DT_U64: return "U64";
    case DT_U32: return "U32";
    case DT_U16: return "U16";
    case DT_BOOL: return "BOOL";
    default: return "U8"; /* and packed sub-byte elements */
    }
}

static void add_quoted(struct str *s, const char *text) {
    str_add(s, "\"");
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            str_printf(s, "\\%c", c);
        else if (c < 32)
            str_printf(s, "\\u%04x", c);
        else
            str_addn(s, p, 1);
    }
    str_add(s, "\"");
}

static int by_key(const void *a, const void *b) {
    const struct named_array *x = *(const struct named_array *const *)a;
    const struct named_array *y = *(const struct named_array *const *)b;
    return strcmp(x->key, y->key);
}

static int by_alignment(const void *a, const void *b) {
    const struct named_array *x = *(const struct named_array *const *)a;
    const struct named_array *y = *(const struct named_array *const *)b;
    int p = dtype_bits(x->array->type.dtype), q = dtype_bits(y->array->type.dtype);
    if (p != q) return p > q ? -1 : 1;
    return by_key(a, b);
}

static bool header_text(struct str *s, const struct named_array *const *order, size_t n) {
    uint64_t at = 0;
    str_add(s, "{");
    for (size_t i = 0; i < n; i++) {
        const struct array *a = order[i]->array;
        if (i > 0) str_add(s, ",");
        add_quoted(s, order[i]->key);
        str_printf(s, ":{\"dtype\":\"%s\",\"shape\":[", dtype_code(a->type.dtype));
        if (dtype_is_subbyte(a->type.dtype)) {
            str_printf(s, "%zu", a->bytes);
        } else {
            for (int d = 0; d < a->type.rank; d++)
                str_printf(s, "%s%lld", d ? "," : "", (long long)a->type.shape[d]);
        }
        str_printf(s, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                   (unsigned long long)(at + a->bytes));
        at += a->bytes;
    }
    str_add(s, "}");
    while (s->n % 8 != 0 && !s->failed)
        str_add(s, " ");
    return !s->failed;
}

static enum proem_status write_file(const char *path, const struct str *header,
                                    const struct named_array *const *order, size_t n,
                                    struct err *e) {
    unsigned char head[8];
    for (size_t i = 0; i < 8; i++)
        head[i] = (unsigned char)((uint64_t)header->n >> (8 * i));
    struct file_out f;
    TRY(file_create(path, &f, e));
    enum proem_status s = file_append(&f, head, sizeof head, e);
    if (s == PROEM_OK) s = file_append(&f, header->at, header->n, e);
    for (size_t i = 0; i < n && s == PROEM_OK; i++)
        s = file_append_array(&f, order[i]->array, e);
    return file_finish(&f, s, e);
}

enum proem_status safetensors_write(const struct allocator *alloc, const char *path,
                                    const struct named_array *arrays, size_t n, struct err *e) {
    struct arena temp;
    arena_init(&temp, alloc);
    const struct named_array **order = ARENA_NEW(&temp, const struct named_array *, n);
    struct str header;
    str_init(&header, alloc);
    enum proem_status s = order != NULL ? PROEM_OK : err_nomem(e);
    if (s == PROEM_OK) {
        for (size_t i = 0; i < n; i++)
            order[i] = &arrays[i];
        if (n > 1) qsort(order, n, sizeof order[0], by_key);
        for (size_t i = 1; i < n && s == PROEM_OK; i++) {
            if (strcmp(order[i - 1]->key, order[i]->key) == 0)
                s = err_set(e, PROEM_INVALID, "%s: key '%s' is given twice", path, order[i]->key);
        }
        if (n > 1) qsort(order, n, sizeof order[0], by_alignment);
        if (s == PROEM_OK && !header_text(&header, order, n)) s = err_nomem(e);
        if (s == PROEM_OK) s = write_file(path, &header, order, n, e);
    }
    str_free(&header);
    arena_free(&temp);
    return s;
}
