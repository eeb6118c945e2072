/* SPDX-License-Identifier: MIT
 * The prelude's loads, stores, roundings and conversions against ops/convert.c. Buffers end at a
 * page that cannot be touched (and begin behind one), so that a byte too many is a crash: masked
 * instructions are not seen by address sanitizers.
 */
#include "prelude/prelude.h"

#include <sys/mman.h>
#include <unistd.h>

/* ---- functions on memory
 * ------------------------------------------------------------------------- */

struct dtype_fns {
    enum dtype d;
    enum dtype lane;
    void (*ld)(const void *base, int64_t index, union lanes *out);
    void (*ldn)(const void *base, int64_t index, int n, union lanes *out);
    void (*ld1)(const void *base, int64_t index, union lanes *out);
    void (*ldg)(const void *base, const pk_i64 *idx, int n, union lanes *out);
    union scalar (*lds)(const void *base, int64_t index);
    void (*st)(void *base, int64_t index, const union lanes *v);
    void (*stn)(void *base, int64_t index, const union lanes *v, int n);
    void (*frombits)(const uint64_t *bits, union lanes *out);
    void (*bits)(const union lanes *v, uint64_t *bits);
};

#define GET(lane, v, p)                                                                            \
    lane v;                                                                                        \
    memcpy(&v, p, sizeof v)
#define PUT(p, v)                                                                                  \
    do {                                                                                           \
        __typeof__(v) v_ = (v);                                                                    \
        memcpy(p, &v_, sizeof v_);                                                                 \
    } while (0)
/* D, lane, field of union scalar, lane of bit patterns */
// clang-format off
#define DTYPES(X)                                                                                  \
    X(F64, f64, vf64, f, vu64, F64)                                                                \
    X(F32, f32, vf32, f, vu32, F32)                                                                \
    X(F16, f16, vf32, f, vu32, F32)                                                                \
    X(BF16, bf16, vf32, f, vu32, F32)                                                              \
    X(F8E4M3FN, f8e4m3fn, vf32, f, vu32, F32) X(F8E5M2, f8e5m2, vf32, f, vu32, F32)                \
        X(F4E2M1FN, f4e2m1fn, vf32, f, vu32, F32) X(E8M0, e8m0, vf32, f, vu32, F32)                \
            X(I64, i64, vi64, i, vu64, I64) X(I32, i32, vi32, i, vu32, I32)                        \
                X(I16, i16, vi32, i, vu32, I32) X(I8, i8, vi32, i, vu32, I32)                      \
                    X(I4, i4, vi32, i, vu32, I32) X(I2, i2, vi32, i, vu32, I32)                    \
                        X(U64, u64, vu64, i, vu64, U64) X(U32, u32, vu32, i, vu32, U32)            \
                            X(U16, u16, vu32, i, vu32, U32) X(U8, u8, vu32, i, vu32, U32)          \
                                X(U4, u4, vu32, i, vu32, U32) X(U2, u2, vu32, i, vu32, U32)        \
                                    X(BOOL, truth, vi32, i, vu32, BOOL)
