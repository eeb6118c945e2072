/* SPDX-License-Identifier: MIT
 * Strided tensors in device memory to compact ones, and the unused bits of a last byte: two small
 * kernels of the runtime's own, compiled like any unit when they are first needed.
 *
 * A thread makes one element, or one byte of several narrow elements, so that no two write the same
 * byte. Elements move by their size where the source is aligned to it, else byte by byte.
 */
#include "rt/cuda/internal.h"

#include <string.h>

#define THREADS   256
#define BLOCKS_SM 16

struct copy_args {
    cu_ptr to, from;
    int64_t n;
    int32_t bits, rank;
    int64_t shape[RT_VIEW_RANK], strides[RT_VIEW_RANK];
};

static const char helpers_text[] =
    "struct copy_args {\n"
    "    unsigned char *to; const unsigned char *from;\n"
    "    long long n; int bits, rank;\n"
    "    long long shape[32], strides[32];\n"
    "};\n"
    "static __device__ long long place(const copy_args *a, long long i) {\n"
    "    long long at = 0;\n"
    "    for (int d = a->rank - 1; d >= 0; d--) {\n"
    "        at += i % a->shape[d] * a->strides[d];\n"
    "        i /= a->shape[d];\n"
    "    }\n"
    "    return at;\n"
    "}\n"
    "template <class T> static __device__ void move(const copy_args *a, long long i, long long at) "
    "{\n"
    "    ((T *)a->to)[i] = ((const T *)a->from)[at];\n"
    "}\n"
    "static __device__ void whole(const copy_args *a, long long i, bool aligned) {\n"
    "    int size = a->bits / 8;\n"
    "    long long at = place(a, i);\n"
    "    if (aligned && size == 8) move<unsigned long long>(a, i, at);\n"
    "    else if (aligned && size == 4) move<unsigned>(a, i, at);\n"
    "    else if (aligned && size == 2) move<unsigned short>(a, i, at);\n"
    "    else for (int b = 0; b < size; b++) a->to[i * size + b] = a->from[at * size + b];\n"
    "}\n"
    "static __device__ void narrow(const copy_args *a, long long i) {\n"
    "    int per = 8 / a->bits, mask = (1 << a->bits) - 1, byte = 0;\n"
    "    for (int e = 0; e < per && i * per + e < a->n; e++) {\n"
    "        long long bit = place(a, i * per + e) * a->bits;\n"
    "        byte |= (a->from[bit >> 3] >> (bit & 7) & mask) << (e * a->bits);\n"
    "    }\n"
    "    a->to[i] = (unsigned char)byte;\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(256)\n"
    "proem_copy(const __grid_constant__ copy_args args) {\n"
    "    const copy_args *a = &args;\n"
    "    bool aligned = ((unsigned long long)a->from & (a->bits / 8 - 1)) == 0;\n"
    "    long long n = a->bits < 8 ? (a->n * a->bits + 7) / 8 : a->n;\n"
    "    long long step = (long long)gridDim.x * 256;\n"
    "    for (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < n; i += step) {\n"
    "        if (a->bits < 8) narrow(a, i); else whole(a, i, aligned);\n"
    "    }\n"
    "}\n"
    "extern \"C\" __global__ void proem_keep_bits(unsigned char *at, int bits) {\n"
    "    *at &= (unsigned char)((1 << bits) - 1);\n"
    "}\n";

/* Compiled for this device, once. */
static enum proem_status helper(struct rt_cuda *c, const char *entry, cu_function *out,
                                struct err *e) {
    pthread_mutex_lock(&c->lock);
    struct rt_cubin *b = c->helpers;
    pthread_mutex_unlock(&c->lock);
    if (b == NULL) {
        struct rt_source source = {
            .name = "proem_copy", .text = helpers_text, .n = sizeof helpers_text - 1};
        TRY(rt_cuda_compile(c, &c->desc, 1, &source, &b, e));
        pthread_mutex_lock(&c->lock);
        bool first = c->helpers == NULL;
        if (first) c->helpers = b;
        pthread_mutex_unlock(&c->lock);
        if (!first) rt_cubin_unref(b); /* one unit: another thread holds the same */
    }
    return rt_cubin_function(b, entry, out, e);
}

static enum proem_status launch(struct rt_cuda *c, cu_stream stream, cu_function f, int64_t blocks,
                                int threads, void **parameters, struct err *e) {
    cu_launch_config config = {.grid_x = (unsigned)blocks,
                               .grid_y = 1,
                               .grid_z = 1,
                               .block_x = (unsigned)threads,
                               .block_y = 1,
                               .block_z = 1,
                               .stream = stream};
    return rt_cuda_result(c, c->cu.launch(&config, f, parameters, NULL), "copying a tensor", e);
}

enum proem_status cuda_view_copy(struct rt_cuda *c, cu_stream stream, const struct rt_view *to,
                                 const struct rt_view *from, struct err *e) {
    int64_t bytes;
    if (!rt_view_bytes(from, &bytes) || from->rank > RT_VIEW_RANK)
        return err_set(e, PROEM_INVALID, "a tensor's rank, shape or strides are out of range");
    if (bytes == 0) return PROEM_OK;
    struct copy_args a = {.to = (cu_ptr)(uintptr_t)to->data,
                          .from = (cu_ptr)(uintptr_t)from->data,
                          .n = 1,
                          .bits = from->bits,
                          .rank = from->rank};
    int64_t stride = 1;
    for (int i = from->rank; i-- > 0;) {
        a.shape[i] = from->shape[i];
        a.strides[i] = from->strides != NULL ? from->strides[i] : stride;
        stride *= from->shape[i];
        a.n *= from->shape[i];
    }
    cu_function f;
    TRY(helper(c, "proem_copy", &f, e));
    int64_t units = a.bits < 8 ? bytes : a.n, blocks = (units + THREADS - 1) / THREADS;
    int64_t most = (int64_t)c->desc.gpu.sms * BLOCKS_SM;
    void *parameters[] = {&a};
    return launch(c, stream, f, blocks < most ? blocks : most, THREADS, parameters, e);
}

enum proem_status cuda_keep_bits(struct rt_cuda *c, cu_stream stream, cu_ptr at, int bits,
                                 struct err *e) {
    cu_function f;
    TRY(helper(c, "proem_keep_bits", &f, e));
    void *parameters[] = {&at, &bits};
    return launch(c, stream, f, 1, 1, parameters, e);
}
