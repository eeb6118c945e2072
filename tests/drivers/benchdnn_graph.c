/* SPDX-License-Identifier: MIT
 * A struct problem as graph text. oneDNN's meaning: (src - zp) * scale times (wei - zp) * scale,
 * plus bias, post-ops in order, in f32; the result divided by its scale, plus its zero point,
 * rounded and saturated. Integers whose scales do not change along k are multiplied as integers.
 *
 * A parameter has the order of dims in memory and its padding, which slices cut off; a permute
 * gives the problem's order. Results have their order, without padding.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchdnn.h"

struct text {
    struct problem *p;
    struct str params, body;
    int n_params, n_names;
    bool given; /* a second result: the scales of mx */
};

static void leave_out(struct problem *p, const char *why) {
    if (p->left_out[0] == '\0') snprintf(p->left_out, sizeof p->left_out, "%s", why);
}

static void print_list(struct str *s, const int64_t *d, int n) {
    str_add(s, "[");
    for (int i = 0; i < n; i++)
        str_printf(s, "%s%lld", i > 0 ? ", " : "", (long long)d[i]);
    str_add(s, "]");
}

static void param(struct text *t, const char *name, bool is_const, const char *dtype,
                  const int64_t *d, int n) {
    str_printf(&t->params, "%s%s%s: %s", t->n_params++ > 0 ? ",\n    " : "",
               is_const ? "const " : "", name, dtype);
    print_list(&t->params, d, n);
}

static const char *quant_kind(const struct quant *q) {
    if (!q->on) return "none";
    if (strcmp(q->policy, "common") == 0 || strcmp(q->policy, "host_scalar") == 0) return "scalar";
    return q->policy;
}

static bool is_scalar(const struct quant *q) {
    return strcmp(quant_kind(q), "scalar") == 0;
}

/* ---- places in memory ------------------------------------------------------------------------ */

static bool in_order(const struct layout *l, int n) {
    for (int i = 0; i < n; i++)
        if (l->order[i] != i) return false;
    return true;
}

/* The operand in the problem's order; its name is `name`. */
static void operand(struct text *t, int arg, const char *name, bool is_const) {
    struct problem *p = t->p;
    const struct layout *l = &p->layout[arg];
    int n = p->rank, r = n + (l->step > 1);
    int64_t extent[MAX_DIMS + 1], size[MAX_DIMS + 1];
    bool cut = false;
    for (int i = 0; i < n; i++) {
        size[i] = p->dims[arg][l->order[i]];
        extent[i] = size[i] + l->pad[l->order[i]];
        cut = cut || extent[i] != size[i];
    }
    size[n] = 1;
    extent[n] = l->step;
    bool moved = !in_order(l, n) || cut;
    char full[24], next[24];
    snprintf(full, sizeof full, "%s%s", name, moved || r > n ? "_mem" : "");
    param(t, full, is_const, p->dt[arg], extent, r);
    for (int i = 0; i < r; i++) {
        if (extent[i] == size[i]) continue;
        snprintf(next, sizeof next, "%s_cut%d", name, i);
        str_printf(&t->body, "  %s = slice(%s, axis=%d, stop=%lld)\n", next, full, i,
                   (long long)size[i]);
        memcpy(full, next, sizeof full);
    }
    if (r > n) {
        str_printf(&t->body, "  %s%s = squeeze(%s, %d)\n", name, moved ? "_line" : "", full, n);
        snprintf(full, sizeof full, "%s_line", name);
    }
    if (!moved) return;
    int inverse[MAX_DIMS];
    for (int i = 0; i < n; i++)
        inverse[l->order[i]] = i;
    str_printf(&t->body, "  %s = permute(%s, [", name, full);
    for (int i = 0; i < n; i++)
        str_printf(&t->body, "%s%d", i > 0 ? ", " : "", inverse[i]);
    str_add(&t->body, "])\n");
}

/* ---- scales and zero points ------------------------------------------------------------------ */

