/* SPDX-License-Identifier: MIT
 * GGUF files, versions 2 and 3, little-endian: metadata that is walked over, then tensors' names,
 * shapes, types and places, then their data, aligned.
 *
 * The layout is the GGUF specification's (ggml, docs/gguf.md). Of the metadata only
 * `general.alignment` matters here. Dims are stored innermost first, so they are reversed. What a
 * file says is never larger than what it holds: every count is checked against the bytes that are
 * left before anything is allocated, and tensors lie apart from each other inside the data. A type
 * that proem lacks is an error only for who asks for that tensor.
 *
 * A model may be cut into files NAME-00001-of-0000N.gguf, which say so by split.no (from 0) and
 * split.count. Whichever of them is opened, all are, and their tensors are one archive's.
 */
#include "front/archive.h"
#include "ops/block.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_DIMS = 4,
    MOST_NESTED = 8,   /* arrays of arrays */
    NAME_MOST = 65535, /* bytes of a key, and of a tensor's name */
    INFO_LEAST = 24,   /* bytes of a tensor's entry */
    WINDOW = 1 << 16,  /* bytes that are read at once */
    TYPE_U16 = 2,      /* of metadata */
    TYPE_U32 = 4,
    TYPE_STRING = 8,
    TYPE_ARRAY = 9,
    TYPE_COUNT = 13
};

struct reader {
    struct archive *ar;
    struct err *err;
    const struct file *file;
    uint64_t part;
    uint64_t at;           /* in the file */
    unsigned char *window; /* bytes [begin, begin + n) of the file */
    uint64_t begin;
    size_t n;
    uint64_t alignment;
    bool has_alignment;
    uint64_t split_no, split_count;
};

static enum proem_status broken(const struct reader *r, const char *what) {
    return err_set(r->err, PROEM_DATA, "%s: at byte %llu: %s", r->file->name,
                   (unsigned long long)r->at, what);
}

