/* SPDX-License-Identifier: MIT
 * The runtime object: units of C text in, loaded modules out.
 *
 * A unit's key is a hash of everything that shapes it: text, flags, compiler, version of the ABI.
 * Two loads of one key share a module, in memory as on disk. The lock is never held while a
 * compiler runs; two threads that need one new unit may both compile it, and the second uses the
 * first's.
 */
#include "rt/rt_internal.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_LIMIT   ((int64_t)1 << 30)
#define DEFAULT_TIMEOUT 120000
#define DEFAULT_PATH    "/usr/local/bin:/usr/bin:/bin"

struct rt_module {
    struct rt *rt;
    struct rt_module *next;
    XXH128_hash_t key;
    int64_t refs; /* guarded by rt->lock */
    void *handle;
    const struct pk_unit *unit;
};

/* ---- life ------------------------------------------------------------------------------------ */

static const char *const *copy_list(struct arena *a, const char *const *list, int *n) {
    *n = 0;
    while (list != NULL && list[*n] != NULL)
        (*n)++;
    const char **out = ARENA_NEW(a, const char *, (size_t)*n + 1);
    for (int i = 0; out != NULL && i < *n; i++)
        out[i] = arena_strdup(a, list[i]);
    return out;
}

static const char *given(const char *s, const char *otherwise) {
    return s != NULL && s[0] != '\0' ? s : otherwise;
}

static int default_jobs(void) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > 64 ? 64 : (int)online;
}

enum proem_status rt_new(const struct allocator *alloc, const struct rt_options *o, struct rt **out,
                         struct err *e) {
    struct rt *rt = mem_alloc(alloc, 1, sizeof *rt);
    if (rt == NULL) return err_nomem(e);
    *rt = (struct rt){.alloc = alloc,
                      .hold_signals = o->hold_signals,
                      .progress = o->progress,
                      .progress_user = o->progress_user};
    rt->timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : DEFAULT_TIMEOUT;
    rt->jobs = o->jobs > 0 ? o->jobs : default_jobs();
    str_init(&rt->compiler_option, alloc);
    str_init(&rt->search_path, alloc);
    str_init(&rt->tmp_dir, alloc);
    str_init(&rt->compiler.path, alloc);
    str_init(&rt->compiler.identity, alloc);
    str_init(&rt->compiler.version, alloc);
    str_add(&rt->compiler_option, given(o->compiler, "cc"));
    str_add(&rt->search_path, given(o->path, DEFAULT_PATH));
    str_add(&rt->tmp_dir, given(o->tmp_dir, "/tmp"));
    arena_init(&rt->strings, alloc);
    rt->env = copy_list(&rt->strings, o->env, &rt->n_env);
    rt->flags = copy_list(&rt->strings, o->flags, &rt->n_flags);
    bool has_dir = o->cache_dir != NULL && o->cache_dir[0] != '\0';
    rt_cache_init(&rt->cache, alloc, has_dir ? o->cache_dir : NULL,
                  o->cache_limit > 0 ? o->cache_limit : DEFAULT_LIMIT);
    bool ok = !rt->compiler_option.failed && !rt->search_path.failed && !rt->tmp_dir.failed &&
              !rt->cache.dir.failed && arena_ok(&rt->strings);
    if (pthread_mutex_init(&rt->lock, NULL) != 0) {
        ok = false;
    } else if (!ok) {
        pthread_mutex_destroy(&rt->lock);
    }
    if (!ok) {
        rt_cache_free(&rt->cache);
        arena_free(&rt->strings);
        str_free(&rt->compiler_option);
        str_free(&rt->search_path);
        str_free(&rt->tmp_dir);
        mem_free(alloc, rt, 1, sizeof *rt);
        return err_nomem(e);
    }
    *out = rt;
    return PROEM_OK;
}

void rt_free(struct rt *rt) {
    if (rt == NULL) return;
    rt_cache_free(&rt->cache);
    arena_free(&rt->strings);
    str_free(&rt->compiler_option);
    str_free(&rt->search_path);
    str_free(&rt->tmp_dir);
    str_free(&rt->compiler.path);
    str_free(&rt->compiler.identity);
    str_free(&rt->compiler.version);
    pthread_mutex_destroy(&rt->lock);
    mem_free(rt->alloc, rt, 1, sizeof *rt);
}

