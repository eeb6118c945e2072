/* SPDX-License-Identifier: MIT
 * A CUDA driver and an NVRTC that need no GPU, for tests of what is around the kernels: device
 * memory is host memory, a kernel is a C function that its name selects, streams run at once, and a
 * capture keeps launches for the graph. Any call can be made to fail. Built as two shared objects
 * that the runtime opens by path; a test opens them as well, for the control below.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdint.h>

#define FAKE_LAUNCHES 256

struct fake_launch {
    char name[64];
    unsigned grid, block, shared, cluster;
    int n_maps; /* tensor maps among the parameters: those of kernels that end in _mapN */
    void *stream;
    int64_t args[16]; /* the head of the argument block, for kernels of fake_kernels.c */
};

struct fake_cuda {
    long calls;
    long fail_at; /* the call that fails, counted from 0; -1: none */
    int fail_with;
    long live;   /* allocations, modules, streams, events, graphs, retained contexts */
    long depth;  /* contexts pushed and not popped, of all threads */
    long strays; /* accesses outside of allocations, calls without a context */
    int devices; /* how many there are; 1 */
    int version; /* 12080 */
    int cc;      /* 90 */
    long syncs;  /* waits for a stream or the context */
    long maps;   /* tensor maps encoded */
    /* A kernel whose name holds "check" reports this failure through the pointer that is word number
     * fault_word of its argument block; 0: none does. */
    int fault_word;
    int64_t fault_index, fault_value, fault_bound;
    /* A graph takes 250 us. With one of these not 0, a launch in it takes 20, or 10 with so many
     * bytes of shared memory or threads a block. */
    unsigned fast_shared, fast_block;
    double graph_ms; /* of the last graph that was launched */
    int n_launches;  /* those that ran, the first FAKE_LAUNCHES kept */
    struct fake_launch launches[FAKE_LAUNCHES];
};

struct fake_nvrtc {
    long calls, fail_at;
    long live;     /* programs */
    long compiled; /* successful compiles */
    int spills;    /* every unit does */
};

/* Exported by the shared objects under these names. */
struct fake_cuda *fake_cuda_control(void);
struct fake_nvrtc *fake_nvrtc_control(void);

#endif
