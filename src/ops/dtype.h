/* SPDX-License-Identifier: MIT
 * Storage dtypes: names, sizes, categories, promotion (PyTorch's rules, contract section 1), and
 * exact conversion of single elements.
 */
#ifndef PROEM_DTYPE_H
#define PROEM_DTYPE_H

#include "base/base.h"

/* X(ID, name, bits, category, significand bits incl. the hidden one (integers: value bits))
 * Categories: B bool, U unsigned, S signed, F float with arithmetic, Q float without (f8 f4 e8m0) */
#define DTYPE_LIST(X)                                                                              \
    X(F64, "f64", 64, F, 53)                                                                       \
    X(F32, "f32", 32, F, 24)                                                                       \
    X(F16, "f16", 16, F, 11)                                                                       \
    X(BF16, "bf16", 16, F, 8)                                                                      \
    X(F8E4M3FN, "f8e4m3fn", 8, Q, 4)                                                               \
    X(F8E5M2, "f8e5m2", 8, Q, 3)                                                                   \
    X(F4E2M1FN, "f4e2m1fn", 4, Q, 2)                                                               \
    X(E8M0, "e8m0", 8, Q, 1)                                                                       \
    X(I64, "i64", 64, S, 63)                                                                       \
    X(I32, "i32", 32, S, 31)                                                                       \
    X(I16, "i16", 16, S, 15)                                                                       \
    X(I8, "i8", 8, S, 7)                                                                           \
    X(I4, "i4", 4, S, 3)                                                                           \
    X(I2, "i2", 2, S, 1)                                                                           \
    X(U64, "u64", 64, U, 64)                                                                       \
    X(U32, "u32", 32, U, 32)                                                                       \
    X(U16, "u16", 16, U, 16)                                                                       \
    X(U8, "u8", 8, U, 8)                                                                           \
    X(U4, "u4", 4, U, 4)                                                                           \
    X(U2, "u2", 2, U, 2)                                                                           \
    X(BOOL, "bool", 8, B, 1)

enum dtype {
    DT_NONE, /* no dtype given */
#define DTYPE_ENUM(id, name, bits, cat, sig) DT_##id,
    DTYPE_LIST(DTYPE_ENUM)
#undef DTYPE_ENUM
        DT_COUNT,
    /* block formats (ops/block.h): how parameters may be stored. No elements of theirs are ever
     * loaded, computed or converted, so loops over dtypes end at DT_COUNT. */
    DT_BLOCK_BEFORE = DT_COUNT - 1,
#define BLOCK(id, name, gguf, elements, bytes, half0, half1, exponent, text) DT_##id,
#include "ops/block.def"
#undef BLOCK
    DT_BLOCK_END
};

enum dtype_cat { CAT_NONE, CAT_B, CAT_U, CAT_S, CAT_F, CAT_Q };

/* A block format? Its name and bytes are known here; its bits are those of a byte, its category is
 * CAT_NONE. */
bool dtype_is_block(enum dtype d);
const char *dtype_name(enum dtype d);
enum dtype dtype_from_name(const char *s, size_t n); /* DT_NONE if there is none */
int dtype_bits(enum dtype d);
enum dtype_cat dtype_cat(enum dtype d);
bool dtype_is_int(enum dtype d);    /* signed or unsigned integer, not bool */
bool dtype_is_signed(enum dtype d); /* signed integer */
bool dtype_is_float(enum dtype d);  /* F or Q */
bool dtype_has_arith(enum dtype d); /* not Q */
bool dtype_is_subbyte(enum dtype d);
int dtype_significand(enum dtype d);
/* Bytes of n elements, sub-byte ones packed; -1 when that overflows int64, or when a block format
 * has no whole number of blocks. */
int64_t dtype_bytes(enum dtype d, int64_t n);
/* Integer range. For u64 the maximum does not fit: max is INT64_MAX. */
void dtype_int_range(enum dtype d, int64_t *min, int64_t *max);
/* Largest finite value of a float dtype, as a double. */
double dtype_max_finite(enum dtype d);

/* The dtype in which lanes of d are computed: f64 f32 i64 u64 i32 u32 (bool: i32, 0 or -1). */
enum dtype dtype_lane(enum dtype d);

/* PyTorch's promotion of two tensors that both have a rank > 0, extended as the contract says.
 * DT_NONE if there is no rule (u64 with signed, Q with another dtype). Sub-byte integers are first
 * widened to i8 or u8 unless both are the same dtype and `arith` is false. */
enum dtype dtype_promote(enum dtype a, enum dtype b, bool arith);
/* The same with 0-dim operands being weak within their category. */
enum dtype dtype_promote_ranked(enum dtype a, bool a_is_scalar, enum dtype b, bool b_is_scalar,
                                bool arith);

/* ---- elements -------------------------------------------------------------------------------- */

/* One scalar value of any dtype: floats in f (exact), integers and bool in i (u64 as its bits). */
union scalar {
    double f;
    int64_t i;
};

/* Element `index` of a packed buffer. Reads only the bytes that hold it. */
union scalar elem_load(enum dtype d, const void *base, int64_t index);
/* Stores v (already a value of d) at `index`; other bits of a shared byte stay. */
void elem_store(enum dtype d, void *base, int64_t index, union scalar v);
/* Contract's `cast`: every pair of dtypes, rounding half to even, saturation rules, NaN rules. */
union scalar elem_cast(enum dtype from, union scalar v, enum dtype to, bool saturate);
/* Round a double to the nearest value of a float dtype (cast from f64), as a double. */
double float_round(enum dtype to, double v, bool saturate);
/* The bit pattern of a value, and back (for bitcast, hashing and tests). */
uint64_t elem_bits(enum dtype d, union scalar v);
union scalar elem_from_bits(enum dtype d, uint64_t bits);

#endif
