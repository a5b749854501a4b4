/* buffer.c - owners of buffers, uses of blocks, and blocks over the user's memory. */
#include "base/value/buffer.h"

#include "base/alloc.h"
#include "base/refs.h"
#include "base/value/fate.h"
#include "base/value/release.h"

/* ---- uses ---- */

int kl_block_note_use_slow(struct kl_block *b, struct kl_timeline *t, uint64_t ticket) {
    for (int i = 0; i < KL_BLOCK_USES; i++)
        if (kl_use_note(&b->use[i], t, ticket)) return KL_OK;
    for (struct kl_use_more *m = atomic_load_explicit(&b->more, memory_order_acquire); m;
         m = m->next)
        if (kl_use_note(&m->use, t, ticket)) return KL_OK;
    struct kl_use_more *m = kl_malloc(sizeof *m);
    if (!m) return KL_ENOMEM;
    atomic_init(&m->use.timeline, t);
    atomic_init(&m->use.ticket, ticket);
    m->next = atomic_load_explicit(&b->more, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&b->more, &m->next, m, memory_order_release,
                                                  memory_order_relaxed)) {
    }
    return KL_OK;
}

bool kl_block_free_for_more(struct kl_block *b, const struct kl_timeline *same) {
    for (struct kl_use_more *m = atomic_load_explicit(&b->more, memory_order_acquire); m;
         m = m->next)
        if (!kl_use_over(&m->use, same)) return false;
    return true;
}

void kl_block_forget_uses_more(struct kl_block *b) {
    struct kl_use_more *m = atomic_exchange_explicit(&b->more, NULL, memory_order_acquire);
    while (m) {
        struct kl_use_more *next = m->next;
        kl_free(m);
        m = next;
    }
}

/* The timeline of a device that still uses b, with its ticket, or NULL. */
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

bool kl_block_in_flight(struct kl_block *b) {
    uint64_t ticket;
    return device_still_using(b, &ticket) != NULL;
}

/* ---- memory that host and device share ---- */

struct kl_memory kl_memory_copied = {.name = "copied"};

void kl_block_unshare_slow(struct kl_block *b) {
    struct kl_memory *by = atomic_exchange_explicit(&b->shared_by, NULL, memory_order_acquire);
    if (by && by->unshare) by->unshare(by, b);
}

/* ---- buffers ---- */

struct kl_buffer *kl_buffer_new(size_t bytes) {
    struct kl_buffer *b = kl_malloc(sizeof *b);
    if (!b) return NULL;
    atomic_init(&b->owners, 1);
    atomic_init(&b->mirrors, NULL);
    b->bytes = bytes;
    b->block = NULL;
    b->parts = NULL;
    return b;
}

void kl_parts_init(struct kl_parts *p, void *memory, uint32_t n_parts, size_t bytes) {
    atomic_init(&p->n, n_parts);
    p->memory = memory;
    atomic_init(&p->fate.refs, 1);
    atomic_init(&p->fate.state, 0);
    p->fate.timeline = NULL;
    p->fate.ticket = 0;
    p->fate.device_op = NULL;
    p->fate.parts = p;
    atomic_init(&p->buffer.owners, 1);
    atomic_init(&p->buffer.mirrors, NULL);
    p->buffer.bytes = bytes;
    p->buffer.block = NULL;
    p->buffer.parts = p;
}

void kl_parts_drop(struct kl_parts *p) {
    if (kl_refs_drop(&p->n)) kl_free(p->memory);
}

struct kl_buffer *kl_buffer_retain(struct kl_buffer *b) {
    if (b) atomic_fetch_add_explicit(&b->owners, 1, memory_order_relaxed);
    return b;
}

static void give_back_blocks(struct kl_buffer *b) {
    struct kl_block *m = atomic_load_explicit(&b->mirrors, memory_order_acquire);
    while (m) {
        struct kl_block *next = atomic_load_explicit(&m->next_mirror, memory_order_acquire);
        m->memory->give_back(m->memory, m);
        m = next;
    }
    if (b->block) b->block->memory->give_back(b->block->memory, b->block);
}

