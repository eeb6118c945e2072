/* SPDX-License-Identifier: MIT
 * .safetensors: 8 bytes of header length, a JSON header, the data (format of the safetensors
 * project). The JSON is read by jansson, which rejects repeated keys.
 *
 * The header is held to the format's own rules: every tensor has a known dtype, a shape and
 * data_offsets; the offsets agree with dtype and shape; all tensors together cover the data
 * exactly, without holes or overlaps. A dtype that the format knows and proem lacks counts towards
 * these rules and is an error only for whoever asks for that tensor.
 */
#include "front/archive.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX 100000000u /* the format's own bound */

static const struct {
    const char *name;
    enum dtype dtype; /* DT_NONE: not one of proem's */
    int bits;
} dtypes[] = {{"BOOL", DT_BOOL, 8},
              {"U8", DT_U8, 8},
              {"I8", DT_I8, 8},
              {"F8_E5M2", DT_F8E5M2, 8},
              {"F8_E4M3", DT_F8E4M3FN, 8},
              {"F8_E8M0", DT_E8M0, 8},
              {"I16", DT_I16, 16},
              {"U16", DT_U16, 16},
              {"F16", DT_F16, 16},
              {"BF16", DT_BF16, 16},
              {"I32", DT_I32, 32},
              {"U32", DT_U32, 32},
              {"F32", DT_F32, 32},
              {"F64", DT_F64, 64},
              {"I64", DT_I64, 64},
              {"U64", DT_U64, 64},
              {"F4", DT_F4E2M1FN, 4},
              {"F6_E2M3", DT_NONE, 6},
              {"F6_E3M2", DT_NONE, 6},
              {"C64", DT_NONE, 64},
              {"F8_E4M3FNUZ", DT_NONE, 8},
              {"F8_E5M2FNUZ", DT_NONE, 8}};

struct reader {
    struct archive *ar;
    struct err *err;
    uint64_t data_size;
};

static enum proem_status bad_entry(const struct reader *r, const char *key, const char *why) {
    return err_set(r->err, PROEM_DATA, "%s: key '%s': %s", r->ar->name, key, why);
}

static enum proem_status read_dtype(const struct reader *r, const json_t *object,
                                    struct archive_entry *entry, int *bits) {
    const char *name = json_string_value(json_object_get(object, "dtype"));
    if (name == NULL) return bad_entry(r, entry->key, "'dtype' is missing or not a string");
    for (size_t i = 0; i < COUNT_OF(dtypes); i++) {
        if (strcmp(dtypes[i].name, name) != 0) continue;
        entry->type.dtype = dtypes[i].dtype;
        *bits = dtypes[i].bits;
        if (dtypes[i].dtype != DT_NONE) return PROEM_OK;
        entry->unsupported = arena_printf(r->ar->arena, "dtype %s", name);
        return entry->unsupported != NULL ? PROEM_OK : err_nomem(r->err);
    }
    return err_set(
        r->err, PROEM_DATA,
        "%s: key '%s': dtype '%s' is unknown; expected one of the format's, as F32 or I8",
        r->ar->name, entry->key, name);
}

/* The shape, and the number of elements. */
static enum proem_status read_shape(const struct reader *r, const json_t *object,
                                    struct archive_entry *entry, uint64_t *count) {
    const json_t *shape = json_object_get(object, "shape");
    if (!json_is_array(shape)) return bad_entry(r, entry->key, "'shape' is missing or not a list");
    size_t rank = json_array_size(shape);
    uint64_t n = 1;
    bool empty = false, overflow = false;
    for (size_t i = 0; i < rank; i++) {
        const json_t *item = json_array_get(shape, i);
        if (!json_is_integer(item) || json_integer_value(item) < 0)
            return bad_entry(r, entry->key, "a dim in 'shape' is not an integer >= 0");
        int64_t dim = json_integer_value(item);
        if (i < MAX_RANK) entry->type.shape[i] = dim;
        if (dim == 0)
            empty = true;
        else if (n > (uint64_t)INT64_MAX / 64 / (uint64_t)dim)
            overflow = true;
        else
            n *= (uint64_t)dim;
    }
    if (overflow && !empty) return bad_entry(r, entry->key, "the size given by 'shape' overflows");
    *count = empty ? 0 : n;
    entry->type.rank = rank <= MAX_RANK ? (int)rank : 0;
    if (rank <= MAX_RANK || entry->unsupported != NULL) return PROEM_OK;
    entry->unsupported = arena_printf(r->ar->arena, "rank %zu (the most is %d)", rank, MAX_RANK);
    return entry->unsupported != NULL ? PROEM_OK : err_nomem(r->err);
}

static enum proem_status read_offsets(const struct reader *r, const json_t *object,
                                      struct archive_entry *entry, uint64_t bits) {
    const json_t *pair = json_object_get(object, "data_offsets");
    const json_t *b = json_array_get(pair, 0), *e = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_integer(b) || !json_is_integer(e) ||
        json_integer_value(b) < 0 || json_integer_value(e) < json_integer_value(b))
        return bad_entry(r, entry->key, "'data_offsets' must be [begin, end], 0 <= begin <= end");
    entry->begin = (uint64_t)json_integer_value(b);
    entry->end = (uint64_t)json_integer_value(e);
    if (bits % 8 != 0) return bad_entry(r, entry->key, "its elements do not fill whole bytes");
    if (entry->end - entry->begin != bits / 8)
        return err_set(r->err, PROEM_DATA,
                       "%s: key '%s': data_offsets span %llu bytes, dtype and shape need %llu",
                       r->ar->name, entry->key, (unsigned long long)(entry->end - entry->begin),
                       (unsigned long long)(bits / 8));
    if (entry->end > r->data_size)
        return err_set(r->err, PROEM_DATA,
                       "%s: key '%s': data ends at %llu, the file has %llu bytes of data",
                       r->ar->name, entry->key, (unsigned long long)entry->end,
                       (unsigned long long)r->data_size);
    return PROEM_OK;
}

