/* SPDX-License-Identifier: MIT
 * Words put together from their parts (bitcast to a wider dtype: the scale in a block of bytes) whose
 * parts lie side by side in memory: one load of the wider dtype, at any address, instead of a load,
 * a shift and an or for each part. Parts are written with the first one in the low bits, which is
 * how memory holds them on the machines that kernels are made for, all of them little-endian.
 */
#include "gen/c/emit_internal.h"
#include "gen/c/packs.h"

static const struct fn_node *node(const struct emit *e, fn_id f) {
    return fn_get(e->fns, f);
}

static fn_id without(const struct emit *e, fn_id f, enum fn_kind kind) {
    return node(e, f)->kind == kind ? node(e, f)->arg[0] : f;
}

static bool is_unsigned(enum dtype d) {
    return dtype_is_int(d) && !dtype_is_signed(d);
}

/* A part of a word of `bits` bits, shifted into its place: the load that it comes from, or 0. */
static fn_id part_of(const struct emit *e, fn_id f, int bits, int64_t *shift) {
    const struct fn_node *n = node(e, f);
    if (n->kind != FN_OP || n->op != OP_SHIFT_LEFT || dtype_bits(n->dtype) < bits) return 0;
    const struct fn_node *count = node(e, n->arg[1]);
    if (count->kind != FN_CONST) return 0;
    *shift = count->c.i;
    fn_id part = without(e, n->arg[0], FN_CONVERT), load = without(e, part, FN_BITCAST);
    bool laid_out = packs_of(e->packs, load) >= 0;
    return is_unsigned(node(e, part)->dtype) && node(e, load)->kind == FN_LOAD && !laid_out ? load
                                                                                            : 0;
}

/* Is f part i of the word whose first part is w->load (0: not known yet)? */
static bool part_at(struct emit *e, fn_id f, int i, int bits, struct word *w) {
    int64_t shift, distance;
    fn_id load = part_of(e, f, bits, &shift);
    if (load == 0 || shift != (int64_t)i * w->bytes * 8) return false;
    if (dtype_bits(node(e, load)->dtype) != w->bytes * 8) return false;
    if (i == 0) w->load = load;
    if (w->load == 0 || i == 0) return true;
    const struct fn_node *first = node(e, w->load), *n = node(e, load);
    sx from = emit_offset(e, first->tensor, first->rank, first->idx);
    sx to = emit_offset(e, n->tensor, n->rank, n->idx);
    return first->tensor == n->tensor && sx_is_const(e->sp, sx_sub(e->sp, to, from), &distance) &&
           distance == i;
}

/* ((p0 | p1) | p2) | ..: from the last part to the first. */
static bool all_parts(struct emit *e, fn_id f, int bits, struct word *w) {
    for (int i = bits / (w->bytes * 8) - 1; i > 0; i--) {
        const struct fn_node *n = node(e, f);
        if (n->kind != FN_OP || n->op != OP_BITWISE_OR) return false;
        if (!part_at(e, n->arg[1], i, bits, w)) return false;
        f = n->arg[0];
    }
    return part_at(e, f, 0, bits, w);
}

bool emit_word(struct emit *e, fn_id f, struct word *w) {
    *w = (struct word){0};
    int bits = dtype_bits(node(e, f)->dtype);
    enum fn_kind kind = node(e, f)->kind;
    if (e->cuda || bits < 16 || (kind != FN_BITCAST && kind != FN_CONVERT)) return false;
    fn_id all = without(e, f, FN_BITCAST), parts = without(e, all, FN_CONVERT);
    const struct fn_node *n = node(e, parts);
    if (!is_unsigned(node(e, all)->dtype) || n->kind != FN_OP || n->op != OP_BITWISE_OR)
        return false;
    int64_t shift;
    fn_id load = part_of(e, n->arg[1], bits, &shift);
    if (load == 0) return false;
    int unit = dtype_bits(node(e, load)->dtype);
    if (unit < 8 || bits % unit != 0 || shift != bits - unit) return false;
    w->bytes = unit / 8;
    /* once to find the first part, once with it */
    if (!all_parts(e, parts, bits, w) || !all_parts(e, parts, bits, w)) return false;
    n = node(e, w->load);
    w->lanes = emit_lanes(e, emit_offset(e, n->tensor, n->rank, n->idx));
    return w->lanes.kind == LANES_SAME ||
           (w->lanes.kind == LANES_LINEAR && w->lanes.step == bits / unit);
}

void emit_word_define(struct emit *e, fn_id f, const struct word *w) {
    const struct fn_node *n = node(e, w->load);
    const char *v = emit_ref(e, f), *dtype = dtype_name(node(e, f)->dtype);
    str_printf(e->body, "    const char *w%s = (const char *)g->buf[%d] + ", v, e->slot[n->tensor]);
    emit_sx(e, emit_offset(e, n->tensor, n->rank, n->idx), false, e->body);
    str_printf(e->body, " * %d;\n    const %s %s = ", w->bytes, lane_name(node(e, f)->dtype), v);
    if (w->lanes.kind == LANES_SAME)
        str_printf(e->body, "pk_ld1_%s(w%s, 0);\n", dtype, v);
    else
        str_printf(e->body, "cnt == PK_W ? pk_ld_%s(w%s, 0) : pk_ldn_%s(w%s, 0, cnt);\n", dtype, v,
                   dtype, v);
}
