/* SPDX-License-Identifier: MIT
 * What a user does today in front of a BLAS call: the whole weight matrix to f32. Plain loops that
 * the compiler turns into vector code (-O3 for this machine), rows shared by the threads.
 */
#include "bench/bench.h"

#include <pthread.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

static void row_i8(float *restrict to, const int8_t *restrict from, float scale, int64_t k) {
    for (int64_t i = 0; i < k; i++)
        to[i] = (float)from[i] * scale;
}

/* Two numbers a byte, the first in the low bits. */
static void row_i4(float *restrict to, const uint8_t *restrict from, const float *restrict scale,
                   int64_t k) {
    for (int64_t g = 0; g < k / 32; g++) {
        float s = scale[g];
        int8_t value[32];
        for (int i = 0; i < 16; i++) {
            unsigned byte = from[16 * g + i];
            value[2 * i] = (int8_t)((int)((byte & 15) ^ 8) - 8);
            value[2 * i + 1] = (int8_t)((int)((byte >> 4) ^ 8) - 8);
        }
        for (int i = 0; i < 32; i++)
            to[32 * g + i] = (float)value[i] * s;
    }
}

static void row_f16(float *restrict to, const uint16_t *restrict from, int64_t k) {
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= k; i += 16)
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(from + i))));
#elif defined(__F16C__)
    for (; i + 8 <= k; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + i))));
#endif
    for (; i < k; i++)
        to[i] = (float)elem_load(DT_F16, from, i).f;
}

struct part {
    const struct blas_product *p;
    int64_t first, last;
};

static void *rows(void *user) {
    const struct part *part = user;
    const struct blas_product *p = part->p;
    int64_t k = p->k;
    for (int64_t n = part->first; n < part->last; n++) {
        float *to = p->b + n * k;
        if (p->w_type == DT_I8) row_i8(to, (const int8_t *)p->w + n * k, p->scale[n], k);
        if (p->w_type == DT_I4)
            row_i4(to, (const uint8_t *)p->w + n * k / 2, p->scale + n * k / 32, k);
        if (p->w_type == DT_F16) row_f16(to, (const uint16_t *)p->w + n * k, k);
    }
    return NULL;
}

void dequantize_rows(const struct blas_product *p) {
    int64_t half = p->threads > 1 ? p->n / 2 : p->n;
    struct part mine = {p, 0, half}, other = {p, half, p->n};
    pthread_t thread;
    bool two = half < p->n && pthread_create(&thread, NULL, rows, &other) == 0;
    rows(&mine);
    if (two)
        pthread_join(thread, NULL);
    else
        rows(&other);
}
