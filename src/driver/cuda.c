/* SPDX-License-Identifier: MIT
 * From CUDA C to a program on a GPU: the context's device, machine code, launches as plain data.
 *
 * A kernel is one step and several launches. What depends on sizes (blocks, scratch, tensor maps)
 * stays symbolic here; an execution evaluates it for its binding (exec_cuda.c).
 */
#include "driver/cuda.h"

#include <stdlib.h>
#include <string.h>

/* ---- the device ------------------------------------------------------------------------------ */

enum proem_status context_cuda(proem_context *c, struct rt_cuda **out, struct err *e) {
    if (c->cuda == NULL) {
        struct rt_cuda_options o = {.driver = getenv("PROEM_CUDA"),
                                    .nvrtc = getenv("PROEM_NVRTC"),
                                    .ordinal = c->cuda_device};
        if (o.driver != NULL && o.driver[0] == '\0') o.driver = NULL;
        if (o.nvrtc != NULL && o.nvrtc[0] == '\0') o.nvrtc = NULL;
        TRY(rt_cuda_new(c->rt, &o, &c->cuda, e));
    }
    *out = c->cuda;
    return PROEM_OK;
}

enum proem_status cuda_target(proem_context *c, const char *arch, bool runs,
                              struct device_desc *out, struct err *e) {
    struct rt_cuda *cuda;
    struct device_desc want, have;
    TRY(context_cuda(c, &cuda, e));
    if (arch != NULL && (!device_by_name(arch, strlen(arch), &want) || want.kind != DEVICE_CUDA))
        return err_set(
            e, PROEM_INVALID,
            "arch '%s' is no GPU that is known; expected sm_80, sm_90, sm_90a or sm_100a", arch);
    if (arch != NULL && !runs) {
        *out = want;
        return PROEM_OK;
    }
    TRY(rt_cuda_device(cuda, &have, e));
    const char *missing = NULL;
    if (arch != NULL && !device_can_run(&have, &want, &missing))
        return err_set(e, PROEM_DEVICE, "the device is %s: it cannot run code for %s", have.name,
                       arch);
    /* The machine's own numbers, so that a plan is the same with the name and without. */
    *out = have;
    if (arch != NULL && strcmp(have.name, want.name) != 0) *out = want;
    return PROEM_OK;
}

/* ---- machine code ---------------------------------------------------------------------------- */

/* Is there something that makes a unit slow, by the compiler's own account? */
static bool is_slow(const struct rt_cubin_report *r) {
    return r->spilled > 0 || r->serialized > 0;
}

bool cuda_is_slow(const struct rt_cubin *b) {
    return is_slow(rt_cubin_report(b));
}

static enum proem_status compile_units(struct proem_program *p, struct err *e) {
    struct rt_cuda *cuda;
    struct rt_source *s = ARENA_NEW(&p->arena, struct rt_source, p->n_units);
    struct rt_cubin **b = ARENA_NEW(&p->arena, struct rt_cubin *, p->n_units);
    if (s == NULL || b == NULL) return err_nomem(e);
    for (int i = 0; i < p->n_units; i++)
        s[i] = (struct rt_source){.name = pass_part_name(p, PASS_GEN, i),
                                  .text = str_text(&p->units[i].text),
                                  .n = p->units[i].text.n};
    TRY(context_cuda(p->c, &cuda, e));
    TRY(rt_cuda_compile(cuda, &p->opt.target, p->n_units, s, b, e));
    p->cubins = b;
    return PROEM_OK;
}

static struct kernel *kernel_of(struct proem_program *p, const struct gen_kernel *gk) {
    for (size_t i = 0; i < p->plan.kernels.n; i++) {
        if (p->plan.kernels.at[i] == gk->kernel) return p->plan.kernels.at[i];
    }
    return NULL;
}

static enum proem_status add_fallback(struct proem_program *p, const char *kernel, const char *why,
                                      struct err *e) {
    struct fallback f = {arena_printf(&p->arena, "kernel %s", kernel), why};
    if (!VEC_PUSH(&p->arena, &p->fallbacks, f) || !arena_ok(&p->arena)) return err_nomem(e);
    if (p->opt.strict) return err_set(e, PROEM_UNSUPPORTED, "%s: %s (--strict)", f.what, f.why);
    return PROEM_OK;
}

/* Kernels that are slow for their tile pass it over, once all choices are used up the model's is
 * taken after all. Is there anything to compile again? */
