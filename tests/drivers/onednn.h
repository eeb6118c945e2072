/* SPDX-License-Identifier: MIT
 * Graphs of the oneDNN Graph API, in the JSON that benchdnn reads, as graph text.
 */
#ifndef DRIVER_ONEDNN_H
#define DRIVER_ONEDNN_H

#include "base/base.h"

enum { ONEDNN_MOST_VALUES = 128 };

/* What a parameter of the text has to hold: scales and zero points of an attribute. */
struct onednn_values {
    char name[32];
    int64_t n;
    double *at;
};

struct onednn_graph {
    char *text;
    int operations;
    struct onednn_values values[ONEDNN_MOST_VALUES];
    int n_values;
    char left_out[160]; /* why there is no text */
};

/* shrink: a batch of more than 2 becomes one of 2. False: left_out says why. Freed in any case. */
bool onednn_graph(const char *text, bool shrink, struct onednn_graph *g);
void onednn_graph_free(struct onednn_graph *g);

#endif
