/* SPDX-License-Identifier: MIT
 * base: errors, memory, strings. The one place that allocates and formats.
 *
 * Conventions (whole library):
 *  - every fallible function returns enum proem_status and writes its results through trailing out_
 *    parameters, which it leaves alone on failure;
 *  - the text of the first error lives in a struct err, which the caller owns;
 *  - compile-time structures live in arenas, which are freed whole: passes have no clean-up code.
 */
#ifndef PROEM_BASE_H
#define PROEM_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proem/status.h"

#if defined(__GNUC__) || defined(__clang__)
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
#else
#define PRINTF_LIKE(f, a)
#endif

#define TRY(e)                                                                                     \
    do {                                                                                           \
        enum proem_status try_status_ = (e);                                                       \
        if (try_status_ != PROEM_OK) return try_status_;                                           \
    } while (0)

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

/* ---- memory ---------------------------------------------------------------------------------- */

/* The allocator of a context. alloc returns NULL on failure; align is a power of two. */
struct allocator {
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*free)(void *user, void *p, size_t size);
    void *user;
};

/* malloc and free. */
extern const struct allocator allocator_default;

/* Allocate or free count*size bytes, 64-byte aligned; NULL on overflow or lack of memory. */
void *mem_alloc(const struct allocator *a, size_t count, size_t size);
void mem_free(const struct allocator *a, void *p, size_t count, size_t size);

/* A bump allocator. After a failed allocation the arena is `failed`: arena_new() then returns
 * memory from a small emergency block that is reused (so that builders need no check at each
 * step), and the pass must look at arena_ok() before it returns success. */
struct arena {
    const struct allocator *alloc;
    struct arena_block *blocks;
    void *spare;
    bool failed;
};

void arena_init(struct arena *a, const struct allocator *alloc);
void arena_free(struct arena *a);
bool arena_ok(const struct arena *a);

/* Zeroed, 16-byte aligned. Returns NULL when count*size overflows or memory is out; sets failed. */
void *arena_alloc(struct arena *a, size_t count, size_t size);
#define ARENA_NEW(a, type, n) ((type *)arena_alloc((a), (size_t)(n), sizeof(type)))
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *format, ...) PRINTF_LIKE(2, 3);

/* Growable arrays in an arena: VEC(int) v = {0}; if (!VEC_PUSH(arena, &v, 3)) out of memory. */
#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *at;                                                                                  \
        size_t n, cap;                                                                             \
    }
bool vec_grow(struct arena *a, void *at_ptr, size_t n, size_t *cap, size_t elem);
#define VEC_PUSH(arena, v, value)                                                                  \
    (((v)->n < (v)->cap ||                                                                         \
      vec_grow((arena), (void *)&(v)->at, (v)->n, &(v)->cap, sizeof *(v)->at))                     \
         ? ((v)->at[(v)->n++] = (value), true)                                                     \
         : false)

/* ---- errors ---------------------------------------------------------------------------------- */

/* The first error of an operation. line and col are 0 when there is no source position. */
struct err {
    enum proem_status status;
    int line, col;
    char text[512];
};

void err_clear(struct err *e);
/* Record the first error (later ones are dropped) and return its status. e may be NULL. */
enum proem_status err_set(struct err *e, enum proem_status s, const char *format, ...)
    PRINTF_LIKE(3, 4);
enum proem_status err_set_at(struct err *e, enum proem_status s, int line, int col,
                             const char *format, ...) PRINTF_LIKE(5, 6);
enum proem_status err_nomem(struct err *e);
#ifdef __clang_analyzer__
/* It looks at one file at a time, so it has to be told that these return the status they are given;
 * else it follows paths on which a function has failed and its caller goes on. */
#define err_set(e, s, ...)               ((void)err_set(e, s, __VA_ARGS__), (s))
#define err_set_at(e, s, line, col, ...) ((void)err_set_at(e, s, line, col, __VA_ARGS__), (s))
#define err_nomem(e)                     ((void)err_nomem(e), PROEM_NOMEM)
#endif
const char *status_text(enum proem_status s);
int status_exit(enum proem_status s);

/* ---- strings --------------------------------------------------------------------------------- */

/* A growing string on an allocator. After a failure `failed` is set and appends do nothing. */
struct str {
    const struct allocator *alloc;
    char *at; /* always NUL-terminated once something was appended; NULL when empty */
    size_t n, cap;
    bool failed;
};

void str_init(struct str *s, const struct allocator *alloc);
void str_free(struct str *s);
void str_add(struct str *s, const char *text);
void str_addn(struct str *s, const char *text, size_t n);
void str_printf(struct str *s, const char *format, ...) PRINTF_LIKE(2, 3);
void str_vprintf(struct str *s, const char *format, va_list ap) PRINTF_LIKE(2, 0);
const char *str_text(const struct str *s); /* "" when empty */

/* Could `word` be `name`, mistyped? 0: the same; a number of letters to change, or -1: too many. */
int typo_distance(const char *word, size_t n, const char *name);

/* Shortest decimal that reads back as the same double ("inf", "-inf", "nan"; always with a '.',
 * an 'e' or a name, so that it is no integer). Locale-independent. buf has at least 32 bytes. */
const char *fmt_double(char *buf, double v);
/* Parse a decimal number, locale-independent; *end is set past what was read. */
double parse_double(const char *s, const char **end);

#endif
