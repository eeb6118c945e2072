/* SPDX-License-Identifier: MIT
 * CUDA C: from here on functions are templates over the number of lanes.
 */
#undef PK_W
#undef PK_I
#define PK_I template <int PK_W> static __device__ __forceinline__
