/* SPDX-License-Identifier: MIT
 * The inside of the pool of symbolic integers, shared by the sx_*.c files only.
 *
 *   node    one value; found by its polynomial, so there is one node for each polynomial
 *   poly    terms c*m over base atoms: symbols, variables, look-ups and floor divisions. A
 * remainder is not a base atom: e % b is e - b*(e//b). That makes (e//b)*b + e%b = e, and all its
 * scaled and nested forms, a cancellation of terms. ext     the same value, with remainders put
 * back as atoms where that makes it shorter. Ranges, proofs and all that the outside sees (kind,
 * arguments, text) use ext. opaque  a base atom of kind ADD, MUL or MOD with two arguments: what
 * could not be expanded, because a coefficient would overflow, the divisor is 0 or there are too
 * many terms.
 */
#ifndef PROEM_SX_POOL_H
#define PROEM_SX_POOL_H

#include "base/sx.h"

#define SX_MAX_TERMS 400   /* of a polynomial; a longer one stays an opaque sum or product */
#define SX_MAX_NEST  120   /* depth of arguments; beyond it there is no expression (0) */
#define SX_MAX_CALLS 32    /* nested simplifications; beyond it an atom stays as it is */
#define SX_MAX_WORK  50000 /* terms added up in one simplification; beyond it the same */

struct term {
    int64_t c;
    uint32_t m; /* a monomial */
};

/* Terms sorted by monomial, no zero coefficients; the constant is last. */
struct poly {
    const struct term *at;
    int n;
};

/* Factors, sorted, repeated for powers. Monomial 0 is the empty product. */
struct mono {
    const sx *at;
    int n;
};

struct node {
    enum sx_kind kind;
    bool atom; /* a base atom: its polynomial is itself */
    uint8_t range_state, sign_state;
    int n_args, depth;
    const sx *args;
    struct poly poly, ext;
    const char *name;
    int64_t v; /* a constant; the key of a look-up; the number of a variable */
    sx extent;
    uint64_t mask; /* a bit for each atom inside, by id modulo 64 */
    int64_t lo, hi;
};

struct table {
    struct table_slot {
        uint64_t hash;
        uint32_t id; /* 0: free */
    } * at;
    size_t n, cap;
};

struct quotient {
    sx a, b, q;
};

struct sx_pool {
    struct arena *arena;
    VEC(struct node *) nodes; /* 0 unused */
    VEC(struct mono) monos;
    VEC(struct quotient) quotients; /* results of sx_div; 0 unused */
    VEC(sx) symbols;
    struct table by_poly, by_atom, by_mono, by_quotient;
    int64_t n_vars;
    int calls; /* simplifications on the stack */
    int work;  /* terms added up since the outermost of them began */
    VEC(struct sx_chunk {
        struct term *at;
        size_t cap;
    })
    chunks; /* scratch memory, a stack */
    struct sx_mark {
        size_t chunk, used;
    } top;
    VEC(struct sx_memo {
        uint32_t epoch; /* of the call of sx_subst that wrote it */
        sx to;
    })
    memo; /* by node */
    uint32_t epoch;
};

static inline struct node *sx_node(const struct sx_pool *p, sx e) {
    return p->nodes.at[e];
}

static inline struct mono sx_mono(const struct sx_pool *p, uint32_t m) {
    return p->monos.at[m];
}

/* ---- arithmetic that tells of overflow --------------------------------------------------------
 */

static inline bool add_ok(int64_t a, int64_t b, int64_t *out) {
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return false;
    *out = a + b;
    return true;
}

bool sx_mul_ok(int64_t a, int64_t b, int64_t *out);
/* b is not 0 and not -1 with a the least integer. */
int64_t sx_floor_div(int64_t a, int64_t b);
int64_t sx_floor_mod(int64_t a, int64_t b);
int64_t sx_gcd(int64_t a, int64_t b);

/* ---- scratch, monomials, polynomials (sx_poly.c) ----------------------------------------------
 */
