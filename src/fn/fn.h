/* SPDX-License-Identifier: MIT
 * fn: a typed scalar DAG over index expressions. The one object behind prologues, epilogues and
 * plain kernels: an operand f(z, m, k), a result g(acc, ..) at (z, m, n), an element of a map.
 *
 *   f := const | index(e) | load(t, e..) | acc(i) | op(f..) | cast(f) | round(f) | bitcast(f)
 *      | where(f, f, f) | select(lo <= e < hi, f, f)
 *
 * e are symbolic integers (base/sx.h) over the kernel's coordinates, one for each dimension of a
 * tensor, and may hold look-ups: atoms whose key is the fn node that yields the index. Nodes are
 * hash-consed: equal nodes have equal ids. Fusing a producer is substituting its coordinates.
 *
 * Dtypes: every node carries the dtype that the graph declares for it. A node of a narrow float
 * dtype holds a wider (f32) value until a round, cast or store rounds it; `exact` says that the
 * value is a value of its dtype. Where roundings stand is decided by the precision mode when the fn
 * is built (fn/compose.c); generators only do what is written.
 */
#ifndef PROEM_FN_H
#define PROEM_FN_H

#include "base/sx.h"
#include "graph/graph.h"
#include "ops/op.h"

typedef uint32_t fn_id; /* 0: none */

enum fn_kind {
    FN_NONE,
    FN_CONST,   /* c */
    FN_INDEX,   /* the integer e */
    FN_LOAD,    /* tensor[idx..] */
    FN_ACC,     /* accumulator or row statistic number acc of the kernel */
    FN_OP,      /* elementwise operator on operands of dtype `compute` */
    FN_CONVERT, /* operand's value in another lane type or dtype label, as promotion does */
    FN_CAST,    /* a conversion that rounds (contract's cast) */
    FN_ROUND,   /* rounded to its own dtype */
    FN_BITCAST, /* same width */
    FN_WHERE,   /* arg0 ? arg1 : arg2 */
    FN_SELECT   /* lo <= e < hi ? arg0 : arg1; the other side is not evaluated */
};

struct fn_node {
    enum fn_kind kind;
    enum dtype dtype;
    enum dtype compute; /* FN_OP: dtype of the operands */
    enum op op;
    bool exact;
    bool saturate;
    int n_arg;
    fn_id arg[3];
    value_id tensor;
    int rank;
    const sx *idx;
    int acc;
    union scalar c;
    double param[2];
    sx e, lo, hi;
};

struct fn_pool;

struct fn_pool *fn_pool_new(struct arena *a, struct sx_pool *pool);
struct sx_pool *fn_sx(const struct fn_pool *p);
const struct fn_node *fn_get(const struct fn_pool *p, fn_id f);
uint32_t fn_count(const struct fn_pool *p);

fn_id fn_const(struct fn_pool *p, enum dtype d, union scalar c);
fn_id fn_index(struct fn_pool *p, sx e);
fn_id fn_load(struct fn_pool *p, value_id tensor, enum dtype d, int rank, const sx *idx);
fn_id fn_acc(struct fn_pool *p, int acc, enum dtype d);
/* Operands are converted to `compute` first. The result has dtype d. */
fn_id fn_op(struct fn_pool *p, enum op op, enum dtype compute, enum dtype d, int n,
            const fn_id *arg, const double *param);
fn_id fn_convert(struct fn_pool *p, fn_id f, enum dtype to);
fn_id fn_cast(struct fn_pool *p, fn_id f, enum dtype to, bool saturate);
fn_id fn_round(struct fn_pool *p, fn_id f);
fn_id fn_bitcast(struct fn_pool *p, fn_id f, enum dtype to);
fn_id fn_where(struct fn_pool *p, fn_id c, fn_id a, fn_id b);
fn_id fn_select(struct fn_pool *p, sx e, sx lo, sx hi, fn_id a, fn_id b);
/* The index `f` wrapped (a negative one counts from the end) as a symbolic integer below n. */
sx fn_look(struct fn_pool *p, fn_id f, sx n);

/* The DAG with atoms of its index expressions replaced (look-ups' own fns included). */
fn_id fn_subst(struct fn_pool *p, fn_id f, const sx *from, const sx *to, int n);
/* Does the value depend on the atom (through indices, conditions and look-ups)? */
bool fn_depends(struct fn_pool *p, fn_id f, sx atom);
bool sx_depends(struct fn_pool *p, sx e, sx atom);
/* Is f(..) exactly 0 when every load yields `fill` = 0? Used for K tails. */
bool fn_zero_at_zero(struct fn_pool *p, fn_id f);

/* Bounds of the value of an integer node of at most 32 bits; false for others. */
bool fn_bounds(struct fn_pool *p, fn_id f, int64_t *lo, int64_t *hi);

/* Call visit once for each distinct node reachable from f (look-ups' fns included), operands
 * first. */
typedef void (*fn_visit)(void *user, fn_id f);
void fn_walk(struct fn_pool *p, fn_id f, fn_visit visit, void *user);
/* Scalar work of one evaluation, in units of one simple vector operation. */
double fn_cost(struct fn_pool *p, fn_id f);

/* Zeroed scratch for a walk, an entry per node (in the pool's arena); NULL when memory is out. */
bool *fn_scratch(struct fn_pool *p, uint32_t n);
fn_id *fn_scratch_ids(struct fn_pool *p, uint32_t n);

/* Readable text of a fn, for explanations and dumps. */
void fn_print(struct fn_pool *p, const struct graph *g, fn_id f, struct str *out);

#endif
