/* test_index.c - reading and writing at indices through the C API, with indices inside and
 * outside of their range. */
#include "api/api_support.h"

/* The evaluation of r must fail for `index` at `position`, along an axis of this size. */
static void assert_fault(mlx_array r, int64_t index, int64_t position, int64_t axis, int64_t size) {
    char text[32];
    keel_error_info e = {.size = sizeof e};
    snprintf(text, sizeof text, "%lld", (long long)index);
    FAILS(mlx_array_eval(r), KEEL_EINDEX, text);
    assert_int_equal(keel_array_error(&e, r), 0);
    assert_int_equal(e.index, index);
    assert_int_equal(e.position, position);
    assert_int_equal(e.axis, axis);
    assert_int_equal(e.axis_size, size);
}

static void test_take(void **state) {
    mlx_array a = grid(3, 4), at = INTS(2, -1, 0), far = INTS(0, 3, -4), r = mlx_array_new();
    mlx_array pairs = of_ints(LIST(1, 0, 2, 2, 3, 1), LIST(3, 2), 2), f = FLOATS(1, 2);
    mlx_array down = of_ints(LIST(1, 0, 3, 2), LIST(1, 4), 2);
    OK(mlx_take(&r, a, at, cpu));
    assert_text(r, "array([2, 11, 0], dtype=int32)");
    OK(mlx_take_axis(&r, a, at, 0, cpu));
    assert_text(
        r, "array([[8, 9, 10, 11],\n       [8, 9, 10, 11],\n       [0, 1, 2, 3]], dtype=int32)");
    OK(mlx_take_along_axis(&r, a, pairs, 1, cpu));
    assert_text(r, "array([[1, 0],\n       [6, 6],\n       [11, 9]], dtype=int32)");
    OK(mlx_take_axis(&r, a, far, 0, cpu));
    assert_fault(r, 3, 1, 0, 3);
    OK(mlx_take_along_axis(&r, a, down, 0, cpu));
    assert_fault(r, 3, 2, 0, 3);
    FAILS(mlx_take(&r, a, f, cpu), KEEL_EDTYPE, "mlx_take: ");
    FAILS(mlx_take(&r, a, no_array, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_take(&r, no_array, at, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_take_axis(&r, a, at, 2, cpu), KEEL_EAXIS, "mlx_take_axis: ");
    FAILS(mlx_take_axis(&r, a, no_array, 0, cpu), KEEL_EARG, "indices is an empty array");
    FAILS(mlx_take_axis(NULL, a, at, 0, cpu), KEEL_EARG, "the result is NULL");
    FAILS(mlx_take_along_axis(&r, a, at, 0, cpu), KEEL_ESHAPE, "mlx_take_along_axis: ");
    FAILS(mlx_take_along_axis(&r, a, pairs, 3, cpu), KEEL_EAXIS, "mlx_take_along_axis: ");
    FAILS(mlx_take_along_axis(&r, a, pairs, 1, no_stream), KEEL_EARG, "stream");
    mlx_array all[] = {a, at, far, r, pairs, f, down};
    for (int k = 0; k < 7; k++) mlx_array_free(all[k]);
}

static void test_gather(void **state) {
    mlx_array a = grid(3, 4), rows = INTS(2, 0), columns = INTS(1, 3), r = mlx_array_new();
    mlx_vector_array both = mlx_vector_array_new_data((mlx_array[]){rows, columns}, 2);
    mlx_vector_array one = mlx_vector_array_new_value(rows), none = mlx_vector_array_new();
    OK(mlx_gather(&r, a, both, AXES(0, 1), AXES(1, 1), cpu));
    assert_text(r, "array([[[9]],\n       [[3]]], dtype=int32)");
    OK(mlx_gather_single(&r, a, rows, 0, AXES(1, 2), cpu));
    assert_text(r, "array([[[8, 9]],\n       [[0, 1]]], dtype=int32)");
    OK(mlx_gather(&r, a, one, AXES(1), AXES(3, 1), cpu));
    assert_shape(r, AXES(2, 3, 1));
    FAILS(mlx_gather(&r, a, both, AXES(0), AXES(1, 1), cpu), KEEL_EARG, "mlx_gather: ");
    FAILS(mlx_gather(&r, a, both, AXES(0, 0), AXES(1, 1), cpu), KEEL_EAXIS, "mlx_gather: ");
    FAILS(mlx_gather(&r, a, both, AXES(0, 2), AXES(1, 1), cpu), KEEL_EAXIS, "mlx_gather: ");
    FAILS(mlx_gather(&r, a, one, AXES(0), AXES(1), cpu), KEEL_ESHAPE, "mlx_gather: ");
    FAILS(mlx_gather(&r, a, one, AXES(0), AXES(4, 1), cpu), KEEL_ESHAPE, "mlx_gather: ");
    FAILS(mlx_gather(&r, a, one, AXES(0), AXES(-1, 1), cpu), KEEL_ESHAPE, "mlx_gather: ");
    FAILS(mlx_gather(&r, a, one, NULL, 1, AXES(1, 1), cpu), KEEL_EARG, "mlx_gather: ");
    FAILS(mlx_gather(&r, a, no_vector, AXES(0), AXES(1, 1), cpu), KEEL_EARG, "indices is an empty");
    FAILS(mlx_gather(&r, no_array, one, AXES(0), AXES(1, 1), cpu), KEEL_EARG, "empty array");
    FAILS(mlx_gather_single(&r, a, no_array, 0, AXES(1, 1), cpu), KEEL_EARG, "empty array");
    FAILS(mlx_gather_single(&r, a, rows, 5, AXES(1, 1), cpu), KEEL_EAXIS, "mlx_gather_single: ");
    mlx_vector_array_free(both);
    mlx_vector_array_free(one);
    mlx_vector_array_free(none);
    mlx_array all[] = {a, rows, columns, r};
    for (int k = 0; k < 4; k++) mlx_array_free(all[k]);
}

typedef int put_fn(mlx_array *, const mlx_array, const mlx_array, const mlx_array, int,
                   const mlx_stream);
typedef int scatter_fn(mlx_array *, const mlx_array, const mlx_vector_array, const mlx_array,
                       const int *, size_t, const mlx_stream);

/* All of a is 2. Updates 5 and 7 go to place 1, then update 4 goes to place 3. */
static void along(put_fn *f, const char *text) {
    mlx_array a = INTS(2, 2, 2, 2), at = INTS(1, 1, -1), v = INTS(5, 7, 4), r = mlx_array_new();
    mlx_array far = INTS(0, 1, 4), m = grid(2, 2);
    OK(f(&r, a, at, v, 0, cpu));
    assert_text(r, text);
    assert_text(a, "array([2, 2, 2, 2], dtype=int32)");
    FAILS(f(&r, a, at, v, 1, cpu), KEEL_EAXIS, "mlx_");
    FAILS(f(&r, no_array, at, v, 0, cpu), KEEL_EARG, "a is an empty array");
    FAILS(f(&r, a, no_array, v, 0, cpu), KEEL_EARG, "indices is an empty array");
    FAILS(f(&r, a, at, no_array, 0, cpu), KEEL_EARG, "what is written is an empty array");
    FAILS(f(&r, a, at, v, 0, no_stream), KEEL_EARG, "stream");
    FAILS(f(NULL, a, at, v, 0, cpu), KEEL_EARG, "the result is NULL");
    FAILS(f(&r, a, m, v, 0, cpu), KEEL_ESHAPE, "mlx_");
    assert_text(r, text);
    OK(f(&r, a, far, v, 0, cpu));
    assert_fault(r, 4, 2, 0, 4);
    OK(f(&a, a, at, v, 0, cpu)); /* the result overwrites the handle of the base */
    assert_text(a, text);
    mlx_array all[] = {a, at, v, r, far, m};
    for (int k = 0; k < 6; k++) mlx_array_free(all[k]);
}

/* The same places and values, with updates of shape (3, 1). */
static void scattered(scatter_fn *list, put_fn *single, const char *text) {
    mlx_array a = INTS(2, 2, 2, 2), at = INTS(1, 1, -1), r = mlx_array_new(), far = INTS(0, -5, 1);
    mlx_array v = of_ints(LIST(5, 7, 4), LIST(3, 1), 2), flat = INTS(5, 7, 4);
    mlx_vector_array ats = mlx_vector_array_new_value(at);
    OK(list(&r, a, ats, v, AXES(0), cpu));
    assert_text(r, text);
    OK(single(&r, a, at, v, 0, cpu));
    assert_text(r, text);
    FAILS(list(&r, a, ats, v, AXES(1), cpu), KEEL_EAXIS, "mlx_");
    FAILS(list(&r, a, ats, v, AXES(0, 0), cpu), KEEL_EARG, "mlx_");
    FAILS(list(&r, a, ats, v, NULL, 1, cpu), KEEL_EARG, "mlx_");
    FAILS(list(&r, a, ats, flat, AXES(0), cpu), KEEL_ESHAPE, "mlx_");
    FAILS(list(&r, a, no_vector, v, AXES(0), cpu), KEEL_EARG, "indices is an empty vector");
    FAILS(list(&r, a, ats, no_array, AXES(0), cpu), KEEL_EARG, "updates is an empty array");
    FAILS(list(&r, no_array, ats, v, AXES(0), cpu), KEEL_EARG, "a is an empty array");
    FAILS(list(&r, a, ats, v, AXES(0), no_stream), KEEL_EARG, "stream");
    FAILS(list(NULL, a, ats, v, AXES(0), cpu), KEEL_EARG, "the result is NULL");
    FAILS(single(&r, a, at, flat, 0, cpu), KEEL_ESHAPE, "mlx_");
    FAILS(single(&r, a, at, v, -2, cpu), KEEL_EAXIS, "mlx_");
    FAILS(single(&r, a, no_array, v, 0, cpu), KEEL_EARG, "indices is an empty array");
    assert_text(r, text);
    OK(single(&r, a, far, v, 0, cpu));
    assert_fault(r, -5, 1, 0, 4);
    mlx_vector_array_free(ats);
    mlx_array all[] = {a, at, r, far, v, flat};
    for (int k = 0; k < 6; k++) mlx_array_free(all[k]);
}

static void test_slice_dynamic(void **state) {
    int shape = 4, one = 1;
    mlx_array a = mlx_array_new_data((int[]){2, 3, 4, 5}, &shape, 1, MLX_INT32),
              r = mlx_array_new();
    mlx_array at = mlx_array_new_int(-3), far = mlx_array_new_int(3), u = mlx_array_new_int(9);
    OK(mlx_slice_dynamic(&r, a, at, (int[]){0}, 1, (int[]){2}, 1, cpu));
    assert_text(r, "array([3, 4], dtype=int32)");
    OK(mlx_slice_update_dynamic(&r, a, u, at, (int[]){0}, 1, cpu));
    assert_text(r, "array([2, 9, 4, 5], dtype=int32)");
    OK(mlx_slice_dynamic(&r, a, far, (int[]){0}, 1, (int[]){2}, 1, cpu));
    assert_fault(r, 3, 0, 0, 4);
    FAILS(mlx_slice_dynamic(&r, a, no_array, (int[]){0}, 1, (int[]){2}, 1, cpu), KEEL_EARG,
          "start is an empty array");
    FAILS(mlx_slice_dynamic(&r, a, at, NULL, 1, (int[]){2}, 1, cpu), KEEL_EARG, "axes");
    FAILS(mlx_slice_update_dynamic(&r, a, no_array, at, (int[]){0}, 1, cpu), KEEL_EARG,
          "update is an empty array");
    FAILS(mlx_slice_update_dynamic(NULL, a, u, at, &one, 1, cpu), KEEL_EARG, "mlx_");
    mlx_array all[] = {a, r, at, far, u};
    for (int k = 0; k < 5; k++) mlx_array_free(all[k]);
}

static void test_put(void **state) {
    /* Of equal indices the last update stays. */
    along(mlx_put_along_axis, "array([2, 7, 2, 4], dtype=int32)");
    along(mlx_scatter_add_axis, "array([2, 14, 2, 6], dtype=int32)");
}

static void test_scatter(void **state) {
    scattered(mlx_scatter, mlx_scatter_single, "array([2, 7, 2, 4], dtype=int32)");
    scattered(mlx_scatter_add, mlx_scatter_add_single, "array([2, 14, 2, 6], dtype=int32)");
    scattered(mlx_scatter_prod, mlx_scatter_prod_single, "array([2, 70, 2, 8], dtype=int32)");
    scattered(mlx_scatter_max, mlx_scatter_max_single, "array([2, 7, 2, 4], dtype=int32)");
    scattered(mlx_scatter_min, mlx_scatter_min_single, "array([2, 2, 2, 2], dtype=int32)");
}

static void leak_body(void) {
    test_take(NULL);
    test_gather(NULL);
    test_put(NULL);
    test_scatter(NULL);
}

static void test_no_leak(void **state) {
    assert_no_leak(leak_body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take),          cmocka_unit_test(test_gather),
        cmocka_unit_test(test_slice_dynamic), cmocka_unit_test(test_put),
        cmocka_unit_test(test_scatter),       cmocka_unit_test(test_no_leak),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
