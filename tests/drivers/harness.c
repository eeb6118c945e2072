/* SPDX-License-Identifier: MIT
 * Subjects and variants of the test drivers: graph text to compiled, executed and checked results.
 *
 * Linking is written here again, apart from the driver's, because the runtime's poison mode is
 * wanted and because many plans share one module.
 */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "front/front.h"
#include "harness_cuda.h"

#define GUARD 256

/* ---- rig ------------------------------------------------------------------------------------- */

enum proem_status rig_open(struct rig *r, const struct rig_options *o, struct err *e) {
    *r = (struct rig){.threads = o->threads > 0 ? o->threads : 1};
    const char *device = getenv("PROEM_TEST_DEVICE");
    if (device != NULL && strcmp(device, "cuda") == 0) return rig_open_cuda(r, o, e);
    rt_detect(&r->device);
    if (o->arch != NULL && !device_by_name(o->arch, strlen(o->arch), &r->device))
        return err_set(e, PROEM_INVALID, "arch '%s' is not known", o->arch);
    const char *flags[] = {o->optimize, NULL};
    struct rt_options options = {.compiler = o->compiler,
                                 .cache_dir = o->cache_dir,
                                 .flags = o->optimize != NULL ? flags : NULL,
                                 .timeout_ms = 600000,
                                 .jobs = r->threads};
    TRY(rt_new(&allocator_default, &options, &r->rt, e));
    return rt_pool_new(&allocator_default, r->threads, &r->pool, e);
}

void rig_close(struct rig *r) {
    rt_pool_free(r->pool);
    rt_free(r->rt);
    proem_context_destroy(r->cuda);
}

/* ---- tensors --------------------------------------------------------------------------------- */

bool guarded_new(struct guarded *t, int skew) {
    t->count = 1;
    for (int i = 0; i < t->rank; i++)
        t->count *= t->shape[i];
    t->bytes = dtype_bytes(t->dtype, t->count);
    if (t->bytes < 0) return false;
    size_t shift = (size_t)skew * (size_t)((dtype_bits(t->dtype) + 7) / 8);
    t->block_bytes = (size_t)t->bytes + (size_t)2 * GUARD + shift;
    t->block = mem_alloc(&allocator_default, t->block_bytes, 1);
    if (t->block == NULL) return false;
    memset(t->block, 0xFF, t->block_bytes);
    t->data = t->block + GUARD + shift;
    return true;
}

void guarded_free(struct guarded *t) {
    mem_free(&allocator_default, t->block, t->block_bytes, 1);
    t->block = NULL;
}

bool guarded_intact(const struct guarded *t) {
    const unsigned char *end = t->block + t->block_bytes;
    for (const unsigned char *p = t->block; p < end; p++) {
        if (p == t->data) p += t->bytes;
        if (p == end) break;
        if (*p != 0xFF) return false;
    }
    return true;
}

static bool is_nan(enum dtype d, union scalar v) {
    return dtype_is_float(d) && v.f != v.f;
}

