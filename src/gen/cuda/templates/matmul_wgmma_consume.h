/* SPDX-License-Identifier: MIT
 * What a consumer warpgroup of matmul_wgmma.cu does with a tile.
 */

/* A stage is free for every block that writes into it. */
PK_D void MM(release)(unsigned empty, unsigned stage, unsigned t) {
    unsigned one = MM_REGS ? t % 32 : t;
    if (MM_CLUSTER == 1) {
        if (one == 0) pk_bar_arrive(empty + 8 * stage);
    } else if (one < MM_CLUSTER) {
        pk_bar_arrive_at(empty + 8 * stage, one);
    }
}

/* Step s of a block of K. The columns' tile is all of a consumer's, its rows start at `first`. */
PK_D pk_u64 MM(cols_at)(unsigned stage, int b, int s) {
    unsigned a = stage + MM_ROWS_NB * MM(rows_tile) + b * MM(cols_tile) +
                 (MM(cols_op)::along ? 32 * s : MM_STEP * 128 * s);
    return pk_descriptor_at(pk_descriptor(MM(cols_op)::along ? 16 : MM_BK * 128), a);
}
PK_D pk_u64 MM(rows_at)(unsigned stage, int b, unsigned first, int s) {
    unsigned a = stage + b * MM(rows_tile) +
                 (MM(rows_op)::along ? 128 * first + 32 * s
                                     : first / MM_BK * (MM_BK * 128) + MM_STEP * 128 * s);
    return pk_descriptor_at(pk_descriptor(MM(rows_op)::along ? 16 : MM_BK * 128), a);
}

#if MM_REGS
/* Fragments of one block of K of 16 rows a warp: register 4 s + 2 h + u of a thread holds elements k0
 * + MM_STEP s + MM_STEP / 2 h + MM_PAIR (t % 4) of row t / 4 % 8 + 8 u. */
template <class OP> struct MM(fragment) {
    typename OP::template row<MM_PAIR> row[2];
    typename OP::template part<MM_PAIR> part[2];
    pk_i64 o[2];
    unsigned place[MM(steps)]; /* of the thread's first bytes of a step in a leaf's tile */

    __device__ __forceinline__ void start(const struct pk_args *g, const struct MM(tile) & tile,
                                          pk_i64 end, unsigned first, unsigned t) {
        _Pragma("unroll") for (int u = 0; u < 2; u++) {
            pk_i64 at = tile.row + first + t / 32 * 16 + t % 32 / 4 + 8 * u;
            o[u] = at < end ? at : end - 1;
            row[u] = OP::template row_init<MM_PAIR>(g, tile.z, o[u], MM_PAIR);
        }
        constexpr int B = OP::leaf_bits * MM_BK / 8, some = MM_PAIR * OP::leaf_bits / 8;
        constexpr int step = MM_STEP * OP::leaf_bits / 8;
        unsigned lane = t % 32, r = first + t / 32 * 16;
        _Pragma("unroll") for (int s = 0; s < MM(steps); s++) {
            if constexpr (some == 4)
                place[s] = MM(place)<B>(r + lane % 16, 2 * s + lane / 16);
            else
                place[s] =
                    MM(place)<B>(r + lane / 4, step * s / 16) + step * s % 16 + some * (lane % 4);
        }
    }
    /* The bytes of a leaf for step s; `raw` is its tile in a stage. */
    template <int BITS>
    __device__ __forceinline__ void load(unsigned (*x)[2], unsigned raw, int s) const {
        constexpr int B = BITS * MM_BK / 8, some = MM_PAIR * BITS / 8, step = MM_STEP * BITS / 8;
        if constexpr (some == 4) {
            unsigned y[4];
            pk_ldmatrix(y, raw + place[s]);
            PK_EACH(4) x[l][0] = y[l];
        } else if constexpr (some > 0) {
            _Pragma("unroll") for (int i = 0; i < 4; i++)
                pk_shared_load<some>(x[i], raw + place[s] + i % 2 * (8 * B) + step / 2 * (i / 2));
        }
    }
    template <bool TAIL>
    __device__ __forceinline__ void make(unsigned *w, const struct pk_args *g, pk_i64 z, pk_i64 k0,
                                         pk_i64 K, unsigned raw, unsigned t, int s) {
        constexpr int G = OP::group ? OP::group : 1;
        unsigned x0[4][2], x1[4][2];
        load<OP::leaf_bits>(x0, raw, s);
        load<OP::leaf1_bits>(x1, raw + MM(leaf1_at), s);
        pk_i64 k = k0 + MM_STEP * s;
        if (OP::group && (G % MM_BK == 0 ? s == 0 && k0 % G == 0 : MM_STEP * s % G == 0) &&
            (!TAIL || k < K)) {
            _Pragma("unroll") for (int u = 0; u < 2; u++) part[u] =
                OP::template part_init<MM_PAIR>(g, row[u], z, o[u], k, MM_PAIR);
        }
        _Pragma("unroll") for (int i = 0; i < 4; i++) {
            pk_i64 at = k + MM_STEP / 2 * (i / 2) + MM_PAIR * (t % 4);
            int u = i % 2;
            if constexpr (TAIL) {
                int cnt = K - at >= MM_PAIR ? MM_PAIR : K > at ? (int)(K - at) : 0;
                w[i] = 0;
                if (cnt)
                    w[i] = OP::template pack<MM_PAIR>(g, row[u], part[u], z, o[u], at, cnt, x0[i],
                                                      x1[i])
                               .x[0] &
                           (0xffffffffu >> (32 - 8 * MM_OB * cnt));
            } else {
                w[i] = OP::template pack<MM_PAIR>(g, row[u], part[u], z, o[u], at, MM_PAIR, x0[i],
                                                  x1[i])
                           .x[0];
            }
        }
    }
};
#endif