#define DEFINE(ID, D, L, field, B, LD)                                                             \
    static void ld_##ID(const void *base, int64_t index, union lanes *out) {                       \
        PUT(out, pk_ld_##D(base, index));                                                          \
    }                                                                                              \
    static void ldn_##ID(const void *base, int64_t index, int n, union lanes *out) {               \
        PUT(out, pk_ldn_##D(base, index, n));                                                      \
    }                                                                                              \
    static void ld1_##ID(const void *base, int64_t index, union lanes *out) {                      \
        PUT(out, pk_ld1_##D(base, index));                                                         \
    }                                                                                              \
    static void ldg_##ID(const void *base, const pk_i64 *idx, int n, union lanes *out) {           \
        PUT(out, pk_ldg_##D(base, idx, n));                                                        \
    }                                                                                              \
    static union scalar lds_##ID(const void *base, int64_t index) {                                \
        return (union scalar){.field = (SCALAR_##field)pk_lds_##D(base, index)};                   \
    } static void st_##ID(void *base, int64_t index, const union lanes *v) {                       \
        GET(L, x, v);                                                                              \
        pk_st_##D(base, index, x);                                                                 \
    }                                                                                              \
    static void stn_##ID(void *base, int64_t index, const union lanes *v, int n) {                 \
        GET(L, x, v);                                                                              \
        pk_stn_##D(base, index, x, n);                                                             \
    }                                                                                              \
    static void frombits_##ID(const uint64_t *bits, union lanes *out) {                            \
        B b;                                                                                       \
        for (int i = 0; i < PK_W; i++)                                                             \
            b[i] = (BITS_##B)bits[i];                                                              \
        PUT(out, pk_frombits_##D(b));                                                              \
    }                                                                                              \
    static void bits_##ID(const union lanes *v, uint64_t *bits) {                                  \
        GET(L, x, v);                                                                              \
        B b = pk_bits_##D(x);                                                                      \
        for (int i = 0; i < PK_W; i++)                                                             \
            bits[i] = b[i];                                                                        \
    }
#define ENTRY(ID, D, L, field, B, LD)                                                              \
    {DT_##ID,  DT_##LD, ld_##ID,  ldn_##ID,      ld1_##ID, ldg_##ID,                               \
     lds_##ID, st_##ID, stn_##ID, frombits_##ID, bits_##ID},
#define SCALAR_f  double
#define SCALAR_i  int64_t
#define BITS_vu32 unsigned
#define BITS_vu64 uint64_t
// clang-format on

// clang-format off
DTYPES(DEFINE)
static const struct dtype_fns table[] = {DTYPES(ENTRY)};
// clang-format on
enum { N_TABLE = sizeof table / sizeof table[0] };

/* ---- guarded buffers
 * ----------------------------------------------------------------------------- */

/* One writable page between two that trap. */
static unsigned char *page;
static size_t page_size;

static int make_page(void **state) {
    (void)state;
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    int zero = -1, flags = MAP_PRIVATE;
#ifdef MAP_ANONYMOUS
    flags |= MAP_ANONYMOUS;
#else
    flags |= 0x20;
#endif
    unsigned char *all = mmap(NULL, 3 * page_size, PROT_NONE, flags, zero, 0);
    if (all == MAP_FAILED) return -1;
    page = all + page_size;
    return mprotect(page, page_size, PROT_READ | PROT_WRITE);
}

static int drop_page(void **state) {
    (void)state;
    return munmap(page - page_size, 3 * page_size);
}

static void fill_random(unsigned char *p, size_t n, uint64_t *s) {
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)(next_random(s) >> 33);
}

static void fail_lane(const char *what, enum dtype d, int64_t index, int n, int lane,
                      union scalar got, union scalar want) {
    fail_msg("%s_%s at %lld, n %d, lane %d: got %a (%lld), want %a (%lld)", what, dtype_name(d),
             (long long)index, n, lane, got.f, (long long)got.i, want.f, (long long)want.i);
}

/* Lanes 0 .. n-1 are elements idx[..] or first + i, the rest 0. */
static void check_lanes(const char *what, const struct dtype_fns *t, const union lanes *out,
                        const void *base, const pk_i64 *idx, int64_t first, int n) {
    for (int i = 0; i < PK_W; i++) {
        int64_t at = idx != NULL ? idx[i < n ? i : 0] : first + i;
        union scalar want = {.i = 0};
        if (i < n)
            want = elem_load(t->d, base, at);
        else if (dtype_is_float(t->d))
            want.f = 0;
        if (t->d == DT_BOOL) want.i = want.i != 0;
        union scalar got = lane_value(t->lane, out, i);
        if (!same_value(t->d, got, want)) fail_lane(what, t->d, at, n, i, got, want);
    }
}

/* ---- loads
 * --------------------------------------------------------------------------------------- */

