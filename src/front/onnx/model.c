/* SPDX-License-Identifier: MIT
 * Reads a model: bytes to messages, and the list of the tensors that it carries.
 */
#include "front/onnx/model.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

/* ---- unpacking ------------------------------------------------------------------------------- */

static void *unpack_alloc(void *user, size_t n) {
    return arena_alloc(user, n > 0 ? n : 1, 1);
}

static void unpack_free(void *user, void *p) {
    (void)user, (void)p; /* the arena is freed whole */
}

static void *unpack(struct arena *a, const char *name, const ProtobufCMessageDescriptor *d,
                    const void *bytes, size_t n, struct err *e) {
    if (onnx_wire_check(name, d, bytes, n, MAX_DEPTH, e) != PROEM_OK) return NULL;
    ProtobufCAllocator alloc = {unpack_alloc, unpack_free, a};
    void *m = protobuf_c_message_unpack(d, &alloc, n, bytes);
    if (!arena_ok(a)) {
        err_nomem(e);
        return NULL;
    }
    if (m == NULL)
        err_set(e, PROEM_INVALID, "%s: not a %s: a field's kind is not what ONNX's schema says",
                name, d->short_name);
    return m;
}

/* ---- the tensors ----------------------------------------------------------------------------- */

static const Onnx__AttributeProto *attribute(const Onnx__NodeProto *n, const char *name) {
    for (size_t i = 0; i < n->n_attribute; i++) {
        if (n->attribute[i]->name != NULL && strcmp(n->attribute[i]->name, name) == 0)
            return n->attribute[i];
    }
    return NULL;
}

/* Functions and subgraphs are walked as deep as messages may nest. */
struct walk {
    struct onnx_model *m;
    struct err *e;
};

static bool add_graph(struct walk *w, const Onnx__GraphProto *g, const char *prefix);

static const char *joined(struct arena *a, const char *prefix, const char *name) {
    if (name == NULL) name = "";
    return prefix[0] != '\0' ? arena_printf(a, "%s/%s", prefix, name) : name;
}

static bool add_tensor(struct walk *w, const char *prefix, const char *name,
                       const Onnx__TensorProto *t, const Onnx__AttributeProto *numbers) {
    struct onnx_tensor x = {joined(w->m->arena, prefix, name), t, numbers};
    return x.key != NULL && VEC_PUSH(w->m->arena, &w->m->tensors, x);
}

/* A Constant's plain numbers; one that refers to a function's attribute has its value elsewhere. */
static bool add_numbers(struct walk *w, const Onnx__NodeProto *n, const char *prefix) {
    static const char *const numbers[] = {"value_float", "value_floats", "value_int", "value_ints"};
    const Onnx__AttributeProto *a = NULL;
    if (n->op_type == NULL || strcmp(n->op_type, "Constant") != 0 || n->n_output == 0) return true;
    for (size_t i = 0; i < COUNT_OF(numbers) && a == NULL; i++)
        a = attribute(n, numbers[i]);
    if (a == NULL || (a->ref_attr_name != NULL && a->ref_attr_name[0] != '\0')) return true;
    return add_tensor(w, prefix, n->output[0], NULL, a);
}

static bool add_attribute(struct walk *w, const Onnx__NodeProto *n, const Onnx__AttributeProto *a,
                          const char *prefix) {
    if (a->t != NULL)
        return add_tensor(w, prefix, n->n_output > 0 ? n->output[0] : a->name, a->t, NULL);
    if (a->g == NULL) return true;
    const char *inner = joined(w->m->arena, prefix, a->name);
    return inner != NULL && add_graph(w, a->g, inner);
}

/* The values of Constants, and what subgraphs hold. */
static bool add_nodes(struct walk *w, size_t n, Onnx__NodeProto *const *nodes, const char *prefix) {
    for (size_t i = 0; i < n; i++) {
        if (!add_numbers(w, nodes[i], prefix)) return false;
        for (size_t k = 0; k < nodes[i]->n_attribute; k++) {
            if (!add_attribute(w, nodes[i], nodes[i]->attribute[k], prefix)) return false;
        }
    }
    return true;
}

