/* SPDX-License-Identifier: MIT
 * `proem emit`: the source of every kernel into a folder, a file each. A file compiles alone; the
 * command that proem itself would use is printed.
 */
#include "cli/cli.h"

#include "driver/cuda.h"

/* The comment that stands first in a unit of a GPU: how to compile it, with NVRTC and without. */
static enum proem_status cuda_head(struct session *s, const char *name, struct str *out,
                                   struct err *e) {
    struct rt_cuda *cuda;
    const char *arch = s->p->opt.target.name;
    TRY(context_cuda(s->c, &cuda, e));
    str_add(out, "/* NVRTC: ");
    TRY(rt_cuda_flags(cuda, &s->p->opt.target, out, e));
    str_printf(out, "\n * nvcc -cubin -arch=%s -std=c++17 -fmad=false %s.cu -o %s.cubin */\n", arch,
               name, name);
    return out->failed ? err_nomem(e) : PROEM_OK;
}

static enum proem_status write_unit(struct session *s, int unit, struct err *e) {
    const struct proem_program *p = s->p;
    const char *name = pass_part_name(p, PASS_GEN, unit);
    bool cuda = p->opt.target.kind == DEVICE_CUDA;
    const char *path = arena_printf(&s->arena, "%s/%s.%s", s->o->dir, name, cuda ? "cu" : "c");
    struct str text;
    str_init(&text, &allocator_default);
    enum proem_status status = path != NULL ? PROEM_OK : err_nomem(e);
    if (status == PROEM_OK && cuda) status = cuda_head(s, name, &text, e);
    str_addn(&text, str_text(&p->units[unit].text), p->units[unit].text.n);
    if (status == PROEM_OK && text.failed) status = err_nomem(e);
    if (status == PROEM_OK) status = write_text(path, str_text(&text), text.n, e);
    str_free(&text);
    if (status == PROEM_OK) printf("%s\n", path);
    return status;
}

static enum proem_status write_units(struct session *s, struct err *e) {
    TRY(make_dir(&s->arena, s->o->dir, e));
    for (int i = 0; i < s->p->n_units; i++)
        TRY(write_unit(s, i, e));
    return PROEM_OK;
}

enum proem_status cmd_emit(struct session *s, struct err *e) {
    TRY(inputs_bind(s, e));
    TRY(program_run(s->p, PASS_LOWER, PASS_TUNE, e));
    s->p->opt.units = (int)s->p->plan.kernels.n;
    TRY(program_run(s->p, PASS_GEN, session_last(s, PASS_GEN), e));
    TRY(write_units(s, e));
    if (s->p->opt.target.kind == DEVICE_CUDA) return PROEM_OK; /* the files say how */
    struct str flags;
    str_init(&flags, &allocator_default);
    if (rt_compiler_flags(s->c->rt, &s->p->opt.target, &flags, NULL) == PROEM_OK)
        printf("compile each with: cc %s FILE.c -o FILE.so -lm\n", str_text(&flags));
    str_free(&flags);
    return PROEM_OK;
}
