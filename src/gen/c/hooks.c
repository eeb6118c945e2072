/* SPDX-License-Identifier: MIT
 * Hooks by template: which fns go into which functions. What a function's body looks like is
 * emit.c's business; here stand the names, the parameters and the order.
 */
#include "gen/c/hooks.h"

#include "gen/c/fetch.h"
#include "gen/c/packs.h"
#include "gen/cuda/hooks.h"
#include "gen/cuda/product.h"

#include <string.h>

/* ---- parts --------------------------------------------------------------------------------- */

static void define(struct emit *e, const char *name, const char *value) {
    str_printf(e->out, "#define %s %s\n", name, value);
}

static void define_int(struct emit *e, const char *name, int v) {
    str_printf(e->out, "#define %s %d\n", name, v);
}

static const char *or_empty(const char *t) {
    return t != NULL ? t : "";
}

/* Text in the arena; "" when memory is out, which gen_c finds in the end. */
#define TEXT(e, ...) or_empty(arena_printf((e)->arena, __VA_ARGS__))

/* struct P_shape and P_get_shape for the named extents. */
static void shape(struct emit *e, const char *const *names, const sx *extents, int n) {
    str_printf(e->out, "struct %s_shape { pk_i64 ", e->prefix);
    for (int i = 0; i < n; i++)
        str_printf(e->out, "%s%s", i > 0 ? ", " : "", names[i]);
    str_printf(e->out,
               "; };\n%s struct %s_shape %s_get_shape(const struct pk_args *g)\n{\n"
               "    struct %s_shape s;\n    (void)g;\n",
               e->cuda ? "PK_D" : "PK_I", e->prefix, e->prefix, e->prefix);
    for (int i = 0; i < n; i++) {
        str_printf(e->out, "    s.%s = ", names[i]);
        emit_sx(e, extents[i], false, e->out);
        str_add(e->out, ";\n");
    }
    str_add(e->out, "    return s;\n}\n\n");
}

/* Coordinates that the parameter list does not have are 0 (c: cnt is 1). */
static void prologue(struct emit *e, const char *missing) {
    if (strchr(missing, 'c') != NULL) str_add(e->out, "    const int cnt = 1;\n");
    for (const char *p = missing; *p != '\0'; p++) {
        if (*p != 'c') str_printf(e->out, "    const pk_i64 %c = 0;\n", *p);
    }
    str_add(e->out, "    (void)g, (void)z, (void)m, (void)n, (void)k, (void)cnt;\n");
}

static void begin(struct emit *e, int stage, struct str *body) {
    str_init(body, e->out->alloc);
    emit_begin(e, stage, body);
}

/* The structure of what is kept for a row, or for a group of k. */
static void kept_struct(struct emit *e, const char *name, const char *extra) {
    bool of_group = strcmp(name, "group") == 0;
    const char *whole = TEXT(e, "%s_%s", e->hook, name);
    str_printf(e->out, "%s {\n%s", emit_struct(e, whole), extra);
    emit_fields(e, of_group, e->out);
    if (e->cuda) emit_fields_at(e, TEXT(e, "%s_%s", e->prefix, whole), of_group, e->out);
    str_add(e->out, "};\n\n");
}

/* static inline struct P_h_row P_h_row_init(g, PARAMS): fills the fields of the row's stage. */
static void row_init(struct emit *e, const char *params, const char *missing) {
    struct str body;
    str_init(&body, e->out->alloc);
    emit_stage(e, STAGE_ROW, &body);
    str_printf(e->out, "PK_I %s %s_%s_row_init(%s)\n{\n", emit_hook_type(e, "row"), e->prefix,
               e->hook, params);
    prologue(e, missing);
    str_printf(e->out, "    %s row = {%s}, *r = &row;\n    (void)r;\n", emit_hook_type(e, "row"),
               e->cuda ? "" : "0");
    str_add(e->out, emit_part(e, &body));
    str_add(e->out, "    return row;\n}\n\n");
    str_free(&body);
}

/* static inline LANE P_NAME(PARAMS): the lanes of f. */
void hooks_value(struct emit *e, const char *name, fn_id f, const char *lane, const char *params,
                 const char *missing) {
    struct str body;
    begin(e, STAGE_VALUE, &body);
    const char *v = emit_value(e, f);
    str_printf(e->out, "PK_I %s %s_%s(%s)\n{\n", lane, e->prefix, name, params);
    prologue(e, missing);
    if (e->has_row) str_add(e->out, "    (void)r;\n");
    str_add(e->out, emit_part(e, &body));
    str_printf(e->out, "    return (%s)%s;\n}\n\n", lane, v);
    str_free(&body);
}

