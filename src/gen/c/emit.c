/* SPDX-License-Identifier: MIT
 * Function bodies: stages of a hook, locals, loads, selects, stores. See emit.h.
 *
 * A node is defined once in a function, after what it is computed from; a statement's text is put
 * together only when everything that it names is defined.
 */
#include "gen/c/emit_internal.h"
#include "gen/c/packs.h"
#include "gen/cuda/staged.h"

#include <string.h>

const char *scalar_name(enum dtype d) {
    switch (dtype_lane(d)) {
    case DT_F64: return "double";
    case DT_F32: return "float";
    case DT_I64: return "pk_i64";
    case DT_U64: return "pk_u64";
    case DT_U32: return "unsigned";
    default: return "int";
    }
}

const char *lane_name(enum dtype d) {
    switch (dtype_lane(d)) {
    case DT_F64: return "vf64";
    case DT_F32: return "vf32";
    case DT_I64: return "vi64";
    case DT_U64: return "vu64";
    case DT_U32: return "vu32";
    default: return "vi32";
    }
}

/* ---- stages ------------------------------------------------------------------------------------
 */

struct dep_walk {
    struct emit *e;
    fn_visit visit;
    void *user;
};

static void sx_deps(struct dep_walk *w, sx x) {
    struct sx_pool *sp = w->e->sp;
    enum sx_kind kind = sx_kind(sp, x);
    if (kind == SX_LOOK) w->visit(w->user, sx_key(sp, x));
    if (kind == SX_CONST || kind == SX_SYM || kind == SX_VAR || kind == SX_LOOK) return;
    for (int i = 0; i < sx_args(sp, x); i++)
        sx_deps(w, sx_arg(sp, x, i));
}

void emit_deps(struct emit *e, fn_id f, fn_visit visit, void *user) {
    struct dep_walk w = {e, visit, user};
    const struct fn_node *n = fn_get(e->fns, f);
    for (int i = 0; i < n->n_arg; i++)
        visit(user, n->arg[i]);
    for (int i = 0; i < n->rank; i++)
        sx_deps(&w, n->idx[i]);
    if (n->kind == FN_INDEX || n->kind == FN_SELECT) sx_deps(&w, n->e);
    if (n->kind == FN_SELECT) {
        sx_deps(&w, n->lo);
        sx_deps(&w, n->hi);
    }
}

struct stage_walk {
    struct emit *e;
    int stage;
};

static void stage_visit(void *user, fn_id f) {
    struct stage_walk *w = user;
    int s = emit_stage_of(w->e, f);
    if (s > w->stage) w->stage = s;
}

static bool own_depends(struct emit *e, const struct fn_node *n, sx atom) {
    for (int i = 0; i < n->rank; i++) {
        if (sx_has(e->sp, n->idx[i], atom)) return true;
    }
    if (n->kind == FN_INDEX || n->kind == FN_SELECT) {
        if (sx_has(e->sp, n->e, atom)) return true;
    }
    return n->kind == FN_SELECT && (sx_has(e->sp, n->lo, atom) || sx_has(e->sp, n->hi, atom));
}

/* Are the node's own index expressions the same all over a group of inner coordinates? */
static bool same_in_group(struct emit *e, const struct fn_node *n) {
    sx own[MAX_RANK + 3];
    int count = 0;
    for (int i = 0; i < n->rank; i++)
        own[count++] = n->idx[i];
    if (n->kind == FN_INDEX || n->kind == FN_SELECT) own[count++] = n->e;
    if (n->kind == FN_SELECT) {
        own[count++] = n->lo;
        own[count++] = n->hi;
    }
    for (int i = 0; i < count; i++) {
        sx x = sx_subst(e->sp, own[i], &e->inner, &e->group_at, 1);
        if (x == 0 || sx_has(e->sp, x, e->group_rest)) return false;
    }
    return true;
}

/* ---- groups ------------------------------------------------------------------------------------
 */

struct group_walk {
    struct emit *e;
    sx inner;
    int unit;
    int64_t best;
};

