/* SPDX-License-Identifier: MIT
 * Factors of an operand that do not depend on k, applied to the finished sum instead:
 *     sum_k (a(m, k) * r(m)) * b(n, k)  =  r(m) * sum_k a(m, k) * b(n, k)
 * and the same for divisors and for columns. Products are taken apart through roundings that are
 * implied (design: `boundary` may leave these out), never through a written cast.
 *
 * Legal only in `boundary`, and only where the sum is not empty (an empty one is 0 whatever the
 * factor). What is left of the operand enters the product in the operand's own dtype.
 *
 * The same for factors that change with k from group to group only (a block's scale), for templates
 * that add up groups apart:
 *     sum_k b(n, k) * s(n, k / G) * a(m, k)  =  sum_j s(n, j) * sum_{k in group j} b(n, k) * a(m, k)
 *
 * And terms of integers that do not depend on k (a zero point), in every mode, for sums wrap:
 *     sum_k (a(m, k) - z(m)) * b(n, k)  =  sum_k a(m, k) * b(n, k) - z(m) * sum_k b(n, k)
 */
#include "fuse/algebra.h"

#include "fuse/sched.h"

#define MAX_FACTORS 16

struct factors {
    struct fn_pool *p;
    struct sx_pool *sp;
    sx k;
    sx at, rest; /* a place in a group, k = G * group + rest; 0: no groups */
    enum dtype compute;
    int n_keep, n_move;
    fn_id keep[MAX_FACTORS], move[MAX_FACTORS];
    bool divide[MAX_FACTORS];
    bool full;
};

static void move_out(struct factors *s, fn_id f, bool divide) {
    if (s->n_move == MAX_FACTORS) {
        s->full = true;
        return;
    }
    s->divide[s->n_move] = divide;
    s->move[s->n_move++] = f;
}

struct steady_walk {
    struct factors *s;
    bool steady;
};

static void steady_index(struct steady_walk *w, sx x) {
    struct factors *s = w->s;
    if (!w->steady || !sx_depends(s->p, x, s->k)) return;
    w->steady = sx_has(s->sp, x, s->k); /* else it depends through a look-up */
    sx in_group = sx_subst(s->sp, x, &s->k, &s->at, 1);
    if (in_group == 0 || sx_depends(s->p, in_group, s->rest)) w->steady = false;
}

static void steady_visit(void *user, fn_id f) {
    struct steady_walk *w = user;
    const struct fn_node *n = fn_get(w->s->p, f);
    for (int i = 0; i < n->rank; i++)
        steady_index(w, n->idx[i]);
    if (n->kind == FN_INDEX || n->kind == FN_SELECT) steady_index(w, n->e);
    if (n->kind != FN_SELECT) return;
    steady_index(w, n->lo);
    steady_index(w, n->hi);
}

/* Is f the same for all k, or for all k of a group? */
static bool is_steady(struct factors *s, fn_id f) {
    if (!fn_depends(s->p, f, s->k)) return true;
    struct steady_walk w = {s, s->at != 0};
    if (w.steady) fn_walk(s->p, f, steady_visit, &w);
    return w.steady;
}

static void split(struct factors *s, fn_id f) {
    const struct fn_node *n = fn_get(s->p, f);
    if (is_steady(s, f)) {
        move_out(s, f, false);
        return;
    }
    bool same_value = n->kind == FN_ROUND ||
                      (n->kind == FN_CONVERT && dtype_is_float(fn_get(s->p, n->arg[0])->dtype));
    bool product = n->kind == FN_OP && dtype_is_float(n->compute);
    if (same_value) {
        split(s, n->arg[0]);
    } else if (product && n->op == OP_MUL) {
        fn_id a = n->arg[0], b = n->arg[1];
        split(s, a);
        split(s, b);
    } else if (product && n->op == OP_DIV && is_steady(s, n->arg[1])) {
        fn_id a = n->arg[0];
        move_out(s, n->arg[1], true);
        split(s, a);
    } else if (s->n_keep < MAX_FACTORS) {
        s->keep[s->n_keep++] = f;
    } else {
        s->full = true;
    }
}

static fn_id times(struct factors *s, enum op op, fn_id a, fn_id b) {
    return fn_op(s->p, op, s->compute, s->compute, 2, (fn_id[]){a, b}, NULL);
}

/* What is left of an operand, as it enters the product. */
static fn_id kept(struct factors *f, enum dtype own) {
    fn_id rest = f->keep[0];
    for (int i = 1; i < f->n_keep; i++)
        rest = times(f, OP_MUL, rest, f->keep[i]);
    return fn_convert(f->p, fn_round(f->p, fn_convert(f->p, rest, own)), f->compute);
}

static fn_id scaled(struct factors *f, fn_id r) {
    for (int i = 0; i < f->n_move; i++)
        r = times(f, f->divide[i] ? OP_DIV : OP_MUL, r, f->move[i]);
    return r;
}

