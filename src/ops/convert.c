/* SPDX-License-Identifier: MIT
 * Conversion of single elements between every pair of dtypes, and packed loads and stores.
 *
 * A float format narrower than f64 is described by its significand and its least exponent. pack()
 * takes a double to the format's bits by one integer shift of the 53-bit significand, rounded half
 * to even (IEEE 754-2019, 4.3.1): the exponent field and the fraction are one integer, so that a
 * carry out of the fraction moves to the next exponent, and subnormals are the same shift with the
 * exponent held at its least value. There is one rounding, whatever the format.
 * Integers too wide for a double's significand go through round-to-odd (Boldo and Melquiond,
 * "Emulation of FMA and correctly rounded sums", 2008): 53 >= 24 + 2 bits, so the second rounding
 * is exact.
 * NaN patterns survive a load and a store (sign and payload); a conversion keeps only the sign.
 */
#include "ops/dtype.h"

#include <math.h>
#include <string.h>

/* ---- formats --------------------------------------------------------------------------------- */

struct format {
    int width;
    int p;              /* significand bits, the hidden one included */
    int emin;           /* exponent of the least normal number */
    uint32_t max_field; /* largest finite magnitude */
    uint32_t inf_field; /* infinity, 0 if the format has none */
    uint32_t nan_field; /* a quiet NaN, 0 if the format has none */
};

static const struct format *format_of(enum dtype d) {
    static const struct format f32 = {32, 24, -126, 0x7F7FFFFF, 0x7F800000, 0x7FC00000};
    static const struct format f16 = {16, 11, -14, 0x7BFF, 0x7C00, 0x7E00};
    static const struct format bf16 = {16, 8, -126, 0x7F7F, 0x7F80, 0x7FC0};
    static const struct format f8e4m3fn = {8, 4, -6, 0x7E, 0, 0x7F};
    static const struct format f8e5m2 = {8, 3, -14, 0x7B, 0x7C, 0x7E};
    static const struct format f4e2m1fn = {4, 2, 0, 0x7, 0, 0};
    switch (d) {
    case DT_F32: return &f32;
    case DT_F16: return &f16;
    case DT_BF16: return &bf16;
    case DT_F8E4M3FN: return &f8e4m3fn;
    case DT_F8E5M2: return &f8e5m2;
    case DT_F4E2M1FN: return &f4e2m1fn;
    default: return NULL;
    }
}

#define F64_SIGN ((uint64_t)1 << 63)
#define F64_INF  ((uint64_t)0x7FF << 52)
#define F64_FRAC (((uint64_t)1 << 52) - 1)

static uint64_t bits_of_double(double v) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static double double_of_bits(uint64_t u) {
    double v;
    memcpy(&v, &u, sizeof v);
    return v;
}

/* 2^e for e in the normal range of a double. */
static double pow2(int e) {
    return double_of_bits((uint64_t)(e + 1023) << 52);
}

/* A NaN keeps as much of its payload as the format has room for; it stays a NaN. */
static uint32_t pack_nan(const struct format *f, uint64_t u) {
    if (f->nan_field == 0) return f->max_field;
    uint32_t field = f->nan_field;
    if (f->inf_field != 0) {
        uint32_t payload = (uint32_t)((u & F64_FRAC) >> (53 - f->p));
        if (payload != 0) field = f->inf_field | payload;
    }
    return field | ((uint32_t)(u >> 63) << (f->width - 1));
}

static uint32_t pack_overflow(const struct format *f, bool saturate) {
    if (saturate || (f->inf_field == 0 && f->nan_field == 0)) return f->max_field;
    return f->inf_field != 0 ? f->inf_field : f->nan_field;
}

