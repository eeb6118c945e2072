/* SPDX-License-Identifier: MIT
 * One wgmma of MM_COLS columns for matmul_wgmma.cu: MM(mma_ss)(acc, a, b, more) with both matrices in
 * shared memory, MM(mma_rs)(acc, a, b, more) with the rows' matrix in four registers. acc is
 * overwritten when `more` is 0. The operands of an asm statement are counted, so each width has its
 * lists; macros from here are undefined by matmul_wgmma.cu.
 */
#define MM_STR2(x) #x
#define MM_STR(x)  MM_STR2(x)
#define MM_TEXT0                                                                                   \
    "%0, %1, %2, %3, %4, %5, %6, %7"                                                               \
    ", %8, %9, %10, %11, %12, %13, %14, %15"                                                       \
    ", %16, %17, %18, %19, %20, %21, %22, %23"                                                     \
    ", %24, %25, %26, %27, %28, %29, %30, %31"
#define MM_TEXT1                                                                                   \
    "%32, %33, %34, %35, %36, %37, %38, %39"                                                       \
    ", %40, %41, %42, %43, %44, %45, %46, %47"                                                     \
    ", %48, %49, %50, %51, %52, %53, %54, %55"                                                     \
    ", %56, %57, %58, %59, %60, %61, %62, %63"
#define MM_TEXT2                                                                                   \
    "%64, %65, %66, %67, %68, %69, %70, %71"                                                       \
    ", %72, %73, %74, %75, %76, %77, %78, %79"                                                     \
    ", %80, %81, %82, %83, %84, %85, %86, %87"                                                     \
    ", %88, %89, %90, %91, %92, %93, %94, %95"
#define MM_TEXT3                                                                                   \
    "%96, %97, %98, %99, %100, %101, %102, %103"                                                   \
    ", %104, %105, %106, %107, %108, %109, %110, %111"                                             \
    ", %112, %113, %114, %115, %116, %117, %118, %119"                                             \
    ", %120, %121, %122, %123, %124, %125, %126, %127"
#define MM_ACC8(i)                                                                                 \
    MM_ACC_C(acc[i]), MM_ACC_C(acc[i + 1]), MM_ACC_C(acc[i + 2]), MM_ACC_C(acc[i + 3]),            \
        MM_ACC_C(acc[i + 4]), MM_ACC_C(acc[i + 5]), MM_ACC_C(acc[i + 6]), MM_ACC_C(acc[i + 7])
#define MM_ACC32(i) MM_ACC8(i), MM_ACC8(i + 8), MM_ACC8(i + 16), MM_ACC8(i + 24)
#define MM_WIDTH    MM_STR(MM_COLS)
#if MM_COLS == 64
#define MM_TEXT    MM_TEXT0
#define MM_ACCS    MM_ACC32(0)
#define MM_ARG_SS  "%32, %33"
#define MM_MORE_SS "%34"
#define MM_ARG_RS  "{%32, %33, %34, %35}, %36"
#define MM_MORE_RS "%37"
#elif MM_COLS == 128
#define MM_TEXT    MM_TEXT0 ", " MM_TEXT1
#define MM_ACCS    MM_ACC32(0), MM_ACC32(32)
#define MM_ARG_SS  "%64, %65"
#define MM_MORE_SS "%66"
#define MM_ARG_RS  "{%64, %65, %66, %67}, %68"
#define MM_MORE_RS "%69"
#elif MM_COLS == 192
#define MM_TEXT    MM_TEXT0 ", " MM_TEXT1 ", " MM_TEXT2
#define MM_ACCS    MM_ACC32(0), MM_ACC32(32), MM_ACC32(64)
#define MM_ARG_SS  "%96, %97"
#define MM_MORE_SS "%98"
#define MM_ARG_RS  "{%96, %97, %98, %99}, %100"
#define MM_MORE_RS "%101"
#elif MM_COLS == 256
#define MM_TEXT    MM_TEXT0 ", " MM_TEXT1 ", " MM_TEXT2 ", " MM_TEXT3
#define MM_ACCS    MM_ACC32(0), MM_ACC32(32), MM_ACC32(64), MM_ACC32(96)
#define MM_ARG_SS  "%128, %129"
#define MM_MORE_SS "%130"
#define MM_ARG_RS  "{%128, %129, %130, %131}, %132"
#define MM_MORE_RS "%133"
#else
#error "MM_COLS is 64, 128, 192 or 256"
#endif

PK_D void MM(mma_ss)(MM_ACC_S *acc, pk_u64 a, pk_u64 b, int more) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " MM_MORE_SS ", 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n" MM_WIDTH MM_MMA_KIND " {" MM_TEXT
                 "}, " MM_ARG_SS ", p" MM_MMA_SS ";\n}"
                 : MM_ACCS
                 : "l"(a), "l"(b), "r"(more));
}

#if MM_REGS
PK_D void MM(mma_rs)(MM_ACC_S *acc, const unsigned *a, pk_u64 b, int more) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " MM_MORE_RS ", 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n" MM_WIDTH MM_MMA_KIND " {" MM_TEXT
                 "}, " MM_ARG_RS ", p" MM_MMA_RS ";\n}"
                 : MM_ACCS
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(more));
}
#endif
