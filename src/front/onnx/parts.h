/* SPDX-License-Identifier: MIT
 * Parts of operators that several files of operators use, so that an operator of com.microsoft and
 * ONNX's own become the same graph.
 */
#ifndef PROEM_ONNX_PARTS_H
#define PROEM_ONNX_PARTS_H

#include "front/onnx/import.h"

/* ---- products (ops_product.c) ---------------------------------------------------------------- */

/* A scale or zero point beside a matrix: a scalar, or one entry for each row of the left operand,
 * each column of the right one; of the operand's rank it broadcasts as it is. */
value_id ox_beside(struct ox *o, const struct ox_node *n, value_id v, int rank, bool is_left);
/* Inputs q - zero in i32, exactly; the product of two such is what the integer operators mean. */
value_id ox_less_zero(struct ox *o, const struct ox_node *n, int q, int zero, bool is_left);
value_id ox_integer_product(struct ox *o, const struct ox_node *n, value_id a, value_id b);
/* A whole tensor as u8, its range widened to hold 0. */
bool ox_quantize_whole(struct ox *o, const struct ox_node *n, value_id x, value_id *y,
                       value_id *scale, value_id *zero);

/* ---- attention (ops_attention.c) ------------------------------------------------------------- */

/* q [B, G, R, S, D], k [B, G, 1, L, D], v [B, G, 1, L, E]: R heads share a key. */
struct ox_heads {
    value_id q, k, v;
    sx B, H, G, R, S, L, past;
    enum dtype dtype;
    bool flat; /* operands and result have heads in the last dim */
};

/* [B, S, H * D] to [B, H, S, D]; what has four dims stays. */
value_id ox_split_heads(struct ox *o, const struct ox_node *n, value_id x, sx heads);
/* From q [B, H, S, D], k [B, G, L, D], v [B, G, L, E] in h; fills all but past and flat. */
bool ox_group_heads(struct ox *o, const struct ox_node *n, struct ox_heads *h);
/* A mask or bias whose last dims are [.., H or 1, S, L] as [.., G, R, S, L]. */
value_id ox_mask_heads(struct ox *o, const struct ox_node *n, const struct ox_heads *h, value_id m);

struct ox_attend {
    double root;    /* of the scale, which both operands get */
    double softcap; /* 0: none */
    value_id see;   /* what may be seen; 0: everything */
    value_id bias;  /* added to the scores; 0: nothing */
    value_id sink; /* a score of each head [G, R, 1, 1] that takes part in the sum alone; 0: none */
    enum dtype soft;   /* of the softmax */
    value_id steps[4]; /* out: the product, after the cap, after the masks, the weights */
};
/* The result [B, G, R, S, E] in h's dtype; a row that sees nothing is 0. */
value_id ox_attend(struct ox *o, const struct ox_node *n, const struct ox_heads *h,
                   struct ox_attend *a);
/* [B, G, R, S, X] as [B, H, S, X]. */
value_id ox_join_heads(struct ox *o, const struct ox_node *n, const struct ox_heads *h, value_id x);
/* Output 0, with heads where the operands have them. */
bool ox_give_heads(struct ox *o, const struct ox_node *n, const struct ox_heads *h, value_id y);
/* The size of a head of q as a scale's root; attribute `scale` wins. 0 after an error. */
double ox_root_scale(struct ox *o, const struct ox_node *n, value_id q);

/* x [B, S, H, D] with its first `rot` elements rotated: pairs (even, odd) or halves, by cos and sin
 * [B or 1, S, 1, rot / 2]. */
value_id ox_rotate(struct ox *o, const struct ox_node *n, value_id x, value_id cosine,
                   value_id sine, sx rot, bool pairs);

#endif