/* static inline void P_NAME(PARAMS): all stores for which per_row is as given. */
static void store_function(struct emit *e, const char *name, const char *params,
                           const char *missing, bool per_row) {
    struct str body;
    begin(e, STAGE_VALUE, &body);
    for (size_t i = 0; i < e->k->stores.n; i++) {
        if (e->k->stores.at[i].per_row == per_row) emit_store(e, &e->k->stores.at[i]);
    }
    str_printf(e->out, "PK_I void %s_%s(%s)\n{\n", e->prefix, name, params);
    prologue(e, missing);
    if (e->has_row) str_add(e->out, "    (void)r;\n");
    str_add(e->out, emit_part(e, &body));
    str_add(e->out, "}\n\n");
    str_free(&body);
}

/* What a store's hook computes from: values, and look-ups in its place. */
static int store_roots(const struct kernel *k, fn_id *roots, int max) {
    int n = 0;
    for (size_t i = 0; i < k->stores.n && n < max; i++)
        roots[n++] = k->stores.at[i].f;
    return n;
}

#define MAX_ROOTS 64

/* ---- matmul
 * -------------------------------------------------------------------------------------- */

/* Lanes that accumulate: products of unsigned integers wrap alike, so they use signed lanes. */
const char *hooks_acc_lane(enum dtype d) {
    return lane_name(d == DT_U64 ? DT_I64 : d == DT_U32 ? DT_I32 : d);
}

/* What is the same for a group along k, and the value function that takes it. */
static void group_hook(struct emit *e, const char *hook, const char *o, const char *missing) {
    struct str body;
    kept_struct(e, "group", "");
    str_init(&body, e->out->alloc);
    emit_stage(e, STAGE_GROUP, &body);
    str_printf(e->out,
               "PK_I %s %s_%s_group_init(const struct pk_args *g, const %s *r, pk_i64 z, pk_i64 "
               "%s, pk_i64 k, int cnt)\n{\n",
               emit_hook_type(e, "group"), e->prefix, hook, emit_hook_type(e, "row"), o);
    prologue(e, missing);
    str_printf(e->out, "    %s group = {%s}, *q = &group;\n    (void)q, (void)r;\n",
               emit_hook_type(e, "group"), e->cuda ? "" : "0");
    str_add(e->out, emit_part(e, &body));
    str_add(e->out, "    return group;\n}\n\n");
    str_free(&body);
}

/* Hooks of operand `hook`, whose fn is f over (z, outer, k); o is the outer coordinate's letter. */
static void operand_hook(struct emit *e, const char *hook, fn_id f, sx outer, const char *o,
                         bool inner_axis, int group) {
    const char *missing = strcmp(o, "m") == 0 ? "n" : "m";
    bool aligned = inner_axis || (strcmp(hook, "a") != 0 && strcmp(hook, "t0") != 0);
    const struct packs *packs = e->packs;
    if (strcmp(hook, "a") == 0) e->packs = NULL;
    e->group = group;
    emit_hook(e, hook, inner_axis ? e->k->k : outer, e->k->k, aligned, &f, 1, true);
    kept_struct(e, "row", "");
    row_init(e, TEXT(e, "const struct pk_args *g, pk_i64 z, pk_i64 %s, int cnt", o),
             TEXT(e, "%sk", missing));
    if (group > 0) group_hook(e, hook, o, missing);
    const char *q = group > 0 ? TEXT(e, "const %s *q, ", emit_hook_type(e, "group")) : "";
    const char *params =
        TEXT(e, "const struct pk_args *g, const %s *r, %spk_i64 z, pk_i64 %s, pk_i64 k, int cnt",
             emit_hook_type(e, "row"), q, o);
    hooks_value(e, TEXT(e, "%s_value", hook), f, hooks_acc_lane(e->k->acc), params, missing);
    if (e->cuda) cuda_staged(e, f, outer, o, params, missing);
    e->group = 0;
    e->packs = packs;
}

/* Vectors along k unless the other axis needs fewer scattered loads. */
static bool along_k(struct emit *e, fn_id f, sx outer) {
    return emit_axis_cost(e, f, e->k->k) <= emit_axis_cost(e, f, outer);
}

/* One operand of the template: the fn, its outer coordinate, how it is read. */
struct operand {
    const char *hook;
    fn_id f;
    sx outer;
    const char *o;
    bool along_k;
    int group;
};

static struct operand operand_of(struct emit *e, const char *hook, fn_id f, bool is_a) {
    const struct kernel *k = e->k;
    if (e->cuda) e->W = is_a ? k->tile.cuda.a_lanes : k->tile.cuda.b_lanes;
    struct operand op = {hook, f, is_a ? k->m : k->n, is_a ? "m" : "n", false, 0};
    bool packed = e->packs != NULL && strcmp(hook, "a") != 0;
    op.along_k = !packed && (along_k(e, f, op.outer) || (e->cuda && cuda_only_along(e, f)));
    int unit = op.along_k ? e->W : 1;
    if (e->cuda && op.along_k && k->tile.cuda.pack_lanes > unit) unit = k->tile.cuda.pack_lanes;
    op.group = emit_group_size(e, f, k->k, unit);
    return op;
}

