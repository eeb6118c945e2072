/* SPDX-License-Identifier: MIT
 * How a product's operands come to the template that tile chose: by the copy engine, in registers,
 * or as values. None of it changes a result.
 */
#ifndef PROEM_CUDA_PRODUCT_H
#define PROEM_CUDA_PRODUCT_H

#include "gen/cuda/staged.h"
#include "tile/tile_cuda_across.h"
#include "tile/tile_cuda_few.h"
#include "tile/tile_cuda_ring.h"
#include "tile/tile_cuda_wgmma.h"

struct product_operand {
    const char *name; /* A, B0 .. */
    enum dtype dtype;
    bool along_k, plain;
    int leaves, leaf_bits, group;
    int all_bits; /* of all leaves, of an element */
    double ops;   /* arithmetic for an element */
    bool mapped;  /* leaf 0 has a tensor map */
    bool batched;
    bool by_32; /* its rows are a multiple of 32 */
    bool lines; /* rows of leaf 0 start at multiples of 16 bytes */
    bool same;  /* leaf 1 is as wide and has a map as well */
    struct gen_tensor_map map, map1;
};

struct product {
    const struct device_desc *device;
    int n;
    struct product_operand at[1 + MAX_B];
    /* what follows from it */
    struct tile_wgmma wgmma;
    struct tile_few few;
    struct tile_ring ring; /* in its place, if it fits */
    int order;             /* of pairs of right operands (packed.h); 0: 1 */
    struct tile_across across;
    int mma_choices;
    int n_maps;
    struct gen_tensor_map maps[2 + MAX_B];
};

/* Before the hooks: which template's, as far as operands decide it (k->tile.cuda). */
void product_plan(struct emit *e, struct kernel *k);
/* The operand of the hook at hand. */
void product_add(struct emit *e, fn_id f, sx outer, const struct staged *s);
/* Decide, and write the template's constants. */
void product_constants(struct emit *e);

#endif
