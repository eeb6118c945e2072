/* SPDX-License-Identifier: MIT
 *
 * Hand-written hooks as the generator would write them, for the bench of the matmul templates.
 * Included once per kernel, behind the template's constants and
 *   HK_A: 0 f32 [M,K]; 1 relu of it; 2 rows gathered by i32; 3 f32 [K,M]
 *   HK_B: 0 f32 [K,N]; 1 f32 [N,K]; 2 i8 [K,N] * scale[n]; 3 i8 [N,K] * scale[n];
 *         4 q8_0 [N, K/32 blocks of f16 + 32 i8]; 5 q4_0 [N, K/32 blocks of f16 + 16 bytes]
 *         6, 7, 8: as 3, 4, 5 from a layout packed once, 16 columns interleaved
 *   HK_E: 0 store; 1 gelu(acc + bias[n]) + residual[m,n]
 * buf = A, B, scale, out, bias, residual, row numbers; sym = M, N, K.
 */
#define HK2(a, b) a##_##b
#define HK1(a, b) HK2(a, b)
#define HK(x) HK1(PK_KERNEL, x)

#ifndef BENCH_HOOKS_ONCE
#define BENCH_HOOKS_ONCE
#define HKI static inline __attribute__((always_inline, unused))
/* tanh form of gelu; exp by a polynomial of degree 6, 2^n put together from bits. */
HKI vf32 bh_gelu(vf32 x)
{
    vf32 y = x * (1.5957691216f + 0.0713548162726f * x * x);
    vf32 t = y * -1.44269504f;
    t = pk_select_vf32((vi32)(t > 126.f), pk_set_vf32(126), t);
    t = pk_select_vf32((vi32)(t < -126.f), pk_set_vf32(-126), t);
    vf32 r = t + 12582912.f;
    vi32 n = (vi32)r << 23;
    vf32 f = t - (r - 12582912.f);
    vf32 p = pk_set_vf32(1.54035304e-4f);
    p = pk_fma_vf32(p, f, pk_set_vf32(1.33335581e-3f));
    p = pk_fma_vf32(p, f, pk_set_vf32(9.61812911e-3f));
    p = pk_fma_vf32(p, f, pk_set_vf32(5.55041087e-2f));
    p = pk_fma_vf32(p, f, pk_set_vf32(2.40226507e-1f));
    p = pk_fma_vf32(p, f, pk_set_vf32(6.93147181e-1f));
    p = pk_fma_vf32(p, f, pk_set_vf32(1.f));
    vf32 e = (vf32)((vi32)p + n);
    return x / (e + 1.f);
}
#endif

struct HK(shape) {
    pk_i64 Z, M, N, K;
};
HKI struct HK(shape) HK(get_shape)(const struct pk_args *g)
{
    return (struct HK(shape)){1, g->sym[0], g->sym[1], g->sym[2]};
}

struct HK(a_row) {
    const float *p;
};
HKI struct HK(a_row) HK(a_row_init)(const struct pk_args *g, pk_i64 z, pk_i64 m, int n)
{
    const float *p = (const float *)g->buf[0];
    (void)z, (void)n;
#if HK_A == 2
    m = ((const int *)g->buf[6])[m];
#endif
    return (struct HK(a_row)){p + m * (HK_A == 3 ? 1 : g->sym[2])};
}
HKI vf32 HK(a_value)(const struct pk_args *g, const struct HK(a_row) *r, pk_i64 z, pk_i64 m,
                     pk_i64 k, int n)
{
    (void)z, (void)m;
    const float *p = r->p + (HK_A == 3 ? k * g->sym[0] : k);
    vf32 v = n == PK_W ? pk_ld_f32(p, 0) : pk_ldn_f32(p, 0, n);
#if HK_A == 1
    v = (vf32)((vi32)v & (vi32)(v > 0.f));
#endif
    return v;
}

