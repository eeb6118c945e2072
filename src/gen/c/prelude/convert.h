/* SPDX-License-Identifier: MIT
 * Conversions between lane types, rounding to narrow dtypes, bit patterns.
 *
 * pk_cvt_A_B(v)        lane type A to B; float to integer truncates, saturates, NaN gives 0
 * pk_cvtn_vu32_B(v)    the same from lanes below 2^31 (u16, u8, u4, u2), to vf32 and vf64
 * pk_odd_A_vf32(v)     the same to vf32, but rounded to odd: what a cast from a lane type wider
 * than 24 bits to f16 bf16 f8 f4 e8m0 uses, so that the second rounding is the only one (Boldo and
 * Melquiond, "Emulation of a FMA and correctly rounded sums", IEEE Trans. Computers 57(4), 2008)
 * pk_round_D(v)        value rounded half to even to the float dtype D, widened again
 * pk_rounds_D(v)       the same with saturate=true, which the formats of 8 bits know; f4 and e8m0
 *                      always saturate, wider formats never
 * pk_sat_D_A(v)        float lanes A to integer dtype D, saturating at D's range, NaN gives 0
 * pk_wrap_D(v)         32-bit lanes wrapped to the width of D (from 64 bits: pk_cvt first)
 * pk_frommask_L(m)     mask to 0 or 1 in lane type L;  pk_tomask_L(v): v != 0, NaN is true
 * pk_bits_D(v)         bit pattern of D (v already a value of D) in vu32, or vu64 for 64-bit D
 * pk_frombits_D(b)     the value of the bit pattern in the low bits of b; higher bits are ignored
 */

/* ---- lane types ------------------------------------------------------------------------------ */

#define PK_CVT_(from, to)                                                                          \
    PK_I to pk_cvt_##from##_##to(from a) {                                                         \
        return __builtin_convertvector(a, to);                                                     \
    }
PK_CVT_(vf32, vf32)
PK_CVT_(vf64, vf64)
PK_CVT_(vi32, vi32)
PK_CVT_(vu32, vu32)
PK_CVT_(vi64, vi64)
PK_CVT_(vu64, vu64)
PK_CVT_(vf32, vf64)
PK_CVT_(vf64, vf32)
PK_CVT_(vi32, vf32)
PK_CVT_(vi32, vf64)
PK_CVT_(vi64, vf32)
PK_CVT_(vi64, vf64)
PK_CVT_(vu64, vf32)
PK_CVT_(vu64, vf64)
PK_CVT_(vi32, vi64)
PK_CVT_(vi64, vi32)
PK_CVT_(vu64, vu32)

PK_I vu32 pk_cvt_vi32_vu32(vi32 a) {
    return (vu32)a;
}
PK_I vi32 pk_cvt_vu32_vi32(vu32 a) {
    return (vi32)a;
}
PK_I vu64 pk_cvt_vi64_vu64(vi64 a) {
    return (vu64)a;
}
PK_I vi64 pk_cvt_vu64_vi64(vu64 a) {
    return (vi64)a;
}
PK_I vu64 pk_cvt_vi32_vu64(vi32 a) {
    return (vu64)pk_cvt_vi32_vi64(a);
}
PK_I vu64 pk_cvt_vu32_vu64(vu32 a) {
    return (vu64)pk_cvt_vi32_vi64((vi32)a) & 0xffffffffu;
}
PK_I vi64 pk_cvt_vu32_vi64(vu32 a) {
    return (vi64)pk_cvt_vu32_vu64(a);
}
PK_I vu32 pk_cvt_vi64_vu32(vi64 a) {
    return (vu32)pk_cvt_vi64_vi32(a);
}
PK_I vi32 pk_cvt_vu64_vi32(vu64 a) {
    return pk_cvt_vi64_vi32((vi64)a);
}
PK_I vf64 pk_cvt_vu32_vf64(vu32 a) {
    return pk_cvt_vi32_vf64((vi32)(a ^ 0x80000000u)) + 2147483648.0;
}
/* Both halves are exact as floats and so is the upper one's product: the sum is the only rounding.
 */
PK_I vf32 pk_cvt_vu32_vf32(vu32 a) {
#if PK_512_ || PK_CLANG_
    return __builtin_convertvector(a, vf32);
#else
    return pk_cvt_vi32_vf32((vi32)(a >> 16)) * 65536.0f + pk_cvt_vi32_vf32((vi32)(a & 0xffffu));
#endif
}
/* For lanes of u16, u8, u4, u2: one instruction. */
PK_I vf32 pk_cvtn_vu32_vf32(vu32 a) {
    return pk_cvt_vi32_vf32((vi32)a);
}
PK_I vf64 pk_cvtn_vu32_vf64(vu32 a) {
    return pk_cvt_vi32_vf64((vi32)a);
}

