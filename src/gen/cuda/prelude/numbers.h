/* SPDX-License-Identifier: MIT
 * CUDA C: conversions between lane types, rounding to narrow dtypes, bit patterns. The names and
 * what they do are those of gen/c/prelude/convert.h.
 *
 * f16 and bf16 take the machine's conversions. The formats of 8 and 4 bits are rounded in integer
 * arithmetic, which is the same on every architecture.
 */

PK_D float pk_float_of(unsigned bits) {
    return __uint_as_float(bits);
}
PK_D unsigned pk_bits_of(float x) {
    return __float_as_uint(x);
}

#define __builtin_inff()         __uint_as_float(0x7f800000u)
#define __builtin_inf()          __longlong_as_double(0x7ff0000000000000ll)
#define __builtin_nan(s)         __longlong_as_double(0x7ff8000000000000ll)
#define __builtin_fabs(x)        fabs(x)
#define __builtin_floor(x)       floor(x)
#define __builtin_copysign(x, y) copysign(x, y)

/* ---- lane types ------------------------------------------------------------------------------ */

PK_D int pk_to_i32(float a) {
    return a != a ? 0 : __float2int_rz(a);
}
PK_D int pk_to_i32(double a) {
    return a != a ? 0 : __double2int_rz(a);
}
PK_D unsigned pk_to_u32(float a) {
    return a != a ? 0 : __float2uint_rz(a);
}
PK_D unsigned pk_to_u32(double a) {
    return a != a ? 0 : __double2uint_rz(a);
}
PK_D pk_i64 pk_to_i64(float a) {
    return a != a ? 0 : __float2ll_rz(a);
}
PK_D pk_i64 pk_to_i64(double a) {
    return a != a ? 0 : __double2ll_rz(a);
}
PK_D pk_u64 pk_to_u64(float a) {
    return a > 0.0f ? __float2ull_rz(a) : 0;
}
PK_D pk_u64 pk_to_u64(double a) {
    return a > 0.0 ? __double2ull_rz(a) : 0;
}

