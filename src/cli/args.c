/* SPDX-License-Identifier: MIT
 * The command line: one table of options, each with the commands that take it.
 *
 * A value follows its option as the next word or after `=`; an optional value only after `=`.
 * Options may stand anywhere; `--` ends them. What is wrong is one line that names the word.
 */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum value_kind { VALUE_NONE, VALUE_REQUIRED, VALUE_OPTIONAL };

#define INPUTS (CMD_RUN | CMD_EXPLAIN | CMD_EMIT | CMD_BENCH)
#define SIZED  (INPUTS | CMD_FMT | CMD_DOCTOR | CMD_CACHE)
#define ALL    (SIZED | CMD_CONVERT) /* text keeps a model's symbols */

struct option {
    const char *name;
    enum value_kind value;
    unsigned commands;
    enum proem_status (*set)(struct cli *o, const char *name, const char *value, struct err *e);
};

/* ---- values ---------------------------------------------------------------------------------- */

static enum proem_status bad(const char *name, const char *value, const char *expected,
                             struct err *e) {
    return err_set(e, PROEM_INVALID, "%s: '%s' is wrong; expected %s", name, value, expected);
}

static bool parse_number(const char *text, uint64_t max, uint64_t *out) {
    if (text[0] < '0' || text[0] > '9') return false;
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || v > max) return false;
    *out = v;
    return true;
}

/* NAME=TEXT: split at the first `=`, or the last. */
static enum proem_status split(struct cli *o, const char *name, const char *value, bool last,
                               struct pair *out, struct err *e) {
    const char *eq = last ? strrchr(value, '=') : strchr(value, '=');
    if (eq == NULL || eq == value || eq[1] == '\0') return bad(name, value, "NAME=VALUE", e);
    out->name = arena_strndup(o->arena, value, (size_t)(eq - value));
    out->text = arena_strdup(o->arena, eq + 1);
    return out->name != NULL && out->text != NULL ? PROEM_OK : err_nomem(e);
}

#define PUSH(list, value) (VEC_PUSH(o->arena, list, value) ? PROEM_OK : err_nomem(e))

static enum proem_status set_in(struct cli *o, const char *name, const char *v, struct err *e) {
    struct pair p;
    TRY(split(o, name, v, false, &p, e));
    for (size_t i = 0; i < o->in.n; i++) {
        if (strcmp(o->in.at[i].name, p.name) == 0)
            return err_set(e, PROEM_INVALID, "%s: %s is given twice", name, p.name);
    }
    return PUSH(&o->in, p);
}

static enum proem_status set_out(struct cli *o, const char *name, const char *v, struct err *e) {
    struct pair p;
    TRY(split(o, name, v, false, &p, e));
    size_t n = strlen(p.text);
    if (n < 4 || strcmp(p.text + n - 4, ".npy") != 0) return bad(name, v, "NAME=FILE.npy", e);
    return PUSH(&o->out, p);
}

static enum proem_status set_dim(struct cli *o, const char *name, const char *v, struct err *e) {
    struct pair p;
    uint64_t n;
    TRY(split(o, name, v, false, &p, e));
    if (!parse_number(p.text, INT64_MAX, &n)) return bad(name, v, "SYMBOL=SIZE, as M=16", e);
    return PUSH(&o->dims, p);
}

static enum proem_status set_weights(struct cli *o, const char *name, const char *v,
                                     struct err *e) {
    (void)name;
    (void)e;
    o->weights = v;
    return PROEM_OK;
}

static enum proem_status set_seed(struct cli *o, const char *name, const char *v, struct err *e) {
    if (!parse_number(v, UINT64_MAX, &o->seed)) return bad(name, v, "a number from 0", e);
    return PROEM_OK;
}

static enum proem_status set_graph(struct cli *o, const char *name, const char *v, struct err *e) {
    (void)name;
    (void)e;
    o->graph = v;
    return PROEM_OK;
}

static enum proem_status set_precision(struct cli *o, const char *name, const char *v,
                                       struct err *e) {
    if (strcmp(v, "boundary") == 0)
        o->precision = PREC_BOUNDARY;
    else if (strcmp(v, "eager") == 0)
        o->precision = PREC_EAGER;
    else if (strcmp(v, "native") == 0)
        o->precision = PREC_NATIVE;
    else
        return bad(name, v, "boundary, eager or native", e);
    return PROEM_OK;
}

static enum proem_status set_threads(struct cli *o, const char *name, const char *v,
                                     struct err *e) {
    uint64_t n;
    if (!parse_number(v, 4096, &n) || n == 0) return bad(name, v, "a number from 1 to 4096", e);
    o->threads = (int)n;
    return PROEM_OK;
}

