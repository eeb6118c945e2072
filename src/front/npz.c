/* SPDX-License-Identifier: MIT
 * .npz: a zip archive (libzip) whose members KEY.npy are .npy files; other members are skipped.
 *
 * A member is read front to back, so compressed ones need no second buffer. Its declared size
 * bounds what the header may ask for; libzip checks the checksum when the end of the member is
 * reached, so whatever follows the array is read as well. All of libzip's memory is its own.
 */
#include "front/archive.h"

#include <string.h>
#include <zip.h>

static enum proem_status zip_fault(const struct archive *ar, zip_error_t *fault, struct err *e) {
    enum proem_status s =
        err_set(e, zip_error_code_zip(fault) == ZIP_ER_MEMORY ? PROEM_NOMEM : PROEM_IO,
                "%s: cannot read the zip archive: %s", ar->name, zip_error_strerror(fault));
    zip_error_fini(fault);
    return s;
}

static enum proem_status open_zip(struct archive *ar, const void *memory, size_t n, struct err *e) {
    zip_error_t fault;
    zip_error_init(&fault);
    if (memory == NULL) {
        int code = 0;
        ar->zip = zip_open(ar->name, ZIP_RDONLY, &code);
        if (ar->zip != NULL) return PROEM_OK;
        zip_error_init_with_code(&fault, code);
        return zip_fault(ar, &fault, e);
    }
    zip_source_t *source = zip_source_buffer_create(memory, n, 0, &fault);
    if (source == NULL) return zip_fault(ar, &fault, e);
    ar->zip = zip_open_from_source(source, ZIP_RDONLY, &fault);
    if (ar->zip == NULL) {
        zip_source_free(source);
        return zip_fault(ar, &fault, e);
    }
    return PROEM_OK;
}

enum proem_status npz_index(struct archive *ar, const void *memory, size_t n, struct err *e) {
    TRY(open_zip(ar, memory, n, e));
    zip_int64_t members = zip_get_num_entries(ar->zip, 0);
    if (members <= 0) return PROEM_OK;
    ar->entries = ARENA_NEW(ar->arena, struct archive_entry, (size_t)members);
    if (ar->entries == NULL) return err_nomem(e);
    for (zip_int64_t i = 0; i < members; i++) {
        const char *name = zip_get_name(ar->zip, (zip_uint64_t)i, 0);
        size_t length = name != NULL ? strlen(name) : 0;
        if (length < 4 || strcmp(name + length - 4, ".npy") != 0) continue;
        char *key = arena_strndup(ar->arena, name, length - 4);
        if (key == NULL) return err_nomem(e);
        ar->entries[ar->n++] = (struct archive_entry){.key = key, .member = (uint64_t)i};
    }
    return PROEM_OK;
}

void npz_close(struct archive *ar) {
    if (ar->zip != NULL) zip_discard(ar->zip);
    ar->zip = NULL;
}

static bool read_member(void *user, void *dst, size_t n) {
    unsigned char *to = dst;
    while (n > 0) {
        zip_int64_t got = zip_fread(user, to, n);
        if (got <= 0) return false;
        to += got;
        n -= (size_t)got;
    }
    return true;
}

static enum proem_status read_to_end(struct npy_stream *s, struct err *e) {
    unsigned char rest[512];
    zip_int64_t got;
    while ((got = zip_fread(s->user, rest, sizeof rest)) > 0)
        continue;
    if (got == 0) return PROEM_OK;
    return err_set(e, PROEM_DATA, "%s: damaged: the member's checksum does not match", s->what);
}

static enum proem_status read_stream(struct npy_stream *s, struct arena *temp,
                                     const struct allocator *alloc, struct array_type *type,
                                     struct array *out, struct err *e) {
    struct npy_header header;
    TRY(npy_read_header(s, temp, &header, e));
    if (out != NULL) {
        struct array a;
        TRY(npy_read_data(s, &header, alloc, &a, e));
        enum proem_status status = read_to_end(s, e);
        if (status != PROEM_OK) {
            array_free(&a);
            return status;
        }
        *out = a;
    }
    *type = header.type;
    return PROEM_OK;
}

static enum proem_status read_entry(struct archive *ar, const struct archive_entry *entry,
                                    struct arena *temp, const struct allocator *alloc,
                                    struct array_type *type, struct array *out, struct err *e) {
    const char *what = arena_printf(temp, "%s:%s", ar->name, entry->key);
    if (what == NULL) return err_nomem(e);
    zip_stat_t st;
    if (zip_stat_index(ar->zip, entry->member, 0, &st) != 0 || (st.valid & ZIP_STAT_SIZE) == 0)
        return err_set(e, PROEM_DATA, "%s: the zip archive does not say how long it is", what);
    zip_file_t *member = zip_fopen_index(ar->zip, entry->member, 0);
    if (member == NULL)
        return err_set(e, PROEM_DATA, "%s: cannot open the member: %s", what,
                       zip_strerror(ar->zip));
    struct npy_stream s = {read_member, member, st.size, what};
    enum proem_status status = read_stream(&s, temp, alloc, type, out, e);
    zip_fclose(member);
    return status;
}

enum proem_status npz_read(struct archive *ar, const struct archive_entry *entry,
                           const struct allocator *alloc, struct array_type *type,
                           struct array *out, struct err *e) {
    struct arena temp;
    arena_init(&temp, ar->arena->alloc);
    enum proem_status s = read_entry(ar, entry, &temp, alloc, type, out, e);
    arena_free(&temp);
    return s;
}
