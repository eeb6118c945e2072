/* SPDX-License-Identifier: MIT
 * attention: softmax(scale * q k^T) v with hooks on scores, visibility and weights.
 *
 * One head at a time, a few rows of queries together: all scores of the rows, the mask, then only
 * the visible pairs, so that nothing is read where the mask is false. K and V of the head are
 * decoded once (K transposed, so that the inner loops run over keys). Hooks are evaluated by
 * hooks.c on vectors of pairs. Scores have the interval of a dot, weights that of softmax; a weight
 * enters the second product rounded to v's dtype, before or after the division by the row's sum.
 */
#include "eval/attention.h"

enum { V_VALUE, V_MAG, V_MID, V_RAD, V_PARTS };

/* One head's operands, per slot; parts that are not needed are NULL. */
struct head {
    double *k[V_PARTS];      /* [D, L] */
    double *v[V_PARTS];      /* [L, E] */
    double *q[V_PARTS];      /* [D] */
    double *s[V_PARTS];      /* [L] sums of one row */
    double *o[V_PARTS];      /* [E] */
    double *lo, *hi;         /* max(L, D, E) */
    bool v_special;          /* v has an element that is not finite */
    struct special *special; /* [E] terms of o that are not finite */
};

struct att {
    struct ev *ev;
    struct tensor q, k, v;
    struct tensor *out;
    int n_out;
    int64_t heads, groups, rows, keys, dim, edim;
    double scale;
    const struct hook *hooks;
    bool track, loose_qk, v_exact;
    bool qk_moves, qk_opens, v_moves, v_opens; /* as in struct gemm */
    struct head *head;                         /* a slot */
    struct att_batch *batch;                   /* a slot */
    struct ev *sub;                            /* a slot: an evaluation of its own for hooks */
    struct err *sub_err;
    enum proem_status *status;
};

/* ---- decoding -------------------------------------------------------------------------------- */

static void split_parts(const double *lo, const double *hi, int64_t n, double *mid, double *rad) {
    for (int64_t i = 0; i < n; i++) {
        if (lo[i] == hi[i] || isnan(lo[i])) {
            mid[i] = lo[i];
            rad[i] = 0;
        } else if (isinf(lo[i]) || isinf(hi[i])) {
            mid[i] = 0;
            rad[i] = INF;
        } else {
            mid[i] = lo[i] + (hi[i] - lo[i]) * 0.5;
            rad[i] = fmax(hi[i] - mid[i], mid[i] - lo[i]);
        }
    }
}

static void read_parts(const struct tensor *t, int64_t start, int64_t n, double *const *part,
                       int64_t at, double *lo, double *hi) {
    read_doubles(t, start, n, -1, part[V_VALUE] + at);
    for (int64_t i = 0; i < n && part[V_MAG] != NULL; i++) {
        if (i == 0) read_doubles(t, start, n, CH_MAG, part[V_MAG] + at);
        if (isinf(part[V_MAG][at + i])) part[V_MAG][at + i] = 0; /* infinities are the midpoint's */
    }
    if (part[V_MID] == NULL) return;
    read_doubles(t, start, n, CH_LO, lo);
    read_doubles(t, start, n, CH_HI, hi);
    split_parts(lo, hi, n, part[V_MID] + at, part[V_RAD] + at);
}

static void load_head(const struct att *a, struct head *h, int64_t b, int64_t head) {
    int64_t g = head / (a->heads / a->groups);
    struct tensor k = tensor_tail(&a->k, 2, b * a->groups + g);
    struct tensor v = tensor_tail(&a->v, 2, b * a->groups + g);
    struct tensor kt = k;
    kt.shape[0] = k.shape[1];
    kt.shape[1] = k.shape[0];
    kt.stride[0] = k.stride[1];
    kt.stride[1] = k.stride[0];
    for (int64_t d = 0; d < a->dim; d++) {
        read_parts(&kt, d * a->keys, a->keys, h->k, d * a->keys, h->lo, h->hi);
    }
    for (int64_t j = 0; j < a->keys; j++) {
        read_parts(&v, j * a->edim, a->edim, h->v, j * a->edim, h->lo, h->hi);
    }
    const double *mid = a->v_exact ? h->v[V_VALUE] : h->v[V_MID];
    h->v_special = false;
    for (int64_t i = 0; a->track && i < a->keys * a->edim; i++) {
        bool finite = isfinite(mid[i]) && (a->v_exact || isfinite(h->v[V_RAD][i]));
        h->v_special = h->v_special || !finite;
    }
}

