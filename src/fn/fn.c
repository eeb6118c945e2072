/* SPDX-License-Identifier: MIT
 * The pool of fn nodes: hash-consing, small local simplifications, substitution, walks.
 *
 * In: constructor calls, operands first. Out: ids; equal ids mean equal values. Nodes are
 * immutable; an operand's id is always smaller than its user's, so a walk in id order is a
 * topological order.
 */
#include "fn/fn.h"

#include <math.h>
#include <string.h>

struct fn_pool {
    struct arena *arena;
    struct sx_pool *sx;
    VEC(struct fn_node) nodes;
    uint32_t *table;
    size_t table_size; /* power of two */
};

struct fn_pool *fn_pool_new(struct arena *a, struct sx_pool *pool) {
    struct fn_pool *p = ARENA_NEW(a, struct fn_pool, 1);
    if (p == NULL) return NULL;
    p->arena = a;
    p->sx = pool;
    p->table_size = 256;
    p->table = ARENA_NEW(a, uint32_t, p->table_size);
    if (p->table == NULL || !VEC_PUSH(a, &p->nodes, (struct fn_node){.kind = FN_NONE})) return NULL;
    return p;
}

struct sx_pool *fn_sx(const struct fn_pool *p) {
    return p->sx;
}

const struct fn_node *fn_get(const struct fn_pool *p, fn_id f) {
    return &p->nodes.at[f];
}

uint32_t fn_count(const struct fn_pool *p) {
    return (uint32_t)p->nodes.n;
}

bool *fn_scratch(struct fn_pool *p, uint32_t n) {
    return ARENA_NEW(p->arena, bool, n);
}

fn_id *fn_scratch_ids(struct fn_pool *p, uint32_t n) {
    return ARENA_NEW(p->arena, fn_id, n);
}

/* ---- hash-consing ---------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t v) {
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    return h * 0xff51afd7ed558ccdu;
}

static uint64_t double_bits(double v) {
    uint64_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

static uint64_t node_hash(const struct fn_node *n) {
    uint64_t h = (uint64_t)n->kind;
    h = mix(h, (uint64_t)n->dtype * 64 + (uint64_t)n->compute);
    h = mix(h, (uint64_t)n->op * 2 + (uint64_t)n->saturate);
    for (int i = 0; i < n->n_arg; i++)
        h = mix(h, n->arg[i]);
    h = mix(h, n->tensor);
    for (int i = 0; i < n->rank; i++)
        h = mix(h, n->idx[i]);
    h = mix(h, (uint64_t)n->acc);
    h = mix(h, (uint64_t)n->c.i);
    h = mix(h, double_bits(n->param[0]));
    h = mix(h, double_bits(n->param[1]));
    h = mix(h, n->e);
    h = mix(h, n->lo);
    return mix(h, n->hi);
}

static bool node_equal(const struct fn_node *a, const struct fn_node *b) {
    if (a->kind != b->kind || a->dtype != b->dtype || a->compute != b->compute || a->op != b->op ||
        a->saturate != b->saturate || a->n_arg != b->n_arg || a->tensor != b->tensor ||
        a->rank != b->rank || a->acc != b->acc || a->c.i != b->c.i || a->e != b->e ||
        a->lo != b->lo || a->hi != b->hi)
        return false;
    if (double_bits(a->param[0]) != double_bits(b->param[0]) ||
        double_bits(a->param[1]) != double_bits(b->param[1]))
        return false;
    for (int i = 0; i < a->n_arg; i++) {
        if (a->arg[i] != b->arg[i]) return false;
    }
    for (int i = 0; i < a->rank; i++) {
        if (a->idx[i] != b->idx[i]) return false;
    }
    return true;
}

static bool table_grow(struct fn_pool *p) {
    size_t size = p->table_size * 2;
    uint32_t *t = ARENA_NEW(p->arena, uint32_t, size);
    if (t == NULL) return false;
    for (uint32_t i = 1; i < p->nodes.n; i++) {
        size_t at = node_hash(&p->nodes.at[i]) & (size - 1);
        while (t[at] != 0)
            at = (at + 1) & (size - 1);
        t[at] = i;
    }
    p->table = t;
    p->table_size = size;
    return true;
}

static fn_id intern(struct fn_pool *p, struct fn_node n) {
    size_t at = node_hash(&n) & (p->table_size - 1);
    for (; p->table[at] != 0; at = (at + 1) & (p->table_size - 1)) {
        if (node_equal(&p->nodes.at[p->table[at]], &n)) return p->table[at];
    }
    /* The table is never full, so that looking for a node ends. */
    if ((p->nodes.n + 1) * 2 > p->table_size) {
        if (!table_grow(p)) return 0;
        at = node_hash(&n) & (p->table_size - 1);
        while (p->table[at] != 0)
            at = (at + 1) & (p->table_size - 1);
    }
    if (n.rank > 0) {
        sx *idx = ARENA_NEW(p->arena, sx, n.rank);
        if (idx == NULL) return 0;
        memcpy(idx, n.idx, (size_t)n.rank * sizeof *idx);
        n.idx = idx;
    }
    fn_id id = (fn_id)p->nodes.n;
    if (!VEC_PUSH(p->arena, &p->nodes, n)) return 0;
    p->table[at] = id;
    return id;
}

