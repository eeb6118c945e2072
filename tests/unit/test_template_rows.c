/* SPDX-License-Identifier: MIT
 *
 * The templates of pointwise kernels, reductions, scatters, scans and sorts with plain hooks
 * (tests/templates/row_kernels.c), compiled as generated code is: by each C compiler that is there,
 * for each instruction set that the processor has. Every tensor and every scratch area ends at a page
 * that cannot be touched and is full of ones before. Results are compared bit by bit with plain
 * loops here, sums of fractions in the order that the template states; each element of each result
 * must be stored exactly once, whatever the number of threads and the order of tasks.
 */
#define _GNU_SOURCE
#include <math.h>

#include "template_util.h"

#define MOST_BUFFERS 8

/* A problem: operands, then each result with the number of times that its elements were stored. */
struct problem {
    struct area buf[MOST_BUFFERS];
    void *at[MOST_BUFFERS];
    void *want[MOST_BUFFERS]; /* of a result */
    pk_i64 count[MOST_BUFFERS];
    size_t size[MOST_BUFFERS]; /* of an element */
    int n, first_result;
    pk_i64 sym[3]; /* Z, K, N */
};

static void *add_buffer(struct problem *p, pk_i64 count, size_t size) {
    int i = p->n++;
    assert_true(i < MOST_BUFFERS);
    p->buf[i] = area_new(count * (pk_i64)size, (pk_i64)size);
    p->at[i] = p->buf[i].at;
    p->count[i] = count;
    p->size[i] = size;
    return p->at[i];
}

/* A result, its counts, and memory for what it must be. */
static void *add_result(struct problem *p, pk_i64 count, size_t size) {
    int i = p->n;
    if (p->first_result == 0) p->first_result = i;
    add_buffer(p, count, size);
    add_buffer(p, count, 1);
    p->want[i] = malloc((size_t)count * size + 1);
    assert_non_null(p->want[i]);
    return p->want[i];
}

static void problem_free(struct problem *p) {
    for (int i = 0; i < p->n; i++) {
        area_free(&p->buf[i]);
        free(p->want[i]);
    }
}

static void compare(const struct pk_kernel *k, const struct problem *p, int threads) {
    for (int r = p->first_result; r < p->n; r += 2) {
        const unsigned char *got = p->at[r], *want = p->want[r], *stored = p->at[r + 1];
        for (pk_i64 i = 0; i < p->count[r]; i++) {
            size_t s = p->size[r], o = (size_t)i * s;
            if (stored[i] == 1 && memcmp(got + o, want + o, s) == 0) continue;
            fail_msg("%s Z=%d K=%d N=%d threads %d: element %d of result %d %s; stored %d times",
                     k->name, (int)p->sym[0], (int)p->sym[1], (int)p->sym[2], threads, (int)i,
                     (r - p->first_result) / 2,
                     memcmp(got + o, want + o, s) == 0 ? "is right" : "is wrong", stored[i]);
        }
    }
}

static void run_and_check(const struct pk_kernel *k, struct problem *p, int threads, int backward) {
    struct pk_args g = {.buf = p->at, .sym = p->sym, .threads = threads};
    for (int r = p->first_result; r < p->n; r += 2) {
        memset(p->at[r], 0xff, p->buf[r].size);
        memset(p->at[r + 1], 0, p->buf[r + 1].size);
    }
    struct area shared = area_new(k->shared_bytes(&g), 1), local = area_new(k->local_bytes(&g), 1);
    struct area aligned = {0};
    g.shared = shared.at;
    g.local = local.at;
    if ((uintptr_t)local.at % 64 != 0) { /* rt aligns scratch to 64 bytes: its end is then free */
        aligned = area_new((k->local_bytes(&g) + 63) / 64 * 64, 64);
        g.local = aligned.at;
    }
    for (int phase = 0; phase < k->phases; phase++) {
        pk_i64 n = k->tasks(&g, phase);
        for (pk_i64 t = 0; t < n; t++) {
            memset(local.at, 0xff, local.size);
            if (aligned.at != NULL) memset(aligned.at, 0xff, aligned.size);
            k->run(&g, phase, backward ? n - 1 - t : t);
        }
    }
    compare(k, p, threads);
    area_free(&shared);
    area_free(&local);
    if (aligned.at != NULL) area_free(&aligned);
}

