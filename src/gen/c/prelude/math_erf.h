/* SPDX-License-Identifier: MIT
 * erf, erfc, gelu (needs math_exp.h).
 *
 * erf t = -expm1(-g(t)) with g(t) = -log(erfc t) = t + t q(t), q minimax (Remez exchange) on
 * [0, 3.95], beyond which erf is 1 in f32: one form that is accurate both near 0 and near 1.
 * exp(t^2) erfc t = R(t) on [0, 10.2], beyond which erfc is 0: a rational minimax approximation
 * with positive coefficients (no cancellation), found by iteratively reweighted linear least
 * squares (Lawson) and scaled so that rounding its coefficients loses least; within 2^-26.7.
 */
PK_I vf32 pk_erf_vf32(vf32 x) {
    vf32 t = pk_atmost_(pk_fabs_(x), 3.95f);
    vf32 q = pk_madc_(pk_set_vf32(-0x1.3b0d0ap-17f), t, 0x1.f29314p-14f);
    q = pk_madc_(q, t, -0x1.4e2c18p-11f);
    q = pk_madc_(q, t, 0x1.b7462ep-10f);
    q = pk_madc_(q, t, -0x1.637facp-13f);
    q = pk_madc_(q, t, -0x1.39b7c8p-6f);
    q = pk_madc_(q, t, 0x1.a4f8c4p-4f);
    q = pk_madc_(q, t, 0x1.45f300p-1f);
    q = pk_madc_(q, t, 0x1.06eba8p-3f);
    vf32 g = pk_mad_(q, t, t);
    vi32 k;
    vf32 e = pk_expm1r_(pk_reduce_(-g, &k)), s = pk_pow2_(k);
    return pk_withsign_(pk_fabs_(pk_mad_(s, e, s - 1.0f)), x);
}
/* exp(-t^2) as p 2^k. t^2 is needed to more than 24 bits. */
PK_I vf32 pk_expmsq_(vf32 t, vi32 *k) {
#if PK_FMA_
    vf32 h = t * t, l = pk_fma_vf32(t, t, -h);
#else
    vf32 u = (vf32)((vi32)t & ~0xfff), h = u * u, l = (t - u) * (t + u);
#endif
    return pk_expm1r_(pk_reduce_(-h, k) - l) + 1.0f;
}
/* Estrin's scheme: fewer roundings follow each other than in Horner's */
PK_I vf32 pk_ratio_(vf32 t, const float *c) {
    vf32 z = t * t;
    vf32 n = pk_madc_(pk_set_vf32(c[4]), z, c[2]);
    n = pk_mad_(pk_mad_(pk_set_vf32(c[3]), t, n), z, pk_madc_(pk_set_vf32(c[1]), t, c[0]));
    vf32 d =
        pk_mad_(pk_madc_(pk_set_vf32(c[10]), t, c[9]), z, pk_madc_(pk_set_vf32(c[8]), t, c[7]));
    d = pk_mad_(d, z, pk_madc_(pk_set_vf32(c[6]), t, c[5]));
    return pk_over_(n, d);
}
PK_I vf32 pk_erfc_vf32(vf32 x) {
    vf32 t = pk_atmost_(pk_fabs_(x), 10.2f);
    const float c[] = {1.98465085f,   2.45949054f,  1.4537375f,  0.455757976f,
                       0.0652657971f, 1.98465085f,  4.69893026f, 4.7712431f,
                       2.63367701f,   0.807861567f, 0.115679257f};
    vf32 r = pk_ratio_(t, c);
    vi32 k;
    vf32 p = pk_expmsq_(t, &k);
    vf32 y = pk_scale_(r * p, k);
    return pk_select_vf32((vi32)(x < 0.0f), 2.0f - y, y);
}
/* exp(-t^2 / 2) = (1 + p) s 2^-25 for |t| <= 14.5; s is 0 for the smallest. t^2 is needed to more
 * than 24 bits, and is multiplied by one constant of 24: the rest is in the coefficients of gelu. */