static uint64_t left(const struct reader *r) {
    return r->file->size - r->at;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static enum proem_status take(struct reader *r, void *dst, size_t n) {
    if (n > left(r)) return broken(r, "truncated");
    if (n > WINDOW) {
        TRY(file_read(r->file, r->at, dst, n, r->err));
        r->at += n;
        return PROEM_OK;
    }
    if (r->at < r->begin || r->at + n > r->begin + r->n) {
        r->n = 0;
        size_t size = left(r) < WINDOW ? (size_t)left(r) : WINDOW;
        TRY(file_read(r->file, r->at, r->window, size, r->err));
        r->begin = r->at;
        r->n = size;
    }
    memcpy(dst, r->window + (r->at - r->begin), n);
    r->at += n;
    return PROEM_OK;
}

static enum proem_status take_int(struct reader *r, size_t n, uint64_t *out) {
    unsigned char b[8];
    TRY(take(r, b, n));
    *out = 0;
    while (n-- > 0)
        *out = *out << 8 | b[n];
    return PROEM_OK;
}

static enum proem_status skip(struct reader *r, uint64_t count, uint64_t size) {
    if (count > left(r) / size) return broken(r, "truncated: a value runs past the file's end");
    r->at += count * size;
    return PROEM_OK;
}

/* A name: not empty, no NUL in it. It stands in `arena`. */
static enum proem_status take_name(struct reader *r, struct arena *arena, const char **out) {
    uint64_t n;
    TRY(take_int(r, 8, &n));
    if (n == 0) return broken(r, "a name is empty");
    if (n > NAME_MOST) return broken(r, "a name is longer than 65535 bytes");
    if (n > left(r)) return broken(r, "truncated: a name runs past the file's end");
    char *name = ARENA_NEW(arena, char, (size_t)n + 1);
    if (name == NULL) return err_nomem(r->err);
    TRY(take(r, name, (size_t)n));
    name[n] = '\0';
    if (memchr(name, '\0', (size_t)n) != NULL) return broken(r, "a name has a NUL byte");
    *out = name;
    return PROEM_OK;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static enum proem_status skip_value(struct reader *r, uint64_t type, int depth) {
    static const unsigned char size[TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    uint64_t n, of;
    if (type >= TYPE_COUNT) return broken(r, "a value has a type that GGUF does not define");
    if (size[type] > 0) return skip(r, 1, size[type]);
    if (type == TYPE_STRING) {
        TRY(take_int(r, 8, &n));
        return skip(r, n, 1);
    }
    TRY(take_int(r, 4, &of));
    TRY(take_int(r, 8, &n));
    if (of >= TYPE_COUNT) return broken(r, "an array has a type that GGUF does not define");
    if (size[of] > 0) return skip(r, n, size[of]);
    if (depth >= MOST_NESTED) return broken(r, "arrays are nested too deep");
    /* a string has at least its length, an array its type and length */
    if (n > left(r) / (of == TYPE_STRING ? 8 : 12))
        return broken(r, "truncated: an array runs past the file's end");
    for (uint64_t i = 0; i < n; i++)
        TRY(skip_value(r, of, depth + 1));
    return PROEM_OK;
}

static enum proem_status read_alignment(struct reader *r, uint64_t type) {
    if (type != TYPE_U32) return broken(r, "general.alignment is no u32");
    if (r->has_alignment) return broken(r, "general.alignment is there twice");
    r->has_alignment = true;
    TRY(take_int(r, 4, &r->alignment));
    if (r->alignment == 0 || r->alignment % 8 != 0)
        return broken(r, "general.alignment must be a multiple of 8");
    return PROEM_OK;
}

static enum proem_status read_pair(struct reader *r) {
    struct arena temp;
    const char *key = NULL;
    uint64_t type = 0, *number = NULL;
    arena_init(&temp, r->ar->arena->alloc);
    enum proem_status s = take_name(r, &temp, &key);
    bool alignment = s == PROEM_OK && strcmp(key, "general.alignment") == 0;
    if (s == PROEM_OK && strcmp(key, "split.no") == 0) number = &r->split_no;
    if (s == PROEM_OK && strcmp(key, "split.count") == 0) number = &r->split_count;
    arena_free(&temp);
    TRY(s);
    TRY(take_int(r, 4, &type));
    if (alignment) return read_alignment(r, type);
    if (number == NULL) return skip_value(r, type, 0);
    if (type != TYPE_U16) return broken(r, "split.no and split.count must be u16");
    return take_int(r, 2, number);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static enum dtype dtype_of(uint32_t type) {
    static const struct {
        uint32_t type;
        enum dtype dtype;
    } plain[] = {{0, DT_F32},  {1, DT_F16},  {24, DT_I8},  {25, DT_I16},
                 {26, DT_I32}, {27, DT_I64}, {28, DT_F64}, {30, DT_BF16}};
    for (size_t i = 0; i < COUNT_OF(plain); i++) {
        if (plain[i].type == type) return plain[i].dtype;
    }
    return block_from_gguf(type);
}

static enum proem_status bad_tensor(const struct reader *r, const struct archive_entry *t,
                                    const char *what) {
    return err_set(r->err, PROEM_DATA, "%s: tensor '%s': %s", r->file->name, t->key, what);
}

static enum proem_status read_shape(struct reader *r, struct archive_entry *t) {
    uint64_t rank, dim;
    TRY(take_int(r, 4, &rank));
    if (rank > MOST_DIMS) return bad_tensor(r, t, "it has more than 4 dims");
    t->type.rank = (int)rank;
    for (int i = (int)rank; i-- > 0;) {
        TRY(take_int(r, 8, &dim));
        if (dim > INT64_MAX) return bad_tensor(r, t, "a dim is too large");
        t->type.shape[i] = (int64_t)dim;
    }
    return PROEM_OK;
}

static enum proem_status read_tensor(struct reader *r, struct archive_entry *t) {
    uint64_t type, bytes = 0;
    *t = (struct archive_entry){.key = "", .member = r->part};
    TRY(take_name(r, r->ar->arena, &t->key));
    TRY(read_shape(r, t));
    TRY(take_int(r, 4, &type));
    TRY(take_int(r, 8, &t->begin));
    t->type.dtype = dtype_of((uint32_t)type);
    if (t->type.dtype == DT_NONE) {
        t->unsupported = arena_printf(r->ar->arena, "GGML's type %llu", (unsigned long long)type);
        if (t->unsupported == NULL) return err_nomem(r->err);
    } else {
        int64_t count, row = t->type.rank > 0 ? t->type.shape[t->type.rank - 1] : 1;
        size_t size;
        if (dtype_is_block(t->type.dtype) && row % block_format(t->type.dtype)->elements != 0)
            return bad_tensor(r, t, "a row is no whole number of blocks");
        if (!array_type_size(&t->type, &count, &size))
            return bad_tensor(r, t, "its size overflows");
        bytes = size;
    }
    if (t->begin > UINT64_MAX - bytes) return bad_tensor(r, t, "its place overflows");
    t->end = t->begin + bytes;
    return PROEM_OK;
}

static int by_place(const void *a, const void *b) {
    const struct archive_entry *x = *(const struct archive_entry *const *)a;
    const struct archive_entry *y = *(const struct archive_entry *const *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->key, y->key);
}

/* Aligned, inside the data, and apart: the entries from `first` on. */
static enum proem_status check_places(struct reader *r, size_t first, uint64_t data_at) {
    struct archive *ar = r->ar;
    size_t n = ar->n - first;
    uint64_t size = r->file->size > data_at ? r->file->size - data_at : 0;
    const struct archive_entry **order = ARENA_NEW(ar->arena, const struct archive_entry *, n);
    if (order == NULL) return err_nomem(r->err);
    for (size_t i = 0; i < n; i++) {
        const struct archive_entry *t = order[i] = &ar->entries[first + i];
        if (t->begin % r->alignment != 0) return bad_tensor(r, t, "its data is not aligned");
        if (t->end > size) return bad_tensor(r, t, "truncated: its data runs past the file's end");
    }
    if (n > 1) qsort(order, n, sizeof order[0], by_place);
    for (size_t i = 1; i < n; i++) {
        if (order[i]->begin < order[i - 1]->end)
            return bad_tensor(r, order[i], "its data overlaps another tensor's");
    }
    return PROEM_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static enum proem_status read_head(struct reader *r, uint64_t *tensors, uint64_t *pairs) {
    unsigned char magic[4];
    uint64_t version;
    TRY(take(r, magic, sizeof magic));
    if (memcmp(magic, "GGUF", sizeof magic) != 0)
        return err_set(r->err, PROEM_DATA, "%s: this is no GGUF file: it does not begin with GGUF",
                       r->file->name);
    TRY(take_int(r, 4, &version));
    if (version == 0x02000000 || version == 0x03000000)
        return err_set(r->err, PROEM_UNSUPPORTED, "%s: big-endian GGUF files are not supported",
                       r->file->name);
    if (version != 2 && version != 3)
        return err_set(r->err, PROEM_UNSUPPORTED,
                       "%s: GGUF version %llu is not supported; 2 and 3 are", r->file->name,
                       (unsigned long long)version);
    TRY(take_int(r, 8, tensors));
    TRY(take_int(r, 8, pairs));
    return PROEM_OK;
}

/* The entries of one more file, behind those that are there. */
static enum proem_status read_index(struct reader *r, uint64_t *data_at) {
    struct archive *ar = r->ar;
    uint64_t tensors = 0, pairs = 0;
    size_t first = ar->n;
    TRY(read_head(r, &tensors, &pairs));
    for (uint64_t i = 0; i < pairs; i++)
        TRY(read_pair(r));
    if (tensors > left(r) / INFO_LEAST)
        return broken(r, "truncated: the file is too short for its number of tensors");
    struct archive_entry *all = ARENA_NEW(ar->arena, struct archive_entry, first + (size_t)tensors);
    if (all == NULL) return err_nomem(r->err);
    if (first > 0) memcpy(all, ar->entries, first * sizeof *all);
    ar->entries = all;
    for (; ar->n < first + tensors; ar->n++)
        TRY(read_tensor(r, &ar->entries[ar->n]));
    *data_at = r->at + (r->alignment - r->at % r->alignment) % r->alignment;
    return check_places(r, first, *data_at);
}

static enum proem_status index_file(struct archive *ar, const struct file *f, uint64_t part,
                                    uint64_t *data_at, struct reader *r, struct err *e) {
    *r = (struct reader){.ar = ar, .err = e, .file = f, .part = part, .alignment = 32};
    r->window = mem_alloc(ar->arena->alloc, WINDOW, 1);
    if (r->window == NULL) return err_nomem(e);
    enum proem_status s = read_index(r, data_at);
    mem_free(ar->arena->alloc, r->window, WINDOW, 1);
    return s;
}

/* The name of file `no` (from 0), by that of the one that is open. */
static enum proem_status split_name(struct archive *ar, const struct reader *own, uint64_t no,
                                    const char **out, struct err *e) {
    unsigned long long count = own->split_count, its = own->split_no + 1;
    const char *end = arena_printf(ar->arena, "-%05llu-of-%05llu.gguf", its, count);
    if (end == NULL) return err_nomem(e);
    size_t n = strlen(ar->name), m = strlen(end);
    if (n < m || strcmp(ar->name + n - m, end) != 0)
        return err_set(e, PROEM_DATA, "%s: this is file %llu of %llu; its name must end in %s",
                       ar->name, its, count, end);
    *out = arena_printf(ar->arena, "%.*s-%05llu-of-%05llu.gguf", (int)(n - m), ar->name,
                        (unsigned long long)no + 1, count);
    return *out != NULL ? PROEM_OK : err_nomem(e);
}

static enum proem_status index_part(struct archive *ar, const struct reader *own, uint64_t no,
                                    struct err *e) {
    struct archive_part *part = &ar->parts[ar->n_parts];
    struct reader r;
    const char *name = NULL;
    TRY(split_name(ar, own, no, &name, e));
    TRY(file_open(ar->arena, name, &part->file, e));
    ar->n_parts++;
    TRY(index_file(ar, &part->file, ar->n_parts - 1, &part->data_at, &r, e));
    if (r.split_no == no && r.split_count == own->split_count) return PROEM_OK;
    return err_set(e, PROEM_DATA, "%s: it says that it is file %llu of %llu", name,
                   (unsigned long long)r.split_no + 1, (unsigned long long)r.split_count);
}

enum proem_status gguf_index(struct archive *ar, struct err *e) {
    struct reader r;
    TRY(index_file(ar, &ar->file, 0, &ar->data_at, &r, e));
    if (r.split_count < 2 || ar->file.fd < 0) return PROEM_OK;
    if (r.split_no >= r.split_count)
        return err_set(e, PROEM_DATA, "%s: split.no is %llu, split.count %llu", ar->name,
                       (unsigned long long)r.split_no, (unsigned long long)r.split_count);
    ar->parts = ARENA_NEW(ar->arena, struct archive_part, (size_t)r.split_count);
    if (ar->parts == NULL) return err_nomem(e);
    ar->n_parts = 1;
    for (uint64_t no = 0; no < r.split_count; no++) {
        if (no != r.split_no) TRY(index_part(ar, &r, no, e));
    }
    return PROEM_OK;
}

void gguf_close(struct archive *ar) {
    for (size_t i = 1; i < ar->n_parts; i++)
        file_close(&ar->parts[i].file);
    ar->n_parts = 0;
}

enum proem_status gguf_read(struct archive *ar, const struct archive_entry *entry,
                            const struct allocator *alloc, struct array *out, struct err *e) {
    const struct archive_part *part = entry->member > 0 ? &ar->parts[entry->member] : NULL;
    return archive_data(ar, part != NULL ? &part->file : &ar->file,
                        part != NULL ? part->data_at : ar->data_at, entry, alloc, out, e);
}
