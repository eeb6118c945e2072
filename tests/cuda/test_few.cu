/* SPDX-License-Identifier: MIT
 * The few-rows template with hand-written hooks: results against sums in f64 on random data and,
 * bit for bit, on small integers; odd sizes, askew addresses, splits, several operands. With
 * `time` as the first argument: medians over graph replays with weights beyond the L2.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <algorithm>
#include <string>
#include <cuda.h>
#include "few_prelude.h"

#define FEW_INT8   0
#define FEW_INT8E  1
#define FEW_INT4   2
#define FEW_FP8    3
#define FEW_BF16   4
#define FEW_F8F8   5
#define FEW_I8I8   6
#define FEW_F32    7
#define FEW_PLAIN  0
#define FEW_GATHER 1
#define FEW_RMS    2
#define FEW_SILU   3

struct few_kernel {
    const char *name;
    int w, x, nb, cols, run, kgroups, rgroups, units, ahead, tiles, step, split, per_sm, stage, bytes, chunk;
    int ring, a_tma, threads; /* rows of a box of matmul_ring.cu, or 0 */
    int fixed_n, fixed_k;
    const void *main, *stage_entry;
    struct few_kernel *next;
};
static struct few_kernel *few_kernels;
struct few_register {
    few_register(struct few_kernel *k, const void *main, const void *stage) {
        k->main = main, k->stage_entry = stage, k->next = 0;
        struct few_kernel **at = &few_kernels;
        while (*at) at = &(*at)->next;
        *at = k;
    }
};

#ifndef FEW_CASES
#define FEW_CASES "few_cases.h"
#endif
#include FEW_CASES

struct few_args {
    void *buf[10];
    pk_i64 sym[4];
    void *scratch;
    void *fault;
};

