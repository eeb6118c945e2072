/* SPDX-License-Identifier: MIT
 * Operands packed once: a constant matrix in the order in which a kernel wants it, made at the
 * first run and kept while the constant stays where it is.
 *
 * A packed form is known by the views (address, dtype size, shape, strides) that it was made from.
 * The program keeps the latest of each operand and every execution the one that it uses, counted,
 * so that an execution with other constants disturbs nobody. Packing happens under the program's
 * lock: the others need the result anyway, and must not make it a second time.
 */
#include "rt/rt_internal.h"

#include <string.h>

#define GUARD 64u

/* With poison there are bytes behind a packed operand that must stay as they are. */
static size_t guard_of(const struct rt_program *p) {
    return p->desc.poison ? GUARD : 0;
}

void rt_blob_drop(struct rt_program *p, struct rt_blob *b) {
    if (b == NULL || --b->refs > 0) return;
    mem_free(p->alloc, b->data, (size_t)b->bytes + guard_of(p), 1);
    mem_free(p->alloc, b->key, b->n_key, sizeof *b->key);
    mem_free(p->alloc, b, 1, sizeof *b);
}

size_t rt_view_key(const struct rt_view *v, int64_t *key) {
    size_t n = 0;
    key[n++] = (int64_t)(intptr_t)v->data;
    key[n++] = v->rank;
    key[n++] = v->strides != NULL;
    for (int j = 0; j < v->rank; j++)
        key[n++] = v->shape[j];
    for (int j = 0; v->strides != NULL && j < v->rank; j++)
        key[n++] = v->strides[j];
    return n;
}

static size_t make_key(const struct rt_operand *o, const struct rt_view *views, int64_t *key) {
    size_t n = 0;
    for (int i = 0; i < o->n; i++)
        n += rt_view_key(&views[o->buffers[i]], key + n);
    return n;
}

static bool has_key(const struct rt_blob *b, const int64_t *key, size_t n) {
    return b != NULL && b->n_key == n && memcmp(b->key, key, n * sizeof *key) == 0;
}

struct packing {
    const struct pk_kernel *kernel;
    const struct pk_args *args;
    size_t local_stride;
    int operand;
    void *dst;
};

static void pack_task(void *user, int worker, int64_t i) {
    const struct packing *p = user;
    struct pk_args a = *p->args;
    if (p->local_stride > 0) a.local = (char *)a.local + (size_t)worker * p->local_stride;
    p->kernel->pack(&a, p->operand, i, p->dst);
}

static bool wrote_past_end(const struct rt_program *p, const struct rt_blob *b) {
    const unsigned char *end = (const unsigned char *)b->data + b->bytes;
    for (size_t i = 0; i < guard_of(p); i++) {
        if (end[i] != 0xFF) return true;
    }
    return false;
}

static enum proem_status make_blob(struct rt_program *p, struct rt_pool *pool, struct packing *job,
                                   const int64_t *key, size_t n_key, struct rt_blob **out,
                                   struct err *e) {
    int64_t bytes = job->kernel->packed_bytes(job->args, job->operand);
    if (bytes < 0 || bytes > INT64_MAX / 4) {
        return err_set(e, PROEM_NOMEM, "kernel '%s': operand %d packed is beyond 64 bits",
                       job->kernel->name, job->operand);
    }
    struct rt_blob *b = mem_alloc(p->alloc, 1, sizeof *b);
    if (b == NULL) return err_nomem(e);
    *b = (struct rt_blob){.refs = 1, .n_key = n_key, .bytes = bytes};
    b->key = mem_alloc(p->alloc, n_key, sizeof *key);
    if (bytes > 0) b->data = mem_alloc(p->alloc, (size_t)bytes + guard_of(p), 1);
    if (b->key == NULL || (bytes > 0 && b->data == NULL)) {
        rt_blob_drop(p, b);
        return err_nomem(e);
    }
    memcpy(b->key, key, n_key * sizeof *key);
    *out = b;
    if (bytes == 0) return PROEM_OK;
    if (p->desc.poison) memset(b->data, 0xFF, (size_t)bytes + GUARD);
    job->dst = b->data;
    rt_parallel(pool, job->kernel->pack_tasks(job->args, job->operand), pack_task, job, false);
    if (!wrote_past_end(p, b)) return PROEM_OK;
    return err_set(e, PROEM_INTERNAL, "kernel '%s' wrote past the end of packed operand %d",
                   job->kernel->name, job->operand);
}

/* What another step of the same kernel has made of the same constants, as layers that share weights
 * do. */
static struct rt_blob *made_before(const struct rt_program *p, int step, int o, const int64_t *key,
                                   size_t n) {
    const struct rt_step *s = &p->desc.steps[step];
    for (int i = 0; i < p->desc.n_steps; i++) {
        const struct rt_step *other = &p->desc.steps[i];
        if (i == step || other->kernel != s->kernel || other->operands == NULL) continue;
        struct rt_blob *b = p->blobs[p->first_operand[i] + o];
        if (has_key(b, key, n)) return b;
    }
    return NULL;
}

enum proem_status rt_pack_operand(struct rt_program *p, struct rt_pool *pool, int step, int o,
                                  const struct rt_view *views, const struct pk_args *args,
                                  size_t local_stride, int64_t *key, struct rt_blob **held,
                                  struct err *e) {
    const struct rt_step *s = &p->desc.steps[step];
    size_t n = make_key(&s->operands[o], views, key);
    if (has_key(*held, key, n)) return PROEM_OK;
    struct rt_blob **kept = &p->blobs[p->first_operand[step] + o];
    enum proem_status status = PROEM_OK;
    pthread_mutex_lock(&p->lock);
    rt_blob_drop(p, *held);
    *held = NULL;
    if (!has_key(*kept, key, n)) {
        struct packing job = {
            .kernel = s->kernel, .args = args, .local_stride = local_stride, .operand = o};
        rt_blob_drop(p, *kept); /* first, so that two need not fit at once */
        *kept = made_before(p, step, o, key, n);
        if (*kept != NULL)
            (*kept)->refs++;
        else
            status = make_blob(p, pool, &job, key, n, kept, e);
    }
    if (status == PROEM_OK) {
        (*kept)->refs++;
        *held = *kept;
    }
    pthread_mutex_unlock(&p->lock);
    return status;
}

int64_t rt_program_packed_bytes(struct rt_program *p) {
    int64_t sum = 0;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->n_operands; i++) {
        bool counted = p->blobs[i] == NULL;
        for (int j = 0; j < i && !counted; j++)
            counted = p->blobs[j] == p->blobs[i];
        if (!counted) sum += p->blobs[i]->bytes;
    }
    pthread_mutex_unlock(&p->lock);
    return sum;
}
