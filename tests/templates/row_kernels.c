/* SPDX-License-Identifier: MIT
 *
 * The templates of pointwise kernels, reductions, scatters, scans and sorts with plain hooks, several
 * kernels in one unit: compiled into a shared object by the templates' test. sym = Z, K, N. Each
 * result has two buffers, its elements and how often each was stored.
 */
#include "base/kernel_abi.h"
#include "gen/c/prelude/vec.h"
#include "gen/c/prelude/convert.h"
#include "gen/c/prelude/memory.h"
#include "row_hooks.h"

#define CAT2(a, b) a##_##b
#define CAT1(a, b) CAT2(a, b)
#define K(x)       CAT1(PK_KERNEL, x)

#define SHAPE_ZN                                                                                   \
    struct K(shape) {                                                                              \
        pk_i64 Z, N;                                                                               \
    };                                                                                             \
    static inline struct K(shape) K(get_shape)(const struct pk_args *g) {                          \
        return (struct K(shape)){g->sym[0], g->sym[2]};                                            \
    }
#define SHAPE_ZK                                                                                   \
    struct K(shape) {                                                                              \
        pk_i64 Z, K;                                                                               \
    };                                                                                             \
    static inline struct K(shape) K(get_shape)(const struct pk_args *g) {                          \
        return (struct K(shape)){g->sym[0], g->sym[1]};                                            \
    }
#define SHAPE_ZKN                                                                                  \
    struct K(shape) {                                                                              \
        pk_i64 Z, K, N;                                                                            \
    };                                                                                             \
    static inline struct K(shape) K(get_shape)(const struct pk_args *g) {                          \
        return (struct K(shape)){g->sym[0], g->sym[1], g->sym[2]};                                 \
    }

/* ---- pointwise: buf = x[z][n], out0, count0, out1, count1 ----------------------------------------
 * out0 = 2 x + z; out1 = x - n */
#define PK_KERNEL k0
#define PK_CHECK  0
#define PW_NAME   "pointwise"
SHAPE_ZN
struct K(c_row) {
    pk_i64 z;
};
static inline struct K(c_row) K(c_row_init)(const struct pk_args *g, pk_i64 z) {
    rh_check(z >= 0 && z < g->sym[0]);
    return (struct K(c_row)){z};
}
static inline void K(c_store)(const struct pk_args *g, const struct K(c_row) * r, pk_i64 z,
                              pk_i64 n, int cnt) {
    pk_i64 at = z * g->sym[2] + n;
    rh_check(r->z == z && n % PK_W == 0 && n + cnt <= g->sym[2]);
    vf32 x = rh_load_vf32((const float *)g->buf[0] + at, cnt, 1);
    rh_store_vf32(g, 1, at, 1, cnt, 2 * x + (float)z);
    rh_store_vf32(g, 3, at, 1, cnt, x - rh_iota(n));
}
#include "gen/c/templates/pointwise.c"

/* ---- reductions ----------------------------------------------------------------------------------
 * buf = x[z][k] (axis 1) or x[k][z] (axis 0), then sum and count, square and count (rows), rest and
 * count (elements, laid out as x).
 * level 0: sum of x, greatest x. level 1: sum of (greatest - x)^2. rest = greatest - x. */
