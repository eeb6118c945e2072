/* SPDX-License-Identifier: MIT
 * The parser against bad input: every prefix of good texts, random mutations, raw bytes, and every
 * failing allocation. Whatever parses must verify, and its print must be a fixed point.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

static const char sample[] =
    "# head\n"
    "graph g(x: f32[M, 4], const w: i4[N, M/2] = \"a:b\", `q 1`: bf16[2, 2, S, 8]) { # open\n"
    "  c = 1.5e-3; a, b = split(x * c + -2 ** 2, 2, axis=-1)\n"
    "  y = reshape(cast(w, f32), [N, -1, M/2])   # behind\n"
    "  o, l = attention(`q 1`, `q 1`, `q 1`, scale=0.5) {\n"
    "    score(s, b, h, i, j) = where(not i < j, s * 30, -inf) + take(x, h, i)\n"
    "    mask(b, h, i, j) = (j <= i) & (i - j < S)\n"
    "  }\n"
    "  z = sum(matmul(x, permute(x, [1, 0])), axes=[0], keepdims=true) // 3 % 2\n"
    "  t, k = topk(slice(x, axis=0, stop=M//2), 2)\n"
    "  return concat(a, b, axis=1) in x, y, o, l, z, k\n"
    "}\n"
    "graph h(l0: f32[2]) { return clamp(l0, 0, 1) | 1 }\n";

/* Parses; checks what parsed. Returns the status. */
static enum proem_status try_text(const char *text, size_t n, bool internal) {
    struct arena a;
    struct graph_file file = {0};
    struct err e;
    arena_init(&a, &allocator_default);
    err_clear(&e);
    char *copy = malloc(n + 1); /* of the exact size, so that reading past the end is seen */
    memcpy(copy, text, n);
    char *tight = realloc(copy, n > 0 ? n : 1);
    enum proem_status st = graph_parse(&a, "f", tight, n, internal, &file, &e);
    if (st != PROEM_OK) {
        assert_int_equal(e.status, st);
        assert_true(e.text[0] != '\0');
        assert_int_equal(st, PROEM_INVALID);
    }
    for (size_t i = 0; i < file.graphs.n; i++) {
        for (int flat = internal ? 1 : 0; flat < 2; flat++) {
            struct str first, second;
            struct graph_file again = {0};
            str_init(&first, &allocator_default);
            str_init(&second, &allocator_default);
            if (graph_verify(file.graphs.at[i], &e) != PROEM_OK)
                fail_msg("%s in\n%.*s", e.text, (int)n, text);
            graph_print(file.graphs.at[i], flat != 0, &first);
            if (graph_parse(&a, "f", str_text(&first), first.n, flat != 0, &again, &e) != PROEM_OK)
                fail_msg("%s:\n%s\nfrom\n%.*s", e.text, str_text(&first), (int)n, text);
            graph_print(again.graphs.at[0], flat != 0, &second);
            assert_string_equal(str_text(&first), str_text(&second));
            str_free(&first);
            str_free(&second);
        }
    }
    arena_free(&a);
    free(tight);
    return st;
}

static void test_prefixes(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof sample - 1; n++)
        try_text(sample, n, false);
}

static uint32_t next(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
    return (uint32_t)(*seed >> 33);
}

static void mutate(char *text, size_t *n, size_t cap, uint64_t *seed) {
    static const char *const bits[] = {
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ";",
        "\n",
        "=",
        "-",
        "**",
        "/",
        "//",
        "%",
        "not ",
        "const ",
        "in ",
        "#",
        "`",
        "\"",
        "x",
        "M",
        "0",
        "-1",
        "1e309",
        "99999999",
        "nan",
        "true",
        "take(",
        "f8e5m2",
        "bool",
        "axis=",
        "< x",
        "| 1",
        "++",
        "\xc3\xa9",
        "\xff",
        "split(",
        "i64[",
        " 9223372036854775807",
        "expand(x, [-1, 3])",
        "reshape(y, [-1])",
        "return ",
    };
    size_t at = *n > 0 ? next(seed) % *n : 0;
    uint32_t kind = next(seed) % 5;
    if (kind == 0 && *n > 0) { /* another byte */
        text[at] = (char)next(seed);
    } else if (kind == 1 && *n > 0) { /* a piece goes */
        size_t k = 1 + next(seed) % 12;
        if (k > *n - at) k = *n - at;
        memmove(text + at, text + at + k, *n - at - k);
        *n -= k;
    } else if (kind == 2 && *n > 0) { /* a piece is doubled somewhere */
        size_t from = next(seed) % *n, k = 1 + next(seed) % 20;
        char piece[20];
        if (k > *n - from) k = *n - from;
        if (*n + k > cap) return;
        memcpy(piece, text + from, k);
        memmove(text + at + k, text + at, *n - at);
        memcpy(text + at, piece, k);
        *n += k;
    } else { /* a token comes in */
        const char *b = bits[next(seed) % COUNT_OF(bits)];
        size_t k = strlen(b);
        if (*n + k > cap) return;
        memmove(text + at + k, text + at, *n - at);
        memcpy(text + at, b, k);
        *n += k;
    }
}

static void test_mutations(void **state) {
    (void)state;
    uint64_t seed = 1;
    int good = 0;
    const char *rounds = getenv("PROEM_FUZZ_ROUNDS");
    const char *start = getenv("PROEM_FUZZ_SEED");
    if (start != NULL) seed = (uint64_t)atoll(start);
    for (long i = 0, n_rounds = rounds != NULL ? atol(rounds) : 4000; i < n_rounds; i++) {
        char text[4096];
        size_t n = sizeof sample - 1;
        memcpy(text, sample, n);
        for (uint32_t k = 1 + next(&seed) % 4; k > 0; k--)
            mutate(text, &n, sizeof text, &seed);
        good += try_text(text, n, next(&seed) % 4 == 0) == PROEM_OK;
    }
    assert_true(good > 0 || rounds != NULL);
}

