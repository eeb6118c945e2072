/* SPDX-License-Identifier: MIT
 *
 * out(z, m, n) = f(acc), acc(z, m, n) = sum over k of a(z, m, k) b0(z, n, k), for few rows m of A and
 * a B whose bytes lie along n: the time is that of reading B once. Any M is right (blocks of MM_COLS
 * rows of A).
 *
 * B's columns stand on the M side of mma.sync m16n8k16, A's rows are its columns. A unit of work is
 * MM_SPAN columns times 256 steps of k, 32 of them for each of the 8 warps of a block. In a warp, lane
 * 4 r + q has MM_RUN neighbours along n, r * MM_RUN .., of the steps 8 q .. 8 q + 7: which column
 * stands in which row of the instruction does not matter, so column 2 j of a run is row r of tile j,
 * column 2 j + 1 row r + 8. Elements of two steps are brought together by byte permutations. Lanes
 * read what they need themselves, into registers, MM_STAGES units ahead: no lane waits for another
 * before a tile of columns is summed up. (Asynchronous copies to shared memory, lane by lane as well,
 * took 44 us where reading takes 15: the SM does one of 16 bytes in 2.7 clocks.)
 *
 * The units of all tiles, tile by tile, are cut into MM_PARTS parts of equal length, one for each
 * block (Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix
 * Multiplication on the GPU", 2023). A tile that several parts have a share of is finished by the
 * block that is last, from the sums of all, in the order of the parts.
 *
 * K order: a warp takes 16 steps of k at a time (of 32: 8 q + 0 .. 3 of all q, then 4 .. 7), 32 of
 * each 256; the sums of the warps are added in turn, then those of the parts. It depends on the
 * constants below and the sizes.
 *
 * The generator writes this file behind the CUDA prelude and, for each kernel:
 *
 *   #define PK_KERNEL k0           prefix: MM(x) is k0_x; undefined at the end, as every MM_*
 *   #define MM_ACC_S float
 *   #define MM_NB 1
 *   #define MM_A_DTYPE, MM_B0_DTYPE PK_BF16 or PK_F16, both the same
 *   #define MM_A_AXIS 1, MM_B0_AXIS 0
 *   hooks with W = 8 (and 1) for a and b0: x_row, x_row_init, x_value; with MM_X_GROUP, x_group and
 *     x_group_init (of b0: the same for MM_B0_GROUP steps of k, a multiple of 8);
 *   MM_B0_LEAVES 1, MM_B0_LEAF0_BITS 4, 8 or 16, MM(b0_leaf0), MM(b0_pack)<8>; lines of the leaf start
 *     at multiples of 16 bytes from that of the tensor (MM_B0_LEAF0_MAP)
 *   MM_A_PLAIN, MM_A_LEAF0_MAP: A's bytes are copied; else it is evaluated by x_value
 *   MM(c_row)<W>, MM(c_row_init)<W>(g, z, m), MM(c_store)<W>(g, &row, z, m, n, cnt, acc), W = MM_C_W = 4
 *   struct MM(shape) { pk_i64 Z, M, N, K; }; MM(get_shape)(g)
 *
 *   #define MM_RUN 16              columns of a lane: 16, or 8
 *   #define MM_COLS8 2             rows of A in a block, by 8: 1, 2, 4
 *   #define MM_STAGES 2            1, 2 or 3
 *   #define MM_PARTS 132
 *
 * Launch: MM(main), 256 threads, at least one block and at most MM_PARTS, static shared memory.
 * Scratch: with T = Z * ceil(M / MM_COLS) * ceil(N / MM_SPAN), counters, ceil(4 * T / 256) * 256
 * bytes, 0 before and after each launch, then MM_PARTS * 2 * MM_SPAN * MM_COLS * 4 bytes.
 */
#if MM_HIDES
#error "a product that hides infinities needs another template"
#endif
#include "matmul_hooks.h"
#include "matmul_mma_ptx.h"

