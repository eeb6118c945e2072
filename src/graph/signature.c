/* SPDX-License-Identifier: MIT
 * Signatures: for each operator its parameters' names, kinds and defaults, once, for the parser,
 * the printer, the builder and the names of edges in `explain`.
 *
 * Elementwise operators without constants have the generic signatures (x), (a, b); the rows below
 * are the others, in the order of the tables of the graph text.
 */
#include "graph/internal.h"

#include <string.h>

#define V(name)                                                                                    \
    { name, PAR_VALUE, 0, 0 }
#define OPTIONAL(name)                                                                             \
    { name, PAR_VALUE, PARF_OPT, 0 }
#define VARIADIC(name)                                                                             \
    { name, PAR_VALUES, 0, 0 }
#define POS(name, kind)                                                                            \
    { name, kind, 0, 0 }
#define NEED(name, kind)                                                                           \
    { name, kind, PARF_NAMED, 0 }
#define MAY(name, kind)                                                                            \
    { name, kind, PARF_NAMED | PARF_OPT, 0 }
#define DEF(name, kind, value)                                                                     \
    { name, kind, PARF_NAMED | PARF_DEFAULT, value }
#define INTERNAL(name, kind)                                                                       \
    { name, kind, PARF_NAMED | PARF_DEFAULT | PARF_INTERNAL, 0 }

#define MAX_PARS 7

struct signature {
    enum op op;
    int n;
    struct par par[MAX_PARS];
};

/* clang-format off */
static const struct par unary[] = {V("x")};
static const struct par binary[] = {V("a"), V("b")};

static const struct signature table[] = {
    {OP_GELU, 2, {V("x"), DEF("approximate", PAR_APPROX, 0)}},
    {OP_GELU_TANH, 2, {V("x"), DEF("approximate", PAR_APPROX, 0)}},
    {OP_SOFTPLUS, 3, {V("x"), DEF("beta", PAR_P0, 1), DEF("threshold", PAR_P1, 20)}},
    {OP_ELU, 2, {V("x"), DEF("alpha", PAR_P0, 1)}},
    {OP_LEAKY_RELU, 2, {V("x"), DEF("slope", PAR_P0, 0.01)}},
    {OP_CLAMP, 3, {V("x"), V("lo"), V("hi")}},
    {OP_WHERE, 3, {V("c"), V("a"), V("b")}},
    {OP_CAST, 4, {V("x"), POS("dtype", PAR_DTYPE), DEF("saturate", PAR_FLAG, 0),
                  INTERNAL("implied", PAR_IMPLIED)}},
    {OP_BITCAST, 2, {V("x"), POS("dtype", PAR_DTYPE)}},
    {OP_DEQUANTIZE, 6, {V("q"), OPTIONAL("scale"), OPTIONAL("zero"), DEF("axis", PAR_AXIS, 1),
                        DEF("block", PAR_BLOCK, 0), MAY("dtype", PAR_DTYPE)}},
    {OP_QUANTIZE, 6, {V("x"), V("scale"), OPTIONAL("zero"), DEF("axis", PAR_AXIS, 1),
                      DEF("block", PAR_BLOCK, 0), MAY("dtype", PAR_DTYPE)}},
    {OP_RESHAPE, 2, {V("x"), POS("dims", PAR_DIMS)}},
    {OP_PERMUTE, 2, {V("x"), POS("axes", PAR_PERM)}},
    {OP_TRANSPOSE, 1, {V("x")}},
    {OP_EXPAND, 2, {V("x"), POS("dims", PAR_DIMS)}},
    {OP_SQUEEZE, 2, {V("x"), POS("axis", PAR_AXIS)}},
    {OP_UNSQUEEZE, 2, {V("x"), POS("axis", PAR_AXIS)}},
    {OP_SLICE, 5, {V("x"), NEED("axis", PAR_AXIS), DEF("start", PAR_START, 0),
                   MAY("stop", PAR_STOP), DEF("step", PAR_STEP, 1)}},
    {OP_SPLIT, 3, {V("x"), POS("sizes", PAR_PARTS), NEED("axis", PAR_AXIS)}},
    {OP_CONCAT, 2, {VARIADIC("x"), NEED("axis", PAR_AXIS)}},
    {OP_PAD, 4, {V("x"), MAY("low", PAR_LOW), MAY("high", PAR_HIGH), DEF("value", PAR_P0, 0)}},
    {OP_FLIP, 2, {V("x"), NEED("axes", PAR_AXES)}},
    {OP_IOTA, 3, {POS("dtype", PAR_DTYPE), POS("dims", PAR_DIMS), NEED("axis", PAR_AXIS)}},
    {OP_TAKE, 3, {V("x"), V("index"), DEF("axis", PAR_AXIS, 0)}},
    {OP_TAKE_ALONG, 3, {V("x"), V("index"), NEED("axis", PAR_AXIS)}},
    {OP_SCATTER, 4, {V("base"), V("index"), V("src"), DEF("axis", PAR_AXIS, 0)}},
    {OP_SCATTER_ADD, 4, {V("base"), V("index"), V("src"), DEF("axis", PAR_AXIS, 0)}},
    {OP_SCATTER_ALONG, 5, {V("base"), V("index"), V("src"), NEED("axis", PAR_AXIS),
                           DEF("add", PAR_FLAG, 0)}},
    {OP_SUM, 3, {V("x"), MAY("axes", PAR_AXES), DEF("keepdims", PAR_FLAG, 0)}},
    {OP_MEAN, 3, {V("x"), MAY("axes", PAR_AXES), DEF("keepdims", PAR_FLAG, 0)}},
    {OP_MAX, 3, {V("x"), MAY("axes", PAR_AXES), DEF("keepdims", PAR_FLAG, 0)}},
    {OP_MIN, 3, {V("x"), MAY("axes", PAR_AXES), DEF("keepdims", PAR_FLAG, 0)}},
    {OP_PROD, 3, {V("x"), MAY("axes", PAR_AXES), DEF("keepdims", PAR_FLAG, 0)}},
    {OP_ARGMAX, 3, {V("x"), MAY("axis", PAR_AXIS), DEF("keepdims", PAR_FLAG, 0)}},
    {OP_ARGMIN, 3, {V("x"), MAY("axis", PAR_AXIS), DEF("keepdims", PAR_FLAG, 0)}},
    {OP_SOFTMAX, 2, {V("x"), DEF("axis", PAR_AXIS, -1)}},
    {OP_LOG_SOFTMAX, 2, {V("x"), DEF("axis", PAR_AXIS, -1)}},
    {OP_RMS_NORM, 3, {V("x"), OPTIONAL("weight"), DEF("eps", PAR_P0, 1e-6)}},
    {OP_LAYER_NORM, 4, {V("x"), OPTIONAL("weight"), OPTIONAL("bias"), DEF("eps", PAR_P0, 1e-5)}},
    {OP_CUMSUM, 2, {V("x"), NEED("axis", PAR_AXIS)}},
    {OP_TOPK, 3, {V("x"), POS("k", PAR_K), DEF("axis", PAR_AXIS, -1)}},
    {OP_ARGSORT, 3, {V("x"), DEF("axis", PAR_AXIS, -1), DEF("descending", PAR_FLAG, 0)}},
    {OP_MATMUL, 4, {V("a"), V("b"), MAY("out", PAR_DTYPE), INTERNAL("hides", PAR_FLAG)}},
    {OP_LINEAR, 3, {V("x"), V("w"), OPTIONAL("b")}},
    {OP_GROUPED_MATMUL, 3, {V("a"), V("b"), V("offsets")}},
    {OP_ATTENTION, 4, {V("q"), V("k"), V("v"), MAY("scale", PAR_P0)}},
    {OP_CONST, 2, {POS("dtype", PAR_DTYPE), POS("value", PAR_NUMBER)}},
    {OP_LOOKUP, 1, {VARIADIC("x")}},
    {OP_DIM, 1, {POS("size", PAR_SIZE)}},
};
/* clang-format on */