struct MM(worker) {
    const struct pk_args *g;
    unsigned stages, full, empty, first, t, group; /* group: number of the consumer */
    struct MM(ring) at;
    unsigned last; /* the stage before */
    struct MM(tiles) tiles;
    struct MM(tile) tile;
    bool more; /* with MM_TURNS: another tile follows, of the other consumer */

    __device__ __forceinline__ void finish(MM_ACC_S (*acc)[MM_COLS / 2]) {
#if MM_REGS || !MM_PROMOTE
        MM(finished)<MM(sums)>(acc);
        MM(release)(empty, last, t);
#endif
    }
    /* The stage of the block at k has been filled. Its last block: the other may wait for its first. */
    __device__ __forceinline__ void wait(struct MM(ring) r, pk_i64 k) {
        pk_bar_wait(full + 8 * r.stage, r.phase);
        if (MM_TURNS && more && k + MM_BK >= tiles.K) pk_pass_turn(3 + (group ^ 1));
    }
#if MM_REGS
    struct MM(fragment)<MM(rows_op)> rows[MM(mi)];
#if MM_ROWS_NB > 1
    struct MM(fragment)<MM(rows1_op)> rows1[MM(mi)];
#endif
    unsigned w[2][MM_ROWS_NB * MM(mi)][MM(steps)][4]; /* one is multiplied while one is made */

