/* SPDX-License-Identifier: MIT
 * Block formats: known blocks as the gguf package decodes them, by the interpreter's decoders and
 * by the graph text that lowering inlines; the two agree on any bytes; what the graph text may do
 * with a tensor in blocks.
 */
#include "eval_util.h"

#include "opt/lower.h"
#include "ops/block.h"

#include <stdio.h>

/* Six blocks, two rows of three, from a linear congruential generator (Numerical Recipes'), as
 * gguf.quants.dequantize decodes them: FNV-1a of all bits (NaN as 7fc00000), and of elements 1, the
 * first block's last, the last. */
static const struct {
    enum dtype format;
    int elements, bytes;
    uint32_t hash, some[3];
} known[] = {
    {DT_Q4_0, 32, 18, 0xd899698fu, {0xc4c78000u, 0xc495a000u, 0x47446800u}},
    {DT_Q4_1, 32, 20, 0xbd58fed5u, {0x45ae8dc0u, 0x45477b7fu, 0x4363c200u}},
    {DT_Q5_0, 32, 22, 0x310c03bdu, {0xc4478000u, 0xc5bb0800u, 0x3d460000u}},
    {DT_Q5_1, 32, 24, 0x0aa2e43du, {0x449596feu, 0x4602eae0u, 0xc27dc49fu}},
    {DT_Q8_0, 32, 34, 0xa2ac4041u, {0xc6ece800u, 0xc4f96000u, 0x49d51000u}},
    {DT_Q2_K, 256, 84, 0x2312af41u, {0xbd2aeec0u, 0xbcf55b80u, 0x3d217000u}},
    {DT_Q3_K, 256, 110, 0x05f613a9u, {0xc212c800u, 0xc40d8a00u, 0x41bb8400u}},
    {DT_Q4_K, 256, 144, 0x48f6f4a0u, {0x46607481u, 0x4816cd6eu, 0xc32e0380u}},
    {DT_Q5_K, 256, 176, 0x8da3c0ebu, {0x4810f348u, 0x47a790ddu, 0xc5bb48c0u}},
    {DT_Q6_K, 256, 210, 0x8f0fbe20u, {0x7fc00000u, 0x7fc00000u, 0x3e13a6b8u}},
    {DT_IQ4_NL, 32, 18, 0xe81af511u, {0xc698be00u, 0xc65a3400u, 0x491f9480u}},
    {DT_IQ4_XS, 256, 136, 0x5066bf70u, {0x47ca9e00u, 0x47ece800u, 0x47c4ad00u}},
    {DT_TQ1_0, 256, 54, 0x25c0e607u, {0x00000000u, 0x00000000u, 0xb9f3c000u}},
    {DT_TQ2_0, 256, 66, 0xc291bcb5u, {0xc5d96000u, 0xc5d96000u, 0x3dbea000u}},
    {DT_MXFP4, 32, 17, 0x5c180972u, {0x1d800000u, 0x9ec00000u, 0x48800000u}},
    {DT_NVFP4, 64, 36, 0x0ea4b75au, {0xc0c00000u, 0x00000000u, 0x42c00000u}},
};

enum { ROWS = 2, BLOCKS = 3, MOST_BYTES = ROWS * BLOCKS * 210 };

static void make_bytes(unsigned char *to, int n, uint32_t x) {
    for (int i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        to[i] = (unsigned char)(x >> 24);
    }
}

static uint32_t bits_at(const struct eval_result *r, int64_t i) {
    union scalar v = elem_load(DT_F32, r->data, i);
    return isnan(v.f) ? 0x7fc00000u : (uint32_t)elem_bits(DT_F32, v);
}

static uint32_t hash_of(const struct eval_result *r) {
    uint32_t h = 2166136261u;
    for (int64_t i = 0; i < r->n; i++) {
        uint32_t v = bits_at(r, i);
        for (int k = 0; k < 4; k++)
            h = (h ^ (v >> (8 * k) & 255)) * 16777619u;
    }
    return h;
}

