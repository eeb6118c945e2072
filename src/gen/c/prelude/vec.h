/* SPDX-License-Identifier: MIT
 * Lane vectors: types, broadcast, select, masks, halves, fused multiply-add.
 *
 * The prelude is text in front of generated C (after kernel_abi.h): GNU C11 for GCC >= 12 and Clang
 * >= 14, no headers. sections.def says which files a function family needs and in what order.
 *
 * Contract
 * - A vector has PK_W lanes in every lane type: 16 with AVX-512 (F, BW, DQ, VL), 8 with AVX2, else
 *   4. A kernel whose hot loop lives in 64-bit lanes may define PK_W as half of that in front of
 *   this text: its vf64 is then one register (GCC 12 keeps accumulators twice as wide in memory).
 * - Lane types: vf32 vf64 vi32 vu32 vi64 vu64. Lanes of a dtype: f64 vf64; the other floats vf32,
 *   holding the value exactly; i64 vi64; u64 vu64; narrower integers vi32 and vu32, extended; bool
 *   is a mask in vi32: 0 or -1. Where order matters (min, lt, ...) masks take the vu32 functions.
 * - Comparisons of any lane type give a vi32 mask. + - * / & | ^ ~ are the C operators.
 * - Every function works on whole vectors; loads and stores have a form for the first n lanes.
 *   There is one implementation of each function: no other one for tails, and a lane's result does
 *   not depend on the other lanes.
 * - Compile with -ffp-contract=off, -fwrapv (integer lanes wrap) and -Wno-psabi, without
 * -ffast-math; denormals must not be flushed. Link with -lm. Names that end in _ are private to the
 * prelude.
 * - f32 functions keep to the ulp column of ops.def over the whole range; f64 functions go through
 *   libm lane by lane.
 */
#pragma GCC diagnostic ignored "-Wpsabi"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define PK_HAS_512_ 1
#else
#define PK_HAS_512_ 0
#endif
#ifndef PK_W
#if PK_HAS_512_
#define PK_W 16
#elif defined(__AVX2__)
#define PK_W 8
#else
#define PK_W 4
#endif
#endif

/* Which set of target builtins applies; none means plain vector extensions. */
#define PK_512_ (PK_HAS_512_ && PK_W == 16)
#if defined(__AVX2__) && PK_W == 8
#define PK_256_ 1
#else
#define PK_256_ 0
#endif
#if defined(__F16C__) && (PK_512_ || PK_256_)
#define PK_F16C_ 1
#else
#define PK_F16C_ 0
#endif
#if defined(__clang__)
#define PK_CLANG_ 1
#else
#define PK_CLANG_ 0
#endif
/* Whether 64-bit lanes take two registers, so that GCC has to be given halves. */
#if PK_HAS_512_
#define PK_SPLIT_ (!PK_CLANG_ && PK_W == 16)
#elif defined(__AVX2__)
#define PK_SPLIT_ (!PK_CLANG_ && PK_W == 8)
#else
#define PK_SPLIT_ (!PK_CLANG_)
#endif

/* Clang splits vectors of 64 bytes on machines for which it prefers 32, unless told otherwise; the
 * attribute passes on to whatever the function is inlined into. */
#if PK_CLANG_ && PK_HAS_512_
#define PK_I static inline __attribute__((always_inline, min_vector_width(8 * 4 * PK_W)))
#else
#define PK_I static inline __attribute__((always_inline))
#endif

typedef __UINT64_TYPE__ pk_u64;
typedef float vf32 __attribute__((vector_size(4 * PK_W)));
typedef int vi32 __attribute__((vector_size(4 * PK_W)));
typedef unsigned vu32 __attribute__((vector_size(4 * PK_W)));
typedef double vf64 __attribute__((vector_size(8 * PK_W)));
typedef pk_i64 vi64 __attribute__((vector_size(8 * PK_W)));
typedef pk_u64 vu64 __attribute__((vector_size(8 * PK_W)));

/* Half of a vector of 64-bit lanes: the size of one vector of 32-bit lanes. */
typedef double pk_hf64_ __attribute__((vector_size(4 * PK_W)));
typedef pk_i64 pk_hi64_ __attribute__((vector_size(4 * PK_W)));
typedef pk_u64 pk_hu64_ __attribute__((vector_size(4 * PK_W)));
typedef union {
    vf64 f;
    vi64 i;
    vu64 u;
    pk_hf64_ hf[2];
    pk_hi64_ hi[2];
    pk_hu64_ hu[2];
} pk_two_;

