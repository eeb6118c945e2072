/* SPDX-License-Identifier: MIT
 * erf, erfc, gelu (needs math_exp.h).
 *
 * Rational minimax approximations, all coefficients positive (no cancellation): erf x = x R(x^2)
 * for |x| < 3.92, where erf is 1 in f32, and exp(t^2) erfc t = R(t) on [0, 10.2], below which erfc
 * is not zero. Found by iteratively reweighted linear least squares on numerator and denominator
 * (Lawson), then scaled so that the rounded coefficients lose least: 2^-27.6 and 2^-26.7.
 */
PK_I vf32 pk_erf_vf32(vf32 x) {
    vf32 c = pk_clip_(x, 3.92f), z = c * c;
    vf32 p = pk_madc_(pk_set_vf32(8.73108002e-06f), z, 0.000537869229f);
    p = pk_madc_(p, z, 0.00556128519f);
    p = pk_madc_(p, z, 0.0736987069f);
    p = pk_madc_(p, z, 0.255194724f);
    p = pk_madc_(p, z, 1.4962399f);
    vf32 q = pk_madc_(pk_set_vf32(3.29865799e-07f), z, 9.42547267e-05f);
    q = pk_madc_(q, z, 0.00186606846f);
    q = pk_madc_(q, z, 0.0214969013f);
    q = pk_madc_(q, z, 0.155433297f);
    q = pk_madc_(q, z, 0.66816324f);
    q = pk_madc_(q, z, 1.32600808f);
    return pk_clip_(c * p / q, 1.0f);
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
PK_I vf32 pk_erfc_vf32(vf32 x) {
    vf32 t = pk_atmost_(pk_fabs_(x), 10.2f);
    vf32 n = pk_madc_(pk_set_vf32(0.0652657971f), t, 0.455757976f);
    n = pk_madc_(n, t, 1.4537375f);
    n = pk_madc_(n, t, 2.45949054f);
    n = pk_madc_(n, t, 1.98465085f);
    vf32 d = pk_madc_(pk_set_vf32(0.115679257f), t, 0.807861567f);
    d = pk_madc_(d, t, 2.63367701f);
    d = pk_madc_(d, t, 4.7712431f);
    d = pk_madc_(d, t, 4.69893026f);
    d = pk_madc_(d, t, 1.98465085f);
    vi32 k;
    vf32 p = pk_expmsq_(t, 1.0f, &k);
    vf32 y = pk_scale_(n * p / d, k);
    return pk_select_vf32((vi32)(x < 0.0f), 2.0f - y, y);
}
/* x Phi(x) with Phi(-t) = exp(-t^2 / 2) R(t) (the same R, its variable scaled): below 0 that is the
 * result, above 0 it is what x lacks. */
PK_I vf32 pk_gelu_vf32(vf32 x) {
    vf32 t = pk_atmost_(pk_fabs_(x), 14.6f);
    vf32 n = pk_madc_(pk_set_vf32(0.00687401742f), t, 0.0678850636f);
    n = pk_madc_(n, t, 0.30622521f);
    n = pk_madc_(n, t, 0.732681334f);
    n = pk_madc_(n, t, 0.836120903f);
    vf32 d = pk_madc_(pk_set_vf32(0.0172304045f), t, 0.170173481f);
    d = pk_madc_(d, t, 0.784571409f);
    d = pk_madc_(d, t, 2.01009464f);
    d = pk_madc_(d, t, 2.7996192f);
    d = pk_madc_(d, t, 1.67224181f);
    vi32 k, neg = (vi32)(x < 0.0f);
    vf32 p = pk_expmsq_(t, 0.5f, &k);
    vf32 w = pk_scale_or0_(pk_select_vf32(neg, x, t) * (n * p / d), k, (vi32)(x < -14.6f));
    return pk_select_vf32(neg, w, x - w);
}
PK_LIBM1_(pk_erf_vf64, vf64, double, erf)
PK_LIBM1_(pk_erfc_vf64, vf64, double, erfc)
PK_I double pk_gelu_f64_(double x) {
    return 0.5 * x * erfc(x * -0.7071067811865476);
}
PK_LANES1_(pk_gelu_vf64, vf64, pk_gelu_f64_)
