/* test_processors.c - what the system says of processors, and names of threads. The number of a
 * process that is bound to one processor is asked for in tests/runtime/test_pool.c. */
#include "support.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/platform/processors.h"
#include "base/thread.h"

static void are_counted(void **state) {
    assert_true(kl_processors_allowed() >= 1);
    const int64_t l1 = kl_processors_l1_bytes();
    assert_true(l1 == 0 || (l1 >= 4096 && l1 <= 1 << 24));
}

/* A thread that may run on several processors goes to another one, and may run on all of them
 * afterwards. One that may run on a single one stays. Where the system does not tell the processor
 * it does not take such wishes either. */
static void a_thread_leaves_one(void **state) {
    enum { TRIES = 1000 }; /* the system may move the thread back at once */
    const int allowed = kl_processors_allowed(), first = kl_processor_here();
    bool moved = false;
    kl_processor_leave(-1);
    for (int i = 0; i < TRIES && !moved && first >= 0; i++) {
        const int here = kl_processor_here();
        kl_processor_leave(here);
        moved = kl_processor_here() != here;
        assert_int_equal(kl_processors_allowed(), allowed);
    }
    assert_int_equal(moved, first >= 0 && allowed > 1);
}

static void have_what_their_kind_can_have(void **state) {
    for (int f = KL_ARM_DOTPROD; f <= KL_ARM_BF16; f++) {
        const bool has = kl_processors_have((enum kl_arm_feature)f);
        assert_true(kl_processors_have((enum kl_arm_feature)f) == has);
#ifndef __aarch64__
        assert_false(has);
#endif
    }
    /* The architecture has the products of matrices only beside those of vectors. */
    assert_true(kl_processors_have(KL_ARM_DOTPROD) || !kl_processors_have(KL_ARM_I8MM));
}

/* A frame of a megabyte, of which each page is written. */
static void use_stack(void *arg) {
    volatile char frame[1 << 20];
    for (size_t i = 0; i < sizeof frame; i += 1024) frame[i] = 1;
    atomic_store((_Atomic(int) *)arg, frame[0]);
}

static void threads_have_room(void **state) {
    _Atomic(int) done = 0;
    assert_int_equal(kl_thread_start(use_stack, &done, "room"), 0);
    while (!atomic_load(&done)) sched_yield();
}

static void *named(void *arg) {
    char *found = arg;
    kl_thread_name_self("0123456789abcdefghi");
    pthread_getname_np(pthread_self(), found, 64);
    kl_thread_name_self("");
    kl_thread_name_self("short");
    pthread_getname_np(pthread_self(), found + 64, 64);
    return NULL;
}

static void long_names_are_cut(void **state) {
    char found[128] = "";
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, named, found), 0);
    pthread_join(thread, NULL);
    assert_string_equal(found, "0123456789abcde");
    assert_string_equal(found + 64, "short");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(are_counted),
        cmocka_unit_test(a_thread_leaves_one),
        cmocka_unit_test(have_what_their_kind_can_have),
        cmocka_unit_test(threads_have_room),
        cmocka_unit_test(long_names_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
