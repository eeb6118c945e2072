/* SPDX-License-Identifier: MIT
 * One kernel of the few-rows template with hand-written hooks. FEW_NAME, FEW_W (format of the
 * weights), FEW_X (what feeds A) and the template's sizes are set; it registers the kernel.
 *
 * buf: 0 x, 1 weights, 2 their scales, 3 zero points, 4 result, 5 row indices or statistics of
 * rows (f32), 6 factor along k (bf16) or the second x, 7 second weights, 8 9 their scales, zeros.
 */
#define FEW_CAT2(a, b) a##_##b
#define FEW_CAT1(a, b) FEW_CAT2(a, b)
#define FEW(x)         FEW_CAT1(FEW_NAME, x)
#define FEW_STR2(x)    #x
#define FEW_STR1(x)    FEW_STR2(x)

#ifndef FEW_NB
#define FEW_NB 1
#endif
#ifndef MM_A_STAGE
#define MM_A_STAGE 0
#endif
/* FEW_RING: matmul_ring.cu, with MM_STAGES and MM_A_WARPS. */
#ifdef FEW_RING
#define MM_RGROUPS  1
#define MM_AHEAD    MM_STAGES
#define MM_STEP     1
#define MM_B0_MAP_Z 1
#define MM_B1_MAP_Z 1
#ifndef MM_A_WARPS
#define MM_A_WARPS 4
#endif
#ifndef MM_A_AHEAD
#define MM_A_AHEAD 4
#endif
#define MM_C_NEAR 0
#ifndef MM_A_TMA
#define MM_A_TMA 0
#endif
#define MM_A_MAP_Z 1
#endif
#ifndef MM_SPLIT
#define MM_SPLIT 1
#endif
#ifndef MM_X_BUFS
#define MM_X_BUFS 1
#endif
#ifndef MM_PER_SM
#define MM_PER_SM 1
#endif
#define MM_NB     FEW_NB
#define PK_KERNEL FEW_NAME
#if FEW_W == FEW_I8I8
#define FEW_ACC int
#else
#define FEW_ACC float
#endif

struct FEW(args) {
    void *buf[10];
    pk_i64 sym[4];
    void *scratch;
    void *fault;
};
#define pk_args FEW(args)
#define FEW_G   const struct pk_args *g

struct FEW(shape) {
    pk_i64 Z, M, N, K;
};
FEW_D struct FEW(shape) FEW(get_shape)(FEW_G) {
#ifdef FEW_N
    /* Sizes that the graph fixes. */
    return {1, g->sym[1], FEW_N, FEW_K};
#else
    return {g->sym[0], g->sym[1], g->sym[2], g->sym[3]};
#endif
}
#define FEW_SHAPE struct FEW(shape) s = FEW(get_shape)(g)

/* ---- A ------------------------------------------------------------------------------------- */

