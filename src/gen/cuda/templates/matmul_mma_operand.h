/* SPDX-License-Identifier: MIT
 * One operand of matmul_mma.cu: struct MM(x_feed), how a block of K of R rows comes to shared memory.
 * Included once for each operand with MM_X (its name in hooks), MM_X_AXIS, MM_X_DTYPE, MM_X_GROUP,
 * MM_X_PLAIN, MM_X_LEAVES and the bits of its leaves; it undefines them.
 *
 * Hooks are called for units of 8 elements. A thread has ITEMS items of UNITS units; an item becomes
 * 16 bytes of the tile, or 32 where bytes are turned from lanes along rows to lanes along k. load()
 * reads the leaves of the next block of K if every address of the thread is aligned; store()
 * evaluates what was read, or evaluates element by element of memory where nothing was. Both give the
 * same bits.
 *
 * The tile: a row is 64 bytes along k, its 16-byte pieces swizzled by the row's number; or, for
 * 16-bit elements whose lanes run across rows, for each k the R elements, swizzled by k.
 */
#define MM_XF(f) MM_CAT1(PK_KERNEL, MM_CAT1(MM_X, f))
#if MM_X_DTYPE == PK_BF16
#define MM_XD pk_dt_bf16
#define MM_XT pk_dt_bf16
#elif MM_X_DTYPE == PK_F16
#define MM_XD pk_dt_f16
#define MM_XT pk_dt_f16
#elif MM_X_DTYPE == PK_E4M3
#define MM_XD pk_dt_f8e4m3fn
#define MM_XT pk_dt_f16
#elif MM_X_DTYPE == PK_E5M2
#define MM_XD pk_dt_f8e5m2
#define MM_XT pk_dt_f16
#elif MM_X_DTYPE == PK_I8
#define MM_XD pk_dt_i8
#define MM_XT pk_dt_i8
#elif MM_X_DTYPE == PK_U8
#define MM_XD pk_dt_u8
#define MM_XT pk_dt_u8
#else
#error tensor cores of this template do not multiply the dtype
#endif
#if MM_X_LEAVES > 0
#define MM_X_WORDS0 ((MM_X_LEAF0_BITS + 3) / 4)
#endif
#if MM_X_LEAVES > 1
#define MM_X_WORDS1 ((MM_X_LEAF1_BITS + 3) / 4)
#endif
#if MM_X_LEAVES > 2
#define MM_X_WORDS2 ((MM_X_LEAF2_BITS + 3) / 4)
#endif
#if MM_X_LEAVES > 3
#define MM_X_WORDS3 ((MM_X_LEAF3_BITS + 3) / 4)
#endif

