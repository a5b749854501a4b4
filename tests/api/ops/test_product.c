/* test_product.c - products composed of other operations, through the C API. */
#include "api/api_support.h"

static const mlx_optional_float no_scale = {0, false};

static void test_products(void **state) {
    mlx_array a = INTS(1, 2), b = INTS(3, 4, 5), f = FLOATS(1, 2), g = FLOATS(3, 4),
              r = mlx_array_new(), m = of_floats((const float[]){1, 2, 3, 4}, LIST(2, 2), 2),
              four = FLOATS(1, 2, 3, 4);
    OK(mlx_outer(&r, a, b, cpu));
    assert_text(r, "array([[3, 4, 5],\n       [6, 8, 10]], dtype=int32)");
    OK(mlx_inner(&r, f, g, cpu));
    assert_text(r, "array(11, dtype=float32)");
    OK(mlx_kron(&r, a, b, cpu));
    assert_text(r, "array([3, 4, 5, 6, 8, 10], dtype=int32)");
    OK(mlx_tensordot(&r, m, m, AXES(0, 1), AXES(1, 0), cpu));
    assert_text(r, "array(29, dtype=float32)");
    OK(mlx_tensordot_axis(&r, m, m, 2, cpu));
    assert_text(r, "array(30, dtype=float32)");
    OK(mlx_addmm(&r, f, m, m, 2, 10, cpu));
    assert_text(r, "array([[24, 40],\n       [40, 64]], dtype=float32)");
    OK(mlx_hadamard_transform(&r, m, (mlx_optional_float){1, true}, cpu));
    assert_text(r, "array([[3, -1],\n       [7, -1]], dtype=float32)");
    OK(mlx_hadamard_transform(&r, four, no_scale, cpu));
    assert_text(r, "array([5, -1, -2, 0], dtype=float32)");
    void *ctx = r.ctx;
    FAILS(mlx_outer(&r, a, no_array, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_inner(&r, a, a, cpu), KEEL_EDTYPE, "mlx_inner: ");
    FAILS(mlx_kron(&r, no_array, a, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_tensordot(&r, m, m, AXES(0), AXES(1, 0), cpu), KEEL_EARG, "mlx_tensordot: ");
    FAILS(mlx_tensordot_axis(&r, m, m, 3, cpu), KEEL_EAXIS, "mlx_tensordot_axis: ");
    FAILS(mlx_addmm(&r, no_array, m, m, 1, 1, cpu), KEEL_EARG, "c is an empty array");
    FAILS(mlx_addmm(&r, a, a, a, 1, 1, cpu), KEEL_EDTYPE, "mlx_addmm: ");
    FAILS(mlx_hadamard_transform(&r, b, no_scale, cpu), KEEL_ESHAPE, "mlx_hadamard_transform: ");
    assert_ptr_equal(r.ctx, ctx);
    mlx_array all[] = {a, b, f, g, r, m, four};
    for (int k = 0; k < 7; k++) mlx_array_free(all[k]);
}

static void leak_body(void) {
    test_products(NULL);
}

static void test_no_leak(void **state) {
    assert_no_leak(leak_body);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products),
                                       cmocka_unit_test(test_no_leak)};
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