static void check_loads(const struct dtype_fns *t, const void *base, int64_t index) {
    union lanes out;
    t->ld(base, index, &out);
    check_lanes("ld", t, &out, base, NULL, index, PK_W);
    t->ld1(base, index, &out);
    pk_i64 same[PK_W];
    for (int i = 0; i < PK_W; i++)
        same[i] = index;
    check_lanes("ld1", t, &out, base, same, 0, PK_W);
    union scalar one = t->lds(base, index), want = elem_load(t->d, base, index);
    if (t->d == DT_BOOL) one.i = one.i != 0;
    if (!same_value(t->d, one, want)) fail_lane("lds", t->d, index, 1, 0, one, want);
}

/* All elements of a buffer that ends at the trapping page, from every offset, and the same at the
 * page's start for offsets before. */
static void test_loads(void **state) {
    (void)state;
    uint64_t seed = 4711;
    for (size_t k = 0; k < N_TABLE; k++) {
        const struct dtype_fns *t = &table[k];
        for (int round = 0; round < 20; round++) {
            int64_t count = 5 * PK_W;
            size_t bytes = (size_t)dtype_bytes(t->d, count);
            unsigned char *base = page + page_size - bytes;
            fill_random(base, bytes, &seed);
            if (t->d == DT_BOOL)
                for (size_t i = 0; i < bytes; i++)
                    base[i] &= 1;
            for (int64_t i = 0; i + PK_W <= count; i++)
                check_loads(t, base, i);
            union lanes out;
            pk_i64 idx[PK_W];
            for (int n = 0; n <= PK_W; n++) {
                for (int64_t i = count - PK_W - 3; i + n <= count; i++) {
                    t->ldn(base, i, n, &out);
                    check_lanes("ldn", t, &out, base, NULL, i, n);
                }
                for (int i = 0; i < PK_W; i++)
                    idx[i] = (int64_t)(next_random(&seed) >> 33) % count;
                t->ldg(base, idx, n, &out);
                check_lanes("ldg", t, &out, base, idx, 0, n);
            }
        }
    }
}

/* ---- words of sub-byte elements
 * --------------------------------------------------------------------------------------- */

/* D, lane, of the lanes */
#define WORDS(X)                                                                                   \
    X(I4, i4, I32) X(U4, u4, U32) X(I2, i2, I32) X(U2, u2, U32) X(F4E2M1FN, f4e2m1fn, F32)
#define DEFINE_WORDS(ID, D, L)                                                                     \
    static void ldw_##ID(const void *base, int at, union lanes *out, union lanes *f) {             \
        PUT(out, pk_ldw_##D(base, at));                                                            \
        PUT(f, pk_ldw_##D##_vf32(base, at));                                                       \
    }
#define WORDS_ENTRY(ID, D, L) {DT_##ID, DT_##L, ldw_##ID},
// clang-format off
WORDS(DEFINE_WORDS)
static const struct word_fns {
    enum dtype d, lane;
    void (*ldw)(const void *base, int at, union lanes *out, union lanes *f);
} words[] = {WORDS(WORDS_ENTRY)};
// clang-format on

/* Every element of the last words that may be read: 3 bytes before the trapping page. */
static void test_words(void **state) {
    (void)state;
    uint64_t seed = 42;
    unsigned char *base = page + page_size - 4 * PK_W - 3;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        int depth = 32 / dtype_bits(words[k].d);
        for (int round = 0; round < 50; round++) {
            fill_random(base, 4 * PK_W + 3, &seed);
            for (int at = 0; at < depth; at++) {
                union lanes out, f;
                words[k].ldw(base, at, &out, &f);
                for (int i = 0; i < PK_W; i++) {
                    union scalar want = elem_load(words[k].d, base + 4 * i, at);
                    union scalar got = lane_value(words[k].lane, &out, i);
                    if (!same_value(words[k].d, got, want))
                        fail_lane("ldw", words[k].d, at, PK_W, i, got, want);
                    got = lane_value(DT_F32, &f, i);
                    if (!dtype_is_float(words[k].d)) want.f = (double)want.i;
                    if (!same_value(DT_F32, got, want))
                        fail_lane("ldw_vf32", words[k].d, at, PK_W, i, got, want);
                }
            }
        }
    }
}

