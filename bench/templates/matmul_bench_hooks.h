/* SPDX-License-Identifier: MIT
 *
 * Hand-written hooks as the generator would write them, for the bench of the matmul templates.
 * Included once per kernel, behind the template's constants and
 *   HK_A: 0 f32 [M,K]; 1 relu of it; 2 rows gathered by i32; 3 f32 [K,M]
 *   HK_B: 0 f32 [K,N]; 1 f32 [N,K]; 2 i8 [K,N] * scale[n]; 3 i8 [N,K] * scale[n];
 *         4 q8_0 [N, K/32 blocks of f16 + 32 i8]; 5 q4_0 [N, K/32 blocks of f16 + 16 bytes]
 *         6, 7, 8: as 3, 4, 5, packed once: rows interleaved by HK_NR, [n / HK_NR][k][HK_NR], of
 *         int8 or of bytes with two 4-bit elements; scales behind them as [n / HK_NR][block][HK_NR]
 *   HK_E: 0 store; 1 gelu(acc + bias[n]) + residual[m,n]
 * buf = A, B, scale, out, bias, residual, row numbers; sym = M, N, K.
 */
#define HK2(a, b) a##_##b
#define HK1(a, b) HK2(a, b)
#define HK(x)     HK1(PK_KERNEL, x)

#define HK_GROUPS (HK_B == 4 || HK_B == 5 || HK_B == 7 || HK_B == 8)

