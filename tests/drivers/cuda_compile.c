/* SPDX-License-Identifier: MIT
 * cuda_compile [DIR=tests/fusion] [ARCH=sm_90a] [NVRTC=libnvrtc.so] [JOBS=2] [OPS=1] [FILE=name]
 *
 * Kernels for GPUs without a GPU: every graph of a folder in three precision modes, and every row of
 * ops.def for every dtype that it admits, alone and at both ends of a product, through NVRTC for each
 * architecture. A kernel fails that does not compile, that spills registers, or in which asynchronous
 * products wait for each other. The last lines are the slowest kernel, the total, and `N passed, N
 * failed, N skipped`; without NVRTC all is skipped.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/gen.h"
#include "harness.h"
#include "rt/cuda/cuda.h"

struct settings {
    const char *dir, *arch, *nvrtc, *file;
    int jobs, ops;
};

/* A kernel's text, waiting to be compiled, and where it comes from. */
struct unit {
    char name[96];
    char *text;
    size_t n;
    char *graph; /* text that holds graph number `which` alone or among others */
    size_t which;
    enum precision prec;
    int units, index;
};

#define MAX_UNITS 512 /* compiled in one call */

struct state {
    struct settings o;
    struct rt *rt;
    struct rt_cuda *cuda;
    struct device_desc device;
    struct unit unit[MAX_UNITS];
    int n_units;
    int passed, failed, skipped;
    double slowest, total; /* ms of a kernel, of all */
    char slowest_name[96];
};

/* ---- compiling ------------------------------------------------------------------------------- */

static bool next_tile(struct state *t, const struct unit *u);

static void judge(struct state *t, const struct unit *u, const struct rt_cubin *b) {
    const struct rt_cubin_report *r = rt_cubin_report(b);
    t->total += r->ms;
    if (r->ms > t->slowest) {
        t->slowest = r->ms;
        snprintf(t->slowest_name, sizeof t->slowest_name, "%s", u->name);
    }
    if (r->spilled == 0 && r->serialized == 0) {
        t->passed++;
        return;
    }
    if (next_tile(t, u)) {
        t->passed++;
        printf("%s %s: another tile: %s\n", t->device.name, u->name, r->first);
        return;
    }
    t->failed++;
    printf("%s %s: %s\n", t->device.name, u->name, r->first);
}

static void compile_one(struct state *t, const struct unit *u) {
    struct rt_source s = {.name = u->name, .text = u->text, .n = u->n};
    struct rt_cubin *b = NULL;
    struct err e = {0};
    if (rt_cuda_compile(t->cuda, &t->device, 1, &s, &b, &e) == PROEM_OK) {
        judge(t, u, b);
        rt_cubin_unref(b);
    } else {
        t->failed++;
        printf("%s %s: %s\n", t->device.name, u->name, e.text);
    }
}

static void flush(struct state *t) {
    static struct rt_source s[MAX_UNITS];
    static struct rt_cubin *b[MAX_UNITS];
    struct err e = {0};
    for (int i = 0; i < t->n_units; i++) {
        const struct unit *u = &t->unit[i];
        s[i] = (struct rt_source){.name = u->name, .text = u->text, .n = u->n};
        b[i] = NULL;
    }
    bool all =
        t->n_units > 0 && rt_cuda_compile(t->cuda, &t->device, t->n_units, s, b, &e) == PROEM_OK;
    for (int i = 0; i < t->n_units; i++) {
        if (all) {
            judge(t, &t->unit[i], b[i]);
            rt_cubin_unref(b[i]);
        } else {
            compile_one(t, &t->unit[i]);
        }
        free(t->unit[i].text);
        free(t->unit[i].graph);
    }
    t->n_units = 0;
}