/* ---- stores
 * -------------------------------------------------------------------------------------- */

/* Values for a store: of the lane type, on and between the values of d, and anything. */
static void some_lanes(const struct dtype_fns *t, union lanes *v, uint64_t *s) {
    uint64_t bits[PK_W];
    for (int i = 0; i < PK_W; i++)
        bits[i] = next_random(s);
    t->frombits(bits, v);
    for (int i = 0; i < PK_W; i++) {
        uint64_t r = next_random(s);
        if (t->lane == DT_F32 && t->d != DT_F32) {
            if (r & 1) v->f32[i] *= 1.0f + (float)((int)((r >> 8) % 513) - 256) * 0x1p-12f;
            if ((r & 6) == 0) v->f32[i] = float_of_bits((uint32_t)(r >> 32));
            if ((r & 30) == 2) v->f32[i] *= 1e-3f;
        }
        if (t->lane == DT_I32 || t->lane == DT_U32)
            if ((r & 7) == 0) v->u32[i] = (unsigned)(r >> 32);
    }
}

/* The stored bytes must be what casting and storing each element gives, and nothing else changed.
 */
static void check_store(const struct dtype_fns *t, unsigned char *base, size_t bytes, int64_t index,
                        int n, const union lanes *v) {
    unsigned char want[1024];
    assert_true(bytes <= sizeof want);
    memcpy(want, base, bytes);
    for (int i = 0; i < n; i++) {
        union scalar x = lane_value(t->lane, v, i);
        elem_store(t->d, want, index + i, t->d == DT_BOOL ? x : elem_cast(t->lane, x, t->d, false));
    }
    if (n == PK_W && (index & 1))
        t->st(base, index, v);
    else
        t->stn(base, index, v, n);
    for (int64_t i = 0; i < (int64_t)bytes * 8 / dtype_bits(t->d); i++) {
        union scalar a = elem_load(t->d, base, i), b = elem_load(t->d, want, i);
        if (!same_value(t->d, a, b)) fail_lane("st", t->d, index, n, (int)(i - index), a, b);
    }
}

static void test_stores(void **state) {
    (void)state;
    uint64_t seed = 815;
    union lanes v;
    for (size_t k = 0; k < N_TABLE; k++) {
        const struct dtype_fns *t = &table[k];
        int64_t count = 5 * PK_W;
        size_t bytes = (size_t)dtype_bytes(t->d, count);
        for (int round = 0; round < 40; round++)
            for (int n = 0; n <= PK_W; n++) {
                unsigned char *base = page + page_size - bytes;
                fill_random(base, bytes, &seed);
                for (int64_t i = count - n; i >= 0 && i > count - n - 5; i--) {
                    some_lanes(t, &v, &seed);
                    check_store(t, base, bytes, i, n, &v);
                }
                fill_random(page, bytes, &seed);
                for (int64_t i = 0; i < 5; i++) {
                    some_lanes(t, &v, &seed);
                    check_store(t, page, bytes, i, n, &v);
                }
                some_lanes(t, &v, &seed);
                check_store(t, page, bytes, PK_W, PK_W, &v);
                t->st(page, PK_W, &v);
                for (int i = 0; i < PK_W; i++) {
                    union scalar x = lane_value(t->lane, &v, i),
                                 got = elem_load(t->d, page, PK_W + i);
                    union scalar w = t->d == DT_BOOL ? x : elem_cast(t->lane, x, t->d, false);
                    if (!same_value(t->d, got, w)) fail_lane("st", t->d, PK_W, PK_W, i, got, w);
                }
            }
    }
}

