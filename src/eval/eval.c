/* SPDX-License-Identifier: MIT
 * The interpreter's loop: nodes in order, each evaluated whole (or for the rows that are asked
 * for), values freed after their last use, outputs packed at the end.
 *
 * A value of which only some rows are needed is a tensor [rows, last dim]. A row-by-row operator
 * then sees two-dim operands: those rows of each operand with its leading dims (broadcast ones are
 * gathered too), the others whole.
 */
#include "eval/tensor.h"

struct run {
    struct ev ev;
    const struct graph *g;
    const struct eval_options *options;
    struct arena plan;
    struct tensor *value; /* by value id */
    node_id *last_use;    /* by value id */
    struct need *need;
};

void ev_end_operator(struct ev *ev) {
    while (ev->made != NULL) {
        struct store *s = ev->made;
        ev->made = s->next;
        s->next = NULL;
        store_release(ev, s);
    }
    arena_free(&ev->scratch);
    arena_init(&ev->scratch, ev->alloc);
}

op_fn op_evaluation(enum op op) {
    if (op_is_elementwise(op)) return eval_elementwise;
    switch (op) {
    case OP_WHERE: return eval_where;
    case OP_CAST: return eval_cast;
    case OP_BITCAST: return eval_bitcast;
    case OP_DEQUANTIZE: return eval_dequantize;
    case OP_QUANTIZE: return eval_quantize;
    case OP_RESHAPE:
    case OP_PERMUTE:
    case OP_TRANSPOSE:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_UNSQUEEZE:
    case OP_SLICE:
    case OP_SPLIT:
    case OP_FLIP: return eval_layout;
    case OP_CONCAT: return eval_concat;
    case OP_PAD: return eval_pad;
    case OP_IOTA: return eval_iota;
    case OP_CONST:
    case OP_DIM: return eval_const;
    case OP_TAKE: return eval_take;
    case OP_TAKE_ALONG: return eval_take_along;
    case OP_LOOKUP: return eval_lookup;
    case OP_SCATTER:
    case OP_SCATTER_ADD:
    case OP_SCATTER_ALONG: return eval_scatter;
    case OP_SUM:
    case OP_MEAN:
    case OP_MAX:
    case OP_MIN:
    case OP_PROD: return eval_reduce;
    case OP_ARGMAX:
    case OP_ARGMIN: return eval_arg;
    case OP_SOFTMAX:
    case OP_LOG_SOFTMAX: return eval_softmax;
    case OP_RMS_NORM:
    case OP_LAYER_NORM: return eval_norm;
    case OP_CUMSUM: return eval_cumsum;
    case OP_TOPK:
    case OP_ARGSORT: return eval_sort;
    case OP_MATMUL: return eval_matmul;
    case OP_LINEAR: return eval_linear;
    case OP_GROUPED_MATMUL: return eval_grouped_matmul;
    case OP_ATTENTION: return eval_attention;
    default: return NULL;
    }
}

/* ---- preparation ----------------------------------------------------------------------------- */

static void used_by(struct run *r, value_id v, node_id n) {
    if (v != 0 && r->last_use[v] < n) r->last_use[v] = n;
}

static void find_last_uses(struct run *r) {
    for (size_t k = 1; k < r->g->nodes.n; k++) {
        const struct node *n = &r->g->nodes.at[k];
        for (int i = 0; i < n->n_in; i++) {
            used_by(r, n->in[i], (node_id)k);
        }
        for (int h = 0; n->hooks != NULL && h < HOOK_COUNT; h++) {
            for (int c = 0; n->hooks[h].body != NULL && c < n->hooks[h].n_captured; c++) {
                used_by(r, n->hooks[h].captured[c], (node_id)k);
            }
        }
    }
    for (size_t i = 0; i < r->g->outputs.n; i++) {
        used_by(r, r->g->outputs.at[i].value, (node_id)r->g->nodes.n);
    }
}

static enum proem_status prepare(struct run *r, const struct dims_binding *b, struct err *e) {
    size_t n = r->g->values.n;
    r->value = ARENA_NEW(&r->plan, struct tensor, n);
    r->last_use = ARENA_NEW(&r->plan, node_id, n);
    r->need = ARENA_NEW(&r->plan, struct need, n);
    bool *splits = ARENA_NEW(&r->plan, bool, n);
    bool *want_mag = ARENA_NEW(&r->plan, bool, n);
    bool *reach = ARENA_NEW(&r->plan, bool, n);
    r->ev.cores = ARENA_NEW(&r->plan, double, n);
    if (!arena_ok(&r->plan)) return err_nomem(e);
    find_last_uses(r);
    if (r->ev.track && r->ev.mode != EVAL_EAGER) plan_algebra(r->g, splits, want_mag, reach);
    r->ev.splits = splits;
    r->ev.want_mag = want_mag;
    r->ev.values = r->value;
    return plan_rows(r->g, b, &r->plan, r->options, r->need, e);
}

