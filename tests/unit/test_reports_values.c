/* SPDX-License-Identifier: MIT
 * Reported faults of other fusing compilers, as tests: quantisation, special values, views and
 * broadcasts, what may be fused, and how much of it is one kernel. As test_reports_sums.c.
 */
#include "reports_util.h"

/* ---- scales and zero points ------------------------------------------------------------------ */

static const char blocks[] =
    "graph q1(x: f32[3, 2048], w: u4[2048, 4], s: f32[$1, 4], z: u4[$1, 4]) {\n"
    "  y = matmul(x, dequantize(w, s, z, axis=0, block=$0))\n"
    "  return y }";
#define Q1(sub_)                                                                                   \
    {                                                                                              \
        .id = "Q1", .text = blocks, .sub = sub_,                                                   \
        .in = {{"x", "list 1", NULL},                                                              \
               {"w", "list 5", NULL},                                                              \
               {"s", "list 0.25", NULL},                                                           \
               {"z", "list 3", NULL}},                                                             \
        .want = {                                                                                  \
            {"y", "list 1024", "3 4"}                                                              \
        }                                                                                          \
    }

static const char groups[] =
    "graph q5(x: f16[$0, 512], w: u8[512, 8], s: f16[$2, 8], z: u8[$2, 8]) {\n"
    "  y = matmul(x, dequantize(w, s, z, axis=0, block=$1))\n"
    "  return y }";
#define Q5(sub_, want_)                                                                            \
    {                                                                                              \
        .id = "Q5", .text = groups, .sub = sub_,                                                   \
        .in = {{"x", "list 1", NULL},                                                              \
               {"w", "list 4", NULL},                                                              \
               {"s", "rows 1", NULL},                                                              \
               {"z", "list 3", NULL}},                                                             \
        .want = {                                                                                  \
            {"y", "list " want_, NULL}                                                             \
        }                                                                                          \
    }

static const char zeros[] = "graph q4(x: f32[2, 32], w: $0[32, 8], s: f32[], z: $0[]) {\n"
                            "  y = matmul(x, dequantize(w, s, z))\n"
                            "  return y }";
#define Q4(dtype_, w_, z_, want_)                                                                  \
    {                                                                                              \
        .id = "Q4", .text = zeros, .sub = dtype_,                                                  \
        .in = {{"x", "list 1", NULL},                                                              \
               {"w", "list " w_, NULL},                                                            \
               {"s", "list 1", NULL},                                                              \
               {"z", "list " z_, NULL}},                                                           \
        .want = {                                                                                  \
            {"y", "list " want_, NULL}                                                             \
        }                                                                                          \
    }

static const char rounding[] = "graph q10(e: $0[6, 6], v: $0[6, 1], s: f32[], z: i8[]) {\n"
                               "  y = quantize(matmul(e, v), s, z, dtype=i8)\n"
                               "  return y }";
#define Q10(dtype_, z_, want_)                                                                     \
    {                                                                                              \
        .id = "Q10", .text = rounding, .sub = dtype_,                                              \
        .in = {{"e", "eye", NULL},                                                                 \
               {"v", "list 0.5 1.5 2.5 -0.5 -1.5 200", NULL},                                      \
               {"s", "list 1", NULL},                                                              \
               {"z", "list " z_, NULL}},                                                           \
        .want = {                                                                                  \
            {"y", "list " want_, NULL}                                                             \
        }                                                                                          \
    }

/* Blocks of 32 along the inner dim, whichever way the weight lies. */
static bool scaled_by_block(const struct variant *v, struct err *e) {
    const struct subject *s = v->s;
    const struct guarded *w = &s->in[param_index(s, "w")], *wt = &s->in[param_index(s, "wt")];
    const struct guarded *sc = &s->in[param_index(s, "s")], *st = &s->in[param_index(s, "st")];
    const struct guarded *y = &v->out[output_index(s, "y")], *t = &v->out[output_index(s, "t")];
    int64_t n = w->shape[1];
    for (int64_t k = 0; k < 64; k++) {
        for (int64_t j = 0; j < n; j++) {
            double a = value_at(w->dtype, w->data, k * n + j) *
                       value_at(sc->dtype, sc->data, k / 32 * n + j);
            double b = value_at(wt->dtype, wt->data, j * 64 + k) *
                       value_at(st->dtype, st->data, j * 2 + k / 32);
            if (value_at(y->dtype, y->data, k * n + j) == a &&
                value_at(t->dtype, t->data, k * n + j) == b)
                continue;
            err_set(e, PROEM_INTERNAL, "element %lld, %lld has another scale", (long long)k,
                    (long long)j);
            return false;
        }
    }
    return true;
}

