/* SPDX-License-Identifier: MIT
 * The layer of minilm.proem in f32 with the model's own weights, an operator at a time: products by
 * OpenBLAS, everything else a loop over memory of its own, on all cores. What the demo measures
 * proem against.
 *
 *     openblas_layer DIR OUT.npy
 *
 * DIR holds original.safetensors and tokens.safetensors (prepare.py); OUT.npy is proem's result.
 * Prints the median time of a run in microseconds, then how far OUT.npy is from this layer's
 * result, as the root of the mean square over that of the result; tokens of padding do not count.
 */
#define _POSIX_C_SOURCE 200809L
#include <cblas.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HIDDEN = 384, HEADS = 12, HEAD = 32, WIDE = 1536, RUNS = 200 };

static void die(const char *what, const char *why) {
    fprintf(stderr, "openblas_layer: %s: %s\n", what, why);
    exit(1);
}

static void *memory(size_t n) {
    void *p = aligned_alloc(64, (n + 63) / 64 * 64);
    if (p == NULL) die("memory", "not enough");
    memset(p, 0, n); /* no page is touched for the first time while time is taken */
    return p;
}

/* ---- files ----------------------------------------------------------------------------------- */

struct file {
    const char *name;
    char *text; /* the whole of it, ending in a 0 */
    size_t size;
};

static struct file read_file(const char *dir, const char *name) {
    static char path[4096];
    struct file f = {.name = name};
    snprintf(path, sizeof path, "%s%s%s", dir, dir[0] != '\0' ? "/" : "", name);
    FILE *in = fopen(path, "rb");
    if (in == NULL || fseek(in, 0, SEEK_END) != 0) die(path, "cannot be read");
    f.size = (size_t)ftell(in);
    f.text = memory(f.size + 1);
    rewind(in);
    if (fread(f.text, 1, f.size, in) != f.size) die(path, "cannot be read");
    fclose(in);
    f.text[f.size] = '\0';
    return f;
}

/* A tensor's bytes, by the header that prepare.py writes. */
static void *tensor(const struct file *f, const char *name, size_t bytes) {
    uint64_t header;
    unsigned long long begin, end;
    char key[64];
    memcpy(&header, f->text, sizeof header);
    snprintf(key, sizeof key, "\"%s\": {", name);
    const char *at = strstr(f->text + 8, key);
    if (at == NULL) die(f->name, name);
    at = strstr(at, "\"data_offsets\"");
    if (sscanf(at, "\"data_offsets\": [%llu, %llu]", &begin, &end) != 2 || end - begin != bytes)
        die(name, "has another size");
    void *p = memory(bytes);
    memcpy(p, f->text + 8 + header + begin, bytes);
    return p;
}

static float *floats(const struct file *f, const char *part, const char *kind, size_t n) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", part, kind);
    return tensor(f, name, n * sizeof(float));
}

/* ---- operators ------------------------------------------------------------------------------- */

struct linear {
    float *w, *b;
    int in, out;
};

static struct linear linear_load(const struct file *f, const char *part, int in, int out) {
    return (struct linear){floats(f, part, "weight", (size_t)in * (size_t)out),
                           floats(f, part, "bias", (size_t)out), in, out};
}

static void linear(const struct linear *l, int rows, const float *x, float *y) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, l->out, l->in, 1, x, l->in, l->w,
                l->in, 0, y, l->out);
#pragma omp parallel for
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < l->out; j++)
            y[(size_t)i * (size_t)l->out + (size_t)j] += l->b[j];
    }
}

static void add(size_t n, const float *a, const float *b, float *y) {
#pragma omp parallel for
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

static void gelu(size_t n, const float *x, float *y) {
#pragma omp parallel for
    for (size_t i = 0; i < n; i++)
        y[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));
}

static void layer_norm(int rows, const float *x, const float *w, const float *b, float *y) {
#pragma omp parallel for
    for (int i = 0; i < rows; i++) {
        const float *in = x + (size_t)i * HIDDEN;
        float *out = y + (size_t)i * HIDDEN, mean = 0, square = 0;
        for (int j = 0; j < HIDDEN; j++)
            mean += in[j];
        mean /= HIDDEN;
        for (int j = 0; j < HIDDEN; j++)
            square += (in[j] - mean) * (in[j] - mean);
        float r = 1 / sqrtf(square / HIDDEN + 1e-12f);
        for (int j = 0; j < HIDDEN; j++)
            out[j] = (in[j] - mean) * r * w[j] + b[j];
    }
}

/* Scaled scores of all pairs, -inf where the key is padding; then softmax in place. */
static void softmax(int rows, int seen, int s, float *p) {
    const float scale = 1 / sqrtf(HEAD);
    for (int i = 0; i < rows; i++) {
        float *row = p + (size_t)i * (size_t)s, top = row[0] * scale, sum = 0;
        for (int j = 0; j < seen; j++)
            top = fmaxf(top, row[j] * scale);
        for (int j = 0; j < seen; j++)
            sum += row[j] = expf(row[j] * scale - top);
        for (int j = 0; j < seen; j++)
            row[j] /= sum;
        for (int j = seen; j < s; j++)
            row[j] = 0;
    }
}

/* ---- the layer ------------------------------------------------------------------------------- */

struct layer {
    struct linear q, k, v, o, ffn1, ffn2;
    float *norm1_w, *norm1_b, *norm2_w, *norm2_b;
    int batch, s;
    const int32_t *length;
    const float *x;
    float *at_q, *at_k, *at_v, *scores, *context, *attended, *sum1, *y, *up, *gelu, *down, *sum2,
        *out;
};

