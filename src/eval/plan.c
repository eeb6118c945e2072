/* SPDX-License-Identifier: MIT
 * What an evaluation needs to know of a graph before it starts: which rows of which values are
 * needed, and through which values algebra may move terms.
 *
 * Rows are the flattened leading dims (all but the last). Going from the outputs backwards, an
 * operator that works row by row asks for the same rows of such operands as have its leading dims,
 * and for the whole of the others.
 */
#include "eval/tensor.h"

/* ---- rows ------------------------------------------------------------------------------------ */

static bool same_leading(const struct value *a, const struct value *b) {
    if (a->rank != b->rank || a->rank < 2) return false;
    for (int d = 0; d < a->rank - 1; d++) {
        if (a->dims[d] != b->dims[d]) return false;
    }
    return true;
}

static bool scale_by_column(const struct graph *g, const struct node *n, const struct value *out) {
    const struct value *scale = graph_value(g, n->in[1]);
    if (scale->rank == 0) return true;
    return scale->rank == 1 && n->attrs.block == 0 && n->attrs.axis == out->rank - 1;
}

bool row_by_row(const struct graph *g, const struct node *n, int k) {
    const struct value *out = graph_value(g, n->out);
    if (n->in[k] == 0 || n->n_out != 1) return n->op == OP_ATTENTION && k == 0 && n->in[k] != 0;
    const struct value *in = graph_value(g, n->in[k]);
    int last = out->rank - 1;
    if (out->rank < 2 || in->rank < 1) return false;
    if (op_is_elementwise(n->op)) return same_leading(in, out);
    switch (n->op) {
    case OP_WHERE:
    case OP_CAST: return same_leading(in, out);
    case OP_SOFTMAX:
    case OP_LOG_SOFTMAX:
    case OP_CUMSUM:
    case OP_CONCAT:
    case OP_SLICE: return n->attrs.axis == last && same_leading(in, out);
    case OP_RMS_NORM:
    case OP_LAYER_NORM: return k == 0 && same_leading(in, out);
    case OP_DEQUANTIZE: /* blocks are read whole */
        return k == 0 && n->in[1] != 0 && scale_by_column(g, n, out);
    case OP_QUANTIZE: return k == 0 && scale_by_column(g, n, out);
    case OP_SUM:
    case OP_MEAN:
    case OP_MAX:
    case OP_MIN:
    case OP_PROD: return n->attrs.n_axes == 1 && n->attrs.axes[0] == last && same_leading(in, out);
    case OP_RESHAPE:
    case OP_UNSQUEEZE:
    case OP_SQUEEZE: return in->rank >= 2 && in->dims[in->rank - 1] == out->dims[last];
    case OP_MATMUL: return k == 0 && graph_value(g, n->in[1])->rank == 2 && same_leading(in, out);
    case OP_LINEAR: return k == 0 && same_leading(in, out);
    case OP_ATTENTION: return k == 0;
    default: return false;
    }
}

/* An operator that can be evaluated for some rows: all its operands can be taken row by row or
 * whole. Broadcast operands of elementwise ones are taken at the rows asked for. */
static bool can_restrict(const struct graph *g, const struct node *n) {
    if (n->op == OP_ATTENTION) return true;
    if (n->n_out != 1) return false;
    bool some = false;
    for (int k = 0; k < n->n_in; k++) {
        some = some || row_by_row(g, n, k);
    }
    if (n->op == OP_CONCAT) {
        for (int k = 0; k < n->n_in; k++) {
            some = some && row_by_row(g, n, k);
        }
    }
    return some;
}

static enum proem_status ask(struct arena *a, struct need *to, const struct need *from,
                             struct err *e) {
    if (to->all) return PROEM_OK;
    if (from->all) {
        *to = (struct need){.any = true, .all = true};
        return PROEM_OK;
    }
    int64_t *row = ARENA_NEW(a, int64_t, (size_t)(to->n + from->n));
    if (row == NULL) return err_nomem(e);
    int64_t i = 0, j = 0, n = 0;
    while (i < to->n || j < from->n) {
        bool left = j >= from->n || (i < to->n && to->row[i] <= from->row[j]);
        int64_t r = left ? to->row[i++] : from->row[j++];
        if (n == 0 || row[n - 1] != r) row[n++] = r;
    }
    *to = (struct need){.any = true, .n = n, .row = row};
    return PROEM_OK;
}

/* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* `count` different rows of `total`, increasing: one from each of `count` equal parts. */
static enum proem_status choose_rows(struct arena *a, int64_t total, int64_t count, uint64_t seed,
                                     struct need *out, struct err *e) {
    if (count >= total || count <= 0) {
        *out = (struct need){.any = true, .all = true};
        return PROEM_OK;
    }
    int64_t *row = ARENA_NEW(a, int64_t, (size_t)count);
    if (row == NULL) return err_nomem(e);
    int64_t part = total / count, rest = total % count, begin = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t size = part + (i < rest ? 1 : 0);
        row[i] = begin + (int64_t)(mix(seed * 0x100000001b3u + (uint64_t)i) % (uint64_t)size);
        begin += size;
    }
    *out = (struct need){.any = true, .n = count, .row = row};
    return PROEM_OK;
}

static enum proem_status ask_operands(const struct graph *g, const struct node *n, struct arena *a,
                                      struct need *need, struct err *e) {
    static const struct need whole = {.any = true, .all = true};
    const struct need *own = &need[n->out];
    for (int k = 0; k < n->n_in; k++) {
        if (n->in[k] == 0) continue;
        bool some = !own->all && row_by_row(g, n, k);
        TRY(ask(a, &need[n->in[k]], some ? own : &whole, e));
    }
    for (int h = 0; n->hooks != NULL && h < HOOK_COUNT; h++) {
        for (int c = 0; n->hooks[h].body != NULL && c < n->hooks[h].n_captured; c++) {
            TRY(ask(a, &need[n->hooks[h].captured[c]], &whole, e));
        }
    }
    return PROEM_OK;
}

