/* SPDX-License-Identifier: MIT
 * Reported faults of other fusing compilers, as tests: tails and masks, dtypes, indices, aliasing,
 * empty sizes. Each test runs a graph fused, unfused and on the reference interpreter; the inputs
 * lie in poisoned memory and the outputs are filled with NaN before (reports_util.h). Where the
 * fault allows one exact answer, that answer is stated here; elsewhere every element must lie
 * within the interval that the interpreter computes for it.
 */
#include "reports_util.h"

/* ---- tails: sizes that are no multiple of a tile ----------------------------------------------
 */

/* Zeros that fill up a tile's last lanes become f(0), not 0, when f is applied after them. */
static const char product[] =
    "graph m1(a: f16[$0, $2], b: f16[$2, $1]) { y = matmul(a, b); return y }";
static const char int8_weights[] = "graph m4(x: bf16[32, $0], w: i8[$1, $0], s: bf16[$1]) {\n"
                                   "  y = matmul(x, transpose(cast(w, bf16))) * s\n"
                                   "  return y }";
static const char scales_tail[] =
    "graph m3(x: f16[16, 96], w: u4[96, 64], s: f16[4, 64]) {\n"
    "  g = reshape(expand(unsqueeze(slice(s, axis=0, stop=3), 1), [3, 32, 64]), [96, 64])\n"
    "  y = matmul(x, (cast(w, f16) - 8) * g)\n"
    "  return y }";
static const char scales_tail_composite[] =
    "graph m3(x: f16[16, 96], w: u4[96, 64], s: f16[4, 64], z: u4[3, 64]) {\n"
    "  d = dequantize(w, slice(s, axis=0, stop=3), z, axis=0, block=32)\n"
    "  y = matmul(x, d)\n"
    "  return y }";

static const struct report masking[] = {
    {.id = "M1", .text = product, .sub = "1000 999 1001", .rows = 12},
    {.id = "M1", .text = product, .sub = "64 64 31"},
    {.id = "M1", .text = product, .sub = "64 64 33"},
    {.id = "M1", .text = product, .sub = "17 33 100"},
    {.id = "M1", .text = product, .sub = "1 128 1"},
    {.id = "M1", .text = product, .sub = "17 33 1"},
    {.id = "M2",
     .text = "graph m2(a: f32[40, 100], b: f32[100, 24]) {\n"
             "  y = matmul(sigmoid(a), b + 1); return y }"},
    {.id = "M2",
     .text = "graph m2(a: f32[40, 100], b: f32[100, 24]) { y = matmul(exp(a), b); return y }"},
    {.id = "M2",
     .text = "graph m2(a: f32[40, 100], b: f32[100, 24]) {\n"
             "  y = matmul(cos(a), 1 / (b * b + 1)); return y }"},
    {.id = "M2",
     .text = "graph m2(a: f32[40, 100], b: f32[100, 24], c: f32[100]) {\n"
             "  y = matmul(a / c, b); return y }",
     .in = {{"c", "uniform 1 2", NULL}}},
    {.id = "M3", .text = scales_tail, .in = {{"s", "uniform 0.5 2; 192 64 nan", NULL}}},
    {.id = "M3",
     .text = scales_tail_composite,
     .in = {{"s", "uniform 0.5 2; 192 64 nan", NULL}, {"z", "list 8", NULL}}},
    {.id = "M4", .text = int8_weights, .sub = "128 15", .in = {{"s", "uniform 0.5 2", NULL}}},
    {.id = "M4", .text = int8_weights, .sub = "144 17", .in = {{"s", "uniform 0.5 2", NULL}}},
    {.id = "M4", .text = int8_weights, .sub = "128 31", .in = {{"s", "uniform 0.5 2", NULL}}},
    {.id = "M4", .text = int8_weights, .sub = "144 33", .in = {{"s", "uniform 0.5 2", NULL}}},
    {.id = "M4", .text = int8_weights, .sub = "144 49", .in = {{"s", "uniform 0.5 2", NULL}}},
    {.id = "M4", .text = int8_weights, .sub = "128 64", .in = {{"s", "uniform 0.5 2", NULL}}},
    {.id = "M4", .text = int8_weights, .sub = "128 65", .in = {{"s", "uniform 0.5 2", NULL}}},
    {.id = "M4", .text = int8_weights, .sub = "144 65", .in = {{"s", "uniform 0.5 2", NULL}}},
};

static void test_masking(void **state) {
    (void)state;
    run_table(masking, COUNT_OF(masking), NULL);
}

/* The same with the tiles of a machine without vectors, the smallest that are planned. */
static void test_masking_small_tiles(void **state) {
    (void)state;
    run_table(masking + 1, COUNT_OF(masking) - 1, "generic");
}

