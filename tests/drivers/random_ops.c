/* SPDX-License-Identifier: MIT
 * The operators that random graphs are made of. Each function picks operands among the values so
 * far (recent ones rather) or makes parameters that fit, and leaves types and legality to the
 * library: what it refuses is dropped.
 */
#include "random_ops.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ARITH_F = 1, ARITH_I = 2, BOOLS = 4, STORE = 8, ANY = 15 };

struct dims {
    int n;
    char at[8][40];
};

/* ---- dtypes and dims ------------------------------------------------------------------------- */

static int category(enum dtype d) {
    switch (dtype_cat(d)) {
    case CAT_F: return ARITH_F;
    case CAT_Q: return STORE;
    case CAT_B: return BOOLS;
    default: return ARITH_I;
    }
}

static const char *random_dtype(struct choices *c, int kinds) {
    static const char *const name[] = {
        "f32", "f32", "f32",  "bf16",     "bf16",   "f16",      "f16", "f64", "i8",
        "u8",  "i32", "i64",  "i16",      "u16",    "u32",      "i4",  "u4",  "i2",
        "u2",  "u64", "bool", "f8e4m3fn", "f8e5m2", "f4e2m1fn", "e8m0"};
    for (int tries = 0; tries < 30; tries++) {
        const char *d = name[choose(c, (int)COUNT_OF(name))];
        if (category(dtype_from_name(d, strlen(d))) & kinds) return d;
    }
    return kinds & ARITH_F ? "f32" : kinds & ARITH_I ? "i32" : kinds & BOOLS ? "bool" : "f8e4m3fn";
}

static void random_dim(struct random_graph *r, char *out, size_t n) {
    static const int size[] = {1,  2,  3,  4,  5,  7,  8,  9,  12, 15, 16,
                               17, 20, 31, 32, 33, 47, 63, 64, 65, 130};
    if (r->n_symbols > 0 && choose(&r->c, 3) == 0) {
        snprintf(out, n, "%s", r->symbol[choose(&r->c, r->n_symbols)].name);
    } else if (choose(&r->c, 60) == 59) {
        snprintf(out, n, "0");
    } else {
        snprintf(out, n, "%d", size[choose(&r->c, (int)COUNT_OF(size))]);
    }
}

static struct dims dims_of(const struct gen_value *v) {
    struct dims d = {0};
    const char *p = strchr(v->type, '[');
    if (p == NULL) return d;
    p++;
    while (*p != '\0' && *p != ']' && d.n < 8) {
        size_t n = strcspn(p, ",]");
        if (n >= sizeof d.at[0]) n = sizeof d.at[0] - 1;
        memcpy(d.at[d.n], p, n);
        d.at[d.n++][n] = '\0';
        p += strcspn(p, ",]");
        if (*p == ',') p += 2;
    }
    return d;
}

static void print_dims(const struct dims *d, char *out, size_t n) {
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < d->n && used < n; i++)
        used += (size_t)snprintf(out + used, n - used, "%s%s", i > 0 ? ", " : "", d->at[i]);
}

static int new_param(struct random_graph *r, const char *dtype, const struct dims *d) {
    char dims[400], type[440];
    print_dims(d, dims, sizeof dims);
    snprintf(type, sizeof type, "%s[%s]", dtype, dims);
    return add_param(r, type, false, choose(&r->c, 3) == 0);
}

static int new_index(struct random_graph *r, const struct dims *d) {
    char dims[400], type[440];
    print_dims(d, dims, sizeof dims);
    snprintf(type, sizeof type, "%s[%s]", choose(&r->c, 2) ? "i64" : "i32", dims);
    return add_param(r, type, true, choose(&r->c, 3) == 0);
}

static int random_param(struct random_graph *r, int kinds, int min_rank, int max_rank) {
    struct dims d = {.n = min_rank + choose(&r->c, max_rank - min_rank + 1)};
    for (int i = 0; i < d.n; i++)
        random_dim(r, d.at[i], sizeof d.at[i]);
    return new_param(r, random_dtype(&r->c, kinds), &d);
}

/* ---- operands -------------------------------------------------------------------------------- */

static bool fits(const struct gen_value *v, int kinds, int min_rank, int max_rank) {
    return !v->is_index && (category(v->dtype) & kinds) != 0 && v->rank >= min_rank &&
           v->rank <= max_rank;
}

static int any_value(struct random_graph *r, int kinds, int min_rank, int max_rank) {
    int fit[MAX_VALUES], n = 0;
    for (int i = 0; i < r->n_values; i++)
        if (fits(&r->value[i], kinds, min_rank, max_rank)) fit[n++] = i;
    if (n > 0 && choose(&r->c, 6) != 0) {
        int back = choose(&r->c, 2) ? choose(&r->c, n < 3 ? n : 3) : choose(&r->c, n);
        return fit[n - 1 - back];
    }
    int from = min_rank < 1 && choose(&r->c, 4) != 0 ? 1 : min_rank;
    return random_param(r, kinds, from > max_rank ? max_rank : from, max_rank < 3 ? max_rank : 3);
}

