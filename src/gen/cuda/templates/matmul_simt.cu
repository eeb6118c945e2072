/* SPDX-License-Identifier: MIT
 *
 * out_j(z, m, n) = f_j(acc_0 .. acc_i), acc_i(z, m, n) = sum over k of a(z, m, k) b_i(z, n, k): the
 * product for every dtype and every prologue, without tensor cores. A block of 256 threads makes a
 * tile of 64 x 64, each thread 4 x 4 of it, 16 steps of k at a time through shared memory; the next
 * step's operands are on their way while one is multiplied.
 *
 * K order: sequential, one chain of fused multiply-adds for each result, as on CPUs.
 *
 * The generator writes this file behind the CUDA prelude and, for each kernel:
 *
 *   #define PK_KERNEL k0           prefix: MM(x) is k0_x; undefined at the end, as every MM_*
 *   #define MM_ACC_S float           what accumulates
 *   #define MM_NB 1                right operands, 1..4
 *   #define MM_A_AXIS 1            lanes of a run along k (1) or along m (0); MM_B0_AXIS: k or n
 *   #define MM_A_GROUP 32          is there a structure for so many k? 0: none
 *   #define MM_HIDES 1             where a is 0, b0 may be infinite or NaN and the product is 0
 *                                  nevertheless; 2: where b0 is 0, a
 *   struct MM(shape) { pk_i64 Z, M, N, K; };  MM(get_shape)(g)
 *   MM(a_row)<W>, MM(a_row)<W> MM(a_row_init)<W>(g, z, m, cnt);
 *   pk_lanes<MM_ACC_S, W> MM(a_value)<W>(g, const MM(a_row)<W> *r, [group,] z, m, k, cnt);
 *   the same for b0 .. over (z, n, k)
 *   MM(c_row)<W>, MM(c_row_init)<W>(g, z, m);
 *   void MM(c_store)<W>(g, const MM(c_row)<W> *r, z, m, n, cnt, pk_lanes<MM_ACC_S, W> acc0, ..);
 * with W = MM_A_W = MM_B0_W = .. = MM_C_W = 4.
 *
 * Launch: 256 threads, Z * ceil(M / 64) * ceil(N / 64) blocks.
 */
#include "matmul_hooks.h"

#define MM_T  64 /* rows and columns of a tile */
#define MM_K  16 /* steps of k */
#define MM_LD (MM_T + 4)