static void group_divisors(struct group_walk *w, sx x) {
    struct sx_pool *sp = w->e->sp;
    enum sx_kind kind = sx_kind(sp, x);
    if (kind == SX_CONST || kind == SX_SYM || kind == SX_VAR || kind == SX_LOOK) return;
    int64_t d;
    if (kind == SX_DIV && sx_has(sp, sx_arg(sp, x, 0), w->inner) &&
        sx_is_const(sp, sx_arg(sp, x, 1), &d) && d % w->unit == 0 && d <= 65536 &&
        (w->best == 0 || d < w->best))
        w->best = d;
    for (int i = 0; i < sx_args(sp, x); i++)
        group_divisors(w, sx_arg(sp, x, i));
}

static void group_visit(void *user, fn_id f) {
    struct group_walk *w = user;
    const struct fn_node *n = fn_get(w->e->fns, f);
    for (int i = 0; i < n->rank; i++)
        group_divisors(w, n->idx[i]);
}

int emit_group_size(struct emit *e, fn_id f, sx inner, int unit) {
    struct group_walk w = {e, inner, unit, 0};
    fn_walk(e->fns, f, group_visit, &w);
    return (int)w.best;
}

/* Is every index of the load the same for all of a group's elements? */
static bool load_same_in(struct emit *e, const struct fn_node *n, sx inner, int64_t group) {
    sx rest = sx_var(e->sp, "rest", sx_const(e->sp, group));
    sx at = sx_add(e->sp, sx_mul(e->sp, sx_var(e->sp, "group", 0), sx_const(e->sp, group)), rest);
    for (int i = 0; i < n->rank; i++) {
        sx x = sx_subst(e->sp, n->idx[i], &inner, &at, 1);
        if (x == 0 || sx_has(e->sp, x, rest)) return false;
    }
    return true;
}

int emit_leaf_group(struct emit *e, fn_id load, sx inner) {
    struct group_walk w = {e, inner, 1, 0};
    const struct fn_node *n = fn_get(e->fns, load);
    for (int i = 0; i < n->rank; i++)
        group_divisors(&w, n->idx[i]);
    return w.best > 1 && load_same_in(e, n, inner, w.best) ? (int)w.best : 1;
}

/* ---- stages, again ------------------------------------------------------------------------------
 */

int emit_stage_of(struct emit *e, fn_id f) {
    if (!e->has_row) return STAGE_VALUE;
    if (e->stage[f] != 0) return e->stage[f] - 1;
    const struct fn_node *n = fn_get(e->fns, f);
    struct stage_walk w = {e, STAGE_ROW};
    if (own_depends(e, n, e->inner))
        w.stage = e->group > 0 && same_in_group(e, n) ? STAGE_GROUP : STAGE_VALUE;
    if (n->kind == FN_ACC) {
        w.stage = e->acc_level != NULL ? e->acc_level[n->acc] + 1 : STAGE_VALUE;
    }
    emit_deps(e, f, stage_visit, &w);
    e->stage[f] = w.stage + 1;
    return w.stage;
}

struct field_walk {
    struct emit *e;
    bool *seen;
    int user_stage;
};

static bool is_const(const struct emit *e, fn_id f) {
    return fn_get(e->fns, f)->kind == FN_CONST;
}

static void field_visit(void *user, fn_id f) {
    struct field_walk *w = user;
    int s = emit_stage_of(w->e, f);
    if (s < w->user_stage && !is_const(w->e, f)) w->e->field[f] = true;
    if (w->seen[f]) return;
    w->seen[f] = true;
    struct field_walk sub = {w->e, w->seen, s};
    emit_deps(w->e, f, field_visit, &sub);
}

bool emit_prepare(struct emit *e) {
    e->n_fns = fn_count(e->fns);
    e->field = ARENA_NEW(e->arena, bool, e->n_fns);
    e->stage = ARENA_NEW(e->arena, int, e->n_fns);
    e->number = ARENA_NEW(e->arena, unsigned, e->n_fns + 1);
    e->have = ARENA_NEW(e->arena, bool, e->n_fns);
    e->seen = ARENA_NEW(e->arena, bool, e->n_fns);
    return e->field != NULL && e->stage != NULL && e->number != NULL && e->have != NULL &&
           e->seen != NULL;
}

