/* SPDX-License-Identifier: MIT
 * CUDA C: lanes of one thread, a small array that is unrolled into registers.
 *
 * Hooks are written over lane types vf32 vf64 vi32 vu32 vi64 vu64 as for CPUs (gen/c/prelude/vec.h
 * says what they hold); here they are pk_lanes<T, PK_W>, and every hook is a template over PK_W.
 * Comparisons give a mask in integer lanes, 0 or -1. Integer lanes wrap (arithmetic is unsigned: the
 * compiler may assume that signed sums do not). A conversion between lane types of one element size
 * keeps the bits. The mathematics that CPUs use is included with PK_W = 1 (shared_open.h); functions
 * over one lane are lifted to more by PK_LIFT.
 *
 * Compile with --fmad=false and without fast mathematics: contraction is written as pk_fma.
 */
typedef long long pk_i64;
typedef unsigned long long pk_u64;

#define PK_D_IN __device__ __forceinline__
#define PK_D    static __device__ __forceinline__

template <class T> struct pk_type {
    typedef T wrap;
    typedef int mask;
};
template <> struct pk_type<int> {
    typedef unsigned wrap;
    typedef int mask;
};
template <> struct pk_type<pk_i64> {
    typedef pk_u64 wrap;
    typedef pk_i64 mask;
};
template <> struct pk_type<pk_u64> {
    typedef pk_u64 wrap;
    typedef pk_i64 mask;
};
template <> struct pk_type<double> {
    typedef double wrap;
    typedef pk_i64 mask;
};

template <class T, class U> PK_D T pk_cast_bits(U u) {
    union {
        U u;
        T t;
    } c;
    c.u = u;
    return c.t;
}

#define PK_EACH(N) _Pragma("unroll") for (int l = 0; l < (N); l++)
#define PK_OPERATOR(op, as)                                                                        \
    friend __device__ __forceinline__ pk_lanes operator op(const pk_lanes &a, const pk_lanes &b) { \
        pk_lanes r;                                                                                \
        PK_EACH(N) r.x[l] = (T)((as)a.x[l] op(as) b.x[l]);                                         \
        return r;                                                                                  \
    }                                                                                              \
    __device__ __forceinline__ pk_lanes &operator op##=(const pk_lanes &b) {                       \
        return *this = *this op b;                                                                 \
    }
#define PK_COMPARE(op)                                                                             \
    friend __device__ __forceinline__ pk_lanes<typename pk_type<T>::mask, N> operator op(          \
        const pk_lanes &a, const pk_lanes &b) {                                                    \
        pk_lanes<typename pk_type<T>::mask, N> r;                                                  \
        PK_EACH(N) r.x[l] = a.x[l] op b.x[l] ? -1 : 0;                                             \
        return r;                                                                                  \
    }

template <class T, int N> struct pk_lanes {
    typedef T scalar;
    typedef typename pk_type<T>::wrap wrap;
    T x[N];
    pk_lanes() = default;
    __device__ __forceinline__ pk_lanes(T v) {
        PK_EACH(N) x[l] = v;
    }
    template <class U> __device__ __forceinline__ explicit pk_lanes(const pk_lanes<U, N> &v) {
        static_assert(sizeof(T) == sizeof(U), "bits are kept");
        PK_EACH(N) x[l] = pk_cast_bits<T>(v.x[l]);
    }
    __device__ __forceinline__ T &operator[](int i) {
        return x[i];
    }
    __device__ __forceinline__ const T &operator[](int i) const {
        return x[i];
    }
    PK_OPERATOR(+, wrap)
    PK_OPERATOR(-, wrap)
    PK_OPERATOR(*, wrap)
    PK_OPERATOR(/, T)
    PK_OPERATOR(&, T)
    PK_OPERATOR(|, T)
    PK_OPERATOR(^, T)
    PK_OPERATOR(>>, T)
    friend __device__ __forceinline__ pk_lanes operator<<(const pk_lanes &a, const pk_lanes &b) {
        pk_lanes r;
        PK_EACH(N) r.x[l] = (T)((wrap)a.x[l] << b.x[l]);
        return r;
    }
    PK_COMPARE(<)
    PK_COMPARE(<=)
    PK_COMPARE(>)
    PK_COMPARE(>=)
    PK_COMPARE(==)
    PK_COMPARE(!=)
    __device__ __forceinline__ pk_lanes operator-() const {
        pk_lanes r;
        PK_EACH(N) r.x[l] = (T)(-(wrap)x[l]);
        return r;
    }
    __device__ __forceinline__ pk_lanes operator~() const {
        pk_lanes r;
        PK_EACH(N) r.x[l] = ~x[l];
        return r;
    }
};

