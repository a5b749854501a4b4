/* test_array.c - handles on arrays, arrays from values and from memory, and the properties of
 * arrays. */
#include "api/api_support.h"

/* ---- handles ---- */
static void test_empty_handles(void **state) {
    mlx_array a = mlx_array_new();
    assert_null(a.ctx);
    OK(mlx_array_free(a));
    FAILS(mlx_array_set(&a, no_array), KEEL_EARG, "src is an empty array handle");
    FAILS(mlx_array_set(NULL, no_array), KEEL_EARG, "the result is NULL");
    assert_null(a.ctx);
}

static void test_set_overwrites_in_place(void **state) {
    mlx_array a = mlx_array_new_int(1), b = mlx_array_new_int(2), copy = a;
    OK(mlx_array_set(&a, b));
    assert_ptr_equal(a.ctx, copy.ctx);
    assert_text(copy, "array(2, dtype=int32)");
    OK(mlx_array_set(&a, a));
    assert_text(a, "array(2, dtype=int32)");
    mlx_array_free(a);
    assert_text(b, "array(2, dtype=int32)");
    mlx_array_free(b);
}

static void test_failure_leaves_the_result(void **state) {
    mlx_array r = mlx_array_new_int(7), three = INTS(1, 2, 3), two = INTS(1, 2);
    void *ctx = r.ctx;
    FAILS(mlx_add(&r, three, two, cpu), KEEL_ESHAPE, "mlx_add: ");
    FAILS(mlx_array_set_data(&r, NULL, LIST(2), 1, MLX_INT32), KEEL_EARG, "data is NULL");
    assert_ptr_equal(r.ctx, ctx);
    assert_text(r, "array(7, dtype=int32)");
    mlx_array_free(r);
    mlx_array_free(three);
    mlx_array_free(two);
}

static void test_result_may_be_an_operand(void **state) {
    mlx_array r = mlx_array_new_int(7);
    void *ctx = r.ctx;
    for (int i = 0; i < 3; i++) OK(mlx_add(&r, r, r, cpu));
    assert_ptr_equal(r.ctx, ctx);
    assert_text(r, "array(56, dtype=int32)");
    mlx_array_free(r);
}

/* ---- values ---- */
static void test_scalars(void **state) {
    mlx_array a[] = {mlx_array_new_bool(true),    mlx_array_new_int(-5),
                     mlx_array_new_float32(1.5f), mlx_array_new_float(2.5f),
                     mlx_array_new_float64(3.5),  mlx_array_new_double(4.5),
                     mlx_array_new_complex(1, -2)};
    const char *text[] = {"array(True, dtype=bool)",     "array(-5, dtype=int32)",
                          "array(1.5, dtype=float32)",   "array(2.5, dtype=float32)",
                          "array(3.5, dtype=float64)",   "array(4.5, dtype=float64)",
                          "array(1-2j, dtype=complex64)"};
    for (int i = 0; i < 7; i++) {
        assert_text(a[i], text[i]);
        assert_shape(a[i], NULL, 0);
        mlx_array_free(a[i]);
    }
}

static void test_set_scalars(void **state) {
    mlx_array a = mlx_array_new();
    OK(mlx_array_set_bool(&a, false));
    void *ctx = a.ctx;
    assert_text(a, "array(False, dtype=bool)");
    OK(mlx_array_set_int(&a, 2147483647));
    assert_text(a, "array(2147483647, dtype=int32)");
    OK(mlx_array_set_float32(&a, 0.5f));
    assert_text(a, "array(0.5, dtype=float32)");
    OK(mlx_array_set_float(&a, 0.25f));
    assert_text(a, "array(0.25, dtype=float32)");
    OK(mlx_array_set_float64(&a, 0.125));
    assert_text(a, "array(0.125, dtype=float64)");
    OK(mlx_array_set_double(&a, -1));
    assert_text(a, "array(-1, dtype=float64)");
    OK(mlx_array_set_complex(&a, 0, 1));
    assert_text(a, "array(0+1j, dtype=complex64)");
    assert_ptr_equal(a.ctx, ctx);
    FAILS(mlx_array_set_bool(NULL, true), KEEL_EARG, "the result is NULL");
    FAILS(mlx_array_set_int(NULL, 1), KEEL_EARG, "mlx_array_set_int");
    FAILS(mlx_array_set_float32(NULL, 1), KEEL_EARG, "mlx_array_set_float32");
    FAILS(mlx_array_set_float(NULL, 1), KEEL_EARG, "mlx_array_set_float");
    FAILS(mlx_array_set_float64(NULL, 1), KEEL_EARG, "mlx_array_set_float64");
    FAILS(mlx_array_set_double(NULL, 1), KEEL_EARG, "mlx_array_set_double");
    FAILS(mlx_array_set_complex(NULL, 1, 1), KEEL_EARG, "mlx_array_set_complex");
    mlx_array_free(a);
}

