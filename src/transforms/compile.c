/* compile.c - see compile.h. One lock guards all caches; nothing is traced or replayed under it. */
#include "transforms/compile.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fork_locks.h"
#include "base/list.h"
#include "base/refs.h"
#include "base/thread.h"
#include "graph/trace.h"
#include "ops/build/check.h"
#include "transforms/plan.h"

enum { MOST_TRIED = 8 }; /* plans for any shapes that are tried before one more is made */

struct key {
    const uint64_t *constants;
    struct kl_array *const *args;
    size_t n_args, n_constants;
    const struct kl_stream *stream; /* the default stream */
    int mode;
    bool shapeless;
};

struct entry {
    struct entry *next;   /* in its bucket, or in a list of entries to free */
    struct kl_link used;  /* in the cache's list; under the lock */
    uint64_t hash;        /* of the key */
    struct kl_plan *plan; /* its arguments are those of the trace */
    uint64_t *constants;
    size_t n_constants;
    const struct kl_stream *stream; /* borrowed; streams are never freed */
    int mode;
    bool shapeless;
};

/* Plans that one cache keeps at most. A plan takes some kilobytes; a function that is called with
 * ever new shapes would fill the memory with plans that nobody asks for again. */
enum { MOST_PLANS = 4096, LEAST_BUCKETS = 8 };

struct cache {
    struct kl_link link; /* in the list of all caches */
    uint64_t id;         /* 0: of one function */
    uint32_t refs;       /* of compiled functions; under the lock */
    /* a table of n entries, by hash; n_buckets is a power of two, or 0; under the lock */
    struct entry **buckets;
    size_t n, n_buckets;
    struct kl_list used; /* of entry.used, the one used last at the end; under the lock */
};

static struct kl_mutex lock = KL_MUTEX_INIT;
static struct kl_list caches = {{&caches.head, &caches.head}};
static _Atomic(int) mode = KL_COMPILE_ENABLED;

void kl_compile_set_mode(enum kl_compile_mode m) {
    atomic_store_explicit(&mode, (int)m, memory_order_relaxed);
}

/* ---- entries ---- */

static void entries_free(struct entry *e) {
    while (e) {
        struct entry *next = e->next;
        kl_plan_release(e->plan);
        kl_free(e->constants);
        kl_free(e);
        e = next;
    }
}

static bool args_match(const struct kl_plan *p, const struct key *k, bool shapeless) {
    if ((size_t)p->n_args != k->n_args) return false;
    for (size_t i = 0; i < k->n_args; i++) {
        const struct kl_plan_spec *s = &p->args[i];
        const struct kl_array *a = k->args[i];
        if (s->dtype != (enum kl_dtype)a->t.dtype || s->ndim != a->t.ndim) return false;
        if (!shapeless && !kl_shape_is(a, s->ndim, s->dims)) return false;
    }
    return true;
}

static bool matches(const struct entry *e, const struct key *k) {
    return e->shapeless == k->shapeless && e->mode == k->mode && e->stream == k->stream &&
           e->n_constants == k->n_constants &&
           (k->n_constants == 0 ||
            memcmp(e->constants, k->constants, k->n_constants * sizeof *k->constants) == 0) &&
           args_match(e->plan, k, k->shapeless);
}

static uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

/* Of all that `matches` compares. */
static uint64_t hash_of(const struct key *k) {
    uint64_t h = mix((uint64_t)(uintptr_t)k->stream, (uint64_t)k->mode * 2 + k->shapeless);
    for (size_t i = 0; i < k->n_constants; i++) h = mix(h, k->constants[i]);
    for (size_t i = 0; i < k->n_args; i++) {
        const struct kl_tensor *t = &k->args[i]->t;
        h = mix(h, (uint64_t)t->dtype << 32 | (uint64_t)t->ndim);
        for (int d = 0; d < t->ndim && !k->shapeless; d++) h = mix(h, (uint64_t)t->dims[d]);
    }
    return h;
}

static struct entry **bucket_of(const struct cache *c, uint64_t hash) {
    return &c->buckets[hash & (c->n_buckets - 1)];
}

/* A new reference to the plan for the key; NULL: there is none. Of several, which are for any
 * shapes, number `which`; those that were traced for the very shapes come first. The caller holds
 * the lock. */
static struct kl_plan *find(struct cache *c, const struct key *k, uint64_t hash, int which) {
    for (int exact = 1; exact >= (k->shapeless ? 0 : 1); exact--)
        for (struct entry *e = c->n ? *bucket_of(c, hash) : NULL; e; e = e->next) {
            if (e->hash != hash || !matches(e, k)) continue;
            if (k->shapeless && args_match(e->plan, k, false) != exact) continue;
            if (k->shapeless && kl_plan_failed_guard(e->plan, k->args)) continue;
            if (which-- > 0) continue;
            kl_list_remove(&e->used);
            kl_list_push(&c->used, &e->used);
            return kl_plan_retain(e->plan);
        }
    return NULL;
}