static enum proem_status set_fuse(struct cli *o, const char *name, const char *v, struct err *e) {
    static const char expected[] = "model, always, never, FROM:TO=always or FROM:TO=never";
    if (strcmp(v, "model") == 0) {
        o->fuse = FUSE_MODEL;
    } else if (strcmp(v, "always") == 0) {
        o->fuse = FUSE_ALWAYS;
    } else if (strcmp(v, "never") == 0) {
        o->fuse = FUSE_NEVER;
    } else {
        struct pair p;
        if (strchr(v, '=') == NULL || strchr(v, ':') == NULL) return bad(name, v, expected, e);
        TRY(split(o, name, v, true, &p, e));
        if (strcmp(p.text, "always") != 0 && strcmp(p.text, "never") != 0)
            return bad(name, v, expected, e);
        return PUSH(&o->force, p);
    }
    return PROEM_OK;
}

static enum proem_status set_assume(struct cli *o, const char *name, const char *v, struct err *e) {
    if (strcmp(v, "bandwidth") != 0) return bad(name, v, "bandwidth", e);
    o->assume_bandwidth = true;
    return PROEM_OK;
}

static enum proem_status set_tune(struct cli *o, const char *name, const char *v, struct err *e) {
    if (v != NULL && strcmp(v, "order") != 0) return bad(name, v, "nothing or order", e);
    o->tune = true;
    o->tune_order = v != NULL;
    return PROEM_OK;
}

static enum proem_status set_strict(struct cli *o, const char *name, const char *v, struct err *e) {
    (void)name, (void)v, (void)e;
    o->strict = true;
    return PROEM_OK;
}

static enum proem_status check_pass(const char *name, const char *v, struct err *e) {
    if (pass_by_name(v) != PASS_COUNT) return PROEM_OK;
    return bad(name, v, "parse, lower, fuse, tune, gen, compile or link", e);
}

static enum proem_status set_dump(struct cli *o, const char *name, const char *v, struct err *e) {
    TRY(check_pass(name, v, e));
    return PUSH(&o->dump, v);
}

static enum proem_status set_dump_dir(struct cli *o, const char *name, const char *v,
                                      struct err *e) {
    (void)name, (void)e;
    o->dump_dir = v;
    return PROEM_OK;
}

static enum proem_status set_run_pass(struct cli *o, const char *name, const char *v,
                                      struct err *e) {
    if (pass_by_name(v) > PASS_GEN) return bad(name, v, "parse, lower, fuse, tune or gen", e);
    o->run_pass = v;
    return PROEM_OK;
}

static enum proem_status set_device(struct cli *o, const char *name, const char *v, struct err *e) {
    if (strcmp(v, "cpu") == 0)
        o->device = CLI_CPU;
    else if (strcmp(v, "cuda") == 0)
        o->device = CLI_CUDA;
    else if (strcmp(v, "ref") == 0 && o->command == CMD_RUN)
        o->device = CLI_REF;
    else
        return bad(name, v, o->command == CMD_RUN ? "cpu, cuda or ref" : "cpu or cuda", e);
    return PROEM_OK;
}

static enum proem_status set_arch(struct cli *o, const char *name, const char *v, struct err *e) {
    (void)name, (void)e;
    o->arch = v;
    return PROEM_OK;
}

static enum proem_status set_check(struct cli *o, const char *name, const char *v, struct err *e) {
    uint64_t n = 0;
    if (v != NULL && (strncmp(v, "rows:", 5) != 0 || !parse_number(v + 5, INT64_MAX, &n) || n == 0))
        return bad(name, v, "nothing or rows:N", e);
    o->check = true;
    o->rows = (int64_t)n;
    return PROEM_OK;
}

static enum proem_status set_json(struct cli *o, const char *name, const char *v, struct err *e) {
    (void)name, (void)v, (void)e;
    o->json = true;
    return PROEM_OK;
}

static enum proem_status set_vs(struct cli *o, const char *name, const char *v, struct err *e) {
    if (strcmp(v, "unfused") != 0) return bad(name, v, "unfused", e);
    o->vs_unfused = true;
    return PROEM_OK;
}

static enum proem_status set_dir(struct cli *o, const char *name, const char *v, struct err *e) {
    (void)name, (void)e;
    o->dir = v;
    return PROEM_OK;
}

static enum proem_status set_onnx(struct cli *o, const char *name, const char *v, struct err *e) {
    (void)name, (void)e;
    o->onnx = v;
    return PROEM_OK;
}

static enum proem_status set_version(struct cli *o, const char *name, const char *v,
                                     struct err *e) {
    (void)name, (void)v, (void)e;
    o->version = true;
    return PROEM_OK;
}

