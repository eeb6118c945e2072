/* SPDX-License-Identifier: MIT
 * A for matmul_ring.cu, stage by stage: a warp asks for rows as they lie, MM_A_AHEAD stages ahead, into
 * shared memory; warps that feed evaluate them and write fragments of 8 elements along k in the order
 * in which consumers read them.
 *
 * 32 fragments are an item of a feeding warp, one a lane. Lanes are dealt so that eight of them write
 * all of shared memory's banks.
 */

/* Items of a stage and of a warp. */
#define MM_ITEMS (MM_PARTS * MM_J * MM_COLS8)
#define MM_EACH  ((MM_ITEMS + MM_A_WARPS - 1) / MM_A_WARPS)

/* What a lane does for an item: row and k from the stage's start, and where the fragment goes. */
struct MM(item) {
    int m, k, to;
};

PK_D struct MM(item) MM(item_of)(int number) {
    const int lane = (int)threadIdx.x & 31, part = number / (MM_J * MM_COLS8),
              rest = number % (MM_J * MM_COLS8), c = lane & 3, p = lane >> 3, j = p % MM_J;
    struct MM(item) i;
    i.m = rest * (8 / MM_J) + p / MM_J * 2 + (lane >> 2 & 1);
    i.k = part * MM_UNIT + c * MM_RUN + 8 * j;
    i.to = (((part * MM_J + j) * MM_COLS8 + i.m / 8) * 32 + i.m % 8 * 4 + c) * 16;
    return i;
}

/* A lane's n-th item of every stage, of feeder `warp`. */
PK_D int MM(number)(int warp, int n) {
    return warp + n * MM_A_WARPS;
}

PK_D bool MM(has)(const struct MM(work) & w, const struct MM(task) & t, const struct MM(item) & i,
                  int number) {
    return (MM_ITEMS == MM_EACH * MM_A_WARPS || number < MM_ITEMS) && t.m0 + i.m < w.M;
}

/* ---- rows as they lie --------------------------------------------------------------------------- */

/* Registers that 8 elements of each leaf fill. */
enum {
    MM(raw0) = MM(a_op)::B0,
    MM(raw1) = MM(a_op)::B1,
    MM(raw2) = MM(a_op)::B2,
    MM(raw3) = MM(a_op)::B3
};

/* Where row m has its leaf: rows lie 16 bytes apart from what banks would like to repeat. */
template <int WORDS> PK_D unsigned MM(raw_at)(int m) {
    return (unsigned)m * MM_RAW_PITCH(WORDS);
}

/* Can rows be fetched? The same answer for all lanes. */
PK_D bool MM(x_fast)(const struct pk_args *g, const struct MM(work) & w,
                     const struct MM(task) & t) {
#if MM_A_LEAVES > 0
    /* whole runs of 16 bytes of the narrowest leaf */
    if (MM(a_op)::STAGED && w.K % 8 == 0 && w.K / 8 * (MM(a_op)::ASKEW + 1) % 16 == 0) {
        unsigned bad = 0;
#pragma unroll 1
        for (int m = (int)threadIdx.x & 31; m < MM_COLS; m += 32)
            if (t.m0 + m < w.M) {
                auto row = MM(a_op)::row_of(g, t.z, t.m0 + m);
                bad |= MM(a_op)::askew(g, &row, t.z, t.m0 + m, 0);
            }
        return !__any_sync(~0u, bad != 0);
    }
#endif
    return false;
}

/* Where row `lane` has its leaves. */
static_assert(MM_COLS <= 32, "a row a lane");
struct MM(raw_rows) {
    const char *at[4];
};

PK_D void MM(raw_begin)(const struct pk_args *g, const struct MM(work) & w,
                        const struct MM(task) & t, struct MM(raw_rows) & r) {
    const pk_i64 row = MM(min)(t.m0 + (int)(threadIdx.x & 31), w.M - 1);
    MM(a_op)::place p;
    const auto handle = MM(a_op)::row_of(g, t.z, row);
    MM(a_op)::point(g, &handle, t.z, row, 0, &p);
#pragma unroll
    for (int l = 0; l < MM_A_LEAVES; l++)
        r.at[l] = p.at[l];
}