static bool add_graph(struct walk *w, const Onnx__GraphProto *g, const char *prefix) {
    for (size_t i = 0; i < g->n_initializer; i++) {
        const char *name = g->initializer[i]->name;
        if (name == NULL || name[0] == '\0') {
            err_set(w->e, PROEM_INVALID, "%s: initializer %zu of graph '%s' has no name",
                    w->m->name, i, prefix);
            return false;
        }
        if (!add_tensor(w, prefix, name, g->initializer[i], NULL)) return false;
    }
    return add_nodes(w, g->n_node, g->node, prefix);
}

struct keyed {
    const char *key;
    size_t i;
};

static int by_key(const void *a, const void *b) {
    const struct keyed *x = a, *y = b;
    int c = strcmp(x->key, y->key);
    return c != 0 ? c : (x->i > y->i) - (x->i < y->i);
}

/* Keys that are the same get a number. *changed: look again. */
static bool rename_twins(struct onnx_model *m, struct keyed *list, bool *changed) {
    *changed = false;
    for (size_t i = 0; i < m->tensors.n; i++)
        list[i] = (struct keyed){m->tensors.at[i].key, i};
    if (m->tensors.n > 1) qsort(list, m->tensors.n, sizeof *list, by_key);
    for (size_t i = 1; i < m->tensors.n; i++) {
        if (strcmp(list[i].key, list[i - 1].key) != 0) continue;
        struct onnx_tensor *t = &m->tensors.at[list[i].i];
        t->key = arena_printf(m->arena, "%s.%zu", t->key, list[i].i);
        if (t->key == NULL) return false;
        *changed = true;
    }
    return true;
}

static enum proem_status index_tensors(struct onnx_model *m, struct err *e) {
    enum { TRIES = 8 };
    struct walk w = {m, e};
    bool ok = add_graph(&w, m->proto->graph, "");
    for (size_t i = 0; i < m->proto->n_functions && ok; i++) {
        const Onnx__FunctionProto *f = m->proto->functions[i];
        ok = add_nodes(&w, f->n_node, f->node, f->name != NULL ? f->name : "");
    }
    if (!ok) return e->status != PROEM_OK ? e->status : err_nomem(e);
    struct keyed *list = ARENA_NEW(m->arena, struct keyed, m->tensors.n + 1);
    if (list == NULL) return err_nomem(e);
    bool changed = true;
    for (int i = 0; i < TRIES && changed; i++) {
        if (!rename_twins(m, list, &changed)) return err_nomem(e);
    }
    if (!changed) return PROEM_OK;
    return err_set(e, PROEM_INVALID, "%s: too many tensors have the same names", m->name);
}

long onnx_model_find(const struct onnx_model *m, const void *message, size_t *near) {
    for (size_t k = 0; k < m->tensors.n; k++) {
        size_t i = *near + k < m->tensors.n ? *near + k : *near + k - m->tensors.n;
        const struct onnx_tensor *t = &m->tensors.at[i];
        if (message != t->proto && message != t->attribute) continue;
        *near = i + 1 < m->tensors.n ? i + 1 : 0;
        return (long)i;
    }
    return -1;
}

/* ---- models ---------------------------------------------------------------------------------- */

static enum proem_status check_model(const struct onnx_model *m, struct err *e) {
    const Onnx__ModelProto *p = m->proto;
    if (p->graph == NULL) return err_set(e, PROEM_INVALID, "%s: the model has no graph", m->name);
    if (p->has_ir_version && (p->ir_version < 3 || p->ir_version > 13))
        return err_set(e, PROEM_UNSUPPORTED, "%s: IR version %lld is not supported; 3 to 13 are",
                       m->name, (long long)p->ir_version);
    if (p->graph->n_sparse_initializer > 0)
        return err_set(e, PROEM_UNSUPPORTED, "%s: sparse initializers are not supported", m->name);
    return PROEM_OK;
}

enum proem_status onnx_model_read(struct arena *a, const char *name, const void *bytes, size_t n,
                                  struct onnx_model **out, struct err *e) {
    struct onnx_model *m = ARENA_NEW(a, struct onnx_model, 1);
    if (m == NULL) return err_nomem(e);
    m->arena = a;
    m->name = arena_strdup(a, name);
    if (m->name == NULL) return err_nomem(e);
    m->proto = unpack(a, m->name, &onnx__model_proto__descriptor, bytes, n, e);
    if (m->proto == NULL) return e != NULL ? e->status : PROEM_INVALID;
    TRY(check_model(m, e));
    TRY(index_tensors(m, e));
    *out = m;
    return PROEM_OK;
}

