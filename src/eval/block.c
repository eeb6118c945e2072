/* SPDX-License-Identifier: MIT
 * dequantize of block formats, in the reference: a decoder a format, written from the layouts of
 * GGML's quantized types (the GGUF specification) and of OCP's microscaling formats, apart from the
 * graph text that lowering inlines (ops/block.def).
 *
 * A decoder takes a block's bytes apart into numbers q, an offset that belongs to them, and a scale
 * and minimum for each element; value = scale * (q - offset) - minimum, with the product, then the
 * difference, rounded to f32. That is the formats' own arithmetic, so it is no interval; only the
 * rounding to a narrower result is. The terms' magnitudes bound what algebra may do with them.
 */
#include "eval/tensor.h"
#include "ops/block.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 256 };

struct unpacked {
    int q[MOST];
    int offset;
    float scale[MOST];
    bool has_minimum;
    float minimum[MOST];
};

typedef const unsigned char *block_bytes;

static float half_at(block_bytes b) {
    return (float)elem_from_bits(DT_F16, (uint64_t)b[0] | (uint64_t)b[1] << 8).f;
}

static void one_scale(struct unpacked *u, int n, float d) {
    for (int i = 0; i < n; i++)
        u->scale[i] = d;
}

static void one_minimum(struct unpacked *u, int n, float m) {
    u->has_minimum = true;
    for (int i = 0; i < n; i++)
        u->minimum[i] = -m; /* these formats add it */
}

/* Two halves of 16: low nibbles, then high ones. */
static void nibbles32(struct unpacked *u, block_bytes b) {
    for (int i = 0; i < 32; i++)
        u->q[i] = i < 16 ? b[i] & 15 : b[i - 16] >> 4;
}

static void fifth_bits(struct unpacked *u, block_bytes h) {
    for (int i = 0; i < 32; i++)
        u->q[i] += (h[i / 8] >> i % 8 & 1) * 16;
}

static void q4_0(block_bytes b, struct unpacked *u) {
    one_scale(u, 32, half_at(b));
    nibbles32(u, b + 2);
    u->offset = 8;
}

static void q4_1(block_bytes b, struct unpacked *u) {
    one_scale(u, 32, half_at(b));
    one_minimum(u, 32, half_at(b + 2));
    nibbles32(u, b + 4);
}

static void q5_0(block_bytes b, struct unpacked *u) {
    one_scale(u, 32, half_at(b));
    nibbles32(u, b + 6);
    fifth_bits(u, b + 2);
    u->offset = 16;
}

static void q5_1(block_bytes b, struct unpacked *u) {
    one_scale(u, 32, half_at(b));
    one_minimum(u, 32, half_at(b + 2));
    nibbles32(u, b + 8);
    fifth_bits(u, b + 4);
}

static int signed_byte(unsigned v) {
    return v < 128 ? (int)v : (int)v - 256;
}

static void q8_0(block_bytes b, struct unpacked *u) {
    one_scale(u, 32, half_at(b));
    for (int i = 0; i < 32; i++)
        u->q[i] = signed_byte(b[2 + i]);
}

