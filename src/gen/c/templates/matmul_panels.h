/* SPDX-License-Identifier: MIT
 * Packing of the packed template (matmul.c): panels of A, [k][h], and of B, [k][NR], filled by the
 * operands' value functions.
 */

#if MM_A_AXIS == 0 && MM_MR <= 4
#define MM_GROUP 32
#elif MM_A_AXIS == 0 && MM_MR <= 8
#define MM_GROUP 16
#else
#define MM_GROUP 8
#endif

/* ---- panels of A ------------------------------------------------------------------------ */

MM_INLINE void MM(put)(MM_ACC_S *dst, MM_ACC v) {
    __builtin_memcpy(dst, &v, sizeof v);
}

MM_INLINE MM_ACC MM(get)(const MM_ACC_S *src) {
    MM_ACC v;
    __builtin_memcpy(&v, src, sizeof v);
    return v;
}

/* A word's element k % MM_DOTS, the others 0. */
#define MM_PART(v, k) (((v) & (MM_DOTS == 4 ? 0xff : 0xffff)) << (k) % MM_DOTS * (32 / MM_DOTS))

/* Row k of a panel of rows of `width` elements; with MM_DOTS a part of the words of row
 * k / MM_DOTS, the lowest first. */
MM_INLINE void MM(put_k)(MM_ACC_S *dst, pk_i64 k, pk_i64 width, MM_ACC v) {
    MM_ACC_S *row = dst + k / MM_DOTS * width;
#if MM_DOTS > 1
    v = MM_PART(v, k);
    if (k % MM_DOTS) v |= MM(get)(row);
#endif
    MM(put)(row, v);
}

/* The same of B, with the columns' sums behind the block's last row. */
MM_INLINE void MM(put_b)(MM_ACC_S *dst, pk_i64 k, pk_i64 kc, MM_ACC v) {
    MM(put_k)(dst, k, MM_NR, v);
    if (!MM_TERM) return;
    MM_ACC_S *sums = dst + MM(dots)(kc) * MM_NR;
    MM(put)(sums, k ? MM(get)(sums) + v : v);
}

/* Vectors of h <= PK_W rows are stored at a distance of h, each over the unused end of the one
 * before; the last ones stop at the end of the panel, for the next one may be another task's. */
MM_INLINE void MM(put_rows)(MM_ACC_S *dst, pk_i64 k, pk_i64 kc, pk_i64 h, MM_ACC v) {
    const pk_i64 at = k / MM_DOTS;
    if (at * h + PK_W <= MM(dots)(kc) * h) {
        MM(put_k)(dst, k, h, v);
    } else {
        MM_ACC_S t[PK_W], *row = dst + at * h;
        __builtin_memcpy(t, &v, sizeof v);
        for (pk_i64 i = 0; i < h; i++)
#if MM_DOTS > 1
            row[i] = (k % MM_DOTS ? row[i] : 0) | MM_PART(t[i], k);
#else
            row[i] = t[i];
#endif
    }
}

MM_INLINE pk_i64 MM(panel_rows)(const struct MM(plan) * p, pk_i64 panel) {
    return panel == p->mp - 1 ? p->ht : panel == p->mp - 2 ? p->hs : p->h;
}

MM_INLINE pk_i64 MM(panel_start)(const struct MM(plan) * p, pk_i64 panel) {
    return panel < p->mp - 1 || !panel ? panel * p->h : (panel - 1) * p->h + p->hs;
}

/* The terms of rows m .. m+rows-1, at most h, behind the block's last row. */
MM_INLINE void MM(put_terms)(const struct pk_args *g, pk_i64 z, pk_i64 m, pk_i64 rows, pk_i64 h,
                             pk_i64 kc, MM_ACC_S *dst) {
#if MM_TERM
    const int n = (int)MM(min)(rows, h);
    struct MM(t0_row) r = MM(t0_row_init)(g, z, m, n);
    MM_ACC v = -MM(t0_value)(g, &r, z, m, 0, n);
    MM_ACC_S t[PK_W];
    __builtin_memcpy(t, &v, sizeof v);
    for (pk_i64 i = 0; i < h; i++)
        dst[MM(dots)(kc) * h + i] = i < n ? t[i] : 0;
#else
    (void)g, (void)z, (void)m, (void)rows, (void)h, (void)kc, (void)dst;
#endif
}

