/* SPDX-License-Identifier: MIT
 * Which values are stored. From the outputs backwards, every value learns which kernels evaluate it
 * (its users) before its operands are looked at:
 *   - a value in a cluster's region is stored by the cluster if it is an output or somebody outside
 *     wants it; or left to be recomputed outside from an operand that is stored anyway or smaller;
 *   - any other value is computed inside its users' loads, unless it is an output, an edge may not
 *     be fused, or the model says that storing it once is cheaper;
 *   - a stored map joins a reduction over its domain that it depends on, or a pointwise kernel over
 *     the same domain, else it is a kernel of its own.
 */
#include "fuse/cost.h"
#include "fuse/sched.h"

#include <math.h>
#include <string.h>

int64_t value_count(const struct sched *s, value_id v) {
    const struct value *val = graph_value(s->g, v);
    int64_t n = 1, d;
    for (int i = 0; i < val->rank; i++) {
        bool known = sx_is_const(s->sp, val->dims[i], &d) ||
                     (s->opt->dims != NULL && dims_value(s->g, s->opt->dims, val->dims[i], &d));
        if (!known) return -1;
        if (d != 0 && n > INT64_MAX / 64 / d) return -1;
        n *= d;
    }
    return n;
}

int64_t value_bytes(const struct sched *s, value_id v) {
    int64_t n = value_count(s, v);
    return n < 0 ? -1 : dtype_bytes(graph_value(s->g, v)->dtype, n);
}

/* ---- the model of storing against recomputing --------------------------------------------------
 */

/* What a value costs where it is computed in place, down to what is loaded: parameters, and what
 * kernels of their own hold or finish. */
struct work {
    double ops;   /* simple operations for one element, all producers inlined */
    double bytes; /* of the leaves */
};

static double op_work(const struct node *n) {
    if (op_is_view(n->op) || n->op == OP_CONST || n->op == OP_DIM) return 0;
    return op_is_elementwise(n->op) ? op_info(n->op)->work : 2;
}

static void work_of(const struct sched *s, struct work *w) {
    for (node_id id = 1; id < s->g->nodes.n; id++) {
        const struct node *n = graph_node(s->g, id);
        bool leaf = n->op == OP_PARAM || !op_is_map(n->op);
        struct work sum = {.ops = leaf ? 1 : op_work(n)};
        for (int i = 0; i < n->n_in && !leaf; i++) {
            if (n->in[i] == 0) continue;
            sum.ops += w[n->in[i]].ops;
            sum.bytes += w[n->in[i]].bytes;
        }
        for (int i = 0; i < n->n_out; i++) {
            value_id v = n->out + (value_id)i;
            int64_t b = value_bytes(s, v);
            w[v] = sum;
            if (!leaf && s->v[v].region < 0) continue;
            w[v] = (struct work){.ops = 1, .bytes = b < 0 ? 0 : (double)b};
        }
    }
}

struct costs {
    double inlined, stored; /* seconds */
};

static int bits_count(bits b, size_t words) {
    int n = 0;
    for (size_t i = 0; i < words; i++)
        n += __builtin_popcountll(b[i]);
    return n;
}

/* Fixed cost of one more launch. */
#define LAUNCH_SECONDS 3e-6
/* On a GPU, from the first load to the last store of a kernel that does next to nothing. */
#define SHORTEST_SECONDS 2e-6
/* Fewer operations than this hide behind the memory traffic of whatever loop they stand in. */
#define HIDDEN_OPS 8

/* Reading bytes again, so many times, from the cache that they fit into. */
static double again(const struct device_desc *d, double bytes, double times) {
    double cache = bytes * 2 <= (double)d->l2   ? d->l2_bandwidth
                   : bytes * 2 <= (double)d->l3 ? d->l3_bandwidth
                                                : d->bandwidth_per_core;
    return times > 0 && cache > 0 ? times * bytes / cache : 0;
}

