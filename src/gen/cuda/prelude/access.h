/* SPDX-License-Identifier: MIT
 * CUDA C: loads and stores of lanes, by dtype.
 *
 * pk_ld<D, W>(base, i)         elements i .. i+W-1: wide accesses where the address allows
 * pk_ldn<D, W>(base, i, n)     the first n of them, the other lanes are 0
 * pk_lda<D, W>(base, i)        the same where it is known that the address allows them
 * pk_ld1<D, W>(base, i)        element i in every lane;  pk_lds<D>(base, i): as a scalar
 * pk_ldg<D, W>(base, at, n)    elements at[0..n-1]
 * pk_st, pk_sta, pk_stn        the same for stores
 * pk_unpack<D, W>(words)       lanes from 32-bit words that hold the elements from bit 0 on
 * pk_pack<D, W>(v, words)      the other way
 *
 * A thread that owns a part of a byte only (elements of less than 8 bits) changes it by atomics on
 * the word around it, so that kernels may spread such results over threads.
 */

/* What a template is told of an operand. */
#define PK_OTHER 0
#define PK_BF16  1
#define PK_F16   2
#define PK_E4M3  3
#define PK_E5M2  4
#define PK_F32   5
#define PK_I8    6
#define PK_U8    7
#define PK_F64   8
#define PK_I32   9
#define PK_I64   10

#define PK_DTYPE(D, S, B)                                                                          \
    struct pk_dt_##D {                                                                             \
        typedef S scalar;                                                                          \
        enum { bits = B };                                                                         \
        static __device__ __forceinline__ S value(unsigned c) {                                    \
            return pk_frombits_##D(pk_lanes<unsigned, 1>(c)).x[0];                                 \
        }                                                                                          \
        static __device__ __forceinline__ unsigned code(S v) {                                     \
            return pk_bits_##D(pk_lanes<S, 1>(v)).x[0];                                            \
        }                                                                                          \
    };
#define PK_DTYPE64(D, S)                                                                           \
    struct pk_dt_##D {                                                                             \
        typedef S scalar;                                                                          \
        enum { bits = 64 };                                                                        \
    };
PK_DTYPE64(f64, double)
PK_DTYPE64(i64, pk_i64)
PK_DTYPE64(u64, pk_u64)
PK_DTYPE(f32, float, 32)
PK_DTYPE(i32, int, 32)
PK_DTYPE(u32, unsigned, 32)
PK_DTYPE(f16, float, 16)
PK_DTYPE(bf16, float, 16)
PK_DTYPE(i16, int, 16)
PK_DTYPE(u16, unsigned, 16)
PK_DTYPE(f8e4m3fn, float, 8)
PK_DTYPE(f8e5m2, float, 8)
PK_DTYPE(e8m0, float, 8)
PK_DTYPE(i8, int, 8)
PK_DTYPE(u8, unsigned, 8)
PK_DTYPE(bool, int, 8)
PK_DTYPE(f4e2m1fn, float, 4)
PK_DTYPE(i4, int, 4)
PK_DTYPE(u4, unsigned, 4)
PK_DTYPE(i2, int, 2)
PK_DTYPE(u2, unsigned, 2)

/* ---- words and lanes ------------------------------------------------------------------------- */

template <class D, int W> PK_D pk_lanes<typename D::scalar, W> pk_unpack(const unsigned *w) {
    pk_lanes<typename D::scalar, W> r;
    if constexpr (D::bits == 64) {
        PK_EACH(W) r.x[l] = pk_cast_bits<typename D::scalar>((pk_u64)w[2 * l + 1] << 32 | w[2 * l]);
    } else {
        PK_EACH(W) {
            unsigned c = w[l * D::bits / 32] >> (l * D::bits % 32);
            if constexpr (D::bits < 32) c &= (1u << D::bits % 32) - 1u;
            r.x[l] = D::value(c);
        }
    }
    return r;
}
template <class D, int W> PK_D void pk_pack(const pk_lanes<typename D::scalar, W> &v, unsigned *w) {
    if constexpr (D::bits == 64) {
        PK_EACH(W) {
            const pk_u64 c = pk_cast_bits<pk_u64>(v.x[l]);
            w[2 * l] = (unsigned)c;
            w[2 * l + 1] = (unsigned)(c >> 32);
        }
    } else {
        PK_EACH((W * D::bits + 31) / 32) w[l] = 0;
        PK_EACH(W) w[l * D::bits / 32] |= D::code(v.x[l]) << (l * D::bits % 32);
    }
}
/* Two at a time have an instruction. */
template <class D> struct pk_pairs {
    enum { known = 0 };
    static __device__ __forceinline__ unsigned of(float, float) {
        return 0;
    }
};
#define PK_PAIRS(D)                                                                                \
    template <> struct pk_pairs<pk_dt_##D> {                                                       \
        enum { known = 1 };                                                                        \
        static __device__ __forceinline__ unsigned of(float lo, float hi) {                        \
            unsigned w;                                                                            \
            asm("cvt.rn." #D "x2.f32 %0, %1, %2;" : "=r"(w) : "f"(hi), "f"(lo));                   \
            return w;                                                                              \
        }                                                                                          \
    };
