/* SPDX-License-Identifier: MIT
 * What the files of the printer share: print.c (graphs, statements, comments), print_expr.c
 * (expressions and calls).
 */
#ifndef PROEM_GRAPH_PRINT_H
#define PROEM_GRAPH_PRINT_H

#include "graph/internal.h"

/* Expressions are split into statements beyond this depth, so that they can be read again and no
 * recursion gets deep. */
#define MAX_PRINT_DEPTH 100

/* How one value is written. */
struct shown {
    const char *name; /* what it is called when it is not written in place */
    uint32_t uses;
    uint16_t depth; /* of the expression that is written in place of it */
    bool in_place;
};

struct printer {
    const struct graph *g;
    struct str *out;
    bool flat;
    bool in_hook; /* a look-up is written `take` */
    int indent;
    struct shown *values; /* one a value */
    size_t comment;       /* the next comment to write */
};

/* print_expr.c */
/* A reference to v as an operand of the given level (0 loosest .. 10). */
void operand_print(const struct printer *p, value_id v, int level);
/* What produces v, without its name. */
void node_print(const struct printer *p, const struct node *n);

/* print.c */
void hooks_print(const struct printer *p, const struct node *n);

#endif