static struct costs store_costs(const struct sched *s, value_id v, const struct work *w,
                                double ratio) {
    double count = (double)value_count(s, v), bytes = (double)value_bytes(s, v);
    double users = bits_count(s->v[v].users, s->words);
    const struct device_desc *d = s->opt->device;
    double bandwidth = d->bandwidth_per_core;
    if (s->opt->assume_bandwidth) bandwidth /= 8;
    double compute = count * w[v].ops / (d->flops_per_core / 2), leaves = w[v].bytes / bandwidth;
    if (w[v].ops < HIDDEN_OPS) ratio = 1;
    double stored = LAUNCH_SECONDS + compute + leaves + bytes * (1 + users) / bandwidth;
    return (struct costs){
        .inlined = users * (ratio * compute + leaves + again(d, w[v].bytes, ratio - 1)),
        .stored = stored + users * again(d, bytes, ratio - 1),
    };
}

/* A GPU: all of it works on each kernel, arithmetic and traffic overlap, and products have a model
 * of their own. */
static struct costs gpu_costs(struct sched *s, value_id v, const struct work *w, double ratio,
                              bool joins) {
    double count = (double)value_count(s, v), bytes = (double)value_bytes(s, v);
    struct device_desc d = *s->opt->device;
    if (s->opt->assume_bandwidth) d.gpu.bandwidth /= 8;
    struct cost_work each = {.plain = w[v].ops};
    struct costs c = {.stored = cost_map(count, each, joins ? 0 : w[v].bytes, bytes, &d)};
    if (!joins) c.stored += LAUNCH_SECONDS + SHORTEST_SECONDS;
    for (size_t i = 0; i < s->clusters.n; i++) {
        if (!bits_get(s->v[v].users, (int)i)) continue;
        double inlined, stored;
        if (!sched_product_costs(s, s->clusters.at[i], v, &d, &inlined, &stored)) {
            inlined = cost_map(count * ratio, each, w[v].bytes * ratio, 0, &d);
            stored = cost_map(0, each, bytes * ratio, 0, &d);
        }
        c.inlined += inlined;
        c.stored += stored;
    }
    return c;
}

/* ---- consumers ---------------------------------------------------------------------------------
 */

struct decide {
    struct sched *s;
    struct work *work;
    VEC(node_id) * users_of; /* nodes that take a value, by value */
    double *spread;          /* spread_of, by value */
    VEC(value_id) views;     /* scratch */
};

/* Is some edge from v, through views, one that may not be fused? */
static bool forced_apart(struct decide *d, value_id v) {
    value_id through = v;
    d->views.n = 0;
    for (size_t next = 0;; through = d->views.at[next++]) {
        for (size_t i = 0; i < d->users_of[through].n; i++) {
            const struct node *n = graph_node(d->s->g, d->users_of[through].at[i]);
            if (!op_is_view(n->op) && !edge_allowed(d->s, v, n)) return true;
            for (int j = 0; j < n->n_out && op_is_view(n->op); j++) {
                if (!VEC_PUSH(d->s->arena, &d->views, n->out + (value_id)j)) return true;
            }
        }
        if (next == d->views.n) return false;
    }
}

/* Elements of the largest map that takes v, through views: told of v's users before of v. */
static double spread_of(const struct decide *d, value_id v) {
    double most = 0;
    for (size_t i = 0; i < d->users_of[v].n; i++) {
        const struct node *n = graph_node(d->s->g, d->users_of[v].at[i]);
        for (int j = 0; j < n->n_out && op_is_view(n->op); j++)
            most = fmax(most, d->spread[n->out + (value_id)j]);
        if (!op_is_view(n->op) && op_is_map(n->op))
            most = fmax(most, (double)value_count(d->s, n->out));
    }
    return most;
}

/* How many times more often an element of v is evaluated when it is computed where it is used. */
static double broadcast_ratio(const struct decide *d, value_id v) {
    double count = (double)value_count(d->s, v);
    return count > 0 ? fmax(1, d->spread[v] / count) : 1;
}

/* ---- size ------------------------------------------------------------------------------------ */

static const char too_large_why[] = "the kernel that reads it would become too large to compile";

/* Is there a kernel that evaluating one more value would make too large, though storing the value
 * spares it that? A kernel that the value is computed from has to evaluate it itself. */
static bool too_large(const struct sched *s, value_id v) {
    for (size_t i = 0; i < s->clusters.n; i++) {
        const struct cluster *c = s->clusters.at[i];
        if (c->size >= MOST_VALUES && bits_get(s->v[v].users, c->id) &&
            !bits_get(s->v[v].prov, c->id))
            return true;
    }
    return false;
}

