/* SPDX-License-Identifier: MIT
 * See fetch.h. Only whole tensors count (an address that changes with both coordinates, contiguous
 * along the vectors): a bias or a scale stays in the cache by itself.
 */
#include "gen/c/fetch.h"

#include "gen/c/emit_internal.h"

#define MAX_FETCHES 8

struct fetch {
    int slot, bytes;
    sx offset;
};

struct fetches {
    struct emit *e;
    sx row, along;
    int n;
    struct fetch at[MAX_FETCHES];
};

static void add(struct fetches *s, value_id tensor, enum dtype d, int rank, const sx *idx) {
    struct emit *e = s->e;
    sx offset = emit_offset(e, tensor, rank, idx), coef, rest;
    int64_t step;
    if (s->n == MAX_FETCHES || dtype_bits(d) < 8 || sx_has_look(e, offset)) return;
    if (!sx_has(e->sp, offset, s->row) || !sx_linear(e->sp, offset, s->along, &coef, &rest)) return;
    if (!sx_is_const(e->sp, coef, &step) || step != 1) return;
    for (int i = 0; i < s->n; i++) {
        if (s->at[i].slot == e->slot[tensor] && s->at[i].offset == offset) return;
    }
    s->at[s->n++] = (struct fetch){e->slot[tensor], dtype_bits(d) / 8, offset};
}

static void visit(void *user, fn_id f) {
    struct fetches *s = user;
    const struct fn_node *n = fn_get(s->e->fns, f);
    if (n->kind == FN_LOAD) add(s, n->tensor, n->dtype, n->rank, n->idx);
}

static struct fetches find(struct emit *e, sx row, sx along) {
    struct fetches s = {.e = e, .row = row, .along = along};
    for (size_t i = 0; i < e->k->stores.n; i++)
        fn_walk(e->fns, e->k->stores.at[i].f, visit, &s);
    if (s.n == 0) return s; /* stores alone keep up by themselves */
    for (size_t i = 0; i < e->k->stores.n; i++) {
        const struct kernel_store *st = &e->k->stores.at[i];
        if (st->bounds.n > 0) continue;
        add(&s, st->value, graph_value(e->g, st->value)->dtype, st->rank, st->idx);
    }
    return s;
}

int fetch_count(struct emit *e, sx row, sx along) {
    return find(e, row, along).n;
}

bool fetch_needed(struct emit *e, sx row, sx along) {
    return fetch_count(e, row, along) > 0;
}

void fetch_write(struct emit *e, sx row, sx along, const char *row_name, const char *along_name) {
    struct fetches s = find(e, row, along);
    str_printf(e->out,
               "PK_I const void **%s_c_fetch(const struct pk_args *g, const struct %s_c_row *r, "
               "pk_i64 z, pk_i64 %s, pk_i64 %s, int cnt, const void **to)\n{\n    (void)g, "
               "(void)r, (void)z, (void)%s, (void)%s;\n",
               e->prefix, e->prefix, row_name, along_name, row_name, along_name);
    for (int i = 0; i < s.n; i++) {
        const struct fetch *f = &s.at[i];
        str_printf(e->out, "    { const char *p = (const char *)g->buf[%d] + (", f->slot);
        emit_sx(e, f->offset, false, e->out);
        str_printf(e->out, ") * %d;\n    for (int i = 0; i < cnt * %d; i += 64) *to++ = p + i; }\n",
                   f->bytes, f->bytes);
    }
    str_add(e->out, "    return to;\n}\n\n");
}
