/* thread.h - mutexes that know their holder in debug builds, conditions, and thread numbers. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct kl_mutex {
    pthread_mutex_t m;
#ifdef KL_DEBUG
    _Atomic(uint64_t) holder; /* a mark of the thread that holds it; 0: free */
#endif
};
/* Critical sections here are short. A thread that finds a mutex locked therefore spins a little
 * before it sleeps, where the C library supports that. */
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
/* The same until `until_ns` on the clock of kl_clock_ns, for a condition of kl_cond_init_clock. 0,
 * or ETIMEDOUT. */
int kl_cond_wait_until(pthread_cond_t *c, struct kl_mutex *mu, int64_t until_ns);
/* Whether this thread holds mu. Known in debug builds only; always true in others. For
 * assertions. */
bool kl_mutex_held(struct kl_mutex *mu);

/* The number of the calling thread: unique in the process, never reused. 0 when there is no memory
 * to remember it. */
uint64_t kl_thread_id(void);
/* Whether the thread of that number has not exited yet; false for 0. It takes a leaf lock and
 * searches a list, so it is for rare paths. */
bool kl_thread_alive(uint64_t id);
struct kl_mutex *kl_threads_mutex(void); /* the leaf lock of the list of threads, for fork */
/* Has fn(arg) called when the calling thread exits, before its number is given up. 0 or
 * KL_ENOMEM. */
int kl_thread_at_exit(void (*fn)(void *), void *arg);

/* The number of processors on which the calling thread, and the threads that it starts, may run. At
 * least 1. It may be less than the machine has (taskset, a container, a job's share). */
int kl_n_processors(void);

/* Starts a detached thread with all signals blocked. 0, or KL_ENOMEM. */
int kl_thread_start(void (*fn)(void *), void *arg, const char *name);
#ifdef KL_TEST_HOOKS
/* Waits until every thread that was started has freed the arguments of its start. */
void kl_threads_until_begun(void);
#endif

/* One thread sleeps, another wakes it. The struct is on the sleeper's stack. */
struct kl_parker {
    pthread_mutex_t m;
    pthread_cond_t c;
    bool set;
};
void kl_parker_init(struct kl_parker *p);
void kl_parker_deinit(struct kl_parker *p);
void kl_parker_set(struct kl_parker *p);
void kl_parker_wait(struct kl_parker *p); /* sleeps until kl_parker_set was called */
/* The same for at most ms milliseconds. Returns whether kl_parker_set was called. */
bool kl_parker_wait_ms(struct kl_parker *p, int ms);

/* For loops that wait for another thread without sleeping. */
static inline void kl_pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#ifdef KL_DEBUG
void kl_assert_failed(const char *what, const char *file, int line) __attribute__((noreturn));
#define kl_assert(x) ((x) ? (void)0 : kl_assert_failed(#x, __FILE__, __LINE__))
#else
#define kl_assert(x) ((void)0)
#endif
/* For checks that walk whole structures. Active in builds with KEEL_SELF_CHECKS, that is, in debug
 * and sanitizer builds. */
#ifdef KL_SELF_CHECKS
#define kl_assert_slow(x) kl_assert(x)
#else
#define kl_assert_slow(x) ((void)0)
#endif