static struct gen_step step(const char *op, const char *args, ...) PRINTF_LIKE(2, 3);
static struct gen_step step(const char *op, const char *args, ...) {
    struct gen_step s = {.n_out = 1};
    snprintf(s.op, sizeof s.op, "%s", op);
    va_list ap;
    va_start(ap, args);
    vsnprintf(s.args, sizeof s.args, args, ap);
    va_end(ap);
    return s;
}

static int apply(struct random_graph *r, struct gen_step s, int n, const int *in) {
    for (int i = 0; i < n; i++) {
        if (in[i] < 0) return -1;
        s.in[i] = in[i];
    }
    s.n_in = n;
    return add_step(r, &s);
}

static int apply1(struct random_graph *r, struct gen_step s, int x) {
    return apply(r, s, 1, &x);
}

static int cast_to(struct random_graph *r, int v, const char *dtype) {
    if (v < 0 || strcmp(dtype_name(r->value[v].dtype), dtype) == 0) return v;
    return apply1(r, step("cast", "%s", dtype), v);
}

/* A value that broadcasts with v: v's shape with some dims 1 or left off, an existing one of the
 * same type text, or a scalar. */
static int partner(struct random_graph *r, int v, int kinds) {
    struct dims d = dims_of(&r->value[v]);
    if (choose(&r->c, 3) == 0) {
        int fit[MAX_VALUES], n = 0;
        const char *dims = strchr(r->value[v].type, '[');
        for (int i = 0; i < r->n_values; i++) {
            if (fits(&r->value[i], kinds, 0, 8) && dims != NULL &&
                strcmp(strchr(r->value[i].type, '['), dims) == 0)
                fit[n++] = i;
        }
        if (n > 0) return fit[choose(&r->c, n)];
    }
    int cut = choose(&r->c, 3) == 0 ? choose(&r->c, d.n + 1) : 0;
    d.n -= cut;
    for (int i = 0; i < d.n; i++) {
        memmove(d.at[i], d.at[i + cut], sizeof d.at[i]);
        if (choose(&r->c, 4) == 0) snprintf(d.at[i], sizeof d.at[i], "1");
    }
    const char *same = dtype_name(r->value[v].dtype);
    bool keep = (category(r->value[v].dtype) & kinds) != 0 && choose(&r->c, 3) != 0;
    return new_param(r, keep ? same : random_dtype(&r->c, kinds), &d);
}

/* ---- elementwise ----------------------------------------------------------------------------- */

static void op_unary(struct random_graph *r) {
    static const char *const op[] = {
        "neg",       "abs",         "sign",  "exp",     "exp2",       "expm1",  "log",  "log2",
        "log10",     "log1p",       "sqrt",  "rsqrt",   "reciprocal", "square", "sin",  "cos",
        "tan",       "asin",        "acos",  "atan",    "sinh",       "cosh",   "tanh", "asinh",
        "acosh",     "atanh",       "erf",   "erfc",    "sigmoid",    "relu",   "silu", "mish",
        "hardswish", "hardsigmoid", "floor", "ceil",    "round",      "trunc",  "frac", "isnan",
        "isinf",     "gelu",        "relu",  "sigmoid", "silu",       "neg",    "abs",  "relu",
        "tanh",      "exp"};
    int v = any_value(r, ARITH_F | (choose(&r->c, 4) == 0 ? ARITH_I : 0), 0, 4);
    int k = choose(&r->c, (int)COUNT_OF(op) + 4);
    struct gen_step s;
    switch (k - (int)COUNT_OF(op)) {
    case 0: s = step("softplus", "beta=%d", 1 + choose(&r->c, 2)); break;
    case 1: s = step("elu", "alpha=%s", choose(&r->c, 2) ? "0.5" : "1.0"); break;
    case 2: s = step("leaky_relu", "slope=0.1"); break;
    case 3: s = step("gelu", "approximate=\"tanh\""); break;
    default: s = step(op[k], "%s", ""); break;
    }
    apply1(r, s, v);
}

