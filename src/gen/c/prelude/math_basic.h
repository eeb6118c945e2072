/* SPDX-License-Identifier: MIT
 * Order, sign, rounding to integers, square roots, piecewise linear activations, shifts.
 */

/* One libm function on every lane. */
#define PK_LIBM1_(name, lane, scalar, f)                                                           \
    extern scalar f(scalar);                                                                       \
    PK_I lane name(lane a) {                                                                       \
        for (int i = 0; i < PK_W; i++)                                                             \
            a[i] = f(a[i]);                                                                        \
        return a;                                                                                  \
    }
#define PK_LIBM2_(name, lane, scalar, f)                                                           \
    extern scalar f(scalar, scalar);                                                               \
    PK_I lane name(lane a, lane b) {                                                               \
        for (int i = 0; i < PK_W; i++)                                                             \
            a[i] = f(a[i], b[i]);                                                                  \
        return a;                                                                                  \
    }
/* The same for a function that the prelude defines over scalars. */
#define PK_LANES1_(name, lane, f)                                                                  \
    PK_I lane name(lane a) {                                                                       \
        for (int i = 0; i < PK_W; i++)                                                             \
            a[i] = f(a[i]);                                                                        \
        return a;                                                                                  \
    }
#define PK_LANES2_(name, lane, f)                                                                  \
    PK_I lane name(lane a, lane b) {                                                               \
        for (int i = 0; i < PK_W; i++)                                                             \
            a[i] = f(a[i], b[i]);                                                                  \
        return a;                                                                                  \
    }

/* ---- min, max, clamp, relu: a NaN in any operand stays, -0 < +0 -------------------------------
 */

/* What the machine has: the second operand where either is NaN or both are zeros. */
PK_I vf32 pk_rawmin_(vf32 a, vf32 b) {
#if PK_256_
    return __builtin_ia32_minps256(a, b);
#elif PK_512_ && PK_CLANG_
    return __builtin_ia32_minps512(a, b, 4);
#elif PK_512_
    return __builtin_ia32_minps512_mask(a, b, a, (unsigned short)-1, 4);
#else
    return pk_select_vf32((vi32)(a < b), a, b);
#endif
}
PK_I vf32 pk_rawmax_(vf32 a, vf32 b) {
#if PK_256_
    return __builtin_ia32_maxps256(a, b);
#elif PK_512_ && PK_CLANG_
    return __builtin_ia32_maxps512(a, b, 4);
#elif PK_512_
    return __builtin_ia32_maxps512_mask(a, b, a, (unsigned short)-1, 4);
#else
    return pk_select_vf32((vi32)(a > b), a, b);
#endif
}
/* Both orders differ only where one operand is NaN or the zeros differ in sign. Or keeps a NaN a
 * NaN and makes -0 of two zeros. */
PK_I vf32 pk_min_vf32(vf32 a, vf32 b) {
    return (vf32)((vi32)pk_rawmin_(a, b) | (vi32)pk_rawmin_(b, a));
}
/* Here d is the sign bit for two zeros, so that the difference is -0 - -0 = +0; else 0 or a NaN. */
PK_I vf32 pk_max_vf32(vf32 a, vf32 b) {
    vi32 m = (vi32)pk_rawmax_(a, b), d = m ^ (vi32)pk_rawmax_(b, a);
    return (vf32)(m | d) - (vf32)d;
}
PK_I vf32 pk_relu_vf32(vf32 a) {
    return pk_rawmax_((vf32){0}, a);
}
PK_I vf64 pk_wide_select_(vi64 m, vf64 a, vf64 b) {
    return (vf64)((m & (vi64)a) | (~m & (vi64)b));
}
PK_I vf64 pk_min_vf64(vf64 a, vf64 b) {
    vi64 x = (vi64)pk_wide_select_(pk_wide_lt_vf64_(a, b), a, b);
    vi64 y = (vi64)pk_wide_select_(pk_wide_lt_vf64_(b, a), b, a);
    return (vf64)(x | y);
}
PK_I vf64 pk_max_vf64(vf64 a, vf64 b) {
    vi64 x = (vi64)pk_wide_select_(pk_wide_gt_vf64_(a, b), a, b);
    vi64 d = x ^ (vi64)pk_wide_select_(pk_wide_gt_vf64_(b, a), b, a);
    return (vf64)(x | d) - (vf64)d;
}
PK_I vf64 pk_relu_vf64(vf64 a) {
    return (vf64)((vi64)a & ~pk_wide_lt_vf64_(a, (vf64){0}));
}
#define PK_ORDER_(lane)                                                                            \
    PK_I lane pk_min_##lane(lane a, lane b) {                                                      \
        return pk_select_##lane(pk_lt_##lane(a, b), a, b);                                         \
    }                                                                                              \
    PK_I lane pk_max_##lane(lane a, lane b) {                                                      \
        return pk_select_##lane(pk_gt_##lane(a, b), a, b);                                         \
    }                                                                                              \
    PK_I lane pk_relu_##lane(lane a) {                                                             \
        return pk_max_##lane(a, (lane){0});                                                        \
    }
