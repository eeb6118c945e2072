/* SPDX-License-Identifier: MIT
 * The kernels: for every active cluster the fns at its hooks, its stores, and its place in the
 * launch order.
 *
 * Held values are built in the graph's order, forward from the accumulators: a view passes its
 * operand's fn on (only the place changes), an operator is applied to the held operands and to fns
 * of the others at the same place.
 */
#include "fuse/algebra.h"
#include "fuse/sched.h"

#include <string.h>

static bool holds(const struct cluster *c) {
    return c->kind == KERNEL_MATMUL || c->kind == KERNEL_REDUCTION;
}

/* Is the value evaluated by the kernel, rather than loaded or not wanted at all? */
static bool wanted(struct sched *s, const struct cluster *c, value_id v) {
    const struct value_state *st = &s->v[v];
    return st->live && (bits_get(st->users, c->id) || (st->stored && st->owner == c->id));
}

static enum proem_status fail(struct sched *s) {
    if (s->err->status != PROEM_OK) return s->err->status;
    return err_nomem(s->err);
}

static enum proem_status add_store(struct sched *s, struct cluster *c, value_id v, fn_id f,
                                   const sx *idx, const struct fn_bounds *bounds, bool per_row) {
    const struct value *val = graph_value(s->g, v);
    struct kernel_store st = {.value = v, .f = f, .rank = val->rank, .per_row = per_row};
    if (f == 0) return fail(s);
    if (val->rank > 0) memcpy(st.idx, idx, (size_t)val->rank * sizeof *idx);
    if (bounds != NULL) st.bounds = *bounds;
    return VEC_PUSH(s->arena, &c->kernel->stores, st) ? PROEM_OK : fail(s);
}

/* ---- matmul and reduction ----------------------------------------------------------------------
 */

/* An operand as it enters the product: rounded once to the dtype that the graph declares there, in
 * the lanes that accumulate. */
static fn_id dot_operand(struct sched *s, struct fn_env *env, value_id v, const sx *coord,
                         enum dtype other, enum dtype acc) {
    fn_id f = fn_round(s->plan->fns, fn_of_value(env, v, coord));
    if (f == 0) return 0;
    enum dtype own = graph_value(s->g, v)->dtype;
    enum dtype both = dtype_promote(own, other, true);
    if (dtype_is_float(acc) && !dtype_is_float(own) && both != DT_NONE)
        f = fn_cast(s->plan->fns, f, both, false);
    return fn_convert(s->plan->fns, f, acc);
}

/* The dtype of an operand before it is widened to the lanes that accumulate. */
static enum dtype entering(const struct sched *s, fn_id f) {
    const struct fn_node *n = fn_get(s->plan->fns, f);
    return n->kind == FN_CONVERT ? fn_get(s->plan->fns, n->arg[0])->dtype : n->dtype;
}

/* Sizes of the program, not of one run: a symbol stays unknown. */
static int64_t const_or_unknown(const struct sched *s, sx e) {
    int64_t v;
    return sx_is_const(s->sp, e, &v) ? v : -1;
}

struct narrow_walk {
    struct sched *s;
    sx outer, k;
    bool any, no;
};

static bool is_const_param(const struct graph *g, value_id v) {
    for (size_t i = 0; i < g->params.n; i++) {
        if (g->params.at[i].value == v) return g->params.at[i].is_const;
    }
    return false;
}

static void narrow_visit(void *user, fn_id f) {
    struct narrow_walk *w = user;
    struct fn_pool *p = w->s->plan->fns;
    const struct fn_node *n = fn_get(p, f);
    bool outer = false, k = false;
    if (n->kind == FN_SELECT) w->no = true;
    if (n->kind != FN_LOAD) return;
    for (int i = 0; i < n->rank; i++) {
        outer = outer || sx_depends(p, n->idx[i], w->outer);
        k = k || sx_depends(p, n->idx[i], w->k);
    }
    if (!outer || !k) return;
    w->any = w->any || dtype_bits(n->dtype) < 16;
    w->no = w->no || !is_const_param(w->s->g, n->tensor);
}