/* ---- constructors ---------------------------------------------------------------------------- */

fn_id fn_const(struct fn_pool *p, enum dtype d, union scalar c) {
    return intern(p, (struct fn_node){.kind = FN_CONST, .dtype = d, .exact = true, .c = c});
}

fn_id fn_index(struct fn_pool *p, sx e) {
    if (e == 0) return 0;
    int64_t v;
    if (sx_is_const(p->sx, e, &v)) return fn_const(p, DT_I64, (union scalar){.i = v});
    return intern(p, (struct fn_node){.kind = FN_INDEX, .dtype = DT_I64, .exact = true, .e = e});
}

fn_id fn_load(struct fn_pool *p, value_id tensor, enum dtype d, int rank, const sx *idx) {
    for (int i = 0; i < rank; i++) {
        if (idx[i] == 0) return 0;
    }
    return intern(p, (struct fn_node){.kind = FN_LOAD,
                                      .dtype = d,
                                      .exact = true,
                                      .tensor = tensor,
                                      .rank = rank,
                                      .idx = idx});
}

fn_id fn_acc(struct fn_pool *p, int acc, enum dtype d) {
    bool exact = d == DT_F32 || d == DT_F64 || !dtype_is_float(d);
    return intern(p, (struct fn_node){.kind = FN_ACC, .dtype = d, .exact = exact, .acc = acc});
}

/* Does the operator only choose among its operands' values (or flip a sign)? */
static bool op_keeps_values(enum op op) {
    return op == OP_NEG || op == OP_ABS || op == OP_RELU || op == OP_MINIMUM || op == OP_MAXIMUM ||
           op == OP_CLAMP || op == OP_FLOOR || op == OP_CEIL || op == OP_ROUND || op == OP_TRUNC ||
           op == OP_SIGN;
}

static bool all_const(const struct fn_pool *p, int n, const fn_id *arg) {
    for (int i = 0; i < n; i++) {
        if (p->nodes.at[arg[i]].kind != FN_CONST) return false;
    }
    return n > 0;
}

/* Constants fold only where the result is exact, so that folding never moves a rounding. */
static fn_id fold(struct fn_pool *p, enum op op, enum dtype compute, enum dtype d, int n,
                  const fn_id *arg, const double *param) {
    union scalar in[3];
    for (int i = 0; i < n; i++)
        in[i] = p->nodes.at[arg[i]].c;
    bool zero_div = (op_info(op)->flags & OPF_ZERODIV) != 0 && dtype_is_int(compute);
    if (zero_div && in[1].i == 0) return 0;
    union scalar r = op_ref(op, compute, in, param);
    if (dtype_is_float(d)) {
        if (op_info(op)->ulp != 0.0) return 0;
        double rounded = float_round(d, r.f, false);
        if (isnan(r.f) || rounded != r.f) return 0;
    }
    return fn_const(p, d, r);
}