static void op_binary(struct random_graph *r) {
    static const char *const op[] = {
        "add",  "sub",   "mul",      "div",         "minimum",    "maximum",    "add",
        "mul",  "sub",   "mul",      "add",         "pow",        "atan2",      "copysign",
        "fmod", "hypot", "floordiv", "mod",         "eq",         "ne",         "lt",
        "le",   "gt",    "ge",       "logical_and", "logical_or", "logical_xor"};
    static const char *const lit[] = {"1", "2", "0.5", "-1.5", "3", "1e-3", "0", "7", "-2", "127"};
    int v = any_value(r, ARITH_F | (choose(&r->c, 3) == 0 ? ARITH_I | BOOLS : 0), 0, 4);
    if (v < 0) return;
    struct gen_step s = step(op[choose(&r->c, (int)COUNT_OF(op))], "%s", "");
    int first = choose(&r->c, 5) == 0; /* is v the second operand? */
    s.n_in = 2;
    s.in[first] = v;
    if (choose(&r->c, 3) == 0) {
        s.in[!first] = -1;
        snprintf(s.literal[!first], sizeof s.literal[0], "%s",
                 lit[choose(&r->c, (int)COUNT_OF(lit))]);
    } else {
        s.in[!first] = partner(r, v, category(r->value[v].dtype) | ARITH_F);
        if (s.in[!first] < 0) return;
    }
    add_step(r, &s);
}

static void op_bits(struct random_graph *r) {
    static const char *const op[] = {"bitwise_and", "bitwise_or", "bitwise_xor", "shift_left",
                                     "shift_right"};
    int v = any_value(r, ARITH_I, 1, 4);
    if (v < 0) return;
    if (choose(&r->c, 5) == 0) {
        apply1(r, step(choose(&r->c, 2) ? "bitwise_not" : "logical_not", "%s", ""), v);
        return;
    }
    int k = choose(&r->c, (int)COUNT_OF(op));
    struct gen_step s = step(op[k], "%s", "");
    s.n_in = 2;
    s.in[0] = v;
    s.in[1] = -1;
    snprintf(s.literal[1], sizeof s.literal[1], "%d",
             k >= 3 ? choose(&r->c, 9) : choose(&r->c, 16));
    if (k < 3 && choose(&r->c, 2)) {
        s.in[1] = partner(r, v, ARITH_I);
        if (s.in[1] < 0) return;
    }
    add_step(r, &s);
}

static void op_where(struct random_graph *r) {
    int a = any_value(r, ANY, 1, 4);
    if (a < 0) return;
    int c = partner(r, a, BOOLS);
    int b = choose(&r->c, 2) ? partner(r, a, category(r->value[a].dtype)) : -1;
    struct gen_step s = step("where", "%s", "");
    s.n_in = 3;
    int swap = choose(&r->c, 2);
    s.in[0] = c;
    s.in[1 + swap] = a;
    s.in[2 - swap] = b;
    snprintf(s.literal[2 - swap], sizeof s.literal[0], "%s",
             category(r->value[a].dtype) == BOOLS ? "false" : "0");
    if (c >= 0) add_step(r, &s);
}

static void op_clamp(struct random_graph *r) {
    int v = any_value(r, ARITH_F | ARITH_I, 0, 4);
    struct gen_step s = step("clamp", "%s", "");
    s.n_in = 3;
    s.in[0] = v;
    s.in[1] = s.in[2] = -1;
    snprintf(s.literal[1], sizeof s.literal[1], "%s", choose(&r->c, 2) ? "0" : "-1");
    snprintf(s.literal[2], sizeof s.literal[2], "%d", 1 + choose(&r->c, 6));
    if (v >= 0) add_step(r, &s);
}

static void op_cast(struct random_graph *r) {
    int v = any_value(r, ANY, 0, 4);
    const char *d = random_dtype(&r->c, choose(&r->c, 2) ? ARITH_F : ANY);
    bool f8 = strncmp(d, "f8", 2) == 0;
    apply1(r, step("cast", "%s%s", d, f8 && choose(&r->c, 2) ? ", saturate=true" : ""), v);
}

static void op_bitcast(struct random_graph *r) {
    int v = any_value(r, ARITH_F | ARITH_I | STORE, 1, 3);
    if (v < 0) return;
    struct dims d = dims_of(&r->value[v]);
    const char *last = d.at[d.n - 1]; /* a symbol need not be even */
    if (strspn(last, "0123456789") != strlen(last)) return;
    apply1(r, step("bitcast", "%s", random_dtype(&r->c, ARITH_F | ARITH_I | STORE)), v);
}

/* Scales (and zeros) of q by the kinds that dequantize knows. Returns how many dims text it made.
 */
