/* SPDX-License-Identifier: MIT
 * The ceiling of arithmetic: fused multiply-adds on registers, in as many independent chains as
 * hide their latency, at the compiler's widest vector. Compiled for this machine.
 */
#include "bench/bench.h"

#include <pthread.h>

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
typedef float vec __attribute__((vector_size(BYTES)));

enum { CHAINS = 12, STEPS = 100000 };

/* The chains must not be folded, nor kept in memory: named one by one, and used at the end. */
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

static float chains(float start) {
    vec m, a;
    for (int i = 0; i < (int)(BYTES / sizeof(float)); i++) {
        m[i] = 0.999f + 1e-6f * start;
        a[i] = 1e-3f * start;
    }
#define DECLARE(i) vec v##i = a * (float)(i + 1);
    EACH(DECLARE)
    for (int s = 0; s < STEPS; s++) {
#define STEP(i) v##i = v##i * m + a;
        EACH(STEP)
    }
    vec sum = a;
#define ADD(i) sum += v##i;
    EACH(ADD)
    return sum[0];
}

struct worker {
    double seconds, flops;
    bool wall;
    float kept;
};

static void *work(void *user) {
    struct worker *w = user;
    double start = w->wall ? now_wall() : now_cpu(), spent;
    long n = 0;
    do {
        w->kept += chains(1.0f + (float)n);
        n++;
        spent = (w->wall ? now_wall() : now_cpu()) - start;
    } while (spent < w->seconds);
    w->flops = 2.0 * CHAINS * STEPS * (BYTES / sizeof(float)) * (double)n / spent;
    return NULL;
}

double peak_flops(int threads, double seconds) {
    struct worker w[2] = {{.seconds = seconds, .wall = threads > 1},
                          {.seconds = seconds, .wall = true}};
    pthread_t other;
    bool two = threads > 1 && pthread_create(&other, NULL, work, &w[1]) == 0;
    work(&w[0]);
    if (two) pthread_join(other, NULL);
    return w[0].flops + (two ? w[1].flops : 0);
}