/* Heads are columns h * HEAD .. of q, k and v, so no product needs a copy of them. A product this
 * small is one thread's work to OpenBLAS, so the heads are shared out here. */
static void attention(const struct layer *l) {
    const int s = l->s;
    const size_t all = (size_t)s * (size_t)s;
#pragma omp parallel for
    for (int i = 0; i < l->batch * HEADS; i++) {
        size_t at = (size_t)(i / HEADS) * (size_t)s * HIDDEN + (size_t)(i % HEADS) * HEAD;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, s, s, HEAD, 1, l->at_q + at, HIDDEN,
                    l->at_k + at, HIDDEN, 0, l->scores + (size_t)i * all, s);
    }
#pragma omp parallel for
    for (int i = 0; i < l->batch * HEADS; i++)
        softmax(s, l->length[i / HEADS], s, l->scores + (size_t)i * all);
#pragma omp parallel for
    for (int i = 0; i < l->batch * HEADS; i++) {
        size_t at = (size_t)(i / HEADS) * (size_t)s * HIDDEN + (size_t)(i % HEADS) * HEAD;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, s, HEAD, s, 1,
                    l->scores + (size_t)i * all, s, l->at_v + at, HIDDEN, 0, l->context + at,
                    HIDDEN);
    }
}

static void run(const struct layer *l) {
    int rows = l->batch * l->s;
    size_t n = (size_t)rows * HIDDEN;
    linear(&l->q, rows, l->x, l->at_q);
    linear(&l->k, rows, l->x, l->at_k);
    linear(&l->v, rows, l->x, l->at_v);
    attention(l);
    linear(&l->o, rows, l->context, l->attended);
    add(n, l->x, l->attended, l->sum1);
    layer_norm(rows, l->sum1, l->norm1_w, l->norm1_b, l->y);
    linear(&l->ffn1, rows, l->y, l->up);
    gelu((size_t)rows * WIDE, l->up, l->gelu);
    linear(&l->ffn2, rows, l->gelu, l->down);
    add(n, l->y, l->down, l->sum2);
    layer_norm(rows, l->sum2, l->norm2_w, l->norm2_b, l->out);
}

static struct layer load(const char *dir, int batch, int s) {
    struct file w = read_file(dir, "original.safetensors");
    struct file t = read_file(dir, "tokens.safetensors");
    size_t n = (size_t)batch * (size_t)s * HIDDEN * sizeof(float);
    struct layer l = {.batch = batch, .s = s};
    l.q = linear_load(&w, "q", HIDDEN, HIDDEN);
    l.k = linear_load(&w, "k", HIDDEN, HIDDEN);
    l.v = linear_load(&w, "v", HIDDEN, HIDDEN);
    l.o = linear_load(&w, "o", HIDDEN, HIDDEN);
    l.ffn1 = linear_load(&w, "ffn1", HIDDEN, WIDE);
    l.ffn2 = linear_load(&w, "ffn2", WIDE, HIDDEN);
    l.norm1_w = floats(&w, "norm1", "weight", HIDDEN);
    l.norm1_b = floats(&w, "norm1", "bias", HIDDEN);
    l.norm2_w = floats(&w, "norm2", "weight", HIDDEN);
    l.norm2_b = floats(&w, "norm2", "bias", HIDDEN);
    l.x = tensor(&t, "x", n);
    l.length = tensor(&t, "length", (size_t)batch * sizeof(int32_t));
    float **own[] = {&l.at_q, &l.at_k, &l.at_v, &l.context, &l.attended,
                     &l.sum1, &l.y,    &l.down, &l.sum2,    &l.out};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        *own[i] = memory(n);
    l.up = memory(n / HIDDEN * WIDE);
    l.gelu = memory(n / HIDDEN * WIDE);
    l.scores = memory((size_t)batch * HEADS * (size_t)(s * s) * sizeof(float));
    return l;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* As `proem bench`: some runs to warm up, then a second's worth, at least ten. */
static double median_us(const struct layer *l) {
    static double us[RUNS];
    int n = 0;
    for (int i = 0; i < 3; i++)
        run(l);
    double start = now_us();
    while (n < RUNS && (n < 10 || now_us() - start < 1e6)) {
        double t = now_us();
        run(l);
        us[n++] = now_us() - t;
    }
    qsort(us, (size_t)n, sizeof us[0], by_value);
    return n % 2 != 0 ? us[n / 2] : (us[n / 2 - 1] + us[n / 2]) / 2;
}

static double distance(const struct layer *l, const char *npy) {
    struct file f = read_file("", npy);
    uint16_t header;
    memcpy(&header, f.text + 8, sizeof header);
    size_t n = (size_t)l->batch * (size_t)l->s * HIDDEN;
    if (f.size != 10 + (size_t)header + n * sizeof(float)) die(npy, "has another size");
    const char *data = f.text + 10 + header;
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        size_t token = i / HIDDEN, s = (size_t)l->s;
        if (token % s >= (size_t)l->length[token / s]) continue;
        float v;
        memcpy(&v, data + i * sizeof v, sizeof v);
        error += ((double)v - l->out[i]) * ((double)v - l->out[i]);
        size += (double)l->out[i] * l->out[i];
    }
    return sqrt(error / size);
}

int main(int argc, char **argv) {
    if (argc != 3) die("usage", "openblas_layer DIR OUT.npy");
    struct layer l = load(argv[1], 8, 64);
    double us = median_us(&l);
    printf("%.1f %.6f\n", us, distance(&l, argv[2]));
    return 0;
}
