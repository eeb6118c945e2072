/* SPDX-License-Identifier: MIT
 * The whole prelude for its tests, which are compiled once for each instruction set, and values to
 * feed it. The prelude is GNU C with other rules on warnings than the library.
 */
#ifndef PRELUDE_TEST_H
#define PRELUDE_TEST_H

/* before <stdbool.h>, which makes bool a macro: functions of that dtype get a second name */
#include "base/kernel_abi.h"
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#pragma GCC diagnostic ignored "-Wdouble-promotion"
#pragma GCC diagnostic ignored "-Wcast-qual"
#include "gen/c/prelude/vec.h"
#include "gen/c/prelude/convert.h"
#include "gen/c/prelude/memory.h"
#include "gen/c/prelude/math_basic.h"
#include "gen/c/prelude/reduce.h"
#include "gen/c/prelude/math_int.h"
#include "gen/c/prelude/math_exp.h"
#include "gen/c/prelude/math_log.h"
#include "gen/c/prelude/math_softplus.h"
#include "gen/c/prelude/math_trig.h"
#include "gen/c/prelude/math_atrig.h"
#include "gen/c/prelude/math_erf.h"
#include "gen/c/prelude/math_pow.h"
#include "gen/c/prelude/math_powi.h"
#define PRELUDE_BOOL(f)                                                                            \
    static __typeof__(&pk_##f##_bool) const pk_##f##_truth __attribute__((unused)) = pk_##f##_bool;
PRELUDE_BOOL(ld)
PRELUDE_BOOL(ldn)
PRELUDE_BOOL(ld1)
PRELUDE_BOOL(ldg)
PRELUDE_BOOL(lds)
PRELUDE_BOOL(st)
PRELUDE_BOOL(stn)
PRELUDE_BOOL(bits)
PRELUDE_BOOL(frombits)
#pragma GCC diagnostic pop

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ops/dtype.h"
#include "ops/op.h"

/* One vector of any lane type, in memory. */
union lanes {
    float f32[PK_W];
    double f64[PK_W];
    int i32[PK_W];
    unsigned u32[PK_W];
    int64_t i64[PK_W];
    uint64_t u64[PK_W];
};

/* Whether this machine runs what this file was compiled for. */
static inline bool machine_can(void) {
#if defined(__x86_64__) && defined(__AVX512F__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#elif defined(__x86_64__) && defined(__AVX2__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return true;
#endif
}

/* xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016) */
static inline uint64_t next_random(uint64_t *s) {
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * 0x2545f4914f6cdd1dULL;
}

static inline float float_of_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static inline double double_from_bits(uint64_t u) {
    double f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Lane i as a value of the lane dtype d; a bool is a mask. */
static inline union scalar lane_value(enum dtype d, const union lanes *v, int i) {
    switch (d) {
    case DT_F64: return (union scalar){.f = v->f64[i]};
    case DT_I64: return (union scalar){.i = v->i64[i]};
    case DT_U64: return (union scalar){.i = (int64_t)v->u64[i]};
    case DT_I32: return (union scalar){.i = v->i32[i]};
    case DT_U32: return (union scalar){.i = v->u32[i]};
    case DT_BOOL: return (union scalar){.i = v->i32[i] == 0 ? 0 : v->i32[i] == -1 ? 1 : 2};
    default: return (union scalar){.f = (double)v->f32[i]};
    }
}

/* Equal as values of d; NaN equals NaN, -0 differs from +0. */
static inline bool same_value(enum dtype d, union scalar a, union scalar b) {
    if (!dtype_is_float(d)) return a.i == b.i;
    if (isnan(a.f) || isnan(b.f)) return isnan(a.f) && isnan(b.f);
    return a.f == b.f && !signbit(a.f) == !signbit(b.f);
}

#endif
