/* SPDX-License-Identifier: MIT
 * A model with each kernel of a plan as a function of the domain proem.kernel. A kernel is known by
 * the values of the model that it stores. Its function has the nodes behind these, back to what is
 * there before the kernel runs: the model's inputs and initializers, what earlier kernels store, and
 * what can be computed from all that without a kernel (shapes). A node that several kernels compute
 * is in each of their functions. So the model means the same as before, whatever runs it, and calls
 * stand in the order of the plan: none depends on a later one.
 *
 * Constants are part of every function that uses them. Nodes whose results the plan does not have,
 * because the reader folded them, stay outside where they can.
 */
#include "front/onnx/model.h"

#include <string.h>

#define DOMAIN "proem.kernel"

/* When a value can be had outside of functions: after which kernel. */
enum { NEVER = -2, BEFORE = -1 };

struct name_info {
    const char *name;
    int level;
    long node;           /* that makes it; -1: an input or an initializer */
    size_t kernel_input; /* 1 + the last kernel that has it as an input */
};

typedef VEC(size_t) index_list;

struct exporter {
    struct arena *arena;
    struct onnx_model *m;
    const struct onnx_kernel *k;
    size_t n_kernels;
    VEC(struct name_info) names;
    size_t *table; /* hash of names: 1 + position */
    size_t table_n;
    int *kept;     /* of a node: the level after which it stands outside; NEVER: it does not */
    bool *is_used; /* of a kept node */
    size_t *seen;  /* of a node: 1 + the last kernel whose function has it */
    VEC(Onnx__NodeProto *) nodes; /* of the result */
};

/* ---- names ------------------------------------------------------------------------------------ */

static size_t slot_of(const struct exporter *x, const char *name) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *c = name; *c != '\0'; c++)
        h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    size_t i = (size_t)h & (x->table_n - 1);
    while (x->table[i] != 0 && strcmp(x->names.at[x->table[i] - 1].name, name) != 0)
        i = (i + 1) & (x->table_n - 1);
    return i;
}

static struct name_info *find(const struct exporter *x, const char *name) {
    if (name == NULL || name[0] == '\0') return NULL;
    size_t at = x->table[slot_of(x, name)];
    return at != 0 ? &x->names.at[at - 1] : NULL;
}

static bool grow(struct exporter *x) {
    x->table_n = x->table_n > 0 ? x->table_n * 2 : 256;
    x->table = ARENA_NEW(x->arena, size_t, x->table_n);
    if (x->table == NULL) return false;
    for (size_t i = 0; i < x->names.n; i++)
        x->table[slot_of(x, x->names.at[i].name)] = i + 1;
    return true;
}

static bool add_name(struct exporter *x, const char *name, int level, long node) {
    if (name == NULL || name[0] == '\0' || find(x, name) != NULL) return true;
    if (x->names.n * 2 >= x->table_n && !grow(x)) return false;
    struct name_info info = {name, level, node, 0};
    if (!VEC_PUSH(x->arena, &x->names, info)) return false;
    x->table[slot_of(x, name)] = x->names.n;
    return true;
}

static bool add_names(struct exporter *x) {
    const Onnx__GraphProto *g = x->m->proto->graph;
    if (!grow(x)) return false;
    for (size_t i = 0; i < g->n_input; i++) {
        if (!add_name(x, g->input[i]->name, BEFORE, -1)) return false;
    }
    for (size_t i = 0; i < g->n_initializer; i++) {
        if (!add_name(x, g->initializer[i]->name, BEFORE, -1)) return false;
    }
    for (size_t i = 0; i < g->n_node; i++) {
        for (size_t k = 0; k < g->node[i]->n_output; k++) {
            if (!add_name(x, g->node[i]->output[k], NEVER, (long)i)) return false;
        }
    }
    for (size_t i = 0; i < x->n_kernels; i++) {
        for (size_t k = 0; k < x->k[i].n_out; k++) {
            struct name_info *v = find(x, x->k[i].out[k]);
            if (v != NULL && v->level == NEVER) v->level = (int)i;
        }
    }
    return true;
}

