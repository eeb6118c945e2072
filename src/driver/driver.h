/* SPDX-License-Identifier: MIT
 * The pipeline: graph text to loaded kernels, as one readable list of passes (driver/passes.c).
 *
 *   parse    text                  -> graph, verified
 *   lower    graph                 -> graph of primitives, data checks
 *   fuse     graph of primitives   -> plan: kernels, edges
 *   tune     plan                  -> the same plan, blocks chosen by measuring (with --tune)
 *   gen      plan                  -> C text, one or more units
 *   compile  C text                -> loaded modules
 *   link     modules               -> program: buffers and launches
 *
 * A proem_program holds what each pass made; the public functions and the command both drive it.
 */
#ifndef PROEM_DRIVER_H
#define PROEM_DRIVER_H

#include <pthread.h>

#include "base/device.h"
#include "eval/eval.h"
#include "fuse/plan.h"
#include "gen/gen.h"
#include "proem/proem.h"
#include "rt/rt.h"

struct proem_context {
    struct allocator alloc;
    struct err err; /* the first error since it was cleared */
    struct rt *rt;
    struct rt_pool *pool; /* made with the first program */
    int threads;          /* 0: one for each core */
    struct device_desc native;
    bool detected;
    struct rt_cuda *cuda; /* made with the first program for a GPU */
    int cuda_device;
};

/* What the command sets beyond the public options. Zero means the default. With it signals are held
 * back while compilers run (hold_signals in rt.h): a command is what they end. */
struct context_extra {
    const char *const *compiler_flags; /* NULL-terminated */
    void (*progress)(void *user, int done, int total);
    void *progress_user;
};

enum proem_status context_new(const struct proem_context_options *o,
                              const struct context_extra *extra, proem_context **out,
                              struct err *e);
/* Keep e as the context's error if it is the first; returns its status. */
enum proem_status context_report(proem_context *c, const struct err *e);
/* A step failed or not, and its arena may be out of memory: then that is the reason, whatever it
 * saw of what was missing. */
enum proem_status context_outcome(const struct arena *a, enum proem_status s, struct err *e);
/* The machine at hand; found out once. */
const struct device_desc *context_native(proem_context *c);
enum proem_status context_pool(proem_context *c, struct rt_pool **out, struct err *e);

struct proem_graph {
    proem_context *c;
    struct arena arena;
    struct graph *g;
    struct err err; /* the builder's first error; later calls do nothing */
    bool finished;
    struct str text;    /* of proem_graph_text() */
    const char *source; /* the text that it was parsed from, or NULL */
    size_t n_source;
    const char *file_name, *source_name; /* of the text, and of the graph in it */
};

/* ---- passes ---------------------------------------------------------------------------------- */

enum tune_mode { TUNE_OFF, TUNE_TILES, TUNE_ORDER };

struct program_options {
    enum proem_device device;
    enum precision prec;
    enum fuse_policy policy;
    const struct fuse_force *force;
    size_t n_force;
    bool assume_bandwidth;
    bool strict;
    enum tune_mode tune;
    /* Called on the compiling thread as long work goes on; may be NULL. */
    void (*progress)(void *user, const char *stage, int done, int total);
    void *progress_user;
    struct device_desc target; /* what the plan and the code are for */
    int units;                 /* files of emitted source; 0: one for each distinct kernel */
    bool poison;               /* for tests, of a GPU: new memory is filled with ones */
};

enum pass_id {
    PASS_PARSE,
    PASS_LOWER,
    PASS_FUSE,
    PASS_TUNE,
    PASS_GEN,
    PASS_COMPILE,
    PASS_LINK,
    PASS_COUNT
};

struct pass {
    const char *name;
    enum proem_status (*run)(struct proem_program *p, struct err *e);
    /* Append what the pass made as text. NULL: nothing to read. Text of one unit for `gen`. */
    void (*print)(const struct proem_program *p, int part, struct str *out);
    const char *suffix; /* of a file that holds the print */
};

/* The list, in order; pass_table()[PASS_COUNT] has no name. */
const struct pass *pass_table(void);
/* PASS_COUNT if there is no pass of that name. */
enum pass_id pass_by_name(const char *name);
/* How many texts the pass printed: units for `gen`, else 1 (0 if it prints nothing). */
int pass_parts(const struct proem_program *p, enum pass_id pass);
/* The name of a part, for a file: the unit's first kernel, or the pass. */
const char *pass_part_name(const struct proem_program *p, enum pass_id pass, int part);

