/* SPDX-License-Identifier: MIT
 * Division with floor, remainders and powers. Integers never trap: a divisor of 0 gives 0 (the
 * kernel's check reports it), MIN // -1 wraps.
 */

/* ---- 32-bit integers
 * ----------------------------------------------------------------------------- */

/* In f64 the quotient of two 32-bit integers is within 2^-53 of the exact one, relatively; an
 * inexact one is at least 2^-32 away from the next integer, so chopping gives the exact quotient.
 */
PK_I vi32 pk_quot_vi32_(vi32 a, vi32 b) {
    vf64 q = pk_cvt_vi32_vf64(a) / pk_cvt_vi32_vf64(b | ((vi32)(b == 0) & 1));
    vi32 wraps = (vi32)(b == -1);
    vi32 r = __builtin_convertvector(pk_limit_(q, -2147483648.0, 2147483647.0), vi32);
    return ((wraps & (vi32)(0u - (vu32)a)) | (~wraps & r)) & (vi32)(b != 0);
}
PK_I vu32 pk_quot_vu32_(vu32 a, vu32 b) {
    vi32 zero = (vi32)(b == 0);
    vf64 q = pk_cvt_vu32_vf64(a) / pk_cvt_vu32_vf64(b | ((vu32)zero & 1u));
    return pk_cvt_vf64_vu32(q) & (vu32)~zero;
}
PK_I vi32 pk_fmod_vi32(vi32 a, vi32 b) {
    vu32 r = (vu32)a - (vu32)pk_quot_vi32_(a, b) * (vu32)b;
    return (vi32)r & (vi32)(b != 0);
}
PK_I vu32 pk_fmod_vu32(vu32 a, vu32 b) {
    return (a - pk_quot_vu32_(a, b) * b) & (vu32)(b != 0);
}
PK_I vi32 pk_floordiv_vi32(vi32 a, vi32 b) {
    vi32 q = pk_quot_vi32_(a, b);
    vi32 r = (vi32)((vu32)a - (vu32)q * (vu32)b);
    return q + ((vi32)(r != 0) & (vi32)(b != 0) & ((r ^ b) >> 31));
}
PK_I vi32 pk_mod_vi32(vi32 a, vi32 b) {
    vi32 r = pk_fmod_vi32(a, b);
    return r + (b & (vi32)(r != 0) & ((r ^ b) >> 31));
}
PK_I vu32 pk_floordiv_vu32(vu32 a, vu32 b) {
    return pk_quot_vu32_(a, b);
}
PK_I vu32 pk_mod_vu32(vu32 a, vu32 b) {
    return pk_fmod_vu32(a, b);
}

/* ---- 64-bit integers
 * ----------------------------------------------------------------------------- */

PK_I pk_i64 pk_quot_i64_(pk_i64 a, pk_i64 b) {
    return b == 0 ? 0 : b == -1 ? (pk_i64)(0 - (pk_u64)a) : a / b;
}
PK_I pk_i64 pk_fmod_i64_(pk_i64 a, pk_i64 b) {
    return b == 0 || b == -1 ? 0 : a % b;
}
PK_I pk_i64 pk_floordiv_i64_(pk_i64 a, pk_i64 b) {
    pk_i64 r = pk_fmod_i64_(a, b);
    return pk_quot_i64_(a, b) - (r != 0 && (r ^ b) < 0);
}
PK_I pk_i64 pk_mod_i64_(pk_i64 a, pk_i64 b) {
    pk_i64 r = pk_fmod_i64_(a, b);
    return r != 0 && (r ^ b) < 0 ? r + b : r;
}
PK_I pk_u64 pk_quot_u64_(pk_u64 a, pk_u64 b) {
    return b == 0 ? 0 : a / b;
}
PK_I pk_u64 pk_fmod_u64_(pk_u64 a, pk_u64 b) {
    return b == 0 ? 0 : a % b;
}
PK_LANES2_(pk_floordiv_vi64, vi64, pk_floordiv_i64_)
PK_LANES2_(pk_mod_vi64, vi64, pk_mod_i64_)
PK_LANES2_(pk_fmod_vi64, vi64, pk_fmod_i64_)
PK_LANES2_(pk_floordiv_vu64, vu64, pk_quot_u64_)
PK_LANES2_(pk_mod_vu64, vu64, pk_fmod_u64_)
PK_LANES2_(pk_fmod_vu64, vu64, pk_fmod_u64_)

