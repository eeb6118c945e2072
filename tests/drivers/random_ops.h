/* SPDX-License-Identifier: MIT
 * Random operators of random graphs: random_ops.c picks, random_graph.c records.
 */
#ifndef DRIVER_RANDOM_OPS_H
#define DRIVER_RANDOM_OPS_H

#include "random_graph.h"

/* A new parameter, or -1. */
int add_param(struct random_graph *r, const char *type, bool is_index, bool is_const);
/* A statement; its first result, or -1 if the library refuses it. */
int add_step(struct random_graph *r, const struct gen_step *s);

/* Try to add one operator; may fail. */
void random_op(struct random_graph *r);
/* An operator that always works. */
void random_first(struct random_graph *r);

#endif