#define vf32 pk_lanes<float, PK_W>
#define vf64 pk_lanes<double, PK_W>
#define vi32 pk_lanes<int, PK_W>
#define vu32 pk_lanes<unsigned, PK_W>
#define vi64 pk_lanes<pk_i64, PK_W>
#define vu64 pk_lanes<pk_u64, PK_W>

/* ---- broadcast, single lanes ----------------------------------------------------------------- */

#define pk_set_vf32(v) (vf32((float)(v)))
#define pk_set_vf64(v) (vf64((double)(v)))
#define pk_set_vi32(v) (vi32((int)(v)))
#define pk_set_vu32(v) (vu32((unsigned)(v)))
#define pk_set_vi64(v) (vi64((pk_i64)(v)))
#define pk_set_vu64(v) (vu64((pk_u64)(v)))

template <class T, int N> PK_D pk_lanes<T, N> pk_iota(void) {
    pk_lanes<T, N> r;
    PK_EACH(N) r.x[l] = (T)l;
    return r;
}
#define pk_iota_vi64() (pk_iota<pk_i64, PK_W>())
template <int N> PK_D pk_lanes<int, N> pk_mask(int n) {
    pk_lanes<int, N> r;
    PK_EACH(N) r.x[l] = l < n ? -1 : 0;
    return r;
}
#define pk_mask_n(n) (pk_mask<PK_W>(n))
/* The first lanes of a table with an entry for each. */
template <int N, int M> PK_D pk_lanes<pk_i64, N> pk_table(const pk_i64 (&t)[M]) {
    pk_lanes<pk_i64, N> r;
    PK_EACH(N) r.x[l] = t[l];
    return r;
}
/* Lane i alone. */
template <class T, int N> PK_D pk_lanes<T, 1> pk_at(const pk_lanes<T, N> &v, int i) {
    return pk_lanes<T, 1>(v.x[i]);
}

/* ---- select, comparisons --------------------------------------------------------------------- */

template <class T, int N>
PK_D pk_lanes<T, N> pk_select(const pk_lanes<int, N> &m, const pk_lanes<T, N> &a,
                              const pk_lanes<T, N> &b) {
    pk_lanes<T, N> r;
    PK_EACH(N) r.x[l] = m.x[l] ? a.x[l] : b.x[l];
    return r;
}
#define pk_select_vf32 pk_select
#define pk_select_vf64 pk_select
#define pk_select_vi32 pk_select
#define pk_select_vu32 pk_select
#define pk_select_vi64 pk_select
#define pk_select_vu64 pk_select

#define PK_CMP(name, op)                                                                           \
    template <class T, int N>                                                                      \
    PK_D pk_lanes<int, N> pk_##name(const pk_lanes<T, N> &a, const pk_lanes<T, N> &b) {            \
        pk_lanes<int, N> r;                                                                        \
        PK_EACH(N) r.x[l] = a.x[l] op b.x[l] ? -1 : 0;                                             \
        return r;                                                                                  \
    }
PK_CMP(eq, ==)
PK_CMP(ne, !=)
PK_CMP(lt, <)
PK_CMP(le, <=)
PK_CMP(gt, >)
PK_CMP(ge, >=)
#define pk_eq_vf32 pk_eq
#define pk_eq_vf64 pk_eq
#define pk_eq_vi32 pk_eq
#define pk_eq_vu32 pk_eq
#define pk_eq_vi64 pk_eq
#define pk_eq_vu64 pk_eq
#define pk_ne_vf32 pk_ne
#define pk_ne_vf64 pk_ne
#define pk_ne_vi32 pk_ne
#define pk_ne_vu32 pk_ne
#define pk_ne_vi64 pk_ne
#define pk_ne_vu64 pk_ne
#define pk_lt_vf32 pk_lt
#define pk_lt_vf64 pk_lt
#define pk_lt_vi32 pk_lt
#define pk_lt_vu32 pk_lt
#define pk_lt_vi64 pk_lt
#define pk_lt_vu64 pk_lt
#define pk_le_vf32 pk_le
#define pk_le_vf64 pk_le
#define pk_le_vi32 pk_le
#define pk_le_vu32 pk_le
#define pk_le_vi64 pk_le
#define pk_le_vu64 pk_le
#define pk_gt_vf32 pk_gt
#define pk_gt_vf64 pk_gt
#define pk_gt_vi32 pk_gt
#define pk_gt_vu32 pk_gt
#define pk_gt_vi64 pk_gt
#define pk_gt_vu64 pk_gt
#define pk_ge_vf32 pk_ge
#define pk_ge_vf64 pk_ge
#define pk_ge_vi32 pk_ge
#define pk_ge_vu32 pk_ge
#define pk_ge_vi64 pk_ge
#define pk_ge_vu64 pk_ge

