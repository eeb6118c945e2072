/* SPDX-License-Identifier: MIT
 * From a plan to source text. A unit is one file that compiles alone (no header, no include path)
 * and exports a struct pk_unit named proem_unit (base/kernel_abi.h).
 */
#ifndef PROEM_GEN_H
#define PROEM_GEN_H

#include "base/device.h"
#include "fuse/plan.h"

/* An operand that is packed once: its packed form depends on these constants alone. */
struct gen_operand {
    int n;
    const value_id *constants; /* lowered values */
};

/* How a kernel of a unit is called. */
struct gen_kernel {
    const struct kernel *kernel;
    const char *name; /* C name; the kernel's position in gen_unit.kernels is its position in
                         the unit's table */
    int n_args;
    const value_id *args; /* lowered values whose memory pk_args.buf[] points to, in this order:
                             loads first, then results */
    int n_operands;       /* operands that are packed once, as pk_kernel.operands counts them */
    const struct gen_operand *operands;
    int n_checks;
    const int *checks; /* plan checks in the order of pk_fault.check */
};

struct gen_unit {
    struct str text; /* on the plan's allocator: str_free */
    int n_kernels;
    struct gen_kernel *kernels;
};

/* C for a CPU. Spreads the plan's kernels over at most n_units files (the result says how many), so
 * that they can be compiled side by side; with fewer units than kernels, kernels of equal text are
 * one. Allocated in the plan's arena, texts on its allocator. */
enum proem_status gen_c(struct plan *p, const struct device_desc *device, int n_units,
                        struct gen_unit **out, int *n_out, struct err *e);

/* One plan of many in a unit. A plan that cannot be written is left out, with its status and
 * error. */
struct gen_joint {
    struct plan *plan;
    enum proem_status status;
    struct err err;
    struct gen_kernel *kernels; /* in the plan's order */
    int *position;              /* of each in the unit's table */
};

/* All kernels of n plans in one unit, equal ones once: what compiles many small graphs quickly. */
enum proem_status gen_c_joint(struct gen_joint *plans, int n, const struct device_desc *device,
                              struct str *out, struct err *e);

#endif
