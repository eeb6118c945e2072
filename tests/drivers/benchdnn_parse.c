/* SPDX-License-Identifier: MIT
 * bd_parse and bd_shrink (benchdnn_parse.h): one line of benchdnn's matmul options, as described in
 * oneDNN's tests/benchdnn/doc, becomes a problem.
 *
 * A tensor's place in memory is an order of its dims and how much longer than the dim each is
 * stored: a tag gives the order alone, strides give both (sorted; ratios of neighbours are the
 * stored lengths). Dims of size 1 have no place: their strides mean nothing.
 */
#include "benchdnn_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN 256

static bool fail(char *why, size_t room, const char *what, const char *text) {
    snprintf(why, room, "%s%s%.60s", what, text[0] != '\0' ? " " : "", text);
    return false;
}

/* The part of *at up to `sep` into out; *at moves past it, to NULL at the end. */
static bool next_part(const char **at, char sep, char out[TOKEN]) {
    if (*at == NULL) return false;
    const char *end = strchr(*at, sep);
    size_t n = end != NULL ? (size_t)(end - *at) : strlen(*at);
    if (n >= TOKEN) n = TOKEN - 1;
    memcpy(out, *at, n);
    out[n] = '\0';
    *at = end != NULL ? end + 1 : NULL;
    return true;
}

static bool parse_dtype(const char *s, enum dtype *d) {
    static const struct {
        const char *name;
        enum dtype d;
    } table[] = {{"f32", DT_F32},
                 {"f16", DT_F16},
                 {"bf16", DT_BF16},
                 {"f64", DT_F64},
                 {"f8_e4m3", DT_F8E4M3FN},
                 {"f8_e5m2", DT_F8E5M2},
                 {"f4_e2m1", DT_F4E2M1FN},
                 {"e8m0", DT_E8M0},
                 {"s32", DT_I32},
                 {"s8", DT_I8},
                 {"u8", DT_U8},
                 {"s4", DT_I4},
                 {"u4", DT_U4}};
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        if (strcmp(s, table[i].name) != 0) continue;
        *d = table[i].d;
        return true;
    }
    return false;
}

/* "3x4x5": how many numbers, or -1. */
static int parse_dims(const char *s, int64_t *out, int max) {
    int n = 0;
    char part[TOKEN];
    while (next_part(&s, 'x', part)) {
        char *end = NULL;
        long long v = strtoll(part, &end, 10);
        if (n == max || end == part || *end != '\0' || v < 0) return -1;
        out[n++] = v;
    }
    return n;
}

static bool parse_problem(const char *s, struct bd_problem *p) {
    char part[TOKEN];
    int rank[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        if (!next_part(&s, ':', part)) return false;
        rank[i] = parse_dims(part, p->dims[i], BD_RANK);
    }
    if (s != NULL || rank[0] < 2 || rank[0] != rank[1]) return false;
    int r = p->rank = rank[0];
    if (p->dims[BD_SRC][r - 1] != p->dims[BD_WEI][r - 2]) return false;
    for (int i = 0; i < r - 2; i++) {
        int64_t a = p->dims[BD_SRC][i], b = p->dims[BD_WEI][i];
        if (a != b && a != 1 && b != 1) return false;
        p->dims[BD_DST][i] = a > b ? a : b;
    }
    p->dims[BD_DST][r - 2] = p->dims[BD_SRC][r - 2];
    p->dims[BD_DST][r - 1] = p->dims[BD_WEI][r - 1];
    return true;
}

/* ---- layouts --------------------------------------------------------------------------------- */

static void layout_plain(struct bd_layout *l) {
    *l = (struct bd_layout){.step = 1};
    for (int i = 0; i < BD_RANK; i++)
        l->order[i] = i;
}

static bool layout_tag(const char *tag, int rank, struct bd_layout *l) {
    layout_plain(l);
    if (strcmp(tag, "abx") == 0 || strcmp(tag, "any") == 0) return true;
    if ((int)strlen(tag) != rank) return false;
    unsigned seen = 0;
    for (int i = 0; i < rank; i++) {
        int d = tag[i] - 'a';
        if (d < 0 || d >= rank || (seen >> d & 1) != 0) return false;
        seen |= 1u << d;
        l->order[i] = d;
    }
    return true;
}

