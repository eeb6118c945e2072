/* SPDX-License-Identifier: MIT
 * The builder: parameters, constants, operators, outputs, names.
 *
 * Nodes and values are appended, so that operands always have smaller numbers. graph_apply folds
 * and types literals, infers the result types and normalises the attributes; after it a node
 * holds every attribute in the form that the passes read. Null operands give null, silently: the
 * error was recorded when the operand failed.
 */
#include "graph/internal.h"
#include "ops/block.h"

#include <string.h>

const char *const hook_names[HOOK_COUNT] = {"score", "mask", "prob"};

int hook_args(enum hook_kind k) {
    return k == HOOK_MASK ? 4 : 5;
}

enum proem_status place_fail(const struct place *at, const char *format, ...) {
    struct err local, *e = at != NULL ? at->err : NULL;
    if (e != NULL && e->status != PROEM_OK) return e->status;
    err_clear(&local);
    va_list ap;
    va_start(ap, format);
    struct str s;
    str_init(&s, &allocator_default);
    str_vprintf(&s, format, ap);
    va_end(ap);
    enum proem_status st = err_set_at(e, PROEM_INVALID, at != NULL ? at->line : 0,
                                      at != NULL ? at->col : 0, "%s", str_text(&s));
    str_free(&s);
    return st;
}

enum proem_status place_nomem(const struct place *at) {
    return err_nomem(at != NULL ? at->err : NULL);
}

struct graph *graph_new(struct arena *a, struct sx_pool *pool, const char *name) {
    struct graph *g = ARENA_NEW(a, struct graph, 1);
    if (g == NULL || pool == NULL) return NULL;
    g->arena = a;
    g->sx = pool;
    g->name = arena_strdup(a, name);
    struct value no_value = {0};
    struct node no_node = {0};
    if (g->name == NULL || !VEC_PUSH(a, &g->values, no_value) || !VEC_PUSH(a, &g->nodes, no_node))
        return NULL;
    return g;
}

/* Append a node and its results. Returns the first result, 0 when memory is out. */
value_id graph_append(struct graph *g, const struct place *at, const struct node *n,
                      const struct type *types) {
    struct arena *a = g->arena;
    struct node copy = *n;
    if (g->values.n + (size_t)n->n_out >= UINT32_MAX || g->nodes.n >= UINT32_MAX) {
        place_fail(at, "the graph has too many values");
        return 0;
    }
    value_id *in = ARENA_NEW(a, value_id, (size_t)n->n_in);
    if (in == NULL) goto nomem;
    if (n->n_in > 0) memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
    copy.in = in;
    copy.out = (value_id)g->values.n;
    if (at != NULL) {
        copy.line = at->line;
        copy.col = at->col;
        copy.origin = at->origin;
    }
    for (int i = 0; i < n->n_out; i++) {
        sx *dims = ARENA_NEW(a, sx, (size_t)types[i].rank);
        if (dims == NULL) goto nomem;
        memcpy(dims, types[i].dims, (size_t)types[i].rank * sizeof *dims);
        struct value v = {.node = (node_id)g->nodes.n,
                          .out = i,
                          .dtype = types[i].dtype,
                          .rank = types[i].rank,
                          .dims = dims,
                          .name = ""};
        if (!VEC_PUSH(a, &g->values, v)) goto nomem;
    }
    if (!VEC_PUSH(a, &g->nodes, copy)) goto nomem;
    return copy.out;
nomem:
    g->values.n = n->n_out > 0 && copy.out != 0 ? copy.out : g->values.n;
    place_nomem(at);
    return 0;
}

static bool dims_ok(struct graph *g, const struct place *at, const char *name, enum dtype d,
                    int rank, const sx *dims) {
    int64_t v;
    sx count;
    for (int i = 0; i < rank; i++) {
        if (dims[i] == 0 && !arena_ok(g->arena)) {
            place_nomem(at);
            return false;
        }
        if (!dim_is_plain(g->sx, dims[i])) {
            place_fail(at, "%s: dimension %d is too large or too long an expression", name, i);
            return false;
        }
        if (sx_is_const(g->sx, dims[i], &v) && v < 0) {
            place_fail(at, "%s: dimension %d is %lld; a dimension is never negative", name, i,
                       (long long)v);
            return false;
        }
    }
    bool small = dims_count(g, rank, dims, &count);
    if (small && sx_is_const(g->sx, count, &v)) small = v == 0 || dtype_bytes(d, v) >= 0;
    if (!arena_ok(g->arena)) {
        place_nomem(at);
        return false;
    }
    if (!small) {
        place_fail(at, "%s: %s%s has too many elements; make its dimensions smaller", name,
                   dtype_name(d), label_dims(g, rank, dims));
    }
    return small;
}

