/* SPDX-License-Identifier: MIT
 * Random symbolic integers, whose value before simplification (computed here on a tree of its own)
 * must be the value after it.
 */
#include "sx_util.h"

#define N_ATOMS 10
#define N_TREES 48

struct rng {
    uint64_t s;
};
static uint32_t next(struct rng *r, uint32_t n) { /* SplitMix64 (Steele, Lea, Flood 2014) */
    uint64_t z = (r->s += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) >> 32) % n;
}

/* An expression as it was written, beside what the pool made of it. */
struct tree {
    enum sx_kind kind;
    int a, b; /* operands; an atom's number */
    int64_t v;
    sx e;
};

struct world {
    struct fixture f;
    struct rng rng;
    sx atom[N_ATOMS];
    int64_t value[N_ATOMS];
    struct tree tree[N_TREES];
    int n;
};

static void world_begin(struct world *w) {
    struct fixture *f = &w->f;
    begin(f);
    sx atoms[N_ATOMS] = {f->D,
                         f->H,
                         f->M,
                         var(f, "d", f->D),
                         var(f, "h", f->H),
                         var(f, "i", num(f, 4)),
                         var(f, "j", num(f, 24)),
                         var(f, "c", mul(f, f->H, f->D)),
                         var(f, "t", sx_ceil_div(f->p, f->D, num(f, 4))),
                         sx_look(f->p, 3, num(f, 10))};
    memcpy(w->atom, atoms, sizeof atoms);
}

static void world_values(struct world *w) {
    int64_t D = 1 + next(&w->rng, 12), H = 1 + next(&w->rng, 5);
    int64_t v[N_ATOMS] = {D,
                          H,
                          next(&w->rng, 40),
                          next(&w->rng, (uint32_t)D),
                          next(&w->rng, (uint32_t)H),
                          next(&w->rng, 4),
                          next(&w->rng, 24),
                          next(&w->rng, (uint32_t)(H * D)),
                          next(&w->rng, (uint32_t)((D + 3) / 4)),
                          next(&w->rng, 10)};
    memcpy(w->value, v, sizeof v);
}

static bool value_of(void *user, const struct sx_pool *p, sx atom, int64_t *v) {
    struct world *w = user;
    (void)p;
    for (int i = 0; i < N_ATOMS; i++) {
        if (w->atom[i] != atom) continue;
        *v = w->value[i];
        return true;
    }
    return false;
}

