/* SPDX-License-Identifier: MIT
 * Values for the graph of a problem. Integers keep their full range and floats stay normal; what is
 * chosen here are scales and zero points: without it the results would be thousands, where most
 * post-ops are constant and narrow results overflow.
 *
 * With mean m and mean square r of both operands less their zero points, a sum of k products is
 * about sqrt((k ma mb)^2 + k ra rb); the scales bring it to TARGET, together with those that the
 * operands have not.
 */
#include <math.h>
#include <string.h>

#include "benchdnn.h"

#define TARGET 2.0

static bool named(const char *name, const char *stem) {
    size_t n = strlen(stem);
    return strncmp(name, stem, n) == 0 && (name[n] == '\0' || strcmp(name + n, "_mem") == 0);
}

static struct guarded *find(struct subject *s, const char *stem) {
    for (size_t i = 0; i < s->g->params.n; i++)
        if (named(graph_value(s->g, s->g->params.at[i].value)->name, stem)) return &s->in[i];
    return NULL;
}

static double at(const struct guarded *t, int64_t i) {
    union scalar v = elem_load(t->dtype, t->data, i);
    return dtype_is_float(t->dtype) ? v.f : (double)v.i;
}

static void put(struct guarded *t, int64_t i, double v) {
    union scalar f = {.f = v};
    elem_store(t->dtype, t->data, i, elem_cast(DT_F64, f, t->dtype, true));
}

/* Of a prefix: the values are independent. */
static void moments(const struct guarded *t, double *mean, double *square) {
    int64_t n = t->count < 4096 ? t->count : 4096;
    *mean = *square = 0;
    for (int64_t i = 0; i < n; i++) {
        *mean += at(t, i) / (double)n;
        *square += at(t, i) * at(t, i) / (double)n;
    }
}

/* Scales: positive, from half to one and a half of `center`. */
static void fill_scale(struct guarded *t, double center) {
    for (int64_t i = 0; i < t->count; i++)
        put(t, i, center * (0.5 + (double)(i * 37 % 101) / 100.0));
}

/* A zero point of a wide dtype lies in the range of what it is subtracted from. */
static void fit_zero(struct guarded *z, enum dtype of) {
    int64_t lo = 0, hi = 0;
    dtype_int_range(of, &lo, &hi);
    for (int64_t i = 0; i < z->count; i++) {
        int64_t v = elem_load(z->dtype, z->data, i).i;
        if (v < lo || v > hi) put(z, i, (double)(lo + (v & INT32_MAX) % (hi - lo + 1)));
    }
}

struct side {
    struct guarded *t, *scale, *zero;
    double mean, square;
};

static void look(struct subject *s, const char *name, struct side *o) {
    char word[16] = "";
    o->t = find(s, name);
    strcat(strcpy(word, name), "_s");
    o->scale = find(s, word);
    strcat(strcpy(word, name), "_z");
    o->zero = find(s, word);
    moments(o->t, &o->mean, &o->square);
    if (o->zero == NULL) return;
    if (o->zero->dtype == DT_I32) fit_zero(o->zero, o->t->dtype);
    double m = 0, sq = 0;
    moments(o->zero, &m, &sq);
    o->square += sq - 2 * m * o->mean;
    o->mean -= m;
}

/* The k of the graph's product. */
static double depth(struct subject *s) {
    int64_t shape[MAX_RANK] = {0};
    struct err e;
    err_clear(&e);
    for (value_id v = 1; v < s->g->values.n; v++) {
        const struct node *d = graph_def(s->g, v);
        if (d->op != OP_MATMUL) continue;
        if (dims_shape(s->g, &s->dims, d->in[0], shape, &e) != PROEM_OK) return 1;
        return (double)shape[graph_value(s->g, d->in[0])->rank - 1];
    }
    return 1;
}

static void balance(struct side *a, struct side *b, double k) {
    double m = k * a->mean * b->mean, size = sqrt(m * m + k * a->square * b->square);
    double gain = size > 0 ? TARGET / size : 1, part = a->square > 0 ? 1 / sqrt(a->square) : 1;
    if (a->scale != NULL && b->scale != NULL) {
        fill_scale(a->scale, part);
        fill_scale(b->scale, gain / part);
    } else if (a->scale != NULL || b->scale != NULL) {
        fill_scale(a->scale != NULL ? a->scale : b->scale, gain);
    } else if (dtype_cat(a->t->dtype) == CAT_F) {
        for (int64_t i = 0; i < a->t->count; i++)
            put(a->t, i, at(a->t, i) * gain);
    }
}

void problem_inputs(struct subject *s) {
    struct side a, b;
    look(s, "src", &a);
    look(s, "wei", &b);
    balance(&a, &b, depth(s));
    struct guarded *scale = find(s, "dst_s"), *zero = find(s, "dst_z");
    if (scale != NULL) fill_scale(scale, TARGET / 32);
    if (zero != NULL && zero->dtype == DT_I32) fit_zero(zero, DT_I8);
    for (size_t i = 0; i < s->g->params.n; i++) { /* operands of post-ops */
        bool post = graph_value(s->g, s->g->params.at[i].value)->name[0] == 'x';
        if (post && s->in[i].dtype == DT_I32) fit_zero(&s->in[i], DT_I4);
    }
}
