/* SPDX-License-Identifier: MIT
 * How large the terms of a product can be when algebra has taken a factor or a term out of an
 * operand: x in place of x * s, q and z in place of q - z.
 *
 * In: a node with its operands and results. Out: for each result that splits (plan_algebra) a bound
 * on the magnitudes of all that may stand in for its elements, from the largest finite magnitudes
 * of the operands and from their own bounds. One number a value: it says whether partial sums can
 * overflow that do not where nothing is moved. Elements that are not finite are not its business:
 * what they came from makes the sum something else than finite without a move, too.
 */
#include "eval/tensor.h"

struct span {
    double least, most; /* of the finite magnitudes but 0; most is 0 if there is none */
};

static struct span span_of(const struct tensor *t) {
    struct span s = {INF, 0};
    double lo[BLOCK], hi[BLOCK];
    for (int64_t at = 0; t->store != NULL && at < t->n; at += BLOCK) {
        int64_t n = t->n - at < BLOCK ? t->n - at : BLOCK;
        read_doubles(t, at, n, CH_LO, lo);
        read_doubles(t, at, n, CH_HI, hi);
        for (int64_t i = 0; i < n; i++) {
            double x = fabs(lo[i]), y = fabs(hi[i]), small = lo[i] * hi[i] > 0 ? fmin(x, y) : 0;
            if (isfinite(x)) s.most = fmax(s.most, x);
            if (isfinite(y)) s.most = fmax(s.most, y);
            if (small > 0) s.least = fmin(s.least, small);
        }
    }
    return s;
}

static double at_least_1(double x) {
    return x > 1 ? x : 1;
}

double core_of(const struct ev *ev, value_id v, const struct tensor *t) {
    return ev->splits[v] && ev->cores[v] > 0 ? ev->cores[v] : span_of(t).most;
}

/* From bounds u of the operands; missing ones are 0. */
static double core_bound(const struct node *n, const double *u, struct span divisor) {
    double largest = 0;
    for (int k = 0; k < 3; k++) {
        largest = fmax(largest, u[k]);
    }
    switch (n->op) {
    case OP_MUL: return at_least_1(u[0]) * at_least_1(u[1]);
    case OP_DIV: return fmax(u[0], u[0] / divisor.least);
    case OP_ADD:
    case OP_SUB: return u[0] + u[1];
    case OP_SOFTMAX: return 1; /* exponentials below the row's largest */
    case OP_RMS_NORM:
    case OP_LAYER_NORM: return 2 * u[0] * at_least_1(u[1]) + u[2];
    case OP_DEQUANTIZE: return (u[0] + u[2]) * at_least_1(u[1]);
    default: return largest;
    }
}

void cores_note(struct ev *ev, const struct node *n, const struct tensor *in,
                const struct tensor *out) {
    for (int j = 0; j < n->n_out; j++) {
        value_id v = n->out + (value_id)j;
        if (!ev->splits[v]) continue;
        double u[3] = {0}, others = 0;
        for (int k = 0; k < n->n_in; k++) {
            if (n->in[k] == 0 || dtype_is_block(in[k].dtype)) continue;
            double x = core_of(ev, n->in[k], &in[k]);
            if (k < 3)
                u[k] = x;
            else
                others = fmax(others, x);
        }
        struct span divisor = n->op == OP_DIV ? span_of(&in[1]) : (struct span){1, 1};
        /* what algebra may leave of a block: numbers and scales are below 2^16 */
        double own = fmax(span_of(&out[j]).most, others);
        if (n->op == OP_DEQUANTIZE && n->in[1] == 0) own *= 0x1p16;
        ev->cores[v] = fmax(own, core_bound(n, u, divisor));
    }
}

bool cores_overflow(const struct ev *ev, const struct node *n, const struct tensor *in,
                    enum dtype wide, double terms) {
    double a = core_of(ev, n->in[0], &in[0]), b = core_of(ev, n->in[1], &in[1]);
    return !(a * b * terms < (wide == DT_F64 ? 0x1p1023 : 0x1p127));
}
