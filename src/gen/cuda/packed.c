/* SPDX-License-Identifier: MIT
 * See packed.h. A node is *exact* if its value, computed without rounding, is a value of the
 * operand's dtype P in every lane: elements of at most 8 bits, their sums and differences while they
 * stay below 2^significand, values of dtype P that are known before the lanes' elements. Exact values
 * may be kept in pairs of P. The product of two of them fits f32, so that rounding it once to P, which is
 * what a packed multiplication does, is what f32 and a rounding give.
 */
#include "gen/cuda/packed.h"

#include <math.h>

#include "gen/c/emit_internal.h"

struct packer {
    struct emit *e;
    const struct staged *s;
    enum dtype P;
    unsigned *name; /* of nodes that have a variable; [0] counts */
    int order;      /* of pairs: pk_widen's last argument */
};

/* Bound of an exact node's magnitude if it is an integer, INFINITY if it is any value of P; -1: it
 * is not exact. */
static double exact(const struct packer *p, fn_id f);

static bool is_integer(double m) {
    return m >= 0 && isfinite(m);
}

static double element_bound(enum dtype P, enum dtype d) {
    if (d == P) return (double)INFINITY;
    if (dtype_is_int(d) && dtype_bits(d) <= 8)
        return dtype_is_signed(d) ? ldexp(1, dtype_bits(d) - 1) : ldexp(1, dtype_bits(d)) - 1;
    if (d == DT_F8E4M3FN || d == DT_F8E5M2 || d == DT_F4E2M1FN) return (double)INFINITY;
    return -1;
}

/* Computed before: a field of the row or the group. */
static bool is_field(const struct packer *p, fn_id f) {
    return emit_stage_of(p->e, f) < STAGE_VALUE;
}

static double exact_sum(const struct packer *p, const struct fn_node *n) {
    double a = exact(p, n->arg[0]), b = exact(p, n->arg[1]);
    if (!is_integer(a) || !is_integer(b)) return -1;
    return a + b <= ldexp(1, dtype_significand(p->P)) ? a + b : -1;
}

static double exact(const struct packer *p, fn_id f) {
    const struct fn_node *n = fn_get(p->e->fns, f);
    if (n->kind == FN_CONST) {
        double v = dtype_is_float(n->dtype) ? n->c.f : (double)n->c.i;
        bool whole = dtype_is_float(n->dtype) || dtype_is_signed(n->dtype) || n->c.i >= 0;
        return whole && v == floor(v) && fabs(v) <= 128 ? fabs(v) : -1;
    }
    if (staged_of(p->s, f) >= 0) return element_bound(p->P, n->dtype);
    bool passes = n->kind == FN_CONVERT || n->kind == FN_ROUND || n->kind == FN_CAST;
    if (passes && dtype_is_float(n->dtype) && dtype_significand(n->dtype) >= 8) {
        double a = exact(p, n->arg[0]);
        /* a rounding to a dtype with no fewer bits than P changes nothing */
        if (is_integer(a) || (a >= 0 && (n->kind == FN_CONVERT || n->dtype == p->P))) return a;
    }
    if (n->kind == FN_OP && (n->op == OP_ADD || n->op == OP_SUB) && dtype_is_float(n->compute) &&
        dtype_significand(n->compute) >= 8)
        return exact_sum(p, n);
    if (is_field(p, f)) {
        bool own = n->dtype == p->P && n->exact;
        return own ? (double)INFINITY : dtype_is_int(n->dtype) ? element_bound(p->P, n->dtype) : -1;
    }
    return -1;
}

