/* SPDX-License-Identifier: MIT
 * The .npy format, versions 1 to 3 (NumPy Enhancement Proposal 1 and numpy.lib.format): a magic, a
 * version, a header length, a Python dict literal with descr, fortran_order and shape, the data.
 *
 * The dict is read by a small parser of just the literals that may stand in it; each of the three
 * keys must be there once. Data after the array is left alone, as NumPy does. Sizes come from the
 * shape and are compared with what the stream still holds before memory is asked for. A
 * Fortran-order array is transposed after it is read; byte order is mended in place.
 */
#include "front/front.h"

#include <string.h>

#define HEADER_MAX ((size_t)1 << 20)

struct lexer {
    const char *at, *end;
    const char *what;
    struct err *err;
};

static enum proem_status bad_header(const struct lexer *l, const char *why) {
    return err_set(l->err, PROEM_DATA, "%s: bad .npy header: %s", l->what, why);
}

static void skip_space(struct lexer *l) {
    while (l->at < l->end && (*l->at == ' ' || *l->at == '\n' || *l->at == '\t' || *l->at == '\r'))
        l->at++;
}

static bool accept(struct lexer *l, char c) {
    skip_space(l);
    if (l->at == l->end || *l->at != c) return false;
    l->at++;
    return true;
}

static bool accept_word(struct lexer *l, const char *word) {
    skip_space(l);
    size_t n = strlen(word);
    if ((size_t)(l->end - l->at) < n || memcmp(l->at, word, n) != 0) return false;
    l->at += n;
    return true;
}

/* A quoted string without escapes: no name or dtype has any. */
static bool read_string(struct lexer *l, const char **s, size_t *n) {
    skip_space(l);
    if (l->at == l->end || (*l->at != '\'' && *l->at != '"')) return false;
    char quote = *l->at++;
    const char *start = l->at;
    while (l->at < l->end && *l->at != quote && *l->at != '\\' && *l->at != '\n')
        l->at++;
    if (l->at == l->end || *l->at != quote) return false;
    *s = start;
    *n = (size_t)(l->at++ - start);
    return true;
}

static enum proem_status read_dim(struct lexer *l, int64_t *out) {
    skip_space(l);
    if (l->at < l->end && *l->at == '-') return bad_header(l, "a dim in 'shape' is negative");
    if (l->at == l->end || *l->at < '0' || *l->at > '9')
        return bad_header(l, "'shape' must be a tuple of integers");
    int64_t v = 0;
    for (; l->at < l->end && *l->at >= '0' && *l->at <= '9'; l->at++) {
        int digit = *l->at - '0';
        if (v > (INT64_MAX - digit) / 10) return bad_header(l, "a dim in 'shape' overflows");
        v = v * 10 + digit;
    }
    if (l->at < l->end && *l->at == 'L') l->at++; /* written by Python 2 */
    *out = v;
    return PROEM_OK;
}

static enum proem_status read_shape(struct lexer *l, struct array_type *t) {
    if (!accept(l, '(')) return bad_header(l, "'shape' must be a tuple of integers");
    bool comma = true;
    t->rank = 0;
    while (!accept(l, ')')) {
        if (!comma) return bad_header(l, "',' or ')' is missing in 'shape'");
        int64_t dim = 0;
        TRY(read_dim(l, &dim));
        if (t->rank == MAX_RANK)
            return err_set(l->err, PROEM_UNSUPPORTED, "%s: more than %d dims", l->what, MAX_RANK);
        t->shape[t->rank++] = dim;
        comma = accept(l, ',');
    }
    if (t->rank == 1 && !comma) return bad_header(l, "'shape' must be a tuple: (N,), not (N)");
    return PROEM_OK;
}

static const struct {
    const char *code;
    enum dtype dtype;
} npy_dtypes[] = {{"b1", DT_BOOL}, {"i1", DT_I8},  {"i2", DT_I16}, {"i4", DT_I32},
                  {"i8", DT_I64},  {"u1", DT_U8},  {"u2", DT_U16}, {"u4", DT_U32},
                  {"u8", DT_U64},  {"f2", DT_F16}, {"f4", DT_F32}, {"f8", DT_F64}};

