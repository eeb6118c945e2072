/* SPDX-License-Identifier: MIT
 * A product's operands as the cost model sees them while values are being decided.
 *
 * In: the decisions so far, from the outputs down to the value at hand; what is below it counts as
 * computed in place, down to parameters and what other kernels hold. Out: for a product that reads
 * the value in its loads, its modelled time with the value computed there and with the value stored.
 * A walk from an operand's value downwards in order of value numbers meets each value once; the place
 * of k among the dims is carried along, so that it is known whether leaves run along k.
 */
#include "fuse/cost.h"
#include "fuse/sched.h"

#include <math.h>

/* A tensor with so many times fewer elements than the operand is a part of a row or a group, and what
 * is computed from such ones is evaluated once for it. */
#define PART 16
/* How deep tensors may be put together for their pieces to be copied. */
#define MOST_PIECES 8
/* Beside the place of k: its elements differ from place to place of the operand. */
#define VARIES 64

struct walk {
    struct sched *s;
    signed char
        *k_at;       /* by value: 1 + place of k counted from the last dim; 0: not in the operand */
    double elements; /* of the operand */
    value_id root, v;
    bool v_stored;
    int pending; /* values met that have not been looked through */
    /* what was met */
    bool has_v, conditions, across, looks, same;
    int leaves, first_bits;
    double bytes;
    double row_bits; /* of the first leaf */
    struct cost_work work;
};

static double count_of(const struct sched *s, value_id v) {
    return (double)value_count(s, v);
}

static bool is_leaf(const struct walk *w, value_id v) {
    const struct node *n = graph_def(w->s->g, v);
    if (v == w->v) return w->v_stored;
    return n->op == OP_PARAM || !op_is_map(n->op) || w->s->v[v].region >= 0 || w->s->v[v].stored;
}

static bool is_large(const struct walk *w, value_id v) {
    return count_of(w->s, v) * PART > w->elements;
}

/* Sizes as they are planned for. */
static int64_t planned(const struct sched *s, sx e) {
    int64_t v;
    if (sx_is_const(s->sp, e, &v)) return v;
    return s->opt->dims != NULL && dims_value(s->g, s->opt->dims, e, &v) ? v : -1;
}

/* Extent of the dim at a place counted from 1, from the last; 1 if there is none. */
static double extent(const struct sched *s, value_id v, int place) {
    const struct value *val = graph_value(s->g, v);
    return place > val->rank ? 1 : (double)planned(s, val->dims[val->rank - place]);
}

static void meet_leaf(struct walk *w, value_id v) {
    const struct value *val = graph_value(w->s->g, v);
    double n = count_of(w->s, v);
    double most = w->looks && n > w->elements ? w->elements : n;
    w->bytes += most * dtype_bits(val->dtype) / 8;
    if (!is_large(w, v)) return;
    if (w->leaves++ == 0) {
        w->first_bits = dtype_bits(val->dtype);
        w->row_bits = extent(w->s, v, 1) * w->first_bits;
        w->same = true;
    }
    w->same = w->same && dtype_bits(val->dtype) == w->first_bits;
    w->across = w->across || w->k_at[v] != 1;
}

/* The place of k in a view's operand. */
static int through_view(const struct walk *w, const struct node *n, value_id v, int k_at) {
    int rank = graph_value(w->s->g, v)->rank, in = graph_value(w->s->g, n->in[0])->rank;
    if (n->op == OP_TRANSPOSE && k_at <= 2) return 3 - k_at;
    if (n->op == OP_PERMUTE && k_at <= rank) return in - n->attrs.perm[rank - k_at];
    return k_at;
}

static void add_work(struct cost_work *to, struct cost_work w) {
    to->plain += w.plain;
    to->special += w.special;
}

static struct cost_work work_of(const struct sched *s, const struct node *n, value_id v) {
    if (op_is_view(n->op) || n->op == OP_CONST || n->op == OP_DIM) return (struct cost_work){0, 0};
    if (n->op != OP_CAST) return cost_op(n->op);
    return cost_cast(graph_value(s->g, n->in[0])->dtype, graph_value(s->g, v)->dtype);
}

static void meet(struct walk *w, value_id v, int k_at) {
    if (w->k_at[v] != 0) return;
    w->k_at[v] = (signed char)k_at;
    w->has_v = w->has_v || v == w->v;
    if (!is_leaf(w, v)) {
        w->pending++;
        return;
    }
    meet_leaf(w, v);
    if (is_large(w, v)) w->k_at[v] = (signed char)(k_at | VARIES);
}