bool guarded_same(const struct guarded *a, const struct guarded *b, int64_t *at) {
    if (memcmp(a->data, b->data, (size_t)a->bytes) == 0) return true;
    for (int64_t i = 0; i < a->count; i++) {
        union scalar x = elem_load(a->dtype, a->data, i), y = elem_load(b->dtype, b->data, i);
        if (is_nan(a->dtype, x) && is_nan(a->dtype, y)) continue;
        if (elem_bits(a->dtype, x) == elem_bits(b->dtype, y)) continue;
        *at = i;
        return false;
    }
    return true;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static uint64_t hash_text(uint64_t seed, const char *name, uint64_t i) {
    uint64_t h = seed * 0x9E3779B97F4A7C15u + i * 0xD1B54A32D192ED03u + 1;
    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001B3u;
    h ^= h >> 29;
    h *= 0xBF58476D1CE4E5B9u;
    return h ^ (h >> 32);
}

static void negate_some(struct guarded *t, uint64_t seed, const char *name, int64_t bound) {
    for (int64_t i = 0; i < t->count; i++) {
        if (hash_text(seed, name, (uint64_t)i) % 3 != 0) continue;
        union scalar v = elem_load(t->dtype, t->data, i);
        v.i -= bound;
        elem_store(t->dtype, t->data, i, v);
    }
}

static void special_some(struct guarded *t, uint64_t seed, const char *name) {
    static const double value[] = {
        0.0,    -0.0,    1.0,  -1.0, (double)INFINITY, (double)-INFINITY, (double)NAN, 1e30,
        -1e-30, 65504.0, 3e38, 1e-45};
    for (int64_t i = 0; i < t->count; i++) {
        uint64_t h = hash_text(seed, name, (uint64_t)i);
        if (h % 17 != 0) continue;
        union scalar v = {.f = value[h / 17 % COUNT_OF(value)]};
        elem_store(t->dtype, t->data, i, elem_cast(DT_F64, v, t->dtype, false));
    }
}

static void shrink_all(struct guarded *t) {
    for (int64_t i = 0; i < t->count; i++) {
        union scalar v = {.f = elem_load(t->dtype, t->data, i).f * 0.1};
        elem_store(t->dtype, t->data, i, elem_cast(DT_F64, v, t->dtype, false));
    }
}

static enum proem_status fill_input(struct guarded *t, const char *name,
                                    const struct random_rule *rule, uint64_t seed, enum fill fill,
                                    struct err *e) {
    bool ruled = rule->bounded || rule->nonzero || rule->sorted;
    bool float_like = dtype_cat(t->dtype) == CAT_F;
    if (fill == FILL_SMALL && !ruled && t->dtype != DT_E8M0 && t->dtype != DT_BOOL) {
        int64_t lo = -4, hi = 5, min = 0, max = 0;
        if (!dtype_is_float(t->dtype)) {
            dtype_int_range(t->dtype, &min, &max);
            lo = min > lo ? min : lo;
            hi = max < hi ? max + 1 : hi;
        }
        return random_fill_range(t->data, t->dtype, t->count, seed, name, lo, hi, e);
    }
    TRY(random_fill(t->data, t->dtype, t->count, seed, name, rule, e));
    if (fill == FILL_SPECIAL && float_like) special_some(t, seed, name);
    if (fill == FILL_TENTH && float_like) shrink_all(t);
    if (rule->bounded && !rule->sorted && strncmp(name, "idx", 3) == 0)
        negate_some(t, seed, name, rule->hi + 1);
    return PROEM_OK;
}

static enum proem_status make_inputs(struct subject *s, enum fill fill, struct err *e) {
    struct proem_program p = {.graph = s->g, .low = s->low, .dims = s->dims};
    struct session session = {.p = &p, .n_in = s->g->params.n};
    arena_init(&session.arena, &allocator_default);
    session.in = ARENA_NEW(&session.arena, struct input, s->g->params.n);
    s->in = ARENA_NEW(&s->arena, struct guarded, s->g->params.n + 1);
    enum proem_status status =
        session.in != NULL && s->in != NULL ? inputs_rules(&session, e) : err_nomem(e);
    for (size_t i = 0; i < s->g->params.n && status == PROEM_OK; i++) {
        struct guarded *t = &s->in[i];
        const struct value *v = graph_value(s->g, s->g->params.at[i].value);
        t->dtype = v->dtype;
        t->rank = v->rank;
        status = dims_shape(s->g, &s->dims, s->g->params.at[i].value, t->shape, e);
        if (status != PROEM_OK) break;
        if (!guarded_new(t, (int)(hash_text(s->seed, v->name, 1) % 3))) status = err_nomem(e);
        if (status == PROEM_OK)
            status = fill_input(t, v->name, &session.in[i].rule, s->seed, fill, e);
    }
    arena_free(&session.arena);
    return status;
}

/* ---- subjects -------------------------------------------------------------------------------- */

static enum proem_status open_steps(struct subject *s, const char *text,
                                    const struct dim_value *dims, int n_dims, enum fill fill,
                                    struct err *e) {
    struct graph_file file;
    memset(&file, 0, sizeof file);
    TRY(graph_parse(&s->arena, "graph", text, strlen(text), false, &file, e));
    s->g = file.graphs.at[0];
    TRY(graph_verify(s->g, e));
    s->dims = dims_binding_new(&s->arena, s->g);
    for (int i = 0; i < n_dims; i++)
        TRY(dims_bind_name(s->g, &s->dims, dims[i].name, dims[i].value, e));
    TRY(dims_check(s->g, &s->dims, e));
    TRY(opt_lower(s->g, &s->low, e));
    return make_inputs(s, fill, e);
}

enum proem_status subject_open(struct subject *s, const char *text, const struct dim_value *dims,
                               int n_dims, uint64_t seed, enum fill fill, struct err *e) {
    *s = (struct subject){.seed = seed};
    arena_init(&s->arena, &allocator_default);
    enum proem_status status = open_steps(s, text, dims, n_dims, fill, e);
    if (status != PROEM_OK) subject_close(s);
    return status;
}

void subject_close(struct subject *s) {
    for (size_t i = 0; s->in != NULL && i < s->g->params.n; i++)
        if (s->in[i].block != NULL) guarded_free(&s->in[i]);
    arena_free(&s->arena);
}

enum proem_status subject_reference(struct subject *s, enum precision prec, int64_t rows,
                                    int threads, struct eval_results *out, struct err *e) {
    static const enum eval_mode mode[] = {EVAL_BOUNDARY, EVAL_EAGER, EVAL_NATIVE};
    struct eval_input *in = ARENA_NEW(&s->arena, struct eval_input, s->g->params.n + 1);
    if (in == NULL) return err_nomem(e);
    for (size_t i = 0; i < s->g->params.n; i++)
        in[i] = (struct eval_input){s->in[i].rank, s->in[i].shape, s->in[i].data};
    struct eval_options o = {
        .mode = mode[prec], .intervals = true, .threads = threads, .rows = rows, .seed = s->seed};
    return eval_graph(s->g, &s->dims, in, &o, &allocator_default, out, e);
}

/* ---- variants -------------------------------------------------------------------------------- */

const char *mode_name(enum precision p) {
    static const char *const name[] = {"boundary", "eager", "native"};
    return name[p];
}

enum proem_status variant_plan(struct variant *v, struct subject *s, enum precision prec,
                               enum fuse_policy policy, const struct rig *r) {
    *v = (struct variant){.s = s, .prec = prec, .policy = policy};
    struct plan_options o = {
        .prec = prec, .policy = policy, .dims = &s->dims, .device = &r->device};
    v->status = plan_lowered(s->g, &s->low, &o, &v->plan, &v->err);
    return v->status;
}

struct link {
    struct variant *v;
    struct arena *a;
    const struct graph *g;
    int *buffer;
    int n_buffers;
    struct rt_buffer *buffers;
    value_id *value;
};

static void link_buffer(struct link *l, value_id v, enum rt_place place) {
    const struct value *val = graph_value(l->g, v);
    l->buffers[l->n_buffers] = (struct rt_buffer){
        .name = val->name, .place = place, .bits = dtype_bits(val->dtype), .may_alias = -1};
    l->value[l->n_buffers] = v;
    l->buffer[v] = l->n_buffers++;
}

static enum proem_status link_buffers(struct link *l, struct err *e) {
    for (size_t i = 0; i < l->g->values.n; i++)
        l->buffer[i] = -1;
    for (size_t i = 0; i < l->g->params.n; i++)
        link_buffer(l, l->g->params.at[i].value, l->g->params.at[i].is_const ? RT_CONST : RT_INPUT);
    for (size_t i = 0; i < l->g->outputs.n; i++) {
        value_id v = l->g->outputs.at[i].value;
        if (l->buffer[v] >= 0 || !l->v->plan.stored[v])
            return err_set(e, PROEM_INTERNAL, "output %d is stored by no kernel", (int)i);
        link_buffer(l, v, RT_OUTPUT);
    }
    for (value_id v = 1; v < l->g->values.n; v++)
        if (l->v->plan.stored[v] && l->buffer[v] < 0) link_buffer(l, v, RT_TEMP);
    return PROEM_OK;
}

static enum proem_status link_step(struct link *l, const struct gen_kernel *gk,
                                   const struct pk_kernel *pk, struct rt_step *step,
                                   struct err *e) {
    int *args = ARENA_NEW(l->a, int, gk->n_args + 1);
    if (args == NULL) return err_nomem(e);
    for (int i = 0; i < gk->n_args; i++) {
        args[i] = l->buffer[gk->args[i]];
        if (args[i] < 0)
            return err_set(e, PROEM_INTERNAL, "kernel '%s' reads '%s', which nobody stores",
                           gk->name, graph_value(l->g, gk->args[i])->name);
    }
    *step = (struct rt_step){.kernel = pk, .n_args = gk->n_args, .args = args};
    if (pk->operands == 0 || pk->operands != gk->n_operands) return PROEM_OK;
    struct rt_operand *o = ARENA_NEW(l->a, struct rt_operand, pk->operands);
    if (o == NULL) return err_nomem(e);
    for (int i = 0; i < pk->operands; i++) {
        const struct gen_operand *from = &gk->operands[i];
        int *at = ARENA_NEW(l->a, int, from->n + 1);
        if (at == NULL) return err_nomem(e);
        for (int j = 0; j < from->n; j++)
            at[j] = l->buffer[from->constants[j]];
        o[i] = (struct rt_operand){from->n, at};
    }
    step->operands = o;
    return PROEM_OK;
}

static enum proem_status variant_link(struct variant *v, struct err *e) {
    const struct graph *g = v->plan.low.graph;
    struct link l = {.v = v, .a = &v->s->arena, .g = g};
    int n = (int)v->plan.kernels.n;
    l.buffer = ARENA_NEW(l.a, int, g->values.n);
    l.buffers = ARENA_NEW(l.a, struct rt_buffer, g->values.n);
    l.value = ARENA_NEW(l.a, value_id, g->values.n);
    struct rt_step *steps = ARENA_NEW(l.a, struct rt_step, n + 1);
    if (l.buffer == NULL || l.buffers == NULL || l.value == NULL || steps == NULL)
        return err_nomem(e);
    TRY(link_buffers(&l, e));
    const struct pk_unit *unit = rt_module_unit(v->module);
    for (int i = 0; i < n; i++) {
        const struct gen_kernel *gk = &v->joint.kernels[i];
        TRY(link_step(&l, gk, unit->kernels[v->joint.position[i]], &steps[gk->kernel->id], e));
    }
    struct rt_program_desc d = {.n_buffers = l.n_buffers,
                                .n_steps = n,
                                .n_symbols = sx_symbols(g->sx),
                                .n_modules = 1,
                                .buffers = l.buffers,
                                .steps = steps,
                                .modules = &v->module,
                                .poison = true};
    return rt_program_new(&allocator_default, &d, &v->program, e);
}

static void compile_range(struct rig *r, struct variant **v, int n);

/* One unit of these. False if the compiler refuses it or does not end. */
static bool compile_unit(struct rig *r, struct variant **v, int n, struct err *e) {
    struct gen_joint *joint = mem_alloc(&allocator_default, (size_t)n, sizeof *joint);
    if (joint == NULL) {
        err_nomem(e);
        return false;
    }
    for (int i = 0; i < n; i++)
        joint[i] = (struct gen_joint){.plan = &v[i]->plan};
    struct str text;
    str_init(&text, &allocator_default);
    struct rt_module *m = NULL;
    bool ok = gen_c_joint(joint, n, &r->device, &text, e) == PROEM_OK;
    for (int i = 0; i < n && ok; i++) {
        v[i]->joint = joint[i];
        v[i]->status = joint[i].status;
        v[i]->err = joint[i].err;
    }
    struct rt_source source = {.name = "tests", .text = str_text(&text), .n = text.n};
    ok = ok && rt_load(r->rt, &r->device, 1, &source, &m, e) == PROEM_OK;
    for (int i = 0; i < n && ok; i++) {
        if (v[i]->status != PROEM_OK) continue;
        v[i]->module = rt_module_ref(m);
        v[i]->status = variant_link(v[i], &v[i]->err);
    }
    rt_module_unref(m);
    str_free(&text);
    mem_free(&allocator_default, joint, (size_t)n, sizeof *joint);
    return ok;
}

static void compile_range(struct rig *r, struct variant **v, int n) {
    struct err e;
    err_clear(&e);
    if (n == 0 || compile_unit(r, v, n, &e)) return;
    if (n == 1) {
        v[0]->status = e.status;
        v[0]->err = e;
        return;
    }
    compile_range(r, v, n / 2);
    compile_range(r, v + n / 2, n - n / 2);
}

void variants_compile(struct rig *r, struct variant **v, int n) {
    struct variant **good = mem_alloc(&allocator_default, (size_t)n + 1, sizeof(struct variant *));
    int count = 0;
    for (int i = 0; i < n && good != NULL; i++)
        if (v[i]->status == PROEM_OK) good[count++] = v[i];
    if (good != NULL && r->cuda != NULL)
        variants_compile_cuda(r, good, count);
    else if (good != NULL)
        compile_range(r, good, count);
    mem_free(&allocator_default, good, (size_t)n + 1, sizeof(struct variant *));
}

static enum proem_status make_outputs(struct variant *v, struct err *e) {
    const struct graph *g = v->s->g;
    v->out = ARENA_NEW(&v->s->arena, struct guarded, g->outputs.n + 1);
    if (v->out == NULL) return err_nomem(e);
    for (size_t i = 0; i < g->outputs.n; i++) {
        const struct value *val = graph_value(g, g->outputs.at[i].value);
        struct guarded *t = &v->out[i];
        t->dtype = val->dtype;
        t->rank = val->rank;
        TRY(dims_shape(g, &v->s->dims, g->outputs.at[i].value, t->shape, e));
        if (!guarded_new(t, (int)(i % 2))) return err_nomem(e);
    }
    return PROEM_OK;
}

static struct rt_view view_of(const struct guarded *t) {
    return (struct rt_view){
        .data = t->data, .bits = dtype_bits(t->dtype), .rank = t->rank, .shape = t->shape};
}

static enum proem_status run_with(struct rig *r, struct variant *v, struct rt_exec *x,
                                  struct err *e) {
    const struct graph *g = v->plan.low.graph;
    struct arena *a = &v->s->arena;
    size_t n_in = g->params.n, n_out = g->outputs.n, n = g->values.n + n_in + n_out;
    int64_t *bytes = ARENA_NEW(a, int64_t, n);
    struct rt_view *views = ARENA_NEW(a, struct rt_view, n);
    if (bytes == NULL || views == NULL) return err_nomem(e);
    for (size_t i = 0; i < n_in; i++) {
        views[i] = view_of(&v->s->in[i]);
        bytes[i] = v->s->in[i].bytes;
    }
    for (size_t i = 0; i < n_out; i++) {
        views[n_in + i] = view_of(&v->out[i]);
        bytes[n_in + i] = v->out[i].bytes;
    }
    size_t next = n_in + n_out;
    for (value_id val = 1; val < g->values.n; val++) {
        bool given = graph_def(g, val)->op == OP_PARAM || !v->plan.stored[val];
        for (size_t i = 0; i < n_out; i++)
            given = given || g->outputs.at[i].value == val;
        if (given) continue;
        int64_t shape[MAX_RANK], count = 1;
        TRY(dims_shape(g, &v->s->dims, val, shape, e));
        for (int i = 0; i < graph_value(g, val)->rank; i++)
            count *= shape[i];
        bytes[next++] = dtype_bytes(graph_value(g, val)->dtype, count);
    }
    TRY(rt_exec_prepare(x, v->s->dims.value, bytes, e));
    struct rt_fault fault = {0};
    (void)r;
    return rt_exec_run(x, views, &fault, e);
}

enum proem_status variant_run(struct rig *r, struct variant *v) {
    if (v->status != PROEM_OK) return v->status;
    struct rt_exec *x = NULL;
    v->status = make_outputs(v, &v->err);
    if (v->status == PROEM_OK && r->cuda != NULL) {
        v->status = variant_run_cuda(r, v, &v->err);
    } else if (v->status == PROEM_OK) {
        v->status = rt_exec_new(v->program, r->pool, &x, &v->err);
        if (v->status == PROEM_OK) v->status = run_with(r, v, x, &v->err);
    }
    rt_exec_free(x);
    for (size_t i = 0; i < v->s->g->outputs.n && v->status == PROEM_OK; i++) {
        if (!guarded_intact(&v->out[i]))
            v->status = err_set(&v->err, PROEM_INTERNAL, "output %d: written past an end", (int)i);
    }
    for (size_t i = 0; i < v->s->g->params.n && v->status == PROEM_OK; i++) {
        if (!guarded_intact(&v->s->in[i]))
            v->status = err_set(&v->err, PROEM_INTERNAL, "input %d: written past an end", (int)i);
    }
    return v->status;
}

void variant_close(struct variant *v) {
    for (size_t i = 0; v->out != NULL && i < v->s->g->outputs.n; i++)
        if (v->out[i].block != NULL) guarded_free(&v->out[i]);
    proem_program_destroy(v->cuda);
    rt_program_free(v->program);
    rt_module_unref(v->module);
    *v = (struct variant){0};
}

/* ---- checks ---------------------------------------------------------------------------------- */

static double number_at(const struct guarded *t, int64_t i) {
    union scalar v = elem_load(t->dtype, t->data, i);
    return dtype_is_float(t->dtype) ? v.f
           : t->dtype == DT_U64     ? (double)(uint64_t)v.i
                                    : (double)v.i;
}

/* The position of flat element `at` in a result of some rows. */
static int64_t position_in(const struct eval_result *r, int64_t at) {
    int64_t width = r->rank > 0 ? r->shape[r->rank - 1] : 1;
    if (r->n_rows == 0 || width == 0) return at;
    for (int64_t i = 0; i < r->n_rows; i++)
        if (r->rows[i] == at / width) return i * width + at % width;
    return 0;
}

static double result_at(const struct eval_result *r, int64_t i) {
    union scalar v = elem_load(r->dtype, r->data, i);
    return dtype_is_float(r->dtype) ? v.f
           : r->dtype == DT_U64     ? (double)(uint64_t)v.i
                                    : (double)v.i;
}

enum proem_status variant_check(const struct variant *v, const struct eval_results *ref,
                                double *worst_ratio, struct err *e) {
    for (int i = 0; i < ref->n; i++) {
        const struct eval_result *r = &ref->at[i];
        struct eval_report report;
        eval_compare(r, v->out[i].data, &report);
        if (report.bound_ratio > *worst_ratio) *worst_ratio = report.bound_ratio;
        if (report.ok) continue;
        int64_t p = position_in(r, report.worst);
        return err_set(e, PROEM_INTERNAL,
                       "%s: output %s[%lld] is %.9g, the reference %.9g in [%.9g, %.9g]; "
                       "bound_ratio %.3g",
                       mode_name(v->prec), r->name, (long long)report.worst,
                       number_at(&v->out[i], report.worst), result_at(r, p),
                       r->lo ? r->lo[p] : result_at(r, p), r->hi ? r->hi[p] : result_at(r, p),
                       report.bound_ratio);
    }
    return PROEM_OK;
}