/* Is an operand over (outer, k) made of constants, with some below 16 bits an element? */
static bool narrow_const(struct sched *s, fn_id f, sx outer, sx k) {
    struct narrow_walk w = {.s = s, .outer = outer, .k = k};
    if (f != 0) fn_walk(s->plan->fns, f, narrow_visit, &w);
    return w.any && !w.no;
}

static bool is_between(struct sched *s, fn_id f, int64_t least, int64_t most) {
    int64_t lo, hi;
    return fn_bounds(s->plan->fns, f, &lo, &hi) && lo >= least && hi <= most;
}

/* How many elements of its operands can a product of integers take in a word? (tile.h) */
static int dots_of(struct sched *s, const struct kernel *k) {
    fn_id rest, term;
    if (k->acc != DT_I32 || !is_between(s, k->a, INT16_MIN, INT16_MAX)) return 0;
    int dots = algebra_bytes(s->plan, k, k->a, &rest, &term) ? 4 : 2;
    for (int i = 0; i < k->n_b; i++) {
        if (!is_between(s, k->b[i], INT16_MIN, INT16_MAX)) return 0;
        if (!is_between(s, k->b[i], INT8_MIN, INT8_MAX)) dots = 2;
    }
    return dots;
}

static int64_t planned_size(const struct sched *s, sx e) {
    int64_t v;
    return s->opt->dims != NULL && dims_value(s->g, s->opt->dims, e, &v) ? v : -1;
}

static enum proem_status build_matmul(struct sched *s, struct cluster *c, struct fn_env *env) {
    struct kernel *k = c->kernel;
    const struct node *n = graph_node(s->g, c->anchor);
    struct matmul_axes ax;
    matmul_axes(s, n, k->z, k->m, k->n, k->k, &ax);
    enum dtype da = graph_value(s->g, n->in[0])->dtype, db = graph_value(s->g, n->in[1])->dtype;
    k->a = dot_operand(s, env, n->in[0], ax.a, db, k->acc);
    k->b[0] = dot_operand(s, env, n->in[1], ax.b, da, k->acc);
    for (int i = 1; i < k->n_b; i++) {
        const struct node *more = graph_node(s->g, c->also[i - 1]);
        matmul_axes(s, more, k->z, k->m, k->n, k->k, &ax);
        k->b[i] = dot_operand(s, env, more->in[1], ax.b, da, k->acc);
        if (k->b[i] == 0) return fail(s);
    }
    struct tile_problem tp = {
        .acc = k->acc, .n_b = k->n_b, .one_order = s->opt->prec == PREC_EAGER};
    tp.narrow_const[0] = narrow_const(s, k->a, k->m, k->k);
    tp.narrow_const[1] = narrow_const(s, k->b[0], k->n, k->k);
    tp.Z = const_or_unknown(s, k->Z);
    tp.M = const_or_unknown(s, k->M);
    tp.N = const_or_unknown(s, k->N);
    tp.K = const_or_unknown(s, k->K);
    tp.likely_M = planned_size(s, k->M);
    tp.likely_N = planned_size(s, k->N);
    if (k->a == 0 || k->b[0] == 0) return fail(s);
    tp.operand[0] = entering(s, k->a);
    tp.operand[1] = entering(s, k->b[0]);
    tp.hides = n->op == OP_MATMUL && n->attrs.flag;
    tp.dots = dots_of(s, k);
    k->problem = tp;
    k->tile = k->model_tile = tile_matmul(&tp, s->opt->device);
    fn_id sum = 0;
    sched_algebra(s, c, &sum);
    if (sum != 0) s->v[n->out].f = fn_convert(s->plan->fns, sum, graph_value(s->g, n->out)->dtype);
    return PROEM_OK;
}

