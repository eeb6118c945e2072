/* SPDX-License-Identifier: MIT
 * suite_run (suite.h): subjects and variants of a batch, one unit of C for all their kernels, then
 * one graph after the other.
 *
 * What must hold: each mode's outputs lie in the intervals of the reference for that mode, `eager`
 * fused equals `eager` unfused, a data error is found by both or by neither, and the guards around
 * inputs and outputs are untouched.
 */
#include "suite.h"

#include <stdio.h>
#include <string.h>

static const struct {
    enum precision prec;
    enum fuse_policy policy;
} variants[SUITE_VARIANTS] = {{PREC_BOUNDARY, FUSE_MODEL},
                              {PREC_EAGER, FUSE_MODEL},
                              {PREC_EAGER, FUSE_NEVER},
                              {PREC_NATIVE, FUSE_MODEL},
                              {PREC_BOUNDARY, FUSE_ALWAYS}};

struct work {
    struct subject s;
    struct variant v[SUITE_VARIANTS];
    int n;
    bool open;
};

static void say(struct outcome *o, enum outcome_state state, const char *where,
                const struct err *e) {
    o->state = state;
    snprintf(o->text, sizeof o->text, "%.40s: %.500s", where, e->text);
}

static void variant_label(const struct variant *v, char *out, size_t n) {
    static const char *const policy[] = {"", "/always", "/never"};
    snprintf(out, n, "%s%s", mode_name(v->prec), policy[v->policy]);
}

static bool open_work(struct rig *r, const struct suite_item *item, struct work *w,
                      struct outcome *o) {
    struct err e;
    err_clear(&e);
    enum proem_status s =
        subject_open(&w->s, item->text, item->dims, item->n_dims, item->seed, item->fill, &e);
    if (s != PROEM_OK) {
        say(o, s == PROEM_UNSUPPORTED ? OUTCOME_SKIPPED : OUTCOME_FAILED, "open", &e);
        return false;
    }
    w->open = true;
    if (item->prepare != NULL) item->prepare(&w->s);
    w->n = item->brief ? 1 : SUITE_VARIANTS;
    for (int i = 0; i < w->n; i++) {
        struct variant *v = &w->v[i];
        if (variant_plan(v, &w->s, variants[i].prec, variants[i].policy, r) == PROEM_OK) continue;
        char label[40];
        variant_label(v, label, sizeof label);
        snprintf(o->text, sizeof o->text, "plan %s: %.400s", label, v->err.text);
        o->state = v->status == PROEM_UNSUPPORTED ? OUTCOME_SKIPPED : OUTCOME_FAILED;
        return false;
    }
    int kernels = o->kernels = (int)w->v[0].plan.kernels.n;
    if ((item->max_kernels > 0 && kernels > item->max_kernels) || kernels < item->min_kernels) {
        o->state = OUTCOME_FAILED;
        snprintf(o->text, sizeof o->text, "%d kernels; expected %d to %d", kernels,
                 item->min_kernels, item->max_kernels);
        return false;
    }
    return true;
}

/* Does the variant agree with the reference of its mode? Fills *o if not. */
static bool check_variant(struct rig *r, struct work *w, struct variant *v,
                          const struct suite_item *item, struct outcome *o) {
    char label[40];
    variant_label(v, label, sizeof label);
    struct err e;
    err_clear(&e);
    struct eval_results ref = {.alloc = &allocator_default};
    enum proem_status want = subject_reference(&w->s, v->prec, item->rows, r->threads, &ref, &e);
    variant_run(r, v);
    bool ok = true;
    if (want == PROEM_UNSUPPORTED || v->status == PROEM_UNSUPPORTED) {
        say(o, OUTCOME_SKIPPED, label, want == PROEM_UNSUPPORTED ? &e : &v->err);
        ok = false;
    } else if (want != v->status) {
        snprintf(o->text, sizeof o->text, "%s: the reference says '%.180s', the run '%.180s'",
                 label, want == PROEM_OK ? "ok" : e.text,
                 v->status == PROEM_OK ? "ok" : v->err.text);
        ok = false;
    } else if (want == PROEM_OK) {
        double ratio = 0;
        if (variant_check(v, &ref, &ratio, &e) != PROEM_OK) {
            say(o, OUTCOME_FAILED, label, &e);
            ok = false;
        }
    }
    if (!ok && o->state == OUTCOME_NONE) o->state = OUTCOME_FAILED;
    eval_results_free(&ref);
    return ok;
}

static bool same_outputs(const struct work *w, const struct variant *a, const struct variant *b,
                         struct outcome *o) {
    if (a->status != PROEM_OK || b->status != PROEM_OK) return true;
    for (size_t i = 0; i < w->s.g->outputs.n; i++) {
        int64_t at = 0;
        if (guarded_same(&a->out[i], &b->out[i], &at)) continue;
        union scalar x = elem_load(a->out[i].dtype, a->out[i].data, at);
        union scalar y = elem_load(b->out[i].dtype, b->out[i].data, at);
        bool f = dtype_is_float(a->out[i].dtype);
        o->state = OUTCOME_FAILED;
        snprintf(o->text, sizeof o->text,
                 "eager: fused and unfused differ: output %d[%lld] is %.17g fused, %.17g unfused",
                 (int)i, (long long)at, f ? x.f : (double)x.i, f ? y.f : (double)y.i);
        return false;
    }
    return true;
}

static void finish_work(struct rig *r, struct work *w, const struct suite_item *item,
                        struct outcome *o) {
    for (int i = 0; i < w->n; i++)
        if (!check_variant(r, w, &w->v[i], item, o)) return;
    if (w->n == SUITE_VARIANTS && !same_outputs(w, &w->v[1], &w->v[2], o)) return;
    o->state = OUTCOME_PASSED;
}

void suite_run(struct rig *r, const struct suite_item *items, int first, int count,
               volatile int *at, struct outcome *out) {
    struct work *w = mem_alloc(&allocator_default, (size_t)count, sizeof *w);
    struct variant **v = mem_alloc(&allocator_default, (size_t)count * SUITE_VARIANTS, sizeof *v);
    if (w == NULL || v == NULL) return;
    memset(w, 0, (size_t)count * sizeof *w);
    int n = 0;
    for (int i = 0; i < count; i++) {
        struct outcome *o = &out[first + i];
        if (o->state != OUTCOME_NONE) continue;
        *at = first + i;
        if (!open_work(r, &items[first + i], &w[i], o)) continue;
        for (int k = 0; k < w[i].n; k++)
            v[n++] = &w[i].v[k];
    }
    *at = -1;
    variants_compile(r, v, n);
    for (int i = 0; i < count; i++) {
        struct outcome *o = &out[first + i];
        *at = first + i;
        if (o->state == OUTCOME_NONE) finish_work(r, &w[i], &items[first + i], o);
        for (int k = 0; w[i].open && k < w[i].n; k++)
            variant_close(&w[i].v[k]);
        if (w[i].open) subject_close(&w[i].s);
    }
    mem_free(&allocator_default, v, (size_t)count * SUITE_VARIANTS, sizeof *v);
    mem_free(&allocator_default, w, (size_t)count, sizeof *w);
}
