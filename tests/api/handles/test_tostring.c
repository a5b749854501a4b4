/* test_tostring.c - mlx_array_tostring. The expected texts were printed by MLX 0.32. */
#include "api/api_support.h"

#include <locale.h>
#include <math.h>

static mlx_array of(mlx_dtype dtype, const void *data, int n) {
    mlx_array a = mlx_array_new_data(data, &n, 1, dtype);
    assert_non_null(a.ctx);
    return a;
}

static void check(mlx_array a, const char *text) {
    assert_text(a, text);
    mlx_array_free(a);
}

static void test_dtypes(void **state) {
    check(of(MLX_BOOL, (bool[]){true, false}, 2), "array([True, False], dtype=bool)");
    check(of(MLX_UINT8, (uint8_t[]){0, 255}, 2), "array([0, 255], dtype=uint8)");
    check(of(MLX_UINT16, (uint16_t[]){0, 65535}, 2), "array([0, 65535], dtype=uint16)");
    check(of(MLX_UINT32, (uint32_t[]){4294967295}, 1), "array([4294967295], dtype=uint32)");
    check(of(MLX_UINT64, (uint64_t[]){UINT64_MAX}, 1),
          "array([18446744073709551615], dtype=uint64)");
    check(of(MLX_INT8, (int8_t[]){-128, 127}, 2), "array([-128, 127], dtype=int8)");
    check(of(MLX_INT16, (int16_t[]){-32768, 7}, 2), "array([-32768, 7], dtype=int16)");
    check(of(MLX_INT32, (int32_t[]){INT32_MIN}, 1), "array([-2147483648], dtype=int32)");
    check(of(MLX_INT64, (int64_t[]){INT64_MIN}, 1), "array([-9223372036854775808], dtype=int64)");
    check(of(MLX_FLOAT16, (uint16_t[]){0x3c00, 0x7bff, 0x4248}, 3),
          "array([1, 65504, 3.14062], dtype=float16)");
    check(of(MLX_BFLOAT16, (uint16_t[]){0x3f80, 0x4049}, 2), "array([1, 3.14062], dtype=bfloat16)");
}

static void test_floats(void **state) {
    check(FLOATS(NAN, INFINITY, -INFINITY, -0.0f, 0.1f),
          "array([nan, inf, -inf, -0, 0.1], dtype=float32)");
    check(FLOATS(-NAN), "array([-nan], dtype=float32)");
    check(FLOATS(123456, 1234567, 0.0001f, 0.00001234567f, 99999.95f, 999999.5f),
          "array([123456, 1.23457e+06, 0.0001, 1.23457e-05, 100000, 1e+06], dtype=float32)");
    check(FLOATS(1e-45f, 1.17549e-38f, 3.4028235e38f),
          "array([1.4013e-45, 1.17549e-38, 3.40282e+38], dtype=float32)");
    check(of(MLX_FLOAT64, (double[]){3.14159265358979, 1e20, 123456789.0}, 3),
          "array([3.14159, 1e+20, 1.23457e+08], dtype=float64)");
}

static void test_complex(void **state) {
    check(of(MLX_COMPLEX64, (float[]){1, 2, 1, -2, NAN, INFINITY, 0.1f, -0.0f, -1e10f, 1e-10f}, 5),
          "array([1+2j, 1-2j, nan+infj, 0.1+-0j, -1e+10+1e-10j], dtype=complex64)");
    check(of(MLX_COMPLEX64, (float[]){1, NAN, 1, -NAN, 1, -INFINITY, -0.0f, -0.0f}, 4),
          "array([1+nanj, 1+-nanj, 1-infj, -0+-0j], dtype=complex64)");
    check(mlx_array_new_complex(1, -2), "array(1-2j, dtype=complex64)");
}