static enum proem_status read_descr(struct lexer *l, struct npy_header *h) {
    const char *s = NULL;
    size_t n = 0;
    skip_space(l);
    if (l->at < l->end && *l->at == '[')
        return err_set(l->err, PROEM_UNSUPPORTED,
                       "%s: structured dtypes are not supported; save one field a file", l->what);
    if (!read_string(l, &s, &n)) return bad_header(l, "'descr' must be a string");
    char order = n > 0 && strchr("<>=|", s[0]) != NULL && s[0] != '\0' ? s[0] : '\0';
    const char *code = order ? s + 1 : s;
    size_t length = order ? n - 1 : n;
    for (size_t i = 0; i < COUNT_OF(npy_dtypes); i++) {
        if (length != 2 || memcmp(code, npy_dtypes[i].code, 2) != 0) continue;
        const uint16_t one = 1;
        unsigned char low;
        memcpy(&low, &one, 1);
        h->type.dtype = npy_dtypes[i].dtype;
        h->big_endian = order == '>' || (order != '<' && low == 0);
        return PROEM_OK;
    }
    return err_set(
        l->err, PROEM_UNSUPPORTED,
        "%s: NumPy dtype '%.*s' is not supported; expected bool, an integer, f2, f4 or f8 "
        "(save bf16 as uint16, f8 as uint8)",
        l->what, n < 40 ? (int)n : 40, s);
}

static enum proem_status read_bool(struct lexer *l, bool *out) {
    if (accept_word(l, "True"))
        *out = true;
    else if (accept_word(l, "False"))
        *out = false;
    else
        return bad_header(l, "'fortran_order' must be True or False");
    return PROEM_OK;
}

static enum proem_status parse_dict(struct lexer *l, struct npy_header *h) {
    enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
    unsigned seen = 0;
    bool comma = true;
    if (!accept(l, '{')) return bad_header(l, "it must be a dict");
    while (!accept(l, '}')) {
        const char *key = NULL;
        size_t n = 0;
        if (!comma) return bad_header(l, "',' or '}' is missing");
        if (!read_string(l, &key, &n) || !accept(l, ':'))
            return bad_header(l, "a quoted key and ':' are expected");
        unsigned bit = n == 5 && memcmp(key, "descr", n) == 0            ? DESCR
                       : n == 13 && memcmp(key, "fortran_order", n) == 0 ? ORDER
                       : n == 5 && memcmp(key, "shape", n) == 0          ? SHAPE
                                                                         : 0;
        if (bit == 0 || (seen & bit) != 0)
            return err_set(l->err, PROEM_DATA,
                           "%s: bad .npy header: key '%.*s' is %s; expected descr, fortran_order "
                           "and shape, once each",
                           l->what, n < 40 ? (int)n : 40, key, bit ? "repeated" : "unknown");
        seen |= bit;
        if (bit == DESCR) TRY(read_descr(l, h));
        if (bit == ORDER) TRY(read_bool(l, &h->fortran));
        if (bit == SHAPE) TRY(read_shape(l, &h->type));
        comma = accept(l, ',');
    }
    if (seen != ALL) return bad_header(l, "descr, fortran_order and shape must all be given");
    skip_space(l);
    if (l->at != l->end) return bad_header(l, "text follows the dict");
    return PROEM_OK;
}

static enum proem_status take(struct npy_stream *s, void *dst, size_t n, const char *part,
                              struct err *e) {
    if (n > s->left)
        return err_set(e, PROEM_DATA, "%s: truncated: %s needs %zu bytes, %llu are left", s->what,
                       part, n, (unsigned long long)s->left);
    if (n > 0 && !s->read(s->user, dst, n))
        return err_set(e, PROEM_IO, "%s: cannot read %s (truncated or damaged)", s->what, part);
    s->left -= n;
    return PROEM_OK;
}

enum proem_status npy_read_header(struct npy_stream *s, struct arena *a, struct npy_header *out,
                                  struct err *e) {
    unsigned char head[12] = {0};
    TRY(take(s, head, 8, "the magic", e));
    if (memcmp(head, "\x93NUMPY", 6) != 0)
        return err_set(e, PROEM_DATA, "%s: not a .npy file (its magic is missing)", s->what);
    int version = head[6];
    if (version < 1 || version > 3 || head[7] != 0)
        return err_set(e, PROEM_UNSUPPORTED,
                       "%s: .npy version %d.%d is not supported; expected 1.0, 2.0 or 3.0", s->what,
                       head[6], head[7]);
    TRY(take(s, head + 8, version == 1 ? 2 : 4, "the header's length", e));
    size_t n =
        (size_t)head[8] | (size_t)head[9] << 8 | (size_t)head[10] << 16 | (size_t)head[11] << 24;
    if (n > HEADER_MAX)
        return err_set(e, PROEM_DATA,
                       "%s: the header says it is %zu bytes long; at most %zu are read", s->what, n,
                       HEADER_MAX);
    if (n > s->left) return take(s, NULL, n, "the header", e);
    char *text = ARENA_NEW(a, char, n + 1);
    if (text == NULL) return err_nomem(e);
    TRY(take(s, text, n, "the header", e));
    struct lexer l = {text, text + n, s->what, e};
    struct npy_header h = {0};
    TRY(parse_dict(&l, &h));
    *out = h;
    return PROEM_OK;
}