/* Functions that return bool fail on overflow, on too many terms and on lack of memory. Polynomials
 * that they return lie in scratch memory: take a mark before, give it back after interning. */

struct sx_mark sx_scratch(const struct sx_pool *p);
void sx_scratch_back(struct sx_pool *p, struct sx_mark mark);

int sx_atom_cmp(const struct sx_pool *p, sx a, sx b);
int sx_mono_cmp(const struct sx_pool *p, uint32_t a, uint32_t b);
bool sx_mono_of(struct sx_pool *p, sx atom, uint32_t *out);
bool sx_mono_mul(struct sx_pool *p, uint32_t a, uint32_t b, uint32_t *out);
/* a / b; false also if b does not divide a. */
bool sx_mono_div(struct sx_pool *p, uint32_t a, uint32_t b, uint32_t *out);
bool sx_mono_gcd(struct sx_pool *p, uint32_t a, uint32_t b, uint32_t *out);
bool sx_mono_has(const struct sx_pool *p, uint32_t m, sx atom);

/* a + t*b. */
bool sx_poly_axpy(struct sx_pool *p, struct poly a, struct term t, struct poly b, struct poly *out);
bool sx_poly_mul(struct sx_pool *p, struct poly a, struct poly b, struct poly *out);
/* a / b if that is exact. */
bool sx_poly_quotient(struct sx_pool *p, struct poly a, struct poly b, struct poly *out);
/* Remainders replaced by what they stand for. */
bool sx_poly_expand(struct sx_pool *p, struct poly ext, struct poly *out);
/* The terms of a that have the atom, divided by it, and the others. */
bool sx_poly_by_atom(struct sx_pool *p, struct poly a, sx atom, struct poly *with,
                     struct poly *without);
int64_t sx_poly_coef(struct poly a, uint32_t m);

/* ---- nodes (sx.c) -----------------------------------------------------------------------------
 */

uint64_t sx_hash(uint64_t h, uint64_t v);
/* Slots with this hash, one after the other; 0 at the end. Start with *at = SIZE_MAX. */
uint32_t sx_table_next(const struct table *t, uint64_t hash, size_t *at);
bool sx_table_put(struct sx_pool *p, struct table *t, uint64_t hash, uint32_t id);

/* The node of a polynomial over base atoms, and of one with remainders. */
sx sx_intern(struct sx_pool *p, struct poly a);
sx sx_intern_ext(struct sx_pool *p, struct poly ext);
/* The base atom a KIND b. */
sx sx_binary_atom(struct sx_pool *p, enum sx_kind kind, sx a, sx b);
/* The node of the polynomial; if it is new it is shown as `kind` with these arguments. A MOD is its
 * own ext; for others ext is given. */
sx sx_intern_as(struct sx_pool *p, struct poly a, enum sx_kind kind, int n_args, const sx *args,
                struct poly ext);
/* Show e as the polynomial ext, or as the remainder a % b. */
bool sx_show_ext(struct sx_pool *p, sx e, struct poly ext);
bool sx_show_mod(struct sx_pool *p, sx e, sx a, sx b);
/* Find remainders in a new node (sx_mods.c). */
void sx_find_mods(struct sx_pool *p, sx e);

/* A simplification begins; false if there are too many inside one another, or the outermost one has
 * taken its share of work: forms then stay as they are and proofs fail. */
static inline bool sx_enter(struct sx_pool *p) {
    if (p->calls == 0) p->work = 0;
    if (p->calls >= SX_MAX_CALLS || p->work > SX_MAX_WORK) return false;
    p->calls++;
    return true;
}

static inline void sx_leave(struct sx_pool *p) {
    p->calls--;
}

/* ---- proofs (sx_range.c) ----------------------------------------------------------------------
 */

/* 0 <= a < b, given that b is not 0. */
bool sx_proves_within(struct sx_pool *p, sx a, sx b);

#endif
