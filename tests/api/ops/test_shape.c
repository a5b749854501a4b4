/* test_shape.c - making, reshaping, slicing and joining arrays through the C API. */
#include "api/api_support.h"

static void test_fill(void **state) {
    mlx_array r = mlx_array_new(), v = mlx_array_new_float(2.5f), i = INTS(1, 2, 3),
              like = grid(2, 3);
    OK(mlx_zeros(&r, AXES(2, 2), MLX_FLOAT32, cpu));
    assert_text(r, "array([[0, 0],\n       [0, 0]], dtype=float32)");
    OK(mlx_zeros(&r, NULL, 0, MLX_BOOL, cpu));
    assert_text(r, "array(False, dtype=bool)");
    OK(mlx_ones(&r, AXES(3), MLX_COMPLEX64, cpu));
    assert_text(r, "array([1+0j, 1+0j, 1+0j], dtype=complex64)");
    OK(mlx_ones(&r, AXES(0, 3), MLX_INT8, cpu));
    assert_shape(r, AXES(0, 3));
    OK(mlx_zeros_like(&r, i, cpu));
    assert_text(r, "array([0, 0, 0], dtype=int32)");
    OK(mlx_ones_like(&r, i, cpu));
    assert_text(r, "array([1, 1, 1], dtype=int32)");
    OK(mlx_full(&r, AXES(2), v, MLX_FLOAT16, cpu));
    assert_text(r, "array([2.5, 2.5], dtype=float16)");
    OK(mlx_full(&r, AXES(2, 3), i, MLX_INT32, cpu));
    assert_text(r, "array([[1, 2, 3],\n       [1, 2, 3]], dtype=int32)");
    OK(mlx_full_like(&r, like, v, MLX_INT32, cpu));
    assert_text(r, "array([[2, 2, 2],\n       [2, 2, 2]], dtype=int32)");
    OK(mlx_arange(&r, 1, 2, 0.25, MLX_FLOAT32, cpu));
    assert_text(r, "array([1, 1.25, 1.5, 1.75], dtype=float32)");
    OK(mlx_arange(&r, 5, 0, -2, MLX_INT64, cpu));
    assert_text(r, "array([5, 3, 1], dtype=int64)");
    OK(mlx_arange(&r, 3, 3, 1, MLX_INT32, cpu));
    assert_shape(r, AXES(0));

    void *ctx = r.ctx;
    FAILS(mlx_zeros(&r, AXES(2, -1), MLX_FLOAT32, cpu), KEEL_ESHAPE, "mlx_zeros: ");
    FAILS(mlx_zeros(&r, NULL, 2, MLX_FLOAT32, cpu), KEEL_EARG, "mlx_zeros: ");
    FAILS(mlx_zeros(&r, AXES(2), (mlx_dtype)14, cpu), KEEL_EDTYPE, "mlx_zeros: ");
    FAILS(mlx_zeros(&r, AXES(2), (mlx_dtype)-1, cpu), KEEL_EDTYPE, "mlx_zeros: ");
    FAILS(mlx_zeros(&r, AXES(2), MLX_INT8, no_stream), KEEL_EARG, "stream");
    FAILS(mlx_zeros(NULL, AXES(2), MLX_INT8, cpu), KEEL_EARG, "the result is NULL");
    FAILS(mlx_ones(&r, AXES(2, -1), MLX_FLOAT32, cpu), KEEL_ESHAPE, "mlx_ones: ");
    FAILS(mlx_zeros_like(&r, no_array, cpu), KEEL_EARG, "a is an empty array");
    FAILS(mlx_ones_like(&r, no_array, cpu), KEEL_EARG, "a is an empty array");
    FAILS(mlx_full(&r, AXES(2), no_array, MLX_INT8, cpu), KEEL_EARG, "vals is an empty array");
    FAILS(mlx_full(&r, AXES(2), i, MLX_INT8, cpu), KEEL_ESHAPE, "mlx_full: ");
    FAILS(mlx_full_like(&r, no_array, v, MLX_INT8, cpu), KEEL_EARG, "a is an empty array");
    FAILS(mlx_full_like(&r, like, v, (mlx_dtype)99, cpu), KEEL_EDTYPE, "mlx_full_like: ");
    FAILS(mlx_arange(&r, 0, 1, 0, MLX_INT32, cpu), KEEL_EARG, "mlx_arange: ");
    FAILS(mlx_arange(&r, 0, 1, 1, MLX_BOOL, cpu), KEEL_EDTYPE, "mlx_arange: ");
    FAILS(mlx_arange(&r, 0, 1e300, 1, MLX_FLOAT32, cpu), KEEL_ELIMIT, "mlx_arange: ");
    assert_ptr_equal(r.ctx, ctx);
    mlx_array all[] = {r, v, i, like};
    for (int k = 0; k < 4; k++) mlx_array_free(all[k]);
}