/* A scale's dims, of the argument's rank; g gets the group of each of the last two dims. */
static int quant_dims(const struct problem *p, int arg, const struct quant *q, int64_t *d,
                      int64_t *g) {
    int n = p->rank;
    g[0] = g[1] = 1;
    if (is_scalar(q)) return 0;
    for (int i = 0; i < n; i++)
        d[i] = p->dims[arg][i];
    if (strcmp(q->policy, "per_oc") == 0) {
        for (int i = 0; i < n - 1; i++)
            d[i] = 1;
        return n;
    }
    for (int i = 0; i < 2; i++) {
        if (q->group[i] > 1) g[i] = q->group[i];
        d[n - 2 + i] = (d[n - 2 + i] + g[i] - 1) / g[i];
    }
    return n;
}

/* name (dims d, groups g) as f32 in full, spread over its groups; the name of the result. */
static void spread(struct text *t, const char *name, int arg, int64_t *d, const int64_t *g,
                   int rank, char *out, size_t size) {
    snprintf(out, size, "%s_f", name);
    str_printf(&t->body, "  %s = cast(%s, f32)\n", out, name);
    for (int i = 0; i < 2 && rank > 0; i++) {
        int axis = rank - 2 + i;
        if (g[i] == 1) continue;
        int64_t wide[MAX_DIMS + 1];
        for (int k = 0; k <= rank; k++)
            wide[k] = k <= axis ? d[k] : k == axis + 1 ? g[i] : d[k - 1];
        str_printf(&t->body, "  %s%d = expand(unsqueeze(%s, %d), ", name, i, out, axis + 1);
        print_list(&t->body, wide, rank + 1);
        d[axis] *= g[i];
        str_printf(&t->body, ")\n  %s%dr = reshape(%s%d, ", name, i, name, i);
        print_list(&t->body, d, rank);
        str_add(&t->body, ")\n");
        snprintf(out, size, "%s%dr", name, i);
        if (d[axis] == t->p->dims[arg][axis]) continue;
        d[axis] = t->p->dims[arg][axis];
        str_printf(&t->body, "  %s%ds = slice(%s, axis=%d, stop=%lld)\n", name, i, out, axis,
                   (long long)d[axis]);
        snprintf(out, size, "%s%ds", name, i);
    }
}

/* The argument with zero point and scale, as `name`_q; in f32, or dtype for one step. */
static void dequantized(struct text *t, int arg, const char *name, const char *dtype, char *out,
                        size_t size) {
    struct problem *p = t->p;
    const struct quant *s = &p->scale[arg], *z = &p->zero[arg];
    int64_t ds[MAX_DIMS], dz[MAX_DIMS], gs[2], gz[2];
    int rs = quant_dims(p, arg, s, ds, gs), rz = quant_dims(p, arg, z, dz, gz);
    char sn[16], zn[16], sf[24], zf[24];
    snprintf(sn, sizeof sn, "%s_s", name);
    snprintf(zn, sizeof zn, "%s_z", name);
    bool c = arg == WEI;
    if (s->on) param(t, sn, c, s->dtype, ds, rs);
    if (z->on) param(t, zn, c, z->dtype, dz, rz);
    snprintf(out, size, "%s_q", name);
    bool one_axis = gs[0] == 1 || gs[1] == 1;
    bool alike = !z->on || (rs == rz && memcmp(gs, gz, sizeof gs) == 0 &&
                            memcmp(ds, dz, (size_t)rs * sizeof *ds) == 0);
    enum dtype own = dtype_from_name(p->dt[arg], strlen(p->dt[arg]));
    if (s->on && alike && one_axis && dtype_cat(own) != CAT_F) {
        int axis = p->rank - (gs[0] > 1 ? 2 : 1);
        int64_t block = gs[0] > 1 ? gs[0] : gs[1] > 1 ? gs[1] : 0;
        str_printf(&t->body, "  %s = dequantize(%s, %s", out, name, sn);
        if (z->on)
            str_printf(&t->body, strcmp(z->dtype, p->dt[arg]) == 0 ? ", %s" : ", cast(%s, f32)",
                       zn);
        str_printf(&t->body, ", axis=%d, block=%lld, dtype=%s)\n", axis, (long long)block, dtype);
        return;
    }
    str_printf(&t->body, "  %s_c = cast(%s, f32)\n", name, name);
    snprintf(out, size, "%s_c", name);
    if (z->on) {
        spread(t, zn, arg, dz, gz, rz, zf, sizeof zf);
        str_printf(&t->body, "  %s_d = %s - %s\n", name, out, zf);
        snprintf(out, size, "%s_d", name);
    }
    if (s->on) {
        spread(t, sn, arg, ds, gs, rs, sf, sizeof sf);
        str_printf(&t->body, "  %s_q = %s * %s\n", name, out, sf);
        snprintf(out, size, "%s_q", name);
    }
}

