/* SPDX-License-Identifier: MIT
 * The drivers' command lines, NAME=VALUE in any order as make passes them, and the files that they
 * read whole. A table says which names there are, of which kind, and where the values go; what was
 * there before is the default.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static bool number(const char *v, long long least, long long most, long long *out) {
    char *end = NULL;
    errno = 0;
    *out = strtoll(v, &end, 10);
    return errno == 0 && end != v && *end == '\0' && *out >= least && *out <= most;
}

static bool take(const struct setting *s, const char *v) {
    long long x = 0;
    if (s->kind == SETTING_TEXT) {
        *(const char **)s->to = v[0] != '\0' ? v : NULL;
        return true;
    }
    if (v[0] == '\0') return true;
    if (s->kind == SETTING_INT) {
        if (!number(v, 0, 1 << 30, &x)) return false;
        *(int *)s->to = (int)x;
    } else {
        if (!number(v, 0, INT64_MAX, &x)) return false;
        *(int64_t *)s->to = x;
    }
    return true;
}

static void usage(FILE *to, const char *program, const struct setting *list, int n) {
    fprintf(to, "usage: %s", program);
    for (int i = 0; i < n; i++)
        fprintf(to, " [%s=%s]", list[i].name, list[i].kind == SETTING_TEXT ? "text" : "number");
    fprintf(to, "\n");
}

bool settings_read(const char *program, const struct setting *list, int n, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *eq = strchr(argv[i], '=');
        size_t len = eq != NULL ? (size_t)(eq - argv[i]) : 0;
        bool taken = false;
        for (int k = 0; k < n && eq != NULL && !taken; k++) {
            bool named = strlen(list[k].name) == len && memcmp(argv[i], list[k].name, len) == 0;
            taken = named && take(&list[k], eq + 1);
        }
        if (taken) continue;
        fprintf(stderr, "%s: '%s' is no setting, or no number\n", program, argv[i]);
        usage(stderr, program, list, n);
        return false;
    }
    return true;
}

char *text_of_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (f == NULL) return NULL;
    size_t cap = 1 << 16, n = 0;
    char *text = malloc(cap);
    while (text != NULL) {
        size_t got = fread(text + n, 1, cap - n - 1, f);
        n += got;
        if (got == 0) break;
        if (n + 1 < cap) continue;
        char *more = realloc(text, cap *= 2);
        if (more == NULL) free(text);
        text = more;
    }
    fclose(f);
    if (text != NULL) text[n] = '\0';
    return text;
}
