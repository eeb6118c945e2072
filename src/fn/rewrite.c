/* SPDX-License-Identifier: MIT
 * Walks over fns: substitution of coordinates, dependence on an atom, cost, text.
 *
 * A fn may reach other fns through the look-ups in its index expressions; every walk here follows
 * them. Depth is bounded by the depth of the graph, which the parser bounds.
 */
#include "fn/fn.h"

#include <string.h>

/* ---- atoms of index expressions ---------------------------------------------------------------
 */

typedef void (*atom_visit)(void *user, sx atom);

static void sx_atoms(const struct sx_pool *sp, sx e, atom_visit visit, void *user) {
    enum sx_kind k = sx_kind(sp, e);
    if (k == SX_CONST) return;
    if (k == SX_SYM || k == SX_VAR || k == SX_LOOK) {
        visit(user, e);
        return;
    }
    for (int i = 0; i < sx_args(sp, e); i++)
        sx_atoms(sp, sx_arg(sp, e, i), visit, user);
}

/* The index expressions that a node holds itself: at most MAX_RANK + 3. */
static int node_exprs(const struct fn_node *n, sx *out) {
    int count = 0;
    for (int i = 0; i < n->rank; i++)
        out[count++] = n->idx[i];
    if (n->kind == FN_INDEX) out[count++] = n->e;
    if (n->kind == FN_SELECT) {
        out[count++] = n->e;
        out[count++] = n->lo;
        out[count++] = n->hi;
    }
    return count;
}

/* ---- walk ------------------------------------------------------------------------------------ */

struct walk {
    struct fn_pool *p;
    bool *seen;
    fn_visit visit;
    void *user;
};

static void walk_node(struct walk *w, fn_id f);

static void walk_atom(void *user, sx atom) {
    struct walk *w = user;
    const struct sx_pool *sp = fn_sx(w->p);
    if (sx_kind(sp, atom) == SX_LOOK) walk_node(w, sx_key(sp, atom));
}

static void walk_node(struct walk *w, fn_id f) {
    if (w->seen[f]) return;
    w->seen[f] = true;
    const struct fn_node *n = fn_get(w->p, f);
    for (int i = 0; i < n->n_arg; i++)
        walk_node(w, n->arg[i]);
    sx exprs[MAX_RANK + 3];
    int count = node_exprs(n, exprs);
    for (int i = 0; i < count; i++)
        sx_atoms(fn_sx(w->p), exprs[i], walk_atom, w);
    w->visit(w->user, f);
}

void fn_walk(struct fn_pool *p, fn_id f, fn_visit visit, void *user) {
    if (f == 0) return;
    struct walk w = {.p = p, .visit = visit, .user = user};
    w.seen = fn_scratch(p, fn_count(p));
    if (w.seen != NULL) walk_node(&w, f);
}

/* ---- dependence ------------------------------------------------------------------------------ */

struct depends {
    struct fn_pool *p;
    sx atom;
    bool found;
};

static void depends_atom(void *user, sx atom) {
    struct depends *d = user;
    if (d->found) return;
    const struct sx_pool *sp = fn_sx(d->p);
    if (atom == d->atom)
        d->found = true;
    else if (sx_kind(sp, atom) == SX_LOOK)
        d->found = fn_depends(d->p, sx_key(sp, atom), d->atom);
}

bool sx_depends(struct fn_pool *p, sx e, sx atom) {
    struct depends d = {.p = p, .atom = atom};
    sx_atoms(fn_sx(p), e, depends_atom, &d);
    return d.found;
}

static void depends_visit(void *user, fn_id f) {
    struct depends *d = user;
    if (d->found) return;
    const struct fn_node *n = fn_get(d->p, f);
    sx exprs[MAX_RANK + 3];
    int count = node_exprs(n, exprs);
    for (int i = 0; i < count && !d->found; i++) {
        if (sx_has(fn_sx(d->p), exprs[i], d->atom)) d->found = true;
    }
}

bool fn_depends(struct fn_pool *p, fn_id f, sx atom) {
    struct depends d = {.p = p, .atom = atom};
    fn_walk(p, f, depends_visit, &d);
    return d.found;
}

/* ---- substitution ---------------------------------------------------------------------------- */

struct subst {
    struct fn_pool *p;
    const sx *from, *to;
    int n;
    fn_id *memo; /* new id + 1 by old id, for ids that existed when the substitution began */
    uint32_t limit;
    bool failed;
};

static fn_id subst_node(struct subst *s, fn_id f);

