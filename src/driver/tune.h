/* SPDX-License-Identifier: MIT
 * Inside of tuning: the forms of a kernel (driver/tune.c), data to measure it on
 * (driver/tune_data.c), and what is different on a GPU (driver/tune_cuda.c).
 */
#ifndef PROEM_TUNE_H
#define PROEM_TUNE_H

#include "driver/driver.h"

#define TUNE_FORMS     (TILE_CANDIDATES + 1)
#define TUNE_BUDGET_MS 800.0 /* of measuring, a kernel; candidates are compiled besides */

/* A product whose tile is looked for. Form 0 is the model's. */
struct tune_job {
    struct kernel *kernel;
    struct tile_problem problem; /* with the sizes given */
    char key[RT_CHOICE_KEY];
    struct tune_job *twin; /* an earlier one of equal text and sizes */
    int n;                 /* forms */
    struct tile tile[TUNE_FORMS];
    struct gen_unit unit[TUNE_FORMS];
    struct rt_module *module[TUNE_FORMS]; /* NULL: it cannot be compiled */
    struct rt_cubin *cubin[TUNE_FORMS];   /* on a GPU, likewise */
};

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

/* The text of one form. On a GPU the tile becomes what the generator made of it. */
enum proem_status tune_generate(struct proem_program *p, struct tune_job *j, int form,
                                struct err *e);

/* ---- on a GPU -------------------------------------------------------------------------------- */

/* Why programs for the target cannot be measured here; NULL if they can. */
const char *tune_cuda_obstacle(struct proem_program *p);
enum proem_status tune_cuda_key(struct proem_program *p, struct tune_job *j, const char *what,
                                struct err *e);
/* Form 0 has a text: tiles and texts of the others. */
enum proem_status tune_cuda_forms(struct proem_program *p, struct tune_job *j, struct err *e);
/* Machine code of all forms of all jobs. A form beside the first that cannot be compiled, or
 * compiles to slow code, is left out. */
enum proem_status tune_cuda_load(struct proem_program *p, struct tune_job *const *todo, int n,
                                 struct err *e);
/* Times of the forms that have machine code, in their order; *n of them, form[] says which. Those
 * that cannot be launched have no runs. PROEM_DATA: the data does not pass the checks. */
enum proem_status tune_cuda_measure(struct proem_program *p, struct tune_job *j,
                                    const struct tune_data *d, struct rt_trial *out, int *form,
                                    int *n, struct err *e);

#endif