PK_PAIRS(bf16)
PK_PAIRS(f16)
template <class D, int W>
PK_D void pk_pack_pairs(const pk_lanes<typename D::scalar, W> &v, unsigned *w) {
    if constexpr (W % 2 == 0 && pk_pairs<D>::known) {
        PK_EACH(W / 2) w[l] = pk_pairs<D>::of(v.x[2 * l], v.x[2 * l + 1]);
    } else {
        pk_pack<D, W>(v, w);
    }
}

/* Elements as bits of their dtype; lanes of integers of an operand hold values of it. */
template <int N> struct pk_bits { unsigned x[N]; };
template <class D, class T, int W> struct pk_packs {
    static __device__ __forceinline__ void to(const pk_lanes<T, W> &v, unsigned *w) {
        pk_lanes<typename D::scalar, W> t;
        PK_EACH(W) t.x[l] = (typename D::scalar)v.x[l];
        pk_pack_pairs<D, W>(t, w);
    }
};
template <class D, int W, class T> PK_D void pk_pack_value(const pk_lanes<T, W> &v, unsigned *w) {
    pk_packs<D, T, W>::to(v, w);
}

/* ---- single elements ------------------------------------------------------------------------- */

/* Hooks read tensors that their launch does not write, but for a store over the very elements that it
 * is made of: loads by __ldg may move up past stores. */

template <class D> PK_D typename D::scalar pk_lds(const void *base, pk_i64 i) {
    if constexpr (D::bits == 64)
        return pk_cast_bits<typename D::scalar>(__ldg((const pk_u64 *)base + i));
    else if constexpr (D::bits == 32)
        return D::value(__ldg((const unsigned *)base + i));
    else if constexpr (D::bits == 16)
        return D::value(__ldg((const unsigned short *)base + i));
    else if constexpr (D::bits == 8)
        return D::value(__ldg((const unsigned char *)base + i));
    else {
        const int per = 8 / D::bits;
        return D::value((unsigned)__ldg((const unsigned char *)base + i / per) >>
                            (i % per * D::bits) &
                        ((1u << D::bits) - 1u));
    }
}
template <class D> PK_D void pk_sts(void *base, pk_i64 i, typename D::scalar v) {
    if constexpr (D::bits == 64)
        ((pk_u64 *)base)[i] = pk_cast_bits<pk_u64>(v);
    else if constexpr (D::bits == 32)
        ((unsigned *)base)[i] = D::code(v);
    else if constexpr (D::bits == 16)
        ((unsigned short *)base)[i] = (unsigned short)D::code(v);
    else if constexpr (D::bits == 8)
        ((unsigned char *)base)[i] = (unsigned char)D::code(v);
    else {
        const int per = 8 / D::bits;
        const size_t at = (size_t)base + (size_t)(i / per);
        const int shift = (int)(at & 3) * 8 + (int)(i % per) * D::bits;
        unsigned *const word = (unsigned *)(at & ~(size_t)3);
        atomicAnd(word, ~(((1u << D::bits) - 1u) << shift));
        atomicOr(word, D::code(v) << shift);
    }
}

/* ---- lanes ----------------------------------------------------------------------------------- */

template <int BYTES> PK_D void pk_get_words(const void *p, unsigned *w) {
    if constexpr (BYTES >= 16) {
        PK_EACH(BYTES / 16) {
            const uint4 t = __ldg((const uint4 *)p + l);
            w[4 * l] = t.x;
            w[4 * l + 1] = t.y;
            w[4 * l + 2] = t.z;
            w[4 * l + 3] = t.w;
        }
    } else if constexpr (BYTES == 8) {
        const uint2 t = __ldg((const uint2 *)p);
        w[0] = t.x;
        w[1] = t.y;
    } else if constexpr (BYTES == 4) {
        w[0] = __ldg((const unsigned *)p);
    } else if constexpr (BYTES == 2) {
        w[0] = __ldg((const unsigned short *)p);
    } else {
        w[0] = __ldg((const unsigned char *)p);
    }
}
template <int BYTES> PK_D void pk_put_words(void *p, const unsigned *w) {
    if constexpr (BYTES >= 16) {
        PK_EACH(BYTES / 16)
        ((uint4 *)p)[l] = make_uint4(w[4 * l], w[4 * l + 1], w[4 * l + 2], w[4 * l + 3]);
    } else if constexpr (BYTES == 8) {
        *(uint2 *)p = make_uint2(w[0], w[1]);
    } else if constexpr (BYTES == 4) {
        *(unsigned *)p = w[0];
    } else if constexpr (BYTES == 2) {
        *(unsigned short *)p = (unsigned short)w[0];
    } else {
        *(unsigned char *)p = (unsigned char)w[0];
    }
}
/* Where element i starts, if W elements from there can be moved as whole words; else NULL. Buffers
 * start at multiples of 16 bytes, so that i alone decides: where it is a multiple of W by what it is
 * computed from, no test is left. */