/* Asks for a stage's part of all rows, one leaf: lanes stand along rows. */
template <int WORDS>
PK_D void MM(raw_fetch)(const char *row, pk_i64 k0, int rows, int eights, unsigned &to) {
    if constexpr (WORDS > 0) {
        constexpr int all = MM_STAGE_K / 8 * WORDS / 4; /* copies of a row */
        const int some = eights * WORDS / 4, lane = (int)threadIdx.x & 31;
#pragma unroll 4
        for (int u = 0; u < (rows * all + 31) / 32 * 32; u += 32) {
            const int m = (u + lane) / all, c = (u + lane) % all;
            const char *at = (const char *)__shfl_sync(~0u, (pk_u64)row, m & 31);
            if (m < rows && c < some)
                pk_copy16(to + MM(raw_at) < WORDS > (m) + c * 16,
                          at + k0 / 8 * (4 * WORDS) + c * 16, 16);
        }
        to += MM_COLS * MM_RAW_PITCH(WORDS);
    }
}

PK_D unsigned MM(raw_full)(const struct MM(ring) & r, unsigned slot) {
    return r.full + 8 * (2 * MM_STAGES + slot);
}

PK_D unsigned MM(raw_empty)(const struct MM(ring) & r, unsigned slot) {
    return r.full + 8 * (2 * MM_STAGES + MM_A_AHEAD + slot);
}

PK_D void MM(raw_advance)(struct MM(turn) & t) {
    if (++t.slot == MM_A_AHEAD) t.slot = 0, t.parity ^= 1;
}

/* A warp's work: rows of A on their way. */
PK_D void MM(fetch_x)(const struct pk_args *g, const struct MM(work) & w,
                      const struct MM(ring) & r) {
    struct MM(turn) at = {0, 0};
    bool first = true;
#pragma unroll 1
    for (unsigned task = blockIdx.x; task < w.tasks; task += gridDim.x) {
        const struct MM(task) t = MM(task_at)(w, task);
        if (!MM(x_fast)(g, w, t)) continue;
        const int rows = (int)MM(min)(w.M - t.m0, MM_COLS);
        struct MM(raw_rows) from;
        MM(raw_begin)(g, w, t, from);
#pragma unroll 1
        for (unsigned s = 0; s < w.stages; s++) {
            const pk_i64 k0 = (pk_i64)s * MM_STAGE_K;
            const int eights = (int)(MM(min)(w.K - k0, MM_STAGE_K) + 7) / 8;
            unsigned to = pk_shared_address(r.raw + at.slot * MM_RAW_BYTES);
            pk_bar_wait(MM(raw_empty)(r, at.slot), at.parity ^ 1);
            MM(raw_fetch)<MM(raw0)>(from.at[0], k0, rows, eights, to);
            MM(raw_fetch)<MM(raw1)>(from.at[1], k0, rows, eights, to);
            MM(raw_fetch)<MM(raw2)>(from.at[2], k0, rows, eights, to);
            MM(raw_fetch)<MM(raw3)>(from.at[3], k0, rows, eights, to);
            pk_bar_arrive_copies(MM(raw_full)(r, at.slot));
            MM(raw_advance)(at);
            if (first && s == MM_A_AHEAD - 1) MM(go)(), first = false;
        }
    }
    if (first) MM(go)();
}

/* ---- fragments ----------------------------------------------------------------------------------- */

/* 8 elements' registers of each leaf. */
template <int WORDS> PK_D void MM(raw_get)(const char *&from, int m, int eight, unsigned *&v) {
    const char *at = from + MM(raw_at)<WORDS>(m) + eight * (4 * WORDS);
    if constexpr (WORDS == 4 || WORDS == 8) {
#pragma unroll
        for (int j = 0; j < WORDS; j += 4) {
            const uint4 q = *(const uint4 *)(at + 4 * j);
            v[j] = q.x, v[j + 1] = q.y, v[j + 2] = q.z, v[j + 3] = q.w;
        }
    } else {
#pragma unroll
        for (int j = 0; j < WORDS; j++)
            v[j] = *(const unsigned *)(at + 4 * j);
    }
    v += WORDS, from += MM_COLS * MM_RAW_PITCH(WORDS);
}

struct MM(feeder_rows) {
    MM(a_op)::row row[MM_EACH];
};

