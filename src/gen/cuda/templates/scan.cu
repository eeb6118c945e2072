/* SPDX-License-Identifier: MIT
 *
 * Rows z: out(z, k) = src(z, 0) + .. + src(z, k), in order of k; a thread for each row.
 *
 * The generator writes this file behind the CUDA prelude and, for each kernel:
 *
 *   #define PK_KERNEL k0           prefix: SN(x) is k0_x; undefined at the end, as every SN_*
 *   #define SN_ACC float           what accumulates
 *   struct SN(shape) { pk_i64 Z, K; };
 *   struct SN(shape) SN(get_shape)(const struct pk_args *g);
 *   pk_lanes<SN_ACC, W> SN(src)<W>(g, pk_i64 z, pk_i64 k, int cnt);    rows z .. z+cnt-1
 *   void SN(store)<W>(g, pk_i64 z, pk_i64 k, int cnt, pk_lanes<SN_ACC, W> acc0);
 *
 * Launch: 64 threads, Z tasks of a thread each.
 */

#define SN_CAT2(a, b) a##_##b
#define SN_CAT1(a, b) SN_CAT2(a, b)
#define SN(x)         SN_CAT1(PK_KERNEL, x)

extern "C" __global__ void __launch_bounds__(64)
    SN(main)(const __grid_constant__ struct pk_args args) {
    const struct pk_args *const g = &args;
    const struct SN(shape) s = SN(get_shape)(g);
    const pk_i64 z = (pk_i64)blockIdx.x * 64 + threadIdx.x;
    if (z >= s.Z) return;
    pk_lanes<SN_ACC, 1> sum = {0};
    for (pk_i64 k = 0; k < s.K; k++) {
        sum = sum + SN(src)<1>(g, z, k, 1);
        SN(store)<1>(g, z, k, 1, sum);
    }
}

#undef SN_CAT2
#undef SN_CAT1
#undef SN
#undef SN_ACC
#undef PK_KERNEL
