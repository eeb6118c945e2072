/* SPDX-License-Identifier: MIT
 * ONNX models as graphs: what the rest of proem sees of the reader.
 */
#ifndef PROEM_ONNX_H
#define PROEM_ONNX_H

#include "front/archive.h"

struct onnx_model;

struct onnx_options {
    /* Data of a graph input that is known now, or NULL: shapes that models compute from inputs can
     * be read from it then. rank: -1 if the model does not give it; data NULL: only the type is
     * known. May be NULL. */
    const struct array *(*input)(void *user, const char *name, enum dtype d, int rank);
    void *user;
    /* What stands before ":KEY" in the sources of parameters: the model's path, relative to where
     * the graph's text is going to lie. */
    const char *source;
};

/* The bytes are not kept. Names of a model: its path. */
enum proem_status onnx_model_open(struct arena *a, const char *path, struct onnx_model **out,
                                  struct err *e);
/* The same for who only reads it: large tensors are left in the file, and read from there. */
enum proem_status onnx_model_open_lean(struct arena *a, const char *path, struct onnx_model **out,
                                       struct err *e);
enum proem_status onnx_model_read(struct arena *a, const char *name, const void *bytes, size_t n,
                                  struct onnx_model **out, struct err *e);

/* The model's graph, in the arena; inputs and outputs keep their names and order. An operator that
 * proem lacks is PROEM_UNSUPPORTED; the message names all of them. */
enum proem_status onnx_import(struct arena *a, const struct onnx_model *m,
                              const struct onnx_options *o, struct graph **out, struct err *e);

/* A kernel of a plan for the model, in the order in which they run: the values that it stores, by
 * their names in the model; others are passed over. */
struct onnx_kernel {
    const char *name, *doc;
    size_t n_out;
    const char *const *out;
};

/* The model's file with each kernel as a function that it calls (export.c). is_computed: is there a
 * value of that name in the graph that was planned? The model is not to be used after that. */
enum proem_status onnx_export(struct arena *a, struct onnx_model *m, const struct onnx_kernel *k,
                              size_t n, bool (*is_computed)(void *user, const char *name),
                              void *user, struct str *out, struct err *e);
/* Are some of its tensors in other files? */
bool onnx_has_external(const struct onnx_model *m);
/* Is the path that of the model, or of a file that has some of its tensors? */
bool onnx_model_has_file(const struct onnx_model *m, const char *path);

/* A model as an archive of its tensors (front/archive.c). */
enum proem_status onnx_index(struct archive *ar, struct err *e);
enum proem_status onnx_read(struct archive *ar, const struct archive_entry *entry,
                            const struct allocator *alloc, struct array *out, struct err *e);

#endif