/* The same at any address, and allowed to alias anything. */
typedef vf32 pk_uvf32_ __attribute__((aligned(1), may_alias));
typedef vi32 pk_uvi32_ __attribute__((aligned(1), may_alias));
typedef vu32 pk_uvu32_ __attribute__((aligned(1), may_alias));
typedef vf64 pk_uvf64_ __attribute__((aligned(1), may_alias));
typedef vi64 pk_uvi64_ __attribute__((aligned(1), may_alias));
typedef vu64 pk_uvu64_ __attribute__((aligned(1), may_alias));
typedef unsigned short pk_u16_ __attribute__((aligned(1), may_alias));
typedef unsigned pk_u32_ __attribute__((aligned(1), may_alias));
typedef pk_u64 pk_u64_ __attribute__((aligned(1), may_alias));

/* x86 vectors that builtins want. */
#if PK_512_ || PK_256_
typedef char pk_v16qi_ __attribute__((vector_size(16)));
typedef char pk_v32qi_ __attribute__((vector_size(32)));
typedef short pk_v8hi_ __attribute__((vector_size(16)));
typedef short pk_v16hi_ __attribute__((vector_size(32)));
typedef short pk_v32hi_ __attribute__((vector_size(64)));
typedef long long pk_v2di_ __attribute__((vector_size(16)));
typedef long long pk_v4di_ __attribute__((vector_size(32)));
typedef long long pk_v8di_ __attribute__((vector_size(64)));
typedef float pk_v4sf_ __attribute__((vector_size(16)));
typedef float pk_v8sf_ __attribute__((vector_size(32)));
typedef pk_v16qi_ pk_uv16qi_ __attribute__((aligned(1), may_alias));
typedef pk_v32qi_ pk_uv32qi_ __attribute__((aligned(1), may_alias));
typedef pk_v2di_ pk_uv2di_ __attribute__((aligned(1), may_alias));
#endif

/* ---- broadcast ----------------------------------------------------------------------------- */

PK_I vf32 pk_set_vf32(float x) {
    return x - (vf32){0};
}
PK_I vf64 pk_set_vf64(double x) {
    return x - (vf64){0};
}
PK_I vi32 pk_set_vi32(int x) {
    return x - (vi32){0};
}
PK_I vu32 pk_set_vu32(unsigned x) {
    return x - (vu32){0};
}
PK_I vi64 pk_set_vi64(pk_i64 x) {
    return x - (vi64){0};
}
PK_I vu64 pk_set_vu64(pk_u64 x) {
    return x - (vu64){0};
}

#if PK_W == 16
#define PK_LANES_ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#define PK_EACH_(f)                                                                                \
    f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7), f(8), f(9), f(10), f(11), f(12), f(13), f(14), \
        f(15)
#elif PK_W == 8
#define PK_LANES_   0, 1, 2, 3, 4, 5, 6, 7
#define PK_EACH_(f) f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)
#else
#define PK_LANES_   0, 1, 2, 3
#define PK_EACH_(f) f(0), f(1), f(2), f(3)
#endif
PK_I vi32 pk_iota_vi32(void) {
    return (vi32){PK_LANES_};
}
PK_I vi64 pk_iota_vi64(void) {
    return (vi64){PK_LANES_};
}

/* ---- masks --------------------------------------------------------------------------------- */

PK_I vi32 pk_mask_n(int n) {
    return pk_iota_vi32() < pk_set_vi32(n);
}
PK_I vi64 pk_wide_mask_(vi32 m) {
    return __builtin_convertvector(m, vi64);
}
PK_I vi32 pk_narrow_mask_(vi64 m) {
    return __builtin_convertvector(m, vi32);
}

/* Whether any lane of a mask is set. */
PK_I int pk_any_(vi32 m) {
#if PK_256_
    return __builtin_ia32_movmskps256((vf32)m) != 0;
#elif PK_512_
    return __builtin_ia32_cvtd2mask512(m) != 0;
#else
    int any = 0;
    for (int i = 0; i < PK_W; i++)
        any |= m[i];
    return any;
#endif
}

