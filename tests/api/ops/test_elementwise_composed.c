/* test_elementwise_composed.c - elementary functions, rounding, bits and tests of values through
 * the C API, each with good and bad arguments. tests/ops has the tests of their values. */
#include <math.h>

#include <keel/ops.h>

#include "api/api_support.h"

typedef int binary_fn(mlx_array *, const mlx_array, const mlx_array, const mlx_stream);
typedef int unary_fn(mlx_array *, const mlx_array, const mlx_stream);

static void unary(unary_fn *f, mlx_array a, const char *text) {
    mlx_array r = mlx_array_new();
    OK(f(&r, a, cpu));
    assert_text(r, text);
    FAILS(f(NULL, a, cpu), KEEL_EARG, "the result is NULL");
    FAILS(f(&r, no_array, cpu), KEEL_EARG, "is an empty array handle");
    FAILS(f(&r, a, no_stream), KEEL_EARG, "the stream is an empty handle");
    assert_text(r, text);
    mlx_array_free(a);
    mlx_array_free(r);
}

/* Compares the results of the operation on a and b; releases both. */
static void binary(binary_fn *f, mlx_array a, mlx_array b, const char *text) {
    mlx_array r = mlx_array_new(), three = INTS(1, 2, 3), four = INTS(1, 2, 3, 4);
    OK(f(&r, a, b, cpu));
    assert_text(r, text);
    FAILS(f(NULL, a, b, cpu), KEEL_EARG, "the result is NULL");
    FAILS(f(&r, no_array, b, cpu), KEEL_EARG, "a is an empty array handle");
    FAILS(f(&r, a, no_array, cpu), KEEL_EARG, "b is an empty array handle");
    FAILS(f(&r, a, b, no_stream), KEEL_EARG, "the stream is an empty handle");
    FAILS(f(&r, three, four, cpu), KEEL_ESHAPE, "mlx_");
    assert_text(r, text);
    mlx_array all[] = {a, b, r, three, four};
    for (int i = 0; i < 5; i++) mlx_array_free(all[i]);
}

static void test_functions(void **state) {
    unary(mlx_sin, FLOATS(0, 1), "array([0, 0.841471], dtype=float32)");
    unary(mlx_cos, FLOATS(0, 1), "array([1, 0.540302], dtype=float32)");
    unary(mlx_tan, FLOATS(0, 1), "array([0, 1.55741], dtype=float32)");
    unary(mlx_arcsin, FLOATS(0, 1), "array([0, 1.5708], dtype=float32)");
    unary(mlx_arccos, FLOATS(1, 0), "array([0, 1.5708], dtype=float32)");
    unary(mlx_arctan, INTS(0, 1), "array([0, 0.785398], dtype=float32)");
    unary(mlx_sinh, FLOATS(0, 1), "array([0, 1.1752], dtype=float32)");
    unary(mlx_cosh, FLOATS(0, 1), "array([1, 1.54308], dtype=float32)");
    unary(mlx_tanh, FLOATS(0, 1), "array([0, 0.761594], dtype=float32)");
    unary(mlx_arcsinh, FLOATS(0, 1), "array([0, 0.881374], dtype=float32)");
    unary(mlx_arccosh, FLOATS(1, 2), "array([0, 1.31696], dtype=float32)");
    unary(mlx_arctanh, FLOATS(0, 0.5f), "array([0, 0.549306], dtype=float32)");
    unary(mlx_expm1, FLOATS(0, 1), "array([0, 1.71828], dtype=float32)");
    unary(mlx_log1p, FLOATS(0, 1), "array([0, 0.693147], dtype=float32)");
    unary(mlx_log2, INTS(1, 8), "array([0, 3], dtype=float32)");
    unary(mlx_log10, INTS(1, 1000), "array([0, 3], dtype=float32)");
    unary(mlx_rsqrt, FLOATS(4, 1), "array([0.5, 1], dtype=float32)");
    unary(mlx_reciprocal, INTS(4, 1), "array([0.25, 1], dtype=float32)");
    unary(mlx_sigmoid, FLOATS(0, 1), "array([0.5, 0.731059], dtype=float32)");
    unary(mlx_erf, FLOATS(0, 1), "array([0, 0.842701], dtype=float32)");
    unary(mlx_erfinv, FLOATS(0, 0.5f), "array([0, 0.476936], dtype=float32)");
    unary(mlx_degrees, FLOATS(0, 1), "array([0, 57.2958], dtype=float32)");
    unary(mlx_radians, INTS(0, 180), "array([0, 3.14159], dtype=float32)");
    binary(mlx_arctan2, FLOATS(1, -1), FLOATS(1, -1), "array([0.785398, -2.35619], dtype=float32)");
    binary(mlx_logaddexp, FLOATS(0, 1), FLOATS(0, 2), "array([0.693147, 2.31326], dtype=float32)");
    binary(mlx_power, INTS(2, -3), INTS(10, 3), "array([1024, -27], dtype=int32)");
}