void emit_hook(struct emit *e, const char *hook, sx vec, sx inner, bool aligned, const fn_id *roots,
               int n_roots, bool has_row) {
    uint32_t n = e->n_fns;
    e->hook = hook;
    e->vec = vec;
    e->inner = inner;
    e->aligned = aligned;
    e->has_row = has_row;
    if (e->group > 0) {
        sx number = sx_var(e->sp, "group", 0);
        e->group_rest = sx_var(e->sp, "rest", sx_const(e->sp, e->group));
        e->group_at =
            sx_add(e->sp, sx_mul(e->sp, number, sx_const(e->sp, e->group)), e->group_rest);
    }
    memset(e->field, 0, n * sizeof *e->field);
    memset(e->stage, 0, n * sizeof *e->stage);
    memset(e->number, 0, (n + 1) * sizeof *e->number);
    memset(e->seen, 0, n * sizeof *e->seen);
    for (int i = 0; i < n_roots && has_row; i++) {
        struct field_walk w = {e, e->seen, STAGE_VALUE};
        if (roots[i] != 0) field_visit(&w, roots[i]);
    }
}

/* A node's number in the names of the hook at hand: in the order in which they are written, so that
 * equal kernels have equal texts. */
static unsigned number(struct emit *e, fn_id f) {
    if (e->number[f] == 0) e->number[f] = ++e->number[0];
    return e->number[f];
}

void emit_fields(struct emit *e, bool of_group, struct str *out) {
    bool any = false;
    for (fn_id f = 1; f < e->n_fns; f++) {
        if (!e->field[f] || (emit_stage_of(e, f) == STAGE_GROUP) != of_group) continue;
        str_printf(out, "    %s v%u;\n", lane_name(fn_get(e->fns, f)->dtype), number(e, f));
        any = true;
    }
    if (!any && e->n_acc == 0) str_add(out, "    int none;\n");
}

void emit_fields_at(struct emit *e, const char *type, bool of_group, struct str *out) {
    str_printf(out, "    PK_D_IN %s<1> at(int l) const\n    {\n    %s<1> one = {};\n", type, type);
    for (fn_id f = 1; f < e->n_fns; f++) {
        if (e->field[f] && (emit_stage_of(e, f) == STAGE_GROUP) == of_group)
            str_printf(out, "    one.v%u = pk_at(v%u, l);\n", number(e, f), number(e, f));
    }
    for (int i = 0; i < e->n_acc && !of_group; i++)
        str_printf(out, "    one.acc%d = pk_at(acc%d, l);\n", i, i);
    str_add(out, "    (void)l;\n    return one;\n    }\n");
}

/* ---- functions ---------------------------------------------------------------------------------
 */

static const char *text_or_empty(const char *t) {
    return t != NULL ? t : "";
}

const char *emit_type(const struct emit *e, const char *name) {
    return text_or_empty(e->cuda ? arena_printf(e->arena, "%s_%s<PK_W>", e->prefix, name)
                                 : arena_printf(e->arena, "struct %s_%s", e->prefix, name));
}

const char *emit_hook_type(const struct emit *e, const char *name) {
    return emit_type(e, text_or_empty(arena_printf(e->arena, "%s_%s", e->hook, name)));
}

const char *emit_struct(const struct emit *e, const char *name) {
    return text_or_empty(arena_printf(e->arena, "%sstruct %s_%s",
                                      e->cuda ? "template <int PK_W> " : "", e->prefix, name));
}

const char *emit_access(const struct emit *e, const char *what, enum dtype d) {
    return text_or_empty(e->cuda
                             ? arena_printf(e->arena, "pk_%s<pk_dt_%s, PK_W>", what, dtype_name(d))
                             : arena_printf(e->arena, "pk_%s_%s", what, dtype_name(d)));
}

const char *emit_part(const struct emit *e, const struct str *part) {
    if (part->failed) e->out->failed = true;
    return str_text(part);
}

static const char *numbered(struct emit *e, const char *name, unsigned a) {
    const char *t = arena_printf(e->arena, "%s%u", name, a);
    return t != NULL ? t : "";
}

const char *emit_ref(struct emit *e, fn_id f) {
    if (e->has_row && emit_stage_of(e, f) < e->now && !is_const(e, f))
        return numbered(e, emit_stage_of(e, f) == STAGE_GROUP ? "q->v" : "r->v", number(e, f));
    const struct fn_node *n = fn_get(e->fns, f);
    if (n->kind == FN_ACC)
        return numbered(e, e->acc_level != NULL ? "r->acc" : "acc", (unsigned)n->acc);
    return numbered(e, "v", number(e, f));
}

