/* SPDX-License-Identifier: MIT
 * Constant weights laid out once in the order in which the product reads them.
 *
 * A load of a `const` tensor that changes with a column n and with k is copied, in its own dtype, to
 * [z][n / W][k / G][W], so that the value function reads W columns with one contiguous load and
 * neither template has to transpose. G is how far along k the load stays the same (a block's scale).
 * Elements of less than a byte lie in words instead, [z][n / W][k / D][W] with D of them to a word of
 * 32 bits, where G is 1: so each is one shift or none away from its lane.
 */
#ifndef PROEM_PACKS_H
#define PROEM_PACKS_H

#include "gen/c/emit.h"

#define MAX_PACKS 8

struct pack_leaf {
    fn_id load;
    int group; /* G */
    int depth; /* D, 1: not in words */
    bool by_z; /* does it differ between batches? */
    value_id tensor;
};

struct packs {
    int n;
    struct pack_leaf at[MAX_PACKS];
    sx outer;      /* the coordinate of the template's columns */
    const char *o; /* its letter */
    sx Z, N, K;
};

/* The loads of f, the template's right operand over (z, outer, k), that are worth laying out. n is 0
 * when they are not all constant, or already lie so. */
void packs_find(struct emit *e, fn_id f, sx outer, const char *o, sx N, struct packs *out);
/* Number of the pack that holds a load, -1. */
int packs_of(const struct packs *p, fn_id load);
/* The factor that the operand has for each of its groups along k, taken out of *f, where that is
 * allowed and pays for few rows; else 0. Fns are added: not inside of a hook. */
fn_id packs_factor(struct emit *e, fn_id *f, int group);
/* The term of the left operand that does not depend on k, taken out of *f, where products of bytes
 * want that; else 0. As above. */
fn_id packs_term(struct emit *e, fn_id *f);
/* packed_bytes, pack_tasks and pack under e->prefix. */
void packs_write(struct emit *e, const struct packs *p);
/* The lanes of pack i at (z, outer, k), as C text; with `f32` as lanes of f32, where it is in words. */
void packs_load(struct emit *e, const struct packs *p, int i, bool f32, struct str *out);
/* Is pack i in words? */
bool packs_in_words(const struct packs *p, int i);

#endif
