/* SPDX-License-Identifier: MIT
 *
 * Rows z: levels of passes over k, each with accumulators that later levels may use (a mean, then a
 * variance); then results of the row, and results of its elements (z, k).
 *
 * K order: chunks of 1024 elements; in a chunk 128 partial results, element k belonging to number
 * k % 128, each a chain in order of k, combined as a tree of halves; the chunks' results in order.
 * It is the same whether vectors run along k (RD_WARPS warps for a row) or along z (a warp for 32
 * rows), so neither the axis nor the number of warps changes a result.
 *
 * The generator writes this file behind the CUDA prelude and, for each kernel:
 *
 *   #define PK_KERNEL k0           prefix: RD(x) is k0_x; undefined at the end, as every RD_*
 *   #define RD_AXIS 1              vectors run along k (1) or along z (0)
 *   #define RD_W 4                 their length: 4 along k, 1 along z
 *   #define RD_WARPS 2             axis 1: warps of a row; axis 0: warps of a block
 *   #define RD_ROWS 4              axis 1: rows of a block; axis 0: 32
 *   #define RD_LEVELS 2            levels of passes, 1..8
 *   #define RD_ELEMENTS 1          are there results for each (z, k)?
 *   struct RD(shape) { pk_i64 Z, K; };
 *   struct RD(shape) RD(get_shape)(const struct pk_args *g);
 *   RD(c_row)<W>                   finished accumulators and what follows from them for the row
 *   RD(acc)<W>                     accumulators of all levels; at(l): lane l alone
 *   void RD(row_init)<W>(g, RD(c_row)<W> *r, pk_i64 z, int cnt);
 *   void RD(acc_init)<W>(RD(acc)<W> *a);
 *   void RD(step)<W>(g, const RD(c_row)<W> *r, RD(acc)<W> *a, int level, pk_i64 z, pk_i64 k, int cnt);
 *   void RD(combine)<W>(RD(acc)<W> *a, const RD(acc)<W> *b, int level);
 *   void RD(finish)<W>(g, RD(c_row)<W> *r, const RD(acc)<1> *a, int level, pk_i64 z, int cnt);
 *   void RD(row_store)<W>(g, const RD(c_row)<W> *r, pk_i64 z, int cnt);
 *   void RD(element_store)<W>(g, const RD(c_row)<W> *r, pk_i64 z, pk_i64 k, int cnt);
 *
 * Launch: axis 1: 32 * RD_WARPS * RD_ROWS threads, ceil(Z / RD_ROWS) blocks; axis 0: 32 * RD_WARPS
 * threads, ceil(Z / 32) blocks.
 */

#define RD_CAT2(a, b) a##_##b
#define RD_CAT1(a, b) RD_CAT2(a, b)
#define RD(x)         RD_CAT1(PK_KERNEL, x)
#define RD_CHUNK      1024
#define RD_CHAINS     128

PK_D pk_i64 RD(min)(pk_i64 a, pk_i64 b) {
    return a < b ? a : b;
}

#if RD_AXIS
/* One chunk by a warp; every thread gets the result. */
PK_D RD(acc)<1> RD(chunk)(const struct pk_args *g, const RD(c_row)<RD_W> *r, int level, pk_i64 z,
                          pk_i64 k0, pk_i64 end) {
    RD(acc)<RD_W> a;
    RD(acc_init)<RD_W>(&a);
    _Pragma("unroll 4") for (pk_i64 k = k0 + threadIdx.x % 32 * RD_W; k < end; k += RD_CHAINS)
        RD(step)<RD_W>(g, r, &a, level, z, k, (int)RD(min)(RD_W, end - k));
    _Pragma("unroll") for (int mask = 16; mask > 0; mask /= 2) {
        const RD(acc)<RD_W> b = pk_shuffle_xor(a, mask);
        RD(combine)<RD_W>(&a, &b, level);
    }
    RD(acc)<1> lane[RD_W];
    PK_EACH(RD_W) lane[l] = a.at(l);
    _Pragma("unroll") for (int half = RD_W / 2; half > 0; half /= 2) {
        _Pragma("unroll") for (int i = 0; i < half; i++)
            RD(combine)<1>(&lane[i], &lane[i + half], level);
    }
    return lane[0];
}

