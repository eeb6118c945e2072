/* SPDX-License-Identifier: MIT
 * Hooks by hand for matmul_wgmma.cu: operands and epilogues that the generator would write, chosen by
 * macros (HOOK_A, HOOK_B, HOOK_C), so that the template is tested and measured alone. Compiled to a
 * cubin by wgmma.py, which says what each buffer holds.
 */
#include "../../src/gen/cuda/prelude/lanes.h"
template <int N> struct pk_bits { unsigned x[N]; };
#define PK_BF16       1
#define PK_F16        2
#define PK_E4M3       3
#define PK_E5M2       4
#define PK_F32        5
#define PK_I8         6
#define PK_U8         7
#define PK_FEED_TMA   1
#define PK_FEED_COPY  2
#define PK_FEED_VALUE 3

#define PK_KERNEL k0
#define pk_args   k0_args
#ifndef ALIGNED
#define ALIGNED 0
#endif

/* HOOK_A */
#define PLAIN  0
#define RELU   1
#define AFFINE 2
#define GATHER 3
#define CONCAT 4
#define ACROSS 5  /* stored with k outside */
#define SILU   10 /* silu(buf[0]) * buf[6] */
/* HOOK_B */
#define SCALED_I8  6
#define SCALED_I4  7
#define SCALED_FP8 8
/* HOOK_C */
#define GELU 9

struct k0_args {
    void *buf[8];
    pk_i64 sym[8];
    void *scratch;
    void *fault;
};
struct k0_shape {
    pk_i64 Z, M, N, K;
};
PK_D k0_shape k0_get_shape(const k0_args *g) {
    k0_shape s = {g->sym[0], g->sym[1], g->sym[2], g->sym[3]};
    return s;
}

typedef unsigned short u16;
#if MM_OB_ == 2
typedef u16 elem;
#elif MM_OB_ == 1
typedef unsigned char elem;
#else
typedef float elem;
#endif
PK_D float from_bf16(unsigned x) {
    return __uint_as_float(x << 16);
}
PK_D u16 to_bf16(float x) {
    u16 r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
}
PK_D float number(u16 x) {
#if MM_A_DTYPE == PK_F16
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x));
    return f;
#else
    return from_bf16(x);
#endif
}
PK_D float number(float x) {
    return x;
}
PK_D float number(unsigned char x) {
#if MM_A_DTYPE == PK_I8
    return (float)(signed char)x;
#else
    unsigned r;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((u16)x));
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((u16)r));
    return f;
#endif
}
template <int W> PK_D void load_numbers(float *x, const elem *p, int cnt) {
    if (cnt == W && W * sizeof(elem) == 16 && (ALIGNED || ((pk_u64)p & 15) == 0)) {
        union {
            uint4 v;
            elem e[16 / sizeof(elem)];
        } u;
        u.v = *(const uint4 *)p;
        _Pragma("unroll") for (int l = 0; l < W; l++) x[l] = number(u.e[l]);
    } else {
        _Pragma("unroll") for (int l = 0; l < W; l++) x[l] = l < cnt ? number(p[l]) : 0;
    }
}
PK_D unsigned bf16x2(float a, float b) {
    unsigned r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
    return r;
}

/* ---- A: buf[0], rows of sym[4] elements, sym[5] rows a batch; CONCAT: k >= sym[7] in buf[6] */

