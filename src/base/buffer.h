/* buffer.h - what arrays and views own (buffer), and the memory itself (block).
 *
 * A buffer is made with its array, before there is memory; the executor binds a block to it. It
 * counts owners: arrays, among them the views. A block records, per stream, the ticket of its last
 * use. When the buffer loses its last owner the block goes back to its memory, which may hand it at
 * once to a later operation of the same stream, and to anybody else only when all uses are done.
 *
 * Where host and device share memory a block may serve both at its one address: then it is looked up, and its uses are noted, as on the side where
 * it was made, and there is no copy. */
#pragma once
#include <stddef.h>

#include "base/fate.h"

struct kl_block;
struct kl_buffer;

/* A kind of memory: the CPU's, a device's, the user's. Backends own theirs; all are immortal. */
struct kl_memory {
    const char *name;
    bool is_host; /* block->ptr may be dereferenced by the CPU */
    /* Raw memory from the system or driver; ptr is aligned to 64 bytes at least. 0, KL_ENOMEM, KL_EDEVICELOST. */
    int (*raw_alloc)(struct kl_memory *m, size_t bytes, void **ptr, struct kl_error **err);
    void (*raw_free)(struct kl_memory *m, void *ptr, size_t bytes);
    /* Copies between host and this memory, finished on return; NULL for host memory. The block's
     * earlier uses must be done. */
    int (*read)(struct kl_memory *m, const void *ptr, size_t offset, void *dst, size_t n,
                struct kl_error **err);
    int (*write)(struct kl_memory *m, void *ptr, size_t offset, const void *src, size_t n,
                 struct kl_error **err);
    /* Of a device that shares memory with the host; NULL for others. share: b, of this memory or of the host's, is about to be used on the other side (read there, never
     * written). Where that needs no copy b->shared_by becomes m; where it does, kl_memory_copied. The first answer holds for the tenancy. Asked
     * at each use, the caller owns the buffer. unshare: takes it back, before the next tenant; may block as read does. */
    int (*share)(struct kl_memory *m, struct kl_block *b, struct kl_error **err);
    void (*unshare)(struct kl_memory *m, struct kl_block *b);
    /* Takes a block whose buffer lost its last owner. Set by the pool (runtime/), or by the owner of user memory. */
    void (*give_back)(struct kl_memory *m, struct kl_block *b);
    /* A block that no stream uses, for scratch memory of a kernel that is done with it when it returns; given back as above. Set by the pool. 0, KL_ENOMEM. */
    int (*take)(struct kl_memory *m, size_t bytes, struct kl_block **out, struct kl_error **err);
    void *pool; /* the pool that manages it (runtime/block_pool.c) */
    void *impl; /* the backend's */
};

struct kl_use {
    _Atomic(struct kl_timeline *) timeline; /* claimed once per tenancy; NULL: free */
    _Atomic(uint64_t) ticket; /* last use there; only that stream's executor writes it */
};
struct kl_use_more {
    struct kl_use_more *next;
    struct kl_use use;
};
enum { KL_BLOCK_USES = 3 };

struct kl_block {
    struct kl_memory *memory;
    void *ptr;        /* first usable byte (in validation mode behind the front guard) */
    size_t bytes;     /* usable bytes */
    size_t raw_bytes; /* what the system gave, guards included; what the memory functions count */
    uint64_t tenant;  /* number of this hand-over; the guard bytes spell it in validation mode */
    char last_op[32]; /* the kernel last bound to it; written in validation mode only */
    struct kl_use use[KL_BLOCK_USES];
    _Atomic(struct kl_use_more *) more;     /* streams beyond the inline ones */
    struct kl_link link;                    /* in the pool; guarded by the pool */
    _Atomic(struct kl_block *) next_mirror; /* in a buffer's mirrors */
    _Atomic(struct kl_memory *) shared_by;  /* NULL: nobody has asked in this tenancy */
    bool needs_guard; /* validation: the stream of the new tenant has not written the guards yet */
    void *raw;        /* what raw_alloc gave */
    /* user memory only */
    void (*dtor)(void *);
    void *payload;
};

/* The three below are made for every operand of every kernel: inline, a few loads and one store while a block has been used by at most
 * KL_BLOCK_USES streams. */

/* Notes the use in u, claiming it when it is free: an entry belongs to one stream for the whole tenancy. It is never taken over from a stream
 * whose use is done, because that stream's executor could be noting its next use in it at this moment. */
