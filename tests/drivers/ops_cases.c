/* SPDX-License-Identifier: MIT
 * Groups of expressions by dtype of the operands, the values of the operands, and the cases that
 * evaluate them in every place of a kernel.
 *
 * Values: NaN, infinities, zeros of both signs, subnormals, both ends of the range, the places
 * where functions turn, then every bit pattern of a dtype of up to 16 bits, or random ones.
 * Operators of two operands take the product of two short lists.
 */
#include "ops_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_PAIR    24 /* values of an operand beside another one */
#define N_TRIPLE  8
#define N_RANDOM  6000
#define MAX_SMALL 96
#define N_CHOICE  12 /* expressions in one prologue */

const char *place_name(enum op_place p) {
    static const char *const name[PLACE_COUNT] = {"alone",
                                                  "epilogue",
                                                  "prologue A",
                                                  "prologue B",
                                                  "prologue B transposed",
                                                  "float prologue A",
                                                  "float prologue B"};
    return name[p];
}

/* ---- values ---------------------------------------------------------------------------------- */

struct values {
    enum dtype dtype;
    int n;
    union scalar at[MAX_SMALL];
};

static void add_value(struct values *l, union scalar v) {
    uint64_t bits = elem_bits(l->dtype, v);
    for (int i = 0; i < l->n; i++)
        if (elem_bits(l->dtype, l->at[i]) == bits) return;
    if (l->n < MAX_SMALL) l->at[l->n++] = v;
}

static void add_bits(struct values *l, uint64_t bits) {
    int w = dtype_bits(l->dtype);
    add_value(l, elem_from_bits(l->dtype, w < 64 ? bits & ((1ull << w) - 1) : bits));
}

static void float_values(struct values *l) {
    static const double first[] = {0.0, -0.0, 1.0,  -1.0,  0.5,  -2.0, 2.5,  -3.5,   3.0,
                                   0.1, -0.7, 10.0, -20.0, 88.5, 31.0, -5.5, 0.9999, -64.25};
    static const double more[] = {
        1.5,           0.25,         -0.25,       6.0,     -6.0,      -3.0,       20.0,
        20.5,          7.0,          1.0000001,   -1.0,    -0.9999,   1e-3,       -1e-3,
        1e-8,          1e5,          -1e5,        1e30,    -1e30,     88.7,       -87.5,
        -103.5,        128.0,        -149.5,      709.5,   -745.0,    1023.5,     -1074.0,
        3.14159274,    1.57079637,   -4.71238899, 100.25,  8388607.5, 16777217.0, 2147483648.0,
        -2147483648.0, 4294967296.0, 9.3e18,      -9.3e18, 1.9e19,    255.5,      256.0,
        -128.5,        32767.5,      65504.0,     65520.0, 448.0,     464.0,      57344.0,
        61440.0,       1e300,        -1e-300};
    uint64_t sign = 1ull << (dtype_bits(l->dtype) - 1);
    for (size_t i = 0; i < 6; i++)
        add_value(l, elem_cast(DT_F64, (union scalar){.f = first[i]}, l->dtype, false));
    add_value(l, elem_cast(DT_F64, (union scalar){.f = (double)NAN}, l->dtype, false));
    add_value(l, elem_cast(DT_F64, (union scalar){.f = (double)INFINITY}, l->dtype, false));
    add_value(l, elem_cast(DT_F64, (union scalar){.f = (double)-INFINITY}, l->dtype, false));
    if (l->dtype != DT_E8M0) {
        double max = dtype_max_finite(l->dtype);
        add_value(l, (union scalar){.f = max});
        add_value(l, (union scalar){.f = -max});
        uint64_t hidden = 1ull << (dtype_significand(l->dtype) - 1);
        add_bits(l, 1); /* the least subnormal */
        add_bits(l, 1 | sign);
        add_bits(l, hidden - 1); /* the largest subnormal */
        add_bits(l, hidden);     /* the least normal */
        add_bits(l, hidden | sign);
    } else {
        add_bits(l, 0);
        add_bits(l, 254);
    }
    for (size_t i = 6; i < COUNT_OF(first); i++)
        add_value(l, elem_cast(DT_F64, (union scalar){.f = first[i]}, l->dtype, false));
    for (size_t i = 0; i < COUNT_OF(more); i++)
        add_value(l, elem_cast(DT_F64, (union scalar){.f = more[i]}, l->dtype, false));
}