/* An operand's part of the tile: 4 elements of a thread, along k or along the row's coordinate. */
template <int AXIS> PK_D int MM(at_o)(void) {
    return AXIS ? threadIdx.x / 4 : threadIdx.x % 16 * 4;
}
template <int AXIS> PK_D int MM(at_k)(void) {
    return AXIS ? threadIdx.x % 4 * 4 : threadIdx.x / 16;
}
#define MM_OPERAND(x, AXIS)                                                                        \
    PK_D pk_lanes<MM_ACC_S, 4> MM(x##_get)(const struct pk_args *g, const MM(x##_row)<4> *r,         \
                                         pk_i64 z, pk_i64 o, pk_i64 O, pk_i64 k, pk_i64 K) {       \
        const pk_i64 left = AXIS ? K - k : O - o;                                                  \
        if (left <= 0 || (AXIS ? o >= O : k >= K)) return pk_lanes<MM_ACC_S, 4>((MM_ACC_S)0);          \
        const int cnt = left < 4 ? (int)left : 4;                                                  \
        pk_lanes<MM_ACC_S, 4> v = MM(x##_at)<4>(g, r, z, o, k, cnt);                                 \
        PK_EACH(4) if (l >= cnt) v[l] = 0;                                                         \
        return v;                                                                                  \
    }
MM_OPERAND(a, MM_A_AXIS)
MM_OPERAND(b0, MM_B0_AXIS)
#if MM_NB > 1
MM_OPERAND(b1, MM_B1_AXIS)
#endif
#if MM_NB > 2
MM_OPERAND(b2, MM_B2_AXIS)
#endif
#if MM_NB > 3
MM_OPERAND(b3, MM_B3_AXIS)
#endif

template <int AXIS> PK_D void MM(put)(MM_ACC_S (*to)[MM_LD], const pk_lanes<MM_ACC_S, 4> &v) {
    PK_EACH(4)
    to[MM(at_k)<AXIS>() + (AXIS ? l : 0)][MM(at_o)<AXIS>() + (AXIS ? 0 : l)] = v[l];
}

PK_D void MM(step)(MM_ACC_S (*a)[MM_LD], MM_ACC_S (*b)[MM_LD], MM_ACC_S (*acc)[4]) {
    const int tm = threadIdx.x / 16 * 4, tn = threadIdx.x % 16 * 4;
    _Pragma("unroll") for (int k = 0; k < MM_K; k++) {
        MM_ACC_S x[4], y[4];
        PK_EACH(4) x[l] = a[k][tm + l];
        PK_EACH(4) y[l] = b[k][tn + l];
        _Pragma("unroll") for (int i = 0; i < 4; i++) {
            _Pragma("unroll") for (int j = 0; j < 4; j++) {
                if (MM_HIDES && (MM_HIDES == 1 ? x[i] : y[j]) == 0) continue;
                acc[i][j] = pk_fma1(x[i], y[j], acc[i][j]);
            }
        }
    }
}

#if MM_NB == 1
#define MM_SUMS(i) MM(lanes)(acc[0][i])
#elif MM_NB == 2
#define MM_SUMS(i) MM(lanes)(acc[0][i]), MM(lanes)(acc[1][i])
#elif MM_NB == 3
#define MM_SUMS(i) MM(lanes)(acc[0][i]), MM(lanes)(acc[1][i]), MM(lanes)(acc[2][i])
#else
#define MM_SUMS(i)                                                                                 \
    MM(lanes)(acc[0][i]), MM(lanes)(acc[1][i]), MM(lanes)(acc[2][i]), MM(lanes)(acc[3][i])
#endif
PK_D pk_lanes<MM_ACC_S, 4> MM(lanes)(const MM_ACC_S *x) {
    pk_lanes<MM_ACC_S, 4> v;
    PK_EACH(4) v[l] = x[l];
    return v;
}

extern "C" __global__ void __launch_bounds__(256)
    MM(main)(const __grid_constant__ struct pk_args args) {
    __shared__ __align__(16) MM_ACC_S sa[MM_K][MM_LD], sb[MM_NB][MM_K][MM_LD];
    const struct pk_args *const g = &args;
    const struct MM(shape) s = MM(get_shape)(g);
    const pk_i64 mt = (s.M + MM_T - 1) / MM_T, nt = (s.N + MM_T - 1) / MM_T;
    const pk_i64 z = blockIdx.x / (mt * nt);
    const pk_i64 m0 = blockIdx.x / nt % mt * MM_T, n0 = blockIdx.x % nt * MM_T;

#define MM_ROW(x, AXIS, o0, O)                                                                     \
    const pk_i64 o_##x = o0 + MM(at_o)<AXIS>();                                                    \
    MM(x##_row)<4> r_##x = {};                                                                     \
    if (o_##x < O)                                                                                 \
        r_##x = MM(x##_row_init)<4>(g, z, o_##x, AXIS ? 1 : O - o_##x < 4 ? (int)(O - o_##x) : 4);  \
    pk_lanes<MM_ACC_S, 4> v_##x = {0};
#define MM_GET(x, AXIS, O)                                                                         \
    v_##x = MM(x##_get)(g, &r_##x, z, o_##x, O, k0 + MM(at_k)<AXIS>(), s.K)
    MM_ROW(a, MM_A_AXIS, m0, s.M)
    MM_ROW(b0, MM_B0_AXIS, n0, s.N)
#if MM_NB > 1
    MM_ROW(b1, MM_B1_AXIS, n0, s.N)
#endif
#if MM_NB > 2
    MM_ROW(b2, MM_B2_AXIS, n0, s.N)
#endif
#if MM_NB > 3
    MM_ROW(b3, MM_B3_AXIS, n0, s.N)
#endif
    MM_ACC_S acc[MM_NB][4][4];
    _Pragma("unroll") for (int j = 0; j < MM_NB; j++) {
        PK_EACH(16) acc[j][l / 4][l % 4] = 0;
    }
    _Pragma("unroll 1") for (pk_i64 k0 = 0;; k0 += MM_K) {
        if (k0 < s.K) {
            MM_GET(a, MM_A_AXIS, s.M);
            MM_GET(b0, MM_B0_AXIS, s.N);
#if MM_NB > 1
            MM_GET(b1, MM_B1_AXIS, s.N);
#endif
#if MM_NB > 2
            MM_GET(b2, MM_B2_AXIS, s.N);
#endif
#if MM_NB > 3
            MM_GET(b3, MM_B3_AXIS, s.N);
#endif
        }
        if (k0 > 0) {
            _Pragma("unroll") for (int j = 0; j < MM_NB; j++) MM(step)(sa, sb[j], acc[j]);
        }
        if (k0 >= s.K) break;
        __syncthreads();
        MM(put)<MM_A_AXIS>(sa, v_a);
        MM(put)<MM_B0_AXIS>(sb[0], v_b0);
#if MM_NB > 1
        MM(put)<MM_B1_AXIS>(sb[1], v_b1);
#endif
#if MM_NB > 2
        MM(put)<MM_B2_AXIS>(sb[2], v_b2);
#endif
#if MM_NB > 3
        MM(put)<MM_B3_AXIS>(sb[3], v_b3);
#endif
        __syncthreads();
    }
    const pk_i64 n = n0 + threadIdx.x % 16 * 4;
    if (n >= s.N) return;
    const int cnt = s.N - n < 4 ? (int)(s.N - n) : 4;
    _Pragma("unroll") for (int i = 0; i < 4; i++) {
        const pk_i64 m = m0 + threadIdx.x / 16 * 4 + i;
        if (m >= s.M) return;
        const MM(c_row)<4> r = MM(c_row_init)<4>(g, z, m);
        MM(c_store)<4>(g, &r, z, m, n, cnt, MM_SUMS(i));
    }
}

#undef MM_T
#undef MM_K
#undef MM_LD
#undef MM_OPERAND
#undef MM_SUMS
#undef MM_ROW
#undef MM_GET
#include "matmul_end.h"