/* ---- dtypes ---------------------------------------------------------------------------------- */

/* A cast that the text has is never taken away: the low half of each f32 is zero. */
static bool low_half_zero(const struct variant *v, struct err *e) {
    const struct guarded *t = &v->out[output_index(v->s, "z")];
    for (int64_t i = 0; i < t->count; i++) {
        uint64_t bits = elem_bits(t->dtype, elem_load(t->dtype, t->data, i));
        if ((bits & 0xFFFF) == 0) continue;
        err_set(e, PROEM_INTERNAL, "z[%lld] is %08llx, no bf16 value", (long long)i,
                (unsigned long long)bits);
        return false;
    }
    return true;
}

static bool sums_in_i32(const struct variant *v, struct err *e) {
    const struct guarded *t = &v->out[output_index(v->s, "y")];
    if (t->dtype == DT_I32) return true;
    err_set(e, PROEM_INTERNAL, "y is %s", dtype_name(t->dtype));
    return false;
}

static bool sums_in_f32(const struct variant *v, struct err *e) {
    const struct guarded *t = &v->out[output_index(v->s, "y")];
    if (t->dtype == DT_F32) return true;
    err_set(e, PROEM_INTERNAL, "y is %s", dtype_name(t->dtype));
    return false;
}

static const char scaled[] = "graph d7(a: f16[4, 8, 128], b: f16[4, 128, 64], m: $0[$1]) {\n"
                             "  y = cast(matmul(a, b) * m, f16)\n"
                             "  return y }";

static const struct report dtypes[] = {
    {.id = "D1",
     .text = "graph d1(a: i8[32, 64], b: i8[64, 32]) {\n"
             "  y = matmul(a, b); z = cast(y, f32) * 0.5; return y, z }",
     .in = {{"a", "list -128", NULL}, {"b", "list -128", NULL}},
     .want = {{"y", "list 1048576", NULL}, {"z", "list 524288", NULL}},
     .also = sums_in_i32},
    {.id = "D2",
     .text = "graph d2(a: f16[2, 3, 4], b: f32[2, 4, 5]) { y = matmul(a, b); return y }",
     .also = sums_in_f32},
    {.id = "D2",
     .text = "graph d2(a: f16[3, 4], b: f32[4, 5]) { y = matmul(a, b); return y }",
     .also = sums_in_f32},
    {.id = "D4",
     .text = "graph d4(a: f32[64, 32], b: f32[32, 16]) {\n"
             "  z = cast(cast(matmul(a, b), bf16), f32)\n"
             "  return z }",
     .also = low_half_zero},
    {.id = "D4",
     .text = "graph d4(a: f32[64, 32], b: f32[32, 16]) {\n"
             "  p = cast(cast(a, f16), f32)\n"
             "  y = matmul(p, b)\n"
             "  return y }"},
    /* 2049 is no f16: the round trip makes it 2048, so the product is 0 and not 1 */
    {.id = "D4",
     .text = "graph d4(a: f32[5, 2], b: f32[2, 3]) {\n"
             "  y = matmul(cast(cast(a, f16), f32), b)\n"
             "  return y }",
     .in = {{"a", "list 2049 2048", NULL}, {"b", "list 1 1 1 -1 -1 -1", NULL}},
     .want = {{"y", "list 0", NULL}}},
    {.id = "D5",
     .text = "graph d5(x: f16[8, 64], w1: f16[64, 16], w2: f16[64, 16], ids: i32[3]) {\n"
             "  y = matmul(x, w1 + w2, out=f32)\n"
             "  t = take(matmul(x, w1, out=f32), ids, axis=1)\n"
             "  return y, t }",
     .in = {{"x", "list 100", NULL},
            {"w1", "list 16", NULL},
            {"w2", "list 16", NULL},
            {"ids", "list 5 0 5", NULL}},
     .want = {{"y", "list 204800", "8 16"}, {"t", "list 102400", "8 3"}},
     .also = sums_in_f32},
    {.id = "D7", .text = scaled, .sub = "f32 4,8,64", .in = {{"m", "uniform 0.5 2", NULL}}},
    {.id = "D7", .text = scaled, .sub = "f16 4,8,64", .in = {{"m", "uniform 0.5 2", NULL}}},
    {.id = "D7", .text = scaled, .sub = "bf16 4,8,64", .in = {{"m", "uniform 0.5 2", NULL}}},
    {.id = "D7", .text = scaled, .sub = "f16 4,1,64", .in = {{"m", "uniform 0.5 2", NULL}}},
    {.id = "D7", .text = scaled, .sub = "bf16 4,1,64", .in = {{"m", "uniform 0.5 2", NULL}}},
    {.id = "D7", .text = scaled, .sub = "f16 64", .in = {{"m", "uniform 0.5 2", NULL}}},
    {.id = "D7", .text = scaled, .sub = "bf16 64", .in = {{"m", "uniform 0.5 2", NULL}}},
};