/* ---- scores ---------------------------------------------------------------------------------- */

static void add_scaled(double *restrict to, const double *restrict from, double by, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        to[i] += by * from[i];
    }
}

/* to[keys] = sum over d of q[d] * k[d, :] */
static void dots(const struct att *a, double *to, const double *q, const double *k) {
    memset(to, 0, (size_t)a->keys * sizeof *to);
    for (int64_t d = 0; d < a->dim; d++) {
        add_scaled(to, k + d * a->keys, q[d], a->keys);
    }
}

static void score_parts(const struct att *a, struct head *h, const struct tensor *q, int64_t row) {
    read_parts(q, row * a->dim, a->dim, h->q, 0, h->lo, h->hi);
    dots(a, h->s[V_VALUE], h->q[V_VALUE], h->k[V_VALUE]);
    if (!a->track) return;
    dots(a, h->s[V_MAG], h->q[V_MAG], h->k[V_MAG]);
    if (!a->loose_qk) return;
    dots(a, h->s[V_MID], h->q[V_MID], h->k[V_MID]);
    double *rad = h->s[V_RAD];
    memset(rad, 0, (size_t)a->keys * sizeof *rad);
    for (int64_t d = 0; d < a->dim; d++) {
        const double *km = h->k[V_MID] + d * a->keys, *kr = h->k[V_RAD] + d * a->keys;
        double qm = fabs(h->q[V_MID][d]), qr = h->q[V_RAD][d];
        for (int64_t j = 0; j < a->keys; j++) {
            rad[j] += qm * kr[j] + qr * (fabs(km[j]) + kr[j]);
        }
    }
}

static struct iv score_range(const struct att *a, const struct head *h, int64_t j) {
    double mid = a->loose_qk ? h->s[V_MID][j] : h->s[V_VALUE][j];
    double rad = a->loose_qk ? h->s[V_RAD][j] : 0;
    enum dtype wide = wide_of(a->q.dtype);
    bool finite = isfinite(mid) && isfinite(rad) && isfinite(h->s[V_VALUE][j]);
    if (a->qk_moves && (a->qk_opens || !finite)) return iv_any();
    struct iv r = dot_range(wide, mid, rad, h->s[V_MAG][j], (double)a->dim, 0);
    return iv_grow(iv_mul(r, iv_point(a->scale)), 4 * unit_of(wide), 0x1p-149);
}

/* Scores of the rows of a batch, at the visible pairs only. */
static void batch_scores(const struct att *a, struct head *h, struct att_batch *t,
                         const struct tensor *q) {
    int64_t n = 0;
    for (int64_t r = 0; r < t->n_rows; r++) {
        t->start[r] = n;
        score_parts(a, h, q, t->q_row[r]);
        for (int64_t j = 0; j < a->keys; j++) {
            if (!t->visible[r * a->keys + j]) continue;
            t->i[n] = t->row[r];
            t->j[n] = j;
            t->s[n] = h->s[V_VALUE][j] * a->scale;
            if (a->track) {
                struct iv x = score_range(a, h, j);
                t->lo[n] = x.lo;
                t->hi[n] = x.hi;
            }
            n++;
        }
    }
    t->start[t->n_rows] = n;
    t->n_pairs = n;
}

/* ---- results --------------------------------------------------------------------------------- */

static void store_value(const struct att *a, struct tensor *out, int64_t at, double value,
                        struct iv r) {
    double rounded = float_round(out->dtype, value, false);
    elem_store(out->dtype, out->store->data, at, (union scalar){.f = rounded});
    if (!a->track) return;
    r = iv_result(out->dtype, a->ev->mode, r);
    out->store->ch[CH_LO][at] = r.lo;
    out->store->ch[CH_HI][at] = r.hi;
    if (out->store->ch[CH_MAG] != NULL) out->store->ch[CH_MAG][at] = iv_mag(r);
}