struct HK(b0_row) {
    const unsigned char *p;
    float scale;
    vf32 scales;
};
HKI struct HK(b0_row) HK(b0_row_init)(const struct pk_args *g, pk_i64 z, pk_i64 n, int cnt)
{
    (void)z, (void)cnt;
    struct HK(b0_row) r = {(const unsigned char *)g->buf[1], 0, {0}};
    const float *scale = (const float *)g->buf[2];
    pk_i64 K = g->sym[2];
    (void)scale, (void)K;
#if HK_B == 0
    r.p += n * 4;
#elif HK_B == 1
    r.p += n * K * 4;
#elif HK_B == 2
    r.p += n;
    r.scales = cnt == PK_W ? pk_ld_f32(scale, n) : pk_ldn_f32(scale, n, cnt);
#elif HK_B == 3
    r.p += n * K;
    r.scale = scale[n];
#elif HK_B == 4
    r.p += n * (K / 32) * 34;
#elif HK_B == 5
    r.p += n * (K / 32) * 18;
#endif
    return r;
}
HKI vf32 HK(b0_value)(const struct pk_args *g, const struct HK(b0_row) *r, pk_i64 z, pk_i64 n,
                      pk_i64 k, int cnt)
{
    (void)z, (void)n, (void)g;
#if HK_B == 0
    const float *p = (const float *)r->p + k * g->sym[1];
    return cnt == PK_W ? pk_ld_f32(p, 0) : pk_ldn_f32(p, 0, cnt);
#elif HK_B == 1
    const float *p = (const float *)r->p + k;
    return cnt == PK_W ? pk_ld_f32(p, 0) : pk_ldn_f32(p, 0, cnt);
#elif HK_B == 2
    const signed char *p = (const signed char *)r->p + k * g->sym[1];
    return pk_cvt_vi32_vf32(cnt == PK_W ? pk_ld_i8(p, 0) : pk_ldn_i8(p, 0, cnt)) * r->scales;
#elif HK_B == 3
    const signed char *p = (const signed char *)r->p + k;
    return pk_cvt_vi32_vf32(cnt == PK_W ? pk_ld_i8(p, 0) : pk_ldn_i8(p, 0, cnt)) * pk_set_vf32(r->scale);
#elif HK_B == 4
    const unsigned char *b = r->p + k / 32 * 34;
    const signed char *p = (const signed char *)b + 2 + k % 32;
    return pk_cvt_vi32_vf32(cnt == PK_W ? pk_ld_i8(p, 0) : pk_ldn_i8(p, 0, cnt)) * pk_ld1_f16(b, 0);
#elif HK_B == 5
    const unsigned char *b = r->p + k / 32 * 18;
    vi32 q = (vi32)(pk_ld_u8(b + 2, k % 16) >> (unsigned)(k % 32 / 16 * 4) & 15);
    return pk_cvt_vi32_vf32(q - 8) * pk_ld1_f16(b, 0);
#endif
}

struct HK(c_row) {
    pk_i64 at;
};
HKI struct HK(c_row) HK(c_row_init)(const struct pk_args *g, pk_i64 z, pk_i64 m)
{
    (void)z;
    return (struct HK(c_row)){m * g->sym[1]};
}
HKI void HK(c_store)(const struct pk_args *g, const struct HK(c_row) *r, pk_i64 z, pk_i64 m,
                     pk_i64 n, int cnt, vf32 acc)
{
    (void)z, (void)m;
    float *out = (float *)g->buf[3] + r->at + n;
#if HK_E == 1
    const float *bias = (const float *)g->buf[4] + n, *res = (const float *)g->buf[5] + r->at + n;
    if (cnt == PK_W)
        acc = bh_gelu(acc + pk_ld_f32(bias, 0)) + pk_ld_f32(res, 0);
    else
        acc = bh_gelu(acc + pk_ldn_f32(bias, 0, cnt)) + pk_ldn_f32(res, 0, cnt);
#endif
    if (cnt == PK_W)
        pk_st_f32(out, 0, acc);
    else
        pk_stn_f32(out, 0, acc, cnt);
}

#undef HK
#undef HK1
#undef HK2
