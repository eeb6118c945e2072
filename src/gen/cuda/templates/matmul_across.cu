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
 * copy what they will read themselves, asynchronously, MM_STAGES units deep: no lane waits for
 * another before a tile of columns is summed up.
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
 *   #define MM_COLS8 2             rows of A in a block, by 8: 1, 2, 4, 8
 *   #define MM_STAGES 4
 *   #define MM_PARTS 132
 *
 * Launch: MM(main), 256 threads, at least one block and at most MM_PARTS, MM_BYTES of shared memory.
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
/* Bytes of a lane in a stage: 8 runs of B, 8 elements of each of its rows of A. */
#define MM_RUN_BYTES   (MM_RUN * MM_B0_LEAF0_BITS / 8)
#define MM_B_BYTES     (8 * MM_RUN_BYTES)
#define MM_A_BYTES     (16 * MM_COLS8)
#define MM_STAGE_BYTES (MM_WARPS * 32 * (MM_B_BYTES + MM_A_BYTES))
#define MM_SUM_BYTES   (MM_WARPS * MM_TILES * 32 * 16) /* of all warps, 8 rows of A */
#define MM_OUT_PITCH   (MM_SPAN + 4)
#define MM_BYTES       (MM_STAGES * MM_STAGE_BYTES + MM_SUM_BYTES + 8 * MM_OUT_PITCH * 4 + 16)

/* ---- asynchronous copies ---------------------------------------------------------------------- */

/* BYTES (4, 8, 16) from p, the first `there` of them; the others become 0. */
template <int BYTES> PK_D void MM(copy)(unsigned to, const void *p, int there) {
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(p),
                     "r"(there)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(p), "n"(BYTES),
                     "r"(there)
                     : "memory");
}
PK_D void MM(commit)() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int LEFT> PK_D void MM(arrived)() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
PK_D uint4 MM(read16)(unsigned a) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(a)
                 : "memory");
    return v;
}

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

/* MM_SPAN columns and MM_COLS rows, where this lane is in them. */
struct MM(tile) {
    pk_i64 z, m0, n;            /* n: first column of this lane's run */
    bool whole;                 /* of its run: it is inside, and aligned */
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
    t.z = tile / (w.down * w.across);
    const pk_i64 rest = tile % (w.down * w.across);
    t.m0 = rest % w.down * MM_COLS;
    t.n = rest / w.down * MM_SPAN + lane / 4 * MM_RUN;
    _Pragma("unroll") for (int h = 0; h < MM_RUN / 8; h++) {
        const pk_i64 n = MM(inside)(t.n + 8 * h, w.N);
        t.row[h] = MM(b0_row_init)<8>(g, t.z, n, MM(count)(n, w.N));
    }
    t.whole = t.n + MM_RUN <= w.N && w.K > 0 &&
              ((pk_u64)MM(b0_leaf0)(g, &t.row[0], t.z, t.n, 0) &
               (MM_RUN_BYTES < 16 ? MM_RUN_BYTES - 1 : 15)) == 0;
}

/* First step of k of this lane in a unit. */
PK_D pk_i64 MM(k_of)(const struct MM(work) & w, pk_i64 unit) {
    return unit % w.steps * MM_DEPTH + (int)threadIdx.x / 32 * 32 + (int)threadIdx.x % 4 * 8;
}

/* ---- one unit --------------------------------------------------------------------------------- */

/* Where this lane's bytes of a stage are: its runs lie 512 bytes apart, lanes beside each other. */
PK_D unsigned MM(place)(unsigned base, int stage) {
    return base + (unsigned)stage * MM_STAGE_BYTES +
           threadIdx.x / 32 * (32 * (MM_B_BYTES + MM_A_BYTES)) +
           threadIdx.x % 32 * (MM_RUN_BYTES < 16 ? MM_RUN_BYTES : 16);
}
PK_D unsigned MM(a_place)(unsigned base, int stage, int c) {
    return base + (unsigned)stage * MM_STAGE_BYTES +
           threadIdx.x / 32 * (32 * (MM_B_BYTES + MM_A_BYTES)) + 32 * MM_B_BYTES + c * 512 +
           threadIdx.x % 32 * 16;
}

