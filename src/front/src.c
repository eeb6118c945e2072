/* SPDX-License-Identifier: MIT
 * Sources of tensors as the command line and the graph text write them: files (x.npy, m.npz:KEY,
 * m.safetensors:KEY, m.onnx:KEY, m.gguf:KEY), fills (zeros ones arange randn rand randint:LO:HI), numbers.
 *
 * A word that is none of the fills and no number must be a file, recognised by its suffix; in an
 * archive the key follows the first ".npz:" (or the like), so a key may hold colons and a path too.
 * A file's dtype is turned into the tensor's by array_adopt; a number follows the rule of literals
 * (out of an integer dtype's range is an error, a float dtype rounds).
 */
#include "front/front.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SRC_FORMS                                                                                  \
    "expected x.npy, m.npz:KEY, m.safetensors:KEY, m.gguf:KEY, m.onnx:KEY, zeros, ones, arange, "  \
    "randn, rand, randint:LO:HI or a number"

/* ---- parsing --------------------------------------------------------------------------------- */

static bool parse_i64(const char *s, const char *end, int64_t *out) {
    if (s == end || (*s != '-' && *s != '+' && (*s < '0' || *s > '9'))) return false;
    char *stop;
    errno = 0;
    long long v = strtoll(s, &stop, 10);
    if (errno != 0 || stop != end) return false;
    *out = v;
    return true;
}

struct number {
    bool is_int; /* value in magnitude and sign */
    bool negative;
    uint64_t magnitude;
    double f;
    bool is_bool;
};

static bool is_integer_text(const char *s) {
    if (*s == '-' || *s == '+') s++;
    if (*s == '\0') return false;
    for (; *s != '\0'; s++) {
        if (*s < '0' || *s > '9') return false;
    }
    return true;
}

static bool parse_number(const char *s, struct number *out) {
    *out = (struct number){0};
    if (strcmp(s, "true") == 0 || strcmp(s, "false") == 0) {
        *out = (struct number){.is_int = true, .is_bool = true, .magnitude = s[0] == 't'};
        out->f = (double)out->magnitude;
        return true;
    }
    const char *digits = *s == '-' || *s == '+' ? s + 1 : s;
    bool named = strcmp(digits, "inf") == 0 || strcmp(digits, "nan") == 0;
    bool plain = (*digits >= '0' && *digits <= '9') || *digits == '.';
    if (!named && (!plain || strspn(digits, "0123456789.eE+-") != strlen(digits))) return false;
    const char *end;
    out->f = parse_double(s, &end);
    if (*end != '\0' || end == s) return false;
    if (is_integer_text(s)) {
        errno = 0;
        out->magnitude = strtoull(digits, NULL, 10);
        out->is_int = errno == 0;
        out->negative = *s == '-';
    }
    return true;
}

static enum proem_status parse_randint(const char *text, struct src *out, struct err *e) {
    const char *lo = text + strlen("randint:");
    const char *colon = strchr(lo, ':');
    if (colon == NULL || !parse_i64(lo, colon, &out->lo) ||
        !parse_i64(colon + 1, colon + 1 + strlen(colon + 1), &out->hi))
        return err_set(e, PROEM_INVALID, "'%s': expected randint:LO:HI with 64-bit integers", text);
    if (out->lo >= out->hi)
        return err_set(e, PROEM_INVALID, "'%s': LO must be below HI (HI is excluded)", text);
    out->kind = SRC_RANDINT;
    return PROEM_OK;
}

static enum proem_status set_path(struct arena *a, const char *path, size_t n, const char *folder,
                                  struct src *out, struct err *e) {
    if (folder == NULL || folder[0] == '\0' || path[0] == '/')
        out->path = arena_strndup(a, path, n);
    else
        out->path = arena_printf(a, "%s/%.*s", folder, (int)n, path);
    return out->path != NULL ? PROEM_OK : err_nomem(e);
}

static bool ends_with(const char *s, const char *suffix) {
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

static enum proem_status parse_file(struct arena *a, const char *text, const char *folder,
                                    struct src *out, struct err *e) {
    static const char *const suffixes[] = {".npz", ".safetensors", ".gguf", ".onnx"};
    const char *path_end = NULL;
    for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
        size_t n = strlen(suffixes[i]);
        const char *p = text;
        while ((p = strstr(p, suffixes[i])) != NULL && p[n] != ':')
            p++;
        if (p != NULL && (path_end == NULL || p + n < path_end)) path_end = p + n;
        if (ends_with(text, suffixes[i]) && path_end == NULL)
            return err_set(e, PROEM_INVALID, "'%s': which tensor? expected %s:KEY", text, text);
    }
    if (path_end != NULL) {
        out->kind = SRC_ARCHIVE;
        if (path_end[1] == '\0')
            return err_set(e, PROEM_INVALID, "'%s': the key after ':' is empty", text);
        out->key = arena_strdup(a, path_end + 1);
        if (out->key == NULL) return err_nomem(e);
        return set_path(a, text, (size_t)(path_end - text), folder, out, e);
    }
    if (!ends_with(text, ".npy"))
        return err_set(e, PROEM_INVALID, "'%s' is no source; " SRC_FORMS, text);
    out->kind = SRC_NPY;
    return set_path(a, text, strlen(text), folder, out, e);
}