/* ---- floats
 * -------------------------------------------------------------------------------------- */

/* As Python defines them: the remainder has the divisor's sign, the quotient comes from the exact
 * remainder. */
extern float fmodf(float, float);
extern double fmod(double, double);
PK_I double pk_mod_f64_(double a, double b) {
    double r = fmod(a, b);
    return r != 0.0 && (b < 0.0) != (r < 0.0) ? r + b : r;
}
PK_I double pk_floordiv_f64_(double a, double b) {
    if (b == 0.0) return a / b;
    double r = fmod(a, b), q = (a - r) / b;
    if (r != 0.0 && (b < 0.0) != (r < 0.0)) q -= 1.0;
    if (q == 0.0) return __builtin_copysign(0.0, a / b);
    double whole = __builtin_floor(q);
    return q - whole > 0.5 ? whole + 1.0 : whole;
}
PK_LANES2_(pk_fmod_vf64, vf64, fmod)
PK_LANES2_(pk_mod_vf64, vf64, pk_mod_f64_)
PK_LANES2_(pk_floordiv_vf64, vf64, pk_floordiv_f64_)

/* f32 in f64: for a quotient q below 2^29, q b is exact and so is a - q b, of which |a / b| rounded
 * up to an integer makes at most one b too little. Other lanes, infinite divisors included, are
 * `far` and go through libm. Returns the remainder of |a| by |b|, the quotient in *q. */
PK_I vf32 pk_rem_vf32_(vf32 a, vf32 b, vf64 *q, vi32 *far) {
    vf64 x = pk_cvt_vf32_vf64(pk_fabs_(a)), y = pk_cvt_vf32_vf64(pk_fabs_(b));
    vf64 n = pk_trunc_vf64(x / y), r = x - n * y;
    vi64 over = pk_wide_lt_vf64_(r, (vf64){0});
    *far = ~(pk_lt_vf64(n, pk_set_vf64(0x1p29)) & (vi32)(pk_fabs_(b) < __builtin_inff()));
    *q = n - (vf64)(over & (vi64)pk_set_vf64(1.0));
    return pk_cvt_vf64_vf32(r + (vf64)(over & (vi64)y));
}
PK_I vf32 pk_fmod_vf32(vf32 a, vf32 b) {
    vf64 q;
    vi32 far;
    vf32 r = pk_withsign_(pk_fabs_(pk_rem_vf32_(a, b, &q, &far)), a);
    if (pk_any_(far))
        for (int i = 0; i < PK_W; i++)
            if (far[i]) r[i] = fmodf(a[i], b[i]);
    return r;
}
PK_I vi32 pk_differ_(vf32 r, vf32 b) {
    return (vi32)(r != 0.0f) & (((vi32)r ^ (vi32)b) >> 31);
}
PK_I vf32 pk_mod_vf32(vf32 a, vf32 b) {
    vf32 r = pk_fmod_vf32(a, b);
    vi32 fix = pk_differ_(r, b) & (vi32)(r == r);
    return pk_select_vf32(fix, r + b, r);
}
PK_I vf32 pk_floordiv_vf32(vf32 a, vf32 b) {
    vf64 q;
    vi32 far;
    vf32 m = pk_rem_vf32_(a, b, &q, &far);
    vi32 s = pk_signbit_((vf32)((vi32)a ^ (vi32)b));
    /* towards minus infinity: below 0 an inexact quotient is one more in magnitude */
    vi64 down = pk_wide_mask_((vi32)(m != 0.0f) & (s >> 31));
    vf32 r = pk_cvt_vf64_vf32(q + (vf64)(down & (vi64)pk_set_vf64(1.0)));
    r = (vf32)((vi32)r | s);
    if (pk_any_(far))
        for (int i = 0; i < PK_W; i++)
            if (far[i]) r[i] = (float)pk_floordiv_f64_((double)a[i], (double)b[i]);
    return r;
}
