/* test_norm.c - norms and rotary position embedding through the C API. */
#include "api/api_support.h"

static void test_norms(void **state) {
    mlx_array x = of_floats((float[]){1, 1, -1, -1, 3, 3, 3, 3}, LIST(2, 4), 2),
              r = mlx_array_new();
    mlx_array w = of_floats((float[]){1, 2, 3, 4}, LIST(4), 1),
              three = of_floats((float[]){1, 2, 3}, LIST(3), 1);
    OK(mlx_fast_rms_norm(&r, x, no_array, 0, cpu));
    assert_text(r, "array([[1, 1, -1, -1],\n       [1, 1, 1, 1]], dtype=float32)");
    OK(mlx_fast_rms_norm(&r, x, w, 0, cpu));
    assert_text(r, "array([[1, 2, -3, -4],\n       [1, 2, 3, 4]], dtype=float32)");
    OK(mlx_fast_layer_norm(&r, x, w, w, 1e-12f, cpu));
    assert_text(r, "array([[2, 4, 0, 0],\n       [1, 2, 3, 4]], dtype=float32)");
    OK(mlx_fast_layer_norm(&r, x, no_array, no_array, 3, cpu));
    assert_text(r, "array([[0.5, 0.5, -0.5, -0.5],\n       [0, 0, 0, 0]], dtype=float32)");
    FAILS(mlx_fast_rms_norm(&r, x, three, 0, cpu), KEEL_ESHAPE,
          "mlx_fast_rms_norm: weight has shape (3)");
    FAILS(mlx_fast_layer_norm(&r, x, w, three, 0, cpu), KEEL_ESHAPE, "mlx_fast_layer_norm: bias");
    FAILS(mlx_fast_rms_norm(&r, no_array, w, 0, cpu), KEEL_EARG, "x is an empty array handle");
    FAILS(mlx_fast_layer_norm(&r, x, w, w, 0, no_stream), KEEL_EARG,
          "the stream is an empty handle");
    FAILS(mlx_fast_rms_norm(NULL, x, w, 0, cpu), KEEL_EARG, "the result is NULL");
    mlx_array_free(x);
    mlx_array_free(w);
    mlx_array_free(three);
    mlx_array_free(r);
}

static void test_rope(void **state) {
    mlx_array x = of_floats((float[]){1, 0, 0, 1}, LIST(1, 2, 2), 3), r = mlx_array_new();
    mlx_array freqs = of_floats((float[]){0.5f}, LIST(1), 1), at = mlx_array_new_int(1);
    mlx_optional_float base = {10000, true}, none = {0, false};
    OK(mlx_fast_rope(&r, x, 2, true, base, 1, 0, no_array, cpu));
    assert_text(r, "array([[[1, 0],\n        [-0.841471, 0.540302]]], dtype=float32)");
    OK(mlx_fast_rope(&r, x, 2, false, none, 1, 0, freqs, cpu));
    assert_text(r, "array([[[1, 0],\n        [-0.909297, -0.416147]]], dtype=float32)");
    OK(mlx_fast_rope_dynamic(&r, x, 2, false, base, 2, at, no_array, cpu));
    assert_text(r,
                "array([[[-0.416147, 0.909297],\n        [0.756802, -0.653644]]], dtype=float32)");
    FAILS(mlx_fast_rope(&r, x, 3, true, base, 1, 0, no_array, cpu), KEEL_EARG,
          "mlx_fast_rope: dims is 3");
    FAILS(mlx_fast_rope(&r, x, 2, true, none, 1, 0, no_array, cpu), KEEL_EARG, "mlx_fast_rope: ");
    FAILS(mlx_fast_rope(&r, no_array, 2, true, base, 1, 0, no_array, cpu), KEEL_EARG,
          "x is an empty");
    FAILS(mlx_fast_rope_dynamic(&r, x, 2, true, base, 1, no_array, no_array, cpu), KEEL_EARG,
          "offset is an empty array handle");
    FAILS(mlx_fast_rope_dynamic(&r, x, 2, true, base, 1, x, no_array, cpu), KEEL_EDTYPE,
          "mlx_fast_rope_dynamic: offset is float32");
    FAILS(mlx_fast_rope(&r, x, 2, true, base, 1, 0, no_array, no_stream), KEEL_EARG, "the stream");
    mlx_array_free(x);
    mlx_array_free(freqs);
    mlx_array_free(at);
    mlx_array_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_norms), cmocka_unit_test(test_rope)};
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
