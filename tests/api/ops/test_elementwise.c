/* test_elementwise.c - the element-wise operations and the matrix product through the C API, each
 * with good and bad arguments. tests/ops has the tests of their values. */
#include "api/api_support.h"

typedef int binary_fn(mlx_array *, const mlx_array, const mlx_array, const mlx_stream);
typedef int unary_fn(mlx_array *, const mlx_array, const mlx_stream);

/* Compares the result of the operation on a and b; releases both. */
static void binary(binary_fn *f, mlx_array a, mlx_array b, const char *text) {
    mlx_array r = mlx_array_new(), three = FLOATS(1, 2, 3), four = FLOATS(1, 2, 3, 4);
    OK(f(&r, a, b, cpu));
    assert_text(r, text);
    void *ctx = r.ctx;
    FAILS(f(NULL, a, b, cpu), KEEL_EARG, "the result is NULL");
    FAILS(f(&r, no_array, b, cpu), KEEL_EARG, "a is an empty array handle");
    FAILS(f(&r, a, no_array, cpu), KEEL_EARG, "b is an empty array handle");
    FAILS(f(&r, a, b, no_stream), KEEL_EARG, "the stream is an empty handle");
    FAILS(f(&r, three, four, cpu), KEEL_ESHAPE, "mlx_");
    assert_ptr_equal(r.ctx, ctx);
    assert_text(r, text); /* the result is unchanged */
    OK(f(&r, a, b, cpu));
    assert_ptr_equal(r.ctx, ctx);
    OK(f(&a, a, b, cpu)); /* the result may be the handle of an operand */
    assert_text(a, text);
    mlx_array all[] = {a, b, r, three, four};
    for (int i = 0; i < 5; i++) mlx_array_free(all[i]);
}

static void test_arithmetic(void **state) {
    binary(mlx_add, INTS(1, 2), INTS(10, 20), "array([11, 22], dtype=int32)");
    binary(mlx_add, INTS(2147483647), INTS(1), "array([-2147483648], dtype=int32)");
    binary(mlx_subtract, FLOATS(1, 2), FLOATS(0.5f, 4), "array([0.5, -2], dtype=float32)");
    binary(mlx_multiply, INTS(3, 4), FLOATS(0.5f, 2), "array([1.5, 8], dtype=float32)");
    binary(mlx_divide, INTS(1, 6), INTS(2, 4), "array([0.5, 1.5], dtype=float32)");
    binary(mlx_maximum, FLOATS(1, 5), FLOATS(2, 3), "array([2, 5], dtype=float32)");
    binary(mlx_minimum, FLOATS(1, 5), FLOATS(2, 3), "array([1, 3], dtype=float32)");
}

static void test_comparisons(void **state) {
    binary(mlx_equal, INTS(1, 2), INTS(1, 3), "array([True, False], dtype=bool)");
    binary(mlx_not_equal, INTS(1, 2), INTS(1, 3), "array([False, True], dtype=bool)");
    binary(mlx_less, INTS(1, 3), INTS(1, 4), "array([False, True], dtype=bool)");
    binary(mlx_less_equal, INTS(1, 5), INTS(1, 4), "array([True, False], dtype=bool)");
    binary(mlx_greater, INTS(1, 5), INTS(1, 4), "array([False, True], dtype=bool)");
    binary(mlx_greater_equal, INTS(1, 3), INTS(1, 4), "array([True, False], dtype=bool)");
    binary(mlx_logical_and, INTS(1, 2), INTS(0, 3), "array([False, True], dtype=bool)");
    binary(mlx_logical_or, INTS(0, 0), INTS(0, 3), "array([False, True], dtype=bool)");
}

static void test_broadcast(void **state) {
    mlx_array column = of_ints(LIST(10, 20), LIST(2, 1), 2), row = INTS(1, 2, 3);
    binary(mlx_add, column, row, "array([[11, 12, 13],\n       [21, 22, 23]], dtype=int32)");
}

static void unary(unary_fn *f, mlx_array a, const char *text) {
    mlx_array r = mlx_array_new();
    OK(f(&r, a, cpu));
    assert_text(r, text);
    FAILS(f(NULL, a, cpu), KEEL_EARG, "the result is NULL");
    FAILS(f(&r, no_array, cpu), KEEL_EARG, "a is an empty array handle");
    FAILS(f(&r, a, no_stream), KEEL_EARG, "the stream is an empty handle");
    assert_text(r, text);
    OK(f(&a, a, cpu));
    assert_text(a, text);
    mlx_array_free(a);
    mlx_array_free(r);
}

