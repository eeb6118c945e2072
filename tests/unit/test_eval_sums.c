/* SPDX-License-Identifier: MIT
 * Intervals of what sums, sorts and attends: float programs in several orders stay inside.
 */
#include "eval_util.h"

static uint64_t next(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 11;
}

static double normal(uint64_t *s) {
    double v = 0;
    for (int i = 0; i < 6; i++) {
        v += (double)next(s) * 0x1p-52 - 1;
    }
    return v * 0.7;
}

static float bf16(float x) {
    return (float)float_round(DT_BF16, (double)x, false);
}

static void expect_inside(const struct fixture *f, int o, const char *what, const float *y) {
    const struct eval_result *r = &f->results.at[o];
    char out[4096];
    assert_true(dtype_bytes(r->dtype, r->n) <= (int64_t)sizeof out);
    for (int64_t i = 0; i < r->n; i++) {
        union scalar v = {.f = float_round(r->dtype, (double)y[i], false)};
        if (!dtype_is_float(r->dtype)) v.i = (int64_t)y[i];
        elem_store(r->dtype, out, i, v);
    }
    struct eval_report rep;
    eval_compare(r, out, &rep);
    if (!rep.ok)
        fail_msg("%s: ratio %g at %d, error %g", what, rep.bound_ratio, (int)rep.worst,
                 rep.max_err);
    assert_int_equal(rep.unbounded, 0);
}

#define ROW  200
#define ROWS 5

static float sum_of(const float *x, int n, uint64_t order) {
    float part[8] = {0};
    int lanes = order % 3 == 0 ? 1 : order % 3 == 1 ? 4 : 8;
    for (int i = 0; i < n; i++) {
        int k = order % 2 ? n - 1 - i : i;
        part[k % lanes] += x[k];
    }
    for (int l = 1; l < lanes; l++) {
        part[0] += part[l];
    }
    return part[0];
}

static void rows_of_f32(void **state) {
    (void)state;
    uint64_t s = 31;
    for (int round = 0; round < 30; round++) {
        struct fixture f;
        fx_parse(
            &f, "graph g(x: f32[5, 200], w: f32[200], b: f32[200]) {\n"
                "  t = x + 3\n"
                "  return sum(t, axes=[1]), mean(t, axes=[1]), softmax(x * 5), log_softmax(x), "
                "rms_norm(t, w), layer_norm(t, w, b), cumsum(x, axis=1), prod(x + 1, axes=[1])\n}");
        static double x[ROWS * ROW], w[ROW], b[ROW];
        for (int i = 0; i < ROWS * ROW; i++) {
            x[i] = (double)(float)normal(&s);
            if (i < ROW) w[i] = (double)(float)normal(&s);
            if (i < ROW) b[i] = (double)(float)normal(&s);
        }
        FX_INPUT(&f, 0, x, ROWS, ROW);
        FX_INPUT(&f, 1, w, ROW);
        FX_INPUT(&f, 2, b, ROW);
        f.options.mode = round % 2 ? EVAL_BOUNDARY : EVAL_EAGER;
        fx_run(&f);
        fx_expect_inside(&f);
        float sums[ROWS], means[ROWS], prods[ROWS];
        static float soft[ROWS * ROW], logs[ROWS * ROW], rms[ROWS * ROW], layer[ROWS * ROW],
            cum[ROWS * ROW];
        for (int r = 0; r < ROWS; r++) {
            float t[ROW], e[ROW], d[ROW], m = -INFINITY;
            for (int k = 0; k < ROW; k++) {
                t[k] = (float)x[r * ROW + k] + 3;
                m = fmaxf(m, (float)x[r * ROW + k] * 5);
            }
            sums[r] = sum_of(t, ROW, next(&s));
            means[r] = round % 3 ? sum_of(t, ROW, next(&s)) / ROW
                                 : sum_of(t, ROW, next(&s)) * (1.0f / ROW);
            float m1 = m / 5, mean = sum_of(t, ROW, next(&s)) / ROW, run = 0;
            prods[r] = 1;
            for (int k = 0; k < ROW; k++) {
                e[k] = expf((float)x[r * ROW + k] * 5 - m);
                d[k] = expf((float)x[r * ROW + k] - m1);
                prods[r] *= (float)x[r * ROW + k] + 1;
                run += (float)x[r * ROW + k];
                cum[r * ROW + k] = run;
            }
            float se = sum_of(e, ROW, next(&s)), sd = logf(sum_of(d, ROW, next(&s)));
            for (int k = 0; k < ROW; k++) {
                soft[r * ROW + k] = round % 3 ? e[k] / se : e[k] * (1 / se);
                logs[r * ROW + k] = round % 3 ? ((float)x[r * ROW + k] - m1) - sd
                                              : (float)x[r * ROW + k] - (m1 + sd);
                e[k] = t[k] * t[k];
                d[k] = (t[k] - mean) * (t[k] - mean);
            }
            float rr = 1 / sqrtf(sum_of(e, ROW, next(&s)) / ROW + 1e-6f),
                  rl = 1 / sqrtf(sum_of(d, ROW, next(&s)) / ROW + 1e-5f);
            for (int k = 0; k < ROW; k++) {
                rms[r * ROW + k] = t[k] * rr * (float)w[k];
                layer[r * ROW + k] = (t[k] - mean) * rl * (float)w[k] + (float)b[k];
            }
        }
        expect_inside(&f, 0, "sum", sums);
        expect_inside(&f, 1, "mean", means);
        expect_inside(&f, 2, "softmax", soft);
        expect_inside(&f, 3, "log_softmax", logs);
        expect_inside(&f, 4, "rms_norm", rms);
        expect_inside(&f, 5, "layer_norm", layer);
        expect_inside(&f, 6, "cumsum", cum);
        expect_inside(&f, 7, "prod", prods);
        fx_free(&f);
    }
}

