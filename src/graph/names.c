/* SPDX-License-Identifier: MIT
 * A hash table from names to numbers: open addressing, linear probing, FNV-1a (Fowler, Noll, Vo),
 * at most half full. Keys are not copied: they live as long as the arena.
 */
#include "graph/internal.h"

#include <string.h>

struct name_slot {
    const char *key; /* NULL: free */
    size_t n;
    uint32_t value;
};

static struct name_slot *find(const struct names *t, const char *key, size_t n) {
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)key[i]) * 1099511628211u;
    size_t i = (size_t)(h ^ h >> 32) & (t->cap - 1);
    while (t->slots[i].key != NULL && (t->slots[i].n != n || memcmp(t->slots[i].key, key, n) != 0))
        i = (i + 1) & (t->cap - 1);
    return &t->slots[i];
}

bool names_add(struct names *t, const char *key, size_t n, uint32_t value) {
    if (2 * t->n >= t->cap) {
        struct names bigger = {t->arena, NULL, t->n, t->cap < 16 ? 32 : 2 * t->cap};
        bigger.slots = ARENA_NEW(t->arena, struct name_slot, bigger.cap);
        if (bigger.slots == NULL) return false;
        for (size_t i = 0; i < t->cap; i++) {
            const struct name_slot *s = &t->slots[i];
            if (s->key != NULL) *find(&bigger, s->key, s->n) = *s;
        }
        *t = bigger;
    }
    struct name_slot *s = find(t, key, n);
    if (s->key == NULL) t->n++;
    *s = (struct name_slot){key, n, value};
    return true;
}

bool names_get(const struct names *t, const char *key, size_t n, uint32_t *value) {
    if (t->cap == 0) return false;
    const struct name_slot *s = find(t, key, n);
    if (s->key == NULL) return false;
    *value = s->value;
    return true;
}
