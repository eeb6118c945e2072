/* SPDX-License-Identifier: MIT
 * The instructions of sm_90a that matmul_wgmma.cu is made of, one inline function each: barriers in
 * shared memory (mbarrier), the copy engine (TMA), cp.async, clusters, registers of a warpgroup,
 * matrix descriptors. Source: PTX ISA, chapters "Parallel Synchronization and Communication
 * Instructions", "Data Movement" and "Asynchronous Warpgroup Level Matrix Instructions".
 *
 * Shared memory is addressed by 32-bit addresses of the shared window.
 */
#ifndef PK_WGMMA_PTX
#define PK_WGMMA_PTX 1

#ifndef PK_TENSOR_MAP
#define PK_TENSOR_MAP 1
struct alignas(64) pk_tensor_map {
    char bytes[128];
};
#endif

PK_D unsigned pk_shared_address(const void *p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

/* ---- barriers ------------------------------------------------------------------------------ */

PK_D void pk_bar_init(unsigned bar, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
/* Until the phase of that parity has ended. PK_HANG_LIMIT, for tests: a wait that never ends is an
 * error of the launch. */
PK_D void pk_bar_wait(unsigned bar, unsigned parity) {
#ifdef PK_HANG_LIMIT
    asm volatile(
        "{\n.reg .pred p;\n.reg .u32 n;\nmov.u32 n, 0;\n"
        "again:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\n"
        "add.u32 n, n, 1;\nsetp.gt.u32 p, n, %2;\n@p trap;\nbra again;\ndone:\n}" ::"r"(bar),
        "r"(parity), "n"(PK_HANG_LIMIT)
        : "memory");
#else
    asm volatile("{\n.reg .pred p;\n"
                 "again:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\n"
                 "bra again;\ndone:\n}" ::"r"(bar),
                 "r"(parity)
                 : "memory");
#endif
}
PK_D void pk_bar_arrive(unsigned bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
/* At the barrier of the same address in block `rank` of the cluster. */
PK_D void pk_bar_arrive_at(unsigned bar, unsigned rank) {
    asm volatile("{\n.reg .b32 r;\n"
                 "mapa.shared::cluster.u32 r, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [r];\n}" ::"r"(bar),
                 "r"(rank)
                 : "memory");
}
PK_D void pk_bar_expect(unsigned bar, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
                 : "memory");
}
/* Arrives when all earlier cp.async of the thread have landed; the barrier counts it as one. */
PK_D void pk_bar_arrive_copies(unsigned bar) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}
PK_D void pk_fence_barriers(void) {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/* Ordinary stores before it are seen by the tensor cores and the copy engine after it. */
PK_D void pk_fence_async(void) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
PK_D void pk_cluster_sync(void) {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
/* Nobody goes on before all have come; orders nothing else. */
PK_D void pk_cluster_leave(void) {
    asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
}
PK_D unsigned pk_cluster_rank(void) {
    unsigned r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

/* ---- copies -------------------------------------------------------------------------------- */

PK_D void pk_tma_prefetch(const pk_tensor_map *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"((pk_u64)map) : "memory");
}
/* A box of the tensor at coordinates (c0, c1, c2), innermost first; what lies outside is zero. */
PK_D void pk_tma_load(unsigned dst, const pk_tensor_map *map, unsigned bar, int c0, int c1,
                      int c2) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(dst),
                 "l"((pk_u64)map), "r"(bar), "r"(c0), "r"(c1), "r"(c2)
                 : "memory");
}
/* The same into every block of the cluster that has its bit in `blocks`. */
PK_D void pk_tma_multicast(unsigned dst, const pk_tensor_map *map, unsigned bar, int c0, int c1,
                           int c2, unsigned short blocks) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(dst),
                 "l"((pk_u64)map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "h"(blocks)
                 : "memory");
}
/* A box along the first and the last of five coordinates. */
PK_D void pk_tma_load_5(unsigned dst, const pk_tensor_map *map, unsigned bar, int c0, int c4) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, 0, 0, 0, %4}], [%2];" ::"r"(dst),
                 "l"((pk_u64)map), "r"(bar), "r"(c0), "r"(c4)
                 : "memory");
}
/* The same into every block of the cluster that has its bit in `blocks`. */
PK_D void pk_tma_multicast_5(unsigned dst, const pk_tensor_map *map, unsigned bar, int c0, int c4,
                             unsigned short blocks) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, 0, 0, 0, %4}], [%2], %5;" ::"r"(dst),
                 "l"((pk_u64)map), "r"(bar), "r"(c0), "r"(c4), "h"(blocks)
                 : "memory");
}
/* 16 bytes, of which the first `bytes` are read and the others are zero. */
PK_D void pk_copy16(unsigned dst, const void *src, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst),
                 "l"(__cvta_generic_to_global(src)), "r"(bytes)
                 : "memory");
}

