/* SPDX-License-Identifier: MIT
 * CUDA C: what the mathematics of gen/c/prelude expects, over one lane. shared_close.h ends it.
 */
#define PK_W    1
#define PK_I    PK_D
#define PK_FMA_ 1
#define PK_512_ 0
#define PK_NO_LIBM
/* the GPU has its own, special.h */
#define pk_sigmoid_vf32 pk_sigmoid_shared_
#define pk_silu_vf32    pk_silu_shared_
#define pk_gelu_vf32    pk_gelu_shared_

#define PK_LIBM1_(name, lane, scalar, f)                                                           \
    PK_I lane name(lane a) {                                                                       \
        return lane(f(a.x[0]));                                                                    \
    }
#define PK_LIBM2_(name, lane, scalar, f)                                                           \
    PK_I lane name(lane a, lane b) {                                                               \
        return lane(f(a.x[0], b.x[0]));                                                            \
    }
#define PK_LANES1_(name, lane, f) PK_LIBM1_(name, lane, scalar, f)

/* n / d without the instructions for divisors that are denormal or large: the quotient by the
 * reciprocal's approximation, and what it lacks. Infinities have no remainder. */
PK_I vf32 pk_quick_over_(vf32 n, vf32 d) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d.x[0]));
    const float q = n.x[0] * r, more = __fmaf_rn(__fmaf_rn(-d.x[0], q, n.x[0]), r, q);
    return vf32(fabsf(n.x[0]) <= 0x1.fffffep+127f ? more : q);
}
#define pk_over_(n, d) pk_quick_over_(n, d)

PK_I vf32 pk_mad_(vf32 a, vf32 b, vf32 c) {
    return vf32(__fmaf_rn(a.x[0], b.x[0], c.x[0]));
}
PK_I vf32 pk_madc_(vf32 a, vf32 b, float c) {
    return vf32(__fmaf_rn(a.x[0], b.x[0], c));
}
PK_I vf64 pk_madd_(vf64 a, vf64 b, double c) {
    return vf64(__fma_rn(a.x[0], b.x[0], c));
}
PK_I vf32 pk_atmost_(vf32 x, float hi) {
    return vf32(x.x[0] > hi ? hi : x.x[0]);
}
PK_I vf32 pk_atleast_(vf32 x, float lo) {
    return vf32(x.x[0] < lo ? lo : x.x[0]);
}
PK_I vf32 pk_clip_(vf32 x, float m) {
    return vf32(pk_clip1(x.x[0], m));
}
PK_I vf32 pk_fabs_(vf32 x) {
    return vf32(fabsf(x.x[0]));
}
PK_I vi32 pk_signbit_(vf32 x) {
    return vi32(__float_as_int(x.x[0]) & (int)0x80000000u);
}
PK_I vf32 pk_withsign_(vf32 m, vf32 s) {
    return vf32(__int_as_float(__float_as_int(m.x[0]) | pk_signbit_(s).x[0]));
}
PK_I vf64 pk_limit_(vf64 a, double lo, double hi) {
    const double x = a.x[0];
    return vf64(x != x ? 0.0 : x < lo ? lo : x > hi ? hi : x);
}
