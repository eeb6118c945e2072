/* SPDX-License-Identifier: MIT
 * oneDNN's graphs (onednn.h): benchdnn's JSON of the oneDNN Graph API to graph text.
 *
 * Operations mean what oneDNN's documentation of them says. A logical tensor t<id> that no operation
 * gives is a parameter; one that no operation takes is a result. Strides of inputs are a matter of
 * memory alone and are left out. Operations compute in f32 when their dtypes differ, as oneDNN's do,
 * and round to the dtype of their result. Many files leave shapes between operations open, so they
 * are computed here.
 */
#include "onednn.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/front.h"

enum { MOST_TENSORS = 512, MOST_INPUTS = 4 };

struct tensor {
    int64_t id;
    enum dtype dtype;
    bool constant, made, used, listed;
    int rank;
    int64_t shape[MAX_RANK];
};

struct reading {
    struct onednn_graph *g;
    struct tensor t[MOST_TENSORS];
    int n;
    int64_t batch, batch_to; /* the size that is made smaller; 0: none */
    struct str body, params;
};

struct operation {
    const json_t *json;
    const char *kind;
    struct tensor *in[MOST_INPUTS], *out[2];
    int n_in, n_out;
};

static bool leave_out(struct reading *r, const char *why, const char *what) {
    snprintf(r->g->left_out, sizeof r->g->left_out, "%s%s", why, what);
    return false;
}

/* ---- the file -------------------------------------------------------------------------------- */

static enum dtype dtype_called(const char *name) {
    static const struct {
        const char *name;
        enum dtype dtype;
    } list[] = {
        {"f32", DT_F32}, {"bf16", DT_BF16},        {"f16", DT_F16},        {"s8", DT_I8},
        {"u8", DT_U8},   {"s32", DT_I32},          {"s64", DT_I64},        {"s4", DT_I4},
        {"u4", DT_U4},   {"f8_e4m3", DT_F8E4M3FN}, {"f8_e5m2", DT_F8E5M2}, {"boolean", DT_BOOL}};
    for (size_t i = 0; name != NULL && i < COUNT_OF(list); i++) {
        if (strcmp(name, list[i].name) == 0) return list[i].dtype;
    }
    return DT_NONE;
}

static int64_t smaller(const struct reading *r, int64_t dim) {
    return r->batch > 0 && dim == r->batch ? r->batch_to : dim;
}

static struct tensor *tensor_of(struct reading *r, const json_t *json) {
    int64_t id = json_integer_value(json_object_get(json, "id"));
    for (int i = 0; i < r->n; i++) {
        if (r->t[i].id == id) return &r->t[i];
    }
    if (r->n == MOST_TENSORS) return NULL;
    struct tensor *t = &r->t[r->n];
    const json_t *shape = json_object_get(json, "shape");
    const char *property = json_string_value(json_object_get(json, "property_type"));
    *t = (struct tensor){.id = id};
    t->dtype = dtype_called(json_string_value(json_object_get(json, "dtype")));
    t->constant = property != NULL && strcmp(property, "constant") == 0;
    if (t->dtype == DT_NONE || json_array_size(shape) > MAX_RANK) return NULL;
    t->rank = (int)json_array_size(shape);
    for (int i = 0; i < t->rank; i++)
        t->shape[i] = json_integer_value(json_array_get(shape, (size_t)i));
    if (t->rank > 2) t->shape[0] = smaller(r, t->shape[0]);
    r->n++;
    return t;
}

static const json_t *attr(const struct operation *op, const char *name) {
    return json_object_get(json_object_get(json_object_get(op->json, "attrs"), name), "value");
}

static int64_t attr_int(const struct operation *op, const char *name, int64_t none) {
    const json_t *v = attr(op, name);
    return json_is_integer(v) ? json_integer_value(v) : none;
}

static bool attr_is(const struct operation *op, const char *name, const char *value) {
    const char *v = json_string_value(attr(op, name));
    return v != NULL && strcmp(v, value) == 0;
}