/* Twice as many buckets, if there is memory; else the lists in the buckets become longer. */
static void grow(struct cache *c) {
    size_t n = c->n_buckets ? 2 * c->n_buckets : LEAST_BUCKETS;
    struct entry **more = kl_calloc(n, sizeof *more);
    if (!more) return;
    kl_free(c->buckets);
    c->buckets = more;
    c->n_buckets = n;
    for (struct kl_link *l = c->used.head.next; l != &c->used.head; l = l->next) {
        struct entry *e = kl_container(l, struct entry, used), **at = bucket_of(c, e->hash);
        e->next = *at;
        *at = e;
    }
}

/* Takes e out of the table and puts it in front of `dead`. */
static struct entry *take_out(struct cache *c, struct entry *e, struct entry *dead) {
    struct entry **at = bucket_of(c, e->hash);
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    kl_list_remove(&e->used);
    c->n--;
    e->next = dead;
    return e;
}

static struct entry *take_all(struct cache *c, struct entry *dead) {
    while (c->n)
        dead = take_out(c, kl_container(kl_list_first(&c->used), struct entry, used), dead);
    return dead;
}

static int entry_new(struct entry **out, struct kl_plan *p, const struct key *k, uint64_t hash,
                     struct kl_error **err) {
    struct entry *e = kl_calloc(1, sizeof *e);
    uint64_t *constants = e ? kl_malloc((k->n_constants + 1) * sizeof *constants) : NULL;
    if (!constants) {
        kl_free(e);
        return kl_fail_nomem(err);
    }
    if (k->n_constants) memcpy(constants, k->constants, k->n_constants * sizeof *constants);
    *e = (struct entry){.hash = hash,
                        .plan = kl_plan_retain(p),
                        .constants = constants,
                        .n_constants = k->n_constants,
                        .stream = k->stream,
                        .mode = k->mode,
                        .shapeless = k->shapeless};
    *out = e;
    return KL_OK;
}

/* Another thread may have traced the same meanwhile; then its plan stays. Where the cache is full,
 * the plan goes that was not used for the longest time. */
static void insert(struct cache *c, struct entry *e, const struct key *k) {
    struct entry *dead = NULL;
    kl_mutex_lock(&lock);
    struct kl_plan *other = find(c, k, e->hash, 0);
    const bool is_new = !other || !args_match(other, k, false);
    if (is_new && c->n == MOST_PLANS)
        dead = take_out(c, kl_container(kl_list_first(&c->used), struct entry, used), NULL);
    if (is_new && c->n >= c->n_buckets) grow(c);
    if (is_new && c->n_buckets) {
        struct entry **at = bucket_of(c, e->hash);
        e->next = *at;
        *at = e;
        kl_list_push(&c->used, &e->used);
        c->n++;
    } else { /* without memory for a table the function is traced again next time */
        e->next = dead;
        dead = e;
    }
    kl_mutex_unlock(&lock);
    kl_plan_release(other);
    entries_free(dead);
}

/* ---- caches ---- */

static struct cache *cache_of(uint64_t id, struct kl_error **err) {
    static bool added;
    struct cache *made = kl_calloc(1, sizeof *made), *c = NULL;
    if (!made) {
        kl_fail_nomem(err);
        return NULL;
    }
    kl_mutex_lock(&lock);
    if (!added) {
        added = true;
        kl_fork_lock_add(&lock);
    }
    for (struct kl_link *l = caches.head.next; id && l != &caches.head && !c; l = l->next) {
        struct cache *other = kl_container(l, struct cache, link);
        if (other->id == id) c = other;
    }
    if (!c) {
        c = made;
        c->id = id;
        kl_list_init(&c->used);
        kl_list_push(&caches, &c->link);
        made = NULL;
    }
    c->refs++;
    kl_mutex_unlock(&lock);
    kl_free(made);
    return c;
}

static void cache_free(struct cache *c) {
    kl_free(c->buckets);
    kl_free(c);
}

/* A cache with a number stays when no function refers to it: the next function of that number finds
 * what was traced. */
static void cache_release(struct cache *c) {
    kl_mutex_lock(&lock);
    bool last = --c->refs == 0 && !(c->id && c->n);
    if (last) kl_list_remove(&c->link);
    kl_mutex_unlock(&lock);
    if (!last) return;
    entries_free(take_all(c, NULL));
    cache_free(c);
}

/* Empties the caches of that number, or all of them; those that no function refers to are freed. */
static void empty(uint64_t id, bool all) {
    struct entry *dead = NULL;
    struct kl_list gone;
    kl_list_init(&gone);
    kl_mutex_lock(&lock);
    for (struct kl_link *l = caches.head.next, *next; l != &caches.head; l = next) {
        struct cache *c = kl_container(l, struct cache, link);
        next = l->next;
        if (!all && c->id != id) continue;
        dead = take_all(c, dead);
        if (c->refs) continue;
        kl_list_remove(l);
        kl_list_push(&gone, l);
    }
    kl_mutex_unlock(&lock);
    entries_free(dead);
    for (struct kl_link *l; (l = kl_list_pop(&gone));)
        cache_free(kl_container(l, struct cache, link));
}

