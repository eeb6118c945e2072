/* SPDX-License-Identifier: MIT
 * The kernels of test_few.cu: every format and every way to cut the work.
 */

#define FEW_NAME   c0
#define FEW_W      FEW_INT8
#define FEW_X      FEW_PLAIN
#define MM_COLS8   2
#define MM_KGROUPS 8
#define MM_RGROUPS 2
#define MM_UNITS   8
#define MM_AHEAD   4
#define MM_STEP    1
#define MM_TILES   7
#include "few_hooks.h"

#define FEW_NAME   c1
#define FEW_W      FEW_INT8E
#define FEW_X      FEW_PLAIN
#define MM_COLS8   1
#define MM_KGROUPS 2
#define MM_RGROUPS 7
#define MM_UNITS   8
#define MM_AHEAD   4
#define MM_STEP    1
#define MM_TILES   7
#include "few_hooks.h"

#define FEW_NAME   c2
#define FEW_W      FEW_INT4
#define FEW_X      FEW_PLAIN
#define MM_COLS8   1
#define MM_KGROUPS 8
#define MM_RGROUPS 2
#define MM_UNITS   4
#define MM_AHEAD   4
#define MM_STEP    1
#define MM_TILES   7
#include "few_hooks.h"

#define FEW_NAME   c3
#define FEW_W      FEW_INT4
#define FEW_X      FEW_PLAIN
#define MM_COLS8   2
#define MM_KGROUPS 2
#define MM_RGROUPS 7
#define MM_UNITS   4
#define MM_AHEAD   2
#define MM_STEP    1
#define MM_TILES   7
#include "few_hooks.h"

#define FEW_NAME   c4
#define FEW_W      FEW_FP8
#define FEW_X      FEW_PLAIN
#define MM_COLS8   2
#define MM_KGROUPS 8
#define MM_RGROUPS 2
#define MM_UNITS   8
#define MM_AHEAD   4
#define MM_STEP    1
#define MM_TILES   7
#include "few_hooks.h"

#define FEW_NAME   c5
#define FEW_W      FEW_BF16
#define FEW_X      FEW_GATHER
#define MM_COLS8   2
#define MM_KGROUPS 8
#define MM_RGROUPS 2
#define MM_UNITS   8
#define MM_AHEAD   4
#define MM_STEP    1
#define MM_TILES   7
#include "few_hooks.h"

#define FEW_NAME   c6
#define FEW_W      FEW_BF16
#define FEW_X      FEW_RMS
#define MM_COLS8   2
#define MM_KGROUPS 8
#define MM_RGROUPS 2
#define MM_UNITS   8
#define MM_AHEAD   4
#define MM_STEP    1
#define MM_TILES   7
#define MM_A_STAGE 1
#include "few_hooks.h"

#define FEW_NAME   c7
#define FEW_W      FEW_BF16
#define FEW_X      FEW_RMS
#define MM_COLS8   1
#define MM_KGROUPS 2
#define MM_RGROUPS 7
#define MM_UNITS   8
#define MM_AHEAD   4
#define MM_STEP    1
#define MM_TILES   7
#include "few_hooks.h"

#define FEW_NAME   c8
#define FEW_W      FEW_BF16
#define FEW_X      FEW_SILU
#define MM_COLS8   2
#define MM_KGROUPS 8
#define MM_RGROUPS 2
#define MM_UNITS   8
#define MM_AHEAD   2
#define MM_STEP    1
#define MM_TILES   7
#define MM_SPLIT   4
#include "few_hooks.h"

#define FEW_NAME   c9
#define FEW_W      FEW_F8F8
#define FEW_X      FEW_PLAIN
#define MM_COLS8   2
#define MM_KGROUPS 8
#define MM_RGROUPS 2
#define MM_UNITS   8
#define MM_AHEAD   4
#define MM_STEP    1
#define MM_TILES   7
#include "few_hooks.h"

#define FEW_NAME   c10
#define FEW_W      FEW_I8I8
#define FEW_X      FEW_PLAIN
#define MM_COLS8   2
#define MM_KGROUPS 8
#define MM_RGROUPS 2
#define MM_UNITS   8
#define MM_AHEAD   4
#define MM_STEP    1
#define MM_TILES   7
#include "few_hooks.h"

#define FEW_NAME   c11
#define FEW_W      FEW_INT4
#define FEW_X      FEW_PLAIN
#define MM_COLS8   1
#define MM_KGROUPS 8
#define MM_RGROUPS 2
#define MM_UNITS   4
#define MM_AHEAD   2
#define MM_STEP    1
#define MM_TILES   6
#define FEW_NB     2
#include "few_hooks.h"

#define FEW_NAME   c12
#define FEW_W      FEW_INT8
#define FEW_X      FEW_PLAIN
#define MM_COLS8   2
#define MM_KGROUPS 4
#define MM_RGROUPS 3
#define MM_UNITS   3
#define MM_AHEAD   2
#define MM_STEP    2
#define MM_TILES   8
#define MM_SPLIT   3
#include "few_hooks.h"

