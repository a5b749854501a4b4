/* test_scan.c - variance, standard deviation and cumulative operations through the C
 * API. */
#include "api/api_support.h"

static void test_variance(void **state) {
    mlx_array a = grid(2, 3), r = mlx_array_new();
    OK(mlx_var(&r, a, false, 1, cpu));
    assert_text(r, "array(3.5, dtype=float32)");
    OK(mlx_var_axis(&r, a, 0, true, 0, cpu));
    assert_text(r, "array([[2.25, 2.25, 2.25]], dtype=float32)");
    OK(mlx_var_axes(&r, a, AXES(-1), false, 1, cpu));
    assert_text(r, "array([1, 1], dtype=float32)");
    OK(mlx_std(&r, a, true, 0, cpu));
    assert_text(r, "array([[1.70783]], dtype=float32)");
    OK(mlx_std_axis(&r, a, 0, false, 0, cpu));
    assert_text(r, "array([1.5, 1.5, 1.5], dtype=float32)");
    OK(mlx_std_axes(&r, a, AXES(1), true, 1, cpu));
    assert_text(r, "array([[1],\n       [1]], dtype=float32)");
    FAILS(mlx_var(&r, no_array, false, 0, cpu), KEEL_EARG, "mlx_var: ");
    FAILS(mlx_var_axis(&r, a, 2, false, 0, cpu), KEEL_EAXIS, "mlx_var_axis: ");
    FAILS(mlx_var_axes(&r, a, AXES(0, 0), false, 0, cpu), KEEL_EAXIS, "mlx_var_axes: ");
    FAILS(mlx_std(&r, a, false, 0, no_stream), KEEL_EARG, "mlx_std: ");
    FAILS(mlx_std_axis(&r, a, -3, false, 0, cpu), KEEL_EAXIS, "mlx_std_axis: ");
    FAILS(mlx_std_axes(&r, a, NULL, 1, false, 0, cpu), KEEL_EARG, "mlx_std_axes: ");
    FAILS(mlx_var(NULL, a, false, 0, cpu), KEEL_EARG, "the result is NULL");
    mlx_array_free(a);
    mlx_array_free(r);
}

typedef int scan_fn(mlx_array *, const mlx_array, int, bool, bool, const mlx_stream);

/* Scans [[1, 2, 3]] forward, and in reverse without the element itself. */
static void scan(scan_fn *f, const char *forward, const char *others) {
    mlx_array a = of_ints(LIST(1, 2, 3), LIST(1, 3), 2), r = mlx_array_new();
    OK(f(&r, a, -1, false, true, cpu));
    assert_text(r, forward);
    OK(f(&r, a, 1, true, false, cpu));
    assert_text(r, others);
    FAILS(f(&r, a, 2, false, true, cpu), KEEL_EAXIS, "mlx_");
    FAILS(f(&r, no_array, 0, false, true, cpu), KEEL_EARG, "a is an empty array handle");
    FAILS(f(&r, a, 0, false, true, no_stream), KEEL_EARG, "the stream is an empty handle");
    FAILS(f(NULL, a, 0, false, true, cpu), KEEL_EARG, "the result is NULL");
    assert_text(r, others);
    mlx_array_free(a);
    mlx_array_free(r);
}

static void test_scans(void **state) {
    scan(mlx_cumsum, "array([[1, 3, 6]], dtype=int32)", "array([[5, 3, 0]], dtype=int32)");
    scan(mlx_cumprod, "array([[1, 2, 6]], dtype=int32)", "array([[6, 3, 1]], dtype=int32)");
    scan(mlx_cummax, "array([[1, 2, 3]], dtype=int32)",
         "array([[3, 3, -2147483648]], dtype=int32)");
    scan(mlx_cummin, "array([[1, 1, 1]], dtype=int32)", "array([[2, 3, 2147483647]], dtype=int32)");
    scan(mlx_logcumsumexp, "array([[1, 2.31326, 3.40761]], dtype=float32)",
         "array([[3.31326, 3, -inf]], dtype=float32)");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_variance),
                                       cmocka_unit_test(test_scans)};
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
