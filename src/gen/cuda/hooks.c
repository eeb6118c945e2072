/* SPDX-License-Identifier: MIT
 * Constants and functions of a device's kernels, beside those that gen/c/hooks.c writes for every
 * language: how many lanes a thread takes, how rows lie in blocks, tests of data.
 */
#include "gen/cuda/hooks.h"

#include "gen/c/emit_internal.h"
#include "gen/c/hooks.h"
#include "gen/cuda/packed.h"
#include "gen/cuda/product.h"
#include "gen/cuda/staged.h"

/* The name of a dtype in a device's templates. */
static const char *cuda_dtype(enum dtype d) {
    switch (d) {
    case DT_BF16: return "PK_BF16";
    case DT_F16: return "PK_F16";
    case DT_F8E4M3FN: return "PK_E4M3";
    case DT_F8E5M2: return "PK_E5M2";
    case DT_F32: return "PK_F32";
    case DT_F64: return "PK_F64";
    case DT_I8: return "PK_I8";
    case DT_U8: return "PK_U8";
    case DT_I32: return "PK_I32";
    case DT_I64: return "PK_I64";
    default: return "PK_OTHER";
    }
}

const char *cuda_operand_name(const char *hook) {
    static const char *const names[] = {"B0", "B1", "B2", "B3"};
    return hook[0] == 'a' ? "A" : names[hook[1] - '0'];
}

void cuda_operand(struct emit *e, const char *name, fn_id f, bool along_k, int group, int lanes) {
    str_printf(e->out, "#define MM_%s_AXIS %d\n#define MM_%s_W %d\n#define MM_%s_DTYPE %s\n", name,
               along_k, name, lanes, name, cuda_dtype(fn_get(e->fns, staged_source(e, f))->dtype));
    str_printf(e->out, "#define MM_%s_GROUP %d\n", name, group);
}

/* Tensor cores take elements of 8 bits only as neighbours along k. */
bool cuda_only_along(struct emit *e, fn_id f) {
    return e->k->tile.cuda.form == TILE_WGMMA &&
           dtype_bits(fn_get(e->fns, staged_source(e, f))->dtype) != 16;
}

void cuda_product(struct emit *e, int n_b) {
    enum dtype acc = e->k->acc;
    acc = acc == DT_U64 ? DT_I64 : acc == DT_U32 ? DT_I32 : acc;
    str_printf(e->out, "#define MM_ACC_S %s\n#define MM_NB %d\n#define MM_C_W %d\n",
               scalar_name(acc), n_b, e->k->tile.cuda.c_lanes);
}

static const char *or_empty(const char *t) {
    return t != NULL ? t : "";
}
#define TEXT(e, ...) or_empty(arena_printf((e)->arena, __VA_ARGS__))

/* P_x_pack: bits of the operand's dtype, in packed arithmetic where that is exact. */
static void pack_function(struct emit *e, fn_id f, const struct staged *s, enum dtype d,
                          const char *params, const char *args, const char *missing) {
    struct str body;
    str_init(&body, e->out->alloc);
    emit_begin(e, STAGE_VALUE, &body);
    int order = e->hook[0] == 'b' && e->product != NULL ? e->product->order : 1;
    bool packed = !s->plain && packed_write(e, staged_source(e, f), s, order < 1 ? 1 : order);
    str_printf(
        e->out,
        "PK_I pk_bits<(PK_W * %d + 31) / 32> %s_%s_pack(%s)\n{\n    const pk_i64 %s = 0;\n    "
        "(void)g, (void)r, (void)z, (void)m, (void)n, (void)k, (void)cnt;\n    "
        "pk_bits<(PK_W * %d + 31) / 32> b;\n",
        dtype_bits(d), e->prefix, e->hook, params, missing, dtype_bits(d));
    if (s->plain) {
        str_printf(e->out,
                   "    PK_EACH((PK_W * %d + 31) / 32) b.x[l] = raw0[l];\n    if constexpr (PK_W * "
                   "%d < 32) b.x[0] &= (1u << PK_W * %d %% 32) - 1u;\n    return b;\n}\n\n",
                   dtype_bits(d), dtype_bits(d), dtype_bits(d));
        str_free(&body);
        return;
    }
    if (packed)
        str_printf(
            e->out,
            "    if constexpr (PK_W %% 2 == 0) {\n    unsigned *const h = b.x;\n%s    return "
            "b;\n    }\n",
            emit_part(e, &body));
    str_printf(e->out,
               "    pk_pack_value<pk_dt_%s, PK_W>(%s_%s_raw<PK_W>(g, r, %s), b.x);\n    return "
               "b;\n}\n\n",
               dtype_name(d), e->prefix, e->hook, args);
    str_free(&body);
}

