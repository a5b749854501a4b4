/* block_pool.c - see block_pool.h.
 *
 * There are four size classes for each power of two up to 1 MB; there a block has the size of its
 * class. Larger blocks are whole pages. Such a block is filed under the largest class that is not
 * above its size, and is taken when it is at most a quarter larger than the request. */
#include "runtime/block_pool.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/op/validate.h"
#include "base/platform/memory.h"

enum { CLASSES = 4 * 42, MIN_SHIFT = 6, MAX_MEMORIES = 16 };
static const size_t exact_up_to = (size_t)1 << 20;
static const size_t page = 4096;

/* How many blocks a search tries. The newest ones are in the processor's caches, and the stream
 * that used them last may have them. All of them may still be in flight on another stream; then
 * the blocks that have been idle longest are the most likely to be done. */
enum { TRY_NEWEST = 6, TRY_OLDEST = 10, MAX_SEEN = 128, TRY_LOWEST = 16 };

/* Blocks age, because a program whose arrays grow at each step asks for every size once. The clock
 * counts commits. A block that lay idle for OLD commits goes back at the next sweep. When the pool
 * has to take a large block from the system although it keeps much already, the large blocks that
 * the last YOUNG commits did not need go back; and when it keeps far more than was in use at any
 * one time of late, blocks go back whatever their age, so that one long commit is bounded, too. */
enum { YOUNG = 4, OLD = 1024, SWEEP_EVERY = 256, PEAK_EVERY = 64 };
/* A pool that keeps less than this is left alone: to give memory back and take it again costs a
 * page fault for each page, and on a device a wait. */
static const size_t keep_at_ease = (size_t)32 << 20;

/* A pool is divided into shards, so that threads on independent work do not wait for one lock. A
 * thread puts free blocks into its own shard. It looks into the others only when its own has no
 * block that fits. The pool of a device has one shard: another thread of the pool may encode the
 * next step of a program, and the addresses of that step should be those of the one before, since
 * a remembered graph is then launched as it is (cuda_chain.c). For the same reason it gives of the
 * newest small blocks the one with the lowest address: the newest one depends on what was freed
 * before, so that three blocks of which a layer of a model takes two would go round. */
enum { SHARDS = 4 };
struct shard {
    struct kl_mutex mu;           /* leaf */
    struct kl_list free[CLASSES]; /* of kl_block.link, most recently freed first; guarded by mu */
    _Atomic(size_t) cached;       /* bytes in free; written under mu */
    char apart[64];               /* keeps the lock of the next shard in another cache line */
};
struct pool {
    struct kl_memory *memory;
    struct shard shards[SHARDS];
};

static struct shard *shard_at(struct pool *p, int k) { /* k = 0: the shard of this thread */
    static _Atomic(unsigned) next;
    static __thread unsigned mine; /* number of this thread's shard plus one; 0: not chosen yet */
    if (!p->memory->is_host) return &p->shards[k];
    if (!mine) mine = atomic_fetch_add(&next, 1) % SHARDS + 1;
    return &p->shards[(mine - 1 + (unsigned)k) % SHARDS];
}

static struct {
    struct kl_mutex mu;               /* taken before any pool's */
    struct pool *pools[MAX_MEMORIES]; /* guarded by mu; entries are immortal */
    _Atomic(int) n_pools;
    _Atomic(size_t) active, peak;
    /* the highest active in this window of PEAK_EVERY commits, and in the one before */
    _Atomic(size_t) recent_peak, earlier_peak;
    _Atomic(size_t) limit, cache_limit, wired_limit; /* limits plus one; 0: the default */
    _Atomic(uint64_t) next_tenant;
    _Atomic(uint32_t) clock; /* commits, modulo 2^32; a tick may be lost to another thread's */
} all = {.mu = KL_MUTEX_INIT};

#ifdef KL_TEST_HOOKS
static _Atomic(bool) skip_check;
static _Atomic(size_t) budget = (size_t)-1;

void kl_test_skip_handover_check(bool skip) {
    atomic_store(&skip_check, skip);
}
void kl_test_memory_budget(size_t bytes) {
    atomic_store(&budget, bytes);
}
#endif

/* ---- the figures ---- */

static void raise_to(_Atomic(size_t) *peak, size_t now) {
    size_t was = atomic_load_explicit(peak, memory_order_relaxed);
    while (now > was && !atomic_compare_exchange_weak_explicit(
                            peak, &was, now, memory_order_relaxed, memory_order_relaxed)) {
    }
}

