/* test_timeline.c - publishing, registering and withdrawing; no wake-up is lost or doubled in any
 * order of the two sides. */
#include "barrier.h"
#include "support.h"

#include "base/value/timeline.h"

struct waiter {
    struct kl_waiter w;
    _Atomic(int) woken;
    uint64_t done_then; /* what the timeline had reached when wake was called */
    struct kl_timeline *t;
};

static void wake(struct kl_waiter *w) {
    struct waiter *x = kl_container(w, struct waiter, w);
    x->done_then = kl_timeline_done(x->t);
    atomic_fetch_add(&x->woken, 1);
}

static bool ask(struct waiter *x, struct kl_timeline *t, uint64_t ticket) {
    *x = (struct waiter){.w = {.ticket = ticket, .wake = wake}, .t = t};
    return kl_timeline_register(t, &x->w);
}

static void done_or_registered(void **state) {
    struct kl_timeline t;
    struct waiter x;
    kl_timeline_init(&t);
    assert_int_equal(kl_timeline_done(&t), 0);
    assert_false(ask(&x, &t, 0));
    kl_timeline_publish(&t, 3);
    assert_int_equal(kl_timeline_done(&t), 3);
    for (uint64_t ticket = 1; ticket <= 3; ticket++) assert_false(ask(&x, &t, ticket));
    assert_true(ask(&x, &t, 4));
    kl_timeline_publish(&t, 3); /* an older ticket changes nothing */
    assert_int_equal(atomic_load(&x.woken), 0);
    kl_timeline_publish(&t, 10); /* tickets may be left out */
    assert_int_equal(atomic_load(&x.woken), 1);
    assert_int_equal(x.done_then, 10);
    kl_timeline_publish(&t, 11);
    assert_int_equal(atomic_load(&x.woken), 1); /* each waiter is woken once */
    assert_int_equal(atomic_load(&t.word) & 1, 0);
    kl_timeline_block(&t, 11); /* returns at once, since ticket 11 is reached later than 10 */
    kl_timeline_deinit(&t);
}

enum { WAITERS = 1000 };

static void many_waiters(void **state) {
    static struct waiter x[WAITERS];
    struct kl_timeline t;
    kl_timeline_init(&t);
    for (int i = 0; i < WAITERS; i++) /* The waiters register in any order. */
        assert_true(ask(&x[i], &t, 1 + (uint64_t)(i * 7 % WAITERS)));
    for (uint64_t done = 1; done <= WAITERS; done++) {
        kl_timeline_publish(&t, done);
        for (int i = 0; i < WAITERS; i++)
            assert_int_equal(atomic_load(&x[i].woken), x[i].w.ticket <= done);
        if (done < WAITERS)
            assert_int_equal(atomic_load(&t.word) & 1, 1); /* bit 0: a waiter is registered */
    }
    assert_int_equal(atomic_load(&t.word) & 1, 0);
    kl_timeline_deinit(&t);
}

static void taken_back(void **state) {
    struct kl_timeline t;
    struct waiter x[3];
    kl_timeline_init(&t);
    for (int i = 0; i < 3; i++) assert_true(ask(&x[i], &t, 1));
    assert_true(kl_timeline_cancel(&t, &x[1].w));
    /* This waiter was woken, so it is not in the list. */
    assert_false(kl_timeline_cancel(&t, &x[1].w));
    kl_timeline_publish(&t, 1);
    assert_int_equal(atomic_load(&x[0].woken), 1);
    assert_int_equal(atomic_load(&x[1].woken), 0);
    assert_int_equal(atomic_load(&x[2].woken), 1);
    /* It was woken, so it can no longer be withdrawn. */
    assert_false(kl_timeline_cancel(&t, &x[0].w));
    assert_true(ask(&x[1], &t, 2));
    assert_true(kl_timeline_cancel(&t, &x[1].w));
    assert_int_equal(atomic_load(&t.word) & 1, 0); /* the last waiter has gone */
    kl_timeline_publish(&t, 2);
    assert_int_equal(atomic_load(&x[1].woken), 0);
    kl_timeline_deinit(&t);
}

/* A waiter that registers again in its own wake. */
struct stepper {
    struct kl_waiter w;
    struct kl_timeline *t;
    int steps;
};

