/* SPDX-License-Identifier: MIT
 * gen_c: units of C from a plan. A unit is the kernel ABI, the prelude files that its kernels'
 * operators need, and for each kernel its hooks and its template's text; then the table of kernels.
 *
 * Kernels that differ in their buffers alone (the layers of a model, its projections) have one
 * text and are compiled once: texts are written with placeholders for the kernel's names, compared,
 * and expanded into a unit. Texts are spread over the units longest first, each into the lightest
 * unit so far (Graham, "Bounds on multiprocessing timing anomalies", 1969); compile time follows
 * length closely enough. Small texts share a unit.
 */
#include "gen/gen.h"

#include <string.h>

#include "gen/c/embedded.h"
#include "gen/c/hooks.h"
#include "gen/c/packs.h"
#include "gen/c/unit.h"

const char *unit_embedded(const char *name, size_t n) {
    for (const struct embedded *f = proem_embedded; f->name != NULL; f++) {
        if (strlen(f->name) == n && memcmp(f->name, name, n) == 0) return f->text;
    }
    return "";
}

/* A file's text; one that it includes is written in its place. */
static void write_file(const char *name, size_t n_name, struct str *out) {
    static const char include[] = "#include \"";
    const char *p = unit_embedded(name, n_name), *next;
    while ((next = strstr(p, include)) != NULL) {
        str_addn(out, p, (size_t)(next - p));
        next += strlen(include);
        size_t n = strcspn(next, "\"");
        write_file(next, n, out);
        p = next + n + (next[n] == '"');
    }
    str_add(out, p);
}

