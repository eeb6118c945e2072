/* SPDX-License-Identifier: MIT
 * See packs.h. The layout depends on the tensor's shape alone, so a packed form serves every
 * launch.
 */
#include "gen/c/packs.h"

#include "fuse/algebra.h"
#include "gen/c/emit_internal.h"

/* Sums over groups this long and longer are worth multiplying once more for each row. */
#define LONG_GROUP 16

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

/* Elements to a word. */
static int word_depth(enum dtype d, int group) {
    return dtype_is_subbyte(d) && group == 1 ? 32 / dtype_bits(d) : 1;
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
    int group = emit_leaf_group(e, f, e->k->k);
    w->p->at[w->p->n++] = (struct pack_leaf){.load = f,
                                             .group = group,
                                             .depth = word_depth(n->dtype, group),
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

bool packs_in_words(const struct packs *p, int i) {
    return p->at[i].depth > 1;
}

fn_id packs_factor(struct emit *e, fn_id *f, int group) {
    const struct kernel *k = e->k;
    const struct node *anchor = graph_node(e->g, k->anchor);
    bool hides =
        anchor->op == OP_MATMUL && anchor->attrs.flag; /* terms are taken one by one, too */
    if (e->packs == NULL || k->n_b != 1 || group < LONG_GROUP || hides) return 0;
    enum dtype own = graph_value(e->g, anchor->in[k->tile.swap ? 0 : 1])->dtype;
    fn_id rest, factor;
    if (!algebra_group_factor(e->plan, k, *f, own, group, &rest, &factor)) return 0;
    if (!emit_prepare(e)) return 0;
    *f = rest;
    return factor;
}

fn_id packs_term(struct emit *e, fn_id *f) {
    fn_id rest, term;
    if (e->k->tile.dots != 4 || !algebra_bytes(e->plan, e->k, *f, &rest, &term)) return 0;
    if (!emit_prepare(e)) return 0;
    *f = rest;
    return term;
}

/* Vectors of a block of columns: of words, or of elements. */
static sx groups_of(struct emit *e, const struct packs *p, int i) {
    return sx_ceil_div(e->sp, p->K, sx_const(e->sp, p->at[i].group * p->at[i].depth));
}

static void add_block(struct emit *e, const struct packs *p, int i, struct str *out) {
    str_add(out, "(");
    if (p->at[i].by_z) {
        str_add(out, "z * ");
        emit_sx(e, sx_ceil_div(e->sp, p->N, sx_const(e->sp, e->W)), false, out);
        str_add(out, " + ");
    }
    str_printf(out, "%s / PK_W) * ", p->o);
    emit_sx(e, groups_of(e, p, i), false, out);
}

/* Index of the first lane's element at (z, outer, k). */
static void add_index(struct emit *e, const struct packs *p, int i, struct str *out) {
    str_add(out, "(");
    add_block(e, p, i, out);
    if (p->at[i].group > 1)
        str_printf(out, " + k / %d) * PK_W", p->at[i].group);
    else
        str_add(out, " + k) * PK_W");
}

/* The address of the word of k, put so that compilers see the same one for all elements of a word
 * where a template writes them out. */
void packs_load(struct emit *e, const struct packs *p, int i, bool f32, struct str *out) {
    enum dtype d = fn_get(e->fns, p->at[i].load)->dtype;
    if (!packs_in_words(p, i)) {
        str_printf(out, "pk_ld_%s(g->packed[%d], ", dtype_name(d), i);
        add_index(e, p, i, out);
        str_add(out, ")");
        return;
    }
    int last = p->at[i].depth - 1;
    str_printf(out, "pk_ldw_%s%s((const char *)g->packed[%d] + ", dtype_name(d), f32 ? "_vf32" : "",
               i);
    add_block(e, p, i, out);
    int step = e->W * dtype_bits(d) / 8;
    str_printf(out, " * (4 * PK_W) + k * %d - (int)(k & %d) * %d, (int)(k & %d))", step, last, step,
               last);
}

static void write_bytes(struct emit *e, const struct packs *p) {
    str_printf(
        e->out,
        "static pk_i64 %s_packed_bytes(const struct pk_args *g, int operand)\n{\n"
        "    pk_i64 count = 0, more = 0;\n    int bits = 8;\n    (void)g;\n    switch (operand) "
        "{\n",
        e->prefix);
    for (int i = 0; i < p->n; i++) {
        sx count =
            sx_mul(e->sp, groups_of(e, p, i), sx_ceil_div(e->sp, p->N, sx_const(e->sp, e->W)));
        if (p->at[i].by_z) count = sx_mul(e->sp, count, p->Z);
        str_printf(e->out, "    case %d: bits = %d; count = ", i,
                   packs_in_words(p, i) ? 32 : dtype_bits(fn_get(e->fns, p->at[i].load)->dtype));
        emit_sx(e, count, false, e->out);
        if (packs_in_words(p, i)) str_add(e->out, "; more = 4"); /* read, not used */
        str_add(e->out, "; break;\n");
    }
    str_add(e->out,
            "    default: break;\n    }\n    return (count * PK_W * bits + 7) / 8 + more;\n}\n\n");
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

/* The elements of a word are gathered one by one. */
static void write_word(struct emit *e, const struct packs *p, int i, const char *body,
                       const char *v) {
    int depth = p->at[i].depth, bits = 32 / depth;
    str_printf(e->out, "    vu32 word = {0};\n    for (int at = 0; at < %d && part * %d + at < ",
               depth, depth);
    emit_sx(e, p->K, false, e->out);
    str_printf(
        e->out,
        "; at++) {\n    const pk_i64 k = part * %d + at;\n%s    word |= ((vu32)pk_bits_%s(%s) & "
        "%uu) << (unsigned)(%d * at);\n    }\n    pk_st_u32(dst, (",
        depth, body, dtype_name(fn_get(e->fns, p->at[i].load)->dtype), v, (1U << bits) - 1, bits);
    add_block(e, p, i, e->out);
    str_add(e->out, " + part) * PK_W, word);\n");
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
    str_add(e->out, "; part++) {\n");
    if (packs_in_words(p, i)) {
        write_word(e, p, i, emit_part(e, &body), v);
    } else {
        str_printf(e->out, "    const pk_i64 k = part * %d;\n    (void)k;\n%s    pk_st_%s(dst, ",
                   p->at[i].group, emit_part(e, &body), dtype_name(n->dtype));
        add_index(e, p, i, e->out);
        str_printf(e->out, ", %s);\n", v);
    }
    str_add(e->out, "    }\n    break;\n");
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