/* from: whose graph, precision and number of units it has. */
static void push(struct state *t, const char *name, const struct unit *from, int index,
                 const struct str *text) {
    if (t->n_units == MAX_UNITS) flush(t);
    struct unit *u = &t->unit[t->n_units];
    *u = *from;
    u->index = index;
    snprintf(u->name, sizeof u->name, "%.80s.%d", name, index);
    u->n = text->n;
    u->text = malloc(text->n + 1);
    u->graph = strdup(from->graph);
    if (u->text == NULL || u->graph == NULL) return;
    memcpy(u->text, str_text(text), text->n + 1);
    t->n_units++;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* The plan and its units, with `passed` tiles passed over in unit `only` (-1: in none). choices: of
 * the kernel that has the most there. */
static enum proem_status make_units(struct state *t, struct arena *a, struct graph *g,
                                    const struct unit *from, int only, int passed,
                                    struct gen_unit **u, int *n, int *choices, struct err *e) {
    struct lowered low;
    struct plan p;
    struct dims_binding dims = dims_binding_new(a, g);
    TRY(opt_lower_for(g, &t->device, &dims, &low, e));
    struct plan_options o = {
        .prec = from->prec, .policy = FUSE_MODEL, .dims = &dims, .device = &t->device};
    TRY(plan_lowered(g, &low, &o, &p, e));
    int units = from->units > 0 ? from->units : (int)p.kernels.n;
    TRY(gen_cuda(&p, &t->device, units, u, n, e));
    if (only < 0) return PROEM_OK;
    *choices = 0;
    for (int i = 0; i < *n; i++) {
        for (int k = 0; i == only && k < (*u)[i].n_kernels; k++) {
            if ((*u)[i].cuda[k].choices > *choices) *choices = (*u)[i].cuda[k].choices;
            for (size_t m = 0; m < p.kernels.n; m++) {
                if (p.kernels.at[m] == (*u)[i].kernels[k].kernel)
                    p.kernels.at[m]->tile.cuda.passed = passed;
            }
        }
        str_free(&(*u)[i].text);
    }
    return gen_cuda(&p, &t->device, units, u, n, e);
}

static bool compiles_well(struct state *t, const struct unit *u, const struct str *text) {
    struct rt_source s = {.name = u->name, .text = str_text(text), .n = text->n};
    struct rt_cubin *b = NULL;
    struct err e = {0};
    if (rt_cuda_compile(t->cuda, &t->device, 1, &s, &b, &e) != PROEM_OK) return false;
    const struct rt_cubin_report *r = rt_cubin_report(b);
    bool well = r->spilled == 0 && r->serialized == 0;
    rt_cubin_unref(b);
    return well;
}

/* A program goes on to the next tile of the same order where one compiles to slow code (driver/cuda.c):
 * does one of them do? */
static bool next_tile(struct state *t, const struct unit *u) {
    bool well = false;
    int choices = 2;
    for (int passed = 1; passed < choices && !well; passed++) {
        struct arena a;
        struct graph_file f = {0};
        struct gen_unit *made = NULL;
        struct err e = {0};
        int n = 0;
        arena_init(&a, &allocator_default);
        bool ok = graph_parse(&a, u->name, u->graph, strlen(u->graph), false, &f, &e) == PROEM_OK &&
                  make_units(t, &a, f.graphs.at[u->which], u, u->index, passed, &made, &n, &choices,
                             &e) == PROEM_OK;
        well = ok && u->index < n && compiles_well(t, u, &made[u->index].text);
        for (int i = 0; i < n; i++)
            str_free(&made[i].text);
        arena_free(&a);
        if (!ok) break;
    }
    return well;
}

static enum proem_status plan_graph(struct state *t, struct arena *a, struct graph *g,
                                    const char *name, const struct unit *from, struct err *e) {
    struct gen_unit *u;
    int n;
    TRY(make_units(t, a, g, from, -1, 0, &u, &n, NULL, e));
    for (int i = 0; i < n; i++) {
        push(t, name, from, i, &u[i].text);
        str_free(&u[i].text);
    }
    return PROEM_OK;
}

static bool add_text(struct state *t, const char *name, const char *text, enum precision prec,
                     int units, struct err *e) {
    struct arena a;
    struct graph_file f = {0};
    arena_init(&a, &allocator_default);
    char full[96];
    snprintf(full, sizeof full, "%s.%s", name, mode_name(prec));
    enum proem_status s = graph_parse(&a, name, text, strlen(text), false, &f, e);
    char *copy = strdup(text);
    for (size_t i = 0; s == PROEM_OK && copy != NULL && i < f.graphs.n; i++) {
        struct unit from = {.graph = copy, .which = i, .prec = prec, .units = units};
        s = plan_graph(t, &a, f.graphs.at[i], full, &from, e);
    }
    free(copy);
    arena_free(&a);
    return s == PROEM_OK;
}

static void add_file(struct state *t, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", t->o.dir, name);
    char *text = text_of_file(path);
    for (int prec = 0; text != NULL && prec < 3; prec++) {
        struct err e = {0};
        if (!add_text(t, name, text, (enum precision)prec, 0, &e)) {
            t->failed++;
            printf("%s %s: %s\n", t->device.name, name, e.text);
        }
    }
    free(text);
}

static int is_graph(const struct dirent *d) {
    size_t n = strlen(d->d_name);
    return n > 6 && strcmp(d->d_name + n - 6, ".proem") == 0;
}

static void add_folder(struct state *t) {
    struct dirent **list;
    int n = scandir(t->o.dir, &list, is_graph, alphasort);
    if (n < 0) {
        t->failed++;
        printf("there is no folder %s\n", t->o.dir);
    }
    for (int i = 0; i < n; i++) {
        if (t->o.file == NULL || strcmp(t->o.file, list[i]->d_name) == 0)
            add_file(t, list[i]->d_name);
        free(list[i]);
    }
    if (n >= 0) free(list);
}

/* ---- operators ------------------------------------------------------------------------------- */

#define MAX_EXPRS 8 /* results of a graph */

/* Operators over inputs of one dtype in one place: alone (0), before a product (1), behind it (2).
 * Parameters have their defaults. */
struct op_graph {
    enum dtype dtype;
    int form, n;
    enum op op[MAX_EXPRS];
};

static void print_op(enum op op, int form, struct str *s) {
    static const char *const rest[2][3] = {{"", ", y", ", y, w"}, {"", ", v", ", v, u"}};
    const struct op_info *info = op_info(op);
    str_printf(s, form == 1 ? "matmul(%s(%s%s), b)" : "%s(%s%s)", info->name,
               form == 2 ? "matmul(x, b)" : "x", rest[form == 2][info->arity - 1]);
}

static void print_graph(const struct op_graph *g, struct str *s) {
    const char *t = dtype_name(g->dtype);
    str_add(s, "graph ops(");
    for (const char *p = "xyw"; *p != '\0'; p++)
        str_printf(s, "%c: %s[33, 40], ", *p, t);
    str_printf(s, "b: %s[40, 35], v: %s[33, 35], u: %s[33, 35]) {\n  return ", t, t, t);
    for (int i = 0; i < g->n; i++) {
        if (i > 0) str_add(s, ", ");
        print_op(g->op[i], g->form, s);
    }
    str_add(s, "\n}\n");
}

/* Does the dtype admit the operator there? */
static bool admits(enum dtype d, int form, enum op op) {
    struct op_graph g = {d, form, 1, {op}};
    struct arena a;
    struct graph_file f = {0};
    struct err e = {0};
    struct str s;
    str_init(&s, &allocator_default);
    arena_init(&a, &allocator_default);
    print_graph(&g, &s);
    bool ok = graph_parse(&a, "ops", str_text(&s), s.n, false, &f, &e) == PROEM_OK;
    arena_free(&a);
    str_free(&s);
    return ok;
}

static void add_graph(struct state *t, struct op_graph *g) {
    struct str s;
    struct err e = {0};
    char name[64];
    if (g->n == 0) return;
    str_init(&s, &allocator_default);
    print_graph(g, &s);
    snprintf(name, sizeof name, "%s.%s.%d", op_info(g->op[0])->name, dtype_name(g->dtype), g->form);
    if (!add_text(t, name, str_text(&s), PREC_BOUNDARY, 1, &e)) {
        t->failed++;
        printf("%s %s: %s\n", t->device.name, name, e.text);
    }
    str_free(&s);
    g->n = 0;
}

static void add_ops(struct state *t) {
    static const enum dtype dtypes[] = {DT_F32, DT_F64, DT_BF16, DT_I32,     DT_I64,
                                        DT_U64, DT_I8,  DT_BOOL, DT_F8E4M3FN};
    for (size_t d = 0; d < COUNT_OF(dtypes); d++) {
        int forms = dtypes[d] == DT_BF16 ? 3 : 1;
        for (int form = 0; form < forms; form++) {
            struct op_graph g = {dtypes[d], form, 0, {OP_NONE}};
            for (int op = OP_NONE + 1; op < OP_EW_END; op++) {
                if (admits(dtypes[d], form, (enum op)op)) g.op[g.n++] = (enum op)op;
                if (g.n == MAX_EXPRS) add_graph(t, &g);
            }
            add_graph(t, &g);
        }
    }
}

/* ---- main ------------------------------------------------------------------------------------ */

static void one_arch(struct state *t, const char *name, size_t n) {
    if (!device_by_name(name, n, &t->device) || t->device.kind != DEVICE_CUDA) {
        t->failed++;
        printf("%.*s is no GPU that is known\n", (int)n, name);
        return;
    }
    t->total = t->slowest = 0;
    int passed = t->passed, failed = t->failed;
    add_folder(t);
    if (t->o.ops) add_ops(t);
    flush(t);
    printf("%s: %d passed, %d failed; slowest %.2f s (%s), total %.1f s\n", t->device.name,
           t->passed - passed, t->failed - failed, t->slowest / 1e3, t->slowest_name,
           t->total / 1e3);
}

static bool read_settings(struct settings *o, int argc, char **argv) {
    const struct setting list[] = {
        {"DIR", SETTING_TEXT, &o->dir},     {"ARCH", SETTING_TEXT, &o->arch},
        {"NVRTC", SETTING_TEXT, &o->nvrtc}, {"FILE", SETTING_TEXT, &o->file},
        {"JOBS", SETTING_INT, &o->jobs},    {"OPS", SETTING_INT, &o->ops},
    };
    return settings_read("cuda_compile", list, COUNT_OF(list), argc, argv);
}

static int run(struct state *t) {
    struct err e = {0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct str text;
    struct rt_options ro = {.jobs = t->o.jobs};
    struct rt_cuda_options co = {.nvrtc = t->o.nvrtc};
    if (rt_new(&allocator_default, &ro, &t->rt, &e) != PROEM_OK ||
        rt_cuda_new(t->rt, &co, &t->cuda, &e) != PROEM_OK) {
        printf("%s\n", e.text);
        return 1;
    }
    str_init(&text, &allocator_default);
    if (rt_cuda_nvrtc_text(t->cuda, &text, &e) != PROEM_OK) {
        printf("%s\n", e.text);
        t->skipped++;
    } else {
        printf("%s\n", str_text(&text));
        for (const char *p = t->o.arch; *p != '\0';) {
            size_t n = strcspn(p, ",");
            one_arch(t, p, n);
            p += n + (p[n] == ',');
        }
    }
    str_free(&text);
    rt_cuda_free(t->cuda);
    rt_free(t->rt);
    printf("%d passed, %d failed, %d skipped\n", t->passed, t->failed, t->skipped);
    return t->failed > 0;
}

int main(int argc, char **argv) {
    struct state *t = calloc(1, sizeof *t);
    if (t == NULL) return 1;
    t->o = (struct settings){
        .dir = "tests/fusion", .arch = "sm_80,sm_90a,sm_100a", .jobs = 2, .ops = 1};
    int rc = read_settings(&t->o, argc, argv) ? run(t) : 2;
    free(t);
    return rc;
}