void kl_parts_free(struct kl_parts *p) {
    kl_error_release(kl_fate_error(&p->fate));
    give_back_blocks(&p->buffer);
    kl_free(p->memory);
}

void kl_buffer_release(struct kl_buffer *b) {
    if (!b) return;
    /* The thread that gives the block back must see the uses that every former owner noted;
     * kl_refs_drop orders them. */
    if (!kl_refs_drop(&b->owners)) return;
    give_back_blocks(b);
    if (b->parts)
        kl_parts_drop(b->parts);
    else
        kl_free(b);
}

struct kl_block *kl_buffer_block_on(struct kl_buffer *b, const struct kl_memory *m) {
    if (!b->block || b->block->memory == m || (b->block->memory->is_host && m->is_host))
        return b->block;
    struct kl_memory *by = atomic_load_explicit(&b->block->shared_by, memory_order_acquire);
    if (by && (by == m || (m->is_host && by == b->block->memory))) return b->block;
    struct kl_block *c = atomic_load_explicit(&b->mirrors, memory_order_acquire);
    while (c && c->memory != m) c = atomic_load_explicit(&c->next_mirror, memory_order_acquire);
    return c;
}

void kl_buffer_add_mirror(struct kl_buffer *b, struct kl_block *m) {
    atomic_store_explicit(&m->next_mirror, NULL, memory_order_relaxed);
    _Atomic(struct kl_block *) *end = &b->mirrors;
    struct kl_block *none = NULL;
    while (!atomic_compare_exchange_strong_explicit(end, &none, m, memory_order_acq_rel,
                                                    memory_order_acquire)) {
        end = &none->next_mirror;
        none = NULL;
    }
}

/* ---- the user's memory ---- */

static void user_block_free(struct kl_block *b) {
    kl_block_unshare(b);
    kl_block_begin(b, NULL);
    if (b->dtor) b->dtor(b->payload);
    kl_free(b);
}

struct user_block {
    struct kl_block b;
    struct kl_waiter waiter;
    struct kl_release release;
};

static void user_give_back(struct kl_memory *m, struct kl_block *b);

static void user_release(struct kl_release *r) {
    user_give_back(NULL, &kl_container(r, struct user_block, release)->b);
}

/* Runs on the thread that publishes the ticket, which must not run a destructor. */
static void user_wake(struct kl_waiter *w) {
    struct user_block *u = kl_container(w, struct user_block, waiter);
    u->release.run = user_release;
    kl_release_later(&u->release);
}

static void user_give_back(struct kl_memory *m, struct kl_block *b) {
    struct kl_waiter *w = &kl_container(b, struct user_block, b)->waiter;
    struct kl_timeline *t;
    while ((t = device_still_using(b, &w->ticket))) {
        w->wake = user_wake;
        if (kl_timeline_register(t, w)) return; /* user_wake continues when that use is done */
    }
    user_block_free(b);
}

static struct kl_memory user_memory = {
    .name = "user", .is_host = true, .give_back = user_give_back};

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

bool kl_block_is_valid(struct kl_block *b) {
    const char *raw = b->raw, *ptr = b->ptr;
    if (raw && (ptr < raw || b->bytes > b->raw_bytes)) return false;
    if (raw && (size_t)(ptr - raw) > b->raw_bytes - b->bytes) return false;
    const struct kl_timeline *seen[KL_BLOCK_USES] = {0};
    for (int i = 0; i < KL_BLOCK_USES; i++) {
        seen[i] = atomic_load(&b->use[i].timeline);
        if (i > 0 && seen[i] && !seen[i - 1]) return false;
        for (int k = 0; seen[i] && k < i; k++)
            if (seen[k] == seen[i]) return false;
    }
    for (struct kl_use_more *m = atomic_load(&b->more); m; m = m->next) {
        const struct kl_timeline *t = atomic_load(&m->use.timeline);
        for (int k = 0; t && k < KL_BLOCK_USES; k++)
            if (seen[k] == t) return false;
    }
    return true;
}
