/* SPDX-License-Identifier: MIT
 * In place of the reader of ONNX models where proem is built without protobuf-c or ONNX's schema:
 * it says so.
 */
#include "front/onnx/onnx.h"

static enum proem_status refuse(const char *name, struct err *e) {
    return err_set(
        e, PROEM_UNSUPPORTED,
        "%s: this proem was built without ONNX; building it with protobuf-c and a network "
        "brings that",
        name);
}

enum proem_status onnx_model_open(struct arena *a, const char *path, struct onnx_model **out,
                                  struct err *e) {
    (void)a, (void)out;
    return refuse(path, e);
}

enum proem_status onnx_model_open_lean(struct arena *a, const char *path, struct onnx_model **out,
                                       struct err *e) {
    (void)a, (void)out;
    return refuse(path, e);
}

enum proem_status onnx_model_read(struct arena *a, const char *name, const void *bytes, size_t n,
                                  struct onnx_model **out, struct err *e) {
    (void)a, (void)bytes, (void)n, (void)out;
    return refuse(name, e);
}

enum proem_status onnx_import(struct arena *a, const struct onnx_model *m,
                              const struct onnx_options *o, struct graph **out, struct err *e) {
    (void)a, (void)m, (void)o, (void)out;
    return refuse("model", e);
}

enum proem_status onnx_export(struct arena *a, struct onnx_model *m, const struct onnx_kernel *k,
                              size_t n, bool (*is_computed)(void *user, const char *name),
                              void *user, struct str *out, struct err *e) {
    (void)a, (void)m, (void)k, (void)n, (void)is_computed, (void)user, (void)out;
    return refuse("model", e);
}

bool onnx_has_external(const struct onnx_model *m) {
    (void)m;
    return false;
}

bool onnx_model_has_file(const struct onnx_model *m, const char *path) {
    (void)m, (void)path;
    return false;
}

enum proem_status onnx_index(struct archive *ar, struct err *e) {
    return refuse(ar->name, e);
}

enum proem_status onnx_read(struct archive *ar, const struct archive_entry *entry,
                            const struct allocator *alloc, struct array *out, struct err *e) {
    (void)entry, (void)alloc, (void)out;
    return refuse(ar->name, e);
}
