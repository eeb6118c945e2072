/* SPDX-License-Identifier: MIT
 * See staged.h.
 */
#include "gen/cuda/staged.h"

#include "gen/c/emit_internal.h"

struct find {
    struct emit *e;
    struct staged *s;
    bool *seen;
    int count;
};

static void find_visit(void *user, fn_id f);

/* Does a look-up in the load's indices depend on k? */
static bool look_moves(struct emit *e, sx x) {
    enum sx_kind kind = sx_kind(e->sp, x);
    if (kind == SX_LOOK) return fn_depends(e->fns, sx_key(e->sp, x), e->k->k);
    if (kind == SX_CONST || kind == SX_SYM || kind == SX_VAR) return false;
    for (int i = 0; i < sx_args(e->sp, x); i++) {
        if (look_moves(e, sx_arg(e->sp, x, i))) return true;
    }
    return false;
}

/* Does the line start at a whole byte? What is staged is addressed by bytes. */
static bool starts_byte(struct emit *e, sx off, int bits) {
    sx one, rest;
    if (bits >= 8) return true;
    return sx_linear(e->sp, off, e->vec, &one, &rest) &&
           sx_divides(e->sp, sx_const(e->sp, 8 / bits), rest);
}

static bool is_leaf(struct emit *e, fn_id f) {
    const struct fn_node *n = fn_get(e->fns, f);
    if (n->kind != FN_LOAD || n->dtype == DT_BOOL || dtype_bits(n->dtype) > 32) return false;
    if (emit_stage_of(e, f) != STAGE_VALUE) return false;
    sx off = emit_offset(e, n->tensor, n->rank, n->idx);
    struct lanes l = emit_lanes(e, off);
    if (l.kind != LANES_LINEAR || l.step != 1 || !sx_has(e->sp, off, e->k->k)) return false;
    for (int i = 0; i < n->rank; i++) {
        if (look_moves(e, n->idx[i])) return false;
    }
    return starts_byte(e, off, dtype_bits(n->dtype));
}

/* Conditions are not entered: what stands behind one may be out of bounds elsewhere. */
static void find_visit(void *user, fn_id f) {
    struct find *w = user;
    if (w->seen[f]) return;
    w->seen[f] = true;
    if (fn_get(w->e->fns, f)->kind == FN_SELECT) return;
    if (is_leaf(w->e, f)) {
        if (w->count < MAX_LEAVES) w->s->leaf[w->count] = f;
        w->count++;
        return;
    }
    emit_deps(w->e, f, find_visit, w);
}

/* The load that f hands on unchanged, or f. */
static fn_id same_value(struct emit *e, fn_id f) {
    for (;;) {
        const struct fn_node *n = fn_get(e->fns, f);
        bool same = (n->kind == FN_CONVERT || n->kind == FN_CAST || n->kind == FN_ROUND) &&
                    n->n_arg == 1 && fn_get(e->fns, n->arg[0])->dtype == n->dtype &&
                    fn_get(e->fns, n->arg[0])->exact;
        if (!same) return f;
        f = n->arg[0];
    }
}

/* ---- operands put together from several tensors ---------------------------------------------- */

/* Is the choice the same for all of 16 bytes along the lanes? */
static bool steady_in_piece(struct emit *e, const struct fn_node *n, sx part) {
    sx one, rest;
    int64_t step;
    if (sx_has_look(e, n->e) || sx_depends(e->fns, n->lo, e->vec) ||
        sx_depends(e->fns, n->hi, e->vec))
        return false;
    if (!sx_has(e->sp, n->e, e->vec)) return true;
    if (!sx_linear(e->sp, n->e, e->vec, &one, &rest)) return false;
    return sx_is_const(e->sp, one, &step) && step == 1 &&
           sx_divides(e->sp, part, sx_sub(e->sp, n->lo, rest)) &&
           sx_divides(e->sp, part, sx_sub(e->sp, n->hi, rest));
}

/* Loads of dtype d in whole pieces under choices; the first in *first. */
static bool is_pieces(struct emit *e, fn_id f, enum dtype d, fn_id *first, int depth) {
    f = same_value(e, f);
    const struct fn_node *n = fn_get(e->fns, f);
    if (n->kind == FN_SELECT)
        return depth > 0 && steady_in_piece(e, n, sx_const(e->sp, 128 / dtype_bits(d))) &&
               is_pieces(e, n->arg[0], d, first, depth - 1) &&
               is_pieces(e, n->arg[1], d, first, depth - 1);
    if (n->kind != FN_LOAD || n->dtype != d) return false;
    sx off = emit_offset(e, n->tensor, n->rank, n->idx);
    struct lanes l = emit_lanes(e, off);
    if (l.kind != LANES_LINEAR || l.step != 1 || !sx_has(e->sp, off, e->vec)) return false;
    if (sx_has_look(e, off) || !staged_lines(e, f, e->vec)) return false;
    if (*first == 0) *first = f;
    return true;
}