/* Out of range, x86 gives the smallest integer; other machines saturate. Both are brought to the
 * same by converting a limited value and by patching the upper end. */
PK_I vi32 pk_cvt_vf32_vi32(vf32 a) {
    vi32 over = (vi32)(a >= 0x1p31f);
    vi32 num = (vi32)(a == a);
    vf32 lim = (vf32)((vi32)pk_atleast_(a, -0x1p31f) & ~over & num);
    vi32 r = __builtin_convertvector(lim, vi32);
    return pk_select_vi32(over, pk_set_vi32(0x7fffffff), r);
}
PK_I vu32 pk_cvt_vf32_vu32(vf32 a) {
    vi32 over = (vi32)(a >= 0x1p32f), pos = (vi32)(a > 0.0f) & ~over, big = (vi32)(a >= 0x1p31f);
    vf32 b = a - (vf32)(big & (vi32)pk_set_vf32(0x1p31f));
    vi32 r = __builtin_convertvector((vf32)((vi32)b & pos), vi32);
    return (vu32)((r ^ (big & (int)0x80000000u)) | over);
}
PK_I vf64 pk_limit_(vf64 a, double lo, double hi) {
    vi64 over = pk_wide_gt_vf64_(a, pk_set_vf64(hi)), under = pk_wide_lt_vf64_(a, pk_set_vf64(lo));
    vi64 num = pk_wide_eq_vf64_(a, a);
    return (vf64)((over & (vi64)pk_set_vf64(hi)) | (under & (vi64)pk_set_vf64(lo)) |
                  ((vi64)a & num & ~(over | under)));
}
PK_I vi32 pk_cvt_vf64_vi32(vf64 a) {
    return __builtin_convertvector(pk_limit_(a, -2147483648.0, 2147483647.0), vi32);
}
PK_I vu32 pk_cvt_vf64_vu32(vf64 a) {
    vf64 x = pk_limit_(a, 0.0, 4294967295.0);
    vi64 big = pk_wide_ge_vf64_(x, pk_set_vf64(0x1p31));
    vf64 y = x - (vf64)(big & (vi64)pk_set_vf64(0x1p31));
    vi32 r = __builtin_convertvector(y, vi32);
    return (vu32)(r ^ (pk_narrow_mask_(big) & (int)0x80000000u));
}
PK_I vi64 pk_cvt_vf64_vi64(vf64 a) {
    vi64 over = pk_wide_ge_vf64_(a, pk_set_vf64(0x1p63));
    vi64 r = __builtin_convertvector(pk_limit_(a, -0x1p63, 0x1.fffffffffffffp62), vi64);
    return (over & 0x7fffffffffffffff) | (~over & r);
}
PK_I vu64 pk_cvt_vf64_vu64(vf64 a) {
    vi64 over = pk_wide_ge_vf64_(a, pk_set_vf64(0x1p64));
    vf64 x = pk_limit_(a, 0.0, 0x1.fffffffffffffp63);
    vi64 big = pk_wide_ge_vf64_(x, pk_set_vf64(0x1p63));
    vi64 r = __builtin_convertvector(x - (vf64)(big & (vi64)pk_set_vf64(0x1p63)), vi64);
    return (vu64)((r ^ (big & (pk_i64)0x8000000000000000u)) | over);
}
PK_I vi64 pk_cvt_vf32_vi64(vf32 a) {
    return pk_cvt_vf64_vi64(pk_cvt_vf32_vf64(a));
}
PK_I vu64 pk_cvt_vf32_vu64(vf32 a) {
    return pk_cvt_vf64_vu64(pk_cvt_vf32_vf64(a));
}

/* ---- to vf32, rounded to odd ------------------------------------------------------------------
 */

