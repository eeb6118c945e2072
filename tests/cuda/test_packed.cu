/* SPDX-License-Identifier: MIT
 * Packed conversions of the CUDA prelude (packed.h) against those by way of f32, for every bit pattern
 * of the narrow dtypes, at every place in a word. Compile with nvcc and run on a GPU:
 *
 *   nvcc -arch=sm_90a -std=c++17 --fmad=false -o test_packed tests/cuda/test_packed.cu && ./test_packed
 */
#include <cstdio>

#include "../../src/gen/cuda/prelude/lanes.h"
#include "../../src/gen/cuda/prelude/numbers.h"
#include "../../src/gen/cuda/prelude/access.h"
#include "../../src/gen/cuda/prelude/packed.h"

template <class P> __device__ bool is_nan(unsigned h) {
    return P::value(h) != P::value(h);
}

/* The same values, or NaN in both, in both halves. */
template <class P> __device__ bool same(unsigned a, unsigned b) {
    for (int i = 0; i < 32; i += 16) {
        const unsigned x = a >> i & 0xffff, y = b >> i & 0xffff;
        if (x != y && !(is_nan<P>(x) && is_nan<P>(y))) return false;
    }
    return true;
}

/* Thread i: the 16 bits i in the low half of a word, i with its bytes exchanged in the high half. */
template <class P, class D> __global__ void widen(unsigned *wrong) {
    const unsigned i = blockIdx.x * 256 + threadIdx.x;
    const int W = 32 / D::bits;
    const unsigned raw[1] = {i | (i >> 8 & 0xff) << 16 | (i & 0xff) << 24};
    unsigned fast[W / 2], plain[W / 2];
    pk_widen<P, D, W>(raw, fast);
    const pk_lanes<typename D::scalar, W> v = pk_unpack<D, W>(raw);
    for (int l = 0; l < W / 2; l++) {
        plain[l] = P::code((float)v.x[2 * l]) | P::code((float)v.x[2 * l + 1]) << 16;
        if (!same<P>(fast[l], plain[l])) atomicAdd(wrong, 1);
    }
}

/* Pairs that a shift and a mask make: elements i and i + O of each 2 * O; and those of 4 bits greater
 * by a constant. */
template <class P, class D, int O> __global__ void widen_apart(unsigned *wrong) {
    const unsigned i = blockIdx.x * 256 + threadIdx.x;
    const int W = 8;
    const unsigned raw[2] = {i | (i >> 8 & 0xff) << 16 | (i & 0xff) << 24, ~i | (i & 0xff) << 16};
    unsigned fast[W / 2];
    pk_widen<P, D, W, O>(raw, fast);
    const pk_lanes<typename D::scalar, W> v = pk_unpack<D, W>(raw);
    for (int l = 0; l < W / 2; l++) {
        const int e = l / O * 2 * O + l % O;
        if (!same<P>(fast[l], P::code((float)v.x[e]) | P::code((float)v.x[e + O]) << 16))
            atomicAdd(wrong, 1);
    }
    if constexpr (D::bits == 4) {
        pk_widen_over<P, D, W, O>(raw, fast);
        for (int l = 0; l < W / 2; l++) {
            const int e = l / O * 2 * O + l % O;
            const float over = pk_over<P, D>::value;
            const unsigned want = P::code((float)v.x[e] + over) | P::code((float)v.x[e + O] + over)
                                                                      << 16;
            if (fast[l] != want) atomicAdd(wrong, 1);
        }
    }
}

/* Every value by a quarter of all values: a packed product is that of f32, rounded once. */
template <class P> __global__ void multiply(unsigned *wrong) {
    const unsigned x = blockIdx.x;
    for (unsigned y = 4 * threadIdx.x + x % 4; y < 65536; y += 1024) {
        const unsigned r = pk_half<P>::mul(x | x << 16, y | y << 16);
        const unsigned want = P::code(P::value(x) * P::value(y));
        if (!same<P>(r, want | want << 16)) atomicAdd(wrong, 1);
    }
}

static int passed, failed;

static void report(const char *what, unsigned *wrong) {
    cudaError_t e = cudaDeviceSynchronize();
    if (e == cudaSuccess && *wrong == 0) {
        passed++;
    } else {
        failed++;
        printf("FAIL %s: %s, %u wrong\n", what, cudaGetErrorString(e), *wrong);
    }
    *wrong = 0;
}

int main() {
    unsigned *wrong;
    if (cudaMallocManaged(&wrong, sizeof *wrong) != cudaSuccess) {
        printf("no GPU\n0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    *wrong = 0;
#define WIDEN(P, D)                                                                                \
    widen<pk_dt_##P, pk_dt_##D><<<256, 256>>>(wrong);                                              \
    report(#D " to " #P, wrong);
#define APART(P, D, O)                                                                             \
    widen_apart<pk_dt_##P, pk_dt_##D, O><<<256, 256>>>(wrong);                                     \
    report(#D " to " #P ", apart", wrong);
#define ALL(P)                                                                                     \
    APART(P, i8, 2) APART(P, u8, 2) APART(P, i4, 4) APART(P, u4, 4) APART(P, i4, 1)                \
    APART(P, u4, 1) APART(P, i8, 1) APART(P, u8, 1)                                                \
    WIDEN(P, i8)                                                                                   \
    WIDEN(P, u8)                                                                                   \
    WIDEN(P, i4) WIDEN(P, u4) WIDEN(P, i2) WIDEN(P, u2) WIDEN(P, f8e4m3fn) WIDEN(P, f8e5m2)        \
        WIDEN(P, f4e2m1fn) WIDEN(P, P) multiply<pk_dt_##P><<<65536, 256>>>(wrong);                 \
    report("products of " #P, wrong);
    ALL(bf16)
    ALL(f16)
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed > 0;
}
