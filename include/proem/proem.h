/* SPDX-License-Identifier: MIT
 * proem: compiles a graph of tensor operators into few fused kernels and runs them.
 *
 * Ownership words: *_create gives an object that *_destroy frees (NULL is allowed); anything else
 * that is returned is borrowed and lives as long as the object it came from.
 *
 * Every function that can fail returns enum proem_status (proem/status.h); the text of the first
 * error is proem_error_text() of the context (or of the execution, for runs). Nothing is printed and
 * nothing aborts.
 *
 * Threads: a context, and what is built with it, is used by one thread at a time. A program may be
 * executed by several threads at once, each with an execution of its own.
 *
 * The language (operators, dtypes, types as text) is docs/language.md.
 */
#ifndef PROEM_PROEM_H
#define PROEM_PROEM_H

#include <dlpack/dlpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proem/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define PROEM_API __attribute__((visibility("default")))
#else
#define PROEM_API
#endif

#define PROEM_VERSION "0.1.0"

/* DLPack type codes that the packaged header may lack (values of DLPack 1.1). */
#define PROEM_DL_BOOL     6
#define PROEM_DL_F8E4M3FN 10
#define PROEM_DL_F8E5M2   12
#define PROEM_DL_E8M0     14
#define PROEM_DL_F4E2M1FN 17

typedef struct proem_context proem_context;
typedef struct proem_graph proem_graph;
typedef struct proem_program proem_program;
typedef struct proem_execution proem_execution;

/* A value of a graph under construction; 0 is the null value. */
typedef uint32_t proem_value;

/* ---- context --------------------------------------------------------------------------------- */

struct proem_context_options {
    size_t size; /* sizeof(struct proem_context_options) */
    /* Memory of everything that proem allocates itself; NULL: malloc. align is a power of two. */
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*free)(void *user, void *p, size_t size);
    void *user;
    const char *cache_dir; /* compiled kernels; NULL: no disk cache */
    const char *compiler;  /* NULL: cc, found on PATH */
    int threads;           /* 0: one for each core */
    int cuda_device;       /* which GPU PROEM_DEVICE_CUDA means */
};

/* Defaults: malloc, no cache, cc, all cores. */
PROEM_API void proem_context_options_init(struct proem_context_options *o);
PROEM_API enum proem_status proem_context_create(const struct proem_context_options *o,
                                                 proem_context **out);
PROEM_API void proem_context_destroy(proem_context *c);
/* The first error since the last proem_error_clear(), "" if there was none. line and col may be
 * NULL; they are 0 when the error has no place in a text. */
PROEM_API const char *proem_error_text(const proem_context *c, int *line, int *col);
PROEM_API void proem_error_clear(proem_context *c);
PROEM_API const char *proem_version(void);

/* ---- graphs ---------------------------------------------------------------------------------- */

PROEM_API enum proem_status proem_graph_create(proem_context *c, const char *name,
                                               proem_graph **out);
/* Parse graph text. graph_name NULL: the first graph. file_name is for messages and may be NULL. */
PROEM_API enum proem_status proem_graph_parse(proem_context *c, const char *text, size_t n,
                                              const char *file_name, const char *graph_name,
                                              proem_graph **out);
PROEM_API void proem_graph_destroy(proem_graph *g);

/* The builder is sticky: an error yields the null value, operators on it yield it again, and
 * proem_graph_finish() reports the first error. So calls can be nested without a check each. */

/* A parameter; type as in graph text, e.g. "bf16[M, 4096]". */
PROEM_API proem_value proem_graph_param(proem_graph *g, const char *name, const char *type);
/* The same, promised not to change between runs of one program (it may be packed once). */
PROEM_API proem_value proem_graph_const_param(proem_graph *g, const char *name, const char *type);
PROEM_API proem_value proem_graph_float(proem_graph *g, double v); /* literals, weakly typed */
PROEM_API proem_value proem_graph_int(proem_graph *g, int64_t v);
/* Operator `op` on n operands (0 for an optional one left out); args is the rest of the call as
 * graph text, e.g. "axis=1, start=0", "[M, 32, 64]", "bf16", or NULL. The first result. */
PROEM_API proem_value proem_graph_call(proem_graph *g, const char *op, size_t n,
                                       const proem_value *in, const char *args);
/* Result number i of the call that gave v (split, topk, attention). */
PROEM_API proem_value proem_graph_result(proem_graph *g, proem_value v, int i);
PROEM_API proem_value proem_graph_name(proem_graph *g, proem_value v, const char *name);
/* Add an output; in_param is a parameter whose memory it may use, or 0. */
PROEM_API enum proem_status proem_graph_output(proem_graph *g, proem_value v, proem_value in_param);
PROEM_API enum proem_status proem_graph_finish(proem_graph *g);

static inline proem_value proem_call1(proem_graph *g, const char *op, proem_value x,
                                      const char *args) {
    return proem_graph_call(g, op, 1, &x, args);
}
static inline proem_value proem_call2(proem_graph *g, const char *op, proem_value a, proem_value b,
                                      const char *args) {
    proem_value in[2];
    in[0] = a;
    in[1] = b;
    return proem_graph_call(g, op, 2, in, args);
}
static inline proem_value proem_matmul(proem_graph *g, proem_value a, proem_value b) {
    return proem_call2(g, "matmul", a, b, NULL);
}
static inline proem_value proem_add(proem_graph *g, proem_value a, proem_value b) {
    return proem_call2(g, "add", a, b, NULL);
}
static inline proem_value proem_mul(proem_graph *g, proem_value a, proem_value b) {
    return proem_call2(g, "mul", a, b, NULL);
}
static inline proem_value proem_cast(proem_graph *g, proem_value x, const char *dtype) {
    return proem_call1(g, "cast", x, dtype);
}

