/* test_linalg.c - linear algebra through the C API: every function, and how each refuses. */
#include <keel/linalg.h>

#include "api/api_support.h"

#include <math.h>

static mlx_array r, second;

static void test_inverses(void **state) {
    mlx_array a = of_floats((float[]){2, 0, 1, 4}, LIST(2, 2), 2),
              b = of_floats((float[]){2, 5}, LIST(2), 1);
    OK(mlx_linalg_inv(&r, a, cpu));
    assert_text(r, "array([[0.5, 0],\n       [-0.125, 0.25]], dtype=float32)");
    OK(mlx_linalg_tri_inv(&r, a, false, cpu));
    assert_text(r, "array([[0.5, 0],\n       [-0.125, 0.25]], dtype=float32)");
    OK(mlx_linalg_tri_inv(&r, a, true, cpu));
    assert_text(r, "array([[0.5, 0],\n       [0, 0.25]], dtype=float32)");
    OK(mlx_linalg_cholesky_inv(&r, a, false, cpu));
    assert_text(r, "array([[0.265625, -0.03125],\n       [-0.03125, 0.0625]], dtype=float32)");
    OK(mlx_linalg_solve(&r, a, b, cpu));
    assert_text(r, "array([1, 1], dtype=float32)");
    OK(mlx_linalg_solve_triangular(&r, a, b, false, cpu));
    assert_text(r, "array([1, 1], dtype=float32)");
    FAILS(mlx_linalg_pinv(&r, b, cpu), KEEL_ESHAPE, "mlx_linalg_pinv: an array of shape (2)");
    mlx_array_free(a);
    mlx_array_free(b);
}

static void test_factors(void **state) {
    mlx_array a = of_floats((float[]){4, 2, 2, 5}, LIST(2, 2), 2),
              zero = of_floats((float[]){0, 2, 3, 0}, LIST(2, 2), 2), part = mlx_array_new();
    mlx_vector_array v = mlx_vector_array_new();
    OK(mlx_linalg_cholesky(&r, a, false, cpu));
    assert_text(r, "array([[2, 0],\n       [1, 2]], dtype=float32)");
    OK(mlx_linalg_cholesky(&r, a, true, cpu));
    assert_text(r, "array([[2, 1],\n       [0, 2]], dtype=float32)");
    OK(mlx_linalg_lu(&v, zero, cpu));
    assert_int_equal(mlx_vector_array_size(v), 3);
    OK(mlx_vector_array_get(&part, v, 0));
    assert_text(part, "array([1, 0], dtype=uint32)");
    OK(mlx_vector_array_get(&part, v, 2));
    assert_text(part, "array([[3, 0],\n       [0, 2]], dtype=float32)");
    OK(mlx_linalg_lu_factor(&r, &second, zero, cpu));
    assert_text(r, "array([[3, 0],\n       [0, 2]], dtype=float32)");
    assert_text(second, "array([1, 1], dtype=uint32)");
    OK(mlx_linalg_qr(&r, &second, zero, cpu));
    assert_int_equal(mlx_array_size(r) + mlx_array_size(second), 8);
    OK(mlx_linalg_svd(&v, zero, true, cpu));
    assert_int_equal(mlx_vector_array_size(v), 3);
    OK(mlx_linalg_svd(&v, zero, false, cpu));
    assert_int_equal(mlx_vector_array_size(v), 1);
    OK(mlx_vector_array_get(&part, v, 0));
    assert_text(part, "array([3, 2], dtype=float32)");
    OK(mlx_linalg_pinv(&r, zero, cpu));
    assert_int_equal(mlx_array_size(r), 4);
    OK(keel_linalg_det(&r, zero, cpu));
    assert_text(r, "array(-6, dtype=float32)");
    OK(keel_linalg_slogdet(&r, &second, zero, cpu));
    assert_text(r, "array(-1, dtype=float32)");
    assert_text(second, "array(1.79176, dtype=float32)");
    OK(mlx_linalg_eigh(&r, &second, zero, "L", cpu));
    assert_text(r, "array([-3, 3], dtype=float32)");
    OK(mlx_linalg_eigvalsh(&r, zero, "U", cpu));
    assert_text(r, "array([-2, 2], dtype=float32)");
    OK(mlx_linalg_eig(&r, &second, zero, cpu));
    assert_int_equal(mlx_array_dtype(second), MLX_COMPLEX64);
    OK(mlx_linalg_eigvals(&r, zero, cpu));
    assert_int_equal(mlx_array_size(r), 2);
    FAILS(mlx_linalg_eigh(&r, &second, zero, "X", cpu), KEEL_EARG,
          "mlx_linalg_eigh: UPLO is \"X\"");
    FAILS(mlx_linalg_eigvalsh(&r, zero, NULL, cpu), KEEL_EARG, "mlx_linalg_eigvalsh: UPLO");
    FAILS(mlx_linalg_eigh(&r, NULL, zero, "L", cpu), KEEL_EARG, "res_1 is NULL");
    FAILS(keel_linalg_slogdet(&r, NULL, zero, cpu), KEEL_EARG, "res_1 is NULL");
    FAILS(mlx_linalg_lu(NULL, zero, cpu), KEEL_EARG, "the result is NULL");
    FAILS(mlx_linalg_svd(&v, no_array, false, cpu), KEEL_EARG, "a is an empty array handle");
    FAILS(mlx_linalg_inv(&r, zero, no_stream), KEEL_EARG, "the stream is an empty handle");
    mlx_array_free(a);
    mlx_array_free(zero);
    mlx_array_free(part);
    mlx_vector_array_free(v);
}

