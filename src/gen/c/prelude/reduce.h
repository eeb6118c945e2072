/* SPDX-License-Identifier: MIT
 * Horizontal reductions, always by the same tree: lane i meets lane i + PK_W / 2, then i + PK_W /
 * 4, and so on. Maximum and minimum keep a NaN. (Needs math_basic.h.)
 */
#if PK_W == 16
#define PK_FOLD8_(v) PK_SHUF_(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
#define PK_FOLD4_(v) PK_SHUF_(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)
#define PK_FOLD2_(v) PK_SHUF_(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
#define PK_FOLD1_(v) PK_SHUF_(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#elif PK_W == 8
#define PK_FOLD4_(v) PK_SHUF_(v, v, 4, 5, 6, 7, 0, 1, 2, 3)
#define PK_FOLD2_(v) PK_SHUF_(v, v, 2, 3, 0, 1, 6, 7, 4, 5)
#define PK_FOLD1_(v) PK_SHUF_(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
#else
#define PK_FOLD2_(v) PK_SHUF_(v, v, 2, 3, 0, 1)
#define PK_FOLD1_(v) PK_SHUF_(v, v, 1, 0, 3, 2)
#endif
#if PK_W == 16
#define PK_STEP8_(v, f) v = f(v, PK_FOLD8_(v))
#else
#define PK_STEP8_(v, f) (void)0
#endif
#if PK_W >= 8
#define PK_STEP4_(v, f) v = f(v, PK_FOLD4_(v))
#else
#define PK_STEP4_(v, f) (void)0
#endif
#define PK_HRED32_(name, lane, scalar, f)                                                          \
    PK_I scalar pk_##name##_##lane(lane v) {                                                       \
        PK_STEP8_(v, f);                                                                           \
        PK_STEP4_(v, f);                                                                           \
        v = f(v, PK_FOLD2_(v));                                                                    \
        v = f(v, PK_FOLD1_(v));                                                                    \
        return v[0];                                                                               \
    }
#define PK_HRED64_(name, lane, scalar, f)                                                          \
    PK_I scalar pk_##name##_##lane(lane v) {                                                       \
        scalar t[PK_W];                                                                            \
        for (int i = 0; i < PK_W; i++)                                                             \
            t[i] = v[i];                                                                           \
        for (int h = PK_W / 2; h > 0; h /= 2)                                                      \
            for (int i = 0; i < h; i++)                                                            \
                t[i] = f(t[i], t[i + h]);                                                          \
        return t[0];                                                                               \
    }
#define PK_PLUS_(a, b)  ((a) + (b))
#define PK_TIMES_(a, b) ((a) * (b))
#define PK_LESS_(a, b)  ((b) < (a) ? (b) : (a))
#define PK_MORE_(a, b)  ((b) > (a) ? (b) : (a))
PK_I double pk_fmin1_(double a, double b) {
    return a != a || a < b ? a : b != b || b < a ? b : __builtin_signbit(a) ? a : b;
}
PK_I double pk_fmax1_(double a, double b) {
    return a != a || a > b ? a : b != b || b > a ? b : __builtin_signbit(a) ? b : a;
}
#define PK_IPLUS_(a, b)  (vi32)((vu32)(a) + (vu32)(b))
#define PK_ITIMES_(a, b) (vi32)((vu32)(a) * (vu32)(b))
#define PK_LPLUS_(a, b)  (pk_i64)((pk_u64)(a) + (pk_u64)(b))
#define PK_LTIMES_(a, b) (pk_i64)((pk_u64)(a) * (pk_u64)(b))
PK_HRED32_(hsum, vf32, float, PK_PLUS_)
PK_HRED32_(hsum, vi32, int, PK_IPLUS_)
PK_HRED32_(hsum, vu32, unsigned, PK_PLUS_)
PK_HRED64_(hsum, vf64, double, PK_PLUS_)
PK_HRED64_(hsum, vi64, pk_i64, PK_LPLUS_)
PK_HRED64_(hsum, vu64, pk_u64, PK_PLUS_)
PK_HRED32_(hprod, vf32, float, PK_TIMES_)
PK_HRED32_(hprod, vi32, int, PK_ITIMES_)
PK_HRED32_(hprod, vu32, unsigned, PK_TIMES_)
PK_HRED64_(hprod, vf64, double, PK_TIMES_)
PK_HRED64_(hprod, vi64, pk_i64, PK_LTIMES_)
PK_HRED64_(hprod, vu64, pk_u64, PK_TIMES_)
PK_HRED32_(hmax, vf32, float, pk_max_vf32)
PK_HRED32_(hmax, vi32, int, pk_max_vi32)
PK_HRED32_(hmax, vu32, unsigned, pk_max_vu32)
PK_HRED64_(hmax, vf64, double, pk_fmax1_)
PK_HRED64_(hmax, vi64, pk_i64, PK_MORE_)
PK_HRED64_(hmax, vu64, pk_u64, PK_MORE_)
PK_HRED32_(hmin, vf32, float, pk_min_vf32)
PK_HRED32_(hmin, vi32, int, pk_min_vi32)
PK_HRED32_(hmin, vu32, unsigned, pk_min_vu32)
PK_HRED64_(hmin, vf64, double, pk_fmin1_)
PK_HRED64_(hmin, vi64, pk_i64, PK_LESS_)
PK_HRED64_(hmin, vu64, pk_u64, PK_LESS_)
