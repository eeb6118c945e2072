/* SPDX-License-Identifier: MIT
 * `proem fmt`: the file's graphs, or the one asked for, in canonical form.
 */
#include "cli/cli.h"

enum proem_status cmd_fmt(struct session *s, struct err *e) {
    TRY(program_run(s->p, PASS_LOWER, session_last(s, PASS_PARSE), e));
    struct str text;
    str_init(&text, &allocator_default);
    const struct graph_file *f = &s->p->file;
    for (size_t i = 0; i < f->graphs.n; i++) {
        if (s->o->graph != NULL && f->graphs.at[i] != s->p->graph) continue;
        if (text.n > 0) str_add(&text, "\n");
        graph_print(f->graphs.at[i], false, &text);
    }
    enum proem_status status = text.failed ? err_nomem(e) : PROEM_OK;
    if (status == PROEM_OK && fwrite(str_text(&text), 1, text.n, stdout) != text.n)
        status = stdout_failed(e);
    str_free(&text);
    return status;
}