#if PK_512_
/* A mask of the first n lanes in a mask register. */
PK_I unsigned short pk_k_(int n) {
    return (unsigned short)((1u << n) - 1u);
}
#endif

/* ---- select -------------------------------------------------------------------------------- */

PK_I vi32 pk_select_vi32(vi32 m, vi32 a, vi32 b) {
#if PK_256_ && __has_builtin(__builtin_ia32_blendvps256)
    return (vi32)__builtin_ia32_blendvps256((vf32)b, (vf32)a, (vf32)m);
#elif PK_512_ && PK_CLANG_
    return __builtin_ia32_selectd_512(__builtin_ia32_cvtd2mask512(m), a, b);
#elif PK_512_
    vi32 k = m != 0; /* without it GCC 12 makes two exclusive ors of it, not one masked move */
    return (k & a) | (~k & b);
#else
    return (m & a) | (~m & b);
#endif
}
PK_I vu32 pk_select_vu32(vi32 m, vu32 a, vu32 b) {
    return (vu32)pk_select_vi32(m, (vi32)a, (vi32)b);
}
PK_I vf32 pk_select_vf32(vi32 m, vf32 a, vf32 b) {
    return (vf32)pk_select_vi32(m, (vi32)a, (vi32)b);
}
PK_I vi64 pk_select_vi64(vi32 m, vi64 a, vi64 b) {
    vi64 w = pk_wide_mask_(m);
    return (w & a) | (~w & b);
}
PK_I vu64 pk_select_vu64(vi32 m, vu64 a, vu64 b) {
    return (vu64)pk_select_vi64(m, (vi64)a, (vi64)b);
}
PK_I vf64 pk_select_vf64(vi32 m, vf64 a, vf64 b) {
    return (vf64)pk_select_vi64(m, (vi64)a, (vi64)b);
}

/* ---- comparisons --------------------------------------------------------------------------- */

#define PK_CMP_(name, op)                                                                          \
    PK_I vi32 pk_##name##_vf32(vf32 a, vf32 b) {                                                   \
        return (vi32)(a op b);                                                                     \
    }                                                                                              \
    PK_I vi32 pk_##name##_vi32(vi32 a, vi32 b) {                                                   \
        return (vi32)(a op b);                                                                     \
    }                                                                                              \
    PK_I vi32 pk_##name##_vu32(vu32 a, vu32 b) {                                                   \
        return (vi32)(a op b);                                                                     \
    }                                                                                              \
    PK_CMP64_(name, vf64, f, hf, op)                                                               \
    PK_CMP64_(name, vi64, i, hi, op)                                                               \
    PK_CMP64_(name, vu64, u, hu, op)
/* wide_NAME_LANE gives the mask in 64-bit lanes. */
#if PK_SPLIT_
#define PK_CMP64_(name, lane, w, h, op)                                                            \
    PK_I vi64 pk_wide_##name##_##lane##_(lane a, lane b) {                                         \
        pk_two_ x = {.w = a}, y = {.w = b}, r;                                                     \
        r.hi[0] = (pk_hi64_)(x.h[0] op y.h[0]);                                                    \
        r.hi[1] = (pk_hi64_)(x.h[1] op y.h[1]);                                                    \
        return r.i;                                                                                \
    }                                                                                              \
    PK_I vi32 pk_##name##_##lane(lane a, lane b) {                                                 \
        return pk_narrow_mask_(pk_wide_##name##_##lane##_(a, b));                                  \
    }
#else
#define PK_CMP64_(name, lane, w, h, op)                                                            \
    PK_I vi64 pk_wide_##name##_##lane##_(lane a, lane b) {                                         \
        return (vi64)(a op b);                                                                     \
    }                                                                                              \
    PK_I vi32 pk_##name##_##lane(lane a, lane b) {                                                 \
        return pk_narrow_mask_(pk_wide_##name##_##lane##_(a, b));                                  \
    }
#endif
PK_CMP_(eq, ==)
PK_CMP_(ne, !=)
PK_CMP_(lt, <)
PK_CMP_(le, <=)
PK_CMP_(gt, >)
PK_CMP_(ge, >=)

