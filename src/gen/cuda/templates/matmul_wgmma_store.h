/* SPDX-License-Identifier: MIT
 * The end of a tile in matmul_wgmma.cu: sums from a consumer's registers to c_store, 8 n of one m at
 * a time, so that 16-bit results are written 16 bytes at a time.
 */

/* The sums are not touched before this: the compiler may not move their use above the wait. */
template <int N> PK_D void MM(finished)(MM_ACC_S (*acc)[MM_COLS / 2]) {
    pk_wgmma_wait<0>();
    _Pragma("unroll") for (int j = 0; j < N; j++)
        _Pragma("unroll") for (int e = 0; e < MM_COLS / 2;
                               e++) asm volatile("" : MM_ACC_C(acc[j][e])::"memory");
}

/* The finished sums of a consumer to c_store. Thread t of the warpgroup holds, of each 8 columns j,
 * columns 2 (t % 4) and the next in rows t / 4 % 8 of its warp's 16 (acc[4 j], acc[4 j + 1]) and 8
 * further down (acc[4 j + 2], acc[4 j + 3]). A part is what becomes 8 n of one m: with MM_SWAP two
 * of them in 32 columns, without it one in 32 columns of one row. Parts of tiles that lie inside are
 * written one after the other without a branch, the others in a loop: less code. */
enum { MM(parts) = MM_SWAP ? MM(mi) * MM_COLS / 32 : MM(mi) * MM_COLS / 16 };

/* What c_load has loaded for c_store: 8 n of one m. */
#if MM_C_LEAVES > 1
#define MM_RAW1(x) , (x).at1
#else
#define MM_RAW1(x)
#endif
#if MM_C_LEAVES > 0
#define MM_RAW(x) , (x).at0 MM_RAW1(x)
struct MM(raw) {
    unsigned at0[(8 * MM_C_LEAF0_BITS + 31) / 32];
#if MM_C_LEAVES > 1
    unsigned at1[(8 * MM_C_LEAF1_BITS + 31) / 32];
#endif
};
#else
#define MM_RAW(x)
struct MM(raw) {};
#endif

template <bool INSIDE>
PK_D void MM(load_8)(const struct pk_args *g, const MM(c_row) < 8 > *row, pk_i64 z, pk_i64 m,
                     pk_i64 n, int cnt, struct MM(raw) * raw) {
#if MM_C_LEAVES > 0
    MM(c_load)<8>(g, row, z, m, n, INSIDE ? 8 : cnt MM_RAW(*raw));
#endif
}
template <bool INSIDE>
PK_D void MM(store_8)(const struct pk_args *g, const MM(c_row) < 8 > *row, pk_i64 z, pk_i64 m,
                      pk_i64 n, int cnt, const pk_lanes<MM_ACC_S, 8> *v,
                      const struct MM(raw) & raw) {
#if MM_NB > 1
    MM(c_store)<8>(g, row, z, m, n, INSIDE ? 8 : cnt, v[0], v[1] MM_RAW(raw));
#else
    MM(c_store)<8>(g, row, z, m, n, INSIDE ? 8 : cnt, v[0] MM_RAW(raw));
#endif
}
PK_D int MM(left)(pk_i64 at, pk_i64 end) {
    return end - at >= 8 ? 8 : end > at ? (int)(end - at) : 0;
}

#if MM_SWAP
/* 32 columns of a warpgroup's 64 rows, turned around in shared memory: threads that are neighbours
 * write neighbours of a line of results. */