#define PK_CVTS(to, T)                                                                             \
    PK_MAP1(pk_cvt_vi32_##to, T, int, (T)a)                                                        \
    PK_MAP1(pk_cvt_vu32_##to, T, unsigned, (T)a)                                                   \
    PK_MAP1(pk_cvt_vi64_##to, T, pk_i64, (T)a)                                                     \
    PK_MAP1(pk_cvt_vu64_##to, T, pk_u64, (T)a)
PK_CVTS(vf32, float)
PK_CVTS(vf64, double)
PK_CVTS(vi32, int)
PK_CVTS(vu32, unsigned)
PK_CVTS(vi64, pk_i64)
PK_CVTS(vu64, pk_u64)
#define PK_CVTF(from, F)                                                                           \
    PK_MAP1(pk_cvt_##from##_vf32, float, F, (float)a)                                              \
    PK_MAP1(pk_cvt_##from##_vf64, double, F, (double)a)                                            \
    PK_MAP1(pk_cvt_##from##_vi32, int, F, pk_to_i32(a))                                            \
    PK_MAP1(pk_cvt_##from##_vu32, unsigned, F, pk_to_u32(a))                                       \
    PK_MAP1(pk_cvt_##from##_vi64, pk_i64, F, pk_to_i64(a))                                         \
    PK_MAP1(pk_cvt_##from##_vu64, pk_u64, F, pk_to_u64(a))
PK_CVTF(vf32, float)
PK_CVTF(vf64, double)
PK_MAP1(pk_cvtn_vu32_vf32, float, unsigned, (float)(int)a)
PK_MAP1(pk_cvtn_vu32_vf64, double, unsigned, (double)(int)a)

/* What the shared mathematics calls. */
template <class V> struct pk_converts;
template <> struct pk_converts<pk_lanes<float, 1>> {
    static __device__ __forceinline__ pk_lanes<float, 1> of(pk_lanes<int, 1> a) {
        return pk_lanes<float, 1>((float)a.x[0]);
    }
};
template <> struct pk_converts<pk_lanes<int, 1>> {
    static __device__ __forceinline__ pk_lanes<int, 1> of(pk_lanes<float, 1> a) {
        return pk_lanes<int, 1>(__float2int_rz(a.x[0]));
    }
};
#define __builtin_convertvector(v, t) (pk_converts<t>::of(v))

/* ---- to vf32, rounded to odd ----------------------------------------------------------------- */

PK_D float pk_odd1(float chopped, bool exact) {
    return pk_float_of(pk_bits_of(chopped) | (exact ? 0u : 1u));
}
PK_D float pk_odd_f32(double a) {
    float y = __double2float_rz(a);
    return pk_odd1(y, (double)y == a || a != a);
}
PK_D float pk_odd_f32(int a) {
    float y = __int2float_rz(a);
    return pk_odd1(y, __float2int_rz(y) == a);
}
PK_D float pk_odd_f32(unsigned a) {
    float y = __uint2float_rz(a);
    return pk_odd1(y, __float2uint_rz(y) == a);
}
PK_D float pk_odd_f32(pk_i64 a) {
    float y = __ll2float_rz(a);
    return pk_odd1(y, __float2ll_rz(y) == a);
}
PK_D float pk_odd_f32(pk_u64 a) {
    float y = __ull2float_rz(a);
    return pk_odd1(y, __float2ull_rz(y) == a);
}
PK_MAP1(pk_odd_vf64_vf32, float, double, pk_odd_f32(a))
PK_MAP1(pk_odd_vi32_vf32, float, int, pk_odd_f32(a))
PK_MAP1(pk_odd_vu32_vf32, float, unsigned, pk_odd_f32(a))
PK_MAP1(pk_odd_vi64_vf32, float, pk_i64, pk_odd_f32(a))
PK_MAP1(pk_odd_vu64_vf32, float, pk_u64, pk_odd_f32(a))
PK_MAP1(pk_odd_vf32_vf32, float, float, a)

/* ---- masks ----------------------------------------------------------------------------------- */

#define PK_MASKS(lane, T)                                                                          \
    PK_MAP1(pk_frommask_##lane, T, int, (a ? (T)1 : (T)0))                                         \
    PK_MAP1(pk_tomask_##lane, int, T, (a != (T)0 ? -1 : 0))
PK_MASKS(vf32, float)
PK_MASKS(vf64, double)
PK_MASKS(vi32, int)
PK_MASKS(vu32, unsigned)
PK_MASKS(vi64, pk_i64)
PK_MASKS(vu64, pk_u64)

/* ---- integers -------------------------------------------------------------------------------- */

PK_D int pk_sat1(float a, float lo, float hi) {
    return pk_to_i32(a < lo ? lo : a > hi ? hi : a);
}
PK_D int pk_sat1(double a, double lo, double hi) {
    return pk_to_i32(a < lo ? lo : a > hi ? hi : a);
}
#define PK_SAT(D, T, lo, hi)                                                                       \
    PK_MAP1(pk_sat_##D##_vf32, T, float, (T)pk_sat1(a, lo##.0f, hi##.0f))                          \
    PK_MAP1(pk_sat_##D##_vf64, T, double, (T)pk_sat1(a, lo##.0, hi##.0))
PK_SAT(i16, int, -32768, 32767)
PK_SAT(i8, int, -128, 127)
PK_SAT(i4, int, -8, 7)
PK_SAT(i2, int, -2, 1)
PK_SAT(u16, unsigned, 0, 65535)
PK_SAT(u8, unsigned, 0, 255)
PK_SAT(u4, unsigned, 0, 15)
PK_SAT(u2, unsigned, 0, 3)
#define PK_SATW(D, T)                                                                              \
    PK_MAP1(pk_sat_##D##_vf32, T, float, pk_to_##D(a))                                             \
    PK_MAP1(pk_sat_##D##_vf64, T, double, pk_to_##D(a))
PK_SATW(i64, pk_i64)
PK_SATW(i32, int)
PK_SATW(u64, pk_u64)
PK_SATW(u32, unsigned)

#define PK_WRAPS(bits)                                                                             \
    PK_MAP1(pk_wrap_i##bits, int, int, (int)((unsigned)a << (32 - bits)) >> (32 - bits))           \
    PK_MAP1(pk_wrap_u##bits, unsigned, unsigned, a &((1u << bits) - 1u))
PK_WRAPS(16)
PK_WRAPS(8)
PK_WRAPS(4)
PK_WRAPS(2)
PK_MAP1(pk_wrap_i64, pk_i64, pk_i64, a)
PK_MAP1(pk_wrap_i32, int, int, a)
PK_MAP1(pk_wrap_u64, pk_u64, pk_u64, a)
PK_MAP1(pk_wrap_u32, unsigned, unsigned, a)

/* ---- narrow floats: encoding ----------------------------------------------------------------- */

/* As in convert.h: the code without sign of |x| rounded half to even to `mant` stored mantissa bits
 * with exponent bias `bias`; codes above `max` become `over`. */
PK_D int pk_encode1(float x, int mant, int bias, int max, int over) {
    int a = (int)(pk_bits_of(x) & 0x7fffffffu);
    int up = a + ((a >> (23 - mant)) & 1) + ((1 << (22 - mant)) - 1);
    int normal = (up >> (23 - mant)) - ((127 - bias) << mant);
    int big = (127 + 24 - bias - mant) << 23;
    int small = (int)pk_bits_of(pk_float_of((unsigned)a) + pk_float_of((unsigned)big)) - big;
    int c = a < ((128 - bias) << 23) ? small : normal;
    return c > max ? over : c;
}
/* The instruction for pairs has four times the rate of the one for single numbers. */
PK_D unsigned pk_code_f16(float x) {
    unsigned h;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(h) : "f"(0.0f), "f"(x));
    return h;
}
PK_D unsigned pk_code_bf16(float x) {
    unsigned h;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(h) : "f"(0.0f), "f"(x));
    return h;
}
PK_D unsigned pk_code_f8e4m3fn(float x) {
    int c = pk_encode1(x, 3, 7, 0x7e, 0x7f), s = (int)(pk_bits_of(x) >> 24) & 0x80;
    return (unsigned)((x != x ? 0x7f : c) | s);
}
PK_D unsigned pk_code_f8e5m2(float x) {
    int c = pk_encode1(x, 2, 15, 0x7b, 0x7c), s = (int)(pk_bits_of(x) >> 24) & 0x80;
    return (unsigned)((x != x ? 0x7f : c) | s);
}
PK_D unsigned pk_code_f4e2m1fn(float x) {
    int c = pk_encode1(x, 1, 1, 7, 7), s = (int)(pk_bits_of(x) >> 28) & 8;
    return (unsigned)(x != x ? 7 : c | s);
}
PK_D unsigned pk_code_e8m0(float x) {
    int a = (int)pk_bits_of(x), c = (a + 0x7fffff) >> 23;
    if (a <= 0x400000) c = 0;
    if (c > 254) c = 254;
    return (unsigned)(x != x ? 255 : c);
}

/* ---- narrow floats: decoding ----------------------------------------------------------------- */

PK_D float pk_value_f16(unsigned b) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)b));
    return x;
}
PK_D float pk_value_bf16(unsigned b) {
    return pk_float_of(b << 16);
}
/* Both formats of 8 bits are f16 with a shorter mantissa, up to the bias. */
PK_D float pk_value_f8e4m3fn(unsigned b) {
    unsigned h = (b & 0x7f) << 7 | (b & 0x80) << 8;
    float x = pk_value_f16(h) * 256.0f;
    return (b & 0x7f) == 0x7f ? pk_float_of(0x7fc00000u | (b & 0x80) << 24) : x;
}
PK_D float pk_value_f8e5m2(unsigned b) {
    return pk_value_f16((b & 0xff) << 8);
}
PK_D float pk_value_f4e2m1fn(unsigned b) {
    return pk_value_f16((b & 7) << 9 | (b & 8) << 12) * 16384.0f;
}
PK_D float pk_value_e8m0(unsigned b) {
    unsigned c = b & 0xff;
    return pk_float_of(c == 0 ? 0x400000u : c == 255 ? 0x7fc00000u : c << 23);
}

/* ---- bit patterns ---------------------------------------------------------------------------- */

#define PK_NARROW(D)                                                                               \
    PK_MAP1(pk_bits_##D, unsigned, float, pk_code_##D(a))                                          \
    PK_MAP1(pk_frombits_##D, float, unsigned, pk_value_##D(a))                                     \
    PK_MAP1(pk_round_##D, float, float, pk_value_##D(pk_code_##D(a)))
PK_NARROW(f16)
PK_NARROW(bf16)
PK_NARROW(f8e4m3fn)
PK_NARROW(f8e5m2)
PK_NARROW(f4e2m1fn)
PK_NARROW(e8m0)
#define PK_INTBITS(bits)                                                                           \
    PK_MAP1(pk_bits_i##bits, unsigned, int, (unsigned)a &((1u << bits) - 1u))                      \
    PK_MAP1(pk_bits_u##bits, unsigned, unsigned, a)                                                \
    PK_MAP1(pk_frombits_i##bits, int, unsigned, (int)(a << (32 - bits)) >> (32 - bits))            \
    PK_MAP1(pk_frombits_u##bits, unsigned, unsigned, a &((1u << bits) - 1u))
PK_INTBITS(16)
PK_INTBITS(8)
PK_INTBITS(4)
PK_INTBITS(2)
#define PK_SAMEBITS(D, T, B)                                                                       \
    PK_MAP1(pk_bits_##D, B, T, pk_cast_bits<B>(a))                                                 \
    PK_MAP1(pk_frombits_##D, T, B, pk_cast_bits<T>(a))
PK_SAMEBITS(f64, double, pk_u64)
PK_SAMEBITS(f32, float, unsigned)
PK_SAMEBITS(i64, pk_i64, pk_u64)
PK_SAMEBITS(i32, int, unsigned)
PK_SAMEBITS(u64, pk_u64, pk_u64)
PK_SAMEBITS(u32, unsigned, unsigned)
PK_MAP1(pk_bits_bool, unsigned, int, (unsigned)a & 1)
PK_MAP1(pk_frombits_bool, int, unsigned, ((a & 0xff) != 0 ? -1 : 0))

PK_MAP1(pk_round_f32, float, double, (float)a)
PK_MAP1(pk_rounds_f32, float, double, (float)a)
PK_D float pk_clip1(float x, float m) {
    return x < -m ? -m : x > m ? m : x;
}
PK_MAP1(pk_rounds_f16, float, float, pk_value_f16(pk_code_f16(a)))
PK_MAP1(pk_rounds_bf16, float, float, pk_value_bf16(pk_code_bf16(a)))
PK_MAP1(pk_rounds_f8e4m3fn, float, float, pk_value_f8e4m3fn(pk_code_f8e4m3fn(pk_clip1(a, 448.0f))))
PK_MAP1(pk_rounds_f8e5m2, float, float, pk_value_f8e5m2(pk_code_f8e5m2(pk_clip1(a, 57344.0f))))
PK_MAP1(pk_rounds_f4e2m1fn, float, float, pk_value_f4e2m1fn(pk_code_f4e2m1fn(a)))
PK_MAP1(pk_rounds_e8m0, float, float, pk_value_e8m0(pk_code_e8m0(a)))