/* The bytes of a unit set off. */
PK_D void MM(request)(const struct pk_args *g, const struct MM(work) & w, const struct MM(tile) & t,
                      pk_i64 k, unsigned base, int stage) {
    const unsigned to = MM(place)(base, stage);
    if (t.whole) {
        _Pragma("unroll") for (int i = 0; i < 8; i++) {
            if (k + i >= w.K) break;
            const char *p = (const char *)MM(b0_leaf0)(g, &t.row[0], t.z, t.n, k + i);
            if constexpr (MM_RUN_BYTES >= 16) {
                _Pragma("unroll") for (int j = 0; j < MM_RUN_BYTES / 16; j++)
                    MM(copy)<16>(to + (unsigned)(i * MM_RUN_BYTES / 16 + j) * 512, p + 16 * j, 16);
            } else {
                MM(copy)<MM_RUN_BYTES>(to + (unsigned)i * 32 * MM_RUN_BYTES, p, MM_RUN_BYTES);
            }
        }
    }
    _Pragma("unroll") for (int c = 0; c < MM_COLS8; c++) {
        const pk_i64 m = t.m0 + 8 * c + (int)threadIdx.x % 32 / 4;
        const unsigned at = MM(a_place)(base, stage, c);
        if (m >= w.M || k >= w.K) { /* zeros; no row of A is asked for what it has not */
            pk_mma_store16(at, 0, 0, 0, 0);
            continue;
        }
        const MM(a_row)<8> row = MM(a_row_init)<8>(g, t.z, m, 1);
        const int cnt = MM(count)(k, w.K);
#if MM_A_PLAIN && MM_A_LEAF0_MAP
        const void *p = MM(a_leaf0)(g, &row, t.z, m, k);
        if (((pk_u64)p & 15) == 0) {
            MM(copy)<16>(at, p, 2 * cnt);
            continue;
        }
#endif
        pk_lanes<float, 8> v = MM(a_at)<8>(g, &row, t.z, m, k, cnt);
        unsigned b[4];
        PK_EACH(8) v.x[l] = l < cnt ? v.x[l] : 0.0f;
        pk_pack_value<MM_T, 8>(v, b);
        pk_mma_store16(at, b[0], b[1], b[2], b[3]);
    }
    MM(commit)();
}

/* 8 columns of a step of k as pairs of neighbours along n: half h of a run. */
PK_D void MM(pairs)(const struct pk_args *g, const struct MM(work) & w, const struct MM(tile) & t,
#if MM_B0_GROUP
                    const MM(b0_group)<8> *q,
#endif
                    int h, pk_i64 k, const unsigned *raw, unsigned *out) {
    const pk_i64 n = t.n + 8 * h;
    if (t.whole) {
        const auto b = MM(b0_pack)<8>(g, &t.row[h],
#if MM_B0_GROUP
                                      q,
#endif
                                      t.z, n, k < w.K ? k : 0, 8, raw);
        PK_EACH(4) out[l] = k < w.K ? b.x[l] : 0;
        return;
    }
    const int cnt = k < w.K ? MM(count)(n, w.N) : 0;
    PK_EACH(4) out[l] = 0;
    if (cnt == 0) return;
    pk_lanes<float, 8> v = MM(b0_value)<8>(g, &t.row[h],
#if MM_B0_GROUP
                                           q,
#endif
                                           t.z, n, k, cnt);
    PK_EACH(8) v.x[l] = l < cnt ? v.x[l] : 0.0f;
    pk_pack_value<MM_T, 8>(v, out);
}