#define FEW_NAME   c13
#define FEW_W      FEW_BF16
#define FEW_X      FEW_PLAIN
#define MM_COLS8   1
#define MM_KGROUPS 8
#define MM_RGROUPS 1
#define MM_UNITS   2
#define MM_AHEAD   4
#define MM_STEP    1
#define MM_TILES   4
#define MM_PER_SM  2
#define MM_A_STAGE 1
#include "few_hooks.h"

#define FEW_NAME   c14
#define FEW_W      FEW_INT4
#define FEW_X      FEW_PLAIN
#define MM_COLS8   8
#define MM_KGROUPS 2
#define MM_RGROUPS 4
#define MM_UNITS   2
#define MM_AHEAD   2
#define MM_STEP    2
#define MM_TILES   7
#define MM_X_BUFS  2
#include "few_hooks.h"

#define FEW_NAME   c15
#define FEW_W      FEW_F32
#define FEW_X      FEW_PLAIN
#define MM_COLS8   1
#define MM_KGROUPS 8
#define MM_RGROUPS 1
#define MM_UNITS   8
#define MM_AHEAD   2
#define MM_STEP    1
#define MM_TILES   6
#include "few_hooks.h"

#define FEW_NAME   c16
#define FEW_W      FEW_F32
#define FEW_X      FEW_GATHER
#define MM_COLS8   2
#define MM_KGROUPS 4
#define MM_RGROUPS 2
#define MM_UNITS   8
#define MM_AHEAD   1
#define MM_STEP    1
#define MM_TILES   6
#include "few_hooks.h"

#define FEW_NAME   c17
#define FEW_W      FEW_INT8
#define FEW_X      FEW_PLAIN
#define MM_COLS8   4
#define MM_KGROUPS 2
#define MM_RGROUPS 4
#define MM_UNITS   4
#define MM_AHEAD   2
#define MM_STEP    2
#define MM_TILES   8
#define MM_X_BUFS  2
#include "few_hooks.h"

#define FEW_NAME   c18
#define FEW_W      FEW_INT8
#define FEW_X      FEW_PLAIN
#define FEW_RING   1
#define MM_COLS8   1
#define MM_KGROUPS 2
#define MM_UNITS   2
#define MM_STAGES  4
#define MM_TILES   7
#define MM_A_WARPS 0
#define MM_A_TMA   1
#include "few_hooks.h"

#define FEW_NAME   c19
#define FEW_W      FEW_INT4
#define FEW_X      FEW_PLAIN
#define FEW_RING   1
#define MM_COLS8   2
#define MM_KGROUPS 2
#define MM_UNITS   1
#define MM_STAGES  6
#define MM_TILES   7
#define MM_A_WARPS 0
#define MM_A_TMA   1
#include "few_hooks.h"

#define FEW_NAME   c20
#define FEW_W      FEW_BF16
#define FEW_X      FEW_PLAIN
#define FEW_RING   1
#define MM_COLS8   4
#define MM_KGROUPS 8
#define MM_UNITS   1
#define MM_STAGES  5
#define MM_TILES   2
#define MM_A_WARPS 0
#define MM_A_TMA   1
#include "few_hooks.h"

#define FEW_NAME   c21
#define FEW_W      FEW_FP8
#define FEW_X      FEW_PLAIN
#define FEW_RING   1
#define MM_COLS8   8
#define MM_KGROUPS 2
#define MM_UNITS   1
#define MM_STAGES  6
#define MM_TILES   4
#define MM_A_WARPS 0
#define MM_A_TMA   1
#include "few_hooks.h"

#define FEW_NAME   c22
#define FEW_W      FEW_INT4
#define FEW_X      FEW_PLAIN
#define FEW_RING   1
#define MM_COLS8   1
#define MM_KGROUPS 2
#define MM_UNITS   1
#define MM_STAGES  6
#define MM_TILES   4
#define MM_A_WARPS 0
#define FEW_NB     2
#define MM_A_TMA   1
#include "few_hooks.h"

#define FEW_NAME   c23
#define FEW_W      FEW_BF16
#define FEW_X      FEW_GATHER
#define FEW_RING   1
#define MM_COLS8   2
#define MM_KGROUPS 8
#define MM_UNITS   1
#define MM_STAGES  6
#define MM_TILES   2
#define MM_A_WARPS 2
#include "few_hooks.h"

#define FEW_NAME   c24
#define FEW_W      FEW_BF16
#define FEW_X      FEW_RMS
#define FEW_RING   1
#define MM_COLS8   1
#define MM_KGROUPS 2
#define MM_UNITS   2
#define MM_STAGES  6
#define MM_TILES   5
#define MM_A_WARPS 3
#include "few_hooks.h"

#define FEW_NAME   c25
#define FEW_W      FEW_F8F8
#define FEW_X      FEW_PLAIN
#define FEW_RING   1
#define MM_COLS8   2
#define MM_KGROUPS 2
#define MM_UNITS   2
#define MM_STAGES  5
#define MM_TILES   7
#define MM_A_WARPS 4
#include "few_hooks.h"
