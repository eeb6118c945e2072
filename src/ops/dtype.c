/* SPDX-License-Identifier: MIT
 * Dtypes: names, sizes, ranges, and the promotion of two of them.
 *
 * Promotion is PyTorch's torch.result_type. Bool < integer < float are categories; among tensors
 * with dims the result is the narrowest dtype of the higher category that holds both; a 0-dim
 * operand counts only when its category is higher. The contract extends it: sub-byte integers are
 * widened to i8 or u8, u16 and u32 beside a signed type give the smallest signed type that holds
 * both, u64 beside a signed type has no rule, and neither has a Q float beside anything else.
 */
#include "ops/dtype.h"

#include "ops/block.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct dtype_row {
    const char *name;
    int bits;
    enum dtype_cat cat;
    int significand;
};

static const struct dtype_row rows[DT_COUNT] = {[DT_NONE] = {"none", 0, CAT_NONE, 0},
#define DTYPE_ROW(id, name, bits, cat, sig) [DT_##id] = {name, bits, CAT_##cat, sig},
                                                DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

static const struct dtype_row *row(enum dtype d) {
    return (unsigned)d < DT_COUNT ? &rows[d] : &rows[DT_NONE];
}

bool dtype_is_block(enum dtype d) {
    return d >= DT_COUNT && d < DT_BLOCK_END;
}

const char *dtype_name(enum dtype d) {
    return dtype_is_block(d) ? block_format(d)->name : row(d)->name;
}

enum dtype dtype_from_name(const char *s, size_t n) {
    for (int d = DT_NONE + 1; d < DT_COUNT; d++)
        if (strlen(rows[d].name) == n && memcmp(rows[d].name, s, n) == 0) return (enum dtype)d;
    for (int d = DT_COUNT; d < DT_BLOCK_END; d++) {
        const char *name = block_format((enum dtype)d)->name;
        if (strlen(name) == n && memcmp(name, s, n) == 0) return (enum dtype)d;
    }
    return DT_NONE;
}

int dtype_bits(enum dtype d) {
    return dtype_is_block(d) ? 8 : row(d)->bits;
}

enum dtype_cat dtype_cat(enum dtype d) {
    return row(d)->cat;
}

bool dtype_is_int(enum dtype d) {
    return row(d)->cat == CAT_S || row(d)->cat == CAT_U;
}

bool dtype_is_signed(enum dtype d) {
    return row(d)->cat == CAT_S;
}

bool dtype_is_float(enum dtype d) {
    return row(d)->cat == CAT_F || row(d)->cat == CAT_Q;
}

bool dtype_has_arith(enum dtype d) {
    return row(d)->cat != CAT_NONE && row(d)->cat != CAT_Q;
}

bool dtype_is_subbyte(enum dtype d) {
    return d != DT_NONE && dtype_bits(d) < 8;
}

int dtype_significand(enum dtype d) {
    return row(d)->significand;
}

static int64_t block_bytes(const struct block_format *f, int64_t n) {
    if (n < 0 || n % f->elements != 0 || n / f->elements > INT64_MAX / f->bytes) return -1;
    return n / f->elements * f->bytes;
}

int64_t dtype_bytes(enum dtype d, int64_t n) {
    if (dtype_is_block(d)) return block_bytes(block_format(d), n);
    int bits = row(d)->bits;
    if (n < 0 || bits == 0) return -1;
    if (bits >= 8) return n > INT64_MAX / (bits / 8) ? -1 : n * (bits / 8);
    int per_byte = 8 / bits;
    return n / per_byte + (n % per_byte != 0);
}

void dtype_int_range(enum dtype d, int64_t *min, int64_t *max) {
    int bits = row(d)->significand;
    bool is_signed = dtype_is_signed(d);
    *max = bits >= 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
    *min = is_signed ? -*max - 1 : 0;
}

double dtype_max_finite(enum dtype d) {
    switch (d) {
    case DT_F64: return DBL_MAX;
    case DT_F32: return 0x1.fffffep127;
    case DT_F16: return 65504.0;
    case DT_BF16: return 0x1.fep127;
    case DT_F8E4M3FN: return 448.0;
    case DT_F8E5M2: return 57344.0;
    case DT_F4E2M1FN: return 6.0;
    case DT_E8M0: return 0x1p127;
    default: return (double)INFINITY;
    }
}

enum dtype dtype_lane(enum dtype d) {
    const struct dtype_row *r = row(d);
    switch (r->cat) {
    case CAT_F: return d == DT_F64 ? DT_F64 : DT_F32;
    case CAT_Q: return DT_F32;
    case CAT_S: return d == DT_I64 ? DT_I64 : DT_I32;
    case CAT_U: return d == DT_U64 ? DT_U64 : DT_U32;
    case CAT_B: return DT_I32;
    case CAT_NONE: break;
    }
    return DT_NONE;
}

/* ---- promotion ------------------------------------------------------------------------------- */

static enum dtype widen_subbyte(enum dtype d) {
    if (!dtype_is_int(d) || row(d)->bits >= 8) return d;
    return dtype_is_signed(d) ? DT_I8 : DT_U8;
}

static enum dtype signed_of_bits(int bits) {
    return bits <= 8 ? DT_I8 : bits <= 16 ? DT_I16 : bits <= 32 ? DT_I32 : DT_I64;
}

static enum dtype promote_ints(enum dtype a, enum dtype b) {
    if (row(a)->cat == row(b)->cat) return row(a)->bits >= row(b)->bits ? a : b;
    enum dtype s = dtype_is_signed(a) ? a : b, u = s == a ? b : a;
    if (u == DT_U64) return DT_NONE;
    /* the signed type must be wider than the unsigned one to hold its values */
    int bits = 2 * row(u)->bits;
    return signed_of_bits(bits > row(s)->bits ? bits : row(s)->bits);
}

static enum dtype promote_floats(enum dtype a, enum dtype b) {
    if (row(a)->bits != row(b)->bits) return row(a)->bits > row(b)->bits ? a : b;
    return DT_F32; /* f16 with bf16 */
}

enum dtype dtype_promote(enum dtype a, enum dtype b, bool arith) {
    if (row(a)->cat == CAT_NONE || row(b)->cat == CAT_NONE) return DT_NONE;
    if (a == b) return arith ? widen_subbyte(a) : a;
    if (row(a)->cat == CAT_Q || row(b)->cat == CAT_Q) return DT_NONE;
    /* the contract's i4 with u4: both fit in i8, which u8 with i8 would not say */
    if (dtype_is_subbyte(a) && dtype_is_subbyte(b) && dtype_is_int(a) && dtype_is_int(b) &&
        row(a)->cat != row(b)->cat)
        return DT_I8;
    a = widen_subbyte(a);
    b = widen_subbyte(b);
    if (a == b || row(b)->cat == CAT_B) return a;
    if (row(a)->cat == CAT_B) return b;
    if (row(a)->cat == CAT_F) return row(b)->cat == CAT_F ? promote_floats(a, b) : a;
    return row(b)->cat == CAT_F ? b : promote_ints(a, b);
}

/* bool 1, integers 2, floats 3 */
static int rank_of(enum dtype d) {
    switch (row(d)->cat) {
    case CAT_B: return 1;
    case CAT_U:
    case CAT_S: return 2;
    case CAT_F:
    case CAT_Q: return 3;
    case CAT_NONE: break;
    }
    return 0;
}

enum dtype dtype_promote_ranked(enum dtype a, bool a_is_scalar, enum dtype b, bool b_is_scalar,
                                bool arith) {
    if (a_is_scalar == b_is_scalar || a == b) return dtype_promote(a, b, arith);
    enum dtype strong = a_is_scalar ? b : a, weak = a_is_scalar ? a : b;
    if (rank_of(strong) == 0 || rank_of(weak) == 0) return DT_NONE;
    if (row(a)->cat == CAT_Q || row(b)->cat == CAT_Q) return DT_NONE;
    return widen_subbyte(rank_of(weak) > rank_of(strong) ? weak : strong);
}
