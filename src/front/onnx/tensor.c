/* SPDX-License-Identifier: MIT
 * TensorProto to arrays. Elements lie in raw_data (little-endian), in a typed list (narrow types in
 * int32_data, one each; 4-bit and 2-bit ones packed bytes there), or in an external file, which is
 * confined to the model's folder and mapped.
 */
#include "front/onnx/model.h"

#include <string.h>

static const struct {
    const char *name;
    enum dtype dtype;
} types[] = {
    {"UNDEFINED", DT_NONE},    {"FLOAT", DT_F32},         {"UINT8", DT_U8},
    {"INT8", DT_I8},           {"UINT16", DT_U16},        {"INT16", DT_I16},
    {"INT32", DT_I32},         {"INT64", DT_I64},         {"STRING", DT_NONE},
    {"BOOL", DT_BOOL},         {"FLOAT16", DT_F16},       {"DOUBLE", DT_F64},
    {"UINT32", DT_U32},        {"UINT64", DT_U64},        {"COMPLEX64", DT_NONE},
    {"COMPLEX128", DT_NONE},   {"BFLOAT16", DT_BF16},     {"FLOAT8E4M3FN", DT_F8E4M3FN},
    {"FLOAT8E4M3FNUZ", DT_U8}, {"FLOAT8E5M2", DT_F8E5M2}, {"FLOAT8E5M2FNUZ", DT_U8},
    {"UINT4", DT_U4},          {"INT4", DT_I4},           {"FLOAT4E2M1", DT_F4E2M1FN},
    {"FLOAT8E8M0", DT_E8M0},   {"UINT2", DT_U2},          {"INT2", DT_I2},
};

enum dtype onnx_dtype(int32_t data_type) {
    return data_type >= 0 && (size_t)data_type < COUNT_OF(types) ? types[data_type].dtype : DT_NONE;
}

bool onnx_is_bits(int32_t data_type) {
    return data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT8E4M3FNUZ ||
           data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT8E5M2FNUZ;
}

const char *onnx_dtype_name(int32_t data_type) {
    return data_type >= 0 && (size_t)data_type < COUNT_OF(types) ? types[data_type].name
                                                                 : "of an unknown number";
}

enum proem_status onnx_tensor_type(const struct onnx_model *m, const Onnx__TensorProto *t,
                                   const char *what, struct array_type *out, struct err *e) {
    *out = (struct array_type){.dtype = onnx_dtype(t->data_type)};
    if (out->dtype == DT_NONE)
        return err_set(e, PROEM_UNSUPPORTED, "%s: tensor '%s': type %s is not supported", m->name,
                       what, onnx_dtype_name(t->data_type));
    if (t->n_dims > MAX_RANK)
        return err_set(e, PROEM_UNSUPPORTED, "%s: tensor '%s' has %zu dims; %d are supported",
                       m->name, what, t->n_dims, MAX_RANK);
    out->rank = (int)t->n_dims;
    for (size_t i = 0; i < t->n_dims; i++)
        out->shape[i] = t->dims[i];
    int64_t count;
    size_t bytes;
    if (!array_type_size(out, &count, &bytes))
        return err_set(e, PROEM_INVALID, "%s: tensor '%s': its dims are negative or too large",
                       m->name, what);
    return PROEM_OK;
}

/* ---- where the bytes are --------------------------------------------------------------------- */

static const char *external(const Onnx__TensorProto *t, const char *key) {
    for (size_t i = 0; i < t->n_external_data; i++) {
        const Onnx__StringStringEntryProto *x = t->external_data[i];
        if (x->key != NULL && strcmp(x->key, key) == 0) return x->value;
    }
    return NULL;
}

/* A path inside the model's folder: relative, and never up. */
static bool is_confined(const char *path) {
    if (path[0] == '/' || path[0] == '\0') return false;
    for (const char *p = path; *p != '\0';) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') return false;
        p += n + (p[n] == '/');
    }
    return true;
}

static bool parse_number(const char *text, uint64_t *out) {
    uint64_t v = 0;
    if (text == NULL || *text == '\0') return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || v > (UINT64_MAX - 9) / 10) return false;
        v = v * 10 + (uint64_t)(*text - '0');
    }
    *out = v;
    return true;
}

static enum proem_status not_inside(const struct onnx_model *m, const char *what,
                                    const char *location, struct err *e) {
    return err_set(e, PROEM_INVALID,
                   "%s: tensor '%s': external data in '%s', which is not inside the model's folder",
                   m->name, what, location != NULL ? location : "");
}

