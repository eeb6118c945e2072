/* SPDX-License-Identifier: MIT
 * Inside of tuning: data to measure a kernel on (driver/tune_data.c), and one form of a kernel as a
 * program of one launch (driver/tune.c).
 */
#ifndef PROEM_TUNE_H
#define PROEM_TUNE_H

#include "driver/driver.h"

/* What a kernel's arguments are filled with, and what they need to know of the data. */
struct tune_data {
    struct rt_buffer *buffers; /* by argument */
    struct rt_view *views;
    int64_t *bytes;
    int64_t total;
    int n;
};

/* Memory for every argument of a kernel, the operands filled with random values that its data checks
 * accept; sizes are those of p->dims. *note tells why that is not possible, else NULL. On the
 * program's allocator and arena: tune_data_free in any case. */
enum proem_status tune_data_make(struct proem_program *p, const struct gen_kernel *k,
                                 struct tune_data *out, const char **note, struct err *e);
void tune_data_free(const struct allocator *a, struct tune_data *d);

#endif