PK_I vf32 pk_odd_vf64_vf32(vf64 a) {
    vf32 y = pk_cvt_vf64_vf32(a);
    vf64 back = pk_cvt_vf32_vf64(y);
    vi32 inexact = pk_ne_vf64(back, a);
    vf64 ma = (vf64)((vi64)a & 0x7fffffffffffffff), mb = (vf64)((vi64)back & 0x7fffffffffffffff);
    vi32 away = pk_gt_vf64(mb, ma);
    return (vf32)(((vi32)y + away) | (inexact & 1));
}
PK_I vf32 pk_odd_vf32_vf32(vf32 a) {
    return a;
}
PK_I vf32 pk_odd_vi32_vf32(vi32 a) {
    return pk_odd_vf64_vf32(pk_cvt_vi32_vf64(a));
}
PK_I vf32 pk_odd_vu32_vf32(vu32 a) {
    return pk_odd_vf64_vf32(pk_cvt_vu32_vf64(a));
}
/* Beyond 2^52 the low 12 bits become one sticky bit, which makes the step to f64 exact. */
PK_I vf32 pk_odd_vi64_vf32(vi64 a) {
    vi64 h = a >> 52;
    vi64 big = pk_wide_ne_vi64_(h, (vi64){0}) & pk_wide_ne_vi64_(h, pk_set_vi64(-1));
    vi64 low = big & 0xfff, rest = pk_wide_ne_vi64_(a & low, (vi64){0}) & 0x800;
    return pk_odd_vf64_vf32(pk_cvt_vi64_vf64((a & ~low) | rest));
}
PK_I vf32 pk_odd_vu64_vf32(vu64 a) {
    vi64 big = pk_wide_ne_vu64_(a >> 52, (vu64){0});
    vi64 low = big & 0xfff, rest = pk_wide_ne_vi64_((vi64)a & low, (vi64){0}) & 0x800;
    return pk_odd_vf64_vf32(pk_cvt_vu64_vf64((vu64)(((vi64)a & ~low) | rest)));
}

/* ---- masks ----------------------------------------------------------------------------------- */

PK_I vi32 pk_frommask_vi32(vi32 m) {
    return m & 1;
}
PK_I vu32 pk_frommask_vu32(vi32 m) {
    return (vu32)m & 1;
}
PK_I vf32 pk_frommask_vf32(vi32 m) {
    return (vf32)(m & 0x3f800000);
}
PK_I vi64 pk_frommask_vi64(vi32 m) {
    return pk_wide_mask_(m) & 1;
}
PK_I vu64 pk_frommask_vu64(vi32 m) {
    return (vu64)pk_wide_mask_(m) & 1;
}
PK_I vf64 pk_frommask_vf64(vi32 m) {
    return (vf64)(pk_wide_mask_(m) & 0x3ff0000000000000);
}
#define PK_TOMASK_(lane)                                                                           \
    PK_I vi32 pk_tomask_##lane(lane a) {                                                           \
        return pk_ne_##lane(a, (lane){0});                                                         \
    }
PK_TOMASK_(vf32)
PK_TOMASK_(vf64)
PK_TOMASK_(vi32)
PK_TOMASK_(vu32)
PK_TOMASK_(vi64)
PK_TOMASK_(vu64)

/* ---- integers -------------------------------------------------------------------------------- */

#define PK_SAT_(D, lane, lo, hi)                                                                   \
    PK_I lane pk_sat_##D##_vf32(vf32 a) {                                                          \
        vf32 x = pk_atmost_(pk_atleast_(a, lo##.0f), hi##.0f);                                     \
        return (lane) __builtin_convertvector((vf32)((vi32)x & (vi32)(a == a)), vi32);             \
    }                                                                                              \
    PK_I lane pk_sat_##D##_vf64(vf64 a) {                                                          \
        return (lane) __builtin_convertvector(pk_limit_(a, lo##.0, hi##.0), vi32);                 \
    }
PK_SAT_(i16, vi32, -32768, 32767)
PK_SAT_(i8, vi32, -128, 127)
PK_SAT_(i4, vi32, -8, 7)
PK_SAT_(i2, vi32, -2, 1)
PK_SAT_(u16, vu32, 0, 65535)
PK_SAT_(u8, vu32, 0, 255)
PK_SAT_(u4, vu32, 0, 15)
PK_SAT_(u2, vu32, 0, 3)
#define PK_SATW_(D, lane)                                                                          \
    PK_I lane pk_sat_##D##_vf32(vf32 a) {                                                          \
        return pk_cvt_vf32_##lane(a);                                                              \
    }                                                                                              \
    PK_I lane pk_sat_##D##_vf64(vf64 a) {                                                          \
        return pk_cvt_vf64_##lane(a);                                                              \
    }
PK_SATW_(i64, vi64)
PK_SATW_(i32, vi32)
PK_SATW_(u64, vu64)
PK_SATW_(u32, vu32)