static void matmul_constants(struct emit *e, bool rows, const struct operand *a,
                             const struct operand *b, int n_b) {
    if (e->cuda) {
        const struct node *anchor = graph_node(e->g, e->k->anchor);
        cuda_product(e, n_b);
        cuda_operand(e, "A", a->f, a->along_k, a->group, e->k->tile.cuda.a_lanes);
        for (int i = 0; i < n_b; i++)
            cuda_operand(e, cuda_operand_name(b[i].hook), b[i].f, b[i].along_k, b[i].group,
                         e->k->tile.cuda.b_lanes);
        if (anchor->op == OP_MATMUL && anchor->attrs.flag) define_int(e, "MM_HIDES", 1);
        return;
    }
    const struct kernel *k = e->k;
    const struct tile *t = &k->tile;
    define(e, "MM_ACC", hooks_acc_lane(k->acc));
    define(e, "MM_ACC_S", scalar_name(k->acc == DT_U64 ? DT_I64 : k->acc));
    define(e, "MM_SUFFIX", hooks_acc_lane(k->acc));
    define_int(e, "MM_NB", n_b);
    define_int(e, "MM_A_AXIS", a->along_k);
    if (a->group > 0) define_int(e, "MM_A_GROUP", a->group);
    for (int i = 0; i < n_b; i++) {
        str_printf(e->out, "#define MM_B%d_AXIS %d\n", i, b[i].along_k);
        if (b[i].group > 0) str_printf(e->out, "#define MM_B%d_GROUP %d\n", i, b[i].group);
    }
    define_int(e, "MM_MR", rows ? t->rows_mr : t->mr);
    if (e->lays_out) define_int(e, "MM_PACKS", e->packs->n);
    if (e->packs != NULL) define_int(e, "MM_PANELS", 1);
    const struct node *anchor = graph_node(e->g, k->anchor);
    if (anchor->op == OP_MATMUL && anchor->attrs.flag) define_int(e, "MM_HIDES", t->swap ? 2 : 1);
    if (rows) {
        int64_t m;
        if (sx_is_const(e->sp, t->swap ? k->N : k->M, &m) && m > 0 && m <= t->rows_mr)
            define_int(e, "MM_M", (int)m);
        return;
    }
    int fetches = fetch_count(e, t->swap ? k->n : k->m, t->swap ? k->m : k->n);
    if (fetches > 0) define_int(e, "MM_C_FETCH", fetches);
    if (t->dots > 0) define_int(e, "MM_DOTS", t->dots);
    define_int(e, "MM_NV", t->nv);
    define_int(e, "MM_MC", t->mc);
    define_int(e, "MM_KC", t->kc);
    define_int(e, "MM_NC", t->nc);
    define(e, "MM_SHARE", "67108864");
    bool pack_a = k->prepack[k->tile.swap ? 1 : 0], pack_b = k->prepack[k->tile.swap ? 0 : 1];
    if (pack_b && !t->rows) define_int(e, "MM_B_CONST", 1);
    if (pack_a && !t->rows) define_int(e, "MM_A_CONST", 1);
}

/* Vectors of results run along the template's columns, which are rows when the roles are exchanged.
 */
static void matmul_store(struct emit *e) {
    e->packs = NULL;
    const struct kernel *k = e->k;
    bool swap = k->tile.swap;
    fn_id roots[MAX_ROOTS];
    int n = store_roots(k, roots, MAX_ROOTS);
    sx along = swap ? k->m : k->n;
    emit_hook(e, "c", along, along, true, roots, n, true);
    kept_struct(e, "row", "");
    row_init(e, TEXT(e, "const struct pk_args *g, pk_i64 z, pk_i64 %s", swap ? "n" : "m"),
             swap ? "mkc" : "nkc");
    struct str params;
    str_init(&params, e->out->alloc);
    str_printf(&params,
               "const struct pk_args *g, const %s *r, pk_i64 z, pk_i64 %s, pk_i64 %s, int "
               "cnt",
               emit_hook_type(e, "row"), swap ? "n" : "m", swap ? "m" : "n");
    for (int i = 0; i < k->n_b; i++)
        str_printf(&params, ", %s acc%d", hooks_acc_lane(k->acc), i);
    e->staged = e->cuda ? cuda_results(e) : NULL;
    if (e->staged != NULL) str_add(&params, staged_params(e, e->staged));
    store_function(e, "c_store", emit_part(e, &params), "k", false);
    e->staged = NULL;
    sx row = swap ? k->n : k->m;
    if (!e->cuda && fetch_needed(e, row, along))
        fetch_write(e, row, along, swap ? "n" : "m", swap ? "m" : "n");
    str_free(&params);
}

