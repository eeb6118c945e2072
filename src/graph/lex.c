/* SPDX-License-Identifier: MIT
 * Lexer of the graph text: bytes in, tokens and comments out.
 *
 * Newlines are tokens except inside ( ) and [ ]; a run of them is one token, and none comes first.
 * Names in backquotes and strings may hold any text of one line; a doubled quote stands for one.
 * The text must be UTF-8 (RFC 3629) without control characters, so that every name can be printed
 * in messages and in JSON. Nothing here trusts the input: a NUL byte is an error like any other.
 */
#include "graph/internal.h"

#include <string.h>

/* Brackets nest at most this deep; the parser recurses no deeper. */
#define MAX_NEST 256

struct lexer {
    struct arena *a;
    const unsigned char *s, *end, *line_start;
    int line;
    struct lexed *out;
    struct err *e;
    int depth;
    char open[MAX_NEST];
    int open_line[MAX_NEST];
};

static int column(const struct lexer *l, const unsigned char *p) {
    return (int)(p - l->line_start) + 1;
}

static enum proem_status push(struct lexer *l, struct token t) {
    if (l->out->tokens.n >= UINT32_MAX || !VEC_PUSH(l->a, &l->out->tokens, t))
        return err_nomem(l->e);
    return PROEM_OK;
}

static struct token token_at(const struct lexer *l, enum token_kind kind) {
    return (struct token){.kind = kind, .line = l->line, .col = column(l, l->s), .text = ""};
}