/* Canonical text; *out is borrowed until the next call on this graph. */
PROEM_API enum proem_status proem_graph_text(proem_graph *g, const char **out);

/* ---- programs -------------------------------------------------------------------------------- */

enum proem_precision { PROEM_BOUNDARY, PROEM_EAGER, PROEM_NATIVE };
enum proem_fuse { PROEM_FUSE_MODEL, PROEM_FUSE_ALWAYS, PROEM_FUSE_NEVER };
/* Measure block sizes: results keep their bits. ORDER: also orders of sums, which may change them. */
enum proem_tune { PROEM_TUNE_OFF, PROEM_TUNE_TILES, PROEM_TUNE_ORDER };
enum proem_device { PROEM_DEVICE_CPU, PROEM_DEVICE_REF, PROEM_DEVICE_CUDA };

struct proem_fuse_force {
    const char *from, *to; /* names of an edge's ends, as explain gives them */
    bool fuse;
};

struct proem_compile_options {
    size_t size; /* sizeof(struct proem_compile_options) */
    enum proem_device device;
    enum proem_precision precision;
    enum proem_fuse fuse;
    const struct proem_fuse_force *force;
    size_t n_force;
    bool assume_bandwidth;
    bool strict;      /* PROEM_UNSUPPORTED instead of any fallback (docs/fusion.md) */
    const char *arch; /* NULL: this machine; "avx2", "avx512", "generic", "neon"; "sm_80",
                         "sm_90", "sm_90a", "sm_100a" */
    /* Sizes that the plan may count on for its estimates; the program runs with any. */
    const char *const *dim_names;
    const int64_t *dim_values;
    size_t n_dims;
    /* Measure on random data of these sizes, about a second for each distinct product, and keep the
     * choice in the context's cache. Every symbol needs a value, else the model's choice stays. */
    enum proem_tune tune;
    /* Called on the calling thread while kernels are measured: stage is "tuning". May be NULL. */
    void (*progress)(void *user, const char *stage, int done, int total);
    void *progress_user;
};

PROEM_API void proem_compile_options_init(struct proem_compile_options *o);
/* Plan, generate, compile (or find in the cache). The graph may be destroyed afterwards. */
PROEM_API enum proem_status proem_compile(proem_graph *g, const struct proem_compile_options *o,
                                          proem_program **out);
PROEM_API void proem_program_destroy(proem_program *p);
PROEM_API size_t proem_program_inputs(const proem_program *p);
PROEM_API size_t proem_program_outputs(const proem_program *p);
PROEM_API const char *proem_program_input_name(const proem_program *p, size_t i);
PROEM_API const char *proem_program_output_name(const proem_program *p, size_t i);
PROEM_API size_t proem_program_kernels(const proem_program *p);

/* ---- runs ------------------------------------------------------------------------------------ */

/* What one thread needs to run a program: planned memory, bound sizes, the error of its runs. */
PROEM_API enum proem_status proem_execution_create(proem_program *p, proem_execution **out);
PROEM_API void proem_execution_destroy(proem_execution *x);
/* Set a symbol that no input determines (or to check one that does). */
PROEM_API enum proem_status proem_execution_set_dim(proem_execution *x, const char *name,
                                                    int64_t v);
/* Bind sizes from the inputs' shapes (parameters in order), plan memory, allocate. Runs call it when
 * shapes changed; calling it first keeps the first run free of allocation. Shapes of the outputs can
 * then be asked for. */
PROEM_API enum proem_status proem_execution_prepare(proem_execution *x, const DLTensor *const *in,
                                                    size_t n_in);
/* rank and dims of output i after prepare; dims is borrowed until the next prepare. */
PROEM_API enum proem_status proem_execution_output_shape(proem_execution *x, size_t i, int *rank,
                                                         const int64_t **dims, DLDataType *dtype);
/* The stream (a CUstream, cudaStream_t) that runs of a program for PROEM_DEVICE_CUDA are launched on;
 * NULL, as at first, is the legacy default stream. It must live as long as its runs. */
PROEM_API enum proem_status proem_execution_set_stream(proem_execution *x, void *stream);
/* Run. in: one tensor for each parameter, any strides; out: one for each output, compact, of the
 * right shape and dtype. Sub-byte tensors: bits 4 or 2, shape and strides in elements. A
 * parameter in a block format: u8, the last dim counting the bytes of a row. An output
 * must not overlap an input unless the graph says `in`.
 *
 * Tensors are on the CPU, or, for PROEM_DEVICE_CUDA, on the CPU or the GPU, each as it likes. If all
 * are on the GPU the run is launched and the call returns: the results are there when the stream has
 * come so far, data errors are told by proem_program_check(), nothing is allocated after a first run
 * with the same shapes, and the stream may be capturing a CUDA graph. Runs of one execution share its
 * memory: put them on one stream, or order them. With a tensor on the CPU the call waits. */
PROEM_API enum proem_status proem_run(proem_execution *x, const DLTensor *const *in, size_t n_in,
                                      DLTensor *const *out, size_t n_out);
/* Wait for what this execution launched, and report the first data error of its runs since the last
 * call (PROEM_DATA). Nothing to do for other devices, whose runs report it themselves. */
PROEM_API enum proem_status proem_program_check(proem_execution *x);
PROEM_API const char *proem_execution_error(const proem_execution *x);

#ifdef __cplusplus
}
#endif

#endif