/* 128 elements from 32 bytes: bits 0..1 of each, then 2..3, .. */
static int pair_of(block_bytes b, int i) {
    return b[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

static void q2_k(block_bytes b, struct unpacked *u) {
    float d = half_at(b + 80), m = half_at(b + 82);
    u->has_minimum = true;
    for (int i = 0; i < 256; i++) {
        u->q[i] = pair_of(b + 16, i);
        u->scale[i] = d * (float)(b[i / 16] & 15);
        u->minimum[i] = m * (float)(b[i / 16] >> 4);
    }
}

static void q3_k(block_bytes b, struct unpacked *u) {
    block_bytes s = b + 96;
    float d = half_at(b + 108);
    u->offset = 4;
    for (int i = 0; i < 256; i++) {
        int g = i / 16;
        int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
        int high = s[8 + g % 4] >> g / 4 * 2 & 3;
        u->q[i] = pair_of(b + 32, i) + (b[i % 32] >> i / 32 & 1) * 4;
        u->scale[i] = d * (float)(low + high * 16 - 32);
    }
}

/* The scale and minimum of group g out of twelve bytes. */
static void six_bits(block_bytes s, int g, int *scale, int *minimum) {
    if (g < 4) {
        *scale = s[g] & 63;
        *minimum = s[g + 4] & 63;
    } else {
        *scale = (s[g + 4] & 15) + (s[g - 4] >> 6) * 16;
        *minimum = (s[g + 4] >> 4) + (s[g] >> 6) * 16;
    }
}

static void scales_k(block_bytes b, struct unpacked *u) {
    float d = half_at(b), m = half_at(b + 2);
    u->has_minimum = true;
    for (int i = 0; i < 256; i++) {
        int scale, minimum;
        six_bits(b + 4, i / 32, &scale, &minimum);
        u->scale[i] = d * (float)scale;
        u->minimum[i] = m * (float)minimum;
    }
}

/* 64 elements from 32 bytes: low nibbles, then high ones. */
static int nibble_of(block_bytes b, int i) {
    return b[i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15;
}

static void q4_k(block_bytes b, struct unpacked *u) {
    scales_k(b, u);
    for (int i = 0; i < 256; i++)
        u->q[i] = nibble_of(b + 16, i);
}

static void q5_k(block_bytes b, struct unpacked *u) {
    scales_k(b, u);
    for (int i = 0; i < 256; i++)
        u->q[i] = nibble_of(b + 48, i) + (b[16 + i % 32] >> i / 32 & 1) * 16;
}

static void q6_k(block_bytes b, struct unpacked *u) {
    float d = half_at(b + 208);
    u->offset = 32;
    for (int i = 0; i < 256; i++) {
        int low = b[i / 128 * 64 + i % 64] >> i % 128 / 64 * 4 & 15;
        u->q[i] = low + pair_of(b + 128, i) * 16;
        u->scale[i] = d * (float)signed_byte(b[192 + i / 16]);
    }
}

static void look_up(struct unpacked *u, int n, const int *table) {
    for (int i = 0; i < n; i++)
        u->q[i] = table[u->q[i]];
}

/* The levels of the non-linear 4-bit formats. */
static const int levels_nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};
/* 4-bit floats (sign, 2 bits of exponent, 1 of significand) times two, as integers. */
static const int levels_f4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void iq4_nl(block_bytes b, struct unpacked *u) {
    one_scale(u, 32, half_at(b));
    nibbles32(u, b + 2);
    look_up(u, 32, levels_nl);
}

static void iq4_xs(block_bytes b, struct unpacked *u) {
    float d = half_at(b);
    for (int i = 0; i < 256; i++) {
        int g = i / 32;
        int low = b[4 + g / 2] >> g % 2 * 4 & 15, high = b[2 + g / 4] >> g % 4 * 2 & 3;
        u->scale[i] = d * (float)(low + high * 16 - 32);
        u->q[i] = b[8 + g * 16 + i % 16] >> i % 32 / 16 * 4 & 15;
    }
    look_up(u, 256, levels_nl);
}

/* Digit n, most significant first, of a byte that is a number in base 3 as a fraction of 256. */
static int trit(unsigned byte, int n) {
    for (; n > 0; n--)
        byte = byte * 3 & 255;
    return (int)(byte * 3 >> 8);
}

static void tq1_0(block_bytes b, struct unpacked *u) {
    one_scale(u, 256, half_at(b + 52));
    u->offset = 1;
    for (int i = 0; i < 256; i++) {
        if (i < 160)
            u->q[i] = trit(b[i % 32], i / 32);
        else if (i < 240)
            u->q[i] = trit(b[32 + (i - 160) % 16], (i - 160) / 16);
        else
            u->q[i] = trit(b[48 + (i - 240) % 4], (i - 240) / 4);
    }
}

static void tq2_0(block_bytes b, struct unpacked *u) {
    one_scale(u, 256, half_at(b + 64));
    u->offset = 1;
    for (int i = 0; i < 256; i++)
        u->q[i] = pair_of(b, i);
}

static void mxfp4(block_bytes b, struct unpacked *u) {
    one_scale(u, 32, (float)ldexp(1, b[0] - 128)); /* half, as the levels are doubled */
    nibbles32(u, b + 1);
    look_up(u, 32, levels_f4);
}

/* Half of a number of 4 bits exponent and 3 significand; all ones stand for 0. */
static float small_scale(unsigned v) {
    int exponent = (int)(v >> 3 & 15), significand = (int)(v & 7);
    if (v == 127) return 0;
    if (exponent == 0) return (float)ldexp(significand, -10);
    return (float)ldexp(8 + significand, exponent - 11);
}

static void nvfp4(block_bytes b, struct unpacked *u) {
    for (int i = 0; i < 64; i++) {
        u->scale[i] = small_scale(b[i / 16]);
        u->q[i] = b[4 + i / 16 * 8 + i % 8] >> i % 16 / 8 * 4 & 15;
    }
    look_up(u, 64, levels_f4);
}

typedef void (*decoder)(block_bytes b, struct unpacked *u);

static decoder decoder_of(enum dtype d) {
    switch ((int)d) {
    case DT_Q4_0: return q4_0;
    case DT_Q4_1: return q4_1;
    case DT_Q5_0: return q5_0;
    case DT_Q5_1: return q5_1;
    case DT_Q8_0: return q8_0;
    case DT_Q2_K: return q2_k;
    case DT_Q3_K: return q3_k;
    case DT_Q4_K: return q4_k;
    case DT_Q5_K: return q5_k;
    case DT_Q6_K: return q6_k;
    case DT_IQ4_NL: return iq4_nl;
    case DT_IQ4_XS: return iq4_xs;
    case DT_TQ1_0: return tq1_0;
    case DT_TQ2_0: return tq2_0;
    case DT_MXFP4: return mxfp4;
    case DT_NVFP4: return nvfp4;
    default: return NULL;
    }
}

/* ---- the operator ---------------------------------------------------------------------------- */

struct block_job {
    struct ev *ev;
    const struct block_format *format;
    decoder decode;
    const unsigned char *bytes;
    struct tensor *out;
    struct cells *slots;
};

static void put(const struct block_job *j, const struct unpacked *u, struct cells *c, int to) {
    for (int i = 0; i < j->format->elements; i++) {
        float product = u->scale[i] * (float)(u->q[i] - u->offset);
        float v = u->has_minimum ? product - u->minimum[i] : product;
        double mag = fabs((double)u->scale[i]) * (abs(u->q[i]) + u->offset);
        if (u->has_minimum) mag += fabs((double)u->minimum[i]);
        c->f[to + i] = (double)v;
        if (!j->ev->track) continue;
        struct iv r = iv_result(j->out->dtype, j->ev->mode, (struct iv){(double)v, (double)v});
        c->lo[to + i] = r.lo;
        c->hi[to + i] = r.hi;
        c->mag[to + i] = fmax(mag, iv_mag(r));
    }
}

/* begin is a multiple of BLOCK, which whole blocks fill. */
static void decode_range(void *user, int64_t begin, int64_t end, int slot) {
    const struct block_job *j = user;
    struct cells *c = &j->slots[slot];
    int elements = j->format->elements;
    for (int64_t at = begin; at < end; at += BLOCK) {
        int64_t n = end - at < BLOCK ? end - at : BLOCK;
        for (int to = 0; to < n; to += elements) {
            struct unpacked u;
            u.offset = 0;
            u.has_minimum = false;
            j->decode(j->bytes + (at + to) / elements * j->format->bytes, &u);
            put(j, &u, c, to);
        }
        round_doubles(j->out->dtype, c->f, n);
        cells_write(j->out, at, n, c);
    }
}

enum proem_status eval_blocks(struct ev *ev, const struct tensor *in, struct tensor *out) {
    struct block_job j = {.ev = ev,
                          .format = block_format(in[0].dtype),
                          .decode = decoder_of(in[0].dtype),
                          .bytes = in[0].store->data,
                          .out = out};
    if (j.decode == NULL)
        return err_set(ev->err, PROEM_INTERNAL, "%s has no decoder", j.format->name);
    j.slots = ARENA_NEW(&ev->scratch, struct cells, (size_t)ev->threads);
    if (j.slots == NULL) return err_nomem(ev->err);
    TRY(tensor_new(ev, out));
    TRY(tensor_intervals(ev, out, true));
    parallel_ranges(ev, out->n, BLOCK, decode_range, &j);
    tensor_drop_exact(ev, out);
    return PROEM_OK;
}
