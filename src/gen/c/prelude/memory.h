/* SPDX-License-Identifier: MIT
 * Loads, gathers and stores: one function per storage dtype D.
 *
 * pk_ld_D(base, index)       PK_W elements from element `index`, any alignment, all in bounds
 * pk_ldn_D(base, index, n)   the first n (0..PK_W) of them, the other lanes 0
 * pk_ld1_D(base, index)      one element in every lane
 * pk_lds_D(base, index)      one element as a scalar of the lane type
 * pk_ldg_D(base, idx, n)     elements idx[0 .. n-1], the other lanes 0
 * pk_st_D(base, index, v)    stores PK_W lanes; pk_stn_D(base, index, v, n) the first n
 *
 * pk_ldw_D(base, at)             of a sub-byte D: element `at` of the word of 32 bits that each lane has
 *                                at base, low bits first; reads up to 3 bytes past the last word
 * pk_ldw_D_vf32(base, at)        the same as lanes of f32
 *
 * No byte is touched that holds none of the n elements. Stores round half to even to a narrow
 * float, as a cast that does not saturate does, and drop the upper bits of integers. Sub-byte
 * elements may start anywhere, low bits first; a store that does not fill a byte reads and rewrites
 * it, so two threads must not store into the same byte.
 */

/* ---- raw lanes of 8 and 16 bits ----------------------------------------------------------------
 */

/* pk_raw8_ and pk_raw16_ are PK_W packed bytes or half words in the form that the target widens
 * best. GCC 12 lowers narrow __builtin_convertvector to long shuffle chains, Clang does not. */
#if PK_CLANG_
typedef unsigned char pk_raw8_ __attribute__((vector_size(PK_W)));
typedef signed char pk_sraw8_ __attribute__((vector_size(PK_W)));
typedef unsigned short pk_raw16_ __attribute__((vector_size(2 * PK_W)));
typedef short pk_sraw16_ __attribute__((vector_size(2 * PK_W)));
#elif PK_512_
typedef pk_v16qi_ pk_raw8_;
typedef pk_v16hi_ pk_raw16_;
#elif PK_256_
typedef pk_u64 pk_raw8_;
typedef pk_v8hi_ pk_raw16_;
#else
typedef __UINT32_TYPE__ pk_raw8_;
typedef pk_u64 pk_raw16_;
#endif
typedef pk_raw8_ pk_uraw8_ __attribute__((aligned(1), may_alias));
typedef pk_raw16_ pk_uraw16_ __attribute__((aligned(1), may_alias));

/* `bytes` (at most 8; none if negative) bytes in the low end of a word. */
PK_I pk_u64 pk_part_(const unsigned char *p, int bytes) {
    pk_u64 x = 0;
    int s = 0;
    if (bytes <= 0) return 0;
    if (bytes >= 8) return *(const pk_u64_ *)p;
    if (bytes & 4) {
        x = *(const pk_u32_ *)p;
        s = 4;
    }
    if (bytes & 2) {
        x |= (pk_u64) * (const pk_u16_ *)(p + s) << (8 * s);
        s += 2;
    }
    if (bytes & 1) x |= (pk_u64)p[s] << (8 * s);
    return x;
}
PK_I void pk_put_part_(unsigned char *p, pk_u64 x, int bytes) {
    if (bytes >= 8) {
        *(pk_u64_ *)p = x;
        return;
    }
    if (bytes <= 0) return;
    if (bytes & 4) {
        *(pk_u32_ *)p = (unsigned)x;
        x >>= 32;
        p += 4;
    }
    if (bytes & 2) {
        *(pk_u16_ *)p = (unsigned short)x;
        x >>= 16;
        p += 2;
    }
    if (bytes & 1) *p = (unsigned char)x;
}
typedef union {
    pk_u64 word[PK_W];
    vf32 f32;
    vi32 i32;
    vu32 u32;
    vf64 f64;
    vi64 i64;
    vu64 u64;
    pk_raw8_ r8;
    pk_raw16_ r16;
} pk_bytes_;
/* The first `bytes` bytes of a block of `words` words, the rest 0. */
PK_I pk_bytes_ pk_get_(const void *p, int bytes, int words) {
    pk_bytes_ b;
    for (int i = 0; i < words; i++)
        b.word[i] = pk_part_((const unsigned char *)p + 8 * i, bytes - 8 * i);
    return b;
}
PK_I void pk_put_(void *p, pk_bytes_ b, int bytes, int words) {
    for (int i = 0; i < words; i++)
        pk_put_part_((unsigned char *)p + 8 * i, b.word[i], bytes - 8 * i);
}

