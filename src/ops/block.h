/* SPDX-License-Identifier: MIT
 * Block formats: weights stored as blocks of bytes, each with its scales and packed numbers.
 *
 * A format is one row of ops/block.def. Its meaning is a piece of graph text, a graph from the
 * bytes of B blocks, `b: u8[B, bytes]`, to their values, f32[B, elements]; lowering inlines it, so
 * that everything after it sees operators on a u8 tensor. The reference interpreter has decoders of
 * its own (eval/block.c), written from the formats' specification.
 */
#ifndef PROEM_BLOCK_H
#define PROEM_BLOCK_H

#include "ops/dtype.h"

struct block_format {
    const char *name;
    int gguf;     /* the type's number in GGUF files */
    int elements; /* in a block; blocks lie along the last dim */
    int bytes;    /* of a block */
    /* Where the f16 scales lie, and an e8m0 one (-1: none): what keeps made-up values moderate. */
    int half[2];
    int exponent;
    const char *text; /* the graph */
};

/* d is a block format. */
const struct block_format *block_format(enum dtype d);
/* DT_NONE if no format has that number. */
enum dtype block_from_gguf(uint32_t type);
/* Make the scales of one block moderate: f16 ones in 2^-4..2^-3 by the bits of `word`, e8m0 ones in
 * 2^-4..2^3. */
void block_tame(const struct block_format *f, unsigned char *block, uint64_t word);

#endif
