/* SPDX-License-Identifier: MIT
 * The fake NVRTC (fake_cuda.h): "machine code" is the text behind the word FAKE. A text with @error
 * does not compile; one with @spill or @wait gets the lines of a log that real ones have.
 */
#include "fake_cuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rt/cuda/driver.h"

#define EXPORT __attribute__((visibility("default")))

struct nvrtc_program_st {
    char *text, *log;
};

static struct fake_nvrtc control = {.fail_at = -1};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

EXPORT struct fake_nvrtc *fake_nvrtc_control(void) {
    return &control;
}

/* Is this the call that fails? */
static bool fails(void) {
    pthread_mutex_lock(&lock);
    bool now = control.calls++ == control.fail_at;
    pthread_mutex_unlock(&lock);
    return now;
}

static void count(long *what, long by) {
    pthread_mutex_lock(&lock);
    *what += by;
    pthread_mutex_unlock(&lock);
}

EXPORT const char *nvrtcGetErrorString(nvrtc_result r) {
    return r == NVRTC_COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_FAKE";
}

EXPORT nvrtc_result nvrtcVersion(int *major, int *minor) {
    *major = 12;
    *minor = 8;
    return fails();
}

EXPORT nvrtc_result nvrtcCreateProgram(nvrtc_program *p, const char *text, const char *name, int n,
                                       const char *const *headers, const char *const *names) {
    (void)name, (void)n, (void)headers, (void)names;
    if (fails()) return 1;
    *p = calloc(1, sizeof **p);
    (*p)->text = strdup(text);
    count(&control.live, 1);
    return 0;
}

EXPORT nvrtc_result nvrtcDestroyProgram(nvrtc_program *p) {
    free((*p)->text);
    free((*p)->log);
    free(*p);
    *p = NULL;
    count(&control.live, -1);
    return 0;
}

EXPORT nvrtc_result nvrtcCompileProgram(nvrtc_program p, int n, const char *const *options) {
    (void)n, (void)options;
    if (fails()) return 1;
    const char *log = "ptxas info    : Function properties for f\n"
                      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                      "ptxas info    : Used 40 registers, used 1 barriers, 380 bytes cmem[0]\n";
    if (strstr(p->text, "@error") != NULL)
        log = "f.cu(3): warning #1: odd\nf.cu(7): error: expected a \";\"\n1 error detected\n";
    else if (strstr(p->text, "@spill") != NULL || control.spills != 0)
        log = "ptxas info    : Function properties for f\n"
              "    64 bytes stack frame, 24 bytes spill stores, 16 bytes spill loads\n"
              "ptxas info    : Used 255 registers, used 1 barriers\n";
    else if (strstr(p->text, "@wait") != NULL)
        log = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions "
              "are serialized due to function call boundary in function 'f'\n"
              "ptxas info    : Used 168 registers\n";
    p->log = strdup(log);
    if (strstr(p->text, "@error") != NULL) return NVRTC_COMPILATION;
    count(&control.compiled, 1);
    return 0;
}

EXPORT nvrtc_result nvrtcGetProgramLogSize(nvrtc_program p, size_t *n) {
    *n = p->log != NULL ? strlen(p->log) + 1 : 0;
    return fails();
}

EXPORT nvrtc_result nvrtcGetProgramLog(nvrtc_program p, char *log) {
    strcpy(log, p->log);
    return fails();
}

EXPORT nvrtc_result nvrtcGetCUBINSize(nvrtc_program p, size_t *n) {
    *n = strlen(p->text) + 5;
    return fails();
}

EXPORT nvrtc_result nvrtcGetCUBIN(nvrtc_program p, char *code) {
    sprintf(code, "FAKE%s", p->text);
    return fails();
}
