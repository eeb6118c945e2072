/* SPDX-License-Identifier: MIT
 * Checks protobuf bytes by their schema before they are unpacked. protobuf-c says that a message is
 * malformed, but not where, it calls itself for each nested message as deep as the file likes, and it
 * makes a structure of hundreds of bytes of a message of two. So nesting is bounded, and what
 * unpacking takes is added up: a file whose messages would take many times its size is refused.
 *
 * The wire format is that of protobuf.dev/programming-guides/encoding: keys and lengths are varints,
 * a key holds the field's number and the kind of what follows.
 */
#include "front/onnx/model.h"

#include <string.h>

struct wire {
    const char *name;
    const uint8_t *begin; /* of the file, for offsets */
    struct err *err;
    uint64_t cost, most; /* bytes of memory that unpacking takes; the most that are allowed */
};

enum {
    PER_FIELD = 48, /* protobuf-c's notes of a field while it reads the message around it */
    TIMES = 40,     /* models' graphs without their weights take 5 to 15 times their size */
    LEAST_MEMORY = 32 << 20
};

static enum proem_status broken(const struct wire *w, const uint8_t *at,
                                const ProtobufCMessageDescriptor *d, const char *what) {
    return err_set(w->err, PROEM_INVALID, "%s: byte %zu, in %s: %s", w->name,
                   (size_t)(at - w->begin), d->short_name, what);
}

/* A varint of at most 10 bytes; false if it runs past the end or is longer. */
static bool varint(const uint8_t **p, const uint8_t *end, uint64_t *out) {
    uint64_t v = 0;
    for (int shift = 0; shift < 70 && *p < end; shift += 7) {
        uint8_t b = *(*p)++;
        if (shift < 64) v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            *out = v;
            return true;
        }
    }
    return false;
}

static enum proem_status check(struct wire *w, const ProtobufCMessageDescriptor *d,
                               const uint8_t *p, const uint8_t *end, int depth);

static bool is_text(const uint8_t *p, size_t n) {
    return memchr(p, 0, n) == NULL;
}

static enum proem_status check_bytes(struct wire *w, const ProtobufCMessageDescriptor *d,
                                     const ProtobufCFieldDescriptor *f, const uint8_t *p, size_t n,
                                     int depth) {
    if (f == NULL || f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_BYTES)
        w->cost += n + 1;
    else if (f->type != PROTOBUF_C_TYPE_MESSAGE)
        w->cost += n * 8; /* packed numbers, of a byte each at least */
    if (f == NULL) return PROEM_OK;
    if (f->type == PROTOBUF_C_TYPE_STRING && !is_text(p, n))
        return broken(w, p, d, "a string holds a NUL byte");
    if (f->type != PROTOBUF_C_TYPE_MESSAGE) return PROEM_OK;
    if (depth == 0) return broken(w, p, d, "messages nest too deep");
    const ProtobufCMessageDescriptor *inner = f->descriptor;
    w->cost += inner->sizeof_message + sizeof(void *);
    return check(w, inner, p, p + n, depth - 1);
}

static enum proem_status check(struct wire *w, const ProtobufCMessageDescriptor *d,
                               const uint8_t *p, const uint8_t *end, int depth) {
    while (p < end) {
        const uint8_t *at = p;
        uint64_t key, n;
        if (!varint(&p, end, &key)) return broken(w, at, d, "a key runs past the end");
        if (key >> 3 == 0 || key >> 3 > 0x1fffffff) return broken(w, at, d, "a key is no field");
        const ProtobufCFieldDescriptor *f =
            protobuf_c_message_descriptor_get_field(d, (unsigned)(key >> 3));
        w->cost += PER_FIELD;
        if (w->cost > w->most)
            return broken(w, at, d, "the file has far more messages than its size explains");
        switch (key & 7) {
        case 0:
            if (!varint(&p, end, &n)) return broken(w, at, d, "a number runs past the end");
            break;
        case 1:
        case 5:
            n = (key & 7) == 1 ? 8 : 4;
            if ((uint64_t)(end - p) < n) return broken(w, at, d, "a number runs past the end");
            p += n;
            break;
        case 2:
            if (!varint(&p, end, &n) || n > (uint64_t)(end - p))
                return broken(w, at, d, "a length runs past the end");
            TRY(check_bytes(w, d, f, p, (size_t)n, depth));
            p += n;
            break;
        default: return broken(w, at, d, "a key has a kind that the format lacks");
        }
    }
    return PROEM_OK;
}

enum proem_status onnx_wire_check(const char *name, const ProtobufCMessageDescriptor *d,
                                  const uint8_t *bytes, size_t n, int depth, struct err *e) {
    struct wire w = {name, bytes, e, 0, LEAST_MEMORY + (uint64_t)n * TIMES};
    return check(&w, d, bytes, bytes + n, depth);
}