/* ---- memory ---- */
static void test_new_data_copies(void **state) {
    float data[6] = {0, 1, 2, 3, 4, 5};
    mlx_array a = mlx_array_new_data(data, LIST(2, 3), 2, MLX_FLOAT32);
    data[0] = 99;
    assert_text(a, "array([[0, 1, 2],\n       [3, 4, 5]], dtype=float32)");
    OK(mlx_array_set_data(&a, data, LIST(2), 1, MLX_FLOAT32));
    data[0] = 1;
    assert_text(a, "array([99, 1], dtype=float32)");
    OK(mlx_array_set_data(&a, data, NULL, 0, MLX_FLOAT32));
    assert_text(a, "array(1, dtype=float32)");
    OK(mlx_array_set_data(&a, NULL, LIST(0, 3), 2, MLX_FLOAT32));
    assert_shape(a, AXES(0, 3));
    FAILS(mlx_array_set_data(NULL, data, NULL, 0, MLX_FLOAT32), KEEL_EARG, "the result is NULL");
    mlx_array_free(a);
}

static void test_bad_data(void **state) {
    int x[1] = {1};
    FAILS_ZERO(mlx_array_new_data(x, LIST(-1), 1, MLX_INT32).ctx, KEEL_ESHAPE, "extent 0 of the");
    FAILS_ZERO(mlx_array_new_data(x, NULL, 1, MLX_INT32).ctx, KEEL_EARG, "shape is NULL");
    FAILS_ZERO(mlx_array_new_data(x, NULL, -1, MLX_INT32).ctx, KEEL_EARG, "axes is -1");
    FAILS_ZERO(mlx_array_new_data(NULL, LIST(1), 1, MLX_INT32).ctx, KEEL_EARG, "data is NULL");
    FAILS_ZERO(mlx_array_new_data(x, LIST(1), 1, (mlx_dtype)14).ctx, KEEL_EDTYPE, "no dtype");
    FAILS_ZERO(mlx_array_new_data(x, LIST(1), 1, (mlx_dtype)-1).ctx, KEEL_EDTYPE, "no dtype");
    int big = 2147483647;
    FAILS_ZERO(mlx_array_new_data(x, LIST(big, big, big), 3, MLX_INT32).ctx, KEEL_ELIMIT,
               "too many");
    FAILS_ZERO(mlx_array_new_data_managed(x, LIST(-1), 1, MLX_INT32, NULL).ctx, KEEL_ESHAPE,
               "extent");
}

static int n_freed;
static void *freed;
static void count_free(void *p) {
    n_freed++;
    freed = p;
}

