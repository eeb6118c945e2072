/* SPDX-License-Identifier: MIT
 * The stream of B in the few-rows template: each warp keeps a ring of reads in flight and multiplies
 * what has arrived with the chunk of A in shared memory.
 */

/* ---- sums ------------------------------------------------------------------------------------- */

/* Where the sums of tile t, operand b, of one warp and 8 rows of A lie: 32 lanes of 16 bytes. */
PK_D struct MM(acc) * MM(sum_at)(struct MM(acc) * sums, int t, int b, int kgroup, int c) {
    int lane = (int)threadIdx.x & 31;
    return sums + (((t * MM_NB + b) * MM_KGROUPS + kgroup) * MM_COLS8 + c) * 32 + lane;
}

PK_D void MM(put)(struct MM(acc) * at, const struct MM(acc) & v) {
#pragma unroll
    for (int i = 0; i < (int)sizeof v / 16; i++)
        ((uint4 *)at)[i] = ((const uint4 *)&v)[i];
}

PK_D struct MM(acc) MM(get)(const struct MM(acc) * at) {
    struct MM(acc) v;
#pragma unroll
    for (int i = 0; i < (int)sizeof v / 16; i++)
        ((uint4 *)&v)[i] = ((const uint4 *)at)[i];
    return v;
}

/* From another block, past this one's L1. */
PK_D struct MM(acc) MM(get_far)(const struct MM(acc) * at) {
    struct MM(acc) v;
#pragma unroll
    for (int i = 0; i < (int)sizeof v / 16; i++)
        ((int4 *)&v)[i] = __ldcg((const int4 *)at + i);
    return v;
}

PK_D void MM(add)(struct MM(acc) & c, const struct MM(acc) & v) {
#pragma unroll
    for (int i = 0; i < 4; i++)
        c.x[i] += v.x[i];
}

template <int T> struct MM(accs) { MM(partial) c[T][MM_COLS8]; };

template <int T> PK_D void MM(clear)(MM(accs) < T > &a) {
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int c = 0; c < MM_COLS8; c++)
#pragma unroll
            for (int i = 0; i < (int)(sizeof(MM(partial)) / sizeof(MM_ACC_S)); i++)
                ((MM_ACC_S *)&a.c[t][c])[i] = 0;
}

/* What 8 elements along k of T tiles add to the sums with 8 rows of A, whose fragments are
 * f[0 .. 31]. One-by-one products take a row of A after the other: eight lanes read the same. */
template <int T>
PK_D void MM(products)(const struct MM(frag) * f, int c, const unsigned (&v)[T][2][MM_REGS],
                       MM(accs) < T > &a) {
    int lane = (int)threadIdx.x & 31;
#if MM_KIND == MM_KIND_FMA
#pragma unroll
    for (int m = 0; m < 8; m++) {
        struct MM(frag) x;
        MM(copy)(&x, f + m * MM_PITCHX + (lane & 3) * MM_J);
#pragma unroll
        for (int t = 0; t < T; t++)
            MM(macs)(a.c[t][c], m, v[t][0], v[t][1], x.v);
    }
#else
    struct MM(frag) x;
    MM(copy)(&x, f + lane / 4 * MM_PITCHX + (lane & 3) * MM_J);
    if (MM_X_NATURAL) MM(reorder)(x.v);
#pragma unroll
    for (int t = 0; t < T; t++)
        MM(mma)(a.c[t][c], v[t][0], v[t][1], x.v);
#endif
}

/* Adds a warp's sums to those of earlier chunks; the first chunk sets them. */
template <int T>
PK_D void MM(flush)(const struct MM(part) & p, int tile, int b, int kgroup, bool first,
                    const MM(accs) < T > &a, struct MM(acc) * sums) {
#pragma unroll
    for (int t = 0; t < T; t++)
        if (tile + t < p.tiles) {
#pragma unroll
            for (int c = 0; c < MM_COLS8; c++) {
                struct MM(acc) v = MM(total)(a.c[t][c]),
                               *at = MM(sum_at)(sums, tile + t, b, kgroup, c);
                if (!first) MM(add)(v, MM(get)(at));
                MM(put)(at, v);
            }
        }
}

/* ---- the stream of B -------------------------------------------------------------------------- */