static struct gen_step quant_scale(struct random_graph *r, const char *op, int q, struct dims *d) {
    const struct gen_value *v = &r->value[q];
    *d = dims_of(v);
    int axis = choose(&r->c, v->rank), kind = choose(&r->c, 4);
    if (kind == 0) {
        d->n = 0;
        return step(op, "axis=%d", axis);
    }
    if (kind == 1) {
        memmove(d->at[0], d->at[axis], sizeof d->at[0]);
        d->n = 1;
        return step(op, "axis=%d", axis);
    }
    if (kind == 2) {
        for (int i = 0; i < d->n; i++)
            if (i != axis) snprintf(d->at[i], sizeof d->at[i], "1");
        return step(op, "axis=%d", axis);
    }
    static const int block[] = {2, 3, 4, 8, 16, 32};
    int b = block[choose(&r->c, (int)COUNT_OF(block))];
    int64_t size = v->shape[axis];
    bool plain = strspn(d->at[axis], "0123456789") == strlen(d->at[axis]);
    if (plain)
        snprintf(d->at[axis], sizeof d->at[axis], "%d", (int)((size + b - 1) / b));
    else {
        char text[64];
        snprintf(text, sizeof text, "(%.20s + %d)//%d", d->at[axis], b - 1, b);
        memcpy(d->at[axis], text, sizeof d->at[axis]);
    }
    return step(op, "axis=%d, block=%d", axis, b);
}

static void op_dequantize(struct random_graph *r) {
    int q = any_value(r, ARITH_I | STORE, 1, 3);
    if (q < 0 || choose(&r->c, 2) == 0) {
        static const char *const wd[] = {"u4",       "i4",       "i8", "u8",
                                         "f8e4m3fn", "f4e2m1fn", "i2", "u2"};
        struct dims nd = {.n = 2};
        random_dim(r, nd.at[0], sizeof nd.at[0]);
        random_dim(r, nd.at[1], sizeof nd.at[1]);
        q = new_param(r, wd[choose(&r->c, (int)COUNT_OF(wd))], &nd);
    }
    if (q < 0) return;
    struct dims d;
    struct gen_step s = quant_scale(r, "dequantize", q, &d);
    static const char *const sd[] = {"f32", "bf16", "f16", "e8m0", "f32"};
    int in[3] = {q, new_param(r, sd[choose(&r->c, (int)COUNT_OF(sd))], &d), -1};
    int n = 2;
    if (choose(&r->c, 2)) {
        bool own = category(r->value[q].dtype) == ARITH_I && choose(&r->c, 2);
        in[2] = new_param(r, own ? dtype_name(r->value[q].dtype) : "f32", &d);
        n = 3;
    }
    if (choose(&r->c, 3) == 0) strcat(s.args, ", dtype=bf16");
    apply(r, s, n, in);
}

static void op_quantize(struct random_graph *r) {
    int x = any_value(r, ARITH_F, 1, 3);
    if (x < 0) return;
    struct dims d;
    struct gen_step s = quant_scale(r, "quantize", x, &d);
    static const char *const qd[] = {"i8", "u8", "f8e4m3fn", "i4", "f4e2m1fn", "f8e5m2", "i16"};
    strcat(s.args, ", dtype=");
    strcat(s.args, qd[choose(&r->c, (int)COUNT_OF(qd))]);
    int in[2] = {x, new_param(r, choose(&r->c, 3) ? "f32" : "e8m0", &d)};
    apply(r, s, 2, in);
}

/* ---- layout ---------------------------------------------------------------------------------- */

static void op_reshape(struct random_graph *r) {
    int v = any_value(r, ANY, 1, 4);
    if (v < 0) return;
    const struct gen_value *x = &r->value[v];
    struct dims d = dims_of(x);
    if (choose(&r->c, 2) && x->rank >= 2) { /* join two neighbours */
        int a = choose(&r->c, x->rank - 1);
        snprintf(d.at[a], sizeof d.at[a], "-1");
        for (int i = a + 1; i + 1 < d.n; i++)
            memmove(d.at[i], d.at[i + 1], sizeof d.at[i]);
        d.n--;
    } else if (x->rank < 5) { /* cut one in two */
        static const int part[] = {2, 3, 4, 5, 8, 16};
        int a = choose(&r->c, x->rank);
        for (int i = d.n; i > a; i--)
            memmove(d.at[i], d.at[i - 1], sizeof d.at[i]);
        d.n++;
        int p = part[choose(&r->c, (int)COUNT_OF(part))];
        if (x->shape[a] % p != 0) p = 1;
        int inner = choose(&r->c, 2);
        snprintf(d.at[a + inner], sizeof d.at[a], "%d", p);
        snprintf(d.at[a + !inner], sizeof d.at[a], "-1");
    }
    char dims[400];
    print_dims(&d, dims, sizeof dims);
    if (strlen(dims) < 100) apply1(r, step("reshape", "[%s]", dims), v);
}

