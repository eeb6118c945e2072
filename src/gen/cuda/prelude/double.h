/* SPDX-License-Identifier: MIT
 * CUDA C, over one lane: functions of f64 that CPUs compute in long double. What multiplies a rounding
 * error by a large factor, the argument of an exponential or of erfc, is carried as a sum hi + lo
 * (Dekker, "A floating-point technique for extending the available precision", 1971, with fused
 * multiply-adds).
 */

/* exp(-|hi + lo|), hi of either sign */
PK_D double pk_exp_neg(double hi, double lo) {
    const double e = exp(-fabs(hi));
    return __fma_rn(e, hi < 0.0 ? lo : -lo, e);
}
PK_D double pk_sigmoid_f64(double x) {
    const double e = exp(-fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
/* y exp(hi + lo) for hi far below 0: two factors, so that what is below 2^-1022 is rounded once. */
PK_D double pk_far_below(double y, double hi, double lo) {
    const double h = pk_exp_neg(0.5 * hi, 0.5 * lo);
    return y * h * h;
}
#define PK_FAR_BELOW -690.0

PK_D double pk_silu_f64(double x) {
    if (x < PK_FAR_BELOW && x > -1000.0) return pk_far_below(x, x, 0.0);
    const double e = exp(-fabs(x));
    return x * ((x < 0.0 ? e : 1.0) / (1.0 + e));
}
PK_D double pk_mish_f64(double x) {
    if (x < PK_FAR_BELOW && x > -1000.0) return pk_far_below(x, x, 0.0);
    const double e = exp(-fabs(x)), w = e * (e + 2.0), n = 1.0 + (e + e);
    return x * (x < 0.0 ? w / (w + 2.0) : n / (n + (e + e) * e));
}
/* (1 + tanh(u / 2)) / 2 with u = C (y + A y^3), C = 2 sqrt(2 / pi) and A = 0.044715 in two parts */
PK_D double pk_gelu_tanh_f64(double y) {
    const double A = 0x1.6e4e26d4801f7p-5, AL = 0x1.441355475a31ap-59;
    const double C = 0x1.9884533d43651p+0, CL = -0x1.cbc0d30ebfd15p-54;
    const double s = y * y, sl = __fma_rn(y, y, -s);
    const double t = A * s, tl = __fma_rn(A, s, -t) + (A * sl + AL * s);
    const double w = 1.0 + t, b = w - 1.0, wl = ((1.0 - (w - b)) + (t - b)) + tl;
    const double v = C * y, vl = __fma_rn(C, y, -v) + CL * y;
    const double u = v * w, ul = __fma_rn(v, w, -u) + (v * wl + vl * w);
    if (!(fabs(u) < 1000.0)) return u != u ? u : y < 0.0 ? y * 0.0 : y;
    if (u < PK_FAR_BELOW) return pk_far_below(y, u, ul);
    const double e = pk_exp_neg(u, ul);
    return y * ((y < 0.0 ? e : 1.0) / (1.0 + e));
}
/* x Phi(x) = x erfc(-x / sqrt 2) / 2; erfc(a + d) = erfc(a) (1 - 2 d / (sqrt(pi) erfcx(a))) */
PK_D double pk_gelu_f64(double x) {
    const double R = 0x1.6a09e667f3bcdp-1, RL = -0x1.bdd3413b26456p-55;
    const double a = -x * R, d = __fma_rn(-x, R, -a) - x * RL;
    if (a > 26.0 && a < 40.0) { /* erfc(a + d) = erfcx(a) exp(-(a + d)^2), nearly */
        const double s = a * a;
        return pk_far_below(0.5 * x * erfcx(a), -s, -(__fma_rn(a, a, -s) + 2.0 * a * d));
    }
    double e = erfc(a);
    if (a > 0.5 && a < 40.0) e = __fma_rn(e, -1.1283791670955126 * d / erfcx(a), e);
    return 0.5 * x * e;
}
PK_D double pk_softplus_f64(double x, double beta, double threshold) {
    const double v = x * beta, vl = __fma_rn(x, beta, -v);
    if (v != v || v > threshold) return x;
    if (v < PK_FAR_BELOW && v > -1000.0) return pk_far_below(1.0 / beta, v, vl);
    const double m = v > 0.0 ? v : 0.0;
    return (m + log1p(fabs(v) < 1000.0 ? pk_exp_neg(v, vl) : 0.0)) / beta;
}
PK_LIBM1_(pk_sigmoid_vf64, vf64, double, pk_sigmoid_f64)
PK_LIBM1_(pk_silu_vf64, vf64, double, pk_silu_f64)
PK_LIBM1_(pk_mish_vf64, vf64, double, pk_mish_f64)
PK_LIBM1_(pk_gelu_tanh_vf64, vf64, double, pk_gelu_tanh_f64)
PK_LIBM1_(pk_gelu_vf64, vf64, double, pk_gelu_f64)
PK_LIBM1_(pk_exp_vf64, vf64, double, exp)
PK_LIBM1_(pk_exp2_vf64, vf64, double, exp2)
PK_LIBM1_(pk_expm1_vf64, vf64, double, expm1)
PK_LIBM1_(pk_tanh_vf64, vf64, double, tanh)
PK_LIBM1_(pk_sinh_vf64, vf64, double, sinh)
PK_LIBM1_(pk_cosh_vf64, vf64, double, cosh)
PK_I vf64 pk_softplus_vf64(vf64 x, double beta, double threshold) {
    return vf64(pk_softplus_f64(x.x[0], beta, threshold));
}
PK_I vf64 pk_elu_vf64(vf64 x, double alpha, double) {
    return vf64(x.x[0] > 0.0 ? x.x[0] : alpha * expm1(x.x[0]));
}