static enum proem_status build_pass(struct sched *s, struct cluster *c, struct fn_env *env,
                                    value_id v) {
    struct kernel *k = c->kernel;
    for (int i = 0; i < k->n_pass; i++) {
        struct kernel_pass *p = &k->pass[i];
        if (p->value != v) continue;
        const struct node *n = graph_def(s->g, v);
        p->f = fn_convert(s->plan->fns, fn_of_value(env, n->in[0], c->coord), p->acc);
        if (p->f == 0) return fail(s);
    }
    return PROEM_OK;
}

/* The fn of a held value that is no accumulator. */
static fn_id held_fn(struct sched *s, struct cluster *c, struct fn_env *env, value_id v) {
    const struct node *n = graph_def(s->g, v);
    if (op_is_view(n->op)) return s->v[n->in[0]].f;
    const struct value *out = graph_value(s->g, v);
    fn_id arg[3] = {0, 0, 0};
    for (int i = 0; i < n->n_in; i++) {
        sx ic[MAX_RANK];
        if (s->v[n->in[i]].region == c->id) {
            arg[i] = s->v[n->in[i]].f;
            continue;
        }
        broadcast_back(env, n->in[i], out->rank, s->v[v].pos, ic);
        arg[i] = fn_of_value(env, n->in[i], ic);
    }
    return fn_apply(env, n, arg);
}

static enum proem_status build_held(struct sched *s, struct cluster *c) {
    struct env_user u = {s, c->id};
    struct fn_env env = sched_env(s, &u);
    if (c->kind == KERNEL_MATMUL) TRY(build_matmul(s, c, &env));
    for (value_id v = 1; v < s->g->values.n; v++) {
        struct value_state *st = &s->v[v];
        if (!st->live || st->region != c->id || st->f == 0) continue;
        if (op_is_map(graph_def(s->g, v)->op)) {
            if (!wanted(s, c, v)) continue;
            st->f = held_fn(s, c, &env, v);
            if (st->f == 0) return fail(s);
        } else if (c->kind == KERNEL_REDUCTION) {
            TRY(build_pass(s, c, &env, v));
        }
        env.memo = NULL; /* what is held has changed */
    }
    for (value_id v = 1; v < s->g->values.n; v++) {
        struct value_state *st = &s->v[v];
        if (!st->stored || st->owner != c->id) continue;
        if (st->region == c->id) {
            TRY(add_store(s, c, v, st->f, st->pos, &st->bounds, c->kind == KERNEL_REDUCTION));
        } else {
            fn_id f = fn_of_value(&env, v, c->coord);
            TRY(add_store(s, c, v, f, c->coord, NULL, false));
        }
    }
    return PROEM_OK;
}

/* ---- pointwise ---------------------------------------------------------------------------------
 */

struct linear_test {
    struct sched *s;
    sx t;
    bool linear;
};

static sx offset_of(struct sched *s, value_id tensor, int rank, const sx *idx) {
    const struct value *v = graph_value(s->g, tensor);
    sx lin = sx_const(s->sp, 0);
    for (int i = 0; i < rank; i++)
        lin = sx_add(s->sp, sx_mul(s->sp, lin, v->dims[i]), idx[i]);
    return lin;
}

static void test_linear(void *user, fn_id f) {
    struct linear_test *l = user;
    struct fn_pool *p = l->s->plan->fns;
    const struct fn_node *n = fn_get(p, f);
    sx coef, rest;
    if (n->kind == FN_LOAD)
        l->linear = l->linear && sx_linear(l->s->sp, offset_of(l->s, n->tensor, n->rank, n->idx),
                                           l->t, &coef, &rest);
    if (n->kind == FN_SELECT) l->linear = l->linear && !sx_depends(p, n->e, l->t);
    if (n->kind == FN_INDEX) l->linear = l->linear && sx_linear(l->s->sp, n->e, l->t, &coef, &rest);
}