const struct par *signature(enum op op, int *n) {
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        if (table[i].op == op) {
            *n = table[i].n;
            return table[i].par;
        }
    }
    *n = op_is_elementwise(op) ? op_info(op)->arity : 0;
    return *n == 2 ? binary : unary;
}

int signature_max_inputs(enum op op) {
    int n, inputs = 0;
    const struct par *p = signature(op, &n);
    for (int i = 0; i < n; i++) {
        if (p[i].kind == PAR_VALUES) return -1;
        if (p[i].kind == PAR_VALUE) inputs++;
    }
    return inputs;
}

int signature_min_inputs(enum op op) {
    int n, inputs = 0;
    const struct par *p = signature(op, &n);
    for (int i = 0; i < n; i++) {
        if (p[i].kind == PAR_VALUES) inputs++;
        if (p[i].kind == PAR_VALUE && (p[i].flags & PARF_OPT) == 0) inputs++;
    }
    return inputs;
}

const char *graph_input_name(enum op op, int i) {
    int n;
    const struct par *p = signature(op, &n);
    for (int j = 0; j < n; j++) {
        if (p[j].kind == PAR_VALUES) return NULL;
        if (p[j].kind == PAR_VALUE && i-- == 0) return p[j].name;
    }
    return NULL;
}

const char *op_text_name(enum op op) {
    return op_info(op == OP_GELU_TANH ? OP_GELU : op)->name;
}

enum op op_from_text(const char *s, size_t n, bool internal) {
    enum op op = op_from_name(s, n);
    if (op == OP_DIM && !internal) return OP_NONE;
    if (op != OP_NONE || !internal) return op;
    static const enum op lowered[] = {OP_CONST, OP_LOOKUP, OP_DIM};
    for (size_t i = 0; i < COUNT_OF(lowered); i++) {
        const char *name = op_info(lowered[i])->name;
        if (strlen(name) == n && memcmp(name, s, n) == 0) return lowered[i];
    }
    return OP_NONE;
}

const char *op_near_text(const char *s, size_t n) {
    const char *best = NULL;
    int least = 0;
    for (int op = OP_NONE + 1; op < OP_COUNT; op++) {
        const char *name = op_text_name((enum op)op);
        if (name == NULL || op_from_text(name, strlen(name), false) == OP_NONE) continue;
        int d = typo_distance(s, n, name);
        if (d < 0 || (best != NULL && d >= least)) continue;
        best = name;
        least = d;
    }
    return best;
}

/* Put a default into its field. Sizes stay 0, which means 0 for start and the end for stop. */
static void set_default(struct attrs *a, const struct par *p) {
    switch (p->kind) {
    case PAR_AXIS:
        a->axis = (int)p->value;
        a->has_axis = true;
        break;
    case PAR_P0:
        a->param[0] = p->value;
        a->has_param = true;
        break;
    case PAR_P1: a->param[1] = p->value; break;
    case PAR_STEP: a->step = (int64_t)p->value; break;
    case PAR_BLOCK: a->block = (int64_t)p->value; break;
    default: break; /* the others default to zero */
    }
}

struct attrs attrs_default(enum op op) {
    struct attrs a = {.n_axes = -1, .step = 1};
    int n;
    const struct par *p = signature(op, &n);
    for (int i = 0; i < n; i++) {
        if ((p[i].flags & PARF_DEFAULT) != 0) set_default(&a, &p[i]);
    }
    return a;
}
