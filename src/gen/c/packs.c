/* SPDX-License-Identifier: MIT
 * See packs.h. The layout depends on the tensor's shape alone, so a packed form serves every
 * launch.
 */
#include "gen/c/packs.h"

#include "gen/c/emit_internal.h"

struct find {
    struct emit *e;
    struct packs *p;
    sx outer;
    bool possible, useful;
};

static bool is_const_param(const struct emit *e, value_id v) {
    for (size_t i = 0; i < e->g->params.n; i++) {
        if (e->g->params.at[i].value == v) return e->g->params.at[i].is_const;
    }
    return false;
}

static bool depends(struct emit *e, const struct fn_node *n, sx atom) {
    for (int i = 0; i < n->rank; i++) {
        if (sx_depends(e->fns, n->idx[i], atom)) return true;
    }
    return false;
}

static void find_load(void *user, fn_id f) {
    struct find *w = user;
    struct emit *e = w->e;
    const struct fn_node *n = fn_get(e->fns, f);
    if (n->kind == FN_SELECT) w->possible = false; /* a load may be out of bounds elsewhere */
    if (n->kind != FN_LOAD) return;
    for (int i = 0; i < n->rank; i++) {
        if (sx_has_look(e, n->idx[i])) w->possible = false;
    }
    if (!depends(e, n, w->outer) || !depends(e, n, e->k->k)) return;
    if (!is_const_param(e, n->tensor) || w->p->n == MAX_PACKS) {
        w->possible = false;
        return;
    }
    struct lanes l = emit_lanes(e, emit_offset(e, n->tensor, n->rank, n->idx));
    bool contiguous = l.kind == LANES_LINEAR && l.step == 1;
    if (dtype_bits(n->dtype) < 32 && !contiguous) w->useful = true;
    w->p->at[w->p->n++] = (struct pack_leaf){.load = f,
                                             .group = emit_leaf_group(e, f, e->k->k),
                                             .by_z = depends(e, n, e->k->z),
                                             .tensor = n->tensor};
}

void packs_find(struct emit *e, fn_id f, sx outer, const char *o, sx N, struct packs *out) {
    *out = (struct packs){.outer = outer, .o = o, .Z = e->k->Z, .N = N, .K = e->k->K};
    struct find w = {e, out, outer, true, false};
    sx old = e->vec;
    bool aligned = e->aligned;
    e->vec = outer;
    e->aligned = true;
    fn_walk(e->fns, f, find_load, &w);
    e->vec = old;
    e->aligned = aligned;
    if (!w.possible || !w.useful) out->n = 0;
}

int packs_of(const struct packs *p, fn_id load) {
    for (int i = 0; p != NULL && i < p->n; i++) {
        if (p->at[i].load == load) return i;
    }
    return -1;
}

static sx groups_of(struct emit *e, const struct packs *p, int i) {
    return sx_ceil_div(e->sp, p->K, sx_const(e->sp, p->at[i].group));
}

void packs_index(struct emit *e, const struct packs *p, int i, struct str *out) {
    str_add(out, "((");
    if (p->at[i].by_z) {
        str_add(out, "z * ");
        emit_sx(e, sx_ceil_div(e->sp, p->N, sx_const(e->sp, e->W)), false, out);
        str_add(out, " + ");
    }
    str_printf(out, "%s / PK_W) * ", p->o);
    emit_sx(e, groups_of(e, p, i), false, out);
    if (p->at[i].group > 1)
        str_printf(out, " + k / %d) * PK_W", p->at[i].group);
    else
        str_add(out, " + k) * PK_W");
}

static void write_bytes(struct emit *e, const struct packs *p) {
    str_printf(e->out,
               "static pk_i64 %s_packed_bytes(const struct pk_args *g, int operand)\n{\n"
               "    pk_i64 count = 0;\n    int bits = 8;\n    (void)g;\n    switch (operand) {\n",
               e->prefix);
    for (int i = 0; i < p->n; i++) {
        sx count =
            sx_mul(e->sp, groups_of(e, p, i), sx_ceil_div(e->sp, p->N, sx_const(e->sp, e->W)));
        if (p->at[i].by_z) count = sx_mul(e->sp, count, p->Z);
        str_printf(e->out, "    case %d: bits = %d; count = ", i,
                   dtype_bits(fn_get(e->fns, p->at[i].load)->dtype));
        emit_sx(e, count, false, e->out);
        str_add(e->out, "; break;\n");
    }
    str_add(e->out, "    default: break;\n    }\n    return (count * PK_W * bits + 7) / 8;\n}\n\n");
}

static void write_tasks(struct emit *e, const struct packs *p) {
    sx blocks = sx_ceil_div(e->sp, p->N, sx_const(e->sp, e->W));
    str_printf(e->out,
               "static pk_i64 %s_pack_tasks(const struct pk_args *g, int operand)\n{\n"
               "    (void)g;\n    switch (operand) {\n",
               e->prefix);
    for (int i = 0; i < p->n; i++) {
        str_printf(e->out, "    case %d: return ", i);
        emit_sx(e, p->at[i].by_z ? sx_mul(e->sp, blocks, p->Z) : blocks, false, e->out);
        str_add(e->out, ";\n");
    }
    str_add(e->out, "    default: return 0;\n    }\n}\n\n");
}

/* Loop over k (one of each group) of one block of columns. */
static void write_leaf(struct emit *e, const struct packs *p, int i) {
    const struct fn_node *n = fn_get(e->fns, p->at[i].load);
    struct str body;
    emit_hook(e, "pack", p->outer, p->outer, true, NULL, 0, false);
    str_init(&body, e->out->alloc);
    emit_begin(e, STAGE_VALUE, &body);
    const char *v = emit_value(e, p->at[i].load);
    str_printf(e->out, "    case %d:\n    for (pk_i64 part = 0; part < ", i);
    emit_sx(e, groups_of(e, p, i), false, e->out);
    str_printf(e->out,
               "; part++) {\n    const pk_i64 k = part * %d;\n    (void)k;\n%s    pk_st_%s(dst, ",
               p->at[i].group, emit_part(e, &body), dtype_name(n->dtype));
    packs_index(e, p, i, e->out);
    str_printf(e->out, ", %s);\n    }\n    break;\n", v);
    str_free(&body);
}

void packs_write(struct emit *e, const struct packs *p) {
    const struct packs *old = e->packs;
    e->packs = NULL; /* what is laid out is read from where it lies */
    write_bytes(e, p);
    write_tasks(e, p);
    str_printf(
        e->out,
        "static void %s_pack(const struct pk_args *g, int operand, pk_i64 task, void *dst)\n{\n"
        "    const pk_i64 columns = ",
        e->prefix);
    emit_sx(e, p->N, false, e->out);
    str_printf(
        e->out,
        ", blocks = (columns + PK_W - 1) / PK_W;\n    const pk_i64 z = task / blocks, %s = task "
        "%% blocks * PK_W, %s = 0;\n    const int cnt = columns - %s < PK_W ? (int)(columns - %s) "
        ": PK_W;\n    (void)z, (void)m, (void)n;\n    switch (operand) {\n",
        p->o, p->o[0] == 'n' ? "m" : "n", p->o, p->o);
    for (int i = 0; i < p->n; i++)
        write_leaf(e, p, i);
    str_add(e->out, "    default: break;\n    }\n}\n\n");
    e->packs = old;
}