static void test_dtypes(void **state) {
    (void)state;
    run_table(dtypes, COUNT_OF(dtypes), NULL);
}

/* ---- indices and aliasing -------------------------------------------------------------------- */

static const char embedding[] = "graph i3(t: f32[8, 16], ids: i64[$0], e: f32[16, 16]) {\n"
                                "  y = matmul(take(t, ids, axis=0), e)\n"
                                "  return y }";

static const struct report indices[] = {
    {.id = "I3", /* a negative index counts from the end */
     .text = embedding,
     .sub = "3",
     .in = {{"t", "rows 0", NULL}, {"ids", "list 0 -1 7", NULL}, {"e", "eye", NULL}},
     .want = {{"y", "list 0; 16 32 7", NULL}}},
    {.id = "I3",
     .text = embedding,
     .sub = "1",
     .in = {{"t", "rows 0", NULL}, {"ids", "list -9", NULL}, {"e", "eye", NULL}},
     .data_error = true},
    {.id = "I3",
     .text = embedding,
     .sub = "1",
     .in = {{"t", "rows 0", NULL}, {"ids", "list 8", NULL}, {"e", "eye", NULL}},
     .data_error = true},
    {.id = "I4", /* padding marked with expert -1: chosen away, so neither read nor added */
     .text = "graph i4(x: f16[16, 64], w: f16[4, 64, 32], ids: i32[16, 2], wt: f32[16, 2]) {\n"
             "  seen = ids >= 0\n"
             "  we = take(w, where(seen, ids, 0), axis=0)\n"
             "  p = matmul(reshape(x, [16, 1, 1, 64]), we, out=f32)\n"
             "  y = sum(reshape(p, [16, 2, 32]) * unsqueeze(where(seen, wt, 0.0), 2), axes=[1])\n"
             "  return y }",
     .in = {{"ids", "random 0 4; 5 1 -1; 16 16 -1", NULL}},
     .want = {{"y", "keep; 256 256 0", "16 32"}}},
    {.id = "A1",
     .text = "graph a1(x: f32[1, 2], ids: i64[2], e: f32[2, 2]) {\n"
             "  g = take(x, ids, axis=0)\n"
             "  u = matmul(g, e) + g\n"
             "  y = scatter(x, ids, u, axis=0)\n"
             "  return y in x }",
     .in = {{"x", "list -1.5 0.25", NULL}, {"ids", "list 0", NULL}, {"e", "eye", NULL}},
     .want = {{"y", "list -3 0.5", NULL}}},
    {.id = "A1",
     .text = "graph a1(x: f32[1, 2], ids: i64[2], e: f32[2, 2]) {\n"
             "  g = take(x, ids, axis=0)\n"
             "  u = matmul(g, e) + g\n"
             "  y = scatter_add(x, ids, u, axis=0)\n"
             "  return y in x }",
     .in = {{"x", "list -1.5 0.25", NULL}, {"ids", "list 0", NULL}, {"e", "eye", NULL}},
     .want = {{"y", "list -7.5 1.25", NULL}}},
    {.id = "A2", /* the gather comes after the scatter, for real */
     .text = "graph a2(a: f32[8, 4], b: f32[4, 4], base: f32[1, 4], n: i64[8]) {\n"
             "  z = take(scatter_add(base, n, matmul(a, b), axis=0), n, axis=0)\n"
             "  return z }",
     .in = {{"a", "list 1", NULL},
            {"b", "cols 1", NULL},
            {"base", "list 0", NULL},
            {"n", "list 0", NULL}},
     .want = {{"z", "list 32 64 96 128", "8 4"}}},
    {.id = "A2",
     .text = "graph a2(a: f32[8, 4], b: f32[4, 4], base: f32[1, 4], n: i64[8]) {\n"
             "  z = take(scatter_add(base, n, matmul(a, b), axis=0), n, axis=0)\n"
             "  return z }",
     .in = {{"base", "list 0", NULL}, {"n", "list 0", NULL}}},
};

static void test_indices(void **state) {
    (void)state;
    run_table(indices, COUNT_OF(indices), NULL);
}

/* ---- empty sizes, empty and repeated experts --------------------------------------------------
 */