/* What a unit adds: acc[j][c] for tile j and rows 8 c .. 8 c + 7 of A. */
PK_D void MM(multiply)(const struct pk_args *g, const struct MM(work) & w,
                       const struct MM(tile) & t, pk_i64 k, unsigned base, int stage,
                       float (*acc)[MM_COLS8][4]) {
    const unsigned from = MM(place)(base, stage);
    uint4 x[MM_COLS8];
    _Pragma("unroll") for (int c = 0; c < MM_COLS8; c++)
        x[c] = MM(read16)(MM(a_place)(base, stage, c));
#if MM_B0_GROUP
    MM(b0_group)<8> q[MM_RUN / 8];
    _Pragma("unroll") for (int h = 0; h < MM_RUN / 8; h++) {
        const pk_i64 n = MM(inside)(t.n + 8 * h, w.N);
        q[h] = MM(b0_group_init)<8>(g, &t.row[h], t.z, n, MM(inside)(k, w.K), MM(count)(n, w.N));
    }
#endif
    _Pragma("unroll") for (int s = 0; s < 2; s++) {
        unsigned raw[4][MM_RUN_BYTES / 4];
        _Pragma("unroll") for (int i = 0; i < 4; i++) {
            if constexpr (MM_RUN_BYTES >= 16) {
                _Pragma("unroll") for (int j = 0; j < MM_RUN_BYTES / 16; j++) {
                    const uint4 v = MM(read16)(
                        from + (unsigned)((4 * s + i) * MM_RUN_BYTES / 16 + j) * 512);
                    raw[i][4 * j] = v.x, raw[i][4 * j + 1] = v.y;
                    raw[i][4 * j + 2] = v.z, raw[i][4 * j + 3] = v.w;
                }
            } else {
                PK_EACH(MM_RUN_BYTES / 4)
                asm volatile("ld.shared.u32 %0, [%1];"
                             : "=r"(raw[i][l])
                             : "r"(from + (unsigned)(4 * s + i) * 32 * MM_RUN_BYTES + 4 * l)
                             : "memory");
            }
        }
        _Pragma("unroll") for (int h = 0; h < MM_RUN / 8; h++) {
            unsigned v[4][4];
            _Pragma("unroll") for (int i = 0; i < 4; i++)
                MM(pairs)(g, w, t,
#if MM_B0_GROUP
                          &q[h],
#endif
                          h, k + 4 * s + i, &raw[i][h * MM_B0_LEAF0_BITS / 4], v[i]);
            _Pragma("unroll") for (int j = 0; j < 4; j++) {
                const unsigned a[4] = {__byte_perm(v[0][j], v[1][j], 0x5410),
                                       __byte_perm(v[0][j], v[1][j], 0x7632),
                                       __byte_perm(v[2][j], v[3][j], 0x5410),
                                       __byte_perm(v[2][j], v[3][j], 0x7632)};
                _Pragma("unroll") for (int c = 0; c < MM_COLS8; c++) {
                    const unsigned b[2] = {s == 0 ? x[c].x : x[c].z, s == 0 ? x[c].y : x[c].w};
                    pk_mma<MM_T, MM_T>::add(acc[4 * h + j][c], a, b);
                }
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

/* The sums of this block's share of a tile: added up over its warps, and over the parts if it is the
 * last; stored. */
PK_D void MM(finish)(const struct pk_args *g, const struct MM(work) & w, pk_i64 part, pk_i64 tile,
                     const struct MM(tile) & t, bool alone, const float (*acc)[MM_COLS8][4],
                     float4 *sums, float *out, int *flag) {
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const pk_i64 n0 = t.n - lane / 4 * MM_RUN;
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
                MM(slot)(g, w, part, tile)[c * (MM_TILES * 32) + i] = v;
        }
        __syncthreads();
        if (!alone) continue;
        MM(store_rows)(g, w, t.z, t.m0 + 8 * c, n0, out);
        __syncthreads();
    }
    if (alone) return;
    const pk_i64 first = MM(part_of)(w, tile * w.steps),
                 last = MM(part_of)(w, (tile + 1) * w.steps - 1);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        int *counter = (int *)g->scratch + tile;
        const bool mine = atomicAdd(counter, 1) == (int)(last - first);
        if (mine) *counter = 0;
        *flag = mine;
    }
    __threadfence();
    __syncthreads();
    if (!*flag) return;
    _Pragma("unroll 1") for (int c = 0; c < MM_COLS8; c++) {
        for (int i = (int)threadIdx.x; i < MM_TILES * 32; i += 32 * MM_WARPS) {
            const int at = c * (MM_TILES * 32) + i;
            float4 v = __ldcg(MM(slot)(g, w, first, tile) + at);
            for (pk_i64 p = first + 1; p <= last; p++)
                v = MM(plus)(v, __ldcg(MM(slot)(g, w, p, tile) + at));
            MM(lay_out)(out, i, v);
        }
        __syncthreads();
        MM(store_rows)(g, w, t.z, t.m0 + 8 * c, n0, out);
        __syncthreads();
    }
}

/* ---- a part ----------------------------------------------------------------------------------- */

PK_D void MM(clear)(float (*acc)[MM_COLS8][4]) {
    _Pragma("unroll") for (int j = 0; j < MM_TILES; j++)
        _Pragma("unroll") for (int c = 0; c < MM_COLS8; c++) PK_EACH(4) acc[j][c][l] = 0.0f;
}

extern "C" __global__ void __launch_bounds__(32 * MM_WARPS)
    MM(main)(const __grid_constant__ struct pk_args args) {
    extern __shared__ __align__(16) unsigned char MM(memory)[];
    const struct pk_args *const g = &args;
    const struct MM(work) w = MM(all_work)(MM(get_shape)(g));
    float4 *const sums = (float4 *)(MM(memory) + MM_STAGES * MM_STAGE_BYTES);
    float *const out = (float *)((char *)sums + MM_SUM_BYTES);
    int *const flag = (int *)(out + 8 * MM_OUT_PITCH);
    const unsigned base = pk_mma_address(MM(memory));
    _Pragma("unroll 1") for (pk_i64 part = blockIdx.x; part < w.parts; part += gridDim.x) {
        const pk_i64 start = MM(start_of)(w, part), end = MM(start_of)(w, part + 1);
        struct MM(tile) ahead, now;
        pk_i64 asked = start; /* the next unit to ask for */
        float acc[MM_TILES][MM_COLS8][4];
        MM(enter)(g, w, start / w.steps, ahead);
        now = ahead;
        MM(clear)(acc);
        _Pragma("unroll 1") for (int i = 0; i < MM_STAGES - 1; i++, asked++) {
            if (asked >= end) {
                MM(commit)();
                continue;
            }
            if (i > 0 && asked % w.steps == 0) MM(enter)(g, w, asked / w.steps, ahead);
            MM(request)(g, w, ahead, MM(k_of)(w, asked), base, i);
        }
        int stage = 0;
        _Pragma("unroll 1") for (pk_i64 unit = start; unit < end; unit++) {
            const int free = stage == 0 ? MM_STAGES - 1 : stage - 1;
            if (asked < end) {
                if (asked % w.steps == 0) MM(enter)(g, w, asked / w.steps, ahead);
                MM(request)(g, w, ahead, MM(k_of)(w, asked), base, free);
            } else {
                MM(commit)();
            }
            asked++;
            MM(arrived)<MM_STAGES - 1>();
            MM(multiply)(g, w, now, MM(k_of)(w, unit), base, stage, acc);
            stage = stage + 1 == MM_STAGES ? 0 : stage + 1;
            if ((unit + 1) % w.steps != 0 && unit + 1 < end) continue;
            const pk_i64 tile = unit / w.steps;
            MM(finish)(g, w, part, tile, now, start <= tile * w.steps && unit + 1 == (tile + 1) * w.steps,
                       acc, sums, out, flag);
            MM(clear)(acc);
            if (unit + 1 < end) MM(enter)(g, w, tile + 1, now);
        }
    }
}

#undef MM_WARPS
#undef MM_SPAN
#undef MM_COLS
#undef MM_TILES
#undef MM_DEPTH
#undef MM_T
#undef MM_RUN_BYTES
#undef MM_B_BYTES
#undef MM_A_BYTES
#undef MM_STAGE_BYTES
#undef MM_SUM_BYTES
#undef MM_OUT_PITCH
#undef MM_BYTES
#undef MM_RUN
#undef MM_COLS8
#undef MM_STAGES
#undef MM_PARTS
#include "matmul_end.h"
