/* SPDX-License-Identifier: MIT
 * Operands of matmul_wgmma.cu under one interface: struct MM(x_op) for the hooks of operand x, with
 * or without groups, with or without leaves; and the ways in which their tiles come to shared memory.
 *
 * A tile of R rows (rows of A or of a transposed B) is R rows of 128 bytes along k, 16-byte pieces
 * swizzled as wgmma and the copy engine do it (piece ^= row % 8); raw bytes of a leaf that is
 * narrower make rows of 64 or 32 bytes, swizzled in their own way. A tile whose lanes run across
 * rows is, for each 128 bytes of rows, MM_BK lines of one k.
 */

#if MM_A_LEAVES > 1
#define MM_A_RAW1 , raw1
#else
#define MM_A_RAW1
#endif
#if !MM_A_GROUP
#define MM_A_Q
template <int W> struct MM(a_group) {};
#else
#define MM_A_Q , &q
#endif
#if MM_B0_LEAVES > 1
#define MM_B0_RAW1 , raw1
#else
#define MM_B0_RAW1
#endif
#if !MM_B0_GROUP
#define MM_B0_Q
template <int W> struct MM(b0_group) {};
#else
#define MM_B0_Q , &q
#endif
#if MM_B1_LEAVES > 1
#define MM_B1_RAW1 , raw1
#else
#define MM_B1_RAW1
#endif
#if !MM_B1_GROUP
#define MM_B1_Q
template <int W> struct MM(b1_group) {};
#else
#define MM_B1_Q , &q
#endif