/* ---- what a node reads ------------------------------------------------------------------------ */

static bool is_constant(const Onnx__NodeProto *n) {
    return n->op_type != NULL && strcmp(n->op_type, "Constant") == 0 && n->n_input == 0;
}

typedef bool (*visit)(struct exporter *x, struct name_info *v, void *user);

/* Also what subgraphs take from outside: any name that is one of the model's. */
static bool each_read(struct exporter *x, const Onnx__NodeProto *n, visit f, void *user,
                      int depth) {
    for (size_t i = 0; i < n->n_input; i++) {
        struct name_info *v = find(x, n->input[i]);
        if (v != NULL && !f(x, v, user)) return false;
    }
    for (size_t i = 0; i < n->n_attribute && depth > 0; i++) {
        const Onnx__GraphProto *g = n->attribute[i]->g;
        for (size_t k = 0; g != NULL && k < g->n_node; k++) {
            if (!each_read(x, g->node[k], f, user, depth - 1)) return false;
        }
    }
    return true;
}

enum { DEEP = 32 };

/* ---- nodes that stay outside ------------------------------------------------------------------ */

static bool raise_level(struct exporter *x, struct name_info *v, void *user) {
    int *level = user;
    (void)x;
    if (v->level == NEVER) return false;
    if (v->level > *level) *level = v->level;
    return true;
}

static void keep_nodes(struct exporter *x, bool (*is_computed)(void *, const char *), void *user) {
    const Onnx__GraphProto *g = x->m->proto->graph;
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *n = g->node[i];
        int level = BEFORE;
        bool computed = false;
        x->kept[i] = NEVER;
        for (size_t k = 0; k < n->n_output; k++)
            computed = computed || is_computed(user, n->output[k]);
        if (computed || !each_read(x, n, raise_level, &level, DEEP)) continue;
        x->kept[i] = level;
        for (size_t k = 0; k < n->n_output; k++) {
            struct name_info *v = find(x, n->output[k]);
            if (v != NULL && v->level == NEVER) v->level = level;
        }
    }
}

/* ---- functions -------------------------------------------------------------------------------- */

struct slice {
    size_t kernel;      /* n_kernels: what outputs need beside the kernels */
    index_list pending; /* nodes */
    VEC(char *) inputs;
    size_t n_nodes;
};

static bool need(struct exporter *x, struct slice *s, long node) {
    if (node < 0 || x->seen[node] == s->kernel + 1) return true;
    x->seen[node] = s->kernel + 1;
    s->n_nodes++;
    return VEC_PUSH(x->arena, &s->pending, (size_t)node);
}

static bool slice_read(struct exporter *x, struct name_info *v, void *user) {
    struct slice *s = user;
    bool constant = v->node >= 0 && is_constant(x->m->proto->graph->node[v->node]);
    if (v->level == NEVER || v->level >= (int)s->kernel || constant) return need(x, s, v->node);
    if (v->kernel_input == s->kernel + 1) return true;
    v->kernel_input = s->kernel + 1;
    char *name = arena_strdup(x->arena, v->name);
    return name != NULL && VEC_PUSH(x->arena, &s->inputs, name);
}

static bool follow(struct exporter *x, struct slice *s) {
    while (s->pending.n > 0) {
        size_t node = s->pending.at[--s->pending.n];
        if (!each_read(x, x->m->proto->graph->node[node], slice_read, s, DEEP)) return false;
    }
    /* One result of a node was there, another was not: it computes both. */
    size_t n = 0;
    for (size_t i = 0; i < s->inputs.n; i++) {
        const struct name_info *v = find(x, s->inputs.at[i]);
        if (v->node < 0 || x->seen[v->node] != s->kernel + 1) s->inputs.at[n++] = s->inputs.at[i];
    }
    s->inputs.n = n;
    return true;
}

