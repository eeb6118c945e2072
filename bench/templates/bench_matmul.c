/* SPDX-License-Identifier: MIT
 *
 * bench_matmul M N K ROUNDS CASE..: times kernels and BLAS libraries in turns, one thread, thread
 * CPU time; prints for each the median and best GFLOP/s over the rounds, and the largest relative
 * error against a sum in f64 on sampled elements. A case is one of
 *   openblas  blis          sgemm, B as [K,N] (openblas:t for [N,K])
 *   LABEL=FILE.so:A:B:E[:p] a kernel of matmul_bench_kernels.c and the hooks it was built with;
 *                           p: with constant operands packed once, :u: dequantize, then OpenBLAS
 *   peak                    fused multiply-adds on registers
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/kernel_abi.h"

typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);

struct bench {
    char label[512];
    int kind; /* 0 kernel, 1 sgemm, 2 peak, 3 dequantize then sgemm */
    int ha, hb, he, trans;
    sgemm_fn *sgemm;
    const struct pk_kernel *k;
    void (*peak)(long);
    struct pk_args g;
    void *packed[2];
    double best, times[256];
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *big(size_t n) {
    void *p = aligned_alloc(64, (n + 4096 + 63) / 64 * 64);
    if (!p) exit(1);
    memset(p, 0, n + 4096 - 64);
    return p;
}

static int M, N, K;
static float *A, *Ar, *B_kn, *B_nk, *scale, *bias, *res, *tmp, *At;
static int8_t *Q_kn, *Q_nk;
static unsigned char *Q8, *Q4;
static int *rows;

static unsigned seed = 1;
static float rnd(void) {
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
}

static float half(unsigned char *at) {
    /* a normal f16 near 1/64 */
    unsigned h = 0x2000 + ((unsigned)(rnd() * 1000 + 500) & 0x3ff);
    at[0] = (unsigned char)h, at[1] = (unsigned char)(h >> 8);
    return ldexpf(1.f + (float)(h & 0x3ff) / 1024.f, (int)(h >> 10) - 15);
}

static void fill(void) {
    size_t m = (size_t)M, n = (size_t)N, k = (size_t)K;
    A = big(4 * m * k), At = big(4 * m * k), B_kn = big(4 * k * n), B_nk = big(4 * k * n);
    tmp = big(4 * (k * n > m * k ? k * n : m * k)), Ar = big(4 * m * k);
    scale = big(4 * n), bias = big(4 * n), res = big(4 * m * n), rows = big(4 * m);
    Q_kn = big(k * n), Q_nk = big(k * n), Q8 = big(k / 32 * 34 * n), Q4 = big(k / 32 * 18 * n);
    for (size_t i = 0; i < m * k; i++)
        A[i] = rnd();
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < k; j++)
            At[j * m + i] = A[i * k + j];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < k; j++) {
            B_nk[i * k + j] = B_kn[j * n + i] = rnd();
            Q_nk[i * k + j] = Q_kn[j * n + i] = (int8_t)(rnd() * 254);
        }
    for (size_t i = 0; i < n; i++)
        scale[i] = rnd() / 100, bias[i] = rnd();
    for (size_t i = 0; i < m * n; i++)
        res[i] = rnd();
    for (size_t i = 0; i < m; i++)
        rows[i] = (int)((i * 7 + 3) % m);
    for (size_t i = 0; i < n * (k / 32); i++) {
        unsigned char *q8 = Q8 + i * 34, *q4 = Q4 + i * 18;
        half(q8), half(q4);
        for (int j = 0; j < 32; j++)
            q8[2 + j] = (unsigned char)(int8_t)(rnd() * 254);
        for (int j = 0; j < 16; j++)
            q4[2 + j] = (unsigned char)(int)(rnd() * 255 + 127.5f);
    }
}

static double h2d(const unsigned char *p) {
    unsigned h = (unsigned)(p[0] | p[1] << 8);
    return ldexp(1. + (double)(h & 0x3ff) / 1024, (int)(h >> 10) - 15);
}

static double value_a(int ha, size_t m, size_t k) {
    if (ha == 2) m = (size_t)rows[m];
    double x = A[m * (size_t)K + k];
    return ha == 1 && x < 0 ? 0 : x;
}

static double value_b(int hb, size_t n, size_t k) {
    const unsigned char *q;
    switch (hb) {
    case 2:
    case 3:
    case 6: return (double)Q_nk[n * (size_t)K + k] * scale[n];
    case 4:
    case 7: q = Q8 + (n * (size_t)K + k) / 32 * 34; return h2d(q) * (int8_t)q[2 + k % 32];
    case 5:
    case 8:
        q = Q4 + (n * (size_t)K + k) / 32 * 18;
        return h2d(q) * ((q[2 + k % 16] >> (k % 32 / 16 * 4) & 15) - 8);
    default: return B_nk[n * (size_t)K + k];
    }
}

