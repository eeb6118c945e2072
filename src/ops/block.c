/* SPDX-License-Identifier: MIT
 * The table of block formats. The layouts are those of GGML's quantized types, as the GGUF
 * specification and the gguf package define them; MXFP4 is OCP's MX format with 4-bit floats,
 * NVFP4 has a scale of 8 bits for 16 of them.
 */
#include "ops/block.h"

/* Pieces that several rows' texts are made of. An element's byte is picked by broadcasting the
 * bytes over a dim of shifts, so that its index is a quotient and its shift a remainder. */
#define TEXT_HALF(name, at, end)                                                                   \
    name " = cast(bitcast(slice(b, axis=1, start=" #at ", stop=" #end "), f16), f32);"
#define TEXT_BYTES(name, at, end) name " = slice(b, axis=1, start=" #at ", stop=" #end ");"
/* [B, groups, bytes] as [B, groups, 8/bits, bytes], each byte shifted by 0, bits, .. */
#define TEXT_SPREAD(name, of, groups, bytes, parts, bits, mask)                                    \
    name " = (reshape(" of ", [B, " #groups ", 1, " #bytes "]) >> iota(u8, [1, 1, " #parts         \
         ", 1], axis=2) * " #bits ") & " #mask ";"
/* Bytes' parts one after another: [B, bytes] as [B, bytes, 8/bits] */
#define TEXT_PARTS(name, of, parts, bits, mask)                                                    \
    name " = (unsqueeze(" of ", 2) >> iota(u8, [1, 1, " #parts "], axis=2) * " #bits ") & " #mask  \
         ";"
/* Six-bit scales and minima of eight groups: the first four are whole bytes' low six bits, the
 * others' low four bits stand in the last four bytes, their high two above the first ones. */
#define TEXT_SCALES_K                                                                              \
    "a = unsqueeze(slice(b, axis=1, start=4, stop=8), 1);"                                         \
    "c = unsqueeze(slice(b, axis=1, start=8, stop=12), 1);"                                        \
    "h = unsqueeze(slice(b, axis=1, start=12, stop=16), 1);"                                       \
    "first = iota(u8, [1, 2, 1], axis=1) == 0;"                                                    \
    "s = where(first, a & 63, (h & 15) | ((a >> 2) & 48));"                                        \
    "t = where(first, c & 63, (h >> 4) | ((c >> 2) & 48));"                                        \
    "ds = cast(bitcast(slice(b, axis=1, start=0, stop=2), f16), f32) * "                           \
    "cast(reshape(s, [B, 8]), f32);"                                                               \
    "dt = cast(bitcast(slice(b, axis=1, start=2, stop=4), f16), f32) * "                           \
    "cast(reshape(t, [B, 8]), f32);"
/* A table of sixteen i8 as four words, the first entry in the low byte: n picks a word, then a
 * byte. */
#define TEXT_TABLE(name, n, w0, w1, w2, w3)                                                        \
    "word = where(" n " < 8, where(" n " < 4, cast(" #w0 ", u32), cast(" #w1 ", u32)), where(" n   \
    " < 12, cast(" #w2 ", u32), cast(" #w3 ", u32)));" name                                        \
    " = cast(bitcast(cast(word >> (cast(" n ", u32) & 3) * 8, u8), i8), f32);"
/* -127 -104 -83 -65, -49 -35 -22 -10, 1 13 25 38, 53 69 89 113 */
#define TEXT_TABLE_NL(name, n) TEXT_TABLE(name, n, 3215825025, 4142587343, 639175937, 1901675829)
/* 0 1 2 3, 4 6 8 12, 0 -1 -2 -3, -4 -6 -8 -12: e2m1 doubled, without a negative zero */
#define TEXT_TABLE_E2M1(name, n) TEXT_TABLE(name, n, 50462976, 201852420, 4261347072, 4109957884)

static const struct block_format formats[] = {
#define BLOCK(id, name, gguf, elements, bytes, half0, half1, exponent, text)                       \
    {name,                                                                                         \
     gguf,                                                                                         \
     elements,                                                                                     \
     bytes,                                                                                        \
     {half0, half1},                                                                               \
     exponent,                                                                                     \
     "graph " name "(b: u8[B, " #bytes "]) {" text "}"},
#include "ops/block.def"
#undef BLOCK
};

const struct block_format *block_format(enum dtype d) {
    return &formats[d - DT_COUNT];
}

enum dtype block_from_gguf(uint32_t type) {
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        if ((uint32_t)formats[i].gguf == type) return (enum dtype)(DT_COUNT + (int)i);
    }
    return DT_NONE;
}

void block_tame(const struct block_format *f, unsigned char *block, uint64_t word) {
    for (int i = 0; i < 2; i++) {
        if (f->half[i] < 0) continue;
        unsigned char *h = block + f->half[i];
        h[0] = (unsigned char)(word >> (16 * i));
        h[1] = (unsigned char)(0x2c | (word >> (16 * i + 8) & 3));
    }
    if (f->exponent >= 0) block[f->exponent] = (unsigned char)(123 + (word >> 32 & 7));
}
