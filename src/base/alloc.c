/* alloc.c - malloc, with failures that tests can cause. */
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#include "base/platform/memory.h"
#include "base/spare.h"

#ifdef KL_TEST_HOOKS
#include <stdatomic.h>

static _Atomic(int64_t) countdown = -1; /* -1: disarmed; 0: the next attempt fails */
static _Atomic(int64_t) attempts;
static _Atomic(int64_t) live;
static _Atomic(int) fired;
static _Atomic(uint32_t) random_one_in;
static _Atomic(uint64_t) random_state;

void kl_test_fail_alloc_at(int64_t n) {
    atomic_store(&attempts, 0);
    atomic_store(&fired, 0);
    atomic_store(&countdown, n);
}

void kl_test_fail_alloc_random(uint64_t seed, uint32_t one_in) {
    atomic_store(&random_state, seed);
    atomic_store(&random_one_in, one_in);
}

int64_t kl_test_n_alloc_attempts(void) {
    return atomic_load(&attempts);
}

int64_t kl_test_n_live(void) {
    return atomic_load(&live);
}

bool kl_test_alloc_failed(void) {
    return atomic_load(&fired);
}

/* A separate function, so that a breakpoint here stops at the failing allocation. */
static bool fail_now(void) {
    atomic_store(&fired, 1);
    return true;
}

bool kl_alloc_should_fail(void) {
    atomic_fetch_add(&attempts, 1);
    int64_t left = atomic_load(&countdown);
    while (left >= 0) {
        if (atomic_compare_exchange_weak(&countdown, &left, left - 1)) {
            if (left == 0) return fail_now();
            break;
        }
    }
    uint32_t one_in = atomic_load(&random_one_in);
    if (one_in) {
        /* splitmix64 over an atomic counter: it is cheap, and every thread may call it. */
        uint64_t z = atomic_fetch_add(&random_state, 0x9E3779B97F4A7C15u) + 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        if ((z ^ (z >> 31)) % one_in == 0) return fail_now();
    }
    return false;
}

static _Atomic(int64_t) held, peak, held_at_reset;

int64_t kl_test_peak_bytes(void) {
    return atomic_load(&peak) - atomic_load(&held_at_reset);
}

void kl_test_peak_reset(void) {
    atomic_store(&held_at_reset, atomic_load(&held));
    atomic_store(&peak, atomic_load(&held));
}

static int64_t bytes_of(void *p) {
    return (int64_t)kl_heap_block_bytes(p);
}

static void hold(int64_t bytes) {
    int64_t now = atomic_fetch_add(&held, bytes) + bytes, most = atomic_load(&peak);
    while (now > most && !atomic_compare_exchange_weak(&peak, &most, now)) {
    }
}

static void *counted(void *p) {
    if (p) atomic_fetch_add(&live, 1);
    hold(bytes_of(p));
    return p;
}
static void uncounted(void *p) {
    if (p) atomic_fetch_sub(&live, 1);
    atomic_fetch_sub(&held, bytes_of(p));
}
/* The old block and the new one are there at the same time, while one is copied to the other. */
static void recounted(int64_t before, void *q) {
    hold(bytes_of(q));
    atomic_fetch_sub(&held, before);
}
#else
bool kl_alloc_should_fail(void) {
    return false;
}
static inline void *counted(void *p) {
    return p;
}
static inline void uncounted(void *p) {
    (void)p;
}
#endif

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

/* Sanitizers see the use of a block that is freed, and not of one that is kept. */
#ifdef SANITIZED
static void *block_new(size_t bytes) {
    return malloc(bytes ? bytes : 1);
}
static void *block_new_clear(size_t n, size_t bytes) {
    return calloc(n ? n : 1, bytes ? bytes : 1);
}
static void block_free(void *p) {
    free(p);
}
#else
static void *block_new(size_t bytes) {
    void *p = kl_spare_take(bytes);
    return p ? p : malloc(kl_spare_room(bytes));
}
static void *block_new_clear(size_t n, size_t bytes) {
    size_t all;
    if (__builtin_mul_overflow(n, bytes, &all)) return NULL;
    void *p = kl_spare_take(all);
    return p ? memset(p, 0, all) : calloc(1, kl_spare_room(all));
}
static void block_free(void *p) {
    if (p && !kl_spare_give(p)) free(p);
}
#endif

void *kl_malloc(size_t bytes) {
#ifdef KL_TEST_HOOKS
    if (kl_alloc_should_fail()) return NULL;
#endif
    return counted(block_new(bytes));
}

void *kl_calloc(size_t n, size_t bytes) {
#ifdef KL_TEST_HOOKS
    if (kl_alloc_should_fail()) return NULL;
#endif
    return counted(block_new_clear(n, bytes));
}

void *kl_realloc(void *p, size_t bytes) {
#ifdef KL_TEST_HOOKS
    if (kl_alloc_should_fail()) return NULL;
    if (!p) return counted(malloc(bytes ? bytes : 1));
    const int64_t before = bytes_of(p);
    void *moved = realloc(p, bytes ? bytes : 1);
    if (moved) recounted(before, moved);
    return moved;
#else
    return realloc(p, bytes ? bytes : 1);
#endif
}

char *kl_strdup(const char *s) {
    size_t n = strlen(s) + 1;
    char *copy = kl_malloc(n);
    if (copy) memcpy(copy, s, n);
    return copy;
}

void kl_free(void *p) {
    uncounted(p);
    block_free(p);
}

void kl_heap_trim(void) {
    kl_spare_drop();
    kl_heap_give_back();
}