#define PK_CHI_ 0x1.715468p-1f /* below log2(e) / 2 by 7 units of 2^-24: best for these */
PK_I vf32 pk_expmhalfsq_(vf32 t, vf32 *s) {
    const float magic = 0x1.8p23f + 152.0f; /* k + 152 in the low bits */
#if PK_FMA_
    vf32 c = pk_set_vf32(-PK_CHI_), h = t * t, l = pk_fma_vf32(t, t, -h);
    vf32 m = pk_fma_vf32(h, c, pk_set_vf32(magic));
    vf32 r = pk_fma_vf32(l, c, pk_fma_vf32(h, c, magic - m));
#else
    vf32 u = (vf32)((vi32)t & ~0xffff), h = u * u, l = (t - u) * (t + u);
    vf32 m = t * t * -PK_CHI_ + magic;
    vf32 r = h * -0x1.72p-1f + (magic - m) + h * (0x1.72p-1f - PK_CHI_) - l * PK_CHI_;
#endif
    *s = (vf32)((vi32)m << 23);
    vf32 p = pk_madc_(pk_set_vf32(0x1.416b52p-13f), r, 0x1.5f082ep-10f);
    p = pk_madc_(p, r, 0x1.3b2de0p-7f);
    p = pk_madc_(p, r, 0x1.c6af7cp-5f);
    p = pk_madc_(p, r, 0x1.ebfbdcp-3f);
    return pk_madc_(p, r, 0x1.62e430p-1f) * r;
}
/* x Phi(x) with Phi(-t) = exp(-t^2 / 2) R(t), R a rational minimax approximation within 2^-22.6,
 * found like the one above. w = |x| Phi(-|x|) is, but for its sign, the result below 0, and what x
 * lacks above. An arithmetic instruction with a denormal result takes more than a hundred cycles, so
 * w comes scaled by 2^27 and the scale is undone on the bits: subtracted from the exponent, or by
 * an addition that leaves the denormal's digits last. Where x is -inf, w and the result are NaN. */
PK_I vf32 pk_gelu_vf32(vf32 x) {
    vf32 q = (vf32)((vi32)pk_atmost_(x, 14.5f) | (int)0x80000000u); /* -|x|, above 0 to the limit */
    vf32 t = pk_atleast_(q, -14.5f), s, p = pk_expmhalfsq_(t, &s);
    vf32 n = pk_madc_(pk_set_vf32(-0x1.89442ep-4f), t, 0x1.6c64b0p-1f);
    n = pk_madc_(n, t, -0x1.1dd9d0p+1f);
    n = pk_madc_(n, t, 0x1.9fbcfep+1f);
    vf32 d = pk_madc_(pk_set_vf32(0x1.ed2124p-5f), t, -0x1.c7f29ap-2f);
    d = pk_madc_(d, t, 0x1.77ff8ep+0f);
    d = pk_madc_(d, t, -0x1.34c784p+1f);
    d = pk_madc_(d, t, 0x1.9fbd02p+0f);
    vf32 y = pk_over_(n, d) * q * s, w = pk_mad_(y, p, y); /* -w 2^27 */
    vf32 above = pk_mad_(w, pk_set_vf32(0x1p-27f), x);
    vi32 denormal = (vi32)pk_madc_(w, pk_set_vf32(0x1p122f), -0x1p23f) - 0x4b000000;
    vi32 below = pk_select_vi32((vi32)(w > -0x1p-99f), denormal, (vi32)w - (27 << 23));
    return pk_select_vf32((vi32)(above < 0.0f), (vf32)below, above);
}
PK_LIBM1_(pk_erf_vf64, vf64, double, erf)
PK_LIBM1_(pk_erfc_vf64, vf64, double, erfc)
#ifndef PK_NO_LIBM
/* in long double: erfc multiplies the rounding error of its argument by twice its square */
extern long double erfcl(long double);
PK_I double pk_gelu_f64_(double x) {
    return (double)(0.5L * x * erfcl(x * -0.70710678118654752440084436210485L));
}
PK_LANES1_(pk_gelu_vf64, vf64, pk_gelu_f64_)
#endif