/* A device's operand from registers: leaves, lanes, and lanes as bits of the operand's dtype. */
void cuda_staged(struct emit *e, fn_id f, sx outer, const char *o, const char *params,
                 const char *missing) {
    const char *hook = e->hook;
    enum dtype d = fn_get(e->fns, staged_source(e, f))->dtype;
    struct staged s;
    staged_find(e, f, e->vec, &s);
    enum tile_form form = e->k->tile.cuda.form;
    if (form != TILE_WGMMA && form != TILE_MMA) staged_keep_simple(e, &s);
    /* The few-rows template multiplies fp8 as f16. */
    bool plain = s.plain && (form != TILE_FEW || dtype_bits(d) == 16);
    staged_constants(e, cuda_operand_name(hook), &s, outer, plain);
    product_add(e, f, outer, &s);
    if (s.n == 0) return;
    staged_leaves(e, &s, o, missing);
    int lanes = e->W;
    e->W = e->k->tile.cuda.pack_lanes;
    params = TEXT(e, "%s%s", params, staged_params(e, &s));
    e->staged = &s;
    if (s.pieces == 0)
        hooks_value(e, TEXT(e, "%s_raw", hook), f, hooks_acc_lane(e->k->acc), params, missing);
    e->staged = NULL;
    e->W = lanes;
    pack_function(e, f, &s, d, params,
                  TEXT(e, "%sz, %s, k, cnt%s", e->group > 0 ? "q, " : "", o, staged_args(e, &s)),
                  missing);
}

/* What Hopper's product loads for its results before it has them: the constants and P_c_load. */
const struct staged *cuda_results(struct emit *e) {
    struct staged *s = ARENA_NEW(e->arena, struct staged, 1);
    if (s == NULL || e->k->tile.cuda.form != TILE_WGMMA) return NULL;
    staged_results(e, s);
    if (s->n == 0) return NULL;
    struct str body;
    str_init(&body, e->out->alloc);
    emit_begin(e, STAGE_VALUE, &body);
    str_printf(e->out, "#define MM_C_LEAVES %d\n", s->n);
    for (int i = 0; i < s->n; i++) {
        const struct fn_node *n = fn_get(e->fns, s->leaf[i]);
        str_printf(e->out, "#define MM_C_LEAF%d_BITS %d\n", i, dtype_bits(n->dtype));
        emit_operands(e, s->leaf[i]);
        sx off = emit_offset(e, n->tensor, n->rank, n->idx);
        str_printf(&body, "    pk_raw<pk_dt_%s, PK_W, %d>(g->buf[%d], ", dtype_name(n->dtype),
                   emit_starts_whole(e, off, n->dtype), e->slot[n->tensor]);
        emit_sx(e, off, false, &body);
        str_printf(&body, ", cnt, raw%d);\n", i);
    }
    str_printf(e->out,
               "PK_I void %s_c_load(const struct pk_args *g, const %s *r, pk_i64 z, pk_i64 m, "
               "pk_i64 n, int cnt",
               e->prefix, emit_hook_type(e, "row"));
    for (int i = 0; i < s->n; i++)
        str_printf(e->out, ", unsigned *raw%d", i);
    str_printf(e->out,
               ")\n{\n    const pk_i64 k = 0;\n    (void)r, (void)z, (void)m, (void)n, (void)k;\n"
               "%s}\n\n",
               emit_part(e, &body));
    str_free(&body);
    return s;
}

struct narrowest {
    struct emit *e;
    int bits; /* of an element, the narrowest that is read or written in runs */
};

