/* SPDX-License-Identifier: MIT
 * Clusters: one for each operator that is not a map of elements, and what each absorbs.
 *
 * A value joins the region of a cluster when every element of it is one element of the cluster's
 * result (a bijection followed forward through views and operators without broadcast) and its other
 * operands can be had before the cluster runs. The relation "cluster depends on cluster" is kept
 * transitively closed, so a join that would close a cycle is refused.
 */
#include "fuse/sched.h"

#include <string.h>

/* ---- bit sets -------------------------------------------------------------------------------- */

bool bits_get(bits b, int i) {
    return (b[i / 64] >> (i % 64) & 1u) != 0;
}

void bits_set(bits b, int i) {
    b[i / 64] |= (uint64_t)1 << (i % 64);
}

bool bits_or(bits b, const uint64_t *other, size_t words) {
    bool changed = false;
    for (size_t i = 0; i < words; i++) {
        changed = changed || (other[i] & ~b[i]) != 0;
        b[i] |= other[i];
    }
    return changed;
}

bits bits_new(struct sched *s) {
    return ARENA_NEW(s->arena, uint64_t, s->words);
}

bool would_cycle(const struct sched *s, int c, bits prov) {
    for (size_t i = 0; i < s->clusters.n; i++) {
        if (!bits_get(prov, (int)i)) continue;
        if ((int)i != c && bits_get(s->clusters.at[i]->reach, c)) return true;
    }
    return false;
}

void cluster_depend(struct sched *s, int c, bits prov) {
    bits reach = s->clusters.at[c]->reach;
    for (size_t i = 0; i < s->clusters.n; i++) {
        if ((int)i == c || !bits_get(prov, (int)i)) continue;
        bits_set(reach, (int)i);
        bits_or(reach, s->clusters.at[i]->reach, s->words);
    }
    for (size_t i = 0; i < s->clusters.n; i++) {
        bits r = s->clusters.at[i]->reach;
        if (bits_get(r, c)) bits_or(r, reach, s->words);
    }
}

/* ---- coordinates ----------------------------------------------------------------------------- */

sx dims_product(struct sx_pool *sp, int rank, const sx *dims) {
    sx p = sx_const(sp, 1);
    for (int i = 0; i < rank; i++)
        p = sx_mul(sp, p, dims[i]);
    return p;
}

void coords_of_linear(struct sx_pool *sp, sx lin, int rank, const sx *dims, sx *coord) {
    int first = 0; /* the outermost dim with more than one element needs no % */
    int64_t d;
    while (first < rank - 1 && sx_is_const(sp, dims[first], &d) && d == 1)
        first++;
    for (int i = rank - 1; i >= 0; i--) {
        bool single = sx_is_const(sp, dims[i], &d) && d <= 1;
        if (single) {
            coord[i] = sx_const(sp, 0);
        } else if (i <= first) {
            coord[i] = lin;
        } else {
            coord[i] = sx_mod(sp, lin, dims[i]);
            lin = sx_div(sp, lin, dims[i]);
        }
    }
}

static bool dim_is_one(const struct sched *s, sx d) {
    int64_t v;
    return sx_is_const(s->sp, d, &v) && v == 1;
}

/* Which of the result's batch dims go with m: those that the right operand does not have. */
static void batch_sides(const struct sched *s, const struct node *n, int batch, bool *with_m) {
    const struct value *b = graph_value(s->g, n->in[1]);
    int rb = b->rank >= 2 ? b->rank - 2 : 0;
    for (int i = 0; i < batch; i++) {
        int at = i - (batch - rb);
        with_m[i] = at < 0 || dim_is_one(s, b->dims[at]);
    }
}

struct matmul_dims {
    int batch;
    bool with_m[MAX_RANK];
    int n_z, n_m;
    sx z[MAX_RANK], m[MAX_RANK];
};