/* A weight as it enters the second product: value and interval. */
static void enter_product(const struct att *a, struct att_batch *t, int64_t i) {
    enum dtype d = a->v.dtype;
    t->p[i] = float_round(d, t->p[i], false);
    if (!a->track) return;
    struct iv r = {t->plo[i], t->phi[i]};
    if (a->ev->mode == EVAL_EAGER) {
        r = iv_round(d, false, r);
    } else if (d != DT_F64 && d != DT_F32) {
        /* the rounding may come before the division by the sum */
        double tiny = d == DT_F16 ? 0x1p-25 : d == DT_BF16 ? 0x1p-134 : 0x1p-10;
        if (r.hi > 0) r = iv_grow(r, ldexp(1, -dtype_significand(d)), tiny);
        if (t->plo[i] >= 0 && r.lo < 0) r.lo = 0;
    }
    t->plo[i] = r.lo;
    t->phi[i] = r.hi;
}

/* The terms of weight i where one of the factors is not finite; the finite ones among them are
 * added as others are. */
static void add_special(const struct att *a, struct head *h, const struct att_batch *t, int64_t i,
                        double mid, double rad) {
    struct iv p = {t->plo[i], t->phi[i]};
    bool hidden = iv_has(p, 0), finite = isfinite(mid) && isfinite(rad);
    for (int64_t e = 0; e < a->edim; e++) {
        int64_t at = t->j[i] * a->edim + e;
        double vm = a->v_exact ? h->v[V_VALUE][at] : h->v[V_MID][at];
        double vr = a->v_exact ? 0 : h->v[V_RAD][at];
        if (finite && isfinite(vm) && isfinite(vr)) {
            h->o[V_MAG][e] += (fabs(mid) + rad) * h->v[V_MAG][at];
            h->o[V_MID][e] += mid * vm;
            h->o[V_RAD][e] += fabs(mid) * vr + rad * (fabs(vm) + vr);
            continue;
        }
        struct iv v = isfinite(vr) ? (struct iv){vm - vr, vm + vr} : iv_any();
        special_add(&h->special[e], hidden ? iv_any() : iv_mul(p, v));
    }
}

static void weighted_sum(const struct att *a, struct head *h, const struct att_batch *t,
                         int64_t begin, int64_t end) {
    for (int c = 0; c < V_PARTS; c++) {
        if (h->o[c] != NULL) memset(h->o[c], 0, (size_t)a->edim * sizeof(double));
    }
    if (a->track) memset(h->special, 0, (size_t)a->edim * sizeof *h->special);
    for (int64_t i = begin; i < end; i++) {
        int64_t at = t->j[i] * a->edim;
        /* A weight of 0 hides the value, however it came about. */
        if (t->p[i] != 0) add_scaled(h->o[V_VALUE], h->v[V_VALUE] + at, t->p[i], a->edim);
        if (!a->track || (t->plo[i] == 0 && t->phi[i] == 0)) continue;
        double mid, rad;
        split_parts(&t->plo[i], &t->phi[i], 1, &mid, &rad);
        if (h->v_special || !isfinite(mid) || !isfinite(rad)) {
            add_special(a, h, t, i, mid, rad);
            continue;
        }
        add_scaled(h->o[V_MAG], h->v[V_MAG] + at, fabs(mid) + rad, a->edim);
        const double *vm = a->v_exact ? h->v[V_VALUE] : h->v[V_MID];
        for (int64_t e = 0; e < a->edim; e++) {
            double vr = a->v_exact ? 0 : h->v[V_RAD][at + e];
            h->o[V_MID][e] += mid * vm[at + e];
            h->o[V_RAD][e] += fabs(mid) * vr + rad * (fabs(vm[at + e]) + vr);
        }
    }
}

/* Element e of a row that sees n keys. Before the division by their sum, which is at most n, the
 * weights are that much larger. */
