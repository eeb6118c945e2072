/* SPDX-License-Identifier: MIT
 * gen_cuda: units of CUDA C from a plan. A unit is the prelude, with the mathematics that its
 * kernels' operators need, and for each kernel its argument block, its hooks and its template's
 * text. How a kernel is launched (launch.c) is data beside it.
 *
 * Kernels that differ in their buffers alone have one text, in one unit, under one name; each is
 * launched with its own arguments.
 */
#include "gen/c/unit.h"

#include <string.h>

#include "gen/c/hooks.h"
#include "gen/cuda/launch.h"
#include "gen/cuda/product.h"

/* ---- prelude -----------------------------------------------------------------------------------
 */

/* Operators in use by the dtype of lanes that they are applied to. */
struct families {
    struct fn_pool *fns;
    bool used[OP_COUNT][DT_COUNT];
};

static void family_visit(void *user, fn_id f) {
    struct families *u = user;
    const struct fn_node *n = fn_get(u->fns, f);
    if (n->kind == FN_OP) u->used[n->op][dtype_lane(n->compute)] = true;
}

static void add_file(const char *name, struct str *out) {
    str_add(out, "\n");
    str_add(out, unit_embedded(name, strlen(name)));
}

/* Does the family's function come from a file that CPUs use as well? The others are written for
 * devices, over any number of lanes (basic.h). */
static bool is_shared_file(const char *file, size_t n) {
    static const char own[] =
        "vec.h convert.h memory.h math_basic.h reduce.h math_int.h math_powi.h";
    return !unit_lists(own, file, n);
}

/* The family behind an operator of one lane type, if it is shared; else NULL. */
static const char *shared_family(enum op op, enum dtype lane) {
    const char *c = op_info(op)->c;
    if (c[0] != '@' || (lane != DT_F32 && lane != DT_F64)) return NULL;
    const char *files = unit_prelude_files(c + 1, strlen(c + 1));
    for (const char *p = files; *p != '\0';) {
        size_t n = strcspn(p, " ");
        if (is_shared_file(p, n)) return c + 1;
        p += n + (p[n] == ' ');
    }
    return NULL;
}

static bool file_needed(const struct families *u, const char *name, size_t n) {
    for (int op = OP_NONE + 1; op < OP_EW_END; op++) {
        for (int d = 0; d < DT_COUNT; d++) {
            if (!u->used[op][d]) continue;
            const char *family = shared_family((enum op)op, (enum dtype)d);
            if (family != NULL && unit_lists(unit_prelude_files(family, strlen(family)), name, n))
                return true;
        }
    }
    return false;
}

/* More lanes for the functions in use. */
static void write_lifts(const struct families *u, struct str *out) {
    for (int op = OP_NONE + 1; op < OP_EW_END; op++) {
        for (int d = 0; d < DT_COUNT; d++) {
            if (!u->used[op][d]) continue;
            const char *family = shared_family((enum op)op, (enum dtype)d);
            if (family == NULL) continue;
            const struct op_info *info = op_info((enum op)op);
            str_printf(out, "PK_LIFT%s(pk_%s_%s)\n",
                       info->arity == 2                    ? "2"
                       : (info->flags & OPF_HASPARAM) != 0 ? "1P"
                                                           : "1",
                       family, d == DT_F64 ? "vf64" : "vf32");
        }
    }
}

static void write_prelude(const struct families *u, struct str *out) {
    str_add(out, unit_embedded("cuda_abi.h", strlen("cuda_abi.h")));
    add_file("lanes.h", out);
    add_file("numbers.h", out);
    add_file("access.h", out);
    add_file("packed.h", out);
    add_file("basic.h", out);
    add_file("shared_open.h", out);
    const char *p = unit_prelude_files("all", 3);
    bool any = false;
    while (*p != '\0') {
        size_t n = strcspn(p, " ");
        if (is_shared_file(p, n) && file_needed(u, p, n)) {
            any = true;
            str_add(out, "\n");
            str_add(out, unit_embedded(p, n));
        }
        p += n + (p[n] == ' ');
    }
    if (any) {
        add_file("double.h", out);
        add_file("special.h", out);
    }
    add_file("shared_close.h", out);
    write_lifts(u, out);
}

/* ---- kernels -----------------------------------------------------------------------------------
 */

struct writer {
    struct plan *p;
    const struct device_desc *device;
    struct arena *arena;
    struct err *err;
};