#define PK_INTBITS_(D, bits)                                                                       \
    PK_I vi32 pk_wrap_i##D(vi32 a) {                                                               \
        return (a << (32 - bits)) >> (32 - bits);                                                  \
    }                                                                                              \
    PK_I vu32 pk_wrap_u##D(vu32 a) {                                                               \
        return a & ((1u << bits) - 1u);                                                            \
    }                                                                                              \
    PK_I vu32 pk_bits_i##D(vi32 a) {                                                               \
        return (vu32)a & ((1u << bits) - 1u);                                                      \
    }                                                                                              \
    PK_I vu32 pk_bits_u##D(vu32 a) {                                                               \
        return a;                                                                                  \
    }                                                                                              \
    PK_I vi32 pk_frombits_i##D(vu32 a) {                                                           \
        return pk_wrap_i##D((vi32)a);                                                              \
    }                                                                                              \
    PK_I vu32 pk_frombits_u##D(vu32 a) {                                                           \
        return pk_wrap_u##D(a);                                                                    \
    }
PK_INTBITS_(16, 16)
PK_INTBITS_(8, 8)
PK_INTBITS_(4, 4)
PK_INTBITS_(2, 2)
#define PK_SAMEBITS_(D, lane, bits)                                                                \
    PK_I bits pk_bits_##D(lane a) {                                                                \
        return (bits)a;                                                                            \
    }                                                                                              \
    PK_I lane pk_frombits_##D(bits a) {                                                            \
        return (lane)a;                                                                            \
    }
PK_SAMEBITS_(f64, vf64, vu64)
PK_SAMEBITS_(f32, vf32, vu32)
PK_SAMEBITS_(i64, vi64, vu64)
PK_SAMEBITS_(i32, vi32, vu32)
PK_SAMEBITS_(u64, vu64, vu64)
PK_SAMEBITS_(u32, vu32, vu32)
#define PK_NOWRAP_(D, lane)                                                                        \
    PK_I lane pk_wrap_##D(lane a) {                                                                \
        return a;                                                                                  \
    }
PK_NOWRAP_(i64, vi64)
PK_NOWRAP_(i32, vi32)
PK_NOWRAP_(u64, vu64)
PK_NOWRAP_(u32, vu32)
PK_I vu32 pk_bits_bool(vi32 m) {
    return (vu32)m & 1;
}
PK_I vi32 pk_frombits_bool(vu32 a) {
    return (vi32)((a & 0xff) != 0);
}

/* ---- narrow floats: encoding ------------------------------------------------------------------
 */

/* The code without sign of |x| rounded half to even to `mant` stored mantissa bits with exponent
 * bias `bias`; codes above `max` become `over`. Normal results: add half an ulp in the bit pattern.
 * Denormal ones: a sum with 2^23 ulps of the target makes the adder do the rounding. */