PK_I pk_raw8_ pk_getn8_(const void *p, int n) {
#if PK_512_
    return (pk_raw8_)__builtin_ia32_loaddquqi128_mask(p, (pk_v16qi_){0}, pk_k_(n));
#elif PK_W == 4
    pk_bytes_ b;
    b.word[0] = pk_part_(p, n);
    return b.r8;
#else
    return pk_get_(p, n, (PK_W + 7) / 8).r8;
#endif
}
PK_I pk_raw16_ pk_getn16_(const void *p, int n) {
#if PK_512_
    return (pk_raw16_)__builtin_ia32_loaddquhi256_mask(p, (pk_v16hi_){0}, pk_k_(n));
#elif PK_256_
    const unsigned char *q = p;
    return (pk_raw16_)(pk_v2di_){(long long)pk_part_(q, 2 * n),
                                 (long long)pk_part_(q + 8, 2 * n - 8)};
#else
    return pk_get_(p, 2 * n, PK_W / 4).r16;
#endif
}
PK_I void pk_putn8_(void *p, pk_raw8_ r, int n) {
#if PK_512_
    __builtin_ia32_storedquqi128_mask(p, (pk_v16qi_)r, pk_k_(n));
#else
    pk_bytes_ b;
    b.r8 = r;
    pk_put_(p, b, n, 1);
#endif
}
PK_I void pk_putn16_(void *p, pk_raw16_ r, int n) {
#if PK_512_
    __builtin_ia32_storedquhi256_mask(p, (pk_v16hi_)r, pk_k_(n));
#elif PK_256_
    pk_v2di_ w = (pk_v2di_)r;
    pk_put_part_(p, (pk_u64)w[0], 2 * n);
    pk_put_part_((unsigned char *)p + 8, (pk_u64)w[1], 2 * n - 8);
#else
    pk_bytes_ b;
    b.r16 = r;
    pk_put_(p, b, 2 * n, PK_W / 4);
#endif
}