static void test_silu_mul(void **state) {
    mlx_array r = mlx_array_new(), a = FLOATS(-1, 0, 2), b = INTS(1, 2, 3), four = INTS(1, 2, 3, 4),
              c = mlx_array_new();
    OK(keel_silu_mul(&r, a, b, cpu));
    assert_text(r, "array([-0.268941, 0, 5.28478], dtype=float32)");
    OK(mlx_astype(&c, b, MLX_COMPLEX64, cpu));
    FAILS(keel_silu_mul(&r, a, c, cpu), KEEL_EDTYPE,
          "keel_silu_mul: b is complex64; real numbers are taken");
    FAILS(keel_silu_mul(&r, c, b, cpu), KEEL_EDTYPE, "a is complex64");
    FAILS(keel_silu_mul(&r, a, four, cpu), KEEL_ESHAPE, "keel_silu_mul");
    FAILS(keel_silu_mul(NULL, a, b, cpu), KEEL_EARG, "the result is NULL");
    FAILS(keel_silu_mul(&r, no_array, b, cpu), KEEL_EARG, "a is an empty array handle");
    FAILS(keel_silu_mul(&r, a, no_array, cpu), KEEL_EARG, "b is an empty array handle");
    FAILS(keel_silu_mul(&r, a, b, no_stream), KEEL_EARG, "the stream is an empty handle");
    assert_text(r, "array([-0.268941, 0, 5.28478], dtype=float32)");
    mlx_array all[] = {a, b, r, c, four};
    for (int i = 0; i < 5; i++) mlx_array_free(all[i]);
}

static void test_whole(void **state) {
    unary(mlx_floor, FLOATS(1.5f, -1.5f), "array([1, -2], dtype=float32)");
    unary(mlx_ceil, FLOATS(1.5f, -1.5f), "array([2, -1], dtype=float32)");
    unary(mlx_sign, INTS(-5, 3), "array([-1, 1], dtype=int32)");
    unary(mlx_conjugate, INTS(1, 2), "array([1, 2], dtype=int32)");
    unary(mlx_real, FLOATS(1, 2), "array([1, 2], dtype=float32)");
    unary(mlx_imag, FLOATS(1, 2), "array([0, 0], dtype=float32)");
    binary(mlx_floor_divide, INTS(7, -7), INTS(2, 2), "array([3, -4], dtype=int32)");
    binary(mlx_remainder, INTS(7, -7), INTS(2, 2), "array([1, 1], dtype=int32)");
    mlx_array a = FLOATS(1.25f, 15), b = INTS(7, -7), n = INTS(2, 0), r = mlx_array_new();
    OK(mlx_round(&r, a, 1, cpu));
    assert_text(r, "array([1.2, 15], dtype=float32)");
    FAILS(mlx_round(&r, no_array, 1, cpu), KEEL_EARG, "empty");
    FAILS(mlx_round(&r, a, 1, no_stream), KEEL_EARG, "stream");
    FAILS(mlx_round(NULL, a, 1, cpu), KEEL_EARG, "NULL");
    mlx_vector_array both = mlx_vector_array_new();
    OK(mlx_divmod(&both, b, n, cpu));
    assert_int_equal(mlx_vector_array_size(both), 2);
    OK(mlx_vector_array_get(&r, both, 0));
    assert_text(r, "array([3, 0], dtype=int32)");
    OK(mlx_vector_array_get(&r, both, 1));
    assert_text(r, "array([1, 0], dtype=int32)");
    FAILS(mlx_divmod(&both, b, no_array, cpu), KEEL_EARG, "b is an empty");
    FAILS(mlx_divmod(&both, no_array, b, cpu), KEEL_EARG, "a is an empty");
    FAILS(mlx_divmod(&both, b, n, no_stream), KEEL_EARG, "stream");
    FAILS(mlx_divmod(NULL, b, n, cpu), KEEL_EARG, "NULL");
    assert_int_equal(mlx_vector_array_size(both), 2);
    mlx_vector_array_free(both);
    mlx_array all[] = {a, b, n, r};
    for (int i = 0; i < 4; i++) mlx_array_free(all[i]);
}

static void test_bits(void **state) {
    binary(mlx_bitwise_and, INTS(6, 5), INTS(3, 4), "array([2, 4], dtype=int32)");
    binary(mlx_bitwise_or, INTS(6, 5), INTS(3, 4), "array([7, 5], dtype=int32)");
    binary(mlx_bitwise_xor, INTS(6, 5), INTS(3, 4), "array([5, 1], dtype=int32)");
    binary(mlx_left_shift, INTS(6, 5), INTS(1, 32), "array([12, 0], dtype=int32)");
    binary(mlx_right_shift, INTS(6, -5), INTS(1, 32), "array([3, -1], dtype=int32)");
    unary(mlx_bitwise_invert, INTS(0, 5), "array([-1, -6], dtype=int32)");
    unary(mlx_to_fp8, FLOATS(1, -500), "array([56, 254], dtype=uint8)");
    mlx_array a = FLOATS(1, -500), codes = mlx_array_new(), r = mlx_array_new();
    OK(mlx_to_fp8(&codes, a, cpu));
    OK(mlx_from_fp8(&r, codes, MLX_FLOAT32, cpu));
    assert_text(r, "array([1, -448], dtype=float32)");
    FAILS(mlx_from_fp8(&r, a, MLX_FLOAT32, cpu), KEEL_EDTYPE, "mlx_from_fp8: ");
    FAILS(mlx_from_fp8(&r, no_array, MLX_FLOAT32, cpu), KEEL_EARG, "x is an empty");
    FAILS(mlx_from_fp8(&r, codes, MLX_FLOAT32, no_stream), KEEL_EARG, "stream");
    FAILS(mlx_from_fp8(NULL, codes, MLX_FLOAT32, cpu), KEEL_EARG, "NULL");
    FAILS(mlx_bitwise_and(&r, a, a, cpu), KEEL_EDTYPE, "mlx_bitwise_and: ");
    mlx_array all[] = {a, codes, r};
    for (int i = 0; i < 3; i++) mlx_array_free(all[i]);
}