/* A tile's part of a chunk: what a warp reads or sums between two flushes. units: how many of its
 * units along k are whole; 0: nothing is read ahead. */
struct MM(place) {
    int chunk, tile, units;
};

/* Whole units of a chunk that belong to a group of warps. */
PK_D int MM(units)(const struct MM(part) & p, int chunk, int kgroup) {
    if (!p.staged || chunk >= p.c1) return 0;
    pk_i64 left = (p.K - (pk_i64)chunk * MM_CHUNK) / MM_UNIT - kgroup * MM_UNITS;
    return left < 0 ? 0 : left < MM_UNITS ? (int)left : MM_UNITS;
}

/* For one right operand: this lane's rows, and the runs in flight. */
template <int B> struct MM(ring) {
    typedef typename MM(op_of)<B>::type op;
    typename op::row row[MM_STEP][2], ahead[MM_STEP][2]; /* of the runs used, of those requested */
    typename op::place at[MM_STEP][2];
    typename op::run run[MM_STEP][MM_AHEAD][2];
};

/* First element along k of a lane's run of a unit. */
PK_D pk_i64 MM(k_of)(const struct MM(place) & w, int kgroup, int unit) {
    int lane = (int)threadIdx.x & 31;
    return (pk_i64)w.chunk * MM_CHUNK + (kgroup * MM_UNITS + unit) * MM_UNIT + (lane & 3) * MM_RUN;
}

/* The reads go on with a body: of the same tiles, or (body 0) of others. */
template <int B>
PK_D void MM(go)(const struct pk_args *g, const struct MM(part) & p, const struct MM(place) & w,
                 int body, int kgroup, MM(ring) < B > &r) {
    typedef typename MM(ring)<B>::op op;
    int lane = (int)threadIdx.x & 31;
#pragma unroll
    for (int t = 0; t < MM_STEP; t++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (body > 0) {
                op::forward(&r.at[t][h], MM_AHEAD * MM_UNIT);
                continue;
            }
            pk_i64 o = MM(row_at)(p, (w.tile + t) * 16 + lane / 4 + 8 * h);
            r.ahead[t][h] = op::row_of(g, p.z, o);
            op::point(g, &r.ahead[t][h], p.z, o, MM(k_of)(w, kgroup, 0), &r.at[t][h]);
        }
}

template <int B>
PK_D void MM(request)(const struct pk_args *g, const struct MM(part) & p,
                      const struct MM(place) & w, int body, int kgroup, int t, int u,
                      MM(ring) < B > &r) {
    int lane = (int)threadIdx.x & 31;
    if (MM_STEP > 1 && w.tile + t >= p.tiles) return;
    typedef typename MM(ring)<B>::op op;
    /* The four runs of a unit are often in one group: then k is the same for all lanes. */
    pk_i64 k = MM(k_of)(w, kgroup, body * MM_AHEAD + u);
    if (op::GROUP > 0 && op::GROUP % MM_UNIT == 0) k -= (lane & 3) * MM_RUN;
    __builtin_assume(k >= 0);
#pragma unroll
    for (int h = 0; h < 2; h++)
        MM(ring)<B>::op::template load<true>(g, &r.ahead[t][h], p.z,
                                             MM(row_at)(p, (w.tile + t) * 16 + lane / 4 + 8 * h), k,
                                             &r.at[t][h], u * MM_UNIT, &r.run[t][u][h]);
}

#if MM_NB == 1
#define MM_EACH_B(X) X(0)
#elif MM_NB == 2
#define MM_EACH_B(X) X(0) X(1)
#elif MM_NB == 3
#define MM_EACH_B(X) X(0) X(1) X(2)
#else
#define MM_EACH_B(X) X(0) X(1) X(2) X(3)
#endif

struct MM(rings) {
#define MM_RING(b) MM(ring)<b> r##b;
    MM_EACH_B(MM_RING)
};

/* Uses the runs in flight of a body, and as each is used up requests that of the next body (of
 * place `next`) in its place. */