#if PK_CLANG_
PK_I vi32 pk_sx8_(pk_raw8_ r) {
    return __builtin_convertvector((pk_sraw8_)r, vi32);
}
PK_I vu32 pk_zx8_(pk_raw8_ r) {
    return __builtin_convertvector(r, vu32);
}
PK_I vi32 pk_sx16_(pk_raw16_ r) {
    return __builtin_convertvector((pk_sraw16_)r, vi32);
}
PK_I vu32 pk_zx16_(pk_raw16_ r) {
    return __builtin_convertvector(r, vu32);
}
PK_I pk_raw8_ pk_pack8_(vu32 v) {
    return __builtin_convertvector(v, pk_raw8_);
}
PK_I pk_raw16_ pk_pack16_(vu32 v) {
    return __builtin_convertvector(v, pk_raw16_);
}
#elif PK_512_
PK_I vi32 pk_sx8_(pk_raw8_ r) {
    return __builtin_ia32_pmovsxbd512_mask(r, (vi32){0}, (unsigned short)-1);
}
PK_I vu32 pk_zx8_(pk_raw8_ r) {
    return (vu32)__builtin_ia32_pmovzxbd512_mask(r, (vi32){0}, (unsigned short)-1);
}
PK_I vi32 pk_sx16_(pk_raw16_ r) {
    return __builtin_ia32_pmovsxwd512_mask(r, (vi32){0}, (unsigned short)-1);
}
PK_I vu32 pk_zx16_(pk_raw16_ r) {
    return (vu32)__builtin_ia32_pmovzxwd512_mask(r, (vi32){0}, (unsigned short)-1);
}
PK_I pk_raw8_ pk_pack8_(vu32 v) {
    return __builtin_ia32_pmovdb512_mask((vi32)v, (pk_v16qi_){0}, (unsigned short)-1);
}
PK_I pk_raw16_ pk_pack16_(vu32 v) {
    return __builtin_ia32_pmovdw512_mask((vi32)v, (pk_v16hi_){0}, (unsigned short)-1);
}
#elif PK_256_
PK_I vi32 pk_sx8_(pk_raw8_ r) {
    return __builtin_ia32_pmovsxbd256((pk_v16qi_)(pk_v2di_){(long long)r, 0});
}
PK_I vu32 pk_zx8_(pk_raw8_ r) {
    return (vu32)__builtin_ia32_pmovzxbd256((pk_v16qi_)(pk_v2di_){(long long)r, 0});
}
PK_I vi32 pk_sx16_(pk_raw16_ r) {
    return __builtin_ia32_pmovsxwd256(r);
}
PK_I vu32 pk_zx16_(pk_raw16_ r) {
    return (vu32)__builtin_ia32_pmovzxwd256(r);
}
PK_I pk_raw8_ pk_pack8_(vu32 v) {
    pk_v32qi_ pick = {0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                      0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    vi32 t = (vi32)__builtin_ia32_pshufb256((pk_v32qi_)v, pick);
    t = __builtin_ia32_permvarsi256(t, (vi32){0, 4, 0, 0, 0, 0, 0, 0});
    return (pk_u64)((pk_v4di_)t)[0];
}
PK_I pk_raw16_ pk_pack16_(vu32 v) {
    pk_v32qi_ pick = {0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1,
                      0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1};
    pk_v4di_ t = (pk_v4di_)__builtin_ia32_pshufb256((pk_v32qi_)v, pick);
    return (pk_v8hi_)__builtin_ia32_extract128i256(__builtin_ia32_permdi256(t, 8), 0);
}
#else
#define PK_L8_(i)  (unsigned char)(r >> (8 * i))
#define PK_L16_(i) (unsigned short)(r >> (16 * i))
PK_I vu32 pk_zx8_(pk_raw8_ r) {
    return (vu32){PK_EACH_(PK_L8_)};
}
PK_I vu32 pk_zx16_(pk_raw16_ r) {
    return (vu32){PK_EACH_(PK_L16_)};
}
#undef PK_L8_
#undef PK_L16_
PK_I vi32 pk_sx8_(pk_raw8_ r) {
    return (vi32)(pk_zx8_(r) << 24) >> 24;
}
PK_I vi32 pk_sx16_(pk_raw16_ r) {
    return (vi32)(pk_zx16_(r) << 16) >> 16;
}
PK_I pk_raw8_ pk_pack8_(vu32 v) {
    pk_raw8_ r = 0;
    for (int i = 0; i < 4; i++)
        r |= (v[i] & 0xffu) << (8 * i);
    return r;
}
PK_I pk_raw16_ pk_pack16_(vu32 v) {
    pk_raw16_ r = 0;
    for (int i = 0; i < 4; i++)
        r |= (pk_u64)(v[i] & 0xffffu) << (16 * i);
    return r;
}
#endif

/* ---- raw lanes of 4 and 2 bits ------------------------------------------------------------------
 */

/* PK_W * bits bits from element `index`. */
PK_I pk_u64 pk_getsub_(const void *base, pk_i64 index, int bits) {
    int per = 8 / bits, off = (int)(index & (per - 1)) * bits, bytes = PK_W * bits / 8;
    const unsigned char *p = (const unsigned char *)base + (index >> (bits == 4 ? 1 : 2));
    pk_u64 x = pk_part_(p, bytes);
    if (off != 0) {
        pk_u64 last = p[bytes];
        x = (x >> off) | (last << (8 * bytes - off));
    }
    return x;
}
PK_I pk_u64 pk_getsubn_(const void *base, pk_i64 index, int bits, int n) {
    int per = 8 / bits, off = (int)(index & (per - 1)) * bits, bytes = (off + n * bits + 7) >> 3;
    const unsigned char *p = (const unsigned char *)base + (index >> (bits == 4 ? 1 : 2));
    if (n <= 0) return 0;
    pk_u64 x = pk_part_(p, bytes) >> off;
    if (bytes > 8) x |= (pk_u64)p[8] << (64 - off);
    return n * bits < 64 ? x & (((pk_u64)1 << (n * bits)) - 1) : x;
}
PK_I void pk_putsubn_(void *base, pk_i64 index, int bits, pk_u64 x, int n) {
    int per = 8 / bits, off = (int)(index & (per - 1)) * bits, total = n * bits;
    unsigned char *p = (unsigned char *)base + (index >> (bits == 4 ? 1 : 2));
    if (off != 0 && total > 0) {
        int first = total < 8 - off ? total : 8 - off;
        unsigned m = ((1u << first) - 1u) << off;
        *p = (unsigned char)((*p & ~m) | (((unsigned)x << off) & m));
        p++;
        x >>= first;
        total -= first;
    }
    pk_put_part_(p, x, total >> 3);
    if ((total & 7) != 0 && total > 0) {
        unsigned m = (1u << (total & 7)) - 1u;
        p += total >> 3;
        *p = (unsigned char)((*p & ~m) | ((unsigned)(x >> (total & ~7)) & m));
    }
}
PK_I void pk_putsub_(void *base, pk_i64 index, int bits, pk_u64 x) {
    if ((index & (8 / bits - 1)) == 0)
        pk_put_part_((unsigned char *)base + (index >> (bits == 4 ? 1 : 2)), x, PK_W * bits / 8);
    else
        pk_putsubn_(base, index, bits, x, PK_W);
}

/* Bits 32 h .. of a word in lanes 8 h .., for fields of 4 bits; the word in all lanes for 2. */
PK_I vu32 pk_words4_(pk_u64 x) {
#if PK_512_ && PK_CLANG_
    vu32 w = (vu32)(pk_v8di_){(long long)x};
    return __builtin_shufflevector(w, w, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
#elif PK_512_
    vi32 idx = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    pk_v8di_ q = {(long long)x};
    return (vu32)__builtin_ia32_permvarsi512_mask((vi32)q, idx, idx, (unsigned short)-1);
#else
    return pk_set_vu32((unsigned)x);
#endif
}
PK_I vu32 pk_words2_(pk_u64 x) {
    return pk_set_vu32((unsigned)x);
}
/* Field i of the word at the low end of lane i, with rubbish above; or at the high end, below. */
PK_I vu32 pk_spread4_(pk_u64 x) {
    return pk_words4_(x) >> ((vu32)(pk_iota_vi32() & 7) * 4u);
}
PK_I vu32 pk_spread2_(pk_u64 x) {
    return pk_words2_(x) >> ((vu32)pk_iota_vi32() * 2u);
}
PK_I vi32 pk_high4_(pk_u64 x) {
    return (vi32)(pk_words4_(x) << (28u - (vu32)(pk_iota_vi32() & 7) * 4u));
}
PK_I vi32 pk_high2_(pk_u64 x) {
    return (vi32)(pk_words2_(x) << (30u - (vu32)pk_iota_vi32() * 2u));
}
PK_I vi32 pk_sub_i4_(pk_u64 x) {
    return pk_high4_(x) >> 28;
}
PK_I vi32 pk_sub_i2_(pk_u64 x) {
    return pk_high2_(x) >> 30;
}
PK_I vu32 pk_sub_u4_(pk_u64 x) {
    return pk_spread4_(x) & 15u;
}
PK_I vu32 pk_sub_u2_(pk_u64 x) {
    return pk_spread2_(x) & 3u;
}
PK_I vf32 pk_sub_f4e2m1fn_(pk_u64 x) {
    return pk_frombits_f4e2m1fn(pk_spread4_(x));
}
/* The inverse: the low bits of every lane, packed. */
PK_I pk_u64 pk_join8_(pk_u64 x, int bits) {
    if (bits == 4) {
        x &= 0x0f0f0f0f0f0f0f0fu;
        x = (x | (x >> 4)) & 0x00ff00ff00ff00ffu;
        x = (x | (x >> 8)) & 0x0000ffff0000ffffu;
        return (x | (x >> 16)) & 0xffffffffu;
    }
    x &= 0x0303030303030303u;
    x = (x | (x >> 6)) & 0x000f000f000f000fu;
    x = (x | (x >> 12)) & 0x000000ff000000ffu;
    return (x | (x >> 24)) & 0xffffu;
}
PK_I pk_u64 pk_join_(vu32 v, int bits) {
    pk_bytes_ b;
    b.word[0] = 0;
    b.r8 = pk_pack8_(v);
#if PK_W == 16
    return pk_join8_(b.word[0], bits) | (pk_join8_(b.word[1], bits) << (8 * bits));
#else
    return pk_join8_(b.word[0], bits);
#endif
}

/* ---- raw lanes of 32 and 64 bits ----------------------------------------------------------------
 */

PK_I vi32 pk_getn32_(const void *p, int n) {
#if PK_512_
    return (vi32)__builtin_ia32_loadups512_mask(p, (vf32){0}, pk_k_(n));
#elif PK_256_
    return (vi32)__builtin_ia32_maskloadps256(p, pk_mask_n(n));
#else
    return pk_get_(p, 4 * n, PK_W / 2).i32;
#endif
}
PK_I void pk_putn32_(void *p, vi32 v, int n) {
#if PK_512_
    __builtin_ia32_storeups512_mask(p, (vf32)v, pk_k_(n));
#elif PK_256_
    __builtin_ia32_maskstoreps256(p, pk_mask_n(n), (vf32)v);
#else
    pk_bytes_ b;
    b.i32 = v;
    pk_put_(p, b, 4 * n, PK_W / 2);
#endif
}
#if PK_256_ && !PK_HAS_512_
PK_I pk_v4di_ pk_halfmask_(int n) {
    return (pk_v4di_)((pk_v4di_){0, 1, 2, 3} < (pk_v4di_){n, n, n, n});
}
#endif
PK_I vi64 pk_getn64_(const void *p, int n) {
    pk_two_ t;
#if PK_512_
    t.hf[0] = __builtin_ia32_loadupd512_mask(p, (pk_hf64_){0}, (unsigned char)pk_k_(n));
    t.hf[1] = __builtin_ia32_loadupd512_mask((const double *)p + 8, (pk_hf64_){0},
                                             (unsigned char)(pk_k_(n) >> 8));
#elif PK_256_ && PK_HAS_512_
    t.f = __builtin_ia32_loadupd512_mask(p, (vf64){0}, (unsigned char)((1u << n) - 1u));
#elif PK_256_
    t.hf[0] = __builtin_ia32_maskloadpd256(p, pk_halfmask_(n));
    t.hf[1] =
        __builtin_ia32_maskloadpd256((const void *)((const double *)p + 4), pk_halfmask_(n - 4));
#else
    t.i = pk_get_(p, 8 * n, PK_W).i64;
#endif
    return t.i;
}
PK_I void pk_putn64_(void *p, vi64 v, int n) {
#if PK_512_
    pk_two_ t = {.i = v};
    __builtin_ia32_storeupd512_mask(p, t.hf[0], (unsigned char)pk_k_(n));
    __builtin_ia32_storeupd512_mask((double *)p + 8, t.hf[1], (unsigned char)(pk_k_(n) >> 8));
#elif PK_256_ && PK_HAS_512_
    __builtin_ia32_storeupd512_mask(p, (vf64)v, (unsigned char)((1u << n) - 1u));
#elif PK_256_
    pk_two_ t = {.i = v};
    __builtin_ia32_maskstorepd256(p, pk_halfmask_(n), t.hf[0]);
    __builtin_ia32_maskstorepd256((void *)((double *)p + 4), pk_halfmask_(n - 4), t.hf[1]);
#else
    pk_bytes_ b;
    b.i64 = v;
    pk_put_(p, b, 8 * n, PK_W);
#endif
}

PK_I void pk_put32_(void *p, vi32 v) {
    *(pk_uvi32_ *)p = v;
}
/* GCC copies a vector of two registers to memory through others unless it is given the halves. */
PK_I void pk_put64_(void *p, vi64 v) {
#if PK_SPLIT_
    typedef pk_hi64_ half __attribute__((aligned(1), may_alias));
    pk_two_ t = {.i = v};
    ((half *)p)[0] = t.hi[0];
    ((half *)p)[1] = t.hi[1];
#else
    *(pk_uvi64_ *)p = v;
#endif
}

/* ---- dtypes of 32 and 64 bits -------------------------------------------------------------------
 */

#define PK_MEM_WIDE_(D, lane, scalar, bits, raw)                                                   \
    typedef scalar pk_s##D##_ __attribute__((aligned(1), may_alias));                              \
    PK_I lane pk_ld_##D(const void *base, pk_i64 index) {                                          \
        return *(const pk_u##lane##_ *)((const scalar *)base + index);                             \
    }                                                                                              \
    PK_I lane pk_ldn_##D(const void *base, pk_i64 index, int n) {                                  \
        return (lane)pk_getn##bits##_((const scalar *)base + index, n);                            \
    }                                                                                              \
    PK_I scalar pk_lds_##D(const void *base, pk_i64 index) {                                       \
        return *(const pk_s##D##_ *)((const scalar *)base + index);                                \
    }                                                                                              \
    PK_I lane pk_ld1_##D(const void *base, pk_i64 index) {                                         \
        return pk_set_##lane(pk_lds_##D(base, index));                                             \
    }                                                                                              \
    PK_I lane pk_ldg_##D(const void *base, const pk_i64 *idx, int n) {                             \
        lane r = {0};                                                                              \
        if (n == PK_W) return (lane){PK_EACH_(PK_AT_##D##_)};                                      \
        for (int i = 0; i < n; i++)                                                                \
            r[i] = pk_lds_##D(base, idx[i]);                                                       \
        return r;                                                                                  \
    }                                                                                              \
    PK_I void pk_st_##D(void *base, pk_i64 index, lane v) {                                        \
        pk_put##bits##_((scalar *)base + index, (raw)v);                                           \
    }                                                                                              \
    PK_I void pk_stn_##D(void *base, pk_i64 index, lane v, int n) {                                \
        pk_putn##bits##_((scalar *)base + index, (raw)v, n);                                       \
    }
