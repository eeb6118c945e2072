/* SPDX-License-Identifier: MIT
 * One operand of the few-rows product under an interface without macros: struct MM(a_op),
 * MM(b0_op), .. Included once for each operand with MM_X (its name in hooks), MM_X_DTYPE,
 * MM_X_GROUP, MM_X_LEAVES and the bits of its leaves; it undefines them.
 *
 * A lane has runs of MM_X_RUN elements along k. load() issues all reads of a run and touches nothing
 * that they return, so that many runs are in flight; frag() makes 8 elements of it into registers
 * for the tensor cores. value8() is the way round for any k, count and alignment.
 */

#define MM_XF(f) MM_CAT1(PK_KERNEL, MM_CAT1(MM_X, f))
/* With groups a hook has one more argument. */
#if MM_X_GROUP > 0
#define MM_X_GROUPED 1
#define MM_G(q)      &(q),
#else
#define MM_G(q)
#endif

struct MM_XF(op) {
    typedef MM_XF(row)<8> row;
#ifdef MM_X_GROUPED
    static constexpr int GROUP = MM_X_GROUP;
    typedef MM_XF(group)<8> group;
    /* Groups in a run; 0: a run starts in the middle of a group. */
    static constexpr int GROUPS = MM_X_GROUP % MM_X_RUN == 0 ? 1
                                  : MM_X_RUN % MM_X_GROUP == 0 && MM_X_GROUP % 8 == 0
                                      ? MM_X_RUN / MM_X_GROUP
                                      : 0;
#else
    static constexpr int GROUP = 0;
    struct group {};
    static constexpr int GROUPS = 1;
#endif
    /* Registers of a run, of each leaf and all. */
#if MM_X_LEAVES > 0
    static constexpr int B0 = MM_X_RUN * MM_X_LEAF0_BITS / 32;
#else
    static constexpr int B0 = 0;
#endif
#if MM_X_LEAVES > 1
    static constexpr int B1 = MM_X_RUN * MM_X_LEAF1_BITS / 32;
#else
    static constexpr int B1 = 0;
#endif
#if MM_X_LEAVES > 2
    static constexpr int B2 = MM_X_RUN * MM_X_LEAF2_BITS / 32;
#else
    static constexpr int B2 = 0;
#endif
#if MM_X_LEAVES > 3
    static constexpr int B3 = MM_X_RUN * MM_X_LEAF3_BITS / 32;
#else
    static constexpr int B3 = 0;
#endif
    static constexpr int WORDS = B0 + B1 + B2 + B3;
    /* Can runs be read ahead at all? */
    static constexpr bool STAGED = WORDS > 0 && GROUPS > 0;
    /* Bytes that a read takes at once, at most, less one. */
    static constexpr unsigned ASKEW = (B0 | B1 | B2 | B3) % 4 == 0   ? 15
                                      : (B0 | B1 | B2 | B3) % 2 == 0 ? 7
                                                                     : 3;
    struct run {
        unsigned w[WORDS ? WORDS : 1];
        group q[GROUPS ? GROUPS : 1];
    };

    PK_D row row_of(const struct pk_args *g, pk_i64 z, pk_i64 o) {
        return MM_XF(row_init)<8>(g, z, o, 1);
    }

    PK_D group group_of(const struct pk_args *g, const row *r, pk_i64 z, pk_i64 o, pk_i64 k) {
#ifdef MM_X_GROUPED
        return MM_XF(group_init)<8>(g, r, z, o, k, 1);
#else
        return group();
#endif
    }

    /* Bits of the leaves' addresses at (z, o, k) that must be 0 for such reads, */
    PK_D unsigned misaligned(const struct pk_args *g, const row *r, pk_i64 z, pk_i64 o, pk_i64 k) {
        return low_bits(g, r, z, o, k) & ASKEW;
    }

    /* for copies of 16 bytes of every leaf. */
    PK_D unsigned askew(const struct pk_args *g, const row *r, pk_i64 z, pk_i64 o, pk_i64 k) {
        return low_bits(g, r, z, o, k) & 15u;
    }

    PK_D unsigned low_bits(const struct pk_args *g, const row *r, pk_i64 z, pk_i64 o, pk_i64 k) {
        unsigned bits = 0;
#if MM_X_LEAVES > 0
        bits |= (unsigned)(unsigned long long)MM_XF(leaf0)(g, r, z, o, k);
#endif
#if MM_X_LEAVES > 1
        bits |= (unsigned)(unsigned long long)MM_XF(leaf1)(g, r, z, o, k);
#endif
#if MM_X_LEAVES > 2
        bits |= (unsigned)(unsigned long long)MM_XF(leaf2)(g, r, z, o, k);
#endif
#if MM_X_LEAVES > 3
        bits |= (unsigned)(unsigned long long)MM_XF(leaf3)(g, r, z, o, k);
#endif
        return bits;
    }

    /* Where a lane reads: leaves lie along k without gaps. */
    struct place {
        const char *at[MM_X_LEAVES ? MM_X_LEAVES : 1];
    };

