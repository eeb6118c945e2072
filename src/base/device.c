/* SPDX-License-Identifier: MIT
 * Device descriptions: named ones, and the numbers that follow from an instruction set.
 *
 * Peak arithmetic is lanes x 2 units x 2 operations (one FMA) x clock; without FMA a unit does one
 * operation. Memory speeds are constants of today's machines, not measurements: a model that
 * compares plans needs the ratio of arithmetic to bandwidth, and a measured number would make plans
 * differ from run to run.
 *
 * Rates of GPUs are operations a clock of one SM, by generation, from NVIDIA's architecture white
 * papers (A100, H100) and data sheets (B200: its figures over SMs and clock, rounded to the power of
 * two that they imply), times the clock.
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

/* ---- GPUs ------------------------------------------------------------------------------------ */

struct named_gpu {
    const char *name;
    int cc, sms;
    int64_t shared_sm, shared_block, l2;
    double hz, bandwidth;
};

/* Clocks are those that the data sheets' peaks imply, as the driver reports them. */
static const struct named_gpu named_gpus[] = {
    {"sm_80", 80, 108, 164 * KIB, 163 * KIB, 40 * MIB, 1.41e9, 2.039e12},
    {"sm_90", 90, 132, 228 * KIB, 227 * KIB, 60 * MIB, 1.98e9, 4.814304e12},
    {"sm_90a", 90, 132, 228 * KIB, 227 * KIB, 60 * MIB, 1.98e9, 4.814304e12},
    {"sm_100a", 100, 148, 228 * KIB, 227 * KIB, 126 * MIB, 1.965e9, 8.0e12},
};

/* Operations a clock of one SM. */
struct rates {
    int cc;
    double f32, f64, special, f16, tf32, tensor_f64, f8, i8, l2_bytes;
};

static const struct rates rates[] = {
    {80, 128, 64, 16, 2048, 1024, 128, 0, 4096, 40},
    {86, 256, 4, 16, 1024, 512, 4, 0, 2048, 32},
    {89, 256, 4, 16, 1024, 512, 4, 2048, 2048, 32},
    {90, 256, 128, 16, 4096, 2048, 256, 8192, 8192, 44},
    {100, 256, 128, 16, 8192, 4096, 256, 16384, 16384, 64},
    {120, 256, 4, 16, 1024, 512, 4, 2048, 2048, 32},
};

const char *device_gpu_name_at(int i) {
    return i >= 0 && (size_t)i < COUNT_OF(named_gpus) ? named_gpus[i].name : NULL;
}

/* "sm_" and the number, with "a" where code is made for this one alone. */
static void name_gpu(struct device_desc *d) {
    int cc = d->gpu.cc;
    size_t n = 3;
    memcpy(d->name, "sm_", n);
    if (cc >= 100) d->name[n++] = (char)('0' + cc / 100 % 10);
    d->name[n++] = (char)('0' + cc / 10 % 10);
    d->name[n++] = (char)('0' + cc % 10);
    if (d->gpu.specific) d->name[n++] = 'a';
    d->name[n] = '\0';
}

bool device_derive_gpu(struct device_desc *d) {
    struct device_gpu *g = &d->gpu;
    const struct rates *r = NULL;
    for (size_t i = 0; i < COUNT_OF(rates); i++) {
        if (rates[i].cc <= g->cc) r = &rates[i];
    }
    if (r == NULL || g->sms < 1) return false;
    g->specific = g->cc >= 90;
    g->f32 = r->f32 * g->hz;
    g->f64 = r->f64 * g->hz;
    g->special = r->special * g->hz;
    g->tensor_f16 = r->f16 * g->hz;
    g->tensor_tf32 = r->tf32 * g->hz;
    g->tensor_f64 = r->tensor_f64 * g->hz;
    g->tensor_f8 = r->f8 * g->hz;
    g->tensor_i8 = r->i8 * g->hz;
    g->l2_bandwidth = r->l2_bytes * g->hz * g->sms;
    d->kind = DEVICE_CUDA;
    d->arch = ARCH_ANY;
    d->vector_bits = 128;
    d->cores = g->sms;
    d->line = 128;
    d->l1d = g->shared_sm;
    d->l2 = g->l2 / g->sms;
    d->l3 = g->l2;
    d->flops_per_core = g->f32;
    d->bandwidth = g->bandwidth;
    d->bandwidth_per_core = g->bandwidth / g->sms;
    d->l2_bandwidth = g->l2_bandwidth / g->sms;
    d->l3_bandwidth = d->l2_bandwidth;
    name_gpu(d);
    return true;
}

static bool gpu_by_name(const char *name, size_t n, struct device_desc *out) {
    for (size_t i = 0; i < COUNT_OF(named_gpus); i++) {
        const struct named_gpu *t = &named_gpus[i];
        if (strlen(t->name) != n || memcmp(t->name, name, n) != 0) continue;
        *out = (struct device_desc){.gpu = {.cc = t->cc,
                                            .sms = t->sms,
                                            .threads_sm = 2048,
                                            .blocks_sm = 32,
                                            .registers_sm = 65536,
                                            .shared_sm = t->shared_sm,
                                            .shared_block = t->shared_block,
                                            .l2 = t->l2,
                                            .hz = t->hz,
                                            .bandwidth = t->bandwidth}};
        if (!device_derive_gpu(out)) return false;
        out->gpu.specific = name[n - 1] == 'a';
        name_gpu(out);
        return true;
    }
    return false;
}

/* ---- CPUs ------------------------------------------------------------------------------------ */

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
    return gpu_by_name(name, n, out);
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
    if (want->kind == DEVICE_CUDA) {
        const struct device_gpu *h = &have->gpu, *w = &want->gpu;
        bool same = w->specific ? h->cc == w->cc : h->cc / 10 == w->cc / 10 && h->cc >= w->cc;
        if (!same) *missing = want->name;
        return same;
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

static void gpu_print(const struct device_desc *d, struct str *out) {
    const struct device_gpu *g = &d->gpu;
    char buf[32];
    str_printf(out, "%s kind=cuda cc=%d.%d sms=%d threads=%d blocks=%d registers=%d", d->name,
               g->cc / 10, g->cc % 10, g->sms, g->threads_sm, g->blocks_sm, g->registers_sm);
    str_printf(out, " shared=%lld,%lld l2=%lld", (long long)g->shared_sm,
               (long long)g->shared_block, (long long)g->l2);
    const struct {
        const char *name;
        double value;
    } rate[] = {{"hz", g->hz},
                {"bandwidth", g->bandwidth},
                {"l2_bandwidth", g->l2_bandwidth},
                {"f32", g->f32},
                {"f64", g->f64},
                {"special", g->special},
                {"tensor_f16", g->tensor_f16},
                {"tensor_tf32", g->tensor_tf32},
                {"tensor_f64", g->tensor_f64},
                {"tensor_f8", g->tensor_f8},
                {"tensor_i8", g->tensor_i8}};
    for (size_t i = 0; i < COUNT_OF(rate); i++)
        str_printf(out, " %s=%s", rate[i].name, fmt_double(buf, rate[i].value));
}

void device_print(const struct device_desc *d, struct str *out) {
    char buf[32];
    if (d->kind == DEVICE_CUDA) {
        gpu_print(d, out);
        return;
    }
    str_printf(out, "%s kind=cpu arch=%s isa=", d->name, device_arch_name(d->arch));
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