static const char directions[] =
    "graph q2(e: f32[64, 64], w: i4[64, $0], s: f32[2, $0], wt: i4[$0, 64], st: f32[$0, 2]) {\n"
    "  y = matmul(e, dequantize(w, s, axis=0, block=32))\n"
    "  t = matmul(e, transpose(dequantize(wt, st, axis=1, block=32)))\n"
    "  return y, t }";
static const char nibbles[] =
    "graph q6(e: f32[16, 16], e15: f32[15, 15], one: f32[1, 1], a: i4[16, 1], b: u4[16, 1],\n"
    "         c: i4[1, 16], d: i4[15, 1], f: i2[16, 1], g: u2[16, 1]) {\n"
    "  ya = matmul(e, cast(a, f32)); yb = matmul(e, cast(b, f32))\n"
    "  yc = matmul(one, cast(c, f32)); yd = matmul(e15, cast(d, f32))\n"
    "  yf = matmul(e, cast(f, f32)); yg = matmul(e, cast(g, f32))\n"
    "  return ya, yb, yc, yd, yf, yg }";
static const char row_slice[] =
    "graph q8(x: f32[3, 232], w: u4[464, 8], s: f32[29, 8]) {\n"
    "  y = matmul(x, slice(dequantize(w, s, axis=0, block=16), axis=0, start=232, stop=464))\n"
    "  return y }";
static const char short_block[] = "graph x1(x: f16[4, $0], w: u4[$0, $1], s: f16[$3, $1]) {\n"
                                  "  y = matmul(x, dequantize(w, s, axis=0, block=$2))\n"
                                  "  return y }";