static void matmul_dims(struct sched *s, const struct node *n, struct matmul_dims *d) {
    const struct value *a = graph_value(s->g, n->in[0]);
    const struct value *b = graph_value(s->g, n->in[1]);
    const struct value *c = graph_value(s->g, n->out);
    *d = (struct matmul_dims){.batch = c->rank - (a->rank >= 2) - (b->rank >= 2)};
    batch_sides(s, n, d->batch, d->with_m);
    for (int i = 0; i < d->batch; i++) {
        if (d->with_m[i])
            d->m[d->n_m++] = c->dims[i];
        else
            d->z[d->n_z++] = c->dims[i];
    }
    if (a->rank >= 2) d->m[d->n_m++] = a->dims[a->rank - 2];
}

void matmul_extents(struct sched *s, const struct node *n, struct matmul_axes *out) {
    const struct value *a = graph_value(s->g, n->in[0]);
    const struct value *b = graph_value(s->g, n->in[1]);
    struct matmul_dims d;
    matmul_dims(s, n, &d);
    out->Z = dims_product(s->sp, d.n_z, d.z);
    out->M = dims_product(s->sp, d.n_m, d.m);
    out->N = b->rank >= 2 ? b->dims[b->rank - 1] : sx_const(s->sp, 1);
    out->K = a->dims[a->rank - 1];
}

void matmul_axes(struct sched *s, const struct node *n, sx z, sx m, sx nn, sx k,
                 struct matmul_axes *out) {
    const struct value *a = graph_value(s->g, n->in[0]);
    const struct value *b = graph_value(s->g, n->in[1]);
    struct matmul_dims d;
    matmul_dims(s, n, &d);
    matmul_extents(s, n, out);
    sx zc[MAX_RANK], mc[MAX_RANK], batch[MAX_RANK];
    coords_of_linear(s->sp, z, d.n_z, d.z, zc);
    coords_of_linear(s->sp, m, d.n_m, d.m, mc);
    int iz = 0, im = 0;
    for (int i = 0; i < d.batch; i++)
        batch[i] = d.with_m[i] ? mc[im++] : zc[iz++];
    sx zero = sx_const(s->sp, 0);
    int ra = a->rank >= 2 ? a->rank - 2 : 0, rb = b->rank >= 2 ? b->rank - 2 : 0;
    for (int i = 0; i < ra; i++) {
        out->a[i] = dim_is_one(s, a->dims[i]) ? zero : batch[d.batch - ra + i];
    }
    for (int i = 0; i < rb; i++) {
        out->b[i] = dim_is_one(s, b->dims[i]) ? zero : batch[d.batch - rb + i];
    }
    for (int i = 0; i < d.batch; i++)
        out->c[i] = batch[i];
    int c = d.batch;
    if (a->rank >= 2) {
        out->a[a->rank - 2] = mc[d.n_m - 1];
        out->c[c++] = mc[d.n_m - 1];
    }
    out->a[a->rank - 1] = k;
    if (b->rank >= 2) {
        out->b[b->rank - 2] = k;
        out->b[b->rank - 1] = nn;
        out->c[c++] = nn;
    } else {
        out->b[0] = k;
    }
}

/* ---- policy ---------------------------------------------------------------------------------- */

/* The source value that a lowered value stands for, or the origin's first result. */
static const char *source_name(const struct sched *s, value_id v) {
    value_id src = s->plan->low.source_of[v];
    if (src != 0) return graph_value(s->plan->source, src)->name;
    node_id o = graph_def(s->g, v)->origin;
    return graph_value(s->plan->source, graph_node(s->plan->source, o)->out)->name;
}

static node_id origin_of(const struct sched *s, value_id v) {
    return graph_def(s->g, v)->origin;
}

bool edge_allowed(const struct sched *s, value_id u, const struct node *n) {
    const struct node *p = graph_def(s->g, u);
    if (p->op == OP_PARAM || op_is_view(p->op) || op_is_view(n->op)) return true;
    if (p->op == OP_CONST || p->op == OP_DIM) return true;
    if (origin_of(s, u) == n->origin) return true;
    for (size_t i = 0; i < s->opt->n_force; i++) {
        const struct fuse_force *f = &s->opt->force[i];
        if (strcmp(f->from, source_name(s, u)) == 0 && strcmp(f->to, source_name(s, n->out)) == 0)
            return f->fuse;
    }
    return s->opt->policy != FUSE_NEVER;
}

/* ---- environment ----------------------------------------------------------------------------- */