/* pack_a: panels i0 .. i1-1, elements k0 .. k0+kc-1, to dst[panel][k][h]. */
#if MM_A_AXIS == 1
static void MM(pack_panel)(const struct pk_args *g, pk_i64 z, pk_i64 m, pk_i64 rows, pk_i64 h,
                           pk_i64 k0, pk_i64 kc, MM_ACC_S *dst) {
    struct MM(a_row) r[PK_W];
    struct MM(a_group) q[PK_W];
    MM_ACC v[PK_W];
    int nr = (int)MM(min)(rows, h);
    for (int i = 0; i < PK_W; i++) {
        if (i < nr) r[i] = MM(a_row_init)(g, z, m + i, 1);
        v[i] = MM_SET(0);
    }
    /* Up to here a whole vector can be stored for each k. */
    pk_i64 fast = kc - (PK_W - 1) - MM_DOTS * (MM(ceil)(PK_W - h, h) + 1) + 1;
    for (pk_i64 k = 0, end; k < kc; k = end) {
        end = MM(group_end)(k0 + k, MM_A_GROUP, k0 + kc) - k0;
        for (int i = 0; i < nr; i++)
            q[i] = MM(a_group_of)(g, &r[i], z, m + i, k0 + k, 1);
        if (nr == MM_MR) {
            for (; k < MM(min)(end, fast); k += PK_W) {
#pragma GCC unroll 16
                for (int i = 0; i < MM_MR; i++)
                    v[i] = MM(a_at)(g, &r[i], &q[i], z, m + i, k0 + k, PK_W);
#pragma GCC unroll 16
                for (int i = MM_MR; i < PK_W; i++)
                    v[i] = MM_SET(0);
                MM_TRANSPOSE(v);
#pragma GCC unroll 16
                for (int i = 0; i < PK_W; i++)
                    MM(put_k)(dst, k + i, h, v[i]);
            }
        }
        for (; k < end; k += PK_W) {
            int n = (int)MM(min)(end - k, PK_W);
            for (int i = 0; i < nr; i++)
                v[i] = n == PK_W ? MM(a_at)(g, &r[i], &q[i], z, m + i, k0 + k, PK_W)
                                 : MM(a_at)(g, &r[i], &q[i], z, m + i, k0 + k, n);
            for (int i = nr; i < PK_W; i++)
                v[i] = MM_SET(0);
            MM_TRANSPOSE(v);
            for (int i = 0; i < n; i++)
                MM(put_rows)(dst, k + i, kc, h, v[i]);
        }
    }
}

