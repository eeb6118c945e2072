/* SPDX-License-Identifier: MIT
 * The fake CUDA driver (fake_cuda.h). One lock guards everything: tests of threads look for races in
 * the runtime, not here.
 *
 * Kernels, by the first word of their name, with the argument block of base/cuda_abi.h:
 *   copy   buf[1] = buf[0], sym[0] bytes          inc    buf[0] += 1, sym[0] bytes
 *   check  i32 buf[0], sym[0] bytes: a fault where an element is not below 100
 *   count  adds 1 to the first word of the scratch, stores it to buf[0]
 *   proem_copy, proem_keep_bits   as in rt/cuda/copy.c
 * Others are recorded and do nothing.
 */
#include "fake_cuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cuda_abi.h"
#include "rt/cuda/driver.h"

#define EXPORT __attribute__((visibility("default")))

enum { INVALID_VALUE = 1, NO_CONTEXT = 201, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700 };

struct block {
    struct block *next;
    size_t size;
    char *data;
};

struct cu_module_st {
    char *text;
    struct cu_function_st *functions;
};

struct cu_function_st {
    struct cu_function_st *next;
    char name[64];
    int shared;
};

struct node {
    struct node *next;
    struct cu_function_st *f;
    struct fake_launch launch;
    char arguments[1024];
};

struct cu_graph_st {
    struct node *first, **last;
};

struct cu_graph_exec_st {
    struct cu_graph_st *graph;
};

struct cu_stream_st {
    struct cu_graph_st *capture;
};

struct cu_event_st {
    int unused;
};

static struct fake_cuda control = {.fail_at = -1, .devices = 1, .version = 12080, .cc = 90};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks;
static _Thread_local int depth;
static int the_context;

EXPORT struct fake_cuda *fake_cuda_control(void) {
    return &control;
}

/* Take the lock, count the call; false: this is the one that fails. */
static bool enter(void) {
    pthread_mutex_lock(&lock);
    if (control.calls++ != control.fail_at) return true;
    return false;
}

static cu_result leave(cu_result r) {
    pthread_mutex_unlock(&lock);
    return r;
}

#define ENTER()                                                                                    \
    if (!enter()) return leave(control.fail_with)

#define NEED_CONTEXT()                                                                             \
    if (depth == 0) {                                                                              \
        control.strays++;                                                                          \
        return leave(NO_CONTEXT);                                                                  \
    }

static bool inside(cu_ptr at, size_t n) {
    for (struct block *b = blocks; b != NULL; b = b->next) {
        cu_ptr from = (cu_ptr)(uintptr_t)b->data;
        if (at >= from && at + n <= from + b->size) return true;
    }
    control.strays++;
    return false;
}

/* ---- errors and devices ---------------------------------------------------------------------- */

EXPORT cu_result cuGetErrorName(cu_result r, const char **name) {
    *name = r == CU_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
    return 0;
}

EXPORT cu_result cuGetErrorString(cu_result r, const char **text) {
    *text = r == CU_OUT_OF_MEMORY ? "out of memory" : "a fake error";
    return 0;
}

EXPORT cu_result cuInit(unsigned flags) {
    (void)flags;
    ENTER();
    return leave(control.devices > 0 ? 0 : CU_NO_DEVICE);
}

EXPORT cu_result cuDriverGetVersion(int *version) {
    ENTER();
    *version = control.version;
    return leave(0);
}

EXPORT cu_result cuDeviceGetCount(int *n) {
    ENTER();
    *n = control.devices;
    return leave(0);
}

EXPORT cu_result cuDeviceGet(cu_device *d, int ordinal) {
    ENTER();
    *d = ordinal;
    return leave(0);
}

EXPORT cu_result cuDeviceGetName(char *name, int n, cu_device d) {
    (void)d;
    ENTER();
    snprintf(name, (size_t)n, "Fake GPU");
    return leave(0);
}