static bool is_float_name(const char *d) {
    return d[0] == 'f' || d[0] == 'b';
}

/* No zero points, and scales that are the same for all of k. */
static bool as_integers(const struct problem *p) {
    for (int i = 0; i < 2; i++) {
        const struct quant *s = &p->scale[i];
        bool simple = !s->on || is_scalar(s) || (i == WEI && strcmp(s->policy, "per_oc") == 0);
        if (is_float_name(p->dt[i]) || p->zero[i].on || !simple) return false;
    }
    return true;
}

static void product(struct text *t) {
    struct problem *p = t->p;
    if (as_integers(p)) {
        str_add(&t->body, "  acc = cast(matmul(src, wei), f32)\n");
        const char *y = "acc";
        for (int i = 0; i < 2; i++) {
            int64_t d[MAX_DIMS], g[2];
            if (!p->scale[i].on) continue;
            int r = quant_dims(p, i, &p->scale[i], d, g);
            param(t, i == SRC ? "src_s" : "wei_s", i == WEI, p->scale[i].dtype, d, r);
            str_printf(&t->body, "  acc_%d = %s * cast(%s, f32)\n", i, y,
                       i == SRC ? "src_s" : "wei_s");
            y = i == SRC ? "acc_0" : "acc_1";
        }
        str_printf(&t->body, "  y0 = %s * 1\n", y);
        return;
    }
    char a[24] = "src", b[24] = "wei";
    bool qa = p->scale[SRC].on || p->zero[SRC].on, qb = p->scale[WEI].on || p->zero[WEI].on;
    if (qa) dequantized(t, SRC, "src", "f32", a, sizeof a);
    bool half = strcmp(p->dt[SRC], "f16") == 0 || strcmp(p->dt[SRC], "bf16") == 0;
    const char *wide = half && !qa ? p->dt[SRC] : "f32";
    if (qb) dequantized(t, WEI, "wei", wide, b, sizeof b);
    const char *left = a, *right = b;
    if (!qa && !is_float_name(p->dt[SRC])) {
        str_add(&t->body, "  src_w = cast(src, f32)\n");
        left = "src_w";
    }
    if (!qb && strcmp(p->dt[WEI], p->dt[SRC]) != 0) {
        str_printf(&t->body, "  wei_w = cast(wei, %s)\n", wide);
        right = "wei_w";
    }
    bool rounded = p->math[0] != '\0' && strcmp(p->dt[SRC], "f32") == 0 &&
                   (p->math_ints || strcmp(p->dt[WEI], "f32") == 0);
    if (rounded)
        str_printf(&t->body, "  y0 = matmul(cast(%s, %s), cast(%s, %s), out=f32)\n", left, p->math,
                   right, p->math);
    else
        str_printf(&t->body, "  y0 = matmul(%s, %s, out=f32)\n", left, right);
}

/* ---- behind the product ---------------------------------------------------------------------- */

