/* SPDX-License-Identifier: MIT
 * Results of the few-rows template: the sums of a block's warps, of several blocks if K is split
 * over them, added in an order that no timing changes, then stored through the epilogue.
 */

/* Rows of finished sums lie apart by this many elements. */
#define MM_PITCH (16 * MM_TILES + 4)

PK_D void MM(put_result)(MM_ACC_S *out, int t, int b, int c, const struct MM(acc) & v) {
    int lane = (int)threadIdx.x & 31;
    MM_ACC_S *at = out + (b * MM_COLS + 8 * c + 2 * (lane & 3)) * MM_PITCH + 16 * t + lane / 4;
    at[0] = v.x[0], at[MM_PITCH] = v.x[1];
    at[8] = v.x[2], at[MM_PITCH + 8] = v.x[3];
}

/* Adds the warps' sums in their order, and the splits' in theirs; whoever is last to finish a tile
 * has its results. done[t]: it is this block. */
PK_D void MM(finish)(const struct pk_args *g, const struct MM(part) & p, struct MM(acc) * sums,
                     MM_ACC_S *out, unsigned char *done) {
#if MM_SPLIT > 1
    int lane = (int)threadIdx.x & 31;
    struct MM(acc) *all =
        (struct MM(acc) *)((char *)g->scratch + MM(counter_bytes)(MM(all_tiles)(p.Z, p.M, p.N))) +
        p.index * MM_SPLIT * (MM_NB * MM_COLS8 * 32);
#endif
#pragma unroll 1
    for (int i = (int)threadIdx.x / 32; i < p.tiles * MM_NB * MM_COLS8; i += MM_WARPS) {
        int c = i % MM_COLS8, b = i / MM_COLS8 % MM_NB, t = i / MM_COLS8 / MM_NB;
        struct MM(acc) v = MM(get)(MM(sum_at)(sums, t, b, 0, c));
#pragma unroll
        for (int w = 1; w < MM_KGROUPS; w++)
            MM(add)(v, MM(get)(MM(sum_at)(sums, t, b, w, c)));
#if MM_SPLIT > 1
        if (p.splits > 1) {
            MM(put)
            (all + ((t * MM_SPLIT + p.split) * MM_NB + b) * (MM_COLS8 * 32) + c * 32 + lane, v);
            continue;
        }
#endif
        MM(put_result)(out, t, b, c, v);
    }
#if MM_SPLIT > 1
    if (p.splits > 1) {
        __threadfence();
        __syncthreads();
        if ((int)threadIdx.x < p.tiles) {
            int *counter = (int *)g->scratch + p.index + threadIdx.x;
            bool last = atomicAdd(counter, 1) == p.splits - 1;
            if (last) *counter = 0;
            done[threadIdx.x] = last;
        }
        __threadfence();
        __syncthreads();
#pragma unroll 1
        for (int i = (int)threadIdx.x / 32; i < p.tiles * MM_NB * MM_COLS8; i += MM_WARPS) {
            int c = i % MM_COLS8, b = i / MM_COLS8 % MM_NB, t = i / MM_COLS8 / MM_NB;
            if (!done[t]) continue;
            const struct MM(acc) *at =
                all + (t * MM_SPLIT * MM_NB + b) * (MM_COLS8 * 32) + c * 32 + lane;
            struct MM(acc) v = MM(get_far)(at);
#pragma unroll 4
            for (int s = 1; s < p.splits; s++)
                MM(add)(v, MM(get_far)(at + s * (MM_NB * MM_COLS8 * 32)));
            MM(put_result)(out, t, b, c, v);
        }
    }
#endif
    __syncthreads();
}

template <int W> PK_D pk_lanes<MM_ACC_S, W> MM(result)(const MM_ACC_S *out, int b, int m, int n) {
    pk_lanes<MM_ACC_S, W> v;
    const MM_ACC_S *at = out + (b * MM_COLS + m) * MM_PITCH + n;
#pragma unroll
    for (int i = 0; i < W; i++)
        v.x[i] = at[i];
    return v;
}

#if MM_NB == 1
#define MM_SUMS(m, n) MM(result)<MM_C_W>(out, 0, m, n)
#elif MM_NB == 2
#define MM_SUMS(m, n) MM(result)<MM_C_W>(out, 0, m, n), MM(result)<MM_C_W>(out, 1, m, n)
#elif MM_NB == 3
#define MM_SUMS(m, n)                                                                              \
    MM(result)<MM_C_W>(out, 0, m, n), MM(result)<MM_C_W>(out, 1, m, n),                            \
        MM(result)<MM_C_W>(out, 2, m, n)
#else
#define MM_SUMS(m, n)                                                                              \
    MM(result)<MM_C_W>(out, 0, m, n), MM(result)<MM_C_W>(out, 1, m, n),                            \
        MM(result)<MM_C_W>(out, 2, m, n), MM(result)<MM_C_W>(out, 3, m, n)
#endif

PK_D void MM(store_part)(const struct pk_args *g, const struct MM(part) & p, const MM_ACC_S *out,
                         const unsigned char *done) {
    int per = p.tiles * (16 / MM_C_W), rows = (int)MM(min)(p.M - p.m0, MM_COLS);
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < rows * per; i += MM_THREADS) {
        int m = i / per, n = i % per * MM_C_W;
        pk_i64 at = p.tile0 * 16 + n, left = p.N - at;
        if (left <= 0) continue;
#if MM_SPLIT > 1
        if (p.splits > 1 && !done[n / 16]) continue;
#endif
        auto row = MM(c_row_init)<MM_C_W>(g, p.z, p.m0 + m);
        MM(c_store)<MM_C_W>(g, &row, p.z, p.m0 + m, at, left < MM_C_W ? (int)left : MM_C_W,
                            MM_SUMS(m, n));
    }
    (void)done;
}
