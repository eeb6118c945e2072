/* SPDX-License-Identifier: MIT
 * Operators of the domain com.microsoft without attention: products with quantized operands, norms,
 * activations. Their meaning is that of ONNX Runtime's documentation (ContribOperators.md); where
 * that leaves a choice, of its CPU provider.
 *
 * Weights packed below a byte lie low bits first, as the graph's own sub-byte dtypes do, so that
 * reading them is a bitcast: index arithmetic, no work of its own.
 */
#include "front/onnx/parts.h"

#include <string.h>

static struct sx_pool *pool(const struct ox *o) {
    return o->g->sx;
}

/* ---- activations ----------------------------------------------------------------------------- */

static value_id plus_input(struct ox *o, const struct ox_node *n, value_id x, int i) {
    return ox_has(n, i) ? ox_bin(o, n, OP_ADD, x, ox_in(o, n, i)) : x;
}

static bool op_gelu(struct ox *o, const struct ox_node *n) {
    return ox_out(o, n, 0, ox_un(o, n, OP_GELU, ox_in(o, n, 0)));
}

static bool op_bias_gelu(struct ox *o, const struct ox_node *n) {
    return ox_out(o, n, 0, ox_un(o, n, OP_GELU, plus_input(o, n, ox_in(o, n, 0), 1)));
}

static bool op_fast_gelu(struct ox *o, const struct ox_node *n) {
    return ox_out(o, n, 0, ox_un(o, n, OP_GELU_TANH, plus_input(o, n, ox_in(o, n, 0), 1)));
}