PK_ORDER_(vi32)
PK_ORDER_(vu32)
PK_ORDER_(vi64)
PK_ORDER_(vu64)

/* ---- sign
 * ---------------------------------------------------------------------------------------- */

PK_I vf32 pk_abs_vf32(vf32 a) {
    return pk_fabs_(a);
}
PK_I vf64 pk_abs_vf64(vf64 a) {
    return (vf64)((vi64)a & 0x7fffffffffffffff);
}
PK_I vi32 pk_abs_vi32(vi32 a) {
    vi32 s = a >> 31;
    return (vi32)((vu32)(a ^ s) - (vu32)s);
}
PK_I vi64 pk_abs_vi64(vi64 a) {
    vi64 s = a >> 63;
    return (vi64)((vu64)(a ^ s) - (vu64)s);
}
PK_I vu32 pk_abs_vu32(vu32 a) {
    return a;
}
PK_I vu64 pk_abs_vu64(vu64 a) {
    return a;
}
PK_I vf32 pk_sign_vf32(vf32 a) {
    vi32 one = (vi32)pk_set_vf32(1.0f);
    return (vf32)((one | pk_signbit_(a)) & ((vi32)(a < 0.0f) | (vi32)(a > 0.0f)));
}
PK_I vf64 pk_sign_vf64(vf64 a) {
    vf64 z = {0};
    vi64 one = (vi64)pk_set_vf64(1.0), s = (vi64)a & (pk_i64)0x8000000000000000u;
    return (vf64)((one | s) & (pk_wide_lt_vf64_(a, z) | pk_wide_gt_vf64_(a, z)));
}
PK_I vi32 pk_sign_vi32(vi32 a) {
    return (a >> 31) | ((vi32)(a > 0) & 1);
}
PK_I vi64 pk_sign_vi64(vi64 a) {
    return (a >> 63) | (pk_wide_gt_vi64_(a, (vi64){0}) & 1);
}
PK_I vu32 pk_sign_vu32(vu32 a) {
    return (vu32)(a != 0) & 1u;
}
PK_I vu64 pk_sign_vu64(vu64 a) {
    return (vu64)pk_wide_ne_vu64_(a, (vu64){0}) & 1u;
}
PK_I vf32 pk_copysign_vf32(vf32 a, vf32 b) {
    return pk_withsign_(pk_fabs_(a), b);
}
PK_I vf64 pk_copysign_vf64(vf64 a, vf64 b) {
    vi64 s = (vi64)b & (pk_i64)0x8000000000000000u;
    return (vf64)(((vi64)a & 0x7fffffffffffffff) | s);
}
PK_I vi32 pk_isinf_vf32(vf32 a) {
    return (vi32)(pk_fabs_(a) == __builtin_inff());
}
PK_I vi32 pk_isinf_vf64(vf64 a) {
    return pk_eq_vf64(pk_abs_vf64(a), pk_set_vf64(__builtin_inf()));
}

/* ---- to integers
 * --------------------------------------------------------------------------------- */

/* Rounding modes of the x86 instructions, which want them as literals. */
#define PK_NEAREST_ 8
#define PK_DOWN_    9
#define PK_UP_      10
#define PK_CHOP_    11

