/* SPDX-License-Identifier: MIT
 * Walks a model's nodes in order, with functions inlined, and calls the operators' functions.
 */
#include "front/onnx/import.h"

#include <string.h>

/* ---- scopes ---------------------------------------------------------------------------------- */

static uint64_t hash_name(const char *s) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *s != '\0'; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

static size_t slot_of(const struct ox_scope *s, const char *name) {
    size_t i = (size_t)hash_name(name) & (s->table_n - 1);
    while (s->table[i] != 0 && strcmp(s->names.at[s->table[i] - 1], name) != 0)
        i = (i + 1) & (s->table_n - 1);
    return i;
}

static bool grow_table(struct ox *o, struct ox_scope *s) {
    size_t n = s->table_n > 0 ? s->table_n * 2 : 64;
    s->table = ARENA_NEW(o->arena, int, n);
    if (s->table == NULL) return false;
    s->table_n = n;
    for (size_t i = 0; i < s->names.n; i++)
        s->table[slot_of(s, s->names.at[i])] = (int)i + 1;
    return true;
}

int ox_find(const struct ox_scope *s, const char *name) {
    if (s->table_n == 0 || name == NULL) return -1;
    int at = s->table[slot_of(s, name)];
    return at == 0 ? -1 : s->values.at[at - 1];
}

bool ox_bind(struct ox *o, struct ox_scope *s, const char *name, int value) {
    if (value < 0) return false;
    if (name == NULL) return true; /* nobody can ask for it */
    if (s->names.n * 2 >= s->table_n && !grow_table(o, s)) return false;
    size_t slot = slot_of(s, name);
    if (s->table[slot] != 0) {
        s->values.at[s->table[slot] - 1] = value;
        return true;
    }
    if (!VEC_PUSH(o->arena, &s->names, name) || !VEC_PUSH(o->arena, &s->values, value))
        return false;
    s->table[slot] = (int)s->names.n;
    return true;
}

int ox_new_value(struct ox *o, struct ox_value v) {
    if (!VEC_PUSH(o->arena, &o->values, v)) return -1;
    return (int)o->values.n - 1;
}

static bool no_memory(struct ox *o) {
    err_nomem(o->err);
    return false;
}

/* ---- the table of operators ------------------------------------------------------------------ */

/* Operands of a type that the graph has only the bits of: an error, or the function looks at them
 * itself, or they are moved and the result has the type of the first operand. */
enum bits { NO_BITS, READS_BITS, MOVES_BITS };

static const struct {
    const struct ox_op *ops;
    enum bits bits;
} tables[] = {
    {ox_elementwise, NO_BITS}, {ox_casts, READS_BITS},   {ox_layout, MOVES_BITS},
    {ox_index, NO_BITS},       {ox_reduce_ops, NO_BITS}, {ox_product, NO_BITS},
    {ox_attention, NO_BITS},   {ox_contrib, NO_BITS},    {ox_contrib_attention, NO_BITS},
    {ox_contrib_moe, NO_BITS},
};

static const struct ox_op *find_op(const char *domain, const char *name, int64_t version,
                                   enum bits *bits) {
    const struct ox_op *best = NULL;
    for (size_t t = 0; t < COUNT_OF(tables); t++) {
        for (const struct ox_op *op = tables[t].ops; op->name != NULL; op++) {
            if (strcmp(op->name, name) != 0 || !onnx_same_domain(op->domain, domain)) continue;
            if (op->since > version || (best != NULL && op->since <= best->since)) continue;
            best = op;
            *bits = tables[t].bits;
        }
    }
    return best;
}

const struct ox_op *onnx_op(size_t i) {
    for (size_t t = 0; t < COUNT_OF(tables); t++) {
        for (const struct ox_op *op = tables[t].ops; op->name != NULL; op++) {
            if (i-- == 0) return op;
        }
    }
    return NULL;
}

static const char *text_of(const char *s) {
    return s != NULL ? s : "";
}

static const Onnx__FunctionProto *find_function(const struct ox *o, const Onnx__NodeProto *n) {
    const Onnx__ModelProto *p = o->m->proto;
    for (size_t i = 0; i < p->n_functions; i++) {
        const Onnx__FunctionProto *f = p->functions[i];
        if (strcmp(text_of(f->name), text_of(n->op_type)) == 0 &&
            onnx_same_domain(f->domain, n->domain) &&
            strcmp(text_of(f->overload), text_of(n->overload)) == 0)
            return f;
    }
    return NULL;
}