PK_D void RD(level)(const struct pk_args *g, RD(c_row)<RD_W> *r, int level, pk_i64 z, pk_i64 K) {
    RD(acc)<1> total;
#if RD_WARPS == 1
    total = RD(chunk)(g, r, level, z, 0, RD(min)(RD_CHUNK, K));
    for (pk_i64 k = RD_CHUNK; k < K; k += RD_CHUNK) {
        const RD(acc)<1> next = RD(chunk)(g, r, level, z, k, RD(min)(k + RD_CHUNK, K));
        RD(combine)<1>(&total, &next, level);
    }
#else
    __shared__ RD(acc)<1> part[RD_WARPS];
    const int warp = threadIdx.x / 32;
    for (pk_i64 k = 0; k == 0 || k < K; k += RD_WARPS * RD_CHUNK) {
        const pk_i64 k0 = k + warp * RD_CHUNK;
        RD(acc)<1> mine;
        if (k0 < K || k0 == 0) mine = RD(chunk)(g, r, level, z, k0, RD(min)(k0 + RD_CHUNK, K));
        __syncthreads();
        if (threadIdx.x % 32 == 0) part[warp] = mine;
        __syncthreads();
        if (k == 0) total = part[0];
        for (int w = k == 0; w < RD_WARPS && k + w * RD_CHUNK < K; w++)
            RD(combine)<1>(&total, &part[w], level);
    }
#endif
    RD(finish)<RD_W>(g, r, &total, level, z, 1);
}
#else
/* One chunk of 32 rows by a block; every thread gets its row's result. */
PK_D RD(acc)<1> RD(chunk)(const struct pk_args *g, const RD(c_row)<1> *r, int level, pk_i64 z,
                          bool live, pk_i64 k0, pk_i64 end) {
    __shared__ RD(acc)<1> part[RD_WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    RD(acc)<1> a[RD_CHAINS / RD_WARPS];
    PK_EACH(RD_CHAINS / RD_WARPS) RD(acc_init)<1>(&a[l]);
    for (pk_i64 k = k0 + warp; k < end; k += RD_CHAINS) {
        PK_EACH(RD_CHAINS / RD_WARPS)
        if (live && k + l * RD_WARPS < end) RD(step)<1>(g, r, &a[l], level, z, k + l * RD_WARPS, 1);
    }
    _Pragma("unroll") for (int half = RD_CHAINS / RD_WARPS / 2; half > 0; half /= 2) {
        _Pragma("unroll") for (int i = 0; i < half; i++)
            RD(combine)<1>(&a[i], &a[i + half], level);
    }
    __syncthreads();
    part[warp][lane] = a[0];
    __syncthreads();
    _Pragma("unroll") for (int half = RD_WARPS / 2; half > 0; half /= 2) {
        if (warp < half) RD(combine)<1>(&part[warp][lane], &part[warp + half][lane], level);
        __syncthreads();
    }
    return part[0][lane];
}

PK_D void RD(level)(const struct pk_args *g, RD(c_row)<1> *r, int level, pk_i64 z, pk_i64 K,
                    bool live) {
    RD(acc)<1> total = RD(chunk)(g, r, level, z, live, 0, RD(min)(RD_CHUNK, K));
    for (pk_i64 k = RD_CHUNK; k < K; k += RD_CHUNK) {
        const RD(acc)<1> next = RD(chunk)(g, r, level, z, live, k, RD(min)(k + RD_CHUNK, K));
        RD(combine)<1>(&total, &next, level);
    }
    if (live) RD(finish)<1>(g, r, &total, level, z, 1);
}
#endif

extern "C" __global__ void __launch_bounds__(32 * RD_WARPS * (RD_AXIS ? RD_ROWS : 1))
    RD(main)(const __grid_constant__ struct pk_args args) {
    const struct pk_args *const g = &args;
    const struct RD(shape) s = RD(get_shape)(g);
    RD(c_row)<RD_W> r;
#if RD_AXIS
    const pk_i64 z = (pk_i64)blockIdx.x * RD_ROWS + threadIdx.x / (32 * RD_WARPS);
    const int thread = threadIdx.x % (32 * RD_WARPS);
    if (z >= s.Z) return; /* whole warps; with more than one warp a block has one row */
    RD(row_init)<RD_W>(g, &r, z, 1);
#define RD_LEVEL(i) RD(level)(g, &r, i, z, s.K)
#else
    const pk_i64 z = (pk_i64)blockIdx.x * 32 + threadIdx.x % 32;
    const bool live = z < s.Z;
    if (live) RD(row_init)<RD_W>(g, &r, z, 1);
#define RD_LEVEL(i) RD(level)(g, &r, i, z, s.K, live)
#endif
    RD_LEVEL(0);
#if RD_LEVELS > 1
    RD_LEVEL(1);
#endif
#if RD_LEVELS > 2
    RD_LEVEL(2);
#endif
#if RD_LEVELS > 3
    RD_LEVEL(3);
#endif
#if RD_LEVELS > 4
    RD_LEVEL(4);
#endif
#if RD_LEVELS > 5
    RD_LEVEL(5);
#endif
#if RD_LEVELS > 6
    RD_LEVEL(6);
#endif
#if RD_LEVELS > 7
    RD_LEVEL(7);
#endif
#if RD_AXIS
    if (thread == 0) RD(row_store)<RD_W>(g, &r, z, 1);
#if RD_ELEMENTS
    for (pk_i64 k = thread * RD_W; k < s.K; k += 32 * RD_WARPS * RD_W)
        RD(element_store)<RD_W>(g, &r, z, k, (int)RD(min)(RD_W, s.K - k));
#endif
#else
    if (!live) return;
    if (threadIdx.x < 32) RD(row_store)<1>(g, &r, z, 1);
#if RD_ELEMENTS
    for (pk_i64 k = threadIdx.x / 32; k < s.K; k += RD_WARPS)
        RD(element_store)<1>(g, &r, z, k, 1);
#endif
#endif
}

#undef RD_CAT2
#undef RD_CAT1
#undef RD
#undef RD_CHUNK
#undef RD_CHAINS
#undef RD_LEVEL
#undef RD_AXIS
#undef RD_W
#undef RD_WARPS
#undef RD_ROWS
#undef RD_LEVELS
#undef RD_ELEMENTS
#undef PK_KERNEL