static double check(const struct bench *b, const float *out) {
    double worst = 0;
    for (int t = 0; t < 60; t++) {
        size_t m = (size_t)(t * 7919 + 13) % (size_t)M,
               n = (size_t)(t * 104729 + N - 1) % (size_t)N;
        double s = 0, abs = 0;
        for (size_t k = 0; k < (size_t)K; k++) {
            double x = value_a(b->ha, m, k) * value_b(b->hb, n, k);
            s += x, abs += fabs(x);
        }
        if (b->he) {
            s += bias[n];
            s = s / (1 + exp(-1.5957691216 * (s + 0.044715 * s * s * s))) + res[m * (size_t)N + n];
        }
        double e = fabs(out[m * (size_t)N + n] - s) / (abs + 1e-30);
        if (!(e <= worst)) worst = e;
    }
    return worst;
}

/* What a user does without fusion: the operand as a whole in f32, then sgemm. */
static void dequantize(int hb, float *out) {
    size_t n = (size_t)N, k = (size_t)K;
    if (hb == 3)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < k; j++)
                out[i * k + j] = (float)Q_nk[i * k + j] * scale[i];
    else if (hb == 2)
        for (size_t j = 0; j < k; j++)
            for (size_t i = 0; i < n; i++)
                out[j * n + i] = (float)Q_kn[j * n + i] * scale[i];
    else if (hb == 4)
        for (size_t i = 0; i < n * k / 32; i++) {
            float s = (float)h2d(Q8 + i * 34);
            for (size_t j = 0; j < 32; j++)
                out[i * 32 + j] = s * (float)(int8_t)Q8[i * 34 + 2 + j];
        }
    else if (hb == 5)
        for (size_t i = 0; i < n * k / 32; i++) {
            float s = (float)h2d(Q4 + i * 18);
            for (size_t j = 0; j < 16; j++) {
                out[i * 32 + j] = s * (float)((Q4[i * 18 + 2 + j] & 15) - 8);
                out[i * 32 + 16 + j] = s * (float)((Q4[i * 18 + 2 + j] >> 4) - 8);
            }
        }
}

static void once(struct bench *b, float *out) {
    if (b->kind == 0) {
        for (int phase = 0; phase < b->k->phases; phase++) {
            pk_i64 n = b->k->tasks(&b->g, phase);
            for (pk_i64 t = 0; t < n; t++)
                b->k->run(&b->g, phase, t);
        }
    } else if (b->kind == 1) {
        b->sgemm(101, 111, b->trans ? 112 : 111, M, N, K, 1, A, K, b->trans ? B_nk : B_kn,
                 b->trans ? K : N, 0, out, N);
    } else if (b->kind == 3) {
        const float *a = A, *w = b->hb == 1 ? B_nk : B_kn;
        if (b->ha == 1) {
            for (size_t i = 0; i < (size_t)M * (size_t)K; i++)
                Ar[i] = A[i] > 0 ? A[i] : 0;
            a = Ar;
        } else if (b->ha == 2) {
            for (size_t i = 0; i < (size_t)M; i++)
                memcpy(Ar + i * (size_t)K, A + (size_t)rows[i] * (size_t)K, 4 * (size_t)K);
            a = Ar;
        }
        if (b->hb > 1) dequantize(b->hb, tmp), w = tmp;
        int t = b->hb == 1 || b->hb >= 3;
        b->sgemm(101, 111, t ? 112 : 111, M, N, K, 1, a, K, w, t ? K : N, 0, out, N);
    }
}