static void test_norms(void **state) {
    mlx_array a = of_floats((float[]){3, 0, 0, -4}, LIST(2, 2), 2),
              x = of_floats((float[]){1, 0, 0}, LIST(3), 1),
              y = of_floats((float[]){0, 1, 0}, LIST(3), 1);
    static const struct {
        double ord;
        const char *text;
    } of_matrices[] = {{1, "4"}, {-1, "3"}, {2, "4"}, {-2, "3"}, {INFINITY, "4"}, {-INFINITY, "3"}},
      of_vectors[] = {
          {0, "1, 1"}, {1, "3, 4"}, {2, "3, 4"}, {INFINITY, "3, 4"}, {-INFINITY, "0, 0"}};
    char text[64];
    for (int i = 0; i < 6; i++) {
        OK(mlx_linalg_norm(&r, a, of_matrices[i].ord, NULL, 0, false, cpu));
        snprintf(text, sizeof text, "array(%s, dtype=float32)", of_matrices[i].text);
        assert_text(r, text);
        OK(mlx_linalg_norm(&r, a, of_matrices[i].ord, LIST(1, 0), 2, true, cpu));
        snprintf(text, sizeof text, "array([[%s]], dtype=float32)", of_matrices[i].text);
        assert_text(r, text);
    }
    for (int i = 0; i < 5; i++) {
        OK(mlx_linalg_norm(&r, a, of_vectors[i].ord, LIST(-1), 1, false, cpu));
        snprintf(text, sizeof text, "array([%s], dtype=float32)", of_vectors[i].text);
        assert_text(r, text);
    }
    OK(mlx_linalg_norm_matrix(&r, a, "fro", NULL, 0, false, cpu));
    assert_text(r, "array(5, dtype=float32)");
    OK(mlx_linalg_norm_matrix(&r, a, "nuc", NULL, 0, false, cpu));
    assert_text(r, "array(7, dtype=float32)");
    OK(mlx_linalg_norm_l2(&r, a, NULL, 0, true, cpu));
    assert_text(r, "array([[5]], dtype=float32)");
    OK(mlx_linalg_cross(&r, x, y, -1, cpu));
    assert_text(r, "array([0, 0, 1], dtype=float32)");
    FAILS(mlx_linalg_norm(&r, a, 3, NULL, 0, false, cpu), KEEL_EARG,
          "mlx_linalg_norm: a norm of matrices of order 3");
    FAILS(mlx_linalg_cross(&r, x, no_array, -1, cpu), KEEL_EARG, "b is an empty array handle");
    mlx_array_free(a);
    mlx_array_free(x);
    mlx_array_free(y);
}

/* The failure of a matrix is that of the value. */
static void test_failures(void **state) {
    mlx_array a = of_floats((float[]){1, 0, 0, 1, 1, 2, 2, 4}, LIST(2, 2, 2), 3);
    OK(mlx_linalg_inv(&r, a, cpu));
    FAILS(mlx_array_eval(r), KEEL_EMATRIX, "inv: matrix 1 of the batch is singular");
    mlx_array_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_inverses),
                                       cmocka_unit_test(test_factors), cmocka_unit_test(test_norms),
                                       cmocka_unit_test(test_failures)};
    r = mlx_array_new();
    second = mlx_array_new();
    int failed = cmocka_run_group_tests(tests, api_setup, api_teardown);
    mlx_array_free(r);
    mlx_array_free(second);
    return failed;
}
