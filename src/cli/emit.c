/* SPDX-License-Identifier: MIT
 * `proem emit`: the source of every kernel into a folder, a file each. A file compiles alone; the
 * command that proem itself would use is printed.
 */
#include "cli/cli.h"

static enum proem_status write_units(struct session *s, struct err *e) {
    const struct proem_program *p = s->p;
    TRY(make_dir(&s->arena, s->o->dir, e));
    for (int i = 0; i < p->n_units; i++) {
        const struct str *text = &p->units[i].text;
        const char *path =
            arena_printf(&s->arena, "%s/%s.c", s->o->dir, pass_part_name(p, PASS_GEN, i));
        if (path == NULL) return err_nomem(e);
        TRY(write_text(path, str_text(text), text->n, e));
        printf("%s\n", path);
    }
    return PROEM_OK;
}

enum proem_status cmd_emit(struct session *s, struct err *e) {
    TRY(inputs_bind(s, e));
    TRY(program_run(s->p, PASS_LOWER, PASS_FUSE, e));
    s->p->opt.units = (int)s->p->plan.kernels.n;
    TRY(program_run(s->p, PASS_GEN, session_last(s, PASS_GEN), e));
    TRY(write_units(s, e));
    struct str flags;
    str_init(&flags, &allocator_default);
    if (rt_compiler_flags(s->c->rt, &s->p->opt.target, &flags, NULL) == PROEM_OK)
        printf("compile each with: cc %s FILE.c -o FILE.so\n", str_text(&flags));
    str_free(&flags);
    return PROEM_OK;
}