enum { MM(part_sums) = 16, MM(part_lines) = 2 };
PK_D void MM(pick_part)(MM_ACC_S (*x)[16], MM_ACC_S (*acc)[MM_COLS / 2], int part) {
    int i = part / (MM_COLS / 32), c = part % (MM_COLS / 32);
    _Pragma("unroll") for (int b = 0; b < MM_NB; b++) _Pragma("unroll") for (int e = 0; e < 16; e++)
        x[b][e] = acc[b * MM(mi) + i][16 * c + e];
}
/* Line p of a part: its m; and the first of a thread's n. */
PK_D pk_i64 MM(part_m)(const struct MM(tile) & tile, int part, int p, unsigned, unsigned t) {
    return tile.col + 32 * (part % (MM_COLS / 32)) + 16 * p + t / 8;
}
PK_D pk_i64 MM(part_n)(const struct MM(tile) & tile, int part, unsigned first, unsigned t) {
    return tile.row + first + 64 * (part / (MM_COLS / 32)) + 8 * (t % 8);
}
template <bool INSIDE>
PK_D void MM(store_part)(const struct pk_args *g, const struct MM(tiles) & tiles,
                         const struct MM(tile) & tile, MM_ACC_S (*x)[16], int part, unsigned first,
                         unsigned group, unsigned turn, unsigned t, struct MM(raw) * raw) {
    unsigned r = t / 32 * 16 + t % 32 / 4, q = t % 4, piece = t % 8, other = piece / 4;
    pk_lanes<MM_ACC_S, 8> v[2][MM_NB];
    _Pragma("unroll") for (int b = 0; b < MM_NB; b++) {
        pk_group_sync(1 + group);
        _Pragma("unroll") for (int e = 0; e < 16; e++) {
            unsigned m = 8 * (e / 4) + 2 * q + e % 2;
            pk_shared_store4(turn + 4 * (m * MM(turn_pitch) + r + 8 * (e / 2 % 2)),
                             pk_cast_bits<unsigned>(x[b][e]));
        }
        pk_group_sync(1 + group);
        /* half of the threads read their second half first: no two in one bank */
        _Pragma("unroll") for (int p = 0; p < 2; p++) {
            unsigned from = turn + 4 * ((16 * p + t / 8) * MM(turn_pitch) + 8 * piece);
            unsigned lo[4], hi[4];
            pk_shared_load<16>(lo, from + 16 * other);
            pk_shared_load<16>(hi, from + 16 - 16 * other);
            PK_EACH(4) {
                v[p][b].x[l] = pk_cast_bits<MM_ACC_S>(other ? hi[l] : lo[l]);
                v[p][b].x[4 + l] = pk_cast_bits<MM_ACC_S>(other ? lo[l] : hi[l]);
            }
        }
    }
    pk_i64 n = MM(part_n)(tile, part, first, t);
    int cnt = INSIDE ? 8 : MM(left)(n, tiles.rows);
    _Pragma("unroll") for (int p = 0; p < 2; p++) {
        pk_i64 m = MM(part_m)(tile, part, p, first, t);
        if (!INSIDE && (m >= tiles.cols || cnt == 0)) continue;
        MM(c_row)<8> row = MM(c_row_init)<8>(g, tile.z, m);
        if (!INSIDE) MM(load_8)<INSIDE>(g, &row, tile.z, m, n, cnt, &raw[p]);
        MM(store_8)<INSIDE>(g, &row, tile.z, m, n, cnt, v[p], raw[p]);
    }
}
#else
enum { MM(part_sums) = 8, MM(part_lines) = 1 };
PK_D void MM(pick_part)(MM_ACC_S (*x)[8], MM_ACC_S (*acc)[MM_COLS / 2], int part) {
    int i = part / (MM_COLS / 16), c = part / 2 % (MM_COLS / 32), h = part % 2;
    _Pragma("unroll") for (int b = 0; b < MM_NB; b++) _Pragma("unroll") for (int e = 0; e < 8; e++)
        x[b][e] = acc[b * MM(mi) + i][16 * c + e / 2 * 4 + 2 * h + e % 2];
}
PK_D pk_i64 MM(part_m)(const struct MM(tile) & tile, int part, int, unsigned first, unsigned t) {
    int i = part / (MM_COLS / 16), h = part % 2;
    return tile.row + first + 64 * i + t % 32 / 4 + t / 32 * 16 + 8 * h;
}
PK_D pk_i64 MM(part_n)(const struct MM(tile) & tile, int part, unsigned, unsigned t) {
    return tile.col + 32 * (part / 2 % (MM_COLS / 32)) + 8 * (t % 4);
}
template <bool INSIDE>
PK_D void MM(store_part)(const struct pk_args *g, const struct MM(tiles) & tiles,
                         const struct MM(tile) & tile, MM_ACC_S (*x)[8], int part, unsigned first,
                         unsigned, unsigned, unsigned t, struct MM(raw) * raw) {
    unsigned q = t % 4;
    pk_lanes<MM_ACC_S, 8> v[MM_NB];
    _Pragma("unroll") for (int b = 0; b < MM_NB; b++) {
        /* 4 x 4 pairs between the 4 threads of a quad: then each has 8 columns side by side, as it
         * has without that when the tile's columns are spread */
        _Pragma("unroll") for (int s = MM_SPREAD ? 4 : 1; s < 4; s *= 2) {
            _Pragma("unroll") for (int e = 0; e < 8; e++) {
                if (e / 2 & s) continue;
                MM_ACC_S &lo = x[b][e], &hi = x[b][e + 2 * s];
                MM_ACC_S got = __shfl_xor_sync(0xffffffffu, q & s ? lo : hi, s);
                lo = q & s ? got : lo;
                hi = q & s ? hi : got;
            }
        }
        PK_EACH(8) v[b].x[l] = x[b][l];
    }
    pk_i64 m = MM(part_m)(tile, part, 0, first, t), n = MM(part_n)(tile, part, first, t);
    int cnt = INSIDE ? 8 : MM(left)(n, tiles.cols);
    if (!INSIDE && (m >= tiles.rows || cnt == 0)) return;
    MM(c_row)<8> row = MM(c_row_init)<8>(g, tile.z, m);
    if (!INSIDE) MM(load_8)<INSIDE>(g, &row, tile.z, m, n, cnt, raw);
    MM(store_8)<INSIDE>(g, &row, tile.z, m, n, cnt, v, *raw);
}
#endif