static void step(struct kl_waiter *w) {
    struct stepper *s = kl_container(w, struct stepper, w);
    do {
        s->steps++;
        s->w.ticket++;
    } while (!kl_timeline_register(s->t, &s->w));
}

static void waiting_again_from_inside_the_wake(void **state) {
    struct kl_timeline t;
    kl_timeline_init(&t);
    struct stepper s = {.w = {.ticket = 1, .wake = step}, .t = &t};
    assert_true(kl_timeline_register(&t, &s.w));
    for (uint64_t i = 1; i <= 100; i++) kl_timeline_publish(&t, i);
    assert_int_equal(s.steps, 100);
    kl_timeline_publish(&t, 150);
    assert_int_equal(s.steps, 150);
    assert_true(kl_timeline_cancel(&t, &s.w));
    kl_timeline_deinit(&t);
}

/* ---- several threads register, and take back, against one that publishes ---- */

enum { THREADS = 4, EACH = 3000, LAST = 2000 };

static struct kl_timeline shared;
static struct t_barrier start;

static void *publish(void *arg) {
    t_barrier_wait(&start);
    for (uint64_t i = 1; i <= LAST; i++) kl_timeline_publish(&shared, i);
    return NULL;
}

struct registrar {
    struct waiter x[EACH];
    bool registered[EACH], cancelled[EACH];
    bool too_early;
};

static void *ask_often(void *arg) {
    struct registrar *r = arg;
    t_barrier_wait(&start);
    for (int i = 0; i < EACH; i++) {
        uint64_t ticket = 1 + (uint64_t)i * LAST / EACH;
        r->registered[i] = ask(&r->x[i], &shared, ticket);
        if (!r->registered[i] && kl_timeline_done(&shared) < ticket) r->too_early = true;
        if (r->registered[i] && i % 3 == 0)
            r->cancelled[i] = kl_timeline_cancel(&shared, &r->x[i].w);
        if (i % 500 == 0) { /* blocks until the ticket is published */
            kl_timeline_block(&shared, ticket);
            if (kl_timeline_done(&shared) < ticket) r->too_early = true;
        }
    }
    return NULL;
}

static void none_is_lost(void **state) {
    static struct registrar r[THREADS];
    for (int round = 0; round < 10; round++) {
        pthread_t threads[THREADS], publisher;
        kl_timeline_init(&shared);
        memset(r, 0, sizeof r);
        t_barrier_init(&start, THREADS + 1);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &r[i]), 0);
        assert_int_equal(pthread_create(&publisher, NULL, publish, NULL), 0);
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        pthread_join(publisher, NULL);
        for (int k = 0; k < THREADS; k++) {
            assert_false(r[k].too_early);
            for (int i = 0; i < EACH; i++) {
                int expected = r[k].registered[i] && !r[k].cancelled[i];
                assert_int_equal(atomic_load(&r[k].x[i].woken), expected);
                if (expected) assert_true(r[k].x[i].done_then >= r[k].x[i].w.ticket);
            }
        }
        /* Bit 0 is clear: no waiter is registered. */
        assert_int_equal(atomic_load(&shared.word), 2 * LAST);
        kl_timeline_deinit(&shared);
        t_barrier_destroy(&start);
    }
}

static void *block(void *arg) {
    kl_timeline_block(&shared, (uint64_t)(uintptr_t)arg);
    return (void *)(uintptr_t)kl_timeline_done(&shared);
}

static void blocked_threads(void **state) {
    pthread_t threads[16];
    kl_timeline_init(&shared);
    for (uintptr_t i = 0; i < 16; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, block, (void *)(i % 4 + 1)), 0);
    for (uint64_t i = 1; i <= 4; i++) kl_timeline_publish(&shared, i);
    for (uintptr_t i = 0; i < 16; i++) {
        void *done = NULL;
        pthread_join(threads[i], &done);
        assert_true((uintptr_t)done >= i % 4 + 1);
    }
    kl_timeline_deinit(&shared);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(done_or_registered), cmocka_unit_test(many_waiters),
        cmocka_unit_test(taken_back),         cmocka_unit_test(waiting_again_from_inside_the_wake),
        cmocka_unit_test(none_is_lost),       cmocka_unit_test(blocked_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