template <int W> struct k0_a_row { const elem *p, *p2; };
template <int W> PK_D k0_a_row<W> k0_a_row_init(const k0_args *g, pk_i64 z, pk_i64 m, int) {
    k0_a_row<W> r;
#if HOOK_A == GATHER
    m = ((const int *)g->buf[5])[m];
#endif
#if HOOK_A == ACROSS
    r.p = (const elem *)g->buf[0] + z * g->sym[5] * g->sym[4] + m;
#else
    r.p = (const elem *)g->buf[0] + (z * g->sym[5] + m) * g->sym[4];
#endif
    r.p2 = (const elem *)g->buf[6] + (z * g->sym[1] + m) * (g->sym[3] - g->sym[7]) - g->sym[7];
    return r;
}
PK_D float a_fn(float x) {
#if HOOK_A == RELU
    return x > 0 ? x : 0;
#elif HOOK_A == AFFINE
    return __fadd_rn(__fmul_rn(x, 1.5f), 0.25f);
#else
    return x;
#endif
}
template <int W>
PK_D pk_lanes<MM_ACC_S, W> k0_a_value(const k0_args *g, const k0_a_row<W> *r, pk_i64 z, pk_i64 m,
                                      pk_i64 k, int cnt) {
    float x[W];
#if HOOK_A == ACROSS
    load_numbers<W>(x, r->p + k * g->sym[4], cnt);
#elif HOOK_A == CONCAT
    load_numbers<W>(x, (k < g->sym[7] ? r->p : r->p2) + k, cnt);
#else
    load_numbers<W>(x, r->p + k, cnt);
#endif
    pk_lanes<MM_ACC_S, W> v;
    PK_EACH(W)
    v.x[l] = (MM_ACC_S)number(
#if MM_OB_ == 2 && MM_A_DTYPE == PK_BF16
        to_bf16(a_fn(x[l]))
#else
        a_fn(x[l])
#endif
    );
    return v;
}
#if MM_A_LEAVES
PK_D const void *k0_a_leaf0(const k0_args *g, const k0_a_row<1> *r, pk_i64 z, pk_i64 m, pk_i64 k) {
#if HOOK_A == CONCAT
    return (k < g->sym[7] ? r->p : r->p2) + k;
#else
    return r->p + k;
#endif
}
#endif
#if MM_A_LEAVES > 1
PK_D const void *k0_a_leaf1(const k0_args *g, const k0_a_row<1> *r, pk_i64 z, pk_i64 m, pk_i64 k) {
    return 0;
}
PK_D float silu(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(0.5f * x));
    y = __fmaf_rn(0.5f, y, 0.5f);
    return x * y;
}
template <int W>
PK_D pk_bits<1> k0_a_pack(const k0_args *g, const k0_a_row<W> *r, pk_i64 z, pk_i64 m, pk_i64 k,
                          int cnt, const unsigned *raw, const unsigned *u) {
    pk_bits<1> v;
    v.x[0] =
        bf16x2(silu(from_bf16(raw[0] & 0xffff)) * from_bf16(u[0] & 0xffff),
               silu(__uint_as_float(raw[0] & 0xffff0000)) * __uint_as_float(u[0] & 0xffff0000));
    return v;
}
#elif MM_A_LEAVES
template <int W>
PK_D pk_bits<1> k0_a_pack(const k0_args *g, const k0_a_row<W> *r, pk_i64 z, pk_i64 m, pk_i64 k,
                          int cnt, const unsigned *raw) {
    pk_bits<1> v;
#if HOOK_A == RELU
    asm("max.bf16x2 %0, %1, %2;" : "=r"(v.x[0]) : "r"(raw[0]), "r"(0));
#else
    v.x[0] = bf16x2(a_fn(from_bf16(raw[0] & 0xffff)), a_fn(__uint_as_float(raw[0] & 0xffff0000)));
#endif
    return v;
}
#endif

/* ---- B0: buf[1], rows of sym[6] elements, N rows a batch; scales in buf[3], zeros in buf[4] ---- */