static const struct report quant[] = {
    Q1("16 128"),
    Q1("32 64"),
    Q1("128 16"),
    Q1("512 4"),
    Q1("1024 2"),
    Q1("2048 1"),
    {.id = "Q2",
     .text = directions,
     .sub = "6",
     .in = {{"e", "eye", NULL},
            {"w", "iota 16 -8", NULL},
            {"s", "iota 97 1", NULL},
            {"wt", "iota 16 -8", NULL},
            {"st", "iota 97 1", NULL}},
     .also = scaled_by_block},
    {.id = "Q2",
     .text = directions,
     .sub = "5",
     .in = {{"e", "eye", NULL},
            {"w", "iota 16 -8", NULL},
            {"s", "iota 97 1", NULL},
            {"wt", "iota 16 -8", NULL},
            {"st", "iota 97 1", NULL}},
     .also = scaled_by_block},
    Q4("u4", "8", "8", "0"),
    Q4("u4", "0", "8", "-256"),
    Q4("u8", "128", "128", "0"),
    {.id = "Q4", /* a zero point that is not there is 0 */
     .text = "graph q4(x: f32[2, 32], w: u4[32, 8], s: f32[]) {\n"
             "  y = matmul(x, dequantize(w, s))\n"
             "  return y }",
     .in = {{"x", "list 1", NULL}, {"w", "list 8", NULL}, {"s", "list 1", NULL}},
     .want = {{"y", "list 256", NULL}}},
    Q5("1 32 16", "4352"),
    Q5("1 64 8", "2304"),
    Q5("1 128 4", "1280"),
    Q5("1 256 2", "768"),
    Q5("2 256 2", "768"),
    Q5("16 32 16", "4352"),
    Q5("16 64 8", "2304"),
    Q5("16 256 2", "768"),
    {.id = "Q6",
     .text = nibbles,
     .in = {{"e", "eye", NULL},
            {"e15", "eye", NULL},
            {"one", "list 1", NULL},
            {"a", "iota 16 -8", NULL},
            {"b", "iota 16 0", NULL},
            {"c", "iota 16 -8", NULL},
            {"d", "iota 16 -8", NULL},
            {"f", "iota 4 -2", NULL}},
     .want = {{"ya", "iota 16 -8", NULL},
              {"yb", "iota 16 0", NULL},
              {"yc", "iota 16 -8", NULL},
              {"yd", "iota 16 -8", NULL},
              {"yf", "iota 4 -2", NULL}}},
    {.id = "Q6",
     .text = "graph q6(e: f32[16, 16], g: u2[16, 1]) { y = matmul(e, cast(g, f32)); return y }",
     .in = {{"e", "eye", NULL}, {"g", "iota 4 0", NULL}},
     .want = {{"y", "iota 4 0", NULL}}},
    {.id = "Q8", .text = row_slice, .in = {{"w", "iota 16 0", NULL}, {"s", "iota 232 1", NULL}}},
    {.id = "Q8", /* row 232 alone has weight 1: scale 14, and the row after the next border 15 */
     .text = row_slice,
     .in = {{"x", "list 0; 0 1 1; 239 1 1; 240 1 1; 464 1 1", NULL},
            {"w", "list 1", NULL},
            {"s", "rows 0", NULL}},
     .want = {{"y", "list 14 14 14 14 14 14 14 14 29 29 29 29 29 29 29 29 14 14 14 14 14 14 14 14",
               NULL}}},
    Q10("f32", "0", "0 2 2 0 -2 127"),
    Q10("f32", "3", "3 5 5 3 1 127"),
    Q10("f16", "0", "0 2 2 0 -2 127"),
    Q10("f16", "3", "3 5 5 3 1 127"),
    /* sizes that no tile divides, the last block short */
    {.id = "X1", .text = short_block, .sub = "10944 64 64 171", .rows = 2},
    {.id = "X1", .text = short_block, .sub = "10944 64 128 86", .rows = 2},
    {.id = "X1", .text = short_block, .sub = "200 5472 128 2", .rows = 2},
    {.id = "X1", .text = short_block, .sub = "72 59136 64 2", .rows = 1},
};

static void test_quant(void **state) {
    (void)state;
    run_table(quant, COUNT_OF(quant), NULL);
}

/* On a machine without vectors, with the smallest tiles that are planned. */
static void test_quant_small_tiles(void **state) {
    (void)state;
    run_table(quant, COUNT_OF(quant) - 4, "generic");
}

/* ---- NaN, infinities, literals --------------------------------------------------------------- */

static const char nans[] = "graph v1(v: f32[$0], one: f32[1, 1], c: f32[$0]) {\n"
                           "  y = matmul($1)\n"
                           "  a = maximum(y, c); b = maximum(c, y); d = minimum(y, c)\n"
                           "  e = clamp(y, 0.5, 2); f = relu(y); g = max(y)\n"
                           "  return a, b, d, e, f, g }";
#define V1(sub_)                                                                                   \
    {                                                                                              \
        .id = "V1", .text = nans, .sub = sub_,                                                     \
        .in = {{"v", "list 1 nan 2 3 -4 0.25 nan 7", NULL},                                        \
               {"one", "list 1", NULL},                                                            \
               {"c", "list 0 1 nan 5 1 1 nan 6", NULL}},                                           \
        .want = {                                                                                  \
            {"a", "list 1 nan nan 5 1 1 nan 7", NULL},                                             \
            {"b", "list 1 nan nan 5 1 1 nan 7", NULL},                                             \
            {"d", "list 0 nan nan 3 -4 0.25 nan 6", NULL},                                         \
            {"e", "list 1 nan 2 2 0.5 0.5 nan 2", NULL},                                           \
            {"f", "list 1 nan 2 3 0 0.25 nan 7", NULL},                                            \
            {"g", "list nan", NULL}                                                                \
        }                                                                                          \
    }

static const char masked[] =
    "graph v5(q: f32[1, 1, $0, 8], k: f32[1, 1, $0, 8], v: f32[1, 1, $0, 8], m: bool[$0, $0]) {\n"
    "  y = attention(q, k, v) { mask(b, h, i, j) = take(m, i, j) }\n"
    "  return y }";