/* ---- shared memory ------------------------------------------------------------------------- */

/* Whoever reads a stage has waited for its barrier: these keep their place. */
template <int BYTES> PK_D void pk_shared_load(unsigned *r, unsigned a) {
    if constexpr (BYTES == 1) {
        asm volatile("ld.shared.u8 %0, [%1];" : "=r"(r[0]) : "r"(a) : "memory");
    } else if constexpr (BYTES == 2) {
        asm volatile("{\n.reg .b16 h;\nld.shared.u16 h, [%1];\ncvt.u32.u16 %0, h;\n}"
                     : "=r"(r[0])
                     : "r"(a)
                     : "memory");
    } else if constexpr (BYTES == 4) {
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r[0]) : "r"(a) : "memory");
    } else if constexpr (BYTES == 8) {
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                     : "=r"(r[0]), "=r"(r[1])
                     : "r"(a)
                     : "memory");
    } else {
        static_assert(BYTES == 16, "1, 2, 4, 8, 16");
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(a)
                     : "memory");
    }
}
PK_D void pk_shared_store16(unsigned a, const unsigned *r) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
}
PK_D void pk_shared_store4(unsigned a, unsigned r) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(a), "r"(r) : "memory");
}
/* Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8. */
PK_D void pk_ldmatrix(unsigned *r, unsigned a) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(a)
                 : "memory");
}
PK_D void pk_ldmatrix_trans(unsigned *r, unsigned a) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(a)
                 : "memory");
}

/* The 128 threads of a warpgroup; barrier 0 is the block's. */
PK_D void pk_group_sync(unsigned barrier) {
    asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory");
}
/* One warpgroup waits for another. */
PK_D void pk_await_turn(unsigned barrier) {
    asm volatile("bar.sync %0, 256;" ::"r"(barrier) : "memory");
}
PK_D void pk_pass_turn(unsigned barrier) {
    asm volatile("bar.arrive %0, 256;" ::"r"(barrier) : "memory");
}

/* ---- warpgroups ---------------------------------------------------------------------------- */

template <int N> PK_D void pk_registers_more(void) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> PK_D void pk_registers_less(void) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
PK_D void pk_wgmma_fence(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
PK_D void pk_wgmma_commit(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Until at most N committed groups are under way. */
template <int N> PK_D void pk_wgmma_wait(void) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* A matrix in shared memory, swizzled over 128 bytes, its 8 x 128-byte blocks 1024 bytes apart
 * along k (elements neighbours along m or n: across == 1, blocks along m or n `leading` bytes apart)
 * or along m or n (elements neighbours along k). */
PK_D pk_u64 pk_descriptor(unsigned leading) {
    return ((pk_u64)(leading >> 4) << 16) | ((pk_u64)(1024 >> 4) << 32) | ((pk_u64)1 << 62);
}
PK_D pk_u64 pk_descriptor_at(pk_u64 form, unsigned address) {
    return form | (pk_u64)((address & 0x3ffff) >> 4);
}

/* A constant that stays in a register: LOP3 takes one immediate operand, and the compiler makes two
 * instructions of one with two constants. Keep it in x_row. */
PK_D unsigned pk_pinned(unsigned x) {
    unsigned below; /* of the lanes below: the highest bit is never set, but nobody knows */
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    return x + (below >> 31);
}

/* Two float to two 16-bit or four to four 8-bit elements, the first in the lowest bits. */
PK_D unsigned pk_pack_bf16(float a, float b) {
    unsigned r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
    return r;
}
PK_D unsigned pk_pack_f16(float a, float b) {
    unsigned r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
    return r;
}
PK_D unsigned pk_pack_e4m3(float a, float b, float c, float d) {
    unsigned short lo, hi;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(lo) : "f"(b), "f"(a));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(hi) : "f"(d), "f"(c));
    return (unsigned)lo | (unsigned)hi << 16;
}
PK_D unsigned pk_pack_e5m2(float a, float b, float c, float d) {
    unsigned short lo, hi;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(lo) : "f"(b), "f"(a));
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(hi) : "f"(d), "f"(c));
    return (unsigned)lo | (unsigned)hi << 16;
}

#endif
