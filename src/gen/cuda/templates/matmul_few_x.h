/* SPDX-License-Identifier: MIT
 * A for the few-rows template: a chunk along k is evaluated once into shared memory, in the order
 * in which the lanes of a warp will read it; or all of A once into scratch, by a launch of its own.
 */

/* A part of the work that has one x: tiles tile0 .. tile0+tiles-1 of 16 rows of B against rows m0 ..
 * of A, over the chunks c0 .. c1-1 of K. */
struct MM(part) {
    pk_i64 Z, M, N, K;
    pk_i64 z, m0, tile0;
    pk_i64 index; /* of its first tile among all tiles of the launch, splits apart */
    int tiles, c0, c1, splits, split;
    bool staged; /* runs can be read ahead */
};

/* The element of row `row` of the part's tiles: rows past N repeat the last one, and their sums are
 * not stored. */
PK_D pk_i64 MM(row_at)(const struct MM(part) & p, int row) {
    return MM(min)(p.tile0 * 16 + row, p.N - 1);
}

/* ---- scratch: counters of finished splits, their sums, A evaluated ---------------------------- */

PK_D pk_i64 MM(all_tiles)(pk_i64 Z, pk_i64 M, pk_i64 N) {
    return Z * MM(ceil)(M, MM_COLS) * MM(ceil)(N, 16);
}

PK_D pk_i64 MM(counter_bytes)(pk_i64 tiles) {
    return MM_SPLIT > 1 ? MM(ceil)(4 * tiles, 256) * 256 : 0;
}

PK_D pk_i64 MM(sum_bytes)(pk_i64 tiles) {
    return MM_SPLIT > 1
               ? tiles * MM_SPLIT * MM_NB * MM_COLS8 * (pk_i64)(32 * sizeof(struct MM(acc)))
               : 0;
}

#if MM_A_STAGE
/* Row m of A evaluated: MM_REGS registers for each 8 elements, 0 past K. */
PK_D unsigned *MM(stage_row)(const struct pk_args *g, pk_i64 Z, pk_i64 M, pk_i64 N, pk_i64 K,
                             pk_i64 z, pk_i64 m) {
    pk_i64 tiles = MM(all_tiles)(Z, M, N);
    return (unsigned *)((char *)g->scratch + MM(counter_bytes)(tiles) + MM(sum_bytes)(tiles)) +
           (z * M + m) * MM(ceil)(K, 16) * (2 * MM_REGS);
}
#endif

/* A chunk of A in shared memory: rows of fragments, 8 elements along k each. Rows lie apart so that
 * the four runs of two rows, which are read at once, mostly fall into different banks; and along k
 * without gaps, or asynchronous copies would be slow. */
struct alignas(MM_REGS == 2 ? 8 : 16) MM(frag) {
    unsigned v[MM_REGS];
};

/* Whole fragments move as 16 or 8 bytes at a time. */
PK_D void MM(copy)(struct MM(frag) * to, const struct MM(frag) * from) {
#if MM_REGS == 2
    *(uint2 *)to = *(const uint2 *)from;
#else
#pragma unroll
    for (int i = 0; i < MM_REGS / 4; i++)
        ((uint4 *)to)[i] = ((const uint4 *)from)[i];
#endif
}

PK_D void MM(copy_async)(struct MM(frag) * to, const void *from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
#if MM_REGS == 2
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(at), "l"(from) : "memory");
#else
#pragma unroll
    for (int i = 0; i < MM_REGS / 4; i++)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at + 16 * i),
                     "l"((const char *)from + 16 * i)
                     : "memory");
#endif
}

#define MM_J      (MM_RUN / 8)
#define MM_XN     (MM_CHUNK / 8)
#define MM_PITCHX (MM_XN + (MM_J == 1 ? 4 : 1))
#define MM_FRAGS  (MM_PITCHX * MM_COLS)

/* Threads stand along k, MM_XK of them, and MM_XR rows at once. */
#define MM_XK (MM_XN < MM_THREADS ? MM_XN : MM_THREADS)
#define MM_XR (MM_THREADS / MM_XK)

/* Rows of A in a part. Blocks start with different ones, or all would ask the L2 for the same lines
 * at once. */
PK_D unsigned MM(x_rows)(const struct MM(part) & p) {
    return (unsigned)MM(min)(p.M - p.m0, MM_COLS);
}