/* A name that the graph's text can have. */
static bool is_name(const char *s) {
    return s != NULL && name_is_writable(s);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* An operator that proem lacks: all of them are collected for one message. */
static bool note_missing(struct ox *o, const struct ox_node *n) {
    const char *domain = text_of(n->p->domain);
    const char *text =
        arena_printf(o->arena, "%s%s%s-%lld (node '%s')", domain, domain[0] != '\0' ? "." : "",
                     text_of(n->p->op_type), (long long)n->version, n->name);
    if (text == NULL) return no_memory(o);
    size_t len = strcspn(text, " ");
    for (size_t i = 0; i < o->missing.n; i++) {
        if (strncmp(o->missing.at[i], text, len + 1) == 0) return true;
    }
    return VEC_PUSH(o->arena, &o->missing, text) || no_memory(o);
}

static bool call_function(struct ox *o, const struct ox_node *n, const Onnx__FunctionProto *f) {
    struct ox_scope *s = ARENA_NEW(o->arena, struct ox_scope, 1);
    if (s == NULL) return no_memory(o);
    if (n->scope->depth >= OX_MAX_DEPTH) return ox_fail(o, n, "functions call each other too deep");
    *s = (struct ox_scope){.caller = n->scope,
                           .call = n->p,
                           .function = f,
                           .n_opsets = f->n_opset_import,
                           .opsets = f->opset_import,
                           .depth = n->scope->depth + 1};
    for (size_t i = 0; i < f->n_input; i++) {
        int v = i < (size_t)n->n_in ? n->in[i] : 0;
        if (!ox_bind(o, s, f->input[i], v)) return no_memory(o);
    }
    if (!ox_run_nodes(o, s, f->n_node, f->node)) return false;
    for (int i = 0; i < n->n_out && (size_t)i < f->n_output; i++) {
        int v = ox_find(s, f->output[i]);
        if (v < 0)
            return ox_fail(o, n, "the function does not compute its output '%s'", f->output[i]);
        n->out[i] = v;
    }
    return true;
}

static bool is_soft(const struct ox *o, const struct ox_node *n) {
    for (int i = 0; i < n->n_in; i++) {
        if (o->values.at[n->in[i]].is_int && o->values.at[n->in[i]].soft) return true;
    }
    return false;
}

/* A value that is computed from data, and what it is going to be. */
static void keep_ints(struct ox *o, int computed, int folded) {
    struct ox_value *to = &o->values.at[computed];
    const struct ox_value *from = &o->values.at[folded];
    if (computed == folded || to->v == 0) return;
    value_id v = to->v;
    *to = *from;
    to->v = v;
    to->soft = true;
}

static bool call_op(struct ox *o, const struct ox_node *n, const struct ox_op *op, enum bits bits) {
    for (int i = 0; i < n->n_in && bits == NO_BITS; i++) {
        int32_t type = ox_in_type(o, n, i);
        if (type != 0) return ox_fail(o, n, "type %s is not supported", onnx_dtype_name(type));
    }
    if (!op->fn(o, n) || o->err->status != PROEM_OK) return false;
    for (int i = 0; i < n->n_out && bits == MOVES_BITS; i++) {
        if (n->out[i] > 0) o->values.at[n->out[i]].type = ox_in_type(o, n, 0);
    }
    return true;
}

static const char *node_name(struct ox *o, const Onnx__NodeProto *p, size_t number) {
    if (p->name != NULL && p->name[0] != '\0') return p->name;
    return arena_printf(o->arena, "#%zu %s", number, text_of(p->op_type));
}

static int64_t version_of(const struct ox_scope *s, const Onnx__NodeProto *p) {
    int64_t version = onnx_opset(s->n_opsets, s->opsets, p->domain);
    return version != 0 ? version : 1;
}

/* What proem lacks of a node, of the function that it calls, and of its subgraphs. */
static bool probe(struct ox *o, const struct ox_node *n, int depth) {
    enum bits bits;
    const Onnx__FunctionProto *f = find_function(o, n->p);
    if (depth > OX_MAX_DEPTH) return ox_fail(o, n, "graphs nest too deep");
    bool known = find_op(text_of(n->p->domain), text_of(n->p->op_type), n->version, &bits) != NULL;
    if (!known && f == NULL) return note_missing(o, n);
    if (!known) return call_function(o, n, f);
    for (size_t i = 0; i < n->p->n_attribute; i++) {
        const Onnx__GraphProto *g = n->p->attribute[i]->g;
        for (size_t k = 0; g != NULL && k < g->n_node; k++) {
            struct ox_node inner = {.p = g->node[k], .scope = n->scope};
            inner.version = version_of(n->scope, inner.p);
            inner.name = node_name(o, inner.p, k);
            if (inner.name == NULL) return no_memory(o);
            if (!probe(o, &inner, depth + 1)) return false;
        }
    }
    return true;
}

static bool run_node(struct ox *o, const struct ox_node *n) {
    enum bits bits = NO_BITS;
    if (o->probing) return probe(o, n, 0);
    const struct ox_op *op =
        find_op(text_of(n->p->domain), text_of(n->p->op_type), n->version, &bits);
    const Onnx__FunctionProto *f = find_function(o, n->p);
    bool done = false;
    if (!ox_fold(o, n, &done)) return false;
    bool soft = done && (op == NULL || op->fn != NULL) && is_soft(o, n);
    if (done && !soft) return true;
    if (op != NULL ? op->fn == NULL : f == NULL) return ox_fail(o, n, "has no such operands");
    int folded = soft ? n->out[0] : 0;
    if (!(op != NULL ? call_op(o, n, op, bits) : call_function(o, n, f))) return false;
    if (soft) keep_ints(o, n->out[0], folded);
    return true;
}

/* A node's inputs and outputs as numbers of values. Outputs that it does not set stay absent. */
static bool prepare(struct ox *o, struct ox_scope *s, const Onnx__NodeProto *p, size_t number,
                    struct ox_node *n) {
    *n = (struct ox_node){.p = p, .scope = s, .n_in = (int)p->n_input, .n_out = (int)p->n_output};
    n->version = version_of(s, p);
    n->name = node_name(o, p, number);
    int *in = ARENA_NEW(o->arena, int, p->n_input + 1);
    n->out = ARENA_NEW(o->arena, int, p->n_output + 1);
    if (n->name == NULL || in == NULL || n->out == NULL) return no_memory(o);
    n->in = in;
    for (size_t i = 0; i < p->n_input; i++) {
        if (p->input[i][0] == '\0') continue;
        in[i] = ox_find(s, p->input[i]);
        if (in[i] >= 0) continue;
        ox_fail(o, n, "its input '%s' is no input, initializer or earlier result", p->input[i]);
        o->err->status = PROEM_INVALID;
        return false;
    }
    return true;
}

/* Names the value that an output is, if it has none yet and the name is free. */
static bool name_output(struct ox *o, const struct ox_scope *s, const char *name, int value) {
    value_id v = o->values.at[value].v;
    if (s->caller != NULL || v == 0) return true;
    if (graph_value(o->g, v)->named || graph_def(o->g, v)->op == OP_CONST) return true;
    if (!is_name(name) || ox_find(&o->names, name) == OX_TAKEN) return true;
    struct place at = {.err = o->err};
    return (ox_bind(o, &o->names, name, OX_TAKEN) || no_memory(o)) &&
           graph_name_value(o->g, &at, v, name) == PROEM_OK;
}

bool ox_run_nodes(struct ox *o, struct ox_scope *s, size_t count, Onnx__NodeProto *const *nodes) {
    for (size_t i = 0; i < count; i++) {
        struct ox_node n;
        if (!prepare(o, s, nodes[i], i, &n)) return false;
        if (++o->nodes > o->most_nodes) return ox_fail(o, &n, "its functions make too many nodes");
        if (!run_node(o, &n)) {
            if (!arena_ok(o->arena)) return no_memory(o);
            if (o->err->status == PROEM_OK) ox_fail(o, &n, "is not understood");
            return false;
        }
        for (int j = 0; j < n.n_out; j++) {
            const char *name = nodes[i]->output[j];
            if (name[0] == '\0') continue;
            if (!ox_bind(o, s, name, n.out[j])) return no_memory(o);
            if (!o->probing && !name_output(o, s, name, n.out[j])) return false;
        }
    }
    return true;
}

/* ---- the model's graph ----------------------------------------------------------------------- */

/* The dim of an input: a number, a symbol by its name, or a symbol made for this place. */
static sx input_dim(struct ox *o, const char *input, size_t axis,
                    const Onnx__TensorShapeProto__Dimension *d) {
    if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && d->dim_value >= 0)
        return sx_const(o->g->sx, d->dim_value);
    if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
        is_name(d->dim_param))
        return sx_sym(o->g->sx, d->dim_param);
    char *name = arena_printf(o->arena, "%s_%zu", input, axis);
    return name != NULL ? sx_sym(o->g->sx, name) : 0;
}