/* A whole file in the arena; at most 2 GiB, as protobuf allows. */
static enum proem_status read_file(struct arena *a, const char *path, void **bytes, size_t *n,
                                   struct err *e) {
    struct file f;
    TRY(file_open(a, path, &f, e));
    enum proem_status s = PROEM_OK;
    if (f.size > INT32_MAX) {
        s = err_set(e, PROEM_INVALID, "%s: %llu bytes; a protobuf message has at most 2 GiB", path,
                    (unsigned long long)f.size);
    } else {
        *n = (size_t)f.size;
        *bytes = arena_alloc(a, *n > 0 ? *n : 1, 1);
        s = *bytes == NULL ? err_nomem(e) : file_read(&f, 0, *bytes, *n, e);
    }
    file_close(&f);
    return s;
}

static enum proem_status set_folder(struct onnx_model *m, const char *path, struct err *e) {
    const char *slash = strrchr(path, '/');
    m->folder = slash == NULL ? "." : arena_strndup(m->arena, path, (size_t)(slash - path) + 1);
    return m->folder != NULL ? PROEM_OK : err_nomem(e);
}

enum proem_status onnx_model_open(struct arena *a, const char *path, struct onnx_model **out,
                                  struct err *e) {
    struct arena file;
    arena_init(&file, a->alloc);
    void *bytes = NULL;
    size_t n = 0;
    enum proem_status s = read_file(&file, path, &bytes, &n, e);
    if (s == PROEM_OK) s = onnx_model_read(a, path, bytes, n, out, e);
    arena_free(&file);
    TRY(s);
    return set_folder(*out, path, e);
}

static enum proem_status read_lean(struct arena *a, const char *path, const uint8_t *bytes,
                                   size_t n, struct onnx_model **out, struct err *e) {
    struct str left;
    TRY(onnx_wire_check(path, &onnx__model_proto__descriptor, bytes, n, MAX_DEPTH, e));
    str_init(&left, a->alloc);
    enum proem_status s = onnx_lean(bytes, n, &left) ? PROEM_OK : err_nomem(e);
    if (s == PROEM_OK) s = onnx_model_read(a, path, str_text(&left), left.n, out, e);
    str_free(&left);
    return s;
}

enum proem_status onnx_model_open_lean(struct arena *a, const char *path, struct onnx_model **out,
                                       struct err *e) {
    enum { SMALL = 1 << 18 };
    struct file f;
    void *map = NULL;
    size_t map_bytes = 0;
    TRY(file_open(a, path, &f, e));
    bool fits = f.size > SMALL && f.size <= INT32_MAX;
    uint8_t *bytes = fits ? file_map(&f, 0, (size_t)f.size, &map, &map_bytes) : NULL;
    uint64_t n = f.size;
    file_close(&f);
    if (bytes == NULL) return onnx_model_open(a, path, out, e);
    enum proem_status s = read_lean(a, path, bytes, (size_t)n, out, e);
    file_unmap(map, map_bytes);
    TRY(s);
    (*out)->lean = true;
    return set_folder(*out, path, e);
}

enum proem_status onnx_tensor_file(struct arena *a, const char *path, const struct allocator *alloc,
                                   struct array *out, struct err *e) {
    void *bytes = NULL;
    size_t n = 0;
    TRY(read_file(a, path, &bytes, &n, e));
    const Onnx__TensorProto *t = unpack(a, path, &onnx__tensor_proto__descriptor, bytes, n, e);
    if (t == NULL) return e != NULL ? e->status : PROEM_INVALID;
    struct onnx_model m = {.arena = a, .name = path};
    return onnx_tensor_read(&m, t, path, alloc, out, e);
}

/* ---- versions -------------------------------------------------------------------------------- */

static const char *plain_domain(const char *d) {
    return d == NULL || strcmp(d, "ai.onnx") == 0 ? "" : d;
}

bool onnx_same_domain(const char *a, const char *b) {
    return strcmp(plain_domain(a), plain_domain(b)) == 0;
}

int64_t onnx_opset(size_t n, Onnx__OperatorSetIdProto *const *imports, const char *domain) {
    for (size_t i = 0; i < n; i++) {
        if (onnx_same_domain(imports[i]->domain, domain)) return imports[i]->version;
    }
    return 0;
}
