/* SPDX-License-Identifier: MIT
 * The portable tensor-core template's constants from the sizes, the dtypes and the device.
 *
 * Products of 16-bit floats of one dtype, of 8-bit floats (exact as f16) and of 8-bit integers are
 * exact in the tensor cores of sm_80 and later; f32 is not. The larger of two square tiles is taken
 * where there are enough of them for every SM, and where its sums fit in registers. Where even the
 * smaller ones leave half of the SMs without work, several blocks share a tile.
 */
#include "tile/tile_cuda_mma.h"

enum { LARGE = 128, SMALL = 64, LEAST_PART = 256, MOST_SPLIT = 16 };

static bool is_f8(enum dtype d) {
    return d == DT_F8E4M3FN || d == DT_F8E5M2;
}

static bool takes(const struct tile_problem *p) {
    enum dtype a = p->operand[0], b = p->operand[1];
    if (p->hides) return false;
    if (p->acc == DT_I32) return (a == DT_I8 || a == DT_U8) && (b == DT_I8 || b == DT_U8);
    if (p->acc != DT_F32) return false;
    return (a == b && (a == DT_BF16 || a == DT_F16)) || (is_f8(a) && is_f8(b));
}

static double tiles(int64_t extent, int size) {
    int64_t whole = (extent + size - 1) / size;
    return (double)whole;
}

/* Blocks for a tile: no more than give every SM one, no part of K shorter than it is worth. */
static int split_of(const struct tile_problem *p, const struct device_desc *d, int64_t m, int64_t n,
                    int size) {
    if (p->one_order || p->Z < 1 || m < 1 || n < 1 || p->K < 0) return 1;
    double most = d->gpu.sms / ((double)p->Z * tiles(m, size) * tiles(n, size));
    int64_t parts = p->K / LEAST_PART;
    int split = 1;
    while (split * 2 <= most && split * 2 <= parts && split < MOST_SPLIT)
        split *= 2;
    return split;
}

bool tile_cuda_mma(const struct tile_problem *p, const struct device_desc *d,
                   struct tile_cuda *out) {
    if (d->gpu.cc < 80 || p->n_b < 1 || !takes(p)) return false;
    int64_t z = p->Z < 0 ? 1 : p->Z, m = p->M < 0 ? p->likely_M : p->M,
            n = p->N < 0 ? p->likely_N : p->N;
    bool known = m >= 0 && n >= 0;
    bool many = !known || (double)z * tiles(m, LARGE) * tiles(n, LARGE) >= d->gpu.sms;
    int size = many && p->n_b <= 2 && (m < 0 || m > SMALL) ? LARGE : SMALL;
    *out = (struct tile_cuda){.form = TILE_MMA,
                              .rows = size,
                              .cols = size,
                              .split = split_of(p, d, m, n, size),
                              .threads = 2 * size,
                              .a_lanes = 8,
                              .b_lanes = 8,
                              .c_lanes = 8,
                              .pack_lanes = 8};
    return true;
}

int tile_cuda_mma_at(int n_b, int passed, struct tile_cuda *t) {
    if (n_b > 2) return 1;
    if (passed > 0) {
        t->rows = t->cols = t->rows == LARGE ? SMALL : LARGE;
        t->threads = 2 * t->rows;
    }
    return 2;
}
