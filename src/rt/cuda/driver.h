/* SPDX-License-Identifier: MIT
 * What is used of the CUDA driver's interface and of NVRTC's: declarations of our own, from NVIDIA's
 * reference manuals, since a build has no header of theirs. Handles are pointers to nothing known.
 * The names of functions are those that the libraries export, with their version.
 */
#ifndef PROEM_RT_CUDA_DRIVER_H
#define PROEM_RT_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int cu_result; /* 0: success */
typedef int cu_device;
typedef uint64_t cu_ptr; /* an address in device memory */
typedef struct cu_context_st *cu_context;
typedef struct cu_stream_st *cu_stream;
typedef struct cu_event_st *cu_event;
typedef struct cu_module_st *cu_module;
typedef struct cu_function_st *cu_function;
typedef struct cu_graph_st *cu_graph;
typedef struct cu_graph_exec_st *cu_graph_exec;

enum {
    CU_OUT_OF_MEMORY = 2,
    CU_NO_DEVICE = 100,
    CU_INVALID_DEVICE = 101,
    CU_NO_BINARY = 209,
    /* attributes of devices */
    CU_DEVICE_SHARED_BLOCK = 8, /* without asking */
    CU_DEVICE_CLOCK = 13,       /* kHz */
    CU_DEVICE_SMS = 16,
    CU_DEVICE_MEMORY_CLOCK = 36, /* kHz */
    CU_DEVICE_BUS_WIDTH = 37,    /* bits */
    CU_DEVICE_L2 = 38,
    CU_DEVICE_THREADS_SM = 39,
    CU_DEVICE_CC_MAJOR = 75,
    CU_DEVICE_CC_MINOR = 76,
    CU_DEVICE_SHARED_SM = 81,
    CU_DEVICE_REGISTERS_SM = 82,
    CU_DEVICE_SHARED_BLOCK_MOST = 97,
    CU_DEVICE_BLOCKS_SM = 106,
    /* attributes of functions */
    CU_FUNCTION_DYNAMIC_SHARED = 8,
    CU_FUNCTION_LARGE_CLUSTER = 14,
    /* attributes of launches */
    CU_LAUNCH_CLUSTER = 4,
    /* flags */
    CU_STREAM_NON_BLOCKING = 1,
    CU_CAPTURE_THREAD_LOCAL = 1
};

typedef struct cu_launch_attribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        struct {
            unsigned x, y, z;
        } cluster;
    } value;
} cu_launch_attribute;

typedef struct cu_launch_config {
    unsigned grid_x, grid_y, grid_z;
    unsigned block_x, block_y, block_z;
    unsigned shared_bytes;
    cu_stream stream;
    cu_launch_attribute *attributes;
    unsigned n_attributes;
} cu_launch_config;

/* 128 bytes, aligned to 64. */
typedef struct cu_tensor_map {
    uint64_t opaque[16];
} cu_tensor_map;

/* X(member, exported name, parameters). Those that came after CUDA 12.0 may be missing (rt/cuda asks
 * before it calls): they stand in CU_OPTIONAL. */