#define PK_AT_f64_(i) pk_lds_f64(base, idx[i])
#define PK_AT_f32_(i) pk_lds_f32(base, idx[i])
#define PK_AT_i64_(i) pk_lds_i64(base, idx[i])
#define PK_AT_i32_(i) pk_lds_i32(base, idx[i])
#define PK_AT_u64_(i) pk_lds_u64(base, idx[i])
#define PK_AT_u32_(i) pk_lds_u32(base, idx[i])
PK_MEM_WIDE_(f64, vf64, double, 64, vi64)
PK_MEM_WIDE_(f32, vf32, float, 32, vi32)
PK_MEM_WIDE_(i64, vi64, pk_i64, 64, vi64)
PK_MEM_WIDE_(i32, vi32, int, 32, vi32)
PK_MEM_WIDE_(u64, vu64, pk_u64, 64, vi64)
PK_MEM_WIDE_(u32, vu32, unsigned, 32, vi32)

/* ---- dtypes of 8 and 16 bits --------------------------------------------------------------------
 */

/* From raw lanes to values where that is shorter than through the bit pattern in 32-bit lanes. */
PK_I vf32 pk_from16_f16_(pk_raw16_ r) {
#if PK_F16C_ && PK_512_
    return __builtin_ia32_vcvtph2ps512_mask((pk_v16hi_)r, (vf32){0}, (unsigned short)-1, 4);
#elif PK_F16C_
    return __builtin_ia32_vcvtph2ps256((pk_v8hi_)r);
#else
    return pk_frombits_f16(pk_zx16_(r));
#endif
}
PK_I vf32 pk_from16_bf16_(pk_raw16_ r) {
    return (vf32)(pk_zx16_(r) << 16);
}
PK_I vi32 pk_from16_i16_(pk_raw16_ r) {
    return pk_sx16_(r);
}
PK_I vu32 pk_from16_u16_(pk_raw16_ r) {
    return pk_zx16_(r);
}
#if PK_F16C_
/* Bytes, sign-extended to half words: f8 is f16 with a shorter mantissa, up to the bias. */
#if PK_512_
typedef pk_v16hi_ pk_half_;
#else
typedef pk_v8hi_ pk_half_;
#endif
PK_I pk_half_ pk_sx8_16_(pk_raw8_ r) {
#if PK_CLANG_
    return __builtin_convertvector((pk_sraw8_)r, pk_half_);
#elif PK_512_
    return __builtin_ia32_pmovsxbw256(r);
#else
    return __builtin_ia32_pmovsxbw128((pk_v16qi_)(pk_v2di_){(long long)r, 0});
#endif
}
#endif
PK_I vf32 pk_from8_f8e4m3fn_(pk_raw8_ r) {
#if PK_F16C_
    pk_half_ h = (pk_sx8_16_(r) << 7) & (short)0xbfff;
    h |= (pk_half_)((h & 0x3f80) == 0x3f80);
    return pk_from16_f16_((pk_raw16_)h) * 256.0f;
#else
    return pk_frombits_f8e4m3fn(pk_zx8_(r));
#endif
}
PK_I vf32 pk_from8_f8e5m2_(pk_raw8_ r) {
#if PK_F16C_
    return pk_from16_f16_((pk_raw16_)(pk_sx8_16_(r) << 8));
#else
    return pk_frombits_f8e5m2(pk_zx8_(r));
#endif
}
PK_I vf32 pk_from8_e8m0_(pk_raw8_ r) {
    return pk_frombits_e8m0(pk_zx8_(r));
}
PK_I vi32 pk_from8_i8_(pk_raw8_ r) {
    return pk_sx8_(r);
}
PK_I vu32 pk_from8_u8_(pk_raw8_ r) {
    return pk_zx8_(r);
}
PK_I vi32 pk_from8_bool_(pk_raw8_ r) {
    return (vi32)(pk_zx8_(r) != 0);
}
PK_I pk_raw16_ pk_to16_f16_(vf32 v) {
#if PK_F16C_ && PK_512_
    return (pk_raw16_)__builtin_ia32_vcvtps2ph512_mask(v, 0, (pk_v16hi_){0}, (unsigned short)-1);
#elif PK_F16C_
    return (pk_raw16_)__builtin_ia32_vcvtps2ph256(v, 0);
#else
    return pk_pack16_(pk_bits_f16(v));
#endif
}
PK_I pk_raw16_ pk_to16_bf16_(vf32 v) {
    return pk_pack16_(pk_bits_bf16(v));
}
PK_I pk_raw16_ pk_to16_i16_(vi32 v) {
    return pk_pack16_((vu32)v);
}
PK_I pk_raw16_ pk_to16_u16_(vu32 v) {
    return pk_pack16_(v);
}
#define PK_TO8_(D, lane)                                                                           \
    PK_I pk_raw8_ pk_to8_##D##_(lane v) {                                                          \
        return pk_pack8_((vu32)pk_bits_##D(v));                                                    \
    }
