/* SPDX-License-Identifier: MIT
 * Units for GPUs as data: every graph of tests/fusion in every mode for every named GPU has launches
 * that a device takes and whose entries are in the text; equal kernels share a text; what a template
 * is told of operands; memory that runs out at every point of the generator.
 */
#define BLOCK_MIN 1u /* each allocation of an arena can fail */
#include "base/base.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gen/gen.h"

struct faulty {
    long made, live, fails; /* allocation number `fails` fails, and no other */
};

static void *faulty_alloc(void *user, size_t size, size_t align) {
    struct faulty *f = user;
    if (f->made++ == f->fails) return NULL;
    f->live++;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void faulty_free(void *user, void *p, size_t size) {
    struct faulty *f = user;
    (void)size;
    f->live--;
    free(p);
}

/* A graph, planned. */
struct made {
    struct arena arena;
    struct graph_file file;
    struct lowered low;
    struct plan plan;
    struct device_desc device;
    struct gen_unit *units;
    int n;
};

static void plan(struct made *m, const struct allocator *alloc, const char *text, const char *gpu,
                 enum precision prec) {
    struct err e = {0};
    *m = (struct made){.n = 0};
    arena_init(&m->arena, alloc);
    assert_true(device_by_name(gpu, strlen(gpu), &m->device));
    assert_int_equal(graph_parse(&m->arena, "g", text, strlen(text), false, &m->file, &e),
                     PROEM_OK);
    struct graph *g = m->file.graphs.at[0];
    struct dims_binding dims = dims_binding_new(&m->arena, g);
    assert_int_equal(opt_lower_for(g, &m->device, &dims, &m->low, &e), PROEM_OK);
    struct plan_options o = {
        .prec = prec, .policy = FUSE_MODEL, .dims = &dims, .device = &m->device};
    assert_int_equal(plan_lowered(g, &m->low, &o, &m->plan, &e), PROEM_OK);
}

static void generate(struct made *m, int units) {
    struct err e = {0};
    if (gen_cuda(&m->plan, &m->device, units, &m->units, &m->n, &e) != PROEM_OK)
        fail_msg("%s", e.text);
}

static void done(struct made *m) {
    for (int i = 0; i < m->n; i++)
        str_free(&m->units[i].text);
    arena_free(&m->arena);
}

/* ---- launches -------------------------------------------------------------------------------- */

static void check_launch(const struct made *m, const struct gen_unit *u,
                         const struct gen_launch *l) {
    char call[96];
    snprintf(call, sizeof call, "%s", l->entry);
    assert_true(l->threads > 0 && l->threads <= 1024 && l->threads % 32 == 0);
    assert_true(l->shared >= 0 && l->shared <= m->device.gpu.shared_block);
    assert_true(l->cluster >= 1 && l->cluster <= 8);
    assert_true(l->blocks != 0);
    /* A template writes its entry's name through a macro of the prefix. */
    assert_non_null(strchr(call, '_'));
    char prefix[16];
    snprintf(prefix, sizeof prefix, "%.*s", (int)(strchr(call, '_') - call), call);
    char definition[40];
    snprintf(definition, sizeof definition, "#define PK_KERNEL %s\n", prefix);
    assert_non_null(strstr(str_text(&u->text), definition));
}

static void check_units(const struct made *m) {
    size_t kernels = 0;
    for (int i = 0; i < m->n; i++) {
        const struct gen_unit *u = &m->units[i];
        kernels += (size_t)u->n_kernels;
        assert_null(strstr(str_text(&u->text), "PKTAG"));
        assert_null(strstr(str_text(&u->text), "#include \""));
        for (int k = 0; k < u->n_kernels; k++) {
            const struct gen_cuda *c = &u->cuda[k];
            int checks = 0;
            assert_true(c->n_launches > 0);
            for (int j = 0; j < c->n_launches; j++) {
                check_launch(m, u, &c->launches[j]);
                checks += c->launches[j].check;
            }
            assert_int_equal(checks, u->kernels[k].n_checks);
        }
    }
    assert_int_equal(kernels, m->plan.kernels.n);
}

static int one_file(const char *path) {
    static char text[1 << 16];
    FILE *f = fopen(path, "rb");
    if (f == NULL) return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    for (int gpu = 0; device_gpu_name_at(gpu) != NULL; gpu++) {
        for (int prec = 0; prec < 3; prec++) {
            struct made m;
            plan(&m, &allocator_default, text, device_gpu_name_at(gpu), (enum precision)prec);
            generate(&m, (int)m.plan.kernels.n);
            check_units(&m);
            done(&m);
        }
    }
    return 1;
}

static void test_fusion_graphs(void **state) {
    (void)state;
    static const char *const kinds[] = {"", "a", "b", "c", "d", "e", "f"};
    int files = 0;
    for (int i = 1; i <= 60; i++) {
        for (size_t k = 0; k < COUNT_OF(kinds); k++) {
            char path[256];
            snprintf(path, sizeof path, PROEM_SOURCE_DIR "/tests/fusion/%02d%s.proem", i, kinds[k]);
            files += one_file(path);
        }
    }
    assert_true(files > 50);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static void test_equal_kernels(void **state) {
    (void)state;
    struct made m;
    plan(&m, &allocator_default,
         "graph g(x: f32[64, 64], w: f32[64, 64], v: f32[64, 64]) {\n"
         "  return matmul(x, w), matmul(x, v)\n}\n",
         "sm_90a", PREC_EAGER);
    generate(&m, 8);
    check_units(&m);
    size_t n = m.plan.kernels.n;
    if (n == 2) { /* not one kernel with two results */
        assert_int_equal(m.n, 1);
        assert_string_equal(m.units[0].cuda[0].launches[0].entry,
                            m.units[0].cuda[1].launches[0].entry);
    }
    done(&m);
}

static void expect(const struct made *m, const char *line) {
    if (strstr(str_text(&m->units[0].text), line) == NULL) fail_msg("no line '%s'", line);
}

/* What a template is told of weights: leaves, their bits, groups, packed arithmetic. */
static void test_operands(void **state) {
    (void)state;
    struct made m;
    plan(&m, &allocator_default,
         "graph g(x: bf16[64, 1024], const w: u4[512, 1024], const s: bf16[512, 8],\n"
         "        const z: u4[512, 8]) {\n"
         "  return matmul(x, permute(dequantize(w, s, z, axis=1, block=128), [1, 0]))\n}\n",
         "sm_90a", PREC_BOUNDARY);
    generate(&m, 1);
    expect(&m, "#define MM_A_PLAIN 1\n");
    expect(&m, "#define MM_A_DTYPE PK_BF16\n");
    expect(&m, "#define MM_B0_DTYPE PK_BF16\n");
    expect(&m, "#define MM_B0_PLAIN 0\n");
    expect(&m, "#define MM_B0_GROUP 128\n");
    expect(&m, "#define MM_B0_LEAVES 1\n");
    expect(&m, "#define MM_B0_LEAF0_BITS 4\n");
    expect(&m, "#define MM_B0_LEAF0_MAP 1\n");
    expect(&m, "pk_widen_over<pk_dt_bf16, pk_dt_u4, PK_W, ");
    expect(&m, "pk_half<pk_dt_bf16>::mul(");
    done(&m);
    /* A gathered row has an address, no tensor map. */
    plan(&m, &allocator_default,
         "graph g(t: bf16[1000, 512], i: i64[64], w: bf16[128, 512]) {\n"
         "  return matmul(take(t, i), permute(w, [1, 0]))\n}\n",
         "sm_90a", PREC_BOUNDARY);
    generate(&m, 1);
    expect(&m, "#define MM_A_PLAIN 1\n");
    expect(&m, "#define MM_A_LEAF0_MAP 0\n");
    expect(&m, "pk_inside(");
    done(&m);
}

/* What a result is combined with is loaded before the sums are there; columns come in another order
 * where the epilogue does not run beside products. */
static void test_results(void **state) {
    (void)state;
    struct made m;
    plan(&m, &allocator_default,
         "graph g(x: bf16[4096, 4096], w: bf16[4096, 4096], b: bf16[4096], r: bf16[4096, 4096]) {\n"
         "  return gelu(linear(x, w) + b) + r\n}\n",
         "sm_90a", PREC_BOUNDARY);
    generate(&m, 1);
    expect(&m, "#define MM_C_LEAVES 1\n");
    expect(&m, "#define MM_C_LEAF0_BITS 16\n");
    expect(&m, "k0_c_load(");
    expect(&m, "(raw0);\n");
    done(&m);
    plan(&m, &allocator_default,
         "graph g(x: bf16[4096, 4096], w: bf16[4096, 4096]) {\n"
         "  return linear(relu(x), w)\n}\n",
         "sm_90a", PREC_BOUNDARY);
    generate(&m, 1);
    expect(&m, "#define MM_TURNS 0\n#define MM_SPREAD 1\n");
    const struct gen_tensor_map *map = &m.units[0].cuda[0].launches[0].maps[1];
    assert_int_equal(map->rank, 5);
    assert_int_equal(map->box[0] * map->box[1] * map->box[2] * map->box[3] * map->box[4], 64 * 256);
    done(&m);
}

static enum dtype multiplied(const char *gpu, int rows) {
    struct made m;
    char text[128];
    enum dtype d = DT_BOOL;
    snprintf(text, sizeof text,
             "graph g(x: f8e4m3fn[%d, 64], w: f8e5m2[128, 64]) {\n  return linear(x, w)\n}\n",
             rows);
    plan(&m, &allocator_default, text, gpu, PREC_BOUNDARY);
    const struct graph *g = m.low.graph;
    for (node_id i = 1; i < g->nodes.n; i++) {
        const struct node *n = graph_node(g, i);
        if (n->op == OP_MATMUL) d = graph_value(g, n->in[1])->dtype;
    }
    generate(&m, 1);
    done(&m);
    return d;
}

/* Hopper sums many rows of fp8 as f16. */
static void test_f8(void **state) {
    (void)state;
    assert_int_equal(multiplied("sm_90a", 128), DT_F16);
    assert_int_equal(multiplied("sm_90a", 64), DT_F8E5M2);
    assert_int_equal(multiplied("sm_80", 128), DT_F8E5M2);
    assert_int_equal(multiplied("sm_100a", 128), DT_F8E5M2);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void test_memory(void **state) {
    (void)state;
    static const char *const text =
        "graph g(x: bf16[M, 256], i: i64[M], const w: u4[128, 256], const s: bf16[128, 2],\n"
        "        y: f32[M, 128]) {\n"
        "  a = take(x, i)\n"
        "  p = matmul(a, permute(dequantize(w, s, axis=1, block=128), [1, 0]))\n"
        "  return softmax(gelu(cast(p, f32)) + y, axis=1), cumsum(y, axis=1)\n}\n";
    struct faulty f = {.fails = -1};
    const struct allocator alloc = {faulty_alloc, faulty_free, &f};
    bool whole = false;
    for (long at = 0; !whole; at += at < 200 ? 1 : 97) {
        struct made m;
        struct err e = {0};
        f.fails = -1;
        plan(&m, &alloc, text, "sm_90a", PREC_BOUNDARY);
        f.fails = f.made + at;
        enum proem_status s = gen_cuda(&m.plan, &m.device, 4, &m.units, &m.n, &e);
        whole = f.made <= f.fails;
        f.fails = -1;
        if (whole) assert_int_equal(s, PROEM_OK);
        if (s != PROEM_OK) {
            assert_int_equal(s, PROEM_NOMEM);
            m.n = 0;
        }
        done(&m);
        assert_int_equal(f.live, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fusion_graphs),
        cmocka_unit_test(test_equal_kernels),
        cmocka_unit_test(test_operands),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_f8),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