static void test_managed(void **state) {
    static float data[3] = {1, 2, 3};
    n_freed = 0;
    mlx_array a = mlx_array_new_data_managed(data, LIST(3), 1, MLX_FLOAT32, count_free);
    assert_ptr_equal(mlx_array_data_float32(a), data); /* the memory is used in place */
    mlx_array b = mlx_array_new();
    OK(mlx_array_set(&b, a));
    mlx_array_free(a);
    assert_int_equal(n_freed, 0);
    assert_text(b, "array([1, 2, 3], dtype=float32)");
    mlx_array_free(b);
    assert_int_equal(n_freed, 1);
    assert_ptr_equal(freed, data);

    int payload;
    a = mlx_array_new_data_managed_payload(data, LIST(3), 1, MLX_FLOAT32, &payload, count_free);
    mlx_array_free(a);
    assert_int_equal(n_freed, 2);
    assert_ptr_equal(freed, &payload);

    /* A destructor is not required. */
    a = mlx_array_new_data_managed(data, LIST(3), 1, MLX_FLOAT32, NULL);
    mlx_array_free(a);
    /* a failed call has not taken the memory */
    FAILS_ZERO(mlx_array_new_data_managed(data, LIST(-3), 1, MLX_FLOAT32, count_free).ctx,
               KEEL_ESHAPE, "extent");
    FAILS_ZERO(
        mlx_array_new_data_managed_payload(NULL, LIST(3), 1, MLX_FLOAT32, &payload, count_free).ctx,
        KEEL_EARG, "data is NULL");
    assert_int_equal(n_freed, 2);
}

/* ---- the properties of arrays ---- */
static void test_facts(void **state) {
    mlx_array a = grid(2, 3), t = mlx_array_new();
    OK(mlx_transpose(&t, a, cpu));
    assert_int_equal(mlx_array_ndim(a), 2);
    assert_int_equal(mlx_array_size(a), 6);
    assert_int_equal(mlx_array_itemsize(a), 4);
    assert_int_equal(mlx_array_nbytes(a), 24);
    assert_int_equal(mlx_array_dtype(a), MLX_INT32);
    assert_shape(a, AXES(2, 3));
    assert_int_equal(mlx_array_strides(a)[0], 3);
    assert_int_equal(mlx_array_strides(a)[1], 1);
    assert_int_equal(mlx_array_strides(t)[0], 1);
    assert_int_equal(mlx_array_dim(a, 0), 2);
    assert_int_equal(mlx_array_dim(a, -1), 3);
    FAILS_ZERO(mlx_array_dim(a, 2), KEEL_EAXIS, "axis 2 is out of range");
    FAILS_ZERO(mlx_array_dim(a, -3), KEEL_EAXIS, "axis -3");
    mlx_array r = mlx_array_new();
    OK(mlx_slice(&r, a, AXES(1, 2), AXES(-3, -4), AXES(-1, -1), cpu));
    /* Signed zero, although the dtype is unsigned. */
    assert_int_equal((int64_t)mlx_array_strides(r)[1], -1);
    assert_text(r, "array([[5, 4, 3],\n       [2, 1, 0]], dtype=int32)");
    mlx_array_free(r);

    bool is = false;
    OK(_mlx_array_is_row_contiguous(&is, a));
    assert_true(is);
    OK(_mlx_array_is_row_contiguous(&is, t));
    assert_false(is);
    OK(_mlx_array_is_col_contiguous(&is, t));
    assert_true(is);
    OK(_mlx_array_is_contiguous(&is, t));
    assert_true(is);
    /* Whether the layout is contiguous: a broadcast array is, since its elements fill its memory;
     * an array with gaps, or a reversed one, is not. */
    mlx_array v = mlx_array_new(), one = grid(3, 1);
    OK(mlx_broadcast_to(&v, one, AXES(2, 3, 4), cpu));
    OK(_mlx_array_is_contiguous(&is, v));
    assert_true(is);
    OK(_mlx_array_is_row_contiguous(&is, v));
    assert_false(is);
    OK(mlx_slice(&v, a, AXES(0, 0), AXES(2, 2), AXES(1, 1), cpu));
    OK(_mlx_array_is_contiguous(&is, v));
    assert_false(is);
    OK(mlx_slice(&v, a, AXES(1, 2), AXES(-3, -4), AXES(-1, -1), cpu));
    OK(_mlx_array_is_contiguous(&is, v));
    assert_false(is);
    mlx_array_free(v);
    mlx_array_free(one);
    FAILS(_mlx_array_is_contiguous(NULL, t), KEEL_EARG, "the result is NULL");
    mlx_array_free(a);
    mlx_array_free(t);
}