struct look_list {
    const struct sx_pool *sp;
    sx at[64];
    int n;
};

static void collect_look(void *user, sx atom) {
    struct look_list *l = user;
    if (sx_kind(l->sp, atom) != SX_LOOK || l->n == 64) return;
    for (int i = 0; i < l->n; i++) {
        if (l->at[i] == atom) return;
    }
    l->at[l->n++] = atom;
}

/* e with the atoms replaced, and each look-up's own fn rewritten as well. */
static sx subst_sx(struct subst *s, sx e) {
    struct sx_pool *sp = fn_sx(s->p);
    struct look_list looks = {.sp = sp};
    sx_atoms(sp, e, collect_look, &looks);
    sx from[64 + 2 * MAX_RANK], to[64 + 2 * MAX_RANK];
    int n = 0;
    for (int i = 0; i < s->n && n < 2 * MAX_RANK; i++) {
        from[n] = s->from[i];
        to[n++] = s->to[i];
    }
    for (int i = 0; i < looks.n; i++) {
        fn_id old = sx_key(sp, looks.at[i]);
        fn_id now = subst_node(s, old);
        if (now == old) continue;
        from[n] = looks.at[i];
        const struct fn_node *nn = fn_get(s->p, now);
        to[n++] = nn->kind == FN_CONST   ? sx_const(sp, nn->c.i)
                  : nn->kind == FN_INDEX ? nn->e
                                         : sx_look(sp, now, sx_extent(sp, looks.at[i]));
    }
    return sx_subst(sp, e, from, to, n);
}

static fn_id rebuild(struct subst *s, const struct fn_node *n, const fn_id *arg, const sx *idx) {
    struct fn_pool *p = s->p;
    switch (n->kind) {
    case FN_INDEX: return fn_index(p, subst_sx(s, n->e));
    case FN_LOAD: return fn_load(p, n->tensor, n->dtype, n->rank, idx);
    case FN_OP: return fn_op(p, n->op, n->compute, n->dtype, n->n_arg, arg, n->param);
    case FN_CONVERT: return fn_convert(p, arg[0], n->dtype);
    case FN_CAST: return fn_cast(p, arg[0], n->dtype, n->saturate);
    case FN_ROUND: return fn_round(p, arg[0]);
    case FN_BITCAST: return fn_bitcast(p, arg[0], n->dtype);
    case FN_WHERE: return fn_where(p, arg[0], arg[1], arg[2]);
    case FN_SELECT:
        return fn_select(p, subst_sx(s, n->e), subst_sx(s, n->lo), subst_sx(s, n->hi), arg[0],
                         arg[1]);
    case FN_CONST:
    case FN_ACC:
    case FN_NONE: break;
    }
    return 0;
}

static fn_id subst_node(struct subst *s, fn_id f) {
    if (f < s->limit && s->memo[f] != 0) return s->memo[f] - 1;
    struct fn_node n = *fn_get(s->p, f); /* a copy: the pool may grow */
    fn_id arg[3] = {0, 0, 0};
    sx idx[MAX_RANK];
    for (int i = 0; i < n.n_arg; i++) {
        arg[i] = subst_node(s, n.arg[i]);
        if (arg[i] == 0) s->failed = true;
    }
    for (int i = 0; i < n.rank; i++)
        idx[i] = subst_sx(s, n.idx[i]);
    fn_id r = n.kind == FN_CONST || n.kind == FN_ACC ? f : 0;
    if (r == 0 && !s->failed) r = rebuild(s, &n, arg, idx);
    if (r == 0) s->failed = true;
    if (f < s->limit) s->memo[f] = r + 1;
    return r;
}

fn_id fn_subst(struct fn_pool *p, fn_id f, const sx *from, const sx *to, int n) {
    if (f == 0) return 0;
    struct subst s = {.p = p, .from = from, .to = to, .n = n, .limit = fn_count(p)};
    s.memo = fn_scratch_ids(p, s.limit);
    if (s.memo == NULL) return 0;
    fn_id r = subst_node(&s, f);
    return s.failed ? 0 : r;
}

/* ---- properties ------------------------------------------------------------------------------ */