/* The bits of v rounded half to even to the format. */
static uint32_t pack(const struct format *f, double v, bool saturate) {
    uint64_t u = bits_of_double(v), magnitude = u & ~F64_SIGN;
    if (magnitude > F64_INF) return pack_nan(f, u);
    uint32_t sign = (uint32_t)(u >> 63) << (f->width - 1);
    if (magnitude == F64_INF) return sign | pack_overflow(f, saturate);
    int e = (int)(magnitude >> 52) - 1023;
    if (e < -1022) return sign; /* subnormal doubles are far below half of any format's least */
    uint64_t m = (magnitude & F64_FRAC) | (F64_FRAC + 1);
    int shift = 53 - f->p + (e < f->emin ? f->emin - e : 0);
    if (shift > 54) return sign;
    uint64_t q = m >> shift, rest = m & (((uint64_t)1 << shift) - 1);
    uint64_t half = (uint64_t)1 << (shift - 1);
    if (rest > half || (rest == half && (q & 1) != 0)) q++;
    /* q holds the hidden bit, which adds one to the exponent field of a normal number */
    if (e > f->emin) q += (uint64_t)(e - f->emin) << (f->p - 1);
    if (q > f->max_field) return sign | pack_overflow(f, saturate);
    return sign | (uint32_t)q;
}

static double unpack(const struct format *f, uint32_t bits) {
    uint64_t sign = (uint64_t)(bits >> (f->width - 1) & 1) << 63;
    uint32_t field = bits & (((uint32_t)1 << (f->width - 1)) - 1);
    if (field > f->max_field) {
        if (field == f->inf_field) return double_of_bits(sign | F64_INF);
        uint64_t payload = f->inf_field != 0 ? field - f->inf_field : (uint64_t)1 << (f->p - 2);
        return double_of_bits(sign | F64_INF | payload << (53 - f->p));
    }
    int e = (int)(field >> (f->p - 1));
    uint32_t frac = field & (((uint32_t)1 << (f->p - 1)) - 1);
    if (e > 0) frac |= (uint32_t)1 << (f->p - 1);
    double v = (double)frac * pow2(f->emin + (e > 0 ? e - 1 : 0) - (f->p - 1));
    return sign != 0 ? -v : v;
}

/* Up to the next power of two. Zero and negative numbers are below the least value: they saturate
 * to it like other small numbers. */
static uint32_t pack_e8m0(double v) {
    if (isnan(v)) return 0xFF;
    if (!(v > 0x1p-127)) return 0;
    if (v > 0x1p126) return 254;
    uint64_t u = bits_of_double(v);
    int e = (int)(u >> 52) - 1023;
    return (uint32_t)(e + 127 + ((u & F64_FRAC) != 0));
}

static double unpack_e8m0(uint32_t bits) {
    return bits == 0xFF ? (double)NAN : pow2((int)bits - 127);
}

double float_round(enum dtype to, double v, bool saturate) {
    if (to == DT_F64) return v;
    if (to == DT_E8M0) return unpack_e8m0(pack_e8m0(v));
    const struct format *f = format_of(to);
    if (f == NULL) return v;
    if (isnan(v) && f->nan_field != 0) return copysign((double)NAN, v);
    /* an option of the 8-bit formats only; wider ones overflow as IEEE 754 says */
    return unpack(f, pack(f, v, saturate && f->width == 8));
}

/* ---- bits ------------------------------------------------------------------------------------ */

static uint64_t low_bits(uint64_t v, int width) {
    return width >= 64 ? v : v & (((uint64_t)1 << width) - 1);
}

static int64_t as_signed(uint64_t v) {
    int64_t r;
    memcpy(&r, &v, sizeof r);
    return r;
}

static int64_t int_wrap(enum dtype d, uint64_t v) {
    int width = dtype_bits(d);
    v = low_bits(v, width);
    if (!dtype_is_signed(d)) return as_signed(v);
    uint64_t sign = (uint64_t)1 << (width - 1);
    return as_signed((v ^ sign) - sign);
}

uint64_t elem_bits(enum dtype d, union scalar v) {
    switch (dtype_cat(d)) {
    case CAT_F:
    case CAT_Q:
        if (d == DT_F64) return bits_of_double(v.f);
        if (d == DT_E8M0) return pack_e8m0(v.f);
        return pack(format_of(d), v.f, false);
    case CAT_S:
    case CAT_U: return low_bits((uint64_t)v.i, dtype_bits(d));
    case CAT_B: return v.i != 0;
    case CAT_NONE: break;
    }
    return 0;
}

union scalar elem_from_bits(enum dtype d, uint64_t bits) {
    switch (dtype_cat(d)) {
    case CAT_F:
    case CAT_Q:
        if (d == DT_F64) return (union scalar){.f = double_of_bits(bits)};
        if (d == DT_E8M0) return (union scalar){.f = unpack_e8m0((uint32_t)bits & 0xFF)};
        return (union scalar){.f = unpack(format_of(d), (uint32_t)bits)};
    case CAT_S:
    case CAT_U: return (union scalar){.i = int_wrap(d, bits)};
    case CAT_B: return (union scalar){.i = (bits & 0xFF) != 0};
    case CAT_NONE: break;
    }
    return (union scalar){.i = 0};
}

