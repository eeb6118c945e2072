/* SPDX-License-Identifier: MIT
 * Status codes shared by every proem function that can fail.
 */
#ifndef PROEM_STATUS_H
#define PROEM_STATUS_H

/* X(NAME, exit status of the command, text) */
#define PROEM_STATUS_LIST(X)                                                                       \
    X(OK, 0, "success")                                                                            \
    X(CHECK, 1, "a check failed")                                                                  \
    X(INVALID, 2, "invalid argument or graph")                                                     \
    X(DATA, 2, "data error")                                                                       \
    X(IO, 2, "input or output error")                                                              \
    X(UNSUPPORTED, 3, "not supported")                                                             \
    X(NOMEM, 4, "out of memory")                                                                   \
    X(COMPILE, 4, "the C compiler is missing or failed")                                           \
    X(DEVICE, 4, "device not available")                                                           \
    X(INTERNAL, 4, "internal error")

enum proem_status {
#define PROEM_STATUS_ENUM(name, exit_status, text) PROEM_##name,
    PROEM_STATUS_LIST(PROEM_STATUS_ENUM)
#undef PROEM_STATUS_ENUM
};

#endif