static void need(void *user, fn_id f) {
    struct emit *e = user;
    if (e->has_row && emit_stage_of(e, f) < e->now && !is_const(e, f)) return;
    if (e->have[f] || fn_get(e->fns, f)->kind == FN_ACC) return;
    e->have[f] = true;
    struct word w;
    if (emit_word(e, f, &w)) {
        emit_deps(e, w.load, need, e);
        emit_word_define(e, f, &w);
        return;
    }
    if (fn_get(e->fns, f)->kind != FN_SELECT) emit_deps(e, f, need, e);
    emit_define(e, f);
}

void emit_begin(struct emit *e, int stage, struct str *body) {
    e->now = stage;
    e->body = body;
    memset(e->have, 0, e->n_fns * sizeof *e->have);
}

void emit_operands(struct emit *e, fn_id f) {
    emit_deps(e, f, need, e);
}

const char *emit_value(struct emit *e, fn_id f) {
    need(e, f);
    return emit_ref(e, f);
}

void emit_stage(struct emit *e, int stage, struct str *body) {
    emit_begin(e, stage, body);
    for (fn_id f = 1; f < e->n_fns; f++) {
        if (!e->field[f] || emit_stage_of(e, f) != stage) continue;
        if (fn_get(e->fns, f)->kind == FN_ACC) {
            str_printf(body, "    r->v%u = r->acc%d;\n", number(e, f), fn_get(e->fns, f)->acc);
            continue;
        }
        need(e, f);
        str_printf(body, "    %s->v%u = v%u;\n", stage == STAGE_GROUP ? "q" : "r", number(e, f),
                   number(e, f));
    }
}

const char *emit_params(const struct emit *e) {
    const char *row = "", *group = "";
    if (e->has_row && e->now != STAGE_ROW)
        row = arena_printf(e->arena, "const %s *r, ", emit_hook_type(e, "row"));
    if (e->group > 0 && e->now == STAGE_VALUE)
        group = arena_printf(e->arena, "const %s *q, ", emit_hook_type(e, "group"));
    const char *t = arena_printf(
        e->arena, "const struct pk_args *g, %s%spk_i64 z, pk_i64 m, pk_i64 n, pk_i64 k, int cnt",
        row != NULL ? row : "", group != NULL ? group : "");
    return t != NULL ? t : "";
}

/* ---- loads -------------------------------------------------------------------------------------
 */

/* Do W elements from `off` on start at a multiple of their size, or of 16 bytes? Then a device moves
 * them at once; CPUs do not care. */
bool emit_starts_whole(struct emit *e, sx off, enum dtype d) {
    sx one, rest;
    int64_t step, parts = 128 / dtype_bits(d);
    if (!e->cuda || !e->aligned || e->W == 1 || e->W * dtype_bits(d) % 8 != 0) return false;
    if (!sx_linear(e->sp, off, e->vec, &one, &rest)) return false;
    if (parts > e->W) parts = e->W;
    return sx_is_const(e->sp, one, &step) && step == 1 &&
           sx_divides(e->sp, sx_const(e->sp, parts), rest);
}