PK_I vi32 pk_encode_(vf32 x, int mant, int bias, int max, int over) {
    vf32 m = pk_fabs_(x);
    vi32 a = (vi32)m;
    vi32 up = a + ((a >> (23 - mant)) & 1) + ((1 << (22 - mant)) - 1);
    vi32 normal = (up >> (23 - mant)) - ((127 - bias) << mant);
    vi32 big = pk_set_vi32((127 + 24 - bias - mant) << 23);
    vi32 small = (vi32)(m + (vf32)big) - big;
    vi32 c = pk_select_vi32((vi32)(a < ((128 - bias) << 23)), small, normal);
    return pk_select_vi32((vi32)(c > max), pk_set_vi32(over), c);
}
/* The same as a value: bit pattern of the rounded |x|. */
PK_I vi32 pk_rounded_(vf32 x, int mant, int bias, int max, int over) {
    vf32 m = pk_fabs_(x);
    vi32 a = (vi32)m;
    vi32 up = a + ((a >> (23 - mant)) & 1) + ((1 << (22 - mant)) - 1);
    vf32 big = (vf32)pk_set_vi32((127 + 24 - bias - mant) << 23);
    vf32 small = (m + big) - big;
    vi32 c = pk_select_vi32((vi32)(a < ((128 - bias) << 23)), (vi32)small,
                            up & ~((1 << (23 - mant)) - 1));
    return pk_select_vi32((vi32)(c > max), pk_set_vi32(over), c);
}
PK_I vu32 pk_bits_f16(vf32 x) {
#if PK_F16C_ && PK_512_
    pk_v16hi_ h =
        (pk_v16hi_)__builtin_ia32_vcvtps2ph512_mask(x, 0, (pk_v16hi_){0}, (unsigned short)-1);
#if PK_CLANG_
    typedef unsigned short us __attribute__((vector_size(32)));
    return __builtin_convertvector((us)h, vu32);
#else
    return (vu32)__builtin_ia32_pmovzxwd512_mask(h, (vi32){0}, (unsigned short)-1);
#endif
#elif PK_F16C_
    pk_v8hi_ h = (pk_v8hi_)__builtin_ia32_vcvtps2ph256(x, 0);
#if PK_CLANG_
    typedef unsigned short us __attribute__((vector_size(16)));
    return __builtin_convertvector((us)h, vu32);
#else
    return (vu32)__builtin_ia32_pmovzxwd256(h);
#endif
#else
    vi32 c = pk_encode_(x, 10, 15, 0x7bff, 0x7c00), s = ((vi32)x >> 16) & 0x8000;
    return (vu32)(pk_select_vi32((vi32)(x != x), pk_set_vi32(0x7e00), c) | s);
#endif
}
PK_I vu32 pk_bits_bf16(vf32 x) {
    vu32 a = (vu32)x;
    vu32 r = (a + 0x7fffu + ((a >> 16) & 1u)) >> 16;
    return pk_select_vu32((vi32)(x != x), (a >> 16) | 0x40u, r);
}
PK_I vu32 pk_bits_f8e4m3fn(vf32 x) {
    vi32 c = pk_encode_(x, 3, 7, 0x7e, 0x7f), s = ((vi32)x >> 24) & 0x80;
    return (vu32)((c | s) | ((vi32)(x != x) & 0x7f));
}
PK_I vu32 pk_bits_f8e5m2(vf32 x) {
    vi32 c = pk_encode_(x, 2, 15, 0x7b, 0x7c), s = ((vi32)x >> 24) & 0x80;
    return (vu32)((c | s) | ((vi32)(x != x) & 0x7f));
}
PK_I vu32 pk_bits_f4e2m1fn(vf32 x) {
    vi32 c = pk_encode_(x, 1, 1, 7, 7), s = ((vi32)x >> 28) & 8;
    return (vu32)pk_select_vi32((vi32)(x != x), pk_set_vi32(7), c | s);
}
/* Up to the next power of two: a pattern that is no power carries into the exponent. Zero and
 * negative values saturate below. */
PK_I vu32 pk_bits_e8m0(vf32 x) {
    vi32 a = (vi32)x;
    vi32 c = (a + 0x7fffff) >> 23;
    c = pk_select_vi32((vi32)(a <= 0x400000), (vi32){0}, c);
    c = pk_select_vi32((vi32)(c > 254), pk_set_vi32(254), c);
    return (vu32)pk_select_vi32((vi32)(x != x), pk_set_vi32(255), c);
}

/* ---- narrow floats: decoding ------------------------------------------------------------------
 */

/* Magnitude code (sign already removed) to value; codes of exponent 0 are small integers times the
 * smallest denormal. Infinities and NaN are the caller's. */
PK_I vi32 pk_decode_(vi32 c, int mant, int bias) {
    vi32 normal = (c << (23 - mant)) + ((127 - bias) << 23);
    float ulp = 1.0f / (float)(1 << (bias + mant - 1));
    vi32 small = (vi32)(__builtin_convertvector(c, vf32) * ulp);
    return pk_select_vi32((vi32)(c < (1 << mant)), small, normal);
}
PK_I vf32 pk_frombits_f16(vu32 b) {
    vi32 c = (vi32)b & 0x7fff, s = ((vi32)b << 16) & (int)0x80000000u;
    vi32 v = pk_decode_(c, 10, 15) | ((vi32)(c >= 0x7c00) & 0x7f800000);
    return (vf32)(v | s);
}
PK_I vf32 pk_frombits_bf16(vu32 b) {
    return (vf32)(b << 16);
}
PK_I vf32 pk_frombits_f8e4m3fn(vu32 b) {
    vi32 c = (vi32)b & 0x7f, s = ((vi32)b << 24) & (int)0x80000000u;
    return (vf32)(pk_decode_(c, 3, 7) | ((vi32)(c == 0x7f) & 0x7fc00000) | s);
}
PK_I vf32 pk_frombits_f8e5m2(vu32 b) {
    vi32 c = (vi32)b & 0x7f, s = ((vi32)b << 24) & (int)0x80000000u;
    return (vf32)(pk_decode_(c, 2, 15) | ((vi32)(c >= 0x7c) & 0x7f800000) | s);
}
PK_I vf32 pk_frombits_f4e2m1fn(vu32 b) {
    vi32 s = ((vi32)b << 28) & (int)0x80000000u;
#if PK_256_
    vf32 t = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    return (vf32)((vi32)__builtin_ia32_permvarsf256(t, (vi32)b) | s);
#elif PK_512_
    vf32 t = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
              -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    (void)s;
#if PK_CLANG_
    return __builtin_ia32_permvarsf512(t, (vi32)b);
#else
    return __builtin_ia32_permvarsf512_mask(t, (vi32)b, t, (unsigned short)-1);
#endif
#else
    return (vf32)(pk_decode_((vi32)b & 7, 1, 1) | s);
#endif
}
PK_I vf32 pk_frombits_e8m0(vu32 b) {
    vi32 c = (vi32)b & 0xff;
    vi32 ends = (vi32)(c == 0) | (vi32)(c == 255);
    return (vf32)((c << 23) | (ends & 0x400000));
}

