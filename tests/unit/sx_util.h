/* SPDX-License-Identifier: MIT
 * What the tests of symbolic integers share: a pool with a few symbols, and short names.
 */
#ifndef SX_UTIL_H
#define SX_UTIL_H

#include "base/sx.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct arena arena;
    struct sx_pool *p;
    sx A, B, C, D, E, H, K, M, N, S;
};

static inline void begin(struct fixture *f) {
    arena_init(&f->arena, &allocator_default);
    f->p = sx_pool_new(&f->arena);
    f->A = sx_sym(f->p, "A");
    f->B = sx_sym(f->p, "B");
    f->C = sx_sym(f->p, "C");
    f->D = sx_sym(f->p, "D");
    f->E = sx_sym(f->p, "E");
    f->H = sx_sym(f->p, "H");
    f->K = sx_sym(f->p, "K");
    f->M = sx_sym(f->p, "M");
    f->N = sx_sym(f->p, "N");
    f->S = sx_sym(f->p, "S");
}

static inline void end(struct fixture *f) {
    assert_true(arena_ok(&f->arena));
    arena_free(&f->arena);
}

static inline sx num(struct fixture *f, int64_t v) {
    return sx_const(f->p, v);
}
static inline sx add(struct fixture *f, sx a, sx b) {
    return sx_add(f->p, a, b);
}
static inline sx sub(struct fixture *f, sx a, sx b) {
    return sx_sub(f->p, a, b);
}
static inline sx mul(struct fixture *f, sx a, sx b) {
    return sx_mul(f->p, a, b);
}
static inline sx quo(struct fixture *f, sx a, sx b) {
    return sx_div(f->p, a, b);
}
static inline sx rem(struct fixture *f, sx a, sx b) {
    return sx_mod(f->p, a, b);
}
static inline sx var(struct fixture *f, const char *name, sx extent) {
    return sx_var(f->p, name, extent);
}

static inline void text_of(struct fixture *f, sx e, char *buf, size_t n) {
    struct str s;
    str_init(&s, &allocator_default);
    sx_print(f->p, e, &s);
    assert_false(s.failed);
    assert_true(s.n < n);
    memcpy(buf, str_text(&s), s.n + 1);
    str_free(&s);
}

#endif