/* A square or a cube as products, which are more exact and faster; 0: it is no such power. */
static fn_id small_power(struct fn_pool *p, const struct fn_node *pow) {
    const struct fn_node *by = fn_get(p, pow->arg[1]);
    if (!dtype_is_float(pow->compute) || by->kind != FN_CONST || (by->c.f != 2 && by->c.f != 3))
        return 0;
    fn_id x = pow->arg[0];
    bool square = by->c.f == 2;
    enum dtype d = square ? pow->dtype : pow->compute;
    fn_id two = fn_op(p, OP_MUL, pow->compute, d, 2, (fn_id[]){x, x}, NULL);
    if (square || two == 0) return two;
    return fn_op(p, OP_MUL, pow->compute, pow->dtype, 2, (fn_id[]){two, x}, NULL);
}

fn_id fn_op(struct fn_pool *p, enum op op, enum dtype compute, enum dtype d, int n,
            const fn_id *arg, const double *param) {
    struct fn_node node = {.kind = FN_OP, .dtype = d, .compute = compute, .op = op, .n_arg = n};
    bool args_exact = true;
    for (int i = 0; i < n; i++) {
        node.arg[i] = fn_convert(p, arg[i], compute);
        if (node.arg[i] == 0) return 0;
        args_exact = args_exact && fn_get(p, node.arg[i])->exact;
    }
    if (param != NULL) memcpy(node.param, param, sizeof node.param);
    if (dtype_is_int(compute) && (op_info(op)->flags & OPF_INTID) != 0) return node.arg[0];
    bool wide = d == DT_F32 || d == DT_F64 || !dtype_is_float(d);
    node.exact = wide || (op_keeps_values(op) && args_exact);
    if (all_const(p, n, node.arg)) {
        fn_id c = fold(p, op, compute, d, n, node.arg, node.param);
        if (c != 0) return c;
    }
    if (op == OP_POW) {
        fn_id c = small_power(p, &node);
        if (c != 0) return c;
    }
    return intern(p, node);
}

/* Is every value of the node a value of dtype `to`, as small integers are of a narrow float? */
static bool fits(const struct fn_pool *p, const struct fn_node *n, enum dtype to) {
    if (n->kind != FN_CAST && n->kind != FN_CONVERT) return false;
    enum dtype from = fn_get(p, n->arg[0])->dtype;
    if (!dtype_is_int(from) || dtype_bits(from) > 8) return false;
    return to == DT_BF16 || to == DT_F16; /* both hold all integers up to 256 */
}

fn_id fn_convert(struct fn_pool *p, fn_id f, enum dtype to) {
    if (f == 0) return 0;
    const struct fn_node *n = fn_get(p, f);
    if (n->dtype == to) return f;
    bool both_float = dtype_is_float(n->dtype) && dtype_is_float(to);
    if (n->kind == FN_CONST && !both_float) {
        return fn_const(p, to, elem_cast(n->dtype, n->c, to, false));
    }
    bool widens = both_float && dtype_significand(to) >= dtype_significand(n->dtype) &&
                  dtype_bits(to) >= dtype_bits(n->dtype);
    bool exact =
        !both_float || to == DT_F32 || to == DT_F64 || (widens && n->exact) || fits(p, n, to);
    if (n->kind == FN_CONST && both_float && float_round(to, n->c.f, false) == n->c.f)
        return fn_const(p, to, n->c);
    return intern(p, (struct fn_node){
                         .kind = FN_CONVERT, .dtype = to, .exact = exact, .n_arg = 1, .arg = {f}});
}

fn_id fn_cast(struct fn_pool *p, fn_id f, enum dtype to, bool saturate) {
    if (f == 0) return 0;
    const struct fn_node *n = fn_get(p, f);
    if (n->dtype == to) return fn_round(p, f);
    if (n->kind == FN_CONST) return fn_const(p, to, elem_cast(n->dtype, n->c, to, saturate));
    return intern(p, (struct fn_node){.kind = FN_CAST,
                                      .dtype = to,
                                      .exact = true,
                                      .saturate = saturate,
                                      .n_arg = 1,
                                      .arg = {f}});
}

