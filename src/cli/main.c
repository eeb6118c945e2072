/* SPDX-License-Identifier: MIT
 * The command: parse the command line, open a session, run the subcommand, report its error.
 */
#include "cli/cli.h"

#include <errno.h>
#include <string.h>

static enum proem_status dispatch(struct session *s, struct err *e) {
    if (s->o->run_pass != NULL) return session_run_pass(s, e);
    switch (s->o->command) {
    case CMD_RUN: return cmd_run(s, e);
    case CMD_EXPLAIN: return cmd_explain(s, e);
    case CMD_EMIT: return cmd_emit(s, e);
    case CMD_BENCH: return cmd_bench(s, e);
    case CMD_FMT: return cmd_fmt(s, e);
    default: return PROEM_OK;
    }
}

static enum proem_status without_program(struct session *s, struct err *e) {
    if (s->o->command == CMD_DOCTOR) return cmd_doctor(s, e);
    return s->o->command == CMD_CACHE ? cmd_cache(s, e) : cmd_convert(s, e);
}

static enum proem_status run_command(const struct cli *o, struct err *e) {
    struct session s = {0};
    enum proem_status status;
    if (o->command == CMD_DOCTOR || o->command == CMD_CACHE || o->command == CMD_CONVERT) {
        status = session_context(&s, o, e);
        if (status == PROEM_OK) status = without_program(&s, e);
    } else {
        status = session_open(&s, o, e);
        if (status == PROEM_OK) status = dispatch(&s, e);
    }
    session_close(&s);
    return status;
}

int main(int argc, char **argv) {
    struct arena arena;
    struct err e = {0};
    arena_init(&arena, &allocator_default);
    struct cli o = {.arena = &arena};
    enum proem_status status = cli_parse(&o, argc, argv, &e);
    const char *file = NULL;
    if (status == PROEM_OK && o.version) {
        printf("proem %s\n", proem_version());
    } else if (status == PROEM_OK && o.help) {
        cli_usage(stdout);
    } else if (status == PROEM_OK) {
        status = run_command(&o, &e);
        file = o.file;
    }
    errno = 0;
    if (status == PROEM_OK && (fflush(stdout) != 0 || ferror(stdout))) status = stdout_failed(&e);
    int code = status_exit(status);
    /* A check that failed has been reported with the results. */
    if (status != PROEM_OK && e.status != PROEM_OK) code = print_error(file, &e);
    arena_free(&arena);
    return code;
}