PK_TO8_(f8e4m3fn, vf32)
PK_TO8_(f8e5m2, vf32)
PK_TO8_(e8m0, vf32)
PK_TO8_(bool, vi32)
PK_I pk_raw8_ pk_to8_i8_(vi32 v) {
    return pk_pack8_((vu32)v);
}
PK_I pk_raw8_ pk_to8_u8_(vu32 v) {
    return pk_pack8_(v);
}

/* ld1, lds and ldg go through the bit pattern in 32-bit lanes. */
#define PK_CODE8_(i)  ((const unsigned char *)base)[idx[i]]
#define PK_CODE16_(i) (*(const pk_u16_ *)((const unsigned char *)base + 2 * idx[i]))
#define PK_CODE4_(i)  (((const unsigned char *)base)[idx[i] >> 1] >> (4 * (idx[i] & 1)))
#define PK_CODE2_(i)  (((const unsigned char *)base)[idx[i] >> 2] >> (2 * (idx[i] & 3)))
/* A bit pattern's value in every lane; of f16 in one instruction where there is one. */
#if PK_F16C_ && PK_512_
PK_I vf32 pk_one_f16_(unsigned c) {
    return pk_from16_f16_((pk_raw16_)((pk_v16hi_){0} + (short)c));
}
#elif PK_F16C_
PK_I vf32 pk_one_f16_(unsigned c) {
    return pk_from16_f16_((pk_raw16_)((pk_v8hi_){0} + (short)c));
}
#else
PK_I vf32 pk_one_f16_(unsigned c) {
    return pk_frombits_f16(pk_set_vu32(c));
}
#endif
#define PK_ONE_f16_(c)      pk_one_f16_(c)
#define PK_ONE_bf16_(c)     pk_frombits_bf16(pk_set_vu32(c))
#define PK_ONE_i16_(c)      pk_frombits_i16(pk_set_vu32(c))
#define PK_ONE_u16_(c)      pk_frombits_u16(pk_set_vu32(c))
#define PK_ONE_f8e4m3fn_(c) pk_frombits_f8e4m3fn(pk_set_vu32(c))
#define PK_ONE_f8e5m2_(c)   pk_frombits_f8e5m2(pk_set_vu32(c))
#define PK_ONE_e8m0_(c)     pk_frombits_e8m0(pk_set_vu32(c))
#define PK_ONE_i8_(c)       pk_frombits_i8(pk_set_vu32(c))
#define PK_ONE_u8_(c)       pk_frombits_u8(pk_set_vu32(c))
#define PK_ONE_bool_(c)     pk_frombits_bool(pk_set_vu32(c))
#define PK_ONE_f4e2m1fn_(c) pk_frombits_f4e2m1fn(pk_set_vu32(c))
#define PK_ONE_i4_(c)       pk_frombits_i4(pk_set_vu32(c))
#define PK_ONE_u4_(c)       pk_frombits_u4(pk_set_vu32(c))
#define PK_ONE_i2_(c)       pk_frombits_i2(pk_set_vu32(c))
#define PK_ONE_u2_(c)       pk_frombits_u2(pk_set_vu32(c))
#define PK_MEM_ONE_(D, lane, scalar, bits)                                                         \
    PK_I lane pk_ldg_##D(const void *base, const pk_i64 *idx, int n) {                             \
        vu32 c = {0};                                                                              \
        if (n == PK_W) return pk_frombits_##D((vu32){PK_EACH_(PK_CODE##bits##_)});                 \
        for (int i = 0; i < n; i++)                                                                \
            c[i] = PK_CODE##bits##_(i);                                                            \
        lane v = pk_frombits_##D(c);                                                               \
        return (lane)((vi32)v & pk_mask_n(n));                                                     \
    }                                                                                              \
    PK_I lane pk_ld1_##D(const void *base, pk_i64 index) {                                         \
        const pk_i64 *idx = &index;                                                                \
        return PK_ONE_##D##_((unsigned)PK_CODE##bits##_(0));                                       \
    }                                                                                              \
    PK_I scalar pk_lds_##D(const void *base, pk_i64 index) {                                       \
        return pk_ld1_##D(base, index)[0];                                                         \
    }
