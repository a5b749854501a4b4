/* clock.h - time that never goes back, and conditions that wait on it. */
#pragma once
#include <pthread.h>
#include <stdint.h>

int64_t kl_clock_ns(void);
/* The same in milliseconds, a few of them coarse, and cheap enough to be read after each task. */
int64_t kl_clock_coarse_ms(void);

/* A condition for kl_cond_until. It is destroyed by pthread_cond_destroy. */
void kl_cond_init_clock(pthread_cond_t *c);
/* As pthread_cond_timedwait, until `until_ns` on the clock of kl_clock_ns. 0 or ETIMEDOUT. */
int kl_cond_until(pthread_cond_t *c, pthread_mutex_t *m, int64_t until_ns);
