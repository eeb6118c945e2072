/* SPDX-License-Identifier: MIT
 * A plan as text: the lowered graph with its kernels as comments before `return`, so that the print
 * reads back as the graph that was planned.
 *
 *   # kernel 0 matmul k0_matmul_1: M = M, N = 14336, K = 4096
 *   #   a = x[m, k]
 *   #   b0 = cast.bf16(mul(to.f32(w[n, k]), s[n]))
 *   #   y[m, n] = silu(add(to.bf16(acc0), b[n]))
 *   #   reads x, w, s, b; 58937344 bytes. writes y; 458752 bytes
 *
 * A fn is a DAG, and its text a tree: one whose tree is large is named by its size only.
 */
#include "driver/driver.h"

#include <string.h>

#define LARGEST_TREE 2000.0

struct printer {
    const struct plan *plan;
    const struct graph *g;
    struct str *out;
    double *size;        /* of the tree of each fn, 0: not yet known */
    VEC(uint32_t) looks; /* keys of look-ups that were printed */
};

static void collect_looks(struct printer *p, sx e) {
    const struct sx_pool *sp = p->g->sx;
    if (e == 0) return;
    if (sx_kind(sp, e) == SX_LOOK) {
        uint32_t key = sx_key(sp, e);
        for (size_t i = 0; i < p->looks.n; i++) {
            if (p->looks.at[i] == key) return;
        }
        (void)VEC_PUSH(p->g->arena, &p->looks, key);
    }
    for (int i = 0; i < sx_args(sp, e); i++)
        collect_looks(p, sx_arg(sp, e, i));
}

static void measure(void *user, fn_id f) {
    struct printer *p = user;
    const struct fn_node *n = fn_get(p->plan->fns, f);
    double size = 1;
    for (int i = 0; i < n->n_arg; i++)
        size += p->size[n->arg[i]];
    p->size[f] = size;
    for (int i = 0; i < n->rank; i++)
        collect_looks(p, n->idx[i]);
    collect_looks(p, n->e);
}

static void print_fn(struct printer *p, fn_id f) {
    fn_walk(p->plan->fns, f, measure, p);
    if (p->size[f] > LARGEST_TREE) {
        str_printf(p->out, "<%.0f operations>", p->size[f]);
    } else {
        fn_print(p->plan->fns, p->g, f, p->out);
    }
}

static void print_line(struct printer *p, const char *name, int number, fn_id f) {
    if (f == 0) return;
    if (number >= 0)
        str_printf(p->out, "  #   %s%d = ", name, number);
    else
        str_printf(p->out, "  #   %s = ", name);
    print_fn(p, f);
    str_add(p->out, "\n");
}

static void print_store(struct printer *p, const struct kernel_store *s) {
    struct sx_pool *sp = p->g->sx;
    str_printf(p->out, "  #   %s[", graph_value(p->g, s->value)->name);
    for (int i = 0; i < s->rank; i++) {
        if (i > 0) str_add(p->out, ", ");
        sx_print(sp, s->idx[i], p->out);
        collect_looks(p, s->idx[i]);
    }
    str_add(p->out, "] = ");
    print_fn(p, s->f);
    for (int i = 0; i < s->bounds.n; i++) {
        str_add(p->out, i == 0 ? " where " : " and ");
        sx_print(sp, s->bounds.at[i].lo, p->out);
        str_add(p->out, " <= ");
        sx_print(sp, s->bounds.at[i].e, p->out);
        str_add(p->out, " < ");
        sx_print(sp, s->bounds.at[i].hi, p->out);
    }
    str_add(p->out, s->per_row ? " (once a row)\n" : "\n");
}

static void print_looks(struct printer *p) {
    for (size_t i = 0; i < p->looks.n; i++) {
        str_printf(p->out, "  #   @%u = ", p->looks.at[i]);
        print_fn(p, p->looks.at[i]);
        str_add(p->out, "\n");
    }
    p->looks.n = 0;
}

