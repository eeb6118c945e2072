/* SPDX-License-Identifier: MIT
 * What the interpreter computes with: strided tensors over counted stores, blocks of decoded
 * elements ("cells"), the interpreter's state, threads. Private to eval.
 *
 * A store holds the reference values in their own dtype (packed, so that parameters are borrowed
 * and not copied) and up to three channels of doubles beside them: lo, hi  the interval of values
 * that legal plans can reach; absent when every element is exact mag     a bound on the sum of
 * absolute terms of the element's expanded form (q - z has |q| + |z|), which bounds rounding when
 * algebra moves terms across a sum; absent: max(|lo|, |hi|)
 */
#ifndef PROEM_EVAL_TENSOR_H
#define PROEM_EVAL_TENSOR_H

#include "eval/eval.h"
#include "eval/interval.h"

struct store {
    struct store *next; /* in the list of stores made by the running operator */
    int refs;
    void *data;
    size_t bytes; /* 0: data is borrowed */
    double *ch[3];
    size_t n; /* elements that each channel has */
};

enum { CH_LO, CH_HI, CH_MAG, CH_COUNT };

/* Element at coordinates c is number offset + sum(c[d] * stride[d]) of the store, where the
 * coordinate of div_axis (if >= 0) is first divided by div (block scales). */
struct tensor {
    enum dtype dtype;
    int rank;
    int64_t n;
    int64_t shape[MAX_RANK];
    int64_t stride[MAX_RANK];
    int64_t offset;
    int div_axis;
    int64_t div;
    struct store *store; /* NULL: an optional operand that is missing */
};

#define BLOCK                                                                                      \
    512 /* elements decoded at a time; a multiple of 8, so that blocks own whole bytes             \
         */

struct cells {
    double f[BLOCK];  /* values, when the dtype is a float */
    int64_t i[BLOCK]; /* values, when it is an integer or bool */
    double lo[BLOCK], hi[BLOCK], mag[BLOCK];
};

/* State of one evaluation. */
struct ev {
    const struct graph *g;
    const struct dims_binding *binding;
    const struct allocator *alloc;
    enum eval_mode mode;
    bool track; /* carry intervals */
    int threads;
    struct err *err;
    struct arena scratch;       /* of the running operator */
    struct store *made;         /* stores made by the running operator */
    bool *want_mag;             /* per value: a contraction's algebra may see its terms */
    bool *splits;               /* per value: algebra may move a factor or term out of it */
    double *cores;              /* per value that splits: cores.c */
    const char *const *in_name; /* names of the running operator's operands, for data errors */
    int n_names;
    const int64_t *pair_i, *pair_j; /* in a hook: the pairs that are evaluated, of head pair_h */
    int64_t pair_b, pair_h;
    bool out_mag;                /* the running operator should give mag */
    const struct tensor *values; /* by value id: what hooks capture */
    const int64_t *rows;         /* attention: rows of the result that are asked for; NULL: all */
    int64_t n_rows;
};

/* An operator's evaluation: in has node->n_in tensors, out has dtype, rank, shape and n set. */
typedef enum proem_status (*op_fn)(struct ev *ev, const struct node *n, const struct tensor *in,
                                   struct tensor *out);

/* ---- tensor.c -------------------------------------------------------------------------------- */

/* Give t (dtype, rank, shape set) a new store with row-major strides; channels as asked. */
enum proem_status tensor_new(struct ev *ev, struct tensor *t);
enum proem_status tensor_channel(struct ev *ev, struct tensor *t, int ch);
/* lo and hi for t, uninitialised, if the evaluation tracks and `inexact`; mag if the node wants it.
 */
enum proem_status tensor_intervals(struct ev *ev, struct tensor *t, bool inexact);
void store_release(struct ev *ev, struct store *s);
/* Throw away lo and hi when they are the value everywhere. t is as tensor_new left it. */
void tensor_drop_exact(struct ev *ev, struct tensor *t);
void tensor_set_shape(struct tensor *t, enum dtype d, int rank, const int64_t *shape);
bool tensor_is_compact(const struct tensor *t);
static inline bool tensor_exact(const struct tensor *t) {
    return t->store == NULL || t->store->ch[CH_LO] == NULL;
}
/* The same elements in the same order with as few dims as possible. */
struct tensor tensor_flat(const struct tensor *t);
/* t broadcast to a shape. */
struct tensor tensor_expand(const struct tensor *t, int rank, const int64_t *shape);
/* A view of [index] along the leading dims: the last `keep` dims stay. */
struct tensor tensor_tail(const struct tensor *t, int keep, int64_t index);
/* A compact copy, converted to d (as a rounding that is implied). The same tensor if it is that
 * already. */
