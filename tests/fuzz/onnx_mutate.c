/* SPDX-License-Identifier: MIT
 * Mutations of ONNX models by their schema, so that the fuzzer gets past the wire format: a message
 * of the file is chosen at random and a field of it changed, dropped, doubled, or taken over from
 * another message of the same kind, in the same model or in the one that it is crossed with.
 *
 * A donor is always a tree of its own, so that what is grafted can hold no cycle. Bytes that are no
 * model, and one in four that are, go to libFuzzer's own mutator.
 */
#include "base/base.h"
#include "onnx-ml.pb-c.h"

#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t na, const uint8_t *b, size_t nb,
                                 uint8_t *out, size_t most, unsigned seed);

typedef ProtobufCMessage message;
typedef ProtobufCFieldDescriptor field;

struct mutation {
    struct arena arena;
    uint64_t seed;
};

static uint64_t below(struct mutation *x, uint64_t n) {
    x->seed = x->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return n > 0 ? (x->seed >> 33) % n : 0;
}

/* ---- trees ----------------------------------------------------------------------------------- */

static void *take(void *user, size_t n) {
    return arena_alloc(user, n > 0 ? n : 1, 16);
}

static void drop(void *user, void *p) {
    (void)user, (void)p;
}

/* Nesting is bounded here as in the reader: unpacking is recursive. */
static message *unpack(struct mutation *x, const uint8_t *bytes, size_t n) {
    ProtobufCAllocator alloc = {take, drop, &x->arena};
    return (message *)onnx__model_proto__unpack(&alloc, n, bytes);
}

static size_t width(const field *f) {
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING: return sizeof(char *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(message *);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return 8;
    default: return 4;
    }
}

static void *member(message *m, const field *f) {
    return (char *)m + f->offset;
}

static bool repeated(const field *f) {
    return f->label == PROTOBUF_C_LABEL_REPEATED;
}