static void print_space(struct printer *p, const struct kernel *k) {
    const char *names[] = {"Z", "M", "N", "K"};
    const sx extent[] = {k->Z, k->M, k->N, k->K};
    const char *separator = ": ";
    for (size_t i = 0; i < COUNT_OF(extent); i++) {
        if (extent[i] == 0) continue;
        str_printf(p->out, "%s%s = ", separator, names[i]);
        sx_print(p->g->sx, extent[i], p->out);
        separator = ", ";
    }
    str_add(p->out, "\n");
}

static void print_traffic(struct printer *p, const struct kernel *k) {
    str_add(p->out, "  #   reads");
    for (size_t i = 0; i < k->reads.n; i++)
        str_printf(p->out, "%s %s", i > 0 ? "," : "", graph_value(p->g, k->reads.at[i])->name);
    if (k->bytes_read >= 0) str_printf(p->out, "; %lld bytes", (long long)k->bytes_read);
    str_add(p->out, ". writes");
    for (size_t i = 0; i < k->stores.n; i++)
        str_printf(p->out, "%s %s", i > 0 ? "," : "",
                   graph_value(p->g, k->stores.at[i].value)->name);
    if (k->bytes_written >= 0) str_printf(p->out, "; %lld bytes", (long long)k->bytes_written);
    str_add(p->out, "\n");
}

static void print_kernel(struct printer *p, const struct kernel *k) {
    str_printf(p->out, "  # kernel %d %s %s", k->id, kernel_kind_name(k->kind),
               k->name != NULL ? k->name : "");
    print_space(p, k);
    print_line(p, "a", -1, k->a);
    for (int i = 0; i < k->n_b; i++)
        print_line(p, "b", i, k->b[i]);
    print_line(p, "base", -1, k->base);
    print_line(p, "index", -1, k->index);
    print_line(p, "src", -1, k->src);
    for (int i = 0; i < k->n_pass; i++) {
        str_printf(p->out, "  #   acc%d = %s over k of ", i, op_info(k->pass[i].op)->name);
        print_fn(p, k->pass[i].f);
        str_add(p->out, "\n");
    }
    for (size_t i = 0; i < k->stores.n; i++)
        print_store(p, &k->stores.at[i]);
    print_looks(p);
    print_traffic(p, k);
}

void plan_print(const struct plan *plan, struct str *out) {
    struct printer p = {.plan = plan, .g = plan->low.graph, .out = out};
    p.size = ARENA_NEW(p.g->arena, double, fn_count(plan->fns) + 1);
    struct str text;
    str_init(&text, out->alloc);
    graph_print(p.g, true, &text);
    if (p.size == NULL || text.failed) {
        out->failed = true;
        str_free(&text);
        return;
    }
    const char *all = str_text(&text), *end = all, *next = all;
    while ((next = strstr(next, "\n  return ")) != NULL)
        end = ++next;
    str_addn(out, all, (size_t)(end - all));
    for (size_t i = 0; i < plan->kernels.n; i++)
        print_kernel(&p, plan->kernels.at[i]);
    str_add(out, end);
    str_free(&text);
}

/* ---- tuning ---------------------------------------------------------------------------------- */

void tuned_print(const struct kernel *k, struct str *out) {
    const struct kernel_tuned *t = &k->tuned;
    if (!t->done) {
        str_printf(out, "not tuned%s%s", t->note != NULL ? ": " : "",
                   t->note != NULL ? t->note : "");
        return;
    }
    long long taken = (long long)(t->taken_us * 10 + 0.5),
              model = (long long)(t->model_us * 10 + 0.5);
    str_printf(out, "tuned: %lld.%lld us", taken / 10, taken % 10);
    if (tile_equal(&k->tile, &k->model_tile))
        str_add(out, ", the model's choice");
    else
        str_printf(out, " instead of %lld.%lld us", model / 10, model % 10);
    str_printf(out, ", best of %d", t->tried);
    if (t->cached) str_add(out, ", measured before");
    if (t->reordered)
        str_printf(out, "; the order of k is now %s, so results may differ", k->tile.order);
}