static void write_args(const struct writer *w, const struct gen_kernel *gk, struct str *out) {
    int symbols = sx_symbols(w->p->low.graph->sx);
    str_printf(out,
               "#define PK_KERNEL " UNIT_TAG "\nstruct " UNIT_TAG
               "_args {\n    void *buf[%d];\n    pk_i64 sym[%d];\n    void *scratch;\n    void "
               "*fault;\n};\n#define pk_args " UNIT_TAG "_args\n\n",
               gk->n_args > 0 ? gk->n_args : 1, symbols > 0 ? symbols : 1);
}

static enum proem_status write_kernel(struct writer *w, struct kernel *k, struct gen_kernel *gk,
                                      struct gen_cuda *cuda, struct str *out) {
    const struct graph *g = w->p->low.graph;
    int *slot = ARENA_NEW(w->arena, int, g->values.n);
    gk->kernel = k;
    gk->name = k->name;
    if (slot == NULL || gk->name == NULL) return err_nomem(w->err);
    TRY(unit_args(w->p, k, gk, slot, w->err));
    gk->n_checks = (int)k->checks.n;
    gk->checks = k->checks.at;
    write_args(w, gk, out);
    struct emit e = {.plan = w->p,
                     .fns = w->p->fns,
                     .sp = g->sx,
                     .g = g,
                     .arena = w->arena,
                     .k = k,
                     .prefix = UNIT_TAG,
                     .slot = slot,
                     .out = out,
                     .cuda = true,
                     .W = 1};
    e.q = sx_var(g->sx, "q", 0);
    e.product = ARENA_NEW(w->arena, struct product, 1);
    if (e.product == NULL || !emit_prepare(&e)) return err_nomem(w->err);
    e.product->device = w->device;
    product_plan(&e, k);
    if (gk->n_checks > 0) TRY(hooks_checks(&e, w->err));
    const char *file = "";
    TRY(hooks_write(&e, false, &file, w->err));
    unit_template(file, out);
    str_add(out, "#undef pk_args\n");
    TRY(cuda_launches(&e, cuda, w->err));
    return out->failed ? err_nomem(w->err) : PROEM_OK;
}

/* ---- units -------------------------------------------------------------------------------------
 */

struct spread {
    kernel_texts texts;
    struct gen_kernel *kernels;
    struct gen_cuda *cuda;
    int *text_of;
    int n_units;
};

static enum proem_status write_texts(struct writer *w, struct spread *s, struct arena *a) {
    for (size_t i = 0; i < w->p->kernels.n; i++) {
        struct str text;
        str_init(&text, a->alloc);
        enum proem_status st =
            write_kernel(w, w->p->kernels.at[i], &s->kernels[i], &s->cuda[i], &text);
        if (st == PROEM_OK) {
            s->text_of[i] = unit_intern(a, &s->texts, &text, true);
            if (s->text_of[i] < 0) st = err_nomem(w->err);
        }
        str_free(&text);
        TRY(st);
    }
    return PROEM_OK;
}

/* A launch's entry is named by its role until the kernel's name is known. */
static enum proem_status name_launches(struct writer *w, struct gen_cuda *c, int id) {
    struct gen_launch *l = ARENA_NEW(w->arena, struct gen_launch, c->n_launches + 1);
    if (l == NULL) return err_nomem(w->err);
    for (int i = 0; i < c->n_launches; i++) {
        l[i] = c->launches[i];
        l[i].entry = arena_printf(w->arena, "k%d_%s", id, c->launches[i].entry);
        if (l[i].entry == NULL) return err_nomem(w->err);
    }
    c->launches = l;
    return PROEM_OK;
}

static enum proem_status write_text(struct writer *w, const struct spread *s, int text,
                                    struct gen_unit *unit) {
    const struct gen_kernel *first = NULL;
    str_add(&unit->text, "\n/* ----");
    for (size_t i = 0; i < w->p->kernels.n; i++) {
        if (s->text_of[i] != text) continue;
        str_printf(&unit->text, "%s %s", first != NULL ? "," : "", s->kernels[i].name);
        if (first == NULL) first = &s->kernels[i];
        unit->kernels[unit->n_kernels] = s->kernels[i];
        unit->cuda[unit->n_kernels] = s->cuda[i];
        TRY(name_launches(w, &unit->cuda[unit->n_kernels++], first->kernel->id));
    }
    str_add(&unit->text, " ---- */\n\n");
    const char *tag = first != NULL ? arena_printf(w->arena, "k%d", first->kernel->id) : NULL;
    if (tag == NULL) return err_nomem(w->err);
    unit_expand(s->texts.at[text].text, tag, first->name, &unit->text);
    return PROEM_OK;
}

