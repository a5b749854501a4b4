/* buffer.h - what arrays and views own (buffer), and the memory itself (block).
 *
 * A buffer is made with its array, before there is memory; the executor binds a block to it. It
 * counts owners: arrays, among them the views. A block records, per stream, the ticket of its last
 * use. When the buffer loses its last owner the block goes back to its memory, which may hand it at
 * once to a later operation of the same stream, and to anybody else only when all uses are done. */
#pragma once
#include <stddef.h>

#include "base/error.h"
#include "base/timeline.h"

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
    int (*read)(struct kl_memory *m, const void *ptr, size_t offset, void *dst, size_t n, struct kl_error **err);
    int (*write)(struct kl_memory *m, void *ptr, size_t offset, const void *src, size_t n, struct kl_error **err);
    /* Takes a block whose buffer lost its last owner. Set by the pool (runtime/), or by the owner of user memory. */
    void (*give_back)(struct kl_memory *m, struct kl_block *b);
    void *pool; /* the pool that manages it (runtime/block_pool.c) */
    void *impl; /* the backend's */
};

struct kl_use {
    _Atomic(struct kl_timeline *) timeline; /* claimed once per tenancy; NULL: free */
    _Atomic(uint64_t) ticket;               /* last use there; only that stream's executor writes it */
};
struct kl_use_more {
    struct kl_use_more *next;
    struct kl_use use;
};
enum { KL_BLOCK_USES = 3 };

struct kl_block {
    struct kl_memory *memory;
    void *ptr;           /* first usable byte (in validation mode behind the front guard) */
    size_t bytes;        /* usable bytes */
    size_t raw_bytes;    /* what the system gave, guards included; what the memory functions count */
    uint64_t tenant;     /* number of this hand-over; the guard bytes spell it in validation mode */
    char last_op[32];    /* the kernel last bound to it; written in validation mode only */
    struct kl_use use[KL_BLOCK_USES];
    _Atomic(struct kl_use_more *) more; /* streams beyond the inline ones */
    struct kl_link link;                /* in the pool; guarded by the pool */
    _Atomic(struct kl_block *) next_mirror; /* in a buffer's mirrors */
    bool needs_guard;                   /* validation: the stream of the new tenant has not written the guards yet */
    void *raw;                          /* what raw_alloc gave */
    /* user memory only */
    void (*dtor)(void *);
    void *payload;
};

/* Notes that `ticket` of t uses b. Only t's executor calls it, and while it owns the buffer. KL_ENOMEM when the
 * block is used by many streams and the list cannot grow: then the operation must not run. */
int kl_block_note_use(struct kl_block *b, struct kl_timeline *t, uint64_t ticket);
/* Whether every use is done, or lies on `same` (NULL: no exception). Nobody may own the buffer any more. */
bool kl_block_free_for(struct kl_block *b, const struct kl_timeline *same);
void kl_block_forget_uses(struct kl_block *b); /* a new tenancy begins */

struct kl_buffer {
    _Atomic(uint32_t) owners;
    size_t bytes;                         /* wanted */
    struct kl_block *block;               /* bound by the producer before the fate; NULL until then, and when bytes is 0 */
    _Atomic(struct kl_block *) mirrors;   /* copies in other memories: a host shadow, device copies; added at the end, freed with the buffer */
};

struct kl_buffer *kl_buffer_new(size_t bytes); /* one owner, no block; NULL when out of memory */
struct kl_buffer *kl_buffer_retain(struct kl_buffer *b);
void kl_buffer_release(struct kl_buffer *b);
static inline bool kl_buffer_sole_owner(const struct kl_buffer *b) {
    return atomic_load_explicit(&b->owners, memory_order_acquire) == 1;
}

/* The block of b as m sees it: its own, or its copy there; NULL when there is none. */
struct kl_block *kl_buffer_block_on(struct kl_buffer *b, const struct kl_memory *m);
/* Behind the others, so that what kl_buffer_block_on finds for a memory never changes once there is one. */
void kl_buffer_add_mirror(struct kl_buffer *b, struct kl_block *m /* taken */);

/* A block over memory of the user: dtor(payload) is called once (dtor may be NULL), when the last owner is gone and
 * no device uses it. NULL when out of memory; then nothing was taken. */
struct kl_block *kl_block_new_user(void *data, size_t bytes, void *payload, void (*dtor)(void *));
