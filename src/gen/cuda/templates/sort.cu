/* SPDX-License-Identifier: MIT
 *
 * Rows z of K elements: the first N of them in order, with their positions. Stable: equal elements
 * stay in order of k. NaN counts as the greatest value, as in PyTorch.
 *
 * A block sorts a row by merging runs, bottom up. In a merge every element finds its place by itself:
 * its place in its own run plus the number of elements of the other run that come before it, by
 * binary search (Cole, "Parallel merge sort", SIAM J. Comput. 17, 1988, in its simplest form).
 *
 * The generator writes this file behind the CUDA prelude and, for each kernel:
 *
 *   #define PK_KERNEL k0           prefix: ST(x) is k0_x; undefined at the end, as every ST_*
 *   #define ST_ACC float           an element
 *   #define ST_LESS(a, b)          is a before b in ascending order?
 *   #define ST_DESCENDING 1
 *   struct ST(shape) { pk_i64 Z, K, N; };
 *   struct ST(shape) ST(get_shape)(const struct pk_args *g);
 *   pk_lanes<ST_ACC, W> ST(src)<W>(g, pk_i64 z, pk_i64 k, int cnt);    elements k .. k+cnt-1
 *   void ST(store)<W>(g, pk_i64 z, pk_i64 k, int cnt, pk_lanes<ST_ACC, W> acc0,
 *                     pk_lanes<pk_i64, W> acc1);
 *
 * Launch: 256 threads, a block for each row. Scratch: for each row two arrays of K positions, then
 * for each row K elements.
 */

#define ST_CAT2(a, b) a##_##b
#define ST_CAT1(a, b) ST_CAT2(a, b)
#define ST(x)         ST_CAT1(PK_KERNEL, x)

/* Does element a (at position a) come before element b wherever they lie? Of equal ones the lower
 * position does. */
PK_D bool ST(before)(const ST_ACC *v, pk_i64 a, pk_i64 b) {
    const ST_ACC x = v[a], y = v[b];
    const bool less = ST_DESCENDING ? ST_LESS(y, x) : ST_LESS(x, y);
    const bool more = ST_DESCENDING ? ST_LESS(x, y) : ST_LESS(y, x);
    return less || (!more && a < b);
}

extern "C" __global__ void __launch_bounds__(256)
    ST(main)(const __grid_constant__ struct pk_args args) {
    const struct pk_args *const g = &args;
    const struct ST(shape) s = ST(get_shape)(g);
    const pk_i64 z = blockIdx.x, K = s.K;
    pk_i64 *from = (pk_i64 *)g->scratch + 2 * z * K, *to = from + K;
    ST_ACC *const v = (ST_ACC *)((pk_i64 *)g->scratch + 2 * s.Z * K) + z * K;
    for (pk_i64 i = threadIdx.x; i < K; i += 256) {
        v[i] = ST(src)<1>(g, z, i, 1)[0];
        from[i] = i;
    }
    __syncthreads();
    for (pk_i64 w = 1; w < K; w *= 2) {
        for (pk_i64 i = threadIdx.x; i < K; i += 256) {
            const pk_i64 base = i / (2 * w) * (2 * w), own = from[i];
            const bool left = i - base < w;
            const pk_i64 start = left ? base + w : base, stop = left ? base + 2 * w : base + w;
            pk_i64 lo = start < K ? start : K, hi = stop < K ? stop : K;
            const pk_i64 first = lo;
            while (lo < hi) {
                const pk_i64 mid = lo + (hi - lo) / 2;
                if (ST(before)(v, from[mid], own))
                    lo = mid + 1;
                else
                    hi = mid;
            }
            to[base + (i - base - (left ? 0 : w)) + (lo - first)] = own;
        }
        __syncthreads();
        pk_i64 *const t = from;
        from = to;
        to = t;
    }
    for (pk_i64 i = threadIdx.x; i < s.N; i += 256)
        ST(store)<1>(g, z, i, 1, pk_lanes<ST_ACC, 1>(v[from[i]]), pk_lanes<pk_i64, 1>(from[i]));
}

#undef ST_CAT2
#undef ST_CAT1
#undef ST
#undef ST_ACC
#undef ST_LESS
#undef ST_DESCENDING
#undef PK_KERNEL