/* Rows of whole blocks. */
static bool blocks_ok(struct graph *g, const struct place *at, const char *name, enum dtype d,
                      int rank, const sx *dims) {
    enum { MOST = MAX_RANK / 2 }; /* what the formats' graphs add to the dims has to fit too */
    if (!dtype_is_block(d)) return true;
    const struct block_format *f = block_format(d);
    if (rank < 1 || rank > MOST) {
        place_fail(at, "%s: a tensor in a block format has 1 to %d dimensions", name, MOST);
        return false;
    }
    if (dims_divide(g, at, dims[rank - 1], sx_const(g->sx, f->elements)) != 0) return true;
    place_fail(at, "%s: the last dimension of %s%s must be a multiple of %d", name, f->name,
               label_dims(g, rank, dims), f->elements);
    return false;
}

value_id graph_param(struct graph *g, const struct place *at, const char *name, enum dtype d,
                     int rank, const sx *dims, bool is_const, const char *source) {
    if (rank < 0 || rank > MAX_RANK) {
        place_fail(at, "%s: a tensor has at most %d dimensions", name, MAX_RANK);
        return 0;
    }
    if (d <= DT_NONE || (d >= DT_COUNT && !dtype_is_block(d))) {
        place_fail(at, "%s: no dtype", name);
        return 0;
    }
    if (!blocks_ok(g, at, name, d, rank, dims)) return 0;
    if (!dims_ok(g, at, name, d, rank, dims)) return 0;
    struct type t = {.dtype = d, .rank = rank};
    if (rank > 0) memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
    struct node n = {.op = OP_PARAM, .n_out = 1};
    value_id v = graph_append(g, at, &n, &t);
    if (v == 0) return 0;
    if (graph_name_value(g, at, v, name) != PROEM_OK) return 0;
    struct param p = {.value = v, .is_const = is_const};
    if (source != NULL && (p.source = arena_strdup(g->arena, source)) == NULL) {
        place_nomem(at);
        return 0;
    }
    if (!VEC_PUSH(g->arena, &g->params, p)) {
        place_nomem(at);
        return 0;
    }
    return v;
}

value_id graph_const(struct graph *g, const struct place *at, enum dtype d, union scalar v) {
    struct node n = {.op = OP_CONST, .n_out = 1, .constant = v};
    struct type t = {.dtype = d};
    return graph_append(g, at, &n, &t);
}

value_id graph_literal(struct graph *g, const struct place *at, enum dtype d, union scalar v) {
    struct node n = {.op = OP_CONST, .n_out = 1, .constant = v, .weak = true};
    struct type t = {.dtype = d};
    return graph_append(g, at, &n, &t);
}

/* Complete the operand list with zeros for what is left out. False: an operand failed, or the
 * number is wrong (then with a message). */
static bool operands(const struct place *at, enum op op, int n_in, const value_id *in,
                     value_id *full, int *n_full) {
    int most = signature_max_inputs(op), least = signature_min_inputs(op);
    if (n_in < least || (most >= 0 && n_in > most)) {
        place_fail(at, "%s takes %s%d operand%s, not %d", op_text_name(op),
                   most == least ? "" : "at least ", least, least == 1 ? "" : "s", n_in);
        return false;
    }
    for (int i = 0; i < n_in; i++) {
        if (in[i] == 0 && i < (most < 0 ? n_in : least)) return false;
        full[i] = in[i];
    }
    *n_full = most < 0 ? n_in : most;
    for (int i = n_in; i < *n_full; i++)
        full[i] = 0;
    return true;
}

/* cast of a literal is a typed constant; attrs.dtype marks it for the printer. */
static value_id cast_literal(struct graph *g, const struct place *at, value_id literal,
                             const struct attrs *attrs) {
    const struct node *n = graph_def(g, literal);
    enum dtype from = graph_value(g, literal)->dtype;
    struct node c = {.op = OP_CONST, .n_out = 1};
    c.constant = elem_cast(from, n->constant, attrs->dtype, attrs->flag);
    c.attrs.dtype = attrs->dtype;
    struct type t = {.dtype = attrs->dtype};
    return graph_append(g, at, &c, &t);
}