static bool bad_input(struct ox *o, const char *name, const char *why) {
    err_set(o->err, PROEM_UNSUPPORTED, "%s: input '%s': %s", o->m->name, name, why);
    return false;
}

/* The dims of an input; without a shape those of its data. */
static bool input_dims(struct ox *o, const Onnx__ValueInfoProto *in, const struct array *data,
                       int *rank, sx *dims) {
    const Onnx__TensorShapeProto *shape = in->type->tensor_type->shape;
    if (shape == NULL && data == NULL)
        return bad_input(o, in->name, "its rank is not given; a file for it says that");
    if (shape == NULL) {
        *rank = data->type.rank;
        for (int i = 0; i < *rank; i++)
            dims[i] = sx_const(o->g->sx, data->type.shape[i]);
        return true;
    }
    *rank = (int)shape->n_dim;
    for (size_t i = 0; i < shape->n_dim; i++) {
        dims[i] = input_dim(o, in->name, i, shape->dim[i]);
        if (dims[i] == 0) return no_memory(o);
    }
    return true;
}

static bool add_input(struct ox *o, struct ox_scope *s, const Onnx__ValueInfoProto *in) {
    if (!is_name(in->name)) return bad_input(o, "", "its name is empty, or no text of one line");
    if (ox_find(s, in->name) >= 0) return true; /* an initializer is its default: that is taken */
    struct ox_value v = {0};
    if (o->probing) return ox_bind(o, s, in->name, ox_new_value(o, v)) || no_memory(o);
    if (in->type == NULL || in->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
        return bad_input(o, in->name, "only tensors are supported");
    const Onnx__TypeProto__Tensor *t = in->type->tensor_type;
    enum dtype d = onnx_dtype(t->elem_type);
    if (d == DT_NONE) return bad_input(o, in->name, onnx_dtype_name(t->elem_type));
    if (t->shape != NULL && t->shape->n_dim > MAX_RANK)
        return bad_input(o, in->name, "it has too many dims");
    int rank = t->shape != NULL ? (int)t->shape->n_dim : -1;
    sx dims[MAX_RANK];
    if (o->o->input != NULL) v.data = o->o->input(o->o->user, in->name, d, rank);
    if (!input_dims(o, in, v.data, &rank, dims)) return false;
    if (v.data != NULL && (v.data->data == NULL || v.data->type.dtype != d)) v.data = NULL;
    struct place at = {.err = o->err};
    v.v = graph_param(o->g, &at, in->name, d, rank, dims, false, NULL);
    if (v.v == 0) return false;
    if (!ox_bind(o, &o->names, in->name, OX_TAKEN)) return no_memory(o);
    if (onnx_is_bits(t->elem_type)) v.type = t->elem_type;
    return ox_bind(o, s, in->name, ox_new_value(o, v)) || no_memory(o);
}

int ox_tensor_value(struct ox *o, const void *message, int32_t data_type) {
    long i = onnx_model_find(o->m, message, &o->near);
    struct ox_value v = {.tensor = (int)i + 1, .type = onnx_is_bits(data_type) ? data_type : 0};
    return i >= 0 ? ox_new_value(o, v) : -1;
}

bool ox_add_tensors(struct ox *o, struct ox_scope *s, const Onnx__GraphProto *g) {
    for (size_t i = 0; i < g->n_initializer; i++) {
        const Onnx__TensorProto *t = g->initializer[i];
        if (!ox_bind(o, s, t->name, ox_tensor_value(o, t, t->data_type))) return no_memory(o);
    }
    return true;
}

/* An output is called by its name: a value that has another one is named anew by a cast to its own
 * dtype, which changes nothing. */
static bool add_output(struct ox *o, struct ox_scope *s, const Onnx__ValueInfoProto *out) {
    int at = is_name(out->name) ? ox_find(s, out->name) : -1;
    if (at <= 0) {
        err_set(o->err, PROEM_INVALID, "%s: nothing computes output '%s'", o->m->name,
                text_of(out->name));
        return false;
    }
    Onnx__NodeProto none = ONNX__NODE_PROTO__INIT;
    struct ox_node n = {.p = &none, .scope = s, .name = out->name, .n_in = 1, .in = &at};
    value_id v = ox_in(o, &n, 0);
    if (v == 0) return false;
    const struct value *x = graph_value(o->g, v);
    bool own = x->named && strcmp(x->name, out->name) == 0 && graph_def(o->g, v)->op != OP_PARAM;
    for (size_t i = 0; i < o->g->outputs.n; i++)
        own = own && o->g->outputs.at[i].value != v;
    struct place place = {.err = o->err};
    if (!own) {
        struct attrs a = attrs_default(OP_CAST);
        a.dtype = x->dtype;
        v = graph_apply(o->g, &place, OP_CAST, 1, &v, &a);
        const char *name = out->name;
        if (ox_find(&o->names, name) == OX_TAKEN) name = ox_free_name(o, name);
        if (name == NULL || !ox_bind(o, &o->names, name, OX_TAKEN)) return no_memory(o);
        if (v == 0 || graph_name_value(o->g, &place, v, name) != PROEM_OK) return false;
    }
    return graph_output(o->g, &place, v, 0) == PROEM_OK;
}

/* The file's size bounds what inlining makes of it. */
static int most_nodes(const Onnx__ModelProto *m) {
    enum { CALLS = 1024 };
    size_t n = m->graph->n_node;
    for (size_t i = 0; i < m->n_functions; i++)
        n += m->functions[i]->n_node;
    if (n > OX_MAX_NODES / CALLS) return n > OX_MAX_NODES ? (int)n : OX_MAX_NODES;
    return n * CALLS < OX_LEAST_NODES ? OX_LEAST_NODES : (int)(n * CALLS);
}

static bool walk(struct ox *o) {
    const Onnx__GraphProto *g = o->m->proto->graph;
    o->most_nodes = most_nodes(o->m->proto);
    struct ox_scope *s = ARENA_NEW(o->arena, struct ox_scope, 1);
    if (s == NULL || ox_new_value(o, (struct ox_value){0}) != 0) return no_memory(o);
    s->n_opsets = o->m->proto->n_opset_import;
    s->opsets = o->m->proto->opset_import;
    o->tensors = ARENA_NEW(o->arena, value_id, o->m->tensors.n + 1);
    if (o->tensors == NULL) return no_memory(o);
    for (size_t i = 0; i < g->n_output; i++) {
        const char *name = g->output[i]->name;
        if (name != NULL && !ox_bind(o, &o->names, name, OX_OUTPUT)) return no_memory(o);
    }
    if (!ox_add_tensors(o, s, g)) return false;
    for (size_t i = 0; i < g->n_input; i++) {
        if (!add_input(o, s, g->input[i])) return false;
    }
    if (!ox_run_nodes(o, s, g->n_node, g->node)) return false;
    for (size_t i = 0; i < g->n_output && !o->probing; i++) {
        if (!add_output(o, s, g->output[i])) return false;
    }
    return true;
}

static enum proem_status report_missing(const struct ox *o) {
    struct str names;
    str_init(&names, o->arena->alloc);
    for (size_t i = 0; i < o->missing.n; i++)
        str_printf(&names, "%s%s", i > 0 ? ", " : "", o->missing.at[i]);
    enum proem_status s =
        err_set(o->err, PROEM_UNSUPPORTED, "%s: operators that are not supported: %s", o->m->name,
                str_text(&names));
    str_free(&names);
    return s;
}

enum proem_status onnx_import(struct arena *a, const struct onnx_model *m,
                              const struct onnx_options *options, struct graph **out,
                              struct err *e) {
    struct ox probe = {.arena = a, .err = e, .m = m, .o = options, .probing = true};
    if (!walk(&probe)) return e->status != PROEM_OK ? e->status : err_nomem(e);
    if (probe.missing.n > 0) return report_missing(&probe);
    struct sx_pool *sp = sx_pool_new(a);
    const char *name = text_of(m->proto->graph->name);
    struct ox o = {.arena = a, .err = e, .m = m, .o = options};
    if (sp != NULL) o.g = graph_new(a, sp, is_name(name) ? name : "main");
    if (o.g == NULL) return err_nomem(e);
    if (!walk(&o)) {
        if (!arena_ok(a)) return err_nomem(e);
        return e->status != PROEM_OK ? e->status : PROEM_INVALID;
    }
    TRY(graph_finish(o.g, e));
    *out = o.g;
    return arena_ok(a) ? PROEM_OK : err_nomem(e);
}
