/* SPDX-License-Identifier: MIT
 * Shared by the files of the C expression generator.
 */
#ifndef PROEM_EMIT_INTERNAL_H
#define PROEM_EMIT_INTERNAL_H

#include "gen/c/emit.h"

#define MAX_W 16

enum lanes_kind {
    LANES_SAME,   /* every lane has the first lane's value */
    LANES_LINEAR, /* lane l has the first one's plus l * step */
    LANES_CONST,  /* lane l has the first one's plus at[l] */
    LANES_ANY
};

struct lanes {
    enum lanes_kind kind;
    int64_t step;
    int64_t at[MAX_W];
};

struct lanes emit_lanes(struct emit *e, sx x);
/* Does x hold a look-up whose index differs between lanes? */
bool emit_look_varies(struct emit *e, sx x);

/* Does x hold a look-up at all? */
bool sx_has_look(struct emit *e, sx x);
/* How far along `inner` a load stays the same: the largest such constant, 1 if it changes each time. */
int emit_leaf_group(struct emit *e, fn_id load, sx inner);

/* The C name of a node's lanes in the function at hand (a local, or a field of the row). */
const char *emit_ref(struct emit *e, fn_id f);
/* The node's stage in the hook at hand. */
int emit_stage_of(struct emit *e, fn_id f);
/* Do W elements from `off` on start at a multiple of their size, or of 16 bytes? */
bool emit_starts_whole(struct emit *e, sx off, enum dtype d);
/* Visit the nodes that f is computed from directly: operands and look-ups of its indices. */
void emit_deps(struct emit *e, fn_id f, fn_visit visit, void *user);
/* Statements that define the node's local variable; its deps are defined. */
void emit_define(struct emit *e, fn_id f);
void emit_select_define(struct emit *e, fn_id f);
/* A node that is a word in memory, read at once (emit_words.c). */
struct word {
    fn_id load; /* of its first part */
    int bytes;  /* of a part */
    struct lanes lanes;
};
bool emit_word(struct emit *e, fn_id f, struct word *w);
void emit_word_define(struct emit *e, fn_id f, const struct word *w);
/* The expression of an operator, conversion or constant. */
void emit_expr(struct emit *e, fn_id f, struct str *out);

#endif
