/* SPDX-License-Identifier: MIT
 * gen_c: units of C from a plan. A unit is the kernel ABI, the prelude files that its kernels'
 * operators need, and for each kernel its hooks and its template's text; then the table of kernels.
 */
#include "gen/gen.h"

#include <string.h>

#include "gen/c/embedded.h"
#include "gen/c/hooks.h"

static const char *embedded_text(const char *name, size_t n) {
    for (const struct embedded *f = proem_embedded; f->name != NULL; f++) {
        if (strlen(f->name) == n && memcmp(f->name, name, n) == 0) return f->text;
    }
    return "";
}

/* ---- prelude -----------------------------------------------------------------------------------
 */

static const struct {
    const char *family, *files;
} PRELUDE_TABLE[] = {
#define PRELUDE(family, files) {family, files},
#include "gen/c/prelude/sections.def"
#undef PRELUDE
};

static const char *prelude_files(const char *family, size_t n) {
    for (size_t i = 0; i < COUNT_OF(PRELUDE_TABLE); i++) {
        const char *f = PRELUDE_TABLE[i].family;
        if (strlen(f) == n && memcmp(f, family, n) == 0) return PRELUDE_TABLE[i].files;
    }
    return "";
}

struct families {
    struct fn_pool *fns;
    bool used[OP_COUNT];
};

static void family_visit(void *user, fn_id f) {
    struct families *u = user;
    const struct fn_node *n = fn_get(u->fns, f);
    if (n->kind == FN_OP) u->used[n->op] = true;
}

/* Is the word `name` of n characters in a list of words? */
static bool lists(const char *files, const char *name, size_t n) {
    for (const char *p = files; *p != '\0';) {
        size_t len = strcspn(p, " ");
        if (len == n && memcmp(p, name, n) == 0) return true;
        p += len + (p[len] == ' ');
    }
    return false;
}

/* Is file `name` needed by an operator in use? Reductions compare and test for NaN. */
static bool file_needed(const struct families *u, const char *name, size_t n) {
    if (lists(prelude_files("", 0), name, n) || lists(prelude_files("max", 3), name, n))
        return true;
    for (int op = OP_NONE + 1; op < OP_EW_END; op++) {
        if (!u->used[op]) continue;
        const char *c = op_info((enum op)op)->c;
        if (c[0] == '@' && lists(prelude_files(c + 1, strlen(c + 1)), name, n)) return true;
    }
    return false;
}

static void write_prelude(const struct families *u, struct str *out) {
    str_add(out, embedded_text("kernel_abi.h", strlen("kernel_abi.h")));
    const char *p = prelude_files("all", 3);
    while (*p != '\0') {
        size_t n = strcspn(p, " ");
        if (file_needed(u, p, n)) {
            str_add(out, "\n");
            str_add(out, embedded_text(p, n));
        }
        p += n + (p[n] == ' ');
    }
    str_add(out, "\n");
    str_add(out, embedded_text("index.h", strlen("index.h")));
}

/* ---- kernels -----------------------------------------------------------------------------------
 */

static void walk_kernel(struct plan *p, const struct kernel *k, fn_visit visit, void *user) {
    const fn_id own[] = {k->a, k->b[0], k->b[1], k->b[2], k->b[3], k->base, k->index, k->src};
    for (size_t i = 0; i < COUNT_OF(own); i++)
        fn_walk(p->fns, own[i], visit, user);
    for (int i = 0; i < k->n_pass; i++)
        fn_walk(p->fns, k->pass[i].f, visit, user);
    for (size_t i = 0; i < k->stores.n; i++)
        fn_walk(p->fns, k->stores.at[i].f, visit, user);
    for (size_t i = 0; i < k->checks.n; i++) {
        fn_walk(p->fns, p->checks.at[k->checks.at[i]].f, visit, user);
    }
}

struct leaves {
    struct plan *p;
    bool *read;
    bool all_const;
    bool wide; /* every leaf is f32 or f64 */
};

static void leaf_visit(void *user, fn_id f) {
    struct leaves *l = user;
    const struct fn_node *n = fn_get(l->p->fns, f);
    if (n->kind != FN_LOAD) return;
    if (l->read != NULL) l->read[n->tensor] = true;
    bool is_const = false;
    const struct graph *g = l->p->low.graph;
    for (size_t i = 0; i < g->params.n; i++) {
        is_const = is_const || (g->params.at[i].value == n->tensor && g->params.at[i].is_const);
    }
    l->all_const = l->all_const && is_const;
    l->wide = l->wide && (n->dtype == DT_F32 || n->dtype == DT_F64);
}

/* Packing once pays where the packed panel is no larger than the weights as they lie. */
static bool packs_once(struct plan *p, fn_id f) {
    struct leaves l = {.p = p, .all_const = true, .wide = true};
    fn_walk(p->fns, f, leaf_visit, &l);
    return l.all_const && l.wide && fn_get(p->fns, f)->kind != FN_CONST;
}

