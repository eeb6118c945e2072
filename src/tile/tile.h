/* SPDX-License-Identifier: MIT
 * How a contraction is cut: which template, which register tile and blocks, in which K order. A
 * pure function of the sizes, dtypes and the device description, so that plans are the same
 * everywhere.
 */
#ifndef PROEM_TILE_H
#define PROEM_TILE_H

#include "base/device.h"
#include "ops/dtype.h"

struct tile_problem {
    enum dtype acc;     /* f32 f64 i32 i64 */
    int n_b;            /* right operands that share the left one */
    int64_t Z, M, N, K; /* -1: not known when planning */
    int64_t likely_M;   /* the sizes that M and N are planned for, -1: none */
    int64_t likely_N;
    bool one_order;        /* `eager`: one K order for all shapes of operands */
    bool narrow_const[2];  /* a, b: is it made of constants, some below 16 bits? */
    enum dtype operand[2]; /* dtypes in which the left and the right operands enter the product */
    int dots; /* accumulators are i32 and elements fit 16 bits: 2; bytes, as the templates take them: 4 */
    bool hides; /* a 0 of the left operand hides what is not finite in the right one */
};

/* Templates of a GPU. */
enum tile_form {
    TILE_SIMT,   /* no tensor cores: every dtype, every prologue */
    TILE_WGMMA,  /* Hopper's tensor cores, many rows */
    TILE_FEW,    /* tensor cores, few rows */
    TILE_ACROSS, /* the same, weights lie along their columns */
    TILE_MMA     /* any tensor cores since sm_80 */
};

/* How a GPU's template is cut. */
struct tile_cuda {
    enum tile_form form;
    int rows, cols;                /* of a block's tile */
    int split;                     /* TILE_MMA: blocks that share a tile, each a part of k */
    int threads;                   /* of a block */
    int a_lanes, b_lanes, c_lanes; /* lanes that hooks of operands and results are called with */
    int pack_lanes;                /* elements that x_raw and x_pack make at once */
    int passed; /* tiles of its list, best first, that are passed over; -1: none of them will do, the first it is */
    bool ring; /* TILE_FEW: the template that the copy engine feeds */
    int few;   /* TILE_FEW: 0 where the model says so, 1 wherever it can be, -1 nowhere */
};

struct tile {
    bool packed;    /* the packed template (any M) */
    bool rows;      /* the template for few rows; with `packed`: chosen at launch when M is small */
    bool swap;      /* the roles of the operands are exchanged: few columns instead of few rows */
    int dots;       /* the packed template multiplies so many integers along k at a time; 0: one */
    int mr, nv;     /* register tile: rows, vectors */
    int mc, kc, nc; /* blocks of the packed template */
    int rows_mr;    /* rows at a time of the few-rows template */
    int rows_max;   /* launches with at most so many rows take it */
    struct tile_cuda cuda; /* on a GPU this, and nothing above it */
    const char *order;     /* K order, for `explain` */
    double seconds;        /* modelled time on one core, < 0 if a size is not known */
};

struct tile tile_matmul(const struct tile_problem *p, const struct device_desc *d);

/* The same for a GPU (tile_cuda.c); tile_matmul calls it. */
struct tile tile_matmul_cuda(const struct tile_problem *p, const struct device_desc *d);

/* Other ways to cut the same product, for somebody who measures them: those of the form that sizes
 * p take (all known), the likelier first, t not among them. Their K order is that of t, so they give
 * the same bits; with `order` the other form is among them where it has another order and p allows
 * it. Returns how many it wrote, at most TILE_CANDIDATES. */
#define TILE_CANDIDATES 12
int tile_candidates(const struct tile_problem *p, const struct tile *t, const struct device_desc *d,
                    bool order, struct tile out[TILE_CANDIDATES]);
bool tile_equal(const struct tile *a, const struct tile *b);

/* Lanes of 32 bits in a vector. */
int tile_lanes(const struct device_desc *d);

#endif