#define MM_NO_GROUP(x)                                                                             \
    template <int W>                                                                               \
    PK_D MM(x##_group)<W> MM(x##_group_init)(const struct pk_args *, const MM(x##_row) < W > *,    \
                                             pk_i64, pk_i64, pk_i64, int) {                        \
        return MM(x##_group)<W>();                                                                 \
    }
#define MM_NO_LEAF(x)                                                                              \
    PK_D const void *MM(x##_leaf0)(const struct pk_args *, const MM(x##_row) < 1 > *, pk_i64,      \
                                   pk_i64, pk_i64) {                                               \
        return 0;                                                                                  \
    }
#define MM_NO_PACK(x)                                                                              \
    template <int W, class... T> PK_D pk_bits<1> MM(x##_pack)(T...) {                              \
        return pk_bits<1>();                                                                       \
    }

#define MM_OPERAND(x, X)                                                                           \
    struct MM(x##_op) {                                                                            \
        enum {                                                                                     \
            feed = MM_##X##_FEED,                                                                  \
            along = MM_##X##_AXIS,                                                                 \
            group = MM_##X##_GROUP,                                                                \
            leaf_bits = MM_##X##_LEAF0_BITS,                                                       \
            leaf1_bits = MM_##X##_LEAVES > 1 ? MM_##X##_LEAF1_BITS : 0,                            \
            each = MM_##X##_LEAF0_EACH,                                                            \
            batched = MM_##X##_MAP_Z                                                               \
        };                                                                                         \
        template <int W> using row = MM(x##_row)<W>;                                               \
        template <int W> using part = MM(x##_group)<W>;                                            \
        template <int W>                                                                           \
        PK_D row<W> row_init(const struct pk_args *g, pk_i64 z, pk_i64 o, int n) {                 \
            return MM(x##_row_init)<W>(g, z, o, n);                                                \
        }                                                                                          \
        template <int W>                                                                           \
        PK_D part<W> part_init(const struct pk_args *g, const row<W> &r, pk_i64 z, pk_i64 o,       \
                               pk_i64 k, int n) {                                                  \
            return MM(x##_group_init)<W>(g, &r, z, o, k, n);                                       \
        }                                                                                          \
        template <int W>                                                                           \
        PK_D pk_lanes<MM_ACC_S, W> value(const struct pk_args *g, const row<W> &r,                 \
                                         const part<W> &q, pk_i64 z, pk_i64 o, pk_i64 k, int n) {  \
            (void)q;                                                                               \
            return MM(x##_value)<W>(g, &r MM_##X##_Q, z, o, k, n);                                 \
        }                                                                                          \
        PK_D const char *leaf(const struct pk_args *g, const row<1> &r, pk_i64 z, pk_i64 o,        \
                              pk_i64 k) {                                                          \
            return (const char *)MM(x##_leaf0)(g, &r, z, o, k);                                    \
        }                                                                                          \
        template <int W>                                                                           \
        PK_D pk_bits<1> pack(const struct pk_args *g, const row<W> &r, const part<W> &q, pk_i64 z, \
                             pk_i64 o, pk_i64 k, int n, const unsigned *raw0,                      \
                             const unsigned *raw1) {                                               \
            (void)q;                                                                               \
            (void)raw1;                                                                            \
            pk_bits<1> same = {{raw0[0]}};                                                         \
            if constexpr (MM_##X##_PLAIN)                                                          \
                return same;                                                                       \
            else                                                                                   \
                return MM(x##_pack)<W>(g, &r MM_##X##_Q, z, o, k, n, raw0 MM_##X##_RAW1);          \
        }                                                                                          \
    };

#if !MM_A_GROUP
MM_NO_GROUP(a)
#endif
#if !MM_A_LEAVES
MM_NO_LEAF(a)
MM_NO_PACK(a)
#endif
MM_OPERAND(a, A)
#if !MM_B0_GROUP
MM_NO_GROUP(b0)
#endif
#if !MM_B0_LEAVES
MM_NO_LEAF(b0)
MM_NO_PACK(b0)
#endif
MM_OPERAND(b0, B0)
#if MM_NB > 1
#if !MM_B1_GROUP
MM_NO_GROUP(b1)
#endif
#if !MM_B1_LEAVES
MM_NO_LEAF(b1)
MM_NO_PACK(b1)
#endif
MM_OPERAND(b1, B1)
#endif

/* Where 16-byte piece `piece` of a row lies in a tile of rows of BYTES bytes. */
template <int BYTES> PK_D unsigned MM(place)(unsigned row, unsigned piece) {
    unsigned turn = BYTES == 128 ? row & 7 : BYTES == 64 ? (row >> 1) & 3 : (row >> 2) & 1;
    return row * BYTES + ((piece ^ turn) << 4);
}

/* Numbers as the bits of the operand's dtype: 16 bytes. */
PK_D void MM(round16)(unsigned *w, const pk_lanes<MM_ACC_S, MM_PIECE> &v) {
    PK_EACH(4) {
#if MM_OB == 4
        w[l] = __float_as_uint(v.x[l]);
#elif MM_A_DTYPE == PK_BF16
        w[l] = pk_pack_bf16(v.x[2 * l], v.x[2 * l + 1]);
#elif MM_A_DTYPE == PK_F16
        w[l] = pk_pack_f16(v.x[2 * l], v.x[2 * l + 1]);
#elif MM_A_DTYPE == PK_E4M3
        w[l] = pk_pack_e4m3(v.x[4 * l], v.x[4 * l + 1], v.x[4 * l + 2], v.x[4 * l + 3]);
#elif MM_A_DTYPE == PK_E5M2
        w[l] = pk_pack_e5m2(v.x[4 * l], v.x[4 * l + 1], v.x[4 * l + 2], v.x[4 * l + 3]);
#else
        w[l] = ((unsigned)v.x[4 * l] & 255) | ((unsigned)v.x[4 * l + 1] & 255) << 8 |
               ((unsigned)v.x[4 * l + 2] & 255) << 16 | (unsigned)v.x[4 * l + 3] << 24;
#endif
    }
}

/* A box of ROWS rows and one block of K by the copy engine, into this block or, a part of it each,
 * into all blocks of the cluster. */
template <class OP, int ROWS, int BYTES, bool SHARED, bool SPREAD>
PK_D void MM(load_box)(unsigned dst, const pk_tensor_map *map, unsigned bar, pk_i64 z, pk_i64 o,
                       pk_i64 k, unsigned rank) {
    int c2 = OP::batched ? (int)z : 0;
    constexpr int parts = SHARED ? MM_CLUSTER : 1;
    if constexpr (OP::along) {
        constexpr int rows = ROWS / parts;
        int first = SHARED ? (int)rank * rows : 0;
        /* sub-byte leaves: the map counts bytes */
        int c0 = (int)(OP::leaf_bits && OP::leaf_bits < 8 ? k * OP::leaf_bits / 8 : k);
        constexpr unsigned short all = (unsigned short)((1 << MM_CLUSTER) - 1);
        if constexpr (SPREAD && parts > 1)
            pk_tma_multicast_5(dst + first * BYTES, map, bar, c0, ((int)o + first) / 32, all);
        else if constexpr (SPREAD)
            pk_tma_load_5(dst, map, bar, c0, (int)o / 32);
        else if constexpr (parts > 1)
            pk_tma_multicast(dst + first * BYTES, map, bar, c0, (int)o + first, c2, all);
        else
            pk_tma_load(dst, map, bar, c0, (int)o, c2);
    } else {
        constexpr int n = ROWS / MM_BK / parts;
        int first = SHARED ? (int)rank * n : 0;
        _Pragma("unroll") for (int i = 0; i < n; i++) {
            unsigned to = dst + (first + i) * (MM_BK * 128);
            int c0 = (int)o + (first + i) * MM_BK;
            if constexpr (parts > 1)
                pk_tma_multicast(to, map, bar, c0, (int)k, c2,
                                 (unsigned short)((1 << MM_CLUSTER) - 1));
            else
                pk_tma_load(to, map, bar, c0, (int)k, c2);
        }
    }
}

/* Rows by their addresses: 128 threads, 16 bytes each at a time. */
template <class OP, int ROWS, int BYTES> struct MM(copier) {
    enum { pieces = BYTES / 16, step = 128 / pieces, n = ROWS / step };
    typename OP::template row<1> row[OP::each ? n : 1];
    const char *from[OP::each ? 1 : n];
    pk_i64 z, o;
    unsigned inside;
    __device__ __forceinline__ void start(const struct pk_args *g, pk_i64 tile_z, pk_i64 first,
                                          pk_i64 end, unsigned t) {
        z = tile_z, o = first, inside = 0;
        _Pragma("unroll") for (int i = 0; i < n; i++) {
            pk_i64 at = o + t / pieces + i * step;
            if (at < end) inside |= 1u << i;
            at = at < end ? at : o;
            typename OP::template row<1> r = OP::template row_init<1>(g, z, at, 1);
            if constexpr (OP::each)
                row[i] = r;
            else
                from[i] = OP::leaf(g, r, z, at, 0);
        }
    }
    /* bytes: the length of a row */
    __device__ __forceinline__ void fill(unsigned dst, const struct pk_args *g, pk_i64 k,
                                         pk_i64 bytes, unsigned t) const {
        pk_i64 ahead = k * OP::leaf_bits / 8 + 16 * (t % pieces), left = bytes - ahead;
        int some = left <= 0 ? 0 : left < 16 ? (int)left : 16;
        ahead = left <= 0 ? 0 : ahead;
        _Pragma("unroll") for (int i = 0; i < n; i++) {
            bool in = inside >> i & 1;
            const char *p;
            if constexpr (OP::each)
                p = OP::leaf(g, row[i], z, in ? o + t / pieces + i * step : o,
                             ahead * 8 / OP::leaf_bits);
            else
                p = from[i] + ahead;
            pk_copy16(dst + MM(place) < BYTES > (t / pieces + i * step, t % pieces), p,
                      in ? some : 0);
        }
    }
};

/* Computed pieces: 128 threads evaluate x_value, 16 bytes of the operand's dtype at a time. */
template <class OP, int ROWS> struct MM(maker) {
    enum {
        n = ROWS * 8 / 128, /* of a thread */
        kept = OP::along && n * sizeof(typename OP::template row<MM_PIECE>) <= 128,
        across = ROWS / MM_PIECE /* pieces side by side where lanes run across rows */
    };
    typedef typename OP::template row<MM_PIECE> row_type;
    row_type row[OP::along && kept ? n : 1];
    pk_i64 z, o, end;
    unsigned t;
    bool whole; /* all rows of the tile are there */

    __device__ __forceinline__ pk_i64 row_of(int i) const {
        return OP::along ? o + t / 8 + i * 16 : o + t % across * MM_PIECE;
    }
    __device__ __forceinline__ pk_i64 k_of(int i) const {
        return OP::along ? t % 8 * MM_PIECE : t / across + i * (128 / across);
    }
    PK_D int count(pk_i64 at, pk_i64 end) {
        return end - at >= MM_PIECE ? MM_PIECE : end > at ? (int)(end - at) : 0;
    }
    __device__ __forceinline__ void start(const struct pk_args *g, pk_i64 tile_z, pk_i64 first,
                                          pk_i64 limit, unsigned thread) {
        z = tile_z, o = first, end = limit, t = thread, whole = first + ROWS <= limit;
        if (!whole) return;
        if constexpr (!OP::along) {
            row[0] = OP::template row_init<MM_PIECE>(g, z, row_of(0), MM_PIECE);
        } else if constexpr (kept) {
            _Pragma("unroll") for (int i = 0; i < n; i++) row[i] =
                OP::template row_init<MM_PIECE>(g, z, row_of(i), MM_PIECE);
        }
    }
    __device__ __forceinline__ void place(unsigned dst, const unsigned *w, int i) const {
        unsigned k = t / across + i * (128 / across), c = t % across;
        pk_shared_store16(dst + (OP::along ? MM(place) < 128 > (t / 8 + i * 16, t % 8)
                                           : c / 8 * (MM_BK * 128) + MM(place) < 128 > (k, c % 8)),
                          w);
    }
    /* N pieces of a block inside the operand: no branch, so that all loads are under way at once. */
    template <int N>
    __device__ __forceinline__ void make(unsigned (*w)[4], const struct pk_args *g, pk_i64 k0,
                                         int from) const {
        _Pragma("unroll") for (int j = 0; j < N; j++) {
            int i = from + j;
            pk_i64 k = k0 + k_of(i);
            row_type r;
            if constexpr (OP::along && !kept)
                r = OP::template row_init<MM_PIECE>(g, z, row_of(i), MM_PIECE);
            else
                r = row[OP::along ? i : 0];
            typename OP::template part<MM_PIECE> q =
                OP::template part_init<MM_PIECE>(g, r, z, row_of(i), k, MM_PIECE);
            MM(round16)(w[j], OP::template value<MM_PIECE>(g, r, q, z, row_of(i), k, MM_PIECE));
        }
    }
    template <int N>
    __device__ __forceinline__ void store(unsigned dst, const unsigned (*w)[4], int from) const {
        _Pragma("unroll") for (int j = 0; j < N; j++) place(dst, w[j], from + j);
    }
    /* A block at an edge, piece by piece. */
    __device__ __forceinline__ void edge(unsigned dst, const struct pk_args *g, pk_i64 k0,
                                         pk_i64 K) const {
        _Pragma("unroll 1") for (int i = 0; i < n; i++) {
            unsigned w[4] = {0, 0, 0, 0};
            pk_i64 at = row_of(i), k = k0 + k_of(i);
            if (at < end && k < K) {
                int cnt = OP::along ? count(k, K) : count(at, end);
                row_type r = OP::template row_init<MM_PIECE>(g, z, at, OP::along ? MM_PIECE : cnt);
                typename OP::template part<MM_PIECE> q =
                    OP::template part_init<MM_PIECE>(g, r, z, at, k, cnt);
                pk_lanes<MM_ACC_S, MM_PIECE> v =
                    OP::template value<MM_PIECE>(g, r, q, z, at, k, cnt);
                PK_EACH(MM_PIECE) v.x[l] = l < cnt ? v.x[l] : 0;
                MM(round16)(w, v);
            }
            place(dst, w, i);
        }
    }
};
