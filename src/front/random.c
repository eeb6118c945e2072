/* SPDX-License-Identifier: MIT
 * Values from a seed and a tensor's name, the same on every machine.
 *
 * Generator: SplitMix64 used as a counter-based generator, word i = mix(key + (i+1)*gamma) (Steele,
 * Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), with the key mixed
 * from the seed and the name's FNV-1a hash. Element i takes word i, so order and threads do not
 * matter. Integers of a range: the high half of word * span (Lemire, "Fast random integer
 * generation in an interval", 2019); without his rejection step the bias is at most span/2^64.
 * Normals: the inverse distribution function by Wichura's rational approximations (algorithm AS
 * 241, Applied Statistics 37, 1988, about 16 digits). It needs a logarithm, and libm's differ; ours
 * below uses + - * / and sqrt only, which IEEE 754 fixes, so results are equal to the last bit as
 * long as the compiler does not contract expressions (-ffp-contract=off).
 */
#include "front/front.h"
#include "ops/block.h"

#include <math.h>
#include <string.h>

#define GAMMA UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t key_of(uint64_t seed, const char *name) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (const char *p = name; *p != '\0'; p++)
        h = (h ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    return mix(mix(seed + GAMMA) ^ h);
}

static uint64_t word_at(uint64_t key, int64_t i) {
    return mix(key + ((uint64_t)i + 1) * GAMMA);
}

static uint64_t high_product(uint64_t a, uint64_t b) {
    uint64_t a0 = a & UINT32_MAX, a1 = a >> 32, b0 = b & UINT32_MAX, b1 = b >> 32;
    uint64_t mid = a1 * b0 + (a0 * b0 >> 32);
    uint64_t low = a0 * b1 + (mid & UINT32_MAX);
    return a1 * b1 + (mid >> 32) + (low >> 32);
}

/* ---- the normal distribution ----------------------------------------------------------------- */

/* log x for normal x > 0: x = m * 2^e with m near 1, log m = 2 atanh((m - 1)/(m + 1)). With
 * |s| <= 0.172 the terms left out are below 2^-60 of the sum. */
static double natural_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0xfffffffffffff)) | UINT64_C(0x3ff0000000000000);
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m = m / 2;
        e++;
    }
    double s = (m - 1) / (m + 1), t = s * s, sum = 0;
    for (int k = 23; k >= 1; k -= 2)
        sum = sum * t + 1.0 / k;
    double ln2_high = 6.93147180369123816490e-01; /* its last 32 bits are 0, so e * it is exact */
    double ln2_low = 1.90821492927058770002e-10;
    return e * ln2_high + (e * ln2_low + 2 * s * sum);
}

static double poly(const double c[8], double x) {
    double y = c[7];
    for (int i = 6; i >= 0; i--)
        y = y * x + c[i];
    return y;
}

double normal_quantile(double p) {
    static const double a[8] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                3.3430575583588128105e+4, 2.5090809287301226727e+3};
    static const double b[8] = {1.0,
                                4.2313330701600911252e+1,
                                6.8718700749205790830e+2,
                                5.3941960214247511077e+3,
                                2.1213794301586595867e+4,
                                3.9307895800092710610e+4,
                                2.8729085735721942674e+4,
                                5.2264952788528545610e+3};
    static const double c[8] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                5.76949722146069140550e0,  3.64784832476320460504e0,
                                1.27045825245236838258e0,  2.41780725177450611770e-1,
                                2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[8] = {1.0,
                                2.05319162663775882187e0,
                                1.67638483018380384940e0,
                                6.89767334985100004550e-1,
                                1.48103976427480074590e-1,
                                1.51986665636164571966e-2,
                                5.47593808499534494600e-4,
                                1.05075007164441684324e-9};
    static const double f[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                1.78482653991729133580e0,  2.96560571828504891230e-1,
                                2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double g[8] = {1.0,
                                5.99832206555887937690e-1,
                                1.36929880922735805310e-1,
                                1.48753612908506148525e-2,
                                7.86869131145613259100e-4,
                                1.84631831751005468180e-5,
                                1.42151175831644588870e-7,
                                2.04426310338993978564e-15};
    double q = p - 0.5;
    if (q >= -0.425 && q <= 0.425) {
        double r = 0.180625 - q * q;
        return q * poly(a, r) / poly(b, r);
    }
    double r = sqrt(-natural_log(q < 0 ? p : 1 - p));
    double x = r <= 5 ? poly(c, r - 1.6) / poly(d, r - 1.6) : poly(f, r - 5) / poly(g, r - 5);
    return q < 0 ? -x : x;
}

/* 52 bits and a half: exact, symmetric about 1/2, never 0 or 1. */
static double normal_of(uint64_t word) {
    return normal_quantile(((double)(word >> 12) + 0.5) * 0x1p-52);
}

