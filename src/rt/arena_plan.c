/* SPDX-License-Identifier: MIT
 * Places temporaries in one block of memory so that those which live at the same time are apart.
 *
 * Greedy by size: the largest first, each into the smallest gap that fits between the items already
 * placed whose lives meet its own, else behind them (Pisarchyk and Lee, "Efficient Memory
 * Management for Deep Neural Net Inference", 2020, section 5.2). Ties go by index: the plan is
 * deterministic.
 */
#include "rt/rt_internal.h"

#include <stdlib.h>

#define ALIGN 64

struct ranked {
    struct rt_item *item;
    int64_t bytes; /* rounded up */
    int index;
};

static int larger_first(const void *pa, const void *pb) {
    const struct ranked *a = pa, *b = pb;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

static bool meet(const struct rt_item *a, const struct rt_item *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* placed[0..n) are in order of offset. */
static int64_t best_offset(const struct ranked *const *placed, int n, const struct ranked *r) {
    int64_t best = -1, best_gap = INT64_MAX, end = 0;
    for (int i = 0; i < n; i++) {
        const struct ranked *p = placed[i];
        if (!meet(p->item, r->item)) continue;
        int64_t gap = p->item->offset - end;
        if (gap >= r->bytes && gap < best_gap) {
            best = end;
            best_gap = gap;
        }
        int64_t p_end = p->item->offset + p->bytes;
        if (p_end > end) end = p_end;
    }
    return best >= 0 ? best : end;
}

static enum proem_status place(struct ranked *r, const struct ranked **placed, int n,
                               int64_t *total, struct err *e) {
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        /* No offset can pass the sum of all sizes, so this covers every addition later. */
        if (r[i].item->bytes < 0 || r[i].item->bytes > INT64_MAX - ALIGN ||
            r[i].bytes > INT64_MAX / 2 - sum) {
            return err_set(e, PROEM_NOMEM, "temporaries need more memory than can be addressed");
        }
        sum += r[i].bytes;
    }
    qsort(r, (size_t)n, sizeof *r, larger_first);
    *total = 0;
    for (int i = 0; i < n; i++) {
        int64_t offset = best_offset(placed, i, &r[i]);
        r[i].item->offset = offset;
        if (offset + r[i].bytes > *total) *total = offset + r[i].bytes;
        int at = i;
        while (at > 0 && placed[at - 1]->item->offset > offset) {
            placed[at] = placed[at - 1];
            at--;
        }
        placed[at] = &r[i];
    }
    return PROEM_OK;
}

enum proem_status rt_arena_plan(const struct allocator *alloc, struct rt_item *items, int n,
                                int64_t *total, struct err *e) {
    size_t count = n > 0 ? (size_t)n : 1;
    struct ranked *r = mem_alloc(alloc, count, sizeof *r);
    const struct ranked **placed = mem_alloc(alloc, count, sizeof *placed);
    enum proem_status s = PROEM_OK;
    if (r == NULL || placed == NULL) {
        s = err_nomem(e);
    } else {
        int used = 0;
        for (int i = 0; i < n; i++) {
            int64_t b = items[i].bytes;
            items[i].offset = 0;
            if (b == 0) continue;
            int64_t rounded = b > 0 && b <= INT64_MAX - ALIGN ? (b + ALIGN - 1) / ALIGN * ALIGN : 0;
            r[used++] = (struct ranked){.item = &items[i], .bytes = rounded, .index = i};
        }
        s = place(r, placed, used, total, e);
    }
    mem_free(alloc, r, count, sizeof *r);
    mem_free(alloc, placed, count, sizeof *placed);
    return s;
}
