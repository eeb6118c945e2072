/* The interface between a generated kernel and whoever launches it. This text stands at the head of
 * every generated C file, so it needs no header; the runtime includes it as well. */
#ifndef PROEM_KERNEL_ABI_H
#define PROEM_KERNEL_ABI_H

typedef __INT64_TYPE__ pk_i64;

#define PK_ABI_VERSION 1

/* What a launch passes. All tensors are compact and row-major; buf[i] points to element 0. */
struct pk_args {
    void *const *buf;    /* tensors in the kernel's argument order */
    const pk_i64 *sym;   /* values of the graph's symbols */
    void *shared;        /* scratch of this launch, shared by its tasks (shared_bytes) */
    void *local;         /* scratch of the executing thread (local_bytes) */
    void *const *packed; /* packed[i]: operand i packed once (packed_bytes), or NULL */
    int threads;         /* number of threads of the launch; must not change results */
};

/* The first position (row-major) at which a data check failed. */
struct pk_fault {
    int check;    /* which check of the kernel */
    pk_i64 index; /* flat position in the checked tensor */
    pk_i64 value; /* the value found */
    pk_i64 bound; /* the bound that it breaks */
};

struct pk_kernel {
    const char *name;
    int phases;   /* run one after the other, with a barrier between */
    int operands; /* how many operands can be packed once */
    pk_i64 (*shared_bytes)(const struct pk_args *a);
    pk_i64 (*local_bytes)(const struct pk_args *a);
    pk_i64 (*tasks)(const struct pk_args *a, int phase);
    void (*run)(const struct pk_args *a, int phase, pk_i64 task);
    /* Returns 1 and fills *f if some check fails, else 0. NULL: nothing to check. */
    int (*check)(const struct pk_args *a, struct pk_fault *f);
    /* Packing of constant operands; NULL when operands is 0. */
    pk_i64 (*packed_bytes)(const struct pk_args *a, int operand);
    pk_i64 (*pack_tasks)(const struct pk_args *a, int operand);
    void (*pack)(const struct pk_args *a, int operand, pk_i64 task, void *dst);
};

/* What a generated shared object exports under the name proem_unit. */
struct pk_unit {
    int abi; /* PK_ABI_VERSION */
    int n_kernels;
    const struct pk_kernel *const *kernels;
};

#endif
