/* SPDX-License-Identifier: MIT
 * The instructions of sm_80 that matmul_mma.cu is made of, one inline function each, and reads of a
 * few bytes. Source: PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions".
 *
 * Shared memory is addressed by 32-bit addresses of the shared window.
 */
#ifndef PK_MMA_PTX
#define PK_MMA_PTX 1

PK_D unsigned pk_mma_address(const void *p) {
    return (unsigned)__cvta_generic_to_shared(p);
}
/* Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8. */
template <bool TRANS> PK_D void pk_mma_load(unsigned *r, unsigned a) {
    if constexpr (TRANS)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(a)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(a)
                     : "memory");
}
PK_D void pk_mma_store16(unsigned a, unsigned r0, unsigned r1, unsigned r2, unsigned r3) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(r0), "r"(r1), "r"(r2),
                 "r"(r3)
                 : "memory");
}
PK_D void pk_mma_store4(unsigned a, unsigned r) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(a), "r"(r) : "memory");
}

/* c += a b, 16 x 32 bytes of k times 32 bytes of k x 8; A and B are dtypes of access.h. */
#define PK_MMA(A, B, T, C, name)                                                                   \
    template <> struct pk_mma<A, B> {                                                              \
        PK_D void add(T *c, const unsigned *a, const unsigned *b) {                                \
            asm("mma.sync.aligned." name                                                           \
                " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                 \
                : "+" C(c[0]), "+" C(c[1]), "+" C(c[2]), "+" C(c[3])                               \
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));               \
        }                                                                                          \
    };
template <class A, class B> struct pk_mma;
PK_MMA(pk_dt_bf16, pk_dt_bf16, float, "f", "m16n8k16.row.col.f32.bf16.bf16.f32")
PK_MMA(pk_dt_f16, pk_dt_f16, float, "f", "m16n8k16.row.col.f32.f16.f16.f32")
PK_MMA(pk_dt_i8, pk_dt_i8, int, "r", "m16n8k32.row.col.s32.s8.s8.s32")
PK_MMA(pk_dt_i8, pk_dt_u8, int, "r", "m16n8k32.row.col.s32.s8.u8.s32")
PK_MMA(pk_dt_u8, pk_dt_i8, int, "r", "m16n8k32.row.col.s32.u8.s8.s32")
PK_MMA(pk_dt_u8, pk_dt_u8, int, "r", "m16n8k32.row.col.s32.u8.u8.s32")
#undef PK_MMA

/* BYTES from an address that is a multiple of them, or of 16. */
template <int BYTES> PK_D void pk_mma_read(const void *p, unsigned *w) {
    if constexpr (BYTES == 2) {
        w[0] = *(const unsigned short *)p;
    } else if constexpr (BYTES == 4) {
        w[0] = *(const unsigned *)p;
    } else if constexpr (BYTES == 8) {
        const uint2 v = *(const uint2 *)p;
        w[0] = v.x, w[1] = v.y;
    } else {
        static_assert(BYTES % 16 == 0, "2, 4, 8, or a multiple of 16");
        PK_EACH(BYTES / 16) {
            const uint4 v = ((const uint4 *)p)[l];
            w[4 * l] = v.x, w[4 * l + 1] = v.y, w[4 * l + 2] = v.z, w[4 * l + 3] = v.w;
        }
    }
}
/* Bits that are 0 in an address from which it may read. */
template <int BYTES> PK_D unsigned pk_mma_askew(const void *p) {
    return (unsigned)(pk_u64)p & ((BYTES < 16 ? BYTES : 16) - 1);
}

#endif
