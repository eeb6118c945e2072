/* SPDX-License-Identifier: MIT
 * The CPU runtime: C text to loaded kernels, and loaded kernels to results.
 *
 *   detect    the machine -> device_desc
 *   rt        compiler, disk cache, modules that are loaded now
 *   pool      threads; launch of one kernel
 *   program   buffers and steps (kernel launches) as plain data
 *   exec      one thread's execution of a program: memory for one binding of the symbols, then runs
 *   measure   executions timed against each other
 *   view      strided tensors to compact ones and back
 *
 * It knows nothing of graphs and plans: whoever calls it passes text, sizes and pointers. All
 * memory comes from the allocator given; libc, pthreadpool, hwloc and dlopen have their own.
 * Floating-point state is left as it is (no flush to zero): a kernel's result is the one that C
 * says.
 */
#ifndef PROEM_RT_H
#define PROEM_RT_H

#include "base/base.h"
#include "base/device.h"
#include "base/kernel_abi.h"

/* ---- the machine (rt/cpu_detect.c) ----------------------------------------------------------- */

/* Name "native". Never fails: what cannot be found out gets a usual value. Takes a few ms (hwloc),
 * so once a process is enough. */
void rt_detect(struct device_desc *out);

/* ---- compiler, cache, modules (rt/rt.c, rt/compile.c, rt/cache.c) -----------------------------
 */

/* Zero means the default. Strings are copied. The environment is the caller's to read. */
struct rt_options {
    const char *compiler;     /* a path, or a name looked up in `path`; default "cc" */
    const char *path;         /* value of PATH; default "/usr/local/bin:/usr/bin:/bin" */
    const char *const *env;   /* more NAME=VALUE for the compiler, NULL-terminated; it sees nothing
                                 else of the environment, so that nothing else can shape a kernel */
    const char *const *flags; /* more flags for the compiler, NULL-terminated; part of the key */
    const char *tmp_dir;      /* default "/tmp" */
    const char *cache_dir;    /* default: no cache. Made (mode 0700) when it is missing */
    int64_t cache_limit;      /* bytes; default 1 GiB */
    int timeout_ms;           /* for one unit; default 120000 */
    int jobs;                 /* compilers at once; default: the machine's cores */
    /* Hold SIGINT, SIGTERM, SIGHUP and SIGQUIT back on the thread that loads while compilers run.
     * One that comes ends them, their folder is removed, and then it is delivered. For a program
     * that such a signal ends: without this it leaves both behind. */
    bool hold_signals;
    /* Called on the thread that loads, after each unit that was compiled. */
    void (*progress)(void *user, int done, int total);
    void *progress_user;
};

/* The caller's $XDG_CACHE_HOME/proem or $HOME/.cache/proem; false if neither is an absolute path.
 */
bool rt_cache_default_dir(const char *xdg_cache_home, const char *home, struct str *out);

struct rt;

/* Spawns nothing and looks for no compiler: that happens when something must be loaded. */
enum proem_status rt_new(const struct allocator *alloc, const struct rt_options *options,
                         struct rt **out, struct err *e);
/* Every module must have been released. */
void rt_free(struct rt *rt);

/* C text of one unit (it exports proem_unit, see kernel_abi.h) and a name for messages. */
struct rt_source {
    const char *name;
    const char *text;
    size_t n;
};

struct rt_module;

/* Load n units made for `device`: from memory, else from the cache, else compiled, several at once.
 * All or nothing; the caller holds one reference to each out[i]. Safe from several threads. */
enum proem_status rt_load(struct rt *rt, const struct device_desc *device, int n,
                          const struct rt_source *sources, struct rt_module **out, struct err *e);
const struct pk_unit *rt_module_unit(const struct rt_module *m);
/* By name; NULL if the unit has no such kernel. */
const struct pk_kernel *rt_module_kernel(const struct rt_module *m, const char *name);
struct rt_module *rt_module_ref(struct rt_module *m);
void rt_module_unref(struct rt_module *m); /* NULL is fine */

/* Short texts kept in the cache beside the units, such as what was measured to be the fastest form
 * of a kernel. The key holds all that a unit's key does (text, device's flags, compiler) and `what`.
 * Without a cache nothing is found and nothing kept; what cannot be written is let go. */