#define OK(call)                                                                                   \
    do {                                                                                           \
        cudaError_t e_ = (call);                                                                   \
        if (e_ != cudaSuccess) {                                                                   \
            printf("%s: %s\n", #call, cudaGetErrorString(e_));                                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int sms;
static const char *w_names[] = {"int8", "int8e", "int4", "fp8", "bf16", "fp8fp8", "i8i8", "f32"};
static const char *x_names[] = {"", "+gather", "+rms", "+silu"};
static const int w_bits[] = {8, 8, 4, 8, 16, 8, 8, 32};

/* ---- data ----------------------------------------------------------------------------------- */

static __device__ unsigned hash(unsigned a) {
    a ^= a >> 16, a *= 0x7feb352du, a ^= a >> 15, a *= 0x846ca68bu, a ^= a >> 16;
    return a;
}
enum { BYTES, SMALL_I8, SMALL_E4M3, E4M3, HALF, SMALL_HALF, SCALE, ONE_SCALE, ZEROS, FLOATS, ONE_FLOATS, INDEX, NIBBLES };
static __global__ void fill(void *p, long long n, int kind, unsigned seed, int bound) {
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) {
        unsigned h = hash((unsigned)i * 2654435761u + seed);
        float u = (float)(int)h * 0x1p-31f;
        int small = (int)(h >> 8) % 5 - 2;
        unsigned char *b = (unsigned char *)p;
        unsigned short *s = (unsigned short *)p;
        switch (kind) {
        case BYTES: b[i] = h >> 8; break;
        case NIBBLES: b[i] = h >> 8 & 0x33; break;
        case SMALL_I8: b[i] = (unsigned char)small; break;
        case SMALL_E4M3: b[i] = small == 0 ? 0 : (small < 0 ? 0x80 : 0) | (abs(small) == 1 ? 0x38 : 0x40); break;
        case E4M3: b[i] = h >> 8 & 0xf7; break;
        case HALF: s[i] = few_to_bf16(u); break;
        case SMALL_HALF: s[i] = few_to_bf16((float)small); break;
        case SCALE: s[i] = few_to_bf16(0.01f + 0.005f * u); break;
        case ONE_SCALE: s[i] = few_to_bf16(h & 1 ? 1.0f : 2.0f); break;
        case ZEROS: b[i] = h >> 8 & (bound - 1); break;
        case FLOATS: ((float *)p)[i] = 0.5f + 0.4f * u; break;
        case ONE_FLOATS: ((float *)p)[i] = h & 1 ? 1.0f : 0.5f; break;
        case INDEX: ((int *)p)[i] = h % bound; break;
        }
    }
}

/* ---- reference ------------------------------------------------------------------------------ */

struct ref_args {
    few_args a;
    int w, x, nb;
};
static __device__ double ref_w(const ref_args &r, int b, pk_i64 row, pk_i64 k, pk_i64 K) {
    const unsigned char *w = (const unsigned char *)r.a.buf[b ? 7 : 1];
    const unsigned short *s = (const unsigned short *)r.a.buf[b ? 8 : 2];
    const unsigned char *zero = (const unsigned char *)r.a.buf[b ? 9 : 3];
    switch (r.w) {
    case FEW_INT8:
        return few_bf16(few_to_bf16((float)((const signed char *)w)[row * K + k] * few_bf16(s[row])));
    case FEW_INT8E:
    case FEW_I8I8: return ((const signed char *)w)[row * K + k];
    case FEW_INT4: {
        pk_i64 q = row * ((K + 127) / 128) + k / 128;
        int v = w[(row * K + k) / 2] >> (4 * (k & 1)) & 15;
        return few_bf16(few_to_bf16((float)(v - zero[q]) * few_bf16(s[q])));
    }
    case FEW_FP8: return few_bf16(few_to_bf16(few_e4m3(w[row * K + k]) * few_bf16(s[row])));
    case FEW_F8F8: return few_e4m3(w[row * K + k]);
    case FEW_F32: return ((const float *)w)[row * K + k];
    default: return few_bf16(((const unsigned short *)w)[row * K + k]);
    }
}
static __device__ double ref_x(const ref_args &r, pk_i64 z, pk_i64 m, pk_i64 k, pk_i64 M, pk_i64 K) {
    pk_i64 row = z * M + m;
    if (r.w == FEW_F8F8) return few_e4m3(((const unsigned char *)r.a.buf[0])[row * K + k]);
    if (r.w == FEW_I8I8) return ((const signed char *)r.a.buf[0])[row * K + k];
    const unsigned short *x = (const unsigned short *)r.a.buf[0];
    if (r.x == FEW_GATHER) row = ((const int *)r.a.buf[5])[m];
    float v = few_bf16(x[row * K + k]);
    if (r.x == FEW_RMS)
        v = few_bf16(few_to_bf16(v * ((const float *)r.a.buf[5])[row] *
                                 few_bf16(((const unsigned short *)r.a.buf[6])[k])));
    if (r.x == FEW_SILU)
        v = few_bf16(few_to_bf16(v * few_sigmoid(v) *
                                 few_bf16(((const unsigned short *)r.a.buf[6])[row * K + k])));
    return v;
}
/* A warp for each tested element: compares, counts what is wrong. */
static __global__ void check(ref_args r, pk_i64 step, int exact, unsigned long long *wrong,
                             float *worst) {
    pk_i64 Z = r.a.sym[0], M = r.a.sym[1], N = r.a.sym[2], K = r.a.sym[3];
    pk_i64 cols = (N + step - 1) / step, total = Z * M * cols;
    int lane = threadIdx.x & 31;
    for (pk_i64 i = (blockIdx.x * 256ll + threadIdx.x) / 32; i < total; i += gridDim.x * 8ll) {
        pk_i64 c = i % cols, m = i / cols % M, z = i / cols / M;
        pk_i64 n = c * step + (c * 7) % step;
        if (n >= N) n = N - 1;
        double s[2] = {0, 0}, t[2] = {0, 0};
        for (pk_i64 k = lane; k < K; k += 32) {
            double x = ref_x(r, z, m, k, M, K);
            for (int b = 0; b < r.nb; b++) {
                double w = ref_w(r, b, z * N + n, k, K);
                s[b] += x * w, t[b] += fabs(x * w);
            }
        }
        for (int d = 16; d; d /= 2)
            for (int b = 0; b < 2; b++)
                s[b] += __shfl_xor_sync(~0u, s[b], d), t[b] += __shfl_xor_sync(~0u, t[b], d);
        if (lane) continue;
        pk_i64 at = (z * M + m) * N + n;
        if (r.w == FEW_I8I8) {
            if (((int *)r.a.buf[4])[at] != (int)s[0]) atomicAdd(wrong, 1);
            continue;
        }
        float f = 1;
        if (r.w == FEW_INT8E) f = few_bf16(((const unsigned short *)r.a.buf[2])[z * N + n]);
        if (r.w == FEW_F8F8) f = ((const float *)r.a.buf[5])[m] * ((const float *)r.a.buf[2])[n];
        float v = (float)s[0] * f;
        double bound = t[0] * f * 4e-6;
        if (r.nb > 1) {
            float a = v;
            v = a * few_sigmoid(a) * (float)s[1];
            bound = (bound * fabs(s[1]) * 2 + fabs(a) * t[1] * 4e-6) + fabs(v) * 1e-6;
        }
        unsigned short got = ((unsigned short *)r.a.buf[4])[at], want = few_to_bf16(v);
        float gf = few_bf16(got);
        double err = fabs((double)gf - v);
        bool good = exact ? gf == few_bf16(want) : err <= bound + fabs(v) * 0x1p-8;
        if (!good) atomicAdd(wrong, 1);
        atomicMax((int *)worst, __float_as_int((float)(err / (fabs(v) + bound + 1e-30))));
    }
}

/* ---- problems ------------------------------------------------------------------------------- */

struct problem {
    few_args a;
    std::vector<void *> owned;
};
static void *get(problem &p, size_t bytes, int skew, int poison) {
    char *q;
    OK(cudaMalloc(&q, bytes + 512));
    OK(cudaMemset(q, poison, bytes + 512));
    p.owned.push_back(q);
    return q + 256 - skew;
}
static void put(void *p, long long n, int kind, unsigned seed, int bound = 0) {
    if (n > 0) fill<<<1024, 256>>>(p, n, kind, seed, bound);
    OK(cudaGetLastError());
}
static long long scratch_bytes(const few_kernel *k, pk_i64 Z, pk_i64 M, pk_i64 N, pk_i64 K) {
    long long tiles = Z * ((M + k->cols - 1) / k->cols) * ((N + 15) / 16);
    long long b = k->split > 1 ? (4 * tiles + 255) / 256 * 256 + tiles * k->split * k->nb * k->cols / 8 * 512 : 0;
    return b + (k->stage ? Z * M * ((K + 15) / 16) * 32 : 0) + 256;
}
static problem make(const few_kernel *k, pk_i64 Z, pk_i64 M, pk_i64 N, pk_i64 K, bool exact, int skew,
                    unsigned seed) {
    problem p;
    memset(&p.a, 0, sizeof p.a);
    p.a.sym[0] = Z, p.a.sym[1] = M, p.a.sym[2] = N, p.a.sym[3] = K;
    bool bytes8 = k->w == FEW_F8F8 || k->w == FEW_I8I8;
    long long rows = k->x == FEW_GATHER ? 16384 : Z * M;
    int poison = 0x7f; /* NaN in fp8, a huge value elsewhere */
    p.a.buf[0] = get(p, rows * K * (bytes8 ? 1 : 2), k->a_tma ? 0 : bytes8 ? skew : 2 * skew, poison);
    put(p.a.buf[0], rows * K,
        k->w == FEW_F8F8   ? exact ? SMALL_E4M3 : E4M3
        : k->w == FEW_I8I8 ? BYTES
        : exact            ? SMALL_HALF
                           : HALF,
        seed);
    for (int b = 0; b < k->nb; b++) {
        int iw = b ? 7 : 1, is = b ? 8 : 2, iz = b ? 9 : 3;
        long long wb = Z * N * K * w_bits[k->w] / 8;
        p.a.buf[iw] = get(p, wb, k->ring ? 0 : k->w == FEW_BF16 ? 2 * skew : k->w == FEW_F32 ? 4 * skew : skew, poison);
        if (k->w == FEW_F32) put(p.a.buf[iw], Z * N * K, exact ? ONE_FLOATS : FLOATS, seed + 1 + b);
        else if (k->w == FEW_BF16) put(p.a.buf[iw], Z * N * K, exact ? SMALL_HALF : HALF, seed + 1 + b);
        else
            put(p.a.buf[iw], wb,
                k->w == FEW_INT4                       ? exact ? NIBBLES : BYTES
                : k->w == FEW_FP8 || k->w == FEW_F8F8  ? exact ? SMALL_E4M3 : E4M3
                : exact                                ? SMALL_I8
                                                       : BYTES,
                seed + 1 + b);
        long long ns = k->w == FEW_INT4 ? Z * N * ((K + 127) / 128) : Z * N;
        p.a.buf[is] = get(p, ns * 4, 2 * skew * (k->w != FEW_F8F8), poison);
        if (k->w == FEW_F8F8) put(p.a.buf[is], N, exact ? ONE_FLOATS : FLOATS, seed + 5);
        else put(p.a.buf[is], ns, exact ? ONE_SCALE : SCALE, seed + 5 + b);
        p.a.buf[iz] = get(p, ns, skew, poison);
        put(p.a.buf[iz], ns, ZEROS, seed + 7 + b, exact ? 2 : 16);
    }
    p.a.buf[4] = get(p, Z * M * N * 4, k->w == FEW_I8I8 ? 0 : 2 * skew, 0xff);
    p.a.buf[5] = get(p, (rows + M) * 4, 0, poison);
    if (k->x == FEW_GATHER) put(p.a.buf[5], M, INDEX, seed + 9, (int)rows);
    else put(p.a.buf[5], rows, exact ? ONE_FLOATS : FLOATS, seed + 9);
    if (k->x == FEW_RMS || k->x == FEW_SILU) {
        long long n = k->x == FEW_RMS ? K : rows * K;
        p.a.buf[6] = get(p, n * 2, 2 * skew, poison);
        put(p.a.buf[6], n, exact ? SMALL_HALF : HALF, seed + 10);
    }
    long long sb = scratch_bytes(k, Z, M, N, K);
    OK(cudaMalloc(&p.a.scratch, sb));
    OK(cudaMemset(p.a.scratch, 0, sb));
    p.owned.push_back(p.a.scratch);
    return p;
}
static void release(problem &p) {
    for (void *q : p.owned) OK(cudaFree(q));
}
/* Boxes of 128 bytes by so many rows. */
static CUtensorMap map_of(int bits, int rows, void *w, pk_i64 Z, pk_i64 N, pk_i64 K) {
    static decltype(&cuTensorMapEncodeTiled) encode;
    cudaDriverEntryPointQueryResult found;
    if (!encode)
        OK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void **)&encode, 12000,
                                            cudaEnableDefault, &found));
    CUtensorMap m;
    cuuint64_t bytes = K * bits / 8, dims[] = {bits == 4 ? bytes : (cuuint64_t)K, (cuuint64_t)N, (cuuint64_t)Z},
               strides[] = {bytes, bytes * N};
    cuuint32_t box[] = {(cuuint32_t)(bits == 16 ? 64 : 128), (cuuint32_t)rows, 1}, ones[] = {1, 1, 1};
    CUresult r = encode(&m, bits == 16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, w,
                        dims, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (r != CUDA_SUCCESS) printf("cuTensorMapEncodeTiled: %d\n", (int)r), exit(1);
    return m;
}
static void launch(const few_kernel *k, few_args *a, cudaStream_t s) {
    pk_i64 Z = a->sym[0], M = a->sym[1], N = a->sym[2], K = a->sym[3];
    void *args[] = {a, 0, 0, 0};
    CUtensorMap maps[3];
    int n = 0;
    if (k->a_tma) maps[n++] = map_of(16, k->cols, a->buf[0], Z, M, K);
    for (int b = 0; k->ring && b < k->nb; b++)
        maps[n++] = map_of(w_bits[k->w], k->ring, a->buf[b ? 7 : 1], Z, N, K);
    for (int i = 0; i < n; i++) args[1 + i] = &maps[i];
    if (k->stage) {
        pk_i64 n = (Z * M * ((K + 15) / 16) * 2 + 255) / 256;
        OK(cudaLaunchKernel(k->stage_entry, dim3((unsigned)std::max(1ll, n)), dim3(256), args, 0, s));
    }
    pk_i64 chunks = std::max(1ll, (K + k->chunk - 1) / k->chunk);
    pk_i64 rows = k->ring ? k->ring : 16;
    pk_i64 total = Z * ((M + k->cols - 1) / k->cols) * std::min((pk_i64)k->split, chunks) * ((N + rows - 1) / rows);
    unsigned blocks = (unsigned)std::min(total, (pk_i64)sms * k->per_sm);
    if (!blocks) return;
    OK(cudaLaunchKernel(k->main, dim3(blocks), dim3(k->threads), args, k->bytes, s));
}

