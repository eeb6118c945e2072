/* SPDX-License-Identifier: MIT
 * What the few-rows template multiplies with: reads of 16 bytes, registers of 8 elements as the
 * tensor cores take them (or one-by-one products take them), products of 16 rows of B by 8 of A.
 */

#define MM_PASTE2(a, b) a##b
#define MM_PASTE(a, b)  MM_PASTE2(a, b)

/* What the tensor cores are fed with: 16-bit floats, four registers of 8 elements, or 8-bit
 * integers, two registers. Other types are multiplied one by one, in the accumulator's type. */
#define MM_KIND_BF16 0
#define MM_KIND_F16  1
#define MM_KIND_S8   2
#define MM_KIND_FMA  3
#if MM_KIND > MM_KIND_FMA
#error "MM_KIND is one of these"
#endif
#if MM_KIND == MM_KIND_S8
#define MM_REGS 2
#elif MM_KIND != MM_KIND_FMA
#define MM_REGS 4
#elif MM_ACC_BITS == 64
#define MM_REGS 16
#else
#define MM_REGS 8
#endif
#if MM_KIND == MM_KIND_FMA
#define MM_FORM raw /* the hook that makes 8 elements of what was read */
#else
#define MM_FORM pack
#endif

struct alignas(16) MM(acc) {
    MM_ACC_S x[4];
};

/* Weights are read once, past the L1; a line of the L2 at a time, as a neighbour follows. */
#ifndef MM_READ
#define MM_READ "ld.global.nc.L1::no_allocate.L2::128B.v4.u32"
#endif

/* N words, ASKEW + 1 bytes at a time. */
template <int N, unsigned ASKEW, bool STREAM> PK_D void MM(read)(const char *p, unsigned *w) {
    if constexpr (ASKEW == 15) {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            if constexpr (STREAM) {
                asm volatile(MM_READ " {%0, %1, %2, %3}, [%4];"
                             : "=r"(w[i]), "=r"(w[i + 1]), "=r"(w[i + 2]), "=r"(w[i + 3])
                             : "l"(p + 4 * i));
            } else {
                uint4 v = *(const uint4 *)(p + 4 * i);
                w[i] = v.x, w[i + 1] = v.y, w[i + 2] = v.z, w[i + 3] = v.w;
            }
        }
    } else if constexpr (ASKEW == 7) {
#pragma unroll
        for (int i = 0; i < N; i += 2) {
            uint2 v = *(const uint2 *)(p + 4 * i);
            w[i] = v.x, w[i + 1] = v.y;
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            w[i] = *(const unsigned *)(p + 4 * i);
    }
}

PK_D unsigned MM(bf16_pair)(float lo, float hi) {
    unsigned r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}

PK_D unsigned MM(f16_pair)(float lo, float hi) {
    unsigned r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}

/* Two fp8 in the low half of w as f16: exact. */
template <int E5> PK_D unsigned MM(fp8_pair)(unsigned w) {
    unsigned r;
#if __CUDA_ARCH__ >= 890
    unsigned short h = (unsigned short)w;
    if (E5)
        asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(r) : "h"(h));
    else
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(h));
#else
    /* The bits of both bytes, as high bytes of halves. */
    unsigned b = (w & 0xffu) << 8 | (w & 0xff00u) << 16;
    if (E5) {
        r = b;
    } else {
        /* e4m3 is f16 with a smaller bias: times 2^8, subnormals too; all ones is NaN. */
        unsigned t = (b & 0x80008000u) | ((b & 0x7f007f00u) >> 1);
        asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(t), "r"(0x5c005c00u));
        if ((b & 0x7f00u) == 0x7f00u) r |= 0x7fffu;
        if ((b & 0x7f000000u) == 0x7f000000u) r |= 0x7fff0000u;
    }
#endif
    return r;
}

/* 8 elements of an operand's dtype as the tensor cores take them. */
template <int DTYPE> PK_D void MM(feed)(const unsigned *bits, unsigned out[MM_REGS]) {
    if constexpr (DTYPE == PK_E4M3 || DTYPE == PK_E5M2) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            out[i] = MM(fp8_pair)<DTYPE == PK_E5M2>(bits[i / 2] >> (16 * (i % 2)));
    } else {
#pragma unroll
        for (int i = 0; i < MM_REGS; i++)
            out[i] = bits[i];
    }
}

PK_D void MM(feed_lanes)(const pk_lanes<MM_ACC_S, 8> &v, unsigned out[MM_REGS]) {
#pragma unroll
    for (int i = 0; i < MM_REGS; i++) {
        if constexpr (MM_KIND == MM_KIND_BF16) {
            out[i] = MM(bf16_pair)(v.x[2 * i], v.x[2 * i + 1]);
        } else if constexpr (MM_KIND == MM_KIND_F16) {
            out[i] = MM(f16_pair)(v.x[2 * i], v.x[2 * i + 1]);
        } else if constexpr (MM_KIND == MM_KIND_FMA) {
            union {
                MM_ACC_S e[8];
                unsigned u[MM_REGS];
            } c;
#pragma unroll
            for (int j = 0; j < 8; j++)
                c.e[j] = v.x[j];
            out[i] = c.u[i];
        } else {
            out[i] = 0;
#pragma unroll
            for (int j = 0; j < 4; j++)
                out[i] |= ((unsigned)v.x[4 * i + j] & 0xffu) << (8 * j);
        }
    }
}