#if PK_512_
#define PK_RINT_(a, mode) return __builtin_ia32_rndscaleps_mask(a, mode, a, (unsigned short)-1, 4);
#define PK_RINTD_(a, mode)                                                                         \
    pk_two_ t = {.f = a};                                                                          \
    for (int i = 0; i < 2; i++)                                                                    \
        t.hf[i] = __builtin_ia32_rndscalepd_mask(t.hf[i], mode, t.hf[i], (unsigned char)-1, 4);    \
    return t.f;
#elif PK_256_
#define PK_RINT_(a, mode) return __builtin_ia32_roundps256(a, mode);
#define PK_RINTD_(a, mode)                                                                         \
    pk_two_ t = {.f = a};                                                                          \
    for (int i = 0; i < 2; i++)                                                                    \
        t.hf[i] = __builtin_ia32_roundpd256(t.hf[i], mode);                                        \
    return t.f;
#else
#define PK_RINT_(a, mode)  return pk_plain_vf32_(a, mode);
#define PK_RINTD_(a, mode) return pk_plain_vf64_(a, mode);
/* Without an instruction: adding 2^23 or 2^52 rounds to nearest; the other modes step from there.
 */
PK_I vf32 pk_plain_vf32_(vf32 a, int mode) {
    vf32 m = pk_fabs_(a), big = pk_set_vf32(0x1p23f);
    vf32 r = pk_withsign_((m + big) - big, a), one = pk_set_vf32(1.0f);
    if (mode == PK_DOWN_) r -= (vf32)((vi32)(r > a) & (vi32)one);
    if (mode == PK_UP_) r += (vf32)((vi32)(r < a) & (vi32)one);
    if (mode == PK_CHOP_) r -= (vf32)((vi32)(pk_fabs_(r) > m) & (vi32)pk_withsign_(one, a));
    return pk_select_vf32((vi32)(m < 0x1p23f), pk_withsign_(pk_fabs_(r), a), a);
}
PK_I vf64 pk_plain_vf64_(vf64 a, int mode) {
    vf64 m = pk_abs_vf64(a), big = pk_set_vf64(0x1p52), one = pk_set_vf64(1.0);
    vf64 r = pk_copysign_vf64((m + big) - big, a);
    if (mode == PK_DOWN_) r -= (vf64)(pk_wide_gt_vf64_(r, a) & (vi64)one);
    if (mode == PK_UP_) r += (vf64)(pk_wide_lt_vf64_(r, a) & (vi64)one);
    if (mode == PK_CHOP_)
        r -= (vf64)(pk_wide_gt_vf64_(pk_abs_vf64(r), m) & (vi64)pk_copysign_vf64(one, a));
    return pk_wide_select_(pk_wide_lt_vf64_(m, big), pk_copysign_vf64(r, a), a);
}
#endif
#define PK_TOINT_(name, mode)                                                                      \
    PK_I vf32 pk_##name##_vf32(vf32 a){PK_RINT_(a, mode)} PK_I vf64 pk_##name##_vf64(vf64 a){      \
        PK_RINTD_(a, mode)} PK_SAMEINT_(name, vi32) PK_SAMEINT_(name, vu32)                        \
        PK_SAMEINT_(name, vi64) PK_SAMEINT_(name, vu64)
#define PK_SAMEINT_(name, lane)                                                                    \
    PK_I lane pk_##name##_##lane(lane a) {                                                         \
        return a;                                                                                  \
    }
PK_TOINT_(floor, PK_DOWN_)
PK_TOINT_(ceil, PK_UP_)
PK_TOINT_(round, PK_NEAREST_)
PK_TOINT_(trunc, PK_CHOP_)
PK_I vf32 pk_frac_vf32(vf32 a) {
    return a - pk_trunc_vf32(a);
}
PK_I vf64 pk_frac_vf64(vf64 a) {
    return a - pk_trunc_vf64(a);
}

/* Integers: neither NaN nor infinite, and without a fraction. */
#define PK_INT_(lane)                                                                              \
    PK_I lane pk_frac_##lane(lane a) {                                                             \
        return a ^ a;                                                                              \
    }                                                                                              \
    PK_I vi32 pk_isnan_##lane(lane a) {                                                            \
        (void)a;                                                                                   \
        return (vi32){0};                                                                          \
    }                                                                                              \
    PK_I vi32 pk_isinf_##lane(lane a) {                                                            \
        (void)a;                                                                                   \
        return (vi32){0};                                                                          \
    }
