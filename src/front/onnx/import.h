/* SPDX-License-Identifier: MIT
 * From an ONNX model to a graph of the contract's operators.
 *
 * Each operator is a row of a table: domain, name, first version, and a function that builds graph
 * operators for a node. A value of the model is, at once or one of:
 *   - a value of the graph (`v`);
 *   - a tensor that the model carries (`tensor`), which becomes a `const` parameter when it is used
 *     as an operand, with "FILE:KEY" as its source;
 *   - integers that are known while the model is read, symbolically (`ints`): what shapes are
 *     computed from. They become a value when an operator needs one.
 *
 * Operators that read shapes (Reshape, Expand, Slice ..) take integers; where these come from data,
 * the model cannot become a graph, and the error says which node's input it is.
 */
#ifndef PROEM_ONNX_IMPORT_H
#define PROEM_ONNX_IMPORT_H

#include "front/onnx/model.h"
#include "front/onnx/onnx.h"

enum { OX_MAX_INTS = 4096, OX_MAX_DEPTH = 32, OX_LEAST_NODES = 1 << 16, OX_MAX_NODES = 1 << 20 };

struct ox_value {
    value_id v;               /* 0: not made yet */
    int tensor;               /* 1 + number of the model's tensor, 0: none */
    const struct array *data; /* of the tensor, of a graph input that was given, or plain numbers */
    int32_t type;             /* ONNX's element type, if the dtype is that of its bits, else 0 */
    bool is_int;              /* ints are known */
    bool soft;                /* .. from the data of a graph input: they shape the graph,
                                         but v is computed as well */
    enum dtype dtype;         /* of ints */
    int rank;                 /* of ints: any, n elements in row-major order */
    int64_t dims[MAX_RANK];
    int64_t n;
    const sx *ints;
    int sequence; /* 1 + index of a list of values, 0: none */
};

/* A function's body being read, or the model's graph. */
struct ox_scope {
    struct ox_scope *caller; /* NULL: the model's graph */
    const Onnx__NodeProto *call;
    const Onnx__FunctionProto *function;
    size_t n_opsets;
    Onnx__OperatorSetIdProto *const *opsets;
    VEC(const char *) names;
    VEC(int) values; /* number in ox.values, by position in names */
    int *table;      /* hash of names: 1 + position */
    size_t table_n;
    int depth;
};

struct ox {
    struct arena *arena;
    struct err *err;
    const struct onnx_model *m;
    const struct onnx_options *o;
    struct graph *g;
    VEC(struct ox_value) values; /* [0]: an optional input left out */
    VEC(const char *) missing;   /* operators that proem lacks, each once */
    value_id *tensors;           /* by number, made when first used */
    size_t near;                 /* where a tensor is looked for first */
    struct ox_scope names;       /* of values of the graph: OX_TAKEN, OX_OUTPUT */
    bool probing;                /* collect what is missing */
    int nodes, most_nodes;       /* walked; functions that call each other twice would be many */
};
/* A name of the graph: a value has it, or an output is going to. */
enum { OX_TAKEN = 1, OX_OUTPUT = 2 };

struct ox_node {
    const Onnx__NodeProto *p;
    struct ox_scope *scope;
    int64_t version; /* of the operator's domain */
    const char *name;
    int n_in, n_out;
    const int *in; /* numbers in ox.values */
    int *out;
};

typedef bool (*ox_fn)(struct ox *o, const struct ox_node *n);

struct ox_op {
    const char *domain, *name;
    int since; /* the first version that the function understands */
    ox_fn fn;
};

/* The tables, one for each file of operators; ends with a NULL name. */
extern const struct ox_op ox_elementwise[], ox_casts[], ox_layout[], ox_index[], ox_reduce_ops[],
    ox_product[], ox_attention[], ox_contrib[], ox_contrib_attention[], ox_contrib_moe[];

/* All rows, one after the other; NULL after the last. */
const struct ox_op *onnx_op(size_t i);

/* ---- errors: all return false --------------------------------------------------------------- */
bool ox_fail(struct ox *o, const struct ox_node *n, const char *format, ...) PRINTF_LIKE(3, 4);

/* ---- inputs and outputs ---------------------------------------------------------------------- */
bool ox_has(const struct ox_node *n, int i);
/* Input i as a value of the graph; 0 if it was left out, or after an error. */
value_id ox_in(struct ox *o, const struct ox_node *n, int i);
enum dtype ox_in_dtype(struct ox *o, const struct ox_node *n, int i);
/* The ONNX element type of input i where the graph has only its bits (as u8), else 0. */
int32_t ox_in_type(struct ox *o, const struct ox_node *n, int i);
/* Dims of input i, without making it a value. False after an error. */
bool ox_in_shape(struct ox *o, const struct ox_node *n, int i, int *rank, sx dims[MAX_RANK]);
/* The elements of input i, which must be integers known now; at most max. -1 after an error. */
int64_t ox_in_ints(struct ox *o, const struct ox_node *n, int i, sx *out, int64_t max);
/* The same, and all of them numbers. */
int64_t ox_in_numbers(struct ox *o, const struct ox_node *n, int i, int64_t *out, int64_t max);
/* The elements of input i if they are known now, else NULL (no error). */
const struct array *ox_in_data(struct ox *o, const struct ox_node *n, int i);
bool ox_is_known(struct ox *o, const struct ox_node *n, int i);
/* Set output i. False if v is 0 (an error was set before). */
bool ox_out(struct ox *o, const struct ox_node *n, int i, value_id v);
bool ox_out_typed(struct ox *o, const struct ox_node *n, int i, value_id v, int32_t type);
bool ox_out_same(struct ox *o, const struct ox_node *n, int i, int value);
bool ox_out_ints(struct ox *o, const struct ox_node *n, int i, enum dtype d, int rank,
                 const int64_t *dims, const sx *ints, int64_t count);