/* y = dequantize(w) with these bytes; lowered: of the graph without formats. */
static void decode(struct fixture *f, enum dtype d, const unsigned char *bytes, bool lowered) {
    const struct block_format *b = block_format(d);
    char text[128];
    snprintf(text, sizeof text, "graph g(w: %s[N, K]) { y = dequantize(w); return y }", b->name);
    fx_parse(f, text);
    int64_t *shape = ARENA_NEW(&f->arena, int64_t, 3);
    shape[0] = ROWS;
    shape[1] = (int64_t)BLOCKS * b->elements;
    value_id w = f->g->params.at[0].value;
    assert_int_equal(dims_bind_param(f->g, &f->binding, w, 2, shape, &f->err), PROEM_OK);
    f->input[0] = (struct eval_input){2, shape, bytes};
    if (lowered) {
        struct lowered low;
        assert_int_equal(opt_lower(f->g, &low, &f->err), PROEM_OK);
        f->g = low.graph;
        assert_int_equal(graph_verify(f->g, &f->err), PROEM_OK);
        shape[1] = BLOCKS;
        shape[2] = b->bytes;
        f->input[0].rank = 3;
        for (value_id v = 1; v < f->g->values.n; v++)
            assert_false(dtype_is_block(graph_value(f->g, v)->dtype));
    }
    f->options.intervals = !lowered; /* a decoder's values are exact; composites' insides are not */
    fx_run(f);
    if (!lowered) fx_expect_exact(f, 0);
}

static void test_known(void **state) {
    (void)state;
    assert_int_equal(COUNT_OF(known), DT_BLOCK_END - DT_COUNT);
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        unsigned char bytes[MOST_BYTES];
        const struct block_format *b = block_format(known[i].format);
        assert_int_equal(b->elements, known[i].elements);
        assert_int_equal(b->bytes, known[i].bytes);
        make_bytes(bytes, ROWS * BLOCKS * b->bytes, 1);
        for (int lowered = 0; lowered < 2; lowered++) {
            struct fixture f;
            decode(&f, known[i].format, bytes, lowered != 0);
            const struct eval_result *r = &f.results.at[0];
            assert_int_equal(r->n, ROWS * BLOCKS * b->elements);
            assert_int_equal(bits_at(r, 1), known[i].some[0]);
            assert_int_equal(bits_at(r, b->elements - 1), known[i].some[1]);
            assert_int_equal(bits_at(r, r->n - 1), known[i].some[2]);
            if (hash_of(r) != known[i].hash) fail_msg("%s: values differ", b->name);
            fx_free(&f);
        }
    }
}

static void test_two_decoders(void **state) {
    (void)state;
    for (int d = DT_COUNT; d < DT_BLOCK_END; d++) {
        for (uint32_t seed = 2; seed < 12; seed++) {
            unsigned char bytes[MOST_BYTES];
            struct fixture a, b;
            make_bytes(bytes, ROWS * BLOCKS * block_format((enum dtype)d)->bytes, seed);
            decode(&a, (enum dtype)d, bytes, false);
            decode(&b, (enum dtype)d, bytes, true);
            assert_int_equal(hash_of(&a.results.at[0]), hash_of(&b.results.at[0]));
            fx_free(&a);
            fx_free(&b);
        }
    }
}

static void test_rows(void **state) {
    (void)state;
    assert_int_equal(dtype_from_name("q4_k", 4), DT_Q4_K);
    assert_string_equal(dtype_name(DT_Q4_K), "q4_k");
    assert_int_equal(block_from_gguf(12), DT_Q4_K);
    assert_int_equal(block_from_gguf(9999), DT_NONE);
    assert_int_equal(dtype_bytes(DT_Q4_0, 64), 36);
    assert_int_equal(dtype_bytes(DT_Q4_0, 63), -1);
    assert_int_equal(dtype_bytes(DT_Q8_0, INT64_MAX / 32 * 32), -1);
    assert_false(dtype_has_arith(DT_Q4_0));
    assert_false(dtype_is_subbyte(DT_Q4_0));
}