static enum proem_status write_unit(struct writer *w, const struct spread *s, int u,
                                    struct gen_unit *unit) {
    struct plan *p = w->p;
    unit->kernels = ARENA_NEW(w->arena, struct gen_kernel, p->kernels.n + 1);
    unit->cuda = ARENA_NEW(w->arena, struct gen_cuda, p->kernels.n + 1);
    struct families *fam = ARENA_NEW(w->arena, struct families, 1);
    if (unit->kernels == NULL || unit->cuda == NULL || fam == NULL) return err_nomem(w->err);
    fam->fns = p->fns;
    for (size_t i = 0; i < p->kernels.n; i++) {
        if (s->text_of[i] % s->n_units == u) unit_walk(p, p->kernels.at[i], family_visit, fam);
    }
    write_prelude(fam, &unit->text);
    for (size_t t = (size_t)u; t < s->texts.n; t += (size_t)s->n_units)
        TRY(write_text(w, s, (int)t, unit));
    return unit->text.failed ? err_nomem(w->err) : PROEM_OK;
}

static enum proem_status write_units(struct writer *w, struct spread *s, struct arena *a,
                                     int n_units, struct gen_unit **out, int *n_out) {
    size_t total = w->p->kernels.n;
    s->kernels = ARENA_NEW(w->arena, struct gen_kernel, total + 1);
    s->cuda = ARENA_NEW(w->arena, struct gen_cuda, total + 1);
    s->text_of = ARENA_NEW(a, int, total + 1);
    if (s->kernels == NULL || s->cuda == NULL || s->text_of == NULL) return err_nomem(w->err);
    TRY(write_texts(w, s, a));
    s->n_units = n_units < 1 ? 1 : n_units;
    if (s->n_units > (int)s->texts.n) s->n_units = (int)s->texts.n;
    struct gen_unit *units = ARENA_NEW(w->arena, struct gen_unit, s->n_units + 1);
    if (units == NULL) return err_nomem(w->err);
    enum proem_status status = PROEM_OK;
    for (int u = 0; u < s->n_units; u++) {
        str_init(&units[u].text, w->arena->alloc);
        if (status == PROEM_OK) status = write_unit(w, s, u, &units[u]);
    }
    if (status == PROEM_OK && !arena_ok(w->arena)) status = err_nomem(w->err);
    for (int u = 0; u < s->n_units && status != PROEM_OK; u++)
        str_free(&units[u].text);
    *out = units;
    *n_out = status == PROEM_OK ? s->n_units : 0;
    return status;
}

enum proem_status gen_cuda(struct plan *p, const struct device_desc *device, int n_units,
                           struct gen_unit **out, int *n_out, struct err *e) {
    struct writer w = {p, device, p->source->arena, e};
    struct spread s = {.n_units = 1};
    struct arena a;
    arena_init(&a, w.arena->alloc);
    struct gen_unit *units = NULL;
    int n = 0;
    enum proem_status status = write_units(&w, &s, &a, n_units, &units, &n);
    arena_free(&a);
    TRY(status);
    *out = units;
    *n_out = n;
    return PROEM_OK;
}

/* ---- one kernel ------------------------------------------------------------------------------ */

static enum proem_status write_alone(struct writer *w, struct kernel *k, struct gen_unit *out,
                                     struct str *text) {
    struct families *fam = ARENA_NEW(w->arena, struct families, 1);
    if (fam == NULL) return err_nomem(w->err);
    fam->fns = w->p->fns;
    TRY(write_kernel(w, k, out->kernels, out->cuda, text));
    unit_walk(w->p, k, family_visit, fam);
    write_prelude(fam, &out->text);
    TRY(name_launches(w, out->cuda, 0));
    unit_expand(str_text(text), "k0", "kernel", &out->text);
    return out->text.failed || !arena_ok(w->arena) ? err_nomem(w->err) : PROEM_OK;
}

enum proem_status gen_cuda_kernel(struct plan *p, struct kernel *k,
                                  const struct device_desc *device, struct gen_unit *out,
                                  struct err *e) {
    struct writer w = {p, device, p->source->arena, e};
    struct str text;
    *out = (struct gen_unit){.n_kernels = 1,
                             .kernels = ARENA_NEW(w.arena, struct gen_kernel, 1),
                             .cuda = ARENA_NEW(w.arena, struct gen_cuda, 1)};
    str_init(&text, w.arena->alloc);
    str_init(&out->text, w.arena->alloc);
    enum proem_status s =
        out->kernels != NULL && out->cuda != NULL ? write_alone(&w, k, out, &text) : err_nomem(e);
    str_free(&text);
    if (s != PROEM_OK) str_free(&out->text);
    return s;
}
