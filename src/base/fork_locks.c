/* fork_locks.c - see fork_locks.h. */
#include "base/fork_locks.h"

enum { MAX = 96 };
static struct kl_mutex *_Atomic locks[MAX];
static _Atomic(int) n_locks;

void kl_fork_lock_add(struct kl_mutex *mu) {
    int i = atomic_fetch_add(&n_locks, 1);
    kl_assert(i < MAX);
    if (i < MAX) atomic_store(&locks[i], mu);
}

void kl_fork_locks(bool lock) {
    if (lock) kl_mutex_lock(kl_threads_mutex());
    for (int i = 0; i < MAX; i++) {
        struct kl_mutex *mu = atomic_load(&locks[lock ? i : MAX - 1 - i]);
        if (!mu) continue;
        if (lock)
            kl_mutex_lock(mu);
        else
            kl_mutex_unlock(mu);
    }
    if (!lock) kl_mutex_unlock(kl_threads_mutex());
}