static int failed, passed;
static void test(const few_kernel *k, pk_i64 Z, pk_i64 M, pk_i64 N, pk_i64 K, bool exact, int skew) {
    static unsigned seed = 1;
    if (k->w == FEW_INT4 && K % 2) K++;
    /* What has a tensor map: whole lines of 16 bytes, and an address that is a multiple of it. */
    if (k->ring) {
        K = K ? (K + 128 / w_bits[k->w] - 1) / (128 / w_bits[k->w]) * (128 / w_bits[k->w]) : 0;
        if (!K) return;
    }
    problem p = make(k, Z, M, N, K, exact, skew, seed += 101);
    launch(k, &p.a, 0);
    /* A second time: scratch is left as it was. */
    if (k->split > 1) launch(k, &p.a, 0);
    unsigned long long *wrong, w;
    float *worst, f;
    OK(cudaMalloc(&wrong, 16));
    worst = (float *)(wrong + 1);
    OK(cudaMemset(wrong, 0, 16));
    ref_args r = {p.a, k->w, k->x, k->nb};
    pk_i64 step = std::max(1ll, Z * M * N * K / 400000000);
    if (Z * M * N) check<<<1024, 256>>>(r, step, exact && k->nb == 1 && k->x != FEW_SILU, wrong, worst);
    OK(cudaGetLastError());
    OK(cudaMemcpy(&w, wrong, 8, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(&f, worst, 4, cudaMemcpyDeviceToHost));
    OK(cudaFree(wrong));
    if (w) {
        printf("FAILED %s %s%s Z=%lld M=%lld N=%lld K=%lld %s skew=%d: %llu wrong, worst %g\n", k->name,
               w_names[k->w], x_names[k->x], Z, M, N, K, exact ? "exact" : "random", skew, w, f);
        failed++;
    } else {
        passed++;
    }
    release(p);
}

/* ---- times ---------------------------------------------------------------------------------- */

static double time_it(const few_kernel *k, pk_i64 M, pk_i64 N, pk_i64 K, double *least) {
    double bytes = (double)N * K * w_bits[k->w] / 8 * k->nb;
    int sets = (int)std::min(12.0, std::max(2.0, 3e8 / bytes + 0.999));
    std::vector<problem> ps;
    for (int i = 0; i < sets; i++) ps.push_back(make(k, 1, M, N, K, false, 0, 77 + 13 * i));
    cudaStream_t s;
    cudaGraph_t g;
    cudaGraphExec_t e;
    OK(cudaStreamCreate(&s));
    OK(cudaDeviceSynchronize());
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (problem &p : ps) launch(k, &p.a, s);
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaGraphInstantiate(&e, g, 0));
    cudaEvent_t e0, e1;
    OK(cudaEventCreate(&e0));
    OK(cudaEventCreate(&e1));
    std::vector<double> t;
    for (int i = 0; i < 23; i++) {
        OK(cudaEventRecord(e0, s));
        OK(cudaGraphLaunch(e, s));
        OK(cudaEventRecord(e1, s));
        OK(cudaStreamSynchronize(s));
        float ms;
        OK(cudaEventElapsedTime(&ms, e0, e1));
        if (i >= 3) t.push_back(ms * 1e3 / sets);
    }
    std::sort(t.begin(), t.end());
    OK(cudaGraphExecDestroy(e));
    OK(cudaGraphDestroy(g));
    OK(cudaStreamDestroy(s));
    for (problem &p : ps) release(p);
#ifdef FEW_PROBES
    problem q = make(k, 1, M, N, K, false, 0, 7);
    long long *probes, h[132 * 8];
    OK(cudaMalloc(&probes, sizeof h));
    OK(cudaMemset(probes, 0, sizeof h));
    q.a.fault = probes;
    void *flush;
    OK(cudaMalloc(&flush, 200 << 20));
    for (int i = 0; i < 3; i++) {
        OK(cudaMemset(flush, i, 200 << 20));
        launch(k, &q.a, 0);
    }
    OK(cudaMemcpy(h, probes, sizeof h, cudaMemcpyDeviceToHost));
    OK(cudaFree(flush));
    OK(cudaFree(probes));
    release(q);
    printf("  cycles since the first probe:");
    for (int j = 1; j < 7; j++) {
        long long sum = 0, most = 0;
        for (int b = 0; b < 132; b++) {
            long long v = h[b * 8 + j] - h[b * 8];
            sum += v, most = std::max(most, v);
        }
        printf("  %d: %lld (%lld)", j, sum / 132, most);
    }
    printf("\n");
#endif
    *least = t[0];
    return t[t.size() / 2];
}

