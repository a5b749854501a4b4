/* test_elementwise_keel.c - the functions of keel/ops.h against NumPy: every dtype, special
 * values. */
#include "ops/golden/golden.h"

#include "ops/golden/golden_keel.inc"

static void values(void **state) {
    GOLDEN_RUN_ALL(keel_cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