#define RT_CHOICE_KEY 33
enum proem_status rt_choice_key(struct rt *rt, const struct device_desc *device,
                                const struct rt_source *source, const char *what,
                                char key[RT_CHOICE_KEY], struct err *e);
bool rt_choice_find(struct rt *rt, const char *key, struct str *text);
void rt_choice_keep(struct rt *rt, const char *key, const char *text, size_t n);

struct rt_counts {
    int64_t in_memory, from_cache, compiled; /* units */
    double compile_ms, load_ms;              /* wall time; load: hash, read, verify and dlopen */
};
void rt_counts(struct rt *rt, struct rt_counts *out);

/* For `doctor`: the compiler's resolved path and the first line of its --version. */
enum proem_status rt_compiler(struct rt *rt, struct str *path, struct str *version, struct err *e);
/* The command line without file names, as text. */
enum proem_status rt_compiler_flags(struct rt *rt, const struct device_desc *device,
                                    struct str *out, struct err *e);

struct rt_cache_stat {
    const char *dir;  /* NULL: no cache was asked for; lives as long as rt */
    const char *note; /* NULL if the cache is in use, else why it is not */
    int64_t entries, bytes, limit;
};
/* A directory that does not exist yet is an empty cache; neither call makes it. */
void rt_cache_stat(struct rt *rt, struct rt_cache_stat *out);
/* Remove every entry. *removed may be NULL. */
enum proem_status rt_cache_clear(struct rt *rt, int64_t *removed, struct err *e);

/* ---- threads and launches (rt/pool.c) ---------------------------------------------------------
 */

struct rt_pool;

/* threads >= 1. Threads start with the first launch that has work for two. Launches from several
 * threads are safe; they take turns, phase by phase. */
enum proem_status rt_pool_new(const struct allocator *alloc, int threads, struct rt_pool **out,
                              struct err *e);
void rt_pool_free(struct rt_pool *p);
int rt_pool_threads(const struct rt_pool *p);

/* One launch. args->local is the first of rt_pool_threads() areas, local_stride bytes apart; a task
 * gets the area of the thread that runs it. Phases run one after the other; the tasks of a phase
 * are handed out one by one. `last`: no launch follows soon, so let the threads sleep at once. */
void rt_launch(struct rt_pool *p, const struct pk_kernel *k, const struct pk_args *args,
               size_t local_stride, bool last);
/* Call fn(user, worker, i) for each i < n on the pool's threads; no two calls at a time have the
 * same worker, which is below rt_pool_threads(). */
typedef void (*rt_task_fn)(void *user, int worker, int64_t i);
void rt_parallel(struct rt_pool *p, int64_t n, rt_task_fn fn, void *user, bool last);

/* ---- strided tensors (rt/view.c) --------------------------------------------------------------
 */

/* A tensor as DLPack has it. strides count elements and may be 0 or negative; NULL means compact.
 * Elements narrower than a byte are one bit string, so element i of a 4-bit tensor is the low or
 * high half of byte i / 2. */
struct rt_view {
    void *data;
    int bits; /* of an element: 2, 4, or a multiple of 8 up to 64 */
    int rank;
    const int64_t *shape;
    const int64_t *strides;
};

/* Number of bytes when compact; false if shape is negative or sizes overflow. */
bool rt_view_bytes(const struct rt_view *v, int64_t *bytes);
/* Row-major without gaps? Dims of size 1 and empty tensors do not care about strides. */
bool rt_view_is_compact(const struct rt_view *v);
/* The bytes that the view touches, relative to data: lo <= 0 <= hi, [lo, hi). False on overflow. */
bool rt_view_extent(const struct rt_view *v, int64_t *lo, int64_t *hi);
/* Copy between views of one shape and element size that do not overlap. Unused last bits of a
 * compact sub-byte destination become 0. */
enum proem_status rt_view_copy(const struct rt_view *dst, const struct rt_view *src, struct err *e);

/* ---- memory plan (rt/arena_plan.c) ------------------------------------------------------------
 */

/* Something that needs `bytes` from step `first` to step `last`, both included. */
struct rt_item {
    int64_t bytes;
    int first, last;
    int64_t offset; /* result; a multiple of 64 */
};

/* Offsets such that items that live at the same time do not overlap; total size in *total. */
enum proem_status rt_arena_plan(const struct allocator *alloc, struct rt_item *items, int n,
                                int64_t *total, struct err *e);

