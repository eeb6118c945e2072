/* SPDX-License-Identifier: MIT
 * The plan: what the scheduler decides and the generators write out. A list of kernels in launch
 * order, each an iteration space with fns at its hooks.
 */
#ifndef PROEM_PLAN_H
#define PROEM_PLAN_H

#include "fn/compose.h"
#include "opt/lower.h"
#include "tile/tile.h"

enum kernel_kind {
    KERNEL_POINTWISE, /* out(z, n) = f                                     one row at a time   */
    KERNEL_MATMUL,    /* acc_i(z, m, n) = sum_k a(z, m, k) b_i(z, n, k)                        */
    KERNEL_REDUCTION, /* passes over k for each row z, then stores per row and per (z, k)      */
    KERNEL_SCATTER,   /* out = base with lines replaced or added to, through an index          */
    KERNEL_SCAN,      /* running sum along k for each row z                                    */
    KERNEL_SORT       /* order along k for each row z: positions, and values                   */
};

const char *kernel_kind_name(enum kernel_kind k);

/* A result written to memory: value[idx..] = f where all bounds hold. */
struct kernel_store {
    value_id value;
    fn_id f;
    int rank;
    sx idx[MAX_RANK];
    struct fn_bounds bounds;
    bool per_row; /* of a reduction: once a row, not for each k */
};

/* One step of a reduction kernel: accumulator number i (its position) = reduce over k of f, which
 * may use accumulators of earlier passes. */
struct kernel_pass {
    enum op op;       /* SUM PROD MAX MIN ARGMAX ARGMIN */
    enum dtype acc;   /* dtype that accumulates: f32 f64 i64 or, for max and min, the operand's */
    enum dtype label; /* dtype of the result value */
    int level;        /* passes of one level run in the same sweep over k */
    value_id value;
    fn_id f;
    fn_id result; /* the finished accumulator as the value of its dtype */
};

/* How --tune came to a product's tile. All zero: it was not asked. */
struct kernel_tuned {
    bool done;        /* measured, now or by an earlier compile */
    bool cached;      /* by an earlier one */
    bool reordered;   /* its K order is not the model's: results may differ */
    int tried;        /* tiles that were measured, the model's included */
    double model_us;  /* median time of the model's tile */
    double taken_us;  /* and of the one that was taken */
    const char *note; /* why nothing was measured; else NULL */
};

#define MAX_B      4
#define MAX_PASSES 8

struct kernel {
    int id;
    enum kernel_kind kind;
    const char *name;
    node_id anchor; /* the lowered node that the kernel is built around; 0 for pointwise */
    /* Linear coordinates; extents are symbolic. Unused ones are 0. */
    sx z, m, n, k;
    sx Z, M, N, K;
    /* matmul */
    int n_b;
    fn_id a, b[MAX_B];
    enum dtype acc; /* f32 f64 i32 i64 */
    /* reduction */
    int n_pass;
    struct kernel_pass pass[MAX_PASSES];
    /* scatter: the element of `base` (of a line, at k), of the index (at n), of the source (at n)
     */
    fn_id base, index, src;
    bool add;
    bool descending; /* sort */
    VEC(struct kernel_store) stores;
    /* checks to run before it: numbers in lowered.checks, and the fn of the checked value over the
     * linear coordinate n of its own space */
    VEC(int) checks;
    /* memory */
    VEC(value_id) reads;               /* distinct stored values that it loads */
    bool prepack[1 + MAX_B];           /* operand depends on constants alone */
    int64_t bytes_read, bytes_written; /* -1 when sizes are not bound */
    struct tile tile;                  /* matmul: how it is cut */
    struct tile_problem problem;       /* matmul: what was asked of the model for it */
    struct tile model_tile;            /* the model's, whatever tuning made of `tile` */
    struct kernel_tuned tuned;
    bool moved[2]; /* matmul: are there factors of a, of b, applied to the result instead? */
    /* what it evaluates, for explain: lowered values */
    VEC(value_id) prologue_a, prologue_b, epilogue;
};

/* A condition on data, to be tested before kernel `kernel` runs. */
struct plan_check {
    enum check_kind kind;
    value_id value;
    node_id user;
    sx bound;
    sx n, N; /* linear coordinate of the checked value's elements */
    fn_id f;
    int kernel;
};

enum verdict { VERDICT_FUSED, VERDICT_MOVED, VERDICT_STORED };

struct plan_edge {
    node_id from, to; /* source graph */
    int input;        /* operand number of `to` */
    enum verdict verdict;
    const char *rule;
    const char *why;
};

struct plan {
    const struct graph *source;
    struct lowered low;
    struct fn_pool *fns;
    enum precision prec;
    VEC(struct kernel *) kernels;
    VEC(struct plan_check) checks;
    VEC(struct plan_edge) edges;
    bool *stored;                       /* by lowered value */
    int *owner;                         /* kernel that stores it, -1 */
    int64_t bytes_fused, bytes_unfused; /* -1 when sizes are not bound */
};

enum fuse_policy { FUSE_MODEL, FUSE_ALWAYS, FUSE_NEVER };

/* --fuse FROM:TO=always|never */
struct fuse_force {
    const char *from, *to;
    bool fuse;
};

struct plan_options {
    enum precision prec;
    enum fuse_policy policy;
    const struct fuse_force *force;
    size_t n_force;
    bool assume_bandwidth;
    const struct dims_binding *dims; /* sizes known now, or NULL */
    const struct device_desc *device;
};

/* needs: a verified graph. gives: the plan, allocated in g's arena. */
enum proem_status plan_make(const struct graph *g, const struct plan_options *o, struct plan *out,
                            struct err *e);

/* The same for a graph that opt_lower has lowered. */
enum proem_status plan_lowered(const struct graph *g, const struct lowered *low,
                               const struct plan_options *o, struct plan *out, struct err *e);

#endif
