/* SPDX-License-Identifier: MIT
 * Device descriptions: named ones, and the numbers that follow from an instruction set.
 *
 * Peak arithmetic is lanes x 2 units x 2 operations (one FMA) x clock; without FMA a unit does one
 * operation. Memory speeds are constants of today's machines, not measurements: a model that
 * compares plans needs the ratio of arithmetic to bandwidth, and a measured number would make plans
 * differ from run to run.
 */
#include "base/device.h"

#include <string.h>

#define NOMINAL_HZ 3.0e9
#define KIB        ((int64_t)1024)
#define MIB        (1024 * KIB)

#define SET_AVX2   (ISA_AVX2 | ISA_FMA | ISA_F16C)
#define SET_AVX512 (SET_AVX2 | ISA_AVX512F | ISA_AVX512BW | ISA_AVX512DQ | ISA_AVX512VL)
#define SET_FP16   (SET_AVX512 | ISA_AVX512VNNI | ISA_AVX512BF16 | ISA_AVX512FP16)

struct named {
    const char *name;
    enum device_arch arch;
    uint32_t isa;
    int cores;
    int64_t l1d, l2, l3;
};

static const struct named named[] = {
    {"generic", ARCH_ANY, 0, 4, 32 * KIB, 256 * KIB, 8 * MIB},
    {"avx2", ARCH_X86_64, SET_AVX2, 8, 32 * KIB, 512 * KIB, 32 * MIB},
    {"avx512", ARCH_X86_64, SET_AVX512, 16, 48 * KIB, 1024 * KIB, 32 * MIB},
    {"avx512fp16", ARCH_X86_64, SET_FP16, 32, 48 * KIB, 2048 * KIB, 64 * MIB},
    {"neon", ARCH_AARCH64, ISA_NEON | ISA_FMA, 8, 64 * KIB, 1024 * KIB, 32 * MIB},
};

const char *device_name_at(int i) {
    return i >= 0 && (size_t)i < COUNT_OF(named) ? named[i].name : NULL;
}

void device_derive(struct device_desc *d, double hz) {
    d->vector_bits = (d->isa & ISA_AVX512F) != 0 ? 512 : (d->isa & ISA_AVX2) != 0 ? 256 : 128;
    double lanes = d->vector_bits / 32.0;
    double ops = (d->isa & ISA_FMA) != 0 ? 2.0 : 1.0;
    d->flops_per_core = lanes * 2.0 * ops * hz;
    d->bandwidth_per_core = 16.0e9;
    /* A few cores saturate a desktop's memory; servers add channels with cores. */
    double wide = d->cores > 16 ? (d->cores - 16) * 4.0e9 : 0.0;
    double few = d->cores < 1 ? 1 : d->cores > 3 ? 3 : d->cores;
    d->bandwidth = few * d->bandwidth_per_core + wide;
    d->l2_bandwidth = d->vector_bits / 8.0 * hz * 0.75;
    d->l3_bandwidth = 16.0 * hz;
    if (d->l3_bandwidth > d->l2_bandwidth) d->l3_bandwidth = d->l2_bandwidth;
}

bool device_by_name(const char *name, size_t n, struct device_desc *out) {
    for (size_t i = 0; i < COUNT_OF(named); i++) {
        const struct named *t = &named[i];
        if (strlen(t->name) != n || memcmp(t->name, name, n) != 0) continue;
        *out = (struct device_desc){
            .kind = DEVICE_CPU,
            .arch = t->arch,
            .isa = t->isa,
            .cores = t->cores,
            .line = 64,
            .l1d = t->l1d,
            .l2 = t->l2,
            .l3 = t->l3,
        };
        memcpy(out->name, name, n);
        device_derive(out, NOMINAL_HZ);
        return true;
    }
    return false;
}

const char *isa_name(int index) {
    static const char *const names[] = {
#define ISA_NAME(id, name) name,
        ISA_LIST(ISA_NAME)
#undef ISA_NAME
    };
    return index >= 0 && index < ISA_COUNT ? names[index] : "?";
}

const char *device_arch_name(enum device_arch a) {
    static const char *const names[] = {"any", "x86-64", "aarch64"};
    return (unsigned)a < COUNT_OF(names) ? names[a] : "?";
}

bool device_can_run(const struct device_desc *have, const struct device_desc *want,
                    const char **missing) {
    if (have->kind != want->kind) {
        *missing = want->kind == DEVICE_CUDA ? "cuda" : "cpu";
        return false;
    }
    if (want->arch != ARCH_ANY && want->arch != have->arch) {
        *missing = device_arch_name(want->arch);
        return false;
    }
    for (int i = 0; i < ISA_COUNT; i++) {
        if (((want->isa & ~have->isa) >> i & 1u) == 0) continue;
        *missing = isa_name(i);
        return false;
    }
    return true;
}

void device_print(const struct device_desc *d, struct str *out) {
    char buf[32];
    str_printf(out, "%s kind=%s arch=%s isa=", d->name, d->kind == DEVICE_CUDA ? "cuda" : "cpu",
               device_arch_name(d->arch));
    const char *separator = "";
    for (int i = 0; i < ISA_COUNT; i++) {
        if ((d->isa >> i & 1u) == 0) continue;
        str_printf(out, "%s%s", separator, isa_name(i));
        separator = ",";
    }
    str_printf(out, "%s vector=%d cores=%d line=%d l1d=%lld l2=%lld l3=%lld",
               d->isa == 0 ? "none" : "", d->vector_bits, d->cores, d->line, (long long)d->l1d,
               (long long)d->l2, (long long)d->l3);
    str_printf(out, " flops=%s", fmt_double(buf, d->flops_per_core));
    str_printf(out, " bandwidth=%s", fmt_double(buf, d->bandwidth_per_core));
    str_printf(out, ",%s", fmt_double(buf, d->bandwidth));
    str_printf(out, ",%s", fmt_double(buf, d->l2_bandwidth));
    str_printf(out, ",%s", fmt_double(buf, d->l3_bandwidth));
}