/* ---- programs (rt/program.c, rt/exec.c) --------------------------------------------------------
 */

enum rt_place {
    RT_INPUT,  /* given at each run, read only */
    RT_CONST,  /* the same, and its content does not change while its address and shape stay */
    RT_OUTPUT, /* given at each run, written (steps may read it after that) */
    RT_TEMP    /* in the program's own memory */
};

struct rt_buffer {
    const char *name; /* for messages */
    enum rt_place place;
    int bits;      /* of an element */
    int may_alias; /* RT_OUTPUT: index of the input buffer whose memory it may be, else -1 */
};

/* A launch: kernel argument i is buffer args[i]. */
struct rt_step {
    const struct pk_kernel *kernel;
    int n_args;
    const int *args;
    /* kernel->operands entries, or NULL. Operand i is packed once if every buffer in the list is
     * RT_CONST and the list is not empty; its packed form depends on their content and shapes
     * alone. */
    const struct rt_operand *operands;
};
struct rt_operand {
    int n;
    const int *buffers;
};

struct rt_program_desc {
    int n_buffers, n_steps, n_symbols, n_modules;
    const struct rt_buffer *buffers;
    const struct rt_step *steps;      /* in order of execution */
    struct rt_module *const *modules; /* kept loaded for the program's life */
    /* For tests: before a step, fill what comes alive with it and its scratch with 0xFF (NaNs,
     * out-of-range indices), and check after it that nothing wrote past an end. */
    bool poison;
};

struct rt_program;

/* Copies the description. The allocator and the kernels must outlive the program. */
enum proem_status rt_program_new(const struct allocator *alloc, const struct rt_program_desc *desc,
                                 struct rt_program **out, struct err *e);
/* Every exec must have been freed. */
void rt_program_free(struct rt_program *p);
/* Bytes of packed constants that the program holds now. */
int64_t rt_program_packed_bytes(struct rt_program *p);

struct rt_exec;

/* One caller thread at a time may use an exec; any number of execs may run at once. */
enum proem_status rt_exec_new(struct rt_program *p, struct rt_pool *pool, struct rt_exec **out,
                              struct err *e);
void rt_exec_free(struct rt_exec *x);

/* Size everything for values sym[n_symbols] and bytes[n_buffers] (compact; of every buffer). Memory
 * only grows, so going back to a smaller binding allocates nothing. A kernel's size and task
 * functions see sym and threads only (buf and packed are arrays of NULL). */
enum proem_status rt_exec_prepare(struct rt_exec *x, const int64_t *sym, const int64_t *bytes,
                                  struct err *e);

struct rt_memory {
    int64_t arena;   /* temporaries and scratch */
    int64_t staging; /* compact copies of strided arguments */
    int64_t sum;     /* what the arena would be without reuse */
};
void rt_exec_memory(const struct rt_exec *x, struct rt_memory *out);

/* The first data error of a run, in order of steps. */
struct rt_fault {
    int step;
    struct pk_fault fault;
};

/* Run with one view a buffer (those of RT_TEMP are ignored). A view that is not compact, or not
 * aligned to its element, goes through a compact copy. An output must not overlap an input or
 * another output, save that it may be exactly the memory of its may_alias. Allocates nothing when
 * prepared, constants are packed, and strided arguments were seen before.
 * A failed data check: PROEM_DATA with *fault filled (may be NULL) and outputs undefined. */
enum proem_status rt_exec_run(struct rt_exec *x, const struct rt_view *views,
                              struct rt_fault *fault, struct err *e);

/* ---- measuring (rt/measure.c) ------------------------------------------------------------------
 */

/* One of several executions that compute the same from the same views, to be timed against each
 * other. */
struct rt_trial {
    struct rt_exec *exec; /* prepared */
    int runs;             /* results: how many times it was timed; 0: not at all */
    double median_us;     /* of one run */
    /* Its time over that of trial 0 in the same turn: median and upper quartile. */
    double ratio, ratio_high;
};

/* Time n trials in turns for about budget_ms: packing and first runs are left out, trials that fall
 * far behind are dropped. Trial 0 is the one to beat. If even that takes too long for a fair
 * comparison none is timed; if only some can be, the first ones are. Errors are those of a run. */
enum proem_status rt_measure(struct rt_trial *trials, int n, const struct rt_view *views,
                             double budget_ms, struct err *e);

#endif
