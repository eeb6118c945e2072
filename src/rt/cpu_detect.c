/* SPDX-License-Identifier: MIT
 * The machine at hand as a device description: instruction set from cpuid, cores and caches from
 * hwloc, limited to what this process may use (CPU binding and the container's quota).
 *
 * hwloc is told to keep cores and caches only, and not to run its cpuid back end, which moves the
 * thread over every core; that one is tried only where the kernel does not list caches. No number
 * here is measured or changes while the machine runs (the clock is the nominal maximum), since
 * plans follow from the description.
 */
#include "rt/rt.h"

#include <fcntl.h>
#include <hwloc.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>

static bool bit(unsigned word, int n) {
    return (word >> n & 1u) != 0;
}

static uint32_t detect_isa(void) {
    unsigned a, b, c, d;
    uint32_t isa = 0;
    __builtin_cpu_init();
    /* These two say as well that the system saves the wide registers. */
    bool ymm = __builtin_cpu_supports("avx2") != 0;
    bool zmm = __builtin_cpu_supports("avx512f") != 0;
    if (!ymm) return 0;
    isa |= ISA_AVX2;
    if (__get_cpuid(1, &a, &b, &c, &d) != 0) {
        if (bit(c, 12)) isa |= ISA_FMA;
        if (bit(c, 29)) isa |= ISA_F16C;
    }
    if (!zmm || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return isa;
    /* Kernels in 512 bits need the byte, word and double-word sets and the narrow forms. */
    if (!bit(b, 17) || !bit(b, 30) || !bit(b, 31)) return isa;
    isa |= ISA_AVX512F | ISA_AVX512DQ | ISA_AVX512BW | ISA_AVX512VL;
    if (bit(c, 11)) isa |= ISA_AVX512VNNI;
    if (bit(d, 23)) isa |= ISA_AVX512FP16;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && bit(a, 5)) isa |= ISA_AVX512BF16;
    return isa;
}

static const enum device_arch this_arch = ARCH_X86_64;
#elif defined(__aarch64__)
static uint32_t detect_isa(void) {
    return ISA_NEON | ISA_FMA; /* both are part of the base instruction set */
}

static const enum device_arch this_arch = ARCH_AARCH64;
#else
static uint32_t detect_isa(void) {
    return 0;
}

static const enum device_arch this_arch = ARCH_ANY;
#endif

/* The non-negative integers at the start of a small file; how many of the two there are. */
static int read_numbers(const char *file, double out[2]) {
    char text[64];
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return 0;
    text[n] = '\0';
    int found = 0;
    const char *p = text;
    while (found < 2 && *p >= '0' && *p <= '9') {
        out[found++] = parse_double(p, &p);
        while (*p == ' ')
            p++;
    }
    return found;
}

static double nominal_hz(void) {
    double khz[2];
    int n = read_numbers("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", khz);
    return n >= 1 && khz[0] > 1e5 && khz[0] < 1e7 ? khz[0] * 1e3 : 3.0e9;
}

/* Cores' worth of time that the container may use; 0: no limit. */
static int quota_cores(void) {
    double q[2]; /* quota and period in microseconds; the quota is "max" when there is none */
    if (read_numbers("/sys/fs/cgroup/cpu.max", q) < 2 || q[1] <= 0) return 0;
    double cores = q[0] / q[1];
    return cores < 1 ? 1 : cores > 1e6 ? 0 : (int)(cores + 0.5);
}

static int64_t cache_size(hwloc_topology_t t, hwloc_obj_type_t type) {
    hwloc_obj_t o = hwloc_get_obj_by_type(t, type, 0);
    return o != NULL && o->attr != NULL && o->attr->cache.size < ((hwloc_uint64_t)1 << 40)
               ? (int64_t)o->attr->cache.size
               : 0;
}

static int usable_cores(hwloc_topology_t t) {
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    bool know = bound != NULL && hwloc_get_cpubind(t, bound, HWLOC_CPUBIND_THREAD) == 0;
    int n = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE);
    int cores = 0;
    for (int i = 0; i < n; i++) {
        hwloc_obj_t core = hwloc_get_obj_by_type(t, HWLOC_OBJ_CORE, (unsigned)i);
        if (!know || hwloc_bitmap_intersects(core->cpuset, bound)) cores++;
    }
    if (cores == 0 && know) cores = hwloc_bitmap_weight(bound);
    if (bound != NULL) hwloc_bitmap_free(bound);
    return cores;
}

/* False if the topology does not load or has no L1 cache in it. */
static bool from_hwloc(struct device_desc *d, bool cpuid) {
    hwloc_topology_t t;
    if (hwloc_topology_init(&t) != 0) return false;
    hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_cache_types_filter(t, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_type_filter(t, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (!cpuid) {
        hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    }
    bool ok = false;
    if (hwloc_topology_load(t) == 0) {
        hwloc_obj_t l1 = hwloc_get_obj_by_type(t, HWLOC_OBJ_L1CACHE, 0);
        int cores = usable_cores(t);
        if (cores > 0) d->cores = cores;
        if (l1 != NULL && cache_size(t, HWLOC_OBJ_L1CACHE) > 0) {
            d->l1d = cache_size(t, HWLOC_OBJ_L1CACHE);
            if (l1->attr->cache.linesize > 0) d->line = (int)l1->attr->cache.linesize;
            int64_t l2 = cache_size(t, HWLOC_OBJ_L2CACHE);
            if (l2 > 0) d->l2 = l2;
            d->l3 = cache_size(t, HWLOC_OBJ_L3CACHE);
            ok = true;
        }
    }
    hwloc_topology_destroy(t);
    return ok;
}

void rt_detect(struct device_desc *out) {
    struct device_desc d;
    if (!device_by_name("generic", strlen("generic"), &d)) d = (struct device_desc){.line = 64};
    memset(d.name, 0, sizeof d.name);
    memcpy(d.name, "native", sizeof "native");
    d.arch = this_arch;
    d.isa = detect_isa();
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    d.cores = online > 0 && online < 1 << 20 ? (int)online : 1;
    if (!from_hwloc(&d, false)) from_hwloc(&d, true);
    int quota = quota_cores();
    if (quota > 0 && quota < d.cores) d.cores = quota;
    device_derive(&d, nominal_hz());
    *out = d;
}
