/* SPDX-License-Identifier: MIT
 * What attention.c and hooks.c share: a batch of query rows of one head. Private to eval.
 */
#ifndef PROEM_EVAL_ATTENTION_H
#define PROEM_EVAL_ATTENTION_H

#include "eval/gemm.h"

#define ATT_ROWS 64

/* A few rows of one head. Pairs (i, j) that are visible lie row after row in i, j, s, p ... */
struct att_batch {
    int64_t n_rows, max_rows, n_pairs;
    int64_t *row;   /* query positions */
    int64_t *q_row; /* where q has them */
    int64_t *start; /* n_rows + 1: pairs of each row */
    bool *open;     /* intervals leave the mask of a row undecided */
    bool *visible;  /* [n_rows, keys] */
    int64_t *i, *j;
    double *s, *lo, *hi;   /* scores */
    double *p, *plo, *phi; /* weights */
    double *lse;
    struct iv *lse_range;
};

struct hook_call {
    struct ev *ev;               /* of the calling thread */
    const struct tensor *values; /* of the outer graph */
    int64_t b, h;
    bool track;
};

/* Fill visible and open. A missing hook shows everything. */
enum proem_status batch_mask(const struct hook_call *call, const struct hook *hook,
                             struct att_batch *t, int64_t keys);
/* Put x (and its interval) at every pair through a hook. A missing hook changes nothing. */
enum proem_status batch_hook(const struct hook_call *call, const struct hook *hook,
                             struct att_batch *t, double *x, double *lo, double *hi);

#endif
