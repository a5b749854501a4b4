/* test_metal.c - the functions for Metal say that there is no Metal. */
#include "api/api_support.h"

static void test_not_available(void **state) {
    bool yes = true;
    OK(mlx_metal_is_available(&yes));
    assert_false(yes);
    FAILS(mlx_metal_is_available(NULL), KEEL_EARG, "NULL");
}

static void test_captures_are_refused(void **state) {
    FAILS(mlx_metal_start_capture("trace.gputrace"), KEEL_EUNSUPPORTED, "no Metal");
    FAILS(mlx_metal_start_capture(NULL), KEEL_EARG, "path");
    FAILS(mlx_metal_stop_capture(), KEEL_EUNSUPPORTED, "no Metal");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_available),
        cmocka_unit_test(test_captures_are_refused),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