#ifndef BENCH_HOOKS_ONCE
#define BENCH_HOOKS_ONCE
#define HKI static inline __attribute__((always_inline, unused))
/* tanh form of gelu; exp by a polynomial of degree 6, 2^n put together from bits. */
HKI vf32 bh_gelu(vf32 x) {
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
HKI struct HK(shape) HK(get_shape)(const struct pk_args *g) {
    return (struct HK(shape)){1, g->sym[0], g->sym[1], g->sym[2]};
}

struct HK(a_row) {
    const float *p;
};
HKI struct HK(a_row) HK(a_row_init)(const struct pk_args *g, pk_i64 z, pk_i64 m, int n) {
    const float *p = (const float *)g->buf[0];
    (void)z, (void)n;
#if HK_A == 2
    m = ((const int *)g->buf[6])[m];
#endif
    return (struct HK(a_row)){p + m * (HK_A == 3 ? 1 : g->sym[2])};
}
HKI vf32 HK(a_value)(const struct pk_args *g, const struct HK(a_row) * r, pk_i64 z, pk_i64 m,
                     pk_i64 k, int n) {
    (void)z, (void)m;
    const float *p = r->p + (HK_A == 3 ? k * g->sym[0] : k);
    vf32 v = n == PK_W ? pk_ld_f32(p, 0) : pk_ldn_f32(p, 0, n);
#if HK_A == 1
    v = (vf32)((vi32)v & (vi32)(v > 0.f));
#endif
    return v;
}

/* Interleaved weights: bytes of a row, and where the scales start. */
#if HK_B == 8
#define HK_BYTES(K) ((K) / 2)
#else
#define HK_BYTES(K) (K)
#endif
#if HK_B >= 6
#ifndef HK_NR
#define HK_NR (2 * PK_W)
#endif
static inline pk_i64 HK(packed_rows)(const struct pk_args *g) {
    return (g->sym[1] + HK_NR - 1) / HK_NR * HK_NR;
}
static pk_i64 HK(packed_bytes)(const struct pk_args *g, int operand) {
    (void)operand;
    return HK(packed_rows)(g) * (HK_BYTES(g->sym[2]) + (HK_B == 6 ? 4 : g->sym[2] / 16));
}
static pk_i64 HK(pack_tasks)(const struct pk_args *g, int operand) {
    (void)operand;
    return HK(packed_rows)(g) / HK_NR;
}
static void HK(pack)(const struct pk_args *g, int operand, pk_i64 task, void *dst) {
    (void)operand;
    pk_i64 K = g->sym[2], bytes = HK_BYTES(K);
    unsigned char *d = (unsigned char *)dst + task * HK_NR * bytes;
    unsigned char *s = (unsigned char *)dst + HK(packed_rows)(g) * bytes;
    for (pk_i64 i = 0; i < HK_NR; i++) {
        pk_i64 n = task * HK_NR + i;
        if (n >= g->sym[1]) n = g->sym[1] - 1;
        const unsigned char *w = (const unsigned char *)g->buf[1];
#if HK_B == 6
        for (pk_i64 k = 0; k < K; k++)
            d[k * HK_NR + i] = w[n * K + k];
        __builtin_memcpy(s + (task * HK_NR + i) * 4, (const char *)g->buf[2] + n * 4, 4);
#else
        for (pk_i64 b = 0; b < K / 32; b++) {
            const unsigned char *q = w + (n * (K / 32) + b) * (HK_B == 7 ? 34 : 18);
            for (int k = 0; k < (HK_B == 7 ? 32 : 16); k++)
                d[(b * (HK_B == 7 ? 32 : 16) + k) * HK_NR + i] = q[2 + k];
            __builtin_memcpy(s + ((task * (K / 32) + b) * HK_NR + i) * 2, q, 2);
        }
#endif
    }
}
#endif

struct HK(b0_row) {
    const unsigned char *p, *s;
    float scale;
    vf32 scales;
};
HKI struct HK(b0_row) HK(b0_row_init)(const struct pk_args *g, pk_i64 z, pk_i64 n, int cnt) {
    (void)z, (void)cnt;
    struct HK(b0_row) r = {(const unsigned char *)g->buf[1], 0, 0, {0}};
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
#else
    const unsigned char *once = (const unsigned char *)g->packed[0];
    pk_i64 block = n / HK_NR, at = n % HK_NR;
    r.p = once + block * HK_NR * HK_BYTES(K) + at;
    r.s = once + HK(packed_rows)(g) * HK_BYTES(K);
#if HK_B == 6
    r.scales = pk_ld_f32(r.s, n);
#else
    r.s += (block * (K / 32) * HK_NR + at) * 2;
#endif
#endif
    return r;
}
#if HK_GROUPS
/* Packed nibbles (8): the upper ones are 16 times too large where they lie, which the scale takes
 * back; both are exact, as is the product of a nibble less 8 with a scale from f16. */
struct HK(b0_group) {
    const unsigned char *p;
    vf32 scale;
#if HK_B == 8
    vu32 mask;
    vf32 offset;
#endif
};
HKI struct HK(b0_group) HK(b0_group_init)(const struct pk_args *g, const struct HK(b0_row) * r,
                                          pk_i64 z, pk_i64 n, pk_i64 k, int cnt) {
    (void)g, (void)z, (void)n, (void)cnt;
#if HK_B == 4 || HK_B == 5
    const unsigned char *b = r->p + k / 32 * (HK_B == 4 ? 34 : 18);
    return (struct HK(b0_group)){b + 2, pk_ld1_f16(b, 0)};
#else
    pk_i64 block = k / 32;
    const unsigned char *p = r->p + HK_BYTES(block * 32) * HK_NR;
    vf32 scale = pk_ld_f16(r->s, block * HK_NR);
#if HK_B == 7
    return (struct HK(b0_group)){p, scale};
#else
    int upper = k % 32 / 16;
    return (struct HK(b0_group)){p, scale * (upper ? 0.0625f : 1.f), pk_set_vu32(upper ? 0xf0 : 15),
                                 scale * -8.f};
#endif
#endif
}
#endif
HKI vf32 HK(b0_value)(const struct pk_args *g, const struct HK(b0_row) * r,
#if HK_GROUPS
                      const struct HK(b0_group) * q,
#endif
                      pk_i64 z, pk_i64 n, pk_i64 k, int cnt) {
    (void)z, (void)n, (void)g, (void)r;
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
    return pk_cvt_vi32_vf32(cnt == PK_W ? pk_ld_i8(p, 0) : pk_ldn_i8(p, 0, cnt)) *
           pk_set_vf32(r->scale);
#elif HK_B == 4
    return pk_cvt_vi32_vf32(pk_ld_i8(q->p, k % 32)) * q->scale;
#elif HK_B == 5
    vi32 v = (vi32)(pk_ld_u8(q->p, k % 16) >> (unsigned)(k % 32 / 16 * 4) & 15);
    return pk_cvt_vi32_vf32(v - 8) * q->scale;
#elif HK_B == 6
    return pk_cvt_vi32_vf32(pk_ld_i8(r->p, k * HK_NR)) * r->scales;
#elif HK_B == 7
    return pk_cvt_vi32_vf32(pk_ld_i8(q->p, k % 32 * HK_NR)) * q->scale;
#else
    vi32 v = (vi32)(pk_ld_u8(q->p, k % 16 * HK_NR) & q->mask);
    return pk_fma_vf32(pk_cvt_vi32_vf32(v), q->scale, q->offset);
#endif
}

/* Fetches ahead, one instruction for each line. */
#ifdef MM_B0_AHEAD
HKI void HK(b0_fetch)(const struct pk_args *g, const struct HK(b0_row) * r, pk_i64 z, pk_i64 n,
                      pk_i64 k, int count) {
    (void)g, (void)z, (void)n, (void)count;
#if HK_B == 1
    const unsigned char *p = r->p + k * 4;
    int bytes = count * 4;
#elif HK_B == 3
    const unsigned char *p = r->p + k;
    int bytes = count;
#elif HK_B == 4 || HK_B == 5
    const unsigned char *p = r->p + k / 32 * (HK_B == 4 ? 34 : 18);
    int bytes = 1;
#else
    if (n % HK_NR) return;
    const unsigned char *p = r->p + HK_BYTES(k) * HK_NR;
    int bytes = HK_BYTES(count) * HK_NR;
#if HK_GROUPS
    __builtin_prefetch(r->s + k / 32 * HK_NR);
#endif
#endif
    for (int i = 0; i < bytes; i += 64)
        __builtin_prefetch(p + i);
}
#endif

struct HK(c_row) {
    pk_i64 at;
};
HKI struct HK(c_row) HK(c_row_init)(const struct pk_args *g, pk_i64 z, pk_i64 m) {
    (void)z;
    return (struct HK(c_row)){m * g->sym[1]};
}
HKI const void **HK(c_fetch)(const struct pk_args *g, const struct HK(c_row) * r, pk_i64 z,
                             pk_i64 m, pk_i64 n, int cnt, const void **to) {
    (void)z, (void)m;
    for (int i = 0; i < cnt; i += 16) {
        *to++ = (const float *)g->buf[3] + r->at + n + i;
#if HK_E == 1
        *to++ = (const float *)g->buf[5] + r->at + n + i;
#endif
    }
    return to;
}
HKI void HK(c_store)(const struct pk_args *g, const struct HK(c_row) * r, pk_i64 z, pk_i64 m,
                     pk_i64 n, int cnt, vf32 acc) {
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
