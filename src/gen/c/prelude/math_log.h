/* SPDX-License-Identifier: MIT
 * log, log2, log10, log1p.
 *
 * x = 2^e m with sqrt(1/2) <= m < sqrt(2), f = m - 1: log m = f - f^2/2 + f^3 P(f), P a minimax
 * polynomial (Remez exchange) within 2^-27 of the result (the scheme of the Cephes library).
 */

/* ln 2 in two parts; e times the first is exact */
#define PK_LOGHI_ 0x1.63p-1f
#define PK_LOGLO_ -0x1.bd0106p-13f

/* log(1 + f) - f, f in [sqrt(1/2) - 1, sqrt(2) - 1] */
PK_I vf32 pk_log1pm_(vf32 f) {
    vf32 p = pk_madc_(pk_set_vf32(-0x1.38c32cp-4f), f, 0x1.0571ecp-3f);
    p = pk_madc_(p, f, -0x1.0d8c58p-3f);
    p = pk_madc_(p, f, 0x1.22d74ep-3f);
    p = pk_madc_(p, f, -0x1.547162p-3f);
    p = pk_madc_(p, f, 0x1.99a026p-3f);
    p = pk_madc_(p, f, -0x1.00022ap-2f);
    p = pk_madc_(p, f, 0x1.555554p-2f);
    vf32 s = f * f;
    return pk_mad_(s * f, p, s * -0.5f);
}
/* f and e of a positive finite x, denormals included */
PK_I vf32 pk_frexp_(vf32 x, vi32 *e) {
    vi32 tiny = (vi32)(x < 0x1p-126f);
    vi32 i = (vi32)pk_select_vf32(tiny, x * 0x1p23f, x);
    vi32 k = (i - 0x3f3504f3) >> 23;
    *e = k - (tiny & 23);
    return (vf32)(i - (k << 23)) - 1.0f;
}
/* The result outside (lo, inf): -inf at lo, NaN below, x itself for inf and NaN. */
PK_I vf32 pk_logedge_(vf32 r, vf32 x, float lo) {
    vi32 ok = (vi32)(x > lo) & (vi32)(x < __builtin_inff());
    vi32 below = (vi32)(x < lo), at = (vi32)(x == lo);
    vf32 edge = pk_select_vf32(at, pk_set_vf32(-__builtin_inff()), x);
    return pk_select_vf32(ok, r, (vf32)((vi32)edge | (below & 0x7fc00000)));
}
PK_I vf32 pk_log_sum_(vf32 f, vf32 e) {
    vf32 w = pk_mad_(e, pk_set_vf32(PK_LOGLO_), pk_log1pm_(f));
    return pk_mad_(e, pk_set_vf32(PK_LOGHI_), f + w);
}
PK_I vf32 pk_log_vf32(vf32 x) {
    vi32 e;
    vf32 f = pk_frexp_(x, &e);
    return pk_logedge_(pk_log_sum_(f, __builtin_convertvector(e, vf32)), x, 0.0f);
}
/* log2 m = log m + (log2 e - 1) log m */
PK_I vf32 pk_log2_vf32(vf32 x) {
    vi32 e;
    vf32 f = pk_frexp_(x, &e), w = pk_log1pm_(f), c = pk_set_vf32(0x1.c551dap-2f);
    vf32 low = pk_mad_(w, c, pk_mad_(f, c, w));
    return pk_logedge_(f + low + __builtin_convertvector(e, vf32), x, 0.0f);
}
PK_I vf32 pk_log10_vf32(vf32 x) {
    vi32 e;
    vf32 f = pk_frexp_(x, &e), w = pk_log1pm_(f);
    vf32 ef = __builtin_convertvector(e, vf32);
    /* log10 e and log10 2, each in a short part and the rest */
    vf32 low = pk_mad_(f + w, pk_set_vf32(0x1.6f62a4p-11f), ef * 0x1.04d428p-12f);
    low = pk_mad_(w, pk_set_vf32(0x1.bcp-2f), low);
    vf32 r = pk_mad_(f, pk_set_vf32(0x1.bcp-2f), low);
    return pk_logedge_(pk_mad_(ef, pk_set_vf32(0x1.34p-2f), r), x, 0.0f);
}
/* 1 + x = u + c exactly (Knuth's two-sum); u gives e and most of f, c the rest. */
PK_I vf32 pk_log1p_core_(vf32 x) {
    vf32 u = x + 1.0f, b = u - 1.0f, c = (x - b) + (1.0f - (u - b));
    vi32 e;
    vf32 f = pk_frexp_(u, &e);
    vi32 capped = pk_select_vi32((vi32)(e > 64), pk_set_vi32(64), e);
    f += c * (vf32)((127 - capped) << 23);
    return pk_log_sum_(f, __builtin_convertvector(e, vf32));
}
PK_I vf32 pk_log1p_vf32(vf32 x) {
    vf32 r = pk_logedge_(pk_log1p_core_(x), x, -1.0f);
    return (vf32)((vi32)r | pk_signbit_(x));
}
PK_LIBM1_(pk_log_vf64, vf64, double, log)
PK_LIBM1_(pk_log2_vf64, vf64, double, log2)
PK_LIBM1_(pk_log10_vf64, vf64, double, log10)
PK_LIBM1_(pk_log1p_vf64, vf64, double, log1p)