#define REDUCE(axis)                                                                               \
    SHAPE_ZK                                                                                       \
    struct K(c_row) {                                                                              \
        pk_i64 z;                                                                                  \
        vf32 sum, top, square;                                                                     \
    };                                                                                             \
    struct K(acc) {                                                                                \
        vf32 sum, top, square;                                                                     \
    };                                                                                             \
    static inline void K(row_init)(const struct pk_args *g, struct K(c_row) * r, pk_i64 z,         \
                                   int cnt) {                                                      \
        rh_check(z >= 0 && cnt >= 1 && cnt <= ((axis) ? 1 : PK_W) && z + cnt <= g->sym[0]);        \
        r->z = z;                                                                                  \
    }                                                                                              \
    static inline void K(acc_init)(struct K(acc) * a) {                                            \
        a->sum = a->square = (vf32){0};                                                            \
        a->top = (vf32){0} - __builtin_inff();                                                     \
    }                                                                                              \
    static inline pk_i64 K(at)(const struct pk_args *g, pk_i64 z, pk_i64 k) {                      \
        return (axis) ? z * g->sym[1] + k : k * g->sym[0] + z;                                     \
    }                                                                                              \
    static inline vf32 K(pick)(vf32 yes, vf32 no, int n) {                                         \
        for (int i = n; i < PK_W; i++)                                                             \
            yes[i] = no[i];                                                                        \
        return yes;                                                                                \
    }                                                                                              \
    static inline vf32 K(greater)(vf32 a, vf32 b) {                                                \
        for (int i = 0; i < PK_W; i++)                                                             \
            a[i] = a[i] > b[i] ? a[i] : b[i];                                                      \
        return a;                                                                                  \
    }                                                                                              \
    static inline void K(step)(const struct pk_args *g, const struct K(c_row) * r,                 \
                               struct K(acc) * a, int level, pk_i64 z, pk_i64 k, int cnt) {        \
        rh_check(r->z == z && k >= 0 && k + ((axis) ? cnt : 1) <= g->sym[1]);                      \
        rh_check(!(axis) || k % PK_W == 0);                                                        \
        vf32 x = rh_load_vf32((const float *)g->buf[0] + K(at)(g, z, k), cnt, 1);                  \
        if (level == 0) {                                                                          \
            a->sum = K(pick)(a->sum + x, a->sum, cnt);                                             \
            a->top = K(pick)(K(greater)(a->top, x), a->top, cnt);                                  \
        } else {                                                                                   \
            vf32 d = ((axis) ? (vf32){0} + r->top[0] : r->top) - x;                                \
            a->square = K(pick)(a->square + d * d, a->square, cnt);                                \
        }                                                                                          \
    }                                                                                              \
    static inline void K(combine)(struct K(acc) * a, const struct K(acc) * b, int level) {         \
        if (level == 0) {                                                                          \
            a->sum = a->sum + b->sum;                                                              \
            a->top = K(greater)(a->top, b->top);                                                   \
        } else {                                                                                   \
            a->square = a->square + b->square;                                                     \
        }                                                                                          \
    }                                                                                              \
    static inline vf32 K(turn)(vf32 v, int by) {                                                   \
        vf32 to;                                                                                   \
        for (int i = 0; i < PK_W; i++)                                                             \
            to[i] = v[(i + by) % PK_W];                                                            \
        return to;                                                                                 \
    }                                                                                              \
    static inline __attribute__((unused)) void K(rotate)(struct K(acc) * to,                       \
                                                         const struct K(acc) * a, int by) {        \
        to->sum = K(turn)(a->sum, by);                                                             \
        to->top = K(turn)(a->top, by);                                                             \
        to->square = K(turn)(a->square, by);                                                       \
    }                                                                                              \
    static inline void K(finish)(const struct pk_args *g, struct K(c_row) * r,                     \
                                 const struct K(acc) * a, int level, pk_i64 z, int cnt) {          \
        rh_check(r->z == z && z + cnt <= g->sym[0]);                                               \
        if (level == 0) {                                                                          \
            r->sum = a->sum;                                                                       \
            r->top = a->top;                                                                       \
        } else {                                                                                   \
            r->square = a->square;                                                                 \
        }                                                                                          \
    }                                                                                              \
    static inline void K(row_store)(const struct pk_args *g, const struct K(c_row) * r, pk_i64 z,  \
                                    int cnt) {                                                     \
        rh_check(r->z == z && cnt <= ((axis) ? 1 : PK_W));                                         \
        rh_store_vf32(g, 1, z, 1, cnt, r->sum);                                                    \
        if (RD_LEVELS > 1) rh_store_vf32(g, 3, z, 1, cnt, r->square);                              \
    }                                                                                              \
    static inline __attribute__((unused)) void K(element_store)(                                   \
        const struct pk_args *g, const struct K(c_row) * r, pk_i64 z, pk_i64 k, int cnt) {         \
        rh_check(r->z == z && k >= 0 && k + ((axis) ? cnt : 1) <= g->sym[1]);                      \
        vf32 x = rh_load_vf32((const float *)g->buf[0] + K(at)(g, z, k), cnt, 1);                  \
        vf32 top = (axis) ? (vf32){0} + r->top[0] : r->top;                                        \
        rh_store_vf32(g, 5, K(at)(g, z, k), 1, cnt, top - x);                                      \
    }