static enum proem_status read_metadata(const struct reader *r, json_t *object) {
    const char *key;
    json_t *value;
    if (!json_is_object(object)) return bad_entry(r, "__metadata__", "it must be an object");
    json_object_foreach(object, key, value) {
        if (!json_is_string(value))
            return bad_entry(r, "__metadata__", "its values must be strings");
    }
    return PROEM_OK;
}

static enum proem_status read_entries(const struct reader *r, json_t *root) {
    struct archive *ar = r->ar;
    size_t n = json_object_size(root);
    ar->entries = ARENA_NEW(ar->arena, struct archive_entry, n);
    if (ar->entries == NULL) return err_nomem(r->err);
    const char *key;
    json_t *object;
    json_object_foreach(root, key, object) {
        if (strcmp(key, "__metadata__") == 0) {
            TRY(read_metadata(r, object));
            continue;
        }
        struct archive_entry *entry = &ar->entries[ar->n];
        entry->key = arena_strdup(ar->arena, key);
        if (entry->key == NULL) return err_nomem(r->err);
        if (!json_is_object(object)) return bad_entry(r, key, "it must be an object");
        int bits = 0;
        uint64_t count = 0;
        TRY(read_dtype(r, object, entry, &bits));
        TRY(read_shape(r, object, entry, &count));
        TRY(read_offsets(r, object, entry, count * (uint64_t)bits));
        ar->n++;
    }
    return PROEM_OK;
}

static int by_place(const void *a, const void *b) {
    const struct archive_entry *x = *(const struct archive_entry *const *)a;
    const struct archive_entry *y = *(const struct archive_entry *const *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->key, y->key);
}

static enum proem_status check_cover(const struct reader *r) {
    struct archive *ar = r->ar;
    const struct archive_entry **order = ARENA_NEW(ar->arena, const struct archive_entry *, ar->n);
    if (order == NULL) return err_nomem(r->err);
    for (size_t i = 0; i < ar->n; i++)
        order[i] = &ar->entries[i];
    if (ar->n > 1) qsort(order, ar->n, sizeof order[0], by_place);
    uint64_t at = 0;
    for (size_t i = 0; i < ar->n; i++) {
        if (order[i]->begin != at)
            return err_set(r->err, PROEM_DATA,
                           "%s: key '%s': data begins at %llu, %llu is expected (%s)", ar->name,
                           order[i]->key, (unsigned long long)order[i]->begin,
                           (unsigned long long)at, order[i]->begin > at ? "a hole" : "an overlap");
        at = order[i]->end;
    }
    if (at != r->data_size)
        return err_set(r->err, PROEM_DATA,
                       "%s: the file has %llu bytes of data, its header says %llu", ar->name,
                       (unsigned long long)r->data_size, (unsigned long long)at);
    return PROEM_OK;
}

static enum proem_status parse_header(const struct reader *r, const char *text, size_t n) {
    json_error_t fault;
    if (n == 0 || text[0] != '{')
        return err_set(r->err, PROEM_DATA, "%s: the header must be JSON that begins with '{'",
                       r->ar->name);
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &fault);
    if (root == NULL)
        return err_set(
            r->err, json_error_code(&fault) == json_error_out_of_memory ? PROEM_NOMEM : PROEM_DATA,
            "%s: the header is not valid JSON: %s", r->ar->name, fault.text);
    enum proem_status s = read_entries(r, root);
    if (s == PROEM_OK) s = check_cover(r);
    json_decref(root);
    return s;
}

enum proem_status safetensors_index(struct archive *ar, struct err *e) {
    unsigned char head[8];
    TRY(file_read(&ar->file, 0, head, sizeof head, e));
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | head[i];
    if (n > HEADER_MAX)
        return err_set(e, PROEM_DATA, "%s: the header says it is %llu bytes long; the most is %u",
                       ar->name, (unsigned long long)n, HEADER_MAX);
    if (n > ar->file.size - 8)
        return err_set(e, PROEM_DATA, "%s: truncated: a header of %llu bytes, %llu are left",
                       ar->name, (unsigned long long)n, (unsigned long long)(ar->file.size - 8));
    ar->data_at = 8 + n;
    struct reader r = {ar, e, ar->file.size - 8 - n};
    char *text = mem_alloc(ar->arena->alloc, (size_t)n, 1);
    if (text == NULL) return err_nomem(e);
    enum proem_status s = file_read(&ar->file, 8, text, (size_t)n, e);
    if (s == PROEM_OK) s = parse_header(&r, text, (size_t)n);
    mem_free(ar->arena->alloc, text, (size_t)n, 1);
    return s;
}

enum proem_status safetensors_read(struct archive *ar, const struct archive_entry *entry,
                                   const struct allocator *alloc, struct array *out,
                                   struct err *e) {
    return archive_data(ar, &ar->file, ar->data_at, entry, alloc, out, e);
}
