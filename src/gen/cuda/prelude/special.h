/* SPDX-License-Identifier: MIT
 * CUDA C, over one lane: sigmoid, silu and gelu by the GPU's own 2^r and 1 / d, in place of what
 * CPUs share (gen/c/prelude/math_exp.h, math_erf.h), which shared_open.h gives other names.
 *
 * 2^r has a relative error below 2^-22 and 1 / d one below 2^-23 (PTX ISA, ex2.approx and
 * rcp.approx; over all floats 2.06 and 0.98 ulp were met, which make 3.9 of sigmoid), so the argument
 * of the exponential is split first: an integer k that goes into an exponent by bits, and r, |r| <= 1/2,
 * with the rounding errors of the argument. Denormal results come from one last multiplication by a
 * power of two: those instructions flush them.
 */
#undef pk_sigmoid_vf32
#undef pk_silu_vf32
#undef pk_gelu_vf32

PK_D float pk_ex2_(float r) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(r));
    return y;
}
PK_D float pk_rcp_(float d) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(d));
    return y;
}
/* A NaN stays one. */
PK_D float pk_min_(float a, float b) {
    float y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
PK_D float pk_max_(float a, float b) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
/* 2^-30 (1 + exp(-x)); below -108.2 its reciprocal is 0. */
PK_D float pk_denominator30_(float x) {
    const float log2e = 0x1.715476p+0f, low = 0x1.4ae0cp-26f;
    const float magic = 0x1.8p23f + 97.0f; /* the exponent of 2^(k - 30) in the low bits */
    const float t = pk_min_(pk_max_(x, -109.0f), 40.0f), m = __fmaf_rn(t, -log2e, magic);
    const float r = __fmaf_rn(t, -log2e, magic - m);
    const float e = pk_ex2_(__fmaf_rn(t, -low, r));
    return __fmaf_rn(e, __int_as_float(__float_as_int(m) << 23), 0x1p-30f);
}
PK_I vf32 pk_sigmoid_vf32(vf32 x) {
    return vf32(pk_rcp_(pk_denominator30_(x.x[0])) * 0x1p-30f);
}
/* x / (1 + exp(-x)), rounded once where that is denormal. What is above 2^90 would overflow and is its
 * own result: it comes back by the addition. Where x is -inf the result is NaN. */
PK_I vf32 pk_silu_vf32(vf32 x) {
    const float d = pk_denominator30_(x.x[0]), r = pk_rcp_(d);
    const float s = __fmaf_rn(r, __fmaf_rn(-d, r, 1.0f), r), t = pk_min_(x.x[0], 0x1p90f);
    return vf32(__fmaf_rn(t * s, 0x1p-30f, x.x[0] - t));
}
/* max(x, 0) - w, w = |x| Phi(-|x|), as on CPUs: their constants, but for the power of two. */
PK_I vf32 pk_gelu_vf32(vf32 x) {
    const float q = fabsf(pk_min_(x.x[0], 14.5f)), t = fmaxf(-q, -14.5f);
    const float chi = 0x1.715468p-1f, magic = 0x1.8p23f + 152.0f;
    const float h = t * t, l = __fmaf_rn(t, t, -h), m = __fmaf_rn(h, -chi, magic);
    const float r = __fmaf_rn(l, -chi, __fmaf_rn(h, -chi, magic - m));
    float n = __fmaf_rn(-0x1.89442ep-4f, t, 0x1.6c64b0p-1f);
    n = __fmaf_rn(n, t, -0x1.1dd9d0p+1f);
    n = __fmaf_rn(n, t, 0x1.9fbcfep+1f);
    float d = __fmaf_rn(0x1.ed2124p-5f, t, -0x1.c7f29ap-2f);
    d = __fmaf_rn(d, t, 0x1.77ff8ep+0f);
    d = __fmaf_rn(d, t, -0x1.34c784p+1f);
    d = __fmaf_rn(d, t, 0x1.9fbd02p+0f);
    const float i = pk_rcp_(d), y = n * i, z = __fmaf_rn(__fmaf_rn(-d, y, n), i, y);
    float p = __fmaf_rn(0x1.416b52p-13f, r, 0x1.5f082ep-10f); /* 2^r - 1, closer than pk_ex2_ */
    p = __fmaf_rn(p, r, 0x1.3b2de0p-7f);
    p = __fmaf_rn(p, r, 0x1.c6af7cp-5f);
    p = __fmaf_rn(p, r, 0x1.ebfbdcp-3f);
    p = __fmaf_rn(p, r, 0x1.62e430p-1f) * r;
    const float v = z * q * __int_as_float(__float_as_int(m) << 23), w = __fmaf_rn(v, p, v);
    return vf32(__fmaf_rn(w, -0x1p-27f, pk_max_(x.x[0], 0.0f)));
}
