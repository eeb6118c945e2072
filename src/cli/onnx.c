/* SPDX-License-Identifier: MIT
 * ONNX models in the place of graph text: a model is imported and printed as text, whose parameters
 * name the model's file as their source; from there all is as for text. `proem convert` writes that
 * text, and the weights into a .safetensors beside it.
 *
 * Where a model computes shapes from the values of an input, these are looked at while it is
 * imported: of inputs that --in gives from a file.
 */
#include "front/onnx/onnx.h"

#include "cli/cli.h"

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

enum proem_status cmd_convert(struct session *s, struct err *e) {
    const char *out = s->o->dir, *suffix = suffix_of(out);
    if (!is_onnx(s->o->file))
        return err_set(e, PROEM_INVALID, "proem convert: %s: expected a file named .onnx",
                       s->o->file);
    if (strcmp(suffix, ".safetensors") == 0)
        return err_set(e, PROEM_INVALID, "-o: '%s' is wrong; expected the name of a graph's file",
                       out);
    const char *weights = arena_printf(&s->arena, "%.*s.safetensors", (int)(suffix - out), out);
    if (weights == NULL) return err_nomem(e);
    struct arena work;
    struct onnx_model *m;
    struct graph *g;
    arena_init(&work, &allocator_default);
    enum proem_status status = import_text(s, &work, base_name(weights), &m, &g, &s->text, e);
    if (status == PROEM_OK) status = write_weights(s, g, weights, e);
    arena_free(&work);
    if (status == PROEM_OK) status = write_text(out, str_text(&s->text), s->text.n, e);
    return status;
}