static bool env_stored(void *user, value_id v) {
    struct env_user *u = user;
    return u->s->v[v].stored && u->s->v[v].owner != u->cluster;
}

static enum fn_held env_held(void *user, value_id v, const sx *coord, fn_id *f) {
    struct env_user *u = user;
    const struct value_state *st = &u->s->v[v];
    if (u->cluster < 0 || st->region != u->cluster) return HELD_NO;
    const struct value *val = graph_value(u->s->g, v);
    for (int i = 0; i < val->rank; i++) {
        if (coord[i] != st->pos[i] && !dim_is_one(u->s, val->dims[i])) return HELD_ELSEWHERE;
    }
    *f = st->f;
    return st->f != 0 ? HELD_HERE : HELD_ELSEWHERE;
}

struct fn_env sched_env(struct sched *s, struct env_user *u) {
    return (struct fn_env){.pool = s->plan->fns,
                           .g = s->g,
                           .prec = s->opt->prec,
                           .arena = s->arena,
                           .err = s->err,
                           .is_stored = env_stored,
                           .held = env_held,
                           .user = u};
}

/* ---- clusters -------------------------------------------------------------------------------- */

struct cluster *cluster_new(struct sched *s, enum kernel_kind kind, node_id anchor) {
    struct cluster *c = ARENA_NEW(s->arena, struct cluster, 1);
    struct kernel *k = ARENA_NEW(s->arena, struct kernel, 1);
    if (c == NULL || k == NULL) return NULL;
    *c = (struct cluster){
        .id = (int)s->clusters.n, .kind = kind, .anchor = anchor, .kernel = k, .active = false};
    k->kind = kind;
    k->anchor = anchor;
    k->id = c->id;
    c->reach = bits_new(s);
    if (c->reach == NULL || !VEC_PUSH(s->arena, &s->clusters, c)) return NULL;
    return c;
}

static bool hold(struct sched *s, struct cluster *c, value_id v, const sx *pos,
                 const struct fn_bounds *bounds, fn_id f) {
    struct value_state *st = &s->v[v];
    int rank = graph_value(s->g, v)->rank;
    st->pos = ARENA_NEW(s->arena, sx, rank + 1);
    if (st->pos == NULL) return false;
    if (rank > 0) memcpy(st->pos, pos, (size_t)rank * sizeof *pos);
    if (bounds != NULL) st->bounds = *bounds;
    st->region = c->id;
    st->f = f;
    return true;
}

fn_id sched_finished(struct sched *s, int i, enum dtype acc, enum dtype d) {
    fn_id f = fn_convert(s->plan->fns, fn_acc(s->plan->fns, i, acc), d);
    return s->opt->prec == PREC_BOUNDARY ? f : fn_round(s->plan->fns, f);
}

/* Contract: floats up to 32 bits accumulate in f32, f64 in f64; integers up to 8 bits in i32, wider
 * ones in i64. Of a result of at most 32 bits no more bits of the sum are asked for. */
static enum dtype contraction_acc(const struct sched *s, enum dtype a, enum dtype b,
                                  enum dtype out) {
    if (a == DT_F64 || b == DT_F64) return DT_F64;
    if (dtype_is_float(a) || dtype_is_float(b)) return DT_F32;
    bool narrow = dtype_is_int(out) && dtype_bits(out) <= 32;
    if (narrow && s->opt->device->kind != DEVICE_CUDA) return DT_I32;
    return dtype_bits(a) <= 8 && dtype_bits(b) <= 8 ? DT_I32 : DT_I64;
}

static enum proem_status new_matmul(struct sched *s, node_id id) {
    const struct node *n = graph_node(s->g, id);
    struct cluster *c = cluster_new(s, KERNEL_MATMUL, id);
    if (c == NULL) return err_nomem(s->err);
    struct kernel *k = c->kernel;
    struct matmul_axes ax;
    matmul_extents(s, n, &ax);
    k->n_b = 1;
    k->Z = ax.Z;
    k->M = ax.M;
    k->N = ax.N;
    k->K = ax.K;
    k->z = sx_var(s->sp, "z", k->Z);
    k->m = sx_var(s->sp, "m", k->M);
    k->n = sx_var(s->sp, "n", k->N);
    k->k = sx_var(s->sp, "k", k->K);
    matmul_axes(s, n, k->z, k->m, k->n, k->k, &ax);
    k->acc = contraction_acc(s, graph_value(s->g, n->in[0])->dtype,
                             graph_value(s->g, n->in[1])->dtype, graph_value(s->g, n->out)->dtype);
    fn_id acc = sched_finished(s, 0, k->acc, graph_value(s->g, n->out)->dtype);
    if (acc == 0 || !hold(s, c, n->out, ax.c, NULL, acc)) return err_nomem(s->err);
    return PROEM_OK;
}

