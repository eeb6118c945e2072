/* SPDX-License-Identifier: MIT
 * matmul, linear, grouped_matmul: shapes and batches around the product of two matrices in gemm.c.
 */
#include "eval/gemm.h"

struct settle_job {
    const struct tensor *in;
    struct tensor *out;
    bool splits;
    enum dtype d;
};

static void settle_range(void *user, int64_t begin, int64_t end, int slot) {
    const struct settle_job *j = user;
    (void)slot;
    double *lo = j->out->store->ch[CH_LO], *hi = j->out->store->ch[CH_HI];
    const double *from_lo = j->in->store->ch[CH_LO], *from_hi = j->in->store->ch[CH_HI];
    double rel = ldexp(1, -dtype_significand(j->d)), tiny = j->d == DT_F16 ? 0x1p-25 : 0x1p-134;
    for (int64_t i = begin; i < end; i++) {
        struct iv a = {from_lo[i], from_hi[i]};
        if (j->splits && !iv_is_point(a)) {
            a = iv_grow(a, rel, tiny);
        } else {
            a = iv_round(j->d, false, a);
        }
        lo[i] = a.lo;
        hi[i] = a.hi;
    }
}

enum proem_status contraction_operand(struct ev *ev, value_id v, const struct tensor *t,
                                      struct tensor *out) {
    *out = *t;
    bool narrow = t->dtype == DT_F16 || t->dtype == DT_BF16;
    if (!ev->track || tensor_exact(t) || ev->mode == EVAL_EAGER || !narrow) return PROEM_OK;
    /* Same values, other intervals: the store's data is borrowed from t's, which outlives it. */
    struct store *from = t->store;
    struct store *s = mem_alloc(ev->alloc, 1, sizeof *s);
    if (s == NULL) return err_nomem(ev->err);
    *s = (struct store){.next = ev->made, .refs = 1, .data = from->data, .n = from->n};
    ev->made = s;
    out->store = s;
    TRY(tensor_channel(ev, out, CH_LO));
    TRY(tensor_channel(ev, out, CH_HI));
    if (from->ch[CH_MAG] != NULL) {
        TRY(tensor_channel(ev, out, CH_MAG));
        memcpy(s->ch[CH_MAG], from->ch[CH_MAG], from->n * sizeof(double));
    }
    struct settle_job job = {t, out, v != 0 && ev->splits[v], t->dtype};
    parallel_ranges(ev, (int64_t)from->n, BLOCK, settle_range, &job);
    return PROEM_OK;
}

/* An operand in the dtype in which it is multiplied: integers beside floats are converted. */
static enum proem_status operand(struct ev *ev, value_id v, const struct tensor *t,
                                 const struct tensor *other, struct tensor *out) {
    struct tensor c = *t;
    if (!dtype_is_float(t->dtype) && dtype_is_float(other->dtype)) {
        enum dtype d = dtype_has_arith(other->dtype) ? other->dtype : DT_F32;
        TRY(tensor_cast(ev, t, d, &c));
    }
    return contraction_operand(ev, v, &c, out);
}

/* May algebra take a factor or a term out of an operand, and may what is left overflow? */
static void set_moves(const struct ev *ev, const struct node *n, const struct tensor *in,
                      struct gemm *g) {
    g->moves = ev->splits[n->in[0]] || ev->splits[n->in[1]];
    if (!g->moves || !ev->track) return;
    bool wide = in[0].dtype == DT_F64 || in[1].dtype == DT_F64;
    double terms = (double)in[0].shape[in[0].rank - 1];
    g->opens = cores_overflow(ev, n, in, wide ? DT_F64 : DT_F32, terms);
}

static enum proem_status batches(struct ev *ev, const struct node *node, const struct tensor *in,
                                 const struct tensor *a, const struct tensor *b,
                                 const struct tensor *bias, struct tensor *out) {
    struct gemm_engine *engine;
    TRY(tensor_new(ev, out));
    TRY(gemm_prepare(ev, a, b, bias, out, &engine));
    int64_t m = a->shape[a->rank - 2], n = b->shape[b->rank - 1];
    int64_t count = m * n != 0 ? out->n / (m * n) : 0;
    struct gemm g = {.out = out, .hides = node->op == OP_MATMUL && node->attrs.flag};
    set_moves(ev, node, in, &g);
    if (bias != NULL) g.bias = tensor_expand(bias, 1, &n);
    for (int64_t i = 0; i < count; i++) {
        g.a = tensor_tail(a, 2, i);
        g.b = tensor_tail(b, 2, i);
        g.at = i * m * n;
        TRY(gemm_run(engine, &g));
    }
    tensor_drop_exact(ev, out);
    return PROEM_OK;
}

