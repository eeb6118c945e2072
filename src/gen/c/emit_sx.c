/* SPDX-License-Identifier: MIT
 * Index expressions as C, and how they change from lane to lane.
 */
#include "gen/c/emit_internal.h"

static const char *coordinate(const struct emit *e, sx x) {
    const struct kernel *k = e->k;
    return x == k->z ? "z" : x == k->m ? "m" : x == k->n ? "n" : x == k->k ? "k" : NULL;
}

static void emit_const(int64_t v, struct str *out) {
    if (v == INT64_MIN)
        str_add(out, "(-9223372036854775807LL - 1)");
    else if (v > INT32_MAX || v < INT32_MIN)
        str_printf(out, "%lldLL", (long long)v);
    else
        str_printf(out, "%lld", (long long)v);
}

static void emit_look(struct emit *e, sx x, bool lane, struct str *out) {
    fn_id f = sx_key(e->sp, x);
    bool varies = fn_depends(e->fns, f, e->vec);
    if (!e->cuda) {
        str_printf(out, "%s[%s]", emit_ref(e, f), varies && lane ? "l" : "0");
        return;
    }
    /* Checks of data run beside the kernel: what they find must not be read. */
    str_printf(out, "pk_inside(%s[%s], ", emit_ref(e, f), varies && lane ? "l" : "0");
    emit_sx(e, sx_extent(e->sp, x), false, out);
    str_add(out, ")");
}

static void emit_list(struct emit *e, sx x, const char *op, bool lane, struct str *out) {
    str_add(out, "(");
    for (int i = 0; i < sx_args(e->sp, x); i++) {
        if (i > 0) str_add(out, op);
        emit_sx(e, sx_arg(e->sp, x, i), lane, out);
    }
    str_add(out, ")");
}

static void emit_division(struct emit *e, sx x, bool lane, struct str *out) {
    bool mod = sx_kind(e->sp, x) == SX_MOD;
    bool plain =
        sx_is_nonneg(e->sp, sx_arg(e->sp, x, 0)) && sx_is_nonneg(e->sp, sx_arg(e->sp, x, 1));
    str_add(out, plain ? "(" : mod ? "pk_floor_mod(" : "pk_floor_div(");
    emit_sx(e, sx_arg(e->sp, x, 0), lane, out);
    str_add(out, !plain ? ", " : mod ? " % " : " / ");
    emit_sx(e, sx_arg(e->sp, x, 1), lane, out);
    str_add(out, ")");
}

static int symbol_index(const struct emit *e, sx x) {
    for (int i = 0; i < sx_symbols(e->sp); i++) {
        if (sx_symbol_at(e->sp, i) == x) return i;
    }
    return 0;
}

void emit_sx(struct emit *e, sx x, bool lane, struct str *out) {
    int64_t v;
    if (sx_is_const(e->sp, x, &v)) {
        emit_const(v, out);
        return;
    }
    const char *name = coordinate(e, x);
    if (name != NULL) {
        str_printf(out, lane && x == e->vec ? "(%s + l)" : "%s", name);
        return;
    }
    switch (sx_kind(e->sp, x)) {
    case SX_SYM: str_printf(out, "g->sym[%d]", symbol_index(e, x)); break;
    case SX_LOOK: emit_look(e, x, lane, out); break;
    case SX_ADD: emit_list(e, x, " + ", lane, out); break;
    case SX_MUL: emit_list(e, x, " * ", lane, out); break;
    case SX_DIV:
    case SX_MOD: emit_division(e, x, lane, out); break;
    case SX_CONST:
    case SX_VAR: str_add(out, "0"); break; /* no other coordinate can occur */
    }
}

sx emit_offset(struct emit *e, value_id tensor, int rank, const sx *idx) {
    const struct value *v = graph_value(e->g, tensor);
    sx lin = sx_const(e->sp, 0);
    for (int i = 0; i < rank; i++)
        lin = sx_add(e->sp, sx_mul(e->sp, lin, v->dims[i]), idx[i]);
    return lin;
}