static enum proem_status pass_over(struct proem_program *p, bool *again, struct err *e) {
    *again = false;
    for (int u = 0; u < p->n_units; u++) {
        const struct rt_cubin_report *r = rt_cubin_report(p->cubins[u]);
        if (!is_slow(r)) continue;
        const char *why = arena_strdup(&p->arena, r->first);
        for (int i = 0; i < p->units[u].n_kernels; i++) {
            const struct gen_cuda *gc = &p->units[u].cuda[i];
            struct kernel *k = kernel_of(p, &p->units[u].kernels[i]);
            if (k == NULL || gc->choices < 2 || k->tile.cuda.passed < 0) continue;
            int next = k->tile.cuda.passed + 1;
            k->tile.cuda.passed = next < gc->choices ? next : -1;
            *again = true;
            TRY(add_fallback(p, k->name,
                             arena_printf(&p->arena, "tile %s compiles to slow code: %s",
                                          gc->tile != NULL ? gc->tile : "", why),
                             e));
        }
    }
    return arena_ok(&p->arena) ? PROEM_OK : err_nomem(e);
}

static void drop_units(struct proem_program *p) {
    for (int i = 0; i < p->n_units; i++) {
        rt_cubin_unref(p->cubins[i]);
        str_free(&p->units[i].text);
    }
    p->cubins = NULL;
    p->units = NULL;
}

enum proem_status cuda_compile(struct proem_program *p, struct err *e) {
    bool again = true;
    TRY(compile_units(p, e));
    for (;;) {
        TRY(pass_over(p, &again, e));
        if (!again) break;
        int n = p->n_units;
        drop_units(p);
        p->n_units = 0;
        TRY(gen_cuda(&p->plan, &p->opt.target, n, &p->units, &p->n_units, e));
        TRY(compile_units(p, e));
    }
    for (int i = 0; i < p->n_units; i++) {
        const struct rt_cubin_report *r = rt_cubin_report(p->cubins[i]);
        if (is_slow(r))
            TRY(add_fallback(p, pass_part_name(p, PASS_GEN, i),
                             arena_printf(&p->arena, "it compiles to slow code: %s", r->first), e));
    }
    return PROEM_OK;
}

void cuda_print_compile(const struct proem_program *p, struct str *out) {
    struct rt_cuda *cuda;
    struct err ignored = {0};
    if (context_cuda(p->c, &cuda, &ignored) != PROEM_OK) return;
    str_add(out, "# ");
    rt_cuda_nvrtc_text(cuda, out, &ignored);
    str_add(out, "\n# ");
    rt_cuda_flags(cuda, &p->opt.target, out, &ignored);
    str_add(out, "\n");
    for (int i = 0; i < p->n_units; i++) {
        const struct rt_cubin_report *r = rt_cubin_report(p->cubins[i]);
        str_printf(out, "%s: %d registers", pass_part_name(p, PASS_GEN, i), r->registers);
        if (r->spilled > 0) str_printf(out, ", SPILLS %lld bytes", (long long)r->spilled);
        if (r->serialized > 0)
            str_printf(out, ", SERIALIZED products (%d warnings)", r->serialized);
        if (is_slow(r)) str_printf(out, ": %s", r->first);
        if (r->ms > 0)
            str_printf(out, ", %lld ms\n", (long long)(r->ms + 0.5));
        else
            str_add(out, ", from the cache\n");
    }
}

void cuda_program_free(struct proem_program *p) {
    rt_cuda_program_free(p->cuda);
    for (int i = 0; p->cubins != NULL && i < p->n_units; i++)
        rt_cubin_unref(p->cubins[i]);
}

/* ---- launches -------------------------------------------------------------------------------- */

static enum rt_cuda_type map_type(enum dtype d) {
    switch (d) {
    case DT_F64: return RT_CUDA_F64;
    case DT_F32: return RT_CUDA_F32;
    case DT_F16: return RT_CUDA_F16;
    case DT_BF16: return RT_CUDA_BF16;
    case DT_I64: return RT_CUDA_I64;
    case DT_U64: return RT_CUDA_U64;
    case DT_I32: return RT_CUDA_I32;
    case DT_U32: return RT_CUDA_U32;
    case DT_I16:
    case DT_U16: return RT_CUDA_U16;
    default: return RT_CUDA_U8; /* bytes, and bytes of narrower elements */
    }
}