static bool use_kept(struct exporter *x, struct name_info *v, void *user) {
    index_list *pending = user;
    if (v->node < 0 || x->kept[v->node] == NEVER || x->is_used[v->node]) return true;
    x->is_used[v->node] = true;
    return VEC_PUSH(x->arena, pending, (size_t)v->node);
}

/* Mark the nodes outside that a name needs. */
static bool use(struct exporter *x, const char *name) {
    index_list pending = {0};
    struct name_info *v = find(x, name);
    if (v == NULL) return true;
    if (!use_kept(x, v, &pending)) return false;
    while (pending.n > 0) {
        size_t node = pending.at[--pending.n];
        if (!each_read(x, x->m->proto->graph->node[node], use_kept, &pending, DEEP)) return false;
    }
    return true;
}

static char *copied(struct exporter *x, const char *s) {
    return s != NULL ? arena_strdup(x->arena, s) : NULL;
}

/* The nodes of a slice, in the model's order. */
static Onnx__NodeProto **body_of(struct exporter *x, const struct slice *s) {
    const Onnx__GraphProto *g = x->m->proto->graph;
    Onnx__NodeProto **body = ARENA_NEW(x->arena, Onnx__NodeProto *, s->n_nodes + 1);
    size_t n = 0;
    for (size_t i = 0; body != NULL && i < g->n_node; i++) {
        if (x->seen[i] == s->kernel + 1) body[n++] = g->node[i];
    }
    return body;
}

static bool is_taken(const Onnx__ModelProto *p, const char *name) {
    for (size_t i = 0; i < p->n_functions; i++) {
        const Onnx__FunctionProto *f = p->functions[i];
        if (f->name != NULL && f->domain != NULL && strcmp(f->domain, DOMAIN) == 0 &&
            strcmp(f->name, name) == 0)
            return true;
    }
    return false;
}

/* A kernel's name, with a number if the model has a function of that name: it was written like this
 * before. Names of kernels differ in their first letters, so no two become the same. */
static char *fresh_name(struct exporter *x, const char *kernel) {
    char *name = copied(x, kernel);
    for (size_t i = 2; name != NULL && is_taken(x->m->proto, name); i++)
        name = arena_printf(x->arena, "%s_%zu", kernel, i);
    return name;
}

static Onnx__FunctionProto *function_of(struct exporter *x, const struct slice *s, size_t n_out,
                                        char **out) {
    const struct onnx_kernel *k = &x->k[s->kernel];
    Onnx__FunctionProto *f = ARENA_NEW(x->arena, Onnx__FunctionProto, 1);
    Onnx__NodeProto *call = ARENA_NEW(x->arena, Onnx__NodeProto, 1);
    if (f == NULL || call == NULL) return NULL;
    onnx__function_proto__init(f);
    onnx__node_proto__init(call);
    f->name = call->op_type = call->name = fresh_name(x, k->name);
    f->domain = call->domain = copied(x, DOMAIN);
    f->doc_string = copied(x, k->doc);
    f->n_input = call->n_input = s->inputs.n;
    f->input = call->input = s->inputs.at;
    f->n_output = call->n_output = n_out;
    f->output = call->output = out;
    f->n_node = s->n_nodes;
    f->node = body_of(x, s);
    f->n_opset_import = x->m->proto->n_opset_import;
    f->opset_import = x->m->proto->opset_import;
    if (!arena_ok(x->arena) || !VEC_PUSH(x->arena, &x->nodes, call)) return NULL;
    return f;
}

/* The function of kernel i and its call; *out stays NULL for one that stores nothing of the model's.
 */