template <class D, int W> PK_D char *pk_whole(const void *base, pk_i64 i) {
    if constexpr (W * D::bits % 8 != 0) {
        return 0;
    } else {
        const int bytes = W * D::bits / 8, unit = bytes < 16 ? bytes : 16;
        const int per = unit * 8 / D::bits;
        return (i & (per - 1)) == 0 ? (char *)base + i * D::bits / 8 : 0;
    }
}

template <class D, int W>
PK_D pk_lanes<typename D::scalar, W> pk_ldn(const void *base, pk_i64 i, int n) {
    pk_lanes<typename D::scalar, W> r;
    PK_EACH(W) r.x[l] = l < n ? pk_lds<D>(base, i + l) : (typename D::scalar)0;
    return r;
}
template <class D, int W> PK_D pk_lanes<typename D::scalar, W> pk_ld(const void *base, pk_i64 i) {
    if constexpr (W == 1) {
        return pk_lanes<typename D::scalar, W>(pk_lds<D>(base, i));
    } else {
        const char *const p = pk_whole<D, W>(base, i);
        if (p == 0) return pk_ldn<D, W>(base, i, W);
        unsigned w[(W * D::bits + 31) / 32];
        pk_get_words<W * D::bits / 8>(p, w);
        return pk_unpack<D, W>(w);
    }
}
template <class D, int W> PK_D pk_lanes<typename D::scalar, W> pk_lda(const void *base, pk_i64 i) {
    if constexpr (W == 1) {
        return pk_lanes<typename D::scalar, W>(pk_lds<D>(base, i));
    } else {
        unsigned w[(W * D::bits + 31) / 32];
        pk_get_words<W * D::bits / 8>((const char *)base + i * D::bits / 8, w);
        return pk_unpack<D, W>(w);
    }
}
template <class D, int W> PK_D pk_lanes<typename D::scalar, W> pk_ld1(const void *base, pk_i64 i) {
    return pk_lanes<typename D::scalar, W>(pk_lds<D>(base, i));
}
/* The bits of W elements, loaded where this stands; those past the first n are 0. ALIGNED: all W are
 * where they can be moved as whole words. */
template <class D, int W, bool ALIGNED>
PK_D void pk_raw(const void *base, pk_i64 i, int n, unsigned *w) {
    constexpr int bytes = W * D::bits / 8;
    const char *const p = ALIGNED ? (const char *)base + i * D::bits / 8 : pk_whole<D, W>(base, i);
    if (n != W || (!ALIGNED && p == 0)) {
        pk_pack<D, W>(pk_ldn<D, W>(base, i, n), w);
        return;
    }
    const size_t a = __cvta_generic_to_global(p);
    if constexpr (bytes % 16 == 0) {
        PK_EACH(bytes / 16)
        asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(w[4 * l]), "=r"(w[4 * l + 1]), "=r"(w[4 * l + 2]), "=r"(w[4 * l + 3])
                     : "l"(a + 16 * l));
    } else if constexpr (bytes == 8) {
        asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "l"(a));
    } else {
        pk_get_words<bytes>(p, w);
    }
}
template <class D, int W>
PK_D pk_lanes<typename D::scalar, W> pk_ldg(const void *base, const pk_i64 *at, int n) {
    pk_lanes<typename D::scalar, W> r;
    PK_EACH(W) r.x[l] = l < n ? pk_lds<D>(base, at[l]) : (typename D::scalar)0;
    return r;
}
template <class D, int W>
PK_D void pk_stn(void *base, pk_i64 i, const pk_lanes<typename D::scalar, W> &v, int n) {
    PK_EACH(W) if (l < n) pk_sts<D>(base, i + l, v.x[l]);
}
template <class D, int W>
PK_D void pk_sta(void *base, pk_i64 i, const pk_lanes<typename D::scalar, W> &v) {
    if constexpr (W == 1) {
        pk_sts<D>(base, i, v.x[0]);
    } else {
        unsigned w[(W * D::bits + 31) / 32];
        pk_pack_pairs<D, W>(v, w);
        pk_put_words<W * D::bits / 8>((char *)base + i * D::bits / 8, w);
    }
}
template <class D, int W>
PK_D void pk_st(void *base, pk_i64 i, const pk_lanes<typename D::scalar, W> &v) {
    if constexpr (W == 1) {
        pk_sts<D>(base, i, v.x[0]);
    } else {
        char *const p = pk_whole<D, W>(base, i);
        if (p == 0) {
            pk_stn<D, W>(base, i, v, W);
            return;
        }
        unsigned w[(W * D::bits + 31) / 32];
        pk_pack_pairs<D, W>(v, w);
        pk_put_words<W * D::bits / 8>(p, w);
    }
}