PK_INT_(vi32)
PK_INT_(vu32)
PK_INT_(vi64)
PK_INT_(vu64)

/* ---- square, reciprocal, roots
 * ------------------------------------------------------------------- */

PK_I vf32 pk_sqrt_vf32(vf32 a) {
#if __has_builtin(__builtin_elementwise_sqrt)
    return __builtin_elementwise_sqrt(a);
#elif PK_512_ && PK_CLANG_
    return __builtin_ia32_sqrtps512(a, 4);
#elif PK_512_
    return __builtin_ia32_sqrtps512_mask(a, a, (unsigned short)-1, 4);
#elif PK_256_
    return __builtin_ia32_sqrtps256(a);
#else
    for (int i = 0; i < PK_W; i++)
        a[i] = __builtin_sqrtf(a[i]);
    return a;
#endif
}
PK_I vf64 pk_sqrt_vf64(vf64 a) {
#if __has_builtin(__builtin_elementwise_sqrt)
    return __builtin_elementwise_sqrt(a);
#elif PK_512_ || (PK_256_ && !PK_HAS_512_)
    pk_two_ t = {.f = a};
    for (int i = 0; i < 2; i++)
#if PK_256_
        t.hf[i] = __builtin_ia32_sqrtpd256(t.hf[i]);
#elif PK_CLANG_
        t.hf[i] = __builtin_ia32_sqrtpd512(t.hf[i], 4);
#else
        t.hf[i] = __builtin_ia32_sqrtpd512_mask(t.hf[i], t.hf[i], (unsigned char)-1, 4);
#endif
    return t.f;
#else
    for (int i = 0; i < PK_W; i++)
        a[i] = __builtin_sqrt(a[i]);
    return a;
#endif
}
PK_I vf32 pk_reciprocal_vf32(vf32 a) {
    return 1.0f / a;
}
PK_I vf64 pk_reciprocal_vf64(vf64 a) {
    return 1.0 / a;
}
/* Two roundings miss by up to 1.4 ulp: one step of Newton's method in f64 mends that. */
PK_I vf32 pk_rsqrt_vf32(vf32 a) {
    vf32 y = 1.0f / pk_sqrt_vf32(a);
    vf64 d = pk_cvt_vf32_vf64(y), h = pk_cvt_vf32_vf64(a) * 0.5;
    vf32 r = pk_cvt_vf64_vf32(d * (1.5 - h * d * d));
    return pk_select_vf32((vi32)(y > 0.0f) & (vi32)(y < __builtin_inff()), r, y);
}
PK_I vf64 pk_rsqrt_vf64(vf64 a) {
    return 1.0 / pk_sqrt_vf64(a);
}
#define PK_SQUARE_(lane, as)                                                                       \
    PK_I lane pk_square_##lane(lane a) {                                                           \
        return (lane)((as)a * (as)a);                                                              \
    }
PK_SQUARE_(vf32, vf32)
PK_SQUARE_(vf64, vf64)
PK_SQUARE_(vi32, vu32)
PK_SQUARE_(vu32, vu32)
PK_SQUARE_(vi64, vu64)
PK_SQUARE_(vu64, vu64)

/* Over f64, so that neither square overflows or underflows; an infinity wins over a NaN. */
PK_I vf32 pk_hypot_vf32(vf32 a, vf32 b) {
    vf64 x = pk_cvt_vf32_vf64(a), y = pk_cvt_vf32_vf64(b);
    vf32 r = pk_cvt_vf64_vf32(pk_sqrt_vf64(x * x + y * y));
    return pk_select_vf32(pk_isinf_vf32(a) | pk_isinf_vf32(b), pk_set_vf32(__builtin_inff()), r);
}
PK_LIBM2_(pk_hypot_vf64, vf64, double, hypot)

/* ---- clamp and piecewise linear functions
 * -------------------------------------------------------- */

