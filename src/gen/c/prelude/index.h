/* SPDX-License-Identifier: MIT
 * Integer helpers of index expressions, and the lane rotation of the reduction template.
 */

/* Floor division and remainder with the divisor's sign, as in graph text; b is not 0. */
static inline pk_i64 pk_floor_div(pk_i64 a, pk_i64 b) {
    pk_i64 q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static inline pk_i64 pk_floor_mod(pk_i64 a, pk_i64 b) {
    return a - pk_floor_div(a, b) * b;
}

/* Lane l of the result is lane (l + by) % PK_W; by is 0..PK_W. With a literal `by` GCC makes one
 * permutation of it; Clang only takes literal masks, so there it goes through memory. */
#if defined(__clang__)
#define PK_ROTATE_(lane, index)                                                                    \
    static inline lane pk_rotate_##lane(lane a, int by) {                                          \
        lane twice[2] = {a, a}, r;                                                                 \
        __builtin_memcpy(&r, (const char *)twice + (unsigned)by * sizeof a[0], sizeof r);          \
        return r;                                                                                  \
    }
#else
#define PK_ROTATE_(lane, index)                                                                    \
    static inline __attribute__((always_inline)) lane pk_rotate_##lane(lane a, int by) {           \
        return __builtin_shuffle(a, (pk_iota_##index() + by) & (PK_W - 1));                        \
    }
#endif
PK_ROTATE_(vf32, vi32)
PK_ROTATE_(vf64, vi64)
PK_ROTATE_(vi32, vi32)
PK_ROTATE_(vu32, vi32)
PK_ROTATE_(vi64, vi64)
PK_ROTATE_(vu64, vi64)
