/* SPDX-License-Identifier: MIT
 * pow (needs math_exp.h and math_log.h for f32).
 *
 * x^y = 2^(y log2 |x|) with the exponent in f64: log2 m = f L(f), f = m - 1 (exact), L a minimax
 * polynomial within 2^-33, so that the exponent is good to 2^-26 up to 2^128. Special cases as in
 * IEEE 754-2019, 9.2.1.
 */
PK_I vf64 pk_log2d_(vf32 a) {
    vi32 e;
    vf64 f = pk_cvt_vf32_vf64(pk_frexp_(a, &e));
    vf64 p = pk_madd_(f, pk_set_vf64(-0.086345629314164202), 0.15491535064290476);
    p = pk_madd_(p, f, -0.15701768395001844);
    p = pk_madd_(p, f, 0.15899490092385779);
    p = pk_madd_(p, f, -0.17904055661311261);
    p = pk_madd_(p, f, 0.20609631066791959);
    p = pk_madd_(p, f, -0.24050456111819293);
    p = pk_madd_(p, f, 0.28854065506765886);
    p = pk_madd_(p, f, -0.36067279183310091);
    p = pk_madd_(p, f, 0.48089832047878905);
    p = pk_madd_(p, f, -0.72134752526617707);
    p = pk_madd_(p, f, 1.4426950409399384);
    return p * f + pk_cvt_vi32_vf64(e);
}
PK_I vf32 pk_pow_vf32(vf32 x, vf32 y) {
    vf32 a = pk_fabs_(x), inf = pk_set_vf32(__builtin_inff());
    vf64 v = pk_log2d_(a) * pk_cvt_vf32_vf64(y);
    vf32 vf = pk_cvt_vf64_vf32(v);
    vf = pk_select_vf32((vi32)(a == 0.0f), y * -inf, vf);
    vf = pk_select_vf32((vi32)(a == inf), y * inf, vf);
    vi32 k;
    vf32 p = pk_exp2_parts_(v, &k);
    vi32 over = (vi32)(vf >= 129.0f), under = (vi32)(vf <= -151.0f);
    vi32 out = over | under | (vi32)(vf != vf);
    vf32 r = pk_scale_((vf32)((vi32)p & ~out), k & ~out);
    r = pk_select_vf32((vi32)(vf != vf), vf, pk_select_vf32(over, inf, r));
    /* integers and odd integers: all floats of 2^24 or more are even */
    vf32 c = pk_clip_(y, 0x1p25f);
    vi32 i = __builtin_convertvector((vf32)((vi32)c & (vi32)(c == c)), vi32);
    vi32 whole = (vi32)(__builtin_convertvector(i, vf32) == c), odd = whole & -(i & 1);
    r = (vf32)((vi32)r | (pk_signbit_(x) & odd));
    vi32 bad = (vi32)(x < 0.0f) & (vi32)(a < inf) & ~whole & (vi32)(pk_fabs_(y) < inf);
    bad |= (vi32)(x != x) | (vi32)(y != y);
    r = (vf32)((vi32)r | (bad & 0x7fc00000));
    vi32 one =
        (vi32)(y == 0.0f) | (vi32)(x == 1.0f) | ((vi32)(a == 1.0f) & (vi32)(pk_fabs_(y) == inf));
    return pk_select_vf32(one, pk_set_vf32(1.0f), r);
}
PK_LIBM2_(pk_pow_vf64, vf64, double, pow)
