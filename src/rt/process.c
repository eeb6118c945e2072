/* SPDX-License-Identifier: MIT
 * Runs commands: no shell, output captured up to a limit, several at once, killed when they hang.
 *
 * One loop watches all of them: poll() wakes when a command writes or closes its output, and a wait
 * without blocking tells whether it ended. A command is over when its first process has ended; what
 * its children still hold open is ignored and the whole process group is killed. A poll never
 * sleeps longer than TICK_MS, because a process can end while a child of it keeps the pipe open.
 */
#include "rt/rt_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TICK_MS 10

double rt_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

struct child {
    pid_t pid;
    int fd; /* read end of its output; -1 once closed */
    int command;
    double deadline;
};

static int open_pipe(int fd[2]) {
    if (pipe(fd) != 0) return errno;
    for (int i = 0; i < 2; i++) {
        if (fcntl(fd[i], F_SETFD, FD_CLOEXEC) < 0) return errno;
    }
    return fcntl(fd[0], F_SETFL, O_NONBLOCK) < 0 ? errno : 0;
}

/* Default signal handling and a process group of its own, whatever the host program set. */
static int set_attributes(posix_spawnattr_t *a) {
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGCHLD, SIGHUP, SIGALRM};
    for (size_t i = 0; i < COUNT_OF(signals); i++)
        sigaddset(&defaults, signals[i]);
    int r = posix_spawnattr_setsigmask(a, &none);
    if (r == 0) r = posix_spawnattr_setsigdefault(a, &defaults);
    if (r == 0) r = posix_spawnattr_setpgroup(a, 0);
    if (r != 0) return r;
    return posix_spawnattr_setflags(a, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                           POSIX_SPAWN_SETSIGDEF);
}

static int spawn_with(const struct rt_command *c, int out, pid_t *pid) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int r = posix_spawn_file_actions_init(&files);
    if (r != 0) return r;
    r = posix_spawnattr_init(&attributes);
    if (r != 0) {
        posix_spawn_file_actions_destroy(&files);
        return r;
    }
    r = set_attributes(&attributes);
    if (r == 0) r = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (r == 0) r = posix_spawn_file_actions_adddup2(&files, out, 1);
    if (r == 0) r = posix_spawn_file_actions_adddup2(&files, out, 2);
    if (r == 0) r = posix_spawn(pid, c->path, &files, &attributes, c->argv, c->envp);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return r;
}

/* 0, or the errno that says why it did not start. */
static int start(struct rt_command *c, struct child *child) {
    int fd[2] = {-1, -1};
    c->output_n = 0;
    if (c->output_cap > 0) c->output[0] = '\0';
    int r = open_pipe(fd);
    if (r == 0) r = spawn_with(c, fd[1], &child->pid);
    if (fd[1] >= 0) close(fd[1]);
    if (r != 0) {
        if (fd[0] >= 0) close(fd[0]);
        return r;
    }
    child->fd = fd[0];
    return 0;
}

/* Take what there is; what does not fit is read and dropped, so that the command never blocks. */
static void drain(struct rt_command *c, struct child *child) {
    char chunk[4096];
    while (child->fd >= 0) {
        ssize_t n = read(child->fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n <= 0) {
            close(child->fd);
            child->fd = -1;
            return;
        }
        size_t room = c->output_cap > c->output_n + 1 ? c->output_cap - c->output_n - 1 : 0;
        size_t take = (size_t)n < room ? (size_t)n : room;
        memcpy(c->output + c->output_n, chunk, take);
        c->output_n += take;
        if (c->output_cap > 0) c->output[c->output_n] = '\0';
    }
}

/* Has it ended (or been ended)? Fills the result if so. The group is killed while its first process
 * is still to be waited for, so the number cannot belong to anybody else. */