enum proem_status src_parse(struct arena *a, const char *text, const char *folder, struct src *out,
                            struct err *e) {
    static const struct {
        const char *word;
        enum src_kind kind;
    } words[] = {{"zeros", SRC_ZEROS},
                 {"ones", SRC_ONES},
                 {"arange", SRC_ARANGE},
                 {"randn", SRC_RANDN},
                 {"rand", SRC_RAND}};
    struct src s = {0};
    struct number number;
    if (strlen(text) > 1u << 16) return err_set(e, PROEM_INVALID, "a source is too long");
    s.text = arena_strdup(a, text);
    if (s.text == NULL) return err_nomem(e);
    enum proem_status status = PROEM_OK;
    bool found = false;
    for (size_t i = 0; i < COUNT_OF(words) && !found; i++) {
        found = strcmp(text, words[i].word) == 0;
        if (found) s.kind = words[i].kind;
    }
    if (!found && parse_number(text, &number)) {
        s.kind = SRC_NUMBER;
    } else if (!found) {
        status = strncmp(text, "randint:", 8) == 0 ? parse_randint(text, &s, e)
                                                   : parse_file(a, text, folder, &s, e);
    }
    if (status == PROEM_OK) *out = s;
    return status;
}

/* ---- files ----------------------------------------------------------------------------------- */

void src_files_init(struct src_files *f, struct arena *a) {
    *f = (struct src_files){.arena = a};
}

void src_files_close(struct src_files *f) {
    for (size_t i = 0; i < f->archives.n; i++)
        archive_close(f->archives.at[i]);
    f->archives.n = 0;
}

enum proem_status src_files_archive(struct src_files *f, const char *path, struct archive **out,
                                    struct err *e) {
    for (size_t i = 0; i < f->archives.n; i++) {
        if (strcmp(archive_name(f->archives.at[i]), path) == 0) {
            *out = f->archives.at[i];
            return PROEM_OK;
        }
    }
    struct archive *ar = NULL;
    TRY(archive_open(f->arena, path, &ar, e));
    if (!VEC_PUSH(f->arena, &f->archives, ar)) {
        archive_close(ar);
        return err_nomem(e);
    }
    *out = ar;
    return PROEM_OK;
}

struct file_cursor {
    struct file file;
    uint64_t at;
};

static bool read_file(void *user, void *dst, size_t n) {
    struct file_cursor *c = user;
    if (file_read(&c->file, c->at, dst, n, NULL) != PROEM_OK) return false;
    c->at += n;
    return true;
}

/* data may be NULL: then only the type is read. */
static enum proem_status read_npy(struct arena *a, const char *path, const struct allocator *alloc,
                                  struct array_type *type, struct array *data, struct err *e) {
    struct file_cursor cursor = {0};
    TRY(file_open(a, path, &cursor.file, e));
    struct npy_stream s = {read_file, &cursor, cursor.file.size, path};
    struct npy_header h;
    enum proem_status status = npy_read_header(&s, a, &h, e);
    if (status == PROEM_OK && data != NULL) status = npy_read_data(&s, &h, alloc, data, e);
    if (status == PROEM_OK) *type = h.type;
    file_close(&cursor.file);
    return status;
}

static enum proem_status find_key(struct src_files *f, const struct src *s, struct archive **ar,
                                  size_t *index, struct err *e) {
    TRY(src_files_archive(f, s->path, ar, e));
    long i = archive_find(*ar, s->key);
    if (i < 0) {
        size_t n = archive_count(*ar);
        return err_set(e, PROEM_INVALID, "%s: there is no key '%s' (it has %zu: %s%s%s)", s->path,
                       s->key, n, n > 0 ? archive_key(*ar, 0) : "", n > 1 ? ", " : "",
                       n > 1 ? archive_key(*ar, 1) : "");
    }
    *index = (size_t)i;
    return PROEM_OK;
}

/* What a file's tensor is. */
static enum proem_status stored_type(struct src_files *f, const struct src *s,
                                     struct array_type *out, struct err *e) {
    if (s->kind == SRC_NPY) return read_npy(f->arena, s->path, NULL, out, NULL, e);
    struct archive *ar = NULL;
    size_t i = 0;
    TRY(find_key(f, s, &ar, &i, e));
    return archive_type(ar, i, out, e);
}

enum proem_status src_shape(struct src_files *f, const struct src *s, const char *name,
                            enum dtype d, int rank, bool *known, int64_t *shape, struct err *e) {
    struct array_type stored = {0};
    (void)name; /* what goes wrong here is a file's fault, and messages name the file */
    *known = false;
    if (s->kind != SRC_NPY && s->kind != SRC_ARCHIVE) return PROEM_OK;
    TRY(stored_type(f, s, &stored, e));
    *known = array_shape_as(&stored, d, rank, shape);
    return PROEM_OK;
}

