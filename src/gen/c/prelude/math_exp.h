/* SPDX-License-Identifier: MIT
 * exp and what is made of it: exp2, expm1, sinh, cosh, tanh, sigmoid, silu, mish, elu, gelu with
 * tanh.
 *
 * Reduction x = k ln 2 + r after Cody and Waite ("Software Manual for the Elementary Functions",
 * 1980), with ln 2 in two parts so short that k times the first is exact; expm1(r) = r + r^2 Q(r)
 * with Q a minimax polynomial (Remez exchange, coefficients rounded one after the other), within
 * 2^-26. A result below 2^-126 is rounded once, by the last of two factors 2^(k/2).
 */

#define PK_LOG2E_  0x1.715476p+0f
#define PK_MAGIC_  0x1.8p23f /* adding it leaves the nearest integer in the low bits */
#define PK_LN2HI_  0x1.63p-1f
#define PK_LN2LO_  -0x1.bd0106p-13f
#define PK_MAGICI_ 0x4b400000
#ifndef pk_over_ /* n / d where d is normal, at least 1/2, and nothing overflows */
#define pk_over_(n, d) ((n) / (d))
#endif

/* expm1(r), |r| <= ln 2 / 2 */
PK_I vf32 pk_expm1r_(vf32 r) {
    vf32 q = pk_madc_(pk_set_vf32(0x1.6d722cp-10f), r, 0x1.122680p-7f);
    q = pk_madc_(q, r, 0x1.5554c8p-5f);
    q = pk_madc_(q, r, 0x1.5554b2p-3f);
    q = pk_madc_(q, r, 0.5f);
    return pk_mad_(q, r * r, r);
}
/* x = k ln 2 + r: returns r, for |x| < 2^21 */
PK_I vf32 pk_reduce_(vf32 x, vi32 *k) {
    vf32 t = pk_madc_(x, pk_set_vf32(PK_LOG2E_), PK_MAGIC_);
    vf32 kf = t - PK_MAGIC_;
    *k = (vi32)t - PK_MAGICI_;
    vf32 r = pk_mad_(kf, pk_set_vf32(-PK_LN2HI_), x);
    return pk_mad_(kf, pk_set_vf32(-PK_LN2LO_), r);
}
/* 2^k, -127 < k < 128 */
PK_I vf32 pk_pow2_(vi32 k) {
    return (vf32)((k + 127) << 23);
}
/* p 2^k, -253 < k < 255, rounded once */
PK_I vf32 pk_scale_(vf32 p, vi32 k) {
#if PK_512_
    vf32 f = __builtin_convertvector(k, vf32);
    return __builtin_ia32_scalefps512_mask(p, f, p, (unsigned short)-1, 4);
#else
    vi32 h = k >> 1;
    return p * pk_pow2_(h) * pk_pow2_(k - h);
#endif
}
/* The same, but 0 times p where `dead`: there the exact factor is far below all k. */
PK_I vf32 pk_scale_or0_(vf32 p, vi32 k, vi32 dead) {
    vi32 h = k >> 1;
    return p * pk_pow2_(h) * (vf32)((vi32)pk_pow2_(k - h) & ~dead);
}

PK_I vf32 pk_exp_vf32(vf32 x) {
    vi32 k;
    vf32 r = pk_reduce_(pk_atmost_(pk_atleast_(x, -104.0f), 89.0f), &k);
    return pk_scale_(pk_expm1r_(r) + 1.0f, k);
}
PK_I vf32 pk_exp2_vf32(vf32 x) {
    vf32 c = pk_atmost_(pk_atleast_(x, -151.0f), 129.0f);
    vf32 t = c + PK_MAGIC_, r = (c - (t - PK_MAGIC_)) * 0x1.62e430p-1f;
    return pk_scale_(pk_expm1r_(r) + 1.0f, (vi32)t - PK_MAGICI_);
}
/* 2^k (1 + q) - 1 = 2 (2^(k-1) q + (2^(k-1) - 1/2)) with q = expm1(r) */
PK_I vf32 pk_expm1_vf32(vf32 x) {
    vi32 k;
    vf32 q = pk_expm1r_(pk_reduce_(pk_atmost_(pk_atleast_(x, -20.0f), 89.0f), &k));
    vf32 s = pk_pow2_(k - 1);
    vf32 y = pk_mad_(s, q, s - 0.5f) * 2.0f;
    return (vf32)((vi32)y | pk_signbit_(x));
}
/* tanh |x| = -t / (2 + t), t = expm1(-2 |x|) */
PK_I vf32 pk_tanh_vf32(vf32 x) {
    vi32 k;
    vf32 q = pk_expm1r_(pk_reduce_(pk_atleast_(pk_fabs_(x) * -2.0f, -40.0f), &k));
    vf32 s = pk_pow2_(k);
    vf32 t = pk_mad_(s, q, s - 1.0f);
    return pk_withsign_(pk_over_(pk_fabs_(t), t + 2.0f), x);
}

