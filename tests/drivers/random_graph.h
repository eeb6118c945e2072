/* SPDX-License-Identifier: MIT
 * Random graphs: a sequence of choices (from a seed, or from bytes that a fuzzer varies) becomes a
 * list of statements whose types the library itself infers; the list prints as graph text, whole or
 * reduced.
 */
#ifndef DRIVER_RANDOM_GRAPH_H
#define DRIVER_RANDOM_GRAPH_H

#include "graph/graph.h"
#include "harness.h"

struct choices {
    const unsigned char *bytes; /* NULL: by the seed alone */
    size_t n;
    uint64_t state;
};
/* 0 <= result < n. */
int choose(struct choices *c, int n);

#define MAX_STEPS    48
#define MAX_VALUES   96
#define MAX_OPERANDS 6

struct gen_value {
    int step; /* -1: a parameter */
    int out;  /* which result of the step */
    char name[12];
    char type[160]; /* as graph text */
    value_id id;
    int64_t shape[MAX_RANK], count;
    int rank;
    enum dtype dtype;
    bool is_const, is_index;
    int users;
};

struct gen_step {
    char op[20];
    int n_in;
    int in[MAX_OPERANDS]; /* value, or -1: literal */
    char literal[MAX_OPERANDS][24];
    char args[120];
    char tail[160]; /* hooks: what stands behind the call */
    int n_out, first_out;
};

struct random_graph {
    struct arena arena;
    struct graph *g;
    struct choices c;
    int n_values, n_steps;
    struct gen_value value[MAX_VALUES];
    struct gen_step step[MAX_STEPS];
    int n_outputs, output[8];
    int n_symbols;
    struct dim_value symbol[3];
    char symbol_name[3][4];
    int64_t limit; /* elements of a tensor */
};

/* False when memory is out. */
bool random_graph_make(struct random_graph *r, const struct choices *c, int max_steps);
void random_graph_free(struct random_graph *r);

/* What to print: which outputs, and which values are parameters instead of results. */
struct reduction {
    bool drop_output[8];
    bool as_param[MAX_VALUES];
};
void random_graph_print(const struct random_graph *r, const struct reduction *d, struct str *out);
/* The symbols that the text has, with their values (others cannot be bound); their number. */
int random_graph_symbols(const struct random_graph *r, const char *text, struct dim_value *out);

/* Make *d as small as possible while `fails` stays true for the printed text. */
typedef bool (*fails_fn)(void *user, const char *text);
void random_graph_reduce(const struct random_graph *r, struct reduction *d, fails_fn fails,
                         void *user);

#endif