static inline bool kl_use_note(struct kl_use *u, struct kl_timeline *t, uint64_t ticket) {
    struct kl_timeline *have = atomic_load_explicit(&u->timeline, memory_order_relaxed);
    if (!have && atomic_compare_exchange_strong_explicit(
                     &u->timeline, &have, t, memory_order_relaxed, memory_order_relaxed))
        have = t;
    if (have != t) return false;
    atomic_store_explicit(&u->ticket, ticket, memory_order_relaxed);
    return true;
}
static inline bool kl_use_over(struct kl_use *u, const struct kl_timeline *same) {
    struct kl_timeline *t = atomic_load_explicit(&u->timeline, memory_order_relaxed);
    return !t || t == same ||
           kl_timeline_done(t) >= atomic_load_explicit(&u->ticket, memory_order_relaxed);
}
int kl_block_note_use_slow(struct kl_block *b, struct kl_timeline *t, uint64_t ticket);
bool kl_block_free_for_more(struct kl_block *b, const struct kl_timeline *same);
void kl_block_forget_uses_more(struct kl_block *b);

/* Notes that `ticket` of t uses b. Only t's executor calls it, and while it owns the buffer. KL_ENOMEM when the
 * block is used by many streams and the list cannot grow: then the operation must not run. */
static inline int kl_block_note_use(struct kl_block *b, struct kl_timeline *t, uint64_t ticket) {
    return kl_use_note(&b->use[0], t, ticket) ? KL_OK : kl_block_note_use_slow(b, t, ticket);
}
/* Whether every use is done, or lies on `same` (NULL: no exception). Nobody may own the buffer any more. */
static inline bool kl_block_free_for(struct kl_block *b, const struct kl_timeline *same) {
    for (int i = 0; i < KL_BLOCK_USES; i++)
        if (!kl_use_over(&b->use[i], same)) return false;
    return !atomic_load_explicit(&b->more, memory_order_relaxed) || kl_block_free_for_more(b, same);
}
/* A new tenancy begins; t (may be NULL) is the stream that will use the block first, so that its claim costs a store. */
static inline void kl_block_begin(struct kl_block *b, struct kl_timeline *t) {
    atomic_store_explicit(&b->use[0].timeline, t, memory_order_relaxed);
    atomic_store_explicit(&b->use[0].ticket, 0, memory_order_relaxed);
    for (int i = 1; i < KL_BLOCK_USES; i++)
        atomic_store_explicit(&b->use[i].timeline, NULL, memory_order_relaxed);
    if (atomic_load_explicit(&b->more, memory_order_relaxed)) kl_block_forget_uses_more(b);
}
/* Whether the usable bytes of b lie in what the system gave and its uses are each of another stream,
 * without a gap between them. Nobody may own the buffer. For self-checks and their tests. */
bool kl_block_is_valid(struct kl_block *b);
/* Whether a device has not done with b. A task of the CPU, on the other hand, owns its operands until its kernel has returned. */
bool kl_block_in_flight(struct kl_block *b);

extern struct kl_memory kl_memory_copied; /* of no block: see share */
void kl_block_unshare_slow(struct kl_block *b);
/* Another value will stand in b. Every use by those who shared it is done, or is a read ahead of the next on the same stream. */
static inline void kl_block_unshare(struct kl_block *b) {
    if (atomic_load_explicit(&b->shared_by, memory_order_relaxed)) kl_block_unshare_slow(b);
}

struct kl_buffer {
    _Atomic(uint32_t) owners;
    struct kl_parts *parts; /* the allocation it is a part of, or NULL: its own; fixed */
    size_t bytes;           /* wanted */
    struct kl_block
        *block; /* bound by the producer before the fate; NULL until then, and when bytes is 0 */
    _Atomic(struct kl_block *)
        mirrors; /* copies in other memories: a host shadow, device copies; added at the end, freed with the buffer */
};

struct kl_buffer *kl_buffer_new(size_t bytes); /* one owner, no block; NULL when out of memory */
/* An array, its fate and its buffer are made together, by every operation, and live by counts of their own: they share one
 * allocation, which goes when the last part is gone. */
struct kl_parts {
    _Atomic(uint32_t) n;
    void *memory;            /* what to free */
    struct kl_fate fate;     /* pending; may be left out of the count and never be used */
    struct kl_buffer buffer; /* one owner, no block */
};
/* Whether nobody but the caller, who holds the array, refers to fate or buffer; then kl_parts_free does it all. */
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

/* The block of b as m sees it: its own, also when it is shared with m, or its copy there; NULL when there is none. */
struct kl_block *kl_buffer_block_on(struct kl_buffer *b, const struct kl_memory *m);
/* Behind the others, so that what kl_buffer_block_on finds for a memory never changes once there is one. */
void kl_buffer_add_mirror(struct kl_buffer *b, struct kl_block *m /* taken */);

/* A block over memory of the user: dtor(payload) is called once (dtor may be NULL), when the last owner is gone and
 * no device uses it. NULL when out of memory; then nothing was taken. */
struct kl_block *kl_block_new_user(void *data, size_t bytes, void *payload, void (*dtor)(void *));
