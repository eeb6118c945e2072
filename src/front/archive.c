/* SPDX-License-Identifier: MIT
 * Archives of named tensors, whatever their format: opened by suffix, indexed once, sorted by key
 * (keys are unique: a repeated one is an error here), searched by bisection.
 */
#include "front/archive.h"

#include "front/onnx/onnx.h"

#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *s, const char *suffix) {
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

static int by_key(const void *a, const void *b) {
    const struct archive_entry *x = a, *y = b;
    return strcmp(x->key, y->key);
}

static enum proem_status index_archive(struct archive *ar, const void *memory, size_t n,
                                       struct err *e) {
    switch (ar->kind) {
    case ARCHIVE_NPZ: TRY(npz_index(ar, memory, n, e)); break;
    case ARCHIVE_ONNX: TRY(onnx_index(ar, e)); break;
    case ARCHIVE_GGUF: TRY(gguf_index(ar, e)); break;
    default: TRY(safetensors_index(ar, e)); break;
    }
    if (ar->n > 1) qsort(ar->entries, ar->n, sizeof ar->entries[0], by_key);
    for (size_t i = 1; i < ar->n; i++) {
        if (strcmp(ar->entries[i - 1].key, ar->entries[i].key) == 0)
            return err_set(e, PROEM_DATA, "%s: key '%s' is there twice", ar->name,
                           ar->entries[i].key);
    }
    return PROEM_OK;
}

static enum proem_status open_any(struct arena *a, const char *name, const char *suffix,
                                  const void *memory, size_t n, struct archive **out,
                                  struct err *e) {
    bool npz = ends_with(suffix, ".npz"), onnx = ends_with(suffix, ".onnx") && memory == NULL;
    bool gguf = ends_with(suffix, ".gguf");
    if (!npz && !onnx && !gguf && !ends_with(suffix, ".safetensors"))
        return err_set(e, PROEM_INVALID,
                       "%s: expected a file named .npz, .safetensors, .gguf or .onnx", name);
    struct archive *ar = ARENA_NEW(a, struct archive, 1);
    char *copy = arena_strdup(a, name);
    if (ar == NULL || copy == NULL) return err_nomem(e);
    *ar = (struct archive){.arena = a, .name = copy, .file = {.fd = -1}};
    ar->kind = npz ? ARCHIVE_NPZ : onnx ? ARCHIVE_ONNX : gguf ? ARCHIVE_GGUF : ARCHIVE_SAFETENSORS;
    if (memory != NULL)
        ar->file = file_memory(copy, memory, n);
    else
        TRY(file_open(a, copy, &ar->file, e));
    /* libzip and the reader of ONNX open it again; what is no regular file ends here */
    if (npz || onnx) file_close(&ar->file);
    enum proem_status s = index_archive(ar, memory, n, e);
    if (s != PROEM_OK) {
        archive_close(ar);
        return s;
    }
    *out = ar;
    return PROEM_OK;
}

enum proem_status archive_open(struct arena *a, const char *path, struct archive **out,
                               struct err *e) {
    return open_any(a, path, path, NULL, 0, out, e);
}

enum proem_status archive_open_memory(struct arena *a, const char *name, const char *suffix,
                                      const void *bytes, size_t n, struct archive **out,
                                      struct err *e) {
    return open_any(a, name, suffix, bytes, n, out, e);
}

void archive_close(struct archive *ar) {
    if (ar == NULL) return;
    npz_close(ar);
    gguf_close(ar);
    file_close(&ar->file);
    ar->n = 0;
}

const char *archive_name(const struct archive *ar) {
    return ar->name;
}

size_t archive_count(const struct archive *ar) {
    return ar->n;
}

const char *archive_key(const struct archive *ar, size_t i) {
    return ar->entries[i].key;
}

long archive_find(const struct archive *ar, const char *key) {
    size_t lo = 0, hi = ar->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = strcmp(ar->entries[mid].key, key);
        if (c == 0) return (long)mid;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return -1;
}

static enum proem_status usable(const struct archive *ar, const struct archive_entry *entry,
                                struct err *e) {
    if (entry->unsupported == NULL) return PROEM_OK;
    return err_set(e, PROEM_UNSUPPORTED, "%s:%s: %s is not supported", ar->name, entry->key,
                   entry->unsupported);
}

enum proem_status archive_type(struct archive *ar, size_t i, struct array_type *out,
                               struct err *e) {
    const struct archive_entry *entry = &ar->entries[i];
    TRY(usable(ar, entry, e));
    if (ar->kind == ARCHIVE_NPZ) return npz_read(ar, entry, NULL, out, NULL, e);
    *out = entry->type;
    return PROEM_OK;
}

enum proem_status archive_data(struct archive *ar, const struct file *f, uint64_t at,
                               const struct archive_entry *entry, const struct allocator *alloc,
                               struct array *out, struct err *e) {
    struct arena temp;
    arena_init(&temp, ar->arena->alloc);
    const char *what = arena_printf(&temp, "%s:%s", ar->name, entry->key);
    enum proem_status s = PROEM_OK;
    /* without data there need be no padding before it */
    uint64_t offset = entry->end > entry->begin ? at + entry->begin : 0;
    if (what == NULL)
        s = err_nomem(e);
    else
        s = array_from_file(f, offset, &entry->type, what, alloc, out, e);
    arena_free(&temp);
    return s;
}

enum proem_status archive_read(struct archive *ar, size_t i, const struct allocator *alloc,
                               struct array *out, struct err *e) {
    const struct archive_entry *entry = &ar->entries[i];
    TRY(usable(ar, entry, e));
    struct array_type type;
    if (ar->kind == ARCHIVE_NPZ) return npz_read(ar, entry, alloc, &type, out, e);
    if (ar->kind == ARCHIVE_ONNX) return onnx_read(ar, entry, alloc, out, e);
    if (ar->kind == ARCHIVE_GGUF) return gguf_read(ar, entry, alloc, out, e);
    return safetensors_read(ar, entry, alloc, out, e);
}