    PK_D void point(const struct pk_args *g, const row *r, pk_i64 z, pk_i64 o, pk_i64 k, place *p) {
#if MM_X_LEAVES > 0
        p->at[0] = (const char *)MM_XF(leaf0)(g, r, z, o, k);
#endif
#if MM_X_LEAVES > 1
        p->at[1] = (const char *)MM_XF(leaf1)(g, r, z, o, k);
#endif
#if MM_X_LEAVES > 2
        p->at[2] = (const char *)MM_XF(leaf2)(g, r, z, o, k);
#endif
#if MM_X_LEAVES > 3
        p->at[3] = (const char *)MM_XF(leaf3)(g, r, z, o, k);
#endif
    }

    PK_D void forward(place *p, int k) {
#if MM_X_LEAVES > 0
        p->at[0] += k * MM_X_LEAF0_BITS / 8;
#endif
#if MM_X_LEAVES > 1
        p->at[1] += k * MM_X_LEAF1_BITS / 8;
#endif
#if MM_X_LEAVES > 2
        p->at[2] += k * MM_X_LEAF2_BITS / 8;
#endif
#if MM_X_LEAVES > 3
        p->at[3] += k * MM_X_LEAF3_BITS / 8;
#endif
    }

    /* The run that lies `ahead` elements after the place; k is in its first group. */
    template <bool STREAM>
    PK_D void load(const struct pk_args *g, const row *r, pk_i64 z, pk_i64 o, pk_i64 k,
                   const place *p, int ahead, run *x) {
#if MM_X_LEAVES > 0
        MM(read)<B0, ASKEW, STREAM>(p->at[0] + ahead * MM_X_LEAF0_BITS / 8, x->w + 0);
#endif
#if MM_X_LEAVES > 1
        MM(read)<B1, ASKEW, STREAM>(p->at[1] + ahead * MM_X_LEAF1_BITS / 8, x->w + B0);
#endif
#if MM_X_LEAVES > 2
        MM(read)<B2, ASKEW, STREAM>(p->at[2] + ahead * MM_X_LEAF2_BITS / 8, x->w + B0 + B1);
#endif
#if MM_X_LEAVES > 3
        MM(read)<B3, ASKEW, STREAM>(p->at[3] + ahead * MM_X_LEAF3_BITS / 8, x->w + B0 + B1 + B2);
#endif
        groups(g, r, z, o, k, x);
    }

    /* What groups of the run's elements share; k is in the first. */
    PK_D void groups(const struct pk_args *g, const row *r, pk_i64 z, pk_i64 o, pk_i64 k, run *x) {
#pragma unroll
        for (int i = 0; i < GROUPS; i++)
            x->q[i] = group_of(g, r, z, o, k + i * (MM_X_RUN / (GROUPS ? GROUPS : 1)));
    }

    /* Elements 8j .. 8j+7 of a run, as pack() orders them. */
    PK_D void frag(const struct pk_args *g, const row *r, const run *x, pk_i64 z, pk_i64 o,
                   pk_i64 k, int j, unsigned out[MM_REGS]) {
#if MM_X_LEAVES > 0
#ifdef MM_X_GROUPED
        constexpr int per = GROUPS > 1 ? MM_X_RUN / GROUPS / 8 : MM_X_RUN / 8;
        const group *q = &x->q[j / per];
#endif
        auto v =
            MM_XF(MM_FORM)<8>(g, r, MM_G(*q) z, o, k + 8 * j, 8, x->w + j * (B0 / (MM_X_RUN / 8))
#if MM_X_LEAVES > 1
                                                                     ,
                              x->w + B0 + j * (B1 / (MM_X_RUN / 8))
#endif
#if MM_X_LEAVES > 2
                                  ,
                              x->w + B0 + B1 + j * (B2 / (MM_X_RUN / 8))
#endif
#if MM_X_LEAVES > 3
                                  ,
                              x->w + B0 + B1 + B2 + j * (B3 / (MM_X_RUN / 8))
#endif
            );
#if MM_KIND == MM_KIND_FMA
        MM(feed_lanes)(v, out);
#else
        MM(feed)<MM_X_DTYPE>(v.x, out);
#endif
#endif
    }

    /* Elements k .. k+7 in k order, 0 from cnt on. */
    PK_D void value8(const struct pk_args *g, const row *r, pk_i64 z, pk_i64 o, pk_i64 k, int cnt,
                     unsigned out[MM_REGS]) {
        if (cnt < 1) {
#pragma unroll
            for (int i = 0; i < MM_REGS; i++)
                out[i] = 0;
            return;
        }
        pk_lanes<MM_ACC_S, 8> v;
#if MM_X_GROUP % 8 == 0
        v = MM_XF(at)<8>(g, r, z, o, k, cnt);
        (void)r;
#else
        /* Eight elements may be of several groups: one at a time. */
        const MM_XF(row)<1> one = MM_XF(row_init)<1>(g, z, o, 1);
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (i < cnt) v.x[i] = MM_XF(at)<1>(g, &one, z, o, k + i, 1).x[0];
#endif
#pragma unroll
        for (int i = 0; i < 8; i++)
            v.x[i] = i < cnt ? v.x[i] : (MM_ACC_S)0;
        MM(feed_lanes)(v, out);
    }
};

#undef MM_G
#undef MM_XF
#undef MM_X
#undef MM_X_DTYPE
#undef MM_X_GROUP
#undef MM_X_GROUPED
#undef MM_X_RUN
#undef MM_X_LEAVES
#undef MM_X_LEAF0_BITS
#undef MM_X_LEAF1_BITS
#undef MM_X_LEAF2_BITS
#undef MM_X_LEAF3_BITS
