/* SPDX-License-Identifier: MIT
 * sin, cos, tan.
 *
 * Reduction x = k pi/2 + r after Cody and Waite with fused multiply-adds and pi/2 in three parts
 * (Muller et al., "Handbook of Floating-Point Arithmetic", 2nd ed., 10.2), without an FMA in f64.
 * Arguments too large for that go lane by lane through libm. sin r = r + r^3 S(r^2) and cos r =
 * 1 - r^2/2 + r^4 C(r^2) on |r| <= pi/4, S and C minimax (Remez exchange), within 2^-28.
 */
#define PK_TRIG_MAX_ 30000.0f

PK_I vf32 pk_trig_reduce_(vf32 x, vi32 *k) {
#if PK_FMA_
    vf32 t = pk_madc_(x, pk_set_vf32(0x1.45f306p-1f), 0x1.8p23f), kf = t - 0x1.8p23f;
    *k = (vi32)t;
    vf32 r = pk_fma_vf32(kf, pk_set_vf32(-0x1.921fb6p+0f), x);
    r = pk_fma_vf32(kf, pk_set_vf32(0x1.777a5cp-25f), r);
    return pk_fma_vf32(kf, pk_set_vf32(0x1.ee59dap-50f), r);
#else
    vf64 w = pk_cvt_vf32_vf64(x), t = w * 0x1.45f306dc9c883p-1 + 0x1.8p52, kf = t - 0x1.8p52;
    *k = pk_cvt_vi64_vi32((vi64)t);
    return pk_cvt_vf64_vf32((w - kf * 0x1.921fb544p+0) - kf * 0x1.0b4611a626331p-34);
#endif
}
PK_I vf32 pk_sinr_(vf32 r) {
    vf32 z = r * r;
    vf32 s = pk_madc_(pk_set_vf32(-0x1.9954a8p-13f), z, 0x1.11077ap-7f);
    s = pk_madc_(s, z, -0x1.555546p-3f);
    return pk_mad_(s * z, r, r);
}
PK_I vf32 pk_cosr_(vf32 r) {
    vf32 z = r * r;
    vf32 c = pk_madc_(pk_set_vf32(0x1.99e816p-16f), z, -0x1.6c0c28p-10f);
    c = pk_madc_(c, z, 0x1.55554ap-5f);
    return pk_mad_(c * z, z, pk_madc_(z, pk_set_vf32(-0.5f), 1.0f));
}
/* Replace the lanes that the reduction cannot do (infinities and NaN included). */
#define PK_TRIG_FIX_(r, x, f)                                                                      \
    vi32 far = ~(vi32)(pk_fabs_(x) <= PK_TRIG_MAX_);                                               \
    if (pk_any_(far))                                                                              \
        for (int i = 0; i < PK_W; i++)                                                             \
            if (far[i]) r[i] = f(x[i]);
#ifndef PK_NO_LIBM
extern float sinf(float);
extern float cosf(float);
extern float tanf(float);
#endif
PK_I vf32 pk_sincos_(vf32 r, vi32 k) {
    vi32 odd = -(k & 1);
    vf32 v = pk_select_vf32(odd, pk_cosr_(r), pk_sinr_(r));
    return (vf32)((vi32)v ^ ((k & 2) << 30));
}
/* |x| and the sign apart, which keeps -0 */
PK_I vf32 pk_sin_vf32(vf32 x) {
    vi32 k;
    vf32 r = pk_trig_reduce_(pk_fabs_(x), &k);
    r = (vf32)((vi32)pk_sincos_(r, k) ^ pk_signbit_(x));
    PK_TRIG_FIX_(r, x, sinf)
    return r;
}
PK_I vf32 pk_cos_vf32(vf32 x) {
    vi32 k;
    vf32 r = pk_trig_reduce_(x, &k);
    r = pk_sincos_(r, k + 1);
    PK_TRIG_FIX_(r, x, cosf)
    return r;
}
/* tan r, or -1 / tan r in the odd quadrants */
PK_I vf32 pk_tan_vf32(vf32 x) {
    vi32 k;
    vf32 r = pk_trig_reduce_(pk_fabs_(x), &k), s = pk_sinr_(r), c = pk_cosr_(r);
    vi32 odd = -(k & 1);
    r = pk_select_vf32(odd, -c, s) / pk_select_vf32(odd, s, c);
    r = (vf32)((vi32)r ^ pk_signbit_(x));
    PK_TRIG_FIX_(r, x, tanf)
    return r;
}
PK_LIBM1_(pk_sin_vf64, vf64, double, sin)
PK_LIBM1_(pk_cos_vf64, vf64, double, cos)
PK_LIBM1_(pk_tan_vf64, vf64, double, tan)
