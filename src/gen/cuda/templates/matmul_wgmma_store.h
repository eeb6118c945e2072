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

template <bool INSIDE>
PK_D void MM(store_8)(const struct pk_args *g, const MM(c_row) < 8 > *row, pk_i64 z, pk_i64 m,
                      pk_i64 n, int cnt, const pk_lanes<MM_ACC_S, 8> *v) {
#if MM_NB > 1
    MM(c_store)<8>(g, row, z, m, n, INSIDE ? 8 : cnt, v[0], v[1]);
#else
    MM(c_store)<8>(g, row, z, m, n, INSIDE ? 8 : cnt, v[0]);
#endif
}
PK_D int MM(left)(pk_i64 at, pk_i64 end) {
    return end - at >= 8 ? 8 : end > at ? (int)(end - at) : 0;
}

#if MM_SWAP
/* 32 columns of a warpgroup's 64 rows, turned around in shared memory: threads that are neighbours
 * write neighbours of a line of results. */
enum { MM(part_sums) = 16 };
PK_D void MM(pick_part)(MM_ACC_S (*x)[16], MM_ACC_S (*acc)[MM_COLS / 2], int part) {
    int i = part / (MM_COLS / 32), c = part % (MM_COLS / 32);
    _Pragma("unroll") for (int b = 0; b < MM_NB; b++) _Pragma("unroll") for (int e = 0; e < 16; e++)
        x[b][e] = acc[b * MM(mi) + i][16 * c + e];
}
template <bool INSIDE>
PK_D void MM(store_part)(const struct pk_args *g, const struct MM(tiles) & tiles,
                         const struct MM(tile) & tile, MM_ACC_S (*x)[16], int part, unsigned first,
                         unsigned group, unsigned turn, unsigned t) {
    unsigned r = t / 32 * 16 + t % 32 / 4, q = t % 4, piece = t % 8, other = piece / 4;
    int i = part / (MM_COLS / 32), c = part % (MM_COLS / 32);
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
    pk_i64 n = tile.row + first + 64 * i + 8 * piece;
    int cnt = INSIDE ? 8 : MM(left)(n, tiles.rows);
    _Pragma("unroll") for (int p = 0; p < 2; p++) {
        pk_i64 m = tile.col + 32 * c + 16 * p + t / 8;
        if (!INSIDE && (m >= tiles.cols || cnt == 0)) continue;
        MM(c_row)<8> row = MM(c_row_init)<8>(g, tile.z, m);
        MM(store_8)<INSIDE>(g, &row, tile.z, m, n, cnt, v[p]);
    }
}
#else
enum { MM(part_sums) = 8 };
PK_D void MM(pick_part)(MM_ACC_S (*x)[8], MM_ACC_S (*acc)[MM_COLS / 2], int part) {
    int i = part / (MM_COLS / 16), c = part / 2 % (MM_COLS / 32), h = part % 2;
    _Pragma("unroll") for (int b = 0; b < MM_NB; b++) _Pragma("unroll") for (int e = 0; e < 8; e++)
        x[b][e] = acc[b * MM(mi) + i][16 * c + e / 2 * 4 + 2 * h + e % 2];
}
template <bool INSIDE>
PK_D void MM(store_part)(const struct pk_args *g, const struct MM(tiles) & tiles,
                         const struct MM(tile) & tile, MM_ACC_S (*x)[8], int part, unsigned first,
                         unsigned group, unsigned turn, unsigned t) {
    (void)turn, (void)group;
    unsigned q = t % 4;
    int i = part / (MM_COLS / 16), c = part / 2 % (MM_COLS / 32), h = part % 2;
    pk_lanes<MM_ACC_S, 8> v[MM_NB];
    _Pragma("unroll") for (int b = 0; b < MM_NB; b++) {
        /* 4 x 4 pairs between the 4 threads of a quad: then each has 8 columns side by side */
        _Pragma("unroll") for (int s = 1; s < 4; s *= 2) {
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
    pk_i64 m = tile.row + first + 64 * i + t % 32 / 4 + t / 32 * 16 + 8 * h;
    pk_i64 n = tile.col + 32 * c + 8 * q;
    int cnt = INSIDE ? 8 : MM(left)(n, tiles.cols);
    if (!INSIDE && (m >= tiles.rows || cnt == 0)) return;
    MM(c_row)<8> row = MM(c_row_init)<8>(g, tile.z, m);
    MM(store_8)<INSIDE>(g, &row, tile.z, m, n, cnt, v);
}
#endif

PK_D void MM(store_tile)(const struct pk_args *g, const struct MM(tiles) & tiles,
                         const struct MM(tile) & tile, MM_ACC_S (*acc)[MM_COLS / 2], unsigned first,
                         unsigned group, unsigned turn, unsigned t) {
    if (tile.row + MM_ROWS <= tiles.rows && tile.col + MM_COLS <= tiles.cols) {
        _Pragma("unroll") for (int p = 0; p < MM(parts); p++) {
            MM_ACC_S x[MM_NB][MM(part_sums)];
            MM(pick_part)(x, acc, p);
            MM(store_part)<true>(g, tiles, tile, x, p, first, group, turn, t);
            /* so many parts' loads may be under way at one time: registers */
            if (p % 8 == 7) asm volatile("" ::: "memory");
        }
        return;
    }
    _Pragma("unroll 1") for (int p = 0; p < MM(parts); p++) {
        MM_ACC_S x[MM_NB][MM(part_sums)];
        _Pragma("unroll") for (int i = 0; i < MM(parts); i++) if (p == i) MM(pick_part)(x, acc, i);
        MM(store_part)<false>(g, tiles, tile, x, p, first, group, turn, t);
    }
}

#if MM_C_FETCH
/* What the epilogue will read, to the L2 cache while the last products are summed: 64 n at a time. */
PK_D void MM(fetch_tile)(const struct pk_args *g, const struct MM(tiles) & tiles,
                         const struct MM(tile) & tile, int first) {
    constexpr int rows = MM_SWAP ? MM_COLS : MM_ROWS, lines = (MM_SWAP ? MM_ROWS : MM_COLS) / 64;
    pk_i64 m0 = MM_SWAP ? tile.col : tile.row, n0 = MM_SWAP ? tile.row : tile.col;
    pk_i64 M = MM_SWAP ? tiles.cols : tiles.rows, N = MM_SWAP ? tiles.rows : tiles.cols;
    for (int i = first; i < rows * lines; i += MM_TURNS ? 128 : 128 * MM_CONSUMERS) {
        pk_i64 m = m0 + i / lines, n = n0 + i % lines * 64;
        if (m >= M || n >= N) continue;
        MM(c_row)<8> row = MM(c_row_init)<8>(g, tile.z, m);
        MM(c_fetch)<8>(g, &row, tile.z, m, n, N - n < 64 ? (int)(N - n) : 64);
    }
}
#endif