/* Take factors out of one operand; its fn is replaced and the result's scaled. */
static bool move_factors(struct sched *s, struct kernel *k, fn_id *operand, enum dtype own,
                         fn_id *result) {
    struct factors f = {.p = s->plan->fns, .sp = s->sp, .k = k->k, .compute = k->acc};
    split(&f, *operand);
    if (f.n_move == 0 || f.n_keep == 0 || f.full) return false;
    fn_id rest = kept(&f, own), r = scaled(&f, *result);
    if (rest == 0 || r == 0) return false;
    *operand = rest;
    *result = r;
    return true;
}

/* Does the few-rows template run at all, where the right operand is evaluated in the inner loop; or
 * is there a division in the operand? Else a factor costs less where it is than a special case. */
static bool worth_it(struct sched *s, const struct kernel *k, fn_id f) {
    return k->tile.rows || fn_cost(s->plan->fns, f) >= 5;
}

void sched_algebra(struct sched *s, struct cluster *c, fn_id *result) {
    struct kernel *k = c->kernel;
    const struct node *n = graph_node(s->g, c->anchor);
    int64_t depth;
    if (s->opt->prec != PREC_BOUNDARY || s->opt->policy == FUSE_NEVER) return;
    if (!dtype_is_float(k->acc) || k->n_b != 1) return;
    if (!sx_is_const(s->sp, k->K, &depth) || depth < 1) return;
    fn_id r = fn_acc(s->plan->fns, 0, k->acc);
    if (worth_it(s, k, k->a))
        k->moved[0] = move_factors(s, k, &k->a, graph_value(s->g, n->in[0])->dtype, &r);
    if (worth_it(s, k, k->b[0]))
        k->moved[1] = move_factors(s, k, &k->b[0], graph_value(s->g, n->in[1])->dtype, &r);
    if (k->moved[0] || k->moved[1]) *result = r;
}

bool algebra_group_factor(struct plan *p, const struct kernel *k, fn_id operand, enum dtype own,
                          int64_t length, fn_id *rest, fn_id *factor) {
    struct sx_pool *sp = p->low.graph->sx;
    if (p->prec != PREC_BOUNDARY || !dtype_is_float(k->acc)) return false;
    struct factors f = {.p = p->fns, .sp = sp, .k = k->k, .compute = k->acc};
    f.rest = sx_var(sp, "rest", sx_const(sp, length));
    f.at = sx_add(sp, sx_mul(sp, sx_var(sp, "group", 0), sx_const(sp, length)), f.rest);
    split(&f, operand);
    if (f.n_move == 0 || f.n_keep == 0 || f.full) return false;
    *rest = kept(&f, own);
    int first = 0;
    while (first < f.n_move && f.divide[first])
        first++;
    fn_id r = first < f.n_move ? f.move[first] : fn_const(f.p, DT_F32, (union scalar){.f = 1});
    if (first < f.n_move) {
        f.move[first] = f.move[--f.n_move];
        f.divide[first] = f.divide[f.n_move];
    }
    *factor = scaled(&f, fn_convert(f.p, r, k->acc));
    return *rest != 0 && *factor != 0;
}

bool algebra_bytes(struct plan *p, const struct kernel *k, fn_id operand, fn_id *rest,
                   fn_id *term) {
    struct fn_pool *fp = p->fns;
    int64_t lo, hi;
    fn_id f = operand;
    while (fn_get(fp, f)->kind == FN_CONVERT &&
           dtype_is_int(fn_get(fp, fn_get(fp, f)->arg[0])->dtype) &&
           dtype_bits(fn_get(fp, fn_get(fp, f)->arg[0])->dtype) == 32)
        f = fn_get(fp, f)->arg[0];
    const struct fn_node *n = fn_get(fp, f);
    *rest = operand;
    *term = 0;
    if (n->kind == FN_OP && n->op == OP_SUB && n->compute == DT_I32 &&
        !fn_depends(fp, n->arg[1], k->k)) {
        fn_id a = n->arg[0], b = n->arg[1];
        *rest = fn_convert(fp, a, k->acc);
        *term = fn_convert(fp, b, k->acc);
    }
    if (*rest == 0 || !fn_bounds(fp, *rest, &lo, &hi) || hi - lo > 255) return false;
    if (lo >= 0 && hi <= 255) return true;
    fn_id by = fn_const(fp, k->acc, (union scalar){.i = lo});
    *rest = fn_op(fp, OP_SUB, k->acc, k->acc, 2, (fn_id[]){*rest, by}, NULL);
    *term = *term == 0 ? fn_op(fp, OP_NEG, k->acc, k->acc, 1, &by, NULL)
                       : fn_op(fp, OP_SUB, k->acc, k->acc, 2, (fn_id[]){*term, by}, NULL);
    return *rest != 0 && *term != 0;
}