static void meet_map(struct walk *w, value_id v) {
    const struct node *n = graph_def(w->s->g, v);
    bool apart = n->op == OP_CONCAT || n->op == OP_PAD || n->op == OP_TAKE_ALONG ||
                 n->op == OP_LOOKUP || n->op == OP_BITCAST;
    w->conditions = w->conditions || apart;
    w->looks = w->looks || n->op == OP_TAKE;
    /* A look-up along k, or behind it, is no row. */
    if (n->op == OP_TAKE && n->attrs.axis >= graph_value(w->s->g, n->in[0])->rank - w->k_at[v])
        w->conditions = true;
    bool part = n->op == OP_SLICE || n->op == OP_SPLIT || n->op == OP_FLIP;
    for (int i = 0; i < n->n_in; i++) {
        value_id u = n->in[i];
        if (u == 0) continue;
        /* Another part of a leaf is another leaf. */
        if (part && w->k_at[u] != 0 && is_leaf(w, u)) w->leaves++;
        meet(w, u, i == 0 && op_is_view(n->op) ? through_view(w, n, v, w->k_at[v]) : w->k_at[v]);
    }
}

/* Is the operand its only leaf, through views and look-ups of whole rows? */
static bool lies_there(const struct walk *w, value_id v, enum dtype d) {
    for (;;) {
        if (is_leaf(w, v)) return graph_value(w->s->g, v)->dtype == d;
        const struct node *n = graph_def(w->s->g, v);
        if (!op_is_view(n->op) && (n->op != OP_TAKE || w->conditions)) return false;
        v = n->in[0];
    }
}

/* Is the operand put together from leaves in whole pieces of 16 bytes along their rows? */
static bool lies_in_pieces(const struct walk *w, value_id v, enum dtype d, int depth) {
    const struct node *n = graph_def(w->s->g, v);
    if (is_leaf(w, v)) {
        double row = extent(w->s, v, 1) * dtype_bits(d);
        return graph_value(w->s->g, v)->dtype == d && row > 0 && fmod(row, 128) == 0;
    }
    if (depth == 0 || (n->op != OP_CONCAT && !op_is_view(n->op))) return false;
    for (int i = 0; i < (n->op == OP_CONCAT ? n->n_in : 1); i++) {
        if (!lies_in_pieces(w, n->in[i], d, depth - 1)) return false;
    }
    return true;
}

/* Upwards: what is computed from parts alone is evaluated once for a row or a group, however it is
 * spread. But if the value that is decided on is a part that differs with every k, it is evaluated
 * with every element. */
static void sum_work(struct walk *w, value_id v) {
    struct sched *s = w->s;
    const struct node *n = graph_def(s->g, v);
    int place = w->k_at[v];
    bool large = is_large(w, v), varies = large && n->n_in == 0;
    for (int i = 0; i < n->n_in; i++)
        varies = varies || (w->k_at[n->in[i]] & VARIES) != 0;
    if (varies) w->k_at[v] = (signed char)(place | VARIES);
    double own = extent(s, v, place), all = extent(s, w->root, w->k_at[w->root] & ~VARIES);
    bool part = !large && !is_large(w, w->v) && own * PART > all;
    if ((large && varies) || part) add_work(&w->work, work_of(s, n, v));
}

/* Down from the root, up again, and the scratch is as it was: only what was met is touched. */
static void look_through(struct walk *w, int k_at) {
    value_id low = w->root;
    meet(w, w->root, k_at);
    for (value_id u = w->root; w->pending > 0; u--) {
        if (w->k_at[u] == 0 || is_leaf(w, u)) continue;
        w->pending--;
        meet_map(w, u);
        low = u;
    }
    for (value_id u = low; u <= w->root; u++) {
        if (w->k_at[u] != 0 && !is_leaf(w, u)) sum_work(w, u);
    }
    for (value_id u = low; u <= w->root; u++) {
        const struct node *n = graph_def(w->s->g, u);
        for (int i = 0; i < n->n_in && w->k_at[u] != 0 && !is_leaf(w, u); i++)
            w->k_at[n->in[i]] = 0;
    }
    w->k_at[w->root] = 0;
}

