/* SPDX-License-Identifier: MIT
 * front: tensors from outside. Files (.npy, .npz, .safetensors, .gguf,
 * .onnx), sources named on the command line
 * or in the graph text, and values made from a seed.
 *
 * Every file is hostile: sizes are checked before anything is allocated, nothing is read past what
 * the file holds, and an error names the file, the key, what is wrong and what was expected.
 */
#ifndef PROEM_FRONT_H
#define PROEM_FRONT_H

#include <limits.h>

#include "base/base.h"
#include "graph/graph.h"
#include "ops/dtype.h"

/* ---- arrays ---------------------------------------------------------------------------------- */

/* A dtype with a shape in numbers. */
struct array_type {
    enum dtype dtype;
    int rank;
    int64_t shape[MAX_RANK];
};

/* A tensor in memory: compact, row-major, native byte order, sub-byte elements packed. */
struct array {
    struct array_type type;
    int64_t count; /* elements */
    size_t bytes;
    void *data; /* from alloc, 64-byte aligned, or mapped, aligned to its element; never NULL */
    const struct allocator *alloc;
    void *map; /* the pages of a file that data lies in, NULL: none */
    size_t map_bytes;
};

/* Number of elements, and bytes; false if a dim is negative or a size overflows. */
bool array_type_size(const struct array_type *t, int64_t *count, size_t *bytes);
void array_type_print(const struct array_type *t, struct str *out);
/* What could not be allocated is PROEM_NOMEM naming `what` and the bytes. Contents are zero bytes.
 */
enum proem_status array_new(const struct allocator *alloc, const struct array_type *t,
                            const char *what, struct array *out, struct err *e);
void array_free(struct array *a);
/* A tensor whose bytes lie in a file, little-endian, from offset on. A large one is mapped, not
 * copied: private pages, so that what is written to them stays here. The file must not be cut short
 * as long as the array lives. `what` names it in errors. */
struct file;
enum proem_status array_from_file(const struct file *f, uint64_t offset, const struct array_type *t,
                                  const char *what, const struct allocator *alloc,
                                  struct array *out, struct err *e);

/* A file has fewer dtypes than the graph: in .npy, bf16 is u16 and f8, e8m0 are u8 bits; a sub-byte
 * tensor is u8, packed and flat, or u8 or i8, one element each, in the tensor's shape (integers are
 * values, checked against the dtype's range; f4 are bits); a block format is u8, whose last dim
 * counts bytes. Turns what was read into `want`, in
 * place; `what` names it in errors. On failure the array is unchanged. */
enum proem_status array_adopt(struct array *a, const struct array_type *want, const char *what,
                              struct err *e);
/* The shape that a tensor of dtype d would have, given what a file stores; false if the file's
 * array can be no such tensor, or is, or may be, packed and has no shape. (For binding
 * symbols before loading.) */
bool array_shape_as(const struct array_type *stored, enum dtype d, int rank, int64_t *shape);

/* ---- bytes (front/file.c) -------------------------------------------------------------------- */

/* Where bytes come from: a regular file, or memory (tests and fuzzers). */
struct file {
    const char *name; /* for messages */
    int fd;           /* -1: memory */
    const unsigned char *memory;
    uint64_t size;
};

enum proem_status file_open(struct arena *a, const char *path, struct file *out, struct err *e);
/* Does f, which was opened as `path`, lie below the folder, wherever links lead? file: the folder is
 * that of a file, wherever links lead. */
bool file_lies_below(const struct file *f, const char *path, const char *folder, bool file);
/* Do both names lead to one file or folder that is there? */
bool file_is_same(const char *a, const char *b);
struct file file_memory(const char *name, const void *bytes, size_t n);
void file_close(struct file *f);
/* Exactly n bytes from offset; the range must lie inside the file. */
enum proem_status file_read(const struct file *f, uint64_t offset, void *dst, size_t n,
                            struct err *e);
/* The same range as private pages of the file: *map and *map_bytes are what file_unmap takes. NULL:
 * it cannot be mapped (memory, or what the system says). */
void *file_map(const struct file *f, uint64_t offset, size_t n, void **map, size_t *map_bytes);
void file_unmap(void *map, size_t map_bytes);
/* For the errno of a call that failed: a disk without room is what the machine lacks. */
enum proem_status file_status(int code);
/* By errno: "NAME: cannot VERB: ..". */
enum proem_status file_error(const char *name, const char *verb, struct err *e);
/* Reverse each element's bytes when the data's order is not the machine's. */
void bytes_to_native(void *data, size_t elem, size_t count, bool big_endian);

/* ---- files out (front/file_write.c) ---------------------------------------------------------- */

/* A file that is written. Until it is finished, a regular file of the name keeps what it holds. */
struct file_out {
    const char *path;
    int fd;
    bool beside; /* written as `temp`, which is put in its place at the end */
    char place[PATH_MAX], temp[PATH_MAX];
};

enum proem_status file_create(const char *path, struct file_out *f, struct err *e);
/* All bytes. */
enum proem_status file_append(struct file_out *f, const void *bytes, size_t n, struct err *e);
/* An array's bytes in little-endian order. */
enum proem_status file_append_array(struct file_out *f, const struct array *a, struct err *e);
/* Close it. s: how writing went; if it failed, the new file is removed. Gives s, or why the end
 * failed. */
enum proem_status file_finish(struct file_out *f, enum proem_status s, struct err *e);

/* ---- .npy (front/npy.c) ---------------------------------------------------------------------- */

/* A forward reader, so that a .npy may stand in a compressed archive. */
struct npy_stream {
    bool (*read)(void *user, void *dst, size_t n); /* exactly n bytes, or false */
    void *user;
    uint64_t left;    /* bytes not yet read; kept by npy.c */
    const char *what; /* names the file and key in messages */
};