static void count_active(size_t bytes) {
    size_t now = atomic_fetch_add_explicit(&all.active, bytes, memory_order_relaxed) + bytes;
    raise_to(&all.peak, now);
    raise_to(&all.recent_peak, now);
}

/* The caller holds the lock of the shard, so a plain store is enough. A reader adds up the
 * shards. */
static void count_cached(struct shard *p, ptrdiff_t change) {
    size_t now = atomic_load_explicit(&p->cached, memory_order_relaxed) + (size_t)change;
    atomic_store_explicit(&p->cached, now, memory_order_relaxed);
}

static size_t cached_in(struct pool *p) {
    size_t sum = 0;
    for (int k = 0; k < SHARDS; k++)
        sum += atomic_load_explicit(&p->shards[k].cached, memory_order_relaxed);
    return sum;
}

/* The size is asked once: it is a system call, and every block that comes back needs it. */
static size_t ram_bytes(void) {
    static _Atomic(size_t) known;
    size_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (bytes) return bytes;
    bytes = kl_memory_installed();
    if (!bytes) bytes = (size_t)4 << 30;
    atomic_store_explicit(&known, bytes, memory_order_relaxed);
    return bytes;
}

static size_t limit_get(_Atomic(size_t) *limit, size_t otherwise) {
    size_t v = atomic_load(limit);
    return v ? v - 1 : otherwise; /* the value is stored plus one, so that the limit can be 0 */
}

static size_t limit_set(_Atomic(size_t) *limit, size_t v, size_t otherwise) {
    size_t old = atomic_exchange(limit, v == (size_t)-1 ? v : v + 1);
    return old ? old - 1 : otherwise;
}

size_t kl_memory_active(void) {
    return atomic_load(&all.active);
}
size_t kl_memory_cached(void) {
    size_t sum = 0;
    for (int i = 0; i < atomic_load(&all.n_pools); i++) sum += cached_in(all.pools[i]);
    return sum;
}
size_t kl_memory_peak(void) {
    return atomic_load(&all.peak);
}
void kl_memory_reset_peak(void) {
    atomic_store(&all.peak, 0);
}
size_t kl_memory_limit(void) {
    return limit_get(&all.limit, ram_bytes() / 10 * 8);
}
size_t kl_memory_set_limit(size_t bytes) {
    size_t old = limit_set(&all.limit, bytes, ram_bytes() / 10 * 8);
    kl_memory_within_limit(0);
    return old;
}
/* How much may be kept: what the limit of the cache and the memory limit allow. */
static size_t cache_limit(void) {
    size_t limit = kl_memory_limit(), active = atomic_load(&all.active);
    size_t room = limit > active ? limit - active : 0;
    size_t cap = limit_get(&all.cache_limit, ram_bytes() / 4);
    return cap < room ? cap : room;
}
size_t kl_memory_set_wired_limit(size_t bytes) {
    return limit_set(&all.wired_limit, bytes, 0);
}

/* ---- size classes ---- */

static size_t class_size(int c) {
    size_t base = (size_t)1 << (MIN_SHIFT + c / 4);
    return base + base / 4 * (size_t)(c % 4);
}

/* The largest class of size <= bytes; the smallest class when bytes is less than its size. */
static int class_at_most(size_t bytes) {
    if (bytes < (size_t)1 << MIN_SHIFT) return 0;
    int shift = 63 - __builtin_clzll(bytes);
    int quarter = (int)((bytes - ((size_t)1 << shift)) >> (shift - 2));
    int c = (shift - MIN_SHIFT) * 4 + quarter;
    return c < CLASSES ? c : CLASSES - 1;
}

/* The size of the block for a request, and in *c the class of a block of that size. */
static size_t round_request(size_t bytes, int *c) {
    if (kl_validating()) { /* the guard must stand directly after the requested bytes */
        *c = class_at_most(bytes);
        return bytes;
    }
    if (bytes < ((size_t)1 << MIN_SHIFT)) bytes = (size_t)1 << MIN_SHIFT;
    if (bytes <= exact_up_to) {
        *c = class_at_most(bytes);
        if (class_size(*c) < bytes) ++*c;
        return class_size(*c);
    }
    bytes = (bytes + page - 1) / page * page;
    *c = class_at_most(bytes);
    return bytes;
}

/* ---- blocks ---- */

static void block_raw_free(struct kl_block *b) { /* all uses are done; b is in no list */
    kl_block_unshare(b);
    b->memory->raw_free(b->memory, b->raw, b->raw_bytes);
    kl_block_begin(b, NULL);
    kl_free(b);
}

static bool may_take(struct kl_block *b, const struct kl_timeline *t) {
#ifdef KL_TEST_HOOKS
    if (atomic_load(&skip_check)) return true;
#endif
    return kl_block_free_for(b, t);
}