static void op_permute(struct random_graph *r) {
    int v = any_value(r, ANY, 2, 5);
    if (v < 0) return;
    int n = r->value[v].rank, p[8];
    if (choose(&r->c, 3) == 0) {
        apply1(r, step("transpose", "%s", ""), v);
        return;
    }
    for (int i = 0; i < n; i++)
        p[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = choose(&r->c, i + 1), t = p[i];
        p[i] = p[j];
        p[j] = t;
    }
    struct gen_step s = step("permute", "[");
    for (int i = 0; i < n; i++) {
        char t[8];
        snprintf(t, sizeof t, "%s%d", i > 0 ? ", " : "", p[i]);
        strcat(s.args, t);
    }
    strcat(s.args, "]");
    apply1(r, s, v);
}

static void op_squeeze(struct random_graph *r) {
    int v = any_value(r, ANY, 0, 4);
    if (v < 0) return;
    const struct gen_value *x = &r->value[v];
    for (int i = 0; i < x->rank; i++) {
        if (x->shape[i] == 1 && strcmp(dims_of(x).at[i], "1") == 0 && choose(&r->c, 2)) {
            apply1(r, step("squeeze", "%d", i), v);
            return;
        }
    }
    int u = apply1(r, step("unsqueeze", "%d", choose(&r->c, x->rank + 1)), v);
    if (u < 0 || choose(&r->c, 2)) return;
    struct dims d = dims_of(&r->value[u]);
    for (int i = 0; i < d.n; i++)
        if (strcmp(d.at[i], "1") == 0 && choose(&r->c, 2)) random_dim(r, d.at[i], sizeof d.at[i]);
    char dims[400];
    print_dims(&d, dims, sizeof dims);
    if (strlen(dims) < 100) apply1(r, step("expand", "[%s]", dims), u);
}

static void op_slice(struct random_graph *r) {
    int v = any_value(r, ANY, 1, 4);
    if (v < 0) return;
    const struct gen_value *x = &r->value[v];
    int axis = choose(&r->c, x->rank);
    int size = (int)x->shape[axis];
    if (choose(&r->c, 4) == 0 && size >= 2) {
        int a = 1 + choose(&r->c, size - 1);
        if (size % 2 == 0 && choose(&r->c, 2))
            apply1(r, step("split", "2, axis=%d", axis), v);
        else
            apply1(r, step("split", "[%d, %d], axis=%d", a, size - a, axis), v);
        return;
    }
    int start = choose(&r->c, size + 1), stop = start + choose(&r->c, size - start + 1);
    int st = choose(&r->c, 3) == 0 ? 2 + choose(&r->c, 2) : 1;
    if (choose(&r->c, 8) == 0)
        apply1(r, step("slice", "axis=%d, start=%d, step=-1", axis, size - 1), v);
    else
        apply1(r, step("slice", "axis=%d, start=%d, stop=%d, step=%d", axis, start, stop, st), v);
}

static void op_concat(struct random_graph *r) {
    int v = any_value(r, ANY, 1, 3);
    if (v < 0) return;
    int axis = choose(&r->c, r->value[v].rank), n = 2 + choose(&r->c, 2);
    int in[4] = {v};
    for (int i = 1; i < n; i++) {
        struct dims d = dims_of(&r->value[v]);
        if (choose(&r->c, 2)) random_dim(r, d.at[axis], sizeof d.at[axis]);
        in[i] = choose(&r->c, 4) == 0 ? v : new_param(r, dtype_name(r->value[v].dtype), &d);
    }
    if (choose(&r->c, 2)) {
        int t = in[0];
        in[0] = in[1];
        in[1] = t;
    }
    apply(r, step("concat", "axis=%d", axis), n, in);
}

static void list_of(struct random_graph *r, int n, int limit, char *out) {
    strcpy(out, "[");
    for (int i = 0; i < n; i++) {
        char t[8];
        snprintf(t, sizeof t, "%s%d", i > 0 ? ", " : "", choose(&r->c, limit));
        strcat(out, t);
    }
    strcat(out, "]");
}

static void op_pad(struct random_graph *r) {
    int v = any_value(r, ARITH_F | ARITH_I, 1, 3);
    if (v < 0) return;
    char low[48], high[48];
    list_of(r, r->value[v].rank, 4, low);
    list_of(r, r->value[v].rank, 5, high);
    bool value = choose(&r->c, 3) == 0;
    apply1(r, step("pad", "low=%s, high=%s%s", low, high, value ? ", value=1" : ""), v);
}

static void op_flip(struct random_graph *r) {
    int v = any_value(r, ANY, 1, 4);
    if (v >= 0) apply1(r, step("flip", "axes=[%d]", choose(&r->c, r->value[v].rank)), v);
}

static void op_iota(struct random_graph *r) {
    struct dims d = {.n = 1 + choose(&r->c, 2)};
    for (int i = 0; i < d.n; i++)
        random_dim(r, d.at[i], sizeof d.at[i]);
    char dims[100];
    print_dims(&d, dims, sizeof dims);
    static const char *const dt[] = {"i32", "f32", "i64", "u8"};
    apply(r, step("iota", "%s, [%s], axis=%d", dt[choose(&r->c, 4)], dims, choose(&r->c, d.n)), 0,
          NULL);
}

