/* test_reduce.c - operations along axes through the C API. */
#include "api/api_support.h"

typedef int reduce_fn(mlx_array *, const mlx_array, bool, const mlx_stream);
typedef int axis_fn(mlx_array *, const mlx_array, int, bool, const mlx_stream);
typedef int axes_fn(mlx_array *, const mlx_array, const int *, size_t, bool, const mlx_stream);

static void all(reduce_fn *f, const char *text) {
    mlx_array a = grid(2, 3), r = mlx_array_new();
    OK(f(&r, a, false, cpu));
    assert_text(r, text);
    OK(f(&r, a, true, cpu));
    FAILS(f(&r, no_array, false, cpu), KEEL_EARG, "a is an empty array handle");
    FAILS(f(&r, a, false, no_stream), KEEL_EARG, "the stream is an empty handle");
    FAILS(f(NULL, a, false, cpu), KEEL_EARG, "the result is NULL");
    mlx_array_free(a);
    mlx_array_free(r);
}

/* Reduces the last axis of [[0, 1, 2], [3, 4, 5]], without and with keepdims. */
static void last(axis_fn *f, const char *text, const char *kept) {
    mlx_array a = grid(2, 3), r = mlx_array_new();
    OK(f(&r, a, -1, false, cpu));
    assert_text(r, text);
    OK(f(&r, a, 1, true, cpu));
    assert_text(r, kept);
    FAILS(f(&r, a, 2, false, cpu), KEEL_EAXIS, "mlx_");
    FAILS(f(&r, a, -3, false, cpu), KEEL_EAXIS, "mlx_");
    FAILS(f(&r, no_array, 0, false, cpu), KEEL_EARG, "a is an empty array handle");
    FAILS(f(&r, a, 0, false, no_stream), KEEL_EARG, "the stream is an empty handle");
    FAILS(f(NULL, a, 0, false, cpu), KEEL_EARG, "the result is NULL");
    assert_text(r, kept);
    mlx_array_free(a);
    mlx_array_free(r);
}

static void several(axes_fn *f, const char *text, const char *none) {
    mlx_array a = grid(2, 3), r = mlx_array_new();
    OK(f(&r, a, AXES(0, -1), false, cpu));
    assert_text(r, text);
    OK(f(&r, a, NULL, 0, false, cpu)); /* over no axes nothing is reduced */
    assert_text(r, none);
    FAILS(f(&r, a, AXES(0, 0), false, cpu), KEEL_EAXIS, "mlx_");
    FAILS(f(&r, a, AXES(0, 2), false, cpu), KEEL_EAXIS, "mlx_");
    FAILS(f(&r, a, NULL, 1, false, cpu), KEEL_EARG, "mlx_");
    FAILS(f(&r, no_array, AXES(0), false, cpu), KEEL_EARG, "a is an empty array handle");
    FAILS(f(&r, a, AXES(0), false, no_stream), KEEL_EARG, "the stream is an empty handle");
    FAILS(f(NULL, a, AXES(0), false, cpu), KEEL_EARG, "the result is NULL");
    mlx_array_free(a);
    mlx_array_free(r);
}

