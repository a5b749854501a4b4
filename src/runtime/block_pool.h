/* block_pool.h - memory for tensors: blocks sorted by size class, kept for reuse, counted in bytes.
 *
 * A free block is given to an operation of stream S when each of its uses is done or is on S. It
 * goes back to the system only when every use is done. This is checked at every hand-over, in every
 * build. Any thread may call. */
#pragma once
#include "base/value/buffer.h"

/* Creates a pool for m. Called once for each memory; m is immortal. */
int kl_pool_attach(struct kl_memory *m, struct kl_error **err);

/* A block of at least `bytes` (> 0) for an operation on the timeline t (NULL: for use at once,
 * outside any stream). When the system has no memory left, the cached blocks are given back and the
 * allocation is tried once more; then KL_ENOMEM. */
int kl_block_alloc(struct kl_memory *m, size_t bytes, struct kl_timeline *t, struct kl_block **out,
                   struct kl_error **err);

/* The figures of the API, over all memories, in bytes as taken from the system or the driver. */
size_t kl_memory_active(void); /* in blocks that buffers own */
size_t kl_memory_cached(void); /* in free blocks kept for reuse */
size_t kl_memory_peak(void);   /* highest active since the start or the last reset */
void kl_memory_reset_peak(void);
/* The limit of active and cached memory together. It is soft: above it, cached blocks go back, then
 * callers are slowed down. */
size_t kl_memory_limit(void);
size_t kl_memory_set_limit(size_t bytes); /* returns the previous limit */
/* Gives cached blocks back, as far as their uses are done, until what is held and `more` bytes are
 * within the limit. The caller holds no lock. */
void kl_memory_within_limit(size_t more);
/* Called once for each commit, by a caller that holds no lock: blocks age by it, and from time to
 * time those that no request needed for long go back to the system. */
void kl_memory_tick(void);
size_t kl_memory_cache_limit_set(size_t bytes); /* returns the previous limit */
/* Stores the limit and returns the previous one. It has no effect: no memory is wired on these
 * systems. */
size_t kl_memory_set_wired_limit(size_t bytes);
void kl_memory_clear_cache(void);

void kl_pools_fork_prepare(void);
void kl_pools_fork_parent(void);
void kl_pools_fork_child(void);

#ifdef KL_TEST_HOOKS
/* Switches the check at hand-over off, so that a test can show that validation finds the error. */
void kl_test_skip_handover_check(bool skip);
/* The total number of bytes that raw_alloc may take for each memory; (size_t)-1: no bound. */
void kl_test_memory_budget(size_t bytes);
#endif