static void define_load(struct emit *e, fn_id f, const struct fn_node *n) {
    int pack = packs_of(e->packs, f);
    if (pack >= 0) {
        str_printf(e->body, "    const %s v%u = ", lane_name(n->dtype), number(e, f));
        packs_load(e, e->packs, pack, false, e->body);
        str_add(e->body, ";\n");
        return;
    }
    int leaf = staged_of(e->staged, f);
    if (leaf >= 0) {
        str_printf(e->body, "    const %s v%u = %s(raw%d);\n", lane_name(n->dtype), number(e, f),
                   emit_access(e, "unpack", n->dtype), leaf);
        return;
    }
    struct lanes l = emit_lanes(e, emit_offset(e, n->tensor, n->rank, n->idx));
    sx off = emit_offset(e, n->tensor, n->rank, n->idx);
    const char *lane = lane_name(n->dtype);
    int slot = e->slot[n->tensor];
    unsigned v = number(e, f);
    if (l.kind == LANES_SAME) {
        str_printf(e->body, "    const %s v%u = %s(g->buf[%d], ", lane, v,
                   emit_access(e, "ld1", n->dtype), slot);
        emit_sx(e, off, false, e->body);
        str_add(e->body, ");\n");
        return;
    }
    str_printf(e->body, "    const pk_i64 o%u = ", v);
    emit_sx(e, off, false, e->body);
    str_add(e->body, ";\n");
    if (l.kind == LANES_LINEAR && l.step == 1) {
        str_printf(e->body,
                   "    const %s v%u = cnt == PK_W ? %s(g->buf[%d], o%u) : %s(g->buf[%d], "
                   "o%u, cnt);\n",
                   lane, v,
                   emit_access(e, emit_starts_whole(e, off, n->dtype) ? "lda" : "ld", n->dtype),
                   slot, v, emit_access(e, "ldn", n->dtype), slot, v);
        return;
    }
    str_printf(e->body, "    pk_i64 i%u[PK_W];\n", v);
    if (l.kind == LANES_CONST || l.kind == LANES_LINEAR) {
        if (e->cuda)
            str_printf(e->body, "    { const pk_i64 d[%d] = {", e->W);
        else
            str_add(e->body, "    { static const pk_i64 d[PK_W] = {");
        for (int i = 0; i < e->W; i++) {
            str_printf(e->body, "%lld, ",
                       (long long)(l.kind == LANES_CONST ? l.at[i] : l.step * i));
        }
        str_printf(e->body, "}; for (int l = 0; l < PK_W; l++) i%u[l] = o%u + d[l]; }\n", v, v);
    } else {
        str_printf(e->body, "    for (int l = 0; l < PK_W; l++) i%u[l] = ", v);
        emit_sx(e, off, true, e->body);
        str_add(e->body, ";\n");
    }
    str_printf(e->body, "    const %s v%u = %s(g->buf[%d], i%u, cnt);\n", lane, v,
               emit_access(e, "ldg", n->dtype), slot, v);
}

/* How the lanes differ from the first one. */
static void emit_steps(struct emit *e, const struct lanes *l) {
    str_add(e->body, e->cuda ? "pk_table<PK_W>({" : "(vi64){");
    for (int i = 0; i < e->W; i++)
        str_printf(e->body, "%lld, ", (long long)(l->kind == LANES_CONST ? l->at[i] : l->step * i));
    str_add(e->body, e->cuda ? "})" : "}");
}

static void define_index(struct emit *e, fn_id f, const struct fn_node *n) {
    struct lanes l = emit_lanes(e, n->e);
    unsigned v = number(e, f);
    if (l.kind == LANES_ANY) {
        str_printf(e->body, "    vi64 v%u; for (int l = 0; l < PK_W; l++) v%u[l] = ", v, v);
        emit_sx(e, n->e, true, e->body);
        str_add(e->body, ";\n");
        return;
    }
    str_printf(e->body, "    const vi64 v%u = pk_set_vi64(", v);
    emit_sx(e, n->e, false, e->body);
    str_add(e->body, ")");
    if (l.kind != LANES_SAME) {
        str_add(e->body, " + ");
        emit_steps(e, &l);
    }
    str_add(e->body, ";\n");
}

/* ---- selects -----------------------------------------------------------------------------------
 */

struct safe_walk {
    struct emit *e;
    bool safe;
};

static void safe_visit(void *user, fn_id f) {
    struct safe_walk *w = user;
    const struct fn_node *n = fn_get(w->e->fns, f);
    if (n->kind != FN_LOAD) return;
    const struct value *v = graph_value(w->e->g, n->tensor);
    for (int i = 0; i < n->rank; i++) {
        w->safe = w->safe && sx_is_nonneg(w->e->sp, n->idx[i]) &&
                  sx_proves_lt(w->e->sp, n->idx[i], v->dims[i]);
    }
}

/* Are all loads below f in bounds whatever the conditions say? */
static bool always_safe(struct emit *e, fn_id f) {
    struct safe_walk w = {e, true};
    fn_walk(e->fns, f, safe_visit, &w);
    return w.safe;
}