/* From k order to the order of B's pack(): register i of 2 * MM_B_ORDER elements holds elements i
 * and i + MM_B_ORDER. */
PK_D void MM(reorder)(unsigned v[MM_REGS]) {
#if MM_KIND == MM_KIND_FMA
    (void)v;
#elif MM_B_ORDER == 2
    unsigned a = v[0], b = v[1], c = v[2], d = v[3];
    v[0] = __byte_perm(a, b, 0x5410), v[1] = __byte_perm(a, b, 0x7632);
    v[2] = __byte_perm(c, d, 0x5410), v[3] = __byte_perm(c, d, 0x7632);
#elif MM_B_ORDER == 4
    unsigned a = v[0], b = v[1], c = v[2], d = v[3];
    v[0] = __byte_perm(a, c, 0x5410), v[1] = __byte_perm(a, c, 0x7632);
    v[2] = __byte_perm(b, d, 0x5410), v[3] = __byte_perm(b, d, 0x7632);
#endif
}

/* Sums of 16 rows of B by 8 rows of A in registers. Finished ones are spread over the lanes as the
 * tensor cores have them: rows lane / 4 and 8 below, columns lane % 4 * 2 and the next. */
#if MM_KIND == MM_KIND_FMA
struct MM(partial) {
    MM_ACC_S x[2][8];
};

PK_D float MM(fma)(float a, float b, float c) {
    return __fmaf_rn(a, b, c);
}
PK_D double MM(fma)(double a, double b, double c) {
    return __fma_rn(a, b, c);
}
PK_D int MM(fma)(int a, int b, int c) {
    return (int)((unsigned)a * (unsigned)b + (unsigned)c);
}
PK_D long long MM(fma)(long long a, long long b, long long c) {
    return (long long)((unsigned long long)a * (unsigned long long)b + (unsigned long long)c);
}

/* Elements of a fragment, from its registers. */
union MM(elements) {
    unsigned u[MM_REGS];
    MM_ACC_S e[8];
};

PK_D union MM(elements) MM(elements_of)(const unsigned *v) {
    union MM(elements) r;
#pragma unroll
    for (int i = 0; i < MM_REGS; i++)
        r.u[i] = v[i];
    return r;
}

/* The four lanes of a row have different elements along k. */
PK_D struct MM(acc) MM(total)(const struct MM(partial) & p) {
    int lane = (int)threadIdx.x & 3;
    struct MM(acc) r;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int m = 0; m < 8; m++) {
            MM_ACC_S v = p.x[h][m];
            v += __shfl_xor_sync(~0u, v, 1);
            v += __shfl_xor_sync(~0u, v, 2);
            if (m / 2 == lane) r.x[2 * h + m % 2] = v;
        }
    return r;
}

PK_D void MM(macs)(struct MM(partial) & p, int m, const unsigned *w0, const unsigned *w1,
                   const unsigned *x) {
    const union MM(elements) a = MM(elements_of)(x), b = MM(elements_of)(w0),
                             c = MM(elements_of)(w1);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        p.x[0][m] = MM(fma)(b.e[i], a.e[i], p.x[0][m]);
        p.x[1][m] = MM(fma)(c.e[i], a.e[i], p.x[1][m]);
    }
}
#else
typedef struct MM(acc) MM(partial);

PK_D struct MM(acc) MM(total)(const struct MM(acc) & p) {
    return p;
}

/* c += w x, all elements of a fragment. w0: row lane / 4, w1: 8 rows below, elements of this lane's
 * run; x: row lane / 4 of A, the same elements. */
PK_D void MM(mma)(struct MM(acc) & c, const unsigned *w0, const unsigned *w1, const unsigned *x) {
#define MM_MMA(type, con)                                                                          \
    asm("mma.sync.aligned." type " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "                 \
        "{%0, %1, %2, %3};"                                                                        \
        : "+" con(c.x[0]), "+" con(c.x[1]), "+" con(c.x[2]), "+" con(c.x[3])                       \
        : "r"(w0[i]), "r"(w1[i]), "r"(w0[i + 1]), "r"(w1[i + 1]), "r"(x[i]), "r"(x[i + 1]))
#pragma unroll
    for (int i = 0; i < MM_REGS; i += 2) {
#if MM_KIND == MM_KIND_BF16
        MM_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "f");
#elif MM_KIND == MM_KIND_F16
        MM_MMA("m16n8k16.row.col.f32.f16.f16.f32", "f");
#else
        MM_MMA("m16n8k32.row.col.s32." MM_S8_TYPES ".s32", "r");
#endif
    }
#undef MM_MMA
}
#endif