/* ---- indices --------------------------------------------------------------------------------- */

static void op_take(struct random_graph *r) {
    int v = any_value(r, ANY, 1, 3);
    if (v < 0) return;
    int axis = choose(&r->c, r->value[v].rank);
    if (r->value[v].shape[axis] == 0) return; /* no index is right */
    struct dims d = {.n = choose(&r->c, 5) == 0 ? 2 * choose(&r->c, 2) : 1};
    if (choose(&r->c, 3) == 0) {
        d = dims_of(&r->value[v]);
        random_dim(r, d.at[axis], sizeof d.at[axis]);
        int in[2] = {v, new_index(r, &d)};
        apply(r, step("take_along", "axis=%d", axis), 2, in);
        return;
    }
    for (int i = 0; i < d.n; i++)
        random_dim(r, d.at[i], sizeof d.at[i]);
    int in[2] = {v, new_index(r, &d)};
    apply(r, step("take", "axis=%d", axis), 2, in);
}

static void op_scatter(struct random_graph *r) {
    int src = any_value(r, ANY, 1, 3);
    if (src < 0) return;
    int axis = choose(&r->c, r->value[src].rank);
    struct dims base = dims_of(&r->value[src]), index = {.n = 1};
    memcpy(index.at[0], base.at[axis], sizeof index.at[0]);
    do {
        random_dim(r, base.at[axis], sizeof base.at[axis]);
    } while (strcmp(base.at[axis], "0") == 0 && r->c.bytes == NULL);
    const char *d = dtype_name(r->value[src].dtype);
    bool add = (category(r->value[src].dtype) & (ARITH_F | ARITH_I)) != 0 && choose(&r->c, 2);
    int in[3] = {new_param(r, d, &base), -1, src};
    if (choose(&r->c, 4) == 0) {
        struct dims all = dims_of(&r->value[src]);
        in[1] = new_index(r, &all);
        apply(r, step("scatter_along", "axis=%d%s", axis, add ? ", add=true" : ""), 3, in);
        return;
    }
    in[1] = new_index(r, &index);
    apply(r, step(add ? "scatter_add" : "scatter", "axis=%d", axis), 3, in);
}

/* ---- reductions ------------------------------------------------------------------------------ */

static void op_reduce(struct random_graph *r) {
    static const char *const op[] = {"sum", "max", "min", "mean", "sum", "max", "prod"};
    int v = any_value(r, ARITH_F | (choose(&r->c, 4) == 0 ? ARITH_I : 0), 1, 4);
    if (v < 0) return;
    int n = r->value[v].rank, a = choose(&r->c, n);
    struct gen_step s = step(op[choose(&r->c, (int)COUNT_OF(op))], "axes=[%d", a);
    if (n > 1 && choose(&r->c, 4) == 0) {
        char t[16];
        snprintf(t, sizeof t, ", %d", (a + 1) % n);
        strcat(s.args, t);
    }
    strcat(s.args, choose(&r->c, 2) ? "], keepdims=true" : "]");
    apply1(r, s, v);
}

static void op_arg(struct random_graph *r) {
    int v = any_value(r, ARITH_F | ARITH_I, 1, 3);
    if (v < 0) return;
    int axis = choose(&r->c, r->value[v].rank);
    const char *keep = choose(&r->c, 2) ? ", keepdims=true" : "";
    switch (choose(&r->c, 5)) {
    case 0: apply1(r, step("argmax", "axis=%d%s", axis, keep), v); break;
    case 1: apply1(r, step("argmin", "axis=%d%s", axis, keep), v); break;
    case 2:
        apply1(r, step("argsort", "axis=%d%s", axis, choose(&r->c, 2) ? ", descending=true" : ""),
               v);
        break;
    case 3: {
        int size = (int)r->value[v].shape[axis];
        apply1(r, step("topk", "%d, axis=%d", 1 + choose(&r->c, size < 5 ? size : 5), axis), v);
        break;
    }
    default: apply1(r, step("cumsum", "axis=%d", axis), v); break;
    }
}

