/* SPDX-License-Identifier: MIT
 * What matmul_ring.cu needs beside matmul_wgmma_ptx.h: boxes that are read once. Source: PTX ISA, chapter
 * "Data Movement" (cp.async.bulk.tensor, createpolicy).
 */
#ifndef PK_RING_PTX
#define PK_RING_PTX 1

/* pk_tma_load of what is read once: the L2 need not keep it. */
PK_D void pk_tma_stream(unsigned dst, const pk_tensor_map *map, unsigned bar, int c0, int c1,
                        int c2) {
    asm volatile("{\n.reg .b64 once;\n"
                 "createpolicy.fractional.L2::evict_first.b64 once, 1.0;\n"
                 "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], once;\n}" ::"r"(dst),
                 "l"((pk_u64)map), "r"(bar), "r"(c0), "r"(c1), "r"(c2)
                 : "memory");
}
#endif