PK_D void MM(x_put)(const struct pk_args *g, const struct MM(work) & w, const struct MM(task) & t,
                    pk_i64 k0, int warp, unsigned x, const char *raw,
                    const struct MM(feeder_rows) & rows) {
#pragma unroll
    for (int n = 0; n < MM_EACH; n++) {
        const int number = MM(number)(warp, n);
        const struct MM(item) i = MM(item_of)(number);
        if (!MM(has)(w, t, i, number)) continue;
        const pk_i64 k = k0 + i.k;
        unsigned f[4] = {0, 0, 0, 0};
        if (k < w.K) {
            const char *from = raw;
            MM(a_op)::run run;
            unsigned *v = run.w;
#define MM_GET(l) MM(raw_get)<MM(raw##l)>(from, i.m, i.k / 8, v);
            MM_GET(0)
#if MM_A_LEAVES > 1
            MM_GET(1)
#endif
#if MM_A_LEAVES > 2
            MM_GET(2)
#endif
#if MM_A_LEAVES > 3
            MM_GET(3)
#endif
#undef MM_GET
            MM(a_op)::groups(g, &rows.row[n], t.z, t.m0 + i.m, k, &run);
            MM(a_op)::frag(g, &rows.row[n], &run, t.z, t.m0 + i.m, k, 0, f);
            MM(reorder)(f);
        }
        pk_shared_store16(x + i.to, f);
    }
}

/* For A as it may lie: element by element. */
PK_D void MM(x_slow)(const struct pk_args *g, const struct MM(work) & w, const struct MM(task) & t,
                     pk_i64 k0, int warp, unsigned x) {
#pragma unroll 1
    for (int n = 0; n < MM_EACH; n++) {
        const int number = MM(number)(warp, n);
        const struct MM(item) i = MM(item_of)(number);
        const pk_i64 m = t.m0 + i.m;
        if (!MM(has)(w, t, i, number)) continue;
        unsigned f[4];
        auto row = MM(a_op)::row_of(g, t.z, m);
        pk_i64 k = k0 + i.k;
        /* hidden from the compiler, which would compute all places before the first is needed */
        asm volatile("" : "+l"(k));
        const pk_i64 left = w.K - k;
        MM(a_op)::value8(g, &row, t.z, m, k, left > 8 ? 8 : left < 0 ? 0 : (int)left, f);
        MM(reorder)(f);
        pk_shared_store16(x + i.to, f);
    }
}

PK_D void MM(x_done)(const struct MM(ring) & r, struct MM(turn) & at) {
    __syncwarp();
    if ((threadIdx.x & 31) == 0) pk_bar_arrive(MM(full)(r, at.slot));
    MM(advance)(at);
}

PK_D unsigned MM(x_slot)(const struct MM(ring) & r, const struct MM(turn) & at) {
    return pk_shared_address(r.base + at.slot * MM_SLOT + MM_NB * MM_B_BYTES);
}

PK_D void MM(feed_x)(const struct pk_args *g, const struct MM(work) & w, const struct MM(ring) & r,
                     int warp) {
    struct MM(turn) at = {0, 0}, raw = {0, 0};
#pragma unroll 1
    for (unsigned task = blockIdx.x; task < w.tasks; task += gridDim.x) {
        const struct MM(task) t = MM(task_at)(w, task);
        if (MM(x_fast)(g, w, t)) {
            struct MM(feeder_rows) rows;
#pragma unroll
            for (int n = 0; n < MM_EACH; n++) {
                const struct MM(item) i = MM(item_of)(MM(number)(warp, n));
                rows.row[n] = MM(a_op)::row_of(g, t.z, MM(min)(t.m0 + i.m, w.M - 1));
            }
#pragma unroll 1
            for (unsigned s = 0; s < w.stages; s++) {
                pk_bar_wait(MM(raw_full)(r, raw.slot), raw.parity);
                pk_bar_wait(MM(empty)(r, at.slot), at.parity ^ 1);
                MM(x_put)
                (g, w, t, (pk_i64)s * MM_STAGE_K, warp, MM(x_slot)(r, at),
                 r.raw + raw.slot * MM_RAW_BYTES, rows);
                MM(x_done)(r, at);
                if ((threadIdx.x & 31) == 0) pk_bar_arrive(MM(raw_empty)(r, raw.slot));
                MM(raw_advance)(raw);
            }
        } else {
#pragma unroll 1
            for (unsigned s = 0; s < w.stages; s++) {
                pk_bar_wait(MM(empty)(r, at.slot), at.parity ^ 1);
                MM(x_slow)(g, w, t, (pk_i64)s * MM_STAGE_K, warp, MM(x_slot)(r, at));
                MM(x_done)(r, at);
            }
        }
    }
}
#undef MM_ITEMS
#undef MM_EACH