#define PK_CLAMP_(lane)                                                                            \
    PK_I lane pk_clamp_##lane(lane a, lane lo, lane hi) {                                          \
        return pk_min_##lane(pk_max_##lane(a, lo), hi);                                            \
    }
PK_CLAMP_(vf32)
PK_CLAMP_(vf64)
PK_CLAMP_(vi32)
PK_CLAMP_(vu32)
PK_CLAMP_(vi64)
PK_CLAMP_(vu64)

PK_I vf32 pk_relu6_(vf32 a) {
    return pk_atmost_(pk_atleast_(a, 0.0f), 6.0f);
}
PK_I vf32 pk_hardsigmoid_vf32(vf32 a) {
    return pk_relu6_(a + 3.0f) / 6.0f;
}
PK_I vf32 pk_hardswish_vf32(vf32 a) {
    return a * (pk_relu6_(a + 3.0f) / 6.0f);
}
PK_I vf64 pk_relu6d_(vf64 a) {
    return pk_clamp_vf64(a, (vf64){0}, pk_set_vf64(6.0));
}
PK_I vf64 pk_hardsigmoid_vf64(vf64 a) {
    return pk_relu6d_(a + 3.0) / 6.0;
}
PK_I vf64 pk_hardswish_vf64(vf64 a) {
    return a * pk_relu6d_(a + 3.0) / 6.0;
}
/* The slope as a sum of two floats, so that the product is rounded about once. The small part meets
 * a limited operand: beside an infinity it must not be one. */
PK_I vf32 pk_leaky_relu_vf32(vf32 a, double slope, double unused) {
    (void)unused;
    float hi = (float)slope, lo = (float)(slope - (double)hi);
    vf32 r;
    if (lo == lo && lo != 0.0f) {
#if PK_FMA_
        vf32 p = pk_fma_vf32(a, pk_set_vf32(hi), pk_clip_(a, __FLT_MAX__) * lo);
        r = pk_select_vf32((vi32)(a == 0.0f), a * hi, p);
#else
        r = pk_cvt_vf64_vf32(pk_cvt_vf32_vf64(a) * slope);
#endif
    } else {
        r = a * hi;
    }
    return pk_select_vf32((vi32)(a > 0.0f), a, r);
}
PK_I vf64 pk_leaky_relu_vf64(vf64 a, double slope, double unused) {
    (void)unused;
    return pk_wide_select_(pk_wide_gt_vf64_(a, (vf64){0}), a, a * slope);
}

/* ---- shifts: a count below 0 or of the width or more leaves 0 or the sign
 * ------------------------ */

#define PK_SHIFT_(lane, ulane, bits)                                                               \
    PK_I lane pk_shl_##lane(lane a, lane n) {                                                      \
        ulane ok = (ulane)pk_in_##bits##_((ulane)n);                                               \
        return (lane)(((ulane)a << ((ulane)n & (bits - 1))) & ok);                                 \
    }
PK_I vi32 pk_in_32_(vu32 n) {
    return (vi32)((n & ~31u) == 0);
}
PK_I vi64 pk_in_64_(vu64 n) {
    return pk_wide_eq_vu64_(n & ~(pk_u64)63, (vu64){0});
}
PK_SHIFT_(vi32, vu32, 32)
PK_SHIFT_(vu32, vu32, 32)
PK_SHIFT_(vi64, vu64, 64)
PK_SHIFT_(vu64, vu64, 64)
PK_I vu32 pk_shr_vu32(vu32 a, vu32 n) {
    return (a >> (n & 31u)) & (vu32)pk_in_32_(n);
}
PK_I vu64 pk_shr_vu64(vu64 a, vu64 n) {
    return (a >> (n & 63u)) & (vu64)pk_in_64_(n);
}
PK_I vi32 pk_shr_vi32(vi32 a, vi32 n) {
    return a >> ((n | ~pk_in_32_((vu32)n)) & 31);
}
/* There is no arithmetic shift of 64-bit lanes below AVX-512: shift the complement of negatives. */
PK_I vi64 pk_shr_vi64(vi64 a, vi64 n) {
    vi64 s = a >> 63, c = (n | ~pk_in_64_((vu64)n)) & 63;
    return (vi64)((vu64)(a ^ s) >> (vu64)c) ^ s;
}