static value_id apply(struct graph *g, const struct place *at, enum op op, int n_in, value_id *in,
                      const struct attrs *attrs) {
    struct attrs a = attrs != NULL ? *attrs : attrs_default(op);
    if (literal_folds(g, op, n_in, in)) return literal_fold(g, at, op, n_in, in);
    if (op == OP_CAST && is_literal(g, in[0]) && a.dtype > DT_NONE && a.dtype < DT_COUNT)
        return cast_literal(g, at, in[0], &a);
    if (literals_resolve(g, at, op, n_in, in, &a) != PROEM_OK) return 0;
    struct infer x = {.g = g, .at = at, .op = op, .n_in = n_in, .in = in, .a = &a};
    if (infer_types(&x) != PROEM_OK) return 0;
    for (int i = 0; i < x.n_out; i++) {
        if (!dims_ok(g, at, op_text_name(op), x.out[i].dtype, x.out[i].rank, x.out[i].dims))
            return 0;
    }
    struct node n = {.op = op, .n_in = n_in, .n_out = x.n_out, .in = in, .attrs = a};
    return graph_append(g, at, &n, x.out);
}

value_id graph_apply(struct graph *g, const struct place *at, enum op op, int n_in,
                     const value_id *in, const struct attrs *attrs) {
    if (op <= OP_NONE || op >= OP_COUNT || op == OP_EW_END || op == OP_PARAM || op == OP_CONST) {
        place_fail(at, "this is no operator that can be applied");
        return 0;
    }
    int most = signature_max_inputs(op), n_full;
    value_id *full = ARENA_NEW(g->arena, value_id, (size_t)(most > n_in ? most : n_in));
    if (full == NULL) {
        place_nomem(at);
        return 0;
    }
    if (!operands(at, op, n_in, in, full, &n_full)) return 0;
    return apply(g, at, op, n_full, full, attrs);
}

value_id graph_attention(struct graph *g, const struct place *at, const value_id in[3],
                         const struct attrs *attrs, const struct hook hooks[HOOK_COUNT],
                         bool with_lse) {
    if (in[0] == 0 || in[1] == 0 || in[2] == 0) return 0;
    if (hooks != NULL && hooks_check(g, at, hooks) != PROEM_OK) return 0;
    struct attrs a = attrs != NULL ? *attrs : attrs_default(OP_ATTENTION);
    value_id operand[3] = {in[0], in[1], in[2]};
    if (literals_resolve(g, at, OP_ATTENTION, 3, operand, &a) != PROEM_OK) return 0;
    struct infer x = {
        .g = g, .at = at, .op = OP_ATTENTION, .n_in = 3, .in = operand, .a = &a, .n_out = 2};
    if (infer_types(&x) != PROEM_OK) return 0;
    struct node n = {.op = OP_ATTENTION, .n_in = 3, .n_out = with_lse ? 2 : 1, .in = operand};
    n.attrs = a;
    if (hooks != NULL &&
        (hooks[0].body != NULL || hooks[1].body != NULL || hooks[2].body != NULL)) {
        n.hooks = ARENA_NEW(g->arena, struct hook, HOOK_COUNT);
        if (n.hooks == NULL) {
            place_nomem(at);
            return 0;
        }
        memcpy(n.hooks, hooks, HOOK_COUNT * sizeof *hooks);
    }
    return graph_append(g, at, &n, x.out);
}

enum proem_status graph_name_value(struct graph *g, const struct place *at, value_id v,
                                   const char *name) {
    if (v == 0) return PROEM_INVALID;
    if (!name_is_writable(name))
        return place_fail(at, "a name must be UTF-8 text without control characters, not empty");
    struct value *x = &g->values.at[v];
    x->name = arena_strdup(g->arena, name);
    if (x->name == NULL) {
        x->name = "";
        return place_nomem(at);
    }
    x->named = true;
    return PROEM_OK;
}