static void write_matmul(struct emit *e, bool rows) {
    static const char *const names[] = {"Z", "M", "N", "K"};
    static const char *const b_hooks[] = {"b0", "b1", "b2", "b3"};
    const struct kernel *k = e->k;
    bool swap = k->tile.swap;
    struct operand a = operand_of(e, "a", swap ? k->b[0] : k->a, !swap), b[MAX_B];
    for (int i = 0; i < k->n_b; i++)
        b[i] = operand_of(e, b_hooks[i], swap ? k->a : k->b[i], swap);
    fn_id term = rows || e->cuda ? 0 : packs_term(e, &a.f);
    fn_id factor = rows ? packs_factor(e, &b[0].f, b[0].group) : 0;
    matmul_constants(e, rows, &a, b, k->n_b);
    if (factor != 0) define_int(e, "MM_B0_FACTOR", 1);
    shape(e, names, (sx[]){k->Z, swap ? k->N : k->M, swap ? k->M : k->N, k->K}, 4);
    if (e->cuda) e->W = k->tile.cuda.a_lanes;
    operand_hook(e, a.hook, a.f, a.outer, a.o, a.along_k, a.group);
    if (term != 0) define_int(e, "MM_TERM", 1);
    if (e->cuda) e->W = k->tile.cuda.b_lanes;
    for (int i = 0; i < k->n_b; i++)
        operand_hook(e, b[i].hook, b[i].f, b[i].outer, b[i].o, b[i].along_k, b[i].group);
    if (term != 0) operand_hook(e, "t0", term, a.outer, a.o, false, 0);
    if (factor != 0) operand_hook(e, "f0", factor, b[0].outer, b[0].o, false, 0);
    if (e->cuda) e->W = k->tile.cuda.c_lanes;
    matmul_store(e);
    if (e->cuda) product_constants(e);
}

/* ---- pointwise
 * ----------------------------------------------------------------------------------- */

static void write_pointwise(struct emit *e) {
    static const char *const names[] = {"Z", "N"};
    const struct kernel *k = e->k;
    fn_id roots[MAX_ROOTS];
    if (e->cuda) {
        e->W = cuda_pointwise_lanes(e);
        define_int(e, "PW_W", e->W);
    }
    shape(e, names, (sx[]){k->Z, k->N}, 2);
    emit_hook(e, "c", k->n, k->n, true, roots, store_roots(k, roots, MAX_ROOTS), true);
    kept_struct(e, "row", "");
    row_init(e, "const struct pk_args *g, pk_i64 z", "mnkc");
    store_function(e, "c_store",
                   TEXT(e, "const struct pk_args *g, const %s *r, pk_i64 z, pk_i64 n, int cnt",
                        emit_hook_type(e, "row")),
                   "mk", false);
}

/* ---- reduction
 * ----------------------------------------------------------------------------------- */

static bool is_arg(enum op op) {
    return op == OP_ARGMAX || op == OP_ARGMIN;
}

static bool is_max(enum op op) {
    return op == OP_MAX || op == OP_ARGMAX;
}

static void identity(const struct kernel_pass *p, struct str *out) {
    bool extreme = p->op != OP_SUM && p->op != OP_PROD;
    enum dtype d = p->acc;
    if (!extreme) {
        str_printf(out, "pk_set_%s(%d)", lane_name(d), p->op == OP_PROD);
    } else if (dtype_is_float(d)) {
        str_printf(out, "pk_set_%s(%s%s__builtin_inf())", lane_name(d),
                   dtype_lane(d) == DT_F32 ? "(float)" : "", is_max(p->op) ? "-" : "");
    } else if (d == DT_BOOL) {
        str_printf(out, "pk_set_vi32(%d)", is_max(p->op) ? 0 : -1);
    } else if (d == DT_U64) {
        str_printf(out, "pk_set_vu64(%s)", is_max(p->op) ? "0" : "~0ULL");
    } else if (d == DT_I64) {
        str_printf(out, "pk_set_vi64(%s)",
                   is_max(p->op) ? "-9223372036854775807LL - 1" : "9223372036854775807LL");
    } else {
        int64_t lo, hi;
        dtype_int_range(d, &lo, &hi);
        str_printf(out, "pk_set_%s((%s)%lldLL)", lane_name(d), scalar_name(d),
                   (long long)(is_max(p->op) ? lo : hi));
    }
}

/* The same for the position of an extreme: NaN beats everything, and of equals the lower position
 * wins. A lane that has seen nothing has the highest position. */
static void take_in_position(const struct kernel_pass *p, int i, const char *x, const char *x_at,
                             struct str *out) {
    const char *lane = p->acc == DT_BOOL ? "vu32" : lane_name(p->acc);
    bool is_float = dtype_is_float(p->acc);
    str_printf(out, "    { const %s x_ = (%s)%s, a_ = (%s)a->a%d;\n", lane, lane, x, lane, i);
    if (is_float)
        str_printf(out, "      const vi32 xn = pk_isnan_%s(x_), an = pk_isnan_%s(a_);\n", lane,
                   lane);
    str_printf(out, "      const vi32 better = pk_%s_%s(x_, a_)%s;\n", is_max(p->op) ? "gt" : "lt",
               lane, is_float ? " | (xn & ~an)" : "");
    str_printf(out, "      const vi32 equal = pk_eq_%s(x_, a_)%s;\n", lane,
               is_float ? " | (xn & an)" : "");
    str_printf(out, "      const vi32 w = better | (equal & pk_lt_vi64(%s, a->at%d));\n", x_at, i);
    str_printf(out, "      a->a%d = pk_select_%s(w, %s, a->a%d);\n", i, lane_name(p->acc), x, i);
    str_printf(out, "      a->at%d = pk_select_vi64(w, %s, a->at%d); }\n", i, x_at, i);
}

