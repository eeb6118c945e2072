/* SPDX-License-Identifier: MIT
 * Matmul problems in the option syntax of oneDNN's benchdnn: parsing (benchdnn_parse.c), and the
 * graph that means the same (benchdnn_graph.c).
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

struct post_op {
    char kind[16];
    char arg[4][16];
    int n_args;
};

struct problem {
    char dt[3][12]; /* the graph's names */
    char tag[3][8];
    int64_t strides[3][MAX_DIMS];
    int n_strides[3];
    int rank;
    int64_t dims[3][MAX_DIMS];
    struct quant scale[3], zero[3];
    struct post_op op[MAX_POST_OPS];
    int n_ops;
    char bias[12];
    int64_t bias_mask;
    char left_out[64]; /* why the problem is left out, or "" */
};

/* False if the line is no problem at all. */
bool problem_parse(const char *line, struct problem *p);
/* Sizes above `limit` become smaller ones with the same remainder by 64. */
void problem_shrink(struct problem *p, int64_t limit);
/* The graph; false with p->left_out set if it cannot be expressed. */
bool problem_graph(struct problem *p, struct str *out);

#endif