template <int W> struct k0_b0_row {
    const unsigned char *p;
    unsigned s, magic;
    const u16 *scale;
    const unsigned char *zero;
};
PK_D unsigned pinned(unsigned x) {
    unsigned below; /* of the lanes below: the highest bit is never set, but nobody knows */
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    return x + (below >> 31);
}
template <int W> PK_D k0_b0_row<W> k0_b0_row_init(const k0_args *g, pk_i64 z, pk_i64 n, int) {
    k0_b0_row<W> r;
    r.magic = pinned(HOOK_B == SCALED_FP8 ? 0x07f007f0 : 0x43004300);
    pk_i64 at = z * g->sym[2] + n;
#if HOOK_B == SCALED_I4
    r.p = (const unsigned char *)g->buf[1] + at * (g->sym[6] / 2);
    r.scale = (const u16 *)g->buf[3] + at * (g->sym[3] / 128);
    r.zero = (const unsigned char *)g->buf[4] + at * (g->sym[3] / 128);
#elif HOOK_B == SCALED_I8 || HOOK_B == SCALED_FP8
    r.p = (const unsigned char *)g->buf[1] + at * g->sym[6];
    r.s = ((const u16 *)g->buf[3])[n] * 0x10001u;
#elif HOOK_B == ACROSS
    r.p = (const unsigned char *)((const elem *)g->buf[1] + z * g->sym[3] * g->sym[6] + n);
#else
    r.p = (const unsigned char *)((const elem *)g->buf[1] + at * g->sym[6]);
#endif
    return r;
}
#if HOOK_B == SCALED_I4
template <int W> struct k0_b0_group { unsigned s, z; };
template <int W>
PK_D k0_b0_group<W> k0_b0_group_init(const k0_args *g, const k0_b0_row<W> *r, pk_i64 z, pk_i64 n,
                                     pk_i64 k, int cnt) {
    k0_b0_group<W> q;
    q.s = r->scale[k / 128] * 0x10001u;
    q.z = (r->zero[k / 128] | 0x4300) * 0x10001u;
    return q;
}
#define GROUP_ARG const k0_b0_group<W> *q,
#else
#define GROUP_ARG
#endif
template <int W>
PK_D pk_lanes<MM_ACC_S, W> k0_b0_value(const k0_args *g, const k0_b0_row<W> *r, GROUP_ARG pk_i64 z,
                                       pk_i64 n, pk_i64 k, int cnt) {
    pk_lanes<MM_ACC_S, W> v;
#if HOOK_B == SCALED_I8
    PK_EACH(W)
    v.x[l] = l < cnt
                 ? from_bf16(to_bf16((float)(signed char)r->p[k + l] * from_bf16(r->s & 0xffff)))
                 : 0;
#elif HOOK_B == SCALED_I4
    PK_EACH(W) {
        int u = l < cnt ? r->p[(k + l) / 2] >> 4 * ((k + l) & 1) & 15 : 0;
        v.x[l] = from_bf16(to_bf16((float)(u - (int)(q->z & 0xff)) * from_bf16(q->s & 0xffff)));
    }
#elif HOOK_B == SCALED_FP8
    PK_EACH(W) v.x[l] = 0; /* not used */
#elif HOOK_B == ACROSS
    load_numbers<W>((float *)v.x, (const elem *)r->p + k * g->sym[6], cnt);
#else
    float x[W];
    load_numbers<W>(x, (const elem *)r->p + k, cnt);
    PK_EACH(W) v.x[l] = (MM_ACC_S)x[l];
#endif
    return v;
}
#if MM_B0_LEAVES
PK_D const void *k0_b0_leaf0(const k0_args *g, const k0_b0_row<1> *r, pk_i64 z, pk_i64 n,
                             pk_i64 k) {
    return r->p + k * MM_B0_LEAF0_BITS / 8;
}
#endif
#if MM_B0_LEAVES
PK_D unsigned mul2(unsigned a, unsigned b) {
    unsigned r;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
PK_D unsigned sub2(unsigned a, unsigned b) {
    unsigned r;
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
template <int W>
PK_D pk_bits<1> k0_b0_pack(const k0_args *g, const k0_b0_row<W> *r, GROUP_ARG pk_i64 z, pk_i64 n,
                           pk_i64 k, int cnt, const unsigned *raw) {
    pk_bits<1> v;
#if HOOK_B == SCALED_I8
    unsigned x = __byte_perm(raw[0], 0, 0x4140);
    v.x[0] = mul2(sub2((x & 0x7f007f) | r->magic, (x & 0x800080) | r->magic), r->s);
#elif HOOK_B == SCALED_I4
    unsigned x = raw[0] * 0x1001;
    v.x[0] = mul2(sub2((x & 0xf000f) | r->magic, q->z), q->s);
#else
    unsigned x = __byte_perm(raw[0], 0, 0x1404);
    x = (x & 0x80008000) | (x >> 4 & r->magic);
    v.x[0] = mul2(mul2(x, 0x7b807b80), r->s);
#endif
    return v;
}
#endif

#if MM_NB > 1
/* B1: buf[7], as B0 when that is plain. */
template <int W> struct k0_b1_row { const elem *p; };
template <int W> PK_D k0_b1_row<W> k0_b1_row_init(const k0_args *g, pk_i64 z, pk_i64 n, int) {
    k0_b1_row<W> r = {(const elem *)g->buf[7] + (z * g->sym[2] + n) * g->sym[6]};
    return r;
}
template <int W>
PK_D pk_lanes<MM_ACC_S, W> k0_b1_value(const k0_args *g, const k0_b1_row<W> *r, pk_i64 z, pk_i64 n,
                                       pk_i64 k, int cnt) {
    pk_lanes<MM_ACC_S, W> v;
    load_numbers<W>((float *)v.x, r->p + k, cnt);
    return v;
}
PK_D const void *k0_b1_leaf0(const k0_args *g, const k0_b1_row<1> *r, pk_i64 z, pk_i64 n,
                             pk_i64 k) {
    return r->p + k;
}
template <int W>
PK_D pk_bits<1> k0_b1_pack(const k0_args *g, const k0_b1_row<W> *r, pk_i64 z, pk_i64 n, pk_i64 k,
                           int cnt, const unsigned *raw) {
    pk_bits<1> v = {{raw[0]}};
    return v;
}
#endif

/* ---- C: buf[2], Z x M x N: bf16, or accumulators with HOOK_C == PLAIN32; bias buf[3], residual
 * buf[4] */

template <int W> struct k0_c_row { pk_i64 at; };
template <int W> PK_D k0_c_row<W> k0_c_row_init(const k0_args *g, pk_i64 z, pk_i64 m) {
    k0_c_row<W> r = {(z * g->sym[1] + m) * g->sym[2]};
    return r;
}
PK_D float gelu(float x) {
    float y, h = 0.5f * x;
    asm("tanh.approx.f32 %0, %1;"
        : "=f"(y)
        : "f"(x * __fmaf_rn(0.035677408f, x * x, 0.7978845608f)));
    return __fmaf_rn(h, y, h);
}
template <int W> PK_D void load_bf16(float *x, const u16 *p, int cnt) {
    if (cnt == W && W == 8 && (ALIGNED || ((pk_u64)p & 15) == 0)) {
        uint4 v = __ldg((const uint4 *)p);
        unsigned w[4] = {v.x, v.y, v.z, v.w};
        _Pragma("unroll") for (int l = 0; l < 4; l++) x[2 * l] = from_bf16(w[l] & 0xffff),
                                                            x[2 * l + 1] = from_bf16(w[l] >> 16);
    } else {
        _Pragma("unroll") for (int l = 0; l < W; l++) x[l] = l < cnt ? from_bf16(p[l]) : 0;
    }
}
template <int W>
PK_D void k0_c_store(const k0_args *g, const k0_c_row<W> *r, pk_i64 z, pk_i64 m, pk_i64 n, int cnt,
                     pk_lanes<MM_ACC_S, W> acc
#if MM_NB > 1
                     ,
                     pk_lanes<MM_ACC_S, W> acc1
#endif
) {
#if MM_NB > 1
    PK_EACH(W) acc.x[l] *= acc1.x[l];
#endif
#if HOOK_C == GELU
    float b[W], e[W];
    load_bf16<W>(b, (const u16 *)g->buf[3] + n, cnt);
    load_bf16<W>(e, (const u16 *)g->buf[4] + r->at + n, cnt);
    PK_EACH(W) acc.x[l] = gelu(acc.x[l] + b[l]) + e[l];
#endif
#if HOOK_C == 32
    MM_ACC_S *p = (MM_ACC_S *)g->buf[2] + r->at + n;
    PK_EACH(W) if (l < cnt) p[l] = acc.x[l];
#else
    u16 *p = (u16 *)g->buf[2] + r->at + n;
    if (cnt == W && W == 8 && (ALIGNED || ((pk_u64)p & 15) == 0)) {
        uint4 v;
        v.x = bf16x2(acc.x[0], acc.x[1]), v.y = bf16x2(acc.x[2], acc.x[3]);
        v.z = bf16x2(acc.x[4], acc.x[5]), v.w = bf16x2(acc.x[6], acc.x[7]);
        /* as one instruction: the compiler takes a structure apart and does not always join it */
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y),
                     "r"(v.z), "r"(v.w));
    } else {
        PK_EACH(W) if (l < cnt) p[l] = to_bf16(acc.x[l]);
    }
#endif
}

enum { threads = 128 * (1 + MM_CONSUMERS) };
#include "../../src/gen/cuda/templates/matmul_wgmma.cu"

/* What the host has to know. */
extern "C" __constant__ const int k0_shared = k0_shared_bytes;
extern "C" __constant__ const int k0_threads = threads;