/* ---- filling --------------------------------------------------------------------------------- */

/* A float dtype of 8 or 16 bits, laid out as sign, exponent, significand. */
struct narrow {
    int width, significand, bias;
};

static struct narrow narrow_of(enum dtype d) {
    int width = dtype_bits(d), significand = dtype_significand(d);
    return (struct narrow){width, significand, (1 << (width - significand - 1)) - 1};
}

/* The bits of v rounded half to even, where v and the result are normal; else false. (The general
 * conversion takes four times as long, and tensors of weights are large.) */
static bool narrow_bits(const struct narrow *n, double v, uint64_t *out) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    uint64_t sign = bits >> 63, m = bits & (UINT64_MAX >> 1);
    int e = (int)(m >> 52) - 1023, shift = 53 - n->significand;
    if (e < 1 - n->bias || e >= n->bias) return false;
    m += (UINT64_C(1) << (shift - 1)) - 1 + (m >> shift & 1);
    m = (m >> shift) - ((uint64_t)(1023 - n->bias) << (n->significand - 1));
    *out = m | sign << (n->width - 1);
    return true;
}

static void store_double(void *data, enum dtype d, const struct narrow *n, int64_t i, double v) {
    uint64_t bits;
    if (d == DT_F32)
        ((float *)data)[i] = (float)v;
    else if (d == DT_F64)
        ((double *)data)[i] = v;
    else if (n->width == 16 && narrow_bits(n, v, &bits))
        ((uint16_t *)data)[i] = (uint16_t)bits;
    else if (n->width == 8 && narrow_bits(n, v, &bits))
        ((uint8_t *)data)[i] = (uint8_t)bits;
    else
        elem_store(d, data, i, elem_cast(DT_F64, (union scalar){.f = v}, d, false));
}

static void fill_e8m0(unsigned char *data, int64_t count, uint64_t key, int lo, int hi) {
    uint64_t span = (uint64_t)(hi - lo + 1);
    for (int64_t i = 0; i < count; i++)
        data[i] = (unsigned char)(127 + lo + (int)high_product(word_at(key, i), span));
}

/* Integers lo + [0, span), span 0 being 2^64; without 0 where skip_zero says so. */
struct interval {
    int64_t lo;
    uint64_t span;
    bool skip_zero;
};

static void fill_interval(void *data, enum dtype d, int64_t count, uint64_t key,
                          const struct interval *in) {
    uint64_t zero = 0 - (uint64_t)in->lo;
    for (int64_t i = 0; i < count; i++) {
        uint64_t w = word_at(key, i);
        uint64_t k = in->span == 0 ? w : high_product(w, in->span);
        if (in->skip_zero && k >= zero) k++;
        elem_store(d, data, i, elem_from_bits(d, (uint64_t)in->lo + k));
    }
}

static enum proem_status rule_interval(enum dtype d, const struct random_rule *rule,
                                       const char *name, struct interval *out, struct err *e) {
    int64_t lo = 0, hi = 1;
    if (d != DT_BOOL) dtype_int_range(d, &lo, &hi);
    bool whole_u64 = d == DT_U64 && (rule == NULL || !rule->bounded);
    if (rule != NULL && rule->bounded) {
        if (rule->lo > lo) lo = rule->lo;
        if (rule->hi < hi) hi = rule->hi;
    }
    bool skip = rule != NULL && rule->nonzero && lo <= 0 && hi >= 0;
    if (lo > hi || (skip && lo == hi))
        return err_set(e, PROEM_INVALID,
                       "%s: no random %s satisfies its uses (%lld to %lld%s); give it with --in",
                       name, dtype_name(d), (long long)lo, (long long)hi, skip ? ", not 0" : "");
    uint64_t span = whole_u64 ? 0 : (uint64_t)hi - (uint64_t)lo + 1;
    *out = (struct interval){lo, skip ? span - 1 : span, skip};
    return PROEM_OK;
}

static uint64_t sort_key(enum dtype d, const void *data, int64_t i) {
    uint64_t v = (uint64_t)elem_load(d, data, i).i;
    return d == DT_U64 ? v : v ^ (UINT64_C(1) << 63);
}

static void swap_elements(enum dtype d, void *data, int64_t i, int64_t j) {
    union scalar a = elem_load(d, data, i), b = elem_load(d, data, j);
    elem_store(d, data, i, b);
    elem_store(d, data, j, a);
}

static void sift_down(enum dtype d, void *data, int64_t root, int64_t n) {
    while (root <= (n - 2) / 2 && n > 1) {
        int64_t child = 2 * root + 1;
        if (child + 1 < n && sort_key(d, data, child) < sort_key(d, data, child + 1)) child++;
        if (sort_key(d, data, root) >= sort_key(d, data, child)) return;
        swap_elements(d, data, root, child);
        root = child;
    }
}

