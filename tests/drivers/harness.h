/* SPDX-License-Identifier: MIT
 * What the large test drivers share: a graph text becomes a subject (parsed, lowered, with inputs
 * from a seed), a subject becomes variants (a precision mode and a fusion policy), many variants
 * are compiled in one call of the compiler, run with poisoned surroundings, and held against the
 * reference interpreter.
 */
#ifndef DRIVER_HARNESS_H
#define DRIVER_HARNESS_H

#include "driver/driver.h"
#include "eval/eval.h"
#include "fuse/plan.h"
#include "gen/gen.h"
#include "rt/rt.h"

struct rig {
    struct rt *rt;
    struct rt_pool *pool;
    struct device_desc device;
    int threads;
    proem_context *cuda; /* with PROEM_TEST_DEVICE=cuda: instead of rt and pool */
};

struct rig_options {
    int threads;
    const char *cache_dir; /* NULL: none */
    const char *arch;      /* NULL: this machine */
    const char *compiler;  /* NULL: cc */
    const char *optimize;  /* a flag such as "-O1", NULL: as for users */
};

enum proem_status rig_open(struct rig *r, const struct rig_options *o, struct err *e);
void rig_close(struct rig *r);

/* A tensor between guards: 0xFF bytes (NaNs, indices out of range) before and after it. */
struct guarded {
    enum dtype dtype;
    int rank;
    int64_t shape[MAX_RANK];
    int64_t count, bytes;
    unsigned char *data, *block;
    size_t block_bytes;
};
/* skew: the data starts that many elements past a multiple of 64 bytes. */
bool guarded_new(struct guarded *t, int skew);
void guarded_free(struct guarded *t);
/* Are the guards as they were? */
bool guarded_intact(const struct guarded *t);
/* Equal element for element; NaNs are equal. *at gets the first difference. */
bool guarded_same(const struct guarded *a, const struct guarded *b, int64_t *at);

enum fill {
    FILL_RANDOM,  /* as for an input that is not named on the command line */
    FILL_SMALL,   /* integers from -4 to 4, in floats too */
    FILL_SPECIAL, /* random, with NaNs, infinities, zeros of both signs and extremes */
    FILL_TENTH    /* random, a tenth as large: sums of products stay small */
};

struct dim_value {
    const char *name;
    int64_t value;
};

struct subject {
    struct arena arena;
    struct graph *g;
    struct lowered low;
    struct dims_binding dims;
    struct guarded *in;
    uint64_t seed;
};
/* Indices named idx* may be negative. A failure leaves nothing to close. */
enum proem_status subject_open(struct subject *s, const char *text, const struct dim_value *dims,
                               int n_dims, uint64_t seed, enum fill fill, struct err *e);
void subject_close(struct subject *s);
enum proem_status subject_reference(struct subject *s, enum precision prec, int64_t rows,
                                    int threads, struct eval_results *out, struct err *e);

struct variant {
    struct subject *s;
    enum precision prec;
    enum fuse_policy policy;
    enum proem_status status; /* of the first step that failed */
    struct err err;
    struct plan plan;
    struct gen_joint joint;
    struct rt_module *module;
    struct rt_program *program;
    struct proem_program *cuda; /* on a GPU, instead of module and program */
    struct guarded *out;
};
enum proem_status variant_plan(struct variant *v, struct subject *s, enum precision prec,
                               enum fuse_policy policy, const struct rig *r);
/* Those whose status is not OK are skipped. A failure is the variant's own (in its status), found
 * by halving if the compiler refuses a unit. */
void variants_compile(struct rig *r, struct variant **v, int n);
/* One run into new outputs. PROEM_DATA: a data check failed. */
enum proem_status variant_run(struct rig *r, struct variant *v);
void variant_close(struct variant *v);
const char *mode_name(enum precision p);

/* Hold a run's outputs against the reference. On a mismatch *e says where and by how much. */
enum proem_status variant_check(const struct variant *v, const struct eval_results *ref,
                                double *worst_ratio, struct err *e);

/* ---- isolation ------------------------------------------------------------------------------- */

enum outcome_state { OUTCOME_NONE, OUTCOME_PASSED, OUTCOME_FAILED, OUTCOME_SKIPPED };
struct outcome {
    enum outcome_state state;
    int kernels; /* of suite_run's fused plan, boundary */
    char text[560];
};
/* Items [0, n) in child processes, `batch` at a time, on `jobs` of them at once. body works on
 * items first..first+count-1, sets *at to the one it is working on (-1: on all) and fills out[]. An
 * item at which the child dies or takes longer than limit_s has failed; the rest of its batch is
 * tried again. */
typedef void (*batch_fn)(void *user, int first, int count, volatile int *at, struct outcome *out);
/* NULL: no memory. Freed by the caller with outcomes_free. report (may be NULL) is called in order
 * of completion. */
struct outcome *run_isolated(int n, int batch, int jobs, int limit_s, batch_fn body, void *user,
                             void (*report)(void *user, int item, const struct outcome *o));
void outcomes_free(struct outcome *o, int n);

/* ---- settings -------------------------------------------------------------------------------- */

/* A NAME=VALUE of the command line and where it goes: an int, an int64_t or a const char *.
 * Without a value a number stays as it is and a text becomes NULL. */
enum setting_kind { SETTING_INT, SETTING_LONG, SETTING_TEXT };
struct setting {
    const char *name;
    enum setting_kind kind;
    void *to;
};
/* False, said on stderr: an argument is none of these, or no number. */
bool settings_read(const char *program, const struct setting *list, int n, int argc, char **argv);
/* A file with a 0 behind it, to be freed; NULL: it cannot be read. */
char *text_of_file(const char *path);

#endif
