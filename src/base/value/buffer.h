/* buffer.h - the buffer, which arrays and views own, and the block, which is its memory.
 *
 * A buffer is made with its array, before there is memory; the executor binds a block to it. The
 * buffer counts its owners: arrays, views among them. A block records, for each stream, the ticket
 * of its last use. When a buffer loses its last owner, its block goes back to its memory. A later
 * operation of the same stream may get the block at once; anybody else gets it only when all uses
 * are done. */
#pragma once
#include <stddef.h>

#include "base/value/fate.h"

struct kl_block;
struct kl_buffer;

/* A kind of memory: the CPU's, a device's, or the user's. A backend owns its memory. No kl_memory
 * is ever freed. */
struct kl_memory {
    const char *name;
    bool is_host; /* block->ptr may be dereferenced by the CPU */
    /* Commands take single elements of the host's memory as arguments, without a copy here. */
    bool takes_values;
    /* Takes memory from the system or the driver. *ptr is aligned to at least 64 bytes. 0,
     * KL_ENOMEM or KL_EDEVICELOST. */
    int (*raw_alloc)(struct kl_memory *m, size_t bytes, void **ptr, struct kl_error **err);
    void (*raw_free)(struct kl_memory *m, void *ptr, size_t bytes);
    /* These copy between the host and this memory, and have finished when they return. NULL for
     * host memory. The earlier uses of the block must be done. */
    int (*read)(struct kl_memory *m, const void *ptr, size_t offset, void *dst, size_t n,
                struct kl_error **err);
    int (*write)(struct kl_memory *m, void *ptr, size_t offset, const void *src, size_t n,
                 struct kl_error **err);
    /* share and unshare: set for a device that shares memory with the host, NULL for others.
     * share: block b, of this memory or of the host's, is about to be read (never written) by the
     * other side. Where that needs no copy, b->shared_by becomes m, and b is found, and its uses
     * are noted, as on the side where it was made. Where a copy is needed, b->shared_by becomes
     * &kl_memory_copied. The first answer holds for the tenancy. share is called at each use, while
     * the caller owns the buffer. unshare: ends the sharing before the block gets its next tenant.
     * It may wait, as read does. */
    int (*share)(struct kl_memory *m, struct kl_block *b, struct kl_error **err);
    void (*unshare)(struct kl_memory *m, struct kl_block *b);
    /* Takes a block whose buffer lost its last owner. The pool (runtime/) or the owner of user
     * memory sets it. */
    void (*give_back)(struct kl_memory *m, struct kl_block *b);
    /* Gives a block for the workspace of a kernel on the timeline t, on which the use is to be
     * noted. t NULL: no stream uses the block, and the kernel has finished with it when it returns.
     * The block goes back through give_back. The pool sets it. 0 or KL_ENOMEM. */
    int (*take)(struct kl_memory *m, size_t bytes, struct kl_timeline *t, struct kl_block **out,
                struct kl_error **err);
    void *pool; /* the pool that manages this memory (runtime/block_pool.c) */
    void *impl; /* the backend's own data */
};

struct kl_use {
    _Atomic(struct kl_timeline *) timeline; /* claimed once per tenancy; NULL: free */
    /* of the last use on that timeline; only the executor of its stream writes it */
    _Atomic(uint64_t) ticket;
};
struct kl_use_more {
    struct kl_use_more *next;
    struct kl_use use;
};
enum { KL_BLOCK_USES = 3 };

struct kl_block {
    struct kl_memory *memory;
    void *ptr;        /* first usable byte (in validation mode after the front guard) */
    size_t bytes;     /* usable bytes */
    size_t raw_bytes; /* what the system gave, guards included; the memory functions count it */
    uint64_t tenant;  /* number of this hand-over; the guards repeat it in validation mode */
    char last_op[32]; /* the kernel last bound to the block; written in validation mode only */
    struct kl_use use[KL_BLOCK_USES];
    _Atomic(struct kl_use_more *) more; /* streams beyond those in `use` */
    struct kl_link link;                /* in the pool; guarded by the pool's lock */
    uint32_t idle_since; /* the commit at which the pool got it; guarded by the pool's lock */
    _Atomic(struct kl_block *) next_mirror; /* in kl_buffer.mirrors */
    /* NULL: share has not been called in this tenancy */
    _Atomic(struct kl_memory *) shared_by;
    /* validation mode: the stream of the new tenant has not written the guards yet */
    bool needs_guard;
    void *raw; /* what raw_alloc gave */
    /* user memory only */
    void (*dtor)(void *);
    void *payload;
};

/* The next functions run for every operand of every kernel. They are inline, and cost a few loads
 * and one store while at most KL_BLOCK_USES streams have used the block. */

/* Notes the use in u, and claims u when it is free. False: u belongs to another stream. An entry
 * belongs to one stream for the whole tenancy. It is not taken over from a stream whose use is
 * done, because the executor of that stream could be noting its next use in it at this moment. */
static inline bool kl_use_note(struct kl_use *u, struct kl_timeline *t, uint64_t ticket) {
    struct kl_timeline *have = atomic_load_explicit(&u->timeline, memory_order_relaxed);
    if (!have && atomic_compare_exchange_strong_explicit(
                     &u->timeline, &have, t, memory_order_relaxed, memory_order_relaxed))
        have = t;
    if (have != t) return false;
    atomic_store_explicit(&u->ticket, ticket, memory_order_relaxed);
    return true;
}
/* Whether the use in u is done, or is on the timeline `same`. */
static inline bool kl_use_over(struct kl_use *u, const struct kl_timeline *same) {
    struct kl_timeline *t = atomic_load_explicit(&u->timeline, memory_order_relaxed);
    return !t || t == same ||
           kl_timeline_done(t) >= atomic_load_explicit(&u->ticket, memory_order_relaxed);
}
int kl_block_note_use_slow(struct kl_block *b, struct kl_timeline *t, uint64_t ticket);
bool kl_block_free_for_more(struct kl_block *b, const struct kl_timeline *same);
void kl_block_forget_uses_more(struct kl_block *b);

