/* SPDX-License-Identifier: MIT
 *
 * Lines z of K elements: line = base(z, 0 .. K-1); for n = 0 .. N-1 in order, line[index(z, n)]
 * becomes or grows by src(z, n); the line is stored. PK_W lines at a time, a lane each, so repeated
 * targets are taken in order whatever the number of threads. A negative index is skipped.
 *
 * The generator writes this file behind kernel_abi.h, the vector prelude, and, for each kernel:
 *
 *   #define PK_KERNEL k0           prefix: SC(x) is k0_x; undefined at the end, as every SC_*
 *   #define SC_NAME "..."
 *   #define SC_ACC vf32, SC_ACC_S float    vector and scalar of an element of the line
 *   #define SC_ADD 1               add (1) or replace (0)
 *   #define SC_UNIFORM 1           the index is the same for all lines
 *   struct SC(shape) { pk_i64 Z, K, N; };
 *   struct SC(shape) SC(get_shape)(const struct pk_args *g);
 *   SC_ACC SC(base)(const struct pk_args *g, pk_i64 z, pk_i64 k, int cnt);   lines z .. z+cnt-1
 *   vi64 SC(index)(const struct pk_args *g, pk_i64 z, pk_i64 n, int cnt);
 *   SC_ACC SC(src)(const struct pk_args *g, pk_i64 z, pk_i64 n, int cnt);
 *   void SC(store)(const struct pk_args *g, pk_i64 z, pk_i64 k, int cnt, SC_ACC acc0);
 *
 * What comes out: static const struct pk_kernel SC(kernel).
 */

#define SC_CAT2(a, b) a##_##b
#define SC_CAT1(a, b) SC_CAT2(a, b)
#define SC(x)         SC_CAT1(PK_KERNEL, x)

static pk_i64 SC(none)(const struct pk_args *g) {
    (void)g;
    return 0;
}

static pk_i64 SC(local)(const struct pk_args *g) {
    return SC(get_shape)(g).K * (pk_i64)sizeof(SC_ACC);
}

static pk_i64 SC(tasks)(const struct pk_args *g, int phase) {
    struct SC(shape) s = SC(get_shape)(g);
    (void)phase;
    return s.K > 0 && s.Z > 0 ? (s.Z + PK_W - 1) / PK_W : 0;
}

static void SC(run)(const struct pk_args *g, int phase, pk_i64 task) {
    struct SC(shape) s = SC(get_shape)(g);
    SC_ACC *line = (SC_ACC *)g->local;
    pk_i64 z = task * PK_W;
    int cnt = s.Z - z < PK_W ? (int)(s.Z - z) : PK_W;
    (void)phase;
    for (pk_i64 k = 0; k < s.K; k++)
        line[k] = SC(base)(g, z, k, cnt);
    for (pk_i64 n = 0; n < s.N; n++) {
        const vi64 at = SC(index)(g, z, n, cnt);
        const SC_ACC v = SC(src)(g, z, n, cnt);
#if SC_UNIFORM
        if (at[0] < 0) continue;
        line[at[0]] = SC_ADD ? line[at[0]] + v : v;
#else
        for (int l = 0; l < cnt; l++) {
            if (at[l] < 0) continue;
            SC_ACC_S *to = (SC_ACC_S *)&line[at[l]] + l;
            *to = (SC_ACC_S)(SC_ADD ? *to + v[l] : v[l]);
        }
#endif
    }
    for (pk_i64 k = 0; k < s.K; k++)
        SC(store)(g, z, k, cnt, line[k]);
}

static const struct pk_kernel SC(kernel) = {
    .name = SC_NAME,
    .phases = 1,
    .shared_bytes = SC(none),
    .local_bytes = SC(local),
    .tasks = SC(tasks),
    .run = SC(run),
    .check = PK_CHECK,
};

#undef SC_CAT2
#undef SC_CAT1
#undef SC
#undef SC_NAME
#undef SC_ACC
#undef SC_ACC_S
#undef SC_ADD
#undef SC_UNIFORM
#undef PK_KERNEL
#undef PK_CHECK