static const char added_mask[] =
    "graph v5(q: f32[1, 1, $0, 8], k: f32[1, 1, $0, 8], v: f32[1, 1, $0, 8], m: f32[$0, $0]) {\n"
    "  y = attention(q, k, v) { score(s, b, h, i, j) = s + take(m, i, j) }\n"
    "  return y }";

/* Keys from 64 on are hidden; equal scores, so that a result is the mean of what is seen. */
static const char hidden[] =
    "graph v7(q: $0[2, 4, $1, 8], k: $0[2, 2, 70, 8], v: $0[2, 2, 70, $2]) {\n"
    "  y, l = attention(q, k, v) {\n"
    "    mask(b, h, i, j) = j < 64\n"
    "    prob(p, b, h, i, j) = p * 2 }\n"
    "  return y }";
#define V7(sub_, k_, v_)                                                                           \
    {                                                                                              \
        .id = "V7", .text = hidden, .sub = sub_,                                                   \
        .in = {{"q", "list 0", NULL},                                                              \
               {"k", "list 1; 512 48 nan; 1072 48 inf; 2208 32 nan", NULL},                        \
               {"v", v_, NULL}},                                                                   \
        .want = {                                                                                  \
            {"y", k_, NULL}                                                                        \
        }                                                                                          \
    }

static const struct report special[] = {
    /* what the mask hides may be anything: the end of a buffer that nobody wrote */
    V7("f32 2 4", "list 6", "list 3; 256 24 nan; 536 24 inf; 816 24 -inf; 1096 24 nan"),
    V7("bf16 40 4", "list 6", "list 3; 256 24 nan; 536 24 inf; 816 24 -inf; 1096 24 nan"),
    V7("f16 1 48", "list 6", "list 3; 3072 288 nan; 6432 288 inf; 9792 288 nan; 13152 288 inf"),
    V7("f64 33 48", "list 6", "list 3; 3072 288 nan; 6432 288 inf; 9792 288 nan; 13152 288 inf"),
    V1("8,1 v,one"),
    V1("1,37 one,v"), /* vectors and what is left after them */
    {.id = "V3", .text = "graph v3(a: f32[65, 70], b: f32[70, 67]) { y = matmul(a, b); return y }"},
    {.id = "V3", /* a factor 0 in the graph keeps a NaN */
     .text = "graph v3(a: f32[65, 70], b: f32[70, 67], c: f32[65, 67]) {\n"
             "  y = c * 0 + matmul(a, b); return y }",
     .in = {{"c", "list nan", NULL}},
     .want = {{"y", "list nan", NULL}}},
    {.id = "V5", /* rows that see nothing */
     .text = masked,
     .sub = "8",
     .in = {{"m", "list 1; 32 32 0", NULL}},
     .want = {{"y", "keep; 32 32 0", NULL}}},
    {.id = "V5", /* row 0 sees no key of the first block */
     .text = masked,
     .sub = "200",
     .in = {{"m", "list 1; 0 128 0", NULL}}},
    {.id = "V5",
     .text = masked,
     .sub = "200",
     .in = {{"m", "list 1; 0 200 0", NULL}},
     .want = {{"y", "keep; 0 8 0", NULL}}},
    {.id = "V5", /* the same masks added as -inf: a row that sees a key is as above */
     .text = added_mask,
     .sub = "200",
     .in = {{"m", "list 0; 0 128 -inf; 12000 199 -inf", NULL}}},
    {.id = "V5", /* .. and one of -inf alone sees nothing either */
     .text = added_mask,
     .sub = "8",
     .in = {{"m", "list 0; 32 32 -inf", NULL}},
     .want = {{"y", "keep; 32 32 0", NULL}}},
    {.id = "V5", /* nor what v has there */
     .text = added_mask,
     .sub = "8",
     .in = {{"m", "list -inf 0 0 0 0 0 0 -inf", NULL},
            {"v", "list 2; 0 8 nan; 56 8 -inf", NULL},
            {"q", "list 0", NULL}},
     .want = {{"y", "list 2", NULL}}},
    {.id = "V5",
     .text = added_mask,
     .sub = "8",
     .in = {{"m", "list -inf", NULL}, {"v", "list nan inf", NULL}},
     .want = {{"y", "list 0", NULL}}},
    {.id = "V6",
     .text = "graph v6(a: f32[8, 8], b: f32[8, 8]) {\n"
             "  y = matmul(a, b)\n"
             "  p = clamp(y, -0.5, inf); q = clamp(y, -inf, 0.5); r = where(y > 0, y, -inf)\n"
             "  s = y * nan; t = y + 1e-45; u = y * 3.4028235e38\n"
             "  return p, q, r, s, t, u }",
     .in = {{"a", "eye", NULL}, {"b", "list 0 1 -1 2 -2 0.25 -0.25 3", NULL}},
     .want = {{"p", "list 0 1 -0.5 2 -0.5 0.25 -0.25 3", NULL},
              {"q", "list 0 0.5 -1 0.5 -2 0.25 -0.25 0.5", NULL},
              {"r", "list -inf 1 -inf 2 -inf 0.25 -inf 3", NULL},
              {"s", "list nan", NULL},
              {"t", "list 1.401298464324817e-45 1 -1 2 -2 0.25 -0.25 3", NULL},
              {"u",
               "list 0 3.4028234663852886e38 -3.4028234663852886e38 inf -inf "
               "8.507058665963221e37 -8.507058665963221e37 inf",
               NULL}}},
    {.id = "V6", /* wraps; and a literal beyond f16 rounds to infinity */
     .text = "graph v6(a: f16[8, 8], b: f16[8, 8], n: i64[8]) {\n"
             "  y = matmul(a, b) + 70000; m = n + -9223372036854775808\n"
             "  return y, m }",
     .in = {{"a", "eye", NULL}, {"b", "list 0 1", NULL}, {"n", "list 0", NULL}},
     .want = {{"y", "list inf", NULL}, {"m", "list -9223372036854775808", NULL}}},
};