#if FEW_W == FEW_F8F8 || FEW_W == FEW_I8I8
typedef unsigned char FEW(xe);
#else
typedef unsigned short FEW(xe);
#endif
template <int W> struct FEW(a_row) {
    const FEW(xe) * x;
    const unsigned short *u;
    float r;
};
template <int W> FEW_D FEW(a_row)<W> FEW(a_row_init)(FEW_G, pk_i64 z, pk_i64 m, int cnt) {
    FEW_SHAPE;
    FEW(a_row)<W> r;
    pk_i64 row = z * s.M + m;
    r.u = 0, r.r = 1;
#if FEW_X == FEW_GATHER
    row = ((const int *)g->buf[5])[m];
#endif
#if FEW_X == FEW_RMS
    r.r = ((const float *)g->buf[5])[row];
    r.u = (const unsigned short *)g->buf[6];
#endif
#if FEW_X == FEW_SILU
    r.u = (const unsigned short *)g->buf[6] + row * s.K;
#endif
    r.x = (const FEW(xe) *)g->buf[0] + row * s.K;
    return r;
}
#if FEW_W == FEW_F8F8 || FEW_W == FEW_I8I8
template <int W>
FEW_D pk_lanes<FEW_ACC, W> FEW(a_value)(FEW_G, const FEW(a_row) < W > *r, pk_i64 z, pk_i64 m,
                                        pk_i64 k, int cnt) {
    pk_lanes<FEW_ACC, W> v;
    unsigned char b[W];
    const unsigned char *p = r->x + k;
    if (W == 8 && cnt == 8 && ((unsigned long long)p & 7) == 0) {
        uint2 w = *(const uint2 *)p;
#pragma unroll
        for (int i = 0; i < W; i++)
            b[i] = (unsigned char)((i < 4 ? w.x : w.y) >> (8 * (i & 3)));
    } else {
#pragma unroll
        for (int i = 0; i < W; i++)
            b[i] = i < cnt ? p[i] : 0;
    }
#pragma unroll
    for (int i = 0; i < W; i++)
        v.x[i] = FEW_W == FEW_F8F8 ? (FEW_ACC)few_e4m3(b[i]) : (FEW_ACC)(signed char)b[i];
    return v;
}
#else
template <int W> FEW_D void FEW(halves)(const unsigned short *p, int cnt, float v[W]) {
    if (W == 8 && cnt == 8 && ((unsigned long long)p & 15) == 0) {
        uint4 w = *(const uint4 *)p;
        unsigned q[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int i = 0; i < W; i++)
            v[i] = __uint_as_float(i & 1 ? q[i / 2] & 0xffff0000u : q[i / 2] << 16);
    } else {
#pragma unroll
        for (int i = 0; i < W; i++)
            v[i] = i < cnt ? few_bf16(p[i]) : 0.0f;
    }
}
template <int W>
FEW_D pk_lanes<float, W> FEW(a_value)(FEW_G, const FEW(a_row) < W > *r, pk_i64 z, pk_i64 m,
                                      pk_i64 k, int cnt) {
    pk_lanes<float, W> v;
    FEW(halves)<W>(r->x + k, cnt, v.x);
#if FEW_X == FEW_RMS
    float u[W];
    FEW(halves)<W>(r->u + k, cnt, u);
#pragma unroll
    for (int i = 0; i < W; i++)
        v.x[i] = few_bf16(few_to_bf16(v.x[i] * r->r * u[i]));
#endif
#if FEW_X == FEW_SILU
    float u[W];
    FEW(halves)<W>(r->u + k, cnt, u);
#pragma unroll
    for (int i = 0; i < W; i++)
        v.x[i] = few_bf16(few_to_bf16(v.x[i] * few_sigmoid(v.x[i]) * u[i]));
#endif
    return v;
}
#endif

#if FEW_X == FEW_PLAIN || FEW_X == FEW_GATHER
#define FEW_A_LEAVES 1
#else
#define FEW_A_LEAVES 2
#endif
template <int W>
FEW_D const void *FEW(a_leaf0)(FEW_G, const FEW(a_row) < W > *r, pk_i64 z, pk_i64 m, pk_i64 k) {
    return r->x + k;
}
#if FEW_X == FEW_RMS || FEW_X == FEW_SILU
template <int W>
FEW_D const void *FEW(a_leaf1)(FEW_G, const FEW(a_row) < W > *r, pk_i64 z, pk_i64 m, pk_i64 k) {
    return r->u + k;
}
template <int W>
FEW_D pk_bits<4> FEW(a_pack)(FEW_G, const FEW(a_row) < W > *r, pk_i64 z, pk_i64 m, pk_i64 k,
                             int cnt, const unsigned *x, const unsigned *u) {
    pk_bits<4> v;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float a[2] = {__uint_as_float(x[i] << 16), __uint_as_float(x[i] & 0xffff0000u)};
        float b[2] = {__uint_as_float(u[i] << 16), __uint_as_float(u[i] & 0xffff0000u)};
#pragma unroll
        for (int j = 0; j < 2; j++)
            a[j] = FEW_X == FEW_RMS ? a[j] * r->r * b[j] : a[j] * few_sigmoid(a[j]) * b[j];
        v.x[i] = few_to_bf16x2(a[0], a[1]);
    }
    return v;
}
#elif FEW_W == FEW_F8F8 || FEW_W == FEW_I8I8
template <int W>
FEW_D pk_bits<2> FEW(a_pack)(FEW_G, const FEW(a_row) < W > *r, pk_i64 z, pk_i64 m, pk_i64 k,
                             int cnt, const unsigned *x) {
    return {x[0], x[1]};
}
#else
template <int W>
FEW_D pk_bits<4> FEW(a_pack)(FEW_G, const FEW(a_row) < W > *r, pk_i64 z, pk_i64 m, pk_i64 k,
                             int cnt, const unsigned *x) {
    return {x[0], x[1], x[2], x[3]};
}
#endif

