/* SPDX-License-Identifier: MIT
 * The description of the device at hand, from the driver's attributes. What the driver does not tell
 * (rates of units) follows from the compute capability, as for a device given by name.
 */
#include "rt/cuda/internal.h"

enum proem_status rt_cuda_device(struct rt_cuda *c, struct device_desc *out, struct err *e) {
    TRY(rt_cuda_open(c, e));
    *out = c->desc;
    return PROEM_OK;
}

enum proem_status rt_cuda_describe(struct rt_cuda *c, struct err *e) {
    static const int asked[] = {
        CU_DEVICE_CC_MAJOR,   CU_DEVICE_CC_MINOR,          CU_DEVICE_SMS,
        CU_DEVICE_THREADS_SM, CU_DEVICE_BLOCKS_SM,         CU_DEVICE_REGISTERS_SM,
        CU_DEVICE_SHARED_SM,  CU_DEVICE_SHARED_BLOCK_MOST, CU_DEVICE_L2,
        CU_DEVICE_CLOCK,      CU_DEVICE_MEMORY_CLOCK,      CU_DEVICE_BUS_WIDTH};
    int v[COUNT_OF(asked)] = {0};
    for (size_t i = 0; i < COUNT_OF(asked); i++)
        TRY(rt_cuda_result(c, c->cu.device_attribute(&v[i], asked[i], c->device),
                           "an attribute of the device", e));
    size_t memory = 0;
    TRY(rt_cuda_result(c, c->cu.device_memory(&memory, c->device), "the device's memory", e));
    TRY(rt_cuda_result(c, c->cu.device_name(c->device_name, sizeof c->device_name, c->device),
                       "the device's name", e));
    c->device_memory = (int64_t)memory;
    struct device_desc d = {.gpu = {.cc = v[0] * 10 + v[1],
                                    .sms = v[2],
                                    .threads_sm = v[3],
                                    .blocks_sm = v[4],
                                    .registers_sm = v[5],
                                    .shared_sm = v[6],
                                    .shared_block = v[7],
                                    .l2 = v[8],
                                    .hz = v[9] * 1e3,
                                    /* both edges of the clock carry data */
                                    .bandwidth = 2.0 * v[10] * 1e3 * v[11] / 8}};
    if (!device_derive_gpu(&d))
        return err_set(e, PROEM_DEVICE,
                       "CUDA device %d (%s) has compute capability %d.%d; 8.0 is needed",
                       c->ordinal, c->device_name, v[0], v[1]);
    c->desc = d;
    return PROEM_OK;
}
