/* SPDX-License-Identifier: MIT
 * How the kernel at hand is launched, as its template's head says: an entry, a number of tasks.
 */
#ifndef PROEM_CUDA_LAUNCH_H
#define PROEM_CUDA_LAUNCH_H

#include "gen/c/emit.h"
#include "gen/gen.h"

/* Launches of e->k in order, checks first; entries by their name within the kernel. */
enum proem_status cuda_launches(struct emit *e, struct gen_cuda *out, struct err *err);

#endif
