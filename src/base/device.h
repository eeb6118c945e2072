/* SPDX-License-Identifier: MIT
 * The description of a device as plain data. A plan depends on the machine only through this, so a
 * description made by name gives the same plan everywhere. rt/cpu_detect.c and rt/cuda/device.c
 * fill one from the machine at hand.
 */
#ifndef PROEM_DEVICE_H
#define PROEM_DEVICE_H

#include "base/base.h"

enum device_kind { DEVICE_CPU, DEVICE_CUDA, DEVICE_KIND_COUNT };

enum device_arch { ARCH_ANY, ARCH_X86_64, ARCH_AARCH64, ARCH_COUNT };

/* X(ID, name as the compiler spells it after -m): one bit each in device_desc.isa. */
#define ISA_LIST(X)                                                                                \
    X(AVX2, "avx2")                                                                                \
    X(FMA, "fma")                                                                                  \
    X(F16C, "f16c")                                                                                \
    X(AVX512F, "avx512f")                                                                          \
    X(AVX512BW, "avx512bw")                                                                        \
    X(AVX512DQ, "avx512dq")                                                                        \
    X(AVX512VL, "avx512vl")                                                                        \
    X(AVX512VNNI, "avx512vnni")                                                                    \
    X(AVX512BF16, "avx512bf16")                                                                    \
    X(AVX512FP16, "avx512fp16")                                                                    \
    X(NEON, "neon")

enum isa_index {
#define ISA_INDEX(id, name) ISA_INDEX_##id,
    ISA_LIST(ISA_INDEX)
#undef ISA_INDEX
        ISA_COUNT
};

enum isa {
#define ISA_BIT(id, name) ISA_##id = 1 << ISA_INDEX_##id,
    ISA_LIST(ISA_BIT)
#undef ISA_BIT
};

/* What a GPU has beside that: limits that decide how many blocks fit, and rates of one
 * multiprocessor (SM), operations a second where a multiply-add counts as two. 0: it cannot. */
struct device_gpu {
    int cc;               /* compute capability, 10 * major + minor */
    bool specific;        /* code for it alone ("sm_90a"): wgmma, tcgen05, setmaxnreg */
    int sms;              /* multiprocessors */
    int threads_sm;       /* resident threads of one */
    int blocks_sm;        /* resident blocks of one */
    int registers_sm;     /* 32-bit registers of one */
    int64_t shared_sm;    /* bytes of shared memory of one */
    int64_t shared_block; /* most bytes of it that a block may ask for */
    int64_t l2;           /* bytes, of all */
    double hz;            /* clock under load */
    double bandwidth;     /* bytes a second from memory, by its clock: a copy reaches 0.9 of it */
    double l2_bandwidth;  /* bytes a second from L2, all */
    double f32, f64;      /* outside of the tensor cores */
    double special;       /* exp2, rsqrt, sin.. : results a second */
    double tensor_f16;    /* f16 and bf16 */
    double tensor_tf32, tensor_f64, tensor_f8, tensor_i8;
};

struct device_desc {
    enum device_kind kind;
    enum device_arch arch;
    char name[32];   /* what `explain` prints and device_by_name accepts, or "native" */
    int vector_bits; /* widest vector that kernels should use */
    uint32_t isa;    /* set of enum isa */
    int cores;       /* physical cores that this process may use */
    int line;        /* bytes of a cache line */
    int64_t l1d, l2; /* bytes, of one core */
    int64_t l3;      /* bytes, of one (several or all cores share it); 0: there is none */
    /* What the cost model divides by. A vector FMA counts as two operations a lane. */
    double flops_per_core;     /* peak f32 operations a second */
    double bandwidth_per_core; /* bytes a second from memory, one core reading */
    double bandwidth;          /* bytes a second from memory, all cores reading */
    double l2_bandwidth;       /* bytes a second, one core */
    double l3_bandwidth;       /* bytes a second, one core */
    /* DEVICE_CUDA. Above, a core is an SM: l1d its shared memory, l3 the L2. */
    struct device_gpu gpu;
};

/* "generic", "avx2", "avx512", "avx512fp16", "neon": a typical machine of that kind; "sm_80",
 * "sm_90a", "sm_100a": an NVIDIA A100, H200, B200; "sm_90": an H200 without what it alone has. */
bool device_by_name(const char *name, size_t n, struct device_desc *out);
/* The i-th name of a CPU, of a GPU, that device_by_name knows; NULL past the last. */
const char *device_name_at(int i);
const char *device_gpu_name_at(int i);

/* Set vector_bits and the speeds from arch, isa and cores at a clock of hz. */
void device_derive(struct device_desc *d, double hz);

/* For a GPU: name, kind and rates from gpu.cc, the limits, hz and bandwidth. False if the compute
 * capability is none that kernels are made for (below 8.0). */
bool device_derive_gpu(struct device_desc *d);

const char *isa_name(int index);
const char *device_arch_name(enum device_arch a);

/* Can code made for `want` run on `have`? If not, *missing names the first thing that lacks. */
bool device_can_run(const struct device_desc *have, const struct device_desc *want,
                    const char **missing);

/* One line of text with every field. */
void device_print(const struct device_desc *d, struct str *out);

#endif
