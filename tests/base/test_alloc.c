/* test_alloc.c - the library's heap, and the allocation failures that tests inject. */
#include "support.h"

#include <pthread.h>

static void plain_use(void **state) {
    int64_t live = kl_test_n_live();
    char *p = kl_malloc(0), *z = kl_calloc(10, 3), *s = kl_strdup("text"), *r;
    assert_non_null(p);
    for (int i = 0; i < 30; i++) assert_int_equal(z[i], 0);
    assert_string_equal(s, "text");
    assert_int_equal(kl_test_n_live(), live + 3);
    r = kl_realloc(NULL, 4);
    memcpy(r, "abc", 4);
    r = kl_realloc(r, 100000);
    assert_string_equal(r, "abc");
    assert_int_equal(kl_test_n_live(), live + 4);
    kl_free(p);
    kl_free(z);
    kl_free(s);
    kl_free(r);
    kl_free(NULL);
    assert_int_equal(kl_test_n_live(), live);
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) /* the sanitizer's calloc ends the process for such a size */
static void products_that_overflow(void **state) {
    volatile size_t half = (size_t)1
                           /* Volatile hides the overflow from the compiler. */
                           << (sizeof(size_t) * 4);
    assert_null(kl_calloc(half, half));
    assert_null(kl_calloc(half + 1, half));
}
#endif

static void the_nth_fails(void **state) {
    for (int64_t n = 0; n < 5; n++) {
        kl_test_fail_alloc_at(n);
        assert_false(kl_test_alloc_failed());
        for (int64_t i = 0; i < 8; i++) {
            void *p = i % 2 ? kl_malloc(1) : kl_calloc(1, 1);
            assert_int_equal(p == NULL, i == n); /* only attempt n fails */
            assert_int_equal(kl_test_alloc_failed(), i >= n);
            assert_int_equal(kl_test_n_alloc_attempts(), i + 1);
            kl_free(p);
        }
    }
    char *p = kl_malloc(4);
    memcpy(p, "abc", 4);
    kl_test_fail_alloc_at(0);
    assert_null(kl_realloc(p, 1000));
    assert_string_equal(p, "abc"); /* the old memory is unchanged */
    kl_free(p);
    kl_test_fail_alloc_at(0);
    assert_null(kl_strdup("x"));
    kl_test_fail_alloc_at(1); /* memory that is allocated by another function counts as well */
    assert_false(kl_alloc_should_fail());
    assert_true(kl_alloc_should_fail());
    assert_false(kl_alloc_should_fail());
    kl_test_fail_alloc_at(-1);
    assert_int_equal(kl_test_n_alloc_attempts(), 0);
    assert_false(kl_test_alloc_failed());
}

static int count_random(uint64_t seed, uint32_t one_in) {
    int n = 0;
    kl_test_fail_alloc_random(seed, one_in);
    for (int i = 0; i < 10000; i++) n += kl_alloc_should_fail();
    kl_test_fail_alloc_random(0, 0);
    return n;
}

static void at_random(void **state) {
    int n = count_random(1, 100);
    assert_in_range(n, 50, 200); /* 100 failures are expected; the seed fixes the number */
    assert_int_equal(count_random(1, 100), n);
    assert_int_equal(count_random(7, 1), 10000);
    assert_int_equal(count_random(7, 0), 0);
}

static void *fail_some(void *arg) {
    int64_t n = 0;
    for (int i = 0; i < 1000; i++) {
        void *p = kl_malloc(8);
        n += p == NULL;
        kl_free(p);
    }
    return (void *)(intptr_t)n;
}

static void on_several_threads_exactly_one(void **state) {
    int64_t live = kl_test_n_live();
    for (int round = 0; round < 10; round++) {
        pthread_t threads[4];
        int64_t n = 0;
        kl_test_fail_alloc_at(1000 + round);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, fail_some, NULL), 0);
        for (int i = 0; i < 4; i++) {
            void *mine = NULL;
            pthread_join(threads[i], &mine);
            n += (intptr_t)mine;
        }
        assert_int_equal(n, 1);
        assert_int_equal(kl_test_n_alloc_attempts(), 4000);
        kl_test_fail_alloc_at(-1);
    }
    assert_int_equal(kl_test_n_live(), live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_use),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(products_that_overflow),
#endif
        cmocka_unit_test(the_nth_fails),
        cmocka_unit_test(at_random),
        cmocka_unit_test(on_several_threads_exactly_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
