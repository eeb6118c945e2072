/* SPDX-License-Identifier: MIT
 * CUDA C: what gen/c/prelude/math_basic.h, math_int.h and math_powi.h are for CPUs, with the
 * machine's instructions: order, sign, rounding to integers, roots, piecewise linear activations,
 * shifts, division with floor, remainders, powers of integers. Values are those of the CPU.
 */

/* ---- min, max, clamp, relu: a NaN in any operand stays, -0 < +0 ------------------------------ */

PK_D float pk_min1(float a, float b) {
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
PK_D float pk_max1(float a, float b) {
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
PK_D double pk_min1(double a, double b) {
    if (a != a || b != b) return a + b;
    return a < b || (a == b && __double_as_longlong(a) < 0) ? a : b;
}
PK_D double pk_max1(double a, double b) {
    if (a != a || b != b) return a + b;
    return a > b || (a == b && __double_as_longlong(a) >= 0) ? a : b;
}
#define PK_MINMAX(T)                                                                               \
    PK_D T pk_min1(T a, T b) {                                                                     \
        return a < b ? a : b;                                                                      \
    }                                                                                              \
    PK_D T pk_max1(T a, T b) {                                                                     \
        return a > b ? a : b;                                                                      \
    }
PK_MINMAX(int)
PK_MINMAX(unsigned)
PK_MINMAX(pk_i64)
PK_MINMAX(pk_u64)

PK_D float pk_relu1(float a) {
    return a < 0.0f ? 0.0f : a;
}
PK_D double pk_relu1(double a) {
    return a < 0.0 ? 0.0 : a;
}
template <class T> PK_D T pk_relu1(T a) {
    return a > (T)0 ? a : (T)0;
}

#define PK_ORDERED(lane, T)                                                                        \
    PK_MAP2(pk_min_##lane, T, T, pk_min1(a, b))                                                    \
    PK_MAP2(pk_max_##lane, T, T, pk_max1(a, b))                                                    \
    PK_MAP1(pk_relu_##lane, T, T, pk_relu1(a))                                                     \
    template <int N>                                                                               \
    PK_D pk_lanes<T, N> pk_clamp_##lane(const pk_lanes<T, N> &a, const pk_lanes<T, N> &lo,         \
                                        const pk_lanes<T, N> &hi) {                                \
        return pk_min_##lane(pk_max_##lane(a, lo), hi);                                            \
    }
PK_ORDERED(vf32, float)
PK_ORDERED(vf64, double)
PK_ORDERED(vi32, int)
PK_ORDERED(vu32, unsigned)
PK_ORDERED(vi64, pk_i64)
PK_ORDERED(vu64, pk_u64)

/* ---- sign ------------------------------------------------------------------------------------ */

PK_MAP1(pk_abs_vf32, float, float, fabsf(a))
PK_MAP1(pk_abs_vf64, double, double, fabs(a))
PK_MAP1(pk_abs_vi32, int, int, (a < 0 ? (int)(0u - (unsigned)a) : a))
PK_MAP1(pk_abs_vi64, pk_i64, pk_i64, (a < 0 ? (pk_i64)(0 - (pk_u64)a) : a))
PK_MAP1(pk_abs_vu32, unsigned, unsigned, a)
PK_MAP1(pk_abs_vu64, pk_u64, pk_u64, a)
PK_MAP1(pk_sign_vf32, float, float, (a > 0.0f ? 1.0f : a < 0.0f ? -1.0f : 0.0f))
PK_MAP1(pk_sign_vf64, double, double, (a > 0.0 ? 1.0 : a < 0.0 ? -1.0 : 0.0))
PK_MAP1(pk_sign_vi32, int, int, ((a > 0) - (a < 0)))
PK_MAP1(pk_sign_vi64, pk_i64, pk_i64, ((a > 0) - (a < 0)))
PK_MAP1(pk_sign_vu32, unsigned, unsigned, (a != 0))
PK_MAP1(pk_sign_vu64, pk_u64, pk_u64, (a != 0))
PK_MAP2(pk_copysign_vf32, float, float, copysignf(a, b))
PK_MAP2(pk_copysign_vf64, double, double, copysign(a, b))
PK_MAP1(pk_isnan_vf32, int, float, (a != a ? -1 : 0))
PK_MAP1(pk_isnan_vf64, int, double, (a != a ? -1 : 0))
PK_MAP1(pk_isinf_vf32, int, float, (fabsf(a) == __builtin_inff() ? -1 : 0))
PK_MAP1(pk_isinf_vf64, int, double, (fabs(a) == __builtin_inf() ? -1 : 0))

/* ---- to integers ----------------------------------------------------------------------------- */

PK_MAP1(pk_floor_vf32, float, float, floorf(a))
PK_MAP1(pk_floor_vf64, double, double, floor(a))
PK_MAP1(pk_ceil_vf32, float, float, ceilf(a))
PK_MAP1(pk_ceil_vf64, double, double, ceil(a))
PK_MAP1(pk_round_vf32, float, float, rintf(a))
PK_MAP1(pk_round_vf64, double, double, rint(a))
PK_MAP1(pk_trunc_vf32, float, float, truncf(a))
PK_MAP1(pk_trunc_vf64, double, double, trunc(a))
PK_MAP1(pk_frac_vf32, float, float, a - truncf(a))
PK_MAP1(pk_frac_vf64, double, double, a - trunc(a))
#define PK_INTEGER(lane, T)                                                                        \
    PK_MAP1(pk_floor_##lane, T, T, a)                                                              \
    PK_MAP1(pk_ceil_##lane, T, T, a)                                                               \
    PK_MAP1(pk_round_##lane, T, T, a)                                                              \
    PK_MAP1(pk_trunc_##lane, T, T, a)                                                              \
    PK_MAP1(pk_frac_##lane, T, T, a ^ a)                                                           \
    PK_MAP1(pk_isnan_##lane, int, T, (int)(a ^ a))                                                 \
    PK_MAP1(pk_isinf_##lane, int, T, (int)(a ^ a))
PK_INTEGER(vi32, int)
PK_INTEGER(vu32, unsigned)
PK_INTEGER(vi64, pk_i64)
PK_INTEGER(vu64, pk_u64)

/* ---- square, reciprocal, roots --------------------------------------------------------------- */

PK_MAP1(pk_sqrt_vf32, float, float, __fsqrt_rn(a))
PK_MAP1(pk_sqrt_vf64, double, double, __dsqrt_rn(a))
PK_MAP1(pk_reciprocal_vf32, float, float, __frcp_rn(a))
PK_MAP1(pk_reciprocal_vf64, double, double, 1.0 / a)
PK_MAP1(pk_rsqrt_vf32, float, float, __frsqrt_rn(a))
PK_MAP1(pk_rsqrt_vf64, double, double, 1.0 / __dsqrt_rn(a))
PK_MAP1(pk_square_vf32, float, float, a *a)
PK_MAP1(pk_square_vf64, double, double, a *a)
PK_MAP1(pk_square_vi32, int, int, (int)((unsigned)a *(unsigned)a))
PK_MAP1(pk_square_vu32, unsigned, unsigned, a *a)
PK_MAP1(pk_square_vi64, pk_i64, pk_i64, (pk_i64)((pk_u64)a *(pk_u64)a))
PK_MAP1(pk_square_vu64, pk_u64, pk_u64, a *a)
/* Over f64, so that neither square overflows or underflows; an infinity wins over a NaN. */
PK_D float pk_hypot1(float a, float b) {
    if (fabsf(a) == __builtin_inff() || fabsf(b) == __builtin_inff()) return __builtin_inff();
    const double x = a, y = b;
    return (float)__dsqrt_rn(x * x + y * y);
}
PK_MAP2(pk_hypot_vf32, float, float, pk_hypot1(a, b))
PK_MAP2(pk_hypot_vf64, double, double, hypot(a, b))

/* ---- piecewise linear functions -------------------------------------------------------------- */

PK_D float pk_relu6(float a) {
    return a < 0.0f ? 0.0f : a > 6.0f ? 6.0f : a;
}
PK_D double pk_relu6(double a) {
    return a < 0.0 ? 0.0 : a > 6.0 ? 6.0 : a;
}
PK_MAP1(pk_hardsigmoid_vf32, float, float, pk_relu6(a + 3.0f) / 6.0f)
PK_MAP1(pk_hardswish_vf32, float, float, a *(pk_relu6(a + 3.0f) / 6.0f))
PK_MAP1(pk_hardsigmoid_vf64, double, double, pk_relu6(a + 3.0) / 6.0)
PK_MAP1(pk_hardswish_vf64, double, double, a *pk_relu6(a + 3.0) / 6.0)
/* The slope as a sum of two floats, as on CPUs. */
PK_D float pk_leaky1(float a, double slope) {
    const float hi = (float)slope, lo = (float)(slope - (double)hi);
    if (a > 0.0f) return a;
    if (a == 0.0f || lo != lo || lo == 0.0f) return a * hi;
    return __fmaf_rn(a, hi, pk_clip1(a, 0x1.fffffep127f) * lo);
}
template <int N>
PK_D pk_lanes<float, N> pk_leaky_relu_vf32(pk_lanes<float, N> a, double p, double) {
    PK_EACH(N) a.x[l] = pk_leaky1(a.x[l], p);
    return a;
}
template <int N>
PK_D pk_lanes<double, N> pk_leaky_relu_vf64(pk_lanes<double, N> a, double p, double) {
    PK_EACH(N) a.x[l] = a.x[l] > 0.0 ? a.x[l] : a.x[l] * p;
    return a;
}

/* ---- shifts: a count below 0 or of the width or more leaves 0 or the sign -------------------- */

PK_MAP2(pk_shl_vi32, int, int, ((unsigned)b < 32u ? (int)((unsigned)a << b) : 0))
PK_MAP2(pk_shl_vu32, unsigned, unsigned, (b < 32u ? a << b : 0u))
PK_MAP2(pk_shl_vi64, pk_i64, pk_i64, ((pk_u64)b < 64u ? (pk_i64)((pk_u64)a << b) : 0))
PK_MAP2(pk_shl_vu64, pk_u64, pk_u64, (b < 64u ? a << b : 0u))
PK_MAP2(pk_shr_vi32, int, int, a >> ((unsigned)b < 32u ? b : 31))
PK_MAP2(pk_shr_vu32, unsigned, unsigned, (b < 32u ? a >> b : 0u))
PK_MAP2(pk_shr_vi64, pk_i64, pk_i64, a >> ((pk_u64)b < 64u ? b : 63))
PK_MAP2(pk_shr_vu64, pk_u64, pk_u64, (b < 64u ? a >> b : 0u))

/* ---- division with floor, remainders: integers never trap ------------------------------------ */

template <class T> PK_D T pk_quot1(T a, T b) {
    if (b == (T)0) return (T)0;
    if constexpr ((T)-1 < (T)0) {
        if (b == (T)-1) return (T)(0 - (typename pk_type<T>::wrap)a);
    }
    return a / b;
}
template <class T> PK_D T pk_fmod1(T a, T b) {
    if (b == (T)0) return (T)0;
    if constexpr ((T)-1 < (T)0) {
        if (b == (T)-1) return (T)0;
    }
    return a % b;
}
template <class T> PK_D T pk_floordiv1(T a, T b) {
    const T q = pk_quot1(a, b);
    if constexpr ((T)-1 < (T)0) {
        const T r = pk_fmod1(a, b);
        return q - (r != 0 && (r ^ b) < 0);
    }
    return q;
}
template <class T> PK_D T pk_mod1(T a, T b) {
    const T r = pk_fmod1(a, b);
    if constexpr ((T)-1 < (T)0) return r != 0 && (r ^ b) < 0 ? r + b : r;
    return r;
}
PK_D float pk_fmod1(float a, float b) {
    return fmodf(a, b);
}
PK_D double pk_fmod1(double a, double b) {
    return fmod(a, b);
}
PK_D float pk_mod1(float a, float b) {
    const float r = fmodf(a, b);
    return r != 0.0f && (b < 0.0f) != (r < 0.0f) ? r + b : r;
}
PK_D double pk_mod1(double a, double b) {
    const double r = fmod(a, b);
    return r != 0.0 && (b < 0.0) != (r < 0.0) ? r + b : r;
}
/* As Python defines it: from the exact remainder. */
PK_D double pk_floordiv1(double a, double b) {
    if (b == 0.0) return a / b;
    const double r = fmod(a, b);
    double q = (a - r) / b;
    if (r != 0.0 && (b < 0.0) != (r < 0.0)) q -= 1.0;
    if (q == 0.0) return copysign(0.0, a / b);
    const double whole = floor(q);
    return q - whole > 0.5 ? whole + 1.0 : whole;
}
PK_D float pk_floordiv1(float a, float b) {
    return (float)pk_floordiv1((double)a, (double)b);
}
/* Modulo 2^width, by squaring; a negative exponent gives the integer part of the exact power. */
template <class T> PK_D T pk_pow1(T a, T b) {
    typedef typename pk_type<T>::wrap U;
    if constexpr ((T)-1 < (T)0) {
        if (b < 0) return a == 1 ? 1 : a == (T)-1 ? ((b & 1) != 0 ? (T)-1 : 1) : 0;
    }
    U r = 1, x = (U)a;
    for (U n = (U)b; n != 0; n >>= 1) {
        if ((n & 1) != 0) r *= x;
        x *= x;
    }
    return (T)r;
}
#define PK_DIVIDES(lane, T)                                                                        \
    PK_MAP2(pk_floordiv_##lane, T, T, pk_floordiv1(a, b))                                          \
    PK_MAP2(pk_mod_##lane, T, T, pk_mod1(a, b))                                                    \
    PK_MAP2(pk_fmod_##lane, T, T, pk_fmod1(a, b))
PK_DIVIDES(vf32, float)
PK_DIVIDES(vf64, double)
PK_DIVIDES(vi32, int)
PK_DIVIDES(vu32, unsigned)
PK_DIVIDES(vi64, pk_i64)
PK_DIVIDES(vu64, pk_u64)
PK_MAP2(pk_pow_vi32, int, int, pk_pow1(a, b))
PK_MAP2(pk_pow_vu32, unsigned, unsigned, pk_pow1(a, b))
PK_MAP2(pk_pow_vi64, pk_i64, pk_i64, pk_pow1(a, b))
PK_MAP2(pk_pow_vu64, pk_u64, pk_u64, pk_pow1(a, b))

/* ---- index expressions ----------------------------------------------------------------------- */

PK_D pk_i64 pk_floor_div(pk_i64 a, pk_i64 b) {
    const pk_i64 q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}
PK_D pk_i64 pk_floor_mod(pk_i64 a, pk_i64 b) {
    return a - pk_floor_div(a, b) * b;
}
/* An index read from data, brought into its tensor: a check reports what was outside. */
PK_D pk_i64 pk_inside(pk_i64 i, pk_i64 n) {
    return i < 0 ? 0 : i < n ? i : n - 1;
}
/* i = q * d + r, for 0 <= i < all: 32-bit division where that is enough. */
PK_D void pk_divide(pk_i64 i, pk_i64 d, pk_i64 all, pk_i64 *q, pk_i64 *r) {
    if (all <= 0xffffffffll) {
        *q = (unsigned)i / (unsigned)d;
        *r = (unsigned)i % (unsigned)d;
    } else {
        *q = i / d;
        *r = i % d;
    }
}