static bool op_quick_gelu(struct ox *o, const struct ox_node *n) {
    value_id x = ox_in(o, n, 0);
    if (x == 0) return false;
    value_id alpha = ox_num(o, n, ox_type(o, x)->dtype, ox_attr_f(n, "alpha", (double)1.702f));
    value_id gate = ox_un(o, n, OP_SIGMOID, ox_bin(o, n, OP_MUL, x, alpha));
    return ox_out(o, n, 0, ox_bin(o, n, OP_MUL, x, gate));
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* Results 1 and 2 of a norm of x over its last axis, in f32: the mean (none without `shift`) and the
 * inverse deviation. */
static bool norm_stats(struct ox *o, const struct ox_node *n, value_id x, bool shift, double eps) {
    int axis = ox_type(o, x)->rank - 1;
    value_id w = ox_cast(o, n, x, DT_F32), mean = 0;
    if (axis < 0) return ox_fail(o, n, "its input has no dims");
    if (shift) {
        mean = ox_reduce(o, n, OP_MEAN, w, 1, &axis, true);
        w = ox_bin(o, n, OP_SUB, w, mean);
    }
    value_id var = ox_reduce(o, n, OP_MEAN, ox_bin(o, n, OP_MUL, w, w), 1, &axis, true);
    value_id inv = ox_un(o, n, OP_RSQRT, ox_bin(o, n, OP_ADD, var, ox_num(o, n, DT_F32, eps)));
    if (ox_wants(n, 1) && !shift) return ox_fail(o, n, "this norm has no mean");
    return (!ox_wants(n, 1) || ox_out(o, n, 1, mean)) && ox_out(o, n, 2, inv);
}

/* What ONNX Runtime computes in, with one rounding at the end. */
static enum dtype wide(enum dtype d) {
    return dtype_bits(d) < 32 ? DT_F32 : d;
}

/* The norm of a sum; outputs: the result, mean, inverse deviation, the sum. bias: input of the bias
 * before the norm. */
static bool skip_norm(struct ox *o, const struct ox_node *n, enum op op, int bias) {
    value_id x = ox_in(o, n, 0);
    if (x == 0) return false;
    struct value t = *ox_type(o, x);
    enum dtype d = wide(t.dtype);
    value_id sum = ox_bin(o, n, OP_ADD, ox_cast(o, n, x, d), ox_cast(o, n, ox_in(o, n, 1), d));
    if (ox_has(n, bias)) sum = ox_bin(o, n, OP_ADD, sum, ox_cast(o, n, ox_in(o, n, bias), d));
    struct attrs a = attrs_default(op);
    bool shift = op == OP_LAYER_NORM && ox_has(n, 3);
    const value_id in[] = {sum, ox_cast(o, n, ox_in(o, n, 2), d),
                           shift ? ox_cast(o, n, ox_in(o, n, 3), d) : 0};
    if (sum == 0 || in[1] == 0 || (shift && in[2] == 0)) return false;
    a.param[0] = ox_attr_f(n, "epsilon", (double)1e-12f);
    if ((ox_wants(n, 1) || ox_wants(n, 2)) &&
        !norm_stats(o, n, sum, op == OP_LAYER_NORM, a.param[0]))
        return false;
    value_id y = ox_apply(o, n, op, shift ? 3 : 2, in, &a);
    return ox_out(o, n, 0, ox_cast(o, n, y, t.dtype)) &&
           ox_out(o, n, 3, ox_cast(o, n, sum, t.dtype));
}

static bool op_skip_layer_norm(struct ox *o, const struct ox_node *n) {
    return skip_norm(o, n, OP_LAYER_NORM, 4);
}

static bool op_skip_rms_norm(struct ox *o, const struct ox_node *n) {
    return skip_norm(o, n, OP_RMS_NORM, 3);
}

/* ---- products -------------------------------------------------------------------------------- */

/* An operand with its first dim behind its batch (batch), and its last two dims swapped (swap). */
static value_id turned(struct ox *o, const struct ox_node *n, value_id v, bool batch, bool swap) {
    if (v == 0) return 0;
    int rank = ox_type(o, v)->rank, perm[MAX_RANK];
    if (rank < 2 || (!batch && !swap)) return v;
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    if (batch) {
        for (int i = 0; i + 2 < rank; i++)
            perm[i] = i + 1;
        perm[rank - 2] = 0;
    }
    if (swap) {
        int last = perm[rank - 1];
        perm[rank - 1] = perm[rank - 2];
        perm[rank - 2] = last;
    }
    return ox_permute(o, n, v, rank, perm);
}

static bool op_fused_matmul(struct ox *o, const struct ox_node *n) {
    value_id a = turned(o, n, ox_in(o, n, 0), ox_attr_i(n, "transBatchA", 0) != 0,
                        ox_attr_i(n, "transA", 0) != 0);
    value_id b = turned(o, n, ox_in(o, n, 1), ox_attr_i(n, "transBatchB", 0) != 0,
                        ox_attr_i(n, "transB", 0) != 0);
    value_id y = ox_bin(o, n, OP_MATMUL, a, b);
    double alpha = ox_attr_f(n, "alpha", 1);
    if (y == 0 || alpha == 1) return ox_out(o, n, 0, y);
    return ox_out(o, n, 0, ox_bin(o, n, OP_MUL, y, ox_num(o, n, ox_type(o, y)->dtype, alpha)));
}

/* An integer product times the operands' scales, plus input `bias`. */
static value_id rescaled(struct ox *o, const struct ox_node *n, value_id product, value_id left,
                         value_id right, int bias) {
    if (product == 0 || left == 0 || right == 0) return 0;
    enum dtype d = ox_type(o, right)->dtype;
    value_id y = ox_cast(o, n, product, DT_F32);
    y = ox_bin(o, n, OP_MUL, y, ox_bin(o, n, OP_MUL, left, right));
    return ox_cast(o, n, plus_input(o, n, y, bias), d);
}

static bool op_matmul_integer_to_float(struct ox *o, const struct ox_node *n) {
    value_id a = ox_in(o, n, 0), b = ox_in(o, n, 1);
    if (a == 0 || b == 0) return false;
    int ra = ox_type(o, a)->rank, rb = ox_type(o, b)->rank;
    value_id y =
        ox_integer_product(o, n, ox_less_zero(o, n, 0, 4, true), ox_less_zero(o, n, 1, 5, false));
    return ox_out(o, n, 0,
                  rescaled(o, n, y, ox_beside(o, n, ox_in(o, n, 2), ra, true),
                           ox_beside(o, n, ox_in(o, n, 3), rb, false), 6));
}

static bool op_dynamic_quantize_matmul(struct ox *o, const struct ox_node *n) {
    value_id q, scale, zero, b = ox_in(o, n, 1);
    if (b == 0 || !ox_quantize_whole(o, n, ox_in(o, n, 0), &q, &scale, &zero)) return false;
    int rb = ox_type(o, b)->rank;
    value_id a = ox_bin(o, n, OP_SUB, ox_cast(o, n, q, DT_I32), ox_cast(o, n, zero, DT_I32));
    value_id y = ox_integer_product(o, n, a, ox_less_zero(o, n, 1, 3, false));
    return ox_out(o, n, 0, rescaled(o, n, y, scale, ox_beside(o, n, ox_in(o, n, 2), rb, false), 4));
}

/* ---- packed weights -------------------------------------------------------------------------- */

static enum dtype packed_dtype(int64_t bits) {
    return bits == 2 ? DT_U2 : bits == 4 ? DT_U4 : bits == 8 ? DT_U8 : DT_NONE;
}

/* Bytes [rows, bytes a row] as `count` elements a row. */
static value_id unpacked(struct ox *o, const struct ox_node *n, value_id bytes, enum dtype d,
                         sx rows, sx count) {
    if (bytes == 0) return 0;
    sx per = ox_const(o, 8 / dtype_bits(d));
    sx two[] = {rows, sx_ceil_div(pool(o), count, per)};
    value_id v = ox_reshape(o, n, bytes, 2, two);
    if (d == DT_U8) return v;
    v = ox_bitcast(o, n, v, d);
    return v == 0 ? 0 : ox_slice(o, n, v, 1, ox_const(o, 0), count, 1);
}

struct blocks {
    enum dtype d;
    int64_t N, K, size, count; /* count: blocks a row */
};

/* Zero points [N, count]: packed like the weights, or floats as they are; without them the middle
 * of the range. */
static value_id zero_points(struct ox *o, const struct ox_node *n, int i, const struct blocks *b) {
    sx dims[] = {ox_const(o, b->N), ox_const(o, b->count)};
    if (!ox_has(n, i)) {
        value_id middle = ox_int(o, n, b->d, INT64_C(1) << (dtype_bits(b->d) - 1));
        return ox_expand(o, n, middle, 2, dims);
    }
    value_id z = ox_in(o, n, i);
    if (z == 0) return 0;
    if (dtype_is_float(ox_type(o, z)->dtype)) return ox_reshape(o, n, z, 2, dims);
    return unpacked(o, n, z, b->d, dims[0], dims[1]);
}

/* Scales or zero points of blocks as those of each column, by the block that `order` [K or more] says
 * a column is of. */
static value_id by_order(struct ox *o, const struct ox_node *n, value_id x, value_id order,
                         int64_t K) {
    value_id at =
        ox_slice(o, n, ox_cast(o, n, order, DT_I64), 0, ox_const(o, 0), ox_const(o, K), 1);
    return ox_take(o, n, x, at, 1);
}

/* Rows of packed weights as floats [N, K]: weights at input q, scales at q + 1, zero points at
 * q + 2, and at q + 3 the block of each column where that is not its place. */
static value_id block_weights(struct ox *o, const struct ox_node *n, int q,
                              const struct blocks *b) {
    sx N = ox_const(o, b->N), padded = ox_const(o, b->count * b->size);
    value_id w = unpacked(o, n, ox_in(o, n, q), b->d, N, padded);
    sx dims[] = {N, ox_const(o, b->count)};
    value_id scale = ox_reshape(o, n, ox_in(o, n, q + 1), 2, dims);
    const value_id in[] = {w, scale, zero_points(o, n, q + 2, b)};
    if (w == 0 || scale == 0 || in[2] == 0) return 0;
    struct attrs a = attrs_default(OP_DEQUANTIZE);
    a.has_axis = true;
    a.axis = 1;
    a.block = b->size;
    if (ox_has(n, q + 3)) {
        value_id order = ox_in(o, n, q + 3), cut = w;
        if (!ox_has_rank(o, n, order, 1, 1)) return 0;
        if (b->count * b->size != b->K)
            cut = ox_slice(o, n, w, 1, ox_const(o, 0), ox_const(o, b->K), 1);
        const value_id each[] = {cut, by_order(o, n, scale, order, b->K),
                                 by_order(o, n, in[2], order, b->K)};
        a.block = 1;
        return ox_apply(o, n, OP_DEQUANTIZE, 3, each, &a);
    }
    value_id v = ox_apply(o, n, OP_DEQUANTIZE, 3, in, &a);
    if (b->count * b->size == b->K) return v;
    return ox_slice(o, n, v, 1, ox_const(o, 0), ox_const(o, b->K), 1);
}

static bool read_blocks(struct ox *o, const struct ox_node *n, struct blocks *b) {
    const int64_t most = INT64_C(1) << 40;
    *b = (struct blocks){.d = packed_dtype(ox_attr_i(n, "bits", 4)),
                         .N = ox_attr_i(n, "N", 0),
                         .K = ox_attr_i(n, "K", 0),
                         .size = ox_attr_i(n, "block_size", 0)};
    if (b->d == DT_NONE) return ox_fail(o, n, "bits must be 2, 4 or 8");
    if (b->N < 1 || b->K < 1 || b->size < 1 || b->N > most || b->K > most || b->size > most)
        return ox_fail(o, n, "N, K and block_size must be positive");
    b->count = (b->K + b->size - 1) / b->size;
    return true;
}

/* x [.., K] times the rows of w [N, K]. */
static value_id times_rows(struct ox *o, const struct ox_node *n, value_id x, value_id w) {
    static const int perm[] = {1, 0};
    if (x == 0 || w == 0) return 0;
    enum dtype d = ox_type(o, x)->dtype;
    return ox_cast(o, n, ox_bin(o, n, OP_MATMUL, x, ox_permute(o, n, w, COUNT_OF(perm), perm)), d);
}

static bool op_matmul_nbits(struct ox *o, const struct ox_node *n) {
    struct blocks b;
    if (!read_blocks(o, n, &b)) return false;
    if (ox_attr_i(n, "weight_prepacked", 0) != 0)
        return ox_fail(o, n, "weights that are packed for one device are not supported");
    value_id y = times_rows(o, n, ox_in(o, n, 0), block_weights(o, n, 1, &b));
    return ox_out(o, n, 0, plus_input(o, n, y, 5));
}

/* ---- 4-bit floats by a table ----------------------------------------------------------------- */

/* The value of a code: NF4 holds quantiles of the normal distribution (Dettmers et al., "QLoRA",
 * arXiv:2305.14314, appendix E), FP4 has a sign, two bits of exponent and one of mantissa. */
static const double nf4[] = {
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
};
static const double fp4[] = {
    0.0, 5.208333333e-03,  0.66666667,  1.0,  0.33333333,  0.5,  0.16666667,  0.25,
    0.0, -5.208333333e-03, -0.66666667, -1.0, -0.33333333, -0.5, -0.16666667, -0.25,
};

/* table[code], by selects on the bits of the code. */
static value_id look_up(struct ox *o, const struct ox_node *n, const value_id bit[4],
                        const double *table, int level) {
    if (level < 0) return ox_num(o, n, DT_F32, *table);
    value_id high = look_up(o, n, bit, table + (1 << level), level - 1);
    return ox_tri(o, n, OP_WHERE, bit[level], high, look_up(o, n, bit, table, level - 1));
}

/* The first of two codes is in a byte's high bits. */
static bool op_matmul_bnb4(struct ox *o, const struct ox_node *n) {
    struct blocks b;
    if (!read_blocks(o, n, &b)) return false;
    if (ox_attr_i(n, "transB", 1) == 0) return ox_fail(o, n, "transB must be 1");
    int64_t bytes = (b.N * b.K + 1) / 2, scales = (b.N * b.K + b.size - 1) / b.size;
    sx flat = ox_const(o, bytes), all = ox_const(o, b.N * b.K);
    value_id w = ox_reshape(o, n, ox_in(o, n, 1), 1, &flat), four = ox_int(o, n, DT_U8, 4);
    value_id pair[] = {
        ox_unsqueeze(o, n, ox_bin(o, n, OP_SHIFT_RIGHT, w, four), 1),
        ox_unsqueeze(o, n, ox_bin(o, n, OP_BITWISE_AND, w, ox_int(o, n, DT_U8, 15)), 1)};
    sx twice = ox_const(o, 2 * bytes);
    value_id code = ox_reshape(o, n, ox_concat(o, n, 2, pair, 1), 1, &twice), bit[4];
    for (int i = 0; i < 4; i++) {
        value_id mask = ox_int(o, n, DT_U8, INT64_C(1) << i);
        bit[i] =
            ox_bin(o, n, OP_NE, ox_bin(o, n, OP_BITWISE_AND, code, mask), ox_int(o, n, DT_U8, 0));
    }
    value_id v = look_up(o, n, bit, ox_attr_i(n, "quant_type", 1) == 0 ? fp4 : nf4, 3);
    v = ox_slice(o, n, v, 0, ox_const(o, 0), all, 1);
    sx count = ox_const(o, scales), columns[] = {count, ox_const(o, b.size)};
    value_id scale = ox_reshape(o, n, ox_in(o, n, 2), 1, &count);
    scale = ox_expand(o, n, ox_unsqueeze(o, n, scale, 1), 2, columns);
    sx padded = ox_const(o, scales * b.size), two[] = {ox_const(o, b.N), ox_const(o, b.K)};
    scale = ox_slice(o, n, ox_reshape(o, n, scale, 1, &padded), 0, ox_const(o, 0), all, 1);
    value_id x = ox_in(o, n, 0);
    if (x == 0) return false;
    v = ox_bin(o, n, OP_MUL, v, ox_cast(o, n, scale, DT_F32));
    v = ox_cast(o, n, ox_reshape(o, n, v, 2, two), ox_type(o, x)->dtype);
    return ox_out(o, n, 0, times_rows(o, n, x, v));
}

/* ---- GatherBlockQuantized -------------------------------------------------------------------- */

/* Elements of data and zero points; those packed in bytes lie along the last dim. */
static value_id elements(struct ox *o, const struct ox_node *n, int i, enum dtype d) {
    value_id v = ox_in(o, n, i);
    if (v == 0 || ox_type(o, v)->dtype != DT_U8 || d == DT_U8) return v;
    return ox_bitcast(o, n, v, d);
}

static bool op_gather_block_quantized(struct ox *o, const struct ox_node *n) {
    enum dtype d = packed_dtype(ox_attr_i(n, "bits", 4));
    bool bytes = ox_in_dtype(o, n, 0) == DT_U8;
    value_id q = elements(o, n, 0, d), scale = ox_in(o, n, 2), at = ox_in(o, n, 1);
    if (q == 0 || scale == 0 || at == 0) return false;
    struct value t = *ox_type(o, q), s = *ox_type(o, scale);
    int axis = ox_axis(o, n, ox_attr_i(n, "gather_axis", 0), t.rank);
    struct attrs a = attrs_default(OP_DEQUANTIZE);
    a.has_axis = true;
    a.axis = ox_axis(o, n, ox_attr_i(n, "quantize_axis", 1), t.rank);
    a.block = ox_attr_i(n, "block_size", 128);
    if (axis < 0 || a.axis < 0) return false;
    value_id in[] = {q, scale, ox_has(n, 3) ? elements(o, n, 3, d) : 0};
    if (ox_has(n, 3) && in[2] == 0) return false;
    if (in[2] != 0 && s.rank == t.rank && bytes && d != DT_U8) /* the last byte may be half full */
        in[2] = ox_slice(o, n, in[2], t.rank - 1, ox_const(o, 0), s.dims[t.rank - 1], 1);
    if (in[2] == 0 && bytes) {
        value_id middle = ox_int(o, n, t.dtype, INT64_C(1) << (dtype_bits(t.dtype) - 1));
        in[2] = ox_expand(o, n, middle, s.rank, s.dims);
    }
    value_id w = ox_apply(o, n, OP_DEQUANTIZE, in[2] != 0 ? 3 : 2, in, &a);
    return ox_out(o, n, 0, ox_take(o, n, w, ox_cast(o, n, at, DT_I64), axis));
}

const struct ox_op ox_contrib[] = {
    {"com.microsoft", "Gelu", 1, op_gelu},
    {"com.microsoft", "BiasGelu", 1, op_bias_gelu},
    {"com.microsoft", "FastGelu", 1, op_fast_gelu},
    {"com.microsoft", "QuickGelu", 1, op_quick_gelu},
    {"com.microsoft", "SkipLayerNormalization", 1, op_skip_layer_norm},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", 1, op_skip_rms_norm},
    {"com.microsoft", "FusedMatMul", 1, op_fused_matmul},
    {"com.microsoft", "MatMulIntegerToFloat", 1, op_matmul_integer_to_float},
    {"com.microsoft", "DynamicQuantizeMatMul", 1, op_dynamic_quantize_matmul},
    {"com.microsoft", "MatMulNBits", 1, op_matmul_nbits},
    {"com.microsoft", "MatMulBnb4", 1, op_matmul_bnb4},
    {"com.microsoft", "GatherBlockQuantized", 1, op_gather_block_quantized},
    {0},
};
