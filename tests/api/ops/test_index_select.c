/* test_index_select.c - keel/select.h: which elements are true, reading by a mask, and take with
 * its modes, through the C API, and with wrong arguments. */
#include <keel/select.h>

#include "api/api_support.h"

static void test_positions(void **state) {
    mlx_array a = of_ints(LIST(0, 3, 0, 4, 5, 0), LIST(2, 3), 2), r = mlx_array_new(),
              none = of_ints(LIST(0, 0), LIST(2), 1), s = mlx_array_new_int(7);
    mlx_vector_array v = mlx_vector_array_new();
    OK(keel_flatnonzero(&r, a, -1, 0, cpu));
    assert_text(r, "array([1, 3, 4], dtype=int32)");
    OK(keel_flatnonzero(&r, a, 2, 0, cpu));
    assert_text(r, "array([1, 3], dtype=int32)");
    OK(keel_flatnonzero(&r, a, 5, -7, cpu));
    assert_text(r, "array([1, 3, 4, -7, -7], dtype=int32)");
    OK(keel_flatnonzero(&r, none, -1, 0, cpu));
    assert_text(r, "array([], dtype=int32)");
    OK(keel_argwhere(&r, a, -1, 0, cpu));
    assert_text(r, "array([[0, 1],\n       [1, 0],\n       [1, 1]], dtype=int32)");
    OK(keel_argwhere(&r, s, -1, 0, cpu));
    assert_shape(r, AXES(1, 0));
    OK(keel_nonzero(&v, a, 4, LIST(8, 9), 2, cpu));
    OK(mlx_vector_array_get(&r, v, 1));
    assert_text(r, "array([1, 0, 1, 9], dtype=int32)");
    OK(keel_nonzero(&v, a, -1, NULL, 0, cpu));
    OK(mlx_vector_array_get(&r, v, 0));
    assert_text(r, "array([0, 1, 1], dtype=int32)");
    OK(keel_count_nonzero(&r, a, AXES(0), false, cpu));
    assert_text(r, "array([1, 2, 0], dtype=int32)");
    FAILS(keel_flatnonzero(&r, a, -2, 0, cpu), KEEL_EARG, "size -2");
    FAILS(keel_flatnonzero(&r, no_array, -1, 0, cpu), KEEL_EARG, "empty array");
    FAILS(keel_flatnonzero(NULL, a, -1, 0, cpu), KEEL_EARG, "the result is NULL");
    FAILS(keel_nonzero(&v, s, -1, NULL, 0, cpu), KEEL_ESHAPE, "without axes");
    FAILS(keel_nonzero(&v, a, -1, LIST(1), 1, cpu), KEEL_EARG, "1 fill values");
    FAILS(keel_count_nonzero(&r, a, AXES(2), false, cpu), KEEL_EAXIS, "keel_count_nonzero: ");
    FAILS(keel_argwhere(&r, a, -1, 0, no_stream), KEEL_EARG, "stream");
    mlx_vector_array_free(v);
    mlx_array all[] = {a, r, none, s};
    for (int k = 0; k < 4; k++) mlx_array_free(all[k]);
}

static void test_masks(void **state) {
    mlx_array a = grid(3, 2), mask = of_ints(LIST(1, 0, 1), LIST(3), 1), r = mlx_array_new(),
              wrong = of_ints(LIST(1, 0), LIST(2), 1), s = mlx_array_new_int(1);
    OK(keel_masked_select(&r, a, mask, -1, cpu));
    assert_text(r, "array([[0, 1],\n       [4, 5]], dtype=int32)");
    OK(keel_masked_select(&r, a, mask, 3, cpu));
    assert_text(r, "array([[0, 1],\n       [4, 5],\n       [0, 1]], dtype=int32)");
    FAILS(keel_masked_select(&r, a, wrong, -1, cpu), KEEL_ESHAPE, "a mask of shape (2)");
    FAILS(keel_masked_select(&r, a, s, -1, cpu), KEEL_ESHAPE, "a mask of shape ()");
    FAILS(keel_masked_select(&r, a, no_array, -1, cpu), KEEL_EARG, "mask is an empty array");
    mlx_array all[] = {a, mask, r, wrong, s};
    for (int k = 0; k < 5; k++) mlx_array_free(all[k]);
}

static void test_modes(void **state) {
    mlx_array a = INTS(10, 20, 30), at = of_ints(LIST(-4, -1, 3, 7), LIST(4), 1),
              r = mlx_array_new(), five = mlx_array_new_int(5), pair = INTS(1, 2), f = FLOATS(1, 2),
              real = FLOATS(1.5f);
    const int axis = 0, far = 1;
    OK(keel_take(&r, a, at, &axis, KEEL_TAKE_CLIP, no_array, cpu));
    assert_text(r, "array([10, 10, 30, 30], dtype=int32)");
    OK(keel_take(&r, a, at, NULL, KEEL_TAKE_WRAP, no_array, cpu));
    assert_text(r, "array([30, 30, 10, 20], dtype=int32)");
    OK(keel_take(&r, a, at, &axis, KEEL_TAKE_FILL, no_array, cpu));
    assert_text(r, "array([0, 30, 0, 0], dtype=int32)");
    OK(keel_take(&r, real, at, &axis, KEEL_TAKE_FILL, no_array, cpu));
    assert_text(r, "array([nan, 1.5, nan, nan], dtype=float32)");
    OK(keel_take_along_axis(&r, a, at, 0, KEEL_TAKE_FILL, five, cpu));
    assert_text(r, "array([5, 30, 5, 5], dtype=int32)");
    OK(keel_take(&r, a, pair, &axis, KEEL_TAKE_ERROR, no_array, cpu));
    assert_text(r, "array([20, 30], dtype=int32)");
    OK(keel_take(&r, a, at, &axis, KEEL_TAKE_ERROR, no_array, cpu));
    FAILS(mlx_array_eval(r), KEEL_EINDEX, "-4");
    FAILS(keel_take(&r, a, at, &far, KEEL_TAKE_CLIP, no_array, cpu), KEEL_EAXIS, "keel_take: ");
    FAILS(keel_take(&r, a, at, &axis, (keel_take_mode)4, no_array, cpu), KEEL_EARG, "mode 4");
    FAILS(keel_take(&r, a, f, &axis, KEEL_TAKE_CLIP, no_array, cpu), KEEL_EDTYPE, "float32");
    FAILS(keel_take(&r, a, at, &axis, KEEL_TAKE_FILL, pair, cpu), KEEL_ESHAPE, "fill value");
    FAILS(keel_take_along_axis(&r, a, at, 1, KEEL_TAKE_WRAP, no_array, cpu), KEEL_EAXIS, "axis");
    FAILS(keel_take(&r, a, no_array, &axis, KEEL_TAKE_CLIP, no_array, cpu), KEEL_EARG, "indices");
    mlx_array all[] = {a, at, r, five, pair, f, real};
    for (int k = 0; k < 7; k++) mlx_array_free(all[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_positions),
                                       cmocka_unit_test(test_masks), cmocka_unit_test(test_modes)};
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