static void policy_dims(const struct problem *p, const char *policy, int64_t *d) {
    int n = p->rank;
    bool all = strcmp(policy, "per_tensor") == 0;
    for (int i = 0; i < n; i++)
        d[i] = all ? p->dims[DST][i] : 1;
    if (strcmp(policy, "per_oc") == 0) d[n - 1] = p->dims[DST][n - 1];
    if (strcmp(policy, "per_mb") == 0) d[0] = p->dims[DST][0];
}

static const struct {
    const char *kind, *text; /* Y: the value; A, B: arguments */
} simple_ops[] = {
    {"tanh", "tanh(Y)"},
    {"logistic", "sigmoid(Y)"},
    {"gelu_erf", "gelu(Y)"},
    {"gelu_tanh", "gelu(Y, approximate=\"tanh\")"},
    {"elu", "elu(Y, alpha=A)"},
    {"clip", "clamp(Y, A, B)"},
    {"clip_v2", "clamp(Y, A, B)"},
    {"linear", "Y * A + B"},
    {"swish", "Y * sigmoid(A * Y)"},
    {"mish", "mish(Y)"},
    {"square", "square(Y)"},
    {"abs", "abs(Y)"},
    {"sqrt", "sqrt(Y)"},
    {"exp", "exp(Y)"},
    {"log", "log(Y)"},
    {"hardswish", "hardswish(Y)"},
    {"hardsigmoid", "hardsigmoid(Y)"},
    {"soft_relu", "softplus(A * Y) / A"},
    {"pow", "A * Y ** B"},
    {"round", "round(Y)"},
};

static void write_simple(struct text *t, int i, const struct post_op *op, const char *text) {
    str_printf(&t->body, "  y%d = ", i + 1);
    for (const char *c = text; *c != '\0'; c++) {
        bool word = c > text && c[-1] >= 'a' && c[-1] <= 'z';
        if (*c == 'Y' && !word)
            str_printf(&t->body, "y%d", i);
        else if ((*c == 'A' || *c == 'B') && !word) {
            int k = *c - 'A';
            str_printf(&t->body, "(%s)", k < op->n_args ? op->arg[k] : k == 0 ? "1" : "0");
        } else
            str_addn(&t->body, c, 1);
    }
    str_add(&t->body, "\n");
}

static const char *graph_dtype(const char *s) {
    static const char *const map[][2] = {
        {"s32", "i32"}, {"s8", "i8"}, {"f8_e4m3", "f8e4m3fn"}, {"f8_e5m2", "f8e5m2"}};
    for (size_t i = 0; i < COUNT_OF(map); i++)
        if (strcmp(map[i][0], s) == 0) return map[i][1];
    return s;
}

static bool write_binary(struct text *t, int i, const struct post_op *op) {
    static const char *const names[][2] = {{"add", "y + x"},
                                           {"sub", "y - x"},
                                           {"mul", "y * x"},
                                           {"div", "y / x"},
                                           {"max", "maximum(y, x)"},
                                           {"min", "minimum(y, x)"},
                                           {"ge", "cast(y >= x, f32)"},
                                           {"gt", "cast(y > x, f32)"},
                                           {"le", "cast(y <= x, f32)"},
                                           {"lt", "cast(y < x, f32)"},
                                           {"eq", "cast(y == x, f32)"},
                                           {"ne", "cast(y != x, f32)"}};
    for (size_t k = 0; k < COUNT_OF(names); k++) {
        if (strcmp(names[k][0], op->kind) != 0) continue;
        int64_t d[MAX_DIMS];
        char name[16];
        policy_dims(t->p, op->n_args > 1 ? op->arg[1] : "per_tensor", d);
        snprintf(name, sizeof name, "x%d", i);
        param(t, name, false, op->n_args > 0 ? graph_dtype(op->arg[0]) : "f32", d, t->p->rank);
        str_printf(&t->body, "  x%df = cast(x%d, f32)\n  y%d = ", i, i, i + 1);
        for (const char *c = names[k][1]; *c != '\0'; c++) {
            bool alone = (c == names[k][1] || strchr(" (", c[-1]) != NULL) &&
                         (c[1] == '\0' || strchr(" ,)", c[1]) != NULL);
            if (*c == 'y' && alone)
                str_printf(&t->body, "y%d", i);
            else if (*c == 'x' && alone)
                str_printf(&t->body, "x%df", i);
            else
                str_addn(&t->body, c, 1);
        }
        str_add(&t->body, "\n");
        return true;
    }
    return false;
}

