/* SPDX-License-Identifier: MIT
 *
 * The matmul templates with plain hooks (tests/templates/matmul_kernels.c), compiled as generated
 * code is: by each C compiler that is there, for each instruction set that the processor has.
 * Every tensor and every scratch area ends at a page that cannot be touched. Numbers are small
 * integers, so that sums are exact; one test checks the K order on fractions. Each result must be
 * stored exactly once, whatever the number of threads and the order of tasks.
 */
#define _GNU_SOURCE
#include <math.h>

#include "template_util.h"

enum { F32, F64, I32, I64 };

struct operands {
    int type, nb, a_axis, b_axis[3];
    /* K order: 0 one chain, 1 a chain for each lane, more: one for each group of so many, and the
     * sums of groups have factors */
    int order;
};

/* In the order of matmul_kernels.c. */
static const struct operands kernels[] = {
    {F32, 1, 1, {1}, 0},       {F32, 1, 0, {0}, 0},    {F32, 3, 1, {0, 1, 0}, 0},
    {F32, 2, 0, {1, 0}, 0},    {F64, 1, 1, {1}, 0},    {I32, 1, 1, {0}, 0},
    {I64, 1, 0, {1}, 0},       {F32, 1, 1, {1}, 1},    {F32, 1, 1, {0}, 0},
    {F32, 3, 0, {0, 1, 0}, 1}, {F64, 2, 1, {1, 1}, 1}, {I32, 1, 1, {0}, 0},
    {I64, 1, 0, {1}, 1},       {F32, 2, 1, {1, 0}, 0}, {F32, 2, 0, {0, 1}, 0},
    {F32, 2, 1, {1, 0}, 1},    {F32, 2, 0, {1, 0}, 1}, {F32, 1, 1, {0}, 0},
    {F32, 1, 0, {0}, 16},      {F32, 1, 1, {0}, 21},   {F32, 1, 1, {0}, 0},
};

static size_t type_size(int type) {
    return type == F32 || type == I32 ? 4 : 8;
}

static void put(int type, void *at, pk_i64 i, double x) {
    switch (type) {
    case F32: ((float *)at)[i] = (float)x; break;
    case F64: ((double *)at)[i] = x; break;
    case I32: ((int32_t *)at)[i] = (int32_t)x; break;
    default: ((int64_t *)at)[i] = (int64_t)x; break;
    }
}

static double get(int type, const void *at, pk_i64 i) {
    switch (type) {
    case F32: return (double)((const float *)at)[i];
    case F64: return ((const double *)at)[i];
    case I32: return ((const int32_t *)at)[i];
    default: return (double)((const int64_t *)at)[i];
    }
}

struct problem {
    struct area buf[7];
    void *at[7];
    pk_i64 sym[4];
    double *want;
};

static struct problem problem_new(const struct operands *o, pk_i64 Z, pk_i64 M, pk_i64 N, pk_i64 K,
                                  int fractions, int lanes) {
    struct problem p = {.sym = {Z, M, N, K}};
    pk_i64 s = (pk_i64)type_size(o->type);
    pk_i64 size[7] = {Z * M * K, Z * N * K, Z * N * K, Z * N * K, N, Z * M * N, Z * M * N};
    uint32_t seed = (uint32_t)(M * 7 + N * 3 + K);
    for (int i = 0; i < 7; i++) {
        p.buf[i] = area_new(size[i] * (i == 6 ? 1 : s), i == 6 ? 1 : s);
        p.at[i] = p.buf[i].at;
        for (pk_i64 j = 0; j < size[i] && i < 5; j++) {
            double x = (double)(next(&seed) % 9) - 4;
            put(o->type, p.at[i], j, fractions ? x + (double)(next(&seed) % 4096) / 4097 : x);
        }
    }
    p.want = calloc((size_t)(Z * M * N) + 1, sizeof *p.want);
    assert_non_null(p.want);
    static const double factor[3] = {1, 3, 5};
    for (pk_i64 z = 0; z < Z; z++)
        for (pk_i64 m = 0; m < M; m++)
            for (pk_i64 n = 0; n < N; n++) {
                double sum = get(o->type, p.at[4], n);
                for (int b = 0; b < o->nb; b++) {
                    double acc = 0, chain[16] = {0}, groups = 0;
                    for (pk_i64 k = 0; k < K; k++) {
                        pk_i64 ai = o->a_axis ? (z * M + m) * K + k : (z * K + k) * M + m;
                        pk_i64 bi = o->b_axis[b] ? (z * N + n) * K + k : (z * K + k) * N + n;
                        double x = get(o->type, p.at[0], ai), y = get(o->type, p.at[1 + b], bi);
                        double *c = lanes ? &chain[k % lanes] : &acc;
                        *c = fractions ? (double)fmaf((float)x, (float)y, (float)*c) : *c + x * y;
                        if (o->order <= 1 || ((k + 1) % o->order != 0 && k + 1 < K)) continue;
                        double by = 1 + (double)((n + k / o->order) % 3);
                        groups = fractions ? (double)fmaf((float)acc, (float)by, (float)groups)
                                           : groups + acc * by;
                        acc = 0;
                    }
                    if (o->order > 1) acc = groups;
                    for (int half = lanes / 2; half; half /= 2)
                        for (int l = 0; l < half; l++)
                            chain[l] = (double)((float)chain[l] + (float)chain[l + half]);
                    if (lanes) acc = chain[0];
                    sum = fractions ? (double)((float)sum + (float)acc) : sum + acc * factor[b];
                }
                p.want[(z * M + m) * N + n] = sum;
            }
    return p;
}

