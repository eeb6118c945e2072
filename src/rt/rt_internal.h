/* SPDX-License-Identifier: MIT
 * What the files of the runtime share and nobody else needs.
 */
#ifndef PROEM_RT_INTERNAL_H
#define PROEM_RT_INTERNAL_H

#include <pthread.h>
#include <signal.h>
#include <sys/types.h>
#include <xxhash.h>

#include "rt/rt.h"

double rt_now_ms(void); /* monotonic */

/* ---- signals (rt/signals.c) ------------------------------------------------------------------ */

/* Signals that end a program, unless it ignores them, held back on this thread. */
struct rt_held {
    bool any;
    sigset_t set, before;
};

/* With `wanted` false none is held. Calls may be nested. */
void rt_signals_hold(struct rt_held *h, bool wanted);
/* The number of one that came meanwhile, or 0. */
int rt_signals_came(const struct rt_held *h);
/* What came is delivered now. */
void rt_signals_release(struct rt_held *h);

/* ---- running programs (rt/process.c) --------------------------------------------------------- */

struct rt_command {
    const char *path; /* file to execute */
    char *const *argv, *const *envp;
    /* results */
    enum rt_ended { RT_EXITED, RT_KILLED, RT_TIMED_OUT, RT_NOT_STARTED } ended;
    int code;                    /* exit status, signal, or errno, according to `ended` */
    char *output;                /* caller's buffer for stdout and stderr together */
    size_t output_cap, output_n; /* NUL-terminated, cut when full */
};

/* Run n commands, at most `jobs` at once, each with stdin from /dev/null and a process group of its
 * own, which is killed after timeout_ms. on_end (may be NULL) is called as each one ends. With
 * hold_signals (rt.h) a signal kills all of them, which is an error. */
enum proem_status rt_commands_run(const struct allocator *alloc, struct rt_command *c, int n,
                                  int jobs, int timeout_ms, bool hold_signals,
                                  void (*on_end)(void *user, int i), void *user, struct err *e);

/* ---- the compiler (rt/compile.c) --------------------------------------------------------------
 */

struct rt_compiler_id {
    bool known;
    struct str path;     /* as found */
    struct str identity; /* path, resolved path, size, mtime */
    struct str version;  /* first line of --version */
};

/* One unit to compile in dir/<base>.c to dir/<base>.so. */
struct rt_job {
    const struct rt_source *source;
    const char *dir, *base;
};

enum proem_status rt_compiler_find(struct rt *rt, struct err *e);
enum proem_status rt_flags_text(struct rt *rt, const struct device_desc *device, struct str *out,
                                struct err *e);
enum proem_status rt_compile(struct rt *rt, const struct device_desc *device, struct rt_job *jobs,
                             int n, struct err *e);

/* ---- the disk cache (rt/cache.c) --------------------------------------------------------------
 */

#define RT_KEY_TEXT 33 /* 32 hexadecimal digits and a NUL */

void rt_key_text(XXH128_hash_t h, char out[RT_KEY_TEXT]);

struct rt_cache {
    const struct allocator *alloc;
    struct str dir;
    int64_t limit;
    bool wanted;      /* a directory was given */
    bool ready;       /* it exists and may be trusted */
    const char *note; /* why it is not used; NULL when it is, or was not tried */
};

enum rt_cache_kind { RT_CACHE_UNIT, RT_CACHE_TEXT, RT_CACHE_CUBIN };

void rt_cache_init(struct rt_cache *c, const struct allocator *alloc, const char *dir,
                   int64_t limit);
void rt_cache_free(struct rt_cache *c);
/* Make and check the directory. False: work without a cache. */
bool rt_cache_open(struct rt_cache *c);
/* The file of an entry that is whole, with its use noted; false if there is none or it is damaged
 * (then it is removed). text (may be NULL) gets the content. */
bool rt_cache_find(struct rt_cache *c, const char *key, enum rt_cache_kind kind, struct str *file,
                   struct str *text);
/* Write an entry; false when that is not possible (full, read-only): the caller goes on without. */
bool rt_cache_store(struct rt_cache *c, const char *key, enum rt_cache_kind kind, const void *data,
                    size_t n, struct str *file);
void rt_cache_drop(struct rt_cache *c, const char *key, enum rt_cache_kind kind);
void rt_cache_evict(struct rt_cache *c);
void rt_cache_measure(struct rt_cache *c, int64_t *entries, int64_t *bytes);
enum proem_status rt_cache_remove_all(struct rt_cache *c, int64_t *removed, struct err *e);