/* ---- modules --------------------------------------------------------------------------------- */

/* NULL if the unit is one that can be launched, else what is wrong. */
static const char *unit_fault(const struct pk_unit *u) {
    if (u == NULL) return "it does not export proem_unit";
    if (u->abi != PK_ABI_VERSION) return "its ABI version is not this library's";
    if (u->n_kernels < 0 || (u->n_kernels > 0 && u->kernels == NULL)) return "its list is wrong";
    for (int i = 0; i < u->n_kernels; i++) {
        const struct pk_kernel *k = u->kernels[i];
        if (k == NULL || k->name == NULL || k->shared_bytes == NULL || k->local_bytes == NULL ||
            k->tasks == NULL || k->run == NULL || k->phases < 0 || k->operands < 0) {
            return "one of its kernels is incomplete";
        }
        if (k->operands > 0 &&
            (k->packed_bytes == NULL || k->pack_tasks == NULL || k->pack == NULL)) {
            return "one of its kernels packs operands but has no function for it";
        }
    }
    return NULL;
}

/* Open a file as a module that is in no list yet. */
static enum proem_status open_module(struct rt *rt, const char *file, XXH128_hash_t key,
                                     struct rt_module **out, struct err *e) {
    struct rt_module *m = mem_alloc(rt->alloc, 1, sizeof *m);
    if (m == NULL) return err_nomem(e);
    *m = (struct rt_module){.rt = rt, .key = key, .refs = 1};
    m->handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const char *fault = NULL;
    if (m->handle == NULL) {
        fault = dlerror();
        if (fault == NULL) fault = "dlopen failed";
    } else {
        m->unit = dlsym(m->handle, "proem_unit");
        fault = unit_fault(m->unit);
    }
    if (fault == NULL) {
        *out = m;
        return PROEM_OK;
    }
    enum proem_status s = err_set(e, PROEM_COMPILE, "cannot load '%s': %s", file, fault);
    if (m->handle != NULL) dlclose(m->handle);
    mem_free(rt->alloc, m, 1, sizeof *m);
    return s;
}

static void close_module(struct rt_module *m) {
    dlclose(m->handle);
    mem_free(m->rt->alloc, m, 1, sizeof *m);
}

/* The module of a key, with one reference more; NULL if it is not loaded. The lock is held. */
static struct rt_module *find_loaded(struct rt *rt, XXH128_hash_t key) {
    for (struct rt_module *m = rt->modules; m != NULL; m = m->next) {
        if (!XXH128_isEqual(m->key, key)) continue;
        m->refs++;
        return m;
    }
    return NULL;
}

/* Put a new module in the list, or give it up for one that came first. */
static struct rt_module *enlist(struct rt *rt, struct rt_module *m) {
    pthread_mutex_lock(&rt->lock);
    struct rt_module *first = find_loaded(rt, m->key);
    if (first == NULL) {
        m->next = rt->modules;
        rt->modules = m;
    }
    pthread_mutex_unlock(&rt->lock);
    if (first == NULL) return m;
    close_module(m);
    return first;
}

struct rt_module *rt_module_ref(struct rt_module *m) {
    pthread_mutex_lock(&m->rt->lock);
    m->refs++;
    pthread_mutex_unlock(&m->rt->lock);
    return m;
}

void rt_module_unref(struct rt_module *m) {
    if (m == NULL) return;
    struct rt *rt = m->rt;
    pthread_mutex_lock(&rt->lock);
    bool dead = --m->refs == 0;
    if (dead) {
        struct rt_module **link = &rt->modules;
        while (*link != m)
            link = &(*link)->next;
        *link = m->next;
    }
    pthread_mutex_unlock(&rt->lock);
    if (dead) close_module(m);
}

const struct pk_unit *rt_module_unit(const struct rt_module *m) {
    return m->unit;
}