static void test_special(void **state) {
    (void)state;
    run_table(special, COUNT_OF(special), NULL);
}

static void test_special_small_tiles(void **state) {
    (void)state;
    run_table(special, COUNT_OF(special), "generic");
}

/* ---- views and broadcasts -------------------------------------------------------------------- */

static const char queries[] =
    "graph b6(q: f16[1, $0, $2, $4], k: f16[1, $1, $3, $4], v: f16[1, $1, $3, $4]) {\n"
    "  y = attention(q, k, v)\n"
    "  return y }";

static const struct report views[] = {
    {.id = "B1",
     .text =
         "graph b1(x: bf16[4, 30, 30], w: bf16[3, 4, 30, 20], w5: bf16[3, 4, 30, 40],\n"
         "         xs: bf16[5, 30, 30], bias: bf16[50]) {\n"
         "  y = matmul(x, squeeze(slice(w, axis=0, start=2), 0))\n"
         "  z = matmul(x, slice(slice(w5, axis=0, start=1, stop=2), axis=3, start=8, stop=24))\n"
         "  w0 = squeeze(slice(w, axis=0, stop=1), 0)\n"
         "  u = matmul(slice(xs, axis=0, start=1), w0) + slice(bias, axis=0, start=30)\n"
         "  return y, z, u }"},
    {.id = "B2",
     .text = "graph b2(x: f16[16, 64], w: i8[64, 192], w2: i8[96, 64]) {\n"
             "  y = matmul(x, cast(slice(w, axis=1, step=2), f16))\n"
             "  z = matmul(x, transpose(cast(w2, f16)))\n"
             "  return y, z }"},
    {.id = "B2",
     .text = "graph b2(x: f16[16, 64], w: i8[192, 96]) {\n"
             "  y = matmul(x, cast(slice(w, axis=0, start=1, step=3), f16))\n"
             "  return y }"},
    {.id = "B3",
     .text = "graph b3(a: f32[8, 8], x: f32[8]) {\n"
             "  y = matmul(a, a) + reshape(x, [8, 1]); z = matmul(a, a) + reshape(x, [1, 8])\n"
             "  return y, z }",
     .in = {{"a", "list 0", NULL}, {"x", "iota 8 1", NULL}},
     .want = {{"y", "rows 1", NULL}, {"z", "cols 1", NULL}}},
    {.id = "B3",
     .text = "graph b3(a: f32[8, 8], x: f32[8]) {\n"
             "  y = transpose(matmul(a, a) + reshape(x, [8, 1]))\n"
             "  return y }",
     .in = {{"a", "list 0", NULL}, {"x", "iota 8 1", NULL}},
     .want = {{"y", "cols 1", NULL}}},
    {.id = "B6", .text = queries, .sub = "9 3 5 5 64"},
    {.id = "B6", .text = queries, .sub = "9 3 1 257 96"},
    {.id = "B6", .text = queries, .sub = "12 2 5 5 80"},
    {.id = "B6", .text = queries, .sub = "12 2 1 257 64"},
    {.id = "B6", .text = queries, .sub = "14 2 5 5 96"},
    {.id = "B6", .text = queries, .sub = "14 2 1 257 80"},
};

