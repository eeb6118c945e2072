/* SPDX-License-Identifier: MIT
 * Errors, memory, strings: see base.h. The only file of the library that calls malloc and snprintf.
 */
#include "base/base.h"

#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---------------------------------------------------------------------------------- */

static void *default_alloc(void *user, size_t size, size_t align) {
    (void)user;
    if (size > SIZE_MAX - align) return NULL;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void default_free(void *user, void *p, size_t size) {
    (void)user;
    (void)size;
    free(p);
}

const struct allocator allocator_default = {default_alloc, default_free, NULL};

#define MEM_ALIGN 64u

void *mem_alloc(const struct allocator *a, size_t count, size_t size) {
    if (size != 0 && count > (SIZE_MAX - MEM_ALIGN) / size) return NULL;
    size_t bytes = count * size;
    return a->alloc(a->user, bytes != 0 ? bytes : 1, MEM_ALIGN);
}

void mem_free(const struct allocator *a, void *p, size_t count, size_t size) {
    size_t bytes = count * size;
    if (p != NULL) a->free(a->user, p, bytes != 0 ? bytes : 1);
}

struct arena_block {
    struct arena_block *next;
    size_t used, size; /* of data, which follows the header */
};

#define ARENA_ALIGN  16u
#define BLOCK_HEADER ((sizeof(struct arena_block) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN)
#ifndef BLOCK_MIN /* tests make it small, so that each allocation is one of its own */
#define BLOCK_MIN (64u * 1024u)
#endif

void arena_init(struct arena *a, const struct allocator *alloc) {
    *a = (struct arena){.alloc = alloc};
}

void arena_free(struct arena *a) {
    struct arena_block *b = a->blocks;
    while (b != NULL) {
        struct arena_block *next = b->next;
        mem_free(a->alloc, b, 1, BLOCK_HEADER + b->size);
        b = next;
    }
    *a = (struct arena){.alloc = a->alloc};
}

bool arena_ok(const struct arena *a) {
    return !a->failed;
}

static struct arena_block *block_new(struct arena *a, size_t bytes) {
    size_t size = bytes > BLOCK_MIN ? bytes : BLOCK_MIN;
    if (size > SIZE_MAX - BLOCK_HEADER) return NULL;
    struct arena_block *b = mem_alloc(a->alloc, 1, BLOCK_HEADER + size);
    if (b == NULL) return NULL;
    *b = (struct arena_block){.next = a->blocks, .size = size};
    a->blocks = b;
    return b;
}

void *arena_alloc(struct arena *a, size_t count, size_t size) {
    if (size != 0 && count > (SIZE_MAX / 2) / size) {
        a->failed = true;
        return NULL;
    }
    size_t bytes = (count * size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (bytes == 0) bytes = ARENA_ALIGN;
    struct arena_block *b = a->blocks;
    if (b == NULL || b->size - b->used < bytes) {
        b = block_new(a, bytes);
        if (b == NULL) {
            a->failed = true;
            return NULL;
        }
    }
    void *p = (char *)b + BLOCK_HEADER + b->used;
    b->used += bytes;
    return memset(p, 0, bytes);
}

char *arena_strndup(struct arena *a, const char *s, size_t n) {
    char *p = ARENA_NEW(a, char, n + 1);
    if (p != NULL) memcpy(p, s, n);
    return p;
}

char *arena_strdup(struct arena *a, const char *s) {
    return arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (n < 0) return NULL;
    char *p = ARENA_NEW(a, char, (size_t)n + 1);
    if (p == NULL) return NULL;
    va_start(ap, format);
    vsnprintf(p, (size_t)n + 1, format, ap);
    va_end(ap);
    return p;
}

bool vec_grow(struct arena *a, void *at_ptr, size_t n, size_t *cap, size_t elem) {
    size_t want = *cap < 8 ? 8 : *cap * 2;
    void *p = arena_alloc(a, want, elem);
    if (p == NULL) return false;
    void *old;
    memcpy(&old, at_ptr, sizeof old);
    if (n > 0) memcpy(p, old, n * elem);
    memcpy(at_ptr, &p, sizeof p);
    *cap = want;
    return true;
}

/* ---- errors ---------------------------------------------------------------------------------- */

#undef err_set /* macros for the analyzer (base.h) */
#undef err_set_at
#undef err_nomem

void err_clear(struct err *e) {
    *e = (struct err){.status = PROEM_OK};
}

static enum proem_status err_vset(struct err *e, enum proem_status s, int line, int col,
                                  const char *format, va_list ap) PRINTF_LIKE(5, 0);

static enum proem_status err_vset(struct err *e, enum proem_status s, int line, int col,
                                  const char *format, va_list ap) {
    if (e == NULL) return s;
    if (e->status != PROEM_OK) return e->status;
    e->status = s;
    e->line = line;
    e->col = col;
    vsnprintf(e->text, sizeof e->text, format, ap);
    for (char *p = e->text; *p != '\0'; p++) {
        if (*p == '\n' || *p == '\r') *p = ' '; /* an error is one line */
    }
    return s;
}

enum proem_status err_set(struct err *e, enum proem_status s, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    s = err_vset(e, s, 0, 0, format, ap);
    va_end(ap);
    return s;
}

enum proem_status err_set_at(struct err *e, enum proem_status s, int line, int col,
                             const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    s = err_vset(e, s, line, col, format, ap);
    va_end(ap);
    return s;
}

enum proem_status err_nomem(struct err *e) {
    return err_set(e, PROEM_NOMEM, "out of memory");
}

const char *status_text(enum proem_status s) {
    static const char *const text[] = {
#define TEXT(name, exit_status, text) text,
        PROEM_STATUS_LIST(TEXT)
#undef TEXT
    };
    return (size_t)s < COUNT_OF(text) ? text[s] : "unknown status";
}

int status_exit(enum proem_status s) {
    static const int exit_of[] = {
#define EXIT(name, exit_status, text) exit_status,
        PROEM_STATUS_LIST(EXIT)
#undef EXIT
    };
    return (size_t)s < COUNT_OF(exit_of) ? exit_of[s] : 4;
}

/* ---- strings --------------------------------------------------------------------------------- */

void str_init(struct str *s, const struct allocator *alloc) {
    *s = (struct str){.alloc = alloc};
}

void str_free(struct str *s) {
    mem_free(s->alloc, s->at, 1, s->cap);
    *s = (struct str){.alloc = s->alloc};
}

static bool str_reserve(struct str *s, size_t more) {
    if (s->failed) return false;
    if (more < s->cap - s->n) return true; /* room for the NUL */
    size_t cap = s->cap < 256 ? 256 : s->cap;
    while (cap - s->n <= more) {
        if (cap > SIZE_MAX / 2) {
            s->failed = true;
            return false;
        }
        cap *= 2;
    }
    char *p = mem_alloc(s->alloc, 1, cap);
    if (p == NULL) {
        s->failed = true;
        return false;
    }
    if (s->n > 0) memcpy(p, s->at, s->n);
    mem_free(s->alloc, s->at, 1, s->cap);
    s->at = p;
    s->cap = cap;
    return true;
}

void str_addn(struct str *s, const char *text, size_t n) {
    if (!str_reserve(s, n)) return;
    memcpy(s->at + s->n, text, n);
    s->n += n;
    s->at[s->n] = '\0';
}

void str_add(struct str *s, const char *text) {
    str_addn(s, text, strlen(text));
}

void str_vprintf(struct str *s, const char *format, va_list ap) {
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, format, ap);
    if (n >= 0 && str_reserve(s, (size_t)n)) {
        vsnprintf(s->at + s->n, (size_t)n + 1, format, again);
        s->n += (size_t)n;
    }
    va_end(again);
}

void str_printf(struct str *s, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    str_vprintf(s, format, ap);
    va_end(ap);
}

const char *str_text(const struct str *s) {
    return s->at != NULL ? s->at : "";
}

/* Numbers have a point, whatever locale the program set: newlocale("C") allocates nothing. */
static locale_t c_locale(void) {
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double parse_double(const char *s, const char **end) {
    locale_t c = c_locale();
    locale_t old = uselocale(c);
    char *stop;
    double v = strtod(s, &stop);
    uselocale(old);
    freelocale(c);
    if (end != NULL) *end = stop;
    return v;
}

const char *fmt_double(char *buf, double v) {
    if (isnan(v)) return strcpy(buf, "nan");
    if (isinf(v)) return strcpy(buf, v > 0 ? "inf" : "-inf");
    locale_t c = c_locale();
    locale_t old = uselocale(c);
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, 32, "%.*g", digits, v);
        if (strtod(buf, NULL) == v) break;
    }
    /* a whole number reads better without an exponent: 30.0, not 3e+01 */
    if (strchr(buf, 'e') != NULL && fabs(v) >= 1 && fabs(v) < 1e16) snprintf(buf, 32, "%.0f", v);
    uselocale(old);
    freelocale(c);
    if (strpbrk(buf, ".e") == NULL) strcat(buf, ".0");
    return buf;
}

/* ---- names -------------------------------------------------------------------------------------
 */

enum { LONGEST_NAME = 32 };

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Letters to insert, drop, replace, or swap with a neighbour (Damerau, "A technique for computer
 * detection and correction of spelling errors", 1964), by rows of the usual table. */
static size_t edits(const char *a, size_t n, const char *b, size_t m) {
    size_t row[3][LONGEST_NAME + 1];
    for (size_t j = 0; j <= m; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[i % 3];
        const size_t *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            now[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]), least(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }
    }
    return row[n % 3][m];
}

int typo_distance(const char *word, size_t n, const char *name) {
    size_t m = strlen(name);
    if (n > LONGEST_NAME || m > LONGEST_NAME) return -1;
    size_t d = edits(word, n, name, m);
    return d <= 2 && d * 4 <= least(n, m) ? (int)d : -1;
}
