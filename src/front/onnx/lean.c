/* SPDX-License-Identifier: MIT
 * A model's bytes without the large tensors that stand in them: what is unpacked of a model of
 * gigabytes is its graph. A raw_data of 64 KiB or more becomes external data of the model's own
 * file, which a key of its own says; reading the tensor then reads that place of the file.
 *
 * Messages are copied field by field, with the lengths of those that became shorter rewritten. The
 * bytes have passed onnx_wire_check, so they are well-formed and nest no deeper than it allows; but
 * they are a file's, which may change meanwhile, so nothing here reads past a message's end. What is
 * left is checked again before it is unpacked.
 */
#include "front/onnx/model.h"

#include <string.h>

enum { LEAST = 1 << 16, RAW_DATA = 9, MOST_NESTED = 64 };

struct lean {
    const uint8_t *begin; /* of the file */
    struct str *out;      /* NULL: only sizes are wanted */
};

static uint64_t varint(const uint8_t **p, const uint8_t *end) {
    uint64_t v = 0;
    for (int shift = 0; *p < end && shift < 70; shift += 7) {
        uint8_t b = *(*p)++;
        if (shift < 64) v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) break;
    }
    return v;
}

/* n bytes from p on, or as many as there are. */
static uint64_t within(uint64_t n, const uint8_t *p, const uint8_t *end) {
    return n < (uint64_t)(end - p) ? n : (uint64_t)(end - p);
}

static size_t put_varint(const struct lean *x, uint64_t v) {
    char text[10];
    size_t n = 0;
    for (; v > 127; v >>= 7)
        text[n++] = (char)(v | 128);
    text[n++] = (char)v;
    if (x->out != NULL) str_addn(x->out, text, n);
    return n;
}

static size_t put(const struct lean *x, const void *bytes, size_t n) {
    if (x->out != NULL) str_addn(x->out, bytes, n);
    return n;
}

/* A pair of external_data; all of it shorter than 128 bytes. */
static size_t put_pair(const struct lean *x, const char *key, const char *value) {
    unsigned char head[] = {13 << 3 | 2, (unsigned char)(strlen(key) + strlen(value) + 4),
                            1 << 3 | 2, (unsigned char)strlen(key)};
    unsigned char middle[] = {2 << 3 | 2, (unsigned char)strlen(value)};
    return put(x, head, sizeof head) + put(x, key, strlen(key)) + put(x, middle, sizeof middle) +
           put(x, value, strlen(value));
}

static void number_text(uint64_t v, char text[24]) {
    char turned[24];
    int n = 0, i = 0;
    do
        turned[n++] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    while (n > 0)
        text[i++] = turned[--n];
    text[i] = '\0';
}

/* Where the raw_data stands, in its place. */
static size_t put_place(const struct lean *x, const uint8_t *at, uint64_t n) {
    static const unsigned char external[] = {14 << 3, 1};
    char offset[24], length[24];
    number_text((uint64_t)(at - x->begin), offset);
    number_text(n, length);
    return put_pair(x, ONNX_OWN_FILE, "") + put_pair(x, "offset", offset) +
           put_pair(x, "length", length) + put(x, external, sizeof external);
}

/* A message without its large raw_data; how long that is. */
static size_t message(const struct lean *x, const ProtobufCMessageDescriptor *d, const uint8_t *p,
                      const uint8_t *end, int depth) {
    const struct lean sizes = {x->begin, NULL};
    size_t total = 0;
    while (p < end) {
        const uint8_t *at = p;
        uint64_t key = varint(&p, end), n;
        const ProtobufCFieldDescriptor *f =
            protobuf_c_message_descriptor_get_field(d, (unsigned)(key >> 3));
        if ((key & 7) == 0) {
            varint(&p, end);
        } else if ((key & 7) != 2) {
            p += within((key & 7) == 1 ? 8 : 4, p, end);
        } else {
            n = varint(&p, end);
            n = within(n, p, end);
            const uint8_t *bytes = p;
            p += n;
            if (d == &onnx__tensor_proto__descriptor && key >> 3 == RAW_DATA && n >= LEAST) {
                total += put_place(x, bytes, n);
                continue;
            }
            if (f != NULL && f->type == PROTOBUF_C_TYPE_MESSAGE && n >= LEAST && depth > 0) {
                const ProtobufCMessageDescriptor *inner = f->descriptor;
                size_t size = message(&sizes, inner, bytes, p, depth - 1);
                total += put_varint(x, key) + put_varint(x, size);
                total += x->out != NULL ? message(x, inner, bytes, p, depth - 1) : size;
                continue;
            }
        }
        total += put(x, at, (size_t)(p - at));
    }
    return total;
}

bool onnx_lean(const uint8_t *bytes, size_t n, struct str *out) {
    const struct lean x = {bytes, out};
    message(&x, &onnx__model_proto__descriptor, bytes, bytes + n, MOST_NESTED);
    return !out->failed;
}