static void problem_free(struct problem *p) {
    for (int i = 0; i < 7; i++)
        area_free(&p->buf[i]);
    free(p->want);
}

/* Runs and checks; `packed` says whether constant operands are packed once. */
static void run_and_check(const struct pk_kernel *k, const struct operands *o, struct problem *p,
                          int threads, int backward, int packed) {
    memset(p->buf[5].at, 0xff, p->buf[5].size);
    memset(p->buf[6].at, 0, p->buf[6].size);
    struct pk_args g = {.buf = p->at, .sym = p->sym, .threads = threads};
    struct area once[2] = {{0}};
    void *once_at[2] = {NULL, NULL};
    int n_once = packed ? k->operands : 0;
    for (int i = 0; i < n_once; i++) {
        once[i] = area_new(k->packed_bytes(&g, i), 64);
        once_at[i] = once[i].at;
        pk_i64 n = k->pack_tasks(&g, i);
        for (pk_i64 t = 0; t < n; t++)
            k->pack(&g, i, backward ? n - 1 - t : t, once_at[i]);
    }
    if (packed) g.packed = once_at;
    struct area shared = area_new(k->shared_bytes(&g), 64),
                local = area_new(k->local_bytes(&g), 64);
    g.shared = shared.at;
    g.local = local.at;
    for (int phase = 0; phase < k->phases; phase++) {
        pk_i64 n = k->tasks(&g, phase);
        for (pk_i64 t = 0; t < n; t++) {
            memset(local.at, 0xff, local.size);
            k->run(&g, phase, backward ? n - 1 - t : t);
        }
    }
    pk_i64 n = p->sym[0] * p->sym[1] * p->sym[2];
    for (pk_i64 i = 0; i < n; i++) {
        double got = get(o->type, p->at[5], i);
        int count = ((const unsigned char *)p->at[6])[i];
        if (count != 1 || got != p->want[i])
            fail_msg("%s Z=%d M=%d N=%d K=%d threads %d packed %d: element %d is %g, not %g; "
                     "stored %d times",
                     k->name, (int)p->sym[0], (int)p->sym[1], (int)p->sym[2], (int)p->sym[3],
                     threads, packed, (int)i, got, p->want[i], count);
    }
    area_free(&shared);
    area_free(&local);
    for (int i = 0; i < n_once; i++)
        area_free(&once[i]);
}

static const pk_i64 shapes[][4] = {
    {1, 1, 1, 1},     {1, 1, 1, 0},    {1, 5, 3, 0},    {1, 0, 4, 4},    {0, 4, 4, 4},
    {1, 4, 0, 4},     {1, 16, 16, 16}, {1, 2, 17, 5},   {1, 7, 33, 31},  {1, 13, 47, 33},
    {3, 9, 20, 17},   {2, 33, 65, 70}, {1, 67, 130, 9}, {1, 100, 5, 64}, {1, 130, 97, 129},
    {1, 15, 300, 40}, {2, 1, 70, 300}, {1, 3, 129, 48}, {1, 8, 64, 100}, {1, 6, 31, 64},
};

static void test_unit(void **state) {
    const struct build *b = *state;
    if (!processor_has(b->feature)) skip();
    void *handle = NULL;
    const struct pk_unit *unit = unit_open(b, "matmul_kernels.c", &handle);
    if (!unit) skip();
    const int *lanes = (const int *)dlsym(handle, "lanes");
    assert_non_null(lanes);
    assert_int_equal(unit->n_kernels, sizeof kernels / sizeof *kernels);
    for (int i = 0; i < unit->n_kernels; i++) {
        const struct pk_kernel *k = unit->kernels[i];
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            const pk_i64 *d = shapes[s];
            struct problem p = problem_new(&kernels[i], d[0], d[1], d[2], d[3], 0, 0);
            for (int packed = 0; packed <= (k->operands > 0); packed++)
                for (int threads = 1; threads <= 3; threads += 2)
                    run_and_check(k, &kernels[i], &p, threads, threads == 3, packed);
            problem_free(&p);
        }
        /* The order of a sum: one chain of fused multiply-adds, or one for each lane. */
        if (kernels[i].type != F32 || kernels[i].nb > 1) continue;
        struct problem p =
            problem_new(&kernels[i], 1, 19, 37, 301, 1, kernels[i].order == 1 ? *lanes : 0);
        run_and_check(k, &kernels[i], &p, 1, 0, 0);
        run_and_check(k, &kernels[i], &p, 2, 1, 0);
        problem_free(&p);
    }
    dlclose(handle);
}

int main(void) {
    return run_builds("matmul templates", test_unit);
}
