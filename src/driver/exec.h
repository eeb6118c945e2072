/* SPDX-License-Identifier: MIT
 * What an execution holds; shared by exec.c (compiled programs) and reference.c (the interpreter).
 */
#ifndef PROEM_EXEC_H
#define PROEM_EXEC_H

#include "driver/driver.h"
#include "rt/cuda/cuda.h"

/* Memory that is kept between runs and grows. */
struct exec_stage {
    void *data;
    size_t size;
    void *target; /* of this run: where its content goes afterwards, or NULL */
};

struct proem_execution {
    proem_program *p;
    struct arena arena;
    struct err err;     /* of the last call that failed */
    struct rt_exec *rt; /* NULL: a GPU or the interpreter */
    size_t n_in, n_out;
    struct dims_binding set;   /* sizes given by name */
    struct dims_binding sizes; /* all, once prepared */
    bool prepared;
    int *in_rank;
    int64_t (*in_shape)[MAX_RANK];
    const int64_t **in_shapes;
    int64_t (*out_shape)[MAX_RANK];
    int64_t *bytes; /* by buffer: inputs, outputs, temporaries */
    struct rt_view *views;
    struct exec_stage *stages; /* by output: an output that is an input's memory */
    struct exec_stage *copies; /* by input: compact copies for the interpreter */
    bool *on_device;           /* by buffer: inputs, outputs */
    /* on a GPU (exec_cuda.c) */
    struct rt_cuda_exec *cuda;
    void *stream;
    struct rt_cuda_view *cuda_views;
    int64_t *scratch, *blocks;      /* by step, by launch */
    struct rt_cuda_extent *extents; /* by tensor map */
};

/* Is output i an input's memory, as the graph allows? */
bool exec_is_aliased(const struct proem_execution *x, size_t i);
/* Output i must not meet another argument, save an input whose memory it may be. */
enum proem_status exec_check_overlap(struct proem_execution *x, size_t i);
/* At least that many bytes; NULL: x->err is set. */
void *exec_stage_memory(struct proem_execution *x, struct exec_stage *s, int64_t bytes);
/* The run of a program for PROEM_DEVICE_REF; views are bound. */
enum proem_status exec_run_reference(struct proem_execution *x);

#endif