/* ---- B ------------------------------------------------------------------------------------- */

#if FEW_W == FEW_INT4
#define FEW_GROUP 128
#else
#define FEW_GROUP 0
#endif
#define FEW_B(name, iw, is, iz)                                                                    \
    template <int W> struct FEW(name##_row) {                                                      \
        const unsigned char *w;                                                                    \
        const unsigned short *s;                                                                   \
        const unsigned char *z;                                                                    \
        unsigned short scale;                                                                      \
    };                                                                                             \
    template <int W>                                                                               \
    FEW_D FEW(name##_row)<W> FEW(name##_row_init)(FEW_G, pk_i64 z, pk_i64 n, int cnt) {            \
        FEW_SHAPE;                                                                                 \
        FEW(name##_row)<W> r;                                                                      \
        pk_i64 row = z * s.N + n;                                                                  \
        r.w = (const unsigned char *)g->buf[iw] + row * s.K * FEW_BITS / 8;                        \
        if (FEW_W == FEW_INT8 || FEW_W == FEW_FP8)                                                 \
            r.scale = ((const unsigned short *)g->buf[is])[row];                                   \
        if (FEW_W == FEW_INT4) {                                                                   \
            r.s = (const unsigned short *)g->buf[is] + row * ((s.K + 127) / 128);                  \
            r.z = (const unsigned char *)g->buf[iz] + row * ((s.K + 127) / 128);                   \
        }                                                                                          \
        return r;                                                                                  \
    }                                                                                              \
    template <int W> struct FEW(name##_group) {                                                    \
        unsigned short s;                                                                          \
        unsigned char z;                                                                           \
    };                                                                                             \
    template <int W>                                                                               \
    FEW_D FEW(name##_group)<W> FEW(name##_group_init)(FEW_G, const FEW(name##_row) < W > *r,       \
                                                      pk_i64 z, pk_i64 n, pk_i64 k, int cnt) {     \
        return {r->s[k / 128], r->z[k / 128]};                                                     \
    }                                                                                              \
    template <int W>                                                                               \
    FEW_D const void *FEW(name##_leaf0)(FEW_G, const FEW(name##_row) < W > *r, pk_i64 z, pk_i64 n, \
                                        pk_i64 k) {                                                \
        return r->w + k * FEW_BITS / 8;                                                            \
    }                                                                                              \
    template <int W>                                                                               \
    FEW_D pk_lanes<FEW_ACC, W> FEW(name##_value)(                                                  \
        FEW_G, const FEW(name##_row) < W > *r FEW_GROUP_ARG(name), pk_i64 z, pk_i64 n, pk_i64 k,   \
        int cnt) {                                                                                 \
        pk_lanes<FEW_ACC, W> v;                                                                    \
        _Pragma("unroll") for (int i = 0; i < W; i++) {                                            \
            v.x[i] = 0;                                                                            \
            if (i < cnt) v.x[i] = FEW(one)(r->w, r->scale FEW_GROUP_USE, k + i);                   \
        }                                                                                          \
        return v;                                                                                  \
    }                                                                                              \
    template <int W>                                                                               \
    FEW_D pk_bits<FEW_PACK> FEW(name##_pack)(                                                      \
        FEW_G, const FEW(name##_row) < W > *r FEW_GROUP_ARG(name), pk_i64 z, pk_i64 n, pk_i64 k,   \
        int cnt, const unsigned *raw) {                                                            \
        pk_bits<FEW_PACK> v;                                                                       \
        FEW(eight)(raw, r->scale FEW_GROUP_USE, v.x);                                              \
        return v;                                                                                  \
    }
#if FEW_GROUP
#define FEW_GROUP_ARG(name) , const FEW(name##_group)<W> *q
#define FEW_GROUP_USE       , q->s, q->z
#define FEW_GROUP_PAR       , unsigned short gs, unsigned char gz
#else
#define FEW_GROUP_ARG(name)
#define FEW_GROUP_USE
#define FEW_GROUP_PAR
#endif

#ifdef FEW_ORDER1
#define FEW_NEAR 1 /* pairs of neighbours, for who does not want another order */
#undef FEW_ORDER1
#else
#define FEW_NEAR 0
#endif
#if FEW_W == FEW_INT8
#define FEW_BITS  8
#define FEW_ORDER (FEW_NEAR ? 1 : 2)
FEW_D float FEW(one)(const unsigned char *w, unsigned short s, pk_i64 k) {
    return few_bf16(few_to_bf16((float)(signed char)w[k] * few_bf16(s)));
}
#elif FEW_W == FEW_INT8E
#define FEW_BITS  8
#define FEW_ORDER (FEW_NEAR ? 1 : 2)
FEW_D float FEW(one)(const unsigned char *w, unsigned short s, pk_i64 k) {
    return (float)(signed char)w[k];
}
#elif FEW_W == FEW_FP8
#define FEW_BITS  8
#define FEW_ORDER 1
FEW_D float FEW(one)(const unsigned char *w, unsigned short s, pk_i64 k) {
    return few_bf16(few_to_bf16(few_e4m3(w[k]) * few_bf16(s)));
}
#elif FEW_W == FEW_INT4
#define FEW_BITS  4
#define FEW_ORDER (FEW_NEAR ? 1 : 4)
FEW_D float FEW(one)(const unsigned char *w, unsigned short s FEW_GROUP_PAR, pk_i64 k) {
    int q = w[k / 2] >> (4 * (k & 1)) & 15;
    return few_bf16(few_to_bf16((float)(q - gz) * few_bf16(gs)));
}
#elif FEW_W == FEW_F8F8
#define FEW_BITS  8
#define FEW_ORDER 1
FEW_D float FEW(one)(const unsigned char *w, unsigned short s, pk_i64 k) {
    return few_e4m3(w[k]);
}
#elif FEW_W == FEW_I8I8
#define FEW_BITS  8
#define FEW_ORDER 1
FEW_D int FEW(one)(const unsigned char *w, unsigned short s, pk_i64 k) {
    return (signed char)w[k];
}
#elif FEW_W == FEW_F32
#define FEW_BITS  32
#define FEW_ORDER 1
FEW_D float FEW(one)(const unsigned char *w, unsigned short s, pk_i64 k) {
    return ((const float *)w)[k];
}
#else
#define FEW_BITS  16
#define FEW_ORDER 1
FEW_D float FEW(one)(const unsigned char *w, unsigned short s, pk_i64 k) {
    return few_bf16(((const unsigned short *)w)[k]);
}
#endif

#if FEW_W == FEW_F32
#define FEW_PACK 8
#elif FEW_W == FEW_F8F8 || FEW_W == FEW_I8I8
#define FEW_PACK 2
#else
#define FEW_PACK 4
#endif

/* 8 elements from their bits, in registers of FEW_ORDER. */
FEW_D void FEW(eight)(const unsigned *raw, unsigned short s FEW_GROUP_PAR, unsigned *v) {
#if FEW_W == FEW_INT8 || FEW_W == FEW_INT8E
    unsigned scale = s * 0x10001u;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        unsigned w = FEW_ORDER == 1 ? __byte_perm(raw[i / 2], 0, i & 1 ? 0x4342 : 0x4140)
                                    : raw[i / 2] >> (8 * (i & 1));
        unsigned low = few_and_or(w, 0x007f007fu, 0x43004300u),
                 sign = few_and_or(w, 0x00800080u, 0x43004300u);
        v[i] = few_sub2(low, sign);
        if (FEW_W == FEW_INT8) v[i] = few_mul2(v[i], scale);
    }
#elif FEW_W == FEW_INT4
    unsigned scale = gs * 0x10001u, zero = gz * 0x10001u | 0x43004300u;
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = few_mul2(few_sub2(few_and_or(FEW_ORDER == 1 ? (raw[0] >> (8 * i) & 0xffu) * 0x1001u
                                                           : raw[0] >> (4 * i),
                                            0x000f000fu, 0x43004300u),
                                 zero),
                        scale);
#elif FEW_W == FEW_FP8
    float scale = few_bf16(s);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        unsigned h = few_e4m3_f16x2((unsigned short)(raw[i / 2] >> (16 * (i & 1))));
        v[i] = few_to_bf16x2(few_f16((unsigned short)h) * scale,
                             few_f16((unsigned short)(h >> 16)) * scale);
    }
#else
#pragma unroll
    for (int i = 0; i < FEW_PACK; i++)
        v[i] = raw[i];
#endif
}

FEW_B(b0, 1, 2, 3)
#if FEW_NB > 1
FEW_B(b1, 7, 8, 9)
#endif

/* One-by-one products take lanes instead of packed registers. */
#if FEW_W == FEW_F32
template <int W>
FEW_D pk_lanes<float, W> FEW(b0_raw)(FEW_G, const FEW(b0_row) < W > *r, pk_i64 z, pk_i64 n,
                                     pk_i64 k, int cnt, const unsigned *raw) {
    pk_lanes<float, W> v;
#pragma unroll
    for (int i = 0; i < W; i++)
        v.x[i] = __uint_as_float(raw[i]);
    return v;
}
template <int W>
FEW_D pk_lanes<float, W> FEW(a_raw)(FEW_G, const FEW(a_row) < W > *r, pk_i64 z, pk_i64 m, pk_i64 k,
                                    int cnt, const unsigned *raw) {
    pk_lanes<float, W> v;
#pragma unroll
    for (int i = 0; i < W; i++)
        v.x[i] = __uint_as_float(i % 2 ? raw[i / 2] & 0xffff0000u : raw[i / 2] << 16);
    return v;
}
#endif

/* ---- results -------------------------------------------------------------------------------- */

template <int W> struct FEW(c_row) { float s; };
template <int W> FEW_D FEW(c_row)<W> FEW(c_row_init)(FEW_G, pk_i64 z, pk_i64 m) {
    return {FEW_W == FEW_F8F8 ? ((const float *)g->buf[5])[m] : 1.0f};
}
template <int W>
FEW_D void FEW(c_store)(FEW_G, const FEW(c_row) < W > *r, pk_i64 z, pk_i64 m, pk_i64 n, int cnt,
                        pk_lanes<FEW_ACC, W> a
#if FEW_NB > 1
                        ,
                        pk_lanes<FEW_ACC, W> b
#endif
) {
    FEW_SHAPE;
    pk_i64 at = (z * s.M + m) * s.N + n;
#if FEW_W == FEW_I8I8
    for (int i = 0; i < cnt; i++)
        ((int *)g->buf[4])[at + i] = a.x[i];
#else
    unsigned short h[W];
#pragma unroll
    for (int i = 0; i < W; i++) {
        float v = a.x[i];
        if (i < cnt) {
            if (FEW_W == FEW_INT8E)
                v *= few_bf16(((const unsigned short *)g->buf[2])[z * s.N + n + i]);
            if (FEW_W == FEW_F8F8) v *= r->s * ((const float *)g->buf[2])[n + i];
        }
#if FEW_NB > 1
        v = v * few_sigmoid(v) * b.x[i];
#endif
        h[i] = few_to_bf16(v);
    }
    unsigned short *p = (unsigned short *)g->buf[4] + at;
    if (W == 4 && cnt == 4 && ((unsigned long long)p & 7) == 0) {
        *(uint2 *)p = make_uint2(h[0] | h[1] << 16, h[2 % W] | h[3 % W] << 16);
    } else {
#pragma unroll
        for (int i = 0; i < W; i++)
            if (i < cnt) p[i] = h[i];
    }
#endif
}

/* ---- the kernel ----------------------------------------------------------------------------- */

#if FEW_W == FEW_F8F8
#define MM_KIND     1
#define MM_A_DTYPE  PK_E4M3
#define MM_B0_DTYPE PK_E4M3
#elif FEW_W == FEW_I8I8
#define MM_KIND     2
#define MM_S8_TYPES "s8.s8"
#define MM_A_DTYPE  PK_I8
#define MM_B0_DTYPE PK_I8
#elif FEW_W == FEW_F32
#define MM_KIND     3
#define MM_A_DTYPE  PK_F32
#define MM_B0_DTYPE PK_F32
#else
#define MM_KIND     0
#define MM_A_DTYPE  PK_BF16
#define MM_B0_DTYPE PK_BF16
#define MM_B1_DTYPE PK_BF16
#endif
#define MM_ACC_S       FEW_ACC
#define MM_A_AXIS      1
#define MM_B0_AXIS     1
#define MM_B1_AXIS     1
#define MM_ACC_BITS    32
#define MM_A_LEAVES    FEW_A_LEAVES
#define MM_A_LEAF0_MAP (FEW_X != FEW_GATHER)
#if FEW_A_LEAVES == 1 && FEW_W != FEW_F8F8 && FEW_W != FEW_F32
#define MM_A_PLAIN 1
#else
#define MM_A_PLAIN 0
#endif
#if FEW_W == FEW_F8F8 || FEW_W == FEW_I8I8
#define MM_A_LEAF0_BITS 8
#else
#define MM_A_LEAF0_BITS 16
#endif
#define MM_A_LEAF1_BITS 16
#if FEW_GROUP
#define MM_B0_GROUP FEW_GROUP
#endif
#define MM_B0_LEAVES     1
#define MM_B0_LEAF0_BITS FEW_BITS
#define MM_B0_LEAF0_MAP  1
#if FEW_NB > 1
#if FEW_GROUP
#define MM_B1_GROUP FEW_GROUP
#endif
#define MM_B1_LEAVES     1
#define MM_B1_LEAF0_BITS FEW_BITS
#define MM_B1_LEAF0_MAP  1
#endif
#define MM_B_ORDER FEW_ORDER
#define MM_RUN     (FEW_BITS == 32 ? 8 : 128 / FEW_BITS)
#ifndef MM_C_W
#define MM_C_W 4
#endif

enum {
#ifdef FEW_RING
    FEW(box_rows) = 16 * MM_TILES,
    FEW(a_tma) = MM_A_TMA,
    FEW(bytes) = 1024 +
                 MM_STAGES * (FEW_NB * MM_KGROUPS * MM_UNITS / 2 * 16 * MM_TILES * 128 +
                              MM_KGROUPS * MM_UNITS * MM_RUN / 8 * MM_COLS8 * 512 +
                              (MM_A_TMA && MM_RUN == 32 ? MM_KGROUPS * MM_UNITS * 1024 : 0)) +
                 (MM_TILES * (MM_KGROUPS - 1) * 512 > 8 * (16 * MM_TILES + 4) * 4
                      ? MM_TILES * (MM_KGROUPS - 1) * 512
                      : 8 * (16 * MM_TILES + 4) * 4) *
                     FEW_NB * MM_COLS8 +
                 16 * MM_STAGES + 16 * MM_A_AHEAD +
                 (MM_A_TMA ? 0 : MM_A_AHEAD) * (8 * MM_COLS8) *
                     (MM_A_STAGE ? MM_KGROUPS * MM_UNITS * MM_RUN * 8 + 16
                                 : MM_KGROUPS * MM_UNITS * MM_RUN / 2 *
                                           (MM_A_LEAF0_BITS + (FEW_A_LEAVES - 1) * 16) +
                                       16 * FEW_A_LEAVES),
    FEW(threads) = 32 * (MM_TILES * MM_KGROUPS + (MM_A_TMA ? 1 : MM_A_WARPS + 2)),
#else
    FEW(box_rows) = 0,
    FEW(a_tma) = 0,
    FEW(threads) = 32 * MM_KGROUPS * MM_RGROUPS,
    FEW(bytes) = MM_X_BUFS * 8 * MM_COLS8 *
                     (MM_KGROUPS * MM_UNITS * MM_RUN / 2 + (MM_RUN == 8 ? 4 : 1)) *
                     (MM_KIND == 3 ? 32
                      : MM_KIND == 2 ? 8
                                     : 16) +
                 MM_TILES * FEW_NB * MM_KGROUPS * MM_COLS8 * 512 +
                 FEW_NB * 8 * MM_COLS8 * (16 * MM_TILES + 4) * 4 + 256,
#endif
    FEW(chunk) = MM_KGROUPS * MM_UNITS * 4 * MM_RUN
};
static struct few_kernel FEW(kernel) = {FEW_STR1(FEW_NAME),
                                        FEW_W,
                                        FEW_X,
                                        FEW_NB,
                                        8 * MM_COLS8,
                                        MM_RUN,
                                        MM_KGROUPS,
                                        MM_RGROUPS,
                                        MM_UNITS,
                                        MM_AHEAD,
                                        MM_TILES,
                                        MM_STEP,
                                        MM_SPLIT,
                                        MM_PER_SM,
                                        MM_A_STAGE,
                                        FEW(bytes),
                                        FEW(chunk),
                                        FEW(box_rows),
                                        FEW(a_tma),
                                        FEW(threads),
#ifdef FEW_N
                                        FEW_N,
                                        FEW_K,
#else
                                        0,
                                        0,
#endif
                                        0,
                                        0,
                                        0};
#if MM_A_STAGE
#define FEW_STAGE_ENTRY (const void *)FEW(stage)
#else
#define FEW_STAGE_ENTRY 0
#endif

#ifdef FEW_PROBES
#define MM_PROBE(i)                                                                                \
    if (g->fault && threadIdx.x == 0) ((long long *)g->fault)[blockIdx.x * 8 + i] = clock64()
#endif
#ifdef FEW_RING
#include "matmul_ring.cu"
#undef MM_RGROUPS
#undef MM_AHEAD
#undef MM_STEP
#undef MM_SPLIT
#undef MM_X_BUFS
#undef MM_PER_SM
#undef FEW_RING
#else
#include "matmul_few.cu"
#endif
#undef pk_args

static struct few_register FEW(registered)(&FEW(kernel), (const void *)FEW(main), FEW_STAGE_ENTRY);

#undef FEW_NAME
#undef FEW_W
#undef FEW_X
#undef FEW_NB
#undef FEW_N
#undef FEW_K
#undef FEW_CAT2
#undef FEW_CAT1
#undef FEW
#undef FEW_STR1
#undef FEW_STR2
#undef FEW_G
#undef FEW_SHAPE
#undef FEW_B
#undef FEW_BITS
#undef FEW_ORDER
#undef FEW_NEAR
#undef FEW_GROUP
#undef FEW_GROUP_ARG
#undef FEW_GROUP_USE
#undef FEW_GROUP_PAR
#undef FEW_PACK
#undef FEW_A_LEAVES
#undef FEW_ACC
#undef FEW_STAGE_ENTRY
