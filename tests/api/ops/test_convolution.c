/* test_convolution.c - convolutions through the C API: the order of the arguments of each
 * function, and errors. */
#include "api/api_support.h"

static void test_convolutions(void **state) {
    float v[32];
    for (int i = 0; i < 32; i++) v[i] = (float)i;
    const float ones[] = {1, 1, 1, 1, 1, 1, 1, 1};
    mlx_array x0 = of_floats(v + 1, LIST(1, 2, 1), 3), x1 = of_floats(v, LIST(1, 6, 1), 3),
              w1 = of_floats((const float[]){1, 10}, LIST(1, 2, 1), 3),
              x2 = of_floats(v, LIST(1, 2, 3, 1), 4),
              w2 = of_floats((const float[]){1, 10, 100, 1000}, LIST(1, 2, 2, 1), 4),
              x3 = of_floats(v, LIST(1, 2, 2, 2, 1), 5),
              w3 = of_floats(ones, LIST(1, 2, 1, 2, 1), 5), r = mlx_array_new();
    OK(mlx_conv1d(&r, x1, w1, 2, 1, 3, 1, cpu));
    assert_text(r, "array([[[20],\n        [41],\n        [3]]], dtype=float32)");
    OK(mlx_conv2d(&r, x2, w2, 1, 2, 0, 1, 1, 2, 1, cpu));
    assert_text(r, "array([[[[4010],\n         [401]]]], dtype=float32)");
    OK(mlx_conv3d(&r, x3, w3, 1, 1, 2, 0, 0, 0, 1, 1, 1, 1, cpu));
    assert_text(r, "array([[[[[10]],\n         [[18]]]]], dtype=float32)");
    OK(mlx_conv_general(&r, x1, w1, LIST(2), 1, LIST(1), 1, LIST(0), 1, NULL, 0, LIST(2), 1, 1,
                        true, cpu));
    assert_text(r, "array([[[0],\n        [1],\n        [2],\n        [3],\n        [4],\n        "
                   "[5]]], dtype=float32)");
    OK(mlx_conv_transpose1d(&r, x0, w1, 2, 1, 1, 1, 1, cpu));
    assert_text(r, "array([[[10],\n        [2],\n        [20]]], dtype=float32)");
    OK(mlx_conv_transpose2d(&r, x2, w2, 1, 2, 1, 0, 1, 1, 0, 0, 1, cpu));
    assert_text(r, "array([[[[3],\n         [30],\n         [104],\n         [1040],\n         "
                   "[205],\n         [2050]]]], dtype=float32)");
    OK(mlx_conv_transpose3d(&r, x3, w3, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0, 0, 1, cpu));
    assert_text(r, "array([[[[[10]],\n         [[18]]]]], dtype=float32)");
    void *ctx = r.ctx;
    FAILS(mlx_conv1d(&r, x1, no_array, 1, 0, 1, 1, cpu), KEEL_EARG, "weight is an empty array");
    FAILS(mlx_conv1d(&r, x2, w2, 1, 0, 1, 1, cpu), KEEL_ESHAPE, "mlx_conv1d: ");
    FAILS(mlx_conv2d(&r, x2, w2, 0, 1, 0, 0, 1, 1, 1, cpu), KEEL_EARG, "strides (0,1)");
    FAILS(mlx_conv3d(&r, x3, w3, 1, 1, 1, 0, 0, 0, 1, 1, 1, 2, cpu), KEEL_ESHAPE, "2 groups");
    FAILS(mlx_conv_general(&r, x1, w1, LIST(1, 1), 2, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 1, false,
                           cpu),
          KEEL_EARG, "strides of 2 entries");
    FAILS(mlx_conv_transpose1d(&r, x1, w1, 0, 0, 1, 0, 1, cpu), KEEL_EARG, "strides (0)");
    FAILS(mlx_conv_transpose2d(&r, x2, w2, 1, 1, 0, 0, 1, 0, 0, 0, 1, cpu), KEEL_EARG,
          "dilation (1,0)");
    FAILS(mlx_conv_transpose3d(&r, no_array, w3, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, cpu),
          KEEL_EARG, "input is an empty array");
    assert_ptr_equal(r.ctx, ctx);
    mlx_array all[] = {x0, x1, w1, x2, w2, x3, w3, r};
    for (int k = 0; k < 8; k++) mlx_array_free(all[k]);
}

static void test_chosen_products(void **state) {
    mlx_array a = of_floats((const float[]){1, 2, 3, 4}, LIST(2, 1, 2), 3),
              b = of_floats((const float[]){1, 10, 2, 20}, LIST(2, 2, 1), 3),
              m = of_floats((const float[]){1, 2, 3, 4}, LIST(2, 2), 2), one = INTS(1, 0),
              r = mlx_array_new();
    mlx_vector_array both = mlx_vector_array_new_data((const mlx_array[]){m, m}, 2);
    OK(mlx_einsum(&r, "ij,jk->ki", both, cpu));
    assert_text(r, "array([[7, 15],\n       [10, 22]], dtype=float32)");
    OK(mlx_gather_mm(&r, a, b, no_array, one, true, cpu));
    assert_text(r, "array([[[42]],\n       [[43]]], dtype=float32)");
    OK(mlx_segmented_mm(&r, m, m, one, cpu));
    assert_text(r, "array([[0, 0],\n       [0, 0]], dtype=float32)");
    OK(mlx_block_masked_mm(&r, m, m, 1, m, no_array, m, cpu));
    assert_text(r, "array([[19, 72],\n       [117, 304]], dtype=float32)");
    void *ctx = r.ctx;
    FAILS(mlx_einsum(&r, "ij", both, cpu), KEEL_EARG, "subscripts of 1 operands");
    FAILS(mlx_einsum(&r, NULL, both, cpu), KEEL_EARG, "NULL");
    FAILS(mlx_gather_mm(&r, a, a, no_array, no_array, false, cpu), KEEL_ESHAPE, "mlx_gather_mm: ");
    FAILS(mlx_segmented_mm(&r, m, m, no_array, cpu), KEEL_EARG, "segments is an empty array");
    FAILS(mlx_block_masked_mm(&r, m, m, 0, no_array, no_array, no_array, cpu), KEEL_EARG,
          "blocks of 0");
    assert_ptr_equal(r.ctx, ctx);
    mlx_vector_array_free(both);
    mlx_array all[] = {a, b, m, one, r};
    for (int k = 0; k < 5; k++) mlx_array_free(all[k]);
}

static void leak_body(void) {
    test_convolutions(NULL);
    test_chosen_products(NULL);
}

static void test_no_leak(void **state) {
    assert_no_leak(leak_body);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_convolutions),
                                       cmocka_unit_test(test_chosen_products),
                                       cmocka_unit_test(test_no_leak)};
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