static void test_unary(void **state) {
    unary(mlx_negative, INTS(1, -2), "array([-1, 2], dtype=int32)");
    unary(mlx_abs, FLOATS(-1.5f, 2), "array([1.5, 2], dtype=float32)");
    unary(mlx_exp, FLOATS(0, 1), "array([1, 2.71828], dtype=float32)");
    unary(mlx_log, FLOATS(1, 10), "array([0, 2.30259], dtype=float32)");
    unary(mlx_sqrt, INTS(4, 2), "array([2, 1.41421], dtype=float32)");
    unary(mlx_square, INTS(-3, 4), "array([9, 16], dtype=int32)");
    unary(mlx_logical_not, INTS(0, 4), "array([True, False], dtype=bool)");
    mlx_array yes = mlx_array_new_bool(true), r = mlx_array_new();
    FAILS(mlx_negative(&r, yes, cpu), KEEL_EDTYPE, "mlx_negative: ");
    mlx_array_free(yes);
}

static void test_where(void **state) {
    mlx_array c = INTS(1, 0, 1), x = INTS(1, 2, 3), y = FLOATS(9), r = mlx_array_new(),
              two = INTS(1, 2);
    OK(mlx_where(&r, c, x, y, cpu));
    assert_text(r, "array([1, 9, 3], dtype=float32)");
    FAILS(mlx_where(NULL, c, x, y, cpu), KEEL_EARG, "the result is NULL");
    FAILS(mlx_where(&r, no_array, x, y, cpu), KEEL_EARG, "condition is an empty array");
    FAILS(mlx_where(&r, c, no_array, y, cpu), KEEL_EARG, "x is an empty array");
    FAILS(mlx_where(&r, c, x, no_array, cpu), KEEL_EARG, "y is an empty array");
    FAILS(mlx_where(&r, c, x, y, no_stream), KEEL_EARG, "stream");
    FAILS(mlx_where(&r, c, x, two, cpu), KEEL_ESHAPE, "mlx_where: ");
    mlx_array all[] = {c, x, y, r, two};
    for (int i = 0; i < 5; i++) mlx_array_free(all[i]);
}

static void test_matmul(void **state) {
    mlx_array a = of_floats((float[]){1, 2, 3, 4}, LIST(2, 2), 2), r = mlx_array_new();
    mlx_array b = of_floats((float[]){5, 6, 7, 8}, LIST(2, 2), 2), scalar = mlx_array_new_float(1);
    mlx_array v = FLOATS(1, 2, 3), i = grid(2, 2);
    OK(mlx_matmul(&r, a, b, cpu));
    assert_text(r, "array([[19, 22],\n       [43, 50]], dtype=float32)");
    OK(mlx_matmul(&r, r, r, cpu));
    assert_text(r, "array([[1307, 1518],\n       [2967, 3446]], dtype=float32)");
    FAILS(mlx_matmul(&r, a, v, cpu), KEEL_ESHAPE, "mlx_matmul: ");
    FAILS(mlx_matmul(&r, a, scalar, cpu), KEEL_ESHAPE, "mlx_matmul: ");
    FAILS(mlx_matmul(&r, i, i, cpu), KEEL_EDTYPE, "mlx_matmul: ");
    FAILS(mlx_matmul(NULL, a, b, cpu), KEEL_EARG, "the result is NULL");
    FAILS(mlx_matmul(&r, no_array, b, cpu), KEEL_EARG, "empty");
    FAILS(mlx_matmul(&r, a, no_array, cpu), KEEL_EARG, "empty");
    FAILS(mlx_matmul(&r, a, b, no_stream), KEEL_EARG, "stream");
    mlx_array all[] = {a, b, r, scalar, v, i};
    for (int k = 0; k < 6; k++) mlx_array_free(all[k]);
}

static void leak_body(void) {
    test_arithmetic(NULL);
    test_unary(NULL);
    test_where(NULL);
    test_matmul(NULL);
}

static void test_no_leak(void **state) {
    assert_no_leak(leak_body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic), cmocka_unit_test(test_comparisons),
        cmocka_unit_test(test_broadcast),  cmocka_unit_test(test_unary),
        cmocka_unit_test(test_where),      cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_no_leak),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