EXPORT cu_result cuDeviceGetAttribute(int *v, int attribute, cu_device d) {
    (void)d;
    ENTER();
    switch (attribute) {
    case CU_DEVICE_CC_MAJOR: *v = control.cc / 10; break;
    case CU_DEVICE_CC_MINOR: *v = control.cc % 10; break;
    case CU_DEVICE_SMS: *v = 132; break;
    case CU_DEVICE_THREADS_SM: *v = 2048; break;
    case CU_DEVICE_BLOCKS_SM: *v = 32; break;
    case CU_DEVICE_REGISTERS_SM: *v = 65536; break;
    case CU_DEVICE_SHARED_SM: *v = 233472; break;
    case CU_DEVICE_SHARED_BLOCK_MOST: *v = 232448; break;
    case CU_DEVICE_L2: *v = 1 << 16; break;
    case CU_DEVICE_CLOCK: *v = 1980000; break;
    case CU_DEVICE_MEMORY_CLOCK: *v = 3201000; break;
    case CU_DEVICE_BUS_WIDTH: *v = 6144; break;
    default: return leave(INVALID_VALUE);
    }
    return leave(0);
}

EXPORT cu_result cuDeviceTotalMem_v2(size_t *n, cu_device d) {
    (void)d;
    ENTER();
    *n = (size_t)1 << 37;
    return leave(0);
}

/* ---- contexts, streams, events --------------------------------------------------------------- */

EXPORT cu_result cuDevicePrimaryCtxRetain(cu_context *c, cu_device d) {
    (void)d;
    ENTER();
    control.live++;
    *c = (cu_context)(void *)&the_context;
    return leave(0);
}

EXPORT cu_result cuDevicePrimaryCtxRelease_v2(cu_device d) {
    (void)d;
    enter(); /* what frees cannot fail */
    control.live--;
    return leave(0);
}

EXPORT cu_result cuCtxPushCurrent_v2(cu_context c) {
    (void)c;
    ENTER();
    depth++;
    control.depth++;
    return leave(0);
}

EXPORT cu_result cuCtxPopCurrent_v2(cu_context *c) {
    (void)c;
    enter();
    depth--;
    control.depth--;
    return leave(0);
}

EXPORT cu_result cuCtxSynchronize(void) {
    ENTER();
    NEED_CONTEXT();
    control.syncs++;
    return leave(0);
}

EXPORT cu_result cuStreamCreate(cu_stream *s, unsigned flags) {
    (void)flags;
    ENTER();
    NEED_CONTEXT();
    *s = calloc(1, sizeof **s);
    control.live++;
    return leave(0);
}

EXPORT cu_result cuStreamDestroy_v2(cu_stream s) {
    enter();
    free(s);
    control.live--;
    return leave(0);
}

EXPORT cu_result cuStreamSynchronize(cu_stream s) {
    ENTER();
    NEED_CONTEXT();
    control.syncs++;
    return leave(s != NULL && s->capture != NULL ? 900 : 0);
}

EXPORT cu_result cuEventCreate(cu_event *event, unsigned flags) {
    (void)flags;
    ENTER();
    NEED_CONTEXT();
    *event = calloc(1, sizeof **event);
    control.live++;
    return leave(0);
}

EXPORT cu_result cuEventDestroy_v2(cu_event event) {
    enter();
    free(event);
    control.live--;
    return leave(0);
}

EXPORT cu_result cuEventRecord(cu_event event, cu_stream s) {
    (void)event, (void)s;
    ENTER();
    return leave(0);
}

EXPORT cu_result cuEventSynchronize(cu_event event) {
    (void)event;
    ENTER();
    return leave(0);
}

EXPORT cu_result cuEventElapsedTime(float *ms, cu_event from, cu_event to) {
    (void)from, (void)to;
    ENTER();
    *ms = control.graph_ms > 0 ? (float)control.graph_ms : 0.25f;
    return leave(0);
}

/* ---- memory ---------------------------------------------------------------------------------- */

EXPORT cu_result cuMemAlloc_v2(cu_ptr *at, size_t n) {
    ENTER();
    NEED_CONTEXT();
    struct block *b = malloc(sizeof *b);
    if (n == 0 || n > (size_t)1 << 40) {
        free(b);
        return leave(n == 0 ? INVALID_VALUE : CU_OUT_OF_MEMORY);
    }
    *b = (struct block){blocks, n, aligned_alloc(256, (n + 255) / 256 * 256)};
    memset(b->data, 0xCD, n);
    blocks = b;
    control.live++;
    *at = (cu_ptr)(uintptr_t)b->data;
    return leave(0);
}

EXPORT cu_result cuMemFree_v2(cu_ptr at) {
    enter();
    for (struct block **link = &blocks; *link != NULL; link = &(*link)->next) {
        struct block *b = *link;
        if ((cu_ptr)(uintptr_t)b->data != at) continue;
        *link = b->next;
        free(b->data);
        free(b);
        control.live--;
        return leave(0);
    }
    control.strays++;
    return leave(INVALID_VALUE);
}

