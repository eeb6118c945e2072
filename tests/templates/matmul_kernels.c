/* SPDX-License-Identifier: MIT
 *
 * The matmul templates with plain hooks, several kernels in one unit: compiled into a shared
 * object by the templates' test, for each compiler and instruction set.
 */
#include "base/kernel_abi.h"
#include "gen/c/prelude/vec.h"
#include "gen/c/prelude/convert.h"
#include "gen/c/prelude/memory.h"

#if PK_W >= 8
#define ROWS_MAX 8
#else
#define ROWS_MAX 4
#endif

/* Register tile 4 x 2, one block of everything, f32, both operands along k. */
#define PK_KERNEL  k0
#define MM_NAME    "f32_kk"
#define MM_ACC     vf32
#define MM_ACC_S   float
#define MM_SUFFIX  vf32
#define MM_NB      1
#define MM_A_AXIS  1
#define MM_B0_AXIS 1
#define MM_MR      4
#define MM_NV      2
#define MM_MC      256
#define MM_KC      256
#define MM_NC      64
#define MM_SHARE   1000000
#include "matmul_hooks.h"
#include "gen/c/templates/matmul.c"

/* The tallest tile, short blocks of K, both along rows and columns; nothing shared. */
#define PK_KERNEL  k1
#define MM_NAME    "f32_mn"
#define MM_ACC     vf32
#define MM_ACC_S   float
#define MM_SUFFIX  vf32
#define MM_NB      1
#define MM_A_AXIS  0
#define MM_B0_AXIS 0
#define MM_MR      PK_W
#define MM_NV      1
#define MM_MC      40
#define MM_KC      PK_W
#define MM_NC      (2 * PK_W)
#define MM_SHARE   0
#define MM_C_FETCH 1
#include "matmul_hooks.h"
#include "gen/c/templates/matmul.c"

/* Three operands with mixed axes and an odd tile. */
#define PK_KERNEL  k2
#define MM_NAME    "f32_3b"
#define MM_ACC     vf32
#define MM_ACC_S   float
#define MM_SUFFIX  vf32
#define MM_NB      3
#define MM_A_AXIS  1
#define MM_B0_AXIS 0
#define MM_B1_AXIS 1
#define MM_B2_AXIS 0
#define MM_MR      3
#define MM_NV      3
#define MM_MC      20
#define MM_KC      (2 * PK_W)
#define MM_NC      (6 * PK_W)
#define MM_SHARE   1000000
#define MM_C_FETCH 2
#include "matmul_hooks.h"
#include "gen/c/templates/matmul.c"

/* Constant operands. */
#define PK_KERNEL  k3
#define MM_NAME    "f32_const"
#define MM_ACC     vf32
#define MM_ACC_S   float
#define MM_SUFFIX  vf32
#define MM_NB      2
#define MM_A_AXIS  0
#define MM_B0_AXIS 1
#define MM_B1_AXIS 0
#define MM_MR      2
#define MM_NV      4
#define MM_MC      32
#define MM_KC      (2 * PK_W)
#define MM_NC      (4 * PK_W)
#define MM_SHARE   1000000
#define MM_A_CONST 1
#define MM_B_CONST 1
#include "matmul_hooks.h"
#include "gen/c/templates/matmul.c"

#define PK_KERNEL  k4
#define MM_NAME    "f64"
#define MM_ACC     vf64
#define MM_ACC_S   double
#define MM_SUFFIX  vf64
#define MM_NB      1
#define MM_A_AXIS  1
#define MM_B0_AXIS 1
#define MM_MR      4
#define MM_NV      1
#define MM_MC      64
#define MM_KC      (4 * PK_W)
#define MM_NC      (4 * PK_W)
#define MM_SHARE   1000000
#define MM_B_CONST 1
#include "matmul_hooks.h"
#include "gen/c/templates/matmul.c"

#define PK_KERNEL  k5
#define MM_NAME    "i32"
#define MM_ACC     vi32
#define MM_ACC_S   int
#define MM_SUFFIX  vi32
#define MM_NB      1
#define MM_A_AXIS  1
#define MM_B0_AXIS 0
#define MM_MR      ROWS_MAX
#define MM_NV      2
#define MM_MC      64
#define MM_KC      (4 * PK_W)
#define MM_NC      (4 * PK_W)
#define MM_SHARE   1000000
#include "matmul_hooks.h"
#include "gen/c/templates/matmul.c"