#define PK_MEM_RAW_(D, lane, scalar, bits)                                                         \
    PK_MEM_ONE_(D, lane, scalar, bits)                                                             \
    PK_I lane pk_ld_##D(const void *base, pk_i64 index) {                                          \
        const char *p = (const char *)base + index * (bits / 8);                                   \
        return pk_from##bits##_##D##_(*(const pk_uraw##bits##_ *)p);                               \
    }                                                                                              \
    PK_I lane pk_ldn_##D(const void *base, pk_i64 index, int n) {                                  \
        const char *p = (const char *)base + index * (bits / 8);                                   \
        lane v = pk_from##bits##_##D##_(pk_getn##bits##_(p, n));                                   \
        return PK_ZERO_##D##_(v, n);                                                               \
    }                                                                                              \
    PK_I void pk_st_##D(void *base, pk_i64 index, lane v) {                                        \
        char *p = (char *)base + index * (bits / 8);                                               \
        *(pk_uraw##bits##_ *)p = pk_to##bits##_##D##_(v);                                          \
    }                                                                                              \
    PK_I void pk_stn_##D(void *base, pk_i64 index, lane v, int n) {                                \
        char *p = (char *)base + index * (bits / 8);                                               \
        pk_putn##bits##_(p, pk_to##bits##_##D##_(v), n);                                           \
    }