static bool write_post_op(struct text *t, int i, const struct post_op *op) {
    struct problem *p = t->p;
    int64_t d[MAX_DIMS];
    char name[16];
    for (size_t k = 0; k < COUNT_OF(simple_ops); k++) {
        if (strcmp(simple_ops[k].kind, op->kind) != 0) continue;
        write_simple(t, i, op, simple_ops[k].text);
        return true;
    }
    snprintf(name, sizeof name, "x%d", i);
    if (strcmp(op->kind, "relu") == 0) {
        bool leaky = op->n_args > 0 && strtod(op->arg[0], NULL) != 0;
        if (leaky)
            str_printf(&t->body, "  y%d = leaky_relu(y%d, slope=%s)\n", i + 1, i, op->arg[0]);
        else
            str_printf(&t->body, "  y%d = relu(y%d)\n", i + 1, i);
        return true;
    }
    if (strcmp(op->kind, "sum") == 0) {
        param(t, name, false, p->dt[DST], p->dims[DST], p->rank);
        str_printf(&t->body, "  y%d = y%d + cast(x%d, f32) * (%s)\n", i + 1, i, i,
                   op->n_args > 0 ? op->arg[0] : "1");
        return true;
    }
    if (strcmp(op->kind, "prelu") == 0) {
        policy_dims(p, op->n_args > 0 ? op->arg[0] : "common", d);
        param(t, name, true, "f32", d, p->rank);
        str_printf(&t->body, "  y%d = where(y%d > 0, y%d, y%d * x%d)\n", i + 1, i, i, i, i);
        return true;
    }
    if (strcmp(op->kind, "select") == 0) {
        policy_dims(p, op->n_args > 1 ? op->arg[1] : "common", d);
        param(t, name, false, op->n_args > 0 ? graph_dtype(op->arg[0]) : "f32", d, p->rank);
        snprintf(name, sizeof name, "x%d_c", i);
        param(t, name, false, "i8", p->dims[DST], p->rank);
        str_printf(&t->body, "  y%d = where(x%d_c != 0, y%d, cast(x%d, f32))\n", i + 1, i, i, i);
        return true;
    }
    if (write_binary(t, i, op)) return true;
    char why[64];
    snprintf(why, sizeof why, "post-op %.40s", op->kind);
    leave_out(p, why);
    return false;
}

/* One scale for each group of the last dim, from the largest magnitude in it; both are results. */
static bool write_dynamic(struct text *t, int last) {
    struct problem *p = t->p;
    int n = p->rank;
    int64_t g = p->scale[DST].group[1], size = p->dims[DST][n - 1];
    if (g < 1 || p->scale[DST].group[0] > 1 || size % g != 0) {
        leave_out(p, "dynamic scale of a partial group");
        return false;
    }
    static const char *const top[][2] = {
        {"f8e4m3fn", "448"}, {"f8e5m2", "57344"}, {"f4e2m1fn", "6"}};
    const char *max = NULL;
    for (size_t i = 0; i < COUNT_OF(top); i++)
        if (strcmp(top[i][0], p->dt[DST]) == 0) max = top[i][1];
    if (max == NULL) {
        leave_out(p, "dynamic scale of a dtype without one");
        return false;
    }
    int64_t d[MAX_DIMS + 1];
    memcpy(d, p->dims[DST], sizeof p->dims[DST]);
    d[n - 1] = size / g;
    d[n] = g;
    str_printf(&t->body, "  grouped = reshape(y%d, ", last);
    print_list(&t->body, d, n + 1);
    str_printf(&t->body,
               ")\n  dst_scale = cast(max(abs(grouped), axes=[%d], keepdims=true) / %s, %s)\n"
               "  ratio = grouped / cast(dst_scale, f32)\n  yq = reshape(ratio, ",
               n, max, p->scale[DST].dtype);
    print_list(&t->body, p->dims[DST], n);
    str_add(&t->body, ")\n");
    t->given = true;
    return true;
}