/* Statement: accumulator `a` takes in x (and, for arg, the position x_at). */
static void take_in(const struct kernel_pass *p, int i, const char *x, const char *x_at,
                    struct str *out) {
    const char *lane = lane_name(p->acc);
    if (p->op == OP_SUM) {
        str_printf(out, "    a->a%d = a->a%d + %s;\n", i, i, x);
    } else if (p->op == OP_PROD) {
        str_printf(out, "    a->a%d = a->a%d * %s;\n", i, i, x);
    } else if (!is_arg(p->op)) {
        if (p->acc == DT_BOOL)
            str_printf(out, "    a->a%d = a->a%d %s %s;\n", i, i, is_max(p->op) ? "|" : "&", x);
        else
            str_printf(out, "    a->a%d = pk_%s_%s(a->a%d, %s);\n", i,
                       is_max(p->op) ? "max" : "min", lane, i, x);
    } else {
        take_in_position(p, i, x, x_at, out);
    }
}

/* at(l): the accumulators of one lane. */
static void acc_at(struct emit *e) {
    str_printf(e->out, "    PK_D_IN %s_acc<1> at(int l) const\n    {\n    %s_acc<1> one;\n",
               e->prefix, e->prefix);
    for (int i = 0; i < e->k->n_pass; i++) {
        str_printf(e->out, "    one.a%d = pk_at(a%d, l);\n", i, i);
        if (is_arg(e->k->pass[i].op)) str_printf(e->out, "    one.at%d = pk_at(at%d, l);\n", i, i);
    }
    str_add(e->out, "    return one;\n    }\n");
}

static void acc_struct(struct emit *e) {
    const struct kernel *k = e->k;
    str_printf(e->out, "%s {\n", emit_struct(e, "acc"));
    for (int i = 0; i < k->n_pass; i++) {
        str_printf(e->out, "    %s a%d;\n", lane_name(k->pass[i].acc), i);
        if (is_arg(k->pass[i].op)) str_printf(e->out, "    vi64 at%d;\n", i);
    }
    if (e->cuda) acc_at(e);
    str_printf(e->out, "};\n\nPK_I void %s_acc_init(%s *a)\n{\n", e->prefix, emit_type(e, "acc"));
    for (int i = 0; i < k->n_pass; i++) {
        str_printf(e->out, "    a->a%d = ", i);
        identity(&k->pass[i], e->out);
        str_add(e->out, ";\n");
        if (is_arg(k->pass[i].op))
            str_printf(e->out, "    a->at%d = pk_set_vi64(9223372036854775807LL);\n", i);
    }
    str_add(e->out, "}\n\n");
}

static void combine_functions(struct emit *e) {
    const struct kernel *k = e->k;
    const char *acc = emit_type(e, "acc");
    str_printf(e->out, "PK_I void %s_combine(%s *a, const %s *b, int level)\n{\n", e->prefix, acc,
               acc);
    for (int i = 0; i < k->n_pass; i++) {
        const char *xs = arena_printf(e->arena, "b->a%d", i);
        const char *ats = arena_printf(e->arena, "b->at%d", i);
        str_printf(e->out, "    if (level == %d) {\n", k->pass[i].level);
        take_in(&k->pass[i], i, xs != NULL ? xs : "", ats != NULL ? ats : "", e->out);
        str_add(e->out, "    }\n");
    }
    str_add(e->out, "}\n\n");
    if (e->cuda) return; /* lanes are combined one by one */
    str_printf(e->out, "PK_I void %s_rotate(%s *to, const %s *a, int by)\n{\n", e->prefix, acc,
               acc);
    for (int i = 0; i < k->n_pass; i++) {
        str_printf(e->out, "    to->a%d = pk_rotate_%s(a->a%d, by);\n", i,
                   lane_name(k->pass[i].acc), i);
        if (is_arg(k->pass[i].op))
            str_printf(e->out, "    to->at%d = pk_rotate_vi64(a->at%d, by);\n", i, i);
    }
    str_add(e->out, "}\n\n");
}

/* Lanes beyond cnt must not count when they run along k. */
static void step_pass(struct emit *e, int i, bool along, struct str *body) {
    const struct kernel_pass *p = &e->k->pass[i];
    const char *v = emit_value(e, p->f);
    const char *lane = lane_name(p->acc);
    str_printf(body, "    %s x%d = %s;\n", lane, i, v);
    if (along) {
        str_printf(body, "    if (cnt != PK_W) x%d = pk_select_%s(pk_mask_n(cnt), x%d, ", i, lane,
                   i);
        identity(p, body);
        str_add(body, ");\n");
    }
    const char *at = "";
    if (is_arg(p->op)) {
        at = arena_printf(e->arena, "x_at%d", i);
        str_printf(body, "    vi64 x_at%d = pk_set_vi64(k)%s;\n", i,
                   along ? " + pk_iota_vi64()" : "");
        if (along)
            str_printf(body,
                       "    if (cnt != PK_W) x_at%d = pk_select_vi64(pk_mask_n(cnt), x_at%d, "
                       "pk_set_vi64(9223372036854775807LL));\n",
                       i, i);
    }
    const char *x = arena_printf(e->arena, "x%d", i);
    take_in(p, i, x != NULL ? x : "", at != NULL ? at : "", body);
}