PK_I vi32 pk_isnan_vf32(vf32 a) {
    return (vi32)(a != a);
}
PK_I vi32 pk_isnan_vf64(vf64 a) {
    return pk_ne_vf64(a, a);
}

/* ---- fused multiply-add: a * b + c, rounded once -------------------------------------------- */

#if defined(__FMA__) || defined(__aarch64__)
#define PK_FMA_ 1
#else
#define PK_FMA_ 0
#endif

PK_I vf32 pk_fma_vf32(vf32 a, vf32 b, vf32 c) {
#if PK_FMA_ && __has_builtin(__builtin_elementwise_fma)
    return __builtin_elementwise_fma(a, b, c);
#elif PK_512_
    return __builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4);
#elif defined(__FMA__) && PK_W == 8
    return __builtin_ia32_vfmaddps256(a, b, c);
#elif defined(__FMA__) && PK_W == 4
    return __builtin_ia32_vfmaddps(a, b, c);
#else
#define PK_F_(i) __builtin_fmaf(a[i], b[i], c[i])
    return (vf32){PK_EACH_(PK_F_)};
#undef PK_F_
#endif
}
PK_I vf64 pk_fma_vf64(vf64 a, vf64 b, vf64 c) {
#if PK_FMA_ && __has_builtin(__builtin_elementwise_fma)
    return __builtin_elementwise_fma(a, b, c);
#elif defined(__FMA__) && PK_W == 4
    return __builtin_ia32_vfmaddpd256(a, b, c);
#elif PK_HAS_512_ && PK_W == 8
    return __builtin_ia32_vfmaddpd512_mask(a, b, c, (unsigned char)-1, 4);
#elif PK_512_ || (PK_256_ && defined(__FMA__))
    pk_two_ x = {.f = a}, y = {.f = b}, z = {.f = c};
    for (int i = 0; i < 2; i++)
#if PK_512_
        z.hf[i] = __builtin_ia32_vfmaddpd512_mask(x.hf[i], y.hf[i], z.hf[i], (unsigned char)-1, 4);
#else
        z.hf[i] = __builtin_ia32_vfmaddpd256(x.hf[i], y.hf[i], z.hf[i]);
#endif
    return z.f;
#else
#define PK_F_(i) __builtin_fma(a[i], b[i], c[i])
    return (vf64){PK_EACH_(PK_F_)};
#undef PK_F_
#endif
}
PK_I vi32 pk_fma_vi32(vi32 a, vi32 b, vi32 c) {
    return (vi32)((vu32)a * (vu32)b + (vu32)c);
}
/* c plus both products of the signed halves of a and b. */
PK_I vi32 pk_dot2_vi32(vi32 a, vi32 b, vi32 c) {
#if PK_W == 16 && defined(__AVX512VNNI__)
    __asm__("vpdpwssd %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
#elif PK_W == 16 && defined(__AVX512BW__)
    __asm__("vpmaddwd %2, %1, %0" : "=v"(a) : "v"(a), "v"(b));
    return (vi32)((vu32)a + (vu32)c);
#elif PK_W == 8 && defined(__AVX2__)
    __asm__("vpmaddwd %2, %1, %0" : "=x"(a) : "x"(a), "x"(b));
    return (vi32)((vu32)a + (vu32)c);
#else
    vu32 low = (vu32)(a << 16 >> 16) * (vu32)(b << 16 >> 16);
    return (vi32)(low + (vu32)(a >> 16) * (vu32)(b >> 16) + (vu32)c);
#endif
}
/* c plus the four products of the unsigned bytes of a with the signed ones of b. */
PK_I vi32 pk_dot4_vi32(vi32 a, vi32 b, vi32 c) {
#if PK_W == 16 && defined(__AVX512VNNI__)
    __asm__("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
#else
    vu32 sum = (vu32)c;
    for (int i = 0; i < 32; i += 8)
        sum += ((vu32)a >> i & 0xff) * (vu32)(b << (24 - i) >> 24);
    return (vi32)sum;
#endif
}
PK_I vu32 pk_fma_vu32(vu32 a, vu32 b, vu32 c) {
    return a * b + c;
}
PK_I vi64 pk_fma_vi64(vi64 a, vi64 b, vi64 c) {
    return (vi64)((vu64)a * (vu64)b + (vu64)c);
}
PK_I vu64 pk_fma_vu64(vu64 a, vu64 b, vu64 c) {
    return a * b + c;
}

/* a * b + c for polynomials: fused where that is one instruction. */
PK_I vf32 pk_mad_(vf32 a, vf32 b, vf32 c) {
#if PK_FMA_
    return pk_fma_vf32(a, b, c);
#else
    return a * b + c;
#endif
}
PK_I vf64 pk_madd_(vf64 a, vf64 b, double c) {
#if PK_FMA_
    return pk_fma_vf64(a, b, pk_set_vf64(c));
#else
    return a * b + c;
#endif
}
PK_I vf32 pk_madc_(vf32 a, vf32 b, float c) {
    return pk_mad_(a, b, pk_set_vf32(c));
}

/* ---- one-sided limits: a NaN in x stays ------------------------------------------------------ */

PK_I vf32 pk_atmost_(vf32 x, float hi) {
#if PK_256_
    return __builtin_ia32_minps256(pk_set_vf32(hi), x);
#elif PK_512_ && PK_CLANG_
    return __builtin_ia32_minps512(pk_set_vf32(hi), x, 4);
#elif PK_512_
    return __builtin_ia32_minps512_mask(pk_set_vf32(hi), x, x, (unsigned short)-1, 4);
#else
    return pk_select_vf32(x > hi, pk_set_vf32(hi), x);
#endif
}
PK_I vf32 pk_atleast_(vf32 x, float lo) {
#if PK_256_
    return __builtin_ia32_maxps256(pk_set_vf32(lo), x);
#elif PK_512_ && PK_CLANG_
    return __builtin_ia32_maxps512(pk_set_vf32(lo), x, 4);
#elif PK_512_
    return __builtin_ia32_maxps512_mask(pk_set_vf32(lo), x, x, (unsigned short)-1, 4);
#else
    return pk_select_vf32(x < lo, pk_set_vf32(lo), x);
#endif
}
PK_I vf32 pk_fabs_(vf32 x) {
    return (vf32)((vi32)x & 0x7fffffff);
}
PK_I vi32 pk_signbit_(vf32 x) {
    return (vi32)x & (int)0x80000000u;
}
/* Clang 19 folds a bitwise choice between two vectors into a later masked choice with one of them
 * and gets the three-way logic wrong (AVX-512): hide the first one's result. */
PK_I vf32 pk_opaque_(vf32 x) {
#if PK_512_ && PK_CLANG_
    __asm__("" : "+v"(x));
#endif
    return x;
}
/* m with the sign bit of s, for a sign bit of m that is clear. */
PK_I vf32 pk_withsign_(vf32 m, vf32 s) {
    return pk_opaque_((vf32)((vi32)m | pk_signbit_(s)));
}

/* ---- shuffles and transposes ----------------------------------------------------------------- */

/* Lanes of a, b (numbered on) in the order given, all constants. */
#if PK_CLANG_
#define PK_SHUF_(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PK_SHUF_(a, b, ...) __builtin_shuffle(a, b, (vi32){__VA_ARGS__})
#endif

/* Four rows: interleave pairs of lanes, then pairs of pairs, within blocks of four lanes. u[c] gets
 * column c (+4, +8, ..) of rows a, b, c, d. */
#define PK_TRANSPOSE4_(u, a, b, c, d)                                                              \
    do {                                                                                           \
        vf32 ab0 = PK_LO1_(a, b), ab1 = PK_HI1_(a, b);                                             \
        vf32 cd0 = PK_LO1_(c, d), cd1 = PK_HI1_(c, d);                                             \
        (u)[0] = PK_LO2_(ab0, cd0);                                                                \
        (u)[1] = PK_HI2_(ab0, cd0);                                                                \
        (u)[2] = PK_LO2_(ab1, cd1);                                                                \
        (u)[3] = PK_HI2_(ab1, cd1);                                                                \
    } while (0)
#if PK_W == 16
#define PK_LO1_(a, b)  PK_SHUF_(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define PK_HI1_(a, b)  PK_SHUF_(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define PK_LO2_(a, b)  PK_SHUF_(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define PK_HI2_(a, b)  PK_SHUF_(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#define PK_EVEN_(a, b) PK_SHUF_(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
#define PK_ODD_(a, b)  PK_SHUF_(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)
#elif PK_W == 8
#define PK_LO1_(a, b)  PK_SHUF_(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define PK_HI1_(a, b)  PK_SHUF_(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define PK_LO2_(a, b)  PK_SHUF_(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define PK_HI2_(a, b)  PK_SHUF_(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define PK_EVEN_(a, b) PK_SHUF_(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define PK_ODD_(a, b)  PK_SHUF_(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#else
#define PK_LO1_(a, b) PK_SHUF_(a, b, 0, 4, 1, 5)
#define PK_HI1_(a, b) PK_SHUF_(a, b, 2, 6, 3, 7)
#define PK_LO2_(a, b) PK_SHUF_(a, b, 0, 1, 4, 5)
#define PK_HI2_(a, b) PK_SHUF_(a, b, 2, 3, 6, 7)
#endif
#if PK_W == 16
/* Column c of four groups of rows: pick even and odd blocks twice. */
#define PK_BLOCKS_(r, u, c)                                                                        \
    do {                                                                                           \
        vf32 ab0 = PK_EVEN_((u)[c], (u)[4 + c]), cd0 = PK_EVEN_((u)[8 + c], (u)[12 + c]);          \
        vf32 ab1 = PK_ODD_((u)[c], (u)[4 + c]), cd1 = PK_ODD_((u)[8 + c], (u)[12 + c]);            \
        (r)[c] = PK_EVEN_(ab0, cd0);                                                               \
        (r)[4 + c] = PK_EVEN_(ab1, cd1);                                                           \
        (r)[8 + c] = PK_ODD_(ab0, cd0);                                                            \
        (r)[12 + c] = PK_ODD_(ab1, cd1);                                                           \
    } while (0)
#else
#define PK_BLOCKS_(r, u, c)                                                                        \
    do {                                                                                           \
        (r)[c] = PK_EVEN_((u)[c], (u)[4 + c]);                                                     \
        (r)[4 + c] = PK_ODD_((u)[c], (u)[4 + c]);                                                  \
    } while (0)
#endif

/* r[i] lane j <-> r[j] lane i */
PK_I void pk_transpose_vf32(vf32 *r) {
    vf32 u[PK_W];
    PK_TRANSPOSE4_(u, r[0], r[1], r[2], r[3]);
#if PK_W == 4
    for (int i = 0; i < PK_W; i++)
        r[i] = u[i];
#else
    PK_TRANSPOSE4_(u + 4, r[4], r[5], r[6], r[7]);
#if PK_W == 16
    PK_TRANSPOSE4_(u + 8, r[8], r[9], r[10], r[11]);
    PK_TRANSPOSE4_(u + 12, r[12], r[13], r[14], r[15]);
#endif
    PK_BLOCKS_(r, u, 0);
    PK_BLOCKS_(r, u, 1);
    PK_BLOCKS_(r, u, 2);
    PK_BLOCKS_(r, u, 3);
#endif
}
PK_I void pk_transpose_vi32(vi32 *r) {
    vf32 t[PK_W];
#define PK_IN_(i)  t[i] = (vf32)r[i]
#define PK_OUT_(i) r[i] = (vi32)t[i]
    PK_EACH_(PK_IN_);
    pk_transpose_vf32(t);
    PK_EACH_(PK_OUT_);
}
#define PK_TRANSPOSE64_(lane, scalar)                                                              \
    PK_I void pk_transpose_##lane(lane *r) {                                                       \
        scalar t[PK_W][PK_W];                                                                      \
        for (int i = 0; i < PK_W; i++)                                                             \
            for (int j = 0; j < PK_W; j++)                                                         \
                t[j][i] = r[i][j];                                                                 \
        for (int i = 0; i < PK_W; i++)                                                             \
            __builtin_memcpy(&r[i], t[i], sizeof r[i]);                                            \
    }
PK_TRANSPOSE64_(vf64, double)
PK_TRANSPOSE64_(vi64, pk_i64)
PK_I void pk_transpose_vu32(vu32 *r) {
    vf32 t[PK_W];
#undef PK_OUT_
#define PK_OUT_(i) r[i] = (vu32)t[i]
    PK_EACH_(PK_IN_);
    pk_transpose_vf32(t);
    PK_EACH_(PK_OUT_);
#undef PK_IN_
#undef PK_OUT_
}