/* Something that the plan does in another way than was asked for (driver/strict.c). */
struct fallback {
    const char *what, *why;
};

/* What a kernel needs at a launch, in the plan's order. */
struct program_step {
    const struct gen_kernel *gen;
    const struct pk_kernel *kernel; /* of a CPU */
    const struct gen_cuda *cuda;    /* of a GPU */
};

struct proem_program {
    proem_context *c;
    struct arena arena; /* all that the passes make */
    struct program_options opt;
    /* Called after each pass; may be NULL. */
    enum proem_status (*observe)(void *user, struct proem_program *p, enum pass_id pass,
                                 struct err *e);
    void *observe_user;
    double ms[PASS_COUNT]; /* wall time of each pass */
    /* input of parse */
    const char *text, *file_name, *graph_name;
    size_t n_text;
    bool internal; /* accept what dumps of passes have */
    /* parse */
    struct graph_file file;
    struct graph *graph;
    struct dims_binding dims; /* sizes that estimates may count on */
    /* lower, fuse */
    struct lowered low;
    struct plan plan;
    VEC(struct fallback) fallbacks;
    /* gen */
    struct gen_unit *units;
    int n_units;
    /* compile */
    struct rt_module **modules;
    struct rt_cubin **cubins; /* of a GPU */
    /* link */
    struct program_step *steps; /* in the plan's order */
    int *buffer_of;             /* by lowered value, -1: none */
    value_id *value_of;         /* lowered value by buffer */
    int n_buffers;
    bool *in_place; /* by output: `in` needs no memory of its own */
    struct rt_program *rt;
    struct rt_pool *pool;
    struct rt_cuda_program *cuda; /* of a GPU, instead of rt */
    /* Binding sizes simplifies expressions in the graph's pool: one thread at a time. */
    pthread_mutex_t lock;
};

enum proem_status program_new(proem_context *c, const struct program_options *o,
                              proem_program **out, struct err *e);
/* Text to parse; borrowed until parse is done. */
void program_set_text(proem_program *p, const char *text, size_t n, const char *file_name,
                      const char *graph_name, bool internal);
/* Run passes first..last; stops at the first error. */
enum proem_status program_run(proem_program *p, enum pass_id first, enum pass_id last,
                              struct err *e);
/* The value that an edge starts from: the consumer's operand behind views. */
value_id plan_edge_source(const struct graph *g, const struct plan_edge *edge);
/* The plan as graph text: the lowered graph, with its kernels as comments (driver/print_plan.c). */
void plan_print(const struct plan *p, struct str *out);
/* May output `out` be written straight into parameter `param`'s memory (driver/alias.c)? Lowered
 * values, steps are known. */
bool program_in_place(const struct proem_program *p, value_id out, value_id param);
/* Find the plan's fallbacks; with `strict` the first one is an error (driver/strict.c). */
enum proem_status program_fallbacks(struct proem_program *p, struct err *e);
/* Measure tiles, if the options say so (driver/tune.c). */
enum proem_status program_tune(struct proem_program *p, struct err *e);
/* How a product is cut and how that was found, in words, without a newline (driver/print_plan.c). */
void tuned_print(const struct kernel *k, struct str *out);
/* Buffers, launches, checks (driver/link.c). */
enum proem_status program_link(struct proem_program *p, struct err *e);
/* What a failed check means, in words (driver/fault.c). step: of the program. shape: of the checked
 * value, from its dims under sizes. */
enum proem_status fault_message(struct proem_program *p, const struct dims_binding *sizes,
                                const struct rt_fault *f, struct err *e);

/* ---- runs ------------------------------------------------------------------------------------ */

DLDataType dtype_to_dl(enum dtype d);
enum dtype dtype_from_dl(DLDataType t); /* DT_NONE if proem has none */
/* How a caller holds a tensor of dtype d, and its last dim: bytes for a block format. */
enum dtype dtype_stored(enum dtype d);
int64_t stored_dim(enum dtype d, int64_t n);
/* Sizes of the symbols for these inputs, checked against every dim (driver/bind.c). set: values
 * given by name (-1: none), or NULL. */
enum proem_status bind_sizes(const struct graph *g, struct dims_binding *b,
                             const struct dims_binding *set, size_t n_in, const int *rank,
                             const int64_t *const *shape, struct err *e);

#endif
