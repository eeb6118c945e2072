/* SPDX-License-Identifier: MIT
 * What the operators' functions are written with: a node's inputs, outputs and attributes, and
 * graph operators as calls that pass errors on (0 in, 0 out).
 */
#include "front/onnx/import.h"

#include <math.h>
#include <string.h>

bool ox_fail(struct ox *o, const struct ox_node *n, const char *format, ...) {
    struct str text;
    va_list ap;
    str_init(&text, o->arena->alloc);
    va_start(ap, format);
    str_vprintf(&text, format, ap);
    va_end(ap);
    err_set(o->err, PROEM_UNSUPPORTED, "%s: node '%s' (%s): %s", o->m->name, n->name,
            n->p->op_type != NULL ? n->p->op_type : "", str_text(&text));
    str_free(&text);
    return false;
}

sx ox_const(struct ox *o, int64_t v) {
    return sx_const(o->g->sx, v);
}

bool ox_sx_is(struct ox *o, sx e, int64_t v) {
    int64_t x;
    return sx_is_const(o->g->sx, e, &x) && x == v;
}

static struct place place_of(struct ox *o) {
    return (struct place){.err = o->err};
}

/* ---- making values --------------------------------------------------------------------------- */

static union scalar scalar_of(enum dtype d, const struct array *a) {
    return elem_load(d, a->data, 0);
}

/* The data of a tensor, loaded once. */
static const struct array *load(struct ox *o, struct ox_value *v) {
    if (v->data != NULL || v->tensor == 0) return v->data;
    struct array *a = ARENA_NEW(o->arena, struct array, 1);
    struct array loaded;
    if (a == NULL || onnx_model_tensor(o->m, (size_t)v->tensor - 1, o->arena->alloc, &loaded,
                                       o->err) != PROEM_OK)
        return NULL;
    *a = loaded;
    a->data = arena_alloc(o->arena, loaded.bytes > 0 ? loaded.bytes : 1, 1);
    if (a->data != NULL && loaded.bytes > 0) memcpy(a->data, loaded.data, loaded.bytes);
    array_free(&loaded);
    return a->data != NULL ? v->data = a : NULL;
}

/* The type of a tensor, or of plain numbers. */
static bool tensor_type(struct ox *o, const struct ox_value *v, struct array_type *out) {
    if (v->tensor == 0) {
        *out = v->data->type;
        return true;
    }
    return onnx_model_tensor_type(o->m, (size_t)v->tensor - 1, out, o->err) == PROEM_OK;
}

static bool all_same(const struct array *a) {
    if (a->count == 0) return false;
    uint64_t first = elem_bits(a->type.dtype, elem_load(a->type.dtype, a->data, 0));
    for (int64_t i = 1; i < a->count; i++) {
        if (elem_bits(a->type.dtype, elem_load(a->type.dtype, a->data, i)) != first) return false;
    }
    return true;
}

static value_id constant_of(struct ox *o, enum dtype d, union scalar c, int rank, const sx *dims) {
    struct place at = place_of(o);
    value_id v = graph_const(o->g, &at, d, c);
    struct ox_node none = {0};
    return rank == 0 ? v : ox_expand(o, &none, v, rank, dims);
}

const char *ox_free_name(struct ox *o, const char *want) {
    const char *name = want;
    for (int i = 1; name != NULL && ox_find(&o->names, name) >= 0; i++)
        name = arena_printf(o->arena, "%s.%d", want, i);
    return name != NULL && ox_bind(o, &o->names, name, OX_TAKEN) ? name : NULL;
}

/* Has a number more digits than people write, as scales do that were measured? It differs from layer
 * to layer; as a parameter it leaves their kernels equal, which are compiled once. */
static bool is_measured(enum dtype d, const struct array *a) {
    if (d != DT_F32) return false;
    int exponent;
    double digits = ldexp(frexp(scalar_of(d, a).f, &exponent), 11);
    return isfinite(digits) && digits != floor(digits);
}

/* A tensor as an operand: a constant where all elements are equal and few, else a parameter that
 * reads the model's file. */
