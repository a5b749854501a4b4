/* test_shape_rearrange.c - views of memory, repeated and moved elements, matrices by their
 * diagonals, and windows, through the C API. */
#include "api/api_support.h"

static void test_views(void **state) {
    mlx_array a = grid(2, 3), r = mlx_array_new(), s = mlx_array_new_int(1);
    OK(mlx_as_strided(&r, a, AXES(2, 2), (int64_t[]){-1, 2}, 2, 3, cpu));
    assert_text(r, "array([[3, 5],\n       [2, 4]], dtype=int32)");
    OK(mlx_view(&r, a, MLX_INT16, cpu));
    assert_text(r, "array([[0, 0, 1, 0, 2, 0],\n       [3, 0, 4, 0, 5, 0]], dtype=int16)");
    OK(mlx_diagonal(&r, a, 1, 0, 1, cpu));
    assert_text(r, "array([1, 5], dtype=int32)");
    OK(mlx_diag(&r, r, 0, cpu));
    assert_text(r, "array([[1, 0],\n       [0, 5]], dtype=int32)");
    OK(mlx_trace(&r, a, 0, 0, 1, MLX_FLOAT32, cpu));
    assert_text(r, "array(4, dtype=float32)");
    OK(mlx_unflatten(&r, a, 1, AXES(-1, 1), cpu));
    assert_shape(r, AXES(2, 3, 1));
    OK(mlx_atleast_1d(&r, s, cpu));
    assert_shape(r, AXES(1));
    OK(mlx_atleast_2d(&r, s, cpu));
    assert_shape(r, AXES(1, 1));
    OK(mlx_atleast_3d(&r, a, cpu));
    assert_shape(r, AXES(2, 3, 1));
    OK(mlx_number_of_elements(&r, a, AXES(0, 1), false, MLX_INT64, cpu));
    assert_text(r, "array(6, dtype=int64)");
    OK(mlx_number_of_elements(&r, a, AXES(0), true, MLX_FLOAT32, cpu));
    assert_text(r, "array(0.5, dtype=float32)");
    void *ctx = r.ctx;
    FAILS(mlx_as_strided(&r, a, AXES(7), (int64_t[]){1}, 1, 0, cpu), KEEL_ESHAPE,
          "mlx_as_strided: shape (7) with these strides from element 0 reaches beyond the 6");
    FAILS(mlx_as_strided(&r, no_array, AXES(7), (int64_t[]){1}, 1, 0, cpu), KEEL_EARG,
          "empty array");
    FAILS(mlx_view(&r, a, MLX_INT64, cpu), KEEL_ESHAPE, "mlx_view: ");
    FAILS(mlx_view(&r, s, MLX_INT64, cpu), KEEL_ESHAPE, "0-d");
    FAILS(mlx_view(&r, no_array, MLX_INT64, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_diagonal(&r, a, 0, 0, 0, cpu), KEEL_EAXIS, "mlx_diagonal: ");
    FAILS(mlx_diagonal(&r, no_array, 0, 0, 0, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_diag(&r, s, 0, cpu), KEEL_ESHAPE, "mlx_diag: ");
    FAILS(mlx_trace(&r, a, 0, 0, 2, MLX_INT32, cpu), KEEL_EAXIS, "mlx_trace: ");
    FAILS(mlx_unflatten(&r, a, 1, AXES(2, 2), cpu), KEEL_ESHAPE, "mlx_unflatten: ");
    FAILS(mlx_atleast_1d(&r, no_array, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_atleast_2d(&r, no_array, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_atleast_3d(&r, a, no_stream), KEEL_EARG, "stream");
    FAILS(mlx_number_of_elements(&r, a, AXES(5), true, MLX_FLOAT32, cpu), KEEL_EAXIS, "axis 5");
    assert_ptr_equal(r.ctx, ctx);
    mlx_array_free(a);
    mlx_array_free(r);
    mlx_array_free(s);
}

static void test_moves(void **state) {
    mlx_array a = INTS(0, 1, 2), m = grid(2, 2), r = mlx_array_new(), v = mlx_array_new_int(9);
    OK(mlx_pad(&r, a, AXES(0), AXES(1), AXES(2), v, "constant", cpu));
    assert_text(r, "array([9, 0, 1, 2, 9, 9], dtype=int32)");
    OK(mlx_pad(&r, a, AXES(0), AXES(1), AXES(2), no_array, "edge", cpu));
    assert_text(r, "array([0, 0, 1, 2, 2, 2], dtype=int32)");
    OK(mlx_pad_symmetric(&r, a, 1, v, "constant", cpu));
    assert_text(r, "array([9, 0, 1, 2, 9], dtype=int32)");
    OK(mlx_tile(&r, a, AXES(2), cpu));
    assert_text(r, "array([0, 1, 2, 0, 1, 2], dtype=int32)");
    OK(mlx_repeat(&r, a, 2, cpu));
    assert_text(r, "array([0, 0, 1, 1, 2, 2], dtype=int32)");
    OK(mlx_repeat_axis(&r, m, 2, 1, cpu));
    assert_text(r, "array([[0, 0, 1, 1],\n       [2, 2, 3, 3]], dtype=int32)");
    OK(mlx_roll(&r, m, AXES(1), cpu));
    assert_text(r, "array([[3, 0],\n       [1, 2]], dtype=int32)");
    OK(mlx_roll_axis(&r, a, AXES(1), 0, cpu));
    assert_text(r, "array([2, 0, 1], dtype=int32)");
    OK(mlx_roll_axes(&r, m, AXES(1, 1), AXES(0, 1), cpu));
    assert_text(r, "array([[3, 2],\n       [1, 0]], dtype=int32)");
    OK(mlx_slice_update_add(&r, a, v, AXES(0), AXES(2), AXES(1), cpu));
    assert_text(r, "array([9, 10, 2], dtype=int32)");
    OK(mlx_slice_update_prod(&r, a, v, AXES(0), AXES(2), AXES(1), cpu));
    assert_text(r, "array([0, 9, 2], dtype=int32)");
    OK(mlx_slice_update_max(&r, a, v, AXES(0), AXES(2), AXES(1), cpu));
    assert_text(r, "array([9, 9, 2], dtype=int32)");
    OK(mlx_slice_update_min(&r, a, v, AXES(0), AXES(2), AXES(1), cpu));
    assert_text(r, "array([0, 1, 2], dtype=int32)");
    void *ctx = r.ctx;
    FAILS(mlx_pad(&r, a, AXES(0), AXES(1), AXES(2), no_array, "constant", cpu), KEEL_EARG,
          "mlx_pad: pad_value");
    FAILS(mlx_pad(&r, a, AXES(0), AXES(1), AXES(2), v, "wrong", cpu), KEEL_EARG, "\"wrong\"");
    FAILS(mlx_pad_symmetric(&r, a, -1, v, "constant", cpu), KEEL_EARG, "mlx_pad_symmetric: ");
    FAILS(mlx_tile(&r, a, AXES(-1), cpu), KEEL_EARG, "mlx_tile: ");
    FAILS(mlx_repeat(&r, a, -1, cpu), KEEL_EARG, "mlx_repeat: ");
    FAILS(mlx_repeat_axis(&r, a, 1, 1, cpu), KEEL_EAXIS, "mlx_repeat_axis: ");
    FAILS(mlx_roll(&r, a, NULL, 1, cpu), KEEL_EARG, "mlx_roll: ");
    FAILS(mlx_roll_axis(&r, a, AXES(1), 1, cpu), KEEL_EAXIS, "mlx_roll_axis: ");
    FAILS(mlx_roll_axes(&r, a, AXES(1), AXES(0, 1), cpu), KEEL_EARG, "mlx_roll_axes: ");
    FAILS(mlx_slice_update_add(&r, a, m, AXES(0), AXES(2), AXES(1), cpu), KEEL_ESHAPE,
          "mlx_slice_update_add: ");
    FAILS(mlx_slice_update_prod(&r, a, no_array, AXES(0), AXES(2), AXES(1), cpu), KEEL_EARG,
          "update");
    FAILS(mlx_slice_update_max(&r, no_array, v, AXES(0), AXES(2), AXES(1), cpu), KEEL_EARG, "src");
    FAILS(mlx_slice_update_min(&r, a, v, AXES(0), AXES(2), AXES(1), no_stream), KEEL_EARG,
          "stream");
    assert_ptr_equal(r.ctx, ctx);
    mlx_array all[] = {a, m, r, v};
    for (int k = 0; k < 4; k++) mlx_array_free(all[k]);
}

static void test_masked_scatter(void **state) {
    mlx_array a = INTS(0, 1, 2), src = INTS(8, 9), one = INTS(8), r = mlx_array_new();
    mlx_array mask = mlx_array_new_data((bool[]){true, false, true}, LIST(3), 1, MLX_BOOL);
    OK(mlx_masked_scatter(&r, a, mask, src, cpu));
    assert_text(r, "array([8, 1, 9], dtype=int32)");
    OK(mlx_masked_scatter(&r, a, mask, one, cpu));
    FAILS(mlx_array_eval(r), KEEL_EINDEX, "index 1");
    FAILS(mlx_masked_scatter(&r, a, a, src, cpu), KEEL_EDTYPE,
          "mlx_masked_scatter: the mask is int32");
    FAILS(mlx_masked_scatter(&r, a, no_array, src, cpu), KEEL_EARG, "mask");
    FAILS(mlx_masked_scatter(&r, a, mask, no_array, cpu), KEEL_EARG, "src");
    mlx_array all[] = {a, src, one, r, mask};
    for (int k = 0; k < 5; k++) mlx_array_free(all[k]);
}

static void test_lists(void **state) {
    mlx_array a = INTS(1, 2), b = INTS(3, 4, 5), r = mlx_array_new(), bad = mlx_array_new();
    mlx_vector_array in = mlx_vector_array_new(), deps = mlx_vector_array_new(),
                     out = mlx_vector_array_new();
    OK(mlx_vector_array_append_value(in, a));
    OK(mlx_vector_array_append_value(in, b));
    OK(mlx_meshgrid(&out, in, false, "xy", cpu));
    assert_int_equal(mlx_vector_array_size(out), 2);
    OK(mlx_vector_array_get(&r, out, 0));
    assert_text(r, "array([[1, 2],\n       [1, 2],\n       [1, 2]], dtype=int32)");
    OK(mlx_meshgrid(&out, in, true, "ij", cpu));
    OK(mlx_vector_array_get(&r, out, 1));
    assert_text(r, "array([[3, 4, 5]], dtype=int32)");
    FAILS(mlx_meshgrid(&out, in, true, "yx", cpu), KEEL_EARG, "mlx_meshgrid: indexing \"yx\"");
    FAILS(mlx_meshgrid(&out, no_vector, true, "xy", cpu), KEEL_EARG, "arrays");
    OK(mlx_depends(&out, in, deps));
    OK(mlx_vector_array_get(&r, out, 0));
    assert_text(r, "array([1, 2], dtype=int32)");
    OK(mlx_take(&bad, a, b, cpu)); /* index 3 on an axis of size 2 */
    OK(mlx_vector_array_append_value(deps, a));
    OK(mlx_vector_array_append_value(deps, bad));
    OK(mlx_depends(&out, in, deps));
    OK(mlx_vector_array_get(&r, out, 1));
    FAILS(mlx_array_eval(r), KEEL_EINDEX, "index 3");
    FAILS(mlx_depends(&out, no_vector, deps), KEEL_EARG, "inputs");
    FAILS(mlx_depends(&out, in, no_vector), KEEL_EARG, "dependencies");
    FAILS(mlx_depends(NULL, in, deps), KEEL_EARG, "the result is NULL");
    mlx_vector_array_free(in);
    mlx_vector_array_free(deps);
    mlx_vector_array_free(out);
    mlx_array all[] = {a, b, r, bad};
    for (int k = 0; k < 4; k++) mlx_array_free(all[k]);
}

static void test_makers(void **state) {
    mlx_array m = grid(2, 2), r = mlx_array_new();
    OK(mlx_eye(&r, 2, 3, 1, MLX_INT8, cpu));
    assert_text(r, "array([[0, 1, 0],\n       [0, 0, 1]], dtype=int8)");
    OK(mlx_identity(&r, 2, MLX_BOOL, cpu));
    assert_text(r, "array([[True, False],\n       [False, True]], dtype=bool)");
    OK(mlx_tri(&r, 2, 2, 0, MLX_INT32, cpu));
    assert_text(r, "array([[1, 0],\n       [1, 1]], dtype=int32)");
    OK(mlx_tril(&r, m, 0, cpu));
    assert_text(r, "array([[0, 0],\n       [2, 3]], dtype=int32)");
    OK(mlx_triu(&r, m, 0, cpu));
    assert_text(r, "array([[0, 1],\n       [0, 3]], dtype=int32)");
    OK(mlx_linspace(&r, 0, 1, 5, MLX_FLOAT32, cpu));
    assert_text(r, "array([0, 0.25, 0.5, 0.75, 1], dtype=float32)");
    OK(mlx_hanning(&r, 3, cpu));
    assert_text(r, "array([0, 1, 0], dtype=float32)");
    OK(mlx_hamming(&r, 3, cpu));
    assert_text(r, "array([0.08, 1, 0.08], dtype=float32)");
    OK(mlx_blackman(&r, 3, cpu));
    assert_text(r, "array([0, 1, 0], dtype=float32)");
    OK(mlx_bartlett(&r, 5, cpu));
    assert_text(r, "array([0, 0.5, 1, 0.5, 0], dtype=float32)");
    void *ctx = r.ctx;
    FAILS(mlx_eye(&r, -1, 3, 1, MLX_INT8, cpu), KEEL_ESHAPE, "mlx_eye: ");
    FAILS(mlx_identity(&r, 2, (mlx_dtype)14, cpu), KEEL_EDTYPE, "mlx_identity: ");
    OK(mlx_tri(&r, 2, -1, 0, MLX_INT8, cpu)); /* counts as an extent of 0 */
    assert_shape(r, AXES(2, 0));
    FAILS(mlx_tri(&r, 2, 2, 0, (mlx_dtype)14, cpu), KEEL_EDTYPE, "mlx_tri: ");
    FAILS(mlx_tril(&r, no_array, 0, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_triu(&r, no_array, 0, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_linspace(&r, 0, 1, -5, MLX_FLOAT32, cpu), KEEL_EARG, "mlx_linspace: ");
    FAILS(mlx_hanning(&r, 3, no_stream), KEEL_EARG, "stream");
    FAILS(mlx_hamming(NULL, 3, cpu), KEEL_EARG, "the result is NULL");
    FAILS(mlx_blackman(&r, 3, no_stream), KEEL_EARG, "stream");
    FAILS(mlx_bartlett(&r, 3, no_stream), KEEL_EARG, "stream");
    assert_ptr_equal(r.ctx, ctx);
    mlx_array_free(m);
    mlx_array_free(r);
}

static void leak_body(void) {
    test_views(NULL);
    test_moves(NULL);
    test_masked_scatter(NULL);
    test_lists(NULL);
    test_makers(NULL);
}

static void test_no_leak(void **state) {
    assert_no_leak(leak_body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views),          cmocka_unit_test(test_moves),
        cmocka_unit_test(test_masked_scatter), cmocka_unit_test(test_lists),
        cmocka_unit_test(test_makers),         cmocka_unit_test(test_no_leak),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