static void test_reductions(void **state) {
    const char *same = "array([[0, 1, 2],\n       [3, 4, 5]], dtype=int32)";
    const char *same_f = "array([[0, 1, 2],\n       [3, 4, 5]], dtype=float32)";
    all(mlx_sum, "array(15, dtype=int32)");
    last(mlx_sum_axis, "array([3, 12], dtype=int32)", "array([[3],\n       [12]], dtype=int32)");
    several(mlx_sum_axes, "array(15, dtype=int32)", same);
    all(mlx_mean, "array(2.5, dtype=float32)");
    last(mlx_mean_axis, "array([1, 4], dtype=float32)", "array([[1],\n       [4]], dtype=float32)");
    several(mlx_mean_axes, "array(2.5, dtype=float32)", same_f);
    all(mlx_max, "array(5, dtype=int32)");
    last(mlx_max_axis, "array([2, 5], dtype=int32)", "array([[2],\n       [5]], dtype=int32)");
    several(mlx_max_axes, "array(5, dtype=int32)", same);
    all(mlx_min, "array(0, dtype=int32)");
    last(mlx_min_axis, "array([0, 3], dtype=int32)", "array([[0],\n       [3]], dtype=int32)");
    several(mlx_min_axes, "array(0, dtype=int32)", same);
    all(mlx_argmax, "array(5, dtype=uint32)");
    last(mlx_argmax_axis, "array([2, 2], dtype=uint32)", "array([[2],\n       [2]], dtype=uint32)");
    all(mlx_argmin, "array(0, dtype=uint32)");
    last(mlx_argmin_axis, "array([0, 0], dtype=uint32)", "array([[0],\n       [0]], dtype=uint32)");
    all(mlx_prod, "array(0, dtype=int32)");
    last(mlx_prod_axis, "array([0, 60], dtype=int32)", "array([[0],\n       [60]], dtype=int32)");
    several(mlx_prod_axes, "array(0, dtype=int32)", same);
    const char *truth = "array([[False, True, True],\n       [True, True, True]], dtype=bool)";
    all(mlx_all, "array(False, dtype=bool)");
    last(mlx_all_axis, "array([False, True], dtype=bool)",
         "array([[False],\n       [True]], dtype=bool)");
    several(mlx_all_axes, "array(False, dtype=bool)", truth);
    all(mlx_any, "array(True, dtype=bool)");
    last(mlx_any_axis, "array([True, True], dtype=bool)",
         "array([[True],\n       [True]], dtype=bool)");
    several(mlx_any_axes, "array(True, dtype=bool)", truth);
    all(mlx_logsumexp, "array(5.45619, dtype=float32)");
    last(mlx_logsumexp_axis, "array([2.40761, 5.40761], dtype=float32)",
         "array([[2.40761],\n       [5.40761]], dtype=float32)");
    several(mlx_logsumexp_axes, "array(5.45619, dtype=float32)", same_f);
    several(mlx_median, "array(2.5, dtype=float32)", same_f);
}

static void test_nothing_to_reduce(void **state) {
    mlx_array none = of_ints(NULL, LIST(0), 1), r = mlx_array_new();
    OK(mlx_sum(&r, none, false, cpu));
    assert_text(r, "array(0, dtype=int32)");
    FAILS(mlx_max(&r, none, false, cpu), KEEL_EARG, "mlx_max: ");
    FAILS(mlx_min(&r, none, false, cpu), KEEL_EARG, "mlx_min: ");
    FAILS(mlx_argmax(&r, none, false, cpu), KEEL_EARG, "mlx_argmax: ");
    FAILS(mlx_argmin(&r, none, false, cpu), KEEL_EARG, "mlx_argmin: ");
    mlx_array_free(none);
    mlx_array_free(r);
}