#define PK_KERNEL   k1
#define PK_CHECK    0
#define RD_NAME     "rows along k"
#define RD_AXIS     1
#define RD_LEVELS   2
#define RD_ELEMENTS 1
REDUCE(1)
#include "gen/c/templates/reduction.c"

#define PK_KERNEL   k2
#define PK_CHECK    0
#define RD_NAME     "rows along z"
#define RD_AXIS     0
#define RD_LEVELS   2
#define RD_ELEMENTS 1
REDUCE(0)
#include "gen/c/templates/reduction.c"

#define PK_KERNEL   k3
#define PK_CHECK    0
#define RD_NAME     "one level along k"
#define RD_AXIS     1
#define RD_LEVELS   1
#define RD_ELEMENTS 0
REDUCE(1)
#include "gen/c/templates/reduction.c"

/* Eight levels, each a sum that needs the one before: acc_i = sum of (x ^ acc_{i-1}), wrapping.
 * buf = x[z][k] or x[k][z] (int), out[z][8], count. */
#define LEVELS(axis)                                                                               \
    SHAPE_ZK                                                                                       \
    struct K(c_row) {                                                                              \
        vi32 sum[8];                                                                               \
        int done;                                                                                  \
    };                                                                                             \
    struct K(acc) {                                                                                \
        vi32 sum;                                                                                  \
    };                                                                                             \
    static inline void K(row_init)(const struct pk_args *g, struct K(c_row) * r, pk_i64 z,         \
                                   int cnt) {                                                      \
        rh_check(z + cnt <= g->sym[0]);                                                            \
        r->done = 0;                                                                               \
    }                                                                                              \
    static inline void K(acc_init)(struct K(acc) * a) {                                            \
        a->sum = (vi32){0};                                                                        \
    }                                                                                              \
    static inline void K(step)(const struct pk_args *g, const struct K(c_row) * r,                 \
                               struct K(acc) * a, int level, pk_i64 z, pk_i64 k, int cnt) {        \
        rh_check(r->done == level);                                                                \
        pk_i64 at = (axis) ? z * g->sym[1] + k : k * g->sym[0] + z;                                \
        vi32 x = rh_load_vi32((const int *)g->buf[0] + at, cnt, 1);                                \
        if (level > 0) x ^= (axis) ? (vi32){0} + r->sum[level - 1][0] : r->sum[level - 1];         \
        for (int i = 0; i < cnt; i++)                                                              \
            a->sum[i] = (int)((unsigned)a->sum[i] + (unsigned)x[i]);                               \
    }                                                                                              \
    static inline void K(combine)(struct K(acc) * a, const struct K(acc) * b, int level) {         \
        (void)level;                                                                               \
        a->sum = (vi32)((vu32)a->sum + (vu32)b->sum);                                              \
    }                                                                                              \
    static inline __attribute__((unused)) void K(rotate)(struct K(acc) * to,                       \
                                                         const struct K(acc) * a, int by) {        \
        for (int i = 0; i < PK_W; i++)                                                             \
            to->sum[i] = a->sum[(i + by) % PK_W];                                                  \
    }                                                                                              \
    static inline void K(finish)(const struct pk_args *g, struct K(c_row) * r,                     \
                                 const struct K(acc) * a, int level, pk_i64 z, int cnt) {          \
        (void)g, (void)z, (void)cnt;                                                               \
        rh_check(r->done == level);                                                                \
        r->sum[level] = a->sum;                                                                    \
        r->done = level + 1;                                                                       \
    }                                                                                              \
    static inline void K(row_store)(const struct pk_args *g, const struct K(c_row) * r, pk_i64 z,  \
                                    int cnt) {                                                     \
        rh_check(r->done == 8);                                                                    \
        for (int i = 0; i < 8; i++)                                                                \
            rh_store_vi32(g, 1, z * 8 + i, 8, cnt, r->sum[i]);                                     \
    }                                                                                              \
    static inline __attribute__((unused)) void K(element_store)(                                   \
        const struct pk_args *g, const struct K(c_row) * r, pk_i64 z, pk_i64 k, int cnt) {         \
        (void)g, (void)r, (void)z, (void)k, (void)cnt;                                             \
        __builtin_trap();                                                                          \
    }