static int axis_of(const struct operation *op, const char *name, int rank) {
    int64_t axis = attr_int(op, name, -1);
    return (int)(axis < 0 ? axis + rank : axis);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static void same_shape(struct tensor *to, const struct tensor *from) {
    to->rank = from->rank;
    memcpy(to->shape, from->shape, sizeof to->shape);
}

/* NumPy's broadcast of `to`'s first dims with `from`'s, which have `skip` dims more behind them. */
static void broadcast(struct tensor *to, const struct tensor *from, int skip) {
    int rank = from->rank - skip > to->rank ? from->rank - skip : to->rank;
    int64_t shape[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int a = to->rank - rank + i, b = from->rank - skip - rank + i;
        int64_t x = a >= 0 ? to->shape[a] : 1, y = b >= 0 ? from->shape[b] : 1;
        shape[i] = x == 1 ? y : x;
    }
    to->rank = rank;
    memcpy(to->shape, shape, (size_t)rank * sizeof shape[0]);
}

static void product_shape(const struct operation *op) {
    const struct tensor *a = op->in[0], *b = op->in[1];
    bool ta = attr_int(op, "transpose_a", 0) != 0, tb = attr_int(op, "transpose_b", 0) != 0;
    struct tensor *to = op->out[0];
    to->rank = 0;
    if (a->rank > 2) broadcast(to, a, 2);
    if (b->rank > 2) broadcast(to, b, 2);
    if (a->rank > 1) to->shape[to->rank++] = a->shape[a->rank - (ta ? 1 : 2)];
    if (b->rank > 1) to->shape[to->rank++] = b->shape[b->rank - (tb ? 2 : 1)];
}

/* ---- text ------------------------------------------------------------------------------------ */

static void param(struct reading *r, bool constant, enum dtype d, const char *name, int rank,
                  const int64_t *shape) {
    str_printf(&r->params, "%s%s%s: %s[", r->params.n > 0 ? ", " : "", constant ? "const " : "",
               name, dtype_name(d));
    for (int i = 0; i < rank; i++)
        str_printf(&r->params, "%s%lld", i > 0 ? ", " : "", (long long)shape[i]);
    str_add(&r->params, "]");
}

/* Input i in dtype d, as text. */
static void operand(struct reading *r, const struct operation *op, int i, enum dtype d) {
    const struct tensor *t = op->in[i];
    if (t->dtype == d)
        str_printf(&r->body, "t%lld", (long long)t->id);
    else
        str_printf(&r->body, "cast(t%lld, %s)", (long long)t->id, dtype_name(d));
}

/* Where a node's dtypes differ it computes in f32. */
static enum dtype inner_dtype(const struct operation *op) {
    enum dtype d = op->out[0]->dtype;
    for (int i = 0; i < op->n_in; i++) {
        if (op->in[i]->dtype != d) return DT_F32;
    }
    return d;
}

static void begin(struct reading *r, const struct operation *op, int i) {
    str_printf(&r->body, "  t%lld = ", (long long)op->out[i]->id);
}

/* f(input, ..) with all inputs in one dtype. */
static bool call(struct reading *r, const struct operation *op, const char *f, const char *more) {
    enum dtype d = inner_dtype(op), out = op->out[0]->dtype;
    begin(r, op, 0);
    str_printf(&r->body, "%s%s(", d != out ? "cast(" : "", f);
    for (int i = 0; i < op->n_in; i++) {
        if (i > 0) str_add(&r->body, ", ");
        operand(r, op, i, d);
    }
    str_printf(&r->body, "%s)", more);
    if (d != out) str_printf(&r->body, ", %s)", dtype_name(out));
    str_add(&r->body, "\n");
    same_shape(op->out[0], op->in[0]);
    for (int i = 1; i < op->n_in; i++)
        broadcast(op->out[0], op->in[i], 0);
    return true;
}

static bool matmul(struct reading *r, const struct operation *op) {
    enum dtype out = op->out[0]->dtype, a = op->in[0]->dtype, b = op->in[1]->dtype;
    enum dtype d = a == b ? a : DT_F32;
    begin(r, op, 0);
    if (op->n_in > 2) str_add(&r->body, out == DT_F32 ? "(" : "cast(");
    str_add(&r->body, "matmul(");
    for (int i = 0; i < 2; i++) {
        bool turned =
            attr_int(op, i == 0 ? "transpose_a" : "transpose_b", 0) != 0 && op->in[i]->rank > 1;
        if (turned) str_add(&r->body, "transpose(");
        operand(r, op, i, d);
        str_add(&r->body, turned ? "), " : ", ");
    }
    str_printf(&r->body, "out=%s)", dtype_name(op->n_in > 2 ? DT_F32 : out));
    if (op->n_in > 2) {
        str_add(&r->body, " + ");
        operand(r, op, 2, DT_F32);
        if (out != DT_F32) str_printf(&r->body, ", %s", dtype_name(out));
        str_add(&r->body, ")");
    }
    str_add(&r->body, "\n");
    product_shape(op);
    return true;
}

/* A row whose scores are all -inf has weights 0 with inf_as_zero. The second result is the logarithm
 * of the row's sum of exponentials. */
static bool softmax(struct reading *r, const struct operation *op) {
    long long y = op->out[0]->id;
    int axis = axis_of(op, "axis", op->in[0]->rank);
    const char *d = dtype_name(op->out[0]->dtype);
    same_shape(op->out[0], op->in[0]);
    if (!attr_is(op, "mode", "inf_as_zero") && op->n_out == 1) {
        begin(r, op, 0);
        str_printf(&r->body, "cast(softmax(t%lld, axis=%d), %s)\n", (long long)op->in[0]->id, axis,
                   d);
        return true;
    }
    str_printf(&r->body, "  x%lld = ", y);
    operand(r, op, 0, DT_F32);
    str_printf(&r->body, "\n  top%lld = max(x%lld, axes=[%d], keepdims=true)\n", y, y, axis);
    str_printf(&r->body, "  base%lld = where(top%lld == -inf, 0.0, top%lld)\n", y, y, y);
    str_printf(&r->body, "  e%lld = exp(x%lld - base%lld)\n", y, y, y);
    str_printf(&r->body, "  s%lld = sum(e%lld, axes=[%d], keepdims=true)\n", y, y, axis);
    str_printf(&r->body, "  t%lld = cast(e%lld / where(s%lld == 0.0, 1.0, s%lld), %s)\n", y, y, y,
               y, d);
    if (op->n_out < 2) return true;
    same_shape(op->out[1], op->in[0]);
    op->out[1]->shape[axis] = 1;
    begin(r, op, 1);
    str_printf(&r->body, "where(s%lld == 0.0, 0.0, base%lld + log(s%lld))\n", y, y, y);
    return true;
}

/* A list of an attribute as a constant parameter, [] or [D]. */
static bool list_param(struct reading *r, const json_t *list, enum dtype d, const char *name) {
    struct onednn_graph *g = r->g;
    int64_t n = (int64_t)json_array_size(list);
    if (g->n_values == ONEDNN_MOST_VALUES || n == 0) return leave_out(r, "too many scales", "");
    struct onednn_values *v = &g->values[g->n_values];
    snprintf(v->name, sizeof v->name, "%s", name);
    v->n = n;
    v->at = calloc((size_t)n, sizeof *v->at);
    if (v->at == NULL) return leave_out(r, "no memory", "");
    g->n_values++;
    for (int64_t i = 0; i < n; i++)
        v->at[i] = json_number_value(json_array_get(list, (size_t)i));
    param(r, true, d, name, n > 1, &n);
    return true;
}

static bool quantization(struct reading *r, const struct operation *op, const char *f) {
    const json_t *scales = attr(op, "scales"), *zeros = attr(op, "zps");
    struct tensor *x = op->in[0], *y = op->out[0];
    enum dtype q = strcmp(f, "quantize") == 0 ? y->dtype : x->dtype;
    char scale[32], zero[32];
    bool shifted = false;
    for (size_t i = 0; i < json_array_size(zeros); i++)
        shifted = shifted || json_integer_value(json_array_get(zeros, i)) != 0;
    snprintf(scale, sizeof scale, "scale%lld", (long long)y->id);
    snprintf(zero, sizeof zero, "zero%lld", (long long)y->id);
    if (!list_param(r, scales, DT_F32, scale)) return false;
    if (shifted && !list_param(r, zeros, q, zero)) return false;
    begin(r, op, 0);
    str_printf(&r->body, "%s(t%lld, %s%s%s", f, (long long)x->id, scale, shifted ? ", " : "",
               shifted ? zero : "");
    if (json_array_size(scales) > 1)
        str_printf(&r->body, ", axis=%d", axis_of(op, "axis", x->rank));
    str_printf(&r->body, ", dtype=%s)\n", dtype_name(y->dtype));
    same_shape(y, x);
    return true;
}

static bool dynamic_dequantize(struct reading *r, const struct operation *op) {
    if (!attr_is(op, "qtype", "per_group")) return leave_out(r, "DynamicDequantize ", "by tensor");
    int axis = axis_of(op, "axis", op->in[0]->rank);
    int64_t block = json_integer_value(json_array_get(attr(op, "group_shape"), (size_t)axis));
    begin(r, op, 0);
    str_printf(&r->body, "dequantize(t%lld, t%lld", (long long)op->in[0]->id,
               (long long)op->in[1]->id);
    if (op->n_in > 2) str_printf(&r->body, ", t%lld", (long long)op->in[2]->id);
    str_printf(&r->body, ", axis=%d, block=%lld, dtype=%s)\n", axis, (long long)block,
               dtype_name(op->out[0]->dtype));
    same_shape(op->out[0], op->in[0]);
    return true;
}

static bool index_numbers(struct reading *r, const struct operation *op) {
    begin(r, op, 0);
    same_shape(op->out[0], op->in[0]);
    str_printf(&r->body, "iota(%s, [", dtype_name(op->out[0]->dtype));
    for (int i = 0; i < op->in[0]->rank; i++)
        str_printf(&r->body, "%s%lld", i > 0 ? ", " : "", (long long)op->in[0]->shape[i]);
    str_printf(&r->body, "], axis=%d)\n", axis_of(op, "axis", op->in[0]->rank));
    return true;
}

static bool reduce_sum(struct reading *r, const struct operation *op) {
    const json_t *axes = attr(op, "axes");
    bool keep = attr_int(op, "keep_dims", 0) != 0, gone[MAX_RANK] = {false};
    struct tensor *x = op->in[0], *y = op->out[0];
    begin(r, op, 0);
    str_printf(&r->body, "cast(sum(t%lld, axes=[", (long long)x->id);
    for (size_t i = 0; i < json_array_size(axes); i++) {
        int64_t axis = json_integer_value(json_array_get(axes, i));
        axis = axis < 0 ? axis + x->rank : axis;
        str_printf(&r->body, "%s%lld", i > 0 ? ", " : "", (long long)axis);
        gone[axis] = true;
    }
    str_printf(&r->body, "], keepdims=%s), %s)\n", keep ? "true" : "false", dtype_name(y->dtype));
    y->rank = 0;
    for (int i = 0; i < x->rank; i++) {
        if (!gone[i] || keep) y->shape[y->rank++] = gone[i] ? 1 : x->shape[i];
    }
    return true;
}

/* StaticReshape and StaticTranspose. */
static bool layout(struct reading *r, const struct operation *op, const char *f, const char *list) {
    const json_t *v = attr(op, list);
    bool reshape = strcmp(f, "reshape") == 0;
    struct tensor *x = op->in[0], *y = op->out[0];
    if (json_array_size(v) > MAX_RANK) return leave_out(r, op->kind, " of too many dims");
    begin(r, op, 0);
    str_printf(&r->body, "%s(t%lld, [", f, (long long)x->id);
    y->rank = (int)json_array_size(v);
    for (int i = 0; i < y->rank; i++) {
        int64_t n = json_integer_value(json_array_get(v, (size_t)i));
        if (reshape && i == 0) n = smaller(r, n);
        y->shape[i] = reshape ? n : x->shape[n < 0 ? n + x->rank : n];
        str_printf(&r->body, "%s%lld", i > 0 ? ", " : "", (long long)n);
    }
    str_add(&r->body, "])\n");
    return true;
}

static bool one_operation(struct reading *r, const struct operation *op) {
    static const struct {
        const char *kind, *f;
    } plain[] = {{"Add", "add"},         {"Subtract", "sub"},    {"Multiply", "mul"},
                 {"Divide", "div"},      {"Maximum", "maximum"}, {"Minimum", "minimum"},
                 {"GreaterEqual", "ge"}, {"Exp", "exp"},         {"Tanh", "tanh"},
                 {"ReLU", "relu"},       {"Sigmoid", "sigmoid"}, {"BiasAdd", "add"}};
    char more[80];
    const char *k = op->kind;
    for (size_t i = 0; i < COUNT_OF(plain); i++) {
        if (strcmp(k, plain[i].kind) != 0) continue;
        if (strcmp(k, "GreaterEqual") != 0) return call(r, op, plain[i].f, "");
        begin(r, op, 0);
        str_printf(&r->body, "ge(t%lld, t%lld)\n", (long long)op->in[0]->id,
                   (long long)op->in[1]->id);
        same_shape(op->out[0], op->in[0]);
        broadcast(op->out[0], op->in[1], 0);
        return true;
    }
    if (strcmp(k, "MatMul") == 0) return matmul(r, op);
    if (strcmp(k, "SoftMax") == 0) return softmax(r, op);
    if (strcmp(k, "Quantize") == 0) return quantization(r, op, "quantize");
    if (strcmp(k, "Dequantize") == 0) return quantization(r, op, "dequantize");
    if (strcmp(k, "DynamicDequantize") == 0) return dynamic_dequantize(r, op);
    if (strcmp(k, "GenIndex") == 0) return index_numbers(r, op);
    if (strcmp(k, "ReduceSum") == 0) return reduce_sum(r, op);
    if (strcmp(k, "StaticReshape") == 0) return layout(r, op, "reshape", "shape");
    if (strcmp(k, "StaticTranspose") == 0) return layout(r, op, "permute", "order");
    if (strcmp(k, "GELU") == 0)
        return call(r, op, "gelu",
                    attr_is(op, "mode", "gelu_tanh") ? ", approximate=\"tanh\"" : "");
    if (strcmp(k, "Elu") == 0 || strcmp(k, "Clamp") == 0) {
        if (*k == 'E')
            snprintf(more, sizeof more, ", alpha=%.9g", json_number_value(attr(op, "alpha")));
        else
            snprintf(more, sizeof more, ", %.9g, %.9g", json_number_value(attr(op, "min")),
                     json_number_value(attr(op, "max")));
        return call(r, op, *k == 'E' ? "elu" : "clamp", more);
    }
    begin(r, op, 0);
    same_shape(op->out[0], op->in[0]);
    if (strcmp(k, "TypeCast") == 0 || strcmp(k, "Reorder") == 0) {
        operand(r, op, 0, op->out[0]->dtype);
    } else if (strcmp(k, "Select") == 0) {
        str_printf(&r->body, "where(t%lld, ", (long long)op->in[0]->id);
        operand(r, op, 1, op->out[0]->dtype);
        str_add(&r->body, ", ");
        operand(r, op, 2, op->out[0]->dtype);
        str_add(&r->body, ")");
        broadcast(op->out[0], op->in[1], 0);
        broadcast(op->out[0], op->in[2], 0);
    } else {
        return leave_out(r, k, ": the contract has no such operator");
    }
    str_add(&r->body, "\n");
    return true;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static bool read_operation(struct reading *r, const json_t *json, struct operation *op) {
    const json_t *in = json_object_get(json, "inputs"), *out = json_object_get(json, "outputs");
    *op =
        (struct operation){.json = json, .kind = json_string_value(json_object_get(json, "kind"))};
    op->n_in = (int)json_array_size(in);
    op->n_out = (int)json_array_size(out);
    if (op->kind == NULL) return leave_out(r, "no graph of oneDNN", "");
    if (op->n_in > MOST_INPUTS || op->n_out > 2) return leave_out(r, op->kind, " of many tensors");
    for (int i = 0; i < op->n_in + op->n_out; i++) {
        const json_t *t = i < op->n_in ? json_array_get(in, (size_t)i)
                                       : json_array_get(out, (size_t)(i - op->n_in));
        struct tensor *x = tensor_of(r, t);
        if (x == NULL) return leave_out(r, op->kind, " of a tensor whose type the contract lacks");
        if (i < op->n_in)
            op->in[i] = x;
        else
            op->out[i - op->n_in] = x;
    }
    return true;
}

/* Which tensors are given, taken, and results by name. */
static bool mark(struct reading *r, const json_t *list, const json_t *ports) {
    struct operation op;
    size_t i;
    const json_t *json;
    json_array_foreach(list, i, json) {
        if (!read_operation(r, json, &op)) return false;
        bool end = strcmp(op.kind, "End") == 0;
        for (int k = 0; k < op.n_in; k++) {
            op.in[k]->used = op.in[k]->used || !end;
            op.in[k]->listed = op.in[k]->listed || end;
        }
        for (int k = 0; k < op.n_out; k++)
            op.out[k]->made = true;
    }
    for (int k = 0; k < r->n; k++) {
        json_array_foreach(ports, i, json) r->t[k].listed =
            r->t[k].listed || json_integer_value(json) == r->t[k].id;
    }
    return true;
}

/* Operations as their inputs are there; `made` is now: still to be computed. */
static bool emit(struct reading *r, const json_t *list) {
    size_t n = json_array_size(list), done = 0;
    bool *is = calloc(n + 1, sizeof *is), ok = is != NULL;
    for (bool moved = true; ok && moved && done < n;) {
        moved = false;
        for (size_t i = 0; ok && i < n; i++) {
            struct operation op;
            if (is[i] || !read_operation(r, json_array_get(list, i), &op)) continue;
            bool ready = true;
            for (int k = 0; k < op.n_in; k++)
                ready = ready && !op.in[k]->made;
            if (!ready) continue;
            is[i] = moved = true;
            done++;
            if (strcmp(op.kind, "End") != 0) ok = one_operation(r, &op);
            for (int k = 0; k < op.n_out; k++)
                op.out[k]->made = false;
        }
    }
    free(is);
    if (ok && done < n) return leave_out(r, "its operations wait for each other", "");
    return ok;
}

/* The first dim of the first product: what is made smaller if it is large. */
static void choose_batch(struct reading *r, const json_t *list) {
    enum { SMALL = 2 };
    size_t i;
    const json_t *json;
    json_array_foreach(list, i, json) {
        const char *kind = json_string_value(json_object_get(json, "kind"));
        const json_t *in = json_array_get(json_object_get(json, "inputs"), 0);
        const json_t *shape = json_object_get(in, "shape");
        if (kind == NULL || strcmp(kind, "MatMul") != 0 || json_array_size(shape) < 3) continue;
        r->batch = json_integer_value(json_array_get(shape, 0));
        r->batch_to = SMALL;
        if (r->batch <= SMALL) r->batch = 0;
        return;
    }
}

static bool build(struct reading *r, const json_t *root, bool shrink) {
    const json_t *list = json_object_get(root, "graph");
    if (!json_is_array(list)) return leave_out(r, "no graph of oneDNN", "");
    if (shrink) choose_batch(r, list);
    if (!mark(r, list, json_object_get(root, "output_ports"))) return false;
    for (int i = 0; i < r->n; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%lld", (long long)r->t[i].id);
        if (!r->t[i].made)
            param(r, r->t[i].constant, r->t[i].dtype, name, r->t[i].rank, r->t[i].shape);
    }
    bool made[MOST_TENSORS];
    for (int i = 0; i < r->n; i++)
        made[i] = r->t[i].made;
    if (!emit(r, list)) return false;
    str_add(&r->body, "  return");
    int results = 0;
    for (int i = 0; i < r->n; i++) {
        if (made[i] && (!r->t[i].used || r->t[i].listed))
            str_printf(&r->body, "%s t%lld", results++ > 0 ? "," : "", (long long)r->t[i].id);
    }
    r->g->operations = (int)json_array_size(list);
    return results > 0 || leave_out(r, "it has no result", "");
}

bool onednn_graph(const char *text, bool shrink, struct onednn_graph *g) {
    json_error_t fault;
    struct reading *r = calloc(1, sizeof *r);
    json_t *root = json_loads(text, 0, &fault);
    *g = (struct onednn_graph){.text = NULL};
    if (r == NULL || root == NULL) {
        snprintf(g->left_out, sizeof g->left_out, "no JSON: %.140s", fault.text);
        free(r);
        json_decref(root);
        return false;
    }
    r->g = g;
    str_init(&r->body, &allocator_default);
    str_init(&r->params, &allocator_default);
    bool ok = build(r, root, shrink);
    size_t n = r->body.n + r->params.n + 32;
    if (ok && (g->text = calloc(1, n)) != NULL)
        snprintf(g->text, n, "graph g(%s) {\n%s\n}\n", str_text(&r->params), str_text(&r->body));
    str_free(&r->body);
    str_free(&r->params);
    json_decref(root);
    free(r);
    return ok && g->text != NULL;
}

void onednn_graph_free(struct onednn_graph *g) {
    for (int i = 0; i < g->n_values; i++)
        free(g->values[i].at);
    free(g->text);
}