enum proem_status tensor_cast(struct ev *ev, const struct tensor *t, enum dtype d,
                              struct tensor *out);
enum proem_status tensor_compact(struct ev *ev, const struct tensor *t, struct tensor *out);

/* Elements start .. start+n-1 (row-major, n <= BLOCK). track: also lo and hi; mag: also mag. */
void cells_read(const struct tensor *t, int64_t start, int64_t n, bool track, bool mag,
                struct cells *c);
/* Values as doubles, from any dtype, n unlimited. ch: a channel instead of the value (value or the
 * derived one where the channel is absent), or -1. */
void read_doubles(const struct tensor *t, int64_t start, int64_t n, int ch, double *out);
void read_ints(const struct tensor *t, int64_t start, int64_t n, int64_t *out);
/* Store the cells of a compact tensor: values are already of its dtype. */
void cells_write(const struct tensor *t, int64_t start, int64_t n, const struct cells *c);
void write_doubles(const struct tensor *t, int64_t start, int64_t n, const double *v);
void write_ints(const struct tensor *t, int64_t start, int64_t n, const int64_t *v);
/* Round each to the dtype. */
void round_doubles(enum dtype d, double *v, int64_t n);
/* Convert in place from one dtype to another, intervals included when track is set. */
void cells_cast(struct cells *c, int64_t n, enum dtype from, enum dtype to, bool saturate,
                bool implied, enum eval_mode mode, bool track);
/* Copy element `from` of src to `to` of dst (same dtype, dst compact), channels included. */
void copy_elem(const struct tensor *src, int64_t from, const struct tensor *dst, int64_t to);
/* Copy all of src into dst starting at element `to`: dst is compact and has the channels of src. */
void copy_range(const struct tensor *src, int64_t start, int64_t n, const struct tensor *dst,
                int64_t to);
/* Store index of logical element i. */
int64_t tensor_index(const struct tensor *t, int64_t i);
/* t with `axis` moved behind the others: its rows lie along the last axis. */
struct tensor tensor_axis_last(const struct tensor *t, int axis);

/* ---- threads.c ------------------------------------------------------------------------------- */

typedef void (*range_fn)(void *user, int64_t begin, int64_t end, int slot);
/* A number of threads that parallel_ranges takes. */
int threads_clamp(int threads);
/* Call fn over [0, n) in at most ev->threads ranges that begin at multiples of grain. slot is below
 * ev->threads and owned by one range at a time. */
void parallel_ranges(struct ev *ev, int64_t n, int64_t grain, range_fn fn, void *user);

/* ---- fault.c --------------------------------------------------------------------------------- */

/* Element i of t, which is the operand of that number, is not allowed. */
enum proem_status data_error(struct ev *ev, enum op op, int operand, const struct tensor *t,
                             int64_t i, int64_t value, const char *reason);
/* The same for an index into the first operand. */
enum proem_status index_error(struct ev *ev, enum op op, int operand, const struct tensor *t,
                              int64_t i, int64_t value, int64_t bound, int axis);

/* ---- operators ------------------------------------------------------------------------------- */

enum proem_status eval_elementwise(struct ev *, const struct node *, const struct tensor *,
                                   struct tensor *);
enum proem_status eval_where(struct ev *, const struct node *, const struct tensor *,
                             struct tensor *);
enum proem_status eval_cast(struct ev *, const struct node *, const struct tensor *,
                            struct tensor *);
enum proem_status eval_bitcast(struct ev *, const struct node *, const struct tensor *,
                               struct tensor *);
enum proem_status eval_dequantize(struct ev *, const struct node *, const struct tensor *,
                                  struct tensor *);
/* dequantize of a tensor in a block format (block.c) */
enum proem_status eval_blocks(struct ev *, const struct tensor *, struct tensor *);
enum proem_status eval_quantize(struct ev *, const struct node *, const struct tensor *,
                                struct tensor *);
enum proem_status eval_layout(struct ev *, const struct node *, const struct tensor *,
                              struct tensor *);