/* Heapsort: in place for elements of any width, packed ones included. */
static void sort_elements(enum dtype d, void *data, int64_t n) {
    for (int64_t root = n / 2 - 1; root >= 0; root--)
        sift_down(d, data, root, n);
    for (int64_t last = n - 1; last > 0; last--) {
        swap_elements(d, data, 0, last);
        sift_down(d, data, 0, last);
    }
}

/* Any bits, but for the scales. Of a number of bytes in this name's stream, each is its own word. */
static void fill_blocks(unsigned char *data, const struct block_format *f, int64_t count,
                        uint64_t key) {
    for (int64_t i = 0; i < count / f->elements; i++) {
        unsigned char *block = data + i * f->bytes;
        for (int k = 0; k < f->bytes; k++)
            block[k] = (unsigned char)(word_at(key, i * f->bytes + k) >> 56);
        block_tame(f, block, word_at(key, i * f->bytes));
    }
}

enum proem_status random_fill(void *data, enum dtype d, int64_t count, uint64_t seed,
                              const char *name, const struct random_rule *rule, struct err *e) {
    if (count <= 0) return PROEM_OK;
    uint64_t key = key_of(seed, name);
    if (dtype_is_block(d)) {
        fill_blocks(data, block_format(d), count, key);
    } else if (d == DT_E8M0) {
        fill_e8m0(data, count, key, -4, 4);
    } else if (dtype_is_float(d)) {
        struct narrow n = narrow_of(d);
        for (int64_t i = 0; i < count; i++)
            store_double(data, d, &n, i, normal_of(word_at(key, i)));
    } else {
        struct interval in = {0};
        TRY(rule_interval(d, rule, name, &in, e));
        fill_interval(data, d, count, key, &in);
        if (rule != NULL && rule->sorted) sort_elements(d, data, count);
    }
    return PROEM_OK;
}

enum proem_status random_fill_uniform(void *data, enum dtype d, int64_t count, uint64_t seed,
                                      const char *name, struct err *e) {
    if (!dtype_is_float(d))
        return err_set(e, PROEM_INVALID, "%s: rand is for floats, not %s; use randint:LO:HI", name,
                       dtype_name(d));
    uint64_t key = key_of(seed, name);
    if (d == DT_E8M0) {
        fill_e8m0(data, count, key, -4, -1);
        return PROEM_OK;
    }
    /* Below 1, f4 has no other value on a grid than 0 and 1/2. */
    int bits = d == DT_F4E2M1FN ? 1 : dtype_significand(d);
    struct narrow n = narrow_of(d);
    double step = 1.0 / (double)(UINT64_C(1) << bits);
    for (int64_t i = 0; i < count; i++)
        store_double(data, d, &n, i, (double)(word_at(key, i) >> (64 - bits)) * step);
    return PROEM_OK;
}

enum proem_status random_fill_range(void *data, enum dtype d, int64_t count, uint64_t seed,
                                    const char *name, int64_t lo, int64_t hi, struct err *e) {
    if (lo >= hi)
        return err_set(e, PROEM_INVALID, "%s: randint:%lld:%lld is empty; LO must be below HI",
                       name, (long long)lo, (long long)hi);
    bool fits;
    if (dtype_is_float(d)) {
        double max = dtype_max_finite(d);
        fits = (double)lo >= -max && (double)(hi - 1) <= max && (d != DT_E8M0 || lo > 0);
    } else {
        int64_t min = 0, max = 1;
        if (d != DT_BOOL) dtype_int_range(d, &min, &max);
        fits = lo >= min && hi - 1 <= max;
    }
    if (!fits)
        return err_set(e, PROEM_INVALID, "%s: randint:%lld:%lld is out of the range of %s", name,
                       (long long)lo, (long long)hi, dtype_name(d));
    uint64_t key = key_of(seed, name), span = (uint64_t)hi - (uint64_t)lo;
    for (int64_t i = 0; i < count; i++) {
        int64_t v = (int64_t)((uint64_t)lo + high_product(word_at(key, i), span));
        elem_store(d, data, i, elem_cast(DT_I64, (union scalar){.i = v}, d, true));
    }
    return PROEM_OK;
}

/* One number from each of k strata as equal as can be: distinct and ascending by construction. */
void random_choose(int64_t n, int64_t k, uint64_t seed, const char *name, int64_t *out) {
    uint64_t key = key_of(seed, name);
    for (int64_t i = 0; i < k; i++) {
        int64_t begin = i * (n / k) + (i < n % k ? i : n % k);
        int64_t size = n / k + (i < n % k);
        out[i] = begin + (int64_t)high_product(word_at(key, i), (uint64_t)size);
    }
}
