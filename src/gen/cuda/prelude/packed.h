/* SPDX-License-Identifier: MIT
 * CUDA C: two values of bf16 or f16 in a register, and how narrower elements become that exactly.
 *
 * pk_half<P>::mul, add, sub     P is pk_dt_bf16 or pk_dt_f16; each rounds once
 * pk_both<P>(x)                 x twice
 * pk_widen<P, D, W, O>(raw, out)  W elements of dtype D, from bit 0 of raw on, as W / 2 pairs
 * pk_widen_over<P, D, W, O>       the same, of integers of 4 bits, each greater by pk_over<P, D>
 *
 * O is how pairs are made: in each 2 * O elements pair i has elements i (low half) and i + O. 1:
 * neighbours. 2 for integers of 8 bits, 4 for those of 4: pairs that a shift and a mask make.
 *
 * Integers become floats by bit patterns: with a mantissa whose last bit is worth 1, 0x4300 + i is
 * 128 + i in bf16 (i < 128) and 0x6400 + i is 1024 + i in f16 (i < 1024); a subtraction leaves i.
 */
template <class P> struct pk_half;
#define PK_HALF2(op, a, b)                                                                         \
    unsigned r;                                                                                    \
    asm(op " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));                                             \
    return r
template <> struct pk_half<pk_dt_f16> {
    static __device__ __forceinline__ unsigned mul(unsigned a, unsigned b) {
        PK_HALF2("mul.rn.f16x2", a, b);
    }
    static __device__ __forceinline__ unsigned add(unsigned a, unsigned b) {
        PK_HALF2("add.rn.f16x2", a, b);
    }
    static __device__ __forceinline__ unsigned sub(unsigned a, unsigned b) {
        PK_HALF2("sub.rn.f16x2", a, b);
    }
};
template <> struct pk_half<pk_dt_bf16> {
#if __CUDA_ARCH__ >= 900
    static __device__ __forceinline__ unsigned mul(unsigned a, unsigned b) {
        PK_HALF2("mul.rn.bf16x2", a, b);
    }
    static __device__ __forceinline__ unsigned add(unsigned a, unsigned b) {
        PK_HALF2("add.rn.bf16x2", a, b);
    }
    static __device__ __forceinline__ unsigned sub(unsigned a, unsigned b) {
        PK_HALF2("sub.rn.bf16x2", a, b);
    }
#else
    static __device__ __forceinline__ unsigned fma(unsigned a, unsigned b, unsigned c) {
        unsigned r;
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
        return r;
    }
    static __device__ __forceinline__ unsigned mul(unsigned a, unsigned b) {
        return fma(a, b, 0x80008000u);
    }
    static __device__ __forceinline__ unsigned add(unsigned a, unsigned b) {
        return fma(a, 0x3f803f80u, b);
    }
    static __device__ __forceinline__ unsigned sub(unsigned a, unsigned b) {
        return fma(b, 0xbf80bf80u, a);
    }
#endif
};
template <class P, class T> PK_D unsigned pk_both(T x) {
    return pk_pairs<P>::of((float)x, (float)x);
}

/* a & mask | bits, one instruction: of two constants in one expression the compiler makes two. */
PK_D unsigned pk_and_or(unsigned a, unsigned mask, unsigned bits) {
    unsigned r;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(a), "r"(mask), "r"(bits));
    return r;
}
/* a & mask ^ bits */
PK_D unsigned pk_and_xor(unsigned a, unsigned mask, unsigned bits) {
    unsigned r;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(r) : "r"(a), "r"(mask), "r"(bits));
    return r;
}

