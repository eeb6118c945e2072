/* SPDX-License-Identifier: MIT
 * Inside the scheduler. The steps, in order:
 *   clusters.c  a cluster (future kernel) for each operator that does not map elements; row
 *               reductions over one domain share a cluster; values that follow a cluster's result
 *               element by element are absorbed as its epilogue (its region)
 *   decide.c    from the outputs backwards: which of the remaining values are stored, which are
 *               computed inside their consumers' loads; by the model of cost.c, for products with
 *               their operands as uses.c finds them
 *   build.c     the kernels: fns at every hook, stores, checks, launch order
 *   edges.c     bytes, and the record of every edge for `explain`
 */
#ifndef PROEM_SCHED_H
#define PROEM_SCHED_H

#include "base/device.h"
#include "fuse/plan.h"

/* A set of clusters. */
typedef uint64_t *bits;

struct cluster {
    int id;
    enum kernel_kind kind;
    node_id anchor;
    struct kernel *kernel; /* coordinates from the start, fns once built */
    /* reductions: the reduced operand's shape and axes, and the coordinates of its element */
    int rank;
    sx dims[MAX_RANK];
    bool reduced[MAX_RANK];
    sx coord[MAX_RANK];
    node_id also[MAX_B]; /* further products of the same left operand (kernel->n_b - 1 of them) */
    bits reach;          /* clusters that this one depends on */
    int size;            /* values that its region holds, then: that it evaluates */
    bool active;
};

/* A kernel evaluates at most so many values, each a few nodes of its fns; what would make it larger
 * is stored. The time that a C compiler takes grows faster than the length of a loop's body: so many
 * operators take it some seconds, ten times as many take minutes, and kernels are compiled in
 * parallel. The depth of every fn, and so of every walk over one, is bounded as well. */
#define MOST_VALUES 192

struct value_state {
    int region; /* cluster that holds the value in registers, -1 */
    sx *pos;    /* its coordinates there */
    struct fn_bounds bounds;
    fn_id f;   /* its fn there */
    bits prov; /* clusters that the value is computed from */
    bool live, stored, is_output;
    bool checked; /* a data check computes it, from values that are stored */
    bool cut;     /* the region that holds it was full before a value that follows it */
    int owner;    /* cluster or pointwise kernel that stores it; index into plan.kernels later */
    const char *rule; /* why it is stored or inlined (docs/fusion.md) */
    const char *why;
    bits users; /* kernels that evaluate it: clusters, then pointwise kernels */
};

struct sched {
    struct plan *plan;
    const struct graph *g; /* lowered */
    const struct plan_options *opt;
    struct arena *arena;
    struct sx_pool *sp;
    struct err *err;
    struct value_state *v; /* by value */
    VEC(struct cluster *) clusters;
    size_t words;      /* of a bit set; room for every node to be a cluster */
    signed char *k_at; /* scratch of uses.c, by value */
};

bool bits_get(bits b, int i);
void bits_set(bits b, int i);
bool bits_or(bits b, const uint64_t *other, size_t words); /* did b change? */
bits bits_new(struct sched *s);

/* May the edge from value u to node n be fused at all, given policy and forces? Views always may.
 */
/* Accumulator number i, of dtype acc, as the value of dtype d that it is the result for. */
fn_id sched_finished(struct sched *s, int i, enum dtype acc, enum dtype d);
/* If n joins results of two products of one left operand, make them one kernel (products.c). */
void sched_join_products(struct sched *s, const struct node *n);

bool edge_allowed(const struct sched *s, value_id u, const struct node *n);
struct cluster *cluster_new(struct sched *s, enum kernel_kind kind, node_id anchor);
/* Would cluster c depending on all of `prov` close a cycle? */
bool would_cycle(const struct sched *s, int c, bits prov);
void cluster_depend(struct sched *s, int c, bits prov);

/* Can value v be computed at cluster c's element `coord` from what c holds and from values that do
 * not depend on c? */
bool sched_derivable(struct sched *s, struct cluster *c, value_id v, const sx *coord);

/* A fn environment in which cluster c's registers are held (c < 0: none). */
struct env_user {
    struct sched *s;
    int cluster;
};
struct fn_env sched_env(struct sched *s, struct env_user *u);

/* Move factors of a product's operands that do not depend on k behind the sum: *result is what the
 * accumulator stands for, in the accumulating dtype (algebra.c). */
void sched_algebra(struct sched *s, struct cluster *c, fn_id *result);

/* Seconds of product c with v computed in its loads, and with v in memory. False: c does not read v
 * there, a size is not known, or the device has no model of products (uses.c). */
bool sched_product_costs(struct sched *s, const struct cluster *c, value_id v,
                         const struct device_desc *d, double *inlined, double *stored);

enum proem_status sched_clusters(struct sched *s);
enum proem_status sched_decide(struct sched *s);
enum proem_status sched_build(struct sched *s);
enum proem_status sched_edges(struct sched *s);

/* Coordinates under dims of the element number `lin` of a compact row-major array. */
void coords_of_linear(struct sx_pool *sp, sx lin, int rank, const sx *dims, sx *coord);
sx dims_product(struct sx_pool *sp, int rank, const sx *dims);
/* Bytes of a value's storage, -1 if sizes are not bound. */
int64_t value_bytes(const struct sched *s, value_id v);
int64_t value_count(const struct sched *s, value_id v);

/* Coordinates of a contraction's operands over (z, m, k), (z, n, k), and of its result. */
struct matmul_axes {
    sx Z, M, N, K;
    sx a[MAX_RANK], b[MAX_RANK], c[MAX_RANK];
};
void matmul_axes(struct sched *s, const struct node *n, sx z, sx m, sx nn, sx k,
                 struct matmul_axes *out);
void matmul_extents(struct sched *s, const struct node *n, struct matmul_axes *out);

#endif