/* ---- rounding in lanes ------------------------------------------------------------------------
 */

PK_I vf32 pk_round_f32(vf64 x) {
    return pk_cvt_vf64_vf32(x);
}
PK_I vf32 pk_rounds_f32(vf64 x) {
    return pk_round_f32(x);
}
PK_I vf32 pk_round_f16(vf32 x) {
#if PK_F16C_ && PK_512_
    pk_v16hi_ h =
        (pk_v16hi_)__builtin_ia32_vcvtps2ph512_mask(x, 0, (pk_v16hi_){0}, (unsigned short)-1);
    return __builtin_ia32_vcvtph2ps512_mask(h, (vf32){0}, (unsigned short)-1, 4);
#elif PK_F16C_
    return __builtin_ia32_vcvtph2ps256((pk_v8hi_)__builtin_ia32_vcvtps2ph256(x, 0));
#else
    vi32 v = pk_rounded_(x, 10, 15, 0x477fe000, 0x7f800000) | pk_signbit_(x);
    return (vf32)pk_select_vi32((vi32)(x != x), (vi32)x, v);
#endif
}
PK_I vf32 pk_round_bf16(vf32 x) {
    vu32 a = (vu32)x;
    vu32 r = (a + 0x7fffu + ((a >> 16) & 1u)) & 0xffff0000u;
    return (vf32)pk_select_vu32((vi32)(x != x), a, r);
}
PK_I vf32 pk_round_f8e4m3fn(vf32 x) {
    vi32 v = pk_rounded_(x, 3, 7, 0x43e00000, 0x7fc00000) | pk_signbit_(x);
    return (vf32)(v | ((vi32)(x != x) & 0x7fc00000));
}
PK_I vf32 pk_round_f8e5m2(vf32 x) {
    vi32 v = pk_rounded_(x, 2, 15, 0x47600000, 0x7f800000) | pk_signbit_(x);
    return (vf32)(v | ((vi32)(x != x) & 0x7fc00000));
}
PK_I vf32 pk_round_f4e2m1fn(vf32 x) {
    vi32 v = pk_rounded_(x, 1, 1, 0x40c00000, 0x40c00000) | pk_signbit_(x);
    return (vf32)pk_select_vi32((vi32)(x != x), pk_set_vi32(0x40c00000), v);
}
PK_I vf32 pk_round_e8m0(vf32 x) {
    return pk_frombits_e8m0(pk_bits_e8m0(x));
}
PK_I vf32 pk_clip_(vf32 x, float m) {
    return pk_atmost_(pk_atleast_(x, -m), m);
}
PK_I vf32 pk_rounds_f16(vf32 x) {
    return pk_round_f16(x);
}
PK_I vf32 pk_rounds_bf16(vf32 x) {
    return pk_round_bf16(x);
}
PK_I vf32 pk_rounds_f8e4m3fn(vf32 x) {
    return pk_round_f8e4m3fn(pk_clip_(x, 448.0f));
}
PK_I vf32 pk_rounds_f8e5m2(vf32 x) {
    return pk_round_f8e5m2(pk_clip_(x, 57344.0f));
}
PK_I vf32 pk_rounds_f4e2m1fn(vf32 x) {
    return pk_round_f4e2m1fn(x);
}
PK_I vf32 pk_rounds_e8m0(vf32 x) {
    return pk_round_e8m0(x);
}
