/* clock_linux.c - see clock.h. A condition keeps the number of its clock. */
#include "base/platform/clock.h"

#include <time.h>

static const int64_t second = 1000000000;

int64_t kl_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * second + t.tv_nsec;
}

int64_t kl_clock_coarse_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

void kl_cond_init_clock(pthread_cond_t *c) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

int kl_cond_until(pthread_cond_t *c, pthread_mutex_t *m, int64_t until_ns) {
    const struct timespec until = {.tv_sec = until_ns / second, .tv_nsec = until_ns % second};
    return pthread_cond_timedwait(c, m, &until);
}