static struct iv sum_range(const struct att *a, const struct head *h, enum dtype wide, int64_t e,
                           double n) {
    const struct special *s = &h->special[e];
    double mag = h->o[V_MAG][e];
    bool special = s->nan || s->up || s->down || s->open;
    if (a->v_moves && (a->v_opens || special)) return iv_any();
    if (special) return special_range(s, wide, mag * n);
    if (mag * n >= (wide == DT_F32 ? 0x1p127 : 0x1p1023)) return iv_any();
    return dot_range(wide, h->o[V_MID][e], h->o[V_RAD][e], mag, 2 * n + 16, 0);
}

static void finish_row(const struct att *a, struct head *h, struct att_batch *t, int64_t r,
                       int64_t at) {
    int64_t begin = t->start[r], end = t->start[r + 1];
    bool open = t->open[r] && a->track;
    double max = -INF;
    for (int64_t i = begin; i < end; i++) {
        if (isnan(t->s[i]) || t->s[i] > max) max = t->s[i];
    }
    bool blank = begin == end || max == -INF;
    if (!blank) weighted_sum(a, h, t, begin, end);
    enum dtype wide = wide_of(a->out[0].dtype);
    double n = (double)(end - begin);
    for (int64_t e = 0; e < a->edim; e++) {
        struct iv range = iv_point(0);
        if (!blank && a->track) {
            range = sum_range(a, h, wide, e, n);
        }
        store_value(a, &a->out[0], at * a->edim + e, blank ? 0 : h->o[V_VALUE][e],
                    open ? iv_any() : range);
    }
    if (a->n_out > 1) store_value(a, &a->out[1], at, t->lse[r], open ? iv_any() : t->lse_range[r]);
}

/* Softmax of each row of the batch; the log-sum-exp on the way. */
static void batch_softmax(const struct att *a, struct att_batch *t) {
    enum dtype wide = wide_of(a->out[0].dtype);
    for (int64_t r = 0; r < t->n_rows; r++) {
        int64_t at = t->start[r], n = t->start[r + 1] - at;
        double max = -INF, sum = 0;
        for (int64_t i = 0; i < n; i++) {
            if (isnan(t->s[at + i]) || t->s[at + i] > max) max = t->s[at + i];
        }
        for (int64_t i = 0; i < n; i++) {
            sum += exp(t->s[at + i] - max);
        }
        t->lse[r] = n == 0 || max == -INF ? -INF : max + log(sum);
        t->lse_range[r] = iv_point(t->lse[r]);
        softmax_row(OP_SOFTMAX, n, t->s + at, t->p + at);
        if (!a->track) continue;
        softmax_row_ranges(OP_SOFTMAX, wide, n, t->lo + at, t->hi + at, t->plo + at, t->phi + at);
        if (n > 0) t->lse_range[r] = log_sum_exp_range(wide, n, t->lo + at, t->hi + at);
    }
}

/* ---- heads ----------------------------------------------------------------------------------- */

static enum proem_status one_batch(const struct att *a, struct head *h, struct att_batch *t,
                                   struct ev *sub, const struct tensor *q, int64_t b, int64_t head,
                                   const int64_t *at) {
    struct hook_call call = {
        .ev = sub, .values = a->ev->values, .b = b, .h = head, .track = a->track};
    TRY(batch_mask(&call, &a->hooks[HOOK_MASK], t, a->keys));
    batch_scores(a, h, t, q);
    TRY(batch_hook(&call, &a->hooks[HOOK_SCORE], t, t->s, t->lo, t->hi));
    batch_softmax(a, t);
    TRY(batch_hook(&call, &a->hooks[HOOK_PROB], t, t->p, t->plo, t->phi));
    for (int64_t i = 0; i < t->n_pairs; i++) {
        enter_product(a, t, i);
    }
    for (int64_t r = 0; r < t->n_rows; r++) {
        finish_row(a, h, t, r, at[r]);
    }
    return PROEM_OK;
}

