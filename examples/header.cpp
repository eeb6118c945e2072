// SPDX-License-Identifier: MIT
// The headers are C++ as well: a context in a unique_ptr.
#include <proem/proem.h>

#include <cstdio>
#include <memory>

int main() {
    proem_context *raw = nullptr;
    if (proem_context_create(nullptr, &raw) != PROEM_OK) return 1;
    std::unique_ptr<proem_context, decltype(&proem_context_destroy)> context(raw,
                                                                             proem_context_destroy);
    proem_graph *g = nullptr;
    if (proem_graph_create(context.get(), "g", &g) != PROEM_OK) return 1;
    std::unique_ptr<proem_graph, decltype(&proem_graph_destroy)> graph(g, proem_graph_destroy);
    const proem_value x = proem_graph_param(g, "x", "f32[N]");
    proem_graph_output(g, proem_add(g, x, x), 0);
    const char *text = nullptr;
    if (proem_graph_text(g, &text) != PROEM_OK) return 1;
    std::fputs(text, stdout);
    return 0;
}