enum proem_status src_misfit(struct src_files *f, const struct src *s, const char *name,
                             enum dtype d, int rank, struct err *e) {
    struct array_type stored = {0};
    TRY(stored_type(f, s, &stored, e));
    struct str has;
    str_init(&has, f->arena->alloc);
    array_type_print(&stored, &has);
    enum proem_status status =
        err_set(e, PROEM_INVALID, "%s: '%s': holds %s, but %s of %d dim%s is expected", name,
                s->text, str_text(&has), dtype_name(d), rank, rank == 1 ? "" : "s");
    str_free(&has);
    return status;
}

static enum proem_status load_file(struct src_files *f, const struct src *s, const char *name,
                                   const struct array_type *want, const struct allocator *alloc,
                                   struct array *out, struct err *e) {
    struct array a = {0};
    struct array_type type;
    if (s->kind == SRC_NPY) {
        TRY(read_npy(f->arena, s->path, alloc, &type, &a, e));
    } else {
        struct archive *ar = NULL;
        size_t i = 0;
        TRY(find_key(f, s, &ar, &i, e));
        TRY(archive_read(ar, i, alloc, &a, e));
    }
    struct arena temp;
    arena_init(&temp, alloc);
    const char *what = arena_printf(&temp, "%s: '%s'", name, s->text);
    enum proem_status status = what != NULL ? array_adopt(&a, want, what, e) : err_nomem(e);
    arena_free(&temp);
    if (status == PROEM_OK)
        *out = a;
    else
        array_free(&a);
    return status;
}

/* ---- fills ----------------------------------------------------------------------------------- */

static enum proem_status number_value(const struct src *s, const char *name, enum dtype d,
                                      union scalar *out, struct err *e) {
    struct number v;
    if (!parse_number(s->text, &v)) return err_set(e, PROEM_INTERNAL, "'%s' is no number", s->text);
    if (dtype_is_float(d)) {
        *out = elem_cast(DT_F64, (union scalar){.f = v.f}, d, false);
        return PROEM_OK;
    }
    int64_t lo = 0, hi = 1;
    if (d != DT_BOOL) dtype_int_range(d, &lo, &hi);
    uint64_t most = d == DT_U64 ? UINT64_MAX : (uint64_t)hi;
    uint64_t least = 0 - (uint64_t)lo; /* magnitude of the most negative value */
    if (!v.is_int || v.magnitude > (v.negative ? least : most))
        return err_set(e, PROEM_INVALID, "%s: %s is no value of %s", name, s->text, dtype_name(d));
    out->i = (int64_t)(v.negative ? 0 - v.magnitude : v.magnitude);
    return PROEM_OK;
}

static void fill_with(struct array *a, union scalar v) {
    for (int64_t i = 0; i < a->count; i++)
        elem_store(a->type.dtype, a->data, i, v);
}

static enum proem_status fill(const struct src *s, const char *name, uint64_t seed, struct array *a,
                              struct err *e) {
    enum dtype d = a->type.dtype;
    union scalar v = {.i = 0};
    if (dtype_is_block(d) && s->kind == SRC_ZEROS) return PROEM_OK; /* an array begins as zeros */
    if (dtype_is_block(d))
        return err_set(e, PROEM_INVALID, "%s: '%s' makes no blocks of %s; use zeros or a file",
                       name, s->text, dtype_name(d));
    switch (s->kind) {
    case SRC_ZEROS:
    case SRC_ONES:
        v.i = s->kind == SRC_ONES;
        fill_with(a, elem_cast(DT_I64, v, d, false));
        return PROEM_OK;
    case SRC_ARANGE:
        for (int64_t i = 0; i < a->count; i++) {
            v.i = i;
            elem_store(d, a->data, i, elem_cast(DT_I64, v, d, false));
        }
        return PROEM_OK;
    case SRC_RANDN:
        if (!dtype_is_float(d))
            return err_set(e, PROEM_INVALID, "%s: randn is for floats, not %s; use randint:LO:HI",
                           name, dtype_name(d));
        return random_fill(a->data, d, a->count, seed, name, NULL, e);
    case SRC_RAND: return random_fill_uniform(a->data, d, a->count, seed, name, e);
    case SRC_RANDINT: return random_fill_range(a->data, d, a->count, seed, name, s->lo, s->hi, e);
    default:
        if (a->type.rank != 0)
            return err_set(e, PROEM_INVALID,
                           "%s: a number is for a scalar, and this tensor has %d dims; use zeros, "
                           "ones or a file",
                           name, a->type.rank);
        TRY(number_value(s, name, d, &v, e));
        fill_with(a, v);
        return PROEM_OK;
    }
}

enum proem_status src_load(struct src_files *f, const struct src *s, const char *name,
                           const struct array_type *want, uint64_t seed,
                           const struct allocator *alloc, struct array *out, struct err *e) {
    if (s->kind == SRC_NPY || s->kind == SRC_ARCHIVE)
        return load_file(f, s, name, want, alloc, out, e);
    struct array a;
    TRY(array_new(alloc, want, name, &a, e));
    enum proem_status status = fill(s, name, seed, &a, e);
    if (status == PROEM_OK)
        *out = a;
    else
        array_free(&a);
    return status;
}