const struct pk_kernel *rt_module_kernel(const struct rt_module *m, const char *name) {
    for (int i = 0; i < m->unit->n_kernels; i++) {
        if (strcmp(m->unit->kernels[i]->name, name) == 0) return m->unit->kernels[i];
    }
    return NULL;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* One call of rt_load. */
struct load {
    struct rt *rt;
    const struct device_desc *device;
    int n;
    const struct rt_source *sources;
    struct rt_module **out;
    struct arena arena;
    XXH128_hash_t *keys;
    int *twin; /* an earlier unit with the same key, or -1 */
    int hits;  /* from the cache */
};

/* The hash of the parts' hashes, so that no two lists of parts run into each other. */
static XXH128_hash_t unit_key(const struct rt *rt, const struct str *flags,
                              const struct rt_source *src) {
    static const int abi = PK_ABI_VERSION;
    const struct rt_compiler_id *cc = &rt->compiler;
    XXH128_canonical_t part[5];
    XXH128_canonicalFromHash(&part[0], XXH3_128bits(&abi, sizeof abi));
    XXH128_canonicalFromHash(&part[1], XXH3_128bits(str_text(flags), flags->n));
    XXH128_canonicalFromHash(&part[2], XXH3_128bits(str_text(&cc->identity), cc->identity.n));
    XXH128_canonicalFromHash(&part[3], XXH3_128bits(str_text(&cc->version), cc->version.n));
    XXH128_canonicalFromHash(&part[4], XXH3_128bits(src->text, src->n));
    return XXH3_128bits(part, sizeof part);
}

/* Keys of all units; takes what is in memory. */
static enum proem_status begin(struct load *l, struct err *e) {
    struct rt *rt = l->rt;
    l->keys = ARENA_NEW(&l->arena, XXH128_hash_t, (size_t)l->n);
    l->twin = ARENA_NEW(&l->arena, int, (size_t)l->n);
    if (l->keys == NULL || l->twin == NULL) return err_nomem(e);
    struct str flags;
    str_init(&flags, rt->alloc);
    pthread_mutex_lock(&rt->lock);
    rt_cache_open(&rt->cache);
    enum proem_status s = rt_compiler_find(rt, e);
    if (s == PROEM_OK) s = rt_flags_text(rt, l->device, &flags, e);
    for (int i = 0; s == PROEM_OK && i < l->n; i++) {
        l->keys[i] = unit_key(rt, &flags, &l->sources[i]);
        l->twin[i] = -1;
        for (int j = 0; j < i && l->twin[i] < 0; j++) {
            if (XXH128_isEqual(l->keys[i], l->keys[j])) l->twin[i] = j;
        }
        if (l->twin[i] < 0) l->out[i] = find_loaded(rt, l->keys[i]);
        if (l->out[i] != NULL) rt->counts.in_memory++;
    }
    pthread_mutex_unlock(&rt->lock);
    str_free(&flags);
    return s;
}

static enum proem_status take_from_cache(struct load *l, struct err *e) {
    struct rt *rt = l->rt;
    enum proem_status s = PROEM_OK;
    struct str file;
    str_init(&file, rt->alloc);
    for (int i = 0; s == PROEM_OK && i < l->n; i++) {
        char key[RT_KEY_TEXT];
        if (l->out[i] != NULL || l->twin[i] >= 0) continue;
        rt_key_text(l->keys[i], key);
        if (!rt_cache_find(&rt->cache, key, RT_CACHE_UNIT, &file, NULL)) continue;
        struct rt_module *m;
        struct err ignored;
        err_clear(&ignored);
        s = open_module(rt, str_text(&file), l->keys[i], &m, &ignored);
        if (s == PROEM_OK) {
            l->out[i] = enlist(rt, m);
            l->hits++;
        } else if (s == PROEM_NOMEM) {
            err_nomem(e);
        } else {
            rt_cache_drop(&rt->cache, key, RT_CACHE_UNIT); /* compile it again */
            s = PROEM_OK;
        }
    }
    str_free(&file);
    return s;
}

/* Store what was compiled, and open it: the cache's file if there is one, else the temporary one.
 */
static enum proem_status open_compiled(struct load *l, int i, const struct rt_job *job,
                                       struct err *e) {
    struct rt *rt = l->rt;
    struct str so, file, content;
    str_init(&so, rt->alloc);
    str_init(&file, rt->alloc);
    str_init(&content, rt->alloc);
    str_printf(&so, "%s/%s.so", job->dir, job->base);
    enum proem_status s = so.failed ? err_nomem(e) : PROEM_OK;
    struct rt_module *m = NULL;
    if (s == PROEM_OK && rt->cache.ready) {
        s = rt_read_file(str_text(&so), &content, e);
        if (s == PROEM_OK &&
            rt_cache_store(&rt->cache, job->base, RT_CACHE_UNIT, content.at, content.n, &file)) {
            struct err ignored;
            err_clear(&ignored);
            if (open_module(rt, str_text(&file), l->keys[i], &m, &ignored) != PROEM_OK) m = NULL;
        }
    }
    if (s == PROEM_OK && m == NULL) s = open_module(rt, str_text(&so), l->keys[i], &m, e);
    if (s == PROEM_OK) l->out[i] = enlist(rt, m);
    str_free(&so);
    str_free(&file);
    str_free(&content);
    return s;
}

static enum proem_status compile_in(struct load *l, const char *dir, int n, const int *index,
                                    struct err *e) {
    struct rt_job *jobs = ARENA_NEW(&l->arena, struct rt_job, (size_t)n);
    if (jobs == NULL) return err_nomem(e);
    for (int j = 0; j < n; j++) {
        char *base = ARENA_NEW(&l->arena, char, RT_KEY_TEXT);
        if (base == NULL) return err_nomem(e);
        rt_key_text(l->keys[index[j]], base);
        jobs[j] = (struct rt_job){.source = &l->sources[index[j]], .dir = dir, .base = base};
    }
    TRY(rt_compile(l->rt, l->device, jobs, n, e));
    for (int j = 0; j < n; j++)
        TRY(open_compiled(l, index[j], &jobs[j], e));
    return PROEM_OK;
}

/* Compile what is missing, in a new directory that goes away again. No signal that is held may be
 * let through before it is gone. */
static enum proem_status compile_rest(struct load *l, int n, const int *index, struct err *e) {
    struct rt *rt = l->rt;
    struct str dir;
    str_init(&dir, rt->alloc);
    struct err first;
    err_clear(&first);
    struct rt_held held;
    rt_signals_hold(&held, rt->hold_signals);
    enum proem_status s = rt_make_work_dir(str_text(&rt->tmp_dir), &dir, &first);
    if (s != PROEM_OK && s != PROEM_NOMEM && rt->cache.ready) {
        struct err second;
        err_clear(&second);
        s = rt_make_work_dir(str_text(&rt->cache.dir), &dir, &second);
    }
    if (s != PROEM_OK) {
        s = err_set(e, first.status, "%s", first.text);
    } else {
        s = compile_in(l, str_text(&dir), n, index, e);
        rt_remove_work_dir(str_text(&dir));
    }
    rt_signals_release(&held);
    str_free(&dir);
    return s;
}

static enum proem_status load_all(struct load *l, int *compiled, double *compile_ms,
                                  struct err *e) {
    TRY(begin(l, e));
    TRY(take_from_cache(l, e));
    int *missing = ARENA_NEW(&l->arena, int, (size_t)l->n);
    if (missing == NULL) return err_nomem(e);
    int n = 0;
    for (int i = 0; i < l->n; i++) {
        if (l->out[i] == NULL && l->twin[i] < 0) missing[n++] = i;
    }
    if (n > 0) {
        double t = rt_now_ms();
        TRY(compile_rest(l, n, missing, e));
        *compile_ms = rt_now_ms() - t;
        *compiled = n;
        rt_cache_evict(&l->rt->cache);
    }
    for (int i = 0; i < l->n; i++) {
        if (l->twin[i] >= 0) l->out[i] = rt_module_ref(l->out[l->twin[i]]);
    }
    return PROEM_OK;
}

enum proem_status rt_load(struct rt *rt, const struct device_desc *device, int n,
                          const struct rt_source *sources, struct rt_module **out, struct err *e) {
    if (device->kind != DEVICE_CPU) {
        return err_set(e, PROEM_DEVICE, "device '%s' is not a CPU", device->name);
    }
    double t = rt_now_ms(), compile_ms = 0;
    int compiled = 0;
    struct load l = {.rt = rt, .device = device, .n = n, .sources = sources};
    arena_init(&l.arena, rt->alloc);
    l.out = ARENA_NEW(&l.arena, struct rt_module *, (size_t)n);
    enum proem_status s = l.out != NULL ? load_all(&l, &compiled, &compile_ms, e) : err_nomem(e);
    for (int i = 0; l.out != NULL && i < n; i++) {
        if (s == PROEM_OK) {
            out[i] = l.out[i];
        } else {
            rt_module_unref(l.out[i]);
        }
    }
    pthread_mutex_lock(&rt->lock);
    rt->counts.from_cache += l.hits;
    rt->counts.compiled += compiled;
    rt->counts.compile_ms += compile_ms;
    rt->counts.load_ms += rt_now_ms() - t - compile_ms;
    pthread_mutex_unlock(&rt->lock);
    arena_free(&l.arena);
    return s;
}

/* ---- choices -----------------------------------------------------------------------------------
 */

enum proem_status rt_choice_key(struct rt *rt, const struct device_desc *device,
                                const struct rt_source *source, const char *what,
                                char key[RT_CHOICE_KEY], struct err *e) {
    XXH128_canonical_t part[2];
    struct str flags;
    str_init(&flags, rt->alloc);
    pthread_mutex_lock(&rt->lock);
    rt_cache_open(&rt->cache);
    enum proem_status s = rt_compiler_find(rt, e);
    if (s == PROEM_OK) s = rt_flags_text(rt, device, &flags, e);
    if (s == PROEM_OK) {
        XXH128_canonicalFromHash(&part[0], unit_key(rt, &flags, source));
        XXH128_canonicalFromHash(&part[1], XXH3_128bits(what, strlen(what)));
        rt_key_text(XXH3_128bits(part, sizeof part), key);
    }
    pthread_mutex_unlock(&rt->lock);
    str_free(&flags);
    return s;
}

bool rt_choice_find(struct rt *rt, const char *key, struct str *text) {
    struct str file;
    str_init(&file, rt->alloc);
    bool found = rt_cache_find(&rt->cache, key, RT_CACHE_TEXT, &file, text);
    str_free(&file);
    return found;
}

void rt_choice_keep(struct rt *rt, const char *key, const char *text, size_t n) {
    struct str file;
    str_init(&file, rt->alloc);
    rt_cache_store(&rt->cache, key, RT_CACHE_TEXT, text, n, &file);
    str_free(&file);
}

/* ---- reports --------------------------------------------------------------------------------- */

void rt_counts(struct rt *rt, struct rt_counts *out) {
    pthread_mutex_lock(&rt->lock);
    *out = rt->counts;
    pthread_mutex_unlock(&rt->lock);
}

enum proem_status rt_compiler(struct rt *rt, struct str *path, struct str *version, struct err *e) {
    pthread_mutex_lock(&rt->lock);
    rt_cache_open(&rt->cache);
    enum proem_status s = rt_compiler_find(rt, e);
    if (s == PROEM_OK) {
        str_add(path, str_text(&rt->compiler.path));
        str_add(version, str_text(&rt->compiler.version));
        if (path->failed || version->failed) s = err_nomem(e);
    }
    pthread_mutex_unlock(&rt->lock);
    return s;
}

enum proem_status rt_compiler_flags(struct rt *rt, const struct device_desc *device,
                                    struct str *out, struct err *e) {
    struct err missing; /* there are flags for an unknown compiler, too */
    err_clear(&missing);
    pthread_mutex_lock(&rt->lock);
    rt_cache_open(&rt->cache);
    enum proem_status s = rt_compiler_find(rt, &missing);
    s = s == PROEM_NOMEM ? err_nomem(e) : rt_flags_text(rt, device, out, e);
    pthread_mutex_unlock(&rt->lock);
    return s;
}

void rt_cache_stat(struct rt *rt, struct rt_cache_stat *out) {
    pthread_mutex_lock(&rt->lock);
    struct rt_cache *c = &rt->cache;
    *out = (struct rt_cache_stat){.limit = c->limit, .note = c->note};
    if (c->wanted) out->dir = str_text(&c->dir);
    rt_cache_measure(c, &out->entries, &out->bytes);
    pthread_mutex_unlock(&rt->lock);
}

enum proem_status rt_cache_clear(struct rt *rt, int64_t *removed, struct err *e) {
    pthread_mutex_lock(&rt->lock);
    enum proem_status s = rt_cache_remove_all(&rt->cache, removed, e);
    pthread_mutex_unlock(&rt->lock);
    return s;
}