EXPORT cu_result cuMemcpyHtoDAsync_v2(cu_ptr to, const void *from, size_t n, cu_stream s) {
    (void)s;
    ENTER();
    NEED_CONTEXT();
    if (!inside(to, n)) return leave(ILLEGAL_ADDRESS);
    memcpy((void *)(uintptr_t)to, from, n);
    return leave(0);
}

EXPORT cu_result cuMemcpyDtoHAsync_v2(void *to, cu_ptr from, size_t n, cu_stream s) {
    (void)s;
    ENTER();
    NEED_CONTEXT();
    if (!inside(from, n)) return leave(ILLEGAL_ADDRESS);
    memcpy(to, (const void *)(uintptr_t)from, n);
    return leave(0);
}

EXPORT cu_result cuMemcpyDtoDAsync_v2(cu_ptr to, cu_ptr from, size_t n, cu_stream s) {
    (void)s;
    ENTER();
    NEED_CONTEXT();
    if (!inside(to, n) || !inside(from, n)) return leave(ILLEGAL_ADDRESS);
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, n);
    return leave(0);
}

EXPORT cu_result cuMemsetD8Async(cu_ptr to, unsigned char v, size_t n, cu_stream s) {
    (void)s;
    ENTER();
    NEED_CONTEXT();
    if (!inside(to, n)) return leave(ILLEGAL_ADDRESS);
    memset((void *)(uintptr_t)to, v, n);
    return leave(0);
}

/* ---- modules --------------------------------------------------------------------------------- */

EXPORT cu_result cuModuleLoadDataEx(cu_module *m, const void *data, unsigned n, int *options,
                                    void **values) {
    (void)n, (void)options, (void)values;
    ENTER();
    NEED_CONTEXT();
    const char *text = data;
    if (strncmp(text, "FAKE", 4) != 0) return leave(CU_NO_BINARY);
    *m = calloc(1, sizeof **m);
    (*m)->text = strdup(text);
    control.live++;
    return leave(0);
}

EXPORT cu_result cuModuleUnload(cu_module m) {
    enter();
    while (m->functions != NULL) {
        struct cu_function_st *f = m->functions;
        m->functions = f->next;
        free(f);
    }
    free(m->text);
    free(m);
    control.live--;
    return leave(0);
}

EXPORT cu_result cuModuleGetFunction(cu_function *out, cu_module m, const char *name) {
    ENTER();
    NEED_CONTEXT();
    for (struct cu_function_st *f = m->functions; f != NULL; f = f->next) {
        if (strcmp(f->name, name) != 0) continue;
        *out = f;
        return leave(0);
    }
    /* Macros paste names, so a text does not tell which it has. */
    if (strncmp(name, "no_", 3) == 0) return leave(NOT_FOUND);
    struct cu_function_st *f = calloc(1, sizeof *f);
    snprintf(f->name, sizeof f->name, "%s", name);
    f->shared = 48 * 1024;
    f->next = m->functions;
    m->functions = f;
    *out = f;
    return leave(0);
}

EXPORT cu_result cuFuncSetAttribute(cu_function f, int attribute, int value) {
    ENTER();
    NEED_CONTEXT();
    if (attribute == CU_FUNCTION_DYNAMIC_SHARED) f->shared = value;
    return leave(0);
}

static bool is(const char *name, const char *kind) {
    size_t n = strlen(kind);
    return strncmp(name, kind, n) == 0 && (name[n] == '\0' || name[n] == '_');
}

/* Bytes of the argument block of a kernel that is known here; 0: of another. */
static size_t block_of(const char *name) {
    if (is(name, "copy")) return 8 * 5;
    if (is(name, "inc") || is(name, "check") || is(name, "count")) return 8 * 4;
    return 0;
}

EXPORT cu_result cuFuncGetParamInfo(cu_function f, size_t index, size_t *offset, size_t *size) {
    ENTER();
    *offset = 0;
    *size = block_of(f->name);
    return leave(index == 0 && *size > 0 ? 0 : INVALID_VALUE);
}

/* ---- kernels --------------------------------------------------------------------------------- */

struct copy_args {
    unsigned char *to;
    const unsigned char *from;
    int64_t n;
    int32_t bits, rank;
    int64_t shape[32], strides[32];
};