/* Notes that the work with `ticket` on t uses b. Only the executor of t calls it, while it owns the
 * buffer. KL_ENOMEM when many streams use the block and the list of them cannot grow; the operation
 * must not run then. */
static inline int kl_block_note_use(struct kl_block *b, struct kl_timeline *t, uint64_t ticket) {
    return kl_use_note(&b->use[0], t, ticket) ? KL_OK : kl_block_note_use_slow(b, t, ticket);
}
/* Whether every use of b is done or is on the timeline `same` (NULL: every use must be done).
 * Nobody may own the buffer any more. */
static inline bool kl_block_free_for(struct kl_block *b, const struct kl_timeline *same) {
    for (int i = 0; i < KL_BLOCK_USES; i++)
        if (!kl_use_over(&b->use[i], same)) return false;
    return !atomic_load_explicit(&b->more, memory_order_relaxed) || kl_block_free_for_more(b, same);
}
/* Begins a new tenancy. t (may be NULL) is the stream that will use the block first; its claim then
 * costs only a store. */
static inline void kl_block_begin(struct kl_block *b, struct kl_timeline *t) {
    atomic_store_explicit(&b->use[0].timeline, t, memory_order_relaxed);
    atomic_store_explicit(&b->use[0].ticket, 0, memory_order_relaxed);
    for (int i = 1; i < KL_BLOCK_USES; i++)
        atomic_store_explicit(&b->use[i].timeline, NULL, memory_order_relaxed);
    if (atomic_load_explicit(&b->more, memory_order_relaxed)) kl_block_forget_uses_more(b);
}
/* Whether the usable bytes of b lie within the memory that the system gave, and the entries of its
 * uses belong to different streams and have no free entry between them. Nobody may own the buffer.
 * For self-checks and their tests. */
bool kl_block_is_valid(struct kl_block *b);
/* Whether a device still uses b. (A CPU task owns its operands until its kernel has returned, so it
 * needs no such test.) */
bool kl_block_in_flight(struct kl_block *b);

extern struct kl_memory kl_memory_copied; /* has no blocks; see kl_memory.share */
void kl_block_unshare_slow(struct kl_block *b);
/* Ends the sharing of b, because another value will be written into it. Every use by the memory
 * that shared b is done, or is a read that precedes the next use on the same stream. */
static inline void kl_block_unshare(struct kl_block *b) {
    if (atomic_load_explicit(&b->shared_by, memory_order_relaxed)) kl_block_unshare_slow(b);
}

struct kl_buffer {
    _Atomic(uint32_t) owners;
    /* the common allocation that this buffer is a part of; NULL: it has its own; fixed */
    struct kl_parts *parts;
    size_t bytes; /* that the array needs */
    /* bound by the producer before it settles the fate; NULL until then, and when bytes is 0 */
    struct kl_block *block;
    /* copies in other memories (on the host, on devices); appended, and freed with the buffer */
    _Atomic(struct kl_block *) mirrors;
};

struct kl_buffer *kl_buffer_new(size_t bytes); /* one owner, no block; NULL when out of memory */
/* An array, its fate and its buffer are made together by every operation, and each has its own
 * count. They share one allocation, which is freed when the last of the three is gone. */
struct kl_parts {
    _Atomic(uint32_t) n;     /* parts that are still in use */
    void *memory;            /* the allocation to free */
    struct kl_fate fate;     /* pending; may be left out of the count and never be used */
    struct kl_buffer buffer; /* one owner, no block */
};
/* Whether only the caller, who holds the array, refers to the fate and the buffer. If so,
 * kl_parts_free frees all three. */
static inline bool kl_parts_sole_owner(struct kl_parts *p) {
    return atomic_load_explicit(&p->fate.refs, memory_order_acquire) == 1 &&
           atomic_load_explicit(&p->buffer.owners, memory_order_acquire) == 1 &&
           atomic_load_explicit(&p->n, memory_order_acquire) == 3;
}
void kl_parts_free(struct kl_parts *p);
void kl_parts_init(struct kl_parts *p, void *memory, uint32_t n_parts, size_t bytes);
struct kl_buffer *kl_buffer_retain(struct kl_buffer *b);
void kl_buffer_release(struct kl_buffer *b);
static inline bool kl_buffer_sole_owner(const struct kl_buffer *b) {
    return atomic_load_explicit(&b->owners, memory_order_acquire) == 1;
}

/* The block of b that m can use: the block of b itself (also when it is shared with m), or its copy
 * in m. NULL when there is none. */
struct kl_block *kl_buffer_block_on(struct kl_buffer *b, const struct kl_memory *m);
/* Appends m to the mirrors. Because it is appended, what kl_buffer_block_on finds for a memory
 * never changes once it has found a block. */
void kl_buffer_add_mirror(struct kl_buffer *b, struct kl_block *m /* taken */);

/* A block over the user's memory. dtor(payload) is called once (dtor may be NULL), when the last
 * owner is gone and no device uses the block. NULL when out of memory; the caller then keeps data
 * and payload. */
struct kl_block *kl_block_new_user(void *data, size_t bytes, void *payload, void (*dtor)(void *));