enum proem_status plan_output_rows(const struct graph *g, const struct dims_binding *b,
                                   struct arena *a, const struct eval_options *o, size_t output,
                                   struct need *out, struct err *e) {
    value_id v = g->outputs.at[output].value;
    int64_t shape[MAX_RANK], rows = 1;
    int rank = graph_value(g, v)->rank;
    TRY(dims_shape(g, b, v, shape, e));
    *out = (struct need){.any = true, .all = true};
    if (o->rows <= 0 || rank < 2) return PROEM_OK;
    for (int d = 0; d < rank - 1; d++) {
        rows *= shape[d];
    }
    return choose_rows(a, rows, o->rows, o->seed + output, out, e);
}

enum proem_status plan_rows(const struct graph *g, const struct dims_binding *b, struct arena *a,
                            const struct eval_options *o, struct need *need, struct err *e) {
    for (size_t i = 0; i < g->outputs.n; i++) {
        value_id v = g->outputs.at[i].value;
        struct need own;
        TRY(plan_output_rows(g, b, a, o, i, &own, e));
        TRY(ask(a, &need[v], &own, e));
    }
    for (size_t k = g->nodes.n; k-- > 1;) {
        const struct node *n = &g->nodes.at[k];
        bool any = false;
        for (int j = 0; j < n->n_out; j++) {
            any = any || need[n->out + (value_id)j].any;
        }
        if (!any) continue;
        if (n->n_out > 1 || !can_restrict(g, n) || n->op == OP_PARAM) {
            for (int j = 0; j < n->n_out; j++) {
                need[n->out + (value_id)j] = (struct need){.any = true, .all = true};
            }
        }
        TRY(ask_operands(g, n, a, need, e));
    }
    return PROEM_OK;
}

/* ---- algebra --------------------------------------------------------------------------------- */

static bool same_dims(const struct value *a, const struct value *b) {
    if (a->rank != b->rank) return false;
    for (int d = 0; d < a->rank; d++) {
        if (a->dims[d] != b->dims[d]) return false;
    }
    return true;
}

/* A cast through which algebra may reach: one that no text wrote, or that keeps every value. */
static bool open_cast(const struct graph *g, const struct node *n) {
    const struct value *in = graph_value(g, n->in[0]), *out = graph_value(g, n->out);
    if (n->attrs.implied) return true;
    return in->dtype != out->dtype && dtype_is_float(out->dtype) &&
           dtype_significand(in->dtype) <= dtype_significand(out->dtype);
}

/* Operators whose result has the terms and factors of operand k. */
static bool passes_terms(const struct graph *g, const struct node *n, int k) {
    switch (n->op) {
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_NEG:
    case OP_CONCAT: return true;
    case OP_CAST: return open_cast(g, n);
    case OP_WHERE: return k > 0;
    case OP_RESHAPE:
    case OP_PERMUTE:
    case OP_TRANSPOSE:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_UNSQUEEZE:
    case OP_SLICE:
    case OP_SPLIT:
    case OP_PAD:
    case OP_FLIP:
    case OP_TAKE: return k == 0;
    default: return false;
    }
}

static bool is_contraction(enum op op) {
    return op == OP_MATMUL || op == OP_LINEAR || op == OP_GROUPED_MATMUL || op == OP_ATTENTION;
}

static bool operand_broadcast(const struct graph *g, const struct node *n) {
    const struct value *out = graph_value(g, n->out);
    for (int k = 0; k < n->n_in; k++) {
        if (!same_dims(graph_value(g, n->in[k]), out)) return true;
    }
    return false;
}

void plan_algebra(const struct graph *g, bool *splits, bool *want_mag, bool *reach) {
    /* forward: want_mag first holds "is a sum of terms" */
    for (size_t k = 1; k < g->nodes.n; k++) {
        const struct node *n = &g->nodes.at[k];
        bool s = false, terms = false;
        for (int i = 0; i < n->n_in; i++) {
            if (n->in[i] == 0 || !passes_terms(g, n, i)) continue;
            s = s || splits[n->in[i]];
            terms = terms || want_mag[n->in[i]];
        }
        switch (n->op) {
        case OP_MUL:
        case OP_DIV: s = s || operand_broadcast(g, n); break;
        case OP_ADD:
        case OP_SUB:
            s = s || operand_broadcast(g, n);
            terms = terms || s;
            break;
        case OP_EXPAND:
        case OP_SOFTMAX:
        case OP_RMS_NORM: s = true; break;
        case OP_LAYER_NORM: s = terms = true; break;
        case OP_DEQUANTIZE:
            s = true;
            terms = n->in[1] == 0 || n->in[2] != 0;
            break;
        default: break;
        }
        for (int j = 0; j < n->n_out; j++) {
            splits[n->out + (value_id)j] = s;
            want_mag[n->out + (value_id)j] = terms;
        }
    }
    /* backward: keep it only where a contraction is reached */
    for (size_t k = g->nodes.n; k-- > 1;) {
        const struct node *n = &g->nodes.at[k];
        bool own = false;
        for (int j = 0; j < n->n_out; j++) {
            own = own || reach[n->out + (value_id)j];
        }
        for (int i = 0; i < n->n_in; i++) {
            if (n->in[i] == 0) continue;
            if (is_contraction(n->op) || (own && passes_terms(g, n, i))) reach[n->in[i]] = true;
        }
    }
    for (size_t v = 1; v < g->values.n; v++) {
        want_mag[v] = want_mag[v] && reach[v];
        splits[v] = splits[v] && reach[v];
    }
}
