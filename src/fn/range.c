/* SPDX-License-Identifier: MIT
 * Bounds of an integer node: those of its dtype, narrowed by interval arithmetic where the node is
 * computed from narrower ones. Products that multiply several integers at a time ask. Operators
 * may wrap, so an interval that leaves the dtype is the dtype's again.
 */
#include "fn/fn.h"

#define DEEP 16 /* nodes from the root on; equal nodes are not looked up */

struct span {
    int64_t lo, hi;
};

static bool span_of_dtype(enum dtype d, struct span *out) {
    int bits = dtype_bits(d);
    if (d == DT_BOOL) return *out = (struct span){0, 1}, true;
    if (!dtype_is_int(d) || bits > 32) return false;
    int64_t half = INT64_C(1) << (bits - 1);
    *out = dtype_is_signed(d) ? (struct span){-half, half - 1} : (struct span){0, 2 * half - 1};
    return true;
}

static bool is_within(struct span x, struct span y) {
    return x.lo >= y.lo && x.hi <= y.hi;
}

static bool span_of(struct fn_pool *p, fn_id f, int deep, struct span *out);

static struct span hull(struct span a, struct span b) {
    return (struct span){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}

static struct span product(struct span a, struct span b) {
    int64_t c[] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
    struct span s = {c[0], c[0]};
    for (int i = 1; i < 4; i++)
        s = hull(s, (struct span){c[i], c[i]});
    return s;
}

/* Operands have at most 32 bits, so nothing here overflows. */
static bool span_of_op(struct fn_pool *p, const struct fn_node *n, int deep, struct span *out) {
    struct span a, b;
    if (dtype_is_float(n->compute) || !span_of(p, n->arg[0], deep, &a)) return false;
    if (n->op == OP_NEG) return *out = (struct span){-a.hi, -a.lo}, true;
    if (n->n_arg != 2 || !span_of(p, n->arg[1], deep, &b)) return false;
    switch ((int)n->op) {
    case OP_ADD: *out = (struct span){a.lo + b.lo, a.hi + b.hi}; return true;
    case OP_SUB: *out = (struct span){a.lo - b.hi, a.hi - b.lo}; return true;
    case OP_MUL: *out = product(a, b); return true;
    case OP_MINIMUM:
    case OP_MAXIMUM: *out = hull(a, b); return true;
    default: return false;
    }
}

static bool span_of(struct fn_pool *p, fn_id f, int deep, struct span *out) {
    const struct fn_node *n = fn_get(p, f);
    struct span own, in, other;
    if (!span_of_dtype(n->dtype, &own)) return false;
    *out = own;
    if (deep == 0) return true;
    bool known = false;
    switch (n->kind) {
    case FN_CONST:
        in = (struct span){n->c.i, n->c.i};
        known = n->dtype != DT_BOOL;
        break;
    case FN_CONVERT:
    case FN_CAST:
    case FN_ROUND: known = span_of(p, n->arg[0], deep - 1, &in); break;
    case FN_OP: known = span_of_op(p, n, deep - 1, &in); break;
    case FN_WHERE:
    case FN_SELECT: {
        int first = n->kind == FN_WHERE;
        known = span_of(p, n->arg[first], deep - 1, &in) &&
                span_of(p, n->arg[first + 1], deep - 1, &other);
        if (known) in = hull(in, other);
        break;
    }
    default: break;
    }
    if (known && is_within(in, own)) *out = in;
    return true;
}

bool fn_bounds(struct fn_pool *p, fn_id f, int64_t *lo, int64_t *hi) {
    struct span s;
    if (!span_of(p, f, DEEP, &s)) return false;
    *lo = s.lo;
    *hi = s.hi;
    return true;
}