static enum proem_status kernel_args(struct plan *p, struct kernel *k, struct gen_kernel *gk,
                                     int *slot, struct err *e) {
    const struct graph *g = p->low.graph;
    struct leaves l = {.p = p, .read = ARENA_NEW(g->arena, bool, g->values.n)};
    value_id *args = ARENA_NEW(g->arena, value_id, g->values.n);
    if (l.read == NULL || args == NULL) return err_nomem(e);
    walk_kernel(p, k, leaf_visit, &l);
    for (value_id v = 1; v < g->values.n; v++) {
        slot[v] = -1;
        if (!l.read[v]) continue;
        slot[v] = gk->n_args;
        args[gk->n_args++] = v;
    }
    for (size_t i = 0; i < k->stores.n; i++) {
        value_id v = k->stores.at[i].value;
        if (slot[v] >= 0) continue;
        slot[v] = gk->n_args;
        args[gk->n_args++] = v;
    }
    gk->args = args;
    return PROEM_OK;
}

/* Kernels whose results share bytes between tasks run as one task: sub-byte elements of rows that
 * do not start on a byte. */
static bool shares_bytes(const struct plan *p, const struct kernel *k) {
    for (size_t i = 0; i < k->stores.n; i++) {
        enum dtype d = graph_value(p->low.graph, k->stores.at[i].value)->dtype;
        if (dtype_is_subbyte(d)) return true;
    }
    return false;
}

struct writer {
    struct plan *p;
    const char *tag; /* in front of the names of the plan's kernels */
    const struct device_desc *device;
    struct arena *arena;
    struct err *err;
};

/* Hooks and template under a prefix; checks are those of the kernel's own prefix. */
static enum proem_status write_form(struct writer *w, struct emit *e, const struct gen_kernel *gk,
                                    const char *prefix, const char *checks, bool few_rows) {
    static const char *const short_name[] = {"PW", "MM", "RD", "SC", "SN", "ST"};
    struct str *out = e->out;
    e->prefix = prefix;
    str_printf(out, "#define PK_KERNEL %s\n", prefix);
    if (gk->n_checks > 0)
        str_printf(out, "#define PK_CHECK %s_check\n", checks);
    else
        str_add(out, "#define PK_CHECK 0\n");
    str_printf(out, "#define %s_NAME \"%s\"\n", short_name[e->k->kind], gk->name);
    const char *file = "";
    TRY(hooks_write(e, few_rows, &file, w->err));
    str_add(out, embedded_text(file, strlen(file)));
    return PROEM_OK;
}

static enum proem_status write_kernel(struct writer *w, struct kernel *k, struct gen_kernel *gk,
                                      struct str *out) {
    const struct graph *g = w->p->low.graph;
    int *slot = ARENA_NEW(w->arena, int, g->values.n);
    const char *prefix = arena_printf(w->arena, "%sk%d", w->tag, k->id);
    gk->kernel = k;
    gk->name = k->name;
    if (slot == NULL || prefix == NULL || gk->name == NULL) return err_nomem(w->err);
    TRY(kernel_args(w->p, k, gk, slot, w->err));
    gk->n_checks = (int)k->checks.n;
    gk->checks = k->checks.at;
    bool can_pack = k->kind == KERNEL_MATMUL && !k->tile.rows && !shares_bytes(w->p, k);
    k->prepack[0] = can_pack && packs_once(w->p, k->a);
    k->prepack[1] = can_pack && packs_once(w->p, k->b[0]);
    gk->n_operands = k->prepack[0] + k->prepack[1];
    struct emit e = {.plan = w->p,
                     .fns = w->p->fns,
                     .sp = g->sx,
                     .g = g,
                     .arena = w->arena,
                     .k = k,
                     .prefix = prefix,
                     .slot = slot,
                     .out = out};
    e.W = tile_lanes(w->device);
    e.q = sx_var(g->sx, "q", 0);
    str_printf(out, "\n/* ---- %s ---- */\n\n", gk->name);
    if (gk->n_checks > 0) TRY(hooks_checks(&e, w->err));
    const struct tile *t = &k->tile;
    bool matmul = k->kind == KERNEL_MATMUL;
    if (!matmul || t->packed) TRY(write_form(w, &e, gk, prefix, prefix, false));
    if (matmul && t->rows) {
        const char *few = t->packed ? arena_printf(w->arena, "%sr", prefix) : prefix;
        if (few == NULL) return err_nomem(w->err);
        TRY(write_form(w, &e, gk, few, prefix, true));
    }
    return out->failed ? err_nomem(w->err) : PROEM_OK;
}

/* Functions of a kernel that hands its work to others: NAME_shared and so on. `to` is the kernel
 * that takes it, an expression over g. */
