/* SPDX-License-Identifier: MIT
 * pow of integers, modulo 2^width, by squaring. A negative exponent gives the integer part of the
 * exact power: 0 but for the bases 1 and -1, and 0 for the base 0.
 */
#define PK_POWU_(lane, bits)                                                                       \
    PK_I lane pk_pow_##lane(lane a, lane b) {                                                      \
        lane r = pk_set_##lane(1);                                                                 \
        for (int i = 0; i < bits && pk_anybit_##lane##_(b); i++) {                                 \
            lane m = (lane){0} - (b & 1);                                                          \
            r *= (a & m) | (~m & 1);                                                               \
            a *= a;                                                                                \
            b >>= 1;                                                                               \
        }                                                                                          \
        return r;                                                                                  \
    }
PK_I int pk_anybit_vu32_(vu32 b) {
    unsigned any = 0;
    for (int i = 0; i < PK_W; i++)
        any |= b[i];
    return any != 0;
}
PK_I int pk_anybit_vu64_(vu64 b) {
    pk_u64 any = 0;
    for (int i = 0; i < PK_W; i++)
        any |= b[i];
    return any != 0;
}
PK_POWU_(vu32, 32)
PK_POWU_(vu64, 64)
PK_I vi32 pk_pow_vi32(vi32 a, vi32 b) {
    vi32 neg = b >> 31, unit = (vi32)(a == 1) | (vi32)(a == -1);
    /* for the bases 1 and -1 only the exponent's parity counts */
    vu32 r = pk_pow_vu32((vu32)a, (vu32)((b & ~neg) | (b & neg & 1)));
    return (vi32)r & (~neg | unit);
}
PK_I vi64 pk_pow_vi64(vi64 a, vi64 b) {
    vi64 neg = b >> 63;
    vi64 unit = pk_wide_eq_vi64_(a, pk_set_vi64(1)) | pk_wide_eq_vi64_(a, pk_set_vi64(-1));
    vu64 r = pk_pow_vu64((vu64)a, (vu64)((b & ~neg) | (b & neg & 1)));
    return (vi64)r & (~neg | unit);
}