static enum proem_status shape_of(struct run *r, value_id v, struct tensor *t) {
    int64_t shape[MAX_RANK] = {0}, n = 1;
    const struct value *info = graph_value(r->g, v);
    TRY(dims_shape(r->g, r->ev.binding, v, shape, r->ev.err));
    for (int d = 0; d < info->rank; d++) {
        if (shape[d] != 0 && n > INT64_MAX / 64 / shape[d]) {
            return err_set(r->ev.err, PROEM_INVALID, "'%s' has too many elements", info->name);
        }
        n *= shape[d];
    }
    tensor_set_shape(t, info->dtype, info->rank, shape);
    return PROEM_OK;
}

/* Parameters borrow the caller's memory. */
static enum proem_status bind_inputs(struct run *r, const struct eval_input *inputs) {
    for (size_t i = 0; i < r->g->params.n; i++) {
        value_id v = r->g->params.at[i].value;
        struct tensor *t = &r->value[v];
        TRY(shape_of(r, v, t));
        bool fits = inputs[i].rank == t->rank;
        for (int d = 0; fits && d < t->rank; d++) {
            fits = inputs[i].shape[d] == t->shape[d];
        }
        if (!fits) {
            return err_set(r->ev.err, PROEM_INVALID,
                           "input '%s' does not have the parameter's shape",
                           graph_value(r->g, v)->name);
        }
        struct store *s = mem_alloc(r->ev.alloc, 1, sizeof *s);
        if (s == NULL) return err_nomem(r->ev.err);
        /* Never written through: bytes 0 marks it as borrowed. */
        *s = (struct store){.refs = 1, .n = (size_t)t->n};
        memcpy(&s->data, &inputs[i].data, sizeof s->data);
        t->store = s;
    }
    return PROEM_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool same_rows(const struct need *a, const struct need *b) {
    return a == b ||
           (!a->all && a->n == b->n && memcmp(a->row, b->row, (size_t)a->n * sizeof *a->row) == 0);
}

/* Rows `want` of value v as [rows, last dim]; lead: the leading dims that the rows count. */
static enum proem_status select_rows(struct run *r, value_id v, const struct tensor *whole,
                                     const struct need *want, struct tensor *out) {
    const struct need *has = &r->need[v];
    const struct tensor *t = &r->value[v];
    if (!has->all && same_rows(has, want)) {
        *out = *t;
        return PROEM_OK;
    }
    int64_t last = t->rank > 0 ? t->shape[t->rank - 1] : 1;
    int64_t shape[MAX_RANK];
    struct tensor src = *t;
    if (has->all) { /* broadcast over the leading dims; the last one stays */
        memcpy(shape, whole->shape, sizeof shape);
        shape[whole->rank - 1] = last;
        src = tensor_expand(t, whole->rank, shape);
    }
    int64_t two[2] = {want->n, last};
    tensor_set_shape(out, t->dtype, 2, two);
    TRY(tensor_new(&r->ev, out));
    for (int c = 0; c < CH_COUNT; c++) {
        if (t->store->ch[c] != NULL) TRY(tensor_channel(&r->ev, out, c));
    }
    int64_t k = 0;
    for (int64_t i = 0; i < want->n && last > 0; i++) {
        int64_t row = want->row[i];
        while (!has->all && has->row[k] != row) {
            k++;
        }
        copy_range(&src, (has->all ? row : k) * last, last, out, i * last);
    }
    return PROEM_OK;
}

/* The same node for operands and results of two dims, the second being the last one. */
static struct node two_dim_node(const struct node *n) {
    struct node m = *n;
    m.attrs.axis = 1;
    if (n->attrs.n_axes >= 0 && (n->op == OP_SUM || n->op == OP_MEAN || n->op == OP_MAX ||
                                 n->op == OP_MIN || n->op == OP_PROD)) {
        m.attrs.n_axes = 1;
        m.attrs.axes[0] = 1;
    }
    if (n->op == OP_UNSQUEEZE || n->op == OP_SQUEEZE) m.op = OP_RESHAPE;
    return m;
}

static bool broadcasts(enum op op) {
    return op_is_elementwise(op) || op == OP_WHERE;
}

static enum proem_status gather_operands(struct run *r, const struct node *n,
                                         const struct tensor *whole, struct tensor *in,
                                         const char **names) {
    const struct need *own = &r->need[n->out];
    for (int k = 0; k < n->n_in; k++) {
        if (n->in[k] == 0) continue;
        names[k] = graph_value(r->g, n->in[k])->name;
        if (names[k] == NULL) names[k] = "?";
        in[k] = r->value[n->in[k]];
        if (own->all) continue;
        bool some = row_by_row(r->g, n, k);
        if (n->op == OP_RESHAPE || n->op == OP_UNSQUEEZE || n->op == OP_SQUEEZE) {
            struct tensor shape_in;
            TRY(shape_of(r, n->in[k], &shape_in));
            TRY(select_rows(r, n->in[k], &shape_in, own, &in[k]));
        } else if (some || (broadcasts(n->op) && in[k].rank > 1)) {
            TRY(select_rows(r, n->in[k], whole, own, &in[k]));
        }
    }
    return PROEM_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static enum proem_status evaluate(struct run *r, const struct node *n) {
    struct ev *ev = &r->ev;
    op_fn fn = op_evaluation(n->op);
    if (fn == NULL) {
        return err_set(ev->err, PROEM_UNSUPPORTED, "the reference has no evaluation of %s",
                       op_info(n->op)->name);
    }
    struct tensor *in = ARENA_NEW(&r->ev.scratch, struct tensor, (size_t)n->n_in + 1);
    const char **names = ARENA_NEW(&r->ev.scratch, const char *, (size_t)n->n_in + 1);
    if (in == NULL || names == NULL) return err_nomem(ev->err);
    struct tensor *out = &r->value[n->out];
    const struct need *own = &r->need[n->out];
    struct node two;
    ev->out_mag = false;
    for (int k = 0; k < n->n_out; k++) {
        TRY(shape_of(r, n->out + (value_id)k, &out[k]));
        ev->out_mag = ev->out_mag || ev->want_mag[n->out + (value_id)k];
    }
    struct tensor whole = out[0];
    ev->rows = NULL;
    if (!own->all) {
        int64_t shape[2] = {own->n, whole.shape[whole.rank - 1]};
        tensor_set_shape(out, whole.dtype, 2, shape);
        two = two_dim_node(n);
        ev->rows = own->row;
        ev->n_rows = own->n;
    }
    TRY(gather_operands(r, n, &whole, in, names));
    ev->in_name = names;
    ev->n_names = n->n_in;
    TRY(fn(ev, own->all ? n : &two, in, out));
    cores_note(ev, n, in, out);
    return PROEM_OK;
}

static void drop_value(struct run *r, value_id v) {
    store_release(&r->ev, r->value[v].store);
    r->value[v].store = NULL;
}

static void drop_if_done(struct run *r, value_id v, node_id k) {
    if (v != 0 && r->last_use[v] <= k) drop_value(r, v);
}

/* After node k: operands that it used last, and results that nobody uses. */
static void drop_unused(struct run *r, const struct node *n, node_id k) {
    for (int i = 0; i < n->n_in; i++) {
        drop_if_done(r, n->in[i], k);
    }
    for (int h = 0; n->hooks != NULL && h < HOOK_COUNT; h++) {
        for (int c = 0; n->hooks[h].body != NULL && c < n->hooks[h].n_captured; c++) {
            drop_if_done(r, n->hooks[h].captured[c], k);
        }
    }
    for (int j = 0; j < n->n_out; j++) {
        drop_if_done(r, n->out + (value_id)j, k);
    }
}

static enum proem_status run_nodes(struct run *r) {
    for (size_t k = 1; k < r->g->nodes.n; k++) {
        const struct node *n = &r->g->nodes.at[k];
        bool needed = false;
        for (int j = 0; j < n->n_out; j++) {
            needed = needed || r->need[n->out + (value_id)j].any;
        }
        if (n->op == OP_PARAM || !needed) continue;
        enum proem_status s = evaluate(r, n);
        for (int j = 0; j < n->n_out; j++) {
            struct tensor *t = &r->value[n->out + (value_id)j];
            if (s != PROEM_OK) t->store = NULL; /* `made` has it */
            if (t->store != NULL) t->store->refs++;
        }
        ev_end_operator(&r->ev);
        TRY(s);
        drop_unused(r, n, (node_id)k);
    }
    return PROEM_OK;
}

/* ---- outputs --------------------------------------------------------------------------------- */

/* A stored value has its dtype: the last rounding of the interval. */
static void settle_output(enum dtype d, struct eval_result *res) {
    for (int64_t i = 0; i < res->n && res->lo != NULL; i++) {
        struct iv a = {res->lo[i], res->hi[i]};
        if (dtype_is_float(d)) a = iv_round(d, false, a);
        res->lo[i] = a.lo;
        res->hi[i] = a.hi;
    }
}

static enum proem_status pack_output(struct run *r, value_id v, const char *name,
                                     const struct need *asked, struct eval_result *res) {
    struct ev *ev = &r->ev;
    struct tensor whole = {0}, t;
    TRY(shape_of(r, v, &whole));
    t = r->value[v];
    if (!asked->all) TRY(select_rows(r, v, &whole, asked, &t));
    res->name = name;
    res->dtype = whole.dtype;
    res->rank = whole.rank;
    memcpy(res->shape, whole.shape, sizeof res->shape);
    res->n = t.n;
    struct tensor to;
    tensor_set_shape(&to, t.dtype, t.rank, t.shape);
    int64_t bytes = dtype_bytes(t.dtype, t.n);
    res->data = mem_alloc(ev->alloc, (size_t)bytes + 8, 1);
    if (res->data == NULL) return err_nomem(ev->err);
    memset(res->data, 0, (size_t)bytes + 8);
    if (t.store->ch[CH_LO] != NULL) {
        res->lo = mem_alloc(ev->alloc, (size_t)t.n, sizeof(double));
        res->hi = mem_alloc(ev->alloc, (size_t)t.n, sizeof(double));
        if (res->lo == NULL || res->hi == NULL) return err_nomem(ev->err);
    }
    struct store s = {.data = res->data, .ch = {res->lo, res->hi, NULL}, .n = (size_t)t.n};
    to.store = &s;
    copy_range(&t, 0, t.n, &to, 0);
    settle_output(t.dtype, res);
    if (asked->all) return PROEM_OK;
    res->rows = mem_alloc(ev->alloc, (size_t)asked->n, sizeof *res->rows);
    if (res->rows == NULL) return err_nomem(ev->err);
    memcpy(res->rows, asked->row, (size_t)asked->n * sizeof *res->rows);
    res->n_rows = asked->n;
    return PROEM_OK;
}

void eval_results_free(struct eval_results *r) {
    for (int i = 0; i < r->n; i++) {
        struct eval_result *x = &r->at[i];
        int64_t bytes = dtype_bytes(x->dtype, x->n);
        mem_free(r->alloc, x->data, (size_t)bytes + 8, 1);
        mem_free(r->alloc, x->lo, (size_t)x->n, sizeof(double));
        mem_free(r->alloc, x->hi, (size_t)x->n, sizeof(double));
        mem_free(r->alloc, x->rows, (size_t)x->n_rows, sizeof *x->rows);
    }
    if (r->at != NULL) mem_free(r->alloc, r->at, (size_t)r->n, sizeof *r->at);
    *r = (struct eval_results){.alloc = r->alloc};
}

static enum proem_status pack_outputs(struct run *r, struct eval_results *out) {
    size_t n = r->g->outputs.n;
    out->at = mem_alloc(r->ev.alloc, n, sizeof *out->at);
    if (out->at == NULL) return err_nomem(r->ev.err);
    out->n = (int)n;
    for (size_t i = 0; i < n; i++) {
        out->at[i] = (struct eval_result){.dtype = DT_BOOL};
    }
    for (size_t i = 0; i < n; i++) {
        struct need asked;
        value_id v = r->g->outputs.at[i].value;
        TRY(plan_output_rows(r->g, r->ev.binding, &r->plan, r->options, i, &asked, r->ev.err));
        TRY(pack_output(r, v, r->g->outputs.at[i].name, &asked, &out->at[i]));
        ev_end_operator(&r->ev);
    }
    return PROEM_OK;
}

enum proem_status eval_graph(const struct graph *g, const struct dims_binding *binding,
                             const struct eval_input *inputs, const struct eval_options *options,
                             const struct allocator *alloc, struct eval_results *out,
                             struct err *e) {
    struct run r = {.g = g, .options = options};
    struct eval_results res = {.alloc = alloc};
    r.ev = (struct ev){.g = g,
                       .binding = binding,
                       .alloc = alloc,
                       .mode = options->mode,
                       .track = options->intervals,
                       .threads = threads_clamp(options->threads),
                       .err = e};
    arena_init(&r.plan, alloc);
    arena_init(&r.ev.scratch, alloc);
    enum proem_status s = prepare(&r, binding, e);
    if (s == PROEM_OK) s = bind_inputs(&r, inputs);
    if (s == PROEM_OK) s = run_nodes(&r);
    if (s == PROEM_OK) s = pack_outputs(&r, &res);
    ev_end_operator(&r.ev);
    for (value_id v = 1; r.value != NULL && v < g->values.n; v++) {
        drop_value(&r, v);
    }
    arena_free(&r.ev.scratch);
    arena_free(&r.plan);
    if (s != PROEM_OK) {
        eval_results_free(&res);
        return s;
    }
    *out = res;
    return PROEM_OK;
}
