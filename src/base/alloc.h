/* alloc.h - the library's own heap memory: everything small that is not tensor data.
 * Test builds (KL_TEST_HOOKS) can make the n-th allocation of the process fail; see kl_test_*.
 * Any thread may call. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *kl_malloc(size_t bytes);           /* NULL when there is none; kl_malloc(0) is not NULL */
void *kl_calloc(size_t n, size_t bytes); /* zeroed; NULL also when n * bytes overflows */
void *kl_realloc(void *p, size_t bytes); /* p stays valid on failure */
char *kl_strdup(const char *s);
void kl_free(void *p);

/* Called by every place that takes memory from the system by another way (mmap, threads, devices):
 * true when this attempt must fail. Always false without KL_TEST_HOOKS. */
bool kl_alloc_should_fail(void);

#ifdef KL_TEST_HOOKS
/* The n-th attempt from now (0: the next) on any thread fails; -1: none. */
void kl_test_fail_alloc_at(int64_t n);
/* Each attempt fails with probability 1 in `one_in`, from a seeded generator; 0: none. */
void kl_test_fail_alloc_random(uint64_t seed, uint32_t one_in);
int64_t kl_test_n_alloc_attempts(void); /* since the last kl_test_fail_alloc_at */
int64_t kl_test_n_live(void);           /* kl_malloc blocks not yet freed, whole process */
bool kl_test_alloc_failed(void);        /* whether the armed failure has fired */
#endif