static bool is_reduction(enum op op) {
    return op == OP_SUM || op == OP_PROD || op == OP_MAX || op == OP_MIN || op == OP_ARGMAX ||
           op == OP_ARGMIN;
}

static void reduced_axes(const struct sched *s, const struct node *n, bool *reduced) {
    int rank = graph_value(s->g, n->in[0])->rank;
    bool arg = n->op == OP_ARGMAX || n->op == OP_ARGMIN;
    for (int i = 0; i < rank; i++) {
        reduced[i] = arg ? !n->attrs.has_axis || n->attrs.axis == i : n->attrs.n_axes < 0;
        for (int j = 0; !arg && j < n->attrs.n_axes; j++) {
            reduced[i] = reduced[i] || n->attrs.axes[j] == i;
        }
    }
}

/* Coordinates of a reduction's result from those of its operand's element. */
static int result_coords(const struct sched *s, const struct node *n, const struct cluster *c,
                         sx *pos) {
    const struct value *out = graph_value(s->g, n->out);
    int r = 0;
    for (int i = 0; i < c->rank; i++) {
        if (!c->reduced[i])
            pos[r++] = c->coord[i];
        else if (out->rank == c->rank)
            pos[r++] = sx_const(s->sp, 0);
    }
    return r;
}

static enum dtype acc_dtype(const struct node *n, enum dtype in, enum dtype out) {
    bool extreme = n->op == OP_MAX || n->op == OP_MIN || n->op == OP_ARGMAX || n->op == OP_ARGMIN;
    if (extreme) return in;
    if (dtype_is_float(out)) return out == DT_F64 ? DT_F64 : DT_F32;
    return DT_I64;
}

/* Add the reduction n as a pass of cluster c, if its operand can be had there. */
static bool add_pass(struct sched *s, struct cluster *c, const struct node *n) {
    struct kernel *k = c->kernel;
    if (k->n_pass == MAX_PASSES) return false;
    const struct value *in = graph_value(s->g, n->in[0]);
    const struct value *out = graph_value(s->g, n->out);
    sx pos[MAX_RANK];
    result_coords(s, n, c, pos);
    int level = 0;
    for (int i = 0; i < k->n_pass; i++) {
        if (s->v[n->in[0]].prov != NULL && bits_get(s->v[n->in[0]].prov, c->id))
            level = k->pass[i].level + 1;
    }
    enum dtype acc = acc_dtype(n, in->dtype, out->dtype);
    bool arg = n->op == OP_ARGMAX || n->op == OP_ARGMIN;
    fn_id result = sched_finished(s, k->n_pass, arg ? DT_I64 : acc, out->dtype);
    k->pass[k->n_pass] = (struct kernel_pass){.op = n->op,
                                              .acc = acc,
                                              .label = out->dtype,
                                              .level = level,
                                              .value = n->out,
                                              .result = result};
    if (result == 0 || !hold(s, c, n->out, pos, NULL, result)) return false;
    k->n_pass++;
    return true;
}

static bool same_domain(const struct sched *s, const struct cluster *c, const struct node *n) {
    const struct value *in = graph_value(s->g, n->in[0]);
    bool reduced[MAX_RANK];
    reduced_axes(s, n, reduced);
    if (c->kind != KERNEL_REDUCTION || in->rank != c->rank) return false;
    for (int i = 0; i < c->rank; i++) {
        if (in->dims[i] != c->dims[i] || reduced[i] != c->reduced[i]) return false;
    }
    return true;
}