/* The asked rows [first, last) of one head, as positions in ev->rows or as rows themselves. */
static enum proem_status one_head(const struct att *a, int slot, int64_t bh, int64_t first,
                                  int64_t last) {
    struct att_batch *t = &a->batch[slot];
    struct tensor q = a->q;
    int64_t b = bh / a->heads, head = bh % a->heads;
    const int64_t *asked = a->ev->rows;
    if (asked == NULL) q = tensor_tail(&a->q, 2, bh);
    load_head(a, &a->head[slot], b, head);
    for (int64_t i = first; i < last;) {
        int64_t at[ATT_ROWS] = {0};
        t->n_rows = 0;
        for (; i < last && t->n_rows < t->max_rows; i++) {
            at[t->n_rows] = i;
            t->row[t->n_rows] = asked != NULL ? asked[i] % a->rows : i - first;
            t->q_row[t->n_rows] = asked != NULL ? i : i - first; /* q holds the asked rows only */
            t->n_rows++;
        }
        TRY(one_batch(a, &a->head[slot], t, &a->sub[slot], &q, b, head, at));
        ev_end_operator(&a->sub[slot]);
    }
    return PROEM_OK;
}

static void heads_range(void *user, int64_t begin, int64_t end, int slot) {
    struct att *a = user;
    int64_t i = 0;
    for (int64_t bh = begin; bh < end && a->status[slot] == PROEM_OK; bh++) {
        int64_t first = bh * a->rows, last = first + a->rows;
        if (a->ev->rows != NULL) {
            while (i < a->ev->n_rows && a->ev->rows[i] < bh * a->rows) {
                i++;
            }
            first = i;
            while (i < a->ev->n_rows && a->ev->rows[i] < (bh + 1) * a->rows) {
                i++;
            }
            last = i;
        }
        if (first < last) a->status[slot] = one_head(a, slot, bh, first, last);
    }
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static double *doubles(struct ev *ev, int64_t n) {
    return ARENA_NEW(&ev->scratch, double, (size_t)(n > 0 ? n : 1));
}

static void head_memory(const struct att *a, struct head *h) {
    struct ev *ev = a->ev;
    int64_t most = a->keys > a->dim ? a->keys : a->dim;
    most = most > a->edim ? most : a->edim;
    h->lo = doubles(ev, most);
    h->special = ARENA_NEW(&ev->scratch, struct special, (size_t)(a->edim > 0 ? a->edim : 1));
    h->hi = doubles(ev, most);
    for (int c = 0; c < V_PARTS; c++) {
        bool ends = c == V_MID || c == V_RAD;
        if (c != V_VALUE && !a->track) continue;
        h->o[c] = doubles(ev, a->edim);
        if (!ends || !a->v_exact) h->v[c] = doubles(ev, a->keys * a->edim);
        if (ends && !a->loose_qk) continue;
        h->k[c] = doubles(ev, a->keys * a->dim);
        h->q[c] = doubles(ev, a->dim);
        h->s[c] = doubles(ev, a->keys);
    }
}

static void batch_memory(const struct att *a, struct att_batch *t) {
    struct ev *ev = a->ev;
    int64_t rows = a->keys > 0 ? 16384 / a->keys : ATT_ROWS;
    t->max_rows = rows < 1 ? 1 : rows > ATT_ROWS ? ATT_ROWS : rows;
    size_t n = (size_t)(t->max_rows * a->keys + 1), r = (size_t)t->max_rows + 1;
    t->row = ARENA_NEW(&ev->scratch, int64_t, r);
    t->q_row = ARENA_NEW(&ev->scratch, int64_t, r);
    t->start = ARENA_NEW(&ev->scratch, int64_t, r);
    t->open = ARENA_NEW(&ev->scratch, bool, r);
    t->lse = ARENA_NEW(&ev->scratch, double, r);
    t->lse_range = ARENA_NEW(&ev->scratch, struct iv, r);
    t->visible = ARENA_NEW(&ev->scratch, bool, n);
    t->i = ARENA_NEW(&ev->scratch, int64_t, n);
    t->j = ARENA_NEW(&ev->scratch, int64_t, n);
    double **part[] = {&t->s, &t->lo, &t->hi, &t->p, &t->plo, &t->phi};
    for (size_t p = 0; p < COUNT_OF(part); p++) {
        *part[p] = ARENA_NEW(&ev->scratch, double, n);
    }
}

static enum proem_status att_memory(struct att *a) {
    struct ev *ev = a->ev;
    size_t n = (size_t)ev->threads;
    a->head = ARENA_NEW(&ev->scratch, struct head, n);
    a->batch = ARENA_NEW(&ev->scratch, struct att_batch, n);
    a->sub = ARENA_NEW(&ev->scratch, struct ev, n);
    a->sub_err = ARENA_NEW(&ev->scratch, struct err, n);
    a->status = ARENA_NEW(&ev->scratch, enum proem_status, n);
    if (!arena_ok(&ev->scratch)) return err_nomem(ev->err);
    for (size_t t = 0; t < n; t++) {
        head_memory(a, &a->head[t]);
        batch_memory(a, &a->batch[t]);
        a->sub[t] = *ev;
        a->sub[t].threads = 1;
        a->sub[t].made = NULL;
        a->sub[t].out_mag = false;
        a->sub[t].err = &a->sub_err[t];
        err_clear(&a->sub_err[t]);
        a->status[t] = PROEM_OK;
    }
    if (!arena_ok(&ev->scratch)) return err_nomem(ev->err);
    for (size_t t = 0; t < n; t++) {
        arena_init(&a->sub[t].scratch, ev->alloc);
    }
    return PROEM_OK;
}

static enum proem_status att_run(struct att *a, int64_t count) {
    struct ev *ev = a->ev;
    parallel_ranges(ev, count, 1, heads_range, a);
    enum proem_status s = PROEM_OK;
    for (int t = 0; t < ev->threads; t++) {
        ev_end_operator(&a->sub[t]);
        arena_free(&a->sub[t].scratch);
        if (s == PROEM_OK && a->status[t] != PROEM_OK) { /* slots are in order of heads */
            s = err_set(ev->err, a->status[t], "%s", a->sub_err[t].text);
        }
    }
    return s;
}

enum proem_status eval_attention(struct ev *ev, const struct node *n, const struct tensor *in,
                                 struct tensor *out) {
    static const struct hook none[HOOK_COUNT];
    struct att a = {.ev = ev, .out = out, .n_out = n->n_out};
    TRY(contraction_operand(ev, n->in[0], &in[0], &a.q));
    TRY(contraction_operand(ev, n->in[1], &in[1], &a.k));
    TRY(contraction_operand(ev, n->in[2], &in[2], &a.v));
    int64_t shape[MAX_RANK];
    TRY(dims_shape(ev->g, ev->binding, n->in[0], shape, ev->err));
    a.heads = shape[1];
    a.rows = shape[2];
    a.dim = shape[3];
    a.groups = a.k.shape[1];
    a.keys = a.k.shape[2];
    a.edim = a.v.shape[3];
    a.scale = n->attrs.has_param ? n->attrs.param[0] : 1 / sqrt((double)a.dim);
    a.hooks = n->hooks != NULL ? n->hooks : none;
    a.track = ev->track;
    bool algebra = ev->track && ev->mode != EVAL_EAGER;
    enum dtype wide = wide_of(in[0].dtype);
    a.qk_moves = algebra && (ev->splits[n->in[0]] || ev->splits[n->in[1]]);
    a.qk_opens = a.qk_moves && cores_overflow(ev, n, in, wide, (double)a.dim);
    a.v_moves = algebra && ev->splits[n->in[2]];
    double core = a.v_moves ? core_of(ev, n->in[2], &in[2]) : 0;
    a.v_opens = !(core * (double)a.keys < (wide == DT_F64 ? 0x1p1023 : 0x1p127));
    a.loose_qk = ev->track && (!tensor_exact(&a.q) || !tensor_exact(&a.k));
    a.v_exact = tensor_exact(&a.v);
    for (int k = 0; k < n->n_out; k++) {
        TRY(tensor_new(ev, &out[k]));
        TRY(tensor_intervals(ev, &out[k], true));
    }
    if (out[0].n == 0 && (n->n_out < 2 || out[1].n == 0)) return PROEM_OK;
    TRY(att_memory(&a));
    TRY(att_run(&a, shape[0] * a.heads));
    for (int k = 0; k < n->n_out; k++) {
        tensor_drop_exact(ev, &out[k]);
    }
    return PROEM_OK;
}