#define PK_KERNEL   k4
#define PK_CHECK    0
#define RD_NAME     "eight levels along k"
#define RD_AXIS     1
#define RD_LEVELS   8
#define RD_ELEMENTS 0
LEVELS(1)
#include "gen/c/templates/reduction.c"

#define PK_KERNEL   k5
#define PK_CHECK    0
#define RD_NAME     "eight levels along z"
#define RD_AXIS     0
#define RD_LEVELS   8
#define RD_ELEMENTS 0
LEVELS(0)
#include "gen/c/templates/reduction.c"

/* ---- scatters ------------------------------------------------------------------------------------
 * buf = base[k][z], index[n][z] or, if uniform, index[n], src[n][z], out[k][z], count, twice and
 * count: twice = 2 out. */
#define SCATTER(V, S)                                                                              \
    SHAPE_ZKN                                                                                      \
    static inline V K(base)(const struct pk_args *g, pk_i64 z, pk_i64 k, int cnt) {                \
        rh_check(z % PK_W == 0 && z + cnt <= g->sym[0] && k < g->sym[1]);                          \
        return rh_load_##V((const S *)g->buf[0] + k * g->sym[0] + z, cnt, 1);                      \
    }                                                                                              \
    static inline vi64 K(index)(const struct pk_args *g, pk_i64 z, pk_i64 n, int cnt) {            \
        const pk_i64 *at = g->buf[1];                                                              \
        rh_check(n >= 0 && n < g->sym[2]);                                                         \
        vi64 i =                                                                                   \
            rh_load_vi64(SC_UNIFORM ? at + n : at + n * g->sym[0] + z, SC_UNIFORM ? 1 : cnt, 1);   \
        /* lanes that are not there lead far outside */                                            \
        for (int l = SC_UNIFORM ? 1 : cnt; l < PK_W; l++)                                          \
            i[l] = (pk_i64)1 << 40;                                                                \
        return i;                                                                                  \
    }                                                                                              \
    static inline V K(src)(const struct pk_args *g, pk_i64 z, pk_i64 n, int cnt) {                 \
        return rh_load_##V((const S *)g->buf[2] + n * g->sym[0] + z, cnt, 1);                      \
    }                                                                                              \
    static inline void K(store)(const struct pk_args *g, pk_i64 z, pk_i64 k, int cnt, V acc0) {    \
        rh_store_##V(g, 3, k * g->sym[0] + z, 1, cnt, acc0);                                       \
        rh_store_##V(g, 5, k * g->sym[0] + z, 1, cnt, acc0 + acc0);                                \
    }

#define PK_KERNEL  k6
#define PK_CHECK   0
#define SC_NAME    "replace"
#define SC_ACC     vf32
#define SC_ACC_S   float
#define SC_ADD     0
#define SC_UNIFORM 0
SCATTER(vf32, float)
#include "gen/c/templates/scatter.c"

#define PK_KERNEL  k7
#define PK_CHECK   0
#define SC_NAME    "add"
#define SC_ACC     vf64
#define SC_ACC_S   double
#define SC_ADD     1
#define SC_UNIFORM 0
SCATTER(vf64, double)
#include "gen/c/templates/scatter.c"

#define PK_KERNEL  k8
#define PK_CHECK   0
#define SC_NAME    "replace lines"
#define SC_ACC     vi64
#define SC_ACC_S   pk_i64
#define SC_ADD     0
#define SC_UNIFORM 1
SCATTER(vi64, pk_i64)
#include "gen/c/templates/scatter.c"

#define PK_KERNEL  k9
#define PK_CHECK   0
#define SC_NAME    "add lines"
#define SC_ACC     vi32
#define SC_ACC_S   int
#define SC_ADD     1
#define SC_UNIFORM 1
SCATTER(vi32, int)
#include "gen/c/templates/scatter.c"