/* Values that intervals leave open sort, win and round in more than one way. */
static void open_orders(void **state) {
    (void)state;
    uint64_t s = 37;
    for (int round = 0; round < 40; round++) {
        struct fixture f;
        fx_parse(&f, "graph g(a: bf16[40], b: bf16[40], i: i64[40]) {\n"
                     "  t = a * b\n"
                     "  v, k = topk(t, 7)\n"
                     "  return v, k, argsort(t), argmax(t), max(t), round(t * 2), cast(t * 4, "
                     "i32), cast(t > a, i8), scatter_add(slice(a, axis=0, stop=3), i, t), "
                     "quantize(t, 0.25, dtype=i8)\n}");
        double a[40], b[40], ix[40];
        for (int i = 0; i < 40; i++) {
            a[i] = (double)bf16(1 + (float)(next(&s) % 16) / 64);
            b[i] = (double)bf16(1 + (float)(next(&s) % 16) / 64);
            ix[i] = (double)(next(&s) % 3);
        }
        FX_INPUT(&f, 0, a, 40);
        FX_INPUT(&f, 1, b, 40);
        FX_INPUT(&f, 2, ix, 40);
        fx_run(&f);
        fx_expect_inside(&f);
        for (int rounded = 0; rounded < 2; rounded++) {
            float t[40], out[40], top[7], first[7], whole[40], ints[40], gt[40], add[3], q[40];
            for (int i = 0; i < 40; i++) {
                t[i] = (float)a[i] * (float)b[i];
                if (rounded) t[i] = bf16(t[i]);
                whole[i] = nearbyintf(rounded ? bf16(t[i] * 2) : t[i] * 2);
                ints[i] = truncf(rounded ? bf16(t[i] * 4) : t[i] * 4);
                gt[i] = t[i] > (float)a[i];
                q[i] = nearbyintf(t[i] / 0.25f);
                if (i < 3) add[i] = (float)a[i];
            }
            for (int i = 0; i < 40; i++) {
                add[(int)ix[i]] += t[i];
                int up = 0, down = 0;
                for (int j = 0; j < 40; j++) {
                    up += t[j] < t[i] || (j < i && t[j] == t[i]);
                    down += t[j] > t[i] || (j < i && t[j] == t[i]);
                }
                out[up] = (float)i;
                if (down < 7) top[down] = t[i];
                if (down < 7) first[down] = (float)i;
            }
            expect_inside(&f, 0, "topk values", top);
            expect_inside(&f, 1, "topk indices", first);
            expect_inside(&f, 2, "argsort", out);
            expect_inside(&f, 3, "argmax", first);
            expect_inside(&f, 4, "max", top);
            expect_inside(&f, 5, "round", whole);
            expect_inside(&f, 6, "cast", ints);
            expect_inside(&f, 7, "greater", gt);
            expect_inside(&f, 8, "scatter_add", add);
            expect_inside(&f, 9, "quantize", q);
        }
        fx_free(&f);
    }
}