fn_id fn_round(struct fn_pool *p, fn_id f) {
    if (f == 0 || fn_get(p, f)->exact) return f;
    return intern(
        p,
        (struct fn_node){
            .kind = FN_ROUND, .dtype = fn_get(p, f)->dtype, .exact = true, .n_arg = 1, .arg = {f}});
}

fn_id fn_bitcast(struct fn_pool *p, fn_id f, enum dtype to) {
    f = fn_round(p, f);
    if (f == 0 || fn_get(p, f)->dtype == to) return f;
    const struct fn_node *n = fn_get(p, f);
    if (n->kind == FN_CONST) return fn_const(p, to, elem_from_bits(to, elem_bits(n->dtype, n->c)));
    /* Memory is read as the other dtype, so that every NaN keeps its bits. */
    if (n->kind == FN_LOAD && n->dtype != DT_BOOL && to != DT_BOOL)
        return fn_load(p, n->tensor, to, n->rank, n->idx);
    return intern(p, (struct fn_node){
                         .kind = FN_BITCAST, .dtype = to, .exact = true, .n_arg = 1, .arg = {f}});
}

fn_id fn_where(struct fn_pool *p, fn_id c, fn_id a, fn_id b) {
    if (c == 0 || a == 0 || b == 0) return 0;
    const struct fn_node *cn = fn_get(p, c);
    if (cn->kind == FN_CONST) return cn->c.i != 0 ? a : b;
    if (a == b) return a;
    bool exact = fn_get(p, a)->exact && fn_get(p, b)->exact;
    return intern(p, (struct fn_node){.kind = FN_WHERE,
                                      .dtype = fn_get(p, a)->dtype,
                                      .exact = exact,
                                      .n_arg = 3,
                                      .arg = {c, a, b}});
}

fn_id fn_select(struct fn_pool *p, sx e, sx lo, sx hi, fn_id a, fn_id b) {
    if (e == 0 || lo == 0 || hi == 0 || a == 0 || b == 0) return 0;
    if (a == b) return a;
    if (sx_proves_le(p->sx, lo, e) && sx_proves_lt(p->sx, e, hi)) return a;
    if (sx_proves_lt(p->sx, e, lo) || sx_proves_le(p->sx, hi, e)) return b;
    bool exact = fn_get(p, a)->exact && fn_get(p, b)->exact;
    return intern(p, (struct fn_node){.kind = FN_SELECT,
                                      .dtype = fn_get(p, a)->dtype,
                                      .exact = exact,
                                      .n_arg = 2,
                                      .arg = {a, b},
                                      .e = e,
                                      .lo = lo,
                                      .hi = hi});
}

sx fn_look(struct fn_pool *p, fn_id f, sx n) {
    if (f == 0 || n == 0) return 0;
    const struct fn_node *node = fn_get(p, f);
    if (node->kind == FN_INDEX && sx_is_nonneg(p->sx, node->e)) return node->e;
    int64_t v;
    if (node->kind == FN_CONST && dtype_is_int(node->dtype)) {
        v = node->c.i;
        return v >= 0 ? sx_const(p->sx, v) : sx_add(p->sx, n, sx_const(p->sx, v));
    }
    fn_id wide = fn_convert(p, f, DT_I64);
    fn_id size = fn_index(p, n);
    fn_id zero = fn_const(p, DT_I64, (union scalar){.i = 0});
    fn_id neg = fn_op(p, OP_LT, DT_I64, DT_BOOL, 2, (fn_id[]){wide, zero}, NULL);
    fn_id up = fn_op(p, OP_ADD, DT_I64, DT_I64, 2, (fn_id[]){wide, size}, NULL);
    fn_id index = fn_where(p, neg, up, wide);
    return index == 0 ? 0 : sx_look(p->sx, index, n);
}
