/* thread.h - mutexes that know their holder in debug builds, conditions, and who a thread is. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/list.h"

struct kl_mutex {
    pthread_mutex_t m;
#ifdef KL_DEBUG
    _Atomic(uint64_t) holder; /* kl_thread_self()->id, 0: free */
#endif
};
/* Critical sections here are short, so a thread that finds one taken spins a little before it sleeps, where the C library can. */
#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
#define KL_PTHREAD_MUTEX_INIT PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
#else
#define KL_PTHREAD_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
#endif
#ifdef KL_DEBUG
#define KL_MUTEX_INIT \
    { KL_PTHREAD_MUTEX_INIT, 0 }
#else
#define KL_MUTEX_INIT \
    { KL_PTHREAD_MUTEX_INIT }
#endif

void kl_mutex_init(struct kl_mutex *mu);
void kl_mutex_deinit(struct kl_mutex *mu);
void kl_mutex_lock(struct kl_mutex *mu);
void kl_mutex_unlock(struct kl_mutex *mu);
void kl_cond_wait(pthread_cond_t *c, struct kl_mutex *mu); /* as pthread_cond_wait, mu held */
void kl_cond_timedwait(pthread_cond_t *c, struct kl_mutex *mu, const struct timespec *until);
bool kl_mutex_held(
    struct kl_mutex *mu); /* by this thread; debug builds only, else true. For assertions. */

/* The number of the calling thread: unique in the process, never reused. 0 when it cannot be remembered (no memory). */
uint64_t kl_thread_id(void);
/* Whether the thread of that number has not exited yet; false for 0. Takes a leaf lock: for rare paths. */
bool kl_thread_alive(uint64_t id);
struct kl_mutex *kl_threads_mutex(void); /* that lock, for fork */
/* `fn(arg)` when the calling thread exits, before its kl_thread ends; -1 when it cannot be arranged. */
int kl_thread_at_exit(void (*fn)(void *), void *arg);

/* The processors that the calling thread, and whoever it starts, may run on, which may be fewer than the machine has (taskset, a container's or a job's share); at least 1. */
int kl_n_processors(void);

/* Starts a detached thread with all signals blocked. 0, or KL_ENOMEM. */
int kl_thread_start(void (*fn)(void *), void *arg, const char *name);
#ifdef KL_TEST_HOOKS
/* Until no thread is on its way any more: each has freed what told it where to begin. */
void kl_threads_until_begun(void);
#endif

/* One thread sleeps, another wakes it. On the sleeper's stack. */
struct kl_parker {
    pthread_mutex_t m;
    pthread_cond_t c;
    bool set;
};
void kl_parker_init(struct kl_parker *p);
void kl_parker_deinit(struct kl_parker *p);
void kl_parker_set(struct kl_parker *p);
void kl_parker_wait(struct kl_parker *p); /* until set */

#ifdef KL_DEBUG
void kl_assert_failed(const char *what, const char *file, int line) __attribute__((noreturn));
#define kl_assert(x) ((x) ? (void)0 : kl_assert_failed(#x, __FILE__, __LINE__))
#else
#define kl_assert(x) ((void)0)
#endif
/* Walks whole structures: in builds with KEEL_SELF_CHECKS, which are the debug and sanitizer ones. */
#ifdef KL_SELF_CHECKS
#define kl_assert_slow(x) kl_assert(x)
#else
#define kl_assert_slow(x) ((void)0)
#endif
