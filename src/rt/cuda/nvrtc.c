/* SPDX-License-Identifier: MIT
 * CUDA C text to machine code by NVRTC, several units at a time on threads of their own, and what
 * the compiler's log tells about each: registers, spills, and products that wait for each other.
 *
 * Contraction is off (--fmad=false): fused multiply-adds are written as calls. ptxas reports wgmma
 * instructions that it had to serialize as performance advisories C7510 to C7517; a kernel with one
 * is right and slow.
 */
#include "rt/cuda/internal.h"

#include <stdlib.h>
#include <string.h>

#define MOST_THREADS 64
#define STACK_BYTES  ((size_t)32 << 20) /* compilers recurse */

const char *const *nvrtc_options(struct arena *a, const struct device_desc *d, int *n) {
    static const char *const fixed[] = {"--std=c++17", "--fmad=false", "--ptxas-options=-v"};
    const char **out = ARENA_NEW(a, const char *, COUNT_OF(fixed) + 2);
    const char *arch = arena_printf(a, "--gpu-architecture=%s", d->name);
    if (out == NULL || arch == NULL) return NULL;
    *n = 0;
    out[(*n)++] = arch;
    for (size_t i = 0; i < COUNT_OF(fixed); i++)
        out[(*n)++] = fixed[i];
    return out;
}

/* ---- the log --------------------------------------------------------------------------------- */

/* The number that stands before `word` in a line, 0 if the word is not there. */
static int64_t number_before(const char *line, const char *end, const char *word) {
    size_t n = strlen(word);
    for (const char *p = line; p + n <= end; p++) {
        if (memcmp(p, word, n) != 0) continue;
        const char *digits = p;
        while (digits > line && digits[-1] >= '0' && digits[-1] <= '9')
            digits--;
        return strtoll(digits, NULL, 10);
    }
    return 0;
}

/* Does a line carry one of the advisories C7510 to C7517? */
static bool is_serialized(const char *line, const char *end) {
    for (const char *p = line; p + 5 <= end; p++) {
        if (memcmp(p, "C751", 4) == 0 && p[4] >= '0' && p[4] <= '7') return true;
    }
    return false;
}

static void keep_first(struct rt_cubin_report *r, const char *line, const char *end) {
    if (r->first[0] != '\0') return;
    size_t n = (size_t)(end - line);
    if (n >= sizeof r->first) n = sizeof r->first - 1;
    memcpy(r->first, line, n);
    r->first[n] = '\0';
}

void nvrtc_read_log(const char *log, struct rt_cubin_report *out) {
    for (const char *line = log; *line != '\0';) {
        const char *end = line + strcspn(line, "\n");
        int64_t used = number_before(line, end, " registers");
        int64_t spilled = number_before(line, end, " bytes spill stores") +
                          number_before(line, end, " bytes spill loads");
        if (used > out->registers && used < 1024) out->registers = (int)used;
        if (spilled > out->spilled) out->spilled = spilled;
        bool serialized = is_serialized(line, end);
        if (serialized) out->serialized++;
        if (serialized || spilled > 0) keep_first(out, line, end);
        line = *end == '\n' ? end + 1 : end;
    }
}

/* The line of a log that says what is wrong: the first with "error", else the first. */
static void error_line(const char *log, const char **line, int *n) {
    const char *at = strstr(log, "error");
    const char *start = at != NULL ? at : log;
    while (start > log && start[-1] != '\n')
        start--;
    *line = start;
    *n = (int)strcspn(start, "\n");
    if (*n > 300) *n = 300;
}

/* ---- one unit -------------------------------------------------------------------------------- */

static enum proem_status nvrtc_failed(struct rt_cuda *c, const struct nvrtc_job *job,
                                      nvrtc_result r, struct err *e) {
    const char *text = c->nvrtc.error_string(r);
    return err_set(e, PROEM_COMPILE, "NVRTC: unit '%s': %s", job->source->name,
                   text != NULL ? text : "an unknown error");
}

/* The log; NULL without memory. On the allocator, *size bytes. *r: could it be read? */
static char *read_log(struct rt_cuda *c, nvrtc_program p, size_t *size, nvrtc_result *r) {
    size_t n = 0;
    *r = c->nvrtc.log_size(p, &n);
    if (*r != 0) n = 0;
    *size = n + 1;
    char *log = mem_alloc(c->alloc, *size, 1);
    if (log == NULL) return NULL;
    log[0] = '\0';
    if (n > 0) *r = c->nvrtc.log(p, log);
    if (*r != 0) log[0] = '\0';
    log[n] = '\0';
    return log;
}

static enum proem_status take_code(struct rt_cuda *c, nvrtc_program p, struct nvrtc_job *job,
                                   struct err *e) {
    size_t n = 0;
    nvrtc_result r = c->nvrtc.cubin_size(p, &n);
    if (r == 0 && n == 0)
        return err_set(e, PROEM_COMPILE, "NVRTC: unit '%s' has no machine code", job->source->name);
    char *code = r == 0 ? mem_alloc(c->alloc, n, 1) : NULL;
    if (r == 0 && code == NULL) return err_nomem(e);
    if (r == 0) r = c->nvrtc.cubin(p, code);
    if (r == 0) str_addn(&job->code, code, n);
    mem_free(c->alloc, code, n, 1);
    if (r != 0) return nvrtc_failed(c, job, r, e);
    return job->code.failed ? err_nomem(e) : PROEM_OK;
}