static void test_convert(void **state) {
    mlx_array a = FLOATS(1.75f, -1.75f, 0), m = grid(2, 3), r = mlx_array_new(),
              t = mlx_array_new();
    OK(mlx_astype(&r, a, MLX_INT32, cpu));
    assert_text(r, "array([1, -1, 0], dtype=int32)");
    OK(mlx_astype(&r, a, MLX_BOOL, cpu));
    assert_text(r, "array([True, True, False], dtype=bool)");
    OK(mlx_copy(&r, a, cpu));
    assert_text(r, "array([1.75, -1.75, 0], dtype=float32)");
    assert_ptr_not_equal(mlx_array_data_float32(r), mlx_array_data_float32(a));
    OK(mlx_transpose(&t, m, cpu));
    bool row = true;
    OK(mlx_contiguous(&r, t, true, cpu));
    OK(_mlx_array_is_row_contiguous(&row, r));
    assert_false(row);
    OK(mlx_contiguous(&r, t, false, cpu));
    OK(_mlx_array_is_row_contiguous(&row, r));
    assert_true(row);
    assert_text(r, "array([[0, 3],\n       [1, 4],\n       [2, 5]], dtype=int32)");
    FAILS(mlx_astype(&r, a, (mlx_dtype)14, cpu), KEEL_EDTYPE, "mlx_astype: ");
    FAILS(mlx_astype(&r, no_array, MLX_INT8, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_astype(&r, a, MLX_INT8, no_stream), KEEL_EARG, "stream");
    FAILS(mlx_copy(&r, no_array, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_contiguous(&r, no_array, false, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_contiguous(NULL, t, false, cpu), KEEL_EARG, "the result is NULL");
    mlx_array all[] = {a, m, r, t};
    for (int k = 0; k < 4; k++) mlx_array_free(all[k]);
}

static void test_shapes(void **state) {
    mlx_array a = grid(2, 6), r = mlx_array_new(), s = mlx_array_new_int(5), u = mlx_array_new();
    OK(mlx_reshape(&r, a, AXES(2, 3, 2), cpu));
    assert_shape(r, AXES(2, 3, 2));
    OK(mlx_transpose(&u, r, cpu));
    assert_shape(u, AXES(2, 3, 2));
    OK(mlx_transpose_axes(&u, r, AXES(1, 0, -1), cpu));
    assert_shape(u, AXES(3, 2, 2));
    OK(mlx_swapaxes(&u, r, 0, 1, cpu));
    assert_shape(u, AXES(3, 2, 2));
    OK(mlx_moveaxis(&u, r, 1, -1, cpu));
    assert_shape(u, AXES(2, 2, 3));
    OK(mlx_flatten(&u, r, 1, -1, cpu));
    assert_shape(u, AXES(2, 6));
    OK(mlx_flatten(&u, s, 0, -1, cpu));
    assert_shape(u, AXES(1));
    OK(mlx_reshape(&u, a, AXES(-1, 4), cpu));
    assert_shape(u, AXES(3, 4));
    OK(mlx_reshape(&u, s, NULL, 0, cpu));
    assert_shape(u, NULL, 0);
    OK(mlx_expand_dims(&u, a, -1, cpu));
    assert_shape(u, AXES(2, 6, 1));
    OK(mlx_expand_dims_axes(&u, a, AXES(0, 2), cpu));
    assert_shape(u, AXES(1, 2, 1, 6));
    OK(mlx_squeeze_axis(&r, u, 0, cpu));
    assert_shape(r, AXES(2, 1, 6));
    OK(mlx_squeeze_axes(&r, u, AXES(0, 2), cpu));
    assert_shape(r, AXES(2, 6));
    OK(mlx_squeeze(&r, u, cpu));
    assert_shape(r, AXES(2, 6));
    OK(mlx_broadcast_to(&r, s, AXES(2, 2), cpu));
    assert_text(r, "array([[5, 5],\n       [5, 5]], dtype=int32)");

    FAILS(mlx_reshape(&r, a, AXES(5), cpu), KEEL_ESHAPE, "mlx_reshape: ");
    FAILS(mlx_reshape(&r, a, AXES(-1, -1), cpu), KEEL_ESHAPE, "mlx_reshape: ");
    FAILS(mlx_reshape(&r, a, NULL, 2, cpu), KEEL_EARG, "mlx_reshape: ");
    FAILS(mlx_flatten(&r, a, 1, 0, cpu), KEEL_EAXIS, "mlx_flatten: ");
    OK(mlx_flatten(&r, a, -9, 9, cpu)); /* a stop beyond the end counts as the end */
    assert_shape(r, AXES(12));
    FAILS(mlx_transpose_axes(&r, a, AXES(0), cpu), KEEL_EAXIS, "mlx_transpose_axes: ");
    FAILS(mlx_transpose_axes(&r, a, NULL, 0, cpu), KEEL_EAXIS, "mlx_transpose_axes: ");
    FAILS(mlx_transpose_axes(&r, a, AXES(0, 0), cpu), KEEL_EAXIS, "mlx_transpose_axes: ");
    FAILS(mlx_transpose(&r, no_array, cpu), KEEL_EARG, "empty");
    FAILS(mlx_swapaxes(&r, a, 0, 2, cpu), KEEL_EAXIS, "mlx_swapaxes: ");
    FAILS(mlx_moveaxis(&r, a, -3, 0, cpu), KEEL_EAXIS, "mlx_moveaxis: ");
    FAILS(mlx_expand_dims(&r, a, 3, cpu), KEEL_EAXIS, "mlx_expand_dims: ");
    FAILS(mlx_expand_dims_axes(&r, a, AXES(0, 0), cpu), KEEL_EAXIS, "mlx_expand_dims_axes: ");
    FAILS(mlx_squeeze(&r, no_array, cpu), KEEL_EARG, "empty");
    FAILS(mlx_squeeze_axis(&r, a, 0, cpu), KEEL_ESHAPE, "mlx_squeeze_axis: ");
    FAILS(mlx_squeeze_axes(&r, a, AXES(7), cpu), KEEL_EAXIS, "mlx_squeeze_axes: ");
    FAILS(mlx_broadcast_to(&r, a, AXES(3), cpu), KEEL_ESHAPE, "mlx_broadcast_to: ");
    FAILS(mlx_broadcast_to(&r, a, AXES(2, -6), cpu), KEEL_ESHAPE, "mlx_broadcast_to: ");
    FAILS(mlx_broadcast_to(&r, a, AXES(2, 6), no_stream), KEEL_EARG, "stream");
    mlx_array all[] = {a, r, s, u};
    for (int k = 0; k < 4; k++) mlx_array_free(all[k]);
}

static void test_broadcast_arrays(void **state) {
    mlx_array a = of_ints(LIST(1, 2), LIST(2, 1), 2), b = INTS(1, 2, 3), r = mlx_array_new();
    mlx_array wrong = INTS(1, 2);
    mlx_vector_array in = mlx_vector_array_new_data((mlx_array[]){a, b}, 2), out = no_vector;
    OK(mlx_broadcast_arrays(&out, in, cpu));
    assert_int_equal(mlx_vector_array_size(out), 2);
    for (size_t i = 0; i < 2; i++) {
        OK(mlx_vector_array_get(&r, out, i));
        assert_shape(r, AXES(2, 3));
    }
    void *ctx = out.ctx;
    OK(mlx_broadcast_arrays(&out, out, cpu)); /* the result overwrites the input's handle */
    assert_ptr_equal(out.ctx, ctx);
    assert_int_equal(mlx_vector_array_size(out), 2);
    OK(mlx_vector_array_append_value(in, wrong));
    FAILS(mlx_broadcast_arrays(&out, in, cpu), KEEL_ESHAPE, "mlx_broadcast_arrays: ");
    assert_int_equal(mlx_vector_array_size(out), 2);
    FAILS(mlx_broadcast_arrays(&out, no_vector, cpu), KEEL_EARG, "inputs is an empty vector");
    FAILS(mlx_broadcast_arrays(NULL, in, cpu), KEEL_EARG, "the result is NULL");
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_array all[] = {a, b, r, wrong};
    for (int k = 0; k < 4; k++) mlx_array_free(all[k]);
}

static void test_slices(void **state) {
    mlx_array a = grid(3, 4), r = mlx_array_new(), v = INTS(-1, -2);
    OK(mlx_slice(&r, a, AXES(0, 1), AXES(3, 4), AXES(2, 2), cpu));
    assert_text(r, "array([[1, 3],\n       [9, 11]], dtype=int32)");
    OK(mlx_slice(&r, a, AXES(-100, 0), AXES(100, 1), AXES(1, 1), cpu));
    assert_shape(r, AXES(3, 1));
    OK(mlx_slice_update(&r, a, v, AXES(0, 1), AXES(2, 3), AXES(1, 1), cpu));
    assert_text(
        r, "array([[0, -1, -2, 3],\n       [4, -1, -2, 7],\n       [8, 9, 10, 11]], dtype=int32)");
    FAILS(mlx_slice(&r, a, AXES(0), AXES(3, 4), AXES(1, 1), cpu), KEEL_ESHAPE, "mlx_slice: ");
    FAILS(mlx_slice(&r, a, AXES(0, 0), AXES(3, 4), AXES(1, 0), cpu), KEEL_EARG, "mlx_slice: ");
    FAILS(mlx_slice(&r, a, NULL, 2, AXES(3, 4), AXES(1, 1), cpu), KEEL_EARG, "mlx_slice: ");
    FAILS(mlx_slice(&r, no_array, AXES(0), AXES(1), AXES(1), cpu), KEEL_EARG, "empty array");
    FAILS(mlx_slice_update(&r, a, v, AXES(0, 0), AXES(3, 4), AXES(1, 1), cpu), KEEL_ESHAPE,
          "mlx_slice_update: ");
    FAILS(mlx_slice_update(&r, a, no_array, AXES(0, 0), AXES(3, 4), AXES(1, 1), cpu), KEEL_EARG,
          "update is an empty array");
    FAILS(mlx_slice_update(&r, no_array, v, AXES(0, 0), AXES(3, 4), AXES(1, 1), cpu), KEEL_EARG,
          "src is an empty array");
    mlx_array all[] = {a, r, v};
    for (int k = 0; k < 3; k++) mlx_array_free(all[k]);
}

static void test_joins(void **state) {
    mlx_array a = INTS(1, 2), b = FLOATS(3, 4), c = INTS(1, 2, 3), r = mlx_array_new();
    mlx_vector_array ab = mlx_vector_array_new_data((mlx_array[]){a, b}, 2);
    mlx_vector_array ac = mlx_vector_array_new_data((mlx_array[]){a, c}, 2);
    mlx_vector_array none = mlx_vector_array_new();
    OK(mlx_concatenate(&r, ab, cpu));
    assert_text(r, "array([1, 2, 3, 4], dtype=float32)");
    OK(mlx_concatenate_axis(&r, ac, -1, cpu));
    assert_text(r, "array([1, 2, 1, 2, 3], dtype=int32)");
    OK(mlx_stack(&r, ab, cpu));
    assert_text(r, "array([[1, 2],\n       [3, 4]], dtype=float32)");
    OK(mlx_stack_axis(&r, ab, 1, cpu));
    assert_text(r, "array([[1, 3],\n       [2, 4]], dtype=float32)");
    FAILS(mlx_concatenate(&r, none, cpu), KEEL_EARG, "mlx_concatenate: ");
    FAILS(mlx_concatenate(&r, no_vector, cpu), KEEL_EARG, "arrays is an empty vector");
    FAILS(mlx_concatenate_axis(&r, ab, 1, cpu), KEEL_EAXIS, "mlx_concatenate_axis: ");
    FAILS(mlx_concatenate_axis(&r, ab, 0, no_stream), KEEL_EARG, "stream");
    FAILS(mlx_stack(&r, ac, cpu), KEEL_ESHAPE, "mlx_stack: ");
    FAILS(mlx_stack(&r, none, cpu), KEEL_EARG, "mlx_stack: ");
    FAILS(mlx_stack_axis(&r, ab, 2, cpu), KEEL_EAXIS, "mlx_stack_axis: ");
    FAILS(mlx_stack_axis(NULL, ab, 0, cpu), KEEL_EARG, "the result is NULL");
    mlx_vector_array_free(ab);
    mlx_vector_array_free(ac);
    mlx_vector_array_free(none);
    mlx_array all[] = {a, b, c, r};
    for (int k = 0; k < 4; k++) mlx_array_free(all[k]);
}

static void test_splits(void **state) {
    mlx_array a = grid(2, 6), r = mlx_array_new();
    mlx_vector_array out = mlx_vector_array_new();
    OK(mlx_split(&out, a, 3, 1, cpu));
    assert_int_equal(mlx_vector_array_size(out), 3);
    OK(mlx_vector_array_get(&r, out, 1));
    assert_text(r, "array([[2, 3],\n       [8, 9]], dtype=int32)");
    OK(mlx_split_sections(&out, a, AXES(1, 4), -1, cpu));
    assert_int_equal(mlx_vector_array_size(out), 3);
    OK(mlx_vector_array_get(&r, out, 2));
    assert_text(r, "array([[4, 5],\n       [10, 11]], dtype=int32)");
    OK(mlx_split_sections(&out, a, NULL, 0, 0, cpu));
    assert_int_equal(mlx_vector_array_size(out), 1);
    FAILS(mlx_split(&out, a, 4, 1, cpu), KEEL_ESHAPE, "mlx_split: ");
    FAILS(mlx_split(&out, a, 0, 1, cpu), KEEL_EARG, "mlx_split: ");
    FAILS(mlx_split(&out, a, 2, 2, cpu), KEEL_EAXIS, "mlx_split: ");
    FAILS(mlx_split(&out, no_array, 2, 0, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_split(NULL, a, 2, 0, cpu), KEEL_EARG, "the result is NULL");
    FAILS(mlx_split_sections(&out, a, NULL, 1, 0, cpu), KEEL_EARG, "mlx_split_sections: ");
    FAILS(mlx_split_sections(&out, a, AXES(1), 5, cpu), KEEL_EAXIS, "mlx_split_sections: ");
    assert_int_equal(mlx_vector_array_size(out), 1);
    mlx_vector_array_free(out);
    mlx_array_free(a);
    mlx_array_free(r);
}

static void leak_body(void) {
    test_fill(NULL);
    test_convert(NULL);
    test_shapes(NULL);
    test_broadcast_arrays(NULL);
    test_slices(NULL);
    test_joins(NULL);
    test_splits(NULL);
}

static void test_no_leak(void **state) {
    assert_no_leak(leak_body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill),   cmocka_unit_test(test_convert),
        cmocka_unit_test(test_shapes), cmocka_unit_test(test_broadcast_arrays),
        cmocka_unit_test(test_slices), cmocka_unit_test(test_joins),
        cmocka_unit_test(test_splits), cmocka_unit_test(test_no_leak),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
