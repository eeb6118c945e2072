/* SPDX-License-Identifier: MIT
 * The least of the CUDA prelude that the few-rows template and hand-written hooks need.
 */
#define FEW_D static __device__ __forceinline__
#define PK_D  FEW_D
typedef long long pk_i64;
typedef unsigned long long pk_u64;
template <class T, int N> struct pk_lanes { T x[N]; };
template <int N> struct pk_bits { unsigned x[N]; };
enum { PK_BF16 = 1, PK_F16, PK_E4M3, PK_E5M2, PK_F32, PK_F64, PK_I8, PK_U8, PK_I32, PK_I64 };

/* ---- for hooks ---------------------------------------------------------------------------- */

FEW_D float few_bf16(unsigned short h) {
    return __uint_as_float((unsigned)h << 16);
}
FEW_D unsigned short few_to_bf16(float f) {
    unsigned short h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
FEW_D unsigned few_to_bf16x2(float lo, float hi) {
    unsigned r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
/* One instruction: the compiler makes two where both constants are immediate. */
FEW_D unsigned few_and_or(unsigned a, unsigned mask, unsigned bits) {
    unsigned r;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(a), "r"(mask), "r"(bits));
    return r;
}
FEW_D unsigned few_mul2(unsigned a, unsigned b) {
    unsigned r;
#if __CUDA_ARCH__ >= 900
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
#else
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(0x80008000u));
#endif
    return r;
}
FEW_D unsigned few_sub2(unsigned a, unsigned b) {
    unsigned r;
#if __CUDA_ARCH__ >= 900
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
#else
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(b), "r"(0xbf80bf80u), "r"(a));
#endif
    return r;
}
FEW_D float few_e4m3(unsigned char q) {
    unsigned e = q >> 3 & 15, m = q & 7;
    float v = e ? __uint_as_float((e + 120) << 23 | m << 20) : (float)m * 0x1p-9f;
    if ((q & 0x7f) == 0x7f) v = __uint_as_float(0x7fc00000u);
    return q & 0x80 ? -v : v;
}
FEW_D unsigned few_e4m3_f16x2(unsigned short w) {
    unsigned r;
#if __CUDA_ARCH__ >= 890
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(w));
#else
    unsigned b = (w & 0xffu) << 8 | (w & 0xff00u) << 16;
    unsigned t = (b & 0x80008000u) | ((b & 0x7f007f00u) >> 1);
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(t), "r"(0x5c005c00u));
#endif
    return r;
}
FEW_D float few_f16(unsigned short h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
FEW_D float few_sigmoid(float a) {
    return 1.0f / (1.0f + __expf(-a));
}