static void test_questions(void **state) {
    float inf = (float)INFINITY, nan = (float)NAN;
    unary(mlx_isnan, FLOATS(1, nan), "array([False, True], dtype=bool)");
    unary(mlx_isinf, FLOATS(-inf, nan), "array([True, False], dtype=bool)");
    unary(mlx_isfinite, FLOATS(1, nan), "array([True, False], dtype=bool)");
    unary(mlx_isposinf, FLOATS(-inf, inf), "array([False, True], dtype=bool)");
    unary(mlx_isneginf, FLOATS(-inf, inf), "array([True, False], dtype=bool)");
    unary(mlx_stop_gradient, INTS(1, 2), "array([1, 2], dtype=int32)");
    mlx_array a = FLOATS(1, nan, inf), b = FLOATS(1.001f, nan, inf), two = INTS(1, 2),
              r = mlx_array_new();
    OK(mlx_isclose(&r, a, b, 1e-2, 0, false, cpu));
    assert_text(r, "array([True, False, True], dtype=bool)");
    OK(mlx_allclose(&r, a, b, 1e-2, 0, true, cpu));
    assert_text(r, "array(True, dtype=bool)");
    OK(mlx_array_equal(&r, a, b, true, cpu));
    assert_text(r, "array(False, dtype=bool)");
    OK(mlx_array_equal(&r, a, two, true, cpu));
    assert_text(r, "array(False, dtype=bool)");
    FAILS(mlx_isclose(&r, a, two, 0, 0, false, cpu), KEEL_ESHAPE, "mlx_isclose: ");
    FAILS(mlx_isclose(&r, a, no_array, 0, 0, false, cpu), KEEL_EARG, "b is an empty");
    FAILS(mlx_allclose(&r, no_array, a, 0, 0, false, cpu), KEEL_EARG, "a is an empty");
    FAILS(mlx_allclose(NULL, a, a, 0, 0, false, cpu), KEEL_EARG, "NULL");
    FAILS(mlx_array_equal(&r, no_array, a, false, cpu), KEEL_EARG, "a is an empty");
    FAILS(mlx_array_equal(&r, a, a, false, no_stream), KEEL_EARG, "stream");
    mlx_optional_float none = {0, false}, some = {5, true};
    OK(mlx_nan_to_num(&r, a, 2, some, none, cpu));
    assert_text(r, "array([1, 2, 5], dtype=float32)");
    OK(mlx_nan_to_num(&r, a, 2, none, none, cpu));
    assert_text(r, "array([1, 2, 3.40282e+38], dtype=float32)");
    FAILS(mlx_nan_to_num(&r, no_array, 2, none, none, cpu), KEEL_EARG, "a is an empty");
    FAILS(mlx_nan_to_num(&r, a, 2, none, none, no_stream), KEEL_EARG, "stream");
    mlx_array low = mlx_array_new_int(2), high = mlx_array_new_int(3), four = INTS(1, 2, 3, 4);
    OK(mlx_clip(&r, four, low, high, cpu));
    assert_text(r, "array([2, 2, 3, 3], dtype=int32)");
    OK(mlx_clip(&r, four, no_array, high, cpu));
    assert_text(r, "array([1, 2, 3, 3], dtype=int32)");
    FAILS(mlx_clip(&r, four, no_array, no_array, cpu), KEEL_EARG, "mlx_clip: ");
    FAILS(mlx_clip(&r, no_array, low, high, cpu), KEEL_EARG, "a is an empty");
    FAILS(mlx_clip(&r, four, low, high, no_stream), KEEL_EARG, "stream");
    mlx_array all[] = {a, b, two, r, low, high, four};
    for (int i = 0; i < 7; i++) mlx_array_free(all[i]);
}

static void leak_body(void) {
    test_silu_mul(NULL);
    test_whole(NULL);
    test_bits(NULL);
    test_questions(NULL);
}

static void test_no_leak(void **state) {
    assert_no_leak(leak_body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions), cmocka_unit_test(test_silu_mul),
        cmocka_unit_test(test_whole),     cmocka_unit_test(test_bits),
        cmocka_unit_test(test_questions), cmocka_unit_test(test_no_leak)};
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
