/* SPDX-License-Identifier: MIT
 *
 * Rows z: levels of passes over k, each with accumulators that later levels may use (a mean, then a
 * variance); then results of the row, and results of its elements (z, k).
 *
 * K order: PK_W partial results, element k belonging to number k % PK_W, each a chain in order of k,
 * combined as a tree of halves. It is the same whether vectors run along k (one row at a time) or
 * along z (PK_W rows at a time), so the axis never changes a result.
 *
 * The generator writes this file behind kernel_abi.h, the vector prelude, and, for each kernel:
 *
 *   #define PK_KERNEL k0           prefix: RD(x) is k0_x; undefined at the end, as every RD_*
 *   #define RD_NAME "..."
 *   #define RD_AXIS 1              vectors run along k (1) or along z (0)
 *   #define RD_LEVELS 2            levels of passes, 1..8
 *   #define RD_ELEMENTS 1          are there results for each (z, k)?
 *   struct RD(shape) { pk_i64 Z, K; };
 *   struct RD(shape) RD(get_shape)(const struct pk_args *g);
 *   struct RD(c_row) { .. };       finished accumulators and what follows from them for the row (axis
 *                                  1) or the rows z .. z+cnt-1 (axis 0)
 *   struct RD(acc) { .. };         accumulators of all levels, a vector each
 *   void RD(row_init)(const struct pk_args *g, struct RD(c_row) *r, pk_i64 z, int cnt);
 *   void RD(acc_init)(struct RD(acc) *a);
 *   void RD(step)(const struct pk_args *g, const struct RD(c_row) *r, struct RD(acc) *a, int level,
 *                 pk_i64 z, pk_i64 k, int cnt);
 *                                  takes elements (z, k .. k+cnt-1) (axis 1), (z .. z+cnt-1, k) (axis
 *                                  0) into the accumulators of a level; level is a literal
 *   void RD(combine)(struct RD(acc) *a, const struct RD(acc) *b, int level);
 *   void RD(rotate)(struct RD(acc) *to, const struct RD(acc) *a, int by);  lane l from lane l + by
 *   void RD(finish)(const struct pk_args *g, struct RD(c_row) *r, const struct RD(acc) *a, int level,
 *                   pk_i64 z, int cnt);  axis 1: lane 0 holds the result
 *   void RD(row_store)(const struct pk_args *g, const struct RD(c_row) *r, pk_i64 z, int cnt);
 *   void RD(element_store)(const struct pk_args *g, const struct RD(c_row) *r, pk_i64 z, pk_i64 k,
 *                          int cnt);
 *
 * What comes out: static const struct pk_kernel RD(kernel).
 */

#define RD_CAT2(a, b) a##_##b
#define RD_CAT1(a, b) RD_CAT2(a, b)
#define RD(x)         RD_CAT1(PK_KERNEL, x)
#define RD_INLINE     static inline __attribute__((always_inline, unused))
#define RD_ROWS       (RD_AXIS ? 1 : PK_W)

static pk_i64 RD(none)(const struct pk_args *g) {
    (void)g;
    return 0;
}

/* Blocks of rows in a task: about 16 k elements. */
static pk_i64 RD(blocks)(const struct RD(shape) * s) {
    pk_i64 k = s->K > 0 ? s->K : 1, n = 16384 / (k * RD_ROWS);
    return n > 0 ? n : 1;
}

static pk_i64 RD(tasks)(const struct pk_args *g, int phase) {
    struct RD(shape) s = RD(get_shape)(g);
    pk_i64 rows = RD(blocks)(&s) * RD_ROWS;
    (void)phase;
    return s.Z > 0 ? (s.Z + rows - 1) / rows : 0;
}

#if RD_AXIS
RD_INLINE void RD(level)(const struct pk_args *g, struct RD(c_row) * r, int level, pk_i64 z,
                         int cnt, pk_i64 K) {
    struct RD(acc) a, b;
    pk_i64 k = 0;
    (void)cnt;
    RD(acc_init)(&a);
    for (; k + PK_W <= K; k += PK_W)
        RD(step)(g, r, &a, level, z, k, PK_W);
    if (k < K) RD(step)(g, r, &a, level, z, k, (int)(K - k));
#if PK_W > 8
    RD(rotate)(&b, &a, 8);
    RD(combine)(&a, &b, level);
#endif
#if PK_W > 4
    RD(rotate)(&b, &a, 4);
    RD(combine)(&a, &b, level);
#endif
    RD(rotate)(&b, &a, 2);
    RD(combine)(&a, &b, level);
    RD(rotate)(&b, &a, 1);
    RD(combine)(&a, &b, level);
    RD(finish)(g, r, &a, level, z, 1);
}

