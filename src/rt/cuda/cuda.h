/* SPDX-License-Identifier: MIT
 * The CUDA runtime: CUDA C text to loaded kernels, and loaded kernels to results.
 *
 *   device    the GPU -> device_desc
 *   cubin     text -> machine code: memory, disk cache, NVRTC; what its log says of each
 *   program   buffers and steps (launches) as plain data
 *   exec      one thread's execution of a program: device memory for one binding of the symbols,
 *             then runs on the caller's stream
 *   measure   executions timed on the device
 *
 * libcuda and libnvrtc are opened when they are first needed; a build needs neither. Compiling needs
 * no GPU. Every function leaves the caller's current context as it was. As for CPUs, it knows
 * nothing of graphs and plans.
 */
#ifndef PROEM_RT_CUDA_H
#define PROEM_RT_CUDA_H

#include "base/cuda_abi.h"
#include "rt/rt.h"

struct rt_cuda;

/* Zero means the default. Strings are copied. */
struct rt_cuda_options {
    const char *driver; /* file of libcuda; default: the usual names */
    const char *nvrtc;  /* file of libnvrtc; default: the usual names and places */
    int ordinal;        /* which device */
};

/* Opens nothing. rt lends its cache, its limit on jobs and its progress, and must outlive it. */
enum proem_status rt_cuda_new(struct rt *rt, const struct rt_cuda_options *o, struct rt_cuda **out,
                              struct err *e);
/* Every program and cubin must have been freed. */
void rt_cuda_free(struct rt_cuda *c);

/* The device, with its context. PROEM_DEVICE tells what is missing and where it was looked for. */
enum proem_status rt_cuda_device(struct rt_cuda *c, struct device_desc *out, struct err *e);

/* For `doctor`: where the libraries were found, and what they are. */
enum proem_status rt_cuda_driver_text(struct rt_cuda *c, struct str *out, struct err *e);
enum proem_status rt_cuda_nvrtc_text(struct rt_cuda *c, struct str *out, struct err *e);
/* NVRTC's options for a device, as text. */
enum proem_status rt_cuda_flags(struct rt_cuda *c, const struct device_desc *d, struct str *out,
                                struct err *e);

/* ---- machine code (cubin.c, nvrtc.c) --------------------------------------------------------- */

struct rt_cubin;

/* What the compiler's log says, the worst of all functions of a unit. */
struct rt_cubin_report {
    int registers;   /* of a thread */
    int64_t spilled; /* bytes of a thread, stored and loaded */
    int serialized;  /* how many warnings that asynchronous products (wgmma) wait for each other */
    double ms;       /* time to compile; 0: it came from the cache */
    char first[160]; /* the first such line of the log, "" if it has none */
};

/* Compile n units for a device, several at once: from memory, else from the cache, else by NVRTC.
 * All or nothing; the caller holds one reference to each out[i]. Safe from several threads. A unit
 * that spills or serializes is no failure here: see its report. */
enum proem_status rt_cuda_compile(struct rt_cuda *c, const struct device_desc *d, int n,
                                  const struct rt_source *sources, struct rt_cubin **out,
                                  struct err *e);
/* The key of a choice that was made for a unit under circumstances `what`, for rt_choice_find. */
enum proem_status rt_cuda_choice_key(struct rt_cuda *c, const struct device_desc *d,
                                     const struct rt_source *source, const char *what,
                                     char key[RT_CHOICE_KEY], struct err *e);
const struct rt_cubin_report *rt_cubin_report(const struct rt_cubin *b);
/* The machine code, an ELF file. */
const void *rt_cubin_data(const struct rt_cubin *b, size_t *n);
struct rt_cubin *rt_cubin_ref(struct rt_cubin *b);
void rt_cubin_unref(struct rt_cubin *b); /* NULL is fine */

/* ---- programs (program.c) -------------------------------------------------------------------- */

/* A tensor map (TMA) of a launch; what depends on sizes is in struct rt_cuda_extent. */
struct rt_cuda_map {
    int arg;  /* which argument of the step */
    int type; /* enum rt_cuda_type */
    int rank; /* 1..5 */
    int box[5];
    int swizzle; /* bytes: 0, 32, 64 or 128 */
};

/* Numbers as in CUtensorMapDataType. */
enum rt_cuda_type {
    RT_CUDA_U8 = 0,
    RT_CUDA_U16 = 1,
    RT_CUDA_U32 = 2,
    RT_CUDA_I32 = 3,
    RT_CUDA_U64 = 4,
    RT_CUDA_I64 = 5,
    RT_CUDA_F16 = 6,
    RT_CUDA_F32 = 7,
    RT_CUDA_F64 = 8,
    RT_CUDA_BF16 = 9
};

struct rt_cuda_launch {
    const char *entry; /* name of the __global__ function */
    int threads;
    int cluster; /* blocks of a cluster, 1: none; the grid is rounded up to a multiple */
    int shared;  /* bytes of dynamic shared memory of a block */
    int per_sm;  /* > 0: at most so many blocks times the device's SMs */
    int n_maps;
    const struct rt_cuda_map *maps;
};