static void op_norm(struct random_graph *r) {
    int v = any_value(r, ARITH_F, 1, 3);
    if (v < 0) return;
    struct dims d = dims_of(&r->value[v]), last = {.n = 1};
    memcpy(last.at[0], d.at[d.n - 1], sizeof last.at[0]);
    const char *dt = dtype_name(r->value[v].dtype);
    int in[3] = {v, -1, -1}, n = 1;
    switch (choose(&r->c, 4)) {
    case 0: apply1(r, step("softmax", "axis=%d", choose(&r->c, d.n)), v); return;
    case 1: apply1(r, step("log_softmax", "%s", ""), v); return;
    case 2:
        if (choose(&r->c, 2)) in[n++] = new_param(r, dt, &last);
        apply(r, step("rms_norm", "%s", ""), n, in);
        return;
    default:
        if (choose(&r->c, 2)) {
            in[n++] = new_param(r, dt, &last);
            if (choose(&r->c, 2)) in[n++] = new_param(r, dt, &last);
        }
        apply(r, step("layer_norm", "%s", ""), n, in);
    }
}

/* ---- contractions ---------------------------------------------------------------------------- */

/* The dtype of a product's other operand: mostly the same. */
static const char *other_dtype(struct random_graph *r, int v) {
    enum dtype d = r->value[v].dtype;
    if (choose(&r->c, 5) != 0) return dtype_name(d);
    return random_dtype(&r->c, category(d) & (ARITH_F | STORE) ? ARITH_F | STORE : ARITH_I);
}

static void op_matmul(struct random_graph *r) {
    int v = any_value(r, ARITH_F | STORE | (choose(&r->c, 3) == 0 ? ARITH_I : 0), 1, 4);
    if (v < 0) return;
    struct dims d = dims_of(&r->value[v]), o = {.n = 2};
    bool right = choose(&r->c, 3) == 0; /* v is the right operand */
    int at = right && d.n > 1 ? d.n - 2 : d.n - 1;
    const char *inner = d.at[at];
    if (choose(&r->c, 10) == 0) {
        o.n = 1;
        snprintf(o.at[0], sizeof o.at[0], "%s", inner);
    } else {
        snprintf(o.at[right ? 1 : 0], sizeof o.at[0], "%s", inner);
        random_dim(r, o.at[right ? 0 : 1], sizeof o.at[0]);
        if (d.n > 2 && choose(&r->c, 2)) { /* batched on both sides */
            memmove(o.at[1], o.at[0], 2 * sizeof o.at[0]);
            memcpy(o.at[0], d.at[d.n - 3], sizeof o.at[0]);
            if (choose(&r->c, 4) == 0) snprintf(o.at[0], sizeof o.at[0], "1");
            o.n = 3;
        }
    }
    int other = -1;
    for (int i = r->n_values - 1; i >= 0 && other < 0 && choose(&r->c, 3) == 0; i--) {
        const struct gen_value *w = &r->value[i];
        if (w->rank == 2 && !w->is_index && w->dtype == r->value[v].dtype &&
            strcmp(dims_of(w).at[right ? 1 : 0], inner) == 0)
            other = i;
    }
    if (other < 0) other = new_param(r, other_dtype(r, v), &o);
    int in[2] = {right ? other : v, right ? v : other};
    static const char *const out[] = {"out=f32", "out=bf16", "out=f16", "out=i32"};
    apply(r, step("matmul", "%s", choose(&r->c, 8) == 0 ? out[choose(&r->c, 4)] : ""), 2, in);
}

static void op_linear(struct random_graph *r) {
    int v = any_value(r, ARITH_F, 1, 3);
    if (v < 0) return;
    struct dims d = dims_of(&r->value[v]), w = {.n = 2}, b = {.n = 1};
    random_dim(r, w.at[0], sizeof w.at[0]);
    memcpy(w.at[1], d.at[d.n - 1], sizeof w.at[1]);
    memcpy(b.at[0], w.at[0], sizeof b.at[0]);
    const char *dt = dtype_name(r->value[v].dtype);
    int in[3] = {v, new_param(r, dt, &w), choose(&r->c, 2) ? new_param(r, dt, &b) : -1};
    apply(r, step("linear", "%s", ""), in[2] >= 0 ? 3 : 2, in);
}

/* x w^T with weights that are made from narrow ones. */
static void op_quantized_linear(struct random_graph *r) {
    int v = any_value(r, ARITH_F, 2, 3);
    if (v < 0) return;
    struct dims d = dims_of(&r->value[v]), w = {.n = 2};
    const char *dt = dtype_name(r->value[v].dtype);
    random_dim(r, w.at[0], sizeof w.at[0]);
    memcpy(w.at[1], d.at[d.n - 1], sizeof w.at[1]);
    static const char *const wd[] = {"i8", "u4", "i4", "f8e4m3fn", "u8", "f4e2m1fn", "u2", "i2"};
    int q = new_param(r, wd[choose(&r->c, (int)COUNT_OF(wd))], &w);
    if (q < 0) return;
    struct dims s;
    struct gen_step dq = quant_scale(r, "dequantize", q, &s);
    char t[24];
    snprintf(t, sizeof t, ", dtype=%s", dt);
    strcat(dq.args, t);
    int in[2] = {q, new_param(r, choose(&r->c, 3) ? "f32" : "e8m0", &s)};
    int wv = choose(&r->c, 3) ? apply(r, dq, 2, in) : cast_to(r, q, dt);
    if (wv < 0) return;
    int m[2] = {v, apply1(r, step("permute", "[1, 0]"), wv)};
    apply(r, step("matmul", "%s", ""), 2, m);
}