/* ---- bit patterns
 * -------------------------------------------------------------------------------- */

/* All patterns of up to 16 bits, through memory and through lanes, and back. */
static void test_patterns(void **state) {
    (void)state;
    for (size_t k = 0; k < N_TABLE; k++) {
        const struct dtype_fns *t = &table[k];
        int width = t->d == DT_BOOL ? 1 : dtype_bits(t->d);
        if (width > 16) continue;
        for (uint64_t first = 0; first < (uint64_t)1 << width; first += PK_W) {
            uint64_t bits[PK_W], back[PK_W];
            union lanes v, w;
            memset(page, 0, 64);
            for (int i = 0; i < PK_W; i++) {
                bits[i] = (first + (uint64_t)i) & (((uint64_t)1 << width) - 1);
                elem_store(t->d, page, i, elem_from_bits(t->d, bits[i]));
            }
            t->frombits(bits, &v);
            t->ld(page, 0, &w);
            t->bits(&v, back);
            for (int i = 0; i < PK_W; i++) {
                union scalar want = elem_from_bits(t->d, bits[i]), a = lane_value(t->lane, &v, i);
                union scalar b = lane_value(t->lane, &w, i);
                if (!same_value(t->d, a, want)) fail_lane("frombits", t->d, i, 0, i, a, want);
                if (!same_value(t->d, b, want)) fail_lane("ld", t->d, i, 0, i, b, want);
                bool is_nan = dtype_is_float(t->d) && isnan(want.f);
                if (!is_nan && back[i] != bits[i])
                    fail_msg("bits_%s(%llx): got %llx", dtype_name(t->d),
                             (unsigned long long)bits[i], (unsigned long long)back[i]);
            }
        }
    }
}

/* ---- rounding and conversions
 * -------------------------------------------------------------------- */

struct convert_fns {
    const char *name;
    enum dtype from, to; /* to: the dtype that the value is cast to */
    enum dtype lane;     /* lane dtype of the result */
    bool saturate;
    void (*f)(const union lanes *in, union lanes *out);
};

#define CONVERT(name, FL, TL, expr)                                                                \
    static void name(const union lanes *in, union lanes *out) {                                    \
        GET(FL, x, in);                                                                            \
        TL y = expr;                                                                               \
        PUT(out, y);                                                                               \
    }
#define LANES(X) X(vf32, F32) X(vf64, F64) X(vi32, I32) X(vu32, U32) X(vi64, I64) X(vu64, U64)
#define FLOATS(X, ...)                                                                             \
    X(f16, F16, __VA_ARGS__)                                                                       \
    X(bf16, BF16, __VA_ARGS__)                                                                     \
    X(f8e4m3fn, F8E4M3FN, __VA_ARGS__)                                                             \
    X(f8e5m2, F8E5M2, __VA_ARGS__) X(f4e2m1fn, F4E2M1FN, __VA_ARGS__) X(e8m0, E8M0, __VA_ARGS__)
#define SIGNED(X)   X(i16, I16) X(i8, I8) X(i4, I4) X(i2, I2)
#define UNSIGNED(X) X(u16, U16) X(u8, U8) X(u4, U4) X(u2, U2)