static void expect_error(const char *text, const char *message) {
    struct arena arena;
    struct graph_file file = {0};
    struct err e = {0};
    arena_init(&arena, &allocator_default);
    assert_int_not_equal(graph_parse(&arena, "t", text, strlen(text), false, &file, &e), PROEM_OK);
    if (strstr(e.text, message) == NULL) fail_msg("'%s' is not in '%s'", message, e.text);
    arena_free(&arena);
}

static void test_errors(void **state) {
    (void)state;
    expect_error("graph g(w: q4_0[4, 32]) { return w + w }",
                 "stored in blocks; write dequantize(w)");
    expect_error("graph g(w: q4_0[4, 32]) { return w }", "write dequantize(w)");
    expect_error("graph g(w: q4_0[4, 32]) { return reshape(w, [128]) }", "stored in blocks");
    expect_error("graph g(w: q4_0[4, 33]) { return dequantize(w) }", "a multiple of 32");
    expect_error("graph g(w: q4_0[]) { return dequantize(w) }", "1 to 8 dimensions");
    expect_error("graph g(w: q4_0[4, 32], s: f32[]) { return dequantize(w, s) }",
                 "leave out scale");
    expect_error("graph g(w: q4_0[4, 32]) { return dequantize(w, dtype=i8) }", "no float dtype");
    expect_error("graph g(x: f32[4, 32]) { return cast(x, q4_0) }", "q4_0 is a block format");
    expect_error("graph g(x: u8[4, 18]) { return bitcast(x, q4_0) }", "q4_0 is a block format");
    expect_error("graph g(w: q4_0[4, 32]) { return dequantize(w, axis=0) }", "leave out axis");
    expect_error("graph g(w: q4_0[4, 32]) { return dequantize(w, block=32) }", "leave out axis");
    expect_error("graph g(q: i8[4]) { return dequantize(q) }", "the scale of q");
}

static void test_print(void **state) {
    (void)state;
    struct fixture f;
    struct str out;
    fx_parse(&f, "graph g(w: q4_k[2, 3, 256]) { return dequantize(w), dequantize(w, dtype=f16) }");
    str_init(&out, &allocator_default);
    graph_print(f.g, false, &out);
    assert_string_equal(str_text(&out), "graph g(w: q4_k[2, 3, 256]) {\n"
                                        "  return dequantize(w), dequantize(w, dtype=f16)\n}\n");
    str_free(&out);
    fx_free(&f);
}

/* A narrower result is rounded once, and any rank has blocks along its last dim. */
static void test_result(void **state) {
    (void)state;
    struct fixture f;
    unsigned char bytes[2 * 3 * 2 * 34] = {0};
    int64_t shape[3] = {2, 3, 64};
    for (int i = 0; i < 12; i++) {
        bytes[i * 34 + 1] = 0x2e; /* 0.09375 */
        for (int k = 0; k < 32; k++)
            bytes[i * 34 + 2 + k] = (unsigned char)(i * 32 + k);
    }
    fx_parse(&f, "graph g(w: q8_0[2, 3, K]) { return dequantize(w, dtype=bf16) }");
    value_id w = f.g->params.at[0].value;
    assert_int_equal(dims_bind_param(f.g, &f.binding, w, 3, shape, &f.err), PROEM_OK);
    f.input[0] = (struct eval_input){3, shape, bytes};
    fx_run(&f);
    fx_expect_inside(&f);
    for (int i = 0; i < 384; i++) {
        int q = i % 256 < 128 ? i % 256 : i % 256 - 256;
        assert_true(fx_value(&f, 0, i) == float_round(DT_BF16, q * 0.09375, false));
    }
    fx_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known), cmocka_unit_test(test_two_decoders),
        cmocka_unit_test(test_rows),  cmocka_unit_test(test_errors),
        cmocka_unit_test(test_print), cmocka_unit_test(test_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