static void define_blend(struct emit *e, fn_id f, const struct fn_node *n, const struct lanes *l) {
    emit_deps(e, f, need, e);
    const char *lane = lane_name(n->dtype);
    str_printf(e->body, "    const vi64 c%u = pk_set_vi64(", number(e, f));
    emit_sx(e, sx_sub(e->sp, n->e, n->lo), false, e->body);
    str_add(e->body, ") + ");
    emit_steps(e, l);
    str_printf(e->body,
               ";\n    const %s v%u = pk_select_%s(pk_ge_vi64(c%u, pk_set_vi64(0)) & "
               "pk_lt_vi64(c%u, pk_set_vi64(",
               lane, number(e, f), lane, number(e, f), number(e, f));
    emit_sx(e, sx_sub(e->sp, n->hi, n->lo), false, e->body);
    str_printf(e->body, ")), %s, %s);\n", emit_ref(e, n->arg[0]), emit_ref(e, n->arg[1]));
}

/* One side of a select as a block that returns its value. */
static void select_side(struct emit *e, fn_id f, const char *condition) {
    bool *have = e->have, *fresh = ARENA_NEW(e->arena, bool, e->n_fns);
    if (fresh == NULL) return;
    memcpy(fresh, have, e->n_fns * sizeof *fresh);
    e->have = fresh;
    str_printf(e->body, "    if (%s) {\n", condition);
    const char *v = emit_value(e, f);
    str_printf(e->body, "    return %s;\n    }\n", v);
    e->have = have;
}

/* The structures that a select's function is handed. */
static const char *select_args(const struct emit *e) {
    if (!e->has_row || e->now == STAGE_ROW) return "";
    return e->group > 0 && e->now == STAGE_VALUE ? ", r, q" : ", r";
}

/* Does the row structure, or the group's, hold what differs from lane to lane? */
static bool fields_vary(struct emit *e, bool of_group) {
    for (fn_id f = 1; f < e->n_fns; f++) {
        if (e->field[f] && (emit_stage_of(e, f) == STAGE_GROUP) == of_group &&
            fn_depends(e->fns, f, e->vec))
            return true;
    }
    return !of_group && e->n_acc > 0 && e->vec != e->inner;
}

/* A copy of *from, named `to`, whose first lanes are those of lane l. */
static void copy_lane(struct emit *e, const char *to, const char *from, bool of_group,
                      struct str *body) {
    str_printf(body, "    struct %s_%s_%s %s = *%s;\n", e->prefix, e->hook,
               of_group ? "group" : "row", to, from);
    for (fn_id f = 1; f < e->n_fns; f++) {
        if (e->field[f] && (emit_stage_of(e, f) == STAGE_GROUP) == of_group)
            str_printf(body, "    %s.v%u[0] = %s->v%u[l];\n", to, number(e, f), from, number(e, f));
    }
    for (int i = 0; i < e->n_acc && !of_group; i++)
        str_printf(body, "    %s.acc%d[0] = %s->acc%d[l];\n", to, i, from, i);
}

static void select_each_lane(struct emit *e, const char *lane, const char *name, const char *at,
                             struct str *body) {
    bool row = e->has_row && e->now != STAGE_ROW, group = row && select_args(e)[3] != '\0';
    bool copy_row = row && fields_vary(e, false), copy_group = group && fields_vary(e, true);
    str_printf(body, "    %s all = {0};\n    for (int l = 0; l < cnt; l++) {\n", lane);
    if (copy_row) copy_lane(e, "r1", "r", false, body);
    if (copy_group) copy_lane(e, "q1", "q", true, body);
    str_printf(body, "    all[l] = %s(g%s%s, %s, 1)[0];\n    }\n    return all;\n", name,
               !row       ? ""
               : copy_row ? ", &r1"
                          : ", r",
               !group       ? ""
               : copy_group ? ", &q1"
                            : ", q",
               at);
}

/* One lane at a time, by the same function. */
static void select_each(struct emit *e, const char *lane, const char *name, struct str *body) {
    const char *v = e->vec == e->k->z   ? "z + l, m, n, k"
                    : e->vec == e->k->m ? "z, m + l, n, k"
                    : e->vec == e->k->n ? "z, m, n + l, k"
                                        : "z, m, n, k + l";
    if (!e->cuda) {
        select_each_lane(e, lane, name, v, body);
        return;
    }
    bool row = e->has_row && e->now != STAGE_ROW, group = row && select_args(e)[3] != '\0';
    str_printf(body,
               "    %s all = {0};\n    if constexpr (PK_W > 1) for (int l = 0; l < PK_W; l++) if "
               "(l < cnt) {\n",
               lane);
    if (row) str_add(body, "    const auto r1 = r->at(l);\n");
    if (group) str_add(body, "    const auto q1 = q->at(l);\n");
    str_printf(body, "    all[l] = %s<1>(g%s%s, %s, 1)[0];\n    }\n    return all;\n", name,
               row ? ", &r1" : "", group ? ", &q1" : "", v);
}