static void op_grouped(struct random_graph *r) {
    int v = any_value(r, ARITH_F, 2, 2);
    if (v < 0) return;
    struct dims d = dims_of(&r->value[v]), b = {.n = 3}, o = {.n = 1};
    snprintf(b.at[0], sizeof b.at[0], "%d", 1 + choose(&r->c, 5));
    memcpy(o.at[0], b.at[0], sizeof o.at[0]);
    memcpy(b.at[1], d.at[1], sizeof b.at[1]);
    random_dim(r, b.at[2], sizeof b.at[2]);
    char type[60];
    snprintf(type, sizeof type, "i32[%s]", o.at[0]);
    int in[3] = {v, new_param(r, dtype_name(r->value[v].dtype), &b),
                 add_param(r, type, true, false)};
    apply(r, step("grouped_matmul", "%s", ""), 3, in);
}

static void op_attention(struct random_graph *r) {
    struct dims q = {.n = 4}, k = {.n = 4}, v = {.n = 4};
    int groups = 1 + choose(&r->c, 2), per = 1 + choose(&r->c, 3);
    random_dim(r, q.at[2], sizeof q.at[2]);
    random_dim(r, k.at[2], sizeof k.at[2]);
    snprintf(q.at[3], sizeof q.at[3], "%d", 4 + 4 * choose(&r->c, 5));
    random_dim(r, v.at[3], sizeof v.at[3]);
    snprintf(q.at[0], sizeof q.at[0], "%d", 1 + choose(&r->c, 2));
    snprintf(q.at[1], sizeof q.at[1], "%d", groups * per);
    snprintf(k.at[1], sizeof k.at[1], "%d", groups);
    memcpy(k.at[0], q.at[0], sizeof k.at[0]);
    memcpy(k.at[3], q.at[3], sizeof k.at[3]);
    memcpy(v.at[0], k.at[0], 3 * sizeof v.at[0]);
    const char *d = random_dtype(&r->c, ARITH_F);
    int in[3] = {new_param(r, d, &q), new_param(r, d, &k), new_param(r, d, &v)};
    struct gen_step s = step("attention", "%s", choose(&r->c, 4) == 0 ? "scale=0.5" : "");
    static const char *const hooks[] = {
        "mask(b, h, i, j) = j <= i",
        "mask(b, h, i, j) = (i - j < 4) & (j - i < 3)",
        "score(s, b, h, i, j) = s * 0.5 + 0.01 * (j - i)",
        "score(s, b, h, i, j) = 3.0 * tanh(s / 3.0)",
        "prob(p, b, h, i, j) = p * 0.5",
        "score(s, b, h, i, j) = s - h\n    mask(b, h, i, j) = (i + j) % 3 != 0",
    };
    if (choose(&r->c, 2))
        snprintf(s.tail, sizeof s.tail, " {\n    %s\n  }",
                 hooks[choose(&r->c, (int)COUNT_OF(hooks))]);
    apply(r, s, 3, in);
}

/* ---- choice ---------------------------------------------------------------------------------- */

static const struct {
    int weight;
    void (*make)(struct random_graph *r);
} ops[] = {{16, op_unary},
           {20, op_binary},
           {4, op_bits},
           {5, op_where},
           {2, op_clamp},
           {10, op_cast},
           {2, op_bitcast},
           {4, op_dequantize},
           {3, op_quantize},
           {7, op_reshape},
           {7, op_permute},
           {4, op_squeeze},
           {7, op_slice},
           {5, op_concat},
           {3, op_pad},
           {2, op_flip},
           {1, op_iota},
           {6, op_take},
           {5, op_scatter},
           {8, op_reduce},
           {4, op_arg},
           {6, op_norm},
           {24, op_matmul},
           {5, op_linear},
           {7, op_quantized_linear},
           {1, op_grouped},
           {2, op_attention}};

void random_op(struct random_graph *r) {
    int total = 0;
    for (size_t i = 0; i < COUNT_OF(ops); i++)
        total += ops[i].weight;
    int k = choose(&r->c, total);
    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        k -= ops[i].weight;
        if (k < 0) {
            ops[i].make(r);
            return;
        }
    }
}

void random_first(struct random_graph *r) {
    int p = add_param(r, "f32[3, 5]", false, false);
    apply1(r, step("relu", "%s", ""), p);
}