static void narrowest_visit(void *user, fn_id f) {
    struct narrowest *w = user;
    const struct fn_node *n = fn_get(w->e->fns, f);
    if (n->kind != FN_LOAD || dtype_bits(n->dtype) >= w->bits) return;
    if (sx_depends(w->e->fns, emit_offset(w->e, n->tensor, n->rank, n->idx), w->e->k->n))
        w->bits = dtype_bits(n->dtype);
}

/* Elements of a thread: accesses of 16 bytes for the narrowest dtype, of registers not too many; half
 * as many each time that what they compile to is passed over. */
int cuda_pointwise_lanes(struct emit *e) {
    struct narrowest w = {e, 64};
    for (size_t i = 0; i < e->k->stores.n; i++) {
        const struct kernel_store *st = &e->k->stores.at[i];
        fn_walk(e->fns, st->f, narrowest_visit, &w);
        int bits = dtype_bits(graph_value(e->g, st->value)->dtype);
        if (bits < w.bits) w.bits = bits;
    }
    int lanes = w.bits >= 64 ? 2 : w.bits >= 32 ? 4 : 8;
    for (int i = e->k->tile.cuda.passed; i > 0 && lanes > 1; i--)
        lanes /= 2;
    return lanes;
}

/* The lowest of each thread's failures; the report keeps the lowest of all. */
void cuda_check(struct emit *e, const struct plan_check *c, int number, const char *test) {
    str_printf(e->out,
               "extern \"C\" __global__ void __launch_bounds__(256) %s_check%d(const "
               "__grid_constant__ struct pk_args args)\n{\n    const struct pk_args *const g = "
               "&args;\n    const pk_i64 z = 0, m = 0, k = 0, count = ",
               e->prefix, number);
    emit_sx(e, c->N, false, e->out);
    str_add(e->out, ", bound = ");
    emit_sx(e, c->bound, false, e->out);
    str_printf(
        e->out,
        ", step = (pk_i64)gridDim.x * 256;\n    (void)z, (void)m, (void)k, (void)bound;\n"
        "    for (pk_i64 n = (pk_i64)blockIdx.x * 256 + threadIdx.x; n < count; n += step) {\n"
        "        const pk_i64 x = (pk_i64)%s_check%d_value<1>(g, n, 1)[0];\n",
        e->prefix, number);
    if (c->kind != CHECK_NONZERO && c->kind != CHECK_INDEX)
        str_printf(
            e->out,
            "        const pk_i64 last = n > 0 ? (pk_i64)%s_check%d_value<1>(g, n - 1, 1)[0] "
            ": 0;\n",
            e->prefix, number);
    str_printf(e->out,
               "        if (%s) {\n            pk_fault_report(g->fault, %d, n, x, bound);\n"
               "            return;\n        }\n    }\n}\n\n",
               test, number);
}

/* A warp takes 1024 elements of a row at a time: long rows get several. */
struct cuda_rows cuda_reduction_rows(struct emit *e, bool along) {
    const struct kernel *k = e->k;
    int64_t size;
    if (!along) {
        int bytes = 0; /* of a row's accumulators, 32 rows for each warp in shared memory */
        for (int i = 0; i < k->n_pass; i++)
            bytes += 16;
        return (struct cuda_rows){bytes <= 80 ? 16 : 8, 32};
    }
    if (!sx_is_const(e->sp, k->K, &size)) return (struct cuda_rows){4, 1};
    int warps = 1;
    while (warps < 8 && warps * 1024 < size)
        warps *= 2;
    return (struct cuda_rows){warps, warps == 1 ? 4 : 1};
}

const char *cuda_template(const struct tile *t) {
    switch (t->cuda.form) {
    case TILE_SIMT: break;
    case TILE_WGMMA: return "matmul_wgmma.cu";
    case TILE_FEW: return t->cuda.ring ? "matmul_ring.cu" : "matmul_few.cu";
    case TILE_ACROSS: return "matmul_across.cu";
    case TILE_MMA: return "matmul_mma.cu";
    }
    return "matmul_simt.cu";
}