bool ox_wants(const struct ox_node *n, int i); /* is output i used? */

/* ---- attributes ------------------------------------------------------------------------------ */
const Onnx__AttributeProto *ox_attr(const struct ox_node *n, const char *name); /* NULL: none */
int64_t ox_attr_i(const struct ox_node *n, const char *name, int64_t none);
double ox_attr_f(const struct ox_node *n, const char *name, double none);
/* "" is what is not there. */
bool ox_attr_is(const struct ox_node *n, const char *name, const char *value, const char *none);
/* Number of integers, -1 if there is no such attribute. */
int ox_attr_ints(const struct ox_node *n, const char *name, const int64_t **out);

/* ---- building: 0 operands give 0 ------------------------------------------------------------- */
const struct value *ox_type(const struct ox *o, value_id v);
value_id ox_un(struct ox *o, const struct ox_node *n, enum op op, value_id a);
value_id ox_bin(struct ox *o, const struct ox_node *n, enum op op, value_id a, value_id b);
value_id ox_tri(struct ox *o, const struct ox_node *n, enum op op, value_id a, value_id b,
                value_id c);
value_id ox_apply(struct ox *o, const struct ox_node *n, enum op op, int n_in, const value_id *in,
                  const struct attrs *a);
value_id ox_cast(struct ox *o, const struct ox_node *n, value_id a, enum dtype d); /* same: a */
value_id ox_bitcast(struct ox *o, const struct ox_node *n, value_id a, enum dtype d);
/* 0-dim constants of a dtype. */
value_id ox_num(struct ox *o, const struct ox_node *n, enum dtype d, double v);
value_id ox_int(struct ox *o, const struct ox_node *n, enum dtype d, int64_t v);
value_id ox_reshape(struct ox *o, const struct ox_node *n, value_id a, int rank, const sx *dims);
value_id ox_permute(struct ox *o, const struct ox_node *n, value_id a, int rank, const int *perm);
value_id ox_expand(struct ox *o, const struct ox_node *n, value_id a, int rank, const sx *dims);
value_id ox_unsqueeze(struct ox *o, const struct ox_node *n, value_id a, int axis);
value_id ox_squeeze(struct ox *o, const struct ox_node *n, value_id a, int axis);
value_id ox_slice(struct ox *o, const struct ox_node *n, value_id a, int axis, sx start, sx stop,
                  int64_t step);
value_id ox_concat(struct ox *o, const struct ox_node *n, int count, const value_id *in, int axis);
value_id ox_iota(struct ox *o, const struct ox_node *n, enum dtype d, int rank, const sx *dims,
                 int axis);
value_id ox_take(struct ox *o, const struct ox_node *n, value_id a, value_id index, int axis);
/* sum, mean, max, min, prod over axes; n_axes -1: all of them. */
value_id ox_reduce(struct ox *o, const struct ox_node *n, enum op op, value_id a, int n_axes,
                   const int *axes, bool keepdims);
/* Broadcast a with trailing ones so that its dim lies at `axis` of a tensor of `rank`. */
value_id ox_along(struct ox *o, const struct ox_node *n, value_id a, int axis, int rank);
/* A symbolic integer as a 0-dim value. */
value_id ox_sx_value(struct ox *o, const struct ox_node *n, enum dtype d, sx e);
/* Has v (0: false) from `least` to `most` dims? If not, that is an error. */
bool ox_has_rank(struct ox *o, const struct ox_node *n, value_id v, int least, int most);
/* An axis in -rank..rank-1 as 0..rank-1; -1 after an error. */
int ox_axis(struct ox *o, const struct ox_node *n, int64_t axis, int rank);
sx ox_const(struct ox *o, int64_t v);
/* a // b; a number b that is not positive is an error. */
sx ox_div(struct ox *o, const struct ox_node *n, sx a, sx b);
bool ox_sx_is(struct ox *o, sx e, int64_t v);

/* Integer arithmetic of shapes (fold.c): if node n's inputs are known, sets its outputs and returns
 * true; *done says whether it did. */
bool ox_fold(struct ox *o, const struct ox_node *n, bool *done);
/* Run one node, or a function's or a subgraph's nodes in a scope. */
bool ox_run_nodes(struct ox *o, struct ox_scope *s, size_t n, Onnx__NodeProto *const *nodes);
/* A value for a tensor in a message of the model; -1 after an error. */
int ox_tensor_value(struct ox *o, const void *message, int32_t data_type);
/* A graph's initializers, in a scope. */
bool ox_add_tensors(struct ox *o, struct ox_scope *s, const Onnx__GraphProto *g);
bool ox_bind(struct ox *o, struct ox_scope *s, const char *name, int value);
int ox_find(const struct ox_scope *s, const char *name); /* -1: no such name */
int ox_new_value(struct ox *o, struct ox_value v);       /* -1: no memory */
/* `want` if no value has that name, else one like it. NULL: no memory. */
const char *ox_free_name(struct ox *o, const char *want);

#endif