/* dst[i0][i1].. = src[..][i1][i0]: dst is written in order, the source position is kept in step. */
static void transpose(const struct array_type *t, size_t elem, int64_t count,
                      const unsigned char *src, unsigned char *dst) {
    int64_t index[MAX_RANK] = {0}, stride[MAX_RANK] = {0}, from = 0;
    int64_t step = 1;
    for (int i = 0; i < t->rank; i++) {
        stride[i] = step;
        step *= t->shape[i];
    }
    for (int64_t n = 0; n < count; n++) {
        memcpy(dst + (size_t)n * elem, src + (size_t)from * elem, elem);
        for (int i = t->rank - 1; i >= 0; i--) {
            from += stride[i];
            if (++index[i] < t->shape[i]) break;
            from -= stride[i] * t->shape[i];
            index[i] = 0;
        }
    }
}

enum proem_status npy_read_data(struct npy_stream *s, const struct npy_header *h,
                                const struct allocator *alloc, struct array *out, struct err *e) {
    int64_t count;
    size_t bytes;
    if (!array_type_size(&h->type, &count, &bytes))
        return err_set(e, PROEM_DATA, "%s: the shape in the header overflows", s->what);
    if (bytes > s->left) return take(s, NULL, bytes, "the data", e);
    struct array a;
    TRY(array_new(alloc, &h->type, s->what, &a, e));
    enum proem_status status = take(s, a.data, a.bytes, "the data", e);
    if (status != PROEM_OK) {
        array_free(&a);
        return status;
    }
    size_t elem = (size_t)dtype_bits(h->type.dtype) / 8;
    bytes_to_native(a.data, elem, (size_t)count, h->big_endian);
    if (h->fortran && h->type.rank > 1) {
        struct array b;
        status = array_new(alloc, &h->type, s->what, &b, e);
        if (status == PROEM_OK) transpose(&h->type, elem, count, a.data, b.data);
        array_free(&a);
        if (status != PROEM_OK) return status;
        a = b;
    }
    if (h->type.dtype == DT_BOOL) {
        unsigned char *b = a.data;
        for (int64_t i = 0; i < count; i++)
            b[i] = b[i] != 0;
    }
    *out = a;
    return PROEM_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static const char *npy_code(enum dtype d) {
    switch (d) {
    case DT_BF16: return "<u2";
    case DT_BOOL: return "|b1";
    case DT_I8: return "|i1";
    case DT_U8: return "|u1";
    default: break;
    }
    static const char *const code[] = {"<i2", "<i4", "<i8", "<u2", "<u4",
                                       "<u8", "<f2", "<f4", "<f8"};
    static const enum dtype of[] = {DT_I16, DT_I32, DT_I64, DT_U16, DT_U32,
                                    DT_U64, DT_F16, DT_F32, DT_F64};
    for (size_t i = 0; i < COUNT_OF(of); i++) {
        if (of[i] == d) return code[i];
    }
    return "|u1"; /* f8, e8m0, and packed sub-byte elements */
}

static void header_text(const struct array *a, struct str *s) {
    str_printf(s, "{'descr': '%s', 'fortran_order': False, 'shape': (", npy_code(a->type.dtype));
    if (dtype_is_subbyte(a->type.dtype)) {
        str_printf(s, "%zu,", a->bytes);
    } else {
        for (int i = 0; i < a->type.rank; i++)
            str_printf(s, "%lld%s", (long long)a->type.shape[i],
                       i + 1 < a->type.rank ? ", " : (a->type.rank == 1 ? "," : ""));
    }
    str_add(s, "), }");
    while ((10 + s->n + 1) % 64 != 0 && !s->failed)
        str_add(s, " ");
    str_add(s, "\n");
}

enum proem_status npy_write(const char *path, const struct array *a, struct err *e) {
    struct str s;
    str_init(&s, a->alloc);
    header_text(a, &s);
    if (s.failed) {
        str_free(&s);
        return err_nomem(e);
    }
    unsigned char head[10] = "\x93NUMPY\x01";
    head[8] = (unsigned char)(s.n & 255);
    head[9] = (unsigned char)(s.n >> 8);
    struct file_out f;
    enum proem_status status = file_create(path, &f, e);
    if (status == PROEM_OK) {
        status = file_append(&f, head, sizeof head, e);
        if (status == PROEM_OK) status = file_append(&f, s.at, s.n, e);
        if (status == PROEM_OK) status = file_append_array(&f, a, e);
        status = file_finish(&f, status, e);
    }
    str_free(&s);
    return status;
}
