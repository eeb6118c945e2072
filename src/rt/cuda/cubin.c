/* SPDX-License-Identifier: MIT
 * Machine code of units: shared in memory, kept on disk, compiled when it is nowhere.
 *
 * The key is a hash of everything that shapes a unit: text, options, NVRTC's version. An entry of
 * the cache is a head of fixed size with what the log said, as text, and the code; the cache sees to
 * it that entries are whole (rt/cache.c). The locks are never held while NVRTC runs; two threads
 * that need one new unit may both compile it, and the second uses the first's.
 */
#include "rt/cuda/internal.h"

#include <stdlib.h>
#include <string.h>

#define HEAD       256u
#define HEAD_MAGIC "proem cubin 1 "

/* ---- life ------------------------------------------------------------------------------------ */

static struct rt_cubin *cubin_new(struct rt_cuda *c, XXH128_hash_t key) {
    struct rt_cubin *b = mem_alloc(c->alloc, 1, sizeof *b);
    if (b == NULL) return NULL;
    *b = (struct rt_cubin){.cuda = c, .key = key, .refs = 1};
    str_init(&b->code, c->alloc);
    if (pthread_mutex_init(&b->lock, NULL) == 0) return b;
    mem_free(c->alloc, b, 1, sizeof *b);
    return NULL;
}

static void cubin_free(struct rt_cubin *b) {
    struct rt_cuda *c = b->cuda;
    struct err ignored = {0};
    if (b->module != NULL && rt_cuda_enter(c, &ignored) == PROEM_OK) {
        c->cu.module_unload(b->module);
        rt_cuda_leave(c);
    }
    pthread_mutex_destroy(&b->lock);
    str_free(&b->code);
    mem_free(c->alloc, b, 1, sizeof *b);
}

/* The unit of a key, with one reference more; NULL if it is not in memory. The lock is held. */
static struct rt_cubin *find(struct rt_cuda *c, XXH128_hash_t key) {
    for (struct rt_cubin *b = c->cubins; b != NULL; b = b->next) {
        if (!XXH128_isEqual(b->key, key)) continue;
        b->refs++;
        return b;
    }
    return NULL;
}

static struct rt_cubin *enlist(struct rt_cuda *c, struct rt_cubin *b) {
    pthread_mutex_lock(&c->lock);
    struct rt_cubin *first = find(c, b->key);
    if (first == NULL) {
        b->next = c->cubins;
        c->cubins = b;
    }
    pthread_mutex_unlock(&c->lock);
    if (first == NULL) return b;
    cubin_free(b);
    return first;
}

struct rt_cubin *rt_cubin_ref(struct rt_cubin *b) {
    pthread_mutex_lock(&b->cuda->lock);
    b->refs++;
    pthread_mutex_unlock(&b->cuda->lock);
    return b;
}

void rt_cubin_unref(struct rt_cubin *b) {
    if (b == NULL) return;
    struct rt_cuda *c = b->cuda;
    pthread_mutex_lock(&c->lock);
    bool dead = --b->refs == 0;
    if (dead) {
        struct rt_cubin **link = &c->cubins;
        while (*link != b)
            link = &(*link)->next;
        *link = b->next;
    }
    pthread_mutex_unlock(&c->lock);
    if (dead) cubin_free(b);
}

const struct rt_cubin_report *rt_cubin_report(const struct rt_cubin *b) {
    return &b->report;
}

const void *rt_cubin_data(const struct rt_cubin *b, size_t *n) {
    *n = b->code.n;
    return b->code.at;
}

enum proem_status rt_cubin_function(struct rt_cubin *b, const char *entry, cu_function *out,
                                    struct err *e) {
    struct rt_cuda *c = b->cuda;
    pthread_mutex_lock(&b->lock);
    cu_result r = 0;
    if (b->module == NULL) {
        cu_module module = NULL;
        r = c->cu.module_load(&module, str_text(&b->code), 0, NULL, NULL);
        if (r == 0) b->module = module;
    }
    pthread_mutex_unlock(&b->lock);
    TRY(rt_cuda_result(c, r, "loading machine code", e));
    r = c->cu.module_function(out, b->module, entry);
    if (r == 0) return PROEM_OK;
    struct err text = {0};
    rt_cuda_result(c, r, entry, &text);
    return err_set(e, PROEM_INTERNAL, "%s", text.text);
}

/* ---- entries of the cache -------------------------------------------------------------------- */

static bool write_entry(struct rt_cubin *b, struct str *out) {
    const struct rt_cubin_report *r = &b->report;
    char pad[HEAD] = {0};
    str_printf(out, HEAD_MAGIC "%d %lld %d %s\n", r->registers, (long long)r->spilled,
               r->serialized, r->first);
    if (out->failed || out->n >= HEAD) return false;
    str_addn(out, pad, HEAD - out->n);
    str_addn(out, str_text(&b->code), b->code.n);
    return !out->failed;
}

