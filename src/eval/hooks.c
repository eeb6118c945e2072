/* SPDX-License-Identifier: MIT
 * Hooks of attention: graphs of 0-dim values, evaluated on vectors of (i, j) pairs.
 *
 * Each value of the body is a tensor [pairs], or 0-dim if it depends on no pair; every operator
 * that a hook may use works element by element, so the interpreter's own evaluations serve.
 * Captured values keep their shape and are read by look-ups.
 */
#include "eval/attention.h"

static enum proem_status ints_tensor(struct ev *ev, const int64_t *v, int64_t n, struct tensor *t) {
    tensor_set_shape(t, DT_I64, 1, &n);
    TRY(tensor_new(ev, t));
    write_ints(t, 0, n, v);
    return PROEM_OK;
}

static enum proem_status int_tensor(struct ev *ev, int64_t v, struct tensor *t) {
    tensor_set_shape(t, DT_I64, 0, NULL);
    TRY(tensor_new(ev, t));
    write_ints(t, 0, 1, &v);
    return PROEM_OK;
}

static enum proem_status one_node(struct ev *ev, const struct node *n, struct tensor *values,
                                  int64_t pairs) {
    op_fn fn = op_evaluation(n->op);
    if (fn == NULL || n->n_out != 1) {
        return err_set(ev->err, PROEM_UNSUPPORTED, "%s inside an attention hook",
                       op_info(n->op)->name);
    }
    struct tensor *in = ARENA_NEW(&ev->scratch, struct tensor, (size_t)n->n_in + 1);
    const char **names = ARENA_NEW(&ev->scratch, const char *, (size_t)n->n_in + 1);
    if (in == NULL || names == NULL) return err_nomem(ev->err);
    bool vector = false;
    for (int k = 0; k < n->n_in; k++) {
        if (n->in[k] == 0) continue;
        in[k] = values[n->in[k]];
        names[k] = graph_value(ev->g, n->in[k])->name;
        if (names[k] == NULL) names[k] = "?";
        bool table = n->op == OP_LOOKUP && k == 0;
        vector = vector || (!table && in[k].rank == 1);
    }
    struct tensor *out = &values[n->out];
    tensor_set_shape(out, graph_value(ev->g, n->out)->dtype, vector ? 1 : 0, &pairs);
    ev->in_name = names;
    ev->n_names = n->n_in;
    return fn(ev, n, in, out);
}

/* Evaluate a body whose arguments are in arg; the result is its first output. */
static enum proem_status run_body(const struct hook_call *call, const struct hook *hook,
                                  const struct tensor *arg, const int64_t *i, const int64_t *j,
                                  int64_t pairs, struct tensor *result) {
    struct ev sub = *call->ev;
    const struct graph *g = hook->body;
    sub.g = g;
    sub.splits = NULL;
    sub.want_mag = NULL;
    sub.out_mag = false;
    sub.rows = NULL;
    sub.pair_i = i;
    sub.pair_j = j;
    sub.pair_b = call->b;
    sub.pair_h = call->h;
    struct tensor *values = ARENA_NEW(&sub.scratch, struct tensor, g->values.n);
    enum proem_status s = values != NULL ? PROEM_OK : err_nomem(sub.err);
    for (size_t k = 0; s == PROEM_OK && k < g->params.n; k++) {
        bool own = (int)k < hook->n_args;
        values[g->params.at[k].value] =
            own ? arg[k] : call->values[hook->captured[(int)k - hook->n_args]];
    }
    for (size_t k = 1; s == PROEM_OK && k < g->nodes.n; k++) {
        const struct node *n = &g->nodes.at[k];
        if (n->op != OP_PARAM) s = one_node(&sub, n, values, pairs);
    }
    if (s == PROEM_OK) *result = values[g->outputs.at[0].value];
    call->ev->made = sub.made; /* hand back what grew */
    call->ev->scratch = sub.scratch;
    return s;
}

static enum proem_status arguments(const struct hook_call *call, const int64_t *i, const int64_t *j,
                                   int64_t n, struct tensor *arg) {
    TRY(int_tensor(call->ev, call->b, &arg[0]));
    TRY(int_tensor(call->ev, call->h, &arg[1]));
    TRY(ints_tensor(call->ev, i, n, &arg[2]));
    return ints_tensor(call->ev, j, n, &arg[3]);
}

enum proem_status batch_mask(const struct hook_call *call, const struct hook *hook,
                             struct att_batch *t, int64_t keys) {
    int64_t n = t->n_rows * keys;
    for (int64_t r = 0; r < t->n_rows; r++) {
        t->open[r] = false;
    }
    for (int64_t k = 0; k < n; k++) {
        t->visible[k] = true;
        t->i[k] = t->row[k / keys];
        t->j[k] = k % keys;
    }
    if (hook->body == NULL || n == 0) return PROEM_OK;
    struct tensor arg[4], r;
    TRY(arguments(call, t->i, t->j, n, arg));
    TRY(run_body(call, hook, arg, t->i, t->j, n, &r));
    r = tensor_expand(&r, 1, &n);
    read_ints(&r, 0, n, t->i);
    for (int64_t k = 0; k < n; k++) {
        t->visible[k] = t->i[k] != 0;
    }
    if (!call->track || tensor_exact(&r)) return PROEM_OK;
    read_doubles(&r, 0, n, CH_LO, t->lo);
    read_doubles(&r, 0, n, CH_HI, t->hi);
    for (int64_t k = 0; k < n; k++) {
        if (t->lo[k] != t->hi[k]) t->open[k / keys] = true;
    }
    return PROEM_OK;
}

enum proem_status batch_hook(const struct hook_call *call, const struct hook *hook,
                             struct att_batch *t, double *x, double *lo, double *hi) {
    if (hook->body == NULL || t->n_pairs == 0) return PROEM_OK;
    struct tensor arg[5], r;
    int64_t n = t->n_pairs;
    tensor_set_shape(&arg[0], DT_F32, 1, &n);
    TRY(tensor_new(call->ev, &arg[0]));
    write_doubles(&arg[0], 0, n, x);
    if (call->track) {
        TRY(tensor_channel(call->ev, &arg[0], CH_LO));
        TRY(tensor_channel(call->ev, &arg[0], CH_HI));
        memcpy(arg[0].store->ch[CH_LO], lo, (size_t)n * sizeof *lo);
        memcpy(arg[0].store->ch[CH_HI], hi, (size_t)n * sizeof *hi);
    }
    TRY(arguments(call, t->i, t->j, n, arg + 1));
    TRY(run_body(call, hook, arg, t->i, t->j, n, &r));
    r = tensor_expand(&r, 1, &n);
    read_doubles(&r, 0, n, -1, x);
    if (!call->track) return PROEM_OK;
    read_doubles(&r, 0, n, CH_LO, lo);
    read_doubles(&r, 0, n, CH_HI, hi);
    return PROEM_OK;
}