static bool reap(struct rt_command *c, struct child *child, double now) {
    int status = 0;
    siginfo_t info;
    info.si_pid = 0;
    bool late = now >= child->deadline;
    int peek = waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    bool gone = peek != 0 && errno != EINTR;
    bool ended = peek == 0 && info.si_pid == child->pid;
    if (!gone && !ended && !late) return false;
    pid_t r = -1;
    if (!gone) {
        kill(-child->pid, SIGKILL);
        do {
            r = waitpid(child->pid, &status, 0);
        } while (r < 0 && errno == EINTR);
    }
    drain(c, child);
    if (r > 0 && WIFEXITED(status)) {
        c->ended = RT_EXITED;
        c->code = WEXITSTATUS(status);
    } else if (r > 0 && WIFSIGNALED(status) && ended) {
        c->ended = RT_KILLED;
        c->code = WTERMSIG(status);
    } else if (late) {
        c->ended = RT_TIMED_OUT;
        c->code = 0;
    } else {
        /* The host ignores SIGCHLD, so nobody can know the status; what it wrote must tell. */
        c->ended = RT_EXITED;
        c->code = 0;
    }
    if (child->fd >= 0) close(child->fd);
    child->fd = -1;
    return true;
}

static void wait_for_output(struct child *children, int n, struct pollfd *fds) {
    nfds_t open_fds = 0;
    for (int i = 0; i < n; i++) {
        if (children[i].fd < 0) continue;
        fds[open_fds++] = (struct pollfd){.fd = children[i].fd, .events = POLLIN};
    }
    /* With its output closed a command is about to end: look again soon. */
    int ms = open_fds == (nfds_t)n ? TICK_MS : 0;
    if (ms == 0) {
        struct timespec t = {.tv_nsec = 200000};
        nanosleep(&t, NULL);
    }
    poll(fds, open_fds, ms);
}

/* Kill and wait for all that run. */
static void end_all(struct rt_command *c, struct child *children, int running) {
    for (int i = 0; i < running; i++) {
        children[i].deadline = 0;
        while (!reap(&c[children[i].command], &children[i], rt_now_ms())) {
        }
    }
}

struct run {
    struct rt_command *c;
    int n, timeout_ms;
    void (*on_end)(void *user, int i);
    void *user;
    size_t cap;
    struct child *children;
    struct pollfd *fds;
};

/* Start commands from number *next on while there is room. */
static void start_some(struct run *r, int *next, int *running) {
    while (*next < r->n && (size_t)*running < r->cap) {
        struct child *child = &r->children[*running];
        *child = (struct child){.command = *next, .deadline = rt_now_ms() + r->timeout_ms};
        int why = start(&r->c[*next], child);
        if (why == 0) {
            ++*running;
        } else {
            r->c[*next].ended = RT_NOT_STARTED;
            r->c[*next].code = why;
            if (r->on_end != NULL) r->on_end(r->user, *next);
        }
        ++*next;
    }
}

static enum proem_status run_all(struct run *r, const struct rt_held *held, struct err *e) {
    int running = 0;
    for (int next = 0; next < r->n || running > 0;) {
        int signal = rt_signals_came(held);
        if (signal != 0) {
            end_all(r->c, r->children, running);
            return err_set(e, PROEM_COMPILE, "signal %d came while compilers ran", signal);
        }
        start_some(r, &next, &running);
        if (running == 0) continue;
        wait_for_output(r->children, running, r->fds);
        double now = rt_now_ms();
        for (int i = 0; i < running;) {
            int command = r->children[i].command;
            drain(&r->c[command], &r->children[i]);
            if (!reap(&r->c[command], &r->children[i], now)) {
                i++;
                continue;
            }
            r->children[i] = r->children[--running];
            if (r->on_end != NULL) r->on_end(r->user, command);
        }
    }
    return PROEM_OK;
}

enum proem_status rt_commands_run(const struct allocator *alloc, struct rt_command *c, int n,
                                  int jobs, int timeout_ms, bool hold_signals,
                                  void (*on_end)(void *user, int i), void *user, struct err *e) {
    size_t cap = (size_t)(jobs < 1 ? 1 : jobs < n ? jobs : n < 1 ? 1 : n);
    struct run r = {c, n, timeout_ms, on_end, user, cap, NULL, NULL};
    r.children = mem_alloc(alloc, cap, sizeof *r.children);
    r.fds = mem_alloc(alloc, cap, sizeof *r.fds);
    enum proem_status s = PROEM_NOMEM;
    if (r.children != NULL && r.fds != NULL) {
        struct rt_held held;
        rt_signals_hold(&held, hold_signals);
        s = run_all(&r, &held, e);
        rt_signals_release(&held);
    } else {
        err_nomem(e);
    }
    mem_free(alloc, r.children, cap, sizeof *r.children);
    mem_free(alloc, r.fds, cap, sizeof *r.fds);
    return s;
}
