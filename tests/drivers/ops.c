/* SPDX-License-Identifier: MIT
 * ops [JOBS=2] [BATCH=24] [ARCH=avx2] [CC=gcc] [OPT=-Og] [ROW=exp] [SHOW=20]
 *
 * Every row of ops.def, and where, cast and bitcast, compiled and run: alone, as the prologue of a
 * matmul on A, on B and on a transposed B, and as its epilogue, for each dtype that the row admits,
 * against the reference functions (ops/ref.c, ops/convert.c).
 *
 * A prologue is read out bit for bit through an integer product with the identity: A is
 * bitcast(op(x)), so that a NaN stays where it is and every bit counts. The same for floats, with
 * what is not finite replaced by 0. Many operators share a kernel: one row of A each.
 *
 * Integers and bools must be equal; a float must lie, rounded to its dtype, within the row's ulp of
 * the exact value. The last lines are a table of the largest errors and `N passed, N failed`.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ops_cases.h"

#define K_INNER 32

struct settings {
    int jobs, batch, show;
    const char *arch, *cc, *opt, *row;
};

struct ops {
    struct settings o;
    struct case_list cases;
    struct errors {
        double f32, f64; /* in ulp */
    } * worst;           /* by case and expression; shared with the children */
    int passed, failed, skipped;
};

/* ---- graph text ------------------------------------------------------------------------------ */

static const char *const operand_name[] = {"x", "y", "z"};

/* The integer in which the bits of a prologue's result go through a product. */
static const char *carrier(enum dtype d) {
    switch (dtype_bits(d)) {
    case 2: return "i2";
    case 4: return "i4";
    case 16: return "i16";
    case 32: return "i32";
    case 64: return "i64";
    default: return "i8";
    }
}

static void print_bits(struct str *s, const struct op_expr *e) {
    const char *as = carrier(e->result);
    if (e->result == DT_BOOL)
        str_printf(s, "cast(%s, i8)", e->text);
    else if (strcmp(dtype_name(e->result), as) == 0)
        str_add(s, e->text);
    else
        str_printf(s, "bitcast(%s, %s)", e->text, as);
}

static double finite_limit(enum dtype d) {
    return d == DT_F16 ? 3e4 : 1e30;
}

/* Row i of A is expression i: nested choices by `sel`. */
static void print_choice(struct str *s, const struct op_case *c, bool bits) {
    for (int i = 0; i < c->n; i++) {
        const struct op_expr *e = &c->group->expr[c->first + i];
        if (i + 1 < c->n) str_printf(s, "where(sel == %d, ", i);
        if (bits)
            print_bits(s, e);
        else
            str_printf(s, "where(abs(%s) < %g, %s, 0.0)", e->text, finite_limit(e->result),
                       e->text);
        if (i + 1 < c->n) str_add(s, ", ");
    }
    for (int i = 0; i + 1 < c->n; i++)
        str_add(s, ")");
}

/* Parameters for the operands, all but `skip`. */
static void print_params(struct str *s, const struct op_case *c, const char *shape, int skip) {
    str_add(s, "graph g(");
    for (int i = 0; i < c->group->n_in; i++)
        if (i != skip)
            str_printf(s, "%s%s: %s[%s]", i > skip + 1 ? ", " : "", operand_name[i],
                       dtype_name(c->group->in[i]), shape);
}