#define PK_KERNEL  k6
#define MM_NAME    "i64"
#define MM_ACC     vi64
#define MM_ACC_S   long long
#define MM_SUFFIX  vi64
#define MM_NB      1
#define MM_A_AXIS  0
#define MM_B0_AXIS 1
#define MM_MR      1
#define MM_NV      1
#define MM_MC      16
#define MM_KC      (4 * PK_W)
#define MM_NC      PK_W
#define MM_SHARE   10000
#include "matmul_hooks.h"
#include "gen/c/templates/matmul.c"

/* Few rows. */
#define PK_KERNEL  k7
#define MM_NAME    "rows_kk"
#define MM_ACC     vf32
#define MM_ACC_S   float
#define MM_SUFFIX  vf32
#define MM_NB      1
#define MM_A_AXIS  1
#define MM_B0_AXIS 1
#define MM_MR      8
#include "matmul_hooks.h"
#include "gen/c/templates/matmul_rows.c"

#define PK_KERNEL  k8
#define MM_NAME    "rows_kn"
#define MM_ACC     vf32
#define MM_ACC_S   float
#define MM_SUFFIX  vf32
#define MM_NB      1
#define MM_A_AXIS  1
#define MM_B0_AXIS 0
#define MM_MR      6
#include "matmul_hooks.h"
#include "gen/c/templates/matmul_rows.c"

#define PK_KERNEL  k9
#define MM_NAME    "rows_3b"
#define MM_ACC     vf32
#define MM_ACC_S   float
#define MM_SUFFIX  vf32
#define MM_NB      3
#define MM_A_AXIS  0
#define MM_B0_AXIS 0
#define MM_B1_AXIS 1
#define MM_B2_AXIS 0
#define MM_MR      8
#include "matmul_hooks.h"
#include "gen/c/templates/matmul_rows.c"

#define PK_KERNEL  k10
#define MM_NAME    "rows_f64"
#define MM_ACC     vf64
#define MM_ACC_S   double
#define MM_SUFFIX  vf64
#define MM_NB      2
#define MM_A_AXIS  1
#define MM_B0_AXIS 1
#define MM_B1_AXIS 1
#define MM_MR      2
#include "matmul_hooks.h"
#include "gen/c/templates/matmul_rows.c"

#define PK_KERNEL  k11
#define MM_NAME    "rows_i32"
#define MM_ACC     vi32
#define MM_ACC_S   int
#define MM_SUFFIX  vi32
#define MM_NB      1
#define MM_A_AXIS  1
#define MM_B0_AXIS 0
#define MM_MR      4
#include "matmul_hooks.h"
#include "gen/c/templates/matmul_rows.c"

#define PK_KERNEL  k12
#define MM_NAME    "rows_i64"
#define MM_ACC     vi64
#define MM_ACC_S   long long
#define MM_SUFFIX  vi64
#define MM_NB      1
#define MM_A_AXIS  0
#define MM_B0_AXIS 1
#define MM_MR      1
#include "matmul_hooks.h"
#include "gen/c/templates/matmul_rows.c"

/* Groups along k. */
#define PK_KERNEL   k13
#define MM_NAME     "grouped_kk"
#define MM_ACC      vf32
#define MM_ACC_S    float
#define MM_SUFFIX   vf32
#define MM_NB       2
#define MM_A_AXIS   1
#define MM_B0_AXIS  1
#define MM_B1_AXIS  0
#define MM_A_GROUP  (2 * PK_W)
#define MM_B0_GROUP PK_W
#define MM_B1_GROUP 7
#define MM_MR       4
#define MM_NV       2
#define MM_MC       64
#define MM_KC       (4 * PK_W)
#define MM_NC       (4 * PK_W)
#define MM_SHARE    1000000
#include "matmul_hooks.h"
#include "gen/c/templates/matmul.c"

