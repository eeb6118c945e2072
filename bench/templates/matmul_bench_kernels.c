/* SPDX-License-Identifier: MIT
 *
 * One matmul kernel for the bench; -D HK_A, HK_B, HK_E (matmul_bench_hooks.h) and MM_* choose it.
 */
#include "base/kernel_abi.h"
#include "gen/c/prelude/vec.h"
#include "gen/c/prelude/convert.h"
#include "gen/c/prelude/memory.h"

#define PK_KERNEL  k0
#define MM_NAME    "bench"
#define MM_ACC     vf32
#define MM_ACC_S   float
#define MM_SUFFIX  vf32
#define MM_NB      1
#define MM_A_AXIS  (HK_A != 3)
#define MM_B0_AXIS (HK_B == 1 || HK_B == 3 || HK_B == 4 || HK_B == 5)
#if HK_B == 4 || HK_B == 5 || HK_B >= 7
#define MM_B0_GROUP (HK_B == 8 ? 16 : 32)
#endif
#if HK_B >= 6
#define MM_PACKS 1
#define MM_KB    (1 << 30)
#endif
#ifndef MM_MR
#if PK_W == 16
#define MM_MR 6
#define MM_NV 4
#define MM_KC 512
#define MM_NC 128
#elif PK_W == 8
#define MM_MR 4
#define MM_NV 3
#define MM_KC 256
#define MM_NC 192
#else
#define MM_MR 4
#define MM_NV 2
#define MM_KC 256
#define MM_NC 64
#endif
#endif
#ifndef MM_MC
#define MM_MC 2048
#endif
#ifndef MM_SHARE
#define MM_SHARE 67108864
#endif
#include "matmul_bench_hooks.h"
#ifndef TEMPLATE
#define TEMPLATE "gen/c/templates/matmul.c"
#endif
#include TEMPLATE

static const struct pk_kernel *const kernels[] = {&k0_kernel};
const struct pk_unit proem_unit = {PK_ABI_VERSION, 1, kernels};