#define MM_WARPS 8
#define MM_SPAN  (8 * MM_RUN)
#define MM_COLS  (8 * MM_COLS8)
#define MM_TILES (MM_RUN / 2) /* of 16 columns */
#define MM_DEPTH (32 * MM_WARPS)
#if MM_A_DTYPE == PK_BF16
#define MM_T pk_dt_bf16
#else
#define MM_T pk_dt_f16
#endif
#define MM_RUN_BYTES   (MM_RUN * MM_B0_LEAF0_BITS / 8)
#define MM_SUM_BYTES   (MM_WARPS * MM_TILES * 32 * 16) /* of all warps, 8 rows of A */
#define MM_OUT_PITCH   (MM_SPAN + 4)

/* ---- work ------------------------------------------------------------------------------------- */

struct MM(work) {
    pk_i64 M, N, K, down, across, steps; /* blocks of rows, of columns, of k */
    pk_i64 units, parts;
};

PK_D struct MM(work) MM(all_work)(const struct MM(shape) & s) {
    struct MM(work) w = {s.M, s.N, s.K, (s.M + MM_COLS - 1) / MM_COLS,
                         (s.N + MM_SPAN - 1) / MM_SPAN, (s.K + MM_DEPTH - 1) / MM_DEPTH};
    if (w.steps == 0) w.steps = 1; /* the epilogue of 0 */
    w.units = s.Z * w.down * w.across * w.steps;
    w.parts = w.units < MM_PARTS ? w.units : MM_PARTS;
    return w;
}
PK_D pk_i64 MM(start_of)(const struct MM(work) & w, pk_i64 part) {
    return part * w.units / w.parts;
}
PK_D pk_i64 MM(part_of)(const struct MM(work) & w, pk_i64 unit) {
    return ((unit + 1) * w.parts - 1) / w.units;
}

/* MM_SPAN columns and MM_COLS rows, where this lane is in them, and how far along K. */
struct MM(tile) {
    pk_i64 number, z, m0, n0;
    pk_i64 n;                /* first column of this lane's run; beyond the end 0, for nothing */
    pk_i64 k;                /* this lane's first step of k in the unit at hand */
    bool whole;              /* all lanes' runs are inside, and aligned */
    MM(b0_row)<8> row[MM_RUN / 8];
};

PK_D pk_i64 MM(inside)(pk_i64 at, pk_i64 end) {
    return at < end ? at : 0;
}
PK_D int MM(count)(pk_i64 at, pk_i64 end) {
    return end - at >= 8 ? 8 : end > at ? (int)(end - at) : 0;
}

PK_D void MM(enter)(const struct pk_args *g, const struct MM(work) & w, pk_i64 tile,
                    struct MM(tile) & t) {
    const int lane = (int)threadIdx.x % 32;
    t.number = tile;
    t.z = tile / (w.down * w.across);
    const pk_i64 rest = tile % (w.down * w.across);
    t.m0 = rest % w.down * MM_COLS;
    t.n0 = rest / w.down * MM_SPAN;
    t.n = MM(inside)(t.n0 + lane / 4 * MM_RUN, w.N);
    t.k = (int)threadIdx.x / 32 * 32 + lane % 4 * 8;
    _Pragma("unroll") for (int h = 0; h < MM_RUN / 8; h++) {
        const pk_i64 n = MM(inside)(t.n + 8 * h, w.N);
        t.row[h] = MM(b0_row_init)<8>(g, t.z, n, MM(count)(n, w.N));
    }
    const bool mine = t.n + MM_RUN <= w.N && w.K > 0 &&
                      ((pk_u64)MM(b0_leaf0)(g, &t.row[0], t.z, t.n, 0) &
                       (MM_RUN_BYTES < 16 ? MM_RUN_BYTES - 1 : 15)) == 0;
    t.whole = __all_sync(0xffffffffu, mine);
}