/* Files. read_file appends to out; fails with a message that names the file. */
enum proem_status rt_read_file(const char *file, struct str *out, struct err *e);
enum proem_status rt_write_file(const char *file, const void *data, size_t n, struct err *e);
bool rt_read_all(int fd, struct str *out); /* errno tells why not */
bool rt_write_all(int fd, const void *data, size_t n);
/* A new directory of mode 0700, and its removal with the files in it. */
enum proem_status rt_make_work_dir(const char *parent, struct str *dir, struct err *e);
void rt_remove_work_dir(const char *dir);
/* The text of errno, thread-safe; buf has at least 128 bytes. */
const char *rt_errno_text(int number, char *buf);

/* ---- the runtime object (rt/rt.c) -------------------------------------------------------------
 */

struct rt {
    const struct allocator *alloc;
    struct str compiler_option, search_path, tmp_dir;
    struct arena strings; /* env and flags */
    const char *const *env, *const *flags;
    int n_env, n_flags;
    int timeout_ms, jobs;
    bool hold_signals;
    void (*progress)(void *user, int done, int total);
    void *progress_user;

    pthread_mutex_t lock; /* guards what follows */
    struct rt_cache cache;
    struct rt_compiler_id compiler;
    struct rt_module *modules; /* loaded now, a list */
    struct rt_counts counts;
};

/* ---- programs (rt/program.c, rt/pack.c, rt/exec.c) ---------------------------------------------
 */

#define RT_VIEW_RANK 32 /* most dims of a view; more than a graph's tensors can have */

/* An operand packed once, and what it was made from. Shared by a program and its executions. */
struct rt_blob {
    int refs; /* guarded by the program's lock */
    int64_t *key;
    size_t n_key;
    void *data; /* NULL if there is nothing to pack */
    int64_t bytes;
};

struct rt_program {
    const struct allocator *alloc;
    struct arena arena; /* the description's copy, and the tables below */
    struct rt_program_desc desc;
    int *first, *last;  /* of each buffer: steps that use it; first > last: none */
    int *first_operand; /* of each step: its place in `blobs` */
    int n_operands;     /* of all steps */
    int most_args, most_operands;
    size_t longest_key;
    pthread_mutex_t lock;
    struct rt_blob **blobs; /* the latest of each operand; guarded by lock */
};

/* A compact copy of an argument that is not compact or not aligned. */
struct rt_staged {
    void *data;
    size_t capacity;
    bool in_use; /* in this run */
    bool kept;   /* it holds the constant that `key` tells */
    size_t n_key;
    int64_t *key; /* 3 + 2 * RT_VIEW_RANK */
};

struct rt_exec {
    struct rt_program *program;
    struct rt_pool *pool;
    struct arena arena; /* the tables below */
    bool prepared;
    int64_t *sym, *bytes; /* what it is prepared for */
    /* Items of the memory plan: temporaries, then shared and local scratch of each step. */
    struct rt_item *items;
    int n_items, n_temps;
    int *item_of;         /* of each buffer; -1: not in the arena */
    int64_t *used;        /* of each item: bytes without padding (local scratch: of one thread) */
    size_t *local_stride; /* of each step */
    char *memory;
    size_t capacity;
    int64_t total, sum;
    void **buf;            /* of each buffer: where its data is in this run */
    uintptr_t *lo, *hi;    /* of each argument: the memory that it touches, [lo, hi) */
    void **args, **packed; /* of the step that runs */
    void **nulls;
    struct rt_staged *staged; /* of each buffer */
    struct rt_blob **blobs;   /* of each operand of each step */
    int64_t *key;
};

/* What identifies a tensor's memory: data, rank, shape, strides. Returns the length. */
size_t rt_view_key(const struct rt_view *v, int64_t *key);
/* Arguments of a step's launch, with the step's scratch. */
struct pk_args rt_exec_args(struct rt_exec *x, int step);
/* Is operand o of the step packed once? */
bool rt_step_packs(const struct rt_step *s, int o);
void rt_blob_drop(struct rt_program *p, struct rt_blob *b); /* the lock is held; NULL is fine */
/* Make *held (an execution's, or NULL) the packed form of operand o of a step for these views. key
 * has room for longest_key numbers; args are those of the step's launch. */
enum proem_status rt_pack_operand(struct rt_program *p, struct rt_pool *pool, int step, int o,
                                  const struct rt_view *views, const struct pk_args *args,
                                  size_t local_stride, int64_t *key, struct rt_blob **held,
                                  struct err *e);
/* Two views whose extents meet: do they touch a common byte? True if it cannot be excluded. */
bool rt_views_overlap(const struct rt_view *a, const struct rt_view *b);
bool rt_views_equal(const struct rt_view *a, const struct rt_view *b);

#endif