static int64_t place(const struct copy_args *a, int64_t i) {
    int64_t at = 0;
    for (int d = a->rank - 1; d >= 0; d--) {
        at += i % a->shape[d] * a->strides[d];
        i /= a->shape[d];
    }
    return at;
}

static void strided_copy(const struct copy_args *a) {
    for (int64_t i = 0; i < a->n; i++) {
        int64_t at = place(a, i);
        if (a->bits >= 8) {
            memcpy(a->to + i * (a->bits / 8), a->from + at * (a->bits / 8), (size_t)a->bits / 8);
            continue;
        }
        int per = 8 / a->bits, mask = (1 << a->bits) - 1;
        int64_t bit = at * a->bits;
        int value = a->from[bit >> 3] >> (bit & 7) & mask;
        int shift = (int)(i % per) * a->bits;
        unsigned char *to = &a->to[i / per];
        if (i % per == 0) *to = 0;
        *to = (unsigned char)(*to | value << shift);
    }
}

static bool run_known(const char *name, const int64_t *a) {
    unsigned char *x = (unsigned char *)(uintptr_t)a[0];
    if (is(name, "copy")) {
        size_t n = (size_t)a[2];
        if (!inside((cu_ptr)a[0], n) || !inside((cu_ptr)a[1], n)) return false;
        memcpy((void *)(uintptr_t)a[1], x, n);
    } else if (is(name, "inc")) {
        if (!inside((cu_ptr)a[0], (size_t)a[1])) return false;
        for (int64_t i = 0; i < a[1]; i++)
            x[i]++;
    } else if (is(name, "count")) {
        if (!inside((cu_ptr)a[2], 4)) return false;
        ++*(int *)(uintptr_t)a[2];
        memcpy(x, (const void *)(uintptr_t)a[2], 4);
    } else if (is(name, "check")) {
        struct pk_cuda_fault *f = (struct pk_cuda_fault *)(uintptr_t)a[3];
        if (!inside((cu_ptr)a[3], sizeof *f)) return false;
        for (int64_t i = a[1] / 4; i-- > 0;) {
            int v = ((const int *)(const void *)x)[i];
            if (v < 100 || (unsigned long long)f->index <= (unsigned long long)i) continue;
            *f = (struct pk_cuda_fault){-1, 0, i, v, 100};
        }
    }
    return true;
}

/* A check of a kernel that is not known here fails, if the test wants that. */
static bool report_fault(const char *name, const int64_t *arguments) {
    if (control.fault_word == 0 || block_of(name) > 0 || strstr(name, "check") == NULL) return true;
    cu_ptr at = (cu_ptr)arguments[control.fault_word];
    if (!inside(at, sizeof(struct pk_cuda_fault))) return false;
    *(struct pk_cuda_fault *)(uintptr_t)at = (struct pk_cuda_fault){
        -1, 0, control.fault_index, control.fault_value, control.fault_bound};
    return true;
}

static cu_result run(const struct fake_launch *l, const void *arguments) {
    if (control.n_launches < FAKE_LAUNCHES) control.launches[control.n_launches] = *l;
    control.n_launches++;
    if (!report_fault(l->name, arguments)) return ILLEGAL_ADDRESS;
    if (strcmp(l->name, "proem_copy") == 0) {
        strided_copy(arguments);
    } else if (block_of(l->name) > 0) {
        int64_t a[5];
        memcpy(a, arguments, block_of(l->name));
        if (!run_known(l->name, a)) return ILLEGAL_ADDRESS;
    }
    return 0;
}

static size_t argument_bytes(const char *name) {
    return strcmp(name, "proem_copy") == 0 ? sizeof(struct copy_args) : block_of(name);
}