    __device__ __forceinline__ void start(void) {
        _Pragma("unroll") for (int j = 0; j < MM(mi); j++) {
            rows[j].start(g, tile, tiles.rows, first + 64 * j, t);
#if MM_ROWS_NB > 1
            rows1[j].start(g, tile, tiles.rows, first + 64 * j, t);
#endif
        }
    }
    /* Step s of fragments P of the block at k. */
    template <int P, bool TAIL>
    __device__ __forceinline__ void make(unsigned stage, pk_i64 k, int s) {
        unsigned raw = stages + stage * MM(stage);
        _Pragma("unroll") for (int j = 0; j < MM(mi); j++) {
            rows[j].template make<TAIL>(w[P][j][s], g, tile.z, k, tiles.K, raw, t, s);
#if MM_ROWS_NB > 1
            rows1[j].template make<TAIL>(w[P][MM(mi) + j][s], g, tile.z, k, tiles.K,
                                         raw + MM(rows_tile), t, s);
#endif
        }
    }
    /* The first block of a tile, or the last when it is not whole. */
    template <int P> __device__ __forceinline__ void make_alone(pk_i64 k) {
        wait(at, k);
        if (P == 0 && k + MM_BK <= tiles.K) {
            _Pragma("unroll") for (int s = 0; s < MM(steps); s++) make<P, false>(at.stage, k, s);
        } else {
            _Pragma("unroll") for (int s = 0; s < MM(steps); s++) make<P, true>(at.stage, k, s);
        }
    }
    /* All but the products committed last are done; the next block is there. */
    __device__ __forceinline__ void retire(struct MM(ring) next, pk_i64 k, bool ahead) {
        if (k != 0) {
            pk_wgmma_wait<1>();
            MM(release)(empty, last, t);
        }
        if (ahead) wait(next, k + MM_BK);
    }
    /* Multiplies fragments P, of the block at k. While each step of it is under way, a step of the
     * next block's fragments is made: wgmma are issued in order and hold up what comes behind them.
     * The last blocks, or one that is not whole, are made alone. True: the next are made. */
    template <int P, bool AHEAD>
    __device__ __forceinline__ void multiply(MM_ACC_S (*acc)[MM_COLS / 2], pk_i64 k) {
        unsigned stage = stages + at.stage * MM(stage);
        struct MM(ring) next = at;
        next.next();
        if (MM(copies)) pk_fence_async();
        _Pragma("unroll") for (int s = 0; s < MM(steps); s++) {
            if (AHEAD && MM_INTERLEAVE || s == 0) pk_wgmma_fence();
            _Pragma("unroll") for (int j = 0; j < MM(mi); j++) {
                _Pragma("unroll") for (int b = 0; b < MM_NB; b++)
                    MM(mma_rs)(acc[b * MM(mi) + j], w[P][MM_ROWS_NB > 1 ? b * MM(mi) + j : j][s],
                               MM(cols_at)(stage, MM_COLS_NB > 1 ? b : 0, s), k != 0 || s != 0);
            }
            if (!AHEAD || !MM_INTERLEAVE) continue;
            pk_wgmma_commit();
            if (s == 0) retire(next, k, true);
            make<P ^ 1, false>(next.stage, k + MM_BK, s);
        }
        if (!AHEAD || !MM_INTERLEAVE) {
            pk_wgmma_commit();
            retire(next, k, AHEAD);
            if (AHEAD) {
                _Pragma("unroll") for (int s = 0; s < MM(steps); s++)
                    make<P ^ 1, false>(next.stage, k + MM_BK, s);
            }
        }
        last = at.stage;
        at = next;
    }
    __device__ __forceinline__ void run(MM_ACC_S (*acc)[MM_COLS / 2]) {
        bool made = false;
        for (pk_i64 k = 0;;) {
            if (!made) make_alone<0>(k);
            made = k + 2 * MM_BK <= tiles.K;
            if (made)
                multiply<0, true>(acc, k);
            else
                multiply<0, false>(acc, k);
            k += MM_BK;
            if (k >= tiles.K) break;
            if (!made) make_alone<1>(k);
            made = k + 2 * MM_BK <= tiles.K;
            if (made)
                multiply<1, true>(acc, k);
            else
                multiply<1, false>(acc, k);
            k += MM_BK;
            if (k >= tiles.K) break;
        }
    }
#elif MM_PROMOTE
    __device__ __forceinline__ void start(void) {}
    __device__ __forceinline__ void run(MM_ACC_S (*acc)[MM_COLS / 2]) {
        _Pragma("unroll") for (int j = 0; j < MM(sums); j++)
            _Pragma("unroll") for (int e = 0; e < MM_COLS / 2; e++) acc[j][e] = 0;
        for (pk_i64 k = 0; k < tiles.K; k += MM_BK) {
            unsigned stage = stages + at.stage * MM(stage);
            wait(at, k);
            if (MM(copies)) pk_fence_async();
            _Pragma("unroll") for (int j = 0; j < MM(sums); j++) {
                MM_ACC_S part[MM_COLS / 2];
                int b = j / MM(mi);
                pk_wgmma_fence();
                _Pragma("unroll") for (int s = 0; s < MM(steps); s++) {
                    MM(mma_ss)
                    (part, MM(rows_at)(stage, MM_ROWS_NB > 1 ? b : 0, first + 64 * (j % MM(mi)), s),
                     MM(cols_at)(stage, MM_COLS_NB > 1 ? b : 0, s), s != 0);
                }
                pk_wgmma_commit();
                MM(finished)<1>(&part);
                if (j == MM(sums) - 1) MM(release)(empty, at.stage, t);
                _Pragma("unroll") for (int e = 0; e < MM_COLS / 2; e++) acc[j][e] += part[e];
            }
            at.next();
        }
    }
#else
    __device__ __forceinline__ void start(void) {}
    __device__ __forceinline__ void run(MM_ACC_S (*acc)[MM_COLS / 2]) {
        for (pk_i64 k = 0; k < tiles.K; k += MM_BK) {
            unsigned stage = stages + at.stage * MM(stage);
            wait(at, k);
            if (MM(copies)) pk_fence_async();
            pk_wgmma_fence();
            _Pragma("unroll") for (int s = 0; s < MM(steps); s++) {
                _Pragma("unroll") for (int j = 0; j < MM(mi); j++) {
                    _Pragma("unroll") for (int b = 0; b < MM_NB; b++)
                        MM(mma_ss)(acc[b * MM(mi) + j],
                                   MM(rows_at)(stage, MM_ROWS_NB > 1 ? b : 0, first + 64 * j, s),
                                   MM(cols_at)(stage, MM_COLS_NB > 1 ? b : 0, s), k != 0 || s != 0);
                }
            }
            pk_wgmma_commit();
            if (k != 0) {
                pk_wgmma_wait<1>();
                MM(release)(empty, last, t);
            }
            last = at.stage;
            at.next();
        }
    }
#endif
};

