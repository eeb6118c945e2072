/* SPDX-License-Identifier: MIT
 * Products of matrices in f64 with the intervals of their f32 counterparts. Private to eval.
 */
#ifndef PROEM_EVAL_GEMM_H
#define PROEM_EVAL_GEMM_H

#include "eval/tensor.h"

/* out[at + i*N + j] = sum_k a[i,k] * b[k,j] + bias[j], for views a [M, K], b [K, N], bias [N]. */
struct gemm {
    struct tensor a, b, bias; /* bias.store NULL: none */
    struct tensor *out;
    int64_t at;
    bool hides; /* where a is 0, b does not count, infinite or NaN as it may be */
    bool moves; /* algebra may take a factor out of an operand, so that other terms are added */
    bool opens; /* which may overflow */
};

struct gemm_engine;

/* The parts of an engine that depend on the operands as a whole, and its scratch memory. a and b
 * are whole operands (any batch dims): they say whether intervals are needed. */
enum proem_status gemm_prepare(struct ev *ev, const struct tensor *a, const struct tensor *b,
                               const struct tensor *bias, struct tensor *out,
                               struct gemm_engine **engine);
enum proem_status gemm_run(struct gemm_engine *engine, const struct gemm *g);
/* What enters a contraction: under `boundary` and `native` the interval is rounded to the value's
 * dtype, or widened by that rounding where algebra may take out a factor first. */
enum proem_status contraction_operand(struct ev *ev, value_id v, const struct tensor *t,
                                      struct tensor *out);
/* What is not finite among the terms of a sum: certain infinities of each sign, certain NaNs, and
 * terms of which that is not known. */
struct special {
    bool nan, up, down, open;
};
void special_add(struct special *s, struct iv term);
/* The sum, when there is such a term, in any order; abs bounds the others' absolute sum. */
struct iv special_range(const struct special *s, enum dtype wide, double abs);
/* A dot's interval from its exact mid, radius and absolute sum: n terms, common grid. */
struct iv dot_range(enum dtype wide, double mid, double rad, double abs, double n, double grid);

#endif