static bool one_of(const field *f) {
    return (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

/* How many values a field has, and the n-th of them. */
static size_t count(message *m, const field *f) {
    size_t n;
    uint32_t which;
    const void *p = member(m, f);
    if (repeated(f)) {
        memcpy(&n, (char *)m + f->quantifier_offset, sizeof n);
        return n;
    }
    if (one_of(f)) {
        memcpy(&which, (char *)m + f->quantifier_offset, sizeof which);
        if (which != f->id) return 0;
    }
    if (f->type != PROTOBUF_C_TYPE_MESSAGE && f->type != PROTOBUF_C_TYPE_STRING) return 1;
    memcpy(&p, p, sizeof p);
    return p != NULL;
}

static void *value(message *m, const field *f, size_t i) {
    char *list;
    if (!repeated(f)) return member(m, f);
    memcpy(&list, member(m, f), sizeof list);
    return list + i * width(f);
}

static void set_count(message *m, const field *f, size_t n) {
    uint32_t which = n > 0 ? f->id : 0;
    protobuf_c_boolean has = n > 0;
    if (repeated(f))
        memcpy((char *)m + f->quantifier_offset, &n, sizeof n);
    else if (one_of(f))
        memcpy((char *)m + f->quantifier_offset, &which, sizeof which);
    else if (f->label == PROTOBUF_C_LABEL_OPTIONAL && f->quantifier_offset != 0)
        memcpy((char *)m + f->quantifier_offset, &has, sizeof has);
    if (n == 0 && !repeated(f)) memset(member(m, f), 0, width(f));
}

/* One message of the tree, of a kind (NULL: any), each as likely as any other. */
static void choose(struct mutation *x, message *m, const ProtobufCMessageDescriptor *kind,
                   message **chosen, uint64_t *seen) {
    if ((kind == NULL || m->descriptor == kind) && below(x, ++*seen) == 0) *chosen = m;
    for (unsigned k = 0; k < m->descriptor->n_fields; k++) {
        const field *f = &m->descriptor->fields[k];
        if (f->type != PROTOBUF_C_TYPE_MESSAGE) continue;
        for (size_t i = 0; i < count(m, f); i++) {
            message *child;
            memcpy(&child, value(m, f, i), sizeof child);
            choose(x, child, kind, chosen, seen);
        }
    }
}

/* ---- changes --------------------------------------------------------------------------------- */

static void change_number(struct mutation *x, void *at, size_t n) {
    static const int64_t special[] = {0,
                                      1,
                                      -1,
                                      2,
                                      3,
                                      4,
                                      7,
                                      8,
                                      16,
                                      17,
                                      32,
                                      64,
                                      255,
                                      256,
                                      65536,
                                      INT32_MAX,
                                      INT32_MIN,
                                      INT64_MAX,
                                      INT64_MIN,
                                      (int64_t)1 << 32,
                                      (int64_t)1 << 40,
                                      (int64_t)1 << 62,
                                      0x7f800000,
                                      0x7fc00000};
    int64_t v = 0;
    memcpy(&v, at, n);
    switch (below(x, 3)) {
    case 0: v = special[below(x, COUNT_OF(special))]; break;
    case 1: v = (int64_t)((uint64_t)v + below(x, 9) - 4); break;
    default: v = (int64_t)below(x, 40); break;
    }
    memcpy(at, &v, n);
}

static void change_bytes(struct mutation *x, ProtobufCBinaryData *b) {
    size_t most = b->len + 16;
    uint8_t *copy = arena_alloc(&x->arena, most, 1);
    if (copy == NULL) return;
    if (b->len > 0) memcpy(copy, b->data, b->len);
    b->len = LLVMFuzzerMutate(copy, b->len, most);
    b->data = copy;
}

/* Another string: of the donor's fields of any name, or none at all. */
static void change_string(struct mutation *x, char **at, message *donor) {
    message *from = NULL;
    uint64_t seen = 0;
    choose(x, donor, NULL, &from, &seen);
    for (unsigned k = 0; k < from->descriptor->n_fields; k++) {
        const field *f = &from->descriptor->fields[k];
        size_t n = f->type == PROTOBUF_C_TYPE_STRING ? count(from, f) : 0;
        if (n > 0 && below(x, 2) == 0) memcpy(at, value(from, f, (size_t)below(x, n)), sizeof *at);
    }
    if (from->descriptor->n_fields == 0 || below(x, 16) == 0) *at = arena_strdup(&x->arena, "");
}

/* All values of a field from the donor, or none. */
static void take_over(struct mutation *x, message *m, const field *f, message *donor) {
    message *from = NULL;
    uint64_t seen = 0;
    choose(x, donor, m->descriptor, &from, &seen);
    if (from == NULL || count(from, f) == 0) {
        set_count(m, f, 0);
        return;
    }
    memcpy(member(m, f), member(from, f), repeated(f) ? sizeof(void *) : width(f));
    set_count(m, f, count(from, f));
}

/* A list with a value more (of its own) or one less; or two of its values exchanged. */
static void change_list(struct mutation *x, message *m, const field *f, message *donor) {
    size_t n = count(m, f), w = width(f);
    char *list = arena_alloc(&x->arena, (n + 1) * w, 16);
    if (n == 0 || list == NULL) {
        take_over(x, m, f, donor);
        return;
    }
    size_t i = (size_t)below(x, n), k = (size_t)below(x, n);
    memcpy(list, value(m, f, 0), n * w);
    switch (below(x, 3)) {
    case 0: memmove(list + i * w, list + (i + 1) * w, (n-- - i - 1) * w); break;
    case 1: memcpy(list + n++ * w, list + i * w, w); break;
    default:
        memcpy(list + i * w, value(m, f, k), w);
        memcpy(list + k * w, value(m, f, i), w);
        break;
    }
    memcpy(member(m, f), &list, sizeof list);
    set_count(m, f, n);
}

static void change_value(struct mutation *x, message *m, const field *f, message *donor) {
    size_t n = count(m, f);
    if (n == 0) {
        take_over(x, m, f, donor);
        return;
    }
    void *at = value(m, f, (size_t)below(x, n));
    if (f->type == PROTOBUF_C_TYPE_STRING)
        change_string(x, at, donor);
    else if (f->type == PROTOBUF_C_TYPE_BYTES)
        change_bytes(x, at);
    else if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        take_over(x, m, f, donor);
    else
        change_number(x, at, width(f));
    if (!repeated(f)) set_count(m, f, 1);
}

static void change(struct mutation *x, message *root, message *donor) {
    message *m = root;
    uint64_t seen = 0;
    choose(x, root, NULL, &m, &seen);
    /* A field that is there, more often than one that is not. */
    const field *f = NULL;
    for (int tries = 0; tries < 8; tries++) {
        f = &m->descriptor->fields[below(x, m->descriptor->n_fields)];
        if (m->descriptor->n_fields == 0 || count(m, f) > 0) break;
    }
    if (m->descriptor->n_fields == 0) return;
    uint64_t how = below(x, 8);
    if (how == 0)
        take_over(x, m, f, donor);
    else if (repeated(f) && how < 5)
        change_list(x, m, f, donor);
    else
        change_value(x, m, f, donor);
}

/* a with some of b, as bytes; 0 if that does not fit. */
static size_t cross(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out,
                    size_t most, unsigned seed) {
    struct mutation x = {.seed = seed};
    size_t n = 0;
    arena_init(&x.arena, &allocator_default);
    message *root = unpack(&x, a, na), *donor = unpack(&x, b, nb);
    if (root != NULL && donor != NULL) {
        /* Each graft after the first could join the donor to itself. */
        change(&x, root, donor);
        n = protobuf_c_message_get_packed_size(root);
        n = n <= most ? protobuf_c_message_pack(root, out) : 0;
    }
    arena_free(&x.arena);
    return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    if (seed % 4 == 0) return LLVMFuzzerMutate(data, size, most);
    for (unsigned i = 0; i < 1 + seed / 4 % 4; i++) {
        size_t n = cross(data, size, data, size, data, most, seed + i);
        if (n == 0) return i > 0 ? size : LLVMFuzzerMutate(data, size, most);
        size = n;
    }
    return size;
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t na, const uint8_t *b, size_t nb,
                                 uint8_t *out, size_t most, unsigned seed) {
    return cross(a, na, b, nb, out, most, seed);
}
