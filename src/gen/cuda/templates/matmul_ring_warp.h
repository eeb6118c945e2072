/* SPDX-License-Identifier: MIT
 * Products of matmul_ring.cu by single warps, mma.sync m16n8k16: a warp has a tile of 16 rows.
 */

/* The lane's fragment of eight j of unit u, 8 rows c. */
PK_D uint4 MM(x_frag)(unsigned slot, const struct MM(lane) & l, int u, int j, int c) {
#if MM_A_TMA
    const unsigned at = ((slot + l.x) ^ (unsigned)(u * MM_UNIT % 64 / 8 + j) * 16) +
                        MM_X_AT(u * MM_UNIT / 64) + c * 1024;
#else
    const unsigned at = slot + l.x + ((u * MM_J + j) * MM_COLS8 + c) * 512;
#endif
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at));
    return v;
}

/* A unit; k is where this lane's run starts. */
template <int B, bool TAIL>
PK_D void MM(take)(const struct pk_args *g, pk_i64 z, int K, int k, unsigned slot,
                   const struct MM(lane) & lane, int u, const MM(lane_rows) < B > &rows,
                   const typename MM(op_of) < B > ::type::run(&q)[2],
                   struct MM(acc) (&acc)[MM_COLS8]) {
    typedef typename MM(op_of)<B>::type op;
    typename op::run run[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const uint4 v = MM(run_of_lane)(slot, lane, B, u, h);
        run[h] = q[h];
        run[h].w[0] = v.x, run[h].w[1] = v.y, run[h].w[2] = v.z, run[h].w[3] = v.w;
    }
#pragma unroll
    for (int j = 0; j < MM_J; j++) {
        unsigned v[2][MM_REGS];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            op::frag(g, &rows.row[h], &run[h], z, rows.n[h], (unsigned)k, j, v[h]);
            if (TAIL) MM(cut)(v[h], min(K - k - 8 * j, 8));
        }
#pragma unroll
        for (int c = 0; c < MM_COLS8; c++) {
            const uint4 f = MM(x_frag)(slot, lane, u, j, c);
            unsigned xs[4] = {f.x, f.y, f.z, f.w};
            if (MM_A_TMA) MM(reorder)(xs);
            MM(mma)(acc[c], v[0], v[1], xs);
        }
    }
}

template <bool TAIL>
PK_D void MM(stage_sums)(const struct pk_args *g, const struct MM(task) & t, int K, int k0,
                         unsigned slot, const struct MM(lane) & lane, int kgroup,
                         struct MM(all_rows) & r, struct MM(acc) (&acc)[MM_NB][MM_COLS8]) {
    const int k = k0 + kgroup * (MM_UNITS * MM_UNIT);
#define MM_NOW(b)                                                                                  \
    typename MM(op_of)<b>::type::run now##b[MM_UNITS][2];                                          \
    _Pragma("unroll") for (int u = 0; u < MM_UNITS; u++)                                           \
        _Pragma("unroll") for (int h = 0; h < 2; h++) now##b[u][h] = r.r##b.ahead[u][h];           \
    MM(groups)<b>(g, t.z, K, k + MM_STAGE_K, r.r##b);
    MM_EACH_B(MM_NOW)
#pragma unroll
    for (int u = 0; u < MM_UNITS; u++) {
        const int ku = k + u * MM_UNIT + ((int)threadIdx.x & 3) * MM_RUN;
#define MM_TAKE(b) MM(take)<b, TAIL>(g, t.z, K, ku, slot, lane, u, r.r##b, now##b[u], acc[b]);
        MM_EACH_B(MM_TAKE)
    }
}
