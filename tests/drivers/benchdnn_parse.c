/* SPDX-License-Identifier: MIT
 * One line of benchdnn's options to a struct problem. Options that only choose an implementation
 * (runtime dims, precomputed reductions) change no value and are passed over; an option that is not
 * known leaves the problem out.
 *
 * A tag gives the order of dims in memory. Strides give it as well, sorted, and the ratios of
 * neighbouring strides are the lengths with padding. A dim of size 1 has no place in memory: its
 * stride means nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchdnn.h"

static void copy(char *out, size_t size, const char *s, size_t n) {
    if (n >= size) n = size - 1;
    memcpy(out, s, n);
    out[n] = '\0';
}

static void leave_out(struct problem *p, const char *why) {
    if (p->left_out[0] == '\0') snprintf(p->left_out, sizeof p->left_out, "%s", why);
}

/* The graph's name of a dtype. */
static void dtype_word(struct problem *p, const char *s, size_t n, char *out, size_t size) {
    static const char *const map[][2] = {{"f64", "f64"},
                                         {"f32", "f32"},
                                         {"f16", "f16"},
                                         {"bf16", "bf16"},
                                         {"s32", "i32"},
                                         {"s8", "i8"},
                                         {"u8", "u8"},
                                         {"s4", "i4"},
                                         {"u4", "u4"},
                                         {"e8m0", "e8m0"},
                                         {"f8_e4m3", "f8e4m3fn"},
                                         {"f8_e5m2", "f8e5m2"},
                                         {"f4_e2m1", "f4e2m1fn"}};
    for (size_t i = 0; i < COUNT_OF(map); i++) {
        if (strlen(map[i][0]) != n || strncmp(map[i][0], s, n) != 0) continue;
        snprintf(out, size, "%s", map[i][1]);
        return;
    }
    snprintf(out, size, "f32");
    leave_out(p, "a dtype that the graphs lack");
}

/* Numbers between `x`; the count. */
static int numbers(const char *s, size_t n, int64_t *out, int max) {
    int count = 0;
    const char *end = s + n;
    while (s < end && count < max) {
        char *next = NULL;
        out[count++] = strtoll(s, &next, 10);
        s = next;
        if (s < end && *s == 'x')
            s++;
        else
            break;
    }
    return count;
}

/* Fields of s up to `end`, cut at c. */
struct field {
    const char *at;
    size_t n;
};
static int fields(const char *s, size_t n, char c, struct field *out, int max) {
    int count = 0;
    while (count < max) {
        const char *cut = memchr(s, c, n);
        size_t len = cut != NULL ? (size_t)(cut - s) : n;
        out[count++] = (struct field){s, len};
        if (cut == NULL) break;
        s += len + 1;
        n -= len + 1;
    }
    return count;
}

static bool is(struct field f, const char *word) {
    return strlen(word) == f.n && strncmp(f.at, word, f.n) == 0;
}

static void read_quant(struct problem *p, const char *s, size_t n, struct quant *q) {
    struct field part[4];
    int parts = fields(s, n, '+', part, 4);
    for (int i = 0; i < parts; i++) {
        struct field f[6];
        int count = fields(part[i].at, part[i].n, ':', f, 6);
        int arg = is(f[0], "src") ? SRC : is(f[0], "wei") ? WEI : DST;
        if (count < 2) continue;
        struct quant *to = &q[arg];
        to->on = true;
        copy(to->policy, sizeof to->policy, f[1].at, f[1].n);
        snprintf(to->dtype, sizeof to->dtype, "%s", q == p->scale ? "f32" : "i32");
        for (int k = 2; k < count; k++) {
            int64_t g[2];
            bool digit =
                f[k].n > 0 && (f[k].at[0] == '-' || (f[k].at[0] >= '0' && f[k].at[0] <= '9'));
            if (!digit)
                dtype_word(p, f[k].at, f[k].n, to->dtype, sizeof to->dtype);
            else if (memchr(f[k].at, 'x', f[k].n) != NULL && numbers(f[k].at, f[k].n, g, 2) == 2)
                memcpy(to->group, g, sizeof g);
        }
    }
}

static void read_post_ops(struct problem *p, const char *s, size_t n) {
    struct field part[MAX_POST_OPS];
    int parts = fields(s, n, '+', part, MAX_POST_OPS);
    for (int i = 0; i < parts; i++) {
        struct field f[5];
        int count = fields(part[i].at, part[i].n, ':', f, 5);
        struct post_op *op = &p->op[p->n_ops++];
        copy(op->kind, sizeof op->kind, f[0].at, f[0].n);
        op->n_args = 0;
        for (int k = 1; k < count; k++) {
            struct field sub[3]; /* select:s32.per_oc */
            bool number = memchr("-.0123456789", f[k].at[0], 13) != NULL;
            int subs = number ? 1 : fields(f[k].at, f[k].n, '.', sub, 3);
            if (number) sub[0] = f[k];
            for (int j = 0; j < subs && op->n_args < 4; j++)
                copy(op->arg[op->n_args++], sizeof op->arg[0], sub[j].at, sub[j].n);
        }
    }
}