static void check(const struct pk_kernel *k, struct problem *p) {
    assert_int_equal(k->operands, 0);
    assert_null(k->check);
    run_and_check(k, p, 1, 0);
    run_and_check(k, p, 3, 1);
    problem_free(p);
}

static float small(uint32_t *seed) {
    return (float)(next(seed) % 17) - 8;
}

static float fraction(uint32_t *seed) {
    return (float)(next(seed) % 65521) / 4096 - 8;
}

/* ---- pointwise ------------------------------------------------------------------------------- */

static void pointwise(const struct pk_kernel *k, pk_i64 Z, pk_i64 N) {
    struct problem p = {.sym = {Z, 0, N}};
    uint32_t seed = (uint32_t)(Z * 31 + N);
    float *x = add_buffer(&p, Z * N, 4);
    float *a = add_result(&p, Z * N, 4), *b = add_result(&p, Z * N, 4);
    for (pk_i64 i = 0; i < Z * N; i++) {
        x[i] = fraction(&seed);
        a[i] = 2 * x[i] + (float)(i / N);
        b[i] = x[i] - (float)(i % N);
    }
    check(k, &p);
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* Partial results, number k % lanes for element k, then a tree of halves. */
static float tree(float *part, int lanes) {
    for (int h = lanes / 2; h > 0; h /= 2) {
        for (int l = 0; l < h; l++)
            part[l] = part[l] + part[l + h];
    }
    return part[0];
}

static void reduction(const struct pk_kernel *k, int lanes, int along_k, int levels, pk_i64 Z,
                      pk_i64 K) {
    struct problem p = {.sym = {Z, K, 0}};
    uint32_t seed = (uint32_t)(Z * 7 + K);
    pk_i64 zs = along_k ? K : 1, ks = along_k ? 1 : Z;
    float *x = add_buffer(&p, Z * K, 4), *sum = add_result(&p, Z, 4), *square = NULL, *rest = NULL;
    if (levels > 1) {
        square = add_result(&p, Z, 4);
        rest = add_result(&p, Z * K, 4);
    }
    for (pk_i64 i = 0; i < Z * K; i++)
        x[i] = fraction(&seed);
    for (pk_i64 z = 0; z < Z; z++) {
        float s[16] = {0}, q[16] = {0}, top = -INFINITY;
        for (pk_i64 i = 0; i < K; i++) {
            float v = x[z * zs + i * ks];
            s[i % lanes] = s[i % lanes] + v;
            if (v > top) top = v;
        }
        sum[z] = tree(s, lanes);
        for (pk_i64 i = 0; i < K && levels > 1; i++) {
            float d = top - x[z * zs + i * ks];
            q[i % lanes] = q[i % lanes] + d * d;
            rest[z * zs + i * ks] = d;
        }
        if (levels > 1) square[z] = tree(q, lanes);
    }
    check(k, &p);
}

static void eight_levels(const struct pk_kernel *k, int along_k, pk_i64 Z, pk_i64 K) {
    struct problem p = {.sym = {Z, K, 0}};
    uint32_t seed = (uint32_t)(Z * 5 + K);
    int *x = add_buffer(&p, Z * K, 4), *out = add_result(&p, Z * 8, 4);
    for (pk_i64 i = 0; i < Z * K; i++)
        x[i] = (int)(next(&seed) * 61u);
    for (pk_i64 z = 0; z < Z; z++) {
        for (int level = 0; level < 8; level++) {
            uint32_t sum = 0;
            for (pk_i64 i = 0; i < K; i++) {
                uint32_t v = (uint32_t)x[along_k ? z * K + i : i * Z + z];
                sum += level > 0 ? v ^ (uint32_t)out[z * 8 + level - 1] : v;
            }
            out[z * 8 + level] = (int)sum;
        }
    }
    check(k, &p);
}

/* ---- scatters -------------------------------------------------------------------------------- */

/* Indices repeat, so order matters for replacing; one in nine is negative and skipped. */
static pk_i64 an_index(uint32_t *seed, pk_i64 K) {
    uint32_t r = next(seed);
    return K == 0 || r % 9 == 0 ? -1 - (pk_i64)(r % 5) : (pk_i64)(r / 9 % (uint64_t)K);
}

#define SCATTER(T, value)                                                                          \
    static void scatter_##T(const struct pk_kernel *k, int add, int uniform, pk_i64 Z, pk_i64 K,   \
                            pk_i64 N) {                                                            \
        struct problem p = {.sym = {Z, K, N}};                                                     \
        uint32_t seed = (uint32_t)(Z * 3 + K * 5 + N);                                             \
        T *base = add_buffer(&p, K * Z, sizeof(T));                                                \
        pk_i64 *index = add_buffer(&p, uniform ? N : N * Z, 8);                                    \
        T *src = add_buffer(&p, N * Z, sizeof(T));                                                 \
        T *out = add_result(&p, K * Z, sizeof(T)), *twice = add_result(&p, K * Z, sizeof(T));      \
        for (pk_i64 i = 0; i < K * Z; i++)                                                         \
            out[i] = base[i] = value;                                                              \
        for (pk_i64 i = 0; i < N * Z; i++)                                                         \
            src[i] = value;                                                                        \
        for (pk_i64 i = 0; i < (uniform ? N : N * Z); i++)                                         \
            index[i] = an_index(&seed, K);                                                         \
        for (pk_i64 n = 0; n < N; n++) {                                                           \
            for (pk_i64 z = 0; z < Z; z++) {                                                       \
                pk_i64 at = index[uniform ? n : n * Z + z];                                        \
                if (at < 0) continue;                                                              \
                T *to = &out[at * Z + z];                                                          \
                *to = add ? *to + src[n * Z + z] : src[n * Z + z];                                 \
            }                                                                                      \
        }                                                                                          \
        for (pk_i64 i = 0; i < K * Z; i++)                                                         \
            twice[i] = out[i] + out[i];                                                            \
        check(k, &p);                                                                              \
    }

