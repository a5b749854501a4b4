/* block_pool.h - memory for tensors: blocks by size class, kept for reuse, counted to the byte.
 *
 * A free block is handed to an operation of stream S when each of its uses is done or lies on S; it goes back to the
 * system only when every use is done. That comparison is made at every hand-over, in every build. Any thread may call. */
#pragma once
#include "base/buffer.h"

/* Puts a pool in front of m. Once per memory; m is immortal. */
int kl_pool_attach(struct kl_memory *m, struct kl_error **err);

/* A block of at least `bytes` (> 0) for an operation of t (NULL: for use at once, outside any stream). When
 * the system has no more: cached blocks are given back, once more tried, then KL_ENOMEM. *handed_over (may be NULL) tells validation what it got. */
int kl_block_alloc(struct kl_memory *m, size_t bytes, struct kl_timeline *t, struct kl_block **out,
                   struct kl_error **err);

/* The figures of the API, over all memories, in bytes as taken from the system or driver. */
size_t kl_memory_active(void); /* in blocks that buffers own */
size_t kl_memory_cached(void); /* in blocks kept for reuse */
size_t kl_memory_peak(void);   /* highest active since the start or the last reset */
void kl_memory_reset_peak(void);
size_t kl_memory_limit(void);                   /* soft: callers are slowed down above it */
size_t kl_memory_set_limit(size_t bytes);       /* returns the previous one */
size_t kl_memory_cache_limit_set(size_t bytes); /* returns the previous one */
size_t
kl_memory_set_wired_limit(size_t bytes); /* kept and returned; nothing is wired on these systems */
void kl_memory_clear_cache(void);

void kl_pools_fork_prepare(void);
void kl_pools_fork_parent(void);
void kl_pools_fork_child(void);

#ifdef KL_TEST_HOOKS
/* Switches the comparison at hand-over off, to show that validation finds what it prevents. */
void kl_test_skip_handover_check(bool skip);
/* What raw_alloc may take in all per memory; (size_t)-1: no bound. */
void kl_test_memory_budget(size_t bytes);
#endif
