/* SPDX-License-Identifier: MIT
 * The driver's part for GPUs: what differs from CPUs between a plan and its run.
 */
#ifndef PROEM_DRIVER_CUDA_H
#define PROEM_DRIVER_CUDA_H

#include "driver/driver.h"
#include "rt/cuda/cuda.h"

struct proem_execution;

/* The CUDA runtime of a context, made with the first that asks. */
enum proem_status context_cuda(proem_context *c, struct rt_cuda **out, struct err *e);
/* The device that a program is for: `arch` by name, or the context's. runs: it must be able to run
 * here. */
enum proem_status cuda_target(proem_context *c, const char *arch, bool runs,
                              struct device_desc *out, struct err *e);

/* needs: CUDA C. gives: machine code (p->cubins). */
enum proem_status cuda_compile(struct proem_program *p, struct err *e);
/* A kernel as a step of a program, with its arguments' buffers. */
enum proem_status cuda_make_step(struct arena *a, const struct gen_kernel *gk,
                                 const struct gen_cuda *gc, struct rt_cubin *cubin, const int *args,
                                 struct rt_cuda_step *out, struct err *e);
/* What a kernel's launches depend on, for sizes: bytes of scratch, blocks by launch, extents by
 * tensor map. */
enum proem_status cuda_bind_step(const struct graph *g, const struct dims_binding *sizes,
                                 const char *kernel, const struct gen_cuda *c, int64_t *scratch,
                                 int64_t *blocks, struct rt_cuda_extent *extents, struct err *e);
/* Would one rather have another tile? */
bool cuda_is_slow(const struct rt_cubin *b);
/* needs: machine code, buffers. gives: steps and p->cuda, but no functions on a device. */
enum proem_status cuda_link(struct proem_program *p, const struct rt_buffer *buffers,
                            struct err *e);
/* What the compiler said of each unit, a line each. */
void cuda_print_compile(const struct proem_program *p, struct str *out);
void cuda_program_free(struct proem_program *p);

/* Tables of an execution, sizes for its binding (under the program's lock), a run, the end. */
enum proem_status cuda_exec_new(struct proem_execution *x, struct err *e);
enum proem_status cuda_exec_bind(struct proem_execution *x);
enum proem_status cuda_exec_prepare(struct proem_execution *x);
enum proem_status cuda_exec_run(struct proem_execution *x);
enum proem_status cuda_exec_check(struct proem_execution *x);

#endif