static enum proem_status compile_program(struct rt_cuda *c, nvrtc_program p, int n_options,
                                         const char *const *options, struct nvrtc_job *job,
                                         struct err *e) {
    nvrtc_result r = c->nvrtc.compile(p, n_options, options), has_log;
    size_t size;
    char *log = read_log(c, p, &size, &has_log);
    if (log == NULL) return err_nomem(e);
    if (r == 0) r = has_log; /* without it nobody knows what the code is worth */
    enum proem_status s = PROEM_OK;
    if (r == NVRTC_COMPILATION) {
        const char *line;
        int n;
        error_line(log, &line, &n);
        s = err_set(e, PROEM_COMPILE, "NVRTC: unit '%s': %.*s", job->source->name, n, line);
    } else if (r != 0) {
        s = nvrtc_failed(c, job, r, e);
    } else {
        nvrtc_read_log(log, &job->report);
    }
    mem_free(c->alloc, log, size, 1);
    return s == PROEM_OK ? take_code(c, p, job, e) : s;
}

/* NVRTC wants a text that ends; a source need not. */
static enum proem_status compile_text(struct rt_cuda *c, int n_options, const char *const *options,
                                      struct nvrtc_job *job, struct err *e) {
    struct str text, name;
    str_init(&text, c->alloc);
    str_init(&name, c->alloc);
    str_addn(&text, job->source->text, job->source->n);
    str_printf(&name, "%s.cu", job->source->name);
    enum proem_status s = PROEM_OK;
    if (text.failed || name.failed) {
        s = err_nomem(e);
    } else {
        nvrtc_program p = NULL;
        nvrtc_result r = c->nvrtc.create(&p, str_text(&text), str_text(&name), 0, NULL, NULL);
        if (r != 0)
            s = nvrtc_failed(c, job, r, e);
        else
            s = compile_program(c, p, n_options, options, job, e);
        if (r == 0) c->nvrtc.destroy(&p);
    }
    str_free(&text);
    str_free(&name);
    return s;
}

/* ---- many ------------------------------------------------------------------------------------ */

struct queue {
    struct rt_cuda *c;
    struct nvrtc_job *jobs;
    int n, n_options;
    const char *const *options;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t ended;
    int next, done, working;
};

/* Take units until there are none. */
static void work(struct queue *q, bool report) {
    pthread_mutex_lock(&q->lock);
    while (q->next < q->n) {
        struct nvrtc_job *job = &q->jobs[q->next++];
        pthread_mutex_unlock(&q->lock);
        double start = rt_now_ms();
        compile_text(q->c, q->n_options, q->options, job, &job->err);
        job->report.ms = rt_now_ms() - start;
        pthread_mutex_lock(&q->lock);
        int done = ++q->done;
        pthread_cond_signal(&q->ended);
        const struct rt *rt = q->c->rt;
        if (report && rt->progress != NULL) rt->progress(rt->progress_user, done, q->n);
    }
    pthread_mutex_unlock(&q->lock);
}

static void *work_thread(void *user) {
    struct queue *q = user;
    work(q, false);
    pthread_mutex_lock(&q->lock);
    q->working--;
    pthread_cond_signal(&q->ended);
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* The calling thread shows how far the others are; a machine without threads to give works alone. */
static void run_queue(struct queue *q) {
    pthread_t threads[MOST_THREADS];
    pthread_attr_t attr;
    int started = 0, want = q->n < q->c->rt->jobs ? q->n : q->c->rt->jobs;
    if (want > MOST_THREADS) want = MOST_THREADS;
    if (want > 1 && pthread_attr_init(&attr) == 0) {
        pthread_attr_setstacksize(&attr, STACK_BYTES);
        pthread_mutex_lock(&q->lock);
        for (; started < want; started++) {
            if (pthread_create(&threads[started], &attr, work_thread, q) != 0) break;
            q->working++;
        }
        pthread_mutex_unlock(&q->lock);
        pthread_attr_destroy(&attr);
    }
    if (started == 0) work(q, true);
    pthread_mutex_lock(&q->lock);
    const struct rt *rt = q->c->rt;
    for (int shown = 0; q->working > 0;) {
        pthread_cond_wait(&q->ended, &q->lock);
        if (q->done == shown || rt->progress == NULL) continue;
        shown = q->done;
        rt->progress(rt->progress_user, shown, q->n);
    }
    pthread_mutex_unlock(&q->lock);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

enum proem_status nvrtc_compile(struct rt_cuda *c, const struct device_desc *d,
                                struct nvrtc_job *jobs, int n, struct err *e) {
    struct arena a;
    arena_init(&a, c->alloc);
    struct queue q = {.c = c, .jobs = jobs, .n = n};
    q.options = nvrtc_options(&a, d, &q.n_options);
    enum proem_status s = PROEM_OK;
    if (q.options == NULL || pthread_mutex_init(&q.lock, NULL) != 0) {
        s = err_nomem(e);
    } else {
        if (pthread_cond_init(&q.ended, NULL) != 0) {
            s = err_nomem(e);
        } else {
            run_queue(&q);
            pthread_cond_destroy(&q.ended);
        }
        pthread_mutex_destroy(&q.lock);
    }
    for (int i = 0; i < n && s == PROEM_OK; i++) {
        if (jobs[i].err.status != PROEM_OK)
            s = err_set(e, jobs[i].err.status, "%s", jobs[i].err.text);
    }
    arena_free(&a);
    return s;
}