static void test_bytes(void **state) {
    (void)state;
    assert_int_equal(try_text("", 0, false), PROEM_INVALID);
    assert_int_equal(try_text("graph g(){return 1}\0", 20, false), PROEM_INVALID);
    assert_int_equal(try_text("graph g(`a\0b`: f32[]) { return 1 }", 34, false), PROEM_INVALID);
    assert_int_equal(try_text("# \xc0\x80\ngraph g(){return 1}", 22, false), PROEM_INVALID);
    assert_int_equal(try_text("# \xed\xa0\x80\ngraph g(){return 1}", 23, false), PROEM_INVALID);
    assert_int_equal(try_text("\xef\xbb\xbfgraph g(){return 1}", 22, false), PROEM_OK);
    assert_int_equal(try_text("graph g() {\r\n  return 1 # x\r\n}\r\n", 32, false), PROEM_OK);
    uint64_t seed = 5;
    for (int i = 0; i < 500; i++) {
        char text[64];
        for (size_t k = 0; k < sizeof text; k++)
            text[k] = (char)next(&seed);
        assert_int_equal(try_text(text, sizeof text, false), PROEM_INVALID);
    }
}

/* Nesting of every kind, far deeper than allowed, and long chains, which are. */
static void test_depth(void **state) {
    (void)state;
    static const char *const nest[] = {"(", "-", "~", "not ", "exp(", "x ** ", "[", "{", "x ** -("};
    const size_t count = 20000;
    for (size_t i = 0; i < COUNT_OF(nest); i++) {
        struct str s;
        str_init(&s, &allocator_default);
        str_add(&s, "graph g(x: f32[2]) { y = ");
        for (size_t k = 0; k < count; k++)
            str_add(&s, nest[i]);
        str_add(&s, "x; return y }");
        assert_int_equal(try_text(s.at, s.n, false), PROEM_INVALID);
        str_free(&s);
    }
    static const char *const chain[] = {" + x", " - 1", "*x", "; a = x", " ;\n # c\n"};
    for (size_t i = 0; i < COUNT_OF(chain); i++) {
        struct str s;
        str_init(&s, &allocator_default);
        str_add(&s, "graph g(x: f32[2]) { y = x + 1");
        for (size_t k = 0; k < (i == 3 ? 1u : 3000u); k++)
            str_add(&s, chain[i]);
        str_add(&s, "; return y }");
        assert_int_equal(try_text(s.at, s.n, false), PROEM_OK);
        str_free(&s);
    }
}

/* Products of sums must not explode, nor deep quotients. */
static void test_large_dims(void **state) {
    (void)state;
    static const char *const pieces[] = {"*(A + B + C + D + E)", "*M",   " + M*M*K", "//3 + 1",
                                         "*9223372036854775807", "%7*K", "/2"};
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        struct str s;
        str_init(&s, &allocator_default);
        str_add(&s, "graph g(x: f32[M");
        for (int k = 0; k < 300; k++)
            str_add(&s, pieces[i]);
        str_add(&s, ", 3]) { return reshape(x, [3, -1]) }");
        try_text(s.at, s.n, false);
        str_free(&s);
    }
}

struct failing {
    long left; /* allocations until one fails; all after it work again */
};

static void *failing_alloc(void *user, size_t size, size_t align) {
    struct failing *f = user;
    if (f->left-- == 0) return NULL;
    return allocator_default.alloc(NULL, size, align);
}

static void failing_free(void *user, void *p, size_t size) {
    (void)user;
    allocator_default.free(NULL, p, size);
}

/* A text that needs many blocks of the arena, so that many places see the failure. */
static void test_no_memory(void **state) {
    (void)state;
    struct str s;
    str_init(&s, &allocator_default);
    for (int i = 0; i < 30; i++)
        str_printf(
            &s,
            "graph g%d(x: f32[M, K/2], q: f32[1, 2, S, 8], t: f32[2]) {\n  a = x * 2 + 1 # c\n"
            "  o = attention(q, q, q) { score(s, b, h, i, j) = s + take(t, h) * M }\n"
            "  c, d = split(concat(a, exp(x), axis=0), 2, axis=0)\n"
            "  return reshape(c - d, [-1]), o, x, `%0200d` }\n",
            i, 0),
            str_printf(&s, "%s", "");
    char *text = s.at;
    for (char *p = text; (p = strstr(p, ", `0")) != NULL; p += 2)
        memset(p, ' ', 204); /* no such output: only bulk */
    long tries = 0;
    for (;; tries++) {
        struct failing f = {tries};
        struct allocator alloc = {failing_alloc, failing_free, &f};
        struct arena a;
        struct graph_file file = {0};
        struct err e;
        arena_init(&a, &alloc);
        err_clear(&e);
        enum proem_status st = graph_parse(&a, "f", text, s.n, false, &file, &e);
        bool hit = f.left < 0;
        if (st == PROEM_OK) {
            struct str out;
            str_init(&out, &alloc);
            graph_print(file.graphs.at[0], false, &out);
            st = graph_verify(file.graphs.at[0], &e);
            if (out.failed) st = PROEM_NOMEM;
            hit = f.left < 0;
            str_free(&out);
        }
        assert_int_equal(st, hit ? PROEM_NOMEM : PROEM_OK);
        arena_free(&a);
        if (!hit) break;
    }
    assert_true(tries > 5);
    str_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefixes),   cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_bytes),      cmocka_unit_test(test_depth),
        cmocka_unit_test(test_large_dims), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