/* Can value v be computed at the domain's element from cluster c's row values and from values that
 * do not depend on c? Held row values must be read at this row. No more than *left values are looked
 * through. */
static bool derivable(struct sched *s, struct cluster *c, value_id v, const sx *coord, int *left) {
    struct value_state *st = &s->v[v];
    if (!bits_get(st->prov, c->id)) return !would_cycle(s, c->id, st->prov);
    if (st->region == c->id) {
        fn_id f;
        struct env_user u = {s, c->id};
        return env_held(&u, v, coord, &f) == HELD_HERE;
    }
    const struct node *n = graph_def(s->g, v);
    if (st->region >= 0 || !op_is_map(n->op) || (*left)-- <= 0) return false;
    struct env_user u = {s, -1};
    struct fn_env env = sched_env(s, &u);
    sx ic[MAX_RANK];
    if (op_is_view(n->op)) {
        view_back(&env, n, graph_value(s->g, v)->out, coord, ic);
        return derivable(s, c, n->in[0], ic, left);
    }
    bool elementwise = op_is_elementwise(n->op) || n->op == OP_WHERE || n->op == OP_CAST;
    if (!elementwise) return false;
    for (int i = 0; i < n->n_in; i++) {
        broadcast_back(&env, n->in[i], graph_value(s->g, v)->rank, coord, ic);
        if (!edge_allowed(s, n->in[i], n) && bits_get(s->v[n->in[i]].prov, c->id)) return false;
        if (!derivable(s, c, n->in[i], ic, left)) return false;
    }
    return true;
}

bool sched_derivable(struct sched *s, struct cluster *c, value_id v, const sx *coord) {
    int left = MOST_VALUES;
    return derivable(s, c, v, coord, &left);
}

static enum proem_status new_reduction(struct sched *s, node_id id) {
    const struct node *n = graph_node(s->g, id);
    bool by_model = s->opt->policy != FUSE_NEVER;
    for (size_t i = s->clusters.n; i-- > 0;) {
        struct cluster *c = s->clusters.at[i];
        if (!same_domain(s, c, n)) continue;
        bool same_origin = graph_node(s->g, c->anchor)->origin == n->origin;
        if (!same_origin && !by_model) continue;
        if (!edge_allowed(s, n->in[0], n) && !same_origin) continue;
        if (would_cycle(s, c->id, s->v[n->in[0]].prov)) continue;
        if (!sched_derivable(s, c, n->in[0], c->coord)) continue;
        if (add_pass(s, c, n)) {
            cluster_depend(s, c->id, s->v[n->in[0]].prov);
            return PROEM_OK;
        }
    }
    struct cluster *c = cluster_new(s, KERNEL_REDUCTION, id);
    if (c == NULL) return err_nomem(s->err);
    struct kernel *k = c->kernel;
    const struct value *in = graph_value(s->g, n->in[0]);
    reduced_axes(s, n, c->reduced);
    c->rank = in->rank;
    sx row[MAX_RANK], col[MAX_RANK], rc[MAX_RANK], cc[MAX_RANK];
    int nr = 0, nc = 0;
    for (int i = 0; i < in->rank; i++) {
        c->dims[i] = in->dims[i];
        if (c->reduced[i])
            col[nc++] = in->dims[i];
        else
            row[nr++] = in->dims[i];
    }
    k->Z = dims_product(s->sp, nr, row);
    k->K = dims_product(s->sp, nc, col);
    k->z = sx_var(s->sp, "z", k->Z);
    k->k = sx_var(s->sp, "k", k->K);
    coords_of_linear(s->sp, k->z, nr, row, rc);
    coords_of_linear(s->sp, k->k, nc, col, cc);
    for (int i = 0, r = 0, q = 0; i < in->rank; i++) {
        c->coord[i] = c->reduced[i] ? cc[q++] : rc[r++];
    }
    return add_pass(s, c, n) ? PROEM_OK : err_nomem(s->err);
}

static enum proem_status new_opaque(struct sched *s, node_id id, enum kernel_kind kind) {
    const struct node *n = graph_node(s->g, id);
    struct cluster *c = cluster_new(s, kind, id);
    if (c == NULL) return err_nomem(s->err);
    for (int i = 0; i < n->n_out; i++) {
        s->v[n->out + (value_id)i].region = c->id;
        s->v[n->out + (value_id)i].pos = NULL;
    }
    return PROEM_OK;
}