static void test_views(void **state) {
    (void)state;
    run_table(views, COUNT_OF(views), NULL);
}

/* ---- what may be fused ----------------------------------------------------------------------- */

static const char added[] =
    "graph f7(a: $0[100, 100], b: $0[100, 100], d: $0[100, 100], n: i64[100]) {\n"
    "  y = scatter_add(d, n, matmul(a, b), axis=0)\n"
    "  return y }";

static const struct report fusion[] = {
    {.id = "F1",
     .text = "graph f1(a: f32[16, 8], b: f32[8, 6], r: f32[2, 2, 2, 2, 6], c: f32[6, 16]) {\n"
             "  z = permute(reshape(matmul(a, b), [2, 2, 2, 2, 6]), [0, 2, 1, 3, 4]) + r\n"
             "  t = transpose(matmul(a, b)) * c\n"
             "  return z, t }"},
    {.id = "F1",
     .text = "graph f1(a: f32[16, 8], b: f32[8, 6], c: f32[6, 16]) {\n"
             "  t = transpose(matmul(a, b)) * c\n"
             "  return t }"},
    {.id = "F2",
     .text = "graph f2(q: f32[2, 4, 16, 8], k: f32[2, 4, 16, 8]) {\n"
             "  s = matmul(q, transpose(k)); y = s * 0.35355339\n"
             "  return s, y }"},
    {.id = "F2",
     .text =
         "graph f2(q: f32[2, 4, 16, 8], k: f32[2, 4, 16, 8]) {\n"
         "  s = matmul(q, transpose(k)); y = s * 0.35355339; z = relu(s); u = max(s, axes=[2])\n"
         "  return s, y, z, u }"},
    {.id = "F3",
     .text = "graph f3(a: f32[8, 8], b: f32[8, 8], bias: f32[8]) {\n"
             "  y = 0.25 * (matmul(a, b) + bias)\n"
             "  return y }",
     .in = {{"a", "list 0", NULL}, {"bias", "iota 8 1", NULL}},
     .want = {{"y", "list 0.25 0.5 0.75 1 1.25 1.5 1.75 2", NULL}}},
    {.id = "F3",
     .text = "graph f3(a: f32[8, 8], b: f32[8, 8], bias: f32[8], p: f32[8, 8]) {\n"
             "  y = p + (matmul(a, b) + bias) / 64\n"
             "  return y }",
     .in = {{"a", "list 0", NULL}, {"bias", "iota 8 1", NULL}, {"p", "list 1", NULL}},
     .want = {{"y", "list 1.015625 1.03125 1.046875 1.0625 1.078125 1.09375 1.109375 1.125",
               NULL}}},
    {.id = "F3",
     .text = "graph f3(a: f32[8, 8], b: f32[8, 8], bias: f32[8]) {\n"
             "  y = 0.25 * relu(matmul(a, b) + bias)\n"
             "  return y }"},
    {.id = "F4", /* partial sums over K are 100 and -150; all are exact in f32 */
     .text = "graph f4(a: f32[8, 8192], b: f32[8192, 8], bias: f32[8]) {\n"
             "  m = matmul(a, b)\n"
             "  x = relu(m + bias); y = m + bias; z = exp(m / 50)\n"
             "  return x, y, z }",
     .in = {{"a", "list 1", NULL},
            {"b", "list 0.0244140625; 32768 32768 -0.03662109375", NULL},
            {"bias", "list 7", NULL}},
     .want = {{"x", "list 0", NULL}, {"y", "list -43", NULL}}},
    {.id = "F7", .text = added, .sub = "f32"},
    {.id = "F7", .text = added, .sub = "f16"},
    {.id = "F7", .text = added, .sub = "bf16"},
    {.id = "F7", /* bf16 alone would stop at 256 */
     .text = "graph f7(a: bf16[1000, 1], b: bf16[1, 4], d: bf16[1, 4], n: i64[1000]) {\n"
             "  y = scatter_add(d, n, matmul(a, b), axis=0)\n"
             "  return y }",
     .in = {{"a", "list 1", NULL},
            {"b", "list 1", NULL},
            {"d", "list 0", NULL},
            {"n", "list 0", NULL}},
     .want = {{"y", "list 1000", NULL}}},
};