static void MM(pack_a)(const struct pk_args *g, const struct MM(plan) * p, pk_i64 z, pk_i64 i0,
                       pk_i64 i1, pk_i64 k0, pk_i64 kc, MM_ACC_S *dst) {
    for (pk_i64 i = i0; i < i1; i++) {
        pk_i64 m = MM(panel_start)(p, i), h = MM(panel_rows)(p, i);
        MM(pack_panel)(g, z, m, p->M - m, h, k0, kc, dst);
        MM(put_terms)(g, z, m, p->M - m, h, kc, dst);
        dst += h * MM(words)(kc);
    }
}
#else
/* Whole vectors along m are evaluated for a few k of all the panels, then cut into heights. */
#define MM_STRIP 16
static void MM(pack_a)(const struct pk_args *g, const struct MM(plan) * p, pk_i64 z, pk_i64 i0,
                       pk_i64 i1, pk_i64 k0, pk_i64 kc, MM_ACC_S *dst) {
    enum { width = MM_GROUP * MM_MR + 2 * PK_W };
    MM_ACC_S t[MM_STRIP * width];
    struct MM(a_row) r[width / PK_W];
    pk_i64 m0 = MM(panel_start)(p, i0);
    pk_i64 rows = MM(panel_start)(p, i1 - 1) + MM(panel_rows)(p, i1 - 1) - m0;
    pk_i64 vectors = MM(ceil)(MM(min)(rows, p->M - m0), PK_W);
    __builtin_memset(t, 0, sizeof t);
    for (pk_i64 v = 0; v < vectors; v++)
        r[v] = MM(a_row_init)(g, z, m0 + v * PK_W, (int)MM(min)(p->M - m0 - v * PK_W, PK_W));
    for (pk_i64 k = 0, end; k < kc; k = end) {
        end = MM(group_end)(k0 + k, MM_A_GROUP, k0 + MM(min)(kc, k + MM_STRIP)) - k0;
        for (pk_i64 v = 0; v < vectors; v++) {
            pk_i64 m = m0 + v * PK_W;
            int cnt = (int)MM(min)(p->M - m, PK_W);
            struct MM(a_group) q = MM(a_group_of)(g, &r[v], z, m, k0 + k, cnt);
            MM_ACC_S *to = t + v * PK_W;
            if (cnt == PK_W)
                for (pk_i64 i = k; i < end; i++)
                    MM(put)(to + (i - k) * width, MM(a_at)(g, &r[v], &q, z, m, k0 + i, PK_W));
            else
                for (pk_i64 i = k; i < end; i++) {
                    MM_ACC x = MM(a_at)(g, &r[v], &q, z, m, k0 + i, cnt);
                    MM(put)(to + (i - k) * width, MM_SELECT(pk_mask_n(cnt), x, MM_SET(0)));
                }
        }
        for (pk_i64 i = i0; i < i1; i++) {
            pk_i64 h = MM(panel_rows)(p, i), at = MM(panel_start)(p, i) - m0;
            for (pk_i64 e = k; e < end; e++)
                MM(put_rows)(dst + at * MM(words)(kc), e, kc, h, MM(get)(t + (e - k) * width + at));
        }
    }
    for (pk_i64 i = i0; i < i1; i++) {
        pk_i64 m = MM(panel_start)(p, i);
        MM(put_terms)(g, z, m, p->M - m, MM(panel_rows)(p, i), kc, dst + (m - m0) * MM(words)(kc));
    }
}
#endif

/* ---- panels of B ------------------------------------------------------------------------ */

union MM(b_row) {
    struct MM(b0_row) b0;
#if MM_NB > 1
    struct MM(b1_row) b1;
#endif
#if MM_NB > 2
    struct MM(b2_row) b2;
#endif
#if MM_NB > 3
    struct MM(b3_row) b3;
#endif
};

union MM(b_group) {
    struct MM(b0_group) b0;
#if MM_NB > 1
    struct MM(b1_group) b1;
#endif
#if MM_NB > 2
    struct MM(b2_group) b2;
#endif
#if MM_NB > 3
    struct MM(b3_group) b3;
#endif
};

/* j is a literal wherever these are called. */
MM_INLINE pk_i64 MM(b_group_length)(int j) {
    switch (j) {
#if MM_NB > 1
    case 1: return MM_B1_GROUP;
#endif
#if MM_NB > 2
    case 2: return MM_B2_GROUP;
#endif
#if MM_NB > 3
    case 3: return MM_B3_GROUP;
#endif
    default: return MM_B0_GROUP;
    }
}

MM_INLINE void MM(b_row_init)(const struct pk_args *g, int j, union MM(b_row) * r, pk_i64 z,
                              pk_i64 n, int cnt) {
    switch (j) {
#if MM_NB > 1
    case 1: r->b1 = MM(b1_row_init)(g, z, n, cnt); break;
#endif
#if MM_NB > 2
    case 2: r->b2 = MM(b2_row_init)(g, z, n, cnt); break;
#endif
#if MM_NB > 3
    case 3: r->b3 = MM(b3_row_init)(g, z, n, cnt); break;
#endif
    default: r->b0 = MM(b0_row_init)(g, z, n, cnt); break;
    }
}