static enum proem_status set_help(struct cli *o, const char *name, const char *v, struct err *e) {
    (void)name, (void)v, (void)e;
    o->help = true;
    return PROEM_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct option options[] = {
    {"--in", VALUE_REQUIRED, INPUTS | CMD_CONVERT, set_in},
    {"--weights", VALUE_REQUIRED, INPUTS, set_weights},
    {"--seed", VALUE_REQUIRED, INPUTS, set_seed},
    {"--out", VALUE_REQUIRED, CMD_RUN, set_out},
    {"--device", VALUE_REQUIRED, INPUTS, set_device},
    {"--arch", VALUE_REQUIRED, INPUTS, set_arch},
    {"--check", VALUE_OPTIONAL, CMD_RUN, set_check},
    {"--json", VALUE_NONE, CMD_RUN | CMD_EXPLAIN | CMD_BENCH, set_json},
    {"--vs", VALUE_REQUIRED, CMD_BENCH, set_vs},
    {"--onnx", VALUE_REQUIRED, CMD_EXPLAIN, set_onnx},
    {"-o", VALUE_REQUIRED, CMD_EMIT | CMD_CONVERT, set_dir},
    {"--dim", VALUE_REQUIRED, SIZED, set_dim},
    {"--graph", VALUE_REQUIRED, ALL, set_graph},
    {"--precision", VALUE_REQUIRED, ALL, set_precision},
    {"--threads", VALUE_REQUIRED, ALL, set_threads},
    {"--fuse", VALUE_REQUIRED, ALL, set_fuse},
    {"--assume", VALUE_REQUIRED, ALL, set_assume},
    {"--tune", VALUE_OPTIONAL, ALL, set_tune},
    {"--strict", VALUE_NONE, ALL, set_strict},
    {"-d", VALUE_REQUIRED, ALL, set_dump},
    {"--dump-dir", VALUE_REQUIRED, ALL, set_dump_dir},
    {"--run-pass", VALUE_REQUIRED, ALL, set_run_pass},
    {"--version", VALUE_NONE, ALL, set_version},
    {"--help", VALUE_NONE, ALL, set_help},
    {"-h", VALUE_NONE, ALL, set_help},
};

static const struct {
    const char *name;
    enum command command;
    const char *file; /* what the word after it is, NULL: there is none */
} commands[] = {
    {"run", CMD_RUN, "FILE"},     {"explain", CMD_EXPLAIN, "FILE"},
    {"emit", CMD_EMIT, "FILE"},   {"bench", CMD_BENCH, "FILE"},
    {"fmt", CMD_FMT, "FILE"},     {"convert", CMD_CONVERT, "FILE"},
    {"doctor", CMD_DOCTOR, NULL}, {"cache", CMD_CACHE, "stat or clear"},
};

static const char *command_name(enum command c) {
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        if (commands[i].command == c) return commands[i].name;
    }
    return "";
}

static const struct option *find_option(const char *word, size_t n) {
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        if (strlen(options[i].name) == n && memcmp(options[i].name, word, n) == 0)
            return &options[i];
    }
    return NULL;
}

/* The name that a word is nearest to, if it is near. */
struct nearest {
    const char *name;
    int distance;
};

static void look_near(struct nearest *x, const char *word, size_t n, const char *name) {
    int d = typo_distance(word, n, name);
    if (d < 0 || (x->name != NULL && d >= x->distance)) return;
    *x = (struct nearest){name, d};
}

static enum proem_status no_option(const char *word, size_t n, struct err *e) {
    struct nearest near = {0};
    for (size_t i = 0; i < COUNT_OF(options); i++)
        look_near(&near, word, n, options[i].name);
    if (near.name == NULL)
        return err_set(e, PROEM_INVALID, "there is no option '%s' (see proem --help)", word);
    return err_set(e, PROEM_INVALID, "there is no option '%s'; did you mean %s?", word, near.name);
}

static enum proem_status no_command(const char *word, struct err *e) {
    struct nearest near = {0};
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        look_near(&near, word, strlen(word), commands[i].name);
    if (near.name != NULL)
        return err_set(e, PROEM_INVALID, "there is no command '%s'; did you mean %s?", word,
                       near.name);
    return err_set(e, PROEM_INVALID,
                   "there is no command '%s'; expected run, explain, emit, bench, fmt, convert, "
                   "doctor or cache",
                   word);
}