/* With h = (e^|x| - 1) / 4 and E = e^|x| / 4, which do not overflow where the results do not:
 * sinh = 2 (h + h / (4 h + 1)), cosh = 2 E + 1 / (8 E). */
PK_I vf32 pk_sinh_vf32(vf32 x) {
    vi32 k;
    vf32 a = pk_fabs_(x), q = pk_expm1r_(pk_reduce_(pk_atmost_(a, 89.6f), &k));
    vf32 s = pk_pow2_(k - 2), h = pk_mad_(s, q, s - 0.25f);
    vf32 y = (h + h / pk_madc_(h, pk_set_vf32(4.0f), 1.0f)) * 2.0f;
    return pk_select_vf32((vi32)(a < 0x1p-14f), x, pk_withsign_(pk_fabs_(y), x));
}
PK_I vf32 pk_cosh_vf32(vf32 x) {
    vi32 k;
    vf32 q = pk_expm1r_(pk_reduce_(pk_atmost_(pk_fabs_(x), 89.6f), &k));
    vf32 e = pk_pow2_(k - 2) * (q + 1.0f);
    return e * 2.0f + 0.125f / e;
}

#define PK_DEAD_ -112.6f

/* ---- functions of e = exp(-|x|), which does not overflow
 * ----------------------------------------- */

PK_I vf32 pk_negabs_(vf32 x) {
    return (vf32)((vi32)x | (int)0x80000000u);
}
PK_I vf32 pk_sigmoid_vf32(vf32 x) {
    vi32 k;
    vf32 p = pk_expm1r_(pk_reduce_(pk_atleast_(pk_negabs_(x), -104.0f), &k)) + 1.0f;
    vf32 e = pk_scale_(p, k);
    return pk_over_(pk_select_vf32((vi32)(x < 0.0f), e, pk_set_vf32(1.0f)), e + 1.0f);
}
/* x e / (1 + e) for negative x, with e = p 2^k: the factor 2^k comes last, else a denormal e would
 * cost all the accuracy. Below -112 the result is 0 for all finite x; -inf gives NaN like PyTorch.
 */
PK_I vf32 pk_silu_parts_(vf32 x, vf32 p, vi32 k, vi32 dead) {
    vi32 neg = (vi32)(x < 0.0f);
    vf32 y = pk_over_(pk_select_vf32(neg, x * p, x), pk_scale_(p, k) + 1.0f);
    return pk_scale_or0_(y, k & neg, dead);
}
PK_I vf32 pk_silu_vf32(vf32 x) {
    vi32 k;
    vf32 p = pk_expm1r_(pk_reduce_(pk_atleast_(pk_negabs_(x), PK_DEAD_), &k)) + 1.0f;
    return pk_silu_parts_(x, p, k, (vi32)(x < PK_DEAD_));
}
/* tanh(log(1 + e^x)) = (1 + 2e) / (1 + 2e + 2e^2) for x >= 0, e (2 + e) / (2 + e (2 + e)) below */
PK_I vf32 pk_mish_vf32(vf32 x) {
    vi32 k, neg = (vi32)(x < 0.0f);
    vf32 p = pk_expm1r_(pk_reduce_(pk_atleast_(pk_negabs_(x), PK_DEAD_), &k)) + 1.0f;
    vf32 e = pk_scale_(p, k), e2 = e + 2.0f, n = e + e + 1.0f;
    vf32 num = pk_select_vf32(neg, p * e2, n);
    vf32 den = pk_select_vf32(neg, pk_madc_(e, e2, 2.0f), pk_mad_(e + e, e, n));
    return pk_scale_or0_(x * (num / den), k & neg, (vi32)(x < PK_DEAD_));
}
PK_I vf32 pk_elu_vf32(vf32 x, double alpha, double unused) {
    (void)unused;
    return pk_select_vf32((vi32)(x > 0.0f), x, pk_expm1_vf32(x) * (float)alpha);
}

