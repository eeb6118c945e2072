/* SPDX-License-Identifier: MIT
 * What gen/c/hooks.c writes differently for a device.
 */
#ifndef PROEM_CUDA_HOOKS_H
#define PROEM_CUDA_HOOKS_H

#include "gen/c/emit.h"

/* The constants of operand `name` (A, B0 ..) of a product: its fn, whether lanes run along k, the
 * size of its groups (0: none), its lanes. */
void cuda_operand(struct emit *e, const char *name, fn_id f, bool along_k, int group, int lanes);
/* Does the template at hand want lanes of this operand along k, whatever it costs? */
bool cuda_only_along(struct emit *e, fn_id f);
/* What is common to all operands of a product. */
void cuda_product(struct emit *e, int n_b);
/* Loads ahead of a product's results: P_c_load; NULL: there are none. Within the results' hook. */
const struct staged *cuda_results(struct emit *e);
/* The staged form of the hook at hand (staged.h), whose value function has these parameters. */
void cuda_staged(struct emit *e, fn_id f, sx outer, const char *o, const char *params,
                 const char *missing);
/* "A" for hook a, "B0" for b0 ..: what its constants are named by. */
const char *cuda_operand_name(const char *hook);
/* Elements of a thread of a pointwise kernel. */
int cuda_pointwise_lanes(struct emit *e);
/* The launch that tests a condition on data: `test` over x, last and bound. P_check<i>_value, the
 * value at n, is written. */
void cuda_check(struct emit *e, const struct plan_check *c, int number, const char *test);

/* How a reduction's rows lie in blocks (templates/reduction.cu). */
struct cuda_rows {
    int warps, rows;
};
struct cuda_rows cuda_reduction_rows(struct emit *e, bool along);

/* The file of a product's template. */
const char *cuda_template(const struct tile *t);

#endif