struct npy_header {
    struct array_type type; /* shape in C order; the dtype that NumPy's stands for */
    bool big_endian;
    bool fortran;
};

/* Versions 1 to 3. Dtypes: bool, signed and unsigned integers, f16, f32, f64, in either order. */
enum proem_status npy_read_header(struct npy_stream *s, struct arena *a, struct npy_header *out,
                                  struct err *e);
enum proem_status npy_read_data(struct npy_stream *s, const struct npy_header *h,
                                const struct allocator *alloc, struct array *out, struct err *e);
/* Version 1, C order, little-endian; sub-byte tensors packed and flat. */
enum proem_status npy_write(const char *path, const struct array *a, struct err *e);

/* ---- archives: .npz, .safetensors, .gguf and .onnx (front/archive.h) -------------------------- */

struct archive;

enum proem_status archive_open(struct arena *a, const char *path, struct archive **out,
                               struct err *e);
/* The same over memory, which must outlive the archive. suffix: ".npz", ".safetensors" or
 * ".gguf". */
enum proem_status archive_open_memory(struct arena *a, const char *name, const char *suffix,
                                      const void *bytes, size_t n, struct archive **out,
                                      struct err *e);
void archive_close(struct archive *ar);
const char *archive_name(const struct archive *ar);
size_t archive_count(const struct archive *ar);
const char *archive_key(const struct archive *ar, size_t i); /* sorted by key */
/* -1 if there is no such key. */
long archive_find(const struct archive *ar, const char *key);
enum proem_status archive_type(struct archive *ar, size_t i, struct array_type *out, struct err *e);
enum proem_status archive_read(struct archive *ar, size_t i, const struct allocator *alloc,
                               struct array *out, struct err *e);

/* Writing .safetensors (front/safetensors_write.c): the tensors in order of alignment, then of key,
 * so that each is aligned. Sub-byte integers, which the format lacks, are written as U8, packed and
 * flat. */
struct named_array {
    const char *key;
    const struct array *array;
};
enum proem_status safetensors_write(const struct allocator *alloc, const char *path,
                                    const struct named_array *arrays, size_t n, struct err *e);

/* ---- values from a seed (front/random.c) -------------------------------------------------------
 */

/* What a tensor's uses demand of its values. Bounds are inclusive and apply to integers. */
struct random_rule {
    bool bounded;
    int64_t lo, hi;
    bool nonzero; /* a divisor */
    bool sorted;  /* offsets: non-decreasing in row-major order */
};

/* `randn` for floats, the full range for integers, within the rule (NULL: none); e8m0 lies within
 * 2^-4..2^4; blocks have any bits and moderate scales. The values depend on (dtype, seed, name, rule, position) alone and are the same on
 * every machine. PROEM_INVALID if no value satisfies the rule and count is not 0. */
enum proem_status random_fill(void *data, enum dtype d, int64_t count, uint64_t seed,
                              const char *name, const struct random_rule *rule, struct err *e);
/* Uniform in [0, 1), on as fine a grid as the float dtype has near 1. */
enum proem_status random_fill_uniform(void *data, enum dtype d, int64_t count, uint64_t seed,
                                      const char *name, struct err *e);
/* Uniform integers in [lo, hi), for floats too. */
enum proem_status random_fill_range(void *data, enum dtype d, int64_t count, uint64_t seed,
                                    const char *name, int64_t lo, int64_t hi, struct err *e);
/* The inverse of the standard normal distribution function, 0 < p < 1, in IEEE arithmetic only. */
double normal_quantile(double p);
/* k distinct numbers below n chosen by (seed, name), ascending: the rows of --check=rows. k <= n.
 */
void random_choose(int64_t n, int64_t k, uint64_t seed, const char *name, int64_t *out);

/* ---- sources (front/src.c) ------------------------------------------------------------------- */

enum src_kind {
    SRC_NPY,
    SRC_ARCHIVE,
    SRC_ZEROS,
    SRC_ONES,
    SRC_ARANGE,
    SRC_RANDN,
    SRC_RAND,
    SRC_RANDINT,
    SRC_NUMBER
};

struct src {
    enum src_kind kind;
    const char *text; /* as written */
    const char *path; /* files; joined with the folder that it is relative to */
    const char *key;  /* archives */
    int64_t lo, hi;   /* randint */
};

/* folder: what a relative path is relative to; NULL is the working directory. */
enum proem_status src_parse(struct arena *a, const char *text, const char *folder, struct src *out,
                            struct err *e);

/* Files that sources name stay open, so that an archive's index is read once. */
struct src_files {
    struct arena *arena;
    VEC(struct archive *) archives;
};
void src_files_init(struct src_files *f, struct arena *a);
void src_files_close(struct src_files *f);
enum proem_status src_files_archive(struct src_files *f, const char *path, struct archive **out,
                                    struct err *e);

/* The shape that the source gives a tensor of dtype d and this rank. *known is false when it gives
 * none (zeros, randn, packed sub-byte data, ...). name: the tensor's, for messages. */
enum proem_status src_shape(struct src_files *f, const struct src *s, const char *name,
                            enum dtype d, int rank, bool *known, int64_t *shape, struct err *e);
/* The error that a file's tensor gives no shape because it is no `d` of `rank` dims. */
enum proem_status src_misfit(struct src_files *f, const struct src *s, const char *name,
                             enum dtype d, int rank, struct err *e);
/* Make or read the tensor `name` of the given type. */
enum proem_status src_load(struct src_files *f, const struct src *s, const char *name,
                           const struct array_type *want, uint64_t seed,
                           const struct allocator *alloc, struct array *out, struct err *e);

#endif
