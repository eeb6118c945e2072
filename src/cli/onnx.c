/* SPDX-License-Identifier: MIT
 * ONNX models in the place of graph text: a model is imported and printed as text, whose parameters
 * name the model's file as their source; from there all is as for text. `proem convert` writes that
 * text, and the weights into a .safetensors beside it. `proem explain --onnx` writes the model again,
 * with each kernel as a function.
 *
 * Where a model computes shapes from the values of an input, these are looked at while it is
 * imported: of inputs that --in gives from a file.
 */
#include "front/onnx/onnx.h"

#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 4096 }; /* a tensor that shapes are computed from is small */

static const char *suffix_of(const char *path) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    return dot != NULL && (slash == NULL || dot > slash) ? dot : path + strlen(path);
}

bool is_onnx(const char *path) {
    return strcmp(suffix_of(path), ".onnx") == 0;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* The data of an input that --in gives from a file. What is wrong with the file is said when the
 * inputs are bound. */
static const struct array *given(void *user, const char *name, enum dtype d, int rank) {
    struct session *s = user;
    struct err ignored = {0};
    struct src src;
    struct array_type type = {.dtype = d};
    bool known = false;
    int64_t count;
    size_t bytes;
    const char *text = NULL;
    for (size_t i = 0; i < s->o->in.n; i++) {
        if (strcmp(s->o->in.at[i].name, name) == 0) text = s->o->in.at[i].text;
    }
    if (text == NULL || src_parse(&s->arena, text, NULL, &src, &ignored) != PROEM_OK) return NULL;
    if (src.kind != SRC_NPY && src.kind != SRC_ARCHIVE) return NULL;
    for (int r = rank >= 0 ? rank : 0; r <= (rank >= 0 ? rank : MAX_RANK) && !known; r++) {
        type.rank = r;
        if (src_shape(&s->files, &src, name, d, r, &known, type.shape, &ignored) != PROEM_OK)
            return NULL;
    }
    if (!known || !array_type_size(&type, &count, &bytes)) return NULL;
    struct array loaded, *a = ARENA_NEW(&s->arena, struct array, 1);
    if (a == NULL) return NULL;
    *a = (struct array){.type = type, .count = count, .bytes = bytes};
    if (count > MOST_VALUES) return a; /* its type alone */
    if (src_load(&s->files, &src, name, &type, 0, &allocator_default, &loaded, &ignored) !=
        PROEM_OK)
        return NULL;
    a->data = arena_alloc(&s->arena, bytes > 0 ? bytes : 1, 1);
    if (a->data != NULL && bytes > 0) memcpy(a->data, loaded.data, bytes);
    array_free(&loaded);
    return a->data != NULL ? a : NULL;
}

/* The model's graph as text; *m and what it holds live in `work`. */
static enum proem_status import_text(struct session *s, struct arena *work, const char *source,
                                     struct onnx_model **m, struct graph **g, struct str *text,
                                     struct err *e) {
    struct onnx_options options = {given, s, source};
    TRY(onnx_model_open_lean(work, s->o->file, m, e));
    TRY(onnx_import(work, *m, &options, g, e));
    graph_print(*g, false, text);
    return text->failed ? err_nomem(e) : PROEM_OK;
}

enum proem_status session_import(struct session *s, struct err *e) {
    struct arena work;
    struct onnx_model *m;
    struct graph *g;
    arena_init(&work, &allocator_default);
    enum proem_status status = import_text(s, &work, base_name(s->o->file), &m, &g, &s->text, e);
    arena_free(&work);
    return status;
}

/* ---- explain --onnx -------------------------------------------------------------------------- */

/* The source's value that a lowered one is; 0: it is inside of one. */
static const char *name_of_stored(const struct session *s, value_id lowered) {
    value_id v = s->p->low.source_of[lowered];
    return v != 0 ? graph_value(s->p->graph, v)->name : NULL;
}

static enum proem_status describe_kernel(struct session *s, const struct kernel *k,
                                         struct onnx_kernel *out, struct err *e) {
    const char **names = ARENA_NEW(&s->arena, const char *, k->stores.n + 1);
    if (names == NULL) return err_nomem(e);
    *out = (struct onnx_kernel){.name = k->name, .out = names};
    for (size_t i = 0; i < k->stores.n; i++) {
        const char *name = name_of_stored(s, k->stores.at[i].value);
        if (name != NULL) names[out->n_out++] = name;
    }
    bool product = k->kind == KERNEL_MATMUL && k->tile.order != NULL;
    out->doc =
        arena_printf(&s->arena, "kernel %d of the plan, %s%s%s", k->id, kernel_kind_name(k->kind),
                     product ? "; order of k: " : "", product ? k->tile.order : "");
    return out->doc != NULL ? PROEM_OK : err_nomem(e);
}

static int name_order(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct name_list {
    size_t n;
    const char **at; /* sorted */
};

static bool is_listed(void *user, const char *name) {
    const struct name_list *l = user;
    return l->n > 0 && bsearch(&name, l->at, l->n, sizeof *l->at, name_order) != NULL;
}

/* What the graph computes: no parameters, no numbers. */
static bool computed_names(struct session *s, struct name_list *out) {
    const struct graph *g = s->p->graph;
    out->n = 0;
    out->at = ARENA_NEW(&s->arena, const char *, g->values.n + 1);
    for (value_id v = 1; out->at != NULL && v < g->values.n; v++) {
        enum op op = graph_def(g, v)->op;
        if (op != OP_PARAM && op != OP_CONST && graph_value(g, v)->name != NULL)
            out->at[out->n++] = graph_value(g, v)->name;
    }
    if (out->at != NULL && out->n > 1) qsort(out->at, out->n, sizeof *out->at, name_order);
    return out->at != NULL;
}

static bool same_folder(struct arena *a, const char *x, const char *y) {
    const char *fx = arena_printf(a, "%.*s.", (int)(base_name(x) - x), x);
    const char *fy = arena_printf(a, "%.*s.", (int)(base_name(y) - y), y);
    return fx != NULL && fy != NULL && file_is_same(fx, fy);
}

/* What is written never takes the place of the model, or of the data that it has in other files. */
static enum proem_status keep_model(const struct onnx_model *m, const char *option,
                                    const char *path, struct err *e) {
    if (!onnx_model_has_file(m, path)) return PROEM_OK;
    return err_set(e, PROEM_INVALID, "%s: '%s' is a file of the model itself; choose another name",
                   option, path);
}

enum proem_status session_export(struct session *s, struct err *e) {
    const struct plan *p = &s->p->plan;
    struct onnx_model *m;
    struct name_list computed;
    if (!is_onnx(s->o->file))
        return err_set(e, PROEM_INVALID, "--onnx: %s is no ONNX model", s->o->file);
    struct onnx_kernel *k = ARENA_NEW(&s->arena, struct onnx_kernel, p->kernels.n + 1);
    if (k == NULL || !computed_names(s, &computed)) return err_nomem(e);
    for (size_t i = 0; i < p->kernels.n; i++)
        TRY(describe_kernel(s, p->kernels.at[i], &k[i], e));
    TRY(onnx_model_open(&s->arena, s->o->file, &m, e));
    if (onnx_has_external(m) && !same_folder(&s->arena, s->o->file, s->o->onnx))
        return err_set(e, PROEM_INVALID,
                       "--onnx: the model has external data, which are found beside it: "
                       "expected a file in the same folder, not '%s'",
                       s->o->onnx);
    TRY(keep_model(m, "--onnx", s->o->onnx, e));
    struct str out;
    str_init(&out, &allocator_default);
    enum proem_status status =
        onnx_export(&s->arena, m, k, p->kernels.n, is_listed, &computed, &out, e);
    if (status == PROEM_OK) status = write_text(s->o->onnx, str_text(&out), out.n, e);
    str_free(&out);
    return status;
}

/* ---- convert --------------------------------------------------------------------------------- */

/* The parameters that read the model, as tensors of a new file. */
static enum proem_status write_weights(struct session *s, const struct graph *g, const char *path,
                                       struct err *e) {
    struct archive *ar = NULL;
    size_t n = 0;
    TRY(src_files_archive(&s->files, s->o->file, &ar, e));
    struct named_array *list = ARENA_NEW(&s->arena, struct named_array, g->params.n + 1);
    struct array *data = ARENA_NEW(&s->arena, struct array, g->params.n + 1);
    if (list == NULL || data == NULL) return err_nomem(e);
    enum proem_status status = PROEM_OK;
    for (size_t i = 0; i < g->params.n && status == PROEM_OK; i++) {
        const char *source = g->params.at[i].source;
        if (source == NULL) continue;
        const char *key = source + strlen(base_name(path)) + 1;
        long at = archive_find(ar, key);
        if (at < 0)
            status = err_set(e, PROEM_INTERNAL, "%s: there is no tensor '%s'", s->o->file, key);
        else
            status = archive_read(ar, (size_t)at, &allocator_default, &data[n], e);
        if (status == PROEM_OK) list[n] = (struct named_array){key, &data[n]};
        n += status == PROEM_OK;
    }
    if (status == PROEM_OK && n > 0)
        status = safetensors_write(&allocator_default, path, list, n, e);
    for (size_t i = 0; i < n; i++)
        array_free(&data[i]);
    return status;
}

/* A name that says another format would not be read as a graph's text again. */
static enum proem_status check_convert(const struct session *s, const char *suffix, struct err *e) {
    static const char *const others[] = {".onnx", ".npy", ".npz", ".safetensors", ".gguf"};
    if (!is_onnx(s->o->file))
        return err_set(e, PROEM_INVALID, "proem convert: %s: expected a file named .onnx",
                       s->o->file);
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        if (strcmp(suffix, others[i]) == 0)
            return err_set(e, PROEM_INVALID,
                           "-o: '%s' is wrong; expected the name of a graph's file", s->o->dir);
    }
    return PROEM_OK;
}

/* --in can say what shapes are computed from; anything else would be passed over. */
static enum proem_status check_given(struct session *s, const struct graph *g, struct err *e) {
    for (size_t i = 0; i < s->o->in.n; i++) {
        const struct pair *p = &s->o->in.at[i];
        struct src src;
        size_t k = 0;
        TRY(src_parse(&s->arena, p->text, NULL, &src, e));
        while (k < g->params.n && strcmp(graph_value(g, g->params.at[k].value)->name, p->name) != 0)
            k++;
        if (k == g->params.n)
            return err_set(e, PROEM_INVALID, "--in: the model has no input '%s'", p->name);
        if (src.kind != SRC_NPY && src.kind != SRC_ARCHIVE)
            return err_set(
                e, PROEM_INVALID,
                "--in: '%s=%s' says nothing to convert: expected values in a file, which "
                "shapes are computed from",
                p->name, p->text);
    }
    return PROEM_OK;
}

/* The text is there, if not yet in its place, before the weights are begun. */
static enum proem_status write_both(struct session *s, const struct graph *g, const char *weights,
                                    struct err *e) {
    struct file_out text;
    TRY(file_create(s->o->dir, &text, e));
    enum proem_status status = PROEM_OK;
    bool sources = false;
    for (size_t i = 0; i < g->params.n; i++)
        sources = sources || g->params.at[i].source != NULL;
    if (sources && !text.beside)
        status =
            err_set(e, PROEM_INVALID,
                    "-o: '%s' is no regular file: the weights are written beside it", s->o->dir);
    if (status == PROEM_OK) status = file_append(&text, str_text(&s->text), s->text.n, e);
    if (status == PROEM_OK) status = write_weights(s, g, weights, e);
    return file_finish(&text, status, e);
}

enum proem_status cmd_convert(struct session *s, struct err *e) {
    const char *out = s->o->dir, *suffix = suffix_of(out);
    TRY(check_convert(s, suffix, e));
    const char *weights = arena_printf(&s->arena, "%.*s.safetensors", (int)(suffix - out), out);
    if (weights == NULL) return err_nomem(e);
    struct arena work;
    struct onnx_model *m;
    struct graph *g;
    arena_init(&work, &allocator_default);
    enum proem_status status = import_text(s, &work, base_name(weights), &m, &g, &s->text, e);
    if (status == PROEM_OK) status = check_given(s, g, e);
    if (status == PROEM_OK) status = keep_model(m, "-o", out, e);
    if (status == PROEM_OK) status = keep_model(m, "-o", weights, e);
    if (status == PROEM_OK) status = write_both(s, g, weights, e);
    arena_free(&work);
    return status;
}
