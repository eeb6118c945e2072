/* SPDX-License-Identifier: MIT
 * An ONNX model as it lies in its file: protobuf messages, and its tensors.
 *
 * The messages' structures are generated from ONNX's schema when proem is built (onnx-ml.pb-c.h).
 * A file is checked by the schema before protobuf-c unpacks it, because that says where a file is
 * broken, and bounds how deep messages nest. Everything lives in the arena.
 */
#ifndef PROEM_ONNX_MODEL_H
#define PROEM_ONNX_MODEL_H

#include "front/onnx/onnx.h"
#include "onnx-ml.pb-c.h"

/* A tensor that the model carries: an initializer, or the value of a Constant. */
struct onnx_tensor {
    const char *key; /* an initializer's name, the output of a Constant; in functions and subgraphs
                        with where it is in front. Unique. */
    const Onnx__TensorProto *proto;        /* one of these two */
    const Onnx__AttributeProto *attribute; /* plain numbers */
};

struct onnx_model {
    struct arena *arena;
    const char *name;   /* of the file, for messages */
    const char *folder; /* where external data lie; NULL: there are none to be had */
    bool lean;          /* external data with the key ONNX_OWN_FILE lie in the model's own file */
    Onnx__ModelProto *proto;
    VEC(struct onnx_tensor) tensors;
};

/* proem's dtype of an ONNX element type, of the bits if proem lacks it (the FNUZ types: u8); DT_NONE
 * if there is none. */
enum dtype onnx_dtype(int32_t data_type);
bool onnx_is_bits(int32_t data_type);
const char *onnx_dtype_name(int32_t data_type); /* ONNX's name, "type 99" for an unknown one */

/* The dtype and shape of a TensorProto. what: names it in messages. */
enum proem_status onnx_tensor_type(const struct onnx_model *m, const Onnx__TensorProto *t,
                                   const char *what, struct array_type *out, struct err *e);
/* The model's tensors: a type, all elements, and the number of what stands in a message (a
 * TensorProto or an AttributeProto; -1: none), looked for from *near on. */
enum proem_status onnx_model_tensor_type(const struct onnx_model *m, size_t i,
                                         struct array_type *out, struct err *e);
enum proem_status onnx_model_tensor(const struct onnx_model *m, size_t i,
                                    const struct allocator *alloc, struct array *out,
                                    struct err *e);
long onnx_model_find(const struct onnx_model *m, const void *message, size_t *near);

/* Its elements, whatever field or file holds them. */
enum proem_status onnx_tensor_read(const struct onnx_model *m, const Onnx__TensorProto *t,
                                   const char *what, const struct allocator *alloc,
                                   struct array *out, struct err *e);
/* Unpack a TensorProto in a file of its own (ONNX's test data). */
enum proem_status onnx_tensor_file(struct arena *a, const char *path, const struct allocator *alloc,
                                   struct array *out, struct err *e);

/* The opset version that a list of imports gives a domain ("" and "ai.onnx" are one), 0: none. */
int64_t onnx_opset(size_t n, Onnx__OperatorSetIdProto *const *imports, const char *domain);
bool onnx_same_domain(const char *a, const char *b);

/* Check bytes against a message's schema: `depth` levels of messages at most. */
enum proem_status onnx_wire_check(const char *name, const ProtobufCMessageDescriptor *d,
                                  const uint8_t *bytes, size_t n, int depth, struct err *e);

/* In place of "location", which a file might give as any text: no key of ONNX. */
#define ONNX_OWN_FILE "proem.own_file"
/* The bytes of a model, checked, without its large raw_data (lean.c); false: no memory. */
bool onnx_lean(const uint8_t *bytes, size_t n, struct str *out);

#endif