static value_id tensor_value(struct ox *o, struct ox_value *v) {
    struct array_type t;
    if (v->tensor > 0 && o->tensors[v->tensor - 1] != 0) return o->tensors[v->tensor - 1];
    if (!tensor_type(o, v, &t)) return 0;
    sx dims[MAX_RANK];
    int64_t count;
    size_t bytes;
    array_type_size(&t, &count, &bytes);
    for (int i = 0; i < t.rank; i++)
        dims[i] = ox_const(o, t.shape[i]);
    if (count <= 64 && count > 0) {
        const struct array *a = load(o, v);
        if (a == NULL) return 0;
        if (all_same(a) && !(count == 1 && v->tensor > 0 && is_measured(t.dtype, a)))
            return constant_of(o, t.dtype, scalar_of(t.dtype, a), t.rank, dims);
    }
    if (v->tensor == 0) {
        err_set(o->err, PROEM_UNSUPPORTED,
                "%s: a list of numbers that a function is given is used "
                "as a tensor",
                o->m->name);
        return 0;
    }
    struct place at = place_of(o);
    const char *key = o->m->tensors.at[v->tensor - 1].key;
    const char *source = arena_printf(o->arena, "%s:%s", o->o->source, key);
    const char *name = ox_free_name(o, key);
    if (!name_is_writable(key)) {
        err_set(o->err, PROEM_INVALID, "%s: the name of a tensor is no text of one line",
                o->m->name);
        return 0;
    }
    if (source == NULL || name == NULL) return 0;
    return o->tensors[v->tensor - 1] =
               graph_param(o->g, &at, name, t.dtype, t.rank, dims, true, source);
}

value_id ox_sx_value(struct ox *o, const struct ox_node *n, enum dtype d, sx e) {
    int64_t c;
    if (sx_is_const(o->g->sx, e, &c)) return ox_int(o, n, d, c);
    /* element e of 0, 1, .. e: an index, no memory */
    sx one = sx_add(o->g->sx, e, ox_const(o, 1));
    value_id all = ox_iota(o, n, d, 1, &one, 0);
    return ox_squeeze(o, n, ox_slice(o, n, all, 0, e, one, 1), 0);
}

static value_id ints_value(struct ox *o, const struct ox_node *n, const struct ox_value *v) {
    value_id part[64];
    sx dims[MAX_RANK];
    if (v->n > 64) {
        ox_fail(o, n, "a list of %lld sizes is used as a tensor", (long long)v->n);
        return 0;
    }
    for (int i = 0; i < v->rank; i++)
        dims[i] = ox_const(o, v->dims[i]);
    if (v->n == 0) {
        return constant_of(o, v->dtype, (union scalar){.i = 0}, v->rank, dims);
    }
    for (int64_t i = 0; i < v->n; i++)
        part[i] = ox_unsqueeze(o, n, ox_sx_value(o, n, v->dtype, v->ints[i]), 0);
    value_id all = v->n == 1 ? part[0] : ox_concat(o, n, (int)v->n, part, 0);
    return ox_reshape(o, n, all, v->rank, dims);
}