static void test_softmax(void **state) {
    mlx_array a = of_floats((float[]){0, 0, 1, 1}, LIST(2, 2), 2), r = mlx_array_new();
    OK(mlx_softmax_axis(&r, a, -1, false, cpu));
    assert_text(r, "array([[0.5, 0.5],\n       [0.5, 0.5]], dtype=float32)");
    OK(mlx_softmax_axis(&r, a, 0, true, cpu));
    assert_text(r, "array([[0.268941, 0.268941],\n       [0.731059, 0.731059]], dtype=float32)");
    OK(mlx_softmax(&r, a, false, cpu));
    assert_text(r, "array([[0.134471, 0.134471],\n       [0.365529, 0.365529]], dtype=float32)");
    OK(mlx_softmax_axes(&r, a, AXES(1, 0), false, cpu));
    assert_text(r, "array([[0.134471, 0.134471],\n       [0.365529, 0.365529]], dtype=float32)");
    FAILS(mlx_softmax_axis(&r, a, 2, false, cpu), KEEL_EAXIS, "mlx_softmax_axis: ");
    FAILS(mlx_softmax_axes(&r, a, AXES(0, 0), false, cpu), KEEL_EAXIS, "mlx_softmax_axes: ");
    FAILS(mlx_softmax_axes(&r, a, NULL, 1, false, cpu), KEEL_EARG, "mlx_softmax_axes: ");
    FAILS(mlx_softmax(&r, no_array, false, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_softmax(NULL, a, false, cpu), KEEL_EARG, "the result is NULL");
    mlx_array_free(a);
    mlx_array_free(r);
}

static void test_order(void **state) {
    mlx_array a = of_ints(LIST(3, 1, 2, 9, 7, 8), LIST(2, 3), 2), r = mlx_array_new();
    OK(mlx_sort(&r, a, cpu));
    assert_text(r, "array([1, 2, 3, 7, 8, 9], dtype=int32)");
    OK(mlx_sort_axis(&r, a, 1, cpu));
    assert_text(r, "array([[1, 2, 3],\n       [7, 8, 9]], dtype=int32)");
    OK(mlx_argsort(&r, a, cpu));
    assert_text(r, "array([1, 2, 0, 4, 5, 3], dtype=uint32)");
    OK(mlx_argsort_axis(&r, a, -1, cpu));
    assert_text(r, "array([[1, 2, 0],\n       [1, 2, 0]], dtype=uint32)");
    OK(mlx_topk(&r, a, 2, cpu));
    assert_text(r, "array([8, 9], dtype=int32)");
    OK(mlx_topk_axis(&r, a, 2, 1, cpu));
    assert_text(r, "array([[2, 3],\n       [8, 9]], dtype=int32)");
    OK(mlx_partition(&r, a, 5, cpu));
    assert_text(r, "array([3, 1, 2, 7, 8, 9], dtype=int32)");
    OK(mlx_partition_axis(&r, a, -1, 0, cpu));
    assert_text(r, "array([[3, 1, 2],\n       [9, 7, 8]], dtype=int32)");
    OK(mlx_argpartition(&r, a, 0, cpu));
    assert_text(r, "array([1, 0, 2, 3, 4, 5], dtype=uint32)");
    OK(mlx_argpartition_axis(&r, a, 1, 1, cpu));
    assert_text(r, "array([[1, 2, 0],\n       [1, 2, 0]], dtype=uint32)");
    FAILS(mlx_partition(&r, a, 6, cpu), KEEL_EARG, "mlx_partition: ");
    FAILS(mlx_partition_axis(&r, a, 0, 2, cpu), KEEL_EAXIS, "mlx_partition_axis: ");
    FAILS(mlx_argpartition(&r, no_array, 0, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_argpartition_axis(&r, a, -4, 1, cpu), KEEL_EARG, "mlx_argpartition_axis: ");
    FAILS(mlx_sort_axis(&r, a, 2, cpu), KEEL_EAXIS, "mlx_sort_axis: ");
    FAILS(mlx_argsort_axis(&r, a, -3, cpu), KEEL_EAXIS, "mlx_argsort_axis: ");
    FAILS(mlx_topk(&r, a, 7, cpu), KEEL_EARG, "mlx_topk: ");
    FAILS(mlx_topk(&r, a, -1, cpu), KEEL_EARG, "mlx_topk: ");
    FAILS(mlx_topk_axis(&r, a, 4, 1, cpu), KEEL_EARG, "mlx_topk_axis: ");
    FAILS(mlx_topk_axis(&r, a, 1, 2, cpu), KEEL_EAXIS, "mlx_topk_axis: ");
    FAILS(mlx_sort(&r, no_array, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_argsort(&r, no_array, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_topk(&r, a, 1, no_stream), KEEL_EARG, "stream");
    mlx_array_free(a);
    mlx_array_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_nothing_to_reduce),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
