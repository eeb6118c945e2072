/* SPDX-License-Identifier: MIT
 * BLAS libraries as peers: OpenBLAS and BLIS define the same names, so each is opened with its
 * symbols to itself.
 *
 * An OpenBLAS older than the machine takes an unknown CPU for an old one. What it chooses is found
 * out in a child process; where those kernels leave the machine's vectors unused, the kernels that
 * use them are asked for (OPENBLAS_CORETYPE) before the library is opened here.
 */
#define _DEFAULT_SOURCE
#include "bench/bench.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A function pointer from dlsym without a conversion that C does not define. */
static bool find(void *lib, const char *name, void *pointer) {
    void *p = dlsym(lib, name);
    memcpy(pointer, &p, sizeof p);
    return p != NULL;
}

static const char openblas_file[] = "libopenblas.so.0", blis_file[] = "libblis.so.4";

static void core_of(void *lib, char *out, size_t n) {
    char *(*corename)(void) = NULL;
    snprintf(out, n, "%s",
             lib != NULL && find(lib, "openblas_get_corename", &corename) ? corename() : "unknown");
}

/* The core that OpenBLAS chooses by itself. */
static void core_in_child(char *out, size_t n) {
    int ends[2];
    out[0] = '\0';
    if (pipe(ends) != 0) return;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        core_of(dlopen(openblas_file, RTLD_NOW | RTLD_LOCAL), out, n);
        ssize_t sent = write(ends[1], out, strlen(out));
        _exit(sent < 0);
    }
    close(ends[1]);
    ssize_t got = child > 0 ? read(ends[0], out, n - 1) : 0;
    out[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    if (child > 0) waitpid(child, NULL, 0);
}

static bool is_any(const char *s, const char *const *list) {
    for (; *list != NULL; list++) {
        if (strcasecmp(s, *list) == 0) return true;
    }
    return false;
}

static void choose_core(struct report *r) {
#if defined(__x86_64__)
    static const char *const wide[] = {"SkylakeX", "Cooperlake", "SapphireRapids", "Zen4", NULL};
    static const char *const avx2[] = {"Haswell",        "Zen",  "SkylakeX", "Cooperlake",
                                       "SapphireRapids", "Zen4", NULL};
    char core[64], text[160];
    if (getenv("OPENBLAS_CORETYPE") != NULL) return;
    core_in_child(core, sizeof core);
    const char *better = NULL;
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
        if (!is_any(core, wide)) better = "SKYLAKEX";
    } else if (__builtin_cpu_supports("avx2") && !is_any(core, avx2)) {
        better = "HASWELL";
    }
    if (better == NULL) return;
    setenv("OPENBLAS_CORETYPE", better, 1);
    snprintf(text, sizeof text, "would choose %s; set to %s", core, better);
    report_machine(r, "OPENBLAS_CORETYPE", text);
#else
    (void)r;
#endif
}

static void openblas_open(struct blas *b, struct report *r) {
    char core[64];
    char *(*config)(void) = NULL;
    choose_core(r);
    void *lib = dlopen(openblas_file, RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL || !find(lib, "cblas_sgemm", &b->sgemm) ||
        !find(lib, "cblas_sgemv", &b->sgemv) ||
        !find(lib, "openblas_set_num_threads", &b->set_threads)) {
        report_skip(r, "OpenBLAS", "libopenblas.so.0 is missing (apt install libopenblas0)");
        return;
    }
    b->name = "OpenBLAS";
    core_of(lib, core, sizeof core);
    find(lib, "openblas_get_config", &config);
    /* The text starts "OpenBLAS VERSION ". */
    const char *version = config != NULL ? strchr(config(), ' ') : NULL;
    version = version != NULL ? version + 1 : "?";
    snprintf(b->what, sizeof b->what, "%.*s, kernels for %s", (int)strcspn(version, " "), version,
             core);
    report_machine(r, "OpenBLAS", b->what);
}

static void blis_open(struct blas *b, struct report *r) {
    int (*arch)(void) = NULL;
    char *(*arch_name)(int) = NULL;
    const char *(*version)(void) = NULL;
    void *lib = dlopen(blis_file, RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL || !find(lib, "cblas_sgemm", &b->sgemm) ||
        !find(lib, "cblas_sgemv", &b->sgemv) ||
        !find(lib, "bli_thread_set_num_threads", &b->set_threads64)) {
        report_skip(r, "BLIS", "libblis.so.4 is missing (apt install libblis4-openmp)");
        return;
    }
    b->name = "BLIS";
    bool known = find(lib, "bli_arch_query_id", &arch) && find(lib, "bli_arch_string", &arch_name);
    snprintf(b->what, sizeof b->what, "%s, kernels for %s",
             find(lib, "bli_info_get_version_str", &version) ? version() : "?",
             known ? arch_name(arch()) : "?");
    report_machine(r, "BLIS", b->what);
}

void peers_open(struct peers *p, struct report *r) {
    *p = (struct peers){{0}, {0}};
    openblas_open(&p->openblas, r);
    blis_open(&p->blis, r);
}

void blas_threads(const struct blas *b, int threads) {
    if (b->set_threads != NULL) b->set_threads(threads);
    if (b->set_threads64 != NULL) b->set_threads64(threads);
}

bool blas_product_run(void *self) {
    enum { ROWS = 101, PLAIN = 111, TRANSPOSED = 112 };
    const struct blas_product *p = self;
    int m = (int)p->m, n = (int)p->n, k = (int)p->k;
    if (p->w_type != DT_NONE) dequantize_rows(p);
    if (m == 1 && p->b_is_nk)
        p->blas->sgemv(ROWS, PLAIN, n, k, 1, p->b, k, p->a, 1, 0, p->c, 1);
    else
        p->blas->sgemm(ROWS, PLAIN, p->b_is_nk ? TRANSPOSED : PLAIN, m, n, k, 1, p->a, k, p->b,
                       p->b_is_nk ? k : n, 0, p->c, n);
    return true;
}