static int64_t floor_div(int64_t a, int64_t b) {
    int64_t q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

/* The value of the tree as written; false if it divides by 0 or gets out of hand. */
static bool plain(const struct world *w, int t, int64_t *v) {
    const struct tree *n = &w->tree[t];
    int64_t a, b;
    if (n->kind == SX_CONST) {
        *v = n->v;
        return true;
    }
    if (n->kind == SX_SYM) {
        *v = w->value[n->a];
        return true;
    }
    if (!plain(w, n->a, &a) || !plain(w, n->b, &b)) return false;
    if ((n->kind == SX_DIV || n->kind == SX_MOD) && b == 0) return false;
    switch (n->kind) {
    case SX_ADD: *v = a + b; break;
    case SX_MUL: *v = a * b; break;
    case SX_DIV: *v = floor_div(a, b); break;
    default: *v = a - floor_div(a, b) * b; break;
    }
    return *v < 1000000000 && *v > -1000000000;
}

static int leaf(struct world *w, struct tree t, sx e) {
    t.e = e;
    w->tree[w->n] = t;
    return w->n++;
}

static int constant(struct world *w) {
    static const int64_t some[] = {1, 2, 3, 4, 4, 6, 8, 12, 16, 5, -1, -3};
    int64_t v = some[next(&w->rng, COUNT_OF(some))];
    return leaf(w, (struct tree){.kind = SX_CONST, .v = v}, num(&w->f, v));
}

static int grow(struct world *w, int depth) {
    struct fixture *f = &w->f;
    if (depth == 0 || w->n > N_TREES - 12) {
        if (next(&w->rng, 5) == 0) return constant(w);
        int i = (int)next(&w->rng, N_ATOMS);
        return leaf(w, (struct tree){.kind = SX_SYM, .a = i}, w->atom[i]);
    }
    static const enum sx_kind kinds[] = {SX_ADD, SX_ADD, SX_MUL, SX_DIV, SX_MOD, SX_MOD};
    enum sx_kind kind = kinds[next(&w->rng, COUNT_OF(kinds))];
    int a = grow(w, depth - 1), b;
    uint32_t how = next(&w->rng, 6);
    if (kind == SX_ADD || how == 0)
        b = grow(w, depth - 1);
    else if (how < 4)
        b = constant(w);
    else
        b = leaf(w, (struct tree){.kind = SX_SYM, .a = (int)(how - 4)}, w->atom[how - 4]);
    sx x = w->tree[a].e, y = w->tree[b].e, e;
    switch (kind) {
    case SX_ADD: e = add(f, x, y); break;
    case SX_MUL: e = mul(f, x, y); break;
    case SX_DIV: e = quo(f, x, y); break;
    default: e = rem(f, x, y); break;
    }
    return leaf(w, (struct tree){.kind = kind, .a = a, .b = b}, e);
}

/* Sums like those of index maps: coefficients and atoms, then // and % of the whole. */
static int grow_map(struct world *w) {
    int sum = grow(w, 1);
    for (uint32_t n = 1 + next(&w->rng, 3); n > 0; n--) {
        int t = grow(w, 0), c = next(&w->rng, 2) ? constant(w) : grow(w, 0);
        t = leaf(w, (struct tree){.kind = SX_MUL, .a = t, .b = c},
                 mul(&w->f, w->tree[t].e, w->tree[c].e));
        sum = leaf(w, (struct tree){.kind = SX_ADD, .a = sum, .b = t},
                   add(&w->f, w->tree[sum].e, w->tree[t].e));
    }
    int c = constant(w);
    bool div = next(&w->rng, 2) != 0;
    sx a = w->tree[sum].e, b = w->tree[c].e;
    return leaf(w, (struct tree){.kind = div ? SX_DIV : SX_MOD, .a = sum, .b = c},
                div ? quo(&w->f, a, b) : rem(&w->f, a, b));
}

static void complain(struct world *w, sx e, int64_t got, int64_t want, const char *what) {
    char x[8192];
    text_of(&w->f, e, x, sizeof x);
    print_error("%s: %s is %lld, not %lld with D %lld H %lld M %lld d %lld h %lld i %lld j %lld "
                "c %lld t %lld @3 %lld\n",
                what, x, (long long)got, (long long)want, (long long)w->value[0],
                (long long)w->value[1], (long long)w->value[2], (long long)w->value[3],
                (long long)w->value[4], (long long)w->value[5], (long long)w->value[6],
                (long long)w->value[7], (long long)w->value[8], (long long)w->value[9]);
    fail();
}

/* A reader of sx_print's text, to see that brackets are where they have to be. */
struct reader {
    const char *s;
    struct world *w;
};
static int64_t read_sum(struct reader *r);

static int64_t read_atom(struct reader *r) {
    static const char *const names[N_ATOMS] = {"D", "H", "M", "d", "h", "i", "j", "c", "t", "@3"};
    if (*r->s == '(') {
        r->s++;
        int64_t v = read_sum(r);
        assert_int_equal(*r->s, ')');
        r->s++;
        return v;
    }
    for (int i = 0; i < N_ATOMS; i++) {
        size_t n = strlen(names[i]);
        if (strncmp(r->s, names[i], n) != 0) continue;
        r->s += n;
        return r->w->value[i];
    }
    char *end_of;
    int64_t v = strtoll(r->s, &end_of, 10);
    assert_ptr_not_equal(end_of, r->s);
    r->s = end_of;
    return v;
}

static int64_t read_product(struct reader *r) {
    int64_t v = read_atom(r);
    for (;;) {
        char op = *r->s;
        if (op != '*' && op != '/' && op != '%') return v;
        r->s += op == '/' ? 2 : 1;
        int64_t b = read_atom(r);
        if (op == '*')
            v *= b;
        else if (b == 0)
            fail();
        else
            v = op == '/' ? floor_div(v, b) : v - floor_div(v, b) * b;
    }
}

static int64_t read_sum(struct reader *r) {
    int64_t v = read_product(r);
    while (strncmp(r->s, " + ", 3) == 0 || strncmp(r->s, " - ", 3) == 0) {
        bool minus = r->s[1] == '-';
        r->s += 3;
        int64_t b = read_product(r);
        v += minus ? -b : b;
    }
    return v;
}

static void check_value(struct world *w, sx e, int64_t want) {
    int64_t got = 0, lo, hi;
    char x[8192];
    if (!sx_eval(w->f.p, e, value_of, w, &got)) complain(w, e, 0, want, "no value");
    if (got != want) complain(w, e, got, want, "value");
    sx_range(w->f.p, e, &lo, &hi);
    if (got < lo || got > hi) complain(w, e, got, got < lo ? lo : hi, "range");
    if (got < 0 && sx_is_nonneg(w->f.p, e)) complain(w, e, got, 0, "sign");
    text_of(&w->f, e, x, sizeof x);
    struct reader r = {x, w};
    int64_t back = read_sum(&r);
    if (back != want || *r.s != '\0') complain(w, e, back, want, "text");
}

/* Values of the sub-expressions against those of the pool's, and proofs about pairs of them. */
static void check_world(struct world *w, int root) {
    for (int turn = 0; turn < 12; turn++) {
        int64_t v, u;
        world_values(w);
        if (!plain(w, root, &v)) continue;
        check_value(w, w->tree[root].e, v);
        int other = (int)next(&w->rng, (uint32_t)w->n);
        if (!plain(w, other, &u)) continue;
        sx a = w->tree[root].e, b = w->tree[other].e;
        if (v >= u && sx_proves_lt(w->f.p, a, b)) complain(w, a, v, u, "not less");
        if (v > u && sx_proves_le(w->f.p, a, b)) complain(w, a, v, u, "not at most");
        if (u != 0 && floor_div(v, u) * u != v && sx_divides(w->f.p, b, a))
            complain(w, a, v, u, "not divisible");
    }
}

static void random_values(void **state) {
    (void)state;
    struct world w;
    for (int i = 0; i < 4000; i++) {
        w.n = 0;
        if (i % 500 == 0) {
            if (i > 0) end(&w.f);
            world_begin(&w);
        }
        w.rng = (struct rng){(uint64_t)i * 7919 + 1};
        int root = i % 2 ? grow_map(&w) : grow(&w, 2 + (int)next(&w.rng, 3));
        assert_int_not_equal(w.tree[root].e, 0);
        check_world(&w, root);
    }
    end(&w.f);
}

static void random_substitutions(void **state) {
    (void)state;
    struct world w;
    for (int i = 0; i < 2000; i++) {
        w.n = 0;
        if (i % 500 == 0) {
            if (i > 0) end(&w.f);
            world_begin(&w);
        }
        w.rng = (struct rng){(uint64_t)i * 104729 + 5};
        int root = i % 2 ? grow_map(&w) : grow(&w, 3);
        /* j = 6*i + h%6, d = c%D, both within their extents */
        sx from[] = {w.atom[6], w.atom[3]};
        sx to[] = {
            add(&w.f, mul(&w.f, w.atom[5], num(&w.f, 6)), rem(&w.f, w.atom[4], num(&w.f, 6))),
            rem(&w.f, w.atom[7], w.atom[0])};
        sx e = sx_subst(w.f.p, w.tree[root].e, from, to, 2);
        assert_int_not_equal(e, 0);
        for (int turn = 0; turn < 8; turn++) {
            int64_t v;
            world_values(&w);
            w.value[6] = w.value[5] * 6 + w.value[4] % 6;
            w.value[3] = w.value[7] % w.value[0];
            if (plain(&w, root, &v)) check_value(&w, e, v);
        }
    }
    end(&w.f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_values),
        cmocka_unit_test(random_substitutions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
