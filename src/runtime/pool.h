/* pool.h - the shared threads that run CPU streams and chunks of large kernels.
 * Knows items and chunks, not streams. Started by the first evaluation; never joined. Any thread may call. */
#pragma once
#include "base/error.h"
#include "base/list.h"

struct kl_item {
    struct kl_link link;               /* guarded by the pool's lock */
    void (*run)(struct kl_item *self); /* on a pool thread, no lock held */
};

/* Starts the threads unless they run; one per processor that the caller may run on (kl_n_processors). KL_ENOMEM when not even one starts. */
int kl_pool_start(struct kl_error **err);
/* Queues an item that is not queued. Never fails once the pool has started. */
void kl_pool_push(struct kl_item *item);
/* chunk(arg, 0 .. n-1), each once, on this and other threads; returns when all are done. The caller claims
 * chunks itself and finishes alone if nobody helps; a chunk must not wait for anything. */
void kl_pool_parallel(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg);
int kl_pool_n_threads(void);

/* Around fork: all locks of the pool; then the child has no threads and starts them on use. */
void kl_pool_fork_prepare(void);
void kl_pool_fork_parent(void);
void kl_pool_fork_child(void);
