/* SPDX-License-Identifier: MIT
 * Constants of matmul_wgmma.cu: defaults, and what the instructions are called for the operands'
 * dtypes. MM_MMA_KIND is the end of wgmma's name; MM_MMA_SS and MM_MMA_RS are its last operands,
 * signs and, for 16-bit dtypes, which matrices lie with their lanes across k.
 */
#ifndef PK_BF16 /* dtypes of operands */
#define PK_BF16 1
#define PK_F16  2
#define PK_E4M3 3
#define PK_E5M2 4
#define PK_F32  5
#define PK_I8   6
#define PK_U8   7
#endif
#ifndef PK_FEED_TMA
#define PK_FEED_TMA   1
#define PK_FEED_COPY  2
#define PK_FEED_VALUE 3
#endif

#define MM_CAT2(a, b) a##_##b
#define MM_CAT1(a, b) MM_CAT2(a, b)
#define MM(x)         MM_CAT1(PK_KERNEL, x)
#ifndef MM_A_GROUP
#define MM_A_GROUP 0
#endif
#ifndef MM_A_PLAIN
#define MM_A_PLAIN 0
#endif
#ifndef MM_A_LEAVES
#define MM_A_LEAVES 0
#endif
#ifndef MM_A_LEAF0_BITS
#define MM_A_LEAF0_BITS 0
#endif
#ifndef MM_B0_GROUP
#define MM_B0_GROUP 0
#endif
#ifndef MM_B0_PLAIN
#define MM_B0_PLAIN 0
#endif
#ifndef MM_B0_LEAVES
#define MM_B0_LEAVES 0
#endif
#ifndef MM_B0_LEAF0_BITS
#define MM_B0_LEAF0_BITS 0
#endif
#ifndef MM_B1_GROUP
#define MM_B1_GROUP 0
#endif
#ifndef MM_B1_PLAIN
#define MM_B1_PLAIN 0
#endif
#ifndef MM_B1_LEAVES
#define MM_B1_LEAVES 0
#endif
#ifndef MM_B1_LEAF0_BITS
#define MM_B1_LEAF0_BITS 0
#endif
#ifndef MM_INTERLEAVE
#define MM_INTERLEAVE 1
#endif
#ifndef MM_SPREAD
#define MM_SPREAD 0
#endif
#ifndef MM_C_LEAVES
#define MM_C_LEAVES 0
#endif
#ifndef MM_TURNS
#define MM_TURNS 0
#endif
#ifndef MM_A_LEAF1_BITS
#define MM_A_LEAF1_BITS 0
#endif
#ifndef MM_A_LEAF0_EACH
#define MM_A_LEAF0_EACH 0
#endif
#ifndef MM_B0_LEAF1_BITS
#define MM_B0_LEAF1_BITS 0
#endif
#ifndef MM_B0_LEAF0_EACH
#define MM_B0_LEAF0_EACH 0
#endif
#ifndef MM_B1_LEAF1_BITS
#define MM_B1_LEAF1_BITS 0
#endif
#ifndef MM_B1_LEAF0_EACH
#define MM_B1_LEAF0_EACH 0
#endif
#ifndef MM_A_MAP_Z
#define MM_A_MAP_Z 1
#endif
#ifndef MM_B0_MAP_Z
#define MM_B0_MAP_Z 1
#endif
#ifndef MM_B1_MAP_Z
#define MM_B1_MAP_Z 1
#endif

/* The kind of wgmma. */
#define MM_ACC_C(x) "+f"(x)
#define MM_MMA_SS   ", 1, 1"
#define MM_MMA_RS   ", 1, 1"
#if MM_SWAP
#define MM_ROWS_AXIS MM_B0_AXIS
#define MM_COLS_AXIS MM_A_AXIS
#else
#define MM_ROWS_AXIS MM_A_AXIS
#define MM_COLS_AXIS MM_B0_AXIS
#endif
#if MM_A_DTYPE == PK_BF16 || MM_A_DTYPE == PK_F16
#define MM_OB 2
#if MM_A_DTYPE == PK_BF16
#define MM_MMA_KIND "k16.f32.bf16.bf16"
#else
#define MM_MMA_KIND "k16.f32.f16.f16"
#endif
#undef MM_MMA_SS
#undef MM_MMA_RS
#if MM_COLS_AXIS
#define MM_MMA_RS ", 1, 1, 0"
#else
#define MM_MMA_RS ", 1, 1, 1"
#endif
#if MM_ROWS_AXIS && MM_COLS_AXIS
#define MM_MMA_SS ", 1, 1, 0, 0"
#elif MM_ROWS_AXIS
#define MM_MMA_SS ", 1, 1, 0, 1"
#elif MM_COLS_AXIS
#define MM_MMA_SS ", 1, 1, 1, 0"
#else
#define MM_MMA_SS ", 1, 1, 1, 1"
#endif
#elif MM_A_DTYPE == PK_F32
#define MM_OB       4
#define MM_MMA_KIND "k8.f32.tf32.tf32"
#elif MM_A_DTYPE == PK_I8 || MM_A_DTYPE == PK_U8
#define MM_OB 1
#undef MM_MMA_SS
#undef MM_MMA_RS
#undef MM_ACC_C
#define MM_MMA_SS   ""
#define MM_MMA_RS   ""
#define MM_ACC_C(x) "+r"(x)
#else
#define MM_OB 1
#endif
#ifndef MM_MMA_KIND
#if MM_SWAP
#define MM_ROWS_DTYPE MM_B0_DTYPE
#define MM_COLS_DTYPE MM_A_DTYPE
#else
#define MM_ROWS_DTYPE MM_A_DTYPE
#define MM_COLS_DTYPE MM_B0_DTYPE
#endif
#if MM_ROWS_DTYPE == PK_E4M3
#define MM_ROWS_KIND "k32.f32.e4m3"
#elif MM_ROWS_DTYPE == PK_E5M2
#define MM_ROWS_KIND "k32.f32.e5m2"
#elif MM_ROWS_DTYPE == PK_I8
#define MM_ROWS_KIND "k32.s32.s8"
#else
#define MM_ROWS_KIND "k32.s32.u8"
#endif
#if MM_COLS_DTYPE == PK_E4M3
#define MM_MMA_KIND MM_ROWS_KIND ".e4m3"
#elif MM_COLS_DTYPE == PK_E5M2
#define MM_MMA_KIND MM_ROWS_KIND ".e5m2"
#elif MM_COLS_DTYPE == PK_I8
#define MM_MMA_KIND MM_ROWS_KIND ".s8"
#else
#define MM_MMA_KIND MM_ROWS_KIND ".u8"
#endif
#endif
#define MM_PROMOTE (MM_A_DTYPE == PK_E4M3 || MM_A_DTYPE == PK_E5M2)

#define MM_BK    (128 / MM_OB) /* a block of K */
#define MM_STEP  (32 / MM_OB)  /* K of one wgmma */
#define MM_PIECE (16 / MM_OB)  /* elements in 16 bytes */
#define MM_PAIR  (4 / MM_OB)   /* elements in a register */