PK_D unsigned MM(x_row)(unsigned i, unsigned start, unsigned rows) {
    return i + start < rows ? i + start : i + start - rows;
}

/* Hidden from the compiler, which would compute places long before they are needed. */
PK_D unsigned MM(this_thread)(void) {
    unsigned i = threadIdx.x;
    asm volatile("" : "+r"(i));
    return i;
}

PK_D void MM(zero)(unsigned v[MM_REGS]) {
#pragma unroll
    for (int i = 0; i < MM_REGS; i++)
        v[i] = 0;
}

PK_D void MM(x_put)(struct MM(frag) * at, unsigned v[MM_REGS]) {
    struct MM(frag) f;
#pragma unroll
    for (int r = 0; r < MM_REGS; r++)
        f.v[r] = v[r];
    MM(copy)(at, &f);
}

/* Two chunks of A in turn, the next one on its way: then fragments keep the order of k, and are
 * brought into B's when they are used. */
#ifndef MM_X_NATURAL
#define MM_X_NATURAL (MM_X_BUFS == 2 && !MM_A_STAGE)
#endif

/* A is in memory as it is multiplied: fragments are copied asynchronously. */
#define MM_X_COPY (MM_A_STAGE || (MM_A_PLAIN && MM_KIND != MM_KIND_FMA))

/* Can A be read 16 bytes at a time? The same answer for all threads. */
PK_D bool MM(x_fast)(const struct pk_args *g, const struct MM(part) & p) {
    if (MM_A_STAGE) return true;
#if !MM_A_STAGE && MM_A_LEAVES > 0
    if (MM(a_op)::STAGED && p.K % 8 == 0) {
        unsigned bad = 0;
#pragma unroll 1
        for (int m = (int)threadIdx.x & 31; m < MM_COLS; m += 32)
            if (p.m0 + m < p.M) {
                auto row = MM(a_op)::row_of(g, p.z, p.m0 + m);
                bad |= MM(a_op)::misaligned(g, &row, p.z, p.m0 + m, 0);
            }
        return !__any_sync(~0u, bad != 0);
    }
#endif
    return false;
}