enum proem_status eval_concat(struct ev *, const struct node *, const struct tensor *,
                              struct tensor *);
enum proem_status eval_pad(struct ev *, const struct node *, const struct tensor *,
                           struct tensor *);
enum proem_status eval_iota(struct ev *, const struct node *, const struct tensor *,
                            struct tensor *);
enum proem_status eval_const(struct ev *, const struct node *, const struct tensor *,
                             struct tensor *);
enum proem_status eval_take(struct ev *, const struct node *, const struct tensor *,
                            struct tensor *);
enum proem_status eval_take_along(struct ev *, const struct node *, const struct tensor *,
                                  struct tensor *);
enum proem_status eval_lookup(struct ev *, const struct node *, const struct tensor *,
                              struct tensor *);
enum proem_status eval_scatter(struct ev *, const struct node *, const struct tensor *,
                               struct tensor *);
enum proem_status eval_reduce(struct ev *, const struct node *, const struct tensor *,
                              struct tensor *);
enum proem_status eval_arg(struct ev *, const struct node *, const struct tensor *,
                           struct tensor *);
enum proem_status eval_softmax(struct ev *, const struct node *, const struct tensor *,
                               struct tensor *);
enum proem_status eval_norm(struct ev *, const struct node *, const struct tensor *,
                            struct tensor *);
enum proem_status eval_cumsum(struct ev *, const struct node *, const struct tensor *,
                              struct tensor *);
enum proem_status eval_sort(struct ev *, const struct node *, const struct tensor *,
                            struct tensor *);
enum proem_status eval_matmul(struct ev *, const struct node *, const struct tensor *,
                              struct tensor *);
enum proem_status eval_linear(struct ev *, const struct node *, const struct tensor *,
                              struct tensor *);
enum proem_status eval_grouped_matmul(struct ev *, const struct node *, const struct tensor *,
                                      struct tensor *);
enum proem_status eval_attention(struct ev *, const struct node *, const struct tensor *,
                                 struct tensor *);
/* The operator's evaluation by its kind; NULL if there is none. */
op_fn op_evaluation(enum op op);
/* Drop the stores that the running operator made, and its scratch memory. */
void ev_end_operator(struct ev *ev);

/* A row of softmax or log_softmax in f64 without rounding, and its interval in `wide` arithmetic.
 */
void softmax_row(enum op op, int64_t n, const double *v, double *out);
void softmax_row_ranges(enum op op, enum dtype wide, int64_t n, const double *lo, const double *hi,
                        double *out_lo, double *out_hi);
/* log(sum(exp)) of a row. */
struct iv log_sum_exp_range(enum dtype wide, int64_t n, const double *lo, const double *hi);

/* ---- plan.c: which values need what -----------------------------------------------------------
 */

/* Rows of a value that are needed: all of it, or the listed rows of its flattened leading dims. */
struct need {
    bool any, all;
    int64_t n;
    int64_t *row; /* increasing */
};

/* Does result row r of the node depend on row r of operand k (of the same leading dims) only? */
bool row_by_row(const struct graph *g, const struct node *n, int k);
/* The rows of an output that are asked for. */
enum proem_status plan_output_rows(const struct graph *g, const struct dims_binding *b,
                                   struct arena *a, const struct eval_options *o, size_t output,
                                   struct need *out, struct err *e);
/* Rows that each value needs so that the outputs have theirs; need has an entry per value. */
enum proem_status plan_rows(const struct graph *g, const struct dims_binding *b, struct arena *a,
                            const struct eval_options *o, struct need *need, struct err *e);
/* Fill splits and want_mag, see struct ev; all three are false at first, one entry a value. */
void plan_algebra(const struct graph *g, bool *splits, bool *want_mag, bool *reach);

/* ---- cores.c --------------------------------------------------------------------------------- */

/* After a node: bounds for its results, in ev->cores. */
void cores_note(struct ev *ev, const struct node *n, const struct tensor *in,
                const struct tensor *out);
/* A bound on the finite magnitudes of what may enter a product in place of v's elements. */
double core_of(const struct ev *ev, value_id v, const struct tensor *t);
/* May a sum of so many products of operands 0 and 1 overflow with what may stand in for them? */
bool cores_overflow(const struct ev *ev, const struct node *n, const struct tensor *in,
                    enum dtype wide, double terms);

#endif
