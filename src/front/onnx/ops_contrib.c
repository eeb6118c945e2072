/* SPDX-License-Identifier: MIT
 * Operators of the domain com.microsoft.
 */
#include "front/onnx/import.h"

const struct ox_op ox_contrib[] = {
    {0},
};
