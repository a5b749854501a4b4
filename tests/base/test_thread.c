/* test_thread.c - the identity of threads, functions that run when a thread ends, mutexes that know
 * their holder, and one thread waking another. */
#include "support.h"

#include <signal.h>

#include "base/thread.h"

/* ---- identity ---- */

struct seen {
    uint64_t id;
    bool alive_inside;
};

static void *look(void *arg) {
    struct seen *s = arg;
    s->id = kl_thread_id();
    s->alive_inside = kl_thread_id() == s->id && kl_thread_alive(s->id);
    return NULL;
}

static void numbers_are_never_reused(void **state) {
    uint64_t me = kl_thread_id(), last = me;
    assert_int_not_equal(me, 0);
    assert_int_equal(kl_thread_id(), me);
    int64_t live = kl_test_n_live();
    for (int i = 0; i < 50; i++) {
        struct seen s = {0, false};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, look, &s), 0);
        pthread_join(thread, NULL);
        assert_true(s.id > last);
        assert_true(s.alive_inside);
        assert_false(kl_thread_alive(s.id)); /* the thread has ended */
        last = s.id;
    }
    assert_true(kl_thread_alive(me));
    assert_false(kl_thread_alive(0));
    assert_false(kl_thread_alive(last + 1000));
    assert_int_equal(kl_test_n_live(), live);
}

static void *look_without_memory(void *arg) {
    struct seen *s = arg;
    kl_test_fail_alloc_at(0);
    s->id = kl_thread_id();
    kl_test_fail_alloc_at(-1);
    s->alive_inside = kl_thread_id() != 0; /* the thread itself still works then */
    return NULL;
}

static void a_thread_that_cannot_be_remembered(void **state) {
    struct seen s = {99, false};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, look_without_memory, &s), 0);
    pthread_join(thread, NULL);
    assert_int_equal(s.id, 0);
    assert_true(s.alive_inside);
}

/* ---- the end of a thread ---- */

static int trail[4], n_trail;
static bool alive_at_exit;
static uint64_t ending;

static void leave(void *arg) {
    trail[n_trail++] = (int)(intptr_t)arg;
    alive_at_exit = kl_thread_alive(ending);
}

static void *arrange(void *arg) {
    int *rc = arg;
    ending = kl_thread_id();
    for (intptr_t i = 0; i < 3; i++) *rc |= kl_thread_at_exit(leave, (void *)i);
    kl_test_fail_alloc_at(0);
    *rc |= (kl_thread_at_exit(leave, (void *)9) == KL_OK) << 8;
    kl_test_fail_alloc_at(-1);
    *rc |= n_trail << 4; /* the number is still valid */
    return NULL;
}

static void at_exit_last_in_first_out(void **state) {
    pthread_t thread;
    int rc = 0;
    int64_t live = kl_test_n_live();
    assert_int_equal(pthread_create(&thread, NULL, arrange, &rc), 0);
    pthread_join(thread, NULL);
    assert_int_equal(rc, 0);
    assert_int_equal(n_trail, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(trail[i], 2 - i);
    assert_true(alive_at_exit); /* these functions run before the thread's number ends */
    assert_false(kl_thread_alive(ending));
    assert_int_equal(kl_test_n_live(), live);
}

/* ---- detached threads, parkers ---- */

struct task {
    struct kl_parker done;
    char name[16];
    sigset_t blocked;
    int value;
};

static void work(void *arg) {
    struct task *t = arg;
    pthread_getname_np(pthread_self(), t->name, sizeof t->name);
    pthread_sigmask(SIG_SETMASK, NULL, &t->blocked);
    t->value = 42;
    kl_parker_set(&t->done);
}

static void a_detached_thread(void **state) {
    for (int i = 0; i < 50; i++) {
        struct task t = {.value = 0};
        kl_parker_init(&t.done);
        assert_int_equal(kl_thread_start(work, &t, "keel-with-a-very-long-name"), 0);
        kl_parker_wait(&t.done);
        kl_parker_wait(&t.done); /* a parker stays set */
        kl_parker_deinit(&t.done);
        assert_int_equal(t.value, 42);
        assert_string_equal(t.name, "keel-with-a-ver");
        assert_true(sigismember(&t.blocked, SIGINT) && sigismember(&t.blocked, SIGUSR1) &&
                    sigismember(&t.blocked, SIGALRM));
    }
    sigset_t mine;
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    assert_false(sigismember(&mine, SIGUSR1)); /* the signal mask of this thread is unchanged */
    /* First the record of the thread cannot be allocated, then the thread cannot be made. */
    for (int n = 0; n < 2; n++) {
        int64_t live = kl_test_n_live();
        struct task t = {.value = 0};
        kl_test_fail_alloc_at(n);
        assert_int_equal(kl_thread_start(work, &t, "x"), KL_ENOMEM);
        kl_test_fail_alloc_at(-1);
        assert_int_equal(kl_test_n_live(), live);
        assert_int_equal(t.value, 0);
    }
}

/* ---- mutexes ---- */

static struct kl_mutex mu = KL_MUTEX_INIT;
static int64_t counter;

static void *count_up(void *arg) {
    for (int i = 0; i < 5000; i++) {
        kl_mutex_lock(&mu);
        counter++;
        if (!kl_mutex_held(&mu)) counter = -1000000;
        kl_mutex_unlock(&mu);
    }
    return NULL;
}

static void *ask_held(void *arg) {
    return kl_mutex_held(&mu) ? arg : NULL;
}

static void a_mutex_knows_its_holder(void **state) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(counter, 20000);
    void *held = NULL;
    kl_mutex_lock(&mu);
    assert_true(kl_mutex_held(&mu));
    assert_int_equal(pthread_create(&threads[0], NULL, ask_held, &mu), 0);
    pthread_join(threads[0], &held);
    kl_mutex_unlock(&mu);
#ifdef KL_DEBUG
    assert_null(held); /* this thread holds the mutex, the other one does not */
    assert_false(kl_mutex_held(&mu));
#else
    /* The answer is for assertions only; in builds without them it is always yes. */
    assert_non_null(held);
#endif
    struct kl_mutex made;
    kl_mutex_init(&made);
    kl_mutex_lock(&made);
    kl_mutex_unlock(&made);
    kl_mutex_deinit(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_never_reused),
        cmocka_unit_test(a_thread_that_cannot_be_remembered),
        cmocka_unit_test(at_exit_last_in_first_out),
        cmocka_unit_test(a_detached_thread),
        cmocka_unit_test(a_mutex_knows_its_holder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