/* ---- memory ---------------------------------------------------------------------------------- */

union scalar elem_load(enum dtype d, const void *base, int64_t index) {
    const unsigned char *at = base;
    int width = dtype_bits(d);
    if (width < 8) {
        if (width == 0) return (union scalar){.i = 0};
        int per_byte = 8 / width;
        unsigned byte = at[index / per_byte];
        return elem_from_bits(d, byte >> ((int)(index % per_byte) * width));
    }
    union {
        uint64_t u64;
        uint32_t u32;
        uint16_t u16;
        uint8_t u8;
    } raw = {0};
    memcpy(&raw, at + index * (width / 8), (size_t)width / 8);
    switch (width) {
    case 64: return elem_from_bits(d, raw.u64);
    case 32: return elem_from_bits(d, raw.u32);
    case 16: return elem_from_bits(d, raw.u16);
    default: return elem_from_bits(d, raw.u8);
    }
}

void elem_store(enum dtype d, void *base, int64_t index, union scalar v) {
    unsigned char *at = base;
    int width = dtype_bits(d);
    uint64_t bits = elem_bits(d, v);
    if (width < 8) {
        if (width == 0) return;
        int per_byte = 8 / width, shift = (int)(index % per_byte) * width;
        unsigned mask = ((1U << width) - 1) << shift;
        unsigned char *byte = &at[index / per_byte];
        *byte = (unsigned char)((*byte & ~mask) | ((unsigned)bits << shift & mask));
        return;
    }
    uint32_t u32 = (uint32_t)bits;
    uint16_t u16 = (uint16_t)bits;
    uint8_t u8 = (uint8_t)bits;
    const void *raw = width == 64   ? (const void *)&bits
                      : width == 32 ? (const void *)&u32
                      : width == 16 ? (const void *)&u16
                                    : (const void *)&u8;
    memcpy(at + index * (width / 8), raw, (size_t)width / 8);
}

/* ---- casts ----------------------------------------------------------------------------------- */

/* The nearest double, or, if the integer has more than 53 significant bits and `odd`, the truncated
 * one with its last bit set: a later rounding to fewer bits then sees that it was inexact. */
static double double_of_magnitude(uint64_t m, bool odd) {
    if (!odd || m >> 53 == 0) return (double)m;
    int drop = 0;
    while (m >> drop >> 53 != 0)
        drop++;
    uint64_t kept = m >> drop;
    if (kept << drop != m) kept |= 1;
    return (double)kept * pow2(drop);
}

static double double_of_int(enum dtype from, int64_t i, bool odd) {
    if (from == DT_U64 || i >= 0) return double_of_magnitude((uint64_t)i, odd);
    return -double_of_magnitude(0 - (uint64_t)i, odd);
}

/* Truncates and saturates; NaN gives 0. */
static int64_t int_of_double(enum dtype to, double v) {
    if (isnan(v)) return 0;
    if (to == DT_U64) {
        if (v >= 0x1p64) return -1; /* all bits set */
        return v <= 0 ? 0 : as_signed((uint64_t)v);
    }
    int64_t min, max;
    dtype_int_range(to, &min, &max);
    if (v >= 0x1p63) return max;
    if (v < -0x1p63) return min;
    int64_t i = (int64_t)v;
    return i < min ? min : i > max ? max : i;
}

union scalar elem_cast(enum dtype from, union scalar v, enum dtype to, bool saturate) {
    if (from == to) return v;
    bool from_float = dtype_is_float(from);
    if (to == DT_BOOL) return (union scalar){.i = from_float ? v.f != 0 : v.i != 0};
    if (dtype_is_float(to)) {
        double f = from_float ? v.f : double_of_int(from, v.i, to != DT_F64);
        return (union scalar){.f = float_round(to, f, saturate)};
    }
    if (from_float) return (union scalar){.i = int_of_double(to, v.f)};
    return (union scalar){.i = int_wrap(to, (uint64_t)v.i)};
}