static bool describe(struct sched *s, value_id root, bool right, value_id v, bool v_stored,
                     enum dtype entering, struct cost_operand *o) {
    struct walk w = {.s = s, .root = root, .v = v, .v_stored = v_stored};
    w.k_at = s->k_at;
    w.elements = count_of(s, root);
    *o = (struct cost_operand){.plain = true};
    if (w.elements <= 0) return false;
    look_through(&w, right && graph_value(s->g, root)->rank >= 2 ? 2 : 1);
    const struct value *own = graph_value(s->g, root);
    add_work(&w.work, cost_cast(own->dtype, entering));
    /* Arithmetic is in f32: what is narrower is rounded once. */
    bool computed = !is_leaf(&w, root) && op_is_elementwise(graph_def(s->g, root)->op);
    if (computed && dtype_bits(own->dtype) < 32) w.work.plain += 1;
    bool lines = w.row_bits > 0 && fmod(w.row_bits, 128) == 0;
    bool pieces =
        !w.looks && !w.across && w.conditions && lies_in_pieces(&w, root, entering, MOST_PIECES);
    *o = (struct cost_operand){.plain = pieces || lies_there(&w, root, entering),
                               .along = !w.across,
                               .lines = pieces || lines,
                               .map = lines && !w.looks && !pieces,
                               .same = w.same,
                               .leaves = pieces                         ? 1
                                         : w.conditions || w.leaves > 2 ? 0
                                                                        : w.leaves,
                               .leaf_bits = w.first_bits,
                               .leaf_bytes = w.bytes,
                               .work = w.work};
    return w.has_v;
}

/* The dtype in which an operand enters the product. */
static enum dtype entering(enum dtype own, enum dtype other, enum dtype acc) {
    enum dtype both = dtype_promote(own, other, true);
    return dtype_is_float(acc) && !dtype_is_float(own) && both != DT_NONE ? both : own;
}

/* Right operands of one kernel together: what one of them cannot do, none does. */
static void join(struct cost_operand *b, const struct cost_operand *more) {
    bool same = b->plain == more->plain && b->along == more->along && b->leaves == more->leaves &&
                b->leaf_bits == more->leaf_bits && b->lines == more->lines;
    b->plain = b->plain && more->plain;
    b->leaf_bytes += more->leaf_bytes;
    if (!same) b->leaves = 0;
    if (more->work.plain > b->work.plain) b->work = more->work;
}

/* Issue slots that a result takes once it is summed: of values near by, as others are further off. */
#define NEAR 64
static double epilogue(struct sched *s, const struct cluster *c) {
    double slots = 0;
    value_id first = graph_node(s->g, c->anchor)->out + 1;
    for (value_id v = first; v < s->g->values.n && v - first < NEAR; v++) {
        const struct node *n = graph_def(s->g, v);
        if (s->v[v].region == c->id && op_is_elementwise(n->op)) slots += work_of(s, n, v).plain;
    }
    return slots;
}

static bool product(struct sched *s, const struct cluster *c, value_id v, bool stored,
                    struct cost_product *p) {
    const struct kernel *k = c->kernel;
    const struct node *n = graph_node(s->g, c->anchor);
    enum dtype a = graph_value(s->g, n->in[0])->dtype, b = graph_value(s->g, n->in[1])->dtype;
    *p = (struct cost_product){.tile = {.acc = k->acc,
                                        .n_b = k->n_b,
                                        .Z = planned(s, k->Z),
                                        .M = planned(s, k->M),
                                        .N = planned(s, k->N),
                                        .K = planned(s, k->K),
                                        .one_order = s->opt->prec == PREC_EAGER,
                                        .operand = {entering(a, b, k->acc), entering(b, a, k->acc)},
                                        .hides = n->op == OP_MATMUL && n->attrs.flag}};
    p->c_ops = epilogue(s, c);
    struct tile_problem *t = &p->tile;
    t->likely_M = t->M;
    t->likely_N = t->N;
    if (t->Z < 0 || t->M < 0 || t->N < 0 || t->K < 0) return false;
    bool in = describe(s, n->in[0], false, v, stored, t->operand[0], &p->a);
    in = describe(s, n->in[1], true, v, stored, t->operand[1], &p->b) || in;
    for (int i = 1; i < k->n_b; i++) {
        struct cost_operand more;
        const struct node *also = graph_node(s->g, c->also[i - 1]);
        in = describe(s, also->in[1], true, v, stored, t->operand[1], &more) || in;
        join(&p->b, &more);
    }
    return in;
}

bool sched_product_costs(struct sched *s, const struct cluster *c, value_id v,
                         const struct device_desc *d, double *inlined, double *stored) {
    struct cost_product with, without;
    if (c->kind != KERNEL_MATMUL || d->kind != DEVICE_CUDA) return false;
    if (!product(s, c, v, false, &with) || !product(s, c, v, true, &without)) return false;
    *inlined = cost_product(&with, d);
    *stored = cost_product(&without, d);
    return *inlined >= 0 && *stored >= 0;
}