static void write_forward(const char *name, const char *to, bool serial, struct str *out) {
    static const char *const bytes[] = {"shared", "local"};
    for (int i = 0; i < 2; i++) {
        str_printf(out,
                   "static pk_i64 %s_%s(const struct pk_args *g) { return (%s)->%s_bytes(g); }\n",
                   name, bytes[i], to, bytes[i]);
    }
    str_printf(out,
               "static pk_i64 %s_tasks(const struct pk_args *g, int phase) { return "
               "(%s)->tasks(g, phase)%s; }\n"
               "static void %s_run(const struct pk_args *g, int phase, pk_i64 task)\n{\n",
               name, to, serial ? " > 0" : "", name);
    if (serial)
        str_printf(
            out,
            "    pk_i64 n = (%s)->tasks(g, phase);\n    for (task = 0; task < n; task++)\n    ",
            to);
    str_printf(out, "    (%s)->run(g, phase, task);\n}\n", to);
}

static void write_wrapper(const struct gen_kernel *gk, const char *prefix, const char *name,
                          const char *to, bool serial, struct str *out) {
    write_forward(name, to, serial, out);
    str_printf(out,
               "static const struct pk_kernel %s = {.name = \"%s\", .phases = %d, .shared_bytes = "
               "%s_shared, .local_bytes = %s_local, .tasks = %s_tasks, .run = %s_run",
               name, gk->name, gk->kernel->kind == KERNEL_MATMUL ? 2 : 1, name, name, name, name);
    if (gk->n_checks > 0) str_printf(out, ", .check = %s_check", prefix);
    str_add(out, "};\n");
}

/* The kernel that the unit's table points to: chosen by the number of rows where there are two
 * forms, one task where tasks would share bytes. */
static void write_entry(const struct writer *w, struct gen_kernel *gk, struct str *out) {
    const struct kernel *k = gk->kernel;
    const char *p = arena_printf(w->arena, "%sk%d", w->tag, k->id);
    const char *entry = arena_printf(w->arena, "%s_kernel", p != NULL ? p : "");
    if (p != NULL && k->kind == KERNEL_MATMUL && k->tile.packed && k->tile.rows) {
        const char *to =
            arena_printf(w->arena, "%s_get_shape(g).M <= %d ? &%sr_kernel : &%s_kernel", p,
                         k->tile.rows_max, p, p);
        entry = arena_printf(w->arena, "%s_either", p);
        if (to != NULL && entry != NULL) write_wrapper(gk, p, entry, to, false, out);
    }
    if (p != NULL && entry != NULL && shares_bytes(w->p, k)) {
        const char *to = arena_printf(w->arena, "&%s", entry);
        entry = arena_printf(w->arena, "%s_serial", p);
        if (to != NULL && entry != NULL) write_wrapper(gk, p, entry, to, true, out);
    }
    gk->symbol = entry != NULL ? entry : "";
}

static void table_open(struct str *out) {
    str_add(out, "\nstatic const struct pk_kernel *const pk_kernels[] = {\n");
}

static void table_close(int n, struct str *out) {
    str_printf(out,
               "};\n\n__attribute__((visibility(\"default\"))) const struct pk_unit proem_unit = "
               "{PK_ABI_VERSION, %d, pk_kernels};\n",
               n);
}

static void write_table(const struct writer *w, const struct gen_unit *u, struct str *out) {
    for (int i = 0; i < u->n_kernels; i++)
        write_entry(w, &u->kernels[i], out);
    table_open(out);
    for (int i = 0; i < u->n_kernels; i++)
        str_printf(out, "    &%s,\n", u->kernels[i].symbol);
    table_close(u->n_kernels, out);
}

/* Every n-th kernel from number u on. */
static enum proem_status write_unit(struct writer *w, int u, int n, struct gen_unit *unit) {
    struct plan *p = w->p;
    int total = (int)p->kernels.n;
    unit->kernels = ARENA_NEW(w->arena, struct gen_kernel, total);
    if (unit->kernels == NULL) return err_nomem(w->err);
    struct families fam = {.fns = p->fns};
    for (int i = u; i < total; i += n)
        walk_kernel(p, p->kernels.at[i], family_visit, &fam);
    write_prelude(&fam, &unit->text);
    for (int i = u; i < total; i += n)
        TRY(write_kernel(w, p->kernels.at[i], &unit->kernels[unit->n_kernels++], &unit->text));
    write_table(w, unit, &unit->text);
    return unit->text.failed ? err_nomem(w->err) : PROEM_OK;
}