/* Any dtype: by way of f32. */
template <class P, class D, int W, int O> struct pk_widens {
    static_assert(O == 1, "neighbours");
    static __device__ __forceinline__ void to(const unsigned *raw, unsigned *out) {
        const pk_lanes<typename D::scalar, W> v = pk_unpack<D, W>(raw);
        PK_EACH(W / 2) out[l] = pk_pairs<P>::of((float)v.x[2 * l], (float)v.x[2 * l + 1]);
    }
};
template <class P, int W> struct pk_widens<P, P, W, 1> {
    static __device__ __forceinline__ void to(const unsigned *raw, unsigned *out) {
        PK_EACH(W / 2) out[l] = raw[l];
    }
};
/* Bytes i and i + 1 of w as low bytes of halves, `high` above them. */
PK_D unsigned pk_spread8(unsigned w, int i, unsigned high) {
    return __byte_perm(w, high, (unsigned)(i | 4 << 4 | (i + 1) << 8 | 4 << 12));
}
/* Nibbles i and i + 1 of w (i even) as the lowest bits of halves; other bits are anything. */
PK_D unsigned pk_spread4(unsigned w, int i) {
    return (w >> (4 * i) & 0xffu) * 0x1001u;
}
/* The bytes of pair l as low bytes of halves; high bytes are anything that a mask removes. */
template <int O> PK_D unsigned pk_bytes(const unsigned *raw, int l, unsigned flip) {
    static_assert(O == 1 || O == 2, "bytes of a word");
    const unsigned w = raw[l / 2] ^ flip;
    return O == 1 ? pk_spread8(w, l % 2 * 2, 0) : w >> l % 2 * 8;
}
template <int W, int O> struct pk_widens<pk_dt_bf16, pk_dt_i8, W, O> {
    static __device__ __forceinline__ void to(const unsigned *raw, unsigned *out) {
        PK_EACH(W / 2) {
            /* 128 + the low 7 bits, less 128 or, below 0, 256 */
            const unsigned t = pk_bytes<O>(raw, l, 0);
            out[l] = pk_half<pk_dt_bf16>::sub(pk_and_or(t, 0x007f007fu, 0x43004300u),
                                              pk_and_or(t, 0x00800080u, 0x43004300u));
        }
    }
};
template <int W, int O> struct pk_widens<pk_dt_bf16, pk_dt_u8, W, O> {
    static __device__ __forceinline__ void to(const unsigned *raw, unsigned *out) {
        PK_EACH(W / 2) {
            const unsigned t = pk_bytes<O>(raw, l, 0);
            const unsigned low = pk_half<pk_dt_bf16>::sub(pk_and_or(t, 0x007f007fu, 0x43004300u),
                                                          pk_and_or(~t, 0x00800080u, 0x43004300u));
            out[l] = pk_half<pk_dt_bf16>::add(low, 0x43004300u);
        }
    }
};
template <int W, int O> struct pk_widens<pk_dt_f16, pk_dt_i8, W, O> {
    static __device__ __forceinline__ void to(const unsigned *raw, unsigned *out) {
        PK_EACH(W / 2)
        out[l] = pk_half<pk_dt_f16>::sub(
            O == 1 ? pk_spread8(raw[l / 2] ^ 0x80808080u, l % 2 * 2, 0x64646464u)
                   : pk_and_or(pk_bytes<O>(raw, l, 0x80808080u), 0x00ff00ffu, 0x64006400u),
            0x64806480u);
    }
};
template <int W, int O> struct pk_widens<pk_dt_f16, pk_dt_u8, W, O> {
    static __device__ __forceinline__ void to(const unsigned *raw, unsigned *out) {
        PK_EACH(W / 2)
        out[l] = pk_half<pk_dt_f16>::sub(
            O == 1 ? pk_spread8(raw[l / 2], l % 2 * 2, 0x64646464u)
                   : pk_and_or(pk_bytes<O>(raw, l, 0), 0x00ff00ffu, 0x64006400u),
            0x64006400u);
    }
};
/* Bits of 4 under a mantissa whose last bit is worth 1; a sign is turned over, which adds 8. */
template <class P, class D> struct pk_over;
#define PK_OVER4(P, D, magic, flip, over, less)                                                    \
    template <> struct pk_over<P, D> {                                                             \
        static constexpr unsigned bits = magic | flip;                                             \
        static constexpr float value = over;                                                       \
    };                                                                                             \
    template <int W, int O> struct pk_widens<P, D, W, O> {                                         \
        static __device__ __forceinline__ void to(const unsigned *raw, unsigned *out) {            \
            pk_widen_over<P, D, W, O>(raw, out);                                                   \
            PK_EACH(W / 2) out[l] = pk_half<P>::sub(out[l], less);                                 \
        }                                                                                          \
    };
template <class P, class D, int W, int O = 1>
PK_D void pk_widen_over(const unsigned *raw, unsigned *out) {
    static_assert(O == 1 || O == 4, "nibbles of a word");
    PK_EACH(W / 2) {
        const unsigned t = O == 1 ? pk_spread4(raw[l / 4], l % 4 * 2) : raw[l / 4] >> l % 4 * 4;
        out[l] = pk_and_xor(t, 0x000f000fu, pk_over<P, D>::bits);
    }
}
PK_OVER4(pk_dt_bf16, pk_dt_u4, 0x43004300u, 0u, 128.0f, 0x43004300u)
PK_OVER4(pk_dt_bf16, pk_dt_i4, 0x43004300u, 0x00080008u, 136.0f, 0x43084308u)
PK_OVER4(pk_dt_f16, pk_dt_u4, 0x64006400u, 0u, 1024.0f, 0x64006400u)
PK_OVER4(pk_dt_f16, pk_dt_i4, 0x64006400u, 0x00080008u, 1032.0f, 0x64086408u)
template <int W> struct pk_widens<pk_dt_f16, pk_dt_f8e5m2, W, 1> {
    static __device__ __forceinline__ void to(const unsigned *raw, unsigned *out) {
        PK_EACH(W / 2) out[l] = __byte_perm(raw[l / 2], 0, l % 2 ? 0x3424 : 0x1404);
    }
};
#if __CUDA_ARCH__ >= 890
/* Both formats of 8 bits to f16 have an instruction; f16 to bf16 goes by way of f32. */
#define PK_WIDEN8(D, name)                                                                         \
    PK_D unsigned pk_pair_##name(unsigned w) {                                                     \
        unsigned r;                                                                                \
        asm("cvt.rn.f16x2." #name " %0, %1;" : "=r"(r) : "h"((unsigned short)w));                  \
        return r;                                                                                  \
    }                                                                                              \
    template <int W> struct pk_widens<pk_dt_bf16, D, W, 1> {                                       \
        static __device__ __forceinline__ void to(const unsigned *raw, unsigned *out) {            \
            PK_EACH(W / 2) {                                                                       \
                const unsigned h = pk_pair_##name(raw[l / 2] >> (l % 2 * 16));                     \
                out[l] =                                                                           \
                    pk_pairs<pk_dt_bf16>::of(pk_value_f16(h & 0xffffu), pk_value_f16(h >> 16));    \
            }                                                                                      \
        }                                                                                          \
    };
PK_WIDEN8(pk_dt_f8e4m3fn, e4m3x2)
PK_WIDEN8(pk_dt_f8e5m2, e5m2x2)
template <int W> struct pk_widens<pk_dt_f16, pk_dt_f8e4m3fn, W, 1> {
    static __device__ __forceinline__ void to(const unsigned *raw, unsigned *out) {
        PK_EACH(W / 2) out[l] = pk_pair_e4m3x2(raw[l / 2] >> (l % 2 * 16));
    }
};
#endif
template <class P, class D, int W, int O = 1>
PK_D void pk_widen(const unsigned *raw, unsigned *out) {
    static_assert(W % 2 == 0, "pairs");
    pk_widens<P, D, W, O>::to(raw, out);
}
