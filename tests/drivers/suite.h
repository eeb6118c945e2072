/* SPDX-License-Identifier: MIT
 * The check of one graph that the drivers have in common: every precision mode against the
 * reference, eager fused against eager unfused bit for bit.
 */
#ifndef DRIVER_SUITE_H
#define DRIVER_SUITE_H

#include "harness.h"

#define SUITE_VARIANTS 5

struct suite_item {
    const char *text;
    const struct dim_value *dims;
    int n_dims;
    uint64_t seed;
    enum fill fill;
    int64_t rows;    /* of each output that are checked; 0: all */
    int max_kernels; /* of the fused plan, boundary; 0: any */
    int min_kernels;
    bool brief;                         /* boundary alone */
    void (*prepare)(struct subject *s); /* may change the inputs; NULL: they stay */
};

/* Run items [first, first+count) of a list: plan all, compile all at once, then run and check. */
void suite_run(struct rig *r, const struct suite_item *items, int first, int count,
               volatile int *at, struct outcome *out);

#endif
