/* SPDX-License-Identifier: MIT
 * Problems of oneDNN's benchdnn, driver matmul: a line of its options becomes a struct bd_problem,
 * which benchdnn_graph.c writes as graph text.
 */
#ifndef DRIVER_BENCHDNN_PARSE_H
#define DRIVER_BENCHDNN_PARSE_H

#include "harness.h"
#include "ops/dtype.h"

#define BD_RANK 6 /* of a problem's tensors */

enum bd_tensor { BD_SRC, BD_WEI, BD_DST };

/* Logical dims, outermost first, as they lie in memory. */
struct bd_layout {
    int order[BD_RANK];
    int64_t pad[BD_RANK]; /* elements skipped past the end of each logical dim */
    int64_t step;         /* between neighbours of the innermost dim */
};

/* A scale or a zero point. */
struct bd_quant {
    enum { BD_NONE, BD_COMMON, BD_PER_OC, BD_GROUPED, BD_MX } policy;
    enum dtype dtype;
    double value;     /* BD_COMMON */
    int64_t group[2]; /* BD_GROUPED, BD_MX: elements of the last two dims that share one */
};

enum bd_post_kind { BD_ELTWISE, BD_BINARY, BD_SUM, BD_PRELU, BD_SELECT };
struct bd_post {
    enum bd_post_kind kind;
    char name[16];
    double arg[2];
    int n_args;
    enum dtype dtype; /* of a binary's second operand */
    bool per_oc;
};

#define BD_POSTS 4
struct bd_problem {
    int rank;
    int64_t dims[3][BD_RANK]; /* by bd_tensor */
    enum dtype dtype[3];
    struct bd_layout layout[3];
    struct bd_quant scale[3], zero[3];
    bool has_bias;
    enum dtype bias;
    unsigned bias_mask;
    int n_posts;
    struct bd_post post[BD_POSTS];
    enum dtype math; /* what f32 operands may be rounded to, and what integers are decoded to */
    bool math_ints;
};

/* False: *why (static text or text in `room`) says what is not handled. */
bool bd_parse(const char *line, struct bd_problem *p, char *why, size_t room);

/* The same problem with smaller dims: residues and multiples of groups stay as they are. */
void bd_shrink(struct bd_problem *p);

#endif