MM_INLINE void MM(b_group_of)(const struct pk_args *g, int j, const union MM(b_row) * r,
                              union MM(b_group) * q, pk_i64 z, pk_i64 n, pk_i64 k, int cnt) {
    switch (j) {
#if MM_NB > 1
    case 1: q->b1 = MM(b1_group_of)(g, &r->b1, z, n, k, cnt); break;
#endif
#if MM_NB > 2
    case 2: q->b2 = MM(b2_group_of)(g, &r->b2, z, n, k, cnt); break;
#endif
#if MM_NB > 3
    case 3: q->b3 = MM(b3_group_of)(g, &r->b3, z, n, k, cnt); break;
#endif
    default: q->b0 = MM(b0_group_of)(g, &r->b0, z, n, k, cnt); break;
    }
}

MM_INLINE MM_ACC MM(b_at)(const struct pk_args *g, int j, const union MM(b_row) * r,
                          const union MM(b_group) * q, pk_i64 z, pk_i64 n, pk_i64 k, int cnt) {
    switch (j) {
#if MM_NB > 1
    case 1: return MM(b1_at)(g, &r->b1, &q->b1, z, n, k, cnt);
#endif
#if MM_NB > 2
    case 2: return MM(b2_at)(g, &r->b2, &q->b2, z, n, k, cnt);
#endif
#if MM_NB > 3
    case 3: return MM(b3_at)(g, &r->b3, &q->b3, z, n, k, cnt);
#endif
    default: return MM(b0_at)(g, &r->b0, &q->b0, z, n, k, cnt);
    }
}

/* Panels of operand j from column n on, to dst[panel][k][NR]; n + columns is at most N rounded up.
 * Vectors along k: PK_W columns at a time are turned round in registers. */
MM_INLINE void MM(pack_b_k)(const struct pk_args *g, int j, pk_i64 z, pk_i64 n, pk_i64 N, pk_i64 k0,
                            pk_i64 kc, MM_ACC_S *dst) {
    union MM(b_row) r[PK_W];
    union MM(b_group) q[PK_W];
    MM_ACC v[PK_W];
    int cnt = (int)MM(min)(N - n, PK_W);
    for (int i = 0; i < cnt; i++)
        MM(b_row_init)(g, j, &r[i], z, n + i, 1);
    for (pk_i64 k = 0, end; k < kc; k = end) {
        end = MM(group_end)(k0 + k, MM(b_group_length)(j), k0 + kc) - k0;
        for (int i = 0; i < cnt; i++)
            MM(b_group_of)(g, j, &r[i], &q[i], z, n + i, k0 + k, 1);
        for (; cnt == PK_W && k + PK_W <= end; k += PK_W) {
#pragma GCC unroll 16
            for (int i = 0; i < PK_W; i++)
                v[i] = MM(b_at)(g, j, &r[i], &q[i], z, n + i, k0 + k, PK_W);
            MM_TRANSPOSE(v);
#pragma GCC unroll 16
            for (int i = 0; i < PK_W; i++)
                MM(put_b)(dst, k + i, kc, v[i]);
        }
        for (; k < end; k += PK_W) {
            int w = (int)MM(min)(end - k, PK_W);
            for (int i = 0; i < PK_W; i++)
                v[i] = MM_SET(0);
            for (int i = 0; i < cnt; i++)
                v[i] = MM(b_at)(g, j, &r[i], &q[i], z, n + i, k0 + k, w);
            MM_TRANSPOSE(v);
            for (int i = 0; i < w; i++)
                MM(put_b)(dst, k + i, kc, v[i]);
        }
    }
}

