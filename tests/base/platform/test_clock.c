/* test_clock.c - the clock does not go back, and conditions wait on it. */
#include "support.h"

#include <errno.h>

#include "base/platform/clock.h"

static const int64_t ms = 1000000;

static void never_back(void **state) {
    int64_t last = kl_clock_ns();
    for (int i = 0; i < 1000; i++) {
        const int64_t coarse = kl_clock_coarse_ms(), now = kl_clock_ns();
        assert_true(now >= last);
        assert_true(coarse <= now / ms); /* it is behind, and of the same start */
        last = now;
    }
}

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

static void ends_at_its_time(void **state) {
    pthread_cond_t c;
    kl_cond_init_clock(&c);
    pthread_mutex_lock(&mu);
    assert_int_equal(kl_cond_until(&c, &mu, kl_clock_ns() - ms), ETIMEDOUT);
    /* A second has 10^9 nanoseconds: the end is in the next one for some of these. */
    for (int i = 0; i < 5; i++) {
        const int64_t until = kl_clock_ns() + ms;
        int rc = 0;
        while (!rc) rc = kl_cond_until(&c, &mu, until);
        assert_int_equal(rc, ETIMEDOUT);
        assert_true(kl_clock_ns() >= until);
    }
    pthread_mutex_unlock(&mu);
    pthread_cond_destroy(&c);
}

struct sleeper {
    pthread_cond_t c;
    bool woken; /* guarded by mu */
};

static void *wake(void *arg) {
    struct sleeper *w = arg;
    pthread_mutex_lock(&mu);
    w->woken = true;
    pthread_cond_signal(&w->c);
    pthread_mutex_unlock(&mu);
    return NULL;
}

static void is_woken_before(void **state) {
    struct sleeper w = {.woken = false};
    pthread_t thread;
    int rc = 0;
    kl_cond_init_clock(&w.c);
    pthread_mutex_lock(&mu);
    assert_int_equal(pthread_create(&thread, NULL, wake, &w), 0);
    while (!w.woken && !rc) rc = kl_cond_until(&w.c, &mu, kl_clock_ns() + 600000 * ms);
    assert_int_equal(rc, 0);
    assert_true(w.woken);
    pthread_mutex_unlock(&mu);
    pthread_join(thread, NULL);
    pthread_cond_destroy(&w.c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_back),
        cmocka_unit_test(ends_at_its_time),
        cmocka_unit_test(is_woken_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
