/* test_api_transforms.c - evaluation of several arrays. */
#include "api_support.h"

static void test_eval(void **state) {
    mlx_array a = INTS(1, 2), r = mlx_array_new(), s = mlx_array_new();
    OK(mlx_add(&r, a, a, cpu));
    OK(mlx_multiply(&s, r, r, cpu));
    mlx_vector_array v = mlx_vector_array_new_data((mlx_array[]){r, s, a}, 3);
    OK(mlx_eval(v));
    bool done = false;
    OK(_mlx_array_is_available(&done, s));
    assert_true(done);
    assert_text(s, "array([4, 16], dtype=int32)");
    mlx_vector_array none = mlx_vector_array_new();
    OK(mlx_eval(none));
    OK(mlx_async_eval(none));
    FAILS(mlx_eval(no_vector), KEEL_EARG, "mlx_eval: outputs is an empty vector handle");
    FAILS(mlx_async_eval(no_vector), KEEL_EARG, "mlx_async_eval: outputs is an empty vector");
    mlx_vector_array_free(v);
    mlx_vector_array_free(none);
    mlx_array_free(a);
    mlx_array_free(r);
    mlx_array_free(s);
}

/* The call reports the first failure in the order of the vector. The other arrays can be read. */
static void test_first_failure(void **state) {
    mlx_array a = INTS(1, 2, 3), five = INTS(5), six = INTS(6);
    mlx_array bad5 = mlx_array_new(), bad6 = mlx_array_new(), good = mlx_array_new();
    OK(mlx_take_axis(&bad5, a, five, 0, cpu));
    OK(mlx_take_axis(&bad6, a, six, 0, cpu));
    OK(mlx_add(&good, a, a, cpu));
    mlx_vector_array v = mlx_vector_array_new_data((mlx_array[]){good, bad6, bad5}, 3);
    FAILS(mlx_eval(v), KEEL_EINDEX, "6");
    FAILS(mlx_array_eval(bad5), KEEL_EINDEX, "5");
    bool done = false;
    OK(_mlx_array_is_available(&done, good));
    assert_true(done);
    assert_text(good, "array([2, 4, 6], dtype=int32)");
    mlx_vector_array_free(v);
    mlx_array all[] = {a, five, six, bad5, bad6, good};
    for (int i = 0; i < 6; i++) mlx_array_free(all[i]);
}

static void test_async(void **state) {
    mlx_array a = INTS(1, 2, 3), r = mlx_array_new();
    OK(mlx_add(&r, a, a, cpu));
    mlx_vector_array v = mlx_vector_array_new_value(r);
    OK(mlx_async_eval(v));
    OK(mlx_async_eval(v));
    OK(_mlx_array_wait(r));
    assert_text(r, "array([2, 4, 6], dtype=int32)");
    mlx_vector_array_free(v);
    mlx_array_free(a);
    mlx_array_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eval),
        cmocka_unit_test(test_first_failure),
        cmocka_unit_test(test_async),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
