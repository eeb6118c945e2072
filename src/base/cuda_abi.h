/* SPDX-License-Identifier: MIT
 * The interface between a generated CUDA kernel and the runtime that launches it, where it differs
 * from kernel_abi.h. This text stands at the head of every generated .cu file as well; it needs no
 * header.
 *
 * A __global__ function's first parameter is its argument block, by value:
 *
 *     struct k0_args { void *buf[B]; pk_i64 sym[S]; void *scratch; void *fault; };
 *
 * B and S are the numbers of the kernel's arguments and of the graph's symbols, 1 if there are none.
 * buf[i] is the address of element 0 in device memory, aligned to 16 bytes; scratch is aligned to
 * 64 bytes. Tensor maps follow as parameters of their own (CUtensorMap, 128 bytes, as
 * const __grid_constant__), in the launch's order.
 *
 * fault points to one struct pk_cuda_fault for each check of the kernel. All its bits are ones until
 * a check fails; then it holds the failure of the lowest index so far. The runtime reads it when a
 * caller waits for results.
 */
#ifndef PROEM_CUDA_ABI_H
#define PROEM_CUDA_ABI_H

struct pk_cuda_fault {
    int lock; /* -1: free */
    int unused;
    long long index; /* flat position in the checked tensor; -1: the check has not failed */
    long long value; /* the value found */
    long long bound; /* the bound that it breaks */
};

#ifdef __CUDACC__
/* Keep a failure of check number `check` if none of a lower index is known. Rare, so a lock may
 * guard the three words; threads of one warp may all come here at once, so whoever holds the lock
 * gives it back within the same turn of the loop. */
static __device__ __noinline__ void pk_fault_report(void *fault, int check, long long index,
                                                    long long value, long long bound) {
    struct pk_cuda_fault *f = (struct pk_cuda_fault *)fault + check;
    volatile unsigned long long *lowest = (volatile unsigned long long *)&f->index;
    bool done = *lowest <= (unsigned long long)index;
    while (!done) {
        if (atomicCAS(&f->lock, -1, 0) != -1) continue;
        __threadfence();
        if (*lowest > (unsigned long long)index) {
            *(volatile long long *)&f->value = value;
            *(volatile long long *)&f->bound = bound;
            *lowest = (unsigned long long)index;
        }
        __threadfence();
        atomicExch(&f->lock, -1);
        done = true;
    }
}
#endif

#endif