#define CU_REQUIRED(X)                                                                             \
    X(get_error_name, "cuGetErrorName", (cu_result, const char **))                                \
    X(get_error_string, "cuGetErrorString", (cu_result, const char **))                            \
    X(init, "cuInit", (unsigned))                                                                  \
    X(driver_version, "cuDriverGetVersion", (int *))                                               \
    X(device_count, "cuDeviceGetCount", (int *))                                                   \
    X(device_get, "cuDeviceGet", (cu_device *, int))                                               \
    X(device_name, "cuDeviceGetName", (char *, int, cu_device))                                    \
    X(device_attribute, "cuDeviceGetAttribute", (int *, int, cu_device))                           \
    X(device_memory, "cuDeviceTotalMem_v2", (size_t *, cu_device))                                 \
    X(context_retain, "cuDevicePrimaryCtxRetain", (cu_context *, cu_device))                       \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (cu_device))                                \
    X(context_push, "cuCtxPushCurrent_v2", (cu_context))                                           \
    X(context_pop, "cuCtxPopCurrent_v2", (cu_context *))                                           \
    X(context_wait, "cuCtxSynchronize", (void))                                                    \
    X(stream_create, "cuStreamCreate", (cu_stream *, unsigned))                                    \
    X(stream_destroy, "cuStreamDestroy_v2", (cu_stream))                                           \
    X(stream_wait, "cuStreamSynchronize", (cu_stream))                                             \
    X(event_create, "cuEventCreate", (cu_event *, unsigned))                                       \
    X(event_destroy, "cuEventDestroy_v2", (cu_event))                                              \
    X(event_record, "cuEventRecord", (cu_event, cu_stream))                                        \
    X(event_wait, "cuEventSynchronize", (cu_event))                                                \
    X(event_ms, "cuEventElapsedTime", (float *, cu_event, cu_event))                               \
    X(alloc, "cuMemAlloc_v2", (cu_ptr *, size_t))                                                  \
    X(free, "cuMemFree_v2", (cu_ptr))                                                              \
    X(copy_in, "cuMemcpyHtoDAsync_v2", (cu_ptr, const void *, size_t, cu_stream))                  \
    X(copy_out, "cuMemcpyDtoHAsync_v2", (void *, cu_ptr, size_t, cu_stream))                       \
    X(copy, "cuMemcpyDtoDAsync_v2", (cu_ptr, cu_ptr, size_t, cu_stream))                           \
    X(fill, "cuMemsetD8Async", (cu_ptr, unsigned char, size_t, cu_stream))                         \
    X(module_load, "cuModuleLoadDataEx", (cu_module *, const void *, unsigned, int *, void **))    \
    X(module_unload, "cuModuleUnload", (cu_module))                                                \
    X(module_function, "cuModuleGetFunction", (cu_function *, cu_module, const char *))            \
    X(function_set, "cuFuncSetAttribute", (cu_function, int, int))                                 \
    X(launch, "cuLaunchKernelEx", (const cu_launch_config *, cu_function, void **, void **))       \
    X(tensor_map, "cuTensorMapEncodeTiled",                                                        \
      (cu_tensor_map *, int, uint32_t, void *, const uint64_t *, const uint64_t *,                 \
       const uint32_t *, const uint32_t *, int, int, int, int))                                    \
    X(capture_begin, "cuStreamBeginCapture_v2", (cu_stream, int))                                  \
    X(capture_end, "cuStreamEndCapture", (cu_stream, cu_graph *))                                  \
    X(graph_instantiate, "cuGraphInstantiateWithFlags",                                            \
      (cu_graph_exec *, cu_graph, unsigned long long))                                             \
    X(graph_launch, "cuGraphLaunch", (cu_graph_exec, cu_stream))                                   \
    X(graph_free, "cuGraphDestroy", (cu_graph))                                                    \
    X(graph_exec_free, "cuGraphExecDestroy", (cu_graph_exec))

#define CU_OPTIONAL(X) X(parameter, "cuFuncGetParamInfo", (cu_function, size_t, size_t *, size_t *))

struct cu_functions {
#define CU_MEMBER(member, name, parameters) cu_result(*member) parameters;
    CU_REQUIRED(CU_MEMBER) CU_OPTIONAL(CU_MEMBER)
#undef CU_MEMBER
};

typedef int nvrtc_result; /* 0: success */
typedef struct nvrtc_program_st *nvrtc_program;

enum { NVRTC_COMPILATION = 6 };

#define NVRTC_REQUIRED(X)                                                                          \
    X(version, "nvrtcVersion", (int *, int *))                                                     \
    X(create, "nvrtcCreateProgram",                                                                \
      (nvrtc_program *, const char *, const char *, int, const char *const *,                      \
       const char *const *))                                                                       \
    X(destroy, "nvrtcDestroyProgram", (nvrtc_program *))                                           \
    X(compile, "nvrtcCompileProgram", (nvrtc_program, int, const char *const *))                   \
    X(log_size, "nvrtcGetProgramLogSize", (nvrtc_program, size_t *))                               \
    X(log, "nvrtcGetProgramLog", (nvrtc_program, char *))                                          \
    X(cubin_size, "nvrtcGetCUBINSize", (nvrtc_program, size_t *))                                  \
    X(cubin, "nvrtcGetCUBIN", (nvrtc_program, char *))

struct nvrtc_functions {
#define NVRTC_MEMBER(member, name, parameters) nvrtc_result(*member) parameters;
    NVRTC_REQUIRED(NVRTC_MEMBER)
#undef NVRTC_MEMBER
    const char *(*error_string)(nvrtc_result);
};

#endif