/* On to the next unit, of this tile or the next one. */
PK_D void MM(advance)(const struct pk_args *g, const struct MM(work) & w, struct MM(tile) & t) {
    t.k += MM_DEPTH;
    if (t.k - (int)threadIdx.x % 4 * 8 - (int)threadIdx.x / 32 * 32 < w.steps * MM_DEPTH) return;
    MM(enter)(g, w, t.number + 1, t);
}

/* ---- one unit --------------------------------------------------------------------------------- */

/* A lane's part of a unit: 8 runs of B, 8 elements of each of its rows of A. */
struct MM(stage) {
    unsigned b[8][MM_RUN_BYTES / 4], a[MM_COLS8][4];
};

template <int WORDS> PK_D void MM(read)(const void *p, unsigned *w) {
    if constexpr (WORDS >= 4) {
        PK_EACH(WORDS / 4) {
            const uint4 v = __ldg((const uint4 *)p + l);
            w[4 * l] = v.x, w[4 * l + 1] = v.y, w[4 * l + 2] = v.z, w[4 * l + 3] = v.w;
        }
    } else if constexpr (WORDS == 2) {
        const uint2 v = __ldg((const uint2 *)p);
        w[0] = v.x, w[1] = v.y;
    } else {
        w[0] = __ldg((const unsigned *)p);
    }
}

/* 8 elements of each of this lane's rows of A. */
PK_D void MM(request_a)(const struct pk_args *g, const struct MM(work) & w,
                        const struct MM(tile) & t, struct MM(stage) & s) {
    _Pragma("unroll") for (int c = 0; c < MM_COLS8; c++) {
        const pk_i64 m = t.m0 + 8 * c + (int)threadIdx.x % 32 / 4;
        const int cnt = m < w.M ? MM(count)(t.k, w.K) : 0;
        PK_EACH(4) s.a[c][l] = 0;
        if (cnt == 0) continue;
        const MM(a_row)<8> row = MM(a_row_init)<8>(g, t.z, m, 1);
#if MM_A_PLAIN && MM_A_LEAF0_MAP
        const void *p = MM(a_leaf0)(g, &row, t.z, m, t.k);
        if (cnt == 8 && ((pk_u64)p & 15) == 0) {
            MM(read)<4>(p, s.a[c]);
            continue;
        }
#endif
        pk_lanes<float, 8> v = MM(a_at)<8>(g, &row, t.z, m, t.k, cnt);
        PK_EACH(8) v.x[l] = l < cnt ? v.x[l] : 0.0f;
        pk_pack_value<MM_T, 8>(v, s.a[c]);
    }
}

/* A run that ends at n = N, or lies askew: byte by byte. */
PK_D void MM(read_bytes)(const void *p, pk_i64 there, unsigned *w) {
    PK_EACH(MM_RUN_BYTES) {
        const unsigned b = l * 8 / MM_B0_LEAF0_BITS < there ? ((const unsigned char *)p)[l] : 0u;
        w[l / 4] = (l % 4 ? w[l / 4] : 0u) | b << l % 4 * 8;
    }
}

/* The reads of a unit set off. What is not there becomes 0 when it is multiplied. */
PK_D void MM(request)(const struct pk_args *g, const struct MM(work) & w, const struct MM(tile) & t,
                      struct MM(stage) & s) {
    if (t.whole) {
        _Pragma("unroll") for (int i = 0; i < 8; i++) {
            if (t.k + i < w.K)
                MM(read)<MM_RUN_BYTES / 4>(MM(b0_leaf0)(g, &t.row[0], t.z, t.n, t.k + i), s.b[i]);
        }
    } else {
        _Pragma("unroll") for (int i = 0; i < 8; i++) {
            if (t.k + i < w.K)
                MM(read_bytes)(MM(b0_leaf0)(g, &t.row[0], t.z, t.n, t.k + i), w.N - t.n, s.b[i]);
        }
    }
    if (MM_COLS8 <= 2) MM(request_a)(g, w, t, s);
}