/* exp of an argument that floats hold too coarsely: v is it over ln 2, |v| < 2^20. Returns p with
 * exp = p 2^k. */
PK_I vf32 pk_exp2_parts_(vf64 v, vi32 *k) {
    vf64 t = v + 0x1.8p52;
    *k = pk_cvt_vi64_vi32((vi64)t);
    vf32 r = pk_cvt_vf64_vf32(v - (t - 0x1.8p52));
    return pk_expm1r_(r * 0x1.62e430p-1f) + 1.0f;
}
/* (1 + tanh u) / 2 = 1 / (1 + exp(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3) */
PK_I vf32 pk_gelu_tanh_vf32(vf32 x) {
    vf64 a = pk_cvt_vf32_vf64(pk_atleast_(pk_negabs_(x), -12.02f));
    vi32 k;
    vf32 p = pk_exp2_parts_((a * a * 0.10294323958002349 + 2.3022081981443249) * a, &k);
    return pk_silu_parts_(x, p, k, (vi32)(x < -12.02f));
}

#ifndef PK_NO_LIBM /* a device has its own f64 functions */
/* ---- f64
 * ----------------------------------------------------------------------------------------- */

PK_LIBM1_(pk_exp_vf64, vf64, double, exp)
PK_LIBM1_(pk_exp2_vf64, vf64, double, exp2)
PK_LIBM1_(pk_expm1_vf64, vf64, double, expm1)
PK_LIBM1_(pk_tanh_vf64, vf64, double, tanh)
PK_LIBM1_(pk_sinh_vf64, vf64, double, sinh)
PK_LIBM1_(pk_cosh_vf64, vf64, double, cosh)
PK_I double pk_sigmoid_f64_(double x) {
    double e = exp(-__builtin_fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
/* In long double what multiplies a rounding error by a large factor. */
extern long double expl(long double);
PK_I double pk_silu_f64_(double x) {
    long double e = expl(-__builtin_fabs(x));
    return (double)(x * ((x < 0.0 ? e : 1.0L) / (1.0L + e)));
}
PK_I double pk_mish_f64_(double x) {
    long double e = expl(-__builtin_fabs(x)), w = e * (e + 2.0L), n = 1.0L + (e + e);
    return (double)(x * (x < 0.0 ? w / (w + 2.0L) : n / (n + (e + e) * e)));
}
PK_I double pk_gelu_tanh_f64_(double x) {
    long double y = x, u = 1.5957691216057307117597842397375L * (y + 0.044715L * y * y * y);
    long double e = expl(-__builtin_fabsl(u));
    return (double)(y * ((x < 0.0 ? e : 1.0L) / (1.0L + e)));
}
PK_LANES1_(pk_sigmoid_vf64, vf64, pk_sigmoid_f64_)
PK_LANES1_(pk_silu_vf64, vf64, pk_silu_f64_)
PK_LANES1_(pk_mish_vf64, vf64, pk_mish_f64_)
PK_LANES1_(pk_gelu_tanh_vf64, vf64, pk_gelu_tanh_f64_)
PK_I vf64 pk_elu_vf64(vf64 x, double alpha, double unused) {
    (void)unused;
    for (int i = 0; i < PK_W; i++)
        x[i] = x[i] > 0.0 ? x[i] : alpha * expm1(x[i]);
    return x;
}
#endif
