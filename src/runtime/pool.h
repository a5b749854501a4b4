/* pool.h - the shared threads that run CPU streams and chunks of large kernels. It knows items and
 * chunks, not streams. The first evaluation starts the threads; they are never joined. Any thread
 * may call. */
#pragma once
#include "base/error.h"
#include "base/list.h"

struct kl_item {
    struct kl_link link;               /* guarded by the pool's lock */
    void (*run)(struct kl_item *self); /* called on a pool thread, with no lock held */
};

/* Starts the threads unless they run already: one for each processor that the caller may use
 * (kl_n_processors). KL_ENOMEM when not even one thread starts. */
int kl_pool_start(struct kl_error **err);
/* Queues an item that is not queued. It cannot fail once the pool has started. */
void kl_pool_push(struct kl_item *item);
/* Calls chunk(arg, i) once for each i in 0 .. n-1, on this and other threads, and returns when all
 * chunks are done. The caller claims chunks itself, and finishes alone if no other thread helps. A
 * chunk must not wait for anything. */
void kl_pool_parallel(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg);
/* The same for work of some ten microseconds in chunks of a few, for which waking a thread does not
 * pay. The caller begins at once; threads that have just finished other work join it, and no thread
 * is woken unless many chunks are left. One such job runs at a time; another one runs as
 * kl_pool_parallel does it. */
void kl_pool_parallel_short(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg);
int kl_pool_n_threads(void);

/* Around fork: all locks of the pool are taken before it. The child has no threads and starts them
 * on use. */
void kl_pool_fork_prepare(void);
void kl_pool_fork_parent(void);
void kl_pool_fork_child(void);