template <int R> struct MM_XF(feed) {
    typedef MM_XT type;
    typedef MM_XF(row)<8> row_type;
    static constexpr bool ALONG = MM_X_AXIS, TRANS = !ALONG && MM_OB == 2;
    static constexpr int UNITS = MM_OB == 2 ? 1 : ALONG ? 2 : 4, WORDS = 2 * MM_OB;
    static constexpr int ITEMS = R * 64 / (UNITS * 8 * MM_OB) / MM_THREADS;
    static_assert(ITEMS > 0, "too many threads for the rows");

    row_type row[ITEMS];
    pk_i64 z, o, O, K;
    bool held;
#if MM_X_LEAVES > 0
    unsigned raw0[ITEMS][UNITS][MM_X_WORDS0];
#endif
#if MM_X_LEAVES > 1
    unsigned raw1[ITEMS][UNITS][MM_X_WORDS1];
#endif
#if MM_X_LEAVES > 2
    unsigned raw2[ITEMS][UNITS][MM_X_WORDS2];
#endif
#if MM_X_LEAVES > 3
    unsigned raw3[ITEMS][UNITS][MM_X_WORDS3];
#endif
#if MM_X_LEAVES > 0 && MM_X_GROUP > 0
    MM_XF(group)<8> group[ITEMS][UNITS];
#endif

    /* Where an item lies in the tile. */
    PK_D int o_of(int i) {
        const int t = (int)threadIdx.x + i * MM_THREADS;
        return ALONG ? t / 4 : TRANS ? t % (R / 8) * 8 : (t % 4 + t / 64 * 4) * 8;
    }
    PK_D int k_of(int i) {
        const int t = (int)threadIdx.x + i * MM_THREADS;
        return ALONG ? t % 4 * (16 / MM_OB) : TRANS ? t / (R / 8) : t / 4 % 16 * 4;
    }
    PK_D int k_step(int u) {
        return ALONG ? 8 * u : u;
    }
    PK_D int count(pk_i64 at, pk_i64 end) {
        return end - at >= 8 ? 8 : end > at ? (int)(end - at) : 0;
    }
    /* An item's row for reading: one that is there. */
    __device__ __forceinline__ pk_i64 place_of(int i) const {
        const pk_i64 at = o + o_of(i);
        return at < O ? at : ALONG ? O - 1 : 0;
    }

    __device__ __forceinline__ void start(const struct pk_args *g, pk_i64 tile_z, pk_i64 first,
                                          pk_i64 end, pk_i64 depth) {
        z = tile_z, o = first, O = end, K = depth, held = false;
        PK_EACH(ITEMS) {
            const pk_i64 at = place_of(l);
            row[l] = MM_XF(row_init)<8>(g, z, at, ALONG ? 1 : count(at, O));
        }
    }

    __device__ __forceinline__ void load(const struct pk_args *g, pk_i64 k0) {
        (void)g;
        (void)k0;
#if MM_X_LEAVES > 0
        unsigned askew = ALONG ? (unsigned)(K % 8) : 0;
        PK_EACH(ITEMS * UNITS) {
            const int i = l / UNITS;
            const pk_i64 at = place_of(i);
            pk_i64 k = k0 + k_of(i) + k_step(l % UNITS);
            k = k < K ? k : 0;
            if (!ALONG) askew |= O - at < 8;
            askew |= pk_mma_askew<MM_X_LEAF0_BITS>(MM_XF(leaf0)(g, &row[i], z, at, k));
#if MM_X_LEAVES > 1
            askew |= pk_mma_askew<MM_X_LEAF1_BITS>(MM_XF(leaf1)(g, &row[i], z, at, k));
#endif
#if MM_X_LEAVES > 2
            askew |= pk_mma_askew<MM_X_LEAF2_BITS>(MM_XF(leaf2)(g, &row[i], z, at, k));
#endif
#if MM_X_LEAVES > 3
            askew |= pk_mma_askew<MM_X_LEAF3_BITS>(MM_XF(leaf3)(g, &row[i], z, at, k));
#endif
        }
        held = askew == 0;
        if (!held) return;
        PK_EACH(ITEMS * UNITS) {
            const int i = l / UNITS, u = l % UNITS;
            const pk_i64 at = place_of(i);
            pk_i64 k = k0 + k_of(i) + k_step(u);
            k = k < K ? k : 0;
            pk_mma_read<MM_X_LEAF0_BITS>(MM_XF(leaf0)(g, &row[i], z, at, k), raw0[i][u]);
#if MM_X_LEAVES > 1
            pk_mma_read<MM_X_LEAF1_BITS>(MM_XF(leaf1)(g, &row[i], z, at, k), raw1[i][u]);
#endif
#if MM_X_LEAVES > 2
            pk_mma_read<MM_X_LEAF2_BITS>(MM_XF(leaf2)(g, &row[i], z, at, k), raw2[i][u]);
#endif
#if MM_X_LEAVES > 3
            pk_mma_read<MM_X_LEAF3_BITS>(MM_XF(leaf3)(g, &row[i], z, at, k), raw3[i][u]);
#endif
#if MM_X_GROUP > 0
            group[i][u] = MM_XF(group_init)<8>(g, &row[i], z, at, k, 8);
#endif
        }
#endif
    }

    /* Bits of the operand's dtype as the tensor cores take them. */
    PK_D void widen(const unsigned *b, unsigned *w) {
        if constexpr (MM_XD::bits == MM_XT::bits) {
            PK_EACH(WORDS) w[l] = b[l];
        } else {
            pk_widen<MM_XT, MM_XD, 8>(b, w);
        }
    }

    /* Unit u of item i, from what load() read. */
    __device__ __forceinline__ void from_leaves(const struct pk_args *g, int i, int u, pk_i64 k,
                                                unsigned *w) const {
        (void)g, (void)i, (void)u, (void)k;
#if MM_X_LEAVES > 0
#if MM_X_PLAIN
        widen(raw0[i][u], w);
#else
        const auto b = MM_XF(pack)<8>(g, &row[i],
#if MM_X_GROUP > 0
                                      &group[i][u],
#endif
                                      z, place_of(i), k < K ? k : 0, 8, raw0[i][u]
#if MM_X_LEAVES > 1
                                      ,
                                      raw1[i][u]
#endif
#if MM_X_LEAVES > 2
                                      ,
                                      raw2[i][u]
#endif
#if MM_X_LEAVES > 3
                                      ,
                                      raw3[i][u]
#endif
        );
        widen(b.x, w);
#endif
        PK_EACH(WORDS) w[l] = k < K ? w[l] : 0;
#endif
    }

    /* Unit at (at, k), from memory. */
    __device__ __forceinline__ void from_memory(const struct pk_args *g, const row_type &r,
                                                pk_i64 at, pk_i64 k, unsigned *w) const {
        const int cnt = k >= K || at >= O ? 0 : ALONG ? count(k, K) : count(at, O);
        PK_EACH(WORDS) w[l] = 0;
        if (cnt == 0) return;
        pk_lanes<MM_ACC_S, 8> v = MM_XF(at)<8>(g, &r, z, at, k, cnt);
        PK_EACH(8) v.x[l] = l < cnt ? v.x[l] : (MM_ACC_S)0;
        pk_pack_value<MM_XT, 8>(v, w);
    }

    /* An item to its place. */
    PK_D void put(unsigned tile, int i, const unsigned (*w)[WORDS]) {
        const unsigned at = (unsigned)o_of(i), k = (unsigned)k_of(i);
        if constexpr (TRANS) {
            pk_mma_store16(tile + k * (2 * R) + ((at / 8 ^ (k & 7)) << 4), w[0][0], w[0][1],
                           w[0][2], w[0][3]);
        } else if constexpr (MM_OB == 2) {
            pk_mma_store16(tile + at * 64 + ((k / 8 ^ MM(turn)(at)) << 4), w[0][0], w[0][1],
                           w[0][2], w[0][3]);
        } else if constexpr (ALONG) {
            pk_mma_store16(tile + at * 64 + ((k / 16 ^ MM(turn)(at)) << 4), w[0][0], w[0][1],
                           w[1][0], w[1][1]);
        } else {
            PK_EACH(8) { /* byte l of each of 4 steps of k */
                const unsigned which = (unsigned)(l % 4 | (l % 4 + 4) << 4), row = at + l;
                const unsigned low = __byte_perm(w[0][l / 4], w[1][l / 4], which),
                               high = __byte_perm(w[2][l / 4], w[3][l / 4], which);
                pk_mma_store4(tile + row * 64 + ((k / 16 ^ MM(turn)(row)) << 4) + k % 16,
                              __byte_perm(low, high, 0x5410));
            }
        }
    }

    __device__ __forceinline__ void store_memory(const struct pk_args *g, pk_i64 k0, unsigned tile,
                                                 const row_type &r, int i) const {
        unsigned w[UNITS][WORDS];
        _Pragma("unroll") for (int u = 0; u < UNITS; u++)
            from_memory(g, r, o + o_of(i), k0 + k_of(i) + k_step(u), w[u]);
        put(tile, i, w);
    }

    __device__ __forceinline__ void store(const struct pk_args *g, pk_i64 k0, unsigned tile) const {
#if MM_X_LEAVES > 0
        if (held) {
            _Pragma("unroll") for (int i = 0; i < ITEMS; i++) {
                unsigned w[UNITS][WORDS];
                _Pragma("unroll") for (int u = 0; u < UNITS; u++)
                    from_leaves(g, i, u, k0 + k_of(i) + k_step(u), w[u]);
                put(tile, i, w);
            }
            return;
        }
        _Pragma("unroll 1") for (int i = 0; i < ITEMS; i++) {
            const pk_i64 at = place_of(i);
            const row_type r = MM_XF(row_init)<8>(g, z, at, ALONG ? 1 : count(at, O));
            store_memory(g, k0, tile, r, i);
        }
#else
        _Pragma("unroll") for (int i = 0; i < ITEMS; i++) store_memory(g, k0, tile, row[i], i);
#endif
    }
};

#undef MM_XF
#undef MM_XD
#undef MM_XT
#undef MM_X
#undef MM_X_AXIS
#undef MM_X_DTYPE
#undef MM_X_GROUP
#undef MM_X_PLAIN
#undef MM_X_LEAVES
#undef MM_X_LEAF0_BITS
#undef MM_X_LEAF1_BITS
#undef MM_X_LEAF2_BITS
#undef MM_X_LEAF3_BITS
#undef MM_X_WORDS0
#undef MM_X_WORDS1
#undef MM_X_WORDS2
#undef MM_X_WORDS3