template <int B>
PK_D void MM(body)(const struct pk_args *g, const struct MM(part) & p, const struct MM(place) & w,
                   int body, const struct MM(place) & next, int next_body, int kgroup,
                   const struct MM(frag) * x, MM(ring) < B > &r, MM(accs) < MM_STEP > &a) {
    typedef typename MM(ring)<B>::op op;
    int lane = (int)threadIdx.x & 31;
    const struct MM(frag) *xs = x + 4 * MM_J * (kgroup * MM_UNITS + body * MM_AHEAD);
#pragma unroll
    for (int u = 0; u < MM_AHEAD; u++) {
        if (body * MM_AHEAD + u < w.units) {
#pragma unroll
            for (int j = 0; j < MM_J; j++) {
                unsigned v[MM_STEP][2][MM_REGS];
#pragma unroll
                for (int t = 0; t < MM_STEP; t++)
#pragma unroll
                    for (int h = 0; h < 2; h++)
                        op::frag(g, &r.row[t][h], &r.run[t][u][h], p.z,
                                 MM(row_at)(p, (w.tile + t) * 16 + lane / 4 + 8 * h),
                                 MM(k_of)(w, kgroup, body * MM_AHEAD + u), j, v[t][h]);
#pragma unroll
                for (int c = 0; c < MM_COLS8; c++)
                    MM(products)<MM_STEP>(xs + 4 * MM_J * u + j + c * 8 * MM_PITCHX, c, v, a);
            }
        }
        if (next_body * MM_AHEAD + u < next.units)
#pragma unroll
            for (int t = 0; t < MM_STEP; t++)
                MM(request)<B>(g, p, next, next_body, kgroup, t, u, r);
    }
}

/* What is not whole units of a chunk, or lies askew, of this warp. */
template <int B>
PK_D void MM(rest)(const struct pk_args *g, const struct MM(part) & p, int chunk, int units,
                   int rgroup, int kgroup, const struct MM(frag) * x, struct MM(acc) * sums) {
    typedef typename MM(op_of)<B>::type op;
    int lane = (int)threadIdx.x & 31;
    pk_i64 k0 = (pk_i64)chunk * MM_CHUNK + kgroup * (MM_UNITS * MM_UNIT);
    pk_i64 end = MM(min)(p.K, k0 + MM_UNITS * MM_UNIT);
    if (k0 + units * MM_UNIT >= end && units > 0) return;
#pragma unroll 1
    for (int i0 = rgroup * MM_STEP; i0 < p.tiles;
         i0 += (i0 + 1) % MM_STEP ? 1 : MM_RGROUPS * MM_STEP - MM_STEP + 1) {
        /* The tiles of this warp's steps. */
        int tile = i0;
        MM(accs)<1> a;
        pk_i64 n[2];
        typename op::row row[2];
        MM(clear)(a);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            n[h] = MM(row_at)(p, tile * 16 + lane / 4 + 8 * h);
            row[h] = op::row_of(g, p.z, n[h]);
        }
#pragma unroll 1
        for (int i = units * MM_J; i < MM_UNITS * MM_J; i++) {
            pk_i64 first = k0 + i / MM_J * MM_UNIT;
            if (first >= end) break;
            pk_i64 k = first + (lane & 3) * MM_RUN + i % MM_J * 8, left = end - k;
            unsigned v[1][2][MM_REGS];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                op::value8(g, &row[h], p.z, n[h], k,
                           left > 8   ? 8
                           : left < 0 ? 0
                                      : (int)left,
                           v[0][h]);
                MM(reorder)(v[0][h]);
            }
#pragma unroll
            for (int c = 0; c < MM_COLS8; c++)
                MM(products)<1>(x + 4 * MM_J * (kgroup * MM_UNITS + i / MM_J) + i % MM_J +
                                    c * 8 * MM_PITCHX,
                                c, v, a);
        }
        MM(flush)<1>(p, tile, B, kgroup, !MM_HOLD && units == 0 && chunk == p.c0, a, sums);
    }
}

/* The sums of this block's warps for a part. */
PK_D void MM(sum_part)(const struct pk_args *g, const struct MM(part) & p, struct MM(frag) * x,
                       struct MM(acc) * sums) {
    constexpr int unrolled = MM_BODIES <= 2 ? MM_BODIES : 1;
    int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0);
    int kgroup = warp % MM_KGROUPS, rgroup = warp / MM_KGROUPS;
    struct MM(rings) r;
    struct MM(place) w;
    w.chunk = p.c0, w.tile = rgroup * MM_STEP;
    w.units = w.tile < p.tiles ? MM(units)(p, w.chunk, kgroup) : 0;
    /* A first: it would wait behind what is asked for of B. */
    bool fast = MM(x_fast)(g, p);
    MM(x_request)(g, p, (pk_i64)p.c0 * MM_CHUNK, fast, x);