enum proem_status graph_output(struct graph *g, const struct place *at, value_id v,
                               value_id in_param) {
    if (v == 0) return PROEM_INVALID;
    if (is_literal(g, v)) {
        v = literal_const(g, at, v, DT_NONE);
        if (v == 0) return at != NULL && at->err != NULL ? at->err->status : PROEM_INVALID;
    }
    if (dtype_is_block(graph_value(g, v)->dtype))
        return place_fail(at, "output %s is stored in blocks; write dequantize(%s)", label(g, v),
                          label_name(g, v));
    struct output o = {.value = v, .in_param = in_param};
    if (in_param != 0) {
        const struct value *y = graph_value(g, v), *c = graph_value(g, in_param);
        if (graph_def(g, in_param)->op != OP_PARAM)
            return place_fail(at,
                              "%s is no parameter: `in` names the parameter whose memory the "
                              "output may use",
                              label_name(g, in_param));
        bool same = y->dtype == c->dtype && y->rank == c->rank;
        for (int i = 0; same && i < y->rank; i++)
            same = dims_same(g, y->dims[i], c->dims[i]);
        if (!same)
            return place_fail(at,
                              "output %s cannot use the memory of %s: their types must be the "
                              "same",
                              label(g, v), label(g, in_param));
        for (size_t i = 0; i < g->outputs.n; i++) {
            if (g->outputs.at[i].in_param == in_param)
                return place_fail(at, "two outputs use the memory of %s; leave out one `in`",
                                  label_name(g, in_param));
        }
    }
    return VEC_PUSH(g->arena, &g->outputs, o) ? PROEM_OK : place_nomem(at);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* What an unnamed result counts under: constants written as casts are casts. */
static const char *name_base(const struct node *n) {
    if (n->op == OP_CONST && n->attrs.dtype != DT_NONE) return "cast";
    return op_text_name(n->op);
}

static enum proem_status auto_names(struct graph *g, const struct names *taken, struct err *e) {
    uint32_t *count = ARENA_NEW(g->arena, uint32_t, OP_COUNT);
    if (count == NULL) return err_nomem(e);
    for (size_t i = 1; i < g->values.n; i++) {
        struct value *v = &g->values.at[i];
        if (v->name[0] != '\0') continue;
        const struct node *n = &g->nodes.at[v->node];
        enum op op = n->op == OP_GELU_TANH ? OP_GELU : n->op;
        if (n->op == OP_CONST && n->attrs.dtype != DT_NONE) op = OP_CAST;
        uint32_t unused;
        const char *name;
        do {
            name = arena_printf(g->arena, "%s_%u", name_base(n), ++count[op]);
            if (name == NULL) return err_nomem(e);
        } while (names_get(taken, name, strlen(name), &unused));
        v->name = name;
    }
    return PROEM_OK;
}

static enum proem_status output_names(struct graph *g, struct err *e) {
    struct names seen = {.arena = g->arena};
    for (size_t i = 0; i < g->outputs.n; i++) {
        struct output *o = &g->outputs.at[i];
        const struct value *v = graph_value(g, o->value);
        const struct node *n = &g->nodes.at[v->node];
        bool plain = o->name != NULL || v->named;
        if (o->name == NULL && v->named) o->name = v->name;
        if (o->name == NULL) o->name = arena_printf(g->arena, "out%zu", i);
        if (o->name == NULL) return err_nomem(e);
        uint32_t other;
        if (names_get(&seen, o->name, strlen(o->name), &other)) {
            const struct output *p = &g->outputs.at[other];
            if (!plain || p->value != o->value)
                return err_set_at(e, PROEM_INVALID, n->line, n->col,
                                  "outputs %u and %zu are both called %s; bind one of them to "
                                  "another name",
                                  other, i, o->name);
        } else if (!names_add(&seen, o->name, strlen(o->name), (uint32_t)i)) {
            return err_nomem(e);
        }
    }
    return PROEM_OK;
}

enum proem_status graph_finish(struct graph *g, struct err *e) {
    if (!arena_ok(g->arena)) return err_nomem(e);
    struct names taken = {.arena = g->arena};
    for (size_t i = 1; i < g->values.n; i++) {
        const struct value *v = &g->values.at[i];
        if (v->name[0] == '\0') continue;
        const struct node *n = &g->nodes.at[v->node];
        uint32_t other;
        if (names_get(&taken, v->name, strlen(v->name), &other))
            return err_set_at(e, PROEM_INVALID, n->line, n->col,
                              "the name %s is bound twice; a name is bound once", v->name);
        if (!names_add(&taken, v->name, strlen(v->name), (uint32_t)i)) return err_nomem(e);
    }
    if (g->outputs.n == 0)
        return err_set(e, PROEM_INVALID, "graph %s has no output; add `return`", g->name);
    TRY(auto_names(g, &taken, e));
    return output_names(g, e);
}