#define KEYS 50
#define DIM  16

/* Attention as fused kernels do it: a running maximum over blocks of keys, weights rounded to bf16
 * before the division, scores scaled through q or afterwards. */
static void online(const double *q, const double *k, const double *v, int i, int block, bool round,
                   float *o) {
    float m = -INFINITY, l = 0;
    memset(o, 0, DIM * sizeof *o);
    for (int j0 = 0; j0 <= i; j0 += block) {
        float s[KEYS], top = m;
        int j1 = j0 + block < i + 1 ? j0 + block : i + 1;
        for (int j = j0; j < j1; j++) {
            float dot = 0;
            for (int d = 0; d < DIM; d++) {
                dot = fmaf(round ? (float)q[i * DIM + d] : (float)q[i * DIM + d] * 0.25f,
                           (float)k[j * DIM + d], dot);
            }
            s[j] = 10 * tanhf((round ? dot * 0.25f : dot) / 10);
            top = fmaxf(top, s[j]);
        }
        float shrink = expf(m - top);
        m = top;
        l *= shrink;
        for (int d = 0; d < DIM; d++) {
            o[d] *= shrink;
        }
        for (int j = j0; j < j1; j++) {
            float p = expf(s[j] - m);
            l += p;
            for (int d = 0; d < DIM; d++) {
                o[d] = fmaf(round ? bf16(p) : p, (float)v[j * DIM + d], o[d]);
            }
        }
    }
    for (int d = 0; d < DIM; d++) {
        o[d] = round ? o[d] / l : o[d] * (1 / l);
    }
}

static void attention_online(void **state) {
    (void)state;
    uint64_t s = 41;
    for (int round = 0; round < 12; round++) {
        struct fixture f;
        fx_parse(&f,
                 "graph g(q: bf16[1, 1, 50, 16], k: bf16[1, 1, 50, 16], v: bf16[1, 1, 50, 16]) {\n"
                 "  o = attention(q, k, v) {\n    score(s, b, h, i, j) = 10.0 * tanh(s / 10.0)\n   "
                 " mask(b, h, i, j) = j <= i\n  }\n  return o\n}");
        static double in[3][KEYS * DIM];
        for (int t = 0; t < 3; t++) {
            for (int i = 0; i < KEYS * DIM; i++) {
                in[t][i] = (double)bf16((float)normal(&s) * 2);
            }
            FX_INPUT(&f, t, in[t], 1, 1, KEYS, DIM);
        }
        fx_run(&f);
        fx_expect_inside(&f);
        static float out[KEYS * DIM];
        for (int way = 0; way < 4; way++) {
            for (int i = 0; i < KEYS; i++) {
                online(in[0], in[1], in[2], i, way < 2 ? 16 : KEYS, way % 2, out + i * DIM);
            }
            expect_inside(&f, 0, "attention", out);
        }
        for (int i = 0; i < KEYS * DIM; i++) {
            out[i] += 0.5f;
        }
        struct eval_report rep;
        char wrong[KEYS * DIM * 2];
        for (int i = 0; i < KEYS * DIM; i++) {
            elem_store(DT_BF16, wrong, i, (union scalar){.f = (double)bf16(out[i])});
        }
        eval_compare(&f.results.at[0], wrong, &rep);
        assert_false(rep.ok);
        fx_free(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_f32),
        cmocka_unit_test(open_orders),
        cmocka_unit_test(attention_online),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