/* Pattern 0 is the value 0 in all of them but e8m0. */
#define PK_ZERO_f16_(v, n)      v
#define PK_ZERO_bf16_(v, n)     v
#define PK_ZERO_f8e4m3fn_(v, n) v
#define PK_ZERO_f8e5m2_(v, n)   v
#define PK_ZERO_e8m0_(v, n)     (vf32)((vi32)v & pk_mask_n(n))
#define PK_ZERO_i16_(v, n)      v
#define PK_ZERO_u16_(v, n)      v
#define PK_ZERO_i8_(v, n)       v
#define PK_ZERO_u8_(v, n)       v
#define PK_ZERO_bool_(v, n)     v
PK_MEM_RAW_(f16, vf32, float, 16)
PK_MEM_RAW_(bf16, vf32, float, 16)
PK_MEM_RAW_(i16, vi32, int, 16)
PK_MEM_RAW_(u16, vu32, unsigned, 16)
PK_MEM_RAW_(f8e4m3fn, vf32, float, 8)
PK_MEM_RAW_(f8e5m2, vf32, float, 8)
PK_MEM_RAW_(e8m0, vf32, float, 8)
PK_MEM_RAW_(i8, vi32, int, 8)
PK_MEM_RAW_(u8, vu32, unsigned, 8)
PK_MEM_RAW_(bool, vi32, int, 8)