/* ---- scans: buf = x[k][z], out[k][z], count, twice, count ---------------------------------------- */
#define SCAN(V, S)                                                                                 \
    SHAPE_ZK                                                                                       \
    static inline V K(src)(const struct pk_args *g, pk_i64 z, pk_i64 k, int cnt) {                 \
        rh_check(z % PK_W == 0 && z + cnt <= g->sym[0] && k < g->sym[1]);                          \
        return rh_load_##V((const S *)g->buf[0] + k * g->sym[0] + z, cnt, 1);                      \
    }                                                                                              \
    static inline void K(store)(const struct pk_args *g, pk_i64 z, pk_i64 k, int cnt, V acc0) {    \
        rh_store_##V(g, 1, k * g->sym[0] + z, 1, cnt, acc0);                                       \
        rh_store_##V(g, 3, k * g->sym[0] + z, 1, cnt, acc0 + acc0);                                \
    }

#define PK_KERNEL k10
#define PK_CHECK  0
#define SN_NAME   "scan f32"
#define SN_ACC    vf32
SCAN(vf32, float)
#include "gen/c/templates/scan.c"

#define PK_KERNEL k11
#define PK_CHECK  0
#define SN_NAME   "scan i64"
#define SN_ACC    vi64
SCAN(vi64, pk_i64)
#include "gen/c/templates/scan.c"

/* ---- sorts: buf = x[z][k], values[z][n], count, positions[z][n], count ---------------------------- */
#define SORT(V, S)                                                                                 \
    SHAPE_ZKN                                                                                      \
    static inline V K(src)(const struct pk_args *g, pk_i64 z, pk_i64 k, int cnt) {                 \
        rh_check(z < g->sym[0] && k % PK_W == 0 && k + cnt <= g->sym[1]);                          \
        return rh_load_##V((const S *)g->buf[0] + z * g->sym[1] + k, cnt, 1);                      \
    }                                                                                              \
    static inline void K(store)(const struct pk_args *g, pk_i64 z, pk_i64 k, int cnt, V acc0,      \
                                vi64 acc1) {                                                       \
        rh_check(k % PK_W == 0 && k + cnt <= g->sym[2]);                                           \
        rh_store_##V(g, 1, z * g->sym[2] + k, 1, cnt, acc0);                                       \
        rh_store_vi64(g, 3, z * g->sym[2] + k, 1, cnt, acc1);                                      \
    }

#define PK_KERNEL     k12
#define PK_CHECK      0
#define ST_NAME       "ascending f32"
#define ST_ACC        vf32
#define ST_ACC_S      float
#define ST_LESS(a, b) ((a) < (b) || ((b) != (b) && (a) == (a)))
#define ST_DESCENDING 0
SORT(vf32, float)
#include "gen/c/templates/sort.c"

#define PK_KERNEL     k13
#define PK_CHECK      0
#define ST_NAME       "descending f32"
#define ST_ACC        vf32
#define ST_ACC_S      float
#define ST_LESS(a, b) ((a) < (b) || ((b) != (b) && (a) == (a)))
#define ST_DESCENDING 1
SORT(vf32, float)
#include "gen/c/templates/sort.c"

#define PK_KERNEL     k14
#define PK_CHECK      0
#define ST_NAME       "descending i64"
#define ST_ACC        vi64
#define ST_ACC_S      pk_i64
#define ST_LESS(a, b) ((a) < (b))
#define ST_DESCENDING 1
SORT(vi64, pk_i64)
#include "gen/c/templates/sort.c"

static const struct pk_kernel *const kernels[] = {
    &k0_kernel,  &k1_kernel,  &k2_kernel,  &k3_kernel,  &k4_kernel,
    &k5_kernel,  &k6_kernel,  &k7_kernel,  &k8_kernel,  &k9_kernel,
    &k10_kernel, &k11_kernel, &k12_kernel, &k13_kernel, &k14_kernel,
};

const struct pk_unit proem_unit = {PK_ABI_VERSION, sizeof kernels / sizeof *kernels, kernels};
const int lanes = PK_W;