static void step_function(struct emit *e, int levels, bool along) {
    struct str whole;
    str_init(&whole, e->out->alloc);
    for (int level = 0; level < levels; level++) {
        struct str body;
        begin(e, STAGE_VALUE, &body);
        for (int i = 0; i < e->k->n_pass; i++) {
            if (e->k->pass[i].level == level) step_pass(e, i, along, &body);
        }
        str_printf(&whole, "    if (level == %d) {\n%s    }\n", level, emit_part(e, &body));
        str_free(&body);
    }
    str_printf(
        e->out,
        "PK_I void %s_step(const struct pk_args *g, const %s *r, %s *a, int level, pk_i64 z, "
        "pk_i64 k, int cnt)\n{\n",
        e->prefix, emit_hook_type(e, "row"), emit_type(e, "acc"));
    prologue(e, "mn");
    str_add(e->out, "    (void)r, (void)a, (void)level;\n");
    str_add(e->out, emit_part(e, &whole));
    str_add(e->out, "}\n\n");
    str_free(&whole);
}

static void finish_function(struct emit *e, int levels, bool along) {
    const struct kernel *k = e->k;
    struct str whole;
    str_init(&whole, e->out->alloc);
    for (int level = 0; level < levels; level++) {
        str_printf(&whole, "    if (level == %d) {\n", level);
        for (int i = 0; i < k->n_pass; i++) {
            const struct kernel_pass *p = &k->pass[i];
            if (p->level != level) continue;
            const char *field = is_arg(p->op) ? "at" : "a";
            const char *lane = is_arg(p->op) ? "vi64" : lane_name(p->acc);
            str_printf(&whole,
                       along ? "    r->acc%d = pk_set_%s(a->%s%d[0]);\n"
                             : "    r->acc%d = (%s)a->%s%d;\n",
                       i, lane, field, i);
        }
        emit_stage(e, level + 1, &whole);
        str_add(&whole, "    }\n");
    }
    str_printf(e->out,
               "PK_I void %s_finish(const struct pk_args *g, %s *r, const %s *a, int level, pk_i64 "
               "z, int cnt)\n{\n",
               e->prefix, emit_hook_type(e, "row"),
               e->cuda ? TEXT(e, "%s_acc<1>", e->prefix) : emit_type(e, "acc"));
    prologue(e, "mnk");
    str_add(e->out, "    (void)a, (void)level;\n");
    str_add(e->out, emit_part(e, &whole));
    str_add(e->out, "}\n\n");
    str_free(&whole);
}

static void reduction_row(struct emit *e) {
    const struct kernel *k = e->k;
    struct str fields, body;
    str_init(&fields, e->out->alloc);
    for (int i = 0; i < k->n_pass; i++) {
        str_printf(&fields, "    %s acc%d;\n",
                   is_arg(k->pass[i].op) ? "vi64" : lane_name(k->pass[i].acc), i);
    }
    kept_struct(e, "row", emit_part(e, &fields));
    str_free(&fields);
    str_init(&body, e->out->alloc);
    emit_stage(e, STAGE_ROW, &body);
    str_printf(e->out,
               "PK_I void %s_row_init(const struct pk_args *g, %s *r, pk_i64 z, int cnt)\n{\n",
               e->prefix, emit_hook_type(e, "row"));
    prologue(e, "mnk");
    str_add(e->out, "    (void)r;\n");
    str_add(e->out, emit_part(e, &body));
    str_add(e->out, "}\n\n");
    str_free(&body);
}

bool hooks_reduction_along(struct emit *e) {
    const struct kernel *k = e->k;
    int cost_k = 0, cost_z = 0, lanes = e->W;
    if (e->cuda) e->W = 4; /* whatever hook was written before */
    for (int i = 0; i < k->n_pass; i++) {
        cost_k += emit_axis_cost(e, k->pass[i].f, k->k);
        cost_z += emit_axis_cost(e, k->pass[i].f, k->z);
    }
    e->W = lanes;
    return cost_k <= cost_z;
}