struct rt_cuda_step {
    const char *name; /* for messages */
    struct rt_cubin *cubin;
    int n_args;
    const int *args; /* buffers */
    int n_checks;    /* how many struct pk_cuda_fault it has */
    bool zeroed;     /* its scratch is its own, and 0 before the first launch */
    int n_launches;
    const struct rt_cuda_launch *launches;
};

struct rt_cuda_desc {
    int n_buffers, n_steps, n_symbols, n_cubins;
    const struct rt_buffer *buffers;
    const struct rt_cuda_step *steps; /* in order of execution */
    struct rt_cubin *const *cubins;   /* kept for the program's life */
    bool
        poison; /* for tests: before a step, fill what comes alive with it and its scratch with ones */
};

struct rt_cuda_program;

/* Copies the description, loads the machine code onto the device. */
enum proem_status rt_cuda_program_new(struct rt_cuda *c, const struct rt_cuda_desc *d,
                                      struct rt_cuda_program **out, struct err *e);
/* Every exec must have been freed, and its runs have ended. */
void rt_cuda_program_free(struct rt_cuda_program *p);
/* Launches and tensor maps of all steps together: how long the arrays of struct rt_cuda_sizes are. */
int rt_cuda_program_launches(const struct rt_cuda_program *p);
int rt_cuda_program_maps(const struct rt_cuda_program *p);

/* ---- executions (exec.c, run.c) -------------------------------------------------------------- */

struct rt_cuda_exec;

/* One caller thread at a time may use an exec; any number of execs may run at once. */
enum proem_status rt_cuda_exec_new(struct rt_cuda_program *p, struct rt_cuda_exec **out,
                                   struct err *e);
/* Waits for its runs. */
void rt_cuda_exec_free(struct rt_cuda_exec *x);

/* What a tensor map sees, in elements of its type; strides[0] is 1. */
struct rt_cuda_extent {
    int64_t offset, dims[5], strides[5];
};

struct rt_cuda_sizes {
    const int64_t *sym;
    const int64_t *bytes;                /* by buffer, compact */
    const int64_t *scratch;              /* by step: bytes */
    const int64_t *blocks;               /* by launch, those of all steps one after the other */
    const struct rt_cuda_extent *extent; /* by tensor map, likewise */
};

/* Size everything; copies what it needs. Memory only grows; when it must, earlier runs are waited
 * for. */
enum proem_status rt_cuda_exec_prepare(struct rt_cuda_exec *x, const struct rt_cuda_sizes *s,
                                       struct err *e);
void rt_cuda_exec_memory(const struct rt_cuda_exec *x, struct rt_memory *out);

/* A tensor of a run. */
struct rt_cuda_view {
    struct rt_view view;
    bool on_device; /* where its memory is */
    bool apart;     /* an output in an input's memory: written when all has been read */
};

/* Run on a stream (a CUstream; NULL is the default one), with one view a buffer (those of RT_TEMP
 * are ignored). With device tensors only, it launches and returns: nothing is waited for, data errors
 * show in rt_cuda_exec_check, and the stream may be capturing a graph if a run with these shapes and
 * addresses was made before. A tensor on the host goes through device memory, and the run waits for
 * its end and checks. Strided tensors go through compact copies. Overlap is the caller's to exclude.
 * Runs of one exec share its memory: on several streams the caller must order them. */
enum proem_status rt_cuda_exec_run(struct rt_cuda_exec *x, void *stream,
                                   const struct rt_cuda_view *views, struct rt_fault *fault,
                                   struct err *e);
/* Wait for the runs of the last stream, then as rt_exec_run: PROEM_DATA with *fault for the first
 * failed check since the last call. */
enum proem_status rt_cuda_exec_check(struct rt_cuda_exec *x, struct rt_fault *fault, struct err *e);

/* ---- device memory, for the command and for tests -------------------------------------------- */

enum proem_status rt_cuda_alloc(struct rt_cuda *c, int64_t bytes, void **out, struct err *e);
void rt_cuda_release(struct rt_cuda *c, void *p); /* NULL is fine */
/* Wait for the copy. */
enum proem_status rt_cuda_upload(struct rt_cuda *c, void *to, const void *from, int64_t bytes,
                                 struct err *e);
enum proem_status rt_cuda_download(struct rt_cuda *c, void *to, const void *from, int64_t bytes,
                                   struct err *e);

/* ---- measuring (measure.c) ------------------------------------------------------------------- */

/* Executions timed in turns, each as a CUDA graph of one run for each of its sets of tensors. */
struct rt_cuda_trial {
    struct rt_cuda_exec *exec; /* prepared */
    int n_sets;
    int runs; /* the fewest of a replay; 0: as many as hide what is around one */
    const struct rt_cuda_view *const *sets; /* device tensors; rotated, so that L2 is cold */
    double *us; /* results: a run's time, of each replay; caller's array */
    int n, cap;
};

enum proem_status rt_cuda_measure(struct rt_cuda *c, struct rt_cuda_trial *t, int n,
                                  double budget_ms, struct err *e);

#endif