static void find_pieces(struct emit *e, fn_id f, struct staged *out) {
    enum { DEPTH = 8 };
    fn_id own = same_value(e, staged_source(e, f)), first = 0;
    const struct fn_node *n = fn_get(e->fns, own);
    if (n->kind != FN_SELECT || dtype_bits(n->dtype) < 8 || dtype_bits(n->dtype) > 16) return;
    if (e->vec != e->k->k || !is_pieces(e, own, n->dtype, &first, DEPTH)) return;
    *out = (struct staged){.n = 1, .plain = true, .leaf = {first}, .pieces = own};
}

fn_id staged_source(struct emit *e, fn_id f) {
    const struct fn_node *n = fn_get(e->fns, f);
    return n->kind == FN_CONVERT && n->n_arg == 1 ? n->arg[0] : f;
}

void staged_find(struct emit *e, fn_id f, sx vec, struct staged *out) {
    struct find w = {e, out, ARENA_NEW(e->arena, bool, e->n_fns), 0};
    *out = (struct staged){0};
    if (w.seen == NULL || e->vec != vec) return;
    find_visit(&w, f);
    if (w.count > MAX_LEAVES) return;
    out->n = w.count;
    fn_id own = same_value(e, staged_source(e, f));
    out->plain = out->n == 1 && own == out->leaf[0];
    if (out->n == 0) find_pieces(e, f, out);
}

void staged_keep_simple(struct emit *e, struct staged *s) {
    bool simple = s->pieces == 0;
    for (int i = 0; i < s->n; i++)
        simple = simple && dtype_bits(fn_get(e->fns, s->leaf[i])->dtype) >= 4;
    if (!simple) *s = (struct staged){0};
}

int staged_of(const struct staged *s, fn_id load) {
    for (int i = 0; s != NULL && i < s->n; i++) {
        if (s->leaf[i] == load) return i;
    }
    return -1;
}

/* ---- results ---------------------------------------------------------------------------------- */

static bool is_result_leaf(struct emit *e, fn_id f) {
    const struct fn_node *n = fn_get(e->fns, f);
    bool some = n->kind == FN_LOAD && n->dtype != DT_BOOL && dtype_bits(n->dtype) >= 8;
    if (!some || dtype_bits(n->dtype) > 32 || emit_stage_of(e, f) != STAGE_VALUE) return false;
    sx off = emit_offset(e, n->tensor, n->rank, n->idx);
    struct lanes l = emit_lanes(e, off);
    return l.kind == LANES_LINEAR && l.step == 1 && sx_has(e->sp, off, e->k->m) &&
           !sx_has_look(e, off);
}

static void result_visit(void *user, fn_id f) {
    struct find *w = user;
    if (w->seen[f]) return;
    w->seen[f] = true;
    if (fn_get(w->e->fns, f)->kind == FN_SELECT) return;
    if (is_result_leaf(w->e, f)) {
        if (w->count < MAX_LEAVES) w->s->leaf[w->count] = f;
        w->count++;
        return;
    }
    emit_deps(w->e, f, result_visit, w);
}

void staged_results(struct emit *e, struct staged *out) {
    struct find w = {e, out, ARENA_NEW(e->arena, bool, e->n_fns), 0};
    *out = (struct staged){0};
    if (w.seen == NULL) return;
    for (size_t i = 0; i < e->k->stores.n; i++) {
        if (e->k->stores.at[i].bounds.n == 0) result_visit(&w, e->k->stores.at[i].f);
    }
    out->n = w.count < MAX_RESULT_LEAVES ? w.count : MAX_RESULT_LEAVES;
}

/* ---- tensor maps ----------------------------------------------------------------------------- */

bool staged_map(struct emit *e, fn_id leaf, sx vec, sx outer, sx n_outer,
                struct gen_tensor_map *out) {
    const struct fn_node *n = fn_get(e->fns, leaf);
    const struct kernel *k = e->k;
    struct sx_pool *sp = e->sp;
    int bits = dtype_bits(n->dtype), per = bits < 8 ? 8 / bits : 1;
    sx at = emit_offset(e, n->tensor, n->rank, n->idx), line = vec == k->k ? outer : k->k;
    sx one, rest, by_line, by_z = sx_const(sp, 0);
    if (sx_has_look(e, at) || !sx_linear(sp, at, vec, &one, &rest)) return false;
    if (!sx_linear(sp, rest, line, &by_line, &rest)) return false;
    if (k->z != 0 && sx_has(sp, rest, k->z) && !sx_linear(sp, rest, k->z, &by_z, &rest))
        return false;
    int64_t same;
    if (sx_is_const(sp, by_line, &same) && same == 0) return false;
    sx parts = sx_const(sp, 128 / bits);
    if (!sx_divides(sp, parts, by_line) || !sx_divides(sp, parts, by_z) ||
        !sx_divides(sp, parts, rest))
        return false;
    sx unit = sx_const(sp, per), run = vec == k->k ? k->K : n_outer;
    *out = (struct gen_tensor_map){.tensor = n->tensor,
                                   .dtype = per > 1 ? DT_U8 : n->dtype,
                                   .rank = 3,
                                   .offset = sx_div(sp, rest, unit)};
    out->dims[0] = sx_ceil_div(sp, run, unit);
    out->dims[1] = vec == k->k ? n_outer : k->K;
    out->dims[2] = k->Z != 0 ? k->Z : sx_const(sp, 1);
    out->strides[0] = sx_const(sp, 1);
    out->strides[1] = sx_div(sp, by_line, unit);
    out->strides[2] = sx_div(sp, by_z, unit);
    return true;
}