int main(int argc, char **argv) {
    cudaDeviceProp d;
    OK(cudaGetDeviceProperties(&d, 0));
    sms = d.multiProcessorCount;
    for (few_kernel *k = few_kernels; k; k = k->next)
        OK(cudaFuncSetAttribute(k->main, cudaFuncAttributeMaxDynamicSharedMemorySize, k->bytes));
    bool times = argc > 1 && !strcmp(argv[1], "time");
    bool quick = argc > 1 && !strcmp(argv[1], "quick");
    if (!times) {
        for (few_kernel *k = few_kernels; k; k = k->next) {
            if (k->fixed_n) {
                test(k, 1, std::min(k->cols, 16), k->fixed_n, k->fixed_k, true, 0);
                test(k, 1, std::min(k->cols, 16), k->fixed_n, k->fixed_k, false, 0);
                continue;
            }
            static const pk_i64 sizes[][4] = {
                {1, 1, 64, 512},    {1, 3, 33, 256},   {1, 16, 100, 1000}, {2, 4, 257, 333},
                {1, 17, 40, 4096},  {1, 64, 96, 520},  {3, 5, 16, 31},     {1, 8, 1, 8192},
                {1, 16, 5000, 640}, {1, 2, 300, 5001}, {1, 7, 20, 0},      {1, 1, 9000, 2048},
                {1, 33, 515, 6144}};
            for (auto &z : sizes)
                for (int e = 0; e < 2; e++)
                    for (int skew = 0; skew < 2; skew++) {
                        if (quick && (z[2] * z[3] > 200000 || skew != e)) continue;
                        test(k, z[0], z[1], z[2], z[3], e, skew);
                    }
        }
        printf("%d passed, %d failed\n", passed, failed);
        return failed != 0;
    }
    double floor_bw = 4.47e6; /* bytes a microsecond */
    printf("%-26s %-12s %3s %5s %5s %2s %2s %2s %2s %2s %2s %2s %2s | %7s %7s %7s\n", "kernel", "work", "M", "N",
           "K", "kg", "rg", "u", "ah", "ts", "sp", "ps", "st", "median", "least", "floor");
    for (few_kernel *k = few_kernels; k; k = k->next) {
        pk_i64 N = k->x == FEW_SILU ? 4096 : 14336, K = k->x == FEW_SILU ? 14336 : 4096;
        if (k->fixed_n) N = k->fixed_n, K = k->fixed_k;
        static const pk_i64 ms[] = {1, 16, 64};
        for (pk_i64 M : ms) {
            if (M > k->cols || (M * 4 < k->cols && M > 1) || (M == 1 && k->cols > 8)) continue;
            double least, t = time_it(k, M, N, K, &least);
            printf("%-26s %-12s %3lld %5lld %5lld %2d %2d %2d %2d %2d %2d %2d %2d | %7.2f %7.2f %7.2f\n", k->name,
                   (std::string(w_names[k->w]) + x_names[k->x] + (k->nb > 1 ? "x2" : "")).c_str(), M, N, K,
                   k->kgroups, k->rgroups, k->units, k->ahead, k->step, k->split, k->per_sm, k->stage, t, least,
                   N * (double)K * w_bits[k->w] / 8 * k->nb / floor_bw);
            fflush(stdout);
        }
    }
    return 0;
}