template <int N> PK_D bool pk_any_(const pk_lanes<int, N> &m) {
    int any = 0;
    PK_EACH(N) any |= m.x[l];
    return any != 0;
}

/* ---- functions of scalars over lanes --------------------------------------------------------- */

/* `value` is an expression of a (and b). */
#define PK_MAP1(name, to, from, value)                                                             \
    template <int N> PK_D pk_lanes<to, N> name(const pk_lanes<from, N> &v) {                       \
        pk_lanes<to, N> r;                                                                         \
        PK_EACH(N) {                                                                               \
            const from a = v.x[l];                                                                 \
            r.x[l] = (value);                                                                      \
        }                                                                                          \
        return r;                                                                                  \
    }
#define PK_MAP2(name, to, from, value)                                                             \
    template <int N>                                                                               \
    PK_D pk_lanes<to, N> name(const pk_lanes<from, N> &v, const pk_lanes<from, N> &w) {            \
        pk_lanes<to, N> r;                                                                         \
        PK_EACH(N) {                                                                               \
            const from a = v.x[l], b = w.x[l];                                                     \
            r.x[l] = (value);                                                                      \
        }                                                                                          \
        return r;                                                                                  \
    }
/* More lanes for a function of one. */
#define PK_LIFT1(f)                                                                                \
    template <class T, int N> PK_D auto f(const pk_lanes<T, N> &a) {                               \
        pk_lanes<typename decltype(f(pk_lanes<T, 1>(a.x[0])))::scalar, N> r;                       \
        PK_EACH(N) r.x[l] = f(pk_lanes<T, 1>(a.x[l])).x[0];                                        \
        return r;                                                                                  \
    }
#define PK_LIFT1P(f)                                                                               \
    template <class T, int N> PK_D pk_lanes<T, N> f(const pk_lanes<T, N> &a, double p, double q) { \
        pk_lanes<T, N> r;                                                                          \
        PK_EACH(N) r.x[l] = f(pk_lanes<T, 1>(a.x[l]), p, q).x[0];                                  \
        return r;                                                                                  \
    }
#define PK_LIFT2(f)                                                                                \
    template <class T, int N>                                                                      \
    PK_D pk_lanes<T, N> f(const pk_lanes<T, N> &a, const pk_lanes<T, N> &b) {                      \
        pk_lanes<T, N> r;                                                                          \
        PK_EACH(N) r.x[l] = f(pk_lanes<T, 1>(a.x[l]), pk_lanes<T, 1>(b.x[l])).x[0];                \
        return r;                                                                                  \
    }

/* ---- fused multiply-add: a * b + c, rounded once --------------------------------------------- */

PK_D float pk_fma1(float a, float b, float c) {
    return __fmaf_rn(a, b, c);
}
PK_D double pk_fma1(double a, double b, double c) {
    return __fma_rn(a, b, c);
}
PK_D int pk_fma1(int a, int b, int c) {
    return (int)((unsigned)a * (unsigned)b + (unsigned)c);
}
PK_D unsigned pk_fma1(unsigned a, unsigned b, unsigned c) {
    return a * b + c;
}
PK_D pk_i64 pk_fma1(pk_i64 a, pk_i64 b, pk_i64 c) {
    return (pk_i64)((pk_u64)a * (pk_u64)b + (pk_u64)c);
}
PK_D pk_u64 pk_fma1(pk_u64 a, pk_u64 b, pk_u64 c) {
    return a * b + c;
}
template <class T, int N>
PK_D pk_lanes<T, N> pk_fma(const pk_lanes<T, N> &a, const pk_lanes<T, N> &b,
                           const pk_lanes<T, N> &c) {
    pk_lanes<T, N> r;
    PK_EACH(N) r.x[l] = pk_fma1(a.x[l], b.x[l], c.x[l]);
    return r;
}
#define pk_fma_vf32 pk_fma
#define pk_fma_vf64 pk_fma

/* Structures of the size of whole words between the threads of a warp. */
template <class S> PK_D S pk_shuffle_xor(const S &s, int mask) {
    union {
        S s;
        unsigned w[sizeof(S) / 4];
    } c;
    static_assert(sizeof(S) % 4 == 0, "whole words");
    c.s = s;
    PK_EACH((int)(sizeof(S) / 4)) c.w[l] = __shfl_xor_sync(0xffffffffu, c.w[l], mask);
    return c.s;
}