/* 8 columns of a step of k as pairs of neighbours along n, half h of a run. */
PK_D void MM(pairs)(const struct pk_args *g, const struct MM(work) & w, const struct MM(tile) & t,
#if MM_B0_GROUP
                    const MM(b0_group)<8> *q,
#endif
                    int h, pk_i64 k, const unsigned *raw, unsigned *out) {
    const bool there = k < w.K;
    const auto b = MM(b0_pack)<8>(g, &t.row[h],
#if MM_B0_GROUP
                                  q,
#endif
                                  t.z, MM(inside)(t.n + 8 * h, w.N), there ? k : 0, 8, raw);
    PK_EACH(4) out[l] = there ? b.x[l] : 0;
}

/* What a unit adds: acc[j][c] for tile j and rows 8 c .. 8 c + 7 of A. */
PK_D void MM(multiply)(const struct pk_args *g, const struct MM(work) & w,
                       const struct MM(tile) & t, struct MM(stage) & x,
                       float (*acc)[MM_COLS8][4]) {
    const pk_i64 k = t.k;
    if (MM_COLS8 > 2) MM(request_a)(g, w, t, x);
#if MM_B0_GROUP
    MM(b0_group)<8> q[MM_RUN / 8];
    _Pragma("unroll") for (int h = 0; h < MM_RUN / 8; h++) {
        const pk_i64 n = MM(inside)(t.n + 8 * h, w.N);
        q[h] = MM(b0_group_init)<8>(g, &t.row[h], t.z, n, MM(inside)(k, w.K), MM(count)(n, w.N));
    }
#endif
    _Pragma("unroll") for (int s = 0; s < 2; s++) {
        _Pragma("unroll") for (int h = 0; h < MM_RUN / 8; h++) {
            unsigned v[4][4];
            _Pragma("unroll") for (int i = 0; i < 4; i++)
                MM(pairs)(g, w, t,
#if MM_B0_GROUP
                                &q[h],
#endif
                                h, k + 4 * s + i, &x.b[4 * s + i][h * MM_B0_LEAF0_BITS / 4], v[i]);
            _Pragma("unroll") for (int j = 0; j < 4; j++) {
                const unsigned a[4] = {__byte_perm(v[0][j], v[1][j], 0x5410),
                                       __byte_perm(v[0][j], v[1][j], 0x7632),
                                       __byte_perm(v[2][j], v[3][j], 0x5410),
                                       __byte_perm(v[2][j], v[3][j], 0x7632)};
                _Pragma("unroll") for (int c = 0; c < MM_COLS8; c++)
                    pk_mma<MM_T, MM_T>::add(acc[4 * h + j][c], a, &x.a[c][2 * s]);
            }
        }
    }
}

/* ---- results ---------------------------------------------------------------------------------- */