void kl_compile_erase(uint64_t id) {
    if (id) empty(id, false);
}

void kl_compile_clear(void) {
    empty(0, true);
}

/* ---- compiled functions ---- */

struct compiled {
    _Atomic(uint32_t) refs;
    struct kl_function f;
    struct cache *cache;
    bool shapeless;
    size_t n_constants;
    uint64_t constants[];
};

static void compiled_retain(void *ctx) {
    atomic_fetch_add_explicit(&((struct compiled *)ctx)->refs, 1, memory_order_relaxed);
}

static void compiled_release(void *ctx) {
    struct compiled *c = ctx;
    if (!kl_refs_drop(&c->refs)) return;
    kl_function_release(&c->f);
    cache_release(c->cache);
    kl_free(c);
}

static int trace(struct kl_plan **out, const struct compiled *c, const struct key *k, uint64_t hash,
                 struct kl_error **err) {
    struct entry *e = NULL;
    struct kl_plan_spec *specs = kl_malloc((k->n_args + 1) * sizeof *specs);
    if (!specs) return kl_fail_nomem(err);
    for (size_t i = 0; i < k->n_args; i++) {
        const struct kl_tensor *t = &k->args[i]->t;
        specs[i] = (struct kl_plan_spec){(enum kl_dtype)t->dtype, t->ndim, (int *)t->dims};
    }
    int rc = kl_plan_trace(out, &c->f, specs, k->n_args, k->mode != KL_COMPILE_NO_SIMPLIFY,
                           k->shapeless, err);
    kl_free(specs);
    if (rc || (*out)->once) return rc;
    rc = entry_new(&e, *out, k, hash, err);
    if (rc)
        kl_plan_release(*out);
    else
        insert(c->cache, e, k);
    return rc;
}

/* Replays the plan that was traced for any shapes. It may be wrong for these arguments (the
 * function saw an extent, or a result has more axes now): then *done stays false. */
static int replay_any(const struct compiled *c, const struct key *k, uint64_t hash, bool *done,
                      struct kl_arrays *outs, struct kl_error **err) {
    for (int which = 0; which < MOST_TRIED; which++) {
        struct kl_error *why = NULL;
        kl_mutex_lock(&lock);
        struct kl_plan *p = find(c->cache, k, hash, which);
        kl_mutex_unlock(&lock);
        if (!p) return KL_OK;
        int rc = kl_plan_replay(p, k->args, args_match(p, k, false), outs, &why);
        kl_plan_release(p);
        kl_error_release(why);
        *done = !rc;
        if (!rc) return KL_OK;
        if (rc == KL_ENOMEM) return kl_fail_nomem(err);
    }
    return KL_OK;
}

static int call(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                struct kl_error **err) {
    const struct compiled *c = ctx;
    struct key k = {.constants = c->constants,
                    .args = in,
                    .n_args = n_in,
                    .n_constants = c->n_constants,
                    .mode = atomic_load_explicit(&mode, memory_order_relaxed),
                    .shapeless = c->shapeless};
    /* Inside a trace for any shapes the shapes of the arguments are no key: the function becomes a
     * part of that trace. */
    if (k.mode == KL_COMPILE_DISABLED || kl_any_shapeless(in, (int)n_in))
        return kl_function_call(&c->f, in, n_in, outs, err);
    struct kl_stream *stream;
    KL_TRY(kl_transform_stream(&stream, err));
    k.stream = stream;
    const uint64_t hash = hash_of(&k);
    struct kl_plan *p = NULL;
    if (c->shapeless) {
        bool done = false;
        KL_TRY(replay_any(c, &k, hash, &done, outs, err));
        if (done) return KL_OK;
    } else {
        kl_mutex_lock(&lock);
        p = find(c->cache, &k, hash, 0);
        kl_mutex_unlock(&lock);
    }
    if (!p) KL_TRY(trace(&p, c, &k, hash, err));
    int rc = kl_plan_replay(p, in, true, outs, err);
    kl_plan_release(p);
    return rc;
}

int kl_compile(struct kl_function *out, const struct kl_function *f, uint64_t id, bool shapeless,
               const uint64_t *constants, size_t n_constants, struct kl_error **err) {
    struct compiled *c = kl_malloc(sizeof *c + n_constants * sizeof *constants);
    struct cache *cache = c ? cache_of(id, err) : NULL;
    if (!cache) {
        kl_free(c);
        return kl_fail_nomem(err); /* the first error stays */
    }
    atomic_init(&c->refs, 1);
    c->f = kl_function_retain(f);
    c->cache = cache;
    c->shapeless = shapeless;
    c->n_constants = n_constants;
    if (n_constants) memcpy(c->constants, constants, n_constants * sizeof *constants);
    *out = (struct kl_function){call, c, compiled_retain, compiled_release};
    return KL_OK;
}