static enum proem_status parse_option(struct cli *o, int argc, char **argv, int *at,
                                      struct err *e) {
    const char *word = argv[*at];
    size_t n = strcspn(word, "=");
    const char *value = word[n] == '=' ? word + n + 1 : NULL;
    const struct option *opt = find_option(word, n);
    if (opt == NULL) return no_option(word, n, e);
    if (o->command != CMD_NONE && (opt->commands & (unsigned)o->command) == 0)
        return err_set(e, PROEM_INVALID, "%s is no option of proem %s", opt->name,
                       command_name(o->command));
    if (opt->value == VALUE_NONE && value != NULL)
        return err_set(e, PROEM_INVALID, "%s takes no value, but '%s' gives one", opt->name, word);
    if (opt->value == VALUE_REQUIRED && value == NULL) {
        if (*at + 1 >= argc)
            return err_set(e, PROEM_INVALID, "%s needs a value after it", opt->name);
        value = argv[++*at];
    }
    return opt->set(o, opt->name, value, e);
}

static enum proem_status parse_word(struct cli *o, const char *word, struct err *e) {
    if (o->file != NULL || (o->command & CMD_DOCTOR) != 0)
        return err_set(e, PROEM_INVALID, "proem %s: '%s' is one word too many",
                       command_name(o->command), word);
    o->file = word;
    return PROEM_OK;
}

/* Options may stand before the command, so that is looked for first. */
static enum proem_status find_command(struct cli *o, int argc, char **argv, int *at,
                                      struct err *e) {
    *at = 0;
    for (int i = 1; i < argc && o->command == CMD_NONE; i++) {
        if (argv[i][0] == '-') {
            const struct option *opt = find_option(argv[i], strcspn(argv[i], "="));
            if (opt != NULL && opt->value == VALUE_REQUIRED && strchr(argv[i], '=') == NULL) i++;
            continue;
        }
        *at = i;
        for (size_t j = 0; j < COUNT_OF(commands); j++) {
            if (strcmp(commands[j].name, argv[i]) == 0) o->command = commands[j].command;
        }
        if (o->command == CMD_NONE) return no_command(argv[i], e);
    }
    return PROEM_OK;
}

static enum proem_status check_complete(const struct cli *o, struct err *e) {
    if (o->version || o->help) return PROEM_OK;
    if (o->command == CMD_NONE)
        return err_set(e, PROEM_INVALID,
                       "no command; expected run, explain, emit, bench, fmt, "
                       "convert, doctor or cache (see proem --help)");
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        if (commands[i].command == o->command && commands[i].file != NULL && o->file == NULL)
            return err_set(e, PROEM_INVALID, "proem %s needs %s", commands[i].name,
                           commands[i].file);
    }
    if (o->command == CMD_EMIT && o->dir == NULL && o->run_pass == NULL)
        return err_set(e, PROEM_INVALID, "proem emit needs -o DIR");
    if (o->command == CMD_CONVERT && o->dir == NULL)
        return err_set(e, PROEM_INVALID, "proem convert needs -o FILE");
    if (o->command == CMD_CACHE && strcmp(o->file, "stat") != 0 && strcmp(o->file, "clear") != 0)
        return err_set(e, PROEM_INVALID, "proem cache: '%s' is wrong; expected stat or clear",
                       o->file);
    return PROEM_OK;
}

enum proem_status cli_parse(struct cli *o, int argc, char **argv, struct err *e) {
    int command_at;
    TRY(find_command(o, argc, argv, &command_at, e));
    bool options_end = false;
    for (int i = 1; i < argc; i++) {
        if (i == command_at) continue;
        if (!options_end && strcmp(argv[i], "--") == 0)
            options_end = true;
        else if (!options_end && argv[i][0] == '-' && argv[i][1] != '\0')
            TRY(parse_option(o, argc, argv, &i, e));
        else
            TRY(parse_word(o, argv[i], e));
    }
    return check_complete(o, e);
}

void cli_usage(FILE *to) {
    fputs("proem run FILE [inputs] [--out NAME=FILE.npy].. [--device cpu|cuda|ref] "
          "[--check[=rows:N]] [--json]\n"
          "proem explain FILE [inputs] [--device cpu|cuda] [--arch ARCH] [--json] [--onnx "
          "FILE.onnx]\n"
          "proem emit FILE [inputs] [--device cpu|cuda] [--arch ARCH] -o DIR\n"
          "proem bench FILE [inputs] [--device cpu|cuda] [--vs unfused] [--json]\n"
          "proem fmt FILE\n"
          "proem convert MODEL.onnx [--in NAME=SRC].. -o FILE\n"
          "proem doctor\n"
          "proem cache stat|clear\n"
          "inputs: [--in NAME=SRC].. [--in '*=SRC'] [--weights FILE] [--seed N]\n"
          "all:    [--dim M=16].. [--graph NAME] [--precision boundary|eager|native] "
          "[--threads N]\n"
          "        [--fuse model|always|never] [--fuse FROM:TO=always|never] "
          "[--assume bandwidth]\n"
          "        [--tune[=order]] [--strict] [-d PASS] [--dump-dir DIR] [--run-pass PASS] "
          "[--version]\n"
          "See proem(1).\n",
          to);
}