/* The product under conversions that keep f32 lanes and one rounding to P; 0: none. */
static fn_id product_of(const struct packer *p, fn_id f) {
    bool rounded = false;
    for (;;) {
        const struct fn_node *n = fn_get(p->e->fns, f);
        if ((n->kind == FN_ROUND || n->kind == FN_CAST) && n->dtype == p->P && !n->saturate) {
            rounded = true;
        } else if (n->kind == FN_OP && n->op == OP_MUL && n->compute == n->dtype) {
            bool f32 = n->dtype == DT_F32 || n->dtype == p->P;
            return rounded && f32 && exact(p, n->arg[0]) >= 0 && exact(p, n->arg[1]) >= 0 ? f : 0;
        } else if (n->kind != FN_CONVERT) {
            return 0;
        }
        f = n->arg[0];
    }
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char *half(const struct packer *p) {
    return p->P == DT_BF16 ? "pk_dt_bf16" : "pk_dt_f16";
}

static unsigned write_node(struct packer *p, fn_id f);

/* f, through what keeps its value. */
static fn_id unchanged(const struct packer *p, fn_id f) {
    for (;;) {
        const struct fn_node *n = fn_get(p->e->fns, f);
        bool passes = n->kind == FN_CONVERT || n->kind == FN_ROUND || n->kind == FN_CAST;
        if (!passes || is_field(p, f)) return f;
        f = n->arg[0];
    }
}

/* q - x, q a leaf of 4 bits, x an integer of the row or the group: q comes out of its bits greater
 * by a constant, and the same constant is added to x, once. False: something else. */
static bool write_over(struct packer *p, const struct fn_node *n, unsigned name) {
    fn_id q = unchanged(p, n->arg[0]), x = n->arg[1];
    int leaf = staged_of(p->s, q);
    if (n->op != OP_SUB || leaf < 0 || !is_field(p, x)) return false;
    if (p->e->vec != p->e->k->k) return false; /* a field of many values */
    enum dtype d = fn_get(p->e->fns, q)->dtype;
    double bound = exact(p, x), most = ldexp(1, dtype_significand(p->P));
    bool over = dtype_is_int(d) && dtype_bits(d) == 4 && is_integer(bound);
    if (!over || bound + most / 2 + 8 > most) return false;
    str_printf(p->e->body,
               "    pk_widen_over<%s, pk_dt_%s, PK_W, %d>(raw%d, h%u);\n    const unsigned b%u = "
               "pk_both<%s>((float)%s[0] + pk_over<%s, pk_dt_%s>::value);\n    PK_EACH(PK_W / 2) "
               "h%u[l] = pk_half<%s>::sub(h%u[l], b%u);\n",
               half(p), dtype_name(d), p->order, leaf, name, name, half(p), emit_ref(p->e, x),
               half(p), dtype_name(d), name, half(p), name, name);
    return true;
}

static void write_pair(struct packer *p, const struct fn_node *n, unsigned name, const char *op) {
    if (write_over(p, n, name)) return;
    unsigned a = write_node(p, n->arg[0]), b = write_node(p, n->arg[1]);
    str_printf(p->e->body, "    PK_EACH(PK_W / 2) h%u[l] = pk_half<%s>::%s(h%u[l], h%u[l]);\n",
               name, half(p), op, a, b);
}

static void write_both(const struct packer *p, unsigned name, const char *x) {
    str_printf(p->e->body, "    PK_EACH(PK_W / 2) h%u[l] = pk_both<%s>(%s);\n", name, half(p), x);
}

/* Along k every lane of a field is the same. */
static void write_field(const struct packer *p, fn_id f, unsigned name) {
    const char *x = emit_ref(p->e, f);
    if (p->e->vec == p->e->k->k) {
        x = arena_printf(p->e->arena, "%s[0]", x);
        write_both(p, name, x != NULL ? x : "");
        return;
    }
    str_printf(p->e->body,
               "    PK_EACH(PK_W / 2) h%u[l] = pk_pairs<%s>::of((float)%s[2 * l], (float)%s[2 * l "
               "+ 1]);\n",
               name, half(p), x, x);
}

/* unsigned h<number>[PK_W / 2], pairs of an exact node; returns the number. */
static unsigned write_node(struct packer *p, fn_id f) {
    const struct fn_node *n = fn_get(p->e->fns, f);
    bool passes = n->kind == FN_CONVERT || n->kind == FN_ROUND || n->kind == FN_CAST;
    int leaf = staged_of(p->s, f);
    if (passes && !is_field(p, f)) return write_node(p, n->arg[0]);
    if (p->name[f] != 0) return p->name[f];
    unsigned name = p->name[f] = ++p->name[0];
    str_printf(p->e->body, "    unsigned h%u[PK_W / 2];\n", name);
    if (leaf >= 0) {
        str_printf(p->e->body, "    pk_widen<%s, pk_dt_%s, PK_W, %d>(raw%d, h%u);\n", half(p),
                   dtype_name(n->dtype), p->order, leaf, name);
    } else if (n->kind == FN_CONST) {
        char number[32];
        write_both(p, name, fmt_double(number, dtype_is_float(n->dtype) ? n->c.f : (double)n->c.i));
    } else if (is_field(p, f)) {
        write_field(p, f, name);
    } else {
        write_pair(p, n, name, n->op == OP_ADD ? "add" : "sub");
    }
    return name;
}

int packed_order(struct emit *e, fn_id f, const struct staged *s) {
    if (s->plain || s->n != 1) return 1;
    enum dtype d = fn_get(e->fns, s->leaf[0])->dtype;
    struct str body;
    str_init(&body, e->out->alloc);
    emit_begin(e, STAGE_VALUE, &body);
    bool packed = packed_write(e, f, s, 1);
    str_free(&body);
    return packed && dtype_is_int(d) ? dtype_bits(d) == 4 ? 4 : dtype_bits(d) == 8 ? 2 : 1 : 1;
}

bool packed_write(struct emit *e, fn_id f, const struct staged *s, int order) {
    struct packer p = {e, s, fn_get(e->fns, f)->dtype, ARENA_NEW(e->arena, unsigned, e->n_fns + 1),
                       order};
    if (p.name == NULL || (p.P != DT_BF16 && p.P != DT_F16)) return false;
    bool own = exact(&p, f) >= 0;
    fn_id product = own ? 0 : product_of(&p, f);
    if (own) {
        str_printf(e->body, "    PK_EACH(PK_W / 2) h[l] = h%u[l];\n", write_node(&p, f));
    } else if (product != 0) {
        const struct fn_node *n = fn_get(e->fns, product);
        unsigned a = write_node(&p, n->arg[0]), b = write_node(&p, n->arg[1]);
        str_printf(e->body, "    PK_EACH(PK_W / 2) h[l] = pk_half<%s>::mul(h%u[l], h%u[l]);\n",
                   half(&p), a, b);
    }
    return own || product != 0;
}