EXPORT cu_result cuLaunchKernelEx(const cu_launch_config *c, cu_function f, void **parameters,
                                  void **extra) {
    (void)extra;
    ENTER();
    NEED_CONTEXT();
    if (c->grid_x == 0 || c->block_x == 0 || c->block_x > 1024 || (int)c->shared_bytes > f->shared)
        return leave(INVALID_VALUE);
    struct fake_launch l = {.grid = c->grid_x,
                            .block = c->block_x,
                            .shared = c->shared_bytes,
                            .cluster = 1,
                            .stream = c->stream};
    snprintf(l.name, sizeof l.name, "%s", f->name);
    for (unsigned i = 0; i < c->n_attributes; i++) {
        if (c->attributes[i].id == CU_LAUNCH_CLUSTER) l.cluster = c->attributes[i].value.cluster.x;
    }
    if (l.grid % l.cluster != 0) return leave(INVALID_VALUE);
    size_t n = argument_bytes(f->name);
    memcpy(l.args, parameters[0], n < sizeof l.args ? n : sizeof l.args);
    if (strcmp(f->name, "proem_keep_bits") == 0) {
        unsigned char *at = *(unsigned char **)parameters[0];
        *at = (unsigned char)(*at & ((1 << *(int *)parameters[1]) - 1));
        return leave(0);
    }
    if (c->stream == NULL || c->stream->capture == NULL) return leave(run(&l, parameters[0]));
    struct node *node = calloc(1, sizeof *node);
    node->f = f;
    node->launch = l;
    memcpy(node->arguments, parameters[0], n);
    *c->stream->capture->last = node;
    c->stream->capture->last = &node->next;
    return leave(0);
}

EXPORT cu_result cuTensorMapEncodeTiled(cu_tensor_map *map, int type, uint32_t rank, void *at,
                                        const uint64_t *dims, const uint64_t *strides,
                                        const uint32_t *box, const uint32_t *steps, int interleave,
                                        int swizzle, int promotion, int fill) {
    (void)interleave, (void)promotion, (void)fill, (void)steps;
    ENTER();
    control.maps++;
    bool ok = (uintptr_t)map % 64 == 0 && (uintptr_t)at % 16 == 0 && rank >= 1 && rank <= 5;
    for (uint32_t i = 0; ok && i < rank; i++)
        ok = dims[i] > 0 && box[i] > 0 && box[i] <= 256 && (i == 0 || strides[i - 1] % 16 == 0);
    if (!ok) return leave(INVALID_VALUE);
    *map = (cu_tensor_map){{(uint64_t)(uintptr_t)at, (uint64_t)type, dims[0],
                            rank > 1 ? strides[0] : 0, (uint64_t)swizzle, box[0]}};
    return leave(0);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void graph_free(struct cu_graph_st *g) {
    while (g->first != NULL) {
        struct node *n = g->first;
        g->first = n->next;
        free(n);
    }
    free(g);
}

EXPORT cu_result cuStreamBeginCapture_v2(cu_stream s, int mode) {
    (void)mode;
    ENTER();
    s->capture = calloc(1, sizeof *s->capture);
    s->capture->last = &s->capture->first;
    return leave(0);
}

EXPORT cu_result cuStreamEndCapture(cu_stream s, cu_graph *g) {
    bool ok = enter();
    *g = s->capture;
    s->capture = NULL;
    if (ok) control.live++;
    if (!ok) graph_free(*g);
    if (!ok) *g = NULL;
    return leave(ok ? 0 : control.fail_with);
}

EXPORT cu_result cuGraphInstantiateWithFlags(cu_graph_exec *x, cu_graph g,
                                             unsigned long long flags) {
    (void)flags;
    ENTER();
    *x = calloc(1, sizeof **x);
    (*x)->graph = calloc(1, sizeof *g);
    struct node **last = &(*x)->graph->first;
    for (struct node *n = g->first; n != NULL; n = n->next) {
        *last = malloc(sizeof *n);
        memcpy(*last, n, sizeof *n);
        last = &(*last)->next;
        *last = NULL;
    }
    control.live++;
    return leave(0);
}

static double launch_ms(const struct fake_launch *l) {
    bool fast = (control.fast_shared > 0 && l->shared == control.fast_shared) ||
                (control.fast_block > 0 && l->block == control.fast_block);
    return fast ? 0.01 : 0.02;
}

EXPORT cu_result cuGraphLaunch(cu_graph_exec x, cu_stream s) {
    (void)s;
    ENTER();
    cu_result r = 0;
    control.graph_ms = 0;
    for (struct node *n = x->graph->first; n != NULL && r == 0; n = n->next) {
        r = run(&n->launch, n->arguments);
        if (control.fast_shared + control.fast_block > 0) control.graph_ms += launch_ms(&n->launch);
    }
    return leave(r);
}

EXPORT cu_result cuGraphDestroy(cu_graph g) {
    enter();
    graph_free(g);
    control.live--;
    return leave(0);
}

EXPORT cu_result cuGraphExecDestroy(cu_graph_exec x) {
    enter();
    graph_free(x->graph);
    free(x);
    control.live--;
    return leave(0);
}
