/* SPDX-License-Identifier: MIT
 * What subcommands share when they print: errors, JSON, files, words.
 */
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

/* Names from files may hold anything; an error is one line and gives no orders to a terminal. */
static void make_plain(char *text) {
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) *text = '?';
    }
}

int print_error(const char *file, const struct err *e) {
    struct err plain = *e;
    make_plain(plain.text);
    const char *text = plain.text[0] != '\0' ? plain.text : status_text(e->status);
    if (e->line > 0 && file != NULL)
        fprintf(stderr, "%s:%d:%d: error: %s\n", file, e->line, e->col, text);
    else
        fprintf(stderr, "proem: %s\n", text);
    return status_exit(e->status);
}

enum proem_status stdout_failed(struct err *e) {
    return err_set(e, file_status(errno), "standard output: cannot be written");
}

enum proem_status print_json(json_t *root, struct err *e) {
    if (root == NULL) return err_nomem(e);
    bool ok = json_dumpf(root, stdout, JSON_ENSURE_ASCII) == 0 && putchar('\n') != EOF;
    json_decref(root);
    return ok ? PROEM_OK : stdout_failed(e);
}

json_t *json_real_or_null(double v) {
    return isfinite(v) ? json_real(v) : json_null();
}

const char *edge_input(struct arena *a, const struct graph *g, const struct plan_edge *edge) {
    const char *name = graph_input_name(graph_node(g, edge->to)->op, edge->input);
    if (name != NULL) return name;
    name = arena_printf(a, "%d", edge->input);
    return name != NULL ? name : "";
}

const char *verdict_name(enum verdict v) {
    switch (v) {
    case VERDICT_FUSED: return "fused";
    case VERDICT_MOVED: return "moved";
    case VERDICT_STORED: return "stored";
    }
    return "?";
}

const char *precision_name(enum precision p) {
    switch (p) {
    case PREC_BOUNDARY: return "boundary";
    case PREC_EAGER: return "eager";
    case PREC_NATIVE: return "native";
    }
    return "?";
}

const char *device_name(enum cli_device d) {
    static const char *const names[] = {"cpu", "cuda", "ref"};
    return (unsigned)d < COUNT_OF(names) ? names[d] : "?";
}

enum proem_status write_text(const char *path, const char *text, size_t n, struct err *e) {
    struct file_out f;
    TRY(file_create(path, &f, e));
    return file_finish(&f, file_append(&f, text, n, e), e);
}

static enum proem_status make_one(const char *path, struct err *e) {
    struct stat st;
    if (mkdir(path, 0777) == 0) return PROEM_OK;
    if (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return PROEM_OK;
    return err_set(e, file_status(errno), "%s: %s", path,
                   errno == EEXIST ? "there is a file of that name" : strerror(errno));
}

enum proem_status make_dir(struct arena *a, const char *path, struct err *e) {
    for (const char *slash = path; (slash = strchr(slash + 1, '/')) != NULL;) {
        const char *part = arena_strndup(a, path, (size_t)(slash - path));
        if (part == NULL) return err_nomem(e);
        TRY(make_one(part, e));
    }
    return make_one(path, e);
}