/* Length of the UTF-8 sequence at p, 0 if it is none. */
static size_t utf8_length(const unsigned char *p, const unsigned char *end) {
    unsigned char c = *p;
    size_t n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if (n == 0 || (size_t)(end - p) < n) return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] > 0x9f) || (c == 0xf0 && p[1] < 0x90) ||
        (c == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

static enum proem_status check_text(struct lexer *l, const unsigned char *p,
                                    const unsigned char *end, const char *what) {
    while (p < end) {
        size_t n = utf8_length(p, end);
        if (n == 0)
            return err_set_at(l->e, PROEM_INVALID, l->line, column(l, p), "%s is not UTF-8", what);
        if ((*p < 0x20 && *p != '\t') || *p == 0x7f)
            return err_set_at(l->e, PROEM_INVALID, l->line, column(l, p),
                              "%s has a control character (0x%02x); remove it", what, *p);
        p += n;
    }
    return PROEM_OK;
}

static bool is_name_start(unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(unsigned char c) {
    return c >= '0' && c <= '9';
}

/* A name in backquotes or a string. */
static enum proem_status lex_quoted(struct lexer *l, enum token_kind kind) {
    struct token t = token_at(l, kind);
    unsigned char quote = *l->s;
    const char *what = kind == TOK_NAME ? "the name in backquotes" : "the string";
    const unsigned char *p = l->s + 1;
    size_t doubled = 0;
    for (;; p++) {
        if (p >= l->end || *p == '\n')
            return err_set_at(l->e, PROEM_INVALID, t.line, t.col,
                              "%s does not end on this line; add a closing %c", what, quote);
        if (*p != quote) continue;
        if (p + 1 >= l->end || p[1] != quote) break;
        doubled++;
        p++;
    }
    TRY(check_text(l, l->s + 1, p, what));
    size_t n = (size_t)(p - l->s) - 1;
    if (n == 0 && kind == TOK_NAME)
        return err_set_at(l->e, PROEM_INVALID, t.line, t.col, "a name cannot be empty");
    if (n > UINT32_MAX / 2) return err_nomem(l->e);
    char *text = ARENA_NEW(l->a, char, n - doubled + 1);
    if (text == NULL) return err_nomem(l->e);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        text[k++] = (char)l->s[1 + i];
        if (l->s[1 + i] == quote) i++;
    }
    t.text = text;
    t.n = (uint32_t)k;
    t.quoted = true;
    l->s = p + 1;
    return push(l, t);
}

static enum proem_status lex_name(struct lexer *l) {
    struct token t = token_at(l, TOK_NAME);
    const unsigned char *p = l->s;
    while (p < l->end && (is_name_start(*p) || is_digit(*p)))
        p++;
    t.text = arena_strndup(l->a, (const char *)l->s, (size_t)(p - l->s));
    if (t.text == NULL) return err_nomem(l->e);
    t.n = (uint32_t)(p - l->s);
    l->s = p;
    return push(l, t);
}

/* digits [. digits] [e [sign] digits], or . digits */
static enum proem_status lex_number(struct lexer *l) {
    struct token t = token_at(l, TOK_INT);
    const unsigned char *p = l->s;
    while (p < l->end && is_digit(*p))
        p++;
    if (p < l->end && *p == '.') {
        t.kind = TOK_FLOAT;
        for (p++; p < l->end && is_digit(*p);)
            p++;
    }
    if (p < l->end && (*p == 'e' || *p == 'E')) {
        const unsigned char *q = p + 1;
        if (q < l->end && (*q == '+' || *q == '-')) q++;
        if (q < l->end && is_digit(*q)) {
            t.kind = TOK_FLOAT;
            for (p = q; p < l->end && is_digit(*p);)
                p++;
        }
    }
    if (p < l->end && (is_name_start(*p) || *p == '.'))
        return err_set_at(l->e, PROEM_INVALID, t.line, column(l, p),
                          "a number is followed by `%c`; put a space or an operator between", *p);
    size_t n = (size_t)(p - l->s);
    if (n > 4096)
        return err_set_at(l->e, PROEM_INVALID, t.line, t.col, "the number has too many digits");
    t.text = arena_strndup(l->a, (const char *)l->s, n);
    if (t.text == NULL) return err_nomem(l->e);
    t.n = (uint32_t)n;
    l->s = p;
    return push(l, t);
}

static enum proem_status lex_comment(struct lexer *l) {
    const unsigned char *p = l->s;
    while (p < l->end && *p != '\n')
        p++;
    const unsigned char *last = p;
    while (last > l->s + 1 && (last[-1] == '\r' || last[-1] == ' ' || last[-1] == '\t'))
        last--;
    TRY(check_text(l, l->s + 1, last, "the comment"));
    const unsigned char *q = l->line_start;
    while (q < l->s && (*q == ' ' || *q == '\t'))
        q++;
    struct comment c = {.line = l->line, .own_line = q == l->s};
    c.text = arena_strndup(l->a, (const char *)l->s + 1, (size_t)(last - l->s) - 1);
    if (c.text == NULL || !VEC_PUSH(l->a, &l->out->comments, c) ||
        !VEC_PUSH(l->a, &l->out->comment_at, (uint32_t)l->out->tokens.n))
        return err_nomem(l->e);
    l->s = p;
    return PROEM_OK;
}

static enum proem_status lex_newline(struct lexer *l) {
    struct token t = token_at(l, TOK_NEWLINE);
    const size_t n = l->out->tokens.n;
    bool inside = l->depth > 0 && l->open[l->depth - 1] != '{';
    bool first = n == 0 || l->out->tokens.at[n - 1].kind == TOK_NEWLINE;
    if (l->line == INT32_MAX) return err_nomem(l->e);
    l->s++;
    l->line++;
    l->line_start = l->s;
    return inside || first ? PROEM_OK : push(l, t);
}

static enum proem_status bracket(struct lexer *l, char c) {
    int col = column(l, l->s);
    if (c == '(' || c == '[' || c == '{') {
        if (l->depth == MAX_NEST)
            return err_set_at(l->e, PROEM_INVALID, l->line, col,
                              "brackets are nested more than %d deep; bind parts of the expression "
                              "to names",
                              MAX_NEST);
        l->open_line[l->depth] = l->line;
        l->open[l->depth++] = c;
        return PROEM_OK;
    }
    char want = c == ')' ? '(' : c == ']' ? '[' : '{';
    if (l->depth == 0 || (l->open[l->depth - 1] == '{' && want != '{'))
        return err_set_at(l->e, PROEM_INVALID, l->line, col, "`%c` without its `%c`", c, want);
    if (l->open[l->depth - 1] != want)
        return err_set_at(l->e, PROEM_INVALID, l->line, col,
                          "`%c` without its `%c`: the `%c` of line %d is still open", c, want,
                          l->open[l->depth - 1], l->open_line[l->depth - 1]);
    l->depth--;
    return PROEM_OK;
}

static enum proem_status lex_punct(struct lexer *l) {
    static const char pairs[][3] = {"**", "//", "<<", ">>", "<=", ">=", "==", "!="};
    struct token t = token_at(l, TOK_PUNCT);
    unsigned char c = *l->s;
    if (l->end - l->s >= 2) {
        for (size_t i = 0; i < COUNT_OF(pairs); i++) {
            if (c != (unsigned char)pairs[i][0] || l->s[1] != (unsigned char)pairs[i][1]) continue;
            t.punct = PUNCT2(c, l->s[1]);
            l->s += 2;
            return push(l, t);
        }
    }
    if (c == '\0' || strchr("(){}[],;:=+-*/%&|^~<>", c) == NULL) {
        size_t n = utf8_length(l->s, l->end);
        TRY(check_text(l, l->s, l->s + (n == 0 ? 1 : n), "the text"));
        return err_set_at(l->e, PROEM_INVALID, t.line, t.col,
                          "unexpected character `%.*s`; put names with it in backquotes", (int)n,
                          (const char *)l->s);
    }
    if (strchr("(){}[]", c) != NULL) TRY(bracket(l, (char)c));
    t.punct = c;
    l->s++;
    return push(l, t);
}

static enum proem_status lex_one(struct lexer *l) {
    unsigned char c = *l->s;
    if (c == ' ' || c == '\t' || c == '\r') {
        l->s++;
        return PROEM_OK;
    }
    if (c == '\n') return lex_newline(l);
    if (c == '#') return lex_comment(l);
    if (c == '`') return lex_quoted(l, TOK_NAME);
    if (c == '"') return lex_quoted(l, TOK_STRING);
    if (is_name_start(c)) return lex_name(l);
    if (is_digit(c) || (c == '.' && l->end - l->s > 1 && is_digit(l->s[1]))) return lex_number(l);
    return lex_punct(l);
}

enum proem_status lex(struct arena *a, const char *text, size_t n, struct lexed *out,
                      struct err *e) {
    *out = (struct lexed){0};
    if (n >= (size_t)INT32_MAX) return err_set(e, PROEM_INVALID, "the text is longer than 2 GiB");
    struct lexer *l = ARENA_NEW(a, struct lexer, 1);
    if (l == NULL) return err_nomem(e);
    l->a = a;
    l->s = l->line_start = (const unsigned char *)text;
    l->end = l->s + n;
    l->line = 1;
    l->out = out;
    l->e = e;
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) l->s += 3; /* byte order mark */
    while (l->s < l->end)
        TRY(lex_one(l));
    return push(l, token_at(l, TOK_END));
}

/* ---- names ----------------------------------------------------------------------------------- */

bool name_is_writable(const char *s) {
    const unsigned char *p = (const unsigned char *)s, *end = p + strlen(s);
    if (p == end) return false;
    while (p < end) {
        size_t n = utf8_length(p, end);
        if (n == 0 || (*p < 0x20 && *p != '\t') || *p == 0x7f) return false;
        p += n;
    }
    return true;
}

bool name_needs_quotes(const char *s) {
    static const char *const reserved[] = {"graph", "const", "return", "in", "not",
                                           "true",  "false", "inf",    "nan"};
    for (size_t i = 0; i < COUNT_OF(reserved); i++)
        if (strcmp(s, reserved[i]) == 0) return true;
    if (!is_name_start((unsigned char)*s)) return true;
    for (; *s != '\0'; s++)
        if (!is_name_start((unsigned char)*s) && !is_digit((unsigned char)*s)) return true;
    return false;
}

void name_print(const char *s, struct str *out) {
    if (!name_needs_quotes(s)) {
        str_add(out, s);
        return;
    }
    str_add(out, "`");
    for (; *s != '\0'; s++) {
        if (*s == '`') str_add(out, "`");
        str_addn(out, s, 1);
    }
    str_add(out, "`");
}