/* Where in its file a tensor of so many bytes is said to lie. */
static enum proem_status external_place(const struct onnx_model *m, const Onnx__TensorProto *t,
                                        const char *what, size_t bytes, uint64_t *offset,
                                        struct err *e) {
    uint64_t length = bytes;
    const char *at = external(t, "offset"), *n = external(t, "length");
    *offset = 0;
    if ((at != NULL && !parse_number(at, offset)) || (n != NULL && !parse_number(n, &length)))
        return err_set(e, PROEM_INVALID, "%s: tensor '%s': external offset or length is no number",
                       m->name, what);
    if (length != bytes)
        return err_set(e, PROEM_INVALID,
                       "%s: tensor '%s': %llu bytes outside where its dims need %zu", m->name, what,
                       (unsigned long long)length, bytes);
    return PROEM_OK;
}

/* The path of a file in the model's folder. */
static const char *path_beside(const struct onnx_model *m, const char *location) {
    const char *slash = m->folder[strlen(m->folder) - 1] == '/' ? "" : "/";
    return arena_printf(m->arena, "%s%s%s", m->folder, slash, location);
}

bool onnx_model_has_file(const struct onnx_model *m, const char *path) {
    const char *last = NULL;
    if (m->folder == NULL) return false;
    if (file_is_same(m->name, path)) return true;
    for (size_t i = 0; i < m->tensors.n; i++) {
        const Onnx__TensorProto *t = m->tensors.at[i].proto;
        const char *location = t != NULL ? external(t, "location") : NULL;
        if (location == NULL || (last != NULL && strcmp(last, location) == 0)) continue;
        const char *file = path_beside(m, last = location);
        if (file == NULL || file_is_same(file, path)) return true;
    }
    return false;
}

/* The folder is the one that the model was opened in, or the one that links to it lead to: stores
 * of models keep both files elsewhere, side by side. */
static enum proem_status read_external(const struct onnx_model *m, const Onnx__TensorProto *t,
                                       const char *what, const struct array_type *type,
                                       const struct allocator *alloc, struct array *out,
                                       struct err *e) {
    int64_t count;
    size_t bytes;
    uint64_t offset;
    struct file f;
    array_type_size(type, &count, &bytes);
    const char *location = external(t, "location");
    bool own = m->lean && external(t, ONNX_OWN_FILE) != NULL;
    if ((!own && (location == NULL || !is_confined(location))) || m->folder == NULL)
        return not_inside(m, what, location, e);
    TRY(external_place(m, t, what, bytes, &offset, e));
    const char *path = own ? m->name : path_beside(m, location);
    if (path == NULL) return err_nomem(e);
    TRY(file_open(m->arena, path, &f, e));
    enum proem_status s = PROEM_OK;
    if (!own && !file_lies_below(&f, path, m->folder, false) &&
        !file_lies_below(&f, path, m->name, true))
        s = not_inside(m, what, location, e);
    else if (offset > f.size || bytes > f.size - offset)
        s = err_set(e, PROEM_INVALID, "%s: tensor '%s': %s ends before its bytes %llu to %llu",
                    m->name, what, path, (unsigned long long)offset,
                    (unsigned long long)offset + bytes);
    if (s == PROEM_OK) s = array_from_file(&f, offset, type, what, alloc, out, e);
    file_close(&f); /* what is mapped stays */
    return s;
}

static enum proem_status wrong_count(const struct onnx_model *m, const char *what, size_t has,
                                     const char *unit, size_t needs, struct err *e) {
    return err_set(e, PROEM_INVALID, "%s: tensor '%s': %zu %s where its dims need %zu", m->name,
                   what, has, unit, needs);
}

/* Elements as int32_data has them: a value each, bits for 16-bit and 8-bit floats; sub-byte ones
 * packed, a byte each. */
static enum proem_status from_int32(const struct onnx_model *m, const Onnx__TensorProto *t,
                                    const char *what, struct array *out, struct err *e) {
    enum dtype d = out->type.dtype;
    unsigned char *p = out->data;
    if (dtype_is_subbyte(d)) {
        if (t->n_int32_data != out->bytes)
            return wrong_count(m, what, t->n_int32_data, "bytes", out->bytes, e);
        for (size_t i = 0; i < out->bytes; i++)
            p[i] = (unsigned char)t->int32_data[i];
        return PROEM_OK;
    }
    if (t->n_int32_data != (size_t)out->count)
        return wrong_count(m, what, t->n_int32_data, "elements", (size_t)out->count, e);
    for (size_t i = 0; i < t->n_int32_data; i++) {
        int32_t v = t->int32_data[i];
        unsigned short h = (unsigned short)v;
        if (dtype_bits(d) == 32)
            memcpy(p + 4 * i, &v, 4);
        else if (dtype_bits(d) == 16)
            memcpy(p + 2 * i, &h, 2);
        else
            p[i] = d == DT_BOOL ? v != 0 : (unsigned char)v;
    }
    return PROEM_OK;
}

