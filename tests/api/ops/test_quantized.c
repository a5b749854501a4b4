/* test_quantized.c - quantized matrices through the C API. */
#include "api/api_support.h"

static const mlx_optional_int none = {0, false}, four = {4, true}, seven = {7, true},
                              thirty_two = {32, true};
static const mlx_optional_dtype no_dtype = {0, false}, half = {MLX_FLOAT16, true};

static void test_quantized(void **state) {
    float numbers[64];
    for (int i = 0; i < 64; i++) numbers[i] = (float)(i % 16);
    mlx_array w = of_floats(numbers, LIST(2, 32), 2), x = of_floats(numbers, LIST(1, 32), 2);
    mlx_array r = mlx_array_new(), q = mlx_array_new(), s = mlx_array_new(), b = mlx_array_new();
    mlx_array index = INTS(1), bad = INTS(2), one = FLOATS(1);
    mlx_vector_array v = mlx_vector_array_new();
    OK(mlx_quantize(&v, w, thirty_two, four, "affine", no_array, cpu));
    assert_int_equal(mlx_vector_array_size(v), 3);
    OK(mlx_vector_array_get(&q, v, 0));
    OK(mlx_vector_array_get(&s, v, 1));
    OK(mlx_vector_array_get(&b, v, 2));
    assert_text(s, "array([[-1],\n       [-1]], dtype=float32)");
    assert_text(b, "array([[15],\n       [15]], dtype=float32)");
    OK(mlx_dequantize(&r, q, s, b, thirty_two, none, "affine", no_array, half, cpu));
    assert_int_equal(mlx_array_dtype(r), MLX_FLOAT16);
    OK(mlx_dequantize(&r, q, s, b, thirty_two, none, "affine", no_array, no_dtype, cpu));
    OK(mlx_array_equal(&r, r, w, false, cpu));
    assert_text(r, "array(True, dtype=bool)");
    /* twice the sum of the squares of 0 to 15 */
    OK(mlx_quantized_matmul(&r, x, q, s, b, true, thirty_two, four, "affine", cpu));
    assert_text(r, "array([[2480, 2480]], dtype=float32)");
    OK(mlx_gather_qmm(&r, x, q, s, b, no_array, no_array, true, thirty_two, four, "affine", true,
                      cpu));
    assert_text(r, "array([[2480, 2480]], dtype=float32)");
    void *ctx = r.ctx;
    FAILS(mlx_quantize(&v, w, none, none, "affine", no_array, cpu), KEEL_ESHAPE, "mlx_quantize: ");
    FAILS(mlx_quantize(&v, w, thirty_two, seven, "affine", no_array, cpu), KEEL_EARG, "is 7");
    FAILS(mlx_quantize(&v, w, none, none, "int8", no_array, cpu), KEEL_EARG, "int8");
    FAILS(mlx_quantize(&v, w, none, none, NULL, no_array, cpu), KEEL_EARG, "NULL");
    FAILS(mlx_quantize(&v, no_array, none, none, "mxfp4", no_array, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_quantize(&v, w, none, none, "mxfp4", one, cpu), KEEL_EARG, "nvfp4");
    FAILS(mlx_dequantize(&r, q, s, no_array, thirty_two, none, "affine", no_array, no_dtype, cpu),
          KEEL_EARG, "biases");
    FAILS(mlx_dequantize(&r, q, s, b, none, none, "affine", no_array, no_dtype, cpu), KEEL_ESHAPE,
          "mlx_dequantize: ");
    FAILS(mlx_quantized_matmul(&r, x, q, no_array, b, true, thirty_two, four, "affine", cpu),
          KEEL_EARG, "scales is an empty array");
    FAILS(mlx_quantized_matmul(&r, q, q, s, b, false, thirty_two, four, "affine", cpu), KEEL_ESHAPE,
          "mlx_quantized_matmul: ");
    FAILS(
        mlx_gather_qmm(&r, x, q, s, b, one, no_array, true, thirty_two, four, "affine", false, cpu),
        KEEL_EDTYPE, "mlx_gather_qmm: ");
    FAILS(mlx_qqmm(&r, x, w, no_array, none, none, "affine", no_array, no_array, cpu), KEEL_EARG,
          "mlx_qqmm: ");
    FAILS(mlx_qqmm(&r, x, w, no_array, none, none, "nvfp4", one, no_array, cpu), KEEL_EARG,
          "global scale");
    assert_ptr_equal(r.ctx, ctx);
    /* numbers that e2m1 has, with the scale 1: nothing is rounded */
    for (int i = 0; i < 64; i++) numbers[i] = i % 4 ? (float)(i % 4) : 6;
    mlx_array exact = of_floats(numbers, LIST(2, 32), 2);
    OK(mlx_qqmm(&r, exact, exact, no_array, none, none, "mxfp4", no_array, no_array, cpu));
    assert_text(r, "array([[400, 400],\n       [400, 400]], dtype=float32)");
    /* an index out of range is found when the result is computed */
    OK(mlx_gather_qmm(&r, x, q, s, b, index, no_array, true, thirty_two, four, "affine", false,
                      cpu));
    FAILS(mlx_array_eval(r), KEEL_EINDEX, "index 1");
    OK(mlx_gather_qmm(&r, x, q, s, b, no_array, bad, true, thirty_two, four, "affine", true, cpu));
    FAILS(mlx_array_eval(r), KEEL_EINDEX, "index 2");
    mlx_vector_array_free(v);
    mlx_array all[] = {w, x, r, q, s, b, index, bad, one, exact};
    for (int k = 0; k < 10; k++) mlx_array_free(all[k]);
}

static void leak_body(void) {
    test_quantized(NULL);
}

static void test_no_leak(void **state) {
    assert_no_leak(leak_body);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_quantized),
                                       cmocka_unit_test(test_no_leak)};
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
