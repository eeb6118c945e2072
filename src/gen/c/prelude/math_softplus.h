/* SPDX-License-Identifier: MIT
 * softplus(x) = log(1 + exp(beta x)) / beta, x itself where beta x is above the threshold.
 * log(1 + exp v) = max(v, 0) + log1p(exp(-|v|)), which overflows nowhere.
 */
PK_I vf32 pk_softplus_vf32(vf32 x, double beta, double threshold) {
    vi32 k, above;
    vf32 v, p;
    if (beta == 1.0) {
        v = x;
        above = (vi32)(x > (float)threshold);
        p = pk_expm1r_(pk_reduce_(pk_atleast_(pk_negabs_(x), PK_DEAD_), &k)) + 1.0f;
    } else {
        /* beta x in f64: its rounding to f32 would be an error of many ulp of the exponential */
        vf64 w = pk_cvt_vf32_vf64(x) * beta;
        v = pk_cvt_vf64_vf32(w);
        above = pk_gt_vf64(w, pk_set_vf64(threshold));
        vf64 a = pk_limit_((vf64)((vi64)w | (pk_i64)0x8000000000000000u), PK_DEAD_, 0.0);
        p = pk_exp2_parts_(a * 1.4426950408889634, &k);
    }
    vf32 e = pk_scale_(p, k);
    vf32 y = ((vf32)((vi32)v & (vi32)(v > 0.0f)) + pk_log1p_core_(e)) / (float)beta;
    /* where log1p(e) = e to the last bit, divide before the scaling: e may be denormal */
    vf32 tail = pk_scale_or0_(p / (float)beta, k, (vi32)(v < PK_DEAD_));
    y = pk_select_vf32((vi32)(v < -18.0f), tail, y);
    y = pk_select_vf32((vi32)(v == v), y, v);
    return pk_select_vf32(above, x, y);
}
#ifndef PK_NO_LIBM
extern long double expl(long double);
extern long double log1pl(long double);
PK_I vf64 pk_softplus_vf64(vf64 x, double beta, double threshold) {
    for (int i = 0; i < PK_W; i++) {
        long double v = (long double)x[i] * beta, m = v > 0.0L ? v : 0.0L;
        if (!(v > threshold))
            x[i] = v != v ? x[i] : (double)((m + log1pl(expl(-__builtin_fabsl(v)))) / beta);
    }
    return x;
}
#endif