static bool value_of(const char *word, size_t n, const char *name, const char **v, size_t *len) {
    size_t k = strlen(name);
    if (n < k + 3 || strncmp(word, "--", 2) != 0 || strncmp(word + 2, name, k) != 0 ||
        word[2 + k] != '=')
        return false;
    *v = word + k + 3;
    *len = n - k - 3;
    return true;
}

/* What can be understood only when the dims are known. */
struct places {
    char tag[3][8];
    int64_t strides[3][MAX_DIMS];
    int n_strides[3];
};

static void read_fpmath(struct problem *p, const char *s, size_t n) {
    struct field f[2];
    int count = fields(s, n, ':', f, 2);
    p->math_ints = count == 2 && is(f[1], "true");
    if (is(f[0], "bf16") || is(f[0], "f16")) copy(p->math, sizeof p->math, f[0].at, f[0].n);
}

static void read_option(struct problem *p, struct places *m, const char *w, size_t n) {
    const char *v;
    size_t len;
    struct field f[3];
    static const char *const tags[] = {"stag", "wtag", "dtag"};
    static const char *const passed[] = {"runtime_dims_masks", "attr-precomputed-reductions"};
    for (int i = 0; i < 3; i++) {
        if (!value_of(w, n, tags[i], &v, &len)) continue;
        copy(m->tag[i], sizeof m->tag[i], v, len);
        return;
    }
    for (size_t i = 0; i < COUNT_OF(passed); i++)
        if (value_of(w, n, passed[i], &v, &len)) return;
    if (value_of(w, n, "dt", &v, &len)) {
        int count = fields(v, len, ':', f, 3);
        for (int i = 0; i < 3; i++)
            dtype_word(p, f[i < count ? i : 0].at, f[i < count ? i : 0].n, p->dt[i],
                       sizeof p->dt[i]);
    } else if (value_of(w, n, "strides", &v, &len)) {
        int count = fields(v, len, ':', f, 3);
        for (int i = 0; i < count; i++)
            if (f[i].n > 0) m->n_strides[i] = numbers(f[i].at, f[i].n, m->strides[i], MAX_DIMS);
    } else if (value_of(w, n, "attr-scales", &v, &len)) {
        read_quant(p, v, len, p->scale);
    } else if (value_of(w, n, "attr-zero-points", &v, &len)) {
        read_quant(p, v, len, p->zero);
    } else if (value_of(w, n, "attr-post-ops", &v, &len)) {
        read_post_ops(p, v, len);
    } else if (value_of(w, n, "bia-dt", &v, &len)) {
        dtype_word(p, v, len, p->bias, sizeof p->bias);
    } else if (value_of(w, n, "bia_mask", &v, &len)) {
        p->bias_mask = strtoll(v, NULL, 10);
    } else if (value_of(w, n, "attr-dropout", &v, &len)) {
        leave_out(p, "dropout (values of a random generator)");
    } else if (value_of(w, n, "attr-fpmath", &v, &len)) {
        read_fpmath(p, v, len);
    } else if (n != 7 || strncmp(w, "--reset", n) != 0) {
        char why[64];
        snprintf(why, sizeof why, "option %.*s", (int)(n < 40 ? strcspn(w, "=") : 40), w);
        leave_out(p, why);
    }
}

static bool read_sizes(struct problem *p, const char *w, size_t n) {
    struct field f[2];
    if (fields(w, n, ':', f, 2) != 2) return false;
    int a = numbers(f[0].at, f[0].n, p->dims[SRC], MAX_DIMS);
    int b = numbers(f[1].at, f[1].n, p->dims[WEI], MAX_DIMS);
    if (a != b || a < 2) return false;
    p->rank = a;
    for (int i = 0; i < a - 2; i++) {
        int64_t x = p->dims[SRC][i], y = p->dims[WEI][i];
        p->dims[DST][i] = x == 1 ? y : x;
    }
    p->dims[DST][a - 2] = p->dims[SRC][a - 2];
    p->dims[DST][a - 1] = p->dims[WEI][a - 1];
    return p->dims[SRC][a - 1] == p->dims[WEI][a - 2];
}

/* ---- places in memory ------------------------------------------------------------------------ */