bool staged_lines(struct emit *e, fn_id leaf, sx vec) {
    const struct fn_node *n = fn_get(e->fns, leaf);
    sx one, rest, at = emit_offset(e, n->tensor, n->rank, n->idx);
    return sx_linear(e->sp, at, vec, &one, &rest) &&
           sx_divides(e->sp, sx_const(e->sp, 128 / dtype_bits(n->dtype)), rest);
}

/* ---- text ------------------------------------------------------------------------------------ */

void staged_constants(struct emit *e, const char *name, const struct staged *s, sx outer,
                      bool plain) {
    str_printf(e->out, "#define MM_%s_PLAIN %d\n#define MM_%s_LEAVES %d\n", name, plain, name,
               s->n);
    if (s->n == 0)
        str_printf(e->out, "#define MM_%s_LEAF0_BITS 0\n#define MM_%s_LEAF0_MAP 0\n", name, name);
    for (int i = 0; i < s->n; i++) {
        struct gen_tensor_map m;
        bool map =
            s->pieces == 0 && staged_map(e, s->leaf[i], e->vec, outer, sx_const(e->sp, 1), &m);
        str_printf(e->out, "#define MM_%s_LEAF%d_BITS %d\n#define MM_%s_LEAF%d_MAP %d\n", name, i,
                   dtype_bits(fn_get(e->fns, s->leaf[i])->dtype), name, i, map);
    }
    if (s->pieces != 0) str_printf(e->out, "#define MM_%s_LEAF0_EACH 1\n", name);
}

static void write_address(struct emit *e, fn_id f) {
    const struct fn_node *n = fn_get(e->fns, f);
    int bits = dtype_bits(n->dtype);
    str_printf(e->out, "(const char *)g->buf[%d] + (", e->slot[n->tensor]);
    emit_sx(e, emit_offset(e, n->tensor, n->rank, n->idx), false, e->out);
    if (bits < 8)
        str_printf(e->out, ") / %d", 8 / bits);
    else
        str_printf(e->out, ") * %d", bits / 8);
}

/* The address of a piece: that of the load that is chosen. */
static void write_pieces(struct emit *e, fn_id f) {
    f = same_value(e, f);
    const struct fn_node *n = fn_get(e->fns, f);
    if (n->kind == FN_LOAD) {
        write_address(e, f);
        return;
    }
    str_add(e->out, "((");
    emit_sx(e, n->e, false, e->out);
    str_add(e->out, ") >= (");
    emit_sx(e, n->lo, false, e->out);
    str_add(e->out, ") && (");
    emit_sx(e, n->e, false, e->out);
    str_add(e->out, ") < (");
    emit_sx(e, n->hi, false, e->out);
    str_add(e->out, ") ? ");
    write_pieces(e, n->arg[0]);
    str_add(e->out, " : ");
    write_pieces(e, n->arg[1]);
    str_add(e->out, ")");
}

void staged_leaves(struct emit *e, const struct staged *s, const char *o, const char *missing) {
    for (int i = 0; i < s->n; i++) {
        struct str body;
        str_init(&body, e->out->alloc);
        emit_begin(e, STAGE_VALUE, &body);
        if (s->pieces == 0) emit_operands(e, s->leaf[i]);
        str_printf(
            e->out,
            "PK_I const void *%s_%s_leaf%d(const struct pk_args *g, const %s *r, pk_i64 z, "
            "pk_i64 %s, pk_i64 k)\n{\n    const int cnt = 1;\n    const pk_i64 %s = 0;\n    "
            "(void)g, (void)r, (void)z, (void)m, (void)n, (void)k, (void)cnt;\n%s    return ",
            e->prefix, e->hook, i, emit_hook_type(e, "row"), o, missing, emit_part(e, &body));
        if (s->pieces != 0)
            write_pieces(e, s->pieces);
        else
            write_address(e, s->leaf[i]);
        str_add(e->out, ";\n}\n\n");
        str_free(&body);
    }
}

const char *staged_params(const struct emit *e, const struct staged *s) {
    const char *t = "";
    for (int i = 0; i < s->n && t != NULL; i++)
        t = arena_printf(e->arena, "%s, const unsigned *raw%d", t, i);
    return t != NULL ? t : "";
}

const char *staged_args(const struct emit *e, const struct staged *s) {
    const char *t = "";
    for (int i = 0; i < s->n && t != NULL; i++)
        t = arena_printf(e->arena, "%s, raw%d", t, i);
    return t != NULL ? t : "";
}
