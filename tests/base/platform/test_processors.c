/* test_processors.c - what the system says of processors, and names of threads. The number of a
 * process that is bound to one processor is asked for in tests/runtime/test_pool.c. */
#include "support.h"

#include <pthread.h>
#include <string.h>

#include "base/platform/processors.h"

static void are_counted(void **state) {
    assert_true(kl_processors_allowed() >= 1);
    const int64_t l1 = kl_processors_l1_bytes();
    assert_true(l1 == 0 || (l1 >= 4096 && l1 <= 1 << 24));
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
        cmocka_unit_test(long_names_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
