/* SPDX-License-Identifier: MIT
 * Operators: the elementwise ones from ops.def, and the structural ones listed here.
 */
#ifndef PROEM_OP_H
#define PROEM_OP_H

#include "ops/dtype.h"

/* X(ID, name): operators that are not one scalar function per element. The upper block is the
 * contract's language; the lower block only appears in graphs that passes have lowered. */
#define OP_STRUCT_LIST(X)                                                                          \
    X(WHERE, "where")                                                                              \
    X(CAST, "cast")                                                                                \
    X(BITCAST, "bitcast")                                                                          \
    X(DEQUANTIZE, "dequantize")                                                                    \
    X(QUANTIZE, "quantize")                                                                        \
    X(RESHAPE, "reshape")                                                                          \
    X(PERMUTE, "permute")                                                                          \
    X(TRANSPOSE, "transpose")                                                                      \
    X(EXPAND, "expand")                                                                            \
    X(SQUEEZE, "squeeze")                                                                          \
    X(UNSQUEEZE, "unsqueeze")                                                                      \
    X(SLICE, "slice")                                                                              \
    X(SPLIT, "split")                                                                              \
    X(CONCAT, "concat")                                                                            \
    X(PAD, "pad")                                                                                  \
    X(FLIP, "flip")                                                                                \
    X(IOTA, "iota")                                                                                \
    X(TAKE, "take")                                                                                \
    X(TAKE_ALONG, "take_along")                                                                    \
    X(SCATTER, "scatter")                                                                          \
    X(SCATTER_ADD, "scatter_add")                                                                  \
    X(SCATTER_ALONG, "scatter_along")                                                              \
    X(SUM, "sum")                                                                                  \
    X(MEAN, "mean")                                                                                \
    X(MAX, "max")                                                                                  \
    X(MIN, "min")                                                                                  \
    X(PROD, "prod")                                                                                \
    X(ARGMAX, "argmax")                                                                            \
    X(ARGMIN, "argmin")                                                                            \
    X(SOFTMAX, "softmax")                                                                          \
    X(LOG_SOFTMAX, "log_softmax")                                                                  \
    X(RMS_NORM, "rms_norm")                                                                        \
    X(LAYER_NORM, "layer_norm")                                                                    \
    X(CUMSUM, "cumsum")                                                                            \
    X(TOPK, "topk")                                                                                \
    X(ARGSORT, "argsort")                                                                          \
    X(MATMUL, "matmul")                                                                            \
    X(LINEAR, "linear")                                                                            \
    X(GROUPED_MATMUL, "grouped_matmul")                                                            \
    X(ATTENTION, "attention")                                                                      \
    X(PARAM, "param")                                                                              \
    X(CONST, "const")                                                                              \
    X(LOOKUP, "lookup")                                                                            \
    X(DIM, "dim")

enum op {
    OP_NONE,
#define EW(id, name, arity, rule, flags, ulp, work, slots, special, c) OP_##id,
#include "ops/ops.def"
#undef EW
    OP_EW_END,
#define OP_ENUM(id, name) OP_##id,
    OP_STRUCT_LIST(OP_ENUM)
#undef OP_ENUM
        OP_COUNT
};

enum op_rule { RULE_NONE, RULE_SAME, RULE_FLOAT, RULE_BOOL, RULE_LOGIC, RULE_INT, RULE_SHIFT };

enum op_flag {
    OPF_COMM = 1,
    OPF_BOOLOK = 2,
    OPF_QOK = 4,
    OPF_DISC = 8,
    OPF_INTID = 16,
    OPF_ZERODIV = 32,
    OPF_HASPARAM = 64,
    OPF_COMPOSITE = 128
};

struct op_info {
    const char *name;
    int arity;         /* of an elementwise operator, else 0 */
    enum op_rule rule; /* RULE_NONE for structural operators */
    unsigned flags;
    double ulp;
    double work;           /* of one evaluation on a CPU, in simple vector operations */
    double slots, special; /* on a GPU: issue slots, results of the special unit */
    const char *c;         /* the C expression, NULL for structural operators */
    union scalar (*ref)(enum dtype d, const union scalar *in, const double *param);
};

const struct op_info *op_info(enum op op);
static inline bool op_is_elementwise(enum op op) {
    return op > OP_NONE && op < OP_EW_END;
}
/* OP_NONE if there is no operator of that name. gelu_tanh, param, const and lookup are internal. */
enum op op_from_name(const char *s, size_t n);

/* Result dtype of an elementwise operator whose operands have the given dtypes; scalar[i] says that
 * operand i is 0-dim. *compute gets the promoted dtype in which the operands are taken (what they
 * are converted to before the function is applied). DT_NONE if not allowed. */
enum dtype op_result_dtype(enum op op, const enum dtype *in, const bool *scalar, int n,
                           enum dtype *compute);

/* The reference value of an elementwise operator on operands of dtype `compute`: floats in double
 * (not rounded to anything), integers wrapped to their width. param: p0, p1. For RULE_BOOL and
 * RULE_LOGIC the result is a bool. Written apart from the C expressions (ops/ref.c). */
union scalar op_ref(enum op op, enum dtype compute, const union scalar *in, const double *param);

#endif
