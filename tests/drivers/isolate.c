/* SPDX-License-Identifier: MIT
 * run_isolated: items in child processes, so that a kernel that crashes or hangs costs one item.
 *
 * Children write outcomes and the number of the item at hand to memory that they share with the
 * parent. When a child dies, the item that it was at is marked failed and a new child takes what is
 * left of the batch.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

#define MAX_JOBS 64

struct child {
    pid_t pid; /* 0: free */
    int first, count;
    int last;     /* the item it was at when looked at before */
    time_t since; /* since when */
};

struct isolation {
    struct outcome *out;
    volatile int *at; /* by job */
    struct child child[MAX_JOBS];
    int jobs, limit_s;
    batch_fn body;
    void *user;
    void (*report)(void *user, int item, const struct outcome *o);
};

static void *shared(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void start(struct isolation *s, int job, int first, int count) {
    s->at[job] = -1;
    s->child[job] = (struct child){.first = first, .count = count, .last = -1, .since = time(NULL)};
    fflush(stdout);
    fflush(stderr);
    pid_t pid = fork();
    if (pid == 0) {
        s->body(s->user, first, count, &s->at[job], s->out);
        _exit(0);
    }
    s->child[job].pid = pid > 0 ? pid : 0;
}

static void report_range(struct isolation *s, int first, int end) {
    for (int i = first; i < end && s->report != NULL; i++)
        s->report(s->user, i, &s->out[i]);
}

/* A child ended: with everything done, or dead at some item. */
static void finish(struct isolation *s, int job, int status) {
    struct child c = s->child[job];
    s->child[job].pid = 0;
    int next = c.first;
    while (next < c.first + c.count && s->out[next].state != OUTCOME_NONE)
        next++;
    if (next < c.first + c.count) {
        int at = s->at[job];
        bool alone = c.count == 1;
        if (at < 0 && !alone) { /* died while it worked on all of them: halve */
            int half = c.count / 2;
            start(s, job, c.first, half);
            while (s->child[job].pid != 0) { /* in line: rare */
                int st = 0;
                waitpid(s->child[job].pid, &st, 0);
                finish(s, job, st);
            }
            start(s, job, c.first + half, c.count - half);
            return;
        }
        struct outcome *o = &s->out[at < 0 ? next : at];
        o->state = OUTCOME_FAILED;
        if (WIFSIGNALED(status))
            snprintf(o->text, sizeof o->text, "died of signal %d (%s)", WTERMSIG(status),
                     strsignal(WTERMSIG(status)));
        else
            snprintf(o->text, sizeof o->text, "ended early with status %d", WEXITSTATUS(status));
        int from = next;
        while (from < c.first + c.count && s->out[from].state != OUTCOME_NONE)
            from++;
        report_range(s, c.first, from);
        if (from < c.first + c.count) start(s, job, from, c.first + c.count - from);
        return;
    }
    report_range(s, c.first, c.first + c.count);
}

static void watch(struct isolation *s) {
    time_t now = time(NULL);
    for (int j = 0; j < s->jobs; j++) {
        struct child *c = &s->child[j];
        if (c->pid == 0) continue;
        if (c->last != s->at[j]) {
            c->last = s->at[j];
            c->since = now;
        } else if (now - c->since > (c->last < 0 ? 10 : 1) * s->limit_s) {
            kill(c->pid, SIGKILL);
            c->since = now;
        }
    }
}

/* Wait for one child to end; false if there is none. */
static bool wait_one(struct isolation *s) {
    bool any = false;
    for (int j = 0; j < s->jobs; j++)
        any = any || s->child[j].pid != 0;
    while (any) {
        for (int j = 0; j < s->jobs; j++) {
            int status = 0;
            if (s->child[j].pid == 0 || waitpid(s->child[j].pid, &status, WNOHANG) <= 0) continue;
            finish(s, j, status);
            return true;
        }
        watch(s);
        struct timespec t = {.tv_nsec = 2000000};
        nanosleep(&t, NULL);
    }
    return false;
}

struct outcome *run_isolated(int n, int batch, int jobs, int limit_s, batch_fn body, void *user,
                             void (*report)(void *user, int item, const struct outcome *o)) {
    struct isolation s = {.jobs = jobs < 1          ? 1
                                  : jobs > MAX_JOBS ? MAX_JOBS
                                                    : jobs,
                          .limit_s = limit_s,
                          .body = body,
                          .user = user,
                          .report = report};
    s.out = shared((size_t)(n + 1) * sizeof(struct outcome));
    volatile int *at = shared(MAX_JOBS * sizeof(int));
    if (s.out == NULL || at == NULL) return NULL;
    s.at = at;
    for (int next = 0; next < n;) {
        int job = 0;
        while (job < s.jobs && s.child[job].pid != 0)
            job++;
        if (job == s.jobs) {
            wait_one(&s);
            continue;
        }
        int count = n - next < batch ? n - next : batch;
        start(&s, job, next, count);
        next += count;
    }
    while (wait_one(&s)) {
    }
    void *p;
    memcpy(&p, &at, sizeof p);
    munmap(p, MAX_JOBS * sizeof(int));
    return s.out;
}

void outcomes_free(struct outcome *o, int n) {
    if (o != NULL) munmap(o, (size_t)(n + 1) * sizeof(struct outcome));
}