static void test_fusion(void **state) {
    (void)state;
    run_table(fusion, COUNT_OF(fusion), NULL);
}

/* ---- one kernel, and what it moves ----------------------------------------------------------- */

/* Kernels and bytes of the plan, for a fixed machine; the weights are not filled in. */
static void plan_of(const char *text, const char *sub, int kernels, int64_t most) {
    struct err e;
    err_clear(&e);
    struct str t;
    str_init(&t, &allocator_default);
    substitute(text, sub, &t);
    struct subject s;
    struct variant v;
    struct rig r = {.threads = 1};
    assert_true(device_by_name("avx2", 4, &r.device));
    if (subject_open(&s, str_text(&t), NULL, 0, 1, FILL_RANDOM, &e) != PROEM_OK)
        fail_msg("%s", e.text);
    if (variant_plan(&v, &s, PREC_BOUNDARY, FUSE_MODEL, &r) != PROEM_OK) fail_msg("%s", v.err.text);
    if ((int)v.plan.kernels.n != kernels)
        fail_msg("%s: %d kernels and not %d", sub, (int)v.plan.kernels.n, kernels);
    if (v.plan.bytes_fused < 0 || v.plan.bytes_fused > most)
        fail_msg("%s: %lld bytes, more than %lld", sub, (long long)v.plan.bytes_fused,
                 (long long)most);
    variant_close(&v);
    subject_close(&s);
    str_free(&t);
}

/* P1: a gather in the loads of the product. Rows that are read, b, the indices, the result. */
static void test_gather_is_fused(void **state) {
    (void)state;
    plan_of("graph p1(t: f16[4096, 1024], ids: i32[1024], b: f16[1024, 1024]) {\n"
            "  y = matmul(take(t, ids, axis=0), b)\n"
            "  return y }",
            "P1", 1, 3 * 1024 * 1024 * 2 + 1024 * 4);
}

/* P2: the weight's cast in the loads, for any number of rows. 16 MiB of weight once, never as f16.
 */
static void test_cast_is_fused(void **state) {
    (void)state;
    static const char *const rows[] = {"1", "2", "8", "64", "512"};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t m = atoi(rows[i]);
        plan_of("graph p2(x: bf16[$0, 4096], w: i8[4096, 4096], s: bf16[4096]) {\n"
                "  y = matmul(x, transpose(cast(w, bf16))) * s\n"
                "  return y }",
                rows[i], 1, 4096 * 4096 + 4096 * 2 + 2 * m * 4096 * 2);
        plan_of("graph p2(x: f32[$0, 512], w: f32[512, 512]) {\n"
                "  y = matmul(cast(x, f16), transpose(cast(w, f16)))\n"
                "  return y }",
                rows[i], 1, 512 * 512 * 4 + m * 512 * 6);
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quant),
        cmocka_unit_test(test_quant_small_tiles),
        cmocka_unit_test(test_special_small_tiles),
        cmocka_unit_test(test_special),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_fusion),
        cmocka_unit_test(test_gather_is_fused),
        cmocka_unit_test(test_cast_is_fused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
