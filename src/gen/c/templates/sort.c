/* SPDX-License-Identifier: MIT
 *
 * Rows z of K elements: the first N of them in order, with their positions. Stable: equal elements
 * stay in order of k. NaN counts as the greatest value, as in PyTorch. Merge sort, bottom up.
 *
 * The generator writes this file behind kernel_abi.h, the vector prelude, and, for each kernel:
 *
 *   #define PK_KERNEL k0           prefix: ST(x) is k0_x; undefined at the end, as every ST_*
 *   #define ST_NAME "..."
 *   #define ST_ACC vf32, ST_ACC_S float    vector and scalar of an element
 *   #define ST_LESS(a, b)          is a before b in ascending order?
 *   #define ST_DESCENDING 1
 *   struct ST(shape) { pk_i64 Z, K, N; };
 *   struct ST(shape) ST(get_shape)(const struct pk_args *g);
 *   ST_ACC ST(src)(const struct pk_args *g, pk_i64 z, pk_i64 k, int cnt);    elements k .. k+cnt-1
 *   void ST(store)(const struct pk_args *g, pk_i64 z, pk_i64 k, int cnt, ST_ACC acc0, vi64 acc1);
 *
 * What comes out: static const struct pk_kernel ST(kernel).
 */

#define ST_CAT2(a, b) a##_##b
#define ST_CAT1(a, b) ST_CAT2(a, b)
#define ST(x)         ST_CAT1(PK_KERNEL, x)

static pk_i64 ST(none)(const struct pk_args *g) {
    (void)g;
    return 0;
}

/* Values, then two arrays of positions, each rounded up to whole vectors. */
static pk_i64 ST(padded)(pk_i64 K) {
    return (K + PK_W - 1) / PK_W * PK_W;
}

static pk_i64 ST(local)(const struct pk_args *g) {
    pk_i64 n = ST(padded)(ST(get_shape)(g).K);
    return n * (pk_i64)(sizeof(ST_ACC_S) + 2 * sizeof(pk_i64)) + 256;
}

static pk_i64 ST(tasks)(const struct pk_args *g, int phase) {
    struct ST(shape) s = ST(get_shape)(g);
    (void)phase;
    return s.N > 0 && s.K > 0 ? s.Z : 0;
}

static inline int ST(before)(const ST_ACC_S *v, pk_i64 a, pk_i64 b) {
    return ST_DESCENDING ? ST_LESS(v[b], v[a]) : ST_LESS(v[a], v[b]);
}

static pk_i64 *ST(order)(const ST_ACC_S *v, pk_i64 *from, pk_i64 *to, pk_i64 K) {
    for (pk_i64 i = 0; i < K; i++)
        from[i] = i;
    for (pk_i64 w = 1; w < K; w *= 2) {
        for (pk_i64 lo = 0; lo < K; lo += 2 * w) {
            pk_i64 mid = lo + w < K ? lo + w : K, end = lo + 2 * w < K ? lo + 2 * w : K;
            pk_i64 i = lo, j = mid;
            for (pk_i64 o = lo; o < end; o++) {
                int left = i < mid && (j >= end || !ST(before)(v, from[j], from[i]));
                to[o] = left ? from[i++] : from[j++];
            }
        }
        pk_i64 *t = from;
        from = to;
        to = t;
    }
    return from;
}

static void ST(run)(const struct pk_args *g, int phase, pk_i64 z) {
    struct ST(shape) s = ST(get_shape)(g);
    pk_i64 n = ST(padded)(s.K);
    pk_i64 *a = (pk_i64 *)g->local, *b = a + n;
    ST_ACC_S *v = (ST_ACC_S *)(b + n);
    (void)phase;
    for (pk_i64 k = 0; k < s.K; k += PK_W) {
        int cnt = s.K - k < PK_W ? (int)(s.K - k) : PK_W;
        const ST_ACC x = ST(src)(g, z, k, cnt);
        __builtin_memcpy(v + k, &x, sizeof x);
    }
    const pk_i64 *order = ST(order)(v, a, b, s.K);
    for (pk_i64 k = 0; k < s.N; k += PK_W) {
        int cnt = s.N - k < PK_W ? (int)(s.N - k) : PK_W;
        ST_ACC x = {0};
        vi64 at = {0};
        for (int l = 0; l < cnt; l++) {
            at[l] = order[k + l];
            x[l] = v[order[k + l]];
        }
        ST(store)(g, z, k, cnt, x, at);
    }
}

static const struct pk_kernel ST(kernel) = {
    .name = ST_NAME,
    .phases = 1,
    .shared_bytes = ST(none),
    .local_bytes = ST(local),
    .tasks = ST(tasks),
    .run = ST(run),
    .check = PK_CHECK,
};

#undef ST_CAT2
#undef ST_CAT1
#undef ST
#undef ST_NAME
#undef ST_ACC
#undef ST_ACC_S
#undef ST_LESS
#undef ST_DESCENDING
#undef PK_KERNEL
#undef PK_CHECK