/* v is computed in the loads of its users. */
static void count_inlined(struct sched *s, value_id v) {
    for (size_t i = 0; i < s->clusters.n; i++)
        s->clusters.at[i]->size += bits_get(s->v[v].users, (int)i);
}

/* ---- storing -----------------------------------------------------------------------------------
 */

static void use_inputs(struct sched *s, const struct node *n, bits users) {
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] != 0) bits_or(s->v[n->in[i]].users, users, s->words);
    }
}

/* What a checked value is computed from is checked, too, unless it is stored. */
static void check_inputs(struct sched *s, const struct node *n, bool checked) {
    for (int i = 0; i < n->n_in && checked; i++)
        s->v[n->in[i]].checked = true;
}

static void use_inputs_by(struct sched *s, const struct node *n, int kernel) {
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] != 0) bits_set(s->v[n->in[i]].users, kernel);
    }
}

static bool same_dims(const struct value *v, int rank, const sx *dims) {
    if (v->rank != rank) return false;
    for (int i = 0; i < rank; i++) {
        if (v->dims[i] != dims[i]) return false;
    }
    return true;
}

/* A reduction over v's own domain that v depends on and can be computed in, else -1. */
static int reduction_for(struct sched *s, value_id v) {
    const struct value *val = graph_value(s->g, v);
    for (size_t i = s->clusters.n; i-- > 0;) {
        struct cluster *c = s->clusters.at[i];
        if (c->kind != KERNEL_REDUCTION || !bits_get(s->v[v].prov, c->id)) continue;
        if (!same_dims(val, c->rank, c->dims) || s->v[v].region >= 0) continue;
        if (sched_derivable(s, c, v, c->coord)) return c->id;
    }
    return -1;
}

/* An existing pointwise kernel over the same domain that may store v as well, else -1. */
static int pointwise_for(struct sched *s, value_id v) {
    const struct value *val = graph_value(s->g, v);
    for (size_t i = 0; i < s->clusters.n && s->opt->policy != FUSE_NEVER; i++) {
        struct cluster *c = s->clusters.at[i];
        if (c->kind != KERNEL_POINTWISE || !same_dims(val, c->rank, c->dims)) continue;
        if (c->size >= MOST_VALUES / 2) continue; /* room for what the value is computed from */
        if (would_cycle(s, c->id, s->v[v].prov)) continue;
        bool ok = true;
        for (size_t j = 0; j < s->clusters.n; j++) {
            bool waits = (int)j != c->id && bits_get(s->v[v].users, (int)j);
            ok = ok && !(waits && bits_get(c->reach, (int)j));
        }
        if (ok) return c->id;
    }
    return -1;
}

static enum proem_status new_pointwise(struct sched *s, value_id v, int *id) {
    struct cluster *c = cluster_new(s, KERNEL_POINTWISE, 0);
    if (c == NULL) return err_nomem(s->err);
    const struct value *val = graph_value(s->g, v);
    c->rank = val->rank;
    memcpy(c->dims, val->dims, (size_t)val->rank * sizeof *val->dims);
    *id = c->id;
    return PROEM_OK;
}

/* v is stored by kernel `owner`; whoever reads v depends on it. */
static void store_in(struct sched *s, value_id v, int owner, const char *rule, const char *why) {
    struct value_state *st = &s->v[v];
    st->stored = true;
    st->owner = owner;
    st->rule = rule;
    st->why = why;
    struct cluster *c = s->clusters.at[owner];
    c->active = true;
    c->size += st->region < 0; /* what a region holds has been counted */
    bits self = bits_new(s);
    if (self == NULL) return;
    bits_set(self, owner);
    for (size_t i = 0; i < s->clusters.n; i++) {
        if ((int)i != owner && bits_get(st->users, (int)i)) cluster_depend(s, (int)i, self);
    }
}

static enum proem_status store_map(struct sched *s, value_id v, const char *rule, const char *why) {
    int owner = reduction_for(s, v);
    if (owner < 0) owner = pointwise_for(s, v);
    if (owner < 0) TRY(new_pointwise(s, v, &owner));
    cluster_depend(s, owner, s->v[v].prov);
    store_in(s, v, owner, rule, why);
    use_inputs_by(s, graph_def(s->g, v), owner);
    return PROEM_OK;
}