static bool layout_of_tag(const char *tag, int rank, struct layout *l) {
    bool named = tag[0] != '\0' && strcmp(tag, "any") != 0 && strchr(tag, 'x') == NULL;
    unsigned seen = 0;
    *l = (struct layout){.step = 1};
    for (int i = 0; i < rank; i++) {
        l->order[i] = named && (int)strlen(tag) == rank ? tag[i] - 'a' : i;
        if (l->order[i] < 0 || l->order[i] >= rank) return false;
        seen |= 1u << l->order[i];
    }
    return seen == (1u << rank) - 1 && (!named || (int)strlen(tag) == rank);
}

/* Those of size 1 go outermost. */
static bool layout_of_strides(const int64_t *stride, const int64_t *dims, int rank,
                              struct layout *l) {
    *l = (struct layout){.step = 1};
    for (int i = 0; i < rank; i++) {
        int j = i;
        for (; j > 0; j--) {
            int a = l->order[j - 1];
            if (dims[a] == 1 || (dims[i] != 1 && stride[i] <= stride[a])) break;
            l->order[j] = a;
        }
        l->order[j] = i;
    }
    for (int i = 0; i < rank; i++) {
        int b = l->order[i], a = i > 0 ? l->order[i - 1] : b;
        if (dims[b] == 1) continue;
        if (stride[b] < 1) return false;
        if (i == rank - 1) l->step = stride[b];
        if (a == b || dims[a] == 1) continue;
        l->pad[b] = stride[a] / stride[b] - dims[b];
        if (stride[a] % stride[b] != 0 || l->pad[b] < 0) return false;
    }
    return true;
}

static void read_places(struct problem *p, const struct places *m) {
    for (int i = 0; i < 3; i++) {
        if (!layout_of_tag(m->tag[i], p->rank, &p->layout[i])) leave_out(p, "a tag");
        if (m->n_strides[i] == 0) continue;
        if (m->n_strides[i] != p->rank ||
            !layout_of_strides(m->strides[i], p->dims[i], p->rank, &p->layout[i]))
            leave_out(p, "strides that overlap or do not nest");
    }
}

bool problem_parse(const char *line, struct problem *p) {
    struct places places;
    memset(&places, 0, sizeof places);
    memset(p, 0, sizeof *p);
    p->bias_mask = -1;
    bool sizes = false;
    for (const char *w = line; *w != '\0';) {
        size_t n = strcspn(w, " \t\r\n");
        if (n > 2 && strncmp(w, "--", 2) == 0)
            read_option(p, &places, w, n);
        else if (n > 0)
            sizes = read_sizes(p, w, n);
        w += n;
        w += strspn(w, " \t\r\n");
    }
    if (sizes) read_places(p, &places);
    return sizes;
}

/* ---- smaller problems ------------------------------------------------------------------------ */

static int64_t smaller(int64_t d, int64_t limit, int64_t unit) {
    int64_t base = limit / unit * unit;
    if (d <= limit || d <= unit) return d;
    if (base < unit) base = unit;
    return d % unit == 0 ? base : base - unit + d % unit;
}

/* Elements of k that share a scale or zero point; groups are powers of two. */
static int64_t k_group(const struct problem *p) {
    int64_t unit = 64;
    for (int t = 0; t < 2; t++) {
        int64_t s = p->scale[t].group[t == SRC], z = p->zero[t].group[t == SRC];
        unit = s > unit ? s : unit;
        unit = z > unit ? z : unit;
    }
    return unit;
}

void problem_shrink(struct problem *p, int64_t limit) {
    int r = p->rank;
    int64_t m = smaller(p->dims[SRC][r - 2], limit, 64);
    int64_t unit = k_group(p); /* two groups stay two */
    int64_t k = smaller(p->dims[SRC][r - 1], limit < 2 * unit ? 2 * unit : limit, unit);
    int64_t n = smaller(p->dims[WEI][r - 1], limit, 64);
    p->dims[SRC][r - 2] = p->dims[DST][r - 2] = m;
    p->dims[SRC][r - 1] = p->dims[WEI][r - 2] = k;
    p->dims[WEI][r - 1] = p->dims[DST][r - 1] = n;
    for (int t = 0; t < 3; t++) {
        int64_t *pad = p->layout[t].pad;
        for (int i = 0; i < r; i++) {
            if (i < r - 2 && p->dims[t][i] > 3) p->dims[t][i] = p->dims[t][i] % 2 != 0 ? 3 : 2;
            if (pad[i] > 24) pad[i] = 8 + pad[i] % 16;
        }
        if (p->layout[t].step > 24) p->layout[t].step = 8 + p->layout[t].step % 16;
    }
}
