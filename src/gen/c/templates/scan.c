/* SPDX-License-Identifier: MIT
 *
 * Rows z: out(z, k) = src(z, 0) + .. + src(z, k), in order of k. PK_W rows at a time, a lane each.
 *
 * The generator writes this file behind kernel_abi.h, the vector prelude, and, for each kernel:
 *
 *   #define PK_KERNEL k0           prefix: SN(x) is k0_x; undefined at the end, as every SN_*
 *   #define SN_NAME "..."
 *   #define SN_ACC vf32            vector that accumulates
 *   struct SN(shape) { pk_i64 Z, K; };
 *   struct SN(shape) SN(get_shape)(const struct pk_args *g);
 *   SN_ACC SN(src)(const struct pk_args *g, pk_i64 z, pk_i64 k, int cnt);    rows z .. z+cnt-1
 *   void SN(store)(const struct pk_args *g, pk_i64 z, pk_i64 k, int cnt, SN_ACC acc0);
 *
 * What comes out: static const struct pk_kernel SN(kernel).
 */

#define SN_CAT2(a, b) a##_##b
#define SN_CAT1(a, b) SN_CAT2(a, b)
#define SN(x)         SN_CAT1(PK_KERNEL, x)

static pk_i64 SN(none)(const struct pk_args *g) {
    (void)g;
    return 0;
}

static pk_i64 SN(tasks)(const struct pk_args *g, int phase) {
    struct SN(shape) s = SN(get_shape)(g);
    (void)phase;
    return s.K > 0 && s.Z > 0 ? (s.Z + PK_W - 1) / PK_W : 0;
}

static void SN(run)(const struct pk_args *g, int phase, pk_i64 task) {
    struct SN(shape) s = SN(get_shape)(g);
    pk_i64 z = task * PK_W;
    int cnt = s.Z - z < PK_W ? (int)(s.Z - z) : PK_W;
    SN_ACC sum = {0};
    (void)phase;
    for (pk_i64 k = 0; k < s.K; k++) {
        sum = sum + SN(src)(g, z, k, cnt);
        SN(store)(g, z, k, cnt, sum);
    }
}

static const struct pk_kernel SN(kernel) = {
    .name = SN_NAME,
    .phases = 1,
    .shared_bytes = SN(none),
    .local_bytes = SN(none),
    .tasks = SN(tasks),
    .run = SN(run),
    .check = PK_CHECK,
};

#undef SN_CAT2
#undef SN_CAT1
#undef SN
#undef SN_NAME
#undef SN_ACC
#undef PK_KERNEL
#undef PK_CHECK