/* ---- sub-byte dtypes ----------------------------------------------------------------------------
 */

#define PK_MEM_SUB_(D, lane, scalar, bits)                                                         \
    PK_MEM_ONE_(D, lane, scalar, bits)                                                             \
    PK_I lane pk_ld_##D(const void *base, pk_i64 index) {                                          \
        return pk_sub_##D##_(pk_getsub_(base, index, bits));                                       \
    }                                                                                              \
    PK_I lane pk_ldn_##D(const void *base, pk_i64 index, int n) {                                  \
        return pk_sub_##D##_(pk_getsubn_(base, index, bits, n));                                   \
    }                                                                                              \
    PK_I void pk_st_##D(void *base, pk_i64 index, lane v) {                                        \
        pk_putsub_(base, index, bits, pk_join_((vu32)pk_bits_##D(v), bits));                       \
    }                                                                                              \
    PK_I void pk_stn_##D(void *base, pk_i64 index, lane v, int n) {                                \
        pk_putsubn_(base, index, bits, pk_join_((vu32)pk_bits_##D(v), bits), n);                   \
    }
PK_MEM_SUB_(f4e2m1fn, vf32, float, 4)
PK_MEM_SUB_(i4, vi32, int, 4)
PK_MEM_SUB_(u4, vu32, unsigned, 4)
PK_MEM_SUB_(i2, vi32, int, 2)
PK_MEM_SUB_(u2, vu32, unsigned, 2)

/* ---- words of sub-byte elements -----------------------------------------------------------------
 */

/* The field in the low bits of every lane. What it is from the bottom of its byte costs a shift; the
 * byte is chosen by the address. */
PK_I vu32 pk_field_(const void *base, int bit) {
    return *(const pk_uvu32_ *)((const char *)base + bit / 8) >> (unsigned)(bit % 8);
}
/* The same in the high bits. */
PK_I vi32 pk_top_(const void *base, int bit, int bits) {
    vu32 v = *(const pk_uvu32_ *)((const char *)base + bit / 8);
    return (vi32)(v << (unsigned)(32 - bits - bit % 8));
}
PK_I vi32 pk_ldw_i4(const void *base, int at) {
    return pk_top_(base, 4 * at, 4) >> 28;
}
PK_I vi32 pk_ldw_i2(const void *base, int at) {
    return pk_top_(base, 2 * at, 2) >> 30;
}
PK_I vu32 pk_ldw_u4(const void *base, int at) {
    return pk_field_(base, 4 * at) & 15u;
}
PK_I vu32 pk_ldw_u2(const void *base, int at) {
    return pk_field_(base, 2 * at) & 3u;
}
#if PK_512_
/* Whatever 4 bits mean is one permutation of a register with the 16 values. */
PK_I vf32 pk_lookup_(vf32 table, vu32 i) {
#if PK_CLANG_
    return __builtin_ia32_permvarsf512(table, (vi32)i);
#else
    return __builtin_ia32_permvarsf512_mask(table, (vi32)i, table, (unsigned short)-1);
#endif
}
#define PK_LDW_(D, bits, ...)                                                                      \
    PK_I vf32 pk_ldw_##D##_vf32(const void *base, int at) {                                        \
        return pk_lookup_((vf32){__VA_ARGS__}, pk_field_(base, bits * at));                        \
    }
PK_LDW_(i4, 4, 0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1)
PK_LDW_(u4, 4, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
PK_LDW_(i2, 2, 0, 1, -2, -1, 0, 1, -2, -1, 0, 1, -2, -1, 0, 1, -2, -1)
PK_LDW_(u2, 2, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3)
PK_LDW_(f4e2m1fn, 4, 0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6)
#else
PK_I vf32 pk_ldw_i4_vf32(const void *base, int at) {
    return pk_cvt_vi32_vf32(pk_ldw_i4(base, at));
}
PK_I vf32 pk_ldw_i2_vf32(const void *base, int at) {
    return pk_cvt_vi32_vf32(pk_ldw_i2(base, at));
}
PK_I vf32 pk_ldw_u4_vf32(const void *base, int at) {
    return pk_cvt_vi32_vf32((vi32)pk_ldw_u4(base, at));
}
PK_I vf32 pk_ldw_u2_vf32(const void *base, int at) {
    return pk_cvt_vi32_vf32((vi32)pk_ldw_u2(base, at));
}
PK_I vf32 pk_ldw_f4e2m1fn_vf32(const void *base, int at) {
    return pk_frombits_f4e2m1fn(pk_field_(base, 4 * at));
}
#endif
PK_I vf32 pk_ldw_f4e2m1fn(const void *base, int at) {
    return pk_ldw_f4e2m1fn_vf32(base, at);
}