static enum proem_status from_list(const struct onnx_model *m, const Onnx__TensorProto *t,
                                   const char *what, struct array *out, struct err *e) {
    const void *list = NULL;
    size_t n = 0;
    switch ((int)out->type.dtype) {
    case DT_F32: list = t->float_data, n = t->n_float_data; break;
    case DT_F64: list = t->double_data, n = t->n_double_data; break;
    case DT_I64: list = t->int64_data, n = t->n_int64_data; break;
    case DT_U64: list = t->uint64_data, n = t->n_uint64_data; break;
    case DT_U32:
        if (t->n_uint64_data != (size_t)out->count)
            return wrong_count(m, what, t->n_uint64_data, "elements", (size_t)out->count, e);
        for (size_t i = 0; i < t->n_uint64_data; i++)
            ((uint32_t *)out->data)[i] = (uint32_t)t->uint64_data[i];
        return PROEM_OK;
    default: return from_int32(m, t, what, out, e);
    }
    if (n != (size_t)out->count) return wrong_count(m, what, n, "elements", (size_t)out->count, e);
    if (n > 0) memcpy(out->data, list, out->bytes);
    return PROEM_OK;
}

enum proem_status onnx_tensor_read(const struct onnx_model *m, const Onnx__TensorProto *t,
                                   const char *what, const struct allocator *alloc,
                                   struct array *out, struct err *e) {
    struct array_type type;
    struct array a;
    TRY(onnx_tensor_type(m, t, what, &type, e));
    if (t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        return read_external(m, t, what, &type, alloc, out, e);
    /* What the file holds bounds what is allocated. */
    size_t held = t->raw_data.len + 8 * (t->n_float_data + t->n_int32_data + t->n_int64_data +
                                         t->n_double_data + t->n_uint64_data);
    int64_t count;
    size_t bytes;
    if (!array_type_size(&type, &count, &bytes) || bytes > held)
        return wrong_count(m, what, held, "bytes at most", bytes, e);
    TRY(array_new(alloc, &type, what, &a, e));
    enum proem_status s = PROEM_OK;
    if (!t->has_raw_data) {
        s = from_list(m, t, what, &a, e);
    } else if (t->raw_data.len != a.bytes) {
        s = wrong_count(m, what, t->raw_data.len, "bytes", a.bytes, e);
    } else if (a.bytes > 0) {
        memcpy(a.data, t->raw_data.data, a.bytes);
    }
    if (s != PROEM_OK) {
        array_free(&a);
        return s;
    }
    *out = a;
    return PROEM_OK;
}

/* ---- the model's list ------------------------------------------------------------------------ */

/* value_float, value_floats, value_int or value_ints, by the attribute's name. */
static void numbers_type(const Onnx__AttributeProto *a, struct array_type *out, const void **from) {
    bool list = a->name[strlen(a->name) - 1] == 's', is_float = strstr(a->name, "_f") != NULL;
    *out = (struct array_type){.dtype = is_float ? DT_F32 : DT_I64, .rank = list};
    out->shape[0] = (int64_t)(is_float ? a->n_floats : a->n_ints);
    if (is_float)
        *from = list ? (const void *)a->floats : &a->f;
    else
        *from = list ? (const void *)a->ints : &a->i;
}

enum proem_status onnx_model_tensor_type(const struct onnx_model *m, size_t i,
                                         struct array_type *out, struct err *e) {
    const struct onnx_tensor *t = &m->tensors.at[i];
    const void *from;
    if (t->proto != NULL) return onnx_tensor_type(m, t->proto, t->key, out, e);
    numbers_type(t->attribute, out, &from);
    return PROEM_OK;
}

enum proem_status onnx_model_tensor(const struct onnx_model *m, size_t i,
                                    const struct allocator *alloc, struct array *out,
                                    struct err *e) {
    const struct onnx_tensor *t = &m->tensors.at[i];
    struct array_type type;
    const void *from;
    if (t->proto != NULL) return onnx_tensor_read(m, t->proto, t->key, alloc, out, e);
    numbers_type(t->attribute, &type, &from);
    TRY(array_new(alloc, &type, t->key, out, e));
    if (out->bytes > 0) memcpy(out->data, from, out->bytes);
    return PROEM_OK;
}