static bool add_kernel(struct exporter *x, size_t i, Onnx__FunctionProto **out) {
    const struct onnx_kernel *k = &x->k[i];
    struct slice s = {.kernel = i};
    char **names = ARENA_NEW(x->arena, char *, k->n_out + 1);
    size_t n = 0;
    if (names == NULL) return false;
    for (size_t j = 0; j < k->n_out; j++) {
        const struct name_info *v = find(x, k->out[j]);
        if (v == NULL || v->node < 0 || v->level != (int)i) continue;
        names[n++] = copied(x, v->name);
        if (!need(x, &s, v->node)) return false;
    }
    if (n == 0) return true;
    if (!follow(x, &s)) return false;
    for (size_t j = 0; j < s.inputs.n; j++) {
        if (!use(x, s.inputs.at[j])) return false;
    }
    *out = function_of(x, &s, n, names);
    return *out != NULL;
}

/* ---- the model -------------------------------------------------------------------------------- */

/* Nodes outside that can run after kernel `level`. Which are used is known at the end, so all are
 * put there, and cleared out then. */
static bool add_kept(struct exporter *x, int level) {
    const Onnx__GraphProto *g = x->m->proto->graph;
    for (size_t i = 0; i < g->n_node; i++) {
        if (x->kept[i] == level && !VEC_PUSH(x->arena, &x->nodes, g->node[i])) return false;
    }
    return true;
}

/* Outputs that no kernel stores, by nodes at the end. */
static bool add_rest(struct exporter *x) {
    const Onnx__GraphProto *g = x->m->proto->graph;
    struct slice s = {.kernel = x->n_kernels};
    for (size_t i = 0; i < g->n_output; i++) {
        const struct name_info *v = find(x, g->output[i]->name);
        if (v != NULL && v->level == NEVER && !need(x, &s, v->node)) return false;
        if (v != NULL && v->level != NEVER && !use(x, v->name)) return false;
    }
    if (!follow(x, &s)) return false;
    for (size_t i = 0; i < s.inputs.n; i++) {
        if (!use(x, s.inputs.at[i])) return false;
    }
    Onnx__NodeProto **body = body_of(x, &s);
    for (size_t i = 0; body != NULL && i < s.n_nodes; i++) {
        if (!VEC_PUSH(x->arena, &x->nodes, body[i])) return false;
    }
    return body != NULL;
}

/* Without the kept nodes that nothing uses; one that the rest has as well stands once. */
static void clear_unused(struct exporter *x) {
    const Onnx__GraphProto *g = x->m->proto->graph;
    size_t n = 0;
    for (size_t i = 0; i < x->nodes.n; i++) {
        Onnx__NodeProto *p = x->nodes.at[i];
        const struct name_info *v = p->n_output > 0 ? find(x, p->output[0]) : NULL;
        bool mine = v != NULL && v->node >= 0 && g->node[v->node] == p;
        bool in_rest = mine && x->seen[v->node] == x->n_kernels + 1;
        if (mine && x->kept[v->node] != NEVER && !x->is_used[v->node] && !in_rest) continue;
        bool twice = false;
        for (size_t k = 0; in_rest && k < n; k++)
            twice = twice || x->nodes.at[k] == p;
        if (!twice) x->nodes.at[n++] = p;
    }
    x->nodes.n = n;
}

/* Types are known again of what is still there. */
static void clear_value_info(struct exporter *x, Onnx__GraphProto *g) {
    size_t n = 0;
    for (size_t i = 0; i < g->n_value_info; i++) {
        bool there = false;
        for (size_t k = 0; k < x->nodes.n && !there; k++) {
            const Onnx__NodeProto *p = x->nodes.at[k];
            for (size_t j = 0; j < p->n_output; j++)
                there = there || (g->value_info[i]->name != NULL &&
                                  strcmp(p->output[j], g->value_info[i]->name) == 0);
        }
        if (there) g->value_info[n++] = g->value_info[i];
    }
    g->n_value_info = n;
}