/* The value when every load gives 0, if that can be told; *known says so. */
static union scalar zero_value(struct fn_pool *p, fn_id f, bool *known) {
    const struct fn_node *n = fn_get(p, f);
    union scalar arg[3] = {{.i = 0}, {.i = 0}, {.i = 0}};
    *known = false;
    for (int i = 0; i < n->n_arg; i++) {
        bool arg_known;
        arg[i] = zero_value(p, n->arg[i], &arg_known);
        if (!arg_known) return (union scalar){.i = 0};
    }
    *known = true;
    switch (n->kind) {
    case FN_CONST: return n->c;
    case FN_LOAD: return dtype_is_float(n->dtype) ? (union scalar){.f = 0} : (union scalar){.i = 0};
    case FN_OP: return op_ref(n->op, n->compute, arg, n->param);
    case FN_CONVERT:
    case FN_CAST: return elem_cast(fn_get(p, n->arg[0])->dtype, arg[0], n->dtype, n->saturate);
    case FN_ROUND: return arg[0];
    case FN_WHERE: return arg[0].i != 0 ? arg[1] : arg[2];
    case FN_INDEX:
    case FN_ACC:
    case FN_BITCAST:
    case FN_SELECT:
    case FN_NONE: break;
    }
    *known = false;
    return (union scalar){.i = 0};
}

bool fn_zero_at_zero(struct fn_pool *p, fn_id f) {
    bool known;
    union scalar v = zero_value(p, f, &known);
    if (!known) return false;
    return dtype_is_float(fn_get(p, f)->dtype) ? v.f == 0.0 : v.i == 0;
}

struct cost {
    struct fn_pool *p;
    double sum;
};

static void cost_visit(void *user, fn_id f) {
    struct cost *c = user;
    const struct fn_node *n = fn_get(c->p, f);
    switch (n->kind) {
    case FN_OP: c->sum += op_info(n->op)->work; break;
    case FN_LOAD:
        c->sum += dtype_is_subbyte(n->dtype) || dtype_cat(n->dtype) == CAT_Q ? 4 : 1;
        break;
    case FN_CAST:
    case FN_ROUND: c->sum += 3; break;
    case FN_CONVERT:
    case FN_WHERE:
    case FN_SELECT:
    case FN_BITCAST: c->sum += 1; break;
    case FN_INDEX:
    case FN_CONST:
    case FN_ACC:
    case FN_NONE: break;
    }
}

double fn_cost(struct fn_pool *p, fn_id f) {
    struct cost c = {.p = p};
    fn_walk(p, f, cost_visit, &c);
    return c.sum;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_args(struct fn_pool *p, const struct graph *g, const struct fn_node *n,
                       struct str *out) {
    str_add(out, "(");
    for (int i = 0; i < n->n_arg; i++) {
        if (i > 0) str_add(out, ", ");
        fn_print(p, g, n->arg[i], out);
    }
    str_add(out, ")");
}

void fn_print(struct fn_pool *p, const struct graph *g, fn_id f, struct str *out) {
    const struct fn_node *n = fn_get(p, f);
    char buf[32];
    switch (n->kind) {
    case FN_CONST:
        if (dtype_is_float(n->dtype))
            str_add(out, fmt_double(buf, n->c.f));
        else
            str_printf(out, "%lld", (long long)n->c.i);
        break;
    case FN_INDEX: sx_print(fn_sx(p), n->e, out); break;
    case FN_LOAD:
        str_printf(out, "%s[", graph_value(g, n->tensor)->name);
        for (int i = 0; i < n->rank; i++) {
            if (i > 0) str_add(out, ", ");
            sx_print(fn_sx(p), n->idx[i], out);
        }
        str_add(out, "]");
        break;
    case FN_ACC: str_printf(out, "acc%d", n->acc); break;
    case FN_OP:
        str_add(out, op_info(n->op)->name);
        print_args(p, g, n, out);
        break;
    case FN_CONVERT:
    case FN_CAST:
    case FN_ROUND:
    case FN_BITCAST:
        str_printf(out, "%s.%s",
                   n->kind == FN_CONVERT ? "to"
                   : n->kind == FN_CAST  ? "cast"
                   : n->kind == FN_ROUND ? "round"
                                         : "bits",
                   dtype_name(n->dtype));
        print_args(p, g, n, out);
        break;
    case FN_WHERE:
        str_add(out, "where");
        print_args(p, g, n, out);
        break;
    case FN_SELECT:
        str_add(out, "select(");
        sx_print(fn_sx(p), n->lo, out);
        str_add(out, " <= ");
        sx_print(fn_sx(p), n->e, out);
        str_add(out, " < ");
        sx_print(fn_sx(p), n->hi, out);
        str_add(out, ", ");
        fn_print(p, g, n->arg[0], out);
        str_add(out, ", ");
        fn_print(p, g, n->arg[1], out);
        str_add(out, ")");
        break;
    case FN_NONE: break;
    }
}
