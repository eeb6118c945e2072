/* SPDX-License-Identifier: MIT
 * Every allocation of an evaluation fails once: no crash, no leak, and the status says so.
 */
#include "eval_util.h"

struct budget {
    long left; /* allocations until failure; negative: none fails */
    long made, live;
};

static void *budget_alloc(void *user, size_t size, size_t align) {
    struct budget *b = user;
    if (b->left == 0) return NULL;
    if (b->left > 0) b->left--;
    b->made++;
    b->live++;
    return allocator_default.alloc(NULL, size, align);
}

static void budget_free(void *user, void *p, size_t size) {
    struct budget *b = user;
    b->live--;
    allocator_default.free(NULL, p, size);
}

static void failing(const char *text, int64_t rows, const double *const *values) {
    struct fixture f;
    struct budget b = {.left = -1};
    struct allocator alloc = {budget_alloc, budget_free, &b};
    fx_parse(&f, text);
    for (size_t i = 0; i < f.g->params.n; i++) {
        int64_t shape[MAX_RANK];
        value_id v = f.g->params.at[i].value;
        assert_int_equal(dims_shape(f.g, &f.binding, v, shape, &f.err), PROEM_OK);
        fx_input(&f, (int)i, graph_value(f.g, v)->rank, shape, values[i]);
    }
    f.alloc = &alloc;
    f.results.alloc = &alloc;
    f.options.rows = rows;
    fx_run(&f);
    long all = b.made;
    eval_results_free(&f.results);
    assert_int_equal(b.live, 0);
    for (long k = 0; k < all; k++) {
        b = (struct budget){.left = k};
        err_clear(&f.err);
        enum proem_status s = fx_try(&f);
        if (s != PROEM_NOMEM) fail_msg("allocation %ld of %ld: status %d", k, all, (int)s);
        assert_int_equal(f.err.status, PROEM_NOMEM);
        assert_int_equal(b.live, 0);
    }
    f.alloc = f.results.alloc = &allocator_default;
    fx_free(&f);
}

static double data[256];

static void prologues(void **state) {
    (void)state;
    const double *const in[] = {data, data + 9, data + 30, data + 50};
    for (int64_t rows = 0; rows < 3; rows += 2) {
        failing(
            "graph g(x: bf16[4, 6], q: u4[5, 6], s: bf16[5], z: u4[5]) {\n"
            "  w = dequantize(q, s, z, axis=0)\n"
            "  h = rms_norm(x * 2)\n"
            "  y = softmax(matmul(h, transpose(w)) + s)\n"
            "  return y, quantize(linear(x, w, s), 0.5), cumsum(y, axis=1), sum(y, axes=[0])\n}",
            rows, in);
    }
}

static void attention(void **state) {
    (void)state;
    const double *const in[] = {data, data + 9, data + 30, data + 50};
    for (int64_t rows = 0; rows < 3; rows += 2) {
        failing("graph g(q: f16[1, 2, 3, 2], k: f16[1, 1, 4, 2], v: f16[1, 1, 4, 2], t: f32[2]) {\n"
                "  o, l = attention(q, k, v) {\n"
                "    score(s, b, h, i, j) = s + take(t, h)\n"
                "    mask(b, h, i, j) = j <= i + 1\n"
                "    prob(p, b, h, i, j) = p * 0.5\n  }\n"
                "  return o, l\n}",
                rows, in);
    }
}

static void moving(void **state) {
    (void)state;
    const double *const in[] = {data, data + 9, data + 30};
    failing("graph g(x: f32[4, 3], i: i32[2], s: f32[2, 3]) {\n"
            "  v, k = topk(x / 3, 2)\n"
            "  t = scatter_add(scatter(x, i, s), i, s / 7)\n"
            "  return v, k, concat(take(t, i), flip(s, axes=[0]), axis=1), where(t > 0.1, t, "
            "pad(s, low=[1, 0], high=[1, 0])), argmax(t), argsort(t), grouped_matmul(x, "
            "reshape(expand(x, [3, 4, 3]), [4, 3, 3]), iota(i32, [4], axis=0))\n}",
            0, in);
}

int main(void) {
    for (size_t i = 0; i < COUNT_OF(data); i++) {
        data[i] = (double)(i * 7 % 3);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prologues),
        cmocka_unit_test(attention),
        cmocka_unit_test(moving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