#define PK_KERNEL   k14
#define MM_NAME     "grouped_mn"
#define MM_ACC      vf32
#define MM_ACC_S    float
#define MM_SUFFIX   vf32
#define MM_NB       2
#define MM_A_AXIS   0
#define MM_B0_AXIS  0
#define MM_B1_AXIS  1
#define MM_A_GROUP  5
#define MM_B0_GROUP 3
#define MM_B1_GROUP (2 * PK_W)
#define MM_MR       4
#define MM_NV       2
#define MM_MC       64
#define MM_KC       (4 * PK_W)
#define MM_NC       (4 * PK_W)
#define MM_SHARE    1000000
#include "matmul_hooks.h"
#include "gen/c/templates/matmul.c"

#define PK_KERNEL   k15
#define MM_NAME     "rows_grouped"
#define MM_ACC      vf32
#define MM_ACC_S    float
#define MM_SUFFIX   vf32
#define MM_NB       2
#define MM_A_AXIS   1
#define MM_B0_AXIS  1
#define MM_B1_AXIS  0
#define MM_A_GROUP  (2 * PK_W)
#define MM_B0_GROUP PK_W
#define MM_B1_GROUP 7
#define MM_MR       8
#include "matmul_hooks.h"
#include "gen/c/templates/matmul_rows.c"

#define PK_KERNEL   k16
#define MM_NAME     "rows_m"
#define MM_ACC      vf32
#define MM_ACC_S    float
#define MM_SUFFIX   vf32
#define MM_NB       2
#define MM_A_AXIS   0
#define MM_B0_AXIS  1
#define MM_B1_AXIS  0
#define MM_A_GROUP  5
#define MM_B0_GROUP (4 * PK_W)
#define MM_MR       4
#include "matmul_hooks.h"
#include "gen/c/templates/matmul_rows.c"

/* Panels: steps along k that are written out, groups that are whole steps or not, factors of groups. */
#define PK_KERNEL  k17
#define MM_NAME    "rows_panels"
#define MM_ACC     vf32
#define MM_ACC_S   float
#define MM_SUFFIX  vf32
#define MM_NB      1
#define MM_A_AXIS  1
#define MM_B0_AXIS 0
#define MM_PANELS  1
#define MM_MR      16
#include "matmul_hooks.h"
#include "gen/c/templates/matmul_rows.c"

#define PK_KERNEL    k18
#define MM_NAME      "rows_factor"
#define MM_ACC       vf32
#define MM_ACC_S     float
#define MM_SUFFIX    vf32
#define MM_NB        1
#define MM_A_AXIS    0
#define MM_B0_AXIS   0
#define MM_B0_GROUP  16
#define MM_B0_FACTOR 1
#define MM_PANELS    1
#define MM_MR        12
#include "matmul_hooks.h"
#include "gen/c/templates/matmul_rows.c"

#define PK_KERNEL    k19
#define MM_NAME      "rows_odd_factor"
#define MM_ACC       vf32
#define MM_ACC_S     float
#define MM_SUFFIX    vf32
#define MM_NB        1
#define MM_A_AXIS    1
#define MM_B0_AXIS   0
#define MM_B0_GROUP  21
#define MM_B0_FACTOR 1
#define MM_PANELS    1
#define MM_MR        2
#include "matmul_hooks.h"
#include "gen/c/templates/matmul_rows.c"

#define PK_KERNEL   k20
#define MM_NAME     "panels"
#define MM_ACC      vf32
#define MM_ACC_S    float
#define MM_SUFFIX   vf32
#define MM_NB       1
#define MM_A_AXIS   1
#define MM_B0_AXIS  0
#define MM_B0_GROUP 20
#define MM_PANELS   1
#define MM_MR       4
#define MM_NV       2
#define MM_MC       64
#define MM_KC       (4 * PK_W)
#define MM_NC       (4 * PK_W)
#define MM_SHARE    1000000
#include "matmul_hooks.h"
#include "gen/c/templates/matmul.c"

static const struct pk_kernel *const kernels[] = {
    &k0_kernel,  &k1_kernel,  &k2_kernel,  &k3_kernel,  &k4_kernel,  &k5_kernel,  &k6_kernel,
    &k7_kernel,  &k8_kernel,  &k9_kernel,  &k10_kernel, &k11_kernel, &k12_kernel, &k13_kernel,
    &k14_kernel, &k15_kernel, &k16_kernel, &k17_kernel, &k18_kernel, &k19_kernel, &k20_kernel,
};

const struct pk_unit proem_unit = {PK_ABI_VERSION, sizeof kernels / sizeof *kernels, kernels};
const int lanes = PK_W;
