/* SPDX-License-Identifier: MIT
 *
 * out_j[z, n] = f_j(z, n): PW_W elements of a row for each thread.
 *
 * The generator writes this file behind the CUDA prelude and, for each kernel:
 *
 *   #define PK_KERNEL k0           prefix: PW(x) is k0_x; undefined at the end, as every PW_*
 *   #define PW_W 4                 elements of a thread, so that accesses are of 16 bytes
 *   struct pk_args { .. };         the kernel's argument block, by a macro of this name
 *   struct PW(shape) { pk_i64 Z, N; };
 *   struct PW(shape) PW(get_shape)(const struct pk_args *g);
 *   PW(c_row)<W>                   what does not depend on n
 *   PW(c_row)<W> PW(c_row_init)<W>(const struct pk_args *g, pk_i64 z);
 *   void PW(c_store)<W>(g, const PW(c_row)<W> *r, pk_i64 z, pk_i64 n, int cnt);
 *
 * Launch: 256 threads, Z * ceil(N / PW_W) tasks of a thread each.
 */

#define PW_CAT2(a, b) a##_##b
#define PW_CAT1(a, b) PW_CAT2(a, b)
#define PW(x)         PW_CAT1(PK_KERNEL, x)

extern "C" __global__ void __launch_bounds__(256)
    PW(main)(const __grid_constant__ struct pk_args args) {
    const struct pk_args *const g = &args;
    const struct PW(shape) s = PW(get_shape)(g);
    const pk_i64 vectors = (s.N + PW_W - 1) / PW_W, all = s.Z * vectors;
    const pk_i64 task = (pk_i64)blockIdx.x * 256 + threadIdx.x;
    if (task >= all) return;
    pk_i64 z = 0, n = task;
    if (s.Z != 1) {
        pk_divide(task, vectors, all, &z, &n);
    }
    n *= PW_W;
    const PW(c_row)<PW_W> r = PW(c_row_init)<PW_W>(g, z);
    PW(c_store)<PW_W>(g, &r, z, n, s.N - n < PW_W ? (int)(s.N - n) : PW_W);
}

#undef PW_CAT2
#undef PW_CAT1
#undef PW
#undef PW_W
#undef PK_KERNEL
