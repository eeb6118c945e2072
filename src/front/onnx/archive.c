/* SPDX-License-Identifier: MIT
 * A model as an archive of its tensors, so that a parameter's source "model.onnx:KEY" is read like
 * one of any other archive.
 */
#include "front/onnx/model.h"

enum proem_status onnx_index(struct archive *ar, struct err *e) {
    struct onnx_model *m = NULL;
    TRY(onnx_model_open_lean(ar->arena, ar->name, &m, e));
    ar->onnx = m;
    ar->n = m->tensors.n;
    ar->entries = ARENA_NEW(ar->arena, struct archive_entry, ar->n > 0 ? ar->n : 1);
    if (ar->entries == NULL) return err_nomem(e);
    for (size_t i = 0; i < ar->n; i++) {
        struct archive_entry *entry = &ar->entries[i];
        struct err why = {0};
        *entry = (struct archive_entry){.key = m->tensors.at[i].key, .member = i};
        if (onnx_model_tensor_type(m, i, &entry->type, &why) == PROEM_OK) continue;
        entry->unsupported = arena_strdup(ar->arena, why.text);
        if (entry->unsupported == NULL) return err_nomem(e);
    }
    return PROEM_OK;
}

enum proem_status onnx_read(struct archive *ar, const struct archive_entry *entry,
                            const struct allocator *alloc, struct array *out, struct err *e) {
    return onnx_model_tensor(ar->onnx, (size_t)entry->member, alloc, out, e);
}