SCATTER(float, fraction(&seed))
SCATTER(double, (double)fraction(&seed) / 3)
SCATTER(int, (int)(next(&seed) % 100000))
SCATTER(pk_i64, (pk_i64)next(&seed) << 20)

/* ---- scans ----------------------------------------------------------------------------------- */

#define SCAN(T, value)                                                                             \
    static void scan_##T(const struct pk_kernel *k, pk_i64 Z, pk_i64 K) {                          \
        struct problem p = {.sym = {Z, K, 0}};                                                     \
        uint32_t seed = (uint32_t)(Z * 3 + K);                                                     \
        T *x = add_buffer(&p, K * Z, sizeof(T));                                                   \
        T *out = add_result(&p, K * Z, sizeof(T)), *twice = add_result(&p, K * Z, sizeof(T));      \
        for (pk_i64 i = 0; i < K * Z; i++) {                                                       \
            x[i] = value;                                                                          \
            out[i] = (i < Z ? (T)0 : out[i - Z]) + x[i];                                           \
            twice[i] = out[i] + out[i];                                                            \
        }                                                                                          \
        check(k, &p);                                                                              \
    }

SCAN(float, fraction(&seed))
SCAN(pk_i64, ((pk_i64)next(&seed) << 24) - ((pk_i64)1 << 47))

/* ---- sorts ----------------------------------------------------------------------------------- */

/* Is a before b in ascending order? NaN is the greatest. */
static int before_float(float a, float b) {
    return a < b || (isnan(b) && !isnan(a));
}

static int before_pk_i64(pk_i64 a, pk_i64 b) {
    return a < b;
}