static void select_function(struct emit *e, fn_id f, const struct fn_node *n, const char *name,
                            const struct lanes *l) {
    const char *lane = lane_name(n->dtype);
    struct str body;
    struct emit sub = *e;
    sub.have = ARENA_NEW(e->arena, bool, e->n_fns);
    if (sub.have == NULL) return;
    str_init(&body, e->out->alloc);
    emit_begin(&sub, e->now, &body);
    struct dep_walk w = {&sub, need, &sub};
    sx_deps(&w, n->e);
    sx_deps(&w, n->lo);
    sx_deps(&w, n->hi);
    const sx bound[] = {n->e, n->lo, n->hi};
    const char *names[] = {"e0", "lo", "hi"};
    for (int i = 0; i < 3; i++) {
        str_printf(&body, "    const pk_i64 %s = ", names[i]);
        emit_sx(&sub, bound[i], false, &body);
        str_add(&body, ";\n");
    }
    if (l->kind == LANES_SAME) {
        select_side(&sub, n->arg[0], "e0 >= lo && e0 < hi");
        select_side(&sub, n->arg[1], "1");
    } else {
        if (l->kind == LANES_LINEAR)
            str_printf(&body, "    const pk_i64 e1 = e0 + %lld * (cnt - 1);\n", (long long)l->step);
        else
            str_add(&body, e->cuda ? "    const pk_i64 e1 = e0;\n    if (cnt <= 1) {\n"
                                   : "    const pk_i64 e1 = e0;\n    if (cnt > 1) goto lanes;\n");
        select_side(&sub, n->arg[0], "e0 >= lo && e0 < hi && e1 >= lo && e1 < hi");
        select_side(&sub, n->arg[1], "(e0 < lo && e1 < lo) || (e0 >= hi && e1 >= hi)");
        if (l->kind != LANES_LINEAR) str_add(&body, e->cuda ? "    }\n" : "lanes:;\n");
        select_each(e, lane, name, &body);
    }
    e->selects = sub.selects;
    str_printf(e->out, "%s %s %s(%s)\n{\n%s}\n\n", e->cuda ? "PK_I" : "static", lane, name,
               emit_params(&sub), emit_part(e, &body));
    (void)f;
    str_free(&body);
}

void emit_select_define(struct emit *e, fn_id f) {
    const struct fn_node *n = fn_get(e->fns, f);
    struct lanes l = emit_lanes(e, n->e);
    bool moving_bounds = sx_depends(e->fns, n->lo, e->vec) || sx_depends(e->fns, n->hi, e->vec);
    if (moving_bounds) l.kind = LANES_ANY;
    bool step = l.kind == LANES_LINEAR || l.kind == LANES_CONST;
    if (step && always_safe(e, n->arg[0]) && always_safe(e, n->arg[1])) {
        define_blend(e, f, n, &l);
        return;
    }
    const char *name = arena_printf(e->arena, "%s_%s_select%d", e->prefix, e->hook, e->selects++);
    if (name == NULL) return;
    select_function(e, f, n, name, &l);
    str_printf(e->body, "    const %s v%u = %s%s(g%s, z, m, n, k, cnt);\n", lane_name(n->dtype),
               number(e, f), name, e->cuda ? "<PK_W>" : "", select_args(e));
}

/* A sub-byte integer that becomes a float is looked up as such where it lies in words; -1: not so.
 * All floats but the 8-bit ones and smaller have all of its values. */
static int looked_up(const struct emit *e, const struct fn_node *n) {
    bool converts = n->kind == FN_CONVERT || n->kind == FN_CAST;
    if (!converts || dtype_lane(n->dtype) != DT_F32 || dtype_bits(n->dtype) < 16) return -1;
    if (!dtype_is_float(n->dtype) || !dtype_is_int(fn_get(e->fns, n->arg[0])->dtype)) return -1;
    int pack = packs_of(e->packs, n->arg[0]);
    return pack >= 0 && packs_in_words(e->packs, pack) ? pack : -1;
}