static void print_prologue(struct str *s, const struct op_case *c) {
    const struct op_expr *e = &c->group->expr[c->first];
    bool bits = c->place == PLACE_A || c->place == PLACE_B || c->place == PLACE_BT;
    bool on_a = c->place == PLACE_A || c->place == PLACE_FLOAT_A;
    const char *eye = bits ? carrier(e->result) : dtype_name(e->result);
    char shape[64], sel[64];
    if (on_a || c->place == PLACE_BT) {
        snprintf(shape, sizeof shape, "%d, %d", c->lines, K_INNER);
        snprintf(sel, sizeof sel, "%d, 1", c->lines);
    } else {
        snprintf(shape, sizeof shape, "%d, %d", K_INNER, c->lines);
        snprintf(sel, sizeof sel, "1, %d", c->lines);
    }
    print_params(s, c, shape, -1);
    str_printf(s, ", sel: i32[%s], eye: %s[%d, %d]) {\n  return matmul(", sel, eye, K_INNER,
               K_INNER);
    if (!on_a) str_add(s, c->place == PLACE_BT ? "eye, transpose(" : "eye, ");
    print_choice(s, c, bits);
    str_add(s, on_a ? ", eye)\n}\n" : c->place == PLACE_BT ? "))\n}\n" : ")\n}\n");
}

/* Operand x of the group is a product with a column of ones. */
static void print_acc(struct str *s, enum dtype d, int m, int n, const char *name) {
    const char *t = dtype_name(d), *one = dtype_bits(d) <= 8 ? "i8" : t, *x = t;
    if (dtype_cat(d) == CAT_Q) one = x = "f32";
    if (d == DT_BOOL) x = "i8";
    str_printf(s, "one: %s[%d, 1], acc: %s[1, %d]) {\n  %s = ", one, m, x, n, name);
    if (d == DT_BOOL)
        str_add(s, "matmul(one, acc) != 0\n");
    else if (dtype_bits(d) <= 8)
        str_printf(s, "cast(matmul(one, acc), %s)\n", t);
    else
        str_add(s, "matmul(one, acc)\n");
}

static void print_results(struct str *s, const struct op_case *c) {
    for (int i = 0; i < c->n; i++)
        str_printf(s, "  r%d = %s\n", i, c->group->expr[c->first + i].text);
    str_add(s, "  return ");
    for (int i = 0; i < c->n; i++)
        str_printf(s, "%sr%d", i > 0 ? ", " : "", i);
    str_add(s, "\n}\n");
}

