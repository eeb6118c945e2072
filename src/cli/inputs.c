/* SPDX-License-Identifier: MIT
 * Where each parameter comes from, and its values.
 *
 * In order of strength: --in NAME=SRC, --weights, the source that the graph's text gives (relative
 * to its file), --in '*=SRC', else random values from the seed and the name that fit the
 * parameter's uses (rules.c). Sizes are bound by --dim first, then by what files tell about shapes.
 */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

static const struct value *param(const struct session *s, size_t i) {
    return graph_value(s->p->graph, s->p->graph->params.at[i].value);
}

/* ---- sources --------------------------------------------------------------------------------- */

static enum proem_status no_param(const struct session *s, const char *name, struct err *e) {
    struct str names;
    str_init(&names, &allocator_default);
    for (size_t i = 0; i < s->n_in; i++)
        str_printf(&names, "%s%s", i > 0 ? ", " : "; its inputs are ", param(s, i)->name);
    enum proem_status status = err_set(e, PROEM_INVALID, "--in: graph %s has no input '%s'%s",
                                       s->p->graph->name, name, str_text(&names));
    str_free(&names);
    return status;
}

static enum proem_status set_source(struct session *s, size_t i, const char *text,
                                    const char *folder, struct err *e) {
    TRY(src_parse(&s->arena, text, folder, &s->in[i].src, e));
    s->in[i].given = true;
    return PROEM_OK;
}

/* The folder of the graph's file; NULL: the working directory. */
static const char *folder_of(struct session *s) {
    const char *slash = strrchr(s->o->file, '/');
    if (slash == NULL) return NULL;
    return arena_strndup(&s->arena, s->o->file,
                         slash == s->o->file ? 1 : (size_t)(slash - s->o->file));
}

static enum proem_status sources_of_graph(struct session *s, struct err *e) {
    const char *folder = folder_of(s);
    for (size_t i = 0; i < s->n_in; i++) {
        const struct param *p = &s->p->graph->params.at[i];
        if (p->source != NULL) TRY(set_source(s, i, p->source, folder, e));
    }
    return PROEM_OK;
}

static enum proem_status sources_of_weights(struct session *s, const char *path, struct err *e) {
    struct archive *ar = NULL;
    TRY(src_files_archive(&s->files, path, &ar, e));
    for (size_t i = 0; i < s->n_in; i++) {
        const char *name = param(s, i)->name;
        if (archive_find(ar, name) < 0) continue;
        s->in[i].src = (struct src){.kind = SRC_ARCHIVE, .text = path, .path = path, .key = name};
        s->in[i].given = true;
    }
    return PROEM_OK;
}

static enum proem_status sources_named(struct session *s, struct err *e) {
    for (size_t k = 0; k < s->o->in.n; k++) {
        const struct pair *p = &s->o->in.at[k];
        if (strcmp(p->name, "*") == 0) continue;
        size_t i = 0;
        while (i < s->n_in && strcmp(param(s, i)->name, p->name) != 0)
            i++;
        if (i == s->n_in) return no_param(s, p->name, e);
        TRY(set_source(s, i, p->text, NULL, e));
    }
    return PROEM_OK;
}

static enum proem_status sources_rest(struct session *s, struct err *e) {
    for (size_t k = s->o->in.n; k-- > 0;) {
        const struct pair *p = &s->o->in.at[k];
        if (strcmp(p->name, "*") != 0) continue;
        for (size_t i = 0; i < s->n_in; i++) {
            if (!s->in[i].given) TRY(set_source(s, i, p->text, NULL, e));
        }
    }
    return PROEM_OK;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* What is asked of a graph without running it may leave sizes open; those given must be possible. */
static bool all_bound(const struct graph *g, const struct dims_binding *b) {
    int64_t size;
    for (int i = 0; i < sx_symbols(g->sx); i++) {
        if (!dims_value(g, b, sx_symbol_at(g->sx, i), &size)) return false;
    }
    return true;
}

enum proem_status inputs_bind(struct session *s, struct err *e) {
    const struct graph *g = s->p->graph;
    s->in = ARENA_NEW(&s->arena, struct input, g->params.n);
    int *rank = ARENA_NEW(&s->arena, int, g->params.n);
    const int64_t **shape = ARENA_NEW(&s->arena, const int64_t *, g->params.n);
    if (s->in == NULL || rank == NULL || shape == NULL) return err_nomem(e);
    s->n_in = g->params.n;
    TRY(sources_of_graph(s, e));
    if (s->o->weights != NULL) TRY(sources_of_weights(s, s->o->weights, e));
    TRY(sources_named(s, e));
    TRY(sources_rest(s, e));
    for (size_t i = 0; i < s->o->dims.n; i++) {
        const struct pair *d = &s->o->dims.at[i];
        TRY(dims_bind_name(g, &s->p->dims, d->name, strtoll(d->text, NULL, 10), e));
    }
    for (size_t i = 0; i < s->n_in; i++) {
        struct input *in = &s->in[i];
        const struct value *v = param(s, i);
        rank[i] = v->rank;
        if (!in->given) continue;
        TRY(src_shape(&s->files, &in->src, v->name, v->dtype, v->rank, &in->shape_known, in->shape,
                      e));
        if (in->shape_known) shape[i] = in->shape;
    }
    TRY(dims_bind_params(g, &s->p->dims, rank, shape, e));
    return all_bound(g, &s->p->dims) ? dims_check(g, &s->p->dims, e) : PROEM_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

static enum proem_status load_one(struct session *s, size_t i, struct err *e) {
    struct input *in = &s->in[i];
    const struct graph *g = s->p->graph;
    const struct value *v = param(s, i);
    struct array_type type = {.dtype = v->dtype, .rank = v->rank};
    TRY(dims_shape(g, &s->p->dims, g->params.at[i].value, type.shape, e));
    if (in->given)
        return src_load(&s->files, &in->src, v->name, &type, s->o->seed, &allocator_default,
                        &in->array, e);
    TRY(array_new(&allocator_default, &type, v->name, &in->array, e));
    return random_fill(in->array.data, type.dtype, in->array.count, s->o->seed, v->name, &in->rule,
                       e);
}

/* A file of another dtype or rank gives no size, so that one may be missing because of it: then it is
 * the file that is wrong. */
static enum proem_status check_files(struct session *s, struct err *e) {
    const struct graph *g = s->p->graph;
    for (size_t i = 0; i < s->n_in; i++) {
        const struct input *in = &s->in[i];
        const struct value *v = param(s, i);
        bool file = in->src.kind == SRC_NPY || in->src.kind == SRC_ARCHIVE;
        if (!in->given || !file || in->shape_known || dtype_is_subbyte(v->dtype)) continue;
        int64_t shape[MAX_RANK];
        struct err ignored;
        err_clear(&ignored);
        if (dims_shape(g, &s->p->dims, g->params.at[i].value, shape, &ignored) != PROEM_OK)
            return src_misfit(&s->files, &in->src, v->name, v->dtype, v->rank, e);
    }
    return PROEM_OK;
}

enum proem_status inputs_load(struct session *s, struct err *e) {
    TRY(check_files(s, e));
    TRY(dims_check(s->p->graph, &s->p->dims, e));
    TRY(inputs_rules(s, e));
    for (size_t i = 0; i < s->n_in; i++)
        TRY(load_one(s, i, e));
    return PROEM_OK;
}
