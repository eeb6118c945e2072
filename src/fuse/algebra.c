/* SPDX-License-Identifier: MIT
 * Factors of an operand that do not depend on k, applied to the finished sum instead:
 *     sum_k (a(m, k) * r(m)) * b(n, k)  =  r(m) * sum_k a(m, k) * b(n, k)
 * and the same for divisors and for columns. Products are taken apart through roundings that are
 * implied (design: `boundary` may leave these out), never through a written cast.
 *
 * Legal only in `boundary`, and only where the sum is not empty (an empty one is 0 whatever the
 * factor). What is left of the operand enters the product in the operand's own dtype.
 */
#include "fuse/sched.h"

#define MAX_FACTORS 16

struct factors {
    struct fn_pool *p;
    sx k;
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

static void split(struct factors *s, fn_id f) {
    const struct fn_node *n = fn_get(s->p, f);
    if (!fn_depends(s->p, f, s->k)) {
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
    } else if (product && n->op == OP_DIV && !fn_depends(s->p, n->arg[1], s->k)) {
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

/* Take factors out of one operand; its fn is replaced and the result's scaled. */
static bool move_factors(struct sched *s, struct kernel *k, fn_id *operand, enum dtype own,
                         fn_id *result) {
    struct factors f = {.p = s->plan->fns, .k = k->k, .compute = k->acc};
    split(&f, *operand);
    if (f.n_move == 0 || f.n_keep == 0 || f.full) return false;
    fn_id rest = f.keep[0];
    for (int i = 1; i < f.n_keep; i++)
        rest = times(&f, OP_MUL, rest, f.keep[i]);
    rest = fn_convert(f.p, fn_round(f.p, fn_convert(f.p, rest, own)), k->acc);
    fn_id r = *result;
    for (int i = 0; i < f.n_move; i++) {
        r = times(&f, f.divide[i] ? OP_DIV : OP_MUL, r, f.move[i]);
    }
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