/* ---- regions --------------------------------------------------------------------------------- */

/* The only operand of n that cluster c holds, at whose place n's result would be; -1 if the element
 * map is broken, an operand is not to be had, or the edge may not be fused. */
static int epilogue_operand(struct sched *s, const struct cluster *c, const struct node *n) {
    const struct value *out = graph_value(s->g, n->out);
    int found = -1;
    for (int i = 0; i < n->n_in; i++) {
        value_id u = n->in[i];
        if (s->v[u].region != c->id) {
            if (bits_get(s->v[u].prov, c->id) || would_cycle(s, c->id, s->v[u].prov)) return -1;
            continue;
        }
        if (!edge_allowed(s, u, n)) return -1;
        const struct value *val = graph_value(s->g, u);
        bool whole = true; /* u is not broadcast */
        for (int j = 0; j < out->rank; j++) {
            int at = j - (out->rank - val->rank);
            whole =
                whole && (at >= 0 ? val->dims[at] == out->dims[j] : dim_is_one(s, out->dims[j]));
        }
        if (!whole || s->v[u].f == 0) return -1;
        if (found < 0 || graph_value(s->g, n->in[found])->rank < val->rank) found = i;
    }
    return found;
}

static bool absorb_view(struct sched *s, struct cluster *c, const struct node *n) {
    struct env_user u = {s, -1};
    struct fn_env env = sched_env(s, &u);
    const struct value_state *in = &s->v[n->in[0]];
    if (in->region != c->id || in->f == 0) return false;
    bool any = false;
    for (int i = 0; i < n->n_out; i++) {
        sx pos[MAX_RANK];
        struct fn_bounds bounds = in->bounds;
        if (!view_forward(&env, n, i, in->pos, pos, &bounds)) continue;
        any = hold(s, c, n->out + (value_id)i, pos, &bounds, in->f) || any;
    }
    return any;
}

static bool bounds_equal(const struct fn_bounds *a, const struct fn_bounds *b) {
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        const struct fn_bound *x = &a->at[i], *y = &b->at[i];
        if (x->e != y->e || x->lo != y->lo || x->hi != y->hi) return false;
    }
    return true;
}

static bool absorb_operator(struct sched *s, struct cluster *c, const struct node *n) {
    bool elementwise = op_is_elementwise(n->op) || n->op == OP_WHERE || n->op == OP_CAST;
    if (!elementwise) return false;
    int at = epilogue_operand(s, c, n);
    if (at < 0) return false;
    const struct value *out = graph_value(s->g, n->out);
    const struct value *in = graph_value(s->g, n->in[at]);
    sx pos[MAX_RANK];
    for (int j = 0; j < out->rank; j++) {
        int i = j - (out->rank - in->rank);
        pos[j] = i >= 0 ? s->v[n->in[at]].pos[i] : sx_const(s->sp, 0);
    }
    for (int i = 0; i < n->n_in; i++) {
        const struct value_state *u = &s->v[n->in[i]];
        if (u->region != c->id) continue;
        if (!bounds_equal(&u->bounds, &s->v[n->in[at]].bounds)) return false;
        const struct value *val = graph_value(s->g, n->in[i]);
        for (int j = 0; j < val->rank; j++) { /* two results of one cluster, read at one place? */
            sx p = pos[out->rank - val->rank + j];
            if (u->pos[j] != p && !dim_is_one(s, val->dims[j])) return false;
        }
    }
    /* The fn is built once it is known what else is stored (build.c); any id marks it as held. */
    if (!hold(s, c, n->out, pos, &s->v[n->in[at]].bounds, s->v[n->in[at]].f)) return false;
    for (int i = 0; i < n->n_in; i++) {
        if (s->v[n->in[i]].region != c->id) cluster_depend(s, c->id, s->v[n->in[i]].prov);
    }
    return true;
}

