/* SPDX-License-Identifier: MIT
 * Matmul problems in the option syntax of oneDNN's benchdnn: parsing (benchdnn_parse.c), the
 * graph that means the same (benchdnn_graph.c), and values for it (benchdnn_inputs.c).
 */
#ifndef DRIVER_BENCHDNN_H
#define DRIVER_BENCHDNN_H

#include "harness.h"

#define MAX_DIMS     6
#define MAX_POST_OPS 8

enum { SRC, WEI, DST };

/* A scale or zero point of one argument. */
struct quant {
    bool on;
    char policy[16]; /* common host_scalar per_tensor per_oc mx dynamic_fp */
    char dtype[12];
    int64_t group[2]; /* of the last two dims; 0: 1 element */
};

/* How a tensor lies in memory: its dims, outermost first; how many elements each dim is longer
 * there than it is; the distance of neighbours in the innermost one. */
struct layout {
    int order[MAX_DIMS];
    int64_t pad[MAX_DIMS]; /* by dim */
    int64_t step;
};

struct post_op {
    char kind[16];
    char arg[4][16];
    int n_args;
};

struct problem {
    char dt[3][12]; /* the graph's names */
    int rank;
    int64_t dims[3][MAX_DIMS];
    struct layout layout[3];
    struct quant scale[3], zero[3];
    struct post_op op[MAX_POST_OPS];
    int n_ops;
    char bias[12];
    int64_t bias_mask;
    char math[12];     /* f32 operands may be rounded to it; "": they stay */
    bool math_ints;    /* and integers are decoded to it */
    char left_out[64]; /* why the problem is left out, or "" */
};

/* False if the line is no problem at all. */
bool problem_parse(const char *line, struct problem *p);
/* Sizes above `limit` become smaller ones with the same remainder by 64; k keeps whole groups, two
 * of them at least if it had as many; padding stays, at most 24 elements of it. */
void problem_shrink(struct problem *p, int64_t limit);
/* The graph; false with p->left_out set if it cannot be expressed. */
bool problem_graph(struct problem *p, struct str *out);
/* Inputs of such a graph so that the product's elements are of the order of 1. */
void problem_inputs(struct subject *s);

#endif