PK_D float4 MM(plus)(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* 8 rows of A that are finished, from row m on: from shared memory through the epilogue. */
PK_D void MM(store_rows)(const struct pk_args *g, const struct MM(work) & w, pk_i64 z, pk_i64 m0,
                         pk_i64 n0, const float *out) {
    _Pragma("unroll 1") for (int i = (int)threadIdx.x; i < 8 * (MM_SPAN / 4); i += 32 * MM_WARPS) {
        const pk_i64 m = m0 + i / (MM_SPAN / 4), n = n0 + i % (MM_SPAN / 4) * 4;
        if (m >= w.M || n >= w.N) continue;
        const float *at = out + i / (MM_SPAN / 4) * MM_OUT_PITCH + i % (MM_SPAN / 4) * 4;
        pk_lanes<float, 4> v;
        PK_EACH(4) v.x[l] = at[l];
        const MM(c_row)<4> row = MM(c_row_init)<4>(g, z, m);
        MM(c_store)<4>(g, &row, z, m, n, w.N - n >= 4 ? 4 : (int)(w.N - n), v);
    }
}

/* Lane `lane` of tile j has, of two rows of A, the columns 2 j and 2 j + 1 of its run. */
PK_D void MM(lay_out)(float *out, int i, float4 v) {
    const int lane = i % 32, n = lane / 4 * MM_RUN + i / 32 * 2;
    float *at = out + 2 * (lane % 4) * MM_OUT_PITCH + n;
    at[0] = v.x, at[1] = v.z;
    at[MM_OUT_PITCH] = v.y, at[MM_OUT_PITCH + 1] = v.w;
}

PK_D float4 *MM(slot)(const struct pk_args *g, const struct MM(work) & w, pk_i64 part, pk_i64 tile) {
    const pk_i64 tiles = w.units / w.steps;
    char *sums = (char *)g->scratch + (tiles * 4 + 255) / 256 * 256;
    const pk_i64 second = MM(start_of)(w, part) / w.steps != tile;
    return (float4 *)sums + (part * 2 + second) * (MM_COLS8 * MM_TILES * 32);
}

/* The sums of this block's share of a tile, added up over its warps: stored if it has all of K, else
 * left for the block that is last. */
PK_D void MM(finish)(const struct pk_args *g, const struct MM(work) & w, pk_i64 part,
                     const struct MM(tile) & t, bool alone, const float (*acc)[MM_COLS8][4],
                     float4 *sums, float *out, int *last) {
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    _Pragma("unroll") for (int c = 0; c < MM_COLS8; c++) {
        _Pragma("unroll") for (int j = 0; j < MM_TILES; j++)
            sums[(warp * MM_TILES + j) * 32 + lane] =
                make_float4(acc[j][c][0], acc[j][c][1], acc[j][c][2], acc[j][c][3]);
        __syncthreads();
        for (int i = (int)threadIdx.x; i < MM_TILES * 32; i += 32 * MM_WARPS) {
            float4 v = sums[i];
            _Pragma("unroll") for (int x = 1; x < MM_WARPS; x++)
                v = MM(plus)(v, sums[x * MM_TILES * 32 + i]);
            if (alone)
                MM(lay_out)(out, i, v);
            else
                MM(slot)(g, w, part, t.number)[c * (MM_TILES * 32) + i] = v;
        }
        if (!alone && c == MM_COLS8 - 1) __threadfence();
        __syncthreads();
        if (!alone) continue;
        MM(store_rows)(g, w, t.z, t.m0 + 8 * c, t.n0, out);
        __syncthreads();
    }
    if (alone || threadIdx.x != 0) return;
    /* Nobody waits for the answer before the end of the part. */
    const pk_i64 first = MM(part_of)(w, t.number * w.steps),
                 end = MM(part_of)(w, (t.number + 1) * w.steps - 1);
    int *const counter = (int *)g->scratch + t.number;
    *last = atomicAdd(counter, 1) == (int)(end - first);
    if (*last) *counter = 0;
}

/* A tile whose shares are all there: added up in the order of the parts, and stored. */
PK_D void MM(add_shares)(const struct pk_args *g, const struct MM(work) & w, pk_i64 tile,
                         float *out) {
    const pk_i64 first = MM(part_of)(w, tile * w.steps),
                 last = MM(part_of)(w, (tile + 1) * w.steps - 1);
    const pk_i64 rest = tile % (w.down * w.across);
    enum { EACH = (MM_COLS8 * MM_TILES * 32 + 255) / 256 };
    const int lines = MM_COLS8 * MM_TILES * 32;
    float4 v[EACH];
    _Pragma("unroll") for (int e = 0; e < EACH; e++) {
        const int i = (int)threadIdx.x + 256 * e;
        if (i < lines) v[e] = __ldcg(MM(slot)(g, w, first, tile) + i);
    }
    _Pragma("unroll 1") for (pk_i64 p = first + 1; p <= last; p++) {
        const float4 *const from = MM(slot)(g, w, p, tile);
        _Pragma("unroll") for (int e = 0; e < EACH; e++) {
            const int i = (int)threadIdx.x + 256 * e;
            if (i < lines) v[e] = MM(plus)(v[e], __ldcg(from + i));
        }
    }
    _Pragma("unroll") for (int c = 0; c < MM_COLS8; c++) {
        _Pragma("unroll") for (int e = 0; e < EACH; e++) {
            const int i = (int)threadIdx.x + 256 * e - c * (MM_TILES * 32);
            if (i >= 0 && i < MM_TILES * 32) MM(lay_out)(out, i, v[e]);
        }
        __syncthreads();
        MM(store_rows)(g, w, tile / (w.down * w.across), rest % w.down * MM_COLS + 8 * c,
                       rest / w.down * MM_SPAN, out);
        __syncthreads();
    }
}

/* ---- a part ----------------------------------------------------------------------------------- */

PK_D void MM(clear)(float (*acc)[MM_COLS8][4]) {
    _Pragma("unroll") for (int j = 0; j < MM_TILES; j++)
        _Pragma("unroll") for (int c = 0; c < MM_COLS8; c++) PK_EACH(4) acc[j][c][l] = 0.0f;
}

extern "C" __global__ void __launch_bounds__(32 * MM_WARPS, 1)
    MM(main)(const __grid_constant__ struct pk_args args) {
    __shared__ float4 sums[MM_SUM_BYTES / 16];
    __shared__ float out[8 * MM_OUT_PITCH];
    __shared__ int last[2]; /* of a part's first tile, of its last */
    const struct pk_args *const g = &args;
    const struct MM(work) w = MM(all_work)(MM(get_shape)(g));
    _Pragma("unroll 1") for (pk_i64 part = blockIdx.x; part < w.parts; part += gridDim.x) {
        const pk_i64 start = MM(start_of)(w, part), end = MM(start_of)(w, part + 1);
        const pk_i64 first = start / w.steps, skip = start % w.steps;
        struct MM(tile) ahead, now;
        struct MM(stage) stage[MM_STAGES];
        float acc[MM_TILES][MM_COLS8][4];
        MM(enter)(g, w, first, ahead);
        ahead.k += skip * MM_DEPTH;
        now = ahead;
        MM(clear)(acc);
        if (threadIdx.x < 2) last[threadIdx.x] = 0;
        pk_i64 asked = start; /* units; `ahead` is the next one */
        _Pragma("unroll") for (int i = 0; i < MM_STAGES; i++) {
            if (asked < end) {
                if (i > 0) MM(advance)(g, w, ahead);
                MM(request)(g, w, ahead, stage[i]);
            }
            asked++;
        }
        pk_i64 step = skip;
        int at = 0;
        _Pragma("unroll 1") for (pk_i64 unit = start; unit < end; unit++) {
            const bool more = asked++ < end;
            if (more) MM(advance)(g, w, ahead);
            _Pragma("unroll") for (int i = 0; i < MM_STAGES; i++) {
                if (i != at) continue;
                MM(multiply)(g, w, now, stage[i], acc);
                if (more) MM(request)(g, w, ahead, stage[i]);
            }
            at = at + 1 == MM_STAGES ? 0 : at + 1;
            step++;
            if (step < w.steps && unit + 1 < end) {
                now.k += MM_DEPTH;
                continue;
            }
            MM(finish)(g, w, part, now, step == w.steps && unit + 1 - start >= w.steps, acc, sums,
                       out, last + (now.number != first));
            step = 0;
            MM(clear)(acc);
            if (unit + 1 < end) MM(enter)(g, w, now.number + 1, now);
        }
        __threadfence();
        __syncthreads();
        if (last[0]) MM(add_shares)(g, w, first, out);
        if (last[1]) MM(add_shares)(g, w, now.number, out);
        __syncthreads();
    }
}

#undef MM_WARPS
#undef MM_SPAN
#undef MM_COLS
#undef MM_TILES
#undef MM_DEPTH
#undef MM_T
#undef MM_RUN_BYTES
#undef MM_SUM_BYTES
#undef MM_OUT_PITCH
#undef MM_RUN
#undef MM_COLS8
#undef MM_STAGES
#undef MM_PARTS
#include "matmul_end.h"
