/* SPDX-License-Identifier: MIT
 * sx: symbolic integers. One arithmetic for tensor dims and for index maps.
 *
 *   e := constant | symbol | variable | look-up | e + e | e * e | e // e | e % e
 *
 * Expressions are hash-consed in a pool and kept in a normal form, a polynomial with integer
 * coefficients over atoms:
 *     c0 + c1*a1*a2.. + ..      atoms: symbols, variables, look-ups, floordiv, mod
 * so equal ids mean equal values, and equal polynomials have equal ids. Symbols are tensor sizes
 * (>= 0). Variables are iteration coordinates with a known extent, 0 <= v < extent; floordiv and mod
 * are simplified by these ranges: (4*i + j)//4 = i and (4*i + j)%4 = j when 0 <= j < 4, and
 * e//(a*b) = (e//a)//b. // and % floor, as in the graph text.
 */
#ifndef PROEM_SX_H
#define PROEM_SX_H

#include "base/base.h"

typedef uint32_t sx; /* index into a pool; 0 is "none" */

enum sx_kind { SX_CONST, SX_SYM, SX_VAR, SX_LOOK, SX_DIV, SX_MOD, SX_ADD, SX_MUL };

struct sx_pool;

struct sx_pool *sx_pool_new(struct arena *a);

sx sx_const(struct sx_pool *p, int64_t v);
/* A tensor size, named. The same name gives the same symbol. */
sx sx_sym(struct sx_pool *p, const char *name);
/* A fresh coordinate; name is for printing (m, n, k ..). extent may be 0 (unknown). */
sx sx_var(struct sx_pool *p, const char *name, sx extent);
/* A value read at run time, identified by `key` (a fn node), with 0 <= value < extent. */
sx sx_look(struct sx_pool *p, uint32_t key, sx extent);

sx sx_add(struct sx_pool *p, sx a, sx b);
sx sx_sub(struct sx_pool *p, sx a, sx b);
sx sx_mul(struct sx_pool *p, sx a, sx b);
sx sx_div(struct sx_pool *p, sx a, sx b); /* floor; b is not 0 */
sx sx_mod(struct sx_pool *p, sx a, sx b);
sx sx_ceil_div(struct sx_pool *p, sx a, sx b);

/* What an expression is. Terms of a sum and factors of a product: sx_arg(i), i < sx_args. A DIV or
 * MOD has two arguments. A coefficient is a CONST factor, last. */
enum sx_kind sx_kind(const struct sx_pool *p, sx e);
int sx_args(const struct sx_pool *p, sx e);
sx sx_arg(const struct sx_pool *p, sx e, int i);
bool sx_is_const(const struct sx_pool *p, sx e, int64_t *v);
const char *sx_name(const struct sx_pool *p, sx e); /* of a symbol or variable */
uint32_t sx_key(const struct sx_pool *p, sx e);     /* of a look-up */
sx sx_extent(const struct sx_pool *p, sx e);        /* of a variable or look-up */

/* Replace atom `from[i]` by `to[i]` everywhere, extents of variables excluded. */
sx sx_subst(struct sx_pool *p, sx e, const sx *from, const sx *to, int n);
/* Does e contain the atom (as itself or inside a // or %)? */
bool sx_has(const struct sx_pool *p, sx e, sx atom);
/* If e = coef*atom + rest with coef and rest free of atom: true. */
bool sx_linear(struct sx_pool *p, sx e, sx atom, sx *coef, sx *rest);

/* Bounds that hold for all values of the atoms: *lo and *hi (INT64_MIN/MAX when unknown). */
void sx_range(struct sx_pool *p, sx e, int64_t *lo, int64_t *hi);
/* Proofs; false means "not proved". */
bool sx_is_nonneg(struct sx_pool *p, sx e);
bool sx_proves_lt(struct sx_pool *p, sx a, sx b);
bool sx_proves_le(struct sx_pool *p, sx a, sx b);
bool sx_divides(struct sx_pool *p, sx d, sx e); /* e % d is 0 for all values */
/* e / d when that is exact term by term (e % d == 0), else 0. */
sx sx_exact_div(struct sx_pool *p, sx e, sx d);

/* The value, given a value for each atom (symbols, variables, look-ups) by callback. Returns false
 * if an atom has no value, a divisor is 0, or the arithmetic overflows. */
typedef bool (*sx_value_fn)(void *user, const struct sx_pool *p, sx atom, int64_t *v);
bool sx_eval(const struct sx_pool *p, sx e, sx_value_fn value, void *user, int64_t *out);

/* Is e, written out, of `most` operands and operators at most? What occurs more than once is kept
 * once, so a few steps can make expressions that nobody can print. */
bool sx_is_short(const struct sx_pool *p, sx e, int most);
/* Print in the graph text's syntax; look-ups print as `@key`, what is longer than SX_MOST_PRINTED as
 * `(..)`. */
enum { SX_MOST_PRINTED = 1 << 14 };
void sx_print(const struct sx_pool *p, sx e, struct str *out);

/* Number of symbols so far and the i-th one, in order of creation. */
int sx_symbols(const struct sx_pool *p);
sx sx_symbol_at(const struct sx_pool *p, int i);

#endif