static bool absorb_into(struct sched *s, int region, const struct node *n) {
    struct cluster *c = s->clusters.at[region];
    if (c->kind != KERNEL_MATMUL && c->kind != KERNEL_REDUCTION) return false;
    bool full = c->size >= MOST_VALUES / 2; /* loads need room, too */
    for (int i = 0; i < n->n_in && full; i++) {
        struct value_state *u = &s->v[n->in[i]];
        u->cut = u->cut || u->region == region;
    }
    bool takes = !full && (op_is_view(n->op) ? absorb_view(s, c, n) : absorb_operator(s, c, n));
    c->size += takes;
    return takes;
}

/* The cluster that takes the value in: the last one among those that hold an operand; where that
 * cannot be (the value broadcasts what it holds), another one that need not run before it. */
static void absorb(struct sched *s, const struct node *n) {
    sched_join_products(s, n);
    int last = -1;
    for (int i = 0; i < n->n_in; i++) {
        int r = s->v[n->in[i]].region;
        if (r < 0) continue;
        if (last < 0 || bits_get(s->clusters.at[r]->reach, last) ||
            (r > last && !bits_get(s->clusters.at[last]->reach, r)))
            last = r;
    }
    if (last < 0 || absorb_into(s, last, n)) return;
    for (int i = 0; i < n->n_in; i++) {
        int r = s->v[n->in[i]].region;
        if (r >= 0 && r != last && absorb_into(s, r, n)) return;
    }
}

static bool bits_within(const uint64_t *b, const uint64_t *other, size_t words) {
    for (size_t i = 0; i < words; i++) {
        if ((b[i] & ~other[i]) != 0) return false;
    }
    return true;
}

/* The clusters behind a node's operands; an operand's own set where that has them all. */
static bits operands_prov(struct sched *s, const struct node *n) {
    bits all = NULL;
    bool own = false;
    for (int i = 0; i < n->n_in; i++) {
        bits one = n->in[i] != 0 ? s->v[n->in[i]].prov : NULL;
        if (one == NULL || (all != NULL && bits_within(one, all, s->words))) continue;
        if (all == NULL || (!own && bits_within(all, one, s->words))) {
            all = one;
            continue;
        }
        bits sum = own ? all : bits_new(s);
        if (sum == NULL) return NULL;
        if (!own) bits_or(sum, all, s->words);
        bits_or(sum, one, s->words);
        all = sum;
        own = true;
    }
    return all != NULL ? all : bits_new(s);
}

static enum proem_status provenance(struct sched *s, node_id id) {
    const struct node *n = graph_node(s->g, id);
    for (int j = 0; j < n->n_out; j++) {
        struct value_state *st = &s->v[n->out + (value_id)j];
        st->prov = st->region >= 0 ? bits_new(s) : operands_prov(s, n);
        if (st->prov == NULL) return err_nomem(s->err);
        if (st->region >= 0) bits_set(st->prov, st->region);
    }
    return PROEM_OK;
}

static enum proem_status anchor(struct sched *s, node_id id) {
    const struct node *n = graph_node(s->g, id);
    size_t before = s->clusters.n;
    if (n->op == OP_MATMUL)
        TRY(new_matmul(s, id));
    else if (is_reduction(n->op))
        TRY(new_reduction(s, id));
    else if (n->op == OP_CUMSUM)
        TRY(new_opaque(s, id, KERNEL_SCAN));
    else if (n->op == OP_TOPK || n->op == OP_ARGSORT)
        TRY(new_opaque(s, id, KERNEL_SORT));
    else
        TRY(new_opaque(s, id, KERNEL_SCATTER));
    if (s->clusters.n == before) return PROEM_OK; /* joined an earlier cluster */
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] != 0) cluster_depend(s, (int)before, s->v[n->in[i]].prov);
    }
    return PROEM_OK;
}

enum proem_status sched_clusters(struct sched *s) {
    for (node_id id = 1; id < s->g->nodes.n; id++) {
        const struct node *n = graph_node(s->g, id);
        if (n->op != OP_PARAM && s->v[n->out].live) {
            if (op_is_map(n->op))
                absorb(s, n);
            else
                TRY(anchor(s, id));
        }
        TRY(provenance(s, id));
    }
    return arena_ok(s->arena) ? PROEM_OK : err_nomem(s->err);
}