static bool add_functions(struct exporter *x, Onnx__FunctionProto **made, size_t n) {
    enum { FUNCTIONS_SINCE = 8 };
    Onnx__ModelProto *p = x->m->proto;
    Onnx__FunctionProto **all = ARENA_NEW(x->arena, Onnx__FunctionProto *, p->n_functions + n + 1);
    Onnx__OperatorSetIdProto **sets =
        ARENA_NEW(x->arena, Onnx__OperatorSetIdProto *, p->n_opset_import + 2);
    Onnx__OperatorSetIdProto *own = ARENA_NEW(x->arena, Onnx__OperatorSetIdProto, 1);
    if (all == NULL || sets == NULL || own == NULL) return false;
    for (size_t i = 0; i < p->n_functions; i++)
        all[i] = p->functions[i];
    for (size_t i = 0; i < n; i++)
        all[p->n_functions + i] = made[i];
    for (size_t i = 0; i < p->n_opset_import; i++)
        sets[i] = p->opset_import[i];
    if (onnx_opset(p->n_opset_import, p->opset_import, DOMAIN) == 0) {
        onnx__operator_set_id_proto__init(own);
        own->domain = copied(x, DOMAIN);
        own->has_version = 1;
        own->version = 1;
        sets[p->n_opset_import++] = own;
    }
    p->functions = all;
    p->n_functions += n;
    p->opset_import = sets;
    if (p->ir_version < FUNCTIONS_SINCE) p->ir_version = FUNCTIONS_SINCE;
    p->has_ir_version = 1;
    return arena_ok(x->arena);
}

static bool build(struct exporter *x, bool (*is_computed)(void *, const char *), void *user) {
    Onnx__GraphProto *g = x->m->proto->graph;
    Onnx__FunctionProto **made = ARENA_NEW(x->arena, Onnx__FunctionProto *, x->n_kernels + 1);
    x->kept = ARENA_NEW(x->arena, int, g->n_node + 1);
    x->is_used = ARENA_NEW(x->arena, bool, g->n_node + 1);
    x->seen = ARENA_NEW(x->arena, size_t, g->n_node + 1);
    if (!arena_ok(x->arena) || !add_names(x)) return false;
    keep_nodes(x, is_computed, user);
    if (!add_kept(x, BEFORE)) return false;
    size_t n = 0;
    for (size_t i = 0; i < x->n_kernels; i++) {
        if (!add_kernel(x, i, &made[n])) return false;
        if (made[n] != NULL) n++;
        if (!add_kept(x, (int)i)) return false;
    }
    if (!add_rest(x) || !add_functions(x, made, n)) return false;
    clear_unused(x);
    g->node = x->nodes.at;
    g->n_node = x->nodes.n;
    clear_value_info(x, g);
    return true;
}

enum proem_status onnx_export(struct arena *a, struct onnx_model *m, const struct onnx_kernel *k,
                              size_t n, bool (*is_computed)(void *user, const char *name),
                              void *user, struct str *out, struct err *e) {
    struct exporter x = {.arena = a, .m = m, .k = k, .n_kernels = n};
    if (!build(&x, is_computed, user)) return err_nomem(e);
    size_t bytes = onnx__model_proto__get_packed_size(m->proto);
    if (bytes > INT32_MAX)
        return err_set(e, PROEM_UNSUPPORTED, "%s: with functions it is larger than a model can be",
                       m->name);
    uint8_t *packed = ARENA_NEW(a, uint8_t, bytes + 1);
    if (packed == NULL) return err_nomem(e);
    onnx__model_proto__pack(m->proto, packed);
    str_addn(out, (const char *)packed, bytes);
    return out->failed ? err_nomem(e) : PROEM_OK;
}

bool onnx_has_external(const struct onnx_model *m) {
    for (size_t i = 0; i < m->tensors.n; i++) {
        if (m->tensors.at[i].proto != NULL && m->tensors.at[i].proto->n_external_data > 0)
            return true;
    }
    return false;
}
