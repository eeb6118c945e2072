/* SPDX-License-Identifier: MIT
 * A program compiled through the C API, run on a subject's guarded inputs and held against the
 * reference interpreter; the same program runs with many sizes.
 */
#ifndef REPORTS_API_H
#define REPORTS_API_H

#include "api_util.h"
#include "reports_util.h"

static inline DLDataType dl_type(enum dtype d) {
    int64_t lo = 0, hi = 0;
    uint8_t code = kDLUInt;
    if (d == DT_BF16)
        code = kDLBfloat;
    else if (d == DT_BOOL)
        code = PROEM_DL_BOOL;
    else if (dtype_is_float(d))
        code = kDLFloat;
    else if (dtype_int_range(d, &lo, &hi), lo < 0)
        code = kDLInt;
    return (DLDataType){code, (uint8_t)dtype_bits(d), 1};
}

static inline void tensor_of(struct tensor *x, const struct guarded *t) {
    DLDataType d = dl_type(t->dtype);
    tensor_set(x, t->data, d.code, d.bits, t->rank, t->shape);
}

static inline void set_strides(struct tensor *x, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t s[] = {a, b, c, d};
    memcpy(x->strides, s, sizeof s);
    x->t.strides = x->strides;
}

struct call {
    struct subject s;
    struct tensor in[N_TENSORS], out[N_TENSORS];
    struct guarded result[N_TENSORS];
    const DLTensor *in_at[N_TENSORS];
    DLTensor *out_at[N_TENSORS];
    size_t n_in, n_out;
};

/* Inputs from the seed, outputs full of NaN. values: rules as in a report's row. */
static inline void call_open(struct call *c, const char *text, const struct dim_value *dims,
                             int n_dims, const struct named *values) {
    struct err e;
    err_clear(&e);
    memset(c, 0, sizeof *c);
    if (subject_open(&c->s, text, dims, n_dims, 3, FILL_RANDOM, &e) != PROEM_OK)
        fail_msg("%s", e.text);
    for (; values != NULL && values->name != NULL; values++)
        fill_by_rule(&c->s.in[param_index(&c->s, values->name)], values->value);
    c->n_in = c->s.g->params.n;
    c->n_out = c->s.g->outputs.n;
    for (size_t i = 0; i < c->n_in; i++) {
        tensor_of(&c->in[i], &c->s.in[i]);
        c->in_at[i] = &c->in[i].t;
    }
    for (size_t i = 0; i < c->n_out; i++) {
        struct guarded *t = &c->result[i];
        value_id v = c->s.g->outputs.at[i].value;
        t->dtype = graph_value(c->s.g, v)->dtype;
        t->rank = graph_value(c->s.g, v)->rank;
        assert_int_equal(dims_shape(c->s.g, &c->s.dims, v, t->shape, &e), PROEM_OK);
        assert_true(guarded_new(t, 1));
        tensor_of(&c->out[i], t);
        c->out_at[i] = &c->out[i].t;
    }
}

static inline void call_close(struct call *c) {
    for (size_t i = 0; i < c->n_out; i++)
        guarded_free(&c->result[i]);
    subject_close(&c->s);
}

static inline void call_run(struct call *c, proem_execution *x) {
    run_ok(x, c->in_at, c->n_in, c->out_at, c->n_out);
    for (size_t i = 0; i < c->n_out; i++)
        assert_true(guarded_intact(&c->result[i]));
    for (size_t i = 0; i < c->n_in; i++)
        assert_true(guarded_intact(&c->s.in[i]));
}

/* In the reference's intervals. */
static inline void call_check(struct call *c, int64_t rows) {
    struct err e;
    err_clear(&e);
    struct eval_results ref = {.alloc = &allocator_default};
    if (subject_reference(&c->s, PREC_BOUNDARY, rows, 2, &ref, &e) != PROEM_OK)
        fail_msg("%s", e.text);
    for (int i = 0; i < ref.n; i++) {
        struct eval_report r;
        eval_compare(&ref.at[i], c->result[i].data, &r);
        if (r.ok && r.unbounded == 0) continue;
        fail_msg("%s[%lld] is %.9g; bound_ratio %.3g, %lld unbounded", ref.at[i].name,
                 (long long)r.worst,
                 r.worst >= 0 ? value_at(c->result[i].dtype, c->result[i].data, r.worst) : 0.0,
                 r.bound_ratio, (long long)r.unbounded);
    }
    eval_results_free(&ref);
}

static inline proem_execution *execution_of(proem_program *p) {
    proem_execution *x = NULL;
    assert_int_equal(proem_execution_create(p, &x), PROEM_OK);
    return x;
}

/* One run with these sizes, checked. */
static inline void run_sizes(proem_execution *x, const char *text, const struct dim_value *dims,
                             int n_dims, int64_t rows, const struct named *values) {
    struct call c;
    call_open(&c, text, dims, n_dims, values);
    call_run(&c, x);
    call_check(&c, rows);
    call_close(&c);
}

#endif