static const char grouped[] = "graph e5(x: f16[$0, 64], w: f16[$1, 64, 32], offsets: i32[$1]) {\n"
                              "  y = grouped_matmul(x, w, offsets)\n"
                              "  return y }";

static const struct report degenerate[] = {
    {.id = "E1",
     .text = "graph e1(a: f32[16, 0], b: f32[0, 16]) { y = matmul(a, b); return y }",
     .want = {{"y", "list 0", "16 16"}}},
    {.id = "E1",
     .text = "graph e1(b1: f32[0, 30], b2: f32[30, 40], c1: f32[5, 7], c2: f32[7, 0],\n"
             "         d1: f32[0, 2], d2: f32[2], e1: f32[3, 0, 0], e2: f32[0, 0],\n"
             "         x: f32[1, 1, 0], w: f32[0, 0], bias: f32[0]) {\n"
             "  b = matmul(b1, b2); c = matmul(c1, c2); d = matmul(d1, d2)\n"
             "  e = matmul(e1, e2); f = linear(x, w, bias)\n"
             "  return b, c, d, e, f }",
     .want = {{"b", NULL, "0 40"},
              {"c", NULL, "5 0"},
              {"d", NULL, "0"},
              {"e", NULL, "3 0 0"},
              {"f", NULL, "1 1 0"}}},
    {.id = "E1",
     .text = "graph e1(a: f32[4, 0], b: f32[0, 4], bias: f32[4]) {\n"
             "  y = exp(matmul(a, b) + bias); return y }"},
    {.id = "E1",
     .text = "graph e1(a: f32[4, 0], b: f32[0, 4], bias: f32[4]) {\n"
             "  y = exp(matmul(a, b) + bias); return y }",
     .in = {{"bias", "list 0", NULL}},
     .want = {{"y", "list 1", NULL}}},
    {.id = "E3",
     .text = "graph e3(c: f32[4, 6], a: f32[4, 0], b: f32[0, 6], a2: f32[0, 4, 3],\n"
             "         b2: f32[0, 3, 6]) {\n"
             "  y = 0.5 * c + matmul(a, b)\n"
             "  z = 0.5 * c + sum(matmul(a2, b2), axes=[0])\n"
             "  return y, z }",
     .in = {{"c", "iota 24 -11", NULL}},
     .want = {{"y",
               "list -5.5 -5 -4.5 -4 -3.5 -3 -2.5 -2 -1.5 -1 -0.5 0 0.5 1 1.5 2 2.5 3 3.5 4 "
               "4.5 5 5.5 6",
               NULL},
              {"z",
               "list -5.5 -5 -4.5 -4 -3.5 -3 -2.5 -2 -1.5 -1 -0.5 0 0.5 1 1.5 2 2.5 3 3.5 4 "
               "4.5 5 5.5 6",
               NULL}}},
    {.id = "E4",
     .text = "graph e4(x: f32[9, 256], w: f16[16, 256, 64], ids: i32[9, 6]) {\n"
             "  y = reshape(matmul(reshape(x, [9, 1, 1, 256]), take(w, ids, axis=0)), [9, 6, 64])\n"
             "  return y }",
     .in = {{"ids", "random 0 16; 24 2 3; 26 1 1; 27 1 7; 28 1 3; 29 1 2", NULL}}},
    {.id = "E5", /* all other experts are NaN */
     .text = grouped,
     .sub = "5 8",
     .in = {{"w", "keep; 0 6144 nan; 8192 8192 nan", NULL},
            {"offsets", "list 0 0 0 5 5 5 5 5", NULL}}},
    {.id = "E5", .text = grouped, .sub = "0 8", .in = {{"offsets", "list 0", NULL}}},
    {.id = "E5",
     .text = grouped,
     .sub = "1 8",
     .in = {{"w", "keep; 0 6144 nan; 8192 8192 nan", NULL},
            {"offsets", "list 0 0 0 1 1 1 1 1", NULL}}},
    {.id = "E5",
     .text = grouped,
     .sub = "5 8",
     .in = {{"w", "keep; 0 14336 nan", NULL}, {"offsets", "list 0 0 0 0 0 0 0 5", NULL}}},
    {.id = "E5",
     .text = grouped,
     .sub = "40 33",
     .in = {{"w", "keep; 0 2048 nan", NULL}, {"offsets", "cols 0; 20 13 39", NULL}}},
};

static void test_degenerate(void **state) {
    (void)state;
    run_table(degenerate, COUNT_OF(degenerate), NULL);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masking),    cmocka_unit_test(test_masking_small_tiles),
        cmocka_unit_test(test_dtypes),     cmocka_unit_test(test_indices),
        cmocka_unit_test(test_degenerate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