/* A block of least to most bytes in the list, for the timeline t: of the first `tries` of such a
 * size from the newest, or from the oldest, the first one that t may have. */
static struct kl_block *search(struct kl_list *list, bool oldest, int tries, size_t least,
                               size_t most, const struct kl_timeline *t) {
    struct kl_link *n = oldest ? list->head.prev : list->head.next;
    for (int seen = 0; n != &list->head && tries > 0 && seen < MAX_SEEN; seen++) {
        struct kl_block *b = kl_container(n, struct kl_block, link);
        n = oldest ? n->prev : n->next;
        if (b->bytes < least || b->bytes > most) continue;
        if (may_take(b, t)) return b;
        tries--;
    }
    return NULL;
}

/* Of the first TRY_LOWEST blocks, the one of such a size with the lowest address that t may
 * have. */
static struct kl_block *lowest(struct kl_list *list, size_t least, size_t most,
                               const struct kl_timeline *t) {
    struct kl_block *best = NULL;
    struct kl_link *n = list->head.next;
    for (int tries = 0; n != &list->head && tries < TRY_LOWEST; n = n->next, tries++) {
        struct kl_block *b = kl_container(n, struct kl_block, link);
        if (b->bytes < least || b->bytes > most) continue;
        if ((!best || (uintptr_t)b->ptr < (uintptr_t)best->ptr) && may_take(b, t)) best = b;
    }
    return best;
}

static struct kl_block *take_from(struct shard *p, bool is_host, size_t bytes, int c,
                                  const struct kl_timeline *t) {
    size_t most = kl_validating() ? bytes : bytes + bytes / 4;
    const bool by_address = !is_host && bytes <= exact_up_to;
    int last = bytes > exact_up_to && c + 1 < CLASSES ? c + 1 : c;
    for (; c <= last; c++) {
        struct kl_block *b = by_address ? lowest(&p->free[c], bytes, most, t)
                                        : search(&p->free[c], false, TRY_NEWEST, bytes, most, t);
        if (!b) b = search(&p->free[c], true, TRY_OLDEST, bytes, most, t);
        if (!b) continue;
        kl_list_remove(&b->link);
        count_cached(p, -(ptrdiff_t)b->raw_bytes);
        return b;
    }
    return NULL;
}

static struct kl_block *take_cached(struct pool *p, size_t bytes, int c,
                                    const struct kl_timeline *t) {
    struct kl_block *b = NULL;
    for (int k = 0; k < SHARDS && !b; k++) {
        struct shard *shard = shard_at(p, k);
        if (k && atomic_load_explicit(&shard->cached, memory_order_relaxed) == 0) continue;
        kl_mutex_lock(&shard->mu);
        b = take_from(shard, p->memory->is_host, bytes, c, t);
        kl_mutex_unlock(&shard->mu);
    }
    return b;
}

static uint32_t commits(void) {
    return atomic_load_explicit(&all.clock, memory_order_relaxed);
}

/* Which blocks go back to the system. */
struct leavers {
    size_t bytes;      /* blocks are taken until they have this size together */
    uint32_t idle_for; /* commits at least */
    bool large;        /* only blocks above exact_up_to */
};

/* Takes the blocks that l describes and whose uses are done out of one list, the oldest first. */
static size_t take_leavers(struct shard *shard, int c, const struct leavers *l, size_t got,
                           struct kl_list *out) {
    struct kl_link *head = &shard->free[c].head;
    for (struct kl_link *n = head->prev, *prev; n != head && got < l->bytes; n = prev) {
        prev = n->prev;
        struct kl_block *b = kl_container(n, struct kl_block, link);
        if (commits() - b->idle_since < l->idle_for) break; /* and the others are younger */
        if (!may_take(b, NULL) || (l->large && b->bytes <= exact_up_to)) continue;
        kl_list_remove(n);
        kl_list_push(out, n);
        got += b->raw_bytes;
        count_cached(shard, -(ptrdiff_t)b->raw_bytes);
    }
    return got;
}

/* Gives cached blocks back to the system; returns how many bytes. */
static size_t retire(struct pool *p, struct leavers l) {
    struct kl_list out;
    kl_list_init(&out);
    size_t got = 0;
    int least = l.large ? class_at_most(exact_up_to) : 0;
    for (int k = 0; k < SHARDS && got < l.bytes; k++) {
        struct shard *shard = shard_at(p, k);
        if (atomic_load_explicit(&shard->cached, memory_order_relaxed) == 0) continue;
        kl_mutex_lock(&shard->mu);
        for (int c = CLASSES - 1; c >= least && got < l.bytes; c--)
            got = take_leavers(shard, c, &l, got, &out);
        kl_mutex_unlock(&shard->mu);
    }
    for (struct kl_link *n; (n = kl_list_pop(&out));)
        block_raw_free(kl_container(n, struct kl_block, link));
    return got;
}