static enum proem_status make_map(const struct gen_kernel *gk, const struct gen_tensor_map *from,
                                  struct rt_cuda_map *to, struct err *e) {
    int bits = dtype_bits(from->dtype);
    *to = (struct rt_cuda_map){.arg = -1,
                               .type = (int)map_type(from->dtype),
                               .rank = from->rank,
                               .swizzle = from->swizzle};
    for (int i = 0; i < gk->n_args && to->arg < 0; i++) {
        if (gk->args[i] == from->tensor) to->arg = i;
    }
    if (to->arg < 0 || from->rank < 1 || from->rank > 5)
        return err_set(e, PROEM_INTERNAL, "kernel '%s': a tensor map of no argument", gk->name);
    for (int i = 0; i < from->rank; i++)
        to->box[i] = from->box[i];
    if (bits < 8) to->box[0] = from->box[0] * bits / 8;
    return PROEM_OK;
}

static enum proem_status make_launch(struct arena *a, const struct gen_kernel *gk,
                                     const struct gen_launch *from, struct rt_cuda_launch *to,
                                     struct err *e) {
    struct rt_cuda_map *maps = ARENA_NEW(a, struct rt_cuda_map, from->n_maps);
    if (maps == NULL) return err_nomem(e);
    for (int i = 0; i < from->n_maps; i++)
        TRY(make_map(gk, &from->maps[i], &maps[i], e));
    *to = (struct rt_cuda_launch){.entry = from->entry,
                                  .threads = from->threads,
                                  .cluster = from->cluster > 0 ? from->cluster : 1,
                                  .shared = from->shared,
                                  .per_sm = from->per_sm,
                                  .n_maps = from->n_maps,
                                  .maps = maps};
    return PROEM_OK;
}

enum proem_status cuda_make_step(struct arena *a, const struct gen_kernel *gk,
                                 const struct gen_cuda *gc, struct rt_cubin *cubin, const int *args,
                                 struct rt_cuda_step *out, struct err *e) {
    struct rt_cuda_launch *launches = ARENA_NEW(a, struct rt_cuda_launch, gc->n_launches);
    if (launches == NULL) return err_nomem(e);
    for (int i = 0; i < gc->n_launches; i++)
        TRY(make_launch(a, gk, &gc->launches[i], &launches[i], e));
    *out = (struct rt_cuda_step){.name = gk->name,
                                 .cubin = cubin,
                                 .n_args = gk->n_args,
                                 .args = args,
                                 .n_checks = gk->n_checks,
                                 .zeroed = gc->zeroed,
                                 .n_launches = gc->n_launches,
                                 .launches = launches};
    return PROEM_OK;
}

static enum proem_status make_step(struct proem_program *p, int unit, int index,
                                   struct rt_cuda_step *steps, struct err *e) {
    const struct gen_kernel *gk = &p->units[unit].kernels[index];
    const struct gen_cuda *gc = &p->units[unit].cuda[index];
    int id = gk->kernel->id;
    int *args = ARENA_NEW(&p->arena, int, gk->n_args);
    if (args == NULL) return err_nomem(e);
    for (int i = 0; i < gk->n_args; i++) {
        args[i] = p->buffer_of[gk->args[i]];
        if (args[i] < 0)
            return err_set(e, PROEM_INTERNAL, "kernel '%s' reads '%s', which nobody stores",
                           gk->name, graph_value(p->low.graph, gk->args[i])->name);
    }
    p->steps[id] = (struct program_step){.gen = gk, .cuda = gc};
    return cuda_make_step(&p->arena, gk, gc, p->cubins[unit], args, &steps[id], e);
}

enum proem_status cuda_link(struct proem_program *p, const struct rt_buffer *buffers,
                            struct err *e) {
    struct rt_cuda *cuda;
    size_t n = p->plan.kernels.n, made = 0;
    p->steps = ARENA_NEW(&p->arena, struct program_step, n);
    struct rt_cuda_step *steps = ARENA_NEW(&p->arena, struct rt_cuda_step, n);
    if (p->steps == NULL || steps == NULL) return err_nomem(e);
    for (int u = 0; u < p->n_units; u++) {
        if (p->units[u].cuda == NULL)
            return err_set(e, PROEM_INTERNAL, "a unit says nothing of its launches");
        for (int i = 0; i < p->units[u].n_kernels; i++, made++)
            TRY(make_step(p, u, i, steps, e));
    }
    if (made != n) return err_set(e, PROEM_INTERNAL, "%zu of %zu kernels were generated", made, n);
    struct rt_cuda_desc d = {.n_buffers = p->n_buffers,
                             .n_steps = (int)n,
                             .n_symbols = sx_symbols(p->low.graph->sx),
                             .n_cubins = p->n_units,
                             .buffers = buffers,
                             .steps = steps,
                             .cubins = p->cubins,
                             .poison = p->opt.poison};
    TRY(context_cuda(p->c, &cuda, e));
    return rt_cuda_program_new(cuda, &d, &p->cuda, e);
}