static int by_value(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static void *need(void *p, const char *what) {
    if (p) return p;
    fprintf(stderr, "cannot load %s: %s\n", what, dlerror());
    exit(1);
}

int main(int argc, char **argv) {
    if (argc < 6) return 2;
    M = atoi(argv[1]), N = atoi(argv[2]), K = atoi(argv[3]);
    int rounds = atoi(argv[4]), cases = argc - 5;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(getenv("BENCH_CPU") ? atoi(getenv("BENCH_CPU")) : 0, &set);
    sched_setaffinity(0, sizeof set, &set);
    /* Older OpenBLAS takes processors it does not know for the weakest of their kind: BENCH_CORE
     * names the one whose kernels are meant (Haswell for AVX2, SkylakeX for AVX-512). */
    unsetenv("OPENBLAS_CORETYPE");
    if (getenv("BENCH_CORE")) setenv("OPENBLAS_CORETYPE", getenv("BENCH_CORE"), 1);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("BLIS_NUM_THREADS", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    fill();
    float *out = big(4 * (size_t)M * (size_t)N);
    struct bench *bs = calloc((size_t)cases, sizeof *bs);
    for (int c = 0; c < cases; c++) {
        struct bench *b = &bs[c];
        char arg[512];
        snprintf(arg, sizeof arg, "%s", argv[5 + c]);
        char *colon = strchr(arg, ':'), *eq = strchr(arg, '=');
        snprintf(b->label, sizeof b->label, "%s", arg);
        if (!strncmp(arg, "openblas", 8) || !strncmp(arg, "blis", 4) ||
            !strncmp(arg, "unfused", 7)) {
            const char *lib = arg[0] == 'b' ? "libblis.so.4" : "libopenblas.so.0";
            b->kind = 1;
            b->trans = colon && colon[1] == 't';
            if (arg[0] == 'u') {
                b->kind = 3;
                sscanf(colon, ":%d:%d", &b->ha, &b->hb);
            }
            void *h = need(dlopen(lib, RTLD_NOW | RTLD_LOCAL), lib);
            b->sgemm = (sgemm_fn *)(uintptr_t)need(dlsym(h, "cblas_sgemm"), "cblas_sgemm");
            char *(*core)(void) = (char *(*)(void))(uintptr_t)dlsym(h, "openblas_get_corename");
            if (core && b->kind == 1) printf("openblas core %s\n", core());
        } else if (eq) {
            *eq = 0;
            if (!colon) return 2;
            *colon = 0;
            snprintf(b->label, sizeof b->label, "%s", arg);
            char flag = 0;
            sscanf(colon + 1, "%d:%d:%d:%c", &b->ha, &b->hb, &b->he, &flag);
            void *h = need(dlopen(eq + 1, RTLD_NOW | RTLD_LOCAL), eq + 1);
            const struct pk_unit *u = need(dlsym(h, "proem_unit"), "proem_unit");
            b->k = u->kernels[0];
            void **buf = calloc(7, sizeof *buf);
            pk_i64 *sym = calloc(3, sizeof *sym);
            void *weights[9] = {B_kn, B_nk, Q_kn, Q_nk, Q8, Q4, Q_nk, Q8, Q4};
            void *all[7] = {b->ha == 3 ? At : A, weights[b->hb], scale, out, bias, res, rows};
            memcpy(buf, all, sizeof all);
            sym[0] = M, sym[1] = N, sym[2] = K;
            b->g = (struct pk_args){.buf = buf, .sym = sym, .threads = 1};
            if (flag == 'p') {
                for (int i = 0; i < b->k->operands; i++) {
                    b->packed[i] = big((size_t)b->k->packed_bytes(&b->g, i));
                    for (pk_i64 t = 0; t < b->k->pack_tasks(&b->g, i); t++)
                        b->k->pack(&b->g, i, t, b->packed[i]);
                }
                b->g.packed = b->packed;
            }
            b->g.shared = big((size_t)b->k->shared_bytes(&b->g));
            b->g.local = big((size_t)b->k->local_bytes(&b->g));
        } else if (!strcmp(arg, "peak")) {
            b->kind = 2;
            void *h = need(dlopen(getenv("PEAK_SO"), RTLD_NOW), "PEAK_SO");
            b->peak = (void (*)(long))(uintptr_t)need(dlsym(h, "peak"), "peak");
        }
    }
    double flops = 2. * M * N * K;
    for (int r = -1; r < rounds; r++)
        for (int c = 0; c < cases; c++) {
            struct bench *b = &bs[c];
            double t0, t;
            if (b->kind == 2) {
                t0 = now();
                b->peak(1000000);
                t = (now() - t0) / 1e6;
            } else {
                int reps = (int)(2e8 / flops) + 1;
                t0 = now();
                for (int i = 0; i < reps; i++)
                    once(b, out);
                t = (now() - t0) / reps;
                if (r < 0) b->best = check(b, out);
            }
            if (r >= 0) b->times[r] = t;
        }
    for (int c = 0; c < cases; c++) {
        struct bench *b = &bs[c];
        qsort(b->times, (size_t)rounds, sizeof *b->times, by_value);
        double f = b->kind == 2 ? 1e-9 : 1e-9 * flops;
        if (b->kind == 2) f *= b->times[0] > 0 ? 2. * 12 * strtod(getenv("PEAK_W"), NULL) : 0;
        printf("%-24s %7.1f / %7.1f   err %.1e   %.3f ms\n", b->label, f / b->times[rounds / 2],
               f / b->times[0], b->best, 1e3 * b->times[rounds / 2]);
    }
    return 0;
}