/* NumPy: a vector on the left is a row, one on the right a column; batch dims broadcast. */
enum proem_status eval_matmul(struct ev *ev, const struct node *n, const struct tensor *in,
                              struct tensor *out) {
    struct tensor a, b;
    TRY(operand(ev, n->in[0], &in[0], &in[1], &a));
    TRY(operand(ev, n->in[1], &in[1], &in[0], &b));
    int64_t row[2] = {1, a.shape[0]};
    if (a.rank == 1) a = tensor_expand(&a, 2, row);
    if (b.rank == 1) {
        b.rank = 2;
        b.shape[1] = 1;
        b.stride[1] = 0;
    }
    int rank = a.rank > b.rank ? a.rank : b.rank;
    int64_t shape_a[MAX_RANK], shape_b[MAX_RANK];
    for (int d = 0; d < rank - 2; d++) {
        int da = d - (rank - a.rank), db = d - (rank - b.rank);
        int64_t x = da >= 0 ? a.shape[da] : 1, y = db >= 0 ? b.shape[db] : 1;
        shape_a[d] = shape_b[d] = x == 1 ? y : x;
    }
    shape_a[rank - 2] = a.shape[a.rank - 2];
    shape_a[rank - 1] = a.shape[a.rank - 1];
    shape_b[rank - 2] = b.shape[b.rank - 2];
    shape_b[rank - 1] = b.shape[b.rank - 1];
    a = tensor_expand(&a, rank, shape_a);
    b = tensor_expand(&b, rank, shape_b);
    return batches(ev, n, in, &a, &b, NULL, out);
}

/* x [.., K] by w [N, K] transposed, plus b. */
enum proem_status eval_linear(struct ev *ev, const struct node *n, const struct tensor *in,
                              struct tensor *out) {
    struct tensor x, w, flat;
    TRY(operand(ev, n->in[0], &in[0], &in[1], &x));
    TRY(operand(ev, n->in[1], &in[1], &in[0], &w));
    TRY(tensor_compact(ev, &x, &flat));
    int64_t k = x.shape[x.rank - 1], rows = 1;
    for (int d = 0; d < x.rank - 1; d++) {
        rows *= x.shape[d];
    }
    flat.rank = 2;
    flat.shape[0] = rows;
    flat.shape[1] = k;
    flat.stride[0] = k;
    flat.stride[1] = 1;
    struct tensor t = w;
    t.shape[0] = w.shape[1];
    t.shape[1] = w.shape[0];
    t.stride[0] = w.stride[1];
    t.stride[1] = w.stride[0];
    bool has_bias = n->n_in > 2 && in[2].store != NULL;
    return batches(ev, n, in, &flat, &t, has_bias ? &in[2] : NULL, out);
}

static enum proem_status read_offsets(struct ev *ev, const struct tensor *t, int64_t rows,
                                      int64_t *offset) {
    read_ints(t, 0, t->n, offset);
    int64_t before = 0;
    for (int64_t e = 0; e < t->n; e++) {
        if (offset[e] < before || offset[e] > rows) {
            const char *why = arena_printf(
                &ev->scratch, "; offsets must not decrease and are at most the %lld rows of %s",
                (long long)rows, ev->in_name[0]);
            if (why == NULL) return err_nomem(ev->err);
            return data_error(ev, OP_GROUPED_MATMUL, 2, t, e, offset[e], why);
        }
        before = offset[e];
    }
    return PROEM_OK;
}

enum proem_status eval_grouped_matmul(struct ev *ev, const struct node *n, const struct tensor *in,
                                      struct tensor *out) {
    struct tensor a, b;
    int64_t groups = in[2].n, rows = in[0].shape[0], k = in[0].shape[1], cols = in[1].shape[2];
    int64_t *offset = ARENA_NEW(&ev->scratch, int64_t, (size_t)groups);
    if (offset == NULL) return err_nomem(ev->err);
    TRY(read_offsets(ev, &in[2], rows, offset));
    TRY(operand(ev, n->in[0], &in[0], &in[1], &a));
    TRY(operand(ev, n->in[1], &in[1], &in[0], &b));
    TRY(tensor_new(ev, out));
    struct gemm_engine *engine;
    TRY(gemm_prepare(ev, &a, &b, NULL, out, &engine));
    memset(out->store->data, 0, (size_t)dtype_bytes(out->dtype, out->n));
    for (int c = 0; c < CH_COUNT; c++) {
        if (out->store->ch[c] != NULL)
            memset(out->store->ch[c], 0, (size_t)out->n * sizeof(double));
    }
    int64_t before = 0;
    struct gemm g = {.out = out};
    set_moves(ev, n, in, &g);
    for (int64_t e = 0; e < groups; e++) {
        g.a = a;
        g.b = tensor_tail(&b, 2, e);
        g.at = before * cols;
        g.a.offset += before * a.stride[0];
        g.a.shape[0] = offset[e] - before;
        g.a.n = g.a.shape[0] * k;
        if (g.a.shape[0] > 0) TRY(gemm_run(engine, &g));
        before = offset[e];
    }
    if (ev->track && !tensor_exact(&in[2])) {
        TRY(tensor_intervals(ev, out, true));
        for (int64_t i = 0; i < out->n; i++) {
            out->store->ch[CH_LO][i] = -INF;
            out->store->ch[CH_HI][i] = INF;
        }
    }
    tensor_drop_exact(ev, out);
    return PROEM_OK;
}
