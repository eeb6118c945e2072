/* SPDX-License-Identifier: MIT
 *
 * Lines z of K elements: line = base(z, 0 .. K-1); for n = 0 .. N-1 in order, line[index(z, n)]
 * becomes or grows by src(z, n); the line is stored. A thread takes in all of a line's sources, so
 * repeated targets are taken in order and the result is that of a CPU. An index that is no element
 * of the line is skipped. The lines lie in scratch as [k][z].
 *
 * The generator writes this file behind the CUDA prelude and, for each kernel:
 *
 *   #define PK_KERNEL k0           prefix: SC(x) is k0_x; undefined at the end, as every SC_*
 *   #define SC_ACC float           an element of the line
 *   #define SC_ADD 1               add (1) or replace (0)
 *   struct SC(shape) { pk_i64 Z, K, N; };
 *   struct SC(shape) SC(get_shape)(const struct pk_args *g);
 *   pk_lanes<SC_ACC, W> SC(base)<W>(g, pk_i64 z, pk_i64 k, int cnt);   lines z .. z+cnt-1
 *   pk_lanes<pk_i64, W> SC(index)<W>(g, pk_i64 z, pk_i64 n, int cnt);
 *   pk_lanes<SC_ACC, W> SC(src)<W>(g, pk_i64 z, pk_i64 n, int cnt);
 *   void SC(store)<W>(g, pk_i64 z, pk_i64 k, int cnt, pk_lanes<SC_ACC, W> acc0);
 *
 * Launches, in order: base and store with 256 threads and Z * K tasks of a thread each, before and
 * after take with 64 threads and Z tasks. Scratch: Z * K elements.
 */

#define SC_CAT2(a, b) a##_##b
#define SC_CAT1(a, b) SC_CAT2(a, b)
#define SC(x)         SC_CAT1(PK_KERNEL, x)

extern "C" __global__ void __launch_bounds__(256)
    SC(base_all)(const __grid_constant__ struct pk_args args) {
    const struct pk_args *const g = &args;
    const struct SC(shape) s = SC(get_shape)(g);
    const pk_i64 i = (pk_i64)blockIdx.x * 256 + threadIdx.x;
    if (i >= s.Z * s.K) return;
    pk_i64 z, k;
    pk_divide(i, s.Z, s.Z * s.K, &k, &z);
    ((SC_ACC *)g->scratch)[i] = SC(base)<1>(g, z, k, 1)[0];
}

extern "C" __global__ void __launch_bounds__(64)
    SC(take)(const __grid_constant__ struct pk_args args) {
    const struct pk_args *const g = &args;
    const struct SC(shape) s = SC(get_shape)(g);
    const pk_i64 z = (pk_i64)blockIdx.x * 64 + threadIdx.x;
    if (z >= s.Z) return;
    for (pk_i64 n = 0; n < s.N; n++) {
        const pk_i64 at = SC(index)<1>(g, z, n, 1)[0];
        if (at < 0 || at >= s.K) continue;
        const pk_lanes<SC_ACC, 1> v = SC(src)<1>(g, z, n, 1);
        SC_ACC *const to = (SC_ACC *)g->scratch + (at * s.Z + z);
        *to = SC_ADD ? (pk_lanes<SC_ACC, 1>(*to) + v)[0] : v[0];
    }
}

extern "C" __global__ void __launch_bounds__(256)
    SC(store_all)(const __grid_constant__ struct pk_args args) {
    const struct pk_args *const g = &args;
    const struct SC(shape) s = SC(get_shape)(g);
    const pk_i64 i = (pk_i64)blockIdx.x * 256 + threadIdx.x;
    if (i >= s.Z * s.K) return;
    pk_i64 z, k;
    pk_divide(i, s.Z, s.Z * s.K, &k, &z);
    SC(store)<1>(g, z, k, 1, pk_lanes<SC_ACC, 1>(((const SC_ACC *)g->scratch)[i]));
}

#undef SC_CAT2
#undef SC_CAT1
#undef SC
#undef SC_ACC
#undef SC_ADD
#undef SC_UNIFORM
#undef PK_KERNEL