/* Gives up to about `want` bytes back, whatever their age. */
static size_t give_back_cached(struct pool *p, size_t want) {
    return retire(p, (struct leavers){.bytes = want});
}

void kl_memory_within_limit(size_t more) {
    size_t held = atomic_load_explicit(&all.active, memory_order_relaxed) + more;
    size_t limit = kl_memory_limit(), cached = kl_memory_cached();
    for (int i = 0; i < atomic_load(&all.n_pools) && cached; i++) {
        if (held + cached <= limit) return;
        cached -= give_back_cached(all.pools[i], held + cached - limit);
    }
}

/* The pool is about to take `bytes` from the system. First gives back what it keeps in vain. */
static void make_room(struct pool *p, size_t bytes) {
    kl_memory_within_limit(bytes);
    if (bytes <= exact_up_to) return;
    size_t kept = cached_in(p), active = atomic_load_explicit(&all.active, memory_order_relaxed);
    if (kept <= keep_at_ease + active / 2) return;
    kept -= retire(p, (struct leavers){.bytes = (size_t)-1, .idle_for = YOUNG, .large = true});
    size_t peak = atomic_load_explicit(&all.recent_peak, memory_order_relaxed),
           before = atomic_load_explicit(&all.earlier_peak, memory_order_relaxed);
    if (before > peak) peak = before;
    if (kept > 2 * keep_at_ease + 4 * peak)
        retire(p, (struct leavers){.bytes = kept - keep_at_ease - 2 * peak, .large = true});
}

void kl_memory_tick(void) {
    uint32_t tick = commits() + 1;
    atomic_store_explicit(&all.clock, tick, memory_order_relaxed);
    if (tick % PEAK_EVERY == 0) {
        size_t active = atomic_load_explicit(&all.active, memory_order_relaxed);
        atomic_store_explicit(&all.earlier_peak, atomic_exchange(&all.recent_peak, active),
                              memory_order_relaxed);
    }
    if (tick % SWEEP_EVERY) return;
    for (int i = 0; i < atomic_load(&all.n_pools); i++)
        retire(all.pools[i], (struct leavers){.bytes = (size_t)-1, .idle_for = OLD});
}

static void pool_give_back(struct kl_memory *m, struct kl_block *b) {
    struct pool *p = m->pool;
    int c = class_at_most(b->bytes);
    kl_assert_slow(kl_block_is_valid(b));
    atomic_fetch_sub_explicit(&all.active, b->raw_bytes, memory_order_relaxed);
    /* Host memory is filled at once, unless a device that shares the block still reads it. The
     * stream of the next tenant fills device memory. */
    if (kl_validating() && m->is_host && !kl_block_in_flight(b)) kl_guard_poison(b);
    struct shard *shard = shard_at(p, 0);
    kl_mutex_lock(&shard->mu);
    b->idle_since = commits();
    kl_list_push_front(&shard->free[c], &b->link);
    count_cached(shard, (ptrdiff_t)b->raw_bytes);
    kl_mutex_unlock(&shard->mu);
    size_t cap = cache_limit(), cached = cached_in(p);
    if (cached > cap) give_back_cached(p, cached - cap);
}

static int raw_alloc(struct pool *p, size_t bytes, void **raw, struct kl_error **err) {
#ifdef KL_TEST_HOOKS
    if (atomic_load(&all.active) + kl_memory_cached() + bytes > atomic_load(&budget))
        return kl_fail(err, KL_ENOMEM, "out of %s memory: %zu bytes wanted", p->memory->name,
                       bytes);
#endif
    return p->memory->raw_alloc(p->memory, bytes, raw, err);
}

static struct kl_block *block_new(struct pool *p, size_t bytes, struct kl_error **err) {
    struct kl_block *b = kl_calloc(1, sizeof *b);
    if (!b) {
        kl_fail_nomem(err);
        return NULL;
    }
    size_t guard = kl_validating() ? KL_GUARD_BYTES : 0;
    make_room(p, bytes + 2 * guard);
    struct kl_error *first = NULL;
    int rc = raw_alloc(p, bytes + 2 * guard, &b->raw, &first);
    /* Cached blocks, of this or of another memory of the same machine, may hold what is missing. */
    if (rc == KL_ENOMEM) {
        kl_error_release(first);
        first = NULL;
        kl_memory_clear_cache();
        rc = raw_alloc(p, bytes + 2 * guard, &b->raw, &first);
    }
    if (rc) {
        kl_free(b);
        kl_fail_with(err, first ? first : kl_error_static(rc));
        return NULL;
    }
    b->memory = p->memory;
    b->ptr = (char *)b->raw + guard;
    b->bytes = bytes;
    b->raw_bytes = bytes + 2 * guard;
    return b;
}

