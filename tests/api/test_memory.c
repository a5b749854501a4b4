/* test_memory.c - the numbers of bytes in use, and their limits. */
#include "api/api_support.h"

static size_t figure(int (*get)(size_t *)) {
    size_t n = 0;
    OK(get(&n));
    return n;
}

static void test_active_and_peak(void **state) {
    int n = 1 << 20;
    size_t before = figure(mlx_get_active_memory);
    mlx_array a = mlx_array_new(), r = mlx_array_new();
    OK(mlx_zeros(&a, &n, 1, MLX_FLOAT32, cpu));
    OK(mlx_add(&r, a, a, cpu));
    OK(mlx_array_eval(r));
    size_t during = figure(mlx_get_active_memory);
    assert_true(during >= before + (size_t)n * 4);
    assert_true(figure(mlx_get_peak_memory) >= during);
    mlx_array_free(a);
    mlx_array_free(r);
    OK(mlx_synchronize(cpu));
    assert_true(figure(mlx_get_active_memory) < during);
    OK(mlx_reset_peak_memory());
    assert_true(figure(mlx_get_peak_memory) < during);
    OK(mlx_clear_cache());
    assert_int_equal(figure(mlx_get_cache_memory), 0);
}

static void test_limits(void **state) {
    size_t old = 0, was = 0;
    OK(mlx_set_memory_limit(&old, (size_t)1 << 30));
    assert_int_equal(figure(mlx_get_memory_limit), (size_t)1 << 30);
    OK(mlx_set_memory_limit(&was, old));
    assert_int_equal(was, (size_t)1 << 30);
    OK(mlx_set_cache_limit(&old, 12345));
    OK(mlx_set_cache_limit(&was, old));
    assert_int_equal(was, 12345);
    OK(mlx_set_wired_limit(&old, 777));
    OK(mlx_set_wired_limit(&was, old));
    assert_int_equal(was, 777);
}

static void test_bad_results(void **state) {
    size_t limit = figure(mlx_get_memory_limit);
    FAILS(mlx_get_active_memory(NULL), KEEL_EARG, "the result is NULL");
    FAILS(mlx_get_cache_memory(NULL), KEEL_EARG, "the result is NULL");
    FAILS(mlx_get_memory_limit(NULL), KEEL_EARG, "the result is NULL");
    FAILS(mlx_get_peak_memory(NULL), KEEL_EARG, "the result is NULL");
    FAILS(mlx_set_memory_limit(NULL, 1), KEEL_EARG, "the result is NULL");
    FAILS(mlx_set_cache_limit(NULL, 1), KEEL_EARG, "the result is NULL");
    FAILS(mlx_set_wired_limit(NULL, 1), KEEL_EARG, "the result is NULL");
    assert_int_equal(figure(mlx_get_memory_limit), limit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_active_and_peak),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_bad_results),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