static void print_case(struct str *s, const struct op_case *c) {
    const struct op_group *g = c->group;
    char shape[64];
    if (c->place == PLACE_ALONE) {
        snprintf(shape, sizeof shape, "%d", c->n_tuples);
        print_params(s, c, shape, -1);
        str_add(s, ") {\n");
        print_results(s, c);
    } else if (c->place == PLACE_EPILOGUE) {
        snprintf(shape, sizeof shape, "%d, %d", c->lines, c->n_tuples / c->lines);
        print_params(s, c, shape, 0);
        if (g->n_in > 1) str_add(s, ", ");
        print_acc(s, g->in[0], c->lines, c->n_tuples / c->lines, operand_name[0]);
        print_results(s, c);
    } else {
        print_prologue(s, c);
    }
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static union scalar number(enum dtype d, int v) {
    return dtype_is_float(d) ? (union scalar){.f = v} : (union scalar){.i = v};
}

/* Line and place in the line of a prologue's element, whichever way it lies in memory. */
static void prologue_place(const struct op_case *c, int64_t at, int *line, int *k) {
    if (c->place == PLACE_B || c->place == PLACE_FLOAT_B) {
        *line = (int)(at % c->lines);
        *k = (int)(at / c->lines);
    } else {
        *line = (int)(at / K_INNER);
        *k = (int)(at % K_INNER);
    }
}

/* The tuple of values at a place of the iteration space. */
static int tuple_at(const struct op_case *c, int64_t at) {
    if (c->place == PLACE_EPILOGUE && c->group->n_in == 1) return (int)(at % c->group->n_fast);
    if (c->place == PLACE_ALONE || c->place == PLACE_EPILOGUE) return (int)at;
    int line, k;
    prologue_place(c, at, &line, &k);
    int t = line / c->n * K_INNER + k;
    return t < c->n_tuples ? t : 0;
}

static void fill_inputs(struct subject *s, const struct op_case *c) {
    for (size_t i = 0; i < s->g->params.n; i++) {
        const char *name = graph_value(s->g, s->g->params.at[i].value)->name;
        struct guarded *t = &s->in[i];
        for (int64_t j = 0; j < t->count; j++) {
            union scalar v = number(t->dtype, 1);
            if (strcmp(name, "eye") == 0) {
                v = number(t->dtype, j / K_INNER == j % K_INNER);
            } else if (strcmp(name, "sel") == 0) {
                v.i = j % c->n;
            } else if (strcmp(name, "acc") == 0) {
                v = c->group->tuple[j].v[0];
            } else if (strlen(name) == 1) {
                v = c->group->tuple[tuple_at(c, j)].v[name[0] - 'x'];
            }
            elem_store(t->dtype, t->data, j, v);
        }
    }
}

/* ---- results --------------------------------------------------------------------------------- */

static int64_t order64(double v) {
    int64_t i;
    memcpy(&i, &v, sizeof i);
    return i < 0 ? INT64_MIN - i - 1 : i; /* -0 is beside 0 */
}

static double ulps64(double a, double b) {
    int64_t x = order64(a), y = order64(b);
    return x > y ? (double)((uint64_t)x - (uint64_t)y) : (double)((uint64_t)y - (uint64_t)x);
}

/* The distance of f32 values at v. */
static double ulp32(double v) {
    int e;
    frexp(v, &e);
    if (v == 0 || e < -125) e = -125;
    return ldexp(1.0, (e > 128 ? 128 : e) - 24);
}

struct expected {
    enum dtype result;
    union scalar v; /* exact in double for floats */
    double ulp;     /* of the row */
    bool arith;     /* computed, so not already a value of the dtype */
    bool sign_of_zero, any_nan;
};

static bool same_bits(enum dtype d, union scalar a, union scalar b) {
    if (dtype_is_float(d) && (isnan(a.f) || isnan(b.f))) return isnan(a.f) && isnan(b.f);
    return elem_bits(d, a) == elem_bits(d, b);
}

static bool matches(const struct expected *want, union scalar got, struct errors *worst) {
    enum dtype d = want->result;
    if (want->any_nan) return true;
    if (!dtype_is_float(d) || !want->arith) return same_bits(d, got, want->v);
    double exact = want->v.f;
    if (isnan(exact) || isnan(got.f)) return isnan(exact) && isnan(got.f);
    if (d == DT_F64) {
        bool other_zero = got.f == 0 && exact == 0 && !want->sign_of_zero;
        double u = other_zero ? 0 : ulps64(got.f, exact);
        if (got.f == 0 && exact == 0 && u != 0) return false;
        bool near = u <= (want->ulp == 0 ? 0 : want->ulp > 8 ? want->ulp : 8);
        if (near && u > worst->f64) worst->f64 = u;
        return near;
    }
    double u = ulp32(exact), tol = (want->ulp == 0 ? 0.5 + 1e-6 : want->ulp) * u;
    double lo = isinf(exact) ? exact : exact - tol, hi = isinf(exact) ? exact : exact + tol;
    union scalar low = {.f = float_round(d, lo, false)}, high = {.f = float_round(d, hi, false)};
    if (got.f == 0 && want->sign_of_zero && !(lo < 0 && hi > 0) &&
        (signbit(got.f) != 0) != (signbit(exact) != 0))
        return false;
    if (!(low.f <= got.f && got.f <= high.f)) return false;
    if (d == DT_F32 && isfinite(exact) && isfinite(got.f))
        worst->f32 = fmax(worst->f32, fabs(got.f - exact) / u);
    return true;
}

static struct expected expect(const struct op_group *g, const struct op_expr *e,
                              const union scalar *in) {
    struct expected x = {.result = e->result};
    switch (e->kind) {
    case EXPR_ROW: {
        union scalar v[3];
        for (int i = 0; i < e->n_args; i++)
            v[i] = e->rule == RULE_LOGIC ? elem_cast(g->in[i], in[i], DT_BOOL, false)
                                         : elem_cast(g->in[i], in[i], e->compute, false);
        x.v = op_ref(e->op, e->compute, v, e->param);
        x.ulp = op_info(e->op)->ulp;
        x.arith = true;
        break;
    }
    case EXPR_CAST: x.v = elem_cast(g->in[0], in[0], e->result, e->saturate); break;
    case EXPR_BITCAST: x.v = elem_from_bits(e->result, elem_bits(g->in[0], in[0])); break;
    case EXPR_WHERE: {
        int i = in[2].i != 0 ? 0 : 1;
        x.v = elem_cast(g->in[i], in[i], e->result, false);
        break;
    }
    }
    return x;
}

static void describe(const struct op_case *c, const struct op_expr *e, const union scalar *in,
                     union scalar want, union scalar got, char *out, size_t n) {
    int used = snprintf(out, n, "%s %s:", place_name(c->place), e->text);
    for (int i = 0; i < c->group->n_in && used > 0 && (size_t)used < n; i++) {
        enum dtype d = c->group->in[i];
        if (dtype_is_float(d))
            used += snprintf(out + used, n - (size_t)used, " %s=%s(%.17g)", operand_name[i],
                             dtype_name(d), in[i].f);
        else
            used += snprintf(out + used, n - (size_t)used, " %s=%s(%lld)", operand_name[i],
                             dtype_name(d), (long long)in[i].i);
    }
    if (used < 0 || (size_t)used >= n) return;
    if (dtype_is_float(e->result))
        snprintf(out + used, n - (size_t)used, " gives %s %.17g, not %.17g", dtype_name(e->result),
                 got.f, want.f);
    else
        snprintf(out + used, n - (size_t)used, " gives %s %lld, not %lld", dtype_name(e->result),
                 (long long)got.i, (long long)want.i);
}

/* The value that a product with the identity handed through. */
static union scalar handed(const struct op_expr *e, enum dtype out, union scalar v) {
    if (e->result == DT_BOOL) return (union scalar){.i = v.i != 0};
    (void)out;
    return elem_from_bits(e->result, (uint64_t)v.i);
}

static bool check_at(const struct op_case *c, int i, const union scalar *in, union scalar got,
                     struct errors *worst, char *why, size_t n) {
    const struct op_group *g = c->group;
    const struct op_expr *e = &g->expr[c->first + i];
    struct expected want = expect(g, e, in);
    /* what was computed as a NaN is no certain one */
    want.any_nan = e->kind == EXPR_BITCAST && c->place == PLACE_EPILOGUE && isnan(in[0].f) &&
                   dtype_is_float(g->in[0]);
    want.sign_of_zero = true;
    bool as_float = c->place == PLACE_FLOAT_A || c->place == PLACE_FLOAT_B;
    if (as_float) {
        double size = fabs(want.v.f), limit = finite_limit(e->result);
        if (size > limit * 0.9 && size < limit * 1.1) return true;
        if (!(size < limit)) want.v.f = 0;
        want.sign_of_zero = false; /* a sum that began with 0 has no -0 */
    }
    bool ok = matches(&want, got, worst);
    if (!ok && c->place == PLACE_EPILOGUE && dtype_is_float(g->in[0]) && in[0].f == 0) {
        union scalar plus[3];
        memcpy(plus, in, sizeof plus);
        plus[0].f = 0.0;
        struct expected other = expect(g, e, plus);
        other.sign_of_zero = true;
        ok = matches(&other, got, worst);
    }
    if (!ok) describe(c, e, in, want.v, got, why, n);
    return ok;
}

static int64_t n_points(const struct op_case *c) {
    bool flat = c->place == PLACE_ALONE || c->place == PLACE_EPILOGUE;
    return flat ? c->n_tuples : (int64_t)c->lines * K_INNER;
}

/* All elements of a run; the number that are wrong. */
static int check_results(const struct ops *t, int number_of_case, const struct variant *v,
                         char *why, size_t n) {
    const struct op_case *c = &t->cases.at[number_of_case];
    bool flat = c->place == PLACE_ALONE || c->place == PLACE_EPILOGUE;
    bool bits = c->place == PLACE_A || c->place == PLACE_B || c->place == PLACE_BT;
    int wrong = 0;
    for (int64_t at = 0; at < n_points(c); at++) {
        const union scalar *in = c->group->tuple[tuple_at(c, at)].v;
        int line = 0, k = 0;
        if (!flat) prologue_place(c, at, &line, &k);
        for (int i = flat ? 0 : line % c->n; i < (flat ? c->n : line % c->n + 1); i++) {
            const struct guarded *out = &v->out[flat ? i : 0];
            int64_t where = c->place == PLACE_BT ? (int64_t)k * c->lines + line : at;
            union scalar got = elem_load(out->dtype, out->data, where);
            if (bits) got = handed(&c->group->expr[c->first + i], out->dtype, got);
            char text[400];
            if (check_at(c, i, in, got, &t->worst[number_of_case * MAX_CASE + i], text,
                         sizeof text))
                continue;
            if (wrong++ == 0) snprintf(why, n, "%.399s", text);
        }
    }
    return wrong;
}

/* ---- a batch --------------------------------------------------------------------------------- */

struct batch_item {
    struct str text;
    struct subject s;
    struct variant v;
    bool open;
};

/* A bitcast to another dtype reads its operand from memory. */
static bool reads_stored_bits(const struct op_case *c) {
    bool any = false;
    for (int i = 0; i < c->n; i++)
        any = any || c->group->expr[c->first + i].kind == EXPR_BITCAST;
    return any && c->place == PLACE_EPILOGUE;
}

static void open_item(struct ops *t, int i, struct batch_item *b, struct rig *r,
                      struct outcome *o) {
    struct err e;
    err_clear(&e);
    const struct op_case *c = &t->cases.at[i];
    str_init(&b->text, &allocator_default);
    print_case(&b->text, c);
    o->state = OUTCOME_FAILED;
    if (subject_open(&b->s, str_text(&b->text), NULL, 0, 1, FILL_SMALL, &e) != PROEM_OK) {
        snprintf(o->text, sizeof o->text, "%.200s in\n%.300s", e.text, str_text(&b->text));
        return;
    }
    b->open = true;
    fill_inputs(&b->s, c);
    if (variant_plan(&b->v, &b->s, PREC_BOUNDARY, FUSE_ALWAYS, r) != PROEM_OK) {
        snprintf(o->text, sizeof o->text, "plan: %.200s in\n%.300s", b->v.err.text,
                 str_text(&b->text));
        return;
    }
    if (b->v.plan.kernels.n != 1 && !reads_stored_bits(c)) {
        snprintf(o->text, sizeof o->text, "%d kernels for\n%.500s", (int)b->v.plan.kernels.n,
                 str_text(&b->text));
        return;
    }
    o->state = OUTCOME_NONE;
}

static void run_item(struct ops *t, int i, struct batch_item *b, struct rig *r, struct outcome *o) {
    char why[400] = "";
    o->state = OUTCOME_FAILED;
    if (variant_run(r, &b->v) != PROEM_OK) {
        snprintf(o->text, sizeof o->text, "run: %.200s in\n%.300s", b->v.err.text,
                 str_text(&b->text));
        return;
    }
    int wrong = check_results(t, i, &b->v, why, sizeof why);
    if (wrong == 0)
        o->state = OUTCOME_PASSED;
    else
        snprintf(o->text, sizeof o->text, "%d wrong: %s", wrong, why);
}

static void batch_body(void *user, int first, int count, volatile int *at, struct outcome *out) {
    struct ops *t = user;
    struct rig r;
    struct err e;
    err_clear(&e);
    struct rig_options ro = {
        .threads = 2, .arch = t->o.arch, .compiler = t->o.cc, .optimize = t->o.opt};
    struct batch_item *b = calloc((size_t)count, sizeof *b);
    struct variant **v = calloc((size_t)count, sizeof(struct variant *));
    if (b == NULL || v == NULL || rig_open(&r, &ro, &e) != PROEM_OK) exit(3);
    int n = 0;
    for (int i = 0; i < count; i++) {
        *at = first + i;
        if (out[first + i].state != OUTCOME_NONE) continue;
        open_item(t, first + i, &b[i], &r, &out[first + i]);
        if (out[first + i].state == OUTCOME_NONE) v[n++] = &b[i].v;
    }
    *at = -1;
    variants_compile(&r, v, n);
    for (int i = 0; i < count; i++) {
        *at = first + i;
        if (out[first + i].state == OUTCOME_NONE)
            run_item(t, first + i, &b[i], &r, &out[first + i]);
        if (b[i].open) {
            variant_close(&b[i].v);
            subject_close(&b[i].s);
        }
        str_free(&b[i].text);
    }
    rig_close(&r);
    free(b);
    free(v);
}

/* ---- the run --------------------------------------------------------------------------------- */

static void report(void *user, int i, const struct outcome *o) {
    struct ops *t = user;
    if (o->state == OUTCOME_PASSED) t->passed++;
    if (o->state != OUTCOME_FAILED) return;
    if (t->failed++ < t->o.show) printf("FAIL case %d: %s\n", i, o->text);
    fflush(stdout);
}

static void print_table(const struct ops *t) {
    printf("%-12s %8s %8s %8s\n", "row", "allowed", "f32 ulp", "f64 ulp");
    for (int op = OP_NONE + 1; op < OP_EW_END; op++) {
        struct errors worst = {-1, -1};
        for (int i = 0; i < t->cases.n * MAX_CASE; i++) {
            const struct op_case *c = &t->cases.at[i / MAX_CASE];
            if (i % MAX_CASE >= c->n) continue;
            const struct op_expr *e = &c->group->expr[c->first + i % MAX_CASE];
            if (e->kind != EXPR_ROW || (int)e->op != op) continue;
            if (e->result == DT_F32) worst.f32 = fmax(worst.f32, t->worst[i].f32);
            if (e->result == DT_F64) worst.f64 = fmax(worst.f64, t->worst[i].f64);
        }
        if (worst.f32 < 0) continue;
        printf("%-12s %8g %8.3f", op_info((enum op)op)->name, op_info((enum op)op)->ulp, worst.f32);
        if (worst.f64 >= 0) printf(" %8.3g", worst.f64);
        printf("\n");
    }
}

static bool read_settings(struct settings *o, int argc, char **argv) {
    *o = (struct settings){.jobs = 2, .batch = 24, .show = 20, .cc = "clang", .opt = "-O0"};
    const struct setting list[] = {
        {"JOBS", SETTING_INT, &o->jobs}, {"BATCH", SETTING_INT, &o->batch},
        {"SHOW", SETTING_INT, &o->show}, {"ARCH", SETTING_TEXT, &o->arch},
        {"CC", SETTING_TEXT, &o->cc},    {"OPT", SETTING_TEXT, &o->opt},
        {"ROW", SETTING_TEXT, &o->row}};
    return settings_read("ops", list, COUNT_OF(list), argc, argv);
}

int main(int argc, char **argv) {
    struct ops t = {.passed = 0};
    if (!read_settings(&t.o, argc, argv)) return 2;
    if (!cases_make(&t.cases, t.o.row)) return 3;
    size_t bytes = (size_t)t.cases.n * MAX_CASE * sizeof *t.worst;
    t.worst = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t.worst == MAP_FAILED) return 3;
    struct outcome *o = run_isolated(t.cases.n, t.o.batch, t.o.jobs, 120, batch_body, &t, report);
    outcomes_free(o, t.cases.n);
    print_table(&t);
    printf("%d passed, %d failed\n", t.passed, t.failed);
    cases_free(&t.cases);
    return t.failed > 0 || t.passed == 0;
}
