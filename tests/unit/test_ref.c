/* SPDX-License-Identifier: MIT
 * The operator table and its reference functions. Every row must have known values (ops_vec.h),
 * with NaN and infinities where it takes floats and with integers where it takes integers; 8-bit
 * integer operators are compared with their definitions on every pair of operands.
 */
#include "ops/op.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define INF  HUGE_VAL
#define QNAN ((double)NAN)

struct vec {
    int line;
    enum op op;
    enum dtype d;
    bool truth; /* the result is a bool, whatever d is */
    double p[2];
    union scalar in[3], out;
};

#define ROW(id, d, t, ...) {__LINE__, OP_##id, (d), (t), __VA_ARGS__},
#define R1(id, x, r)       ROW(id, DT_F32, false, {0}, {{.f = (x)}}, {.f = (r)})
#define R2(id, x, y, r)    ROW(id, DT_F32, false, {0}, {{.f = (x)}, {.f = (y)}}, {.f = (r)})
#define R3(id, x, y, z, r)                                                                         \
    ROW(id, DT_F32, false, {0}, {{.f = (x)}, {.f = (y)}, {.f = (z)}}, {.f = (r)})
#define P1(id, p0, p1, x, r) ROW(id, DT_F32, false, {(p0), (p1)}, {{.f = (x)}}, {.f = (r)})
#define T1(id, x, r)         ROW(id, DT_F32, true, {0}, {{.f = (x)}}, {.i = (r)})
#define T2(id, x, y, r)      ROW(id, DT_F32, true, {0}, {{.f = (x)}, {.f = (y)}}, {.i = (r)})
#define I1(id, d, a, r)      ROW(id, DT_##d, false, {0}, {{.i = (a)}}, {.i = (r)})
#define I2(id, d, a, b, r)   ROW(id, DT_##d, false, {0}, {{.i = (a)}, {.i = (b)}}, {.i = (r)})
#define I3(id, d, a, b, c, r)                                                                      \
    ROW(id, DT_##d, false, {0}, {{.i = (a)}, {.i = (b)}, {.i = (c)}}, {.i = (r)})

static const struct vec vecs[] = {
#include "ops_vec.h"
};

/* ---- known values ---------------------------------------------------------------------------- */

/* Equal, signs of zero included, for rows that are correctly rounded; else within a few units in
 * the last place of a double, far below any dtype that the tolerances are for. */
static bool close_to(double got, double want, bool exact) {
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
    if (!signbit(got) != !signbit(want)) return false;
    if (exact || isinf(want) || want == 0) return got == want;
    return fabs(got - want) <= 6 * 0x1p-52 * fabs(want) + 0x1p-1074;
}

static void test_known_values(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(vecs); i++) {
        const struct vec *v = &vecs[i];
        const struct op_info *info = op_info(v->op);
        union scalar got = op_ref(v->op, v->d, v->in, v->p);
        if (dtype_is_float(v->d) && !v->truth) {
            if (!close_to(got.f, v->out.f, info->ulp == 0))
                fail_msg("%s, vector %zu: %.17g (%a), wanted %.17g (%a)", info->name, i, got.f,
                         got.f, v->out.f, v->out.f);
        } else if (got.i != v->out.i) {
            fail_msg("%s of %s, vector %zu: %lld, wanted %lld", info->name, dtype_name(v->d), i,
                     (long long)got.i, (long long)v->out.i);
        }
    }
}

struct coverage {
    int reals, ints, nan, inf;
};