static void write_reduction(struct emit *e) {
    static const char *const names[] = {"Z", "K"};
    const struct kernel *k = e->k;
    int levels = 0, acc_level[MAX_PASSES];
    bool elements = false;
    fn_id roots[MAX_ROOTS];
    int n = store_roots(k, roots, MAX_ROOTS - MAX_PASSES);
    for (size_t i = 0; i < k->stores.n; i++)
        elements = elements || !k->stores.at[i].per_row;
    for (int i = 0; i < k->n_pass; i++) {
        const struct kernel_pass *p = &k->pass[i];
        if (p->level + 1 > levels) levels = p->level + 1;
        acc_level[i] = p->level;
        roots[n++] = p->f;
    }
    bool along = hooks_reduction_along(e);
    if (e->cuda) {
        struct cuda_rows rows = cuda_reduction_rows(e, along);
        e->W = along ? 4 : 1;
        define_int(e, "RD_W", e->W);
        define_int(e, "RD_WARPS", rows.warps);
        define_int(e, "RD_ROWS", rows.rows);
    }
    define_int(e, "RD_AXIS", along);
    define_int(e, "RD_LEVELS", levels);
    define_int(e, "RD_ELEMENTS", elements);
    shape(e, names, (sx[]){k->Z, k->K}, 2);
    e->acc_level = acc_level;
    e->n_acc = k->n_pass;
    emit_hook(e, "c", along ? k->k : k->z, k->k, true, roots, n, true);
    reduction_row(e);
    acc_struct(e);
    combine_functions(e);
    step_function(e, levels, along);
    finish_function(e, levels, along);
    store_function(e, "row_store",
                   TEXT(e, "const struct pk_args *g, const %s *r, pk_i64 z, int cnt",
                        emit_hook_type(e, "row")),
                   "mnk", true);
    store_function(e, "element_store",
                   TEXT(e,
                        "const struct pk_args *g, const %s *r, pk_i64 z, pk_i64 k, "
                        "int cnt",
                        emit_hook_type(e, "row")),
                   "mn", false);
    e->acc_level = NULL;
    e->n_acc = 0;
}

/* ---- scatter, scan, sort
 * ------------------------------------------------------------------------- */

/* A function without a row: (g, z, COORD, cnt). */
static void plain_function(struct emit *e, const char *name, fn_id f, const char *lane,
                           const char *coord, const char *missing) {
    hooks_value(e, name, f, lane,
                TEXT(e, "const struct pk_args *g, pk_i64 z, pk_i64 %s, int cnt", coord), missing);
}

static void write_scatter(struct emit *e) {
    static const char *const names[] = {"Z", "K", "N"};
    const struct kernel *k = e->k;
    enum dtype d = graph_value(e->g, k->stores.at[0].value)->dtype;
    if (e->cuda) e->W = 1;
    define(e, "SC_ACC", e->cuda ? scalar_name(d) : lane_name(d));
    if (!e->cuda) define(e, "SC_ACC_S", scalar_name(d));
    define_int(e, "SC_ADD", k->add);
    define_int(e, "SC_UNIFORM", !fn_depends(e->fns, k->index, k->z));
    shape(e, names, (sx[]){k->Z, k->K, k->N}, 3);
    emit_hook(e, "line", k->z, k->z, true, NULL, 0, false);
    plain_function(e, "base", k->base, lane_name(d), "k", "mn");
    plain_function(e, "index", k->index, "vi64", "n", "mk");
    plain_function(e, "src", k->src, lane_name(d), "n", "mk");
    store_function(
        e, "store",
        TEXT(e, "const struct pk_args *g, pk_i64 z, pk_i64 k, int cnt, %s acc0", lane_name(d)),
        "mn", false);
}

static void write_scan(struct emit *e) {
    static const char *const names[] = {"Z", "K"};
    const struct kernel *k = e->k;
    if (e->cuda) e->W = 1;
    define(e, "SN_ACC", e->cuda ? scalar_name(k->acc) : lane_name(k->acc));
    shape(e, names, (sx[]){k->Z, k->K}, 2);
    emit_hook(e, "line", k->z, k->z, true, NULL, 0, false);
    plain_function(e, "src", k->src, lane_name(k->acc), "k", "mn");
    store_function(
        e, "store",
        TEXT(e, "const struct pk_args *g, pk_i64 z, pk_i64 k, int cnt, %s acc0", lane_name(k->acc)),
        "mn", false);
}

static void write_sort(struct emit *e) {
    static const char *const names[] = {"Z", "K", "N"};
    const struct kernel *k = e->k;
    if (e->cuda) e->W = 1;
    define(e, "ST_ACC", e->cuda ? scalar_name(k->acc) : lane_name(k->acc));
    if (!e->cuda) define(e, "ST_ACC_S", scalar_name(k->acc));
    define_int(e, "ST_DESCENDING", k->descending);
    if (dtype_is_float(k->acc))
        define(e, "ST_LESS(a, b)", "((a) < (b) || ((b) != (b) && (a) == (a)))");
    else if (k->acc == DT_BOOL)
        define(e, "ST_LESS(a, b)", "((unsigned)(a) < (unsigned)(b))");
    else
        define(e, "ST_LESS(a, b)", "((a) < (b))");
    shape(e, names, (sx[]){k->Z, k->K, k->N}, 3);
    emit_hook(e, "line", k->k, k->k, true, NULL, 0, false);
    plain_function(e, "src", k->src, lane_name(k->acc), "k", "mn");
    store_function(e, "store",
                   TEXT(e,
                        "const struct pk_args *g, pk_i64 z, pk_i64 k, int cnt, %s acc0, vi64 acc1",
                        lane_name(k->acc)),
                   "mn", false);
}