static void test_facts_of_nothing(void **state) {
    bool is;
    FAILS_ZERO(mlx_array_ndim(no_array), KEEL_EARG, "empty array handle");
    FAILS_ZERO(mlx_array_size(no_array), KEEL_EARG, "mlx_array_size: ");
    FAILS_ZERO(mlx_array_itemsize(no_array), KEEL_EARG, "mlx_array_itemsize: ");
    FAILS_ZERO(mlx_array_nbytes(no_array), KEEL_EARG, "mlx_array_nbytes: ");
    FAILS_ZERO(mlx_array_shape(no_array), KEEL_EARG, "mlx_array_shape: ");
    FAILS_ZERO(mlx_array_strides(no_array), KEEL_EARG, "mlx_array_strides: ");
    FAILS_ZERO(mlx_array_dim(no_array, 0), KEEL_EARG, "mlx_array_dim: ");
    FAILS_ZERO(mlx_array_dtype(no_array), KEEL_EARG, "mlx_array_dtype: ");
    FAILS(_mlx_array_is_available(&is, no_array), KEEL_EARG, "empty");
    FAILS(_mlx_array_is_contiguous(&is, no_array), KEEL_EARG, "empty");
    FAILS(_mlx_array_is_row_contiguous(&is, no_array), KEEL_EARG, "empty");
    FAILS(_mlx_array_is_col_contiguous(&is, no_array), KEEL_EARG, "empty");
    FAILS(_mlx_array_wait(no_array), KEEL_EARG, "empty");
    FAILS(mlx_array_eval(no_array), KEEL_EARG, "empty");
}

static void test_dtype_sizes(void **state) {
    const size_t bytes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 8};
    for (int d = MLX_BOOL; d <= MLX_COMPLEX64; d++)
        assert_int_equal(mlx_dtype_size((mlx_dtype)d), bytes[d]);
    FAILS_ZERO(mlx_dtype_size((mlx_dtype)14), KEEL_EDTYPE, "14 is no dtype");
}

static void test_available(void **state) {
    mlx_array a = INTS(1, 2), r = mlx_array_new();
    bool is = false;
    OK(_mlx_array_is_available(&is, a));
    assert_true(is);
    OK(mlx_add(&r, a, a, cpu));
    OK(_mlx_array_is_available(&is, r));
    assert_false(is);
    OK(_mlx_array_wait(r));
    OK(_mlx_array_is_available(&is, r));
    assert_true(is);
    FAILS(_mlx_array_is_available(NULL, r), KEEL_EARG, "the result is NULL");
    mlx_array_free(a);
    mlx_array_free(r);
}

static void lifetime_body(void) {
    mlx_array a = INTS(1, 2), b = INTS(3, 4), r = mlx_array_new();
    mlx_add(&r, a, b, cpu);
    mlx_multiply(&r, r, r, cpu);
    mlx_array_eval(r);
    mlx_add(&r, r, a, cpu); /* and one that is never evaluated */
    mlx_add(&r, r, no_array, cpu);
    mlx_array_free(a);
    mlx_array_free(b);
    mlx_array_free(r);
}

static void test_no_leak(void **state) {
    assert_no_leak(lifetime_body);
}

/* An empty handle, as mlx_array_new gives it for a missing operand. */
static void test_empty_constant(void **state) {
    assert_null(mlx_array_empty.ctx);
    OK(mlx_array_free(mlx_array_empty));
    FAILS(mlx_array_eval(mlx_array_empty), KEEL_EARG, "empty");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_constant),
        cmocka_unit_test(test_empty_handles),
        cmocka_unit_test(test_set_overwrites_in_place),
        cmocka_unit_test(test_failure_leaves_the_result),
        cmocka_unit_test(test_result_may_be_an_operand),
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_set_scalars),
        cmocka_unit_test(test_new_data_copies),
        cmocka_unit_test(test_bad_data),
        cmocka_unit_test(test_managed),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_facts_of_nothing),
        cmocka_unit_test(test_dtype_sizes),
        cmocka_unit_test(test_available),
        cmocka_unit_test(test_no_leak),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
