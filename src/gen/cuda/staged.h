/* SPDX-License-Identifier: MIT
 * The staged form of an operand: loads whose bytes a template fetches before they are used, and the
 * operand's elements from registers that hold them.
 *
 * A leaf is a load that runs along the lanes' coordinate without gaps, that no condition guards, that
 * changes with k other than once a group, and whose look-ups do not depend on k. An operand that is put
 * together from such loads (concat), each of whole 16-byte pieces, is one leaf as well, whose address is
 * asked for at each piece.
 */
#ifndef PROEM_CUDA_STAGED_H
#define PROEM_CUDA_STAGED_H

#include "gen/c/emit.h"
#include "gen/gen.h"

#define MAX_LEAVES        4
#define MAX_RESULT_LEAVES 2

struct staged {
    int n;
    fn_id leaf[MAX_LEAVES];
    bool plain;   /* the operand is leaf 0, in its own dtype */
    fn_id pieces; /* 0, or what chooses between the loads that leaf 0 is put together from */
};

/* The operand as the graph has it, before it is widened to what accumulates. */
fn_id staged_source(struct emit *e, fn_id f);
/* The leaves of f over (z, outer, k) with lanes along `vec`, in the order in which they are met. Call
 * it after emit_hook for f, so that stages are known. More than four: none. */
void staged_find(struct emit *e, fn_id f, sx vec, struct staged *out);
/* What the results' hook loads for each result: with both coordinates, without gaps along the lanes,
 * whatever else holds. The first few of them. */
void staged_results(struct emit *e, struct staged *out);
/* For templates that know no 2-bit elements, and ask for a row's address once: other leaves only. */
void staged_keep_simple(struct emit *e, struct staged *s);
/* Number of a leaf, -1. */
int staged_of(const struct staged *s, fn_id load);
/* The constants of operand `name` (A, B0 ..): leaves, their bits, maps; plain: its bytes
 * may be taken as they are. */
void staged_constants(struct emit *e, const char *name, const struct staged *s, sx outer,
                      bool plain);
/* P_x_leaf<i>, for the hook at hand; o is the outer coordinate's letter. */
void staged_leaves(struct emit *e, const struct staged *s, const char *o, const char *missing);
/* The tensor map of a leaf whose address is affine in (z, outer, k), boxes and swizzle left open; its
 * innermost dimension is the lanes' coordinate. Elements below a byte are counted in bytes. False: it
 * has none (its rows are gathered, or start between 16-byte lines). */
bool staged_map(struct emit *e, fn_id leaf, sx vec, sx outer, sx n_outer,
                struct gen_tensor_map *out);
/* Do the leaf's rows start at multiples of 16 bytes, wherever they are? */
bool staged_lines(struct emit *e, fn_id leaf, sx vec);
/* ", const unsigned *raw0, .." and ", raw0, ..". */
const char *staged_params(const struct emit *e, const struct staged *s);
const char *staged_args(const struct emit *e, const struct staged *s);

#endif
