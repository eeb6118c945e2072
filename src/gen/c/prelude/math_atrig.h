/* SPDX-License-Identifier: MIT
 * asin, acos, atan, atan2; asinh, acosh, atanh lane by lane through libm.
 *
 * atan z = z + z^3 A(z^2) on [0, 1], beyond by atan z = pi/2 - atan(1/z); asin z = z + z^3 P(z^2)
 * on [0, 1/2], beyond by asin z = pi/2 - 2 asin(sqrt((1 - z) / 2)); A and P minimax (Remez
 * exchange).
 */
PK_I vf32 pk_atan01_(vf32 a) {
    vf32 z = a * a;
    vf32 p = pk_madc_(pk_set_vf32(0x1.7eb1a4p-9f), z, -0x1.0c1c26p-6f);
    p = pk_madc_(p, z, 0x1.61f140p-5f);
    p = pk_madc_(p, z, -0x1.355190p-4f);
    p = pk_madc_(p, z, 0x1.b4dedep-4f);
    p = pk_madc_(p, z, -0x1.230a96p-3f);
    p = pk_madc_(p, z, 0x1.9978ecp-3f);
    p = pk_madc_(p, z, -0x1.5554dcp-2f);
    return pk_mad_(p * z, a, a);
}
#define PK_PI_2_ 0x1.921fb6p+0f
PK_I vf32 pk_atan_vf32(vf32 x) {
    vf32 a = pk_fabs_(x);
    vi32 far = (vi32)(a > 1.0f);
    vf32 z = pk_select_vf32(far, pk_set_vf32(-1.0f), a) / pk_select_vf32(far, a, pk_set_vf32(1.0f));
    vf32 r = pk_atan01_(z) + (vf32)(far & (vi32)pk_set_vf32(PK_PI_2_));
    return pk_withsign_(pk_fabs_(r), x);
}
PK_I vf32 pk_atan2_vf32(vf32 y, vf32 x) {
    vf32 a = pk_fabs_(y), b = pk_fabs_(x);
    vi32 swap = (vi32)(a > b), left = (vi32)x >> 31;
    vf32 lo = pk_select_vf32(swap, b, a), hi = pk_select_vf32(swap, a, b);
    vf32 z = lo / hi;
    /* 0/0 is 0 here and inf/inf is 1 */
    z = (vf32)((vi32)z & ~(vi32)(hi == 0.0f));
    z = pk_select_vf32((vi32)(lo == __builtin_inff()), pk_set_vf32(1.0f), z);
    vf32 r = pk_atan01_(z);
    r = pk_select_vf32(swap, PK_PI_2_ - r, r);
    r = pk_select_vf32(left, 2 * PK_PI_2_ - r, r);
    r = pk_withsign_(pk_fabs_(r), y);
    return pk_select_vf32((vi32)(x != x) | (vi32)(y != y), x + y, r);
}
/* asin on [0, 1/2] */
PK_I vf32 pk_asin_half_(vf32 s, vf32 z) {
    vf32 p = pk_madc_(pk_set_vf32(0x1.59daa8p-5f), z, 0x1.8ba79ep-6f);
    p = pk_madc_(p, z, 0x1.748b32p-5f);
    p = pk_madc_(p, z, 0x1.330164p-4f);
    p = pk_madc_(p, z, 0x1.5555cap-3f);
    return pk_mad_(p * z, s, s);
}
PK_I vf32 pk_asin_vf32(vf32 x) {
    vf32 a = pk_fabs_(x);
    vi32 far = (vi32)(a > 0.5f);
    vf32 z = pk_select_vf32(far, (1.0f - a) * 0.5f, a * a);
    vf32 r = pk_asin_half_(pk_select_vf32(far, pk_sqrt_vf32(z), a), z);
    return pk_withsign_(pk_select_vf32(far, PK_PI_2_ - (r + r), r), x);
}
PK_I vf32 pk_acos_vf32(vf32 x) {
    vf32 a = pk_fabs_(x);
    vi32 far = (vi32)(a > 0.5f), neg = (vi32)x >> 31;
    vf32 z = pk_select_vf32(far, (1.0f - a) * 0.5f, a * a);
    vf32 r = pk_asin_half_(pk_select_vf32(far, pk_sqrt_vf32(z), a), z);
    vf32 edge = pk_select_vf32(neg, 2 * PK_PI_2_ - (r + r), r + r);
    return pk_select_vf32(far, edge, PK_PI_2_ - pk_withsign_(r, x));
}
PK_LIBM1_(pk_asinh_vf32, vf32, float, asinhf)
PK_LIBM1_(pk_acosh_vf32, vf32, float, acoshf)
PK_LIBM1_(pk_atanh_vf32, vf32, float, atanhf)
PK_LIBM1_(pk_asinh_vf64, vf64, double, asinh)
PK_LIBM1_(pk_acosh_vf64, vf64, double, acosh)
PK_LIBM1_(pk_atanh_vf64, vf64, double, atanh)
PK_LIBM1_(pk_asin_vf64, vf64, double, asin)
PK_LIBM1_(pk_acos_vf64, vf64, double, acos)
PK_LIBM1_(pk_atan_vf64, vf64, double, atan)
PK_LIBM2_(pk_atan2_vf64, vf64, double, atan2)
