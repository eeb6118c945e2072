/* SPDX-License-Identifier: MIT
 * What a product costs on a device with what is computed in its loads: the model that the scheduler
 * compares storing with (docs/fusion.md). Plain numbers in, seconds out.
 */
#ifndef PROEM_COST_H
#define PROEM_COST_H

#include "base/device.h"
#include "ops/op.h"
#include "tile/tile.h"

/* Work for one element: operations of one issue slot, and results of the special-function unit. */
struct cost_work {
    double plain, special;
};

struct cost_work cost_op(enum op op);
/* A value turned into another dtype. */
struct cost_work cost_cast(enum dtype from, enum dtype to);

/* An operand as the product reads it. */
struct cost_operand {
    bool plain; /* lies in memory as it is multiplied */
    bool along; /* its leaves run along k */
    bool lines; /* rows of leaves begin at multiples of 16 bytes */
    bool map;   /* and their places follow from the row's number: no look-up */
    bool same;  /* leaves are of one width */
    int leaves; /* tensors with elements of their own at each place; 0: a template cannot fetch them
                   ahead (what stands behind a condition, more than two) */
    int leaf_bits;
    double leaf_bytes; /* of all leaves */
    struct cost_work work;
};

struct cost_product {
    struct tile_problem tile; /* every size known */
    struct cost_operand a, b; /* b: each of the right operands */
    double c_ops;             /* arithmetic on a finished result */
};

/* Seconds; < 0: this device has no model of it. */
double cost_product(const struct cost_product *p, const struct device_desc *d);

/* Seconds of a kernel on its own that evaluates `count` elements. A GPU's arithmetic and traffic
 * overlap. */
double cost_map(double count, struct cost_work w, double bytes_read, double bytes_written,
                const struct device_desc *d);

/* Bytes a second of a whole GPU for a tensor that was just written or is read again. */
double cost_bandwidth(double bytes, const struct device_desc *d);

#endif