void unit_template(const char *file, struct str *out) {
    write_file(file, strlen(file), out);
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

const char *unit_prelude_files(const char *family, size_t n) {
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
bool unit_lists(const char *files, const char *name, size_t n) {
    for (const char *p = files; *p != '\0';) {
        size_t len = strcspn(p, " ");
        if (len == n && memcmp(p, name, n) == 0) return true;
        p += len + (p[len] == ' ');
    }
    return false;
}

/* Is file `name` needed by an operator in use? Reductions compare and test for NaN. */
static bool file_needed(const struct families *u, const char *name, size_t n) {
    if (unit_lists(unit_prelude_files("", 0), name, n) ||
        unit_lists(unit_prelude_files("max", 3), name, n))
        return true;
    for (int op = OP_NONE + 1; op < OP_EW_END; op++) {
        if (!u->used[op]) continue;
        const char *c = op_info((enum op)op)->c;
        if (c[0] == '@' && unit_lists(unit_prelude_files(c + 1, strlen(c + 1)), name, n))
            return true;
    }
    return false;
}

static void write_prelude(const struct families *u, struct str *out) {
    str_add(out, unit_embedded("kernel_abi.h", strlen("kernel_abi.h")));
    const char *p = unit_prelude_files("all", 3);
    while (*p != '\0') {
        size_t n = strcspn(p, " ");
        if (file_needed(u, p, n)) {
            str_add(out, "\n");
            str_add(out, unit_embedded(p, n));
        }
        p += n + (p[n] == ' ');
    }
    str_add(out, "\n");
    str_add(out, unit_embedded("index.h", strlen("index.h")));
}

/* ---- kernels -----------------------------------------------------------------------------------
 */

void unit_walk(struct plan *p, const struct kernel *k, fn_visit visit, void *user) {
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

/* Packing once pays where the packed panel is hardly larger than the weights as they lie. */
static bool packs_once(struct plan *p, const struct kernel *k, fn_id f) {
    struct leaves l = {.p = p, .all_const = true, .wide = true};
    fn_walk(p->fns, f, leaf_visit, &l);
    bool worth = l.wide || k->tile.dots > 0;
    return l.all_const && worth && fn_get(p->fns, f)->kind != FN_CONST;
}

enum proem_status unit_args(struct plan *p, struct kernel *k, struct gen_kernel *gk, int *slot,
                            struct err *e) {
    const struct graph *g = p->low.graph;
    struct leaves l = {.p = p, .read = ARENA_NEW(g->arena, bool, g->values.n)};
    value_id *args = ARENA_NEW(g->arena, value_id, g->values.n);
    if (l.read == NULL || args == NULL) return err_nomem(e);
    unit_walk(p, k, leaf_visit, &l);
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

/* What a kernel's text calls it until expand() puts a name there: in C's names, and in messages. */
#define TAG  UNIT_TAG
#define NAME UNIT_NAME

struct writer {
    struct plan *p;
    const struct device_desc *device;
    struct arena *arena;
    struct err *err;
};

static bool load_leaves(struct plan *p, fn_id f, bool *read) {
    struct leaves l = {.p = p, .read = read};
    fn_walk(p->fns, f, leaf_visit, &l);
    return true;
}

/* The constants behind one side of a product, as an operand that is packed once. */
static bool pack_side(struct writer *w, fn_id f, struct gen_operand *out) {
    size_t n = w->p->low.graph->values.n;
    bool *read = ARENA_NEW(w->arena, bool, n);
    value_id *at = ARENA_NEW(w->arena, value_id, n);
    if (read == NULL || at == NULL || !load_leaves(w->p, f, read)) return false;
    for (value_id v = 1; v < n; v++) {
        if (read[v]) at[out->n++] = v;
    }
    out->constants = at;
    return true;
}

/* Few rows stream weights of 16 bits and more as they lie, along k, as fast as memory gives them. */
static bool few_from_panels(const struct kernel *k) {
    return k->problem.narrow_const[k->tile.swap ? 0 : 1];
}

/* What is packed once: weights of a small dtype as they are, in the order in which they are read;
 * else whole panels of f32 and f64 operands, and of integers that are multiplied several at a time. */
static enum proem_status pack_operands(struct writer *w, struct emit *e, struct kernel *k,
                                       struct gen_kernel *gk, struct packs *packs) {
    *packs = (struct packs){0};
    memset(k->prepack, 0, sizeof k->prepack);
    if (k->kind != KERNEL_MATMUL || shares_bytes(w->p, k)) return PROEM_OK;
    bool swap = k->tile.swap;
    fn_id right = swap ? k->a : k->b[0], left = swap ? k->b[0] : k->a;
    bool whole = k->tile.dots > 0 && !k->tile.rows;
    if (k->n_b == 1 && !whole && (k->tile.packed || few_from_panels(k)))
        packs_find(e, right, swap ? k->m : k->n, swap ? "m" : "n", swap ? k->M : k->N, packs);
    struct gen_operand *op = ARENA_NEW(w->arena, struct gen_operand, MAX_PACKS + 2);
    if (op == NULL) return err_nomem(w->err);
    gk->operands = op;
    for (int i = 0; i < packs->n; i++) {
        value_id *v = ARENA_NEW(w->arena, value_id, 1);
        if (v == NULL) return err_nomem(w->err);
        *v = packs->at[i].tensor;
        op[gk->n_operands++] = (struct gen_operand){1, v};
    }
    if (packs->n > 0 || k->tile.rows) return PROEM_OK;
    k->prepack[swap ? 0 : 1] = packs_once(w->p, k, right);
    k->prepack[swap ? 1 : 0] = packs_once(w->p, k, left);
    if (packs_once(w->p, k, right) && !pack_side(w, right, &op[gk->n_operands++]))
        return err_nomem(w->err);
    if (packs_once(w->p, k, left) && !pack_side(w, left, &op[gk->n_operands++]))
        return err_nomem(w->err);
    return PROEM_OK;
}

/* Hooks and template under a prefix; checks are the kernel's own. */
static enum proem_status write_form(struct writer *w, struct emit *e, const struct gen_kernel *gk,
                                    const struct packs *packs, const char *prefix, bool few_rows) {
    static const char *const short_name[] = {"PW", "MM", "RD", "SC", "SN", "ST"};
    struct str *out = e->out;
    e->prefix = prefix;
    str_printf(out, "#define PK_KERNEL %s\n", prefix);
    if (gk->n_checks > 0)
        str_add(out, "#define PK_CHECK " TAG "_check\n");
    else
        str_add(out, "#define PK_CHECK 0\n");
    str_printf(out, "#define %s_NAME \"" NAME "\"\n", short_name[e->k->kind]);
    const char *file = "";
    e->packs = packs->n > 0 && (!few_rows || few_from_panels(e->k)) ? packs : NULL;
    e->lays_out = e->packs != NULL && !(few_rows && e->k->tile.packed);
    if (e->lays_out) packs_write(e, packs);
    TRY(hooks_write(e, few_rows, &file, w->err));
    unit_template(file, out);
    return PROEM_OK;
}

static enum proem_status write_kernel(struct writer *w, struct kernel *k, struct gen_kernel *gk,
                                      struct str *out) {
    const struct graph *g = w->p->low.graph;
    int *slot = ARENA_NEW(w->arena, int, g->values.n);
    gk->kernel = k;
    gk->name = k->name;
    if (slot == NULL || gk->name == NULL) return err_nomem(w->err);
    TRY(unit_args(w->p, k, gk, slot, w->err));
    gk->n_checks = (int)k->checks.n;
    gk->checks = k->checks.at;
    struct emit e = {.plan = w->p,
                     .fns = w->p->fns,
                     .sp = g->sx,
                     .g = g,
                     .arena = w->arena,
                     .k = k,
                     .prefix = TAG,
                     .slot = slot,
                     .out = out};
    e.W = tile_lanes(w->device);
    e.q = sx_var(g->sx, "q", 0);
    if (!emit_prepare(&e)) return err_nomem(w->err);
    struct packs packs;
    TRY(pack_operands(w, &e, k, gk, &packs));
    if (gk->n_checks > 0) TRY(hooks_checks(&e, w->err));
    const struct tile *t = &k->tile;
    bool matmul = k->kind == KERNEL_MATMUL;
    if (!matmul || t->packed) TRY(write_form(w, &e, gk, &packs, TAG, false));
    if (matmul && t->rows) TRY(write_form(w, &e, gk, &packs, t->packed ? TAG "r" : TAG, true));
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

static void write_wrapper(const struct gen_kernel *gk, const char *name, const char *to,
                          bool serial, struct str *out) {
    write_forward(name, to, serial, out);
    str_printf(out,
               "static const struct pk_kernel %s = {.name = \"" NAME
               "\", .phases = %d, .shared_bytes = "
               "%s_shared, .local_bytes = %s_local, .tasks = %s_tasks, .run = %s_run",
               name, gk->kernel->kind == KERNEL_MATMUL ? 2 : 1, name, name, name, name);
    if (gk->n_checks > 0) str_add(out, ", .check = " TAG "_check");
    if (gk->n_operands > 0)
        str_printf(out,
                   ", .operands = %d, .packed_bytes = " TAG "_packed_bytes, .pack_tasks = " TAG
                   "_pack_tasks, .pack = " TAG "_pack",
                   gk->n_operands);
    str_add(out, "};\n");
}

/* The kernel that the unit's table points to: chosen by the number of rows where there are two
 * forms, one task where tasks would share bytes. The text ends with a macro that is its line. */
static enum proem_status write_entry(const struct writer *w, const struct gen_kernel *gk,
                                     struct str *out) {
    const struct kernel *k = gk->kernel;
    const char *entry = TAG "_kernel";
    if (k->kind == KERNEL_MATMUL && k->tile.packed && k->tile.rows) {
        const char *to =
            arena_printf(w->arena, TAG "_get_shape(g).M <= %d ? &" TAG "r_kernel : &" TAG "_kernel",
                         k->tile.rows_max);
        if (to == NULL) return err_nomem(w->err);
        entry = TAG "_either";
        write_wrapper(gk, entry, to, false, out);
    }
    if (shares_bytes(w->p, k)) {
        const char *to = arena_printf(w->arena, "&%s", entry);
        if (to == NULL) return err_nomem(w->err);
        entry = TAG "_serial";
        write_wrapper(gk, entry, to, true, out);
    }
    str_printf(out, "#define " TAG "_entry &%s,\n", entry);
    return out->failed ? err_nomem(w->err) : PROEM_OK;
}

/* ---- distinct texts ----------------------------------------------------------------------------
 */

static uint64_t hash_bytes(const char *p, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)p[i]) * 0x100000001b3u; /* FNV-1a */
    return h;
}

/* The number of the text in the list, added if it is new; -1: no memory. */
int unit_intern(struct arena *a, kernel_texts *list, const struct str *s, bool share) {
    struct kernel_text t = {.n = s->n, .hash = hash_bytes(str_text(s), s->n)};
    for (size_t i = 0; share && i < list->n; i++) {
        const struct kernel_text *o = &list->at[i];
        if (o->hash == t.hash && o->n == t.n && memcmp(o->text, str_text(s), t.n) == 0)
            return (int)i;
    }
    t.text = arena_strndup(a, str_text(s), s->n);
    return t.text != NULL && VEC_PUSH(a, list, t) ? (int)list->n - 1 : -1;
}

void unit_expand(const char *text, const char *tag, const char *name, struct str *out) {
    const char *p = text, *next;
    while ((next = strstr(p, "PK")) != NULL) {
        bool is_tag = strncmp(next, TAG, strlen(TAG)) == 0;
        bool is_name = !is_tag && strncmp(next, NAME, strlen(NAME)) == 0;
        size_t n = is_tag ? strlen(TAG) : is_name ? strlen(NAME) : strlen("PK");
        str_addn(out, p, (size_t)(next - p) + (is_tag || is_name ? 0 : n));
        if (is_tag) str_add(out, tag);
        if (is_name) str_add(out, name);
        p = next + n;
    }
    str_add(out, p);
}

/* The texts of a plan's kernels into the list; text_of: by kernel. */
static enum proem_status write_texts(struct writer *w, struct gen_kernel *kernels, int *text_of,
                                     kernel_texts *list, struct arena *a, bool share) {
    for (size_t i = 0; i < w->p->kernels.n; i++) {
        struct str text;
        str_init(&text, a->alloc);
        enum proem_status s = write_kernel(w, w->p->kernels.at[i], &kernels[i], &text);
        if (s == PROEM_OK) s = write_entry(w, &kernels[i], &text);
        if (s == PROEM_OK) {
            text_of[i] = unit_intern(a, list, &text, share);
            if (text_of[i] < 0) s = err_nomem(w->err);
        }
        str_free(&text);
        TRY(s);
    }
    return PROEM_OK;
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

/* ---- units -------------------------------------------------------------------------------------
 */

struct spread {
    kernel_texts texts;
    struct gen_kernel *kernels; /* of the plan */
    int *text_of;               /* by kernel */
    size_t *weight;             /* by unit */
};

/* A compiler takes as long to start and to read the prelude as for a kernel of SMALL_TEXT bytes. Units
 * are as many as there are texts of more, and as the others fill. */
#define SMALL_TEXT ((size_t)24 * 1024)

static int units_worth(const struct spread *s) {
    size_t large = 0, small = 0;
    for (size_t i = 0; i < s->texts.n; i++) {
        size_t n = s->texts.at[i].n;
        large += n > SMALL_TEXT;
        small += n > SMALL_TEXT ? 0 : n;
    }
    return (int)(large + (small + SMALL_TEXT * 2 - 1) / (SMALL_TEXT * 2));
}

/* Longest text first, into the lightest unit. */
static void assign_units(struct spread *s, int n) {
    for (size_t i = 0; i < s->texts.n; i++)
        s->texts.at[i].unit = -1;
    for (size_t left = s->texts.n; left > 0; left--) {
        struct kernel_text *longest = NULL;
        for (size_t i = 0; i < s->texts.n; i++) {
            struct kernel_text *t = &s->texts.at[i];
            if (t->unit < 0 && (longest == NULL || t->n > longest->n)) longest = t;
        }
        int lightest = 0;
        for (int u = 1; u < n; u++) {
            if (s->weight[u] < s->weight[lightest]) lightest = u;
        }
        longest->unit = lightest;
        s->weight[lightest] += longest->n;
    }
}

/* One text under the first of its kernels' names, with the names of all. */
static enum proem_status write_text(struct writer *w, const struct spread *s, int text,
                                    struct str *out) {
    const struct gen_kernel *first = NULL;
    str_add(out, "\n/* ----");
    for (size_t i = 0; i < w->p->kernels.n; i++) {
        if (s->text_of[i] != text) continue;
        str_printf(out, "%s %s", first != NULL ? "," : "", s->kernels[i].name);
        if (first == NULL) first = &s->kernels[i];
    }
    str_add(out, " ---- */\n\n");
    const char *tag = first != NULL ? arena_printf(w->arena, "k%d", first->kernel->id) : NULL;
    if (tag == NULL) return err_nomem(w->err);
    unit_expand(s->texts.at[text].text, tag, first->name, out);
    return PROEM_OK;
}

static int first_kernel(const struct spread *s, int text) {
    int i = 0;
    while (s->text_of[i] != text)
        i++;
    return s->kernels[i].kernel->id;
}

static enum proem_status write_unit(struct writer *w, const struct spread *s, int u,
                                    struct gen_unit *unit) {
    struct plan *p = w->p;
    unit->kernels = ARENA_NEW(w->arena, struct gen_kernel, p->kernels.n);
    if (unit->kernels == NULL) return err_nomem(w->err);
    struct families fam = {.fns = p->fns};
    for (size_t i = 0; i < p->kernels.n; i++) {
        if (s->texts.at[s->text_of[i]].unit == u)
            unit_walk(p, p->kernels.at[i], family_visit, &fam);
    }
    write_prelude(&fam, &unit->text);
    for (size_t t = 0; t < s->texts.n; t++) {
        if (s->texts.at[t].unit == u) TRY(write_text(w, s, (int)t, &unit->text));
    }
    table_open(&unit->text);
    for (size_t i = 0; i < p->kernels.n; i++) {
        if (s->texts.at[s->text_of[i]].unit != u) continue;
        unit->kernels[unit->n_kernels++] = s->kernels[i];
        str_printf(&unit->text, "    k%d_entry\n", first_kernel(s, s->text_of[i]));
    }
    table_close(unit->n_kernels, &unit->text);
    return unit->text.failed ? err_nomem(w->err) : PROEM_OK;
}

static enum proem_status write_units(struct writer *w, struct spread *s, struct arena *a,
                                     int n_units, struct gen_unit **out, int *n_out) {
    int total = (int)w->p->kernels.n;
    s->kernels = ARENA_NEW(w->arena, struct gen_kernel, total + 1);
    s->text_of = ARENA_NEW(a, int, total + 1);
    if (s->kernels == NULL || s->text_of == NULL) return err_nomem(w->err);
    TRY(write_texts(w, s->kernels, s->text_of, &s->texts, a, n_units < total));
    int n = n_units < 1 ? 1 : n_units;
    if (n > (int)s->texts.n) n = (int)s->texts.n;
    if (n_units < total && n > units_worth(s)) n = units_worth(s);
    struct gen_unit *units = ARENA_NEW(w->arena, struct gen_unit, n + 1);
    s->weight = ARENA_NEW(a, size_t, n + 1);
    if (units == NULL || s->weight == NULL) return err_nomem(w->err);
    assign_units(s, n);
    enum proem_status status = PROEM_OK;
    for (int u = 0; u < n; u++) {
        str_init(&units[u].text, w->arena->alloc);
        if (status == PROEM_OK) status = write_unit(w, s, u, &units[u]);
    }
    if (status == PROEM_OK && !arena_ok(w->arena)) status = err_nomem(w->err);
    for (int u = 0; u < n && status != PROEM_OK; u++)
        str_free(&units[u].text);
    *out = units;
    *n_out = status == PROEM_OK ? n : 0;
    return status;
}

enum proem_status gen_c(struct plan *p, const struct device_desc *device, int n_units,
                        struct gen_unit **out, int *n_out, struct err *e) {
    struct writer w = {p, device, p->source->arena, e};
    struct spread s = {0};
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

/* ---- one kernel --------------------------------------------------------------------------------
 */

static enum proem_status write_alone(struct writer *w, struct kernel *k, struct gen_kernel *gk,
                                     struct str *text, struct str *out) {
    TRY(write_kernel(w, k, gk, text));
    TRY(write_entry(w, gk, text));
    struct families fam = {.fns = w->p->fns};
    unit_walk(w->p, k, family_visit, &fam);
    write_prelude(&fam, out);
    struct kernel_text t = {.text = text->at, .n = text->n};
    unit_expand(t.text, "k0", "kernel", out);
    table_open(out);
    str_add(out, "    k0_entry\n");
    table_close(1, out);
    if (out->failed || !arena_ok(w->arena)) return err_nomem(w->err);
    return PROEM_OK;
}

enum proem_status gen_c_kernel(struct plan *p, struct kernel *k, const struct device_desc *device,
                               struct gen_unit *out, struct err *e) {
    struct writer w = {p, device, p->source->arena, e};
    struct str text;
    *out = (struct gen_unit){.n_kernels = 1, .kernels = ARENA_NEW(w.arena, struct gen_kernel, 1)};
    str_init(&text, w.arena->alloc);
    str_init(&out->text, w.arena->alloc);
    enum proem_status s = PROEM_OK;
    if (out->kernels == NULL)
        s = err_nomem(e);
    else
        s = write_alone(&w, k, &out->kernels[0], &text, &out->text);
    str_free(&text);
    if (s != PROEM_OK) str_free(&out->text);
    return s;
}

/* ---- several plans in one unit ------------------------------------------------------------------
 */

static enum proem_status joint_kernels(struct writer *w, struct gen_joint *j, kernel_texts *list,
                                       struct arena *a) {
    j->kernels = ARENA_NEW(w->arena, struct gen_kernel, w->p->kernels.n + 1);
    j->position = ARENA_NEW(w->arena, int, w->p->kernels.n + 1);
    if (j->kernels == NULL || j->position == NULL) return err_nomem(w->err);
    return write_texts(w, j->kernels, j->position, list, a, true);
}

enum proem_status gen_c_joint(struct gen_joint *plans, int n, const struct device_desc *device,
                              struct str *out, struct err *e) {
    struct families fam = {0};
    for (int i = 0; i < n; i++) {
        fam.fns = plans[i].plan->fns;
        for (size_t k = 0; k < plans[i].plan->kernels.n; k++)
            unit_walk(plans[i].plan, plans[i].plan->kernels.at[k], family_visit, &fam);
    }
    struct arena a;
    arena_init(&a, out->alloc);
    kernel_texts list = {0};
    for (int i = 0; i < n; i++) {
        struct gen_joint *j = &plans[i];
        struct writer w = {j->plan, device, j->plan->source->arena, &j->err};
        j->status = joint_kernels(&w, j, &list, &a);
    }
    write_prelude(&fam, out);
    for (size_t i = 0; i < list.n; i++) {
        const char *tag = arena_printf(&a, "p%zu", i);
        if (tag != NULL) unit_expand(list.at[i].text, tag, tag, out);
    }
    table_open(out);
    for (size_t i = 0; i < list.n; i++)
        str_printf(out, "    p%zu_entry\n", i);
    str_add(out, list.n == 0 ? "    0\n" : "");
    table_close((int)list.n, out);
    bool ok = arena_ok(&a) && !out->failed;
    arena_free(&a);
    return ok ? PROEM_OK : err_nomem(e);
}