/* The value in the result's dtype, by its scale and zero point. */
static void write_result(struct text *t, const char *last, bool dynamic) {
    struct problem *p = t->p;
    const struct quant *s = &p->scale[DST], *z = &p->zero[DST];
    const char *d = p->dt[DST];
    bool scaled = s->on && !dynamic;
    if (scaled) param(t, "dst_s", false, s->dtype, NULL, 0);
    if (z->on) param(t, "dst_z", false, z->dtype, NULL, 0);
    if (is_float_name(d)) {
        str_printf(&t->body, "  out = cast(%s%s%s, %s%s)\n", last,
                   scaled ? " / cast(dst_s, f32)" : "", z->on ? " + cast(dst_z, f32)" : "", d,
                   strncmp(d, "f8", 2) == 0 ? ", saturate=true" : "");
        return;
    }
    if (scaled)
        str_printf(&t->body, "  out = quantize(%s, dst_s%s, dtype=%s)\n", last,
                   z->on ? ", cast(dst_z, f32)" : "", d);
    else
        str_printf(&t->body, "  out = cast(round(%s)%s, %s)\n", last,
                   z->on ? " + cast(dst_z, f32)" : "", d);
}

static bool results(struct text *t) {
    struct problem *p = t->p;
    int i = 0, n = p->rank;
    if (p->bias[0] != '\0') {
        int64_t d[MAX_DIMS], mask = p->bias_mask < 0 ? (int64_t)1 << (n - 1) : p->bias_mask;
        for (int k = 0; k < n; k++)
            d[k] = mask >> k & 1 ? p->dims[DST][k] : 1;
        param(t, "bias", true, p->bias, d, n);
        str_add(&t->body, "  y1 = y0 + cast(bias, f32)\n");
        i = 1;
    }
    for (int k = 0; k < p->n_ops; k++, i++)
        if (!write_post_op(t, i, &p->op[k])) return false;
    const struct quant *s = &p->scale[DST];
    bool dynamic = s->on && (strcmp(s->policy, "mx") == 0 || strcmp(s->policy, "dynamic_fp") == 0);
    if (dynamic && !write_dynamic(t, i)) return false;
    char last[16];
    snprintf(last, sizeof last, dynamic ? "yq" : "y%d", i);
    write_result(t, last, dynamic);
    return true;
}

static void write_return(struct text *t) {
    struct problem *p = t->p;
    const struct layout *l = &p->layout[DST];
    str_add(&t->body, "  return ");
    if (in_order(l, p->rank)) {
        str_add(&t->body, "out");
    } else {
        str_add(&t->body, "permute(out, [");
        for (int i = 0; i < p->rank; i++)
            str_printf(&t->body, "%s%d", i > 0 ? ", " : "", l->order[i]);
        str_add(&t->body, "])");
    }
    str_add(&t->body, t->given ? ", dst_scale\n" : "\n");
}

bool problem_graph(struct problem *p, struct str *out) {
    if (p->left_out[0] != '\0') return false;
    struct text t = {.p = p};
    str_init(&t.params, &allocator_default);
    str_init(&t.body, &allocator_default);
    operand(&t, SRC, "src", false);
    operand(&t, WEI, "wei", true);
    product(&t);
    bool ok = results(&t);
    if (ok) {
        write_return(&t);
        str_printf(out, "graph problem(%s) {\n%s}\n", str_text(&t.params), str_text(&t.body));
    }
    str_free(&t.params);
    str_free(&t.body);
    return ok && !out->failed;
}
