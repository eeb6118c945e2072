/* SPDX-License-Identifier: MIT
 * Fuzz target: bytes choose a random graph (tests/drivers/random_graph.h); its text is parsed,
 * lowered, planned in every mode and policy, written out as C (which is not compiled), and run by
 * the reference interpreter, whose value must lie in its own intervals.
 */
#include <stdlib.h>

#include "drivers/random_graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void plan_and_write(struct subject *s, const struct rig *r) {
    for (int prec = 0; prec < 3; prec++) {
        for (int policy = 0; policy < 3; policy++) {
            struct variant v;
            if (variant_plan(&v, s, (enum precision)prec, (enum fuse_policy)policy, r) != PROEM_OK)
                continue;
            struct gen_joint j = {.plan = &v.plan};
            struct str text;
            struct err e;
            err_clear(&e);
            str_init(&text, &allocator_default);
            if (gen_c_joint(&j, 1, &r->device, &text, &e) != PROEM_OK) abort();
            str_free(&text);
        }
    }
}

static void evaluate(struct subject *s) {
    for (int prec = 0; prec < 3; prec++) {
        struct eval_results ref = {.alloc = &allocator_default};
        struct err e;
        err_clear(&e);
        if (subject_reference(s, (enum precision)prec, 0, 1, &ref, &e) != PROEM_OK) continue;
        for (int i = 0; i < ref.n; i++) {
            struct eval_report report;
            eval_compare(&ref.at[i], ref.at[i].data, &report);
            if (report.max_err > 0 || !report.ok) abort();
        }
        eval_results_free(&ref);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct random_graph *g = malloc(sizeof *g);
    struct rig r = {.threads = 1};
    struct choices c = {.bytes = data, .n = size};
    struct str text;
    struct subject s;
    struct err e;
    err_clear(&e);
    str_init(&text, &allocator_default);
    if (g == NULL || !device_by_name("avx2", 4, &r.device) || !random_graph_make(g, &c, 10))
        abort();
    random_graph_print(g, NULL, &text);
    struct dim_value dims[3];
    int n = random_graph_symbols(g, str_text(&text), dims);
    if (subject_open(&s, str_text(&text), dims, n, size, (enum fill)(size % 4), &e) == PROEM_OK) {
        plan_and_write(&s, &r);
        evaluate(&s);
        subject_close(&s);
    }
    str_free(&text);
    random_graph_free(g);
    free(g);
    return 0;
}