enum proem_status gen_c(struct plan *p, const struct device_desc *device, int n_units,
                        struct gen_unit **out, int *n_out, struct err *e) {
    struct arena *arena = p->source->arena;
    struct writer w = {p, "", device, arena, e};
    int total = (int)p->kernels.n;
    int n = n_units < 1 ? 1 : n_units > total ? total : n_units;
    struct gen_unit *units = ARENA_NEW(arena, struct gen_unit, n + 1);
    if (units == NULL) return err_nomem(e);
    for (int u = 0; u < n; u++)
        str_init(&units[u].text, arena->alloc);
    enum proem_status s = PROEM_OK;
    for (int u = 0; u < n && s == PROEM_OK; u++)
        s = write_unit(&w, u, n, &units[u]);
    if (s == PROEM_OK && !arena_ok(arena)) s = err_nomem(e);
    for (int u = 0; u < n && s != PROEM_OK; u++)
        str_free(&units[u].text);
    if (s != PROEM_OK) return s;
    *out = units;
    *n_out = n;
    return PROEM_OK;
}

/* ---- several plans in one unit ------------------------------------------------------------------
 */

/* Stands for a kernel's number in the unit while its text is compared with the others. */
#define JOINT_TAG "PKJOINT_"

/* One distinct kernel: its text with JOINT_TAG in it. */
struct joint_text {
    char *text;
    size_t n;
    uint64_t hash;
};
typedef VEC(struct joint_text) joint_texts;

static uint64_t hash_bytes(const char *p, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)p[i]) * 0x100000001b3u; /* FNV-1a */
    return h;
}

/* The number of the text in the list, added if it is new; -1: no memory. */
static int joint_intern(struct arena *a, joint_texts *list, const struct str *s) {
    struct joint_text t = {.n = s->n, .hash = hash_bytes(str_text(s), s->n)};
    for (size_t i = 0; i < list->n; i++) {
        const struct joint_text *o = &list->at[i];
        if (o->hash == t.hash && o->n == t.n && memcmp(o->text, str_text(s), t.n) == 0)
            return (int)i;
    }
    t.text = arena_strndup(a, str_text(s), s->n);
    return t.text != NULL && VEC_PUSH(a, list, t) ? (int)list->n - 1 : -1;
}

static void joint_write(const struct joint_text *t, int number, struct str *out) {
    const char *p = t->text, *next;
    while ((next = strstr(p, JOINT_TAG)) != NULL) {
        str_addn(out, p, (size_t)(next - p));
        str_printf(out, "p%d_", number);
        p = next + strlen(JOINT_TAG);
    }
    str_add(out, p);
}

/* Give each kernel of a plan its place in the unit's table: position[] by kernel. */
static enum proem_status joint_kernels(struct writer *w, struct gen_joint *j, joint_texts *list,
                                       struct arena *a) {
    struct plan *p = j->plan;
    j->kernels = ARENA_NEW(w->arena, struct gen_kernel, p->kernels.n + 1);
    j->position = ARENA_NEW(w->arena, int, p->kernels.n + 1);
    if (j->kernels == NULL || j->position == NULL) return err_nomem(w->err);
    for (size_t i = 0; i < p->kernels.n; i++) {
        struct str text;
        str_init(&text, a->alloc);
        enum proem_status s = write_kernel(w, p->kernels.at[i], &j->kernels[i], &text);
        if (s == PROEM_OK) {
            write_entry(w, &j->kernels[i], &text);
            str_printf(&text, "#define " JOINT_TAG "entry &%s,\n", j->kernels[i].symbol);
            j->position[i] = text.failed ? -1 : joint_intern(a, list, &text);
            if (j->position[i] < 0) s = err_nomem(w->err);
        }
        str_free(&text);
        TRY(s);
    }
    return PROEM_OK;
}

enum proem_status gen_c_joint(struct gen_joint *plans, int n, const struct device_desc *device,
                              struct str *out, struct err *e) {
    struct families fam = {0};
    for (int i = 0; i < n; i++) {
        fam.fns = plans[i].plan->fns;
        for (size_t k = 0; k < plans[i].plan->kernels.n; k++)
            walk_kernel(plans[i].plan, plans[i].plan->kernels.at[k], family_visit, &fam);
    }
    struct arena a;
    arena_init(&a, out->alloc);
    joint_texts list = {0};
    for (int i = 0; i < n; i++) {
        struct gen_joint *j = &plans[i];
        struct writer w = {j->plan, JOINT_TAG, device, j->plan->source->arena, &j->err};
        j->status = joint_kernels(&w, j, &list, &a);
    }
    write_prelude(&fam, out);
    for (size_t i = 0; i < list.n; i++)
        joint_write(&list.at[i], (int)i, out);
    table_open(out);
    for (size_t i = 0; i < list.n; i++)
        str_printf(out, "    p%zu_entry\n", i);
    str_add(out, list.n == 0 ? "    0\n" : "");
    table_close((int)list.n, out);
    arena_free(&a);
    return out->failed ? err_nomem(e) : PROEM_OK;
}
