/* SPDX-License-Identifier: MIT
 * Random graphs (random_graph.h): values, parameters made where an operator needs one, printing.
 * Which operators there are stands in random_ops.c.
 */
#include "random_graph.h"

#include <stdio.h>
#include <string.h>

#include "random_ops.h"

int choose(struct choices *c, int n) {
    if (n <= 1) return 0;
    if (c->bytes != NULL) {
        if (c->n == 0) return 0;
        unsigned v = *c->bytes++;
        c->n--;
        return (int)(v % (unsigned)n);
    }
    uint64_t z = (c->state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (int)(z % (uint64_t)n);
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool eval_symbol(void *user, const struct sx_pool *p, sx atom, int64_t *v) {
    const struct random_graph *r = user;
    for (int i = 0; i < r->n_symbols; i++) {
        if (strcmp(sx_name(p, atom), r->symbol[i].name) == 0) {
            *v = r->symbol[i].value;
            return true;
        }
    }
    return false;
}

/* Record value `id`. False if it is too large, or there is no room. */
static bool describe(struct random_graph *r, value_id id, struct gen_value *v) {
    const struct value *val = graph_value(r->g, id);
    v->id = id;
    v->rank = val->rank;
    v->dtype = val->dtype;
    v->count = 1;
    if (val->rank > 6) return false;
    for (int i = 0; i < val->rank; i++) {
        if (!sx_eval(r->g->sx, val->dims[i], eval_symbol, r, &v->shape[i])) return false;
        if (v->shape[i] < 0 || v->shape[i] > r->limit) return false;
        v->count *= v->shape[i];
        if (v->count > r->limit) return false;
    }
    struct str s;
    str_init(&s, &allocator_default);
    value_type_print(r->g, id, &s);
    bool fits = s.n < sizeof v->type;
    if (fits) snprintf(v->type, sizeof v->type, "%s", str_text(&s));
    str_free(&s);
    return fits;
}

int add_param(struct random_graph *r, const char *type, bool is_index, bool is_const) {
    if (r->n_values >= MAX_VALUES - 8) return -1;
    struct gen_value *v = &r->value[r->n_values];
    *v = (struct gen_value){.step = -1, .is_const = is_const, .is_index = is_index};
    snprintf(v->name, sizeof v->name, is_index ? "idx%d" : "p%d", r->n_values);
    enum dtype d;
    int rank;
    sx dims[MAX_RANK];
    struct err e;
    err_clear(&e);
    if (graph_type_text(r->g, type, &d, &rank, dims, &e) != PROEM_OK) return -1;
    struct place at = {.err = &e};
    value_id id = graph_param(r->g, &at, v->name, d, rank, dims, is_const, NULL);
    if (id == 0 || !describe(r, id, v)) return -1;
    return r->n_values++;
}

static value_id literal(struct random_graph *r, const struct place *at, const char *text) {
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return graph_literal(r->g, at, DT_BOOL, (union scalar){.i = text[0] == 't'});
    const char *end;
    union scalar v = {.f = parse_double(text, &end)};
    if (strpbrk(text, ".einf") != NULL) return graph_literal(r->g, at, DT_F64, v);
    v.i = (int64_t)v.f;
    return graph_literal(r->g, at, DT_I64, v);
}

int add_step(struct random_graph *r, const struct gen_step *s) {
    if (r->n_steps >= MAX_STEPS || r->n_values + s->n_out > MAX_VALUES) return -1;
    struct err e;
    err_clear(&e);
    struct place at = {.err = &e};
    value_id in[MAX_OPERANDS];
    for (int i = 0; i < s->n_in; i++) {
        in[i] = s->in[i] >= 0 ? r->value[s->in[i]].id : literal(r, &at, s->literal[i]);
    }
    value_id out = graph_call_text(r->g, &at, s->op, s->n_in, in, s->args);
    if (out == 0) return -1;
    int n_out = graph_def(r->g, out)->n_out;
    if (r->n_values + n_out > MAX_VALUES) return -1;
    struct gen_step *to = &r->step[r->n_steps];
    *to = *s;
    to->n_out = n_out;
    to->first_out = r->n_values;
    for (int i = 0; i < n_out; i++) {
        struct gen_value *v = &r->value[r->n_values + i];
        *v = (struct gen_value){.step = r->n_steps, .out = i};
        snprintf(v->name, sizeof v->name, "v%d", r->n_values + i);
        if (!describe(r, out + (value_id)i, v)) return -1;
    }
    for (int i = 0; i < s->n_in; i++)
        if (s->in[i] >= 0) r->value[s->in[i]].users++;
    r->n_values += n_out;
    r->n_steps++;
    return to->first_out;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void pick_outputs(struct random_graph *r) {
    for (int i = 0; i < r->n_values && r->n_outputs < 6; i++) {
        const struct gen_value *v = &r->value[i];
        bool leaf = v->step >= 0 && v->users == 0;
        bool extra = v->step >= 0 && v->users > 0 && choose(&r->c, 12) == 0;
        if (leaf || extra) r->output[r->n_outputs++] = i;
    }
    if (r->n_outputs == 0) r->output[r->n_outputs++] = r->n_values - 1;
    /* Few leaves are enough: keep the last ones, which depend on the most. */
    int keep = 1 + choose(&r->c, 3);
    if (r->n_outputs > keep) {
        for (int i = 0; i < keep; i++)
            r->output[i] = r->output[r->n_outputs - keep + i];
        r->n_outputs = keep;
    }
}

static void make_symbols(struct random_graph *r) {
    static const int sizes[] = {1, 2, 3, 5, 7, 8, 16, 17, 31, 33, 65};
    if (choose(&r->c, 4) != 0) return;
    r->n_symbols = 1 + choose(&r->c, 2);
    for (int i = 0; i < r->n_symbols; i++) {
        snprintf(r->symbol_name[i], sizeof r->symbol_name[i], "%c", "MNK"[i]);
        r->symbol[i].name = r->symbol_name[i];
        r->symbol[i].value = sizes[choose(&r->c, (int)COUNT_OF(sizes))];
    }
}

bool random_graph_make(struct random_graph *r, const struct choices *c, int max_steps) {
    *r = (struct random_graph){.c = *c, .limit = 12000};
    arena_init(&r->arena, &allocator_default);
    struct sx_pool *pool = sx_pool_new(&r->arena);
    r->g = pool != NULL ? graph_new(&r->arena, pool, "random") : NULL;
    if (r->g == NULL) return false;
    make_symbols(r);
    int steps = 1 + choose(&r->c, max_steps);
    for (int tries = 0; r->n_steps < steps && tries < 40 * steps; tries++) {
        if (r->c.bytes != NULL && r->c.n == 0) break;
        random_op(r);
    }
    if (r->n_steps == 0) random_first(r);
    pick_outputs(r);
    return arena_ok(&r->arena);
}

void random_graph_free(struct random_graph *r) {
    arena_free(&r->arena);
}

/* ---- printing -------------------------------------------------------------------------------- */

/* Which values and steps the kept outputs need. */
struct needed {
    bool value[MAX_VALUES], step[MAX_STEPS];
};

static bool is_param(const struct random_graph *r, const struct reduction *d, int v) {
    return r->value[v].step < 0 || (d != NULL && d->as_param[v]);
}

static void find_needed(const struct random_graph *r, const struct reduction *d, struct needed *n) {
    memset(n, 0, sizeof *n);
    for (int i = 0; i < r->n_outputs; i++)
        if (d == NULL || !d->drop_output[i]) n->value[r->output[i]] = true;
    for (int i = r->n_steps - 1; i >= 0; i--) {
        const struct gen_step *s = &r->step[i];
        for (int j = 0; j < s->n_out; j++) {
            int v = s->first_out + j;
            if (n->value[v] && !is_param(r, d, v)) n->step[i] = true;
        }
        for (int j = 0; j < s->n_in && n->step[i]; j++)
            if (s->in[j] >= 0) n->value[s->in[j]] = true;
    }
}

static void print_params(const struct random_graph *r, const struct reduction *d,
                         const struct needed *n, struct str *out) {
    const char *comma = "";
    for (int i = 0; i < r->n_values; i++) {
        const struct gen_value *v = &r->value[i];
        if (!n->value[i] || !is_param(r, d, i)) continue;
        str_printf(out, "%s%s%s: %s", comma, v->is_const ? "const " : "", v->name, v->type);
        comma = ", ";
    }
}

static void print_step(const struct random_graph *r, const struct reduction *d,
                       const struct gen_step *s, struct str *out) {
    str_add(out, "  ");
    for (int j = 0; j < s->n_out; j++) {
        const char *name = r->value[s->first_out + j].name;
        /* a result that became a parameter still needs a place in the list */
        bool shadowed = is_param(r, d, s->first_out + j);
        str_printf(out, "%s%s%s", j > 0 ? ", " : "", name, shadowed ? "_" : "");
    }
    str_printf(out, " = %s(", s->op);
    for (int j = 0; j < s->n_in; j++)
        str_printf(out, "%s%s", j > 0 ? ", " : "",
                   s->in[j] >= 0 ? r->value[s->in[j]].name : s->literal[j]);
    str_printf(out, "%s%s)%s\n", s->n_in > 0 && s->args[0] != '\0' ? ", " : "", s->args, s->tail);
}

void random_graph_print(const struct random_graph *r, const struct reduction *d, struct str *out) {
    struct needed n;
    find_needed(r, d, &n);
    str_add(out, "graph random(");
    print_params(r, d, &n, out);
    str_add(out, ") {\n");
    for (int i = 0; i < r->n_steps; i++)
        if (n.step[i]) print_step(r, d, &r->step[i], out);
    str_add(out, "  return ");
    const char *comma = "";
    for (int i = 0; i < r->n_outputs; i++) {
        if (d != NULL && d->drop_output[i]) continue;
        str_printf(out, "%s%s", comma, r->value[r->output[i]].name);
        comma = ", ";
    }
    str_add(out, "\n}\n");
}

int random_graph_symbols(const struct random_graph *g, const char *text, struct dim_value *out) {
    int n = 0;
    const char *end = strstr(text, ") {");
    for (int i = 0; i < g->n_symbols; i++) {
        const char *p = text;
        bool used = false;
        while ((p = strstr(p, g->symbol[i].name)) != NULL && end != NULL) {
            used = used || p[-1] == '[' || p[-1] == ' ' || p[-1] == '*' || p[-1] == '(';
            p++;
        }
        if (used) out[n++] = g->symbol[i];
    }
    return n;
}

/* ---- reduction ------------------------------------------------------------------------------- */

static bool still_fails(const struct random_graph *r, const struct reduction *d, fails_fn fails,
                        void *user) {
    struct str s;
    str_init(&s, &allocator_default);
    random_graph_print(r, d, &s);
    bool yes = fails(user, str_text(&s));
    str_free(&s);
    return yes;
}

void random_graph_reduce(const struct random_graph *r, struct reduction *d, fails_fn fails,
                         void *user) {
    int left = r->n_outputs;
    for (int i = 0; i < r->n_outputs && left > 1; i++) {
        d->drop_output[i] = true;
        if (still_fails(r, d, fails, user)) {
            left--;
        } else {
            d->drop_output[i] = false;
        }
    }
    for (int i = r->n_values - 1; i >= 0; i--) {
        struct needed n;
        find_needed(r, d, &n);
        if (!n.value[i] || is_param(r, d, i)) continue;
        bool is_output = false;
        for (int j = 0; j < r->n_outputs; j++)
            is_output = is_output || (r->output[j] == i && !d->drop_output[j]);
        if (is_output) continue;
        d->as_param[i] = true;
        if (!still_fails(r, d, fails, user)) d->as_param[i] = false;
    }
}
