/* test_random.c - random bytes fill what they are asked to fill, and nothing else. */
#include "support.h"

#include <string.h>

#include "base/platform/random.h"

static void fills_all_and_no_more(void **state) {
    unsigned char first[260], second[260];
    for (int waits = 0; waits < 2; waits++) {
        memset(first, 7, sizeof first);
        memset(second, 7, sizeof second);
        assert_true(kl_random_bytes(first, 256, waits));
        assert_true(kl_random_bytes(second, 256, waits));
        assert_int_not_equal(memcmp(first, second, 256), 0);
        assert_int_not_equal(memcmp(first, first + 128, 128), 0);
        for (int i = 256; i < 260; i++) assert_int_equal(first[i], 7);
    }
}

static void nothing_is_filled(void **state) {
    unsigned char byte = 7;
    assert_true(kl_random_bytes(&byte, 0, true));
    assert_int_equal(byte, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_all_and_no_more),
        cmocka_unit_test(nothing_is_filled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