static enum proem_status pointwise_stores(struct sched *s, struct cluster *c) {
    struct env_user u = {s, c->id};
    struct fn_env env = sched_env(s, &u);
    for (value_id v = 1; v < s->g->values.n; v++) {
        if (!s->v[v].stored || s->v[v].owner != c->id) continue;
        fn_id f = fn_of_value(&env, v, c->coord);
        TRY(add_store(s, c, v, f, c->coord, NULL, false));
    }
    return PROEM_OK;
}

/* One long row if that leaves every address linear, else rows of the last dim. */
static enum proem_status build_pointwise(struct sched *s, struct cluster *c) {
    struct kernel *k = c->kernel;
    k->Z = sx_const(s->sp, 1);
    k->z = sx_var(s->sp, "z", k->Z);
    k->N = dims_product(s->sp, c->rank, c->dims);
    k->n = sx_var(s->sp, "n", k->N);
    coords_of_linear(s->sp, k->n, c->rank, c->dims, c->coord);
    TRY(pointwise_stores(s, c));
    struct linear_test l = {.s = s, .t = k->n, .linear = true};
    for (size_t i = 0; i < k->stores.n; i++) {
        fn_walk(s->plan->fns, k->stores.at[i].f, test_linear, &l);
    }
    if (l.linear || c->rank < 2) return PROEM_OK;
    k->stores.n = 0;
    k->Z = dims_product(s->sp, c->rank - 1, c->dims);
    k->z = sx_var(s->sp, "z", k->Z);
    k->N = c->dims[c->rank - 1];
    k->n = sx_var(s->sp, "n", k->N);
    coords_of_linear(s->sp, k->z, c->rank - 1, c->dims, c->coord);
    c->coord[c->rank - 1] = k->n;
    return pointwise_stores(s, c);
}

/* ---- scatter, scan, sort -----------------------------------------------------------------------
 */

/* Rows of everything but `axis`: k->z over the others, `at` along it. Fills coord. */
static void line_coords(struct sched *s, struct kernel *k, const struct value *v, int axis, sx at,
                        sx *coord) {
    sx others[MAX_RANK], oc[MAX_RANK];
    int n = 0;
    for (int i = 0; i < v->rank; i++) {
        if (i != axis) others[n++] = v->dims[i];
    }
    if (k->Z == 0) {
        k->Z = dims_product(s->sp, n, others);
        k->z = sx_var(s->sp, "z", k->Z);
    }
    coords_of_linear(s->sp, k->z, n, others, oc);
    for (int i = 0, j = 0; i < v->rank; i++)
        coord[i] = i == axis ? at : oc[j++];
}

static fn_id wrapped(struct sched *s, fn_id f, sx n) {
    struct fn_pool *p = s->plan->fns;
    fn_id i = fn_convert(p, f, DT_I64);
    fn_id zero = fn_const(p, DT_I64, (union scalar){.i = 0});
    fn_id neg = fn_op(p, OP_LT, DT_I64, DT_BOOL, 2, (fn_id[]){i, zero}, NULL);
    fn_id up = fn_op(p, OP_ADD, DT_I64, DT_I64, 2, (fn_id[]){i, fn_index(p, n)}, NULL);
    return fn_where(p, neg, up, i);
}

/* scatter: the index has dims of its own in place of the axis. */
static void scatter_coords(struct sched *s, struct cluster *c, const sx *line, sx *ic, sx *sc) {
    struct kernel *k = c->kernel;
    const struct node *n = graph_node(s->g, c->anchor);
    const struct value *index = graph_value(s->g, n->in[1]);
    const struct value *base = graph_value(s->g, n->in[0]);
    int axis = n->attrs.axis;
    k->N = dims_product(s->sp, index->rank, index->dims);
    k->n = sx_var(s->sp, "n", k->N);
    coords_of_linear(s->sp, k->n, index->rank, index->dims, ic);
    int r = 0;
    for (int i = 0; i < axis; i++)
        sc[r++] = line[i];
    for (int i = 0; i < index->rank; i++)
        sc[r++] = ic[i];
    for (int i = axis + 1; i < base->rank; i++)
        sc[r++] = line[i];
}