static void test_shapes(void **state) {
    check(grid(2, 3), "array([[0, 1, 2],\n"
                      "       [3, 4, 5]], dtype=int32)");
    check(grid(1, 1), "array([[0]], dtype=int32)");
    const int v[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    check(of_ints(v, LIST(2, 2, 2), 3), "array([[[0, 1],\n"
                                        "        [2, 3]],\n"
                                        "       [[4, 5],\n"
                                        "        [6, 7]]], dtype=int32)");
    check(of_ints(v, LIST(1, 2, 1, 2), 4), "array([[[[0, 1]],\n"
                                           "        [[2, 3]]]], dtype=int32)");
    check(of_ints(v, LIST(1, 1, 1), 3), "array([[[0]]], dtype=int32)");
}

static void test_empty_shapes(void **state) {
    check(of_ints(NULL, LIST(0), 1), "array([], dtype=int32)");
    check(of_ints(NULL, LIST(0, 3), 2), "array([], dtype=int32)");
    check(of_ints(NULL, LIST(0, 2, 2), 3), "array([], dtype=int32)");
    check(of_ints(NULL, LIST(3, 0), 2), "array([[],\n       [],\n       []], dtype=int32)");
    check(of_ints(NULL, LIST(2, 0, 8), 3), "array([[],\n       []], dtype=int32)");
    check(of_ints(NULL, LIST(8, 0), 2), "array([[],\n       [],\n       [],\n       ...,\n"
                                        "       [],\n       [],\n       []], dtype=int32)");
}

static void test_summaries(void **state) {
    check(INTS(0, 1, 2, 3, 4, 5), "array([0, 1, 2, 3, 4, 5], dtype=int32)");
    check(INTS(0, 1, 2, 3, 4, 5, 6), "array([0, 1, 2, ..., 4, 5, 6], dtype=int32)");
    check(grid(7, 2), "array([[0, 1],\n       [2, 3],\n       [4, 5],\n       ...,\n"
                      "       [8, 9],\n       [10, 11],\n       [12, 13]], dtype=int32)");
    check(grid(2, 7), "array([[0, 1, 2, ..., 4, 5, 6],\n"
                      "       [7, 8, 9, ..., 11, 12, 13]], dtype=int32)");
    check(grid(7, 7), "array([[0, 1, 2, ..., 4, 5, 6],\n"
                      "       [7, 8, 9, ..., 11, 12, 13],\n"
                      "       [14, 15, 16, ..., 18, 19, 20],\n"
                      "       ...,\n"
                      "       [28, 29, 30, ..., 32, 33, 34],\n"
                      "       [35, 36, 37, ..., 39, 40, 41],\n"
                      "       [42, 43, 44, ..., 46, 47, 48]], dtype=int32)");
    int v[64];
    for (int i = 0; i < 64; i++) v[i] = i;
    check(of_ints(v, LIST(8, 1, 8), 3), "array([[[0, 1, 2, ..., 5, 6, 7]],\n"
                                        "       [[8, 9, 10, ..., 13, 14, 15]],\n"
                                        "       [[16, 17, 18, ..., 21, 22, 23]],\n"
                                        "       ...,\n"
                                        "       [[40, 41, 42, ..., 45, 46, 47]],\n"
                                        "       [[48, 49, 50, ..., 53, 54, 55]],\n"
                                        "       [[56, 57, 58, ..., 61, 62, 63]]], dtype=int32)");
    check(of_ints(v, LIST(1, 7, 1), 3), "array([[[0],\n        [1],\n        [2],\n        ...,\n"
                                        "        [4],\n        [5],\n        [6]]], dtype=int32)");
    int n = 1000000, *many = calloc((size_t)n, sizeof *many);
    for (int i = 0; i < n; i++) many[i] = i;
    check(of_ints(many, &n, 1), "array([0, 1, 2, ..., 999997, 999998, 999999], dtype=int32)");
    free(many);
}

static void test_views(void **state) {
    mlx_array a = grid(3, 4), r = mlx_array_new(), b = INTS(1, 2);
    OK(mlx_transpose(&r, a, cpu));
    assert_text(r, "array([[0, 4, 8],\n       [1, 5, 9],\n       [2, 6, 10],\n"
                   "       [3, 7, 11]], dtype=int32)");
    OK(mlx_broadcast_to(&r, b, AXES(3, 2), cpu));
    assert_text(r, "array([[1, 2],\n       [1, 2],\n       [1, 2]], dtype=int32)");
    OK(mlx_slice(&r, a, AXES(2, 3), AXES(-4, -5), AXES(-2, -3), cpu));
    assert_text(r, "array([[11, 8],\n       [3, 0]], dtype=int32)");
    mlx_array_free(a);
    mlx_array_free(b);
    mlx_array_free(r);
}

/* As many axes as an array can have: every bracket is closed, and the stack does not overflow. */
static void test_deep(void **state) {
    enum { DEEP = 64 };
    int shape[DEEP], v[2] = {1, 2};
    for (int i = 0; i < DEEP; i++) shape[i] = 1;
    shape[DEEP - 1] = 2;
    mlx_array a = of_ints(v, shape, DEEP);
    const char *text = text_of(a);
    assert_int_equal(strspn(text + 6, "["), DEEP);
    assert_non_null(strstr(text, "1, 2]"));
    assert_int_equal(strspn(strchr(text, ']'), "]"), DEEP);
    mlx_array_free(a);
}

/* The locale's decimal comma does not get into the text. The test is skipped where no such locale
 * is installed. */
static void test_locale(void **state) {
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) skip();
    check(FLOATS(1.5f, 1e-7f), "array([1.5, 1e-07], dtype=float32)");
    setlocale(LC_NUMERIC, "C");
}

static void test_errors(void **state) {
    mlx_string s = mlx_string_new();
    mlx_array a = INTS(1), at = INTS(9), r = mlx_array_new();
    FAILS(mlx_array_tostring(&s, no_array), KEEL_EARG, "empty array handle");
    FAILS(mlx_array_tostring(NULL, a), KEEL_EARG, "the result is NULL");
    OK(mlx_take_axis(&r, a, at, 0, cpu));
    FAILS(mlx_array_tostring(&s, r), KEEL_EINDEX, "9");
    assert_null(s.ctx);
    mlx_array_free(a);
    mlx_array_free(at);
    mlx_array_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtypes),       cmocka_unit_test(test_floats),
        cmocka_unit_test(test_complex),      cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_empty_shapes), cmocka_unit_test(test_summaries),
        cmocka_unit_test(test_views),        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_locale),       cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
