/* SPDX-License-Identifier: MIT
 * fns as C: one function body at a time, over lane vectors (gen/c/prelude/vec.h).
 *
 * A hook is a group of functions that share a row structure. Its nodes fall into stages: what does
 * not depend on the inner coordinate is computed once a row and kept in the structure (a reduction
 * has a stage after each level of passes), the rest in the value function. Vectors run along the
 * coordinate `vec`, which is the inner one or the row's.
 *
 * Loads by how their address changes with the lane: not at all (broadcast), by one element
 * (contiguous), or in any other way (an address for each lane). A select whose condition differs
 * between lanes becomes a function of its own, which falls back to one lane at a time where lanes
 * disagree; so no side of a select is ever evaluated where its condition does not hold, unless all
 * its loads are in bounds anyway.
 */
#ifndef PROEM_EMIT_H
#define PROEM_EMIT_H

#include "base/device.h"
#include "fuse/plan.h"

enum { STAGE_ROW = 0, STAGE_GROUP = 50, STAGE_VALUE = 100 };

struct emit {
    struct plan *plan;
    struct fn_pool *fns;
    struct sx_pool *sp;
    const struct graph *g; /* lowered */
    struct arena *arena;
    const struct kernel *k;
    const char *prefix; /* of the kernel's C names */
    const int *slot;    /* pk_args.buf index by value, -1 */
    bool cuda; /* CUDA C (gen/cuda/prelude): functions and structures are templates over PK_W */
    int W;
    sx q;                      /* stands for vec / W when lanes are looked at one by one */
    struct str *out;           /* where whole functions go */
    const struct packs *packs; /* constants laid out once that this hook reads, or NULL */
    struct product *product; /* CUDA: what is known of a product's operands (gen/cuda/product.h) */
    bool lays_out;           /* does the form at hand have the functions that lay them out? */
    const struct staged *staged; /* CUDA: loads whose bytes the function is handed, or NULL */
    /* the hook at hand */
    const char *hook; /* a, b0, c, .. */
    sx vec, inner;
    bool aligned; /* the first lane's coordinate is a multiple of W */
    const int
        *acc_level; /* level of a reduction's accumulators, NULL: accumulators are arguments */
    int n_acc;
    bool has_row; /* is there a row structure at all? */
    int group;    /* what only depends on inner // group is kept once a group; 0: no groups */
    sx group_at;  /* a place inside of a group: inner as a group's number and a rest */
    sx group_rest;
    bool *field;      /* nodes kept in the row structure */
    int *stage;       /* memo: stage + 1 by node */
    unsigned *number; /* in names, by node, 0: none yet; [0] counts */
    /* the function at hand */
    int now;    /* its stage */
    bool *have; /* nodes with a local variable */
    struct str *body;
    int selects;    /* counter for names */
    uint32_t n_fns; /* entries of the arrays by node */
    bool *seen;     /* scratch of emit_hook */
};

const char *lane_name(enum dtype d);   /* vf32 .. of the lanes that hold d */
const char *scalar_name(enum dtype d); /* float .. */

/* Once for each kernel, before its first hook; false: no memory. */
bool emit_prepare(struct emit *e);
/* Start a hook whose roots are given: finds stages and fields. */
void emit_hook(struct emit *e, const char *hook, sx vec, sx inner, bool aligned, const fn_id *roots,
               int n_roots, bool has_row);
/* The fields of the row structure, or of the group structure, one a line. */
void emit_fields(struct emit *e, bool of_group, struct str *out);
/* CUDA: a function of that structure, at(l): the structure of one lane, named type<1>. */
void emit_fields_at(struct emit *e, const char *type, bool of_group, struct str *out);
/* The largest group along `inner` (a multiple of `unit`) that some of f's loads share, 0 if none.
 */
int emit_group_size(struct emit *e, fn_id f, sx inner, int unit);
/* Compute all fields of a stage into `r->` (body text). */
void emit_stage(struct emit *e, int stage, struct str *body);
/* Begin a function body of a stage; then emit_value gives the text of a root's lanes. */
void emit_begin(struct emit *e, int stage, struct str *body);
const char *emit_value(struct emit *e, fn_id f);
/* Define what f is computed from, after emit_begin, and not f itself. */
void emit_operands(struct emit *e, fn_id f);
/* Store statements of a result, after emit_begin. */
void emit_store(struct emit *e, const struct kernel_store *st);
/* A structure of the kernel as a type: struct P_NAME, in CUDA P_NAME<PK_W>. */
const char *emit_type(const struct emit *e, const char *name);
/* The same for one of the hook at hand: row, group. */
const char *emit_hook_type(const struct emit *e, const char *name);
/* What a definition of it begins with: struct P_NAME. */
const char *emit_struct(const struct emit *e, const char *name);
/* "ld_f32", "st_i4" ..: a memory access of the prelude, as called for all lanes. */
const char *emit_access(const struct emit *e, const char *what, enum dtype d);
/* Text put together apart; if memory ran out on the way, e->out fails as well. */
const char *emit_part(const struct emit *e, const struct str *part);
/* The parameter list and argument list that all functions of hooks share. */
const char *emit_params(const struct emit *e);

/* C text of an index expression; lane: the vec coordinate is (vec + l). */
void emit_sx(struct emit *e, sx x, bool lane, struct str *out);
/* Row-major offset of an element. */
sx emit_offset(struct emit *e, value_id tensor, int rank, const sx *idx);

/* How good an axis is for vectors: number of loads that need an address for each lane. */
int emit_axis_cost(struct emit *e, fn_id f, sx axis);

#endif
