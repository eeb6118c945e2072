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
    struct gen_cuda *cuda; /* of each kernel; NULL in a unit of C */
};

/* ---- CUDA ------------------------------------------------------------------------------------ */

/* A tensor as the copy engine (TMA) sees it: encoded by the runtime for the tensor's address when a
 * program is bound, passed to the kernel as its argument number 1, 2, .. after struct pk_args. */
struct gen_tensor_map {
    value_id tensor;
    enum dtype dtype;
    int rank;      /* 1..5, innermost dimension first; the innermost one is contiguous */
    sx offset;     /* elements from the tensor's address to the map's first element */
    sx dims[5];    /* extents in elements */
    sx strides[5]; /* elements between neighbours along each dimension; [0] is 1 */
    int box[5];    /* elements copied at once along each dimension */
    int swizzle;   /* bytes: 0, 32, 64 or 128 */
};

/* One launch of a __global__ function. A kernel is a list of them, in order on one stream. The grid
 * has one dimension: `blocks` blocks, at most per_sm * number of SMs when per_sm > 0 (then the
 * function strides over its tasks). blocks is the number of tasks; 0 tasks: no launch. */
struct gen_launch {
    const char *entry; /* name of the extern "C" __global__ function */
    int threads;       /* of a block */
    int cluster;       /* blocks of a cluster, 1: none; blocks are rounded up to a multiple */
    int shared;        /* bytes of dynamic shared memory of a block */
    int per_sm;
    sx blocks;
    int n_maps;
    const struct gen_tensor_map *maps;
    bool check; /* tests data: reports by pk_fault_report (base/cuda_abi.h), is launched before the
                   others */
};

/* What the runtime needs for a kernel of a CUDA unit beside gen_kernel. */
struct gen_cuda {
    int n_launches;
    const struct gen_launch *launches;
    sx scratch;       /* bytes of device memory that all its launches share, 0: none */
    bool zeroed;      /* the scratch must be 0 before the first launch ever; a launch leaves it 0 */
    int choices;      /* ways to cut it that have the same results (tile.cuda.passed), 0: one */
    const char *tile; /* the one at hand, in words; NULL: there is nothing to choose */
};

/* CUDA C for NVRTC: as gen_c, with cuda[i] for kernel i of unit u in (*out)[u].cuda. */
enum proem_status gen_cuda(struct plan *p, const struct device_desc *device, int n_units,
                           struct gen_unit **out, int *n_out, struct err *e);

/* One kernel alone in a unit, as gen_c_kernel. k->tile becomes what the text was made with. */
enum proem_status gen_cuda_kernel(struct plan *p, struct kernel *k,
                                  const struct device_desc *device, struct gen_unit *out,
                                  struct err *e);

/* ---- C ---------------------------------------------------------------------------------------- */

/* C for a CPU. Spreads the plan's kernels over at most n_units files (the result says how many), so
 * that they can be compiled side by side; with fewer units than kernels, kernels of equal text are
 * one. Allocated in the plan's arena, texts on its allocator. */
enum proem_status gen_c(struct plan *p, const struct device_desc *device, int n_units,
                        struct gen_unit **out, int *n_out, struct err *e);

/* One kernel of a plan alone in a unit, under a name that does not tell its place in the plan: the
 * text is the same for equal kernels of any plan. The text is on the plan's allocator. */
enum proem_status gen_c_kernel(struct plan *p, struct kernel *k, const struct device_desc *device,
                               struct gen_unit *out, struct err *e);

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