static void int_values(struct values *l) {
    static const int64_t first[] = {0, 1, -1, 2, 3, -2, -3, 7, 5, -7, 8, 15, 16, 31, 32, 63, 64};
    static const int64_t more[] = {4,
                                   6,
                                   9,
                                   10,
                                   -8,
                                   100,
                                   127,
                                   128,
                                   -128,
                                   255,
                                   256,
                                   999,
                                   32767,
                                   32768,
                                   -32768,
                                   2147483647,
                                   2147483648LL,
                                   -65,
                                   1000000007,
                                   16777217,
                                   9007199254740993LL};
    int w = dtype_bits(l->dtype);
    uint64_t top = 1ull << (w - 1);
    for (size_t i = 0; i < 4; i++)
        add_bits(l, (uint64_t)first[i]);
    add_bits(l, top);
    add_bits(l, top - 1);
    add_bits(l, top + 1);
    for (size_t i = 4; i < COUNT_OF(first); i++)
        add_bits(l, (uint64_t)first[i]);
    for (size_t i = 0; i < COUNT_OF(more); i++)
        add_bits(l, (uint64_t)more[i]);
}

static struct values values_of(enum dtype d) {
    struct values l = {.dtype = d};
    if (d == DT_BOOL) {
        l.at[0].i = 0;
        l.at[1].i = 1;
        l.n = 2;
    } else if (dtype_is_float(d)) {
        float_values(&l);
    } else {
        int_values(&l);
    }
    return l;
}