static void test_coverage(void **state) {
    (void)state;
    struct coverage seen[OP_EW_END];
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < COUNT_OF(vecs); i++) {
        const struct vec *v = &vecs[i];
        struct coverage *c = &seen[v->op];
        bool real = dtype_is_float(v->d);
        *(real ? &c->reals : &c->ints) += 1;
        for (int k = 0; real && k < op_info(v->op)->arity; k++) {
            if (isnan(v->in[k].f)) c->nan++;
            if (isinf(v->in[k].f)) c->inf++;
        }
    }
    for (int op = OP_NONE + 1; op < OP_EW_END; op++) {
        const struct op_info *info = op_info((enum op)op);
        const struct coverage *c = &seen[op];
        bool reals = info->rule != RULE_INT && info->rule != RULE_SHIFT;
        if (reals && (c->reals < 2 || c->nan == 0 || c->inf == 0))
            fail_msg("%s: too few known values of floats", info->name);
        if (info->rule != RULE_FLOAT && c->ints < 1)
            fail_msg("%s: no known value of integers", info->name);
        if (c->reals + c->ints < 3) fail_msg("%s: too few known values", info->name);
    }
}

/* Operands of COMM rows may be exchanged, -0, NaN and infinities included. */
static void test_commutative(void **state) {
    (void)state;
    static const double x[] = {0.0, -0.0, 1.0, -2.5, 0x1p-149, INF, -INF, 3e38};
    for (int i = OP_NONE + 1; i < OP_EW_END; i++) {
        const struct op_info *info = op_info((enum op)i);
        if ((info->flags & OPF_COMM) == 0) continue;
        for (int64_t a = -4; a < 4; a++) {
            for (int64_t b = -4; b < 4; b++) {
                union scalar ab[2] = {{.i = a}, {.i = b}}, ba[2] = {{.i = b}, {.i = a}};
                if (info->rule != RULE_FLOAT)
                    assert_int_equal(op_ref((enum op)i, DT_I8, ab, NULL).i,
                                     op_ref((enum op)i, DT_I8, ba, NULL).i);
                if (info->rule == RULE_INT) continue;
                ab[0].f = ba[1].f = x[a + 4];
                ab[1].f = ba[0].f = x[b + 4];
                assert_true(elem_bits(DT_F64, op_ref((enum op)i, DT_F64, ab, NULL)) << 1 ==
                                elem_bits(DT_F64, op_ref((enum op)i, DT_F64, ba, NULL)) << 1 ||
                            isnan(op_ref((enum op)i, DT_F64, ab, NULL).f));
            }
        }
    }
}

/* ---- integers, from their definitions -------------------------------------------------------- */

static int wrap8(enum dtype d, int v) {
    int m = ((v % 256) + 256) % 256;
    return dtype_is_signed(d) && m > 127 ? m - 256 : m;
}

/* floor(a / b) by stepping */
static int floor_quotient(int a, int b) {
    int q = a / b;
    while (b > 0 ? q * b > a : q * b < a)
        q--;
    return q;
}

static int power8(enum dtype d, int a, int b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    int r = 1;
    for (int i = 0; i < b; i++)
        r = wrap8(d, r * a);
    return r;
}

static int shifted(enum dtype d, int a, int b, bool left) {
    for (int i = 0; i < (b < 0 ? 8 : b); i++)
        a = left ? wrap8(d, a * 2) : floor_quotient(a, 2);
    return a;
}

static void check_pair(enum dtype d, int a, int b) {
    const union scalar in[2] = {{.i = a}, {.i = b}};
    const struct {
        enum op op;
        int want;
    } want[] = {
        {OP_ADD, wrap8(d, a + b)},
        {OP_SUB, wrap8(d, a - b)},
        {OP_MUL, wrap8(d, a * b)},
        {OP_FLOORDIV, b == 0 ? 0 : wrap8(d, floor_quotient(a, b))},
        {OP_MOD, b == 0 ? 0 : a - b * floor_quotient(a, b)},
        {OP_FMOD, b == 0 ? 0 : a - b * (a / b)},
        {OP_POW, power8(d, a, b)},
        {OP_MINIMUM, a < b ? a : b},
        {OP_MAXIMUM, a > b ? a : b},
        {OP_SHIFT_LEFT, shifted(d, a, b, true)},
        {OP_SHIFT_RIGHT, shifted(d, a, b, false)},
        {OP_BITWISE_AND, wrap8(d, a & b)},
        {OP_BITWISE_OR, wrap8(d, a | b)},
        {OP_BITWISE_XOR, wrap8(d, a ^ b)},
        {OP_EQ, a == b},
        {OP_LT, a < b},
        {OP_GE, a >= b},
        {OP_LOGICAL_AND, a != 0 && b != 0},
    };
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        int64_t got = op_ref(want[i].op, d, in, NULL).i;
        if (got != want[i].want)
            fail_msg("%s of %s %d and %d: %d, wanted %d", op_info(want[i].op)->name, dtype_name(d),
                     a, b, (int)got, want[i].want);
    }
}

