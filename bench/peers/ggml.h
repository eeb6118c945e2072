/* SPDX-License-Identifier: MIT
 * What the module of peers/ggml.c gives to the benchmarks, found by name after dlopen.
 */
#ifndef PROEM_BENCH_GGML_H
#define PROEM_BENCH_GGML_H

#include <stdbool.h>
#include <stdint.h>

enum ggml_format { GGML_FORMAT_Q8_0, GGML_FORMAT_Q4_0, GGML_FORMAT_F16, GGML_FORMAT_F32 };

/* out[m][n] = x[m][k] * w[n][k]; w in the format's blocks (copied). repack: in ggml's layout for
 * this machine, where it has one. NULL: not possible. */
typedef struct ggml_product *ggml_product_open_fn(enum ggml_format format, bool repack, int64_t m,
                                                  int64_t n, int64_t k, const float *x,
                                                  const void *w, int threads);
typedef bool ggml_product_run_fn(void *product);
typedef const float *ggml_product_out_fn(const struct ggml_product *p);
typedef void ggml_product_close_fn(struct ggml_product *p);
typedef const char *ggml_peer_version_fn(void);

#endif