/* ---- checks
 * -------------------------------------------------------------------------------------- */

static void check_test(struct emit *e, const struct plan_check *c, struct str *out) {
    if (c->kind == CHECK_NONZERO) {
        str_add(out, "x == 0");
    } else if (c->kind == CHECK_INDEX) {
        str_add(out, "x < -bound || x >= bound");
    } else {
        str_add(out, "x < last || x > bound");
    }
    (void)e;
}

static void check_loop(struct emit *e, const struct plan_check *c, int number) {
    struct kernel space = *e->k; /* the checked value has a coordinate of its own */
    const struct kernel *old = e->k;
    space.z = space.m = space.k = 0;
    space.n = c->n;
    e->k = &space;
    emit_hook(e, TEXT(e, "check%d", number), c->n, c->n, true, NULL, 0, false);
    if (e->cuda) {
        const char *name = TEXT(e, "check%d_value", number);
        struct str test;
        str_init(&test, e->out->alloc);
        check_test(e, c, &test);
        hooks_value(e, name, c->f, lane_name(fn_get(e->fns, c->f)->dtype),
                    "const struct pk_args *g, pk_i64 n, int cnt", "zmk");
        cuda_check(e, c, number, emit_part(e, &test));
        str_free(&test);
        e->k = old;
        return;
    }
    struct str body;
    begin(e, STAGE_VALUE, &body);
    const char *v = emit_value(e, c->f);
    str_printf(e->out, "static int %s_check%d(const struct pk_args *g, struct pk_fault *f)\n{\n",
               e->prefix, number);
    str_add(e->out, "    const pk_i64 z = 0, m = 0, k = 0, count = ");
    emit_sx(e, c->N, false, e->out);
    str_add(e->out, ", bound = ");
    emit_sx(e, c->bound, false, e->out);
    str_add(e->out,
            ";\n    pk_i64 last = 0;\n    (void)z, (void)m, (void)k, (void)bound, (void)last;\n"
            "    for (pk_i64 n = 0; n < count; n += PK_W) {\n"
            "    const int cnt = count - n < PK_W ? (int)(count - n) : PK_W;\n");
    str_add(e->out, emit_part(e, &body));
    str_printf(e->out,
               "    for (int l = 0; l < cnt; l++) {\n        const pk_i64 x = (pk_i64)%s[l];\n"
               "        if (",
               v);
    check_test(e, c, e->out);
    str_printf(
        e->out,
        ") {\n            f->check = %d;\n            f->index = n + l;\n            f->value "
        "= x;\n            f->bound = bound;\n            return 1;\n        }\n        last "
        "= x;\n    }\n    }\n    return 0;\n}\n\n",
        number);
    str_free(&body);
    e->k = old;
}

enum proem_status hooks_checks(struct emit *e, struct err *err) {
    const struct kernel *k = e->k;
    for (size_t i = 0; i < k->checks.n; i++) {
        if (e->cuda) e->W = 1;
        check_loop(e, &e->plan->checks.at[k->checks.at[i]], (int)i);
    }
    if (e->cuda) return e->out->failed ? err_nomem(err) : PROEM_OK;
    str_printf(e->out,
               "static int %s_check(const struct pk_args *g, struct pk_fault *f)\n{\n    return ",
               e->prefix);
    for (size_t i = 0; i < k->checks.n; i++) {
        str_printf(e->out, "%s%s_check%zu(g, f)", i > 0 ? " || " : "", e->prefix, i);
    }
    str_add(e->out, ";\n}\n\n");
    return e->out->failed ? err_nomem(err) : PROEM_OK;
}

enum proem_status hooks_write(struct emit *e, bool few_rows, const char **template_file,
                              struct err *err) {
    bool cuda = e->cuda;
    switch (e->k->kind) {
    case KERNEL_MATMUL:
        write_matmul(e, few_rows);
        *template_file = cuda       ? cuda_template(&e->k->tile)
                         : few_rows ? "matmul_rows.c"
                                    : "matmul.c";
        break;
    case KERNEL_POINTWISE:
        write_pointwise(e);
        *template_file = cuda ? "pointwise.cu" : "pointwise.c";
        break;
    case KERNEL_REDUCTION:
        write_reduction(e);
        *template_file = cuda ? "reduction.cu" : "reduction.c";
        break;
    case KERNEL_SCATTER:
        write_scatter(e);
        *template_file = cuda ? "scatter.cu" : "scatter.c";
        break;
    case KERNEL_SCAN:
        write_scan(e);
        *template_file = cuda ? "scan.cu" : "scan.c";
        break;
    case KERNEL_SORT:
        write_sort(e);
        *template_file = cuda ? "sort.cu" : "sort.c";
        break;
    }
    return e->out->failed || !arena_ok(e->arena) ? err_nomem(err) : PROEM_OK;
}
