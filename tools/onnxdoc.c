/* SPDX-License-Identifier: MIT
 * Writes docs/onnx.md to standard output: what is read of ONNX models, with the operators and the
 * element types from the importer's tables. A test compares the file with this.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/onnx/import.h"

static const char head[] =
    "# ONNX models\n"
    "\n"
    "Generated from the tables by `tools/onnxdoc.c`; do not edit.\n"
    "\n"
    "An `.onnx` file stands where a graph's file stands: `run`, `explain`, `emit`, `bench`, `fmt` "
    "take\n"
    "it with the same options. `proem convert model.onnx -o model.proem` writes it as graph text,\n"
    "with the weights in `model.safetensors` beside it. `-d parse` prints the graph that a model\n"
    "becomes; no operator reaches the scheduler under ONNX's name, so a model is planned as the "
    "same\n"
    "graph in text would be. `proem explain model.onnx --onnx out.onnx` writes the model again, "
    "with\n"
    "each kernel of its plan as a function of the domain `proem.kernel`; it means the same "
    "wherever it\n"
    "is run, and a viewer shows which operators share a kernel.\n"
    "\n"
    "- **Files**: IR versions 3 to 13, one protobuf message of up to 2 GiB. Initializers and "
    "Constants\n"
    "  in any encoding: raw, typed lists, packed 4-bit and 2-bit elements, external data in files "
    "below\n"
    "  the model's folder, wherever links lead. Large tensors stay in their files until kernels "
    "need\n"
    "  them: external data are mapped, not copied, and must not be cut short while the model is "
    "in\n"
    "  use. Sparse and string tensors, sequences as inputs, and training are not supported. What "
    "a\n"
    "  model may cost is bounded by its size.\n"
    "- **Functions** of the model are inlined. If, Loop and Scan are not supported.\n"
    "- **Names**: inputs and outputs keep theirs, and so does each result that no other value is "
    "named\n"
    "  like. A named axis is a symbol (`--dim batch=8`); an axis without a name is called by its "
    "input\n"
    "  and its number (`x_0`).\n"
    "- **Shapes** that a model computes from sizes are computed while it is read, and stay "
    "symbolic.\n"
    "  Where they depend on the values of an input, these have to be known then: `--in "
    "NAME=FILE`,\n"
    "  and the graph holds for them alone. What a shape is computed from otherwise is an error "
    "that\n"
    "  names the node and its input.\n"
    "- **Meaning** is ONNX's where it differs from that of the graph's operator of the same name:\n"
    "  integer division is cut, Clip and Max and Min keep NaNs, f8 saturates unless told "
    "otherwise.\n"
    "  It is said in the graph's operators.\n"
    "- **Element types** that the graph lacks, FLOAT8E4M3FNUZ and FLOAT8E5M2FNUZ, are u8 there; "
    "casts\n"
    "  compute with their bits, and operators that only move elements take them.\n"
    "- An operator that is not supported is named with its domain, version and the first node "
    "that\n"
    "  has it, all of them in one message with exit status 3. A broken file is one line, with the "
    "byte\n"
    "  or the tensor that is wrong, and exit status 2.\n"
    "\n"
    "`make test-onnx` runs ONNX's node tests on the interpreter and the CPU, `make "
    "test-onnx-backend`\n"
    "the same by ONNX's own runner; `make test-onnx-contrib` holds the operators of com.microsoft\n"
    "against ONNX Runtime on random models, `make test-models` whole models from PyPI.\n";

static int by_name(const void *a, const void *b) {
    const struct ox_op *x = *(const struct ox_op *const *)a, *y = *(const struct ox_op *const *)b;
    int c = strcmp(x->domain, y->domain);
    return c != 0 ? c : strcmp(x->name, y->name);
}

static void print_types(void) {
    printf("\n## Element types\n\n| ONNX | graph |\n|---|---|\n");
    for (int32_t t = 1; strcmp(onnx_dtype_name(t), onnx_dtype_name(-1)) != 0; t++) {
        enum dtype d = onnx_dtype(t);
        if (d != DT_NONE)
            printf("| %s | %s%s |\n", onnx_dtype_name(t), dtype_name(d),
                   onnx_is_bits(t) ? ", its bits" : "");
    }
}

int main(void) {
    static const struct ox_op *list[1024];
    size_t n = 0;
    const char *domain = NULL;
    for (const struct ox_op *op; n < COUNT_OF(list) && (op = onnx_op(n)) != NULL; n++)
        list[n] = op;
    qsort(list, n, sizeof list[0], by_name);
    fputs(head, stdout);
    print_types();
    printf(
        "\n## Operators\n\n*Since* is the first version of the operator set that is understood;\n"
        "later versions are, too.\n");
    for (size_t i = 0; i < n; i++) {
        if (domain == NULL || strcmp(domain, list[i]->domain) != 0) {
            domain = list[i]->domain;
            printf("\n### %s\n\n| operator | since |\n|---|---|\n",
                   domain[0] != '\0' ? domain : "ai.onnx");
        }
        printf("| %s | %d |\n", list[i]->name, list[i]->since);
    }
    return 0;
}