#define MM_FILL(b)                                                                                 \
    MM(go)<b>(g, p, w, 0, kgroup, r.r##b);                                                         \
    _Pragma("unroll") for (int u = 0; u < MM_AHEAD; u++) if (u < w.units)                          \
        _Pragma("unroll") for (int t = 0; t < MM_STEP; t++)                                        \
            MM(request)<b>(g, p, w, 0, kgroup, t, u, r.r##b);
    MM_EACH_B(MM_FILL)
    MM(accs)<MM_STEP> a[MM_NB];
#if MM_HOLD
#define MM_BEGIN(b)                                                                                \
    MM(clear)(a[b]);                                                                               \
    MM(flush)<MM_STEP>(p, w.tile, b, kgroup, true, a[b], sums);
    MM_EACH_B(MM_BEGIN)
#endif
    MM_PROBE(2);
#pragma unroll 1
    for (int chunk = p.c0; chunk < p.c1; chunk++) {
        struct MM(frag) *now = x + (MM_X_BUFS == 2 ? (chunk - p.c0) % 2 * MM_FRAGS : 0);
        if (MM_X_BUFS == 1 && chunk > p.c0) {
            __syncthreads();
            MM(x_request)(g, p, (pk_i64)chunk * MM_CHUNK, fast, x);
        }
        MM(x_finish)(g, p, (pk_i64)chunk * MM_CHUNK, fast, now);
        if (MM_X_BUFS == 2 && chunk + 1 < p.c1) MM(x_request)
        (g, p, (pk_i64)(chunk + 1) * MM_CHUNK, fast, x + (chunk + 1 - p.c0) % 2 * MM_FRAGS);
        if (chunk == p.c0) {
            MM_PROBE(3);
        }
        int units = w.units, units_next = MM(units)(p, chunk + 1, kgroup);
        if (units > 0) {
#pragma unroll 1
            do {
                struct MM(place) next = w;
                if (!MM_HOLD) next.tile += MM_RGROUPS * MM_STEP;
                if (MM_HOLD || next.tile >= p.tiles) {
                    next.tile = rgroup * MM_STEP;
                    next.chunk++;
                    next.units = units_next;
                }
#define MM_ROWS(b)                                                                                 \
    if (!MM_HOLD) MM(clear)(a[b]);                                                                 \
    _Pragma("unroll") for (int t = 0; t < MM_STEP; t++)                                            \
        _Pragma("unroll") for (int h = 0; h < 2; h++) r.r##b.row[t][h] = r.r##b.ahead[t][h];
                MM_EACH_B(MM_ROWS)
#pragma unroll unrolled
                for (int body = 0; body < MM_BODIES - 1; body++) {
#define MM_BODY(b)                                                                                 \
    MM(go)<b>(g, p, w, body + 1, kgroup, r.r##b);                                                  \
    MM(body)<b>(g, p, w, body, w, body + 1, kgroup, now, r.r##b, a[b]);
                    MM_EACH_B(MM_BODY)
                }
#define MM_LAST(b)                                                                                 \
    MM(go)<b>(g, p, next, 0, kgroup, r.r##b);                                                      \
    MM(body)<b>(g, p, w, MM_BODIES - 1, next, 0, kgroup, now, r.r##b, a[b]);                       \
    if (!MM_HOLD) MM(flush)<MM_STEP>(p, w.tile, b, kgroup, chunk == p.c0, a[b], sums);
                MM_EACH_B(MM_LAST)
                w = next;
            } while (w.chunk == chunk);
        }
        if (units < MM_UNITS) {
#define MM_REST(b) MM(rest)<b>(g, p, chunk, units, rgroup, kgroup, now, sums);
            MM_EACH_B(MM_REST)
        }
    }
#if MM_HOLD
#define MM_END(b) MM(flush)<MM_STEP>(p, rgroup * MM_STEP, b, kgroup, false, a[b], sums);
    MM_EACH_B(MM_END)
#endif
}