/* Vectors along n: a few k for all columns, so that memory is read along its rows. */
#define MM_BAND 16
MM_INLINE void MM(pack_b_n)(const struct pk_args *g, int j, pk_i64 z, pk_i64 n, pk_i64 N,
                            pk_i64 vectors, pk_i64 k0, pk_i64 kc, MM_ACC_S *dst) {
    union MM(b_row) r[MM_NC / PK_W];
    for (pk_i64 v = 0; v < vectors; v++)
        MM(b_row_init)(g, j, &r[v], z, n + v * PK_W, (int)MM(min)(N - n - v * PK_W, PK_W));
    for (pk_i64 k = 0, end; k < kc; k = end) {
        end = MM(group_end)(k0 + k, MM(b_group_length)(j), k0 + kc) - k0;
        if (MM(b_group_length)(j) > MM_BAND) end = MM(min)(end, k / MM_BAND * MM_BAND + MM_BAND);
        for (pk_i64 v = 0; v < vectors; v++) {
            pk_i64 nv = n + v * PK_W;
            int cnt = (int)MM(min)(N - nv, PK_W);
            MM_ACC_S *d = dst + v / MM_NV * MM_NR * MM(words)(kc) + v % MM_NV * PK_W;
            union MM(b_group) q;
            MM(b_group_of)(g, j, &r[v], &q, z, nv, k0 + k, cnt);
            if (cnt == PK_W) {
                pk_i64 i = k;
                /* What depends on k % MM_DEPTH alone is decided when this is compiled. */
                pk_i64 step = (k0 + k) / MM_DEPTH;
                if (MM_DEPTH > 1 && (k0 + k) % MM_DEPTH == 0)
                    for (; (step + 1) * MM_DEPTH <= k0 + end; step++, i += MM_DEPTH) {
#pragma GCC unroll 8
                        for (int e = 0; e < MM_DEPTH; e++)
                            MM(put_b)
                        (d, i + e, kc, MM(b_at)(g, j, &r[v], &q, z, nv, step * MM_DEPTH + e, PK_W));
                    }
                for (; i < end; i++)
                    MM(put_b)(d, i, kc, MM(b_at)(g, j, &r[v], &q, z, nv, k0 + i, PK_W));
            } else {
                for (pk_i64 i = k; i < end; i++) {
                    MM_ACC x = MM(b_at)(g, j, &r[v], &q, z, nv, k0 + i, cnt);
                    MM(put_b)(d, i, kc, MM_SELECT(pk_mask_n(cnt), x, MM_SET(0)));
                }
            }
        }
    }
}

MM_INLINE void MM(pack_b_op)(const struct pk_args *g, int j, int axis, pk_i64 z, pk_i64 n, pk_i64 N,
                             pk_i64 panels, pk_i64 k0, pk_i64 kc, MM_ACC_S *dst) {
    pk_i64 vectors = MM(min)(panels * MM_NV, MM(ceil)(N - n, PK_W));
    if (axis)
        for (pk_i64 v = 0; v < vectors; v++)
            MM(pack_b_k)
    (g, j, z, n + v * PK_W, N, k0, kc, dst + v / MM_NV * MM_NR * MM(words)(kc) + v % MM_NV * PK_W);
    else MM(pack_b_n)(g, j, z, n, N, vectors, k0, kc, dst);
    for (pk_i64 v = vectors; v < panels * MM_NV; v++)
        for (pk_i64 k = 0; k < MM(words)(kc); k++)
            MM(put)
    (dst + v / MM_NV * MM_NR * MM(words)(kc) + v % MM_NV * PK_W + k * MM_NR, MM_SET(0));
}

static void MM(pack_b)(const struct pk_args *g, int j, pk_i64 z, pk_i64 n, pk_i64 N, pk_i64 panels,
                       pk_i64 k0, pk_i64 kc, MM_ACC_S *dst) {
    switch (j) {
#if MM_NB > 1
    case 1: MM(pack_b_op)(g, 1, MM_B1_AXIS, z, n, N, panels, k0, kc, dst); break;
#endif
#if MM_NB > 2
    case 2: MM(pack_b_op)(g, 2, MM_B2_AXIS, z, n, N, panels, k0, kc, dst); break;
#endif
#if MM_NB > 3
    case 3: MM(pack_b_op)(g, 3, MM_B3_AXIS, z, n, N, panels, k0, kc, dst); break;
#endif
    default: MM(pack_b_op)(g, 0, MM_B0_AXIS, z, n, N, panels, k0, kc, dst); break;
    }
}