int kl_block_alloc(struct kl_memory *m, size_t bytes, struct kl_timeline *t, struct kl_block **out,
                   struct kl_error **err) {
    struct pool *p = m->pool;
    int c;
    if (bytes > (size_t)1 << 47)
        return kl_fail(err, KL_ENOMEM, "out of %s memory: %zu bytes wanted", m->name, bytes);
    size_t rounded = round_request(bytes, &c);
    struct kl_block *b = take_cached(p, rounded, c, t);
    if (!b && !(b = block_new(p, rounded, err))) return KL_ENOMEM;
    kl_assert_slow(kl_block_is_valid(b));
    count_active(b->raw_bytes);
    /* Sharing cannot end when the block is given back: commands that read it may not even have been
     * handed to the driver then. */
    kl_block_unshare(b);
    if (kl_validating()) {
        b->tenant = atomic_fetch_add_explicit(&all.next_tenant, 1, memory_order_relaxed) + 1;
        /* This is checked again, whatever the pool decided, because validation must prove it. */
        if (!kl_block_free_for(b, t)) {
            struct kl_error_info info = {.code = KL_EVALIDATE, .op = b->last_op};
            kl_fail_info(
                err, &info,
                "validation: a block of %zu bytes was handed over while '%s' may still use it",
                b->bytes, b->last_op[0] ? b->last_op : "a kernel");
            fprintf(stderr,
                    "keel: validation: a block of %zu bytes was handed over while '%s' may still "
                    "use it\n",
                    b->bytes, b->last_op[0] ? b->last_op : "a kernel");
            pool_give_back(m, b);
            return KL_EVALIDATE;
        }
        if (m->is_host) kl_guard_fill(b);
        b->needs_guard = !m->is_host;
    }
    kl_block_begin(b, t);
    *out = b;
    return KL_OK;
}

void kl_memory_clear_cache(void) {
    for (int i = 0; i < atomic_load(&all.n_pools); i++) give_back_cached(all.pools[i], (size_t)-1);
}

size_t kl_memory_cache_limit_set(size_t bytes) {
    size_t old = limit_set(&all.cache_limit, bytes, ram_bytes() / 4);
    size_t cached = kl_memory_cached();
    for (int i = 0; i < atomic_load(&all.n_pools) && cached > bytes; i++)
        cached -= give_back_cached(all.pools[i], cached - bytes);
    return old;
}

int kl_pool_attach(struct kl_memory *m, struct kl_error **err) {
    struct pool *p = kl_calloc(1, sizeof *p);
    if (!p) return kl_fail_nomem(err);
    p->memory = m;
    for (int k = 0; k < SHARDS; k++) {
        kl_mutex_init(&p->shards[k].mu);
        for (int c = 0; c < CLASSES; c++) kl_list_init(&p->shards[k].free[c]);
    }
    kl_mutex_lock(&all.mu);
    int n = atomic_load(&all.n_pools);
    if (n == MAX_MEMORIES) {
        kl_mutex_unlock(&all.mu);
        kl_free(p);
        return kl_fail(err, KL_ELIMIT, "more than %d memories", MAX_MEMORIES);
    }
    all.pools[n] = p;
    atomic_store(&all.n_pools, n + 1);
    kl_mutex_unlock(&all.mu);
    m->give_back = pool_give_back;
    m->take = kl_block_alloc;
    m->pool = p;
    return KL_OK;
}

void kl_pools_fork_prepare(void) {
    kl_mutex_lock(&all.mu);
    for (int i = 0; i < atomic_load(&all.n_pools); i++)
        for (int k = 0; k < SHARDS; k++) kl_mutex_lock(&all.pools[i]->shards[k].mu);
}

void kl_pools_fork_parent(void) {
    for (int i = atomic_load(&all.n_pools) - 1; i >= 0; i--)
        for (int k = SHARDS - 1; k >= 0; k--) kl_mutex_unlock(&all.pools[i]->shards[k].mu);
    kl_mutex_unlock(&all.mu);
}

void kl_pools_fork_child(void) {
    kl_pools_fork_parent();
}
