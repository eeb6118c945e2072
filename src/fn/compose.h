/* SPDX-License-Identifier: MIT
 * From graph values to fns: a value as a function of its coordinates, composed through everything
 * that maps elements (operators of one element, views, concat, pad, gathers), down to loads of
 * values that are in memory.
 */
#ifndef PROEM_COMPOSE_H
#define PROEM_COMPOSE_H

#include "fn/fn.h"

enum fn_held { HELD_NO, HELD_HERE, HELD_ELSEWHERE };

enum precision { PREC_BOUNDARY, PREC_EAGER, PREC_NATIVE };

struct fn_env {
    struct fn_pool *pool;
    const struct graph *g; /* lowered: composites are gone (opt/lower.h) */
    enum precision prec;
    struct arena *arena;
    struct err *err;
    /* Is v read from memory? Parameters always are. */
    bool (*is_stored)(void *user, value_id v);
    /* Does the kernel hold v in registers (an accumulator, or a value derived from one)? If it
     * holds it at these coordinates *f gets its fn; held elsewhere, v cannot be had at all. May be
     * NULL. */
    enum fn_held (*held)(void *user, value_id v, const sx *coord, fn_id *f);
    void *user;
    bool blocked; /* set when a value was held at other coordinates; the result is then 0 */
    struct fn_memo *memo;
};

/* Is this operator a pure renaming of elements (a view)? */
bool op_is_view(enum op op);
/* Does the operator map elements: can fn_of_value go through it? */
bool op_is_map(enum op op);

/* The fn of element coord[] of v. 0 with *env->err set on failure. */
fn_id fn_of_value(struct fn_env *env, value_id v, const sx *coord);

/* The elementwise operator of a node applied to given operands (any of EW, where, cast). */
fn_id fn_apply(struct fn_env *env, const struct node *n, const fn_id *arg);

/* Coordinates of a view's input element, from those of output number `out`. */
void view_back(struct fn_env *env, const struct node *n, int out, const sx *oc, sx *ic);

/* The other way: where element ic[] of the input goes in output `out`. Returns false if the view is
 * not one place for each element (expand, slices with a step). A slice adds a condition
 * lo <= e < hi to *bounds. */
struct fn_bound {
    sx e, lo, hi;
};
#define MAX_BOUNDS 8
struct fn_bounds {
    int n;
    struct fn_bound at[MAX_BOUNDS];
};
bool view_forward(struct fn_env *env, const struct node *n, int out, const sx *ic, sx *oc,
                  struct fn_bounds *bounds);

/* Coordinates of an operand of rank r_in that is broadcast to coordinates oc of rank r_out. */
void broadcast_back(struct fn_env *env, value_id operand, int r_out, const sx *oc, sx *ic);

#endif