RD_INLINE void RD(elements)(const struct pk_args *g, const struct RD(c_row) * r, pk_i64 z, int cnt,
                            pk_i64 K) {
    pk_i64 k = 0;
    (void)cnt;
    for (; k + PK_W <= K; k += PK_W)
        RD(element_store)(g, r, z, k, PK_W);
    if (k < K) RD(element_store)(g, r, z, k, (int)(K - k));
}
#else
RD_INLINE void RD(level)(const struct pk_args *g, struct RD(c_row) * r, int level, pk_i64 z,
                         int cnt, pk_i64 K) {
    struct RD(acc) a[PK_W];
    for (int l = 0; l < PK_W; l++)
        RD(acc_init)(&a[l]);
    if (cnt == PK_W) {
        for (pk_i64 k = 0; k < K; k++)
            RD(step)(g, r, &a[k % PK_W], level, z, k, PK_W);
    } else {
        for (pk_i64 k = 0; k < K; k++)
            RD(step)(g, r, &a[k % PK_W], level, z, k, cnt);
    }
    for (int h = PK_W / 2; h > 0; h /= 2) {
        for (int l = 0; l < h; l++)
            RD(combine)(&a[l], &a[l + h], level);
    }
    RD(finish)(g, r, &a[0], level, z, cnt);
}

RD_INLINE void RD(elements)(const struct pk_args *g, const struct RD(c_row) * r, pk_i64 z, int cnt,
                            pk_i64 K) {
    for (pk_i64 k = 0; k < K; k++)
        RD(element_store)(g, r, z, k, cnt);
}
#endif

static void RD(rows)(const struct pk_args *g, pk_i64 z, int cnt, pk_i64 K) {
    struct RD(c_row) r;
    RD(row_init)(g, &r, z, cnt);
    RD(level)(g, &r, 0, z, cnt, K);
#if RD_LEVELS > 1
    RD(level)(g, &r, 1, z, cnt, K);
#endif
#if RD_LEVELS > 2
    RD(level)(g, &r, 2, z, cnt, K);
#endif
#if RD_LEVELS > 3
    RD(level)(g, &r, 3, z, cnt, K);
#endif
#if RD_LEVELS > 4
    RD(level)(g, &r, 4, z, cnt, K);
#endif
#if RD_LEVELS > 5
    RD(level)(g, &r, 5, z, cnt, K);
#endif
#if RD_LEVELS > 6
    RD(level)(g, &r, 6, z, cnt, K);
#endif
#if RD_LEVELS > 7
    RD(level)(g, &r, 7, z, cnt, K);
#endif
    RD(row_store)(g, &r, z, cnt);
    if (RD_ELEMENTS) RD(elements)(g, &r, z, cnt, K);
}

static void RD(run)(const struct pk_args *g, int phase, pk_i64 task) {
    struct RD(shape) s = RD(get_shape)(g);
    pk_i64 rows = RD(blocks)(&s) * RD_ROWS, end = (task + 1) * rows;
    (void)phase;
    if (end > s.Z) end = s.Z;
    for (pk_i64 z = task * rows; z < end; z += RD_ROWS) {
        RD(rows)(g, z, end - z < RD_ROWS ? (int)(end - z) : RD_ROWS, s.K);
    }
}

static const struct pk_kernel RD(kernel) = {
    .name = RD_NAME,
    .phases = 1,
    .shared_bytes = RD(none),
    .local_bytes = RD(none),
    .tasks = RD(tasks),
    .run = RD(run),
    .check = PK_CHECK,
};

#undef RD_CAT2
#undef RD_CAT1
#undef RD
#undef RD_INLINE
#undef RD_ROWS
#undef RD_NAME
#undef RD_AXIS
#undef RD_LEVELS
#undef RD_ELEMENTS
#undef PK_KERNEL
#undef PK_CHECK
