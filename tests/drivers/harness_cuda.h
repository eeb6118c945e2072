/* SPDX-License-Identifier: MIT
 * The harness on a GPU: with PROEM_TEST_DEVICE=cuda in the environment every rig is one;
 * PROEM_TEST_CACHE is a folder for compiled kernels.
 */
#ifndef DRIVER_HARNESS_CUDA_H
#define DRIVER_HARNESS_CUDA_H

#include "harness.h"

enum proem_status rig_open_cuda(struct rig *r, const struct rig_options *o, struct err *e);
/* As variants_compile, variant_run; outputs are made. */
void variants_compile_cuda(struct rig *r, struct variant **v, int n);
enum proem_status variant_run_cuda(struct rig *r, struct variant *v, struct err *e);

#endif
