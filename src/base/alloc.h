/* alloc.h - the library's own heap memory, for everything small that is not tensor data.
 * Test builds (KL_TEST_HOOKS) can make the n-th allocation of the process fail (kl_test_*).
 * Any thread may call these functions. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *kl_malloc(size_t bytes);           /* NULL when out of memory; kl_malloc(0) is not NULL */
void *kl_calloc(size_t n, size_t bytes); /* zeroed; NULL also when n * bytes overflows */
void *kl_realloc(void *p, size_t bytes); /* p stays valid on failure */
char *kl_strdup(const char *s);
void kl_free(void *p);
/* Gives pages of the heap that hold nothing back to the system, where the C library keeps them for
 * ever otherwise (glibc keeps all but those at the end of the heap). Takes milliseconds. */
void kl_heap_trim(void);

/* Whether this attempt to take memory must fail. Every place that takes memory or another resource
 * from the system without kl_malloc (mmap, threads, devices) asks it first. Always false without
 * KL_TEST_HOOKS. */
bool kl_alloc_should_fail(void);

#ifdef KL_TEST_HOOKS
/* Makes the n-th attempt from now (0: the next), on any thread, fail. -1: no attempt fails. */
void kl_test_fail_alloc_at(int64_t n);
/* Makes each attempt fail with probability 1 / one_in, by a seeded generator. 0: none fails. */
void kl_test_fail_alloc_random(uint64_t seed, uint32_t one_in);
int64_t kl_test_n_alloc_attempts(void); /* since the last kl_test_fail_alloc_at */
int64_t kl_test_n_live(void);           /* kl_malloc blocks not yet freed, whole process */
/* The most bytes that kl_malloc blocks had at one time since the reset, beyond those that they had
 * then. 0 where the C library does not tell the size of a block. */
int64_t kl_test_peak_bytes(void);
void kl_test_peak_reset(void);
bool kl_test_alloc_failed(void); /* whether the armed failure has fired */
#endif
