/* SPDX-License-Identifier: MIT
 * Other ways to cut the few-rows template's problem, in the K order of the model's choice.
 *
 * What decides that order stays: runs, K groups, units of a chunk, splits, and whether sums stay in
 * registers from chunk to chunk. What is left: how many units are in flight, how many tiles a warp
 * multiplies at once, rows of A at a time, warps of a block beside each other, blocks of an SM, and
 * whether A is evaluated once by a launch of its own. The first few need fewer registers each than
 * the one before: they are what follows when a kernel spills.
 */
#include "tile/tile_cuda_few.h"

enum { MOST = 16 };

struct list {
    const struct tile_few_problem *p;
    const struct device_desc *d;
    struct tile_few at[MOST];
    int n;
};

static bool holds(const struct tile_few *t) {
    return t->tiles <= t->rgroups * t->step;
}

static bool equal(const struct tile_few *a, const struct tile_few *b) {
    return a->ahead == b->ahead && a->step == b->step && a->tiles == b->tiles &&
           a->cols8 == b->cols8 && a->rgroups == b->rgroups && a->per_sm == b->per_sm &&
           a->stage == b->stage;
}

static void offer(struct list *l, struct tile_few t) {
    if (t.ahead < 1 || t.ahead > t.units || t.step < 1 || t.cols8 < 1 || t.tiles < 1) return;
    if (holds(&t) != holds(&l->at[0]) || l->n == MOST) return;
    int64_t shared = tile_few_shared(l->p, &t), room = l->d->gpu.shared_block;
    /* Blocks of an SM share its memory; a KB of each is the system's. */
    if (t.per_sm > 1) room = l->d->gpu.shared_sm / t.per_sm - 1024;
    if (shared > room || t.threads > 1024) return;
    t.shared = (int)shared;
    for (int i = 0; i < l->n; i++) {
        if (equal(&t, &l->at[i])) return;
    }
    l->at[l->n++] = t;
}

/* Tiles between two stores, kept on the side of the bound on which they were. */
static struct tile_few spread(const struct tile_few *base, int rgroups, int step) {
    struct tile_few t = *base;
    t.rgroups = rgroups;
    t.threads = 32 * t.kgroups * rgroups;
    t.step = step;
    if (holds(base) && t.tiles > rgroups * step) t.tiles = rgroups * step;
    return t;
}

static void fill(struct list *l) {
    struct tile_few base = l->at[0], t = base;
    /* ever fewer registers */
    for (t.ahead = base.ahead / 2; t.ahead >= 1; t.ahead /= 2)
        offer(l, t);
    for (int step = base.step / 2; step >= 1; step /= 2) {
        t = spread(&base, base.rgroups, step);
        for (; t.ahead >= 1; t.ahead /= 2)
            offer(l, t);
    }
    for (int cols8 = base.cols8 / 2; cols8 >= 1; cols8 /= 2) {
        t = spread(&base, base.rgroups, 1);
        t.cols8 = cols8;
        for (t.ahead = base.ahead; t.ahead >= 1; t.ahead /= 2)
            offer(l, t);
    }
    /* as many, or more */
    t = base;
    t.ahead = base.ahead * 2;
    offer(l, t);
    t = base;
    t.stage = !base.stage;
    if (!l->p->plain && l->p->K > 0) offer(l, t);
    if (base.rgroups > 1) {
        t = spread(&base, base.rgroups / 2, base.step);
        t.per_sm = 2;
        offer(l, t);
    }
    if (holds(&base)) return;
    for (int tiles = base.tiles / 2; tiles <= base.tiles * 2; tiles += (base.tiles + 1) / 2) {
        t = base;
        t.tiles = tiles;
        offer(l, t);
    }
}

struct tile_few tile_cuda_few_at(const struct tile_few_problem *p, const struct device_desc *d,
                                 int passed) {
    struct list l = {.p = p, .d = d, .n = 1};
    l.at[0] = tile_cuda_few(p, d);
    if (!l.at[0].fits) return l.at[0];
    fill(&l);
    struct tile_few t = l.at[passed < 0 || passed >= l.n ? 0 : passed];
    t.choices = l.n;
    return t;
}