void emit_define(struct emit *e, fn_id f) {
    const struct fn_node *n = fn_get(e->fns, f);
    int pack = looked_up(e, n);
    if (pack >= 0) {
        str_printf(e->body, "    const %s v%u = ", lane_name(n->dtype), number(e, f));
        packs_load(e, e->packs, pack, true, e->body);
        str_add(e->body, ";\n");
    } else if (n->kind == FN_LOAD) {
        define_load(e, f, n);
    } else if (n->kind == FN_INDEX) {
        define_index(e, f, n);
    } else if (n->kind == FN_SELECT) {
        emit_select_define(e, f);
    } else {
        str_printf(e->body, "    const %s v%u = ", lane_name(n->dtype), number(e, f));
        emit_expr(e, f, e->body);
        str_add(e->body, ";\n");
    }
}

/* ---- stores ------------------------------------------------------------------------------------
 */

/* The condition that all bounds hold, for the first lane, for all cnt lanes, or for lane l. */
static void bounds_text(struct emit *e, const struct fn_bounds *b, bool lane, struct str *out) {
    for (int i = 0; i < b->n; i++) {
        if (i > 0) str_add(out, " && ");
        str_add(out, "(");
        emit_sx(e, b->at[i].e, lane, out);
        str_add(out, " >= ");
        emit_sx(e, b->at[i].lo, lane, out);
        str_add(out, " && ");
        emit_sx(e, b->at[i].e, lane, out);
        str_add(out, " < ");
        emit_sx(e, b->at[i].hi, lane, out);
        str_add(out, ")");
    }
}

/* Do the bounds differ from lane to lane? */
static bool bounds_vary(struct emit *e, const struct fn_bounds *b) {
    for (int i = 0; i < b->n; i++) {
        if (sx_depends(e->fns, b->at[i].e, e->vec)) return true;
    }
    return false;
}

static void store_lanes(struct emit *e, const struct kernel_store *st, const char *v, sx off,
                        bool test) {
    enum dtype d = graph_value(e->g, st->value)->dtype;
    str_add(e->body, "    for (int l = 0; l < cnt; l++) {\n");
    if (test) {
        str_add(e->body, "        if (!(");
        bounds_text(e, &st->bounds, true, e->body);
        str_add(e->body, ")) continue;\n");
    }
    str_printf(e->body, "        %s(g->buf[%d], ", emit_access(e, "stn", d), e->slot[st->value]);
    emit_sx(e, off, true, e->body);
    str_printf(e->body, ", pk_set_%s(%s[l]), 1);\n    }\n", lane_name(d), v);
}

void emit_store(struct emit *e, const struct kernel_store *st) {
    enum dtype d = graph_value(e->g, st->value)->dtype;
    const char *v = emit_value(e, st->f);
    struct dep_walk w = {e, need, e};
    for (int i = 0; i < st->rank; i++)
        sx_deps(&w, st->idx[i]);
    sx off = emit_offset(e, st->value, st->rank, st->idx);
    struct lanes l = emit_lanes(e, off);
    bool vary = bounds_vary(e, &st->bounds);
    if (st->bounds.n > 0 && !vary) {
        str_add(e->body, "    if (");
        bounds_text(e, &st->bounds, false, e->body);
        str_add(e->body, ") {\n");
    }
    if (l.kind == LANES_LINEAR && l.step == 1 && !vary) {
        str_printf(e->body, "    if (cnt == PK_W) %s(g->buf[%d], ",
                   emit_access(e, emit_starts_whole(e, off, d) ? "sta" : "st", d),
                   e->slot[st->value]);
        emit_sx(e, off, false, e->body);
        str_printf(e->body, ", %s);\n    else %s(g->buf[%d], ", v, emit_access(e, "stn", d),
                   e->slot[st->value]);
        emit_sx(e, off, false, e->body);
        str_printf(e->body, ", %s, cnt);\n", v);
    } else if (l.kind == LANES_SAME && !vary) {
        str_printf(e->body, "    %s(g->buf[%d], ", emit_access(e, "stn", d), e->slot[st->value]);
        emit_sx(e, off, false, e->body);
        str_printf(e->body, ", %s, 1);\n", v);
    } else {
        store_lanes(e, st, v, off, vary);
    }
    if (st->bounds.n > 0 && !vary) str_add(e->body, "    }\n");
}