PK_D bool MM(is_inside)(const struct MM(tiles) & tiles, const struct MM(tile) & tile) {
    return tile.row + MM_ROWS <= tiles.rows && tile.col + MM_COLS <= tiles.cols;
}

/* What the first parts of a tile need is loaded before its sums are finished, the others' while
 * those before them are computed: so many parts ahead. Fragments leave no registers for it. */
enum {
    MM(raw_regs) = MM_C_LEAVES > 0 ? MM(part_lines) * sizeof(struct MM(raw)) / 4 : 32,
    MM(parts_ahead) = MM_REGS || MM(raw_regs) > 16 ? 1
                      : MM(raw_regs) < 4           ? 4
                                                   : 24 / MM(raw_regs)
};
/* Of a tile that lies inside. */
PK_D void MM(load_part)(const struct pk_args *g, const struct MM(tile) & tile,
                        struct MM(raw) (*raw)[MM(part_lines)], int part, unsigned first,
                        unsigned t) {
    pk_i64 n = MM(part_n)(tile, part, first, t);
    _Pragma("unroll") for (int p = 0; p < MM(part_lines); p++) {
        pk_i64 m = MM(part_m)(tile, part, p, first, t);
        MM(c_row)<8> row = MM(c_row_init)<8>(g, tile.z, m);
        MM(load_8)<true>(g, &row, tile.z, m, n, 8, &raw[part % MM(parts_ahead)][p]);
    }
}
PK_D void MM(load_ahead)(const struct pk_args *g, const struct MM(tiles) & tiles,
                         const struct MM(tile) & tile, struct MM(raw) (*raw)[MM(part_lines)],
                         unsigned first, unsigned t) {
    if (MM_C_LEAVES == 0 || MM_REGS || !MM(is_inside)(tiles, tile)) return;
    _Pragma("unroll") for (int p = 0; p < MM(parts_ahead); p++)
        MM(load_part)(g, tile, raw, p, first, t);
}

PK_D void MM(store_tile)(const struct pk_args *g, const struct MM(tiles) & tiles,
                         const struct MM(tile) & tile, MM_ACC_S (*acc)[MM_COLS / 2],
                         struct MM(raw) (*raw)[MM(part_lines)], unsigned first, unsigned group,
                         unsigned turn, unsigned t) {
    constexpr int ahead = MM(parts_ahead);
    if (MM(is_inside)(tiles, tile)) {
        _Pragma("unroll") for (int p = 0; p < MM(parts); p++) {
            MM_ACC_S x[MM_NB][MM(part_sums)];
            MM(pick_part)(x, acc, p);
            if (MM_REGS) MM(load_part)(g, tile, raw, p, first, t);
            MM(store_part)<true>(g, tiles, tile, x, p, first, group, turn, t, raw[p % ahead]);
            if (!MM_REGS && p + ahead < MM(parts)) MM(load_part)(g, tile, raw, p + ahead, first, t);
            /* the compiler must not compute more of them side by side: registers */
            if (p % 2 == 1) __syncwarp();
        }
        return;
    }
    _Pragma("unroll 1") for (int p = 0; p < MM(parts); p++) {
        MM_ACC_S x[MM_NB][MM(part_sums)];
        _Pragma("unroll") for (int i = 0; i < MM(parts); i++) if (p == i) MM(pick_part)(x, acc, i);
        MM(store_part)<false>(g, tiles, tile, x, p, first, group, turn, t, raw[0]);
    }
}
