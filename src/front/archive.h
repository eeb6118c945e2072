/* SPDX-License-Identifier: MIT
 * What the kinds of archive share with archive.c, which opens, searches and closes them.
 */
#ifndef PROEM_ARCHIVE_H
#define PROEM_ARCHIVE_H

#include "front/front.h"

/* One tensor. `unsupported` says what of it proem lacks (a dtype, a rank); that is an error only
 * when this tensor is asked for. */
struct archive_entry {
    const char *key;
    struct array_type type; /* npz: known only once its header was read */
    const char *unsupported;
    uint64_t begin, end; /* safetensors, gguf: the tensor's place in the data */
    uint64_t member;     /* npz, onnx: the member's number; gguf: the file's */
};

/* A file of several that make one archive. */
struct archive_part {
    struct file file;
    uint64_t data_at;
};

struct archive {
    struct arena *arena;
    const char *name;
    enum { ARCHIVE_SAFETENSORS, ARCHIVE_NPZ, ARCHIVE_ONNX, ARCHIVE_GGUF } kind;
    size_t n;
    struct archive_entry *entries; /* sorted by key */
    struct file file;              /* safetensors, gguf */
    uint64_t data_at;
    struct archive_part *parts; /* gguf: all files of a split one; [0] is unused */
    size_t n_parts;
    void *zip;               /* npz: libzip's handle */
    struct onnx_model *onnx; /* onnx */
};

/* Fill n, entries (in any order) and what else the kind needs. */
enum proem_status safetensors_index(struct archive *ar, struct err *e);
enum proem_status gguf_index(struct archive *ar, struct err *e);
/* memory is NULL: open ar->name. */
enum proem_status npz_index(struct archive *ar, const void *memory, size_t n, struct err *e);
void npz_close(struct archive *ar);

/* An entry's tensor in file f, whose data begin at `at`. */
enum proem_status archive_data(struct archive *ar, const struct file *f, uint64_t at,
                               const struct archive_entry *entry, const struct allocator *alloc,
                               struct array *out, struct err *e);
enum proem_status safetensors_read(struct archive *ar, const struct archive_entry *entry,
                                   const struct allocator *alloc, struct array *out, struct err *e);
void gguf_close(struct archive *ar); /* the further files */
enum proem_status gguf_read(struct archive *ar, const struct archive_entry *entry,
                            const struct allocator *alloc, struct array *out, struct err *e);
/* out may be NULL: then only the type is read. */
enum proem_status npz_read(struct archive *ar, const struct archive_entry *entry,
                           const struct allocator *alloc, struct array_type *type,
                           struct array *out, struct err *e);

#endif