// clang-format off
#define TO_ALL(F, FD)                                                                              \
    CONVERT(cvt_##F##_vf32, F, vf32, pk_cvt_##F##_vf32(x))                                         \
    CONVERT(cvt_##F##_vf64, F, vf64, pk_cvt_##F##_vf64(x))                                         \
    CONVERT(cvt_##F##_vi32, F, vi32, pk_cvt_##F##_vi32(x))                                         \
    CONVERT(cvt_##F##_vu32, F, vu32, pk_cvt_##F##_vu32(x))                                         \
    CONVERT(cvt_##F##_vi64, F, vi64, pk_cvt_##F##_vi64(x))                                         \
    CONVERT(cvt_##F##_vu64, F, vu64, pk_cvt_##F##_vu64(x))                                         \
    CONVERT(tomask_##F, F, vi32, pk_tomask_##F(x))                                                 \
    CONVERT(frommask_##F, vi32, F, pk_frommask_##F(x))
LANES(TO_ALL)
#define ROUND(D, ID, F, FD)                                                                        \
    CONVERT(round_##D##_##F, F, vf32, pk_round_##D(pk_odd_##F##_vf32(x)))                          \
    CONVERT(rounds_##D##_##F, F, vf32, pk_rounds_##D(pk_odd_##F##_vf32(x)))
#define ROUNDS(F, FD) FLOATS(ROUND, F, FD)
LANES(ROUNDS)
CONVERT(round_f32_vf64, vf64, vf32, pk_round_f32(x))
CONVERT(rounds_f32_vf64, vf64, vf32, pk_rounds_f32(x))
#define SAT_S(D, ID)                                                                               \
    CONVERT(sat_##D##_vf32, vf32, vi32, pk_sat_##D##_vf32(x))                                      \
    CONVERT(sat_##D##_vf64, vf64, vi32, pk_sat_##D##_vf64(x))                                      \
    CONVERT(wrap_##D, vi32, vi32, pk_wrap_##D(x))
#define SAT_U(D, ID)                                                                               \
    CONVERT(sat_##D##_vf32, vf32, vu32, pk_sat_##D##_vf32(x))                                      \
    CONVERT(sat_##D##_vf64, vf64, vu32, pk_sat_##D##_vf64(x))                                      \
    CONVERT(wrap_##D, vu32, vu32, pk_wrap_##D(x))
SIGNED(SAT_S) UNSIGNED(SAT_U)
CONVERT(sat_i32_vf32, vf32, vi32, pk_sat_i32_vf32(x))
CONVERT(sat_u64_vf64, vf64, vu64, pk_sat_u64_vf64(x))

static const struct convert_fns converts[] = {
#define ROWS_TO_ALL(F, FD)                                                                         \
    {"cvt_" #F "_vf32", DT_##FD, DT_F32, DT_F32, false, cvt_##F##_vf32},                           \
    {"cvt_" #F "_vf64", DT_##FD, DT_F64, DT_F64, false, cvt_##F##_vf64},                           \
    {"cvt_" #F "_vi32", DT_##FD, DT_I32, DT_I32, false, cvt_##F##_vi32},                           \
    {"cvt_" #F "_vu32", DT_##FD, DT_U32, DT_U32, false, cvt_##F##_vu32},                           \
    {"cvt_" #F "_vi64", DT_##FD, DT_I64, DT_I64, false, cvt_##F##_vi64},                           \
    {"cvt_" #F "_vu64", DT_##FD, DT_U64, DT_U64, false, cvt_##F##_vu64},                           \
    {"tomask_" #F, DT_##FD, DT_BOOL, DT_BOOL, false, tomask_##F},                                  \
    {"frommask_" #F, DT_BOOL, DT_##FD, DT_##FD, false, frommask_##F},
LANES(ROWS_TO_ALL)
#define ROW_ROUND(D, ID, F, FD)                                                                    \
    {"round_" #D "_" #F, DT_##FD, DT_##ID, DT_F32, false, round_##D##_##F},                        \
    {"rounds_" #D "_" #F, DT_##FD, DT_##ID, DT_F32, true, rounds_##D##_##F},
#define ROWS_ROUND(F, FD) FLOATS(ROW_ROUND, F, FD)
LANES(ROWS_ROUND)
    {"round_f32", DT_F64, DT_F32, DT_F32, false, round_f32_vf64},
    {"rounds_f32", DT_F64, DT_F32, DT_F32, true, rounds_f32_vf64},
#define ROW_SAT_S(D, ID)                                                                           \
    {"sat_" #D "_vf32", DT_F32, DT_##ID, DT_I32, false, sat_##D##_vf32},                           \
    {"sat_" #D "_vf64", DT_F64, DT_##ID, DT_I32, false, sat_##D##_vf64},                           \
    {"wrap_" #D, DT_I32, DT_##ID, DT_I32, false, wrap_##D},
#define ROW_SAT_U(D, ID)                                                                           \
    {"sat_" #D "_vf32", DT_F32, DT_##ID, DT_U32, false, sat_##D##_vf32},                           \
    {"sat_" #D "_vf64", DT_F64, DT_##ID, DT_U32, false, sat_##D##_vf64},                           \
    {"wrap_" #D, DT_U32, DT_##ID, DT_U32, false, wrap_##D},
SIGNED(ROW_SAT_S) UNSIGNED(ROW_SAT_U)
    {"sat_i32_vf32", DT_F32, DT_I32, DT_I32, false, sat_i32_vf32},
    {"sat_u64_vf64", DT_F64, DT_U64, DT_U64, false, sat_u64_vf64},
};
// clang-format on

/* Values near what is hard: powers of two and their neighbours at any distance, midpoints of narrow
 * floats and what lies just beside them. */
static void hard_lane(enum dtype d, union lanes *v, int i, uint64_t *s) {
    uint64_t r = next_random(s);
    int e = (int)((r >> 8) % 96) - 32, low = (int)((r >> 16) % 53);
    double x = ldexp(1.0, e) * (double)(1 + ((r >> 24) & 15)) +
               ldexp((double)((int)((r >> 30) % 5) - 2), e - low);
    if (r & 2) x = -x;
    int64_t n =
        (int64_t)((uint64_t)((r >> 24) & 31) << ((r >> 32) & 63)) + (int64_t)((r >> 40) % 5) - 2;
    switch (d) {
    case DT_F32:
        v->f32[i] = (r & 1) ? (float)x : float_of_bits((uint32_t)(r >> 32));
        if ((r & 28) == 4) v->f32[i] = ldexpf(v->f32[i], -60);
        break;
    case DT_F64:
        v->f64[i] = (r & 1) ? x : double_from_bits(next_random(s));
        if ((r & 28) == 4) v->f64[i] = (double)float_of_bits((uint32_t)(r >> 32));
        if ((r & 28) == 8) v->f64[i] = ldexp(x, -150 + (int)(r >> 60));
        break;
    case DT_I32:
    case DT_U32: v->u32[i] = (r & 1) ? (unsigned)n : (unsigned)(r >> 32); break;
    case DT_BOOL: v->i32[i] = -(int)(r & 1); break;
    default: v->i64[i] = (r & 1) ? n : (int64_t)(next_random(s) >> ((r >> 2) & 63)); break;
    }
}

static void test_conversions(void **state) {
    (void)state;
    uint64_t seed = 31337;
    for (size_t k = 0; k < sizeof converts / sizeof converts[0]; k++) {
        const struct convert_fns *c = &converts[k];
        for (int round = 0; round < 60000 / PK_W; round++) {
            union lanes in, out;
            for (int i = 0; i < PK_W; i++)
                hard_lane(c->from, &in, i, &seed);
            c->f(&in, &out);
            for (int i = 0; i < PK_W; i++) {
                union scalar x = lane_value(c->from, &in, i), got = lane_value(c->lane, &out, i);
                union scalar want = elem_cast(c->from, x, c->to, c->saturate);
                if (!same_value(c->to, got, want))
                    fail_msg("%s(%a, %lld): got %a (%lld), want %a (%lld)", c->name, x.f,
                             (long long)x.i, got.f, (long long)got.i, want.f, (long long)want.i);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_loads, make_page, drop_page),
        cmocka_unit_test_setup_teardown(test_words, make_page, drop_page),
        cmocka_unit_test_setup_teardown(test_stores, make_page, drop_page),
        cmocka_unit_test_setup_teardown(test_patterns, make_page, drop_page),
        cmocka_unit_test(test_conversions),
    };
    if (!machine_can()) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