/* ---- decisions ---------------------------------------------------------------------------------
 */

/* A value that a cluster holds and somebody outside wants: can the outside recompute it from the
 * one operand in the region, which is stored anyway or smaller? */
static bool push_back(struct decide *d, value_id v) {
    struct sched *s = d->s;
    const struct node *n = graph_def(s->g, v);
    if (s->opt->policy == FUSE_NEVER || !op_is_map(n->op)) return false;
    value_id held = 0;
    for (int i = 0; i < n->n_in; i++) {
        if (s->v[n->in[i]].region != s->v[v].region) continue;
        if (held != 0 && held != n->in[i]) return false;
        held = n->in[i];
    }
    if (held == 0 || forced_apart(d, v)) return false;
    if (op_is_view(n->op)) return true; /* a view is never worth a store of its own */
    bool elsewhere = s->v[held].is_output;
    for (size_t i = 0; i < d->users_of[held].n; i++) {
        const struct node *u = graph_node(s->g, d->users_of[held].at[i]);
        elsewhere = elsewhere || s->v[u->out].region != s->v[v].region;
    }
    int64_t bv = value_bytes(s, v), bh = value_bytes(s, held);
    if (bv < 0 || bh < 0) {
        bv = dtype_bits(graph_value(s->g, v)->dtype);
        bh = dtype_bits(graph_value(s->g, held)->dtype);
    }
    return (elsewhere && bh <= bv) || bh < bv;
}

static bool any_bit(bits b, size_t words, int except) {
    for (size_t i = 0; i < words; i++) {
        uint64_t w = b[i];
        if (except >= 0 && (size_t)except / 64 == i) w &= ~((uint64_t)1 << (except % 64));
        if (w != 0) return true;
    }
    return false;
}

static void decide_held(struct decide *d, value_id v) {
    struct sched *s = d->s;
    struct value_state *st = &s->v[v];
    const struct node *n = graph_def(s->g, v);
    int c = st->region;
    bool outside = any_bit(st->users, s->words, c) || st->checked;
    bool inside = bits_get(st->users, c);
    if (outside && !st->is_output && push_back(d, v)) {
        st->rule = "recompute";
        st->why = "recomputed outside from an operand that is stored anyway or smaller";
        count_inlined(s, v);
        use_inputs(s, n, st->users);
        check_inputs(s, n, st->checked);
        return;
    }
    if (st->is_output)
        store_in(s, v, c, "output", "it is an output of the graph");
    else if (outside)
        store_in(s, v, c, st->cut ? "size" : "result",
                 st->cut ? too_large_why : "another kernel reads the finished result");
    if (st->stored || inside) {
        s->clusters.at[c]->active = true;
        use_inputs_by(s, n, c);
    }
}

static struct costs model(struct decide *d, value_id v) {
    struct sched *s = d->s;
    double ratio = broadcast_ratio(d, v);
    if (s->opt->device->kind != DEVICE_CUDA) return store_costs(s, v, d->work, ratio);
    return gpu_costs(s, v, d->work, ratio, reduction_for(s, v) >= 0);
}

/* An inner value of one operator of the text that lowering made of maps alone (dequantize): what is
 * worth storing there is the result, if anything. */
static bool is_piece(const struct decide *d, value_id v) {
    const struct graph *g = d->s->g;
    node_id at = graph_value(g, v)->node, origin = graph_node(g, at)->origin;
    if (origin == 0) return false;
    for (size_t i = 0; i < d->users_of[v].n; i++) {
        if (graph_node(g, d->users_of[v].at[i])->origin != origin) return false;
    }
    node_id first = at;
    while (first > 1 && graph_node(g, first - 1)->origin == origin)
        first--;
    for (node_id i = first; i < g->nodes.n && graph_node(g, i)->origin == origin; i++) {
        enum op op = graph_node(g, i)->op;
        if (!op_is_map(op) && op != OP_CONST) return false;
    }
    return true;
}