static uint64_t next_random(uint64_t *s) {
    uint64_t z = (*s += 0x9E3779B97F4A7C15u); /* SplitMix64 (Steele, Lea, Flood 2014) */
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Repeats values, so that rows of sub-byte results are whole bytes. */
static void pad_values(struct values *l) {
    for (int i = 0; l->n % 8 != 0; i++)
        l->at[l->n++] = l->at[i];
}

/* ---- tuples ---------------------------------------------------------------------------------- */

static bool tuples_new(struct op_group *g, int n) {
    g->tuple = calloc((size_t)n, sizeof *g->tuple);
    g->n_tuples = n;
    return g->tuple != NULL;
}

/* The short list, then all bit patterns or random ones. */
static bool single_tuples(struct op_group *g) {
    enum dtype d = g->in[0];
    struct values l = values_of(d);
    pad_values(&l);
    int w = dtype_bits(d), rest = d == DT_BOOL ? 0 : w <= 16 ? 1 << w : N_RANDOM;
    uint64_t seed = (uint64_t)d;
    if (!tuples_new(g, l.n + rest)) return false;
    for (int i = 0; i < l.n; i++)
        g->tuple[i].v[0] = l.at[i];
    for (int i = 0; i < rest; i++) {
        uint64_t bits = w <= 16 ? (uint64_t)i : next_random(&seed) >> (64 - w);
        union scalar v = elem_from_bits(d, bits);
        if (w > 16 && i % 2 == 0 && dtype_is_float(d)) { /* where most functions have their shape */
            double u = (double)(int64_t)next_random(&seed) * 0x1p-63;
            v = elem_cast(DT_F64, (union scalar){.f = u * u * u * 30}, d, false);
        }
        g->tuple[l.n + i].v[0] = v;
    }
    g->n_small = g->n_fast = l.n;
    return true;
}

static bool product_tuples(struct op_group *g, int limit, bool nonzero) {
    struct values l[3];
    int n[3] = {1, 1, 1}, made = 0;
    for (int i = 0; i < g->n_in; i++) {
        l[i] = values_of(g->in[i]);
        if (i == 1 && nonzero) {
            int kept = 0;
            for (int k = 0; k < l[i].n; k++)
                if (l[i].at[k].i != 0) l[i].at[kept++] = l[i].at[k];
            l[i].n = kept;
        }
        if (i == 0) pad_values(&l[i]);
        n[i] = l[i].n < limit ? l[i].n : limit;
    }
    if (!tuples_new(g, n[0] * n[1] * n[2])) return false;
    for (int c = 0; c < n[2]; c++) {
        for (int b = 0; b < n[1]; b++) {
            for (int a = 0; a < n[0]; a++, made++) {
                const int at[3] = {a, b, c};
                for (int i = 0; i < g->n_in; i++)
                    g->tuple[made].v[i] = l[i].at[at[i]];
            }
        }
    }
    g->n_small = made;
    g->n_fast = n[0];
    return true;
}

/* ---- expressions ----------------------------------------------------------------------------- */

static struct op_expr *add_expr(struct op_group *g, enum expr_kind kind, enum dtype result) {
    if (g->n == MAX_EXPRS) return NULL;
    struct op_expr *e = &g->expr[g->n++];
    *e = (struct op_expr){.kind = kind, .result = result};
    return e;
}

static void add_row(struct op_group *g, enum op op, const char *args, double p0, double p1) {
    const struct op_info *info = op_info(op);
    enum dtype compute = DT_NONE;
    if (info->arity > g->n_in) return;
    enum dtype d = op_result_dtype(op, g->in, NULL, info->arity, &compute);
    struct op_expr *e = d == DT_NONE ? NULL : add_expr(g, EXPR_ROW, d);
    if (e == NULL) return;
    static const char *const operands[] = {"", "x", "x, y", "x, y, z"};
    e->op = op;
    e->rule = info->rule;
    e->compute = compute;
    e->n_args = info->arity;
    e->param[0] = p0;
    e->param[1] = p1;
    snprintf(e->text, sizeof e->text, "%s(%s%s)", op == OP_GELU_TANH ? "gelu" : info->name,
             operands[info->arity], args);
}

static void add_unary(struct op_group *g, enum op op) {
    switch (op) {
    case OP_GELU_TANH: add_row(g, op, ", approximate=\"tanh\"", 0, 0); return;
    case OP_SOFTPLUS:
        add_row(g, op, "", 1, 20);
        add_row(g, op, ", beta=0.5, threshold=4", 0.5, 4);
        return;
    case OP_ELU:
        add_row(g, op, "", 1, 0);
        add_row(g, op, ", alpha=0.25", 0.25, 0);
        return;
    case OP_LEAKY_RELU:
        add_row(g, op, "", 0.01, 0);
        add_row(g, op, ", slope=-2", -2, 0);
        return;
    default: add_row(g, op, "", 0, 0);
    }
}

static void add_casts(struct op_group *g) {
    enum dtype d = g->in[0];
    for (int i = DT_NONE + 1; i < DT_COUNT; i++) {
        enum dtype to = (enum dtype)i;
        struct op_expr *e = add_expr(g, EXPR_CAST, to);
        snprintf(e->text, sizeof e->text, "cast(x, %s)", dtype_name(to));
        if (dtype_is_float(to)) {
            e = add_expr(g, EXPR_CAST, to);
            e->saturate = true;
            snprintf(e->text, sizeof e->text, "cast(x, %s, saturate=true)", dtype_name(to));
        }
        if (dtype_bits(to) != dtype_bits(d) || to == DT_BOOL || d == DT_BOOL || to == d) continue;
        e = add_expr(g, EXPR_BITCAST, to);
        snprintf(e->text, sizeof e->text, "bitcast(x, %s)", dtype_name(to));
    }
}

static void add_where(struct op_group *g) {
    enum dtype d = dtype_promote(g->in[0], g->in[1], false);
    struct op_expr *e = d == DT_NONE ? NULL : add_expr(g, EXPR_WHERE, d);
    if (e != NULL) snprintf(e->text, sizeof e->text, "where(z, x, y)");
}

/* ---- cases ----------------------------------------------------------------------------------- */

static bool grow(void *at, int *cap, int n, size_t size) {
    void *p = NULL;
    memcpy(&p, at, sizeof p);
    if (n < *cap) return true;
    int want = *cap == 0 ? 64 : 2 * *cap;
    p = realloc(p, (size_t)want * size);
    if (p == NULL) return false;
    memcpy(at, &p, sizeof p);
    *cap = want;
    return true;
}

static bool add_case(struct case_list *l, const struct op_group *g, enum op_place place, int first,
                     int n) {
    if (!grow(&l->at, &l->cap, l->n, sizeof *l->at)) return false;
    struct op_case c = {.group = g, .place = place, .first = first, .n = n};
    if (place == PLACE_ALONE) {
        c.n_tuples = g->n_tuples;
    } else if (place == PLACE_EPILOGUE) {
        c.lines = g->n_in == 1 ? 5 : g->n_small / g->n_fast;
        c.n_tuples = c.lines * g->n_fast;
    } else {
        c.n_tuples = g->n_small;
        c.lines = n * ((g->n_small + 31) / 32);
    }
    l->at[l->n++] = c;
    return true;
}

/* Runs of expressions that can share a kernel in this place. */
static bool may_share(const struct op_expr *a, const struct op_expr *b, enum op_place place) {
    if (place == PLACE_ALONE || place == PLACE_EPILOGUE) return true;
    if (place == PLACE_FLOAT_A || place == PLACE_FLOAT_B) return a->result == b->result;
    return dtype_bits(a->result) == dtype_bits(b->result);
}

static bool add_place(struct case_list *l, const struct op_group *g, enum op_place place) {
    bool as_float = place == PLACE_FLOAT_A || place == PLACE_FLOAT_B;
    int limit = place == PLACE_ALONE || place == PLACE_EPILOGUE ? MAX_CASE : N_CHOICE;
    for (int i = 0; i < g->n;) {
        int first = i++;
        if (as_float && dtype_cat(g->expr[first].result) != CAT_F) continue;
        while (i < g->n && i - first < limit && may_share(&g->expr[first], &g->expr[i], place))
            i++;
        if (!add_case(l, g, place, first, i - first)) return false;
    }
    return true;
}

static int by_result(const void *a, const void *b) {
    const struct op_expr *x = a, *y = b;
    int w = dtype_bits(x->result) - dtype_bits(y->result);
    return w != 0                   ? w
           : x->result != y->result ? (int)x->result - (int)y->result
                                    : strcmp(x->text, y->text);
}

static struct op_group *new_group(struct case_list *l, int n_in, enum dtype a, enum dtype b,
                                  enum dtype c) {
    if (!grow(&l->group, &l->cap_groups, l->n_groups, sizeof *l->group)) return NULL;
    struct op_group *g = calloc(1, sizeof *g);
    if (g == NULL) return NULL;
    l->group[l->n_groups++] = g;
    g->n_in = n_in;
    g->in[0] = a;
    g->in[1] = b;
    g->in[2] = c;
    return g;
}

/* The places of a group, once its expressions are there. */
static bool place_group(struct case_list *l, struct op_group *g, bool everywhere) {
    static const enum op_place place[] = {PLACE_ALONE, PLACE_EPILOGUE, PLACE_A,
                                          PLACE_B,     PLACE_FLOAT_A,  PLACE_FLOAT_B};
    if (g->n == 0) return true;
    qsort(g->expr, (size_t)g->n, sizeof g->expr[0], by_result);
    if (!everywhere) return add_place(l, g, PLACE_ALONE);
    for (size_t i = 0; i < COUNT_OF(place); i++) {
        bool as_float = place[i] == PLACE_FLOAT_A || place[i] == PLACE_FLOAT_B;
        if (as_float && (dtype_cat(g->in[0]) != CAT_F || g->expr[0].kind != EXPR_ROW)) continue;
        if (!add_place(l, g, place[i])) return false;
    }
    bool read_across = g->n_in == 1 && (g->in[0] == DT_F32 || g->in[0] == DT_BF16 ||
                                        g->in[0] == DT_I8 || g->in[0] == DT_U4);
    return !read_across || add_place(l, g, PLACE_BT);
}

static bool wanted(enum op op, const char *row) {
    return row == NULL || strcmp(op_info(op)->name, row) == 0;
}

static bool single_group(struct case_list *l, enum dtype d, const char *row) {
    struct op_group *g = new_group(l, 1, d, DT_NONE, DT_NONE);
    if (g == NULL) return false;
    for (int op = OP_NONE + 1; op < OP_EW_END; op++)
        if (op_info((enum op)op)->arity == 1 && wanted((enum op)op, row)) add_unary(g, (enum op)op);
    return single_tuples(g) && place_group(l, g, true);
}

static bool cast_group(struct case_list *l, enum dtype d) {
    struct op_group *g = new_group(l, 1, d, DT_NONE, DT_NONE);
    if (g == NULL) return false;
    add_casts(g);
    return single_tuples(g) && place_group(l, g, true);
}

static bool pair_group(struct case_list *l, enum dtype d, const char *row, bool zerodiv) {
    struct op_group *g = new_group(l, 2, d, d, DT_NONE);
    if (g == NULL) return false;
    for (int op = OP_NONE + 1; op < OP_EW_END; op++) {
        const struct op_info *info = op_info((enum op)op);
        bool checked = (info->flags & OPF_ZERODIV) != 0 && !dtype_is_float(d);
        if (info->arity == 2 && checked == zerodiv && wanted((enum op)op, row))
            add_row(g, (enum op)op, "", 0, 0);
    }
    return product_tuples(g, N_PAIR, zerodiv) && place_group(l, g, true);
}

static bool triple_groups(struct case_list *l, enum dtype d, const char *row) {
    struct op_group *g = new_group(l, 3, d, d, d), *w = new_group(l, 3, d, d, DT_BOOL);
    if (g == NULL || w == NULL) return false;
    if (wanted(OP_CLAMP, row)) add_row(g, OP_CLAMP, "", 0, 0);
    if (row == NULL) add_where(w);
    return product_tuples(g, N_TRIPLE, false) && place_group(l, g, true) &&
           product_tuples(w, N_PAIR, false) && place_group(l, w, true);
}

/* Two dtypes: what the operands are converted to is the same for all operators of a rule. */
static bool mixed_group(struct case_list *l, enum dtype a, enum dtype b) {
    static const enum op op[] = {OP_ADD, OP_MAXIMUM,     OP_DIV,        OP_LT,
                                 OP_NE,  OP_LOGICAL_XOR, OP_BITWISE_OR, OP_SHIFT_LEFT};
    struct op_group *g = new_group(l, 3, a, b, DT_BOOL);
    if (g == NULL) return false;
    for (size_t i = 0; i < COUNT_OF(op); i++)
        add_row(g, op[i], "", 0, 0);
    add_where(g);
    return product_tuples(g, N_TRIPLE, false) && place_group(l, g, false);
}

bool cases_make(struct case_list *l, const char *row) {
    *l = (struct case_list){0};
    for (int i = DT_NONE + 1; i < DT_COUNT; i++) {
        enum dtype d = (enum dtype)i;
        if (!single_group(l, d, row) || !pair_group(l, d, row, false)) return false;
        if (!dtype_is_float(d) && !pair_group(l, d, row, true)) return false;
        if (!triple_groups(l, d, row)) return false;
        if (row == NULL && !cast_group(l, d)) return false;
        for (int k = DT_NONE + 1; k < DT_COUNT && row == NULL; k++)
            if (k != i && !mixed_group(l, d, (enum dtype)k)) return false;
    }
    return true;
}

void cases_free(struct case_list *l) {
    for (int i = 0; i < l->n_groups; i++) {
        free(l->group[i]->tuple);
        free(l->group[i]);
    }
    free(l->group);
    free(l->at);
}