static bool read_entry(const struct str *entry, struct rt_cubin *b) {
    size_t n = strlen(HEAD_MAGIC);
    struct rt_cubin_report *r = &b->report;
    if (entry->n <= HEAD || memcmp(entry->at, HEAD_MAGIC, n) != 0 || entry->at[HEAD - 1] != '\0')
        return false;
    char *at = entry->at + n;
    r->registers = (int)strtol(at, &at, 10);
    r->spilled = strtoll(at, &at, 10);
    r->serialized = (int)strtol(at, &at, 10);
    if (*at != ' ') return false;
    size_t line = strcspn(++at, "\n");
    if (line >= sizeof r->first) return false;
    memcpy(r->first, at, line);
    r->first[line] = '\0';
    str_addn(&b->code, entry->at + HEAD, entry->n - HEAD);
    return true;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* One call of rt_cuda_compile. */
struct load {
    struct rt_cuda *c;
    const struct device_desc *device;
    int n;
    const struct rt_source *sources;
    struct rt_cubin **out;
    struct arena arena;
    XXH128_hash_t *keys;
    int *twin; /* an earlier unit with the same key, or -1 */
    int hits, in_memory, compiled;
    double compile_ms;
};

static XXH128_hash_t unit_key(const struct rt_cuda *c, const struct str *flags,
                              const struct rt_source *s) {
    XXH128_canonical_t part[4];
    XXH128_canonicalFromHash(&part[0], XXH3_128bits(HEAD_MAGIC, strlen(HEAD_MAGIC)));
    XXH128_canonicalFromHash(&part[1], XXH3_128bits(str_text(flags), flags->n));
    XXH128_canonicalFromHash(&part[2], XXH3_128bits(&c->nvrtc_version, sizeof c->nvrtc_version));
    XXH128_canonicalFromHash(&part[3], XXH3_128bits(s->text, s->n));
    return XXH3_128bits(part, sizeof part);
}

static enum proem_status begin(struct load *l, struct err *e) {
    struct rt_cuda *c = l->c;
    struct str flags;
    l->keys = ARENA_NEW(&l->arena, XXH128_hash_t, l->n);
    l->twin = ARENA_NEW(&l->arena, int, l->n);
    if (l->keys == NULL || l->twin == NULL) return err_nomem(e);
    TRY(rt_nvrtc_open(c, e));
    str_init(&flags, c->alloc);
    enum proem_status s = rt_cuda_flags(c, l->device, &flags, e);
    pthread_mutex_lock(&c->rt->lock);
    rt_cache_open(&c->rt->cache);
    pthread_mutex_unlock(&c->rt->lock);
    pthread_mutex_lock(&c->lock);
    for (int i = 0; s == PROEM_OK && i < l->n; i++) {
        l->keys[i] = unit_key(c, &flags, &l->sources[i]);
        l->twin[i] = -1;
        for (int j = 0; j < i && l->twin[i] < 0; j++) {
            if (XXH128_isEqual(l->keys[i], l->keys[j])) l->twin[i] = j;
        }
        if (l->twin[i] < 0) l->out[i] = find(c, l->keys[i]);
        if (l->out[i] != NULL) l->in_memory++;
    }
    pthread_mutex_unlock(&c->lock);
    str_free(&flags);
    return s;
}

static enum proem_status take_from_cache(struct load *l, int i, struct err *e) {
    struct rt_cuda *c = l->c;
    struct str file, entry;
    char key[RT_KEY_TEXT];
    str_init(&file, c->alloc);
    str_init(&entry, c->alloc);
    rt_key_text(l->keys[i], key);
    enum proem_status s = PROEM_OK;
    if (rt_cache_find(&c->rt->cache, key, RT_CACHE_CUBIN, &file, &entry)) {
        struct rt_cubin *b = cubin_new(c, l->keys[i]);
        bool good = b != NULL && read_entry(&entry, b);
        if (b == NULL || b->code.failed) s = err_nomem(e);
        if (s == PROEM_OK && good) {
            l->out[i] = enlist(c, b);
            l->hits++;
        } else if (b != NULL) {
            cubin_free(b);
        }
        if (s == PROEM_OK && !good) rt_cache_drop(&c->rt->cache, key, RT_CACHE_CUBIN);
    }
    str_free(&file);
    str_free(&entry);
    return s;
}

static void store(struct rt_cuda *c, struct rt_cubin *b) {
    struct str file, entry;
    char key[RT_KEY_TEXT];
    str_init(&file, c->alloc);
    str_init(&entry, c->alloc);
    rt_key_text(b->key, key);
    if (write_entry(b, &entry))
        rt_cache_store(&c->rt->cache, key, RT_CACHE_CUBIN, entry.at, entry.n, &file);
    str_free(&file);
    str_free(&entry);
}

static enum proem_status keep(struct load *l, int i, struct nvrtc_job *job, struct err *e) {
    struct rt_cubin *b = cubin_new(l->c, l->keys[i]);
    if (b == NULL) return err_nomem(e);
    str_free(&b->code);
    b->code = job->code;
    b->report = job->report;
    str_init(&job->code, l->c->alloc);
    store(l->c, b);
    l->out[i] = enlist(l->c, b);
    return PROEM_OK;
}

static enum proem_status compile_rest(struct load *l, int n, const int *index, struct err *e) {
    struct rt_cuda *c = l->c;
    struct nvrtc_job *jobs = ARENA_NEW(&l->arena, struct nvrtc_job, n);
    if (jobs == NULL) return err_nomem(e);
    for (int j = 0; j < n; j++) {
        jobs[j].source = &l->sources[index[j]];
        str_init(&jobs[j].code, c->alloc);
    }
    double start = rt_now_ms();
    enum proem_status s = nvrtc_compile(c, l->device, jobs, n, e);
    l->compile_ms = rt_now_ms() - start;
    for (int j = 0; j < n; j++) {
        if (s == PROEM_OK) s = keep(l, index[j], &jobs[j], e);
        str_free(&jobs[j].code);
    }
    if (s == PROEM_OK) l->compiled = n;
    rt_cache_evict(&c->rt->cache);
    return s;
}

static enum proem_status load_all(struct load *l, struct err *e) {
    TRY(begin(l, e));
    int *missing = ARENA_NEW(&l->arena, int, l->n);
    int n = 0;
    if (missing == NULL) return err_nomem(e);
    for (int i = 0; i < l->n; i++) {
        if (l->out[i] != NULL || l->twin[i] >= 0) continue;
        TRY(take_from_cache(l, i, e));
        if (l->out[i] == NULL) missing[n++] = i;
    }
    if (n > 0) TRY(compile_rest(l, n, missing, e));
    for (int i = 0; i < l->n; i++) {
        if (l->twin[i] >= 0) l->out[i] = rt_cubin_ref(l->out[l->twin[i]]);
    }
    return PROEM_OK;
}

enum proem_status rt_cuda_compile(struct rt_cuda *c, const struct device_desc *d, int n,
                                  const struct rt_source *sources, struct rt_cubin **out,
                                  struct err *e) {
    if (d->kind != DEVICE_CUDA)
        return err_set(e, PROEM_DEVICE, "device '%s' is not a GPU", d->name);
    double start = rt_now_ms();
    struct load l = {.c = c, .device = d, .n = n, .sources = sources};
    arena_init(&l.arena, c->alloc);
    l.out = ARENA_NEW(&l.arena, struct rt_cubin *, n);
    enum proem_status s = l.out != NULL ? load_all(&l, e) : err_nomem(e);
    for (int i = 0; l.out != NULL && i < n; i++) {
        if (s == PROEM_OK)
            out[i] = l.out[i];
        else
            rt_cubin_unref(l.out[i]);
    }
    pthread_mutex_lock(&c->rt->lock);
    struct rt_counts *counts = &c->rt->counts;
    counts->in_memory += l.in_memory;
    counts->from_cache += l.hits;
    counts->compiled += l.compiled;
    counts->compile_ms += l.compile_ms;
    counts->load_ms += rt_now_ms() - start - l.compile_ms;
    pthread_mutex_unlock(&c->rt->lock);
    arena_free(&l.arena);
    return s;
}

enum proem_status rt_cuda_choice_key(struct rt_cuda *c, const struct device_desc *d,
                                     const struct rt_source *source, const char *what,
                                     char key[RT_CHOICE_KEY], struct err *e) {
    XXH128_canonical_t part[2];
    struct str flags;
    TRY(rt_nvrtc_open(c, e));
    str_init(&flags, c->alloc);
    enum proem_status s = rt_cuda_flags(c, d, &flags, e);
    if (s == PROEM_OK) {
        pthread_mutex_lock(&c->rt->lock);
        rt_cache_open(&c->rt->cache);
        pthread_mutex_unlock(&c->rt->lock);
        XXH128_canonicalFromHash(&part[0], unit_key(c, &flags, source));
        XXH128_canonicalFromHash(&part[1], XXH3_128bits(what, strlen(what)));
        rt_key_text(XXH3_128bits(part, sizeof part), key);
    }
    str_free(&flags);
    return s;
}
