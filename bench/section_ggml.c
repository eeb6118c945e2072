/* SPDX-License-Identifier: MIT
 * ggml's q8_0 and q4_0 products, N = K = 4096, where its module was built (peers/ggml.c). The
 * blocks are made of the numbers that proem's inputs have, so the results can be compared: a
 * q8_0 block is an f16 scale and 32 signed bytes; a q4_0 block an f16 scale and 16 bytes, byte i
 * with numbers i (low bits) and i + 16, each plus 8.
 */
#include "bench/bench.h"
#include "bench/peers/ggml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 4096, BLOCK = 32, BLOCKS = SIZE * (SIZE / BLOCK) };

static const char file[] = "bench/graphs/cpu/ggml.proem";

struct module {
    ggml_product_open_fn *open;
    ggml_product_run_fn *run;
    ggml_product_out_fn *out;
    ggml_product_close_fn *close;
    ggml_peer_version_fn *version;
};

static bool find(void *lib, const char *name, void *pointer) {
    void *p = dlsym(lib, name);
    memcpy(pointer, &p, sizeof p);
    return p != NULL;
}

static bool module_open(struct module *m, const struct options *o) {
    char path[1024];
    const char *slash = strrchr(o->program, '/');
    snprintf(path, sizeof path, "%.*speer_ggml.so",
             slash != NULL ? (int)(slash + 1 - o->program) : 0, o->program);
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return lib != NULL && find(lib, "ggml_product_open", &m->open) &&
           find(lib, "ggml_product_run", &m->run) && find(lib, "ggml_product_out", &m->out) &&
           find(lib, "ggml_product_close", &m->close) &&
           find(lib, "ggml_peer_version", &m->version);
}

/* ---- formats --------------------------------------------------------------------------------- */

static void q8_0_block(unsigned char *to, const void *q, const void *scale, int64_t block) {
    memcpy(to, (const unsigned char *)scale + 2 * block, 2);
    memcpy(to + 2, (const unsigned char *)q + BLOCK * block, BLOCK);
}

static void q4_0_block(unsigned char *to, const void *q, const void *scale, int64_t block) {
    memcpy(to, (const unsigned char *)scale + 2 * block, 2);
    for (int i = 0; i < BLOCK / 2; i++) {
        int64_t low = elem_load(DT_I4, q, block * BLOCK + i).i;
        int64_t high = elem_load(DT_I4, q, block * BLOCK + i + BLOCK / 2).i;
        to[2 + i] = (unsigned char)((low + 8) | (high + 8) << 4);
    }
}

static const struct format {
    const char *name, *constant, *blocks;
    enum ggml_format format;
    int bytes; /* of a block */
    void (*block)(unsigned char *to, const void *q, const void *scale, int64_t block);
} formats[] = {
    {"q8_0", "q8_0_const", "q8_0_blocks", GGML_FORMAT_Q8_0, 34, q8_0_block},
    {"q4_0", "q4_0_const", NULL, GGML_FORMAT_Q4_0, 18, q4_0_block},
};

static unsigned char *blocks_of(const struct format *f, const struct product *p) {
    unsigned char *to = malloc((size_t)BLOCKS * (size_t)f->bytes);
    const void *q = product_in(p, "w"), *scale = product_in(p, "s");
    for (int64_t i = 0; to != NULL && i < BLOCKS; i++)
        f->block(to + i * f->bytes, q, scale, i);
    return to;
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct work {
    struct product plain, constant, blocks;
    struct ggml_product *peer[2]; /* as it is, repacked */
    unsigned char *w;
};

/* ggml's blocks as the input of the graph that reads them in place. */
static bool open_blocks(struct work *w, const struct format *f, const struct options *o,
                        int threads, const struct dim *dims) {
    if (!product_open(&w->blocks, o, file, f->blocks, threads, dims)) return false;
    memcpy(w->blocks.s.in[1].array.data, w->w, (size_t)BLOCKS * (size_t)f->bytes);
    return product_run(&w->blocks);
}

static bool sides(struct report *r, const struct module *g, struct row *row, struct work *w,
                  const struct format *f, int64_t m) {
    static const char *const names[] = {"ggml", "ggml, repacked"};
    if (w->w == NULL || !product_run(&w->plain) || !product_run(&w->constant)) return false;
    row_add(row, "proem", true, product_run, &w->plain);
    row_add(row, "proem, const", true, product_run, &w->constant);
    if (f->blocks != NULL) row_add(row, "proem, blocks", true, product_run, &w->blocks);
    for (int i = 0; i < 2; i++) {
        w->peer[i] = g->open(f->format, i == 1, m, SIZE, SIZE, product_in(&w->plain, "x"), w->w,
                             row->threads);
        if (w->peer[i] == NULL || !g->run(w->peer[i])) continue;
        double error = difference(g->out(w->peer[i]), product_out(&w->plain, NULL), m * SIZE);
        if (error > row->error) row->error = error;
        row_add(row, names[i], false, g->run, w->peer[i]);
    }
    if (!row_measure(row, r->o)) return false;
    report_row(r, row);
    return true;
}

static bool measure(struct report *r, const struct module *g, const struct format *f, int64_t m,
                    int threads) {
    char name[48];
    snprintf(name, sizeof name, "%s M=%lld", f->name, (long long)m);
    if (!wanted(r->o, name)) return true;
    struct row row = {.section = "ggml",
                      .name = name,
                      .threads = threads,
                      .error = -1,
                      .flop = 2.0 * (double)(m * SIZE * SIZE),
                      .bar = 1};
    const struct dim dims[] = {{"M", m}, {NULL, 0}};
    struct work w = {.w = NULL};
    bool ok = product_open(&w.plain, r->o, file, f->name, threads, dims) &&
              product_open(&w.constant, r->o, file, f->constant, threads, dims);
    if (ok) w.w = blocks_of(f, &w.plain);
    if (ok && w.w != NULL && f->blocks != NULL) ok = open_blocks(&w, f, r->o, threads, dims);
    ok = ok && sides(r, g, &row, &w, f, m);
    for (int i = 0; i < 2; i++)
        g->close(w.peer[i]);
    product_close(&w.plain);
    product_close(&w.constant);
    product_close(&w.blocks);
    free(w.w);
    return ok;
}

bool section_ggml(struct report *r, const struct peers *p) {
    static const int64_t rows[] = {1, 4, 16, 64, 128, 512};
    struct module g;
    int threads[2], n_threads = thread_counts(r->o, threads);
    bool ok = true;
    (void)p;
    if (!module_open(&g, r->o)) {
        report_skip(r, "ggml", "not built in (bench/README.md says how)");
        return true;
    }
    report_machine(r, "ggml", g.version());
    for (int t = 0; t < n_threads; t++) {
        for (int f = 0; f < 2; f++) {
            for (int m = 0; m < 6; m++)
                ok = measure(r, &g, &formats[f], rows[m], threads[t]) && ok;
        }
    }
    return ok;
}