static value_id make_value(struct ox *o, const struct ox_node *n, int number) {
    struct ox_value *v = &o->values.at[number];
    if (v->v != 0) return v->v;
    bool is_tensor = v->tensor > 0 || (v->data != NULL && !v->is_int);
    value_id made = is_tensor ? tensor_value(o, v) : v->is_int ? ints_value(o, n, v) : 0;
    o->values.at[number].v = made; /* the vector may have moved */
    return made;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

bool ox_has(const struct ox_node *n, int i) {
    return i < n->n_in && n->in[i] != 0;
}

static struct ox_value *input(struct ox *o, const struct ox_node *n, int i) {
    return &o->values.at[ox_has(n, i) ? n->in[i] : 0];
}

value_id ox_in(struct ox *o, const struct ox_node *n, int i) {
    if (!ox_has(n, i)) return 0;
    if (input(o, n, i)->sequence > 0) {
        ox_fail(o, n, "its input %d is a sequence", i);
        return 0;
    }
    return make_value(o, n, n->in[i]);
}

bool ox_in_shape(struct ox *o, const struct ox_node *n, int i, int *rank, sx dims[MAX_RANK]) {
    struct ox_value *v = input(o, n, i);
    struct array_type t;
    if (v->v != 0) {
        const struct value *x = graph_value(o->g, v->v);
        *rank = x->rank;
        if (x->rank > 0) memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
        return true;
    }
    if (v->tensor > 0 || v->data != NULL) {
        if (!tensor_type(o, v, &t)) return false;
        *rank = t.rank;
        for (int k = 0; k < t.rank; k++)
            dims[k] = ox_const(o, t.shape[k]);
        return true;
    }
    if (!v->is_int) return ox_fail(o, n, "its input %d is missing", i);
    *rank = v->rank;
    for (int k = 0; k < v->rank; k++)
        dims[k] = ox_const(o, v->dims[k]);
    return true;
}

enum dtype ox_in_dtype(struct ox *o, const struct ox_node *n, int i) {
    struct ox_value *v = input(o, n, i);
    struct array_type t;
    if (v->v != 0) return graph_value(o->g, v->v)->dtype;
    if (v->tensor > 0 || v->data != NULL) return tensor_type(o, v, &t) ? t.dtype : DT_NONE;
    return v->is_int ? v->dtype : DT_NONE;
}

int32_t ox_in_type(struct ox *o, const struct ox_node *n, int i) {
    return input(o, n, i)->type;
}

const struct array *ox_in_data(struct ox *o, const struct ox_node *n, int i) {
    if (!ox_has(n, i)) return NULL;
    struct ox_value *v = input(o, n, i);
    struct array_type t;
    int64_t count;
    size_t bytes;
    if (v->data != NULL || v->tensor == 0) return v->data;
    if (!tensor_type(o, v, &t) || !array_type_size(&t, &count, &bytes)) return NULL;
    return count <= OX_MAX_INTS ? load(o, v) : NULL;
}

/* Give a value its ints, if they are known; integers and bools only. */
static bool know_ints(struct ox *o, const struct ox_node *n, int i) {
    struct ox_value *v = input(o, n, i);
    if (v->is_int) return true;
    const struct array *a = ox_in_data(o, n, i);
    if (a == NULL || a->count > OX_MAX_INTS) return false;
    enum dtype d = a->type.dtype;
    if (!dtype_is_int(d) && d != DT_BOOL) return false;
    sx *ints = ARENA_NEW(o->arena, sx, a->count + 1);
    if (ints == NULL) return false;
    for (int64_t k = 0; k < a->count; k++)
        ints[k] = ox_const(o, elem_load(d, a->data, k).i);
    v->is_int = true;
    v->soft = v->v != 0 && v->tensor == 0;
    v->dtype = d;
    v->rank = a->type.rank;
    memcpy(v->dims, a->type.shape, sizeof v->dims);
    v->n = a->count;
    v->ints = ints;
    return true;
}

bool ox_is_known(struct ox *o, const struct ox_node *n, int i) {
    return ox_has(n, i) && know_ints(o, n, i);
}

int64_t ox_in_ints(struct ox *o, const struct ox_node *n, int i, sx *out, int64_t max) {
    if (!ox_has(n, i)) {
        ox_fail(o, n, "its input %d is missing", i);
        return -1;
    }
    if (!know_ints(o, n, i)) {
        if (o->err->status == PROEM_OK)
            ox_fail(
                o, n,
                "shapes depend on its input '%s'; that must be known when the model is read, as "
                "an input's values are if --in gives them from a file",
                n->p->n_input > (size_t)i ? n->p->input[i] : "");
        return -1;
    }
    const struct ox_value *v = input(o, n, i);
    if (v->n > max) {
        ox_fail(o, n, "its input %d has %lld elements; %lld are allowed", i, (long long)v->n,
                (long long)max);
        return -1;
    }
    if (v->n > 0) memcpy(out, v->ints, (size_t)v->n * sizeof *out);
    return v->n;
}

int64_t ox_in_numbers(struct ox *o, const struct ox_node *n, int i, int64_t *out, int64_t max) {
    sx e[OX_MAX_INTS];
    int64_t count = ox_in_ints(o, n, i, e, max < OX_MAX_INTS ? max : OX_MAX_INTS);
    for (int64_t k = 0; k < count; k++) {
        if (sx_is_const(o->g->sx, e[k], &out[k])) continue;
        ox_fail(o, n, "its input %d depends on the sizes of the inputs; it must be a number", i);
        return -1;
    }
    return count;
}

/* ---- outputs --------------------------------------------------------------------------------- */

bool ox_wants(const struct ox_node *n, int i) {
    return i < n->n_out && n->p->output[i][0] != '\0';
}

bool ox_out(struct ox *o, const struct ox_node *n, int i, value_id v) {
    if (v == 0) return false;
    if (i >= n->n_out) return true;
    n->out[i] = ox_new_value(o, (struct ox_value){.v = v});
    return n->out[i] >= 0;
}

bool ox_out_typed(struct ox *o, const struct ox_node *n, int i, value_id v, int32_t type) {
    if (!ox_out(o, n, i, v)) return false;
    if (i < n->n_out && onnx_is_bits(type)) o->values.at[n->out[i]].type = type;
    return true;
}

bool ox_out_same(struct ox *o, const struct ox_node *n, int i, int value) {
    (void)o;
    if (i < n->n_out) n->out[i] = value;
    return true;
}

bool ox_out_ints(struct ox *o, const struct ox_node *n, int i, enum dtype d, int rank,
                 const int64_t *dims, const sx *ints, int64_t count) {
    if (i >= n->n_out) return true;
    for (int64_t k = 0; k < count; k++) {
        if (ints[k] == 0 && arena_ok(o->arena))
            return ox_fail(o, n, "a size is too long an expression");
    }
    struct ox_value v = {.is_int = true, .dtype = d, .rank = rank, .n = count};
    sx *copy = ARENA_NEW(o->arena, sx, count + 1);
    if (copy == NULL) return false;
    if (count > 0) memcpy(copy, ints, (size_t)count * sizeof *copy);
    if (rank > 0) memcpy(v.dims, dims, (size_t)rank * sizeof *dims);
    v.ints = copy;
    n->out[i] = ox_new_value(o, v);
    return n->out[i] >= 0;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static const Onnx__AttributeProto *attr_in(Onnx__AttributeProto *const *at, size_t n,
                                           const char *name) {
    for (size_t i = 0; i < n; i++) {
        if (at[i]->name != NULL && strcmp(at[i]->name, name) == 0) return at[i];
    }
    return NULL;
}

/* An attribute that refers to one of the function's is looked up where the function is called. */
static const Onnx__AttributeProto *attr_of(const Onnx__NodeProto *p, const struct ox_scope *s,
                                           const char *name) {
    const Onnx__AttributeProto *a = attr_in(p->attribute, p->n_attribute, name);
    while (a != NULL && a->ref_attr_name != NULL && a->ref_attr_name[0] != '\0') {
        if (s == NULL || s->function == NULL) return NULL;
        const char *ref = a->ref_attr_name;
        a = attr_in(s->call->attribute, s->call->n_attribute, ref);
        if (a == NULL) {
            const Onnx__FunctionProto *f = s->function;
            return attr_in(f->attribute_proto, f->n_attribute_proto, ref);
        }
        s = s->caller;
    }
    return a;
}

const Onnx__AttributeProto *ox_attr(const struct ox_node *n, const char *name) {
    return attr_of(n->p, n->scope, name);
}

int64_t ox_attr_i(const struct ox_node *n, const char *name, int64_t none) {
    const Onnx__AttributeProto *a = ox_attr(n, name);
    return a != NULL && a->has_i ? a->i : none;
}

double ox_attr_f(const struct ox_node *n, const char *name, double none) {
    const Onnx__AttributeProto *a = ox_attr(n, name);
    return a != NULL && a->has_f ? (double)a->f : none;
}

bool ox_attr_is(const struct ox_node *n, const char *name, const char *value, const char *none) {
    const Onnx__AttributeProto *a = ox_attr(n, name);
    if (a == NULL || !a->has_s) return strcmp(none, value) == 0;
    return a->s.len == strlen(value) && memcmp(a->s.data, value, a->s.len) == 0;
}

int ox_attr_ints(const struct ox_node *n, const char *name, const int64_t **out) {
    const Onnx__AttributeProto *a = ox_attr(n, name);
    if (a == NULL || a->n_ints > INT32_MAX) return -1;
    *out = a->ints;
    return (int)a->n_ints;
}

/* ---- building -------------------------------------------------------------------------------- */

const struct value *ox_type(const struct ox *o, value_id v) {
    return graph_value(o->g, v);
}

value_id ox_apply(struct ox *o, const struct ox_node *n, enum op op, int n_in, const value_id *in,
                  const struct attrs *a) {
    struct place at = place_of(o);
    for (int i = 0; i < n_in; i++) {
        bool optional = op == OP_DEQUANTIZE || op == OP_QUANTIZE || op == OP_LAYER_NORM ||
                        op == OP_RMS_NORM || op == OP_LINEAR;
        if (in[i] == 0 && !(optional && i > 0)) return 0;
    }
    if (!arena_ok(o->arena)) return 0;
    struct err before = *o->err;
    value_id v = graph_apply(o->g, &at, op, n_in, in, a);
    if (v == 0 && before.status == PROEM_OK && o->err->status != PROEM_OK && n->p != NULL) {
        struct err inner = *o->err; /* say where */
        err_clear(o->err);
        ox_fail(o, n, "%s", inner.text);
        o->err->status = inner.status;
    }
    return v;
}

value_id ox_un(struct ox *o, const struct ox_node *n, enum op op, value_id a) {
    return ox_apply(o, n, op, 1, &a, NULL);
}

value_id ox_bin(struct ox *o, const struct ox_node *n, enum op op, value_id a, value_id b) {
    const value_id in[] = {a, b};
    return ox_apply(o, n, op, 2, in, NULL);
}

value_id ox_tri(struct ox *o, const struct ox_node *n, enum op op, value_id a, value_id b,
                value_id c) {
    const value_id in[] = {a, b, c};
    return ox_apply(o, n, op, 3, in, NULL);
}

value_id ox_cast(struct ox *o, const struct ox_node *n, value_id a, enum dtype d) {
    if (a == 0 || ox_type(o, a)->dtype == d) return a;
    struct attrs at = attrs_default(OP_CAST);
    at.dtype = d;
    return ox_apply(o, n, OP_CAST, 1, &a, &at);
}

value_id ox_bitcast(struct ox *o, const struct ox_node *n, value_id a, enum dtype d) {
    struct attrs at = attrs_default(OP_BITCAST);
    at.dtype = d;
    return ox_apply(o, n, OP_BITCAST, 1, &a, &at);
}

value_id ox_num(struct ox *o, const struct ox_node *n, enum dtype d, double v) {
    struct place at = place_of(o);
    (void)n;
    return graph_const(o->g, &at, d, elem_cast(DT_F64, (union scalar){.f = v}, d, false));
}

value_id ox_int(struct ox *o, const struct ox_node *n, enum dtype d, int64_t v) {
    struct place at = place_of(o);
    if (dtype_is_float(d)) return ox_num(o, n, d, (double)v);
    return graph_const(o->g, &at, d, (union scalar){.i = v});
}

value_id ox_reshape(struct ox *o, const struct ox_node *n, value_id a, int rank, const sx *dims) {
    struct attrs at = attrs_default(OP_RESHAPE);
    at.n_list = rank;
    if (rank > 0) memcpy(at.list, dims, (size_t)rank * sizeof *dims);
    return ox_apply(o, n, OP_RESHAPE, 1, &a, &at);
}

value_id ox_permute(struct ox *o, const struct ox_node *n, value_id a, int rank, const int *perm) {
    if (!ox_has_rank(o, n, a, rank, rank)) return 0;
    struct attrs at = attrs_default(OP_PERMUTE);
    at.n_list = rank;
    if (rank > 0) memcpy(at.perm, perm, (size_t)rank * sizeof *perm);
    return ox_apply(o, n, OP_PERMUTE, 1, &a, &at);
}

value_id ox_expand(struct ox *o, const struct ox_node *n, value_id a, int rank, const sx *dims) {
    if (a == 0) return 0;
    const struct value *t = ox_type(o, a);
    bool same = t->rank == rank;
    for (int i = 0; same && i < rank; i++)
        same = t->dims[i] == dims[i];
    if (same) return a;
    struct attrs at = attrs_default(OP_EXPAND);
    at.n_list = rank;
    if (rank > 0) memcpy(at.list, dims, (size_t)rank * sizeof *dims);
    return ox_apply(o, n, OP_EXPAND, 1, &a, &at);
}

static value_id with_axis(struct ox *o, const struct ox_node *n, enum op op, value_id a, int axis) {
    struct attrs at = attrs_default(op);
    at.axis = axis;
    at.has_axis = true;
    return ox_apply(o, n, op, 1, &a, &at);
}

value_id ox_unsqueeze(struct ox *o, const struct ox_node *n, value_id a, int axis) {
    return with_axis(o, n, OP_UNSQUEEZE, a, axis);
}

value_id ox_squeeze(struct ox *o, const struct ox_node *n, value_id a, int axis) {
    return with_axis(o, n, OP_SQUEEZE, a, axis);
}

value_id ox_slice(struct ox *o, const struct ox_node *n, value_id a, int axis, sx start, sx stop,
                  int64_t step) {
    struct attrs at = attrs_default(OP_SLICE);
    at.axis = axis;
    at.has_axis = true;
    at.start = start;
    at.stop = stop;
    at.step = step;
    return ox_apply(o, n, OP_SLICE, 1, &a, &at);
}

value_id ox_concat(struct ox *o, const struct ox_node *n, int count, const value_id *in, int axis) {
    struct attrs at = attrs_default(OP_CONCAT);
    at.axis = axis;
    at.has_axis = true;
    return ox_apply(o, n, OP_CONCAT, count, in, &at);
}

value_id ox_iota(struct ox *o, const struct ox_node *n, enum dtype d, int rank, const sx *dims,
                 int axis) {
    struct attrs at = attrs_default(OP_IOTA);
    at.dtype = d;
    at.axis = axis;
    at.has_axis = true;
    at.n_list = rank;
    memcpy(at.list, dims, (size_t)rank * sizeof *dims);
    return ox_apply(o, n, OP_IOTA, 0, NULL, &at);
}

value_id ox_take(struct ox *o, const struct ox_node *n, value_id a, value_id index, int axis) {
    struct attrs at = attrs_default(OP_TAKE);
    const value_id in[] = {a, index};
    at.axis = axis;
    at.has_axis = true;
    return ox_apply(o, n, OP_TAKE, 2, in, &at);
}

value_id ox_reduce(struct ox *o, const struct ox_node *n, enum op op, value_id a, int n_axes,
                   const int *axes, bool keepdims) {
    struct attrs at = attrs_default(op);
    at.n_axes = n_axes;
    if (n_axes > 0) memcpy(at.axes, axes, (size_t)n_axes * sizeof *axes);
    at.flag = keepdims;
    return ox_apply(o, n, op, 1, &a, &at);
}

value_id ox_along(struct ox *o, const struct ox_node *n, value_id a, int axis, int rank) {
    for (int i = axis + 1; i < rank; i++)
        a = ox_unsqueeze(o, n, a, i - axis);
    return a;
}

int ox_axis(struct ox *o, const struct ox_node *n, int64_t axis, int rank) {
    if (axis >= -rank && axis < rank) return (int)(axis < 0 ? axis + rank : axis);
    ox_fail(o, n, "axis %lld is outside of -%d..%d", (long long)axis, rank, rank - 1);
    return -1;
}

sx ox_div(struct ox *o, const struct ox_node *n, sx a, sx b) {
    int64_t v;
    if (!sx_is_const(o->g->sx, b, &v) || v > 0) return sx_div(o->g->sx, a, b);
    ox_fail(o, n, "a size is divided by %lld", (long long)v);
    return a; /* something that can be worked with until the error is seen */
}

bool ox_has_rank(struct ox *o, const struct ox_node *n, value_id v, int least, int most) {
    if (v == 0) return false;
    int rank = ox_type(o, v)->rank;
    if (rank >= least && rank <= most) return true;
    if (least == most)
        return ox_fail(o, n, "an operand has %d dims where %d are expected", rank, least);
    return ox_fail(o, n, "an operand has %d dims where %d to %d are expected", rank, least, most);
}
