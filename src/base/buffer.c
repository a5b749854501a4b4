/* buffer.c - owners of buffers, uses of blocks, and blocks over the user's memory. */
#include "base/buffer.h"

#include "base/alloc.h"

/* ---- uses ---- */

static bool note_in(struct kl_use *u, struct kl_timeline *t, uint64_t ticket) {
    struct kl_timeline *have = atomic_load_explicit(&u->timeline, memory_order_relaxed);
    if (!have) {
        /* Claimed for the whole tenancy: an entry is never taken over from a stream whose use is done, because that
         * stream's executor could be noting its next use in it at this moment. */
        if (atomic_compare_exchange_strong_explicit(&u->timeline, &have, t, memory_order_relaxed,
                                                    memory_order_relaxed))
            have = t;
    }
    if (have != t) return false;
    atomic_store_explicit(&u->ticket, ticket, memory_order_relaxed);
    return true;
}

int kl_block_note_use(struct kl_block *b, struct kl_timeline *t, uint64_t ticket) {
    for (int i = 0; i < KL_BLOCK_USES; i++)
        if (note_in(&b->use[i], t, ticket)) return KL_OK;
    for (struct kl_use_more *m = atomic_load_explicit(&b->more, memory_order_acquire); m; m = m->next)
        if (note_in(&m->use, t, ticket)) return KL_OK;
    struct kl_use_more *m = kl_malloc(sizeof *m);
    if (!m) return KL_ENOMEM;
    atomic_init(&m->use.timeline, t);
    atomic_init(&m->use.ticket, ticket);
    m->next = atomic_load_explicit(&b->more, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&b->more, &m->next, m, memory_order_release,
                                                  memory_order_relaxed)) {}
    return KL_OK;
}

static bool use_over(struct kl_use *u, const struct kl_timeline *same) {
    struct kl_timeline *t = atomic_load_explicit(&u->timeline, memory_order_relaxed);
    return !t || t == same ||
           kl_timeline_done(t) >= atomic_load_explicit(&u->ticket, memory_order_relaxed);
}

bool kl_block_free_for(struct kl_block *b, const struct kl_timeline *same) {
    for (int i = 0; i < KL_BLOCK_USES; i++)
        if (!use_over(&b->use[i], same)) return false;
    for (struct kl_use_more *m = atomic_load_explicit(&b->more, memory_order_acquire); m; m = m->next)
        if (!use_over(&m->use, same)) return false;
    return true;
}

void kl_block_forget_uses(struct kl_block *b) {
    for (int i = 0; i < KL_BLOCK_USES; i++)
        atomic_store_explicit(&b->use[i].timeline, NULL, memory_order_relaxed);
    struct kl_use_more *m = atomic_exchange_explicit(&b->more, NULL, memory_order_acquire);
    while (m) {
        struct kl_use_more *next = m->next;
        kl_free(m);
        m = next;
    }
}

/* ---- buffers ---- */

struct kl_buffer *kl_buffer_new(size_t bytes) {
    struct kl_buffer *b = kl_malloc(sizeof *b);
    if (!b) return NULL;
    atomic_init(&b->owners, 1);
    atomic_init(&b->mirrors, NULL);
    b->bytes = bytes;
    b->block = NULL;
    return b;
}

struct kl_buffer *kl_buffer_retain(struct kl_buffer *b) {
    if (b) atomic_fetch_add_explicit(&b->owners, 1, memory_order_relaxed);
    return b;
}

void kl_buffer_release(struct kl_buffer *b) {
    if (!b) return;
    /* acq_rel: who gives the block back must see the uses that every former owner noted. */
    if (atomic_fetch_sub_explicit(&b->owners, 1, memory_order_acq_rel) != 1) return;
    struct kl_block *m = atomic_load_explicit(&b->mirrors, memory_order_acquire);
    while (m) {
        struct kl_block *next = atomic_load_explicit(&m->next_mirror, memory_order_acquire);
        m->memory->give_back(m->memory, m);
        m = next;
    }
    if (b->block) b->block->memory->give_back(b->block->memory, b->block);
    kl_free(b);
}

struct kl_block *kl_buffer_block_on(struct kl_buffer *b, const struct kl_memory *m) {
    if (!b->block || b->block->memory == m || (b->block->memory->is_host && m->is_host)) return b->block;
    struct kl_block *c = atomic_load_explicit(&b->mirrors, memory_order_acquire);
    while (c && c->memory != m) c = atomic_load_explicit(&c->next_mirror, memory_order_acquire);
    return c;
}

void kl_buffer_add_mirror(struct kl_buffer *b, struct kl_block *m) {
    atomic_store_explicit(&m->next_mirror, NULL, memory_order_relaxed);
    _Atomic(struct kl_block *) *end = &b->mirrors;
    struct kl_block *none = NULL;
    while (!atomic_compare_exchange_strong_explicit(end, &none, m, memory_order_acq_rel, memory_order_acquire)) {
        end = &none->next_mirror;
        none = NULL;
    }
}

/* ---- the user's memory ---- */

static void user_block_free(struct kl_block *b) {
    kl_block_forget_uses(b);
    if (b->dtor) b->dtor(b->payload);
    kl_free(b);
}

/* Only a device can still use a block that nobody owns: a CPU task owns its operands until its kernel has returned. */
static struct kl_timeline *device_still_using(struct kl_block *b, uint64_t *ticket) {
    struct kl_use_more *m = atomic_load_explicit(&b->more, memory_order_acquire);
    for (int i = 0; i < KL_BLOCK_USES || m; i++) {
        struct kl_use *u = i < KL_BLOCK_USES ? &b->use[i] : &m->use;
        if (i >= KL_BLOCK_USES) m = m->next;
        struct kl_timeline *t = atomic_load_explicit(&u->timeline, memory_order_relaxed);
        *ticket = atomic_load_explicit(&u->ticket, memory_order_relaxed);
        if (t && t->is_device && kl_timeline_done(t) < *ticket) return t;
    }
    return NULL;
}

struct user_block {
    struct kl_block b;
    struct kl_waiter waiter;
};

static void user_give_back(struct kl_memory *m, struct kl_block *b);

static void user_wake(struct kl_waiter *w) {
    user_give_back(NULL, &kl_container(w, struct user_block, waiter)->b);
}

static void user_give_back(struct kl_memory *m, struct kl_block *b) {
    struct kl_waiter *w = &kl_container(b, struct user_block, b)->waiter;
    struct kl_timeline *t;
    while ((t = device_still_using(b, &w->ticket))) {
        w->wake = user_wake;
        if (kl_timeline_register(t, w)) return; /* comes back here when that use is done */
    }
    user_block_free(b);
}

static struct kl_memory user_memory = {.name = "user", .is_host = true, .give_back = user_give_back};

struct kl_block *kl_block_new_user(void *data, size_t bytes, void *payload, void (*dtor)(void *)) {
    struct user_block *u = kl_calloc(1, sizeof *u);
    if (!u) return NULL;
    u->b.memory = &user_memory;
    u->b.ptr = data;
    u->b.bytes = bytes;
    u->b.payload = payload;
    u->b.dtor = dtor;
    return &u->b;
}