static enum proem_status decide_map(struct decide *d, value_id v) {
    struct sched *s = d->s;
    struct value_state *st = &s->v[v];
    const struct node *n = graph_def(s->g, v);
    if (st->is_output) return store_map(s, v, "output", "it is an output of the graph");
    if (!any_bit(st->users, s->words, -1)) return PROEM_OK;
    bool free_to_compute = op_is_view(n->op) || n->op == OP_CONST || n->op == OP_DIM;
    if (!free_to_compute && forced_apart(d, v))
        return store_map(s, v, s->opt->policy == FUSE_NEVER ? "never" : "forced",
                         "fusing was ruled out by option");
    if (!free_to_compute && s->opt->policy == FUSE_MODEL && value_count(s, v) >= 0 &&
        !is_piece(d, v)) {
        struct costs c = model(d, v);
        if (c.stored < c.inlined) {
            const char *why = arena_printf(
                s->arena, "storing costs %.1f us, computing it where it is used %.1f us",
                c.stored * 1e6, c.inlined * 1e6);
            return store_map(s, v, "recompute-cost", why != NULL ? why : "");
        }
    }
    bool constant = n->op == OP_CONST || n->op == OP_DIM;
    if (!constant && too_large(s, v) && !is_piece(d, v))
        return store_map(s, v, "size", too_large_why);
    if (!constant) count_inlined(s, v);
    if (bits_count(st->users, s->words) > 1) {
        st->rule = "recompute";
        st->why = s->opt->policy == FUSE_ALWAYS ? "storing it was ruled out by option"
                                                : "computing it again costs less than storing it";
    }
    use_inputs(s, n, st->users);
    check_inputs(s, n, st->checked);
    return PROEM_OK;
}

static enum proem_status decide_opaque(struct sched *s, value_id v) {
    struct value_state *st = &s->v[v];
    if (!st->is_output && !st->checked && !any_bit(st->users, s->words, st->region))
        return PROEM_OK;
    store_in(s, v, st->region, st->is_output ? "output" : "order",
             "the kernel must be finished before an element can be read");
    use_inputs_by(s, graph_def(s->g, v), st->region);
    return PROEM_OK;
}

static bool decide_init(struct decide *d) {
    struct sched *s = d->s;
    size_t n = s->g->values.n;
    d->work = ARENA_NEW(s->arena, struct work, n);
    d->spread = ARENA_NEW(s->arena, double, n);
    d->users_of = (void *)arena_alloc(s->arena, n, sizeof *d->users_of);
    s->k_at = ARENA_NEW(s->arena, signed char, n);
    if (d->work == NULL || d->spread == NULL || d->users_of == NULL || s->k_at == NULL)
        return false;
    for (node_id id = 1; id < s->g->nodes.n; id++) {
        const struct node *node = graph_node(s->g, id);
        for (int i = 0; i < node->n_in; i++) {
            if (node->in[i] != 0 && s->v[node->out].live &&
                !VEC_PUSH(s->arena, &d->users_of[node->in[i]], id))
                return false;
        }
    }
    for (value_id v = 0; v < n; v++) {
        s->v[v].users = bits_new(s);
        if (s->v[v].users == NULL) return false;
    }
    for (size_t i = 0; i < s->plan->low.checks.n; i++) {
        const struct data_check *c = &s->plan->low.checks.at[i];
        if (s->v[graph_node(s->g, c->user)->out].live) s->v[c->value].checked = true;
    }
    work_of(s, d->work);
    return true;
}

enum proem_status sched_decide(struct sched *s) {
    struct decide d = {.s = s};
    if (!decide_init(&d)) return err_nomem(s->err);
    for (value_id v = (value_id)s->g->values.n; v-- > 1;) {
        if (!s->v[v].live) continue;
        d.spread[v] = spread_of(&d, v);
        const struct node *n = graph_def(s->g, v);
        int r = s->v[v].region;
        bool holds = r >= 0 && (s->clusters.at[r]->kind == KERNEL_MATMUL ||
                                s->clusters.at[r]->kind == KERNEL_REDUCTION);
        if (n->op == OP_PARAM) continue;
        if (holds) {
            decide_held(&d, v);
        } else if (r >= 0) {
            TRY(decide_opaque(s, v));
        } else {
            TRY(decide_map(&d, v));
        }
    }
    return arena_ok(s->arena) ? PROEM_OK : err_nomem(s->err);
}