/* By counting: an element's place is the number of those that come before it. */
#define SORT(T, value)                                                                             \
    static void sort_##T(const struct pk_kernel *k, int down, pk_i64 Z, pk_i64 K, pk_i64 N) {      \
        struct problem p = {.sym = {Z, K, N}};                                                     \
        uint32_t seed = (uint32_t)(Z * 3 + K + N);                                                 \
        T *x = add_buffer(&p, Z * K, sizeof(T)), *out = add_result(&p, Z * N, sizeof(T));          \
        pk_i64 *at = add_result(&p, Z * N, 8);                                                     \
        for (pk_i64 i = 0; i < Z * K; i++)                                                         \
            x[i] = value;                                                                          \
        for (pk_i64 i = 0; i < Z * K; i++) {                                                       \
            const T *row = x + i / K * K;                                                          \
            pk_i64 self = i % K, place = 0;                                                        \
            for (pk_i64 j = 0; j < K; j++) {                                                       \
                int less = before_##T(row[j], row[self]), more = before_##T(row[self], row[j]);    \
                place += down ? more : less;                                                       \
                place += !less && !more && j < self;                                               \
            }                                                                                      \
            if (place >= N) continue;                                                              \
            out[i / K * N + place] = row[self];                                                    \
            at[i / K * N + place] = self;                                                          \
        }                                                                                          \
        check(k, &p);                                                                              \
    }

SORT(float, next(&seed) % 11 == 0 ? (float)NAN : small(&seed))
SORT(pk_i64, (pk_i64)(next(&seed) % 23) - 11)

/* ---- all kernels, many sizes ----------------------------------------------------------------- */

static const pk_i64 counts[] = {0, 1, 2, 3, 5, 8, 15, 16, 17, 33, 70};
#define COUNTS (sizeof counts / sizeof *counts)

static void check_lines(const struct pk_kernel *const *k, int lanes, pk_i64 Z, pk_i64 K) {
    reduction(k[1], lanes, 1, 2, Z, K);
    reduction(k[2], lanes, 0, 2, Z, K);
    reduction(k[3], lanes, 1, 1, Z, K);
    eight_levels(k[4], 1, Z, K);
    eight_levels(k[5], 0, Z, K);
    scan_float(k[10], Z, K);
    scan_pk_i64(k[11], Z, K);
    for (size_t i = 0; i < COUNTS; i += 3) {
        pk_i64 N = counts[i];
        scatter_float(k[6], 0, 0, Z, K, N);
        scatter_double(k[7], 1, 0, Z, K, N);
        scatter_pk_i64(k[8], 0, 1, Z, K, N);
        scatter_int(k[9], 1, 1, Z, K, N);
        if (N > K) continue;
        sort_float(k[12], 0, Z, K, N);
        sort_float(k[13], 1, Z, K, N);
        sort_pk_i64(k[14], 1, Z, K, N);
    }
    sort_float(k[12], 0, Z, K, K);
    sort_pk_i64(k[14], 1, Z, K, K);
}

static void test_unit(void **state) {
    const struct build *b = *state;
    if (!processor_has(b->feature)) skip();
    void *handle = NULL;
    const struct pk_unit *unit = unit_open(b, "row_kernels.c", &handle);
    if (!unit) skip();
    const int *lanes = (const int *)dlsym(handle, "lanes");
    assert_non_null(lanes);
    assert_int_equal(unit->n_kernels, 15);
    const struct pk_kernel *const *k = unit->kernels;
    for (size_t i = 0; i < COUNTS; i++) {
        for (size_t j = 0; j < COUNTS; j++) {
            pointwise(k[0], counts[i], counts[j]);
            check_lines(k, *lanes, counts[i], counts[j]);
        }
    }
    /* Pieces of long rows, and several tasks of short ones. */
    static const pk_i64 wide[][2] = {{1, 8191},  {1, 8192}, {2, 8193},
                                     {3, 20001}, {2600, 7}, {9, 1000}};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        pointwise(k[0], wide[i][0], wide[i][1]);
    reduction(k[1], *lanes, 1, 2, 3, 20001);
    reduction(k[2], *lanes, 0, 2, 35, 2001);
    reduction(k[3], *lanes, 1, 1, 700, 50);
    sort_float(k[13], 1, 2, 1000, 37);
    dlclose(handle);
}

int main(void) {
    return run_builds("templates of rows", test_unit);
}