static enum proem_status build_scatter(struct sched *s, struct cluster *c) {
    struct kernel *k = c->kernel;
    struct fn_pool *p = s->plan->fns;
    const struct node *n = graph_node(s->g, c->anchor);
    struct env_user u = {s, c->id};
    struct fn_env env = sched_env(s, &u);
    const struct value *base = graph_value(s->g, n->in[0]);
    const struct value *index = graph_value(s->g, n->in[1]);
    int axis = n->attrs.axis;
    sx line[MAX_RANK], ic[MAX_RANK], sc[MAX_RANK];
    k->K = base->dims[axis];
    k->k = sx_var(s->sp, "k", k->K);
    line_coords(s, k, base, axis, k->k, line);
    k->base = fn_round(p, fn_of_value(&env, n->in[0], line));
    if (n->op == OP_SCATTER_ALONG) {
        k->N = index->dims[axis];
        k->n = sx_var(s->sp, "n", k->N);
        line_coords(s, k, base, axis, k->n, ic);
        memcpy(sc, ic, sizeof sc);
    } else {
        scatter_coords(s, c, line, ic, sc);
    }
    fn_id i = wrapped(s, fn_of_value(&env, n->in[1], ic), k->K);
    fn_id none = fn_const(p, DT_I64, (union scalar){.i = -1});
    for (int d = 0; d < base->rank && n->op == OP_SCATTER_ALONG; d++) {
        if (d != axis) i = fn_select(p, ic[d], sx_const(s->sp, 0), index->dims[d], i, none);
    }
    k->index = i;
    k->add = n->op == OP_SCATTER_ADD || (n->op == OP_SCATTER_ALONG && n->attrs.flag);
    enum dtype d = base->dtype;
    k->acc = d == DT_F64 || !dtype_is_float(d) ? d : DT_F32;
    fn_id src = fn_of_value(&env, n->in[2], sc);
    k->src = fn_convert(p, k->add && s->opt->prec == PREC_BOUNDARY ? src : fn_round(p, src), d);
    if (k->base == 0 || k->index == 0 || k->src == 0) return fail(s);
    fn_id acc = fn_acc(p, 0, d);
    return add_store(s, c, n->out, acc, line, NULL, false);
}

static enum proem_status build_line(struct sched *s, struct cluster *c) {
    struct kernel *k = c->kernel;
    const struct node *n = graph_node(s->g, c->anchor);
    struct env_user u = {s, c->id};
    struct fn_env env = sched_env(s, &u);
    const struct value *in = graph_value(s->g, n->in[0]);
    sx coord[MAX_RANK];
    k->K = in->dims[n->attrs.axis];
    k->k = sx_var(s->sp, "k", k->K);
    line_coords(s, k, in, n->attrs.axis, k->k, coord);
    k->acc = in->dtype;
    if (c->kind == KERNEL_SCAN) {
        bool is_float = dtype_is_float(in->dtype);
        k->acc = !is_float ? DT_I64 : in->dtype == DT_F64 ? DT_F64 : DT_F32;
    }
    fn_id f = fn_of_value(&env, n->in[0], coord);
    if (c->kind == KERNEL_SORT) f = fn_round(s->plan->fns, f);
    k->src = fn_convert(s->plan->fns, f, k->acc);
    k->descending = n->op == OP_TOPK || n->attrs.flag;
    k->N = n->op == OP_TOPK ? n->attrs.k : k->K;
    if (k->src == 0) return fail(s);
    for (int i = 0; i < n->n_out; i++) {
        value_id v = n->out + (value_id)i;
        if (!s->v[v].stored) continue;
        /* accumulator 0: the running sum or the ordered value; 1: its position */
        bool position = graph_node(s->g, c->anchor)->op == OP_ARGSORT || i == 1;
        enum dtype d = c->kind == KERNEL_SCAN ? k->acc : position ? DT_I64 : in->dtype;
        fn_id acc = fn_convert(s->plan->fns, fn_acc(s->plan->fns, position ? 1 : 0, d),
                               graph_value(s->g, v)->dtype);
        TRY(add_store(s, c, v, acc, coord, NULL, false));
    }
    return PROEM_OK;
}