PK_D void MM(x_request)(const struct pk_args *g, const struct MM(part) & p, pk_i64 k0, bool fast,
                        struct MM(frag) * x) {
#if MM_X_COPY
    if (!fast) return;
    const unsigned me = MM(this_thread)(), rows = MM(x_rows)(p), start = blockIdx.x % rows;
#if MM_A_STAGE
    const char *base = (const char *)MM(stage_row)(g, p.Z, p.M, p.N, p.K, p.z, p.m0);
    const pk_i64 pitch = MM(ceil)(p.K, 16) * (8 * MM_REGS);
#elif MM_A_LEAF0_MAP
    /* Rows lie evenly. */
    const pk_i64 second = MM(min)(p.m0 + 1, p.M - 1);
    auto row0 = MM(a_op)::row_of(g, p.z, p.m0), row1 = MM(a_op)::row_of(g, p.z, second);
    const char *base = (const char *)MM(a_leaf0)(g, &row0, p.z, p.m0, 0);
    const pk_i64 pitch = (const char *)MM(a_leaf0)(g, &row1, p.z, second, 0) - base;
#endif
    if (me < MM_XK * MM_XR)
#pragma unroll 1
        for (unsigned kb = me % MM_XK; kb < MM_XN; kb += MM_XK) {
            const pk_i64 k = k0 + 8 * kb;
#pragma unroll 4
            for (unsigned i = me / MM_XK; i < rows; i += MM_XR) {
                const unsigned row = MM(x_row)(i, start, rows);
                if (k >= p.K) {
                    unsigned v[MM_REGS];
                    MM(zero)(v);
                    MM(x_put)(x + row * MM_PITCHX + kb, v);
                    continue;
                }
#if MM_A_STAGE || MM_A_LEAF0_MAP
                const char *from = base + row * pitch + k / 8 * (4 * MM_REGS);
#else
                auto r = MM(a_op)::row_of(g, p.z, p.m0 + row);
                const void *from = MM(a_leaf0)(g, &r, p.z, p.m0 + row, k);
#endif
                MM(copy_async)(x + row * MM_PITCHX + kb, from);
            }
        }
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

#if !MM_A_STAGE
/* Rows i, i + MM_XR, .. at k: all reads, then all arithmetic. */
template <int N>
PK_D void MM(x_frags)(const struct pk_args *g, const struct MM(part) & p, pk_i64 k,
                      struct MM(frag) * x, unsigned i, unsigned start, unsigned rows, bool fast) {
    typedef MM(a_op) op;
    unsigned v[MM_REGS];
    op::row row[N];
    op::run run[N];
#pragma unroll
    for (int n = 0; n < N; n++) {
        const unsigned at = i + n * MM_XR;
        if (at >= rows || k >= p.K) continue;
        const pk_i64 m = p.m0 + MM(x_row)(at, start, rows);
        row[n] = op::row_of(g, p.z, m);
        if (fast) {
            op::place from;
            op::point(g, &row[n], p.z, m, k, &from);
            op::load<false>(g, &row[n], p.z, m, k, &from, 0, &run[n]);
        }
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
        const unsigned at = i + n * MM_XR;
        if (at >= rows) continue;
        const unsigned m = MM(x_row)(at, start, rows);
        if (k >= p.K)
            MM(zero)(v);
        else if (fast)
            op::frag(g, &row[n], &run[n], p.z, p.m0 + m, k, 0, v);
        else
            op::value8(g, &row[n], p.z, p.m0 + m, k, (int)MM(min)(p.K - k, 8), v);
        if (!MM_X_NATURAL) MM(reorder)(v);
        MM(x_put)(x + m * MM_PITCHX, v);
    }
}
#endif

/* Completes the chunk at k0; all threads meet. */
PK_D void MM(x_finish)(const struct pk_args *g, const struct MM(part) & p, pk_i64 k0, bool fast,
                       struct MM(frag) * x) {
    if (fast && MM_X_COPY) {
        asm volatile("cp.async.wait_group 0;" ::: "memory");
#if !MM_A_STAGE && MM_B_ORDER > 1 && !MM_X_NATURAL
        __syncthreads();
#pragma unroll 4
        for (unsigned i = MM(this_thread)(); i < MM_PITCHX * MM(x_rows)(p); i += MM_THREADS) {
            struct MM(frag) f;
            MM(copy)(&f, x + i);
            MM(reorder)(f.v);
            MM(copy)(x + i, &f);
        }
#endif
    } else {
#if !MM_A_STAGE
        const unsigned me = MM(this_thread)(), rows = MM(x_rows)(p), start = blockIdx.x % rows;
        constexpr int N = 4 / (MM_A_LEAVES > 1 ? 2 : 1);
        if (me < MM_XK * MM_XR)
#pragma unroll 1
            for (unsigned kb = me % MM_XK; kb < MM_XN; kb += MM_XK) {
                const pk_i64 k = k0 + 8 * kb;
                unsigned i = me / MM_XK;
                if (fast && !MM_X_COPY) {
#pragma unroll 1
                    for (; i < rows; i += N * MM_XR)
                        MM(x_frags)<N>(g, p, k, x + kb, i, start, rows, true);
                } else {
#pragma unroll 1
                    for (; i < rows; i += MM_XR)
                        MM(x_frags)<1>(g, p, k, x + kb, i, start, rows, false);
                }
            }
#endif
    }
    __syncthreads();
}

#if MM_A_STAGE
/* Evaluates A once, 8 elements a thread. */
extern "C" __global__ void __launch_bounds__(256)
    MM(stage)(const __grid_constant__ struct pk_args args) {
    const struct pk_args *g = &args;
    struct MM(shape) s = MM(get_shape)(g);
    pk_i64 per = MM(ceil)(s.K, 16) * 2, total = s.Z * s.M * per;
    for (pk_i64 i = (pk_i64)blockIdx.x * 256 + threadIdx.x; i < total;
         i += (pk_i64)gridDim.x * 256) {
        pk_i64 k = i % per * 8, m = i / per % s.M, z = i / per / s.M, left = s.K - k;
        unsigned v[MM_REGS];
        auto row = MM(a_op)::row_of(g, z, m);
        MM(a_op)::value8(g, &row, z, m, k, left > 8 ? 8 : left < 0 ? 0 : (int)left, v);
        MM(reorder)(v);
        unsigned *to = MM(stage_row)(g, s.Z, s.M, s.N, s.K, z, m) + k / 8 * MM_REGS;
#pragma unroll
        for (int j = 0; j < MM_REGS; j++)
            to[j] = v[j];
    }
}
#endif