static bool layout_strides(const char *s, int rank, const int64_t *dims, struct bd_layout *l) {
    int64_t stride[BD_RANK];
    layout_plain(l);
    if (parse_dims(s, stride, BD_RANK) != rank) return false;
    for (int i = 1; i < rank; i++) { /* those of size 1 go outermost */
        for (int j = i; j > 0; j--) {
            int a = l->order[j - 1], b = l->order[j];
            bool swap = dims[a] != 1 && (dims[b] == 1 || stride[b] > stride[a]);
            if (!swap) break;
            l->order[j - 1] = b;
            l->order[j] = a;
        }
    }
    int last = l->order[rank - 1];
    l->step = dims[last] == 1 ? 1 : stride[last];
    for (int i = 1; i < rank; i++) {
        int a = l->order[i - 1], b = l->order[i];
        if (dims[a] == 1) continue;
        if (stride[b] < 1 || stride[a] % stride[b] != 0) return false;
        l->pad[b] = stride[a] / stride[b] - dims[b];
        if (l->pad[b] < 0) return false;
    }
    return l->step >= 1;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static bool parse_quant(const char *s, struct bd_quant set[3], enum dtype dtype) {
    char part[TOKEN], field[6][TOKEN];
    while (next_part(&s, '+', part)) {
        const char *f = part;
        int n = 0;
        while (n < 6 && next_part(&f, ':', field[n]))
            n++;
        int t = strcmp(field[0], "src") == 0   ? BD_SRC
                : strcmp(field[0], "wei") == 0 ? BD_WEI
                : strcmp(field[0], "dst") == 0 ? BD_DST
                                               : -1;
        if (t < 0 || n < 2) return false;
        struct bd_quant *q = &set[t];
        q->dtype = dtype;
        int at = 2;
        if (strcmp(field[1], "common") == 0 || strcmp(field[1], "host_scalar") == 0) {
            q->policy = BD_COMMON;
            q->value = n > 2 ? strtod(field[2], NULL) : 1;
            at = 3;
        } else if (strcmp(field[1], "per_oc") == 0) {
            q->policy = BD_PER_OC;
        } else if (strcmp(field[1], "per_tensor") == 0 || strcmp(field[1], "per_ocic") == 0) {
            q->policy = BD_GROUPED;
        } else if (strcmp(field[1], "mx") == 0 || strcmp(field[1], "dynamic_fp") == 0) {
            q->policy = BD_MX;
        } else {
            return false;
        }
        if (n > at && !parse_dtype(field[at], &q->dtype)) return false;
        q->group[0] = q->group[1] = 1;
        if (n > at + 1 && parse_dims(field[at + 1], q->group, 2) != 2) return false;
        if (n > at + 2 || q->group[0] < 1 || q->group[1] < 1) return false;
    }
    return true;
}

static bool parse_post(const char *s, struct bd_post *o) {
    static const char *const binary[] = {"add", "sub", "mul", "div", "max", "min",
                                         "eq",  "ne",  "lt",  "le",  "gt",  "ge"};
    static const char *const eltwise[] = {
        "relu",    "tanh",  "logistic", "gelu_erf",  "gelu_tanh", "elu",    "clip",
        "clip_v2", "abs",   "sqrt",     "exp",       "log",       "square", "linear",
        "pow",     "swish", "mish",     "hardswish", "soft_relu", "round",  "hardsigmoid"};
    char part[TOKEN];
    if (!next_part(&s, ':', part) || strlen(part) >= sizeof o->name) return false;
    *o = (struct bd_post){.kind = BD_ELTWISE};
    snprintf(o->name, sizeof o->name, "%.15s", part);
    bool known = false;
    for (size_t i = 0; i < COUNT_OF(eltwise); i++)
        known = known || strcmp(part, eltwise[i]) == 0;
    if (strcmp(part, "sum") == 0) o->kind = BD_SUM;
    if (strcmp(part, "prelu") == 0) o->kind = BD_PRELU;
    if (strcmp(part, "select") == 0) o->kind = BD_SELECT;
    for (size_t i = 0; i < COUNT_OF(binary); i++)
        if (strcmp(part, binary[i]) == 0) o->kind = BD_BINARY;
    if (!known && o->kind == BD_ELTWISE) return false;
    if (o->kind == BD_PRELU) return s == NULL;
    if (o->kind == BD_BINARY || o->kind == BD_SELECT) {
        char sep = o->kind == BD_SELECT ? '.' : ':';
        if (!next_part(&s, sep, part) || !parse_dtype(part, &o->dtype)) return false;
        if (!next_part(&s, sep, part)) return false;
        o->per_oc = strcmp(part, "per_oc") == 0;
        return s == NULL && (o->per_oc || strcmp(part, "common") == 0);
    }
    while (o->n_args < 2 && next_part(&s, ':', part))
        o->arg[o->n_args++] = strtod(part, NULL);
    return s == NULL;
}

static bool parse_posts(const char *s, struct bd_problem *p) {
    char part[TOKEN];
    while (next_part(&s, '+', part))
        if (p->n_posts == BD_POSTS || !parse_post(part, &p->post[p->n_posts++])) return false;
    return true;
}

static bool parse_fpmath(const char *s, struct bd_problem *p) {
    char part[TOKEN];
    if (!next_part(&s, ':', part)) return false;
    p->math_ints = s != NULL && strcmp(s, "true") == 0;
    if (strcmp(part, "strict") == 0 || strcmp(part, "tf32") == 0) return true;
    return parse_dtype(part, &p->math);
}

/* ---- lines ----------------------------------------------------------------------------------- */

struct texts { /* what can be read only when the dims are known */
    char tag[3][TOKEN];
    char strides[3][TOKEN];
};

static bool parse_option(const char *o, const char *v, struct bd_problem *p, struct texts *t) {
    if (strcmp(o, "--reset") == 0) return true;
    if (v == NULL) return false;
    if (strcmp(o, "--dt") == 0) {
        char part[TOKEN];
        for (int i = 0; i < 3; i++)
            if (!next_part(&v, ':', part) || !parse_dtype(part, &p->dtype[i])) return false;
        return v == NULL;
    }
    static const char *const tag[] = {"--stag", "--wtag", "--dtag"};
    for (int i = 0; i < 3; i++)
        if (strcmp(o, tag[i]) == 0) return snprintf(t->tag[i], TOKEN, "%s", v) < TOKEN;
    if (strcmp(o, "--strides") == 0) {
        for (int i = 0; i < 3; i++)
            if (!next_part(&v, ':', t->strides[i])) return false;
        return v == NULL;
    }
    if (strcmp(o, "--attr-scales") == 0) return parse_quant(v, p->scale, DT_F32);
    if (strcmp(o, "--attr-zero-points") == 0) return parse_quant(v, p->zero, DT_I32);
    if (strcmp(o, "--attr-post-ops") == 0) return parse_posts(v, p);
    if (strcmp(o, "--attr-fpmath") == 0) return parse_fpmath(v, p);
    if (strcmp(o, "--bia-dt") == 0) return p->has_bias = parse_dtype(v, &p->bias);
    if (strcmp(o, "--bia_mask") == 0) {
        p->bias_mask = (unsigned)strtoul(v, NULL, 10);
        return true;
    }
    /* How a library gets there, not what it computes: sums that zero points need, and dims that are
     * known only when it runs. */
    return strcmp(o, "--attr-precomputed-reductions") == 0 ||
           strcmp(o, "--runtime_dims_masks") == 0;
}

bool bd_parse(const char *line, struct bd_problem *p, char *why, size_t room) {
    struct texts t;
    memset(&t, 0, sizeof t);
    *p = (struct bd_problem){.math = DT_F32};
    bool found = false;
    const char *at = line;
    char word[TOKEN];
    while (next_part(&at, ' ', word)) {
        if (word[0] == '\0') continue;
        if (word[0] != '-') {
            if (found || !parse_problem(word, p)) return fail(why, room, "problem", word);
            found = true;
            continue;
        }
        char *v = strchr(word, '=');
        if (v != NULL) *v++ = '\0';
        if (!parse_option(word, v, p, &t)) return fail(why, room, "option", word);
    }
    if (!found) return fail(why, room, "no problem", "");
    for (int i = 0; i < 3; i++) {
        struct bd_layout *l = &p->layout[i];
        const char *tag = t.tag[i][0] != '\0' ? t.tag[i] : "abx";
        if (!layout_tag(tag, p->rank, l)) return fail(why, room, "tag", tag);
        if (t.strides[i][0] != '\0' && !layout_strides(t.strides[i], p->rank, p->dims[i], l))
            return fail(why, room, "strides that overlap or are no multiples:", t.strides[i]);
    }
    return true;
}

/* ---- smaller --------------------------------------------------------------------------------- */

static int64_t smaller(int64_t d, int64_t unit, int64_t limit) {
    return d <= limit ? d : limit - unit + (d - limit) % unit + (d % unit == 0 ? unit : 0);
}

void bd_shrink(struct bd_problem *p) {
    int r = p->rank;
    int64_t unit = 64;
    for (int t = 0; t < 2; t++) { /* groups are powers of two */
        const struct bd_quant *q[] = {&p->scale[t], &p->zero[t]};
        for (int i = 0; i < 2; i++) {
            int64_t g = q[i]->policy == BD_GROUPED ? q[i]->group[t == BD_SRC ? 1 : 0] : 1;
            if (g > unit) unit = g;
        }
    }
    int64_t k = smaller(p->dims[BD_SRC][r - 1], unit, unit < 128 ? 128 : unit);
    int64_t m = smaller(p->dims[BD_SRC][r - 2], 32, 64),
            n = smaller(p->dims[BD_WEI][r - 1], 64, 96);
    p->dims[BD_SRC][r - 1] = p->dims[BD_WEI][r - 2] = k;
    p->dims[BD_SRC][r - 2] = p->dims[BD_DST][r - 2] = m;
    p->dims[BD_WEI][r - 1] = p->dims[BD_DST][r - 1] = n;
    for (int t = 0; t < 3; t++) {
        for (int i = 0; i < r - 2; i++)
            if (p->dims[t][i] > 3) p->dims[t][i] = 3;
        for (int i = 0; i < r; i++)
            if (p->layout[t].pad[i] > 24) p->layout[t].pad[i] = 8 + p->layout[t].pad[i] % 16;
    }
}