/* ---- order, reads, checks ----------------------------------------------------------------------
 */

static enum proem_status launch_order(struct sched *s) {
    size_t n = s->clusters.n, done = 0, active = 0;
    bits ready = bits_new(s), placed = bits_new(s);
    if (ready == NULL || placed == NULL) return err_nomem(s->err);
    for (size_t i = 0; i < n; i++) {
        if (s->clusters.at[i]->active)
            active++;
        else
            bits_set(ready, (int)i);
    }
    while (done < active) {
        size_t before = done;
        for (size_t i = 0; i < n; i++) {
            struct cluster *c = s->clusters.at[i];
            bool waits = bits_get(ready, (int)i);
            for (size_t w = 0; w < s->words; w++) {
                uint64_t self = i / 64 == w ? (uint64_t)1 << (i % 64) : 0;
                waits = waits || (c->reach[w] & ~ready[w] & ~self) != 0;
            }
            if (waits) continue;
            bits_set(ready, (int)i);
            c->kernel->id = (int)s->plan->kernels.n;
            if (!VEC_PUSH(s->arena, &s->plan->kernels, c->kernel)) return err_nomem(s->err);
            done++;
        }
        if (done == before) return err_set(s->err, PROEM_INTERNAL, "the kernels form a cycle");
    }
    return PROEM_OK;
}

/* Checks go to the first kernel that evaluates the operator which relies on them. */
static enum proem_status build_checks(struct sched *s) {
    struct env_user u = {s, -1};
    struct fn_env env = sched_env(s, &u);
    for (size_t i = 0; i < s->plan->low.checks.n; i++) {
        const struct data_check *c = &s->plan->low.checks.at[i];
        value_id out = graph_node(s->g, c->user)->out;
        if (!s->v[out].live) continue;
        int first = -1;
        for (size_t j = 0; j < s->clusters.n; j++) {
            struct cluster *cl = s->clusters.at[j];
            bool uses = cl->active && (bits_get(s->v[out].users, (int)j) ||
                                       (s->v[out].stored && s->v[out].owner == (int)j));
            if (uses && (first < 0 || cl->kernel->id < first)) first = cl->kernel->id;
        }
        if (first < 0) continue;
        const struct value *v = graph_value(s->g, c->value);
        struct plan_check pc = {.kind = c->kind,
                                .value = c->value,
                                .user = c->user,
                                .bound = c->bound,
                                .kernel = first};
        sx coord[MAX_RANK];
        pc.N = dims_product(s->sp, v->rank, v->dims);
        pc.n = sx_var(s->sp, "n", pc.N);
        coords_of_linear(s->sp, pc.n, v->rank, v->dims, coord);
        pc.f = fn_convert(s->plan->fns, fn_of_value(&env, c->value, coord), DT_I64);
        if (pc.f == 0) return fail(s);
        struct kernel *k = s->plan->kernels.at[first];
        if (!VEC_PUSH(s->arena, &k->checks, (int)s->plan->checks.n) ||
            !VEC_PUSH(s->arena, &s->plan->checks, pc))
            return err_nomem(s->err);
    }
    return PROEM_OK;
}

enum proem_status sched_build(struct sched *s) {
    for (size_t i = 0; i < s->clusters.n; i++) {
        struct cluster *c = s->clusters.at[i];
        if (!c->active) continue;
        if (holds(c))
            TRY(build_held(s, c));
        else if (c->kind == KERNEL_POINTWISE)
            TRY(build_pointwise(s, c));
        else if (c->kind == KERNEL_SCATTER)
            TRY(build_scatter(s, c));
        else
            TRY(build_line(s, c));
    }
    TRY(launch_order(s));
    return build_checks(s);
}