PK_D void MM(consume)(const struct pk_args *g, const struct MM(tiles) & tiles, unsigned stages,
                      unsigned full, unsigned empty, unsigned group, unsigned turn, unsigned t,
                      unsigned rank) {
    struct MM(worker) w;
    w.g = g, w.tiles = tiles, w.stages = stages, w.full = full, w.empty = empty;
    w.first = MM_TURNS ? 0 : group * 64 * MM(mi);
    w.t = t, w.group = group;
    w.at.stage = w.at.phase = 0, w.last = 0;
    unsigned step = gridDim.x / MM_CLUSTER, i = blockIdx.x / MM_CLUSTER, mine = step;
    unsigned blocks = (unsigned)((tiles.K + MM_BK - 1) / MM_BK);
    bool wait = group != 0;
    if (MM_TURNS) {
        mine = 2 * step;
        i += group * step;
        if (group != 0) w.at.skip(blocks);
    }
    for (; i < tiles.n; i += mine) {
        MM_ACC_S acc[MM(sums)][MM_COLS / 2];
        w.tile = MM(get_tile)(tiles, i, rank);
        w.start();
        if (MM_TURNS) {
            if (wait) pk_await_turn(3 + group);
            wait = true;
            w.more = i + step < tiles.n;
        }
        w.run(acc);
        struct MM(raw) raw[MM(parts_ahead)][MM(part_lines)];
        MM(load_ahead)(g, tiles, w.tile, raw, w.first, t);
        w.finish(acc);
        if (MM_TURNS) w.at.skip(blocks);
        MM(store_tile)(g, tiles, w.tile, acc, raw, w.first, group, turn, t);
    }
}
