/* clock_macos.c - see clock.h. A condition knows the time of day alone, which can be set back; but
 * it can wait for a time that is given as a difference. */
#include "base/platform/clock.h"

#include <errno.h>
#include <time.h>

static const int64_t second = 1000000000;

int64_t kl_clock_ns(void) {
    return (int64_t)clock_gettime_nsec_np(CLOCK_MONOTONIC_RAW);
}

int64_t kl_clock_coarse_ms(void) {
    return (int64_t)(clock_gettime_nsec_np(CLOCK_MONOTONIC_RAW_APPROX) / 1000000);
}

void kl_cond_init_clock(pthread_cond_t *c) {
    pthread_cond_init(c, NULL);
}

int kl_cond_until(pthread_cond_t *c, pthread_mutex_t *m, int64_t until_ns) {
    const int64_t left = until_ns - kl_clock_ns();
    if (left <= 0) return ETIMEDOUT;
    const struct timespec wait = {.tv_sec = left / second, .tv_nsec = left % second};
    return pthread_cond_timedwait_relative_np(c, m, &wait);
}
