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
/* exp(-s) for s = t^2 or t^2 / 2, as p 2^k. t^2 is needed to more than 24 bits. */
PK_I vf32 pk_expmsq_(vf32 t, float half, vi32 *k) {
#if PK_FMA_
    vf32 h = t * t, l = pk_fma_vf32(t, t, -h);
#else
    vf32 u = (vf32)((vi32)t & ~0xfff), h = u * u, l = (t - u) * (t + u);
#endif
    vf32 r = pk_reduce_(h * -half, k);
    return pk_expm1r_(r - l * half) + 1.0f;
}
/* Estrin's scheme: fewer roundings follow each other than in Horner's */
#define PK_RATIO_(t, n0, n1, n2, n3, n4, d0, d1, d2, d3, d4, d5)                                   \
    pk_ratio_(t, (const float[]){n0, n1, n2, n3, n4, d0, d1, d2, d3, d4, d5})
PK_I vf32 pk_ratio_(vf32 t, const float *c) {
    vf32 z = t * t;
    vf32 n = pk_madc_(pk_set_vf32(c[4]), z, c[2]);
    n = pk_mad_(pk_mad_(pk_set_vf32(c[3]), t, n), z, pk_madc_(pk_set_vf32(c[1]), t, c[0]));
    vf32 d =
        pk_mad_(pk_madc_(pk_set_vf32(c[10]), t, c[9]), z, pk_madc_(pk_set_vf32(c[8]), t, c[7]));
    d = pk_mad_(d, z, pk_madc_(pk_set_vf32(c[6]), t, c[5]));
    return n / d;
}
PK_I vf32 pk_erfc_vf32(vf32 x) {
    vf32 t = pk_atmost_(pk_fabs_(x), 10.2f);
    vf32 r =
        PK_RATIO_(t, 1.98465085f, 2.45949054f, 1.4537375f, 0.455757976f, 0.0652657971f, 1.98465085f,
                  4.69893026f, 4.7712431f, 2.63367701f, 0.807861567f, 0.115679257f);
    vi32 k;
    vf32 p = pk_expmsq_(t, 1.0f, &k);
    vf32 y = pk_scale_(r * p, k);
    return pk_select_vf32((vi32)(x < 0.0f), 2.0f - y, y);
}
/* x Phi(x) with Phi(-t) = exp(-t^2 / 2) R(t) (the same R, its variable scaled): below 0 that is the
 * result, above 0 it is what x lacks. */
PK_I vf32 pk_gelu_vf32(vf32 x) {
    vf32 t = pk_atmost_(pk_fabs_(x), 14.6f);
    vf32 r =
        PK_RATIO_(t, 0.836120903f, 0.732681334f, 0.30622521f, 0.0678850636f, 0.00687401742f,
                  1.67224181f, 2.7996192f, 2.01009464f, 0.784571409f, 0.170173481f, 0.0172304045f);
    vi32 k, neg = (vi32)(x < 0.0f);
    vf32 p = pk_expmsq_(t, 0.5f, &k);
    /* Above 6 what x lacks is below half an ulp; as 0 it also costs no denormal. */
    vi32 dead = (vi32)(x < -14.6f) | (vi32)(x > 6.0f);
    vf32 w = pk_scale_or0_(pk_select_vf32(neg, x, t) * (r * p), k, dead);
    return pk_select_vf32(neg, w, x - w);
}
PK_LIBM1_(pk_erf_vf64, vf64, double, erf)
PK_LIBM1_(pk_erfc_vf64, vf64, double, erfc)
/* in long double: erfc multiplies the rounding error of its argument by twice its square */
extern long double erfcl(long double);
PK_I double pk_gelu_f64_(double x) {
    return (double)(0.5L * x * erfcl(x * -0.70710678118654752440084436210485L));
}
PK_LANES1_(pk_gelu_vf64, vf64, pk_gelu_f64_)
