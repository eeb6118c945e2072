/* SPDX-License-Identifier: MIT
 * `return y in c`: may the kernel that stores y write into c's memory while it runs?
 *
 * Yes if it is the last that reads c, and reads each element of c only on the way to storing y's
 * element of the same place: then every read of an element comes before the write that replaces it,
 * in the same task, whatever the number of threads. Indices are compared as normal forms, so equal
 * ids are equal places for all coordinates. Anything else runs into memory of its own (exec.c).
 */
#include "driver/driver.h"

struct alias {
    const struct proem_program *p;
    value_id param;
    const struct kernel_store *store; /* reads at this place are allowed; NULL: none are */
    bool ok;
};

static void check_load(void *user, fn_id f) {
    struct alias *a = user;
    const struct fn_node *n = fn_get(a->p->plan.fns, f);
    if (n->kind != FN_LOAD || n->tensor != a->param) return;
    a->ok = a->ok && a->store != NULL && n->rank == a->store->rank;
    for (int i = 0; a->ok && i < n->rank; i++)
        a->ok = n->idx[i] == a->store->idx[i];
}

static bool reads_well(struct alias *a, fn_id f, const struct kernel_store *at) {
    a->store = at;
    fn_walk(a->p->plan.fns, f, check_load, a);
    return a->ok;
}

/* Kernels that hold a whole line, or an element, before they store it. */
static bool kernel_reads_well(struct alias *a, const struct kernel *k) {
    const struct kernel_store *s = &k->stores.at[0];
    bool ok = k->kind == KERNEL_POINTWISE || k->kind == KERNEL_MATMUL || k->kind == KERNEL_SCATTER;
    ok = ok && k->stores.n == 1 && s->bounds.n == 0;
    ok = ok && reads_well(a, s->f, s) && reads_well(a, k->base, s);
    ok = ok && reads_well(a, k->index, NULL) && reads_well(a, k->src, NULL);
    ok = ok && reads_well(a, k->a, NULL);
    for (int i = 0; ok && i < k->n_b; i++)
        ok = reads_well(a, k->b[i], NULL);
    return ok;
}

bool program_in_place(const struct proem_program *p, value_id out, value_id param) {
    int owner = p->plan.owner[out];
    if (owner < 0 || dtype_is_subbyte(graph_value(p->low.graph, out)->dtype)) return false;
    for (size_t i = (size_t)owner + 1; i < p->plan.kernels.n; i++) {
        const struct gen_kernel *k = p->steps[i].gen;
        for (int j = 0; j < k->n_args; j++) {
            if (k->args[j] == param) return false;
        }
    }
    struct alias a = {.p = p, .param = param, .ok = true};
    return kernel_reads_well(&a, p->plan.kernels.at[owner]);
}
