/* SPDX-License-Identifier: MIT
 * What the files of the CUDA runtime share and nobody else needs.
 */
#ifndef PROEM_RT_CUDA_INTERNAL_H
#define PROEM_RT_CUDA_INTERNAL_H

#include "rt/cuda/cuda.h"
#include "rt/cuda/driver.h"
#include "rt/rt_internal.h"

struct rt_cuda {
    struct rt *rt;
    const struct allocator *alloc;
    struct str driver_option, nvrtc_option;
    int ordinal;

    pthread_mutex_t lock; /* guards what follows; tables of functions do not change once open */
    /* libcuda: found out once, with success or not */
    bool driver_tried;
    struct err driver_err;
    struct str driver_name; /* as it was opened */
    struct cu_functions cu;
    int driver_version;
    cu_device device;
    cu_context context; /* the primary one, retained */
    cu_stream stream;   /* for what happens outside of runs; waits for no other stream */
    struct device_desc desc;
    char device_name[128];
    int64_t device_memory;
    /* libnvrtc, likewise */
    bool nvrtc_tried;
    struct err nvrtc_err;
    struct str nvrtc_name;
    struct nvrtc_functions nvrtc;
    int nvrtc_version; /* 1000 * major + 10 * minor */

    struct rt_cubin *cubins; /* those in memory, a list */
    struct rt_cubin
        *helpers; /* the unit of copy.c, once it was needed; holds no reference of a list */
};

/* The driver is open and the device's context retained. */
enum proem_status rt_cuda_open(struct rt_cuda *c, struct err *e);
enum proem_status rt_nvrtc_open(struct rt_cuda *c, struct err *e);
/* PROEM_OK for 0; else an error with `what` was being done and the driver's text. */
enum proem_status rt_cuda_result(struct rt_cuda *c, cu_result r, const char *what, struct err *e);
/* Make the device's context the thread's, and the caller's again. */
enum proem_status rt_cuda_enter(struct rt_cuda *c, struct err *e);
void rt_cuda_leave(struct rt_cuda *c);
/* Fill the description from the open device (device.c). */
enum proem_status rt_cuda_describe(struct rt_cuda *c, struct err *e);

/* ---- machine code ---------------------------------------------------------------------------- */

struct rt_cubin {
    struct rt_cuda *cuda;
    struct rt_cubin *next;
    XXH128_hash_t key;
    int64_t refs; /* guarded by cuda->lock */
    struct rt_cubin_report report;
    struct str code;
    pthread_mutex_t lock; /* guards the module */
    cu_module module;     /* on the device, once a program asked for it */
};

/* One compile (nvrtc.c). */
struct nvrtc_job {
    const struct rt_source *source;
    struct str code; /* result, on the allocator */
    struct rt_cubin_report report;
    struct err err;
};

/* NVRTC's options, NULL-terminated; the strings live in the arena. */
const char *const *nvrtc_options(struct arena *a, const struct device_desc *d, int *n);
/* Compile all jobs, several at once; the first failure in order of jobs is the error. */
enum proem_status nvrtc_compile(struct rt_cuda *c, const struct device_desc *d,
                                struct nvrtc_job *jobs, int n, struct err *e);
/* Read registers, spills and warnings of serialized products out of a log. */
void nvrtc_read_log(const char *log, struct rt_cubin_report *out);
/* A function of a unit's module, which is loaded with the first. The context is current. */
enum proem_status rt_cubin_function(struct rt_cubin *b, const char *entry, cu_function *out,
                                    struct err *e);

/* ---- programs and executions ----------------------------------------------------------------- */

struct cuda_launch {
    struct rt_cuda_launch desc;
    cu_function function;
};

struct rt_cuda_program {
    struct rt_cuda *cuda;
    const struct allocator *alloc;
    struct arena arena;
    struct rt_cuda_desc desc;      /* copied */
    struct cuda_launch *launches;  /* of all steps */
    int *first_launch, *first_map; /* of each step, of each launch */
    int *first, *last;             /* of each buffer: steps that use it; first > last: none */
    int n_launches, n_maps, most_maps;
    size_t block_bytes; /* of the longest argument block */
};

/* Device memory that grows. */
struct cuda_memory {
    cu_ptr at;
    int64_t size;
};

/* A copy on the device of an argument that is on the host, not compact or not aligned. */
struct cuda_staged {
    struct cuda_memory memory;
    void *host; /* compact form of a strided tensor on the host */
    size_t host_size;
    bool in_use; /* in this run */
    bool kept;   /* it holds the constant that `key` tells */
    size_t n_key;
    int64_t *key; /* 3 + 2 * RT_VIEW_RANK */
};

/* What a tensor map was made for. */
struct cuda_map {
    cu_ptr at; /* 0: it was not */
    struct rt_cuda_extent extent;
};

struct rt_cuda_exec {
    struct rt_cuda_program *program;
    struct arena arena;
    bool prepared;
    bool launched;    /* something may be running */
    cu_stream stream; /* of the last run */
    int64_t *sym, *bytes, *blocks;
    struct rt_item *items; /* temporaries, then scratch of each step that is not zeroed */
    int n_items, n_temps;
    int *item_of; /* of each buffer; -1: not in the arena */
    struct cuda_memory memory;
    int64_t total, sum;
    /* What lives longer than a run: zeroed scratch of steps, then fault words. */
    struct cuda_memory lasting;
    int64_t *lasting_at;                /* of each step: its scratch in `lasting`, -1 */
    int64_t *fault_at;                  /* of each step: its fault words in `lasting` */
    int64_t faults_from, lasting_total; /* zeroed scratch ends, fault words begin */
    struct cuda_staged *staged;         /* of each buffer */
    cu_ptr *buf;                        /* of each buffer: where its data is in this run */
    struct cuda_map *maps;              /* of all launches */
    cu_tensor_map *tensor_maps;         /* likewise; aligned, so not in the arena */
    int64_t *block;                     /* the argument block of the step that is launched */
    void **parameters;
    char *faults; /* host copy of the fault words */
};

enum proem_status cuda_memory_grow(struct rt_cuda *c, struct cuda_memory *m, int64_t bytes,
                                   const char *what, struct err *e);
void cuda_memory_free(struct rt_cuda *c, struct cuda_memory *m);

/* ---- strided tensors (copy.c) ---------------------------------------------------------------- */

/* Copy between views in device memory, on a stream. Both are inside of their tensors. */
enum proem_status cuda_view_copy(struct rt_cuda *c, cu_stream stream, const struct rt_view *to,
                                 const struct rt_view *from, struct err *e);
/* Keep the low `bits` bits of one byte in device memory. */
enum proem_status cuda_keep_bits(struct rt_cuda *c, cu_stream stream, cu_ptr at, int bits,
                                 struct err *e);

#endif