struct lanes emit_lanes(struct emit *e, sx x) {
    struct lanes r = {.kind = LANES_ANY};
    if (!sx_depends(e->fns, x, e->vec)) {
        r.kind = LANES_SAME;
        return r;
    }
    sx coef, rest;
    if (sx_linear(e->sp, x, e->vec, &coef, &rest) && !sx_depends(e->fns, rest, e->vec) &&
        !sx_depends(e->fns, coef, e->vec) && sx_is_const(e->sp, coef, &r.step)) {
        r.kind = LANES_LINEAR;
        return r;
    }
    if (!e->aligned || !sx_has(e->sp, x, e->vec)) return r;
    sx base = 0;
    for (int l = 0; l < e->W; l++) {
        sx at = sx_add(e->sp, sx_mul(e->sp, e->q, sx_const(e->sp, e->W)), sx_const(e->sp, l));
        sx y = sx_subst(e->sp, x, &e->vec, &at, 1);
        if (l == 0) base = y;
        /* a look-up that depends on the vector's coordinate stays in the difference */
        if (!sx_is_const(e->sp, sx_sub(e->sp, y, base), &r.at[l])) return r;
    }
    if (emit_look_varies(e, x)) return r;
    r.step = e->W > 1 ? r.at[1] : 0;
    bool linear = !e->cuda || r.step == 0; /* there a template may want more than one such vector */
    for (int l = 1; l < e->W; l++)
        linear = linear && r.at[l] == r.step * l;
    r.kind = !linear ? LANES_CONST : r.step == 0 ? LANES_SAME : LANES_LINEAR;
    return r;
}

struct look_test {
    struct emit *e;
    bool varies;
};

static void look_visit(struct look_test *t, sx x) {
    struct sx_pool *sp = t->e->sp;
    enum sx_kind kind = sx_kind(sp, x);
    if (kind == SX_LOOK) {
        t->varies = t->varies || fn_depends(t->e->fns, sx_key(sp, x), t->e->vec);
        return;
    }
    if (kind == SX_CONST || kind == SX_SYM || kind == SX_VAR) return;
    for (int i = 0; i < sx_args(sp, x); i++)
        look_visit(t, sx_arg(sp, x, i));
}

bool emit_look_varies(struct emit *e, sx x) {
    struct look_test t = {.e = e};
    look_visit(&t, x);
    return t.varies;
}

bool sx_has_look(struct emit *e, sx x) {
    enum sx_kind kind = sx_kind(e->sp, x);
    if (kind == SX_LOOK) return true;
    if (kind == SX_CONST || kind == SX_SYM || kind == SX_VAR) return false;
    for (int i = 0; i < sx_args(e->sp, x); i++) {
        if (sx_has_look(e, sx_arg(e->sp, x, i))) return true;
    }
    return false;
}

/* ---- choosing an axis --------------------------------------------------------------------------
 */

struct axis_test {
    struct emit *e;
    int cost;
};

static void axis_visit(void *user, fn_id f) {
    struct axis_test *t = user;
    const struct fn_node *n = fn_get(t->e->fns, f);
    if (n->kind == FN_SELECT && sx_depends(t->e->fns, n->e, t->e->vec)) t->cost += 1;
    if (n->kind != FN_LOAD) return;
    struct lanes l = emit_lanes(t->e, emit_offset(t->e, n->tensor, n->rank, n->idx));
    if (l.kind == LANES_ANY)
        t->cost += 8;
    else if (l.kind == LANES_CONST)
        t->cost += 2;
    else if (l.kind == LANES_LINEAR && l.step != 1)
        t->cost += 4;
}

int emit_axis_cost(struct emit *e, fn_id f, sx axis) {
    struct axis_test t = {.e = e};
    sx old = e->vec;
    bool aligned = e->aligned;
    e->vec = axis;
    e->aligned = true;
    fn_walk(e->fns, f, axis_visit, &t);
    e->vec = old;
    e->aligned = aligned;
    return t.cost;
}