static void test_every_pair(void **state) {
    (void)state;
    for (int a = 0; a < 256; a++) {
        for (int b = 0; b < 256; b++) {
            check_pair(DT_U8, a, b);
            check_pair(DT_I8, a - 128, b - 128);
        }
    }
}

/* Floats on a grid where the quotient's floor is known exactly. */
static void test_float_floordiv(void **state) {
    (void)state;
    for (int a = -200; a <= 200; a++) {
        for (int b = -40; b <= 40; b++) {
            if (b == 0) continue;
            const union scalar in[2] = {{.f = a / 8.0}, {.f = b / 8.0}};
            int q = floor_quotient(a, b);
            assert_true(op_ref(OP_FLOORDIV, DT_F64, in, NULL).f == q);
            assert_true(op_ref(OP_MOD, DT_F64, in, NULL).f == (a - q * b) / 8.0);
        }
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

static void test_table(void **state) {
    (void)state;
    for (int i = OP_NONE + 1; i < OP_COUNT; i++) {
        enum op op = (enum op)i;
        const struct op_info *info = op_info(op);
        if (op == OP_EW_END) continue;
        assert_non_null(info->name);
        bool internal = op == OP_GELU_TANH || op == OP_PARAM || op == OP_CONST || op == OP_LOOKUP;
        assert_int_equal(op_from_name(info->name, strlen(info->name)), internal ? OP_NONE : op);
        assert_int_equal(info->rule != RULE_NONE, op_is_elementwise(op));
        assert_int_equal(info->ref != NULL, op_is_elementwise(op));
        assert_int_equal(info->c != NULL, op_is_elementwise(op));
        assert_int_equal(info->arity > 0, op_is_elementwise(op));
    }
    assert_int_equal(op_info(OP_CLAMP)->arity, 3);
    assert_int_equal(op_info(OP_ADD)->flags, OPF_COMM | OPF_BOOLOK);
    assert_int_equal(op_info(OP_SHIFT_LEFT)->rule, RULE_SHIFT);
    assert_string_equal(op_info(OP_GROUPED_MATMUL)->name, "grouped_matmul");
    assert_int_equal(op_from_name("ad", 2), OP_NONE);
    assert_int_equal(op_from_name("none", 4), OP_NONE);
    assert_int_equal(op_from_name("", 0), OP_NONE);
    assert_int_equal(op_from_name("where(", 5), OP_WHERE);
    assert_int_equal(op_info(OP_NONE)->rule, RULE_NONE);
    assert_int_equal(op_info(OP_COUNT)->rule, RULE_NONE);
}

struct typing {
    enum op op;
    enum dtype in[3];
    enum dtype compute, result;
};

static const struct typing typings[] = {
    {OP_NEG, {DT_F16}, DT_F16, DT_F16},
    {OP_NEG, {DT_I4}, DT_I8, DT_I8},
    {OP_NEG, {DT_BOOL}, DT_NONE, DT_NONE},
    {OP_NEG, {DT_F8E5M2}, DT_NONE, DT_NONE},
    {OP_NEG, {DT_NONE}, DT_NONE, DT_NONE},
    {OP_ABS, {DT_BOOL}, DT_NONE, DT_NONE},
    {OP_EXP, {DT_F64}, DT_F64, DT_F64},
    {OP_EXP, {DT_BF16}, DT_BF16, DT_BF16},
    {OP_EXP, {DT_I64}, DT_F32, DT_F32},
    {OP_EXP, {DT_U2}, DT_F32, DT_F32},
    {OP_EXP, {DT_BOOL}, DT_F32, DT_F32},
    {OP_EXP, {DT_E8M0}, DT_NONE, DT_NONE},
    {OP_FLOOR, {DT_I32}, DT_I32, DT_I32},
    {OP_ISNAN, {DT_F8E4M3FN}, DT_F8E4M3FN, DT_BOOL},
    {OP_ISNAN, {DT_E8M0}, DT_E8M0, DT_BOOL},
    {OP_ISNAN, {DT_I4}, DT_I4, DT_BOOL},
    {OP_ISINF, {DT_F8E4M3FN}, DT_NONE, DT_NONE},
    {OP_ISINF, {DT_BOOL}, DT_BOOL, DT_BOOL},
    {OP_LOGICAL_NOT, {DT_F32}, DT_BOOL, DT_BOOL},
    {OP_LOGICAL_NOT, {DT_F8E5M2}, DT_NONE, DT_NONE},
    {OP_BITWISE_NOT, {DT_BOOL}, DT_BOOL, DT_BOOL},
    {OP_BITWISE_NOT, {DT_U4}, DT_U8, DT_U8},
    {OP_BITWISE_NOT, {DT_F32}, DT_NONE, DT_NONE},
    {OP_ADD, {DT_F16, DT_BF16}, DT_F32, DT_F32},
    {OP_ADD, {DT_I4, DT_U4}, DT_I8, DT_I8},
    {OP_ADD, {DT_I4, DT_I4}, DT_I8, DT_I8},
    {OP_ADD, {DT_BOOL, DT_BOOL}, DT_BOOL, DT_BOOL},
    {OP_ADD, {DT_U64, DT_I8}, DT_NONE, DT_NONE},
    {OP_ADD, {DT_U64, DT_BOOL}, DT_U64, DT_U64},
    {OP_ADD, {DT_F8E5M2, DT_F8E5M2}, DT_NONE, DT_NONE},
    {OP_SUB, {DT_BOOL, DT_BOOL}, DT_NONE, DT_NONE},
    {OP_SUB, {DT_BOOL, DT_I16}, DT_I16, DT_I16},
    {OP_MUL, {DT_BOOL, DT_BOOL}, DT_BOOL, DT_BOOL},
    {OP_DIV, {DT_I32, DT_I32}, DT_F32, DT_F32},
    {OP_DIV, {DT_I32, DT_F16}, DT_F16, DT_F16},
    {OP_DIV, {DT_U64, DT_I64}, DT_NONE, DT_NONE},
    {OP_POW, {DT_I32, DT_U32}, DT_I64, DT_I64},
    {OP_MINIMUM, {DT_BOOL, DT_BOOL}, DT_BOOL, DT_BOOL},
    {OP_BITWISE_AND, {DT_BOOL, DT_U8}, DT_U8, DT_U8},
    {OP_BITWISE_AND, {DT_I8, DT_F32}, DT_NONE, DT_NONE},
    {OP_SHIFT_LEFT, {DT_I8, DT_I32}, DT_I32, DT_I32},
    {OP_SHIFT_LEFT, {DT_I4, DT_I4}, DT_I8, DT_I8},
    {OP_SHIFT_LEFT, {DT_BOOL, DT_BOOL}, DT_NONE, DT_NONE},
    {OP_SHIFT_RIGHT, {DT_F32, DT_I32}, DT_NONE, DT_NONE},
    {OP_LOGICAL_AND, {DT_F32, DT_I4}, DT_BOOL, DT_BOOL},
    {OP_LOGICAL_AND, {DT_U64, DT_I64}, DT_BOOL, DT_BOOL},
    {OP_EQ, {DT_I4, DT_I4}, DT_I4, DT_BOOL},
    {OP_EQ, {DT_I4, DT_U4}, DT_I8, DT_BOOL},
    {OP_LT, {DT_BOOL, DT_BOOL}, DT_BOOL, DT_BOOL},
    {OP_LT, {DT_F16, DT_I64}, DT_F16, DT_BOOL},
    {OP_EQ, {DT_U64, DT_I64}, DT_NONE, DT_NONE},
    {OP_EQ, {DT_F8E5M2, DT_F8E5M2}, DT_NONE, DT_NONE},
    {OP_CLAMP, {DT_I8, DT_I16, DT_U8}, DT_I16, DT_I16},
    {OP_CLAMP, {DT_BOOL, DT_BOOL, DT_BOOL}, DT_NONE, DT_NONE},
    {OP_WHERE, {DT_BOOL, DT_F32, DT_F32}, DT_NONE, DT_NONE},
    {OP_CAST, {DT_F32}, DT_NONE, DT_NONE},
};

static void test_typing(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(typings); i++) {
        const struct typing *t = &typings[i];
        int n = op_info(t->op)->arity;
        enum dtype compute = DT_COUNT, result = op_result_dtype(t->op, t->in, NULL, n, &compute);
        if (result != t->result)
            fail_msg("%s, case %zu: %s", op_info(t->op)->name, i, dtype_name(result));
        if (n > 0) assert_int_equal(op_result_dtype(t->op, t->in, NULL, n, NULL), t->result);
        if (n > 0) assert_int_equal(compute, t->compute);
        assert_int_equal(op_result_dtype(t->op, t->in, NULL, n + 1, NULL), DT_NONE);
    }
}

static void check_ranked(enum op op, const enum dtype *in, const bool *scalar, enum dtype want) {
    assert_int_equal(op_result_dtype(op, in, scalar, op_info(op)->arity, NULL), want);
}

static void test_typing_ranked(void **state) {
    (void)state;
    static const bool none[3] = {false, false, false}, last[3] = {false, true, true};
    static const bool first[3] = {true, false, false}, every[3] = {true, true, true};
    const enum dtype f[2] = {DT_F16, DT_F32}, i[2] = {DT_I8, DT_F16};
    check_ranked(OP_ADD, f, none, DT_F32);
    check_ranked(OP_ADD, f, last, DT_F16);
    check_ranked(OP_ADD, f, first, DT_F32);
    check_ranked(OP_ADD, f, every, DT_F32);
    check_ranked(OP_ADD, i, last, DT_F16);
    check_ranked(OP_ADD, i, first, DT_F16);
    const enum dtype three[3] = {DT_I8, DT_I64, DT_I32}, mixed[3] = {DT_I8, DT_F16, DT_F32};
    check_ranked(OP_CLAMP, three, none, DT_I64);
    check_ranked(OP_CLAMP, three, last, DT_I8);
    check_ranked(OP_CLAMP, three, first, DT_I64);
    check_ranked(OP_CLAMP, mixed, last, DT_F32); /* the 0-dim bounds are promoted together */
    const enum dtype u[2] = {DT_U64, DT_I64}, b[2] = {DT_BOOL, DT_BOOL};
    check_ranked(OP_ADD, u, last, DT_U64);
    check_ranked(OP_ADD, u, none, DT_NONE);
    check_ranked(OP_ADD, b, last, DT_BOOL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),   cmocka_unit_test(test_coverage),
        cmocka_unit_test(test_commutative),    cmocka_unit_test(test_every_pair),
        cmocka_unit_test(test_float_floordiv), cmocka_unit_test(test_table),
        cmocka_unit_test(test_typing),         cmocka_unit_test(test_typing_ranked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
